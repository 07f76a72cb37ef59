// SPDX-License-Identifier: MIT
// Centroids as the second factor of products, in the layout of its lanes.

// The largest of all threads' numbers, in every thread.
__device__ __forceinline__ double km_block_max(double (&memory)[8], double value) {
    value = km_warp_max(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) memory[threadIdx.x / 32] = value;
    __syncthreads();
    for (int w = 0; w < 8; w++) value = fmax(value, memory[w]);
    return value;
}

// In each pass, a block a slot: the mean p of its centroids; the power of two that brings the largest coordinate of
// c - p below 1; fragments of (c - p) times that, in halves; and by what |x| and others are multiplied to bound twice
// the error of a score.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_sparse_fragments(const __grid_constant__ km_pass_args args) {
    __shared__ float mean[D];
    __shared__ double constants[K_MAX], most[8];
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int slot = blockIdx.x, index = slot % KS, k = km_ks[index];
    const float *centroids = (const float *)args.centroids + km_first_column(slot) * (long long)D;
    double largest = 0;
    for (int f = threadIdx.x; f < D; f += 256) {
        float least = centroids[f], greatest = least;
        double sum = least;
        for (int j = 1; j < k; j++) {
            const float c = centroids[j * (long long)D + f];
            least = fminf(least, c);
            greatest = fmaxf(greatest, c);
            sum += c;
        }
        mean[f] = (float)(sum / k);
        largest = fmax(largest, fmax((double)greatest - mean[f], (double)mean[f] - least));
    }
    largest = km_block_max(most, largest);
    const double scale = ldexp(1.0, largest > 0 ? max(-60, min(40, -km_exponent_above(largest))) : 0);
    // Lengths of c - p, of its halves, and of what rounding took; and the constants.
    double length = 0, rounded = 0, lost = 0;
    for (int j = threadIdx.x / 32; j < k; j += 8) {
        double squares[3] = {0, 0, 0}, constant = 0;
        for (int f = threadIdx.x % 32; f < D; f += 32) {
            const double c = centroids[j * (long long)D + f], away = c - mean[f], scaled = away * scale;
            const double half = km_low_half(km_halves((float)scaled, 0));
            squares[0] = fma(scaled, scaled, squares[0]);
            squares[1] = fma(half, half, squares[1]);
            squares[2] = fma(scaled - half, scaled - half, squares[2]);
            constant = fma(away, c + mean[f], constant);
        }
        length = fmax(length, sqrt(km_warp_sum(squares[0])));
        rounded = fmax(rounded, sqrt(km_warp_sum(squares[1])));
        lost = fmax(lost, sqrt(km_warp_sum(squares[2])));
        constant = -0.5 * scale * km_warp_sum(constant);
        if (threadIdx.x % 32 == 0) constants[j] = constant;
    }
    length = km_block_max(most, length);
    rounded = km_block_max(most, rounded);
    lost = km_block_max(most, lost);
    // Constants of one slot may all be moved by the same.
    double low = 1e300, high = -1e300;
    for (int j = 0; j < k; j++) {
        low = fmin(low, constants[j]);
        high = fmax(high, constants[j]);
    }
    const double shift = 0.5 * (low + high), constant = 0.5 * (high - low);
    if (threadIdx.x == 0) {
        // Products cut the sum of 16 of them and of the sum so far to 24 bits: 20 units of 2^-22 of the largest partial
        // sum each time, far more than was seen. The index takes CODE_BITS of a score.
        const double adding = STEPS * 20 * 0x1p-22 + ldexp(1.0, CODE_BITS - 23), up = 2 * (1 + 1e-5);
        const double by_norm = lost + adding * rounded, by_rest = length + lost + adding * rounded;
        const bool holds = constant < 16384; // halves hold the constants
        workspace.margins[slot] = {(float)(by_norm * up), (float)(by_rest * up / 1024),
                                   holds ? (float)((adding + 0x1p-31) * constant * up + 1e-13) : 1e38f, 0};
    }
    __syncthreads();
    // The words of the slot's columns: a pair of features each. Lane 4 g + t has column g, and pairs t and t + 4.
    const int width = (k + 3) / 4, first = km_first_lane_column[index];
    uint2 *fragments = workspace.fragments + slot / KS * (long long)FRAGMENT_TILES * STEPS * 32;
    for (int at = threadIdx.x; at < 4 * width * STEPS * 8; at += 256) {
        const int pair = at % 8, step = at / 8 % STEPS, own = at / 8 / STEPS, j = own,
                  lane_column = first + own / 4;
        float two[2];
        for (int i = 0; i < 2; i++) {
            const int f = 16 * step + 2 * pair + i, piece = f - D;
            two[i] = 0;
            if (f < D && j < k)
                two[i] = (float)(((double)centroids[j * (long long)D + f] - mean[f]) * scale);
            else if (f >= D && piece < 3) {
                double rest = j < k ? constants[j] - shift : piece == 0 ? -60000 : 0;
                float half = 0;
                for (int p = 0; p <= piece; p++) { // each in units of the column's value
                    rest = (rest - half) * (p ? 2048 : 1);
                    half = km_low_half(km_halves((float)rest, 0));
                }
                two[i] = half;
            }
        }
        const int column = own % 4 * 2 + lane_column % 2, tile = lane_column / 2;
        uint2 &fragment = fragments[(tile * STEPS + step) * 32 + column * 4 + pair % 4];
        (pair < 4 ? fragment.x : fragment.y) = km_halves(two[0], two[1]);
    }
}

// SPDX-License-Identifier: MIT
//@ if weighted
// Load: the largest weight.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_weights(const __grid_constant__ km_pass_args args) {
    double most = 0;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.n; i += gridDim.x * 256ll)
        most = fmax(most, (double)((const km_real *)args.weights)[i]);
    atomicMax(&km_workspace_of(args).progress->weight_bits, (unsigned long long)__double_as_longlong(most));
}

//@ end
// The least e with |value| < 2^e.
__device__ __forceinline__ int km_exponent_above(double value) {
    int exponent = 0;
    frexp(value, &exponent);
    return exponent;
}

// How many bits an integer may have so that n of them add up to less than 2^62.
__device__ __forceinline__ int km_value_bits(long long n) {
    return 62 - (64 - __clzll(n));
}

// Load: what values of each feature are multiplied by. The sum of all points stays below 2^62.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_scales(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    const long long f = blockIdx.x * 256ll + threadIdx.x;
    if (f > D) return;
    double largest = 1;
    if (f < D) largest = fmax(fabs(args.box[f]), fabs(args.box[D + f]));
    //@ if weighted
    const int weight = km_exponent_above(__longlong_as_double((long long)workspace.progress->weight_bits));
    //@ else
    const int weight = 0;
    //@ end
    const int exponent = km_value_bits(args.n) - weight - km_exponent_above(largest);
    //@ if not weighted
    if (f == D) { // counts
        workspace.scales[f] = 1;
        return;
    }
    //@ end
    //@ if form_expanded
    // The largest value gets 30 bits, but the mean of the exponents 22 at least: nearly all numbers have at most 31.
    const long long count = f < D ? (long long)workspace.exponents[D + f] : 0;
    const int mean = count ? (int)((long long)workspace.exponents[f] / count) : 0;
    const int wanted = count ? max(30 - weight - km_exponent_above(largest), 22 - mean) : 0;
    if (f < D && wanted < exponent) {
        workspace.scales[f] = ldexp(1.0, wanted);
        return;
    }
    //@ end
    workspace.scales[f] = ldexp(1.0, exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent);
}

//@ if not form_expanded
// In each pass: the table of centroids, 32 features and 32 columns a block.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_columns(const __grid_constant__ km_pass_args args) {
    __shared__ km_real square[32][33];
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_real *centroids = (const km_real *)args.centroids;
    const int x = threadIdx.x % 32, column = blockIdx.y * 32;
    const long long first = blockIdx.x * 32ll;
    for (int y = threadIdx.x / 32; y < 32; y += 8)
        square[y][x] = column + y < COLUMNS && first + x < D
                           ? centroids[(column + y) * (long long)D + first + x]
                           : (km_real)0;
    __syncthreads();
    if (column + x >= PANELS * PANEL) return;
    const int panel = (column + x) / PANEL, at = (column + x) % PANEL;
    for (int y = threadIdx.x / 32; y < 32 && first + y < D; y += 8)
        for (int copy = 0; copy < PITCH; copy += PANEL)
            workspace.table[((long long)panel * D + first + y) * PITCH + copy + at] = square[x][y];
}

//@ end
// In each pass: |c|^2 / 2 of a column, a block each, and the largest |c| of its slot. Sums that are made
// anew begin at 0.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_halves(const __grid_constant__ km_pass_args args) {
    __shared__ double sums[8];
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int column = blockIdx.x;
    //@ if sums_anew
    if (km_sums_anew(workspace, args.n))
        for (int f = threadIdx.x; f <= D; f += 256) workspace.sums[column * (D + 1ll) + f] = 0;
    //@ end
    const km_real *c = (const km_real *)args.centroids + (long long)column * D;
    double square = 0;
    for (long long f = threadIdx.x; f < D; f += 256) square = fma((double)c[f], (double)c[f], square);
    square = km_warp_sum(square);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = square;
    __syncthreads();
    if (threadIdx.x != 0) return;
    square = 0;
    for (int w = 0; w < 8; w++) square += sums[w];
    workspace.halves[column] = square / 2;
    //@ if not form_expanded
    workspace.real_halves[column] = (km_real)(square / 2);
    //@ if not float64
    atomicMax(&workspace.slots[km_slot_of(column)].norm,
              __float_as_uint(__double2float_ru(sqrt(square) * (1 + 1e-9))));
    //@ end
    //@ end
}

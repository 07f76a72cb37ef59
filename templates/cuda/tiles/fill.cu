// SPDX-License-Identifier: MIT
// Filling: the points in their order as tiles, the boxes, the prefix sums.

// Midpoint and half width of an interval; midpoint + half width and - half width lie outside of it or on its ends.
static __device__ __forceinline__ void tiles_interval(float low, float high, float &midpoint, float &half) {
    midpoint = 0.5f * low + 0.5f * high;
    half = fmaxf(__fsub_ru(high, midpoint), __fsub_ru(midpoint, low));
}

// A row of the points, read by the widest loads that its alignment allows.
struct __align__(D % 4 == 0 ? 16 : D % 2 == 0 ? 8 : 4) tiles_row {
    km_real at[D];
};

// A warp fills a tile. What is left of a tile behind the last point is zero, and lies in no box.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_fill(const km_real *rows, const unsigned *numbers, long long n, const double *scale,
                  float *points, float *boxes, long long *prefix) {
    const long long tile = blockIdx.x * (long long)(TILES_THREADS / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const long long first = tile * TILES_POINTS,
                    supers = (n + TILES_POINTS * TILES_OF_SUPER - 1) / (TILES_POINTS * TILES_OF_SUPER);
    if (tile >= supers * TILES_OF_SUPER) return;
    float *box = boxes + tile / TILES_OF_SUPER * (TILES_BOX(D) * TILES_OF_SUPER) + tile % TILES_OF_SUPER;
    if (first >= n) {
        for (int i = lane; i < TILES_BOX(D); i += 32) box[i * TILES_OF_SUPER] = 0.0f;
        return;
    }
    tiles_row x[4];
    const int here = (int)min((long long)TILES_POINTS, n - first), valid = min(max(here - 4 * lane, 0), 4);
    unsigned number[4];
#pragma unroll
    for (int c = 0; c < 4; c++) number[c] = numbers[first + min(4 * lane + c, here - 1)];
#pragma unroll
    for (int c = 0; c < 4; c++) x[c] = ((const tiles_row *)rows)[number[c]];
    float square = 0.0f;
    long long own = here;
#pragma unroll
    for (int f = 0; f < D; f++) {
        // Lanes behind the last point have that point again: it changes no box.
        float low = fminf(fminf(x[0].at[f], x[1].at[f]), fminf(x[2].at[f], x[3].at[f]));
        float high = fmaxf(fmaxf(x[0].at[f], x[1].at[f]), fmaxf(x[2].at[f], x[3].at[f]));
        double sum = 0.0;
#pragma unroll
        for (int c = 0; c < 4; c++) {
            if (c >= valid) x[c].at[f] = 0.0f;
            sum += (double)x[c].at[f];
        }
        ((float4 *)(points + (tile * D + f) * TILES_POINTS))[lane] =
            make_float4(x[0].at[f], x[1].at[f], x[2].at[f], x[3].at[f]);
        for (int away = 16; away > 0; away /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, away);
        low = tiles_warp_min(low);
        high = tiles_warp_max(high);
        float midpoint, half;
        tiles_interval(low, high, midpoint, half);
        const float outermost = fmaxf(fabsf(low), fabsf(high));
        square = __fmaf_ru(outermost, outermost, square);
        if (lane == f) own = __double2ll_rn(sum * scale[f]);
        if (lane == 0) {
            box[f * TILES_OF_SUPER] = midpoint;
            box[(D + f) * TILES_OF_SUPER] = half;
        }
    }
    if (lane == 0) box[2 * D * TILES_OF_SUPER] = square;
    if (lane <= D) prefix[(tile + 1) * TILES_PITCH(D) + lane] = own;
}

// A warp makes the box of a supertile.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_fill_supers(long long tiles, const float *boxes, float *super_boxes) {
    const long long super = blockIdx.x * (long long)(TILES_THREADS / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (super * TILES_OF_SUPER >= tiles) return;
    const float *box = boxes + super * (TILES_BOX(D) * TILES_OF_SUPER) + lane;
    float *to = super_boxes + super / TILES_GROUP_SUPERS * (TILES_BOX(D) * TILES_GROUP_SUPERS) +
                super % TILES_GROUP_SUPERS;
    const bool is_there = super * TILES_OF_SUPER + lane < tiles;
#pragma unroll
    for (int f = 0; f < D; f++) {
        const float at = box[f * TILES_OF_SUPER], wide = box[(D + f) * TILES_OF_SUPER];
        const float low = tiles_warp_min(is_there ? __fsub_rd(at, wide) : 3.4e38f);
        const float high = tiles_warp_max(is_there ? __fadd_ru(at, wide) : -3.4e38f);
        float midpoint, half;
        tiles_interval(low, high, midpoint, half);
        if (lane == 0) {
            to[f * TILES_GROUP_SUPERS] = midpoint;
            to[(D + f) * TILES_GROUP_SUPERS] = half;
        }
    }
    const float square = tiles_warp_max(is_there ? box[2 * D * TILES_OF_SUPER] : 0.0f);
    if (lane == 0) to[2 * D * TILES_GROUP_SUPERS] = square;
}

// Boxes of a sample of the points become as wide as those of all: half widths by a factor. The boxes lie `together` in
// tables.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_shrink(float *boxes, long long numbers, int together, float factor) {
    const long long i = blockIdx.x * (long long)TILES_THREADS + threadIdx.x;
    const int row = (int)(i / together % TILES_BOX(D));
    if (i < numbers && row >= D && row < 2 * D) boxes[i] *= factor;
}

// Prefix sums of a block's rows, TILES_SCANNED of them; a column is a sum. `last` gets the sums of all of them.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_prefix(long long *prefix, long long tiles, long long *last) {
    const long long first = 1 + blockIdx.x * (long long)TILES_SCANNED;
    for (int f = 0; f <= D; f++) {
        long long before = 0;
        for (int i = 0; i < TILES_SCANNED; i += TILES_THREADS) {
            const long long row = first + i + threadIdx.x;
            long long *at = prefix + row * TILES_PITCH(D) + f, total, own = row <= tiles ? *at : 0;
            const long long sum = tiles_before(own, total);
            if (row <= tiles) *at = before + sum + own;
            before += total;
        }
        if (threadIdx.x == 0) last[blockIdx.x * (long long)TILES_PITCH(D) + f] = before;
    }
}

// Adds what stands before each block. The first row is zero.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_prefix_add(long long *prefix, long long tiles, const long long *last) {
    __shared__ long long before[TILES_PITCH(D)];
    if (threadIdx.x <= D) {
        long long sum = 0;
        for (unsigned block = 0; block < blockIdx.x; block++)
            sum += last[block * (long long)TILES_PITCH(D) + threadIdx.x];
        before[threadIdx.x] = sum;
        if (blockIdx.x == 0) prefix[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TILES_SCANNED * TILES_PITCH(D); i += TILES_THREADS) {
        const long long row = 1 + blockIdx.x * (long long)TILES_SCANNED + i / TILES_PITCH(D);
        const int f = i % TILES_PITCH(D);
        if (row <= tiles && f <= D) prefix[row * TILES_PITCH(D) + f] += before[f];
    }
}

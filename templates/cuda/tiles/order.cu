// SPDX-License-Identifier: MIT
// The order of points: a code for each, by which they are sorted.

enum { TILES_CODED_FEATURES = TILES_CODED(int(D)), TILES_BITS = TILES_CODE_BITS(int(D)) };

// The place along a Hilbert curve of a point whose coordinates have TILES_BITS bits each (J. Skilling,
// "Programming the Hilbert curve", 2004).
static __device__ __forceinline__ unsigned tiles_hilbert(unsigned (&x)[TILES_CODED_FEATURES]) {
#pragma unroll
    for (int bit = TILES_BITS - 1; bit > 0; bit--) {
        const unsigned below = (1u << bit) - 1;
#pragma unroll
        for (int f = 0; f < TILES_CODED_FEATURES; f++) {
            const bool is_set = x[f] >> bit & 1;
            const unsigned swapped = is_set ? 0 : (x[0] ^ x[f]) & below;
            x[f] ^= swapped;
            x[0] ^= is_set ? below : swapped;
        }
    }
    unsigned turned = 0;
#pragma unroll
    for (int f = 1; f < TILES_CODED_FEATURES; f++) x[f] ^= x[f - 1];
#pragma unroll
    for (int bit = TILES_BITS - 1; bit > 0; bit--)
        if (x[TILES_CODED_FEATURES - 1] >> bit & 1) turned ^= (1u << bit) - 1;
    unsigned code = 0;
#pragma unroll
    for (int bit = TILES_BITS - 1; bit >= 0; bit--)
#pragma unroll
        for (int f = 0; f < TILES_CODED_FEATURES; f++) code = code << 1 | ((x[f] ^ turned) >> bit & 1);
    return code;
}

// The key of each point, and its number; of a sample, 32 points in a row of each 32 x step.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_keys(const km_real *points, long long n, const km_tiles_code *code, unsigned *keys,
                  unsigned *numbers, int step) {
    __shared__ unsigned short buckets[TILES_CODED_FEATURES][TILES_CELLS];
    for (int i = threadIdx.x; i < TILES_CODED_FEATURES * TILES_CELLS; i += TILES_THREADS)
        buckets[i / TILES_CELLS][i % TILES_CELLS] = code->buckets[i / TILES_CELLS][i % TILES_CELLS];
    __syncthreads();
    for (long long i = blockIdx.x * (long long)TILES_THREADS + threadIdx.x; i < n;
         i += gridDim.x * (long long)TILES_THREADS) {
        unsigned x[TILES_CODED_FEATURES];
        const long long number = i / 32 * 32 * step + i % 32;
#pragma unroll
        for (int f = 0; f < TILES_CODED_FEATURES; f++) {
            const float at = ((float)points[number * D + code->order[f]] - code->low[f]) * code->scale[f];
            x[f] = buckets[f][min(max((int)at, 0), TILES_CELLS - 1)];
        }
        keys[i] = tiles_hilbert(x);
        numbers[i] = (unsigned)number;
    }
}

// How many keys of each block's points have each digit: counts[digit][block].
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_count(const unsigned *keys, long long n, int shift, unsigned *counts) {
    __shared__ unsigned found[1 << TILES_DIGIT_BITS];
    found[threadIdx.x] = 0;
    __syncthreads();
    const long long first = blockIdx.x * (long long)TILES_SORTED;
#pragma unroll
    for (int i = 0; i < TILES_SORTED; i += TILES_THREADS)
        if (first + i + threadIdx.x < n)
            atomicAdd(&found[keys[first + i + threadIdx.x] >> shift & ((1 << TILES_DIGIT_BITS) - 1)], 1u);
    __syncthreads();
    counts[threadIdx.x * (long long)gridDim.x + blockIdx.x] = found[threadIdx.x];
}

// The sum of a block's values before each thread's own; `total` is that of all.
template <typename Number>
static __device__ __forceinline__ Number tiles_before(Number value, Number &total) {
    __shared__ Number warps[TILES_THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Number sum = value;
    for (int away = 1; away < 32; away *= 2) {
        const Number other = __shfl_up_sync(0xffffffffu, sum, away);
        if (lane >= away) sum += other;
    }
    __syncthreads(); // all threads have read the sums of the call before
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    Number before = 0;
    total = 0;
    for (int w = 0; w < TILES_THREADS / 32; w++) {
        if (w < warp) before += warps[w];
        total += warps[w];
    }
    return before + sum - value;
}

// Three launches turn counts into the sums of the counts before them: sums of blocks, sums before blocks, and all.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_scan_sums(const unsigned *counts, long long size, unsigned *sums) {
    const long long first = blockIdx.x * (long long)TILES_SCANNED;
    unsigned sum = 0, total;
    for (int i = 0; i < TILES_SCANNED; i += TILES_THREADS)
        if (first + i + threadIdx.x < size) sum += counts[first + i + threadIdx.x];
    tiles_before(sum, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_scan_blocks(unsigned *sums, long long size) {
    unsigned before = 0;
    for (long long first = 0; first < size; first += TILES_THREADS) {
        const long long i = first + threadIdx.x;
        unsigned total, own = i < size ? sums[i] : 0, at = tiles_before(own, total);
        if (i < size) sums[i] = before + at;
        before += total;
    }
}

extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_scan(unsigned *counts, long long size, const unsigned *sums) {
    unsigned before = sums[blockIdx.x];
    for (int i = 0; i < TILES_SCANNED; i += TILES_THREADS) {
        const long long at = blockIdx.x * (long long)TILES_SCANNED + i + threadIdx.x;
        unsigned total, own = at < size ? counts[at] : 0, sum = tiles_before(own, total);
        if (at < size) counts[at] = before + sum;
        before += total;
    }
}

// Moves keys and numbers to their places by a digit; equal digits keep their order. They are put in order
// within the block first, so that what is adjacent there goes to adjacent places. Each warp goes through a
// part of the block's points in order.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_move(const unsigned *keys, const unsigned *numbers, long long n, int shift,
                  const unsigned *places, unsigned *keys_out, unsigned *numbers_out) {
    enum { DIGITS = 1 << TILES_DIGIT_BITS, WARPS = TILES_THREADS / 32, TURNS = TILES_SORTED / TILES_THREADS };
    __shared__ unsigned found[WARPS][DIGITS], away[DIGITS];
    __shared__ unsigned sorted_keys[TILES_SORTED], sorted_numbers[TILES_SORTED];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long block_first = blockIdx.x * (long long)TILES_SORTED,
                    first = block_first + warp * (TILES_SORTED / WARPS) + lane;
    for (int i = threadIdx.x; i < WARPS * DIGITS; i += TILES_THREADS) found[i / DIGITS][i % DIGITS] = 0;
    __syncthreads();
    unsigned key[TURNS], rank[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const long long i = first + turn * 32;
        key[turn] = i < n ? keys[i] : 0;
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const bool is_there = first + turn * 32 < n;
        const unsigned digit = is_there ? key[turn] >> shift & (DIGITS - 1) : DIGITS;
        const unsigned same = __match_any_sync(0xffffffffu, digit), below = same & ((1u << lane) - 1);
        if (is_there) rank[turn] = found[warp][digit] + __popc(below);
        __syncwarp();
        if (is_there && !below) found[warp][digit] += __popc(same);
        __syncwarp();
    }
    __syncthreads();
    { // where each warp's keys of a digit begin in the block, and how far away from there they go
        unsigned sum = 0, total;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += found[w][threadIdx.x];
        unsigned begin = tiles_before(sum, total);
        away[threadIdx.x] = places[threadIdx.x * (long long)gridDim.x + blockIdx.x] - begin;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const unsigned here = found[w][threadIdx.x];
            found[w][threadIdx.x] = begin;
            begin += here;
        }
    }
    __syncthreads();
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        const long long i = first + turn * 32;
        if (i >= n) continue;
        const unsigned place = found[warp][key[turn] >> shift & (DIGITS - 1)] + rank[turn];
        sorted_keys[place] = key[turn];
        sorted_numbers[place] = numbers[i];
    }
    __syncthreads();
    const int count = (int)min((long long)TILES_SORTED, n - block_first);
    for (int i = threadIdx.x; i < count; i += TILES_THREADS) {
        const unsigned moved = sorted_keys[i], place = away[moved >> shift & (DIGITS - 1)] + i;
        keys_out[place] = moved;
        numbers_out[place] = sorted_numbers[i];
    }
}

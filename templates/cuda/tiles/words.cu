// SPDX-License-Identifier: MIT
// What the kernels of tiles share.

static __device__ __forceinline__ float tiles_warp_max(float value) {
    for (int away = 16; away > 0; away /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, away));
    return value;
}

static __device__ __forceinline__ float tiles_warp_min(float value) {
    return -tiles_warp_max(-value);
}

static __device__ __forceinline__ int tiles_warp_sum(int value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffffu, value);
#else
    for (int away = 16; away > 0; away /= 2) value += __shfl_xor_sync(0xffffffffu, value, away);
    return value;
#endif
}

static __device__ __forceinline__ int tiles_lowest(unsigned mask) {
    return __ffs((int)mask) - 1;
}

static __device__ __forceinline__ int tiles_lowest(unsigned long long mask) {
    return __ffsll((long long)mask) - 1;
}

static __device__ __forceinline__ int tiles_count(tiles_mask mask) {
    return sizeof mask == 4 ? __popc((unsigned)mask) : __popcll(mask);
}

// Whether a K takes part in this pass, by tiles.
static __device__ __forceinline__ bool tiles_takes(const km_tiles_args &args, int restart, int q) {
    return args.served >> q & 1 && args.active[restart * args.ks_count + q];
}

// The centroids of a restart, and its integer sums in two halves, in shared memory.
struct tiles_shared {
    float *rows; // coordinates and -|c|^2 / 2
    unsigned *low, *high;
};

static __device__ __forceinline__ tiles_shared tiles_begin(const km_tiles_args &args, char *memory,
                                                           int restart) {
    const int numbers = args.rows * (D + 1);
    const float *centroids = args.centroids + (long long)restart * args.rows * D;
    const tiles_shared shared = {(float *)memory, (unsigned *)memory + numbers,
                                 (unsigned *)memory + 2 * numbers};
    for (int row = threadIdx.x; row < args.rows; row += blockDim.x) {
        float square = 0.0f;
        for (int f = 0; f < D; f++) {
            const float c = centroids[row * D + f];
            shared.rows[row * (D + 1) + f] = c;
            square = fmaf(c, c, square);
        }
        shared.rows[row * (D + 1) + D] = -0.5f * square;
    }
    for (int i = threadIdx.x; i < numbers; i += blockDim.x) shared.low[i] = shared.high[i] = 0;
    __syncthreads();
    return shared;
}

static __device__ __forceinline__ void tiles_add(const tiles_shared &shared, int row, int f,
                                                 long long value) {
    const int at = row * (D + 1) + f;
    const unsigned low = (unsigned)value, before = atomicAdd(&shared.low[at], low);
    const unsigned high = (unsigned)((unsigned long long)value >> 32) + (before + low < low);
    if (high) atomicAdd(&shared.high[at], high);
}

// Adds the block's sums to those of all.
static __device__ __forceinline__ void tiles_end(const km_tiles_args &args, const tiles_shared &shared,
                                                 int restart) {
    __syncthreads();
    for (int i = threadIdx.x; i < args.rows * (D + 1); i += blockDim.x) {
        const unsigned long long sum = (unsigned long long)shared.high[i] << 32 | shared.low[i];
        if (sum) atomicAdd(&args.sums[(long long)restart * args.rows * (D + 1) + i], sum);
    }
}

// Rounding. u is half a unit of the last place of a float, T_j = |c_j|^2 / 2, R the largest squared norm of a
// point of a box. A score x . c_j - T_j errs by at most (d + 2) u (2 T_j + R / 2), twice that where it is
// taken from the box's midpoint on; the width of a box along c_j - c_z by (d + 2) u (T_j + T_z + R). So with
// m = 8 (d + 4) u, the comparison of two centroids in a box errs by less than m (T_j + T_z + R). A centroid
// within that margin stays a candidate; a point between candidates within it is resolved in double.
constexpr float TILES_MARGIN = 8 * (D + 4) * 5.9604644775390625e-8f;

// SPDX-License-Identifier: MIT
// For several steps: sums over a block of threads, the weight of a point.
//@ need weighted
// Sums of COUNT values over a block of KM_THREADS threads, in a fixed order. Every thread gets them.
template <int COUNT> __device__ __forceinline__ void km_block_sums(double *values) {
    __shared__ double warps[COUNT][8];
    for (int step = 16; step > 0; step >>= 1)
        for (int i = 0; i < COUNT; i++) values[i] += __shfl_xor_sync(0xffffffffu, values[i], step);
    __syncthreads(); // all threads have read the sums of the call before
    for (int i = 0; i < COUNT; i++) {
        if (threadIdx.x % 32 == 0) warps[i][threadIdx.x / 32] = values[i];
        values[i] = 0.0;
    }
    __syncthreads();
    for (int w = 0; w < 8; w++)
        for (int i = 0; i < COUNT; i++) values[i] += warps[i][w];
}

//@ if weighted
__device__ __forceinline__ double km_weight(const double *weights, long long i) {
    return weights[i];
}
//@ else
__device__ __forceinline__ double km_weight(const double *, long long) {
    return 1.0;
}
//@ end

// SPDX-License-Identifier: MIT
//@ need type label_type d s ks_count k_max copies weighted float64 ks
// ==== Numbers and types
typedef $type km_real;
typedef $label_type km_label; // one label of one point, where labels are kept between passes

enum {
    D = $d,              // features
    S = $s,              // clusters of one copy: the sum of the K list
    KS = $ks_count,      // entries of the K list
    K_MAX = $k_max,      // the largest of them
    COPIES = $copies,    // restarts in flight
    WEIGHTED = $weighted // points carry weights
};

// ==== What the kernels of a pass are given
//@ verbatim cuda/abi.h

// ==== Words of the pass and of the steps

// The K list and where each K's centroids start.
__constant__ const int km_ks[KS] = {
    //@ for k in ks
    $k,
    //@ end
};
__constant__ const int km_offsets[KS] = {
    //@ for k in ks
    $k_offset,
    //@ end
};

__device__ __forceinline__ int km_is_finite(double value) {
    return fabs(value) <= 1.7976931348623157e308;
}

// Sums of COUNT values over a block of KM_THREADS threads in a fixed order, in every thread.
template <int COUNT> __device__ __forceinline__ void km_block_sums(double *values) {
    __shared__ double warps[COUNT][8];
    for (int step = 16; step > 0; step >>= 1)
        for (int i = 0; i < COUNT; i++) values[i] += __shfl_xor_sync(0xffffffffu, values[i], step);
    __syncthreads(); // the previous call's readers are done
    for (int i = 0; i < COUNT; i++) {
        if (threadIdx.x % 32 == 0) warps[i][threadIdx.x / 32] = values[i];
        values[i] = 0.0;
    }
    __syncthreads();
    for (int w = 0; w < 8; w++)
        for (int i = 0; i < COUNT; i++) values[i] += warps[i][w];
}

__device__ __forceinline__ double km_block_sum(double value) {
    km_block_sums<1>(&value);
    return value;
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

// ==== The pass

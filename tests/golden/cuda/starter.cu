// Of the text of {features: 10, clusters: 3..12, target: cuda:sm_90} starting: The starting pass; Its update
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== The starting pass ====================================================================================
typedef float km_real;

enum {
    D = 10,
    BITS = 22, // as in templates/cuda/tensor
    BINS = 64,
    THREADS = 128,
    PITCH = (D + 1 + 3) / 4 *
            4 // of a row of centroids in shared memory: its features, and half its square behind
};

#define KM_BOTH __device__ __forceinline__
// ... lines of a template
// ... 25 definitions

#endif
// What the kernels of a starting pass are given beside km_pass_args, whose workspace is their own: a contract with the
// host.
#ifndef KM_STARTER_CUDA_H
#define KM_STARTER_CUDA_H

// ... 3 definitions

#endif
#define KM_UNROLL_FOR(...) _Pragma("unroll") for (__VA_ARGS__)
#define KM_UNROLL_1_FOR(...) _Pragma("unroll 1") for (__VA_ARGS__)
#define KM_UNROLL_2_FOR(...) _Pragma("unroll 2") for (__VA_ARGS__)

// ... 12 definitions

// The nearest centroid in double, ties to the lowest index: the sums of squares are those of the plan's form, in its
// order.
static __device__ __noinline__ int km_nearest_in_double(const float *x, const float *c, int k) {
    // ... lines of a template
// ... 8 definitions

// ==== Its update ===========================================================================================
// To the update the list of K is known by these names.
#define KS km_list.ks_count
#define S km_list.s
#define km_ks km_list.ks
#define km_offsets km_list.offsets
// Update: the blocks of a slot compute new centroids from the totals, and the last of them decides what the slot does
// next. The last block of all writes the report. The host queues iterations ahead of it.

// ... 3 definitions

// SPDX-License-Identifier: MIT
// Replaces (value, index) by the other one where that is farther, or as far and has the lower index.
__device__ __forceinline__ void farthest_of(double *value, long long *index, double other,
                                            long long other_index) {
    if (other > *value || (other == *value && other_index < *index)) {
        *value = other;
        *index = other_index;
    }
}

// The farthest of a block of threads, in thread 0.
static __device__ void farthest_of_block(double *value, long long *index) {
    __shared__ double values[KM_THREADS];
    __shared__ long long indices[KM_THREADS];
    values[threadIdx.x] = *value;
    indices[threadIdx.x] = *index;
    __syncthreads();
    for (int half = KM_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            farthest_of(values + threadIdx.x, indices + threadIdx.x, values[threadIdx.x + half],
                        indices[threadIdx.x + half]);
        __syncthreads();
    }
    *value = values[0];
    *index = indices[0];
}

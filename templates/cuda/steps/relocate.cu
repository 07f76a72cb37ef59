// SPDX-License-Identifier: MIT
// Relocate: finds the points farthest from their own centroids, one after the other. km_assign has written each point's
// squared distance. A point that was taken, and points with the same coordinates, get a distance of 0.

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

// One subchunk a block. Drops points that equal the last taken one (picks[taken - 1]) or have no weight. Finds the
// farthest of the others whose distance is more than rounding: more than square_min, and than rounding2 times its
// own |x|^2.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_subchunk(const km_real *points, const double *weights, long long n, double square_min,
                         double rounding2, double *nearest, const long long *picks, long long taken,
                         double *subchunk_values, long long *subchunk_indices) {
    const long long last = taken > 0 ? picks[taken - 1] : -1;
    double value = 0.0;
    long long index = n;
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p++) {
        const long long i = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p * KM_THREADS + threadIdx.x;
        if (i >= n) break;
        double square = km_weight(weights, i) > 0.0 ? nearest[i] : 0.0;
        if (last >= 0 && square > 0.0) {
            int f = 0;
            while (f < D && points[i * D + f] == points[last * D + f]) f++;
            if (f == D) nearest[i] = square = 0.0;
        }
        if (!(square > square_min)) continue;
        double size = 0.0;
#pragma unroll 1
        for (int f = 0; f < D; f++)
            size = __fma_rn((double)points[i * D + f], (double)points[i * D + f], size);
        if (square > __dmul_rn(rounding2, size)) farthest_of(&value, &index, square, i);
    }
    farthest_of_block(&value, &index);
    if (threadIdx.x == 0) {
        subchunk_values[blockIdx.x] = value;
        subchunk_indices[blockIdx.x] = index;
    }
}

// One block: picks[taken] is the farthest point of all subchunks, or -1 where there is none.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_pick(const double *subchunk_values, const long long *subchunk_indices, long long subchunks,
                     long long n, long long *picks, long long taken) {
    double value = 0.0;
    long long index = n;
    for (long long subchunk = threadIdx.x; subchunk < subchunks; subchunk += KM_THREADS)
        farthest_of(&value, &index, subchunk_values[subchunk], subchunk_indices[subchunk]);
    farthest_of_block(&value, &index);
    if (threadIdx.x == 0) picks[taken] = value > 0.0 ? index : -1;
}

// SPDX-License-Identifier: MIT
// Relocate: the points farthest from their own centroids, one after the other. km_assign has left each point's
// squared distance; a point that was taken, and those with the same coordinates, are out by a distance of 0.

// Takes (value, index) when it is farther, or as far and earlier.
__device__ __forceinline__ void far_take(double *value, long long *index, double other,
                                         long long other_index) {
    if (other > *value || (other == *value && other_index < *index)) {
        *value = other;
        *index = other_index;
    }
}

// The farthest of a block of threads, in thread 0.
static __device__ void far_of_block(double *value, long long *index) {
    __shared__ double values[KM_THREADS];
    __shared__ long long indices[KM_THREADS];
    values[threadIdx.x] = *value;
    indices[threadIdx.x] = *index;
    __syncthreads();
    for (int half = KM_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            far_take(values + threadIdx.x, indices + threadIdx.x, values[threadIdx.x + half],
                     indices[threadIdx.x + half]);
        __syncthreads();
    }
    *value = values[0];
    *index = indices[0];
}

// A unit of points: drops those that equal the last taken point (picks[taken - 1]) or weigh nothing, and finds the
// farthest of the rest that are farther than rounding: than square_min, and than rounding2 of the point's own |x|^2.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_block(const km_real *points, const double *weights, long long n, double square_min,
                      double rounding2, double *nearest, const long long *picks, long long taken,
                      double *unit_values, long long *unit_indices) {
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
        if (square > __dmul_rn(rounding2, size)) far_take(&value, &index, square, i);
    }
    far_of_block(&value, &index);
    if (threadIdx.x == 0) {
        unit_values[blockIdx.x] = value;
        unit_indices[blockIdx.x] = index;
    }
}

// One block of threads: picks[taken] = the farthest of all units, -1 when there is none.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_pick(const double *unit_values, const long long *unit_indices, long long units, long long n,
                     long long *picks, long long taken) {
    double value = 0.0;
    long long index = n;
    for (long long unit = threadIdx.x; unit < units; unit += KM_THREADS)
        far_take(&value, &index, unit_values[unit], unit_indices[unit]);
    far_of_block(&value, &index);
    if (threadIdx.x == 0) picks[taken] = value > 0.0 ? index : -1;
}

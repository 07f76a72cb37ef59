// SPDX-License-Identifier: MIT
// Relocate: as for dense points.

//@ include cuda/steps/farthest.cu

// Whether two points have the same coordinates; stored zeros are as none.
static __device__ bool sparse_equal(const km_sparse_table &points, long long i, long long other) {
    const km_row a = km_row_of(points, i), b = km_row_of(points, other);
    const km_real *values = (const km_real *)points.values;
    const km_index *indices = (const km_index *)points.indices;
    for (unsigned at = 0, other_at = 0;; at++, other_at++) {
        while (at < a.count && values[a.begin + at] == (km_real)0) at++;
        while (other_at < b.count && values[b.begin + other_at] == (km_real)0) other_at++;
        if (at == a.count || other_at == b.count) return at == a.count && other_at == b.count;
        if (indices[a.begin + at] != indices[b.begin + other_at] ||
            values[a.begin + at] != values[b.begin + other_at])
            return false;
    }
}

// One subchunk a block. Drops points that equal the last taken one (picks[taken - 1]) or have no weight. Finds the
// farthest of the others whose distance is more than rounding: more than square_min, and than rounding2 times its
// own |x|^2.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_subchunk(const void *table, const double *weights, long long n, double square_min,
                         double rounding2, double *nearest, const long long *picks, long long taken,
                         double *subchunk_values, long long *subchunk_indices) {
    const km_sparse_table &points = *(const km_sparse_table *)table;
    const long long last = taken > 0 ? picks[taken - 1] : -1;
    double value = 0.0;
    long long index = n;
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p++) {
        const long long i = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p * KM_THREADS + threadIdx.x;
        if (i >= n) break;
        double square = km_weight(weights, i) > 0.0 ? nearest[i] : 0.0;
        if (last >= 0 && square > 0.0 && sparse_equal(points, i, last)) nearest[i] = square = 0.0;
        const double norm = points.norms[i];
        if (square > square_min && square > __dmul_rn(rounding2, norm * norm))
            farthest_of(&value, &index, square, i);
    }
    farthest_of_block(&value, &index);
    if (threadIdx.x == 0) {
        subchunk_values[blockIdx.x] = value;
        subchunk_indices[blockIdx.x] = index;
    }
}

//@ include cuda/steps/farthest_pick.cu

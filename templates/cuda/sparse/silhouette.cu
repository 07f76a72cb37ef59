// SPDX-License-Identifier: MIT
// Silhouette: as for dense points, but by distances in double; some lanes have a point.

struct sparse_terms {
    double spread, factor; // v_j and n_j / (n_j - 1)
};

// The silhouette of a point with one model, in each of its lanes.
__device__ __forceinline__ double sparse_silhouette(const km_sparse_table &points, const km_row &row,
                                                    const double *centroids, const double *means,
                                                    const sparse_terms *terms, long long pitch, int k,
                                                    int lanes) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double square = 0.0, own = infinity, other = infinity;
    const int label = sparse_search(&square, points, row, centroids, pitch, k, lanes).label;
    for (int j = threadIdx.x % lanes; j < k; j += lanes) {
        const double dot = sparse_dot_of(points, row, means + j, pitch).dot;
        const double mean =
            sparse_square(square, __dsub_rn(dot, means[D * (long long)pitch + j])) + terms[j].spread;
        if (j == label)
            own = mean;
        else
            other = fmin(other, mean);
    }
    for (int width = 1; width < lanes; width *= 2) {
        own = fmin(own, __shfl_xor_sync(0xffffffffu, own, width));
        other = fmin(other, __shfl_xor_sync(0xffffffffu, other, width));
    }
    const double factor = terms[label].factor, inside = own * factor,
                 larger = inside > other ? inside : other;
    return factor > 0.0 && larger > 0.0 ? (other - inside) / larger : 0.0;
}

// One block works on KM_SILHOUETTE_POINTS points; each thread has a sum of each model in shared memory, and their sums
// become partial[block][model].
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_silhouette(const __grid_constant__ km_silhouette_args args, const double *weights, double *partial,
                  const double *table, long long pitch) {
    extern __shared__ double silhouette_sums[]; // [models][KM_THREADS]
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    const long long first = blockIdx.x * (long long)KM_SILHOUETTE_POINTS;
    const int count =
        (int)(args.count - first < KM_SILHOUETTE_POINTS ? args.count - first : KM_SILHOUETTE_POINTS);
    for (int m = 0; m < args.models; m++) {
        const int k = args.ks[m], lanes = sparse_lanes(k);
        const long long at = args.rows[m];
        double sum = 0.0;
        for (int p = threadIdx.x / lanes; p / (32 / lanes) * (32 / lanes) < count; p += KM_THREADS / lanes) {
            const bool there = p < count;
            const km_row row = there ? km_row_of(points, first + p) : km_row{0, 0};
            const double value =
                sparse_silhouette(points, row, table + at, table + args.mean_rows[m],
                                  (const sparse_terms *)args.exact_terms + at, pitch, k, lanes);
            if (there && threadIdx.x % lanes == 0) sum += km_weight(weights, first + p) * value;
        }
        silhouette_sums[m * KM_THREADS + threadIdx.x] = sum;
    }
    __syncthreads();
    for (int m = threadIdx.x / 32; m < args.models; m += KM_THREADS / 32) {
        double sum = 0.0;
        for (int at = threadIdx.x % 32; at < KM_THREADS; at += 32)
            sum += silhouette_sums[m * KM_THREADS + at];
        for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) partial[blockIdx.x * (long long)args.models + m] = sum;
    }
}

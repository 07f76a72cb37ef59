// SPDX-License-Identifier: MIT
// Takes all k clusters, whose centroids (or means) are the rows of `table`, for FINISH_POINTS points x[0], x[1], ...
// `here` are their features: all where a row is in registers.
template <int STEP>
__device__ __forceinline__ void silhouette_search(silhouette_point *found, km_real (*here)[STEP_FEATURES],
                                                  const km_real *const *x, const km_real *table,
                                                  const silhouette_terms<km_real> *terms, int k) {
#pragma unroll(STEP_ROW_IN_REGISTERS ? 4 : 1)
    for (int j = 0; j < k; j += FINISH_ROWS) {
        km_real square[FINISH_ROWS][FINISH_POINTS] = {};
        finish_add_squares(square, here, x, table, j, k);
#pragma unroll
        for (int r = 0; r < FINISH_ROWS; r++) {
            if (j + r >= k) break;
            const silhouette_terms<km_real> own = terms[j + r];
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++) silhouette_take<STEP>(found[p], square[r][p], j + r, own);
        }
    }
}

// Writes partial[block][model] from the threads' sums in shared memory.
__device__ __forceinline__ void silhouette_write(double *partial, const double *sums, int models) {
    __syncthreads();
    for (int m = threadIdx.x / 32; m < models; m += KM_THREADS / 32) {
        double sum = 0.0;
        for (int at = threadIdx.x % 32; at < KM_THREADS; at += 32) sum += sums[m * KM_THREADS + at];
        for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) partial[blockIdx.x * (long long)models + m] = sum;
    }
}

// One block works on KM_SILHOUETTE_POINTS points; each thread has a sum of each model in shared memory, and their sums
// become partial[block][model].
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_silhouette(const __grid_constant__ km_silhouette_args args, const double *weights, double *partial) {
    extern __shared__ double silhouette_sums[]; // [models][KM_THREADS]
    const long long first = blockIdx.x * (long long)KM_SILHOUETTE_POINTS;
    const int count =
        (int)(args.count - first < KM_SILHOUETTE_POINTS ? args.count - first : KM_SILHOUETTE_POINTS);
    const km_real *points = (const km_real *)args.points + first * D;
    const silhouette_terms<km_real> *terms = (const silhouette_terms<km_real> *)args.terms;
    for (int m = 0; m < args.models; m++) silhouette_sums[m * KM_THREADS + threadIdx.x] = 0.0;
    for (int base = threadIdx.x; base < count; base += FINISH_POINTS * KM_THREADS) {
        const km_real *x[FINISH_POINTS];
        km_real here[FINISH_POINTS][STEP_FEATURES];
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_THREADS;
            x[p] = points + (long long)(i < count ? i : 0) * D;
            if (STEP_ROW_IN_REGISTERS) step_load(here[p], x[p], 0);
        }
#pragma unroll 1
        for (int m = 0; m < args.models; m++) {
            const int k = args.ks[m];
            const long long row = args.rows[m], mean_row = args.mean_rows[m];
            const km_real *table = (const km_real *)args.table;
            silhouette_point found[FINISH_POINTS];
            double sum = 0.0;
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++) found[p] = silhouette_far();
            if (row == mean_row) {
                silhouette_search<SILHOUETTE_BOTH>(found, here, x, table + row * D, terms + row, k);
            } else {
                silhouette_search<SILHOUETTE_LABELS>(found, here, x, table + row * D, terms + row, k);
                silhouette_search<SILHOUETTE_MEANS>(found, here, x, table + mean_row * D, terms + row, k);
            }
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++) {
                const int i = base + p * KM_THREADS;
                if (i >= count) break;
                double value = silhouette_value(found[p].own, found[p].other, found[p].factor);
                //@ if not float64
                if (silhouette_is_open(found[p]))
                    value = silhouette_exact(x[p], args.centroids + row * D, args.centroids + mean_row * D,
                                             (const silhouette_terms<double> *)args.exact_terms + row, k);
                //@ end
                sum += km_weight(weights, first + i) * value;
            }
            silhouette_sums[m * KM_THREADS + threadIdx.x] += sum;
        }
    }
    silhouette_write(partial, silhouette_sums, args.models);
}

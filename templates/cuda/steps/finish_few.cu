// SPDX-License-Identifier: MIT
// Sums of a cluster in km_finish_few_clusters: a column for each thread, so that no thread waits for another; and
// counts.
//@ if weighted
enum { FINISH_SSE, FINISH_DISTANCE, FINISH_MARGIN, FINISH_WEIGHT, FINISH_NUMBERS };
//@ else
enum { FINISH_SSE, FINISH_DISTANCE, FINISH_MARGIN, FINISH_NUMBERS }; // every point weighs 1
//@ end
static_assert(FINISH_NUMBERS * 8 + 4 == (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES),
              "as the engine knows");

__device__ __forceinline__ void finish_add(double *sums, unsigned *counts, const finish_point &point,
                                           double weight) {
    double *column = sums + point.label * (FINISH_NUMBERS * KM_FINISH_THREADS);
    column[FINISH_SSE * KM_FINISH_THREADS] += weight * point.square;
    column[FINISH_DISTANCE * KM_FINISH_THREADS] += weight * point.distance;
    column[FINISH_MARGIN * KM_FINISH_THREADS] += weight * point.margin;
    //@ if weighted
    column[FINISH_WEIGHT * KM_FINISH_THREADS] += weight;
    //@ end
    counts[point.label * KM_FINISH_THREADS] += 1;
}

// The sum of the columns of one number; every lane of the warp gets it.
template <typename Number> __device__ __forceinline__ Number finish_sum_columns(const Number *columns) {
    Number sum = columns[threadIdx.x % 32];
    for (int at = 32; at < KM_FINISH_THREADS; at += 32) sum += columns[at + threadIdx.x % 32];
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

__device__ __forceinline__ void finish_write(double *out, const double *sums, const unsigned *counts, int k) {
    for (int j = threadIdx.x / 32; j < k; j += KM_FINISH_THREADS / 32) {
        const double *columns = sums + j * (FINISH_NUMBERS * KM_FINISH_THREADS);
        const double count = finish_sum_columns(counts + j * KM_FINISH_THREADS);
        const double sse = finish_sum_columns(columns + FINISH_SSE * KM_FINISH_THREADS);
        const double distance = finish_sum_columns(columns + FINISH_DISTANCE * KM_FINISH_THREADS);
        const double margin = finish_sum_columns(columns + FINISH_MARGIN * KM_FINISH_THREADS);
        //@ if weighted
        const double weight = finish_sum_columns(columns + FINISH_WEIGHT * KM_FINISH_THREADS);
        //@ else
        const double weight = count;
        //@ end
        if (threadIdx.x % 32) continue;
        out[j * KM_FINISH_SUMS + KM_FINISH_COUNT] = count;
        out[j * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = weight;
        out[j * KM_FINISH_SUMS + KM_FINISH_SSE] = sse;
        out[j * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = distance;
        out[j * KM_FINISH_SUMS + KM_FINISH_MARGIN] = margin;
    }
}

// One chunk and one model a block. Blocks of the same chunk are next to each other, as they read the same points.
extern "C" __global__ void __launch_bounds__(KM_FINISH_THREADS, 4)
    km_finish_few_clusters(const __grid_constant__ km_assign_args args, const double *weights,
                           double *partial, long long rows_count) {
    extern __shared__ double finish_memory[];
    const int model = blockIdx.x % args.models, k = args.ks[model];
    const long long chunk = blockIdx.x / args.models, first = chunk * KM_CHUNK_POINTS;
    const int count = (int)(args.count - first < KM_CHUNK_POINTS ? args.count - first : KM_CHUNK_POINTS);
    int *labels = args.labels ? args.labels + model * args.count + first : nullptr;
    unsigned char *kept = args.kept && args.kept_at[model] >= 0
                              ? args.kept + args.kept_at[model] + args.first + first
                              : nullptr;
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + (args.first + first) * D;
    const km_real *means = finish_means(args, model);
    unsigned *counts = (unsigned *)(finish_memory + k * FINISH_NUMBERS * KM_FINISH_THREADS);
    for (int at = threadIdx.x; at < k * FINISH_NUMBERS * KM_FINISH_THREADS; at += KM_FINISH_THREADS)
        finish_memory[at] = 0.0;
    for (int j = 0; j < k; j++) counts[j * KM_FINISH_THREADS + threadIdx.x] = 0;
    for (int base = threadIdx.x; base < count; base += FINISH_POINTS * KM_FINISH_THREADS) {
        const km_real *x[FINISH_POINTS];
        finish_nearest found[FINISH_POINTS];
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_FINISH_THREADS;
            x[p] = points + (i < count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_FEATURES];
        finish_search(found, here, x, table, k);
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_FINISH_THREADS;
            if (i >= count) break;
            finish_point point =
                finish_decide(found[p], STEP_ROW_IN_REGISTERS ? here[p] : x[p], centroids, table, k);
            if (means)
                point.distance = finish_distance(STEP_ROW_IN_REGISTERS ? here[p] : x[p],
                                                 means + (long long)point.label * D);
            finish_add(finish_memory + threadIdx.x, counts + threadIdx.x, point,
                       km_weight(weights, args.first + first + i));
            if (labels) labels[i] = point.label;
            if (kept) kept[i] = (unsigned char)point.label;
        }
    }
    __syncthreads();
    finish_write(partial + (chunk * rows_count + args.rows[model]) * KM_FINISH_SUMS, finish_memory, counts,
                 k);
}

// Of the text of {features: 4, clusters: 3..5, type: float64, target: cuda:sm_90} weighted: The steps around the pass (whole); Loading (whole); Seeding (whole); Finishing (whole); Silhouettes (whole); Relocation (whole); The update (whole)
// "..." stands for what a template or an earlier part shows.

// ... 22 definitions

__device__ __forceinline__ double km_weight(const double *weights, long long i) {
    return weights[i];
}
// For several steps: rows of points.
enum { KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK };

// ... 6 definitions

// ... 18 definitions

// ... 16 definitions

// Works on a task. Where `update`, compares the distances with those to the last pick. Adds to sums[c * KM_THREADS] the
// inertia of the points with candidate c: w times the smaller of the squared distances to all picks (`best`) and to the
// candidate.
template <int POINTS>
__device__ __forceinline__ void
seed_process_task(double *sums, km_real *best, km_real (*x)[STEP_FEATURES], const km_seed_args &args,
                  const seed_rows &rows, const seed_points &at, int candidates, bool update, bool first) {
    km_real square[SEED_ROWS][POINTS] = {};
    if (STEP_ROW_IN_REGISTERS && update) seed_distances<POINTS>(square[0], x, args, rows, 0, 0);
#pragma unroll 1
    for (int f = 0; f < D && !STEP_ROW_IN_REGISTERS; f += STEP_FEATURES) {
        seed_load<POINTS>(x, at, f);
#pragma unroll
        for (int c = 0; c < SEED_ROWS; c++)
            if (c == 0 ? update : c <= candidates) seed_distances<POINTS>(square[c], x, args, rows, c, f);
    }
    if (update) {
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const bool nearer = square[0][p] < best[p];
            if (nearer) best[p] = square[0][p];
            if (nearer || first) at.nearest[p * SEED_STRIDE] = best[p];
        }
    }
#pragma unroll
    for (int c = 0; c < SEED_CANDIDATES; c++) {
        if (c >= candidates) break;
        if (STEP_ROW_IN_REGISTERS) seed_distances<POINTS>(square[c + 1], x, args, rows, c + 1, 0);
        double sum = 0.0;
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real left = fmin(best[p], square[c + 1][p]);
            sum = __dadd_rn(sum, __dmul_rn(km_weight(at.weights, p * SEED_STRIDE), left));
        }
        sums[c * KM_THREADS] = __dadd_rn(sums[c * KM_THREADS], sum);
    }
}

// ... 4 definitions

// ==== Finishing ============================================================================================
// Compiled apart: finish
// Finish: labels, distances and sums of the models in one last pass. Labels are
// bitwise those of every other backend. Few clusters: km_finish_few_clusters reads the points once for each model.
// Many: km_assign writes each point's label and distances, and km_finish_chunks adds them. Both add chunk by chunk,
// in index order.

// ... 4 definitions

// Distance to a row of means.
__device__ __forceinline__ km_real finish_distance(const km_real *x, const km_real *mean) {
    km_real square = 0;
#pragma unroll(STEP_ROW_IN_REGISTERS ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        square = fma(t, t, square);
    }
    return __dsqrt_rn(square);
}

// ... 1 definition

// Decides the label of a point, from the two nearest; resolves it in double where it is ambiguous.
__device__ __forceinline__ finish_point finish_decide(const finish_nearest &found, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    return finish_of_squares(found.label, found.nearest, found.second, k);
}

// ==== Finishing: models ====================================================================================
// Compiled apart: finish/models
// Sums of a cluster in km_finish_few_clusters: a column for each thread, so that no thread waits for another; and
// counts.
enum { FINISH_SSE, FINISH_DISTANCE, FINISH_MARGIN, FINISH_WEIGHT, FINISH_NUMBERS };
static_assert(FINISH_NUMBERS * 8 + 4 == (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES),
              "as the engine knows");

__device__ __forceinline__ void finish_add(double *sums, unsigned *counts, const finish_point &point,
                                           double weight) {
    double *column = sums + point.label * (FINISH_NUMBERS * KM_FINISH_THREADS);
    column[FINISH_SSE * KM_FINISH_THREADS] += weight * point.square;
    column[FINISH_DISTANCE * KM_FINISH_THREADS] += weight * point.distance;
    column[FINISH_MARGIN * KM_FINISH_THREADS] += weight * point.margin;
    column[FINISH_WEIGHT * KM_FINISH_THREADS] += weight;
    counts[point.label * KM_FINISH_THREADS] += 1;
}

// ... 1 definition

__device__ __forceinline__ void finish_write(double *out, const double *sums, const unsigned *counts, int k) {
    for (int j = threadIdx.x / 32; j < k; j += KM_FINISH_THREADS / 32) {
        const double *columns = sums + j * (FINISH_NUMBERS * KM_FINISH_THREADS);
        const double count = finish_sum_columns(counts + j * KM_FINISH_THREADS);
        const double sse = finish_sum_columns(columns + FINISH_SSE * KM_FINISH_THREADS);
        const double distance = finish_sum_columns(columns + FINISH_DISTANCE * KM_FINISH_THREADS);
        const double margin = finish_sum_columns(columns + FINISH_MARGIN * KM_FINISH_THREADS);
        const double weight = finish_sum_columns(columns + FINISH_WEIGHT * KM_FINISH_THREADS);
        if (threadIdx.x % 32) continue;
        out[j * KM_FINISH_SUMS + KM_FINISH_COUNT] = count;
        out[j * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = weight;
        out[j * KM_FINISH_SUMS + KM_FINISH_SSE] = sse;
        out[j * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = distance;
        out[j * KM_FINISH_SUMS + KM_FINISH_MARGIN] = margin;
    }
}

// ... 9 definitions

// ==== Silhouettes ==========================================================================================
// Compiled apart: silhouette
// Silhouette: of all points and models in one read, in the squared Euclidean form. The
// mean squared distance of a point x to the points of cluster j is |x - m_j|^2 + v_j, m_j their mean and v_j their mean
// squared distance from it; to the others of its own cluster, of n_j points, n_j / (n_j - 1) times that.

// ... 6 definitions

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
            for (int p = 0; p < FINISH_POINTS; p++) {
                const km_real infinity = (km_real)__int_as_float(0x7f800000);
                found[p] = {infinity, infinity, (km_real)0, infinity, infinity, 0};
            }
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
                sum += km_weight(weights, first + i) * value;
            }
            silhouette_sums[m * KM_THREADS + threadIdx.x] += sum;
        }
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

// ... 5 definitions

// ... 4 definitions

// Of the text of {features: 4, clusters: 3..5, target: cuda:sm_90}: The steps around the pass (whole); Loading (whole); Seeding (whole); Finishing (whole); Silhouettes (whole); Relocation (whole); The update (whole)
// "..." stands for what a template or an earlier part shows.

// ==== The steps around the pass ============================================================================
// Steps around the pass, the same for every design. What is compiled apart knows neither the list of K nor the design.
#define KM_BOTH __device__ __forceinline__
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// ... 2 definitions

#endif
// A slot between two passes: what is known of it, and what becomes of it. Host and device compile this.
#ifndef KM_SLOT_H
#define KM_SLOT_H

// ... 5 definitions

#endif
// What the steps around the pass are given: like the arguments of the pass, the contract with the host.
#ifndef KM_STEPS_CUDA_H
#define KM_STEPS_CUDA_H

enum {
    KM_THREADS = 256,               // of a block of every step kernel, where nothing else is said
    KM_SUBCHUNK_POINTS = 2048,      // points of a subchunk: one block's work, one partial sum
    KM_SUBCHUNKS_PER_CHUNK = 32,    // subchunks of a chunk of 65,536 points
    KM_REDUCED_NUMBERS = 8,         // numbers that a block reduces over the chunks
    KM_CANDIDATES_MAX = 13,         // most candidates of a k-means++ pick
    KM_FINISH_THREADS = 128,        // of a block of km_finish_few_clusters ...
    KM_FINISH_FEW_MAX = 32,         // ... which takes up to so many clusters, if shared memory holds
    KM_FINISH_BYTES = 28,           // so many bytes for each of them and each thread, ...
    KM_FINISH_WEIGHTED_BYTES = 36,  // ... with weights
    KM_FINISH_SHARED_MAX = 1024,    // clusters whose sums km_finish_chunks keeps in shared memory; ...
    KM_FINISH_SHARED_POINTS = 4096, // ... then a block adds so many points, else a chunk
    KM_TILE_WARP_ROWS = 8,          // ... of which a warp takes as many rows of centroids at a time, ...
    KM_TILE_ROWS = 96,              // ... the block no more than this, ...
    KM_TILE_THREADS = 384,          // ... with so many threads at most, ...
    KM_TILE_PAIRS = 4,              // ... of which each takes a point of so many models, ...
    KM_TILE_MODELS = 12,            // ... so that a block has these, at most; ...
    KM_TILE_SUMS = 2,               // ... it has so many sums of each cluster, where all rows fit
    KM_SILHOUETTE_POINTS = 16384,   // points of a block of km_silhouette
    KM_UPDATE_NUMBERS = 2048,       // coordinates of a slot's centroids that a block of km_update computes ...
    KM_UPDATE_PARTS_MAX = 64        // ... and the most blocks of a slot
};

// ... 4 definitions

typedef struct km_update_args {
    km_loop *loop;
    km_slot_record *slots;
    unsigned char *active;
    void *centroids;      // [restarts][S][d] km_real
    void *before;         // the same: those of the last pass, which relocation goes back to
    const double *totals; // [restarts][S][d + 1]
    double *weights;      // [restarts][S]: of the last pass of each slot
    const unsigned char
        *given_up;                                 // [restarts][S]: clusters for which relocation found no point: they may stay empty
    unsigned long long *changes;                   // per slot, or NULL
    void *workspace, *constants[KM_CONSTANTS_MAX]; // as in km_pass_args
    const double *box;                             // likewise
    unsigned long long *report;                    // in the host's memory: passes done, and 2^32 when the loop stops; or NULL
    double *
        part_sums; // [slots][KM_UPDATE_PARTS][4]: partial sums of the blocks of a slot; not used where it has one block
} km_update_args;

// ... 1 definition

typedef struct km_assign_args {
    const void *points;
    long long first, count;  // of the points: whole chunks but for the last one
    const double *centroids; // rows of all models
    const void *table;       // the same in the plan's type
    const int *ks;           // per model
    const long long *rows;   // per model: its first row of centroids
    int models;
    int *labels;     // [models][count]; may be NULL in km_finish_few_clusters
    double *nearest; // [models][count]: squared distance
    double *margin;  // [models][count], or NULL
    double *
        distance;      // [models][count]: to the centroid, or to the mean of the label; or NULL: roots of `nearest`
    const void *means; // rows of means like those of `table`, of the models that have some; not of CSR points
    const long long
        *mean_rows; // per model: its first row of means, or -1; of CSR points a column; NULL: all -1
} km_assign_args;

// ... 3 definitions

#endif
// For several steps: sums over a block of threads, the weight of a point.
// Sums of COUNT values over a block of KM_THREADS threads, in a fixed order. Every thread gets them.
template <int COUNT> __device__ __forceinline__ void km_block_sums(double *values) {
    __shared__ double warps[COUNT][8];
    for (int step = 16; step > 0; step >>= 1)
        for (int i = 0; i < COUNT; i++) values[i] += __shfl_xor_sync(0xffffffffu, values[i], step);
    __syncthreads(); // all threads have read the sums of the call before
    for (int i = 0; i < COUNT; i++) {
        if (threadIdx.x % 32 == 0) warps[i][threadIdx.x / 32] = values[i];
        values[i] = 0.0;
    }
    __syncthreads();
    for (int w = 0; w < 8; w++)
        for (int i = 0; i < COUNT; i++) values[i] += warps[i][w];
}

__device__ __forceinline__ double km_weight(const double *, long long) {
    return 1.0;
}
// For several steps: rows of points.
enum { KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK };

// ... 6 definitions

// ==== Loading ==============================================================================================
// Compiled apart: load
// Load: statistics of the original points; then the points are centred and scaled. Sums are doubles over chunks of
// 65,536 points, and chunks are added in index order. In a chunk the layout of the threads fixes the order.

// ... 17 definitions

// ==== Seeding ==============================================================================================
// Compiled apart: seed
// Seeding: greedy k-means++, all chains in the same passes, as runtime/seed.h states it. Each pick takes two kernels.
// km_seed_draw decides the pick before (the candidate that leaves the least inertia), and draws the candidates of this
// one. km_seed_pass reads the points once, updates each chain's distances, and adds the inertia that each candidate
// would leave. Nothing goes through the host.

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
        const double sum = fmin(seed_sum_smaller<POINTS>(best, square[c + 1]), SEED_FAR);
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
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24.
// Where the second-nearest centroid is not farther than the nearest by more than that, the point is ambiguous and
// resolved in double. Squared distances are added in double; distances and margins are float.

// ... 8 definitions

// Distance to a row of means.
__device__ __forceinline__ km_real finish_distance(const km_real *x, const km_real *mean) {
    km_real square = 0;
#pragma unroll(STEP_ROW_IN_REGISTERS ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        square = fma(t, t, square);
    }
    return finish_root(square);
}

// ... 1 definition

// Decides the label of a point, from the two nearest; resolves it in double where it is ambiguous.
__device__ __forceinline__ finish_point finish_decide(const finish_nearest &found, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    // Twice the bound, and what squares lose by underflow. Quotients of large squares may overflow. With k = 1
    // there is no second, and the centroid need not be a float: distances are double.
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    if (!(fma(found.nearest, apart, lost) < found.second && found.second < largest))
        return finish_exact(x, centroids, k);
    return {found.label, finish_square_of_row(x, table + (long long)found.label * D),
            finish_root(found.nearest), 1.0f - finish_root(__fdividef(found.nearest, found.second))};
}

// ==== Finishing: models ====================================================================================
// Compiled apart: finish/models
// Sums of a cluster in km_finish_few_clusters: a column for each thread, so that no thread waits for another; and
// counts.
enum { FINISH_SSE, FINISH_DISTANCE, FINISH_MARGIN, FINISH_NUMBERS }; // every point weighs 1
static_assert(FINISH_NUMBERS * 8 + 4 == (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES),
              "as the engine knows");

__device__ __forceinline__ void finish_add(double *sums, unsigned *counts, const finish_point &point,
                                           double weight) {
    double *column = sums + point.label * (FINISH_NUMBERS * KM_FINISH_THREADS);
    column[FINISH_SSE * KM_FINISH_THREADS] += weight * point.square;
    column[FINISH_DISTANCE * KM_FINISH_THREADS] += weight * point.distance;
    column[FINISH_MARGIN * KM_FINISH_THREADS] += weight * point.margin;
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
        const double weight = count;
        if (threadIdx.x % 32) continue;
        out[j * KM_FINISH_SUMS + KM_FINISH_COUNT] = count;
        out[j * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = weight;
        out[j * KM_FINISH_SUMS + KM_FINISH_SSE] = sse;
        out[j * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = distance;
        out[j * KM_FINISH_SUMS + KM_FINISH_MARGIN] = margin;
    }
}

// ... 1 definition

// ==== Finishing: labels ====================================================================================
// Compiled apart: finish/labels
// Block (subchunk, model): labels and squared distances; margins and distances where they are not NULL.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_assign(const __grid_constant__ km_assign_args args) {
    const int model = blockIdx.y, k = args.ks[model];
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + args.first * D, *means = finish_means(args, model);
    for (int p = 0; p < KM_SUBCHUNK_POINTS; p += FINISH_POINTS * KM_THREADS) {
        const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p + threadIdx.x;
        const km_real *x[FINISH_POINTS];
        finish_nearest found[FINISH_POINTS];
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS;
            x[q] = points + (i < args.count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_FEATURES];
        finish_search(found, here, x, table, k);
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS, out = model * args.count + i;
            if (i >= args.count) break;
            const finish_point point =
                finish_decide(found[q], STEP_ROW_IN_REGISTERS ? here[q] : x[q], centroids, table, k);
            args.labels[out] = point.label;
            args.nearest[out] = point.square;
            if (args.margin) args.margin[out] = point.margin;
            if (args.distance)
                args.distance[out] = means ? finish_distance(STEP_ROW_IN_REGISTERS ? here[q] : x[q],
                                                             means + (long long)point.label * D)
                                           : __dsqrt_rn(point.square);
        }
    }
}

// ... 7 definitions

// ==== Silhouettes ==========================================================================================
// Compiled apart: silhouette
// Silhouette: of all points and models in one read, in the squared Euclidean form. The
// mean squared distance of a point x to the points of cluster j is |x - m_j|^2 + v_j, m_j their mean and v_j their mean
// squared distance from it; to the others of its own cluster, of n_j points, n_j / (n_j - 1) times that.
// Distances are float, as in the finishing pass: points whose label they leave open are resolved in double. A thread's
// silhouettes are added in double.

// ... 7 definitions

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
                // As in finish_decide.
                const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
                if (!(fma(found[p].nearest, apart, lost) < found[p].second && found[p].second < largest))
                    value = silhouette_exact(x[p], args.centroids + row * D, args.centroids + mean_row * D,
                                             (const silhouette_terms<double> *)args.exact_terms + row, k);
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

// ==== Relocation ===========================================================================================
// Compiled apart: relocate
// Relocate: finds the points farthest from their own centroids, one after the other. km_assign has written each point's
// squared distance. A point that was taken, and points with the same coordinates, get a distance of 0.

// ... 4 definitions

// ==== The update ===========================================================================================
// Compiled apart: pass/rest
// Update: the blocks of a slot compute new centroids from the totals, and the last of them decides what the slot does
// next. The last block of all writes the report. The host queues iterations ahead of it.

// ... 2 definitions

// A slot with many clusters has several blocks (KM_UPDATE_PARTS), blockIdx.y, each of which computes a part of
// them. With no bound of two blocks a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_update(const __grid_constant__ km_update_args args) {
    constexpr int LANES = D < 2    ? 1
                          : D < 3  ? 2
                          : D < 5  ? 4
                          : D < 9  ? 8
                          : D < 17 ? 16
                                   : 32; // threads of a cluster
    constexpr int AT_ONCE = KM_THREADS / LANES;
    const int slot = blockIdx.x, k_index = slot % KS, k = km_ks[k_index];
    const long long row = (long long)(slot / KS) * S + km_offsets[k_index];
    km_slot_record *record = args.slots + slot;
    const km_slot_phase phase = record->state.phase;
    if (args.loop->head.stop) return;
    if (km_slot_is_active(phase)) {
        km_real *centroids = (km_real *)args.centroids + row * D, *before = (km_real *)args.before + row * D;
        const double *totals = args.totals + row * (D + 1);
        double sums[4] =
            {}; // of inertia, of shifts; of empty clusters, and of those that may be given a point
        for (int j = blockIdx.y * AT_ONCE + threadIdx.x / LANES; j < k; j += gridDim.y * AT_ONCE) {
            const double weight = totals[j * (D + 1ll) + D];
            for (int f = threadIdx.x % LANES; f < D; f += LANES) {
                const double c = centroids[j * (long long)D + f], sum = totals[j * (D + 1ll) + f];
                sums[0] += c * (weight * c - 2.0 * sum);
                before[j * (long long)D + f] = (km_real)c;
                if (phase == KM_SLOT_RUNNING && weight > 0.0) {
                    const km_real moved = (km_real)(sum / weight);
                    sums[1] += (moved - c) * (moved - c);
                    centroids[j * (long long)D + f] = moved;
                }
            }
            if (threadIdx.x % LANES == 0) {
                args.weights[row + j] = weight;
                sums[2] += weight > 0.0 ? 0.0 : 1.0;
                sums[3] += weight > 0.0 || args.given_up[row + j] ? 0.0 : 1.0;
            }
        }
        km_block_sums<4>(sums);
        if (!update_join(record, args.part_sums + slot * (4ll * gridDim.y), sums)) return;
        // One warp computes the next pass's coefficients while the first one decides. All new centroids are there:
        // km_block_sums has synchronized the block.
        if (phase == KM_SLOT_RUNNING && threadIdx.x / 32 == 7)
            km_make_coefficients(args.workspace, args.constants, slot / KS, centroids, args.box, k_index);
        if (threadIdx.x == 0) {
            // The first pass of a run has no labels to compare with: all count as changed.
            const int few_changes = args.changes && record->state.iterations > 0 &&
                                    (long long)args.changes[slot] < args.loop->changes_min;
            const km_slot_found found = {sums[0] + args.loop->total_square, sums[1], (long long)sums[2],
                                         sums[3] > 0.0, few_changes};
            km_slot_decide(&record->state, &found, args.loop->shift_max, args.loop->max_iter);
            args.active[slot] = km_slot_is_active(record->state.phase);
            if (!args.active[slot]) atomicAdd(&args.loop->stopped_count, 1);
        }
    } else if (blockIdx.y > 0) {
        return;
    }
    if (threadIdx.x == 0) update_close(args, slot);
}

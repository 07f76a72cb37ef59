// SPDX-License-Identifier: MIT
// Finish: labels, distances and sums of the models in one last pass, labels bitwise as on every other backend. Few
// clusters: km_finish_few reads the points once for each model and keeps nothing of them. Many: km_assign leaves each
// point's label and distance, and km_finish_blocks adds them up, block by block in index order.
//@ if not float64
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Where
// the second-nearest is farther than the nearest by more than that, the nearest is certain; other points are looked at
// again in double. Squared distances are summed in double, from the stored values; distances and margins are float.
//@ end

constexpr int FINISH_POINTS = D * sizeof(km_real) <= 16 ? 4 : 2; // of a thread at a time
constexpr int FINISH_ROWS = STEP_WHOLE ? 1 : 4; // centroids for each read of the points' features

// Nearest and second-nearest centroid of a point: squared distances in the plan's type.
struct finish_near {
    km_real nearest, second;
    int label;
};

// Of FINISH_POINTS points, x[0], x[1], ..., among the k rows of `table`. Leaves whole points in `here`.
__device__ __forceinline__ void finish_search(finish_near *near, km_real (*here)[STEP_CHUNK],
                                              const km_real *const *x, const km_real *table, int k) {
#pragma unroll
    for (int p = 0; p < FINISH_POINTS; p++) {
        near[p] = {(km_real)__int_as_float(0x7f800000), (km_real)__int_as_float(0x7f800000), 0};
        if (STEP_WHOLE) step_load(here[p], x[p], 0);
    }
#pragma unroll(STEP_WHOLE ? 4 : 1)
    for (int j = 0; j < k; j += FINISH_ROWS) {
        km_real square[FINISH_ROWS][FINISH_POINTS] = {};
        for (int f = 0; f < D; f += STEP_CHUNK) {
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++)
                if (!STEP_WHOLE) step_load(here[p], x[p], f);
#pragma unroll
            for (int r = 0; r < FINISH_ROWS; r++) {
                km_real centroid[STEP_CHUNK];
                step_load(centroid, table + (long long)(j + r < k ? j + r : j) * D, f);
#pragma unroll
                for (int g = 0; g < STEP_CHUNK; g++)
#pragma unroll
                    for (int p = 0; p < FINISH_POINTS; p++) {
                        const km_real t = here[p][g] - centroid[g];
                        square[r][p] = fma(t, t, square[r][p]);
                    }
            }
        }
#pragma unroll
        for (int r = 0; r < FINISH_ROWS; r++) {
            if (j + r >= k) break;
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++) {
                near[p].second = fmin(near[p].second, fmax(near[p].nearest, square[r][p]));
                near[p].label = square[r][p] < near[p].nearest ? j + r : near[p].label;
                near[p].nearest = fmin(near[p].nearest, square[r][p]);
            }
        }
    }
}

// What a point gives to the sums of its cluster.
struct finish_point {
    int label;
    double square, distance, margin;
};

__device__ __forceinline__ finish_point finish_of_squares(int label, double nearest, double second, int k) {
    const double distance = __dsqrt_rn(nearest), far = k > 1 ? __dsqrt_rn(second) : 0.0;
    return {label, nearest, distance, far > 0.0 ? __ddiv_rn(__dsub_rn(far, distance), far) : 0.0};
}

//@ if not float64
// `x` is in registers where points are whole: every index is known then.
template <typename Real>
__device__ __forceinline__ double finish_square(const km_real *x, const Real *centroid) {
    double square = 0.0;
#pragma unroll(STEP_WHOLE ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const double t = __dsub_rn(x[f], centroid[f]);
        square = __fma_rn(t, t, square);
    }
    return square;
}

// To a row of `table`, which holds the same values as the centroids in double but for a lone one.
__device__ __forceinline__ double finish_square_of_row(const km_real *x, const km_real *row) {
    if (!STEP_WHOLE) return finish_square(x, row);
    km_real centroid[STEP_CHUNK]; // lanes ask for different rows: one load is as dear as another
    step_load(centroid, row, 0);
    return finish_square(x, centroid);
}

// By distances in double.
__device__ __forceinline__ finish_point finish_exact(const km_real *x, const double *centroids, int k) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        const double square = finish_square(x, centroids + (long long)j * D);
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    return finish_of_squares(label, nearest, second, k);
}

__device__ __forceinline__ float finish_root(float value) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

//@ end
// Decides what was searched.
__device__ __forceinline__ finish_point finish_decide(const finish_near &near, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    //@ if float64
    return finish_of_squares(near.label, near.nearest, near.second, k);
    //@ else
    // Twice the bound, and what squares lose below the smallest float. Quotients of large squares are not to be
    // trusted; a lone centroid has no second: its distances are double, and it need not be a float.
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    if (!(fma(near.nearest, apart, lost) < near.second && near.second < largest))
        return finish_exact(x, centroids, k);
    return {near.label, finish_square_of_row(x, table + (long long)near.label * D), finish_root(near.nearest),
            1.0f - finish_root(__fdividef(near.nearest, near.second))};
    //@ end
}

// Sums of a cluster as km_finish_few keeps them: a column for each thread, so that nobody waits; counts apart.
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

// Adds up the columns of one number, in every lane of the warp.
template <typename Number> __device__ __forceinline__ Number finish_fold(const Number *columns) {
    Number sum = columns[threadIdx.x % 32];
    for (int at = 32; at < KM_FINISH_THREADS; at += 32) sum += columns[at + threadIdx.x % 32];
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

__device__ __forceinline__ void finish_write(double *out, const double *sums, const unsigned *counts, int k) {
    for (int j = threadIdx.x / 32; j < k; j += KM_FINISH_THREADS / 32) {
        const double *columns = sums + j * (FINISH_NUMBERS * KM_FINISH_THREADS);
        const double count = finish_fold(counts + j * KM_FINISH_THREADS);
        const double sse = finish_fold(columns + FINISH_SSE * KM_FINISH_THREADS);
        const double distance = finish_fold(columns + FINISH_DISTANCE * KM_FINISH_THREADS);
        const double margin = finish_fold(columns + FINISH_MARGIN * KM_FINISH_THREADS);
        //@ if weighted
        const double weight = finish_fold(columns + FINISH_WEIGHT * KM_FINISH_THREADS);
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

// One fixed block of points and one model, the models of a block side by side: they read the same points.
extern "C" __global__ void __launch_bounds__(KM_FINISH_THREADS, 4)
    km_finish_few(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                  long long rows_count) {
    extern __shared__ double finish_memory[];
    const int model = blockIdx.x % args.models, k = args.ks[model];
    const long long block = blockIdx.x / args.models, first = block * KM_CHUNK_POINTS;
    const int count = (int)(args.count - first < KM_CHUNK_POINTS ? args.count - first : KM_CHUNK_POINTS);
    int *labels = args.labels ? args.labels + model * args.count + first : nullptr;
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + (args.first + first) * D;
    unsigned *counts = (unsigned *)(finish_memory + k * FINISH_NUMBERS * KM_FINISH_THREADS);
    for (int at = threadIdx.x; at < k * FINISH_NUMBERS * KM_FINISH_THREADS; at += KM_FINISH_THREADS)
        finish_memory[at] = 0.0;
    for (int j = 0; j < k; j++) counts[j * KM_FINISH_THREADS + threadIdx.x] = 0;
    for (int base = threadIdx.x; base < count; base += FINISH_POINTS * KM_FINISH_THREADS) {
        const km_real *x[FINISH_POINTS];
        finish_near near[FINISH_POINTS];
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_FINISH_THREADS;
            x[p] = points + (i < count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_CHUNK];
        finish_search(near, here, x, table, k);
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_FINISH_THREADS;
            if (i >= count) break;
            const finish_point point =
                finish_decide(near[p], STEP_WHOLE ? here[p] : x[p], centroids, table, k);
            finish_add(finish_memory + threadIdx.x, counts + threadIdx.x, point,
                       km_weight(weights, args.first + first + i));
            if (labels) labels[i] = point.label;
        }
    }
    __syncthreads();
    finish_write(partial + (block * rows_count + args.rows[model]) * KM_FINISH_SUMS, finish_memory, counts,
                 k);
}

// Block (unit of points, model): labels and squared distances, and margins where they are asked for.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_assign(const __grid_constant__ km_assign_args args) {
    const int model = blockIdx.y, k = args.ks[model];
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + args.first * D;
    for (int p = 0; p < KM_SUBCHUNK_POINTS; p += FINISH_POINTS * KM_THREADS) {
        const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p + threadIdx.x;
        const km_real *x[FINISH_POINTS];
        finish_near near[FINISH_POINTS];
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS;
            x[q] = points + (i < args.count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_CHUNK];
        finish_search(near, here, x, table, k);
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS, out = model * args.count + i;
            if (i >= args.count) break;
            const finish_point point =
                finish_decide(near[q], STEP_WHOLE ? here[q] : x[q], centroids, table, k);
            args.labels[out] = point.label;
            args.nearest[out] = point.square;
            if (args.margin) args.margin[out] = point.margin;
        }
    }
}

// A point as km_assign left it; its label is -1 - lane where there is no point.
struct finish_left {
    int label;
    double weight, square, margin;
};

__device__ __forceinline__ finish_left finish_load(const km_assign_args &args, const double *weights,
                                                   int model, long long at, long long end) {
    finish_left point = {-1 - (int)threadIdx.x, 0.0, 0.0, 0.0};
    if (at < end) {
        const long long from = model * args.count + at;
        point.label = args.labels[from];
        point.weight = km_weight(weights, args.first + at);
        point.square = args.nearest[from];
        point.margin = args.margin[from];
    }
    return point;
}

// What the 32 points in hand add to their clusters, for all lanes to see.
struct finish_tile {
    double weight[32], sse[32], distance[32], margin[32];
};

__device__ __forceinline__ void finish_share(finish_tile *tile, const finish_left &point) {
    const int lane = threadIdx.x;
    tile->weight[lane] = point.weight;
    tile->sse[lane] = __dmul_rn(point.weight, point.square);
    tile->distance[lane] = __dmul_rn(point.weight, __dsqrt_rn(point.square));
    tile->margin[lane] = __dmul_rn(point.weight, point.margin);
}

// One warp a (block, model): partial[block][row of the model + j][KM_FINISH_SUMS]. The 32 points in hand are grouped
// by label; the first lane of each label adds them in index order, so no two lanes touch one row. The rows are in
// dynamic shared memory where they fit, others are added in place.
extern "C" __global__ void __launch_bounds__(32)
    km_finish_blocks(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                     long long rows_count, int in_shared) {
    extern __shared__ double finish_memory[];
    __shared__ finish_tile tile;
    const int lane = threadIdx.x, model = blockIdx.y, k = args.ks[model];
    const long long first = blockIdx.x * (long long)KM_CHUNK_POINTS;
    const long long end = first + KM_CHUNK_POINTS < args.count ? first + KM_CHUNK_POINTS : args.count;
    double *out = partial + (blockIdx.x * rows_count + args.rows[model]) * KM_FINISH_SUMS;
    double *sums = in_shared ? finish_memory : out;
    for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) sums[at] = 0.0;
    finish_left next = finish_load(args, weights, model, first + lane, end);
    finish_left after = finish_load(args, weights, model, first + 32 + lane, end);
    for (long long base = first; base < end; base += 32) {
        const int label = next.label;
        finish_share(&tile, next);
        next = after;
        after = finish_load(args, weights, model, base + 64 + lane, end);
        __syncwarp();
        unsigned same = __match_any_sync(0xffffffffu, label);
        if (label >= 0 && (same & ((1u << lane) - 1u)) == 0) {
            double *row = sums + (long long)label * KM_FINISH_SUMS;
            double weight = row[KM_FINISH_WEIGHT], sse = row[KM_FINISH_SSE];
            double distance = row[KM_FINISH_DISTANCE], margin = row[KM_FINISH_MARGIN];
            row[KM_FINISH_COUNT] += __popc(same);
            for (; same; same &= same - 1) {
                const int i = __ffs(same) - 1;
                weight = __dadd_rn(weight, tile.weight[i]);
                sse = __dadd_rn(sse, tile.sse[i]);
                distance = __dadd_rn(distance, tile.distance[i]);
                margin = __dadd_rn(margin, tile.margin[i]);
            }
            row[KM_FINISH_WEIGHT] = weight;
            row[KM_FINISH_SSE] = sse;
            row[KM_FINISH_DISTANCE] = distance;
            row[KM_FINISH_MARGIN] = margin;
        }
        __syncwarp();
    }
    if (in_shared)
        for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) out[at] = sums[at];
}

// Adds blocks to the totals in index order: totals[numbers] += partial[0][numbers], partial[1][numbers], ...
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_finish_add(const double *partial, long long blocks, long long numbers, double *totals) {
    const long long column = blockIdx.x * (long long)KM_JOINED, at = column + threadIdx.x;
    const bool own = threadIdx.x < KM_JOINED && at < numbers;
    const double sum = step_join(own ? totals[at] : 0.0, partial, blocks, numbers, column, numbers, 0);
    if (own) totals[at] = sum;
}

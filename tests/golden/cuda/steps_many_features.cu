// Of the text of {features: 32, clusters: 2..12, target: cuda:sm_90}: The steps around the pass; Finishing; Silhouettes
// "..." stands for what a template or an earlier part shows.

// ... 27 definitions

// Adds the squared distances of points x[0], x[1], ... to rows j, j + 1, ... of `table`, which has k, and to row j in
// place of those behind the last. `here` are the points' features: all where a row is in registers.
__device__ __forceinline__ void finish_add_squares(km_real (*square)[FINISH_POINTS],
                                                   km_real (*here)[STEP_FEATURES], const km_real *const *x,
                                                   const km_real *table, int j, int k) {
    for (int f = 0; f < D; f += STEP_FEATURES) {
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++)
            if (!STEP_ROW_IN_REGISTERS) step_load(here[p], x[p], f);
#pragma unroll
        for (int r = 0; r < FINISH_ROWS; r++) {
            km_real centroid[STEP_FEATURES];
            step_load(centroid, table + (long long)(j + r < k ? j + r : j) * D, f);
#pragma unroll
            for (int g = 0; g < STEP_FEATURES; g++)
#pragma unroll
                for (int p = 0; p < FINISH_POINTS; p++) {
                    const km_real t = here[p][g] - centroid[g];
                    square[r][p] = fma(t, t, square[r][p]);
                }
        }
    }
}
// For steps of many features: a block has a tile of points in shared memory, and rows of centroids beside it, a slab of
// the features of both at a time. A warp computes the squared distances of all points of the tile to eight rows, in
// registers, and writes them to shared memory.
enum {
    TILE_POINTS = KM_TILE_POINTS(sizeof(km_real)),
    TILE_GROUPS = TILE_POINTS / 32,                          // of 32 points
    TILE_SLABS = KM_TILE_SLABS(D, sizeof(km_real)),          // pieces of a row
    TILE_WIDTH = KM_TILE_WIDTH(D, sizeof(km_real)),          // features of a slab; those behind the last are 0
    TILE_PITCH = KM_TILE_PITCH(TILE_WIDTH, sizeof(km_real)), // of rows in shared memory: no bank conflicts
    TILE_VECTOR = 16 / sizeof(km_real),
    TILE_PIECE_POINTS = KM_FINISH_PIECE_POINTS(D), // of a block
    TILE_PIECE = STEP_ALIGN / sizeof(km_real)      // features that are copied at a time
};

// ... 10 definitions

// ... 24 definitions

// Labels of the thread's point, and what its distances to centroids add. `found` is of the only model where not all
// rows were in shared memory.
__device__ __forceinline__ void tile_label(finish_nearest &found, tile_job &job, const km_real *x,
                                           double weight, bool is_point) {
    const int point = threadIdx.x % TILE_POINTS;
#pragma unroll 1
    for (int i = 0; tile_model(i) < job.models; i++) {
        const int m = tile_model(i), k = job.k[m];
        if (job.is_whole) {
            found = tile_far();
            tile_take(found, job, m, 0, point);
        }
        // As finish_decide; squares come later.
        const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
        const float bound = fma(found.nearest, apart, lost);
        float distance = finish_root(found.nearest), margin = 0.0f;
        if (k > 1) margin = 1.0f - finish_root(__fdividef(found.nearest, found.second));
        if (k > 1 && !(bound < found.second && found.second < largest)) {
            if (!job.is_whole && is_point)
                job.open[atomicAdd(&job.open_count, 1)] = (unsigned char)point; // tile_resolve_open
            if (job.is_whole) {
                const finish_point decided = tile_resolve(
                    x, job.centroids + job.first[m] * (long long)D, k,
                    bound < largest ? tile_at<km_real>(job.squares_at) + job.first[m] * TILE_POINTS + point
                                    : nullptr,
                    bound);
                found.label = decided.label;
                distance = (float)decided.distance;
                margin = (float)decided.margin;
            }
        }
        tile_write(job, is_point ? found.label : int(TILE_NONE), 0.0, distance, margin, m, point, weight);
    }
}

// ... 1 definition

// Of the thread's models: squared distances of its point.
struct tile_own {
    int count, means,
        ones;                     // models of the thread; bits of those that have means, and of those of one cluster
    int at[KM_TILE_PAIRS];        // where the row of its label is, in shared memory
    double square[KM_TILE_PAIRS]; // to the own centroid
    km_real mean[KM_TILE_PAIRS];  // ... and mean
};

__device__ __forceinline__ void tile_begin_own(tile_own &own, const tile_job &job) {
    own.count = own.means = own.ones = 0;
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        const int m = tile_model(i), at = m * TILE_LABELS + threadIdx.x % TILE_POINTS;
        own.square[i] = 0.0;
        own.mean[i] = 0;
        own.at[i] = 0;
        if (m >= job.models) continue;
        own.count++;
        own.means |= (job.means[m] != nullptr) << i;
        own.ones |= (job.k[m] == 1) << i;
        const int label = tile_at<unsigned short>(job.labels_at)[at];
        own.at[i] = (job.first[m] + (label != TILE_NONE ? label : 0)) * TILE_PITCH;
    }
}

// Adds a slab, of which points and rows are in shared memory.
// ONES: some model of the thread may have one cluster.
template <bool ONES>
__device__ __forceinline__ void tile_add_own(tile_own &own, const tile_job &job, int slab) {
    const km_real *point = tile_at<km_real>(0) + threadIdx.x % TILE_POINTS * TILE_PITCH;
    const km_real *rows = tile_at<km_real>(job.rows_at), *means = tile_at<km_real>(job.means_at);
#pragma unroll 1
    for (int f = 0; f < TILE_WIDTH; f += TILE_VECTOR) {
        const tile_features x = *(const tile_features *)(point + f);
        double wide[TILE_VECTOR];
#pragma unroll
        for (int g = 0; g < TILE_VECTOR; g++) wide[g] = (double)x.at[g];
#pragma unroll
        for (int i = 0; i < KM_TILE_PAIRS; i++) {
            if (i >= own.count) break;
            if (!ONES || !(own.ones >> i & 1)) {
                const tile_features c = *(const tile_features *)(rows + f + own.at[i]);
#pragma unroll
                for (int g = 0; g < TILE_VECTOR; g++) {
                    const double t = __dsub_rn(wide[g], c.at[g]);
                    own.square[i] = __fma_rn(t, t, own.square[i]);
                }
            } else { // the centroid need not be a float
                const int at = slab * TILE_WIDTH + f;
                const double *c = job.centroids + job.first[tile_model(i)] * (long long)D + at;
#pragma unroll
                for (int g = 0; g < TILE_VECTOR; g++) {
                    const double t = __dsub_rn(wide[g], at + g < D ? c[g] : 0.0);
                    own.square[i] = __fma_rn(t, t, own.square[i]);
                }
            }
            if (!(own.means >> i & 1)) continue;
            const tile_features c = *(const tile_features *)(means + f + own.at[i]);
#pragma unroll
            for (int g = 0; g < TILE_VECTOR; g++) {
                const km_real t = x.at[g] - c.at[g];
                own.mean[i] = fma(t, t, own.mean[i]);
            }
        }
    }
}

// The same of a model whose rows are not in shared memory, from device memory at once.
__device__ __forceinline__ void tile_read_own(tile_own &own, const tile_job &job, const km_real *x) {
    const int label = own.at[0] / TILE_PITCH;
    own.square[0] = finish_square(x, job.table + label * (long long)D);
    if (!job.means[0]) return;
    const km_real *mean = job.means[0] + label * (long long)D;
#pragma unroll 8
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        own.mean[0] = fma(t, t, own.mean[0]);
    }
}

__device__ __forceinline__ void tile_write_own(const tile_own &own, const tile_job &job, double weight) {
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        if (i >= own.count) break;
        tile_value *value =
            tile_at<tile_value>(job.values_at) + tile_model(i) * TILE_VALUES + threadIdx.x % TILE_POINTS;
        value->square = tile_weighted(weight, own.square[i]);
        if (own.means >> i & 1)
            value->distance = tile_weighted(weight, finish_root(own.mean[i]));
        else if (own.ones >> i & 1)
            value->distance = tile_weighted(weight, (float)__dsqrt_rn(own.square[i]));
    }
}

// ... 2 definitions

// Models first_model ... of one piece of the points: partial[piece][row of the model + j][KM_FINISH_SUMS]. Labels,
// where they are wanted, go to args.labels.
extern "C" __global__ void __launch_bounds__(KM_TILE_THREADS, 2)
    km_finish_tiles(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                    long long rows_count, int first_model, int models, int tile_rows) {
    __shared__ tile_job job;
    const int point = threadIdx.x % TILE_POINTS;
    const long long first = blockIdx.x * (long long)TILE_PIECE_POINTS;
    const int count = (int)(args.count - first < TILE_PIECE_POINTS ? args.count - first : TILE_PIECE_POINTS);
    const km_real *points = (const km_real *)args.points + (args.first + first) * D;
    if (threadIdx.x == 0) tile_begin(&job, args, first_model, models, tile_rows);
    __syncthreads();
    const bool is_kept = TILE_SLABS == 1 && job.is_whole; // rows stay, and the next tile comes ahead
    for (int i = threadIdx.x; i < TILE_NUMBERS * job.groups * job.rows; i += blockDim.x)
        tile_at<double>(job.sums_at)[i] = 0.0;
    if (is_kept) {
        tile_copy_slab(tile_at<km_real>(job.rows_at), job.table, tile_rows, job.rows, 0);
        tile_copy_means(job, 0);
        tile_copy_slab(tile_at<km_real>(0), points, TILE_POINTS, count, 0);
    }
    for (int base = 0; base < count; base += TILE_POINTS) {
        const km_real *tile = points + base * (long long)D;
        const int left = count - base;
        finish_nearest found = tile_far();
        for (int start = 0; start < job.rows; start += tile_rows) {
            tile_find_squares(job, tile, left, start, is_kept, [&](int slab) {
                tile_copy_slab(tile_at<km_real>(job.rows_at), job.table + start * (long long)D, tile_rows,
                               job.rows - start, slab);
            });
            if (!job.is_whole && tile_model(0) == 0) tile_take(found, job, 0, start, point);
        }
        const bool is_point = point < left;
        const km_real *x = tile + (is_point ? point : 0) * (long long)D;
        const double weight = is_point ? km_weight(weights, args.first + first + base + point) : 0.0;
        if (WEIGHTED && threadIdx.x < TILE_POINTS) tile_at<double>(job.weights_at)[point] = weight;
        tile_label(found, job, x, weight, is_point);
        if (!job.is_whole) tile_resolve_open(job, tile);
        tile_own own;
        tile_begin_own(own, job);
        if (!job.is_whole) {
            if (tile_model(0) == 0) tile_read_own(own, job, x);
        } else if (sizeof(km_real) == 4 || job.has_means) {
            for (int slab = 0; slab < TILE_SLABS; slab++) {
                if (TILE_SLABS > 1) {
                    tile_copy_slab(tile_at<km_real>(0), tile, TILE_POINTS, left, slab);
                    tile_copy_slab(tile_at<km_real>(job.rows_at), job.table, tile_rows, job.rows, slab);
                    tile_copy_means(job, slab);
                    tile_wait();
                    __syncthreads();
                }
                if (own.ones)
                    tile_add_own<true>(own, job, slab);
                else
                    tile_add_own<false>(own, job, slab);
                if (TILE_SLABS > 1) __syncthreads();
            }
        }
        tile_write_own(own, job, weight);
        __syncthreads();
        if (is_kept && left > TILE_POINTS)
            tile_copy_slab(tile_at<km_real>(0), tile + TILE_POINTS * D, TILE_POINTS, left - TILE_POINTS, 0);
        tile_add(job);
        for (int i = threadIdx.x; args.labels && i < models * TILE_POINTS; i += blockDim.x)
            if (i % TILE_POINTS < left)
                args.labels[(first_model + i / TILE_POINTS) * args.count + first + base + i % TILE_POINTS] =
                    tile_at<unsigned short>(job.labels_at)[i / TILE_POINTS * TILE_LABELS + i % TILE_POINTS];
    }
    __syncthreads();
    double *out = partial + (blockIdx.x * rows_count + args.rows[first_model]) * KM_FINISH_SUMS;
    for (int row = threadIdx.x; row < job.rows; row += blockDim.x) {
        double sums[TILE_NUMBERS];
#pragma unroll
        for (int number = 0; number < TILE_NUMBERS; number++) {
            const double *parts = tile_at<double>(job.sums_at) + number * job.groups * job.rows + row;
            sums[number] = job.groups > 1 ? __dadd_rn(parts[0], parts[job.rows]) : parts[0];
        }
        out[row * KM_FINISH_SUMS + KM_FINISH_COUNT] = sums[TILE_COUNT];
        out[row * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = sums[WEIGHTED ? int(TILE_WEIGHT) : int(TILE_COUNT)];
        out[row * KM_FINISH_SUMS + KM_FINISH_SSE] = sums[TILE_SSE];
        out[row * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = sums[TILE_DISTANCE];
        out[row * KM_FINISH_SUMS + KM_FINISH_MARGIN] = sums[TILE_MARGIN];
    }
}

// ... 8 definitions

// ... 17 definitions

// Models first_model ... of one piece of the points: partial[piece][models of all launches], this model's sum.
extern "C" __global__ void __launch_bounds__(KM_TILE_THREADS, 2)
    km_silhouette_tiles(const __grid_constant__ km_silhouette_args args, const double *weights,
                        double *partial, int first_model, int models, int tile_rows) {
    __shared__ silhouette_job job;
    const int point = threadIdx.x % TILE_POINTS;
    const long long first = blockIdx.x * (long long)TILE_PIECE_POINTS;
    const int count = (int)(args.count - first < TILE_PIECE_POINTS ? args.count - first : TILE_PIECE_POINTS);
    const km_real *points = (const km_real *)args.points + first * D;
    const silhouette_terms<km_real> *terms = (const silhouette_terms<km_real> *)args.terms;
    if (threadIdx.x == 0) silhouette_begin(&job, args, first_model, models, tile_rows);
    __syncthreads();
    const bool is_kept = TILE_SLABS == 1 && job.is_whole; // rows stay, and the next tile comes ahead
    for (int i = threadIdx.x; i < models * TILE_POINTS; i += blockDim.x)
        tile_at<double>(job.sums_at)[i] = 0.0;
    if (is_kept) {
        silhouette_copy(job, (const km_real *)args.table, 0, 0);
        tile_copy_slab(tile_at<km_real>(0), points, TILE_POINTS, count, 0);
    }
    for (int base = 0; base < count; base += TILE_POINTS) {
        const km_real *tile = points + base * (long long)D;
        const int left = count - base;
        silhouette_point found = silhouette_far();
        for (int start = 0; start < job.rows; start += tile_rows) {
            tile_find_squares(job, tile, left, start, is_kept, [&](int slab) {
                silhouette_copy(job, (const km_real *)args.table, start, slab);
            });
            if (!job.is_whole && tile_model(0) == 0) silhouette_take_rows(found, job, terms, 0, start, point);
        }
        if (is_kept && left > TILE_POINTS)
            tile_copy_slab(tile_at<km_real>(0), tile + TILE_POINTS * D, TILE_POINTS, left - TILE_POINTS, 0);
        const double *tile_weights = WEIGHTED ? weights + first + base : nullptr;
        if (point < left) {
            const km_real *x = tile + point * (long long)D;
#pragma unroll 1
            for (int i = 0; tile_model(i) < models; i++) {
                const int m = tile_model(i);
                if (job.is_whole) {
                    found = silhouette_far();
                    silhouette_take_rows(found, job, terms, m, 0, point);
                }
                double value = silhouette_value(found.own, found.other, found.factor);
                if (silhouette_is_open(found)) {
                    if (!job.is_whole) {
                        job.open[atomicAdd(&job.open_count, 1)] = (unsigned char)point;
                        break;
                    }
                    value = silhouette_exact(
                        x, args.centroids + job.terms[m] * D, args.centroids + job.means[m] * D,
                        (const silhouette_terms<double> *)args.exact_terms + job.terms[m], job.k[m]);
                }
                tile_at<double>(job.sums_at)[m * TILE_POINTS + point] +=
                    km_weight(tile_weights, point) * value;
            }
        }
        if (!job.is_whole) silhouette_resolve_open(job, args, tile, tile_weights);
    }
    __syncthreads();
    for (int m = threadIdx.x / 32; m < models; m += blockDim.x / 32) {
        double sum = 0.0;
        for (int at = threadIdx.x % 32; at < TILE_POINTS; at += 32)
            sum += tile_at<double>(job.sums_at)[m * TILE_POINTS + at];
        for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) partial[blockIdx.x * (long long)args.models + first_model + m] = sum;
    }
}

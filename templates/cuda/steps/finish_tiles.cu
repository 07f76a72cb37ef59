// SPDX-License-Identifier: MIT
// Finish of many features: km_finish_tiles. Of the squared distances in shared memory (tiles.cu) a thread takes the
// two nearest for a point and model. Then the sums: a thread has a cluster and goes through the points.
//@ if not float64
// In float32 the distance to the nearest is computed once more, in double, for the sum of squares.
//@ end

// Pitches: of what the points of a model add to sums, and of their labels.
enum { TILE_VALUES = TILE_POINTS + 1, TILE_LABELS = TILE_POINTS + 2, TILE_NONE = 65535 };

// Sums of a cluster; without weights every point weighs 1.
enum { TILE_COUNT, TILE_SSE, TILE_DISTANCE, TILE_MARGIN, TILE_WEIGHT, TILE_NUMBERS = 4 + WEIGHTED };
static_assert(TILE_NUMBERS == KM_TILE_NUMBERS(WEIGHTED), "as the engine counts");

// What a point adds to the sums of its cluster.
struct __align__(sizeof(km_real) == 4 ? 16 : 8) tile_value {
    double square;
    km_real distance, margin;
};

// The models of a launch, and where a block has them.
struct tile_job {
    int models, rows;                     // how many; of all of them
    int tile_rows, groups;                // rows at a time; groups of points whose sums are made apart
    int is_whole;                         // all rows are in shared memory at once
    int has_means;                        // some model has
    int first[KM_TILE_MODELS];            // of each model: its first row,
    int k[KM_TILE_MODELS];                // its clusters,
    const km_real *means[KM_TILE_MODELS]; // its means, or NULL
    const km_real *table;                 // rows
    const double *centroids;              // the same in double
    unsigned char model_of[KM_TILE_ROWS]; // of each row, where all are in shared memory
    unsigned char open[TILE_POINTS];      // of the only model otherwise: points that are to be resolved
    int open_count;
    // Shared memory, bytes from its beginning: [TILE_POINTS][TILE_PITCH], a slab of the points, comes first; then
    int rows_at;    // [tile_rows][TILE_PITCH] km_real
    int means_at;   // the same of means, where there are any
    int squares_at; // [tile_rows][TILE_POINTS] km_real: squared distances
    int values_at;  // [models][TILE_VALUES] tile_value
    int weights_at; // [TILE_POINTS] double, where points have weights
    int sums_at;    // [TILE_NUMBERS][groups][rows] double
    int labels_at;  // [models][TILE_LABELS] unsigned short
};

__device__ __forceinline__ void tile_copy_means(const tile_job &job, int slab) {
    for (int m = 0; m < job.models; m++)
        if (job.means[m])
            tile_copy_slab(tile_at<km_real>(job.means_at) + job.first[m] * TILE_PITCH, job.means[m], job.k[m],
                           job.k[m], slab);
}

__device__ __forceinline__ finish_nearest tile_far() {
    const km_real infinity = (km_real)__int_as_float(0x7f800000);
    return {infinity, infinity, 0};
}

// Takes the rows of model m that are in the tile, which begins with row `start` of all; `point` is of the tile.
__device__ __forceinline__ void tile_take(finish_nearest &found, const tile_job &job, int m, int start,
                                          int point) {
    const int offset = job.first[m] - start, before = offset > 0 ? offset : 0;
    const int end = offset + job.k[m] < job.tile_rows ? offset + job.k[m] : job.tile_rows;
#pragma unroll 4
    for (int j = before; j < end; j++) {
        const km_real square = tile_at<km_real>(job.squares_at)[j * TILE_POINTS + point];
        found.second = fmin(found.second, fmax(found.nearest, square));
        found.label = square < found.nearest ? j - offset : found.label;
        found.nearest = fmin(found.nearest, square);
    }
}

//@ if not float64
// The nearest centroid of x by distances in double: of those whose squared distances, every TILE_POINTS numbers, are
// not above `bound`; NULL: of all.
__device__ __forceinline__ finish_point tile_resolve(const km_real *x, const double *centroids, int k,
                                                     const km_real *squares, float bound) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
    for (int j = 0; j < k; j++) {
        if (squares && squares[j * TILE_POINTS] > bound) continue;
        double square = 0.0;
#pragma unroll 4
        for (int f = 0; f < D; f++) {
            const double t = __dsub_rn(x[f], centroids[(long long)j * D + f]);
            square = __fma_rn(t, t, square);
        }
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    return finish_of_squares(label, nearest, second, k);
}

//@ end
//@ if not float64
// The same by a warp, of all k: a lane has every so many centroids. Every lane gets it.
__device__ __forceinline__ finish_point tile_resolve_together(const km_real *x, const double *centroids,
                                                              int k) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0.0;
#pragma unroll 4
        for (int f = 0; f < D; f++) {
            const double t = __dsub_rn(x[f], centroids[(long long)j * D + f]);
            square = __fma_rn(t, t, square);
        }
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    for (int step = 16; step > 0; step >>= 1) {
        const double other = __shfl_xor_sync(0xffffffffu, nearest, step);
        const double its_second = __shfl_xor_sync(0xffffffffu, second, step);
        const int its_label = __shfl_xor_sync(0xffffffffu, label, step);
        const bool nearer = other < nearest || (other == nearest && its_label < label);
        const double left = nearer ? nearest : other; // not the nearest of the two
        second = fmin(left, nearer ? its_second : second);
        nearest = nearer ? other : nearest;
        label = nearer ? its_label : label;
    }
    return finish_of_squares(label, nearest, second, k);
}

//@ end
//@ if weighted
template <typename Real> __device__ __forceinline__ Real tile_weighted(double weight, Real value) {
    return (Real)__dmul_rn(weight, value);
}

//@ else
template <typename Real> __device__ __forceinline__ Real tile_weighted(double, Real value) {
    return value;
}

//@ end
// Writes what a point adds to the sums of model m, and its label; TILE_NONE: there is no such point.
__device__ __forceinline__ void tile_write(const tile_job &job, int label, double square, km_real distance,
                                           km_real margin, int m, int point, double weight) {
    tile_value *value = tile_at<tile_value>(job.values_at) + m * TILE_VALUES + point;
    tile_at<unsigned short>(job.labels_at)[m * TILE_LABELS + point] = (unsigned short)label;
    *value = {tile_weighted(weight, square), tile_weighted(weight, distance), tile_weighted(weight, margin)};
}

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
        //@ if float64
        const finish_point decided = finish_of_squares(found.label, found.nearest, found.second, k);
        tile_write(job, is_point ? decided.label : int(TILE_NONE), decided.square, decided.distance,
                   decided.margin, m, point, weight);
        //@ else
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
        //@ end
    }
}

//@ if not float64
// Points of the only model that float32 leaves open, a warp each: a thread alone would take long for its centroids.
__device__ __forceinline__ void tile_resolve_open(tile_job &job, const km_real *tile) {
    __syncthreads();
    for (int at = threadIdx.x / 32; at < job.open_count; at += blockDim.x / 32) {
        const int point = job.open[at];
        const double weight = WEIGHTED ? tile_at<double>(job.weights_at)[point] : 1.0;
        const finish_point decided =
            tile_resolve_together(tile + point * (long long)D, job.centroids, job.k[0]);
        if (threadIdx.x % 32 == 0)
            tile_write(job, decided.label, 0.0, (float)decided.distance, (float)decided.margin, 0, point,
                       weight);
    }
    __syncthreads();
    if (threadIdx.x == 0) job.open_count = 0;
}

//@ end
// Of the thread's models: squared distances of its point.
struct tile_own {
    int count, means,
        ones;              // models of the thread; bits of those that have means, and of those of one cluster
    int at[KM_TILE_PAIRS]; // where the row of its label is, in shared memory
    //@ if not float64
    double square[KM_TILE_PAIRS]; // to the own centroid
    //@ end
    km_real mean[KM_TILE_PAIRS]; // ... and mean
};

__device__ __forceinline__ void tile_begin_own(tile_own &own, const tile_job &job) {
    own.count = own.means = own.ones = 0;
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        const int m = tile_model(i), at = m * TILE_LABELS + threadIdx.x % TILE_POINTS;
        //@ if not float64
        own.square[i] = 0.0;
        //@ end
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
//@ if not float64
// ONES: some model of the thread may have one cluster.
template <bool ONES>
//@ end
__device__ __forceinline__ void tile_add_own(tile_own &own, const tile_job &job, int slab) {
    const km_real *point = tile_at<km_real>(0) + threadIdx.x % TILE_POINTS * TILE_PITCH;
    const km_real *rows = tile_at<km_real>(job.rows_at), *means = tile_at<km_real>(job.means_at);
#pragma unroll 1
    for (int f = 0; f < TILE_WIDTH; f += TILE_VECTOR) {
        const tile_features x = *(const tile_features *)(point + f);
        //@ if not float64
        double wide[TILE_VECTOR];
#pragma unroll
        for (int g = 0; g < TILE_VECTOR; g++) wide[g] = (double)x.at[g];
            //@ end
#pragma unroll
        for (int i = 0; i < KM_TILE_PAIRS; i++) {
            if (i >= own.count) break;
            //@ if not float64
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
            //@ end
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
    //@ if not float64
    own.square[0] = finish_square(x, job.table + label * (long long)D);
    //@ end
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
        //@ if float64
        if (own.means >> i & 1) value->distance = tile_weighted(weight, __dsqrt_rn(own.mean[i]));
        //@ else
        value->square = tile_weighted(weight, own.square[i]);
        if (own.means >> i & 1)
            value->distance = tile_weighted(weight, finish_root(own.mean[i]));
        else if (own.ones >> i & 1)
            value->distance = tile_weighted(weight, (float)__dsqrt_rn(own.square[i]));
        //@ end
    }
}

// Adds the tile to the sums: a thread has a cluster, and a group of points.
__device__ __forceinline__ void tile_add(const tile_job &job) {
    const int all = job.rows * job.groups, each = TILE_POINTS / job.groups;
    for (int at = threadIdx.x; at < all; at += blockDim.x) {
        const int row = at % job.rows, from = at / job.rows * each, m = job.is_whole ? job.model_of[row] : 0;
        const int label = row - job.first[m], end = from + each;
        const unsigned short *labels = tile_at<unsigned short>(job.labels_at) + m * TILE_LABELS;
        const tile_value *values = tile_at<tile_value>(job.values_at) + m * TILE_VALUES;
        int points = 0;
        double square = 0.0, distance = 0.0, margin = 0.0, weight = 0.0;
        for (int p = from; p < end; p += 8) { // a few in the points' type
            km_real distances = 0, margins = 0;
#pragma unroll
            for (int q = p; q < p + 8; q++) {
                if (labels[q] != label) continue;
                const tile_value value = values[q];
                points += 1;
                square = __dadd_rn(square, value.square);
                distances += value.distance;
                margins += value.margin;
                if (WEIGHTED) weight = __dadd_rn(weight, tile_at<double>(job.weights_at)[q]);
            }
            distance += distances;
            margin += margins;
        }
        double *sums = tile_at<double>(job.sums_at) + at;
        sums[TILE_COUNT * all] += points;
        sums[TILE_SSE * all] += square;
        sums[TILE_DISTANCE * all] += distance;
        sums[TILE_MARGIN * all] += margin;
        if (WEIGHTED) sums[TILE_WEIGHT * all] += weight;
    }
}

__device__ __forceinline__ void tile_begin(tile_job *job, const km_assign_args &args, int first_model,
                                           int models, int tile_rows) {
    job->models = models;
    job->rows = job->has_means = job->open_count = 0;
    job->tile_rows = tile_rows;
    job->table = (const km_real *)args.table + args.rows[first_model] * D;
    job->centroids = args.centroids + args.rows[first_model] * D;
    for (int m = 0; m < models; m++) {
        job->first[m] = job->rows;
        job->k[m] = args.ks[first_model + m];
        job->rows += job->k[m];
        job->means[m] = finish_means(args, first_model + m);
        job->has_means |= job->means[m] != nullptr;
        for (int row = job->first[m]; job->rows <= tile_rows && row < job->rows; row++)
            job->model_of[row] = m;
    }
    job->is_whole = job->rows <= tile_rows;
    job->groups = job->is_whole ? int(KM_TILE_SUMS) : 1;
    static_assert(sizeof(tile_value) == KM_TILE_VALUE(sizeof(km_real)), "as the engine counts");
    const int row_bytes = TILE_PITCH * sizeof(km_real);
    job->rows_at = TILE_POINTS * TILE_PITCH * sizeof(km_real);
    job->means_at = job->rows_at + KM_TILE_ROOM(tile_rows) * row_bytes;
    job->squares_at = job->means_at + (job->has_means && job->is_whole ? tile_rows * row_bytes : 0);
    job->values_at = job->squares_at + tile_rows * int(TILE_POINTS * sizeof(km_real));
    job->weights_at = job->values_at + models * int(TILE_VALUES * sizeof(tile_value));
    job->sums_at = job->weights_at + WEIGHTED * TILE_POINTS * int(sizeof(double));
    job->labels_at = job->sums_at + TILE_NUMBERS * job->groups * job->rows * int(sizeof(double));
}

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
        //@ if not float64
        if (!job.is_whole) tile_resolve_open(job, tile);
        //@ end
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
                //@ if float64
                tile_add_own(own, job, slab);
                //@ else
                if (own.ones)
                    tile_add_own<true>(own, job, slab);
                else
                    tile_add_own<false>(own, job, slab);
                //@ end
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

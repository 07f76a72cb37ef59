// SPDX-License-Identifier: MIT
// Finish of many features: km_finish_tiles. A block has a tile of points in shared memory, and rows of centroids
// beside it, a slab of the features of both at a time. A warp computes the squared distances of all points of the tile
// to eight rows, in registers; they go to shared memory, where a thread takes the two nearest for a point and model.
// Then the sums: a thread has a cluster and goes through the points.
//@ if not float64
// In float32 the distance to the nearest is computed once more, in double, for the sum of squares.
//@ end

enum {
    TILE_POINTS = KM_TILE_POINTS(sizeof(km_real)),
    TILE_GROUPS = TILE_POINTS / 32,                 // of 32 points
    TILE_SLABS = KM_TILE_SLABS(D, sizeof(km_real)), // pieces of a row
    TILE_WIDTH = KM_TILE_WIDTH(D, sizeof(km_real)), // features of a slab; those behind the last are 0
    TILE_PITCH = KM_TILE_PITCH(TILE_WIDTH, sizeof(km_real)), // of rows in shared memory: no bank conflicts
    TILE_VECTOR = 16 / sizeof(km_real),
    TILE_PIECE = STEP_ALIGN / sizeof(km_real), // features that are copied at a time
    TILE_VALUES = TILE_POINTS + 1,             // pitch of what the points of a model add to sums ...
    TILE_LABELS = TILE_POINTS + 2              // ... and of their labels
};

// Sums of a cluster; without weights every point weighs 1.
enum { TILE_COUNT, TILE_SSE, TILE_DISTANCE, TILE_MARGIN, TILE_WEIGHT, TILE_NUMBERS = 4 + WEIGHTED };
static_assert(TILE_NUMBERS == KM_TILE_NUMBERS(WEIGHTED), "as the engine counts");

struct __align__(16) tile_features {
    km_real at[TILE_VECTOR];
};

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
    // Shared memory, bytes from its beginning: [TILE_POINTS][TILE_PITCH], a slab of the points, comes first; then
    int rows_at;    // [tile_rows][TILE_PITCH] km_real
    int means_at;   // the same of means, where there are any
    int squares_at; // [tile_rows][TILE_POINTS] km_real: squared distances
    int values_at;  // [models][TILE_VALUES] tile_value
    int weights_at; // [TILE_POINTS] double, where points have weights
    int sums_at;    // [TILE_NUMBERS][groups][rows] double
    int labels_at;  // [models][TILE_LABELS] unsigned short
};

template <typename Item> __device__ __forceinline__ Item *tile_at(int bytes) {
    extern __shared__ double tile_memory[];
    return (Item *)((char *)tile_memory + bytes);
}

//@ if async_copies
// Starts to copy a piece to shared memory; zeros where not `valid`.
__device__ __forceinline__ void tile_copy(km_real *to, const km_real *from, bool valid) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(STEP_ALIGN),
                 "r"(valid ? STEP_ALIGN : 0)
                 : "memory");
}

__device__ __forceinline__ void tile_wait() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
//@ else
// Copies a piece to shared memory; zeros where not `valid`.
__device__ __forceinline__ void tile_copy(km_real *to, const km_real *from, bool valid) {
    struct __align__(STEP_ALIGN) piece {
        km_real at[TILE_PIECE];
    }
    zero = {};
    *(piece *)to = valid ? *(const piece *)from : zero;
}

__device__ __forceinline__ void tile_wait() {}
//@ end

// Copies a slab of `count` rows, of which `valid_count` are there.
__device__ __forceinline__ void tile_copy_slab(km_real *to, const km_real *from, int count, int valid_count,
                                               int slab) {
    constexpr int PIECES = TILE_WIDTH / TILE_PIECE;
    for (int i = threadIdx.x; i < count * PIECES; i += blockDim.x) {
        const int row = i / PIECES, f = i % PIECES * TILE_PIECE, at = slab * TILE_WIDTH + f;
        const bool valid = row < valid_count && at < D;
        tile_copy(to + row * TILE_PITCH + f, valid ? from + row * (long long)D + at : from, valid);
    }
}

__device__ __forceinline__ void tile_copy_means(const tile_job &job, int slab) {
    for (int m = 0; m < job.models; m++)
        if (job.means[m])
            tile_copy_slab(tile_at<km_real>(job.means_at) + job.first[m] * TILE_PITCH, job.means[m], job.k[m],
                           job.k[m], slab);
}

// Adds a slab to squared distances of a lane's points to the warp's rows.
__device__ __forceinline__ void tile_add_slab(km_real (*square)[TILE_GROUPS], const tile_job &job) {
    const km_real *points = tile_at<km_real>(0) + threadIdx.x % 32 * TILE_PITCH;
    const km_real *rows = tile_at<km_real>(job.rows_at) + threadIdx.x / 32 * (KM_TILE_WARP_ROWS * TILE_PITCH);
#pragma unroll 1
    for (int f = 0; f < TILE_WIDTH; f += TILE_VECTOR) {
        tile_features x[TILE_GROUPS];
#pragma unroll
        for (int p = 0; p < TILE_GROUPS; p++)
            x[p] = *(const tile_features *)(points + p * (32 * TILE_PITCH) + f);
#pragma unroll
        for (int r = 0; r < KM_TILE_WARP_ROWS; r++) {
            const tile_features c = *(const tile_features *)(rows + r * TILE_PITCH + f);
#pragma unroll
            for (int g = 0; g < TILE_VECTOR; g++)
#pragma unroll
                for (int p = 0; p < TILE_GROUPS; p++) {
                    const km_real t = x[p].at[g] - c.at[g];
                    square[r][p] = fma(t, t, square[r][p]);
                }
        }
    }
}

__device__ __forceinline__ void tile_write_squares(const km_real (*square)[TILE_GROUPS],
                                                   const tile_job &job) {
    km_real *out = tile_at<km_real>(job.squares_at) + threadIdx.x / 32 * (KM_TILE_WARP_ROWS * TILE_POINTS) +
                   threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < KM_TILE_WARP_ROWS; r++)
#pragma unroll
        for (int p = 0; p < TILE_GROUPS; p++) out[r * TILE_POINTS + p * 32] = square[r][p];
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
// Decides the label of a point of model m. In float32 the square comes later.
__device__ __forceinline__ finish_point tile_decide(const finish_nearest &found, const tile_job &job, int m,
                                                    int point, const km_real *x) {
    const int k = job.k[m];
    //@ if float64
    return finish_of_squares(found.label, found.nearest, found.second, k);
    //@ else
    // As finish_decide.
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    const float bound = fma(found.nearest, apart, lost);
    if (k > 1 && !(bound < found.second && found.second < largest))
        return tile_resolve(x, job.centroids + job.first[m] * (long long)D, k,
                            job.is_whole && bound < largest
                                ? tile_at<km_real>(job.squares_at) + job.first[m] * TILE_POINTS + point
                                : nullptr,
                            bound);
    return {found.label, 0.0, finish_root(found.nearest),
            k > 1 ? 1.0f - finish_root(__fdividef(found.nearest, found.second)) : 0.0};
    //@ end
}

// A thread has one point of the tile, and every so many models, of which this is number i; or beyond the last.
__device__ __forceinline__ int tile_model(int i) {
    return threadIdx.x / TILE_POINTS + i * (blockDim.x / TILE_POINTS);
}

// Labels of the thread's point, and what its distances to centroids add. `found` is of the only model where not all
// rows were in shared memory.
__device__ __forceinline__ void tile_label(finish_nearest &found, const tile_job &job, const km_real *x,
                                           double weight) {
    const int point = threadIdx.x % TILE_POINTS;
#pragma unroll 1
    for (int i = 0; tile_model(i) < job.models; i++) {
        const int m = tile_model(i);
        if (job.is_whole) {
            found = tile_far();
            tile_take(found, job, m, 0, point);
        }
        const finish_point decided = tile_decide(found, job, m, point, x);
        tile_at<unsigned short>(job.labels_at)[m * TILE_LABELS + point] = (unsigned short)decided.label;
        tile_at<tile_value>(job.values_at)[m * TILE_VALUES + point] = {__dmul_rn(weight, decided.square),
                                                                       (km_real)(weight * decided.distance),
                                                                       (km_real)(weight * decided.margin)};
    }
}

// Of the thread's models: where their rows begin, and squared distances of its point.
struct tile_own {
    int row[KM_TILE_PAIRS];
    //@ if not float64
    double square[KM_TILE_PAIRS]; // to the own centroid
    //@ end
    km_real mean[KM_TILE_PAIRS]; // ... and mean
};

__device__ __forceinline__ void tile_begin_own(tile_own &own, const tile_job &job) {
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        const int m = tile_model(i), at = m * TILE_LABELS + threadIdx.x % TILE_POINTS;
        own.row[i] = m < job.models ? job.first[m] + tile_at<unsigned short>(job.labels_at)[at] : 0;
        //@ if not float64
        own.square[i] = 0.0;
        //@ end
        own.mean[i] = 0;
    }
}

// Adds a slab, of which points and rows are in shared memory.
__device__ __forceinline__ void tile_add_own(tile_own &own, const tile_job &job, int slab) {
    const km_real *point = tile_at<km_real>(0) + threadIdx.x % TILE_POINTS * TILE_PITCH;
#pragma unroll 1
    for (int f = 0; f < TILE_WIDTH; f += TILE_VECTOR) {
        const tile_features x = *(const tile_features *)(point + f);
#pragma unroll
        for (int i = 0; i < KM_TILE_PAIRS; i++) {
            const int m = tile_model(i);
            if (m >= job.models) break;
            //@ if not float64
            if (job.k[m] > 1) {
                const tile_features c =
                    *(const tile_features *)(tile_at<km_real>(job.rows_at) + own.row[i] * TILE_PITCH + f);
#pragma unroll
                for (int g = 0; g < TILE_VECTOR; g++) {
                    const double t = __dsub_rn(x.at[g], c.at[g]);
                    own.square[i] = __fma_rn(t, t, own.square[i]);
                }
            } else { // the centroid need not be a float
                const int at = slab * TILE_WIDTH + f;
                const double *c = job.centroids + job.first[m] * (long long)D + at;
#pragma unroll
                for (int g = 0; g < TILE_VECTOR; g++) {
                    const double t = __dsub_rn(x.at[g], at + g < D ? c[g] : 0.0);
                    own.square[i] = __fma_rn(t, t, own.square[i]);
                }
            }
            //@ end
            if (!job.means[m]) continue;
            const tile_features c =
                *(const tile_features *)(tile_at<km_real>(job.means_at) + own.row[i] * TILE_PITCH + f);
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
    //@ if not float64
    own.square[0] = finish_square(x, job.table + own.row[0] * (long long)D);
    //@ end
    if (!job.means[0]) return;
    const km_real *mean = job.means[0] + own.row[0] * (long long)D;
#pragma unroll 8
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        own.mean[0] = fma(t, t, own.mean[0]);
    }
}

__device__ __forceinline__ void tile_write_own(const tile_own &own, const tile_job &job, double weight) {
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        const int m = tile_model(i);
        if (m >= job.models) break;
        tile_value *value = tile_at<tile_value>(job.values_at) + m * TILE_VALUES + threadIdx.x % TILE_POINTS;
        //@ if float64
        if (job.means[m]) value->distance = weight * __dsqrt_rn(own.mean[i]);
        //@ else
        value->square = __dmul_rn(weight, own.square[i]);
        if (job.means[m])
            value->distance = (float)(weight * finish_root(own.mean[i]));
        else if (job.k[m] == 1)
            value->distance = (float)(weight * __dsqrt_rn(own.square[i]));
        //@ end
    }
}

// Adds the tile to the sums: a thread has a cluster, and a group of points.
__device__ __forceinline__ void tile_add(const tile_job &job, int count) {
    const int all = job.rows * job.groups, each = TILE_POINTS / job.groups;
    for (int at = threadIdx.x; at < all; at += blockDim.x) {
        const int row = at % job.rows, from = at / job.rows * each, m = job.is_whole ? job.model_of[row] : 0;
        const int label = row - job.first[m], end = from + each < count ? from + each : count;
        const unsigned short *labels = tile_at<unsigned short>(job.labels_at) + m * TILE_LABELS;
        const tile_value *values = tile_at<tile_value>(job.values_at) + m * TILE_VALUES;
        int points = 0;
        double square = 0.0, distance = 0.0, margin = 0.0, weight = 0.0;
        for (int p = from; p < end; p += 8) { // a few in the points' type
            km_real distances = 0, margins = 0;
#pragma unroll
            for (int q = p; q < p + 8; q++) {
                if (labels[q] != label || q >= end) continue;
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
    job->rows = job->has_means = 0;
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
    const int bytes = tile_rows * int(TILE_PITCH * sizeof(km_real));
    job->rows_at = TILE_POINTS * TILE_PITCH * sizeof(km_real);
    job->means_at = job->rows_at + bytes;
    job->squares_at = job->means_at + (job->has_means && job->is_whole ? bytes : 0);
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
    const int warp_row = threadIdx.x / 32 * KM_TILE_WARP_ROWS, point = threadIdx.x % TILE_POINTS;
    const long long first = blockIdx.x * (long long)KM_FINISH_PIECE_POINTS;
    const int count =
        (int)(args.count - first < KM_FINISH_PIECE_POINTS ? args.count - first : KM_FINISH_PIECE_POINTS);
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
            const bool is_busy = warp_row < tile_rows && start + warp_row < job.rows;
            km_real square[KM_TILE_WARP_ROWS][TILE_GROUPS] = {};
            for (int slab = 0; slab < TILE_SLABS; slab++) {
                if (!is_kept) {
                    if (TILE_SLABS > 1 || start == 0)
                        tile_copy_slab(tile_at<km_real>(0), tile, TILE_POINTS, left, slab);
                    tile_copy_slab(tile_at<km_real>(job.rows_at), job.table + start * (long long)D, tile_rows,
                                   job.rows - start, slab);
                }
                tile_wait();
                __syncthreads();
                if (is_busy) tile_add_slab(square, job);
                if (!is_kept) __syncthreads();
            }
            if (is_busy) tile_write_squares(square, job);
            __syncthreads();
            if (!job.is_whole && tile_model(0) == 0) tile_take(found, job, 0, start, point);
        }
        const bool is_point = point < left;
        const km_real *x = tile + (is_point ? point : 0) * (long long)D;
        const double weight = is_point ? km_weight(weights, args.first + first + base + point) : 0.0;
        if (WEIGHTED && threadIdx.x < TILE_POINTS) tile_at<double>(job.weights_at)[point] = weight;
        tile_label(found, job, x, weight);
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
                tile_add_own(own, job, slab);
                if (TILE_SLABS > 1) __syncthreads();
            }
        }
        tile_write_own(own, job, weight);
        __syncthreads();
        if (is_kept && left > TILE_POINTS)
            tile_copy_slab(tile_at<km_real>(0), tile + TILE_POINTS * D, TILE_POINTS, left - TILE_POINTS, 0);
        tile_add(job, left < TILE_POINTS ? left : int(TILE_POINTS));
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

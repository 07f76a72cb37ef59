// SPDX-License-Identifier: MIT
// The silhouettes of many features (tiles.cu). The rows of a model are its centroids, and then its means where these
// are others; a thread goes through their squared distances for a point and model.

// The models of a launch, and where a block has them.
struct silhouette_job {
    int models, rows;              // how many; of all of them
    int tile_rows, is_whole;       // rows at a time; all rows are in shared memory at once
    int first[KM_TILE_MODELS];     // of each model: its first row,
    int k[KM_TILE_MODELS];         // its clusters,
    int has_means[KM_TILE_MODELS]; // whether k rows of means follow,
    long long terms[KM_TILE_MODELS],
        means[KM_TILE_MODELS];       // and its first row in the tables, and that of its means
    unsigned char open[TILE_POINTS]; // of the only model, where not all rows are there: points to be resolved
    int open_count;
    // Shared memory, bytes from its beginning: as tile_job.
    int rows_at;    // [tile_rows][TILE_PITCH] km_real
    int squares_at; // [tile_rows][TILE_POINTS] km_real
    int sums_at;    // [models][TILE_POINTS] double: of a thread for each point and model
};

__device__ __forceinline__ void silhouette_begin(silhouette_job *job, const km_silhouette_args &args,
                                                 int first_model, int models, int tile_rows) {
    job->models = models;
    job->rows = job->open_count = 0;
    job->tile_rows = tile_rows;
    for (int m = 0; m < models; m++) {
        job->first[m] = job->rows;
        job->k[m] = args.ks[first_model + m];
        job->terms[m] = args.rows[first_model + m];
        job->means[m] = args.mean_rows[first_model + m];
        job->has_means[m] = job->terms[m] != job->means[m];
        job->rows += job->k[m] << job->has_means[m];
    }
    job->is_whole = job->rows <= tile_rows;
    job->rows_at = TILE_POINTS * TILE_PITCH * sizeof(km_real);
    job->squares_at = job->rows_at + KM_TILE_ROOM(tile_rows) * int(TILE_PITCH * sizeof(km_real));
    job->sums_at = job->squares_at + tile_rows * int(TILE_POINTS * sizeof(km_real));
}

// Copies a slab of the rows from `start` on: of all models, or of the only one.
__device__ __forceinline__ void silhouette_copy(const silhouette_job &job, const km_real *table, int start,
                                                int slab) {
    for (int m = 0; m < job.models; m++) {
        for (int part = 0; part <= job.has_means[m]; part++) {
            const int first = job.first[m] + part * job.k[m] - start; // of the part, in the tile
            const int from = first > 0 ? first : 0, skipped = from - first;
            const int end = first + job.k[m] < job.tile_rows ? first + job.k[m] : job.tile_rows;
            const long long row = (part ? job.means[m] : job.terms[m]) + skipped;
            if (from < end)
                tile_copy_slab(tile_at<km_real>(job.rows_at) + from * TILE_PITCH, table + row * D, end - from,
                               end - from, slab);
        }
    }
}

// Takes the rows of model m that are in the tile.
__device__ __forceinline__ void silhouette_take_rows(silhouette_point &found, const silhouette_job &job,
                                                     const silhouette_terms<km_real> *terms, int m, int start,
                                                     int point) {
    const int k = job.k[m], offset = job.first[m] - start, rows = k << job.has_means[m];
    const int end = offset + rows < job.tile_rows ? offset + rows : job.tile_rows;
    const km_real *squares = tile_at<km_real>(job.squares_at) + point;
    terms += job.terms[m];
    int at = offset > 0 ? offset : 0;
    if (!job.has_means[m]) {
#pragma unroll 2
        for (; at < end; at++)
            silhouette_take<SILHOUETTE_BOTH>(found, squares[at * TILE_POINTS], at - offset,
                                             terms[at - offset]);
        return;
    }
#pragma unroll 2
    for (; at < end && at - offset < k; at++)
        silhouette_take<SILHOUETTE_LABELS>(found, squares[at * TILE_POINTS], at - offset, {});
#pragma unroll 2
    for (; at < end; at++)
        silhouette_take<SILHOUETTE_MEANS>(found, squares[at * TILE_POINTS], at - offset - k,
                                          terms[at - offset - k]);
}

//@ if not float64
__device__ __forceinline__ double silhouette_square(const km_real *x, const double *row) {
    double square = 0.0;
#pragma unroll 4
    for (int f = 0; f < D; f++) {
        const double t = __dsub_rn(x[f], row[f]);
        square = __fma_rn(t, t, square);
    }
    return square;
}

// silhouette_exact by a warp: a lane has every so many clusters. Every lane gets it.
__device__ __forceinline__ double silhouette_together(const km_real *x, const double *centroids,
                                                      const double *means,
                                                      const silhouette_terms<double> *terms, int k) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, own = infinity, other = infinity;
    int label = 0;
#pragma unroll 1
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        const double square = silhouette_square(x, centroids + (long long)j * D);
        label = square < nearest ? j : label;
        nearest = square < nearest ? square : nearest;
    }
    for (int step = 16; step > 0; step >>= 1) {
        const double its = __shfl_xor_sync(0xffffffffu, nearest, step);
        const int its_label = __shfl_xor_sync(0xffffffffu, label, step);
        label = its < nearest || (its == nearest && its_label < label) ? its_label : label;
        nearest = fmin(its, nearest);
    }
#pragma unroll 1
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        const double mean = __dadd_rn(silhouette_square(x, means + (long long)j * D), terms[j].spread);
        if (j == label)
            own = mean;
        else
            other = fmin(mean, other);
    }
    for (int step = 16; step > 0; step >>= 1) {
        own = fmin(own, __shfl_xor_sync(0xffffffffu, own, step));
        other = fmin(other, __shfl_xor_sync(0xffffffffu, other, step));
    }
    return silhouette_value<double>(own, other, terms[label].factor);
}

// Points of the only model whose label is open, a warp each: a thread alone would take long for its clusters.
__device__ __forceinline__ void silhouette_resolve_open(silhouette_job &job, const km_silhouette_args &args,
                                                        const km_real *tile, const double *weights) {
    __syncthreads();
    for (int at = threadIdx.x / 32; at < job.open_count; at += blockDim.x / 32) {
        const int point = job.open[at];
        const double value = silhouette_together(
            tile + point * (long long)D, args.centroids + job.terms[0] * D, args.centroids + job.means[0] * D,
            (const silhouette_terms<double> *)args.exact_terms + job.terms[0], job.k[0]);
        if (threadIdx.x % 32 == 0) tile_at<double>(job.sums_at)[point] += km_weight(weights, point) * value;
    }
    __syncthreads();
    if (threadIdx.x == 0) job.open_count = 0;
}

//@ end
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
            //@ if not float64
            const km_real *x = tile + point * (long long)D;
            //@ end
#pragma unroll 1
            for (int i = 0; tile_model(i) < models; i++) {
                const int m = tile_model(i);
                if (job.is_whole) {
                    found = silhouette_far();
                    silhouette_take_rows(found, job, terms, m, 0, point);
                }
                double value = silhouette_value(found.own, found.other, found.factor);
                //@ if not float64
                if (silhouette_is_open(found)) {
                    if (!job.is_whole) {
                        job.open[atomicAdd(&job.open_count, 1)] = (unsigned char)point;
                        break;
                    }
                    value = silhouette_exact(
                        x, args.centroids + job.terms[m] * D, args.centroids + job.means[m] * D,
                        (const silhouette_terms<double> *)args.exact_terms + job.terms[m], job.k[m]);
                }
                //@ end
                tile_at<double>(job.sums_at)[m * TILE_POINTS + point] +=
                    km_weight(tile_weights, point) * value;
            }
        }
        //@ if not float64
        if (!job.is_whole) silhouette_resolve_open(job, args, tile, tile_weights);
        //@ end
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

// Of the text of {features: 32, clusters: 2..12, type: float64, target: cuda:sm_75} weighted: The steps around the pass; Finishing; Silhouettes
// "..." stands for what a template or an earlier part shows.

// ... 38 definitions

// ... 18 definitions

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
        const finish_point decided = finish_of_squares(found.label, found.nearest, found.second, k);
        tile_write(job, is_point ? decided.label : int(TILE_NONE), decided.square, decided.distance,
                   decided.margin, m, point, weight);
    }
}

// ... 4 definitions

__device__ __forceinline__ void tile_write_own(const tile_own &own, const tile_job &job, double weight) {
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        if (i >= own.count) break;
        tile_value *value =
            tile_at<tile_value>(job.values_at) + tile_model(i) * TILE_VALUES + threadIdx.x % TILE_POINTS;
        if (own.means >> i & 1) value->distance = tile_weighted(weight, __dsqrt_rn(own.mean[i]));
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

// ... 13 definitions

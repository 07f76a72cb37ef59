// Of the text of {features: 32, clusters: 2..12, target: cuda:sm_90}: The steps around the pass; Seeding; Finishing; Silhouettes
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 28 definitions
// ... lines of a template
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
    TILE_AT_ONCE = 8,                              // rows that a warp reads at a time
    TILE_PIECE = STEP_ALIGN / sizeof(km_real)      // features that are copied at a time
};

// ... 10 definitions

// ... 1 more of 2 lines, other numbers: d089a628
// The weights of a thread's points in the draw of `pick`, from the pick before and the distances to earlier ones; 0
// behind the last point.
__device__ __forceinline__ void seed_values(double *values, const km_seed_args *args, const km_real *nearest,
                                            long long first, long long pick, long long last,
                                            const unsigned short *nearer, int best) {
    if (nearer) return seed_known_values(values, args, nearest, first, last, nearer, best);
    // ... lines of a template
// ... 8 definitions
// ... lines of a template
            sums[c][p] = __dadd_rn(sums[c][p], fmin(left, SEED_FAR));
        }
    }
}

// ... 1 definition
// ... lines of a template
        __syncthreads();                            // all warps are done with the rows and sums of the tasks before
        // ... lines of a template

// ... 24 definitions
// ... lines of a template
        // ... lines of a template
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
        // ... lines of a template
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
            // ... lines of a template
            // ... lines of a template
    own.square[0] = finish_square(x, job.table + label * (long long)D);
    // ... lines of a template
        value->square = tile_weighted(weight, own.square[i]);
        if (own.means >> i & 1)
            value->distance = tile_weighted(weight, finish_root(own.mean[i]));
        else if (own.ones >> i & 1)
            value->distance = tile_weighted(weight, (float)__dsqrt_rn(own.square[i]));
    }
}

// ... 2 definitions
// ... lines of a template
        if (!job.is_whole) tile_resolve_open(job, tile);
        // ... lines of a template
                if (own.ones)
                    tile_add_own<true>(own, job, slab);
                else
                    tile_add_own<false>(own, job, slab);
                // ... lines of a template

// ... 8 definitions

// ... 1 more of 2 lines, other numbers: 81f28371
// ... lines of a template
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

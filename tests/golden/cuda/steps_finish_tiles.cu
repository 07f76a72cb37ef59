// Of the text of {features: 32, clusters: 2..12, target: cuda:sm_90}: Finishing
// "..." stands for what a template or an earlier part shows.

// ... 13 definitions

enum {
    TILE_POINTS = KM_TILE_POINTS(sizeof(km_real)),
    TILE_GROUPS = TILE_POINTS / 32,                          // of 32 points
    TILE_SLABS = KM_TILE_SLABS(D, sizeof(km_real)),          // pieces of a row
    TILE_WIDTH = KM_TILE_WIDTH(D, sizeof(km_real)),          // features of a slab; those behind the last are 0
    TILE_PITCH = KM_TILE_PITCH(TILE_WIDTH, sizeof(km_real)), // of rows in shared memory: no bank conflicts
    TILE_VECTOR = 16 / sizeof(km_real),
    TILE_PIECE = STEP_ALIGN / sizeof(km_real), // features that are copied at a time
    TILE_VALUES = TILE_POINTS + 1,             // pitch of what the points of a model add to sums ...
    TILE_LABELS = TILE_POINTS + 2              // ... and of their labels
};

// ... 14 definitions

// Decides the label of a point of model m. In float32 the square comes later.
__device__ __forceinline__ finish_point tile_decide(const finish_nearest &found, const tile_job &job, int m,
                                                    int point, const km_real *x) {
    const int k = job.k[m];
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
}

// ... 2 definitions

// Of the thread's models: where their rows begin, and squared distances of its point.
struct tile_own {
    int row[KM_TILE_PAIRS];
    double square[KM_TILE_PAIRS]; // to the own centroid
    km_real mean[KM_TILE_PAIRS];  // ... and mean
};

__device__ __forceinline__ void tile_begin_own(tile_own &own, const tile_job &job) {
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        const int m = tile_model(i), at = m * TILE_LABELS + threadIdx.x % TILE_POINTS;
        own.row[i] = m < job.models ? job.first[m] + tile_at<unsigned short>(job.labels_at)[at] : 0;
        own.square[i] = 0.0;
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
    own.square[0] = finish_square(x, job.table + own.row[0] * (long long)D);
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
        value->square = __dmul_rn(weight, own.square[i]);
        if (job.means[m])
            value->distance = (float)(weight * finish_root(own.mean[i]));
        else if (job.k[m] == 1)
            value->distance = (float)(weight * __dsqrt_rn(own.square[i]));
    }
}

// ... 11 definitions

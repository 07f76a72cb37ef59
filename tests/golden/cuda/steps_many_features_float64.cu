// Of the text of {features: 32, clusters: 2..12, type: float64, target: cuda:sm_75} weighted: The steps around the pass; Finishing; Silhouettes
// "..." stands for what a template or an earlier part shows.

// ... 37 definitions

// ... 17 definitions

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
        tile_write(job, finish_of_squares(found.label, found.nearest, found.second, k), m, point, weight);
    }
}

// ... 4 definitions

__device__ __forceinline__ void tile_write_own(const tile_own &own, const tile_job &job, double weight) {
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        const int m = tile_model(i);
        if (m >= job.models) break;
        tile_value *value = tile_at<tile_value>(job.values_at) + m * TILE_VALUES + threadIdx.x % TILE_POINTS;
        if (job.means[m]) value->distance = weight * __dsqrt_rn(own.mean[i]);
    }
}

// ... 11 definitions

// ... 14 definitions

// Of the text of {features: 32, clusters: 2..12, type: float64, target: cuda:sm_75} weighted: Finishing
// "..." stands for what a template or an earlier part shows.

// ... 23 definitions

// Decides the label of a point of model m. In float32 the square comes later.
__device__ __forceinline__ finish_point tile_decide(const finish_nearest &found, const tile_job &job, int m,
                                                    int point, const km_real *x) {
    const int k = job.k[m];
    return finish_of_squares(found.label, found.nearest, found.second, k);
}

// ... 6 definitions

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

// SPDX-License-Identifier: MIT
// For several steps: rows of points.
enum { KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK };

__device__ __forceinline__ int km_is_finite(double value) {
    return fabs(value) <= 1.7976931348623157e308;
}

// Points of few features are in registers as a whole; of others, STEP_FEATURES features at a time are. Both are read by
// the widest loads that the alignment of a row allows.
constexpr bool STEP_ROW_IN_REGISTERS = D <= 16;
constexpr int STEP_FEATURES = STEP_ROW_IN_REGISTERS ? int(D) : int(32 / sizeof(km_real));
constexpr int STEP_ALIGN = D * sizeof(km_real) % 16 == 0  ? 16
                           : D * sizeof(km_real) % 8 == 0 ? 8
                                                          : int(sizeof(km_real));
struct __align__(STEP_ALIGN) step_features {
    km_real at[STEP_FEATURES];
};

// Features f ... of a row; zeros behind the last.
__device__ __forceinline__ void step_load(km_real *x, const km_real *row, int f) {
    if constexpr (D % STEP_FEATURES == 0) {
        const step_features features = *(const step_features *)(row + f);
#pragma unroll
        for (int g = 0; g < STEP_FEATURES; g++) x[g] = features.at[g];
    } else {
#pragma unroll
        for (int g = 0; g < STEP_FEATURES; g++) x[g] = f + g < D ? row[f + g] : (km_real)0;
    }
}

// Where a thread looks for the nearest centroid.
enum {
    FINISH_POINTS = D * sizeof(km_real) <= 16 ? 4 : 2, // points of a thread at a time
    FINISH_ROWS = STEP_ROW_IN_REGISTERS ? 1 : 4        // centroids for each read of the points' features
};

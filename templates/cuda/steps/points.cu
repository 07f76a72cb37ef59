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

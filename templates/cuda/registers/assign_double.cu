// SPDX-License-Identifier: MIT
//@ include cuda/registers/scores.cu

// Adds a point to the sums of a cluster where `found`. Elsewhere it has weight 0, which is faster than a branch.
//@ if weighted
static __device__ __forceinline__ void km_add(double *sums, const double *x, double weight, bool found) {
    const double w = found ? weight : 0;
    KM_UNROLL_FOR (int f = 0; f < $lane_d_name; f++) sums[f] = fma(w, x[f], sums[f]);
    sums[$lane_d_name] += w;
}
//@ else
static __device__ __forceinline__ void km_add(double *sums, int &count, const double *x, bool found) {
    const double weight = found ? 1 : 0;
    KM_UNROLL_FOR (int f = 0; f < $lane_d_name; f++) sums[f] = fma(weight, x[f], sums[f]);
    asm("{ .reg .pred found; setp.ne.s32 found, %1, 0; @found add.s32 %0, %0, 1; }"
        : "+r"(count)
        : "r"((int)found));
}
//@ end

// The nearest centroid: its index among those without the pivot, or SCORES for the pivot. Comparisons of doubles are
// expensive, so there is one for each score. A score of 0 or more wins over the pivot's, which is 0: where scores can
// tie, the pivot is the last centroid.
template <int SCORES> static __device__ __forceinline__ int km_nearest(const double (&score)[SCORES]) {
    double best = -4.9e-324;
    int nearest = SCORES;
    KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
        const bool better = score[j] > best;
        best = better ? score[j] : best;
        nearest = better ? j : nearest;
    }
    return nearest;
}

// One K: finds the nearest centroid of each point, and adds the points to the sums.
//@ if weighted
template <int SCORES>
static __device__ __forceinline__ void km_assign(km_points &points, const km_coefficients *coefficients,
                                                 int pivot, double *sums) {
    double score[POINTS][SCORES];
    km_scores<SCORES>(score, points, coefficients);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const int nearest = km_nearest<SCORES>(score[p]);
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++)
            km_add(sums + j * ($lane_d_name + 1), points.x[p], points.weight[p], nearest == j);
        //@ if track_labels
        points.label[p] = nearest == SCORES ? pivot : nearest + (nearest >= pivot);
        //@ end
        if (nearest == SCORES) sums[SCORES * ($lane_d_name + 1)] += points.weight[p];
    }
}
//@ else
template <int SCORES>
static __device__ __forceinline__ void km_assign(km_points &points, const km_coefficients *coefficients,
                                                 int pivot, double *sums, int *counts) {
    double score[POINTS][SCORES];
    km_scores<SCORES>(score, points, coefficients);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const int nearest = km_nearest<SCORES>(score[p]);
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++)
            km_add(sums + j * ($lane_d_name + 1), counts[j], points.x[p], nearest == j);
        //@ if track_labels
        points.label[p] = nearest == SCORES ? pivot : nearest + (nearest >= pivot);
        //@ end
    }
}
//@ end

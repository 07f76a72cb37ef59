// SPDX-License-Identifier: MIT
//@ include cuda/registers/scores.cu

// Adds a point to its sums where `found` holds. There are no predicated additions of doubles: a weight of 0 adds
// nothing.
//@ if weighted
static __device__ __forceinline__ void km_add(double *sums, const double *x, double weight, bool found) {
    const double w = found ? weight : 0;
    KM_UNROLL_FOR (int f = 0; f < $own_name; f++) sums[f] = fma(w, x[f], sums[f]);
    sums[$own_name] += w;
}
//@ else
static __device__ __forceinline__ void km_add(double *sums, int &count, const double *x, bool found) {
    const double weight = found ? 1 : 0;
    KM_UNROLL_FOR (int f = 0; f < $own_name; f++) sums[f] = fma(weight, x[f], sums[f]);
    asm("{ .reg .pred found; setp.ne.s32 found, %1, 0; @found add.s32 %0, %0, 1; }"
        : "+r"(count)
        : "r"((int)found));
}
//@ end

// The nearest centroid: its number among those beside the pivot, or OTHERS for the pivot. Comparisons of doubles are
// dear, so there is one for each score. What is 0 or more beats the pivot: its number is the last where scores can tie.
template <int OTHERS> static __device__ __forceinline__ int km_nearest(const double (&score)[OTHERS]) {
    double best = -4.9e-324;
    int nearest = OTHERS;
    KM_UNROLL_FOR (int j = 0; j < OTHERS; j++) {
        const bool better = score[j] > best;
        best = better ? score[j] : best;
        nearest = better ? j : nearest;
    }
    return nearest;
}

// One K with OTHERS centroids beside the pivot: the nearest centroid of each point, and the sums.
//@ if weighted
template <int OTHERS>
static __device__ __forceinline__ void km_assign(km_points &points, const km_plane *planes, int pivot,
                                                 double *sums) {
    double score[POINTS][OTHERS];
    km_scores<OTHERS>(score, points, planes);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const int nearest = km_nearest<OTHERS>(score[p]);
        KM_UNROLL_FOR (int j = 0; j < OTHERS; j++)
            km_add(sums + j * ($own_name + 1), points.x[p], points.weight[p], nearest == j);
        //@ if track_labels
        points.label[p] = nearest == OTHERS ? pivot : nearest + (nearest >= pivot);
        //@ end
        if (nearest == OTHERS) sums[OTHERS * ($own_name + 1)] += points.weight[p];
    }
}
//@ else
template <int OTHERS>
static __device__ __forceinline__ void km_assign(km_points &points, const km_plane *planes, int pivot,
                                                 double *sums, int *counts) {
    double score[POINTS][OTHERS];
    km_scores<OTHERS>(score, points, planes);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const int nearest = km_nearest<OTHERS>(score[p]);
        KM_UNROLL_FOR (int j = 0; j < OTHERS; j++)
            km_add(sums + j * ($own_name + 1), counts[j], points.x[p], nearest == j);
        //@ if track_labels
        points.label[p] = nearest == OTHERS ? pivot : nearest + (nearest >= pivot);
        //@ end
    }
}
//@ end

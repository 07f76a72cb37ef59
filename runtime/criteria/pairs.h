// SPDX-License-Identifier: MIT
// The silhouette by the distances of all pairs, exact for few points, and the sample that stands for more.
#ifndef KM_RUNTIME_CRITERIA_PAIRS_H
#define KM_RUNTIME_CRITERIA_PAIRS_H
#include "../../base/error.h"
#include <stdint.h>

// Up to so many points all pairs are taken; of more a sample of so many, drawn by seed.
enum { KM_PAIRS_POINTS = 10000 };

// Points whose pairs are taken, and their labels by `sets_count` clusterings: labels[set * n + i], 0 .. ks[set] - 1.
typedef struct km_pairs {
    const double *points;  // n x d
    const double *weights; // n, or NULL
    int64_t n, d;
    const int32_t *labels;
    const int64_t *ks;
    int64_t sets_count, threads;
    struct km_asking *asking; // NULL: nobody asks
} km_pairs;

// The Euclidean silhouette of each clustering, and the standard error of each mean as that of a sample. NaN: less than
// two clusters, or as many as points. Weights count as copies. KM_ERROR_MEMORY, KM_ERROR_INTERRUPTED.
km_status km_pairs_silhouettes(double *scores, double *errors, const km_pairs *pairs, km_error *err);

// Labels of `count` points (count x d) by the nearest of k centroids, to the last bit those of the finishing pass.
void km_label_points(int32_t *labels, const double *points, int64_t count, const double *centroids, int64_t k,
                     int64_t d, int64_t threads);

#endif

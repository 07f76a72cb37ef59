// SPDX-License-Identifier: MIT
// Points to measure with, first centroids among them, and what one pass over them must give.
#ifndef KM_RUNTIME_TUNE_POINTS_H
#define KM_RUNTIME_TUNE_POINTS_H
#include "../../base/error.h"
#include "../backend.h"

// n points of overlapping clusters, the same on every machine: counter-based draws. C order, of the type.
typedef struct km_tune_points {
    int64_t n, d;
    km_type type;
    void *values;
    km_data *data;
} km_tune_points;

km_status km_tune_points_make(km_tune_points *out, int64_t n, int64_t d, int64_t clusters, km_type type,
                              km_error *err);
void km_tune_points_free(km_tune_points *points);

// Indices of the first centroids of a run: `k` different points.
void km_tune_points_starts(int64_t *indices, const km_tune_points *points, int64_t k);

// One pass of one K in the clustered space, by differences in double: for each cluster the points that are surely its
// own and their sums; and how many others the rounding of scores may give to it as well.
typedef struct km_tune_expected {
    int64_t k, d;
    double *sure;     // k: points
    double *sums;     // k x d
    double *open;     // k: points that may be its own or not
    double *absolute; // k x d: sums of absolute values, what sums may be wrong by is relative to
} km_tune_expected;

// `centroids`: k x d of the clustered space, into which `load` maps the points.
km_status km_tune_expect(km_tune_expected *out, const km_tune_points *points, const km_load_params *load,
                         const double *centroids, int64_t k, km_error *err);
void km_tune_expected_free(km_tune_expected *expected);

// Whether new centroids (k x d) and weights (k) are those of such a pass; else `reason` says what is not.
int km_tune_is_as_expected(char *reason, int64_t size, const km_tune_expected *expected,
                           const double *centroids, const double *weights);

#endif

// SPDX-License-Identifier: MIT
// Distances of points to centroids, in double, on the host: of what is written, not of what is fitted.
#ifndef KM_RUNTIME_WRITE_DISTANCES_H
#define KM_RUNTIME_WRITE_DISTANCES_H
#include <kmgen/data.h>

// A model's centroids and how points come to them: x' = (x - centre) * factor, distances times `unit`.
typedef struct km_space {
    int64_t d, k;
    const double *centre, *factor; // d each
    const double *centroids;       // k x d, of x'
    double unit;
} km_space;

// Of rows first .. first + count - 1 of the data; what is NULL is not wanted.
typedef struct km_distances {
    const int32_t *labels; // in: of these rows, -1: dropped
    double *own;           // to the label's centroid; NaN: dropped, as below
    double *margin;        // (d2 - d1) / d2: d1 is `own`, d2 the least to another centroid; NaN for k = 1
    double *all;           // count x k
} km_distances;

// *point is the first point whose row is `first` or later, and becomes that of the rows behind. KM_ERROR_MEMORY, and
// KM_ERROR_IO as km_data_read.
km_status km_distances_make(km_distances *out, const km_space *space, const km_data *data, int64_t first,
                            int64_t count, int64_t *point, int64_t threads, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// Ranges between the quartiles of features, by which the robust scale divides.
#ifndef KM_RUNTIME_QUARTILES_H
#define KM_RUNTIME_QUARTILES_H
#include <kmgen/data.h>

// Third quartile less the first of each of the d features, both interpolated between their neighbours, of the points
// `points` (NULL: the first `count`), whatever their weights: of all where they are at most 2^20 values, else of as
// many, their points evenly spread. KM_ERROR_USAGE: the points are sparse.
km_status km_quartile_ranges(double *ranges, const km_data *data, const int64_t *points, int64_t count,
                             km_error *err);

#endif

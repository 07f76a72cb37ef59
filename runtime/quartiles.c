// SPDX-License-Identifier: MIT
#include "quartiles.h"
#include "../base/error.h"
#include "../base/size.h"
#include "csr.h"
#include "memory.h"

#include <math.h>
#include <stdlib.h>

enum { VALUES_MAX = 1 << 20, POINTS_MIN = 64 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int64_t count, double share) {
    double place = share * (double)(count - 1);
    int64_t below = (int64_t)place, above = km_min(below + 1, count - 1);
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

km_status km_quartile_ranges(double *ranges, const km_data *data, const int64_t *points, int64_t count,
                             km_error *err) {
    if (km_data_csr(data))
        return km_fail(err, KM_ERROR_USAGE,
                       "%s is sparse: most of its values are 0, so its quartiles say nothing of a feature's "
                       "spread; use --scale standard",
                       km_data_name(data));
    int64_t d = km_data_features(data), taken = km_min(count, km_max(VALUES_MAX / d, POINTS_MIN));
    int64_t bytes = (taken * d + taken) * (int64_t)sizeof(double);
    KM_TRY(km_host_check("the quartiles of features", bytes, err));
    double *values = calloc((size_t)(taken * d + taken + 1), sizeof *values);
    if (!values) return km_fail_memory(err, "the quartiles of features", bytes);
    double *column = values + taken * d;
    km_status status = KM_OK;
    for (int64_t i = 0; i < taken && status == KM_OK; i++) {
        int64_t point = taken == count ? i : (int64_t)((double)i * (double)count / (double)taken);
        status = km_data_read(values + i * d, data, points ? points[point] : point, 1, KM_FLOAT64, err);
    }
    for (int64_t f = 0; f < d && status == KM_OK; f++) {
        for (int64_t i = 0; i < taken; i++) column[i] = values[i * d + f];
        qsort(column, (size_t)taken, sizeof *column, by_value);
        ranges[f] = taken ? quantile(column, taken, 0.75) - quantile(column, taken, 0.25) : 0;
    }
    free(values);
    return status;
}

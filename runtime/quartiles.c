// SPDX-License-Identifier: MIT
#include "quartiles.h"
#include "../base/error.h"
#include "../base/size.h"
#include "../base/wording.h"
#include "csr.h"
#include "memory.h"
#include "resident.h"

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
                       "spread; use %s",
                       km_data_name(data), KM_SAY(SCALE, "standard"));
    int64_t d = km_data_features(data), taken = km_min(count, km_max(VALUES_MAX / d, POINTS_MIN));
    int64_t bytes = (taken * d + 2 * taken) * (int64_t)sizeof(double);
    KM_TRY(km_host_check("the quartiles of features", bytes, err));
    double *values = calloc((size_t)(taken * d + taken + 1), sizeof *values);
    int64_t *rows = malloc((size_t)(taken + 1) * sizeof *rows);
    if (!values || !rows) {
        free(values);
        free(rows);
        return km_fail_memory(err, "the quartiles of features", bytes);
    }
    double *column = values + taken * d;
    for (int64_t i = 0; i < taken; i++) {
        int64_t point = taken == count ? i : (int64_t)((double)i * (double)count / (double)taken);
        rows[i] = points ? points[point] : point;
    }
    km_status status = km_data_read_points(values, data, rows, taken, err);
    for (int64_t f = 0; f < d && status == KM_OK; f++) {
        for (int64_t i = 0; i < taken; i++) column[i] = values[i * d + f];
        qsort(column, (size_t)taken, sizeof *column, by_value);
        ranges[f] = taken ? quantile(column, taken, 0.75) - quantile(column, taken, 0.25) : 0;
    }
    free(values);
    free(rows);
    return status;
}

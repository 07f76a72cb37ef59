// SPDX-License-Identifier: MIT
// Values of points that are no coordinates: said by file, row and column.
#include "../base/error.h"
#include "data_refuse.h"
#include "data_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

km_status km_data_refuse_value(const km_data *data, int64_t point, int64_t feature, km_error *err) {
    int64_t d = data->table.columns;
    double *row = malloc((size_t)d * sizeof *row);
    if (!row) return km_fail_memory(err, "a row", d * (int64_t)sizeof *row);
    km_status status = km_data_read(row, data, point, 1, KM_FLOAT64, err);
    for (int64_t f = 0; feature < 0 && f < d; f++)
        if (status == KM_OK && !isfinite(row[f])) feature = f;
    if (feature < 0) feature = 0;
    double value = status == KM_OK ? row[feature] : NAN;
    free(row);
    KM_TRY(status);
    char place[KM_PLACE_SIZE];
    km_table_place(place, &data->table, km_data_row_of(data, point), feature);
    if (isfinite(value))
        return km_fail(err, KM_ERROR_DATA, "%s: %s: %g is too far from the rest for float32; use float64",
                       data->name, place, value);
    return km_fail(
        err, KM_ERROR_DATA,
        isinf(value)      ? "%s: %s: the value is infinite; correct it, or leave its row out"
        : data->is_memory ? "%s: %s: the value is missing (NaN); leave such rows out, or fill them in"
        : data->table.csr ? "%s: %s: the value is missing (NaN); drop such rows by --missing drop"
                          : "%s: %s: the value is missing (NaN); drop such rows by --missing drop, or "
                            "fill them in by --missing mean or median",
        data->name, place);
}

const char *km_data_column_text(char text[KM_COLUMN_TEXT_SIZE], const km_data *data, int64_t feature) {
    const int64_t *numbers = data->table.numbers;
    const char *name = km_data_feature_name(data, feature);
    int64_t number = numbers ? numbers[feature] : feature + 1;
    int size = snprintf(text, KM_COLUMN_TEXT_SIZE, "%" PRId64, number);
    if (name && *name) snprintf(text + size, (size_t)(KM_COLUMN_TEXT_SIZE - size), " (%.60s)", name);
    return text;
}

km_status km_data_refuse_extreme(const km_data *data, int64_t feature, double value, const char *why,
                                 km_error *err) {
    int64_t d = data->table.columns, point = 0;
    double *row = malloc((size_t)d * sizeof *row);
    if (!row) return km_fail_memory(err, "a row", d * (int64_t)sizeof *row);
    km_status status = KM_OK;
    for (int64_t i = 0; i < data->n && status == KM_OK; i++) {
        status = km_data_read(row, data, i, 1, KM_FLOAT64, err);
        point = i;
        if (row[feature] == value) break;
    }
    int is_here = data->n > 0 && row[feature] == value;
    free(row);
    KM_TRY(status);
    if (data->share && !is_here) return KM_ERROR_DATA; // another rank has it, and says so (km_share_agree)
    char place[KM_PLACE_SIZE];
    km_table_place(place, &data->table, km_data_row_of(data, point), feature);
    return km_fail(err, KM_ERROR_DATA, "%s: %s: %g is %s", data->name, place, value, why);
}

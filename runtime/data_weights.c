// SPDX-License-Identifier: MIT
// Weights of points: from the caller, a column of the table, or a file of their own.
#include "../base/error.h"
#include "data_state.h"
#include "memory.h"
#include "read/ranks.h"
#include "share.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Of the table these are the rows from `first` on.
static km_status check_values(const double *weights, int64_t n, const km_table *table, int64_t first,
                              const char *file, km_error *err) {
    for (int64_t i = 0; i < n; i++) {
        char place[KM_PLACE_SIZE];
        if (weights[i] >= 0 && isfinite(weights[i])) continue;
        if (table)
            km_table_place(place, table, first + i, -1);
        else
            snprintf(place, sizeof place, "point %" PRId64, i);
        return km_fail(err, KM_ERROR_DATA, "%s: %s: a weight must be 0 or more, got %g", file, place,
                       weights[i]);
    }
    return KM_OK;
}

km_status km_data_check_float_weights(const km_data *data, km_error *err) {
    const double least = 0x1p-60, most = 0x1p100; // room for what is far smaller, and for sums
    const double *weights = km_data_weights(data);
    double largest = 0;
    for (int64_t i = 0; weights && i < data->n; i++) largest = fmax(largest, weights[i]);
    if (!weights || (largest >= least && largest <= most)) return KM_OK;
    return km_fail(err, KM_ERROR_DATA,
                   "%s: the largest weight is %g, and float32 on a GPU takes 1e-18 to 1e30; multiply all "
                   "weights by a power of ten, or use float64 or the CPU",
                   km_data_name(data), largest);
}

// Whether a weight is not 0; of ranks, one of all.
static km_status check_some(const double *weights, int64_t n, const char *file, km_share *share,
                            km_error *err) {
    double some = 0;
    for (int64_t i = 0; i < n; i++) some += weights[i] > 0;
    KM_TRY(km_share_sum(share, &some, 1, err));
    if (some > 0 || (n == 0 && !share)) return KM_OK;
    return km_fail(err, KM_ERROR_DATA, "%s: all weights are 0; at least one must be more", file);
}

km_status km_data_check_weights(const double *weights, int64_t n, const char *file, km_error *err) {
    KM_TRY(check_values(weights, n, NULL, 0, file, err));
    return check_some(weights, n, file, NULL, err);
}

// Keeps `weights`, which become the data's: those of the rows that are points. All 1 is the same as none, and faster.
static km_status keep_weights(km_data *data, double *weights, const char *file, km_share *share,
                              km_error *err) {
    int all_one = 1, some = share != NULL; // of all ranks, which has been asked
    for (int64_t i = 0; i < data->n; i++) {
        weights[i] = weights[data->kept ? data->kept[i] : i];
        all_one &= weights[i] == 1;
        some |= weights[i] > 0;
    }
    if (!some)
        return km_fail(err, KM_ERROR_DATA,
                       "%s: all weights of the rows that are left are 0; at least one must be more", file);
    if (all_one) {
        free(weights);
        return KM_OK;
    }
    data->weights = data->owned_weights = weights;
    return KM_OK;
}

km_status km_data_take_weights(km_data *data, km_share *share, km_error *err) {
    double *weights = data->table.weights;
    int64_t rows = data->table.rows;
    km_share *sharing = data->table.rows_all ? share : NULL; // else each rank has all rows
    km_status status = check_values(weights, rows, &data->table, 0, data->name, err);
    KM_TRY(km_share_agree(sharing, status, err));
    KM_TRY(check_some(weights, rows, data->name, sharing, err));
    data->table.weights = NULL;
    status = keep_weights(data, weights, data->name, sharing, err);
    if (status != KM_OK) free(weights);
    return status;
}

static km_status check_shape(const km_table *table, int64_t rows, const char *file, const char *data_name,
                             km_error *err) {
    int64_t weights = table->rows_all ? table->rows_all : table->rows;
    if (table->columns != 1)
        return km_fail(err, KM_ERROR_DATA,
                       "%s has %" PRId64 " columns; weights are one column, one weight a row", file,
                       table->columns);
    if (weights != rows)
        return km_fail(err, KM_ERROR_DATA, "%s has %" PRId64 " weights, but %s has %" PRId64 " rows", file,
                       weights, data_name, rows);
    return KM_OK;
}

// The weights of `count` rows of the table, from `first` on; the caller's to free.
static km_status read_values(double **out, const km_table *table, int64_t first, int64_t count,
                             const char *file, km_error *err) {
    int64_t bytes = (count + 1) * (int64_t)sizeof **out;
    KM_TRY(km_host_check("weights", bytes, err));
    *out = malloc((size_t)bytes);
    if (!*out) return km_fail_memory(err, "weights", bytes);
    km_table_read(*out, table, first, count, KM_FLOAT64);
    KM_TRY(km_table_check(table, file, err));
    return check_values(*out, count, table, first, file, err);
}

km_status km_data_read_weights(km_data *data, const char *path, km_share *share, km_error *err) {
    const km_table *of = &data->table;
    const char *file = strcmp(path, "-") == 0 ? "standard input" : path;
    km_table table = {0};
    double *weights = NULL;
    km_data_params params;
    km_data_params_init(&params);
    params.features = 1;
    km_status status = share ? km_table_open_share(&table, &path, 1, &params, share, err)
                             : km_table_open(&table, path, &params, NULL, err);
    if (status == KM_OK)
        status = check_shape(&table, of->rows_all ? of->rows_all : of->rows, file, data->name, err);
    KM_TRY_GOTO(km_share_agree(share, status, err));
    // A rank's rows: all that there are of a text that ranks parse together, else in their place among those of all.
    int64_t count = share ? data->n : of->rows;
    int64_t first = table.rows_all ? 0 : of->rows_all ? of->first_of_all : data->first;
    status = read_values(&weights, &table, first, count, file, err);
    KM_TRY_GOTO(km_share_agree(share, status, err));
    KM_TRY_GOTO(check_some(weights, count, file, share, err));
    KM_TRY_GOTO(keep_weights(data, weights, file, share, err));
    weights = NULL;
done:
    free(weights);
    km_table_clear(&table);
    return status;
}

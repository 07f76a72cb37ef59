// SPDX-License-Identifier: MIT
// Weights of points: from the caller, a column of the table, or a file of their own.
#include "../base/error.h"
#include "data_state.h"
#include "memory.h"
#include "share.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

km_status km_data_check_weights(const double *weights, int64_t n, const km_table *table, const char *file,
                                km_error *err) {
    int some = n == 0 || (table && table->rows_all); // the others may have some
    for (int64_t i = 0; i < n; i++) {
        if (weights[i] >= 0 && isfinite(weights[i])) {
            some |= weights[i] > 0;
            continue;
        }
        char place[KM_PLACE_SIZE];
        if (table)
            km_table_place(place, table, i, -1);
        else
            snprintf(place, sizeof place, "point %" PRId64, i);
        return km_fail(err, KM_ERROR_DATA, "%s: %s: a weight must be 0 or more, got %g", file, place,
                       weights[i]);
    }
    if (!some) return km_fail(err, KM_ERROR_DATA, "%s: all weights are 0; at least one must be more", file);
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

// Weights of the kept points out of those of all rows, of which row `first` is the table's first. All 1 is the same as
// none, and faster.
static km_status keep_weights(km_data *data, double *weights, int64_t first, const char *file,
                              km_error *err) {
    int all_one = 1, some = data->table.rows_all > 0; // of all ranks, which has been asked
    for (int64_t i = 0; i < data->n; i++) {
        weights[i] = weights[first + (data->kept ? data->kept[i] : i)];
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

// Whether a rank has a weight that is not 0.
static km_status check_some(const double *weights, const km_data *data, km_share *share, km_error *err) {
    double some = 0;
    if (!data->table.rows_all) return KM_OK;
    for (int64_t i = 0; i < data->table.rows; i++) some += weights[i] > 0;
    KM_TRY(km_share_sum(share, &some, 1, err));
    if (some > 0) return KM_OK;
    return km_fail(err, KM_ERROR_DATA, "%s: all weights are 0; at least one must be more", data->name);
}

km_status km_data_take_weights(km_data *data, km_share *share, km_error *err) {
    double *weights = data->table.weights;
    km_status status = km_data_check_weights(weights, data->table.rows, &data->table, data->name, err);
    if (data->table.rows_all) status = km_share_agree(share, status, err);
    KM_TRY(status);
    KM_TRY(check_some(weights, data, share, err));
    data->table.weights = NULL;
    status = keep_weights(data, weights, 0, data->name, err);
    if (status != KM_OK) free(weights);
    return status;
}

km_status km_data_read_weights(km_data *data, const char *path, km_error *err) {
    km_status status;
    km_table table = {0};
    double *weights = NULL;
    const char *file = strcmp(path, "-") == 0 ? "standard input" : path;
    km_data_params params;
    km_data_params_init(&params);
    params.features = 1;
    KM_TRY_GOTO(km_table_open(&table, path, &params, NULL, err));
    if (table.columns != 1) {
        status = km_fail(err, KM_ERROR_DATA,
                         "%s has %" PRId64 " columns; weights are one column, one weight a row", file,
                         table.columns);
        goto done;
    }
    int64_t rows = data->table.rows_all ? data->table.rows_all : data->table.rows;
    if (table.rows != rows) {
        status = km_fail(err, KM_ERROR_DATA, "%s has %" PRId64 " weights, but %s has %" PRId64 " rows", file,
                         table.rows, data->name, rows);
        goto done;
    }
    KM_TRY_GOTO(km_host_check("weights", table.rows * (int64_t)sizeof *weights, err));
    weights = malloc((size_t)table.rows * sizeof *weights);
    if (!weights) {
        status = km_fail_memory(err, "weights", table.rows * (int64_t)sizeof *weights);
        goto done;
    }
    km_table_read(weights, &table, 0, table.rows, KM_FLOAT64);
    KM_TRY_GOTO(km_table_check(&table, file, err));
    KM_TRY_GOTO(km_data_check_weights(weights, table.rows, &table, file, err));
    KM_TRY_GOTO(keep_weights(data, weights, data->table.first_of_all, file, err));
    weights = NULL;
done:
    free(weights);
    km_table_clear(&table);
    return status;
}

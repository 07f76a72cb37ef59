// SPDX-License-Identifier: MIT
// Missing values of points: their rows are left out, or something takes their place.
#include "../base/error.h"
#include "../base/log.h"
#include "data_refuse.h"
#include "data_state.h"
#include "memory.h"
#include "missing.h"
#include "share.h"

#include <math.h>
#include <stdlib.h>

static int is_missing_row(const double *row, const double *fill, int64_t d) {
    for (int64_t f = 0; f < d; f++)
        if (isnan(row[f]) && (!fill || isnan(fill[f]))) return 1;
    return 0;
}

// Rows of a sparse table without NaN; returns how many.
static int64_t whole_csr_rows(int64_t *kept, const km_csr *csr) {
    int64_t count = 0;
    for (int64_t row = 0; row < csr->rows; row++) {
        int is_whole = 1;
        for (int64_t e = csr->starts[row]; e < csr->starts[row + 1]; e++)
            is_whole &= !isnan(km_csr_value(csr, e));
        kept[count] = row;
        count += is_whole;
    }
    return count;
}

// The same of a dense one. `values` has room for `rows_max` rows.
static int64_t whole_rows(int64_t *kept, const km_data *data, double *values, int64_t rows_max) {
    const km_table *table = &data->table;
    int64_t d = table->columns, count = 0;
    for (int64_t first = 0; first < table->rows; first += rows_max) {
        int64_t rows = table->rows - first < rows_max ? table->rows - first : rows_max;
        km_table_read(values, table, first, rows, KM_FLOAT64);
        for (int64_t i = 0; i < rows; i++)
            if (!is_missing_row(values + i * d, data->fill, d)) kept[count++] = first + i;
    }
    return count;
}

static km_status drop_rows(km_data *data, km_error *err) {
    const km_table *table = &data->table;
    if (!table->csr && !km_element_has_nan(table->element)) return KM_OK;
    int64_t d = table->columns, rows_max = table->csr ? 0 : d < 65536 ? 65536 / d : 1;
    KM_TRY(km_host_check("the rows to keep", table->rows * (int64_t)sizeof(int64_t), err));
    double *values = malloc((size_t)(rows_max * d + 1) * sizeof *values);
    int64_t *kept = malloc((size_t)table->rows * sizeof *kept);
    if (!values || !kept) {
        free(values);
        free(kept);
        return km_fail_memory(err, "the rows to keep", table->rows * (int64_t)sizeof *kept);
    }
    int64_t count = table->csr ? whole_csr_rows(kept, table->csr) : whole_rows(kept, data, values, rows_max);
    free(values);
    if (count == table->rows) {
        free(kept);
        return KM_OK;
    }
    data->kept = kept;
    data->n = count;
    if (count || data->is_piece) return KM_OK;
    return km_fail(
        err, KM_ERROR_DATA,
        "%s: every row has a missing value in it, so none is left; fill them in by --missing mean or "
        "median, or leave columns out by --exclude",
        data->name);
}

// How features are made, where there is more to it than reading columns.
static km_status list_prepared(km_data *data, km_error *err) {
    const km_table *table = &data->table;
    if (!table->prepared && !data->fill) return KM_OK;
    data->prepared = calloc((size_t)table->columns, sizeof *data->prepared);
    if (!data->prepared) return km_fail_memory(err, "features", table->columns * 32);
    for (int64_t f = 0; f < table->columns; f++) {
        km_feature *feature = &data->prepared[f];
        if (table->prepared)
            *feature = table->prepared[f];
        else
            *feature =
                (km_feature){.column = table->names ? table->names[f] : NULL, .kind = KM_COLUMN_NUMBER};
        feature->fill = data->fill ? data->fill[f] : NAN;
    }
    return KM_OK;
}

// What a model fills in.
static km_status take_fills(km_data *data, const km_data_params *params, km_error *err) {
    int64_t d = data->table.columns, some = 0;
    if (!params->prepared || params->names_count != d) return KM_OK;
    for (int64_t f = 0; f < d; f++) some += !isnan(params->prepared[f].fill);
    if (!some || data->table.csr) return KM_OK;
    data->fill = malloc((size_t)d * sizeof *data->fill);
    if (!data->fill) return km_fail_memory(err, "features", d * (int64_t)sizeof *data->fill);
    for (int64_t f = 0; f < d; f++) data->fill[f] = params->prepared[f].fill;
    return KM_OK;
}

// What was missing, and what became of it.
static km_status say_missing(const km_data *data, const km_data_params *params, km_error *err) {
    int64_t missing = 0;
    char *counts;
    for (int64_t f = 0; data->table.missing && f < data->table.columns; f++)
        missing += data->table.missing[f];
    if (!missing || data->is_piece) return KM_OK;
    KM_TRY(km_missing_counts(&counts, &data->table, NULL, err));
    km_log_line(params->log, KM_LOG_INFO, "%s: missing values %s, cells of each column: %s", data->name,
                data->kept ? "leave their rows out" : "are filled in", counts);
    km_text_free(counts);
    return KM_OK;
}

km_status km_data_treat_missing(km_data *data, const km_data_params *params, km_share *share, km_error *err) {
    km_missing mode = params->missing;
    data->drops = mode == KM_MISSING_DROP;
    KM_TRY(take_fills(data, params, err));
    if (mode == KM_MISSING_REFUSE) KM_TRY(km_missing_refuse(&data->table, data->name, data->fill, err));
    if (mode == KM_MISSING_DROP) KM_TRY(drop_rows(data, err));
    if ((mode == KM_MISSING_MEAN || mode == KM_MISSING_MEDIAN) && !data->fill)
        KM_TRY(km_missing_fills(&data->fill, &data->table, data->name, mode, share, err));
    KM_TRY(list_prepared(data, err));
    return mode == KM_MISSING_KEEP ? KM_OK : say_missing(data, params, err);
}

const km_feature *km_data_preparation(const km_data *data) {
    return data->prepared;
}

int km_data_is_filled(const km_data *data) {
    return data->fill != NULL;
}

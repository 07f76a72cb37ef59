// SPDX-License-Identifier: MIT
// Points: a table, from a file or from the caller, with weights and the rows that were kept.
#include "data_refuse.h"
#include "data_source.h"
#include "drawn.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/size.h"
#include "../base/wording.h"
#include "memory.h"
#include "missing.h"
#include "names.h"
#include "resident.h"
#include "read/reader.h"
#include "unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct km_data {
    char *name;
    km_table table;
    int64_t n;
    int64_t *kept;         // row of each point; NULL: all rows
    const double *weights; // n, or NULL: all 1
    double *owned_weights; // the same when they are not the caller's
    const km_draws *draws; // the caller's; NULL: points are in the table
    km_resident *resident; // the same of points on a device; the table has their shape
    double *fill;          // what takes the place of NaN, of each feature; NaN: nothing; NULL: of none
    km_feature
        *prepared;       // how features are made, in words of `table` and with `fill`; NULL: they are columns
    int is_view;         // elements, lines and rows belong to another km_data
    int is_part;         // all of the table belongs to another km_data
    int64_t first;       // row of the first point of a part; 0
    int is_piece;        // of a longer text: no row may be left
    int is_memory;       // the caller's, which no option of reading applies to
    int drops;           // rows with missing values are left out
    int is_unit;         // rows are divided by their length when they are read (km_data_unit), of a part
    int64_t *owned_kept; // `kept` of these, where some rows have no length
    km_data *base;       // which was made for them, and goes with them; NULL
};

void km_data_params_init(km_data_params *params) {
    *params = (km_data_params){.type = KM_FLOAT64, .base = -1};
}

void km_data_destroy(km_data **data) {
    if (!data || !*data) return;
    km_data *d = *data;
    if (!d->is_part && !d->is_view) km_resident_close(&d->resident);
    if (d->is_part) {
        d->table = (km_table){0};
        d->kept = d->owned_kept;
        d->fill = NULL;
        d->prepared = NULL;
    } else if (d->is_view) {
        d->table.memory = NULL;
        d->table.apart = NULL;
        d->table.mapped_bytes = 0;
        d->table.lines = NULL;
        d->kept = NULL; // a sparse view has a matrix of its own
    }
    km_table_clear(&d->table);
    free(d->name);
    free(d->kept);
    free(d->owned_weights);
    free(d->fill);
    free(d->prepared);
    km_data_destroy(&d->base);
    free(d);
    *data = NULL;
}

static km_status create(km_data **out, const char *name, km_error *err) {
    km_data *data = calloc(1, sizeof *data);
    char *copy = strdup(name);
    if (!data || !copy) {
        free(data);
        free(copy);
        return km_fail_memory(err, "points", (int64_t)sizeof *data);
    }
    data->name = copy;
    *out = data;
    return KM_OK;
}

// Weights ----------------------------------------------------------------------------------------------------

// Checks the weights of all points. `table` and `file` say where they come from; NULL: from memory.
static km_status check_weights(const double *weights, int64_t n, const km_table *table, const char *file,
                               km_error *err) {
    int some = n == 0;
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

// Weights of the kept points out of those of all rows. All 1 is the same as none, and faster.
static km_status keep_weights(km_data *data, double *weights, const char *file, km_error *err) {
    int all_one = 1, some = 0;
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

// The weights that the table has in a column.
static km_status take_weights_column(km_data *data, km_error *err) {
    double *weights = data->table.weights;
    KM_TRY(check_weights(weights, data->table.rows, &data->table, data->name, err));
    data->table.weights = NULL;
    km_status status = keep_weights(data, weights, data->name, err);
    if (status != KM_OK) free(weights);
    return status;
}

static km_status read_weights(km_data *data, const char *path, km_error *err) {
    km_status status;
    km_table table = {0};
    double *weights = NULL;
    const char *file = strcmp(path, "-") == 0 ? "standard input" : path;
    km_data_params params;
    km_data_params_init(&params);
    params.features = 1;
    KM_TRY_GOTO(km_table_open(&table, path, &params, err));
    if (table.columns != 1) {
        status = km_fail(err, KM_ERROR_DATA,
                         "%s has %" PRId64 " columns; weights are one column, one weight a row", file,
                         table.columns);
        goto done;
    }
    if (table.rows != data->table.rows) {
        status = km_fail(err, KM_ERROR_DATA, "%s has %" PRId64 " weights, but %s has %" PRId64 " rows", file,
                         table.rows, data->name, data->table.rows);
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
    KM_TRY_GOTO(check_weights(weights, table.rows, &table, file, err));
    KM_TRY_GOTO(keep_weights(data, weights, file, err));
    weights = NULL;
done:
    free(weights);
    km_table_clear(&table);
    return status;
}

// Missing values ---------------------------------------------------------------------------------------------

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
    km_log_line(params->log, KM_LOG_INFO, "%s: missing values %s: %s", data->name,
                data->kept ? "leave their rows out" : "are filled in", counts);
    km_text_free(counts);
    return KM_OK;
}

static km_status treat_missing(km_data *data, const km_data_params *params, km_error *err) {
    km_missing mode = params->missing;
    data->drops = mode == KM_MISSING_DROP;
    KM_TRY(take_fills(data, params, err));
    if (mode == KM_MISSING_REFUSE) KM_TRY(km_missing_refuse(&data->table, data->name, data->fill, err));
    if (mode == KM_MISSING_DROP) KM_TRY(drop_rows(data, err));
    if ((mode == KM_MISSING_MEAN || mode == KM_MISSING_MEDIAN) && !data->fill)
        KM_TRY(km_missing_fills(&data->fill, &data->table, data->name, mode, err));
    KM_TRY(list_prepared(data, err));
    return mode == KM_MISSING_KEEP ? KM_OK : say_missing(data, params, err);
}

const km_feature *km_data_preparation(const km_data *data) {
    return data->prepared;
}

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
    free(row);
    KM_TRY(status);
    char place[KM_PLACE_SIZE];
    km_table_place(place, &data->table, km_data_row_of(data, point), feature);
    return km_fail(err, KM_ERROR_DATA, "%s: %s: %g is %s", data->name, place, value, why);
}

// Opening ----------------------------------------------------------------------------------------------------

// `input` NULL: the file at `path` is opened.
static km_status open_table(km_data **out, const char *path, km_input *input, const km_data_params *params,
                            km_error *err) {
    km_status status;
    km_data *data = NULL;
    KM_TRY_GOTO(create(&data, input ? input->name : strcmp(path, "-") == 0 ? "standard input" : path, err));
    KM_TRY_GOTO(input ? km_table_read_input(&data->table, input, params, err)
                      : km_table_open(&data->table, path, params, err));
    data->n = data->table.rows;
    data->is_piece = input && input->line;
    KM_TRY_GOTO(treat_missing(data, params, err));
    if (data->table.weights) KM_TRY_GOTO(take_weights_column(data, err));
    if (params->weights) KM_TRY_GOTO(read_weights(data, params->weights, err));
    *out = data;
done:
    if (data && km_table_is_lost(&data->table)) status = km_data_check(data, err);
    if (status == KM_OK)
        data = NULL;
    else
        *out = NULL;
    km_data_destroy(&data);
    return status;
}

km_status km_data_open(km_data **out, const char *path, const km_data_params *params, km_error *err) {
    *out = NULL;
    km_data_params defaults;
    km_data_params_init(&defaults);
    if (!params) params = &defaults;
    if (params->weights && strcmp(params->weights, "-") == 0 && strcmp(path, "-") == 0)
        return km_fail(err, KM_ERROR_USAGE, "points and weights cannot both come from standard input");
    if (params->weights && params->weights_column)
        return km_fail(err, KM_ERROR_USAGE, "weights come from a file or from a column; give one of them");
    return open_table(out, path, NULL, params, err);
}

km_status km_data_open_input(km_data **out, km_input *input, const km_data_params *params, km_error *err) {
    *out = NULL;
    return open_table(out, NULL, input, params, err);
}

static km_status check_memory(const void *base, int64_t n, int64_t d, int64_t row_stride,
                              int64_t column_stride, km_error *err) {
    int64_t rows, columns, bytes, per_row = row_stride ? row_stride : d;
    if (n < 0 || d < 1 || d > KM_FEATURES_DENSE_MAX)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: points must be n x d with n >= 0 and d 1..%d, got %" PRId64 " x %" PRId64,
                       km_say(KM_SAY_POINTS), KM_FEATURES_DENSE_MAX, n, d);
    if (n > 0 && !base)
        return km_fail(err, KM_ERROR_USAGE, "%s: the base of %" PRId64 " points is NULL",
                       km_say(KM_SAY_POINTS), n);
    if ((row_stride == 0) != (column_stride == 0))
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: strides must both be 0 (C order) or both not, got %" PRId64 " and %" PRId64,
                       km_say(KM_SAY_POINTS), row_stride, column_stride);
    if (km_mul_overflows(&rows, n, per_row) || km_mul_overflows(&columns, d, column_stride) ||
        km_add_overflows(&bytes, llabs(rows), llabs(columns)) || km_mul_overflows(&bytes, bytes, 8))
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: %" PRId64 " x %" PRId64 " points with strides %" PRId64 " and %" PRId64
                       " do not fit an address space",
                       km_say(KM_SAY_POINTS), n, d, row_stride, column_stride);
    return KM_OK;
}

km_status km_data_from_memory(km_data **out, const void *base, int64_t n, int64_t d, km_type type,
                              int64_t row_stride, int64_t column_stride, const double *weights,
                              km_error *err) {
    *out = NULL;
    KM_TRY(check_memory(base, n, d, row_stride, column_stride, err));
    if (type != KM_FLOAT32 && type != KM_FLOAT64)
        return km_fail(err, KM_ERROR_USAGE, "%s: the type must be KM_FLOAT32 or KM_FLOAT64, got %d",
                       km_say(KM_SAY_POINTS), (int)type);
    if (weights) KM_TRY(check_weights(weights, n, NULL, km_say(KM_SAY_WEIGHTS), err));
    km_data *data = NULL;
    KM_TRY(create(&data, km_say(KM_SAY_POINTS), err));
    data->table = (km_table){.base = base,
                             .element = type == KM_FLOAT64 ? KM_ELEMENT_F8 : KM_ELEMENT_F4,
                             .rows = n,
                             .columns = d,
                             .row_stride = row_stride ? row_stride : d,
                             .column_stride = column_stride ? column_stride : 1,
                             .first_line = 1};
    data->n = n;
    data->weights = weights;
    data->is_memory = 1;
    *out = data;
    return KM_OK;
}

km_status km_data_from_device(km_data **out, int device, const void *base, int64_t n, int64_t d, km_type type,
                              void *stream, const double *weights, km_error *err) {
    km_status status;
    KM_TRY(km_data_from_memory(out, base, n, d, type, 0, 0, weights, err));
    km_data *data = *out;
    data->table.base = NULL; // nothing reads it here
    if (device < 0 && device != KM_DEVICE_AUTO)
        status = km_fail(err, KM_ERROR_USAGE, "device %d is no CUDA ordinal (0 and up)", device);
    else if ((uintptr_t)base % (uintptr_t)km_type_bytes(type) != 0)
        status = km_fail(err, KM_ERROR_USAGE, "%s: the points on the device are not aligned to %d bytes",
                         km_say(KM_SAY_POINTS), (int)km_type_bytes(type));
    else
        status = km_resident_open(&data->resident, device, base, d, type, stream, err);
    if (status != KM_OK) km_data_destroy(out);
    return status;
}

const km_resident *km_data_resident(const km_data *data) {
    return data->is_unit ? NULL : data->resident; // rows that the host divides come from the host
}

int64_t km_data_resident_first(const km_data *data) {
    return data->first;
}

km_status km_data_from_columns(km_data **out, const void *const *columns, int64_t n, int64_t d, km_type type,
                               int64_t row_stride, const double *weights, km_error *err) {
    *out = NULL;
    if (!columns)
        return km_fail(err, KM_ERROR_USAGE, "%s: the columns of the points are NULL", km_say(KM_SAY_POINTS));
    if (row_stride == 0) row_stride = 1;
    KM_TRY(km_data_from_memory(out, d > 0 ? columns[0] : NULL, n, d, type, row_stride, 1, weights, err));
    for (int64_t f = 0; f < d; f++) {
        if (n == 0 || columns[f]) continue;
        km_data_destroy(out);
        return km_fail(err, KM_ERROR_USAGE, "%s: column %" PRId64 " of %" PRId64 " points is NULL",
                       km_say(KM_SAY_POINTS), f, n);
    }
    km_table *table = &(*out)->table;
    table->apart = malloc((size_t)d * sizeof *table->apart);
    if (!table->apart) {
        km_data_destroy(out);
        return km_fail_memory(err, "columns", d * (int64_t)sizeof *table->apart);
    }
    for (int64_t f = 0; f < d; f++) table->apart[f] = columns[f];
    return KM_OK;
}

static km_status check_csr(const int64_t *starts, const void *indices, int32_t index_bytes,
                           const void *values, km_type type, int64_t n, int64_t d, km_error *err) {
    if (n < 0 || n == INT64_MAX || d < 1 || d > KM_FEATURES_MAX)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: points must be n x d with n >= 0 and d 1..%d, got %" PRId64 " x %" PRId64,
                       km_say(KM_SAY_POINTS), KM_FEATURES_MAX, n, d);
    if (index_bytes != 4 && index_bytes != 8)
        return km_fail(err, KM_ERROR_USAGE, "%s: an index must have 4 or 8 bytes, got %" PRId32,
                       km_say(KM_SAY_POINTS), index_bytes);
    if (type != KM_FLOAT32 && type != KM_FLOAT64)
        return km_fail(err, KM_ERROR_USAGE, "%s: the type must be KM_FLOAT32 or KM_FLOAT64, got %d",
                       km_say(KM_SAY_POINTS), (int)type);
    if (!starts || (starts[n] > 0 && (!indices || !values)))
        return km_fail(err, KM_ERROR_USAGE, "%s: starts, indices or values of %" PRId64 " points are NULL",
                       km_say(KM_SAY_POINTS), n);
    return KM_OK;
}

km_status km_data_from_csr(km_data **out, const int64_t *starts, const void *indices, int32_t index_bytes,
                           const void *values, km_type type, int64_t n, int64_t d, const double *weights,
                           km_error *err) {
    *out = NULL;
    km_status status;
    km_data *data = NULL;
    KM_TRY(check_csr(starts, indices, index_bytes, values, type, n, d, err));
    if (weights) KM_TRY(check_weights(weights, n, NULL, km_say(KM_SAY_WEIGHTS), err));
    KM_TRY(create(&data, km_say(KM_SAY_POINTS), err));
    data->table = (km_table){.rows = n, .columns = d, .first_line = 1};
    data->n = n;
    data->weights = weights;
    data->is_memory = 1;
    km_csr *csr = data->table.csr = calloc(1, sizeof *csr);
    if (!csr) {
        status = km_fail_memory(err, "a sparse matrix", (int64_t)sizeof *csr);
        goto done;
    }
    *csr = (km_csr){.rows = n,
                    .columns = d,
                    .starts = starts,
                    .indices = indices,
                    .index_bytes = index_bytes,
                    .type = type,
                    .values = values};
    KM_TRY_GOTO(km_csr_check(csr, starts[n], km_say(KM_SAY_POINTS), err));
    *out = data;
    data = NULL;
done:
    km_data_destroy(&data);
    return status;
}

km_status km_data_drawn(km_data **out, const km_draws *draws, int64_t n, const double *weights,
                        km_error *err) {
    km_data *data = NULL;
    *out = NULL;
    KM_TRY(create(&data, "drawn points", err));
    data->table = (km_table){.rows = n, .columns = draws->d, .first_line = 1};
    data->n = n;
    data->weights = weights;
    data->draws = draws;
    *out = data;
    return KM_OK;
}

const km_draws *km_data_draws(const km_data *data) {
    return data->draws;
}

// Rows of a type; `out` is aligned for it.
static km_status read_drawn(void *out, const km_data *data, int64_t first, int64_t count, km_type type,
                            km_error *err) {
    int64_t d = data->table.columns;
    double *row = type == KM_FLOAT64 ? NULL : malloc((size_t)d * sizeof *row);
    if (type != KM_FLOAT64 && !row) return km_fail_memory(err, "a row", d * (int64_t)sizeof *row);
    for (int64_t i = 0; i < count; i++) {
        km_draws_point(row ? row : (double *)out + i * d, data->draws, first + i);
        for (int64_t f = 0; row && f < d; f++) ((float *)out)[i * d + f] = (float)row[f];
    }
    free(row);
    return KM_OK;
}

// Features by name -------------------------------------------------------------------------------------------

static void names_free(char **names, int64_t count) {
    for (int64_t f = 0; names && f < count; f++) free(names[f]);
    free(names);
}

static km_status names_copy(char ***out, const char *const *names, int64_t count, const char *data_name,
                            km_error *err) {
    char **copies = calloc((size_t)count, sizeof *copies);
    if (!copies) return km_fail_memory(err, "the names of features", count * (int64_t)sizeof *copies);
    for (int64_t f = 0; f < count; f++) {
        if (names[f] && (copies[f] = strdup(names[f]))) continue;
        names_free(copies, count);
        if (names[f]) return km_fail_memory(err, "the names of features", count * (int64_t)sizeof *copies);
        return km_fail(err, KM_ERROR_USAGE, "%s: the name of feature %" PRId64 " of %" PRId64 " is NULL",
                       data_name, f, count);
    }
    *out = copies;
    return KM_OK;
}

km_status km_data_set_names(km_data *data, const char *const *names, km_error *err) {
    int64_t d = data->table.columns;
    char **copies = NULL;
    if (names) KM_TRY(names_copy(&copies, names, d, data->name, err));
    names_free(data->table.names, d);
    data->table.names = copies;
    return KM_OK;
}

static km_status refuse_resident(const km_data *data, const char *what, km_error *err) {
    return km_fail(err, KM_ERROR_USAGE,
                   "%s: points on a device are taken as they lie, and not %s; do it there", data->name, what);
}

// The view's own part of a table: which columns, their numbers and names.
static km_status view_columns(km_table *view, const km_table *table, const int64_t *picks, km_error *err) {
    int64_t d = view->columns;
    view->picks = malloc((size_t)d * sizeof *view->picks);
    view->numbers = malloc((size_t)d * sizeof *view->numbers);
    if (table->names) view->names = calloc((size_t)d, sizeof *view->names);
    if (!view->picks || !view->numbers || (table->names && !view->names))
        return km_fail_memory(err, "the choice of features", d * 3 * (int64_t)sizeof *view->picks);
    int in_order = d == table->columns;
    if (table->csr) KM_TRY(km_csr_pick(&view->csr, table->csr, picks, d, err));
    for (int64_t f = 0; f < d; f++) {
        in_order = in_order && picks[f] == f;
        view->picks[f] = table->picks ? table->picks[picks[f]] : picks[f];
        view->numbers[f] = table->numbers ? table->numbers[picks[f]] : picks[f] + 1;
        if (table->names) view->names[f] = strdup(table->names[picks[f]]);
        if (table->names && !view->names[f]) return km_fail_memory(err, "the choice of features", 64);
    }
    if ((in_order && !table->picks) || table->csr) { // all of them: the view as it is
        free(view->picks);
        view->picks = NULL;
    }
    return KM_OK;
}

static km_status view_fill(km_data *view, const km_data *data, const int64_t *picks, km_error *err) {
    int64_t d = view->table.columns;
    if (!data->fill) return KM_OK;
    view->fill = malloc((size_t)d * sizeof *view->fill);
    if (!view->fill) return km_fail_memory(err, "the choice of features", d * (int64_t)sizeof *view->fill);
    for (int64_t f = 0; f < d; f++) view->fill[f] = data->fill[picks[f]];
    return KM_OK;
}

static km_status view_make(km_data **out, const km_data *data, const int64_t *picks, int64_t count,
                           km_error *err) {
    km_data *view = NULL;
    KM_TRY(create(&view, data->name, err));
    view->is_view = 1;
    view->is_memory = data->is_memory;
    view->is_piece = data->is_piece;
    view->drops = data->drops;
    view->table = data->table;
    view->table.columns = count;
    view->table.picks = view->table.numbers = view->table.missing = NULL;
    view->table.names = NULL;
    view->table.csr = NULL;
    view->table.prepared = NULL;
    view->table.weights = NULL;
    view->n = data->n;
    view->kept = data->kept;
    view->weights = data->weights;
    view->resident = data->resident;
    km_status status = view_fill(view, data, picks, err);
    if (status == KM_OK) status = view_columns(&view->table, &data->table, picks, err);
    if (status == KM_OK && data->resident && view->table.picks)
        status = refuse_resident(data, "put into another order", err);
    if (status != KM_OK) km_data_destroy(&view);
    *out = view;
    return status;
}

km_status km_data_select(km_data **out, const km_data *data, const char *const *names, int64_t count,
                         km_error *err) {
    const km_table *table = &data->table;
    *out = NULL;
    if (count < 1 || count > KM_FEATURES_MAX)
        return km_fail(err, KM_ERROR_USAGE, "%s: 1..%d features can be selected, got %" PRId64, data->name,
                       KM_FEATURES_MAX, count);
    if (!table->names)
        return km_fail(err, KM_ERROR_DATA,
                       "%s has no names to select features by; read it with a header, or give it names",
                       data->name);
    km_named named = {data->name, km_data_feature_names(data), table->numbers, table->columns,
                      "name them alike, or take the names away, so that columns count by position"};
    km_status status;
    int64_t *picks = malloc((size_t)count * sizeof *picks);
    if (!picks) return km_fail_memory(err, "the choice of features", count * (int64_t)sizeof *picks);
    KM_TRY_GOTO(km_names_match(picks, names, count, &named, err));
    KM_TRY_GOTO(view_make(out, data, picks, count, err));
done:
    free(picks);
    return status;
}

double km_data_parse_ms(const km_data *data) {
    return data->table.parse_ms;
}

int km_data_is_filled(const km_data *data) {
    return data->fill != NULL;
}

km_status km_data_fill_in(km_data **view, const km_data *data, const km_feature *prepared, km_error *err) {
    int64_t d = data->table.columns;
    if (data->resident) return refuse_resident(data, "filled in", err);
    if (!*view) {
        int64_t *picks = malloc((size_t)d * sizeof *picks);
        if (!picks) return km_fail_memory(err, "the choice of features", d * (int64_t)sizeof *picks);
        for (int64_t f = 0; f < d; f++) picks[f] = f;
        km_status status = view_make(view, data, picks, d, err);
        free(picks);
        KM_TRY(status);
    }
    d = (*view)->table.columns;
    free((*view)->fill);
    double *fill = (*view)->fill = malloc((size_t)d * sizeof *fill);
    if (!fill) return km_fail_memory(err, "the choice of features", d * (int64_t)sizeof *fill);
    for (int64_t f = 0; f < d; f++) fill[f] = prepared[f].fill;
    return KM_OK;
}

// Parts ------------------------------------------------------------------------------------------------------

km_status km_data_part(km_data **out, const km_data *data, int64_t first, int64_t count, km_error *err) {
    km_data *part = *out = NULL;
    KM_TRY(create(&part, data->name, err));
    part->is_part = 1;
    part->is_memory = data->is_memory;
    part->table = data->table;
    part->n = count;
    // The rows stay those of the whole table, so that messages and labels name them.
    part->kept = data->kept ? data->kept + first : NULL;
    part->first = data->first + (data->kept ? 0 : first);
    part->fill = data->fill;
    part->resident = data->resident;
    part->is_unit = data->is_unit;
    part->drops = data->drops;
    *out = part;
    return KM_OK;
}

// Rows of length 1 -------------------------------------------------------------------------------------------

static int are_zeros(const double *x, int64_t count) {
    for (int64_t e = 0; e < count; e++)
        if (x[e] != 0) return 0;
    return 1;
}

// Whether points first .. first + count - 1 are rows of zeros; `rows` is emptied and filled for it.
static km_status find_zeros(uint8_t *zero, km_csr_rows *rows, const km_data *data, int64_t first,
                            int64_t count, km_error *err) {
    int64_t d = data->table.columns;
    const double *doubles = km_data_base(data, KM_FLOAT64);
    const float *floats = km_data_base(data, KM_FLOAT32);
    if (!doubles && !floats) KM_TRY(km_data_read_csr(rows, data, first, count, err));
    for (int64_t i = 0; i < count; i++) {
        if (doubles) {
            zero[i] = are_zeros(doubles + (first + i) * d, d);
        } else if (floats) {
            int64_t f = 0;
            while (f < d && floats[(first + i) * d + f] == 0) f++;
            zero[i] = f == d;
        } else {
            int64_t at = rows->starts[i];
            zero[i] = are_zeros(rows->values + at, rows->starts[i + 1] - at);
        }
    }
    return KM_OK;
}

static km_status refuse_zeros(const km_data *data, int64_t point, int64_t count, km_error *err) {
    char place[KM_PLACE_SIZE], more[64] = "";
    km_table_place(place, &data->table, km_data_row_of(data, point), -1);
    if (count > 1) snprintf(more, sizeof more, " (%" PRId64 " such rows in all)", count);
    return km_fail(err, KM_ERROR_DATA,
                   "%s: %s: all values are 0, so there is no direction, and no cosine%s; %s", data->name,
                   place, more, data->is_memory ? "leave such rows out" : "drop such rows by --missing drop");
}

// The rows that have a length, and their weights.
static km_status keep_lengths(km_data *unit, const km_data *data, const uint8_t *zero, int64_t zeros,
                              km_error *err) {
    int64_t left = data->n - zeros, count = 0;
    if (left == 0 && !data->is_piece)
        return km_fail(err, KM_ERROR_DATA, "%s: all values of all rows are 0, so none has a direction",
                       data->name);
    unit->owned_kept = malloc((size_t)(left + 1) * sizeof *unit->owned_kept);
    if (data->weights) unit->owned_weights = malloc((size_t)(left + 1) * sizeof *unit->owned_weights);
    if (!unit->owned_kept || (data->weights && !unit->owned_weights))
        return km_fail_memory(err, "the rows to keep", left * (int64_t)sizeof *unit->owned_kept);
    int some = !data->weights || left == 0;
    for (int64_t i = 0; i < data->n; i++) {
        if (zero[i]) continue;
        if (data->weights) some |= (unit->owned_weights[count] = data->weights[i]) > 0;
        unit->owned_kept[count++] = km_data_row_of(data, i);
    }
    if (!some)
        return km_fail(err, KM_ERROR_DATA,
                       "%s: all weights of the rows that are left are 0; at least one must be more",
                       data->name);
    unit->kept = unit->owned_kept;
    unit->weights = unit->owned_weights;
    unit->n = left;
    unit->first = 0;
    return KM_OK;
}

static km_status check_zeros(km_data *unit, const km_data *data, km_error *err) {
    enum { PIECE_VALUES = 1 << 16 };
    int64_t piece = km_max(1, PIECE_VALUES / data->table.columns), zeros = 0, first_zero = -1;
    km_csr_rows rows = {0};
    KM_TRY(km_host_check("the rows to keep", data->n, err));
    uint8_t *zero = malloc((size_t)data->n + 1);
    if (!zero) return km_fail_memory(err, "the rows to keep", data->n);
    km_status status = KM_OK;
    for (int64_t first = 0; first < data->n; first += piece) {
        int64_t count = km_min(piece, data->n - first);
        KM_TRY_GOTO(find_zeros(zero + first, &rows, data, first, count, err));
        for (int64_t i = first; i < first + count; i++) {
            if (zero[i] && first_zero < 0) first_zero = i;
            zeros += zero[i];
        }
    }
    KM_TRY_GOTO(km_data_check(data, err));
    if (zeros && !data->drops) KM_TRY_GOTO(refuse_zeros(data, first_zero, zeros, err));
    if (zeros) status = keep_lengths(unit, data, zero, zeros, err);
done:
    km_csr_rows_free(&rows);
    free(zero);
    return status;
}

km_status km_data_unit(km_data **view, const km_data *data, km_error *err) {
    const km_data *from = *view ? *view : data;
    km_data *unit = NULL;
    KM_TRY(km_data_part(&unit, from, 0, from->n, err));
    unit->weights = from->weights;
    unit->prepared = from->prepared;
    unit->is_piece = from->is_piece;
    unit->is_unit = 1;
    km_status status = check_zeros(unit, from, err);
    if (status != KM_OK) {
        km_data_destroy(&unit);
        return status;
    }
    unit->base = *view;
    *view = unit;
    return KM_OK;
}

int km_data_is_unit(const km_data *data) {
    return data->is_unit;
}

// Looking ----------------------------------------------------------------------------------------------------

int64_t km_data_points(const km_data *data) {
    return data->n;
}

int64_t km_data_features(const km_data *data) {
    return data->table.columns;
}

const char *km_data_name(const km_data *data) {
    return data->name;
}

const char *const *km_data_feature_names(const km_data *data) {
    return (const char *const *)data->table.names;
}

const char *km_data_feature_name(const km_data *data, int64_t f) {
    return data->table.names && f >= 0 && f < data->table.columns ? data->table.names[f] : NULL;
}

const double *km_data_weights(const km_data *data) {
    return data->weights;
}

int64_t km_data_rows(const km_data *data) {
    return data->table.rows;
}

int64_t km_data_row_of(const km_data *data, int64_t i) {
    return data->kept ? data->kept[i] : data->first + i;
}

const void *km_data_base(const km_data *data, km_type type) {
    const km_table *table = &data->table;
    int64_t size = km_type_bytes(type);
    if (data->draws || data->resident || table->csr || data->is_unit) return NULL;
    if (table->element != (type == KM_FLOAT64 ? KM_ELEMENT_F8 : KM_ELEMENT_F4) || table->swapped) return NULL;
    if (table->picks || table->apart || data->kept || data->fill) return NULL;
    if (table->columns > 1 && table->column_stride != 1) return NULL;
    if (table->rows > 1 && table->row_stride != table->columns) return NULL;
    if ((uintptr_t)table->base % (uintptr_t)size != 0) return NULL;
    return table->base + data->first * table->columns * size;
}

// Puts what fills missing values in their places.
static void fill_in(void *out, const km_data *data, int64_t count, km_type type) {
    int64_t d = data->table.columns;
    if (!data->fill) return;
    for (int64_t i = 0; i < count; i++)
        for (int64_t f = 0; f < d; f++) {
            if (type == KM_FLOAT32) {
                float *value = (float *)out + i * d + f;
                if (isnan(*value)) *value = (float)data->fill[f];
            } else {
                double *value = (double *)out + i * d + f;
                if (isnan(*value)) *value = data->fill[f];
            }
        }
}

// As they are.
static km_status read_values(void *out, const km_data *data, int64_t first, int64_t count, km_type type,
                             km_error *err) {
    if (first < 0 || count < 0 || first > data->n - count)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s has the points 0..%" PRId64 ", asked for %" PRId64 " from %" PRId64, data->name,
                       data->n - 1, count, first);
    if (data->draws) return read_drawn(out, data, first, count, type, err);
    if (data->resident) return km_resident_read(out, data->resident, data->first + first, count, type, err);
    if (!data->kept) {
        km_table_read(out, &data->table, data->first + first, count, type);
        fill_in(out, data, count, type);
        return km_data_check(data, err);
    }
    int64_t row_bytes = data->table.columns * km_type_bytes((type));
    for (int64_t i = 0; i < count;) { // runs of rows without a gap
        const int64_t *kept = data->kept + first + i;
        int64_t run = 1;
        while (i + run < count && kept[run] == kept[0] + run) run++;
        km_table_read((unsigned char *)out + i * row_bytes, &data->table, kept[0], run, type);
        i += run;
    }
    fill_in(out, data, count, type);
    return km_data_check(data, err);
}

enum { UNIT_VALUES = 1 << 13 }; // that are read at a time: a copy from a device, a look at the file's state

// Divided by their lengths.
static km_status read_units(void *out, const km_data *data, int64_t first, int64_t count, km_type type,
                            km_error *err) {
    int64_t d = data->table.columns, rows = km_min(count, km_max(1, UNIT_VALUES / d));
    if (type == KM_FLOAT64) {
        KM_TRY(read_values(out, data, first, count, type, err));
        for (int64_t i = 0; i < count; i++) km_unit_row((double *)out + i * d, NULL, d);
        return KM_OK;
    }
    double *values = malloc((size_t)(rows * d + 1) * sizeof *values);
    km_status status = values ? KM_OK : km_fail_memory(err, "rows", rows * d * (int64_t)sizeof *values);
    for (int64_t at = 0; at < count && status == KM_OK; at += rows) {
        int64_t here = km_min(rows, count - at);
        status = read_values(values, data, first + at, here, KM_FLOAT64, err);
        for (int64_t i = 0; i < here && status == KM_OK; i++) km_unit_row(values + i * d, NULL, d);
        for (int64_t i = 0; i < here * d && status == KM_OK; i++)
            ((float *)out)[at * d + i] = (float)values[i];
    }
    free(values);
    return status;
}

km_status km_data_read(void *out, const km_data *data, int64_t first, int64_t count, km_type type,
                       km_error *err) {
    return (data->is_unit ? read_units : read_values)(out, data, first, count, type, err);
}

char km_data_separator(const km_data *data) {
    return data->table.separator;
}

char km_data_decimal(const km_data *data) {
    return data->table.decimal;
}

int64_t km_data_number(const km_data *data, int64_t f) {
    return data->table.numbers ? data->table.numbers[f] : f + 1;
}

int64_t km_data_line(const km_data *data, int64_t row) {
    return km_table_line(&data->table, row);
}

km_status km_data_read_points(double *out, const km_data *data, const int64_t *points, int64_t count,
                              km_error *err) {
    int64_t d = data->table.columns;
    if (data->resident && data->first == 0 && !data->is_unit)
        return km_resident_read_rows(out, data->resident, points, count, err);
    for (int64_t i = 0; i < count; i++)
        KM_TRY(km_data_read(out + i * d, data, points[i], 1, KM_FLOAT64, err));
    return KM_OK;
}

km_status km_data_read_rows(double *out, const km_data *data, int64_t first, int64_t count, km_error *err) {
    if (data->resident) return km_resident_read(out, data->resident, first, count, KM_FLOAT64, err);
    km_table_read(out, &data->table, first, count, KM_FLOAT64);
    fill_in(out, data, count, KM_FLOAT64);
    return km_data_check(data, err);
}

int km_data_is_dense(const km_data *data) {
    return !data->table.csr && !data->draws;
}

int km_data_is_single(const km_data *data) {
    return !data->table.csr && km_element_size(data->table.element) <= 4;
}

const km_csr *km_data_csr(const km_data *data) {
    return data->table.csr;
}

km_status km_data_check(const km_data *data, km_error *err) {
    return km_table_check(&data->table, data->name, err);
}

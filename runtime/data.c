// SPDX-License-Identifier: MIT
// Points: a table from a file, or what data_memory.c has, with weights and the rows that were kept.
#include "data_refuse.h"
#include "data_source.h"
#include "data_state.h"
#include "unit.h"
#include "../base/error.h"
#include "../base/size.h"
#include "read/ranks.h"
#include "share.h"
#include "unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        d->table.files = NULL;
        d->table.files_count = 0;
        d->table.starts = NULL;
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

km_status km_data_create(km_data **out, const char *name, km_error *err) {
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

// Opening ----------------------------------------------------------------------------------------------------

enum { FILES_NAME_SIZE = 256 };

// What messages call several files.
static void name_files(char name[FILES_NAME_SIZE], const char *first, int64_t count) {
    size_t size = strlen(first), most = FILES_NAME_SIZE - 32;
    snprintf(name, FILES_NAME_SIZE, "%s%s and %" PRId64 " more", size > most ? "..." : "",
             size > most ? first + size - most : first, count - 1);
}

// `input` NULL: the files at `paths` are opened. `share`: by all ranks, of which each may have its rows alone.
static km_status open_table(km_data **out, const char *const *paths, int64_t count, km_input *input,
                            const km_data_params *params, km_share *share, km_error *err) {
    char name[FILES_NAME_SIZE] = "";
    const char *path = paths ? paths[0] : NULL;
    if (count > 1) name_files(name, path, count);
    km_status status;
    km_data *data = NULL;
    KM_TRY_GOTO(km_data_create(&data,
                               input                    ? input->name
                               : count > 1              ? name
                               : strcmp(path, "-") == 0 ? "standard input"
                                                        : path,
                               err));
    KM_TRY_GOTO(input       ? km_table_read_input(&data->table, input, params, err)
                : share     ? km_table_open_share(&data->table, paths, count, params, share, err)
                : count > 1 ? km_table_open_files(&data->table, paths, count, params, NULL, err)
                            : km_table_open(&data->table, path, params, NULL, err));
    data->n = data->table.rows;
    data->is_piece = input && input->line;
    KM_TRY_GOTO(km_data_treat_missing(data, params, share, err));
    if (data->table.weights) KM_TRY_GOTO(km_data_take_weights(data, share, err));
    if (params->weights && !share) KM_TRY_GOTO(km_data_read_weights(data, params->weights, NULL, err));
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

// The rows of this rank: those that were read, or a part of all.
static km_status open_by_ranks(km_data **out, const char *const *paths, int64_t count,
                               const km_data_params *params, km_error *err) {
    const km_communicator *ranks = params->communicator;
    km_share share = {.ranks = ranks};
    km_data *whole = NULL;
    int64_t first, own;
    km_status status = open_table(&whole, paths, count, NULL, params, &share, err);
    status = km_share_agree(&share, status, err);
    if (status == KM_OK && !whole->table.rows_all)
        status = km_share_same(&share, whole->n, whole->name, "rows", err);
    if (status != KM_OK) {
        km_data_destroy(&whole);
        return status;
    }
    if (whole->table.rows_all) {
        *out = whole;
    } else {
        km_share_of(&first, &own, whole->n, ranks->rank, ranks->size);
        status = km_share_agree(&share, km_data_range(out, whole, first, own, err), err);
        if (*out)
            (*out)->base = whole; // goes with it
        else
            km_data_destroy(&whole);
    }
    if (status == KM_OK && params->weights) status = km_data_read_weights(*out, params->weights, &share, err);
    if (status != KM_OK) km_data_destroy(out);
    return status;
}

km_status km_data_open(km_data **out, const char *path, const km_data_params *params, km_error *err) {
    return km_data_open_files(out, &path, 1, params, err);
}

km_status km_data_open_files(km_data **out, const char *const *paths, int64_t count,
                             const km_data_params *params, km_error *err) {
    *out = NULL;
    if (count < 1) return km_fail(err, KM_ERROR_USAGE, "no file of points is given");
    km_data_params defaults;
    km_data_params_init(&defaults);
    if (!params) params = &defaults;
    for (int64_t i = 0; i < count && count > 1; i++)
        if (strcmp(paths[i], "-") == 0)
            return km_fail(err, KM_ERROR_USAGE, "standard input cannot be one of several files");
    if (params->weights && strcmp(params->weights, "-") == 0 && strcmp(paths[0], "-") == 0)
        return km_fail(err, KM_ERROR_USAGE, "points and weights cannot both come from standard input");
    if (params->weights && params->weights_column)
        return km_fail(err, KM_ERROR_USAGE, "weights come from a file or from a column; give one of them");
    km_error unasked = {{0}}; // ranks tell each other the sentence
    if (params->communicator) return open_by_ranks(out, paths, count, params, err ? err : &unasked);
    return open_table(out, paths, count, NULL, params, NULL, err);
}

km_status km_data_open_input(km_data **out, km_input *input, const km_data_params *params, km_error *err) {
    *out = NULL;
    return open_table(out, NULL, 1, input, params, NULL, err);
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
    return data->is_range ? data->n : data->table.rows;
}

int64_t km_data_row_of(const km_data *data, int64_t i) {
    return data->kept ? data->kept[i] : data->first + i;
}

const void *km_data_base(const km_data *data, km_type type) {
    const km_table *table = &data->table;
    int64_t size = km_type_bytes(type);
    if (data->draws || data->resident || table->csr || table->files || data->is_unit) return NULL;
    if (table->element != (type == KM_FLOAT64 ? KM_ELEMENT_F8 : KM_ELEMENT_F4) || table->swapped) return NULL;
    if (table->picks || table->apart || data->kept || data->fill) return NULL;
    if (table->columns > 1 && table->column_stride != 1) return NULL;
    if (table->rows > 1 && table->row_stride != table->columns) return NULL;
    if ((uintptr_t)table->base % (uintptr_t)size != 0) return NULL;
    return table->base + data->first * table->columns * size;
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

double km_data_parse_ms(const km_data *data) {
    return data->table.parse_ms;
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
    if (data->share) return km_data_read_shared(out, data, points, count, err);
    if (data->draws || (data->resident && data->first)) {
        for (int64_t i = 0; i < count; i++)
            KM_TRY(km_data_read(out + i * d, data, points[i], 1, KM_FLOAT64, err));
        return KM_OK;
    }
    if (data->resident) KM_TRY(km_resident_read_rows(out, data->resident, points, count, err));
    for (int64_t i = 0; i < count && !data->resident; i++)
        km_table_read(out + i * d, &data->table, km_data_row_of(data, points[i]), 1, KM_FLOAT64);
    if (!data->resident) fill_in(out, data, count, KM_FLOAT64);
    for (int64_t i = 0; i < count && data->is_unit; i++) km_unit_row(out + i * d, NULL, d);
    return km_data_check(data, err);
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

int km_data_is_unit(const km_data *data) {
    return data->is_unit;
}

double km_data_unit_rounding(const km_data *data) {
    return data->unit_rounding;
}

const km_csr *km_data_csr(const km_data *data) {
    return data->table.csr;
}

km_status km_data_check(const km_data *data, km_error *err) {
    return km_table_check(&data->table, data->name, err);
}

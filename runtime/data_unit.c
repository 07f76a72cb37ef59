// SPDX-License-Identifier: MIT
// Rows of length 1: data whose points are those of others divided by their lengths.
#include "../base/error.h"
#include "../base/size.h"
#include "csr.h"
#include "data_refuse.h"
#include "data_source.h"
#include "data_state.h"
#include "memory.h"
#include "unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

// Whether a value is a float, or a number of as many decimal digits as tell floats apart.
static int is_short(double value) {
    char text[32];
    if (value == (double)(float)value) return 1;
    snprintf(text, sizeof text, "%.9g", value);
    return strtod(text, NULL) == value;
}

// Whether values have no more digits than floats, by those of some rows: floats that went through a text or a table of
// doubles.
static km_status look_at_digits(int *is_single, const km_data *data, km_error *err) {
    enum { ROWS = 64, VALUES = 4096 };
    const km_csr *csr = km_data_csr(data);
    int64_t d = data->table.columns, rows = km_min(data->n, km_max(1, km_min(ROWS, VALUES / d)));
    *is_single = csr ? csr->type == KM_FLOAT32 : km_data_is_single(data);
    if (*is_single || rows == 0 || data->share) return KM_OK; // ranks decide alike, by the type alone
    double *row = malloc((size_t)d * sizeof *row);
    if (!row) return km_fail_memory(err, "a row", d * (int64_t)sizeof *row);
    km_status status = KM_OK;
    *is_single = 1;
    for (int64_t i = 0; i < rows && *is_single && status == KM_OK; i++) {
        status = km_data_read(row, data, (int64_t)((double)i * (double)data->n / (double)rows), 1, KM_FLOAT64,
                              err);
        for (int64_t f = 0; f < d && *is_single && status == KM_OK; f++) *is_single = is_short(row[f]);
    }
    free(row);
    return status;
}

km_status km_data_unit(km_data **view, const km_data *data, km_error *err) {
    const km_data *from = *view ? *view : data;
    km_data *unit = NULL;
    int is_single;
    KM_TRY(look_at_digits(&is_single, from, err));
    KM_TRY(km_data_part(&unit, from, 0, from->n, err));
    unit->weights = from->weights;
    unit->prepared = from->prepared;
    unit->is_piece = from->is_piece;
    unit->is_unit = 1;
    unit->unit_rounding = is_single ? 0x1p-22 : 0x1p-50;
    km_status status = check_zeros(unit, from, err);
    if (status != KM_OK) {
        km_data_destroy(&unit);
        return status;
    }
    unit->base = *view;
    *view = unit;
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// Points of any table as nonzeros, batch by batch.
#include "../base/error.h"
#include "../base/size.h"
#include "csr.h"
#include "unit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A sample of rows: so many pieces of rows one after the other, evenly spread.
enum { PIECES = 64, PIECE_ROWS = 16, PIECE_VALUES = 4096 };
// Dense tables with fewer columns, or a larger share of values that are not 0, are never faster as CSR.
enum { COLUMNS_MIN = 8 };
#define SHARE_MAX 0.5

void km_csr_rows_free(km_csr_rows *rows) {
    free(rows->starts);
    free(rows->indices);
    free(rows->values);
    free(rows->dense);
    *rows = (km_csr_rows){0};
}

static km_status rows_start(km_csr_rows *rows, int64_t count, km_error *err) {
    rows->count = count;
    if (!rows->starts || count >= rows->starts_room) {
        free(rows->starts);
        rows->starts_room = count + 1;
        rows->starts = malloc((size_t)rows->starts_room * sizeof *rows->starts);
        if (!rows->starts) {
            rows->starts_room = 0;
            return km_fail_memory(err, "starts of rows", (count + 1) * 8);
        }
    }
    rows->starts[0] = 0;
    return KM_OK;
}

// Room for `more` entries behind those of the first `done` rows.
static km_status rows_grow(km_csr_rows *rows, int64_t done, int64_t more, km_error *err) {
    int64_t needed = rows->starts[done] + more;
    if (rows->indices && rows->values && needed <= rows->room) return KM_OK;
    int64_t room = needed + needed / 2 + 16;
    uint32_t *indices = realloc(rows->indices, (size_t)room * sizeof *indices);
    if (indices) rows->indices = indices;
    double *values = realloc(rows->values, (size_t)room * sizeof *values);
    if (values) rows->values = values;
    if (!indices || !values) return km_fail_memory(err, "a batch of nonzeros", room * 12);
    rows->room = room;
    return KM_OK;
}

static void read_columns(uint32_t *to, const km_csr *csr, int64_t first, int64_t count) {
    if (csr->index_bytes == 4)
        memcpy(to, (const int32_t *)csr->indices + first, (size_t)count * sizeof *to);
    else
        for (int64_t e = 0; e < count; e++) to[e] = (uint32_t)((const int64_t *)csr->indices)[first + e];
}

static void read_values(double *to, const km_csr *csr, int64_t first, int64_t count) {
    if (csr->type == KM_FLOAT32)
        for (int64_t e = 0; e < count; e++) to[e] = (double)((const float *)csr->values)[first + e];
    else
        memcpy(to, (const double *)csr->values + first, (size_t)count * sizeof *to);
}

static km_status read_sparse(km_csr_rows *rows, const km_data *data, int64_t first, km_error *err) {
    const km_csr *csr = km_data_csr(data);
    int is_unit = km_data_is_unit(data);
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t row = km_data_row_of(data, first + i), at = rows->starts[i];
        int64_t entries = csr->starts[row + 1] - csr->starts[row];
        rows->starts[i + 1] = at + entries;
        if (entries == 0) continue;
        KM_TRY(rows_grow(rows, i, entries, err));
        read_columns(rows->indices + at, csr, csr->starts[row], entries);
        read_values(rows->values + at, csr, csr->starts[row], entries);
        if (is_unit) km_unit_row(rows->values + at, rows->indices + at, entries);
    }
    return KM_OK;
}

static km_status read_dense(km_csr_rows *rows, const km_data *data, int64_t first, km_error *err) {
    int64_t d = km_data_features(data), needed = rows->count * d;
    if (needed > rows->dense_room) {
        free(rows->dense);
        rows->dense_room = needed;
        rows->dense = malloc((size_t)needed * sizeof *rows->dense);
        if (!rows->dense) {
            rows->dense_room = 0;
            return km_fail_memory(err, "a batch of rows", needed * 8);
        }
    }
    KM_TRY(km_data_read(rows->dense, data, first, rows->count, KM_FLOAT64, err));
    for (int64_t i = 0; i < rows->count; i++) {
        const double *x = rows->dense + i * d;
        KM_TRY(rows_grow(rows, i, d, err));
        int64_t at = rows->starts[i];
        for (int64_t f = 0; f < d; f++) {
            rows->indices[at] = (uint32_t)f;
            rows->values[at] = x[f];
            at += x[f] != 0;
        }
        rows->starts[i + 1] = at;
    }
    return KM_OK;
}

km_status km_data_read_csr(km_csr_rows *rows, const km_data *data, int64_t first, int64_t count,
                           km_error *err) {
    int64_t n = km_data_points(data);
    if (first < 0 || count < 0 || first > n - count)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s has the points 0..%" PRId64 ", asked for %" PRId64 " from %" PRId64,
                       km_data_name(data), n - 1, count, first);
    KM_TRY(rows_start(rows, count, err));
    return km_data_csr(data) ? read_sparse(rows, data, first, err) : read_dense(rows, data, first, err);
}

// How many ---------------------------------------------------------------------------------------------------

static double share_of_sample(const km_data *data) {
    int64_t n = km_data_points(data), d = km_data_features(data), read = 0, nonzeros = 0;
    int64_t count = km_min(n, km_max(1, km_min(PIECE_ROWS, PIECE_VALUES / d)));
    km_csr_rows rows = {0};
    for (int64_t p = 0; p < PIECES; p++) {
        int64_t first = (int64_t)((double)(n - count) * (double)p / (PIECES - 1));
        if (km_data_read_csr(&rows, data, first, count, NULL) != KM_OK) break;
        nonzeros += rows.starts[count];
        read += count * d;
    }
    km_csr_rows_free(&rows);
    return read ? (double)nonzeros / (double)read : 1;
}

double km_data_nonzeros(const km_data *data) {
    const km_csr *csr = km_data_csr(data);
    int64_t n = km_data_points(data), d = km_data_features(data);
    if (csr) return fmax((double)csr->starts[csr->rows] / fmax((double)csr->rows, 1), 1e-3);
    if (n < 1 || d < COLUMNS_MIN) return 0;
    double share = share_of_sample(data);
    return share > SHARE_MAX ? 0 : fmax(share * (double)d, 1e-3);
}

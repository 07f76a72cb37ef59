// SPDX-License-Identifier: MIT
// What holds of points that any reader accepted.
#include "points.h"

#include "runtime/csr.h"

#include <string.h>

int64_t fuzz_accepted;

// Rows of a sparse table: a byte that is packed may be a thousand of them.
static void read_sparse(const km_data *data, const km_csr *csr) {
    km_error err = {{0}};
    km_csr_rows rows = {0};
    must(csr->rows == km_data_rows(data) && csr->columns == km_data_features(data), "another shape");
    must(csr->columns <= KM_FEATURES_MAX && csr->starts[0] == 0, "a shape that cannot be");
    must(csr->starts[csr->rows] <= FUZZ_SIZE_MAX * 1100, "more entries than bytes");
    for (int64_t i = 0; i < csr->rows; i++) {
        must(csr->starts[i] <= csr->starts[i + 1], "rows that fall");
        for (int64_t e = csr->starts[i]; e < csr->starts[i + 1]; e++) {
            int64_t column = km_csr_column(csr, e);
            must(column >= 0 && column < csr->columns, "an entry outside of the columns");
            must(e == csr->starts[i] || column > km_csr_column(csr, e - 1), "entries in no order");
        }
    }
    for (int64_t i = 0; i < km_data_points(data); i += 100) {
        must(km_data_read_csr(&rows, data, i, 1, &err) == KM_OK, "a point cannot be read");
        must(km_data_row_of(data, i) < csr->rows, "a row outside of the file");
    }
    km_csr_rows_free(&rows);
}

// All points at once are the points one by one.
static void read_all(const km_data *data) {
    km_error err = {{0}};
    int64_t n = km_data_points(data), d = km_data_features(data);
    must(n >= 1 && d >= 1 && km_data_rows(data) >= n, "points without a shape");
    if (km_data_csr(data)) read_sparse(data, km_data_csr(data));
    if (km_data_csr(data) && (d > FUZZ_SIZE_MAX || n > FUZZ_SIZE_MAX || n * d > FUZZ_SIZE_MAX)) return;
    if (n * d > FUZZ_SIZE_MAX) return; // a byte that is packed may be many of them
    for (int type = KM_FLOAT32; type <= KM_FLOAT64; type++) {
        size_t size = type == KM_FLOAT64 ? 8 : 4, row_size = size * (size_t)d;
        unsigned char *all = malloc((size_t)n * row_size), *row = malloc(row_size);
        must(all && row, "no memory");
        must(km_data_read(all, data, 0, n, (km_type)type, &err) == KM_OK, "points cannot be read");
        for (int64_t i = 0; i < n; i++) {
            must(km_data_read(row, data, i, 1, (km_type)type, &err) == KM_OK, "a point cannot be read");
            must(memcmp(row, all + (size_t)i * row_size, row_size) == 0,
                 "a point differs when it is read alone");
            must(km_data_row_of(data, i) < km_data_rows(data), "a row outside of the file");
        }
        const void *base = km_data_base(data, (km_type)type);
        must(!base || memcmp(base, all, (size_t)n * row_size) == 0, "the points as they lie differ");
        free(all);
        free(row);
    }
    for (int64_t f = 0; f < d; f++)
        must(!km_data_feature_name(data, f) || strlen(km_data_feature_name(data, f)) < FUZZ_SIZE_MAX,
             "a name without end");
}

void open_points(const char *path, const km_data_params *params) {
    km_error err = {{0}};
    km_data *data = NULL;
    km_status status = km_data_open(&data, path, params, &err);
    must((status == KM_OK) == (data != NULL), "status and points disagree");
    must(status == KM_OK || err.text[0], "a file was refused without a reason");
    must(status != KM_ERROR_INTERNAL, "a file was refused by a bug");
    if (data) {
        fuzz_accepted++;
        read_all(data);
    }
    km_data_destroy(&data);
}

// SPDX-License-Identifier: MIT
// From bytes to points, through every reader: nothing may crash or read beyond its file, every refusal names the
// file, and what is accepted can be read whole, row by row and as either type.
#include "fuzz.h"

#include "runtime/csr.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void open_as(const char *path, const km_data_params *params) {
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

// The last byte says how the rest is opened, so that the ways are searched too; a newline, with which text ends: as
// kmgen opens it by itself.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const formats[] = {NULL, "npy", "csv", "tsv", "f32", "f64", "npz", "mtx", "svmlight"};
    static const char *const columns[] = {NULL, NULL, "1", "x,y", "2..3", "3,label"};
    static const char *const names[] = {"waiting", "eruptions", "sepal_width", "petal_width", "sepal_width"};
    if (size < 1 || size > FUZZ_SIZE_MAX) return 0;
    // The file ends where a page does, so that a step beyond its end is a step out of memory.
    static const char padding[4096];
    size_t before = (sizeof padding - (size - 1) % sizeof padding) % sizeof padding;
    int fd = memfd_create("fuzz", 0);
    must(fd >= 0 && write(fd, padding, before) == (ssize_t)before, "no file in memory");
    must(write(fd, bytes, size - 1) == (ssize_t)size - 1, "no file in memory");
    must(lseek(fd, (off_t)before, SEEK_SET) == (off_t)before && dup2(fd, STDIN_FILENO) == STDIN_FILENO,
         "no input");
    close(fd);
    km_data_params params;
    km_data_params_init(&params);
    uint8_t how = bytes[size - 1] ^ '\n';
    params.features = 1 + how % 3;
    params.format = formats[how % 9];
    params.base = how / 9 % 3 - 1;
    if (how % 9 == 8 && how & 32) params.features = 0;
    params.header = (km_header_mode)(how / 6 % 4);
    params.columns = columns[how / 7 % 6];
    params.names = how / 5 % 3 ? names + how / 5 % 3 : NULL; // some that are there, some twice, none
    params.names_count = params.names ? 1 + how / 3 % 2 * 2 : 0;
    params.missing = (km_missing)(how % 5);
    params.type = how & 64 ? KM_FLOAT32 : KM_FLOAT64;
    open_as("-", &params);
    return 0;
}

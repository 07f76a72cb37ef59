// SPDX-License-Identifier: MIT
// Points from every format and from memory: what is read, and what is refused in which words.
#include "../runtime/data.h"

#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static km_error err;
static km_data *data;
static km_data_params params;
static char folder[64]; // every file of a test lies here; tests run in it

static void begin(void) {
    err.text[0] = 0;
    data = NULL;
    km_data_params_init(&params);
    strcpy(folder, "/tmp/kmgen-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static void end(void) {
    char command[128];
    km_data_destroy(&data);
    ck_assert_ptr_null(data);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *path, const void *bytes, int64_t size) {
    FILE *stream = fopen(path, "wb");
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(bytes, 1, (size_t)size, stream), (size_t)size);
    ck_assert_int_eq(fclose(stream), 0);
}

static void write_text(const char *path, const char *text) {
    write_file(path, text, (int64_t)strlen(text));
}

// A .npy file with that dict and those bytes after it.
static void write_npy(const char *path, int major, const char *dict, const void *bytes, int64_t size) {
    char file[1 << 16];
    int64_t start = major == 1 ? 10 : 12, header = (int64_t)strlen(dict);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)major;
    file[7] = 0;
    for (int i = 0; i < (major == 1 ? 2 : 4); i++) file[8 + i] = (char)(header >> (8 * i));
    memcpy(file + start, dict, (size_t)header);
    memcpy(file + start + header, bytes, (size_t)size);
    write_file(path, file, start + header + size);
}

static void expect_error(km_status got, km_status wanted, const char *text) {
    ck_assert_str_eq(err.text, text);
    ck_assert_int_eq(got, wanted);
    ck_assert_ptr_null(data);
    err.text[0] = 0;
}

static void open_file(const char *path) {
    km_data_destroy(&data);
    ck_assert_msg(km_data_open(&data, path, &params, &err) == KM_OK, "%s", err.text);
}

static void refuse_file(const char *path, km_status wanted, const char *text) {
    km_data_destroy(&data);
    expect_error(km_data_open(&data, path, &params, &err), wanted, text);
}

// Checks shape and every value, as doubles and as floats, whole and row by row.
static void expect_values(int64_t n, int64_t d, const double *values) {
    double whole[4096];
    float singles[4096];
    ck_assert_int_le(n * d, 4096);
    ck_assert_int_eq(km_data_points(data), n);
    ck_assert_int_eq(km_data_features(data), d);
    ck_assert_int_eq(km_data_read(whole, data, 0, n, KM_FLOAT64, &err), KM_OK);
    ck_assert_int_eq(km_data_read(singles, data, 0, n, KM_FLOAT32, &err), KM_OK);
    for (int64_t i = 0; i < n * d; i++) {
        ck_assert_msg(whole[i] == values[i] || (isnan(whole[i]) && isnan(values[i])),
                      "value %d: %.17g is not %.17g", (int)i, whole[i], values[i]);
        ck_assert(singles[i] == (float)values[i] || isnan(values[i]));
    }
    for (int64_t i = 0; i < n; i++) {
        double row[64];
        ck_assert_int_eq(km_data_read(row, data, i, 1, KM_FLOAT64, &err), KM_OK);
        ck_assert_int_eq(memcmp(row, whole + i * d, (size_t)d * sizeof *row), 0);
    }
}

// Memory -----------------------------------------------------------------------------------------------------

static const double six[] = {1, 2, 3, 4, 5, 6};

START_TEST(memory_in_c_order) {
    ck_assert_int_eq(km_data_from_memory(&data, six, 3, 2, KM_FLOAT64, 0, 0, NULL, &err), KM_OK);
    expect_values(3, 2, six);
    ck_assert_ptr_eq(km_data_base(data, KM_FLOAT64), six);
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT32));
    ck_assert_str_eq(km_data_name(data), "memory");
    ck_assert_ptr_null(km_data_feature_name(data, 0));
    ck_assert_ptr_null(km_data_weights(data));
    ck_assert_int_eq(km_data_rows(data), 3);
    ck_assert_int_eq(km_data_row_of(data, 2), 2);
}
END_TEST

START_TEST(memory_with_strides) {
    static const float grid[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const double columns[] = {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12};
    static const double every_other[] = {1, 3, 7, 9};
    static const double backwards[] = {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
    ck_assert_int_eq(km_data_from_memory(&data, grid, 3, 4, KM_FLOAT32, 1, 3, NULL, &err), KM_OK);
    expect_values(3, 4, columns);
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT32));
    km_data_destroy(&data);
    ck_assert_int_eq(km_data_from_memory(&data, grid, 2, 2, KM_FLOAT32, 6, 2, NULL, &err), KM_OK);
    expect_values(2, 2, every_other);
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT32));
    km_data_destroy(&data);
    ck_assert_int_eq(km_data_from_memory(&data, grid + 11, 4, 3, KM_FLOAT32, -3, -1, NULL, &err), KM_OK);
    expect_values(4, 3, backwards);
    km_data_destroy(&data);
    ck_assert_int_eq(km_data_from_memory(&data, grid, 3, 4, KM_FLOAT32, 4, 1, NULL, &err), KM_OK);
    ck_assert_ptr_eq(km_data_base(data, KM_FLOAT32), grid);
    km_data_destroy(&data);
    ck_assert_int_eq(km_data_from_memory(&data, grid, 5, 1, KM_FLOAT32, 1, 7, NULL, &err), KM_OK);
    ck_assert_ptr_eq(km_data_base(data, KM_FLOAT32), grid); // one column: its stride is never used
    km_data_destroy(&data);
    ck_assert_int_eq(km_data_from_memory(&data, (const char *)grid + 2, 2, 2, KM_FLOAT32, 0, 0, NULL, &err),
                     KM_OK);
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT32)); // not aligned
}
END_TEST

START_TEST(memory_large_enough_to_be_tiled) {
    enum { N = 1000, D = 3 };
    double *columns = malloc(sizeof(double) * N * D), *rows = malloc(sizeof(double) * N * D);
    for (int i = 0; i < N; i++)
        for (int f = 0; f < D; f++) columns[f * N + i] = i * 10 + f;
    ck_assert_int_eq(km_data_from_memory(&data, columns, N, D, KM_FLOAT64, 1, N, NULL, &err), KM_OK);
    ck_assert_int_eq(km_data_read(rows, data, 1, N - 1, KM_FLOAT64, &err), KM_OK);
    for (int i = 1; i < N; i++)
        for (int f = 0; f < D; f++) ck_assert(rows[(i - 1) * D + f] == i * 10 + f);
    free(columns);
    free(rows);
}
END_TEST

START_TEST(memory_refused) {
    static const double weights[] = {1, 0, -1}, nan_weights[] = {1, NAN, 1}, zero_weights[] = {0, 0, 0};
    expect_error(km_data_from_memory(&data, six, -1, 2, KM_FLOAT64, 0, 0, NULL, &err), KM_ERROR_USAGE,
                 "memory: points must be n x d with n >= 0 and d 1..65536, got -1 x 2");
    expect_error(km_data_from_memory(&data, six, 3, 0, KM_FLOAT64, 0, 0, NULL, &err), KM_ERROR_USAGE,
                 "memory: points must be n x d with n >= 0 and d 1..65536, got 3 x 0");
    expect_error(km_data_from_memory(&data, six, 3, 65537, KM_FLOAT64, 0, 0, NULL, &err), KM_ERROR_USAGE,
                 "memory: points must be n x d with n >= 0 and d 1..65536, got 3 x 65537");
    expect_error(km_data_from_memory(&data, NULL, 3, 2, KM_FLOAT64, 0, 0, NULL, &err), KM_ERROR_USAGE,
                 "memory: the base of 3 points is NULL");
    expect_error(km_data_from_memory(&data, six, 3, 2, KM_FLOAT64, 2, 0, NULL, &err), KM_ERROR_USAGE,
                 "memory: strides must both be 0 (C order) or both not, got 2 and 0");
    expect_error(km_data_from_memory(&data, six, INT64_MAX / 2, 2, KM_FLOAT64, 4, 1, NULL, &err),
                 KM_ERROR_USAGE,
                 "memory: 4611686018427387903 x 2 points with strides 4 and 1 do not fit an address space");
    expect_error(km_data_from_memory(&data, six, INT64_MAX / 4, 2, KM_FLOAT64, 0, 0, NULL, &err),
                 KM_ERROR_USAGE,
                 "memory: 2305843009213693951 x 2 points with strides 0 and 0 do not fit an address space");
    expect_error(km_data_from_memory(&data, six, 3, 2, (km_type)7, 0, 0, NULL, &err), KM_ERROR_USAGE,
                 "memory: the type must be KM_FLOAT32 or KM_FLOAT64, got 7");
    expect_error(km_data_from_memory(&data, six, 3, 2, KM_FLOAT64, 0, 0, weights, &err), KM_ERROR_DATA,
                 "memory: point 2: a weight must be 0 or more, got -1");
    expect_error(km_data_from_memory(&data, six, 3, 2, KM_FLOAT64, 0, 0, nan_weights, &err), KM_ERROR_DATA,
                 "memory: point 1: a weight must be 0 or more, got nan");
    expect_error(km_data_from_memory(&data, six, 3, 2, KM_FLOAT64, 0, 0, zero_weights, &err), KM_ERROR_DATA,
                 "memory: all weights are 0; at least one must be more");
}
END_TEST

START_TEST(reading_outside_is_refused) {
    double row[2];
    ck_assert_int_eq(km_data_from_memory(&data, six, 3, 2, KM_FLOAT64, 0, 0, six, &err), KM_OK);
    ck_assert_ptr_eq(km_data_weights(data), six);
    ck_assert_int_eq(km_data_read(row, data, 3, 1, KM_FLOAT64, &err), KM_ERROR_USAGE);
    ck_assert_str_eq(err.text, "memory has the points 0..2, asked for 1 from 3");
    ck_assert_int_eq(km_data_read(row, data, -1, 1, KM_FLOAT64, &err), KM_ERROR_USAGE);
    ck_assert_int_eq(km_data_read(row, data, 1, INT64_MAX, KM_FLOAT64, &err), KM_ERROR_USAGE);
    ck_assert_int_eq(km_data_read(row, data, 3, 0, KM_FLOAT64, &err), KM_OK);
}
END_TEST

START_TEST(memory_without_points) {
    ck_assert_int_eq(km_data_from_memory(&data, NULL, 0, 2, KM_FLOAT32, 0, 0, NULL, &err), KM_OK);
    ck_assert_int_eq(km_data_points(data), 0);
    ck_assert_int_eq(km_data_read(NULL, data, 0, 0, KM_FLOAT64, &err), KM_OK);
}
END_TEST

START_TEST(values_that_are_no_points) {
    static const double bad[] = {1, 2, 3, 1e300, NAN, INFINITY, 7, 8};
    ck_assert_int_eq(km_data_from_memory(&data, bad, 4, 2, KM_FLOAT64, 0, 0, NULL, &err), KM_OK);
    ck_assert_int_eq(km_data_refuse_point(data, 0, KM_FLOAT64, &err), KM_OK);
    ck_assert_int_eq(km_data_refuse_point(data, 1, KM_FLOAT64, &err), KM_OK);
    ck_assert_int_eq(km_data_refuse_point(data, 1, KM_FLOAT32, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text, "memory: row 2, column 2: 1e+300 is too large for float32; use float64");
    err.text[0] = 0;
    ck_assert_int_eq(km_data_refuse_point(data, 2, KM_FLOAT64, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text,
                     "memory: row 3, column 1: the value is NaN; clean the data, or drop such rows with "
                     "--nan drop");
}
END_TEST

// .npy -------------------------------------------------------------------------------------------------------

#define DICT(dtype, order, shape) "{'descr': '" dtype "', 'fortran_order': " order ", 'shape': " shape ", }\n"

START_TEST(npy_types) {
    static const double values[] = {1, 2, 3, 4, 5, 6};
#define EXPECT_TYPE(dtype, ...)                                                                              \
    do {                                                                                                     \
        write_npy("x.npy", 1, DICT(dtype, "False", "(3, 2)"), (__VA_ARGS__), sizeof(__VA_ARGS__));           \
        open_file("x.npy");                                                                                  \
        expect_values(3, 2, values);                                                                         \
    } while (0)
    EXPECT_TYPE("<f4", (float[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("<f8", (double[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("|i1", (int8_t[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("<i2", (int16_t[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("<i4", (int32_t[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("<i8", (int64_t[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("|u1", (uint8_t[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("<u2", (uint16_t[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("<u4", (uint32_t[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE("=u8", (uint64_t[]){1, 2, 3, 4, 5, 6});
    EXPECT_TYPE(">i2", (uint8_t[]){0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6});
    EXPECT_TYPE(">u4", (uint8_t[]){0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6});
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT32));
    EXPECT_TYPE(">f4", (uint8_t[]){0x3f, 0x80, 0, 0, 0x40, 0,    0, 0, 0x40, 0x40, 0, 0,
                                   0x40, 0x80, 0, 0, 0x40, 0xa0, 0, 0, 0x40, 0xc0, 0, 0});
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT32));
    write_npy("x.npy", 1, DICT("|b1", "False", "(2, 2)"), "\1\0\0\1", 4);
    open_file("x.npy");
    expect_values(2, 2, (double[]){1, 0, 0, 1});
    write_npy("x.npy", 1, DICT("<i8", "False", "(2,)"), (int64_t[]){INT64_MIN, INT64_MAX}, 16);
    open_file("x.npy");
    expect_values(2, 1, (double[]){-0x1p63, 0x1p63});
}
END_TEST

START_TEST(npy_orders_and_versions) {
    static const double rows[] = {1, 4, 2, 5, 3, 6}, one[] = {2, 3, 4};
    for (int major = 1; major <= 3; major++) {
        write_npy("x.npy", major, DICT("<f8", "False", "(3, 2)"), six, sizeof six);
        open_file("x.npy");
        expect_values(3, 2, six);
        write_npy("x.npy", major, DICT("<f8", "True", "(3, 2)"), six, sizeof six);
        open_file("x.npy");
        expect_values(3, 2, rows);
        ck_assert_ptr_null(km_data_base(data, KM_FLOAT64));
    }
    write_npy("x.npy", 1, DICT("<f8", "False", "(3,)"), six + 1, 24); // one dimension: one column
    open_file("x.npy");
    expect_values(3, 1, one);
    write_npy("x.npy", 1, "{\"shape\":(3L,1L),\"fortran_order\":False,\"descr\":\"<f8\"}", six + 1, 24);
    open_file("x.npy");
    expect_values(3, 1, one);
}
END_TEST

START_TEST(npy_is_mapped_without_a_copy) {
    static const float values[] = {1, 2, 3, 4};
    ck_assert_int_eq(km_npy_write("x.npy", values, 2, 2, "<f4", &err), KM_OK);
    open_file("x.npy");
    ck_assert_ptr_nonnull(km_data_base(data, KM_FLOAT32));
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT64));
    ck_assert_int_eq(memcmp(km_data_base(data, KM_FLOAT32), values, sizeof values), 0);
    ck_assert_str_eq(km_data_name(data), "x.npy");
    // A header of odd length leaves the values where no float may lie: they are copied then.
    write_npy("y.npy", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}  ", values,
              sizeof values);
    open_file("y.npy");
    expect_values(2, 2, (double[]){1, 2, 3, 4});
}
END_TEST

START_TEST(npy_columns) {
    ck_assert_int_eq(km_npy_write("x.npy", six, 2, 3, "<f8", &err), KM_OK);
    params.columns = "3, 1";
    open_file("x.npy");
    expect_values(2, 2, (double[]){3, 1, 6, 4});
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT64));
    params.columns = "2..3";
    open_file("x.npy");
    expect_values(2, 2, (double[]){2, 3, 5, 6});
    params.columns = "1..3";
    open_file("x.npy");
    ck_assert_ptr_nonnull(km_data_base(data, KM_FLOAT64));
    params.columns = "4";
    refuse_file("x.npy", KM_ERROR_USAGE, "--columns: x.npy has the columns 1..3, got \"4\"");
    params.columns = "0";
    refuse_file("x.npy", KM_ERROR_USAGE, "--columns: x.npy has the columns 1..3, got \"0\"");
    params.columns = "3..1";
    refuse_file("x.npy", KM_ERROR_USAGE, "--columns: a range runs from low to high, got \"3..1\"");
    params.columns = "1,2,1";
    refuse_file("x.npy", KM_ERROR_USAGE, "--columns: \"1\" names column 1 of x.npy a second time");
    params.columns = "1,,2";
    refuse_file("x.npy", KM_ERROR_USAGE,
                "--columns must be names or numbers separated by commas, got \"1,,2\"");
    params.columns = "";
    refuse_file("x.npy", KM_ERROR_USAGE, "--columns must be names or numbers separated by commas, got \"\"");
    params.columns = "width";
    refuse_file("x.npy", KM_ERROR_USAGE,
                "--columns: x.npy has no header, so columns are named by number, 1..3, got \"width\"");
}
END_TEST

static const struct {
    const char *dict, *message;
    int64_t size;
    int major;
} bad_npy[] = {
    {DICT("<f8", "False", "(3, 2)"), "x.npy is cut short: 3 x 2 values take 48 bytes, 47 are there", 47, 1},
    {DICT("<f8", "False", "(3, 2)"), "x.npy has .npy version 4.0; versions 1.0 to 3.0 are read", 48, 4},
    {DICT("<f2", "False", "(3, 2)"),
     "x.npy: values of dtype \"<f2\" are not read; save float32, float64, bool or integers of 8 to 64 bits, "
     "e.g. with "
     "astype('float32')",
     48, 1},
    {DICT("<c16", "False", "(3, 1)"),
     "x.npy: values of dtype \"<c16\" are not read; save float32, float64, bool or integers of 8 to 64 bits, "
     "e.g. "
     "with astype('float32')",
     48, 1},
    {DICT("|O", "False", "(3, 2)"),
     "x.npy: values of dtype \"|O\" are not read; save float32, float64, bool or integers of 8 to 64 bits, "
     "e.g. with "
     "astype('float32')",
     48, 1},
    {"{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (3,)}",
     "x.npy holds records with named fields; save its columns as one plain array of numbers", 48, 1},
    {DICT("<f8", "False", "(1, 3, 2)"),
     "x.npy has 3 dimensions; points are rows x columns, so 2 (or 1) are read", 48, 1},
    {DICT("<f8", "False", "()"), "x.npy has 0 dimensions; points are rows x columns, so 2 (or 1) are read",
     48, 1},
    {DICT("<f8", "False", "(0, 2)"), "x.npy has no values: its shape is 0 x 2", 0, 1},
    {DICT("<f8", "False", "(3, 0)"), "x.npy has no values: its shape is 3 x 0", 0, 1},
    {DICT("<f8", "False", "(2, 65537)"),
     "x.npy has 65537 columns, and at most 65536 are taken; are rows and columns exchanged?", 48, 1},
    {DICT("<f8", "False", "(4611686018427387904, 4)"),
     "x.npy: the shape 4611686018427387904 x 4 is larger than any memory; the header is damaged", 48, 1},
    {DICT("<f8", "False", "(1152921504606846976, 1)"),
     "x.npy: the shape 1152921504606846976 x 1 is larger than any memory; the header is damaged", 48, 1},
    {DICT("<f8", "False", "(99999999999999999999, 2)"),
     "x.npy: the .npy header is damaged: a size in the shape does not fit 63 bits", 48, 1},
    {DICT("<f8", "False", "(-3, 2)"), "x.npy: the .npy header is damaged: the shape is not a tuple of sizes",
     48, 1},
    {DICT("<f8", "False", "3"), "x.npy: the .npy header is damaged: the shape is not a tuple", 48, 1},
    {DICT("<f8", "Maybe", "(3, 2)"),
     "x.npy: the .npy header is damaged: fortran_order is neither True nor False", 48, 1},
    {"{'descr': '<f8', 'shape': (3, 2)}",
     "x.npy: the .npy header is damaged: descr, fortran_order or shape is missing", 48, 1},
    {"{'descr': '<f8', 'colour': 3}",
     "x.npy: the .npy header is damaged: it has a key other than descr, fortran_order and shape", 48, 1},
    {"{'descr': '<f8", "x.npy: the .npy header is damaged: a quote is not closed", 0, 1},
    {"{'descr'", "x.npy: the .npy header is damaged: a colon is missing", 0, 1},
    {"{descr", "x.npy: the .npy header is damaged: a quoted word is missing", 0, 1},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2",
     "x.npy: the .npy header is damaged: the shape does not end", 0, 1},
    {"", "x.npy: the .npy header is damaged: it does not open with {", 0, 1},
};

START_TEST(npy_refused) {
    char zeros[64] = {0};
    write_npy("x.npy", bad_npy[_i].major, bad_npy[_i].dict, zeros, bad_npy[_i].size);
    refuse_file("x.npy", KM_ERROR_DATA, bad_npy[_i].message);
}
END_TEST

START_TEST(npy_cut_anywhere_is_refused) {
    char bytes[1024];
    ck_assert_int_eq(km_npy_write("whole.npy", six, 3, 2, "<f8", &err), KM_OK);
    FILE *stream = fopen("whole.npy", "rb");
    int64_t size = (int64_t)fread(bytes, 1, sizeof bytes, stream);
    fclose(stream);
    ck_assert_int_eq(size, 128 + 48);
    for (int64_t cut = 0; cut < size; cut++) {
        write_file("x.npy", bytes, cut);
        ck_assert_int_eq(km_data_open(&data, "x.npy", NULL, &err), KM_ERROR_DATA);
        ck_assert_ptr_nonnull(strstr(err.text, "x.npy"));
        err.text[0] = 0;
    }
}
END_TEST

START_TEST(npy_writing) {
    static const int32_t labels[] = {0, 2, -1, 7};
    ck_assert_int_eq(km_npy_write("l.npy", labels, 4, 0, "<i4", &err), KM_OK);
    open_file("l.npy");
    expect_values(4, 1, (double[]){0, 2, -1, 7});
    ck_assert_int_eq(km_npy_write("x.npy", six, 2, 3, "<f8", &err), KM_OK);
    open_file("x.npy");
    expect_values(2, 3, six);
    ck_assert_int_eq(km_npy_write("x.npy", six, 2, 3, "<f2", &err), KM_ERROR_USAGE);
    ck_assert_str_eq(err.text, "x.npy: cannot write 2 x 3 values of dtype <f2");
    err.text[0] = 0;
    ck_assert_int_eq(km_npy_write("no/x.npy", six, 2, 3, "<f8", &err), KM_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot write no/x.npy: No such file or directory"));
}
END_TEST

// Raw --------------------------------------------------------------------------------------------------------

START_TEST(raw_files) {
    static const float values[] = {1, 2, 3, 4, 5, 6};
    write_file("x.f32", values, sizeof values);
    write_file("x.f64", six, sizeof six);
    params.features = 2;
    open_file("x.f32");
    expect_values(3, 2, six);
    ck_assert_ptr_nonnull(km_data_base(data, KM_FLOAT32));
    open_file("x.f64");
    expect_values(3, 2, six);
    ck_assert_ptr_nonnull(km_data_base(data, KM_FLOAT64));
    rename("x.f64", "x.dat");
    params.format = "f64";
    params.features = 3;
    open_file("x.dat");
    expect_values(2, 3, six);
    params.columns = "2";
    open_file("x.dat");
    expect_values(2, 1, (double[]){2, 5});
}
END_TEST

START_TEST(raw_refused) {
    write_file("x.f32", six, 44);
    refuse_file("x.f32", KM_ERROR_USAGE,
                "x.f32: a raw file needs the number of its columns: --features 1..65536, got 0");
    params.features = 65537;
    refuse_file("x.f32", KM_ERROR_USAGE,
                "x.f32: a raw file needs the number of its columns: --features 1..65536, got 65537");
    params.features = 2;
    refuse_file("x.f32", KM_ERROR_DATA,
                "x.f32 has 44 bytes, which is no multiple of the 8 bytes of a row of 2 float32 values");
    write_file("x.f32", "\x1f\x8b\x08\0\0\0\0\0", 8);
    refuse_file("x.f32", KM_ERROR_DATA, "x.f32 is compressed, which only text may be; unpack it with gunzip");
}
END_TEST

// Files that cannot be -----------------------------------------------------------------------------------------

START_TEST(no_file) {
    refuse_file("none.npy", KM_ERROR_IO, "cannot read none.npy: No such file or directory");
    refuse_file(".", KM_ERROR_IO, "cannot read .: it is a folder; name a file");
    write_text("empty.npy", "");
    refuse_file("empty.npy", KM_ERROR_DATA, "empty.npy is empty");
    write_text("x.npy", "1,2\n3,4\n");
    refuse_file("x.npy", KM_ERROR_DATA, "x.npy is no .npy file: its first bytes differ");
    params.format = "xls";
    refuse_file("x.npy", KM_ERROR_USAGE, "the format must be npy, csv, tsv, f32 or f64, got \"xls\"");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("data");
    TCase *tests = tcase_create("data");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, memory_in_c_order);
    tcase_add_test(tests, memory_with_strides);
    tcase_add_test(tests, memory_large_enough_to_be_tiled);
    tcase_add_test(tests, memory_refused);
    tcase_add_test(tests, reading_outside_is_refused);
    tcase_add_test(tests, memory_without_points);
    tcase_add_test(tests, values_that_are_no_points);
    tcase_add_test(tests, npy_types);
    tcase_add_test(tests, npy_orders_and_versions);
    tcase_add_test(tests, npy_is_mapped_without_a_copy);
    tcase_add_test(tests, npy_columns);
    tcase_add_loop_test(tests, npy_refused, 0, (int)(sizeof bad_npy / sizeof *bad_npy));
    tcase_add_test(tests, npy_cut_anywhere_is_refused);
    tcase_add_test(tests, npy_writing);
    tcase_add_test(tests, raw_files);
    tcase_add_test(tests, raw_refused);
    tcase_add_test(tests, no_file);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

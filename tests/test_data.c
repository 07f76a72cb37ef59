// SPDX-License-Identifier: MIT
// Points from every format and from memory: what is read, and what is refused in which words.
#include "../runtime/data_refuse.h"
#include "../runtime/read/reader.h"
#include <kmgen/module.h>

#include "quiet_check.h"
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

// A sentence that lists the formats: "a, b or c".
static const char *with_formats(char sentence[256], const char *before, const char *behind) {
    int used = snprintf(sentence, 256, "%s", before);
    for (int64_t i = 0; km_data_format_name(i); i++) {
        const char *joint = i == 0 ? "" : km_data_format_name(i + 1) ? ", " : " or ";
        used += snprintf(sentence + used, (size_t)(256 - used), "%s%s", joint, km_data_format_name(i));
    }
    snprintf(sentence + used, (size_t)(256 - used), "%s", behind);
    return sentence;
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

// What is refused of points on a device before one is asked, and where there is none. With one: test_fit.
START_TEST(memory_of_a_device) {
    static const float x[6];
    expect_error(km_data_from_device(&data, KM_HOST, x, 3, 2, KM_FLOAT32, NULL, NULL, &err), KM_ERROR_USAGE,
                 "device -1 is no CUDA ordinal (0 and up)");
    expect_error(km_data_from_device(&data, 0, NULL, 3, 2, KM_FLOAT32, NULL, NULL, &err), KM_ERROR_USAGE,
                 "memory: the base of 3 points is NULL");
    expect_error(km_data_from_device(&data, 0, x, 3, 0, KM_FLOAT32, NULL, NULL, &err), KM_ERROR_USAGE,
                 "memory: points must be n x d with n >= 0 and d 1..65536, got 3 x 0");
    expect_error(km_data_from_device(&data, 0, (const char *)x + 2, 1, 2, KM_FLOAT32, NULL, NULL, &err),
                 KM_ERROR_USAGE, "memory: the points on the device are not aligned to 4 bytes");
    ck_assert_int_eq(km_data_from_device(&data, 0, x, 3, 2, KM_FLOAT32, NULL, NULL, &err),
                     km_device_count() ? KM_ERROR_USAGE : KM_ERROR_DEVICE); // memory of the host
    ck_assert_ptr_null(data);
}
END_TEST

// Columns that lie apart, with a stride or without, whole and picked by name.
START_TEST(memory_by_columns) {
    static const float x[] = {1, 2, 3}, y[] = {4, 5, 6}, z[] = {7, -1, 8, -1, 9, -1};
    static const double rows[] = {1, 4, 2, 5, 3, 6}, z_x[] = {7, 1, 8, 3};
    static const char *const names[] = {"x", "z"}, *const picks[] = {"z", "x"};
    const void *columns[] = {x, y}, *apart[] = {x, z}, *gap[] = {x, NULL};
    km_data *view;
    ck_assert_int_eq(km_data_from_columns(&data, columns, 3, 2, KM_FLOAT32, 0, NULL, &err), KM_OK);
    expect_values(3, 2, rows);
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT32)); // even where they happen to follow each other
    km_data_destroy(&data);
    // Every other value of both: x has two.
    ck_assert_int_eq(km_data_from_columns(&data, apart, 2, 2, KM_FLOAT32, 2, NULL, &err), KM_OK);
    ck_assert_int_eq(km_data_set_names(data, names, &err), KM_OK);
    ck_assert_int_eq(km_data_select(&view, data, picks, 2, &err), KM_OK);
    double out[4];
    ck_assert_int_eq(km_data_read(out, view, 0, 2, KM_FLOAT64, &err), KM_OK);
    ck_assert_int_eq(memcmp(out, z_x, sizeof out), 0);
    km_data_destroy(&view);
    km_data_destroy(&data);
    expect_error(km_data_from_columns(&data, gap, 3, 2, KM_FLOAT32, 0, NULL, &err), KM_ERROR_USAGE,
                 "memory: column 1 of 3 points is NULL");
    expect_error(km_data_from_columns(&data, NULL, 3, 2, KM_FLOAT32, 0, NULL, &err), KM_ERROR_USAGE,
                 "memory: the columns of the points are NULL");
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
    static const double bad[] = {1, 2, 3, 1e300, 7, NAN, INFINITY, 8};
    ck_assert_int_eq(km_data_from_memory(&data, bad, 4, 2, KM_FLOAT64, 0, 0, NULL, &err), KM_OK);
    ck_assert_int_eq(km_data_refuse_value(data, 1, 1, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text,
                     "memory: row 2, column 2: 1e+300 is too far from the rest for float32; use float64");
    err.text[0] = 0;
    ck_assert_int_eq(km_data_refuse_value(data, 2, -1, &err), KM_ERROR_DATA);
    ck_assert_str_eq(
        err.text,
        "memory: row 3, column 2: the value is missing (NaN); leave such rows out, or fill them in");
    err.text[0] = 0;
    ck_assert_int_eq(km_data_refuse_value(data, 3, 0, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text,
                     "memory: row 4, column 1: the value is infinite; correct it, or leave its row out");
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
    refuse_file("x.npy", KM_ERROR_USAGE, "--columns: a range runs from left to right, got \"3..1\"");
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
    {DICT("<c16", "False", "(3, 1)"),
     "x.npy: values of dtype \"<c16\" are not read; save float16, float32, float64, bool or integers of 8 to "
     "64 bits, "
     "e.g. "
     "with astype('float32')",
     48, 1},
    {DICT("|O", "False", "(3, 2)"),
     "x.npy holds Python objects; save numbers with astype('float32'), words as text by "
     "numpy.savetxt(path, x, fmt='%s'), a sparse matrix by "
     "scipy.sparse.save_npz(path, x.tocsr())",
     48, 1},
    {"{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (3,)}",
     "x.npy holds records with named fields; save its columns as one plain array of numbers, as "
     "numpy.lib.recfunctions.structured_to_unstructured(x[['a', 'b']]) makes it",
     48, 1},
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

// More rows and bytes than 32 bits count: a file with a hole, so that it takes no room.
START_TEST(npy_beyond_32_bits) {
    static const int64_t n = ((int64_t)1 << 32) + 5;
    char dict[128];
    unsigned char last[] = {7, 8, 9, 10};
    snprintf(dict, sizeof dict, DICT("|u1", "False", "(%lld, 2)"), (long long)n);
    write_npy("x.npy", 1, dict, "\1\2", 2);
    int64_t start = 10 + (int64_t)strlen(dict);
    int fd = open("x.npy", O_WRONLY);
    if (pwrite(fd, last, sizeof last, start + 2 * n - 4) != sizeof last) {
        fputs("data: npy_beyond_32_bits skipped: no file of 8 GiB can be made here\n", stderr);
        close(fd);
        return;
    }
    close(fd);
    open_file("x.npy");
    double row[4];
    ck_assert_int_eq(km_data_points(data), n);
    ck_assert_int_eq(km_data_read(row, data, n - 2, 2, KM_FLOAT64, &err), KM_OK);
    ck_assert(row[0] == 7 && row[1] == 8 && row[2] == 9 && row[3] == 10);
    ck_assert_int_eq(km_data_read(row, data, 0, 1, KM_FLOAT64, &err), KM_OK);
    ck_assert(row[0] == 1 && row[1] == 2);
    ck_assert_int_eq(truncate("x.npy", start + 2 * n - 1), 0);
    refuse_file("x.npy", KM_ERROR_DATA,
                "x.npy is cut short: 4294967301 x 2 values take 8589934602 bytes, 8589934601 are there");
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
}
END_TEST

// Text -------------------------------------------------------------------------------------------------------

static void write_packed(const char *path, const char *text) {
    char command[64];
    snprintf(command, sizeof command, "gzip >>%s", path); // appends a stream
    FILE *pipe = popen(command, "w");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), pipe), strlen(text));
    ck_assert_int_eq(pclose(pipe), 0);
}

START_TEST(numbers) {
    static const char *const good[] = {
        "0",
        "-0",
        "+1",
        "1.5",
        "-.5",
        "5.",
        "1e3",
        "1E+3",
        "1e-3",
        " 7 ",
        "\t7",
        "0.1",
        "1e22",
        "1e23",
        "1e-22",
        "1e-23",
        "123456789012345678901234567890",
        "9007199254740993",
        "0.000000000000000000000000000000123",
        "1e308",
        "4.9e-324",
        "1e-400",
        "1.7976931348623157e308",
        "2.2250738585072011e-308",
        "000000000000000000000001.5",
        "3.141592653589793238462643383279502884197",
    };
    static const char *const bad[] = {"",    " ",    "a",       "1a",  "1 2",   "0x10",        "1e",
                                      "1e+", ".",    "-",       "+-1", "1,5",   "1.2.3",       "e5",
                                      "in",  "nano", "infinit", "--1", "1_000", "\xef\xbc\x91"};
    double value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(km_number_parse(&value, good[i], (int64_t)strlen(good[i])), "%s", good[i]);
        ck_assert_msg(value == strtod(good[i], NULL), "%s: %.17g", good[i], value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!km_number_parse(&value, bad[i], (int64_t)strlen(bad[i])), "%s", bad[i]);
    ck_assert(km_number_parse(&value, "-0", 2) && signbit(value));
    static const char *const nans[] = {"nan", "NaN", "-NAN", " nan "};
    for (int i = 0; i < 4; i++)
        ck_assert(km_number_parse(&value, nans[i], (int64_t)strlen(nans[i])) && isnan(value));
    static const char *const infinities[] = {"inf", "+Inf", "INFINITY", "infinity", "1e999"};
    for (int i = 0; i < 5; i++)
        ck_assert(km_number_parse(&value, infinities[i], (int64_t)strlen(infinities[i])) &&
                  value == INFINITY);
    ck_assert(km_number_parse(&value, "-inf", 4) && value == -INFINITY);
}
END_TEST

// Random decimals of every length and exponent, against the C library; and the doubles' own spellings.
START_TEST(numbers_round_as_the_c_library_does) {
    uint64_t state = 42;
    for (int i = 0; i < 200000; i++) {
        char text[64];
        double value;
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t digits = state >> (state >> 58);
        int exponent = (int)(state % 61) - 30;
        if (i % 2)
            snprintf(text, sizeof text, "%llu.%llue%d", (unsigned long long)digits % 100000,
                     (unsigned long long)digits, exponent);
        else
            snprintf(text, sizeof text, "-%llue%d", (unsigned long long)digits, exponent);
        int is_number = km_number_parse(&value, text, (int64_t)strlen(text));
        if (!is_number || value != strtod(text, NULL)) ck_abort_msg("%s: %.17g", text, value);
    }
}
END_TEST

// Cells of few bytes, which are read eight at a time: what they are, and their bits.
START_TEST(numbers_of_eight_bytes) {
    static const char often[] = "0123456789", seldom[] = ".-+e /:9";
    uint64_t state = 7;
    for (int i = 0; i < 300000; i++) {
        char text[16];
        int size = 1 + i % 10, digits = 0, points = 0, others = 0;
        for (int c = 0; c < size; c++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint64_t draw = state >> 40;
            text[c] = draw % 8 ? often[draw / 8 % 10] : draw % 16 ? '.' : seldom[draw / 16 % 8];
            if (c == 0 && draw % 5 == 0) text[c] = '-';
            int is_sign = c == 0 && text[c] == '-';
            digits += text[c] >= '0' && text[c] <= '9';
            points += text[c] == '.';
            others += !is_sign && text[c] != '.' && (text[c] < '0' || text[c] > '9');
        }
        text[size] = 0;
        double value;
        char *alone = malloc((size_t)size); // nothing may be read behind it
        ck_assert_ptr_nonnull(alone);
        memcpy(alone, text, (size_t)size);
        int is_short = km_number_short(&value, alone, size);
        free(alone);
        int fits = !others && digits > 0 && points < 2 && size - (text[0] == '-') <= 8;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        ck_assert_msg(is_short == fits, "%s", text);
#endif
        double wanted = is_short ? strtod(text, NULL) : 0;
        ck_assert_msg(!is_short || (fits && memcmp(&value, &wanted, sizeof value) == 0), "%s", text);
    }
}
END_TEST

// A locale with a decimal comma, made here where the machine has none.
START_TEST(numbers_ignore_the_locale) {
    double value;
    if (system("localedef -i de_DE -f UTF-8 ./de_DE.UTF-8 >log 2>&1") != 0) {
        fputs("data: numbers_ignore_the_locale skipped: localedef cannot make de_DE\n", stderr);
        return;
    }
    setenv("LOCPATH", folder, 1);
    ck_assert_ptr_nonnull(setlocale(LC_ALL, "de_DE.UTF-8"));
    ck_assert(strtod("1,5", NULL) == 1.5); // it is in force
    ck_assert(km_number_parse(&value, "1.234567890123456789012", 23));
    setlocale(LC_ALL, "C");
    ck_assert(value == 1.234567890123456789012);
}
END_TEST

START_TEST(csv_spellings) {
    static const char *const same[] = {
        "1,2\n3,4\n5,6\n",
        "1,2\n3,4\n5,6",
        "1,2\r\n3,4\r\n5,6\r\n",
        "1,2\r3,4\r5,6\r",
        "\n\n1,2\n\n3,4\n   \n5,6\n\n\n",
        "x,y\n1,2\n3,4\n5,6\n",
        "\xef\xbb\xbfx,y\n1,2\n3,4\n5,6\n",
        ("\xef\xbb\xbf"
         "1,2\n3,4\n5,6\n"),
        "\"x\",\"y\"\n\"1\",\"2\"\n3,4\n5,6\n",
        " 1 , 2 \n 3,4\n5 ,\t6\n",
        "x;y\n1;2\n3;4\n5;6\n",
        "1;2\n3;4\n5;6\n",
        "\"x,1\";y\n1;2\n3;4\n5;6\n",
        "x\ty\n1\t2\n3\t4\n5\t6\n",
        "1e0,2.0\n+3,.4e1\n5.,60e-1\n",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        for (int type = 0; type < 2; type++) {
            params.type = type ? KM_FLOAT64 : KM_FLOAT32;
            write_text("x.csv", same[i]);
            open_file("x.csv");
            expect_values(3, 2, six);
            ck_assert_ptr_nonnull(km_data_base(data, params.type));
            ck_assert_ptr_null(km_data_base(data, type ? KM_FLOAT32 : KM_FLOAT64));
        }
}
END_TEST

START_TEST(headers) {
    write_text("x.csv", "length,\"the \"\"width\"\"\"\n1,2\n3,4\n5,6\n");
    open_file("x.csv");
    expect_values(3, 2, six);
    ck_assert_str_eq(km_data_feature_name(data, 0), "length");
    ck_assert_str_eq(km_data_feature_name(data, 1), "the \"width\"");
    ck_assert_ptr_null(km_data_feature_name(data, 2));
    ck_assert_ptr_null(km_data_feature_name(data, -1));
    params.header = KM_HEADER_NO;
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv: row 1, column 1: \"length\" is no number; correct it, or give --na-values \"length\" "
                "where it "
                "means that a value is missing, or leave the column out: --exclude 1");
    write_text("x.csv", "2000,2001\n1,2\n3,4\n5,6\n");
    open_file("x.csv");
    ck_assert_int_eq(km_data_points(data), 4);
    params.header = KM_HEADER_YES;
    open_file("x.csv");
    expect_values(3, 2, six);
    ck_assert_str_eq(km_data_feature_name(data, 1), "2001");
    params.header = KM_HEADER_AUTO;
    write_text("x.csv", "nan,inf\n1,2\n"); // numbers, by their spelling
    params.missing = KM_MISSING_KEEP;
    open_file("x.csv");
    ck_assert_int_eq(km_data_points(data), 2);
}
END_TEST

START_TEST(tsv_and_unknown_names) {
    write_text("x.tsv", "x\ty\n1\t2\n3\t4\n5\t6\n");
    open_file("x.tsv");
    expect_values(3, 2, six);
    write_text("x.txt", "x y\t\"y\tz\"\n1\t2\n3\t4\n5\t6\n");
    open_file("x.txt");
    expect_values(3, 2, six);
    ck_assert_str_eq(km_data_feature_name(data, 1), "y\tz");
    write_text("x.CSV", "1,2\n3,4\n5,6\n");
    open_file("x.CSV");
    expect_values(3, 2, six);
    params.format = "csv";
    write_text("x.npy", "1,2\n3,4\n5,6\n");
    open_file("x.npy");
    expect_values(3, 2, six);
}
END_TEST

START_TEST(packed_text) {
    write_packed("x.csv.gz", "x,y\n1,2\n3,");
    write_packed("x.csv.gz", "4\n5,6\n"); // two streams, as `cat a.gz b.gz` makes
    open_file("x.csv.gz");
    expect_values(3, 2, six);
    ck_assert_int_eq(rename("x.csv.gz", "x.csv"), 0); // content tells, not the name
    open_file("x.csv");
    expect_values(3, 2, six);
    ck_assert_int_eq(rename("x.csv", "x"), 0);
    open_file("x");
    expect_values(3, 2, six);
    ck_assert_int_eq(truncate("x", 40), 0);
    refuse_file("x", KM_ERROR_DATA, "x is cut short: what is packed in it does not end");
    write_file("y.csv", "\x1f\x8b\x08\xff rubbish", 12);
    refuse_file("y.csv", KM_ERROR_DATA, "y.csv is damaged: zlib cannot unpack it (unknown header flags set)");
    write_packed("z.csv.gz", "");
    refuse_file("z.csv.gz", KM_ERROR_DATA, "z.csv.gz is empty");
    write_packed("z.npy.gz", "1,2\n");
    refuse_file("z.npy.gz", KM_ERROR_DATA, "z.npy.gz is no .npy file: its first bytes differ");
    write_npy("x.npy", 1, DICT("<f8", "False", "(3, 2)"), six, sizeof six);
    ck_assert_int_eq(system("gzip x.npy"), 0);
    open_file("x.npy.gz");
    expect_values(3, 2, six);
}
END_TEST

static const char *packed_file(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, KM_TEST_DATA "/packed/%s", name);
    return path;
}

START_TEST(packed_by_others) {
    static const char *const names[] = {"points.csv.xz",      "points.csv.zst", "points.csv.bz2",
                                        "points.npy.xz",      "one.npz",        "two.npz:points",
                                        "two.npz:points.npy", "one.zip",        "two.zip:points.csv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        open_file(packed_file(names[i]));
        expect_values(3, 2, six);
    }
    char command[600];
    snprintf(command, sizeof command, "cp %s two.npz", packed_file("two.npz"));
    ck_assert_int_eq(system(command), 0);
    refuse_file("two.npz", KM_ERROR_DATA,
                "two.npz holds several arrays; name one of them, two.npz:NAME: points, weights");
    refuse_file("two.npz:x", KM_ERROR_DATA,
                "two.npz:x: there is no \"x\" in it; it holds points.npy, weights.npy");
    snprintf(command, sizeof command, "cp %s two.zip", packed_file("two.zip"));
    ck_assert_int_eq(system(command), 0);
    refuse_file("two.zip", KM_ERROR_DATA,
                "two.zip holds several files; name one of them, two.zip:NAME: README, points.csv");
    params.format = "npz";
    refuse_file("two.zip:README", KM_ERROR_DATA,
                "two.zip:README is no .npz file: its first bytes are not those of a zip file");
    params.format = NULL;
    write_text("a:b.csv", "1,2\n3,4\n5,6\n"); // the whole name comes first
    open_file("a:b.csv");
    expect_values(3, 2, six);
    refuse_file("a:b.csv:c", KM_ERROR_DATA, "a:b.csv:c has no parts that a colon could name; give a:b.csv");
}
END_TEST

START_TEST(packed_and_damaged) {
    static const struct {
        const char *name;
        int64_t size, damaged; // bytes that are left; the one that is changed
    } files[] = {{"points.csv.xz", 40, 30}, {"points.csv.zst", 20, 8}, {"points.csv.bz2", 30, 30},
                 {"points.npy.xz", 90, 60}, {"one.zip", 105, 100},     {"two.npz", 120, 100}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[40];
        for (int is_cut = 0; is_cut < 2; is_cut++) {
            unsigned char bytes[4096];
            FILE *file = fopen(packed_file(files[i].name), "rb");
            int64_t size = (int64_t)fread(bytes, 1, sizeof bytes, file);
            fclose(file);
            ck_assert_int_gt(size, files[i].size);
            bytes[files[i].damaged] ^= is_cut ? 0 : 0x55;
            write_file(files[i].name, bytes, is_cut ? files[i].size : size);
            snprintf(path, sizeof path, "%s%s", files[i].name, i == 5 ? ":points" : "");
            ck_assert_int_eq(km_data_open(&data, path, &params, &err), KM_ERROR_DATA);
            ck_assert_msg(strstr(err.text, " is damaged or cut short: "), "%s: %s", path, err.text);
        }
    }
}
END_TEST

START_TEST(packed_without_libarchive) {
    char wanted[700];
    snprintf(wanted, sizeof wanted,
             "%s is packed by xz, and this kmgen was built without libarchive; unpack it with unxz, or build "
             "kmgen with meson's option -Dlibarchive=enabled",
             packed_file("points.csv.xz"));
    refuse_file(packed_file("points.csv.xz"), KM_ERROR_DATA, wanted);
}
END_TEST

START_TEST(hdf5_datasets) {
    static const char *const names[] = {"points.h5",          "points.h5:/points", "points.h5:points",
                                        "more.h5:/g/chunked", "more.h5:/half",     "more.h5:/big"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        open_file(packed_file(names[i]));
        expect_values(3, 2, six);
    }
    open_file(packed_file("points.h5:/weights"));
    ck_assert_int_eq(km_data_features(data), 1);
    params.columns = "2";
    open_file(packed_file("points.h5"));
    expect_values(3, 1, (double[]){2, 4, 6});
    params.columns = NULL;
    char command[600];
    snprintf(command, sizeof command, "cp %s x.h5 && head -c 1000 x.h5 >cut.h5 && gzip -k x.h5",
             packed_file("more.h5"));
    ck_assert_int_eq(system(command), 0);
    refuse_file("x.h5", KM_ERROR_DATA,
                "x.h5 holds several datasets; name one of them, x.h5:/PATH: /big, /g/chunked, /half, /words");
    refuse_file("x.h5:/none", KM_ERROR_DATA,
                "x.h5:/none: there is no dataset \"/none\" in it; of two dimensions it holds /big, "
                "/g/chunked, /half, /words");
    refuse_file("x.h5:/words", KM_ERROR_DATA,
                "x.h5:/words: the dataset holds no numbers; integers and floating point of up to 64 bits are "
                "read");
    static const char records[] =
        "%s holds records, as pandas writes a table, which are not read; convert it: python3 -c \"import "
        "pandas; pandas.read_hdf('FILE').to_csv('table.csv', index=False)\"";
    static const char *const tables[] = {"table.h5", "table.h5:/df/table"};
    for (int i = 0; i < 2; i++) {
        const char *path = packed_file(tables[i]);
        char message[900];
        snprintf(message, sizeof message, records, path);
        refuse_file(path, KM_ERROR_DATA, message);
    }
    refuse_file("x.h5:/cube", KM_ERROR_DATA,
                "x.h5:/cube: the dataset has 3 dimensions; points are rows x columns, so 2 (or 1) are read");
    refuse_file("x.h5.gz", KM_ERROR_DATA,
                "x.h5.gz: HDF5 is read from a file of its own, since its parts lie anywhere in it; write it "
                "to one, unpacked");
    ck_assert_int_eq(km_data_open(&data, "cut.h5", &params, &err), KM_ERROR_DATA);
    ck_assert_msg(strstr(err.text, "cut.h5 is damaged or cut short: HDF5 cannot open it (truncated file"),
                  "%s", err.text);
}
END_TEST

START_TEST(hdf5_left_out) {
    char wanted[700];
    snprintf(
        wanted, sizeof wanted,
        "%s is HDF5, and this kmgen was built without it; save the dataset by numpy.save(path, dataset), "
        "or build kmgen with meson's option -Dhdf5=enabled",
        packed_file("points.h5"));
    refuse_file(packed_file("points.h5"), KM_ERROR_DATA, wanted);
}
END_TEST

// Files that are not read say which command converts them.
START_TEST(files_of_programs) {
    static const struct {
        const char *name, *bytes;
        int64_t size;
        const char *wanted;
    } files[] = {
        {"x.bin", "PAR1\x15\0", 6,
         "x.bin is Parquet, which is not read; convert it: python3 -c \"import pandas; "
         "pandas.read_parquet('x.bin').to_csv('table.csv', index=False)\""},
        {"my x.pq", "1", 1,
         "my x.pq is Parquet, which is not read; convert it: python3 -c \"import pandas; "
         "pandas.read_parquet('FILE').to_csv('table.csv', index=False)\""},
        {"x.xlsx", "PK\3\4aaaaaaaaaaaaaaaaaaaaaa\xb\0bbdocProps/ab", 41,
         "x.xlsx is an Excel table, which is not read; convert it: python3 -c \"import pandas; "
         "pandas.read_excel('x.xlsx').to_csv('table.csv', index=False)\""},
        {"x.rds", "X", 1,
         "x.rds is an object of R, which is not read; convert it: Rscript -e \"write.csv(readRDS('x.rds'), "
         "'table.csv', row.names = FALSE)\""},
        {"x.json", "[{\"a\": 1}]", 10,
         "x.json is JSON, which is not read; convert it: python3 -c \"import pandas; "
         "pandas.read_json('x.json').to_csv('table.csv', index=False)\""},
        {"x.json", "{\"a\": 1}\n{\"a\": 2}\n", 18, // an object a line
         "x.json is JSON, which is not read; convert it: python3 -c \"import pandas; "
         "pandas.read_json('x.json', lines=True).to_csv('table.csv', index=False)\""},
        {"x.mat", "MATLAB 5.0 MAT-file", 19,
         "x.mat is MATLAB, which is not read; convert it: python3 -c \"import scipy.io, numpy; "
         "numpy.save('table.npy', scipy.io.loadmat('x.mat')['NAME'])\" (NAME: of the matrix)"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(files[i].name, files[i].bytes, files[i].size);
        refuse_file(files[i].name, KM_ERROR_DATA, files[i].wanted);
    }
}
END_TEST

START_TEST(half_values) {
    static const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x3555, 0x8400};
    static const double values[] = {1, -2, 0x1p-24, 65504, 0x1.554p-2, -0x1p-14};
    write_npy("x.npy", 1, DICT("<f2", "False", "(3, 2)"), halves, sizeof halves);
    open_file("x.npy");
    expect_values(3, 2, values);
    static const uint16_t swapped[] = {0x003c, 0x00c0, 0x0100, 0xff7b, 0x5535, 0x0084};
    write_npy("x.npy", 1, DICT(">f2", "False", "(3, 2)"), swapped, sizeof swapped);
    open_file("x.npy");
    expect_values(3, 2, values);
    static const uint16_t missing[] = {0x3c00, 0x7e00, 0x4000, 0x3c00};
    write_npy("x.npy", 1, DICT("<f2", "False", "(2, 2)"), missing, sizeof missing);
    params.missing = KM_MISSING_DROP;
    open_file("x.npy");
    ck_assert_int_eq(km_data_points(data), 1);
}
END_TEST

START_TEST(packed_text_without_zlib) {
    write_packed("x.csv.gz", "1,2\n");
    refuse_file(
        "x.csv.gz", KM_ERROR_DATA,
        "x.csv.gz is packed by gzip, and this kmgen was built without zlib; unpack it with gunzip, or "
        "build kmgen with meson's option -Dzlib=enabled");
}
END_TEST

START_TEST(csv_columns) {
    write_text("x.csv", "id,x,y,kind\na1,1,2,red\nb2,3,4,blue\nc3,5,6,red\n");
    params.columns = "x,y";
    open_file("x.csv");
    expect_values(3, 2, six);
    ck_assert_str_eq(km_data_feature_name(data, 0), "x");
    ck_assert_ptr_nonnull(km_data_base(data, KM_FLOAT64));
    params.columns = "3,x";
    open_file("x.csv");
    expect_values(3, 2, (double[]){2, 1, 4, 3, 6, 5});
    ck_assert_str_eq(km_data_feature_name(data, 0), "y");
    params.columns = "2..3";
    open_file("x.csv");
    expect_values(3, 2, six);
    params.columns = "x,kind";
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv: row 2, column 4 (kind): \"red\" is no number; correct it, or keep the columns of numbers: "
        "--columns x");
    params.columns = "x,z";
    refuse_file("x.csv", KM_ERROR_USAGE, "--columns: x.csv has no column \"z\"; it has id, x, y, kind");
    params.columns = "width";
    refuse_file("x.csv", KM_ERROR_USAGE, "--columns: x.csv has no column \"width\"; it has id, x, y, kind");
    params.columns = "kinds";
    refuse_file("x.csv", KM_ERROR_USAGE,
                "--columns: x.csv has no column \"kinds\"; did you mean kind?; it has id, x, y, kind");
    params.columns = "x,2";
    refuse_file("x.csv", KM_ERROR_USAGE, "--columns: \"2\" names column 2 of x.csv a second time");
    params.columns = "x,5";
    refuse_file("x.csv", KM_ERROR_USAGE, "--columns: x.csv has the columns 1..4, got \"5\"");
    write_text("x.csv", "x,x,y\n1,2,3\n");
    params.columns = "x";
    refuse_file("x.csv", KM_ERROR_USAGE,
                "--columns: x.csv has two columns \"x\", 1 and 2; name them by number");
    write_text("x.csv", "Gr\xf6\xdf"
                        "e,y\n1,2\n3,4\n5,6\n"); // Latin-1
    params.columns = "Gr\xc3\xb6\xc3\x9f"
                     "e";
    refuse_file("x.csv", KM_ERROR_USAGE,
                "--columns: x.csv has no column \"Gr\xc3\xb6\xc3\x9f"
                "e\"; it has Gr??e, y; its names are no "
                "UTF-8: name columns by number, or make it UTF-8: iconv -f WINDOWS-1252 -t UTF-8 <FILE");
    params.columns = "1,2"; // the way out
    open_file("x.csv");
    expect_values(3, 2, six);
    params.columns = "z";
    refuse_file("x.csv", KM_ERROR_USAGE, "--columns: x.csv has no column \"z\"; it has Gr??e, y");
    // Without a header, numbers are enough: the words of a column left out make no header.
    write_text("x.csv", "1,2,red\n3,4,blue\n5,6,red\n");
    params.columns = "1,2";
    open_file("x.csv");
    expect_values(3, 2, six);
    ck_assert_ptr_null(km_data_feature_name(data, 0));
    // And cells of a first row that is no header are no names.
    write_text("x.csv", "2,1\n4,3\n6,5\n");
    params.columns = "2,1";
    open_file("x.csv");
    expect_values(3, 2, six);
}
END_TEST

// Names with commas, quotes, spaces and points stand in quotes, as in the text itself.
START_TEST(columns_in_quotes) {
    write_text("x.csv", "\"height, cm\",\"\"\"kg\"\"\",a..b,plain\n1,2,3,4\n5,6,7,8\n");
    params.columns = "plain, \"height, cm\" ";
    open_file("x.csv");
    expect_values(2, 2, (double[]){4, 1, 8, 5});
    ck_assert_str_eq(km_data_feature_name(data, 1), "height, cm");
    params.columns = "\"\"\"kg\"\"\"..a..b";
    open_file("x.csv");
    expect_values(2, 2, (double[]){2, 3, 6, 7});
    params.columns = "\"\"\"kg\"\"\" .. \"a..b\",plain";
    open_file("x.csv");
    expect_values(2, 3, (double[]){2, 3, 4, 6, 7, 8});
    params.columns = "..\"height, cm\",a..b";
    open_file("x.csv");
    expect_values(2, 2, (double[]){1, 3, 5, 7});
    params.columns = "\"a..b\"..";
    open_file("x.csv");
    expect_values(2, 2, (double[]){3, 4, 7, 8});
    params.columns = NULL;
    params.exclude = "\"height, cm\",4";
    open_file("x.csv");
    expect_values(2, 2, (double[]){2, 3, 6, 7});
    params.exclude = NULL;
    params.columns = "height, cm";
    refuse_file(
        "x.csv", KM_ERROR_USAGE,
        "--columns: x.csv has no column \"height\"; it has \"height, cm\", \"\"\"kg\"\"\", a..b, plain");
    params.columns = "\"1\""; // a name, no number
    refuse_file("x.csv", KM_ERROR_USAGE,
                "--columns: x.csv has no column \"1\"; it has \"height, cm\", \"\"\"kg\"\"\", a..b, plain");
    params.columns = "plain,\"height, cm";
    refuse_file("x.csv", KM_ERROR_USAGE, "--columns: a quote is opened and never closed: \"\"height, cm\"");
    params.columns = "\"plain\"x";
    refuse_file("x.csv", KM_ERROR_USAGE,
                "--columns: a comma must follow the quotes of a name, got \"\"plain\"x\"");
}
END_TEST

static const struct {
    const char *text, *message;
} bad_csv[] = {
    {"x,y\n1,2\n3\n", "x.csv: row 3 has 1 cells, but row 1 has 2; every row needs the same"},
    {"1,2\n3,4,5\n", "x.csv: row 2 has 3 cells, but row 1 has 2; every row needs the same"},
    {"1,2\n\n\n3,4,5\n", "x.csv: row 4 has 3 cells, but row 1 has 2; every row needs the same"},
    {"x,y\n\"1\n\n\",2\n3,4,5\n", "x.csv: row 2, column 1 (x): \"1  \" is no number; correct it, or keep the "
                                  "columns of numbers: --columns y"},
    {"name,x\n\"a\nb\",2\n3,four\n", "x.csv: row 2, column 1 (name): \"a b\" is no number; correct it; "
                                     "no column holds numbers alone"},
    {"x,y,z\n1,2,3\n4,five,6\n",
     "x.csv: row 3, column 2 (y): \"five\" is no number; correct it, or give --na-values \"five\" where it "
     "means that a value is missing, or leave the column out: --exclude y"},
    {"x,y,z\n1,2,3\n4,,6\n", "x.csv: row 3, column 2 (y): the value is missing (missing: y 1); drop such "
                             "rows by --missing drop, or fill them in by --missing mean or median"},
    {"1,2,3\n4,,6\n", "x.csv: row 2, column 2: the value is missing (missing: column 2 1); drop such rows by "
                      "--missing drop, or fill them in by --missing mean or median"},
    {"1,,3\n4,5,6\n", "x.csv: row 1, column 2: the value is missing (missing: column 2 1); drop such rows by "
                      "--missing drop, or fill them in by --missing mean or median"},
    {"x,y\n1,2\n3,\n", "x.csv: row 3, column 2 (y): the value is missing (missing: y 1); drop such rows by "
                       "--missing drop, or fill them in by --missing mean or median"},
    {"id,x,y,kind\na1,1,2,red\n", "x.csv: row 2, column 1 (id): \"a1\" is no number; correct it, or keep the "
                                  "columns of numbers: --columns x,y"},
    {"5.1,3.5,1.4,0.2,setosa\n4.9,3.0,1.4,0.2,setosa\n",
     "x.csv: row 1, column 5: \"setosa\" is no number; correct it, or keep the columns of numbers: --columns "
     "1..4"},
    {"\"a\nb\",y\n1,2\n2,x\n",
     "x.csv: row 4, column 2 (y): \"x\" is no number; correct it, or give --na-values \"x\" where it means "
     "that a value is missing, or leave the column out: --exclude y"},
    {"\"a\nb\",y\n1,2\nx,2\n",
     "x.csv: row 4, column 1 (a b): \"x\" is no number; correct it, or give --na-values \"x\" where it means "
     "that a value is missing, or leave the column out: --exclude 1"},
    {"\xef\xbb\xbf\"n m\";a;b;note\nx;1;2;u\n", "x.csv: row 2, column 1 (n m): \"x\" is no number; correct "
                                                "it, or keep the columns of numbers: --columns a,b"},
    {"the id,the x,y\na,1,2\n", "x.csv: row 2, column 1 (the id): \"a\" is no number; correct it, or keep "
                                "the columns of numbers: --columns 2,3"},
    {"x,y\n1,NA\n", "x.csv: row 2, column 2 (y): the value is missing (missing: y 1); drop such rows by "
                    "--missing drop, or fill them in by --missing mean or median"},
    {"x\ty\n1.5\t2,5\n", "x.csv: row 2, column 2 (y): \"2,5\" is no number; write decimals with a point, or "
                         "give --decimal , (a comma between thousands must go)"},
    {"1 2\n3 4\n", "x.csv: row 2, column 1 (1 2): \"3 4\" is no number; cells must be separated by commas, "
                   "semicolons or tabs"},
    {"x\n1\n\n3\n", "x.csv: row 3, column 1 (x): the value is missing (missing: x 1); drop such rows by "
                    "--missing drop, or fill them in by --missing mean or median"},
    {"x,y\n1,1e999\n", "x.csv: row 2, column 2 (y): \"1e999\" is too large for float64"},
    {"x,y\n1,\"2\n3,4\n", "x.csv: row 2, column 2 (y): a quote is opened and never closed"},
    {"x,y\n1,2\"\n3,4\n", "x.csv: row 2, column 2 (y): a quote is out of place; quote a whole cell, and "
                          "write a quote inside it twice"},
    {"x,y\n\"1\"2,3\n", "x.csv: row 2, column 1 (x): a quote is out of place; quote a whole cell, and write "
                        "a quote inside it twice"},
    {"x,y\n", "x.csv has a header and no rows"},
    {"x,y", "x.csv has a header and no rows"},
    {"\n\n", "x.csv has no rows"},
    {"\xff\xfe"
     "1,2\n",
     "x.csv is UTF-16 text; save it as UTF-8: iconv -f UTF-16 -t UTF-8 <FILE"},
};

START_TEST(csv_refused) {
    write_text("x.csv", bad_csv[_i].text);
    refuse_file("x.csv", KM_ERROR_DATA, bad_csv[_i].message);
    if (!km_built_with(KM_PART_ZLIB)) return;
    write_packed("p.gz", bad_csv[_i].text); // packed text is refused in the same words
    char message[1024];
    const char *rest = strstr(bad_csv[_i].message, "x.csv") + 5;
    snprintf(message, sizeof message, "p.gz%s", rest);
    refuse_file("p.gz", KM_ERROR_DATA, message);
}
END_TEST

START_TEST(csv_of_another_kind) {
    write_file("x.csv", "1,2\n\0\0", 6);
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv is no text: it has zero bytes; name its format: npy, npz, f32 or f64");
    write_file("x.bin", "1,2\n\0\0", 6);
    char sentence[256];
    refuse_file("x.bin", KM_ERROR_DATA,
                with_formats(sentence, "x.bin: cannot tell what this holds; name the format: ", ""));
    params.type = KM_FLOAT32;
    write_text("x.csv", "1,1e300\n");
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv: row 1, column 2: \"1e300\" is too large for float32; use float64");
}
END_TEST

START_TEST(csv_of_many_columns) {
    enum { CELLS = 1 << 20 };
    char *wide = malloc(2 * CELLS + 4);
    memset(wide, ',', CELLS);
    strcpy(wide + CELLS, "\n");
    write_text("x.csv", wide);
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv: row 1 has more than the 1048576 cells that are read; are rows and columns exchanged?");
    for (int f = 0; f < 70000; f++) memcpy(wide + 2 * f, "7,", 2);
    strcpy(wide + 2 * 70000 - 1, "\n");
    write_text("x.csv", wide);
    free(wide);
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv has 70000 columns to cluster, and at most 65536 are taken; choose some, as in --columns "
        "1..65536, or write what is mostly zeros as a sparse table");
    params.columns = "1..65536";
    open_file("x.csv");
    ck_assert_int_eq(km_data_features(data), KM_FEATURES_DENSE_MAX);
    params.columns = "69999,70000";
    open_file("x.csv");
    expect_values(1, 2, (double[]){7, 7});
}
END_TEST

START_TEST(advice_that_is_long_names_numbers) {
    FILE *stream = fopen("x.csv", "w");
    for (int f = 0; f < 100; f++) fprintf(stream, "%sa_column_%d", f ? "," : "", f);
    fputs("\n", stream);
    for (int f = 0; f < 100; f++)
        fprintf(stream, "%s%s", f ? "," : "", f == 0 || f == 50 || f == 99 ? "word" : "1");
    fputs("\n", stream);
    fclose(stream);
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv: row 2, column 1 (a_column_0): \"word\" is no number; correct it, or keep the columns "
                "of numbers: "
                "--columns 2..50,52..99");
    params.columns = "2..50,52..99";
    open_file("x.csv");
    ck_assert_int_eq(km_data_features(data), 97);
}
END_TEST

// Every refusal that advises --columns must be right: what it says is tried.
START_TEST(advice_works) {
    for (size_t i = 0; i < sizeof bad_csv / sizeof *bad_csv; i++) {
        const char *advice = strstr(bad_csv[i].message, "--columns ");
        if (!advice || strstr(bad_csv[i].text, "\"1\n\n\"")) continue;
        write_text("x.csv", bad_csv[i].text);
        params.columns = advice + strlen("--columns ");
        open_file("x.csv");
        ck_assert_int_ge(km_data_points(data), 1);
    }
}
END_TEST

// Longer than the head and than a chunk, so that rows and quotes cross every border; lines are kept.
START_TEST(long_text) {
    enum { N = 200000 };
    FILE *stream = fopen("x.csv", "w");
    fputs("x,name,y\n", stream);
    for (int i = 0; i < N; i++) fprintf(stream, "%d,\"row\n%d\",%d.5%s", i, i, -i, i % 1000 ? "\n" : "\n\n");
    fclose(stream);
    params.columns = "x,y";
    open_file("x.csv");
    ck_assert_int_eq(km_data_points(data), N);
    const double *values = km_data_base(data, KM_FLOAT64);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += values[2 * i] != i || (i > 0 && values[2 * i + 1] != -(i + 0.5));
    ck_assert_int_eq(wrong, 0);
    stream = fopen("x.csv", "a");
    fputs("nan,z,1\n1,z,oops\n", stream);
    fclose(stream);
    char message[256];
    int line = 1 + 2 * N + N / 1000 + 1;
    snprintf(message, sizeof message,
             "x.csv: row %d, column 3 (y): \"oops\" is no number; correct it, or give --na-values \"oops\" "
             "where it means that a value is missing, or leave the column out: --exclude y",
             line + 1);
    refuse_file("x.csv", KM_ERROR_DATA, message);
    params.columns = "x";
    params.missing = KM_MISSING_KEEP;
    open_file("x.csv");
    ck_assert_int_eq(km_data_refuse_value(data, N, 0, &err), KM_ERROR_DATA);
    snprintf(message, sizeof message,
             "x.csv: row %d, column 1 (x): the value is missing (NaN); drop such rows by --missing drop, or "
             "fill them in by --missing mean or median",
             line);
    ck_assert_str_eq(err.text, message);
}
END_TEST

// Standard input ---------------------------------------------------------------------------------------------

static void from_pipe(const char *path) {
    char command[256];
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(command, sizeof command, "cat %s >&%d", path, ends[1]);
    pid_t child = fork();
    if (child == 0) _exit(system(command) != 0);
    close(ends[1]);
    ck_assert_int_eq(dup2(ends[0], 0), 0);
    close(ends[0]);
}

START_TEST(standard_input) {
    static const float singles[] = {1, 2, 3, 4, 5, 6};
    write_text("x.csv", "1,2\n3,4\n5,6\n");
    write_packed("x.csv.gz", "1,2\n3,4\n5,6\n");
    write_file("x.f32", singles, sizeof singles);
    ck_assert_int_eq(km_npy_write("x.npy", six, 3, 2, "<f8", &err), KM_OK);
    static const char *const files[] = {"x.csv", "x.csv.gz", "x.npy", "x.f32"};
    for (int i = 0; i < 4; i++)
        for (int redirected = 0; redirected < 2; redirected++) {
            if (i == 1 && !km_built_with(KM_PART_ZLIB)) continue;
            params.format = i == 3 ? "f32" : NULL;
            params.features = 2;
            if (redirected)
                ck_assert_ptr_nonnull(freopen(files[i], "rb", stdin));
            else
                from_pipe(files[i]);
            open_file("-");
            expect_values(3, 2, six);
            ck_assert_str_eq(km_data_name(data), "standard input");
        }
    write_text("x.csv", "1,2\n3,x\n");
    from_pipe("x.csv");
    params.format = NULL;
    refuse_file(
        "-", KM_ERROR_DATA,
        "standard input: row 2, column 2: \"x\" is no number; correct it, or keep the columns of numbers: "
        "--columns 1");
    from_pipe("/dev/null");
    refuse_file("-", KM_ERROR_DATA, "standard input is empty");
    params.weights = "-";
    refuse_file("-", KM_ERROR_USAGE, "points and weights cannot both come from standard input");
}
END_TEST

START_TEST(a_large_npy_through_a_pipe) {
    enum { N = 300000 };
    double *values = malloc(N * sizeof *values);
    for (int i = 0; i < N; i++) values[i] = i;
    ck_assert_int_eq(km_npy_write("x.npy", values, N / 3, 3, "<f8", &err), KM_OK);
    from_pipe("x.npy");
    open_file("-");
    ck_assert_int_eq(km_data_points(data), N / 3);
    const double *base = km_data_base(data, KM_FLOAT64);
    ck_assert_ptr_nonnull(base);
    ck_assert_int_eq(memcmp(base, values, N * sizeof *values), 0);
    free(values);
}
END_TEST

// Weights and dropped rows -------------------------------------------------------------------------------------

START_TEST(weights) {
    write_text("x.csv", "x,y\n1,2\n3,4\n5,6\n");
    write_text("w.csv", "weight\n1\n0\n2.5\n");
    params.weights = "w.csv";
    open_file("x.csv");
    const double *got = km_data_weights(data);
    ck_assert_ptr_nonnull(got);
    ck_assert(got[0] == 1 && got[1] == 0 && got[2] == 2.5);
    static const float singles[] = {3, 2, 1};
    ck_assert_int_eq(km_npy_write("w.npy", singles, 3, 0, "<f4", &err), KM_OK);
    params.weights = "w.npy";
    open_file("x.csv");
    ck_assert(km_data_weights(data)[0] == 3);
    write_file("w.f64", (double[]){4, 5, 6}, 24);
    params.weights = "w.f64";
    open_file("x.csv");
    ck_assert(km_data_weights(data)[2] == 6);
    write_text("w.csv", "1\n1.0\n1\n");
    params.weights = "w.csv";
    open_file("x.csv");
    ck_assert_ptr_null(km_data_weights(data)); // all 1 is the same as none
}
END_TEST

static const struct {
    const char *text, *message;
    km_status status;
} bad_weights[] = {
    {"w\n1\n-2\n3\n", "w.csv: row 3: a weight must be 0 or more, got -2", KM_ERROR_DATA},
    {"1\nnan\n3\n", "w.csv: row 2: a weight must be 0 or more, got nan", KM_ERROR_DATA},
    {"1\n2\ninf\n", "w.csv: row 3: a weight must be 0 or more, got inf", KM_ERROR_DATA},
    {"0\n0\n0\n", "w.csv: all weights are 0; at least one must be more", KM_ERROR_DATA},
    {"1\n2\n", "w.csv has 2 weights, but x.csv has 3 rows", KM_ERROR_DATA},
    {"1\n2\n3\n4\n", "w.csv has 4 weights, but x.csv has 3 rows", KM_ERROR_DATA},
    {"1,2\n2,3\n3,4\n", "w.csv has 2 columns; weights are one column, one weight a row", KM_ERROR_DATA},
    {"1\n2\nthree\n",
     "w.csv: row 3, column 1: \"three\" is no number; correct it, or give --na-values \"three\" where it "
     "means that a value is missing, or leave the column out: --exclude 1",
     KM_ERROR_DATA},
};

START_TEST(weights_refused) {
    write_text("x.csv", "1,2\n3,4\n5,6\n");
    write_text("w.csv", bad_weights[_i].text);
    params.weights = "w.csv";
    refuse_file("x.csv", bad_weights[_i].status, bad_weights[_i].message);
    params.weights = "none.csv";
    refuse_file("x.csv", KM_ERROR_IO, "cannot read none.csv: No such file or directory");
}
END_TEST

START_TEST(dropped_rows) {
    write_text("x.csv", "x,y\nnan,1\n1,2\ninf,0\n\n3,4\n5,6\n7,NaN\n");
    write_text("w.csv", "9\n1\n9\n2\n3\n9\n");
    params.missing = KM_MISSING_KEEP;
    open_file("x.csv");
    ck_assert_int_eq(km_data_points(data), 6);
    ck_assert_int_eq(km_data_refuse_value(data, 2, -1, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text,
                     "x.csv: row 4, column 1 (x): the value is infinite; correct it, or leave its row out");
    err.text[0] = 0;
    write_text("x.csv", "x,y\nnan,1\n1,2\n,0\n\n3,4\n5,6\n7,NaN\n");
    params.missing = KM_MISSING_DROP;
    params.weights = "w.csv";
    open_file("x.csv");
    expect_values(3, 2, six);
    ck_assert_int_eq(km_data_rows(data), 6);
    ck_assert_int_eq(km_data_row_of(data, 0), 1);
    ck_assert_int_eq(km_data_row_of(data, 1), 3);
    ck_assert_int_eq(km_data_row_of(data, 2), 4);
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT64));
    const double *got = km_data_weights(data);
    ck_assert(got[0] == 1 && got[1] == 2 && got[2] == 3);
    write_text("w.csv", "9\n0\n9\n0\n0\n9\n");
    refuse_file("x.csv", KM_ERROR_DATA,
                "w.csv: all weights of the rows that are left are 0; at least one must be more");
    params.weights = NULL;
    write_text("x.csv", "nan,1\n1,NA\n");
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv: every row has a missing value in it, so none is left; fill them in by --missing mean or "
        "median, or leave columns out by --exclude");
    ck_assert_int_eq(km_npy_write("x.npy", six, 2, 3, "<f8", &err), KM_OK);
    open_file("x.npy"); // nothing to drop: still mapped
    ck_assert_ptr_nonnull(km_data_base(data, KM_FLOAT64));
    // A NaN in a column that is left out drops nothing.
    write_text("x.csv", "1,nan,2\n3,1,4\n5,1,6\n");
    params.columns = "1,3";
    open_file("x.csv");
    expect_values(3, 2, six);
}
END_TEST

// Columns and their kinds --------------------------------------------------------------------------------------

static char said[4096]; // what the log got

static void remember(void *user, km_log_level level, const char *text) {
    (void)user;
    (void)level;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", text);
}

static const km_log remembering = {remember, NULL};

// 40 customers: an id, a name, a city of two, a date, yes or no, and two numbers of which some are missing.
static void write_customers(const char *path) {
    FILE *stream = fopen(path, "w");
    fputs("customer_id,name,city,joined,active,age,spend\n", stream);
    for (int i = 0; i < 40; i++)
        fprintf(stream, "%d,name %d,%s,2024-02-%02d,%s,%s,%d.5\n", (i * 17 + 5) % 41 + 1000, i,
                i % 2 ? "Lyon" : "Oslo", i % 28 + 1, i % 3 ? "yes" : "No", i % 10 ? "30" : "NA", i);
    fclose(stream);
}

START_TEST(numbers_are_chosen) {
    write_customers("x.csv");
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv: row 2, column 2 (name): \"name 0\" is no number; correct it, or keep the columns of "
                "numbers: --columns age,spend");
    params.numbers_only = 1;
    params.missing = KM_MISSING_DROP;
    params.log = &remembering;
    said[0] = 0;
    open_file("x.csv");
    ck_assert_str_eq(
        said, "x.csv: features are age, spend; left out: customer_id (id), name (text), city (category), "
              "joined (date), active (yes/no)\n"
              "x.csv: missing values leave their rows out, cells of each column: age 4\n");
    ck_assert_int_eq(km_data_features(data), 2);
    ck_assert_int_eq(km_data_points(data), 36);
    ck_assert_str_eq(km_data_feature_name(data, 0), "age");
    params.exclude = "age";
    open_file("x.csv");
    ck_assert_int_eq(km_data_features(data), 1);
    ck_assert_int_eq(km_data_points(data), 40);
    params.exclude = "age,spend";
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv has no column of numbers that is no id besides those that options take away; take "
                "yes/no as 1 and 0, "
                "dates as days: --columns joined,active; or use an id as a number: --columns customer_id "
                "(kmgen data x.csv "
                "shows what the columns hold)");
    params.exclude = "age,spend,joined,active";
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv has no column of numbers that is no id besides those that options take away; make a "
                "feature of each "
                "category: --one-hot city; or use an id as a number: --columns customer_id (kmgen data x.csv "
                "shows what the "
                "columns hold)");
    params.one_hot = "city";
    open_file("x.csv");
    ck_assert_int_eq(km_data_features(data), 2);
    params.one_hot = NULL;
    params.exclude = "age,spend,joined,active,city,customer_id";
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv has no column of numbers besides those that options take away; add one (kmgen data "
                "x.csv shows "
                "what the columns hold)");
    params.exclude = NULL;
    params.columns = "customer_id"; // what is named is taken
    open_file("x.csv");
    ck_assert_int_eq(km_data_features(data), 1);
    params.columns = "active,joined";
    open_file("x.csv");
    double row[2];
    ck_assert_int_eq(km_data_read(row, data, 1, 1, KM_FLOAT64, &err), KM_OK);
    ck_assert(row[0] == 1 && row[1] == 19755); // 2024-02-02
    ck_assert_int_eq(km_data_preparation(data)[0].kind, KM_COLUMN_YES_NO);
    ck_assert_str_eq(km_data_preparation(data)[1].column, "joined");
    params.columns = "spend,city";
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv: row 2, column 3 (city): \"Oslo\" is no number; correct it, or make a feature of each of its "
        "categories by --one-hot city, or keep the columns of numbers: --columns spend");
    params.one_hot = "city";
    open_file("x.csv");
    ck_assert_int_eq(km_data_features(data), 3);
    params.columns = params.one_hot = NULL;
    params.weights_column = "age,spend";
    refuse_file("x.csv", KM_ERROR_USAGE, "--weights-column is one column, and age,spend are several");
}
END_TEST

// Whole numbers that rise from row to row are ids, where there is another column.
START_TEST(ids_by_their_values) {
    FILE *stream = fopen("x.csv", "w"), *falling = fopen("y.csv", "w"), *only = fopen("z.csv", "w");
    for (int i = 0; i < 3000; i++) {
        fprintf(stream, "%d,%d\n", 100 + 3 * i, i % 7);
        fprintf(falling, "%d,%d\n", i == 2990 ? 5 : 100 + 3 * i, i % 7);
        fprintf(only, "%d\n", i);
    }
    fclose(stream);
    fclose(falling);
    fclose(only);
    params.numbers_only = 1;
    params.log = &remembering;
    said[0] = 0;
    open_file("x.csv");
    ck_assert_int_eq(km_data_features(data), 1);
    ck_assert_str_eq(said, "x.csv: features are column 2; left out: column 1 (id)\n");
    said[0] = 0;
    open_file("y.csv"); // no id, but it looks like one
    ck_assert_int_eq(km_data_features(data), 2);
    ck_assert_str_eq(
        said, "y.csv: column 1 holds whole numbers that differ in nearly every row; where it is an id, "
              "leave it out: --exclude 1\n");
    open_file("z.csv");
    ck_assert_int_eq(km_data_features(data), 1);
    params.numbers_only = 0;
    open_file("x.csv");
    ck_assert_int_eq(km_data_features(data), 2);
}
END_TEST

// Whole numbers that count up are names where the rows do not go on like them.
START_TEST(names_that_are_numbers) {
    static const struct {
        const char *text;
        int64_t rows;
        int is_said;
    } files[] = {
        {"0,1\n0.5,1.0\n2.0,3.5\n1e-05,4.0\n", 3, 0},
        {"0,1,2\n0.5,1,a\n2.0,3,b\n4.0,4,a\n", 3, 0},
        {"2019,2020,2021\n0.5,1,1\n2.0,3,1\n4.0,4,2\n", 3, 0},
        {",0,1\n0,5,1\n1,2,3\n2,4,4\n", 3, 0}, // an index before them
        {"0;1;2\n0,5;1,0;1,5\n2,0;3,5;1,5\n,5;4,0;2,5\n", 3, 0},
        {"0,1\n0.5,1\n2.0,3\n4.0,4\n", 4, 0},
        {"0,0\n0.5,1.0\n2.0,3.5\n1e-05,4.0\n", 4, 0}, // where a path begins
        {"0,2\n0.5,1.0\n2.0,3.5\n1e-05,4.0\n", 4, 0},
        {"0,1,2\n3,4,5\n6,7,8\n9,10,11\n", 4, 1},
        {"1,2,3\n3,4,5\n6,7,8\n9,10,11\n", 4, 1},
        {"5,6,7\n3,4,5\n6,7,8\n9,10,11\n", 4, 0},
        {"0\n0.5\n1.5\n2.5\n", 4, 0},
    };
    static const char warning[] = "counts as a row; where it names the columns, give --header yes";
    params.numbers_only = 1;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_text("x.csv", files[i].text);
        params.log = &remembering;
        said[0] = 0;
        open_file("x.csv");
        ck_assert_msg(km_data_points(data) == files[i].rows, "%s", files[i].text);
        ck_assert_msg((km_data_feature_name(data, 0) != NULL) == (files[i].rows == 3), "%s", files[i].text);
        ck_assert_msg((strstr(said, warning) != NULL) == files[i].is_said, "%s%s", files[i].text, said);
        params.header = files[i].rows == 3 ? KM_HEADER_YES : KM_HEADER_NO; // the way out
        said[0] = 0;
        open_file("x.csv");
        ck_assert_int_eq(km_data_points(data), files[i].rows);
        ck_assert_ptr_null(strstr(said, warning));
        params.header = KM_HEADER_AUTO;
    }
}
END_TEST

// Numbers with a mark in every cell are text to a fit, which says so.
START_TEST(marked_numbers_are_left_out_aloud) {
    static const struct {
        const char *cell, *advice;
    } rows[] = {
        {"$12.50", "write the number without its currency"},
        {"12.50 \xe2\x82\xac", "write the number without its currency"},
        {"12%", "write the number without %"},
        {"1,234.5", "write numbers without a mark between thousands"},
        {"1\xc2\xa0"
         "234",
         "write numbers without a mark between thousands"},
        {"1\xe2\x80\xaf"
         "234.5",
         "write numbers without a mark between thousands"},
        {"1,234", "write decimals with a point, or give --decimal , (a comma between thousands must go)"},
        {"192.168.100.200", NULL},
        {"Oslo", NULL}};
    params.numbers_only = 1;
    params.log = &remembering;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256] = "";
        FILE *stream = fopen("x.csv", "w");
        fputs("price,n\n", stream);
        for (int row = 0; row < 20; row++) fprintf(stream, "\"%s\",%d\n", rows[i].cell, row * row % 7);
        fclose(stream);
        said[0] = 0;
        open_file("x.csv");
        ck_assert_int_eq(km_data_features(data), 1);
        if (rows[i].advice)
            snprintf(line, sizeof line,
                     "x.csv: column 1 (price) is left out, as \"%s\" is no number; %s, where it is one\n",
                     rows[i].cell, rows[i].advice);
        ck_assert_str_eq(strchr(said, '\n') + 1, line);
    }
}
END_TEST

// Lists of numbers are no numbers with a decimal comma, and a table of such numbers alone names one.
START_TEST(marks_of_all_columns) {
    params.numbers_only = 1;
    params.log = &remembering;
    write_text("x.csv", "set,n\n\"1,2\",1\n\"1,2,3\",2\n\"4\",7\n\"4,5\",2\n\"1,2\",2\n\"1,2,7\",2\n");
    said[0] = 0;
    open_file("x.csv");
    ck_assert_str_eq(said, "x.csv: features are n; left out: set (text)\n");
    write_text("x.csv", "a,b\n\"1,5\",2 %\n\"2,5\",3 %\n");
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv has no column of numbers: row 2, column 1 (a) holds \"1,5\"; write decimals with a point, "
        "or give --decimal , (a comma between thousands must go)");
    params.decimal = ','; // the way out
    open_file("x.csv");
    expect_values(2, 1, (double[]){1.5, 2.5});
    params.decimal = 0;
    static const struct {
        const char *text;
        int is_said;
    } points[] = {{"a;b\n1.200;1.5\n950;2\n3.100;3\n", 1},
                  {"a;b\n1.200;1.5\n0.950;2\n3.1;3\n", 0},
                  {"a;b\n1.200;1.5\n2020;2\n3.100;3\n", 0},
                  {"a;b\n1.200;1.5\n2.200;2\n3.100;3\n", 0},
                  {"a,b\n1.200,1.5\n950,2\n3.100,3\n", 0}};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        write_text("x.csv", points[i].text);
        said[0] = 0;
        open_file("x.csv");
        ck_assert_msg((strstr(said, "column 1 (a) has whole numbers below 1000, and points before") !=
                       NULL) == points[i].is_said,
                      "%s%s", points[i].text, said);
    }
}
END_TEST

// 300 rows of which every 30th holds `mark`, the others 10 to 15.
static void write_marked(const char *mark) {
    FILE *stream = fopen("x.csv", "w");
    fputs("a,b\n", stream);
    for (int i = 0; i < 300; i++) {
        if (i % 30)
            fprintf(stream, "%d.%d,1.5\n", 10 + i % 5, i % 7);
        else
            fprintf(stream, "%s,%d\n", mark, i % 4);
    }
    fclose(stream);
}

// A number that is far from all others, and frequent, may stand for a missing value; 0 and what is near do not.
START_TEST(sentinels) {
    static const char *const far[] = {"-999", "9999", "-99.9", "1e30", "-32768"};
    static const char *const none[] = {"0", "15", "9", "20", "-1", "1e1"};
    params.numbers_only = 1;
    params.log = &remembering;
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        char line[256], value[32];
        snprintf(value, sizeof value, "%g", atof(far[i]));
        write_marked(far[i]);
        said[0] = 0;
        open_file("x.csv");
        snprintf(line, sizeof line,
                 "x.csv: column 1 (a) is %s in 10 rows and 10 to 14.6 in all others; where %s means that a "
                 "value is "
                 "missing, give --na-values %s\n",
                 value, value, value);
        ck_assert_str_eq(said, line);
        params.missing = KM_MISSING_DROP; // what it says is tried
        params.na_values = value;
        open_file("x.csv");
        ck_assert_int_eq(km_data_points(data), 290);
        params.na_values = NULL;
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        write_marked(none[i]);
        said[0] = 0;
        open_file("x.csv");
        ck_assert_str_eq(said, "");
    }
    write_marked("-999");
    params.na_values = "unknown,-99";
    said[0] = 0;
    open_file("x.csv");
    ck_assert_ptr_nonnull(strstr(said, "give --na-values unknown,-99,-999\n"));
}
END_TEST

START_TEST(missing_values) {
    write_text("x.csv", "x,y\n1,#N/A\n<na>,2\n3,4\n"); // Excel's and pandas' words
    params.missing = KM_MISSING_DROP;
    open_file("x.csv");
    ck_assert_int_eq(km_data_points(data), 1);
    params.missing = KM_MISSING_REFUSE;
    params.columns = "x,y";
    write_text("x.csv", "x,y,z\n1,10,\nNA,n/a,\n3,?,\n5,40,\n7,-,\n9,unknown,\n2,-99,\n");
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv: row 7, column 2 (y): \"unknown\" is no number; correct it, or give --na-values \"unknown\" "
        "where it means that a value is missing, or leave the column out: --exclude y");
    params.na_values = "unknown,-99";
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv: row 3, column 1 (x): the value is missing (missing: x 1, y 5); drop such rows by --missing "
        "drop, or fill them in by --missing mean or median");
    params.missing = KM_MISSING_DROP;
    open_file("x.csv");
    expect_values(2, 2, (double[]){1, 10, 5, 40});
    params.missing = KM_MISSING_MEAN;
    open_file("x.csv");
    expect_values(7, 2, (double[]){1, 10, 4.5, 25, 3, 25, 5, 40, 7, 25, 9, 25, 2, 25});
    ck_assert(km_data_preparation(data)[0].fill == 4.5 && km_data_preparation(data)[1].fill == 25);
    params.missing = KM_MISSING_MEDIAN;
    open_file("x.csv");
    expect_values(7, 2, (double[]){1, 10, 4, 25, 3, 25, 5, 40, 7, 25, 9, 25, 2, 25});
    params.columns = "z,x";
    refuse_file(
        "x.csv", KM_ERROR_DATA,
        "x.csv: column 3 (z) is missing in every row, so nothing can fill it in; leave it out: --exclude 3");
    double cells[] = {1, NAN, 3, 4, 5, 7};
    ck_assert_int_eq(km_npy_write("x.npy", cells, 3, 2, "<f8", &err), KM_OK);
    params.columns = params.na_values = NULL;
    open_file("x.npy");
    expect_values(3, 2, (double[]){1, 5.5, 3, 4, 5, 7});
    params.missing = KM_MISSING_DROP;
    open_file("x.npy");
    expect_values(2, 2, (double[]){3, 4, 5, 7});
}
END_TEST

// Files ------------------------------------------------------------------------------------------------------

static void open_files(const char *const *paths, int64_t count) {
    km_data_destroy(&data);
    ck_assert_msg(km_data_open_files(&data, paths, count, &params, &err) == KM_OK, "%s", err.text);
}

static void refuse_files(const char *const *paths, const char *text) {
    km_data_destroy(&data);
    expect_error(km_data_open_files(&data, paths, 2, &params, &err), KM_ERROR_DATA, text);
}

// Rows in the order of the files; columns of text by their names, whatever order they have.
START_TEST(several_files) {
    write_text("a.csv", "x,y,w\n1,2,1\n3,4,2\n");
    write_text("b.csv", "w,y,x,z\n3,6,5,0\n4,8,,0\n");
    write_text("c.csv", "y,w,x\n10,5,9\n");
    const char *const texts[] = {"a.csv", "b.csv", "c.csv"};
    params.columns = "x,y";
    params.weights_column = "w";
    params.missing = KM_MISSING_MEAN;
    open_files(texts, 3);
    ck_assert_str_eq(km_data_name(data), "a.csv and 2 more");
    ck_assert_int_eq(km_data_points(data), 5);
    const double wanted[] = {1, 2, 3, 4, 5, 6, 4.5, 8, 9, 10};
    double values[10], picked[3];
    for (int64_t first = 0; first < 5; first++)
        for (int64_t count = 0; first + count <= 5; count++) {
            ck_assert_int_eq(km_data_read(values, data, first, count, KM_FLOAT64, &err), KM_OK);
            ck_assert_mem_eq(values, wanted + 2 * first, (size_t)count * 2 * sizeof *values);
        }
    for (int i = 0; i < 5; i++) ck_assert_double_eq(km_data_weights(data)[i], i + 1);
    km_data *view = NULL, *range = NULL;
    const char *const names[] = {"y"};
    ck_assert_int_eq(km_data_select(&view, data, names, 1, &err), KM_OK);
    ck_assert_int_eq(km_data_range(&range, view, 1, 3, &err), KM_OK);
    ck_assert_int_eq(km_data_read(picked, range, 0, 3, KM_FLOAT64, &err), KM_OK);
    for (int i = 0; i < 3; i++) ck_assert_double_eq(picked[i], 4 + 2 * i);
    km_data_destroy(&range);
    km_data_destroy(&view);
    params.missing = KM_MISSING_DROP;
    open_files(texts, 3);
    ck_assert_int_eq(km_data_points(data), 4);
    ck_assert_int_eq(km_data_row_of(data, 3), 4);
    params.missing = KM_MISSING_REFUSE;
    refuse_files(texts,
                 "a.csv and 1 more: b.csv, row 3, column 3 (x): the value is missing (missing: x 1); drop "
                 "such rows by --missing drop, or fill them in by --missing mean or median");
}
END_TEST

START_TEST(several_files_refused) {
    const float values[] = {1, 2, 3, 4, 5, 6};
    write_npy("a.npy", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", values, 24);
    write_npy("t.npy", 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", values, 24);
    write_npy("b.npy", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}", values, 24);
    write_npy("c.npy", 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3)}", values, 24);
    const char *const orders[] = {"a.npy", "t.npy"};
    float read[12];
    const float wanted[] = {1, 2, 3, 4, 5, 6, 1, 3, 5, 2, 4, 6};
    open_files(orders, 2);
    ck_assert_int_eq(km_data_read(read, data, 0, 4, KM_FLOAT32, &err), KM_OK);
    ck_assert_mem_eq(read, wanted, sizeof wanted);
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT32));
    const char *const columns[] = {"a.npy", "b.npy"}, *const types[] = {"a.npy", "c.npy"},
                      *const sparse[] = {"a.npy", "s.svm"}, *const header[] = {"h.csv", "n.csv"};
    refuse_files(columns,
                 "b.npy has 2 columns that are used, a.npy has 3; files that are clustered together have "
                 "the same (--columns names them)");
    refuse_files(types,
                 "c.npy holds values of type i4, a.npy of type f4; files that are clustered together have "
                 "the same");
    write_text("s.svm", "1 1:2 3:4\n0 2:1\n");
    refuse_files(sparse, "s.svm is sparse; several files are clustered together where they are dense");
    write_text("h.csv", "x,y\n1,2\n3,4\n");
    write_text("n.csv", "1,2\n3,4\n");
    refuse_files(header, "h.csv has a header, n.csv has none; --header says what the first line is");
    const char *const pipe[] = {"a.npy", "-"};
    km_data_destroy(&data);
    expect_error(km_data_open_files(&data, pipe, 2, &params, &err), KM_ERROR_USAGE,
                 "standard input cannot be one of several files");
    expect_error(km_data_open_files(&data, pipe, 0, &params, &err), KM_ERROR_USAGE,
                 "no file of points is given");
}
END_TEST

START_TEST(columns_by_ranges) {
    write_text("x.csv", "a,b,c,d..e,f\n1,2,3,4,5\n");
    static const struct {
        const char *columns;
        int count;
        double first;
    } good[] = {{"b..d..e", 0, 0}, {"a..c", 3, 1},   {"2..", 4, 2},  {"..b", 2, 1},
                {"c..", 3, 3},     {"b .. c", 2, 2}, {"d..e", 1, 4}, {"b..3", 2, 2}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        params.columns = good[i].columns;
        if (!good[i].count) continue;
        open_file("x.csv");
        double row[5];
        ck_assert_int_eq(km_data_features(data), good[i].count);
        ck_assert_int_eq(km_data_read(row, data, 0, 1, KM_FLOAT64, &err), KM_OK);
        ck_assert(row[0] == good[i].first);
    }
    params.columns = "c..a";
    refuse_file("x.csv", KM_ERROR_USAGE, "--columns: a range runs from left to right, got \"c..a\"");
    params.columns = "a..g";
    refuse_file("x.csv", KM_ERROR_USAGE,
                "--columns: x.csv has no column \"a..g\"; did you mean d..e?; it has a, b, c, d..e, f");
    params.columns = "..";
    refuse_file("x.csv", KM_ERROR_USAGE, "--columns: x.csv has no column \"..\"; it has a, b, c, d..e, f");
    params.columns = "b..";
    params.exclude = "c,5";
    open_file("x.csv");
    expect_values(1, 2, (double[]){2, 4});
    params.exclude = "g";
    refuse_file("x.csv", KM_ERROR_USAGE, "--exclude: x.csv has no column \"g\"; it has a, b, c, d..e, f");
}
END_TEST

START_TEST(categories) {
    write_text("x.csv", "city,x\nOslo,1\nLyon,2\n\"Aix, en\",3\nLyon,4\nOslo,5\n");
    params.one_hot = "city";
    params.numbers_only = 1;
    open_file("x.csv");
    expect_values(5, 4, (double[]){0, 0, 1, 1, 0, 1, 0, 2, 1, 0, 0, 3, 0, 1, 0, 4, 0, 0, 1, 5});
    ck_assert_str_eq(km_data_feature_name(data, 0), "city=Aix, en");
    ck_assert_str_eq(km_data_feature_name(data, 2), "city=Oslo");
    const km_feature *made = km_data_preparation(data);
    ck_assert_str_eq(made[1].category, "Lyon");
    ck_assert_str_eq(made[1].column, "city");
    // A model's categories, in its order; others are 0 throughout.
    km_feature wanted[] = {{"x", NULL, KM_COLUMN_NUMBER, NAN},
                           {"city", "Oslo", KM_COLUMN_CATEGORY, NAN},
                           {"city", "Lyon", KM_COLUMN_CATEGORY, NAN}};
    static const char *const names[] = {"x", "city=Oslo", "city=Lyon"};
    params.one_hot = NULL;
    params.names = names;
    params.names_count = 3;
    params.prepared = wanted;
    params.log = &remembering;
    said[0] = 0;
    open_file("x.csv");
    expect_values(5, 3, (double[]){1, 1, 0, 2, 0, 1, 3, 0, 0, 4, 0, 1, 5, 1, 0});
    ck_assert_str_eq(
        said, "x.csv: 1 cells of column city are none of the model's categories; in these rows all its "
              "features are 0\n");
    ck_assert_str_eq(km_data_feature_name(data, 2), "city=Lyon");
    params = (km_data_params){.type = KM_FLOAT64, .base = -1, .one_hot = "name"};
    FILE *stream = fopen("x.csv", "w");
    fputs("name,x\n", stream);
    for (int i = 0; i < 100000; i++) fprintf(stream, "n%d,%d\n", i, i);
    fclose(stream);
    refuse_file("x.csv", KM_ERROR_DATA,
                "x.csv: column 1 (name) has more than 256 different texts, too many to be categories; leave "
                "it out of "
                "--one-hot");
    params.one_hot = "1";
    write_text("x.csv", "a,1\nb,2\na,3\n");
    refuse_file(
        "x.csv", KM_ERROR_USAGE,
        "x.csv: column 1 holds categories, and becomes numbers only where a header names it; write a header");
}
END_TEST

START_TEST(spelled_numbers) {
    write_text("x.csv", "x;y\n1,5;2\n-,25;\"1e3\"\n");
    open_file("x.csv"); // found by itself
    expect_values(2, 2, (double[]){1.5, 2, -0.25, 1000});
    write_text("x.csv", "1,5;2,25\n3,5;4,5\n");
    open_file("x.csv");
    expect_values(2, 2, (double[]){1.5, 2.25, 3.5, 4.5});
    write_text("x.tsv", "x\ty\n1,5\t2\n");
    open_file("x.tsv");
    expect_values(1, 2, (double[]){1.5, 2});
    write_text("x.tsv", "x\ty\n1,500\t2.5\n"); // thousands may have commas, and decimals have points
    params.numbers_only = 1;
    open_file("x.tsv");
    expect_values(1, 1, (double[]){2.5});
    write_text("x.tsv", "x\ty\n1,500\t2\n");
    open_file("x.tsv");
    expect_values(1, 1, (double[]){2});
    write_text("x.csv", "x;y\n1.500;2,5\n950;3,5\n2.500;4,5\n"); // points are no decimal points then
    open_file("x.csv");
    expect_values(3, 1, (double[]){2.5, 3.5, 4.5});
    params.numbers_only = 0;
    params.decimal = ',';
    open_file("x.tsv");
    expect_values(1, 2, (double[]){1.5, 2});
    write_text("x.csv", "x,y\n\"1,5\",2\n");
    open_file("x.csv");
    expect_values(1, 2, (double[]){1.5, 2});
    static const struct {
        const char *cell, *way_out;
        char decimal;
    } bad[] = {
        {"\"1,234,567\"", "write numbers without a mark between thousands", 0},
        {"\"1,234.5\"", "write numbers without a mark between thousands", 0},
        {"1'234", "write numbers without a mark between thousands", 0},
        {"1 234", "write numbers without a mark between thousands", 0},
        {"12 34", "write the number without spaces", 0},
        {"$12", "write the number without its currency", 0},
        {"12.50 EUR", "write the number without its currency", 0},
        {"\xe2\x82\xac 3", "write the number without its currency", 0},
        {"12%", "write the number without %", 0},
        {"1.5",
         "decimals have a comma here: write it so (a point between thousands must go), or give --decimal .",
         ','},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128], message[256], bare[64];
        const char *cell = bad[i].cell;
        snprintf(text, sizeof text, "x,y\n1,2\n3,4\n%s,6\n", cell);
        write_text("x.csv", text);
        snprintf(bare, sizeof bare, "%.*s", (int)strlen(cell) - 2 * (*cell == '"'), cell + (*cell == '"'));
        snprintf(message, sizeof message, "x.csv: row 4, column 1 (x): \"%s\" is no number; %s", bare,
                 bad[i].way_out);
        params.decimal = bad[i].decimal;
        refuse_file("x.csv", KM_ERROR_DATA, message);
    }
}
END_TEST

START_TEST(weights_in_a_column) {
    write_text("x.csv", "x,w,y\n1,2,2\n3,0,4\n5,1.5,6\n");
    params.weights_column = "w";
    open_file("x.csv");
    expect_values(3, 2, six);
    const double *got = km_data_weights(data);
    ck_assert(got && got[0] == 2 && got[1] == 0 && got[2] == 1.5);
    params.columns = "y";
    open_file("x.csv");
    expect_values(3, 1, (double[]){2, 4, 6});
    params.columns = NULL;
    params.weights = "w.csv";
    refuse_file("x.csv", KM_ERROR_USAGE, "weights come from a file or from a column; give one of them");
    params.weights = NULL;
    write_text("x.csv", "x,w,y\n1,2,2\n3,-1,4\n");
    refuse_file("x.csv", KM_ERROR_DATA, "x.csv: row 3: a weight must be 0 or more, got -1");
    params.weights_column = "v";
    refuse_file("x.csv", KM_ERROR_USAGE, "--weights-column: x.csv has no column \"v\"; it has x, w, y");
}
END_TEST

static void note_file(void *user, km_log_level level, const char *text) {
    (void)level;
    *(int *)user += strstr(text, "its values do not fit into memory and lie in a temporary file") != NULL;
}

// Values that would take most of what is left lie in a file: those of numbers, and where categories make more of them.
START_TEST(a_text_in_a_temporary_file) {
    enum { ROWS = 1100000, LINE = 16 };
    int files = 0;
    km_log log = {note_file, &files};
    char *text = malloc((size_t)ROWS * LINE + 64);
    int64_t size = sprintf(text, "x,y,word\n");
    for (int64_t i = 0; i < ROWS; i++)
        size += sprintf(text + size, "%d,%d,w%d\n", (int)(i * 7919 % 1000), (int)(i % 77), (int)(i % 3));
    write_file("t.csv", text, size);
    free(text);
    params.log = &log;
    params.numbers_only = 1;
    params.one_hot = _i ? "word" : NULL;
    open_file("t.csv");
    int64_t d = km_data_features(data);
    ck_assert_int_eq(d, _i ? 5 : 2);
    double *in_memory = malloc((size_t)(ROWS * d) * sizeof *in_memory),
           *in_file = malloc((size_t)(ROWS * d) * 8);
    ck_assert_int_eq(km_data_read(in_memory, data, 0, ROWS, KM_FLOAT64, &err), KM_OK);
    ck_assert_int_eq(files, 0);
    params.scratch_dir = folder;
    params.memory_max = 1; // so little is left that all of it counts
    open_file("t.csv");
    ck_assert_int_eq(files, 1);
    ck_assert_int_eq(km_data_read(in_file, data, 0, ROWS, KM_FLOAT64, &err), KM_OK);
    ck_assert(memcmp(in_memory, in_file, (size_t)(ROWS * d) * 8) == 0);
    ck_assert_int_eq(system("test \"$(ls -A)\" = t.csv"), 0); // the file has no name
    free(in_memory);
    free(in_file);
    params.scratch_dir = "none";
    km_data_destroy(&data);
    ck_assert_int_eq(km_data_open(&data, "t.csv", &params, &err), KM_ERROR_IO);
    ck_assert_msg(
        strstr(err.text, "none: No such file or directory; a folder for temporary files is needed") != NULL,
        "%s", err.text);
}
END_TEST

// Blocks cross at any byte: quotes, line ends and blank lines; values, lines and messages are those of one thread.
START_TEST(text_by_many_threads) {
    FILE *stream = fopen("x.csv", "w");
    fputs("x,name,y\n", stream);
    for (int i = 0; i < 100000; i++)
        fprintf(stream, "%d,\"a \"\"%d\"\"%s\",%d.25%s", i, i, i % 7 ? "" : "\n,", -i,
                i % 5 ? "\r\n" : "\n\n");
    fputs("1,a,oops\n2,b,also\n", stream);
    fclose(stream);
    km_error first = {""};
    for (params.threads = 1; params.threads < 6; params.threads += 2) {
        params.columns = "x,y";
        params.na_values = "oops,also";
        params.missing = KM_MISSING_DROP;
        open_file("x.csv");
        ck_assert_int_eq(km_data_points(data), 100000);
        const double *values = malloc(100000 * 2 * sizeof *values);
        ck_assert_int_eq(km_data_read((void *)values, data, 0, 100000, KM_FLOAT64, &err), KM_OK);
        int wrong = 0;
        for (int i = 0; i < 100000; i++)
            wrong += values[2 * i] != i || values[2 * i + 1] != (i ? -(i + 0.25) : 0.25);
        ck_assert_int_eq(wrong, 0);
        free((void *)values);
        params.na_values = NULL;
        km_data *none = NULL;
        km_error why = {""};
        ck_assert_int_eq(km_data_open(&none, "x.csv", &params, &why), KM_ERROR_DATA);
        ck_assert_ptr_nonnull(strstr(why.text, "column 3 (y): \"oops\" is no number"));
        if (params.threads == 1) first = why;
        ck_assert_str_eq(why.text, first.text);
    }
}
END_TEST

// Every row of a table is the same through every format.
START_TEST(formats_agree) {
    enum { N = 37, D = 5 };
    double values[N * D], columns[N * D];
    float singles[N * D];
    FILE *stream = fopen("x.csv", "w");
    for (int i = 0; i < N * D; i++) {
        values[i] = (double)(float)sin(i * 1.7) * 100;
        singles[i] = (float)values[i];
        values[i] = singles[i];
        columns[i % D * N + i / D] = values[i];
        fprintf(stream, "%.17g%s", values[i], i % D == D - 1 ? "\n" : ",");
    }
    fclose(stream);
    open_file("x.csv");
    expect_values(N, D, values);
    ck_assert_int_eq(km_npy_write("x.npy", singles, N, D, "<f4", &err), KM_OK);
    open_file("x.npy");
    expect_values(N, D, values);
    write_npy("x.npy", 2, DICT("<f8", "True", "(37, 5)"), columns, sizeof columns);
    open_file("x.npy");
    expect_values(N, D, values);
    params.features = D;
    write_file("x.f64", values, sizeof values);
    open_file("x.f64");
    expect_values(N, D, values);
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
    char sentence[256];
    refuse_file("x.npy", KM_ERROR_USAGE, with_formats(sentence, "the format must be ", ", got \"xls\""));
}
END_TEST

START_TEST(each_format_has_a_reader) {
    int64_t count = 0;
    for (const char *name; (name = km_data_format_name(count)) != NULL; count++) {
        char file[32];
        snprintf(file, sizeof file, "x.%s", name);
        ck_assert_str_eq(km_data_format(file), name);
        params.format = name;
        write_text("empty", "");
        refuse_file("empty", KM_ERROR_DATA, "empty is empty");
    }
    ck_assert_int_ge(count, 9);
    ck_assert_ptr_null(km_data_format_name(-1));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("data");
    TCase *tests = tcase_create("data");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, memory_in_c_order);
    tcase_add_test(tests, memory_with_strides);
    tcase_add_test(tests, memory_by_columns);
    tcase_add_test(tests, memory_of_a_device);
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
    tcase_add_test(tests, npy_beyond_32_bits);
    tcase_add_test(tests, npy_writing);
    tcase_add_test(tests, raw_files);
    tcase_add_test(tests, raw_refused);
    tcase_add_test(tests, no_file);
    tcase_add_test(tests, each_format_has_a_reader);
    tcase_add_test(tests, numbers);
    tcase_add_test(tests, numbers_round_as_the_c_library_does);
    tcase_add_test(tests, numbers_of_eight_bytes);
    tcase_add_test(tests, numbers_ignore_the_locale);
    tcase_add_test(tests, csv_spellings);
    tcase_add_test(tests, headers);
    tcase_add_test(tests, names_that_are_numbers);
    tcase_add_test(tests, tsv_and_unknown_names);
    if (km_built_with(KM_PART_LIBARCHIVE)) {
        tcase_add_test(tests, packed_by_others);
        tcase_add_test(tests, packed_and_damaged);
    } else {
        tcase_add_test(tests, packed_without_libarchive);
    }
    tcase_add_test(tests, km_built_with(KM_PART_HDF5) ? hdf5_datasets : hdf5_left_out);
    tcase_add_test(tests, files_of_programs);
    tcase_add_test(tests, half_values);
    tcase_add_test(tests, km_built_with(KM_PART_ZLIB) ? packed_text : packed_text_without_zlib);
    tcase_add_test(tests, csv_columns);
    tcase_add_test(tests, columns_in_quotes);
    tcase_add_loop_test(tests, csv_refused, 0, (int)(sizeof bad_csv / sizeof *bad_csv));
    tcase_add_test(tests, csv_of_another_kind);
    tcase_add_test(tests, csv_of_many_columns);
    tcase_add_test(tests, advice_that_is_long_names_numbers);
    tcase_add_test(tests, advice_works);
    tcase_add_test(tests, long_text);
    tcase_add_test(tests, standard_input);
    tcase_add_test(tests, a_large_npy_through_a_pipe);
    tcase_add_test(tests, weights);
    tcase_add_loop_test(tests, weights_refused, 0, (int)(sizeof bad_weights / sizeof *bad_weights));
    tcase_add_test(tests, dropped_rows);
    tcase_add_test(tests, numbers_are_chosen);
    tcase_add_test(tests, ids_by_their_values);
    tcase_add_test(tests, missing_values);
    tcase_add_test(tests, sentinels);
    tcase_add_test(tests, marked_numbers_are_left_out_aloud);
    tcase_add_test(tests, marks_of_all_columns);
    tcase_add_test(tests, columns_by_ranges);
    tcase_add_test(tests, several_files);
    tcase_add_test(tests, several_files_refused);
    tcase_add_test(tests, categories);
    tcase_add_test(tests, spelled_numbers);
    tcase_add_test(tests, weights_in_a_column);
    tcase_add_test(tests, text_by_many_threads);
    tcase_add_loop_test(tests, a_text_in_a_temporary_file, 0, 2);
    tcase_add_test(tests, formats_agree);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

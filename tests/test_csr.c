// SPDX-License-Identifier: MIT
// Sparse matrices from memory: what is refused, how they are read, and the CSR points that engines work on.
#include "../base/size.h"
#include "../runtime/csr.h"
#include "../runtime/sparse.h"

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static double random_unit(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

// A matrix and the same table dense.
typedef struct both {
    int64_t n, d, entries;
    int64_t *starts;
    int32_t *indices;
    double *values, *dense, *weights;
} both;

// About `density` of the values, some of them stored zeros; column `full` has an entry in every row (-1: none).
static both make(int64_t n, int64_t d, double density, int64_t full) {
    both b = {.n = n, .d = d};
    b.starts = calloc((size_t)n + 1, sizeof *b.starts);
    b.indices = calloc((size_t)(n * d), sizeof *b.indices);
    b.values = calloc((size_t)(n * d), sizeof *b.values);
    b.dense = calloc((size_t)(n * d), sizeof *b.dense);
    b.weights = calloc((size_t)n, sizeof *b.weights);
    for (int64_t i = 0; i < n; i++) {
        b.weights[i] = (double)(i % 4);
        for (int64_t f = 0; f < d; f++) {
            if (random_unit() >= density && f != full && i % 97 != 5) continue; // row 5: all columns
            double x = f == full ? 1e6 + random_unit() : random_unit() < .05 ? 0 : random_unit() * 10 - 3;
            b.indices[b.entries] = (int32_t)f;
            b.values[b.entries++] = b.dense[i * d + f] = x;
        }
        b.starts[i + 1] = b.entries;
    }
    return b;
}

static void both_free(both *b) {
    free(b->starts);
    free(b->indices);
    free(b->values);
    free(b->dense);
    free(b->weights);
}

static km_data *open_csr(const both *b, int weighted) {
    km_data *data;
    km_error err = {""};
    km_status status = km_data_from_csr(&data, b->starts, b->indices, 4, b->values, KM_FLOAT64, b->n, b->d,
                                        weighted ? b->weights : NULL, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    return data;
}

static void refused(const int64_t *starts, const void *indices, int bytes, int64_t n, int64_t d,
                    const char *text) {
    static const double values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    km_data *data;
    km_error err = {""};
    km_status status = km_data_from_csr(&data, starts, indices, bytes, values, KM_FLOAT64, n, d, NULL, &err);
    ck_assert_int_ne(status, KM_OK);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
    ck_assert_ptr_null(data);
}

START_TEST(wrong_matrices) {
    const int32_t in_order[] = {0, 1, 2, 3}, twice[] = {1, 0, 1, 2}, outside[] = {0, 4, 1, 2},
                  negative[] = {0, -1, 1, 2};
    const int64_t wide[] = {0, INT64_C(1) << 40, 1, 2};
    refused((int64_t[]){1, 2, 4}, in_order, 4, 2, 4, "the first row must start at entry 0");
    refused((int64_t[]){0, 3, 2, 4}, in_order, 4, 3, 4, "row 2 starts at entry 3 and ends at 2");
    refused((int64_t[]){0, 9, 4}, in_order, 4, 2, 4, "row 1 ends at entry 9");
    refused((int64_t[]){0, 3, 4}, twice, 4, 2, 4, "row 1 has two entries in column 1");
    refused((int64_t[]){0, 2, 4}, outside, 4, 2, 4, "row 1 has an entry in column 4, counted from 0");
    refused((int64_t[]){0, 2, 4}, negative, 4, 2, 4, "column -1");
    refused((int64_t[]){0, 2, 4}, wide, 8, 2, 4, "column 1099511627776");
    refused((int64_t[]){0, 2, 4}, in_order, 2, 2, 4, "4 or 8 bytes");
    refused((int64_t[]){0, 2, 4}, NULL, 4, 2, 4, "NULL");
    refused(NULL, in_order, 4, 2, 4, "NULL");
    refused((int64_t[]){0, 2, 4}, in_order, 4, 2, 0, "d 1..2147483647");
}
END_TEST

// Dense rows, batches of nonzeros and columns by name are those of the dense table, also of rows in any order.
START_TEST(reading) {
    both b = make(201, 37, .2, -1);
    for (int64_t i = 0; i < b.n; i++) // every third row back to front
        for (int64_t low = b.starts[i], high = b.starts[i + 1] - 1; i % 3 == 0 && low < high; low++, high--) {
            int32_t index = b.indices[low];
            double value = b.values[low];
            b.indices[low] = b.indices[high], b.values[low] = b.values[high];
            b.indices[high] = index, b.values[high] = value;
        }
    km_data *data = open_csr(&b, 0), *dense, *view;
    ck_assert_int_eq(km_data_from_memory(&dense, b.dense, b.n, b.d, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    double *rows = calloc((size_t)(b.n * b.d), sizeof *rows);
    ck_assert_int_eq(km_data_read(rows, data, 0, b.n, KM_FLOAT64, NULL), KM_OK);
    ck_assert_mem_eq(rows, b.dense, (size_t)(b.n * b.d) * sizeof *rows);
    ck_assert_ptr_null(km_data_base(data, KM_FLOAT64));
    ck_assert_ptr_nonnull(km_data_csr(data));
    ck_assert_ptr_null(km_data_csr(dense));

    km_csr_rows batch = {0};
    for (int is_dense = 0; is_dense < 2; is_dense++)
        for (int64_t first = 0; first < b.n; first += batch.count) {
            int64_t count = first + 50 < b.n ? 50 : b.n - first;
            ck_assert_int_eq(km_data_read_csr(&batch, is_dense ? dense : data, first, count, NULL), KM_OK);
            memset(rows, 0, (size_t)(b.n * b.d) * sizeof *rows);
            for (int64_t i = 0; i < count; i++)
                for (int64_t e = batch.starts[i]; e < batch.starts[i + 1]; e++) {
                    if (e > batch.starts[i]) ck_assert_uint_gt(batch.indices[e], batch.indices[e - 1]);
                    if (is_dense) ck_assert_double_ne(batch.values[e], 0);
                    rows[i * b.d + batch.indices[e]] = batch.values[e];
                }
            ck_assert_mem_eq(rows, b.dense + first * b.d, (size_t)(count * b.d) * sizeof *rows);
        }
    km_csr_rows_free(&batch);

    const char *names[37];
    char texts[37][8];
    for (int f = 0; f < 37; f++) {
        snprintf(texts[f], sizeof texts[f], "f%d", f);
        names[f] = texts[f];
    }
    const char *wanted[] = {"f30", "f2", "f17"};
    ck_assert_int_eq(km_data_set_names(data, names, NULL), KM_OK);
    ck_assert_int_eq(km_data_select(&view, data, wanted, 3, NULL), KM_OK);
    ck_assert_int_eq(km_data_read(rows, view, 0, b.n, KM_FLOAT64, NULL), KM_OK);
    for (int64_t i = 0; i < b.n; i++) {
        ck_assert_double_eq(rows[3 * i], b.dense[i * b.d + 30]);
        ck_assert_double_eq(rows[3 * i + 1], b.dense[i * b.d + 2]);
        ck_assert_double_eq(rows[3 * i + 2], b.dense[i * b.d + 17]);
    }
    km_data_destroy(&view);
    km_data_destroy(&data);
    km_data_destroy(&dense);
    free(rows);
    both_free(&b);
}
END_TEST

static void near(double got, double wanted, double scale) {
    ck_assert_msg(fabs(got - wanted) <= 1e-9 * scale, "%.17g is not %.17g", got, wanted);
}

// Statistics, centres and points against the dense table, of both kinds of tables, with any number of threads.
static void check_points(const both *b, int weighted, km_type type, int is_dense, km_scale scale,
                         int64_t full) {
    km_data *data;
    km_data_stats stats[2] = {{0}};
    km_sparse_points points[2] = {{0}};
    km_error err = {""};
    double *columns = calloc((size_t)(4 * b->d), sizeof *columns), *row = calloc((size_t)b->d, sizeof *row);
    if (is_dense)
        ck_assert_int_eq(km_data_from_memory(&data, b->dense, b->n, b->d, KM_FLOAT64, 0, 0,
                                             weighted ? b->weights : NULL, NULL),
                         KM_OK);
    else
        data = open_csr(b, weighted);
    km_load_params params[2];
    for (int t = 0; t < 2; t++) {
        params[t] = (km_load_params){
            .scale = scale, .centre = columns + 2 * t * b->d, .factor = columns + (2 * t + 1) * b->d};
        ck_assert_int_eq(km_data_stats_alloc(&stats[t], b->d, NULL), KM_OK);
        km_status status = km_sparse_load(&points[t], &stats[t], data, &params[t], type, t ? 5 : 1, &err);
        ck_assert_msg(status == KM_OK, "%s", err.text);
    }
    ck_assert_mem_eq(stats[0].mean, stats[1].mean, (size_t)(4 * b->d) * sizeof(double));
    ck_assert(stats[0].total_square == stats[1].total_square);
    ck_assert_int_eq(points[0].nonzeros, points[1].nonzeros);
    ck_assert_mem_eq(points[0].values, points[1].values, (size_t)(points[0].nonzeros * km_type_bytes(type)));
    ck_assert_int_eq(points[0].index_bytes, b->d <= 256 ? 1 : 2);
    const double *centre = params[0].centre, *factor = params[0].factor;
    for (int64_t f = 0; f < b->d; f++) {
        double total = 0, mean = 0, variance = 0, low = b->dense[f], high = low;
        for (int64_t i = 0; i < b->n; i++) {
            double w = weighted ? b->weights[i] : 1, x = b->dense[i * b->d + f];
            total += w, mean += w * x;
            low = fmin(low, x), high = fmax(high, x);
        }
        mean /= total;
        for (int64_t i = 0; i < b->n; i++)
            variance += (weighted ? b->weights[i] : 1) * pow(b->dense[i * b->d + f] - mean, 2) / total;
        near(stats[0].mean[f], mean, fmax(fabs(low), fabs(high)));
        near(stats[0].variance[f], variance, fmax(low * low, high * high));
        ck_assert_double_eq(stats[0].minimum[f], low);
        ck_assert_double_eq(stats[0].maximum[f], high);
        ck_assert_msg((centre[f] != 0) == (f == full), "centre %g of feature %d", centre[f], (int)f);
    }
    double largest = 0, total_square = 0;
    for (int64_t i = 0; i < b->n; i++) {
        double square = 0;
        km_sparse_row(row, &points[0], i);
        for (int64_t f = 0; f < b->d; f++) {
            double wanted = (b->dense[i * b->d + f] - centre[f]) * factor[f];
            if (type == KM_FLOAT32) wanted = (double)(float)wanted;
            ck_assert_double_eq(row[f], wanted);
            largest = fmax(largest, fabs(row[f]));
            square += row[f] * row[f];
        }
        total_square += (weighted ? b->weights[i] : 1) * square;
        ck_assert_double_ge((double)points[0].norms[i], sqrt(square));
        ck_assert_double_le((double)points[0].norms[i], sqrt(square) * (1 + 0x1p-18) + 0x1p-120);
    }
    ck_assert(largest >= .49 && largest <= 1);
    near(stats[0].total_square, total_square, total_square);
    for (int t = 0; t < 2; t++) {
        km_sparse_free(&points[t]);
        km_data_stats_free(&stats[t]);
    }
    km_data_destroy(&data);
    free(columns);
    free(row);
}

START_TEST(packed_points) {
    int weighted = _i & 1, is_dense = _i >> 1 & 1;
    km_type type = _i >> 2 & 1 ? KM_FLOAT64 : KM_FLOAT32;
    static const int64_t shapes[][2] = {{1, 1}, {70003, 5}, {301, 300}};
    for (int s = 0; s < 3; s++) {
        int64_t full = s == 0 ? 0 : s == 1 ? -1 : 7;
        both b = make(shapes[s][0], shapes[s][1], .1, full);
        if (s == 0) b.weights[0] = 1;
        if (s > 0 && is_dense && full >= 0) ck_assert_int_gt(b.entries, 0);
        if (s > 0)
            check_points(&b, weighted, type, is_dense, _i & 4 ? KM_SCALE_NONE : KM_SCALE_STANDARD, full);
        both_free(&b);
    }
}
END_TEST

// A transform that is given, with a centre where points have no entry: they get one.
START_TEST(given_centres) {
    both b = make(100, 9, .3, -1);
    km_data *data = open_csr(&b, 0);
    km_data_stats stats = {0};
    km_sparse_points points = {0};
    double centre[9] = {0, 2, 0, 0, -1, 0, 0, 0, 3}, factor[9] = {1, 1, 1, 1, 1, 1, 1, 1, .5}, row[9];
    km_load_params params = {.transform_given = 1, .centre = centre, .factor = factor};
    ck_assert_int_eq(km_data_stats_alloc(&stats, 9, NULL), KM_OK);
    ck_assert_int_eq(km_sparse_load(&points, &stats, data, &params, KM_FLOAT64, 1, NULL), KM_OK);
    for (int64_t i = 0; i < b.n; i++) {
        km_sparse_row(row, &points, i);
        for (int f = 0; f < 9; f++) ck_assert_double_eq(row[f], (b.dense[i * 9 + f] - centre[f]) * factor[f]);
    }
    km_sparse_free(&points);
    km_data_stats_free(&stats);
    km_data_destroy(&data);
    both_free(&b);
}
END_TEST

// NaN and infinity are refused with their place, wherever they are; values that the type loses, with what helps.
START_TEST(wrong_values) {
    both b = make(500, 20, .2, -1);
    km_error err;
    for (int round = 0; round < 3; round++) {
        int64_t at = b.starts[321];
        double before = b.values[at];
        b.values[at] = round == 0 ? NAN : round == 1 ? INFINITY : 1e30;
        km_data *data = open_csr(&b, 0);
        km_data_stats stats = {0};
        km_sparse_points points = {0};
        double columns[40];
        km_load_params params = {.centre = columns, .factor = columns + 20};
        ck_assert_int_eq(km_data_stats_alloc(&stats, 20, NULL), KM_OK);
        err.text[0] = 0;
        ck_assert_int_eq(km_sparse_load(&points, &stats, data, &params, KM_FLOAT32, 1, &err), KM_ERROR_DATA);
        char place[64];
        snprintf(place, sizeof place, "row 322, column %d", b.indices[at] + 1);
        ck_assert_msg(strstr(err.text, place) != NULL, "%s lacks %s", err.text, place);
        ck_assert_msg(strstr(err.text, round == 0   ? "NaN"
                                       : round == 1 ? "infinite"
                                                    : "--type f64") != NULL,
                      "%s", err.text);
        km_data_stats_free(&stats);
        km_data_destroy(&data);
        b.values[at] = before;
    }
    both_free(&b);
}
END_TEST

// What the planner is told: the mean of a sparse table, about that of a dense one, 0 where zeros are few.
START_TEST(nonzeros) {
    both b = make(5000, 40, .1, -1), full = make(1000, 12, 1, -1), narrow = make(1000, 4, .1, -1);
    km_data *data = open_csr(&b, 0), *dense;
    ck_assert_double_eq(km_data_nonzeros(data), (double)b.entries / (double)b.n);
    const both *tables[] = {&b, &full, &narrow};
    for (int t = 0; t < 3; t++) {
        const both *own = tables[t];
        ck_assert_int_eq(
            km_data_from_memory(&dense, own->dense, own->n, own->d, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
        double got = km_data_nonzeros(dense), wanted = (double)own->entries / (double)own->n;
        if (t == 0)
            ck_assert_double_le(fabs(got - wanted), .2 * wanted);
        else
            ck_assert_double_eq(got, 0);
        km_data_destroy(&dense);
    }
    km_data_destroy(&data);
    both_free(&b);
    both_free(&full);
    both_free(&narrow);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("csr");
    TCase *tcase = tcase_create("csr");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, wrong_matrices);
    tcase_add_test(tcase, reading);
    tcase_add_loop_test(tcase, packed_points, 0, 8);
    tcase_add_test(tcase, given_centres);
    tcase_add_test(tcase, wrong_values);
    tcase_add_test(tcase, nonzeros);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

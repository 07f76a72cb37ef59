// SPDX-License-Identifier: MIT
// What must stay the same when the points are changed in ways that change nothing: properties of the whole job that
// need no known answer.
//
//     test_properties cpu|cpu-prebuilt|cpu-lanes|cuda
//
// Exits 77 (skipped) where the device is missing.
#include "device_main.h"
#include "reference.h"
#include "short_form.h"
#include <kmgen/model.h>
#include <kmgen/module.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *target = "cpu", *design;

// A fit and what it was given.
typedef struct job {
    ref_data points; // owned
    void *values;
    km_data *data;
    km_spec spec;
    km_fit_params params;
    km_result *result;
} job;

static km_type type_of(int i) {
    return i % 2 ? KM_FLOAT32 : KM_FLOAT64;
}

static double accuracy(km_type type) {
    return type == KM_FLOAT32 ? 1e-6 : 1e-12;
}

static void must(km_status status, const km_error *err) {
    ck_assert_msg(status == KM_OK, "%s: %s", km_status_name(status), err->text);
}

// Takes the points over. Until nothing moves, so that rounding cannot stop one fit earlier than another.
static job job_open(ref_data points, const char *clusters) {
    km_error err = {{0}};
    job j = {.points = points, .values = ref_values(&points)};
    must(km_data_from_memory(&j.data, j.values, points.n, points.d, points.type, 0, 0, points.w, &err), &err);
    km_spec_init(&j.spec);
    j.spec.type = points.type;
    j.spec.n_init = 3;
    must(km_spec_set_target(&j.spec, target, &err), &err);
    must(km_spec_set_clusters(&j.spec, clusters, &err), &err);
    if (design) must(km_spec_fix(&j.spec, "design", design, &err), &err);
    km_fit_params_init(&j.params);
    j.params.labels = KM_LABELS_ALL;
    j.params.refine = 20; // a little of it
    j.params.cache_dir = cache;
    j.params.tol = 0;
    return j;
}

static const km_model *job_fit(job *j) {
    km_error err = {{0}};
    must(km_fit(&j->result, &j->spec, j->data, &j->params, &err), &err);
    return j->result->models;
}

static void job_close(job *j) {
    km_result_destroy(&j->result);
    km_data_destroy(&j->data);
    km_spec_clear(&j->spec);
    ref_data_free(&j->points);
    free(j->values);
}

// The first `count` points are the initial centroids.
static void start_from_points(job *j, double *rows, int64_t count) {
    memcpy(rows, j->points.x, (size_t)(count * j->points.d) * sizeof *rows);
    j->params.refine = KM_REFINE_AUTO; // which is none then
    j->params.init = KM_INIT_GIVEN;
    j->params.init_rows = rows;
    j->params.init_count = count;
}

static void assert_close(double got, double expected, double relative) {
    ck_assert_msg(fabs(got - expected) <= relative * fabs(expected), "got %.17g, expected %.17g", got,
                  expected);
}

static void assert_same_labels(const km_model *a, const km_model *b, int64_t rows) {
    ck_assert_int_eq(a->k, b->k);
    for (int64_t i = 0; i < rows; i++)
        ck_assert_msg(a->labels[i] == b->labels[i], "K = %d: point %lld is in %d and %d", a->k, (long long)i,
                      a->labels[i], b->labels[i]);
}

// Points in another order -------------------------------------------------------------------------------------

// Row i of the permuted points is row order(i): 7919 is a prime that divides no n used here.
static int64_t order(int64_t i, int64_t n) {
    return (i * 7919 + 13) % n;
}

START_TEST(permuted_points) {
    enum { N = 5003, D = 3 };
    km_type type = type_of(_i);
    ref_data points = ref_blobs(N, D, 6, 1.5, 21, type), moved = ref_data_copy(&points);
    if (_i / 2) ref_weigh(&points, 4);
    if (_i / 2) moved.w = malloc(N * sizeof(double));
    for (int64_t i = 0; i < N; i++) {
        memcpy(moved.x + i * D, points.x + order(i, N) * D, D * sizeof(double));
        if (moved.w) moved.w[i] = points.w[order(i, N)];
    }
    job a = job_open(points, "2..6"), b = job_open(moved, "2..6");
    double rows[6 * D];
    start_from_points(&a, rows, 6);
    b.params.refine = KM_REFINE_AUTO;
    b.params.init = KM_INIT_GIVEN, b.params.init_rows = rows, b.params.init_count = 6;
    const km_model *x = job_fit(&a), *y = job_fit(&b);
    for (int m = 0; m < 5; m++) {
        int64_t differ = 0;
        for (int64_t i = 0; i < N; i++) differ += y[m].labels[i] != x[m].labels[order(i, N)];
        // Sums in another order round differently, and a point on a border may follow.
        ck_assert_int_le(differ, type == KM_FLOAT32 ? 2 : 0);
        assert_close(y[m].inertia, x[m].inertia, accuracy(type));
    }
    job_close(&a);
    job_close(&b);
}
END_TEST

// A label depends on its own point alone: any part of the rows gets the labels that the whole got.
START_TEST(predict_of_a_part) {
    enum { N = 5003, D = 4, FIRST = 1234, COUNT = 777 };
    km_error err = {{0}};
    char path[96];
    snprintf(path, sizeof path, "%s/part-%d.json", folder, _i);
    job j = job_open(ref_blobs(N, D, 5, 3.0, 22, type_of(_i)), "5");
    j.params.scale = (km_scale)(_i / 2);
    const km_model *model = job_fit(&j);
    must(km_predictor_write(path, j.result, 0, &err), &err);
    km_predictor *saved;
    must(km_predictor_read(&saved, path, &err), &err);
    size_t size = j.points.type == KM_FLOAT32 ? sizeof(float) : sizeof(double);
    km_data *part;
    must(km_data_from_memory(&part, (char *)j.values + FIRST * D * size, COUNT, D, j.points.type, 0, 0, NULL,
                             &err),
         &err);
    int32_t labels[COUNT];
    must(km_predict(labels, saved, part, &j.params, &err), &err);
    ck_assert_mem_eq(labels, model->labels + FIRST, sizeof labels);
    km_data_destroy(&part);
    km_predictor_destroy(&saved);
    unlink(path);
    job_close(&j);
}
END_TEST

// Other coordinates -------------------------------------------------------------------------------------------

// Mirrored: the same bits but for the sign of the centroids.
START_TEST(mirrored_points) {
    ref_data points = ref_blobs(3001, 3, 5, 2.0, 23, type_of(_i)), mirrored = ref_data_copy(&points);
    for (int64_t i = 0; i < points.n * 3; i++) mirrored.x[i] = -points.x[i];
    job a = job_open(points, "2..6"), b = job_open(mirrored, "2..6");
    const km_model *x = job_fit(&a), *y = job_fit(&b);
    for (int m = 0; m < 5; m++) {
        assert_same_labels(&x[m], &y[m], points.n);
        ck_assert_double_eq(x[m].inertia, y[m].inertia);
        for (int i = 0; i < x[m].k * 3; i++) ck_assert_double_eq(x[m].centroids[i], -y[m].centroids[i]);
    }
    job_close(&a);
    job_close(&b);
}
END_TEST

// The same points in another unit, a power of two: the same labels, choice of K and criteria, and centroids and
// inertia in that unit.
START_TEST(points_in_any_unit) {
    static const int powers[2][6] = {{-470, -200, -84, 67, 300, 490}, {-105, -84, -63, 63, 84, 120}};
    km_type type = type_of(_i);
    km_scale scale = (km_scale)(_i / 2 % 2);
    ref_data points = ref_blobs(2003, 3, 5, 2.0, 25, type);
    job a = job_open(points, "2..6");
    a.params.scale = scale;
    const km_model *x = job_fit(&a);
    for (int p = 0; p < 6; p++) {
        int power = powers[type == KM_FLOAT32][p];
        ref_data moved = ref_data_copy(&points);
        for (int64_t i = 0; i < points.n * 3; i++) moved.x[i] = ldexp(points.x[i], power);
        job b = job_open(moved, "2..6");
        b.params.scale = scale;
        const km_model *y = job_fit(&b);
        ck_assert_int_eq(a.result->selection.best, b.result->selection.best);
        for (int m = 0; m < 5; m++) {
            assert_same_labels(&x[m], &y[m], points.n);
            ck_assert_double_eq(y[m].inertia, ldexp(x[m].inertia, scale == KM_SCALE_NONE ? 2 * power : 0));
            for (int i = 0; i < x[m].k * 3; i++)
                ck_assert_double_eq(y[m].centroids[i], ldexp(x[m].centroids[i], power));
            for (int c = 0; c < KM_CRITERION_COUNT; c++)
                if (c != KM_CRITERION_bic && c != KM_CRITERION_aic && c != KM_CRITERION_pbm &&
                    !isnan(x[m].scores[c]))
                    ck_assert_double_eq(y[m].scores[c], x[m].scores[c]);
        }
        job_close(&b);
    }
    job_close(&a);
}
END_TEST

// One point far out: it is a cluster of its own, which is what the criteria say, and the others are clustered as if
// it were not there.
START_TEST(one_point_far_out) {
    static const int64_t counts[] = {41, 1009, 20000};
    static const double values[] = {1e6, 1e8, -1e12};
    km_type type = type_of(_i);
    if (is_sample() && _i / 2 % 3 == 2 && _i / 2 != 5) return; // many points once
    ref_data points = ref_blobs(counts[_i / 2 % 3], 4, 1, 1.0, 26, type);
    points.x[7 * 4 + 2] = ref_round(values[_i / 6], type);
    job j = job_open(points, "2..8");
    const km_model *x = job_fit(&j);
    const km_selection *selection = &j.result->selection;
    ck_assert_msg(x[selection->best].k == 2 && !strstr(selection->reason, "inertia 0"), "K = %d: %s",
                  x[selection->best].k, selection->reason);
    ck_assert(x[0].inertia > .5 * (double)points.n);
    for (int m = 0; m < 7; m++) {
        ck_assert_int_eq(x[m].effective_k, x[m].k);
        ck_assert_int_eq(x[m].counts[x[m].labels[7]], 1);
        ck_assert(x[m].scores[KM_CRITERION_calinski_harabasz] > 1e6);
        if (m > 0) ck_assert(x[m].inertia < x[m - 1].inertia);
    }
    job_close(&j);
}
END_TEST

// Half of the points far from the others, and close together there: float32 may not split them, but nobody calls that
// inertia 0, and where labels come from scores of float32 it is said.
START_TEST(close_points_far_out) {
    km_type type = type_of(_i);
    ref_data points = ref_blobs(1000, 1, 1, 1.0, 27, type);
    for (int64_t i = 0; i < points.n; i++)
        points.x[i] = i % 2 ? 0 : ref_round(1.7e9 + 400 * points.x[i], type);
    job j = job_open(points, "2..6");
    const km_model *x = job_fit(&j);
    ck_assert_ptr_null(strstr(j.result->selection.reason, "inertia 0"));
    ck_assert(x[0].inertia > 1e4);
    int said = 0;
    for (int64_t w = 0; w < j.result->warnings_count; w++)
        said |= strstr(j.result->warnings[w], "lie too close together") != NULL;
    int from_scores = strcmp(target, "cpu") == 0 && j.result->counters.algorithm == KM_ALGORITHM_LLOYD;
    if (type == KM_FLOAT64 || from_scores) ck_assert_int_eq(said, type == KM_FLOAT32);
    job_close(&j);
}
END_TEST

// All but one point without weight: the table may be fitted, as if it had one point.
START_TEST(one_point_has_all_weight) {
    ref_data points = ref_blobs(100, 2, 3, 1.0, 28, type_of(_i));
    points.w = calloc(100, sizeof(double));
    points.w[31] = 1;
    job j = job_open(points, "1..2");
    const km_model *x = job_fit(&j);
    for (int f = 0; f < 2; f++) assert_close(x[0].centroids[f], points.x[31 * 2 + f], 1e-6);
    job_close(&j);
}
END_TEST

// Integers with many exact ties, moved by an integer: nothing is rounded, so nothing changes.
START_TEST(shifted_grid) {
    km_type type = type_of(_i);
    ref_data points = ref_grid(4001, 2, 12, 24, type), moved = ref_data_copy(&points);
    double offset = type == KM_FLOAT32 ? 1 << 20 : (double)(1ll << 40);
    ref_shift(&moved, offset);
    job a = job_open(points, "2..9"), b = job_open(moved, "2..9");
    const km_model *x = job_fit(&a), *y = job_fit(&b);
    for (int m = 0; m < 8; m++) {
        assert_same_labels(&x[m], &y[m], points.n);
        assert_close(y[m].inertia, x[m].inertia, 1e-12);
    }
    job_close(&a);
    job_close(&b);
}
END_TEST

// A feature that says nothing (a constant) and one that says all again (a copy).
START_TEST(constant_and_copied_features) {
    enum { N = 3001 };
    km_type type = type_of(_i);
    ref_data points = ref_blobs(N, 2, 5, 2.0, 25, type), constant = ref_data_make(N, 3, type),
             copied = ref_data_make(N, 4, type);
    for (int64_t i = 0; i < N; i++) {
        const double *x = points.x + i * 2;
        memcpy(constant.x + i * 3, ((double[]){x[0], 7.25, x[1]}), 3 * sizeof(double));
        memcpy(copied.x + i * 4, ((double[]){x[0], x[1], x[0], x[1]}), 4 * sizeof(double));
    }
    job a = job_open(points, "2..6"), b = job_open(constant, "2..6"), c = job_open(copied, "2..6");
    double rows[3][6 * 4];
    start_from_points(&a, rows[0], 6);
    start_from_points(&b, rows[1], 6);
    start_from_points(&c, rows[2], 6);
    const km_model *x = job_fit(&a), *y = job_fit(&b), *z = job_fit(&c);
    for (int m = 0; m < 5; m++) {
        assert_same_labels(&x[m], &y[m], N);
        assert_same_labels(&x[m], &z[m], N);
        assert_close(y[m].inertia, x[m].inertia, accuracy(type));
        assert_close(z[m].inertia, 2 * x[m].inertia, accuracy(type));
        for (int j = 0; j < y[m].k; j++) ck_assert_double_eq(y[m].centroids[j * 3 + 1], 7.25);
    }
    job_close(&a);
    job_close(&b);
    job_close(&c);
}
END_TEST

// Weights -----------------------------------------------------------------------------------------------------

// A weight that is the same for all, a power of two: the same clusters, inertia times the weight.
START_TEST(common_weight) {
    ref_data points = ref_blobs(3001, 3, 5, 2.0, 26, type_of(_i)), heavy = ref_data_copy(&points);
    heavy.w = malloc((size_t)heavy.n * sizeof(double));
    for (int64_t i = 0; i < heavy.n; i++) heavy.w[i] = 4;
    job a = job_open(points, "2..6"), b = job_open(heavy, "2..6");
    a.spec.n_init = b.spec.n_init = 1; // of restarts that end alike, rounding may prefer another
    const km_model *x = job_fit(&a), *y = job_fit(&b);
    for (int m = 0; m < 5; m++) {
        assert_same_labels(&x[m], &y[m], points.n);
        assert_close(y[m].inertia, 4 * x[m].inertia, accuracy(points.type));
        for (int j = 0; j < x[m].k; j++) ck_assert_double_eq(y[m].weights[j], 4 * x[m].weights[j]);
        for (int j = 0; j < x[m].k; j++) ck_assert_int_eq(y[m].counts[j], x[m].counts[j]);
    }
    job_close(&a);
    job_close(&b);
}
END_TEST

// Weights of any size, in one unit or another: the same clusters, of refinement, too.
START_TEST(weights_in_any_unit) {
    static const double units[] = {0x1p-700, 0x1p600, 0x1p-50, 0x1p90};
    int is_float_gpu = strncmp(target, "cuda", 4) == 0 && type_of(_i) == KM_FLOAT32; // which has less range
    for (size_t u = is_float_gpu ? 2 : 0; u < sizeof units / sizeof *units; u++) {
        ref_data points = ref_blobs(601, 3, 9, 6.0, 41, type_of(_i)), scaled;
        points.w = malloc((size_t)points.n * sizeof(double));
        for (int64_t i = 0; i < points.n; i++) points.w[i] = (double)(1 + i % 7);
        scaled = ref_data_copy(&points);
        for (int64_t i = 0; i < points.n; i++) scaled.w[i] *= units[u];
        job a = job_open(points, "2..9"), b = job_open(scaled, "2..9");
        a.spec.n_init = b.spec.n_init = 1; // so that refinement finds better models
        a.params.refine = b.params.refine = KM_REFINE_AUTO;
        const km_model *x = job_fit(&a), *y = job_fit(&b);
        for (int m = 0; m < 8; m++) {
            assert_same_labels(&x[m], &y[m], points.n);
            ck_assert_double_eq(y[m].inertia, x[m].inertia * units[u]);
        }
        job_close(&a);
        job_close(&b);
    }
}
END_TEST

// Points of weight 0, far away, behind the others: they get labels and change nothing else.
START_TEST(weightless_points) {
    enum { N = 3001, MORE = 40 };
    km_type type = type_of(_i);
    ref_data points = ref_blobs(N, 2, 5, 2.0, 27, type), more = ref_data_make(N + MORE, 2, type);
    points.w = malloc(N * sizeof(double));
    more.w = calloc(N + MORE, sizeof(double));
    for (int64_t i = 0; i < N; i++) points.w[i] = more.w[i] = 1 + (double)(i % 2);
    memcpy(more.x, points.x, N * 2 * sizeof(double));
    for (int64_t i = N * 2; i < more.n * 2; i++) more.x[i] = (double)(i % 5) * 300;
    job a = job_open(points, "2..6"), b = job_open(more, "2..6");
    const km_model *x = job_fit(&a), *y = job_fit(&b);
    for (int m = 0; m < 5; m++) {
        assert_same_labels(&x[m], &y[m], N);
        assert_close(y[m].inertia, x[m].inertia, accuracy(type));
        for (int j = 0; j < x[m].k; j++) ck_assert_double_eq(y[m].weights[j], x[m].weights[j]);
    }
    ck_assert_int_eq(ref_labels_wrong(NULL, &b.points, y[4].centroids, 6, y[4].labels), 0);
    job_close(&a);
    job_close(&b);
}
END_TEST

// Fixed points and ends ---------------------------------------------------------------------------------------

// What a fit ended with is where the next one stays.
START_TEST(result_is_a_fixed_point) {
    job a = job_open(ref_blobs(3001, 3, 5, 2.0, 28, type_of(_i)), "6");
    ref_data again = ref_data_copy(&a.points);
    const km_model *x = job_fit(&a);
    ck_assert(x->converged);
    job b = job_open(again, "6");
    b.params.refine = KM_REFINE_AUTO;
    b.params.init = KM_INIT_GIVEN, b.params.init_rows = x->centroids, b.params.init_count = 6;
    const km_model *y = job_fit(&b);
    ck_assert(y->converged);
    ck_assert_int_le(y->n_iter, 2);
    assert_same_labels(x, y, a.points.n);
    assert_close(y->inertia, x->inertia, 1e-12);
    job_close(&a);
    job_close(&b);
}
END_TEST

// K = 1 is the mean and the total sum of squares, whatever the seed.
START_TEST(one_cluster) {
    ref_data points = ref_blobs(66001, 3, 4, 2.0, 29, type_of(_i));
    if (_i / 2) ref_weigh(&points, 5);
    ref_shift(&points, 1000);
    double mean[3], total = 0;
    ref_mean_variance(mean, &points);
    for (int64_t i = 0; i < points.n; i++)
        total += ref_weight(&points, i) * ref_distance2(points.x + i * 3, mean, 3);
    job j = job_open(points, "1,2");
    j.params.max_iter = 3;
    const km_model *x = job_fit(&j);
    assert_close(x[0].inertia, total, accuracy(points.type));
    for (int f = 0; f < 3; f++)
        assert_close(x[0].centroids[f], mean[f], points.type == KM_FLOAT32 ? 1e-7 : 1e-12);
    ck_assert_int_eq(x[0].restarts_agreed, x[0].restarts);
    ck_assert_int_eq(x[0].counts[0], points.n);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) ck_assert(isnan(x[0].scores[c]));
    ck_assert_int_eq(j.result->selection.best, 1);
    job_close(&j);
}
END_TEST

// K = n: every point is its own centroid.
START_TEST(as_many_clusters_as_points) {
    enum { N = 37 };
    job j = job_open(ref_uniform(N, 3, 30, type_of(_i)), "36,37");
    const km_model *x = job_fit(&j);
    ck_assert_int_eq(x[1].effective_k, N);
    // On a GPU float32 points may lie on a grid: that of values up to 2 has half steps of 2^-22 (docs/numerics.md).
    int on_grid = !strcmp(target, "cuda") && type_of(_i) == KM_FLOAT32;
    ck_assert_double_le(x[1].inertia, on_grid ? N * 3 * 0x1p-44 : 1e-28);
    for (int c = 0; c < N; c++) ck_assert_int_eq(x[1].counts[c], 1);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) ck_assert(isnan(x[1].scores[c]));
    ck_assert_int_eq(j.result->selection.best, 0); // never best, though its inertia is 0
    job_close(&j);
}
END_TEST

// Points that are copies of a few: the smallest K with inertia 0 is chosen, however the copies' means round.
START_TEST(few_distinct_points) {
    enum { COPIES = 500 };
    int64_t distinct = 2 + _i / 2 % 3;
    ref_data few = ref_uniform(distinct, 3, 31 + (uint64_t)_i, type_of(_i));
    ref_shift(&few, _i % 4 < 2 ? .1 : 1000.1);
    ref_data points = ref_data_make(COPIES * distinct, 3, few.type);
    for (int64_t i = 0; i < points.n; i++)
        memcpy(points.x + i * 3, few.x + i % distinct * 3, 3 * sizeof(double));
    job j = job_open(points, "1..6");
    const km_model *x = job_fit(&j);
    ck_assert_msg(x[j.result->selection.best].k == distinct, "K = %d instead of %lld: %s",
                  x[j.result->selection.best].k, (long long)distinct, j.result->selection.reason);
    ck_assert_ptr_nonnull(strstr(j.result->selection.reason, "inertia 0"));
    for (int64_t m = distinct - 1; m < 6; m++) ck_assert_int_eq(x[m].effective_k, distinct);
    ref_data_free(&few);
    job_close(&j);
}
END_TEST

// Numbers beside the reference --------------------------------------------------------------------------------

// n around the fixed blocks of 65,536 points that sums are made of: the same fit as the textbook's.
START_TEST(around_block_borders) {
    static const int64_t sizes[] = {65535, 65536, 65537, 131072, 131073};
    ref_data points = ref_blobs(sizes[_i / 2], 2, 3, 1.0, 32, type_of(_i));
    job j = job_open(points, "3");
    j.params.max_iter = 4;
    double rows[6];
    start_from_points(&j, rows, 3);
    const km_model *x = job_fit(&j);
    ref_model expected = ref_fit(&points, rows, 3, 0, 4);
    assert_close(x->inertia, expected.inertia, accuracy(points.type));
    ck_assert_int_eq(ref_labels_wrong(NULL, &points, x->centroids, 3, x->labels), 0);
    for (int c = 0; c < 3; c++) assert_close(x->weights[c], expected.weights[c], 1e-3);
    ref_model_free(&expected);
    job_close(&j);
}
END_TEST

// Scores as they follow from the centroids that are returned, by the reference's own last pass.
static void score_by_reference(double *scores, const km_model *model, const ref_data *fitted) {
    ref_finished own = ref_finish(fitted, model->centroids_fitted, model->k);
    double *mean = malloc((size_t)fitted->d * sizeof *mean);
    ref_mean_variance(mean, fitted);
    ref_finished whole = ref_finish(fitted, mean, 1);
    km_score_input input = {model->k,
                            fitted->d,
                            model->centroids_fitted,
                            own.weights,
                            own.counts,
                            own.sse,
                            own.distance,
                            own.margin,
                            whole.weights[0],
                            whole.sse[0],
                            whole.distance[0],
                            fitted->type,
                            NULL,
                            NULL,
                            0};
    ck_assert_int_eq(km_score_models(scores, &input, 1, NULL), KM_OK);
    ref_finished_free(&own);
    ref_finished_free(&whole);
    free(mean);
}

static int uses_distances(int criterion) {
    return criterion == KM_CRITERION_davies_bouldin || criterion == KM_CRITERION_simplified_silhouette ||
           criterion == KM_CRITERION_pbm;
}

START_TEST(scores_of_a_fit) {
    ref_data points = ref_blobs(5003, 3, 5, 2.0, 33, type_of(_i));
    if (_i / 2) ref_weigh(&points, 6);
    job j = job_open(points, "2..7");
    j.params.scale = _i / 2 ? KM_SCALE_STANDARD : KM_SCALE_NONE;
    const km_model *x = job_fit(&j);
    ref_data fitted = ref_data_copy(&points);
    for (int64_t i = 0; i < fitted.n * 3; i++)
        fitted.x[i] =
            ref_round((points.x[i] - j.result->centre[i % 3]) * j.result->factor[i % 3], points.type);
    for (int m = 0; m < 6; m++) {
        double expected[KM_CRITERION_COUNT];
        score_by_reference(expected, &x[m], &fitted);
        // Distances and margins may have the plan's type (runtime/backend.h).
        for (int c = 0; c < KM_CRITERION_hartigan; c++)
            assert_close(x[m].scores[c], expected[c], uses_distances(c) ? accuracy(points.type) : 1e-9);
    }
    ref_data_free(&fitted);
    job_close(&j);
}
END_TEST

// The suite -----------------------------------------------------------------------------------------------------

static TCase *case_of(Suite *suite, const char *name) {
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 120);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static Suite *suite_of(void) {
    Suite *suite = suite_create("properties");
    TCase *order = case_of(suite, "order");
    tcase_add_loop_test(order, permuted_points, 0, 4);
    tcase_add_loop_test(order, predict_of_a_part, 0, 6);
    TCase *coordinates = case_of(suite, "coordinates");
    tcase_add_loop_test(coordinates, mirrored_points, 0, 2);
    tcase_add_loop_test(coordinates, shifted_grid, 0, 2);
    tcase_add_loop_test(coordinates, points_in_any_unit, 0, 4);
    tcase_add_loop_test(coordinates, one_point_far_out, 0, 18);
    tcase_add_loop_test(coordinates, close_points_far_out, 0, 2);
    tcase_add_loop_test(coordinates, constant_and_copied_features, 0, 2);
    TCase *weights = case_of(suite, "weights");
    tcase_add_loop_test(weights, common_weight, 0, 2);
    tcase_add_loop_test(weights, weights_in_any_unit, 0, 2);
    tcase_add_loop_test(weights, weightless_points, 0, 2);
    tcase_add_loop_test(weights, one_point_has_all_weight, 0, 2);
    TCase *ends = case_of(suite, "ends");
    tcase_add_loop_test(ends, result_is_a_fixed_point, 0, 2);
    tcase_add_loop_test(ends, one_cluster, 0, 4);
    tcase_add_loop_test(ends, as_many_clusters_as_points, 0, 2);
    tcase_add_loop_test(ends, few_distinct_points, 0, 12);
    TCase *reference = case_of(suite, "reference");
    tcase_add_loop_test(reference, around_block_borders, 0, 10);
    tcase_add_loop_test(reference, scores_of_a_fit, 0, 4);
    return suite;
}

int main(int argc, char **argv) {
    const char *what = argc == 2 ? argv[1] : "";
    if (strcmp(what, "cuda") == 0) {
        target = "cuda";
    } else if (strncmp(what, "cpu-", 4) == 0) {
        design = what + 4;
        // The short form tries what of these the kernels themselves decide, and compiles half as many.
        if (!strcmp(design, "lanes") && !is_whole()) setenv("CK_RUN_CASE", "reference", 0);
    } else if (strcmp(what, "cpu") != 0) {
        fprintf(stderr, "usage: test_properties cpu|cpu-prebuilt|cpu-lanes|cuda\n");
        return 2;
    }
    return device_main("cuda", !strcmp(target, "cuda"), suite_of);
}

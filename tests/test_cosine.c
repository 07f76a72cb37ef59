// SPDX-License-Identifier: MIT
// Spherical k-means through the public API, against a reference of its own in double that knows nothing of centring:
// rows are divided by their length, the nearest centroid has the largest cosine, a new centroid is the sum of its rows
// divided by its length.
//
//     test_cosine cpu|cpu-lanes|cuda
//
// Exits 77 (skipped) where the device is missing.
#include "device_main.h"
#include "reference.h"
#include "short_form.h"
#include "../templates/both.h"
#include "../templates/draws.h"
#include <kmgen/explore.h>
#include <kmgen/fit.h>
#include <kmgen/model.h>
#include <kmgen/module.h>
#include <kmgen/score.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *target = "cpu", *design = "prebuilt";

static void must(km_status status, const km_error *err, const char *what) {
    ck_assert_msg(status == KM_OK, "%s: %s: %s", what, km_status_name(status), err->text);
}

// A fit -----------------------------------------------------------------------------------------------------

typedef struct job {
    ref_data points;
    void *values;     // dense, or of nonzeros
    int64_t *starts;  // sparse
    int32_t *indices; // sparse
    km_data *data;
    km_spec spec;
    km_fit_params params;
} job;

// Points that lie as they are, or as CSR. Takes them over.
static job job_open(ref_data points, const char *clusters, int is_sparse) {
    km_error err = {{0}};
    job j = {.points = points};
    int64_t n = points.n, d = points.d, count = 0;
    if (is_sparse) {
        j.starts = calloc((size_t)n + 1, sizeof *j.starts);
        j.indices = calloc((size_t)(n * d), sizeof *j.indices);
        double *values = calloc((size_t)(n * d), sizeof *values);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t f = 0; f < d; f++) {
                if (points.x[i * d + f] == 0) continue;
                j.indices[count] = (int32_t)f;
                values[count++] = points.x[i * d + f];
            }
            j.starts[i + 1] = count;
        }
        j.values = values;
        must(km_data_from_csr(&j.data, j.starts, j.indices, 4, values, KM_FLOAT64, n, d, points.w, &err),
             &err, "csr");
    } else {
        j.values = ref_values(&points);
        must(km_data_from_memory(&j.data, j.values, n, d, points.type, 0, 0, points.w, &err), &err, "data");
    }
    km_spec_init(&j.spec);
    j.spec.type = points.type;
    j.spec.layout = is_sparse ? KM_LAYOUT_CSR : KM_LAYOUT_DENSE;
    must(km_spec_set_target(&j.spec, target, &err), &err, "target");
    must(km_spec_set_clusters(&j.spec, clusters, &err), &err, "clusters");
    if (design && !is_sparse) must(km_spec_fix(&j.spec, "design", design, &err), &err, "design");
    km_fit_params_init(&j.params);
    j.params.scale = KM_SCALE_UNIT;
    j.params.labels = KM_LABELS_ALL;
    j.params.cache_dir = cache;
    j.params.compiler = strcmp(target, "cuda") ? quick_compiler() : NULL;
    return j;
}

static void job_close(job *j) {
    km_data_destroy(&j->data);
    km_spec_clear(&j->spec);
    ref_data_free(&j->points);
    free(j->values);
    free(j->starts);
    free(j->indices);
}

static km_result *fit(const job *j) {
    km_error err = {{0}};
    km_result *result = NULL;
    must(km_fit(&result, &j->spec, j->data, &j->params, &err), &err, "km_fit");
    ck_assert_int_eq(result->scale, KM_SCALE_UNIT);
    return result;
}

static void check_refused(const job *j, km_status expected, const char *words) {
    km_error err = {{0}};
    km_result *result = NULL;
    ck_assert_int_eq(km_fit(&result, &j->spec, j->data, &j->params, &err), expected);
    ck_assert_ptr_null(result);
    ck_assert_msg(strstr(err.text, words), "\"%s\" does not say \"%s\"", err.text, words);
}

// First centroids: rows of the points, at equal distances, made longer or shorter: only their direction counts.
static double *give_rows(job *j, int64_t k) {
    int64_t d = j->points.d;
    double *rows = calloc((size_t)(k * d), sizeof *rows);
    for (int64_t c = 0; c < k; c++)
        for (int64_t f = 0; f < d; f++)
            rows[c * d + f] = j->points.x[c * (j->points.n / k) * d + f] * (double)(1 + c % 3) / 2;
    j->params.init = KM_INIT_GIVEN;
    j->params.init_rows = rows;
    j->params.init_count = k;
    j->params.tol = 0;
    j->params.max_iter = 1000;
    return rows;
}

// The reference ---------------------------------------------------------------------------------------------

typedef struct sphere {
    int64_t k, n_iter;
    double *rows;      // n x d, of length 1
    double *centroids; // k x d, of length 1
    int32_t *labels;
    double inertia; // sum of w 2 (1 - cos)
} sphere;

static double dot(const double *a, const double *b, int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) sum += a[f] * b[f];
    return sum;
}

// 0: the row has no length.
static int divide(double *x, int64_t d) {
    double largest = 0;
    for (int64_t f = 0; f < d; f++) largest = fmax(largest, fabs(x[f]));
    if (largest == 0) return 0;
    for (int64_t f = 0; f < d; f++) x[f] /= largest;
    double length = sqrt(dot(x, x, d));
    for (int64_t f = 0; f < d; f++) x[f] /= length;
    return 1;
}

static void sphere_assign(sphere *s, const ref_data *points) {
    int64_t d = points->d;
    s->inertia = 0;
    for (int64_t i = 0; i < points->n; i++) {
        double most = -2;
        for (int64_t c = 0; c < s->k; c++) {
            double cosine = dot(s->rows + i * d, s->centroids + c * d, d);
            if (cosine > most) most = cosine, s->labels[i] = (int32_t)c;
        }
        // 1 - cos without cancellation.
        double square = ref_distance2(s->rows + i * d, s->centroids + s->labels[i] * d, d);
        s->inertia += ref_weight(points, i) * square;
    }
}

static sphere sphere_fit(const ref_data *points, const double *first, int64_t k, int64_t max_iter) {
    int64_t n = points->n, d = points->d;
    sphere s = {.k = k};
    s.rows = calloc((size_t)(n * d), sizeof(double));
    s.centroids = calloc((size_t)(k * d), sizeof(double));
    s.labels = calloc((size_t)n, sizeof *s.labels);
    double *sums = calloc((size_t)(k * d), sizeof *sums);
    memcpy(s.rows, points->x, (size_t)(n * d) * sizeof(double));
    memcpy(s.centroids, first, (size_t)(k * d) * sizeof(double));
    for (int64_t i = 0; i < n; i++) ck_assert(divide(s.rows + i * d, d));
    for (int64_t c = 0; c < k; c++) ck_assert(divide(s.centroids + c * d, d));
    sphere_assign(&s, points);
    for (double shift = 1; shift > 0 && s.n_iter < max_iter; s.n_iter++) {
        memset(sums, 0, (size_t)(k * d) * sizeof *sums);
        for (int64_t i = 0; i < n; i++)
            for (int64_t f = 0; f < d; f++)
                sums[s.labels[i] * d + f] += ref_weight(points, i) * s.rows[i * d + f];
        shift = 0;
        for (int64_t c = 0; c < k; c++) {
            if (!divide(sums + c * d, d)) continue;
            shift += ref_distance2(sums + c * d, s.centroids + c * d, d);
            memcpy(s.centroids + c * d, sums + c * d, (size_t)d * sizeof(double));
        }
        sphere_assign(&s, points);
    }
    free(sums);
    return s;
}

static void sphere_free(sphere *s) {
    free(s->rows);
    free(s->centroids);
    free(s->labels);
}

static double accuracy(km_type type) {
    return type == KM_FLOAT32 ? 1e-6 : 1e-13;
}

// What holds for each model: centroids of length 1, the nearest by the cosine, and the inertia is that of both.
static void check_models(const job *j, const km_result *result) {
    const ref_data *points = &j->points;
    int64_t d = points->d;
    double *x = calloc((size_t)d, sizeof *x), near = accuracy(points->type);
    for (int64_t m = 0; m < result->models_count; m++) {
        const km_model *model = &result->models[m];
        double inertia = 0, weight = 0;
        for (int32_t c = 0; c < model->k; c++)
            REF_NEAR(dot(model->centroids + c * d, model->centroids + c * d, d), 1, 4 * near);
        for (int64_t i = 0; i < points->n; i++) {
            memcpy(x, points->x + i * d, (size_t)d * sizeof *x);
            ck_assert(divide(x, d));
            double own = dot(x, model->centroids + model->labels[i] * d, d);
            for (int32_t c = 0; c < model->k; c++)
                ck_assert_double_ge(own, dot(x, model->centroids + c * d, d) - 4 * near);
            inertia += ref_weight(points, i) * 2 * (1 - own);
            weight += ref_weight(points, i);
        }
        REF_NEAR(model->inertia, inertia, 4 * near * weight);
    }
    free(x);
}

static void check_against(const job *j, const km_result *result, const double *first, const char *what) {
    const km_model *model = &result->models[0];
    int64_t d = j->points.d;
    sphere s = sphere_fit(&j->points, first, model->k, j->params.max_iter);
    ck_assert_msg(model->n_iter == s.n_iter, "%s: %lld iterations, not %lld", what, (long long)model->n_iter,
                  (long long)s.n_iter);
    for (int64_t i = 0; i < j->points.n; i++)
        ck_assert_msg(model->labels[i] == s.labels[i], "%s: point %lld has label %d, not %d", what,
                      (long long)i, model->labels[i], s.labels[i]);
    // The sums of `registers` are floats.
    double near = accuracy(j->points.type) * (strcmp(target, "cuda") ? 2 : 10);
    for (int64_t i = 0; i < s.k * d; i++) REF_NEAR(model->centroids[i], s.centroids[i], near);
    double weight = 0;
    for (int64_t i = 0; i < j->points.n; i++) weight += ref_weight(&j->points, i);
    REF_NEAR(model->inertia, s.inertia, accuracy(j->points.type) * (s.inertia + 1e-3 * weight));
    sphere_free(&s);
}

// Zeros in three of four places, none in a row's first one.
static void thin_out(ref_data *points, uint64_t seed) {
    for (int64_t i = 0; i < points->n * points->d; i++)
        if (i % points->d && km_draw(seed, 7, (uint64_t)i, 0) < .75) points->x[i] = 0;
}

static const int64_t widths[] = {1, 2, 3, 5, 16, 37, 100};
static const char *const width_names[] = {"d1", "d2", "d3", "d5", "d16", "d37", "d100"};
enum { WIDTHS = sizeof widths / sizeof *widths };

// _i: type, layout, weights, width; a case of its own each, as on a GPU compiling takes nearly all of the time.
START_TEST(as_the_reference) {
    km_type type = _i & 1 ? KM_FLOAT64 : KM_FLOAT32;
    int is_sparse = _i >> 1 & 1;
    int64_t d = widths[_i >> 3], n = 1003, k = d == 1 ? 2 : 7;
    char what[80];
    ref_data points = ref_blobs(n, d, 6, 3.0, (uint64_t)_i, type);
    if (is_sparse && d > 5) thin_out(&points, (uint64_t)_i);
    if (_i >> 2 & 1) ref_weigh(&points, 5);
    snprintf(what, sizeof what, "%s, %s, %lld features", type == KM_FLOAT64 ? "float64" : "float32",
             is_sparse ? "csr" : "dense", (long long)d);
    job j = job_open(points, d == 1 ? "2" : "7", is_sparse);
    double *first = give_rows(&j, k);
    if (d == 1) first[0] = -3, first[1] = 0.25;
    km_result *result = fit(&j);
    check_models(&j, result);
    check_against(&j, result, first, what);
    free(first);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Bounds and boxes, with so many clusters and iterations that bounds begin; _i: type and algorithm.
START_TEST(algorithms_as_the_reference) {
    static const km_algorithm algorithms[] = {KM_ALGORITHM_LLOYD, KM_ALGORITHM_TILES, KM_ALGORITHM_HAMERLY,
                                              KM_ALGORITHM_ELKAN};
    km_type type = _i % 2 ? KM_FLOAT64 : KM_FLOAT32;
    enum { K = 150 };
    ref_data points = ref_uniform(4001, 4, 11, type);
    for (int64_t i = 0; i < points.n; i++) // a length says nothing
        for (int64_t f = 0; f < 4; f++)
            points.x[i * 4 + f] = ref_round(points.x[i * 4 + f] * (double)(1 + i % 7), type);
    job j = job_open(points, "150", 0);
    double *first = give_rows(&j, K);
    j.params.algorithm = algorithms[_i / 2];
    // In float32 lloyd labels near ties by scores of the type, and parts from the reference at the first of them.
    if (type == KM_FLOAT32) j.params.max_iter = 3;
    km_result *result = fit(&j);
    ck_assert_int_eq(result->counters.algorithm, algorithms[_i / 2]);
    if (type == KM_FLOAT64 && algorithms[_i / 2] != KM_ALGORITHM_LLOYD)
        ck_assert_int_lt(result->counters.distances, result->counters.distances_lloyd);
    check_against(&j, result, first, km_algorithm_name(algorithms[_i / 2]));
    free(first);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Restarts, refinement, relocation: centroids of length 1 everywhere, the same bits on any number of threads. The short
// form compares one with three; of emitted kernels, as of any under sanitizers, one type dense, the other sparse.
START_TEST(same_bits_on_any_threads) {
    int is_emitted = design && strcmp(design, "prebuilt") != 0, is_long = is_whole();
    if ((is_sample() || (is_emitted && !is_long)) && _i % 3) return;
    km_type type = _i & 1 ? KM_FLOAT64 : KM_FLOAT32;
    int is_sparse = _i >> 1 & 1;
    uint64_t digests[3];
    for (int t = 0; t < 3; t += 1 + !is_long) {
        ref_data points = ref_blobs(is_sample() ? 40009 : 70001, 5, 9, 3.0, 3, type);
        if (is_sparse) thin_out(&points, 4);
        job j = job_open(points, is_long ? "2..7" : "2,7", is_sparse);
        j.spec.n_init = 2;
        j.params.threads = t + 1;
        j.params.max_iter = is_long ? 20 : 8;
        km_result *result = fit(&j);
        if (t == 0) check_models(&j, result);
        digests[t] = km_result_digest(result);
        km_result_destroy(&result);
        job_close(&j);
    }
    if (is_long) ck_assert_uint_eq(digests[0], digests[1]);
    ck_assert_uint_eq(digests[0], digests[2]);
}
END_TEST

// Refinement of a small table: merges, splits and swaps.
START_TEST(refined_models_have_length_one) {
    km_type type = _i & 1 ? KM_FLOAT64 : KM_FLOAT32;
    ref_data points = ref_blobs(400, 3, 8, 1.5, 21, type);
    job j = job_open(points, "2..9", 0);
    j.spec.n_init = 1;
    km_result *result = fit(&j);
    int64_t refined = 0;
    for (int64_t m = 0; m < result->models_count; m++) {
        refined += result->models[m].refined;
        if (m) ck_assert_double_le(result->models[m].inertia, result->models[m - 1].inertia);
    }
    ck_assert_int_gt(refined, 0);
    check_models(&j, result);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Two first centroids of one direction: one cluster is empty, and gets a row.
START_TEST(an_empty_cluster_gets_a_row) {
    km_type type = _i & 1 ? KM_FLOAT64 : KM_FLOAT32;
    job j = job_open(ref_blobs(500, 3, 4, 1.0, 8, type), "4", _i >> 1);
    double *first = give_rows(&j, 4);
    for (int f = 0; f < 3; f++) first[3 + f] = 4 * first[f];
    km_result *result = fit(&j);
    ck_assert_int_eq(result->models[0].effective_k, 4);
    check_models(&j, result);
    free(first);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// A narrow cone: cosines near 1, whose differences from 1 the centring keeps.
START_TEST(a_narrow_cone) {
    km_type type = _i & 1 ? KM_FLOAT64 : KM_FLOAT32;
    ref_data points = ref_blobs(1500, 4, 5, 0.5, 9, type);
    ref_shift(&points, 4096);
    job j = job_open(points, "5", 0);
    double *first = give_rows(&j, 5);
    km_result *result = fit(&j);
    sphere s = sphere_fit(&j.points, first, 5, 1000);
    ck_assert_mem_eq(result->models[0].labels, s.labels, 1500 * sizeof *s.labels);
    ck_assert_double_lt(s.inertia, 0.1);
    REF_NEAR(result->models[0].inertia, s.inertia, (type == KM_FLOAT32 ? 1e-5 : 1e-9) * s.inertia);
    sphere_free(&s);
    free(first);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Rows of any size: a power of two changes no bit, squares neither overflow nor vanish, and denormal rows count.
START_TEST(rows_of_any_size) {
    static const int powers[] = {0, 600, 1000, -600, -1040};
    uint64_t digest = 0;
    for (int p = 0; p < 5; p++) {
        ref_data points = ref_grid(300, 4, 9, 2, KM_FLOAT64);
        for (int64_t i = 0; i < points.n; i++) {
            points.x[4 * i] += 1; // no row of zeros
            for (int f = 0; f < 4 && i % 3; f++) points.x[4 * i + f] = ldexp(points.x[4 * i + f], powers[p]);
        }
        job j = job_open(points, "3..5", _i);
        j.spec.type = KM_FLOAT64;
        km_result *result = fit(&j);
        if (p) ck_assert_uint_eq(km_result_digest(result), digest);
        digest = km_result_digest(result);
        km_result_destroy(&result);
        job_close(&j);
    }
}
END_TEST

// Rows that cancel each other out have no direction in common: the centroid stays.
START_TEST(rows_that_cancel_keep_the_centroid) {
    km_type type = _i & 1 ? KM_FLOAT64 : KM_FLOAT32;
    static const double x[] = {3, 4, -3, -4, 0.3, 0.4, -30, -40};
    static const double first[] = {4, -3};
    job j = job_open(ref_data_of(x, NULL, 4, 2, type), "1", _i >> 1);
    j.params.init = KM_INIT_GIVEN;
    j.params.init_rows = first;
    j.params.init_count = 1;
    km_result *result = fit(&j);
    REF_NEAR(result->models[0].centroids[0], 0.8, 1e-7);
    REF_NEAR(result->models[0].centroids[1], -0.6, 1e-7);
    REF_NEAR(result->models[0].inertia, 8, 1e-5);
    ck_assert(result->models[0].converged);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(rows_of_zeros_are_refused) {
    ref_data points = ref_blobs(50, 3, 4, 1.0, 8, KM_FLOAT64);
    for (int f = 0; f < 3; f++) points.x[3 * 17 + f] = points.x[3 * 40 + f] = 0;
    job j = job_open(points, "2..3", _i);
    check_refused(&j, KM_ERROR_DATA, "row 18: all values are 0, so there is no direction");
    check_refused(&j, KM_ERROR_DATA, "(2 such rows in all); leave such rows out");
    job_close(&j);
}
END_TEST

static void write_file(char *path, size_t size, const char *name, const char *text) {
    snprintf(path, size, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

// As rows with missing values are: no label, but a warning; and by predict, too.
START_TEST(rows_of_zeros_are_dropped) {
    static const char text[] = "a,b\n3,4\n0,0\n-1,0\nNA,1\n6,8\n0,0\n-7,0.1\n";
    static const int32_t expected[] = {0, -1, 1, -1, 0, -1, 1};
    km_error err = {{0}};
    char path[128], model[128];
    int32_t labels[7] = {0};
    km_data_params params;
    km_data_params_init(&params);
    write_file(path, sizeof path, "zeros.csv", text);
    snprintf(model, sizeof model, "%s/zeros.json", folder);
    job j = job_open(ref_uniform(8, 2, 1, KM_FLOAT64), "2", 0);
    km_data_destroy(&j.data);
    params.missing = KM_MISSING_DROP;
    must(km_data_open(&j.data, path, &params, &err), &err, "zeros.csv");
    km_result *result = fit(&j);
    ck_assert_int_eq(result->n, 4);
    ck_assert_int_eq(result->rows, 7);
    int said = 0;
    for (int64_t i = 0; i < result->warnings_count; i++)
        said +=
            strstr(result->warnings[i], "2 of 7 rows of ") && strstr(result->warnings[i], "are all zeros");
    ck_assert_int_eq(said, 1);
    // Both clusters weigh the same: their centroids order them, the negative one first.
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(result->models[0].labels[i], expected[i] < 0 ? -1 : 1 - expected[i]);
    km_predictor *saved = NULL;
    must(km_predictor_write(model, result, 0, &err), &err, "write");
    must(km_predictor_read(&saved, model, &err), &err, "read");
    must(km_predict(labels, saved, j.data, &j.params, &err), &err, "predict");
    ck_assert_mem_eq(labels, result->models[0].labels, sizeof labels);
    km_data_destroy(&j.data);
    params.missing = KM_MISSING_MEAN;
    must(km_data_open(&j.data, path, &params, &err), &err, "zeros.csv");
    ck_assert_int_eq(km_predict(labels, saved, j.data, &j.params, &err), KM_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(err.text, "row 3: all values are 0"));
    ck_assert_ptr_nonnull(strstr(err.text, "drop such rows by --missing drop"));
    km_predictor_destroy(&saved);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Of the data, and of rows of other lengths; exact ties go to the lowest number. _i: type, layout.
START_TEST(predict_equals_labels) {
    km_error err = {{0}};
    char path[128];
    km_type type = _i & 1 ? KM_FLOAT64 : KM_FLOAT32;
    int is_sparse = _i >> 1 & 1;
    snprintf(path, sizeof path, "%s/model-%d.json", folder, _i);
    ref_data points = ref_grid(2003, 3, 5, 6, type);
    for (int64_t i = 0; i < points.n; i++) points.x[3 * i + i % 3] += 1;
    ref_data longer = ref_data_copy(&points);
    for (int64_t i = 0; i < points.n * 3; i++) longer.x[i] *= 1 << (i / 3 % 4);
    job j = job_open(points, "2..7", is_sparse), other = job_open(longer, "2..7", is_sparse);
    km_result *result = fit(&j);
    int32_t *labels = calloc(2003, sizeof *labels);
    for (int64_t m = 0; m < result->models_count; m++) {
        km_predictor *saved = NULL;
        must(km_predictor_write(path, result, m, &err), &err, "km_predictor_write");
        must(km_predictor_read(&saved, path, &err), &err, "km_predictor_read");
        must(km_predict(labels, saved, j.data, &j.params, &err), &err, "km_predict");
        ck_assert_mem_eq(labels, result->models[m].labels, 2003 * sizeof *labels);
        must(km_predict(labels, saved, other.data, &j.params, &err), &err, "km_predict");
        ck_assert_mem_eq(labels, result->models[m].labels, 2003 * sizeof *labels);
        km_predictor_destroy(&saved);
    }
    free(labels);
    km_result_destroy(&result);
    job_close(&j);
    job_close(&other);
}
END_TEST

// Criteria are those of the table of rows of length 1 with the model's labels.
START_TEST(criteria_are_those_of_unit_rows) {
    km_error err = {{0}};
    static const int compared[] = {KM_CRITERION_calinski_harabasz, KM_CRITERION_davies_bouldin,
                                   KM_CRITERION_silhouette, KM_CRITERION_silhouette_euclidean};
    job j = job_open(ref_blobs(900, 4, 5, 3.0, 13, KM_FLOAT64), "3..5", _i);
    j.params.criteria = UINT64_C(1) << KM_CRITERION_silhouette | UINT64_C(1)
                                                                     << KM_CRITERION_silhouette_euclidean;
    km_result *result = fit(&j);
    ref_data rows = ref_data_copy(&j.points);
    for (int64_t i = 0; i < rows.n; i++) ck_assert(divide(rows.x + 4 * i, 4));
    km_data *unit = NULL;
    must(km_data_from_memory(&unit, rows.x, 900, 4, KM_FLOAT64, 0, 0, NULL, &err), &err, "rows");
    int64_t labels[900];
    for (int64_t m = 0; m < result->models_count; m++) {
        km_label_scores *scores = NULL, *scaled = NULL;
        km_score_params params;
        km_score_params_init(&params);
        for (int i = 0; i < 900; i++) labels[i] = result->models[m].labels[i];
        must(km_score_labels(&scores, unit, labels, 900, &params, &err), &err, "score");
        params.scale = KM_SCALE_UNIT;
        must(km_score_labels(&scaled, j.data, labels, 900, &params, &err), &err, "score");
        for (int c = 0; c < 4; c++) {
            double expected = scores->scores[compared[c]];
            REF_NEAR(result->models[m].scores[compared[c]], expected, 1e-9 * fabs(expected));
            REF_NEAR(scaled->scores[compared[c]], expected, 1e-9 * fabs(expected));
        }
        km_label_scores_destroy(&scores);
        km_label_scores_destroy(&scaled);
    }
    km_data_destroy(&unit);
    ref_data_free(&rows);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(the_metric_is_the_scale) {
    km_error err = {{0}};
    job j = job_open(ref_blobs(300, 3, 4, 1.0, 8, KM_FLOAT32), "2..4", 0);
    km_result *by_scale = fit(&j);
    j.params.scale = KM_SCALE_NONE;
    must(km_spec_set_metric(&j.spec, "cosine", &err), &err, "metric");
    km_result *by_metric = fit(&j);
    ck_assert_uint_eq(km_result_digest(by_scale), km_result_digest(by_metric));
    km_result_destroy(&by_scale);
    km_result_destroy(&by_metric);
    j.params.scale = KM_SCALE_STANDARD;
    check_refused(&j, KM_ERROR_USAGE, "the scale standard does not go with");
    j.params.scale = KM_SCALE_UNIT;
    j.params.criteria = UINT64_C(1) << KM_CRITERION_gap;
    check_refused(&j, KM_ERROR_USAGE, "gap, gap_2001 and prediction_strength are not there");
    j.params.criteria = 0;
    static const double zero[6] = {1, 2, 3};
    j.params.init = KM_INIT_GIVEN;
    j.params.init_rows = zero;
    j.params.init_count = 2;
    must(km_spec_set_clusters(&j.spec, "2", &err), &err, "clusters");
    check_refused(&j, KM_ERROR_DATA, "the initial centroids: row 2: all values are 0");
    ck_assert_int_eq(km_spec_set_metric(&j.spec, "cosin", &err), KM_ERROR_SPEC);
    ck_assert_str_eq(km_metric_name(j.spec.metric), "cosine");
    job_close(&j);
}
END_TEST

// Points that lie on a device come to the host, which divides them.
START_TEST(points_on_the_device) {
    km_error err = {{0}};
    km_type type = _i ? KM_FLOAT64 : KM_FLOAT32;
    ref_data points = ref_blobs(70001, 3, 6, 1.0, 19, type);
    job j = job_open(points, "2..5", 0);
    km_result *host = fit(&j);
    km_data_destroy(&j.data);
    void *there = copy_to_device(j.values, (size_t)(points.n * 3 * (type == KM_FLOAT64 ? 8 : 4)));
    ck_assert_ptr_nonnull(there);
    must(km_data_from_device(&j.data, 0, there, points.n, 3, type, NULL, NULL, &err), &err, "data");
    km_result *device = fit(&j);
    ck_assert_uint_eq(km_result_digest(host), km_result_digest(device));
    km_predictor *model = NULL;
    int32_t *labels = calloc((size_t)points.n, sizeof *labels);
    must(km_predictor_create(&model, device, 0, &err), &err, "km_predictor_create");
    must(km_predict(labels, model, j.data, &j.params, &err), &err, "km_predict");
    ck_assert_mem_eq(labels, device->models[0].labels, (size_t)points.n * sizeof *labels);
    free(labels);
    km_predictor_destroy(&model);
    km_result_destroy(&host);
    km_result_destroy(&device);
    job_close(&j);
}
END_TEST

static Suite *suite_of(void) {
    int is_cpu = strcmp(target, "cuda") != 0, is_prebuilt = design && !strcmp(design, "prebuilt");
    Suite *suite = suite_create("cosine");
    TCase *values = tcase_create("values"), *rows = tcase_create("rows");
    suite_add_tcase(suite, values);
    suite_add_tcase(suite, rows);
    tcase_set_timeout(values, 300);
    tcase_set_timeout(rows, 300);
    for (int w = 0; w < WIDTHS; w++) {
        TCase *width = tcase_create(width_names[w]);
        suite_add_tcase(suite, width);
        tcase_set_timeout(width, 300);
        tcase_add_loop_test(width, as_the_reference, 8 * w, 8 * w + 8);
    }
    if (is_cpu && is_prebuilt) tcase_add_loop_test(values, algorithms_as_the_reference, 0, 8);
    tcase_add_loop_test(values, same_bits_on_any_threads, 0, 4);
    tcase_add_loop_test(values, refined_models_have_length_one, 0, 2);
    tcase_add_loop_test(values, an_empty_cluster_gets_a_row, 0, 4);
    tcase_add_loop_test(values, a_narrow_cone, 0, 2);
    tcase_add_loop_test(rows, rows_of_any_size, 0, 2);
    tcase_add_loop_test(rows, rows_that_cancel_keep_the_centroid, 0, 4);
    tcase_add_loop_test(rows, rows_of_zeros_are_refused, 0, 2);
    tcase_add_test(rows, rows_of_zeros_are_dropped);
    tcase_add_loop_test(rows, predict_equals_labels, 0, 4);
    tcase_add_loop_test(rows, criteria_are_those_of_unit_rows, 0, 2);
    tcase_add_test(rows, the_metric_is_the_scale);
    if (!is_cpu) tcase_add_loop_test(rows, points_on_the_device, 0, 2);
    return suite;
}

int main(int argc, char **argv) {
    const char *what = argc == 2 ? argv[1] : "";
    if (!strcmp(what, "cuda")) {
        target = "cuda";
        design = NULL;
    } else if (!strcmp(what, "cpu-lanes")) {
        design = "lanes";
    } else if (strcmp(what, "cpu") != 0) {
        fprintf(stderr, "usage: test_cosine cpu|cpu-lanes|cuda\n");
        return 2;
    }
    return device_main("cuda", !strcmp(target, "cuda"), suite_of);
}

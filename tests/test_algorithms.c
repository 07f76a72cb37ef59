// SPDX-License-Identifier: MIT
// Every algorithm that skips distances against lloyd: the same labels, iterations and inertia, on every kind of data
// that the fit knows. What a pass assigns is checked against the double reference, ambiguous points included. Lloyd in
// float32 may label ambiguous points otherwise, and iterations then part: it is compared after one iteration. The
// algorithms that resolve ambiguous points in double are compared with each other to the end.
#include "device_main.h"
#include "kernel_cache.h"
#include "reference.h"
#include "quiet_check.h"
#include "short_form.h"
#include <kmgen/module.h>
#include <kmgen/fit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const km_algorithm algorithms[] = {KM_ALGORITHM_TILES, KM_ALGORITHM_HAMERLY, KM_ALGORITHM_ELKAN};
enum { ALGORITHMS_COUNT = sizeof algorithms / sizeof *algorithms };

// One comparison; zeros are defaults.
typedef struct job {
    const char *clusters;
    int64_t restarts, concurrent, max_iter, changes_min, threads;
    double tol;
    const char *design; // prebuilt
    const char *target; // cpu
    const double *init;
    int64_t init_count;
    int may_differ;     // lloyd's own labels are not exact: only the contract is asked for
    int many_ambiguous; // so many ambiguous points that lloyd in float32 labels some otherwise in its first pass
} job;

static km_result *fit(const ref_data *points, const job *j, km_algorithm algorithm) {
    km_error err = {{0}};
    km_spec spec;
    km_data *data = NULL;
    km_fit_params params;
    km_result *result = NULL;
    char number[32];
    void *values = ref_values(points);
    km_spec_init(&spec);
    spec.type = points->type;
    spec.n_init = j->restarts ? j->restarts : 1;
    km_status status = km_spec_set_clusters(&spec, j->clusters, &err);
    if (status == KM_OK) status = km_spec_set_target(&spec, j->target ? j->target : "cpu", &err);
    int is_cuda = j->target && !strcmp(j->target, "cuda");
    if (status == KM_OK && !is_cuda)
        status = km_spec_fix(&spec, "design", j->design ? j->design : "prebuilt", &err);
    snprintf(number, sizeof number, "%lld", (long long)j->concurrent);
    if (status == KM_OK && j->concurrent) status = km_spec_fix(&spec, "concurrent_restarts", number, &err);
    if (status == KM_OK)
        status =
            km_data_from_memory(&data, values, points->n, points->d, points->type, 0, 0, points->w, &err);
    km_fit_params_init(&params);
    params.algorithm = algorithm;
    params.refine = 0; // its passes are those of the sweep, and are not in the counters
    params.max_iter = j->max_iter ? j->max_iter : 100;
    params.changes_min = j->changes_min;
    params.threads = j->threads;
    params.cache_dir = j->design || is_cuda ? kernel_cache(NULL) : NULL;
    params.compiler = is_cuda ? NULL : quick_compiler();
    params.tol = j->tol;
    params.labels = KM_LABELS_ALL;
    params.init = j->init ? KM_INIT_GIVEN : KM_INIT_PLUSPLUS;
    params.init_rows = j->init;
    params.init_count = j->init_count;
    if (status == KM_OK) status = km_fit(&result, &spec, data, &params, &err);
    ck_assert_msg(status == KM_OK, "%s: %s", km_algorithm_name(algorithm), err.text);
    km_data_destroy(&data);
    km_spec_clear(&spec);
    free(values);
    return result;
}

// What each algorithm may compute beyond lloyd's distances, for every pass.
static double extra_of(const km_result *result, const km_counters *c) {
    double boxes = ceil((double)result->n / 64) + ceil((double)result->n / 1024) + 34;
    if (c->algorithm == KM_ALGORITHM_TILES) return (double)c->distances_lloyd * boxes / (double)result->n;
    // One distance more for each point whose bound is made tight before all are computed.
    if (c->algorithm == KM_ALGORITHM_HAMERLY) return (double)c->distances_lloyd / result->models[0].k;
    return 0;
}

static void compare_counters(const km_result *result, const km_result *other, km_algorithm algorithm,
                             km_algorithm compared) {
    const km_counters *c = &result->counters;
    ck_assert_int_eq(c->algorithm, algorithm);
    ck_assert_int_eq(other->counters.algorithm, compared);
    if (compared == KM_ALGORITHM_LLOYD) {
        ck_assert_int_eq(other->counters.distances, other->counters.distances_lloyd);
        ck_assert_int_eq(other->counters.points_skipped, 0);
    }
    ck_assert_int_gt(c->distances, 0);
    ck_assert_int_ge(c->points_skipped, 0);
    ck_assert_double_le((double)c->distances, (double)c->distances_lloyd + extra_of(result, c));
}

// The same clustering in the same numbers: restart, iterations, labels, best K; centroids but for the order of sums.
static void compare_models(const km_result *one, const km_result *other, const char *name,
                           const char *against) {
    double accuracy = one->type == KM_FLOAT32 ? 0x1p-22 : 1e-12;
    ck_assert_int_eq(one->selection.best, other->selection.best);
    for (int64_t m = 0; m < one->models_count; m++) {
        const km_model *a = &one->models[m], *b = &other->models[m];
        ck_assert_msg(a->restart == b->restart, "%s, K=%d: restart %lld, %s's %lld", name, a->k,
                      (long long)b->restart, against, (long long)a->restart);
        ck_assert_msg(a->n_iter == b->n_iter, "%s, K=%d: %lld iterations, %s's %lld", name, a->k,
                      (long long)b->n_iter, against, (long long)a->n_iter);
        ck_assert_int_eq(a->converged, b->converged);
        ck_assert_int_eq(a->restarts_agreed, b->restarts_agreed);
        ck_assert_int_eq(a->effective_k, b->effective_k);
        for (int64_t i = 0; i < one->rows; i++)
            ck_assert_msg(a->labels[i] == b->labels[i], "%s, K=%d: point %lld has label %d, %s's %d", name,
                          a->k, (long long)i, b->labels[i], against, a->labels[i]);
        for (int64_t i = 0; i < a->k * one->d; i++)
            REF_NEAR(b->centroids_fitted[i], a->centroids_fitted[i],
                     accuracy * (1 + fabs(a->centroids_fitted[i])));
    }
}

// The part of lloyd's distances that is left. The algorithm is compared with `compared`.
static double compare_with(const ref_data *points, const job *j, km_algorithm algorithm,
                           km_algorithm compared) {
    const char *name = km_algorithm_name(algorithm), *against = km_algorithm_name(compared);
    double accuracy = points->type == KM_FLOAT32 ? 1e-6 : 1e-12;
    km_result *lloyd = fit(points, j, compared), *other = fit(points, j, algorithm);
    compare_counters(other, lloyd, algorithm, compared);
    ck_assert_int_eq(lloyd->models_count, other->models_count);
    if (!j->may_differ) {
        ck_assert_msg(other->passes == lloyd->passes, "%s: %lld passes, %s's %lld, of %lld x %lld%s", name,
                      (long long)other->passes, against, (long long)lloyd->passes, (long long)points->n,
                      (long long)points->d, points->w ? ", weighted" : "");
        ck_assert_int_eq(other->counters.distances_lloyd, lloyd->counters.distances_lloyd);
    }
    for (int64_t m = 0; m < lloyd->models_count; m++) {
        const km_model *a = &lloyd->models[m], *b = &other->models[m];
        ck_assert_msg(fabs(a->inertia - b->inertia) <= accuracy * a->inertia,
                      "%s, K=%d: inertia %.17g, %s's %.17g", name, a->k, b->inertia, against, a->inertia);
    }
    if (!j->may_differ) compare_models(lloyd, other, name, against);
    double left = (double)other->counters.distances / (double)other->counters.distances_lloyd;
    km_result_destroy(&lloyd);
    km_result_destroy(&other);
    return left;
}

static double compare(const ref_data *points, const job *j, km_algorithm algorithm) {
    if (points->type == KM_FLOAT64 || j->may_differ)
        return compare_with(points, j, algorithm, KM_ALGORITHM_LLOYD);
    job once = *j;
    once.max_iter = once.may_differ = 1;
    if (!j->many_ambiguous) compare_with(points, &once, algorithm, KM_ALGORITHM_LLOYD);
    return compare_with(points, j, algorithm,
                        algorithm == KM_ALGORITHM_TILES     ? KM_ALGORITHM_HAMERLY
                        : algorithm == KM_ALGORITHM_HAMERLY ? KM_ALGORITHM_ELKAN
                                                            : KM_ALGORITHM_TILES);
}

static km_type type_of(int i) {
    return i % 2 ? KM_FLOAT32 : KM_FLOAT64;
}

static km_algorithm algorithm_of(int i) {
    return algorithms[i / 2];
}

// Of a row of cases the short form takes every other one, so that each case has each algorithm, in one of the types.
static int is_other(int which, int i) {
    return !is_whole() && (which + i / 2 + i) % 2;
}

START_TEST(blobs) {
    static const int64_t features[] = {1, 2, 3, 4, 5, 8, 16, 21};
    for (int f = 0; f < (int)(sizeof features / sizeof *features); f++) {
        if (is_other(f, _i)) continue;
        ref_data points = ref_blobs(4999, features[f], 7, 0.7, 11, type_of(_i));
        double left = compare(&points, &(job){.clusters = "2..9"}, algorithm_of(_i));
        if (features[f] >= 2 && features[f] <= 4)
            ck_assert_double_lt(left, algorithm_of(_i) == KM_ALGORITHM_TILES ? 0.6 : 0.75);
        ref_data_free(&points);
    }
}
END_TEST

START_TEST(uniform) {
    static const int64_t features[] = {2, 8};
    for (int f = 0; f < 2; f++) {
        if (is_other(f, _i)) continue;
        ref_data points = ref_uniform(6007, features[f], 5, type_of(_i));
        compare(&points, &(job){.clusters = "3,8,20", .max_iter = 30}, algorithm_of(_i));
        ref_data_free(&points);
    }
}
END_TEST

// Numbers of points around a tile, a supertile, a box group of supertiles.
START_TEST(sizes) {
    static const int64_t counts[] = {5, 63, 64, 65, 1023, 1024, 1025, 16383, 16385};
    for (int c = 0; c < (int)(sizeof counts / sizeof *counts); c++) {
        ref_data points = ref_blobs(counts[c], 3, 4, 2.0, 3, type_of(_i));
        compare(&points, &(job){.clusters = "2..5"}, algorithm_of(_i));
        ref_data_free(&points);
    }
}
END_TEST

// Exact ties: to the lowest index.
START_TEST(ties) {
    ref_data points = ref_grid(3001, 2, 9, 5, type_of(_i));
    double init[] = {2, 4, 6, 4, 4, 2, 4, 6, 4, 4};
    compare(&points, &(job){.clusters = "2,3,4,5", .init = init, .init_count = 5}, algorithm_of(_i));
    compare(&points, &(job){.clusters = "2..7", .restarts = 3}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

START_TEST(offset) {
    ref_data points = ref_blobs(5003, 3, 5, 0.5, 4, type_of(_i));
    ref_shift(&points, 1e5);
    compare(&points, &(job){.clusters = "2..6"}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

START_TEST(outlier) {
    ref_data points = ref_blobs(5003, 3, 5, 0.5, 4, type_of(_i));
    points.x[3 * 77] = 1e6;
    compare(&points, &(job){.clusters = "2..6"}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

START_TEST(weights) {
    ref_data points = ref_blobs(5003, 4, 6, 1.5, 8, type_of(_i));
    ref_weigh(&points, 3);
    compare(&points, &(job){.clusters = "2..8", .restarts = 2}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

// Weights of any size: sums of floats, too, are rounded then.
static void weigh_unevenly(ref_data *points) {
    points->w = malloc((size_t)points->n * sizeof *points->w);
    ck_assert_ptr_nonnull(points->w);
    for (int64_t i = 0; i < points->n; i++) points->w[i] = 0.1 + (double)(i * 7919 % 1009) / 331;
}

enum { SHAPES = 6 };
static ref_data shape_of(int shape, km_type type) {
    ref_data points = shape == 0   ? ref_blobs(2003, 5, 7, 4.0, 11, type)
                      : shape == 1 ? ref_blobs(3001, 3, 7, 5.0, 12, type)
                      : shape == 2 ? ref_blobs(1023, 1, 4, 3.0, 13, type)
                      : shape == 3 ? ref_uniform(1201, 7, 14, type)
                      : shape == 4 ? ref_grid(1009, 3, 4, 15, type) // equal points, exact ties
                                   : ref_blobs(2503, 2, 3, 4.0, 16, type);
    return points;
}

// Restarts that end at the same optimum have inertias that differ by rounding, and each algorithm rounds otherwise. The
// lowest restart is the best, whatever the algorithm.
START_TEST(restarts_of_equal_cost) {
    if (!is_sample() && is_other(1, _i)) return; // each algorithm in one type
    for (int shape = 0; shape < SHAPES; shape++)
        for (int weighted = 0; weighted < 2; weighted++) {
            if (is_other(shape + weighted, _i) || (is_sample() && shape % 2)) continue;
            ref_data points = shape_of(shape, type_of(_i));
            if (weighted) weigh_unevenly(&points);
            compare(&points, &(job){.clusters = "2..5", .restarts = 8, .threads = 1, .many_ambiguous = 1},
                    algorithm_of(_i));
            ref_data_free(&points);
        }
}
END_TEST

// The same for designs of lloyd, whose sums are in an order of their own each, and for restarts done in another order.
START_TEST(designs) {
    static const char *const names[] = {"lanes", "gemm"};
    for (int shape = 0; shape < SHAPES; shape++)
        for (int weighted = 0; weighted < 2; weighted++) {
            if (is_sample() && (shape % 2 == 0 || weighted != shape / 2 % 2)) continue;
            ref_data points = shape_of(shape, KM_FLOAT64);
            if (weighted) weigh_unevenly(&points);
            job j = {.clusters = "2..5", .restarts = 8, .threads = 1};
            km_result *prebuilt = fit(&points, &j, KM_ALGORITHM_LLOYD);
            j.concurrent = 3;
            km_result *few = fit(&points, &j, KM_ALGORITHM_LLOYD);
            compare_models(prebuilt, few, "three concurrent restarts", "prebuilt");
            j.design = names[_i];
            km_result *other = fit(&points, &j, KM_ALGORITHM_LLOYD);
            compare_models(prebuilt, other, names[_i], "prebuilt");
            km_result_destroy(&prebuilt);
            km_result_destroy(&few);
            km_result_destroy(&other);
            ref_data_free(&points);
        }
}
END_TEST

// Each K alone has the best restart that it has in a list.
START_TEST(alone) {
    ref_data points = shape_of(1, KM_FLOAT64);
    weigh_unevenly(&points);
    km_algorithm algorithm = _i ? algorithms[_i - 1] : KM_ALGORITHM_LLOYD;
    km_result *all = fit(&points, &(job){.clusters = "2..6", .restarts = 8, .threads = 1}, algorithm);
    for (int k = 2; k <= 6; k++) {
        char list[8];
        snprintf(list, sizeof list, "%d", k);
        km_result *one = fit(&points, &(job){.clusters = list, .restarts = 8, .threads = 1}, algorithm);
        const km_model *a = &all->models[k - 2], *b = &one->models[0];
        ck_assert_int_eq(a->restart, b->restart);
        ck_assert_int_eq(a->restarts_agreed, b->restarts_agreed);
        ck_assert_mem_eq(a->labels, b->labels, (size_t)points.n * sizeof *a->labels);
        km_result_destroy(&one);
    }
    km_result_destroy(&all);
    ref_data_free(&points);
}
END_TEST

START_TEST(one_and_all) {
    ref_data points = ref_uniform(40, 2, 2, type_of(_i));
    compare(&points, &(job){.clusters = "1,39,40", .restarts = 2}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

START_TEST(many_clusters) {
    ref_data points = ref_blobs(6007, 2, 40, 0.3, 2, type_of(_i));
    compare(&points, &(job){.clusters = "40,300", .max_iter = 10}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

START_TEST(concurrent_restarts) {
    ref_data points = ref_blobs(3001, 2, 6, 1.0, 8, type_of(_i));
    compare(&points, &(job){.clusters = "3..6", .restarts = 7, .concurrent = 3}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

// Clusters that lose their points, and more clusters than different points.
START_TEST(empties) {
    ref_data points = ref_blobs(3001, 2, 4, 0.5, 8, type_of(_i)), few = ref_grid(2000, 2, 2, 4, type_of(_i));
    double init[] = {0, 0, 1e3, 1e3, 2e3, 1e3, 1, 1, 1, 1};
    compare(&points, &(job){.clusters = "5", .init = init, .init_count = 5}, algorithm_of(_i));
    compare(&few, &(job){.clusters = "3..7", .restarts = 2}, algorithm_of(_i));
    ref_data_free(&points);
    ref_data_free(&few);
}
END_TEST

START_TEST(min_changes) {
    if (!is_sample() && is_other(1, _i)) return; // each algorithm in one type
    ref_data points = ref_blobs(9001, 2, 8, 2.0, 8, type_of(_i));
    compare(&points, &(job){.clusters = "2..9", .changes_min = 60, .restarts = 2}, algorithm_of(_i));
    compare(&points, &(job){.clusters = "300", .changes_min = 200}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

START_TEST(tolerance) {
    ref_data points = ref_blobs(9001, 3, 8, 2.0, 8, type_of(_i));
    compare(&points, &(job){.clusters = "2..9", .tol = 1e-3}, algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

// Beside the specialised kernels, whose float labels may differ from lloyd in double within the contract.
START_TEST(lanes) {
    ref_data points = ref_blobs(20011, 3, 5, 1.0, 8, type_of(_i));
    compare(&points, &(job){.clusters = "2..5", .design = "lanes", .may_differ = type_of(_i) == KM_FLOAT32},
            algorithm_of(_i));
    ref_data_free(&points);
}
END_TEST

// Older instruction sets than the machine's own, which all other tests take.
START_TEST(instruction_sets) {
    km_error err = {{0}};
    km_device_facts facts;
    km_device_facts_init(&facts, (km_target){KM_TARGET_CPU, 0});
    ck_assert_msg(km_device_query(&facts, KM_HOST, &err) == KM_OK, "%s", err.text);
    int32_t arch = facts.target.arch;
    for (int d = 2; d <= 5; d += 3) {
        if (is_other(d, _i)) continue;
        ref_data points = ref_blobs(5009, d, 7, 1.0, 8, type_of(_i));
        compare(&points, &(job){.clusters = "2..9", .target = "cpu:generic"}, algorithm_of(_i));
        if (arch == KM_ISA_AVX2 || arch == KM_ISA_AVX512)
            compare(&points, &(job){.clusters = "2..9", .target = "cpu:avx2"}, algorithm_of(_i));
        ref_data_free(&points);
    }
}
END_TEST

static ref_data table(const char *name, km_type type) {
    km_error err = {{0}};
    km_data *data = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", KM_TEST_DATA, name);
    ck_assert_msg(km_data_open(&data, path, NULL, &err) == KM_OK, "%s", err.text);
    ref_data points = ref_data_make(km_data_points(data), km_data_features(data), type);
    ck_assert_int_eq(km_data_read(points.x, data, 0, points.n, KM_FLOAT64, &err), KM_OK);
    for (int64_t i = 0; i < points.n * points.d; i++) points.x[i] = ref_round(points.x[i], type);
    km_data_destroy(&data);
    return points;
}

START_TEST(tables) {
    static const char *const names[] = {"iris.csv", "ruspini.csv"};
    for (int t = 0; t < 2; t++) {
        ref_data points = table(names[t], type_of(_i));
        compare(&points, &(job){.clusters = "2..10", .restarts = 5, .many_ambiguous = 1}, algorithm_of(_i));
        ref_data_free(&points);
    }
}
END_TEST

// Labels of one pass equal the double reference's, shown by the means that follow from them: one point that is near a
// tie and on the wrong side moves a mean by far more than rounding. Half of the points lie on the plane between the
// first two centroids, up to the last bits of a float.
START_TEST(near_ties) {
    enum { N = 4001, D = 3, K = 4 };
    km_type type = type_of(_i);
    ref_data points = ref_uniform(N, D, 6, type);
    double init[K * D] = {-0.5, -0.25, 0.125, 0.5, 0.25, -0.125, 0.9, -0.9, 0.9, -0.9, 0.9, -0.9};
    double step = type == KM_FLOAT32 ? 0x1p-24 : 0x1p-53;
    for (int64_t i = 0; i < N; i += 2) { // -0.5 x - 0.25 y + 0.125 z = 0, but for the last bits of x
        double *x = points.x + i * D;
        x[0] = ref_round((-0.25 * x[1] + 0.125 * x[2]) / 0.5 + (double)(i / 2 % 5 - 2) * step, type);
    }
    // The engine centres its points: ambiguous points are those of the centred values, whose mean is near zero here.
    km_result *result =
        fit(&points, &(job){.clusters = "4", .init = init, .init_count = K, .max_iter = 1}, algorithm_of(_i));
    ref_data centred = ref_data_copy(&points);
    double fitted[K * D];
    for (int64_t i = 0; i < N * D; i++)
        centred.x[i] = ref_round((points.x[i] - result->centre[i % D]) * result->factor[i % D], type);
    for (int64_t i = 0; i < K * D; i++)
        fitted[i] = ref_round((init[i] - result->centre[i % D]) * result->factor[i % D], type);
    ref_finished finished = ref_finish(&centred, fitted, K);
    ref_update(fitted, NULL, NULL, &centred, finished.labels, K);
    ref_finished_free(&finished);
    for (int64_t i = 0; i < K * D; i++)
        ck_assert_double_eq_tol(result->models[0].centroids_fitted[i], fitted[i],
                                type == KM_FLOAT32 ? 1e-7 : 1e-14);
    km_result_destroy(&result);
    ref_data_free(&centred);
    ref_data_free(&points);
}
END_TEST

// The same bits for any number of threads.
START_TEST(threads) {
    if (!is_sample() && is_other(0, _i)) return; // each algorithm in one type
    ref_data points = ref_blobs(140009, 2, 6, 1.5, 8, type_of(_i));
    job one = {.clusters = "3,6", .threads = 1, .max_iter = 12}, three = one;
    three.threads = 3;
    km_result *a = fit(&points, &one, algorithm_of(_i)), *b = fit(&points, &three, algorithm_of(_i));
    ck_assert_mem_eq(&a->counters, &b->counters, sizeof a->counters);
    for (int64_t m = 0; m < a->models_count; m++)
        ck_assert_mem_eq(a->models[m].centroids_fitted, b->models[m].centroids_fitted,
                         (size_t)a->models[m].k * 2 * sizeof(double));
    km_result_destroy(&a);
    km_result_destroy(&b);
    ref_data_free(&points);
}
END_TEST

// The planner's own choice: tiles where a probe says that it pays, else lloyd; the result is the same either way. Of
// many points and features a sample of points is probed first.
START_TEST(automatic) {
    static const struct {
        int64_t n, d;
        int is_uniform;
        km_algorithm taken;
    } cases[] = {{50021, 2, 0, KM_ALGORITHM_TILES},
                 {50021, 12, 1, KM_ALGORITHM_LLOYD},
                 {280001, 6, 0, KM_ALGORITHM_TILES},
                 {280001, 8, 1, KM_ALGORITHM_LLOYD}};
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        int64_t n = cases[t].n, d = cases[t].d;
        if (is_sample() && (t == 0 || t == 3)) continue; // each choice once, each way of probing
        ref_data points =
            cases[t].is_uniform ? ref_uniform(n, d, 5, KM_FLOAT32) : ref_blobs(n, d, 9, 0.5, 5, KM_FLOAT32);
        job j = {.clusters = "4..9", .restarts = 2, .max_iter = 6};
        km_result *lloyd = fit(&points, &j, KM_ALGORITHM_LLOYD),
                  *chosen = fit(&points, &j, KM_ALGORITHM_AUTO);
        ck_assert_int_eq(chosen->plan.algorithm, KM_ALGORITHM_TILES);
        ck_assert_int_eq(chosen->plan.algorithm_fixed, 0);
        ck_assert_int_eq(chosen->counters.algorithm, cases[t].taken);
        ck_assert_int_eq(chosen->passes, lloyd->passes);
        for (int64_t m = 0; m < lloyd->models_count; m++)
            ck_assert_double_eq_tol(chosen->models[m].inertia, lloyd->models[m].inertia,
                                    1e-6 * lloyd->models[m].inertia);
        km_result_destroy(&lloyd);
        km_result_destroy(&chosen);
        ref_data_free(&points);
    }
    ref_data few = ref_blobs(500, 2, 5, 0.5, 5, KM_FLOAT32);
    km_result *small = fit(&few, &(job){.clusters = "4..9"}, KM_ALGORITHM_AUTO);
    ck_assert_int_eq(small->plan.algorithm, KM_ALGORITHM_LLOYD);
    km_result_destroy(&small);
    ref_data_free(&few);
}
END_TEST

// For many clusters the planner takes hamerly, which leaves a run's first passes to lloyd; runs of few clusters
// stay lloyd's, and those that begin while others have bounds begin with lloyd.
START_TEST(automatic_bounds) {
    ref_data points = ref_uniform(9001, 17, 5, KM_FLOAT64);
    job j = {.clusters = "9,130", .restarts = 3, .concurrent = 2, .max_iter = 40, .threads = _i};
    km_result *lloyd = fit(&points, &j, KM_ALGORITHM_LLOYD), *chosen = fit(&points, &j, KM_ALGORITHM_AUTO);
    ck_assert_int_eq(chosen->counters.algorithm, KM_ALGORITHM_HAMERLY);
    ck_assert_int_eq(chosen->passes, lloyd->passes);
    ck_assert_int_eq(chosen->counters.distances_lloyd, lloyd->counters.distances_lloyd);
    ck_assert_double_lt((double)chosen->counters.distances, 0.9 * (double)lloyd->counters.distances);
    for (int64_t m = 0; m < lloyd->models_count; m++) {
        ck_assert_int_eq(chosen->models[m].n_iter, lloyd->models[m].n_iter);
        ck_assert_mem_eq(chosen->models[m].labels, lloyd->models[m].labels,
                         (size_t)points.n * sizeof *chosen->models[m].labels);
    }
    km_result_destroy(&lloyd);
    km_result_destroy(&chosen);
    j.max_iter = 10;
    km_result *brief = fit(&points, &j, KM_ALGORITHM_AUTO);
    ck_assert_int_eq(brief->plan.algorithm, KM_ALGORITHM_HAMERLY);
    ck_assert_int_eq(brief->counters.algorithm, KM_ALGORITHM_LLOYD);
    ck_assert_int_eq(brief->counters.distances, brief->counters.distances_lloyd);
    km_result_destroy(&brief);
    ref_data_free(&points);
}
END_TEST

// Bounds that leave most of the work are dropped, and made anew when the run has taken twice as many updates.
START_TEST(automatic_bounds_dropped) {
    ref_data points = ref_uniform(is_whole() ? 20011 : 5003, 10, 6, KM_FLOAT64);
    static const int64_t updates[] = {18, 24, 60};
    int64_t skipped[3];
    for (int t = 0; t < 3; t++) {
        job j = {.clusters = "130", .max_iter = updates[t], .threads = _i};
        km_result *lloyd = fit(&points, &j, KM_ALGORITHM_LLOYD),
                  *chosen = fit(&points, &j, KM_ALGORITHM_AUTO);
        ck_assert_int_eq(chosen->counters.algorithm, KM_ALGORITHM_HAMERLY);
        ck_assert_int_eq(chosen->passes, lloyd->passes);
        ck_assert_mem_eq(chosen->models[0].labels, lloyd->models[0].labels,
                         (size_t)points.n * sizeof *chosen->models[0].labels);
        skipped[t] = chosen->counters.points_skipped;
        km_result_destroy(&lloyd);
        km_result_destroy(&chosen);
    }
    ck_assert_int_gt(skipped[0], 0);
    ck_assert_int_eq(skipped[1], skipped[0]); // passes of lloyd
    ck_assert_int_gt(skipped[2], 2 * skipped[1]);
    ref_data_free(&points);
}
END_TEST

// Points as rows and own distances first, in both types.
START_TEST(wide) {
    static const int64_t features[] = {12, 33};
    for (int f = 0; f < 2; f++) {
        if (is_other(f, _i)) continue;
        ref_data points = ref_blobs(5003, features[f], 30, 2.0, 5, type_of(_i));
        compare(&points, &(job){.clusters = "20,70", .max_iter = 40}, algorithm_of(_i));
        ref_data_free(&points);
    }
}
END_TEST

// What cannot be had is refused in words.
START_TEST(refusals) {
    km_error err = {{0}};
    km_spec spec;
    km_plan plan;
    km_plan_params params;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_plan_params_init(&params);
    spec.features = 4;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..5", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda", &err), KM_OK);
    params.algorithm = KM_ALGORITHM_ELKAN;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_ELKAN);
    ck_assert_int_eq(plan.track_labels, 1);
    params.algorithm = KM_ALGORITHM_HAMERLY;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_HAMERLY);
    ck_assert_int_eq(plan.track_labels, 1);
    params.weighted = 1;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_LLOYD);
    ck_assert_str_eq(plan.algorithm_reason, "hamerly takes on CUDA points without weights");
    params.weighted = 0;
    spec.features = 513;
    err.text[0] = 0;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_ERROR_PLAN);
    ck_assert_str_eq(
        err.text,
        "the algorithm hamerly takes on CUDA at most 512 features; take lloyd or auto, or the target cpu");
    spec.features = 4;
    err.text[0] = 0;
    params.algorithm = KM_ALGORITHM_TILES;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_TILES);
    params.weighted = 1; // weights are served by lloyd's passes, which is said
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_LLOYD);
    ck_assert_str_eq(plan.algorithm_reason, "tiles takes on CUDA points without weights");
    params.weighted = 0;
    spec.features = 17;
    err.text[0] = 0;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_ERROR_PLAN);
    ck_assert_str_eq(
        err.text,
        "the algorithm tiles takes on CUDA at most 16 features; take lloyd or auto, or the target cpu");
    spec.features = 4;
    params.algorithm = KM_ALGORITHM_LLOYD;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(&spec, "cpu", &err), KM_OK);
    spec.features = 65;
    ck_assert_int_eq(km_spec_fix(&spec, "algorithm", "tiles", &err), KM_OK);
    params.algorithm = KM_ALGORITHM_AUTO;
    err.text[0] = 0;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_ERROR_PLAN);
    ck_assert_ptr_nonnull(strstr(err.text, "at most 64 features"));
    params.algorithm = KM_ALGORITHM_LLOYD; // what is asked for wins over the spec
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_LLOYD);
    ck_assert_int_eq(plan.algorithm_fixed, 1);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
}
END_TEST

// On CUDA an algorithm whose tables the device has no room for leaves passes to lloyd, and says so: elkan's bounds of
// 4 million points take 8 GiB here, hamerly's 0.1.
START_TEST(no_room) {
    km_error err = {{0}};
    km_spec spec;
    km_plan plan;
    km_plan_params params;
    km_device_facts facts;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_plan_params_init(&params);
    spec.features = 16;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "1024", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    km_device_facts_init(&facts, spec.target);
    facts.memory_free_bytes = (int64_t)6 << 30;
    params.facts = &facts;
    params.points = 1 << 22;
    for (int a = KM_ALGORITHM_HAMERLY; a <= KM_ALGORITHM_ELKAN; a++) {
        params.algorithm = (km_algorithm)a;
        ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
        ck_assert_int_eq(plan.algorithm, a == KM_ALGORITHM_ELKAN ? KM_ALGORITHM_LLOYD : a);
    }
    ck_assert_msg(strstr(plan.algorithm_reason, "with elkan a fit needs ") == plan.algorithm_reason, "%s",
                  plan.algorithm_reason);
    ck_assert_int_le(plan.memory_bytes, facts.memory_free_bytes);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
}
END_TEST

// CUDA ----------------------------------------------------------------------------------------------------------

// The inertia of one cluster.
static double spread_of(const ref_data *points) {
    double sum = 0;
    for (int64_t f = 0; f < points->d; f++) {
        double mean = 0;
        for (int64_t i = 0; i < points->n; i++) mean += points->x[i * points->d + f] / (double)points->n;
        for (int64_t i = 0; i < points->n; i++) sum += pow(points->x[i * points->d + f] - mean, 2);
    }
    return sum;
}

// An algorithm on the GPU against hamerly on the CPU, which resolves ambiguous points in double, too.
static void compare_with_cpu(const ref_data *points, const job *j, km_algorithm algorithm,
                             km_algorithm taken) {
    job there = *j;
    there.target = "cuda";
    km_result *cpu = fit(points, j, KM_ALGORITHM_HAMERLY), *gpu = fit(points, &there, algorithm);
    ck_assert_int_eq(gpu->plan.algorithm, points->w ? KM_ALGORITHM_LLOYD : algorithm);
    ck_assert_int_eq(gpu->counters.algorithm, taken);
    if (taken != KM_ALGORITHM_LLOYD) {
        ck_assert_int_gt(gpu->counters.distances, 0);
        ck_assert_int_gt(gpu->counters.distances_lloyd, 0);
    }
    // Of few points a tile's sums are rounded: a cluster of one point has a centroid beside it.
    double rounding = points->n < 128 ? 1e-12 * spread_of(points) : 0;
    for (int64_t m = 0; m < cpu->models_count; m++) {
        const km_model *a = &cpu->models[m], *b = &gpu->models[m];
        ck_assert_msg(fabs(b->inertia - a->inertia) <= 1e-6 * a->inertia + rounding,
                      "%lld x %lld, K=%d: inertia %.17g, hamerly's %.17g", (long long)points->n,
                      (long long)points->d, a->k, b->inertia, a->inertia);
        // Sums are rounded otherwise: of restarts that end at one optimum another may be the best.
        for (int64_t i = 0; i < cpu->rows && taken != KM_ALGORITHM_LLOYD; i++)
            ck_assert_msg(a->labels[i] == b->labels[i],
                          "%lld x %lld, K=%d: point %lld has label %d, hamerly's %d", (long long)points->n,
                          (long long)points->d, a->k, (long long)i, b->labels[i], a->labels[i]);
    }
    km_result_destroy(&cpu);
    km_result_destroy(&gpu);
}

static void compare_on_gpu(const ref_data *points, const job *j, km_algorithm taken) {
    compare_with_cpu(points, j, KM_ALGORITHM_TILES, taken);
}

START_TEST(gpu_shapes) {
    static const struct {
        int64_t n, d;
        const char *clusters;
    } cases[] = {{4999, 1, "2..9"},  {20011, 2, "2..9"},  {20011, 3, "2..9"}, {4999, 5, "2..9"},
                 {4999, 8, "2..9"},  {4999, 16, "2..9"},  {5, 3, "2..5"},     {127, 3, "2..5"},
                 {128, 3, "2..5"},   {129, 3, "2..5"},    {4095, 3, "2..5"},  {4097, 3, "2..5"},
                 {16385, 3, "2..5"}, {4999, 3, "1,33,64"}};
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        if (is_few() && t % 6 != 3) continue;
        ref_data points = ref_blobs(cases[t].n, cases[t].d, 7, 1.2, 11, KM_FLOAT32);
        compare_on_gpu(&points, &(job){.clusters = cases[t].clusters, .restarts = 2, .max_iter = 30},
                       KM_ALGORITHM_TILES);
        ref_data_free(&points);
    }
}
END_TEST

START_TEST(gpu_hard_data) {
    ref_data grid = ref_grid(3001, 2, 9, 5, KM_FLOAT32), few = ref_grid(2000, 2, 2, 4, KM_FLOAT32);
    ref_data far = ref_blobs(5003, 3, 5, 0.5, 4, KM_FLOAT32),
             shifted = ref_blobs(5003, 3, 5, 0.5, 4, KM_FLOAT32),
             weighted = ref_blobs(5003, 3, 5, 0.5, 4, KM_FLOAT32);
    double init[] = {2, 4, 6, 4, 4, 2, 4, 6, 4, 4};
    far.x[3 * 77] = 1e6;
    ref_shift(&shifted, 1e5);
    ref_weigh(&weighted, 3);
    compare_on_gpu(&grid, &(job){.clusters = "2,3,4,5", .init = init, .init_count = 5}, KM_ALGORITHM_TILES);
    compare_on_gpu(&few, &(job){.clusters = "3..7", .restarts = 2}, KM_ALGORITHM_TILES);
    compare_on_gpu(&shifted, &(job){.clusters = "2..6"}, KM_ALGORITHM_TILES);
    compare_on_gpu(&far, &(job){.clusters = "2..6", .max_iter = 1}, KM_ALGORITHM_LLOYD); // few points far out
    compare_on_gpu(&weighted, &(job){.clusters = "2..6", .max_iter = 1}, KM_ALGORITHM_LLOYD);
    ref_data all = ref_uniform(40, 2, 2, KM_FLOAT32), equal = ref_uniform(3001, 2, 2, KM_FLOAT32);
    for (int64_t i = 0; i < equal.n * equal.d; i++) equal.x[i] = 0.5;
    compare_on_gpu(&all, &(job){.clusters = "1,39,40", .restarts = 2}, KM_ALGORITHM_TILES);
    compare_on_gpu(&equal, &(job){.clusters = "1..3", .restarts = 2}, KM_ALGORITHM_TILES);
    ref_data_free(&all);
    ref_data_free(&equal);
    ref_data_free(&grid);
    ref_data_free(&few);
    ref_data_free(&far);
    ref_data_free(&shifted);
    ref_data_free(&weighted);
}
END_TEST

static void bounds_on_gpu(const ref_data *points, const job *j, int i) {
    km_algorithm algorithm = i / 2 ? KM_ALGORITHM_ELKAN : KM_ALGORITHM_HAMERLY;
    compare_with_cpu(points, j, algorithm, points->w ? KM_ALGORITHM_LLOYD : algorithm);
}

// Hamerly and elkan: features in whole pieces and not, points in whole tiles and not, centroids in whole squares and
// not; labels of one and of two bytes; lists of small K, which have another dense design.
START_TEST(gpu_bounds_shapes) {
    static const struct {
        int64_t n, d;
        const char *clusters;
    } cases[] = {{4999, 1, "2..9"},   {20011, 2, "3,70"},     {4999, 3, "65"},      {20011, 16, "64,256"},
                 {4999, 17, "200"},   {9001, 32, "300"},      {9001, 64, "64,130"}, {5003, 128, "257"},
                 {2003, 130, "33"},   {1009, 300, "40,50"},   {31, 5, "2..5"},      {33, 20, "1,32"},
                 {701, 512, "20,70"}, {30011, 24, "1,2,1000"}};
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        if (is_few() ? t != 2 : is_other((int)t, _i)) continue;
        ref_data points = ref_blobs(cases[t].n, cases[t].d, 40, 1.2, 11, type_of(_i));
        bounds_on_gpu(&points, &(job){.clusters = cases[t].clusters, .max_iter = 40}, _i);
        ref_data_free(&points);
        if (is_few()) continue;
        points = ref_uniform(cases[t].n, cases[t].d, 3, type_of(_i));
        bounds_on_gpu(&points, &(job){.clusters = cases[t].clusters, .max_iter = 12}, _i);
        ref_data_free(&points);
    }
}
END_TEST

START_TEST(gpu_bounds_hard_data) {
    km_type type = type_of(_i);
    ref_data grid = ref_grid(3001, 2, 9, 5, type), few = ref_grid(2000, 2, 2, 4, type);
    ref_data far = ref_blobs(5003, 3, 5, 0.5, 4, type), shifted = ref_blobs(5003, 3, 5, 0.5, 4, type),
             weighted = ref_blobs(5003, 3, 5, 0.5, 4, type), many = ref_blobs(6007, 20, 60, 0.5, 9, type);
    ref_data all = ref_uniform(40, 2, 2, type), equal = ref_uniform(3001, 2, 2, type);
    double init[] = {2, 4, 6, 4, 4, 2, 4, 6, 4, 4};
    far.x[3 * 77] = 1e6;
    ref_shift(&shifted, 1e5);
    ref_weigh(&weighted, 3);
    for (int64_t i = 0; i < equal.n * equal.d; i++) equal.x[i] = 0.5;
    bounds_on_gpu(&grid, &(job){.clusters = "2,3,4,5", .init = init, .init_count = 5}, _i);
    bounds_on_gpu(&grid, &(job){.clusters = "100"}, _i);
    bounds_on_gpu(&few, &(job){.clusters = "3..7", .restarts = 2}, _i);
    bounds_on_gpu(&shifted, &(job){.clusters = "2..6"}, _i);
    bounds_on_gpu(&far, &(job){.clusters = "2..6"}, _i);
    bounds_on_gpu(&weighted, &(job){.clusters = "2..6", .max_iter = 1}, _i);
    bounds_on_gpu(&all, &(job){.clusters = "1,39,40", .restarts = 2}, _i);
    bounds_on_gpu(&equal, &(job){.clusters = "1..3", .restarts = 2}, _i);
    bounds_on_gpu(&many, &(job){.clusters = "50,70", .changes_min = 5}, _i);
    // All first centroids in one cluster: most of them end without points, which are relocated.
    double near[80 * 20];
    for (int64_t i = 0; i < 80 * 20; i++) near[i] = many.x[i % 20] + 1e-3 * (double)(i / 20);
    bounds_on_gpu(&many, &(job){.clusters = "80", .init = near, .init_count = 80}, _i);
    ref_data_free(&grid);
    ref_data_free(&few);
    ref_data_free(&far);
    ref_data_free(&shifted);
    ref_data_free(&weighted);
    ref_data_free(&many);
    ref_data_free(&all);
    ref_data_free(&equal);
}
END_TEST

START_TEST(gpu_bounds_restarts) {
    ref_data points = ref_blobs(9001, 12, 50, 1.5, 8, type_of(_i));
    bounds_on_gpu(&points, &(job){.clusters = "40,64,90", .restarts = 7, .concurrent = 3}, _i);
    ref_data_free(&points);
}
END_TEST

// The planner's own choice, of clusters that lie apart and of points without any: lloyd's inertia, and the same bits
// each time.
START_TEST(gpu_bounds_automatic) {
    static const struct {
        int64_t n, d;
        int is_uniform;
        km_design design;
    } cases[] = {{250003, 64, 0, KM_DESIGN_TILED},
                 {250003, 64, 1, KM_DESIGN_TILED},
                 {1000003, 16, 0, KM_DESIGN_TENSOR},
                 {1000003, 16, 1, KM_DESIGN_TENSOR}};
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        int64_t n = cases[t].n, d = cases[t].d;
        int is_uniform = cases[t].is_uniform;
        ref_data points =
            is_uniform ? ref_uniform(n, d, 5, KM_FLOAT32) : ref_blobs(n, d, 90, 0.2, 5, KM_FLOAT32);
        job j = {.clusters = "256", .restarts = 2, .max_iter = 20, .target = "cuda"};
        km_result *lloyd = fit(&points, &j, KM_ALGORITHM_LLOYD);
        km_result *chosen = fit(&points, &j, KM_ALGORITHM_AUTO), *again = fit(&points, &j, KM_ALGORITHM_AUTO);
        const km_model *a = &chosen->models[0], *b = &again->models[0];
        ck_assert_int_eq(chosen->plan.algorithm, KM_ALGORITHM_HAMERLY);
        ck_assert_int_eq(chosen->plan.design, cases[t].design);
        ck_assert_int_eq(chosen->counters.algorithm, is_uniform ? KM_ALGORITHM_LLOYD : KM_ALGORITHM_HAMERLY);
        ck_assert_int_eq(chosen->counters.distances, again->counters.distances);
        ck_assert_double_eq_tol(a->inertia, lloyd->models[0].inertia, 1e-6 * a->inertia);
        ck_assert_int_eq(a->n_iter, lloyd->models[0].n_iter);
        ck_assert_int_eq(a->restart, b->restart);
        ck_assert_mem_eq(a->centroids_fitted, b->centroids_fitted,
                         (size_t)(a->k * d) * sizeof *a->centroids_fitted);
        km_result_destroy(&lloyd);
        km_result_destroy(&chosen);
        km_result_destroy(&again);
        ref_data_free(&points);
    }
}
END_TEST

START_TEST(gpu_concurrent_restarts) {
    ref_data points = ref_blobs(3001, 2, 6, 1.0, 8, KM_FLOAT32);
    compare_on_gpu(&points, &(job){.clusters = "3..6", .restarts = 7, .concurrent = 3}, KM_ALGORITHM_TILES);
    ref_data_free(&points);
}
END_TEST

// The planner's own choice, of data on which tiles pay and of data on which they do not: lloyd's inertia, and the same
// bits each time.
START_TEST(gpu_automatic) {
    static const struct {
        int64_t d;
        int is_uniform;
    } cases[] = {{2, 0}, {4, 0}, {8, 1}};
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        int64_t n = 2500003, d = cases[t].d;
        ref_data points =
            cases[t].is_uniform ? ref_uniform(n, d, 5, KM_FLOAT32) : ref_blobs(n, d, 9, 0.5, 5, KM_FLOAT32);
        job j = {.clusters = "2..9", .restarts = 10, .max_iter = 10, .target = "cuda"};
        km_result *lloyd = fit(&points, &j, KM_ALGORITHM_LLOYD);
        km_result *chosen = fit(&points, &j, KM_ALGORITHM_AUTO), *again = fit(&points, &j, KM_ALGORITHM_AUTO);
        if (d == 2) ck_assert_int_eq(chosen->counters.algorithm, KM_ALGORITHM_TILES);
        ck_assert_int_eq(chosen->counters.algorithm, again->counters.algorithm);
        ck_assert_int_eq(chosen->counters.distances, again->counters.distances);
        for (int64_t m = 0; m < lloyd->models_count; m++) {
            const km_model *a = &chosen->models[m], *b = &again->models[m];
            ck_assert_double_eq_tol(a->inertia, lloyd->models[m].inertia, 1e-6 * a->inertia);
            ck_assert_int_eq(a->restart, b->restart);
            ck_assert_mem_eq(a->centroids_fitted, b->centroids_fitted,
                             (size_t)(a->k * d) * sizeof *a->centroids_fitted);
        }
        km_result_destroy(&lloyd);
        km_result_destroy(&chosen);
        km_result_destroy(&again);
        ref_data_free(&points);
    }
}
END_TEST

static Suite *gpu_suite(void) {
    Suite *suite = suite_create("algorithms on CUDA");
    TCase *tiles = tcase_create("tiles"), *shapes = tcase_create("bounds_shapes"),
          *hard = tcase_create("bounds_hard_data"), *restarts = tcase_create("bounds_restarts"),
          *chosen = tcase_create("automatic");
    TCase *cases[] = {tiles, shapes, hard, restarts, chosen};
    tcase_add_test(tiles, gpu_shapes);
    tcase_add_test(tiles, gpu_hard_data);
    tcase_add_test(tiles, gpu_concurrent_restarts);
    tcase_add_loop_test(shapes, gpu_bounds_shapes, 0, 4);
    tcase_add_loop_test(hard, gpu_bounds_hard_data, 0, 4);
    tcase_add_loop_test(restarts, gpu_bounds_restarts, 0, 4);
    tcase_add_test(chosen, gpu_automatic);
    tcase_add_test(chosen, gpu_bounds_automatic);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (is_emulated() && cases[c] == chosen) continue; // millions of points
        tcase_set_timeout(cases[c], 600);
        suite_add_tcase(suite, cases[c]);
    }
    if (!is_emulated()) return suite;
    TCase *few = tcase_create("few");
    tcase_add_test(few, gpu_shapes);
    tcase_add_loop_test(few, gpu_bounds_shapes, 1, 2);
    tcase_add_loop_test(few, gpu_bounds_shapes, 3, 4);
    tcase_set_timeout(few, 600);
    suite_add_tcase(suite, few);
    return suite;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "cuda")) return device_main("algorithms", 1, gpu_suite);
    Suite *suite = suite_create("algorithms");
    TCase *tcase = tcase_create("against lloyd");
    tcase_set_timeout(tcase, 120);
    // Sanitizers, which make all of it slow, see each test with one algorithm and type (scripts/test).
    int first = 0;
#define EACH(name)                                                                                           \
    tcase_add_loop_test(tcase, name, is_sample() ? first : 0,                                                \
                        is_sample() ? first + 1 : 2 * ALGORITHMS_COUNT);                                     \
    first = (first + 2 * ALGORITHMS_COUNT - 1) % (2 * ALGORITHMS_COUNT)
    EACH(blobs);
    EACH(uniform);
    EACH(sizes);
    EACH(ties);
    EACH(offset);
    EACH(outlier);
    EACH(weights);
    EACH(one_and_all);
    EACH(many_clusters);
    EACH(concurrent_restarts);
    EACH(empties);
    EACH(min_changes);
    EACH(tolerance);
    EACH(lanes);
    EACH(instruction_sets);
    EACH(tables);
    EACH(near_ties);
    EACH(threads);
    EACH(wide);
    tcase_add_test(tcase, automatic);
    if (!is_sample()) tcase_add_loop_test(tcase, automatic_bounds, is_whole() ? 1 : 2, 3);
    tcase_add_loop_test(tcase, automatic_bounds_dropped, is_whole() ? 1 : 2, 3);
    tcase_add_test(tcase, refusals);
    tcase_add_test(tcase, no_room);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("restarts");
    tcase_set_timeout(tcase, 120);
    EACH(restarts_of_equal_cost);
    tcase_add_loop_test(tcase, designs, 0, 2);
    if (!is_sample()) tcase_add_loop_test(tcase, alone, 0, ALGORITHMS_COUNT + 1);
    suite_add_tcase(suite, tcase);
#undef EACH
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

// SPDX-License-Identifier: MIT
// The whole job through the public API: values worked out by hand, proven optima, and properties that hold for any
// data.
//
//     test_fit cpu|cpu-prebuilt|cpu-lanes|cuda    the suite on one target (and design)
//     test_fit best-known                         larger published sets, which lie beside the project
//
// Exits 77 (skipped) where the device or the sets are missing. KMGEN_DATA names another folder of the larger sets.
#include "device_main.h"
#include "reference.h"
#include "short_form.h"
#include "../templates/both.h"
#include <kmgen/model.h>
#include <kmgen/module.h>
#include <kmgen/score.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *target = "cpu", *design;

// A job: points, spec and parameters of one fit -------------------------------------------------------------

typedef struct job {
    ref_data points;
    void *values;
    km_data *data;
    km_spec spec;
    km_fit_params params;
} job;

static void must(km_status status, const km_error *err, const char *what) {
    ck_assert_msg(status == KM_OK, "%s: %s: %s", what, km_status_name(status), err->text);
}

static void spec_open(km_spec *spec, const char *clusters, km_type type) {
    km_error err = {{0}};
    km_spec_init(spec);
    spec->type = type;
    must(km_spec_set_target(spec, target, &err), &err, "target");
    if (clusters) must(km_spec_set_clusters(spec, clusters, &err), &err, "clusters");
    if (design) must(km_spec_fix(spec, "design", design, &err), &err, "design");
}

// Takes the points over.
static job job_open(ref_data points, const char *clusters) {
    km_error err = {{0}};
    job j = {.points = points, .values = ref_values(&points)};
    must(km_data_from_memory(&j.data, j.values, points.n, points.d, points.type, 0, 0, points.w, &err), &err,
         "data");
    spec_open(&j.spec, clusters, points.type);
    km_fit_params_init(&j.params);
    j.params.labels = KM_LABELS_ALL;
    j.params.refine = 20; // a little of all; tests of refinement have more, those of restarts none
    j.params.cache_dir = cache;
    j.params.compiler = strcmp(target, "cuda") ? quick_compiler() : NULL;
    return j;
}

static void job_close(job *j) {
    km_data_destroy(&j->data);
    km_spec_clear(&j->spec);
    ref_data_free(&j->points);
    free(j->values);
}

static void give_init(job *j, const double *rows, int64_t count) {
    j->params.refine = KM_REFINE_AUTO; // which is none then
    j->params.init = KM_INIT_GIVEN;
    j->params.init_rows = rows;
    j->params.init_count = count;
}

// The short form tries with the prebuilt kernels alone what goes on between passes.
static int is_brief_lanes(void) {
    return design && !strcmp(design, "lanes") && !is_whole();
}

static double accuracy(km_type type) {
    return type == KM_FLOAT32 ? 1e-6 : 1e-12;
}

// The points as they were clustered: (x - centre) * factor, rounded to the kernels' type.
static ref_data clustered_points(const ref_data *points, const km_result *result) {
    ref_data fitted = ref_data_copy(points);
    fitted.type = result->type;
    for (int64_t i = 0; i < points->n * points->d; i++) {
        int64_t f = i % points->d;
        fitted.x[i] = ref_round((points->x[i] - result->centre[f]) * result->factor[f], result->type);
    }
    return fitted;
}

// What must hold for every model of every fit: labels by the contract; inertia, counts, weights and sse as
// recomputed from centroids and labels; centroids in both spaces; at rest, centroids are means of their points.
static void check_model(const km_model *model, const km_result *result, const ref_data *fitted, double tol) {
    int64_t k = model->k, d = fitted->d, wrong, effective = 0, *counts = calloc((size_t)k, sizeof *counts);
    double *weights = calloc((size_t)k, sizeof *weights), *means = calloc((size_t)(k * d), sizeof *means),
           sse = 0;
    ck_assert_int_eq(ref_labels_wrong(&wrong, fitted, model->centroids_fitted, k, model->labels), 0);
    double inertia = ref_inertia(fitted, model->centroids_fitted, model->labels), radius = 0;
    REF_NEAR(model->inertia, inertia, accuracy(fitted->type) * inertia + 1e-300);
    memcpy(means, model->centroids_fitted, (size_t)(k * d) * sizeof *means);
    ref_update(means, weights, counts, fitted, model->labels, k);
    for (int64_t i = 0; i < fitted->n * d; i++) radius = fmax(radius, fabs(fitted->x[i]));
    double close = model->at_rest || (model->converged && tol == 0)
                       ? (fitted->type == KM_FLOAT32 ? 1e-6 : 1e-13) * radius
                       : INFINITY;
    for (int64_t j = 0; j < k; j++) {
        ck_assert_int_eq(model->counts[j], counts[j]);
        REF_NEAR(model->weights[j], weights[j], 1e-12 * weights[j]);
        effective += weights[j] > 0;
        sse += model->sse[j];
        for (int64_t f = 0; f < d; f++) {
            double c = model->centroids_fitted[j * d + f];
            ck_assert_double_eq(c, ref_round(c, fitted->type));
            ck_assert_double_eq(model->centroids[j * d + f], c / result->factor[f] + result->centre[f]);
            ck_assert_double_le(fabs(c - means[j * d + f]), close);
        }
    }
    ck_assert_int_eq(model->effective_k, effective);
    REF_NEAR(sse, model->inertia, 1e-12 * sse);
    free(counts);
    free(weights);
    free(means);
}

// The best restart's inertia is the model's but for rounding, what the last update still gained, and refinement. None
// is lower.
static void check_restarts(const km_model *model, const km_result *result) {
    double best = model->restart_inertia[model->restart], rounding = 1e-5 * fabs(best);
    int64_t agreed = 0;
    for (int64_t f = 0; f < result->d; f++)
        rounding += 1e-6 * (double)result->n * result->variance[f] * result->factor[f] * result->factor[f];
    if (!model->refined) REF_NEAR(model->inertia, best, 1e-2 * model->inertia + rounding);
    ck_assert_double_le(model->inertia, best + rounding);
    for (int64_t r = 0; r < model->restarts; r++) {
        ck_assert_double_ge(model->restart_inertia[r], best - rounding);
        agreed += model->restart_inertia[r] <= best + rounding + 1e-2 * fabs(best);
    }
    ck_assert_int_ge(agreed, model->restarts_agreed);
}

static void check_result(const job *j, const km_result *result) {
    ck_assert_int_eq(result->n, j->points.n);
    ck_assert_int_eq(result->d, j->points.d);
    ck_assert_int_eq(result->rows, j->points.n);
    ck_assert_int_eq(result->seed, j->params.seed);
    ck_assert(result->selection.best >= 0 && result->selection.best < result->models_count);
    ref_data fitted = clustered_points(&j->points, result);
    for (int64_t m = 0; m < result->models_count; m++) {
        const km_model *model = &result->models[m];
        ck_assert(m == 0 || model->k > result->models[m - 1].k);
        ck_assert_int_le(model->n_iter, result->max_iter);
        if (result->refine != 0 && m > 0)
            ck_assert_double_le(model->inertia, result->models[m - 1].inertia * (1 + 1e-12));
        ck_assert(model->restart >= 0 && model->restart < model->restarts);
        ck_assert(model->restarts_agreed >= 1 && model->restarts_agreed <= model->restarts);
        check_restarts(model, result);
        if (model->labels) check_model(model, result, &fitted, j->params.tol);
    }
    ref_data_free(&fitted);
}

static km_result *fit(const job *j) {
    km_error err = {{0}};
    km_result *result = NULL;
    must(km_fit(&result, &j->spec, j->data, &j->params, &err), &err, "km_fit");
    check_result(j, result);
    return result;
}

static void check_refused(const job *j, km_status expected, const char *word) {
    km_error err = {{0}};
    km_result *result = (km_result *)&err;
    ck_assert_int_eq(km_fit(&result, &j->spec, j->data, &j->params, &err), expected);
    ck_assert_ptr_null(result);
    ck_assert_msg(strstr(err.text, word), "\"%s\" does not say \"%s\"", err.text, word);
}

static int has_warning(const km_result *result, const char *word) {
    for (int64_t i = 0; i < result->warnings_count; i++)
        if (strstr(result->warnings[i], word)) return 1;
    return 0;
}

static void check_same_model(const km_model *a, const km_model *b, const km_result *of, double relative) {
    ck_assert_int_eq(a->k, b->k);
    REF_NEAR(a->inertia, b->inertia, relative * fabs(a->inertia));
    if (a->labels && b->labels) ck_assert_mem_eq(a->labels, b->labels, (size_t)of->rows * sizeof *a->labels);
}

// Every number that a fit reports, to the last bit.
static void check_same_bits(const km_result *a, const km_result *b) {
    ck_assert_int_eq(a->models_count, b->models_count);
    for (int64_t m = 0; m < a->models_count; m++) {
        const km_model *x = &a->models[m], *y = &b->models[m];
        size_t size = (size_t)(x->k * a->d) * sizeof(double);
        check_same_model(x, y, a, 0);
        ck_assert_int_eq(x->n_iter, y->n_iter);
        ck_assert_int_eq(x->restart, y->restart);
        ck_assert_int_eq(x->restarts_agreed, y->restarts_agreed);
        ck_assert_mem_eq(x->centroids, y->centroids, size);
        ck_assert_mem_eq(x->centroids_fitted, y->centroids_fitted, size);
        ck_assert_mem_eq(x->weights, y->weights, (size_t)x->k * sizeof(double));
        ck_assert_mem_eq(x->sse, y->sse, (size_t)x->k * sizeof(double));
        ck_assert_mem_eq(x->scores, y->scores, sizeof x->scores);
    }
    ck_assert_int_eq(a->selection.best, b->selection.best);
}

static km_type type_of(int i) {
    return i % 2 ? KM_FLOAT32 : KM_FLOAT64;
}

// On the CPU sums are doubles added in one order, so much comes out exactly. A GPU adds a thread's few points
// in the plan's own type, or integers on a grid: there a float32 centroid may be a unit in its last place off,
// or half a step.
static int sums_are_doubles(void) {
    return strcmp(target, "cuda") != 0;
}

// Values worked out by hand ---------------------------------------------------------------------------------

static const double square[] = {0, 0, .5, 0, .5, 1, 1, 1};

static void check_hand(const km_model *model, const int32_t *labels, int64_t n, const double *centroids,
                       int64_t size, double inertia) {
    for (int64_t i = 0; i < n; i++) ck_assert_int_eq(model->labels[i], labels[i]);
    for (int64_t i = 0; i < size; i++) ck_assert_double_eq(model->centroids[i], centroids[i]);
    ck_assert_double_eq(model->inertia, inertia);
    ck_assert(model->converged);
}

// The silhouette of whole fits by its definition, whether the run ended at its fixed point or not.
static double silhouette_of_rows(const ref_data *points, const int32_t *labels, int64_t k) {
    double total = 0, *sums = calloc((size_t)k, sizeof *sums), *sizes = calloc((size_t)k, sizeof *sizes);
    for (int64_t i = 0; i < points->n; i++) sizes[labels[i]]++;
    for (int64_t i = 0; i < points->n; i++) {
        double own = 0, other = INFINITY;
        memset(sums, 0, (size_t)k * sizeof *sums);
        for (int64_t j = 0; j < points->n; j++)
            sums[labels[j]] += ref_distance2(points->x + i * points->d, points->x + j * points->d, points->d);
        for (int64_t j = 0; j < k; j++) {
            if (j == labels[i])
                own = sums[j] / (sizes[j] - 1);
            else if (sizes[j] > 0)
                other = fmin(other, sums[j] / sizes[j]);
        }
        if (sizes[labels[i]] > 1 && fmax(own, other) > 0) total += (other - own) / fmax(own, other);
    }
    free(sums);
    free(sizes);
    return total / (double)points->n;
}

// A rectangle of four places, 10 points each. Restarts end with its halves beside each other (the best), above each
// other (1.5625 times the inertia), or with one place and the other three (1.7083 times): each has its adjusted Rand
// index with the best, by hand.
static double rand_of_rectangle(double inertia) {
    if (inertia < 1.5) return 1;
    double pairs = 780, first = 380, second = inertia < 1.6 ? 380 : 480, both = inertia < 1.6 ? 180 : 280;
    double expected = first * second / pairs;
    return (both - expected) / ((first + second) / 2 - expected);
}

START_TEST(stability_of_restarts) {
    km_type type = type_of(_i);
    ref_data points = ref_data_make(40, 2, type);
    for (int64_t i = 0; i < 40; i++) {
        points.x[2 * i] = i % 2 ? 1.25 : 0;
        points.x[2 * i + 1] = i / 2 % 2;
    }
    job j = job_open(points, "1,2,4,40");
    j.spec.n_init = 30;
    j.params.init = KM_INIT_RANDOM;
    j.params.criteria = (uint64_t)1 << KM_CRITERION_stability;
    km_result *result = fit(&j);
    const km_model *two = &result->models[1];
    double sum = 0, most = 0;
    for (int r = 0; r < 30; r++) {
        double inertia = two->restart_inertia[r] / two->inertia;
        if (r != two->restart) sum += rand_of_rectangle(inertia);
        most = fmax(most, inertia);
    }
    ck_assert(most > 1.6 && two->restarts_agreed > 1);
    REF_NEAR(two->scores[KM_CRITERION_stability], sum / 29, 1e-12);
    ck_assert(two->score_errors[KM_CRITERION_stability] > 0);
    ck_assert(isnan(result->models[0].scores[KM_CRITERION_stability]));
    ck_assert(isnan(result->models[3].scores[KM_CRITERION_stability]));
    km_result_destroy(&result);
    j.spec.n_init = 1; // nothing to compare
    result = fit(&j);
    ck_assert(isnan(result->models[1].scores[KM_CRITERION_stability]));
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Four clear clusters: halves agree about them, and about no larger K; it decides on its own when asked to.
START_TEST(prediction_strength_of_clusters) {
    if (is_sample() && _i) return; // in one type
    job j = job_open(ref_blobs(801, 3, 4, 0.5, 9, type_of(_i)), "1..8");
    j.params.criterion = KM_CRITERION_prediction_strength;
    j.params.labels = KM_LABELS_BEST;
    km_result *result = fit(&j), *again = fit(&j);
    double *scores = (double[8]){0};
    for (int m = 0; m < 8; m++) {
        scores[m] = result->models[m].scores[KM_CRITERION_prediction_strength];
        ck_assert_double_eq(scores[m], again->models[m].scores[KM_CRITERION_prediction_strength]);
    }
    ck_assert_double_eq(scores[0], 1);
    ck_assert(scores[3] > .99 && scores[4] < .8 && scores[7] < .8);
    ck_assert_int_eq(result->models[result->selection.best].k, 4);
    ck_assert_ptr_nonnull(result->models[3].labels);
    ck_assert_ptr_nonnull(strstr(result->selection.reason, "the largest K of a value above 0.8"));
    km_result_destroy(&result);
    km_result_destroy(&again);
    job_close(&j);
}
END_TEST

// On a lattice of tenths many points are as far from two centroids. Which one a pass takes is rounding; the silhouette
// is that of the labels that are returned.
START_TEST(silhouettes_of_ties) {
    ref_data points = ref_data_make(90, 2, KM_FLOAT64);
    for (int64_t i = 0; i < 90; i++) {
        points.x[2 * i] = (double)(i % 9) * .1;
        points.x[2 * i + 1] = (double)(i / 9) * .1;
    }
    job j = job_open(points, "2..8");
    j.spec.n_init = 1;
    j.params.criteria = (uint64_t)1 << KM_CRITERION_silhouette;
    j.params.labels = KM_LABELS_ALL;
    for (uint64_t seed = 0; seed < 100; seed++) {
        j.params.seed = seed;
        j.params.max_iter = 1 + (int64_t)seed % 3;
        km_result *result = fit(&j);
        for (int64_t m = 0; m < result->models_count; m++) {
            const km_model *model = &result->models[m];
            double expected = silhouette_of_rows(&j.points, model->labels, model->k);
            REF_NEAR(model->scores[KM_CRITERION_silhouette], expected, 1e-11);
        }
        km_result_destroy(&result);
    }
    job_close(&j);
}
END_TEST

START_TEST(silhouettes_of_a_fit) {
    km_type type = type_of(_i % 2);
    job j =
        job_open(_i < 4 ? ref_blobs(701, 3, 4, 3.0, 9, type) : ref_grid(500, 2, 6, 9, type), "1,2,3,5,30");
    j.params.criteria = (uint64_t)1 << KM_CRITERION_silhouette;
    j.params.labels = KM_LABELS_ALL;
    if (_i % 4 / 2) j.params.max_iter = 2;
    km_result *result = fit(&j);
    ck_assert(isnan(result->models[0].scores[KM_CRITERION_silhouette])); // K = 1
    ck_assert_int_eq(result->criteria >> KM_CRITERION_silhouette & 1, 1);
    for (int64_t m = 1; m < result->models_count; m++) {
        const km_model *model = &result->models[m];
        double expected = silhouette_of_rows(&j.points, model->labels, model->k);
        REF_NEAR(model->scores[KM_CRITERION_silhouette], expected, type == KM_FLOAT32 ? 1e-5 : 1e-11);
    }
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(hand_weighted) {
    const double weights[] = {3, 1, 1, 3}, init[] = {0, 0, 1, 1}, centroids[] = {.125, 0, .875, 1};
    const int32_t labels[] = {0, 0, 1, 1};
    job j = job_open(ref_data_of(square, weights, 4, 2, type_of(_i)), "2");
    give_init(&j, init, 2);
    km_result *result = fit(&j);
    check_hand(result->models, labels, 4, centroids, 4, .375);
    ck_assert_int_eq(result->models[0].n_iter, 2);
    ck_assert_int_eq(result->n_init, 1);
    km_result_destroy(&result);
    ck_assert_ptr_null(result);
    job_close(&j);
}
END_TEST

// One cluster is empty at first, and the farthest points are tied.
START_TEST(hand_empty_cluster) {
    const double init[] = {.5, .5, 3, 3}, centroids[2][4] = {{.25, 0, .75, 1}, {.75, 1, .25, 0}};
    const int32_t labels[2][4] = {{0, 0, 1, 1}, {1, 1, 0, 0}};
    job j = job_open(ref_data_of(square, NULL, 4, 2, type_of(_i)), "2");
    give_init(&j, init, 2);
    km_result *result = fit(&j);
    int first = result->models[0].labels[0];
    ck_assert(first == 0 || first == 1);
    check_hand(result->models, labels[first], 4, centroids[first], 4, .25);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(hand_uneven_weights) {
    const double x[] = {-1, 1}, weights[] = {1.9, .1}, init[] = {-1, 10}, centroids[] = {-1, 1};
    const int32_t labels[] = {0, 1};
    job j = job_open(ref_data_of(x, weights, 2, 1, type_of(_i)), "2");
    give_init(&j, init, 2);
    km_result *result = fit(&j);
    check_hand(result->models, labels, 2, centroids, 2, 0);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(hand_too_few_distinct) {
    const double x[] = {0, 0, 0, 1, 1, 0, 1, 0};
    job j = job_open(ref_data_of(x, NULL, 4, 2, type_of(_i)), "4");
    km_result *result = fit(&j);
    ck_assert_int_eq(result->models[0].effective_k, 3);
    ck_assert_double_eq(result->models[0].inertia, 0);
    ck_assert(has_warning(result, "K=4 has 3 clusters"));
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Proven optima ---------------------------------------------------------------------------------------------

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Fits a file by restarts alone; inertia of each K must be within `relative` of the best known value.
static void check_optima(const char *path, const char *clusters, int64_t restarts, const double *values,
                         double relative) {
    km_error err = {{0}};
    km_data *data = NULL;
    km_result *result = NULL;
    km_spec spec;
    km_fit_params params;
    spec_open(&spec, clusters, KM_FLOAT64);
    spec.n_init = restarts;
    spec.refine = 0;
    km_fit_params_init(&params);
    params.tol = 0;
    params.cache_dir = cache;
    must(km_data_open(&data, path, NULL, &err), &err, "km_data_open");
    double begin = seconds();
    must(km_fit(&result, &spec, data, &params, &err), &err, path);
    printf("%s: K=%s, %lld restarts in %.2f s (seed %.2f, sweep %.2f, finish %.2f; %s, %lld passes)\n", path,
           clusters, (long long)restarts, seconds() - begin, result->timing.seed_ms / 1e3,
           result->timing.sweep_ms / 1e3, result->timing.finish_ms / 1e3, km_design_name(result->plan.design),
           (long long)result->passes);
    for (int64_t m = 0; m < result->models_count; m++)
        ck_assert_msg(fabs(result->models[m].inertia - values[m]) <= relative * values[m],
                      "%s: K=%d: inertia %.15g, best known %.15g", path, result->models[m].k,
                      result->models[m].inertia, values[m]);
    km_result_destroy(&result);
    km_data_destroy(&data);
    km_spec_clear(&spec);
}

// The small tables lie in the project, wherever it was built; a packed test finds them in its working folder.
static const char *small_path(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, KM_TEST_DATA "/%s", name);
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, "tests/data/%s", name);
    return path;
}

// Runs that end before their centroids are the means of their points: criteria are those of the labels all the same,
// as km_score_labels computes them; of dense points, CSR and weights.
START_TEST(criteria_are_those_of_the_labels) {
    static const km_criterion compared[] = {KM_CRITERION_calinski_harabasz, KM_CRITERION_davies_bouldin,
                                            KM_CRITERION_silhouette, KM_CRITERION_xie_beni};
    km_type type = type_of(_i % 2);
    if (design && _i / 2 == 2) return; // of dense points
    ref_data points = ref_blobs(701, 3, 4, 3.0, 9, type);
    if (_i / 2 == 1) {
        points.w = calloc((size_t)points.n, sizeof *points.w);
        for (int64_t i = 0; i < points.n; i++) points.w[i] = (double)(i % 4);
    }
    job j = job_open(points, "2,3,5,30");
    if (_i / 2 == 2) j.spec.layout = KM_LAYOUT_CSR;
    j.spec.n_init = 1;
    j.params.refine = 0;
    j.params.max_iter = 1;
    j.params.criteria = (uint64_t)1 << KM_CRITERION_silhouette;
    km_result *result = fit(&j);
    int64_t *labels = calloc((size_t)points.n, sizeof *labels);
    for (int64_t m = 0; m < result->models_count; m++) {
        km_label_scores *scores;
        km_error err = {{0}};
        for (int64_t i = 0; i < points.n; i++) labels[i] = result->models[m].labels[i];
        must(km_score_labels(&scores, j.data, labels, points.n, NULL, &err), &err, "km_score_labels");
        ck_assert(!result->models[m].at_rest && scores->inertia < result->models[m].inertia * (1 - 1e-9));
        for (size_t c = 0; c < sizeof compared / sizeof *compared; c++) {
            double expected = scores->scores[compared[c]];
            REF_NEAR(result->models[m].scores[compared[c]] / expected, 1, type == KM_FLOAT32 ? 1e-6 : 1e-12);
        }
        km_label_scores_destroy(&scores);
    }
    free(labels);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// KMeans(4, init=x[:4], max_iter=, tol=, algorithm='lloyd') of scikit-learn 1.9 on faithful: n_iter_, inertia_ and the
// scores of labels_ by calinski_harabasz_score, davies_bouldin_score and silhouette_score(metric='sqeuclidean').
START_TEST(stopped_early_as_scikit_learn) {
    static const struct {
        int64_t max_iter;
        double tol;
        int64_t n_iter;
        double inertia, calinski_harabasz, davies_bouldin, silhouette;
    } runs[] = {
        {1, 1e-4, 1, 3529.3073852663792, 1235.5888870652266, .5743643626087915, .6483415742862282},
        {3, 1e-4, 3, 3034.499476475937, 1423.7693037295394, .5749372646807077, .7118656575816377},
        {300, .05, 2, 3224.418049978979, 1356.589444985732, .5752668308133928, .689318246386291},
    };
    static const double rows[] = {3.6, 79, 1.8, 54, 3.333, 74, 2.283, 62};
    km_error err = {{0}};
    km_data *data = NULL;
    km_result *result = NULL;
    km_spec spec;
    km_fit_params params;
    spec_open(&spec, "4", KM_FLOAT64);
    km_fit_params_init(&params);
    params.cache_dir = cache;
    params.compiler = strcmp(target, "cuda") ? quick_compiler() : NULL;
    params.init = KM_INIT_GIVEN;
    params.init_rows = rows;
    params.init_count = 4;
    params.max_iter = runs[_i].max_iter;
    params.tol = runs[_i].tol;
    params.criteria = (uint64_t)1 << KM_CRITERION_silhouette;
    must(km_data_open(&data, small_path("faithful.csv"), NULL, &err), &err, "km_data_open");
    must(km_fit(&result, &spec, data, &params, &err), &err, "km_fit");
    ck_assert_int_eq(result->models[0].n_iter, runs[_i].n_iter);
    REF_NEAR(result->models[0].inertia, runs[_i].inertia, 1e-11);
    REF_NEAR(result->models[0].scores[KM_CRITERION_calinski_harabasz], runs[_i].calinski_harabasz, 1e-11);
    REF_NEAR(result->models[0].scores[KM_CRITERION_davies_bouldin], runs[_i].davies_bouldin, 1e-11);
    REF_NEAR(result->models[0].scores[KM_CRITERION_silhouette], runs[_i].silhouette, 1e-11);
    km_result_destroy(&result);
    km_data_destroy(&data);
    km_spec_clear(&spec);
}
END_TEST

START_TEST(iris_optima) {
    if (is_brief_lanes()) return;
    const double values[] = {152.347951760358, 78.851441426146,  57.2284732142857, 46.4461820512821,
                             39.0399872460872, 34.2982296650718, 29.9889439507861};
    check_optima(small_path("iris.csv"), is_sample() ? "2..5" : "2..8", is_sample() ? 500 : 5000, values,
                 1e-9);
}
END_TEST

START_TEST(ruspini_optima) {
    if (is_brief_lanes()) return;
    const double values[] = {89337.832142857,   51063.4750456705, 12881.0512361466,
                             10126.7197881828,  8575.40687645688, 7126.19854312354,
                             6149.639019314019, 5181.65183982684, 4446.28214285714};
    check_optima(small_path("ruspini.csv"), is_sample() ? "2..5" : "2..10", is_sample() ? 500 : 20000, values,
                 1e-9);
}
END_TEST

static const char *big_path(const char *name) {
    static char path[4096];
    const char *dir = getenv("KMGEN_DATA");
    snprintf(path, sizeof path, "%s/%s", dir ? dir : KM_SHARED_DATA, name);
    return path;
}

START_TEST(s1_best_known) {
    check_optima(big_path("s1.csv"), "15", 30, &(double){8.91761561687e12}, 1e-11);
}
END_TEST

START_TEST(a1_best_known) {
    check_optima(big_path("a1.csv"), "20", 60, &(double){12146257522.3}, 1e-10);
}
END_TEST

START_TEST(unbalance_best_known) {
    check_optima(big_path("unbalance.csv"), "8", 30, &(double){214492062848.0}, 1e-10);
}
END_TEST

// Fits as people run them: the default list of K, the default of everything else.
static void check_default_fit(const char *path, int32_t k, double best) {
    for (int i = 0; i < (is_whole() ? 6 : 2); i++) {
        km_error err = {{0}};
        km_data *data = NULL;
        km_result *result = NULL;
        km_spec spec;
        km_fit_params params;
        spec_open(&spec, NULL, type_of(i));
        km_fit_params_init(&params);
        params.cache_dir = cache;
        params.seed = (uint64_t)(i / 2);
        must(km_data_open(&data, path, NULL, &err), &err, "km_data_open");
        must(km_fit(&result, &spec, data, &params, &err), &err, path);
        for (int64_t m = 0; m < result->models_count; m++) {
            const km_model *model = &result->models[m];
            if (m > 0) ck_assert_double_le(model->inertia, result->models[m - 1].inertia);
            if (model->k == k)
                ck_assert_msg(model->inertia <= best * (1 + 1e-6),
                              "%s: seed %d: inertia %.15g, best known %.15g", path, i / 2, model->inertia,
                              best);
        }
        km_result_destroy(&result);
        km_data_destroy(&data);
        km_spec_clear(&spec);
    }
}

// Of faithful and digits, where no proof is known, the least of 2,000 restarts of scikit-learn 1.9:
// KMeans(2, n_init=2000, tol=0, max_iter=1000, random_state=0).fit(x).inertia_ and KMeans(10, ...).
START_TEST(default_fits_reach_the_best_known) {
    static const struct {
        const char *name;
        int32_t k;
        double best;
    } sets[] = {{"iris.csv", 3, 78.851441426146},        {"faithful.csv", 2, 8901.7687209472},
                {"ruspini.csv", 4, 12881.0512361466},    {"wdbc.csv", 2, 77943099.8783},
                {"digits_u8.npy", 10, 1165124.46922314}, {"s1.csv", 15, 8.91761561687e12},
                {"a1.csv", 20, 12146257522.3},           {"unbalance.csv", 8, 214492062848.0}};
    check_default_fit(big_path(sets[_i].name), sets[_i].k, sets[_i].best);
}
END_TEST

// Which share of single starts finds every cluster of the data, which it frees.
static double share_that_finds_all(km_data *data, const char *k, double best, int64_t seeds) {
    km_error err = {{0}};
    km_spec spec;
    km_fit_params params;
    int64_t found = 0;
    spec_open(&spec, k, KM_FLOAT64);
    spec.n_init = 1;
    km_fit_params_init(&params);
    params.cache_dir = cache;
    params.refine = 0;
    for (int64_t seed = 0; seed < seeds; seed++) {
        km_result *result = NULL;
        params.seed = (uint64_t)seed;
        must(km_fit(&result, &spec, data, &params, &err), &err, "single starts");
        // A start that misses a cluster ends a tenth above the best, and more.
        found += result->models[0].inertia < 1.01 * best;
        km_result_destroy(&result);
    }
    km_data_destroy(&data);
    km_spec_clear(&spec);
    return (double)found / (double)seeds;
}

// Not less than scikit-learn's by two standard errors of both, its share p being of 1,000 starts.
static void check_share(const char *name, double share, double p, int64_t seeds) {
    double error = sqrt(p * (1 - p) / (double)seeds + p * (1 - p) / 1000);
    ck_assert_msg(share >= p - 2 * error, "%s: %.3f of the starts, scikit-learn's %.3f", name, share, p);
}

// As often as scikit-learn 1.9's KMeans(k, n_init=1, random_state=s) for s = 0 ... 999, which finds all in .788, .412
// and .945 of the starts.
START_TEST(single_starts_find_all_clusters) {
    int64_t seeds = is_whole() ? 1000 : 200;
    static const struct {
        const char *table, *k;
        double best, share;
    } sets[] = {{"s1.csv", "15", 8.91761561687e12, .788},
                {"a1.csv", "20", 12146257522.3, .412},
                {"unbalance.csv", "8", 214492062848.0, .945}};
    km_error err = {{0}};
    km_data *data = NULL;
    must(km_data_open(&data, big_path(sets[_i].table), NULL, &err), &err, "km_data_open");
    check_share(sets[_i].table, share_that_finds_all(data, sets[_i].k, sets[_i].best, seeds), sets[_i].share,
                seeds);
}
END_TEST

// The same of blobs that touch, of few K. The least of 100 restarts of scikit-learn with tol 0 is the best.
START_TEST(single_starts_find_all_blobs) {
    int64_t seeds = is_whole() ? 1000 : is_sample() ? 50 : 200;
    static const struct {
        int64_t count;
        const char *k;
        double best, share;
    } sets[] = {
        {3, "3", 9168.832403210006, 1}, {5, "5", 8826.62032402904, .84}, {8, "8", 8663.858527143107, .71}};
    km_error err = {{0}};
    km_data *data = NULL;
    ref_data points = ref_blobs(1000, 4, sets[_i].count, 1.5, (uint64_t)sets[_i].count, KM_FLOAT64);
    must(km_data_from_memory(&data, points.x, 1000, 4, KM_FLOAT64, 0, 0, NULL, &err), &err, "blobs");
    check_share("blobs", share_that_finds_all(data, sets[_i].k, sets[_i].best, seeds), sets[_i].share, seeds);
    ref_data_free(&points);
}
END_TEST

START_TEST(wdbc_best_known) {
    check_optima(big_path("wdbc.csv"), "2", 20, &(double){77943099.8783}, 1e-11);
}
END_TEST

// A large offset costs no digits ----------------------------------------------------------------------------

START_TEST(offset_costs_no_digits) {
    double offset = (double[]){0, 1e3, 1e4, 1e5, 1e6}[_i];
    ref_data points = ref_blobs(2000, 3, 5, 1.0, 4, KM_FLOAT32);
    ref_shift(&points, offset);
    job j = job_open(points, "5");
    j.params.tol = 0;
    double init[15];
    const int64_t rows[] = {0, 1, 2, 3, 4};
    ref_rows(init, &points, rows, 5);
    give_init(&j, init, 5);
    km_result *result = fit(&j); // labels and inertia against the double reference, in here
    ref_data whole = ref_data_of(points.x, NULL, points.n, 3, KM_FLOAT64);
    ref_model model = ref_fit(&whole, init, 5, 0, 300);
    REF_NEAR(result->models[0].inertia, model.inertia, 1e-6 * model.inertia);
    ck_assert_mem_eq(result->models[0].labels, model.labels, 2000 * sizeof(int32_t));
    ref_model_free(&model);
    ref_data_free(&whole);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Data that other libraries stumble over --------------------------------------------------------------------

START_TEST(clusters_above_distinct_points) {
    job j = job_open(ref_grid(300, 2, 3, 6, type_of(_i)), "2..20");
    km_result *result = fit(&j);
    for (int64_t m = 0; m < result->models_count; m++) {
        const km_model *model = &result->models[m];
        ck_assert_int_eq(model->effective_k, model->k < 9 ? model->k : 9);
        if (model->k >= 9) REF_NEAR(model->inertia, 0, 1e-20);
    }
    ck_assert(has_warning(result, "K=10 has 9 clusters"));
    ck_assert_int_eq(result->models[result->selection.best].k, 9);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(all_points_equal) {
    ref_data points = ref_data_make(100, 3, type_of(_i));
    ref_shift(&points, 1.1);
    job j = job_open(points, "1..4");
    km_result *result = fit(&j);
    for (int m = 0; m < 4; m++) {
        ck_assert_double_eq(result->models[m].inertia, 0);
        ck_assert_int_eq(result->models[m].effective_k, 1);
        ck_assert(result->models[m].converged);
        for (int f = 0; f < 3; f++) ck_assert_double_eq(result->models[m].centroids[f], points.x[f]);
    }
    ck_assert_int_eq(result->models[result->selection.best].k, 1);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(clusters_above_n_are_dropped) {
    job j = job_open(ref_uniform(5, 2, 1, type_of(_i)), "2..9");
    km_result *result = fit(&j);
    ck_assert_int_eq(result->models_count, 4);
    ck_assert_int_eq(result->models[3].k, 5);
    // Each point is a centroid; the grid of values up to 2 has half steps of 2^-22 (docs/numerics.md).
    REF_NEAR(result->models[3].inertia, 0,
             sums_are_doubles() || type_of(_i) == KM_FLOAT64 ? 1e-25 : 5 * 2 * 0x1p-44);
    ck_assert(has_warning(result, "above the number of points"));
    km_result_destroy(&result);
    km_error err = {{0}};
    must(km_spec_set_clusters(&j.spec, "6..9", &err), &err, "clusters");
    check_refused(&j, KM_ERROR_DATA, "5");
    job_close(&j);
}
END_TEST

START_TEST(one_point) {
    const double x[] = {3, -4};
    job j = job_open(ref_data_of(x, NULL, 1, 2, type_of(_i)), "1");
    km_result *result = fit(&j);
    ck_assert_double_eq(result->models[0].inertia, 0);
    ck_assert_double_eq(result->models[0].centroids[0], 3);
    ck_assert_double_eq(result->models[0].centroids[1], -4);
    ck_assert_int_eq(result->models[0].labels[0], 0);
    ck_assert(isnan(result->models[0].scores[KM_CRITERION_calinski_harabasz]));
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(as_many_clusters_as_points) {
    job j = job_open(ref_uniform(40, 3, 2, type_of(_i)), "1,39,40");
    km_result *result = fit(&j);
    const km_model *all = &result->models[2];
    // Each point is a centroid; the grid of values up to 2 has half steps of 2^-22 (docs/numerics.md).
    REF_NEAR(all->inertia, 0, sums_are_doubles() || type_of(_i) == KM_FLOAT64 ? 1e-25 : 40 * 3 * 0x1p-44);
    ck_assert_int_eq(all->effective_k, 40);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) // K = n scores nothing
        ck_assert_msg(isnan(all->scores[c]), "%s is %g", km_criterion_name((km_criterion)c), all->scores[c]);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(nan_and_infinity_are_refused) {
    const double bad[] = {NAN, INFINITY, -INFINITY};
    ref_data points = ref_uniform(1000, 3, 2, type_of(_i));
    points.x[777 * 3 + 2] = bad[_i / 2];
    job j = job_open(points, "2..4");
    check_refused(&j, KM_ERROR_DATA, "row 778, column 3");
    job_close(&j);
}
END_TEST

START_TEST(wrong_calls_are_refused) {
    job j = job_open(ref_uniform(100, 2, 2, KM_FLOAT32), "2..4");
    const km_fit_params good = j.params;
    const double init[] = {0, 0, 1, 1, 2, 2, NAN, 3};
    j.params.max_iter = -1;
    check_refused(&j, KM_ERROR_USAGE, "max_iter");
    j.params = good;
    j.params.tol = -.5;
    check_refused(&j, KM_ERROR_USAGE, "tol");
    j.params.tol = NAN;
    check_refused(&j, KM_ERROR_USAGE, "tol");
    j.params = good;
    j.params.changes_min = -1;
    check_refused(&j, KM_ERROR_USAGE, "changes_min");
    j.params = good;
    j.params.init = KM_INIT_GIVEN;
    check_refused(&j, KM_ERROR_USAGE, "init_rows");
    give_init(&j, init, 3);
    check_refused(&j, KM_ERROR_DATA, "4 (the largest K");
    give_init(&j, init, 4);
    check_refused(&j, KM_ERROR_DATA, "row 4, column 1");
    j.params = good;
    j.spec.features = 3;
    check_refused(&j, KM_ERROR_DATA, "3");
    job_close(&j);
}
END_TEST

START_TEST(default_clusters) {
    job j = job_open(ref_uniform(_i, 2, 2, KM_FLOAT32), NULL);
    km_result *result = fit(&j);
    int last = _i - 1 < 20 ? _i - 1 : 20, first = last < 2 ? 1 : 2;
    ck_assert_int_eq(result->models[0].k, first);
    ck_assert_int_eq(result->models[result->models_count - 1].k, last < 2 ? 1 : last);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Weights ---------------------------------------------------------------------------------------------------

// A row of weight 2 counts as two rows, one of weight 0 as none.
START_TEST(weights_equal_repeated_rows) {
    km_type type = type_of(_i);
    ref_data points = ref_blobs(1501, 3, 4, 2.0, 5, type), repeated = ref_data_make(3002, 3, type);
    points.w = calloc(1501, sizeof(double));
    repeated.n = 0;
    for (int64_t i = 0; i < points.n; i++) {
        points.w[i] = (double)(i % 3);
        for (int64_t copy = 0; copy < i % 3; copy++, repeated.n++)
            memcpy(repeated.x + repeated.n * 3, points.x + i * 3, 3 * sizeof(double));
    }
    double init[12];
    ref_rows(init, &repeated, (const int64_t[]){0, 100, 500, 900}, 4);
    job a = job_open(points, "2..4"), b = job_open(repeated, "2..4");
    give_init(&a, init, 4);
    give_init(&b, init, 4);
    a.params.tol = b.params.tol = 0;
    km_result *weighted = fit(&a), *plain = fit(&b);
    for (int m = 0; m < 3; m++) {
        const km_model *x = &weighted->models[m], *y = &plain->models[m];
        check_same_model(x, &(km_model){.k = y->k, .inertia = y->inertia}, weighted, accuracy(type));
        for (int i = 0; i < x->k * 3; i++)
            REF_NEAR(x->centroids[i], y->centroids[i], type == KM_FLOAT32 ? 1e-5 : 1e-12);
        for (int i = 0; i < x->k; i++) ck_assert_double_eq(x->weights[i], y->weights[i]);
        for (int c = 0; c < KM_CRITERION_COUNT; c++) // a valley's standard error counts rows
            if (c != KM_CRITERION_valley && !isnan(x->scores[c]))
                REF_NEAR(x->scores[c], y->scores[c], 1e-5 * fabs(y->scores[c]));
    }
    km_result_destroy(&weighted);
    km_result_destroy(&plain);
    job_close(&a);
    job_close(&b);
}
END_TEST

START_TEST(weights_of_a_fit) {
    ref_data points = ref_blobs(3001, 4, 5, 2.0, 6, type_of(_i));
    ref_weigh(&points, 2);
    job j = job_open(points, "2..7");
    km_result *result = fit(&j); // the checks are in here
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(bad_weights_are_refused) {
    double weights[] = {1, 1, 1, 1};
    km_error err = {{0}};
    km_data *data = NULL;
    const double bad[] = {-1, NAN, INFINITY};
    for (int b = 0; b < 3; b++) {
        err.text[0] = 0;
        weights[2] = bad[b];
        ck_assert_int_eq(km_data_from_memory(&data, square, 4, 2, KM_FLOAT64, 0, 0, weights, &err),
                         KM_ERROR_DATA);
        ck_assert_ptr_null(data);
        ck_assert(err.text[0]);
    }
    memset(weights, 0, sizeof weights);
    ck_assert_int_eq(km_data_from_memory(&data, square, 4, 2, KM_FLOAT64, 0, 0, weights, NULL),
                     KM_ERROR_DATA);
}
END_TEST

// Starts ----------------------------------------------------------------------------------------------------

// max(K) rows, of which each K takes its first, equal the rows of every K one after the other.
START_TEST(given_init_has_two_forms) {
    km_type type = type_of(_i);
    ref_data points = ref_blobs(2003, 2, 5, 2.0, 7, type);
    double rows[10], all[28]; // K = 2, 3, 4, 5: 14 rows
    ref_rows(rows, &points, (const int64_t[]){1, 70, 330, 1000, 2002}, 5);
    for (int64_t k = 2, at = 0; k <= 5; at += 2 * k, k++)
        memcpy(all + at, rows, (size_t)(2 * k) * sizeof(double));
    job j = job_open(points, "2..5");
    give_init(&j, rows, 5);
    km_result *first = fit(&j);
    give_init(&j, all, 14);
    km_result *second = fit(&j);
    check_same_bits(first, second);
    ref_data whole = clustered_points(&points, first);
    for (int m = 0; m < 4 && type == KM_FLOAT64; m++) { // and the reference, which starts there too
        double init[10], mean[2], variance = ref_mean_variance(mean, &whole);
        for (int i = 0; i < 10; i++) init[i] = rows[i] - first->centre[i % 2];
        ref_model model = ref_fit(&whole, init, m + 2, 1e-4 * variance, 300);
        REF_NEAR(first->models[m].inertia, model.inertia, 1e-12 * model.inertia);
        ck_assert_int_eq(first->models[m].n_iter, model.n_iter);
        ck_assert_mem_eq(first->models[m].labels, model.labels, (size_t)points.n * sizeof(int32_t));
        ref_model_free(&model);
    }
    ref_data_free(&whole);
    km_result_destroy(&first);
    km_result_destroy(&second);
    job_close(&j);
}
END_TEST

START_TEST(random_init) {
    job j = job_open(ref_blobs(2003, 2, 5, 1.0, 8, type_of(_i)), "2..6");
    j.params.init = KM_INIT_RANDOM;
    j.params.refine = 0;
    j.params.seed = 3;
    km_result *first = fit(&j), *again = fit(&j);
    check_same_bits(first, again);
    km_result_destroy(&again);
    j.params.max_iter = 1;
    j.spec.n_init = 1;
    km_result *one = fit(&j);
    j.params.seed = 4;
    again = fit(&j);
    ck_assert_double_ne(one->models[4].inertia, again->models[4].inertia);
    km_result_destroy(&first);
    km_result_destroy(&one);
    km_result_destroy(&again);
    job_close(&j);
}
END_TEST

START_TEST(more_restarts_are_never_worse) {
    double before[7];
    for (int r = 0; r < 4; r++) {
        job j = job_open(ref_uniform(1009, 3, 9, type_of(_i)), "2..8");
        j.spec.n_init = (int64_t[]){1, 3, 10, 40}[r];
        j.params.refine = 0;
        km_result *result = fit(&j);
        for (int m = 0; m < 7; m++) {
            if (r > 0) ck_assert_double_le(result->models[m].inertia, before[m]);
            before[m] = result->models[m].inertia;
        }
        km_result_destroy(&result);
        job_close(&j);
    }
}
END_TEST

// Refinement ------------------------------------------------------------------------------------------------

// check_result holds every fit of this file to it; here are those for which few restarts are not enough: many
// K, gaps in the list, K up to n, weights, copied rows, ties, and one restart each.
START_TEST(inertia_falls_with_k) {
    if (is_brief_lanes()) return;
    static const char *const lists[] = {"2..30", "1,2,3,5,8,13,21,34", "2..60 step 7", "100..120",
                                        "1,2,3,4,40,41,42,45"};
    int64_t lower = 0;
    for (int i = 0; i < 10; i++) {
        km_type type = type_of(i);
        if (is_sample() && i != 1 && i != 2 && i != 8) continue;
        ref_data points = i % 5 == 0   ? ref_uniform(421, 3, 30 + (unsigned)i, type)
                          : i % 5 == 1 ? ref_blobs(907, 2, 25, 1.0, 30 + (unsigned)i, type)
                          : i % 5 == 2 ? ref_grid(350, 2, 9, 30 + (unsigned)i, type) // copies and ties
                          : i % 5 == 3 ? ref_uniform(120, 2, 30 + (unsigned)i, type)
                                       : ref_blobs(5003, 4, 45, 0.5, 30 + (unsigned)i, type);
        if (i >= 5) ref_weigh(&points, 5);
        job j = job_open(points, lists[i % 5]);
        j.spec.n_init = 1;
        j.params.refine = KM_REFINE_AUTO;
        j.params.seed = (uint64_t)i;
        km_result *result = fit(&j);
        for (int64_t m = 0; m < result->models_count; m++) lower += result->models[m].refined;
        km_result_destroy(&result);
        job_close(&j);
    }
    ck_assert_int_gt(lower, is_sample() ? 10 : 20); // what was to be done here was done by refinement
}
END_TEST

// The restarts are those of a fit without refinement, and the same numbers are said of them.
START_TEST(refinement_comes_after_the_restarts) {
    if (is_sample() && !_i) return; // in the other type
    job j = job_open(ref_blobs(2003, 3, 12, 2.0, 40, type_of(_i)), "2..14");
    j.spec.n_init = 2;
    j.params.refine = KM_REFINE_AUTO;
    km_result *refined = fit(&j);
    j.params.refine = 0;
    km_result *plain = fit(&j);
    int64_t found = 0;
    ck_assert_int_eq(refined->refine, KM_REFINE_AUTO);
    ck_assert_int_eq(plain->refine, 0);
    ck_assert_int_eq(plain->refine_passes, 0);
    ck_assert_int_gt(refined->refine_passes, 0);
    ck_assert_int_eq(refined->passes, plain->passes);
    for (int64_t m = 0; m < plain->models_count; m++) {
        const km_model *a = &refined->models[m], *b = &plain->models[m];
        ck_assert_int_eq(a->restart, b->restart);
        ck_assert_int_eq(a->restarts_agreed, b->restarts_agreed);
        ck_assert_mem_eq(a->restart_inertia, b->restart_inertia, (size_t)a->restarts * sizeof(double));
        ck_assert(!b->refined && !b->at_rest);
        ck_assert(!a->refined || a->inertia < a->restart_inertia[a->restart]);
        found += a->refined;
    }
    ck_assert_int_gt(found, 0);
    km_result_destroy(&refined);
    km_result_destroy(&plain);
    job_close(&j);
}
END_TEST

// A run that had converged stays so where the iterations until it is at rest are cut off by refinement's share.
START_TEST(refinement_keeps_what_had_converged) {
    if (is_sample() || is_brief_lanes()) return; // its cases of other numbers refine as well
    job j = job_open(ref_uniform(100003, 16, 3, KM_FLOAT32), "20..24");
    j.spec.n_init = 1;
    j.params.tol = 0.02;
    j.params.labels = KM_LABELS_NONE;
    j.params.refine = KM_REFINE_AUTO;
    km_result *refined = fit(&j);
    j.params.refine = 0;
    km_result *plain = fit(&j);
    int64_t cut_off = 0;
    for (int64_t m = 0; m < plain->models_count; m++) {
        const km_model *a = &refined->models[m], *b = &plain->models[m];
        cut_off += !a->at_rest && !a->refined;
        ck_assert(a->refined || a->converged || !b->converged);
    }
    ck_assert_int_gt(cut_off, 0);
    ck_assert(!has_warning(refined, "before converging"));
    km_result_destroy(&refined);
    km_result_destroy(&plain);
    job_close(&j);
}
END_TEST

START_TEST(refinement_by_number_of_passes) {
    if (is_brief_lanes()) return;
    if (is_sample() && _i) return; // in one type
    job j = job_open(ref_uniform(2003, 2, 41, type_of(_i)), "2..12");
    j.spec.n_init = 1;
    int64_t before = 0;
    for (int p = 0; p < 4; p++) {
        j.params.refine = (int64_t[]){1, 7, 40, 1000000}[p];
        km_result *result = fit(&j);
        ck_assert_int_eq(result->refine, j.params.refine);
        ck_assert_int_ge(result->refine_passes, before);
        before = result->refine_passes;
        // A K that would be worse than the one before it takes passes of its own.
        if (p > 0) ck_assert_int_le(result->refine_passes, j.params.refine + 100);
        for (int64_t m = 0; p == 3 && m < result->models_count; m++) ck_assert(result->models[m].at_rest);
        km_result_destroy(&result);
    }
    j.spec.refine = 0;
    j.params.refine = KM_REFINE_AUTO; // the spec's
    km_result *result = fit(&j);
    ck_assert_int_eq(result->refine, 0);
    km_result_destroy(&result);
    j.params.refine = -2;
    check_refused(&j, KM_ERROR_USAGE, "refine is -2");
    job_close(&j);
}
END_TEST

// Stopping --------------------------------------------------------------------------------------------------

START_TEST(cost_never_rises) {
    km_type type = type_of(_i);
    double before[4] = {INFINITY, INFINITY, INFINITY, INFINITY}, init[24];
    ref_data points = ref_uniform(3001, 3, 10, type);
    ref_rows(init, &points, (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    job j = job_open(points, "2,3,5,8");
    give_init(&j, init, 8);
    j.params.tol = 0;
    for (int64_t iterations = 1; iterations <= 25; iterations++) {
        j.params.max_iter = iterations;
        km_result *result = fit(&j);
        for (int m = 0; m < 4; m++) {
            ck_assert_double_le(result->models[m].inertia, before[m] * (1 + accuracy(type)));
            ck_assert(result->models[m].converged || result->models[m].n_iter == iterations);
            before[m] = result->models[m].inertia;
        }
        ck_assert(iterations > 1 || has_warning(result, "before converging"));
        km_result_destroy(&result);
    }
    job_close(&j);
}
END_TEST

START_TEST(tol_stops_early) {
    job j = job_open(ref_uniform(3001, 2, 11, type_of(_i)), "8");
    j.spec.n_init = 1;
    j.params.refine = 0;
    int64_t iterations[3];
    for (int t = 0; t < 3; t++) {
        j.params.tol = (double[]){0, 1e-3, 1e6}[t];
        km_result *result = fit(&j);
        ck_assert(result->models[0].converged);
        iterations[t] = result->models[0].n_iter;
        km_result_destroy(&result);
    }
    ck_assert_int_gt(iterations[0], iterations[1]);
    ck_assert_int_gt(iterations[1], iterations[2]);
    ck_assert_int_eq(iterations[2], 1);
    job_close(&j);
}
END_TEST

START_TEST(few_changes_stop_early) {
    job j = job_open(ref_uniform(3001, 2, 11, type_of(_i)), "8");
    j.spec.n_init = 1;
    j.params.refine = 0;
    j.params.tol = 0;
    int64_t iterations[3];
    for (int t = 0; t < 3; t++) {
        j.params.changes_min = (int64_t[]){0, 20, 3002}[t];
        km_result *result = fit(&j);
        ck_assert(result->models[0].converged);
        iterations[t] = result->models[0].n_iter;
        if (t > 0) ck_assert_int_eq(result->plan.track_labels, 1);
        km_result_destroy(&result);
        // From here on centroids are where they were when few labels changed: not at rest.
        j.params.tol = 1e-12;
    }
    ck_assert_int_gt(iterations[0], iterations[1]);
    ck_assert_int_gt(iterations[1], iterations[2]);
    ck_assert_int_le(iterations[2], 2);
    job_close(&j);
}
END_TEST

static int stop_in(void *user, const km_progress *progress) {
    return !strcmp(progress->phase, user);
}

START_TEST(progress_interrupts) {
    static char *const phases[] = {"build", "read", "seed", "sweep", "refine", "finish"};
    job j = job_open(ref_uniform(3001, 2, 11, KM_FLOAT32), "2..8");
    j.params.progress = stop_in;
    for (int p = 0; p < 6; p++) {
        j.params.progress_user = phases[p];
        check_refused(&j, KM_ERROR_INTERRUPTED, phases[p]);
    }
    j.params.progress_user = "no such phase";
    km_result *result = fit(&j);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

typedef struct ending {
    const char *phase;
    int64_t calls, after; // of the phase; the call from which on the answer is to end
} ending;

static int end_in(void *user, const km_progress *progress) {
    ending *e = user;
    if (strcmp(progress->phase, e->phase)) return 0;
    return ++e->calls > e->after ? KM_FIT_STOP_WITH_RESULT : 0;
}

// From the last pass on.
static int end_behind_finish(void *user, const km_progress *progress) {
    int *is_finishing = user;
    if (!strcmp(progress->phase, "finish")) *is_finishing = 1;
    return *is_finishing && strcmp(progress->phase, "finish") ? KM_FIT_STOP_WITH_RESULT : 0;
}

// With so little refinement the last pass finds models that are worse than those of the K before, and mends them.
START_TEST(an_end_while_models_are_mended) {
    for (uint64_t seed = 0; seed < (is_sample() ? 2 : 8); seed++) {
        int is_finishing = 0;
        km_error err = {{0}};
        km_result *result = NULL;
        job j = job_open(ref_blobs(907, 2, 25, 1.0, 31, type_of(_i)), "2..40");
        j.spec.n_init = 1;
        j.params.init = KM_INIT_RANDOM;
        j.params.refine = 1;
        j.params.seed = seed;
        j.params.progress = end_behind_finish;
        j.params.progress_user = &is_finishing;
        must(km_fit(&result, &j.spec, j.data, &j.params, &err), &err, "km_fit");
        for (int64_t m = 1; m < result->models_count; m++)
            ck_assert_double_le(result->models[m].inertia, result->models[m - 1].inertia);
        km_result_destroy(&result);
        job_close(&j);
    }
}
END_TEST

// Whatever the moment, each K has a model with its own labels and scores.
START_TEST(progress_ends_with_a_result) {
    if (is_brief_lanes()) return;
    if (is_sample() && _i) return; // in one type
    static const ending all[] = {{"sweep", 0, 0},  {"sweep", 0, 1},  {"sweep", 0, 4},
                                 {"refine", 0, 0}, {"refine", 0, 2}, {"finish", 0, 0}};
    job j = job_open(ref_uniform(20011, 3, 11, type_of(_i)), "2,3,9");
    j.spec.n_init = 20;
    j.params.tol = 0;
    for (size_t e = 0; e < sizeof all / sizeof *all; e++) {
        ending now = all[e];
        if (is_sample() && e % 3 == 1) continue; // an end in each phase
        km_error err = {{0}};
        km_result *result = NULL;
        j.params.progress = end_in;
        j.params.progress_user = &now;
        must(km_fit(&result, &j.spec, j.data, &j.params, &err), &err, "km_fit");
        // A GPU, which makes several passes between two calls, may be done before there are so many.
        int is_over = !strcmp(target, "cuda") && now.after > 0 && now.calls <= now.after;
        ck_assert_int_eq(result->interrupted, !is_over);
        ck_assert_int_eq(has_warning(result, "interrupted"), !is_over);
        ck_assert_int_eq(result->models_count, 3);
        ref_data fitted = clustered_points(&j.points, result);
        for (int m = 0; m < 3; m++) {
            const km_model *model = &result->models[m];
            int64_t wrong, ended = 0;
            ck_assert_int_eq(
                ref_labels_wrong(&wrong, &fitted, model->centroids_fitted, model->k, model->labels), 0);
            REF_NEAR(model->inertia, ref_inertia(&fitted, model->centroids_fitted, model->labels),
                     accuracy(fitted.type) * model->inertia);
            ck_assert(isfinite(model->scores[KM_CRITERION_calinski_harabasz]));
            ck_assert_int_ge(model->n_iter, 1);
            for (int64_t r = 0; r < model->restarts; r++) ended += isfinite(model->restart_inertia[r]);
            ck_assert_int_ge(ended, 1);
            if (e > 2) ck_assert_int_eq(ended, model->restarts);
        }
        ck_assert_int_ge(result->selection.best, 0);
        ref_data_free(&fitted);
        km_result_destroy(&result);
    }
    static char *const before[] = {"build", "read", "seed"};
    for (int p = 0; p < 3; p++) {
        ending now = {before[p], 0, 0};
        j.params.progress_user = &now;
        check_refused(&j, KM_ERROR_INTERRUPTED, before[p]);
    }
    job_close(&j);
}
END_TEST

typedef struct rewriting {
    const char *phase, *path;
    int64_t bytes; // to append; 0: the same bytes are written again
} rewriting;

static int rewrite_in(void *user, const km_progress *progress) {
    rewriting *w = user;
    if (!w->phase || strcmp(progress->phase, w->phase)) return 0;
    w->phase = NULL;
    FILE *file = fopen(w->path, "r+b");
    ck_assert_ptr_nonnull(file);
    if (w->bytes) fseek(file, 0, SEEK_END);
    const double zeros[4] = {0};
    ck_assert_uint_eq(fwrite(zeros, 1, 32, file), 32);
    ck_assert_int_eq(fclose(file), 0);
    return 0;
}

// A file that others write to while a fit has it mapped: no result of two states of it.
START_TEST(a_file_that_changes_is_refused) {
    char path[64];
    snprintf(path, sizeof path, "%s/changes.f64", folder);
    job j = job_open(ref_uniform(3001, 4, 11, KM_FLOAT64), "2..4");
    km_data *own = j.data;
    for (int t = 0; t < 3; t++) {
        km_error err = {{0}};
        km_data_params params;
        FILE *file = fopen(path, "wb");
        ck_assert_ptr_nonnull(file);
        ck_assert_uint_eq(fwrite(j.points.x, 8, 3001 * 4, file), 3001 * 4);
        fclose(file);
        usleep(20000); // the clock of file times has coarse steps
        km_data_params_init(&params);
        params.features = 4;
        must(km_data_open(&j.data, path, &params, &err), &err, "open");
        rewriting w = {t == 2 ? NULL : "sweep", path, t == 0 ? 32 : 0};
        j.params.progress = rewrite_in;
        j.params.progress_user = &w;
        if (t == 2) {
            km_result *result = fit(&j);
            km_result_destroy(&result);
        } else {
            check_refused(&j, KM_ERROR_IO, "changed while it was read");
        }
        km_data_destroy(&j.data);
    }
    j.data = own;
    job_close(&j);
}
END_TEST

// Scales ----------------------------------------------------------------------------------------------------

START_TEST(scales_keep_original_units) {
    km_scale scale = (km_scale)(_i / 2);
    ref_data points = ref_blobs(2003, 3, 4, 1.0, 12, type_of(_i));
    for (int64_t i = 0; i < points.n; i++) {
        points.x[i * 3 + 1] = ref_round(points.x[i * 3 + 1] * 1000 + 5e4, points.type);
        points.x[i * 3 + 2] = 7; // a constant feature
    }
    job j = job_open(points, "4");
    j.params.scale = scale;
    j.params.tol = 0;
    km_result *result = fit(&j);
    const km_model *model = result->models;
    ck_assert_int_eq(has_warning(result, "scale standard"), scale == KM_SCALE_NONE);
    ck_assert(has_warning(result, "never change"));
    double centroids[12] = {0};
    ref_update(centroids, NULL, NULL, &points, model->labels, 4);
    for (int c = 0; c < 12; c++) {
        double size = c % 3 == 1 ? 6e4 : 20;
        REF_NEAR(model->centroids[c], centroids[c], (points.type == KM_FLOAT32 ? 1e-6 : 1e-12) * size);
    }
    double low = INFINITY, high = -INFINITY, mean[3], variance = 0;
    ref_mean_variance(mean, &points);
    for (int64_t i = 0; i < points.n; i++) {
        double x = points.x[i * 3 + 1];
        low = fmin(low, x);
        high = fmax(high, x);
        variance += (x - mean[1]) * (x - mean[1]) / (double)points.n;
    }
    double factor = scale == KM_SCALE_NONE       ? 1
                    : scale == KM_SCALE_STANDARD ? 1 / sqrt(variance)
                                                 : 1 / (high - low);
    REF_NEAR(result->factor[1], factor, 1e-12 * factor);
    ck_assert_double_eq(result->factor[2], 1);
    REF_NEAR(result->variance[1], variance, 1e-12 * variance);
    REF_NEAR(result->mean[1], mean[1], 1e-12 * mean[1]);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// The same bits, and the same clusters ------------------------------------------------------------------------

START_TEST(same_bits_every_time) {
    // The short form: weights with one of the types, under sanitizers with the other.
    if (!is_whole() && is_sample() != (_i % 3 == 0)) return;
    ref_data points = ref_blobs(is_sample() ? 70001 : 150001, 3, 6, 3.0, 13, type_of(_i));
    if (_i / 2) ref_weigh(&points, 3);
    job j = job_open(points, is_sample() ? "2,7" : "2..7");
    j.spec.n_init = is_sample() ? 2 : 3;
    j.params.seed = 11;
    j.params.max_iter = 20;
    km_result *first = fit(&j);
    for (int t = is_sample() ? 3 : 0; t < 4; t++) {
        j.params.threads = (int64_t[]){1, 2, 3, 5}[t];
        km_result *again = fit(&j);
        check_same_bits(first, again);
        ck_assert_uint_eq(km_result_digest(first), km_result_digest(again));
        km_result_destroy(&again);
    }
    km_result_destroy(&first);
    job_close(&j);
}
END_TEST

// Points of several kinds: clusters; many points at the same places, and ties between centroids; one point far out in
// one feature; weights.
static ref_data points_of_kind(int kind, int64_t n, km_type type) {
    ref_data points = kind == 1 ? ref_grid(n, 4, 4, 23, type) : ref_blobs(n, 4, 6, 3.0, 23, type);
    if (kind == 2) points.x[n / 3 * 4 + 1] = ref_round(3e7, type);
    if (kind == 3) ref_weigh(&points, 5);
    return points;
}

// The digest of a fit with numbers of the plan fixed, "NAME=VALUE", one or some with blanks between; 0 where no plan
// has them.
static uint64_t digest_with(const job *j, const char *fixed) {
    km_error err = {{0}};
    km_result *result = NULL;
    job other = *j;
    char text[200], *rest = text;
    snprintf(text, sizeof text, "%s", fixed);
    km_spec_init(&other.spec);
    must(km_spec_copy(&other.spec, &j->spec, &err), &err, "copy");
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(name, '=');
        *value = 0;
        must(km_spec_fix(&other.spec, name, value + 1, &err), &err, name);
    }
    km_status status = km_fit(&result, &other.spec, j->data, &other.params, &err);
    km_spec_clear(&other.spec);
    if (*fixed && status == KM_ERROR_PLAN) return 0;
    must(status, &err, *fixed ? fixed : "km_fit");
    uint64_t digest = km_result_digest(result);
    km_result_destroy(&result);
    return digest;
}

// Labels, models, scores: a digest is of all of them. Of either layout, whatever threads there are.
static void digests_of_threads(job *j) {
    static const char *const layouts[] = {"dense", "csr"};
    for (int l = 0; l < (design ? 1 : 2); l++) { // a design that is fixed has one layout
        km_error err = {{0}};
        must(km_spec_set_layout(&j->spec, layouts[l], &err), &err, "layout");
        j->params.threads = 1;
        uint64_t first = digest_with(j, "");
        for (int t = 0; t < 3; t++) {
            j->params.threads = (int64_t[]){2, 3, 5}[t];
            ck_assert_uint_eq(digest_with(j, ""), first);
        }
    }
}

// Whatever grid, block, points of a thread and launches there are.
static void digests_of_plans(job *j, const char *of_design, const char *const *plans, int count) {
    char fixed[200];
    uint64_t first = 0;
    int same = 0;
    for (int i = 0; i < count; i++) {
        snprintf(fixed, sizeof fixed, "design=%s %s", of_design, plans[i]);
        uint64_t digest = digest_with(j, fixed);
        if (!first) first = digest;
        ck_assert_msg(!digest || digest == first, "another digest with %s", fixed);
        same += digest != 0;
    }
    ck_assert_msg(2 * same > count, "%s refuses %d of %d plans", of_design, count - same, count);
}

// Each kind of points has some changes of each design, all kinds together have all.
static void digests_of_designs(job *j, int kind) {
    enum { PLANS = 3 };
    static const char *const tensor[][PLANS] = {{"", "grid=97", "grid=264"},
                                                {"", "launches=2", "form=hi_lo"},
                                                {"", "block=128 grid=61", "prefetch=2"}};
    static const char *const registers[][PLANS] = {
        {"", "grid=97 points_per_thread=1", "points_per_thread=8 block=128"},
        {"", "launches=2 points_per_thread=6", "grid=264 form=shared"},
        {"", "split=2 points_per_thread=3", "prefetch=0 block=256 grid=50"},
        {"", "points_per_thread=2 block=512", "launches=4 grid=31"}};
    // In float64, sums=chunks and products depend on the grid (docs/numerics.md).
    static const char *const tiled[][PLANS] = {
        {"sums=sorted", "sums=sorted grid=97", "sums=sorted grid=264"},
        {"sums=sorted", "sums=sorted tile_points=64", "sums=sorted grid=31"}};
    static const char *const sparse[][PLANS] = {{"", "grid=97", "grid=264"}, {"", "block=128", "grid=31"}};
    km_error err = {{0}};
    if (j->spec.type == KM_FLOAT32 && kind < 3)
        digests_of_plans(j, "tensor", tensor[kind], PLANS); // no weights
    digests_of_plans(j, "registers", registers[kind], PLANS);
    digests_of_plans(j, "tiled", tiled[kind % 2], PLANS);
    must(km_spec_set_layout(&j->spec, "csr", &err), &err, "layout");
    digests_of_plans(j, "sparse_warps", sparse[kind % 2], PLANS);
}

START_TEST(digest_does_not_depend_on_threads_or_plan) {
    static const char *const tiled[] = {"", "grid=97", "tile_clusters=32", "form=tiles"};
    const int kind = _i / 2;
    const km_type type = type_of(_i);
    const int is_gpu = !strcmp(target, "cuda");
    if (is_sample() && _i % 2 != kind % 2) return; // each kind in one type
    job j = job_open(points_of_kind(kind, is_gpu ? 600011 : is_sample() ? 40009 : 70001, type), "2..5");
    j.spec.n_init = 2;
    j.params.seed = 3;
    j.params.max_iter = 20;
    if (is_gpu)
        digests_of_designs(&j, kind);
    else
        digests_of_threads(&j);
    int unweighted = !j.points.w;
    job_close(&j);
    if (!is_gpu || !unweighted) return;
    j = job_open(points_of_kind(kind, 100003, type), "33,70"); // labels are resolved, sums are integers
    j.spec.n_init = 1;
    j.params.max_iter = 10;
    digests_of_plans(&j, "tiled", tiled, 4);
    job_close(&j);
}
END_TEST

START_TEST(seed_matters) {
    job j = job_open(ref_uniform(2003, 2, 14, type_of(_i)), "9");
    j.spec.n_init = 1;
    j.params.refine = 0;
    km_result *a = fit(&j);
    j.params.seed = 1;
    km_result *b = fit(&j);
    ck_assert_double_ne(a->models[0].inertia, b->models[0].inertia);
    km_result_destroy(&a);
    km_result_destroy(&b);
    job_close(&j);
}
END_TEST

// One sweep over a list of K finds what a fit of each K alone finds, where K do not start from each other.
START_TEST(together_equals_each_alone) {
    if (is_sample() && _i % 3) return; // weights with the other type
    km_type type = type_of(_i);
    ref_data points = ref_blobs(4001, 4, 6, 2.5, 15, type);
    if (_i / 2) ref_weigh(&points, 9);
    job j = job_open(points, sums_are_doubles() ? "2..12" : "2,3,5,8,12"); // NVRTC takes seconds for each
    j.spec.n_init = 4;
    j.params.refine = 0;
    km_result *together = fit(&j);
    for (int m = 0; m < together->models_count; m++) {
        char k[16];
        km_error err = {{0}};
        snprintf(k, sizeof k, "%d", together->models[m].k);
        must(km_spec_set_clusters(&j.spec, k, &err), &err, "clusters");
        km_result *alone = fit(&j);
        const km_model *a = &together->models[m], *b = alone->models;
        REF_NEAR(a->inertia, b->inertia, accuracy(type) * a->inertia);
        if (sums_are_doubles()) {
            ck_assert_int_eq(a->restart, b->restart);
            ck_assert_int_eq(a->n_iter, b->n_iter);
        }
        // On a GPU, which of several restarts with one optimum wins is a matter of rounding.
        if (a->restart == b->restart) check_same_model(a, b, together, accuracy(type));
        km_result_destroy(&alone);
    }
    km_result_destroy(&together);
    job_close(&j);
}
END_TEST

static const int64_t column_order[] = {3, 0, 4, 2, 1};

// Features in another order: the same partition.
START_TEST(permuted_columns) {
    km_type type = type_of(_i);
    ref_data points = ref_blobs(3001, 5, 6, 1.0, 16, type), moved = ref_data_copy(&points);
    double init[30], moved_init[30];
    ref_rows(init, &points, (const int64_t[]){0, 1, 2, 3, 4, 5}, 6);
    for (int64_t i = 0; i < points.n * 5; i++) moved.x[i] = points.x[i / 5 * 5 + column_order[i % 5]];
    for (int i = 0; i < 30; i++) moved_init[i] = init[i / 5 * 5 + column_order[i % 5]];
    job a = job_open(points, "2..6"), b = job_open(moved, "2..6");
    give_init(&a, init, 6);
    give_init(&b, moved_init, 6);
    km_result *x = fit(&a), *y = fit(&b);
    for (int m = 0; m < 5; m++) check_same_model(&x->models[m], &y->models[m], x, accuracy(type));
    km_result_destroy(&x);
    km_result_destroy(&y);
    job_close(&a);
    job_close(&b);
}
END_TEST

// Powers of two change no bit but the exponent.
START_TEST(scaled_points) {
    ref_data points = ref_blobs(3001, 2, 6, 1.0, 17, type_of(_i)), larger = ref_data_copy(&points);
    for (int64_t i = 0; i < points.n * 2; i++) larger.x[i] = points.x[i] * 1024;
    job a = job_open(points, "2..6"), b = job_open(larger, "2..6");
    km_result *x = fit(&a), *y = fit(&b);
    for (int m = 0; m < 5; m++) {
        ck_assert_double_eq(x->models[m].inertia * 0x1p20, y->models[m].inertia);
        ck_assert_mem_eq(x->models[m].labels, y->models[m].labels, (size_t)points.n * sizeof(int32_t));
        REF_NEAR(x->models[m].scores[0], y->models[m].scores[0], 1e-10 * x->models[m].scores[0]);
    }
    km_result_destroy(&x);
    km_result_destroy(&y);
    job_close(&a);
    job_close(&b);
}
END_TEST

// Memory in another layout (columns one after the other) gives the same bits.
START_TEST(column_order_in_memory) {
    km_type type = type_of(_i);
    ref_data points = ref_blobs(3001, 3, 6, 1.0, 18, type), turned = ref_data_make(3001, 3, type);
    for (int64_t i = 0; i < points.n; i++)
        for (int64_t f = 0; f < 3; f++) turned.x[f * points.n + i] = points.x[i * 3 + f];
    void *values = ref_values(&turned);
    km_error err = {{0}};
    job j = job_open(points, "2..6");
    km_result *x = fit(&j);
    km_data_destroy(&j.data);
    must(km_data_from_memory(&j.data, values, 3001, 3, type, 1, 3001, NULL, &err), &err, "data");
    km_result *y = fit(&j);
    check_same_bits(x, y);
    km_result_destroy(&x);
    km_result_destroy(&y);
    job_close(&j);
    free(values);
    ref_data_free(&turned);
}
END_TEST

// Points in memory may be of the other type; they are converted as they are read.
START_TEST(memory_of_the_other_type) {
    ref_data points = ref_blobs(3001, 3, 6, 1.0, 19, KM_FLOAT32);
    job floats = job_open(points, "2..5"),
        doubles = job_open(ref_data_of(points.x, NULL, 3001, 3, KM_FLOAT64), "2..5");
    floats.spec.type = doubles.spec.type = KM_FLOAT32;
    doubles.points.type = KM_FLOAT32;
    km_result *x = fit(&floats), *y = fit(&doubles);
    check_same_bits(x, y);
    km_result_destroy(&x);
    km_result_destroy(&y);
    job_close(&floats);
    job_close(&doubles);
}
END_TEST

// Points that lie on the device give what the same points of the host give, in either type, and their labels.
START_TEST(points_on_the_device) {
    km_error err = {{0}};
    km_type type = type_of(_i);
    ref_data points = ref_blobs(70001, 3, 6, 1.0, 19, type);
    if (_i / 4) ref_weigh(&points, 5);
    job j = job_open(points, "2..5");
    j.spec.type = type_of(_i / 2);
    if (_i / 4) j.params.scale = KM_SCALE_ROBUST;
    km_result *x = fit(&j);
    km_data_destroy(&j.data);
    void *there = copy_to_device(j.values, (size_t)(points.n * points.d * (type == KM_FLOAT64 ? 8 : 4)));
    ck_assert_ptr_nonnull(there);
    must(km_data_from_device(&j.data, _i / 4 ? KM_DEVICE_AUTO : 0, there, points.n, 3, type, NULL, points.w,
                             &err),
         &err, "data");
    j.params.device = KM_DEVICE_AUTO;
    km_result *y = fit(&j);
    check_same_bits(x, y);
    km_predictor *model = NULL;
    int32_t *labels = calloc((size_t)points.n, sizeof *labels);
    must(km_predictor_create(&model, y, y->selection.best, &err), &err, "km_predictor_create");
    for (int device = KM_DEVICE_AUTO; device <= KM_HOST; device++) {
        j.params.device = device;
        must(km_predict(labels, model, j.data, &j.params, &err), &err, "km_predict");
        ck_assert_int_eq(
            memcmp(labels, y->models[y->selection.best].labels, (size_t)points.n * sizeof *labels), 0);
    }
    double first[3], host[3];
    must(km_data_read(first, j.data, points.n - 1, 1, KM_FLOAT64, &err), &err, "km_data_read");
    for (int f = 0; f < 3; f++) host[f] = points.x[(points.n - 1) * 3 + f];
    ck_assert_int_eq(memcmp(first, host, sizeof first), 0);
    free(labels);
    km_predictor_destroy(&model);
    km_result_destroy(&x);
    km_result_destroy(&y);
    job_close(&j);
}
END_TEST

START_TEST(points_on_the_device_are_refused) {
    km_error err = {{0}};
    float values[300] = {0};
    km_data *data = NULL;
    km_result *result = NULL;
    for (int i = 0; i < 300; i++) values[i] = (float)(i * i % 71);
    ck_assert_int_eq(km_data_from_device(&data, 0, values, 100, 3, KM_FLOAT32, NULL, NULL, &err),
                     KM_ERROR_USAGE);
    ck_assert_ptr_null(data);
    ck_assert_ptr_nonnull(strstr(err.text, "are no memory of a CUDA device"));
    err.text[0] = 0;
    ck_assert_int_eq(km_data_from_device(&data, 99, values, 100, 3, KM_FLOAT32, NULL, NULL, &err),
                     KM_ERROR_DEVICE);
    ck_assert_ptr_nonnull(strstr(err.text, "there is no CUDA device 99"));
    err.text[0] = 0;
    values[7 * 3 + 1] = NAN;
    const void *there = copy_to_device(values, sizeof values);
    must(km_data_from_device(&data, 0, there, 100, 3, KM_FLOAT32, NULL, NULL, &err), &err, "data");
    km_spec spec;
    spec_open(&spec, "2..3", KM_FLOAT32);
    ck_assert_int_eq(km_fit(&result, &spec, data, NULL, &err), KM_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(err.text, "row 8, column 2: the value is missing (NaN)"));
    km_spec_clear(&spec);
    km_data_destroy(&data);
}
END_TEST

// Predicting ------------------------------------------------------------------------------------------------

START_TEST(predict_equals_labels) {
    km_error err = {{0}};
    char path[128];
    snprintf(path, sizeof path, "%s/model-%d.json", folder, _i);
    ref_data points = ref_blobs(5003, 3, 6, 2.0, 20, type_of(_i));
    ref_shift(&points, 100.3);
    job j = job_open(points, "2..7");
    j.params.scale = (km_scale)(_i / 2);
    km_result *result = fit(&j);
    int32_t *labels = calloc(5003, sizeof *labels);
    for (int64_t m = 0; m < result->models_count; m++) {
        km_predictor *saved = NULL;
        must(km_predictor_write(path, result, m, &err), &err, "km_predictor_write");
        must(km_predictor_read(&saved, path, &err), &err, "km_predictor_read");
        ck_assert_int_eq(km_predictor_features(saved), 3);
        ck_assert_int_eq(km_predictor_clusters(saved), result->models[m].k);
        must(km_predict(labels, saved, j.data, &j.params, &err), &err, "km_predict");
        ck_assert_mem_eq(labels, result->models[m].labels, 5003 * sizeof *labels);
        km_predictor_destroy(&saved);
    }
    free(labels);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Clusters are numbered by falling size, ties by their centroids: so the same points in another order, and from other
// starts, have the same centroids in the same rows. Given centroids keep their order.
START_TEST(clusters_are_numbered_by_size) {
    enum { N = 18 };
    static const double places[N] = {-2, -1, -1, 0, 1, 1, 2, 7, 8, 8, 9, 107, 108, 108, 109, 300, 300, 300};
    static const double expected[4] = {0, 8, 108, 300}, given[4] = {300, 0, 8, 0};
    for (int turn = 0; turn < N; turn++) {
        ref_data points = ref_data_make(N, 2, type_of(_i));
        for (int64_t i = 0; i < N; i++) points.x[2 * i] = places[(i * 5 + turn) % N];
        job j = job_open(points, "2..4");
        j.params.seed = (uint64_t)turn;
        km_result *result = fit(&j);
        for (int64_t m = 0; m < 3; m++)
            for (int32_t c = 1; c < m + 2; c++)
                ck_assert_int_ge(result->models[m].counts[c - 1], result->models[m].counts[c]);
        for (int32_t c = 0; c < 4; c++) REF_NEAR(result->models[2].centroids[2 * c], expected[c], 1e-5);
        km_result_destroy(&result);
        give_init(&j, given, 2);
        j.spec.clusters_count = 1;
        result = fit(&j);
        ck_assert_int_lt(result->models[0].counts[0], result->models[0].counts[1]);
        km_result_destroy(&result);
        job_close(&j);
    }
}
END_TEST

// Many points of a lattice are as far from two centroids: they go to the lower of the new numbers, as predict has it.
START_TEST(predict_equals_labels_on_ties) {
    km_error err = {{0}};
    char path[128];
    int32_t labels[90];
    snprintf(path, sizeof path, "%s/ties-%d.json", folder, _i);
    ref_data points = ref_data_make(90, 2, type_of(_i));
    for (int64_t i = 0; i < 90; i++) {
        points.x[2 * i] = (double)(i % 9);
        points.x[2 * i + 1] = (double)(i / 9);
    }
    job j = job_open(points, "2..8");
    for (uint64_t seed = 0; seed < 20; seed++) {
        j.params.seed = seed;
        j.spec.n_init = 1;
        km_result *result = fit(&j);
        for (int64_t m = 0; m < result->models_count; m++) {
            km_predictor *saved = NULL;
            must(km_predictor_write(path, result, m, &err), &err, "km_predictor_write");
            must(km_predictor_read(&saved, path, &err), &err, "km_predictor_read");
            must(km_predict(labels, saved, j.data, &j.params, &err), &err, "km_predict");
            ck_assert_mem_eq(labels, result->models[m].labels, sizeof labels);
            km_predictor_destroy(&saved);
        }
        km_result_destroy(&result);
    }
    job_close(&j);
}
END_TEST

// Runs that stop by the tolerance, on overlapping clusters, differ in cost by more than rounding where their labels
// hardly do. In the first set eight of ten found the same four clusters, in the second all the same five.
START_TEST(restarts_that_found_the_same_agree) {
    static const struct {
        uint64_t seed;
        int k, agreed;
        double stability;
    } sets[] = {{7, 4, 8, .952}, {0, 5, 10, .9996}};
    for (int s = 0; s < 2; s++) {
        char clusters[8];
        snprintf(clusters, sizeof clusters, "%d", sets[s].k);
        job j = job_open(ref_blobs(6000, 2, 5, 1.6, sets[s].seed, type_of(_i)), clusters);
        j.params.refine = 0;
        j.params.criteria = (uint64_t)1 << KM_CRITERION_stability;
        km_result *result = fit(&j);
        const km_model *model = &result->models[0];
        int equal = 0;
        for (int r = 0; r < 10; r++)
            equal += model->restart_inertia[r] <= model->restart_inertia[model->restart] * (1 + 1e-6);
        ck_assert_int_lt(equal, sets[s].agreed); // which is what costs alone say
        ck_assert_int_eq(model->restarts_agreed, sets[s].agreed);
        REF_NEAR(model->scores[KM_CRITERION_stability], sets[s].stability, .001);
        km_result_destroy(&result);
        job_close(&j);
    }
}
END_TEST

// Rows that --nan drop leaves out have label -1; the others are as if the rows were not there.
START_TEST(dropped_rows_have_no_label) {
    km_error err = {{0}};
    km_data_params params;
    km_data_params_init(&params);
    params.missing = KM_MISSING_DROP;
    char path[128];
    snprintf(path, sizeof path, "%s/holes.csv", folder);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 20; i++) fprintf(file, i == 0 || i == 7 ? "nan,%d\n" : "%d,1\n", i % 2 * 100 + i);
    fclose(file);
    km_data *data = NULL;
    km_result *result = NULL;
    must(km_data_open(&data, path, &params, &err), &err, "km_data_open");
    km_spec spec;
    km_fit_params fit_params;
    spec_open(&spec, "2", KM_FLOAT64);
    km_fit_params_init(&fit_params);
    fit_params.labels = KM_LABELS_BEST;
    fit_params.cache_dir = cache;
    must(km_fit(&result, &spec, data, &fit_params, &err), &err, "km_fit");
    ck_assert_int_eq(result->n, 18);
    ck_assert_int_eq(result->rows, 20);
    for (int i = 0; i < 20; i++) {
        int32_t expected = i == 0 || i == 7 ? -1 : result->models[0].labels[1 + (i + 1) % 2];
        ck_assert_int_eq(result->models[0].labels[i], expected);
    }
    ck_assert_int_ne(result->models[0].labels[1], result->models[0].labels[2]);
    ck_assert(has_warning(result, "2 of 20 rows"));
    km_result_destroy(&result);
    km_data_destroy(&data);
    km_spec_clear(&spec);
}
END_TEST

START_TEST(labels_on_request) {
    job j = job_open(ref_blobs(1009, 2, 3, 1.0, 21, KM_FLOAT32), "2..5");
    km_result *all = fit(&j);
    j.params.labels = KM_LABELS_BEST;
    km_result *best = fit(&j);
    j.params.labels = KM_LABELS_NONE;
    km_result *none = fit(&j);
    ck_assert_int_eq(all->models[all->selection.best].k, 3);
    for (int64_t m = 0; m < all->models_count; m++) {
        ck_assert_ptr_null(none->models[m].labels);
        ck_assert_int_eq(best->models[m].labels != NULL, m == best->selection.best);
    }
    check_same_bits(all, best);
    km_result_destroy(&all);
    km_result_destroy(&best);
    km_result_destroy(&none);
    job_close(&j);
}
END_TEST

// The cache of compiled kernels -------------------------------------------------------------------------------

typedef struct seen {
    int hits, misses, damaged;
} seen;

static void look(void *user, km_log_level level, const char *text) {
    seen *s = user;
    (void)level;
    s->hits += strstr(text, "cache hit") != NULL;
    s->misses += strstr(text, "cache miss") != NULL;
    s->damaged += strstr(text, "damaged") != NULL;
}

static int damage_how;

// Spoils every file of the cache folder but the sources: cut short, emptied, or a byte changed at half of it.
static int damage(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)place;
    const char *dot = strrchr(path, '.');
    if (kind != FTW_F || (dot && (!strcmp(dot, ".c") || !strcmp(dot, ".cu") || !strcmp(dot, ".log"))))
        return 0;
    if (damage_how < 2) return truncate(path, damage_how ? 0 : info->st_size / 2);
    FILE *file = fopen(path, "r+");
    ck_assert_ptr_nonnull(file);
    fseek(file, (long)(info->st_size / 2), SEEK_SET);
    int byte = fgetc(file);
    fseek(file, (long)(info->st_size / 2), SEEK_SET);
    fputc(byte ^ 0x55, file);
    return fclose(file);
}

START_TEST(cache_cold_warm_and_damaged) {
    if (is_sample() && _i) return; // nothing was compiled that could be damaged
    char dir[128];
    seen s = {0, 0, 0};
    const km_log log = {look, &s};
    snprintf(dir, sizeof dir, "%s/cache-%d", folder, _i);
    job j = job_open(ref_blobs(20011, 3, 4, 1.0, 22, KM_FLOAT32), "2..5");
    j.params.cache_dir = dir;
    j.params.log = &log;
    km_result *cold = fit(&j);
    int compiled = s.misses > 0; // the prebuilt design compiles nothing
    ck_assert(compiled || cold->plan.design == KM_DESIGN_PREBUILT);
    km_result *warm = fit(&j);
    ck_assert_int_eq(s.hits > 0, compiled);
    ck_assert_int_eq(s.damaged, 0);
    check_same_bits(cold, warm);
    km_result_destroy(&warm);
    damage_how = _i;
    nftw(dir, damage, 16, FTW_PHYS);
    s = (seen){0, 0, 0};
    warm = fit(&j);
    ck_assert_int_eq(s.damaged > 0 || s.misses > 0, compiled);
    check_same_bits(cold, warm);
    km_result_destroy(&warm);
    s = (seen){0, 0, 0};
    warm = fit(&j);
    ck_assert_int_eq(s.hits > 0, compiled);
    ck_assert_int_eq(s.misses, 0);
    km_result_destroy(&warm);
    km_result_destroy(&cold);
    job_close(&j);
}
END_TEST

static int is_emitted(const km_result *result) {
    return result->plan.design != KM_DESIGN_PREBUILT;
}

// Kernels for a CPU know neither the list of K nor the spec's name: what one list compiled serves another.
START_TEST(cache_serves_another_list) {
    char dir[128];
    seen s = {0, 0, 0};
    const km_log log = {look, &s};
    snprintf(dir, sizeof dir, "%s/lists", folder);
    const char *const lists[] = {"2..5", "3,7,9", "4"};
    for (int list = 0; list < 3; list++) {
        job j = job_open(ref_blobs(20011, 3, 4, 1.0, 22, KM_FLOAT32), lists[list]);
        j.params.cache_dir = dir;
        j.params.log = &log;
        snprintf(j.spec.name, sizeof j.spec.name, "list_%d", list);
        s = (seen){0, 0, 0};
        km_result *result = fit(&j);
        // Those of a GPU know the list.
        int on_cuda = result->plan.spec.target.kind == KM_TARGET_CUDA, compiled = is_emitted(result);
        ck_assert_int_eq(s.misses, compiled && (on_cuda || list == 0));
        ck_assert_int_eq(s.hits, compiled && !on_cuda && list > 0);
        km_result_destroy(&result);
        job_close(&j);
    }
}
END_TEST

// A compiler that fails leaves the prebuilt kernels; one that is not there was asked for by mistake.
START_TEST(no_compiler) {
    job j = job_open(ref_blobs(50021, 3, 4, 1.0, 22, KM_FLOAT64), "2..5");
    j.params.compiler = "/nonexistent/cc";
    check_refused(&j, KM_ERROR_COMPILE, "/nonexistent/cc");
    j.params.compiler = "/bin/false";
    j.params.cache_dir = NULL;
    km_result *without = fit(&j);
    ck_assert_int_eq(without->plan.design, KM_DESIGN_PREBUILT);
    j.params.compiler = NULL;
    km_result *with = fit(&j);
    for (int m = 0; m < 4; m++) // which of several restarts with one optimum wins is a matter of rounding
        REF_NEAR(with->models[m].inertia, without->models[m].inertia, 1e-12 * with->models[m].inertia);
    km_result_destroy(&with);
    km_result_destroy(&without);
    job_close(&j);
}
END_TEST

START_TEST(plan_is_the_one_that_fit_uses) {
    km_error err = {{0}};
    km_plan plan;
    job j = job_open(ref_blobs(5003, 3, 4, 1.0, 22, KM_FLOAT32), "2..5");
    km_plan_init(&plan);
    must(km_fit_plan(&plan, &j.spec, j.data, &j.params, &err), &err, "km_fit_plan");
    km_result *result = fit(&j);
    ck_assert_int_eq(plan.design, result->plan.design);
    ck_assert_int_eq(plan.numbers_count, result->plan.numbers_count);
    for (int64_t i = 0; i < plan.numbers_count; i++)
        ck_assert_int_eq(plan.numbers[i].value, result->plan.numbers[i].value);
    ck_assert_int_eq(plan.points, 5003);
    km_plan_clear(&plan);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// The decision and its warnings -----------------------------------------------------------------------------

static km_result *fit_points(ref_data points, const char *clusters, int64_t n_init, km_criterion criterion) {
    job j = job_open(points, clusters);
    j.spec.n_init = n_init;
    j.params.criterion = criterion;
    j.params.labels = KM_LABELS_NONE;
    km_result *result = fit(&j);
    job_close(&j);
    return result;
}

static double normal_draw(uint64_t seed, int64_t i, int64_t f) {
    double radius = sqrt(-2 * log(1 - km_draw(seed, 0, (uint64_t)i, (uint64_t)f)));
    return radius * cos(2 * M_PI * km_draw(seed, 1, (uint64_t)i, (uint64_t)f));
}

// Points without clusters: what `kind` says.
static ref_data one_hump(int kind, int64_t n, int64_t d, uint64_t seed) {
    ref_data points = ref_uniform(n, d, seed, KM_FLOAT32);
    for (int64_t i = 0; i < n * d && kind > 0; i++) {
        double x = normal_draw(seed, i / d, i % d);
        if (kind == 2) x = exp(.7 * x);                         // skewed
        if (kind == 3) x = x + 2 * normal_draw(seed, i / d, d); // correlated
        if (kind == 4) x = rint(3 * x); // integers: what lies between them is no valley
        points.x[i] = ref_round(x, KM_FLOAT32);
    }
    return points;
}

// Sets of each kind and number of features; a chance takes one of them at most.
START_TEST(no_clusters_are_said) {
    static const int64_t features[] = {2, 5, 10, 1, 64};
    int said = 0, sets = is_whole() ? 20 : is_sample() ? 3 : 6;
    if (is_sample() && _i % 5 != _i / 5) return; // each kind and each number of features once
    for (int s = 0; s < sets; s++) {
        int64_t d = features[_i / 5], n = d == 64 ? 400 : 1500;
        km_result *result =
            fit_points(one_hump(_i % 5, n, d, (uint64_t)(100 * _i + s)), "2..8", 3, KM_CRITERION_AUTO);
        said += !result->selection.clustered;
        ck_assert_int_eq(has_warning(result, "one cluster (K = 1) describes them no worse"),
                         !result->selection.clustered);
        if (!result->selection.clustered) ck_assert(!has_warning(result, "criteria prefer"));
        km_result_destroy(&result);
    }
    ck_assert_msg(said >= sets - 1, "kind %d, %d features: %d of %d", _i % 5, (int)features[_i / 5], said,
                  sets);
}
END_TEST

START_TEST(clusters_are_seen) {
    if (is_sample() && _i == 3) return; // of many points
    static const struct {
        int64_t n, d, k;
        double spread;
    } cases[] = {{120, 2, 3, 1}, {2000, 5, 6, 1.5}, {600, 30, 4, 3}, {70000, 3, 5, 1}};
    km_result *result =
        fit_points(ref_blobs(cases[_i].n, cases[_i].d, cases[_i].k, cases[_i].spread, 3, KM_FLOAT32), "2..9",
                   10, KM_CRITERION_AUTO);
    const km_model *best = &result->models[result->selection.best];
    ck_assert_int_eq(result->selection.clustered, 1);
    ck_assert_int_eq(best->k, cases[_i].k);
    ck_assert(best->scores[KM_CRITERION_valley] > 1);
    ck_assert(!has_warning(result, "criteria prefer") && !has_warning(result, "wider list") &&
              !has_warning(result, "restarts came") && !has_warning(result, "decides alone") &&
              !has_warning(result, "one point only"));
    km_result_destroy(&result);
}
END_TEST

// The gap statistic -----------------------------------------------------------------------------------------

static km_result *fit_gap(ref_data points, const char *clusters, km_gap_box box, km_criterion criterion) {
    job j = job_open(points, clusters);
    j.params.criterion = criterion;
    j.params.criteria = UINT64_C(1) << KM_CRITERION_gap;
    j.params.gap_box = box;
    j.params.labels = KM_LABELS_BEST;
    km_result *result = fit(&j); // labels of the data's own points, whatever was drawn since
    ck_assert_ptr_nonnull(result->models[result->selection.best].labels);
    job_close(&j);
    return result;
}

// scikit-learn 1.9 with numpy's generator, 200 reference sets in the box along the features, on Ruspini's points.
START_TEST(gap_against_scikit_learn) {
    static const double gaps[6] = {-.1103, .2250, .3592, 1.3684, 1.3167, 1.2558};
    km_error err = {{0}};
    km_data *data;
    must(km_data_open(&data, small_path("ruspini.csv"), NULL, &err), &err, "ruspini");
    ref_data points = ref_data_make(75, 2, KM_FLOAT64);
    must(km_data_read(points.x, data, 0, 75, KM_FLOAT64, &err), &err, "ruspini");
    km_data_destroy(&data);
    km_result *result = fit_gap(points, "1..6", KM_GAP_UNIFORM, KM_CRITERION_gap);
    ck_assert_int_eq(result->models[result->selection.best].k, 4);
    ck_assert_int_eq(result->selection.votes[KM_CRITERION_gap_2001], 4);
    for (int m = 0; m < 6; m++) {
        double error = result->models[m].score_errors[KM_CRITERION_gap];
        ck_assert(error > .01 && error < .2);
        REF_NEAR(result->models[m].scores[KM_CRITERION_gap], gaps[m], 1.5 * error);
    }
    for (int m = 0; m < 5; m++) {
        const km_model *own = &result->models[m], *next = own + 1;
        double beyond = next->scores[KM_CRITERION_gap] - next->score_errors[KM_CRITERION_gap];
        REF_NEAR(own->scores[KM_CRITERION_gap_2001], own->scores[KM_CRITERION_gap] - beyond, 1e-12);
    }
    ck_assert(isnan(result->models[5].scores[KM_CRITERION_gap_2001]));
    km_result_destroy(&result);
}
END_TEST

// Without structure K = 1 by the rule of 2001 (the maximum is where chance has it); in the list, else in a warning.
START_TEST(gap_says_one) {
    if (is_sample() && _i) return; // gap_finds_clusters has the other box
    ref_data points = _i ? one_hump(3, 2000, 3, 1) : one_hump(0, 2000, 2, 1);
    km_result *result = fit_gap(ref_data_copy(&points), "1..6", (km_gap_box)_i, KM_CRITERION_gap_2001);
    ck_assert_int_eq(result->models[result->selection.best].k, 1);
    ck_assert_ptr_nonnull(
        strstr(result->selection.reason, "the smallest K whose gap the next K does not pass"));
    ck_assert(!has_warning(result, "by the gap K = 1"));
    km_result_destroy(&result);
    result = fit_gap(points, "2..6", (km_gap_box)_i, KM_CRITERION_AUTO);
    ck_assert(has_warning(result, "by the gap K = 1 is no worse than K = 2"));
    km_result_destroy(&result);
}
END_TEST

START_TEST(gap_finds_clusters) {
    if (is_sample() && _i != 3) return; // gap_says_one has the other box
    km_result *result =
        fit_gap(ref_blobs(2000, 4, 5, 1, 3, type_of(_i)), "1..8", (km_gap_box)(_i / 2), KM_CRITERION_gap);
    ck_assert_int_eq(result->models[result->selection.best].k, 5);
    ck_assert_int_eq(result->selection.votes[KM_CRITERION_gap_2001], 5);
    km_result_destroy(&result);
}
END_TEST

// Reference sets are fitted as the data are: on uniform points no gap is left, where refined models would be compared
// with plain ones it grows with K.
START_TEST(gap_of_refined_models) {
    if (is_sample()) return; // gap_finds_clusters goes the same way
    job j = job_open(ref_uniform(400, 8, 5, KM_FLOAT64), "10,15,20");
    j.spec.n_init = 1;
    j.params.refine = 300;
    j.params.criteria = UINT64_C(1) << KM_CRITERION_gap;
    km_result *result = fit(&j);
    double gap = 0;
    for (int m = 0; m < 3; m++) gap += result->models[m].scores[KM_CRITERION_gap] / 3;
    ck_assert_msg(gap < .005, "%g", gap);
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

typedef struct references {
    int64_t count, done; // a slow one is told of more than once
} references;

static int count_references(void *user, const km_progress *progress) {
    references *told = user;
    if (strcmp(progress->phase, "criteria") || progress->total != 3) return 0;
    told->count += progress->done != told->done;
    told->done = progress->done;
    return 0;
}

// Both rules come of the same fits, also where they have no value: here every K has inertia 0.
START_TEST(gap_is_measured_once) {
    job j = job_open(ref_data_make(40, 2, KM_FLOAT64), "2,3");
    references told = {0, -1};
    for (int64_t i = 0; i < 40; i++) j.points.x[2 * i] = ((double *)j.values)[2 * i] = (double)(i % 2);
    j.params.criteria = UINT64_C(1) << KM_CRITERION_gap | UINT64_C(1) << KM_CRITERION_gap_2001;
    j.params.gap_references = 3;
    j.params.progress = count_references;
    j.params.progress_user = &told;
    km_result *result = fit(&j);
    ck_assert_int_eq(told.count, 3);
    ck_assert(isnan(result->models[0].scores[KM_CRITERION_gap]));
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Numbers that a caller's own C may hold are not taken for a default.
START_TEST(wrong_calls) {
    job j = job_open(ref_blobs(50, 2, 2, 1, 1, KM_FLOAT32), "2,3");
    j.params.init = (km_init)3;
    check_refused(&j, KM_ERROR_USAGE, "init 3 does not exist");
    j.params.init = KM_INIT_PLUSPLUS;
    j.params.scale = (km_scale)99;
    check_refused(&j, KM_ERROR_USAGE, "scale 99 does not exist");
    j.params.scale = KM_SCALE_NONE;
    j.params.labels = (km_labels_wanted)-1;
    check_refused(&j, KM_ERROR_USAGE, "labels -1 do not exist");
    j.params.labels = KM_LABELS_NONE;
    j.params.threads = -1;
    check_refused(&j, KM_ERROR_USAGE, "must be 0 or more");
    j.params.threads = 0;
    j.params.init = KM_INIT_GIVEN;
    j.params.init_rows = j.points.x;
    j.params.init_count = -3;
    check_refused(&j, KM_ERROR_USAGE, "need init_rows and init_count");
    job_close(&j);
}
END_TEST

START_TEST(gap_of_wrong_calls) {
    job j = job_open(ref_blobs(50, 513, 2, 1, 1, KM_FLOAT32), "2,3");
    j.params.gap_references = 1;
    check_refused(&j, KM_ERROR_USAGE, "gap_references is 1; it must be at least 2");
    j.params.gap_references = 2;
    j.params.gap_box = (km_gap_box)2;
    check_refused(&j, KM_ERROR_USAGE, "gap_box 2 does not exist");
    j.params.gap_box = KM_GAP_PRINCIPAL;
    km_result *result = fit(&j); // not asked for
    km_result_destroy(&result);
    j.params.criteria = UINT64_C(1) << KM_CRITERION_gap;
    check_refused(&j, KM_ERROR_USAGE, "at most 512 features");
    j.params.gap_box = KM_GAP_UNIFORM; // the way out
    result = fit(&j);
    ck_assert(isfinite(result->models[0].scores[KM_CRITERION_gap]));
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Where every K of the list splits the clusters, the gap between them is seen all the same.
START_TEST(clusters_are_seen_in_long_lists) {
    static const char *const lists[] = {"8..12", "10", "4,9,16"};
    km_result *result = fit_points(ref_blobs(1500, 2, 2, .8, 4, KM_FLOAT32), lists[_i], 3, KM_CRITERION_AUTO);
    ck_assert_int_eq(result->selection.clustered, 1);
    km_result_destroy(&result);
}
END_TEST

// Each warning says what to do, and doing it takes it away.
START_TEST(warning_of_the_range) {
    km_result *result =
        fit_points(ref_blobs(2000, 2, 9, .3, 5, KM_FLOAT32), "2..6", 10, KM_CRITERION_calinski_harabasz);
    ck_assert_int_eq(result->models[result->selection.best].k, 6);
    ck_assert(has_warning(result,
                          "the best K = 6 is the last of the list, and a wider list may hold a better one: "
                          "try -k 3..12"));
    km_result_destroy(&result);
    result =
        fit_points(ref_blobs(2000, 2, 9, .3, 5, KM_FLOAT32), "3..12", 10, KM_CRITERION_calinski_harabasz);
    ck_assert_int_eq(result->models[result->selection.best].k, 9);
    ck_assert(!has_warning(result, "wider list"));
    km_result_destroy(&result);
    result =
        fit_points(ref_blobs(2000, 2, 3, .3, 5, KM_FLOAT32), "5..9", 10, KM_CRITERION_simplified_silhouette);
    ck_assert(
        has_warning(result, "is the first of the list, and a wider list may hold a better one: try -k 2..5"));
    km_result_destroy(&result);
    // What a list with gaps leaves out behind its first belongs to it.
    result =
        fit_points(ref_blobs(2000, 2, 3, .3, 5, KM_FLOAT32), "3,6,8", 10, KM_CRITERION_simplified_silhouette);
    ck_assert(
        has_warning(result, "is the first of the list, and a wider list may hold a better one: try -k 2..5"));
    km_result_destroy(&result);
}
END_TEST

START_TEST(warning_of_restarts) {
    job j = job_open(ref_blobs(3000, 2, 40, .02, 6, KM_FLOAT32), "40");
    j.spec.n_init = 12;
    km_result *result = fit(&j);
    ck_assert(!has_warning(result, "restarts came"));
    km_result_destroy(&result);
    j.params.init = KM_INIT_RANDOM; // which leaves some of 40 tight clusters together
    result = fit(&j);
    const km_model *model = &result->models[0];
    int64_t close = 0;
    for (int64_t r = 0; r < 12; r++) close += model->restart_inertia[r] <= 1.001 * model->inertia;
    ck_assert_int_le(close, 2);
    char few[32], expected[160];
    snprintf(few, sizeof few, close ? "only %lld" : "none", (long long)close);
    snprintf(expected, sizeof expected,
             "at K = 40 %s of 12 restarts came within 0.1 %% of the best inertia, so other seeds may "
             "end in "
             "other clusters: try --n-init 60",
             few);
    ck_assert(has_warning(result, expected));
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(warning_of_one_feature) {
    ref_data points = ref_blobs(900, 3, 3, 1, 7, KM_FLOAT32);
    for (int64_t i = 0; i < points.n; i++)
        points.x[i * 3 + 1] = ref_round(points.x[i * 3 + 1] * 9, KM_FLOAT32);
    job j = job_open(points, "2..5");
    km_result *result = fit(&j);
    ck_assert(has_warning(result, "one feature decides alone: column 2 makes 9"));
    ck_assert(has_warning(result, "--scale standard weighs all features alike"));
    km_result_destroy(&result);
    j.params.scale = KM_SCALE_STANDARD;
    result = fit(&j);
    ck_assert(!has_warning(result, "decides alone"));
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

START_TEST(warning_of_single_points) {
    ref_data points = ref_blobs(500, 2, 2, .5, 8, KM_FLOAT32);
    points.x[0] = 1e3; // one outlier
    job j = job_open(points, "3");
    km_result *result = fit(&j);
    ck_assert(
        has_warning(result, "1 of 3 clusters of K = 3 holds one point only: outliers take a cluster each"));
    km_result_destroy(&result);
    job_close(&j);
}
END_TEST

// Two long blobs, which BIC takes for many round ones.
START_TEST(warning_of_votes) {
    ref_data points = ref_blobs(2000, 2, 2, .5, 9, KM_FLOAT32);
    for (int64_t i = 0; i < points.n; i++)
        points.x[i * 2] = ref_round(points.x[i * 2] + 1.5 * normal_draw(1, i, 0), KM_FLOAT32);
    km_result *result = fit_points(ref_data_copy(&points), "2..8", 10, KM_CRITERION_AUTO);
    ck_assert_int_eq(result->models[result->selection.best].k, 2);
    ck_assert(!has_warning(result, "criteria prefer another K"));
    km_result_destroy(&result);
    result = fit_points(points, "2..8", 10, KM_CRITERION_bic);
    ck_assert_int_gt(result->models[result->selection.best].k, 2);
    ck_assert(has_warning(result, "compare the scores of all K (--verbose), and take another one with -k"));
    km_result_destroy(&result);
}
END_TEST

// Twelve blobs here and there: most criteria say the last K of the list, the valley an earlier one.
START_TEST(warning_of_a_list_that_is_too_short) {
    enum { D = 3, BLOBS = 12 };
    ref_data points = ref_blobs(2400, D, 2, .5, 9, KM_FLOAT32);
    for (int64_t i = 0; i < points.n * D; i++) {
        double centre = 20 * fmod((double)(i % (BLOBS * D) + 1) * 0.9742339887, 1);
        points.x[i] = ref_round(centre + .3 * normal_draw(2, i / D, i % D), KM_FLOAT32);
    }
    km_result *result = fit_points(points, "2..8", 10, KM_CRITERION_AUTO);
    ck_assert_int_lt(result->models[result->selection.best].k, 8);
    ck_assert(has_warning(result, "criteria prefer K = 8, the last of the list, and a wider list may hold a "
                                  "better one: try -k 4..16"));
    ck_assert(!has_warning(result, "compare the scores of all K"));
    km_result_destroy(&result);
}
END_TEST

// Lists where criteria are not defined: no score is infinite, the choice is in the list, the sentence is there.
START_TEST(lists_without_scores) {
    static const char *const lists[] = {"1", "1,2", "1,12", "12", "11,12", "2,4,8", "1..12", "3,12"};
    for (int kind = 0; kind < 3; kind++) {
        ref_data points = ref_uniform(12, 2, 4, KM_FLOAT32);
        for (int64_t i = 0; i < 24 && kind > 0; i++)
            points.x[i] = kind == 1 ? 2 : i / 2 % 4; // equal; four points
        km_result *result = fit_points(points, lists[_i], 5, KM_CRITERION_AUTO);
        ck_assert(result->selection.reason[0]);
        for (int64_t m = 0; m < result->models_count; m++)
            for (int c = 0; c < KM_CRITERION_COUNT; c++) ck_assert(!isinf(result->models[m].scores[c]));
        char *json;
        ck_assert_int_eq(km_result_to_json(&json, result, NULL), KM_OK);
        ck_assert_ptr_null(strstr(json, "nan"));
        ck_assert_ptr_null(strstr(json, "inf"));
        km_text_free(json);
        km_result_destroy(&result);
    }
}
END_TEST

// Suites ----------------------------------------------------------------------------------------------------

static TCase *case_of(Suite *suite, const char *name) {
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 600);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static Suite *suite_of(void) {
    Suite *suite = suite_create(design ? design : target);
    if (is_emulated()) { // one of each kind, in float32
        TCase *few = case_of(suite, "few");
        tcase_add_loop_test(few, together_equals_each_alone, 1, 2);
        tcase_add_loop_test(few, weights_equal_repeated_rows, 1, 2);
        tcase_add_loop_test(few, predict_equals_labels, 1, 2);
        tcase_add_loop_test(few, points_on_the_device, 1, 2);
    }
    TCase *values = case_of(suite, "values");
    tcase_add_loop_test(values, silhouettes_of_a_fit, 0, 8);
    tcase_add_test(values, silhouettes_of_ties);
    tcase_add_loop_test(values, criteria_are_those_of_the_labels, 0, 6);
    tcase_add_loop_test(values, stopped_early_as_scikit_learn, 0, 3);
    tcase_add_loop_test(values, stability_of_restarts, 0, 2);
    tcase_add_loop_test(values, prediction_strength_of_clusters, 0, 2);
    tcase_add_loop_test(values, hand_weighted, 0, 2);
    tcase_add_loop_test(values, hand_empty_cluster, 0, 2);
    tcase_add_loop_test(values, hand_uneven_weights, 0, 2);
    tcase_add_loop_test(values, hand_too_few_distinct, 0, 2);
    tcase_add_loop_test(values, offset_costs_no_digits, 0, 5);
    tcase_add_test(values, iris_optima);
    tcase_add_test(values, ruspini_optima);
    TCase *edges = case_of(suite, "edges");
    tcase_add_loop_test(edges, clusters_above_distinct_points, 0, 2);
    tcase_add_loop_test(edges, all_points_equal, 0, 2);
    tcase_add_loop_test(edges, clusters_above_n_are_dropped, 0, 2);
    tcase_add_loop_test(edges, one_point, 0, 2);
    tcase_add_loop_test(edges, as_many_clusters_as_points, 0, 2);
    tcase_add_loop_test(edges, nan_and_infinity_are_refused, 0, 6);
    tcase_add_test(edges, wrong_calls_are_refused);
    tcase_add_loop_test(edges, default_clusters, 1, 5);
    tcase_add_loop_test(edges, default_clusters, 20, 24);
    tcase_add_loop_test(edges, weights_equal_repeated_rows, 0, 2);
    tcase_add_loop_test(edges, weights_of_a_fit, 0, 2);
    tcase_add_test(edges, bad_weights_are_refused);
    TCase *runs = case_of(suite, "runs");
    tcase_add_loop_test(runs, given_init_has_two_forms, 0, 2);
    tcase_add_loop_test(runs, random_init, 0, 2);
    tcase_add_loop_test(runs, more_restarts_are_never_worse, 0, 2);
    tcase_add_loop_test(runs, single_starts_find_all_blobs, 0, 3);
    tcase_add_test(runs, inertia_falls_with_k);
    tcase_add_loop_test(runs, refinement_comes_after_the_restarts, 0, 2);
    tcase_add_test(runs, refinement_keeps_what_had_converged);
    tcase_add_loop_test(runs, refinement_by_number_of_passes, 0, 2);
    tcase_add_loop_test(runs, cost_never_rises, 0, 2);
    tcase_add_loop_test(runs, tol_stops_early, 0, 2);
    tcase_add_loop_test(runs, few_changes_stop_early, 0, 2);
    tcase_add_test(runs, progress_interrupts);
    tcase_add_loop_test(runs, progress_ends_with_a_result, 0, 2);
    tcase_add_loop_test(runs, an_end_while_models_are_mended, 0, 2);
    tcase_add_test(runs, a_file_that_changes_is_refused);
    tcase_add_loop_test(runs, scales_keep_original_units, 0, 6);
    TCase *same = case_of(suite, "same");
    tcase_add_loop_test(same, same_bits_every_time, 0, 4);
    tcase_add_loop_test(same, digest_does_not_depend_on_threads_or_plan, 0, 8);
    tcase_add_loop_test(same, seed_matters, 0, 2);
    tcase_add_loop_test(same, together_equals_each_alone, 0, 4);
    tcase_add_loop_test(same, permuted_columns, 0, 2);
    tcase_add_loop_test(same, scaled_points, 0, 2);
    tcase_add_loop_test(same, column_order_in_memory, 0, 2);
    tcase_add_test(same, memory_of_the_other_type);
    if (!strcmp(target, "cuda")) {
        TCase *device = case_of(suite, "device");
        tcase_add_loop_test(device, points_on_the_device, 0, 8);
        tcase_add_test(device, points_on_the_device_are_refused);
    }
    TCase *around = case_of(suite, "around");
    tcase_add_loop_test(around, predict_equals_labels, 0, 6);
    tcase_add_loop_test(around, clusters_are_numbered_by_size, 0, 2);
    tcase_add_loop_test(around, predict_equals_labels_on_ties, 0, 2);
    tcase_add_loop_test(around, restarts_that_found_the_same_agree, 0, 2);
    tcase_add_test(around, dropped_rows_have_no_label);
    tcase_add_test(around, labels_on_request);
    tcase_add_loop_test(around, cache_cold_warm_and_damaged, 0, 3);
    tcase_add_test(around, cache_serves_another_list);
    if (strcmp(target, "cuda")) tcase_add_test(around, no_compiler);
    tcase_add_test(around, plan_is_the_one_that_fit_uses);
    if (!design || strcmp(design, "prebuilt")) return suite; // what follows is the same on all targets
    TCase *decision = case_of(suite, "decision");
    tcase_add_loop_test(decision, no_clusters_are_said, 0, 25);
    tcase_add_loop_test(decision, clusters_are_seen, 0, 4);
    tcase_add_loop_test(decision, clusters_are_seen_in_long_lists, 0, 3);
    tcase_add_test(decision, gap_against_scikit_learn);
    tcase_add_loop_test(decision, gap_says_one, 0, 2);
    tcase_add_loop_test(decision, gap_finds_clusters, 0, 4);
    tcase_add_test(decision, gap_of_refined_models);
    tcase_add_test(decision, gap_is_measured_once);
    tcase_add_test(decision, gap_of_wrong_calls);
    tcase_add_test(decision, wrong_calls);
    tcase_add_test(decision, warning_of_the_range);
    tcase_add_test(decision, warning_of_restarts);
    tcase_add_test(decision, warning_of_one_feature);
    tcase_add_test(decision, warning_of_single_points);
    tcase_add_test(decision, warning_of_votes);
    tcase_add_test(decision, warning_of_a_list_that_is_too_short);
    tcase_add_loop_test(decision, lists_without_scores, 0, 8);
    return suite;
}

static Suite *best_known_suite(void) {
    Suite *suite = suite_create("best known");
    TCase *sets = case_of(suite, "sets");
    tcase_add_test(sets, s1_best_known);
    tcase_add_test(sets, a1_best_known);
    tcase_add_test(sets, unbalance_best_known);
    tcase_add_test(sets, wdbc_best_known);
    tcase_add_loop_test(sets, default_fits_reach_the_best_known, 0, 8);
    tcase_add_loop_test(sets, single_starts_find_all_clusters, 0, 3);
    return suite;
}

int main(int argc, char **argv) {
    const char *what = argc == 2 ? argv[1] : "";
    int best_known = !strcmp(what, "best-known");
    if (!strcmp(what, "cuda"))
        target = "cuda";
    else if (!strcmp(what, "cpu-prebuilt"))
        design = "prebuilt";
    else if (!strcmp(what, "cpu-lanes"))
        design = "lanes";
    else if (strcmp(what, "cpu") && !best_known) {
        fprintf(stderr, "usage: test_fit cpu|cpu-prebuilt|cpu-lanes|cuda|best-known\n");
        return 2;
    }
    // Most of these jobs are so small that the planner takes the prebuilt kernels: cpu-prebuilt has all of them.
    if (!strcmp(what, "cpu") && !is_whole()) setenv("CK_RUN_CASE", "around", 0);
    if (best_known && access(big_path("s1.csv"), R_OK) != 0) {
        printf("best known: skipped, %s is not there\n", big_path("s1.csv"));
        return 77;
    }
    return device_main("cuda", !strcmp(target, "cuda"), best_known ? best_known_suite : suite_of);
}

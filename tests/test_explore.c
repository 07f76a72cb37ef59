// SPDX-License-Identifier: MIT
// Subsets of columns: each is held against a fit of its columns alone, figures against counts made here.
#include "../runtime/explore/choose.h"
#include "../templates/both.h"
#include "../templates/draws.h"
#include "kernel_cache.h"
#include "quiet_check.h"
#include "short_form.h"

#include <kmgen/explore.h>
#include <kmgen/fit.h>
#include <kmgen/model.h>
#include <kmgen/module.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
enum { N = 3001, D = 7 };

static int device = KM_HOST; // 0: a GPU explores, and is held against fits of the CPU
static int is_gpu(void) {
    return device != KM_HOST;
}

// Two groups that columns 1 and 4 tell apart; column 5 is nearly column 1; the rest is noise of other widths.
static void points_make(double *points, double *outcome, int64_t n, int64_t d, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) {
        double group = km_draw(seed, 9, 0, (uint64_t)i) < .45;
        if (outcome) outcome[i] = group;
        for (int64_t c = 0; c < d; c++) {
            double sum = 0;
            for (uint64_t t = 0; t < 6; t++) sum += km_draw(seed, (uint64_t)c, (uint64_t)i, t) - .5;
            if (c == 1 || c == 5) sum += 1.6 * group;
            if (c == 4) sum -= 1.2 * group;
            points[i * d + c] = ldexp(sum, (int)c) + 100.0 * (double)c;
        }
    }
}

static km_data *data_of(const double *points, int64_t n, int64_t d, const double *weights) {
    km_data *data;
    ck_assert_int_eq(km_data_from_memory(&data, points, n, d, KM_FLOAT64, 0, 0, weights, NULL), KM_OK);
    ck_assert_int_eq(km_data_set_names(data, names, NULL), KM_OK);
    return data;
}

static km_explore_result *explored(const km_data *data, const km_explore_params *params) {
    km_error err = {""};
    km_explore_result *result;
    km_explore_params own = *params;
    own.device = device;
    own.cache_dir = kernel_cache(NULL);
    km_status status = km_explore(&result, data, &own, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    if (is_gpu()) ck_assert_int_gt(result->distances, 0);
    return result;
}

static km_result *fitted(const km_data *data, const km_explored *subset, const km_explore_params *p,
                         const char *algorithm) {
    const char *own[D];
    km_error err = {""};
    km_data *selected;
    km_result *result;
    km_spec spec;
    km_fit_params params;
    char k[16];
    for (int64_t f = 0; f < subset->size; f++) own[f] = names[subset->columns[f]];
    ck_assert_int_eq(km_data_select(&selected, data, own, subset->size, NULL), KM_OK);
    km_spec_init(&spec);
    km_fit_params_init(&params);
    snprintf(k, sizeof k, "1,%d", subset->k);
    ck_assert_int_eq(km_spec_set_clusters(&spec, k, NULL), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "prebuilt", NULL), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "algorithm", algorithm, NULL), KM_OK);
    spec.type = p->type;
    spec.n_init = p->n_init;
    params.device = KM_HOST;
    params.refine = 0;
    params.scale = p->scale;
    params.seed = p->seed;
    params.max_iter = p->max_iter;
    params.tol = p->tol;
    params.init = p->init;
    params.labels = KM_LABELS_ALL;
    params.untuned = 1;
    km_status status = km_fit(&result, &spec, selected, &params, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    km_spec_clear(&spec);
    km_data_destroy(&selected);
    return result;
}

// Model and labels of one subset are those of a fit of its columns. `place`: its column of the codes.
static void hold_against_fit(const km_data *data, const km_explore_result *found, int64_t place,
                             const km_explore_params *p) {
    const km_explored *subset = &found->subsets[found->ranking[place]];
    km_result *result = fitted(data, subset, p, "lloyd");
    const km_model *model = &result->models[1];
    ck_assert_int_eq(subset->restart, model->restart);
    ck_assert_int_eq(subset->n_iter, model->n_iter);
    ck_assert_int_eq(subset->converged, model->converged);
    ck_assert_int_eq(subset->effective_k, model->effective_k);
    // A GPU adds squares that are floats; and sums of points, some at a time, in the points' type.
    double near = !is_gpu() ? 1e-9 : p->type == KM_FLOAT64 ? 1e-12 : 1e-6;
    ck_assert_double_le(fabs(subset->inertia - model->inertia), near * model->inertia);
    // Statistics of a table with other columns are added in another order: scales may differ in the last digit.
    double apart = p->type == KM_FLOAT64 ? 1e-12 : 1e-6;
    for (int64_t i = 0; i < subset->k * subset->size; i++) {
        ck_assert_double_le(fabs(subset->centroids_fitted[i] - model->centroids_fitted[i]),
                            apart * (1 + fabs(model->centroids_fitted[i])));
        ck_assert_double_le(fabs(subset->centroids[i] - model->centroids[i]),
                            apart * (1 + fabs(model->centroids[i])));
    }
    for (int64_t j = 0; j < subset->k; j++) ck_assert_int_eq(subset->counts[j], model->counts[j]);
    for (int64_t i = 0; i < found->rows; i++)
        ck_assert_int_eq(found->codes_of_rows[i * found->codes + place], model->labels[i]);
    ck_assert_double_le(fabs(subset->figures[KM_RANK_simplified_silhouette] -
                             model->scores[KM_CRITERION_simplified_silhouette]),
                        is_gpu() ? 1e-6 : 1e-7);
    double expected = model->scores[KM_CRITERION_calinski_harabasz];
    ck_assert_double_le(fabs(subset->figures[KM_RANK_calinski_harabasz] - expected),
                        (is_gpu() ? 1e-6 : 1e-7) * expected);
    km_result_destroy(&result);
}

// Shapes of a call: every subset of it is fitted alone, too.
static const struct shape {
    int64_t n, size_min, size_max;
    int32_t k[3];
    int64_t n_init, max_iter;
    km_type type;
    km_scale scale;
    km_init init;
    int weighted;
} shapes[] = {
    {N, 2, 2, {8}, 3, 300, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_PLUSPLUS, 0},
    {N, 1, 4, {3}, 2, 300, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_PLUSPLUS, 0},
    {N, 3, 3, {2, 5, 9}, 2, 5, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_RANDOM, 0},
    {N, 3, 3, {8}, 1, 300, KM_FLOAT64, KM_SCALE_NONE, KM_INIT_PLUSPLUS, 0},
    {N, 2, 3, {4}, 2, 20, KM_FLOAT32, KM_SCALE_MINMAX, KM_INIT_PLUSPLUS, 1},
    {N, 2, 2, {40}, 1, 20, KM_FLOAT64, KM_SCALE_STANDARD, KM_INIT_RANDOM, 1},
    {64, 3, 3, {8}, 2, 300, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_PLUSPLUS, 0},
    {17, 2, 2, {16}, 2, 300, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_RANDOM, 0},
    {N, 2, 2, {20}, 2, 30, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_RANDOM, 0},
    {N, 5, 5, {8}, 1, 30, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_PLUSPLUS, 0},
    {N, 3, 3, {255}, 1, 3, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_RANDOM, 0},
    {70003, 2, 2, {8}, 1, 5, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_PLUSPLUS, 0},
    // Boxes of points.
    {16411, 1, 1, {6}, 2, 25, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_PLUSPLUS, 0},
    {16411, 3, 3, {12}, 2, 25, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_RANDOM, 0},
    {16411, 4, 4, {3}, 2, 25, KM_FLOAT32, KM_SCALE_STANDARD, KM_INIT_RANDOM, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static km_explore_params params_of(const struct shape *s) {
    km_explore_params p;
    km_explore_params_init(&p);
    p.size_min = s->size_min;
    p.size_max = s->size_max;
    p.clusters = s->k;
    while (p.clusters_count < 3 && s->k[p.clusters_count]) p.clusters_count++;
    p.n_init = s->n_init;
    p.max_iter = s->max_iter;
    p.type = s->type;
    p.scale = s->scale;
    p.init = s->init;
    p.seed = 3;
    p.threads = 2;
    p.codes = 1000000;
    return p;
}

START_TEST(subset_is_its_columns_fitted_alone) {
    if (is_sample() && _i % 3) return; // all without sanitizers
    const struct shape *s = &shapes[_i];
    double *points = malloc((size_t)(s->n * D) * sizeof *points),
           *weights = malloc((size_t)s->n * sizeof *weights);
    points_make(points, NULL, s->n, D, 1);
    for (int64_t i = 0; i < s->n; i++) weights[i] = floor(4 * km_draw(7, 0, 0, (uint64_t)i)) / 2;
    km_data *data = data_of(points, s->n, D, s->weighted ? weights : NULL);
    km_explore_params p = params_of(s);
    km_explore_result *found = explored(data, &p);
    ck_assert_int_eq(found->count, (int64_t)found->possible);
    int64_t least = 0;
    for (int64_t i = 0; i < found->count; i++) least += s->n * found->subsets[i].k * found->subsets[i].n_iter;
    ck_assert_int_ge(found->distances, least);
    ck_assert_int_eq(found->codes, found->count);
    for (int64_t i = 0; i < found->count; i++) hold_against_fit(data, found, i, &p);
    km_explore_destroy(&found);
    km_data_destroy(&data);
    free(points);
    free(weights);
}
END_TEST

// Small whole numbers: many points are as near to one centroid as to another, and the lowest has them. One point lies
// far out and has a cluster of its own.
START_TEST(equally_near_and_alone) {
    static const struct shape all[] = {
        {N, 2, 3, {4, 9}, 3, 300, KM_FLOAT32, KM_SCALE_NONE, KM_INIT_RANDOM, 0},
        {N, 2, 3, {4, 9}, 3, 300, KM_FLOAT64, KM_SCALE_NONE, KM_INIT_PLUSPLUS, 0},
        {16411, 2, 3, {9}, 2, 300, KM_FLOAT32, KM_SCALE_NONE, KM_INIT_RANDOM, 0}, // boxes of points
    };
    const int64_t n = all[_i].n;
    double *points = malloc((size_t)(n * 4) * sizeof *points);
    for (int64_t i = 0; i < 4 * n; i++) points[i] = floor(9 * km_draw(1, 2, 3, (uint64_t)i));
    for (int64_t c = 0; _i && c < 4; c++) points[4 * 77 + c] = 640;
    km_data *data = data_of(points, n, 4, NULL);
    km_explore_params p = params_of(&all[_i]);
    km_explore_result *found = explored(data, &p);
    for (int64_t i = 0; i < found->count; i++) hold_against_fit(data, found, i, &p);
    km_explore_destroy(&found);
    km_data_destroy(&data);
    free(points);
}
END_TEST

// Neither threads nor the other subsets matter.
START_TEST(same_bits_for_threads_and_company) {
    double *points = malloc(N * D * sizeof *points);
    points_make(points, NULL, N, D, 2);
    km_data *data = data_of(points, N, D, NULL);
    km_explore_params p = params_of(&shapes[0]);
    p.codes = 0;
    p.threads = 1;
    km_explore_result *one = explored(data, &p);
    p.threads = 5;
    km_explore_result *five = explored(data, &p);
    p.exclude = "a,c,6..7";
    km_explore_result *few = explored(data, &p);
    ck_assert_int_eq(one->count, 21);
    ck_assert_int_eq(five->count, 21);
    ck_assert_int_eq(few->count, 3);
    for (int64_t i = 0; i < one->count; i++) {
        const km_explored *x = &one->subsets[i];
        ck_assert_int_eq(one->ranking[i], five->ranking[i]);
        ck_assert_mem_eq(x->centroids_fitted, five->subsets[i].centroids_fitted,
                         (size_t)(x->k * x->size) * sizeof(double));
        ck_assert_mem_eq(x->figures, five->subsets[i].figures, sizeof x->figures);
        for (int64_t o = 0; o < few->count; o++)
            if (memcmp(few->subsets[o].columns, x->columns, 2 * sizeof(int32_t)) == 0)
                ck_assert_mem_eq(x->centroids, few->subsets[o].centroids,
                                 (size_t)(x->k * 2) * sizeof(double));
    }
    km_explore_destroy(&one);
    km_explore_destroy(&five);
    km_explore_destroy(&few);
    km_data_destroy(&data);
    free(points);
}
END_TEST

// A subset that is drawn again starts elsewhere: its restarts are numbers n_init .. of the fit.
START_TEST(drawn_again_has_its_own_starts) {
    double *points = malloc(N * D * sizeof *points);
    points_make(points, NULL, N, D, 2);
    km_data *data = data_of(points, N, D, NULL);
    km_explore_params p = params_of(&shapes[0]);
    p.codes = 0;
    p.n_init = 1;
    p.exclude = "3..7";
    p.subsets = 3;
    p.with_replacement = 1;
    km_explore_result *found = explored(data, &p);
    ck_assert_int_eq(found->count, 3);
    p.n_init = 3;
    for (int64_t i = 0; i < 3; i++) {
        km_result *result = fitted(data, &found->subsets[i], &p, "lloyd");
        double own = found->subsets[i].inertia, of_restart = result->models[1].restart_inertia[i];
        ck_assert_double_le(fabs(own - of_restart), 1e-6 * own);
        for (int64_t o = 0; o < i; o++)
            ck_assert_double_ne(found->subsets[o].centroids[0], found->subsets[i].centroids[0]);
        km_result_destroy(&result);
    }
    km_explore_destroy(&found);
    km_data_destroy(&data);
    free(points);
}
END_TEST

// Choices -----------------------------------------------------------------------------------------------------

START_TEST(subsets_in_order) {
    const int32_t always[] = {2}, others[] = {0, 1, 3, 4};
    km_choice choice = {always, others, 1, 4, 2, 3};
    static const int32_t expected[10][3] = {{0, 2, -1}, {1, 2, -1}, {2, 3, -1}, {2, 4, -1}, {0, 1, 2},
                                            {0, 2, 3},  {0, 2, 4},  {1, 2, 3},  {1, 2, 4},  {2, 3, 4}};
    ck_assert_double_eq(km_choice_count(&choice), 10);
    for (int i = 0; i < 10; i++) {
        int32_t got[3] = {-1, -1, -1};
        ck_assert_int_eq(km_choice_subset(got, &choice, i), i < 4 ? 2 : 3);
        ck_assert_mem_eq(got, expected[i], sizeof got);
    }
}
END_TEST

START_TEST(draws_are_different_and_even) {
    enum { ALL = 50, TURNS = 4000 };
    double drawn[ALL];
    int often[ALL] = {0};
    ck_assert_int_eq(km_choice_draw(drawn, ALL, ALL, 0, 1, NULL), KM_OK);
    for (int i = 0; i < ALL; i++) ck_assert_double_eq(drawn[i], i);
    for (int t = 0; t < TURNS; t++) {
        ck_assert_int_eq(km_choice_draw(drawn, 5, ALL, 0, (uint64_t)t, NULL), KM_OK);
        for (int i = 0; i < 5; i++) {
            often[(int)drawn[i]]++;
            ck_assert(i == 0 || drawn[i] > drawn[i - 1]);
        }
    }
    // 400 expected of each, with a standard deviation of 19.
    for (int i = 0; i < ALL; i++) ck_assert_int_lt(abs(often[i] - 400), 95);
}
END_TEST

// Outcomes ----------------------------------------------------------------------------------------------------

// The figures of the best subsets, by loops over the codes.
static void hold_figures(const km_explore_result *found, const double *outcome, int64_t classes,
                         int64_t place) {
    const km_explored *subset = &found->subsets[found->ranking[place]];
    double learnt[4][256] = {{0}}, seen[4][256] = {{0}};
    int64_t best[256] = {0}, right = 0, all = 0, held_out = 0;
    for (int64_t i = 0; i < found->rows; i++) {
        if (isnan(outcome[i])) continue;
        int is_out = km_draw(found->seed, 0x486f6c646f757421ull, 0, (uint64_t)i) < found->holdout;
        int64_t label = found->codes_of_rows[i * found->codes + place];
        (is_out ? seen : learnt)[(int)outcome[i]][label]++;
        held_out += is_out;
    }
    ck_assert_int_eq(held_out, found->outcome_held_out);
    for (int64_t j = 0; j < subset->k; j++)
        for (int64_t c = 1; c < classes; c++)
            if (learnt[c][j] > learnt[best[j]][j]) best[j] = c;
    double recalls = 0, bits = 0;
    double(*part)[256] = held_out ? seen : learnt;
    for (int64_t c = 0; c < classes; c++) {
        double of_class = 0, right_here = 0;
        for (int64_t j = 0; j < subset->k; j++) {
            of_class += part[c][j];
            right_here += best[j] == c ? part[c][j] : 0;
        }
        recalls += right_here / of_class;
        right += (int64_t)right_here;
        all += (int64_t)of_class;
    }
    for (int64_t c = 0; c < classes; c++)
        for (int64_t j = 0; j < subset->k; j++) {
            double of_class = 0, of_label = 0, both = part[c][j];
            for (int64_t o = 0; o < subset->k; o++) of_class += part[c][o];
            for (int64_t o = 0; o < classes; o++) of_label += part[o][j];
            if (both > 0) bits += both / (double)all * log2(both * (double)all / (of_class * of_label));
        }
    ck_assert_double_le(fabs(subset->figures[KM_RANK_accuracy] - (double)right / (double)all), 1e-12);
    ck_assert_double_le(fabs(subset->figures[KM_RANK_balanced_accuracy] - recalls / (double)classes), 1e-12);
    ck_assert_double_le(fabs(subset->figures[KM_RANK_mutual_information] - bits), 1e-9);
}

START_TEST(outcome_of_classes) {
    double *points = malloc(N * D * sizeof *points), *outcome = malloc(N * sizeof *outcome);
    points_make(points, outcome, N, D, 4);
    for (int64_t i = 0; i < N; i += 50) outcome[i] = NAN;
    km_data *data = data_of(points, N, D, NULL);
    km_explore_params p = params_of(&shapes[0]);
    km_outcome *y;
    ck_assert_int_eq(km_outcome_from_memory(&y, outcome, N, KM_OUTCOME_AUTO, "y", NULL), KM_OK);
    p.outcome = y;
    for (int turn = 0; turn < 2; turn++) {
        p.holdout = turn ? .3 : 0;
        km_explore_result *found = explored(data, &p);
        ck_assert_int_eq(found->rank, KM_RANK_balanced_accuracy);
        ck_assert_int_eq(found->classes, 2);
        for (int64_t i = 0; i < found->count; i++) hold_figures(found, outcome, 2, i);
        // Columns that tell the groups apart are in all of the best.
        for (int64_t i = 0; i < 3; i++) {
            const km_explored *subset = &found->subsets[found->ranking[i]];
            for (int64_t f = 0; f < 2; f++)
                ck_assert(subset->columns[f] == 1 || subset->columns[f] == 4 || subset->columns[f] == 5);
        }
        km_explore_destroy(&found);
    }
    km_outcome_destroy(&y);
    km_data_destroy(&data);
    free(points);
    free(outcome);
}
END_TEST

// Two codes as one: the most frequent class of each pair of labels, by loops over the codes.
static void hold_combined(const km_explore_result *found, const double *outcome, int64_t at) {
    const km_combined *c = &found->combined[at];
    int64_t learnt[2][512] = {{0}}, right = 0, all = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int64_t i = 0; i < found->rows; i++) {
            int64_t joint = 0;
            if (isnan(outcome[i])) continue;
            for (int64_t p = 0; p < c->size; p++)
                joint = joint * 8 + found->codes_of_rows[i * found->codes + c->places[p]];
            int is_out = km_draw(found->seed, 0x486f6c646f757421ull, 0, (uint64_t)i) < found->holdout;
            if (!turn && !is_out) learnt[(int)outcome[i]][joint]++;
            if (!turn || !is_out) continue;
            all++;
            // The group that is more frequent in all rows is 0, which wins a label that was not learnt, too.
            right += outcome[i] == (learnt[1][joint] > learnt[0][joint]);
        }
    ck_assert_double_le(fabs(c->figures[KM_RANK_accuracy] - (double)right / (double)all), 1e-12);
}

// By Calinski-Harabasz a single column comes first, whatever is clustered together. Against permuted columns those come
// first that tell the groups apart together, and columns that say nothing of each other have about 0.
START_TEST(sizes_compare_against_permuted_columns) {
    double *points = malloc(N * D * sizeof *points);
    points_make(points, NULL, N, D, 4);
    km_data *data = data_of(points, N, D, NULL);
    km_explore_params p = params_of(&shapes[1]);
    p.size_max = 3;
    p.codes = 2;
    p.rank = KM_RANK_calinski_harabasz;
    km_explore_result *plain = explored(data, &p), *found;
    ck_assert_int_eq(plain->subsets[plain->ranking[0]].size, 1);
    p.rank = KM_RANK_permuted;
    found = explored(data, &p);
    const km_explored *best = &found->subsets[found->ranking[0]];
    ck_assert_int_ge(best->size, 2);
    for (int64_t f = 0; f < best->size; f++)
        ck_assert(best->columns[f] == 1 || best->columns[f] == 4 || best->columns[f] == 5);
    ck_assert_double_gt(best->figures[KM_RANK_permuted], .2);
    for (int64_t i = 0; i < found->count; i++) {
        const km_explored *x = &found->subsets[i];
        int groups = 0;
        for (int64_t f = 0; f < x->size; f++)
            groups += x->columns[f] == 1 || x->columns[f] == 4 || x->columns[f] == 5;
        if (groups < 2) ck_assert_double_lt(fabs(x->figures[KM_RANK_permuted]), .05);
        // The table is again what it was.
        ck_assert_mem_eq(x->centroids, plain->subsets[i].centroids,
                         (size_t)(x->k * x->size) * sizeof(double));
        ck_assert_double_eq(x->figures[KM_RANK_calinski_harabasz],
                            plain->subsets[i].figures[KM_RANK_calinski_harabasz]);
    }
    hold_against_fit(data, found, 0, &p);
    p.threads = 1;
    km_explore_result *one = explored(data, &p);
    for (int64_t i = 0; i < found->count; i++)
        ck_assert_double_eq(found->subsets[i].figures[KM_RANK_permuted],
                            one->subsets[i].figures[KM_RANK_permuted]);
    km_explore_destroy(&one);
    km_explore_destroy(&plain);
    km_explore_destroy(&found);
    km_data_destroy(&data);
    free(points);
}
END_TEST

START_TEST(codes_together) {
    double *points = malloc(N * D * sizeof *points), *outcome = malloc(N * sizeof *outcome);
    points_make(points, outcome, N, D, 4);
    for (int64_t i = 0; i < N; i += 50) outcome[i] = NAN;
    km_data *data = data_of(points, N, D, NULL);
    km_explore_params p = params_of(&shapes[0]);
    km_outcome *y;
    ck_assert_int_eq(km_outcome_from_memory(&y, outcome, N, KM_OUTCOME_AUTO, "y", NULL), KM_OK);
    p.outcome = y;
    p.holdout = .4;
    p.combine = 4;
    km_explore_result *found = explored(data, &p);
    ck_assert_int_eq(found->combined_count, 6 + 4);
    for (int64_t i = 0; i < found->combined_count; i++) {
        hold_combined(found, outcome, i);
        ck_assert(i == 0 || found->combined[i].figures[KM_RANK_balanced_accuracy] <=
                                found->combined[i - 1].figures[KM_RANK_balanced_accuracy]);
    }
    ck_assert_double_gt(found->combined[0].figures[KM_RANK_mutual_information],
                        found->subsets[found->ranking[0]].figures[KM_RANK_mutual_information]);
    km_explore_destroy(&found);
    // Codes that nobody wants are not returned.
    p.codes = 0;
    found = explored(data, &p);
    ck_assert_int_eq(found->codes, 0);
    ck_assert_ptr_null(found->codes_of_rows);
    ck_assert_int_eq(found->combined_count, 10);
    km_explore_destroy(&found);
    km_outcome_destroy(&y);
    km_data_destroy(&data);
    free(points);
    free(outcome);
}
END_TEST

START_TEST(outcome_of_numbers) {
    double *points = malloc(N * D * sizeof *points), *outcome = malloc(N * sizeof *outcome);
    points_make(points, NULL, N, D, 4);
    for (int64_t i = 0; i < N; i++) outcome[i] = 1e6 + 3 * points[i * D + 2] + km_draw(1, 1, 1, (uint64_t)i);
    km_data *data = data_of(points, N, D, NULL);
    km_explore_params p = params_of(&shapes[0]);
    km_outcome *y;
    ck_assert_int_eq(km_outcome_from_memory(&y, outcome, N, KM_OUTCOME_AUTO, "y", NULL), KM_OK);
    p.outcome = y;
    km_explore_result *found = explored(data, &p);
    ck_assert_int_eq(found->rank, KM_RANK_r2);
    for (int64_t place = 0; place < found->count; place++) {
        const km_explored *subset = &found->subsets[found->ranking[place]];
        double sums[256] = {0}, counts[256] = {0}, mean = 0, left = 0, all = 0;
        for (int64_t i = 0; i < N; i++) {
            int64_t label = found->codes_of_rows[i * found->codes + place];
            sums[label] += outcome[i] - 1e6;
            counts[label]++;
            mean += (outcome[i] - 1e6) / N;
        }
        for (int64_t i = 0; i < N; i++) {
            int64_t label = found->codes_of_rows[i * found->codes + place];
            double y_i = outcome[i] - 1e6, t = y_i - sums[label] / counts[label];
            left += t * t;
            all += (y_i - mean) * (y_i - mean);
        }
        ck_assert_double_le(fabs(subset->figures[KM_RANK_r2] - (1 - left / all)), 1e-9);
        ck_assert(place > 5 || subset->columns[0] == 2 || subset->columns[1] == 2);
    }
    km_explore_destroy(&found);
    km_outcome_destroy(&y);
    km_data_destroy(&data);
    free(points);
    free(outcome);
}
END_TEST

// Models and interrupts ---------------------------------------------------------------------------------------

START_TEST(model_predicts_the_code) {
    char path[] = "/tmp/kmgen-explore-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    double *points = malloc(N * D * sizeof *points);
    int32_t *labels = malloc(N * sizeof *labels);
    points_make(points, NULL, N, D, 5);
    km_data *data = data_of(points, N, D, NULL);
    km_explore_params p = params_of(&shapes[1]);
    km_explore_result *found = explored(data, &p);
    for (int64_t place = 0; place < found->count; place += 17) {
        km_predictor *predictor;
        km_fit_params fit;
        km_fit_params_init(&fit);
        fit.device = KM_HOST;
        ck_assert_int_eq(km_explore_write_model(path, found, found->ranking[place], NULL), KM_OK);
        ck_assert_int_eq(km_predictor_read(&predictor, path, NULL), KM_OK);
        ck_assert_int_eq(km_predict(labels, predictor, data, &fit, NULL), KM_OK);
        for (int64_t i = 0; i < N; i++)
            ck_assert_int_eq(found->codes_of_rows[i * found->codes + place], labels[i]);
        km_predictor_destroy(&predictor);
    }
    ck_assert_int_eq(km_explore_write_model(path, found, found->count, NULL), KM_ERROR_USAGE);
    km_explore_destroy(&found);
    km_data_destroy(&data);
    free(points);
    free(labels);
    unlink(path);
}
END_TEST

static int stop_after(void *user, const km_progress *progress) {
    return progress->done >= *(int *)user;
}

START_TEST(interrupted_gives_what_is_done) {
    double *points = malloc(N * D * sizeof *points);
    points_make(points, NULL, N, D, 2);
    km_data *data = data_of(points, N, D, NULL);
    km_explore_params p = params_of(&shapes[0]);
    km_explore_result *whole = explored(data, &p), *part;
    int most = 5;
    p.threads = 1;
    p.progress = stop_after;
    p.progress_user = &most;
    part = explored(data, &p);
    ck_assert_int_ge(part->count, 5);
    ck_assert_int_lt(part->count, 21);
    ck_assert_int_eq(part->wanted, 21);
    ck_assert_int_eq(part->warnings_count, 1);
    for (int64_t i = 0; i < part->count; i++) {
        const km_explored *x = &part->subsets[i], *y = &whole->subsets[i];
        ck_assert_mem_eq(x->centroids, y->centroids, (size_t)(x->k * x->size) * sizeof(double));
    }
    km_explore_destroy(&part);
    most = 0;
    ck_assert_int_eq(km_explore(&part, data, &p, NULL), KM_ERROR_INTERRUPTED);
    ck_assert_ptr_null(part);
    km_explore_destroy(&whole);
    km_data_destroy(&data);
    free(points);
}
END_TEST

// What cannot be ----------------------------------------------------------------------------------------------

// Each refusal names what is wrong and what would do.
static void refuse(const km_data *data, const km_explore_params *p, km_status status, const char *words) {
    km_error err = {""};
    km_explore_result *result;
    ck_assert_int_eq(km_explore(&result, data, p, &err), status);
    ck_assert_ptr_null(result);
    ck_assert_msg(strstr(err.text, words) != NULL, "%s lacks %s", err.text, words);
}

START_TEST(bad_params) {
    double points[4 * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 12};
    static const int32_t falling[] = {3, 2}, large[] = {256}, above_n[] = {5}, two[] = {2};
    km_data *data = data_of(points, 4, 3, NULL);
    km_explore_params good, p;
    km_explore_params_init(&good);
    good.clusters = two;
    good.clusters_count = 1;
#define REFUSE(change, status, words)                                                                        \
    p = good;                                                                                                \
    change;                                                                                                  \
    refuse(data, &p, status, words)
    REFUSE(p.size_min = 4, KM_ERROR_USAGE, "there are 3 to choose from");
    REFUSE(p.size_min = -1, KM_ERROR_USAGE, "negative");
    REFUSE((p.size_min = 1, p.include = "a,b"), KM_ERROR_USAGE,
           "2 are included in each; choose so many at least");
    REFUSE((p.size_min = 2, p.subsets = 4), KM_ERROR_USAGE,
           "there are 3 subsets of these sizes, fewer than 4");
    REFUSE(p.include = "x", KM_ERROR_USAGE, "--include: memory has no column \"x\"");
    REFUSE((p.include = "a", p.exclude = "1"), KM_ERROR_USAGE, "both included and excluded");
    REFUSE(p.exclude = "1..3", KM_ERROR_DATA, "no column left to choose: exclude fewer");
    REFUSE((p.clusters = falling, p.clusters_count = 2), KM_ERROR_USAGE, "must ascend");
    REFUSE(p.clusters = large, KM_ERROR_USAGE, "takes 1..255");
    REFUSE(p.clusters = above_n, KM_ERROR_DATA, "fewer than K = 5");
    REFUSE(p.rank = KM_RANK_accuracy, KM_ERROR_USAGE, "needs an outcome");
    REFUSE(p.holdout = .3, KM_ERROR_USAGE, "there is none");
    REFUSE(p.holdout = 1, KM_ERROR_USAGE, "below 1");
    REFUSE(p.with_replacement = 1, KM_ERROR_USAGE, "needs a number");
    REFUSE(p.device = 100, KM_ERROR_DEVICE, "no CUDA device");
    REFUSE(p.init = KM_INIT_GIVEN, KM_ERROR_USAGE, "k-means++ or random");
    REFUSE(p.combine = 21, KM_ERROR_USAGE, "combine is 21; it must be 0..20");
    REFUSE(p.n_init = 0, KM_ERROR_USAGE, "n_init is 0");
    REFUSE(p.max_iter = 0, KM_ERROR_USAGE, "max_iter is 0");
    REFUSE(p.tol = -1, KM_ERROR_USAGE, "tol is -1");
    REFUSE(p.scale = (km_scale)9, KM_ERROR_USAGE, "scale 9 does not exist");
    km_data_destroy(&data);
}
END_TEST

START_TEST(bad_outcomes) {
    enum { ROWS = 6000 };
    double *values = malloc(ROWS * sizeof *values), points[3 * 2] = {1, 2, 3, 4, 5, 7};
    km_error err = {""};
    km_outcome *y;
    km_explore_params p;
    for (int i = 0; i < ROWS; i++) values[i] = i;
    ck_assert_int_eq(km_outcome_from_memory(&y, values, ROWS, KM_OUTCOME_CLASSES, "y", &err), KM_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(err.text, "more than 4096 classes"));
    ck_assert_int_eq(km_outcome_from_memory(&y, values, ROWS, KM_OUTCOME_AUTO, "y", NULL), KM_OK);
    km_data *data = data_of(points, 3, 2, NULL);
    static const int32_t two[] = {2};
    km_explore_params_init(&p);
    p.clusters = two;
    p.clusters_count = 1;
    p.outcome = y;
    refuse(data, &p, KM_ERROR_DATA, "has 6000 rows, but memory has 3");
    p.rank = KM_RANK_accuracy;
    refuse(data, &p, KM_ERROR_USAGE, "y is one of numbers");
    km_outcome_destroy(&y);
    err.text[0] = 0;
    for (int i = 0; i < ROWS; i++) values[i] = i % 2 ? NAN : 5;
    ck_assert_int_eq(km_outcome_from_memory(&y, values, ROWS, KM_OUTCOME_AUTO, "y", &err), KM_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(err.text, "one class only"));
    err.text[0] = 0;
    for (int i = 0; i < ROWS; i++) values[i] = NAN;
    ck_assert_int_eq(km_outcome_from_memory(&y, values, ROWS, KM_OUTCOME_AUTO, "y", &err), KM_ERROR_DATA);
    ck_assert_ptr_nonnull(strstr(err.text, "empty in all rows: name a column"));
    values[0] = 1, values[1] = 0, values[2] = 1;
    ck_assert_int_eq(km_outcome_from_memory(&y, values, 3, KM_OUTCOME_AUTO, "b", NULL), KM_OK);
    p.rank = KM_RANK_AUTO;
    p.outcome = y;
    refuse(data, &p, KM_ERROR_USAGE, "also a column that is clustered");
    km_outcome_destroy(&y);
    km_data_destroy(&data);
    free(values);
}
END_TEST

// A column that never changes is in no subset; few different points make few clusters. Both are said.
START_TEST(constant_and_few) {
    double points[40 * 3];
    static const int32_t five[] = {5};
    for (int i = 0; i < 40; i++) {
        points[3 * i] = i % 3;
        points[3 * i + 1] = 7;
        points[3 * i + 2] = i % 4 * 1.5;
    }
    km_data *data = data_of(points, 40, 3, NULL);
    km_explore_params p;
    km_explore_params_init(&p);
    p.size_min = p.size_max = 1;
    p.clusters = five;
    p.clusters_count = 1;
    km_explore_result *found = explored(data, &p);
    ck_assert_int_eq(found->count, 2);
    ck_assert_int_eq(found->subsets[0].effective_k, 3);
    ck_assert_int_eq(found->subsets[1].effective_k, 4);
    ck_assert_double_eq(found->subsets[0].inertia, 0);
    ck_assert_int_eq(found->warnings_count, 2);
    ck_assert_ptr_nonnull(strstr(found->warnings[0], "is column b)"));
    ck_assert_ptr_nonnull(strstr(found->warnings[1], "2 of 2 subsets have fewer different points than K"));
    km_explore_destroy(&found);
    km_data_destroy(&data);
}
END_TEST

// cuda: what computes runs on a GPU; exits 77 where there is none.
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "cuda") == 0) {
        if (km_device_count() == 0) return 77;
        device = 0;
    }
    Suite *suite = suite_create("explore");
    TCase *fits = tcase_create("fits"), *rest = tcase_create("rest");
    tcase_set_timeout(fits, 300);
    tcase_set_timeout(rest, 120);
    tcase_add_loop_test(fits, subset_is_its_columns_fitted_alone, 0, SHAPES);
    tcase_add_loop_test(fits, equally_near_and_alone, 0, 3);
    tcase_add_test(fits, same_bits_for_threads_and_company);
    tcase_add_test(fits, drawn_again_has_its_own_starts);
    tcase_add_test(rest, subsets_in_order);
    tcase_add_test(rest, draws_are_different_and_even);
    tcase_add_test(rest, outcome_of_classes);
    tcase_add_test(rest, sizes_compare_against_permuted_columns);
    tcase_add_test(rest, codes_together);
    tcase_add_test(rest, outcome_of_numbers);
    tcase_add_test(rest, model_predicts_the_code);
    if (!is_gpu()) tcase_add_test(rest, interrupted_gives_what_is_done); // a GPU takes so few at once
    tcase_add_test(rest, bad_params);
    tcase_add_test(rest, bad_outcomes);
    tcase_add_test(rest, constant_and_few);
    suite_add_tcase(suite, fits);
    suite_add_tcase(suite, rest);
    if (is_emulated()) {
        TCase *few = tcase_create("few");
        tcase_set_timeout(few, 300);
        tcase_add_loop_test(few, equally_near_and_alone, 0, 1);
        suite_add_tcase(suite, few);
    }
    SRunner *runner = srunner_create(suite);
    if (is_gpu()) srunner_set_fork_status(runner, CK_NOFORK); // the driver is in this process
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

// SPDX-License-Identifier: MIT
// What is written of a result: JSON by its contract, the table, pictures.
#include "../runtime/file.h"
#include "sample_result.h"

#include "quiet_check.h"
#include <dirent.h>
#include <jansson.h>
#include <kmgen/explore.h>
#include <kmgen/score.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// JSON ------------------------------------------------------------------------------------------------------

static json_t *to_json(const km_result *result) {
    char *text;
    km_error err = {""};
    json_error_t error;
    ck_assert_msg(km_result_to_json(&text, result, &err) == KM_OK, "%s", err.text);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(root != NULL, "line %d: %s in\n%s", error.line, error.text, text);
    km_text_free(text);
    return root;
}

// The object has exactly these keys, in this order. The list ends with NULL.
static void assert_keys(const json_t *object, ...) {
    va_list keys;
    void *iter = json_object_iter((json_t *)object);
    va_start(keys, object);
    for (const char *key; (key = va_arg(keys, const char *));) {
        ck_assert_msg(iter != NULL, "key %s is missing", key);
        ck_assert_str_eq(json_object_iter_key(iter), key);
        iter = json_object_iter_next((json_t *)object, iter);
    }
    va_end(keys);
    ck_assert_msg(iter == NULL, "key %s should not be there", iter ? json_object_iter_key(iter) : "");
}

static void assert_criteria_keys(const json_t *object) {
    ck_assert_uint_eq(json_object_size(object), KM_CRITERION_COUNT);
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        ck_assert_ptr_nonnull(json_object_get(object, km_criterion_name((km_criterion)c)));
}

// A number with the same bits, or null for NaN.
static void assert_real(const json_t *value, double expected) {
    if (!isfinite(expected)) {
        ck_assert(json_is_null(value));
        return;
    }
    double got = json_real_value(value);
    ck_assert(json_is_real(value));
    ck_assert_int_eq(memcmp(&got, &expected, sizeof got), 0);
}

static void assert_integer(const json_t *object, const char *key, int64_t expected) {
    ck_assert(json_is_integer(json_object_get(object, key)));
    ck_assert_int_eq(json_integer_value(json_object_get(object, key)), expected);
}

static void assert_string(const json_t *object, const char *key, const char *expected) {
    ck_assert(json_is_string(json_object_get(object, key)));
    ck_assert_str_eq(json_string_value(json_object_get(object, key)), expected);
}

static void assert_reals(const json_t *array, const double *expected, int64_t count) {
    ck_assert_uint_eq(json_array_size(array), (size_t)count);
    for (int64_t i = 0; i < count; i++) assert_real(json_array_get(array, (size_t)i), expected[i]);
}

static void check_model(const json_t *object, const km_model *model, int64_t d, int weighted) {
    if (weighted)
        assert_keys(object, "k", "inertia", "n_iter", "converged", "restart", "restarts", "restarts_agreed",
                    "best_restart_inertia", "restart_inertia", "refined", "at_rest", "effective_k", "sizes",
                    "weights", "sse", "centroids", "scores", "score_errors", "valleys", NULL);
    else
        assert_keys(object, "k", "inertia", "n_iter", "converged", "restart", "restarts", "restarts_agreed",
                    "best_restart_inertia", "restart_inertia", "refined", "at_rest", "effective_k", "sizes",
                    "sse", "centroids", "scores", "score_errors", "valleys", NULL);
    assert_integer(object, "k", model->k);
    assert_real(json_object_get(object, "inertia"), model->inertia);
    assert_integer(object, "n_iter", model->n_iter);
    ck_assert(json_is_boolean(json_object_get(object, "converged")));
    ck_assert_int_eq(json_is_true(json_object_get(object, "converged")), model->converged);
    assert_integer(object, "restart", model->restart);
    assert_integer(object, "restarts", model->restarts);
    assert_integer(object, "restarts_agreed", model->restarts_agreed);
    assert_real(json_object_get(object, "best_restart_inertia"), model->restart_inertia[model->restart]);
    assert_reals(json_object_get(object, "restart_inertia"), model->restart_inertia, model->restarts);
    ck_assert_int_eq(json_is_true(json_object_get(object, "refined")), model->refined);
    ck_assert_int_eq(json_is_true(json_object_get(object, "at_rest")), model->at_rest);
    assert_integer(object, "effective_k", model->effective_k);
    const json_t *sizes = json_object_get(object, "sizes"), *rows = json_object_get(object, "centroids");
    ck_assert_uint_eq(json_array_size(sizes), (size_t)model->k);
    ck_assert_uint_eq(json_array_size(rows), (size_t)model->k);
    for (int32_t j = 0; j < model->k; j++) {
        ck_assert_int_eq(json_integer_value(json_array_get(sizes, (size_t)j)), model->counts[j]);
        assert_reals(json_array_get(rows, (size_t)j), model->centroids + j * d, d);
    }
    assert_reals(json_object_get(object, "sse"), model->sse, model->k);
    if (weighted) assert_reals(json_object_get(object, "weights"), model->weights, model->k);
    assert_criteria_keys(json_object_get(object, "scores"));
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        assert_real(json_object_get(json_object_get(object, "scores"), km_criterion_name((km_criterion)c)),
                    model->scores[c]);
    const json_t *errors = json_object_get(object, "score_errors"); // only of scores that have one
    ck_assert_uint_eq(json_object_size(errors), 1);
    assert_real(json_object_get(errors, km_criterion_name((km_criterion)(KM_CRITERION_COUNT - 1))),
                model->score_errors[KM_CRITERION_COUNT - 1]);
}

static void check_top(const json_t *root, const km_result *result) {
    assert_string(root, "kmgen", KM_VERSION);
    assert_integer(root, "n", result->n);
    assert_integer(root, "d", result->d);
    assert_string(root, "type", "float64");
    assert_string(root, "layout", "dense");
    assert_string(root, "target", result->target);
    assert_string(root, "device", result->device);
    assert_integer(root, "seed", (int64_t)result->seed);
    assert_integer(root, "n_init", result->n_init);
    assert_integer(root, "max_iter", result->max_iter);
    assert_real(json_object_get(root, "tol"), result->tol);
    assert_integer(root, "passes", result->passes);
    assert_string(root, "refine", "auto");
    assert_integer(root, "refine_passes", result->refine_passes);
    assert_string(root, "scale", "standard");
    char digest[32];
    snprintf(digest, sizeof digest, "xxh3:%016llx", (unsigned long long)km_result_digest(result));
    assert_string(root, "digest", digest);
    const json_t *counters = json_object_get(root, "counters");
    assert_keys(counters, "algorithm", "distances", "distances_lloyd", "points_skipped", NULL);
    assert_string(counters, "algorithm", "tiles");
    assert_integer(counters, "distances", result->counters.distances);
    ck_assert(json_is_null(json_object_get(counters, "points_skipped")));
    const json_t *timing = json_object_get(root, "timing_ms");
    assert_keys(timing, "parse", "device", "build", "send", "read", "seed", "sweep", "refine", "finish",
                "criteria", "free", "total", NULL);
    assert_real(json_object_get(timing, "sweep"), result->timing.sweep_ms);
    assert_real(json_object_get(timing, "total"), result->timing.total_ms);
}

START_TEST(json_contract) {
    sample *s = sample_make(2, 1, 9, 4);
    s->result.plan.weighted = _i;
    s->models[8].converged = 0;
    s->warnings[0] = "columns \"a\" and \xff differ";
    s->result.warnings_count = 1;
    json_t *root = to_json(&s->result);
    assert_keys(root, "kmgen", "n", "d", "type", "layout", "target", "device", "tuned", "seed", "n_init",
                "max_iter", "tol", "passes", "refine", "refine_passes", "interrupted", "scale",
                "feature_names", "digest", "counters", "timing_ms", "models", "best", "warnings", NULL);
    check_top(root, &s->result);
    const json_t *names = json_object_get(root, "feature_names"), *models = json_object_get(root, "models");
    ck_assert_uint_eq(json_array_size(names), 4);
    ck_assert_str_eq(json_string_value(json_array_get(names, 1)), "größe");
    ck_assert_uint_eq(json_array_size(models), 9);
    for (size_t m = 0; m < 9; m++) check_model(json_array_get(models, m), &s->models[m], 4, _i);
    const json_t *best = json_object_get(root, "best"), *votes = json_object_get(best, "votes");
    assert_keys(best, "k", "clustered", "criterion", "reason", "votes", NULL);
    ck_assert(json_is_true(json_object_get(best, "clustered")));
    assert_integer(best, "k", 4);
    assert_string(best, "criterion", "calinski_harabasz");
    assert_criteria_keys(votes);
    assert_integer(votes, "davies_bouldin", 3);
    assert_integer(votes, "hartigan", 7); // 400 / 49 is the first below 10
    ck_assert(json_is_null(json_object_get(votes, "krzanowski_lai")));
    const json_t *warnings = json_object_get(root, "warnings");
    ck_assert_uint_eq(json_array_size(warnings), 1);
    ck_assert_str_eq(json_string_value(json_array_get(warnings, 0)), "columns \"a\" and ? differ");
    json_decref(root);
    sample_free(s);
}
END_TEST

START_TEST(json_without_names) {
    sample *s = sample_make(3, 1, 1, 2);
    s->result.feature_names = NULL;
    s->result.seed = UINT64_MAX;
    s->models[0].inertia = INFINITY;
    json_t *root = to_json(&s->result);
    ck_assert_ptr_null(json_object_get(root, "feature_names"));
    ck_assert(json_is_array(json_object_get(root, "warnings")));
    assert_string(root, "seed", "18446744073709551615");
    ck_assert(json_is_null(json_object_get(json_array_get(json_object_get(root, "models"), 0), "inertia")));
    json_decref(root);
    sample_free(s);
}
END_TEST

// The schema names exactly the keys that are written: the two cannot drift apart unseen.
static void assert_schema_keys(const json_t *schema, const json_t *object, const char *where) {
    const json_t *properties = json_object_get(schema, "properties");
    const char *key;
    json_t *value;
    ck_assert_msg(json_is_object(properties), "%s has no properties in the schema", where);
    ck_assert(json_is_false(json_object_get(schema, "additionalProperties")));
    json_object_foreach((json_t *)object, key, value)
        ck_assert_msg(json_object_get(properties, key) != NULL, "%s: the schema lacks %s", where, key);
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        key = json_string_value(json_array_get(required, i));
        ck_assert_msg(json_object_get(object, key) != NULL, "%s: required key %s is not written", where, key);
    }
    json_object_foreach((json_t *)properties, key, value) ck_assert_msg(
        json_object_get(object, key) != NULL, "%s: %s of the schema is never written", where, key);
}

// Of each criterion, which the schema lists once.
static void assert_criteria_schema(const json_t *schema, const json_t *by_criterion) {
    const json_t *definitions = json_object_get(schema, "definitions");
    const json_t *names = json_object_get(json_object_get(definitions, "criterion"), "enum");
    const json_t *each = json_object_get(definitions, "by_criterion");
    const json_t *reference = json_array_get(json_object_get(by_criterion, "allOf"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(reference, "$ref")), "#/definitions/by_criterion");
    ck_assert_int_eq(json_integer_value(json_object_get(each, "minProperties")), KM_CRITERION_COUNT);
    ck_assert_int_eq((int)json_array_size(names), KM_CRITERION_COUNT);
    for (size_t c = 0; c < KM_CRITERION_COUNT; c++)
        ck_assert_str_eq(json_string_value(json_array_get(names, c)), km_criterion_name((km_criterion)c));
}

// Of all that was found, and of nothing else.
START_TEST(digest_of_a_result) {
    sample *s = sample_make(2, 1, 3, 2);
    km_result *r = &s->result;
    km_model *model = &s->models[1];
    int32_t labels[150] = {0};
    const uint64_t digest = km_result_digest(r);
    r->passes++, r->refine_passes++, r->counters.distances++, r->timing.total_ms++, r->plan.track_labels ^= 1;
    r->device[0] ^= 1, r->target[0] ^= 1, r->warnings_count ^= 1;
    ck_assert_uint_eq(km_result_digest(r), digest);
#define CHANGES(value, other)                                                                                \
    do {                                                                                                     \
        __typeof__(value) kept = value;                                                                      \
        value = other;                                                                                       \
        ck_assert_msg(km_result_digest(r) != digest, "%s is not in the digest", #value);                     \
        value = kept;                                                                                        \
        ck_assert_uint_eq(km_result_digest(r), digest);                                                      \
    } while (0)
    CHANGES(r->n, 151);
    CHANGES(r->seed, 43);
    CHANGES(r->type, KM_FLOAT32);
    CHANGES(r->scale, KM_SCALE_NONE);
    CHANGES(r->selection.best, 0);
    CHANGES(r->selection.votes[0], 9);
    CHANGES(model->inertia, nextafter(model->inertia, 0));
    CHANGES(model->n_iter, 99);
    CHANGES(model->scores[0], NAN);
    CHANGES(model->score_errors[0], 0);
    CHANGES(s->restart_inertia[19], 0);
    CHANGES(s->centroids[3], -s->centroids[3]);
    CHANGES(s->counts[4], 0);
    CHANGES(s->weights[8], 0);
    CHANGES(s->sse[0], 0);
    CHANGES(model->labels, labels);
#undef CHANGES
    model->scores[KM_CRITERION_krzanowski_lai] = -NAN; // one NaN is as good as another
    ck_assert_uint_eq(km_result_digest(r), digest);
    model->labels = labels;
    const uint64_t labelled = km_result_digest(r);
    labels[149] = 1;
    ck_assert_uint_ne(km_result_digest(r), labelled);
    sample_free(s);
}
END_TEST

// The same number on every machine: digests are compared between them.
START_TEST(digest_is_the_same_everywhere) {
    static const double centroids[] = {0.5, -3};
    static const int64_t counts[] = {3};
    static const int32_t labels[] = {0, 0, 0, -1};
    km_model model = {.k = 1,
                      .effective_k = 1,
                      .centroids = centroids,
                      .counts = counts,
                      .weights = centroids,
                      .sse = centroids,
                      .labels = labels,
                      .inertia = 0.25};
    km_result result = {.n = 3, .d = 2, .rows = 4, .rows_all = 4, .models = &model, .models_count = 1};
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        model.scores[c] = model.score_errors[c] = NAN;
        result.selection.votes[c] = -1;
    }
    model.scores[KM_CRITERION_wb] = 2.5;
    result.selection.votes[KM_CRITERION_wb] = 1;
    ck_assert_uint_eq(km_result_digest(&result), UINT64_C(0x69a6cf7c34477508));
}
END_TEST

// Names with control characters of 7 and 8 bits: the same text to a reader of JSON, and nothing that a terminal obeys.
START_TEST(json_control_characters) {
    static const char name[] = "\x1b[31mred\x7f \xc2\x9b"
                               "2J gr\xc3\xb6\xc3\x9f"
                               "e";
    char *text;
    json_error_t error;
    sample *s = sample_make(2, 1, 3, 4);
    s->names[0] = name;
    s->result.feature_names = s->names;
    ck_assert_int_eq(km_result_to_json(&text, &s->result, NULL), KM_OK);
    json_t *root = json_loads(text, 0, &error);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(root, "feature_names"), 0)), name);
    char *plain = strdup(text);
    km_text_plain(plain);
    for (char *c = plain; *c; c++) // line ends are JSON's own
        if (text[c - plain] == '\n') *c = '\n';
    ck_assert_str_eq(plain, text);
    free(plain);
    json_decref(root);
    km_text_free(text);
    sample_free(s);
}
END_TEST

START_TEST(plain_text) {
    static const char *const cases[][2] = {
        {"gr\xc3\xb6\xc3\x9f"
         "e, \xe4\xb8\xad\xe6\x96\x87, \xf0\x9f\x98\x80",
         NULL}, // as it is
        {"", NULL},
        {"a\x1b[2Jb\x07\x7f", "a?[2Jb??"},
        {"two\r\nlines\tand tab", "two  lines and tab"},
        {"\xc2\x9b"
         "2J \xc2\xa0",
         "??2J \xc2\xa0"}, // a control character of 8 bits; a space that does not break
        {"caf\xe9 \x9b"
         "2J",
         "caf? ?2J"},                                              // Latin-1
        {"\xe0\x82\x9b \xc0\x9b \xf0\x80\x82\x9b", "??? ?? ????"}, // longer than need be
        {"cut \xe4\xb8", "cut ??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        strcpy(text, cases[i][0]);
        km_text_plain(text);
        ck_assert_str_eq(text, cases[i][cases[i][1] != NULL]);
    }
}
END_TEST

START_TEST(json_schema_keys) {
    json_error_t error;
    json_t *schema = json_load_file(KM_TEST_DOCS "/result.schema.json", JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(schema != NULL, "line %d: %s", error.line, error.text);
    sample *s = sample_make(2, 1, 2, 3);
    s->result.plan.weighted = 1; // with every optional key
    json_t *root = to_json(&s->result);
    const json_t *properties = json_object_get(schema, "properties");
    assert_schema_keys(schema, root, "result");
    assert_schema_keys(json_object_get(properties, "timing_ms"), json_object_get(root, "timing_ms"),
                       "timing_ms");
    const json_t *best = json_object_get(properties, "best"), *written = json_object_get(root, "best");
    assert_schema_keys(best, written, "best");
    assert_criteria_schema(schema, json_object_get(json_object_get(best, "properties"), "votes"));
    assert_criteria_keys(json_object_get(written, "votes"));
    const json_t *model = json_object_get(json_object_get(properties, "models"), "items");
    written = json_array_get(json_object_get(root, "models"), 0);
    assert_schema_keys(model, written, "model");
    assert_criteria_schema(schema, json_object_get(json_object_get(model, "properties"), "scores"));
    assert_criteria_keys(json_object_get(written, "scores"));
    json_decref(schema);
    json_decref(root);
    sample_free(s);
}
END_TEST

// The same of labels' scores.
START_TEST(json_schema_of_scores) {
    static const double points[] = {0, 1, 5, 6, 9};
    static const int64_t labels[] = {0, 0, 1, 1, -1};
    json_error_t error;
    km_error err = {""};
    km_data *data;
    km_label_scores *scores;
    char *text;
    json_t *schema = json_load_file(KM_TEST_DOCS "/score.schema.json", JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(schema != NULL, "line %d: %s", error.line, error.text);
    ck_assert_int_eq(km_data_from_memory(&data, points, 5, 1, KM_FLOAT64, 0, 0, NULL, &err), KM_OK);
    ck_assert_int_eq(km_score_labels(&scores, data, labels, 5, NULL, &err), KM_OK);
    ck_assert_int_eq(km_label_scores_to_json(&text, scores, ~(uint64_t)0, &err), KM_OK);
    json_t *root = json_loads(text, 0, &error);
    assert_schema_keys(schema, root, "scores of labels");
    assert_schema_keys(json_object_get(json_object_get(schema, "properties"), "scores"),
                       json_object_get(root, "scores"), "scores");
    json_decref(root);
    json_decref(schema);
    km_text_free(text);
    km_label_scores_destroy(&scores);
    km_data_destroy(&data);
}
END_TEST

// The same of subsets.
static void assert_figures_schema(const json_t *schema) {
    const json_t *figures = json_object_get(json_object_get(schema, "definitions"), "figures");
    const json_t *named = json_object_get(figures, "properties");
    ck_assert(json_is_false(json_object_get(figures, "additionalProperties")));
    ck_assert_int_eq((int)json_object_size(named), KM_RANK_COUNT);
    for (int r = 0; r < KM_RANK_COUNT; r++)
        ck_assert_ptr_nonnull(json_object_get(named, km_rank_name((km_rank)r)));
}

static const json_t *items_of(const json_t *schema, const char *key) {
    return json_object_get(json_object_get(json_object_get(schema, "properties"), key), "items");
}

static const json_t *first_of(const json_t *root, const char *key) {
    return json_array_get(json_object_get(root, key), 0);
}

START_TEST(json_schema_of_subsets) {
    static const double points[] = {0, 1, 5, 6, 5, 9, 7, 8, 1, 2, 2, 3}, classes[] = {0, 1, 1, 0, 0, 1};
    json_error_t error;
    km_error err = {""};
    km_data *data;
    km_outcome *outcome;
    km_explore_params params;
    km_explore_result *found;
    char *text;
    json_t *schema = json_load_file(KM_TEST_DOCS "/explore.schema.json", JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(schema != NULL, "line %d: %s", error.line, error.text);
    ck_assert_int_eq(km_data_from_memory(&data, points, 6, 2, KM_FLOAT64, 0, 0, NULL, &err), KM_OK);
    ck_assert_int_eq(km_outcome_from_memory(&outcome, classes, 6, KM_OUTCOME_CLASSES, "y", &err), KM_OK);
    km_explore_params_init(&params);
    params.size_max = 1;
    params.clusters = (const int32_t[]){2};
    params.clusters_count = 1;
    params.n_init = 3;
    params.max_iter = 17;
    params.tol = 0.25;
    params.seed = UINT64_MAX;
    params.outcome = outcome;
    params.combine = 2;
    ck_assert_msg(km_explore(&found, data, &params, &err) == KM_OK, "%s", err.text);
    found->distances = 1; // which only a GPU counts
    ck_assert_int_eq(km_explore_to_json(&text, found, &err), KM_OK);
    json_t *root = json_loads(text, 0, &error);
    assert_schema_keys(schema, root, "subsets");
    assert_figures_schema(schema);
    assert_schema_keys(items_of(schema, "columns"), first_of(root, "columns"), "column");
    assert_schema_keys(items_of(schema, "subsets"), first_of(root, "subsets"), "subset");
    assert_schema_keys(items_of(schema, "combined"), first_of(root, "combined"), "combination");
    ck_assert_int_eq(json_integer_value(json_object_get(root, "n_init")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "max_iter")), 17);
    ck_assert(json_real_value(json_object_get(root, "tol")) == 0.25);
    ck_assert_str_eq(json_string_value(json_object_get(root, "seed")), "18446744073709551615");
    json_decref(root);
    json_decref(schema);
    km_text_free(text);
    km_explore_destroy(&found);
    km_outcome_destroy(&outcome);
    km_data_destroy(&data);
}
END_TEST

// Table -----------------------------------------------------------------------------------------------------

static char *to_table(const km_result *result, int colour, int verbose) {
    char *text;
    km_error err = {""};
    ck_assert_msg(km_result_to_table(&text, result, colour, verbose, &err) == KM_OK, "%s", err.text);
    return text;
}

START_TEST(table_text) {
    sample *s = sample_make(2, 1, 3, 4);
    s->warnings[0] = "look twice";
    s->result.warnings_count = 1;
    s->models[2].converged = s->models[0].at_rest = 0;
    s->models[1].scores[KM_CRITERION_calinski_harabasz] = NAN;
    sample_select(s, KM_CRITERION_calinski_harabasz);
    char *text = to_table(&s->result, 0, 0);
    ck_assert_str_eq(
        text,
        "150 points, 4 features, float64 on cpu:avx2; 10 restarts, seed 42; 36 passes, 12 ms\n"
        "\n"
        "               Calinski-                        restarts  refined  smallest\n"
        "   K  inertia   Harabasz            iterations    agreed       by   cluster\n"
        "   2   284.29     510.12  .                 4      10/10        -        75\n"
        "   3   167.82          -                    5       9/10        -        50\n"
        "*  4   115.46     560.12  ########          6+      8/10    1.0 %        37\n"
        "\n"
        "1 of 3 K were not iterated until nothing moved: refinement had used its share\n"
        "\n"
        "best K = 4: Calinski-Harabasz is highest at K = 4: 560.125, and next at K = 2: 510.125\n"
        "preferred: K = 4 by Calinski-Harabasz, BIC, AIC, WB index, PBM; K = 2 by simplified silhouette, "
        "Xie-Beni; K = 3 by Davies-Bouldin; none by Hartigan, Krzanowski-Lai, valley\n");
    km_text_free(text);
    s->result.interrupted = 1;
    text = to_table(&s->result, 0, 0);
    ck_assert_ptr_nonnull(
        strstr(text, "1 of 3 K were not iterated until nothing moved: the fit was interrupted\n"));
    km_text_free(text);
    sample_free(s);
}
END_TEST

// Bars: longest for the best K, whether that is the highest score or the lowest; blocks where they can be shown; none
// where a rule decides, where all Ks are the same, or where the table would be wider than a terminal.
START_TEST(table_bars) {
    sample *s = sample_make(2, 1, 5, 4);
    char *text = to_table(&s->result, KM_TABLE_UTF8, 0);
    ck_assert_ptr_nonnull(strstr(text, "510.12  ▏       "));
    ck_assert_ptr_nonnull(strstr(text, "547.62  ██████  "));
    ck_assert_ptr_nonnull(strstr(text, "560.12  ████████"));
    ck_assert_ptr_null(strchr(text, '#'));
    km_text_free(text);
    for (int m = 0; m < 5; m++) s->models[m].refined = 0;        // a column less
    s->result.selection.criterion = KM_CRITERION_davies_bouldin; // .45, .40, .45, .50, .55
    text = to_table(&s->result, 0, 0);
    ck_assert_ptr_nonnull(strstr(text, "0.40000  ########"));
    ck_assert_ptr_nonnull(strstr(text, "0.45000  #####   "));
    ck_assert_ptr_nonnull(strstr(text, "0.55000  .       "));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        if (*line == ' ' || *line == '*') ck_assert_int_le(strchr(line, '\n') - line, 80);
    km_text_free(text);
    for (int m = 0; m < 5; m++) s->models[m].inertia *= 1e-300 * pow(1e40, m); // wide columns
    text = to_table(&s->result, 0, 0);
    ck_assert_ptr_nonnull(strstr(text, "0.40000 "));
    s->models[2].n_iter = INT64_MAX;
    char *wide = to_table(&s->result, 0, 0);
    ck_assert_ptr_nonnull(strchr(text, '#'));
    ck_assert_ptr_null(strchr(wide, '#'));
    km_text_free(text);
    km_text_free(wide);
    s->result.selection.criterion = KM_CRITERION_hartigan;
    text = to_table(&s->result, 0, 0);
    ck_assert_ptr_null(strchr(text, '#'));
    km_text_free(text);
    sample_free(s);
}
END_TEST

// What no one should overlook comes before the K.
START_TEST(table_of_no_clusters) {
    sample *s = sample_make(2, 1, 3, 4);
    s->result.selection.clustered = 0;
    char *text = to_table(&s->result, 0, 0);
    ck_assert_ptr_nonnull(strstr(
        text, "\n\nno clusters: no valley of lower density parts any two neighbouring clusters of any K\n"
              "best K of the list = 4: Calinski-Harabasz is highest"));
    km_text_free(text);
    json_t *root = to_json(&s->result);
    ck_assert(json_is_false(json_object_get(json_object_get(root, "best"), "clustered")));
    json_decref(root);
    sample_free(s);
}
END_TEST

START_TEST(json_of_auto) {
    sample *s = sample_make(2, 1, 9, 4);
    static const double valleys[2] = {2.5, NAN};
    s->models[0].valleys = valleys;
    sample_select(s, KM_CRITERION_AUTO);
    json_t *root = to_json(&s->result), *model = json_array_get(json_object_get(root, "models"), 0);
    assert_string(json_object_get(root, "best"), "criterion", "auto");
    assert_reals(json_object_get(model, "valleys"), valleys, 2);
    json_decref(root);
    sample_free(s);
}
END_TEST

// Every line of the two tables has the same width, whatever stands in it.
static void assert_aligned(const char *text) {
    size_t width = 0;
    for (const char *line = strstr(text, "\n\n") + 2; *line && *line != '\n';) {
        const char *end = strchr(line, '\n');
        if (width) ck_assert_msg((size_t)(end - line) == width, "ragged table:\n%s", text);
        width = (size_t)(end - line);
        line = end + 1;
    }
    ck_assert_uint_gt(width, 30);
}

START_TEST(table_of_odd_numbers) {
    static const double sizes[] = {1, 1e-300, 1e300, 1e-9, 1e15};
    sample *s = sample_make(1, 7, 40, 2);
    for (int m = 0; m < 40; m++) s->models[m].inertia *= sizes[_i];
    s->models[39].inertia = 0;
    s->models[38].inertia = NAN;
    s->models[3].effective_k = 5;
    char *text = to_table(&s->result, 0, 1);
    ck_assert_ptr_nonnull(
        strstr(text, "\nalgorithm: tiles; 1.23e+04 distances, 27.0 % of lloyd's 4.57e+04\n"));
    assert_aligned(text);
    ck_assert_ptr_nonnull(strstr(text, "points")); // the heading of clusters with points
    ck_assert_ptr_nonnull(strstr(text, "all criteria"));
    km_text_free(text);
    sample_free(s);
}
END_TEST

START_TEST(table_verbose) {
    sample *s = sample_make(2, 1, 9, 4);
    s->result.criteria = ((uint64_t)1 << KM_CRITERION_COUNT) - 1;
    char *text = to_table(&s->result, 0, 1);
    const char *criteria = strstr(text, "all criteria");
    ck_assert_ptr_nonnull(criteria);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        char word[32]; // headings are cut at a space or hyphen
        snprintf(word, sizeof word, "%s", km_criterion_title((km_criterion)c));
        if (strlen(word) > 9) word[strcspn(word, " -")] = 0;
        ck_assert_msg(strstr(criteria, word) != NULL, "%s is missing in\n%s", word, text);
    }
    ck_assert_ptr_nonnull(strstr(criteria, "8.1633*")); // Hartigan's vote
    km_text_free(text);
    sample_free(s);
}
END_TEST

// What was not computed has no column and no word among the votes; what was asked for stands in the first table, with
// its standard error.
START_TEST(table_of_measured_criteria) {
    sample *s = sample_make(2, 1, 3, 4);
    for (int m = 0; m < 3; m++) s->models[m].score_errors[KM_CRITERION_silhouette] = .0125;
    s->result.criteria |= (uint64_t)1 << KM_CRITERION_silhouette;
    char *text = to_table(&s->result, 0, 1);
    ck_assert_ptr_nonnull(strstr(text, "silhouette"));
    ck_assert_ptr_nonnull(strstr(text, "0.70000 +-0.013"));
    assert_aligned(text);
    km_text_free(text);
    s->result.criteria &= ~((uint64_t)1 << KM_CRITERION_silhouette);
    text = to_table(&s->result, 0, 0);
    ck_assert_ptr_null(strstr(text, "+-"));
    km_text_free(text);
    s->result.criteria = 1 << KM_CRITERION_krzanowski_lai; // of which no score is defined
    text = to_table(&s->result, 0, 1);
    ck_assert_ptr_nonnull(strstr(text, "preferred: none, no criterion is defined here"));
    ck_assert_ptr_null(strstr(text, "Hartigan"));
    km_text_free(text);
    sample_free(s);
}
END_TEST

// Columns beyond a terminal's width go on below, each part with its K.
START_TEST(table_of_all_criteria) {
    sample *s = sample_make(2, 1, 3, 4);
    s->result.criteria = ((uint64_t)1 << KM_CRITERION_COUNT) - 1;
    for (int m = 0; m < 3; m++)
        for (int c = 0; c < KM_CRITERION_COUNT; c++) {
            s->models[m].scores[c] = -123.456 * m - c;
            s->models[m].score_errors[c] = .0125;
        }
    char *text = to_table(&s->result, 0, 1), *end = strstr(text, "\nbest K");
    int best_rows = 0;
    for (const char *line = strstr(text, "\n\n") + 2; line < end; line = strchr(line, '\n') + 1) {
        ck_assert_msg(strcspn(line, "\n") <= 80, "%s", text);
        best_rows += *line == '*';
    }
    ck_assert_int_ge(best_rows, 5);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) { // the last word of each heading
        const char *title = km_criterion_title((km_criterion)c), *word = strrchr(title, ' ');
        ck_assert_msg(strstr(text, word                  ? word + 1
                                   : strrchr(title, '-') ? strrchr(title, '-') + 1
                                                         : title),
                      "%s", title);
    }
    km_text_free(text);
    sample_free(s);
}
END_TEST

// A terminal's width instead of 80; the parts of a narrow one begin with K, and all criteria fit
// into one part of a wide one.
START_TEST(table_width) {
    sample *s = sample_make(2, 1, 3, 4);
    static const int widths[] = {30, 40, 80, 400}, parts[] = {3, 2, 1, 2};
    s->models[0].refined = 1;
    for (int w = 0; w < 4; w++) {
        char *text = to_table(&s->result, KM_TABLE_WIDTH(widths[w]) | KM_TABLE_UTF8, w == 3),
             *end = strstr(text, "\nbest");
        int best_rows = 0;
        for (const char *line = strstr(text, "\n\n") + 2; line < end; line = strchr(line, '\n') + 1) {
            int columns = 0;
            for (const char *c = line; *c != '\n'; c++) columns += (*c & 0xc0) != 0x80;
            if (*line != ' ' && *line != '*') continue; // a sentence
            ck_assert_msg(columns <= widths[w], "%d: %s", widths[w], text);
            best_rows += *line == '*';
        }
        ck_assert_msg(best_rows == parts[w], "%d: %s", widths[w], text);
        km_text_free(text);
    }
    sample_free(s);
}
END_TEST

// One point is no points; long times are seconds; what refinement gained is not of a size that says nothing.
START_TEST(table_words) {
    sample *s = sample_make(2, 1, 3, 4);
    s->result.n = s->result.d = 1;
    s->result.timing.total_ms = 13579;
    double before = s->models[2].inertia * (1 + 1e-7);
    s->models[2].refined = 1;
    s->models[2].restart_inertia = &before;
    s->models[2].restart = 0;
    snprintf(s->result.selection.reason, sizeof s->result.selection.reason,
             "K = %d is the only one in the list", s->models[s->result.selection.best].k);
    char *text = to_table(&s->result, 0, 0);
    ck_assert_msg(strncmp(text, "1 point, 1 feature, ", 20) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "passes, 13.6 s\n"));
    ck_assert_ptr_nonnull(strstr(text, "  <0.1 %"));
    ck_assert_ptr_nonnull(strstr(text, ": the only one in the list\npreferred: "));
    km_text_free(text);
    s->models[s->result.selection.best].scores[KM_CRITERION_wb] = 0; // no inertia is left
    text = to_table(&s->result, 0, 0);
    ck_assert_ptr_null(strstr(text, "preferred"));
    km_text_free(text);
    sample_free(s);
}
END_TEST

START_TEST(table_of_another_criterion) {
    sample *s = sample_make(2, 1, 3, 4);
    sample_select(s, KM_CRITERION_davies_bouldin);
    char *text = to_table(&s->result, 0, 0);
    ck_assert_ptr_nonnull(strstr(text, "Davies-"));
    ck_assert_ptr_nonnull(strstr(text, "\n*  3"));
    ck_assert_ptr_nonnull(strstr(text, "best K = 3: Davies-Bouldin is lowest at K = 3"));
    km_text_free(text);
    sample_free(s);
}
END_TEST

START_TEST(table_colour) {
    sample *s = sample_make(2, 1, 3, 4);
    char *plain = to_table(&s->result, 0, 1), *bright = to_table(&s->result, 1, 1), *end = bright;
    ck_assert_ptr_null(strchr(plain, '\033'));
    ck_assert_ptr_nonnull(strchr(bright, '\033'));
    // Without its escapes it is the same text.
    for (char *c = bright; *c; c++) {
        if (*c == '\033')
            c = strchr(c, 'm');
        else
            *end++ = *c;
    }
    *end = 0;
    ck_assert_str_eq(bright, plain);
    km_text_free(plain);
    km_text_free(bright);
    sample_free(s);
}
END_TEST

// Pictures --------------------------------------------------------------------------------------------------

// fontconfig, which finds cairo's fonts, never frees some of its tables: LeakSanitizer passes over them.
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libfontconfig\n";
}

static char folder[64];

static void make_folder(void) {
    strcpy(folder, "/tmp/kmgen-test-report-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
    ck_assert_int_eq(rmdir(folder), 0); // each test removed what it wrote, and nothing else was left
}

// Draws, checks how the file begins and ends, and removes it.
static int64_t draw(const km_result *result, const char *name, const char *first, const char *last) {
    char path[96], *bytes;
    int64_t size;
    km_error err = {""};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_msg(km_result_plot(path, result, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(km_file_read(&bytes, &size, path, 0, NULL), KM_OK);
    size_t first_size = strlen(first), last_size = strlen(last);
    ck_assert_int_gt(size, 1000);
    ck_assert_int_eq(memcmp(bytes, first, first_size), 0);
    ck_assert_int_eq(memcmp(bytes + size - last_size, last, last_size), 0);
    km_text_free(bytes);
    unlink(path);
    return size;
}

START_TEST(pictures) {
    static const struct {
        int32_t first, step, count;
        double inertia_scale;
    } cases[] = {{2, 1, 9, 1},         {3, 1, 1, 1},       {1, 1, 40, 1}, {2, 1, 9, 1e300},
                 {2, 1, 9, 1e-300},    {2, 1, 9, 0},       {2, 1, 9, -1}, {2, 1, 9, 1e-320},
                 {100, 500, 130, 1e6}, {65535, 1, 1, 1e9}, {2, 1, 9, NAN}};
    sample *s = sample_make(cases[_i].first, cases[_i].step, cases[_i].count, 1);
    for (int m = 0; m < cases[_i].count; m++) {
        s->models[m].inertia *= cases[_i].inertia_scale;
        if (_i == 6) s->models[m].scores[KM_CRITERION_calinski_harabasz] = m == 4 ? 1.5 : NAN;
    }
    draw(&s->result, "plot.svg", "<?xml", "</svg>\n");
    draw(&s->result, "plot.PNG", "\x89PNG", "IEND\xae\x42\x60\x82");
    draw(&s->result, "plot.pdf", "%PDF-1.", "%%EOF\n");
    sample_free(s);
}
END_TEST

// Who sees the picture alone is told, too; so is who has it read out.
START_TEST(picture_of_no_clusters) {
    sample *s = sample_make(2, 1, 3, 4);
    for (int clustered = 0; clustered < 2; clustered++) {
        char *text;
        int64_t size;
        s->result.selection.clustered = clustered;
        ck_assert_int_eq(km_result_plot("plot.svg", &s->result, NULL), KM_OK);
        ck_assert_int_eq(km_file_read(&text, &size, "plot.svg", 0, NULL), KM_OK);
        ck_assert_ptr_nonnull(strstr(text, "<title>Inertia and the deciding criterion"));
        ck_assert_int_eq(strstr(text, "<desc>The data look like no clusters; ") == NULL, clustered);
        km_text_free(text);
        unlink("plot.svg");
    }
    sample_free(s);
}
END_TEST

START_TEST(bad_names) {
    static const char *const names[] = {"plot.eps", "plot", "-", ".svg", "", "plot.svg.gz"};
    sample *s = sample_make(2, 1, 3, 4);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        km_error err = {""};
        ck_assert_int_eq(km_result_plot(names[i], &s->result, &err), KM_ERROR_USAGE);
        ck_assert_ptr_nonnull(strstr(err.text, "must end in .svg, .png or .pdf"));
    }
    km_error err = {""};
    ck_assert_int_eq(km_result_plot("/nowhere/plot.svg", &s->result, &err), KM_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot write /nowhere/plot.svg"));
    sample_free(s);
}
END_TEST

START_TEST(without_cairo) {
    sample *s = sample_make(2, 1, 3, 4);
    km_error err = {""};
    ck_assert_int_eq(km_result_plot("plot.svg", &s->result, &err), KM_ERROR_USAGE);
    ck_assert_str_eq(err.text,
                     "cannot draw plot.svg: this kmgen was built without cairo; leave the picture out, or "
                     "build it with meson's option -Dcairo=enabled");
    sample_free(s);
}
END_TEST

// A full disk is an error, not a broken picture. /dev/full is written in place; a link lends it an ending.
START_TEST(full_disk) {
    char path[96];
    sample *s = sample_make(2, 1, 3, 4);
    static const char *const endings[] = {"svg", "png", "pdf"};
    for (int e = 0; e < 3; e++) {
        km_error err = {""};
        snprintf(path, sizeof path, "%s/full.%s", folder, endings[e]);
        ck_assert_int_eq(symlink("/dev/full", path), 0);
        ck_assert_int_eq(km_result_plot(path, &s->result, &err), KM_ERROR_IO);
        ck_assert_ptr_nonnull(strstr(err.text, "cannot write"));
        unlink(path);
    }
    ck_assert_int_eq(km_text_write("/dev/full", "text", NULL), KM_ERROR_IO);
    sample_free(s);
}
END_TEST

// The allocation that fails, with all that follow, or that ends the process as libraries below cairo do where memory is
// out; 0: none.
#if !defined(__SANITIZE_ADDRESS__) && defined(__GLIBC__)
#define KM_TEST_MALLOC 1
static int64_t fails_from, dies_at, allocations;
void *__libc_malloc(size_t size);
__attribute__((visibility("default"))) void *malloc(size_t size) {
    allocations++;
    if (dies_at && allocations == dies_at) _exit(44);
    return fails_from && allocations >= fails_from ? NULL : __libc_malloc(size);
}

static int folder_is_empty(void) {
    DIR *entries = opendir(folder);
    int count = 0;
    while (readdir(entries)) count++;
    closedir(entries);
    return count == 2; // "." and ".."
}

// Draws in a process of its own; returns its exit status.
static int draw_apart(const km_result *result, const char *name, int64_t fails, int64_t dies) {
    pid_t child = fork();
    if (!child) {
        char path[96];
        snprintf(path, sizeof path, "%s/%s", folder, name);
        allocations = 0;
        fails_from = fails;
        dies_at = dies;
        km_status status = km_result_plot(path, result, NULL);
        fails_from = dies_at = 0;
        _exit((int)status);
    }
    int state = 0;
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

// Whatever happens while the picture is drawn, no file is left.
START_TEST(no_memory) {
    static const char *const names[] = {"plot.svg", "plot.png", "plot.pdf"};
    sample *s = sample_make(2, 1, 3, 4);
    draw(&s->result, names[_i], "", ""); // finds the fonts, once
    allocations = 0;
    draw(&s->result, names[_i], "", "");
    int64_t count = allocations;
    ck_assert_int_gt(count, 50);
    for (int64_t at = 1; at < count * 3 / 4; at += at / 8 + 1) { // what is left is the file's own
        ck_assert_int_ne(draw_apart(&s->result, names[_i], at, 0), KM_OK);
        ck_assert_msg(folder_is_empty(), "a file is left where allocation %lld fails", (long long)at);
        ck_assert_int_eq(draw_apart(&s->result, names[_i], 0, at), 44);
        ck_assert_msg(folder_is_empty(), "a file is left where allocation %lld ends it", (long long)at);
    }
    sample_free(s);
}
END_TEST
#else
#define KM_TEST_MALLOC 0
#endif

START_TEST(texts) {
    char path[96], *back;
    int64_t size;
    snprintf(path, sizeof path, "%s/text", folder);
    ck_assert_int_eq(km_text_write(path, "two\nlines\n", NULL), KM_OK);
    ck_assert_int_eq(km_file_read(&back, &size, path, 0, NULL), KM_OK);
    ck_assert_str_eq(back, "two\nlines\n");
    km_text_free(back);
    unlink(path);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("report");
    TCase *json = tcase_create("json"), *table = tcase_create("table"), *plot = tcase_create("plot");
    tcase_add_loop_test(json, json_contract, 0, 2);
    tcase_add_test(json, json_without_names);
    tcase_add_test(json, json_schema_keys);
    tcase_add_test(json, json_schema_of_scores);
    tcase_add_test(json, json_schema_of_subsets);
    tcase_add_test(json, json_control_characters);
    tcase_add_test(json, digest_of_a_result);
    tcase_add_test(json, digest_is_the_same_everywhere);
    tcase_add_test(json, plain_text);
    suite_add_tcase(suite, json);
    tcase_add_test(table, table_text);
    tcase_add_test(table, table_bars);
    tcase_add_loop_test(table, table_of_odd_numbers, 0, 5);
    tcase_add_test(table, table_verbose);
    tcase_add_test(table, table_of_another_criterion);
    tcase_add_test(table, table_width);
    tcase_add_test(table, table_words);
    tcase_add_test(table, table_of_measured_criteria);
    tcase_add_test(table, table_of_all_criteria);
    tcase_add_test(table, table_of_no_clusters);
    tcase_add_test(table, json_of_auto);
    tcase_add_test(table, table_colour);
    suite_add_tcase(suite, table);
    tcase_add_checked_fixture(plot, make_folder, remove_folder);
    tcase_set_timeout(plot, 60);
    if (km_built_with(KM_PART_CAIRO)) {
        tcase_add_loop_test(plot, pictures, 0, 11);
        tcase_add_test(plot, bad_names);
        tcase_add_test(plot, picture_of_no_clusters);
        tcase_add_test(plot, full_disk);
#if KM_TEST_MALLOC
        tcase_add_loop_test(plot, no_memory, 0, 3);
#endif
    } else {
        tcase_add_test(plot, without_cairo);
    }
    tcase_add_test(plot, texts);
    suite_add_tcase(suite, plot);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

// SPDX-License-Identifier: MIT
// A result as JSON; docs/result.schema.json is its contract.
#include "../../base/error.h"
#include "../json.h"

#include <kmgen/result.h>

#include <math.h>
#include <string.h>

static json_t *scores_to_json(const double *scores) {
    json_t *object = json_object();
    int failed = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        failed |= json_object_set_new(object, km_criterion_name((km_criterion)c), km_json_real(scores[c]));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

// Only of scores that a sample or random draws gave.
static json_t *score_errors_to_json(const double *errors) {
    json_t *object = json_object();
    int failed = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (!isnan(errors[c]))
            failed |=
                json_object_set_new(object, km_criterion_name((km_criterion)c), km_json_real(errors[c]));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *model_to_json(const km_model *model, int64_t d, int weighted) {
    json_t *object = json_object();
    int failed = 0;
    double best_restart_inertia = model->restart_inertia ? model->restart_inertia[model->restart] : NAN;
    failed |= json_object_set_new(object, "k", json_integer(model->k));
    failed |= json_object_set_new(object, "inertia", km_json_real(model->inertia));
    failed |= json_object_set_new(object, "n_iter", json_integer(model->n_iter));
    failed |= json_object_set_new(object, "converged", json_boolean(model->converged));
    failed |= json_object_set_new(object, "restart", json_integer(model->restart));
    failed |= json_object_set_new(object, "restarts", json_integer(model->restarts));
    failed |= json_object_set_new(object, "restarts_agreed", json_integer(model->restarts_agreed));
    failed |= json_object_set_new(object, "best_restart_inertia", km_json_real(best_restart_inertia));
    failed |= json_object_set_new(
        object, "restart_inertia",
        model->restart_inertia ? km_json_reals(model->restart_inertia, model->restarts) : json_null());
    failed |= json_object_set_new(object, "refined", json_boolean(model->refined));
    failed |= json_object_set_new(object, "at_rest", json_boolean(model->at_rest));
    failed |= json_object_set_new(object, "effective_k", json_integer(model->effective_k));
    failed |= json_object_set_new(object, "sizes", km_json_integers(model->counts, model->k));
    if (weighted) failed |= json_object_set_new(object, "weights", km_json_reals(model->weights, model->k));
    failed |= json_object_set_new(object, "sse", km_json_reals(model->sse, model->k));
    failed |= json_object_set_new(object, "centroids", km_json_rows(model->centroids, model->k, d));
    failed |= json_object_set_new(object, "scores", scores_to_json(model->scores));
    failed |= json_object_set_new(object, "score_errors", score_errors_to_json(model->score_errors));
    failed |= json_object_set_new(object, "valleys",
                                  model->valleys ? km_json_reals(model->valleys, model->k) : json_null());
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *models_to_json(const km_result *result) {
    json_t *array = json_array();
    for (int64_t m = 0; array && m < result->models_count; m++) {
        json_t *model = model_to_json(&result->models[m], result->d, result->plan.weighted);
        if (json_array_append_new(array, model) == 0) continue;
        json_decref(array);
        return NULL;
    }
    return array;
}

static json_t *timing_to_json(const km_timing *timing) {
    json_t *object = json_object();
    int failed = 0;
    failed |= json_object_set_new(object, "parse", km_json_real(timing->parse_ms));
    failed |= json_object_set_new(object, "device", km_json_real(timing->device_ms));
    failed |= json_object_set_new(object, "build", km_json_real(timing->build_ms));
    failed |= json_object_set_new(object, "send", km_json_real(timing->send_ms));
    failed |= json_object_set_new(object, "read", km_json_real(timing->read_ms));
    failed |= json_object_set_new(object, "seed", km_json_real(timing->seed_ms));
    failed |= json_object_set_new(object, "sweep", km_json_real(timing->sweep_ms));
    failed |= json_object_set_new(object, "refine", km_json_real(timing->refine_ms));
    failed |= json_object_set_new(object, "finish", km_json_real(timing->finish_ms));
    failed |= json_object_set_new(object, "criteria", km_json_real(timing->criteria_ms));
    failed |= json_object_set_new(object, "free", km_json_real(timing->free_ms));
    failed |= json_object_set_new(object, "total", km_json_real(timing->total_ms));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *count_to_json(int64_t count) {
    return count < 0 ? json_null() : json_integer(count);
}

static json_t *counters_to_json(const km_counters *counters) {
    json_t *object = json_object();
    int failed = 0;
    failed |= json_object_set_new(object, "algorithm", json_string(km_algorithm_name(counters->algorithm)));
    failed |= json_object_set_new(object, "distances", count_to_json(counters->distances));
    failed |= json_object_set_new(object, "distances_lloyd", count_to_json(counters->distances_lloyd));
    failed |= json_object_set_new(object, "points_skipped", count_to_json(counters->points_skipped));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

// NULL where the cost model decided.
static json_t *tuned_to_json(const km_plan_tuned *tuned) {
    if (!tuned->table[0]) return json_null();
    json_t *object = json_object();
    int failed = 0;
    failed |= json_object_set_new(object, "table", km_json_string(tuned->table));
    failed |= json_object_set_new(object, "device", km_json_string(tuned->device));
    failed |= json_object_set_new(object, "shape", json_string(tuned->shape));
    failed |= json_object_set_new(object, "exact", json_boolean(tuned->exact));
    failed |= json_object_set_new(object, "ms", km_json_real(tuned->ms));
    failed |= json_object_set_new(object, "default_ms", km_json_real(tuned->default_ms));
    failed |= json_object_set_new(object, "read_ms", km_json_real(tuned->read_ms));
    failed |= json_object_set_new(object, "points", json_integer(tuned->points));
    failed |= json_object_set_new(object, "threads", json_integer(tuned->threads));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *votes_to_json(const int64_t *votes) {
    json_t *object = json_object();
    int failed = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        failed |= json_object_set_new(object, km_criterion_name((km_criterion)c),
                                      votes[c] < 0 ? json_null() : json_integer(votes[c]));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *best_to_json(const km_result *result) {
    const km_selection *selection = &result->selection;
    json_t *object = json_object();
    int failed = 0;
    failed |= json_object_set_new(object, "k", json_integer(result->models[selection->best].k));
    failed |= json_object_set_new(object, "clustered", json_boolean(selection->clustered));
    km_criterion criterion = selection->asked == KM_CRITERION_AUTO ? selection->asked : selection->criterion;
    failed |= json_object_set_new(object, "criterion", json_string(km_criterion_name(criterion)));
    failed |= json_object_set_new(object, "reason", json_string(selection->reason));
    failed |= json_object_set_new(object, "votes", votes_to_json(selection->votes));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *strings_to_json(const char *const *strings, int64_t count) {
    json_t *array = json_array();
    for (int64_t i = 0; array && i < count; i++) {
        if (json_array_append_new(array, km_json_string(strings[i] ? strings[i] : "")) == 0) continue;
        json_decref(array);
        return NULL;
    }
    return array;
}

static json_t *digest_to_json(const km_result *result) {
    char text[32];
    snprintf(text, sizeof text, "xxh3:%016llx", (unsigned long long)km_result_digest(result));
    return json_string(text);
}

static json_t *refine_to_json(int64_t refine) {
    if (refine > 0) return json_integer(refine);
    return json_string(refine == 0 ? "none" : "auto");
}

static int fill_result(json_t *root, const km_result *result) {
    static const char *const types[] = {"float32", "float64"};
    int failed = 0;
    failed |= json_object_set_new(root, "kmgen", json_string(km_version()));
    failed |= json_object_set_new(root, "n", json_integer(result->n));
    failed |= json_object_set_new(root, "d", json_integer(result->d));
    failed |= json_object_set_new(root, "type", json_string(types[result->type == KM_FLOAT64]));
    failed |= json_object_set_new(root, "layout", json_string(km_layout_name(km_plan_layout(&result->plan))));
    failed |= json_object_set_new(root, "target", km_json_string(result->target));
    failed |= json_object_set_new(root, "device", km_json_string(result->device));
    failed |= json_object_set_new(root, "tuned", tuned_to_json(&result->plan.tuned));
    failed |= json_object_set_new(root, "seed", km_json_seed(result->seed));
    failed |= json_object_set_new(root, "n_init", json_integer(result->n_init));
    failed |= json_object_set_new(root, "max_iter", json_integer(result->max_iter));
    failed |= json_object_set_new(root, "tol", json_real(result->tol));
    failed |= json_object_set_new(root, "passes", json_integer(result->passes));
    failed |= json_object_set_new(root, "refine", refine_to_json(result->refine));
    failed |= json_object_set_new(root, "refine_passes", json_integer(result->refine_passes));
    failed |= json_object_set_new(root, "interrupted", json_boolean(result->interrupted));
    failed |= json_object_set_new(root, "scale", json_string(km_scale_name(result->scale)));
    if (result->feature_names)
        failed |=
            json_object_set_new(root, "feature_names", strings_to_json(result->feature_names, result->d));
    failed |= json_object_set_new(root, "digest", digest_to_json(result));
    failed |= json_object_set_new(root, "counters", counters_to_json(&result->counters));
    failed |= json_object_set_new(root, "timing_ms", timing_to_json(&result->timing));
    failed |= json_object_set_new(root, "models", models_to_json(result));
    failed |= json_object_set_new(root, "best", best_to_json(result));
    failed |=
        json_object_set_new(root, "warnings", strings_to_json(result->warnings, result->warnings_count));
    return failed;
}

km_status km_result_to_json(char **out, const km_result *result, km_error *err) {
    *out = NULL;
    json_t *root = json_object();
    km_status status = fill_result(root, result) ? km_fail_memory(err, "the result's JSON", 0)
                                                 : km_json_text(out, root, err);
    json_decref(root);
    return status;
}

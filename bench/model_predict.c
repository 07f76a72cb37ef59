// SPDX-License-Identifier: MIT
// What today's cost model says of the plans of a recorded space; bench/model.py asks it.
//
//     model_predict SPACE.json
//
// Prints a JSON list: the predicted ms of each candidate of what `kmgen tune --json` wrote, in its order, for the
// device that the space tells of, or the nominal one of its target; null where the planner of today refuses the plan.
#include "base/error.h"
#include "base/text.h"
#include <jansson.h>
#include <kmgen/plan.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// A number or a word, as a spec has it.
static const char *value_text(char text[32], const json_t *value) {
    if (json_is_string(value)) return json_string_value(value);
    snprintf(text, 32, "%lld", (long long)json_integer_value(value));
    return text;
}

static km_status read_spec(km_spec *spec, const json_t *space, km_error *err) {
    const json_t *clusters = json_object_get(space, "clusters"), *type = json_object_get(space, "type"),
                 *target = json_object_get(space, "target");
    km_text list = {0};
    for (size_t i = 0; i < json_array_size(clusters); i++)
        km_text_printf(&list, "%s%lld", i ? "," : "",
                       (long long)json_integer_value(json_array_get(clusters, i)));
    km_status status = list.failed ? km_fail_memory(err, "the list of K", list.size)
                                   : km_spec_set_clusters(spec, list.size ? list.data : "", err);
    km_text_clear(&list);
    KM_TRY(status);
    spec->features = json_integer_value(json_object_get(space, "features"));
    spec->type =
        json_is_string(type) && !strcmp(json_string_value(type), "float64") ? KM_FLOAT64 : KM_FLOAT32;
    return km_spec_set_target(spec, json_is_string(target) ? json_string_value(target) : "", err);
}

// The device that was measured, where the space says what it is.
static void read_facts(km_device_facts *facts, const json_t *space) {
    const json_t *told = json_object_get(space, "facts");
    if (!told) return;
    facts->units = json_integer_value(json_object_get(told, "units"));
    facts->cache_bytes = json_integer_value(json_object_get(told, "cache_bytes"));
    facts->bandwidth_gbs = json_number_value(json_object_get(told, "bandwidth_gbs"));
    facts->clock_ghz = json_number_value(json_object_get(told, "clock_ghz"));
    // The machine's; those of an older instruction set that was planned for are fewer.
    facts->fp32_per_cycle =
        fmin(facts->fp32_per_cycle, json_number_value(json_object_get(told, "fp32_per_cycle")));
    facts->fp64_per_cycle =
        fmin(facts->fp64_per_cycle, json_number_value(json_object_get(told, "fp64_per_cycle")));
    facts->has_integers = json_is_true(json_object_get(told, "has_integers"));
}

// The candidate's ms as JSON, null where there is no such plan.
static km_status predict(json_t **out, const km_spec *spec, const km_plan_params *params,
                         const json_t *numbers, km_error *err) {
    km_spec fixed;
    km_plan plan;
    km_error refused = {""};
    const char *name;
    json_t *value;
    char text[32];
    km_spec_init(&fixed);
    km_plan_init(&plan);
    km_status status = km_spec_copy(&fixed, spec, err);
    json_object_foreach((json_t *)numbers, name, value) // jansson's macro has no form for what is const
        if (status == KM_OK) status = km_spec_fix(&fixed, name, value_text(text, value), err);
    if (status == KM_OK) {
        km_status planned = km_plan_make(&plan, &fixed, params, &refused);
        if (planned != KM_OK && planned != KM_ERROR_PLAN) status = km_fail(err, planned, "%s", refused.text);
        *out = planned == KM_OK
                   ? json_real(1e-6 * (double)params->points * plan.estimates[plan.design].total_ns)
                   : json_null();
    }
    km_plan_clear(&plan);
    km_spec_clear(&fixed);
    return status;
}

static km_status predict_all(json_t *out, const json_t *space, km_error *err) {
    const json_t *candidates = json_object_get(space, "candidates");
    km_spec spec;
    km_plan_params params;
    km_device_facts facts;
    km_spec_init(&spec);
    km_plan_params_init(&params);
    params.untuned = 1;
    params.points = json_integer_value(json_object_get(space, "points"));
    params.threads = json_integer_value(json_object_get(space, "threads"));
    km_status status = read_spec(&spec, space, err);
    km_device_facts_init(&facts, spec.target);
    read_facts(&facts, space);
    params.facts = &facts;
    for (size_t i = 0; i < json_array_size(candidates) && status == KM_OK; i++) {
        json_t *ms = NULL;
        status = predict(&ms, &spec, &params, json_object_get(json_array_get(candidates, i), "plan"), err);
        if (status == KM_OK && json_array_append_new(out, ms))
            status = km_fail_memory(err, "predictions", (int64_t)i);
    }
    km_spec_clear(&spec);
    return status;
}

int main(int argc, char **argv) {
    json_error_t where = {0};
    km_error err = {""};
    json_t *space = argc == 2 ? json_load_file(argv[1], 0, &where) : NULL, *out = json_array();
    km_status status = space && out
                           ? predict_all(out, space, &err)
                           : km_fail(&err, KM_ERROR_USAGE, "usage: model_predict SPACE.json; %s", where.text);
    if (status == KM_OK) {
        json_dumpf(out, stdout, JSON_REAL_PRECISION(8));
        puts("");
    } else {
        fprintf(stderr, "model_predict: %s\n", err.text);
    }
    json_decref(out);
    json_decref(space);
    return status == KM_OK ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// A tuning as JSON; docs/tune.schema.json is its contract.
#include "../../base/error.h"
#include "../tune/lines.h"
#include "tune_report.h"

static json_t *candidate_to_json(const km_tune_candidate *candidate) {
    json_t *object = json_object();
    int failed = 0;
    failed |= json_object_set_new(object, "plan", km_tune_plan_json(candidate));
    failed |= json_object_set_new(object, "predicted_ms", km_json_real(candidate->predicted_ms));
    failed |= json_object_set_new(object, "memory_ms", km_json_real(candidate->memory_ms));
    failed |= json_object_set_new(object, "issue_ms", km_json_real(candidate->issue_ms));
    failed |= json_object_set_new(object, "tensor_ms", km_json_real(candidate->tensor_ms));
    failed |= json_object_set_new(object, "outcome", json_string(km_tune_outcome_name(candidate->outcome)));
    failed |= json_object_set_new(object, "ms", km_json_real(candidate->ms));
    failed |= json_object_set_new(object, "spread_ms", km_json_real(candidate->spread_ms));
    failed |= json_object_set_new(object, "samples", json_integer(candidate->samples));
    failed |= json_object_set_new(object, "registers", json_integer(candidate->registers));
    failed |= json_object_set_new(object, "blocks_per_sm", json_integer(candidate->blocks_per_sm));
    failed |= json_object_set_new(object, "occupancy", km_json_real(candidate->occupancy));
    failed |= json_object_set_new(object, "reason", km_json_string(candidate->reason));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *candidates_to_json(const km_tune_result *result) {
    json_t *array = json_array();
    for (int64_t i = 0; array && i < result->candidates_count; i++) {
        if (json_array_append_new(array, candidate_to_json(&result->candidates[i])) == 0) continue;
        json_decref(array);
        return NULL;
    }
    return array;
}

static json_t *clusters_to_json(const km_spec *spec) {
    json_t *array = json_array();
    for (int64_t i = 0; array && i < spec->clusters_count; i++) {
        if (json_array_append_new(array, json_integer(spec->clusters[i])) == 0) continue;
        json_decref(array);
        return NULL;
    }
    return array;
}

// An index of `candidates`; null where there is no such one.
static json_t *index_to_json(const km_tune_result *result, int64_t index) {
    return km_tune_candidate_at(result, index) ? json_integer(index) : json_null();
}

// What the cost model takes of the device.
static json_t *facts_to_json(const km_device_facts *facts) {
    json_t *object = json_object();
    int failed = 0;
    failed |= json_object_set_new(object, "units", json_integer(facts->units));
    failed |= json_object_set_new(object, "cache_bytes", json_integer(facts->cache_bytes));
    failed |= json_object_set_new(object, "bandwidth_gbs", km_json_real(facts->bandwidth_gbs));
    failed |= json_object_set_new(object, "clock_ghz", km_json_real(facts->clock_ghz));
    failed |= json_object_set_new(object, "fp32_per_cycle", km_json_real(facts->fp32_per_cycle));
    failed |= json_object_set_new(object, "fp64_per_cycle", km_json_real(facts->fp64_per_cycle));
    failed |= json_object_set_new(object, "has_integers", json_boolean(facts->has_integers));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static int fill_result(json_t *root, const km_tune_result *result) {
    char target[32];
    int failed = 0;
    km_target_text(target, sizeof target, result->spec.target);
    failed |= json_object_set_new(root, "kmgen", json_string(km_version()));
    failed |= json_object_set_new(root, "device", km_json_string(result->facts.name));
    failed |= json_object_set_new(root, "target", json_string(target));
    failed |= json_object_set_new(root, "driver", json_integer(result->driver));
    failed |= json_object_set_new(root, "facts", facts_to_json(&result->facts));
    failed |= json_object_set_new(root, "compiler", km_json_string(result->compiler));
    failed |= json_object_set_new(root, "features", json_integer(result->spec.features));
    failed |= json_object_set_new(root, "clusters", clusters_to_json(&result->spec));
    failed |= json_object_set_new(root, "type", json_string(km_type_name(result->spec.type)));
    failed |= json_object_set_new(root, "points", json_integer(result->points));
    failed |= json_object_set_new(root, "threads", json_integer(result->threads));
    failed |= json_object_set_new(root, "read_ms", km_json_real(result->read_ms));
    failed |= json_object_set_new(root, "default", index_to_json(result, result->standard));
    failed |= json_object_set_new(root, "best", index_to_json(result, result->best));
    failed |= json_object_set_new(root, "gain", km_json_real(result->gain));
    failed |= json_object_set_new(root, "noise", km_json_real(result->noise));
    failed |= json_object_set_new(root, "measured", json_integer(result->measured));
    failed |= json_object_set_new(root, "elapsed_s", km_json_real(result->elapsed_s));
    failed |= json_object_set_new(root, "stopped", json_boolean(result->stopped));
    failed |= json_object_set_new(root, "candidates", candidates_to_json(result));
    return failed;
}

km_status km_tune_json(char **out, const km_tune_result *result, km_error *err) {
    *out = NULL;
    json_t *root = json_object();
    km_status status = fill_result(root, result) ? km_fail_memory(err, "the tuning's JSON", 0)
                                                 : km_json_text(out, root, err);
    json_decref(root);
    return status;
}

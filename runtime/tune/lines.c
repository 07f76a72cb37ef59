// SPDX-License-Identifier: MIT
#include "lines.h"
#include "../../gen/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *km_tune_plan_json(const km_tune_candidate *candidate) {
    json_t *object = json_object();
    int failed = json_object_set_new(object, "design", json_string(km_design_name(candidate->design)));
    for (int64_t i = 0; i < candidate->numbers_count; i++) {
        const km_fixed *number = &candidate->numbers[i];
        char text[KM_VALUE_TEXT];
        failed |= json_object_set_new(object, number->name,
                                      km_fixed_is_word(number) ? json_string(km_fixed_text(text, number))
                                                               : json_integer(number->value));
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

km_status km_tune_plan_take(km_tune_candidate *candidate, const json_t *plan, km_error *err) {
    km_spec spec;
    const char *name;
    json_t *value;
    km_status status = KM_OK;
    *candidate = (km_tune_candidate){.design = KM_DESIGN_NONE};
    km_spec_init(&spec);
    json_object_foreach((json_t *)plan, name, value) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        KM_TRY_GOTO(km_spec_fix(&spec, name, json_is_string(value) ? json_string_value(value) : text, err));
        if (!strcmp(name, "design")) candidate->design = (km_design)spec.fixed[spec.fixed_count - 1].value;
    }
    candidate->numbers_count = spec.fixed_count;
    memcpy(candidate->numbers, spec.fixed, sizeof spec.fixed);
done:
    km_spec_clear(&spec);
    return status;
}

json_t *km_tune_found_json(const km_tune_candidate *candidate) {
    json_t *found = json_object();
    json_object_set_new(found, "outcome", json_string(km_tune_outcome_name(candidate->outcome)));
    json_object_set_new(found, "reason", km_json_string(candidate->reason));
    json_object_set_new(found, "registers", json_integer(candidate->registers));
    json_object_set_new(found, "blocks_per_sm", json_integer(candidate->blocks_per_sm));
    json_object_set_new(found, "occupancy", km_json_real(candidate->occupancy));
    return found;
}

int km_tune_found_take(km_tune_candidate *candidate, const json_t *found) {
    const char *outcome = json_string_value(json_object_get(found, "outcome"));
    const char *reason = json_string_value(json_object_get(found, "reason"));
    int at = 0;
    while (outcome && at < KM_TUNE_OUTCOME_COUNT &&
           strcmp(km_tune_outcome_name((km_tune_outcome)at), outcome) != 0)
        at++;
    if (!outcome || at == KM_TUNE_OUTCOME_COUNT) return 0;
    candidate->outcome = (km_tune_outcome)at;
    snprintf(candidate->reason, sizeof candidate->reason, "%s", reason ? reason : "");
    candidate->registers = (int32_t)json_integer_value(json_object_get(found, "registers"));
    candidate->blocks_per_sm = (int32_t)json_integer_value(json_object_get(found, "blocks_per_sm"));
    candidate->occupancy = json_number_value(json_object_get(found, "occupancy"));
    return 1;
}

int km_tune_reals_take(double *out, int count, const json_t *array) {
    int taken = 0;
    for (; taken < count && taken < (int)json_array_size(array); taken++)
        out[taken] = json_number_value(json_array_get(array, (size_t)taken));
    return taken;
}

char *km_tune_line(json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL, *line = NULL;
    json_decref(object);
    if (text && (line = malloc(strlen(text) + 2))) sprintf(line, "%s\n", text);
    free(text);
    return line;
}

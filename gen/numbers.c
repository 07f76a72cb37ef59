// SPDX-License-Identifier: MIT
#include "numbers.h"
#include "../base/text.h"
#include "words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t lowest, highest;
    int targets;
} params_table[KM_PARAM_COUNT] = {
#define KM_PARAM_ROW(name, lowest, highest, targets, tune, meaning) {#name, lowest, highest, targets},
    KM_PARAMS(KM_PARAM_ROW)
#undef KM_PARAM_ROW
};

// The plan as a struct --------------------------------------------------------------------------------------

void km_plan_init(km_plan *plan) {
    *plan = (km_plan){0};
    km_spec_init(&plan->spec);
}

void km_plan_clear(km_plan *plan) {
    km_spec_clear(&plan->spec);
    free(plan->layout);
    km_plan_init(plan);
}

km_status km_plan_layout_make(km_plan *plan, int64_t bytes, km_error *err) {
    free(plan->layout);
    plan->layout = calloc(1, (size_t)bytes);
    plan->layout_bytes = bytes;
    return plan->layout ? KM_OK : km_fail_memory(err, "the layout of a plan", bytes);
}

km_status km_plan_copy(km_plan *to, const km_plan *from, km_error *err) {
    km_spec spec;
    void *layout = from->layout ? malloc((size_t)from->layout_bytes) : NULL;
    km_spec_init(&spec);
    km_plan_clear(to);
    if (from->layout && !layout) return km_fail_memory(err, "the layout of a plan", from->layout_bytes);
    km_status status = km_spec_copy(&spec, &from->spec, err);
    if (status != KM_OK) {
        free(layout);
        return status;
    }
    if (layout) memcpy(layout, from->layout, (size_t)from->layout_bytes);
    *to = *from;
    to->spec = spec;
    to->layout = layout;
    return KM_OK;
}

void km_plan_params_init(km_plan_params *params) {
    *params = (km_plan_params){0};
}

static const km_plan_number *number_find(const km_plan *plan, const char *name) {
    for (int64_t i = 0; i < plan->numbers_count; i++)
        if (!strcmp(plan->numbers[i].name, name)) return &plan->numbers[i];
    return NULL;
}

int64_t km_plan_get(const km_plan *plan, const char *name) {
    const km_plan_number *number = number_find(plan, name);
    return number ? number->value : -1;
}

int64_t km_plan_value(const km_plan *plan, km_param param) {
    return km_plan_get(plan, params_table[param].name);
}

// Numbers ---------------------------------------------------------------------------------------------------

static const km_fixed *fixed_find(const km_spec *spec, const char *name) {
    for (int64_t i = 0; i < spec->fixed_count; i++)
        if (!strcmp(spec->fixed[i].name, name)) return &spec->fixed[i];
    return NULL;
}

km_algorithm km_plan_fixed_algorithm(const km_plan *plan) {
    const km_fixed *fixed = fixed_find(&plan->spec, "algorithm");
    return fixed ? (km_algorithm)fixed->value : KM_ALGORITHM_AUTO;
}

int km_plan_fixed(const km_plan *plan, km_param param, int64_t *value) {
    const km_fixed *fixed = fixed_find(&plan->spec, params_table[param].name);
    if (fixed) *value = fixed->value;
    return fixed != NULL;
}

km_design km_plan_fixed_design(const km_plan *plan) {
    const km_fixed *fixed = fixed_find(&plan->spec, "design");
    return fixed ? (km_design)fixed->value : KM_DESIGN_NONE;
}

void km_plan_fixed_reason(char *text, size_t size, const km_plan *plan) {
    const km_plan_tuned *tuned = &plan->tuned;
    if (!tuned->table[0])
        snprintf(text, size, "fixed in the spec");
    else if (tuned->exact)
        snprintf(text, size, "measured on %.60s: %.100s", tuned->device, tuned->table);
    else
        snprintf(text, size, "measured on %.40s for %.60s: %.70s", tuned->device, tuned->shape, tuned->table);
}

// The number's place in the plan, appended when it is new; NULL when the table is full.
static km_plan_number *number_place(km_plan *plan, const char *name) {
    km_plan_number *number = (km_plan_number *)number_find(plan, name);
    if (number) return number;
    if (plan->numbers_count == KM_PLAN_NUMBERS_MAX) return NULL;
    number = &plan->numbers[plan->numbers_count++];
    snprintf(number->name, sizeof number->name, "%s", name);
    return number;
}

// Whether a number may have this value.
static km_status check_value(const km_plan *plan, km_param param, int64_t value, const char *where,
                             km_error *err) {
    const char *name = params_table[param].name;
    if (km_param_has_words(param)) {
        char words[KM_WORDS_TEXT];
        if (km_word_is_of(value, param, plan->design)) return KM_OK;
        return km_fail(err, KM_ERROR_PLAN, "%s of the design %s must be one of %s, got %s%s", name,
                       km_design_name(plan->design), km_words_text(words, param, plan->design),
                       km_word_name(value), where);
    }
    if (value >= params_table[param].lowest && value <= params_table[param].highest) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "%s must be %" PRId64 "..%" PRId64 ", got %" PRId64 "%s", name,
                   params_table[param].lowest, params_table[param].highest, value, where);
}

km_status km_plan_set(km_plan *plan, km_param param, int64_t value, km_error *err, const char *reason, ...) {
    const char *name = params_table[param].name;
    int64_t taken = value;
    int is_fixed = km_plan_fixed(plan, param, &taken);
    KM_TRY(check_value(plan, param, taken, is_fixed ? " in the spec" : "", err));
    km_plan_number *number = number_place(plan, name);
    if (!number)
        return km_fail(err, KM_ERROR_INTERNAL, "a plan has more than %d numbers", KM_PLAN_NUMBERS_MAX);
    number->value = taken;
    km_value_text(number->text, param, taken);
    if (is_fixed) {
        km_plan_fixed_reason(number->reason, sizeof number->reason, plan);
        return KM_OK;
    }
    va_list args;
    va_start(args, reason);
    vsnprintf(number->reason, sizeof number->reason, reason, args);
    va_end(args);
    return KM_OK;
}

// What is left out --------------------------------------------------------------------------------------------

const char *km_plan_avoids(const km_plan *plan, km_design design, int64_t registers_spare) {
    for (int64_t i = 0; i < plan->avoided_count; i++)
        if (plan->avoided[i].design == design && plan->avoided[i].registers_spare >= registers_spare)
            return plan->avoided[i].reason;
    return NULL;
}

void km_plan_infeasible(km_plan *plan, km_design design, const char *reason) {
    km_estimate *estimate = &plan->estimates[design];
    const char *avoided = km_plan_avoids(plan, design, INT64_MIN);
    *estimate = (km_estimate){.design = design};
    snprintf(estimate->reason, sizeof estimate->reason, "%s", avoided ? avoided : reason);
}

void km_plan_sort_numbers(km_plan *plan) {
    km_plan_number sorted[KM_PLAN_NUMBERS_MAX];
    int64_t count = 0;
    for (int i = 0; i < KM_PARAM_COUNT; i++) {
        const km_plan_number *number = number_find(plan, params_table[i].name);
        if (number) sorted[count++] = *number;
    }
    memset(plan->numbers, 0, sizeof plan->numbers);
    memcpy(plan->numbers, sorted, (size_t)count * sizeof *sorted);
    plan->numbers_count = count;
}

// Fixed numbers ---------------------------------------------------------------------------------------------

static int target_bit(km_target_kind target) {
    return target == KM_TARGET_CUDA ? KM_PARAM_CUDA : KM_PARAM_CPU;
}

static int is_number_of(const char *name, int target) {
    for (int i = 0; i < KM_PARAM_COUNT; i++)
        if (!strcmp(params_table[i].name, name)) return (params_table[i].targets & target) != 0;
    return 0;
}

static km_status no_number(const char *whose, const char *name, km_text *others, km_error *err) {
    km_fail(err, KM_ERROR_PLAN, "%s has no number %.31s; it has %s", whose, name,
            others->failed ? "others"
            : others->size ? others->data
                           : "none");
    km_text_clear(others);
    return KM_ERROR_PLAN;
}

km_status km_plan_check_fixed(const km_spec *spec, km_error *err) {
    char target[32], designs[KM_DESIGNS_TEXT];
    km_target_text(target, sizeof target, spec->target);
    int bit = target_bit(spec->target.kind);
    for (int64_t i = 0; i < spec->fixed_count; i++) {
        const km_fixed *fixed = &spec->fixed[i];
        if (!strcmp(fixed->name, "design")) {
            if (km_design_target((km_design)fixed->value) == spec->target.kind) continue;
            return km_fail(err, KM_ERROR_PLAN, "%s has no design %s; it has %s", target,
                           km_design_name((km_design)fixed->value),
                           km_designs_text(designs, spec->target.kind, "and"));
        }
        if (!strcmp(fixed->name, "algorithm") || is_number_of(fixed->name, bit)) continue;
        km_text names = {0};
        for (int j = 0; j < KM_PARAM_COUNT; j++)
            if (params_table[j].targets & bit)
                km_text_printf(&names, "%s%s", names.size ? ", " : "", params_table[j].name);
        return no_number(target, fixed->name, &names, err);
    }
    return KM_OK;
}

km_status km_plan_check_used(const km_plan *plan, km_error *err) {
    for (int64_t i = 0; i < plan->spec.fixed_count; i++) {
        const char *name = plan->spec.fixed[i].name;
        if (!strcmp(name, "design") || !strcmp(name, "algorithm") || number_find(plan, name)) continue;
        km_text names = {0};
        char whose[64];
        snprintf(whose, sizeof whose, "the design %s", km_design_name(plan->design));
        for (int64_t j = 0; j < plan->numbers_count; j++)
            km_text_printf(&names, "%s%s", names.size ? ", " : "", plan->numbers[j].name);
        return no_number(whose, name, &names, err);
    }
    return KM_OK;
}

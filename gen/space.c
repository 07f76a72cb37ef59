// SPDX-License-Identifier: MIT
#include "space.h"
#include "design.h"
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What the cost model expects to take so many times the time of its best is not a candidate: it was never wrong by as
// much (docs/tuning.md).
static const double TIMES_SMALL = 3, TIMES_FULL = 5;

static const int64_t most[KM_PARAM_COUNT] = {
#define MOST(name, lowest, highest, targets, tune, meaning) highest,
    KM_PARAMS(MOST)
#undef MOST
};

static const char *const tunes[KM_PARAM_COUNT] = {
#define TUNE(name, lowest, highest, targets, tune, meaning) tune,
    KM_PARAMS(TUNE)
#undef TUNE
};

// Values -------------------------------------------------------------------------------------------------------

static int is_relative(km_param param) {
    return tunes[param][0] == 'x';
}

// Adds a value in its place; one that is there already is not added again.
static int64_t insert(int64_t *values, int64_t count, int64_t value) {
    int64_t at = count;
    for (int64_t i = 0; i < count; i++)
        if (values[i] == value) return count;
    if (count == KM_SPACE_VALUES_MAX) return count;
    for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1];
    values[at] = value;
    return count + 1;
}

// "384", or "x1/2" of `own`; 0: less than one.
static int64_t value_of(const char *text, int64_t own) {
    char *end;
    if (*text != 'x') return strtoll(text, NULL, 10);
    int64_t times = strtoll(text + 1, &end, 10), parts = *end == '/' ? strtoll(end + 1, NULL, 10) : 1;
    return own * times / parts;
}

int64_t km_space_values(int64_t values[KM_SPACE_VALUES_MAX], km_param param, km_design design, int64_t own,
                        int full) {
    const char *text = tunes[param];
    int64_t count = 0;
    if (!*text) return 0;
    if (km_param_has_words(param)) {
        for (int word = 0; word < KM_WORD_COUNT; word++)
            if (km_word_is_of(word, param, design)) count = insert(values, count, word);
        return count;
    }
    count = insert(values, 0, own);
    for (size_t size; (size = strcspn(text, " ")) > 0; text += size, text += strspn(text, " ")) {
        if (*text == '|' && !full) break;
        if (*text == '|') continue;
        int64_t value = value_of(text, own);
        if (value > 0 || !is_relative(param)) count = insert(values, count, value);
    }
    return count;
}

// Enumeration --------------------------------------------------------------------------------------------------

typedef struct walk {
    km_space *space;
    km_spec spec; // borrows the list of K; its fixed numbers grow and shrink
    const km_spec *given;
    const km_plan_params *params;
    int full;
    km_error *err;
} walk;

static int is_fixed(const km_spec *spec, const char *name) {
    for (int64_t i = 0; i < spec->fixed_count; i++)
        if (!strcmp(spec->fixed[i].name, name)) return 1;
    return 0;
}

static int is_idle(const km_plan *plan, km_param param) {
    const km_design_code *code = km_design_code_of(plan->design);
    return code->is_idle && code->is_idle(plan, param);
}

// What is or is not comes first, as others may be idle beside it; multiples of the planner's own come last, as it
// follows from the others.
static int order_of(km_param param) {
    return is_relative(param) ? 2 : most[param] == 1 ? 0 : 1;
}

// The next number of the plan to fix, KM_PARAM_COUNT when none is left.
static km_param next_axis(const walk *w, const km_plan *plan) {
    for (int order = 0; order <= 2; order++)
        for (int i = 0; i < KM_PARAM_COUNT; i++)
            if (tunes[i][0] && order_of((km_param)i) == order && km_plan_value(plan, (km_param)i) >= 0 &&
                !is_idle(plan, (km_param)i) && !is_fixed(&w->spec, km_param_name((km_param)i)))
                return (km_param)i;
    return KM_PARAM_COUNT;
}

static void put_number(km_fixed *number, const char *name, int64_t value) {
    *number = (km_fixed){.value = value};
    strncpy(number->name, name, sizeof number->name - 1);
}

static void set_fixed(km_spec *spec, const char *name, int64_t value) {
    put_number(&spec->fixed[spec->fixed_count++], name, value);
}

// The numbers that were fixed on the way to this plan, the design first.
static void describe(km_tune_candidate *candidate, const walk *w, const km_plan *plan) {
    const km_estimate *estimate = &plan->estimates[plan->design];
    double ms = 1e-6 * (double)plan->points;
    *candidate = (km_tune_candidate){.design = plan->design,
                                     .predicted_ms = ms * estimate->total_ns,
                                     .memory_ms = ms * estimate->memory_ns,
                                     .issue_ms = ms * estimate->issue_ns,
                                     .tensor_ms = ms * estimate->tensor_ns};
    candidate->numbers[candidate->numbers_count++] = (km_fixed){"design", plan->design};
    for (int i = 0; i < KM_PARAM_COUNT; i++) {
        const char *name = km_param_name((km_param)i);
        if (!tunes[i][0] || km_plan_value(plan, (km_param)i) < 0 || is_fixed(w->given, name)) continue;
        put_number(&candidate->numbers[candidate->numbers_count++], name, km_plan_value(plan, (km_param)i));
    }
}

static km_status add(walk *w, const km_plan *plan) {
    km_space *space = w->space;
    if (space->count == space->capacity) {
        int64_t capacity = space->capacity ? 2 * space->capacity : 256;
        km_tune_candidate *more = realloc(space->candidates, (size_t)capacity * sizeof *more);
        if (!more) return km_fail_memory(w->err, "the space of plans", capacity * (int64_t)sizeof *more);
        space->candidates = more;
        space->capacity = capacity;
    }
    describe(&space->candidates[space->count++], w, plan);
    return KM_OK;
}

// All plans with what is fixed so far. Recursion is as deep as a plan has numbers.
static km_status visit(walk *w) { // NOLINT(misc-no-recursion)
    km_plan plan;
    km_plan_init(&plan);
    km_status status = km_plan_make(&plan, &w->spec, w->params, NULL);
    if (status != KM_OK)
        return status == KM_ERROR_PLAN ? KM_OK : km_fail(w->err, status, "no plan could be made");
    km_param axis = next_axis(w, &plan);
    if (axis == KM_PARAM_COUNT) {
        status = add(w, &plan);
    } else {
        int64_t values[KM_SPACE_VALUES_MAX],
            count = km_space_values(values, axis, plan.design, km_plan_value(&plan, axis), w->full);
        for (int64_t i = 0; i < count && status == KM_OK && w->spec.fixed_count < KM_FIXED_MAX; i++) {
            set_fixed(&w->spec, km_param_name(axis), values[i]);
            status = visit(w);
            w->spec.fixed_count--;
        }
    }
    km_plan_clear(&plan);
    return status;
}

static km_status visit_designs(walk *w) {
    if (is_fixed(w->given, "design")) return visit(w);
    for (int design = KM_DESIGN_NONE + 1; design < KM_DESIGN_COUNT; design++) {
        if (km_design_target((km_design)design) != w->spec.target.kind) continue;
        set_fixed(&w->spec, "design", design);
        KM_TRY(visit(w));
        w->spec.fixed_count--;
    }
    return KM_OK;
}

int km_space_is_same(const km_tune_candidate *a, const km_tune_candidate *b) {
    if (a->numbers_count != b->numbers_count) return 0;
    for (int64_t i = 0; i < a->numbers_count; i++)
        if (strcmp(a->numbers[i].name, b->numbers[i].name) != 0 || a->numbers[i].value != b->numbers[i].value)
            return 0;
    return 1;
}

// Finds the planner's own choice, which is added where its numbers are none of those that are tried.
static km_status find_standard(walk *w, const km_plan *plan) {
    km_tune_candidate standard;
    describe(&standard, w, plan);
    for (int64_t i = 0; i < w->space->count; i++) {
        if (!km_space_is_same(&w->space->candidates[i], &standard)) continue;
        w->space->standard = i;
        return KM_OK;
    }
    w->space->standard = w->space->count;
    return add(w, plan);
}

// Drops what the cost model expects to take over `times` the time of its best, but for the standard one.
static void drop_slow(km_space *space, double times) {
    double best = INFINITY;
    int64_t kept = 0;
    for (int64_t i = 0; i < space->count; i++) best = fmin(best, space->candidates[i].predicted_ms);
    for (int64_t i = 0; i < space->count; i++) {
        if (i != space->standard && space->candidates[i].predicted_ms > times * best) continue;
        if (i == space->standard) space->standard = kept;
        space->candidates[kept++] = space->candidates[i];
    }
    space->count = kept;
}

km_status km_space_make(km_space *out, const km_spec *spec, const km_plan_params *params, int full,
                        km_error *err) {
    km_plan plan;
    km_plan_params untuned = *params;
    untuned.untuned = 1;
    *out = (km_space){0};
    km_plan_init(&plan);
    km_status status = km_plan_make(&plan, spec, &untuned, err);
    if (status == KM_OK) {
        walk w = {.space = out, .spec = *spec, .given = spec, .params = &untuned, .full = full, .err = err};
        w.spec.target = plan.spec.target;
        status = visit_designs(&w);
        if (status == KM_OK) status = find_standard(&w, &plan);
        if (status == KM_OK) drop_slow(out, full ? TIMES_FULL : TIMES_SMALL);
    }
    km_plan_clear(&plan);
    if (status != KM_OK) km_space_clear(out);
    return status;
}

void km_space_clear(km_space *space) {
    free(space->candidates);
    *space = (km_space){0};
}

km_status km_space_spec(km_spec *out, const km_spec *spec, const km_tune_candidate *candidate,
                        km_error *err) {
    KM_TRY(km_spec_copy(out, spec, err));
    for (int64_t i = 0; i < candidate->numbers_count; i++) {
        if (is_fixed(spec, candidate->numbers[i].name)) continue;
        if (out->fixed_count == KM_FIXED_MAX)
            return km_fail(err, KM_ERROR_SPEC, "a spec fixes at most %d numbers", KM_FIXED_MAX);
        out->fixed[out->fixed_count++] = candidate->numbers[i];
    }
    return KM_OK;
}

static int is_multiple(const km_fixed *number) {
    km_param param = km_param_find(number->name);
    return param < KM_PARAM_COUNT && is_relative(param);
}

km_status km_space_decisive(km_fixed numbers[KM_FIXED_MAX], int64_t *count, const km_spec *spec,
                            const km_plan_params *params, const km_tune_candidate *candidate, km_error *err) {
    km_tune_candidate others = *candidate;
    km_plan_params untuned = *params;
    km_spec fixed;
    km_plan plan;
    untuned.untuned = 1;
    others.numbers_count = *count = 0;
    for (int64_t i = 0; i < candidate->numbers_count; i++)
        if (!is_multiple(&candidate->numbers[i]))
            others.numbers[others.numbers_count++] = candidate->numbers[i];
    km_plan_init(&plan);
    km_spec_init(&fixed);
    km_status status = km_space_spec(&fixed, spec, &others, err);
    if (status == KM_OK) status = km_plan_make(&plan, &fixed, &untuned, err);
    for (int64_t i = 0; i < candidate->numbers_count && status == KM_OK; i++) {
        const km_fixed *number = &candidate->numbers[i];
        if (is_multiple(number) && km_plan_get(&plan, number->name) == number->value) continue; // it follows
        numbers[(*count)++] = *number;
    }
    km_plan_clear(&plan);
    km_spec_clear(&fixed);
    return status;
}

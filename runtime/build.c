// SPDX-License-Identifier: MIT
#include "build.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../gen/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A design is left out once so many of its configurations spilled: each is one more text to compile, and slower than
// the one before.
enum { CONFIGS_MAX = 4 };

typedef enum build_mode {
    BUILDS,   // what serves is loaded
    RECALLS,  // nothing is built: only what the cache knows counts
    COMPILES, // into the cache, nothing is loaded
} build_mode;

// The state of one search for a plan.
typedef struct search {
    const km_build_params *params;
    km_device *device;
    km_spec spec; // the caller's; what it fixes is dropped once all texts were refused
    km_plan_avoid avoid[KM_PLAN_AVOIDED_MAX];
    unsigned char
        refused[KM_PLAN_AVOIDED_MAX]; // of `avoid`: the compiler refused its text; else its pass spilled
    int64_t avoid_count, refused_count, spilled_count, spilled_of[KM_DESIGN_COUNT];
    int untuned; // what tables have was tried, or is not wanted
    build_mode mode;
    km_plan_number before[KM_PLAN_NUMBERS_MAX]; // of the last plan that was tried
    int64_t before_count;
    km_design before_design;
    char compiler[128];
    km_error refusal; // the compiler's first one
} search;

void km_build_init(km_build *build) {
    *build = (km_build){.module = NULL};
    km_plan_init(&build->plan);
    km_source_init(&build->source);
}

void km_build_clear(km_build *build) {
    km_module_destroy(&build->module);
    km_source_clear(&build->source);
    km_plan_clear(&build->plan);
    km_build_init(build);
}

int km_build_fixes_numbers(const km_spec *spec) {
    for (int64_t i = 0; i < spec->fixed_count; i++)
        if (strcmp(spec->fixed[i].name, "algorithm") != 0) return 1;
    return 0;
}

static km_status replace_text(km_source *source, const char *text, km_error *err) {
    if (!text) return KM_OK;
    int64_t size = (int64_t)strlen(text);
    char *copy = malloc((size_t)size + 1);
    if (!copy) return km_fail_memory(err, "the source text", size);
    free(source->text);
    source->text = memcpy(copy, text, (size_t)size + 1);
    source->text_size = size;
    return KM_OK;
}

// Where the spec fixes what configurations differ in, the planner makes the same plan again.
static int is_same_plan(const search *s, const km_plan *plan) {
    if (plan->design != s->before_design || plan->numbers_count != s->before_count) return 0;
    for (int64_t i = 0; i < plan->numbers_count; i++)
        if (plan->numbers[i].value != s->before[i].value) return 0;
    return 1;
}

// The planner's best plan but for those in `avoid`. KM_ERROR_PLAN: there is none, or only the last one again.
static km_status make_plan(km_build *build, search *s, km_error *err) {
    km_plan_params params = s->params->plan;
    params.facts = &s->device->facts;
    params.avoid = s->avoid;
    params.avoid_count = s->avoid_count;
    params.untuned |= s->untuned;
    KM_TRY(km_plan_make(&build->plan, &s->spec, &params, err));
    if (is_same_plan(s, &build->plan)) return km_fail(err, KM_ERROR_PLAN, "there is no other plan");
    memcpy(s->before, build->plan.numbers, sizeof s->before);
    s->before_count = build->plan.numbers_count;
    s->before_design = build->plan.design;
    return KM_OK;
}

static km_status emit(km_build *build, const search *s, km_error *err) {
    KM_TRY(km_source_emit(&build->source, &build->plan, NULL, err));
    return replace_text(&build->source, s->params->source_text, err);
}

// The numbers in which a design's configurations differ, for people.
static void describe_config(char *text, size_t size, const km_plan *plan) {
    static const char *const names[] = {"launches", "split", "block", "tile_points", "tile_clusters"};
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && at < size; i++) {
        int64_t value = km_plan_get(plan, names[i]);
        if (value > 0)
            at += (size_t)snprintf(text + at, size - at, "%s%s %" PRId64, at ? ", " : "", names[i], value);
    }
}

// 0: the list is full.
static km_plan_avoid *avoid_add(search *s, const km_plan *plan) {
    if (s->avoid_count == KM_PLAN_AVOIDED_MAX) return NULL;
    km_plan_avoid *added = &s->avoid[s->avoid_count++];
    *added = (km_plan_avoid){.design = plan->design};
    return added;
}

static int avoid_refused(search *s, const km_build *build) {
    km_plan_avoid *added = avoid_add(s, &build->plan);
    if (!added) return 0;
    s->refused[s->avoid_count - 1] = 1;
    s->refused_count++;
    added->registers_spare = INT64_MAX;
    snprintf(added->reason, sizeof added->reason, "its text was refused by %s", s->compiler);
    return 1;
}

static int avoid_spilled(search *s, const km_build *build, const km_log *log) {
    const km_plan *plan = &build->plan;
    km_plan_avoid *added = avoid_add(s, plan);
    char config[96];
    if (!added) return 0;
    s->spilled_count++;
    added->registers_spare = ++s->spilled_of[plan->design] < CONFIGS_MAX
                                 ? plan->estimates[plan->design].registers_spare
                                 : INT64_MAX;
    describe_config(config, sizeof config, plan);
    snprintf(added->reason, sizeof added->reason, "with %.60s: %.40s spills %" PRId64 " bytes, %.30s", config,
             build->module->spilling, build->module->spilled_bytes, s->compiler);
    km_log_line(log, KM_LOG_INFO, "plan: %s not taken %s", km_design_name(plan->design), added->reason);
    return 1;
}

// A measured plan that is refused or spills, as it did not where it was measured, is no reason to leave out others: the
// cost model's comes next.
static int leave_tables(search *s, const km_build *build, const char *why, const km_log *log) {
    const km_plan_tuned *tuned = &build->plan.tuned;
    if (!tuned->table[0]) return 0;
    km_log_line(log, KM_LOG_INFO, "plan: what %s has for %s is not taken: %s, %s", tuned->table, tuned->shape,
                why, s->compiler);
    s->untuned = 1;
    s->before_design = KM_DESIGN_NONE;
    return 1;
}

static km_module_mode module_mode(const search *s, km_module_mode building) {
    return s->mode == RECALLS ? KM_MODULE_RECALL : s->mode == COMPILES ? KM_MODULE_COMPILE : building;
}

static km_status get_module(km_build *build, const search *s, km_module_mode mode, km_error *err) {
    return km_module_get(&build->module, &build->source, s->device, mode, &s->params->module,
                         s->params->built, err);
}

// Tries plan after plan until one compiles and does not spill. KM_ERROR_PLAN: none is left; what was tried is counted.
static km_status find_plan(km_build *build, search *s, km_error *err) {
    for (;;) {
        km_error first = {{0}};
        KM_TRY(make_plan(build, s, err));
        KM_TRY(emit(build, s, err));
        km_status status =
            get_module(build, s, module_mode(s, s->params->begins ? KM_MODULE_BEGIN : KM_MODULE_TRY), &first);
        if (status == KM_OK && build->module->spilled_bytes == 0) return KM_OK;
        if (status != KM_OK && status != KM_ERROR_COMPILE) return km_fail(err, status, "%s", first.text);
        const km_log *log = s->params->module.log;
        const char *why = status == KM_OK ? "its pass spills registers" : "its text is refused";
        int more = leave_tables(s, build, why, log);
        if (!more && status != KM_OK && !s->refusal.text[0]) s->refusal = first;
        if (!more) more = status == KM_OK ? avoid_spilled(s, build, log) : avoid_refused(s, build);
        km_module_destroy(&build->module);
        if (!more) return km_fail(err, KM_ERROR_PLAN, "%d plans were tried", KM_PLAN_AVOIDED_MAX);
    }
}

// One plan and no other: its module is run even where it spills.
static km_status build_once(km_build *build, search *s, km_error *err) {
    KM_TRY(make_plan(build, s, err));
    KM_TRY(emit(build, s, err));
    return get_module(build, s, module_mode(s, KM_MODULE_LOAD), err);
}

static void warn_of_spills(km_build *build, const search *s) {
    const km_module *module = build->module;
    int chosen = s->params->source_text || km_build_fixes_numbers(&s->spec);
    if (!module->spilled_bytes) return;
    if (chosen)
        snprintf(build->warning, sizeof build->warning,
                 "%s spills %" PRId64 " bytes of registers (%s): %s is slower than it could be; %s",
                 module->spilling, module->spilled_bytes, s->compiler,
                 s->params->source_text ? "the given source text" : "the plan that was fixed",
                 s->params->source_text ? "leave it out" : "fix less of it");
    else
        km_log_line(s->params->module.log, KM_LOG_WARNING,
                    "plan: %s spills %" PRId64 " bytes of registers (%s), as all other plans do",
                    module->spilling, module->spilled_bytes, s->compiler);
}

static void warn_of_refusal(km_build *build, const search *s) {
    if (s->refused_count > 0)
        snprintf(build->warning, sizeof build->warning, "the design %s is used: %s",
                 km_design_name(build->plan.design), s->refusal.text);
}

// All plans spill: builds the first one, which has the least estimated time.
static km_status build_spilled(km_build *build, search *s, km_error *err) {
    int64_t refused = 0;
    for (int64_t i = 0; i < s->avoid_count; i++)
        if (s->refused[i]) s->avoid[refused++] = s->avoid[i];
    s->avoid_count = refused;
    s->before_design = KM_DESIGN_NONE;
    KM_TRY(build_once(build, s, err));
    warn_of_spills(build, s);
    warn_of_refusal(build, s);
    return KM_OK;
}

// Drops all that the spec fixes but the algorithm.
static km_status drop_fixed(search *s, km_error *err) {
    km_algorithm algorithm = KM_ALGORITHM_AUTO;
    for (int64_t i = 0; i < s->spec.fixed_count; i++)
        if (!strcmp(s->spec.fixed[i].name, "algorithm")) algorithm = (km_algorithm)s->spec.fixed[i].value;
    s->spec.fixed_count = 0;
    if (algorithm == KM_ALGORITHM_AUTO) return KM_OK;
    return km_spec_fix(&s->spec, "algorithm", km_algorithm_name(algorithm), err);
}

static km_status fail_refused(const search *s, km_error *err) {
    char designs[64];
    size_t at = 0;
    if (s->refused_count == 1) return km_fail(err, KM_ERROR_COMPILE, "%s", s->refusal.text);
    for (int64_t i = 0; i < s->avoid_count && at < sizeof designs; i++)
        at += (size_t)snprintf(designs + at, sizeof designs - at, "%s%s", i ? ", " : "",
                               km_design_name(s->avoid[i].design));
    return km_fail(err, KM_ERROR_COMPILE, "the texts of all designs were refused (%s), the first one: %s",
                   designs, s->refusal.text);
}

// Builds a given text; the plan is the one in its head, which it was emitted from.
static km_status build_given(km_build *build, search *s, km_error *err) {
    const km_build_params *params = s->params;
    KM_TRY(km_source_take_head(&s->spec, params->source_text, &params->plan, s->device->facts.target, err));
    s->avoid[0] = (km_plan_avoid){KM_DESIGN_PREBUILT, INT64_MAX,
                                  "it is compiled into the library and would not use the source text that is "
                                  "given: leave that out, or fix another design"};
    s->avoid_count = s->device->facts.target.kind == KM_TARGET_CPU;
    KM_TRY(build_once(build, s, err));
    warn_of_spills(build, s);
    return KM_OK;
}

static km_status build_best(km_build *build, search *s, km_error *err) {
    km_error first = {{0}};
    km_status status = find_plan(build, s, &first);
    if (status == KM_ERROR_PLAN && s->spilled_count > 0) return build_spilled(build, s, err);
    if (status == KM_ERROR_PLAN && s->refused_count > 0) {
        if (s->device->facts.target.kind != KM_TARGET_CPU || !km_build_fixes_numbers(&s->spec))
            return fail_refused(s, err);
        KM_TRY(drop_fixed(s, err));
        first.text[0] = 0;
        status = find_plan(build, s, &first);
    }
    if (status != KM_OK) return km_fail(err, status, "%s", first.text);
    warn_of_refusal(build, s);
    return KM_OK;
}

static km_status run(km_build *build, km_device *device, const km_build_params *params, build_mode mode,
                     km_error *err) {
    km_status status = KM_OK;
    search s = {.params = params, .device = device, .mode = mode};
    km_spec_init(&s.spec);
    km_build_clear(build);
    device->backend->compiler_name(s.compiler, sizeof s.compiler, device);
    KM_TRY_GOTO(km_spec_copy(&s.spec, params->spec, err));
    KM_TRY_GOTO(params->source_text ? build_given(build, &s, err) : build_best(build, &s, err));
done:
    km_spec_clear(&s.spec);
    return status;
}

km_status km_build_on(km_build *build, km_device *device, const km_build_params *params, km_error *err) {
    return run(build, device, params, BUILDS, err);
}

km_status km_build_plan(km_plan *plan, km_device *device, const km_build_params *params, km_error *err) {
    km_build build;
    km_build_init(&build);
    km_status status = run(&build, device, params, RECALLS, err);
    if (status == KM_OK) {
        km_plan_clear(plan);
        *plan = build.plan;
        km_plan_init(&build.plan);
    }
    km_build_clear(&build);
    return status;
}

km_status km_build_ahead(km_build *build, km_device *device, const km_build_params *params, km_error *err) {
    return run(build, device, params, COMPILES, err);
}

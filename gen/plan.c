// SPDX-License-Identifier: MIT
// What both targets share of planning: the spec's check, target, tuning file, and the numbers that are fixed.
#include "../base/error.h"
#include "../base/text.h"
#include "memory.h"
#include "planner.h"

#include <stdarg.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char reason_fixed[] = "fixed in the spec";
static const char reason_tuned[] = "from the tuning file";
static const char reason_waiting[] = "in the tuning file"; // until the planner asks for it

static const struct {
    const char *name;
    int64_t lowest, highest;
    int targets;
} params_table[KM_PARAM_COUNT] = {
#define KM_PARAM_ROW(name, lowest, highest, targets, meaning) {#name, lowest, highest, targets},
    KM_PARAMS(KM_PARAM_ROW)
#undef KM_PARAM_ROW
};

// Names -----------------------------------------------------------------------------------------------------

const char *km_design_name(km_design design) {
    static const char *const names[KM_DESIGN_COUNT] = {
        [KM_DESIGN_NONE] = "none",         [KM_DESIGN_REGISTERS] = "registers", [KM_DESIGN_TENSOR] = "tensor",
        [KM_DESIGN_SHARED] = "shared",     [KM_DESIGN_LANES] = "lanes",         [KM_DESIGN_BLOCKS] = "blocks",
        [KM_DESIGN_PORTABLE] = "portable",
    };
    return (unsigned)design < KM_DESIGN_COUNT ? names[design] : "none";
}

const char *km_type_name(km_type type) {
    return type == KM_FLOAT64 ? "float64" : "float32";
}

void km_target_text(char *text, int64_t size, km_target target) {
    static const char *const isas[] = {"cpu", "cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:neon"};
    if (size < 1) return;
    if (target.kind == KM_TARGET_CUDA && target.arch)
        snprintf(text, (size_t)size, "cuda:sm_%" PRId32, target.arch);
    else if (target.kind == KM_TARGET_CUDA)
        snprintf(text, (size_t)size, "cuda");
    else if (target.kind == KM_TARGET_CPU && (uint32_t)target.arch < sizeof isas / sizeof *isas)
        snprintf(text, (size_t)size, "%s", isas[target.arch]);
    else
        snprintf(text, (size_t)size, "auto");
}

// The plan as a struct --------------------------------------------------------------------------------------

void km_plan_init(km_plan *plan) {
    *plan = (km_plan){.size = sizeof *plan};
    km_spec_init(&plan->spec);
}

void km_plan_clear(km_plan *plan) {
    km_spec_clear(&plan->spec);
    km_plan_init(plan);
}

void km_plan_params_init(km_plan_params *params) {
    *params = (km_plan_params){.size = sizeof *params};
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

// Numbers ---------------------------------------------------------------------------------------------------

static const km_fixed *fixed_find(const km_spec *spec, const char *name) {
    for (int64_t i = 0; i < spec->fixed_count; i++)
        if (!strcmp(spec->fixed[i].name, name)) return &spec->fixed[i];
    return NULL;
}

static int is_tuned(const char *reason) {
    return !strcmp(reason, reason_waiting) || !strcmp(reason, reason_tuned);
}

km_algorithm km_plan_fixed_algorithm(const km_plan *plan) {
    const km_fixed *fixed = fixed_find(&plan->spec, "algorithm");
    return fixed ? (km_algorithm)fixed->value : KM_ALGORITHM_AUTO;
}

int km_plan_fixed(const km_plan *plan, km_param param, int64_t *value) {
    const km_fixed *fixed = fixed_find(&plan->spec, params_table[param].name);
    const km_plan_number *number = number_find(plan, params_table[param].name);
    if (!fixed && !(number && is_tuned(number->reason))) return 0;
    *value = fixed ? fixed->value : number->value;
    return 1;
}

km_design km_plan_fixed_design(const km_plan *plan) {
    const km_fixed *fixed = fixed_find(&plan->spec, "design");
    if (fixed) return (km_design)fixed->value;
    return is_tuned(plan->design_reason) ? plan->design : KM_DESIGN_NONE;
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

km_status km_plan_set(km_plan *plan, km_param param, int64_t value, km_error *err, const char *reason, ...) {
    const char *name = params_table[param].name;
    const km_fixed *fixed = fixed_find(&plan->spec, name);
    int64_t taken = value;
    int is_fixed = km_plan_fixed(plan, param, &taken);
    if (taken < params_table[param].lowest || taken > params_table[param].highest)
        return km_fail(err, KM_ERROR_PLAN, "%s must be %" PRId64 "..%" PRId64 ", got %" PRId64 "%s", name,
                       params_table[param].lowest, params_table[param].highest, taken,
                       fixed ? " in the spec" : "");
    km_plan_number *number = number_place(plan, name);
    if (!number)
        return km_fail(err, KM_ERROR_INTERNAL, "a plan has more than %d numbers", KM_PLAN_NUMBERS_MAX);
    number->value = taken;
    if (is_fixed) {
        snprintf(number->reason, sizeof number->reason, "%s", fixed ? reason_fixed : reason_tuned);
        return KM_OK;
    }
    va_list args;
    va_start(args, reason);
    vsnprintf(number->reason, sizeof number->reason, reason, args);
    va_end(args);
    return KM_OK;
}

// What is left out --------------------------------------------------------------------------------------------

static km_status avoid_take(km_plan *plan, const km_plan_params *params, km_error *err) {
    if (params->avoid_count < 0 || params->avoid_count > KM_PLAN_AVOIDED_MAX)
        return km_fail(err, KM_ERROR_USAGE, "at most %d plans can be avoided, got %" PRId64,
                       KM_PLAN_AVOIDED_MAX, params->avoid_count);
    plan->avoided_count = params->avoid_count;
    for (int64_t i = 0; i < plan->avoided_count; i++) plan->avoided[i] = params->avoid[i];
    return KM_OK;
}

const char *km_plan_avoids(const km_plan *plan, km_design design, int64_t registers_spare) {
    for (int64_t i = 0; i < plan->avoided_count; i++)
        if (plan->avoided[i].design == design && plan->avoided[i].registers_spare >= registers_spare)
            return plan->avoided[i].reason;
    return NULL;
}

void km_plan_no_way(km_plan *plan, km_design design, const char *reason) {
    km_estimate *estimate = &plan->estimates[design];
    const char *avoided = km_plan_avoids(plan, design, INT64_MIN);
    *estimate = (km_estimate){.design = design};
    snprintf(estimate->reason, sizeof estimate->reason, "%s", avoided ? avoided : reason);
}

// Puts the numbers into the order of gen/params.h and drops those of the tuning file that nobody asked for.
static void numbers_sort(km_plan *plan) {
    km_plan_number sorted[KM_PLAN_NUMBERS_MAX];
    int64_t count = 0;
    for (int i = 0; i < KM_PARAM_COUNT; i++) {
        const km_plan_number *number = number_find(plan, params_table[i].name);
        if (number && strcmp(number->reason, reason_waiting) != 0) sorted[count++] = *number;
    }
    memset(plan->numbers, 0, sizeof plan->numbers);
    memcpy(plan->numbers, sorted, (size_t)count * sizeof *sorted);
    plan->numbers_count = count;
}

// Checks ----------------------------------------------------------------------------------------------------

static int is_identifier(const char *name) {
    if (!name[0] || (name[0] >= '0' && name[0] <= '9')) return 0;
    for (; *name; name++)
        if (!(*name == '_' || (*name >= '0' && *name <= '9') || (*name >= 'a' && *name <= 'z') ||
              (*name >= 'A' && *name <= 'Z')))
            return 0;
    return 1;
}

// Specs also come from a caller's own C, so the values are checked here too.
static km_status spec_check(const km_spec *spec, km_error *err) {
    if (!memchr(spec->name, 0, sizeof spec->name) || !is_identifier(spec->name))
        return km_fail(err, KM_ERROR_PLAN, "the spec's name must be a C identifier");
    if (spec->features < 1 || spec->features > KM_FEATURES_MAX)
        return km_fail(err, KM_ERROR_PLAN, "features must be 1..%d, got %" PRId64 "%s", KM_FEATURES_MAX,
                       spec->features, spec->features ? "" : ": add `features:` to the spec");
    if (spec->clusters_count < 1 || spec->clusters_count > KM_RANGE_MAX || !spec->clusters)
        return km_fail(err, KM_ERROR_PLAN, "clusters must name 1..%d K, got %" PRId64 "%s", KM_RANGE_MAX,
                       spec->clusters_count, spec->clusters_count ? "" : ": add `clusters:` to the spec");
    for (int64_t i = 0, before = 0; i < spec->clusters_count; before = spec->clusters[i++])
        if (spec->clusters[i] <= before || spec->clusters[i] > KM_CLUSTERS_MAX)
            return km_fail(err, KM_ERROR_PLAN,
                           "clusters must ascend within 1..%d, got %" PRId32 " after %" PRId64,
                           KM_CLUSTERS_MAX, spec->clusters[i], before);
    if (spec->type != KM_FLOAT32 && spec->type != KM_FLOAT64)
        return km_fail(err, KM_ERROR_PLAN, "type must be float32 or float64");
    if (spec->restarts < 1)
        return km_fail(err, KM_ERROR_PLAN, "restarts must be at least 1, got %" PRId64, spec->restarts);
    if (spec->fixed_count < 0 || spec->fixed_count > KM_FIXED_MAX)
        return km_fail(err, KM_ERROR_PLAN, "a spec fixes at most %d numbers", KM_FIXED_MAX);
    return KM_OK;
}

static int target_bit(km_target target) {
    return target.kind == KM_TARGET_CUDA ? KM_PARAM_CUDA : KM_PARAM_CPU;
}

static int design_target(km_design design) {
    return design >= KM_DESIGN_LANES ? KM_PARAM_CPU : KM_PARAM_CUDA;
}

static int is_number_of(const char *name, int target) {
    for (int i = 0; i < KM_PARAM_COUNT; i++)
        if (!strcmp(params_table[i].name, name)) return (params_table[i].targets & target) != 0;
    return 0;
}

// Refuses numbers that the target does not have, before anything is planned.
static km_status fixed_check(const km_spec *spec, km_error *err) {
    char target[32];
    km_target_text(target, sizeof target, spec->target);
    int bit = target_bit(spec->target);
    for (int64_t i = 0; i < spec->fixed_count; i++) {
        const km_fixed *fixed = &spec->fixed[i];
        if (!strcmp(fixed->name, "design")) {
            int known = fixed->value > KM_DESIGN_NONE && fixed->value < KM_DESIGN_COUNT;
            if (known && design_target((km_design)fixed->value) == bit) continue;
            return km_fail(err, KM_ERROR_PLAN, "%s has no design %s; it has %s", target,
                           km_design_name((km_design)fixed->value),
                           bit == KM_PARAM_CUDA ? "registers, tensor and shared"
                                                : "lanes, blocks and portable");
        }
        if (!strcmp(fixed->name, "algorithm") || is_number_of(fixed->name, bit)) continue;
        km_text names = {0};
        for (int j = 0; j < KM_PARAM_COUNT; j++)
            if (params_table[j].targets & bit)
                km_text_printf(&names, "%s%s", names.size ? ", " : "", params_table[j].name);
        km_fail(err, KM_ERROR_PLAN, "%s has no number %.31s; it has %s", target, fixed->name,
                names.failed ? "others" : names.data);
        km_text_clear(&names);
        return KM_ERROR_PLAN;
    }
    return KM_OK;
}

// Refuses numbers that the chosen design does not have.
static km_status fixed_used_check(const km_plan *plan, km_error *err) {
    for (int64_t i = 0; i < plan->spec.fixed_count; i++) {
        const char *name = plan->spec.fixed[i].name;
        if (!strcmp(name, "design") || !strcmp(name, "algorithm") || number_find(plan, name)) continue;
        km_text names = {0};
        for (int64_t j = 0; j < plan->numbers_count; j++)
            km_text_printf(&names, "%s%s", names.size ? ", " : "", plan->numbers[j].name);
        km_fail(err, KM_ERROR_PLAN, "the design %s has no number %s; it has %s", km_design_name(plan->design),
                name,
                names.failed ? "others"
                : names.size ? names.data
                             : "none");
        km_text_clear(&names);
        return KM_ERROR_PLAN;
    }
    return KM_OK;
}

// Target ----------------------------------------------------------------------------------------------------

// Whether code for `asked` runs on a machine of `have`, both of one kind with their architectures.
static int target_runs_on(km_target asked, km_target have) {
    if (asked.kind == KM_TARGET_CUDA) return asked.arch / 10 == have.arch / 10 && asked.arch <= have.arch;
    return asked.arch == have.arch || asked.arch == KM_ISA_GENERIC ||
           (asked.arch == KM_ISA_AVX2 && have.arch == KM_ISA_AVX512);
}

// Fills plan->spec.target and plan->facts.
static km_status target_resolve(km_plan *plan, const km_device_facts *facts, km_error *err) {
    km_target *target = &plan->spec.target;
    if (target->kind == KM_TARGET_AUTO) *target = (km_target){facts ? facts->target.kind : KM_TARGET_CPU, 0};
    if (!facts) {
        km_device_facts_init(&plan->facts, *target);
        if (target->arch && target->arch != plan->facts.target.arch)
            return km_fail(err, KM_ERROR_PLAN, "unknown instruction set %" PRId32 " of a CPU target",
                           target->arch);
        *target = plan->facts.target;
        return KM_OK;
    }
    plan->facts = *facts;
    if (target->kind == facts->target.kind && !target->arch) target->arch = facts->target.arch;
    char asked[32], have[32];
    km_target_text(asked, sizeof asked, *target);
    km_target_text(have, sizeof have, facts->target);
    if (target->kind != facts->target.kind || !target_runs_on(*target, facts->target))
        return km_fail(err, KM_ERROR_PLAN,
                       "the spec's target %s does not run on this device, %s (%s): choose another "
                       "device or leave the architecture out",
                       asked, have, facts->name);
    if (target->arch == facts->target.arch) return KM_OK;
    // An older instruction set than the machine's: as wide as that one at most.
    km_device_facts nominal;
    km_device_facts_init(&nominal, *target);
    plan->facts.target = *target;
    if (target->kind == KM_TARGET_CUDA) return KM_OK;
    plan->facts.fp32_per_cycle = nominal.fp32_per_cycle;
    plan->facts.fp64_per_cycle = nominal.fp64_per_cycle;
    return KM_OK;
}

// Tuning file -----------------------------------------------------------------------------------------------
//
// A tuning file is a list of specs with their `plan:` numbers, separated by lines "---": what km_spec_to_yaml
// writes. An entry counts for the same target with its architecture, features, list of K and type. Its numbers
// were measured together, so they are used together, only where the spec fixes nothing itself. The last such
// entry counts.

static int same_shape(const km_spec *a, const km_spec *b) {
    return a->target.kind == b->target.kind && a->target.arch == b->target.arch &&
           a->features == b->features && a->type == b->type && a->clusters_count == b->clusters_count &&
           !memcmp(a->clusters, b->clusters, (size_t)a->clusters_count * sizeof *a->clusters);
}

// Puts an entry's numbers into the plan, where km_plan_fixed finds them.
static km_status tuning_take(km_plan *plan, const km_spec *entry, km_error *err) {
    plan->numbers_count = 0;
    plan->design = KM_DESIGN_NONE;
    plan->design_reason[0] = 0;
    plan->algorithm = KM_ALGORITHM_AUTO;
    for (int64_t i = 0; i < entry->fixed_count; i++) {
        const km_fixed *fixed = &entry->fixed[i];
        if (!strcmp(fixed->name, "design")) {
            plan->design = (km_design)fixed->value;
            snprintf(plan->design_reason, sizeof plan->design_reason, "%s", reason_waiting);
            continue;
        }
        if (!strcmp(fixed->name, "algorithm")) {
            plan->algorithm = (km_algorithm)fixed->value;
            continue;
        }
        km_plan_number *number = number_place(plan, fixed->name);
        if (!number) return km_fail(err, KM_ERROR_PLAN, "an entry of the tuning file has too many numbers");
        number->value = fixed->value;
        snprintf(number->reason, sizeof number->reason, "%s", reason_waiting);
    }
    return KM_OK;
}

static km_status tuning_entry(km_plan *plan, const char *text, int64_t size, int index, km_error *err) {
    char name[32];
    snprintf(name, sizeof name, "tuning file, entry %d", index);
    km_spec entry;
    km_spec_init(&entry);
    km_status status = KM_OK;
    KM_TRY_GOTO(km_spec_parse(&entry, text, size, name, err));
    if (!same_shape(&entry, &plan->spec)) goto done;
    KM_TRY_GOTO(fixed_check(&entry, err));
    KM_TRY_GOTO(tuning_take(plan, &entry, err));
done:
    km_spec_clear(&entry);
    return status;
}

static int is_separator(const char *line) {
    return !strncmp(line, "---", 3) && (line[3] == '\n' || line[3] == '\r' || !line[3]);
}

static int is_blank(const char *text, const char *end) {
    while (text < end && strchr(" \t\r\n", *text)) text++;
    return text == end;
}

static km_status tuning_apply(km_plan *plan, const char *text, km_error *err) {
    int index = 0;
    for (const char *line = text, *entry = text;;) {
        int ends = !*line || is_separator(line);
        if (ends && !is_blank(entry, line)) KM_TRY(tuning_entry(plan, entry, line - entry, ++index, err));
        if (!*line) return KM_OK;
        const char *newline = strchr(line, '\n');
        line = newline ? newline + 1 : line + strlen(line);
        if (ends) entry = line;
    }
}

// All of it -------------------------------------------------------------------------------------------------

static km_status make(km_plan *plan, const km_spec *spec, const km_plan_params *params, int64_t in_flight_max,
                      km_error *err) {
    plan->in_flight_max = in_flight_max;
    KM_TRY(spec_check(spec, err));
    KM_TRY(km_spec_copy(&plan->spec, spec, err));
    KM_TRY(target_resolve(plan, params->facts, err));
    KM_TRY(fixed_check(&plan->spec, err));
    plan->points = params->points;
    plan->weighted = params->weighted != 0;
    plan->track_labels = params->track_labels != 0;
    plan->value_bytes = params->value_bytes;
    plan->label_sets = params->label_sets;
    plan->threads = params->threads;
    for (int64_t i = 0; i < spec->clusters_count; i++) plan->clusters_sum += spec->clusters[i];
    KM_TRY(avoid_take(plan, params, err));
    if (params->tuning && !spec->fixed_count && !params->avoid_count)
        KM_TRY(tuning_apply(plan, params->tuning, err));

    km_design fixed = km_plan_fixed_design(plan);
    int is_cuda = plan->spec.target.kind == KM_TARGET_CUDA;
    KM_TRY(is_cuda ? km_plan_cuda(plan, err) : km_plan_cpu(plan, err));
    if (fixed && plan->design != fixed)
        return km_fail(err, KM_ERROR_INTERNAL, "the planner took the design %s, although %s was fixed",
                       km_design_name(plan->design), km_design_name(fixed));
    if (fixed)
        snprintf(plan->design_reason, sizeof plan->design_reason, "%s",
                 fixed_find(&plan->spec, "design") ? reason_fixed : reason_tuned);
    KM_TRY(km_plan_algorithm(plan, params->algorithm, err));
    km_memory memory;
    km_memory_of(&memory, plan);
    plan->memory_bytes = memory.total;
    plan->host_bytes = memory.host;
    plan->estimates[plan->design].memory_bytes = memory.total;
    numbers_sort(plan);
    return fixed_used_check(plan, err);
}

// Restarts in flight to try next where the plan does not fit; 0: nothing is left to try.
static int64_t fewer_in_flight(const km_plan *plan) {
    int64_t fixed, copies = km_plan_get(plan, "restarts_in_flight");
    if (km_plan_fits(plan) || km_plan_fixed(plan, KM_PARAM_restarts_in_flight, &fixed)) return 0;
    return copies / 2;
}

// Whether the sentence speaks of the number: "a block's registers" does not of `block`.
static int names_number(const char *sentence, const char *name) {
    size_t size = strlen(name);
    for (const char *at = sentence; (at = strstr(at, name)) != NULL; at += size)
        if ((at == sentence || at[-1] == ' ') && strchr(" ,;:", at[size])) return 1;
    return 0;
}

// Why there is no plan is known of the whole; says which fixed number is to blame, and what it would be otherwise.
static void blame_fixed(const km_spec *spec, const km_plan_params *params, km_error *err) {
    for (int64_t i = 0; i < spec->fixed_count; i++) {
        const km_fixed *fixed = &spec->fixed[i];
        if (!strcmp(fixed->name, "design") || names_number(err->text, fixed->name)) continue;
        km_spec without = *spec; // borrows the list of K
        km_plan plan;
        km_plan_init(&plan);
        without.fixed[i] = without.fixed[--without.fixed_count];
        if (make(&plan, &without, params, 0, NULL) == KM_OK && number_find(&plan, fixed->name)) {
            km_error whole = *err;
            err->text[0] = 0;
            km_fail(err, KM_ERROR_PLAN,
                    "%s cannot be %" PRId64 ": %.700s; without it the plan has %s %" PRId64, fixed->name,
                    fixed->value, whole.text, fixed->name, km_plan_get(&plan, fixed->name));
        }
        km_plan_clear(&plan);
    }
}

km_status km_plan_make(km_plan *plan, const km_spec *spec, const km_plan_params *params, km_error *err) {
    km_plan_params defaults;
    km_plan_params_init(&defaults);
    if (!params) params = &defaults;
    km_plan made;
    km_plan_init(&made);
    km_status status = make(&made, spec, params, 0, err);
    for (int64_t copies; status == KM_OK && (copies = fewer_in_flight(&made)) > 0;) {
        km_plan_clear(&made);
        status = make(&made, spec, params, copies, err);
    }
    if (status == KM_ERROR_PLAN && err) blame_fixed(spec, params, err);
    if (status != KM_OK) {
        km_plan_clear(&made);
        return status;
    }
    km_plan_clear(plan);
    *plan = made;
    return KM_OK;
}

int km_plan_fits(const km_plan *plan) {
    return !plan->memory_bytes || !plan->facts.memory_free_bytes ||
           plan->memory_bytes <= plan->facts.memory_free_bytes;
}

// SPDX-License-Identifier: MIT
// The planner: the spec's check and target, one loop over the table of designs, then what tuning tables have.
#include "algorithm.h"
#include "design.h"
#include "fit_time.h"
#include "memory.h"
#include "old_names.h"
#include "tuning_lookup.h"
#include "words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (spec->n_init < 1 || spec->n_init > KM_N_INIT_MAX)
        return km_fail(err, KM_ERROR_PLAN, "n_init must be 1..%d, got %" PRId64, KM_N_INIT_MAX, spec->n_init);
    if ((unsigned)spec->layout >= KM_LAYOUT_COUNT)
        return km_fail(err, KM_ERROR_PLAN, "layout %d does not exist", (int)spec->layout);
    if ((unsigned)spec->metric >= KM_METRIC_COUNT)
        return km_fail(err, KM_ERROR_PLAN, "metric %d does not exist", (int)spec->metric);
    if (spec->fixed_count < 0 || spec->fixed_count > KM_FIXED_MAX)
        return km_fail(err, KM_ERROR_PLAN, "a spec fixes at most %d numbers", KM_FIXED_MAX);
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
    if (target->kind == KM_TARGET_AUTO) *target = (km_target){facts ? facts->target.kind : KM_TARGET_CUDA, 0};
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
    // For an older instruction set than the machine's, vectors are no wider than that one's.
    km_device_facts nominal;
    km_device_facts_init(&nominal, *target);
    plan->facts.target = *target;
    if (target->kind == KM_TARGET_CUDA) return KM_OK;
    plan->facts.fp32_per_cycle = nominal.fp32_per_cycle;
    plan->facts.fp64_per_cycle = nominal.fp64_per_cycle;
    return KM_OK;
}

// Designs -----------------------------------------------------------------------------------------------------

static km_status avoid_take(km_plan *plan, const km_plan_params *params, km_error *err) {
    if (params->avoid_count < 0 || params->avoid_count > KM_PLAN_AVOIDED_MAX)
        return km_fail(err, KM_ERROR_USAGE, "at most %d plans can be avoided, got %" PRId64,
                       KM_PLAN_AVOIDED_MAX, params->avoid_count);
    plan->avoided_count = params->avoid_count;
    for (int64_t i = 0; i < plan->avoided_count; i++) plan->avoided[i] = params->avoid[i];
    return KM_OK;
}

// The sweep with one design, all restarts to convergence.
static double sweep_ms(const km_plan *plan, km_design design) {
    return km_sweep_ms(plan, design, KM_UPDATES_TYPICAL);
}

// Whether the user fixed a word that the design does not have, such as another design's form; `reason` says so.
static int has_foreign_word(const km_plan *plan, km_design design, char *reason, size_t size) {
    for (int i = 0; i < KM_PARAM_COUNT; i++) {
        int64_t word;
        char own[KM_WORDS_TEXT];
        if (!km_param_has_words((km_param)i) || !km_plan_fixed(plan, (km_param)i, &word)) continue;
        if (km_word_is_of(word, (km_param)i, design)) continue;
        km_words_text(own, (km_param)i, design);
        snprintf(reason, size, "it has no %s %s%s%.80s", km_param_name((km_param)i), km_word_name(word),
                 own[0] ? ", but " : "", own);
        return 1;
    }
    return 0;
}

// Whether the design is for the other layout of points; `reason` says why it cannot be had, "" where the table is dense
// and nobody asks.
static int has_other_layout(const km_plan *plan, km_design design, char *reason, size_t size) {
    int is_csr = km_design_code_of(design)->is_csr;
    const char *why = NULL;
    if (is_csr && plan->spec.layout == KM_LAYOUT_DENSE)
        why = "for points in the layout csr, and the layout is dense";
    else if (is_csr && !(plan->nonzeros > 0))
        why = km_plan_fixed_design(plan) == design ? "for points in the layout csr: add `layout: csr`" : "";
    else if (!is_csr && plan->spec.layout == KM_LAYOUT_CSR)
        why = "for dense points, and the layout is csr";
    else if (!is_csr && plan->spec.features > KM_FEATURES_DENSE_MAX)
        why = "more than 65536 features are for the layout csr";
    if (why) snprintf(reason, size, "%s", why);
    return why != NULL;
}

// Whether several ranks share the points, and this design's sums are not joined with those of others.
static int cannot_share(const km_plan *plan, km_design design, char *reason, size_t size) {
    if (plan->ranks == 0 || km_design_target(design) == KM_TARGET_CPU || km_design_code_of(design)->shares)
        return 0;
    snprintf(reason, size, "its sums do not join with those of other ranks");
    return 1;
}

// Fills the estimate of each design of the target, and its best configuration.
static void estimate_all(km_plan *plan, km_config *configs) {
    int is_cpu = plan->spec.target.kind == KM_TARGET_CPU;
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
        km_design design = (km_design)i;
        if (km_design_target(design) != plan->spec.target.kind) continue;
        char reason[160];
        if (cannot_share(plan, design, reason, sizeof reason) ||
            has_other_layout(plan, design, reason, sizeof reason) ||
            has_foreign_word(plan, design, reason, sizeof reason)) {
            if (reason[0]) km_plan_infeasible(plan, design, reason);
            continue;
        }
        km_design_code_of(design)->estimate(&configs[i], plan);
        if (is_cpu && km_design_code_of(design)->names && !plan->facts.has_compiler)
            km_plan_infeasible(plan, design, "no C compiler was found (cc, gcc or clang)");
        else if (km_plan_avoids(plan, design, INT64_MAX))
            km_plan_infeasible(plan, design, "");
    }
}

// What a fit with each feasible design needs of memory, where passes need some of their own or layouts are compared (0
// where the user fixed numbers of another design), and what it waits for.
static void estimate_fits(km_plan *plan, const km_config *configs, km_algorithm asked) {
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
        const km_design_code *code = km_design_code_of((km_design)i);
        km_estimate *estimate = &plan->estimates[i];
        km_memory memory;
        if (!plan->points || !estimate->feasible) continue;
        estimate->wait_ms = km_compile_ms(plan, (km_design)i);
        km_plan trial = *plan;
        trial.design = (km_design)i;
        if (code->decide(&trial, &configs[i], NULL) == KM_OK) {
            km_memory_of(&memory, &trial);
            trial.streamed_bytes = memory.streamed;
            trial.window_points = memory.window;
            if (code->workspace_bytes || plan->nonzeros > 0) estimate->memory_bytes = memory.total;
            km_plan_algorithm(&trial, asked, NULL); // one that it cannot have is no reason here
            km_estimate_waits(&trial);
            estimate->wait_ms = trial.estimates[i].wait_ms;
            estimate->host_ms = trial.estimates[i].host_ms;
        }
        free(trial.layout);
    }
}

static int is_too_large(const km_plan *plan, km_design design) {
    return plan->facts.memory_free_bytes && !plan->streams &&
           plan->estimates[design].memory_bytes > plan->facts.memory_free_bytes;
}

// A fit but for what all designs have: the sweep, and what it waits for.
static double fit_ms(const km_plan *plan, km_design design) {
    return sweep_ms(plan, design) + plan->estimates[design].wait_ms + plan->estimates[design].host_ms;
}

// Whether a fit by one design takes less time than by another; where that is equal, a pass, then its arithmetic.
static int is_faster(const km_plan *plan, km_design a, km_design b) {
    const km_estimate *first = &plan->estimates[a], *second = &plan->estimates[b];
    double time_a = fit_ms(plan, a), time_b = fit_ms(plan, b);
    if (time_a != time_b) return time_a < time_b;
    if (first->total_ns != second->total_ns) return first->total_ns < second->total_ns;
    return first->issue_ns < second->issue_ns;
}

static int has_faster_pass(const km_plan *plan, km_design a, km_design b) {
    return plan->estimates[a].total_ns < plan->estimates[b].total_ns;
}

// Whether `a` is taken instead of `b`: one that fits the memory first, then the faster one; where none fits, the one
// that needs less.
static int is_better(const km_plan *plan, km_design a, km_design b) {
    int a_large = is_too_large(plan, a), b_large = is_too_large(plan, b);
    if (a_large != b_large) return b_large;
    return a_large ? plan->estimates[a].memory_bytes < plan->estimates[b].memory_bytes
                   : is_faster(plan, a, b);
}

// The best feasible design by a comparison; KM_DESIGN_NONE where there is none.
static km_design best_of(const km_plan *plan, int (*better)(const km_plan *, km_design, km_design)) {
    km_design best = KM_DESIGN_NONE;
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++)
        if (plan->estimates[i].feasible && (!best || better(plan, (km_design)i, best))) best = (km_design)i;
    return best;
}

// Makes designs that are too large for the memory infeasible, with that reason.
static void rule_out_large(km_plan *plan) {
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
        km_estimate *estimate = &plan->estimates[i];
        if (!estimate->feasible || i == (int)plan->design || !is_too_large(plan, (km_design)i)) continue;
        estimate->feasible = 0;
        snprintf(estimate->reason, sizeof estimate->reason, "a fit needs %.2f GiB, %.2f GiB are free",
                 (double)estimate->memory_bytes / 0x1p30, (double)plan->facts.memory_free_bytes / 0x1p30);
    }
}

static km_status no_design(const km_plan *plan, km_design fixed, km_error *err) {
    km_text reasons = {0};
    km_design other = best_of(plan, is_better);
    if (fixed)
        return km_fail(err, KM_ERROR_PLAN, "the design %s cannot be had: %s%s%s", km_design_name(fixed),
                       plan->estimates[fixed].reason, other ? "; take " : "",
                       other ? km_design_name(other) : "");
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++)
        if (km_design_target((km_design)i) == plan->spec.target.kind)
            km_text_printf(&reasons, "%s %s: %s", reasons.size ? ";" : "", km_design_name((km_design)i),
                           plan->estimates[i].reason);
    km_fail(err, KM_ERROR_PLAN, "no design can be had:%s", reasons.failed ? "" : reasons.data);
    km_text_clear(&reasons);
    return KM_ERROR_PLAN;
}

// The feasible design that is compiled into the library, and the fastest of those that are emitted.
static void prebuilt_and_emitted(const km_plan *plan, km_design *prebuilt, km_design *emitted) {
    *prebuilt = *emitted = KM_DESIGN_NONE;
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
        km_design *best = km_design_code_of((km_design)i)->names ? emitted : prebuilt;
        if (plan->estimates[i].feasible && (!*best || is_faster(plan, (km_design)i, *best)))
            *best = (km_design)i;
    }
}

// A dense pass that is so many times as fast as a sparse one is not explained by the layout.
#define CLOSE_LAYOUTS 3

// Why the layout was chosen, where the table may lie in either.
static int give_layout_reason(km_plan *plan) {
    km_design other = KM_DESIGN_NONE;
    size_t size = sizeof plan->design_reason;
    double share = 100 * plan->nonzeros / (double)plan->spec.features;
    if (!(plan->nonzeros > 0)) return 0;
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++)
        if (plan->estimates[i].feasible && km_design_code_of((km_design)i)->is_csr != km_plan_is_csr(plan) &&
            (!other || is_faster(plan, (km_design)i, other)))
            other = (km_design)i;
    const char *layout = km_layout_name(km_plan_layout(plan));
    double ratio = other ? plan->estimates[other].total_ns / plan->estimates[plan->design].total_ns : 0;
    if (!km_plan_is_csr(plan) && (plan->spec.layout == KM_LAYOUT_DENSE || !other || ratio > CLOSE_LAYOUTS))
        return 0;
    if (plan->spec.layout != KM_LAYOUT_AUTO || !other)
        snprintf(plan->design_reason, size, "layout %s: %.3g%% of the values are not 0", layout, share);
    else if (is_too_large(plan, other))
        snprintf(plan->design_reason, size,
                 "layout %s: %.3g%% of the values are not 0; %s needs more memory than is free", layout,
                 share, km_design_name(other));
    else
        snprintf(plan->design_reason, size,
                 "layout %s: %.3g%% of the values are not 0; about %.2f times as fast a pass as %s", layout,
                 share, ratio, km_design_name(other));
    return 1;
}

// Why the design was chosen.
static void give_reason(km_plan *plan) {
    km_design prebuilt, emitted, fastest = best_of(plan, is_faster),
                                 quickest = best_of(plan, has_faster_pass);
    size_t size = sizeof plan->design_reason;
    char *reason = plan->design_reason;
    if (give_layout_reason(plan)) return;
    if (plan->estimates[plan->design].host_ms < plan->estimates[quickest].host_ms) {
        snprintf(reason, size, "reads what comes from the host less often; with room for all, %s",
                 km_design_name(quickest));
        return;
    }
    prebuilt_and_emitted(plan, &prebuilt, &emitted);
    const char *why_not = "";
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT && !emitted; i++)
        if (km_design_target((km_design)i) == plan->spec.target.kind &&
            km_design_code_of((km_design)i)->names)
            why_not = plan->estimates[i].reason;
    double slower = plan->estimates[plan->design].total_ns / plan->estimates[quickest].total_ns;
    if (!prebuilt && plan->design == fastest && slower > 1)
        snprintf(reason, size,
                 "a fit begins before it is compiled; a pass of %s is estimated to be %.0f %% faster",
                 km_design_name(quickest), 100 * (slower - 1));
    else if (!prebuilt)
        snprintf(reason, size, "the least time of those %s%s", plan->avoided_count ? "left" : "estimated",
                 plan->design == fastest ? "" : " that fit the free memory");
    else if (!emitted)
        snprintf(reason, size, "compiled into the library: %.120s", why_not);
    else if (plan->design == prebuilt)
        snprintf(reason, size,
                 "compiled into the library: %.0f points x %.0f clusters x %.0f restarts would save about "
                 "%.2f s, a compiler takes %.1f s",
                 (double)plan->points, (double)plan->clusters_sum, (double)plan->spec.n_init,
                 1e-3 * (sweep_ms(plan, prebuilt) - sweep_ms(plan, emitted)),
                 1e-3 * plan->estimates[emitted].wait_ms);
    else
        snprintf(reason, size, "about %.1f times as fast a pass as prebuilt%s",
                 plan->estimates[prebuilt].total_ns / plan->estimates[plan->design].total_ns,
                 plan->points ? ", worth compiling" : "");
}

// Sets the design and all its numbers.
static km_status choose(km_plan *plan, km_algorithm asked, km_error *err) {
    km_config configs[KM_DESIGN_COUNT];
    km_design fixed = km_plan_fixed_design(plan);
    memset(configs, 0, sizeof configs);
    estimate_all(plan, configs);
    estimate_fits(plan, configs, asked);
    km_design design = fixed ? fixed : best_of(plan, is_better);
    if (!design || !plan->estimates[design].feasible) return no_design(plan, fixed, err);
    plan->design = design;
    give_reason(plan);
    if (fixed) km_plan_fixed_reason(plan->design_reason, sizeof plan->design_reason, plan);
    rule_out_large(plan);
    return km_design_code_of(design)->decide(plan, &configs[design], err);
}

// All of it -------------------------------------------------------------------------------------------------

// A measured plan of `model`, which the cost model made.
typedef struct measured {
    const km_tuning_pick *pick;
    const km_plan *model;
} measured;

// What tables say of one design: the others' estimates stay those without the numbers of that one.
static void keep_other_estimates(km_plan *plan, const km_plan *model) {
    for (int i = 0; i < KM_DESIGN_COUNT; i++)
        if (i != (int)plan->design) plan->estimates[i] = model->estimates[i];
}

// Nonzeros of a point on average; 0: not known.
static double nonzeros_of(const km_spec *spec, const km_plan_params *params) {
    if (params->nonzeros > 0) return params->nonzeros;
    return spec->layout == KM_LAYOUT_CSR ? fmax((double)spec->features / 20, 1) : 0;
}

// `by`: by a measured entry's numbers; NULL: by the cost model.
static km_status make_once(km_plan *plan, const km_spec *spec, const km_plan_params *params,
                           int64_t concurrent_max, int streams, const measured *by, int keeps_labels,
                           km_error *err) {
    plan->concurrent_max = concurrent_max;
    KM_TRY(spec_check(spec, err));
    KM_TRY(km_spec_copy(&plan->spec, spec, err));
    KM_TRY(target_resolve(plan, params->facts, err));
    if (by) km_tuning_take(plan, by->pick, by->model);
    KM_TRY(km_plan_check_fixed(&plan->spec, err));
    plan->points = params->points;
    plan->nonzeros = nonzeros_of(spec, params);
    plan->weighted = params->weighted != 0;
    plan->value_bytes = params->value_bytes;
    plan->label_sets = params->label_sets;
    plan->threads = params->threads;
    plan->ranks = params->ranks;
    plan->streams = streams != 0;
    plan->track_labels =
        params->track_labels || keeps_labels || km_algorithm_keeps_labels(plan, params->algorithm);
    for (int64_t i = 0; i < spec->clusters_count; i++) plan->clusters_sum += spec->clusters[i];
    KM_TRY(avoid_take(plan, params, err));
    KM_TRY(choose(plan, params->algorithm, err));
    KM_TRY(km_plan_algorithm(plan, params->algorithm, err));
    km_memory memory;
    km_memory_of(&memory, plan);
    plan->memory_bytes = memory.total;
    plan->host_bytes = memory.host;
    plan->estimates[plan->design].memory_bytes = memory.total;
    plan->window_points = memory.window;
    plan->streamed_bytes = memory.streamed;
    km_plan_sort_numbers(plan);
    KM_TRY(km_plan_check_used(plan, err));
    if (by) keep_other_estimates(plan, by->model);
    return KM_OK;
}

// Where the algorithm that was chosen keeps labels, once more for passes that leave them.
static km_status make(km_plan *plan, const km_spec *spec, const km_plan_params *params,
                      int64_t concurrent_max, int streams, const measured *by, km_error *err) {
    KM_TRY(make_once(plan, spec, params, concurrent_max, streams, by, 0, err));
    if (!km_algorithm_has_bounds(plan->algorithm) || plan->spec.target.kind != KM_TARGET_CUDA ||
        plan->track_labels)
        return KM_OK;
    km_plan_clear(plan);
    return make_once(plan, spec, params, concurrent_max, streams, by, 1, err);
}

// Concurrent restarts to plan for next where the plan does not fit the memory; 0: nothing is left to try.
static int64_t fewer_concurrent(const km_plan *plan) {
    int64_t fixed, restarts = km_plan_value(plan, KM_PARAM_concurrent_restarts);
    if (km_plan_fits(plan) || km_plan_fixed(plan, KM_PARAM_concurrent_restarts, &fixed)) return 0;
    return restarts / 2;
}

// Whether the sentence names the number: "a block's registers" does not name `block`.
static int names_number(const char *sentence, const char *name) {
    size_t size = strlen(name);
    for (const char *at = sentence; (at = strstr(at, name)) != NULL; at += size)
        if ((at == sentence || at[-1] == ' ') && strchr(" ,;:", at[size])) return 1;
    return 0;
}

// The error says why there is no plan at all; adds which fixed number is to blame, and what it would be otherwise.
static void blame_fixed(const km_spec *spec, const km_plan_params *params, km_error *err) {
    for (int64_t i = 0; i < spec->fixed_count; i++) {
        const km_fixed *fixed = &spec->fixed[i];
        if (!strcmp(fixed->name, "design") || names_number(err->text, fixed->name)) continue;
        km_spec without = *spec; // borrows the list of K
        km_plan plan;
        km_plan_init(&plan);
        without.fixed[i] = without.fixed[--without.fixed_count];
        if (make(&plan, &without, params, 0, 0, NULL, NULL) == KM_OK &&
            km_plan_get(&plan, fixed->name) >= 0) {
            km_error whole = *err;
            err->text[0] = 0;
            km_fail(err, KM_ERROR_PLAN,
                    "%s cannot be %" PRId64 ": %.700s; without it the plan has %s %" PRId64, fixed->name,
                    fixed->value, whole.text, fixed->name, km_plan_get(&plan, fixed->name));
        }
        km_plan_clear(&plan);
    }
}

// Whether points may stay on the host, where they do not fit otherwise: then the plan is that of a device that has
// room for all.
static int may_stream(const km_plan *made, const km_plan_params *params) {
    return params->may_stream && !km_plan_fits(made) && made->spec.target.kind == KM_TARGET_CUDA &&
           made->facts.maps_host;
}

// With fewer concurrent restarts until it fits the memory.
static km_status make_within(km_plan *made, const km_spec *spec, const km_plan_params *params,
                             const measured *by, km_error *err) {
    km_status status = make(made, spec, params, 0, 0, by, err);
    for (int64_t restarts; status == KM_OK && (restarts = fewer_concurrent(made)) > 0;) {
        km_plan_clear(made);
        status = make(made, spec, params, restarts, 0, by, err);
    }
    if (status == KM_OK && may_stream(made, params)) {
        km_plan_clear(made);
        status = make(made, spec, params, 0, 1, by, err);
    }
    return status;
}

// Tables are asked where all numbers are open.
static int asks_tables(const km_spec *spec, const km_plan_params *params) {
    if (params->untuned || params->avoid_count) return 0;
    for (int64_t i = 0; i < spec->fixed_count; i++)
        if (strcmp(spec->fixed[i].name, "algorithm") != 0) return 0;
    return 1;
}

// What was measured for another shape is taken where it gained there more than it loses here, as the cost model
// estimates.
static int is_worth_it(const km_tuning_pick *pick, const km_plan *trial, const km_plan *model) {
    double own = model->estimates[model->design].total_ns, other = trial->estimates[trial->design].total_ns;
    return pick->step != KM_TUNING_NEAREST || other * pick->entry->ms < own * pick->entry->default_ms;
}

// Replaces the cost model's plan by the measured one, and sets *taken, where that can be had.
static km_status try_measured(km_plan *made, int *taken, const km_tuning_pick *pick, const km_spec *spec,
                              const km_plan_params *params, km_error *err) {
    measured by = {pick, made};
    km_plan trial;
    km_error refused = {{0}};
    km_plan_init(&trial);
    km_status status = make_within(&trial, spec, params, &by, &refused);
    *taken = status == KM_OK && (km_plan_fits(&trial) || !km_plan_fits(made)) &&
             trial.streams <= made->streams && is_worth_it(pick, &trial, made);
    if (*taken) {
        km_tuning_leave(&trial);
        km_plan_clear(made);
        *made = trial;
        km_plan_init(&trial);
    }
    km_plan_clear(&trial);
    return status == KM_OK || status == KM_ERROR_PLAN ? KM_OK : km_fail(err, status, "%s", refused.text);
}

static km_status take_measured(km_plan *made, const km_spec *spec, const km_plan_params *params,
                               const km_embedded *shipped, int64_t shipped_count, km_error *err) {
    km_tuning_found found;
    km_status status = KM_OK;
    int taken = 0;
    KM_TRY_GOTO(km_tuning_find(&found, made, params, shipped, shipped_count, err));
    for (int64_t i = 0; i < found.picks_count && !taken; i++)
        KM_TRY_GOTO(try_measured(made, &taken, &found.picks[i], spec, params, err));
    made->tuned.stale = found.stale;
    km_warnings_add(made->spec.warnings, found.warnings);
done:
    km_tuning_found_clear(&found);
    return status;
}

km_status km_plan_make_with(km_plan *plan, const km_spec *spec, const km_plan_params *params,
                            const km_embedded *shipped, int64_t shipped_count, km_error *err) {
    km_plan_params defaults;
    km_plan_params_init(&defaults);
    if (!params) params = &defaults;
    km_plan made;
    km_plan_init(&made);
    km_status status = make_within(&made, spec, params, NULL, err);
    if (status == KM_ERROR_PLAN && err) blame_fixed(spec, params, err);
    if (status == KM_OK && asks_tables(spec, params) && !km_plan_is_csr(&made))
        status = take_measured(&made, spec, params, shipped, shipped_count, err);
    if (status != KM_OK) {
        km_plan_clear(&made);
        return status;
    }
    km_plan_clear(plan);
    *plan = made;
    return KM_OK;
}

km_status km_plan_make(km_plan *plan, const km_spec *spec, const km_plan_params *params, km_error *err) {
    return km_plan_make_with(plan, spec, params, km_embedded_tables, km_embedded_tables_count, err);
}

int km_plan_fits(const km_plan *plan) {
    return !plan->memory_bytes || !plan->facts.memory_free_bytes ||
           plan->memory_bytes <= plan->facts.memory_free_bytes;
}

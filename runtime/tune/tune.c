// SPDX-License-Identifier: MIT
// Tuning: the space of plans, the search, and what measures for it; then the comparison with the default, and the entry
// of the table.
#include "../../base/clock.h"
#include "../../base/log.h"
#include "../../base/order.h"
#include "../../base/size.h"
#include "../../base/text.h"
#include "../../gen/numbers.h"
#include "../../gen/words.h"
#include "../file.h"
#include "../build.h"
#include "../module_state.h"
#include "../threads.h"
#include "running.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES_FIRST =
        2, // of a new candidate; where the less of them is far from the fastest, they are enough ...
    SAMPLES_MORE =
        4, // ... else so many more; and as many anew, times two, before it is taken for the fastest
    SAMPLES_CONFIRM = 15, // of the default and each finalist, turn by turn
    FINALISTS = 4,
    FAILURES_MAX = 5 // processes in a row that end without an answer: then the device is at fault
};
static const double FAR = 1.25;          // times the fastest
static const double NEAR = 1.04;         // a finalist's, at most
static const double NOISE_LEAST = 0.003; // relative; no clock and no machine is better over a minute
static const double HANG_TIMES = 10;     // the fastest one's time; then a candidate is given up
static const double PATIENCE_LEAST_MS =
    15e3;                           // a machine that is busy with compilers may be slow to load points
static const double LOAD_MS = 60e3; // for the first points

void km_tune_params_init(km_tune_params *params) {
    km_module_params module;
    km_module_params_init(&module);
    *params = (km_tune_params){.device = KM_DEVICE_AUTO, .cache_bytes_max = module.cache_bytes_max};
}

void km_tune_result_destroy(km_tune_result **result) {
    if (!*result) return;
    km_spec_clear(&(*result)->spec);
    free((*result)->candidates);
    free(*result);
    *result = NULL;
}

// Search ------------------------------------------------------------------------------------------------------

// Design and words: what the cost model is wrong by is alike there.
static int32_t family_of(const km_tune_candidate *candidate) {
    int32_t family = (int32_t)candidate->design;
    for (int64_t i = 0; i < candidate->numbers_count; i++) {
        km_param param = km_param_find(candidate->numbers[i].name);
        if (param < KM_PARAM_COUNT && km_param_has_words(param))
            family = family * KM_WORD_COUNT + (int32_t)candidate->numbers[i].value;
    }
    return family;
}

static km_status make_search(km_tuning_state *t) {
    const km_space *space = &t->space;
    km_search_point *points = calloc((size_t)space->count, sizeof *points);
    if (!points) return km_fail_memory(t->err, "a search", space->count * (int64_t)sizeof *points);
    for (int64_t i = 0; i < space->count; i++) {
        const km_tune_candidate *candidate = &space->candidates[i];
        points[i].predicted_ms = candidate->predicted_ms;
        points[i].family = family_of(candidate);
        for (int a = 0; a < KM_SEARCH_AXES_MAX; a++) points[i].value[a] = -1;
        for (int64_t j = 0; j < candidate->numbers_count; j++) {
            km_param param = km_param_find(candidate->numbers[j].name);
            if (param < KM_PARAM_COUNT && !km_param_has_words(param))
                points[i].value[param] = (double)candidate->numbers[j].value;
        }
    }
    km_status status = km_search_create(&t->search, points, space->count, KM_PARAM_COUNT, space->standard,
                                        t->params->all ? space->count : 0, t->err);
    free(points);
    return status;
}

void km_tuning_tell(km_tuning_state *t, int64_t at) {
    const km_tune_candidate *candidate = &t->space.candidates[at];
    int is_measured = candidate->outcome == KM_TUNE_MEASURED;
    km_search_tell(t->search, at, is_measured ? candidate->ms : -1);
    if (!is_measured) return;
    t->result->measured++;
    if (t->incumbent < 0 || candidate->ms < km_tuning_best_ms(t)) t->incumbent = at;
}

static void recall(km_tuning_state *t) {
    if (t->journal.file < 0) return;
    int64_t known = km_journal_recall(&t->journal, t->space.candidates, t->space.count);
    for (int64_t i = 0; i < t->space.count; i++)
        if (t->space.candidates[i].outcome != KM_TUNE_UNMEASURED) km_tuning_tell(t, i);
    if (known)
        km_log_line(t->params->log, KM_LOG_INFO, "tune: %lld candidates are known from an earlier run",
                    (long long)known);
}

// Workers -----------------------------------------------------------------------------------------------------

km_status km_tuning_start_worker(km_tuning_state *t, km_worker *worker) {
    km_measure_params params = t->measure_params;
    params.compiles_only = worker != &t->measurer;
    return km_worker_start(worker, t->params->worker, &params, t->err);
}

// The worker's answer to being opened.
static km_status await_open(km_tuning_state *t, km_worker *worker) {
    km_status status;
    km_worker_answer answer = km_worker_wait(worker, LOAD_MS, NULL, NULL, NULL, &status, t->err);
    if (answer == KM_WORKER_DONE) return status;
    return km_fail(t->err, KM_ERROR_DEVICE, "the process that measures %s",
                   answer == KM_WORKER_NONE ? "does not answer" : "ended when it opened the device");
}

static km_status open_measure(km_tuning_state *t, int device) {
    const km_tune_params *params = t->params;
    t->measure_params = (km_measure_params){.spec = &t->result->spec,
                                            .device = device,
                                            .points = t->result->points,
                                            .threads = t->result->threads};
    km_module_params_init(&t->measure_params.module);
    t->measure_params.module.device = device;
    t->measure_params.module.cache_dir = params->cache_dir;
    t->measure_params.module.cache_bytes_max = params->cache_bytes_max;
    t->measure_params.module.compiler = params->compiler;
    if (!params->worker) {
        t->measure_params.module.log = params->log;
        return km_measure_open(&t->own, &t->measure_params, t->err);
    }
    KM_TRY(km_tuning_start_compilers(t));
    KM_TRY(km_tuning_start_worker(t, &t->measurer));
    return await_open(t, &t->measurer);
}

static km_status measure_read(km_tuning_state *t) {
    km_status status;
    if (t->own) return km_measure_read(t->own, &t->result->read_ms, t->err);
    KM_TRY(km_worker_ask_read(&t->measurer, t->err));
    if (km_worker_wait(&t->measurer, LOAD_MS, NULL, &t->result->read_ms, NULL, &status, t->err) ==
        KM_WORKER_DONE)
        return status;
    return km_fail(t->err, KM_ERROR_DEVICE, "the process that measures ended when it read memory");
}

// Measuring ---------------------------------------------------------------------------------------------------

// How long the process that measures may take. Ten times the longest answer so far, which is ten times the incumbent's
// time where the candidate is timed, and leaves room for its points to be loaded and checked. A process makes the
// points and the reference for its first answer.
static double patience_ms(const km_tuning_state *t, int count) {
    enum { PASSES = 24 }; // of a sample
    double answer_ms = fmax(t->longest_ms, 2 * km_tuning_best_ms(t) * PASSES * count);
    if (t->first_ms <= 0) return LOAD_MS + KM_COMPILE_MS;
    return fmax(HANG_TIMES * answer_ms, PATIENCE_LEAST_MS) + (t->answers ? 0 : HANG_TIMES * t->first_ms) +
           (t->compilers_count ? 0 : KM_COMPILE_MS);
}

static km_worker_answer await_samples(km_tuning_state *t, double timeout_ms, km_tune_candidate *candidate,
                                      double *ms, double *beside_ms, km_status *status) {
    km_worker_answer answer;
    while ((answer = km_worker_wait(&t->measurer, timeout_ms, candidate, ms, beside_ms, status, t->err)) ==
           KM_WORKER_TIMING)
        km_tuning_hold_compilers(t, SIGSTOP);
    km_tuning_hold_compilers(t, SIGCONT);
    return answer;
}

// Samples by a process of its own. What it does not survive is the candidate's outcome.
static km_status sample_there(km_tuning_state *t, km_tune_candidate *candidate,
                              const km_tune_candidate *beside, double *ms, double *beside_ms, int count) {
    km_status status;
    double timeout_ms = patience_ms(t, count), began_ms = km_now_ms();
    KM_TRY(km_worker_ask(&t->measurer, candidate, beside, count, t->err));
    km_worker_answer answer = await_samples(t, timeout_ms, candidate, ms, beside_ms, &status);
    if (answer == KM_WORKER_DONE && status != KM_ERROR_DEVICE && status != KM_ERROR_INTERNAL) {
        t->failures = 0;
        double took_ms = km_now_ms() - began_ms;
        if (t->first_ms <= 0) t->first_ms = took_ms;
        if (t->answers++ > 0) t->longest_ms = fmax(t->longest_ms, took_ms);
        return status;
    }
    candidate->outcome = answer == KM_WORKER_NONE ? KM_TUNE_HUNG : KM_TUNE_FAILED;
    candidate->samples = 0;
    if (answer == KM_WORKER_NONE)
        snprintf(candidate->reason, sizeof candidate->reason, "it gave no answer in %.0f s",
                 timeout_ms / 1e3);
    else
        snprintf(candidate->reason, sizeof candidate->reason, "%.*s", (int)sizeof candidate->reason - 1,
                 answer == KM_WORKER_GONE ? "the process that ran it ended" : t->err->text);
    if (++t->failures >= FAILURES_MAX)
        return km_fail(t->err, KM_ERROR_DEVICE,
                       "%d candidates in a row could not be measured, the last one: %s", FAILURES_MAX,
                       candidate->reason);
    if (t->err) t->err->text[0] = 0;
    t->answers = 0;
    km_worker_stop(&t->measurer); // after an error of the device its context is of no more use
    KM_TRY(km_tuning_start_worker(t, &t->measurer));
    return await_open(t, &t->measurer);
}

static km_status sample(km_tuning_state *t, km_tune_candidate *candidate, const km_tune_candidate *beside,
                        double *ms, double *beside_ms, int count) {
    if (!t->own) return sample_there(t, candidate, beside, ms, beside_ms, count);
    candidate->samples = 0;
    KM_TRY(km_measure_sample(t->own, candidate, ms, beside, beside_ms, count, t->err));
    candidate->samples = candidate->outcome == KM_TUNE_MEASURED ? count : 0;
    return KM_OK;
}

// The quantile of `count` values, which are sorted by it.
static double quantile(double *values, int64_t count, double share) {
    qsort(values, (size_t)count, sizeof *values, km_by_value);
    double at = share * (double)(count - 1);
    int64_t low = (int64_t)at, high = km_min(low + 1, count - 1);
    return values[low] + (at - (double)low) * (values[high] - values[low]);
}

static double half_range(double *values, int64_t count) {
    return (quantile(values, count, 0.75) - quantile(values, count, 0.25)) / 2;
}

static double least_of(const double *values, int64_t count) {
    double least = values[0];
    for (int64_t i = 1; i < count; i++) least = fmin(least, values[i]);
    return least;
}

// Times of the candidate, each relative to that of the fastest one beside it: what the clock of the device does
// meanwhile falls out. What disturbs a sample only makes it longer, so the least of both are compared.
static void take_samples(km_tuning_state *t, km_tune_candidate *candidate, double *ms,
                         const double *beside_ms) {
    int64_t count = candidate->samples;
    double least = least_of(ms, count);
    for (int64_t i = 0; beside_ms && i < count; i++) ms[i] *= km_tuning_best_ms(t) / beside_ms[i];
    candidate->spread_ms = half_range(ms, count);
    candidate->ms =
        beside_ms ? km_tuning_best_ms(t) * least / least_of(beside_ms, count) : quantile(ms, count, 0.5);
}

// So many samples in place of those that there were.
static km_status take_more(km_tuning_state *t, km_tune_candidate *candidate, const km_tune_candidate *beside,
                           int count) {
    double ms[KM_TUNE_SAMPLES_MAX], beside_ms[KM_TUNE_SAMPLES_MAX];
    if (candidate->outcome != KM_TUNE_MEASURED) return KM_OK;
    KM_TRY(sample(t, candidate, beside, ms, beside_ms, count));
    if (candidate->outcome == KM_TUNE_MEASURED) take_samples(t, candidate, ms, beside ? beside_ms : NULL);
    return KM_OK;
}

static km_status measure(km_tuning_state *t, int64_t at) {
    km_tune_candidate *candidate = &t->space.candidates[at];
    const km_tune_candidate *beside = t->incumbent >= 0 ? &t->space.candidates[t->incumbent] : NULL;
    double ms[KM_TUNE_SAMPLES_MAX], beside_ms[KM_TUNE_SAMPLES_MAX];
    KM_TRY(sample(t, candidate, beside, ms, beside_ms, SAMPLES_FIRST));
    if (candidate->outcome == KM_TUNE_MEASURED) {
        take_samples(t, candidate, ms, beside ? beside_ms : NULL);
        int more = !beside || candidate->ms < FAR * km_tuning_best_ms(t);
        if (more) KM_TRY(take_more(t, candidate, beside, SAMPLES_MORE));
        // Of many candidates the luckiest is the fastest: its own time is that of samples which did not choose it.
        if (more && beside && candidate->ms < km_tuning_best_ms(t))
            KM_TRY(take_more(t, candidate, beside, 2 * SAMPLES_MORE));
    }
    km_tuning_tell(t, at);
    char numbers[256];
    km_log_line(t->params->log, KM_LOG_DEBUG, "tune: %s, %s: %s %.4g ms %s",
                km_design_name(candidate->design), km_tune_numbers_text(numbers, sizeof numbers, candidate),
                km_tune_outcome_name(candidate->outcome), candidate->ms, candidate->reason);
    return t->journal.file >= 0 ? km_journal_add(&t->journal, candidate, t->err) : KM_OK;
}

static km_status run_search(km_tuning_state *t) {
    for (int64_t at; (at = km_tuning_next(t)) >= 0;) {
        if (km_tuning_report_search(t, "measure")) break;
        KM_TRY(km_tuning_compile(t, &at));
        if (t->result->stopped) break;
        if (t->space.candidates[at].outcome != KM_TUNE_UNMEASURED) continue; // its compiler said so meanwhile
        KM_TRY(measure(t, at));
    }
    return KM_OK;
}

// Confirmation ------------------------------------------------------------------------------------------------

// The fastest candidates but for the default, the fastest first; returns how many.
static int64_t finalists_of(int64_t finalists[FINALISTS], const km_tuning_state *t) {
    int64_t count = 0;
    for (int64_t i = 0; i < t->space.count; i++) {
        const km_tune_candidate *candidate = &t->space.candidates[i];
        if (candidate->outcome != KM_TUNE_MEASURED || i == t->space.standard ||
            candidate->ms > NEAR * km_tuning_best_ms(t))
            continue;
        int64_t place = km_min(count, FINALISTS);
        for (; place > 0 && t->space.candidates[finalists[place - 1]].ms > candidate->ms; place--)
            if (place < FINALISTS) finalists[place] = finalists[place - 1];
        if (place == FINALISTS) continue;
        finalists[place] = i;
        count = km_min(count + 1, FINALISTS);
    }
    return count;
}

// A finalist beside the default, turn by turn.
static km_status confirm_one(km_tuning_state *t, int64_t at, double *gain, double *noise) {
    double ms[KM_TUNE_SAMPLES_MAX], standard_ms[KM_TUNE_SAMPLES_MAX], ratios[KM_TUNE_SAMPLES_MAX];
    km_tune_candidate *candidate = &t->space.candidates[at],
                      *standard = &t->space.candidates[t->space.standard];
    *gain = -1;
    *noise = 0;
    KM_TRY(sample(t, candidate, standard, ms, standard_ms, SAMPLES_CONFIRM));
    if (candidate->outcome != KM_TUNE_MEASURED) return KM_OK;
    int count = candidate->samples;
    for (int i = 0; i < count; i++) ratios[i] = standard_ms[i] / ms[i];
    *gain = quantile(ratios, count, 0.5) - 1;
    *noise = fmax(half_range(ratios, count), NOISE_LEAST);
    candidate->ms = standard->ms / (1 + *gain);
    candidate->spread_ms = *noise * candidate->ms;
    return KM_OK;
}

// The default alone, once more: its first samples were taken when all began, and all other times are relative to it.
static km_status time_standard(km_tuning_state *t) {
    km_tune_candidate *standard = &t->space.candidates[t->space.standard];
    double ms[KM_TUNE_SAMPLES_MAX], before_ms = standard->ms;
    KM_TRY(sample(t, standard, NULL, ms, NULL, SAMPLES_CONFIRM));
    if (standard->outcome != KM_TUNE_MEASURED) return KM_OK;
    take_samples(t, standard, ms, NULL);
    for (int64_t i = 0; i < t->space.count; i++) {
        km_tune_candidate *candidate = &t->space.candidates[i];
        if (i == t->space.standard || candidate->outcome != KM_TUNE_MEASURED) continue;
        candidate->ms *= standard->ms / before_ms;
        candidate->spread_ms *= standard->ms / before_ms;
    }
    return KM_OK;
}

// A fit passes over a plan that the compiler refuses or that spills registers (runtime/build.c): then the default is
// what the cost model ranks next.
static void pass_over_standard(km_tuning_state *t) {
    km_tune_candidate *candidates = t->space.candidates;
    km_tune_outcome outcome = candidates[t->space.standard].outcome;
    int64_t next = -1;
    if (outcome != KM_TUNE_SPILLS && outcome != KM_TUNE_REFUSED) return;
    for (int64_t i = 0; i < t->space.count; i++)
        if (candidates[i].outcome == KM_TUNE_MEASURED &&
            (next < 0 || candidates[i].predicted_ms < candidates[next].predicted_ms))
            next = i;
    if (next >= 0) t->result->standard = t->space.standard = next;
}

static km_status confirm(km_tuning_state *t) {
    km_tune_result *result = t->result;
    int64_t finalists[FINALISTS];
    pass_over_standard(t);
    int64_t count = finalists_of(finalists, t);
    const km_tune_candidate *standard = &t->space.candidates[t->space.standard];
    int was_stopped = result->stopped;
    result->best = t->space.standard;
    result->noise = NOISE_LEAST;
    km_tuning_stop_compilers(t); // they would be in the way
    double began_s = km_tuning_elapsed_s(t);
    km_tuning_report(t, "confirm", began_s, 0, count + 1);
    if (standard->outcome == KM_TUNE_MEASURED) KM_TRY(time_standard(t));
    if (standard->outcome != KM_TUNE_MEASURED) { // it cannot run: there is nothing to compare with
        if (count > 0) result->best = finalists[0];
        return KM_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        double gain, noise;
        km_tuning_report(t, "confirm", began_s, i + 1, count + 1);
        if (i > 0 && result->stopped && !was_stopped) break;
        KM_TRY(confirm_one(t, finalists[i], &gain, &noise));
        result->noise = fmax(result->noise, noise);
        if (gain > noise && gain > result->gain) {
            result->gain = gain;
            result->best = finalists[i];
        }
    }
    return KM_OK;
}

// The entry ---------------------------------------------------------------------------------------------------

static km_status write_entry(km_tuning_state *t) {
    enum { MANY = 1 << 22, MANY_CPU = 1 << 18 };
    const km_tune_result *result = t->result;
    const km_tune_candidate *best = &t->space.candidates[result->best],
                            *standard = &t->space.candidates[t->space.standard];
    int is_cuda = result->facts.target.kind == KM_TARGET_CUDA;
    km_tuning_entry entry = {.features = result->spec.features,
                             .clusters_count = result->spec.clusters_count,
                             .clusters = result->spec.clusters,
                             .type = result->spec.type,
                             .points = result->points,
                             .points_from = km_min(result->points, is_cuda ? MANY : MANY_CPU),
                             .threads = result->threads,
                             .ms = best->ms,
                             .default_ms = standard->ms,
                             .read_ms = result->read_ms};
    char *text = NULL;
    if (!t->table_path[0] || best->outcome != KM_TUNE_MEASURED) return KM_OK;
    if (km_build_fixes_numbers(&result->spec)) {
        km_log_line(t->params->log, KM_LOG_INFO,
                    "tune: no entry, as the spec fixes numbers: others may be faster");
        return KM_OK;
    }
    km_plan_params params = km_tuning_plan_params(t);
    KM_TRY(km_space_decisive(entry.numbers, &entry.numbers_count, &result->spec, &params, best, t->err));
    km_templates_hash(entry.templates, best->design, result->spec.target);
    snprintf(entry.compiler, sizeof entry.compiler, "%s", result->compiler);
    snprintf(entry.version, sizeof entry.version, "%s", KM_VERSION);
    snprintf(entry.date, sizeof entry.date, "%s", t->params->today ? t->params->today : "");
    t->table.driver = result->driver;
    KM_TRY(km_tuning_put(&t->table, &entry, t->err));
    KM_TRY(km_tuning_to_yaml(&text, &t->table, t->err));
    km_error why = {""};
    km_status status = km_file_write(t->table_path, text, (int64_t)strlen(text), &why);
    km_text_free(text);
    if (status == KM_OK) return KM_OK;
    return km_fail(t->err, status, "%s%s", why.text,
                   t->journal.file < 0 ? "" : "; what was measured is kept: the same command goes on there");
}

// All of it ---------------------------------------------------------------------------------------------------

static km_status run(km_tuning_state *t, const km_spec *spec) {
    km_tune_result *result = t->result;
    int device = km_device_wanted(spec->target.kind, t->params->device);
    KM_TRY(km_spec_copy(&result->spec, spec, t->err));
    KM_TRY(km_tuning_describe_device(t, device));
    result->points = t->params->points > 0 ? t->params->points : km_tuning_points(t, &result->facts, t->err);
    km_tuning_report(t, "plan", 0, 0, 0);
    KM_TRY(km_tuning_make_space(t));
    KM_TRY(make_search(t));
    t->is_compiled = calloc((size_t)t->space.count, 1);
    if (!t->is_compiled) return km_fail_memory(t->err, "the state of candidates", t->space.count);
    KM_TRY(km_tuning_open_files(t));
    recall(t);
    km_log_line(t->params->log, KM_LOG_INFO, "tune: %lld candidates, %lld points, %s",
                (long long)t->space.count, (long long)result->points, result->facts.name);
    KM_TRY(open_measure(t, device));
    KM_TRY(measure_read(t));
    KM_TRY(run_search(t));
    KM_TRY(confirm(t));
    return write_entry(t);
}

static void tuning_free(km_tuning_state *t) {
    km_tuning_stop_compilers(t);
    km_worker_stop(&t->measurer);
    km_measure_close(&t->own);
    km_journal_close(&t->journal);
    km_tuning_clear(&t->table);
    km_search_destroy(&t->search);
    km_space_clear(&t->space);
    free(t->is_compiled);
}

km_status km_tune(km_tune_result **out, const km_spec *spec, const km_tune_params *params, km_error *err) {
    km_tune_params defaults;
    km_error own = {""};
    km_tune_params_init(&defaults);
    *out = NULL;
    km_tuning_state t = {.params = params ? params : &defaults,
                         .incumbent = -1,
                         .journal = {.file = -1, .lock = -1},
                         .began_ms = km_now_ms(),
                         .err = &own};
    if (spec->features < 1 || spec->clusters_count < 1)
        return km_fail(err, KM_ERROR_USAGE, "a tuning needs a spec with features and clusters");
    if (spec->layout == KM_LAYOUT_CSR || spec->features > KM_FEATURES_DENSE_MAX)
        return km_fail(
            err, KM_ERROR_USAGE,
            "tuning measures dense points of up to %d features: leave `layout: csr` out, or compare fits "
            "with block, blocks_per_sm or tile_clusters of sparse_warps fixed under `plan:` (on a CPU, "
            "sparse_lanes has no numbers to tune)",
            KM_FEATURES_DENSE_MAX);
    t.result = calloc(1, sizeof *t.result);
    if (!t.result) return km_fail_memory(err, "the result of a tuning", sizeof *t.result);
    km_spec_init(&t.result->spec);
    km_tuning_init(&t.table);
    km_status status = run(&t, spec);
    t.result->candidates = t.space.candidates;
    t.result->candidates_count = t.space.count;
    t.result->standard = t.space.standard;
    t.result->elapsed_s = km_tuning_elapsed_s(&t);
    t.space.candidates = NULL;
    tuning_free(&t);
    if (status != KM_OK) {
        km_tune_result_destroy(&t.result);
        return km_fail(err, status, "%s", own.text);
    }
    *out = t.result;
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// The whole line: spec, plan, source, module, sweep, models, selection.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../data_refuse.h"
#include "../criteria/criteria.h"
#include "../criteria/means.h"
#include "../pages.h"
#include "../threads.h"
#include "devices.h"
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void km_fit_params_init(km_fit_params *params) {
    km_module_params module;
    km_module_params_init(&module);
    *params = (km_fit_params){0};
    params->device = KM_DEVICE_AUTO;
    params->tol = KM_TOL_SPEC;
    params->criterion = KM_CRITERION_AUTO;
    params->refine = KM_REFINE_AUTO;
    params->checkpoint_s = 300;
    params->cache_bytes_max = module.cache_bytes_max;
}

static km_status check_params(const km_fit_params *p, km_error *err) {
    if (p->max_iter < 1)
        return km_fail(err, KM_ERROR_USAGE, "max_iter is %lld; it must be at least 1",
                       (long long)p->max_iter);
    if (!(p->tol >= 0) || !isfinite(p->tol))
        return km_fail(err, KM_ERROR_USAGE, "tol is %g; it must be 0 or more", p->tol);
    if (p->refine < KM_REFINE_AUTO || p->refine > KM_REFINE_MAX)
        return km_fail(err, KM_ERROR_USAGE,
                       "refine is %lld; it must be KM_REFINE_AUTO, 0 (none) or a number of passes up to %lld",
                       (long long)p->refine, (long long)KM_REFINE_MAX);
    if (!(p->checkpoint_s >= 0))
        return km_fail(err, KM_ERROR_USAGE, "checkpoint_s is %g; it must be 0 or more", p->checkpoint_s);
    if (p->changes_min < 0)
        return km_fail(err, KM_ERROR_USAGE, "changes_min is %lld; it must be 0 (off) or more",
                       (long long)p->changes_min);
    if ((unsigned)p->algorithm >= KM_ALGORITHM_COUNT)
        return km_fail(err, KM_ERROR_USAGE, "algorithm %d does not exist", (int)p->algorithm);
    if (p->criterion != KM_CRITERION_AUTO && (unsigned)p->criterion >= KM_CRITERION_COUNT)
        return km_fail(err, KM_ERROR_USAGE, "criterion %d does not exist", (int)p->criterion);
    if (p->criteria >> KM_CRITERION_COUNT)
        return km_fail(err, KM_ERROR_USAGE, "criteria has bits above that of the last criterion, %d",
                       KM_CRITERION_COUNT - 1);
    if (p->gap_references == 1 || p->gap_references < 0)
        return km_fail(err, KM_ERROR_USAGE, "gap_references is %lld; it must be at least 2 (0: 10)",
                       (long long)p->gap_references);
    if ((unsigned)p->gap_box > KM_GAP_PRINCIPAL)
        return km_fail(err, KM_ERROR_USAGE, "gap_box %d does not exist", (int)p->gap_box);
    if ((unsigned)p->init > KM_INIT_GIVEN)
        return km_fail(err, KM_ERROR_USAGE, "init %d does not exist", (int)p->init);
    if ((unsigned)p->scale >= KM_SCALE_COUNT)
        return km_fail(err, KM_ERROR_USAGE, "scale %d does not exist", (int)p->scale);
    if ((unsigned)p->labels > KM_LABELS_ALL)
        return km_fail(err, KM_ERROR_USAGE, "labels %d do not exist", (int)p->labels);
    if (p->threads < 0 || p->memory_max < 0 || p->device_memory_max < 0)
        return km_fail(err, KM_ERROR_USAGE, "threads, memory_max and device_memory_max must be 0 or more");
    if (p->init == KM_INIT_GIVEN && (!p->init_rows || p->init_count < 1))
        return km_fail(err, KM_ERROR_USAGE, "given initial centroids need init_rows and init_count");
    return KM_OK;
}

// All criteria are those that the metric has: with the cosine, none that need fits of other points.
static uint64_t criteria_of_all(uint64_t criteria, int is_cosine) {
    uint64_t all = ((uint64_t)1 << KM_CRITERION_COUNT) - 1;
    if (!is_cosine || (criteria & all) != all) return criteria;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (km_criterion_needs((km_criterion)c) == KM_NEEDS_FITS) criteria &= ~((uint64_t)1 << c);
    return criteria;
}

// The params with what the spec says where they leave it open.
static km_fit_params completed(const km_fit_params *params, const km_spec *spec) {
    km_fit_params own;
    if (params)
        own = *params;
    else
        km_fit_params_init(&own);
    if (own.devices_count == 1) own.device = own.devices[0];
    if (own.communicator && own.device == KM_DEVICE_AUTO) own.device = KM_HOST;
    if (own.communicator && own.threads == 0)
        own.threads = km_max(1, km_host_threads(0) / km_max(own.communicator->local_size, 1));
    if (own.max_iter == 0) own.max_iter = spec->max_iter;
    if (own.tol == KM_TOL_SPEC) own.tol = spec->tol;
    own.criteria =
        criteria_of_all(own.criteria, spec->metric == KM_METRIC_COSINE || own.scale == KM_SCALE_UNIT);
    return own;
}

km_status km_fit_report_phase(const km_fit_job *f, const char *phase, int64_t done, int64_t total) {
    const km_fit_params *p = f->params;
    km_progress progress = {phase, done, total, 0, (km_now_ms() - f->begin_ms) / 1e3};
    if (p->progress && p->progress(p->progress_user, &progress))
        return km_fail(f->err, KM_ERROR_INTERRUPTED, "interrupted in the phase %s", phase);
    return KM_OK;
}

// Of several ranks each has a callback, or none; what one answers, the next sum tells all.
static int ask(km_fit_job *f, const km_progress *progress) {
    const km_fit_params *p = f->asked;
    int answer = p->progress ? p->progress(p->progress_user, progress) : 0;
    if (f->shared) km_share_tell(&f->share, answer);
    return answer;
}

// Asks the caller's callback. Of several ranks, which are asked at different times, all go by what the last sum said.
// An answer of KM_FIT_STOP_WITH_RESULT is kept in the job; it goes on to the sweep, which sees that each K has a model.
// Refinement and criteria end at once, their callers know that this is no failure. What the finishing pass needs goes
// on.
static int ask_caller(void *user, const km_progress *progress) {
    km_fit_job *f = user;
    f->told = *progress;
    int answer = ask(f, progress);
    if (f->shared) answer = km_share_is_ending(&f->share) ? KM_FIT_STOP_WITH_RESULT : 0;
    int is_sweep = !strcmp(progress->phase, "sweep"), is_finish = !strcmp(progress->phase, "finish");
    int has_models = f->best != NULL;
    if (answer != KM_FIT_STOP_WITH_RESULT || !has_models) return answer;
    f->is_ending = 1;
    return is_finish ? 0 : is_sweep ? KM_FIT_STOP_WITH_RESULT : 1;
}

// The same question inside a loop, whose work would be lost: that there shall be a result is heard after it.
static int ask_within(void *user) {
    km_fit_job *f = user;
    km_progress progress = f->told;
    progress.elapsed_s = (km_now_ms() - f->begin_ms) / 1e3;
    int answer = ask(f, &progress);
    if (f->shared) return km_share_leaves(&f->share);
    return answer != 0 && (answer != KM_FIT_STOP_WITH_RESULT || !f->best);
}

static void fit_free(km_fit_job *f) {
    if (f->engine) f->engine->backend->engine_destroy(&f->engine);
    km_fit_free_ahead(f); // it may keep the text of the build
    km_build_clear(&f->build);
    if (f->device) km_device_close(&f->device);
    km_text_free(f->table);
    km_spec_clear(&f->spec);
    km_data_stats_free(&f->stats);
    free(f->seeds.indices);
    free(f->seeds.rows);
    free(f->seeds.row_first);
    free(f->restart_centroids);
    km_checkpoint_free(&f->checkpoint);
    km_cluster_means_free(&f->means);
    km_data_destroy(&f->unit);
    km_data_destroy(&f->shared);
    km_pages_unbind();
}

static km_status copy_text(const char **out, km_fit_job *f, const char *text) {
    *out = NULL;
    if (!text) return KM_OK;
    char *copy = km_result_alloc(f->owner, (int64_t)strlen(text) + 1, 1, f->err);
    *out = copy ? strcpy(copy, text) : NULL;
    return copy ? KM_OK : KM_ERROR_MEMORY;
}

// How features were made, for the models that are saved.
static km_status describe_preparation(km_fit_job *f) {
    km_result *result = &f->owner->result;
    const km_feature *from = km_data_preparation(f->data);
    if (!from) return KM_OK;
    km_feature *to = km_result_alloc(f->owner, result->d, sizeof *to, f->err);
    if (!to) return KM_ERROR_MEMORY;
    for (int64_t i = 0; i < result->d; i++) {
        to[i] = from[i];
        KM_TRY(copy_text(&to[i].column, f, from[i].column));
        KM_TRY(copy_text(&to[i].category, f, from[i].category));
    }
    result->prepared = to;
    return KM_OK;
}

static km_status describe(km_fit_job *f) {
    km_result *result = &f->owner->result;
    result->n = f->engine->n_all;
    result->d = f->engine->d;
    result->rows = result->rows_all = km_data_rows(f->data);
    result->type = f->spec.type;
    km_target_text(result->target, sizeof result->target, f->device->facts.target);
    snprintf(result->device, sizeof result->device, "%s", f->device->facts.name);
    result->seed = f->params->seed;
    result->n_init = f->restarts;
    result->max_iter = f->params->max_iter;
    result->tol = f->params->tol;
    result->scale = f->scale;
    result->criteria = km_criteria_computed(f->params);
    result->timing.parse_ms = km_data_parse_ms(f->data);
    KM_TRY(describe_preparation(f));
    if (!km_data_feature_name(f->data, 0)) return KM_OK;
    const char **names = km_result_alloc(f->owner, result->d, sizeof *names, f->err);
    if (!names) return KM_ERROR_MEMORY;
    for (int64_t i = 0; i < result->d; i++) {
        const char *name = km_data_feature_name(f->data, i);
        KM_TRY(copy_text(&names[i], f, name ? name : ""));
    }
    result->feature_names = names;
    return KM_OK;
}

// Runs one step, adds the time it took, and logs it.
static km_status timed(km_fit_job *f, km_status (*step)(km_fit_job *), double *ms, const char *what) {
    double begin_ms = km_now_ms();
    km_status status = step(f);
    double took_ms = km_now_ms() - begin_ms;
    *ms += took_ms;
    if (status == KM_OK) km_log_line(f->params->log, KM_LOG_INFO, "fit: %s in %.1f ms", what, took_ms);
    return status;
}

static km_status walk(km_fit_job *f, const km_spec *spec, km_status own) {
    km_timing *timing = &f->owner->result.timing;
    const km_data *whole = f->data;
    KM_TRY(km_fit_complete_spec(f, spec, own));
    KM_TRY(km_fit_check_checkpoint(f));
    int64_t rows = km_data_rows(whole), dropped = rows - km_data_points(whole);
    int64_t zeros = km_data_points(whole) - km_data_points(f->data);
    if (dropped)
        km_result_warn(f->owner, f->params->log,
                       "%lld of %lld rows of %s have missing values and were dropped", (long long)dropped,
                       (long long)rows, km_data_name(whole));
    if (zeros)
        km_result_warn(f->owner, f->params->log,
                       "%lld of %lld rows of %s are all zeros, which have no direction, and were dropped",
                       (long long)zeros, (long long)rows, km_data_name(whole));
    KM_TRY(km_fit_report_phase(f, "build", 0, 0));
    KM_TRY(timed(f, km_fit_open_device, &timing->device_ms, "device opened"));
    KM_TRY(timed(f, km_fit_plan_fit, &timing->build_ms, "planned"));
    if (f->device->backend->engine_fetch)
        KM_TRY(timed(f, km_fit_fetch_points, &timing->send_ms, "points sent"));
    KM_TRY(timed(f, km_fit_build_module, &timing->build_ms, "emitted and built"));
    KM_TRY(km_fit_report_phase(f, "read", 0, 0));
    KM_TRY(timed(f, km_fit_load_points, &timing->read_ms, "points read, centred and scaled"));
    KM_TRY(km_data_check(f->data, f->err)); // before the long part
    KM_TRY(km_fit_take_checkpoint(f));
    KM_TRY(timed(f, km_fit_make_seeds, &timing->seed_ms, "seeded"));
    KM_TRY(timed(f, km_fit_run_sweep, &timing->sweep_ms, "all K and restarts swept"));
    KM_TRY(timed(f, km_fit_run_refine, &timing->refine_ms, "refined"));
    KM_TRY(timed(f, km_fit_finish_models, &timing->finish_ms, "finished and scored"));
    timing->finish_ms -= timing->criteria_ms;
    if (f->is_ending)
        km_result_warn(f->owner, f->params->log,
                       "the fit was interrupted: each K has the best of its runs as far as they came");
    KM_TRY(describe(f));
    return km_fit_describe_share(f);
}

// A failure that is this rank's alone.
static void tell_ranks(const km_fit_job *f, const km_error *err) {
    const km_communicator *ranks = f->params->communicator;
    if (ranks && !f->share.is_over && ranks->fail) ranks->fail(ranks->user, err->text);
}

km_status km_fit(km_result **out, const km_spec *spec, const km_data *data, const km_fit_params *params,
                 km_error *err) {
    if (params && params->devices_count > 1) return km_fit_on_devices(out, spec, data, params, err);
    km_fit_params own = completed(params, spec);
    km_error unasked = {{0}};
    *out = NULL;
    if (!err) err = &unasked;
    km_fit_job f = {.params = &own, .data = data, .begin_ms = km_now_ms(), .err = err};
    km_status usage = check_params(&own, err);
    if (usage != KM_OK && !own.communicator) return usage;
    KM_TRY(km_result_create(&f.owner, err));
    km_spec_init(&f.spec);
    km_build_init(&f.build);
    if (own.progress || own.communicator) {
        own.progress = ask_caller;
        own.progress_user = &f;
        f.asking.stop = ask_within;
        f.asking.user = &f;
        f.asking.caller = pthread_self();
        f.asked = params;
    }
    km_status status = walk(&f, spec, usage);
    f.owner->result.interrupted = f.is_ending;
    if (km_data_check(data, err) != KM_OK) status = KM_ERROR_IO;
    if (status != KM_OK) tell_ranks(&f, err);
    km_result *result = &f.owner->result;
    double freed_from_ms = km_now_ms();
    if (status == KM_ERROR_INTERRUPTED) km_fit_stop_ahead(&f);
    fit_free(&f);
    result->timing.free_ms = km_now_ms() - freed_from_ms;
    result->timing.total_ms = km_now_ms() - f.begin_ms;
    if (status != KM_OK) km_result_destroy(&result);
    *out = status == KM_OK ? result : NULL;
    return status;
}

km_status km_fit_plan(km_plan *plan, const km_spec *spec, const km_data *data, const km_fit_params *params,
                      km_error *err) {
    if (params && params->devices_count > 0) return km_fit_plan_on_devices(plan, spec, data, params, err);
    return km_fit_plan_share(plan, spec, data, params, 1, err);
}

km_status km_fit_plan_share(km_plan *plan, const km_spec *spec, const km_data *data,
                            const km_fit_params *params, int64_t ranks, km_error *err) {
    km_fit_params own = completed(params, spec);
    km_fit_job f = {.params = &own, .data = data, .ranks_planned = ranks > 1 ? ranks : 0, .err = err};
    km_spec_init(&f.spec);
    km_build_init(&f.build);
    km_error unasked = {{0}};
    if (!err) f.err = &unasked;
    km_status status = km_fit_complete_spec(&f, spec, check_params(&own, f.err));
    if (status == KM_OK) status = km_fit_open_device(&f);
    if (status == KM_OK) status = km_fit_plan_within(plan, &f, 1);
    fit_free(&f);
    return status;
}

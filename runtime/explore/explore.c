// SPDX-License-Identifier: MIT
// The walk of km_explore: load the table once, choose subsets, run them in blocks, rank them.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../data_refuse.h"
#include "../data_state.h"
#include "../memory.h"
#include "../threads.h"
#include "exploring.h"
#include "outcome.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The table ---------------------------------------------------------------------------------------------------

static km_status report(explore *x, const char *phase) {
    const km_explore_params *p = x->params;
    km_progress progress = {phase, x->done, x->out->result.wanted, 0, (km_now_ms() - x->begin_ms) / 1e3};
    if (p->progress && p->progress(p->progress_user, &progress))
        return km_fail(x->err, KM_ERROR_INTERRUPTED, "interrupted in the phase %s", phase);
    return KM_OK;
}

static km_status build_table(explore *x) {
    km_build_params params = {.spec = &x->spec};
    x->spec.features = km_data_features(x->data);
    x->spec.type = x->params->type;
    x->spec.n_init = 1;
    x->spec.layout = KM_LAYOUT_DENSE;
    int is_cpu = x->ordinal == KM_HOST;
    x->spec.target.kind = is_cpu ? KM_TARGET_CPU : KM_TARGET_CUDA;
    KM_TRY(km_spec_set_clusters(&x->spec, "1", x->err));
    if (is_cpu) KM_TRY(km_spec_fix(&x->spec, "design", "prebuilt", x->err));
    KM_TRY(km_spec_fix(&x->spec, "algorithm", "lloyd", x->err));
    KM_TRY(km_device_open(&x->device, x->ordinal, x->params->compiler, x->params->log, x->err));
    km_plan_params_init(&params.plan);
    params.plan.weighted = !is_cpu && km_data_weights(x->data);
    if (params.plan.weighted && x->spec.type == KM_FLOAT32)
        KM_TRY(km_data_check_float_weights(x->data, x->err));
    km_explore_module_params(&params.module, x);
    params.plan.points = km_data_points(x->data);
    int64_t threads = is_cpu ? x->device->facts.units : omp_get_num_procs(); // a GPU's are those that copy
    x->threads = km_threads(x->params->threads, threads, x->params->log);
    params.plan.threads = x->threads;
    params.plan.untuned = 1;
    return km_build_on(&x->build, x->device, &params, x->err);
}

static km_status load_table(explore *x) {
    km_explore_result *result = &x->out->result;
    int64_t n = km_data_points(x->data), d = km_data_features(x->data);
    if (n < 1) return km_fail(x->err, KM_ERROR_DATA, "%s has no points", km_data_name(x->data));
    if (d > KM_FEATURES_DENSE_MAX)
        return km_fail(x->err, KM_ERROR_DATA, "%s has %lld columns; exploring takes up to %d",
                       km_data_name(x->data), (long long)d, KM_FEATURES_DENSE_MAX);
    result->table_bytes = km_round_up(n, 64) * d * km_type_bytes(x->params->type);
    if (x->ordinal == KM_HOST) KM_TRY(km_host_check("the table", result->table_bytes, x->err));
    KM_TRY(report(x, "read"));
    KM_TRY(build_table(x));
    double *columns = km_result_alloc(x->out->owner, 3 * d, sizeof *columns, x->err);
    if (!columns) return KM_ERROR_MEMORY;
    x->load = (km_load_params){
        .scale = x->params->scale, .centre = columns, .factor = columns + d, .log = x->params->log};
    x->out->centre = columns;
    x->out->factor = columns + d;
    KM_TRY(km_data_stats_alloc(&x->stats, d, x->err));
    KM_TRY(x->device->backend->engine_create(&x->engine, x->build.module->kernels, x->threads, x->params->log,
                                             x->err));
    KM_TRY(x->engine->backend->load(x->engine, &x->stats, x->data, &x->load, x->err));
    x->out->exponent = x->load.exponent;
    x->squares = columns + 2 * d;
    if (x->ordinal == KM_HOST) km_cpu_subsets_squares(x->squares, x->engine);
    result->n = n;
    result->d = d;
    result->rows = km_data_rows(x->data);
    return KM_OK;
}

static void describe(explore *x) {
    const km_explore_params *p = x->params;
    km_explore_result *result = &x->out->result;
    result->type = p->type;
    result->scale = p->scale;
    result->seed = p->seed;
    result->n_init = p->n_init;
    result->max_iter = p->max_iter;
    result->tol = p->tol;
    result->holdout = p->holdout;
    result->best = p->best;
    result->classes = p->outcome ? p->outcome->classes : 0;
    result->rank = p->rank != KM_RANK_AUTO ? p->rank
                   : !p->outcome           ? KM_RANK_simplified_silhouette
                   : p->outcome->classes   ? KM_RANK_balanced_accuracy
                                           : KM_RANK_r2;
    for (int r = 0; r < KM_RANK_COUNT; r++) result->baseline[r] = NAN;
}

static km_status prepare_outcome(explore *x) {
    const km_explore_params *p = x->params;
    km_explore_result *result = &x->out->result;
    if (!p->outcome) return KM_OK;
    for (int64_t c = 0; c < km_data_features(x->data); c++) {
        const char *name = km_data_feature_name(x->data, c);
        if (!name || strcmp(name, p->outcome->name) != 0) continue;
        return km_fail(x->err, KM_ERROR_USAGE,
                       "the outcome %s is also a column that is clustered; leave it out of the "
                       "columns, or exclude it",
                       name);
    }
    KM_TRY(km_outcome_tally(&x->tally, &x->cells, &x->values, p->outcome, x->data, p->holdout, p->seed,
                            &result->outcome_rows, &result->outcome_held_out, x->err));
    if (2 * p->outcome->classes > result->outcome_rows)
        km_result_warn(
            x->out->owner, p->log,
            "the outcome %s has %lld classes in %lld rows: a code can say little of classes that have "
            "a row or two",
            p->outcome->name, (long long)p->outcome->classes, (long long)result->outcome_rows);
    return km_outcome_baseline(result->baseline, &x->tally, p->outcome, x->data, p->holdout > 0, x->err);
}

static void explore_free(explore *x) {
    km_cuda_subsets_destroy(&x->cuda);
    if (x->engine) x->engine->backend->engine_destroy(&x->engine);
    km_build_clear(&x->build);
    if (x->device) km_device_close(&x->device);
    km_spec_clear(&x->spec);
    km_data_stats_free(&x->stats);
    free(x->always);
    free(x->cells);
    free(x->values);
    free(x->permuted);
    free(x->subsets);
}

static km_status walk(explore *x) {
    km_explore_result *result = &x->out->result;
    x->clusters_default[0] = 8;
    x->clusters = x->params->clusters_count ? x->params->clusters : x->clusters_default;
    x->clusters_count = x->params->clusters_count ? x->params->clusters_count : 1;
    for (int64_t q = 0; q < x->clusters_count; q++) {
        x->k_max = km_max(x->k_max, x->clusters[q]);
        x->k_sum += x->clusters[q];
    }
    KM_TRY(km_explore_check(x));
    describe(x);
    KM_TRY(prepare_outcome(x));
    KM_TRY(load_table(x));
    result->load_ms = km_now_ms() - x->begin_ms;
    KM_TRY(km_explore_choose(x));
    KM_TRY(km_explore_keep_alloc(x));
    km_explore_make_job(x);
    KM_TRY(km_explore_make_cuda(x));
    km_log_line(x->params->log, KM_LOG_INFO, "explore: %lld subsets in blocks of %lld on %lld threads",
                (long long)result->wanted, (long long)x->block, (long long)x->threads);
    KM_TRY(km_explore_run_permuted(x));
    KM_TRY(km_explore_run(x));
    km_log_line(x->params->log, KM_LOG_INFO,
                "explore: %.4g distances in the passes, %.0f ms; %.3g MB of table, %.3g MB a subset in work",
                (double)result->distances, km_now_ms() - x->begin_ms - result->load_ms,
                (double)result->table_bytes / 1e6, (double)result->subset_bytes / 1e6);
    km_explore_keep_done(x);
    KM_TRY(km_explore_rank(x->out, x->err));
    km_explore_warn(x);
    KM_TRY(km_explore_make_codes(x));
    if (x->cuda) result->distances = km_cuda_subsets_distances(x->cuda);
    result->warnings = x->out->owner->result.warnings;
    result->warnings_count = x->out->owner->result.warnings_count;
    result->run_ms = km_now_ms() - x->begin_ms - result->load_ms;
    return km_data_check(x->data, x->err);
}

// Whether a GPU pays: its start and kernels take as long as the CPU takes for so many distances.
static int pays_on_gpu(const km_data *data, const km_explore_params *p) {
    const double distances_enough = 2e10;
    double passes = 10 * (p->rank == KM_RANK_permuted ? 1 + (double)p->permutations : 1);
    int64_t d = km_data_features(data), size = p->size_max ? p->size_max : KM_EXPLORE_SIZE_DEFAULT;
    km_choice all = {.others_count = d, .size_min = p->size_min ? p->size_min : size, .size_max = size};
    double clusters = 0, subsets = p->subsets ? (double)p->subsets : km_choice_count(&all);
    for (int64_t q = 0; q < p->clusters_count; q++) clusters += p->clusters[q];
    if (p->clusters_count == 0) clusters = 8;
    return (double)km_data_points(data) * subsets * (double)p->n_init * clusters * passes >= distances_enough;
}

static km_status explore_on(km_explore_result **out, const km_data *data, const km_explore_params *params,
                            int ordinal, const char *instead, km_error *err) {
    explore x = {.params = params, .data = data, .begin_ms = km_now_ms(), .ordinal = ordinal, .err = err};
    *out = NULL;
    km_spec_init(&x.spec);
    km_build_init(&x.build);
    km_status status = km_explore_create(&x.out, err);
    if (status == KM_OK && instead)
        km_result_warn(x.out->owner, params->log, "the CPU explores, as the GPU could not: %s", instead);
    if (status == KM_OK) status = walk(&x);
    explore_free(&x);
    km_explore_result *result = x.out ? &x.out->result : NULL;
    if (status == KM_OK)
        *out = result;
    else
        km_explore_destroy(&result);
    return status;
}

km_status km_explore(km_explore_result **out, const km_data *data, const km_explore_params *params,
                     km_error *err) {
    km_explore_params defaults;
    km_error first = {""};
    km_explore_params_init(&defaults);
    if (!params) params = &defaults;
    if (params->device != KM_DEVICE_AUTO) return explore_on(out, data, params, params->device, NULL, err);
    if (!pays_on_gpu(data, params) || km_device_count() == 0)
        return explore_on(out, data, params, KM_HOST, NULL, err);
    km_status status = explore_on(out, data, params, 0, NULL, &first);
    if (status == KM_ERROR_DEVICE || status == KM_ERROR_COMPILE || status == KM_ERROR_PLAN ||
        status == KM_ERROR_MEMORY)
        return explore_on(out, data, params, KM_HOST, first.text, err);
    return status == KM_OK ? KM_OK : km_fail(err, status, "%s", first.text);
}

// SPDX-License-Identifier: MIT
// What iterates: the sweep over all K and restarts, the refinement, and models that are worse than the K before them.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../criteria/criteria.h"
#include "../memory.h"
#include "../threads.h"
#include "job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static km_stop stop_of(const km_fit_job *f) {
    return km_sweep_stop(f->params, &f->stats, f->load.factor, f->engine->d);
}

// Memory for the final centroids of all runs, which are compared. Where they are many they are kept for a criterion
// alone, and without them that criterion is left out.
static km_status keep_restarts(km_fit_job *f) {
    enum { BYTES_MAX = 8 << 20 };
    int64_t rows = 0, bytes;
    for (int64_t q = 0; q < f->spec.clusters_count; q++) rows += f->spec.clusters[q];
    if (f->restarts == 1 ||
        km_mul_overflows(&bytes, f->restarts * rows, f->engine->d * (int64_t)sizeof(double)) ||
        (bytes > BYTES_MAX && !km_criteria_keep_restarts(f->params)) ||
        (!f->shared && km_host_check("the centroids of all restarts", bytes, NULL) != KM_OK))
        return KM_OK;
    f->restart_centroids = malloc((size_t)bytes);
    // Ranks compare them together.
    if (f->shared && !f->restart_centroids)
        return km_fail_memory(f->err, "the centroids of all restarts", bytes);
    return KM_OK;
}

// Of all that decides what runs find: the parameters, the points, and of a GPU's designs the grid.
static uint64_t checkpoint_key(const km_fit_job *f) {
    const km_plan *plan = &f->owner->result.plan;
    const km_data_stats *stats = &f->stats;
    uint64_t key = XXH3_64bits_withSeed(KM_VERSION, sizeof KM_VERSION, km_fit_hash_runs(f));
    size_t bytes = (size_t)f->engine->d * sizeof(double);
    const double *const columns[] = {stats->mean, stats->variance, stats->minimum, stats->maximum};
    for (int i = 0; i < 4; i++) key = XXH3_64bits_withSeed(columns[i], bytes, key);
    key = XXH3_64bits_withSeed(&stats->total_weight, sizeof(double), key);
    key = XXH3_64bits_withSeed(&stats->total_square, sizeof(double), key);
    for (int64_t i = 0; plan->facts.target.kind == KM_TARGET_CUDA && i < plan->numbers_count; i++)
        key = XXH3_64bits_withSeed(&plan->numbers[i].value, sizeof plan->numbers[i].value, key);
    return key;
}

static km_checkpoint checkpoint_of(const km_fit_job *f) {
    const km_fit_params *p = f->params;
    return (km_checkpoint){.path = p->checkpoint,
                           .every_ms = p->checkpoint_s * 1e3,
                           .written_ms = km_now_ms(),
                           .key = checkpoint_key(f),
                           .d = f->engine->d,
                           .clusters = f->spec.clusters,
                           .clusters_count = f->spec.clusters_count,
                           .restarts = f->restarts,
                           .share = f->engine->share,
                           .log = p->log};
}

km_status km_fit_check_checkpoint(km_fit_job *f) {
    const km_fit_params *p = f->params;
    int is_reader = !f->shared || f->share.ranks->rank == 0;
    return km_fit_agree(f, p->resume && is_reader ? km_checkpoint_check(p->resume, f->err) : KM_OK);
}

km_status km_fit_take_checkpoint(km_fit_job *f) {
    f->checkpoint = checkpoint_of(f);
    return f->params->resume ? km_checkpoint_read(&f->checkpoint, f->params->resume, f->err) : KM_OK;
}

km_status km_fit_run_sweep(km_fit_job *f) {
    const km_fit_params *p = f->params;
    int64_t ks = f->spec.clusters_count;
    KM_TRY(keep_restarts(f));
    f->best = km_result_alloc(f->owner, ks, sizeof *f->best, f->err);
    if (!f->best) return KM_ERROR_MEMORY;
    f->share.has_models = 1;
    for (int64_t q = 0; q < ks; q++) {
        f->best[q].centroids = km_result_alloc(f->owner, km_model_numbers(f->spec.clusters[q], f->engine->d),
                                               sizeof(double), f->err);
        f->best[q].inertias = km_result_alloc(f->owner, f->restarts, sizeof(double), f->err);
        if (!f->best[q].centroids || !f->best[q].inertias) return KM_ERROR_MEMORY;
        for (int64_t r = 0; r < f->restarts; r++) f->best[q].inertias[r] = NAN; // restarts that never end
    }
    km_sweep_params params = {.restarts = f->restarts,
                              .total_square = f->stats.total_square,
                              .log = p->log,
                              .progress = p->progress,
                              .progress_user = p->progress_user,
                              .begin_ms = f->begin_ms};
    params.restart_centroids = f->restart_centroids;
    params.stop = stop_of(f);
    if (p->checkpoint || p->resume) params.checkpoint = &f->checkpoint;
    km_status status = km_sweep_run(f->engine, f->best, &f->owner->result.passes, &f->sweep_work, &f->seeds,
                                    &params, f->err);
    km_checkpoint_free(&f->checkpoint);
    KM_TRY(status);
    if (!f->is_ending) KM_TRY(km_fit_restarts_agree(f, params.stop.shift_max)); // it needs all of them
    km_counters *counters = &f->owner->result.counters;
    *counters = (km_counters){f->engine->plan->algorithm, -1, -1, -1, 0, 0};
    if (f->engine->backend->counters) f->engine->backend->counters(f->engine, counters);
    if (f->shared)
        km_log_line(p->log, KM_LOG_INFO,
                    "ranks: %lld passes joined by one sum each, %.3g MiB in all on each rank",
                    (long long)counters->exchanges, (double)counters->exchanged_bytes / 0x1p20);
    return KM_OK;
}

// Given initial centroids say where clusters are to be looked for.
static int64_t wanted_refine(const km_fit_job *f) {
    int64_t wanted = f->params->refine == KM_REFINE_AUTO ? f->spec.refine : f->params->refine;
    return wanted == KM_REFINE_AUTO && f->params->init == KM_INIT_GIVEN ? 0 : wanted;
}

km_refine_params km_fit_refine_params(const km_fit_job *f) {
    const km_fit_params *p = f->params;
    return (km_refine_params){.passes_max = wanted_refine(f),
                              .sweep_work = f->sweep_work,
                              .stop = stop_of(f),
                              .total_square = f->stats.total_square,
                              .data = f->data,
                              .seed = p->seed,
                              .threads = km_host_threads(p->threads),
                              .log = p->log,
                              .progress = p->progress,
                              .progress_user = p->progress_user,
                              .begin_ms = f->begin_ms};
}

km_status km_fit_run_refine(km_fit_job *f) {
    km_result *result = &f->owner->result;
    result->refine = wanted_refine(f);
    if (result->refine == 0 || f->is_ending) return KM_OK;
    km_refine_params params = km_fit_refine_params(f);
    km_status asked = km_fit_report_phase(f, "refine", 0, 0);
    if (asked != KM_OK) return f->is_ending ? KM_OK : asked;
    km_status status = km_refine(f->engine, f->best, &result->refine_passes, &params, f->err);
    return status == KM_ERROR_INTERRUPTED && f->is_ending ? KM_OK : status;
}

static double finished_inertia(const km_finish_model *finished) {
    double sum = 0;
    for (int64_t j = 0; j < finished->k; j++) sum += finished->sse[j];
    return sum;
}

static km_status finish_numbered(km_fit_job *f, km_finish_model *finished, int64_t q) {
    KM_TRY(km_fit_number_clusters(f, q));
    return f->engine->backend->finish(f->engine, &finished[q], 1, f->err);
}

// No K is worse than the K before it, whose model with more centroids it may have: iterated, or where kernels
// cannot tell points apart as it is.
km_status km_fit_keep_falling(km_fit_job *f, km_finish_model *finished, int64_t q) {
    km_refine_params params = km_fit_refine_params(f);
    params.progress = NULL; // the result needs it, whether the caller wants to stop or not
    int64_t k = f->spec.clusters[q];
    int changed = 0;
    for (int64_t max_iter = f->params->max_iter;; max_iter = 0) {
        if (finished_inertia(&finished[q]) <= finished_inertia(&finished[q - 1])) break;
        changed = 1;
        finished[q].means = NULL; // they were of the model before
        KM_TRY(km_refine_from_before(f->engine, f->best, q, max_iter, &f->owner->result.refine_passes,
                                     &params, f->err));
        if (max_iter > 0) {
            KM_TRY(finish_numbered(f, finished, q));
            continue;
        }
        // No update has weighed these clusters: the finishing pass does.
        KM_TRY(f->engine->backend->finish(f->engine, &finished[q], 1, f->err));
        memcpy(f->best[q].centroids + k * f->engine->d, finished[q].weights, (size_t)k * sizeof(double));
        KM_TRY(km_fit_number_clusters(f, q));
        break;
    }
    return changed ? km_fit_finish_again(f, finished, q) : KM_OK;
}

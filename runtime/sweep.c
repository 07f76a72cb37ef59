// SPDX-License-Identifier: MIT
// A run is one K and one restart, a slot a run's place in the pass. When a run is done its slot takes the next restart
// of the same K, so that passes stay full until few runs are left. A run sees only its own sums: results do not depend
// on which slot it has.
#include "sweep.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/size.h"
#include "contest.h"
#include "module_state.h"
#include "rounding.h"
#include "seed.h"
#include "share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Restarts whose inertia is this close (relative) to the best found the same optimum.
#define AGREE_RELATIVE 1e-6
// A call of run_passes lasts about this long, so that progress moves and an interrupt is heard.
#define RUN_TARGET_MS 100.0
#define RUN_GROWTH 16
// The picked points of all restarts are kept while they take no more than this.
#define FIRST_ROWS_BYTES_MAX ((int64_t)16 << 20)
// At most one slot in so many stays stopped, while restarts are left, until the host gives it one.
#define IDLE_SHARE 8

typedef struct sweep {
    km_engine *engine;
    const km_backend *backend;
    const km_spec *spec;
    const km_seeds *seeds;
    const km_sweep_params *params;
    km_contest *contests;  // clusters_count
    km_slot_state *states; // slots_count
    int64_t *slot_restart; // slots_count: the restart that the slot runs; -1: none
    int64_t *next_restart; // clusters_count: the first that was not started yet
    uint8_t *is_resumed;   // clusters_count x restarts: a checkpoint has it
    km_sweep_best *best;   // clusters_count, of the caller
    double *first_rows;    // restarts x picks x d: the picked points; NULL when there are too many to keep
    double *centroids;     // scratch: km_model_numbers of the largest K
    int64_t runs_done, runs_count, passes, work;
    int is_ending; // the caller wants the models that are there
} sweep;

static void sweep_free(sweep *s) {
    for (int64_t q = 0; s->contests && q < s->spec->clusters_count; q++) km_contest_free(&s->contests[q]);
    free(s->contests);
    free(s->states);
    free(s->slot_restart);
    free(s->next_restart);
    free(s->is_resumed);
    free(s->first_rows);
    free(s->centroids);
}

static km_status sweep_alloc(sweep *s, km_error *err) {
    int64_t slots = s->engine->slots_count, ks = s->spec->clusters_count;
    int64_t k_max = s->spec->clusters[ks - 1];
    s->contests = calloc((size_t)ks, sizeof *s->contests);
    s->states = calloc((size_t)slots, sizeof *s->states);
    s->slot_restart = malloc((size_t)slots * sizeof *s->slot_restart);
    s->next_restart = calloc((size_t)ks, sizeof *s->next_restart);
    s->is_resumed = calloc((size_t)(ks * s->params->restarts), 1);
    s->centroids = calloc((size_t)km_model_numbers(k_max, s->engine->d), sizeof *s->centroids);
    if (!s->is_resumed || !s->contests || !s->states || !s->slot_restart || !s->next_restart || !s->centroids)
        return km_fail_memory(err, "the sweep's runs", k_max * s->engine->d * (int64_t)sizeof(double));
    for (int64_t q = 0; q < ks; q++)
        km_contest_init(&s->contests[q], s->best[q].centroids,
                        km_model_numbers(s->spec->clusters[q], s->engine->d) * (int64_t)sizeof(double));
    for (int64_t slot = 0; slot < slots; slot++) s->slot_restart[slot] = -1;
    return KM_OK;
}

static int64_t slot_k_index(const sweep *s, int64_t slot) {
    return slot % s->spec->clusters_count;
}

// The first centroids of a run, in s->centroids.
static km_status first_centroids(sweep *s, int64_t k_index, int64_t restart, km_error *err) {
    int64_t k = s->spec->clusters[k_index], d = s->engine->d;
    const km_seeds *seeds = s->seeds;
    if (seeds->rows) {
        memcpy(s->centroids, seeds->rows + seeds->row_first[k_index] * d, (size_t)(k * d) * sizeof(double));
        return KM_OK;
    }
    if (s->first_rows) {
        memcpy(s->centroids, s->first_rows + restart * seeds->picks_count * d,
               (size_t)(k * d) * sizeof(double));
        return KM_OK;
    }
    return s->backend->rows(s->engine, s->centroids, seeds->indices + restart * seeds->picks_count, k, err);
}

// The picked points of all restarts in one call: a device answers many as fast as one.
static km_status fetch_first_rows(sweep *s, km_error *err) {
    int64_t d = s->engine->d, picks = s->seeds->picks_count, count, bytes;
    if (s->seeds->rows || km_mul_overflows(&count, s->params->restarts, picks) ||
        km_mul_overflows(&bytes, count, d * (int64_t)sizeof(double)) || bytes > FIRST_ROWS_BYTES_MAX)
        return KM_OK;
    s->first_rows = malloc((size_t)bytes);
    if (!s->first_rows) return km_fail_memory(err, "the first centroids", bytes);
    return s->backend->rows(s->engine, s->first_rows, s->seeds->indices, count, err);
}

// Moves on over restarts that a checkpoint has.
static void skip_resumed(sweep *s, int64_t k_index) {
    int64_t restarts = s->params->restarts, *next = &s->next_restart[k_index];
    while (*next < restarts && s->is_resumed[k_index * restarts + *next]) ++*next;
}

// Starts the next restart of the slot's K in it, if one is left.
static km_status start_next(sweep *s, int64_t slot, km_error *err) {
    int64_t k_index = slot_k_index(s, slot);
    int64_t restart = s->next_restart[k_index];
    s->slot_restart[slot] = -1;
    if (restart >= s->params->restarts) return KM_OK;
    s->next_restart[k_index]++;
    skip_resumed(s, k_index);
    s->slot_restart[slot] = restart;
    KM_TRY(first_centroids(s, k_index, restart, err));
    return s->backend->slot_start(s->engine, slot, s->centroids, err);
}

// Keeps the centroids of a run that is done, where all are wanted.
static void keep_centroids(const sweep *s, int64_t k_index, int64_t restart, const double *centroids) {
    int64_t before = 0, sum = 0, d = s->engine->d;
    if (!s->params->restart_centroids) return;
    for (int64_t q = 0; q < s->spec->clusters_count; q++) {
        if (q < k_index) before += s->spec->clusters[q];
        sum += s->spec->clusters[q];
    }
    memcpy(s->params->restart_centroids + (restart * sum + before) * d, centroids,
           (size_t)(s->spec->clusters[k_index] * d) * sizeof(double));
}

// The result of a run.
static km_status take_run(sweep *s, const km_kept_run *run, km_error *err) {
    int64_t k = s->spec->clusters[run->k_index], d = s->engine->d;
    s->work += run->iterations * k;
    s->best[run->k_index].inertias[run->restart] = run->inertia;
    keep_centroids(s, run->k_index, run->restart, run->centroids);
    s->runs_done++;
    double rounding = km_inertia_rounding(run->centroids, run->centroids + k * d, k, d, s->engine->n_all,
                                          s->params->total_square);
    double inertia = isnan(run->inertia) ? HUGE_VAL : run->inertia;
    km_restart done = {run->restart,   inertia,       rounding,       run->iterations,
                       run->converged, run->is_fixed, run->has_means, run->centroids};
    return km_contest_offer(&s->contests[run->k_index], &done, err);
}

// Reads the result of a run that is done, or that goes no further.
static km_status take_result(sweep *s, int64_t slot, km_error *err) {
    int64_t k_index = slot_k_index(s, slot), k = s->spec->clusters[k_index];
    const km_slot_state *state = &s->states[slot];
    int has_means = s->backend->slot_means && state->phase == KM_SLOT_DONE;
    if (has_means) s->backend->slot_means(s->engine, slot, s->centroids + k * (s->engine->d + 1));
    KM_TRY(s->backend->slot_read(s->engine, slot, s->centroids, s->centroids + k * s->engine->d, err));
    km_kept_run run = {k_index,           s->slot_restart[slot], state->inertia,
                       state->iterations, state->converged,      state->shift == 0 && !state->at_limit,
                       has_means,         s->centroids};
    KM_TRY(take_run(s, &run, err));
    if (!s->params->checkpoint || state->phase != KM_SLOT_DONE) return KM_OK;
    return km_checkpoint_add(s->params->checkpoint, &run, err);
}

// The runs that a checkpoint has.
static km_status take_resumed(sweep *s, km_error *err) {
    km_kept_run run;
    if (!s->params->checkpoint) return KM_OK;
    for (int64_t at = 0; km_checkpoint_next(s->params->checkpoint, &at, &run);) {
        KM_TRY(take_run(s, &run, err));
        s->is_resumed[run.k_index * s->params->restarts + run.restart] = 1;
    }
    for (int64_t q = 0; q < s->spec->clusters_count; q++) skip_resumed(s, q);
    return KM_OK;
}

// What a slot that stopped needs: points for its empty clusters, or to be read and given to the next run.
static km_status serve_slot(sweep *s, int64_t slot, km_error *err) {
    if (s->slot_restart[slot] < 0) return KM_OK;
    if (s->states[slot].phase == KM_SLOT_EMPTY) {
        int64_t moved;
        return s->backend->relocate(s->engine, slot, &moved, err);
    }
    if (s->states[slot].phase != KM_SLOT_DONE) return KM_OK;
    KM_TRY(take_result(s, slot, err));
    return start_next(s, slot, err);
}

static km_status report_progress(sweep *s, km_error *err) {
    if (!s->params->progress) return KM_OK;
    km_progress progress = {"sweep", s->runs_done, s->runs_count, s->passes,
                            (km_now_ms() - s->params->begin_ms) / 1e3};
    int answer = s->params->progress(s->params->progress_user, &progress);
    s->is_ending |= answer == KM_FIT_STOP_WITH_RESULT;
    if (answer && answer != KM_FIT_STOP_WITH_RESULT)
        return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted in the sweep after %lld of %lld runs",
                       (long long)s->runs_done, (long long)s->runs_count);
    return KM_OK;
}

_Thread_local int64_t km_sweep_call_passes = 256;

// As many passes a call as fit the target time, by the speed of the call before, which may have been a short one.
static int64_t adapt_passes(int64_t passes_max, int64_t passes, double elapsed_ms) {
    if (passes < 1) return passes_max;
    double fit = RUN_TARGET_MS * (double)passes / (elapsed_ms > 1e-3 ? elapsed_ms : 1e-3);
    int64_t limit = km_min(passes_max * RUN_GROWTH, km_sweep_call_passes);
    if (fit < 1) return 1;
    return fit < (double)limit ? (int64_t)fit : limit;
}

// How many slots must stop before they are served: all, when no restart is left to start.
static int64_t stopped_min(const sweep *s) {
    int64_t slots = s->engine->slots_count;
    for (int64_t q = 0; q < s->spec->clusters_count; q++)
        if (s->next_restart[q] < s->params->restarts) return 1 + slots / IDLE_SHARE;
    return slots;
}

static km_status sweep_loop(sweep *s, km_error *err) {
    int64_t passes_max = 1;
    km_stop stop = s->params->stop;
    while (s->runs_done < s->runs_count && !s->is_ending) {
        int64_t passes = 0;
        double begin_ms = km_now_ms();
        stop.stopped_min = stopped_min(s);
        KM_TRY(s->backend->run_passes(s->engine, s->states, &passes, &stop, passes_max, err));
        s->passes += passes;
        passes_max = adapt_passes(passes_max, passes, km_now_ms() - begin_ms);
        for (int64_t slot = 0; slot < s->engine->slots_count; slot++) KM_TRY(serve_slot(s, slot, err));
        KM_TRY(report_progress(s, err));
    }
    return KM_OK;
}

// A pass for each K that no run has ended of and none has begun: its first centroids are no means yet.
static int has_begun(const sweep *s, int64_t k_index) {
    if (s->contests[k_index].count > 0) return 1;
    for (int64_t slot = k_index; slot < s->engine->slots_count; slot += s->spec->clusters_count)
        if (s->slot_restart[slot] >= 0 && s->states[slot].iterations > 0) return 1;
    return 0;
}

// Ends early: a K that no run has ended of takes the one with the least inertia so far.
static km_status take_unfinished(sweep *s, km_error *err) {
    for (int64_t q = 0; q < s->spec->clusters_count; q++) {
        int64_t best = -1;
        for (int64_t slot = q; s->contests[q].count == 0 && slot < s->engine->slots_count;
             slot += s->spec->clusters_count)
            if (s->slot_restart[slot] >= 0 && s->states[slot].iterations > 0 &&
                (best < 0 || s->states[slot].inertia < s->states[best].inertia))
                best = slot;
        if (best >= 0) KM_TRY(take_result(s, best, err));
    }
    return KM_OK;
}

// Passes go on until each K has a model to take.
static km_status end_early(sweep *s, km_error *err) {
    const km_stop stop = s->params->stop;
    for (int64_t q = 0; q < s->spec->clusters_count; q++) {
        while (!has_begun(s, q)) {
            int64_t passes = 0;
            KM_TRY(s->backend->run_passes(s->engine, s->states, &passes, &stop, 1, err));
            s->passes += passes;
            for (int64_t slot = 0; slot < s->engine->slots_count; slot++) KM_TRY(serve_slot(s, slot, err));
        }
    }
    return take_unfinished(s, err);
}

// The best restart of each K, and how many found the same optimum.
static void take_best(sweep *s) {
    km_sweep_best *best = s->best;
    for (int64_t q = 0; q < s->spec->clusters_count; q++) {
        const km_restart *winner = km_contest_winner(&s->contests[q]);
        double limit = s->contests[q].limit + AGREE_RELATIVE * fmax(s->contests[q].limit, 0);
        best[q].restart = winner->index;
        best[q].inertia = winner->inertia;
        best[q].iterations = winner->iterations;
        best[q].converged = winner->converged;
        best[q].is_fixed = winner->is_fixed;
        best[q].has_means = winner->has_means;
        best[q].restarts_agreed = 0;
        for (int64_t r = 0; r < s->params->restarts; r++)
            best[q].restarts_agreed += best[q].inertias[r] <= limit;
    }
}

km_stop km_sweep_stop(const km_fit_params *params, const km_data_stats *stats, const double *factor,
                      int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) sum += stats->variance[f] * factor[f] * factor[f];
    return (km_stop){params->tol * (sum / (double)d), params->changes_min, params->max_iter, 0};
}

km_status km_sweep_run(km_engine *engine, km_sweep_best *best, int64_t *passes, int64_t *work,
                       const km_seeds *seeds, const km_sweep_params *params, km_error *err) {
    km_status status;
    sweep s = {.engine = engine,
               .backend = engine->backend,
               .spec = &engine->plan->spec,
               .seeds = seeds,
               .params = params,
               .best = best};
    s.runs_count = s.spec->clusters_count * params->restarts;
    KM_TRY_GOTO(sweep_alloc(&s, err));
    KM_TRY_GOTO(fetch_first_rows(&s, err));
    KM_TRY_GOTO(take_resumed(&s, err));
    for (int64_t slot = 0; slot < engine->slots_count; slot++) KM_TRY_GOTO(start_next(&s, slot, err));
    KM_TRY_GOTO(report_progress(&s, err));
    KM_TRY_GOTO(sweep_loop(&s, err));
    if (s.is_ending) KM_TRY_GOTO(end_early(&s, err));
    take_best(&s);
done:
    if (params->checkpoint) km_checkpoint_write(params->checkpoint);
    *passes = s.passes;
    *work = s.work;
    sweep_free(&s);
    return status;
}

// Random starts ---------------------------------------------------------------------------------------------

typedef struct point_set {
    uint8_t *bits;
} point_set;

static int point_set_add(point_set *set, int64_t i) {
    uint8_t bit = (uint8_t)(1u << (i & 7));
    if (set->bits[i >> 3] & bit) return 0;
    set->bits[i >> 3] |= bit;
    return 1;
}

km_status km_seed_random(int64_t *indices, const km_data *data, int64_t first_restart, int64_t restarts,
                         int64_t picks, uint64_t seed, km_error *err) {
    int64_t n = km_data_points_all(data), usable = n;
    const double *weights = km_data_weights(data);
    if (weights && km_data_share(data))
        return km_fail(
            err, KM_ERROR_USAGE,
            "random starts of points with weights are not to be had over several ranks; start with "
            "k-means++");
    point_set set = {calloc((size_t)(n / 8 + 1), 1)};
    if (!set.bits) return km_fail_memory(err, "the set of drawn points", n / 8 + 1);
    if (weights) {
        usable = 0;
        for (int64_t i = 0; i < n; i++) usable += weights[i] > 0;
    }
    for (int64_t r = 0; r < restarts; r++) {
        int64_t *chain = indices + r * picks;
        for (int64_t p = 0; p < picks; p++) {
            // Beyond the last usable point a start repeats points: those clusters will stay empty.
            for (uint64_t attempt = 0;; attempt++) {
                int64_t i =
                    (int64_t)(km_draw(seed, (uint64_t)(first_restart + r), (uint64_t)p, attempt) * (double)n);
                if (weights && !(weights[i] > 0)) continue;
                chain[p] = i;
                if (p >= usable || point_set_add(&set, i)) break;
            }
        }
        for (int64_t p = 0; p < picks; p++) set.bits[chain[p] >> 3] = 0;
    }
    free(set.bits);
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// Trials: runs of the backend that are dropped where they will not catch up.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../rounding.h"
#include "refiner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_AHEAD = 8 }; // iterations: a trial that would not catch up in so many, at its speed, is dropped

void km_refine_trials_free(refiner *r) {
    for (int64_t t = 0; t < r->trials_count; t++) free(r->trials[t].centroids);
    r->trials_count = 0;
}

km_status km_refine_trial_new(trial **out, refiner *r, int64_t q, int is_move, km_error *err) {
    trial *t = *out = &r->trials[r->trials_count];
    int64_t bytes = model_values(r, r->spec->clusters[q]) * (int64_t)sizeof(double);
    *t = (trial){.k_index = q,
                 .centroids = calloc(1, (size_t)bytes),
                 .before = HUGE_VAL,
                 .inertia = HUGE_VAL,
                 .limit = !is_move ? HUGE_VAL
                          : can_exchange(r)
                              ? r->best[q].inertia *
                                    (1 + EXCHANGE_TOLERANCE(r->spec->clusters[q], r->engine->n_all))
                              : r->best[q].inertia,
                 .is_move = is_move};
    if (!t->centroids) return km_fail_memory(err, "the centroids of a run", bytes);
    r->trials_count++;
    return KM_OK;
}

static km_status trial_read(refiner *r, trial *t, int64_t slot, km_error *err) {
    int64_t k = r->spec->clusters[t->k_index], d = r->engine->d;
    r->slot_trial[slot] = -1;
    return r->backend->slot_read(r->engine, slot, t->centroids, t->centroids + k * d, err);
}

// Whether a trial will not get below its limit, at the speed that it has.
static int is_hopeless(const trial *t, const km_slot_state *state) {
    if (state->iterations < 2 || !(t->limit < HUGE_VAL)) return 0;
    double speed = t->before - state->inertia;
    return state->inertia - LOOK_AHEAD * speed > t->limit;
}

static km_status trial_serve(refiner *r, int64_t slot, km_error *err) {
    trial *t = &r->trials[r->slot_trial[slot]];
    const km_slot_state *state = &r->states[slot];
    if (state->phase == KM_SLOT_EMPTY) {
        int64_t moved;
        t->before = HUGE_VAL;
        return r->backend->relocate(r->engine, slot, &moved, err);
    }
    if (state->phase == KM_SLOT_DONE) {
        t->phase = TRIAL_DONE;
        t->inertia = state->inertia;
        t->iterations = state->iterations;
        t->converged = state->converged;
        t->is_fixed = state->shift == 0 && !state->at_limit;
        t->has_means = r->backend->slot_means != NULL;
        r->work += (state->iterations + 1) * r->spec->clusters[t->k_index];
        int64_t k = r->spec->clusters[t->k_index], d = r->engine->d;
        if (t->has_means) r->backend->slot_means(r->engine, slot, t->centroids + k * (d + 1));
        KM_TRY(trial_read(r, t, slot, err));
        t->rounding = km_inertia_rounding(t->centroids, t->centroids + k * d, k, d, r->engine->n_all,
                                          r->params->total_square);
        return KM_OK;
    }
    if (is_hopeless(t, state)) {
        t->phase = TRIAL_DROPPED;
        r->work += state->iterations * r->spec->clusters[t->k_index];
        return trial_read(r, t, slot, err);
    }
    t->before = state->inertia;
    return KM_OK;
}

static km_status report_progress(const refiner *r, km_error *err) {
    const km_refine_params *p = r->params;
    if (!p->progress) return KM_OK;
    km_progress progress = {"refine", 0, 0, r->passes, (km_now_ms() - p->begin_ms) / 1e3};
    if (p->progress(p->progress_user, &progress))
        return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted in the phase refine");
    return KM_OK;
}

// Gives free slots the next trials of their K. Returns the number of slots that have one.
static km_status trials_start(refiner *r, int64_t *running, km_error *err) {
    *running = 0;
    for (int64_t slot = 0; slot < r->engine->slots_count; slot++) {
        for (int64_t i = 0; i < r->trials_count && r->slot_trial[slot] < 0; i++) {
            trial *t = &r->trials[i];
            if (t->phase != TRIAL_WAITING || t->k_index != slot % r->spec->clusters_count) continue;
            t->phase = TRIAL_RUNNING;
            r->slot_trial[slot] = i;
            KM_TRY(r->backend->slot_start(r->engine, slot, t->centroids, err));
        }
        *running += r->slot_trial[slot] >= 0;
    }
    return KM_OK;
}

km_status km_refine_trials_run(refiner *r, const km_stop *stop, km_error *err) {
    int64_t running;
    KM_TRY(trials_start(r, &running, err));
    while (running > 0 && !passes_are_used(r)) {
        int64_t passes = 0;
        KM_TRY(r->backend->run_passes(r->engine, r->states, &passes, stop, 1, err));
        r->passes += passes;
        for (int64_t slot = 0; slot < r->engine->slots_count; slot++)
            if (r->slot_trial[slot] >= 0) KM_TRY(trial_serve(r, slot, err));
        KM_TRY(report_progress(r, err));
        KM_TRY(trials_start(r, &running, err));
    }
    for (int64_t slot = 0; slot < r->engine->slots_count; slot++)
        if (r->slot_trial[slot] >= 0) {
            r->trials[r->slot_trial[slot]].phase = TRIAL_DROPPED;
            KM_TRY(trial_read(r, &r->trials[r->slot_trial[slot]], slot, err));
        }
    return KM_OK;
}

void km_refine_trials_take(refiner *r) {
    for (int64_t i = 0; i < r->trials_count; i++) {
        const trial *t = &r->trials[i];
        km_sweep_best *best = &r->best[t->k_index];
        place *own = &r->places[t->k_index];
        int64_t k = r->spec->clusters[t->k_index];
        if (t->phase != TRIAL_DONE) continue;
        own->confirmed +=
            t->is_move && !t->is_own && fabs(t->inertia - best->inertia) <= GAIN_MIN * best->inertia;
        // More iterations never raise it, but for rounding.
        if (!(t->inertia < best->inertia + (t->is_move ? 0 : t->rounding))) continue;
        if (t->is_move && !(t->inertia + t->rounding < best->inertia * (1 - GAIN_MIN))) continue;
        memcpy(best->centroids, t->centroids, (size_t)model_values(r, k) * sizeof(double));
        best->inertia = t->inertia;
        if (t->is_move) best->iterations = t->iterations;
        best->converged = t->converged || (!t->is_move && best->converged); // it went on from there
        best->is_fixed = t->is_fixed;
        best->has_means = t->has_means;
        own->is_fresh = 0;
        if (!t->is_move) continue;
        best->refined = 1;
        own->version++;
        own->failures = own->confirmed = 0;
        r->improved++;
    }
}

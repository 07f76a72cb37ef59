// SPDX-License-Identifier: MIT
// Rounds of trials. A trial is one start of one K from models that are there already:
//
// - merged: the best model of the next larger K of the list, with those two of its clusters made one whose union costs
//   least (as often as it takes);
// - split: the best model of the next smaller K, with a centroid put where it gains most;
// - swapped: its own best model, with two clusters made one and a centroid put elsewhere.
//
// A round has trials of one kind, of all K, which go through passes together. A trial that will not catch up with the
// best model of its K is dropped after few iterations; one that ends below it replaces it. A K whose trials
// failed often enough, or led back to its model, rests until a neighbour has a better one. In the end the best
// model of each K is iterated until nothing moves.
//
// The effort is counted, not clocked: iterations x K of all trials, against those of the sweep. How far trials of a
// round may go is fixed before it, so that the result does not depend on how many slots there are.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "refiner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATIENCE = 20,      // swaps without success after which a K rests ...
    CONFIRMED = 3,      // ... or trials that ended where its model is
    SWAPS = 3,          // of a K in a round of swaps
    TRIALS = SWAPS + 1, // of a K in a round, at most: of one kind, and of its own model after an exchange
    ITERATIONS_MIN = 4  // a round in which trials may not go as far is not worth it
};
// Of the sweep's work, what rounds may take; and all of it, with the last iterations.
#define SHARE_ROUNDS 0.12
#define SHARE_ALL 0.2
// Small tables may take more: so much work x n x d, where points are exchanged and where not (about two seconds and a
// quarter of one on one core).
#define WORK_FREE_WHOLE 0x1p34
#define WORK_FREE 0x1p31

static void refiner_free(refiner *r) {
    for (int64_t q = 0; r->places && q < r->spec->clusters_count; q++) {
        free(r->places[q].squares);
        free(r->places[q].labels);
        free(r->places[q].pairs.of);
        free(r->places[q].pairs.costs);
    }
    km_refine_trials_free(r);
    free(r->merging);
    free(r->mean);
    free(r->pairs.of);
    free(r->pairs.costs);
    free(r->places);
    free(r->sample);
    free(r->sample_weights);
    free(r->sample_rows);
    free(r->squares);
    free(r->trials);
    free(r->slot_trial);
    free(r->states);
}

static int partners_alloc(partners *out, int64_t k) {
    out->of = malloc((size_t)k * sizeof *out->of);
    out->costs = malloc((size_t)k * sizeof *out->costs);
    return out->of && out->costs;
}

static int place_alloc(place *out, int64_t count, int64_t k) {
    out->squares = calloc((size_t)count, sizeof *out->squares);
    out->labels = calloc((size_t)count, sizeof *out->labels);
    out->tried_before = out->tried_after = out->exchanged = -1;
    return partners_alloc(&out->pairs, k) && out->squares && out->labels;
}

static km_status refiner_alloc(refiner *r, km_error *err) {
    int64_t ks = r->spec->clusters_count, slots = r->engine->slots_count, d = r->engine->d;
    r->k_max = r->spec->clusters[ks - 1];
    r->sample_count = km_refine_sample(r->engine->plan, r->engine->n_all);
    size_t count = (size_t)km_round_up(r->sample_count, TILE);
    r->places = calloc((size_t)ks, sizeof *r->places);
    r->sample = calloc(count * (size_t)d, sizeof *r->sample);
    r->sample_rows = malloc(count * (size_t)d * sizeof *r->sample_rows);
    r->sample_weights = malloc(count * sizeof *r->sample_weights);
    r->squares = malloc(2 * count * sizeof *r->squares);
    r->merging = malloc((size_t)model_values(r, r->k_max) * sizeof *r->merging);
    r->mean = malloc((size_t)d * sizeof *r->mean);
    r->trials = calloc((size_t)(ks * TRIALS), sizeof *r->trials);
    r->slot_trial = malloc((size_t)slots * sizeof *r->slot_trial);
    r->states = calloc((size_t)slots, sizeof *r->states);
    int complete = r->places && r->sample && r->sample_rows && r->sample_weights && r->squares &&
                   r->merging && r->mean && r->trials && r->slot_trial && r->states &&
                   partners_alloc(&r->pairs, r->k_max);
    for (int64_t q = 0; complete && q < ks; q++)
        complete = place_alloc(&r->places[q], (int64_t)count, r->spec->clusters[q]);
    if (!complete) return km_fail_memory(err, "the refinement", (int64_t)count * (2 * d + 2 * ks) * 8);
    r->distances = r->squares + count;
    for (int64_t slot = 0; slot < slots; slot++) r->slot_trial[slot] = -1;
    return KM_OK;
}

// How far the trials that there are may go, for the work that is left.
static int64_t iterations_left(const refiner *r, int64_t work_max) {
    int64_t sum = 0;
    for (int64_t i = 0; i < r->trials_count; i++) sum += r->spec->clusters[r->trials[i].k_index];
    int64_t left = work_max > r->work && sum > 0 ? (work_max - r->work) / sum : 0;
    return km_min(left - 1, r->params->stop.max_iter); // one more pass evaluates a trial
}

typedef enum kind { MERGED, SPLIT, SWAPPED, KINDS } kind;

// Whether a K has a trial of that kind: none without new models to start from, and none that rests.
static int has_trial(const refiner *r, int64_t q, kind of) {
    const place *own = &r->places[q];
    if (!(r->best[q].inertia > 0) || r->spec->clusters[q] >= r->engine->n_all) return 0;
    if (of == MERGED) return q + 1 < r->spec->clusters_count && own->tried_after != r->places[q + 1].version;
    if (of == SPLIT) return q > 0 && own->tried_before != r->places[q - 1].version;
    return r->spec->clusters[q] > 1 && own->failures < PATIENCE && own->confirmed < CONFIRMED;
}

static km_status trial_make(refiner *r, int64_t q, kind of, int64_t turn, km_error *err) {
    int64_t number = (r->round * r->spec->clusters_count + q) * SWAPS + turn;
    place *own = &r->places[q];
    trial *t;
    if (!has_trial(r, q, of)) return KM_OK;
    KM_TRY(km_refine_trial_new(&t, r, q, 1, err));
    if (of == MERGED) {
        own->tried_after = r->places[q + 1].version;
        km_refine_make_merged(r, t, q);
    } else if (of == SPLIT) {
        own->tried_before = r->places[q - 1].version;
        km_refine_make_split(r, t, q, number);
    } else {
        km_refine_make_swapped(r, t, q, number, own->failures++);
    }
    return KM_OK;
}

// The model of a K as it is, for exchange_trials, which starts it again where that lowers the inertia.
static km_status own_make(refiner *r, int64_t q, km_error *err) {
    place *own = &r->places[q];
    trial *t;
    if (!can_exchange(r) || own->exchanged == own->version || !(r->best[q].inertia > 0)) return KM_OK;
    own->exchanged = own->version;
    KM_TRY(km_refine_trial_new(&t, r, q, 1, err));
    memcpy(t->centroids, r->best[q].centroids,
           (size_t)(r->spec->clusters[q] * r->engine->d) * sizeof(double));
    t->inertia = r->best[q].inertia;
    t->is_own = 1;
    t->phase = TRIAL_DONE;
    return KM_OK;
}

// A round has trials of one kind, so that what one finds is there for the next.
static km_status rounds(refiner *r, km_error *err) {
    for (int64_t idle = 0; idle < KINDS; r->round++) {
        km_refine_trials_free(r);
        kind of = (kind)(r->round % KINDS);
        for (int64_t q = 0; q < r->spec->clusters_count; q++) {
            for (int64_t turn = 0; turn < (of == SWAPPED ? SWAPS : 1); turn++)
                KM_TRY(trial_make(r, q, of, turn, err));
            KM_TRY(own_make(r, q, err));
        }
        idle = r->trials_count ? 0 : idle + 1;
        if (idle) continue;
        km_stop stop = r->params->stop;
        stop.max_iter = iterations_left(r, r->work_rounds);
        if (stop.max_iter < ITERATIONS_MIN || passes_are_used(r)) return KM_OK;
        r->trials_all += r->trials_count;
        KM_TRY(km_refine_trials_run(r, &stop, err));
        if (can_exchange(r)) {
            KM_TRY(km_refine_exchange(r, err));
            KM_TRY(km_refine_trials_run(r, &stop, err));
        }
        km_refine_trials_take(r);
    }
    return KM_OK;
}

// Iterates the best models until nothing moves, as far as the work that is left goes.
static km_status rest(refiner *r, km_error *err) {
    for (;;) {
        km_refine_trials_free(r);
        for (int64_t q = 0; q < r->spec->clusters_count; q++) {
            trial *t;
            r->best[q].at_rest |= r->best[q].is_fixed;
            if (r->best[q].at_rest || r->best[q].iterations >= r->params->stop.max_iter) continue;
            KM_TRY(km_refine_trial_new(&t, r, q, 0, err));
            memcpy(t->centroids, r->best[q].centroids,
                   (size_t)model_values(r, r->spec->clusters[q]) * sizeof(double));
        }
        km_stop stop = {.max_iter = iterations_left(r, r->work_all)};
        if (r->trials_count == 0 || stop.max_iter < 1 || passes_are_used(r)) return KM_OK;
        KM_TRY(km_refine_trials_run(r, &stop, err));
        km_refine_trials_take(r);
        for (int64_t i = 0; i < r->trials_count; i++)
            if (r->trials[i].phase == TRIAL_DONE && r->trials[i].converged)
                r->best[r->trials[i].k_index].at_rest = 1;
    }
}

static km_status refiner_open(refiner *r, km_engine *engine, km_sweep_best *best,
                              const km_refine_params *params, km_error *err) {
    *r = (refiner){.engine = engine,
                   .backend = engine->backend,
                   .spec = &engine->plan->spec,
                   .params = params,
                   .best = best};
    KM_TRY(refiner_alloc(r, err));
    return km_refine_sample_fetch(r, err);
}

// The work that refinement may do, in iterations x K.
static void set_work(refiner *r) {
    double free_work =
        (can_exchange(r) ? WORK_FREE_WHOLE : WORK_FREE) / ((double)r->engine->n_all * (double)r->engine->d);
    double all = fmax(SHARE_ALL * (double)r->params->sweep_work, free_work);
    r->work_all = (int64_t)fmin(all, 0x1p60);
    r->work_rounds = (int64_t)fmin(all * (SHARE_ROUNDS / SHARE_ALL), 0x1p60);
    if (r->params->passes_max >= 0) r->work_all = r->work_rounds = INT64_MAX;
}

km_status km_refine(km_engine *engine, km_sweep_best *best, int64_t *passes, const km_refine_params *params,
                    km_error *err) {
    km_status status;
    refiner r;
    KM_TRY_GOTO(refiner_open(&r, engine, best, params, err));
    set_work(&r);
    KM_TRY_GOTO(rounds(&r, err));
    KM_TRY_GOTO(rest(&r, err));
    km_log_line(params->log, KM_LOG_INFO,
                "refine: %lld trials in %lld rounds, %lld improved; %lld passes, %.3g of the sweep's work",
                (long long)r.trials_all, (long long)r.round, (long long)r.improved, (long long)r.passes,
                (double)r.work / (double)km_max(params->sweep_work, 1));
done:
    *passes = r.passes;
    refiner_free(&r);
    return status;
}

km_status km_refine_from_before(km_engine *engine, km_sweep_best *best, int64_t q, int64_t max_iter,
                                int64_t *passes, const km_refine_params *params, km_error *err) {
    km_status status;
    refiner r;
    trial *t;
    km_refine_params own = *params;
    km_stop stop = params->stop;
    own.passes_max = KM_REFINE_AUTO; // this has to be
    stop.max_iter = max_iter;
    KM_TRY_GOTO(refiner_open(&r, engine, best, &own, err));
    KM_TRY_GOTO(km_refine_trial_new(&t, &r, q, 0, err));
    km_refine_make_split(&r, t, q, FROM_BEFORE - q);
    if (max_iter > 0) KM_TRY_GOTO(km_refine_trials_run(&r, &stop, err));
    memcpy(best[q].centroids, t->centroids, (size_t)model_values(&r, r.spec->clusters[q]) * sizeof(double));
    best[q].iterations = t->iterations;
    best[q].converged = max_iter == 0 || t->converged;
    best[q].refined = 1;
    best[q].at_rest = best[q].is_fixed = t->is_fixed;
    best[q].has_means = t->has_means;
    *passes += r.passes;
done:
    refiner_free(&r);
    return status;
}

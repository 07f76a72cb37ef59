// SPDX-License-Identifier: MIT
// What the files of refinement share.
#ifndef KM_RUNTIME_REFINE_REFINER_H
#define KM_RUNTIME_REFINE_REFINER_H
#include "../../gen/memory.h"
#include "../sample.h"
#include "../seed.h"
#include "../unit.h"
#include "refine.h"

enum { TILE = KM_SAMPLE_TILE }; // points of the sample that lie together, feature by feature

// A K has a better model where its inertia fell by this share at least.
#define GAIN_MIN 1e-6
// A trial that ends so little above the best model may be the better one when points were exchanged.
#define EXCHANGE_TOLERANCE(k, n) (.25 * (double)(k) / (double)(n))
// Draws of refinement have restart numbers from here on; those of the sweep are below.
#define DRAWS_FIRST ((uint64_t)1 << 40)
#define DRAWS_SAMPLE (-1) // numbers of trials that are none
#define FROM_BEFORE (-2)  // less the number of the K

// One start. Its number orders it among those of its K.
typedef struct trial {
    int64_t k_index;
    enum { TRIAL_WAITING, TRIAL_RUNNING, TRIAL_DONE, TRIAL_DROPPED } phase;
    double *centroids;                // km_model_numbers: of the start; of the result when done
    double inertia, before, rounding; // before: of the pass before
    double limit;                     // dropped where it will not get below; HUGE_VAL: never dropped
    int64_t iterations;
    int32_t converged, is_fixed, has_means; // as in km_sweep_best
    int64_t exchange_work;
    int is_own;  // it starts from the K's own best model
    int is_move; // not only more iterations of the same model
} trial;

// For each cluster the one with which its union costs least, and what that costs.
typedef struct partners {
    int64_t *of;
    double *costs;
} partners;

// What is known of the best model of a K.
typedef struct place {
    double *squares;                   // sample_count: squared distance to the nearest centroid
    int32_t *labels;                   // sample_count
    partners pairs;                    // k
    int is_fresh;                      // all of these are of the model
    int64_t version;                   // of the model ...
    int64_t exchanged;                 // ... when points were exchanged
    int64_t tried_before, tried_after; // ... of the neighbours when trials were made of them
    int64_t failures;                  // swaps since it was found
    int64_t confirmed;                 // trials that ended at the same inertia
} place;

typedef struct refiner {
    km_engine *engine;
    const km_backend *backend;
    const km_spec *spec;
    const km_refine_params *params;
    km_sweep_best *best;
    place *places;               // clusters_count
    double *sample;              // d x sample_count: by feature, in tiles
    double *sample_weights;      // sample_count
    double *sample_rows;         // sample_count x d
    double *squares, *distances; // scratch: sample_count each
    double *merging;             // scratch: a model of the largest K
    double *mean;                // scratch: d
    partners pairs;              // scratch: the largest K
    int64_t sample_count, k_max;
    trial *trials;
    int64_t trials_count;
    int64_t *slot_trial; // slots_count; -1: none
    km_slot_state *states;
    int64_t passes, work, work_rounds, work_all, round, trials_all, improved;
} refiner;

static inline int64_t model_values(const refiner *r, int64_t k) {
    return km_model_numbers(k, r->engine->d);
}

static inline double type_round(const refiner *r, double value) {
    return r->spec->type == KM_FLOAT32 ? (double)(float)value : value;
}

static inline const double *sample_tile(const refiner *r, int64_t first) {
    return r->sample + first * r->engine->d;
}

// The sample is the whole table, and centroids are means.
static inline int can_exchange(const refiner *r) {
    return r->sample_count == r->engine->n && !r->engine->unit_centre;
}

static inline int passes_are_used(const refiner *r) {
    return r->params->passes_max >= 0 && r->passes >= r->params->passes_max;
}

// sample.c

// One point drawn from each of sample_count equal parts of the points.
km_status km_refine_sample_fetch(refiner *r, km_error *err);

// Squared distances of the sample from one centroid.
void km_refine_sample_distances(const refiner *r, double *out, const double *c);

// The nearest centroid of each point of the sample.
void km_refine_sample_assign(const refiner *r, double *squares, int32_t *labels, const double *centroids,
                             int64_t k);

// The sum of w x squares.
double km_refine_sample_total(const refiner *r, const double *squares);

// moves.c: the first centroids of a trial of K number q

void km_refine_make_merged(refiner *r, trial *t, int64_t q);
void km_refine_make_split(refiner *r, trial *t, int64_t q, int64_t number);

// The rank of the pair that is merged rises with failures, up to k.
void km_refine_make_swapped(refiner *r, trial *t, int64_t q, int64_t number, int64_t rank);

// exchange.c

// Exchanges points of what trials found, where the sample is the whole table. Those for which it was better wait to be
// run again.
km_status km_refine_exchange(refiner *r, km_error *err);

// trials.c

void km_refine_trials_free(refiner *r);
km_status km_refine_trial_new(trial **out, refiner *r, int64_t q, int is_move, km_error *err);

// Runs all trials, one pass at a time, so that what becomes of a trial depends on its own iterations alone.
km_status km_refine_trials_run(refiner *r, const km_stop *stop, km_error *err);

// Takes what the trials found.
void km_refine_trials_take(refiner *r);

#endif

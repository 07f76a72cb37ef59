// SPDX-License-Identifier: MIT
// The loop over runs: first centroids, slots, passes, relocation, and the best restart of each K.
#ifndef KM_RUNTIME_SWEEP_H
#define KM_RUNTIME_SWEEP_H
#include "backend.h"
#include "checkpoint.h"

// Where the first centroids of a run come from: picks (indices of points, one chain of picks_count a
// restart), or given rows of the clustered space.
typedef struct km_seeds {
    int64_t *indices; // restarts x picks_count, or NULL
    int64_t picks_count;
    double *rows; // NULL, or rows of the clustered space; K number q begins at row row_first[q]
    int64_t *row_first;
} km_seeds;

// The best restart of one K after the sweep: the lowest of those whose inertias tie with the least (runtime/contest.h).
typedef struct km_sweep_best {
    int64_t restart;
    double inertia;
    int64_t iterations;
    int32_t converged;
    int32_t is_fixed;  // the last update moved no centroid: they are the means of their points
    int32_t has_means; // the means of its clusters in the last pass stand behind the weights
    double *
        centroids; // km_model_numbers: k x d, clustered space; k weights of their points in the last pass; k x d
    int64_t restarts_agreed;
    double *inertias; // of all restarts
    int32_t refined;  // refinement found it
    int32_t at_rest;  // nothing moves any more
} km_sweep_best;

typedef struct km_sweep_params {
    int64_t restarts;
    km_stop stop;
    double total_square; // of the data statistics: the scale of rounding in an inertia
    // NULL, or the final centroids of all runs, clustered space: of each restart those of every K in ascending order.
    double *restart_centroids;
    km_checkpoint *checkpoint; // NULL, or what keeps runs, with those that are done already
    const km_log *log;
    int (*progress)(void *user, const km_progress *progress);
    void *progress_user;
    double begin_ms; // km_now_ms when the fit began, for the progress.
} km_sweep_params;

// When runs stop, by the params and the mean variance of the d features in the clustered space: (x - centre) * factor.
km_stop km_sweep_stop(const km_fit_params *params, const km_data_stats *stats, const double *factor,
                      int64_t d);

// All runs of the engine's plan. best[clusters_count] with centroids and inertias allocated by the caller. *passes, and
// *work: iterations x K of all runs, are out.
km_status km_sweep_run(km_engine *engine, km_sweep_best *best, int64_t *passes, int64_t *work,
                       const km_seeds *seeds, const km_sweep_params *params, km_error *err);

// For tests, of the calling thread: passes between two questions of the sweep, at most.
extern _Thread_local int64_t km_sweep_call_passes;

// Random starts: for each restart from `first_restart` on `picks` different points of positive weight, drawn by (seed,
// restart, pick).
km_status km_seed_random(int64_t *indices, const km_data *data, int64_t first_restart, int64_t restarts,
                         int64_t picks, uint64_t seed, km_error *err);

// Orders a model's clusters, k x d centroids with k weights behind them, and k x d means where it has these: the one
// with most weight first, ties by their centroids (fit/number.c).
km_status km_number_clusters(double *centroids, int64_t k, int64_t d, int has_means, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// Refinement after the sweep: each K is also started from the best models of its neighbours in the list and from its
// own with one centroid moved; what is better is kept. It stands on runtime/backend.h alone.
#ifndef KM_RUNTIME_REFINE_H
#define KM_RUNTIME_REFINE_H
#include "../sweep.h"

typedef struct km_refine_params {
    int64_t
        passes_max; // At most so many passes; KM_REFINE_AUTO: by the share of the sweep's work (docs/algorithms.md).
    int64_t sweep_work; // Of all restarts: iterations x K.
    km_stop stop;       // As in the sweep.
    double total_square;
    const km_data *data; // Whose points the engine has: of the sample's weights.
    uint64_t seed;       // Of what is drawn here.
    int64_t threads;     // Of the host; they change no result.
    const km_log *log;
    int (*progress)(void *user, const km_progress *progress);
    void *progress_user;
    double begin_ms;
} km_refine_params;

// Improves best[clusters_count] in place; *passes is out.
km_status km_refine(km_engine *engine, km_sweep_best *best, int64_t *passes, const km_refine_params *params,
                    km_error *err);

// Puts in the place of best[q] the model of the K before it with more centroids, after `max_iter` iterations at most
// (0: as it is, and no worse in any arithmetic): for a model that turned out to be worse than that of a smaller K.
// *passes is added to.
km_status km_refine_from_before(km_engine *engine, km_sweep_best *best, int64_t q, int64_t max_iter,
                                int64_t *passes, const km_refine_params *params, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// The best restart of one K. Restarts that end at the same clustering number its clusters differently, and rounding
// makes their inertias differ, for each algorithm, kernel and number of concurrent restarts in its own way. So
// inertias that may differ by rounding alone tie, and the restart of the lowest number wins, in whatever order
// restarts are done.
#ifndef KM_RUNTIME_CONTEST_H
#define KM_RUNTIME_CONTEST_H
#include <kmgen/kmgen.h>

// A restart that is done.
typedef struct km_restart {
    int64_t index;
    double inertia;
    double rounding; // another inertia of the same clustering is within this: km_inertia_rounding
    int64_t iterations;
    int32_t converged;
    int32_t is_fixed;  // its last update moved no centroid: they are the means of their points
    int32_t has_means; // as in km_sweep_best
    double *centroids; // then what else is kept of it: rows_bytes in all
} km_restart;

// Restarts that may still turn out to be the best: indices rise, inertias fall. Mostly one.
typedef struct km_contest {
    km_restart *restarts;
    int64_t count, capacity;
    double limit; // An inertia up to this ties with the least: the least inertia + rounding so far.
    double *rows; // The caller's memory for centroids; a second restart allocates its own.
    int64_t rows_bytes;
} km_contest;

void km_contest_init(km_contest *contest, double *rows, int64_t rows_bytes);
void km_contest_free(km_contest *contest);

// A restart is done; its centroids are copied if it may win.
km_status km_contest_offer(km_contest *contest, const km_restart *restart, km_error *err);

// Of all restarts offered (one at least), the lowest whose inertia is no more than `limit`. Its centroids are in `rows`
// then, and the others are freed.
const km_restart *km_contest_winner(km_contest *contest);

#endif

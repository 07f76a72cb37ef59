// SPDX-License-Identifier: MIT
// The best restart of one K. Restarts that end at the same clustering number it otherwise, and their costs differ by
// rounding, another way for each algorithm, kernel and number of concurrent restarts. So costs that rounding cannot
// tell apart tie, and the lowest restart wins, in whatever order the restarts are done.
#ifndef KM_RUNTIME_CONTEST_H
#define KM_RUNTIME_CONTEST_H
#include <kmgen/kmgen.h>

// A restart that is done.
typedef struct km_restart {
    int64_t index;
    double cost, rounding; // Another cost of the same clustering lies within `rounding`: km_cost_rounding.
    int64_t iterations;
    int32_t converged;
    double *centroids;
} km_restart;

// Restarts that may still turn out to be the best: indices rise, costs fall. Mostly one.
typedef struct km_contest {
    km_restart *restarts;
    int64_t count, room;
    double
        limit; // What costs no more ties with the least cost: the least of cost + rounding of all restarts so far.
    double *rows; // The caller's room for centroids; a second restart allocates its own.
    int64_t rows_bytes;
} km_contest;

void km_contest_init(km_contest *contest, double *rows, int64_t rows_bytes);
void km_contest_free(km_contest *contest);

// Takes note of a restart that is done; its centroids are copied if need be.
km_status km_contest_offer(km_contest *contest, const km_restart *restart, km_error *err);

// Of all restarts offered, the lowest whose cost is no more than `limit`. Its centroids are in `rows` then, and the
// others are forgotten. Once at least one was offered.
const km_restart *km_contest_settle(km_contest *contest);

#endif

// SPDX-License-Identifier: MIT
// Which candidate of a tuning to measure next, so that few of a large space are measured. Pure: what it answers depends
// on what it was told alone.
#ifndef KM_RUNTIME_TUNE_SEARCH_H
#define KM_RUNTIME_TUNE_SEARCH_H
#include <kmgen/kmgen.h>

enum {
    KM_SEARCH_AXES_MAX = 32,
    KM_SEARCH_WHOLE = 32, // A space of no more candidates is searched whole.
    KM_SEARCH_LEAST =
        24, // Measurements of a larger one where the caller names no number: a tenth of it, but no fewer
    KM_SEARCH_MOST = 512, // than the first and no more than the second.
    KM_SEARCH_SHARE = 10,
};

// One candidate. Numbers are compared in logs: a doubling is one step on any axis.
typedef struct km_search_point {
    double predicted_ms; // By the cost model; not finite or not positive: it says nothing.
    int32_t family;      // Candidates of one design and its words: form, sums.
    double
        value[KM_SEARCH_AXES_MAX]; // The number on each axis, as km_plan_get: -1 where this design has none.
} km_search_point;

typedef struct km_search km_search;

// Takes what it needs of the points. default_at: measured first; -1: none is. most: measurements at most, those of an
// earlier run counted; 0: by the numbers above. KM_ERROR_MEMORY. KM_ERROR_USAGE: more axes than KM_SEARCH_AXES_MAX.
km_status km_search_create(km_search **out, const km_search_point *points, int64_t count, int64_t axes,
                           int64_t default_at, int64_t most, km_error *err);
void km_search_destroy(km_search **search);

// The candidate to measure now, the same until something is told; -1: none is left, or `most` were told.
int64_t km_search_next(const km_search *search);
// The candidates that would come next if nothing were learnt from them, the first as km_search_next says: to be
// compiled meanwhile. Writes at most `count`; returns how many it wrote.
int64_t km_search_ahead(const km_search *search, int64_t *out, int64_t count);

// What a candidate took; not positive, infinite or NaN: it failed. Candidates that were not asked for count as well,
// and a candidate may be told again: the last time counts.
void km_search_tell(km_search *search, int64_t at, double ms);

// The fastest candidate told, of equal ones the first; -1: none was measured.
int64_t km_search_best(const km_search *search);
int64_t km_search_told(const km_search *search); // how many candidates were told
int64_t km_search_most(const km_search *search); // how many will be, at most

#endif

// SPDX-License-Identifier: MIT
// A share of the points: those of one rank, of several that cluster together (km_communicator). Ranks go through a fit
// alike, and join what they found of their points at the same places.
//
// All joins are one operation: sums of doubles, element by element, that are exact in any order. Digits of totals are
// made for it (templates/total.h). What one rank alone knows, the others add zeros to; so lists whose entries belong to
// one rank each come together, too. Everything that is decided from such sums is decided alike everywhere.
#ifndef KM_RUNTIME_SHARE_H
#define KM_RUNTIME_SHARE_H
#include "../base/error.h"
#include "seed.h"
#include <kmgen/data.h>
#include <kmgen/fit.h>

// How a caller wants to stop (km_fit_params.progress). What one says travels with the sums that there are, and all
// ranks stop behind the same one.
typedef enum km_share_stop { KM_SHARE_GOES_ON, KM_SHARE_STOPS_WITH_RESULT, KM_SHARE_STOPS } km_share_stop;

typedef struct km_share {
    const km_communicator *ranks; // the caller's
    int64_t first, n, n_all;      // points: the first of this rank, how many it has, of all ranks
    int64_t threads;              // to plan for: the most of any rank
    int is_over;                  // every rank knows that the fit has failed
    km_share_stop told, agreed;   // what this rank's caller wants; what that of any did, as the last sum said
    int has_models;               // a fit that is stopped has a result
} km_share;

// How many points each rank has, and where its own begin. KM_ERROR_USAGE on every rank: shares are not whole chunks, or
// n_all is 0.
km_status km_share_begin(km_share *share, const km_communicator *ranks, int64_t n, km_error *err);

// Sums over all ranks in place; nothing without a share. KM_ERROR_IO: another rank has ended. KM_ERROR_INTERRUPTED, on
// all ranks: a caller stops them, and there is no result. Minus zero becomes zero.
km_status km_share_sum(km_share *share, double *values, int64_t count, km_error *err);
// The same where `values` has room for one more number: one message, however many there are, and no copy.
km_status km_share_sum_in_room(km_share *share, double *values, int64_t count, km_error *err);

// What this rank's caller answered; the next sum tells the others.
void km_share_tell(km_share *share, int answer);
// Whether the next sum will say KM_ERROR_INTERRUPTED, so that nobody uses what is still to be found for it.
int km_share_leaves(const km_share *share);
// Whether all ranks know that they stop with a result; without a share: no.
static inline int km_share_is_ending(const km_share *share) {
    return share && share->agreed != KM_SHARE_GOES_ON;
}

// Whether another rank has ended, as far as the communicator knows without a sum; the error that says so.
int km_share_is_lost(const km_share *share);
km_status km_share_lost(km_share *share, km_error *err);

// After a step in which nothing was joined: each rank's own status, of which the error of the lowest rank becomes that
// of all; an error without a sentence only where none has one. Without a share: `own`.
km_status km_share_agree(km_share *share, km_status own, km_error *err);

// What is to be the same on all ranks, e.g. the rows of a file: else KM_ERROR_DATA on all, by the lowest rank for which
// the mean of all is another number. `what` it has, e.g. "rows".
km_status km_share_same(km_share *share, int64_t number, const char *file, const char *what, km_error *err);

// A list of all ranks' entries, `width` numbers each, at index `at` on: this rank's `count` entries become part of
// `all`, which has all_count of them, the same on every rank.
km_status km_share_gather(km_share *share, double *all, int64_t all_count, const double *own, int64_t at,
                          int64_t count, int64_t width, km_error *err);

// Whether the point of all is this rank's.
static inline int km_share_has(const km_share *share, int64_t point) {
    return point >= share->first && point < share->first + share->n;
}

static inline int64_t km_chunks_of(int64_t n) {
    return (n + KM_CHUNK_POINTS - 1) / KM_CHUNK_POINTS;
}

// The chunk of all that this rank's first is.
static inline int64_t km_share_chunk(const km_share *share) {
    return share ? share->first / KM_CHUNK_POINTS : 0;
}

// Of data (data.c): a view of the points of this rank, whose share the samples of the whole know. *out is destroyed
// before `data` and `share`.
km_status km_data_shared(km_data **out, const km_data *data, km_share *share, km_error *err);
// Points of all ranks; without a share km_data_points.
int64_t km_data_points_all(const km_data *data);
// The weights of these points, counted over all ranks; all 1 where there are none.
km_status km_data_weights_at(double *out, const km_data *data, const int64_t *points, int64_t count,
                             km_error *err);
// These points, counted over all ranks, on each of them: count x d.
km_status km_data_read_shared(double *out, const km_data *data, const int64_t *points, int64_t count,
                              km_error *err);
km_share *km_data_share(const km_data *data);

#endif

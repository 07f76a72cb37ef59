// SPDX-License-Identifier: MIT
// The best restart of a subset and K, for every device: each restart that is done is offered (runtime/contest.h), then
// the winner is taken.
#ifndef KM_RUNTIME_EXPLORE_BEST_H
#define KM_RUNTIME_EXPLORE_BEST_H
#include "../contest.h"
#include "subsets.h"

// A restart's state and centroids. row: k x size coordinates, then k weights. n, total_square: of the points.
km_status km_subset_offer(km_contest *contest, int64_t restart, const km_slot_state *state, double *row,
                          int64_t k, int64_t size, int64_t n, double total_square, km_error *err);

// The winner's centroids, in their order, and how many restarts agree with it. inertias: of all restarts, each `stride`
// behind the one before.
km_status km_subset_take_best(km_subset_fit *fit, km_contest *contest, int64_t size, const double *inertias,
                              int64_t restarts, int64_t stride, km_error *err);

#endif

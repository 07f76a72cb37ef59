// SPDX-License-Identifier: MIT
// A result of km_explore with what it owns.
#ifndef KM_RUNTIME_EXPLORE_EXPLORED_H
#define KM_RUNTIME_EXPLORE_EXPLORED_H
#include "../result_owner.h"
#include <kmgen/explore.h>

typedef struct km_explore_owner {
    km_explore_result result; // first: what the caller has
    km_result_owner *owner;   // of all memory, and of the warnings
    km_explored *explored;
    double *centroids;
    km_combined *combined;
    int64_t *counts, *ranking, *among_best;
    const double *centre, *factor; // d: of the table, the factor with the power of two
    int exponent;
} km_explore_owner;

km_status km_explore_create(km_explore_owner **out, km_error *err);
km_status km_explore_keep_names(km_explore_owner *out, const km_data *data, km_error *err);
// Order of the subsets, and how often each column is among the best.
km_status km_explore_rank(km_explore_owner *out, km_error *err);
km_rank_needs km_rank_needs_of(km_rank rank);

#endif

// SPDX-License-Identifier: MIT
// Which subsets of the columns are explored.
#ifndef KM_RUNTIME_EXPLORE_CHOOSE_H
#define KM_RUNTIME_EXPLORE_CHOOSE_H
#include "../../base/error.h"

// Columns that may be chosen, and those that every subset has.
typedef struct km_choice {
    const int32_t *always, *others; // ascending
    int64_t always_count, others_count;
    int64_t size_min, size_max; // of a subset, with those that it always has
} km_choice;

// How many subsets there are. A double: it is exact below 2^53.
double km_choice_count(const km_choice *choice);

// Subset number `index` in lexicographic order, the smaller sizes first: its columns, ascending, in `out`. Returns its
// size.
int64_t km_choice_subset(int32_t *out, const km_choice *choice, double index);

// `count` numbers of subsets, drawn by (seed, draw): each equally likely; ascending and different unless
// `with_replacement`. `possible` is km_choice_count, below 2^53, and no less than count where numbers differ.
km_status km_choice_draw(double *out, int64_t count, double possible, int with_replacement, uint64_t seed,
                         km_error *err);

#endif

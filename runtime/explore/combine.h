// SPDX-License-Identifier: MIT
// What several codes say together: the joint code of two or three of the best subsets as one code.
#ifndef KM_RUNTIME_EXPLORE_COMBINE_H
#define KM_RUNTIME_EXPLORE_COMBINE_H
#include "explored.h"
#include "outcome.h"

// Codes of the first `count` subsets of the ranking: code i at codes + i * n, k[i] labels.
typedef struct km_codes {
    const uint8_t *codes;
    int32_t k[KM_COMBINE_MAX];
    int64_t n, count;
    const double *weights; // or NULL
} km_codes;

// Fills result->combined, the best first.
km_status km_explore_combine(km_explore_owner *out, const km_codes *codes, const km_tally *tally,
                             const km_outcome *outcome, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// How alike two clusterings of the same points are.
#ifndef KM_RUNTIME_CRITERIA_STABILITY_H
#define KM_RUNTIME_CRITERIA_STABILITY_H
#include <stdint.h>

// The adjusted Rand index of two clusterings of n points into k clusters: 1 where they are the same but for their
// numbers, 0 where they agree as chance would. `counts`: room for k x k + 2 k numbers.
double km_adjusted_rand(const int32_t *a, const int32_t *b, int64_t n, int64_t k, int64_t *counts);

#endif

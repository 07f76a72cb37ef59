// SPDX-License-Identifier: MIT
// What is rounding and what is data.
#ifndef KM_RUNTIME_ROUNDING_H
#define KM_RUNTIME_ROUNDING_H
#include "seed.h"

// How far the mean of up to n equal points can lie from them, squared, relative to their squared size: sums
// run over blocks of KM_BLOCK_POINTS points in doubles, and each addition rounds by 2^-53 of the sum.
static inline double km_mean_rounding2(int64_t n) {
    double additions = (double)(n < KM_BLOCK_POINTS ? n : KM_BLOCK_POINTS) * 0x1p-52;
    return additions * additions;
}

#endif

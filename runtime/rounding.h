// SPDX-License-Identifier: MIT
// What is rounding and what is data.
#ifndef KM_RUNTIME_ROUNDING_H
#define KM_RUNTIME_ROUNDING_H
#include "seed.h"
#include <kmgen/kmgen.h>

// How far the mean of up to n equal points can lie from them, squared, relative to their squared size: sums
// run over blocks of KM_BLOCK_POINTS points in doubles, and each addition rounds by 2^-53 of the sum.
// Kernels of float32 may add a few groups of points in their own type first.
static inline double km_mean_rounding2(int64_t n, km_type type) {
    int64_t additions_max = type == KM_FLOAT32 ? 16 : KM_BLOCK_POINTS;
    double relative =
        (double)(n < additions_max ? n : additions_max) * (type == KM_FLOAT32 ? 0x1p-24 : 0x1p-52);
    return relative * relative;
}

#endif

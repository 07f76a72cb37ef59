// SPDX-License-Identifier: MIT
// Points that stand for all, drawn by seed.
#ifndef KM_RUNTIME_SAMPLE_H
#define KM_RUNTIME_SAMPLE_H
#include "../base/error.h"
#include <stdint.h>

// Draws `count` of the numbers 0 .. n - 1, ascending and without repetition, by seed.
km_status km_draw_points(int64_t *out, int64_t n, int64_t count, uint64_t seed, km_error *err);

// One of 0 .. n - 1 from part i of `count` equal parts: all parts are near a sample without order, and read forwards.
int64_t km_draw_of_part(uint64_t seed, uint64_t stream, int64_t i, int64_t count, int64_t n);

#endif

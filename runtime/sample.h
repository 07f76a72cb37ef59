// SPDX-License-Identifier: MIT
// Points that stand for all, drawn by seed.
#ifndef KM_RUNTIME_SAMPLE_H
#define KM_RUNTIME_SAMPLE_H
#include "../base/error.h"
#include "../gen/memory.h"
#include <stdint.h>

// Draws `count` of the numbers 0 .. n - 1, ascending and without repetition, by seed.
km_status km_draw_points(int64_t *out, int64_t n, int64_t count, uint64_t seed, km_error *err);

// One of 0 .. n - 1 from part i of `count` equal parts: all parts are near a sample without order, and read forwards.
int64_t km_draw_of_part(uint64_t seed, uint64_t stream, int64_t i, int64_t count, int64_t n);

// Where feature 0 of point i lies in a sample in tiles; feature f is f * KM_SAMPLE_TILE further on.
static inline int64_t km_tile_at(int64_t i, int64_t d) {
    return (i - i % KM_SAMPLE_TILE) * d + i % KM_SAMPLE_TILE;
}

// squares[KM_SAMPLE_TILE] of a tile's points x: |x - c|^2, the sum over features in index order.
void km_tile_squares(double *squares, const double *tile, const double *c, int64_t d);

// products[KM_SAMPLE_TILE] of a tile's points x: (x - c) . u, likewise.
void km_tile_products(double *products, const double *tile, const double *c, const double *u, int64_t d);

#endif

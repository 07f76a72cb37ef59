// SPDX-License-Identifier: MIT
#include "sample.h"
#include "seed.h"

#include <stdlib.h>
#include <string.h>

static int compare_numbers(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

km_status km_draw_points(int64_t *out, int64_t n, int64_t count, uint64_t seed, km_error *err) {
    uint8_t *taken = count < n ? calloc((size_t)(n / 8 + 1), 1) : NULL;
    if (count >= n) {
        for (int64_t i = 0; i < n; i++) out[i] = i;
        return KM_OK;
    }
    if (!taken) return km_fail_memory(err, "the set of drawn points", n / 8 + 1);
    uint64_t attempt = 0;
    for (int64_t drawn = 0; drawn < count;) {
        int64_t i = (int64_t)(km_draw(seed, UINT64_MAX, 0, attempt++) * (double)n);
        uint8_t bit = (uint8_t)(1u << (i & 7));
        if (taken[i >> 3] & bit) continue;
        taken[i >> 3] |= bit;
        out[drawn++] = i;
    }
    free(taken);
    qsort(out, (size_t)count, sizeof *out, compare_numbers);
    return KM_OK;
}

int64_t km_draw_of_part(uint64_t seed, uint64_t stream, int64_t i, int64_t count, int64_t n) {
    if (count == n) return i;
    int64_t row =
        (int64_t)(((double)i + km_draw(seed, stream, (uint64_t)i, 0)) * ((double)n / (double)count));
    return row < n ? row : n - 1;
}

// Vectors of two are what every machine has; eight of them stay in registers.
typedef double tile_vector __attribute__((vector_size(2 * sizeof(double)), aligned(sizeof(double))));

void km_tile_squares(double *squares, const double *tile, const double *c, int64_t d) {
    tile_vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (int64_t f = 0; f < d; f++) {
        const tile_vector *x = (const tile_vector *)(tile + f * KM_SAMPLE_TILE), at = {c[f], c[f]};
        tile_vector t0 = x[0] - at, t1 = x[1] - at, t2 = x[2] - at, t3 = x[3] - at;
        tile_vector t4 = x[4] - at, t5 = x[5] - at, t6 = x[6] - at, t7 = x[7] - at;
        s0 += t0 * t0, s1 += t1 * t1, s2 += t2 * t2, s3 += t3 * t3;
        s4 += t4 * t4, s5 += t5 * t5, s6 += t6 * t6, s7 += t7 * t7;
    }
    const tile_vector sums[KM_SAMPLE_TILE / 2] = {s0, s1, s2, s3, s4, s5, s6, s7};
    memcpy(squares, sums, sizeof sums);
}

void km_tile_products(double *products, const double *tile, const double *c, const double *u, int64_t d) {
    tile_vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (int64_t f = 0; f < d; f++) {
        const tile_vector *x = (const tile_vector *)(tile + f * KM_SAMPLE_TILE), at = {c[f], c[f]};
        const tile_vector by = {u[f], u[f]};
        s0 += by * (x[0] - at), s1 += by * (x[1] - at), s2 += by * (x[2] - at), s3 += by * (x[3] - at);
        s4 += by * (x[4] - at), s5 += by * (x[5] - at), s6 += by * (x[6] - at), s7 += by * (x[7] - at);
    }
    const tile_vector sums[KM_SAMPLE_TILE / 2] = {s0, s1, s2, s3, s4, s5, s6, s7};
    memcpy(products, sums, sizeof sums);
}

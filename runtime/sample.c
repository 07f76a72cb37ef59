// SPDX-License-Identifier: MIT
#include "sample.h"
#include "seed.h"

#include <stdlib.h>

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

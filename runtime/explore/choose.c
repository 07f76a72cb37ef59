// SPDX-License-Identifier: MIT
// Subsets in lexicographic order, and draws of them: counter-based, so that each is a function of seed and number.
#include "choose.h"
#include "../../templates/both.h"
#include "../../templates/draws.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Draws of subsets use words of their own, beside those of first centroids (restart, pick).
#define DRAW_SUBSET 0x5375627365747321ull

// Ways to choose m of n: exact below 2^53, then rounded.
static double ways(int64_t n, int64_t m) {
    double count = 1;
    if (m < 0 || m > n) return 0;
    if (m > n - m) m = n - m;
    for (int64_t i = 1; i <= m; i++) {
        count = count * (double)(n - m + i) / (double)i;
        if (count < 0x1p52) count = round(count);
    }
    return count;
}

double km_choice_count(const km_choice *choice) {
    double count = 0;
    for (int64_t size = choice->size_min; size <= choice->size_max; size++)
        count += ways(choice->others_count, size - choice->always_count);
    return count;
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int64_t km_choice_subset(int32_t *out, const km_choice *choice, double index) {
    int64_t size = choice->size_min, at = 0, left;
    for (; size < choice->size_max; size++) {
        double here = ways(choice->others_count, size - choice->always_count);
        if (index < here) break;
        index -= here;
    }
    for (int64_t i = 0; i < choice->always_count; i++) out[at++] = choice->always[i];
    left = size - at;
    for (int64_t i = 0; i < choice->others_count && left > 0; i++) {
        double with = ways(choice->others_count - i - 1, left - 1); // those that go on with this column
        if (index < with) {
            out[at++] = choice->others[i];
            left--;
        } else {
            index -= with;
        }
    }
    qsort(out, (size_t)at, sizeof *out, by_number);
    return at;
}

// A set of numbers: open addressing, at most half full.
typedef struct number_set {
    double *places;
    int64_t size; // a power of two
} number_set;

// Returns 0 where it is there already.
static int set_add(number_set *set, double number) {
    uint64_t at = km_mix64((uint64_t)number) & (uint64_t)(set->size - 1);
    while (set->places[at] >= 0) {
        if (set->places[at] == number) return 0;
        at = (at + 1) & (uint64_t)(set->size - 1);
    }
    set->places[at] = number;
    return 1;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Without replacement: Floyd's way (Bentley and Floyd, "A sample of brilliance", 1987), one draw a number.
km_status km_choice_draw(double *out, int64_t count, double possible, int with_replacement, uint64_t seed,
                         km_error *err) {
    number_set set = {NULL, 16};
    if (with_replacement) {
        for (int64_t i = 0; i < count; i++)
            out[i] = floor(km_draw(seed, DRAW_SUBSET, 0, (uint64_t)i) * possible);
        return KM_OK;
    }
    while (set.size < 2 * count) set.size *= 2;
    set.places = malloc((size_t)set.size * sizeof *set.places);
    if (!set.places) return km_fail_memory(err, "the drawn subsets", set.size * 8);
    for (int64_t i = 0; i < set.size; i++) set.places[i] = -1;
    for (int64_t i = 0; i < count; i++) {
        double last = possible - (double)(count - i);
        double number = floor(km_draw(seed, DRAW_SUBSET, 0, (uint64_t)i) * (last + 1));
        if (!set_add(&set, number)) set_add(&set, number = last);
        out[i] = number;
    }
    free(set.places);
    qsort(out, (size_t)count, sizeof *out, by_value);
    return KM_OK;
}

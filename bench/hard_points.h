// SPDX-License-Identifier: MIT
// Points that are hard on rounding, for programs that check labels: the same for a kind and a seed. Uniform; twelve
// blobs that touch; integers with many exact ties; features of different scales; one point at 1e6 beside normal data.
#ifndef KM_BENCH_HARD_POINTS_H
#define KM_BENCH_HARD_POINTS_H
#include <stdint.h>

enum { HARD_BLOBS = 12, HARD_GRID = 10, HARD_KINDS = 5 };
static const char *const hard_kinds[HARD_KINDS] = {"uniform", "blobs", "ties", "scales", "outlier"};

static inline uint64_t hard_mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline double hard_uniform(uint64_t bits) { // -1 to 1
    return (double)(bits >> 11) * 0x1p-52 - 1;
}

static inline double hard_normal(uint64_t bits) { // of twelve sums, near enough
    double sum = 0;
    for (uint64_t i = 0; i < 12; i++) sum += hard_uniform(hard_mix(bits + i * 0x632be59bd9b4e019u));
    return sum / 2;
}

static inline double hard_value(int kind, uint64_t seed, int64_t i, int64_t f, int64_t d) {
    static const double scales[] = {1000, 1, 0.01, 30};
    uint64_t bits = hard_mix(seed * 0xd1b54a32d192ed03u + (uint64_t)(i * d + f));
    switch (kind) {
    case 0:
        return hard_uniform(bits);
    case 1:
        return 5 * hard_uniform(hard_mix((uint64_t)(i % HARD_BLOBS * d + f) + (seed << 32))) +
               hard_normal(bits);
    case 2:
        return (double)(bits % HARD_GRID);
    case 3:
        return hard_normal(bits) * scales[f % 4];
    default:
        return i == 12345 ? 1e6 : hard_normal(bits);
    }
}

#endif

// SPDX-License-Identifier: MIT
// The k-means++ chains, stated exactly, so that every backend draws the same picks in exact arithmetic.
//
// Chain of restart r, pick p = 0, 1, ...:
//   candidates: L(0) = 1; L(p) = 2 + floor(ln(p + 1)) for p > 0: a function of the pick alone, so that the first K
//   picks of a chain are a seeding for K, whatever max(K) is.
//   draw: u = km_draw(seed, r, p, candidate) in [0, 1); target = u * total, where total = sum of w_i D2_i (pick 0:
//   of w_i) over fixed blocks of 65,536 points, added in index order; the candidate is the first point at which the
//   running sum exceeds the target (a point with w_i D2_i = 0 is never drawn).
//   choice: the candidate with the smallest sum of w_i min(D2_i, |x_i - candidate|^2), ties to the lowest candidate.
//   When total is 0 (no more distinct points) the pick is point floor(u * n).
// Distances are in the difference form in the plan's type; block sums are doubles, of terms that may each be the sum of
// up to four points' distances in the plan's type (exact where distances are integers below 2^22).
// Source: Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007 (section 2, and
// the greedy variant of its section 7).
#ifndef KM_RUNTIME_SEED_H
#define KM_RUNTIME_SEED_H
#include <stdint.h>

// Points of a fixed block: the unit of every ordered sum over points, on every backend.
#define KM_BLOCK_POINTS 65536

// Counter-based random bits: the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over the counter words.
static inline uint64_t km_mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t km_draw_bits(uint64_t seed, uint64_t restart, uint64_t pick, uint64_t candidate) {
    uint64_t z = km_mix64(seed + 0x9e3779b97f4a7c15u);
    z = km_mix64(z + restart * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u);
    z = km_mix64(z + pick * 0x9e3779b97f4a7c15u + 0xd1b54a32d192ed03u);
    return km_mix64(z + candidate * 0x9e3779b97f4a7c15u + 0x8cb92ba72f3d8dd7u);
}

// Uniform in [0, 1), 53 bits.
static inline double km_draw(uint64_t seed, uint64_t restart, uint64_t pick, uint64_t candidate) {
    return (double)(km_draw_bits(seed, restart, pick, candidate) >> 11) * 0x1p-53;
}

static inline int km_candidates(int64_t pick) {
    if (pick == 0) return 1;
    // floor(ln(p + 1)) without the math library: powers of e, rounded up, as thresholds.
    static const int64_t step[] = {3, 8, 21, 55, 149, 404, 1097, 2981, 8104, 22027, 59875};
    int count = 2;
    for (int i = 0; i < 11 && pick + 1 >= step[i]; i++) count++;
    return count;
}

#endif

// SPDX-License-Identifier: MIT
// The k-means++ chains, stated exactly, so that every backend draws the same picks in exact arithmetic.
//
// Chain of restart r, pick p = 0, 1, ...:
//   candidates: L(0) = 1; L(p) = max(4, 2 + floor(ln(p + 1))) for p > 0: a function of the pick alone, so that the
//   first K picks of a chain are a seeding for K, whatever max(K) is. The usual count is 2 + floor(ln(K)) for all picks
//   of a K; 4 is that of K = 8 to 20, and with it no K up to 20 has fewer.
//   draw: u = km_draw(seed, r, p, candidate) in [0, 1); target = u * total, where total = sum of w_i D2_i (pick 0:
//   of w_i) over chunks of 65,536 points, added in index order; the candidate is the first point at which the
//   running sum exceeds the target (a point with w_i D2_i = 0 is never drawn). templates/draws.h has km_draw.
//   choice: the candidate with the smallest sum of w_i min(D2_i, |x_i - candidate|^2), ties to the lowest candidate.
//   When total is 0 (no more distinct points) the pick is point floor(u * n).
// Distances are in the difference form in the plan's type; a chunk's sum is a double; each of its terms may be the
// sum of four points' distances in the plan's type, which is exact where distances are integers below 2^22.
// Source: Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007 (section 2, and
// the greedy variant of its section 7).
#ifndef KM_RUNTIME_SEED_H
#define KM_RUNTIME_SEED_H
#include "../templates/both.h"
#include <stdint.h>

// Points of a chunk: on every backend the partial sums of chunks are added in index order.
#define KM_CHUNK_POINTS 65536

static inline int km_candidates(int64_t pick) {
    if (pick == 0) return 1;
    // The logarithm without the math library: powers of e, rounded up, as thresholds.
    static const int64_t step[] = {21, 55, 149, 404, 1097, 2981, 8104, 22027, 59875};
    int count = 4;
    for (int i = 0; i < 9 && pick + 1 >= step[i]; i++) count++;
    return count;
}

// The first of `count` sums from `first` on at which the running sum exceeds the target; *running becomes the sum
// before it. Rounding may leave the target beyond the last sum: then the last one that is not 0.
static inline int64_t km_draw_among(double *running, const double *sums, int64_t first, int64_t count,
                                    double target) {
    int64_t last = first;
    double before = *running, sum = *running;
    for (int64_t i = first; i < first + count; i++) {
        if (!(sums[i] > 0)) continue;
        last = i;
        before = sum;
        sum += sums[i];
        if (sum > target) break;
    }
    *running = before;
    return last;
}

#endif

// SPDX-License-Identifier: MIT
// What is rounding and what is data.
#ifndef KM_RUNTIME_ROUNDING_H
#define KM_RUNTIME_ROUNDING_H
#include "seed.h"
#include <kmgen/kmgen.h>
#include <math.h>

// How far the mean of up to n equal points can lie from them, squared, relative to their squared size: sums
// run over blocks of KM_CHUNK_POINTS points in doubles, and each addition rounds by 2^-53 of the sum.
// Kernels of float32 may add a few groups of points in their own type first.
static inline double km_mean_rounding2(int64_t n, km_type type) {
    int64_t additions_max = type == KM_FLOAT32 ? 16 : KM_CHUNK_POINTS;
    double relative =
        (double)(n < additions_max ? n : additions_max) * (type == KM_FLOAT32 ? 0x1p-24 : 0x1p-52);
    return relative * relative;
}

// How far two costs of one clustering (k x d centroids, k weights, n points) can lie apart that other restarts,
// algorithms or kernels found: total_square + sum_j (w_j |c_j|^2 - 2 c_j . S_j) in double, u = 2^-53.
//
// - k additions on the scale of total_square, in another order: u total_square each.
// - S_j: a point is added to the sums of a block of up to KM_CHUNK_POINTS, and blocks to the total, again for each
//   pass that moves points: no more than m_j = min(n_j, KM_CHUNK_POINTS + n / 4096) additions, which leaves
//   u |c_j| w_j |c_j| each. total_square itself, wrong or not, is the same number in all costs.
//
// Rounding errors behave like a random walk: m of them add up to about sqrt(m) / 2 (m, where all err to one side, is
// never seen), so 4 sqrt(m) holds every pair of costs with room to spare: at most 0.15 of it was seen between restarts
// of one optimum (20,011 points, 2 to 6 features, 30 restarts, weights, float64), and the next other optimum was 10^5
// of it away. It is 10^-12 of the inertia of such data. Where one point is 10^6 times as far from the mean as the
// others from their centroids, and alone in its cluster, m_j is 1, and what is left is what that point's square takes
// from double.
//
// Float32 has nothing of its own here: centroids are floats, the sums are doubles; where CUDA's `registers` adds a
// thread's points as floats, those of one cluster are the same points in the same order whatever its number is.
static inline double km_cost_rounding(const double *centroids, const double *weights, int64_t k, int64_t d,
                                      int64_t n, double total_square) {
    double total_weight = 0, sum = sqrt((double)k) * total_square;
    for (int64_t j = 0; j < k; j++) total_weight += weights[j];
    for (int64_t j = 0; j < k && total_weight > 0; j++) {
        double square = 0, points = (double)n * weights[j] / total_weight;
        for (int64_t f = 0; f < d; f++) square += centroids[j * d + f] * centroids[j * d + f];
        sum += sqrt(fmin(points, KM_CHUNK_POINTS + (double)n / 4096)) * weights[j] * square;
    }
    return 4 * 0x1p-53 * sum;
}

#endif

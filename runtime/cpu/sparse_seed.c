// SPDX-License-Identifier: MIT
// k-means++ over points that lie as CSR: the candidates of all chains are columns of one table of doubles.
#include "../../base/size.h"
#include "cpu.h"
#include "sparse_engine.h"

#include <math.h>

// |x - p|^2 from |x|^2, the score and |p|^2; 0 where that may be rounding, so that a point on a pick is never drawn.
static inline double distance_of(double square, double score, double pick) {
    const double distance = square + 2 * score;
    return distance > SPARSE_SEED_ROUNDING * (square + pick) ? distance : 0;
}

// Writes minus a point's values, or zeros, into a column.
static void put(const cpu_sparse_table *table, const km_sparse_points *points, int64_t column, int64_t point,
                double sign) {
    double *rows = (double *)(uintptr_t)table->rows + column, square = 0;
    for (int64_t at = km_sparse_first(points, point); at < km_sparse_end(points, point); at++) {
        double value = km_sparse_value(points, at);
        rows[km_sparse_column(points, at) * table->stride] = sign * value;
        square = fma(value, value, square);
    }
    ((double *)(uintptr_t)table->constants)[column] = 0.5 * square;
}

void km_cpu_sparse_seed_put(const cpu_sparse_table *table, const cpu_engine *engine, int64_t column,
                            int64_t point) {
    put(table, &engine->sparse->points, column, point, -1);
}

void km_cpu_sparse_seed_clear(const cpu_sparse_table *table, const cpu_engine *engine, int64_t column,
                              int64_t point) {
    put(table, &engine->sparse->points, column, point, 0);
}

double km_cpu_sparse_square(const cpu_engine *engine, int64_t point, int64_t pick) {
    const km_sparse_points *points = &engine->sparse->points;
    int64_t a = km_sparse_first(points, point), a_end = km_sparse_end(points, point);
    int64_t b = km_sparse_first(points, pick), b_end = km_sparse_end(points, pick);
    double score = 0, square = 0, pick_square = 0;
    for (int64_t at = b; at < b_end; at++)
        pick_square = fma(km_sparse_value(points, at), km_sparse_value(points, at), pick_square);
    for (; a < a_end; a++) {
        double value = km_sparse_value(points, a);
        int64_t column = km_sparse_column(points, a);
        square = fma(value, value, square);
        while (b < b_end && km_sparse_column(points, b) < column) b++;
        if (b < b_end && km_sparse_column(points, b) == column)
            score = fma(value, -km_sparse_value(points, b), score);
    }
    return distance_of(square, score + 0.5 * pick_square, pick_square);
}

// One chain and up to SPARSE_AT_A_TIME points. A macro for both types of `nearest`.
#define CHAIN(name, real)                                                                                    \
    static void name(const cpu_sparse_chain *chain, const double *scores, int64_t stride,                    \
                     const double *constants, const double *squares, const double *weights, real *nearest,   \
                     int64_t count) {                                                                        \
        const double *pick = constants + chain->column;                                                      \
        int64_t candidates = chain->candidates_count;                                                        \
        for (int64_t r = 0; r < count; r++) {                                                                \
            const double *score = scores + r * stride + chain->column, weight = weights ? weights[r] : 1.0;  \
            if (chain->has_chosen) {                                                                         \
                const real square = (real)distance_of(squares[r], score[candidates], 2 * pick[candidates]);  \
                nearest[r] = square < nearest[r] ? square : nearest[r];                                      \
            }                                                                                                \
            const real least = nearest[r];                                                                   \
            for (int64_t a = 0; a < candidates; a++) {                                                       \
                const real square = (real)distance_of(squares[r], score[a], 2 * pick[a]);                    \
                chain->potentials[a] += weight * (double)(square < least ? square : least);                  \
            }                                                                                                \
        }                                                                                                    \
    }
CHAIN(chain_float32, float)
CHAIN(chain_float64, double)

void km_cpu_sparse_seed(const cpu_engine *engine, const cpu_sparse_table *table, double *scores,
                        const cpu_sparse_chain *chains, int64_t chains_count, int64_t first, int64_t count) {
    const double *squares = km_cpu_sparse_squares(scores, table), *constants = table->constants;
    for (int64_t c = 0; c < chains_count; c++)
        for (int64_t a = 0; a < chains[c].candidates_count; a++) chains[c].potentials[a] = 0;
    for (int64_t at = first; at < first + count; at += SPARSE_AT_A_TIME) {
        int64_t here = km_min(SPARSE_AT_A_TIME, first + count - at);
        const double *weights = cpu_weights_at(engine, at);
        km_cpu_sparse_scores(scores, engine, table, at, here);
        for (int64_t c = 0; c < chains_count; c++)
            if (engine->real_bytes == 4)
                chain_float32(&chains[c], scores, table->stride, constants, squares, weights,
                              (float *)chains[c].nearest + at, here);
            else
                chain_float64(&chains[c], scores, table->stride, constants, squares, weights,
                              (double *)chains[c].nearest + at, here);
    }
}

// SPDX-License-Identifier: MIT
// k-means++ over points that lie as CSR: the candidates of all chains are columns of one table of doubles.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../threads.h"
#include "sparse_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A chain that takes part in a pass, and its first column.
typedef struct listed_chain {
    const cpu_seed_chain *chain;
    int64_t column;
} listed_chain;

// |x - p|^2 from |x|^2, the score and |p|^2; 0 where that may be rounding, so that a point on a pick is never drawn.
static inline double distance_of(double square, double score, double pick) {
    const double distance = square + 2 * score;
    return distance > SPARSE_SEED_ROUNDING * (square + pick) ? distance : 0;
}

typedef struct seed_table {
    cpu_sparse_table table; // columns: each chain's candidates, then its last pick, where there is one
    void *memory;
    double *scores;     // of each thread
    listed_chain *list; // of the chains that take part
    int64_t listed;
} seed_table;

void km_cpu_sparse_seed_destroy(cpu_seed_pass *pass) {
    seed_table *own = pass->own;
    if (!own) return;
    km_pages_free(own->memory);
    free(own->scores);
    free(own->list);
    free(own);
}

// Columns for the most candidates that a pick has, and for the last picks.
km_status km_cpu_sparse_seed_create(cpu_seed_pass *pass, km_error *err) {
    const cpu_engine *engine = pass->engine;
    int64_t columns = pass->chains_count * (km_candidates(pass->picks - 1) + 1);
    seed_table *own = pass->own = calloc(1, sizeof *own);
    if (!own) return km_fail_memory(err, "scores of candidates", (int64_t)sizeof *own);
    KM_TRY(km_cpu_sparse_wide_table(&own->table, &own->memory, engine, columns, err));
    int64_t count = engine->threads * km_cpu_sparse_scores_count(&own->table);
    own->scores = malloc((size_t)count * sizeof *own->scores);
    own->list = calloc((size_t)pass->chains_count, sizeof *own->list);
    return own->scores && own->list ? KM_OK : km_fail_memory(err, "scores of candidates", count * 8);
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

// The columns of all chains' candidates and last picks: minus their points, or cleared from that.
static void columns_put(cpu_seed_pass *pass, double sign) {
    seed_table *own = pass->own;
    const km_sparse_points *points = &pass->engine->sparse->points;
    int64_t column = 0;
    own->listed = 0;
    for (int64_t c = 0; c < pass->chains_count; c++) {
        const cpu_seed_chain *chain = &pass->chains[c];
        if (chain->candidates_count == 0) continue;
        own->list[own->listed++] = (listed_chain){.chain = chain, .column = column};
        for (int64_t a = 0; a < chain->candidates_count; a++)
            put(&own->table, points, column++, chain->candidates[a], sign);
        if (chain->chosen >= 0) put(&own->table, points, column++, chain->chosen, sign);
    }
    own->table.columns = column;
}

void km_cpu_sparse_seed_begin(cpu_seed_pass *pass) {
    columns_put(pass, -1);
}

void km_cpu_sparse_seed_end(cpu_seed_pass *pass) {
    columns_put(pass, 0);
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
    square = distance_of(square, score + 0.5 * pick_square, pick_square);
    return engine->real_bytes == 4 ? (double)(float)square : square;
}

// One chain and up to SPARSE_AT_A_TIME points. A macro for both types of `nearest`.
#define CHAIN(name, real)                                                                                    \
    static void name(const listed_chain *listed, double *potentials, const double *scores, int64_t stride,   \
                     const double *constants, const double *squares, const double *weights, int64_t first,   \
                     int64_t count) {                                                                        \
        const double *pick = constants + listed->column;                                                     \
        real *nearest = (real *)(void *)listed->chain->nearest + first;                                      \
        int64_t candidates = listed->chain->candidates_count, has_chosen = listed->chain->chosen >= 0;       \
        for (int64_t r = 0; r < count; r++) {                                                                \
            const double *score = scores + r * stride + listed->column, weight = weights ? weights[r] : 1.0; \
            if (has_chosen) {                                                                                \
                const real square = (real)distance_of(squares[r], score[candidates], 2 * pick[candidates]);  \
                nearest[r] = square < nearest[r] ? square : nearest[r];                                      \
            }                                                                                                \
            const real least = nearest[r];                                                                   \
            for (int64_t a = 0; a < candidates; a++) {                                                       \
                const real square = (real)distance_of(squares[r], score[a], 2 * pick[a]);                    \
                potentials[a] += weight * (double)(square < least ? square : least);                         \
            }                                                                                                \
        }                                                                                                    \
    }
CHAIN(chain_float32, float)
CHAIN(chain_float64, double)

void km_cpu_sparse_seed_subchunk(cpu_seed_pass *pass, int64_t subchunk, int64_t first, int64_t count) {
    const cpu_engine *engine = pass->engine;
    const seed_table *own = pass->own;
    const cpu_sparse_table *table = &own->table;
    double *scores = own->scores + omp_get_thread_num() * km_cpu_sparse_scores_count(table);
    const double *squares = km_cpu_sparse_squares(scores, table), *constants = table->constants;
    for (int64_t c = 0; c < own->listed; c++)
        memset(own->list[c].chain->potentials + subchunk * SEED_CANDIDATES_MAX, 0,
               (size_t)own->list[c].chain->candidates_count * sizeof(double));
    for (int64_t at = first; at < first + count; at += SPARSE_AT_A_TIME) {
        int64_t here = km_min(SPARSE_AT_A_TIME, first + count - at);
        const double *weights = cpu_weights_at(engine, at);
        km_cpu_sparse_scores(scores, engine, table, at, here);
        for (int64_t c = 0; c < own->listed; c++)
            (engine->real_bytes == 4 ? chain_float32 : chain_float64)(
                &own->list[c], own->list[c].chain->potentials + subchunk * SEED_CANDIDATES_MAX, scores,
                table->stride, constants, squares, weights, at, here);
    }
}

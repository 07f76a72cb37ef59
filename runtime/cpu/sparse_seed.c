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

// The table of candidates has a row a feature. Where that is more than a cache holds, it has one a feature that some
// candidate has, and a first one of zeros: rows of points are given the numbers of these in place of their features.
typedef struct seed_table {
    cpu_sparse_table table; // columns: each chain's candidates, then its last pick, where there is one
    void *memory;
    double *scores;     // of each thread
    listed_chain *list; // of the chains that take part
    int64_t listed;
    uint32_t *ids;         // d: a feature's row of the compact table; NULL: there is none
    uint32_t *indices;     // of each thread: indices_count of some points
    int64_t indices_count; // at least those of the longest row
    int64_t rows;          // of the compact table in this pass, without the first; -1: it has a row a feature
} seed_table;

enum {
    COMPACT_NONZEROS = 1 << 14, // of points whose features are looked up together
    COMPACT_PAD = 16            // indices behind the last that may be read
};

void km_cpu_sparse_seed_destroy(cpu_seed_pass *pass) {
    seed_table *own = pass->own;
    if (!own) return;
    km_pages_free(own->memory);
    free(own->scores);
    free(own->list);
    free(own->ids);
    free(own->indices);
    free(own);
}

static km_status compact_create(seed_table *own, const cpu_engine *engine, km_error *err) {
    const km_sparse_points *points = &engine->sparse->points;
    own->indices_count = COMPACT_NONZEROS;
    for (int64_t i = 0; i < points->n; i++)
        own->indices_count =
            km_max(own->indices_count, km_sparse_end(points, i) - km_sparse_first(points, i));
    int64_t count = engine->threads * (own->indices_count + COMPACT_PAD);
    own->ids = calloc((size_t)engine->base.d, sizeof *own->ids);
    own->indices = calloc((size_t)count, sizeof *own->indices);
    return own->ids && own->indices ? KM_OK : km_fail_memory(err, "features of candidates", count * 4);
}

// Columns for the most candidates that a pick has, and for the last picks.
km_status km_cpu_sparse_seed_create(cpu_seed_pass *pass, km_error *err) {
    const cpu_engine *engine = pass->engine;
    int64_t columns = pass->chains_count * (km_candidates(pass->picks - 1) + 1);
    seed_table *own = pass->own = calloc(1, sizeof *own);
    if (!own) return km_fail_memory(err, "scores of candidates", (int64_t)sizeof *own);
    KM_TRY(km_cpu_sparse_double_table(&own->table, &own->memory, engine, columns, err));
    if (own->table.is_large) KM_TRY(compact_create(own, engine, err));
    int64_t count = engine->threads * km_cpu_sparse_scores_count(&own->table);
    own->scores = malloc((size_t)count * sizeof *own->scores);
    own->list = calloc((size_t)pass->chains_count, sizeof *own->list);
    return own->scores && own->list ? KM_OK : km_fail_memory(err, "scores of candidates", count * 8);
}

static int64_t nonzeros_of(const km_sparse_points *points, int64_t first, int64_t count) {
    return km_sparse_end(points, first + count - 1) - km_sparse_first(points, first);
}

// Writes minus a point's values into a column.
static void put(seed_table *own, const km_sparse_points *points, int64_t column, int64_t point) {
    const cpu_sparse_table *table = &own->table;
    double *rows = (double *)(uintptr_t)table->rows + column, square = 0;
    for (int64_t at = km_sparse_first(points, point); at < km_sparse_end(points, point); at++) {
        double value = km_sparse_value(points, at);
        int64_t row = km_sparse_column(points, at);
        if (own->rows >= 0) {
            if (!own->ids[row]) own->ids[row] = (uint32_t)++own->rows;
            row = own->ids[row];
        }
        rows[row * table->stride] = -value;
        square = fma(value, value, square);
    }
    ((double *)(uintptr_t)table->constants)[column] = 0.5 * square;
}

// Clears a column from that.
static void clear(seed_table *own, const km_sparse_points *points, int64_t column, int64_t point) {
    double *rows = (double *)(uintptr_t)own->table.rows + column;
    for (int64_t at = km_sparse_first(points, point); at < km_sparse_end(points, point); at++) {
        int64_t f = km_sparse_column(points, at);
        if (own->rows < 0)
            rows[f * own->table.stride] = 0;
        else
            own->ids[f] = 0;
    }
}

// Calls `take` for the candidates and last picks of all chains, and their columns. Returns how many columns there are.
static int64_t each_column(const cpu_seed_pass *pass,
                           void (*take)(seed_table *own, const km_sparse_points *points, int64_t column,
                                        int64_t point)) {
    const km_sparse_points *points = &pass->engine->sparse->points;
    int64_t column = 0;
    for (int64_t c = 0; c < pass->chains_count; c++) {
        const cpu_seed_chain *chain = &pass->chains[c];
        if (chain->candidates_count == 0) continue;
        for (int64_t a = 0; a < chain->candidates_count; a++)
            take(pass->own, points, column++, chain->candidates[a]);
        if (chain->chosen >= 0) take(pass->own, points, column++, chain->chosen);
    }
    return column;
}

static void count_nonzeros(seed_table *own, const km_sparse_points *points, int64_t column, int64_t point) {
    (void)column;
    own->rows += nonzeros_of(points, point, 1);
}

void km_cpu_sparse_seed_begin(cpu_seed_pass *pass) {
    seed_table *own = pass->own;
    const cpu_engine *engine = pass->engine;
    int64_t column = own->rows = own->listed = 0;
    each_column(pass, count_nonzeros);
    own->rows = own->ids && own->rows < engine->base.d ? 0 : -1; // the last row would be the constants'
    own->table.columns = each_column(pass, put);
    if (own->rows >= 0)
        own->table.is_large = (own->rows + 1) * own->table.stride * (int64_t)sizeof(double) >
                              engine->base.plan->facts.cache_bytes;
    for (int64_t c = 0; c < pass->chains_count; c++) {
        const cpu_seed_chain *chain = &pass->chains[c];
        if (chain->candidates_count == 0) continue;
        own->list[own->listed++] = (listed_chain){.chain = chain, .column = column};
        column += chain->candidates_count + (chain->chosen >= 0);
    }
}

void km_cpu_sparse_seed_end(cpu_seed_pass *pass) {
    seed_table *own = pass->own;
    each_column(pass, clear);
    if (own->rows >= 0)
        memset((void *)(uintptr_t)own->table.rows, 0,
               (size_t)((own->rows + 1) * own->table.stride) * sizeof(double));
    own->table.is_large = own->ids != NULL;
}

// km_cpu_sparse_scores, by the compact table.
static void compact_scores(double *scores, const seed_table *own, const cpu_engine *engine, int64_t first,
                           int64_t count) {
    const km_sparse_points *points = &engine->sparse->points;
    uint32_t *indices = own->indices + omp_get_thread_num() * (own->indices_count + COMPACT_PAD);
    double *squares = scores + SPARSE_AT_A_TIME * own->table.stride;
    uint32_t starts[SPARSE_AT_A_TIME + 1];
    for (int64_t r = 0, here; r < count; r += here) {
        here = count - r;
        while (here > 1 && nonzeros_of(points, first + r, here) > own->indices_count) here /= 2;
        int64_t from = km_sparse_first(points, first + r), nonzeros = nonzeros_of(points, first + r, here);
        for (int64_t i = 0; i < nonzeros; i++) indices[i] = own->ids[km_sparse_column(points, from + i)];
        for (int64_t i = 0; i < here; i++)
            starts[i] = (uint32_t)(km_sparse_first(points, first + r + i) - from);
        starts[here] = (uint32_t)nonzeros;
        cpu_sparse_rows rows = {.count = here,
                                .starts = starts,
                                .indices = indices,
                                .values = (const uint8_t *)points->values + from * points->real_bytes,
                                .index_bytes = sizeof *indices};
        engine->sparse->kernels->scores(scores + r * own->table.stride, squares + r, &rows, &own->table);
    }
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

_Static_assert((int)SPARSE_CANDIDATES_MAX >= (int)SEED_CANDIDATES_MAX, "candidates of a pick");

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
        if (own->rows >= 0)
            compact_scores(scores, own, engine, at, here);
        else
            km_cpu_sparse_scores(scores, engine, table, at, here);
        for (int64_t c = 0; c < own->listed; c++) {
            const listed_chain *listed = &own->list[c];
            const cpu_seed_chain *of = listed->chain;
            cpu_sparse_chain chain = {.nearest = of->nearest + at * engine->real_bytes,
                                      .potentials = of->potentials + subchunk * SEED_CANDIDATES_MAX,
                                      .scores = scores + listed->column,
                                      .picks = constants + listed->column,
                                      .squares = squares,
                                      .weights = weights,
                                      .stride = table->stride,
                                      .candidates = of->candidates_count,
                                      .has_last = of->chosen >= 0};
            engine->sparse->kernels->chain(&chain, here);
        }
    }
}

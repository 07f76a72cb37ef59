// SPDX-License-Identifier: MIT
// Rows of CSR points, and tables of centroids in double with their scores: for the steps around the pass.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../pages.h"
#include "cpu.h"
#include "sparse_engine.h"

#include <stdlib.h>
#include <string.h>

void km_cpu_sparse_rows(cpu_sparse_rows *out, const cpu_engine *engine, int64_t first, int64_t count) {
    const km_sparse_points *points = &engine->sparse->points;
    int64_t chunk = first / KM_CHUNK_POINTS, at = points->chunk_first[chunk];
    *out = (cpu_sparse_rows){.count = count,
                             .starts = points->starts + chunk * KM_SPARSE_STARTS + first % KM_CHUNK_POINTS,
                             .indices = (const uint8_t *)points->indices + at * points->index_bytes,
                             .values = (const uint8_t *)points->values + at * points->real_bytes,
                             .index_bytes = points->index_bytes};
}

km_status km_cpu_sparse_double_table(cpu_sparse_table *table, void **memory, const cpu_engine *engine,
                                     int64_t columns, km_error *err) {
    int64_t d = engine->base.d, stride = km_round_up(columns, SPARSE_COLUMNS), bytes;
    *memory = NULL;
    if (km_mul_overflows(&bytes, (d + 1) * stride, (int64_t)sizeof(double)))
        return km_fail(err, KM_ERROR_MEMORY, "%lld x %lld centroids are too many for this machine",
                       (long long)columns, (long long)d);
    double *rows = km_pages_alloc(bytes);
    if (!rows) return km_fail_memory(err, "centroids side by side", bytes);
    memset(rows, 0, (size_t)bytes);
    *memory = rows;
    *table = (cpu_sparse_table){.rows = rows,
                                .constants = rows + d * stride,
                                .columns = columns,
                                .stride = stride,
                                .is_large = bytes > engine->base.plan->facts.cache_bytes};
    return KM_OK;
}

void km_cpu_sparse_fill(const cpu_sparse_table *table, const cpu_engine *engine,
                        const double *const *centroids) {
    int64_t d = engine->base.d, stride = table->stride, columns = table->columns;
    double *rows = (double *)(uintptr_t)table->rows, *constants = (double *)(uintptr_t)table->constants;
    int threads = d * columns > SPARSE_PARALLEL_MIN ? (int)engine->threads : 1;
    (void)threads;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t first = 0; first < d; first += SPARSE_FEATURES_AT_A_TIME)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t f = first; f < km_min(first + SPARSE_FEATURES_AT_A_TIME, d); f++)
                rows[f * stride + j] = -centroids[j][f];
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t j = 0; j < columns; j++)
        constants[j] = 0.5 * engine->sparse->kernels->square(centroids[j], d);
}

void km_cpu_sparse_scores(double *scores, const cpu_engine *engine, const cpu_sparse_table *table,
                          int64_t first, int64_t count) {
    cpu_sparse_rows rows;
    km_cpu_sparse_rows(&rows, engine, first, count);
    engine->sparse->kernels->scores(scores, scores + SPARSE_AT_A_TIME * table->stride, &rows, table);
}

// SPDX-License-Identifier: MIT
// Load of CSR points: the host packs them (runtime/sparse.c) and the device gets copies, all in one allocation.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../sparse.h"
#include "cuda.h"
#include <stdlib.h>

_Static_assert((int)KM_SPARSE_CHUNK == (int)KM_CHUNK_POINTS, "chunks are the same on both sides");

// What is copied, in this order.
typedef struct piece {
    const void *from;
    int64_t bytes;
} piece;
enum { CHUNK_FIRST, STARTS, NORMS, LONG_ROWS, INDICES, VALUES, PIECES };

static int64_t aligned(int64_t bytes) {
    return km_round_up(bytes, KM_ALIGN_BYTES);
}

// The numbers of the long rows, to be freed; NULL where memory is short.
static int64_t *list_long_rows(int64_t *count, const km_sparse_points *points) {
    int64_t *rows = NULL;
    *count = 0;
    for (int fill = 0; fill <= 1; fill++) {
        if (fill && !(rows = malloc((size_t)(*count + 1) * sizeof *rows))) return NULL;
        *count = 0;
        for (int64_t i = 0; i < points->n; i++) {
            if (km_sparse_end(points, i) - km_sparse_first(points, i) <= KM_SPARSE_LONG) continue;
            if (fill) rows[*count] = i;
            ++*count;
        }
    }
    return rows;
}

static km_status send(km_cuda_engine *engine, const km_sparse_points *points, const int64_t *long_rows,
                      int64_t long_count, km_error *err) {
    int64_t chunks = engine->chunks_count, bytes = aligned(sizeof(km_sparse_table));
    const piece pieces[PIECES] = {
        [CHUNK_FIRST] = {points->chunk_first, (chunks + 1) * 8},
        [STARTS] = {points->starts, chunks * (KM_CHUNK_POINTS + 1) * 4},
        [NORMS] = {points->norms, points->n * 4},
        [LONG_ROWS] = {long_rows, long_count * 8},
        [INDICES] = {points->indices, points->nonzeros * points->index_bytes},
        [VALUES] = {points->values, points->nonzeros * points->real_bytes},
    };
    for (int i = 0; i < PIECES; i++) bytes += aligned(pieces[i].bytes);
    KM_TRY(km_cuda_reserve_far(engine, &engine->points, bytes, km_cuda_near_bytes(engine),
                               "the table of points", err));
    const void *at[PIECES];
    km_cu_ptr to = engine->points.address + (km_cu_ptr)aligned(sizeof(km_sparse_table));
    double begin_ms = km_now_ms();
    for (int i = 0; i < PIECES; to += (km_cu_ptr)aligned(pieces[i++].bytes)) {
        at[i] = (const void *)(uintptr_t)to;
        if (pieces[i].bytes > 0)
            KM_TRY(km_cuda_upload(engine, to, pieces[i].from, pieces[i].bytes, 0, NULL, err));
    }
    const km_sparse_table table = {.chunk_first = at[CHUNK_FIRST],
                                   .starts = at[STARTS],
                                   .indices = at[INDICES],
                                   .values = at[VALUES],
                                   .norms = at[NORMS],
                                   .long_rows = at[LONG_ROWS],
                                   .long_count = long_count};
    KM_TRY(km_cuda_put(engine, engine->points.address, &table, sizeof table, err));
    KM_TRY(km_cuda_wait(engine, err));
    double ms = km_now_ms() - begin_ms;
    km_log_line(engine->log, KM_LOG_INFO, "load: %.1f MB of nonzeros copied in %.2f ms, %.1f GB/s",
                (double)bytes * 1e-6, ms, (double)bytes * 1e-6 / ms);
    return KM_OK;
}

km_status km_cuda_load_sparse(km_cuda_engine *engine, km_data_stats *stats, const km_data *data,
                              km_load_params *params, km_error *err) {
    km_status status = KM_OK;
    km_sparse_points points = {0};
    int64_t *long_rows = NULL, long_count;
    KM_TRY_GOTO(
        km_sparse_load(&points, stats, data, params, engine->base.plan->spec.type, engine->threads, err));
    if (!(long_rows = list_long_rows(&long_count, &points))) {
        status = km_fail_memory(err, "the list of long rows", points.n * 8);
        goto done;
    }
    engine->nonzeros = points.nonzeros;
    KM_TRY_GOTO(send(engine, &points, long_rows, long_count, err));
    KM_TRY_GOTO(km_cuda_load_weights(engine, data, err));
    KM_TRY_GOTO(km_cuda_load_box(engine, stats, params, err));
    status = km_cuda_load_end(engine, stats, err);
done:
    if (status != KM_OK) km_cuda_release(engine, &engine->points); // the engine may try other points
    free(long_rows);
    km_sparse_free(&points);
    return status;
}

km_status km_cuda_columns(km_cuda_engine *engine, km_cu_ptr table, km_cu_ptr rows, int64_t rows_count,
                          km_error *err) {
    long long count = rows_count;
    void *columns_arguments[] = {&rows, &count, &table}, *halves_arguments[] = {&table, &count};
    KM_TRY(km_cuda_launch(engine, engine->kernels->columns, km_divide_up(engine->base.d, 32),
                          km_divide_up(rows_count, 32), columns_arguments, err));
    return km_cuda_launch(engine, engine->kernels->halves, km_divide_up(rows_count, KM_THREADS), 1,
                          halves_arguments, err);
}

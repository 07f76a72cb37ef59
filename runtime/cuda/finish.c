// SPDX-License-Identifier: MIT
// The last pass (templates/finish.cu): ranges of whole blocks, so that labels and distances of a range fit the scratch
// memory; members in groups for the same reason. Sums join the totals block by block in index order.
#include "../seed.h"
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

enum { MEMBERS_AT_ONCE = 64 };

typedef struct finisher {
    km_cuda_engine *engine;
    km_finish_member *members;
    int64_t count, rows_count, k_max; // of this group
    int64_t range_blocks;             // blocks of a range
    km_assign_args args;
    km_cu_ptr totals, partial;
    double *host; // rows_count x KM_FINISH_SUMS
} finisher;

static int64_t round_up(int64_t bytes) {
    return km_divide_up(bytes, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
}

// Places of the tables in `work`, of labels and distances in `scratch`.
static km_status reserve(finisher *f, km_error *err) {
    km_cuda_engine *engine = f->engine;
    int64_t d = engine->base.d, sums_bytes = f->rows_count * KM_FINISH_SUMS * 8;
    int64_t block_bytes = f->count * KM_BLOCK_POINTS * KM_FINISH_POINT_BYTES + sums_bytes;
    int64_t blocks = KM_FINISH_BYTES_MAX / block_bytes;
    blocks = blocks < 1 ? 1 : blocks > engine->blocks_count ? engine->blocks_count : blocks;
    int64_t points = blocks * KM_BLOCK_POINTS < engine->base.n ? blocks * KM_BLOCK_POINTS : engine->base.n;
    f->range_blocks = blocks;
    int64_t centroids = round_up(f->rows_count * d * 8), ks = round_up(f->count * 4),
            rows = round_up(f->count * 8);
    KM_TRY(km_cuda_reserve(engine, &engine->work,
                           centroids + ks + rows + round_up(sums_bytes) + blocks * sums_bytes,
                           "the sums of the finishing pass", err));
    KM_TRY(km_cuda_reserve(engine, &engine->scratch, f->count * points * KM_FINISH_POINT_BYTES,
                           "the distances of the finishing pass", err));
    km_cu_ptr work = engine->work.address, scratch = engine->scratch.address;
    f->totals = work + (km_cu_ptr)(centroids + ks + rows);
    f->partial = f->totals + (km_cu_ptr)round_up(sums_bytes);
    f->args = (km_assign_args){.points = (const void *)(uintptr_t)engine->points.address,
                               .centroids = (const double *)(uintptr_t)work,
                               .ks = (const int *)(uintptr_t)(work + (km_cu_ptr)centroids),
                               .rows = (const long long *)(uintptr_t)(work + (km_cu_ptr)(centroids + ks)),
                               .nearest = (double *)(uintptr_t)scratch,
                               .margin = (double *)(uintptr_t)(scratch + (km_cu_ptr)(f->count * points * 8)),
                               .labels = (int *)(uintptr_t)(scratch + (km_cu_ptr)(f->count * points * 16))};
    f->host = malloc((size_t)sums_bytes);
    if (!f->host) return km_fail_memory(err, "the sums of the finishing pass", sums_bytes);
    return km_cuda_clear(engine, f->totals, 0, sums_bytes, err);
}

static km_status put_members(finisher *f, km_error *err) {
    int64_t d = f->engine->base.d, row = 0;
    int ks[MEMBERS_AT_ONCE];
    long long rows[MEMBERS_AT_ONCE];
    for (int64_t m = 0; m < f->count; m++) {
        int64_t k = f->members[m].k;
        ks[m] = (int)k;
        rows[m] = row;
        KM_TRY(km_cuda_put(f->engine, (km_cu_ptr)(uintptr_t)f->args.centroids + (km_cu_ptr)(row * d * 8),
                           f->members[m].centroids, k * d * 8, err));
        row += k;
    }
    KM_TRY(km_cuda_put(f->engine, (km_cu_ptr)(uintptr_t)f->args.ks, ks, f->count * 4, err));
    return km_cuda_put(f->engine, (km_cu_ptr)(uintptr_t)f->args.rows, rows, f->count * 8, err);
}

static km_status take_labels(finisher *f, km_error *err) {
    for (int64_t m = 0; m < f->count; m++) {
        if (!f->members[m].labels) continue;
        km_cu_ptr from = (km_cu_ptr)(uintptr_t)(f->args.labels + m * f->args.count);
        KM_TRY(
            km_cuda_download(f->engine, f->members[m].labels + f->args.first, from, f->args.count * 4, err));
    }
    return KM_OK;
}

static km_status finish_range(finisher *f, int64_t first_block, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = f->engine;
    const km_driver *driver = engine->driver;
    long long rows = f->rows_count, blocks, numbers = f->rows_count * KM_FINISH_SUMS;
    int in_shared = f->k_max <= KM_FINISH_SHARED_MAX;
    int64_t left = engine->base.n - first_block * KM_BLOCK_POINTS, most = f->range_blocks * KM_BLOCK_POINTS;
    f->args.first = first_block * KM_BLOCK_POINTS;
    f->args.count = left < most ? left : most;
    blocks = km_divide_up(f->args.count, KM_BLOCK_POINTS);
    void *assign_arguments[] = {&f->args};
    KM_TRY(km_cuda_launch(engine, engine->kernels->assign, km_divide_up(f->args.count, KM_THREADS), f->count,
                          assign_arguments, err));
    void *blocks_arguments[] = {&f->args, &engine->weights.address, &f->partial, &rows, &in_shared};
    KM_CU(cuLaunchKernel(engine->kernels->finish_blocks, (unsigned)blocks, (unsigned)f->count, 1, 32, 1, 1,
                         in_shared ? (unsigned)(f->k_max * KM_FINISH_SUMS * 8) : 0, engine->stream,
                         blocks_arguments, NULL));
    void *add_arguments[] = {&f->partial, &blocks, &numbers, &f->totals};
    KM_TRY(km_cuda_launch(engine, engine->kernels->finish_add, km_divide_up(numbers, KM_THREADS), 1,
                          add_arguments, err));
    status = take_labels(f, err);
done:
    return status;
}

static km_status take_sums(finisher *f, km_error *err) {
    KM_TRY(km_cuda_get(f->engine, f->host, f->totals, f->rows_count * KM_FINISH_SUMS * 8, err));
    const double *row = f->host;
    for (int64_t m = 0; m < f->count; m++) {
        km_finish_member *member = &f->members[m];
        for (int64_t j = 0; j < member->k; j++, row += KM_FINISH_SUMS) {
            member->counts[j] = (int64_t)row[KM_FINISH_COUNT];
            member->weights[j] = row[KM_FINISH_WEIGHT];
            member->sse[j] = row[KM_FINISH_SSE];
            member->distance[j] = row[KM_FINISH_DISTANCE];
            member->margin[j] = row[KM_FINISH_MARGIN];
        }
    }
    return KM_OK;
}

static km_status finish_group(km_cuda_engine *engine, km_finish_member *members, int64_t count,
                              km_error *err) {
    km_status status = KM_OK;
    finisher f = {.engine = engine, .members = members, .count = count};
    for (int64_t m = 0; m < count; m++) {
        f.rows_count += members[m].k;
        if (members[m].k > f.k_max) f.k_max = members[m].k;
    }
    KM_TRY_GOTO(reserve(&f, err));
    KM_TRY_GOTO(put_members(&f, err));
    for (int64_t block = 0; block < engine->blocks_count; block += f.range_blocks)
        KM_TRY_GOTO(finish_range(&f, block, err));
    status = take_sums(&f, err);
done:
    free(f.host);
    return status;
}

km_status km_cuda_finish(km_cuda_engine *engine, km_finish_member *members, int64_t count, km_error *err) {
    if (!engine->points.address) return km_fail(err, KM_ERROR_INTERNAL, "the engine has no points yet");
    for (int64_t m = 0; m < count; m += MEMBERS_AT_ONCE)
        KM_TRY(finish_group(engine, members + m, count - m < MEMBERS_AT_ONCE ? count - m : MEMBERS_AT_ONCE,
                            err));
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// With other ranks (share.h): what steps on a GPU join with what other GPUs have found of their points. Sums of chunks
// come together in index order, integers in any: the bits are those of one GPU that has all points.
//
// The host joins them by the communicator: they are small beside the points. Of long fits NCCL joins the sums of passes
// on the devices, where it is there, so that passes are queued ahead.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/params.h"
#include "../share.h"
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

km_status km_cuda_gather(km_cuda_engine *engine, km_cu_ptr to, km_cu_ptr from, int64_t all, int64_t at,
                         int64_t count, int64_t width, km_error *err) {
    km_share *share = engine->base.share;
    if (!share) return KM_OK;
    double *own = malloc((size_t)(count * width + 1) * sizeof *own);
    double *joined = malloc((size_t)(all * width + 1) * sizeof *joined);
    km_status status = own && joined ? KM_OK : km_fail_memory(err, "sums of chunks", all * width * 8);
    if (status == KM_OK) status = km_cuda_get(engine, own, from, count * width * 8, err);
    if (status == KM_OK) status = km_share_gather(share, joined, all, own, at, count, width, err);
    if (status == KM_OK) status = km_cuda_put(engine, to, joined, all * width * 8, err);
    free(own);
    free(joined);
    return status;
}

km_status km_cuda_add_in_order(km_cuda_engine *engine, km_cu_ptr totals, km_cu_ptr partial, int64_t tables,
                               int64_t numbers, km_error *err) {
    km_share *share = engine->base.share;
    void *arguments[] = {&partial, &tables, &numbers, &totals};
    int64_t grid = km_divide_up(numbers, KM_REDUCED_NUMBERS), size = share ? share->ranks->size : 1;
    if (!share) return km_cuda_launch(engine, engine->kernels->finish_add, grid, 1, arguments, err);
    double *sums = malloc((size_t)numbers * sizeof *sums);
    km_status status = sums ? KM_OK : km_fail_memory(err, "sums of chunks", numbers * 8);
    for (int64_t r = 0; r < size && status == KM_OK; r++) { // each goes on where the one below it ended
        memset(sums, 0, (size_t)numbers * sizeof *sums);
        if (r == share->ranks->rank) {
            status = km_cuda_launch(engine, engine->kernels->finish_add, grid, 1, arguments, err);
            if (status == KM_OK) status = km_cuda_get(engine, sums, totals, numbers * 8, err);
        }
        if (status == KM_OK) status = km_share_sum(share, sums, numbers, err);
        if (status == KM_OK) status = km_cuda_put(engine, totals, sums, numbers * 8, err);
    }
    free(sums);
    return status;
}

// The design tensor ---------------------------------------------------------------------------------------------
//
// Its workspace begins with integers, the sums of each block. What is zeroed of it ends with
// the histogram of its lattice, [d][bins], 32 bits each.

enum { BINS = 64 }; // templates/cuda/tensor/tensor.cu

static int64_t columns_of(const km_cuda_engine *engine) {
    return engine->restarts * engine->clusters_sum * (engine->base.d + 1);
}

// Sums over all ranks of integers, each in two halves: a double holds those of 2^20 ranks.
static km_status sum_integers(km_share *share, int64_t *values, int64_t count, km_error *err) {
    double *halves = malloc((size_t)(2 * count) * sizeof *halves);
    if (!halves) return km_fail_memory(err, "the totals of ranks", 16 * count);
    for (int64_t i = 0; i < count; i++) {
        halves[2 * i] = (double)(values[i] >> 32);
        halves[2 * i + 1] = (double)(values[i] & 0xffffffff);
    }
    km_status status = km_share_sum(share, halves, 2 * count, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++)
        values[i] =
            (int64_t)(((uint64_t)(int64_t)halves[2 * i] << 32) + (uint64_t)(int64_t)halves[2 * i + 1]);
    free(halves);
    return status;
}

static km_status join_histogram(km_cuda_engine *engine, km_error *err) {
    int64_t count = engine->base.d * BINS, bytes = count * (int64_t)sizeof(uint32_t);
    km_cu_ptr at =
        engine->workspace.address + (km_cu_ptr)(engine->kernels->facts.workspace_bytes_zero - bytes);
    uint32_t *bins = malloc((size_t)bytes);
    double *sums = malloc((size_t)count * sizeof *sums);
    km_status status = bins && sums ? KM_OK : km_fail_memory(err, "the lattice", count * 12);
    if (status == KM_OK) status = km_cuda_get(engine, bins, at, bytes, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++) sums[i] = (double)bins[i];
    if (status == KM_OK) status = km_share_sum(engine->base.share, sums, count, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++)
        bins[i] = sums[i] < (double)UINT32_MAX ? (uint32_t)sums[i] : UINT32_MAX;
    if (status == KM_OK) status = km_cuda_put(engine, at, bins, bytes, err);
    free(bins);
    free(sums);
    return status;
}

// Between the sums of a pass's blocks, which begin the workspace, and engine->joined. `back`: from there to the first
// block, the others having zeros by then.
static km_status join_blocks(km_cuda_engine *engine, int back, km_error *err) {
    int64_t columns = columns_of(engine), grid = km_plan_get(engine->base.plan, "grid"),
            row = columns / engine->restarts, form = km_plan_get(engine->base.plan, "form");
    // [restarts][blocks][columns], or [restarts][columns][blocks]
    int by_block = form == KM_WORD_form_rows || form == KM_WORD_form_digits;
    void *arguments[] = {
        &engine->workspace.address, &engine->joined.address, &columns, &row, &grid, &by_block, &back};
    return km_cuda_launch(engine, engine->kernels->join_blocks, km_divide_up(columns, KM_THREADS), 1,
                          arguments, err);
}

static km_status add_on_devices(km_cuda_engine *engine, int64_t columns, int64_t slots, km_error *err) {
    KM_TRY(km_cuda_nccl_sum(engine, engine->joined.address, columns, err));
    if (slots) KM_TRY(km_cuda_nccl_sum(engine, engine->changes.address, slots, err));
    engine->counters.exchanged_bytes += 8 * (columns + slots);
    return KM_OK;
}

static km_status add_on_hosts(km_cuda_engine *engine, int64_t columns, int64_t slots, km_error *err) {
    int64_t *sums = malloc((size_t)(columns + slots) * sizeof *sums);
    km_status status = sums ? KM_OK : km_fail_memory(err, "the totals of ranks", (columns + slots) * 8);
    KM_TRY_GOTO(status);
    KM_TRY_GOTO(km_cuda_get(engine, sums, engine->joined.address, columns * 8, err));
    if (slots) KM_TRY_GOTO(km_cuda_get(engine, sums + columns, engine->changes.address, slots * 8, err));
    KM_TRY_GOTO(sum_integers(engine->base.share, sums, columns + slots, err));
    KM_TRY_GOTO(km_cuda_put(engine, engine->joined.address, sums, columns * 8, err));
    if (slots) KM_TRY_GOTO(km_cuda_put(engine, engine->changes.address, sums + columns, slots * 8, err));
    engine->counters.exchanged_bytes += 16 * (columns + slots);
done:
    free(sums);
    return status;
}

// The first block gets the sums of all blocks of all ranks; the others get zeros.
static km_status join_sums(km_cuda_engine *engine, km_error *err) {
    int64_t columns = columns_of(engine), slots = engine->changes.address ? engine->base.slots_count : 0;
    KM_TRY(km_cuda_reserve(engine, &engine->joined, columns * 8, "the totals of ranks", err));
    KM_TRY(join_blocks(engine, 0, err));
    if (engine->counters.exchanges++ == km_cuda_nccl_pass) KM_TRY(km_cuda_nccl_open(engine, err));
    KM_TRY(engine->nccl ? add_on_devices(engine, columns, slots, err)
                        : add_on_hosts(engine, columns, slots, err));
    return join_blocks(engine, 1, err);
}

km_status km_cuda_join_before(km_cuda_engine *engine, const char *kernel, km_error *err) {
    if (!engine->base.share) return KM_OK;
    if (strcmp(kernel, "km_tensor_lattice") == 0) return join_histogram(engine, err);
    return strcmp(kernel, "km_reduce") == 0 ? join_sums(engine, err) : KM_OK;
}

km_status km_cuda_least_of_ranks(km_cuda_engine *engine, int64_t *values, int64_t count, km_error *err) {
    km_share *share = engine->base.share;
    if (!share) return KM_OK;
    int64_t size = share->ranks->size;
    double *all = calloc((size_t)(size * count), sizeof *all);
    if (!all) return km_fail_memory(err, "what ranks agree on", size * count * 8);
    for (int64_t i = 0; i < count; i++) all[share->ranks->rank * count + i] = (double)values[i];
    km_status status = km_share_sum(share, all, size * count, err);
    for (int64_t r = 0; r < size && status == KM_OK; r++)
        for (int64_t i = 0; i < count; i++) values[i] = km_min(values[i], (int64_t)all[r * count + i]);
    free(all);
    return status;
}

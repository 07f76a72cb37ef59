// SPDX-License-Identifier: MIT
// Chains of many picks by halves of the points (templates/cuda/steps/seed_halves.cu), where there is memory for these;
// the picks are the same without them.
#include "../../templates/cuda/seed_halves.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "cuda.h"

#include <stdlib.h>

enum {
    FIRST_PICK = 24,  // of the first picks most points are in doubt
    PLAIN_PICKS = 96, // without them where too many are later ...
    DOUBTS_SHARE = 3  // ... more than a third of a pair a point and pick
};
#define SPARE_BYTES ((int64_t)512 << 20) // of device memory, for the steps that follow

struct km_cuda_seed_halves {
    km_cuda_memory memory; // halves, squares of lengths, which points are nearer, the count of pairs in doubt
    km_cu_ptr squares, nearer, count;
    int64_t last;         // pick that was made so; -1: none
    int64_t from;         // the first pick that is made so
    int64_t counted;      // picks since the count was read ...
    uint64_t before;      // ... and what it was
    int64_t pairs, picks; // of all chains
};

static km_status create(km_cuda_seed_halves *halves, km_cuda_engine *engine, int64_t chains, km_error *err) {
    int64_t n = engine->base.n,
            row_bytes = km_round_up(n * KM_HALVES_WIDTH(engine->base.d) * 2, KM_ALIGN_BYTES),
            squares = km_round_up(n * 4, KM_ALIGN_BYTES),
            nearer = km_round_up(chains * n * 2, KM_ALIGN_BYTES), bytes = row_bytes + squares + nearer + 8;
    const km_driver *driver = engine->driver;
    size_t left = 0, all = 0;
    int64_t most = engine->base.plan->facts.memory_free_bytes; // for this fit, as it was planned
    driver->cuMemGetInfo(&left, &all);
    if ((int64_t)left < bytes + SPARE_BYTES || (most > 0 && engine->bytes_held + bytes > most))
        return km_fail(err, KM_ERROR_MEMORY, "there is no memory for halves of the points");
    KM_TRY(km_cuda_reserve(engine, &halves->memory, bytes, "halves of the points", err));
    halves->squares = halves->memory.address + (km_cu_ptr)row_bytes;
    halves->nearer = halves->squares + (km_cu_ptr)squares;
    halves->count = halves->nearer + (km_cu_ptr)nearer;
    halves->from = FIRST_PICK;
    KM_TRY(km_cuda_clear(engine, halves->count, 0, 8, err));
    km_status status = KM_OK;
    KM_CU(cuFuncSetAttribute(engine->kernels->seed_pass_halves, KM_CU_FUNC_MAX_DYNAMIC_SHARED,
                             KM_HALVES_BYTES((int)engine->base.d)));
    void *arguments[] = {&engine->points.address, &engine->base.n, &halves->memory.address, &halves->squares};
    return km_cuda_launch(engine, engine->kernels->seed_make_halves, engine->device->base.facts.units * 8, 1,
                          arguments, err);
done:
    return status;
}

km_cuda_seed_halves *km_cuda_seed_halves_create(km_cuda_engine *engine, int64_t chains, int64_t picks) {
    if (!engine->kernels->seed_pass_halves || !engine->kernels->seed_make_halves || engine->is_csr ||
        engine->base.share || engine->base.plan->streams || !KM_HALVES_SERVES(engine->base.d, picks))
        return NULL;
    // km_seed_pass reads points once for several chains: where a chain's halves are few bytes less that is as fast.
    if (chains > 1 && engine->base.d <= 32) return NULL;
    km_cuda_seed_halves *halves = calloc(1, sizeof *halves);
    if (halves && create(halves, engine, chains, NULL) != KM_OK) km_cuda_seed_halves_free(&halves, engine);
    return halves;
}

int km_cuda_seed_halves_serves(const km_cuda_seed_halves *halves, int64_t pick) {
    return halves && pick >= halves->from;
}

km_cu_ptr km_cuda_seed_halves_nearer(const km_cuda_seed_halves *halves, int64_t pick) {
    return halves && pick >= 0 && halves->last == pick ? halves->nearer : 0;
}

km_status km_cuda_seed_halves_pass(km_cuda_seed_halves *halves, km_cuda_engine *engine, km_seed_args *args,
                                   int64_t pick, int candidates, km_error *err) {
    long long index = pick;
    void *arguments[] = {
        args,           &index,         &candidates, &halves->memory.address, &halves->squares,
        &halves->count, &halves->nearer};
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    halves->counted++;
    halves->last = pick;
    KM_CU(cuLaunchKernel(engine->kernels->seed_pass_halves,
                         (unsigned)km_divide_up(engine->subchunks_count, 2), (unsigned)args->chains, 1,
                         KM_THREADS, 1, 1, KM_HALVES_BYTES((unsigned)engine->base.d), engine->stream,
                         arguments, NULL));
done:
    return status;
}

km_status km_cuda_seed_halves_weigh(km_cuda_seed_halves *halves, km_cuda_engine *engine, int chains,
                                    int64_t next, km_error *err) {
    uint64_t pairs;
    if (!halves || halves->counted == 0) return KM_OK;
    KM_TRY(km_cuda_get(engine, &pairs, halves->count, sizeof pairs, err));
    double share = (double)(pairs - halves->before) / (double)(halves->counted * chains * engine->base.n);
    if (share * DOUBTS_SHARE > 1) halves->from = next + PLAIN_PICKS;
    halves->pairs += (int64_t)(pairs - halves->before);
    halves->picks += halves->counted * chains;
    halves->before = pairs;
    halves->counted = 0;
    return KM_OK;
}

void km_cuda_seed_halves_begin(km_cuda_seed_halves *halves) {
    if (!halves) return;
    halves->from = FIRST_PICK;
    halves->last = -1;
}

void km_cuda_seed_halves_free(km_cuda_seed_halves **halves, km_cuda_engine *engine) {
    km_cuda_seed_halves *old = *halves;
    if (old && old->picks)
        km_log_line(engine->log, KM_LOG_DEBUG,
                    "seed: %lld picks by halves of the points, %.4f pairs of a point and a row computed for "
                    "each point",
                    (long long)old->picks, (double)old->pairs / (double)old->picks / (double)engine->base.n);
    if (old) km_cuda_release(engine, &old->memory);
    free(old);
    *halves = NULL;
}

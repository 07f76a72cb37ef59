// SPDX-License-Identifier: MIT
// k-means++ chains on the device (templates/cuda/steps/seed.cu): two kernels a pick, queued without waiting.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../seed.h"
#include "cuda.h"

enum {
    QUEUED_PICKS = 8, // between two calls of `progress`
    COLUMNS = 16      // of a chain's table, where points are CSR
};

_Static_assert(KM_CANDIDATES_MAX == 13, "as many as km_candidates gives at most");

static int64_t nearest_bytes(const km_cuda_engine *engine, int64_t chains) {
    return chains * engine->base.n * engine->real_bytes;
}

// CSR: the last pick and the candidates of each chain, as columns.
static int64_t tables_bytes(const km_cuda_engine *engine, int64_t chains) {
    return engine->is_csr ? chains * (engine->base.d + 1) * COLUMNS * 8 : 0;
}

// With other ranks: sums of chunks, behind those of subchunks.
static int64_t chunk_sums_bytes(const km_cuda_engine *engine, int64_t chains) {
    return engine->base.share ? chains * KM_CANDIDATES_MAX * engine->chunks_count * 8 : 0;
}

static int64_t work_bytes(const km_cuda_engine *engine, int64_t chains, int64_t picks) {
    int64_t picks_bytes = km_divide_up(chains * picks * 8, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
    int64_t drawn_bytes = km_divide_up(2 * chains * KM_CANDIDATES_MAX * 8, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
    return picks_bytes + drawn_bytes + chains * KM_CANDIDATES_MAX * engine->subchunks_count * 8 +
           chunk_sums_bytes(engine, chains) + tables_bytes(engine, chains);
}

// How many chains run in the same passes: as many as reserved and free memory hold, at least one. Chains are
// independent, so the picks do not depend on it.
static int64_t chains_at_once(km_cuda_engine *engine, int64_t chains, int64_t picks) {
    const int64_t spare = 256 << 20;
    size_t left = 0, all = 0;
    int64_t room = km_cuda_scratch_bytes(engine), work = engine->work.bytes;
    if (engine->base.share) chains = km_min(chains, KM_GUEST_ROWS / (KM_CANDIDATES_MAX + 1));
    if (engine->base.plan->streams) return chains; // on the host, as planned
    if (nearest_bytes(engine, chains) <= room && work_bytes(engine, chains, picks) <= work) return chains;
    engine->driver->cuMemGetInfo(&left, &all);
    for (; chains > 1; chains--) {
        int64_t more = work_bytes(engine, chains, picks) - work, nearest = nearest_bytes(engine, chains);
        if (more < 0) more = 0;
        if (nearest > room) more += nearest - engine->scratch.bytes;
        if (more == 0 || more <= (int64_t)left - spare) return chains;
    }
    return 1;
}

static km_status reserve(km_cuda_engine *engine, km_seed_args *args, km_cu_ptr *tables, int64_t chains,
                         int64_t picks, km_error *err) {
    int64_t picks_bytes = km_divide_up(chains * picks * 8, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
    int64_t drawn_bytes = km_divide_up(2 * chains * KM_CANDIDATES_MAX * 8, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
    km_cu_ptr nearest = 0;
    if (engine->base.plan->streams)
        KM_TRY(km_cuda_point_scratch(&nearest, engine, nearest_bytes(engine, chains),
                                     "the distances of the k-means++ chains", err));
    else
        nearest = km_cuda_borrow(engine, nearest_bytes(engine, chains));
    if (!nearest) {
        KM_TRY(km_cuda_reserve(engine, &engine->scratch, nearest_bytes(engine, chains),
                               "the distances of the k-means++ chains", err));
        nearest = engine->scratch.address;
    }
    KM_TRY(km_cuda_reserve(engine, &engine->work, work_bytes(engine, chains, picks),
                           "the sums of the k-means++ chains", err));
    km_cu_ptr at = engine->work.address;
    args->nearest = (void *)(uintptr_t)nearest;
    args->picks = (long long *)(uintptr_t)at;
    args->candidates = (long long *)(uintptr_t)(at + (km_cu_ptr)picks_bytes);
    args->subchunk_sums = (double *)(uintptr_t)(at + (km_cu_ptr)(picks_bytes + drawn_bytes));
    *tables = at + (km_cu_ptr)(work_bytes(engine, chains, picks) - tables_bytes(engine, chains));
    return KM_OK;
}

// Decides pick - 1 and draws the candidates of `pick` (none behind the last).
static km_status draw(km_cuda_engine *engine, km_seed_args *args, const km_cuda_seed_halves *halves,
                      int64_t pick, int64_t picks, km_error *err) {
    int before = pick > 0 ? km_candidates(pick - 1) : 0, now = pick < picks ? km_candidates(pick) : 0;
    long long index = pick;
    km_cu_ptr nearer = km_cuda_seed_halves_nearer(halves, pick - 1);
    void *arguments[] = {args, &index, &before, &now, &nearer};
    return km_cuda_launch(engine, engine->kernels->seed_draw, args->chains, now > 0 ? now : 1, arguments,
                          err);
}

// CSR: puts the last pick and the candidates into the tables, then one chain reads the points after the other.
static km_status sparse_pass(km_cuda_engine *engine, km_seed_args *args, km_cu_ptr tables, int64_t pick,
                             km_error *err) {
    int before = pick > 0 ? km_candidates(pick - 1) : 0, candidates = km_candidates(pick);
    long long index = pick;
    void *columns_arguments[] = {args, &index, &before, &candidates, &tables};
    void *arguments[] = {args, &index, &candidates, &tables};
    if (pick == 0) KM_TRY(km_cuda_clear(engine, tables, 0, tables_bytes(engine, args->chains), err));
    KM_TRY(
        km_cuda_launch(engine, engine->kernels->seed_columns, args->chains, COLUMNS, columns_arguments, err));
    return km_cuda_launch(engine, engine->kernels->seed_pass, engine->subchunks_count, args->chains,
                          arguments, err);
}

static km_status pass(km_cuda_engine *engine, km_seed_args *args, km_cu_ptr tables,
                      km_cuda_seed_halves *halves, int64_t pick, km_error *err) {
    int candidates = km_candidates(pick);
    long long index = pick;
    if (km_cuda_seed_halves_serves(halves, pick))
        return km_cuda_seed_halves_pass(halves, engine, args, pick, candidates, err);
    if (engine->is_csr) return sparse_pass(engine, args, tables, pick, err);
    void *arguments[] = {args, &index, &candidates};
    return km_cuda_launch(engine, engine->kernels->seed_pass, km_divide_up(engine->subchunks_count, 2), 1,
                          arguments, err);
}

km_status km_cuda_seed(km_cuda_engine *engine, int64_t *indices, int64_t first_restart, int64_t chains_count,
                       int64_t picks, uint64_t seed, int (*progress)(void *user, int64_t picks_done),
                       void *progress_user, km_error *err) {
    if (chains_count < 1 || picks < 1) return KM_OK;
    if (!engine->points.address) return km_fail(err, KM_ERROR_INTERNAL, "the engine has no points yet");
    int64_t together = chains_at_once(engine, chains_count, picks), picks_done = 0;
    km_seed_args args = {.points = (const void *)(uintptr_t)engine->points.address,
                         .weights = (const double *)(uintptr_t)engine->weights.address,
                         .n = engine->base.n,
                         .subchunks = engine->subchunks_count,
                         .subchunk_weights = (const double *)(uintptr_t)engine->subchunk_weights.address,
                         .picks_count = picks,
                         .seed = seed};
    km_cu_ptr tables;
    km_cuda_seed_share *shared = NULL;
    km_cuda_seed_halves *halves = NULL;
    km_status status = KM_OK;
    KM_TRY(km_cuda_least_of_ranks(engine, &together, 1, err));
    KM_TRY(reserve(engine, &args, &tables, together, picks, err));
    if (engine->base.share) KM_TRY(km_cuda_seed_share_create(&shared, engine, together, err));
    halves = km_cuda_seed_halves_create(engine, together, picks);
    for (int64_t first = 0; first < chains_count; first += together) {
        km_cuda_seed_halves_begin(halves);
        args.chains = (int)(chains_count - first < together ? chains_count - first : together);
        args.first_restart = first_restart + first;
        int64_t *of_chains = indices + first * picks;
        for (int64_t pick = 0; pick < picks; pick++) {
            KM_TRY_GOTO(shared ? km_cuda_seed_share_draw(shared, &args, of_chains, pick, picks, err)
                               : draw(engine, &args, halves, pick, picks, err));
            KM_TRY_GOTO(pass(engine, &args, tables, halves, pick, err));
            if ((pick + 1) % QUEUED_PICKS && pick + 1 < picks) continue;
            KM_TRY_GOTO(km_cuda_wait(engine, err));
            KM_TRY_GOTO(km_cuda_seed_halves_weigh(halves, engine, args.chains, pick + 1, err));
            picks_done = (first * picks + (pick + 1) * args.chains) / chains_count;
            if (!progress || !progress(progress_user, picks_done)) continue;
            status = km_fail(err, KM_ERROR_INTERRUPTED, "interrupted while seeding, after pick %lld of %lld",
                             (long long)picks_done, (long long)picks);
            goto done;
        }
        if (shared) {
            KM_TRY_GOTO(km_cuda_seed_share_draw(shared, &args, of_chains, picks, picks, err));
            continue;
        }
        KM_TRY_GOTO(draw(engine, &args, halves, picks, picks, err));
        KM_TRY_GOTO(
            km_cuda_get(engine, of_chains, (km_cu_ptr)(uintptr_t)args.picks, args.chains * picks * 8, err));
    }
done:
    km_cuda_seed_halves_free(&halves, engine);
    km_cuda_seed_share_free(&shared);
    return status == KM_OK ? km_cuda_prepare(engine, err) : status; // passes come next
}

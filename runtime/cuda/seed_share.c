// SPDX-License-Identifier: MIT
// The draws of k-means++ with other ranks, by the host, in the order of templates/cuda/steps/seed_draw.cu: the same
// bits. Each rank reads its points (km_seed_pass); sums of the chunks of all ranks say which rank has the drawn point.
// Candidates come to all as guests, rows behind the engine's own points.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../seed.h"
#include "../share.h"
#include "cuda.h"
#define KM_BOTH static inline
#include "../../templates/draws.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN_GUESTS = KM_CANDIDATES_MAX + 1, THREAD_POINTS = KM_SUBCHUNK_POINTS / KM_THREADS };
_Static_assert((int)KM_GUEST_ROWS >= (int)CHAIN_GUESTS, "a chain has its guests");

struct km_cuda_seed_share {
    km_cuda_engine *engine;
    int64_t chains, chunks_all;
    double *own;        // [chains][candidates][chunks] of this rank
    double *chunks;     // [chains][candidates][chunks_all]
    double *candidates; // [chains][KM_CANDIDATES_MAX][1 + d]: the index among the points of all, and the row
    double *last;       // [chains][1 + d]: the last pick
    unsigned char *points; // of a subchunk
    unsigned char *nearest, *guests;
    long long *indices;   // what the device gets: guests
    int candidates_count; // of the last pass; 0: there was none
};

void km_cuda_seed_share_free(km_cuda_seed_share **share) {
    km_cuda_seed_share *s = *share;
    *share = NULL;
    if (!s) return;
    free(s->own);
    free(s->chunks);
    free(s->candidates);
    free(s->last);
    free(s->points);
    free(s->nearest);
    free(s->guests);
    free(s->indices);
    free(s);
}

km_status km_cuda_seed_share_create(km_cuda_seed_share **out, km_cuda_engine *engine, int64_t chains,
                                    km_error *err) {
    int64_t d = engine->base.d, rows = chains * KM_CANDIDATES_MAX, row = d * engine->real_bytes;
    km_cuda_seed_share *s = *out = calloc(1, sizeof *s);
    if (!s) return km_fail_memory(err, "the draws of ranks", sizeof *s);
    s->engine = engine;
    s->chains = chains;
    s->chunks_all = km_chunks_of(engine->base.n_all);
    s->own = malloc((size_t)(rows * engine->chunks_count) * sizeof *s->own);
    s->chunks = malloc((size_t)(rows * s->chunks_all) * sizeof *s->chunks);
    s->candidates = malloc((size_t)(rows * (d + 1)) * sizeof *s->candidates);
    s->last = malloc((size_t)(chains * (d + 1)) * sizeof *s->last);
    s->points = malloc((size_t)(KM_SUBCHUNK_POINTS * row));
    s->nearest = malloc((size_t)(KM_SUBCHUNK_POINTS * engine->real_bytes));
    s->guests = malloc((size_t)(chains * CHAIN_GUESTS * row));
    s->indices = malloc((size_t)rows * sizeof *s->indices);
    if (s->own && s->chunks && s->candidates && s->last && s->points && s->nearest && s->guests && s->indices)
        return KM_OK;
    km_cuda_seed_share_free(out);
    return km_fail_memory(err, "the draws of ranks",
                          rows * (engine->chunks_count + km_chunks_of(engine->base.n_all)) * 8);
}

// Sums of subchunks on the device, of the row of a chain: the first pick draws by weights, the same for all.
static km_cu_ptr subchunks_at(const km_cuda_engine *engine, const km_seed_args *args, int64_t chain,
                              int64_t row, int is_first) {
    int64_t at = (chain * KM_CANDIDATES_MAX + row) * engine->subchunks_count;
    return is_first ? engine->subchunk_weights.address : (km_cu_ptr)(uintptr_t)(args->subchunk_sums + at);
}

// The sums of the last pass, or of weights where there is none: of this rank's chunks, then of the chunks of all
// ranks. `rows` of each chain, of which the device has KM_CANDIDATES_MAX.
static km_status sums_join(km_cuda_seed_share *s, const km_seed_args *args, int64_t rows, int is_first,
                           km_error *err) {
    km_cuda_engine *engine = s->engine;
    km_share *share = engine->base.share;
    long long subchunks = engine->subchunks_count, of_chain = rows;
    int64_t first = km_share_chunk(share), all = args->chains * rows, own = is_first ? rows : all,
            count = engine->chunks_count;
    km_cu_ptr from = subchunks_at(engine, args, 0, 0, is_first),
              to = subchunks_at(engine, args, s->chains, 0, 0); // behind those of all chains
    void *arguments[] = {&from, &subchunks, &of_chain, &to};
    if (count > 0) {
        KM_TRY(km_cuda_launch(engine, engine->kernels->seed_sums, km_divide_up(count, KM_THREADS), own,
                              arguments, err));
        KM_TRY(km_cuda_get(engine, s->own, to, own * count * 8, err));
    }
    memset(s->chunks, 0, (size_t)(all * s->chunks_all) * sizeof *s->chunks);
    for (int64_t r = 0; r < all; r++)
        memcpy(s->chunks + r * s->chunks_all + first, s->own + r % own * count,
               (size_t)count * sizeof *s->own);
    return km_share_sum(share, s->chunks, all * s->chunks_all, err);
}

static double real_at(const km_cuda_engine *engine, const unsigned char *values, int64_t i) {
    return engine->real_bytes == 8 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

// The squared distance of point `i` of the subchunk to the last pick, in the plan's type.
static double square_of(const km_cuda_seed_share *s, const double *last, int64_t i) {
    const km_cuda_engine *engine = s->engine;
    int64_t d = engine->base.d;
    if (engine->real_bytes == 4) {
        const float *x = (const float *)s->points + i * d;
        float square = 0;
        for (int64_t f = 0; f < d; f++) {
            float t = x[f] - (float)last[f];
            square = fmaf(t, t, square);
        }
        return (double)square;
    }
    const double *x = (const double *)s->points + i * d;
    double square = 0;
    for (int64_t f = 0; f < d; f++) {
        double t = x[f] - last[f];
        square = fma(t, t, square);
    }
    return square;
}

// Weights of the points of a subchunk in the draw of `pick`; 0 behind the last.
static km_status values_of(double *values, km_cuda_seed_share *s, const km_seed_args *args, int64_t chain,
                           int64_t subchunk, int64_t pick, km_error *err) {
    km_cuda_engine *engine = s->engine;
    int64_t first = subchunk * KM_SUBCHUNK_POINTS, d = engine->base.d, real = engine->real_bytes,
            count = km_min(engine->base.n - first, KM_SUBCHUNK_POINTS);
    double weights[KM_SUBCHUNK_POINTS];
    km_cu_ptr nearest = (km_cu_ptr)(uintptr_t)args->nearest;
    for (int64_t i = 0; i < KM_SUBCHUNK_POINTS; i++) weights[i] = i < count;
    if (engine->weights.address)
        KM_TRY(
            km_cuda_get(engine, weights, engine->weights.address + (km_cu_ptr)(first * 8), count * 8, err));
    if (pick > 0)
        KM_TRY(km_cuda_get(engine, s->points, engine->points.address + (km_cu_ptr)(first * d * real),
                           count * d * real, err));
    if (pick > 1)
        KM_TRY(km_cuda_get(engine, s->nearest, nearest + (km_cu_ptr)((chain * engine->base.n + first) * real),
                           count * real, err));
    for (int64_t i = 0; i < KM_SUBCHUNK_POINTS; i++) {
        values[i] = i < count ? weights[i] : 0;
        if (pick == 0 || i >= count) continue;
        double square = square_of(s, s->last + chain * (d + 1) + 1, i);
        if (pick > 1) square = fmin(real_at(engine, s->nearest, i), square);
        values[i] = weights[i] * square;
    }
    return KM_OK;
}

// The drawn point, as this rank counts its own; -1: another rank has it.
static km_status find(int64_t *drawn, km_cuda_seed_share *s, const km_seed_args *args, int64_t chain,
                      int64_t row, double target, int64_t pick, km_error *err) {
    const km_cuda_engine *engine = s->engine;
    double running = 0, values[KM_SUBCHUNK_POINTS], sums[KM_THREADS] = {0}, subchunks[KM_SUBCHUNKS_PER_CHUNK];
    const double *chunks = s->chunks + (chain * km_max(s->candidates_count, 1) + row) * s->chunks_all;
    int64_t chunk =
        km_draw_among(&running, chunks, 0, s->chunks_all, target) - km_share_chunk(engine->base.share);
    *drawn = -1;
    if (chunk < 0 || chunk >= engine->chunks_count) return KM_OK;
    int64_t begin = chunk * KM_SUBCHUNKS_PER_CHUNK,
            left = km_min(engine->subchunks_count - begin, KM_SUBCHUNKS_PER_CHUNK);
    KM_TRY(km_cuda_get(engine, subchunks,
                       subchunks_at(engine, args, chain, row, pick == 0) + (km_cu_ptr)(begin * 8), left * 8,
                       err));
    int64_t subchunk = begin + km_draw_among(&running, subchunks, 0, left, target);
    KM_TRY(values_of(values, s, args, chain, subchunk, pick, err));
    for (int64_t i = 0; i < KM_SUBCHUNK_POINTS; i++) sums[i / THREAD_POINTS] += values[i];
    int64_t thread = km_draw_among(&running, sums, 0, KM_THREADS, target);
    int64_t at = km_draw_among(&running, values, thread * THREAD_POINTS, THREAD_POINTS, target);
    *drawn = subchunk * KM_SUBCHUNK_POINTS + at;
    return KM_OK;
}

// The candidate that leaves the least becomes the chain's last pick.
static int64_t take_best(km_cuda_seed_share *s, int64_t chain, double *total) {
    int64_t width = s->engine->base.d + 1, best = 0, rows = km_max(s->candidates_count, 1);
    const double *sums = s->chunks + chain * rows * s->chunks_all;
    for (int64_t c = 0; c < rows; c++) {
        double sum = 0;
        for (int64_t b = 0; b < s->chunks_all; b++) sum += sums[c * s->chunks_all + b];
        if (c == 0 || sum < *total) {
            *total = sum;
            best = c;
        }
    }
    if (s->candidates_count)
        memcpy(s->last + chain * width, s->candidates + (chain * KM_CANDIDATES_MAX + best) * width,
               (size_t)width * sizeof(double));
    return best;
}

// Puts the last picks and the candidates behind the points, and their indices where the pass looks for them.
static km_status guests_put(km_cuda_seed_share *s, const km_seed_args *args, int64_t chains, int64_t pick,
                            int64_t count, km_error *err) {
    km_cuda_engine *engine = s->engine;
    int64_t d = engine->base.d, width = d + 1, first = engine->base.n + KM_PAD_ROWS;
    for (int64_t c = 0; c < chains; c++)
        for (int64_t a = 0; a < CHAIN_GUESTS; a++) {
            const double *from =
                a < count ? s->candidates + (c * KM_CANDIDATES_MAX + a) * width + 1 : s->last + c * width + 1;
            for (int64_t f = 0; f < d; f++) {
                int64_t at = (c * CHAIN_GUESTS + a) * d + f;
                double value = a < count || (pick > 0 && a == KM_CANDIDATES_MAX) ? from[f] : 0;
                if (engine->real_bytes == 8)
                    ((double *)s->guests)[at] = value;
                else
                    ((float *)s->guests)[at] = (float)value;
            }
        }
    KM_TRY(km_cuda_put(engine, engine->points.address + (km_cu_ptr)(first * d * engine->real_bytes),
                       s->guests, chains * CHAIN_GUESTS * d * engine->real_bytes, err));
    for (int64_t c = 0; c < chains; c++) {
        long long last = first + c * CHAIN_GUESTS + KM_CANDIDATES_MAX;
        for (int64_t a = 0; a < KM_CANDIDATES_MAX; a++)
            s->indices[c * KM_CANDIDATES_MAX + a] = first + c * CHAIN_GUESTS + a;
        if (pick > 0)
            KM_TRY(km_cuda_put(engine, (km_cu_ptr)(uintptr_t)(args->picks + c * args->picks_count + pick - 1),
                               &last, sizeof last, err));
    }
    return km_cuda_put(engine,
                       (km_cu_ptr)(uintptr_t)(args->candidates + pick % 2 * args->chains * KM_CANDIDATES_MAX),
                       s->indices, chains * KM_CANDIDATES_MAX * (int64_t)sizeof *s->indices, err);
}

// A point as doubles. `work` has the tables of the chains.
static km_status read_point(const km_cuda_seed_share *s, double *row, int64_t point, km_error *err) {
    km_cuda_engine *engine = s->engine;
    int64_t d = engine->base.d, bytes = d * engine->real_bytes;
    KM_TRY(km_cuda_get(engine, s->points, engine->points.address + (km_cu_ptr)(point * bytes), bytes, err));
    for (int64_t f = 0; f < d; f++) row[f] = real_at(engine, s->points, f);
    return KM_OK;
}

// Draws the candidates of `pick` of a chain: those that are this rank's, with their rows.
static km_status draw_chain(km_cuda_seed_share *s, const km_seed_args *args, int64_t chain, int64_t best,
                            double total, int64_t pick, int64_t count, km_error *err) {
    km_cuda_engine *engine = s->engine;
    km_share *share = engine->base.share;
    int64_t width = engine->base.d + 1, n = engine->base.n_all;
    for (int64_t a = 0; a < count; a++) {
        double *to = s->candidates + (chain * KM_CANDIDATES_MAX + a) * width;
        double u = km_draw(args->seed, (unsigned long long)(args->first_restart + chain),
                           (unsigned long long)pick, (unsigned long long)a);
        int64_t drawn = km_min((int64_t)(u * (double)n), n - 1) - share->first;
        if (total > 0) KM_TRY(find(&drawn, s, args, chain, best, u * total, pick, err));
        if (drawn < 0 || drawn >= engine->base.n) continue;
        to[0] = (double)(share->first + drawn);
        KM_TRY(read_point(s, to + 1, drawn, err));
    }
    return KM_OK;
}

km_status km_cuda_seed_share_draw(km_cuda_seed_share *s, const km_seed_args *args, int64_t *indices,
                                  int64_t pick, int64_t picks, km_error *err) {
    km_cuda_engine *engine = s->engine;
    int64_t chains = args->chains, width = engine->base.d + 1, count = pick < picks ? km_candidates(pick) : 0;
    double totals[KM_GUEST_ROWS / CHAIN_GUESTS];
    int64_t best[KM_GUEST_ROWS / CHAIN_GUESTS];
    if (pick == 0) s->candidates_count = 0;
    KM_TRY(sums_join(s, args, km_max(s->candidates_count, 1), pick == 0, err));
    for (int64_t c = 0; c < chains; c++) {
        best[c] = take_best(s, c, &totals[c]);
        if (pick > 0) indices[c * picks + pick - 1] = (int64_t)s->last[c * width];
    }
    if (count == 0) return KM_OK;
    memset(s->candidates, 0, (size_t)(s->chains * KM_CANDIDATES_MAX * width) * sizeof *s->candidates);
    for (int64_t c = 0; c < chains; c++) KM_TRY(draw_chain(s, args, c, best[c], totals[c], pick, count, err));
    KM_TRY(km_share_sum(engine->base.share, s->candidates, chains * KM_CANDIDATES_MAX * width, err));
    s->candidates_count = (int)count;
    return guests_put(s, args, chains, pick, count, err);
}

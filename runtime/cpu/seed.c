// SPDX-License-Identifier: MIT
// k-means++ chains (runtime/seed.h says exactly which): one read of the points per pick serves every chain.
//
// With other ranks each has the subchunks of its points and the chunks of all: sums of chunks are gathered, so all
// draw the same chunk, and the rank that has it draws the point.
//
// A pass for pick p does two things at each point: it takes the last pick into the distance to the nearest pick, and
// sums what that distance would become with each candidate, subchunk by subchunk. So the chosen candidate's sums are
// the next pick's sums, and only the subchunk into which a draw falls is read point by point.
#include "../../base/error.h"
#include "../../base/size.h"
#include "cpu.h"
#include "layout.h"
#include "../share.h"
#include "../threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SUBCHUNK_POINTS = 1024 }; // points of a subchunk; an SoA group where that is more

// What is drawn from: sums of subchunks, and of the chunks of all ranks, which are added from their subchunks in index
// order.
typedef struct draw_sums {
    double *subchunks, *chunks;
} draw_sums;

typedef struct chain {
    int64_t restart;
    draw_sums sums; // of w x squared distance to the nearest pick
} chain;

typedef struct seeder {
    cpu_engine *engine;
    uint64_t seed;
    cpu_seed_pass pass; // with what passes have of each chain
    chain *chains;      // and what they have not
    int64_t chains_count;
    draw_sums weights;
    int64_t subchunk_points, subchunks_count;
    int64_t chunks_all, first_chunk; // of all ranks; the first of this one's
    // With a share: of each chain and candidate, the point's index among all and its row; sums of chunks.
    double *picked, *gathered;
    int threads;
} seeder;

static void seeder_free(seeder *s) {
    for (int64_t c = 0; s->pass.chains && c < s->chains_count; c++) {
        km_pages_free(s->pass.chains[c].nearest);
        free(s->pass.chains[c].potentials);
    }
    for (int64_t c = 0; s->chains && c < s->chains_count; c++) free(s->chains[c].sums.subchunks);
    s->engine->layout->seed_destroy(&s->pass);
    free(s->pass.chains);
    free(s->chains);
    free(s->weights.subchunks);
    free(s->picked);
    free(s->gathered);
    km_cpu_guests_free(s->engine);
}

static void fill_infinity(const seeder *s, uint8_t *nearest, int64_t count) {
    int single = s->engine->real_bytes == 4;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (int64_t first = 0; first < count; first += KM_CHUNK_POINTS)
        for (int64_t i = first; i < km_min(first + KM_CHUNK_POINTS, count); i++) {
            if (single)
                ((float *)nearest)[i] = INFINITY;
            else
                ((double *)nearest)[i] = INFINITY;
        }
}

static int draw_sums_alloc(draw_sums *out, const seeder *s) {
    out->subchunks = calloc((size_t)(s->subchunks_count + s->chunks_all), sizeof *out->subchunks);
    out->chunks = out->subchunks ? out->subchunks + s->subchunks_count : NULL;
    return out->subchunks != NULL;
}

static int64_t subchunks_per_chunk(const seeder *s) {
    return KM_CHUNK_POINTS / s->subchunk_points;
}

// Sums of this rank's chunks from those of their subchunks.
static void draw_sums_add(const seeder *s, draw_sums *of) {
    int64_t per_chunk = subchunks_per_chunk(s);
    for (int64_t chunk = 0; chunk < s->engine->chunks_count; chunk++) {
        double sum = 0;
        for (int64_t p = chunk * per_chunk; p < km_min((chunk + 1) * per_chunk, s->subchunks_count); p++)
            sum += of->subchunks[p];
        of->chunks[s->first_chunk + chunk] = sum;
    }
}

static km_status seeder_init(seeder *s, cpu_engine *engine, int64_t first_restart, int64_t chains_count,
                             int64_t picks, uint64_t seed, km_error *err) {
    int64_t points = km_round_up(engine->base.n, engine->soa_points);
    *s = (seeder){.engine = engine, .seed = seed, .chains_count = chains_count};
    s->subchunk_points = engine->soa_points > SUBCHUNK_POINTS ? engine->soa_points : SUBCHUNK_POINTS;
    s->subchunks_count = (engine->base.n + s->subchunk_points - 1) / s->subchunk_points;
    s->threads = cpu_threads_for(engine, engine->chunks_count);
    s->chunks_all = km_chunks_of(engine->base.n_all);
    s->first_chunk = km_share_chunk(engine->base.share);
    s->chains = calloc((size_t)chains_count, sizeof *s->chains);
    s->pass = (cpu_seed_pass){.engine = engine, .chains_count = chains_count, .picks = picks};
    s->pass.chains = calloc((size_t)chains_count, sizeof *s->pass.chains);
    int complete = draw_sums_alloc(&s->weights, s) && s->chains && s->pass.chains;
    if (engine->base.share) {
        int64_t candidates = chains_count * SEED_CANDIDATES_MAX;
        s->picked = malloc((size_t)(candidates * (engine->base.d + 1)) * sizeof *s->picked);
        s->gathered = malloc((size_t)(candidates * s->chunks_all) * sizeof *s->gathered);
        complete = complete && s->picked && s->gathered;
    }
    for (int64_t c = 0; complete && c < chains_count; c++) {
        cpu_seed_chain *own = &s->pass.chains[c];
        s->chains[c].restart = first_restart + c;
        own->chosen = -1;
        own->nearest = km_pages_alloc(points * engine->real_bytes);
        own->potentials = calloc((size_t)(s->subchunks_count * SEED_CANDIDATES_MAX), sizeof *own->potentials);
        complete = draw_sums_alloc(&s->chains[c].sums, s) && own->nearest && own->potentials;
        if (complete) fill_infinity(s, own->nearest, points);
    }
    if (complete) return engine->layout->seed_create(&s->pass, err);
    return km_fail_memory(err, "the distances of the k-means++ chains",
                          chains_count * points * engine->real_bytes);
}

static km_status weights_add(seeder *s, km_error *err) {
    for (int64_t p = 0; p < s->subchunks_count; p++) {
        int64_t first = p * s->subchunk_points, count = km_min(s->subchunk_points, s->engine->base.n - first);
        const double *w = cpu_weights_at(s->engine, first);
        double sum = w ? 0 : (double)count;
        for (int64_t i = 0; w && i < count; i++) sum += w[i];
        s->weights.subchunks[p] = sum;
    }
    draw_sums_add(s, &s->weights);
    return km_share_sum(s->engine->base.share, s->weights.chunks, s->chunks_all, err);
}

// w x squared distance of a point, with the last pick, which `nearest` does not know yet.
static double draw_weight(const seeder *s, const cpu_seed_chain *own, int64_t point) {
    const cpu_engine *engine = s->engine;
    double weight = engine->weights ? engine->weights[point] : 1.0;
    if (own->chosen < 0) return weight;
    double square = engine->layout->square(engine, point, own->chosen);
    double least = engine->real_bytes == 4 ? (double)((const float *)own->nearest)[point]
                                           : ((const double *)own->nearest)[point];
    return weight * (square < least ? square : least);
}

// The first point at which the running sum exceeds the target; -1: another rank has it.
static int64_t draw(const seeder *s, const cpu_seed_chain *own, const draw_sums *sums, double target) {
    const cpu_engine *engine = s->engine;
    double running = 0;
    int64_t chunk = km_draw_among(&running, sums->chunks, 0, s->chunks_all, target) - s->first_chunk;
    if (chunk < 0 || chunk >= engine->chunks_count) return -1;
    int64_t subchunk = chunk * subchunks_per_chunk(s);
    subchunk = km_draw_among(&running, sums->subchunks, subchunk,
                             km_min(subchunks_per_chunk(s), s->subchunks_count - subchunk), target);
    int64_t first = subchunk * s->subchunk_points, pick = -1;
    for (int64_t i = first; i < km_min(first + s->subchunk_points, engine->base.n); i++) {
        double weight = draw_weight(s, own, i);
        if (!(weight > 0)) continue;
        pick = i;
        running += weight;
        if (running > target) break;
    }
    return pick >= 0 ? pick : first;
}

// Draws the candidates of a pick; when nothing is left to draw from, *pick is the point and there are none.
static void chain_draw(const seeder *s, int64_t c, int64_t pick_index, int64_t *pick) {
    const cpu_engine *engine = s->engine;
    const chain *of = &s->chains[c];
    cpu_seed_chain *own = &s->pass.chains[c];
    const draw_sums *sums = own->chosen < 0 ? &s->weights : &of->sums;
    double total = 0;
    for (int64_t b = 0; b < s->chunks_all; b++) total += sums->chunks[b];
    *pick = -1;
    own->candidates_count = 0;
    if (!(total > 0)) {
        double u = km_draw(s->seed, (uint64_t)of->restart, (uint64_t)pick_index, 0);
        *pick = km_min((int64_t)(u * (double)engine->base.n_all), engine->base.n_all - 1);
        return;
    }
    int64_t count = km_candidates(pick_index);
    for (int64_t a = 0; a < count; a++) {
        double u = km_draw(s->seed, (uint64_t)of->restart, (uint64_t)pick_index, (uint64_t)a);
        own->candidates[a] = draw(s, own, sums, u * total);
    }
    own->candidates_count = count;
}

// The candidates as all ranks know them: guests, of which a chain has SEED_CANDIDATES_MAX + 1, the last its last pick.
static km_status candidates_join(seeder *s, int64_t count, km_error *err) {
    cpu_engine *engine = s->engine;
    int64_t d = engine->base.d, guests = s->chains_count * (SEED_CANDIDATES_MAX + 1);
    if (!engine->base.share) return KM_OK;
    double *rows = calloc((size_t)(guests * d), sizeof *rows);
    if (!rows) return km_fail_memory(err, "points of other ranks", guests * d * 8);
    memset(s->picked, 0, (size_t)(s->chains_count * count * (d + 1)) * sizeof *s->picked);
    for (int64_t c = 0; c < s->chains_count; c++) {
        const cpu_seed_chain *own = &s->pass.chains[c];
        for (int64_t a = 0; a < own->candidates_count; a++) {
            double *to = s->picked + (c * count + a) * (d + 1);
            if (own->candidates[a] < 0) continue;
            to[0] = (double)(engine->base.share->first + own->candidates[a]);
            km_cpu_row(to + 1, engine, own->candidates[a]);
        }
    }
    km_status status = km_share_sum(engine->base.share, s->picked, s->chains_count * count * (d + 1), err);
    for (int64_t c = 0; c < s->chains_count && status == KM_OK; c++) {
        cpu_seed_chain *own = &s->pass.chains[c];
        int64_t first = c * (SEED_CANDIDATES_MAX + 1), last = first + SEED_CANDIDATES_MAX;
        if (own->chosen >= 0) km_cpu_row(rows + last * d, engine, own->chosen);
        for (int64_t a = 0; a < own->candidates_count; a++) {
            memcpy(rows + (first + a) * d, s->picked + (c * count + a) * (d + 1) + 1,
                   (size_t)d * sizeof *rows);
            own->candidates[a] = engine->base.n + first + a;
        }
        if (own->chosen >= 0) own->chosen = engine->base.n + last;
    }
    if (status == KM_OK) status = km_cpu_guests_put(engine, rows, guests, err);
    free(rows);
    return status;
}

// One read of the points for all chains that have candidates.
static void seeding_pass(seeder *s) {
    const cpu_layout *layout = s->engine->layout;
    layout->seed_begin(&s->pass);
#pragma omp parallel for schedule(dynamic, 16) num_threads(s->threads) if (s->threads > 1)
    for (int64_t subchunk = 0; subchunk < s->subchunks_count; subchunk++) {
        if (km_asking_stops(s->engine->base.asking)) continue;
        int64_t first = subchunk * s->subchunk_points;
        layout->seed_subchunk(&s->pass, subchunk, first,
                              km_min(s->subchunk_points, s->engine->base.n - first));
    }
    layout->seed_end(&s->pass);
}

// What a chunk of this rank would have with a candidate.
static double chunk_potential(const seeder *s, const cpu_seed_chain *own, int64_t chunk, int64_t candidate) {
    int64_t per_chunk = subchunks_per_chunk(s);
    double sum = 0;
    for (int64_t p = chunk * per_chunk; p < km_min((chunk + 1) * per_chunk, s->subchunks_count); p++)
        sum += own->potentials[p * SEED_CANDIDATES_MAX + candidate];
    return sum;
}

// The same of the chunks of all ranks, in `gathered`.
static km_status potentials_join(seeder *s, int64_t count, km_error *err) {
    int64_t all = s->chains_count * count * s->chunks_all;
    if (!s->engine->base.share) return KM_OK;
    memset(s->gathered, 0, (size_t)all * sizeof *s->gathered);
    for (int64_t c = 0; c < s->chains_count; c++)
        for (int64_t a = 0; a < s->pass.chains[c].candidates_count; a++)
            for (int64_t b = 0; b < s->engine->chunks_count; b++)
                s->gathered[(c * count + a) * s->chunks_all + s->first_chunk + b] =
                    chunk_potential(s, &s->pass.chains[c], b, a);
    return km_share_sum(s->engine->base.share, s->gathered, all, err);
}

// The candidate with the smallest potential becomes the pick, its sums the next ones.
static int64_t chain_choose(const seeder *s, int64_t c, int64_t count) {
    const cpu_seed_chain *own = &s->pass.chains[c];
    const km_share *share = s->engine->base.share;
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t a = 0; a < own->candidates_count; a++) {
        double potential = 0;
        for (int64_t b = 0; b < s->chunks_all; b++)
            potential +=
                share ? s->gathered[(c * count + a) * s->chunks_all + b] : chunk_potential(s, own, b, a);
        if (potential < least) {
            least = potential;
            best = a;
        }
    }
    for (int64_t p = 0; p < s->subchunks_count; p++)
        s->chains[c].sums.subchunks[p] = own->potentials[p * SEED_CANDIDATES_MAX + best];
    if (share)
        memcpy(s->chains[c].sums.chunks, s->gathered + (c * count + best) * s->chunks_all,
               (size_t)s->chunks_all * sizeof(double));
    else
        draw_sums_add(s, &s->chains[c].sums);
    return own->candidates[best];
}

// The chain's last pick is this candidate. Returns its index among the points of all ranks.
static int64_t chain_take(const seeder *s, int64_t c, int64_t count, int64_t candidate) {
    s->pass.chains[c].chosen = candidate;
    if (!s->engine->base.share) return candidate;
    int64_t a = candidate - s->engine->base.n - c * (SEED_CANDIDATES_MAX + 1);
    return (int64_t)s->picked[(c * count + a) * (s->engine->base.d + 1)];
}

km_status km_cpu_seed_plusplus(km_engine *base, int64_t *indices, int64_t first_restart, int64_t chains_count,
                               int64_t picks, uint64_t seed, int (*progress)(void *user, int64_t picks_done),
                               void *progress_user, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    seeder s;
    km_status status = seeder_init(&s, engine, first_restart, chains_count, picks, seed, err);
    if (status != KM_OK) goto done;
    KM_TRY_GOTO(weights_add(&s, err));
    for (int64_t p = 0; p < picks; p++) {
        int wanted = 0;
        int64_t count = km_candidates(p);
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads) if (s.threads > 1) reduction(| : wanted)
        for (int64_t c = 0; c < chains_count; c++) {
            chain_draw(&s, c, p, &indices[c * picks + p]);
            wanted |= s.pass.chains[c].candidates_count > 0;
        }
        int single = p == 0 && picks == 1; // nothing to compare, nothing to prepare
        if (wanted) KM_TRY_GOTO(candidates_join(&s, count, err));
        if (wanted && !single) seeding_pass(&s);
        KM_TRY_GOTO(km_asking_status(base->asking, err));
        if (wanted && !single) KM_TRY_GOTO(potentials_join(&s, count, err));
        for (int64_t c = 0; c < chains_count; c++) {
            cpu_seed_chain *own = &s.pass.chains[c];
            if (own->candidates_count == 0) continue; // its distances are all zero: they stay so
            int64_t pick = single ? own->candidates[0] : chain_choose(&s, c, count);
            indices[c * picks + p] = chain_take(&s, c, count, pick);
        }
        if (progress && progress(progress_user, p + 1)) {
            status = km_fail(err, KM_ERROR_INTERRUPTED, "interrupted while seeding, after pick %lld of %lld",
                             (long long)p + 1, (long long)picks);
            goto done;
        }
    }
done:
    seeder_free(&s);
    return status;
}

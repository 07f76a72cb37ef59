// SPDX-License-Identifier: MIT
// k-means++ chains (runtime/seed.h says exactly which): one read of the points per pick serves every chain.
//
// A pass for pick p does two things at each point: it takes the last pick into the distance to the nearest pick, and
// sums what that distance would become with each candidate, subchunk by subchunk. So the chosen candidate's sums are
// the next pick's sums, and only the subchunk into which a draw falls is read point by point.
#include "../../base/error.h"
#include "../../base/size.h"
#include "cpu.h"
#include "layout.h"
#include "../threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SUBCHUNK_POINTS = 1024 }; // points of a subchunk; an SoA group where that is more

// What is drawn from: sums of subchunks, and of chunks, which are added from their subchunks in index order.
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
    out->subchunks = calloc((size_t)(s->subchunks_count + s->engine->chunks_count), sizeof *out->subchunks);
    out->chunks = out->subchunks ? out->subchunks + s->subchunks_count : NULL;
    return out->subchunks != NULL;
}

static int64_t subchunks_per_chunk(const seeder *s) {
    return KM_CHUNK_POINTS / s->subchunk_points;
}

// Sums of chunks from those of their subchunks.
static void draw_sums_add(const seeder *s, draw_sums *of) {
    int64_t per_chunk = subchunks_per_chunk(s);
    for (int64_t chunk = 0; chunk < s->engine->chunks_count; chunk++) {
        double sum = 0;
        for (int64_t p = chunk * per_chunk; p < km_min((chunk + 1) * per_chunk, s->subchunks_count); p++)
            sum += of->subchunks[p];
        of->chunks[chunk] = sum;
    }
}

static km_status seeder_init(seeder *s, cpu_engine *engine, int64_t first_restart, int64_t chains_count,
                             int64_t picks, uint64_t seed, km_error *err) {
    int64_t points = km_round_up(engine->base.n, engine->soa_points);
    *s = (seeder){.engine = engine, .seed = seed, .chains_count = chains_count};
    s->subchunk_points = engine->soa_points > SUBCHUNK_POINTS ? engine->soa_points : SUBCHUNK_POINTS;
    s->subchunks_count = (engine->base.n + s->subchunk_points - 1) / s->subchunk_points;
    s->threads = cpu_threads_for(engine, engine->chunks_count);
    s->chains = calloc((size_t)chains_count, sizeof *s->chains);
    s->pass = (cpu_seed_pass){.engine = engine, .chains_count = chains_count, .picks = picks};
    s->pass.chains = calloc((size_t)chains_count, sizeof *s->pass.chains);
    int complete = draw_sums_alloc(&s->weights, s) && s->chains && s->pass.chains;
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

static void weights_add(seeder *s) {
    for (int64_t p = 0; p < s->subchunks_count; p++) {
        int64_t first = p * s->subchunk_points, count = km_min(s->subchunk_points, s->engine->base.n - first);
        const double *w = cpu_weights_at(s->engine, first);
        double sum = w ? 0 : (double)count;
        for (int64_t i = 0; w && i < count; i++) sum += w[i];
        s->weights.subchunks[p] = sum;
    }
    draw_sums_add(s, &s->weights);
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

// The first of `count` sums from `first` on at which the running sum exceeds the target; *running becomes the sum
// before it. Rounding may leave the target beyond the last sum: then the last one that is not 0.
static int64_t draw_among(double *running, const double *sums, int64_t first, int64_t count, double target) {
    int64_t last = first;
    double before = *running, sum = *running;
    for (int64_t i = first; i < first + count; i++) {
        if (!(sums[i] > 0)) continue;
        last = i;
        before = sum;
        sum += sums[i];
        if (sum > target) break;
    }
    *running = before;
    return last;
}

// The first point at which the running sum exceeds the target.
static int64_t draw(const seeder *s, const cpu_seed_chain *own, const draw_sums *sums, double target) {
    const cpu_engine *engine = s->engine;
    double running = 0;
    int64_t chunk = draw_among(&running, sums->chunks, 0, engine->chunks_count, target);
    int64_t subchunk = chunk * subchunks_per_chunk(s);
    subchunk = draw_among(&running, sums->subchunks, subchunk,
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
    for (int64_t b = 0; b < engine->chunks_count; b++) total += sums->chunks[b];
    *pick = -1;
    own->candidates_count = 0;
    if (!(total > 0)) {
        double u = km_draw(s->seed, (uint64_t)of->restart, (uint64_t)pick_index, 0);
        *pick = km_min((int64_t)(u * (double)engine->base.n), engine->base.n - 1);
        return;
    }
    int64_t count = km_candidates(pick_index);
    for (int64_t a = 0; a < count; a++) {
        double u = km_draw(s->seed, (uint64_t)of->restart, (uint64_t)pick_index, (uint64_t)a);
        own->candidates[a] = draw(s, own, sums, u * total);
    }
    own->candidates_count = count;
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

// The candidate with the smallest potential becomes the pick, its sums the next ones.
static int64_t chain_choose(const seeder *s, int64_t c) {
    const cpu_seed_chain *own = &s->pass.chains[c];
    int64_t best = 0, per_chunk = subchunks_per_chunk(s);
    double least = INFINITY;
    for (int64_t a = 0; a < own->candidates_count; a++) {
        double potential = 0;
        for (int64_t b = 0; b < s->engine->chunks_count; b++) {
            double sum = 0;
            for (int64_t p = b * per_chunk; p < km_min((b + 1) * per_chunk, s->subchunks_count); p++)
                sum += own->potentials[p * SEED_CANDIDATES_MAX + a];
            potential += sum;
        }
        if (potential < least) {
            least = potential;
            best = a;
        }
    }
    for (int64_t p = 0; p < s->subchunks_count; p++)
        s->chains[c].sums.subchunks[p] = own->potentials[p * SEED_CANDIDATES_MAX + best];
    draw_sums_add(s, &s->chains[c].sums);
    return own->candidates[best];
}

km_status km_cpu_seed_plusplus(km_engine *base, int64_t *indices, int64_t first_restart, int64_t chains_count,
                               int64_t picks, uint64_t seed, int (*progress)(void *user, int64_t picks_done),
                               void *progress_user, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    seeder s;
    km_status status = seeder_init(&s, engine, first_restart, chains_count, picks, seed, err);
    if (status != KM_OK) goto done;
    weights_add(&s);
    for (int64_t p = 0; p < picks; p++) {
        int wanted = 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(s.threads) if (s.threads > 1) reduction(| : wanted)
        for (int64_t c = 0; c < chains_count; c++) {
            chain_draw(&s, c, p, &indices[c * picks + p]);
            wanted |= s.pass.chains[c].candidates_count > 0;
        }
        int single = p == 0 && picks == 1; // nothing to compare, nothing to prepare
        if (wanted && !single) seeding_pass(&s);
        KM_TRY_GOTO(km_asking_status(base->asking, err));
        for (int64_t c = 0; c < chains_count; c++) {
            cpu_seed_chain *own = &s.pass.chains[c];
            if (own->candidates_count == 0) continue; // its distances are all zero: they stay so
            int64_t pick = single ? own->candidates[0] : chain_choose(&s, c);
            indices[c * picks + p] = own->chosen = pick;
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

// SPDX-License-Identifier: MIT
// k-means++ chains (runtime/seed.h says exactly which): one read of the points per pick serves every chain.
//
// A pass for pick p does two things at each point: it takes the last pick into the distance to the nearest pick, and
// sums what that distance would become with each candidate. So the chosen candidate's sums are the next pick's
// sums of blocks, and only the one block in which a draw falls is looked at point by point.
#include "cpu.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES_MAX = 16 }; // km_candidates is at most 13

typedef struct chain {
    int64_t restart;
    uint8_t *nearest; // reals, whole groups
    int64_t candidates[CANDIDATES_MAX];
    int64_t candidates_count;
    uint8_t *rows;      // reals: CANDIDATES_MAX + 1 rows of d, the last is the chosen one
    int64_t chosen;     // point of the last pick, -1 before the first
    double *potentials; // blocks x CANDIDATES_MAX
    double *sums;       // of each block: w x squared distance to the nearest pick
} chain;

typedef struct seeder {
    cpu_engine *engine;
    uint64_t seed;
    chain *chains;
    int64_t chains_count;
    double *block_weights;
    km_cpu_chain *lists; // threads x chains_count
    double *row;         // d
} seeder;

static void seeder_free(seeder *s) {
    for (int64_t c = 0; s->chains && c < s->chains_count; c++) {
        km_cpu_free(s->chains[c].nearest);
        free(s->chains[c].rows);
        free(s->chains[c].potentials);
    }
    free(s->chains);
    free(s->block_weights);
    free(s->lists);
    free(s->row);
}

static void fill_infinity(uint8_t *nearest, int64_t count, int64_t real_bytes) {
    if (real_bytes == 4)
        for (int64_t i = 0; i < count; i++) ((float *)nearest)[i] = INFINITY;
    else
        for (int64_t i = 0; i < count; i++) ((double *)nearest)[i] = INFINITY;
}

static km_status seeder_init(seeder *s, cpu_engine *engine, int64_t first_restart, int64_t chains_count,
                             uint64_t seed, km_error *err) {
    int64_t points = cpu_round_up(engine->base.n, engine->group), d = engine->base.d;
    int64_t blocks = engine->blocks_count;
    *s = (seeder){.engine = engine, .seed = seed, .chains_count = chains_count};
    s->chains = calloc((size_t)chains_count, sizeof *s->chains);
    s->block_weights = calloc((size_t)blocks, sizeof *s->block_weights);
    s->lists = calloc((size_t)(engine->threads * chains_count), sizeof *s->lists);
    s->row = calloc((size_t)d, sizeof *s->row);
    int whole = s->chains && s->block_weights && s->lists && s->row;
    for (int64_t c = 0; whole && c < chains_count; c++) {
        chain *own = &s->chains[c];
        own->restart = first_restart + c;
        own->chosen = -1;
        own->nearest = km_cpu_alloc(points * engine->real_bytes);
        own->rows = calloc((size_t)((CANDIDATES_MAX + 1) * d), (size_t)engine->real_bytes);
        own->potentials = calloc((size_t)(blocks * (CANDIDATES_MAX + 1)), sizeof *own->potentials);
        whole = own->nearest && own->rows && own->potentials;
        if (!whole) break;
        own->sums = own->potentials + blocks * CANDIDATES_MAX;
        fill_infinity(own->nearest, points, engine->real_bytes);
    }
    return whole ? KM_OK
                 : km_fail_memory(err, "the distances of the k-means++ chains",
                                  chains_count * points * engine->real_bytes);
}

static void block_weights(seeder *s) {
    for (int64_t block = 0; block < s->engine->blocks_count; block++) {
        int64_t points = cpu_block_points(s->engine, block);
        const double *w = cpu_weights_at(s->engine, block * KM_BLOCK_POINTS);
        double sum = w ? 0 : (double)points;
        for (int64_t i = 0; w && i < points; i++) sum += w[i];
        s->block_weights[block] = sum;
    }
}

static void *chain_row(const seeder *s, const chain *own, int64_t index) {
    return own->rows + index * s->engine->base.d * s->engine->real_bytes;
}

static void row_fill(const seeder *s, void *out, int64_t point) {
    km_cpu_row(s->row, s->engine, point);
    for (int64_t f = 0; f < s->engine->base.d; f++) {
        if (s->engine->real_bytes == 4)
            ((float *)out)[f] = (float)s->row[f];
        else
            ((double *)out)[f] = s->row[f];
    }
}

// w x squared distance of a block's points, with the last pick, which `nearest` does not know yet.
static double point_share(const seeder *s, const chain *own, int64_t point) {
    const cpu_engine *engine = s->engine;
    double weight = engine->weights ? engine->weights[point] : 1.0;
    if (own->chosen < 0) return weight;
    int single = engine->real_bytes == 4;
    double least =
        single ? (double)((const float *)own->nearest)[point] : ((const double *)own->nearest)[point];
    const void *chosen = chain_row(s, own, CANDIDATES_MAX);
    double square = 0;
    float square32 = 0;
    km_cpu_row(s->row, engine, point);
    for (int64_t f = 0; f < engine->base.d; f++) {
        if (single) {
            float t = (float)s->row[f] - ((const float *)chosen)[f];
            square32 += t * t;
        } else {
            double t = s->row[f] - ((const double *)chosen)[f];
            square += t * t;
        }
    }
    if (single) square = (double)square32;
    return weight * (square < least ? square : least);
}

// The first point at which the running sum exceeds the target.
static int64_t draw(const seeder *s, const chain *own, const double *sums, double target) {
    const cpu_engine *engine = s->engine;
    double running = 0;
    int64_t block = 0, found = -1, last = -1;
    // Rounding may leave the target beyond the last sum: then the last block that has any weight is taken.
    for (int64_t b = 0; b < engine->blocks_count && found < 0; b++) {
        if (sums[b] > 0) {
            last = b;
            if (running + sums[b] > target) found = b;
        }
        if (found < 0) running += sums[b];
    }
    block = found >= 0 ? found : last;
    if (found < 0) running -= sums[block];
    int64_t first = block * KM_BLOCK_POINTS, pick = -1;
    for (int64_t i = first; i < first + cpu_block_points(engine, block); i++) {
        double share = point_share(s, own, i);
        if (!(share > 0)) continue;
        pick = i;
        running += share;
        if (running > target) break;
    }
    return pick >= 0 ? pick : first;
}

// Draws the candidates of a pick; when nothing is left to draw from, *pick is the point and there are none.
static void chain_draw(const seeder *s, chain *own, int64_t pick_index, int64_t *pick) {
    const cpu_engine *engine = s->engine;
    const double *sums = own->chosen < 0 ? s->block_weights : own->sums;
    double total = 0;
    for (int64_t b = 0; b < engine->blocks_count; b++) total += sums[b];
    *pick = -1;
    own->candidates_count = 0;
    if (!(total > 0)) {
        double u = km_draw(s->seed, (uint64_t)own->restart, (uint64_t)pick_index, 0);
        *pick = cpu_min((int64_t)(u * (double)engine->base.n), engine->base.n - 1);
        return;
    }
    int64_t count = km_candidates(pick_index);
    for (int64_t a = 0; a < count; a++) {
        double u = km_draw(s->seed, (uint64_t)own->restart, (uint64_t)pick_index, (uint64_t)a);
        own->candidates[a] = draw(s, own, sums, u * total);
        row_fill(s, chain_row(s, own, a), own->candidates[a]);
    }
    own->candidates_count = count;
}

// One read of the points for all chains that have candidates.
static void seeding_pass(seeder *s) {
    cpu_engine *engine = s->engine;
    int threads = cpu_threads_for(engine, engine->blocks_count);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t block = 0; block < engine->blocks_count; block++) {
        km_cpu_chain *list = s->lists + omp_get_thread_num() * s->chains_count;
        int64_t count = 0;
        for (int64_t c = 0; c < s->chains_count; c++) {
            chain *own = &s->chains[c];
            if (own->candidates_count == 0) continue;
            list[count++] =
                (km_cpu_chain){.nearest = own->nearest + block * KM_BLOCK_POINTS * engine->real_bytes,
                               .chosen = own->chosen < 0 ? NULL : chain_row(s, own, CANDIDATES_MAX),
                               .candidates = own->rows,
                               .candidates_count = own->candidates_count,
                               .potentials = own->potentials + block * CANDIDATES_MAX};
        }
        km_cpu_seeding work = {.points = cpu_block_at(engine, block),
                               .weights = cpu_weights_at(engine, block * KM_BLOCK_POINTS),
                               .points_count = cpu_block_points(engine, block),
                               .d = engine->base.d,
                               .group = engine->group,
                               .chains = list,
                               .chains_count = count};
        engine->kernels.seed(&work);
    }
}

// The candidate with the smallest potential becomes the pick, its sums of blocks the next ones.
static int64_t chain_choose(const seeder *s, chain *own) {
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t a = 0; a < own->candidates_count; a++) {
        double potential = 0;
        for (int64_t b = 0; b < s->engine->blocks_count; b++)
            potential += own->potentials[b * CANDIDATES_MAX + a];
        if (potential < least) {
            least = potential;
            best = a;
        }
    }
    for (int64_t b = 0; b < s->engine->blocks_count; b++)
        own->sums[b] = own->potentials[b * CANDIDATES_MAX + best];
    return own->candidates[best];
}

km_status km_cpu_seed_plusplus(km_engine *base, int64_t *indices, int64_t first_restart, int64_t chains_count,
                               int64_t picks, uint64_t seed, int (*progress)(void *user, int64_t picks_done),
                               void *progress_user, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    seeder s;
    km_status status = seeder_init(&s, engine, first_restart, chains_count, seed, err);
    if (status != KM_OK) goto done;
    block_weights(&s);
    for (int64_t p = 0; p < picks; p++) {
        int wanted = 0;
        for (int64_t c = 0; c < chains_count; c++) {
            chain_draw(&s, &s.chains[c], p, &indices[c * picks + p]);
            wanted |= s.chains[c].candidates_count > 0;
        }
        int single = p == 0 && picks == 1; // nothing to compare, nothing to prepare
        if (wanted && !single) seeding_pass(&s);
        for (int64_t c = 0; c < chains_count; c++) {
            chain *own = &s.chains[c];
            if (own->candidates_count == 0) continue; // its distances are all zero: they stay so
            int64_t pick = single ? own->candidates[0] : chain_choose(&s, own);
            indices[c * picks + p] = own->chosen = pick;
            row_fill(&s, chain_row(&s, own, CANDIDATES_MAX), pick);
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

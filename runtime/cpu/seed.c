// SPDX-License-Identifier: MIT
// k-means++ chains (runtime/seed.h says exactly which): one read of the points per pick serves every chain.
//
// A pass for pick p does two things at each point: it takes the last pick into the distance to the nearest pick, and
// sums what that distance would become with each candidate, subchunk by subchunk. So the chosen candidate's sums are
// the next pick's sums, and only the subchunk into which a draw falls is read point by point.
#include "../../base/error.h"
#include "../../base/size.h"
#include "cpu.h"
#include "sparse_engine.h"
#include "../threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES_MAX = 16,   // km_candidates is at most 13
    SUBCHUNK_POINTS = 1024 // points of a subchunk; an SoA group where that is more
};

// What is drawn from: sums of subchunks, and of chunks, which are added from their subchunks in index order.
typedef struct shares {
    double *subchunks, *chunks;
} shares;

typedef struct chain {
    int64_t restart;
    uint8_t *nearest; // reals, whole SoA groups
    int64_t candidates[CANDIDATES_MAX];
    int64_t candidates_count;
    uint8_t *rows;      // reals: CANDIDATES_MAX + 1 rows of d, the last is the chosen one
    int64_t chosen;     // point of the last pick, -1 before the first
    int64_t column;     // of the first candidate, where points lie as CSR
    double *potentials; // subchunks x CANDIDATES_MAX
    shares sums;        // of w x squared distance to the nearest pick
} chain;

typedef struct seeder {
    cpu_engine *engine;
    uint64_t seed;
    chain *chains;
    int64_t chains_count;
    shares weights;
    km_cpu_chain *lists; // threads x chains_count
    int64_t subchunk_points, subchunks_count;
    int threads;
    // Where points lie as CSR, in place of rows and lists:
    cpu_sparse_table table; // of the candidates of all chains, and their last picks
    void *table_memory;
    double *scores; // of each thread
    cpu_sparse_chain *sparse_lists;
} seeder;

static void seeder_free(seeder *s) {
    for (int64_t c = 0; s->chains && c < s->chains_count; c++) {
        km_pages_free(s->chains[c].nearest);
        free(s->chains[c].rows);
        free(s->chains[c].potentials);
        free(s->chains[c].sums.subchunks);
    }
    free(s->chains);
    free(s->weights.subchunks);
    free(s->lists);
    free(s->scores);
    free(s->sparse_lists);
    km_pages_free(s->table_memory);
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

static int shares_alloc(shares *out, const seeder *s) {
    out->subchunks = calloc((size_t)(s->subchunks_count + s->engine->chunks_count), sizeof *out->subchunks);
    out->chunks = out->subchunks ? out->subchunks + s->subchunks_count : NULL;
    return out->subchunks != NULL;
}

static int64_t subchunks_per_chunk(const seeder *s) {
    return KM_CHUNK_POINTS / s->subchunk_points;
}

// Sums of chunks from those of their subchunks.
static void shares_add(const seeder *s, shares *of) {
    int64_t per_chunk = subchunks_per_chunk(s);
    for (int64_t chunk = 0; chunk < s->engine->chunks_count; chunk++) {
        double sum = 0;
        for (int64_t p = chunk * per_chunk; p < km_min((chunk + 1) * per_chunk, s->subchunks_count); p++)
            sum += of->subchunks[p];
        of->chunks[chunk] = sum;
    }
}

// The table of CSR points: columns for the most candidates that a pick has, and for the last picks.
static km_status sparse_init(seeder *s, int64_t picks, km_error *err) {
    int64_t columns = s->chains_count * (km_candidates(picks - 1) + 1), threads = s->engine->threads;
    KM_TRY(km_cpu_sparse_wide_table(&s->table, &s->table_memory, s->engine, columns, err));
    int64_t count = threads * km_cpu_sparse_scores_count(&s->table);
    s->scores = malloc((size_t)count * sizeof *s->scores);
    s->sparse_lists = calloc((size_t)(threads * s->chains_count), sizeof *s->sparse_lists);
    return s->scores && s->sparse_lists ? KM_OK : km_fail_memory(err, "scores of candidates", count * 8);
}

static km_status seeder_init(seeder *s, cpu_engine *engine, int64_t first_restart, int64_t chains_count,
                             int64_t picks, uint64_t seed, km_error *err) {
    int64_t points = km_round_up(engine->base.n, engine->soa_points), d = engine->base.d;
    *s = (seeder){.engine = engine, .seed = seed, .chains_count = chains_count};
    s->subchunk_points = engine->soa_points > SUBCHUNK_POINTS ? engine->soa_points : SUBCHUNK_POINTS;
    s->subchunks_count = (engine->base.n + s->subchunk_points - 1) / s->subchunk_points;
    s->threads = cpu_threads_for(engine, engine->chunks_count);
    s->chains = calloc((size_t)chains_count, sizeof *s->chains);
    s->lists = calloc((size_t)(engine->threads * chains_count), sizeof *s->lists);
    int complete = shares_alloc(&s->weights, s) && s->chains && s->lists;
    for (int64_t c = 0; complete && c < chains_count; c++) {
        chain *own = &s->chains[c];
        own->restart = first_restart + c;
        own->chosen = -1;
        own->nearest = km_pages_alloc(points * engine->real_bytes);
        own->rows =
            calloc((size_t)(engine->sparse ? 1 : (CANDIDATES_MAX + 1) * d), (size_t)engine->real_bytes);
        own->potentials = calloc((size_t)(s->subchunks_count * CANDIDATES_MAX), sizeof *own->potentials);
        complete = shares_alloc(&own->sums, s) && own->nearest && own->rows && own->potentials;
        if (complete) fill_infinity(s, own->nearest, points);
    }
    if (complete) return engine->sparse ? sparse_init(s, picks, err) : KM_OK;
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
    shares_add(s, &s->weights);
}

static uint8_t *chain_row(const seeder *s, const chain *own, int64_t index) {
    return own->rows + index * s->engine->base.d * s->engine->real_bytes;
}

// The first value of a point; the next ones lie `soa_points` apart.
static const uint8_t *point_at(const cpu_engine *engine, int64_t point) {
    int64_t lane = point % engine->soa_points;
    return engine->points + ((point - lane) * engine->base.d + lane) * engine->real_bytes;
}

static void row_fill(const seeder *s, uint8_t *out, int64_t point) {
    const cpu_engine *engine = s->engine;
    if (engine->sparse) return;
    const uint8_t *x = point_at(engine, point);
    for (int64_t f = 0; f < engine->base.d; f++)
        memcpy(out + f * engine->real_bytes, x + f * engine->soa_points * engine->real_bytes,
               (size_t)engine->real_bytes);
}

static double square_float32(const float *x, const float *row, int64_t d, int64_t soa_points) {
    float square = 0;
    for (int64_t f = 0; f < d; f++) {
        float t = x[f * soa_points] - row[f];
        square += t * t;
    }
    return (double)square;
}

static double square_float64(const double *x, const double *row, int64_t d, int64_t soa_points) {
    double square = 0;
    for (int64_t f = 0; f < d; f++) {
        double t = x[f * soa_points] - row[f];
        square += t * t;
    }
    return square;
}

// w x squared distance of a point, with the last pick, which `nearest` does not know yet.
static double point_share(const seeder *s, const chain *own, int64_t point) {
    const cpu_engine *engine = s->engine;
    double weight = engine->weights ? engine->weights[point] : 1.0, least, square;
    if (own->chosen < 0) return weight;
    if (engine->sparse) {
        square = km_cpu_sparse_square(engine, point, own->chosen);
        if (engine->real_bytes == 4) square = (double)(float)square;
        least = engine->real_bytes == 4 ? (double)((const float *)own->nearest)[point]
                                        : ((const double *)own->nearest)[point];
        return weight * (square < least ? square : least);
    }
    const uint8_t *x = point_at(engine, point), *row = chain_row(s, own, CANDIDATES_MAX);
    if (engine->real_bytes == 4) {
        least = (double)((const float *)own->nearest)[point];
        square = square_float32((const float *)x, (const float *)row, engine->base.d, engine->soa_points);
    } else {
        least = ((const double *)own->nearest)[point];
        square = square_float64((const double *)x, (const double *)row, engine->base.d, engine->soa_points);
    }
    return weight * (square < least ? square : least);
}

// The first of `count` shares from `first` on at which the running sum exceeds the target; *running becomes the sum
// before it. Rounding may leave the target beyond the last sum: then the last one that has any share.
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
static int64_t draw(const seeder *s, const chain *own, const shares *sums, double target) {
    const cpu_engine *engine = s->engine;
    double running = 0;
    int64_t chunk = draw_among(&running, sums->chunks, 0, engine->chunks_count, target);
    int64_t subchunk = chunk * subchunks_per_chunk(s);
    subchunk = draw_among(&running, sums->subchunks, subchunk,
                          km_min(subchunks_per_chunk(s), s->subchunks_count - subchunk), target);
    int64_t first = subchunk * s->subchunk_points, pick = -1;
    for (int64_t i = first; i < km_min(first + s->subchunk_points, engine->base.n); i++) {
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
    const shares *sums = own->chosen < 0 ? &s->weights : &own->sums;
    double total = 0;
    for (int64_t b = 0; b < engine->chunks_count; b++) total += sums->chunks[b];
    *pick = -1;
    own->candidates_count = 0;
    if (!(total > 0)) {
        double u = km_draw(s->seed, (uint64_t)own->restart, (uint64_t)pick_index, 0);
        *pick = km_min((int64_t)(u * (double)engine->base.n), engine->base.n - 1);
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

static void seeding_subchunk(seeder *s, km_cpu_chain *list, int64_t subchunk) {
    cpu_engine *engine = s->engine;
    int64_t count = 0, first = subchunk * s->subchunk_points, d = engine->base.d;
    for (int64_t c = 0; c < s->chains_count; c++) {
        chain *own = &s->chains[c];
        if (own->candidates_count == 0) continue;
        list[count++] = (km_cpu_chain){.nearest = own->nearest + first * engine->real_bytes,
                                       .chosen = own->chosen < 0 ? NULL : chain_row(s, own, CANDIDATES_MAX),
                                       .candidates = own->rows,
                                       .candidates_count = own->candidates_count,
                                       .potentials = own->potentials + subchunk * CANDIDATES_MAX};
    }
    km_cpu_seeding work = {.points = engine->points + first * d * engine->real_bytes,
                           .weights = cpu_weights_at(engine, first),
                           .points_count = km_min(s->subchunk_points, engine->base.n - first),
                           .d = d,
                           .soa_points = engine->soa_points,
                           .chains = list,
                           .chains_count = count};
    engine->kernels.seed(&work);
}

// The columns of all chains' candidates and last picks, written or cleared.
static void sparse_columns(seeder *s, int clear) {
    void (*put)(const cpu_sparse_table *, const cpu_engine *, int64_t, int64_t) =
        clear ? km_cpu_sparse_seed_clear : km_cpu_sparse_seed_put;
    int64_t column = 0;
    for (int64_t c = 0; c < s->chains_count; c++) {
        chain *own = &s->chains[c];
        if (own->candidates_count == 0) continue;
        own->column = column;
        for (int64_t a = 0; a < own->candidates_count; a++)
            put(&s->table, s->engine, column++, own->candidates[a]);
        if (own->chosen >= 0) put(&s->table, s->engine, column++, own->chosen);
    }
    s->table.columns = column;
}

static void sparse_subchunk(seeder *s, int64_t subchunk) {
    int64_t me = omp_get_thread_num(), count = 0, first = subchunk * s->subchunk_points;
    cpu_sparse_chain *list = s->sparse_lists + me * s->chains_count;
    for (int64_t c = 0; c < s->chains_count; c++) {
        const chain *own = &s->chains[c];
        if (own->candidates_count == 0) continue;
        list[count++] = (cpu_sparse_chain){.nearest = own->nearest,
                                           .column = own->column,
                                           .candidates_count = own->candidates_count,
                                           .has_chosen = own->chosen >= 0,
                                           .potentials = own->potentials + subchunk * CANDIDATES_MAX};
    }
    km_cpu_sparse_seed(s->engine, &s->table, s->scores + me * km_cpu_sparse_scores_count(&s->table), list,
                       count, first, km_min(s->subchunk_points, s->engine->base.n - first));
}

// One read of the points for all chains that have candidates.
static void seeding_pass(seeder *s) {
    if (s->engine->sparse) {
        sparse_columns(s, 0);
#pragma omp parallel for schedule(dynamic, 4) num_threads(s->threads) if (s->threads > 1)
        for (int64_t subchunk = 0; subchunk < s->subchunks_count; subchunk++) sparse_subchunk(s, subchunk);
        sparse_columns(s, 1);
        return;
    }
#pragma omp parallel for schedule(dynamic, 16) num_threads(s->threads) if (s->threads > 1)
    for (int64_t subchunk = 0; subchunk < s->subchunks_count; subchunk++)
        seeding_subchunk(s, s->lists + omp_get_thread_num() * s->chains_count, subchunk);
}

// The candidate with the smallest potential becomes the pick, its sums the next ones.
static int64_t chain_choose(const seeder *s, chain *own) {
    int64_t best = 0, per_chunk = subchunks_per_chunk(s);
    double least = INFINITY;
    for (int64_t a = 0; a < own->candidates_count; a++) {
        double potential = 0;
        for (int64_t b = 0; b < s->engine->chunks_count; b++) {
            double sum = 0;
            for (int64_t p = b * per_chunk; p < km_min((b + 1) * per_chunk, s->subchunks_count); p++)
                sum += own->potentials[p * CANDIDATES_MAX + a];
            potential += sum;
        }
        if (potential < least) {
            least = potential;
            best = a;
        }
    }
    for (int64_t p = 0; p < s->subchunks_count; p++)
        own->sums.subchunks[p] = own->potentials[p * CANDIDATES_MAX + best];
    shares_add(s, &own->sums);
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

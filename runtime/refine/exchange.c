// SPDX-License-Identifier: MIT
// Where the sample is the whole table, points change their cluster one by one while that lowers the inertia
// (Hartigan). A point x leaves cluster a for b where w_b / (w_b + w) |x - c_b|^2 < w_a / (w_a - w) |x -
// c_a|^2, although a's centroid may be the nearest: passes stop before that, the more so the fewer points a
// cluster has.
#include "../../base/error.h"
#include "../../base/size.h"
#include "refiner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXCHANGE_ROUNDS = 100,
    THREADS_VALUES = 1 << 22, // of all trials, K and points from which exchanges have several threads
    EXCHANGE_COST = 2         // an assignment on the host, in those of a pass
};
// Points are looked at one by one where the second-nearest centroid would be the better one if it were so much
// nearer.
#define BORDER 1.05

// What one thread needs: of each point the squared distances to its nearest and second-nearest centroid, and which
// these are.
typedef struct exchanger {
    const refiner *r;
    double *first, *second; // whole tiles
    int32_t *label, *second_label;
    double *centroids, *weights; // of the model
    int64_t k, assignments;
} exchanger;

static void exchange_free(exchanger *e) {
    free(e->first);
    free(e->label);
    free(e->centroids);
}

static int exchange_alloc(exchanger *e, const refiner *r) {
    int64_t count = km_round_up(r->sample_count, TILE);
    *e = (exchanger){.r = r,
                     .first = malloc((size_t)(2 * count) * sizeof *e->first),
                     .label = malloc((size_t)(2 * count) * sizeof *e->label),
                     .centroids = malloc((size_t)model_values(r, r->k_max) * sizeof *e->centroids)};
    if (!e->first || !e->label || !e->centroids) return 0;
    e->second = e->first + count;
    e->second_label = e->label + count;
    return 1;
}

static void exchange_assign(exchanger *e) {
    int64_t d = e->r->engine->d;
    e->assignments++;
    for (int64_t i = 0; i < e->r->sample_count; i += TILE) {
        double first[TILE], second[TILE], now[TILE];
        int32_t label[TILE] = {0}, second_label[TILE] = {0};
        for (int64_t l = 0; l < TILE; l++) first[l] = second[l] = HUGE_VAL;
        for (int32_t j = 0; j < e->k; j++) {
            km_tile_squares(now, sample_tile(e->r, i), e->centroids + j * d, d);
#pragma omp simd
            for (int64_t l = 0; l < TILE; l++) {
                int is_first = now[l] < first[l], is_second = now[l] < second[l];
                second[l] = is_first ? first[l] : is_second ? now[l] : second[l];
                second_label[l] = is_first ? label[l] : is_second ? j : second_label[l];
                first[l] = is_first ? now[l] : first[l];
                label[l] = is_first ? j : label[l];
            }
        }
        memcpy(e->first + i, first, sizeof first);
        memcpy(e->second + i, second, sizeof second);
        memcpy(e->label + i, label, sizeof label);
        memcpy(e->second_label + i, second_label, sizeof second_label);
    }
}

// Centroids become the means of their points.
static void exchange_update(exchanger *e) {
    const refiner *r = e->r;
    int64_t d = r->engine->d;
    memset(e->weights, 0, (size_t)e->k * sizeof *e->weights);
    for (int64_t i = 0; i < r->sample_count; i++) e->weights[e->label[i]] += r->sample_weights[i];
    for (int64_t j = 0; j < e->k; j++)
        if (e->weights[j] > 0) memset(e->centroids + j * d, 0, (size_t)d * sizeof *e->centroids);
    for (int64_t i = 0; i < r->sample_count; i++) {
        double *c = e->centroids + e->label[i] * d, share = r->sample_weights[i] / e->weights[e->label[i]];
        for (int64_t f = 0; f < d && share > 0; f++) c[f] += share * r->sample_rows[i * d + f];
    }
}

// Whether a point is so near to the border of its cluster that the other one could take it.
static int is_at_border(const exchanger *e, int64_t i) {
    double w = e->r->sample_weights[i], own = e->weights[e->label[i]], other = e->weights[e->second_label[i]];
    if (!(w > 0) || !(own > w)) return 0;
    return e->second[i] * (other / (other + w)) < BORDER * e->first[i] * (own / (own - w));
}

// Moves the point to the cluster where it costs least. Returns whether it moved.
static int exchange_point(exchanger *e, int64_t i) {
    int64_t d = e->r->engine->d, from = e->label[i], to = from;
    const double *x = e->r->sample_rows + i * d;
    double w = e->r->sample_weights[i], least = HUGE_VAL, *weights = e->weights;
    if (!(weights[from] > w)) return 0;
    for (int64_t j = 0; j < e->k; j++) {
        const double *c = e->centroids + j * d;
        double square = 0;
        for (int64_t f = 0; f < d; f++) square += (x[f] - c[f]) * (x[f] - c[f]);
        // A tie, and what rounding makes of one, stays where it is.
        square *= j == from ? weights[j] / (weights[j] - w) * (1 - 1e-9) : weights[j] / (weights[j] + w);
        if (square < least) least = square, to = j;
    }
    if (to == from) return 0;
    double *a = e->centroids + from * d, *b = e->centroids + to * d;
    for (int64_t f = 0; f < d; f++) {
        a[f] -= (x[f] - a[f]) * (w / (weights[from] - w));
        b[f] += (x[f] - b[f]) * (w / (weights[to] + w));
    }
    weights[from] -= w;
    weights[to] += w;
    e->label[i] = (int32_t)to;
    return 1;
}

// Points at borders are moved until none does; then all are assigned again. Returns the inertia that is reached.
static double exchange(exchanger *e, const double *model, int64_t k) {
    const refiner *r = e->r;
    int64_t d = r->engine->d, moved = 1;
    e->k = k;
    e->assignments = 0;
    e->weights = e->centroids + k * d;
    memcpy(e->centroids, model, (size_t)(k * d) * sizeof *e->centroids);
    for (int64_t round = 0; round < EXCHANGE_ROUNDS && moved; round++) {
        exchange_assign(e);
        exchange_update(e);
        int64_t count = 0, now = 1;
        int32_t *border = e->second_label; // the list takes the place of what it is made of
        for (int64_t i = 0; i < r->sample_count; i++)
            if (is_at_border(e, i)) border[count++] = (int32_t)i;
        moved = 0;
        for (int64_t turn = 0; turn < EXCHANGE_ROUNDS && now; turn++) {
            now = 0;
            for (int64_t i = 0; i < count; i++) now += exchange_point(e, border[i]);
            moved += now;
        }
    }
    for (int64_t i = 0; i < k * d; i++) e->centroids[i] = type_round(r, e->centroids[i]);
    exchange_assign(e);
    return km_refine_sample_total(r, e->first);
}

// Exchanges points of what a trial found, which starts again where it is better for it.
static void exchange_trial(const refiner *r, exchanger *e, trial *t) {
    int64_t k = r->spec->clusters[t->k_index];
    double best = r->best[t->k_index].inertia;
    if (t->phase != TRIAL_DONE || t->inertia > best * (1 + EXCHANGE_TOLERANCE(k, r->engine->n_all))) return;
    double inertia = exchange(e, t->centroids, k);
    t->exchange_work = e->assignments * k;
    if (!(inertia < fmin(best, t->inertia) * (1 - GAIN_MIN))) return;
    t->inertia = inertia;
    if (!(inertia < best * (1 - GAIN_MIN))) return;
    memcpy(t->centroids, e->centroids, (size_t)(k * r->engine->d) * sizeof(double));
    t->phase = TRIAL_WAITING;
    t->before = HUGE_VAL;
}

km_status km_refine_exchange(refiner *r, km_error *err) {
    double values = (double)(r->trials_count * r->sample_count) * (double)(r->engine->d * r->k_max);
    int complete = 1,
        threads = values < THREADS_VALUES ? 1 : (int)km_min(r->params->threads, r->trials_count);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        exchanger e;
        int is_there = exchange_alloc(&e, r);
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < r->trials_count; i++)
            if (is_there) exchange_trial(r, &e, &r->trials[i]);
        exchange_free(&e);
        if (!is_there) {
#pragma omp atomic write
            complete = 0;
        }
    }
    if (!complete) return km_fail_memory(err, "the refinement", r->sample_count * 32);
    for (int64_t i = 0; i < r->trials_count; i++) r->work += EXCHANGE_COST * r->trials[i].exchange_work;
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// Rounds of trials. A trial is one start of one K from models that are there already:
//
// - merged: the best model of the next larger K of the list, with those two of its clusters made one whose union costs
//   least (as often as it takes);
// - split: the best model of the next smaller K, with a centroid put where it gains most;
// - swapped: its own best model, with two clusters made one and a centroid put elsewhere.
//
// A round has trials of one kind, of all K, which go through passes together. A trial that will not catch up with the
// best model of its K is dropped after few iterations; one that ends below it replaces it. A K whose trials
// failed often enough, or led back to its model, rests until a neighbour has a better one. In the end the best
// model of each K is iterated until nothing moves.
//
// What merging two clusters costs follows from their weights and centroids, exactly: w_a w_b / (w_a + w_b)
// |c_a - c_b|^2 (Ward). Where a centroid gains most is asked of a sample of the points that lies on the host,
// all points of a small table, by a greedy step of k-means++: candidates are drawn by their squared distance
// to the nearest centroid, and the one that leaves the least is taken. Draws are counter-based: the result
// depends on no thread and no slot.
//
// The effort is counted, not clocked: iterations x K of all trials, against those of the sweep. How far trials of a
// round may go is fixed before it, so that the result does not depend on how many slots there are.
#include "refine.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/size.h"
#include "../gen/memory.h"
#include "rounding.h"
#include "seed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TILE = KM_REFINE_TILE, // points of the sample that lie together, feature by feature
    CANDIDATES = 8,        // for a new centroid
    PATIENCE = 20,         // swaps without success after which a K rests ...
    CONFIRMED = 3,         // ... or trials that ended where its model is
    SWAPS = 3,             // of a K in a round of swaps
    TRIALS = SWAPS + 1,    // of a K in a round, at most: of one kind, and of its own model after an exchange
    ITERATIONS_MIN = 4,    // a round in which trials may not go as far is not worth it
    EXCHANGE_ROUNDS = 100,
    THREADS_VALUES = 1 << 22, // of all trials, K and points from which exchanges have several threads
    EXCHANGE_COST = 2,        // an assignment on the host, in those of a pass
    LOOK_AHEAD = 8 // iterations: a trial that would not catch up in so many, at its speed, is dropped
};
// Of the sweep's work, what rounds may take; and all of it, with the last iterations.
#define SHARE_ROUNDS 0.12
#define SHARE_ALL 0.2
// Small tables may take more: so much work x n x d, where points are exchanged and where not (about two seconds and a
// quarter of one on one core).
#define WORK_FREE_WHOLE 0x1p34
#define WORK_FREE 0x1p31
// A K has a better model where its inertia fell by this share at least.
#define GAIN_MIN 1e-6
// A trial that ends so little above the best model may be the better one when points were exchanged.
#define EXCHANGE_REACH(k, n) (.25 * (double)(k) / (double)(n))
// Points are looked at one by one where the second-nearest centroid would be the better one if it were so much
// nearer.
#define BORDER 1.05
// Draws of refinement have restart numbers from here on; those of the sweep are below.
#define DRAWS_FIRST ((uint64_t)1 << 40)
#define DRAWS_SAMPLE (-1) // numbers of trials that are none
#define FROM_BEFORE (-2)  // less the number of the K

// One start. Its number orders it among those of its K.
typedef struct trial {
    int64_t k_index;
    enum { TRIAL_WAITING, TRIAL_RUNNING, TRIAL_DONE, TRIAL_DROPPED } phase;
    double *centroids;                // k x d, then k weights: of the start; of the result when done
    double inertia, before, rounding; // before: of the pass before
    double limit;                     // dropped where it will not get below; HUGE_VAL: never dropped
    int64_t iterations;
    int32_t converged, is_fixed; // as in km_sweep_best
    int64_t exchange_work;
    int is_own;  // it starts from the K's own best model
    int is_move; // not only more iterations of the same model
} trial;

// For each cluster the one with which its union costs least, and what that costs.
typedef struct partners {
    int64_t *of;
    double *costs;
} partners;

// What is known of the best model of a K.
typedef struct place {
    double *squares;                   // sample_count: squared distance to the nearest centroid
    int32_t *labels;                   // sample_count
    partners pairs;                    // k
    int is_fresh;                      // all of these are of the model
    int64_t version;                   // of the model ...
    int64_t exchanged;                 // ... when points were exchanged
    int64_t tried_before, tried_after; // ... of the neighbours when trials were made of them
    int64_t failures;                  // swaps since it was found
    int64_t confirmed;                 // trials that ended at the same inertia
} place;

typedef struct refiner {
    km_engine *engine;
    const km_backend *backend;
    const km_spec *spec;
    const km_refine_params *params;
    km_sweep_best *best;
    place *places;               // clusters_count
    double *sample;              // d x sample_count: by feature, in tiles
    double *sample_weights;      // sample_count
    double *sample_rows;         // sample_count x d
    double *squares, *distances; // scratch: sample_count each
    double *merging;             // scratch: a model of the largest K
    partners pairs;              // scratch: the largest K
    int64_t sample_count, k_max;
    trial *trials;
    int64_t trials_count;
    int64_t *slot_trial; // slots_count; -1: none
    km_slot_state *states;
    int64_t passes, work, work_rounds, work_all, round, trials_all, improved;
} refiner;

static void trials_free(refiner *r) {
    for (int64_t t = 0; t < r->trials_count; t++) free(r->trials[t].centroids);
    r->trials_count = 0;
}

static void refiner_free(refiner *r) {
    for (int64_t q = 0; r->places && q < r->spec->clusters_count; q++) {
        free(r->places[q].squares);
        free(r->places[q].labels);
        free(r->places[q].pairs.of);
        free(r->places[q].pairs.costs);
    }
    trials_free(r);
    free(r->merging);
    free(r->pairs.of);
    free(r->pairs.costs);
    free(r->places);
    free(r->sample);
    free(r->sample_weights);
    free(r->sample_rows);
    free(r->squares);
    free(r->trials);
    free(r->slot_trial);
    free(r->states);
}

static int64_t model_values(const refiner *r, int64_t k) {
    return k * (r->engine->d + 1);
}

static int partners_alloc(partners *out, int64_t k) {
    out->of = malloc((size_t)k * sizeof *out->of);
    out->costs = malloc((size_t)k * sizeof *out->costs);
    return out->of && out->costs;
}

static int place_alloc(place *out, int64_t count, int64_t k) {
    out->squares = calloc((size_t)count, sizeof *out->squares);
    out->labels = calloc((size_t)count, sizeof *out->labels);
    out->tried_before = out->tried_after = out->exchanged = -1;
    return partners_alloc(&out->pairs, k) && out->squares && out->labels;
}

static km_status refiner_alloc(refiner *r, km_error *err) {
    int64_t ks = r->spec->clusters_count, slots = r->engine->slots_count, d = r->engine->d;
    r->k_max = r->spec->clusters[ks - 1];
    r->sample_count = km_refine_sample(r->engine->plan, r->engine->n);
    size_t count = (size_t)km_round_up(r->sample_count, TILE);
    r->places = calloc((size_t)ks, sizeof *r->places);
    r->sample = calloc(count * (size_t)d, sizeof *r->sample);
    r->sample_rows = malloc(count * (size_t)d * sizeof *r->sample_rows);
    r->sample_weights = malloc(count * sizeof *r->sample_weights);
    r->squares = malloc(2 * count * sizeof *r->squares);
    r->merging = malloc((size_t)model_values(r, r->k_max) * sizeof *r->merging);
    r->trials = calloc((size_t)(ks * TRIALS), sizeof *r->trials);
    r->slot_trial = malloc((size_t)slots * sizeof *r->slot_trial);
    r->states = calloc((size_t)slots, sizeof *r->states);
    int complete = r->places && r->sample && r->sample_rows && r->sample_weights && r->squares &&
                   r->merging && r->trials && r->slot_trial && r->states &&
                   partners_alloc(&r->pairs, r->k_max);
    for (int64_t q = 0; complete && q < ks; q++)
        complete = place_alloc(&r->places[q], (int64_t)count, r->spec->clusters[q]);
    if (!complete) return km_fail_memory(err, "the refinement", (int64_t)count * (2 * d + 2 * ks) * 8);
    r->distances = r->squares + count;
    for (int64_t slot = 0; slot < slots; slot++) r->slot_trial[slot] = -1;
    return KM_OK;
}

static double type_round(const refiner *r, double value) {
    return r->spec->type == KM_FLOAT32 ? (double)(float)value : value;
}

static double draw(const refiner *r, int64_t trial_number, int64_t pick, int64_t candidate) {
    return km_draw(r->params->seed, DRAWS_FIRST + (uint64_t)trial_number, (uint64_t)pick,
                   (uint64_t)candidate);
}

// The sample: one point drawn from each of sample_count equal parts of the points.
static km_status sample_fetch(refiner *r, km_error *err) {
    km_status status;
    int64_t n = r->engine->n, d = r->engine->d, count = r->sample_count;
    int64_t *indices = calloc((size_t)count, sizeof *indices);
    if (!indices) return km_fail_memory(err, "the refinement's sample", count * 8);
    for (int64_t i = 0; i < count; i++) {
        double step = (double)n / (double)count;
        int64_t first = (int64_t)(step * (double)i);
        indices[i] = count == n ? i : km_min(first + (int64_t)(step * draw(r, DRAWS_SAMPLE, i, 0)), n - 1);
        r->sample_weights[i] = r->params->weights ? r->params->weights[indices[i]] : 1;
    }
    KM_TRY_GOTO(r->backend->rows(r->engine, r->sample_rows, indices, count, err));
    for (int64_t i = 0; i < count; i++)
        for (int64_t f = 0; f < d; f++)
            r->sample[(i - i % TILE) * d + f * TILE + i % TILE] = r->sample_rows[i * d + f];
done:
    free(indices);
    return status;
}

// Squared distances of a tile of the sample from one centroid. Vectors of two are what every machine has;
// eight of them stay in registers.
static void tile_distances(double *out, const double *tile, const double *c, int64_t d) {
    typedef double vector __attribute__((vector_size(2 * sizeof(double)), aligned(sizeof(double))));
    vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (int64_t f = 0; f < d; f++) {
        const vector *x = (const vector *)(tile + f * TILE), at = {c[f], c[f]};
        vector t0 = x[0] - at, t1 = x[1] - at, t2 = x[2] - at, t3 = x[3] - at;
        vector t4 = x[4] - at, t5 = x[5] - at, t6 = x[6] - at, t7 = x[7] - at;
        s0 += t0 * t0, s1 += t1 * t1, s2 += t2 * t2, s3 += t3 * t3;
        s4 += t4 * t4, s5 += t5 * t5, s6 += t6 * t6, s7 += t7 * t7;
    }
    const vector sums[TILE / 2] = {s0, s1, s2, s3, s4, s5, s6, s7};
    memcpy(out, sums, sizeof sums);
}

static const double *sample_tile(const refiner *r, int64_t first) {
    return r->sample + first * r->engine->d;
}

// Squared distances of the sample from one centroid.
static void sample_distances(const refiner *r, double *out, const double *c) {
    for (int64_t i = 0; i < r->sample_count; i += TILE)
        tile_distances(out + i, sample_tile(r, i), c, r->engine->d);
}

// The nearest centroid of each point of the sample.
static void sample_assign(const refiner *r, double *squares, int32_t *labels, const double *centroids,
                          int64_t k) {
    int64_t d = r->engine->d;
    for (int64_t i = 0; i < r->sample_count; i += TILE) {
        double now[TILE];
        for (int64_t l = 0; l < TILE; l++) squares[i + l] = HUGE_VAL;
        for (int32_t j = 0; j < k; j++) {
            tile_distances(now, sample_tile(r, i), centroids + j * d, d);
            for (int64_t l = 0; l < TILE; l++) {
                labels[i + l] = now[l] < squares[i + l] ? j : labels[i + l];
                squares[i + l] = now[l] < squares[i + l] ? now[l] : squares[i + l];
            }
        }
    }
}

// Moves --------------------------------------------------------------------------------------------------------

// What one cluster instead of two costs.
static double merge_cost(const double *a, const double *b, double weight_a, double weight_b, int64_t d) {
    double square = 0, weight = weight_a + weight_b;
    for (int64_t f = 0; f < d; f++) square += (a[f] - b[f]) * (a[f] - b[f]);
    return weight > 0 ? weight_a * weight_b / weight * square : 0;
}

// The partner of cluster `a`.
static void partner_find(partners *out, int64_t a, const double *centroids, const double *weights, int64_t k,
                         int64_t d) {
    out->costs[a] = HUGE_VAL;
    out->of[a] = a;
    for (int64_t b = 0; b < k; b++) {
        if (b == a) continue;
        double cost = merge_cost(centroids + a * d, centroids + b * d, weights[a], weights[b], d);
        if (cost < out->costs[a]) out->costs[a] = cost, out->of[a] = b;
    }
}

static void partners_find(partners *out, const double *centroids, const double *weights, int64_t k,
                          int64_t d) {
    for (int64_t a = 0; a < k; a++) partner_find(out, a, centroids, weights, k, d);
}

typedef struct pair {
    int64_t a, b; // a < b
} pair;

// The pair at place `rank` by its cost; of several with one cost the first.
static pair cheapest_pair(const partners *pairs, int64_t k, int64_t rank) {
    pair found = {0, 1};
    double cost = -1;
    for (int64_t at = -1; at < rank;) {
        int64_t least = -1;
        for (int64_t a = 0; a < k; a++) {
            int is_twice = pairs->of[pairs->of[a]] == a && pairs->of[a] < a;
            int is_behind = at < 0 || pairs->costs[a] > cost || (pairs->costs[a] == cost && a > found.a);
            if (!is_twice && is_behind && (least < 0 || pairs->costs[a] < pairs->costs[least])) least = a;
        }
        if (least < 0) break;
        cost = pairs->costs[least];
        found.a = least; // the order of the search is that of the first of each pair
        found.b = pairs->of[least];
        at++;
    }
    return found.a < found.b ? found : (pair){found.b, found.a};
}

static const place *place_of(refiner *r, int64_t q) {
    place *it = &r->places[q];
    const double *centroids = r->best[q].centroids;
    int64_t k = r->spec->clusters[q], d = r->engine->d;
    if (it->is_fresh) return it;
    sample_assign(r, it->squares, it->labels, centroids, k);
    partners_find(&it->pairs, centroids, centroids + k * d, k, d);
    it->is_fresh = 1;
    return it;
}

// Makes one cluster of two, the last cluster takes the free place.
static void merge(const refiner *r, double *centroids, double *weights, int64_t k, pair two) {
    int64_t d = r->engine->d;
    double *a = centroids + two.a * d, *b = centroids + two.b * d, weight = weights[two.a] + weights[two.b];
    for (int64_t f = 0; f < d && weight > 0; f++)
        a[f] = type_round(r, a[f] + (b[f] - a[f]) * (weights[two.b] / weight));
    weights[two.a] = weight;
    memcpy(b, centroids + (k - 1) * d, (size_t)d * sizeof *b);
    weights[two.b] = weights[k - 1];
}

// The sample's point at which the running sum of w x squares exceeds u x total.
static int64_t sample_draw(const refiner *r, const double *squares, double u, double total) {
    double sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < r->sample_count; i++) {
        double share = r->sample_weights[i] * squares[i];
        if (!(share > 0)) continue;
        last = i;
        sum += share;
        if (sum > u * total) break;
    }
    return last;
}

static double sample_total(const refiner *r, const double *squares) {
    double sum = 0;
    for (int64_t i = 0; i < r->sample_count; i++) sum += r->sample_weights[i] * squares[i];
    return sum;
}

// Puts a centroid, out, on the point that leaves the least of CANDIDATES drawn ones; squares follow.
static void add_centroid(refiner *r, double *out, double *squares, int64_t number, int64_t pick) {
    double total = sample_total(r, squares), least = HUGE_VAL;
    int64_t best = 0, count = r->sample_count, d = r->engine->d;
    for (int64_t a = 0; a < CANDIDATES; a++) {
        int64_t i = sample_draw(r, squares, draw(r, number, pick, a), total);
        sample_distances(r, r->distances, r->sample_rows + i * d);
        double left = 0;
        for (int64_t p = 0; p < count; p++) left += r->sample_weights[p] * fmin(squares[p], r->distances[p]);
        if (left < least) least = left, best = i;
    }
    memcpy(out, r->sample_rows + best * d, (size_t)d * sizeof *out);
    sample_distances(r, r->distances, out);
    for (int64_t p = 0; p < count; p++) squares[p] = fmin(squares[p], r->distances[p]);
}

// Adds centroids to k_from of them until there are k.
static void grow(refiner *r, double *centroids, int64_t k_from, int64_t k, double *squares, int64_t number) {
    for (int64_t j = k_from; j < k; j++) add_centroid(r, centroids + j * r->engine->d, squares, number, j);
}

// Merges clusters of a model of k_from of them until k are left.
static void shrink(refiner *r, double *centroids, double *weights, int64_t k_from, int64_t k,
                   partners *pairs) {
    int64_t d = r->engine->d;
    for (int64_t left = k_from; left > k; left--) {
        pair two = cheapest_pair(pairs, left, 0);
        merge(r, centroids, weights, left, two);
        // Clusters that lost their partner look for another one; to the others the union may be a better one.
        for (int64_t a = 0; a < left - 1; a++) {
            int64_t from = a == two.b ? left - 1 : a, of = pairs->of[from];
            int lost = from == two.a || of == two.a || of == two.b;
            pairs->of[a] = of == left - 1 ? two.b : of;
            pairs->costs[a] = pairs->costs[from];
            if (lost) partner_find(pairs, a, centroids, weights, left - 1, d);
            double cost = merge_cost(centroids + a * d, centroids + two.a * d, weights[a], weights[two.a], d);
            if (a != two.a && cost < pairs->costs[a]) pairs->costs[a] = cost, pairs->of[a] = two.a;
        }
    }
}

static void make_merged(refiner *r, trial *t, int64_t q) {
    int64_t k = r->spec->clusters[q], d = r->engine->d, k_from = r->spec->clusters[q + 1];
    const place *from = place_of(r, q + 1);
    memcpy(r->merging, r->best[q + 1].centroids, (size_t)model_values(r, k_from) * sizeof(double));
    memcpy(r->pairs.of, from->pairs.of, (size_t)k_from * sizeof *r->pairs.of);
    memcpy(r->pairs.costs, from->pairs.costs, (size_t)k_from * sizeof *r->pairs.costs);
    shrink(r, r->merging, r->merging + k_from * d, k_from, k, &r->pairs);
    memcpy(t->centroids, r->merging, (size_t)(k * d) * sizeof(double));
}

static void make_split(refiner *r, trial *t, int64_t q, int64_t number) {
    int64_t k = r->spec->clusters[q], d = r->engine->d, k_from = r->spec->clusters[q - 1];
    memcpy(t->centroids, r->best[q - 1].centroids, (size_t)(k_from * d) * sizeof(double));
    memcpy(r->squares, place_of(r, q - 1)->squares, (size_t)r->sample_count * sizeof(double));
    grow(r, t->centroids, k_from, k, r->squares, number);
}

// The rank of the pair that is merged rises with failures, up to k.
static void make_swapped(refiner *r, trial *t, int64_t q, int64_t number, int64_t rank) {
    int64_t k = r->spec->clusters[q], d = r->engine->d;
    const place *own = place_of(r, q);
    pair two = cheapest_pair(&own->pairs, k, rank % k);
    memcpy(t->centroids, r->best[q].centroids, (size_t)model_values(r, k) * sizeof(double));
    merge(r, t->centroids, t->centroids + k * d, k, two);
    // Points of other clusters keep their centroid, or the merged one is nearer.
    sample_distances(r, r->distances, t->centroids + two.a * d);
    for (int64_t i = 0; i < r->sample_count; i++) {
        int is_of_pair = own->labels[i] == two.a || own->labels[i] == two.b;
        r->squares[i] = is_of_pair ? r->distances[i] : fmin(own->squares[i], r->distances[i]);
    }
    grow(r, t->centroids, k - 1, k, r->squares, number);
}

// Exchange -------------------------------------------------------------------------------------------------------
//
// Where the sample is the whole table, points change their cluster one by one while that lowers the inertia
// (Hartigan). A point x leaves cluster a for b where w_b / (w_b + w) |x - c_b|^2 < w_a / (w_a - w) |x -
// c_a|^2, although a's centroid may be the nearest: passes stop before that, the more so the fewer points a
// cluster has.

static int has_whole_table(const refiner *r) {
    return r->sample_count == r->engine->n;
}

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
            tile_distances(now, sample_tile(e->r, i), e->centroids + j * d, d);
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
    return e->second[i] * other * (own - w) < BORDER * e->first[i] * own * (other + w);
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
    return sample_total(r, e->first);
}

// Trials ---------------------------------------------------------------------------------------------------------

static km_status trial_new(trial **out, refiner *r, int64_t q, int is_move, km_error *err) {
    trial *t = *out = &r->trials[r->trials_count];
    int64_t bytes = model_values(r, r->spec->clusters[q]) * (int64_t)sizeof(double);
    *t = (trial){.k_index = q,
                 .centroids = malloc((size_t)bytes),
                 .before = HUGE_VAL,
                 .inertia = HUGE_VAL,
                 .limit = !is_move ? HUGE_VAL
                          : has_whole_table(r)
                              ? r->best[q].inertia * (1 + EXCHANGE_REACH(r->spec->clusters[q], r->engine->n))
                              : r->best[q].inertia,
                 .is_move = is_move};
    if (!t->centroids) return km_fail_memory(err, "the centroids of a run", bytes);
    r->trials_count++;
    return KM_OK;
}

static km_status trial_read(refiner *r, trial *t, int64_t slot, km_error *err) {
    int64_t k = r->spec->clusters[t->k_index], d = r->engine->d;
    r->slot_trial[slot] = -1;
    return r->backend->slot_read(r->engine, slot, t->centroids, t->centroids + k * d, err);
}

// Whether a trial will not get below its limit, at the speed that it has.
static int is_hopeless(const trial *t, const km_slot_state *state) {
    if (state->iterations < 2 || !(t->limit < HUGE_VAL)) return 0;
    double speed = t->before - state->inertia;
    return state->inertia - LOOK_AHEAD * speed > t->limit;
}

static km_status trial_serve(refiner *r, int64_t slot, km_error *err) {
    trial *t = &r->trials[r->slot_trial[slot]];
    const km_slot_state *state = &r->states[slot];
    if (state->phase == KM_SLOT_EMPTY) {
        int64_t moved;
        t->before = HUGE_VAL;
        return r->backend->relocate(r->engine, slot, &moved, err);
    }
    if (state->phase == KM_SLOT_DONE) {
        t->phase = TRIAL_DONE;
        t->inertia = state->inertia;
        t->iterations = state->iterations;
        t->converged = state->converged;
        t->is_fixed = state->shift == 0 && !state->at_limit;
        r->work += (state->iterations + 1) * r->spec->clusters[t->k_index];
        KM_TRY(trial_read(r, t, slot, err));
        int64_t k = r->spec->clusters[t->k_index], d = r->engine->d;
        t->rounding = km_inertia_rounding(t->centroids, t->centroids + k * d, k, d, r->engine->n,
                                          r->params->total_square);
        return KM_OK;
    }
    if (is_hopeless(t, state)) {
        t->phase = TRIAL_DROPPED;
        r->work += state->iterations * r->spec->clusters[t->k_index];
        return trial_read(r, t, slot, err);
    }
    t->before = state->inertia;
    return KM_OK;
}

static km_status report_progress(const refiner *r, km_error *err) {
    const km_refine_params *p = r->params;
    if (!p->progress) return KM_OK;
    km_progress progress = {"refine", 0, 0, r->passes, (km_now_ms() - p->begin_ms) / 1e3};
    if (p->progress(p->progress_user, &progress))
        return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted in the phase refine");
    return KM_OK;
}

// Gives free slots the next trials of their K. Returns the number of slots that have one.
static km_status trials_start(refiner *r, int64_t *running, km_error *err) {
    *running = 0;
    for (int64_t slot = 0; slot < r->engine->slots_count; slot++) {
        for (int64_t i = 0; i < r->trials_count && r->slot_trial[slot] < 0; i++) {
            trial *t = &r->trials[i];
            if (t->phase != TRIAL_WAITING || t->k_index != slot % r->spec->clusters_count) continue;
            t->phase = TRIAL_RUNNING;
            r->slot_trial[slot] = i;
            KM_TRY(r->backend->slot_start(r->engine, slot, t->centroids, err));
        }
        *running += r->slot_trial[slot] >= 0;
    }
    return KM_OK;
}

static int passes_are_used(const refiner *r) {
    return r->params->passes_max >= 0 && r->passes >= r->params->passes_max;
}

// Runs all trials, one pass at a time, so that what becomes of a trial depends on its own iterations alone.
static km_status trials_run(refiner *r, const km_stop *stop, km_error *err) {
    int64_t running;
    KM_TRY(trials_start(r, &running, err));
    while (running > 0 && !passes_are_used(r)) {
        int64_t passes = 0;
        KM_TRY(r->backend->run_passes(r->engine, r->states, &passes, stop, 1, err));
        r->passes += passes;
        for (int64_t slot = 0; slot < r->engine->slots_count; slot++)
            if (r->slot_trial[slot] >= 0) KM_TRY(trial_serve(r, slot, err));
        KM_TRY(report_progress(r, err));
        KM_TRY(trials_start(r, &running, err));
    }
    for (int64_t slot = 0; slot < r->engine->slots_count; slot++)
        if (r->slot_trial[slot] >= 0) {
            r->trials[r->slot_trial[slot]].phase = TRIAL_DROPPED;
            KM_TRY(trial_read(r, &r->trials[r->slot_trial[slot]], slot, err));
        }
    return KM_OK;
}

// Takes what the trials found.
static void trials_take(refiner *r) {
    for (int64_t i = 0; i < r->trials_count; i++) {
        const trial *t = &r->trials[i];
        km_sweep_best *best = &r->best[t->k_index];
        place *own = &r->places[t->k_index];
        int64_t k = r->spec->clusters[t->k_index];
        if (t->phase != TRIAL_DONE) continue;
        own->confirmed +=
            t->is_move && !t->is_own && fabs(t->inertia - best->inertia) <= GAIN_MIN * best->inertia;
        // More iterations never raise it, but for rounding.
        if (!(t->inertia < best->inertia + (t->is_move ? 0 : t->rounding))) continue;
        if (t->is_move && !(t->inertia + t->rounding < best->inertia * (1 - GAIN_MIN))) continue;
        memcpy(best->centroids, t->centroids, (size_t)model_values(r, k) * sizeof(double));
        best->inertia = t->inertia;
        if (t->is_move) best->iterations = t->iterations;
        best->converged = t->converged;
        best->is_fixed = t->is_fixed;
        own->is_fresh = 0;
        if (!t->is_move) continue;
        best->refined = 1;
        own->version++;
        own->failures = own->confirmed = 0;
        r->improved++;
    }
}

// How far the trials that there are may go, for the work that is left.
static int64_t iterations_left(const refiner *r, int64_t work_max) {
    int64_t sum = 0;
    for (int64_t i = 0; i < r->trials_count; i++) sum += r->spec->clusters[r->trials[i].k_index];
    int64_t left = work_max > r->work && sum > 0 ? (work_max - r->work) / sum : 0;
    return km_min(left - 1, r->params->stop.max_iter); // one more pass evaluates a trial
}

typedef enum kind { MERGED, SPLIT, SWAPPED, KINDS } kind;

// Whether a K has a trial of that kind: none without new models to start from, and none that rests.
static int has_trial(const refiner *r, int64_t q, kind of) {
    const place *own = &r->places[q];
    if (!(r->best[q].inertia > 0) || r->spec->clusters[q] >= r->engine->n) return 0;
    if (of == MERGED) return q + 1 < r->spec->clusters_count && own->tried_after != r->places[q + 1].version;
    if (of == SPLIT) return q > 0 && own->tried_before != r->places[q - 1].version;
    return r->spec->clusters[q] > 1 && own->failures < PATIENCE && own->confirmed < CONFIRMED;
}

static km_status trial_make(refiner *r, int64_t q, kind of, int64_t turn, km_error *err) {
    int64_t number = (r->round * r->spec->clusters_count + q) * SWAPS + turn;
    place *own = &r->places[q];
    trial *t;
    if (!has_trial(r, q, of)) return KM_OK;
    KM_TRY(trial_new(&t, r, q, 1, err));
    if (of == MERGED) {
        own->tried_after = r->places[q + 1].version;
        make_merged(r, t, q);
    } else if (of == SPLIT) {
        own->tried_before = r->places[q - 1].version;
        make_split(r, t, q, number);
    } else {
        make_swapped(r, t, q, number, own->failures++);
    }
    return KM_OK;
}

// The model of a K as it is, for exchange_trials, which starts it again where that lowers the inertia.
static km_status own_make(refiner *r, int64_t q, km_error *err) {
    place *own = &r->places[q];
    trial *t;
    if (!has_whole_table(r) || own->exchanged == own->version || !(r->best[q].inertia > 0)) return KM_OK;
    own->exchanged = own->version;
    KM_TRY(trial_new(&t, r, q, 1, err));
    memcpy(t->centroids, r->best[q].centroids,
           (size_t)(r->spec->clusters[q] * r->engine->d) * sizeof(double));
    t->inertia = r->best[q].inertia;
    t->is_own = 1;
    t->phase = TRIAL_DONE;
    return KM_OK;
}

// Exchanges points of what a trial found, which starts again where it is better for it.
static void exchange_trial(const refiner *r, exchanger *e, trial *t) {
    int64_t k = r->spec->clusters[t->k_index];
    double best = r->best[t->k_index].inertia;
    if (t->phase != TRIAL_DONE || t->inertia > best * (1 + EXCHANGE_REACH(k, r->engine->n))) return;
    double inertia = exchange(e, t->centroids, k);
    t->exchange_work = e->assignments * k;
    if (!(inertia < fmin(best, t->inertia) * (1 - GAIN_MIN))) return;
    t->inertia = inertia;
    if (!(inertia < best * (1 - GAIN_MIN))) return;
    memcpy(t->centroids, e->centroids, (size_t)(k * r->engine->d) * sizeof(double));
    t->phase = TRIAL_WAITING;
    t->before = HUGE_VAL;
}

static km_status exchange_trials(refiner *r, const km_stop *stop, km_error *err) {
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
    return trials_run(r, stop, err);
}

// A round has trials of one kind, so that what one finds is there for the next.
static km_status rounds(refiner *r, km_error *err) {
    for (int64_t idle = 0; idle < KINDS; r->round++) {
        trials_free(r);
        kind of = (kind)(r->round % KINDS);
        for (int64_t q = 0; q < r->spec->clusters_count; q++) {
            for (int64_t turn = 0; turn < (of == SWAPPED ? SWAPS : 1); turn++)
                KM_TRY(trial_make(r, q, of, turn, err));
            KM_TRY(own_make(r, q, err));
        }
        idle = r->trials_count ? 0 : idle + 1;
        if (idle) continue;
        km_stop stop = r->params->stop;
        stop.max_iter = iterations_left(r, r->work_rounds);
        if (stop.max_iter < ITERATIONS_MIN || passes_are_used(r)) return KM_OK;
        r->trials_all += r->trials_count;
        KM_TRY(trials_run(r, &stop, err));
        if (has_whole_table(r)) KM_TRY(exchange_trials(r, &stop, err));
        trials_take(r);
    }
    return KM_OK;
}

// Iterates the best models until nothing moves, as far as the work that is left goes.
static km_status rest(refiner *r, km_error *err) {
    for (;;) {
        trials_free(r);
        for (int64_t q = 0; q < r->spec->clusters_count; q++) {
            trial *t;
            r->best[q].at_rest |= r->best[q].is_fixed;
            if (r->best[q].at_rest || r->best[q].iterations >= r->params->stop.max_iter) continue;
            KM_TRY(trial_new(&t, r, q, 0, err));
            memcpy(t->centroids, r->best[q].centroids,
                   (size_t)model_values(r, r->spec->clusters[q]) * sizeof(double));
        }
        km_stop stop = {.max_iter = iterations_left(r, r->work_all)};
        if (r->trials_count == 0 || stop.max_iter < 1 || passes_are_used(r)) return KM_OK;
        KM_TRY(trials_run(r, &stop, err));
        trials_take(r);
        for (int64_t i = 0; i < r->trials_count; i++)
            if (r->trials[i].phase == TRIAL_DONE && r->trials[i].converged)
                r->best[r->trials[i].k_index].at_rest = 1;
    }
}

static km_status refiner_open(refiner *r, km_engine *engine, km_sweep_best *best,
                              const km_refine_params *params, km_error *err) {
    *r = (refiner){.engine = engine,
                   .backend = engine->backend,
                   .spec = &engine->plan->spec,
                   .params = params,
                   .best = best};
    KM_TRY(refiner_alloc(r, err));
    return sample_fetch(r, err);
}

// The work that refinement may do, in iterations x K.
static void set_work(refiner *r) {
    double free_work =
        (has_whole_table(r) ? WORK_FREE_WHOLE : WORK_FREE) / ((double)r->engine->n * (double)r->engine->d);
    double all = fmax(SHARE_ALL * (double)r->params->sweep_work, free_work);
    r->work_all = (int64_t)fmin(all, 0x1p60);
    r->work_rounds = (int64_t)fmin(all * (SHARE_ROUNDS / SHARE_ALL), 0x1p60);
    if (r->params->passes_max >= 0) r->work_all = r->work_rounds = INT64_MAX;
}

km_status km_refine(km_engine *engine, km_sweep_best *best, int64_t *passes, const km_refine_params *params,
                    km_error *err) {
    km_status status;
    refiner r;
    KM_TRY_GOTO(refiner_open(&r, engine, best, params, err));
    set_work(&r);
    KM_TRY_GOTO(rounds(&r, err));
    KM_TRY_GOTO(rest(&r, err));
    km_log_line(params->log, KM_LOG_INFO,
                "refine: %lld trials in %lld rounds, %lld improved; %lld passes, %.3g of the sweep's work",
                (long long)r.trials_all, (long long)r.round, (long long)r.improved, (long long)r.passes,
                (double)r.work / (double)km_max(params->sweep_work, 1));
done:
    *passes = r.passes;
    refiner_free(&r);
    return status;
}

km_status km_refine_from_before(km_engine *engine, km_sweep_best *best, int64_t q, int64_t max_iter,
                                int64_t *passes, const km_refine_params *params, km_error *err) {
    km_status status;
    refiner r;
    trial *t;
    km_refine_params own = *params;
    km_stop stop = params->stop;
    own.passes_max = KM_REFINE_AUTO; // this has to be
    stop.max_iter = max_iter;
    KM_TRY_GOTO(refiner_open(&r, engine, best, &own, err));
    KM_TRY_GOTO(trial_new(&t, &r, q, 0, err));
    make_split(&r, t, q, FROM_BEFORE - q);
    if (max_iter > 0) KM_TRY_GOTO(trials_run(&r, &stop, err));
    memcpy(best[q].centroids, t->centroids, (size_t)model_values(&r, r.spec->clusters[q]) * sizeof(double));
    best[q].iterations = t->iterations;
    best[q].converged = max_iter == 0 || t->converged;
    best[q].refined = 1;
    best[q].at_rest = best[q].is_fixed = t->is_fixed;
    *passes += r.passes;
done:
    refiner_free(&r);
    return status;
}

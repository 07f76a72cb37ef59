// SPDX-License-Identifier: MIT
// Where trials start.
//
// What merging two clusters costs follows from their weights and centroids, exactly:
// w_a w_b / (w_a + w_b) |c_a - c_b|^2 (Ward). Where a centroid gains most is asked of the sample, by a greedy step of
// k-means++: candidates are drawn by their squared distance to the nearest centroid, and the one that leaves the least
// is taken. Draws are counter-based: the result depends on no thread and no slot.
#include "refiner.h"

#include <math.h>
#include <string.h>

enum { CANDIDATES = 8 }; // for a new centroid

static double draw(const refiner *r, int64_t trial_number, int64_t pick, int64_t candidate) {
    return km_draw(r->params->seed, DRAWS_FIRST + (uint64_t)trial_number, (uint64_t)pick,
                   (uint64_t)candidate);
}

// What one cluster instead of two costs. No product of two weights: it may leave a double's range.
static double merge_cost(const double *a, const double *b, double weight_a, double weight_b, int64_t d) {
    double square = 0, weight = weight_a + weight_b;
    for (int64_t f = 0; f < d; f++) square += (a[f] - b[f]) * (a[f] - b[f]);
    return weight > 0 ? fmin(weight_a, weight_b) * (fmax(weight_a, weight_b) / weight) * square : 0;
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
    km_refine_sample_assign(r, it->squares, it->labels, centroids, k);
    partners_find(&it->pairs, centroids, centroids + k * d, k, d);
    it->is_fresh = 1;
    return it;
}

// With the cosine a centroid has length 1. Two that cancel each other out stay what they are: the first of them.
static void merge_units(const refiner *r, double *a, const double *b, double share) {
    int64_t d = r->engine->d;
    for (int64_t f = 0; f < d; f++) r->mean[f] = a[f] + (b[f] - a[f]) * share;
    double length = km_unit_length(r->engine, r->mean, 1);
    for (int64_t f = 0; f < d && length > 0; f++)
        a[f] = type_round(r, km_unit_coordinate(r->engine, r->mean[f], length, f));
}

// Makes one cluster of two, the last cluster takes the free place.
static void merge(const refiner *r, double *centroids, double *weights, int64_t k, pair two) {
    int64_t d = r->engine->d;
    double *a = centroids + two.a * d, *b = centroids + two.b * d, weight = weights[two.a] + weights[two.b];
    if (r->engine->unit_centre && weight > 0) merge_units(r, a, b, weights[two.b] / weight);
    for (int64_t f = 0; f < d && weight > 0 && !r->engine->unit_centre; f++)
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
        double weight = r->sample_weights[i] * squares[i];
        if (!(weight > 0)) continue;
        last = i;
        sum += weight;
        if (sum > u * total) break;
    }
    return last;
}

// Puts a centroid, out, on the point that leaves the least of CANDIDATES drawn ones; squares follow.
static void add_centroid(refiner *r, double *out, double *squares, int64_t number, int64_t pick) {
    double total = km_refine_sample_total(r, squares), least = HUGE_VAL;
    int64_t best = 0, count = r->sample_count, d = r->engine->d;
    for (int64_t a = 0; a < CANDIDATES; a++) {
        int64_t i = sample_draw(r, squares, draw(r, number, pick, a), total);
        km_refine_sample_distances(r, r->distances, r->sample_rows + i * d);
        double left = 0;
        for (int64_t p = 0; p < count; p++) left += r->sample_weights[p] * fmin(squares[p], r->distances[p]);
        if (left < least) least = left, best = i;
    }
    memcpy(out, r->sample_rows + best * d, (size_t)d * sizeof *out);
    km_refine_sample_distances(r, r->distances, out);
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

void km_refine_make_merged(refiner *r, trial *t, int64_t q) {
    int64_t k = r->spec->clusters[q], d = r->engine->d, k_from = r->spec->clusters[q + 1];
    const place *from = place_of(r, q + 1);
    memcpy(r->merging, r->best[q + 1].centroids, (size_t)model_values(r, k_from) * sizeof(double));
    memcpy(r->pairs.of, from->pairs.of, (size_t)k_from * sizeof *r->pairs.of);
    memcpy(r->pairs.costs, from->pairs.costs, (size_t)k_from * sizeof *r->pairs.costs);
    shrink(r, r->merging, r->merging + k_from * d, k_from, k, &r->pairs);
    memcpy(t->centroids, r->merging, (size_t)(k * d) * sizeof(double));
}

void km_refine_make_split(refiner *r, trial *t, int64_t q, int64_t number) {
    int64_t k = r->spec->clusters[q], d = r->engine->d, k_from = r->spec->clusters[q - 1];
    memcpy(t->centroids, r->best[q - 1].centroids, (size_t)(k_from * d) * sizeof(double));
    memcpy(r->squares, place_of(r, q - 1)->squares, (size_t)r->sample_count * sizeof(double));
    grow(r, t->centroids, k_from, k, r->squares, number);
}

void km_refine_make_swapped(refiner *r, trial *t, int64_t q, int64_t number, int64_t rank) {
    int64_t k = r->spec->clusters[q], d = r->engine->d;
    const place *own = place_of(r, q);
    pair two = cheapest_pair(&own->pairs, k, rank % k);
    memcpy(t->centroids, r->best[q].centroids, (size_t)model_values(r, k) * sizeof(double));
    merge(r, t->centroids, t->centroids + k * d, k, two);
    // Points of other clusters keep their centroid, or the merged one is nearer.
    km_refine_sample_distances(r, r->distances, t->centroids + two.a * d);
    for (int64_t i = 0; i < r->sample_count; i++) {
        int is_of_pair = own->labels[i] == two.a || own->labels[i] == two.b;
        r->squares[i] = is_of_pair ? r->distances[i] : fmin(own->squares[i], r->distances[i]);
    }
    grow(r, t->centroids, k - 1, k, r->squares, number);
}

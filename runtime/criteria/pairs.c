// SPDX-License-Identifier: MIT
#include "pairs.h"
#include "../asking.h"
#include "../threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void km_label_points(int32_t *labels, const double *points, int64_t count, const double *centroids, int64_t k,
                     int64_t d, int64_t threads) {
    (void)threads;
#pragma omp parallel for schedule(static) num_threads((int)threads) if (threads > 1 && count * k * d > 100000)
    for (int64_t i = 0; i < count; i++) {
        double nearest = INFINITY;
        labels[i] = 0;
        for (int64_t j = 0; j < k; j++) {
            double square = 0;
            for (int64_t f = 0; f < d; f++) {
                double t = points[i * d + f] - centroids[j * d + f];
                square = fma(t, t, square);
            }
            if (square < nearest) nearest = square, labels[i] = (int32_t)j;
        }
    }
}

// What the sums of one point need, and the sizes of all clusters.
typedef struct pair_work {
    const km_pairs *pairs;
    double *columns; // d x n: feature by feature, so that a row of distances is made of whole vectors
    double *sizes;   // of all clusters of all sets
    double *values;  // sets_count x n: silhouettes
    double *scratch; // a thread: n distances, the largest k sums
    int64_t k_max, scratch_count;
} pair_work;

static double weight_of(const km_pairs *pairs, int64_t i) {
    return pairs->weights ? pairs->weights[i] : 1;
}

// (b - a) / max(a, b) of a point from its sums of distances to clusters.
static double value_of(const double *sums, const double *sizes, int64_t k, int64_t own) {
    double other = INFINITY;
    if (!(sizes[own] > 1)) return 0;
    double inside = sums[own] / (sizes[own] - 1);
    for (int64_t j = 0; j < k; j++)
        if (j != own && sizes[j] > 0) other = fmin(other, sums[j] / sizes[j]);
    double larger = fmax(inside, other);
    return larger > 0 ? (other - inside) / larger : 0;
}

static void one_point(const pair_work *w, double *scratch, int64_t i) {
    const km_pairs *p = w->pairs;
    int64_t n = p->n;
    double *distances = scratch, *sums = scratch + n;
    memset(distances, 0, (size_t)n * sizeof *distances);
    for (int64_t f = 0; f < p->d; f++) {
        const double *column = w->columns + f * n, value = column[i];
#pragma omp simd
        for (int64_t j = 0; j < n; j++) distances[j] += (column[j] - value) * (column[j] - value);
    }
    for (int64_t j = 0; j < n; j++) distances[j] = sqrt(distances[j]);
    const double *sizes = w->sizes;
    for (int64_t s = 0; s < p->sets_count; sizes += p->ks[s++]) {
        const int32_t *labels = p->labels + s * n;
        memset(sums, 0, (size_t)p->ks[s] * sizeof *sums);
        for (int64_t j = 0; j < n; j++)
            sums[labels[j]] += p->weights ? p->weights[j] * distances[j] : distances[j];
        w->values[s * n + i] = value_of(sums, sizes, p->ks[s], labels[i]);
    }
}

static void take_means(double *scores, double *errors, const pair_work *w) {
    const km_pairs *p = w->pairs;
    const double *sizes = w->sizes;
    for (int64_t s = 0; s < p->sets_count; sizes += p->ks[s++]) {
        const double *values = w->values + s * p->n;
        double total = 0, sum = 0, squares = 0;
        int64_t clusters = 0;
        for (int64_t j = 0; j < p->ks[s]; j++) clusters += sizes[j] > 0;
        scores[s] = errors[s] = NAN;
        for (int64_t i = 0; i < p->n; i++) total += weight_of(p, i), sum += weight_of(p, i) * values[i];
        if (clusters < 2 || clusters >= p->n || !(total > (double)clusters)) continue;
        for (int64_t i = 0; i < p->n; i++)
            squares += pow(weight_of(p, i) / total * (values[i] - sum / total), 2);
        scores[s] = sum / total;
        errors[s] = sqrt(squares);
    }
}

static km_status work_init(pair_work *w, const km_pairs *p, km_error *err) {
    int64_t rows = 0, n = p->n;
    *w = (pair_work){.pairs = p};
    for (int64_t s = 0; s < p->sets_count; s++) {
        rows += p->ks[s];
        w->k_max = p->ks[s] > w->k_max ? p->ks[s] : w->k_max;
    }
    w->scratch_count = n + w->k_max + 8;
    int64_t count = n * p->d + rows + p->sets_count * n + p->threads * w->scratch_count;
    w->columns = calloc((size_t)count, sizeof *w->columns);
    if (!w->columns) return km_fail_memory(err, "the silhouettes", count * (int64_t)sizeof *w->columns);
    w->sizes = w->columns + n * p->d;
    w->values = w->sizes + rows;
    w->scratch = w->values + p->sets_count * n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < p->d; f++) w->columns[f * n + i] = p->points[i * p->d + f];
    double *sizes = w->sizes;
    for (int64_t s = 0; s < p->sets_count; sizes += p->ks[s++])
        for (int64_t i = 0; i < n; i++) sizes[p->labels[s * n + i]] += weight_of(p, i);
    return KM_OK;
}

km_status km_pairs_silhouettes(double *scores, double *errors, const km_pairs *pairs, km_error *err) {
    pair_work w;
    KM_TRY(work_init(&w, pairs, err));
    int threads = (int)pairs->threads;
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < pairs->n; i++)
        if (!km_asking_stops(pairs->asking))
            one_point(&w, w.scratch + omp_get_thread_num() * w.scratch_count, i);
    km_status status = km_asking_status(pairs->asking, err);
    if (status == KM_OK) take_means(scores, errors, &w);
    free(w.columns);
    return status;
}

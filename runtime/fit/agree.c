// SPDX-License-Identifier: MIT
// How many restarts of a K found the same clusters as the best of them. Runs stop by a tolerance, before they are at
// rest, so that their inertias differ far more than by rounding where their clusters are the same: what is compared is
// the centroids, within the stopping tolerance, and the labels of a sample of the points.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../criteria/pairs.h"
#include "../criteria/stability.h"
#include "../sample.h"
#include "../threads.h"
#include "job.h"

#include <math.h>
#include <stdlib.h>

// Labels whose adjusted Rand index is at least this are of the same clusters.
#define SAME_LABELS 0.999
// Restarts whose inertia is higher by more than this have other clusters: they are not compared.
#define INERTIA_RELATIVE 1e-2
enum {
    POINTS_MAX = 20000,
    POINTS_MIN = 512,
    WORK_MAX = 1 << 22,    // points x K x features x restarts, of one K
    NUMBERS_MAX = 1 << 20, // points x features
    STEP = 7919,           // a prime
    CLUSTERS_MAX = 2048    // with more, labels are not compared: their table has K x K numbers
};

typedef struct sample {
    km_fit_job *f;
    int64_t count; // points; 0: not fetched yet
    double *rows;
    int64_t *counts;
    int32_t *best, *other; // labels
    km_status status;
} sample;

static void sample_free(sample *s) {
    free(s->rows);
    free(s->counts);
    free(s->best);
}

// Points that the labels of a K are compared on.
static int64_t points_of(const km_fit_job *f, int64_t k) {
    int64_t d = f->engine->d, affordable = km_max(POINTS_MIN, WORK_MAX / (k * d * f->restarts));
    return km_max(1, km_min(km_min(f->engine->n_all, POINTS_MAX), km_min(affordable, NUMBERS_MAX / d)));
}

static void sample_fetch(sample *s) {
    km_fit_job *f = s->f;
    int64_t n = f->engine->n_all, d = f->engine->d, k = f->spec.clusters[f->spec.clusters_count - 1];
    k = km_min(k, CLUSTERS_MAX);
    s->count = points_of(f, 1);
    int64_t *indices = malloc((size_t)s->count * sizeof *indices);
    s->rows = malloc((size_t)(s->count * d) * sizeof *s->rows);
    s->counts = malloc((size_t)(k * k + 2 * k) * sizeof *s->counts);
    s->best = malloc((size_t)(2 * s->count) * sizeof *s->best);
    s->other = s->best ? s->best + s->count : NULL;
    if (!indices || !s->rows || !s->counts || !s->best)
        s->status = km_fail_memory(f->err, "the labels of restarts", s->count * (d + 2) * 8);
    // Steps that meet every part once: the first points are a sample, too.
    int64_t step = s->count % STEP ? STEP : STEP + 1;
    for (int64_t i = 0; indices && i < s->count; i++)
        indices[i] = km_draw_of_part(f->params->seed, 0, i * step % s->count, s->count, n);
    if (s->status == KM_OK)
        s->status = f->engine->backend->rows(f->engine, s->rows, indices, s->count, f->err);
    free(indices);
}

// Each centroid of a has one of b for itself, and the sum of their squared distances is within the tolerance.
static int same_centroids(const double *a, const double *b, int64_t k, int64_t d, double shift_max,
                          unsigned char *taken) {
    double sum = 0;
    for (int64_t j = 0; j < k; j++) taken[j] = 0;
    for (int64_t i = 0; i < k && sum <= shift_max; i++) {
        double least = INFINITY;
        int64_t nearest = 0;
        for (int64_t j = 0; j < k; j++) {
            double square = 0;
            for (int64_t f = 0; f < d && square < least; f++) {
                double t = a[i * d + f] - b[j * d + f];
                square += t * t;
            }
            if (square < least) least = square, nearest = j;
        }
        if (taken[nearest]++) return 0;
        sum += least;
    }
    return sum <= shift_max;
}

static int same_labels(sample *s, int64_t q, const double *centroids, int *is_labelled) {
    km_fit_job *f = s->f;
    int64_t k = f->spec.clusters[q], d = f->engine->d;
    int64_t threads = km_host_threads(f->params->threads);
    if (k > CLUSTERS_MAX || NUMBERS_MAX / d < POINTS_MIN / 8) return 0; // too few points to tell
    if (!s->count) sample_fetch(s);
    if (s->status != KM_OK) return 0;
    int64_t count = points_of(f, k);
    if (!*is_labelled) km_label_points(s->best, s->rows, count, f->best[q].centroids, k, d, threads);
    *is_labelled = 1;
    km_label_points(s->other, s->rows, count, centroids, k, d, threads);
    return km_adjusted_rand(s->best, s->other, count, k, s->counts) >= SAME_LABELS;
}

static void count_agreed(sample *s, int64_t q, int64_t row, int64_t rows, double shift_max,
                         unsigned char *taken) {
    km_fit_job *f = s->f;
    km_sweep_best *best = &f->best[q];
    int64_t k = f->spec.clusters[q], d = f->engine->d;
    int is_labelled = 0;
    best->restarts_agreed = 0;
    for (int64_t r = 0; r < f->restarts; r++) {
        const double *centroids = f->restart_centroids + (r * rows + row) * d;
        int agrees = r == best->restart || k == 1;
        if (!agrees && best->inertias[r] <= best->inertia * (1 + INERTIA_RELATIVE))
            agrees = same_centroids(best->centroids, centroids, k, d, shift_max, taken) ||
                     same_labels(s, q, centroids, &is_labelled);
        best->restarts_agreed += agrees;
    }
}

km_status km_fit_restarts_agree(km_fit_job *f, double shift_max) {
    int64_t ks = f->spec.clusters_count, rows = 0, row = 0;
    if (!f->restart_centroids || f->restarts == 1) return KM_OK; // those of equal inertia were counted
    unsigned char *taken = malloc((size_t)f->spec.clusters[ks - 1]);
    if (!taken) return km_fail_memory(f->err, "the restarts that agreed", f->spec.clusters[ks - 1]);
    sample s = {.f = f};
    for (int64_t q = 0; q < ks; q++) rows += f->spec.clusters[q];
    for (int64_t q = 0; q < ks && s.status == KM_OK; row += f->spec.clusters[q++])
        count_agreed(&s, q, row, rows, shift_max, taken);
    free(taken);
    sample_free(&s);
    return s.status;
}

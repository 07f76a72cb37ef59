// SPDX-License-Identifier: MIT
// How far the restarts of a K agree: the mean adjusted Rand index of their labels with those of the best, over the
// other restarts; 1: all found the same clusters. Hubert and Arabie, "Comparing partitions", 1985. Labels are those of
// at most KM_STABILITY_POINTS points, drawn by seed, each counted once whatever its weight.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../memory.h"
#include "../sample.h"
#include "../threads.h"
#include "criteria.h"
#include "pairs.h"
#include "stability.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KM_STABILITY_POINTS = 20000 };

static double pairs_of(int64_t n) {
    return (double)n * (double)(n - 1) / 2;
}

double km_adjusted_rand(const int32_t *a, const int32_t *b, int64_t n, int64_t k, int64_t *counts) {
    int64_t *rows = counts + k * k, *columns = rows + k;
    double both = 0, first = 0, second = 0;
    memset(counts, 0, (size_t)(k * k + 2 * k) * sizeof *counts);
    for (int64_t i = 0; i < n; i++) {
        counts[a[i] * k + b[i]]++;
        rows[a[i]]++;
        columns[b[i]]++;
    }
    for (int64_t at = 0; at < k * k; at++) both += pairs_of(counts[at]);
    for (int64_t j = 0; j < k; j++) first += pairs_of(rows[j]), second += pairs_of(columns[j]);
    double expected = first * second / pairs_of(n), most = (first + second) / 2;
    return most > expected ? (both - expected) / (most - expected) : 1; // all together, or all apart, in both
}

typedef struct stability {
    const km_measuring *m;
    int64_t points, d, sum, threads; // sum of all K
    double *rows;
    int64_t *indices, *counts;
    int32_t *best, *other;
} stability;

static km_status stability_alloc(stability *s, int64_t k_max, km_error *err) {
    KM_TRY(km_host_check("the sample of points", s->points * s->d * (int64_t)sizeof *s->rows, err));
    s->rows = malloc((size_t)(s->points * s->d) * sizeof *s->rows);
    s->indices = malloc((size_t)s->points * sizeof *s->indices);
    s->counts = malloc((size_t)(k_max * k_max + 2 * k_max) * sizeof *s->counts);
    s->best = malloc((size_t)(2 * s->points) * sizeof *s->best);
    s->other = s->best ? s->best + s->points : NULL;
    if (s->rows && s->indices && s->counts && s->best) return KM_OK;
    return km_fail_memory(err, "the labels of restarts", (s->points * (s->d + 2) + k_max * k_max) * 8);
}

// The mean over the restarts but the best, and its standard error, of K number q, whose centroids begin at `row`.
static void agreement(double *mean, double *error, stability *s, int64_t q, int64_t row) {
    const km_measuring *m = s->m;
    int64_t k = m->spec->clusters[q], restarts = m->restarts, count = 0;
    double sum = 0, squares = 0;
    km_label_points(s->best, s->rows, s->points, m->finished[q].centroids, k, s->d, s->threads);
    for (int64_t r = 0; r < restarts; r++) {
        if (r == m->best[q].restart) continue;
        const double *centroids = m->restart_centroids + (r * s->sum + row) * s->d;
        km_label_points(s->other, s->rows, s->points, centroids, k, s->d, s->threads);
        double index = km_adjusted_rand(s->best, s->other, s->points, k, s->counts);
        sum += index;
        squares += index * index;
        count++;
    }
    if (count > 0) *mean = sum / (double)count;
    if (count > 1)
        *error = sqrt(fmax(squares - sum * sum / (double)count, 0) / (double)(count - 1) / (double)count);
}

km_status km_measure_stability(const km_measuring *m, km_criterion own, km_error *err) {
    int64_t ks = m->spec->clusters_count, row = 0;
    stability s = {.m = m, .d = m->engine->d, .points = km_min(m->engine->n_all, KM_STABILITY_POINTS)};
    s.threads = km_host_threads(m->params->threads);
    for (int64_t q = 0; q < ks; q++) s.sum += m->spec->clusters[q];
    km_status status;
    if (!m->restart_centroids)
        return km_fail_memory(err, "the centroids of all restarts", m->restarts * s.sum * s.d * 8);
    KM_TRY_GOTO(stability_alloc(&s, m->spec->clusters[ks - 1], err));
    KM_TRY_GOTO(km_draw_points(s.indices, m->engine->n_all, s.points, m->params->seed, err));
    KM_TRY_GOTO(m->engine->backend->rows(m->engine, s.rows, s.indices, s.points, err));
    for (int64_t q = 0; q < ks; row += m->spec->clusters[q++]) {
        KM_TRY_GOTO(km_measuring_report(m, q, ks, err));
        if (m->spec->clusters[q] < 2 || m->spec->clusters[q] >= m->engine->n_all) continue;
        int64_t at = q * KM_CRITERION_COUNT + own;
        agreement(&m->scores[at], &m->errors[at], &s, q, row);
    }
done:
    free(s.rows);
    free(s.indices);
    free(s.counts);
    free(s.best);
    return status;
}

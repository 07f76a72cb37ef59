// SPDX-License-Identifier: MIT
#include "means.h"
#include "../asking.h"
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../memory.h"
#include "../pages.h"
#include "../threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void km_cluster_means_free(km_cluster_means **means) {
    free(*means);
    *means = NULL;
}

// Slots of the first restart of each K run one pass from the models' centroids: its update gives the means. A run that
// ended where nothing moved any more has done so.
static km_status run_pass(const km_measuring *m, double *weights, km_cluster_means *means, km_error *err) {
    const km_backend *backend = m->engine->backend;
    int64_t ks = m->spec->clusters_count, passes = 0, active = 0;
    km_stop stop = {.shift_max = -1, .max_iter = 2};
    km_slot_state *states = calloc((size_t)m->engine->slots_count, sizeof *states);
    km_status status;
    if (!states) return km_fail_memory(err, "the states of slots", m->engine->slots_count);
    for (int64_t q = 0; q < ks; q++) {
        active += !m->best[q].is_fixed;
        if (!m->best[q].is_fixed)
            KM_TRY_GOTO(backend->slot_start(m->engine, q, m->finished[q].centroids, err));
    }
    if (active) KM_TRY_GOTO(backend->run_passes(m->engine, states, &passes, &stop, 1, err));
    for (int64_t q = 0; q < ks; weights += m->finished[q++].k) {
        int64_t k = m->finished[q].k, values = k * m->engine->d;
        if (m->best[q].is_fixed) {
            memcpy(means[q].means, m->best[q].centroids, (size_t)values * sizeof(double));
            memcpy(weights, m->best[q].centroids + values, (size_t)k * sizeof(double));
        } else {
            KM_TRY_GOTO(backend->slot_read(m->engine, q, means[q].means, weights, err));
        }
    }
    status = KM_OK;
done:
    free(states);
    return status;
}

// Whether the pass gave the points other labels than the finishing pass: then clusters have other weights. In float32
// that is a matter of its resolution, which the means have as well.
static int is_other(const km_measuring *m, const km_finish_model *model, const double *weights) {
    if (m->spec->type == KM_FLOAT32) return 0;
    for (int64_t j = 0; j < model->k; j++)
        if (fabs(weights[j] - model->weights[j]) > 1e-12 * m->finished[m->spec->clusters_count].weights[0])
            return 1;
    return 0;
}

// Whether the clusters of model q must be taken from the points once more: they moved in the pass, or are other ones.
static int is_moved(const km_measuring *m, const km_cluster_means *means, int64_t q, const double *weights) {
    const km_finish_model *model = &m->finished[q];
    return is_other(m, model, weights) ||
           memcmp(means->means, model->centroids, (size_t)(model->k * m->engine->d) * sizeof(double)) != 0;
}

enum { LABELS_COMPARED = 4096 }; // at a time

// What a model is looked at with again: labels by its centroids and by the means, and some rows of points.
typedef struct relabelling {
    int32_t *labels, *nearest; // n each
    uint8_t *differ;           // of LABELS_COMPARED points: some have two labels
    double *rows;              // rows_count x d
    int64_t *indices;          // rows_count
    int64_t rows_count;
    double *numbers; // k x (d + 4), of the largest k
    int64_t *counts; // k
} relabelling;

static void relabelling_free(relabelling *r) {
    km_pages_free(r->labels);
    free(r->differ);
    free(r->rows);
    free(r->indices);
    free(r->numbers);
    free(r->counts);
}

static km_status relabelling_alloc(relabelling *r, const km_measuring *m, km_error *err) {
    enum { ROWS_MAX = 1 << 14, NUMBERS_MAX = 1 << 20 };
    int64_t n = m->engine->n, d = m->engine->d, k = m->spec->clusters[m->spec->clusters_count - 1];
    r->rows_count = km_max(1, km_min(ROWS_MAX, NUMBERS_MAX / d));
    int64_t compared = n / LABELS_COMPARED + 1;
    int64_t bytes = 2 * n * (int64_t)sizeof(int32_t) + compared + (r->rows_count + k) * (d + 5) * 8;
    if (!km_pages_in_files(bytes)) KM_TRY(km_host_check("the labels of the clusters' means", bytes, err));
    r->labels = km_pages_alloc(2 * n * (int64_t)sizeof *r->labels);
    r->differ = malloc((size_t)compared);
    r->rows = malloc((size_t)(r->rows_count * d) * sizeof *r->rows);
    r->indices = malloc((size_t)r->rows_count * sizeof *r->indices);
    r->numbers = malloc((size_t)(k * (d + 4)) * sizeof *r->numbers);
    r->counts = malloc((size_t)k * sizeof *r->counts);
    if (!r->labels || !r->differ || !r->rows || !r->indices || !r->numbers || !r->counts)
        return km_fail_memory(err, "the labels of the clusters' means", bytes);
    r->nearest = r->labels + n;
    return KM_OK;
}

// The finishing pass with these centroids again, for labels; its sums are in r->numbers.
static km_status label_again(km_finish_model *model, relabelling *r, const km_measuring *m,
                             const double *centroids, int64_t k, int32_t *labels, km_error *err) {
    double *numbers = r->numbers;
    *model = (km_finish_model){k,           centroids,       r->counts,       numbers,
                               numbers + k, numbers + 2 * k, numbers + 3 * k, labels};
    return m->engine->backend->finish(m->engine, model, 1, err);
}

// What is done with a row x of weight w whose number is `point`.
typedef void row_user(relabelling *r, void *user, const double *x, double w, int64_t point);

static km_status use_rows(relabelling *r, const km_measuring *m, int64_t count, row_user *use, void *user,
                          km_error *err) {
    const double *weights = km_data_weights(m->data);
    if (km_asking_stops(m->engine->asking)) return km_asking_status(m->engine->asking, err);
    KM_TRY(m->engine->backend->rows(m->engine, r->rows, r->indices, count, err));
    for (int64_t i = 0; i < count; i++)
        use(r, user, r->rows + i * m->engine->d, weights ? weights[r->indices[i]] : 1, r->indices[i]);
    return KM_OK;
}

// Few points have two labels: threads find where they are.
static void find_differences(const relabelling *r, int64_t n, int64_t threads) {
    (void)threads;
#pragma omp parallel for schedule(static) num_threads((int)threads) if (threads > 1 && n > 1 << 18)
    for (int64_t first = 0; first < n; first += LABELS_COMPARED) {
        size_t bytes = (size_t)km_min(LABELS_COMPARED, n - first) * sizeof *r->labels;
        r->differ[first / LABELS_COMPARED] = memcmp(r->labels + first, r->nearest + first, bytes) != 0;
    }
}

// All points, or those whose label is not that of the nearest mean.
static km_status for_rows(relabelling *r, const km_measuring *m, int all, row_user *use, void *user,
                          km_error *err) {
    int64_t count = 0, n = m->engine->n;
    if (!all) find_differences(r, n, km_host_threads(m->params->threads));
    for (int64_t i = 0; i < n; i++) {
        if (!all && !r->differ[i / LABELS_COMPARED]) {
            i += LABELS_COMPARED - 1;
            continue;
        }
        if (!all && r->labels[i] == r->nearest[i]) continue;
        r->indices[count++] = i;
        if (count < r->rows_count) continue;
        KM_TRY(use_rows(r, m, count, use, user, err));
        count = 0;
    }
    return count ? use_rows(r, m, count, use, user, err) : KM_OK;
}

typedef struct cluster_sums {
    int64_t d;
    const double *from; // k x d
    double *sums;
} cluster_sums;

static void add_row(relabelling *r, void *user, const double *x, double w, int64_t point) {
    const cluster_sums *s = user;
    int64_t at = r->labels[point] * s->d;
    for (int64_t f = 0; f < s->d; f++) s->sums[at + f] += w * (x[f] - s->from[at + f]);
}

// The means by the finishing pass's own labels: every point is fetched once.
static km_status by_labels(relabelling *r, const km_measuring *m, const km_finish_model *model, double *means,
                           km_error *err) {
    int64_t d = m->engine->d, k = model->k;
    double *sums = r->numbers + 4 * k;
    cluster_sums user = {d, model->centroids, sums};
    memset(sums, 0, (size_t)(k * d) * sizeof *sums);
    KM_TRY(for_rows(r, m, 1, add_row, &user, err));
    for (int64_t i = 0; i < k * d; i++)
        means[i] = model->centroids[i] + (model->weights[i / d] > 0 ? sums[i] / model->weights[i / d] : 0);
    return KM_OK;
}

static double distance_of(const double *x, const double *mean, int64_t d) {
    double square = 0;
    for (int64_t f = 0; f < d; f++) square += (x[f] - mean[f]) * (x[f] - mean[f]);
    return sqrt(square);
}

// From the nearest mean to that of its label.
static void move_row(relabelling *r, void *user, const double *x, double w, int64_t point) {
    const cluster_sums *s = user;
    int64_t nearest = r->nearest[point], label = r->labels[point];
    s->sums[nearest] -= w * distance_of(x, s->from + nearest * s->d, s->d);
    s->sums[label] += w * distance_of(x, s->from + label * s->d, s->d);
}

// The sums of distances to the means: those of the finishing pass to the nearest mean, and for the points that have
// another label the difference.
static km_status add_distances(relabelling *r, const km_measuring *m, const km_finish_model *model,
                               km_cluster_means *means, km_error *err) {
    km_finish_model by_means;
    cluster_sums user = {m->engine->d, means->means, means->distance};
    KM_TRY(label_again(&by_means, r, m, means->means, model->k, r->nearest, err));
    memcpy(means->distance, by_means.distance, (size_t)model->k * sizeof *means->distance);
    KM_TRY(for_rows(r, m, 0, move_row, &user, err));
    for (int64_t j = 0; j < model->k; j++) // empty ones have lent their place only
        means->distance[j] = model->weights[j] > 0 ? fmax(means->distance[j], 0) : 0;
    return KM_OK;
}

// Moving the point that distances are from to the mean takes n |c - mean|^2 from the sum of their squares.
static void add_squares(km_cluster_means *means, const km_finish_model *model, int64_t d) {
    for (int64_t j = 0; j < model->k; j++) {
        double square = 0;
        for (int64_t f = j * d; f < (j + 1) * d; f++) {
            double t = means->means[f] - model->centroids[f];
            square += t * t;
        }
        means->sse[j] = fmax(model->sse[j] - model->weights[j] * square, 0);
    }
}

// `weights`: of the clusters that the means are of.
static km_status complete(km_cluster_means *means, relabelling *r, const km_measuring *m, int64_t q,
                          const double *weights, km_error *err) {
    const km_finish_model *model = &m->finished[q];
    km_finish_model by_centroids;
    size_t bytes = (size_t)model->k * sizeof(double);
    means->is_fixed = !is_moved(m, means, q, weights);
    memcpy(means->sse, model->sse, bytes);
    memcpy(means->distance, model->distance, bytes);
    if (means->is_fixed) return KM_OK;
    if (!r->labels) KM_TRY(relabelling_alloc(r, m, err));
    KM_TRY(label_again(&by_centroids, r, m, model->centroids, model->k, r->labels, err));
    if (is_other(m, model, weights)) KM_TRY(by_labels(r, m, model, means->means, err));
    add_squares(means, model, m->engine->d);
    return add_distances(r, m, model, means, err);
}

km_status km_cluster_means_make(km_cluster_means **out, const km_measuring *m, km_error *err) {
    int64_t ks = m->spec->clusters_count, d = m->engine->d, rows = 0, moved = 0;
    double begin_ms = km_now_ms();
    for (int64_t q = 0; q < ks; q++) rows += m->finished[q].k;
    int64_t bytes = ks * (int64_t)sizeof **out + rows * (d + 3) * (int64_t)sizeof(double);
    km_cluster_means *means = *out = malloc((size_t)bytes);
    if (!means) return km_fail_memory(err, "the means of clusters", bytes);
    double *weights = (double *)(means + ks), *at = weights + rows;
    for (int64_t q = 0; q < ks; at += m->finished[q++].k * (d + 2)) {
        int64_t k = m->finished[q].k;
        means[q] = (km_cluster_means){.means = at, .sse = at + k * d, .distance = at + k * (d + 1)};
    }
    relabelling r = {0};
    km_status status = run_pass(m, weights, means, err);
    for (int64_t q = 0; q < ks && status == KM_OK; weights += m->finished[q++].k) {
        status = complete(&means[q], &r, m, q, weights, err);
        moved += !means[q].is_fixed;
    }
    km_log_line(m->params->log, KM_LOG_INFO, "means: %lld of %lld models not at their fixed point, %.2f ms",
                (long long)moved, (long long)ks, km_now_ms() - begin_ms);
    relabelling_free(&r);
    if (status != KM_OK) km_cluster_means_free(out);
    return status;
}

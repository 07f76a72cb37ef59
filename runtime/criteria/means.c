// SPDX-License-Identifier: MIT
#include "means.h"
#include "../../base/error.h"
#include "../../base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_AT_ONCE = 1 << 14 };

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

// Adds w (x - c) of rows first .. first + count - 1 to the sums of their clusters.
static km_status add_rows(double *sums, double *rows, int64_t *indices, const km_measuring *m,
                          const km_finish_model *model, int64_t first, int64_t count, km_error *err) {
    int64_t d = m->engine->d;
    const double *weights = km_data_weights(m->data);
    for (int64_t i = 0; i < count; i++) indices[i] = first + i;
    KM_TRY(m->engine->backend->rows(m->engine, rows, indices, count, err));
    for (int64_t i = 0; i < count; i++) {
        const double *x = rows + i * d, weight = weights ? weights[first + i] : 1;
        int64_t j = model->labels[first + i];
        for (int64_t f = 0; f < d; f++) sums[j * d + f] += weight * (x[f] - model->centroids[j * d + f]);
    }
    return KM_OK;
}

// The means by the finishing pass's own labels: every point is fetched once.
static km_status by_labels(const km_measuring *m, const km_finish_model *finished, double *means,
                           km_error *err) {
    int64_t n = m->engine->n, d = m->engine->d, k = finished->k;
    km_finish_model model = *finished;
    double *numbers = calloc((size_t)(4 * k + (ROWS_AT_ONCE + k) * d), sizeof *numbers);
    int64_t *integers = calloc((size_t)(k + ROWS_AT_ONCE), sizeof *integers);
    int32_t *labels = malloc((size_t)n * sizeof *labels);
    km_status status = KM_OK;
    if (!numbers || !integers || !labels) {
        status = km_fail_memory(err, "the labels of the silhouette", n * (int64_t)sizeof *labels);
        goto done;
    }
    double *sums = numbers + 4 * k, *rows = sums + k * d;
    model = (km_finish_model){k,           finished->centroids, integers,        numbers,
                              numbers + k, numbers + 2 * k,     numbers + 3 * k, labels};
    KM_TRY_GOTO(m->engine->backend->finish(m->engine, &model, 1, err));
    for (int64_t at = 0; at < n; at += ROWS_AT_ONCE)
        KM_TRY_GOTO(add_rows(sums, rows, integers + k, m, &model, at, km_min(ROWS_AT_ONCE, n - at), err));
    for (int64_t i = 0; i < k * d; i++)
        means[i] = model.centroids[i] + (model.weights[i / d] > 0 ? sums[i] / model.weights[i / d] : 0);
done:
    free(numbers);
    free(integers);
    free(labels);
    return status;
}

// Moving the point that distances are from to the mean takes n |c - mean|^2 from the sum of their squares.
static void complete(km_cluster_means *means, const km_finish_model *model, int64_t d) {
    means->is_fixed = memcmp(means->means, model->centroids, (size_t)(model->k * d) * sizeof(double)) == 0;
    for (int64_t j = 0; j < model->k; j++) {
        double square = 0;
        for (int64_t f = j * d; f < (j + 1) * d; f++) {
            double t = means->means[f] - model->centroids[f];
            square += t * t;
        }
        means->sse[j] = fmax(model->sse[j] - model->weights[j] * square, 0);
    }
}

km_status km_cluster_means_make(km_cluster_means **out, const km_measuring *m, km_error *err) {
    int64_t ks = m->spec->clusters_count, d = m->engine->d, rows = 0;
    for (int64_t q = 0; q < ks; q++) rows += m->finished[q].k;
    int64_t bytes = ks * (int64_t)sizeof **out + rows * (d + 2) * (int64_t)sizeof(double);
    km_cluster_means *means = *out = malloc((size_t)bytes);
    if (!means) return km_fail_memory(err, "the means of clusters", bytes);
    double *weights = (double *)(means + ks), *at = weights + rows;
    for (int64_t q = 0; q < ks; at += m->finished[q++].k * (d + 1))
        means[q] = (km_cluster_means){.means = at, .sse = at + m->finished[q].k * d};
    km_status status = run_pass(m, weights, means, err);
    for (int64_t q = 0; q < ks && status == KM_OK; weights += m->finished[q++].k) {
        if (is_other(m, &m->finished[q], weights))
            status = by_labels(m, &m->finished[q], means[q].means, err);
        complete(&means[q], &m->finished[q], d);
    }
    if (status != KM_OK) km_cluster_means_free(out);
    return status;
}

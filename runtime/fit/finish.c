// SPDX-License-Identifier: MIT
// The finishing pass: sums of every final cluster, and labels.
#include "../../base/error.h"
#include "../../base/clock.h"
#include "../../base/log.h"
#include "../criteria/criteria.h"
#include "../criteria/means.h"
#include "job.h"

#include <math.h>

// Arrays of one finished model, from the result's memory.
static km_status finish_model_alloc(km_fit_job *f, km_finish_model *finished, int64_t k) {
    double *sums = km_result_alloc(f->owner, 4 * k, sizeof *sums, f->err);
    int64_t *counts = km_result_alloc(f->owner, k, sizeof *counts, f->err);
    if (!sums || !counts) return KM_ERROR_MEMORY;
    *finished = (km_finish_model){.k = k,
                                  .centroids = finished->centroids,
                                  .counts = counts,
                                  .weights = sums,
                                  .sse = sums + k,
                                  .distance = sums + 2 * k,
                                  .margin = sums + 3 * k,
                                  .labels = finished->labels};
    return KM_OK;
}

// Labels of points, moved to rows of the file: -1 for rows that were dropped.
km_status km_fit_labels_to_rows(km_fit_job *f, km_model *model, const int32_t *labels) {
    int64_t rows = km_data_rows(f->data), n = f->engine->n;
    if (rows == n) {
        model->labels = labels;
        return KM_OK;
    }
    int32_t *all = km_result_alloc(f->owner, rows, sizeof *all, f->err);
    if (!all) return KM_ERROR_MEMORY;
    for (int64_t i = 0; i < rows; i++) all[i] = -1;
    for (int64_t i = 0; i < n; i++) all[km_data_row_of(f->data, i)] = labels[i];
    model->labels = all;
    return KM_OK;
}

// A value of the clustered space in the units of the scale: divided by the fit's own power of two, `powers` times (2
// for squares).
double *km_fit_without_power(km_fit_job *f, const double *values, int64_t count, int powers) {
    double *out = km_result_alloc(f->owner, count, sizeof *out, f->err);
    for (int64_t i = 0; out && i < count; i++) out[i] = ldexp(values[i], -powers * f->load.exponent);
    return out;
}

static km_status model_from_finish(km_fit_job *f, km_model *model, int64_t q,
                                   const km_finish_model *finished) {
    const km_sweep_best *best = &f->best[q];
    const double *factor = f->owner->result.factor;
    int64_t k = finished->k, d = f->engine->d;
    double *centroids = km_result_alloc(f->owner, k * d, sizeof *centroids, f->err);
    const double *fitted = km_fit_without_power(f, finished->centroids, k * d, 1);
    const double *sse = km_fit_without_power(f, finished->sse, k, 2);
    const double *inertias = km_fit_without_power(f, best->inertias, f->restarts, 2);
    if (!centroids || !fitted || !sse || !inertias) return KM_ERROR_MEMORY;
    for (int64_t i = 0; i < k * d; i++) centroids[i] = fitted[i] / factor[i % d] + f->load.centre[i % d];
    *model = (km_model){.k = (int32_t)k,
                        .restart = best->restart,
                        .restarts = f->restarts,
                        .restarts_agreed = best->restarts_agreed,
                        .restart_inertia = inertias,
                        .n_iter = best->iterations,
                        .converged = best->converged,
                        .refined = best->refined,
                        .at_rest = best->at_rest,
                        .centroids = centroids,
                        .centroids_fitted = fitted,
                        .weights = finished->weights,
                        .counts = finished->counts,
                        .sse = sse};
    for (int64_t j = 0; j < k; j++) {
        model->inertia += sse[j];
        model->effective_k += finished->weights[j] > 0;
    }
    return finished->labels ? km_fit_labels_to_rows(f, model, finished->labels) : KM_OK;
}

// A model that has changed since the finishing pass: once more, with the means of its clusters.
km_status km_fit_finish_again(km_fit_job *f, km_finish_model *finished, int64_t q) {
    KM_TRY(km_cluster_means_take(f->means, finished, f->engine, f->best, q, 1, f->err));
    return f->engine->backend->finish(f->engine, &finished[q], 1, f->err);
}

// The finishing pass: all models, and the model of one cluster for the totals.
km_status km_fit_finishing_pass(km_fit_job *f, km_model **models_out, km_finish_model **finished_out) {
    km_result *result = &f->owner->result;
    int64_t ks = f->spec.clusters_count, d = f->engine->d;
    km_finish_model *finished = km_result_alloc(f->owner, ks + 1, sizeof *finished, f->err);
    km_model *models = km_result_alloc(f->owner, ks, sizeof *models, f->err);
    double *mean = km_result_alloc(f->owner, d, sizeof *mean, f->err);
    int32_t *labels = NULL;
    if (f->params->labels == KM_LABELS_ALL) {
        labels = km_result_alloc_large(f->owner, ks * f->engine->n, sizeof *labels, f->err);
        if (!labels) return KM_ERROR_MEMORY;
    }
    if (!finished || !models || !mean) return KM_ERROR_MEMORY;
    *finished_out = finished;
    *models_out = models;
    KM_TRY(km_fit_report_phase(f, "finish", 0, 0));
    for (int64_t q = 0; q < ks; q++) KM_TRY(km_fit_number_clusters(f, q));
    for (int64_t i = 0; i < d; i++) mean[i] = (f->stats.mean[i] - f->load.centre[i]) * f->load.factor[i];
    for (int64_t q = 0; q <= ks; q++) {
        finished[q].centroids = q < ks ? f->best[q].centroids : mean;
        if (q < ks && labels) finished[q].labels = labels + q * f->engine->n;
        KM_TRY(finish_model_alloc(f, &finished[q], q < ks ? f->spec.clusters[q] : 1));
        if (q < ks && km_criteria_computed(f->params) >> KM_CRITERION_silhouette & 1)
            finished[q].keep = q + 1;
    }
    KM_TRY(km_cluster_means_alloc(&f->means, finished, ks, d, f->err));
    double begin_ms = km_now_ms(), read_ms;
    KM_TRY(km_cluster_means_take(f->means, finished, f->engine, f->best, 0, ks, f->err));
    read_ms = km_now_ms();
    KM_TRY(f->engine->backend->finish(f->engine, finished, ks + 1, f->err));
    int64_t moved = 0;
    for (int64_t q = 0; q < ks; q++) moved += !f->means[q].is_fixed;
    km_log_line(f->params->log, KM_LOG_INFO,
                "finish: means of %lld of %lld models in %.2f ms, last pass in %.2f ms", (long long)moved,
                (long long)ks, read_ms - begin_ms, km_now_ms() - read_ms);
    for (int64_t q = 1; q < ks && f->owner->result.refine != 0 && !f->is_ending; q++)
        KM_TRY(km_fit_keep_falling(f, finished, q));
    KM_TRY(km_cluster_means_complete(f->means, finished, ks, f->engine, f->err));
    for (int64_t q = 0; q < ks; q++) KM_TRY(model_from_finish(f, &models[q], q, &finished[q]));
    result->models = models;
    result->models_count = ks;
    return KM_OK;
}

km_status km_fit_finish_labels(km_fit_job *f, km_finish_model *finished, km_model *models) {
    int64_t best = f->owner->result.selection.best;
    if (f->params->labels != KM_LABELS_BEST) return KM_OK;
    int32_t *labels = km_result_alloc_large(f->owner, f->engine->n, sizeof *labels, f->err);
    if (!labels) return KM_ERROR_MEMORY;
    finished[best].labels = labels;
    finished[best].means = NULL; // whose distances are known
    finished[best].keep = 0;
    KM_TRY(f->engine->backend->finish(f->engine, &finished[best], 1, f->err));
    return km_fit_labels_to_rows(f, &models[best], labels);
}

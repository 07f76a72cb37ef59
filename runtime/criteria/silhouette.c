// SPDX-License-Identifier: MIT
// The silhouette in the squared Euclidean form, exact: mean over points of (b - a) / max(a, b), where a is the mean
// squared distance of a point to the others of its cluster and b that to the points of the nearest other cluster.
// Rousseeuw, "Silhouettes: a graphical aid to the interpretation and validation of cluster analysis", 1987. The mean
// squared distance to the points of a cluster is |x - m|^2 plus their mean squared distance from their mean m, so one
// pass does it. Weights count as copies of a point.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "criteria.h"
#include "means.h"

#include <stdlib.h>

static int64_t effective_k(const km_finish_model *model) {
    int64_t k = 0;
    for (int64_t j = 0; j < model->k; j++) k += model->weights[j] > 0;
    return k;
}

static double total_weight(const km_finish_model *model) {
    double sum = 0;
    for (int64_t j = 0; j < model->k; j++) sum += model->weights[j];
    return sum;
}

static int64_t points_of(const km_finish_model *model) {
    int64_t points = 0;
    for (int64_t j = 0; j < model->k; j++) points += model->counts[j];
    return points;
}

// As every criterion: 2 <= K < points, and fewer clusters than weight.
static int is_defined(const km_finish_model *model) {
    int64_t k = effective_k(model);
    return k >= 2 && k < points_of(model) && total_weight(model) > (double)k;
}

km_status km_measure_silhouette(const km_measuring *m, km_criterion own, km_error *err) {
    int64_t ks = m->spec->clusters_count, count = 0, fixed = 0;
    const km_cluster_means *means = m->means;
    km_status status;
    km_silhouette_model *models = calloc((size_t)ks, sizeof *models);
    if (!models) return km_fail_memory(err, "the silhouettes", ks * (int64_t)sizeof *models);
    for (int64_t q = 0; q < ks; q++)
        if (is_defined(&m->finished[q]))
            models[count++] = (km_silhouette_model){m->finished[q].k,
                                                    m->finished[q].centroids,
                                                    means[q].is_fixed ? NULL : means[q].means,
                                                    m->finished[q].weights,
                                                    means[q].sse,
                                                    0};
    for (int64_t i = 0; i < count; i++) fixed += models[i].means == NULL;
    double begin_ms = km_now_ms();
    if (count) KM_TRY_GOTO(m->engine->backend->silhouette(m->engine, models, count, err));
    km_log_line(m->params->log, KM_LOG_INFO,
                "silhouette: pass in %.2f ms, %lld of %lld models at their fixed point",
                km_now_ms() - begin_ms, (long long)fixed, (long long)count);
    count = 0;
    for (int64_t q = 0; q < ks; q++)
        if (is_defined(&m->finished[q]))
            m->scores[q * KM_CRITERION_COUNT + own] = models[count++].sum / total_weight(&m->finished[q]);
    status = KM_OK;
done:
    free(models);
    return status;
}

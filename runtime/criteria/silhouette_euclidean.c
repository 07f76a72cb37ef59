// SPDX-License-Identifier: MIT
// The silhouette by Euclidean distances, which takes all pairs of points: exact up to KM_PAIRS_POINTS points, of more
// that of a sample of so many, whose standard error stands beside it. Rousseeuw 1987.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../memory.h"
#include "../sample.h"
#include "../share.h"
#include "../threads.h"
#include "criteria.h"
#include "pairs.h"

#include <stdlib.h>

// Fetches the sample's rows and weights, and labels them by all models.
static km_status take_sample(km_pairs *pairs, double *rows, double *weights, int32_t *labels,
                             int64_t *indices, const km_measuring *m, km_error *err) {
    int weighted = km_data_weights(m->data) != NULL;
    KM_TRY(km_draw_points(indices, m->engine->n_all, pairs->n, m->params->seed, err));
    KM_TRY(m->engine->backend->rows(m->engine, rows, indices, pairs->n, err));
    if (weighted) KM_TRY(km_data_weights_at(weights, m->data, indices, pairs->n, err));
    for (int64_t q = 0; q < pairs->sets_count; q++)
        km_label_points(labels + q * pairs->n, rows, pairs->n, m->finished[q].centroids, m->finished[q].k,
                        pairs->d, pairs->threads);
    pairs->points = rows;
    pairs->weights = weighted ? weights : NULL;
    pairs->labels = labels;
    return KM_OK;
}

km_status km_measure_silhouette_euclidean(const km_measuring *m, km_criterion own, km_error *err) {
    int64_t ks_count = m->spec->clusters_count, d = m->engine->d,
            n = km_min(m->engine->n_all, KM_PAIRS_POINTS);
    km_pairs pairs = {.n = n,
                      .d = d,
                      .sets_count = ks_count,
                      .threads = km_host_threads(m->params->threads),
                      .asking = m->engine->asking};
    KM_TRY(km_host_check("the sample of the silhouette", 2 * n * d * (int64_t)sizeof(double), err));
    double *rows = malloc((size_t)(n * (d + 1) + 2 * ks_count) * sizeof *rows);
    int64_t *indices = malloc((size_t)(n + ks_count) * sizeof *indices);
    int32_t *labels = malloc((size_t)(n * ks_count) * sizeof *labels);
    km_status status;
    if (!rows || !indices || !labels) {
        status = km_fail_memory(err, "the sample of the silhouette", n * (d + 1 + ks_count) * 8);
        goto done;
    }
    double *scores = rows + n * (d + 1);
    for (int64_t q = 0; q < ks_count; q++) indices[n + q] = m->finished[q].k;
    pairs.ks = indices + n;
    KM_TRY_GOTO(take_sample(&pairs, rows, rows + n * d, labels, indices, m, err));
    KM_TRY_GOTO(km_pairs_silhouettes(scores, scores + ks_count, &pairs, err));
    for (int64_t q = 0; q < ks_count; q++) {
        m->scores[q * KM_CRITERION_COUNT + own] = scores[q];
        if (n < m->engine->n_all) m->errors[q * KM_CRITERION_COUNT + own] = scores[ks_count + q];
    }
done:
    free(rows);
    free(indices);
    free(labels);
    return status;
}

// SPDX-License-Identifier: MIT
// The order of a model's clusters: the one with most weight at the last update first,
// ties by their centroids, feature by feature. So runs that find the same clusters number them alike, whatever
// their starts were.
#include "../../base/error.h"
#include "job.h"

#include <stdlib.h>
#include <string.h>

typedef struct cluster {
    double weight;
    const double *centroid;
    int64_t d, index;
} cluster;

static int compare(const void *a_bytes, const void *b_bytes) {
    const cluster *a = a_bytes, *b = b_bytes;
    if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
    for (int64_t f = 0; f < a->d; f++)
        if (a->centroid[f] != b->centroid[f]) return a->centroid[f] < b->centroid[f] ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

km_status km_number_clusters(double *centroids, int64_t k, int64_t d, int has_means, km_error *err) {
    const double *weights = centroids + k * d, *means = weights + k;
    int64_t numbers = has_means ? km_model_numbers(k, d) : k * (d + 1);
    cluster *order = malloc((size_t)k * sizeof *order);
    double *sorted = malloc((size_t)numbers * sizeof *sorted);
    if (!order || !sorted) {
        free(order);
        free(sorted);
        return km_fail_memory(err, "the order of clusters", numbers * (int64_t)sizeof *sorted);
    }
    for (int64_t j = 0; j < k; j++) order[j] = (cluster){weights[j], centroids + j * d, d, j};
    qsort(order, (size_t)k, sizeof *order, compare);
    for (int64_t j = 0; j < k; j++) {
        memcpy(sorted + j * d, order[j].centroid, (size_t)d * sizeof *sorted);
        sorted[k * d + j] = order[j].weight;
        if (has_means)
            memcpy(sorted + k * (d + 1) + j * d, means + order[j].index * d, (size_t)d * sizeof *sorted);
    }
    memcpy(centroids, sorted, (size_t)numbers * sizeof *sorted);
    free(order);
    free(sorted);
    return KM_OK;
}

km_status km_fit_number_clusters(km_fit_job *f, int64_t q) {
    if (f->params->init == KM_INIT_GIVEN) return KM_OK; // the caller's order
    return km_number_clusters(f->best[q].centroids, f->spec.clusters[q], f->engine->d, f->best[q].has_means,
                              f->err);
}

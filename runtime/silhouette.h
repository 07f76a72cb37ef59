// SPDX-License-Identifier: MIT
// What both backends need of a model to measure its silhouette (km_backend.silhouette).
#ifndef KM_RUNTIME_SILHOUETTE_H
#define KM_RUNTIME_SILHOUETTE_H
#include "backend.h"
#include <math.h>

// The mean squared distance of cluster j's points from their mean; infinity where it is empty.
static inline double km_silhouette_spread(const km_silhouette_model *model, int64_t j) {
    return model->weights[j] > 0 ? model->sse[j] / model->weights[j] : INFINITY;
}

// From the mean over all points of the own cluster to that over the others; 0: there are none.
static inline double km_silhouette_factor(const km_silhouette_model *model, int64_t j) {
    return model->weights[j] > 1 ? model->weights[j] / (model->weights[j] - 1) : 0;
}

// Twice the largest distance of a mean, rounded to a float where `single`, from its centroid: the centroid that is
// nearest to a point is that of the nearest mean, unless another mean is within that of being it.
static inline double km_silhouette_apart(const km_silhouette_model *model, int64_t d, int single) {
    double most = 0;
    for (int64_t j = 0; model->means && j < model->k; j++) {
        double square = 0;
        for (int64_t f = j * d; f < (j + 1) * d; f++) {
            double mean = single ? (float)model->means[f] : model->means[f];
            square += (mean - model->centroids[f]) * (mean - model->centroids[f]);
        }
        most = fmax(most, square);
    }
    return 2 * sqrt(most) * (1 + 1e-6);
}

#endif

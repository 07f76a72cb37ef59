// SPDX-License-Identifier: MIT
// The clusters of finished models by their own means. A run that stops by tol or max_iter has centroids that its last
// update moved, and the points nearest to them have other means.
#ifndef KM_RUNTIME_CRITERIA_MEANS_H
#define KM_RUNTIME_CRITERIA_MEANS_H
#include "criteria.h"

typedef struct km_cluster_means {
    double *means;    // k x d, clustered space; a cluster without weight has its centroid
    double *sse;      // k: sum w |x - mean|^2
    double *distance; // k: sum w |x - mean|
    int is_fixed;     // the means are the centroids, to the last bit
} km_cluster_means;

// Those of all finished models, in one allocation. They come from the run's own end, where that moved nothing any more,
// else from one more pass; and where that gives a point of float64 another label, from the finishing pass's labels. The
// distances take two finishing passes more, of the models that are not at their fixed point.
km_status km_cluster_means_make(km_cluster_means **out, const km_measuring *m, km_error *err);
void km_cluster_means_free(km_cluster_means **means);

#endif

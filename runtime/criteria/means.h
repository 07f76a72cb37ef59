// SPDX-License-Identifier: MIT
// The clusters of models by their own means. A run that stops by tol or max_iter has centroids that its last update
// moved, and the points nearest to them have other means.
#ifndef KM_RUNTIME_CRITERIA_MEANS_H
#define KM_RUNTIME_CRITERIA_MEANS_H
#include "../backend.h"
#include "../sweep.h"

typedef struct km_cluster_means {
    double *means;    // k x d, clustered space; a cluster without weight has its centroid
    double *weights;  // k: of the clusters that the means are of
    double *sse;      // k: sum w |x - mean|^2
    double *distance; // k: sum w |x - mean|
    int is_fixed;     // the means are the centroids, to the last bit
} km_cluster_means;

// Of `count` models, of which k is known, in one allocation.
km_status km_cluster_means_alloc(km_cluster_means **out, const km_finish_model *models, int64_t count,
                                 int64_t d, km_error *err);
void km_cluster_means_free(km_cluster_means **means);

// Before the finishing pass, which is given them: the means of models `first` ... `first` + count - 1, and
// models[q].means, which stays NULL where they are the centroids. They come from the run's own end, where that moved
// nothing any more, or from its last pass, where the backend keeps the sums; else from one more pass for all of them.
km_status km_cluster_means_take(km_cluster_means *means, km_finish_model *models, km_engine *engine,
                                const km_sweep_best *best, int64_t first, int64_t count, km_error *err);

// After it: `sse` and `distance`. Where the pass gave a point of float64 another label than the finishing pass, the
// means are those of the finishing pass's labels, which takes two reads more, of those models.
km_status km_cluster_means_complete(km_cluster_means *means, const km_finish_model *models, int64_t count,
                                    km_engine *engine, km_error *err);

#endif

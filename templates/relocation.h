// SPDX-License-Identifier: MIT
// What relocation does to the centroids of a slot, when it is known which points become centroids of empty clusters.
// Engines and the host part of emitted files compile this.
#ifndef KM_RELOCATION_H
#define KM_RELOCATION_H

// A point that becomes the centroid of cluster `to`, which is empty, and the cluster that had it in the last pass.
typedef struct km_relocated_point {
    long long point;
    int from, to;
    double weight;
} km_relocated_point;

// Takes a point out of the mean of its cluster. A millionth of the weight is what rounding may leave of none.
static inline void km_mean_without(double *mean, double *weight, const double *x, double x_weight,
                                   long long d) {
    const double left = *weight - x_weight, nothing = *weight / 1048576;
    for (long long f = 0; f < d && left > nothing; f++)
        mean[f] = (*weight * mean[f] - x_weight * x[f]) / left;
    *weight = left > nothing ? left : 0;
}

// Gives the coordinates of `count` points (the rows of `points`) to their new clusters. `centroids` is k x d. Where
// they are the means of clusters that weigh `weights`, the points leave the means of their old clusters, as
// scikit-learn has it. A cluster that all points leave gets the centroid of the heaviest one: the next pass finds one
// of the two empty.
static inline void km_relocate_points(double *centroids, double *weights, long long k, long long d,
                                      const km_relocated_point *moved, const double *points, long long count,
                                      int are_means) {
    long long heaviest = 0;
    for (long long i = 0; i < count; i++) {
        const double *x = points + i * d;
        if (are_means)
            km_mean_without(centroids + moved[i].from * d, weights + moved[i].from, x, moved[i].weight, d);
        for (long long f = 0; f < d; f++) centroids[moved[i].to * d + f] = x[f];
        weights[moved[i].to] = moved[i].weight;
    }
    if (!are_means) return;
    for (long long j = 1; j < k; j++)
        if (weights[j] > weights[heaviest]) heaviest = j;
    for (long long i = 0; i < count; i++)
        for (long long f = 0; f < d && !(weights[moved[i].from] > 0); f++)
            centroids[moved[i].from * d + f] = centroids[heaviest * d + f];
}

#endif

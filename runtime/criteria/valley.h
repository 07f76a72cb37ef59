// SPDX-License-Identifier: MIT
// Valleys: whether the points are fewer between two neighbouring clusters than inside both.
//
// A convex piece of space that holds points of one hump (a density that only falls away from its top: uniform, normal,
// skewed) holds no valley: on the line between two places in it the midpoint is never emptier than both ends. So, on a
// sample of the points, neighbouring clusters a and b are looked at along the line between their centroids. Neighbours
// are the edges of the shortest tree that joins all centroids: each cluster's nearest is among them, and one edge at
// least crosses any gap. In a cylinder that holds three of four of the pair's own points (all points in it count,
// whatever their label) A, M and B points lie within a sixth of the distance of a's centroid, of the midpoint, of b's.
// The valley is (min(A, B) - M) in standard errors, sqrt(min(A, B) + M): around 0 or below without clusters, and large
// where they are apart. Each point meets centroids that were computed without it: with it, points of many features
// would lean towards their own centroid and leave the midpoint empty whatever the data are. A feature whose values lie
// on a lattice (integers, one digit behind the point) gets noise of the width of a step, so that gaps between its
// values are none between clusters.
#ifndef KM_RUNTIME_VALLEY_H
#define KM_RUNTIME_VALLEY_H
#include <kmgen/data.h>
#include <kmgen/kmgen.h>

struct km_asking;

typedef struct km_valley_sample {
    int64_t count, d;
    double *points;           // count x d, clustered space; owned
    double *weights;          // count, or NULL: all 1; owned
    struct km_asking *asking; // NULL, as km_valley_sample_make leaves it: nobody asks
} km_valley_sample;

// Points for valleys of models of these numbers of clusters: all, or a stratified sample drawn by the seed. count is 0
// where all Ks together would cost too much for a sample that shows anything of the largest. `centre` and `factor`: d,
// the clustered space is (x - centre) * factor.
km_status km_valley_sample_make(km_valley_sample *out, const km_data *data, const double *centre,
                                const double *factor, const int32_t *clusters, int64_t clusters_count,
                                uint64_t seed, int64_t threads, km_error *err);

void km_valley_sample_free(km_valley_sample *sample);

// How many of so many threads are worth their start for this many clusters.
int64_t km_valley_threads(const km_valley_sample *sample, int64_t clusters, int64_t threads);

// valleys[j] of a model's k clusters: of j and the cluster by which it hangs on the tree; NaN for the root and for
// clusters without points. `weights`: k, of all points. Threads do not change the result.
km_status km_valleys(double *valleys, const km_valley_sample *sample, const double *centroids,
                     const double *weights, int64_t k, int64_t threads, km_error *err);

#endif

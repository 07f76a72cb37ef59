// SPDX-License-Identifier: MIT
//@ need name upper type d s ks_count ks list weighted
// $name.h, made by kmgen $version: k-means of points with $d features for every K of $list at once; each pass reads the
// points once for all of them. $name.cu and $name.c both implement it, the first on a CUDA device:
//
//     nvcc -arch=$arch -c $name.cu                       then link with nvcc, or with -lcudart
//     cc -O3 -ffp-contract=off -fopenmp -c $name.c       then link with -fopenmp -lm; OpenMP may be left out
//
//     $name_fit *fit;
//     if ($name_create(&fit, points, NULL, n) || $name_seed(fit, 0) || $name_run(fit, 300, 1e-4, NULL))
//         fprintf(stderr, "%s\n", $name_error());
//     for (int i = 0; fit && i < $upper_KS; i++) {
//         $name_model model = {0};
//         $name_result(fit, i, &model); // model.k, model.inertia, ...
//     }
//     $name_destroy(&fit);
//
// Coordinates are as they are given, in and out: no feature is scaled against another. Inside they are centred, and
// multiplied by one power of two. Results are those of `kmgen fit` with the same first centroids and one restart.
// One thread at a time may use a fit.
#ifndef $upper_H
#define $upper_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    $upper_FEATURES = $d,  // numbers of a point
    $upper_KS = $ks_count, // entries of the list of K
    $upper_ROWS = $s,      // clusters of the whole list: rows of a table with the centroids of every K
    $upper_K_MAX = $k_max  // the largest K: fewer points are refused
};

typedef $type $name_real;

// What every function returns: 0, or which kind of thing went wrong. $name_error() says it in a sentence.
enum { $upper_OK, $upper_ARGUMENT, $upper_DATA, $upper_MEMORY, $upper_DEVICE };

// Points on a device, and the state of each K.
typedef struct $name_fit $name_fit;

// One K. The arrays are the caller's; those that are not NULL are filled.
typedef struct $name_model {
    int k;
    int converged;         // 0: its centroids still moved in the last pass that was allowed
    long long n_iter;      // updates of its centroids
    double inertia;        // sum of weight times squared distance to the nearest centroid
    $name_real *centroids; // k x $upper_FEATURES
    long long *counts;     // k: points of each cluster
    int *labels; // n, in the memory of the host: the nearest centroid, the lowest index among equals
} $name_model;

// Copies n points, row by row. They, and the weights, may lie in the memory of the host or, for $name.cu, of the
// current device, which is the one that is used. `weights`: one a point, finite and not negative; NULL: all are 1.
// $upper_DATA where there are fewer points than the largest K, or a number is not finite. *out is NULL on failure.
int $name_create($name_fit **out, const $name_real *points, const double *weights, long long n);

// First centroids: $upper_ROWS rows in the memory of the host, those of the smallest K first; or drawn by k-means++,
// for the same seed the same. Either makes every K start again.
int $name_start($name_fit *fit, const $name_real *centroids);
int $name_seed($name_fit *fit, unsigned long long seed);

// Passes over the points until no K moves any more, passes_max of them at most: 1 is one pass. A K stops when the
// squared shift of its centroids is at most `tolerance` times the mean variance of the features (kmgen fit: 1e-4), and
// takes no part in later passes. A cluster that loses its last point gets the point farthest from its centroid.
// *passes, unless NULL: how many were made. May be called again to go on.
int $name_run($name_fit *fit, long long passes_max, double tolerance, long long *passes);

// The K of entry `index` of the list as it stands, by one more read of the points.
int $name_result($name_fit *fit, int index, $name_model *model);

// Frees *fit and sets it to NULL. NULL is allowed.
void $name_destroy($name_fit **fit);

// What the last call of this thread that failed says: one sentence.
const char *$name_error(void);

#ifdef __cplusplus
}
#endif
#endif

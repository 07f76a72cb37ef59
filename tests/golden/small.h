// small.h, made by kmgen 0.1.0: k-means of points with 4 features for every K of 3..5 at once; each pass reads the
// points once for all of them. small.cu and small.c both implement it, the first on a CUDA device:
//
//     nvcc -arch=sm_90 -c small.cu                       then link with nvcc, or with -lcudart
//     cc -O3 -ffp-contract=off -fopenmp -c small.c       then link with -fopenmp -lm; OpenMP may be left out
//
//     small_fit *fit;
//     if (small_create(&fit, points, NULL, n) || small_seed(fit, 0) || small_run(fit, 300, 1e-4, NULL))
//         fprintf(stderr, "%s\n", small_error());
//     for (int i = 0; fit && i < SMALL_KS; i++) {
//         small_model model = {0};
//         small_result(fit, i, &model); // model.k, model.inertia, ...
//     }
//     small_destroy(&fit);
//
// Coordinates are as they are given, in and out: no feature is scaled against another. Inside they are centred, and
// multiplied by one power of two. Results are those of `kmgen fit` with the same first centroids and one restart.
// One thread at a time may use a fit.
#ifndef SMALL_H
#define SMALL_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SMALL_FEATURES = 4, // numbers of a point
    SMALL_KS = 3,       // entries of the list of K
    SMALL_ROWS = 12,    // clusters of the whole list: rows of a table with the centroids of every K
    SMALL_K_MAX = 5     // the largest K: fewer points are refused
};

typedef float small_real;

// What every function returns: 0, or which kind of thing went wrong. small_error() says it in a sentence.
enum { SMALL_OK, SMALL_ARGUMENT, SMALL_DATA, SMALL_MEMORY, SMALL_DEVICE };

// Points on a device, and how far each K is.
typedef struct small_fit small_fit;

// One K. The arrays are the caller's; those that are not NULL are filled.
typedef struct small_model {
    int k;
    int converged;         // 0: it was still moving when the passes that were allowed had been made
    long long n_iter;      // updates of its centroids
    double inertia;        // sum of weight times squared distance to the nearest centroid
    small_real *centroids; // k x SMALL_FEATURES
    long long *counts;     // k: points of each cluster
    int *labels;           // n, in the memory of the host: the nearest centroid, the lowest index among equals
} small_model;

// Copies n points, row by row. They, and the weights, may lie in the memory of the host or, for small.cu, of the
// current device, which is the one that is used. `weights`: one a point, finite and not negative; NULL: all are 1.
// SMALL_DATA where there are fewer points than the largest K, or a number is not finite. *out is NULL on failure.
int small_create(small_fit **out, const small_real *points, const double *weights, long long n);

// First centroids: SMALL_ROWS rows in the memory of the host, those of the smallest K first; or drawn by k-means++,
// for the same seed the same. Either makes every K start again.
int small_start(small_fit *fit, const small_real *centroids);
int small_seed(small_fit *fit, unsigned long long seed);

// Passes over the points until no K moves any more, passes_max of them at most: 1 is one pass. A K is at rest when the
// squared shift of its centroids is at most `tolerance` times the mean variance of the features (kmgen fit: 1e-4), and
// takes no part in later passes. A cluster that loses its last point gets the point farthest from its centroid.
// *passes, unless NULL: how many were made. May be called again to go on.
int small_run(small_fit *fit, long long passes_max, double tolerance, long long *passes);

// The K of entry `index` of the list as it stands, by one more read of the points.
int small_result(small_fit *fit, int index, small_model *model);

// Frees *fit and sets it to NULL. NULL is allowed.
void small_destroy(small_fit **fit);

// What the last call of this thread that failed says: one sentence.
const char *small_error(void);

#ifdef __cplusplus
}
#endif
#endif

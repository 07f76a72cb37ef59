// hamerly.h, made by kmgen 0.1.0: k-means of points with 32 features for every K of 256 at once; each pass reads the
// points once for all of them. hamerly.cu and hamerly.c both implement it, the first on a CUDA device:
//
//     nvcc -arch=sm_90 -c hamerly.cu                       then link with nvcc, or with -lcudart
//     cc -O3 -ffp-contract=off -fopenmp -c hamerly.c       then link with -fopenmp -lm; OpenMP may be left out
//
//     hamerly_fit *fit;
//     if (hamerly_create(&fit, points, NULL, n) || hamerly_seed(fit, 0) || hamerly_run(fit, 300, 1e-4, NULL))
//         fprintf(stderr, "%s\n", hamerly_error());
//     for (int i = 0; fit && i < HAMERLY_KS; i++) {
//         hamerly_model model = {0};
//         hamerly_result(fit, i, &model); // model.k, model.inertia, ...
//     }
//     hamerly_destroy(&fit);
//
// Coordinates are as they are given, in and out: no feature is scaled against another. Inside they are centred, and
// multiplied by one power of two. Results are those of `kmgen fit` with the same first centroids and one restart.
// One thread at a time may use a fit.
#ifndef HAMERLY_H
#define HAMERLY_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HAMERLY_FEATURES = 32, // numbers of a point
    HAMERLY_KS = 1,        // entries of the list of K
    HAMERLY_ROWS = 256,    // clusters of the whole list: rows of a table with the centroids of every K
    HAMERLY_K_MAX = 256    // the largest K: fewer points are refused
};

typedef float hamerly_real;

// What every function returns: 0, or which kind of thing went wrong. hamerly_error() says it in a sentence.
enum { HAMERLY_OK, HAMERLY_ARGUMENT, HAMERLY_DATA, HAMERLY_MEMORY, HAMERLY_DEVICE };

// Points on a device, and the state of each K.
typedef struct hamerly_fit hamerly_fit;

// One K. The arrays are the caller's; those that are not NULL are filled.
typedef struct hamerly_model {
    int k;
    int converged;           // 0: its centroids still moved in the last pass that was allowed
    long long n_iter;        // updates of its centroids
    double inertia;          // sum of weight times squared distance to the nearest centroid
    hamerly_real *centroids; // k x HAMERLY_FEATURES
    long long *counts;       // k: points of each cluster
    int *labels;             // n, in the memory of the host: the nearest centroid, the lowest index among equals
} hamerly_model;

// Copies n points, row by row. They, and the weights, may lie in the memory of the host or, for hamerly.cu, of the
// current device, which is the one that is used. `weights`: one a point, finite and not negative; NULL: all are 1.
// HAMERLY_DATA where there are fewer points than the largest K, or a number is not finite. *out is NULL on failure.
int hamerly_create(hamerly_fit **out, const hamerly_real *points, const double *weights, long long n);

// First centroids: HAMERLY_ROWS rows in the memory of the host, those of the smallest K first; or drawn by k-means++,
// for the same seed the same. Either makes every K start again.
int hamerly_start(hamerly_fit *fit, const hamerly_real *centroids);
int hamerly_seed(hamerly_fit *fit, unsigned long long seed);

// Passes over the points until no K moves any more, passes_max of them at most: 1 is one pass. A K stops when the
// squared shift of its centroids is at most `tolerance` times the mean variance of the features (kmgen fit: 1e-4), and
// takes no part in later passes. A cluster that loses its last point gets the point farthest from its centroid.
// *passes, unless NULL: how many were made. May be called again to go on.
int hamerly_run(hamerly_fit *fit, long long passes_max, double tolerance, long long *passes);

// The K of entry `index` of the list as it stands, by one more read of the points.
int hamerly_result(hamerly_fit *fit, int index, hamerly_model *model);

// Frees *fit and sets it to NULL. NULL is allowed.
void hamerly_destroy(hamerly_fit **fit);

// What the last call of this thread that failed says: one sentence.
const char *hamerly_error(void);

#ifdef __cplusplus
}
#endif
#endif

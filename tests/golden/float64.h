// float64.h, made by kmgen 0.1.0: k-means of points with 4 features for every K of 2..8 at once; each pass reads the
// points once for all of them. float64.cu and float64.c both implement it, the first on a CUDA device:
//
//     nvcc -arch=sm_90 -c float64.cu                       then link with nvcc, or with -lcudart
//     cc -O3 -ffp-contract=off -fopenmp -c float64.c       then link with -fopenmp -lm; OpenMP may be left out
//
//     float64_fit *fit;
//     if (float64_create(&fit, points, NULL, n) || float64_seed(fit, 0) || float64_run(fit, 300, 1e-4, NULL))
//         fprintf(stderr, "%s\n", float64_error());
//     for (int i = 0; fit && i < FLOAT64_KS; i++) {
//         float64_model model = {0};
//         float64_result(fit, i, &model); // model.k, model.inertia, ...
//     }
//     float64_destroy(&fit);
//
// Coordinates are as they are given, in and out: no feature is scaled against another. Inside they are centred, and
// multiplied by one power of two. Results are those of `kmgen fit` with the same first centroids and one restart.
// One thread at a time may use a fit.
#ifndef FLOAT64_H
#define FLOAT64_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FLOAT64_FEATURES = 4, // numbers of a point
    FLOAT64_KS = 7,       // entries of the list of K
    FLOAT64_ROWS = 35,    // clusters of the whole list: rows of a table with the centroids of every K
    FLOAT64_K_MAX = 8     // the largest K: fewer points are refused
};

typedef double float64_real;

// What every function returns: 0, or which kind of thing went wrong. float64_error() says it in a sentence.
enum { FLOAT64_OK, FLOAT64_ARGUMENT, FLOAT64_DATA, FLOAT64_MEMORY, FLOAT64_DEVICE };

// Points on a device, and how far each K is.
typedef struct float64_fit float64_fit;

// One K. The arrays are the caller's; those that are not NULL are filled.
typedef struct float64_model {
    int k;
    int converged;           // 0: it was still moving when the passes that were allowed had been made
    long long n_iter;        // updates of its centroids
    double inertia;          // sum of weight times squared distance to the nearest centroid
    float64_real *centroids; // k x FLOAT64_FEATURES
    long long *counts;       // k: points of each cluster
    int *labels;             // n, in the memory of the host: the nearest centroid, the lowest index among equals
} float64_model;

// Copies n points, row by row. They, and the weights, may lie in the memory of the host or, for float64.cu, of the
// current device, which is the one that is used. `weights`: one a point, finite and not negative; NULL: all are 1.
// FLOAT64_DATA where there are fewer points than the largest K, or a number is not finite. *out is NULL on failure.
int float64_create(float64_fit **out, const float64_real *points, const double *weights, long long n);

// First centroids: FLOAT64_ROWS rows in the memory of the host, those of the smallest K first; or drawn by k-means++,
// for the same seed the same. Either makes every K start again.
int float64_start(float64_fit *fit, const float64_real *centroids);
int float64_seed(float64_fit *fit, unsigned long long seed);

// Passes over the points until no K moves any more, passes_max of them at most: 1 is one pass. A K is at rest when the
// squared shift of its centroids is at most `tolerance` times the mean variance of the features (kmgen fit: 1e-4), and
// takes no part in later passes. A cluster that loses its last point gets the point farthest from its centroid.
// *passes, unless NULL: how many were made. May be called again to go on.
int float64_run(float64_fit *fit, long long passes_max, double tolerance, long long *passes);

// The K of entry `index` of the list as it stands, by one more read of the points.
int float64_result(float64_fit *fit, int index, float64_model *model);

// Frees *fit and sets it to NULL. NULL is allowed.
void float64_destroy(float64_fit **fit);

// What the last call of this thread that failed says: one sentence.
const char *float64_error(void);

#ifdef __cplusplus
}
#endif
#endif

// SPDX-License-Identifier: MIT
// The pass of the silhouette (km_backend.silhouette), and its kernels: texts of templates/cpu/silhouette, written when
// the library is built.
#ifndef KM_RUNTIME_CPU_SILHOUETTE_H
#define KM_RUNTIME_CPU_SILHOUETTE_H
#include "prebuilt.h"
#include <kmgen/plan.h>

enum {
    SILHOUETTE_SUMS = 16,      // partial sums of a model: at least the lanes of every vector
    SILHOUETTE_BYTES = 128,    // at least the bytes of two vectors
    SILHOUETTE_TOGETHER = 128, // rows whose squared distances are computed together: those of small models
};
#define SILHOUETTE_ROWS(rows) ((rows) + 3) // with what is computed twice

// The mean squared distance of a point x to the points of cluster j is |x - m_j|^2 + v_j, where m_j is their mean and
// v_j their mean squared distance from it; in the own cluster, of n_j points without x itself, n_j / (n_j - 1) times
// that.
typedef struct cpu_silhouette_model {
    int64_t k;
    int64_t
        together; // rows of this model and the next ones that are computed together; 0: with an earlier model
    // Reals, k rows of d + 2: m_j; v_j, infinity where the cluster is empty; n_j / (n_j - 1), 0 where n_j is at most 1.
    const void *means;
    const void *centroids; // the same with c_j
    double apart;          // twice the largest distance of an m_j from its c_j
} cpu_silhouette_model;

typedef struct cpu_silhouette_work {
    const void *points; // of a chunk; squared distances fit the reals
    const double *weights;
    int64_t count, d, soa_points;
    const cpu_silhouette_model *models;
    int64_t models_count;
    double *sums;  // models_count x SILHOUETTE_SUMS, added to
    void *squares; // scratch: 2 x SILHOUETTE_ROWS(rows) x SILHOUETTE_BYTES
    int64_t rows;  // the most that are computed together
    // The silhouette of a point by a model, in double: where reals cannot tell which of two centroids is nearer.
    double (*exact)(const struct cpu_silhouette_work *work, int64_t model, int64_t point);
    const void *user; // of `exact` ...
    int64_t first;    // ... and the chunk's first point
    double *row;      // d
} cpu_silhouette_work;

typedef struct cpu_silhouette_kernels {
    cpu_prebuilt base;
    void (*pass)(const cpu_silhouette_work *work);
} cpu_silhouette_kernels;

const cpu_silhouette_kernels *km_cpu_silhouette_kernels(const km_plan *plan);

#endif

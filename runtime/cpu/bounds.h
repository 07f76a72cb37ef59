// SPDX-License-Identifier: MIT
// The algorithms hamerly ("Making k-means even faster", 2010) and elkan ("Using the triangle inequality to accelerate
// k-means", 2003) on vectors.
//
// Bounds of a point's distances say which distances need not be computed. They are not updated pass by pass. A bound
// is kept as if no centroid had moved since there are bounds, and is compared with how far centroids have moved since.
// So a point that keeps its label costs a load and a comparison, and nothing is written. For centroid j, path is the
// length of the way that it has moved. others is the sum over passes of the longest move of any other centroid that
// counts.
//
//     upper = u - path                u: distance to the point's own centroid, at most
//     slack = l - u + path + others   l: distance to any other, at least
//     lower = l_j + path_j            elkan, for each centroid: distance to it, at least
//
// path and others here are those of the pass that found u and l. A label is right while slack > path + others, or while
// upper + path is less than half the distance from its centroid to the nearest other one. Elkan also keeps the least
// lower bound of each centroid group (16 centroids), and looks only into groups that this leaves open.
//
// Which other centroids count (Rysavy and Hamerly, "Geometric methods to accelerate k-means algorithms", 2016):
// centroid i does not count for j in a pass if half their distance is at least gap + radius. gap is half the distance
// from j to its nearest other centroid; radius: no point of cluster j is farther from j. Then i is farther from each
// of those points than j's nearest other, so the least distance to another centroid is that of one that counts.
//
// Bounds are floats, rounded to the safe side at each step. Points that they leave open are scored as in lloyd, x . c
// - |c|^2 / 2, with a margin for rounding. Ambiguous points are resolved in double, by squared differences, ties to
// the lowest index. So labels are those that double would give.
#ifndef KM_RUNTIME_CPU_BOUNDS_H
#define KM_RUNTIME_CPU_BOUNDS_H
#include "../../gen/cpu/facts.h"
#include "prebuilt.h"
#include <stdint.h>

enum {
    BOUNDS_POINTS = 4096, // points that are listed at a time
    BOUNDS_LANES = KM_CPU_BOUNDS_LANES,
    BOUNDS_SCORED = 64,   // points that are scored at a time, at most
    BOUNDS_TIGHTEN_K = 48 // hamerly: from so many clusters on, a point's own distance is computed first
};

// What all points of a run share in a pass. Rows of k values have k_row of them, whole centroid groups.
typedef struct cpu_bounds_tables {
    int64_t k, k_row;
    int64_t d, d_row;
    const void *table; // as in km_cpu_slot
    void
        *columns; // reals, d + 1 rows: the table by feature; minus infinity in the last behind centroid k - 1
    void *rows;   // reals, k rows of d_row: centroids, then zeros
    double half_square_max;  // the largest |c|^2 / 2
    float *expiry;           // path + others, at least
    float *credit;           // the same, at most
    float *path_most;        // path, at least
    float *path_least;       // path, at most
    float *others_path_most; // others, at least
    float *gap;              // half the distance to the nearest other centroid, at most
    float *inner;            // gap - path, at most
    float *half_distances;   // k rows: half the distances between centroids, at most
    int64_t groups_count;    // centroid groups
    // elkan, for each centroid group: the sum over passes of the longest move of one of its centroids, at least and at
    // most
    float *group_path_most, *group_path_least;
} cpu_bounds_tables;

// What one thread needs; for the largest k.
typedef struct cpu_bounds_scratch {
    int32_t *list;      // points whose bounds leave their label open; BOUNDS_SCORED more than a chunk
    int32_t *moved;     // points that changed their label ...
    int32_t *moved_old; // ... and from which
    int32_t
        *touched_groups; // elkan: centroid groups whose least bound may have changed, two more than there are
    void *values;        // reals, d x BOUNDS_SCORED: points side by side
    void *row;           // reals, d_row: one point, then zeros
    void *scores;        // reals, k_row: of one point
    double *doubles;     // d
} cpu_bounds_scratch;

// One run's pass over `count` points, the first of which begins an SoA group.
typedef struct cpu_bounds_work {
    const cpu_bounds_tables *tables;
    const void *points;
    const void *rows;      // reals, d_row for each point: the same, then zeros; or NULL
    const double *weights; // or NULL
    int64_t count, soa_points, pitch;
    void *labels;
    int32_t labels_bytes, mode, is_elkan;
    int32_t is_new; // there are no bounds yet
    float *slack, *upper;
    float *radius;       // k, in and out: the largest `upper` of each cluster that this pass wrote ...
    int32_t asks_radius; // ... or of all its points
    float *lower;        // elkan, k for each point
    float *
        group_lower; // elkan, for each point: the least lower bound of each centroid group, without its own centroid's
    double *sums; // or NULL
    cpu_bounds_scratch *scratch;
    // Out, added to:
    int64_t changed, distances, skipped;
} cpu_bounds_work;

// What an instruction set has for one type: a text of templates/cpu/bounds, written when the library is built.
typedef struct cpu_bounds_kernels {
    cpu_prebuilt base;
    // At most BOUNDS_POINTS points, or one SoA group.
    void (*pass)(cpu_bounds_work *work);
    // Fills columns, rows and widest from the table.
    void (*prepare)(cpu_bounds_tables *tables);
    // Fills gap and halves of centroids from .. end - 1.
    void (*gaps)(cpu_bounds_tables *tables, int64_t from, int64_t end);
} cpu_bounds_kernels;

const cpu_bounds_kernels *km_cpu_bounds_kernels(const km_plan *plan);

#endif

// SPDX-License-Identifier: MIT
// The algorithms hamerly ("Making k-means even faster", 2010) and elkan ("Using the triangle inequality to accelerate
// k-means", 2003) on vectors.
//
// Bounds of each point's distances say which need not be computed. They are not loosened pass by pass: each is kept
// as it would stand if no centroid had moved since there are bounds, and compared with how far centroids have moved
// since. So a point that keeps its label costs a load and a comparison, and nothing is written. For centroid j, path
// is the length of the way it went, others the sum over passes of the farthest that any other near enough went:
//
//     upper = u - path          u: distance to the point's own centroid, at most
//     slack = l - u + path + others   l: distance to any other, at least
//     lower = l_j + path_j      elkan, for each centroid: distance to it, at least
//
// (elkan also keeps the least lower bound of each block of centroids, and looks at those that this leaves open)
//
// all with the lengths of the pass that found u and l. A label stays where slack > path + others, or where upper + path
// is less than half the distance between its centroid and the nearest other one.
//
// A centroid i is too far from j to count in a pass where half their distance is at least gap + reach (gap: half the
// distance from j to the nearest other; reach: no point of cluster j is farther from j). To those points i is then
// farther than that nearest other, so that the least distance to any other is one of those that count (Rysavy and
// Hamerly, "Geometric methods to accelerate k-means algorithms", 2016).
//
// Bounds are floats, rounded to the safe side at each step. What they leave open is scored as lloyd does it, x . c -
// |c|^2 / 2, with a margin for rounding; scores closer than that are decided in double by squared differences, ties to
// the lowest index. So labels are those that double would give.
#ifndef KM_RUNTIME_CPU_BOUNDS_H
#define KM_RUNTIME_CPU_BOUNDS_H
#include "../../gen/cpu/facts.h"
#include "prebuilt.h"
#include <stdint.h>

enum {
    BOUNDS_CHUNK = 4096, // points that one list is made of
    BOUNDS_LANES = KM_CPU_BOUNDS_LANES,
    BOUNDS_SCORED = 64,   // points that are scored at a time, at most
    BOUNDS_TIGHTEN_K = 48 // hamerly: from so many clusters on, a point's own distance is computed first
};

// What all points of a run share in a pass. Rows of k values have k_row of them, whole blocks.
typedef struct cpu_bounds_tables {
    int64_t k, k_row;
    int64_t d, d_row;
    const void *table; // as in km_cpu_slot
    void
        *columns; // reals, d + 1 rows: the table by feature; minus infinity in the last behind centroid k - 1
    void *rows;   // reals, k rows of d_row: centroids, then zeros
    double widest;      // the largest |c|^2 / 2
    float *expiry;      // path + others, at least
    float *credit;      // the same, at most
    float *path_most;   // path, at least
    float *path_least;  // path, at most
    float *others_most; // others, at least
    float *gap;         // half the distance to the nearest other centroid, at most
    float *inner;       // gap - path, at most
    float *halves;      // k rows: half the distances between centroids, at most
    int64_t chunks_count;
    float *
        block_most; // elkan, for each block: the sum over passes of the farthest that one of its centroids went, ...
    float *block_least; // ... at least and at most
} cpu_bounds_tables;

// What one thread needs; for the largest k.
typedef struct cpu_bounds_scratch {
    int32_t *list;      // points whose bounds leave their label open; BOUNDS_SCORED more than a chunk
    int32_t *moved;     // points that changed their label ...
    int32_t *moved_old; // ... and from which
    int32_t *touched;   // elkan: blocks whose least bound may have changed, two more than there are
    void *values;       // reals, d x BOUNDS_SCORED: points side by side
    void *row;          // reals, d_row: one point, then zeros
    void *scores;       // reals, k_row: of one point
    double *doubles;    // d
} cpu_bounds_scratch;

// One run's pass over `count` points, the first of which begins a group.
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
    float *reach;       // k, in and out: the largest `upper` of each cluster's points that was kept
    int32_t asks_reach; // ... and of all its points
    float *lower;       // elkan, k for each point
    float *blocks; // elkan, for each point: the least of each block's lower bounds but its own centroid's
    double *sums;  // or NULL
    cpu_bounds_scratch *scratch;
    // Out, added to:
    int64_t changed, distances, skipped;
} cpu_bounds_work;

// What an instruction set has for one type: a text of templates/cpu/bounds, written when the library is built.
typedef struct cpu_bounds_kernels {
    cpu_prebuilt base;
    // At most BOUNDS_CHUNK points, or one group.
    void (*pass)(cpu_bounds_work *work);
    // Fills columns, rows and widest from the table.
    void (*prepare)(cpu_bounds_tables *tables);
    // Fills gap and halves of centroids from .. end - 1.
    void (*gaps)(cpu_bounds_tables *tables, int64_t from, int64_t end);
} cpu_bounds_kernels;

const cpu_bounds_kernels *km_cpu_bounds_kernels(const km_plan *plan);

#endif

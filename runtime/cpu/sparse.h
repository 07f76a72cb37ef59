// SPDX-License-Identifier: MIT
// Kernels of the design sparse_lanes: texts of templates/cpu/sparse_lanes, written when the library is built. One
// nonzero of a row meets a row of a table, in which the centroids of all runs stand side by side.
//
// The score of centroid c for x is |c|^2 / 2 - x . c here: the least is the nearest, and |x - c|^2 = |x|^2 + 2 score.
#ifndef KM_RUNTIME_CPU_SPARSE_H
#define KM_RUNTIME_CPU_SPARSE_H
#include "../../templates/cpu/abi.h"
#include "../seed.h"
#include "prebuilt.h"
#include <kmgen/plan.h>

enum {
    SPARSE_SPAN = 256,          // rows whose labels are found together
    SPARSE_AT_A_TIME = 64,      // rows whose scores in double are kept
    SPARSE_COLUMNS = 16,        // rows of a table have a multiple of so many columns
    SPARSE_CANDIDATES_MAX = 16, // of a pick
    SPARSE_AHEAD = 8,           // nonzeros between a table's row that is fetched and the one that is used
    SPARSE_SLOT_BYTES = 64 + SPARSE_SPAN * 24 // of a pass's scratch, for each slot
};

// Consecutive rows of one chunk (runtime/sparse.h).
typedef struct cpu_sparse_rows {
    int64_t count;
    const uint32_t *starts; // count + 1: where rows start among indices and values
    const void *indices;
    const void *values; // reals
    int32_t index_bytes;
} cpu_sparse_rows;

// Centroids side by side, feature by feature.
typedef struct cpu_sparse_table {
    const void *rows;        // one a feature, `stride` numbers apart: minus the centroids' coordinates
    const void *constants;   // stride: |c|^2 / 2
    int64_t columns, stride; // stride: columns rounded up to SPARSE_COLUMNS
    int32_t is_large;        // larger than the second cache: rows are fetched ahead
} cpu_sparse_table;

// A point that left cluster `old`.
typedef struct cpu_sparse_change {
    uint32_t row; // of the chunk's
    int32_t old;
} cpu_sparse_change;

// What the changes of one run in a chunk are listed for, where its sums are not partial sums.
typedef struct cpu_sparse_changes {
    cpu_sparse_change *list;
    int64_t count, most; // count above most: the list holds nothing
} cpu_sparse_changes;

typedef struct cpu_sparse_chunk {
    cpu_sparse_rows rows;
    const double *weights; // or NULL: all 1
    const float *norms;    // |x|, rounded up
    int64_t d;
    cpu_sparse_table table;       // reals; the columns of `slots`, one run after another
    const double *constants;      // the same in double
    const double *norms_max;      // of each slot: no centroid's |c| is above
    cpu_sparse_changes **changes; // of each slot; NULL: it has sums, or wants labels alone
    km_cpu_slot *slots;           // sums and labels as km_cpu_kernels.pass has them
    int64_t slots_count;
    void *scratch; // slots_count x SPARSE_SLOT_BYTES
} cpu_sparse_chunk;

// Points of one cluster, to be added to its row of sums, by ascending points.
typedef struct cpu_sparse_sum {
    double *row; // of KM_CPU_PITCH(d) numbers: features low .. high - 1 are changed, and the two numbers
                 // behind the last where high is d
    const int64_t *marks; // 2 x point, and 1 more where it is taken away
    int64_t count;
    int64_t low, high, d;
    const uint32_t *starts; // of all chunks (runtime/sparse.h)
    const int64_t *chunk_first;
    const void *indices, *values;
    int32_t index_bytes;
    const double *weights;
} cpu_sparse_sum;

// The part of |x|^2 + |p|^2, p being a pick of a seeding, up to which a squared distance may be rounding.
#define SPARSE_SEED_ROUNDING 0x1p-48

// Up to SPARSE_AT_A_TIME points of a k-means++ chain, and their scores.
typedef struct cpu_sparse_chain {
    void *nearest;         // reals: squared distance to the nearest pick; takes the last one
    double *potentials;    // of each candidate: its sum of w x what `nearest` would become is added
    const double *scores;  // `stride` apart: of the candidates, then of the last pick, where there is one
    const double *picks;   // |p|^2 / 2 of the same
    const double *squares; // |x|^2
    const double *weights; // or NULL: all 1
    int64_t stride, candidates; // SPARSE_CANDIDATES_MAX at most; scores of so many columns may be read
    int32_t has_last;
} cpu_sparse_chain;

// Up to SPARSE_AT_A_TIME points in the finishing pass, and their scores for one model; whole vectors are read.
typedef struct cpu_sparse_model {
    int32_t *label;               // SPARSE_AT_A_TIME, out: the lowest index among equals ...
    double *first;                // ... and its squared distance
    double *sums;                 // k rows of KM_CPU_SUMS that are added to; NULL: not wanted
    const double *scores, *means; // `stride` apart; means: scores by the clusters' means, or NULL
    const double *squares;        // |x|^2
    const double *weights;        // or NULL: all 1
    int64_t stride, k;
} cpu_sparse_model;

typedef struct cpu_sparse_kernels {
    cpu_prebuilt base;
    void (*pass)(cpu_sparse_chunk *chunk);
    // Scores in double, `table` being doubles: rows.count rows of table.stride, and the rows' |x|^2. Bitwise the same
    // on every machine: sums of fused multiply-adds over a row's nonzeros in index order, then the constant.
    void (*scores)(double *scores, double *squares, const cpu_sparse_rows *rows,
                   const cpu_sparse_table *table);
    void (*add)(const cpu_sparse_sum *sum);
    void (*chain)(const cpu_sparse_chain *chain, int64_t count);
    void (*finish)(const cpu_sparse_model *model, int64_t count);
    // sum of x^2 by fused multiply-adds in index order
    double (*square)(const double *x, int64_t count);
} cpu_sparse_kernels;

const cpu_sparse_kernels *km_cpu_sparse_kernels(const km_plan *plan);

#endif

// SPDX-License-Identifier: MIT
// What a device does for km_explore: whole runs of k-means on subsets of the columns of one table, which is
// loaded once. The columns of a tile of rows are brought together in the cache, and serve every run of their
// subset there.
#ifndef KM_RUNTIME_EXPLORE_SUBSETS_H
#define KM_RUNTIME_EXPLORE_SUBSETS_H
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../templates/both.h"
#include "../../templates/draws.h"
#include "../backend.h"

// Restarts whose inertia is this close (relative) to the best count as the same: they stop when they move little, so
// most of them are not at the optimum to the last digit.
#define KM_SUBSETS_AGREE_RELATIVE 1e-3

// A subset of the table's columns, and the number of its first restart: subsets that are drawn several times
// have restarts of their own.
typedef struct km_subset {
    const int32_t *columns; // ascending
    int64_t size, first_restart;
} km_subset;

// What is counted of each point and code. A point's cell is a row of the tallies: its class, in the part of
// the rows that is held out or in the other part.
typedef struct km_tally {
    const uint32_t *cells; // n; KM_CELL_NONE: the point is left out
    const double *values;  // n: the outcome as a number; NULL: classes
    int64_t cells_count;
} km_tally;
#define KM_CELL_NONE UINT32_MAX
// Sums of a cell and code: the weight; of numbers also w y and w y^2.
static inline int64_t km_tally_sums(const km_tally *tally) {
    return tally->values ? 3 : 1;
}

// What became of one subset and K. Arrays are the caller's.
typedef struct km_subset_fit {
    int64_t k;
    int64_t restart; // from 0 in the subset
    int64_t restarts_agreed, n_iter;
    int64_t passes; // of all restarts
    int32_t converged;
    double *centroids; // k x size, clustered space
    // k each, as in km_finish_model. Of sse and margin, the sums over clusters are read, of margin without clusters of
    // one point: what has the sums alone puts them to the largest cluster. `distance` is not read.
    double *weights, *sse, *distance, *margin;
    int64_t *counts; // k
    // Sum of w |c - m|^2, m the mean of the points with the label of c: the squares about these means are as much less.
    // 0 from km_cpu_subsets_finish and km_cuda_subsets_finish, which have no sums of points.
    double off_means;
    double *tallies; // cells x sums x k, or NULL
    uint8_t *codes;  // n labels, or NULL
} km_subset_fit;

typedef struct km_subsets_job {
    km_engine *table; // with its points
    const km_data *data;
    const km_data_stats *stats;
    const double *centre, *factor; // of the table's columns, as km_load_params left them
    const double *squares;         // sums of their squares, where they are loaded (km_cpu_subsets_squares)
    const int32_t *clusters;       // clusters_count of them
    int64_t clusters_count, restarts;
    int32_t init_random; // else k-means++
    uint64_t seed;
    double tol;
    int64_t max_iter;
    const km_tally *tally; // NULL: no outcome
    // Asked between passes, by any thread that works; non-zero: stop.
    int (*stopped)(void *user);
    void *stopped_user;
} km_subsets_job;

// KM_ERROR_INTERRUPTED where `stopped` says so.
static inline km_status km_subsets_ask_stopped(const km_subsets_job *job, km_error *err) {
    if (!job->stopped || !job->stopped(job->stopped_user)) return KM_OK;
    return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted");
}

// Sums of the squares of a loaded table's columns (d), for km_subsets_job.
void km_cpu_subsets_squares(double *squares, const km_engine *table);

// Columns are permuted each by itself, as Fisher and Yates do: value i is exchanged with this one of the values 0 .. i,
// from the last i to the first.
#define KM_DRAW_PERMUTATION 0x5065726d75746564ull
static inline int64_t km_subsets_exchanged(uint64_t seed, int64_t turn, int64_t column, int64_t i) {
    double u = km_draw(seed ^ KM_DRAW_PERMUTATION, (uint64_t)turn, (uint64_t)column, (uint64_t)i);
    return km_min((int64_t)(u * (double)(i + 1)), i);
}

// Permutes each column of a loaded table by itself, by (seed, turn); `undo`: back to what it was. `squares` stay.
void km_cpu_subsets_permute(km_engine *table, uint64_t seed, int64_t turn, int undo);

// Runs `count` subsets on the calling thread; one read of the table a pass serves all of them. fits: of each
// subset, one for each K. The result depends on neither the other subsets nor on threads.
// KM_ERROR_INTERRUPTED: `stopped` said so.
km_status km_cpu_subsets_run(const km_subsets_job *job, const km_subset *subsets, int64_t count,
                             km_subset_fit *fits, km_error *err);

// Only the last read, of fits whose centroids are known: it fills all that follows from them.
km_status km_cpu_subsets_finish(const km_subsets_job *job, const km_subset *subsets, int64_t count,
                                km_subset_fit *fits, km_error *err);

// Bytes that a thread needs beside the table for a subset of `size` columns in work, at most.
int64_t km_cpu_subsets_bytes(const km_subsets_job *job, int64_t size);

#endif

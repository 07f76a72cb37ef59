// SPDX-License-Identifier: MIT
// What the CPU engine keeps of points that lie as CSR, and its steps for them.
#ifndef KM_RUNTIME_CPU_SPARSE_ENGINE_H
#define KM_RUNTIME_CPU_SPARSE_ENGINE_H
#include "../sparse.h"
#include "layout.h"
#include "sparse.h"

enum {
    SPARSE_CHANGES_SHARE =
        2, // a piece lists changes of one in so many points, which are two additions each; beyond that all are added
    SPARSE_FEATURES_AT_A_TIME = 64, // of a table that is filled
    SPARSE_PARALLEL_MIN = 1 << 16   // numbers of a step that all threads share
};

// The part of |x|^2 up to which a squared distance may be rounding.
#define SPARSE_ROUNDING 0x1p-44

typedef struct cpu_sparse {
    km_sparse_points points;
    const cpu_sparse_kernels *kernels;
    int64_t *cuts; // pieces + 1: their first points
    int64_t pieces;
    uint8_t *table_rows;    // of all active runs: reals ...
    void *table_constants;  // ... and its constants
    double *constants;      // the same in double
    double *norms_max;      // of each active slot
    cpu_sparse_table table; // of this pass
    int64_t stride_max;     // with every slot active
    uint8_t *scratch;       // of each thread
    int64_t scratch_bytes;
    cpu_sparse_changes *changes; // pieces x slots; NULL: all runs have partial sums
    int64_t slots_count;
    int64_t *marks;        // n: of one run
    int64_t *feature_cuts; // for 1 .. feature_parts parts
    int64_t feature_parts;
} cpu_sparse;

// sparse_tables.c: points first .. first + count - 1, of one chunk.
void km_cpu_sparse_rows(cpu_sparse_rows *out, const cpu_engine *engine, int64_t first, int64_t count);
// A table of doubles and its constants for `columns` centroids, all 0, in *memory, which the caller frees by
// km_pages_free.
km_status km_cpu_sparse_double_table(cpu_sparse_table *table, void **memory, const cpu_engine *engine,
                                     int64_t columns, km_error *err);
// Fills all its columns: a centroid of d doubles each.
void km_cpu_sparse_fill(const cpu_sparse_table *table, const cpu_engine *engine,
                        const double *const *centroids);
// Scores in double of `rows`, of one chunk, SPARSE_AT_A_TIME at most, and their |x|^2: into `scores`, which has
// km_cpu_sparse_scores_count(table) doubles.
static inline int64_t km_cpu_sparse_scores_count(const cpu_sparse_table *table) {
    return SPARSE_AT_A_TIME * (table->stride + 1) + SPARSE_CANDIDATES_MAX;
}
static inline const double *km_cpu_sparse_squares(double *scores, const cpu_sparse_table *table) {
    return scores + SPARSE_AT_A_TIME * table->stride;
}
void km_cpu_sparse_scores(double *scores, const cpu_engine *engine, const cpu_sparse_table *table,
                          int64_t first, int64_t count);
// The rows of its layout: seeding (sparse_seed.c), finishing and silhouette (sparse_finish.c).
km_status km_cpu_sparse_seed_create(cpu_seed_pass *pass, km_error *err);
void km_cpu_sparse_seed_destroy(cpu_seed_pass *pass);
void km_cpu_sparse_seed_begin(cpu_seed_pass *pass);
void km_cpu_sparse_seed_subchunk(cpu_seed_pass *pass, int64_t subchunk, int64_t first, int64_t count);
void km_cpu_sparse_seed_end(cpu_seed_pass *pass);
double km_cpu_sparse_square(const cpu_engine *engine, int64_t point, int64_t pick);
km_status km_cpu_sparse_finish_create(cpu_finish_pass *pass, const km_finish_model *models, km_error *err);
void km_cpu_sparse_finish_destroy(cpu_finish_pass *pass);
void km_cpu_sparse_finish(const cpu_finish_pass *pass, km_cpu_finish_model *models, int64_t first,
                          int64_t count);
km_status km_cpu_sparse_silhouette(cpu_engine *engine, km_silhouette_model *models, int64_t count,
                                   km_error *err);

#endif

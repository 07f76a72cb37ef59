// SPDX-License-Identifier: MIT
// Subsets of columns: what subsets.c (runs), subsets_finish.c (the last pass) and subsets_table.c (memory, and one
// subset at a time) share.
#ifndef KM_RUNTIME_CUDA_SUBSETS_STATE_H
#define KM_RUNTIME_CUDA_SUBSETS_STATE_H
#include "../build.h"
#include "cuda.h"
#include "subsets.h"

// An engine for the columns of one subset at a time.
typedef struct km_subset_view {
    int64_t size;
    km_build build;
    km_engine *engine; // NULL: not needed so far
} km_subset_view;

struct km_cuda_subsets {
    km_cuda_engine *table;
    km_device *device;
    km_source source;
    km_module *module;
    const km_cuda_kernels *kernels;
    km_module_params module_params;
    km_subset_view *views;
    int64_t views_count;
    double *sample; // rows of the table, for typical squares
    int64_t sample_rows;
    int64_t distances;
    int is_permuted; // `permuted` and the table's points are exchanged
    // On the device.
    km_cuda_memory permuted, order; // a table of permuted columns, and the order of one
    km_cuda_memory spans, starts;   // of the points in their order
    int64_t spans_count;
    km_cuda_memory view_columns; // of the subset that a view has
    km_cuda_memory columns, numbers, before, weights, given_up, states, limits, active, picks, partial,
        totals;
    // Rows in the order of the outcome's cells, for the last pass.
    km_cuda_memory ordered, ordered_weights, ordered_values, ordered_spans, ordered_starts;
    int64_t ordered_spans_count, cells_count; // cells: those of the tally, then rows without an outcome
};

// Memory and views.
const km_cuda_subset_pair *km_subsets_pair(const km_cuda_subsets *s, int64_t c, int64_t k);
// The engine with the columns of one subset in it.
km_status km_subsets_view(km_cuda_engine **out, km_cuda_subsets *s, const km_subsets_job *job,
                          const km_subset *subset, km_error *err);
// Sum of squares of a subset's columns over all points, and in *variances the sum of their variances.
double km_subsets_total_square(double *variances, const km_subsets_job *job, double total_weight,
                               const km_subset *subset);
// [size][stride] columns of `count` subsets, each for `runs` runs; to s->columns.
km_status km_subsets_put_columns(km_cuda_subsets *s, const km_subset *const *subsets, int64_t count,
                                 int64_t runs, int64_t stride, km_error *err);
// How many runs one launch takes: their partial sums, so many bytes of each, fit the memory of s->partial.
km_status km_subsets_reserve_partial(int64_t *runs, km_cuda_subsets *s, int64_t run_bytes, int64_t count,
                                     km_error *err);
// The rows in the order of cells, once a job.
km_status km_subsets_order(km_cuda_subsets *s, const km_subsets_job *job, km_error *err);
// Starts a pass of one pair's kernel over spans.
km_status km_subsets_launch_pass(km_cuda_subsets *s, km_cu_function function, unsigned block, unsigned bytes,
                                 km_subsets_args *args, km_error *err);

// The last pass of a K, for subsets of one size; fits[i * ks].
km_status km_subsets_last_pass(km_cuda_subsets *s, const km_subsets_job *job, const km_subset *const *subsets,
                               km_subset_fit *const *fits, int64_t count, km_error *err);

#endif

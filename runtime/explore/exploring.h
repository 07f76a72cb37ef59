// SPDX-License-Identifier: MIT
// One call of km_explore, and its steps in their order. explore.c walks through them.
#ifndef KM_RUNTIME_EXPLORE_EXPLORING_H
#define KM_RUNTIME_EXPLORE_EXPLORING_H
#include "../build.h"
#include "../cuda/subsets.h"
#include "choose.h"
#include "explored.h"
#include "subsets.h"

enum { KM_EXPLORE_SIZE_DEFAULT = 3 }; // columns of a subset

typedef struct explore {
    const km_explore_params *params;
    const km_data *data;
    km_explore_owner *out;
    km_device *device;
    km_spec spec;
    km_build build;
    km_engine *engine;
    km_data_stats stats;
    km_load_params load;
    km_choice choice;
    int32_t *always, *others;
    int32_t clusters_default[1];
    const int32_t *clusters;
    int64_t clusters_count, k_max, k_sum;
    km_tally tally;
    uint32_t *cells;
    double *values, *squares;
    km_subset *subsets;
    int32_t *columns;
    uint8_t *is_done; // of each subset
    km_subsets_job job;
    int ordinal;           // KM_HOST, or a GPU's
    km_cuda_subsets *cuda; // NULL: the CPU's kernels run
    int64_t threads, block, done;
    // Of KM_RANK_permuted: the mean of Calinski-Harabasz of each subset and K, and the tables that are run beside it.
    double *permuted;
    int64_t turn, turns;
    int stop;
    double begin_ms;
    km_error *err;
} explore;

// params.c
km_status km_explore_check(const explore *x);

// draw.c: x->subsets of the loaded table, and how many are possible and wanted.
km_status km_explore_choose(explore *x);

// run.c
void km_explore_module_params(km_module_params *params, explore *x);
// What all runs have in common, and how many subsets are in work at a time.
void km_explore_make_job(explore *x);
// A GPU's kernels for the sizes that are explored; nothing where the CPU explores.
km_status km_explore_make_cuda(explore *x);
// The same subsets of tables whose columns are permuted, where the ranking asks for it.
km_status km_explore_run_permuted(explore *x);
// All subsets of the table. What is done is kept where it is interrupted.
km_status km_explore_run(explore *x);

// The fits of one block, with memory of their own.
typedef struct explore_fits {
    km_subset_fit *fits;
    double *reals;
    int64_t *counts;
} explore_fits;

km_status km_explore_fits_alloc(explore_fits *f, const explore *x, int64_t count, km_error *err);
void km_explore_fits_free(explore_fits *f);

// keep.c: memory for what is kept; what becomes of subset `index`, by its fits of each K.
km_status km_explore_keep_alloc(explore *x);
void km_explore_add_permuted(explore *x, int64_t index, const km_subset_fit *fits);
void km_explore_keep_best(explore *x, int64_t index, const km_subset_fit *fits);
// Only what is done stays, in its order.
void km_explore_keep_done(explore *x);
void km_explore_warn(explore *x);

// codes.c: labels of all rows by the best subsets, and their joint codes.
km_status km_explore_make_codes(explore *x);

#endif

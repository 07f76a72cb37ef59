// SPDX-License-Identifier: MIT
// The text of the kernels for subsets of columns (templates/cuda/subsets).
#ifndef KM_GEN_CUDA_SUBSETS_H
#define KM_GEN_CUDA_SUBSETS_H
#include "../../base/error.h"
#include <kmgen/plan.h>

// What runs on subsets of a table's columns: each of the sizes with each K.
typedef struct km_subset_shapes {
    const int32_t *sizes; // columns of a subset
    int64_t sizes_count;
    const int32_t *clusters;
    int64_t clusters_count;
} km_subset_shapes;

// Makes the text for the table of a CUDA plan: its features, type, weights and device; into the initialised source,
// with a copy of that plan; templates_dir as for km_source_emit. Pure. KM_ERROR_PLAN where a pair needs more
// shared memory than a block has; it says which.
km_status km_subsets_emit(km_source *source, const km_plan *table, const km_subset_shapes *shapes,
                          const char *templates_dir, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// The algorithms hamerly and elkan on CUDA: what they can serve, and their memory. What the engine reserves is counted
// here.
#ifndef KM_GEN_CUDA_BOUNDS_H
#define KM_GEN_CUDA_BOUNDS_H
#include <kmgen/plan.h>

// What it takes, where the spec has other features, clusters or layout; NULL: it can serve them.
const char *km_cuda_bounds_refused(const km_plan *plan);
// What it takes, where points or device are others: then passes are lloyd's. NULL: it can serve them.
const char *km_cuda_bounds_unserved(const km_plan *plan);

// Tables of km_bounds_args (templates/cuda/bounds.h); those from CENTROIDS on are zero before the first pass.
enum {
    KM_BOUNDS_KS,
    KM_BOUNDS_PAIRS_AT,
    KM_BOUNDS_SCALE,
    KM_BOUNDS_BEFORE,
    KM_BOUNDS_PAIRS,
    KM_BOUNDS_CANDIDATES,
    KM_BOUNDS_UPPER,
    KM_BOUNDS_SLACK,
    KM_BOUNDS_LOWER,
    KM_BOUNDS_LIST,
    KM_BOUNDS_SORTED,
    KM_BOUNDS_TILE_LABELS,
    KM_BOUNDS_SUMS,
    KM_BOUNDS_CENTROIDS,
    KM_BOUNDS_SLOTS,
    KM_BOUNDS_COUNTS,
    KM_BOUNDS_DENSE,
    KM_BOUNDS_TABLES
};

typedef struct km_bounds_tables {
    int64_t pairs;                // of one restart
    int64_t sorted;               // places of listed points, of a slot
    int64_t kept;                 // bytes of all
    int64_t at[KM_BOUNDS_TABLES]; // offsets
} km_bounds_tables;

km_bounds_tables km_cuda_bounds_tables(const km_plan *plan, int64_t n);

#endif

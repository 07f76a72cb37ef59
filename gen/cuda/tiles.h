// SPDX-License-Identifier: MIT
// The algorithm tiles on CUDA: what it can serve, and its memory. What the engine reserves is counted here.
#ifndef KM_GEN_CUDA_TILES_H
#define KM_GEN_CUDA_TILES_H
#include <kmgen/plan.h>

enum {
    KM_CUDA_TILES_FEATURES_MAX = 16, // of points that the kernels keep in registers
    KM_CUDA_TILES_CLUSTERS_MAX = 64  // a bit each
};

// What it takes, where the spec has other features, clusters or layout; NULL: it can serve them.
const char *km_cuda_tiles_refused(const km_plan *plan);
// What it takes, where points, type or device are others: then passes are lloyd's. NULL: it can serve them.
// plan->design must be known.
const char *km_cuda_tiles_unserved(const km_plan *plan);

// Shared memory of a block of a pass, at most.
int64_t km_cuda_tiles_shared(const km_plan *plan);

// Tables of km_tiles_args (templates/cuda/tiles.h); those from SUMS on are zero before the first pass. COUNTERS: items,
// and listed tiles.
enum {
    KM_TILES_POINTS,
    KM_TILES_BOXES,
    KM_TILES_SUPER_BOXES,
    KM_TILES_PREFIX,
    KM_TILES_SCALE,
    KM_TILES_KS,
    KM_TILES_ITEMS,
    KM_TILES_LIST,
    KM_TILES_CANDIDATES,
    KM_TILES_SUMS,
    KM_TILES_COUNTERS,
    KM_TILES_OPEN,
    KM_TILES_COUNTS,
    KM_TILES_DENSE,
    KM_TILES_TABLES
};

// Tables that are needed until the tiles are filled.
enum {
    KM_SORT_CODE,
    KM_SORT_KEYS,
    KM_SORT_OTHER_KEYS,
    KM_SORT_NUMBERS,
    KM_SORT_OTHER_NUMBERS,
    KM_SORT_COUNTS,
    KM_SORT_SUMS,
    KM_SORT_LAST,
    KM_SORT_TABLES
};

typedef struct km_tiles_tables {
    int64_t tiles, supers;
    int64_t kept, sorting;                                // bytes of all
    int64_t at[KM_TILES_TABLES], sort_at[KM_SORT_TABLES]; // offsets
} km_tiles_tables;

km_tiles_tables km_cuda_tiles_tables(const km_plan *plan, int64_t n);

// What passes of one K do, counted as TILES_TESTED .. TILES_TILE_CANDIDATES are (templates/cuda/tiles.h).
typedef struct km_tiles_work {
    double tested, super_candidates, open_tiles, tile_candidates;
} km_tiles_work;

// Nanoseconds, for each point: of sorting them, and of what comes before that.
double km_cuda_tiles_sort_ns(const km_plan *plan);
double km_cuda_tiles_begin_ns(const km_plan *plan);
// Which K tiles are to serve, a bit for each, where a pass over n points takes work[q] for the K at q; the others stay
// with the dense design, in the same pass. *part: what a pass takes then, of the dense design's time for all K; where
// tiles pay for none, what it would take.
uint64_t km_cuda_tiles_serve(double *part, const km_plan *plan, int64_t n, const km_tiles_work *work);

#endif

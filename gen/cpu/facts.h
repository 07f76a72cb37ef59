// SPDX-License-Identifier: MIT
// What the planner and the CPU engine must agree on.
#ifndef KM_GEN_CPU_FACTS_H
#define KM_GEN_CPU_FACTS_H
#include <kmgen/plan.h>

enum {
    KM_CPU_PASS_POINTS =
        16384, // that a thread takes at a time in a pass: so few that threads are done at about the same time
    KM_CPU_BOUNDS_LANES = 16, // hamerly, elkan: floats of the widest vector; centroids of a centroid group
    KM_CPU_BOUNDS_ROWS_D =
        12, // ... from so many features on, points are kept as rows too: faster to read one by one
    KM_CPU_TILE_POINTS = 64, // tiles: points of a tile, tiles of a supertile, boxes of a box group
    KM_CPU_TILES_OF_SUPER = 16,
    KM_CPU_BOXES = 16,
    KM_CPU_TILES_FEATURES_MAX = 64 // tiles: what arrays of the kernels have room for
};

// Bytes of a point's bounds, of all runs at a time; 0 for algorithms that keep none.
int64_t km_cpu_bounds_point_bytes(const km_plan *plan);
// Bytes of a point as a row, whole vectors; 0 where there are no rows.
int64_t km_cpu_row_point_bytes(const km_plan *plan);

#endif

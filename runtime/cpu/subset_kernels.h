// SPDX-License-Identifier: MIT
// Kernels of k-means on a few columns of a table that stays where it is: texts of templates/cpu/subsets, written when
// the library is built. Columns are read from the table's SoA groups. Points weigh 1.
#ifndef KM_RUNTIME_CPU_SUBSET_KERNELS_H
#define KM_RUNTIME_CPU_SUBSET_KERNELS_H
#include "prebuilt.h"
#include <kmgen/plan.h>

enum {
    SUBSET_SIZE_MAX = 4,        // columns
    SUBSET_TILE_POINTS = 2048,  // whose columns stay in the first two caches
    SUBSET_GROUP = 64,          // points of an SoA group, and bytes of their labels, which are a cache line
    SUBSET_ROW = 8,             // doubles of a row of sums: of each column, the points, then zeros
    SUBSET_CANDIDATES_MAX = 16, // of a pick
    SUBSET_CELLS_MAX = 8,       // whose points are counted by bits
    SUBSET_BOX_POINTS = 128,    // neighbours whose nearest centroids are few
    SUBSET_BOXES = 128,         // whose points stay in the second cache
    SUBSET_BOX_CLUSTERS_MAX = 16
};

// Columns of a tile of rows. Value i of column f is at columns[f][i / SUBSET_GROUP * step + i % SUBSET_GROUP].
typedef struct cpu_subset_tile {
    const void *columns[SUBSET_SIZE_MAX]; // reals
    int64_t size, step;
    int64_t count; // points, SUBSET_TILE_POINTS at most
} cpu_subset_tile;

// Memory that is needed after a run's tile. Kernels fetch it beside their arithmetic, some lines an SoA group: fetched
// at once, lines would wait for each other, and what follows for all of them.
typedef struct cpu_subset_ahead {
    const uint8_t *labels, *points; // labels of another run, which are written; a part of the next tile
    int64_t labels_lines, points_lines;
} cpu_subset_ahead;

// The points of a subset, so ordered that neighbours lie together, in boxes of up to SUBSET_BOX_POINTS. Of a box's
// coordinates the midpoints and half widths; no |x|^2 is above `square`.
typedef struct cpu_subset_boxes {
    int64_t size, count,
        stride;    // boxes, and how long rows of a value a box are: whole vectors, zeros behind the last
    float *points; // of each box `size` columns of SUBSET_BOX_POINTS
    float *midpoint, *half; // size rows
    float *square;          // a row
    double *sums;           // size + 1 rows: of the columns, and of the points
} cpu_subset_boxes;

// One run's pass over a tile, or over boxes. A label is that of km_cpu_chunk: the same operations in the same order.
typedef struct cpu_subset_run {
    int64_t k;
    const void *table; // as in km_cpu_slot
    uint8_t *labels;   // of the tile's points, in whole SoA groups
    int32_t mode;      // KM_CPU_FIRST, KM_CPU_MOVE or KM_CPU_REFRESH
    double *sums;      // k rows of SUBSET_ROW: what the tile adds
    cpu_subset_ahead ahead;
    int64_t changed; // out, of a tile: points whose label changed
    int64_t scored;  // of boxes, added to: scores of points
} cpu_subset_run;

// The last pass over a tile: the nearest centroid as km_cpu_finish finds it, and how much nearer it is than the second.
typedef struct cpu_subset_finish {
    cpu_subset_run run;      // two centroids at least
    const double *centroids; // k x size: the table's, as doubles ...
    const uint8_t *order;    // ... of which equally near ones are taken in this order
    double margin;           // added to: (d2 - d1) / d2
} cpu_subset_finish;

typedef struct cpu_subset_kernels {
    cpu_prebuilt base;
    void (*pass)(const cpu_subset_tile *tile, cpu_subset_run *run);
    void (*finish)(const cpu_subset_tile *tile, cpu_subset_finish *finish);
    // Adds to counts[cell * k + label] the points of a tile. cells: of each SoA group SUBSET_CELLS_MAX words, whose
    // bits are the points of a cell; labels: whole SoA groups.
    void (*count_cells)(int64_t *counts, const uint8_t *labels, int64_t points, int64_t k,
                        const uint64_t *cells, int64_t cells_count);
    // k-means++ by the number of columns, as km_cpu_kernels.seed: its points are the columns alone.
    void (*seed[SUBSET_SIZE_MAX])(const km_cpu_seeding *seeding);
    // float32 with AVX-512, else NULL. Makes a box of `points` keys, whose lower halves are numbers of rows of `size`
    // values; and a pass over boxes begin .. end - 1, SUBSET_BOXES at most, which writes no labels.
    void (*box_fill)(cpu_subset_boxes *boxes, int64_t box, const uint64_t *keys, int64_t points,
                     const float *rows);
    void (*boxes_pass)(const cpu_subset_boxes *boxes, int64_t begin, int64_t end, cpu_subset_run *run);
} cpu_subset_kernels;

const cpu_subset_kernels *km_cpu_subset_kernels(const km_plan *plan);

#endif

// SPDX-License-Identifier: MIT
// Sorting the points (tiles_sort.c) and filling their tiles (tiles_fill.c), for tiles.c.
#ifndef KM_RUNTIME_CPU_TILES_FILL_H
#define KM_RUNTIME_CPU_TILES_FILL_H
#include "cpu.h"
#include "tiles.h"

// The points in the order of their codes.
typedef struct cpu_sorter {
    const cpu_engine *engine;
    int64_t bits, features_count;
    int64_t cell_bits;      // 0: the features' bits interleave
    cpu_tiles_code *codes;  // features_count
    int64_t *order;         // of features, widest first
    const float *rows;      // of all points, in their first order, or NULL
    float *carried;         // rows that are so short that they are sorted along, or NULL
    uint64_t *keys, *spare; // code << 32 | point, or its row in `carried`; spare: to sort into
    uint32_t *counts;       // chunks x TILES_DIGITS
} cpu_sorter;

// `rows`: the points as floats, where no more than that is needed of a point; else NULL. `cell_bits`: of the code, of
// each feature but the narrowest, by which points of a cell are in order; 0: all features alike. On failure, too, the
// sorter must be freed.
km_status km_cpu_sorter_run(cpu_sorter *sorter, const cpu_engine *engine, const cpu_tiles_kernels *kernels,
                            const float *rows, int64_t cell_bits, km_error *err);
void km_cpu_sorter_free(cpu_sorter *sorter);

km_status km_cpu_tiles_alloc(cpu_tiles *tiles, const cpu_engine *engine, km_error *err);
void km_cpu_tiles_free(cpu_tiles *tiles);
// Fills the box groups of supertiles whose number is a multiple of `step`, or (the rest) is none.
km_status km_cpu_tiles_fill(cpu_tiles *tiles, const cpu_engine *engine, const cpu_tiles_kernels *kernels,
                            const cpu_tile_source *source, const uint64_t *keys, int64_t step, int rest,
                            km_error *err);

#endif

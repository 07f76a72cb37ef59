// SPDX-License-Identifier: MIT
// The algorithm tiles skips distances by boxes, exactly: the filtering of Kanungo and others ("An efficient k-means
// clustering algorithm", 2002), with two flat levels in place of a tree.
//
// The points are sorted once so that neighbours lie together, and copied into tiles of TILE_POINTS. TILES_OF_SUPER
// tiles are a supertile. Each has a box and the sums of its points. A centroid that is nearest nowhere in a box is no
// candidate there. If one candidate is left, its cluster takes the sums of the whole box. Else the box is open: the
// tiles of the supertile are tested, or the points of the tile scored. What a tile adds to the sums depends on its
// labels alone, not on how they were found. So sums stop changing when labels do.
#ifndef KM_RUNTIME_CPU_TILES_H
#define KM_RUNTIME_CPU_TILES_H
#include "../../gen/cpu/facts.h"
#include "prebuilt.h"
#include <stddef.h>
#include <stdint.h>

enum { TILES_PICKED_MAX = 16 }; // up to so many centroids, a vector instruction picks values by centroid
enum {
    TILE_POINTS = KM_CPU_TILE_POINTS,
    TILES_OF_SUPER = KM_CPU_TILES_OF_SUPER,
    SUPER_POINTS = TILE_POINTS * TILES_OF_SUPER,
    BOXES = KM_CPU_BOXES
};

// BOXES boxes lie together, a box group: for each feature a row of midpoints, then for each a row of half widths, then
// a row of the largest squared norms that points of the box may have.
static inline int64_t tiles_box_values(int64_t d) {
    return (2 * d + 1) * BOXES;
}

// The points in their sorted order.
typedef struct cpu_tiles {
    int64_t n, d, pitch;
    int64_t tiles_count, supers_count;
    void *points; // reals: value f of point i of a tile lies at [f * TILE_POINTS + i], zeros behind the last
    double *weights;           // in the same order, or NULL
    void *boxes, *super_boxes; // reals
    double *sums, *super_sums; // of each: pitch numbers, as a row of km_cpu_slot's sums
} cpu_tiles;

// Lists and rows that one thread needs; for the largest k.
typedef struct cpu_tiles_scratch {
    int32_t *super_list, *tile_list; // k each: candidates of a supertile, of a tile, ascending
    int32_t *list;                   // k: all centroids
    uint16_t *super_candidates,
        *tile_candidates; // k each: a bit for each box of a box group in which the centroid is a candidate
    uint64_t *owners;     // k: a bit for each point of a tile that the centroid owns
    double *rows;         // k x pitch
    void *scores;         // reals: k x BOXES
    void *margins;        // reals: k, see relative_margin in templates/cpu/tiles
    void *columns;        // reals: the first TILES_PICKED_MAX centroids by feature, then their margins
} cpu_tiles_scratch;

// One run's pass over supertiles first_super .. first_super + supers_count - 1, the first a multiple of BOXES.
typedef struct cpu_tiles_work {
    const cpu_tiles *tiles;
    int64_t first_super, supers_count;
    int64_t k;
    const void *table;                // as in km_cpu_slot
    double *sums;                     // k rows; what is found is added
    void *labels;                     // of all points in sorted order, or NULL: not wanted
    int32_t labels_bytes, first_pass; // first_pass: labels hold nothing yet
    cpu_tiles_scratch *scratch;
    // Out, added to:
    int64_t changed;      // labels
    int64_t box_pairs;    // boxes x centroids
    int64_t point_pairs;  // points x centroids
    int64_t points_split; // points of the tiles that were scored point by point
} cpu_tiles_work;

// The feature's range is cut into cells. A coordinate's cell says which bits it gives to the point's code.
enum { TILES_CELLS = 1024, TILES_DIGIT_BITS = 8, TILES_DIGITS = 1 << TILES_DIGIT_BITS, TILES_KEYS_STEP = 64 };
typedef struct cpu_tiles_code {
    double low, scale; // the cell is (x - low) scale, clipped to 0 .. TILES_CELLS - 1
    uint32_t bits[TILES_CELLS];
} cpu_tiles_code;

// The keys of a chunk, code << 32 | point, and how many have each highest digit of the code.
typedef struct cpu_tiles_keys_work {
    const void *points; // as in km_cpu_chunk
    int64_t first, count, d, soa_points;
    const cpu_tiles_code *codes; // features_count
    const int64_t *order;        // the feature of each
    int64_t features_count;
    int32_t digit_shift; // code >> digit_shift is the highest digit
    uint64_t *keys;      // count, out
    uint32_t *counts;    // TILES_DIGITS, added to
} cpu_tiles_keys_work;

// Where tiles are copied from: the user's rows where they lie in memory (a cache line or so for a point), else the
// engine's SoA groups. All give the same values.
typedef struct cpu_tile_source {
    const float *rows32;
    const double *rows64;
    const void *soa_groups;
    int64_t soa_points;
    double *centre, *factor; // d each; SoA groups are centred and scaled already
    const double *weights;   // or NULL
} cpu_tile_source;

// What an instruction set has for one type: a text of templates/cpu/tiles, written when the library is built.
typedef struct cpu_tiles_kernels {
    cpu_prebuilt base;
    void (*pass)(cpu_tiles_work *work);
    void (*keys)(const cpu_tiles_keys_work *work);
    // Copies the points of a tile; its sums, and the least and greatest value of each feature (d each).
    void (*fill)(cpu_tiles *tiles, const cpu_tile_source *source, const uint64_t *keys, int64_t tile,
                 double *low, double *high);
} cpu_tiles_kernels;

const cpu_tiles_kernels *km_cpu_tiles_kernels(const km_plan *plan);

#endif

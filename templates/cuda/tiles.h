// SPDX-License-Identifier: MIT
// What the kernels of the algorithm tiles are given (templates/cuda/tiles): the contract with the host.
//
// The points are sorted once so that neighbours lie together, and copied into tiles of TILES_POINTS.
// TILES_OF_SUPER tiles are a supertile. Each has a box. A centroid that is nearest nowhere in a box is no
// candidate there. Where one candidate is left, its cluster takes the sums of the whole box; else the tiles
// of the supertile are tested, or the points of the tile scored.
//
// Sums are integers, multiples of a power of two for each feature (`scale`), so that they are the same in any
// order. Those of tiles stand as prefix sums: of adjacent tiles with one owner two rows are read.
#ifndef KM_TILES_CUDA_H
#define KM_TILES_CUDA_H

enum {
    TILES_POINTS = 128,     // of a tile: four of each lane of a warp
    TILES_OF_SUPER = 32,    // tiles of a supertile, one for each lane
    TILES_GROUP_SUPERS = 4, // supertiles that a warp tests at a time, a lane for each of them and of eight K
    TILES_CELLS = 1024,     // a feature's range is cut into so many cells, which say what its quantile is
    TILES_CODED_MAX = 8,  // features that the order of points depends on, at most: those of the widest spread
    TILES_DIGIT_BITS = 8, // of a digit by which points are sorted
    TILES_SORTED = 4096,  // points that a block sorts at a time
    TILES_SCANNED = 4096, // counts that a block adds up at a time
    TILES_THREADS = 256   // of a block; those of a pass have a multiple
};

// A row of prefix sums: D sums and the number of points, padded to pairs.
#define TILES_PITCH(d) (((d) + 2) / 2 * 2)
// Threads of a multiprocessor that test boxes, and that score points, as many as have the registers: one block, so that
// few blocks add their sums to those of all.
#define TILES_BOXES_THREADS(d) (TILES_THREADS * ((d) <= 8 ? 4 : 2))
#define TILES_POINTS_THREADS(d) (TILES_THREADS * ((d) <= 2 ? 4 : (d) <= 4 ? 3 : (d) <= 8 ? 2 : 1))
// A box: its midpoint, its half widths, the largest squared norm that a point of it may have.
#define TILES_BOX(d) (2 * (d) + 1)

// Features that a point's place in the order depends on, those of the widest spread, and bits of each.
#define TILES_CODED(d) ((d) < TILES_CODED_MAX ? (d) : TILES_CODED_MAX)
#define TILES_CODE_BITS(d) ((d) <= 2 ? 10 : (d) <= 4 ? 24 / (d) : 32 / TILES_CODED(d))

// How it follows from them.
typedef struct km_tiles_code {
    int order[TILES_CODED_MAX];
    float low[TILES_CODED_MAX],
        scale[TILES_CODED_MAX]; // the cell is (x - low) scale, within 0 .. TILES_CELLS - 1
    unsigned short buckets[TILES_CODED_MAX][TILES_CELLS];
} km_tiles_code;

// What is counted of each slot, over all passes: supertiles that were tested; of them those that stayed open,
// and their candidates; tiles that stayed open, and theirs.
enum {
    TILES_TESTED, // supertiles
    TILES_OPEN_SUPERS,
    TILES_SUPER_CANDIDATES,
    TILES_OPEN_TILES,
    TILES_TILE_CANDIDATES,
    TILES_DENSE, // passes that the dense design made of the slot
    TILES_COUNTS
};

// A supertile that is open for a K, and its candidates.
typedef struct km_tiles_item {
    unsigned long long candidates;
    int super, q;
} km_tiles_item;

typedef struct km_tiles_args {
    const km_control *control;
    long long n, tiles, supers;
    const float *points; // [tiles][d][TILES_POINTS], zeros behind the last point
    const float
        *boxes; // [supers][TILES_BOX(d)][TILES_OF_SUPER]: of the tiles; those behind the last are empty
    const float *super_boxes;    // [groups][TILES_BOX(d)][TILES_GROUP_SUPERS]
    const long long *prefix;     // [tiles + 1][TILES_PITCH(d)]
    const double *scale;         // d: an integer of a sum is a coordinate times scale, a power of two
    const float *centroids;      // [restarts][rows][d]
    const unsigned char *active; // [restarts][ks_count]: 1: takes part in this pass
    unsigned char *dense;        // [restarts][ks_count]: 1: takes part, and its K is not served
    const int *ks, *offsets;     // of the list of K: clusters, and the first row of each
    int ks_count, rows;          // rows of one restart
    unsigned long long served;   // a bit for each K: passes are by tiles; else the dense design's
    int sampled; // 0: a pass. Else boxes of one group of supertiles in so many are counted, and no sums made
    unsigned long long *sums; // [restarts][rows][d + 1]: integers; zero before each pass
    double *totals;           // [restarts][rows][d + 1]
    int *items_count;         // [restarts]: open supertiles; zero before each pass
    km_tiles_item *items;     // [restarts][supers * ks_count]
    int *listed;              // [restarts]: open tiles; zero before each pass
    int *list;                // [restarts][tiles]
    unsigned long long
        *open;        // [restarts][tiles]: a bit for each K that the tile is open for; zero before each pass
    void *candidates; // [restarts][tiles][ks_count] tiles_mask: a bit for each centroid
    unsigned long long *counts; // [restarts][ks_count][TILES_COUNTS]; added to
} km_tiles_args;

#endif

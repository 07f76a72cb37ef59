// SPDX-License-Identifier: MIT
// What the kernels of the algorithms hamerly and elkan are given (templates/cuda/bounds): the contract with the host.
//
// A point has an upper bound of the distance to its own centroid and a lower bound of that to any other. They are not
// updated pass by pass: they are kept as they would stand if no centroid had moved since the run has bounds, and
// compared with how far centroids have gone since. For centroid j, path is the length of its way, and others the sum
// over passes of the longest move of another centroid that counts.
//
//     upper = u - path                  u: distance to the point's own centroid, at most
//     slack = l - u + path + others     l: distance to any other, at least
//
// A label stands while slack > path + others, or while upper + path is less than half the distance from its centroid
// to the nearest other. Of a point that this leaves open the distance to its own centroid is computed; if the label
// is still open, the point is listed behind those with the same label. Listed points are compared with candidates only:
// the centroids that are less than twice as far from their own as the farthest listed point of the label is.
//
// Elkan has a lower bound of the distance to each centroid, too, kept as l + path. Listed points are compared with
// those candidates alone that it leaves open for some point of a tile.
//
// Sums are integers, multiples of a power of two for each feature (`scale`), so that they are the same in any order. A
// point that changes its label moves from one sum to the other.
#ifndef KM_BOUNDS_CUDA_H
#define KM_BOUNDS_CUDA_H

enum {
    BOUNDS_CLUSTERS_MAX = 4096,
    BOUNDS_TILE = 32,         // points with the same label, a warp's
    BOUNDS_PAIRS = 64,        // centroids on each side of a block of pairs
    BOUNDS_RADIUS_PASSES = 8, // every so many passes the radius is taken from all points
    BOUNDS_THREADS = 256,     // of a block, but for:
    BOUNDS_ROW_THREADS = 128, // the kernels that go through a centroid's pairs
    BOUNDS_OFFSETS_THREADS = 1024
};
// Warps of a block that scores points, as many as have their points in 48 KiB.
#define BOUNDS_PITCH(d) (((((d) + 15) / 16) | 1) * 16)
#define BOUNDS_WARP_BYTES(d) (BOUNDS_TILE * BOUNDS_PITCH(d) * 2 + ((d) + 15) / 16 * 16 * 8 + 96)
#define BOUNDS_SCORE_WARPS(d) (BOUNDS_WARP_BYTES(d) <= 12000 ? 4 : BOUNDS_WARP_BYTES(d) <= 24000 ? 2 : 1)
// Pairs of a centroid in memory.
#define BOUNDS_ROW(k) (((k) + 7) / 8 * 8)
// Integers of a cluster: a coordinate's sum, and what its first integer rounds off; and the points.
#define BOUNDS_SUMS(d) (2 * (d) + 1)

// Of a slot.
enum {
    BOUNDS_DENSE, // its next pass is the dense design's, which finds labels
    BOUNDS_NEW,   // it has labels; all points are listed
    BOUNDS_KEPT   // it has bounds
};

// What is counted of a slot, over all passes.
enum {
    BOUNDS_PASSES,   // by the dense design
    BOUNDS_SKIPPING, // by bounds
    BOUNDS_OWN,      // points whose own distance was computed
    BOUNDS_LISTED,   // points whose label that left open
    BOUNDS_OPEN,     // of these, points that were compared with candidates: all but of elkan
    BOUNDS_COMPARED, // distances to candidates
    BOUNDS_RESOLVED, // points that were decided in double
    BOUNDS_CHANGED,  // labels
    BOUNDS_COUNTS
};

// Of a centroid.
typedef struct km_bounds_centroid {
    double path, others; // since the run has bounds
    float drift;         // in this pass, at least
    float expiry;        // path + others, at least
    float credit;        // the same, at most
    float path_least;    // path, at most
    float gap;           // half the distance to the nearest other centroid, at most
    float inner;         // gap - path, at most
    float lower_less;    // others and what rounding may add to a lower bound, at least
    float outer;         // half the distance to the nearest centroid that is no candidate, at most
    int radius;          // bounds_key: the largest `upper` of its points, at least
    int farthest;        // bits of a float: the largest distance of a listed point, at least
    int listed;          // points
    int start;           // of them in `sorted`
    int candidates;
} km_bounds_centroid;

typedef struct km_bounds_entry {
    int point, rank;
} km_bounds_entry;

// Of a slot.
typedef struct km_bounds_slot {
    int mode;
    int passes;                             // since it has bounds
    int listed, tiles, ambiguous, reserved; // in this pass: points, tiles of them, those that are resolved
    unsigned long long compared;            // distances to candidates, likewise
} km_bounds_slot;

typedef struct km_bounds_args {
    const km_control *control;
    long long n, stride;           // stride: of labels
    const void *points;            // n x d
    const void *centroids;         // [restarts][rows][d]
    const unsigned char *active;   // per slot
    const km_slot_record *records; // likewise
    unsigned char *dense;          // per slot: 1: takes part, by the dense design
    const int *ks, *offsets;       // of the list of K: clusters, and the first row of each
    const long long *pairs_at;     // where the pairs of each K begin; behind the last: how many a restart has
    int ks_count, rows;            // rows of one restart
    int slots_count;
    int rests;           // 1: the dense design has had all runs in this pass
    const double *scale; // d: an integer of a sum is a coordinate times scale, a power of two
    double rest;         // what rounding to that leaves is kept as an integer, too, times this
    void *before;        // [restarts][rows][d]: where centroids were in the pass before
    km_bounds_slot *slots;
    km_bounds_centroid *table;  // [restarts][rows]
    float *pairs;               // half the distances between centroids, at most
    unsigned short *candidates; // in the place of pairs
    void *labels;               // [slots][stride]
    float *upper, *slack;       // [slots][n]
    unsigned short
        *lower;       // elkan: [restarts][rows][n] halves, of a slot [n][k]: lower bounds, times lower_unit
    float lower_unit; // a power of two
    km_bounds_entry *list; // [slots][n]
    int *sorted;           // [slots][sorted_stride]: listed points, whole tiles of each label
    long long sorted_stride;
    unsigned short *tile_labels; // [slots][sorted_stride / BOUNDS_TILE]
    int *ambiguous;              // [slots][n]: listed points that are resolved
    long long *sums;             // [restarts][rows][BOUNDS_SUMS]
    double *totals;              // [restarts][rows][d + 1]
    unsigned long long *changes; // per slot
    unsigned long long *counts;  // [slots][BOUNDS_COUNTS]; added to
} km_bounds_args;

#endif

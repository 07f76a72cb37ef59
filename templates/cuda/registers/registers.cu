// SPDX-License-Identifier: MIT
//@ need points_per_thread block grid split run vector blocks_per_sm columns totals warp_sums parts
//@ need lanes_per_point own flush flushed counted ring crew stages turn const_planes
//@ words cuda/words.cu
//@ include cuda/head.h
//@ use unroll_for unroll_1_for

// The pass, design `registers`. A thread has a few points and the sums of all clusters in registers and walks over
// the data; everything about the K list is unrolled, so that the loop is one straight line.
//
// A score is taken against one centroid of the same K, the pivot p:
//     score_j = x . (c_j - c_p) - (|c_j|^2 - |c_p|^2) / 2,        score_p = 0.
// The centroid with the largest score is the nearest. That is K - 1 scores for K centroids, and the pivot's sums need
// no adding: they are the sums over all points, made once when the points are loaded, less those of the others.
//
//@ if teamed
// TEAM lanes share a point: each has OWN of its features and their sums. Scores are added up over the team, so that
// all its lanes choose alike.
//
//@ end
//@ if crew
// The K list is shared out over SPLIT groups of warps, which have the same points.
//
//@ end
//@ if ring
// Points come through shared memory: while a warp works on a tile of points, its next tile is on the way.
//
//@ end
//@ if flushed
// A thread adds the points of FLUSH tiles at most; then its warp's lanes are added up and join doubles, so that
// accuracy does not depend on the number of points.
//
//@ end
// The last tile is filled up with points at zero; what they add to the counts is taken away in the end.
//
// At the end the warps of a block are added up, and each block leaves one number for each sum; km_reduce adds the
// blocks. Both go in a fixed order, without atomics: the same bits every time.
//
// A slot is one K of one restart in flight. One that has nothing to do in a pass is not active, and skipped.
//
// To read it from the top: km_registers_0, at the end, is the kernel; km_walk its loop over tiles; km_assign what
// is done with the points of a tile.
enum {
    BLOCK = $block, // threads of a block
    GRID = $grid,   // blocks that share the points (blockIdx.x), for each restart in flight (blockIdx.y)
    POINTS = $points_per_thread, // points that a thread works on at a time
    //@ if crew
    SPLIT = $split,          // warp groups of a block; each has its own share of the K list
    THREADS = BLOCK / SPLIT, // threads of a warp group
    WARPS = THREADS / 32,    // warps of a warp group
    //@ else
    WARPS = BLOCK / 32, // warps of a block
    //@ end
    //@ if teamed
    TEAM = $lanes_per_point, // lanes that share a point
    OWN = $own,              // features that a lane has of it
    //@ end
    //@ if side_by_side
    RUN = $run, // points of a thread that lie side by side in memory
    //@ end
    VECTOR = $vector,           // numbers of one 16-byte load
    WARP_POINTS = $warp_points, // points that a warp works on at a time
    TILE = WARPS * WARP_POINTS, // points that a block works on at a time
    //@ if flushed
    FLUSH = $flush, // tiles of a block after which sums join the doubles, a power of two
    //@ end
    LOADS = $loads, // loads of a thread from a tile
    //@ if located
    LOAD_POINTS = $load_points, // points of a warp in one load
    //@ end
    //@ if ring
    STAGES = $stages, // tiles of a warp in shared memory: one that is worked on, the others on their way
    PIECES = $pieces, // 16-byte pieces of a load of one thread, a row
    //@ if turned
    TURN = $turn, // rows are turned about by so many pieces, so that lanes meet in no bank
    //@ end
    //@ end
    PLANES = $planes,          // one for each centroid but the pivots
    COLUMNS = $columns,        // sums of a block
    TOTALS = $totals,          // the first of those over all points, which never change
    CLUSTER = $cluster_sums,   // sums of one cluster, and its weight
    WARP_SUMS = $warp_sums,    // sums of a warp, at most
    GATHERED = $gathered,      // sums of a lane that are added up over the warp at a time
    REDUCE = 1024,             // threads of a block of km_reduce
    COARSE_BITS = $coarse_bits // bits of a coordinate such that scores come out exact
};

//@ include cuda/registers/memory.cu

//@ if ring
//@ include cuda/registers/ring.cu
//@ else
//@ include cuda/registers/loads.cu
//@ end

//@ if several
//@ include cuda/registers/assign_$type.cu

//@ if track_labels
//@ include cuda/registers/$labels_written.cu

//@ end
//@ end
//@ include cuda/registers/add_lanes.cu

//@ for part in parts
//@ for group in part_groups
//@ include cuda/registers/group.cu

//@ end
//@ end
//@ include cuda/registers/walk.cu

//@ include cuda/registers/planes.cu

//@ include cuda/registers/totals.cu

// Of each restart in flight: numbers of each block, and the table.
constexpr long long WORKSPACE_BYTES = RESTARTS * (8ll * COLUMNS * GRID + (long long)sizeof(km_table));

extern "C" {
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, $launches_all, WORKSPACE_BYTES, 0, $const_planes};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_all", KM_STAGE_LOAD, GRID, RESTARTS, 256, 0, 0},
    {"km_planes", KM_STAGE_BEGIN, KS, RESTARTS, 32, 0, 0},
    //@ for part in parts
    {"km_registers_$part", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block), $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, KS, RESTARTS, REDUCE, 0, 0},
};
}
//@ include cuda/steps/steps.cu

// SPDX-License-Identifier: MIT
//@ need points_per_thread block grid split adjacent vector blocks_per_sm columns all_points warp_sums parts
//@ need lanes_per_point lane_d lane_points float_sums integer_counts ring warp_groups stages swizzle form_constant
//@ words cuda/words.cu
//@ include cuda/head.h
//@ use unroll_for unroll_1_for

// The pass, design `registers`. A thread has a few points and the sums of all clusters in registers. Its warp goes
// through the data tile by tile. Loops over the K list are unrolled, so that the work on a tile is one straight line of
// code.
//
// A score is taken against one centroid of the same K, the pivot p:
//     score_j = x . (c_j - c_p) - (|c_j|^2 - |c_p|^2) / 2,        score_p = 0.
// The centroid with the largest score is the nearest. So K centroids take K - 1 scores. Nothing is added to the pivot's
// sums either: they are the sums over all points, made once when the points are loaded, less those of the others.
//
//@ if lanes_share_point
// LANES_PER_POINT lanes share a point: each has LANE_D of its features and their sums. A score is the sum over these
// lanes, so that all of them find the same nearest centroid.
//
//@ end
//@ if warp_groups
// The K list is split over SPLIT warp groups of a block, which work on the same points.
//
//@ end
//@ if ring
// Points come through shared memory: while a warp works on a tile of points, its next tile is being copied.
//
//@ end
// A warp takes spans of points, one at a time. Where they begin follows from the number of points alone, and a lane
// adds its points of a span in their order, so that a span's sums have the same bits whichever warp has it. Behind each
// span they become integers, which are added in any order: those of a block's warps, then in km_reduce those of all
// blocks.
//
// The last tile is padded with points at zero. What they add to the counts is subtracted in the end.
//
// A slot is one K of one restart. A slot that is not active has nothing to do in a pass, and is skipped.
//
// To read it from the top: km_registers_0, at the end, is the kernel; km_process_spans is its loop over tiles;
// km_assign finds the nearest centroids of a tile's points, and adds the points to their sums.
enum {
    BLOCK = $block,              // threads of a block
    GRID = $grid,                // blocks that share the points (blockIdx.x), for each restart (blockIdx.y)
    POINTS = $points_per_thread, // points that a thread works on at a time
    //@ if warp_groups
    SPLIT = $split,          // warp groups of a block; each has its own part of the K list
    THREADS = BLOCK / SPLIT, // threads of a warp group
    WARPS = THREADS / 32,    // warps of a warp group
    //@ else
    WARPS = BLOCK / 32, // warps of a block
    //@ end
    //@ if lanes_share_point
    LANES_PER_POINT = $lanes_per_point, // lanes that share a point
    LANE_D = $lane_d,                   // features of it that a lane has
    //@ end
    //@ if adjacent_points
    ADJACENT = $adjacent, // points of a thread that are adjacent in memory
    //@ end
    VECTOR = $vector,                   // numbers of one 16-byte load
    TILE = $warp_points,                // points that a warp works on at a time
    SPAN_POINTS = 32 * $lane_points,    // the shortest span has so many points
    SPANS = 5461,                       // from twice as many of the shortest on there are longer ones
    LONGEST_SPAN = 65536 / SPAN_POINTS, // times as long as the shortest: for the accuracy of a lane's sums
    LOADS = $loads,                     // loads of a thread from a tile
    //@ if needs_load_points
    LOAD_POINTS = $load_points, // points of a warp in one load
    //@ end
    //@ if ring
    STAGES = $stages, // tiles of a warp in shared memory: one that is worked on, others that are being copied
    PIECES = $pieces, // 16-byte pieces that one thread loads: a row of shared memory
    //@ if swizzled
    SWIZZLE = $swizzle, // XOR swizzle of a row over so many pieces, against bank conflicts
    //@ end
    //@ end
    COEFFICIENTS = $coefficients, // of scores: for each centroid but the pivots
    COLUMNS = $columns,           // sums of a block
    ALL_POINTS = $all_points,     // the first column of the sums over all points, which never change
    CLUSTER_SUMS = $cluster_sums, // sums of one cluster, and its weight
    WARP_SUMS = $warp_sums,       // sums of a warp, at most
    GATHERED = $gathered,         // sums of each lane that are added over the warp at a time
    GATHERED_ROW = $gathered_row, // a row of them in shared memory: no bank conflicts
    REDUCE = 1024,                // threads of a block of km_reduce
    EXACT_BITS = $exact_bits      // coordinates of so many bits have exact scores
};

//@ include cuda/registers/memory.cu

// ==== What the launches of a pass share
// Compiled apart: pass/launches
//@ if ring
//@ include cuda/registers/ring.cu
//@ else
//@ include cuda/registers/loads.cu
//@ end

//@ if has_scores
//@ include cuda/registers/assign_$type.cu

//@ if track_labels
//@ include cuda/registers/$labels_written.cu

//@ end
//@ end
//@ include cuda/registers/add_lanes.cu

//@ for part in parts
// ==== Launch $part: the work on a tile
// Compiled apart: pass/launches/$part_apart
//@ for group in part_groups
//@ include cuda/registers/group.cu

//@ end
//@ end
// ==== The loop over tiles
// Compiled apart: pass/launches
//@ include cuda/registers/process.cu

// ==== Coefficients, and the totals of a pass
// Compiled apart: pass/rest
//@ include cuda/registers/coefficients.cu

//@ include cuda/registers/totals.cu

// The units; of each restart: the sums of each block, and the table.
constexpr long long WORKSPACE_BYTES =
    (long long)sizeof(km_units) + RESTARTS * (16ll * COLUMNS * GRID + (long long)sizeof(km_table));

extern "C" {
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, $launches_count, WORKSPACE_BYTES, 0, $form_constant};
__device__ km_pass_launch km_pass_launches[] = {
    //@ if weighted
    {"km_weigh_points", KM_STAGE_LOAD, GRID, 1, 256, 0, 0},
    //@ end
    {"km_sum_points", KM_STAGE_LOAD, GRID, RESTARTS, 256, 0, 0},
    {"km_prepare_coefficients", KM_STAGE_BEGIN, KS, RESTARTS, 32, 0, 0},
    //@ for part in parts
    {"km_registers_$part", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block), $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, KS, RESTARTS, REDUCE, 0, 0},
};
}
//@ include cuda/steps/steps.cu

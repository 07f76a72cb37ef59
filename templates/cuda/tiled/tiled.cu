// SPDX-License-Identifier: MIT
//@ need tile pad groups tile_features chunks piece fp16 few labels_grid labels sums sorted products
//@ words cuda/words.cu
//@ include cuda/head.h
//@ use unroll_for warp_sum

// The pass, design `tiled`: any d, any K, any type. Labels first, then sums.
//
// Labels. A point and a centroid have the score
//     x . c - |c|^2 / 2,
// and the centroid with the largest score is the nearest. Scores are products of matrices (the points, and the table of
// all centroids); for each point the best two of a slot are kept.
//@ if fp16
// They are made of numbers in half precision.
//@ end
// Where the two are closer than rounding may account for, the point is ambiguous: it is listed for its slot, and
// km_tiled_resolve decides it by distances in double. Ties go to the lowest index.
//
//@ if sorted
// Sums. The points of a slot are put in the order of their labels; segments of that order are added up.
//@ else
//@ if products
// Sums. They are products of matrices in double, too: rows that are 1 where a point has the label, times the points.
//@ else
// Sums. A block adds the points of a range to rows in shared memory; the blocks' rows are added in their order.
//@ end
//@ end
//
// The table holds the centroids of all slots, those of a slot padded to whole groups of PAD rows; a tile is TILE rows
// of it.
enum {
    PAD = $pad,       // rows of a group, all of one slot: a tile, or 1
    GROUPS = $groups, // groups of one restart
    TILE = $tile,     // rows of a tile
    TILE_GROUPS = TILE / PAD,
    TILES = (RESTARTS * GROUPS + TILE_GROUPS - 1) / TILE_GROUPS,
    FEATURES = $tile_features, // features worked on at a time
    CHUNKS = $chunks,          // of so many features
    WIDTH = FEATURES * CHUNKS, // d, padded
    PIECE = $piece,            // bytes that are copied at a time from a point: 16, or what divides a row
    LABELS_GRID = $labels_grid // blocks that make labels
};

// The first group of each K.
__constant__ const int km_groups[KS] = {
    //@ for k in ks
    $k_group,
    //@ end
};

//@ include cuda/tiled/workspace.cu

//@ include cuda/tiled/precision.cu

//@ include cuda/tiled/prepare.cu

//@ include cuda/tiled/labels_$labels.cu

//@ if track_labels
//@ include cuda/tiled/labels_kept.cu

//@ end
//@ include cuda/tiled/sums_$sums.cu

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tiled_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_tiled_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(km_block), 0},
    //@ if few
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, 256, 0, 0},
    //@ else
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, BLOCK, sizeof(km_block), 0},
    //@ end
    //@ if track_labels
    {"km_tiled_track", KM_STAGE_PASS, LABELS_GRID, RESTARTS *KS, 256, 0, 0},
    //@ end
    //@ if sorted
    //@ for pass in sort_passes
    {"km_tiled_count", KM_STAGE_PASS, RANGES, RESTARTS *KS, DIGITS, 0, $pass},
    {"km_tiled_order", KM_STAGE_PASS, RANGES, RESTARTS *KS, DIGITS, 0, $pass},
    //@ end
    {"km_tiled_segments", KM_STAGE_PASS, (SEGMENTS * LANES + 127) / 128 * PARTS, RESTARTS *KS, 128, 0, 0},
    {"km_tiled_totals", KM_STAGE_PASS, K_MAX, RESTARTS *KS, 128, 0, 0},
    //@ else
    //@ if products
    {"km_tiled_sums", KM_STAGE_PASS, (RANGES * SUM_GROUPS + SUM_WARPS - 1) / SUM_WARPS, TILES, SUM_WARPS * 32,
     0, 0},
    //@ else
    {"km_tiled_sums", KM_STAGE_PASS, RANGES, PARTS *SLOT_GROUPS, SUM_WARPS * 32, sizeof(km_range_sums), 0},
    //@ end
    {"km_tiled_reduce", KM_STAGE_PASS, (RESTARTS * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
    //@ end
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}
//@ include cuda/steps/steps.cu

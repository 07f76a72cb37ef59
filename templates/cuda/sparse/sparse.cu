// SPDX-License-Identifier: MIT
//@ need staged round_pairs row_lanes lane_columns panels table_shared sums_shared block grid index_type
//@ need table_pitch blocks_per_sm
//@ words cuda/words.cu
//@ include cuda/head.h
//@ verbatim cuda/sparse/points.h
//@ use unroll_for warp_sum

// The pass, design `sparse_warps`: points in the layout CSR, any d, any K, any type.
//
// Labels. The score of a point and a centroid is
//     x . c - |c|^2 / 2,
// a sum over the nonzeros of x, and the centroid with the largest score is the nearest. The centroids of all slots are
// the columns of a table that has a row for each feature: a nonzero meets all of them side by side. ROW_LANES lanes
// have a point, each of them LANE_COLUMNS columns; so a warp works on ROWS_AT_ONCE points at a time.
//@ if not float64
// For each point and slot the best two scores are kept. Where they are closer than the error of a score, the point is
// ambiguous, and its warp decides again by scores in double. Ties go to the lowest index.
//@ else
// Ties go to the lowest index.
//@ end
//
// Sums. Values are multiples of a small power of two for each feature, so sums are integers, which are the same in any
// order. A point joins the sums of its cluster when its label changes, and leaves those of the cluster before: sums and
// labels stay from pass to pass, whatever the centroids become.
enum {
    BLOCK = $block,
    WARPS = BLOCK / 32,
    GRID = $grid,
    BLOCKS_PER_SM = $blocks_per_sm,
    TILE = 32,                    // points of a warp at a time, a lane for each where labels are decided
    ROW_LANES = $row_lanes,       // lanes that share a point where scores are added
    LANE_COLUMNS = $lane_columns, // columns that each of them has
    ROWS_AT_ONCE = 32 / ROW_LANES,
    PANEL = ROW_LANES * LANE_COLUMNS, // columns at a time
    PANELS = $panels,
    COLUMNS = RESTARTS * S, // in use: slot by slot, as args.centroids
    PITCH = $table_pitch, // numbers of a row of a panel's table; some panels are there twice, for other banks
    INTEGERS = sizeof(km_real) / 4, // integers of a sum
    SLOTS = RESTARTS * KS
};

//@ include cuda/sparse/workspace.cu

//@ include cuda/sparse/prepare.cu

//@ include cuda/sparse/scores.cu

//@ include cuda/sparse/sums.cu

//@ include cuda/sparse/labels.cu

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    //@ if weighted
    {"km_sparse_weights", KM_STAGE_LOAD, 512, 1, 256, 0, 0},
    //@ end
    {"km_sparse_scales", KM_STAGE_LOAD, (unsigned)((D + 256ll) / 256), 1, 256, 0, 0},
    {"km_sparse_columns", KM_STAGE_PASS, (unsigned)((D + 31ll) / 32), (PANELS * PANEL + 31) / 32, 256, 0, 0},
    {"km_sparse_halves", KM_STAGE_PASS, COLUMNS, 1, 256, 0, 0},
    {"km_sparse_labels", KM_STAGE_PASS, GRID, 1, BLOCK, SHARED_BYTES, 0},
    {"km_sparse_totals", KM_STAGE_PASS, (unsigned)((COLUMNS * (D + 1ll) + 255) / 256), 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION,
                                    sizeof km_pass_launches / sizeof *km_pass_launches,
                                    WORKSPACE_BYTES,
                                    WORKSPACE_POINT_BYTES,
                                    0,
                                    WORKSPACE_ZERO_BYTES};
}
//@ include cuda/sparse/steps.cu

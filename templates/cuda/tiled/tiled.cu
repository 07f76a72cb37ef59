// SPDX-License-Identifier: MIT
//@ need tile panel_rows panels tile_features slices piece fp16 resident_centroids labels_grid labels form_points
//@ need sums sums_sorted sums_products sums_integers has_table has_lists
//@ words cuda/words.cu
//@ include cuda/head.h
//@ use unroll_for

// The pass, design `tiled`: any d, any K, any type. Labels first, then sums.
//
// Labels. The score of a point and a centroid is
//     x . c - |c|^2 / 2,
// and the centroid with the largest score is the nearest.
//@ if form_points
// Each thread has some points, and computes their scores one centroid after the other. Where the best two scores are
// closer than their error, the point is ambiguous: its warp finds its nearest centroid by distances in double. Ties go
// to the lowest index.
//@ else
// Scores are products of two matrices: the points, and the table of all centroids. For each point and slot the best two
// scores are kept.
//@ if fp16
// Both matrices are rounded to half precision.
//@ end
// Where the two are closer than the error of a score, the point is ambiguous: it goes to a list of the slot, and
// km_tiled_resolve finds its nearest centroid by distances in double. Ties go to the lowest index.
//@ end
//
//@ if sums_sorted
// Sums. The points of a slot are sorted by label, and segments of that order are added in registers.
//@ else
//@ if sums_integers
// Sums. A block adds a span of points as integers to rows in shared memory, and these to rows in global memory.
//@ else
//@ if sums_products
// Sums. They are matrix products of doubles, too: rows that are 1 where a point has the label, times the points.
//@ else
// Sums. A block adds the points of a chunk to rows in shared memory. Then the chunks' rows are added in their order.
//@ end
//@ end
//@ end
//@ if form_points
enum {
    PIECE_BYTES =
        $piece, // bytes that are read at a time from a point: 16, or less where that does not divide a row
    LABELS_GRID = $labels_grid // blocks of km_tiled_labels for each slot
};
//@ else
//
// The table holds the centroids of all slots, those of a slot padded to whole panels of PANEL_ROWS rows. A tile is TILE
// rows of it.
enum {
    PANEL_ROWS = $panel_rows, // rows of a panel, all of one slot: a tile, or 1
    PANELS = $panels,         // panels of one restart
    TILE = $tile,             // rows of a tile
    TILE_PANELS = TILE / PANEL_ROWS,
    TILES = (RESTARTS * PANELS + TILE_PANELS - 1) / TILE_PANELS,
    TILE_FEATURES = $tile_features,    // features that are multiplied at a time: a slice
    SLICES = $slices,                  // of so many features each
    PADDED_D = TILE_FEATURES * SLICES, // D, padded to whole slices
    PIECE_BYTES =
        $piece, // bytes that are copied at a time from a point: 16, or less where that does not divide a row
    LABELS_GRID = $labels_grid // blocks of km_tiled_labels
};

// The first panel of each K.
__constant__ const int km_first_panels[KS] = {
    //@ for k in ks
    $k_panel,
    //@ end
};
//@ end

//@ include cuda/tiled/workspace.cu

//@ if has_table
//@ include cuda/tiled/precision.cu

//@ include cuda/tiled/prepare.cu

//@ end
//@ include cuda/tiled/labels_$labels.cu

//@ if track_labels
//@ include cuda/tiled/labels_tracked.cu

//@ end
//@ include cuda/tiled/sums_$sums.cu

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    //@ if form_points
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, RESTARTS *KS, BLOCK, sizeof(km_block), 0},
    //@ else
    {"km_tiled_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_tiled_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(km_block), 0},
    //@ if resident_centroids
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, 256, 0, 0},
    //@ else
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, BLOCK, sizeof(km_block), 0},
    //@ end
    //@ end
    //@ if track_labels
    {"km_tiled_track", KM_STAGE_PASS, LABELS_GRID, RESTARTS *KS, 256, 0, 0},
    //@ end
    //@ if sums_sorted
    //@ for pass in sort_passes
    {"km_tiled_count", KM_STAGE_PASS, CHUNKS, RESTARTS *KS, DIGITS, 0, $pass},
    {"km_tiled_order", KM_STAGE_PASS, CHUNKS, RESTARTS *KS, DIGITS, 0, $pass},
    //@ end
    {"km_tiled_segments", KM_STAGE_PASS, (SEGMENTS * LANES_PER_POINT + 127) / 128 * FEATURE_PARTS,
     RESTARTS *KS, 128, 0, 0},
    {"km_tiled_totals", KM_STAGE_PASS, K_MAX, RESTARTS *KS, 128, 0, 0},
    //@ else
    //@ if sums_integers
    {"km_tiled_sums", KM_STAGE_PASS, CHUNKS, RESTARTS *KS, SUM_BLOCK, K_MAX *ROW_WORDS * 4, 0},
    {"km_tiled_totals", KM_STAGE_PASS, (RESTARTS * S * (D + 1) + 255) / 256, 1, 256, 0, 0},
    //@ else
    //@ if sums_products
    {"km_tiled_sums", KM_STAGE_PASS, (CHUNKS * SUM_FEATURE_WARPS + SUM_WARPS - 1) / SUM_WARPS, TILES,
     SUM_WARPS * 32, 0, 0},
    //@ else
    {"km_tiled_sums", KM_STAGE_PASS, CHUNKS, FEATURE_PARTS *SLOT_BLOCKS, SUM_WARPS * 32,
     sizeof(km_chunk_sums), 0},
    //@ end
    {"km_tiled_reduce", KM_STAGE_PASS, (RESTARTS * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
    //@ end
    //@ end
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}
//@ include cuda/steps/steps.cu

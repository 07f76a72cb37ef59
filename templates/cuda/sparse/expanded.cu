// SPDX-License-Identifier: MIT
//@ need steps_at_once panels fragment_tiles block grid blocks_per_sm index_type code_bits
//@ words cuda/words.cu
//@ include cuda/head.h
//@ verbatim cuda/sparse/points.h
//@ use unroll_for unroll_1_for warp_sum warp_max halves low_half mma_f16 ldmatrix_x4 shared_address
//@ if sums_anew
//@ use prmt_by mma_s8 mma_s8_u8
//@ end

// The pass, design `sparse_warps`, form `expanded`: points in the layout CSR, up to a few hundred features, float32.
//
// Labels. A warp writes the nonzeros of 32 points, rounded to halves, into a tile of zeros in shared memory: the points
// with their zeros. The scores of a slot are products of this tile and the slot's centroids, also in halves,
//     x . (c - p) - (|c|^2 - |p|^2) / 2,   p the mean of the slot's centroids,
// scaled by a power of two; the constant is three halves that meet columns of 1, 2^-11 and 2^-22. A bound on all that
// rounding may hide grows with |x| and with the length of what rounding took from x. A point whose best two scores lie
// within it is ambiguous: it waits in a queue with its candidates, the centroids that may be the nearest one, and is
// decided again by their scores in double over its nonzeros in their order, a lane each. Ties go to the lowest index.
//
// Sums. Values are multiples of a power of two for each feature, so sums are integers, which are the same in any order.
// A point joins the sums of its cluster when its label changes, and leaves those of the cluster before: sums and labels
// stay from pass to pass. A block's are 64 bits in shared memory: an addition to the lower half says by what was there
// whether it carries.
enum {
    BLOCK = $block,
    WARPS = BLOCK / 32,
    GRID = $grid,
    BLOCKS_PER_SM = $blocks_per_sm,
    TILE = 32, // points of a warp at a time
    COLUMNS = RESTARTS * S,
    INTEGERS = 1, // of a sum
    SLOTS = RESTARTS * KS,
    STEPS = (D + 3 + 15) / 16, // products: 16 features each, at the end three columns for constants
    STEPS_AT_ONCE = $steps_at_once,
    EIGHT_BYTES = TILE * 16, // of a tile: 8 features of each point
    TILE_BYTES = 2 * STEPS * EIGHT_BYTES,
    FRAGMENT_TILES = $fragment_tiles, // of a restart's centroids: 8 columns of products each
    CODE_BITS = $code_bits,           // of an index in a slot, in place of a score's last bits
    QUEUE = 64,                       // ambiguous points of a warp that wait; and moves
    //@ if sums_anew
    ANEW_CHANGES = $anew_changes, // of 1,024 points' labels: from there on sums are made anew (masks.cu)
    //@ end
    POINT_ENTRIES = WEIGHTED ? 0 : 1 // a point's weight is an entry, unless weights need more than 31 bits
};
static_assert(int(D) <= int(KM_SPARSE_LONG), "a row may be too long for a warp");
constexpr unsigned ALL = 0xffffffffu, CODE = (1u << CODE_BITS) - 1;
constexpr int LARGE = -2147483647 - 1; // a number with more than 31 bits

// The K of an index of the K list, and the lanes' columns that it takes: four lanes share a slot.
__host__ __device__ constexpr int km_k_at(int index) {
    int k = 0;
    //@ for k in ks
    k = index == $k_index ? $k : k;
    //@ end
    return k;
}

__host__ __device__ constexpr int km_lane_columns(int index) {
    return (km_k_at(index) + 3) / 4;
}

// Where these begin, of all of a restart: panels begin where products do.
__constant__ const short km_first_lane_column[KS] = {
    //@ for k in ks
    $k_lane_column,
    //@ end
};

//@ include cuda/sparse/workspace.cu

//@ include cuda/sparse/prepare.cu

//@ include cuda/sparse/entries.cu

//@ include cuda/sparse/fragments.cu

//@ include cuda/sparse/sums.cu

//@ include cuda/sparse/products.cu

//@ include cuda/sparse/masks.cu

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    //@ if weighted
    {"km_sparse_weights", KM_STAGE_LOAD, 512, 1, 256, 0, 0},
    //@ end
    {"km_sparse_exponents", KM_STAGE_LOAD, 512, 1, 256, 0, 0},
    {"km_sparse_scales", KM_STAGE_LOAD, (unsigned)((D + 256ll) / 256), 1, 256, 0, 0},
    {"km_sparse_entries", KM_STAGE_LOAD, 2048, 1, 256, 0, 0},
    {"km_sparse_halves", KM_STAGE_PASS, COLUMNS, 1, 256, 0, 0},
    {"km_sparse_fragments", KM_STAGE_PASS, SLOTS, 1, 256, 0, 0},
    {"km_sparse_labels", KM_STAGE_PASS, GRID, 1, BLOCK, SHARED_BYTES, 0},
    //@ if sums_anew
    {"km_sparse_masks", KM_STAGE_PASS, (GRID + MASK_PARTS - 1) / MASK_PARTS, MASK_PARTS, MASK_BLOCK,
     MASK_BYTES, 0},
    //@ end
    {"km_sparse_totals", KM_STAGE_PASS, (unsigned)((COLUMNS * (D + 1ll) + 255) / 256), 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION,
                                    sizeof km_pass_launches / sizeof *km_pass_launches,
                                    WORKSPACE_BYTES,
                                    WORKSPACE_POINT_BYTES,
                                    0,
                                    WORKSPACE_ZERO_BYTES,
                                    WORKSPACE_NONZERO_BYTES};
}
//@ include cuda/sparse/steps.cu

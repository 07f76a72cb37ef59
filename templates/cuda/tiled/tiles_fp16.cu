// SPDX-License-Identifier: MIT
// Scores on tensor cores. Points and centroids are scaled by a power of two and
// rounded to half precision. The workspace has the norm of what that loses of each of them, so that the margin
// covers it.

enum {
    ROW_PADDING = 8, // numbers between rows in shared memory, so that eight rows have no bank conflicts
    ROUND_AHEAD = $round_ahead // pieces of points that a thread reads ahead before it rounds them
};

// Shared memory of a block.
struct __align__(16) km_block {
    km_table_number x[POINTS][PADDED_D + ROW_PADDING];
    km_table_number table[2][TILE][TILE_FEATURES + ROW_PADDING];
    float half_squares[2][TILE];
    long long points[POINTS];
    km_workspace workspace;
    km_slot_bounds slots[CACHED_SLOTS];
    int tile_slots[CACHED_TILES];
    // For ambiguous points.
    float score_limit[POINTS];
    unsigned pairs[WARPS][64];
    //@ if k_ends_in_tile
    float scores[WARPS][WARP_POINTS][TILE + 1];
    //@ end
    //@ if several_cluster_warps
    km_best_two found[CLUSTER_WARPS][POINTS];
    km_nearest nearest[CLUSTER_WARPS][POINTS];
    //@ end
};

// The row of a thread's r-th point in its warp, and the column of its c-th centroid in the warp's part of a tile.
__device__ __forceinline__ int km_row(int r) {
    return r / 2 * 16 + r % 2 * 8 + threadIdx.x % 32 / 4;
}

__device__ __forceinline__ int km_column(int c) {
    return c / 2 * 8 + threadIdx.x % 4 * 2 + c % 2;
}

// Writes the block's points to shared memory, rounded to halves.
__device__ __forceinline__ void km_round_points(km_block &block, const km_pass_args &args, float scale) {
    constexpr int NUMBERS = PIECE_BYTES / 4, PIECES = PADDED_D / NUMBERS;
#pragma unroll ROUND_AHEAD
    for (int at = threadIdx.x; at < POINTS * PIECES; at += BLOCK) {
        const int p = at / PIECES, f = at % PIECES * NUMBERS;
        km_piece numbers = {};
        if (f < D) numbers = *(const km_piece *)((const float *)args.points + block.points[p] * D + f);
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) block.x[p][f + i] = km_half_of(numbers.at[i] * scale);
    }
}

// Starts to copy a slice of the features of a tile of the table.
__device__ __forceinline__ void km_copy_slice(km_block &block, int stage, int tile, int slice, int buffer) {
    constexpr int PIECES = TILE_FEATURES / 8;
    const km_table_number *from =
        block.workspace.table + (long long)tile * TILE * PADDED_D + slice * TILE_FEATURES;
#pragma unroll 1
    for (int at = threadIdx.x; at < TILE * PIECES; at += BLOCK) {
        const int row = at / PIECES, f = at % PIECES * 8;
        km_copy<16>(&block.table[stage][row][f], from + (long long)row * PADDED_D + f, 1);
    }
    if (slice == 0 && threadIdx.x < TILE / 4)
        km_copy<16>(&block.half_squares[buffer][threadIdx.x * 4],
                    block.workspace.half_squares + (long long)tile * TILE + threadIdx.x * 4, 1);
}

//@ use mma_f16 ldmatrix_x4
// Adds the product of 16 points and 8 centroids, 16 features, to the thread's rows r and r + 1, columns c and c + 1.
__device__ __forceinline__ void km_multiply(float (&score)[ROWS][COLUMNS], int r, int c,
                                            const unsigned (&x)[4], const unsigned *centroids) {
    float sums[4] = {score[r][c], score[r][c + 1], score[r + 1][c], score[r + 1][c + 1]};
    km_mma_f16(sums, x, centroids, sums);
    score[r][c] = sums[0];
    score[r][c + 1] = sums[1];
    score[r + 1][c] = sums[2];
    score[r + 1][c + 1] = sums[3];
}

// Adds the products of a slice of the features to the scores.
__device__ __forceinline__ void km_add_products(float (&score)[ROWS][COLUMNS], const km_block &block,
                                                int stage, int slice) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const km_table_number *x =
        &block.x[warp % POINT_WARPS * WARP_POINTS + lane % 16][slice * TILE_FEATURES + lane / 16 * 8];
    const km_table_number *c =
        &block.table[stage][warp / POINT_WARPS * WARP_CLUSTERS + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8];
#pragma unroll 2
    for (int f = 0; f < TILE_FEATURES; f += 16) {
        unsigned points[ROWS / 2][4];
        KM_UNROLL_FOR (int r = 0; r < ROWS / 2; r++)
            km_ldmatrix_x4(points[r], km_shared_address(x + r * 16 * (PADDED_D + ROW_PADDING) + f));
        KM_UNROLL_FOR (int j = 0; j < WARP_CLUSTERS; j += 16) {
            unsigned centroids[4];
            km_ldmatrix_x4(centroids, km_shared_address(c + j * (TILE_FEATURES + ROW_PADDING) + f));
            KM_UNROLL_FOR (int r = 0; r < ROWS / 2; r++) {
                km_multiply(score, 2 * r, j / 4, points[r], centroids);
                km_multiply(score, 2 * r, j / 4 + 2, points[r], centroids + 2);
            }
        }
    }
}

// Computes the scores of the block's points and of tiles from `tile` to before `end`, but for tiles without an active
// slot, and calls `each` for each tile. The next slice of the table is copied while one is worked on.
template <typename Each>
__device__ __forceinline__ void km_process_tiles(km_block &block, const km_pass_args &args, int tile, int end,
                                                 Each each) {
    const float scale = *block.workspace.scale, factor = 1 / (scale * scale);
    const float *half_squares = block.half_squares[0] + threadIdx.x / 32 / POINT_WARPS * WARP_CLUSTERS;
    int stage = 0, buffer = 0;
    tile = km_next_tile(block.tile_slots, block.workspace, tile, end);
    if (tile < end) km_copy_slice(block, stage, tile, 0, buffer);
    km_round_points(block, args, scale);
    for (int next; tile < end; tile = next, buffer ^= 1) {
        float score[ROWS][COLUMNS] = {};
        next = km_next_tile(block.tile_slots, block.workspace, tile + 1, end);
        for (int slice = 0; slice < SLICES; slice++, stage ^= 1) {
            km_wait_for_copies();
            __syncthreads();
            if (slice + 1 < SLICES)
                km_copy_slice(block, stage ^ 1, tile, slice + 1, buffer);
            else if (next < end)
                km_copy_slice(block, stage ^ 1, next, 0, buffer ^ 1);
            km_add_products(score, block, stage, slice);
        }
        KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++) {
            const float half_square = half_squares[buffer * TILE + km_column(c)];
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) score[r][c] = fmaf(score[r][c], factor, -half_square);
        }
        each(tile, score);
    }
}

// SPDX-License-Identifier: MIT
// Scores by tensor cores. Points and centroids are scaled by a power of two and rounded to half precision; what that
// loses is known for each of them, so that km_tiled_resolve sees every centroid that may be the nearest.

enum {
    SKEW = 8, // numbers between rows in shared memory, so that eight rows lie in different banks
    ROUND_AHEAD = $round_ahead // pieces of points that a thread reads before it rounds them
};

// What the threads of a block share.
struct __align__(16) km_block {
    km_table_number x[POINTS][WIDTH + SKEW];
    km_table_number table[2][TILE][FEATURES + SKEW];
    float half_squares[2][TILE];
    long long points[POINTS];
    km_workspace workspace;
    km_slot_bounds slots[KEPT_SLOTS];
    int tile_slots[KEPT_TILES];
    // Of ambiguous points.
    float expected[POINTS];
    unsigned pairs[WARPS][64];
    //@ if narrow
    float scores[WARPS][WARP_POINTS][TILE + 1];
    //@ end
    //@ if several_warps
    km_best_two found[CLUSTER_WARPS][POINTS];
    km_nearest nearest[CLUSTER_WARPS][POINTS];
    //@ end
};

// The row of a thread's r-th point in its warp, and of its c-th centroid in the warp's share of a tile.
__device__ __forceinline__ int km_row(int r) {
    return r / 2 * 16 + r % 2 * 8 + threadIdx.x % 32 / 4;
}

__device__ __forceinline__ int km_column(int c) {
    return c / 2 * 8 + threadIdx.x % 4 * 2 + c % 2;
}

// The block's points, rounded.
__device__ __forceinline__ void km_round_points(km_block &block, const km_pass_args &args, float scale) {
    constexpr int NUMBERS = PIECE / 4, PIECES = WIDTH / NUMBERS;
#pragma unroll ROUND_AHEAD
    for (int at = threadIdx.x; at < POINTS * PIECES; at += BLOCK) {
        const int p = at / PIECES, f = at % PIECES * NUMBERS;
        km_piece numbers = {};
        if (f < D) numbers = *(const km_piece *)((const float *)args.points + block.points[p] * D + f);
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) block.x[p][f + i] = km_half_of(numbers.at[i] * scale);
    }
}

// Begins to copy features `chunk` of a tile of the table.
__device__ __forceinline__ void km_fetch(km_block &block, int stage, int tile, int chunk, int side) {
    constexpr int PIECES = FEATURES / 8;
    const km_table_number *from = block.workspace.table + (long long)tile * TILE * WIDTH + chunk * FEATURES;
#pragma unroll 1
    for (int at = threadIdx.x; at < TILE * PIECES; at += BLOCK) {
        const int row = at / PIECES, f = at % PIECES * 8;
        km_copy<16>(&block.table[stage][row][f], from + (long long)row * WIDTH + f, 1);
    }
    if (chunk == 0 && threadIdx.x < TILE / 4)
        km_copy<16>(&block.half_squares[side][threadIdx.x * 4],
                    block.workspace.half_squares + (long long)tile * TILE + threadIdx.x * 4, 1);
}

//@ use mma_f16 ldmatrix_x4
// A 16 x 8 tile of scores += 16 points x 8 centroids, 16 features: the thread's rows r and r + 1, columns c and c + 1.
__device__ __forceinline__ void km_multiply(float (&score)[ROWS][COLUMNS], int r, int c,
                                            const unsigned (&x)[4], const unsigned *centroids) {
    float sums[4] = {score[r][c], score[r][c + 1], score[r + 1][c], score[r + 1][c + 1]};
    km_mma_f16(sums, x, centroids, sums);
    score[r][c] = sums[0];
    score[r][c + 1] = sums[1];
    score[r + 1][c] = sums[2];
    score[r + 1][c + 1] = sums[3];
}

// Scores += those of a chunk of the features.
__device__ __forceinline__ void km_add_products(float (&score)[ROWS][COLUMNS], const km_block &block,
                                                int stage, int chunk) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const km_table_number *x =
        &block.x[warp % POINT_WARPS * WARP_POINTS + lane % 16][chunk * FEATURES + lane / 16 * 8];
    const km_table_number *c =
        &block.table[stage][warp / POINT_WARPS * WARP_CLUSTERS + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8];
#pragma unroll 2
    for (int f = 0; f < FEATURES; f += 16) {
        unsigned points[ROWS / 2][4];
        KM_UNROLL_FOR (int r = 0; r < ROWS / 2; r++)
            km_ldmatrix_x4(points[r], km_shared_address(x + r * 16 * (WIDTH + SKEW) + f));
        KM_UNROLL_FOR (int j = 0; j < WARP_CLUSTERS; j += 16) {
            unsigned centroids[4];
            km_ldmatrix_x4(centroids, km_shared_address(c + j * (FEATURES + SKEW) + f));
            KM_UNROLL_FOR (int r = 0; r < ROWS / 2; r++) {
                km_multiply(score, 2 * r, j / 4, points[r], centroids);
                km_multiply(score, 2 * r, j / 4 + 2, points[r], centroids + 2);
            }
        }
    }
}

// The scores of the block's points, tile after tile of the table from `tile` to `end`, but for tiles without an
// active slot. The next piece of the table is copied while one is worked on.
template <typename Each>
__device__ __forceinline__ void km_walk(km_block &block, const km_pass_args &args, int tile, int end,
                                        Each each) {
    const float scale = *block.workspace.scale, factor = 1 / (scale * scale);
    const float *half_squares = block.half_squares[0] + threadIdx.x / 32 / POINT_WARPS * WARP_CLUSTERS;
    int stage = 0, side = 0;
    tile = km_next_tile(block.tile_slots, block.workspace, tile, end);
    if (tile < end) km_fetch(block, stage, tile, 0, side);
    km_round_points(block, args, scale);
    for (int next; tile < end; tile = next, side ^= 1) {
        float score[ROWS][COLUMNS] = {};
        next = km_next_tile(block.tile_slots, block.workspace, tile + 1, end);
        for (int chunk = 0; chunk < CHUNKS; chunk++, stage ^= 1) {
            km_await_copies();
            __syncthreads();
            if (chunk + 1 < CHUNKS)
                km_fetch(block, stage ^ 1, tile, chunk + 1, side);
            else if (next < end)
                km_fetch(block, stage ^ 1, next, 0, side ^ 1);
            km_add_products(score, block, stage, chunk);
        }
        KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++) {
            const float half_square = half_squares[side * TILE + km_column(c)];
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) score[r][c] = fmaf(score[r][c], factor, -half_square);
        }
        each(tile, score);
    }
}

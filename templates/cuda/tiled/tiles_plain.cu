// SPDX-License-Identifier: MIT
// Scores by `fma` in the plan's type.

enum {
    VECTOR = $vector, // numbers of one 16-byte load
    ROW_PITCH =
        TILE_FEATURES / VECTOR % 2
            ? TILE_FEATURES
            : TILE_FEATURES + VECTOR // from row to row in shared memory: eight rows have no bank conflicts
};

struct __align__(16) km_vector {
    km_real at[VECTOR];
};

// Shared memory of a block.
struct __align__(16) km_block {
    km_real x[2][POINTS][ROW_PITCH];
    km_real table[2][TILE][ROW_PITCH];
    km_real half_squares[2][TILE];
    long long points[POINTS];
    km_workspace workspace;
    km_slot_bounds slots[CACHED_SLOTS];
    int tile_slots[CACHED_TILES];
    // For ambiguous points.
    km_real score_limit[POINTS];
    unsigned pairs[WARPS][64];
    //@ if k_ends_in_tile
    km_real scores[WARPS][WARP_POINTS][TILE + 1];
    //@ end
};

// The row of a thread's r-th point in its warp, and the column of its c-th centroid in a tile.
__device__ __forceinline__ int km_row(int r) {
    return r * (32 / POINT_LANES) + threadIdx.x % 32 / POINT_LANES;
}

__device__ __forceinline__ int km_column(int c) {
    return c * POINT_LANES + threadIdx.x % POINT_LANES;
}

// Starts to copy a slice of the features of the block's points, and of a tile of the table.
__device__ __forceinline__ void km_copy_slice(km_block &block, const km_pass_args &args, int stage, int tile,
                                              int slice, int buffer) {
    constexpr int NUMBERS = PIECE_BYTES / sizeof(km_real), PIECES = TILE_FEATURES / NUMBERS,
                  VECTORS = TILE_FEATURES / VECTOR;
    const km_real *points = (const km_real *)args.points;
    for (int at = threadIdx.x; at < POINTS * PIECES; at += BLOCK) {
        const int p = at / PIECES, f = at % PIECES * NUMBERS, valid = slice * TILE_FEATURES + f < D;
        km_copy<PIECE_BYTES>(&block.x[stage][p][f],
                             points + block.points[p] * D + (valid ? slice * TILE_FEATURES + f : 0), valid);
    }
    const km_real *from = block.workspace.table + (long long)tile * TILE * PADDED_D + slice * TILE_FEATURES;
#pragma unroll 1
    for (int at = threadIdx.x; at < TILE * VECTORS; at += BLOCK) {
        const int row = at / VECTORS, f = at % VECTORS * VECTOR;
        km_copy<16>(&block.table[stage][row][f], from + (long long)row * PADDED_D + f, 1);
    }
    if (slice == 0 && threadIdx.x < TILE / VECTOR)
        km_copy<16>(&block.half_squares[buffer][threadIdx.x * VECTOR],
                    block.workspace.half_squares + (long long)tile * TILE + threadIdx.x * VECTOR, 1);
}

// Adds the products of a slice of the features to the scores.
__device__ __forceinline__ void km_add_products(km_real (&score)[ROWS][COLUMNS], const km_block &block,
                                                int stage) {
    const int warp = threadIdx.x / 32;
#pragma unroll 1
    for (int f = 0; f < TILE_FEATURES; f += VECTOR) {
        km_vector x[ROWS];
        KM_UNROLL_FOR (int r = 0; r < ROWS; r++)
            x[r] = *(const km_vector *)&block.x[stage][warp * WARP_POINTS + km_row(r)][f];
        KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++) {
            const km_vector centroid = *(const km_vector *)&block.table[stage][km_column(c)][f];
            KM_UNROLL_FOR (int i = 0; i < VECTOR; i++)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++)
                    score[r][c] = fma(x[r].at[i], centroid.at[i], score[r][c]);
        }
    }
}

// Computes the scores of the block's points and of tiles from `tile` to before `end`, but for tiles without an active
// slot, and calls `each` for each tile. The next slice of features is copied while one is worked on.
template <typename Each>
__device__ __forceinline__ void km_process_tiles(km_block &block, const km_pass_args &args, int tile, int end,
                                                 Each each) {
    int stage = 0, buffer = 0;
    tile = km_next_tile(block.tile_slots, block.workspace, tile, end);
    if (tile < end) km_copy_slice(block, args, stage, tile, 0, buffer);
    for (int next; tile < end; tile = next, buffer ^= 1) {
        km_real score[ROWS][COLUMNS] = {};
        next = km_next_tile(block.tile_slots, block.workspace, tile + 1, end);
        for (int slice = 0; slice < SLICES; slice++, stage ^= 1) {
            km_wait_for_copies();
            __syncthreads();
            if (slice + 1 < SLICES)
                km_copy_slice(block, args, stage ^ 1, tile, slice + 1, buffer);
            else if (next < end)
                km_copy_slice(block, args, stage ^ 1, next, 0, buffer ^ 1);
            km_add_products(score, block, stage);
        }
        KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++) {
            const km_real half_square = block.half_squares[buffer][km_column(c)];
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) score[r][c] -= half_square;
        }
        each(tile, score);
    }
}

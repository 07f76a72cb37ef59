// SPDX-License-Identifier: MIT
// Scores by plain arithmetic of the plan's type.

enum {
    VECTOR = $vector, // numbers of one 16-byte load
    STRIDE = FEATURES / VECTOR % 2 ? FEATURES
                                   : FEATURES + VECTOR // of rows in shared memory: eight in different banks
};

struct __align__(16) km_vector {
    km_real at[VECTOR];
};

// What the threads of a block share.
struct __align__(16) km_block {
    km_real x[2][POINTS][STRIDE];
    km_real table[2][TILE][STRIDE];
    km_real half_squares[2][TILE];
    long long points[POINTS];
    km_workspace workspace;
    km_slot_bounds slots[KEPT_SLOTS];
    int tile_slots[KEPT_TILES];
    // Of ambiguous points.
    km_real expected[POINTS];
    unsigned pairs[WARPS][64];
    //@ if narrow
    km_real scores[WARPS][WARP_POINTS][TILE + 1];
    //@ end
};

// The row of a thread's r-th point in its warp, and of its c-th centroid in a tile.
__device__ __forceinline__ int km_row(int r) {
    return r * (32 / SHARE) + threadIdx.x % 32 / SHARE;
}

__device__ __forceinline__ int km_column(int c) {
    return c * SHARE + threadIdx.x % SHARE;
}

// Begins to copy features `chunk` of the block's points and of a tile of the table.
__device__ __forceinline__ void km_fetch(km_block &block, const km_pass_args &args, int stage, int tile,
                                         int chunk, int side) {
    constexpr int NUMBERS = PIECE / sizeof(km_real), PIECES = FEATURES / NUMBERS, VECTORS = FEATURES / VECTOR;
    const km_real *points = (const km_real *)args.points;
    for (int at = threadIdx.x; at < POINTS * PIECES; at += BLOCK) {
        const int p = at / PIECES, f = at % PIECES * NUMBERS, valid = chunk * FEATURES + f < D;
        km_copy<PIECE>(&block.x[stage][p][f],
                       points + block.points[p] * D + (valid ? chunk * FEATURES + f : 0), valid);
    }
    const km_real *from = block.workspace.table + (long long)tile * TILE * WIDTH + chunk * FEATURES;
#pragma unroll 1
    for (int at = threadIdx.x; at < TILE * VECTORS; at += BLOCK) {
        const int row = at / VECTORS, f = at % VECTORS * VECTOR;
        km_copy<16>(&block.table[stage][row][f], from + (long long)row * WIDTH + f, 1);
    }
    if (chunk == 0 && threadIdx.x < TILE / VECTOR)
        km_copy<16>(&block.half_squares[side][threadIdx.x * VECTOR],
                    block.workspace.half_squares + (long long)tile * TILE + threadIdx.x * VECTOR, 1);
}

// Scores += those of a chunk of the features.
__device__ __forceinline__ void km_add_products(km_real (&score)[ROWS][COLUMNS], const km_block &block,
                                                int stage) {
    const int warp = threadIdx.x / 32;
#pragma unroll 1
    for (int f = 0; f < FEATURES; f += VECTOR) {
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

// The scores of the block's points, tile after tile of the table from `tile` to `end`, but for tiles without an
// active slot. The next features are copied while some are worked on.
template <typename Each>
__device__ __forceinline__ void km_walk(km_block &block, const km_pass_args &args, int tile, int end,
                                        Each each) {
    int stage = 0, side = 0;
    tile = km_next_tile(block.tile_slots, block.workspace, tile, end);
    if (tile < end) km_fetch(block, args, stage, tile, 0, side);
    for (int next; tile < end; tile = next, side ^= 1) {
        km_real score[ROWS][COLUMNS] = {};
        next = km_next_tile(block.tile_slots, block.workspace, tile + 1, end);
        for (int chunk = 0; chunk < CHUNKS; chunk++, stage ^= 1) {
            km_await_copies();
            __syncthreads();
            if (chunk + 1 < CHUNKS)
                km_fetch(block, args, stage ^ 1, tile, chunk + 1, side);
            else if (next < end)
                km_fetch(block, args, stage ^ 1, next, 0, side ^ 1);
            km_add_products(score, block, stage);
        }
        KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++) {
            const km_real half_square = block.half_squares[side][km_column(c)];
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) score[r][c] -= half_square;
        }
        each(tile, score);
    }
}

// SPDX-License-Identifier: MIT
// Scores by tensor cores. Points and centroids are scaled by a power of two and rounded to half precision; what that
// loses is known for each of them, so that km_shared_redo sees every centroid that may be the nearest.

enum {
    SKEW = 8,                   // numbers between rows in shared memory, so that eight rows lie in different banks
    ROUND_AHEAD = $round_ahead  // pieces of points that a thread reads before it rounds them
};

// What the threads of a block share.
struct __align__(16) pass_block {
    pass_number x[POINTS][WIDTH + SKEW];
    pass_number table[2][TILE][FEATURES + SKEW];
    float half_squares[2][TILE];
    long long points[POINTS];
    pass_memory memory;
    pass_slot slots[KEPT_SLOTS];
    int tile_slots[KEPT_TILES];
    // Of listed points.
    float expected[POINTS];
    unsigned pairs[WARPS][64];
    //@ if narrow
    float scores[WARPS][WARP_POINTS][TILE + 1];
    //@ end
    //@ if several_warps
    pass_best found[CLUSTER_WARPS][POINTS];
    pass_nearest nearest[CLUSTER_WARPS][POINTS];
    //@ end
};

// The row of a thread's r-th point in its warp, and of its c-th centroid in the warp's share of a tile.
__device__ __forceinline__ int pass_row(int r) {
    return r / 2 * 16 + r % 2 * 8 + threadIdx.x % 32 / 4;
}

__device__ __forceinline__ int pass_column(int c) {
    return c / 2 * 8 + threadIdx.x % 4 * 2 + c % 2;
}

struct __align__(PIECE) pass_numbers {
    float at[PIECE / 4];
};

// The block's points, rounded.
__device__ __forceinline__ void pass_round(pass_block &block, const km_pass_args &args, float scale) {
    constexpr int NUMBERS = PIECE / 4, PIECES = WIDTH / NUMBERS;
#pragma unroll ROUND_AHEAD
    for (int at = threadIdx.x; at < POINTS * PIECES; at += BLOCK) {
        const int p = at / PIECES, f = at % PIECES * NUMBERS;
        pass_numbers numbers = {};
        if (f < D) numbers = *(const pass_numbers *)((const float *)args.points + block.points[p] * D + f);
        KM_UNROLL for (int i = 0; i < NUMBERS; i++) block.x[p][f + i] = pass_half_of(numbers.at[i] * scale);
    }
}

// Begins to copy features `chunk` of a tile of the table.
__device__ __forceinline__ void pass_fetch(pass_block &block, int stage, int tile, int chunk, int side) {
    constexpr int PIECES = FEATURES / 8;
    const pass_number *from = block.memory.table + (long long)tile * TILE * WIDTH + chunk * FEATURES;
#pragma unroll 1
    for (int at = threadIdx.x; at < TILE * PIECES; at += BLOCK) {
        const int row = at / PIECES, f = at % PIECES * 8;
        pass_copy<16>(&block.table[stage][row][f], from + (long long)row * WIDTH + f, 1);
    }
    if (chunk == 0 && threadIdx.x < TILE / 4)
        pass_copy<16>(&block.half_squares[side][threadIdx.x * 4],
                      block.memory.half_squares + (long long)tile * TILE + threadIdx.x * 4, 1);
}

// Four 8 x 8 matrices, in the layout of an operand; each lane names a row.
__device__ __forceinline__ void pass_matrices(unsigned (&out)[4], const pass_number *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}

// A 16 x 8 tile of scores += 16 points x 8 centroids, 16 features: the thread's rows r and r + 1, columns c and c + 1.
__device__ __forceinline__ void pass_multiply(float (&score)[ROWS][COLUMNS], int r, int c, const unsigned (&x)[4],
                                              unsigned low, unsigned high) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(score[r][c]), "+f"(score[r][c + 1]), "+f"(score[r + 1][c]), "+f"(score[r + 1][c + 1])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(low), "r"(high));
}

__device__ __forceinline__ void pass_products(float (&score)[ROWS][COLUMNS], const pass_block &block, int stage,
                                              int chunk) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const pass_number *x = &block.x[warp % POINT_WARPS * WARP_POINTS + lane % 16][chunk * FEATURES + lane / 16 * 8];
    const pass_number *c =
        &block.table[stage][warp / POINT_WARPS * WARP_CLUSTERS + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8];
#pragma unroll 2
    for (int f = 0; f < FEATURES; f += 16) {
        unsigned points[ROWS / 2][4];
        KM_UNROLL for (int r = 0; r < ROWS / 2; r++) pass_matrices(points[r], x + r * 16 * (WIDTH + SKEW) + f);
        KM_UNROLL for (int j = 0; j < WARP_CLUSTERS; j += 16) {
            unsigned centroids[4];
            pass_matrices(centroids, c + j * (FEATURES + SKEW) + f);
            KM_UNROLL for (int r = 0; r < ROWS / 2; r++) {
                pass_multiply(score, 2 * r, j / 4, points[r], centroids[0], centroids[1]);
                pass_multiply(score, 2 * r, j / 4 + 2, points[r], centroids[2], centroids[3]);
            }
        }
    }
}

// The scores of the block's points, tile after tile of the table from `tile` to `end`, but for tiles without an
// active slot. The next piece of the table is copied while one is worked on.
template <typename Each>
__device__ __forceinline__ void pass_walk(pass_block &block, const km_pass_args &args, int tile, int end,
                                          Each each) {
    const float scale = *block.memory.scale, factor = 1 / (scale * scale);
    const float *half_squares = block.half_squares[0] + threadIdx.x / 32 / POINT_WARPS * WARP_CLUSTERS;
    int stage = 0, side = 0;
    tile = pass_next(block.tile_slots, block.memory, tile, end);
    if (tile < end) pass_fetch(block, stage, tile, 0, side);
    pass_round(block, args, scale);
    for (int next; tile < end; tile = next, side ^= 1) {
        float score[ROWS][COLUMNS] = {};
        next = pass_next(block.tile_slots, block.memory, tile + 1, end);
        for (int chunk = 0; chunk < CHUNKS; chunk++, stage ^= 1) {
            pass_copied();
            __syncthreads();
            if (chunk + 1 < CHUNKS)
                pass_fetch(block, stage ^ 1, tile, chunk + 1, side);
            else if (next < end)
                pass_fetch(block, stage ^ 1, next, 0, side ^ 1);
            pass_products(score, block, stage, chunk);
        }
        KM_UNROLL for (int c = 0; c < COLUMNS; c++) {
            const float half_square = half_squares[side * TILE + pass_column(c)];
            KM_UNROLL for (int r = 0; r < ROWS; r++) score[r][c] = fmaf(score[r][c], factor, -half_square);
        }
        each(tile, score);
    }
}

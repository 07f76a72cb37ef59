// SPDX-License-Identifier: MIT
// For steps of many features: a block has a tile of points in shared memory, and rows of centroids beside it, a slab of
// the features of both at a time. A warp computes the squared distances of all points of the tile to eight rows, in
// registers, and writes them to shared memory.
enum {
    TILE_POINTS = KM_TILE_POINTS(sizeof(km_real)),
    TILE_GROUPS = TILE_POINTS / 32,                 // of 32 points
    TILE_SLABS = KM_TILE_SLABS(D, sizeof(km_real)), // pieces of a row
    TILE_WIDTH = KM_TILE_WIDTH(D, sizeof(km_real)), // features of a slab; those behind the last are 0
    TILE_PITCH = KM_TILE_PITCH(TILE_WIDTH, sizeof(km_real)), // of rows in shared memory: no bank conflicts
    TILE_VECTOR = 16 / sizeof(km_real),
    TILE_PIECE_POINTS = KM_FINISH_PIECE_POINTS(D), // of a block
    TILE_AT_ONCE = $tile_at_once,                  // rows that a warp reads at a time
    TILE_PIECE = STEP_ALIGN / sizeof(km_real)      // features that are copied at a time
};

struct __align__(16) tile_features {
    km_real at[TILE_VECTOR];
};

// So many bytes from the beginning of dynamic shared memory, where the slab of the points is.
template <typename Item> __device__ __forceinline__ Item *tile_at(int bytes) {
    extern __shared__ double tile_memory[];
    return (Item *)((char *)tile_memory + bytes);
}

//@ if async_copies
// Starts to copy a piece to shared memory; zeros where not `valid`.
__device__ __forceinline__ void tile_copy(km_real *to, const km_real *from, bool valid) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(STEP_ALIGN),
                 "r"(valid ? STEP_ALIGN : 0)
                 : "memory");
}

__device__ __forceinline__ void tile_wait() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
//@ else
// Copies a piece to shared memory; zeros where not `valid`.
__device__ __forceinline__ void tile_copy(km_real *to, const km_real *from, bool valid) {
    struct __align__(STEP_ALIGN) piece {
        km_real at[TILE_PIECE];
    }
    zero = {};
    *(piece *)to = valid ? *(const piece *)from : zero;
}

__device__ __forceinline__ void tile_wait() {}
//@ end

// Copies a slab of `count` rows, of which `valid_count` are there.
__device__ __forceinline__ void tile_copy_slab(km_real *to, const km_real *from, int count, int valid_count,
                                               int slab) {
    constexpr int PIECES = TILE_WIDTH / TILE_PIECE;
    for (int i = threadIdx.x; i < count * PIECES; i += blockDim.x) {
        const int row = i / PIECES, f = i % PIECES * TILE_PIECE, at = slab * TILE_WIDTH + f;
        const bool valid = row < valid_count && at < D;
        tile_copy(to + row * TILE_PITCH + f, valid ? from + row * (long long)D + at : from, valid);
    }
}

// Adds a slab to squared distances of a lane's points to the warp's rows, from `row` on; also to some behind `rows`,
// which are not there. A branch keeps compilers from reading more rows than TILE_AT_ONCE.
__device__ __forceinline__ void tile_add_slab(km_real (*square)[TILE_GROUPS], int rows_at, int row,
                                              int rows) {
    const km_real *points = tile_at<km_real>(0) + threadIdx.x % 32 * TILE_PITCH;
    const km_real *table = tile_at<km_real>(rows_at) + row * TILE_PITCH;
#pragma unroll 1
    for (int f = 0; f < TILE_WIDTH; f += TILE_VECTOR) {
        tile_features x[TILE_GROUPS];
#pragma unroll
        for (int p = 0; p < TILE_GROUPS; p++)
            x[p] = *(const tile_features *)(points + p * (32 * TILE_PITCH) + f);
#pragma unroll
        for (int r = 0; r < KM_TILE_WARP_ROWS; r++) {
            if (r > 0 && r % TILE_AT_ONCE == 0 && row + r >= rows) break;
            const tile_features c = *(const tile_features *)(table + r * TILE_PITCH + f);
#pragma unroll
            for (int g = 0; g < TILE_VECTOR; g++)
#pragma unroll
                for (int p = 0; p < TILE_GROUPS; p++) {
                    const km_real t = x[p].at[g] - c.at[g];
                    square[r][p] = fma(t, t, square[r][p]);
                }
        }
    }
}

// Writes them: of the rows that there are.
__device__ __forceinline__ void tile_write_squares(const km_real (*square)[TILE_GROUPS], int squares_at,
                                                   int row, int rows) {
    km_real *out = tile_at<km_real>(squares_at) + row * TILE_POINTS + threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < KM_TILE_WARP_ROWS; r++)
#pragma unroll
        for (int p = 0; p < TILE_GROUPS; p++)
            if (row + r < rows) out[r * TILE_POINTS + p * 32] = square[r][p];
}

// Writes the squared distances of the tile's points, of which `left` are there, to the job's rows from `start` on.
// copy_rows copies a slab of these; where rows and points are kept, both are there. Then points are no longer used.
template <typename Job, typename Copy>
__device__ __forceinline__ void tile_find_squares(const Job &job, const km_real *tile, int left, int start,
                                                  bool is_kept, Copy copy_rows) {
    const int warp_row = threadIdx.x / 32 * KM_TILE_WARP_ROWS;
    const bool is_busy = warp_row < job.tile_rows && start + warp_row < job.rows;
    km_real square[KM_TILE_WARP_ROWS][TILE_GROUPS] = {};
    for (int slab = 0; slab < TILE_SLABS; slab++) {
        if (!is_kept) {
            if (TILE_SLABS > 1 || start == 0)
                tile_copy_slab(tile_at<km_real>(0), tile, TILE_POINTS, left, slab);
            copy_rows(slab);
        }
        tile_wait();
        __syncthreads();
        if (is_busy) tile_add_slab(square, job.rows_at, warp_row, job.rows - start);
        if (!is_kept) __syncthreads();
    }
    if (is_busy) tile_write_squares(square, job.squares_at, warp_row, job.rows - start);
    __syncthreads();
}

// A thread has one point of the tile, and every so many models, of which this is number i; or beyond the last.
__device__ __forceinline__ int tile_model(int i) {
    return threadIdx.x / TILE_POINTS + i * (blockDim.x / TILE_POINTS);
}

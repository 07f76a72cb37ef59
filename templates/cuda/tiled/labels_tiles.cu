// SPDX-License-Identifier: MIT
//@ need rows columns warp_points point_warps cluster_warps async_copies k_ends_in_tile several_cluster_warps
// Labels of any list, tiled like a matrix product: a block holds a tile of points, and goes through the tiles of
// centroids in shared memory. A thread has the scores of ROWS points and COLUMNS centroids in registers. For the
// ambiguous points km_tiled_resolve computes scores again, and compares all candidates by distances in double.

enum {
    POINT_WARPS = $point_warps,     // warps of a block along the points ...
    CLUSTER_WARPS = $cluster_warps, // ... and along the centroids of a tile
    WARPS = POINT_WARPS * CLUSTER_WARPS,
    BLOCK = 32 * WARPS,
    WARP_POINTS = $warp_points,            // points of a warp
    ROWS = $rows,                          // those of one thread
    COLUMNS = $columns,                    // centroids of a tile that one thread has
    POINT_LANES = 32 * ROWS / WARP_POINTS, // lanes that have the same points, and other centroids
    WARP_CLUSTERS = COLUMNS * POINT_LANES,
    POINTS = POINT_WARPS * WARP_POINTS,
    RESOLVE_GRID = $resolve_grid,
    CACHED_SLOTS =
        RESTARTS * KS < 64 ? RESTARTS * KS : 64, // slots and tiles whose facts a block keeps in shared memory
    CACHED_TILES = TILES < 64 ? int(TILES) : 64
};

//@ include cuda/tiled/nearest.cu

//@ if async_copies
//@ use shared_address copy_cached_if copy_wait_all
// Starts to copy BYTES to shared memory; zeros where `valid` is 0.
template <int BYTES> __device__ __forceinline__ void km_copy(void *to, const void *from, int valid) {
    km_copy_cached_if<BYTES>(km_shared_address(to), from, valid);
}

// Waits for all copies of this thread.
__device__ __forceinline__ void km_wait_for_copies() {
    km_copy_wait_all();
}
//@ else
template <int BYTES> struct __align__(BYTES) km_bytes {
    char at[BYTES];
};

// Copies BYTES to shared memory; zeros where `valid` is 0.
template <int BYTES> __device__ __forceinline__ void km_copy(void *to, const void *from, int valid) {
    *(km_bytes<BYTES> *)to = valid ? *(const km_bytes<BYTES> *)from : km_bytes<BYTES>();
}

__device__ __forceinline__ void km_wait_for_copies() {}
//@ end

// The slot of a tile's first row, -1 where none of its slots is active. The first tiles are cached in shared memory.
__device__ __forceinline__ int km_tile_slot(const int *cached, const km_workspace &workspace, int tile) {
    return tile < CACHED_TILES ? cached[tile] : workspace.tile_slots[tile];
}

// The first tile from `tile` on that has an active slot.
__device__ __forceinline__ int km_next_tile(const int *cached, const km_workspace &workspace, int tile,
                                            int end) {
    while (tile < end && km_tile_slot(cached, workspace, tile) < 0) tile++;
    return tile;
}

//@ include cuda/tiled/best_two.cu

//@ include cuda/tiled/tiles_$scores.cu

// The bounds of a slot. The first slots are cached in shared memory.
__device__ __forceinline__ km_slot_bounds km_bounds_of(const km_block &block, int slot) {
    return slot < CACHED_SLOTS ? block.slots[slot] : block.workspace.slots[slot];
}

// Writes a label of a slot where `mine`, and adds the point to the list of ambiguous ones where another centroid may be
// the nearest.
__device__ __forceinline__ void km_write_label(const km_workspace &workspace, long long n, int slot,
                                               long long i, bool mine, const km_best_two &found,
                                               km_real margin) {
    if (mine) workspace.labels[slot * workspace.stride + i] = (km_label)found.j;
    const unsigned lane = threadIdx.x % 32;
    const bool ambiguous = mine && !(found.best - found.second > margin);
    const unsigned lanes = __ballot_sync(0xffffffffu, ambiguous);
    if (!lanes) return;
    unsigned at = 0;
    if (lane == 0) at = atomicAdd(&workspace.slots[slot].ambiguous, (unsigned)__popc(lanes));
    at = __shfl_sync(0xffffffffu, at, 0) + __popc(lanes & ((1u << lane) - 1));
    if (ambiguous) workspace.lists[slot * n + at] = (unsigned)i;
}

// Begins a block: fills its caches in shared memory.
__device__ __forceinline__ void km_begin_block(km_block &block, const km_pass_args &args) {
    if (threadIdx.x == 0) block.workspace = km_workspace_of(args);
    const km_workspace workspace = km_workspace_of(args);
    for (int slot = threadIdx.x; slot < CACHED_SLOTS; slot += BLOCK)
        block.slots[slot] = workspace.slots[slot];
    for (int tile = threadIdx.x; tile < CACHED_TILES; tile += BLOCK)
        block.tile_slots[tile] = workspace.tile_slots[tile];
    __syncthreads();
}

// Begins a tile of points: their indices.
__device__ __forceinline__ void km_begin_points(km_block &block, const unsigned *list, long long first,
                                                long long count) {
    __syncthreads(); // the tile before is done with
    for (int p = threadIdx.x; p < POINTS; p += BLOCK) {
        const long long at = first + p < count ? first + p : count - 1;
        block.points[p] = list ? list[at] : at;
    }
    __syncthreads();
}

//@ include cuda/tiled/tiles_$tile_ks.cu

//@ include cuda/tiled/tiles_resolve.cu

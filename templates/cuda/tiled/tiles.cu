// SPDX-License-Identifier: MIT
//@ need rows columns warp_points point_warps cluster_warps async narrow several_warps
// Labels of any list, tiled like a matrix product: a block holds a tile of points and walks over tiles of centroids in
// shared memory; a thread has the scores of ROWS points and COLUMNS centroids in registers and keeps the best two of
// each point. km_shared_redo walks over the listed points again and decides between all centroids that may be the
// nearest by distances in double.

enum {
    POINT_WARPS = $point_warps,     // warps of a block side by side in the points ...
    CLUSTER_WARPS = $cluster_warps, // ... and in the centroids of a tile
    WARPS = POINT_WARPS * CLUSTER_WARPS,
    BLOCK = 32 * WARPS,
    WARP_POINTS = $warp_points,     // points of a warp
    ROWS = $rows,                   // of them, those of one thread
    COLUMNS = $columns,             // centroids of a tile of one thread
    SHARE = 32 * ROWS / WARP_POINTS, // lanes that have the same points
    WARP_CLUSTERS = COLUMNS * SHARE,
    POINTS = POINT_WARPS * WARP_POINTS,
    REDO_GRID = $redo_grid,
    KEPT_SLOTS = COPIES * KS < 64 ? COPIES * KS : 64,   // what a block keeps of slots and tiles in shared memory
    KEPT_TILES = TILES < 64 ? int(TILES) : 64
};

// Points of a warp that are decided, a lane each: the nearest centroid so far.
struct pass_nearest {
    double distance;
    int j;
};

__device__ __forceinline__ pass_nearest pass_nearer(const pass_nearest &a, const pass_nearest &b) {
    return b.distance < a.distance || (b.distance == a.distance && b.j < a.j) ? b : a;
}

//@ if async
// Copies BYTES to shared memory in the background; zeros where `valid` is 0.
template <int BYTES> __device__ __forceinline__ void pass_copy(void *to, const void *from, int valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "n"(BYTES), "r"(valid ? BYTES : 0)
                 : "memory");
}

// Waits for this thread's copies.
__device__ __forceinline__ void pass_copied() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
//@ else
template <int BYTES> struct __align__(BYTES) pass_bytes {
    char at[BYTES];
};

// Copies BYTES to shared memory; zeros where `valid` is 0.
template <int BYTES> __device__ __forceinline__ void pass_copy(void *to, const void *from, int valid) {
    *(pass_bytes<BYTES> *)to = valid ? *(const pass_bytes<BYTES> *)from : pass_bytes<BYTES>();
}

__device__ __forceinline__ void pass_copied() {}
//@ end

// The slot of a tile's first row, -1 where none of its slots is active; those of the first tiles are in shared memory.
__device__ __forceinline__ int pass_tile_slot(const int *kept, const pass_memory &memory, int tile) {
    return tile < KEPT_TILES ? kept[tile] : memory.tile_slots[tile];
}

// The next tile from `tile` on with an active slot.
__device__ __forceinline__ int pass_next(const int *kept, const pass_memory &memory, int tile, int end) {
    while (tile < end && pass_tile_slot(kept, memory, tile) < 0) tile++;
    return tile;
}

//@ if half_filter
//@ include cuda/tiled/half.cu
//@ else
//@ include cuda/tiled/plain.cu
//@ end

__device__ __forceinline__ pass_slot pass_slot_known(const pass_block &block, int slot) {
    return slot < KEPT_SLOTS ? block.slots[slot] : block.memory.slots[slot];
}

// Writes a label of a slot where `mine`, and lists the point where another centroid may be the nearest.
__device__ __forceinline__ void pass_settle(const pass_memory &memory, long long n, int slot, long long i, bool mine,
                                            const pass_best &found, km_real margin) {
    if (mine) memory.labels[slot * memory.stride + i] = (km_label)found.j;
    const unsigned lane = threadIdx.x % 32;
    const bool unsure = mine && !(found.best - found.second > margin);
    const unsigned lanes = __ballot_sync(0xffffffffu, unsure);
    if (!lanes) return;
    unsigned at = 0;
    if (lane == 0) at = atomicAdd(&memory.slots[slot].listed, (unsigned)__popc(lanes));
    at = __shfl_sync(0xffffffffu, at, 0) + __popc(lanes & ((1u << lane) - 1));
    if (unsure) memory.lists[slot * n + at] = (unsigned)i;
}

//@ if not narrow
// By value: a choice between places would keep both in memory.
__device__ __forceinline__ pass_best pass_choose(bool first, pass_best a, pass_best b) {
    a.best = first ? a.best : b.best;
    a.second = first ? a.second : b.second;
    a.j = first ? a.j : b.j;
    return a;
}

__device__ __forceinline__ pass_best pass_better(const pass_best &a, const pass_best &b) {
    const bool first = a.best > b.best || (a.best == b.best && a.j < b.j);
    pass_best both = pass_choose(first, a, b);
    const km_real second = a.second > b.second ? a.second : b.second, loser = first ? b.best : a.best;
    both.second = second > loser ? second : loser;
    return both;
}

__device__ __forceinline__ pass_best pass_exchange(const pass_best &given, int width) {
    pass_best got;
    got.best = __shfl_xor_sync(0xffffffffu, given.best, width);
    got.second = __shfl_xor_sync(0xffffffffu, given.second, width);
    got.j = __shfl_xor_sync(0xffffffffu, given.j, width);
    return got;
}

// Brings the rows of SHARE lanes together: a lane is left with row 0 of its own, which was row lane % SHARE / (SHARE /
// ROWS).
template <int COUNT, int WIDTH_OF> __device__ __forceinline__ void pass_gather(pass_best *rows) {
    if (COUNT > 1) {
        const bool upper = threadIdx.x & WIDTH_OF;
        KM_UNROLL for (int r = 0; r < COUNT / 2; r++) {
            const pass_best kept = pass_choose(upper, rows[r + COUNT / 2], rows[r]);
            const pass_best given = pass_choose(upper, rows[r], rows[r + COUNT / 2]);
            rows[r] = pass_better(kept, pass_exchange(given, WIDTH_OF));
        }
    } else {
        rows[0] = pass_better(rows[0], pass_exchange(rows[0], WIDTH_OF));
    }
    if constexpr (WIDTH_OF > 1) pass_gather<(COUNT > 1 ? COUNT / 2 : 1), WIDTH_OF / 2>(rows);
}

// Labels of the block's points for one slot.
__device__ __forceinline__ void pass_close(pass_block &block, const km_pass_args &args, const pass_place &place,
                                           const pass_best *state, long long first) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    pass_best rows[ROWS];
    KM_UNROLL for (int r = 0; r < ROWS; r++) {
        //@ if half_filter
        const int column = pass_column(__float_as_uint(state[r].best) & (COLUMNS - 1));
        const int j = (state[r].j - place.begin) * TILE + warp / POINT_WARPS * WARP_CLUSTERS + column;
        //@ else
        const int j = state[r].j - COLUMNS;
        //@ end
        rows[r] = {state[r].best, state[r].second, j};
    }
    pass_gather<ROWS, SHARE / 2>(rows);
    const int local = warp % POINT_WARPS * WARP_POINTS + pass_row(lane % SHARE / (SHARE / ROWS));
    bool mine = lane % (SHARE / ROWS) == 0;
    //@ if several_warps
    // The warps that have the same points.
    if (mine) block.found[warp / POINT_WARPS][local] = rows[0];
    __syncthreads();
    mine = mine && warp < POINT_WARPS;
    for (int w = 1; mine && w < CLUSTER_WARPS; w++) rows[0] = pass_better(rows[0], block.found[w][local]);
    //@ end
    const long long i = first + local;
    mine = mine && i < args.n;
    const pass_point point = pass_point_of(block.memory, mine ? i : 0);
    pass_settle(block.memory, args.n, place.slot, i, mine, rows[0],
                pass_margin(pass_fine_of(block.memory), pass_slot_known(block, place.slot), point, rows[0].best));
}

//@ end
// Begins a block: what it keeps in shared memory.
__device__ __forceinline__ void pass_open(pass_block &block, const km_pass_args &args) {
    if (threadIdx.x == 0) block.memory = pass_memory_of(args);
    const pass_memory memory = pass_memory_of(args);
    for (int slot = threadIdx.x; slot < KEPT_SLOTS; slot += BLOCK) block.slots[slot] = memory.slots[slot];
    for (int tile = threadIdx.x; tile < KEPT_TILES; tile += BLOCK) block.tile_slots[tile] = memory.tile_slots[tile];
    __syncthreads();
}

// Begins a tile of points: which they are.
__device__ __forceinline__ void pass_begin(pass_block &block, const unsigned *list, long long first, long long count) {
    __syncthreads(); // the tile before is done with
    for (int p = threadIdx.x; p < POINTS; p += BLOCK) {
        const long long at = first + p < count ? first + p : count - 1;
        block.points[p] = list ? list[at] : at;
    }
    __syncthreads();
}

//@ if narrow
//@ include cuda/tiled/scores.cu

// Labels of all active slots; what is not sure is listed. Scores go through shared memory: a lane then has a point, and
// takes its scores one by one, as many slots may end within a tile.
extern "C" __global__ void __launch_bounds__(BLOCK, $resident)
    km_shared_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char pass_shared[];
    pass_block &block = *(pass_block *)pass_shared;
    if (args.control->stop) return;
    pass_open(block, args);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    km_real(*scores)[TILE + 1] = block.scores[warp];
    for (long long first = blockIdx.x * (long long)POINTS; first < args.n; first += (long long)gridDim.x * POINTS) {
        pass_begin(block, nullptr, first, args.n);
        const long long i = first + warp * WARP_POINTS + lane;
        const bool mine = lane < WARP_POINTS && i < args.n;
        const pass_point point = pass_point_of(block.memory, mine ? i : 0);
        pass_place place = pass_place_of(0);
        pass_slot slot = {};
        pass_best best = {};
        pass_walk(block, args, 0, TILES, [&](int tile, const km_real (&score)[ROWS][COLUMNS]) {
            KM_UNROLL for (int r = 0; r < ROWS; r++)
                KM_UNROLL for (int c = 0; c < COLUMNS; c++) scores[pass_row(r)][pass_column(c)] = score[r][c];
            __syncwarp();
            const int rows = min((tile + 1) * TILE, COPIES * GROUPS);
            for (int row = tile * TILE; row < rows;) {
                if (row == place.end)
                    place = pass_place_of(place.slot + 1);
                else if (row < place.begin || row > place.end)
                    place = pass_place_of(pass_slot_of(row));
                if (row == place.begin) {
                    slot = pass_slot_known(block, place.slot);
                    best = {-FAR, -FAR, 0};
                }
                const int end = min(rows, place.end);
#pragma unroll 4
                for (; row < end; row++)
                    pass_take_score(best, scores[lane % WARP_POINTS][row - tile * TILE], row - place.begin);
                if (end == place.end)
                    pass_settle(block.memory, args.n, place.slot, i, mine, best,
                                pass_margin(pass_fine_of(block.memory), slot, point, best.best));
            }
            __syncwarp();
        });
    }
}
//@ else
//@ if not half_filter
//@ include cuda/tiled/scores.cu

//@ end
// Labels of all active slots; what is not sure is listed.
extern "C" __global__ void __launch_bounds__(BLOCK, $resident)
    km_shared_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char pass_shared[];
    pass_block &block = *(pass_block *)pass_shared;
    if (args.control->stop) return;
    pass_open(block, args);
    for (long long first = blockIdx.x * (long long)POINTS; first < args.n; first += (long long)gridDim.x * POINTS) {
        pass_begin(block, nullptr, first, args.n);
        pass_best state[ROWS];
        pass_place place = pass_place_of(0);
        pass_walk(block, args, 0, TILES, [&](int tile, const km_real (&score)[ROWS][COLUMNS]) {
            if (tile < place.begin || tile >= place.end)
                place = pass_place_of(pass_tile_slot(block.tile_slots, block.memory, tile));
            //@ if half_filter
            // The last bits of a score give way to its column.
            float before[ROWS];
            KM_UNROLL for (int r = 0; r < ROWS; r++) {
                if (tile == place.begin) state[r] = {-FAR, -FAR, 0};
                before[r] = state[r].best;
            }
            KM_UNROLL for (int c = 0; c < COLUMNS; c++)
                KM_UNROLL for (int r = 0; r < ROWS; r++) {
                    const float key = __uint_as_float((__float_as_uint(score[r][c]) & ~(COLUMNS - 1u)) | c);
                    state[r].second = fmaxf(state[r].second, fminf(state[r].best, key));
                    state[r].best = fmaxf(state[r].best, key);
                }
            KM_UNROLL for (int r = 0; r < ROWS; r++)
                if (state[r].best != before[r]) state[r].j = tile;
            //@ else
            if (tile == place.begin)
                KM_UNROLL for (int r = 0; r < ROWS; r++) state[r] = {-FAR, -FAR, COLUMNS};
            KM_UNROLL for (int c = 0; c < COLUMNS; c++)
                KM_UNROLL for (int r = 0; r < ROWS; r++) pass_take_score(state[r], score[r][c], c);
            const int j = (tile - place.begin) * TILE;
            KM_UNROLL for (int r = 0; r < ROWS; r++)
                if (state[r].j < COLUMNS) state[r].j = COLUMNS + j + pass_column(state[r].j);
            //@ end
            if (tile + 1 == place.end) pass_close(block, args, place, state, first);
        });
    }
}
//@ end

// The squared distance of a point and a centroid.
static __device__ double pass_distance(const km_real *x, const km_real *c) {
    constexpr int NUMBERS = PIECE / sizeof(km_real);
    double square = 0;
#pragma unroll 8
    for (int f = 0; f < D; f += NUMBERS) {
        const pass_piece a = *(const pass_piece *)(x + f), b = *(const pass_piece *)(c + f);
        KM_UNROLL for (int i = 0; i < NUMBERS; i++) {
            const double t = (double)a.at[i] - (double)b.at[i];
            square = fma(t, t, square);
        }
    }
    return square;
}

// The score of a point and a centroid in double.
static __device__ double pass_score(const km_real *x, const km_real *c) {
    constexpr int NUMBERS = PIECE / sizeof(km_real);
    double score = 0;
#pragma unroll 8
    for (int f = 0; f < D; f += NUMBERS) {
        const pass_piece a = *(const pass_piece *)(x + f), b = *(const pass_piece *)(c + f);
        KM_UNROLL for (int i = 0; i < NUMBERS; i++) score = fma((double)b.at[i], a.at[i] - 0.5 * b.at[i], score);
    }
    return score;
}

// Looks at up to 32 pairs of a point of the warp (5 bits) and a centroid: a lane each, then every lane takes those of
// its own point.
__device__ __forceinline__ void pass_decide(pass_nearest &nearest, const pass_block &block, const km_pass_args &args,
                                            const km_real *centroids, unsigned pair, int pairs) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % POINT_WARPS * WARP_POINTS;
    pass_nearest found = {0, (int)(pair >> 5)};
    if (lane < pairs)
        found.distance = pass_distance((const km_real *)args.points + block.points[first + pair % 32] * D,
                                       centroids + (long long)found.j * D);
    for (int from = 0; from < pairs; from++) {
        pass_nearest other;
        other.distance = __shfl_sync(0xffffffffu, found.distance, from);
        const unsigned other_pair = __shfl_sync(0xffffffffu, pair, from);
        other.j = (int)(other_pair >> 5);
        if (lane == other_pair % 32) nearest = pass_nearer(nearest, other);
    }
}

// Decides the listed points: of all centroids whose score may be the best, the nearest in double.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_shared_redo(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char pass_shared[];
    pass_block &block = *(pass_block *)pass_shared;
    if (args.control->stop || !args.active[blockIdx.y]) return;
    pass_open(block, args);
    const pass_place place = pass_place_of(blockIdx.y);
    const km_real *centroids =
        (const km_real *)args.centroids + ((long long)(place.slot / KS) * S + km_offsets[place.slot % KS]) * D;
    km_label *labels = block.memory.labels + place.slot * block.memory.stride;
    const unsigned listed = block.memory.slots[place.slot].listed;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, cluster_warp = warp / POINT_WARPS;
    const int mine = warp % POINT_WARPS * WARP_POINTS + lane % WARP_POINTS; // the point of this lane
    unsigned *queue = block.pairs[warp];
    for (long long first = blockIdx.x * (long long)POINTS; first < listed; first += (long long)gridDim.x * POINTS) {
        pass_begin(block, block.memory.lists + place.slot * args.n, first, listed);
        if (cluster_warp == 0 && lane < WARP_POINTS) { // the score that another centroid must reach to be looked at
            const long long i = block.points[mine];
            const double score = pass_score((const km_real *)args.points + i * D, centroids + (long long)labels[i] * D);
            const km_real margin = pass_margin(pass_fine_of(block.memory), pass_slot_known(block, place.slot),
                                               pass_point_of(block.memory, i), (km_real)score);
            block.expected[mine] = (km_real)(score - 2.0 * margin);
        }
        __syncthreads();
        pass_nearest nearest = {1e308, K_MAX};
        int queued = 0;
        const int tiles_begin = place.begin / TILE_GROUPS, tiles_end = (place.end - 1) / TILE_GROUPS + 1;
        pass_walk(block, args, tiles_begin, tiles_end, [&](int tile, const km_real (&score)[ROWS][COLUMNS]) {
            const int j = tile * TILE + cluster_warp * WARP_CLUSTERS - place.begin * PAD;
            unsigned long long open = 0; // scores that may be the best
            KM_UNROLL for (int r = 0; r < ROWS; r++) {
                const km_real expected = block.expected[mine - lane % WARP_POINTS + pass_row(r)];
                KM_UNROLL for (int c = 0; c < COLUMNS; c++)
                    open |= (unsigned long long)!(score[r][c] < expected) << (r * COLUMNS + c);
            }
            while (__any_sync(0xffffffffu, open != 0)) {
                const int bit = open ? __ffsll(open) - 1 : 0, candidate = j + pass_column(bit % COLUMNS);
                const bool valid = open && candidate >= 0 && candidate < place.k; // not another slot's, nor padding
                const unsigned lanes = __ballot_sync(0xffffffffu, valid);
                if (valid)
                    queue[queued + __popc(lanes & ((1u << lane) - 1))] = candidate << 5 | pass_row(bit / COLUMNS);
                open &= open - 1;
                queued += __popc(lanes);
                __syncwarp();
                if (queued < 32) continue;
                pass_decide(nearest, block, args, centroids, queue[lane], 32);
                queued -= 32;
                const unsigned rest = queue[32 + lane];
                __syncwarp();
                queue[lane] = rest;
                __syncwarp();
            }
        });
        pass_decide(nearest, block, args, centroids, queue[lane], queued);
        //@ if several_warps
        // The warps that have the same points.
        block.nearest[cluster_warp][mine] = nearest;
        __syncthreads();
        for (int w = 0; w < CLUSTER_WARPS; w++) nearest = pass_nearer(nearest, block.nearest[w][mine]);
        //@ end
        if (cluster_warp == 0 && lane < WARP_POINTS && first + mine < listed)
            labels[block.points[mine]] = (km_label)nearest.j;
    }
}

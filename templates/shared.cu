// SPDX-License-Identifier: MIT
//@ include cuda.h
//@ need resident point_warps cluster_warps warp_points rows columns pad groups tile_features chunks piece half_filter
//@ need half labels_grid redo_grid async sorted

// The pass of design `shared`: any d, any K, any type. It is tiled like a matrix product: a block holds a tile of
// points and walks over tiles of centroids in shared memory; a thread has the scores
//     x . c - |c|^2 / 2
// of ROWS points and COLUMNS centroids in registers and keeps the best two of each point. Where these are closer than
// rounding may account for, the point is listed for its slot; km_shared_redo walks over the listed points again and
// decides between all centroids that may be the nearest by distances in double. Ties go to the lowest index.
//
// Centroids stand in a table, those of a slot padded to whole groups of PAD rows; a tile is TILE rows of the table.

#define KM_UNROLL _Pragma("unroll")

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
    TILE = CLUSTER_WARPS * WARP_CLUSTERS,
    PAD = $pad,                     // rows of a group, all of one slot: a tile, or 1
    GROUPS = $groups,               // groups of one copy
    TILE_GROUPS = TILE / PAD,
    TILES = (COPIES * GROUPS + TILE_GROUPS - 1) / TILE_GROUPS,
    FEATURES = $tile_features,      // features worked on at a time
    CHUNKS = $chunks,
    WIDTH = FEATURES * CHUNKS,      // d, padded
    PIECE = $piece,                 // bytes of one copy from a point: 16, or what divides a row
    LABELS_GRID = $labels_grid,
    REDO_GRID = $redo_grid,
    KEPT_SLOTS = COPIES * KS < 64 ? COPIES * KS : 64,   // what a block keeps of slots and tiles in shared memory
    KEPT_TILES = TILES < 64 ? int(TILES) : 64
};

// The first group of each K.
__constant__ const int km_groups[KS] = {
    //@ for k in ks
    $k_group,
    //@ end
};

//@ if half_filter
typedef unsigned short pass_number; // of the table of centroids: half precision, as bits
//@ else
typedef km_real pass_number;
//@ end
//@ if float64
typedef unsigned long long pass_bits; // of a km_real
//@ else
typedef unsigned pass_bits;
//@ end

// What is known of the centroids of a slot. Bits of a number that is not negative are in the order of the numbers.
struct pass_slot {
    pass_bits norm;   // the largest |c|
    pass_bits coarse; // the largest share of |c| that half precision loses
    unsigned listed;  // points that are to be decided again
    unsigned unused;
};

// The workspace.
struct pass_memory {
    km_real *scale; // of points and centroids in half precision
    pass_slot *slots;
    int *tile_slots; // the slot of a tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2
    pass_number *table;
    km_real *norms;     // |x|
    km_real *residuals; // what half precision loses of it
    km_label *labels;
    unsigned *lists; // points that are to be decided again
    char *sums;       // what adding needs
    long long stride; // of a slot's labels: past the last point come zeros
};

__device__ __forceinline__ char *pass_take(char **at, long long bytes) {
    char *taken = *at;
    *at += (bytes + KM_ALIGN_BYTES - 1) / KM_ALIGN_BYTES * KM_ALIGN_BYTES;
    return taken;
}

__device__ __forceinline__ pass_memory pass_memory_of(const km_pass_args &args) {
    pass_memory memory;
    char *at = (char *)args.workspace;
    memory.scale = (km_real *)pass_take(&at, sizeof(km_real));
    memory.slots = (pass_slot *)pass_take(&at, COPIES * KS * sizeof(pass_slot));
    memory.tile_slots = (int *)pass_take(&at, TILES * 4ll);
    memory.half_squares = (km_real *)pass_take(&at, (long long)TILES * TILE * sizeof(km_real));
    memory.table = (pass_number *)pass_take(&at, (long long)TILES * TILE * WIDTH * sizeof(pass_number));
    memory.norms = (km_real *)pass_take(&at, args.n * sizeof(km_real));
    memory.residuals = (km_real *)pass_take(&at, args.n * ($half * sizeof(km_real)));
    memory.stride = (args.n + 255) / 256 * 256;
    memory.labels = (km_label *)pass_take(&at, COPIES * KS * memory.stride * (int)sizeof(km_label));
    memory.lists = (unsigned *)pass_take(&at, (long long)COPIES * KS * args.n * 4);
    memory.sums = at;
    return memory;
}

// A slot's place in the table of centroids.
struct pass_place {
    int slot, k;
    int begin, end; // groups
};

__device__ __forceinline__ pass_place pass_place_of(int slot) {
    pass_place place;
    const int k_index = slot % KS;
    place.slot = slot;
    place.k = km_ks[k_index];
    place.begin = slot / KS * GROUPS + km_groups[k_index];
    place.end = place.begin + (place.k + PAD - 1) / PAD;
    return place;
}

__device__ int pass_slot_of(int group) {
    int low = 0, high = KS - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (km_groups[middle] <= group % GROUPS)
            low = middle;
        else
            high = middle - 1;
    }
    return group / GROUPS * KS + low;
}

__device__ __forceinline__ double pass_warp_sum(double value) {
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

// Rounded up, so that a bound stays one.
__device__ __forceinline__ km_real pass_above(double value) {
    return (km_real)(value * (1 + 1.0 / 1048576));
}

// A row's best two scores so far.
struct pass_best {
    km_real best, second;
    int j; // the centroid of the best; in a loop over tiles what leads to it
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
//@ include shared_half.cu
//@ else
//@ include shared_plain.cu
//@ end

// Once: |x| of each point, a warp each.
extern "C" __global__ void __launch_bounds__(256) km_shared_norms(const __grid_constant__ km_pass_args args) {
    const pass_memory memory = pass_memory_of(args);
    //@ if half_filter
    const float scale = pass_scale(args);
    if (blockIdx.x == 0 && threadIdx.x == 0) *memory.scale = scale;
    //@ end
    const int lane = threadIdx.x % 32;
    for (long long i = blockIdx.x * 8ll + threadIdx.x / 32; i < args.n; i += gridDim.x * 8ll) {
        const km_real *x = (const km_real *)args.points + i * D;
        double square = 0, lost = 0;
        for (int f = lane; f < D; f += 32) {
            square = fma((double)x[f], (double)x[f], square);
            //@ if half_filter
            const double rest = x[f] - pass_half_value(pass_half_of(x[f] * scale)) / scale;
            lost = fma(rest, rest, lost);
            //@ end
        }
        square = pass_warp_sum(square);
        lost = pass_warp_sum(lost);
        if (lane != 0) continue;
        memory.norms[i] = pass_above(sqrt(square));
        //@ if half_filter
        memory.residuals[i] = pass_above(sqrt(lost));
        //@ end
    }
}

// The table of centroids, a warp each row.
extern "C" __global__ void __launch_bounds__(256) km_shared_prepare(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const pass_memory memory = pass_memory_of(args);
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= TILES * TILE) return;
    const int group = row / PAD;
    if (row % TILE == 0 && lane == 0) {
        int active = 0;
        for (int g = group; g < group + TILE_GROUPS && g < COPIES * GROUPS; g++)
            active |= args.active[pass_slot_of(g)];
        memory.tile_slots[row / TILE] = active ? pass_slot_of(group) : -1;
    }
    const pass_place place = pass_place_of(group < COPIES * GROUPS ? pass_slot_of(group) : 0);
    const int j = row - place.begin * PAD, real = group < COPIES * GROUPS && j < place.k;
    const long long first = (long long)(place.slot / KS) * S + km_offsets[place.slot % KS];
    const km_real *c = (const km_real *)args.centroids + (first + j) * D;
    pass_number *to = memory.table + (long long)row * WIDTH;
    double square = 0, lost = 0;
    for (int f = lane; f < WIDTH; f += 32) {
        const km_real value = real && f < D ? c[f] : (km_real)0;
        square = fma((double)value, (double)value, square);
        //@ if half_filter
        const float scale = *memory.scale;
        to[f] = pass_half_of(fminf(fmaxf(value * scale, -65504.f), 65504.f));
        const double rest = value - pass_half_value(to[f]) / scale;
        lost = fma(rest, rest, lost);
        //@ else
        to[f] = value;
        //@ end
    }
    square = pass_warp_sum(square);
    lost = pass_warp_sum(lost);
    if (lane != 0) return;
    memory.half_squares[row] = real ? (km_real)(square / 2) : FAR;
    if (!real) return;
    pass_slot *slot = memory.slots + place.slot;
    const km_real norm = pass_above(sqrt(square));
    atomicMax(&slot->norm, pass_bits_of(norm));
    //@ if half_filter
    const double share = (sqrt(lost) - pass_fine(*memory.scale)) / (norm > 0 ? norm : 1);
    atomicMax(&slot->coarse, pass_bits_of(pass_above(share > 0 ? share : 0)));
    //@ end
}

// What a margin needs of a point.
struct pass_point {
    km_real norm, lost;
};

__device__ __forceinline__ pass_point pass_point_of(const pass_memory &memory, long long i) {
    //@ if half_filter
    return {memory.norms[i], memory.residuals[i]};
    //@ else
    return {memory.norms[i], 0};
    //@ end
}

// How far below the best score another may be measured and still be the best: both scores' errors. For a point of norm
// g, a centroid's is at most e |c| (and a constant), e the part of g that products and sums may lose. A centroid of
// |c| >= 4 g has a score t of at most -|c|^2 / 4, so that its error is at most e / g |t|: such centroids count for as
// much as the best score does. The factors have room for the rounding of these lines.
__device__ __forceinline__ km_real pass_margin(const pass_memory &memory, const pass_slot &slot,
                                               const pass_point &point, km_real best) {
    const km_real g = point.norm, c = pass_value_of(slot.norm), near = c < 4 * g ? c : 4 * g;
    //@ if half_filter
    const km_real e = point.lost + g * (pass_value_of(slot.coarse) + ROUNDING);
    km_real margin = 2.01f * (e * near + (g + point.lost) * pass_fine(*memory.scale));
    margin += fabsf(best) / 131072; // for the bits that a column has taken
    //@ else
    const km_real e = g * ROUNDING;
    km_real margin = (km_real)2.01 * e * near;
    //@ end
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

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

// Takes one more score of a row, of column or centroid j.
__device__ __forceinline__ void pass_take_score(pass_best &row, km_real score, int j) {
    const bool better = score > row.best;
    //@ if float64
    const double loser = better ? row.best : score;
    row.second = loser > row.second ? loser : row.second;
    row.best = better ? score : row.best;
    //@ else
    row.second = fmaxf(row.second, fminf(row.best, score));
    row.best = fmaxf(row.best, score);
    //@ end
    row.j = better ? j : row.j;
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
                pass_margin(block.memory, pass_slot_known(block, place.slot), point, rows[0].best));
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
                                pass_margin(block.memory, slot, point, best.best));
            }
            __syncwarp();
        });
    }
}
//@ else
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

// Numbers that lie side by side in a point and in a centroid.
struct __align__(PIECE) pass_piece {
    km_real at[PIECE / sizeof(km_real)];
};

// The squared distance of a point and a centroid.
__device__ double pass_distance(const km_real *x, const km_real *c) {
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
__device__ double pass_score(const km_real *x, const km_real *c) {
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
            const km_real margin = pass_margin(block.memory, pass_slot_known(block, place.slot),
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

//@ if track_labels
// Counts the labels that changed, and keeps the new ones.
extern "C" __global__ void __launch_bounds__(256) km_shared_track(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const pass_memory memory = pass_memory_of(args);
    const km_label *labels = memory.labels + slot * memory.stride;
    km_label *kept = (km_label *)args.labels + slot * args.labels_stride;
    unsigned changes = 0;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.n; i += gridDim.x * 256ll) {
        changes += kept[i] != labels[i];
        kept[i] = labels[i];
    }
    changes = (unsigned)pass_warp_sum(changes);
    if (changes && threadIdx.x % 32 == 0) atomicAdd(args.changes + slot, (unsigned long long)changes);
}

//@ end
// The workspace but for what adding needs.
constexpr long long PASS_BYTES =
    16 * KM_ALIGN_BYTES + COPIES * KS * (256ll * sizeof(km_label) + sizeof(pass_slot)) + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + WIDTH * sizeof(pass_number));
constexpr long long PASS_POINT_BYTES = (1 + $half) * sizeof(km_real) +
                                       COPIES * KS * ((long long)sizeof(km_label) + 4);

//@ if sorted
//@ include shared_sorted.cu
//@ else
//@ include shared_ranges.cu
//@ end

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_shared_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_shared_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_shared_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(pass_block), 0},
    {"km_shared_redo", KM_STAGE_PASS, REDO_GRID, COPIES * KS, BLOCK, sizeof(pass_block), 0},
    //@ if track_labels
    {"km_shared_track", KM_STAGE_PASS, LABELS_GRID, COPIES * KS, 256, 0, 0},
    //@ end
    //@ if sorted
    //@ for pass in sort_passes
    {"km_shared_count", KM_STAGE_PASS, RANGES, COPIES * KS, DIGITS, 0, $pass},
    {"km_shared_order", KM_STAGE_PASS, RANGES, COPIES * KS, DIGITS, 0, $pass},
    //@ end
    {"km_shared_stretches", KM_STAGE_PASS, (STRETCHES * LANES + 127) / 128 * PARTS, COPIES * KS, 128, 0, 0},
    {"km_shared_totals", KM_STAGE_PASS, K_MAX, COPIES * KS, 128, 0, 0},
    //@ else
    {"km_shared_sums", KM_STAGE_PASS, RANGES, PARTS * SLOT_GROUPS, SUM_WARPS * 32, sizeof(pass_sums), 0},
    {"km_shared_reduce", KM_STAGE_PASS, (COPIES * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
    //@ end
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    PASS_BYTES + SUMS_BYTES, PASS_POINT_BYTES + SUMS_POINT_BYTES};
}
//@ include steps.cu

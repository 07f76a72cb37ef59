// Of the text of {features: 8, clusters: 256, target: cuda:sm_75} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

// The pass, design `tiled`: any d, any K, any type. Labels first, then sums.
//
// Labels. A point and a centroid have the score
//     x . c - |c|^2 / 2,
// and the centroid with the largest score is the nearest. Scores are products of matrices (the points, and the table of
// all centroids); for each point the best two of a slot are kept.
// Where the two are closer than rounding may account for, the point is ambiguous: it is listed for its slot, and
// km_tiled_resolve decides it by distances in double. Ties go to the lowest index.
//
// Sums. The points of a slot are put in the order of their labels; segments of that order are added up.
//
// The table holds the centroids of all slots, those of a slot padded to whole groups of PAD rows; a tile is TILE rows
// of it.
enum {
    PAD = 64,   // rows of a group, all of one slot: a tile, or 1
    GROUPS = 4, // groups of one restart
    TILE = 64,  // rows of a tile
    TILE_GROUPS = TILE / PAD,
    TILES = (RESTARTS * GROUPS + TILE_GROUPS - 1) / TILE_GROUPS,
    FEATURES = 8,              // features worked on at a time
    CHUNKS = 1,                // of so many features
    WIDTH = FEATURES * CHUNKS, // d, padded
    PIECE = 16,                // bytes that are copied at a time from a point: 16, or what divides a row
    LABELS_GRID = 80           // blocks that make labels
};

// The first group of each K.
__constant__ const int km_groups[KS] = {
    0,
};

// The workspace.
typedef km_real km_table_number;
typedef unsigned km_bits;

// ... 1 definition

struct km_workspace {
    km_slot_bounds *slots;
    int *tile_slots;       // the slot of a tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2 of each row of the table
    km_table_number *table;
    km_real *norms;   // |x| of each point
    km_label *labels; // of each slot, `stride` apart: past the last point come zeros
    long long stride;
    unsigned *lists; // of each slot: its ambiguous points
    char *sums;      // what adding needs
};

// ... 1 definition

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    workspace.slots = (km_slot_bounds *)km_take(&at, RESTARTS * KS * sizeof(km_slot_bounds));
    workspace.tile_slots = (int *)km_take(&at, TILES * 4ll);
    workspace.half_squares = (km_real *)km_take(&at, (long long)TILES * TILE * sizeof(km_real));
    workspace.table =
        (km_table_number *)km_take(&at, (long long)TILES * TILE * WIDTH * sizeof(km_table_number));
    workspace.norms = (km_real *)km_take(&at, args.n * sizeof(km_real));
    workspace.stride = (args.n + 255) / 256 * 256;
    workspace.labels = (km_label *)km_take(&at, RESTARTS * KS * workspace.stride * (int)sizeof(km_label));
    workspace.lists = (unsigned *)km_take(&at, (long long)RESTARTS * KS * args.n * 4);
    workspace.sums = at;
    return workspace;
}

// ... 4 definitions

// Bytes of the workspace, and of it for each point, but for what adding needs.
constexpr long long TABLE_BYTES =
    16 * KM_ALIGN_BYTES + RESTARTS * KS * (256ll * sizeof(km_label) + sizeof(km_slot_bounds)) + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + WIDTH * sizeof(km_table_number));
constexpr long long TABLE_POINT_BYTES = sizeof(km_real) + RESTARTS * KS * ((long long)sizeof(km_label) + 4);

// ... 4 definitions

// What a centroid may lose below the smallest normal number of its type in the table.
__device__ __forceinline__ km_real km_fine(const km_workspace &) {
    return 0;
}

// ... 2 definitions

__device__ __forceinline__ km_norms km_norms_of(const km_workspace &workspace, long long i) {
    return {workspace.norms[i], 0};
}

// How far below the best score another may be measured and still be the best: both scores' errors. For a point of norm
// g, a centroid's is at most e |c| (and a constant), e the part of g that products and sums may lose. A centroid of
// |c| >= 4 g has a score t of at most -|c|^2 / 4, so that its error is at most e / g |t|: such centroids count for as
// much as the best score does. The factors have room for the rounding of these lines.
__device__ __forceinline__ km_real km_margin(km_real fine, const km_slot_bounds &slot, const km_norms &point,
                                             km_real best) {
    const km_real g = point.norm, c = km_value_of(slot.norm), near = c < 4 * g ? c : 4 * g;
    const km_real e = g * ROUNDING;
    km_real margin = (km_real)2.01 * e * near;
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

// When points are loaded: |x| of each point, a warp each.
extern "C" __global__ void __launch_bounds__(256) km_tiled_norms(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    const int lane = threadIdx.x % 32;
    for (long long i = blockIdx.x * 8ll + threadIdx.x / 32; i < args.n; i += gridDim.x * 8ll) {
        const km_real *x = (const km_real *)args.points + i * D;
        double square = 0;
        for (int f = lane; f < D; f += 32) {
            square = fma((double)x[f], (double)x[f], square);
        }
        square = km_warp_sum(square);
        if (lane != 0) continue;
        workspace.norms[i] = km_above(sqrt(square));
    }
}

// In each pass: the table of centroids, a warp each row. Four blocks of a multiprocessor: said, or the compiler aims at
// more, and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_prepare(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= TILES * TILE) return;
    const int group = row / PAD;
    if (row % TILE == 0) {
        int active = 0;
        for (int g = group + lane; g < group + TILE_GROUPS && g < RESTARTS * GROUPS; g += 32)
            active |= args.active[km_slot_of(g)];
        active = __any_sync(0xffffffffu, active);
        if (lane == 0) workspace.tile_slots[row / TILE] = active ? km_slot_of(group) : -1;
    }
    const km_place place = km_place_of(group < RESTARTS * GROUPS ? km_slot_of(group) : 0);
    const int j = row - place.begin * PAD, real = group < RESTARTS * GROUPS && j < place.k;
    const long long first = (long long)(place.slot / KS) * S + km_offsets[place.slot % KS];
    const km_real *c = (const km_real *)args.centroids + (first + j) * D;
    km_table_number *to = workspace.table + (long long)row * WIDTH;
    double square = 0;
    for (int f = lane; f < WIDTH; f += 32) {
        const km_real value = real && f < D ? c[f] : (km_real)0;
        square = fma((double)value, (double)value, square);
        to[f] = value;
    }
    square = km_warp_sum(square);
    if (lane != 0) return;
    workspace.half_squares[row] = real ? (km_real)(square / 2) : FAR;
    if (!real) return;
    km_slot_bounds *slot = workspace.slots + place.slot;
    const km_real norm = km_above(sqrt(square));
    atomicMax(&slot->norm, km_bits_of(norm));
}

// ... 1 definition

enum {
    POINT_WARPS = 4,   // warps of a block side by side in the points ...
    CLUSTER_WARPS = 1, // ... and in the centroids of a tile
    WARPS = POINT_WARPS * CLUSTER_WARPS,
    BLOCK = 32 * WARPS,
    WARP_POINTS = 32,                // points of a warp
    ROWS = 8,                        // of them, those of one thread
    COLUMNS = 8,                     // centroids of a tile of one thread
    SHARE = 32 * ROWS / WARP_POINTS, // lanes that have the same points
    WARP_CLUSTERS = COLUMNS * SHARE,
    POINTS = POINT_WARPS * WARP_POINTS,
    RESOLVE_GRID = 80,
    KEPT_SLOTS =
        RESTARTS * KS < 64 ? RESTARTS * KS : 64, // what a block keeps of slots and tiles in shared memory
    KEPT_TILES = TILES < 64 ? int(TILES) : 64
};

// ... 8 definitions

// Takes one more score, of column or centroid j.
__device__ __forceinline__ void km_take_score(km_best_two &row, km_real score, int j) {
    const bool better = score > row.best;
    row.second = fmaxf(row.second, fminf(row.best, score));
    row.best = fmaxf(row.best, score);
    row.j = better ? j : row.j;
}

// ... 1 definition

enum {
    VECTOR = 4, // numbers of one 16-byte load
    STRIDE = FEATURES / VECTOR % 2 ? FEATURES
                                   : FEATURES + VECTOR // of rows in shared memory: eight in different banks
};

// ... 1 definition

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
};

// ... 13 definitions

// Labels of the block's points for one slot.
__device__ __forceinline__ void km_end_slot(km_block &block, const km_pass_args &args, const km_place &place,
                                            const km_best_two *state, long long first) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    km_best_two rows[ROWS];
    KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
        const int j = state[r].j - COLUMNS;
        rows[r] = {state[r].best, state[r].second, j};
    }
    km_join_lanes<ROWS, SHARE / 2>(rows);
    const int local = warp % POINT_WARPS * WARP_POINTS + km_row(lane % SHARE / (SHARE / ROWS));
    bool mine = lane % (SHARE / ROWS) == 0;
    const long long i = first + local;
    mine = mine && i < args.n;
    const km_norms point = km_norms_of(block.workspace, mine ? i : 0);
    km_write_label(block.workspace, args.n, place.slot, i, mine, rows[0],
                   km_margin(km_fine(block.workspace), km_bounds_of(block, place.slot), point, rows[0].best));
}

// Labels of all active slots; ambiguous points are listed.
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    km_begin_block(block, args);
    for (long long first = blockIdx.x * (long long)POINTS; first < args.n;
         first += (long long)gridDim.x * POINTS) {
        km_begin_points(block, nullptr, first, args.n);
        km_best_two state[ROWS];
        km_place place = km_place_of(0);
        km_walk(block, args, 0, TILES, [&](int tile, const km_real(&score)[ROWS][COLUMNS]) {
            if (tile < place.begin || tile >= place.end)
                place = km_place_of(km_tile_slot(block.tile_slots, block.workspace, tile));
            if (tile == place.begin)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) state[r] = {-FAR, -FAR, COLUMNS};
            KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) km_take_score(state[r], score[r][c], c);
            const int j = (tile - place.begin) * TILE;
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++)
                if (state[r].j < COLUMNS) state[r].j = COLUMNS + j + km_column(state[r].j);
            if (tile + 1 == place.end) km_end_slot(block, args, place, state, first);
        });
    }
}

// ... 3 definitions

// Resolves the ambiguous points: of all centroids whose score may be the best, the nearest in double.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tiled_resolve(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop || !args.active[blockIdx.y]) return;
    km_begin_block(block, args);
    const km_place place = km_place_of(blockIdx.y);
    const km_real *centroids = (const km_real *)args.centroids +
                               ((long long)(place.slot / KS) * S + km_offsets[place.slot % KS]) * D;
    km_label *labels = block.workspace.labels + place.slot * block.workspace.stride;
    const unsigned listed = block.workspace.slots[place.slot].ambiguous;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, cluster_warp = warp / POINT_WARPS;
    const int mine = warp % POINT_WARPS * WARP_POINTS + lane % WARP_POINTS; // the point of this lane
    unsigned *queue = block.pairs[warp];
    for (long long first = blockIdx.x * (long long)POINTS; first < listed;
         first += (long long)gridDim.x * POINTS) {
        km_begin_points(block, block.workspace.lists + place.slot * args.n, first, listed);
        if (cluster_warp == 0 &&
            lane < WARP_POINTS) { // the score that another centroid must reach to be looked at
            const long long i = block.points[mine];
            const double score =
                km_score((const km_real *)args.points + i * D, centroids + (long long)labels[i] * D);
            const km_real margin = km_margin(km_fine(block.workspace), km_bounds_of(block, place.slot),
                                             km_norms_of(block.workspace, i), (km_real)score);
            block.expected[mine] = (km_real)(score - 2.0 * margin);
        }
        __syncthreads();
        km_nearest nearest = {1e308, K_MAX};
        int queued = 0;
        const int tiles_begin = place.begin / TILE_GROUPS, tiles_end = (place.end - 1) / TILE_GROUPS + 1;
        km_walk(block, args, tiles_begin, tiles_end, [&](int tile, const km_real(&score)[ROWS][COLUMNS]) {
            const int j = tile * TILE + cluster_warp * WARP_CLUSTERS - place.begin * PAD;
            unsigned long long open = 0; // scores that may be the best
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
                const km_real expected = block.expected[mine - lane % WARP_POINTS + km_row(r)];
                KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++)
                    open |= (unsigned long long)!(score[r][c] < expected) << (r * COLUMNS + c);
            }
            while (__any_sync(0xffffffffu, open != 0)) {
                const int bit = open ? __ffsll(open) - 1 : 0, candidate = j + km_column(bit % COLUMNS);
                const bool valid =
                    open && candidate >= 0 && candidate < place.k; // not another slot's, nor padding
                const unsigned lanes = __ballot_sync(0xffffffffu, valid);
                if (valid)
                    queue[queued + __popc(lanes & ((1u << lane) - 1))] =
                        candidate << 5 | km_row(bit / COLUMNS);
                open &= open - 1;
                queued += __popc(lanes);
                __syncwarp();
                if (queued < 32) continue;
                km_compare(nearest, block, args, centroids, queue[lane], 32);
                queued -= 32;
                const unsigned rest = queue[32 + lane];
                __syncwarp();
                queue[lane] = rest;
                __syncwarp();
            }
        });
        km_compare(nearest, block, args, centroids, queue[lane], queued);
        if (cluster_warp == 0 && lane < WARP_POINTS && first + mine < listed)
            labels[block.points[mine]] = (km_label)nearest.j;
    }
}

// ... 2 definitions

enum {
    RANGES = 80,     // of points, a block each, while they are ordered
    DIGITS = 256,    // values of the digit by which one pass orders
    SORT_PASSES = 1, // digits of a label
    SEGMENTS = 1280, // of the order, a team each
    LANES = 2,       // lanes of a team
    NUMBERS = 4,     // features of a lane, side by side
    PARTS = 1,       // teams that share the features of a point
    SUM_AHEAD = 4    // points that a team reads before it adds them
};
constexpr long long SUMS_BYTES = 4ll * RESTARTS * KS * RANGES * DIGITS + 4ll * RESTARTS * (S + KS) +
                                 16ll * RESTARTS * KS * SEGMENTS * (D + 1);
constexpr long long SUMS_POINT_BYTES = (SORT_PASSES - 1) * 4ll * RESTARTS * KS;

// ... 10 definitions

extern "C" __global__ void __launch_bounds__(128)
    km_tiled_segments(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y, lane = threadIdx.x % LANES, part = blockIdx.x % PARTS;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    const unsigned *order = sorting.orders[SORT_PASSES - 1];
    const long long segment = (blockIdx.x / PARTS) * (128 / LANES) + threadIdx.x / LANES;
    const long long length = (args.n + SEGMENTS - 1) / SEGMENTS, begin = segment * length;
    const long long end = begin + length < args.n ? begin + length : args.n;
    if (begin >= end) return;
    const int f = (part * LANES + lane) * NUMBERS, teller = part == 0 && lane == 0;
    double *totals = args.totals + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * (D + 1);
    double *edges = sorting.edges + segment * 2 * (D + 1);
    const auto leave = [&](km_label_sums &run, long long place) {
        double *inner = totals + run.label * (D + 1ll);
        double *to = run.first == begin ? edges : place == end ? edges + D + 1 : inner;
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
            if (f + i < D) to[f + i] = run.sums[i];
        if (teller) to[D] = run.weight;
    };
    km_label_sums run = {};
    run.first = begin;
    run.label = labels[order[begin]];
    if (teller) km_begin_clusters(sorting, begin > 0 ? labels[order[begin - 1]] + 1 : 0, run.label, begin);
    for (long long at = begin; at < end; at += SUM_AHEAD) {
        km_features x[SUM_AHEAD];
        int label[SUM_AHEAD];
        double weight[SUM_AHEAD];
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            const long long point = order[at + a < end ? at + a : at];
            label[a] = labels[point];
            x[a] = {};
            if (f < D) x[a] = *(const km_features *)((const km_real *)args.points + point * D + f);
            weight[a] = ((const km_real *)args.weights)[point];
        }
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            if (at + a >= end) break;
            if (label[a] != run.label) {
                leave(run, at + a);
                if (teller) km_begin_clusters(sorting, run.label + 1, label[a], at + a);
                run = {};
                run.first = at + a;
                run.label = label[a];
            }
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
                run.sums[i] = fma(weight[a], (double)x[a].at[i], run.sums[i]);
            run.weight += weight[a];
        }
    }
    leave(run, end);
    if (teller && end == args.n) km_begin_clusters(sorting, run.label + 1, km_ks[slot % KS], end);
}

// ... 1 definition

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tiled_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_tiled_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(km_block), 0},
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, BLOCK, sizeof(km_block), 0},
    {"km_tiled_track", KM_STAGE_PASS, LABELS_GRID, RESTARTS *KS, 256, 0, 0},
    {"km_tiled_count", KM_STAGE_PASS, RANGES, RESTARTS *KS, DIGITS, 0, 0},
    {"km_tiled_order", KM_STAGE_PASS, RANGES, RESTARTS *KS, DIGITS, 0, 0},
    {"km_tiled_segments", KM_STAGE_PASS, (SEGMENTS * LANES + 127) / 128 * PARTS, RESTARTS *KS, 128, 0, 0},
    {"km_tiled_totals", KM_STAGE_PASS, K_MAX, RESTARTS *KS, 128, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}

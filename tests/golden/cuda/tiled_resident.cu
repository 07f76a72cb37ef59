// Of the text of {features: 24, clusters: 256, target: cuda:sm_75} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

// The pass, design `tiled`: any d, any K, any type. Labels first, then sums.
//
// Labels. The score of a point and a centroid is
//     x . c - |c|^2 / 2,
// and the centroid with the largest score is the nearest.
// Scores are products of two matrices: the points, and the table of all centroids. For each point and slot the best two
// scores are kept.
// Where the two are closer than the error of a score, the point is ambiguous: it goes to a list of the slot, and
// km_tiled_resolve finds its nearest centroid by distances in double. Ties go to the lowest index.
//
// Sums. The points of a slot are sorted by label, and segments of that order are added in registers.
//
// The table holds the centroids of all slots, those of a slot padded to whole panels of PANEL_ROWS rows. A tile is TILE
// rows of it.
enum {
    PANEL_ROWS = 64, // rows of a panel, all of one slot: a tile, or 1
    PANELS = 4,      // panels of one restart
    TILE = 64,       // rows of a tile
    TILE_PANELS = TILE / PANEL_ROWS,
    TILES = (RESTARTS * PANELS + TILE_PANELS - 1) / TILE_PANELS,
    TILE_FEATURES = 12,                // features that are multiplied at a time: a slice
    SLICES = 2,                        // of so many features each
    PADDED_D = TILE_FEATURES * SLICES, // D, padded to whole slices
    PIECE_BYTES =
        16,          // bytes that are copied at a time from a point: 16, or less where that does not divide a row
    LABELS_GRID = 80 // blocks of km_tiled_labels
};

// The first panel of each K.
__constant__ const int km_first_panels[KS] = {
    0,
};

// The workspace.
typedef km_real km_table_number;
typedef unsigned km_bits;

// ... 1 definition

struct km_workspace {
    km_slot_bounds *slots;
    int *tile_slots;       // the slot of each tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2 of each row of the table
    km_table_number *table;
    km_real *norms;   // |x| of each point
    km_label *labels; // of each slot, `stride` apart; zeros past the last point
    long long stride;
    unsigned *lists; // of each slot: its ambiguous points
    char *sums;      // of the kernels that add points
};

// ... 1 definition

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    workspace.slots = (km_slot_bounds *)km_take_bytes(&at, RESTARTS * KS * sizeof(km_slot_bounds));
    workspace.tile_slots = (int *)km_take_bytes(&at, TILES * 4ll);
    workspace.half_squares = (km_real *)km_take_bytes(&at, (long long)TILES * TILE * sizeof(km_real));
    workspace.table =
        (km_table_number *)km_take_bytes(&at, (long long)TILES * TILE * PADDED_D * sizeof(km_table_number));
    workspace.norms = (km_real *)km_take_bytes(&at, args.n * sizeof(km_real));
    workspace.stride = (args.n + 255) / 256 * 256;
    workspace.labels =
        (km_label *)km_take_bytes(&at, RESTARTS * KS * workspace.stride * (int)sizeof(km_label));
    workspace.lists = (unsigned *)km_take_bytes(&at, (long long)RESTARTS * KS * args.n * 4);
    workspace.sums = at;
    return workspace;
}

// ... 4 definitions

// Bytes of the workspace, and bytes for each point, without those of the kernels that add points.
constexpr long long SLOTS_BYTES =
    16 * KM_ALIGN_BYTES + RESTARTS * KS * (256ll * sizeof(km_label) + sizeof(km_slot_bounds));
constexpr long long SLOTS_POINT_BYTES = RESTARTS * KS * ((long long)sizeof(km_label) + 4);
constexpr long long TABLE_BYTES =
    SLOTS_BYTES + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + PADDED_D * sizeof(km_table_number));
constexpr long long TABLE_POINT_BYTES = sizeof(km_real) + SLOTS_POINT_BYTES;

// ... 4 definitions

// What a centroid in the table may lose by underflow: below the smallest normal half.
__device__ __forceinline__ km_real km_underflow(const km_workspace &) {
    return 0;
}

// ... 2 definitions

__device__ __forceinline__ km_norms km_norms_of(const km_workspace &workspace, long long i) {
    return {workspace.norms[i], 0};
}

// The margin: how far below the best score the nearest centroid may be, which is the error of both scores. For a
// point of norm g, the error of a score is at most e |c| and a constant, where e is the error of products and sums.
// A centroid of |c| >= 4 g has a score t of at most -|c|^2 / 4, so its error is at most e / g |t|; the best score
// is larger than t. The factors leave room for the rounding of these lines.
__device__ __forceinline__ km_real km_margin(km_real underflow, const km_slot_bounds &slot,
                                             const km_norms &point, km_real best) {
    const km_real g = point.norm, c = km_value_of(slot.norm), effective = c < 4 * g ? c : 4 * g;
    const km_real e = g * ROUNDING;
    km_real margin = (km_real)2.01 * e * effective;
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

// ... 1 definition

// Load: |x| of each point, a warp each. Without a minimum of four blocks a multiprocessor the compiler aims at more,
// and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_norms(const __grid_constant__ km_pass_args args) {
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
        workspace.norms[i] = km_upper_bound(sqrt(square));
    // ... lines of a template
    for (int f = lane; f < PADDED_D; f += 32) {
        const km_real value = real && f < D ? c[f] : (km_real)0;
        square = fma((double)value, (double)value, square);
        to[f] = value;
    }
    square = km_warp_sum(square);
    if (lane != 0) return;
    workspace.half_squares[row] = real ? (km_real)(square / 2) : FAR;
    if (!real) return;
    km_slot_bounds *slot = workspace.slots + panels.slot;
    const km_real norm = km_upper_bound(sqrt(square));
    atomicMax(&slot->norm, km_bits_of(norm));
}

// ... 1 definition

enum {
    POINT_WARPS = 4,   // warps of a block along the points ...
    CLUSTER_WARPS = 1, // ... and along the centroids of a tile
    WARPS = POINT_WARPS * CLUSTER_WARPS,
    BLOCK = 32 * WARPS,
    WARP_POINTS = 32,                      // points of a warp
    ROWS = 8,                              // those of one thread
    COLUMNS = 8,                           // centroids of a tile that one thread has
    POINT_LANES = 32 * ROWS / WARP_POINTS, // lanes that have the same points, and other centroids
    WARP_CLUSTERS = COLUMNS * POINT_LANES,
    POINTS = POINT_WARPS * WARP_POINTS,
    RESOLVE_GRID = 80,
    CACHED_SLOTS =
        RESTARTS * KS < 64 ? RESTARTS * KS : 64, // slots and tiles whose facts a block keeps in shared memory
    CACHED_TILES = TILES < 64 ? int(TILES) : 64
};

// ... 9 definitions

// Compares one more score, of column or centroid j.
__device__ __forceinline__ void km_take_score(km_best_two &row, km_real score, int j) {
    const bool better = score > row.best;
    row.second = fmaxf(row.second, fminf(row.best, score));
    row.best = fmaxf(row.best, score);
    row.j = better ? j : row.j;
}

// ... 1 definition

enum {
    VECTOR = 4, // numbers of one 16-byte load
    ROW_PITCH =
        TILE_FEATURES / VECTOR % 2
            ? TILE_FEATURES
            : TILE_FEATURES + VECTOR // from row to row in shared memory: eight rows have no bank conflicts
};

// ... 1 definition
// ... lines of a template
};

// ... 13 definitions

// Writes the labels of the block's points for one slot.
__device__ __forceinline__ void km_write_slot_labels(km_block &block, const km_pass_args &args,
                                                     const km_slot_panels &panels, const km_best_two *state,
                                                     long long first) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    km_best_two rows[ROWS];
    KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
        const int j = state[r].j - COLUMNS;
        rows[r] = {state[r].best, state[r].second, j};
    }
    km_reduce_lanes<ROWS, POINT_LANES / 2>(rows);
    const int local = warp % POINT_WARPS * WARP_POINTS + km_row(lane % POINT_LANES / (POINT_LANES / ROWS));
    bool mine = lane % (POINT_LANES / ROWS) == 0;
    const long long i = first + local;
    mine = mine && i < args.n;
    const km_norms point = km_norms_of(block.workspace, mine ? i : 0);
    km_write_label(
        block.workspace, args.n, panels.slot, i, mine, rows[0],
        km_margin(km_underflow(block.workspace), km_bounds_of(block, panels.slot), point, rows[0].best));
}

// Labels of all active slots, and lists of ambiguous points.
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
    // ... lines of a template
            if (tile == panels.begin)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) state[r] = {-FAR, -FAR, COLUMNS};
            KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) km_take_score(state[r], score[r][c], c);
            const int j = (tile - panels.begin) * TILE;
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++)
                if (state[r].j < COLUMNS) state[r].j = COLUMNS + j + km_column(state[r].j);
            if (tile + 1 == panels.end) km_write_slot_labels(block, args, panels, state, first);
        });
    }
}

// ... 2 definitions
// ... lines of a template
        if (cluster_warp == 0 && lane < WARP_POINTS && first + mine < listed)
            labels[block.points[mine]] = (km_label)nearest.j;
    }
}

// ... 2 definitions

enum {
    CHUNKS = 80,         // of points, a block each, while they are sorted
    DIGITS = 256,        // values of the digit by which one pass sorts
    SORT_PASSES = 1,     // digits of a label
    SEGMENTS = 4096,     // of the order, a subwarp each
    SEGMENT_POINTS = 32, // of a segment, at least
    LANES_PER_POINT = 8, // lanes of a subwarp
    NUMBERS = 4,         // adjacent features of a lane
    FEATURE_PARTS = 1,   // subwarps that split the features of a point
    SUM_AHEAD = 4        // points that a subwarp reads ahead
};
constexpr long long SUMS_BYTES = 4ll * RESTARTS * KS * CHUNKS * DIGITS + 4ll * RESTARTS * (S + KS) +
                                 16ll * RESTARTS * KS * SEGMENTS * (D + 1);
constexpr long long SUMS_POINT_BYTES = (SORT_PASSES - 1) * 4ll * RESTARTS * KS;

// ... 11 definitions
// ... lines of a template
        if (writes_weight) to[D] = current.weight;
    };
    km_label_sums current = {};
    current.first = begin;
    current.label = labels[order[begin]];
    if (writes_weight)
        km_begin_clusters(sorting, begin > 0 ? labels[order[begin - 1]] + 1 : 0, current.label, begin);
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
            if (label[a] != current.label) {
                write_sums(current, at + a);
                if (writes_weight) km_begin_clusters(sorting, current.label + 1, label[a], at + a);
                current = {};
                current.first = at + a;
                current.label = label[a];
            }
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
                current.sums[i] = fma(weight[a], (double)x[a].at[i], current.sums[i]);
            current.weight += weight[a];
        }
    }
    write_sums(current, end);
    if (writes_weight && end == args.n) km_begin_clusters(sorting, current.label + 1, km_ks[slot % KS], end);
}

// ... 1 definition

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tiled_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_tiled_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(km_block), 0},
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, BLOCK, sizeof(km_block), 0},
    {"km_tiled_track", KM_STAGE_PASS, LABELS_GRID, RESTARTS *KS, 256, 0, 0},
    {"km_tiled_count", KM_STAGE_PASS, CHUNKS, RESTARTS *KS, DIGITS, 0, 0},
    {"km_tiled_order", KM_STAGE_PASS, CHUNKS, RESTARTS *KS, DIGITS, 0, 0},
    {"km_tiled_segments", KM_STAGE_PASS, (SEGMENTS * LANES_PER_POINT + 127) / 128 * FEATURE_PARTS,
     RESTARTS *KS, 128, 0, 0},
    {"km_tiled_totals", KM_STAGE_PASS, K_MAX, RESTARTS *KS, 128, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}

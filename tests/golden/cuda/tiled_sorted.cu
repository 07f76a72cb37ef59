// Of the text of {features: 2, clusters: "1000, 4096", target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows.

// ... 40 definitions

enum {
    ROW_PADDING = 8, // numbers between rows in shared memory, so that eight rows have no bank conflicts
    ROUND_AHEAD = 2  // pieces of points that a thread reads ahead before it rounds them
};

// Shared memory of a block.
struct __align__(16) km_block {
    km_table_number x[POINTS][PADDED_D + ROW_PADDING];
    km_table_number table[2][TILE][TILE_FEATURES + ROW_PADDING];
    float half_squares[2][TILE];
    long long points[POINTS];
    km_workspace workspace;
    km_slot_bounds slots[CACHED_SLOTS];
    int tile_slots[CACHED_TILES];
    // For ambiguous points.
    float score_limit[POINTS];
    unsigned pairs[WARPS][64];
};

// ... 18 definitions

// Writes the labels of the block's points for one slot.
__device__ __forceinline__ void km_write_slot_labels(km_block &block, const km_pass_args &args,
                                                     const km_slot_panels &panels, const km_best_two *state,
                                                     long long first) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    km_best_two rows[ROWS];
    KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
        const int column = km_column(__float_as_uint(state[r].best) & (COLUMNS - 1));
        const int j = (state[r].j - panels.begin) * TILE + warp / POINT_WARPS * WARP_CLUSTERS + column;
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
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    km_begin_block(block, args);
    for (long long first = blockIdx.x * (long long)POINTS; first < args.n;
         first += (long long)gridDim.x * POINTS) {
        km_begin_points(block, nullptr, first, args.n);
        km_best_two state[ROWS];
        km_slot_panels panels = km_panels_of(0);
        km_process_tiles(block, args, 0, TILES, [&](int tile, const km_real(&score)[ROWS][COLUMNS]) {
            if (tile < panels.begin || tile >= panels.end)
                panels = km_panels_of(km_tile_slot(block.tile_slots, block.workspace, tile));
            // The last bits of a score are replaced by its column.
            float before[ROWS];
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
                if (tile == panels.begin) state[r] = {-FAR, -FAR, 0};
                before[r] = state[r].best;
            }
            KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
                    const float key = __uint_as_float((__float_as_uint(score[r][c]) & ~(COLUMNS - 1u)) | c);
                    state[r].second = fmaxf(state[r].second, fminf(state[r].best, key));
                    state[r].best = fmaxf(state[r].best, key);
                }
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++)
                if (state[r].best != before[r]) state[r].j = tile;
            if (tile + 1 == panels.end) km_write_slot_labels(block, args, panels, state, first);
        });
    }
}

// ... 16 definitions

extern "C" __global__ void __launch_bounds__(128)
    km_tiled_segments(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y, lane = threadIdx.x % LANES_PER_POINT, part = blockIdx.x % FEATURE_PARTS;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    const unsigned *order = sorting.orders[SORT_PASSES - 1];
    const long long segment =
        (blockIdx.x / FEATURE_PARTS) * (128 / LANES_PER_POINT) + threadIdx.x / LANES_PER_POINT;
    const long long length = (args.n + SEGMENTS - 1) / SEGMENTS, begin = segment * length;
    const long long end = begin + length < args.n ? begin + length : args.n;
    if (begin >= end) return;
    const int f = (part * LANES_PER_POINT + lane) * NUMBERS, writes_weight = part == 0 && lane == 0;
    double *totals = args.totals + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * (D + 1);
    double *edges = sorting.edges + segment * 2 * (D + 1);
    const auto write_sums = [&](km_label_sums &current, long long position) {
        double *inner = totals + current.label * (D + 1ll);
        double *to = current.first == begin ? edges : position == end ? edges + D + 1 : inner;
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
            if (f + i < D) to[f + i] = current.sums[i];
        if (writes_weight) to[D] = (double)(position - current.first);
    };
    km_label_sums current = {};
    current.first = begin;
    current.label = labels[order[begin]];
    if (writes_weight)
        km_begin_clusters(sorting, begin > 0 ? labels[order[begin - 1]] + 1 : 0, current.label, begin);
    for (long long at = begin; at < end; at += SUM_AHEAD) {
        km_features x[SUM_AHEAD];
        int label[SUM_AHEAD];
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            const long long point = order[at + a < end ? at + a : at];
            label[a] = labels[point];
            x[a] = {};
            if (f < D) x[a] = *(const km_features *)((const km_real *)args.points + point * D + f);
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
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) current.sums[i] += x[a].at[i];
        }
    }
    write_sums(current, end);
    if (writes_weight && end == args.n) km_begin_clusters(sorting, current.label + 1, km_ks[slot % KS], end);
}

// ... 2 definitions

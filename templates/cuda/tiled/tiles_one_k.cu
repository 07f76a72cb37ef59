// SPDX-License-Identifier: MIT
// By value: with references both would be in local memory.
__device__ __forceinline__ km_best_two km_select(bool first, km_best_two a, km_best_two b) {
    a.best = first ? a.best : b.best;
    a.second = first ? a.second : b.second;
    a.j = first ? a.j : b.j;
    return a;
}

__device__ __forceinline__ km_best_two km_better(const km_best_two &a, const km_best_two &b) {
    const bool first = a.best > b.best || (a.best == b.best && a.j < b.j);
    km_best_two both = km_select(first, a, b);
    const km_real second = a.second > b.second ? a.second : b.second, loser = first ? b.best : a.best;
    both.second = second > loser ? second : loser;
    return both;
}

__device__ __forceinline__ km_best_two km_shuffle(const km_best_two &given, int width) {
    km_best_two got;
    got.best = __shfl_xor_sync(0xffffffffu, given.best, width);
    got.second = __shfl_xor_sync(0xffffffffu, given.second, width);
    got.j = __shfl_xor_sync(0xffffffffu, given.j, width);
    return got;
}

// Reduces rows over POINT_LANES lanes. Each lane ends with one row, at index 0: row lane % POINT_LANES / (POINT_LANES /
// ROWS).
template <int COUNT, int WIDTH_OF> __device__ __forceinline__ void km_reduce_lanes(km_best_two *rows) {
    if (COUNT > 1) {
        const bool upper = threadIdx.x & WIDTH_OF;
        KM_UNROLL_FOR (int r = 0; r < COUNT / 2; r++) {
            const km_best_two kept = km_select(upper, rows[r + COUNT / 2], rows[r]);
            const km_best_two given = km_select(upper, rows[r], rows[r + COUNT / 2]);
            rows[r] = km_better(kept, km_shuffle(given, WIDTH_OF));
        }
    } else {
        rows[0] = km_better(rows[0], km_shuffle(rows[0], WIDTH_OF));
    }
    if constexpr (WIDTH_OF > 1) km_reduce_lanes<(COUNT > 1 ? COUNT / 2 : 1), WIDTH_OF / 2>(rows);
}

// Writes the labels of the block's points for one slot.
__device__ __forceinline__ void km_write_slot_labels(km_block &block, const km_pass_args &args,
                                                     const km_slot_panels &panels, const km_best_two *state,
                                                     long long first) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    km_best_two rows[ROWS];
    KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
        //@ if fp16
        const int column = km_column(__float_as_uint(state[r].best) & (COLUMNS - 1));
        const int j = (state[r].j - panels.begin) * TILE + warp / POINT_WARPS * WARP_CLUSTERS + column;
        //@ else
        const int j = state[r].j - COLUMNS;
        //@ end
        rows[r] = {state[r].best, state[r].second, j};
    }
    km_reduce_lanes<ROWS, POINT_LANES / 2>(rows);
    const int local = warp % POINT_WARPS * WARP_POINTS + km_row(lane % POINT_LANES / (POINT_LANES / ROWS));
    bool mine = lane % (POINT_LANES / ROWS) == 0;
    //@ if several_cluster_warps
    // The warps that have the same points.
    if (mine) block.found[warp / POINT_WARPS][local] = rows[0];
    __syncthreads();
    mine = mine && warp < POINT_WARPS;
    for (int w = 1; mine && w < CLUSTER_WARPS; w++) rows[0] = km_better(rows[0], block.found[w][local]);
    //@ end
    const long long i = first + local;
    mine = mine && i < args.n;
    const km_norms point = km_norms_of(block.workspace, mine ? i : 0);
    km_write_label(
        block.workspace, args.n, panels.slot, i, mine, rows[0],
        km_margin(km_underflow(block.workspace), km_bounds_of(block, panels.slot), point, rows[0].best));
}

// Labels of all active slots, and lists of ambiguous points.
extern "C" __global__ void __launch_bounds__(BLOCK, $blocks_per_sm)
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
            //@ if fp16
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
            //@ else
            if (tile == panels.begin)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) state[r] = {-FAR, -FAR, COLUMNS};
            KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) km_take_score(state[r], score[r][c], c);
            const int j = (tile - panels.begin) * TILE;
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++)
                if (state[r].j < COLUMNS) state[r].j = COLUMNS + j + km_column(state[r].j);
            //@ end
            if (tile + 1 == panels.end) km_write_slot_labels(block, args, panels, state, first);
        });
    }
}

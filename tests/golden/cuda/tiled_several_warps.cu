// Of the text of {features: 128, clusters: 1024, target: cuda:sm_80}: The pass
// "..." stands for what a template or an earlier part shows.

// ... 41 definitions

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
    km_best_two found[CLUSTER_WARPS][POINTS];
    km_nearest nearest[CLUSTER_WARPS][POINTS];
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
    // The warps that have the same points.
    if (mine) block.found[warp / POINT_WARPS][local] = rows[0];
    __syncthreads();
    mine = mine && warp < POINT_WARPS;
    for (int w = 1; mine && w < CLUSTER_WARPS; w++) rows[0] = km_better(rows[0], block.found[w][local]);
    const long long i = first + local;
    mine = mine && i < args.n;
    const km_norms point = km_norms_of(block.workspace, mine ? i : 0);
    km_write_label(
        block.workspace, args.n, panels.slot, i, mine, rows[0],
        km_margin(km_underflow(block.workspace), km_bounds_of(block, panels.slot), point, rows[0].best));
}

// ... 4 definitions

// Resolves the ambiguous points: finds all candidates by their scores, and the nearest of them in double.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tiled_resolve(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop || !args.active[blockIdx.y]) return;
    km_begin_block(block, args);
    const km_slot_panels panels = km_panels_of(blockIdx.y);
    const km_real *centroids = (const km_real *)args.centroids +
                               ((long long)(panels.slot / KS) * S + km_offsets[panels.slot % KS]) * D;
    km_label *labels = block.workspace.labels + panels.slot * block.workspace.stride;
    const unsigned listed = block.workspace.slots[panels.slot].ambiguous;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, cluster_warp = warp / POINT_WARPS;
    const int mine = warp % POINT_WARPS * WARP_POINTS + lane % WARP_POINTS; // the point of this lane
    unsigned *queue = block.pairs[warp];
    for (long long first = blockIdx.x * (long long)POINTS; first < listed;
         first += (long long)gridDim.x * POINTS) {
        km_begin_points(block, block.workspace.lists + panels.slot * args.n, first, listed);
        if (cluster_warp == 0 && lane < WARP_POINTS) { // the least score of a candidate
            const long long i = block.points[mine];
            const double score =
                km_score((const km_real *)args.points + i * D, centroids + (long long)labels[i] * D);
            const km_real margin = km_margin(km_underflow(block.workspace), km_bounds_of(block, panels.slot),
                                             km_norms_of(block.workspace, i), (km_real)score);
            block.score_limit[mine] = (km_real)(score - 2.0 * margin);
        }
        __syncthreads();
        km_nearest nearest = {1e308, K_MAX};
        int queued = 0;
        const int tiles_begin = panels.begin / TILE_PANELS, tiles_end = (panels.end - 1) / TILE_PANELS + 1;
        km_process_tiles(
            block, args, tiles_begin, tiles_end, [&](int tile, const km_real(&score)[ROWS][COLUMNS]) {
                const int j = tile * TILE + cluster_warp * WARP_CLUSTERS - panels.begin * PANEL_ROWS;
                unsigned long long candidates = 0; // a bit for each score of a candidate
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
                    const km_real score_limit = block.score_limit[mine - lane % WARP_POINTS + km_row(r)];
                    KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++)
                        candidates |= (unsigned long long)!(score[r][c] < score_limit) << (r * COLUMNS + c);
                }
                while (__any_sync(0xffffffffu, candidates != 0)) {
                    const int bit = candidates ? __ffsll(candidates) - 1 : 0,
                              candidate = j + km_column(bit % COLUMNS);
                    const bool valid = candidates && candidate >= 0 &&
                                       candidate < panels.k; // not a centroid of another slot, nor padding
                    const unsigned lanes = __ballot_sync(0xffffffffu, valid);
                    if (valid)
                        queue[queued + __popc(lanes & ((1u << lane) - 1))] =
                            candidate << 5 | km_row(bit / COLUMNS);
                    candidates &= candidates - 1;
                    queued += __popc(lanes);
                    __syncwarp();
                    if (queued < 32) continue;
                    km_compare_pairs(nearest, block, args, centroids, queue[lane], 32);
                    queued -= 32;
                    const unsigned rest = queue[32 + lane];
                    __syncwarp();
                    queue[lane] = rest;
                    __syncwarp();
                }
            });
        km_compare_pairs(nearest, block, args, centroids, queue[lane], queued);
        // The warps that have the same points.
        block.nearest[cluster_warp][mine] = nearest;
        __syncthreads();
        for (int w = 0; w < CLUSTER_WARPS; w++) nearest = km_nearer(nearest, block.nearest[w][mine]);
        if (cluster_warp == 0 && lane < WARP_POINTS && first + mine < listed)
            labels[block.points[mine]] = (km_label)nearest.j;
    }
}

// ... 15 definitions

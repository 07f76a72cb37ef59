// SPDX-License-Identifier: MIT
// Labels of all active slots, and lists of ambiguous points. Scores go through shared
// memory. Then a lane has a point and compares its scores one by one, as a tile may hold several slots.
extern "C" __global__ void __launch_bounds__(BLOCK, $blocks_per_sm)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    km_begin_block(block, args);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    km_real(*scores)[TILE + 1] = block.scores[warp];
    for (long long first = blockIdx.x * (long long)POINTS; first < args.n;
         first += (long long)gridDim.x * POINTS) {
        km_begin_points(block, nullptr, first, args.n);
        const long long i = first + warp * WARP_POINTS + lane;
        const bool mine = lane < WARP_POINTS && i < args.n;
        const km_norms point = km_norms_of(block.workspace, mine ? i : 0);
        km_slot_panels panels = km_panels_of(0);
        km_slot_bounds slot = {};
        km_best_two best = {};
        km_process_tiles(block, args, 0, TILES, [&](int tile, const km_real(&score)[ROWS][COLUMNS]) {
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++)
                KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++) scores[km_row(r)][km_column(c)] = score[r][c];
            __syncwarp();
            const int rows = min((tile + 1) * TILE, RESTARTS * PANELS);
            for (int row = tile * TILE; row < rows;) {
                if (row == panels.end)
                    panels = km_panels_of(panels.slot + 1);
                else if (row < panels.begin || row > panels.end)
                    panels = km_panels_of(km_slot_of(row));
                if (row == panels.begin) {
                    slot = km_bounds_of(block, panels.slot);
                    best = {-FAR, -FAR, 0};
                }
                const int end = min(rows, panels.end);
#pragma unroll 4
                for (; row < end; row++)
                    km_take_score(best, scores[lane % WARP_POINTS][row - tile * TILE], row - panels.begin);
                if (end == panels.end)
                    km_write_label(block.workspace, args.n, panels.slot, i, mine, best,
                                   km_margin(km_underflow(block.workspace), slot, point, best.best));
            }
            __syncwarp();
        });
    }
}

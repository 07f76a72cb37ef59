// SPDX-License-Identifier: MIT
// The score of a point and a centroid in double.
static __device__ double km_score(const km_real *x, const km_real *c) {
    constexpr int NUMBERS = PIECE_BYTES / sizeof(km_real);
    double score = 0;
#pragma unroll 8
    for (int f = 0; f < D; f += NUMBERS) {
        const km_piece a = *(const km_piece *)(x + f), b = *(const km_piece *)(c + f);
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
            score = fma((double)b.at[i], a.at[i] - 0.5 * b.at[i], score);
    }
    return score;
}

// Compares up to 32 pairs of a point of the warp (the lower 5 bits) and a centroid. A lane computes the distance of one
// pair; then each lane takes the distances of its own point.
__device__ __forceinline__ void km_compare_pairs(km_nearest &nearest, const km_block &block,
                                                 const km_pass_args &args, const km_real *centroids,
                                                 unsigned pair, int pairs) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % POINT_WARPS * WARP_POINTS;
    km_nearest found = {0, (int)(pair >> 5)};
    if (lane < pairs)
        found.distance = km_distance((const km_real *)args.points + block.points[first + pair % 32] * D,
                                     centroids + (long long)found.j * D);
    for (int from = 0; from < pairs; from++) {
        km_nearest other;
        other.distance = __shfl_sync(0xffffffffu, found.distance, from);
        const unsigned other_pair = __shfl_sync(0xffffffffu, pair, from);
        other.j = (int)(other_pair >> 5);
        if (lane == other_pair % 32) nearest = km_nearer(nearest, other);
    }
}

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
        //@ if several_cluster_warps
        // The warps that have the same points.
        block.nearest[cluster_warp][mine] = nearest;
        __syncthreads();
        for (int w = 0; w < CLUSTER_WARPS; w++) nearest = km_nearer(nearest, block.nearest[w][mine]);
        //@ end
        if (cluster_warp == 0 && lane < WARP_POINTS && first + mine < listed)
            labels[block.points[mine]] = (km_label)nearest.j;
    }
}

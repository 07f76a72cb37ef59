// Of the text of {features: 128, clusters: 1024, target: cuda:sm_80}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 43 definitions
// ... lines of a template
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

// ... 3 definitions
// ... lines of a template
        // The warps that have the same points.
        block.nearest[cluster_warp][mine] = nearest;
        __syncthreads();
        for (int w = 0; w < CLUSTER_WARPS; w++) nearest = km_nearer(nearest, block.nearest[w][mine]);
        if (cluster_warp == 0 && lane < WARP_POINTS && first + mine < listed)
            labels[block.points[mine]] = (km_label)nearest.j;
    }
}

// ... 16 definitions

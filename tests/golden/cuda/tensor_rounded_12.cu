// Of the text of {features: 12, clusters: 3..12, target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 45 definitions
// ... lines of a template
// ... lines of a template
// ... 19 definitions
// ... lines of a template
// Prepares a launch, by one block a restart, and leaves that in the workspace.
static __device__ __forceinline__ void km_prepare_launch(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_preparation &shared = *(km_preparation *)km_memory;
    const km_launch_shape launch = km_launch_shapes[blockIdx.x % LAUNCHES];
    const int stop = args.control->stop; // read now and tested later: one wait for all reads
    const float *from = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    if (km_distinct_of(args)->count > 0) {
        km_add_distinct(args, launch.index, blockIdx.x / LAUNCHES);
        return;
    }
    if (blockIdx.x >= LAUNCHES) return;
    // ... lines of a template
// ... 46 definitions

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    const km_fragments *fragments;
    km_sums<LAUNCH> sums;
    km_tile_addresses addresses; // where the lane reads in the ring's first tile
};

// ... 15 definitions

// ... lines of a template
    {"km_tensor_distinct", KM_STAGE_LOAD, 4 * GRID, 1, 256, 0, 0},
    {"km_tensor_lattice", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many blocks, so that they end together
    {"km_tensor_prepare", KM_STAGE_PASS, LAUNCHES *DISTINCT_PARTS, RESTARTS, PREPARERS,
     sizeof(km_preparation), 0},
    {"km_tensor_0", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block<km_launch_0>), 0},
    {"km_reduce", KM_STAGE_PASS, REDUCE_GRID, RESTARTS, REDUCE, 0, 0},
};
}

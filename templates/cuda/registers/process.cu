// SPDX-License-Identifier: MIT
// Whether there is nothing to do: the fit has stopped, or no slot of this restart is active.
static __device__ __forceinline__ bool km_is_idle(const km_pass_args &args) {
    bool active = false;
    for (int i = 0; i < KS; i++) active = active | args.active[blockIdx.y * KS + i];
    return args.control->stop || !active;
}

//@ if warp_groups
// Processes a warp group's tiles: every GRID-th one. False when there is nothing to do.
//@ else
// Processes a block's tiles: every GRID-th one. False when there is nothing to do.
//@ end
template <typename GROUP>
static __device__ __forceinline__ bool km_process_tiles(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    //@ if ring
    km_stage *ring = shared.ring[$ring_of_warp];
    KM_UNROLL_FOR (int i = 0; i < STAGES - 1; i++) km_copy_tile(ring[i], args, blockIdx.x + i * GRID, tiles);
    int stage = 0;
    if (km_is_idle(args)) { // asked after the first copies, which do not wait for it
        km_copy_wait_all();
        return false;
    }
    //@ else
    if (km_is_idle(args)) return false;
    //@ end
    for (int i = lane; i < WARP_SUMS; i += 32) shared.warp_sums[warp][i] = 0;
    //@ if form_constant
    const km_table &table = km_constants;
    //@ else
    const km_table *from = km_table_of(args.workspace, args.constants, blockIdx.y);
    for (int i = threadIdx.x; i < (int)(sizeof(km_table) / 4); i += BLOCK)
        ((int *)&shared.table)[i] = ((const int *)from)[i];
    __syncthreads();
    const km_table &table = shared.table;
    //@ end
    GROUP group;
    km_begin(group, args);
    //@ if packed_labels
    if (blockIdx.x < tiles) km_read_labels(group, args, blockIdx.x);
    //@ end
    //@ if float_sums
    int left = FLUSH_TILES;
    //@ end
    for (int tile = blockIdx.x; tile < tiles; tile += GRID) {
        km_points points;
        //@ if ring
        km_wait_for_tile();
        km_load_tile(points, shared, ring[stage]);
        const int free = stage == 0 ? STAGES - 1 : stage - 1;
        km_copy_tile(ring[free], args, tile + (STAGES - 1) * GRID, tiles);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        //@ else
        km_load_tile(points, args, tile);
        //@ end
        km_process_tile(group, points, args, table, tile);
        //@ if float_sums
        if (--left == 0 || tile + GRID >= tiles) {
            km_flush(group, shared);
            left = FLUSH_TILES;
        }
        //@ end
    }
    //@ if not float_sums
    km_flush(group, shared);
    //@ end
    //@ if track_labels
    km_add_changes(group, args);
    //@ end
    return true;
}

// Adds the sums of the WARPS warps from `sums` on, and writes them as the block's numbers of their columns.
static __device__ __forceinline__ void km_write_block_sums(const km_pass_args &args,
                                                           const double (*sums)[WARP_SUMS], int columns,
                                                           int first_column) {
    for (int c = threadIdx.x; c < columns; c += BLOCK) {
        double sum = 0;
        for (int warp = 0; warp < WARPS; warp++) sum += sums[warp][c];
        km_column(args, first_column + c)[blockIdx.x] = sum;
    }
}

//@ for part in parts
// ==== Launch $part
// Compiled apart: pass/launches/$part_apart
extern "C" __global__ void __launch_bounds__(BLOCK, $blocks_per_sm)
    km_registers_$part(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(128) unsigned char km_shared[];
    km_block &shared = *(km_block *)km_shared;
    //@ if part_one_group
    if (!km_process_tiles<km_group_$part_first_group>(args, shared)) return;
    //@ else
    bool worked = false;
    switch (threadIdx.x / THREADS) {
    //@ for group in part_groups
    case $group_index:
        worked = km_process_tiles<km_group_$group>(args, shared);
        break;
        //@ end
    }
    if (!worked) return;
    //@ end
    __syncthreads();
    //@ for group in part_groups
    km_write_block_sums(args, shared.warp_sums$group_warps, $group_warp_sums, $group_column);
    //@ end
}

//@ end

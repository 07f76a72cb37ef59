// SPDX-License-Identifier: MIT
// Whether there is nothing to do: the fit has stopped, or no slot of this restart is active.
static __device__ __forceinline__ bool km_is_idle(const km_pass_args &args) {
    bool active = false;
    for (int i = 0; i < KS; i++) active = active | args.active[blockIdx.y * KS + i];
    return args.control->stop || !active;
}

// Processes the spans of a warp. False when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_process_spans(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    km_place place = km_first_place(args);
    //@ if ring
    km_stage *ring = shared.ring[$ring_of_warp];
    KM_UNROLL_FOR (int i = 0; i < STAGES - 1; i++)
        km_copy_tile(ring[i], args, km_tile_ahead(place, i), tiles);
    int stage = 0;
    if (km_is_idle(args)) { // asked after the first copies, which do not wait for it
        km_copy_wait_all();
        return false;
    }
    //@ else
    if (km_is_idle(args)) return false;
    //@ end
    for (int i = lane; i < WARP_SUMS; i += 32) shared.warp_sums[warp][i] = {};
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
    if (place.tile < tiles) km_read_labels(group, args, place.tile);
    //@ end
    while (place.tile < tiles) {
        km_points points;
        //@ if ring
        km_wait_for_tile();
        km_load_tile(points, shared, ring[stage]);
        const int free = stage == 0 ? STAGES - 1 : stage - 1;
        km_copy_tile(ring[free], args, km_tile_ahead(place, STAGES - 1), tiles);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        //@ else
        km_load_tile(points, args, place.tile);
        //@ end
        km_process_tile(group, points, args, table, place.tile, km_tile_ahead(place, 1));
        place.tile++;
        if (--place.left > 0 && place.tile < tiles) continue;
        km_flush(group, shared, km_units_in(args).per_one);
        place = km_place_behind(args, place.span);
    }
    //@ if track_labels
    km_add_changes(group, args);
    //@ end
    return true;
}

// Adds the sums of the WARPS warps from `sums` on, and writes them as the block's numbers of their columns.
static __device__ __forceinline__ void km_write_block_sums(const km_pass_args &args,
                                                           const km_sum (*sums)[WARP_SUMS], int columns,
                                                           int first_column) {
    for (int c = threadIdx.x; c < columns; c += BLOCK) {
        km_sum sum = {};
        for (int warp = 0; warp < WARPS; warp++) km_sum_add(sum, sums[warp][c]);
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
    if (!km_process_spans<km_group_$part_first_group>(args, shared)) return;
    //@ else
    bool worked = false;
    switch (threadIdx.x / THREADS) {
    //@ for group in part_groups
    case $group_index:
        worked = km_process_spans<km_group_$group>(args, shared);
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

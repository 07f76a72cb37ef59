// SPDX-License-Identifier: MIT
//@ if part_alone
// What a thread of km_registers_$part keeps from tile to tile, for K = $group_text.
//@ else
// What a thread of warp group $group_index of km_registers_$part keeps from tile to tile, for K = $group_text.
//@ end
struct km_group_$group {
    km_real sums[$group_columns]; // of the clusters but the pivots
    //@ if counted
    int counts[$group_counts];
    //@ end
    //@ for k in group_ks
    //@ if not k_single
    bool active_$k;
    //@ if packed
    unsigned before_$k[POINTS / 4]; // labels of the pass before
    //@ end
    //@ if track_labels
    int changes_$k;
    //@ end
    //@ end
    //@ end
};

// Empty sums, and which K are active.
static __device__ __forceinline__ void km_begin(km_group_$group &group, const km_pass_args &args) {
    group = {};
    //@ for k in group_ks
    //@ if not k_single
    group.active_$k = args.active[blockIdx.y * KS + $k_index];
    //@ end
    //@ end
}

//@ if packed
// Reads the labels of a tile; those of the next one come while one is worked on.
static __device__ __forceinline__ void km_read_labels(km_group_$group &group, const km_pass_args &args,
                                                      int tile) {
    //@ for k in group_ks
    //@ if not k_single
    if (group.active_$k) km_read_labels(group.before_$k, args, tile, blockIdx.y * KS + $k_index);
    //@ end
    //@ end
}

//@ end
// Works on the points of a tile, one K after the other.
static __device__ __forceinline__ void km_work(km_group_$group &group, km_points &points,
                                               const km_pass_args &args, const km_table &table, int tile) {
    //@ if not const_planes
    asm volatile("" ::: "memory"); // the planes are read again: there are no registers to keep them in
    //@ end
    //@ if group_compares
    //@ if teamed
    const km_plane *planes = table.planes + threadIdx.x % TEAM;
    //@ else
    const km_plane *planes = table.planes;
    //@ end
    //@ end
    //@ for k in group_ks
    //@ if k_single
    //@ if weighted
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) group.sums[$k_sum] += points.weight[p];
    //@ end
    //@ else
    if (group.active_$k) {
        //@ if counted
        km_assign<$k_others>(points, planes + $k_plane, table.pivots[$k_index], group.sums + $k_sum,
                             group.counts + $k_count);
        //@ else
        km_assign<$k_others>(points, planes + $k_plane, table.pivots[$k_index], group.sums + $k_sum);
        //@ end
        //@ if packed
        const int slot = blockIdx.y * KS + $k_index;
        group.changes_$k += km_write_labels(points, group.before_$k, args, tile, slot);
        if (tile + GRID < km_tiles(args)) km_read_labels(group.before_$k, args, tile + GRID, slot);
        //@ else
        //@ if track_labels
        group.changes_$k += km_write_labels(points, args, tile, blockIdx.y * KS + $k_index);
        //@ end
        //@ end
    }
    //@ end
    //@ end
}

// Lets the thread's sums join the warp's.
static __device__ __forceinline__ void km_flush(km_group_$group &group, km_block &shared) {
    //@ if counted
    //@ for k in group_ks
    KM_UNROLL_FOR (int j = 0; j < $k_others; j++)
        group.sums[$k_sum + j * ($own_name + 1) + $own_name] = group.counts[$k_count + j];
    //@ end
    //@ end
    const int warp = threadIdx.x / 32;
    km_add_lanes<$group_columns>(group.sums, shared.gathered[warp], shared.warp_sums[warp]);
    //@ if flushed
    KM_UNROLL_FOR (int i = 0; i < $group_columns; i++) group.sums[i] = 0;
    //@ end
}

//@ if track_labels
static __device__ __forceinline__ void km_end(km_group_$group &group, const km_pass_args &args) {
    //@ for k in group_ks
    //@ if not k_single
    if (group.changes_$k)
        atomicAdd(args.changes + blockIdx.y * KS + $k_index, (unsigned long long)group.changes_$k);
    //@ end
    //@ end
}

//@ end

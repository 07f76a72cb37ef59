// SPDX-License-Identifier: MIT
//@ if part_one_group
// What a thread of km_registers_$part keeps from tile to tile, for K = $group_text.
//@ else
// What a thread of warp group $group_index of km_registers_$part keeps from tile to tile, for K = $group_text.
//@ end
struct km_group_$group {
    km_real sums[$group_columns]; // of the clusters but the pivots
    //@ if integer_counts
    int counts[$group_counts];
    //@ end
    //@ for k in group_ks
    //@ if not k_is_one
    bool active_$k;
    //@ if packed_labels
    unsigned before_$k[POINTS / 4]; // labels of the pass before, of the next tile
    //@ end
    //@ if track_labels
    int changes_$k;
    //@ end
    //@ end
    //@ end
};

// Clears the sums; finds out which K are active.
static __device__ __forceinline__ void km_begin(km_group_$group &group, const km_pass_args &args) {
    group = {};
    //@ for k in group_ks
    //@ if not k_is_one
    group.active_$k = args.active[blockIdx.y * KS + $k_index];
    //@ end
    //@ end
}

//@ if packed_labels
// Reads the labels of a tile. Those of the next tile are read while one is worked on.
static __device__ __forceinline__ void km_read_labels(km_group_$group &group, const km_pass_args &args,
                                                      int tile) {
    //@ for k in group_ks
    //@ if not k_is_one
    if (group.active_$k) km_read_labels(group.before_$k, args, tile, blockIdx.y * KS + $k_index);
    //@ end
    //@ end
}

//@ end
// Labels and adds the points of a tile, one K after the other.
static __device__ __forceinline__ void km_process_tile(km_group_$group &group, km_points &points,
                                                       const km_pass_args &args, const km_table &table,
                                                       int tile, int next) {
    //@ if not form_constant
    asm volatile("" ::: "memory"); // the coefficients are read again: there are no registers to keep them in
    //@ end
    //@ if group_has_scores
    //@ if lanes_share_point
    const km_coefficients *coefficients = table.coefficients + threadIdx.x % LANES_PER_POINT;
    //@ else
    const km_coefficients *coefficients = table.coefficients;
    //@ end
    //@ end
    //@ for k in group_ks
    //@ if k_is_one
    //@ if weighted
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) group.sums[$k_sum] += points.weight[p];
    //@ end
    //@ else
    if (group.active_$k) {
        //@ if integer_counts
        km_assign<$k_scores>(points, coefficients + $k_coefficients, table.pivots[$k_index],
                             group.sums + $k_sum, group.counts + $k_count);
        //@ else
        km_assign<$k_scores>(points, coefficients + $k_coefficients, table.pivots[$k_index],
                             group.sums + $k_sum);
        //@ end
        //@ if packed_labels
        const int slot = blockIdx.y * KS + $k_index;
        group.changes_$k += km_write_labels(points, group.before_$k, args, tile, slot);
        if (next < km_tiles(args)) km_read_labels(group.before_$k, args, next, slot);
        //@ else
        //@ if track_labels
        group.changes_$k += km_write_labels(points, args, tile, blockIdx.y * KS + $k_index);
        //@ end
        //@ end
    }
    //@ end
    //@ end
}

// Adds the thread's sums, which are those of its points of a span, to the warp's.
static __device__ __forceinline__ void km_flush(km_group_$group &group, km_block &shared, double per_one) {
    //@ if integer_counts
    //@ for k in group_ks
    KM_UNROLL_FOR (int j = 0; j < $k_scores; j++)
        group.sums[$k_sum + j * ($lane_d_name + 1) + $lane_d_name] = group.counts[$k_count + j];
    //@ end
    //@ end
    const int warp = threadIdx.x / 32;
    km_add_lanes<$group_columns>(group.sums, shared.gathered[warp], shared.warp_sums[warp], per_one);
    KM_UNROLL_FOR (int i = 0; i < $group_columns; i++) group.sums[i] = 0;
    //@ if integer_counts
    KM_UNROLL_FOR (int i = 0; i < $group_counts; i++) group.counts[i] = 0;
    //@ end
}

//@ if track_labels
static __device__ __forceinline__ void km_add_changes(km_group_$group &group, const km_pass_args &args) {
    //@ for k in group_ks
    //@ if not k_is_one
    if (group.changes_$k)
        atomicAdd(args.changes + blockIdx.y * KS + $k_index, (unsigned long long)group.changes_$k);
    //@ end
    //@ end
}

//@ end

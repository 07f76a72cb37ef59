// Of the text of {features: 1, clusters: 1, target: cuda:sm_90} weighted: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 42 definitions

// Labels and adds the points of a tile, one K after the other.
static __device__ __forceinline__ void km_process_tile(km_group_0 &group, km_points &points,
                                                       const km_pass_args &args, const km_table &table,
                                                       int tile, int next) {
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) group.sums[0] += points.weight[p];
}

// ... 18 definitions

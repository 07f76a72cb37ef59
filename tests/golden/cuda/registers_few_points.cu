// Of the text of {features: 4, clusters: 2..8, type: float64, target: cuda:sm_90} weighted tracked points=100000: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 47 definitions

// Writes the labels of one slot where they changed, and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const km_pass_args &args,
                                                      int tile, int slot) {
    km_label *labels = (km_label *)args.labels + slot * args.labels_stride;
    const long long first = km_first_point(tile);
    int changes = 0;
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const long long point = first + km_point_offset(p);
        if (point >= args.n || labels[point] == points.label[p]) continue;
        labels[point] = (km_label)points.label[p];
        changes++;
    }
    return changes;
}

// ... 3 definitions

// Labels and adds the points of a tile, one K after the other.
static __device__ __forceinline__ void km_process_tile(km_group_0 &group, km_points &points,
                                                       const km_pass_args &args, const km_table &table,
                                                       int tile, int next) {
    asm volatile("" ::: "memory"); // the coefficients are read again: there are no registers to keep them in
    const km_coefficients *coefficients = table.coefficients;
    if (group.active_8) {
        km_assign<7>(points, coefficients + 21, table.pivots[6],
                             group.sums + 0);
        group.changes_8 += km_write_labels(points, args, tile, blockIdx.y * KS + 6);
    }
}

// ... 34 definitions

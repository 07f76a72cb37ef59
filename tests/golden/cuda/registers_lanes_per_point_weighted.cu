// Of the text of {features: 4, clusters: 2..8, type: float64, target: cuda:sm_75} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 29 definitions

// Reads the thread's part of one load, whose first point is `point`.
static __device__ __forceinline__ void km_load_points(km_points &points, const km_pass_args &args,
                                                      long long point, int load) {
    const km_real *x = (const km_real *)args.points + point * D + threadIdx.x % LANES_PER_POINT * LANE_D;
    KM_UNROLL_FOR (int v = 0; v < 1; v++) {
        const km_vector numbers = ((const km_vector *)x)[v];
        KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
    }
    const km_real *weights = (const km_real *)args.weights + point;
    points.weight[load] = *weights;
}

// ... 5 definitions

// Writes the labels of one slot where they changed, and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const km_pass_args &args,
                                                      int tile, int slot) {
    km_label *labels = (km_label *)args.labels + slot * args.labels_stride;
    const long long first = km_first_point(tile);
    int changes = 0;
    if (threadIdx.x % LANES_PER_POINT) return 0; // one lane of a point is enough
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const long long point = first + km_point_offset(p);
        if (point >= args.n || labels[point] == points.label[p]) continue;
        labels[point] = (km_label)points.label[p];
        changes++;
    }
    return changes;
}

// ... 41 definitions

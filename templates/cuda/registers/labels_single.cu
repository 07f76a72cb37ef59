// SPDX-License-Identifier: MIT
// Writes the labels of one slot where they changed, and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const km_pass_args &args,
                                                      int tile, int slot) {
    km_label *labels = (km_label *)args.labels + slot * args.labels_stride;
    const long long first = km_first_point(tile);
    int changes = 0;
    //@ if lanes_share_point
    if (threadIdx.x % LANES_PER_POINT) return 0; // one lane of a point is enough
    //@ end
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const long long point = first + km_point_offset(p);
        if (point >= args.n || labels[point] == points.label[p]) continue;
        labels[point] = (km_label)points.label[p];
        changes++;
    }
    return changes;
}

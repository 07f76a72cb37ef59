// SPDX-License-Identifier: MIT
// What a point adds to the sums of its cluster.
struct finish_point {
    int label;
    double square, distance, margin;
};

__device__ __forceinline__ finish_point finish_of_squares(int label, double nearest, double second, int k) {
    const double distance = __dsqrt_rn(nearest), far = k > 1 ? __dsqrt_rn(second) : 0.0;
    return {label, nearest, distance, far > 0.0 ? __ddiv_rn(__dsub_rn(far, distance), far) : 0.0};
}

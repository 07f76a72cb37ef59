// SPDX-License-Identifier: MIT
// The error of scores: how far below the best one the score of the nearest centroid may be.

//@ if fp16
constexpr float FAR = 3e38f; // |c|^2 / 2 of padding
// The relative error, to |x| |c|, of adding PADDED_D products, where an addition keeps 23 bits of the largest number.
constexpr float ROUNDING = (4 * PADDED_D + 8) / 16777216.f;
//@ else
//@ if float64
constexpr double FAR = 1e300; // |c|^2 / 2 of padding
// The relative error, to |x| |c|, of adding D products and a constant.
constexpr double ROUNDING = (D + 8) / 9007199254740992.0;
//@ else
constexpr float FAR = 3e38f; // |c|^2 / 2 of padding
// The relative error, to |x| |c|, of adding D products and a constant.
constexpr float ROUNDING = (D + 8) / 16777216.f;
//@ end
//@ end

//@ if float64
__device__ __forceinline__ km_bits km_bits_of(double value) {
    return (km_bits)__double_as_longlong(value);
}

__device__ __forceinline__ double km_value_of(km_bits bits) {
    return __longlong_as_double((long long)bits);
}
//@ else
__device__ __forceinline__ km_bits km_bits_of(float value) {
    return __float_as_uint(value);
}

__device__ __forceinline__ float km_value_of(km_bits bits) {
    return __uint_as_float(bits);
}
//@ end

//@ if fp16
__device__ __forceinline__ km_table_number km_half_of(float value) {
    km_table_number half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

__device__ __forceinline__ double km_half_value(km_table_number half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

// The scale that brings the largest coordinate to 512: centroids outside of the data have room.
static __device__ float km_scale_of(const km_pass_args &args) {
    double largest = 0;
    int exponent = 0;
    for (int f = 0; f < 2 * D; f++) largest = fmax(largest, fabs(args.box[f]));
    frexp(largest, &exponent);
    return ldexpf(1, min(max(9 - exponent, -60), 60));
}

//@ end
// What a centroid in the table may lose by underflow: below the smallest normal half.
//@ if fp16
__device__ __forceinline__ float km_underflow(const km_workspace &workspace) {
    return sqrtf(PADDED_D) * 1.001f / 33554432.f / *workspace.scale;
}
//@ else
__device__ __forceinline__ km_real km_underflow(const km_workspace &) {
    return 0;
}
//@ end

// An upper bound in km_real: rounded up.
__device__ __forceinline__ km_real km_upper_bound(double value) {
    return (km_real)(value * (1 + 1.0 / 1048576));
}

// Of a point: its norm, and the norm of what half precision loses.
struct km_norms {
    km_real norm, lost;
};

__device__ __forceinline__ km_norms km_norms_of(const km_workspace &workspace, long long i) {
    //@ if fp16
    return {workspace.norms[i], workspace.residuals[i]};
    //@ else
    return {workspace.norms[i], 0};
    //@ end
}

// The margin: how far below the best score the nearest centroid may be, which is the error of both scores. For a
// point of norm g, the error of a score is at most e |c| and a constant, where e is the error of products and sums.
// A centroid of |c| >= 4 g has a score t of at most -|c|^2 / 4, so its error is at most e / g |t|; the best score
// is larger than t. The factors leave room for the rounding of these lines.
__device__ __forceinline__ km_real km_margin(km_real underflow, const km_slot_bounds &slot,
                                             const km_norms &point, km_real best) {
    const km_real g = point.norm, c = km_value_of(slot.norm), effective = c < 4 * g ? c : 4 * g;
    //@ if fp16
    const km_real e = point.lost + g * (km_value_of(slot.relative_loss) + ROUNDING);
    km_real margin = 2.01f * (e * effective + (g + point.lost) * underflow);
    margin += fabsf(best) / 131072; // for the last bits of a score, which hold its column
    //@ else
    const km_real e = g * ROUNDING;
    km_real margin = (km_real)2.01 * e * effective;
    //@ end
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

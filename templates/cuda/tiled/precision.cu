// SPDX-License-Identifier: MIT
// What scores may lose: how far below the best another may be measured and still be the best.

//@ if fp16
constexpr float FAR = 3e38f; // |c|^2 / 2 of padding
// What adding WIDTH products may lose of |x| |c|, where an addition keeps 23 bits of the largest number.
constexpr float ROUNDING = (4 * WIDTH + 8) / 16777216.f;
//@ else
//@ if float64
constexpr double FAR = 1e300; // |c|^2 / 2 of padding
// What D products and a constant may lose of |x| |c|.
constexpr double ROUNDING = (D + 8) / 9007199254740992.0;
//@ else
constexpr float FAR = 3e38f; // |c|^2 / 2 of padding
// What D products and a constant may lose of |x| |c|.
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

// Brings the data's box to 512: centroids outside of it have room.
static __device__ float km_scale_of(const km_pass_args &args) {
    double largest = 0;
    int exponent = 0;
    for (int f = 0; f < 2 * D; f++) largest = fmax(largest, fabs(args.box[f]));
    frexp(largest, &exponent);
    return ldexpf(1, min(max(9 - exponent, -60), 60));
}

//@ end
// What a centroid may lose below the smallest normal number of its type in the table.
//@ if fp16
__device__ __forceinline__ float km_fine(const km_workspace &workspace) {
    return sqrtf(WIDTH) * 1.001f / 33554432.f / *workspace.scale;
}
//@ else
__device__ __forceinline__ km_real km_fine(const km_workspace &) {
    return 0;
}
//@ end

// Rounded up, so that a bound stays one.
__device__ __forceinline__ km_real km_above(double value) {
    return (km_real)(value * (1 + 1.0 / 1048576));
}

// What a margin needs of a point: its norm, and what half precision loses of it.
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

// How far below the best score another may be measured and still be the best: both scores' errors. For a point of norm
// g, a centroid's is at most e |c| (and a constant), e the part of g that products and sums may lose. A centroid of
// |c| >= 4 g has a score t of at most -|c|^2 / 4, so that its error is at most e / g |t|: such centroids count for as
// much as the best score does. The factors have room for the rounding of these lines.
__device__ __forceinline__ km_real km_margin(km_real fine, const km_slot_bounds &slot, const km_norms &point,
                                             km_real best) {
    const km_real g = point.norm, c = km_value_of(slot.norm), near = c < 4 * g ? c : 4 * g;
    //@ if fp16
    const km_real e = point.lost + g * (km_value_of(slot.coarse) + ROUNDING);
    km_real margin = 2.01f * (e * near + (g + point.lost) * fine);
    margin += fabsf(best) / 131072; // for the bits that a column has taken
    //@ else
    const km_real e = g * ROUNDING;
    km_real margin = (km_real)2.01 * e * near;
    //@ end
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

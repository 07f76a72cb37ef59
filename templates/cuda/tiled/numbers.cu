// SPDX-License-Identifier: MIT
// The numbers of which scores are made, and what is lost in making them.

//@ if half_filter
constexpr float FAR = 3e38f; // |c|^2 / 2 of padding
// What adding WIDTH products may lose of |x| |c|, where an addition keeps 23 bits of the largest number.
constexpr float ROUNDING = (4 * WIDTH + 8) / 16777216.f;

__device__ __forceinline__ pass_number pass_half_of(float value) {
    pass_number half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

__device__ __forceinline__ double pass_half_value(pass_number half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

__device__ __forceinline__ unsigned pass_bits_of(float value) {
    return __float_as_uint(value);
}

__device__ __forceinline__ float pass_value_of(unsigned bits) {
    return __uint_as_float(bits);
}

// Brings the data's box to 512: centroids outside of it have room.
static __device__ float pass_scale(const km_pass_args &args) {
    double largest = 0;
    int exponent = 0;
    for (int f = 0; f < 2 * D; f++) largest = fmax(largest, fabs(args.box[f]));
    frexp(largest, &exponent);
    return ldexpf(1, min(max(9 - exponent, -60), 60));
}

// What a centroid may lose below the smallest normal number of half precision.
__device__ __forceinline__ float pass_fine(float scale) {
    return sqrtf(WIDTH) * 1.001f / 33554432.f / scale;
}

//@ else
//@ if float64
constexpr double FAR = 1e300; // |c|^2 / 2 of padding
constexpr double ROUNDING = (D + 8) / 9007199254740992.0; // what D products and a constant may lose of |x| |c|
//@ else
constexpr float FAR = 3e38f;               // |c|^2 / 2 of padding
constexpr float ROUNDING = (D + 8) / 16777216.f;  // what D products and a constant may lose of |x| |c|
//@ end

//@ if float64
__device__ __forceinline__ pass_bits pass_bits_of(double value) {
    return (pass_bits)__double_as_longlong(value);
}

__device__ __forceinline__ double pass_value_of(pass_bits bits) {
    return __longlong_as_double((long long)bits);
}
//@ else
__device__ __forceinline__ pass_bits pass_bits_of(float value) {
    return __float_as_uint(value);
}

__device__ __forceinline__ float pass_value_of(pass_bits bits) {
    return __uint_as_float(bits);
}
//@ end
//@ end

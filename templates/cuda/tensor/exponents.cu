// SPDX-License-Identifier: MIT
// Powers of two.
static __device__ __forceinline__ double km_power_of_2(int exponent) { // 2^exponent
    return __longlong_as_double((1023ll + exponent) << 52);
}

// The exponent of the smallest power of two above |x|; at least `least`.
static __device__ __forceinline__ int km_exponent(double x, int least = -100) {
    const int exponent = (int)(__double_as_longlong(x) >> 52 & 0x7ff) - 1022;
    return exponent < least ? least : exponent;
}

// SPDX-License-Identifier: MIT
// Two floats as halves, the first in the low bits.
static __device__ __forceinline__ unsigned km_halves(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static __device__ __forceinline__ float km_low(unsigned pair) {
    float value;
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(pair));
    return value;
}

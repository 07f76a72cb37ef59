// SPDX-License-Identifier: MIT
// How far below the largest score a centroid is near, where points were rounded; what takes part in that.

enum { ERROR_BITS = 12, MARGIN_MAX = 512 }; // |r| as it is kept, in units of 2^-12; units of a 16-bit score
// 1024 in half precision, where units are 1: the bits of what is added to it are an integer.
constexpr unsigned NONE = 0x64006400, NEXT = NONE - 0x10001;

// Products of 16, from `start` on.
static __device__ __forceinline__ void km_multiply(float *sums, const uint4 &a, const unsigned *b, const uint4 &start) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]), "f"(__uint_as_float(start.x)),
          "f"(__uint_as_float(start.y)), "f"(__uint_as_float(start.z)), "f"(__uint_as_float(start.w)));
}

static __device__ __forceinline__ unsigned km_multiply_add(unsigned a, unsigned b, unsigned c) { // of two halves
    unsigned sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

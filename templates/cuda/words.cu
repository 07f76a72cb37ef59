// SPDX-License-Identifier: MIT
// The vocabulary of CUDA kernels: instructions that CUDA C has no word for, each written once, and reductions of a
// warp. A template says `//@ use NAME` before the first function that needs it.

// Loops that are unrolled. clang-format knows these macros as loops (.clang-format).
//@ def unroll_for
#define KM_UNROLL_FOR(...) _Pragma("unroll") for (__VA_ARGS__)
//@ end
//@ def unroll_1_for
#define KM_UNROLL_1_FOR(...) _Pragma("unroll 1") for (__VA_ARGS__)
//@ end
//@ def unroll_2_for
#define KM_UNROLL_2_FOR(...) _Pragma("unroll 2") for (__VA_ARGS__)
//@ end

// Warps ------------------------------------------------------------------------------------------------------

//@ def warp_sum
// The sum of all lanes' values, in every lane.
template <typename Number> static __device__ __forceinline__ Number km_warp_sum(Number value) {
    for (int width = 16; width > 0; width /= 2) value += __shfl_xor_sync(0xffffffffu, value, width);
    return value;
}

//@ end
//@ def warp_max
// The largest of all lanes' values, in every lane. Called a few times a launch, not inlined: short code, which compiles
// sooner.
static __device__ __noinline__ double km_warp_max(double value) {
    for (int width = 16; width > 0; width /= 2)
        value = fmax(value, __shfl_xor_sync(0xffffffffu, value, width));
    return value;
}

//@ end
// Registers --------------------------------------------------------------------------------------------------

//@ def prmt
// Permutes bytes: four of the eight bytes of a and b, or their signs. Each hexadecimal digit of WHICH selects one.
template <unsigned WHICH> static __device__ __forceinline__ unsigned km_prmt(unsigned a, unsigned b) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(WHICH));
    return bytes;
}

//@ end
//@ def prmt_by
// The same by a number's lower 16 bits.
static __device__ __forceinline__ unsigned km_prmt_by(unsigned a, unsigned b, unsigned which) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(which));
    return bytes;
}

//@ end
//@ def opaque
// The same number, hidden from the compiler's analysis: it neither keeps an earlier result in a register nor computes
// it again.
static __device__ __forceinline__ unsigned km_opaque(unsigned number) {
    unsigned kept;
    asm volatile("mov.b32 %0, %1;" : "=r"(kept) : "r"(number));
    return kept;
}

//@ end
//@ def opaque_address
static __device__ __forceinline__ const uint4 *km_opaque(const uint4 *address) {
    const uint4 *kept;
    asm volatile("mov.b64 %0, %1;" : "=l"(kept) : "l"(address));
    return kept;
}

//@ end
// Two halves in a register -----------------------------------------------------------------------------------

//@ def halves
// Two floats as halves, the first in the low bits.
static __device__ __forceinline__ unsigned km_halves(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

//@ end
//@ def low_half
static __device__ __forceinline__ float km_low_half(unsigned pair) {
    float value;
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(pair));
    return value;
}

//@ end
//@ def half2_add
static __device__ __forceinline__ unsigned km_half2_add(unsigned a, unsigned b) {
    unsigned sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

//@ end
//@ def half2_sub
static __device__ __forceinline__ unsigned km_half2_sub(unsigned a, unsigned b) {
    unsigned difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}

//@ end
//@ def half2_fma
// a b + c.
static __device__ __forceinline__ unsigned km_half2_fma(unsigned a, unsigned b, unsigned c) {
    unsigned sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

//@ end
//@ def half2_ge
// 1 where a >= b, else 0, each half by itself.
static __device__ __forceinline__ unsigned km_half2_ge(unsigned a, unsigned b) {
    unsigned answer;
    asm("set.ge.f16x2.f16x2 %0, %1, %2;" : "=r"(answer) : "r"(a), "r"(b));
    return answer;
}

//@ end
//@ def half2_gt
// 1 where a > b, else 0, each half by itself.
static __device__ __forceinline__ unsigned km_half2_gt(unsigned a, unsigned b) {
    unsigned answer;
    asm("set.gt.f16x2.f16x2 %0, %1, %2;" : "=r"(answer) : "r"(a), "r"(b));
    return answer;
}

//@ end
//@ def half2_min
// The smaller halves. They must not be negative: then they compare like the integers of their bits. From sm_90 on.
static __device__ __forceinline__ unsigned km_half2_min(unsigned a, unsigned b) {
    unsigned smaller;
    asm("min.u16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
}

//@ end
//@ def half2_max
// The larger halves. They must not be negative: then they compare like the integers of their bits.
static __device__ __forceinline__ unsigned km_half2_max(unsigned a, unsigned b) {
    unsigned larger;
    //@ if max3
    asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    //@ else
    asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    //@ end
    return larger;
}

//@ end
// Matrix products of a warp ----------------------------------------------------------------------------------

//@ def mma
// Matrix products of a warp: a has 16 rows, b 8 columns, `sums` and `start` are 16 x 8. Lane 4 g + t has rows g and
// g + 8 of a; column g of b; rows g and g + 8 of sums, columns 2 t and 2 t + 1.

//@ end
//@ def mma_f16
//@ use mma
// sums = a b + start: 16 products of halves each, added in float.
static __device__ __forceinline__ void km_mma_f16(float *sums, const unsigned *a, const unsigned *b,
                                                  const float *start) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(start[0]), "f"(start[1]),
          "f"(start[2]), "f"(start[3]));
}

//@ end
//@ def mma_f16_half
//@ use mma
// sums = a b + start: 16 products of halves each, added and rounded to halves, two columns in a register.
static __device__ __forceinline__ void km_mma_f16_half(unsigned *sums, const unsigned *a, const unsigned *b,
                                                       const unsigned *start) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
        : "=r"(sums[0]), "=r"(sums[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start[0]), "r"(start[1]));
}

//@ end
//@ def mma_s8
//@ use mma
// sums = a b + start: 32 products of signed bytes each.
static __device__ __forceinline__ void km_mma_s8(int *sums, const unsigned *a, const unsigned *b,
                                                 const int *start) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start[0]), "r"(start[1]),
          "r"(start[2]), "r"(start[3]));
}

//@ end
//@ def mma_s8_u8
//@ use mma
// sums = a b + start: 32 products of a signed byte and one without a sign each.
static __device__ __forceinline__ void km_mma_s8_u8(int *sums, const unsigned *a, const unsigned *b,
                                                    const int *start) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start[0]), "r"(start[1]),
          "r"(start[2]), "r"(start[3]));
}

//@ end
//@ def mma_f64
//@ use mma
// sums = a b + start: 8 products of doubles each.
static __device__ __forceinline__ void km_mma_f64(double *sums, const double *a, const double *b,
                                                  const double *start) {
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=d"(sums[0]), "=d"(sums[1]), "=d"(sums[2]), "=d"(sums[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]), "d"(start[0]), "d"(start[1]),
          "d"(start[2]), "d"(start[3]));
}

//@ end
//@ def ldmatrix_x4
// Reads four 8 x 8 matrices of halves as operands of products. Lane l gives the address, in shared memory, of row
// l % 8 of matrix l / 8.
static __device__ __forceinline__ void km_ldmatrix_x4(unsigned *matrices, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(row));
}

//@ end
//@ def ldmatrix_x2_trans
// Reads two such matrices, transposed. Lanes 0 to 15 give the addresses of their rows.
static __device__ __forceinline__ void km_ldmatrix_x2_trans(unsigned *matrices, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(matrices[0]), "=r"(matrices[1])
                 : "r"(row));
}

//@ end
// Shared memory ----------------------------------------------------------------------------------------------

//@ def shared_address
static __device__ __forceinline__ unsigned km_shared_address(const void *at) {
    return (unsigned)__cvta_generic_to_shared(at);
}

//@ end
//@ def read_shared
static __device__ __forceinline__ unsigned km_read_shared(unsigned address) {
    unsigned word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
    return word;
}

//@ end
//@ def read_shared_2
static __device__ __forceinline__ uint2 km_read_shared_2(unsigned address) {
    uint2 words;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(address));
    return words;
}

//@ end
//@ def read_shared_4
static __device__ __forceinline__ uint4 km_read_shared_4(unsigned address) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address));
    return words;
}

//@ end
//@ def copy_16
// Starts to copy 16 bytes to shared memory, past the L1 cache.
static __device__ __forceinline__ void km_copy_16(unsigned to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

//@ end
//@ def copy_16_if
// Starts to copy 16 bytes to shared memory, past the L1 cache; zeros where not `valid`.
static __device__ __forceinline__ void km_copy_16_if(unsigned to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}

//@ end
//@ def copy_cached
// Starts to copy 4, 8 or 16 bytes to shared memory, through the L1 cache.
template <int BYTES> static __device__ __forceinline__ void km_copy_cached(unsigned to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}

//@ end
//@ def copy_cached_if
// Starts to copy 4, 8 or 16 bytes to shared memory, through the L1 cache; zeros where not `valid`.
template <int BYTES>
static __device__ __forceinline__ void km_copy_cached_if(unsigned to, const void *from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                 "r"(valid ? BYTES : 0)
                 : "memory");
}

//@ end
//@ def copy_commit
// Closes a group of the thread's copies.
static __device__ __forceinline__ void km_copy_commit() {
    asm volatile("cp.async.commit_group;");
}

//@ end
//@ def copy_wait
// Waits until all groups of copies but the last LEFT are done.
template <int LEFT> static __device__ __forceinline__ void km_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

//@ end
//@ def copy_wait_all
static __device__ __forceinline__ void km_copy_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

//@ end

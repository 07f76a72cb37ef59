// SPDX-License-Identifier: MIT
// Vector operations of NEON (aarch64). Macros, because vectors are not handed to functions by value.
#include <arm_neon.h>
#define KM_TARGET
// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+w"(x))

//@ if float64
typedef float64x2_t km_vec;
typedef int64x2_t km_ints; // as many integers as km_vec has reals, of their size
#define KM_LOAD(from) vld1q_f64(from)
#define KM_STORE(to, x) vst1q_f64(to, x)
#define KM_SPLAT(value) vdupq_n_f64(value)
#define KM_ADD(a, b) vaddq_f64(a, b)
#define KM_SUB(a, b) vsubq_f64(a, b)
#define KM_FMA(a, b, c) vfmaq_f64(c, a, b)
#define KM_MIN(a, b) vminq_f64(a, b)
#define KM_INTS(value) vdupq_n_s64(value)
#define KM_INTS_ADD(a, b) vaddq_s64(a, b)
#define KM_LOAD_INTS(from) vld1q_s64(from)
#define KM_PUT_INTS(to, index) vst1q_s64(to, index)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = vbslq_s64(vcgtq_f64(score, best), j, index);                                                     \
    best = vmaxq_f64(score, best)
// Stores the indices of four vectors as labels of a byte.
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    vst1_s8((int8_t *)(to), vmovn_s16(vcombine_s16(vmovn_s32(vcombine_s32(vmovn_s64(a), vmovn_s64(b))),      \
                                                   vmovn_s32(vcombine_s32(vmovn_s64(c), vmovn_s64(d))))))
#define KM_LOAD_DOUBLES(from) vld1q_f64(from)
#define KM_SQRT(x) vsqrtq_f64(x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b)                                                                                    \
    vreinterpretq_f64_u64(vandq_u64(vcgtq_f64(b, vdupq_n_f64(0)), vreinterpretq_u64_f64(vdivq_f64(a, b))))
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef uint64x2_t km_mask;
#define KM_STORE_WIDE(to, x) KM_STORE(to, x)
#define KM_LOAD_LABELS(from) vmovl_s32(vld1_s32(from))
#define KM_EQUAL(a, b) vceqq_s64(a, b)
#define KM_COUNT_WHERE(count, where) count = vsubq_s64(count, vreinterpretq_s64_u64(where))
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    sum = vaddq_f64(sum, vreinterpretq_f64_u64(vandq_u64(where, vreinterpretq_u64_f64(vld1q_f64(from)))))
#define KM_SUM_INTS(x) vaddvq_s64(x)
//@ else
typedef float32x4_t km_vec;
typedef int32x4_t km_ints; // as many integers as km_vec has reals, of their size
#define KM_LOAD(from) vld1q_f32(from)
#define KM_STORE(to, x) vst1q_f32(to, x)
#define KM_SPLAT(value) vdupq_n_f32(value)
#define KM_ADD(a, b) vaddq_f32(a, b)
#define KM_SUB(a, b) vsubq_f32(a, b)
#define KM_FMA(a, b, c) vfmaq_f32(c, a, b)
#define KM_MIN(a, b) vminq_f32(a, b)
#define KM_INTS(value) vdupq_n_s32(value)
#define KM_INTS_ADD(a, b) vaddq_s32(a, b)
#define KM_LOAD_INTS(from) vld1q_s32(from)
#define KM_PUT_INTS(to, index) vst1q_s32(to, index)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = vbslq_s32(vcgtq_f32(score, best), j, index);                                                     \
    best = vmaxq_f32(score, best)
// Stores the indices of two vectors, or of four, as labels of a byte.
#define KM_PUT_LABELS_2(to, a, b) vst1_s8((int8_t *)(to), vmovn_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b))))
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    KM_PUT_LABELS_2(to, a, b);                                                                               \
    KM_PUT_LABELS_2((to) + 2 * LANES, c, d)
#define KM_LOAD_DOUBLES(from) vcvt_f64_f32(vld1_f32(from))
#define KM_SQRT(x) vsqrtq_f32(x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b)                                                                                    \
    vreinterpretq_f32_u32(vandq_u32(vcgtq_f32(b, vdupq_n_f32(0)), vreinterpretq_u32_f32(vdivq_f32(a, b))))
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_F_KEEP_NEAREST(first, second, index, square, j)                                                   \
    index = vbslq_s32(vcltq_f32(square, first), j, index);                                                   \
    second = vminq_f32(second, vmaxq_f32(square, first));                                                    \
    first = vminq_f32(square, first)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) (int)vmaxvq_u32(vmvnq_u32(vcltq_f32(a, b)))
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef uint32x4_t km_mask;
#define KM_STORE_WIDE(to, x)                                                                                 \
    vst1q_f64(to, vcvt_f64_f32(vget_low_f32(x)));                                                            \
    vst1q_f64((to) + DOUBLES, vcvt_high_f64_f32(x))
#define KM_LOAD_LABELS(from) vld1q_s32(from)
#define KM_EQUAL(a, b) vceqq_s32(a, b)
#define KM_COUNT_WHERE(count, where) count = vsubq_s32(count, vreinterpretq_s32_u32(where))
// A mask of 32 bits is widened to 64.
#define KM_D_ADD_HALF(sum, half, from)                                                                       \
    sum = vaddq_f64(sum, vreinterpretq_f64_s64(vandq_s64(vmovl_s32(vreinterpret_s32_u32(half)),              \
                                                         vreinterpretq_s64_f64(vld1q_f64(from)))))
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    KM_D_ADD_HALF(sum, vget_low_u32(where), from);                                                           \
    KM_D_ADD_HALF(sum, vget_high_u32(where), (from) + DOUBLES)
#define KM_SUM_INTS(x) vaddvq_s32(x)
//@ end

// Doubles: the finishing pass and the sums of distances.
enum { DOUBLES = 2 };
typedef float64x2_t km_doubles;
#define KM_D_LOAD(from) vld1q_f64(from)
#define KM_D_STORE(to, x) vst1q_f64(to, x)
#define KM_D_SPLAT(value) vdupq_n_f64(value)
#define KM_D_ADD(a, b) vaddq_f64(a, b)
#define KM_D_SUM(x) vaddvq_f64(x)
#define KM_D_SUB(a, b) vsubq_f64(a, b)
#define KM_D_FMA(a, b, c) vfmaq_f64(c, a, b)
typedef int64x2_t km_longs;
#define KM_LONGS(value) vdupq_n_s64(value)
#define KM_PUT_LONGS(to, x) vst1q_s64(to, x)
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_KEEP_NEAREST(first, second, index, square, j)                                                     \
    index = vbslq_s64(vcltq_f64(square, first), j, index);                                                   \
    second = vminq_f64(second, vmaxq_f64(square, first));                                                    \
    first = vminq_f64(square, first)
//@ if byte_labels
// A bit for each of 64 bytes that differ. Each byte keeps the bit of its place in eight, then neighbours are added.
static uint64_t km_differ(const uint8_t *a, const uint8_t *b) {
    const uint8x16_t places = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t bits[4];
    for (int i = 0; i < 4; i++)
        bits[i] = vbicq_u8(places, vceqq_u8(vld1q_u8(a + 16 * i), vld1q_u8(b + 16 * i)));
    const uint8x16_t sums = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}
#define KM_DIFFER(a, b) km_differ(a, b)
//@ end
//@ if prunes

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) vsqrtq_f64(x)
static inline uint64_t km_float_bits(uint32x4_t where) {
    const uint32x4_t places = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(where, places));
}
//@ if float64
static inline uint64_t km_bits(uint64x2_t where) {
    return (vgetq_lane_u64(where, 0) & 1) | (vgetq_lane_u64(where, 1) & 2);
}
typedef uint64x2_t km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
#define KM_LESS(a, b) vcltq_f64(a, b)
#define KM_WHERE(where, a, b) vbslq_f64(where, a, b)
#define KM_REACHES(a, b) vcgeq_f64(a, b)
#define KM_COUNT_CHOSEN(count, where) KM_COUNT_WHERE(count, where)
#define KM_LEAST_UNLESS(least, where, x) least = vbslq_f64(where, least, vminq_f64(x, least))
#define KM_KEEP_WHERE(kept, where, x) kept = vbslq_f64(where, x, kept)
#define KM_DIFFERENT(a, b) (km_bits(vceqq_s64(a, b)) ^ 3)
#define KM_MUL_REAL(a, b) vmulq_f64(a, b)
#define KM_DIVIDE(a, b) vdivq_f64(a, b)
#define KM_MAX(a, b) vmaxq_f64(a, b)
#define KM_ABS(x) vabsq_f64(x)
#define KM_ABOVE(a, b) km_bits(vcgtq_f64(a, b))
#define KM_NOT_BELOW(a, b) (km_bits(vcltq_f64(a, b)) ^ 3)
// Values base[index] of indices that lie in memory.
#define KM_GATHER(base, index) ((float64x2_t){(base)[(index)[0]], (base)[(index)[1]]})
//@ else
typedef uint32x4_t km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
#define KM_LESS(a, b) vcltq_f32(a, b)
#define KM_WHERE(where, a, b) vbslq_f32(where, a, b)
#define KM_REACHES(a, b) vcgeq_f32(a, b)
#define KM_COUNT_CHOSEN(count, where) KM_COUNT_WHERE(count, where)
#define KM_LEAST_UNLESS(least, where, x) least = vbslq_f32(where, least, vminq_f32(x, least))
#define KM_KEEP_WHERE(kept, where, x) kept = vbslq_f32(where, x, kept)
#define KM_DIFFERENT(a, b) (km_float_bits(vceqq_s32(a, b)) ^ 15)
#define KM_MUL_REAL(a, b) vmulq_f32(a, b)
#define KM_DIVIDE(a, b) vdivq_f32(a, b)
#define KM_MAX(a, b) vmaxq_f32(a, b)
#define KM_ABS(x) vabsq_f32(x)
#define KM_ABOVE(a, b) km_float_bits(vcgtq_f32(a, b))
#define KM_NOT_BELOW(a, b) KM_F_NOT_BELOW(a, b)
// Values base[index] of indices that lie in memory.
#define KM_GATHER(base, index) KM_F_GATHER(base, index)
//@ end
// Floats, whatever the reals are.
enum { FLOATS = 4 };
typedef float32x4_t km_floats;
#define KM_F_LOAD(from) vld1q_f32(from)
#define KM_F_STORE(to, x) vst1q_f32(to, x)
#define KM_F_SPLAT(value) vdupq_n_f32(value)
#define KM_F_ADD(a, b) vaddq_f32(a, b)
#define KM_F_SUB(a, b) vsubq_f32(a, b)
#define KM_F_FMA(a, b, c) vfmaq_f32(c, a, b)
#define KM_F_MIN(a, b) vminq_f32(a, b)
#define KM_F_MAX(a, b) vmaxq_f32(a, b)
#define KM_F_NOT_BELOW(a, b) km_float_bits(vmvnq_u32(vcltq_f32(a, b)))
// Values base[index] of indices that lie in memory, as int32_t, uint8_t, uint16_t.
#define KM_F_GATHER(base, index)                                                                             \
    ((float32x4_t){(base)[(index)[0]], (base)[(index)[1]], (base)[(index)[2]], (base)[(index)[3]]})
#define KM_F_GATHER_BYTES(base, index) KM_F_GATHER(base, (const uint8_t *)(index))
#define KM_F_GATHER_SHORTS(base, index) KM_F_GATHER(base, (const uint16_t *)(index))
//@ end

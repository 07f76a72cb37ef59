// SPDX-License-Identifier: MIT
// Vector operations of AVX-512. Macros, because vectors are not handed to functions by value: the file must compile
// without options that name the instruction set.
#include <immintrin.h>
#define KM_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma$target_more")))

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+v"(x))
// Some headers fill unmasked forms with an undefined vector, and warn of it: a full mask gives the same instruction.
typedef __m512i km_ints; // as many integers as km_vec has reals, of their size
//@ if float64
typedef __m512d km_vec;
#define KM_LOAD(from) _mm512_loadu_pd(from)
#define KM_STORE(to, x) _mm512_storeu_pd(to, x)
#define KM_SPLAT(value) _mm512_set1_pd(value)
#define KM_ADD(a, b) _mm512_add_pd(a, b)
#define KM_SUB(a, b) _mm512_sub_pd(a, b)
#define KM_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define KM_MIN(a, b) _mm512_maskz_min_pd((__mmask8)-1, a, b)
#define KM_INTS(value) _mm512_set1_epi64(value)
#define KM_INTS_ADD(a, b) _mm512_add_epi64(a, b)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm512_mask_mov_epi64(index, _mm512_cmp_pd_mask(score, best, _CMP_GT_OQ), j);                    \
    best = _mm512_maskz_max_pd((__mmask8)-1, score, best)
#define KM_LOAD_INTS(from) _mm512_loadu_si512((const void *)(from))
#define KM_PUT_INTS(to, index) _mm512_storeu_si512((void *)(to), index)
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    _mm_storel_epi64((__m128i *)(void *)(to), _mm512_maskz_cvtepi64_epi8((__mmask8)-1, a));                  \
    _mm_storel_epi64((__m128i *)(void *)((to) + LANES), _mm512_maskz_cvtepi64_epi8((__mmask8)-1, b))
#define KM_LOAD_DOUBLES(from) _mm512_loadu_pd(from)
#define KM_D_GATHER(from) _mm512_i32gather_pd(KM_SOA_OFFSETS, from, 8)
#define KM_SQRT(x) _mm512_maskz_sqrt_pd((__mmask8)-1, x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b) _mm512_maskz_div_pd(_mm512_cmp_pd_mask(b, _mm512_setzero_pd(), _CMP_GT_OQ), a, b)
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __mmask8 km_mask;
#define KM_STORE_WIDE(to, x) KM_STORE(to, x)
#define KM_LOAD_LABELS(from)                                                                                 \
    _mm512_maskz_cvtepi32_epi64((__mmask8)-1, _mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define KM_EQUAL(a, b) _mm512_cmpeq_epi64_mask(a, b)
#define KM_COUNT_WHERE(count, where) count = _mm512_mask_add_epi64(count, where, count, _mm512_set1_epi64(1))
#define KM_D_ADD_WHERE(sum, where, from) KM_D_ADD_OWN(sum, where, from)
#define KM_SUM_INTS(x) _mm512_reduce_add_epi64(x)
//@ else
typedef __m512 km_vec;
#define KM_LOAD(from) _mm512_loadu_ps(from)
#define KM_STORE(to, x) _mm512_storeu_ps(to, x)
#define KM_SPLAT(value) _mm512_set1_ps(value)
#define KM_ADD(a, b) _mm512_add_ps(a, b)
#define KM_SUB(a, b) _mm512_sub_ps(a, b)
#define KM_MUL(a, b) _mm512_mul_ps(a, b)
#define KM_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define KM_MIN(a, b) _mm512_maskz_min_ps((__mmask16)-1, a, b)
#define KM_INTS(value) _mm512_set1_epi32(value)
#define KM_INTS_ADD(a, b) _mm512_add_epi32(a, b)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm512_mask_mov_epi32(index, _mm512_cmp_ps_mask(score, best, _CMP_GT_OQ), j);                    \
    best = _mm512_maskz_max_ps((__mmask16)-1, score, best)
#define KM_LOAD_INTS(from) _mm512_loadu_si512((const void *)(from))
#define KM_PUT_INTS(to, index) _mm512_storeu_si512((void *)(to), index)
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    _mm_storeu_si128((__m128i *)(void *)(to), _mm512_maskz_cvtepi32_epi8((__mmask16)-1, a));                 \
    _mm_storeu_si128((__m128i *)(void *)((to) + LANES), _mm512_maskz_cvtepi32_epi8((__mmask16)-1, b))
#define KM_LOAD_DOUBLES(from) _mm512_maskz_cvtps_pd((__mmask8)-1, _mm256_loadu_ps(from))
#define KM_D_GATHER(from) _mm512_maskz_cvtps_pd((__mmask8)-1, _mm256_i32gather_ps(from, KM_SOA_OFFSETS, 4))
// 1 / sqrt(x), 0 where squares underflow. The instruction gives 14 bits, and a step of Newton the rest: a fifth
// of the time of a root and a division.
#define KM_INVERSE_ROOT(x) km_inverse_root(x)
KM_TARGET static inline __m512 km_inverse_root(__m512 x) {
    const __m512 rough =
        _mm512_maskz_rsqrt14_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(1e-37f), _CMP_GT_OQ), x);
    const __m512 rest = _mm512_fnmadd_ps(_mm512_mul_ps(x, rough), rough, _mm512_set1_ps(1));
    return _mm512_fmadd_ps(_mm512_mul_ps(rough, _mm512_set1_ps(0.5f)), rest, rough);
}
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_F_KEEP_NEAREST(first, second, index, square, j)                                                   \
    index = _mm512_mask_mov_epi32(index, _mm512_cmp_ps_mask(square, first, _CMP_LT_OQ), j);                  \
    second = _mm512_maskz_min_ps((__mmask16)-1, second, _mm512_maskz_max_ps((__mmask16)-1, square, first));  \
    first = _mm512_maskz_min_ps((__mmask16)-1, square, first)
// Stores past the caches, to whole lines. KM_STREAM_END goes before other threads read.
#define KM_STREAM_INTS(to, x) _mm512_stream_si512((__m512i *)(void *)(to), x)
#define KM_STREAM_END _mm_sfence()
#define KM_ROUND(x) _mm512_maskz_cvtps_epi32((__mmask16)-1, x)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) (int)_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ)
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __mmask16 km_mask;
#define KM_STORE_WIDE(to, x)                                                                                 \
    KM_D_STORE(to, _mm512_maskz_cvtps_pd((__mmask8)-1, _mm512_castps512_ps256(x)));                          \
    KM_D_STORE((to) + DOUBLES, _mm512_maskz_cvtps_pd((__mmask8)-1, _mm512_extractf32x8_ps(x, 1)))
#define KM_LOAD_LABELS(from) KM_LOAD_INTS(from)
#define KM_EQUAL(a, b) _mm512_cmpeq_epi32_mask(a, b)
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    KM_D_ADD_OWN(sum, where, from);                                                                          \
    KM_D_ADD_OWN(sum, (where) >> 8, (from) + DOUBLES)
// The same for two vectors of doubles, and for integers, whose total may need more than 32 bits.
#define KM_D_ADD_BOTH(sum, where, low, high)                                                                 \
    sum = _mm512_mask_add_pd(sum, (__mmask8)(where), sum, low);                                              \
    sum = _mm512_mask_add_pd(sum, (__mmask8)((where) >> 8), sum, high)
#define KM_ADD_INTS_WHERE(sum, where, x) sum = _mm512_mask_add_epi32(sum, where, sum, x)
#define KM_SUM_WIDE(x)                                                                                       \
    KM_D_SUM(_mm512_add_pd(_mm512_maskz_cvtepi32_pd((__mmask8)-1, _mm512_castsi512_si256(x)),                \
                           _mm512_maskz_cvtepi32_pd((__mmask8)-1, _mm512_extracti64x4_epi64(x, 1))))
// Eight labels as 64-bit integers; eight of sixteen doubles, picked by label.
#define KM_LOAD_LONGS(from)                                                                                  \
    _mm512_maskz_cvtepi32_epi64((__mmask8)-1, _mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define KM_D_PICK(from, index) _mm512_permutex2var_pd(KM_D_LOAD(from), index, KM_D_LOAD((from) + DOUBLES))
//@ end
//@ if int16_scores
// int16 scores. Integers of 16 bits lie two in a 32-bit lane: features of points, scores, indices.
#define KM_TARGET_INT16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma")))
// Makes compilers load again: they would keep all points in registers, and spill them.
#define KM_LOAD_ANEW __asm__ volatile("" : : : "memory")
// Unrolls loops over feature pairs whose length is known and short.
#define KM_UNROLL _Pragma("GCC unroll $int16_unroll")
#define KM_INT16_SPLAT(value) _mm512_set1_epi16((short)(value))
#define KM_INT16_ADD(a, b) _mm512_add_epi16(a, b)
// sum + the products of both halves of x and c.
#define KM_INT16_DOT(sum, x, c) _mm512_dpwssd_epi32(sum, x, c)
// x * scale and y * other, rounded to 16 bits, as the halves of one lane. Adding 1.5 * 2^23 leaves no bit below one.
#define KM_ROUNDED(x, scale) _mm512_castps_si512(_mm512_fmadd_ps(x, scale, _mm512_set1_ps(0x1.8p23f)))
#define KM_INT16_PAIR(x, scale, y, other)                                                                    \
    _mm512_mask_blend_epi16(0xaaaaaaaa, KM_ROUNDED(x, scale),                                                \
                            _mm512_maskz_slli_epi32((__mmask16)-1, KM_ROUNDED(y, other), 16))
// The high halves of two vectors of 32-bit sums: those of `low` become the low halves.
#define KM_INT16_HIGH(low, high)                                                                             \
    _mm512_mask_shuffle_epi8(                                                                                \
        high, 0x3333333333333333, low,                                                                       \
        _mm512_set4_epi32((int)0x80800f0e, (int)0x80800b0a, (int)0x80800706, (int)0x80800302))
// The numbers of lanes; the lowest index among the lanes that hold the largest value.
#define KM_LANE_NUMBERS _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define KM_LOWEST(best, index)                                                                               \
    _mm512_mask_reduce_min_epi32(                                                                            \
        _mm512_cmp_ps_mask(best, _mm512_set1_ps(_mm512_reduce_max_ps(best)), _CMP_EQ_OQ), index)
// Takes a score into the largest and the second-largest so far. Equal ones keep the lower index.
#define KM_INT16_KEEP(best, second, index, score, j)                                                         \
    do {                                                                                                     \
        const __m512i score_ = score;                                                                        \
        index = _mm512_mask_mov_epi16(index, _mm512_cmpgt_epi16_mask(score_, best), j);                      \
        second = _mm512_max_epi16(second, _mm512_min_epi16(score_, best));                                   \
        best = _mm512_max_epi16(score_, best);                                                               \
    } while (0)
// Stores 16-bit indices, two in a lane, as labels of a byte.
#define KM_INT16_PUT_LABELS(to, index)                                                                       \
    KM_PUT_LABELS_2(to, index, _mm512_maskz_srli_epi32((__mmask16)-1, index, 16))
// A bit for each half whose second-largest score lies within `margin` of the largest.
#define KM_INT16_AMBIGUOUS(best, second, margin)                                                             \
    (uint64_t) _mm512_cmple_epi16_mask(_mm512_subs_epi16(best, second), KM_INT16_SPLAT(margin))
// The point of such a bit: low halves are the points of the first of two vectors, high halves those of the second.
#define KM_INT16_POINT(bit) ((bit) / 32 * 32 + (bit) % 2 * LANES + (bit) % 32 / 2)
//@ end
// Stores the indices of two vectors, or of four, as labels of a byte. Four of floats are stored at once, so that they
// may be loaded at once.
//@ if float64
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    KM_PUT_LABELS_2(to, a, b);                                                                               \
    KM_PUT_LABELS_2((to) + 2 * LANES, c, d)
//@ else
#define KM_BYTES(x) _mm512_maskz_cvtepi32_epi8((__mmask16)-1, x)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm512_storeu_si512(                                                                                     \
        (void *)(to),                                                                                        \
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_inserti128_si256(                                   \
                               _mm256_castsi128_si256(KM_BYTES(a)), KM_BYTES(b), 1)),                        \
                           _mm256_inserti128_si256(_mm256_castsi128_si256(KM_BYTES(c)), KM_BYTES(d), 1), 1))
//@ end
// A bit for each of 64 bytes that are j.
#define KM_OWN(labels, j)                                                                                    \
    _mm512_cmpeq_epi8_mask(_mm512_loadu_si512((const void *)(labels)), _mm512_set1_epi8((char)(j)))
// A bit for each of 64 bytes that differ.
#define KM_DIFFER(a, b)                                                                                      \
    _mm512_cmpneq_epi8_mask(_mm512_loadu_si512((const void *)(a)), _mm512_loadu_si512((const void *)(b)))

// Doubles: the finishing pass and the sums of distances.
enum { DOUBLES = 8 };
typedef __m512d km_doubles;
#define KM_D_LOAD(from) _mm512_loadu_pd(from)
#define KM_D_STORE(to, x) _mm512_storeu_pd(to, x)
#define KM_D_SPLAT(value) _mm512_set1_pd(value)
#define KM_D_SUB(a, b) _mm512_sub_pd(a, b)
#define KM_D_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define KM_D_ADD(a, b) _mm512_add_pd(a, b)
#define KM_D_SUM(x) _mm512_reduce_add_pd(x)
// Adds doubles to a sum where a bit is set.
#define KM_D_ADD_OWN(sum, bits, from)                                                                        \
    sum = _mm512_mask_add_pd(sum, (__mmask8)(bits), sum, _mm512_loadu_pd(from))
//@ if point_rows
// Offsets of eight features of a point.
#define KM_SOA_OFFSETS                                                                                       \
    _mm256_set_epi32(7 * SOA_POINTS, 6 * SOA_POINTS, 5 * SOA_POINTS, 4 * SOA_POINTS, 3 * SOA_POINTS,         \
                     2 * SOA_POINTS, SOA_POINTS, 0)
// Transposes eight features of eight points (a column is a feature) into eight rows. Columns from `features` on are two
// ones, then zeros.
#define KM_D_COLUMN(from, c, features)                                                                       \
    ((c) < (features) ? KM_LOAD_DOUBLES((from) + (c)*SOA_POINTS) : KM_D_SPLAT((c) < (features) + 2))
#define KM_D_TRANSPOSE(rows, from, features)                                                                 \
    km_transpose(rows, KM_D_COLUMN(from, 0, features), KM_D_COLUMN(from, 1, features),                       \
                 KM_D_COLUMN(from, 2, features), KM_D_COLUMN(from, 3, features),                             \
                 KM_D_COLUMN(from, 4, features), KM_D_COLUMN(from, 5, features),                             \
                 KM_D_COLUMN(from, 6, features), KM_D_COLUMN(from, 7, features))
KM_TARGET static inline void km_transpose_half(double *rows, __m512d a, __m512d b, __m512d c, __m512d d) {
    const __m512i low = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0),
                  high = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
    const __m512d first = _mm512_permutex2var_pd(a, low, b), second = _mm512_permutex2var_pd(a, high, b);
    const __m512d third = _mm512_permutex2var_pd(c, low, d), fourth = _mm512_permutex2var_pd(c, high, d);
    KM_D_STORE(rows, _mm512_maskz_shuffle_f64x2((__mmask8)-1, first, third, 0x44));
    KM_D_STORE(rows + 2 * ROW, _mm512_maskz_shuffle_f64x2((__mmask8)-1, second, fourth, 0x44));
    KM_D_STORE(rows + 4 * ROW, _mm512_maskz_shuffle_f64x2((__mmask8)-1, first, third, 0xee));
    KM_D_STORE(rows + 6 * ROW, _mm512_maskz_shuffle_f64x2((__mmask8)-1, second, fourth, 0xee));
}
KM_TARGET static inline void km_transpose(double *rows, __m512d a, __m512d b, __m512d c, __m512d d, __m512d e,
                                          __m512d f, __m512d g, __m512d h) {
    km_transpose_half(
        rows, _mm512_maskz_unpacklo_pd((__mmask8)-1, a, b), _mm512_maskz_unpacklo_pd((__mmask8)-1, c, d),
        _mm512_maskz_unpacklo_pd((__mmask8)-1, e, f), _mm512_maskz_unpacklo_pd((__mmask8)-1, g, h));
    km_transpose_half(rows + ROW, _mm512_maskz_unpackhi_pd((__mmask8)-1, a, b),
                      _mm512_maskz_unpackhi_pd((__mmask8)-1, c, d),
                      _mm512_maskz_unpackhi_pd((__mmask8)-1, e, f),
                      _mm512_maskz_unpackhi_pd((__mmask8)-1, g, h));
}
//@ end
typedef __m512i km_longs;
#define KM_LONGS(value) _mm512_set1_epi64(value)
#define KM_PUT_LONGS(to, x) _mm512_storeu_si512((void *)(to), x)
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_KEEP_NEAREST(first, second, index, square, j)                                                     \
    index = _mm512_mask_mov_epi64(index, _mm512_cmp_pd_mask(square, first, _CMP_LT_OQ), j);                  \
    second = _mm512_maskz_min_pd((__mmask8)-1, second, _mm512_maskz_max_pd((__mmask8)-1, square, first));    \
    first = _mm512_maskz_min_pd((__mmask8)-1, square, first)
//@ if prunes

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) _mm512_maskz_sqrt_pd((__mmask8)-1, x)
typedef km_mask km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
//@ if float64
#define KM_LESS(a, b) _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ)
#define KM_WHERE(where, a, b) _mm512_mask_blend_pd(where, b, a)
#define KM_REACHES(a, b) _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ)
#define KM_COUNT_CHOSEN(count, where) KM_COUNT_WHERE(count, where)
#define KM_LEAST_UNLESS(least, where, x) least = _mm512_mask_min_pd(least, (__mmask8) ~(where), least, x)
#define KM_KEEP_WHERE(kept, where, x) kept = _mm512_mask_mov_pd(kept, where, x)
#define KM_DIFFERENT(a, b) ((uint64_t)_mm512_cmpneq_epi64_mask(a, b))
#define KM_MUL_REAL(a, b) _mm512_mul_pd(a, b)
#define KM_DIVIDE(a, b) _mm512_div_pd(a, b)
#define KM_MAX(a, b) _mm512_maskz_max_pd((__mmask8)-1, a, b)
#define KM_ABS(x) _mm512_abs_pd(x)
#define KM_ABOVE(a, b) ((uint64_t)_mm512_cmp_pd_mask(a, b, _CMP_GT_OQ))
#define KM_NOT_BELOW(a, b) ((uint64_t)_mm512_cmp_pd_mask(a, b, _CMP_NLT_UQ))
#define KM_SUM(x) _mm512_reduce_add_pd(x)
// Values base[index] of indices that lie in memory, as int32_t.
#define KM_GATHER(base, index)                                                                               \
    _mm512_mask_i32gather_pd(_mm512_setzero_pd(), (__mmask8)-1, _mm256_loadu_si256((const void *)(index)),   \
                             base, 8)
//@ else
#define KM_LESS(a, b) _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define KM_WHERE(where, a, b) _mm512_mask_blend_ps(where, b, a)
#define KM_REACHES(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ)
#define KM_COUNT_CHOSEN(count, where) count = _mm512_mask_add_epi32(count, where, count, _mm512_set1_epi32(1))
#define KM_LEAST_UNLESS(least, where, x) least = _mm512_mask_min_ps(least, (__mmask16) ~(where), least, x)
#define KM_KEEP_WHERE(kept, where, x) kept = _mm512_mask_mov_ps(kept, where, x)
#define KM_DIFFERENT(a, b) ((uint64_t)_mm512_cmpneq_epi32_mask(a, b))
#define KM_MUL_REAL(a, b) _mm512_mul_ps(a, b)
#define KM_DIVIDE(a, b) _mm512_div_ps(a, b)
#define KM_MAX(a, b) _mm512_maskz_max_ps((__mmask16)-1, a, b)
#define KM_ABS(x) _mm512_abs_ps(x)
#define KM_SQRT(x) _mm512_maskz_sqrt_ps((__mmask16)-1, x)
#define KM_ABOVE(a, b) ((uint64_t)_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
#define KM_NOT_BELOW(a, b) ((uint64_t)_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ))
#define KM_SUM(x) _mm512_reduce_add_ps(x)
// Values base[index] of indices that lie in memory, as int32_t.
#define KM_GATHER(base, index) KM_F_GATHER(base, index)
// Picks from sixteen values by index.
#define KM_PICK(values, numbers) _mm512_maskz_permutexvar_ps((__mmask16)-1, numbers, KM_LOAD(values))
// Eight floats base[index] as doubles. Indices lie in memory, as int64_t.
#define KM_GATHER_DOUBLES(base, index)                                                                       \
    _mm512_maskz_cvtps_pd((__mmask8)-1,                                                                      \
                          _mm512_mask_i64gather_ps(_mm256_setzero_ps(), (__mmask8)-1,                        \
                                                   _mm512_loadu_si512((const void *)(index)), base, 4))
// Four floats as doubles: compilers would convert them two at a time.
#define KM_FOUR_DOUBLES(x) _mm256_cvtps_pd((__m128)(x))
#define KM_INTS_OR_WHERE(ints, bits, x) ints = _mm512_mask_or_epi32(ints, (__mmask16)(bits), ints, x)
// Adds doubles to a sum where a bit is set.
#define KM_D_ADD_BITS(sum, bits, x) sum = _mm512_mask_add_pd(sum, (__mmask8)(bits), sum, x)
//@ end
// Writes first + i for each of sixteen bits i that are set, in their order, and what is left of 64 bytes behind them.
#define KM_LIST(to, bits, first)                                                                             \
    _mm512_storeu_si512(                                                                                     \
        (void *)(to), _mm512_maskz_compress_epi32(                                                           \
                          (__mmask16)(bits), _mm512_add_epi32(_mm512_set1_epi32((int)(first)),               \
                                                              _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, \
                                                                               7, 6, 5, 4, 3, 2, 1, 0))))
// Floats, whatever the reals are.
enum { FLOATS = 16 };
typedef __m512 km_floats;
#define KM_F_LOAD(from) _mm512_loadu_ps(from)
#define KM_F_STORE(to, x) _mm512_storeu_ps(to, x)
#define KM_F_SPLAT(value) _mm512_set1_ps(value)
#define KM_F_ADD(a, b) _mm512_add_ps(a, b)
#define KM_F_SUB(a, b) _mm512_sub_ps(a, b)
#define KM_F_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define KM_F_MIN(a, b) _mm512_maskz_min_ps((__mmask16)-1, a, b)
#define KM_F_MAX(a, b) _mm512_maskz_max_ps((__mmask16)-1, a, b)
#define KM_F_NOT_BELOW(a, b) ((uint64_t)_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ))
#define KM_F_LEAST(x) _mm512_reduce_min_ps(x)
#define KM_F_GATHER_AT(base, index)                                                                          \
    _mm512_mask_i32gather_ps(_mm512_setzero_ps(), (__mmask16)-1, index, base, 4)
// Values base[index] of indices that lie in memory, as int32_t, uint8_t, uint16_t.
#define KM_F_GATHER(base, index) KM_F_GATHER_AT(base, _mm512_loadu_si512((const void *)(index)))
#define KM_F_GATHER_BYTES(base, index)                                                                       \
    KM_F_GATHER_AT(base, _mm512_maskz_cvtepu8_epi32((__mmask16)-1, _mm_loadu_si128((const void *)(index))))
#define KM_F_GATHER_SHORTS(base, index)                                                                      \
    KM_F_GATHER_AT(base,                                                                                     \
                   _mm512_maskz_cvtepu16_epi32((__mmask16)-1, _mm256_loadu_si256((const void *)(index))))
//@ end

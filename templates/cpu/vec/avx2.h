// SPDX-License-Identifier: MIT
// Vector operations of AVX2 with FMA. Macros, because vectors are not handed to functions by value: the file must
// compile without options that name the instruction set.
#include <immintrin.h>
#define KM_TARGET __attribute__((target("avx2,fma$target_more")))

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+x"(x))
typedef __m256i km_ints; // as many integers as km_vec has reals, of their size
//@ if float64
typedef __m256d km_vec;
#define KM_LOAD(from) _mm256_loadu_pd(from)
#define KM_STORE(to, x) _mm256_storeu_pd(to, x)
#define KM_SPLAT(value) _mm256_set1_pd(value)
#define KM_ADD(a, b) _mm256_add_pd(a, b)
#define KM_SUB(a, b) _mm256_sub_pd(a, b)
#define KM_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define KM_MIN(a, b) _mm256_min_pd(a, b)
#define KM_INTS(value) _mm256_set1_epi64x(value)
#define KM_INTS_ADD(a, b) _mm256_add_epi64(a, b)
#define KM_LOAD_INTS(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define KM_PUT_INTS(to, index) _mm256_storeu_si256((__m256i *)(void *)(to), index)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm256_castpd_si256(_mm256_blendv_pd(_mm256_castsi256_pd(index), _mm256_castsi256_pd(j),         \
                                                 _mm256_cmp_pd(score, best, _CMP_GT_OQ)));                   \
    best = _mm256_max_pd(score, best)
// Stores the indices of two vectors, or of four, as labels of a byte.
#define KM_LOW_INTS(a)                                                                                       \
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)))
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    do {                                                                                                     \
        const __m128i km_both = _mm_packs_epi32(KM_LOW_INTS(a), KM_LOW_INTS(b));                             \
        _mm_storel_epi64((__m128i *)(void *)(to), _mm_packus_epi16(km_both, km_both));                       \
    } while (0)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm_storeu_si128((__m128i *)(void *)(to),                                                                \
                     _mm_packus_epi16(_mm_packs_epi32(KM_LOW_INTS(a), KM_LOW_INTS(b)),                       \
                                      _mm_packs_epi32(KM_LOW_INTS(c), KM_LOW_INTS(d))))
#define KM_LOAD_DOUBLES(from) _mm256_loadu_pd(from)
#define KM_SQRT(x) _mm256_sqrt_pd(x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b)                                                                                    \
    _mm256_and_pd(_mm256_div_pd(a, b), _mm256_cmp_pd(b, _mm256_setzero_pd(), _CMP_GT_OQ))
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __m256i km_mask;
#define KM_STORE_WIDE(to, x) KM_STORE(to, x)
#define KM_LOAD_LABELS(from) _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)(const void *)(from)))
#define KM_EQUAL(a, b) _mm256_cmpeq_epi64(a, b)
#define KM_COUNT_WHERE(count, where) count = _mm256_sub_epi64(count, where)
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    sum = _mm256_add_pd(sum, _mm256_and_pd(_mm256_loadu_pd(from), _mm256_castsi256_pd(where)))
#define KM_SUM_INTS(x)                                                                                       \
    (_mm256_extract_epi64(x, 0) + _mm256_extract_epi64(x, 1) + _mm256_extract_epi64(x, 2) +                  \
     _mm256_extract_epi64(x, 3))
//@ else
typedef __m256 km_vec;
#define KM_LOAD(from) _mm256_loadu_ps(from)
#define KM_STORE(to, x) _mm256_storeu_ps(to, x)
#define KM_SPLAT(value) _mm256_set1_ps(value)
#define KM_ADD(a, b) _mm256_add_ps(a, b)
#define KM_SUB(a, b) _mm256_sub_ps(a, b)
#define KM_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define KM_MIN(a, b) _mm256_min_ps(a, b)
#define KM_INTS(value) _mm256_set1_epi32(value)
#define KM_INTS_ADD(a, b) _mm256_add_epi32(a, b)
#define KM_LOAD_INTS(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define KM_PUT_INTS(to, index) _mm256_storeu_si256((__m256i *)(void *)(to), index)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(index), _mm256_castsi256_ps(j),         \
                                                 _mm256_cmp_ps(score, best, _CMP_GT_OQ)));                   \
    best = _mm256_max_ps(score, best)
// Stores the indices of two vectors, or of four, as labels of a byte. Packing works within halves of a vector, so the
// result is put in order.
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    do {                                                                                                     \
        const __m256i km_both = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);                    \
        _mm_storeu_si128((__m128i *)(void *)(to), _mm_packus_epi16(_mm256_castsi256_si128(km_both),          \
                                                                   _mm256_extracti128_si256(km_both, 1)));   \
    } while (0)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm256_storeu_si256(                                                                                     \
        (__m256i *)(void *)(to),                                                                             \
        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)), \
                                    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)))
#define KM_LOAD_DOUBLES(from) _mm256_cvtps_pd(_mm_loadu_ps(from))
#define KM_SQRT(x) _mm256_sqrt_ps(x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b)                                                                                    \
    _mm256_and_ps(_mm256_div_ps(a, b), _mm256_cmp_ps(b, _mm256_setzero_ps(), _CMP_GT_OQ))
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_F_KEEP_NEAREST(first, second, index, square, j)                                                   \
    index = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(index), _mm256_castsi256_ps(j),         \
                                                 _mm256_cmp_ps(square, first, _CMP_LT_OQ)));                 \
    second = _mm256_min_ps(second, _mm256_max_ps(square, first));                                            \
    first = _mm256_min_ps(square, first)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ))
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __m256i km_mask;
#define KM_STORE_WIDE(to, x)                                                                                 \
    KM_D_STORE(to, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));                                              \
    KM_D_STORE((to) + DOUBLES, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)))
#define KM_LOAD_LABELS(from) KM_LOAD_INTS(from)
#define KM_EQUAL(a, b) _mm256_cmpeq_epi32(a, b)
#define KM_COUNT_WHERE(count, where) count = _mm256_sub_epi32(count, where)
#define KM_WIDE_WHERE(where, half)                                                                           \
    _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(where, half)))
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    sum = _mm256_add_pd(sum, _mm256_and_pd(_mm256_loadu_pd(from), KM_WIDE_WHERE(where, 0)));                 \
    sum = _mm256_add_pd(sum, _mm256_and_pd(_mm256_loadu_pd((from) + DOUBLES), KM_WIDE_WHERE(where, 1)))
#define KM_SUM_INTS(x) km_sum_ints(x)
KM_TARGET static inline int32_t km_sum_ints(km_ints x) {
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    const __m128i two = _mm_add_epi32(four, _mm_srli_si128(four, 8));
    return _mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 1);
}
//@ end
// A bit for each of 64 bytes that differ.
#define KM_HALF_EQUAL(a, b)                                                                                  \
    (uint32_t)                                                                                               \
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(a)),       \
                                               _mm256_loadu_si256((const __m256i *)(const void *)(b))))
#define KM_DIFFER(a, b) ~(KM_HALF_EQUAL(a, b) | (uint64_t)KM_HALF_EQUAL((a) + 32, (b) + 32) << 32)

// Doubles: the finishing pass and the sums of distances.
enum { DOUBLES = 4 };
typedef __m256d km_doubles;
#define KM_D_LOAD(from) _mm256_loadu_pd(from)
#define KM_D_STORE(to, x) _mm256_storeu_pd(to, x)
#define KM_D_SPLAT(value) _mm256_set1_pd(value)
#define KM_D_ADD(a, b) _mm256_add_pd(a, b)
#define KM_D_SUM(x) km_d_sum(x)
KM_TARGET static inline double km_d_sum(km_doubles x) {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
}
#define KM_D_SUB(a, b) _mm256_sub_pd(a, b)
#define KM_D_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
typedef __m256i km_longs;
#define KM_LONGS(value) _mm256_set1_epi64x(value)
#define KM_PUT_LONGS(to, x) _mm256_storeu_si256((__m256i *)(void *)(to), x)
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_KEEP_NEAREST(first, second, index, square, j)                                                     \
    index = _mm256_castpd_si256(_mm256_blendv_pd(_mm256_castsi256_pd(index), _mm256_castsi256_pd(j),         \
                                                 _mm256_cmp_pd(square, first, _CMP_LT_OQ)));                 \
    second = _mm256_min_pd(second, _mm256_max_pd(square, first));                                            \
    first = _mm256_min_pd(square, first)
//@ if prunes

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) _mm256_sqrt_pd(x)
typedef km_vec km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
//@ if float64
#define KM_LESS(a, b) _mm256_cmp_pd(a, b, _CMP_LT_OQ)
#define KM_WHERE(where, a, b) _mm256_blendv_pd(b, a, where)
#define KM_REACHES(a, b) _mm256_cmp_pd(a, b, _CMP_GE_OQ)
#define KM_COUNT_CHOSEN(count, where) KM_COUNT_WHERE(count, _mm256_castpd_si256(where))
// A minimum of which one operand is no number is the second operand.
#define KM_LEAST_UNLESS(least, where, x) least = _mm256_min_pd(_mm256_or_pd(x, where), least)
#define KM_KEEP_WHERE(kept, where, x) kept = _mm256_or_pd(kept, _mm256_and_pd(x, where))
#define KM_DIFFERENT(a, b) (~(uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b))) & 15)
#define KM_MUL_REAL(a, b) _mm256_mul_pd(a, b)
#define KM_DIVIDE(a, b) _mm256_div_pd(a, b)
#define KM_MAX(a, b) _mm256_max_pd(a, b)
#define KM_ABS(x) _mm256_andnot_pd(_mm256_set1_pd(-0.0), x)
#define KM_ABOVE(a, b) ((uint64_t)(unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)))
#define KM_NOT_BELOW(a, b) ((uint64_t)(unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_NLT_UQ)))
// Values base[index] of indices that lie in memory, as int32_t.
#define KM_GATHER(base, index) _mm256_i32gather_pd(base, _mm_loadu_si128((const void *)(index)), 8)
//@ else
#define KM_LESS(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define KM_WHERE(where, a, b) _mm256_blendv_ps(b, a, where)
#define KM_REACHES(a, b) _mm256_cmp_ps(a, b, _CMP_GE_OQ)
#define KM_COUNT_CHOSEN(count, where) KM_COUNT_WHERE(count, _mm256_castps_si256(where))
// A minimum of which one operand is no number is the second operand.
#define KM_LEAST_UNLESS(least, where, x) least = _mm256_min_ps(_mm256_or_ps(x, where), least)
#define KM_KEEP_WHERE(kept, where, x) kept = _mm256_or_ps(kept, _mm256_and_ps(x, where))
#define KM_DIFFERENT(a, b)                                                                                   \
    (~(uint64_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b))) & 255)
#define KM_MUL_REAL(a, b) _mm256_mul_ps(a, b)
#define KM_DIVIDE(a, b) _mm256_div_ps(a, b)
#define KM_MAX(a, b) _mm256_max_ps(a, b)
#define KM_ABS(x) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)
#define KM_ABOVE(a, b) ((uint64_t)(unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)))
#define KM_NOT_BELOW(a, b) KM_F_NOT_BELOW(a, b)
// Values base[index] of indices that lie in memory, as int32_t.
#define KM_GATHER(base, index) KM_F_GATHER(base, index)
//@ end
// Floats, whatever the reals are.
enum { FLOATS = 8 };
typedef __m256 km_floats;
#define KM_F_LOAD(from) _mm256_loadu_ps(from)
#define KM_F_STORE(to, x) _mm256_storeu_ps(to, x)
#define KM_F_SPLAT(value) _mm256_set1_ps(value)
#define KM_F_ADD(a, b) _mm256_add_ps(a, b)
#define KM_F_SUB(a, b) _mm256_sub_ps(a, b)
#define KM_F_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define KM_F_MIN(a, b) _mm256_min_ps(a, b)
#define KM_F_MAX(a, b) _mm256_max_ps(a, b)
#define KM_F_NOT_BELOW(a, b) ((uint64_t)(unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ)))
// Values base[index] of indices that lie in memory, as int32_t, uint8_t, uint16_t.
#define KM_F_GATHER(base, index) _mm256_i32gather_ps(base, _mm256_loadu_si256((const void *)(index)), 4)
#define KM_F_GATHER_BYTES(base, index)                                                                       \
    _mm256_i32gather_ps(base, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(index))), 4)
#define KM_F_GATHER_SHORTS(base, index)                                                                      \
    _mm256_i32gather_ps(base, _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(index))), 4)
//@ end

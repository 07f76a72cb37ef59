// Of the text of prebuilt load avx512_float32: All
// "..." stands for what a template or an earlier part shows.

// ... 16 definitions

typedef float km_real;
typedef int32_t km_int; // an integer of a real's size

enum { LANES = 16 }; // reals of a vector

// ... 3 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) _mm512_maskz_sqrt_pd((__mmask8)-1, x)
typedef km_mask km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
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
// Adds doubles to a sum where a bit is set.
#define KM_D_ADD_BITS(sum, bits, x) sum = _mm512_mask_add_pd(sum, (__mmask8)(bits), sum, x)
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

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
#include "runtime/cpu/load.h"

// ... 18 definitions

const cpu_load_kernels km_load_avx512_float32 = {{3, sizeof(km_real)}, rows_moments, rows_values, rows_copy, rows_copy_end};

// Of the text of prebuilt bounds avx512_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 22 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) _mm512_maskz_sqrt_pd((__mmask8)-1, x)
typedef km_mask km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
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
#include "runtime/cpu/bounds.h"

enum { SCORE_VECTORS = 4 }; // vectors of points that are scored at a time

// Sum and least value of a vector's lanes.
KM_TARGET static inline km_real sum_of(km_vec x) {
    return KM_SUM(x);
}

KM_TARGET static inline float least_of(km_floats x) {
    return KM_F_LEAST(x);
}

// ... 62 definitions

const cpu_bounds_kernels km_bounds_avx512_float64 = {{3, sizeof(km_real)}, pass, prepare, gaps};

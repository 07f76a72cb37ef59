// SPDX-License-Identifier: MIT
// Vector words of the filter for one instruction set (WORDS_AVX512, WORDS_AVX2, else any machine's) and one type
// (WORDS_DOUBLE 0 or 1); included once for each, so no include guard. Comparisons give a bit for each lane.
#undef REAL
#undef W
#undef V
#undef V_LOAD
#undef V_STORE
#undef V_SPLAT
#undef V_ADD
#undef V_SUB
#undef V_FMA
#undef V_ABS
#undef V_MIN
#undef V_MAX
#undef V_GT
#undef V_NLT
#undef V_KEEP
#undef V_PICK
#undef V_ADD_WIDE
#undef V_WIDE
#undef V_WIDE_SUM
#undef V_GATHER_WIDE
#undef WORDS_BITS
#if WORDS_DOUBLE
#define REAL double
#else
#define REAL float
#endif

#if defined(WORDS_AVX512) && !WORDS_DOUBLE
#define W 16
#define V __m512
#define V_LOAD(from) _mm512_loadu_ps(from)
#define V_STORE(to, x) _mm512_storeu_ps(to, x)
#define V_SPLAT(value) _mm512_set1_ps(value)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_SUB(a, b) _mm512_sub_ps(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_ABS(x) _mm512_abs_ps(x)
#define V_MIN(a, b) _mm512_maskz_min_ps((__mmask16)-1, a, b)
#define V_MAX(a, b) _mm512_maskz_max_ps((__mmask16)-1, a, b)
#define V_GT(a, b) ((uint64_t)_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
#define V_NLT(a, b) ((uint64_t)_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ))
#define V_KEEP(best, index, score, j)                                                                        \
    index = _mm512_mask_mov_ps(index, _mm512_cmp_ps_mask(score, best, _CMP_GT_OQ), j);                       \
    best = V_MAX(score, best)
// Eight floats join a sum of doubles where a bit says so.
#define V_WIDE __m512d
#define V_ADD_WIDE(sum, bits, from)                                                                          \
    sum = _mm512_mask_add_pd(sum, (__mmask8)(bits), sum,                                                     \
                             _mm512_maskz_cvtps_pd((__mmask8)-1, _mm256_loadu_ps(from)))
#define V_WIDE_SUM(sum) _mm512_reduce_add_pd(sum)
// Eight floats at given places, as doubles.
#define V_GATHER_WIDE(to, from, places)                                                                      \
    _mm512_storeu_pd(to, _mm512_maskz_cvtps_pd(                                                              \
                             (__mmask8)-1,                                                                   \
                             _mm512_mask_i64gather_ps(_mm256_setzero_ps(), (__mmask8)-1,                     \
                                                      _mm512_loadu_si512((const void *)(places)), from, 4)))
// Of sixteen values those whose numbers are given, as reals.
#define V_PICK(values, numbers)                                                                              \
    _mm512_maskz_permutexvar_ps((__mmask16)-1, _mm512_maskz_cvttps_epi32((__mmask16)-1, numbers),            \
                                V_LOAD(values))
#elif defined(WORDS_AVX512)
#define W 8
#define V __m512d
#define V_LOAD(from) _mm512_loadu_pd(from)
#define V_STORE(to, x) _mm512_storeu_pd(to, x)
#define V_SPLAT(value) _mm512_set1_pd(value)
#define V_ADD(a, b) _mm512_add_pd(a, b)
#define V_SUB(a, b) _mm512_sub_pd(a, b)
#define V_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define V_ABS(x) _mm512_abs_pd(x)
#define V_MIN(a, b) _mm512_maskz_min_pd((__mmask8)-1, a, b)
#define V_MAX(a, b) _mm512_maskz_max_pd((__mmask8)-1, a, b)
#define V_GT(a, b) ((uint64_t)_mm512_cmp_pd_mask(a, b, _CMP_GT_OQ))
#define V_NLT(a, b) ((uint64_t)_mm512_cmp_pd_mask(a, b, _CMP_NLT_UQ))
#define V_KEEP(best, index, score, j)                                                                        \
    index = _mm512_mask_mov_pd(index, _mm512_cmp_pd_mask(score, best, _CMP_GT_OQ), j);                       \
    best = V_MAX(score, best)
#elif defined(WORDS_AVX2) && !WORDS_DOUBLE
#define W 8
#define V __m256
#define V_LOAD(from) _mm256_loadu_ps(from)
#define V_STORE(to, x) _mm256_storeu_ps(to, x)
#define V_SPLAT(value) _mm256_set1_ps(value)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_SUB(a, b) _mm256_sub_ps(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_ABS(x) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_GT(a, b) ((uint64_t)(unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)))
#define V_NLT(a, b) ((uint64_t)(unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ)))
#define V_KEEP(best, index, score, j)                                                                        \
    index = _mm256_blendv_ps(index, j, _mm256_cmp_ps(score, best, _CMP_GT_OQ));                              \
    best = V_MAX(score, best)
#elif defined(WORDS_AVX2)
#define W 4
#define V __m256d
#define V_LOAD(from) _mm256_loadu_pd(from)
#define V_STORE(to, x) _mm256_storeu_pd(to, x)
#define V_SPLAT(value) _mm256_set1_pd(value)
#define V_ADD(a, b) _mm256_add_pd(a, b)
#define V_SUB(a, b) _mm256_sub_pd(a, b)
#define V_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define V_ABS(x) _mm256_andnot_pd(_mm256_set1_pd(-0.0), x)
#define V_MIN(a, b) _mm256_min_pd(a, b)
#define V_MAX(a, b) _mm256_max_pd(a, b)
#define V_GT(a, b) ((uint64_t)(unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)))
#define V_NLT(a, b) ((uint64_t)(unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_NLT_UQ)))
#define V_KEEP(best, index, score, j)                                                                        \
    index = _mm256_blendv_pd(index, j, _mm256_cmp_pd(score, best, _CMP_GT_OQ));                              \
    best = V_MAX(score, best)
#else
#define W (16 / (int)sizeof(REAL))
#define V NAME(vec)
typedef REAL NAME(vec) __attribute__((vector_size(16)));
typedef REAL NAME(vec_anywhere) __attribute__((vector_size(16), aligned(sizeof(REAL)), may_alias));
#if WORDS_DOUBLE
typedef int64_t NAME(ints) __attribute__((vector_size(16)));
#define V_SPLAT(value) ((V){value, value})
#define WORDS_BITS(mask) ((uint64_t)(((mask)[0] & 1) | ((mask)[1] & 2)))
#else
typedef int32_t NAME(ints) __attribute__((vector_size(16)));
#define V_SPLAT(value) ((V){value, value, value, value})
#define WORDS_BITS(mask) ((uint64_t)(((mask)[0] & 1) | ((mask)[1] & 2) | ((mask)[2] & 4) | ((mask)[3] & 8)))
#endif
#define V_LOAD(from) (*(const NAME(vec_anywhere) *)(const void *)(from))
#define V_STORE(to, x) *(NAME(vec_anywhere) *)(void *)(to) = x
#define V_ADD(a, b) ((a) + (b))
#define V_SUB(a, b) ((a) - (b))
#define V_FMA(a, b, c) ((a) * (b) + (c))
static inline V NAME(choose)(NAME(ints) where, V a, V b) {
    return (V)(((NAME(ints))a & where) | ((NAME(ints))b & ~where));
}
static inline uint64_t NAME(bits)(NAME(ints) where) {
    return WORDS_BITS(where);
}
#define V_ABS(x) NAME(choose)((NAME(ints))((x) < -(x)), -(x), x)
#define V_MIN(a, b) NAME(choose)((NAME(ints))((a) < (b)), a, b)
#define V_MAX(a, b) NAME(choose)((NAME(ints))((a) > (b)), a, b)
#define V_GT(a, b) NAME(bits)((NAME(ints))((a) > (b)))
#define V_NLT(a, b) NAME(bits)(~(NAME(ints))((a) < (b)))
#define V_KEEP(best, index, score, j)                                                                        \
    index = NAME(choose)((NAME(ints))((score) > (best)), j, index);                                          \
    best = V_MAX(score, best)
#endif

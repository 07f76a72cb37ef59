// SPDX-License-Identifier: MIT
// Vector words of hamerly and elkan beside those of filter_words.h: included after it for each type and instruction
// set, so no include guard.
#undef V_GATHER
#undef V_GATHER_BYTES
#undef V_GATHER_SHORTS
#undef V_SQRT
#undef V_SUM
#undef V_LEAST
#undef SCORE_VECTORS
// Values base[index] for indices that lie in memory, as int32_t, or as labels of one byte or two (floats only).
#if defined(WORDS_AVX512) && !WORDS_DOUBLE
#define V_GATHER_AT(base, index) _mm512_mask_i32gather_ps(_mm512_setzero_ps(), (__mmask16)-1, index, base, 4)
#define V_GATHER(base, ints) V_GATHER_AT(base, _mm512_loadu_si512((const void *)(ints)))
#define V_GATHER_BYTES(base, labels)                                                                         \
    V_GATHER_AT(base, _mm512_maskz_cvtepu8_epi32((__mmask16)-1, _mm_loadu_si128((const void *)(labels))))
#define V_GATHER_SHORTS(base, labels)                                                                        \
    V_GATHER_AT(base, _mm512_maskz_cvtepu16_epi32((__mmask16)-1, _mm256_loadu_si256((const void *)(labels))))
#define V_SQRT(x) _mm512_maskz_sqrt_ps((__mmask16)-1, x)
#define V_SUM(x) _mm512_reduce_add_ps(x)
#define V_LEAST(x) _mm512_reduce_min_ps(x)
#define SCORE_VECTORS 4
#elif defined(WORDS_AVX512)
#define V_GATHER(base, ints)                                                                                 \
    _mm512_mask_i32gather_pd(_mm512_setzero_pd(), (__mmask8)-1, _mm256_loadu_si256((const void *)(ints)),    \
                             base, 8)
#define V_SQRT(x) _mm512_maskz_sqrt_pd((__mmask8)-1, x)
#define V_SUM(x) _mm512_reduce_add_pd(x)
#define SCORE_VECTORS 4
#elif defined(WORDS_AVX2) && !WORDS_DOUBLE
#define V_GATHER_AT(base, index) _mm256_i32gather_ps(base, index, 4)
#define V_GATHER(base, ints) V_GATHER_AT(base, _mm256_loadu_si256((const void *)(ints)))
#define V_GATHER_BYTES(base, labels)                                                                         \
    V_GATHER_AT(base, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(labels))))
#define V_GATHER_SHORTS(base, labels)                                                                        \
    V_GATHER_AT(base, _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(labels))))
#define V_SQRT(x) _mm256_sqrt_ps(x)
#define V_SUM(x) NAME(lanes_sum)(x)
#define SCORE_VECTORS 2
#elif defined(WORDS_AVX2)
#define V_GATHER(base, ints) _mm256_i32gather_pd(base, _mm_loadu_si128((const void *)(ints)), 8)
#define V_SQRT(x) _mm256_sqrt_pd(x)
#define V_SUM(x) NAME(lanes_sum)(x)
#define SCORE_VECTORS 2
#else
#if WORDS_DOUBLE
#define V_GATHER(base, ints) ((V){(base)[(ints)[0]], (base)[(ints)[1]]})
#define V_SQRT(x) ((V){sqrt((x)[0]), sqrt((x)[1])})
#else
#define V_GATHER(base, ints) ((V){(base)[(ints)[0]], (base)[(ints)[1]], (base)[(ints)[2]], (base)[(ints)[3]]})
#define V_GATHER_BYTES(base, labels) V_GATHER(base, (const uint8_t *)(labels))
#define V_GATHER_SHORTS(base, labels) V_GATHER(base, (const uint16_t *)(labels))
#define V_SQRT(x) ((V){sqrtf((x)[0]), sqrtf((x)[1]), sqrtf((x)[2]), sqrtf((x)[3])})
#endif
#define V_SUM(x) NAME(lanes_sum)(x)
#define SCORE_VECTORS 2
#endif

#if !defined(WORDS_AVX512)
TARGET static inline REAL NAME(lanes_sum)(V x) {
    REAL lanes[W], sum = 0;
    V_STORE(lanes, x);
    for (int lane = 0; lane < W; lane++) sum += lanes[lane];
    return sum;
}

#if !WORDS_DOUBLE
#define V_LEAST(x) NAME(lanes_least)(x)
TARGET static inline REAL NAME(lanes_least)(V x) {
    REAL lanes[W], least = (REAL)INFINITY;
    V_STORE(lanes, x);
    for (int lane = 0; lane < W; lane++) least = lanes[lane] < least ? lanes[lane] : least;
    return least;
}
#endif
#endif

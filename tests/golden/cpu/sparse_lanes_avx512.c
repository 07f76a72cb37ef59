// Of the text of prebuilt sparse_lanes avx512_float32: All
// "..." stands for what a template or an earlier part shows.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
// Transposes DOUBLES rows of DOUBLES doubles, `from_step` and `to_step` apart.
#define KM_TRANSPOSE_DOUBLES(to, to_step, from, from_step) km_transpose_doubles(to, to_step, from, from_step)
// Two columns of the rows r, r + 2, r + 4 and r + 6, a quarter each.
#define KM_EVERY_OTHER(from, step)                                                                           \
    _mm512_insertf64x2(_mm512_insertf64x2(_mm512_insertf64x2(_mm512_castpd128_pd512(_mm_loadu_pd(from)),     \
                                                             _mm_loadu_pd((from) + 2 * (step)), 1),          \
                                          _mm_loadu_pd((from) + 4 * (step)), 2),                             \
                       _mm_loadu_pd((from) + 6 * (step)), 3)
KM_TARGET static inline void km_transpose_doubles(double *to, int64_t to_step, const double *from,
                                                  int64_t from_step) {
    for (int c = 0; c < DOUBLES; c += 2) {
        const km_doubles a = KM_EVERY_OTHER(from + c, from_step),
                         b = KM_EVERY_OTHER(from + from_step + c, from_step);
        KM_D_STORE(to + c * to_step, _mm512_maskz_unpacklo_pd((__mmask8)-1, a, b));
        KM_D_STORE(to + (c + 1) * to_step, _mm512_maskz_unpackhi_pd((__mmask8)-1, a, b));
    }
}
// The same for LANES rows of LANES reals.
#define KM_TRANSPOSE(to, to_step, from, from_step) km_transpose_reals(to, to_step, from, from_step)
// Four columns of the rows r, r + 4, r + 8 and r + 12, a quarter each.
#define KM_FOUR_ROWS(from, step)                                                                             \
    _mm512_insertf32x4(_mm512_insertf32x4(_mm512_insertf32x4(_mm512_castps128_ps512(_mm_loadu_ps(from)),     \
                                                             _mm_loadu_ps((from) + 4 * (step)), 1),          \
                                          _mm_loadu_ps((from) + 8 * (step)), 2),                             \
                       _mm_loadu_ps((from) + 12 * (step)), 3)
KM_TARGET static inline void km_transpose_four(float *to, int64_t to_step, const float *from,
                                               int64_t from_step) {
    const km_vec a = KM_FOUR_ROWS(from, from_step), b = KM_FOUR_ROWS(from + from_step, from_step),
                 c = KM_FOUR_ROWS(from + 2 * from_step, from_step),
                 d = KM_FOUR_ROWS(from + 3 * from_step, from_step);
    const km_vec e = _mm512_maskz_unpacklo_ps((__mmask16)-1, a, b),
                 f = _mm512_maskz_unpackhi_ps((__mmask16)-1, a, b),
                 g = _mm512_maskz_unpacklo_ps((__mmask16)-1, c, d),
                 h = _mm512_maskz_unpackhi_ps((__mmask16)-1, c, d);
    KM_STORE(to, _mm512_maskz_shuffle_ps((__mmask16)-1, e, g, 0x44));
    KM_STORE(to + to_step, _mm512_maskz_shuffle_ps((__mmask16)-1, e, g, 0xee));
    KM_STORE(to + 2 * to_step, _mm512_maskz_shuffle_ps((__mmask16)-1, f, h, 0x44));
    KM_STORE(to + 3 * to_step, _mm512_maskz_shuffle_ps((__mmask16)-1, f, h, 0xee));
}
KM_TARGET static inline void km_transpose_reals(float *to, int64_t to_step, const float *from,
                                                int64_t from_step) {
    for (int c = 0; c < LANES; c += 4) km_transpose_four(to + c * to_step, to_step, from + c, from_step);
}
#include "runtime/cpu/sparse.h"

// ... 9 definitions

// Takes the scores of a group for columns of one run. `slack`: of each row, what rounding may hide for a centroid of
// |c| = 1; `norm` and `least`: |c| at most, and what else rounding may hide.
KM_INLINE void km_search(run_found *found, int64_t at, const km_real *scores, const run_part *part,
                         const km_real *slack, km_real norm, km_real least) {
    uint64_t ambiguous = 0;
    km_vec first_0 = KM_SPLAT(INFINITY), second_0 = first_0;
    km_ints index_0 = KM_INTS(0);
    if (!part->is_first) {
        first_0 = KM_LOAD(found->first + at + 0 * LANES);
        second_0 = KM_LOAD(found->second + at + 0 * LANES);
        memcpy(&index_0, found->label + at + 0 * LANES, sizeof index_0);
    }
    const km_ints one = KM_INTS(1);
    km_ints j = KM_INTS((km_int)part->index);
    for (int64_t c = part->begin; c < part->end; c++) {
        const km_vec score_0 = KM_LOAD(scores + c * GROUP + 0 * LANES);
        KM_F_KEEP_NEAREST(first_0, second_0, index_0, score_0, j);
        j = KM_INTS_ADD(j, one);
    }
    memcpy(found->label + at + 0 * LANES, &index_0, sizeof index_0);
    if (!part->is_last) {
        KM_STORE(found->first + at + 0 * LANES, first_0);
        KM_STORE(found->second + at + 0 * LANES, second_0);
        return;
    }
    const km_vec norms = KM_SPLAT(norm), leasts = KM_SPLAT(least);
    const km_vec hidden_0 = KM_FMA(KM_LOAD(slack + 0 * LANES), norms, leasts);
    ambiguous |= KM_NOT_BELOW(KM_ADD(first_0, hidden_0), second_0) << (0 * LANES);
    found->ambiguous[at / 64] |= ambiguous << at % 64;
}

// ... 43 definitions

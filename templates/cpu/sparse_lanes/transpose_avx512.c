// SPDX-License-Identifier: MIT
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
//@ if float64
#define KM_TRANSPOSE KM_TRANSPOSE_DOUBLES
//@ else
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
//@ end

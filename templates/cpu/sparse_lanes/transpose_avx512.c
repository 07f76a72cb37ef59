// SPDX-License-Identifier: MIT
// Transposes DOUBLES rows of DOUBLES doubles, `from_step` and `to_step` apart.
#define KM_TRANSPOSE_DOUBLES(to, to_step, from, from_step) km_transpose_doubles(to, to_step, from, from_step)
KM_TARGET static inline void km_transpose_doubles(double *to, int64_t to_step, const double *from,
                                                  int64_t from_step) {
    km_doubles a[8], b[8];
    for (int i = 0; i < 8; i++) a[i] = KM_D_LOAD(from + i * from_step);
    for (int i = 0; i < 8;
         i += 2) { // columns c, c + 2, c + 4, c + 6 of two rows: c = 0 in b[i], 1 in b[i + 1]
        b[i] = _mm512_maskz_unpacklo_pd((__mmask8)-1, a[i], a[i + 1]);
        b[i + 1] = _mm512_maskz_unpackhi_pd((__mmask8)-1, a[i], a[i + 1]);
    }
    for (int c = 0; c < 2; c++) { // four rows: columns c and c + 4, then c + 2 and c + 6
        for (int i = 0; i < 8; i += 4) {
            a[i + c] = _mm512_maskz_shuffle_f64x2((__mmask8)-1, b[i + c], b[i + 2 + c], 0x88);
            a[i + 2 + c] = _mm512_maskz_shuffle_f64x2((__mmask8)-1, b[i + c], b[i + 2 + c], 0xdd);
        }
        KM_D_STORE(to + c * to_step, _mm512_maskz_shuffle_f64x2((__mmask8)-1, a[c], a[4 + c], 0x88));
        KM_D_STORE(to + (c + 4) * to_step, _mm512_maskz_shuffle_f64x2((__mmask8)-1, a[c], a[4 + c], 0xdd));
        KM_D_STORE(to + (c + 2) * to_step,
                   _mm512_maskz_shuffle_f64x2((__mmask8)-1, a[2 + c], a[6 + c], 0x88));
        KM_D_STORE(to + (c + 6) * to_step,
                   _mm512_maskz_shuffle_f64x2((__mmask8)-1, a[2 + c], a[6 + c], 0xdd));
    }
}
// The same for LANES rows of LANES reals.
//@ if float64
#define KM_TRANSPOSE KM_TRANSPOSE_DOUBLES
//@ else
#define KM_TRANSPOSE(to, to_step, from, from_step) km_transpose_reals(to, to_step, from, from_step)
// Columns c, c + 4, c + 8, c + 12 of sixteen rows, of which four[i] has those of rows 4i .. 4i + 3.
KM_TARGET static inline void km_transpose_columns(float *to, int64_t to_step, const km_vec *four) {
    const km_vec a = _mm512_maskz_shuffle_f32x4((__mmask16)-1, four[0], four[4], 0x88),
                 b = _mm512_maskz_shuffle_f32x4((__mmask16)-1, four[0], four[4], 0xdd),
                 c = _mm512_maskz_shuffle_f32x4((__mmask16)-1, four[8], four[12], 0x88),
                 d = _mm512_maskz_shuffle_f32x4((__mmask16)-1, four[8], four[12], 0xdd);
    KM_STORE(to, _mm512_maskz_shuffle_f32x4((__mmask16)-1, a, c, 0x88));
    KM_STORE(to + 4 * to_step, _mm512_maskz_shuffle_f32x4((__mmask16)-1, b, d, 0x88));
    KM_STORE(to + 8 * to_step, _mm512_maskz_shuffle_f32x4((__mmask16)-1, a, c, 0xdd));
    KM_STORE(to + 12 * to_step, _mm512_maskz_shuffle_f32x4((__mmask16)-1, b, d, 0xdd));
}
KM_TARGET static inline void km_transpose_reals(float *to, int64_t to_step, const float *from,
                                                int64_t from_step) {
    km_vec a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = KM_LOAD(from + i * from_step);
    for (int i = 0; i < 16; i += 4) {
        for (int r = i; r < i + 4; r += 2) {
            b[r] = _mm512_maskz_unpacklo_ps((__mmask16)-1, a[r], a[r + 1]);
            b[r + 1] = _mm512_maskz_unpackhi_ps((__mmask16)-1, a[r], a[r + 1]);
        }
        for (int half = 0; half < 2; half++) { // four rows of one column in each quarter
            a[i + 2 * half] = _mm512_maskz_shuffle_ps((__mmask16)-1, b[i + half], b[i + 2 + half], 0x44);
            a[i + 2 * half + 1] = _mm512_maskz_shuffle_ps((__mmask16)-1, b[i + half], b[i + 2 + half], 0xee);
        }
    }
    for (int c = 0; c < 4; c++) km_transpose_columns(to + c * to_step, to_step, a + c);
}
//@ end

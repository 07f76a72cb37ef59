// Of the text of prebuilt sparse_lanes avx512_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
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
#define KM_TRANSPOSE KM_TRANSPOSE_DOUBLES
#include "runtime/cpu/sparse.h"

// ... 52 definitions

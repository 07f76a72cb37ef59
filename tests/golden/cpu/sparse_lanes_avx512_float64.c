// Of the text of prebuilt sparse_lanes avx512_float64: All
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
#define KM_TRANSPOSE KM_TRANSPOSE_DOUBLES
#include "runtime/cpu/sparse.h"

// ... 52 definitions

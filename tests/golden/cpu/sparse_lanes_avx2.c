// Of the text of prebuilt sparse_lanes avx2_float32: All
// "..." stands for what a template or an earlier part shows.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
// Transposes DOUBLES rows of DOUBLES doubles, `from_step` and `to_step` apart.
#define KM_TRANSPOSE_DOUBLES(to, to_step, from, from_step) km_transpose_doubles(to, to_step, from, from_step)
KM_TARGET static inline void km_transpose_doubles(double *to, int64_t to_step, const double *from,
                                                  int64_t from_step) {
    const km_doubles a = KM_D_LOAD(from), b = KM_D_LOAD(from + from_step),
                     c = KM_D_LOAD(from + 2 * from_step), d = KM_D_LOAD(from + 3 * from_step);
    const km_doubles e = _mm256_unpacklo_pd(a, b), f = _mm256_unpackhi_pd(a, b), g = _mm256_unpacklo_pd(c, d),
                     h = _mm256_unpackhi_pd(c, d);
    KM_D_STORE(to, _mm256_permute2f128_pd(e, g, 0x20));
    KM_D_STORE(to + to_step, _mm256_permute2f128_pd(f, h, 0x20));
    KM_D_STORE(to + 2 * to_step, _mm256_permute2f128_pd(e, g, 0x31));
    KM_D_STORE(to + 3 * to_step, _mm256_permute2f128_pd(f, h, 0x31));
}
// The same for LANES rows of LANES reals.
#define KM_TRANSPOSE(to, to_step, from, from_step) km_transpose(to, to_step, from, from_step)
// Four columns from the low or high half of each of eight rows.
#define KM_TWO_ROWS(from, step)                                                                              \
    _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps((from) + 4 * (step)), 1)
KM_TARGET static inline void km_transpose_half(float *to, int64_t to_step, const float *from,
                                               int64_t from_step) {
    const km_vec a = KM_TWO_ROWS(from, from_step), b = KM_TWO_ROWS(from + from_step, from_step),
                 c = KM_TWO_ROWS(from + 2 * from_step, from_step),
                 d = KM_TWO_ROWS(from + 3 * from_step, from_step);
    const km_vec e = _mm256_unpacklo_ps(a, b), f = _mm256_unpackhi_ps(a, b), g = _mm256_unpacklo_ps(c, d),
                 h = _mm256_unpackhi_ps(c, d);
    KM_STORE(to, _mm256_shuffle_ps(e, g, 0x44));
    KM_STORE(to + to_step, _mm256_shuffle_ps(e, g, 0xee));
    KM_STORE(to + 2 * to_step, _mm256_shuffle_ps(f, h, 0x44));
    KM_STORE(to + 3 * to_step, _mm256_shuffle_ps(f, h, 0xee));
}
KM_TARGET static inline void km_transpose(float *to, int64_t to_step, const float *from, int64_t from_step) {
    km_transpose_half(to, to_step, from, from_step);
    km_transpose_half(to + 4 * to_step, to_step, from + 4, from_step);
}
#include "runtime/cpu/sparse.h"

// ... 53 definitions

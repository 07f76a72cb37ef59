// Of the text of prebuilt bounds avx512_float64: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 22 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) _mm512_maskz_sqrt_pd((__mmask8)-1, x)
typedef km_mask km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
// ... lines of a template
// ... lines of a template

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

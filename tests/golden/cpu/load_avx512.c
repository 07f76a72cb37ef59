// Of the text of prebuilt load avx512_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 16 definitions

typedef float km_real;
typedef int32_t km_int; // an integer of a real's size

enum { LANES = 16 }; // reals of a vector

// ... 3 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) _mm512_maskz_sqrt_pd((__mmask8)-1, x)
typedef km_mask km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
// ... lines of a template
// ... lines of a template

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
#include "runtime/cpu/load.h"

// ... 18 definitions

const cpu_load_kernels km_load_avx512_float32 = {{3, sizeof(km_real)}, rows_moments, rows_values, rows_copy, rows_copy_end};

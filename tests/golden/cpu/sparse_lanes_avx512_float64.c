// Of the text of prebuilt sparse_lanes avx512_float64: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
// ... lines of a template
#define KM_TRANSPOSE KM_TRANSPOSE_DOUBLES
#include "runtime/cpu/sparse.h"

// ... 53 definitions

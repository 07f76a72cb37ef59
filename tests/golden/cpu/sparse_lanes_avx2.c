// Of the text of prebuilt sparse_lanes avx2_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
// ... lines of a template
// ... lines of a template
#include "runtime/cpu/sparse.h"

// ... 54 definitions

// Of the text of prebuilt silhouette avx512_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 23 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
#include "runtime/cpu/silhouette.h"

// ... 4 definitions

// What a squared distance can be at most that may still be the least one, whose value is `least`.
KM_INLINE km_vec widened(km_vec least, int64_t d) {
    // Twice the error bound, and what squares may lose by underflow.
    return KM_FMA(least, KM_SPLAT(1.0f + (float)(d + 4) * 0x1p-22f), KM_SPLAT(1e-37f));
}

// ... 8 definitions

const cpu_silhouette_kernels km_silhouette_avx512_float32 = {{3, sizeof(km_real)}, pass};

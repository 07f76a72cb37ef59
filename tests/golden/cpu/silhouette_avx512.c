// Of the text of prebuilt silhouette avx512_float32: All
// "..." stands for what a template or an earlier part shows.

// ... 23 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
#include "runtime/cpu/silhouette.h"

// ... 10 definitions

// Silhouettes of a vector of points from what is known of them; points of which the label is not sure have a bit in
// `ambiguous`.
KM_INLINE km_vec silhouettes(uint64_t *ambiguous, const nearest *n, int64_t d) {
    // Twice the error bound, and what squares may lose by underflow.
    const km_vec apart = KM_SPLAT(1.0f + (float)(d + 4) * 0x1p-22f), lost = KM_SPLAT(1e-37f);
    *ambiguous = KM_NOT_BELOW(KM_FMA(n->first, apart, lost), n->second);
    const km_vec zero = KM_SPLAT(0), own = KM_MUL_REAL(n->own, n->factor);
    const km_vec larger = KM_MAX(own, n->other), quotient = KM_DIVIDE(KM_SUB(n->other, own), larger);
    // A point alone in its cluster has 0 by definition, and one among copies of itself in all clusters as well.
    return KM_WHERE(KM_LESS(zero, KM_MIN(n->factor, larger)), quotient, zero);
}

// ... 3 definitions

const cpu_silhouette_kernels km_silhouette_avx512_float32 = {{3, sizeof(km_real)}, pass};

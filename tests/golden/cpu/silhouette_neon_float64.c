// Of the text of prebuilt silhouette neon_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 34 definitions

// Silhouettes of a vector of points from what is known of them; points of which the label is not sure have a bit in
// `ambiguous`.
KM_INLINE km_vec silhouettes(uint64_t *ambiguous, const nearest *n, int64_t d) {
    *ambiguous = 0;
    (void)d;
    const km_vec zero = KM_SPLAT(0), own = KM_MUL_REAL(n->own, n->factor);
    const km_vec larger = KM_MAX(own, n->other), quotient = KM_DIVIDE(KM_SUB(n->other, own), larger);
    // A point alone in its cluster has 0 by definition, and one among copies of itself in all clusters as well.
    return KM_WHERE(KM_LESS(zero, KM_MIN(n->factor, larger)), quotient, zero);
}

// ... 4 definitions

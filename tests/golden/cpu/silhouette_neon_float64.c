// Of the text of prebuilt silhouette neon_float64: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 28 definitions

// What a squared distance can be at most that may still be the least one, whose value is `least`.
KM_INLINE km_vec widened(km_vec least, int64_t d) {
    (void)d;
    return least;
}

// ... 9 definitions

// Of the text of prebuilt load neon_float64: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 21 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) vsqrtq_f64(x)
static inline uint64_t km_float_bits(uint32x4_t where) {
    const uint32x4_t places = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(where, places));
}
// ... lines of a template
// ... lines of a template

// ... 8 definitions

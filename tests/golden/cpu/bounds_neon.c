// Of the text of prebuilt bounds neon_float32: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 22 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) vsqrtq_f64(x)
static inline uint64_t km_float_bits(uint32x4_t where) {
    const uint32x4_t places = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(where, places));
}
// ... lines of a template
// ... lines of a template

// ... 2 definitions

// Sum and least value of a vector's lanes.
KM_TARGET static inline km_real sum_of(km_vec x) {
    km_real lanes[LANES], sum = 0;
    KM_STORE(lanes, x);
    for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
    return sum;
}

KM_TARGET static inline float least_of(km_floats x) {
    float lanes[FLOATS], least = INFINITY;
    KM_F_STORE(lanes, x);
    for (int lane = 0; lane < FLOATS; lane++) least = lanes[lane] < least ? lanes[lane] : least;
    return least;
}

// ... 63 definitions

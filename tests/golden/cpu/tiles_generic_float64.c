// Of the text of prebuilt tiles generic_float64: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 22 definitions
// ... lines of a template
static inline uint64_t km_bits(km_ints where) {
    return (uint64_t)((where[0] & 1) | (where[1] & 2));
}
// Values base[index] of indices that lie in memory.
#define KM_GATHER(base, index) ((km_vec){(base)[(index)[0]], (base)[(index)[1]]})
// ... lines of a template

// ... 22 definitions

// One feature of a tile's points in the clustered space, before it is rounded to km_real.
KM_INLINE void fetch(double *x, const cpu_tile_source *source, const int64_t *at, int64_t f) {
    if (source->rows32) {
        for (int i = 0; i < TILE_POINTS; i++) x[i] = (double)source->rows32[at[i] + f];
    } else if (source->rows64) {
        for (int i = 0; i < TILE_POINTS; i++) x[i] = source->rows64[at[i] + f];
    } else {
        const km_real *groups = (const km_real *)source->soa_groups + f * source->soa_points;
        for (int i = 0; i < TILE_POINTS; i++) x[i] = (double)groups[at[i]];
        return;
    }
    const double centre = source->centre[f], factor = source->factor[f];
    for (int i = 0; i < TILE_POINTS; i++) x[i] = (x[i] - centre) * factor;
}

// ... 4 definitions

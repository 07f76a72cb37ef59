// Of the text of prebuilt tiles generic_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 22 definitions

// For kernels of the library alone (tiles, bounds, silhouette). Comparisons give a bit for each lane.
#define KM_D_SQRT(x) ((km_doubles){sqrt((x)[0]), sqrt((x)[1])})
typedef km_ints km_choice; // lanes that are chosen: KM_WHERE takes these from a, the others from b
#define KM_LESS(a, b) ((km_ints)((a) < (b)))
#define KM_WHERE(where, a, b) KM_CHOOSE(where, a, b)
#define KM_REACHES(a, b) ((km_ints)((a) >= (b)))
#define KM_COUNT_CHOSEN(count, where) KM_COUNT_WHERE(count, where)
#define KM_LEAST_UNLESS(least, where, x) least = KM_CHOOSE((km_ints)((x) < (least)) & ~(where), x, least)
#define KM_KEEP_WHERE(kept, where, x) kept = KM_CHOOSE(where, x, kept)
#define KM_DIFFERENT(a, b) km_bits((km_ints)((a) != (b)))
#define KM_MUL_REAL(a, b) ((a) * (b))
#define KM_DIVIDE(a, b) ((a) / (b))
typedef float km_floats __attribute__((vector_size(16))); // whatever the reals are
typedef int32_t km_float_ints __attribute__((vector_size(16)));
typedef float km_floats_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
enum { FLOATS = 4 };
static inline uint64_t km_float_bits(km_float_ints where) {
    return (uint64_t)((where[0] & 1) | (where[1] & 2) | (where[2] & 4) | (where[3] & 8));
}
static inline uint64_t km_bits(km_ints where) {
    return (uint64_t)((where[0] & 1) | (where[1] & 2));
}
// Values base[index] of indices that lie in memory.
#define KM_GATHER(base, index) ((km_vec){(base)[(index)[0]], (base)[(index)[1]]})
#define KM_MAX(a, b) KM_CHOOSE((km_ints)((a) > (b)), a, b)
#define KM_ABS(x) KM_CHOOSE((km_ints)((x) < -(x)), -(x), x)
#define KM_ABOVE(a, b) km_bits((km_ints)((a) > (b)))
#define KM_NOT_BELOW(a, b) km_bits(~(km_ints)((a) < (b)))
#define KM_F_LOAD(from) (*(const km_floats_anywhere *)(const void *)(from))
#define KM_F_STORE(to, x) *(km_floats_anywhere *)(void *)(to) = x
#define KM_F_SPLAT(value) ((km_floats){value, value, value, value})
#define KM_F_ADD(a, b) ((a) + (b))
#define KM_F_SUB(a, b) ((a) - (b))
#define KM_F_FMA(a, b, c) ((a) * (b) + (c))
#define KM_F_CHOOSE(where, a, b)                                                                             \
    ((km_floats)(((km_float_ints)(a) & (where)) | ((km_float_ints)(b) & ~(where))))
#define KM_F_MIN(a, b) KM_F_CHOOSE((km_float_ints)((a) < (b)), a, b)
#define KM_F_MAX(a, b) KM_F_CHOOSE((km_float_ints)((a) > (b)), a, b)
#define KM_F_NOT_BELOW(a, b) km_float_bits(~(km_float_ints)((a) < (b)))
// Values base[index] of indices that lie in memory, as int32_t, uint8_t, uint16_t.
#define KM_F_GATHER(base, index)                                                                             \
    ((km_floats){(base)[(index)[0]], (base)[(index)[1]], (base)[(index)[2]], (base)[(index)[3]]})
#define KM_F_GATHER_BYTES(base, index) KM_F_GATHER(base, (const uint8_t *)(index))
#define KM_F_GATHER_SHORTS(base, index) KM_F_GATHER(base, (const uint16_t *)(index))

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

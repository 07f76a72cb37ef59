// Of the text of prebuilt load generic_float32: All
// "..." stands for what a template or an earlier part shows.

// ... 19 definitions

typedef km_real km_vec __attribute__((vector_size(16)));
typedef km_int km_ints
    __attribute__((vector_size(16))); // as many integers as km_vec has reals, of their size
typedef km_real km_vec_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef km_int km_ints_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
#define KM_LOAD(from) (*(const km_vec_anywhere *)(const void *)(from))
#define KM_STORE(to, x) *(km_vec_anywhere *)(void *)(to) = x
#define KM_SPLAT(value) ((km_vec){value, value, value, value})
#define KM_INTS(value) ((km_ints){value, value, value, value})
#define KM_ADD(a, b) ((a) + (b))
#define KM_SUB(a, b) ((a) - (b))
#define KM_FMA(a, b, c) ((a) * (b) + (c))
#define KM_INTS_ADD(a, b) ((a) + (b))
#define KM_LOAD_INTS(from) (*(const km_ints_anywhere *)(const void *)(from))
#define KM_PUT_INTS(to, index) *(km_ints_anywhere *)(void *)(to) = index
// a where a bit of `where` is set, else b.
#define KM_CHOOSE(where, a, b) ((km_vec)(((km_ints)(a) & (where)) | ((km_ints)(b) & ~(where))))
#define KM_MIN(a, b) KM_CHOOSE((km_ints)((a) < (b)), a, b)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    do {                                                                                                     \
        const km_ints km_where = (km_ints)((score) > (best));                                                \
        index = (index & ~km_where) | (j & km_where);                                                        \
        best = KM_CHOOSE(km_where, score, best);                                                             \
    } while (0)
// Stores the indices of two vectors, or of four, as labels of a byte.
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    do {                                                                                                     \
        for (int km_i = 0; km_i < LANES; km_i++) (to)[km_i] = (km_index)(a)[km_i];                           \
        for (int km_i = 0; km_i < LANES; km_i++) (to)[LANES + km_i] = (km_index)(b)[km_i];                   \
    } while (0)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    KM_PUT_LABELS_2(to, a, b);                                                                               \
    KM_PUT_LABELS_2((to) + 2 * LANES, c, d)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b) ((km_vec)((km_ints)((a) / (b)) & (km_ints)((b) > KM_SPLAT(0))))

// Doubles: the finishing pass and the sums of distances.
enum { DOUBLES = 2 };
typedef double km_doubles __attribute__((vector_size(16)));
typedef int64_t km_longs __attribute__((vector_size(16)));
typedef double km_doubles_anywhere __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t km_longs_anywhere __attribute__((vector_size(16), aligned(8), may_alias));
#define KM_D_LOAD(from) (*(const km_doubles_anywhere *)(const void *)(from))
#define KM_D_STORE(to, x) *(km_doubles_anywhere *)(void *)(to) = x
#define KM_D_SPLAT(value) ((km_doubles){value, value})
#define KM_D_ADD(a, b) ((a) + (b))
#define KM_D_SUM(x) ((x)[0] + (x)[1])
#define KM_D_SUB(a, b) ((a) - (b))
// Rounded once, as on every instruction set.
#define KM_D_FMA(a, b, c) ((km_doubles){fma((a)[0], (b)[0], (c)[0]), fma((a)[1], (b)[1], (c)[1])})
#define KM_LONGS(value) ((km_longs){value, value})
#define KM_PUT_LONGS(to, x) *(km_longs_anywhere *)(void *)(to) = x
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_KEEP_NEAREST(first, second, index, square, j)                                                     \
    do {                                                                                                     \
        const km_longs km_where = (km_longs)((square) < (first));                                            \
        const km_doubles km_rest =                                                                           \
            (km_doubles)(((km_longs)(first)&km_where) | ((km_longs)(square) & ~km_where));                   \
        const km_longs km_next = (km_longs)(km_rest < (second));                                             \
        index = (index & ~km_where) | (j & km_where);                                                        \
        first = (km_doubles)(((km_longs)(square)&km_where) | ((km_longs)(first) & ~km_where));               \
        second = (km_doubles)(((km_longs)km_rest & km_next) | ((km_longs)(second) & ~km_next));              \
    } while (0)
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef km_ints km_mask;
#define KM_EQUAL(a, b) ((km_ints)((a) == (b)))
#define KM_COUNT_WHERE(count, where) count -= where
#define KM_STORE_WIDE(to, x)                                                                                 \
    for (int km_i = 0; km_i < LANES; km_i++) (to)[km_i] = (double)(x)[km_i]
#define KM_LOAD_LABELS(from) KM_LOAD_INTS(from)
#define KM_D_ADD_HALF(sum, low, high, from)                                                                  \
    sum += (km_doubles)((km_longs)KM_D_LOAD(from) & (km_longs){low, high})
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    KM_D_ADD_HALF(sum, (where)[0], (where)[1], from);                                                        \
    KM_D_ADD_HALF(sum, (where)[2], (where)[3], (from) + DOUBLES)
#define KM_SUM_INTS(x) ((x)[0] + (x)[1] + (x)[2] + (x)[3])
#define KM_LOAD_DOUBLES(from) ((km_doubles){(from)[0], (from)[1]})
#define KM_SQRT(x) ((km_vec){sqrtf((x)[0]), sqrtf((x)[1]), sqrtf((x)[2]), sqrtf((x)[3])})
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_F_KEEP_NEAREST(first, second, index, square, j)                                                   \
    do {                                                                                                     \
        const km_ints km_where = (km_ints)((square) < (first));                                              \
        const km_vec km_rest = KM_CHOOSE(km_where, first, square);                                           \
        index = (index & ~km_where) | (j & km_where);                                                        \
        first = KM_CHOOSE(km_where, square, first);                                                          \
        second = KM_MIN(km_rest, second);                                                                    \
    } while (0)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) km_any_bit(~(km_ints)((a) < (b)))
static inline int km_any_bit(km_ints a) {
    return (a[0] | a[1] | a[2] | a[3]) != 0;
}

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
#define km_bits km_float_bits
// Values base[index] of indices that lie in memory.
#define KM_GATHER(base, index) KM_F_GATHER(base, index)
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

// ... 8 definitions

// Of the text of {features: 4, clusters: 2..8, type: float64, target: cpu:generic} weighted tracked: Head; Numbers and types; The pass; Seeding; The finishing pass; What a program takes
// "..." stands for what a template or an earlier part shows.

// ... 4 definitions

// ... 20 definitions

typedef km_real km_vec __attribute__((vector_size(16)));
typedef km_int km_ints
    __attribute__((vector_size(16))); // as many integers as km_vec has reals, of their size
typedef km_real km_vec_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef km_int km_ints_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
#define KM_LOAD(from) (*(const km_vec_anywhere *)(const void *)(from))
#define KM_STORE(to, x) *(km_vec_anywhere *)(void *)(to) = x
#define KM_SPLAT(value) ((km_vec){value, value})
#define KM_INTS(value) ((km_ints){value, value})
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
#define KM_STORE_WIDE(to, x) KM_STORE(to, x)
#define KM_LOAD_LABELS(from) ((km_ints){(from)[0], (from)[1]})
#define KM_D_ADD_WHERE(sum, where, from) sum += (km_doubles)((km_longs)KM_D_LOAD(from) & (where))
#define KM_SUM_INTS(x) ((x)[0] + (x)[1])
#define KM_LOAD_DOUBLES(from) KM_D_LOAD(from)
#define KM_SQRT(x) ((km_vec){sqrt((x)[0]), sqrt((x)[1])})
// A bit for each of 64 bytes that differ.
static uint64_t km_differ(const uint8_t *a, const uint8_t *b) {
    const uint64_t low = 0x7f7f7f7f7f7f7f7f, ones = 0x0101010101010101;
    uint64_t differ = 0;
    for (int i = 0; i < 64; i += 8) {
        uint64_t x, y;
        memcpy(&x, a + i, 8);
        memcpy(&y, b + i, 8);
        if (x == y) continue;
        // The high bit of each byte that differs, then the eight of them side by side.
        x ^= y;
        x = (((x & low) + low) | x) >> 7 & ones;
        differ |= (x * 0x0102040810204080) >> 56 << i;
    }
    return differ;
}
#define KM_DIFFER(a, b) km_differ(a, b)

// ... 3 definitions

// ... 1 definition

// Labels of VECTORS x LANES points: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_TARGET static inline void km_nearest(km_index *labels, const km_real *points, const km_real *table,
                                        int64_t k) {
    km_vec best_0;
    km_ints index_0 = KM_INTS(0);
    km_vec best_1;
    km_ints index_1 = KM_INTS(0);
    km_vec best_2;
    km_ints index_2 = KM_INTS(0);
    km_vec best_3;
    km_ints index_3 = KM_INTS(0);
    const km_real *row = table;
    km_ints j = KM_INTS(0);
    const km_ints one = KM_INTS(1);
    // The centroids that k leaves beside whole tiles go first. Centroid 0 starts as the best.
    const int64_t start = (k - 1) % TILE + 1;
    switch (start) {
        case 1: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            break;
        }
        case 2: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                s_1_2 = KM_FMA(x_2, c_1, s_1_2);
                s_1_3 = KM_FMA(x_3, c_1, s_1_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            KM_KEEP(best_2, index_2, s_1_2, j);
            KM_KEEP(best_3, index_3, s_1_3, j);
            break;
        }
        case 3: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_2 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_3 = KM_SPLAT(row[2 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                s_1_2 = KM_FMA(x_2, c_1, s_1_2);
                s_1_3 = KM_FMA(x_3, c_1, s_1_3);
                const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
                s_2_0 = KM_FMA(x_0, c_2, s_2_0);
                s_2_1 = KM_FMA(x_1, c_2, s_2_1);
                s_2_2 = KM_FMA(x_2, c_2, s_2_2);
                s_2_3 = KM_FMA(x_3, c_2, s_2_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            KM_KEEP(best_2, index_2, s_1_2, j);
            KM_KEEP(best_3, index_3, s_1_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_2_0, j);
            KM_KEEP(best_1, index_1, s_2_1, j);
            KM_KEEP(best_2, index_2, s_2_2, j);
            KM_KEEP(best_3, index_3, s_2_3, j);
            break;
        }
        default: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
            km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
            km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_2 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_2_3 = KM_SPLAT(row[2 * (D + 1) + D]);
            km_vec s_3_0 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_1 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_2 = KM_SPLAT(row[3 * (D + 1) + D]);
            km_vec s_3_3 = KM_SPLAT(row[3 * (D + 1) + D]);
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
                km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
                km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                s_0_1 = KM_FMA(x_1, c_0, s_0_1);
                s_0_2 = KM_FMA(x_2, c_0, s_0_2);
                s_0_3 = KM_FMA(x_3, c_0, s_0_3);
                const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
                s_1_0 = KM_FMA(x_0, c_1, s_1_0);
                s_1_1 = KM_FMA(x_1, c_1, s_1_1);
                s_1_2 = KM_FMA(x_2, c_1, s_1_2);
                s_1_3 = KM_FMA(x_3, c_1, s_1_3);
                const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
                s_2_0 = KM_FMA(x_0, c_2, s_2_0);
                s_2_1 = KM_FMA(x_1, c_2, s_2_1);
                s_2_2 = KM_FMA(x_2, c_2, s_2_2);
                s_2_3 = KM_FMA(x_3, c_2, s_2_3);
                const km_vec c_3 = KM_SPLAT(row[3 * (D + 1) + f]);
                s_3_0 = KM_FMA(x_0, c_3, s_3_0);
                s_3_1 = KM_FMA(x_1, c_3, s_3_1);
                s_3_2 = KM_FMA(x_2, c_3, s_3_2);
                s_3_3 = KM_FMA(x_3, c_3, s_3_3);
            }
            best_0 = s_0_0;
            best_1 = s_0_1;
            best_2 = s_0_2;
            best_3 = s_0_3;
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            KM_KEEP(best_1, index_1, s_1_1, j);
            KM_KEEP(best_2, index_2, s_1_2, j);
            KM_KEEP(best_3, index_3, s_1_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_2_0, j);
            KM_KEEP(best_1, index_1, s_2_1, j);
            KM_KEEP(best_2, index_2, s_2_2, j);
            KM_KEEP(best_3, index_3, s_2_3, j);
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_3_0, j);
            KM_KEEP(best_1, index_1, s_3_1, j);
            KM_KEEP(best_2, index_2, s_3_2, j);
            KM_KEEP(best_3, index_3, s_3_3, j);
            break;
        }
    }
    for (int64_t done = start; done < k; done += TILE) {
        row = table + done * (D + 1);
        km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_0_1 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_0_2 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_0_3 = KM_SPLAT(row[0 * (D + 1) + D]);
        km_vec s_1_0 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_1_1 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_1_2 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_1_3 = KM_SPLAT(row[1 * (D + 1) + D]);
        km_vec s_2_0 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_2_1 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_2_2 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_2_3 = KM_SPLAT(row[2 * (D + 1) + D]);
        km_vec s_3_0 = KM_SPLAT(row[3 * (D + 1) + D]);
        km_vec s_3_1 = KM_SPLAT(row[3 * (D + 1) + D]);
        km_vec s_3_2 = KM_SPLAT(row[3 * (D + 1) + D]);
        km_vec s_3_3 = KM_SPLAT(row[3 * (D + 1) + D]);
        for (int f = 0; f < D; f++) {
            km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
            km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + 1 * LANES);
            km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + 2 * LANES);
            km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + 3 * LANES);
            const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
            s_0_0 = KM_FMA(x_0, c_0, s_0_0);
            s_0_1 = KM_FMA(x_1, c_0, s_0_1);
            s_0_2 = KM_FMA(x_2, c_0, s_0_2);
            s_0_3 = KM_FMA(x_3, c_0, s_0_3);
            const km_vec c_1 = KM_SPLAT(row[1 * (D + 1) + f]);
            s_1_0 = KM_FMA(x_0, c_1, s_1_0);
            s_1_1 = KM_FMA(x_1, c_1, s_1_1);
            s_1_2 = KM_FMA(x_2, c_1, s_1_2);
            s_1_3 = KM_FMA(x_3, c_1, s_1_3);
            const km_vec c_2 = KM_SPLAT(row[2 * (D + 1) + f]);
            s_2_0 = KM_FMA(x_0, c_2, s_2_0);
            s_2_1 = KM_FMA(x_1, c_2, s_2_1);
            s_2_2 = KM_FMA(x_2, c_2, s_2_2);
            s_2_3 = KM_FMA(x_3, c_2, s_2_3);
            const km_vec c_3 = KM_SPLAT(row[3 * (D + 1) + f]);
            s_3_0 = KM_FMA(x_0, c_3, s_3_0);
            s_3_1 = KM_FMA(x_1, c_3, s_3_1);
            s_3_2 = KM_FMA(x_2, c_3, s_3_2);
            s_3_3 = KM_FMA(x_3, c_3, s_3_3);
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0_0, j);
        KM_KEEP(best_1, index_1, s_0_1, j);
        KM_KEEP(best_2, index_2, s_0_2, j);
        KM_KEEP(best_3, index_3, s_0_3, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_1_0, j);
        KM_KEEP(best_1, index_1, s_1_1, j);
        KM_KEEP(best_2, index_2, s_1_2, j);
        KM_KEEP(best_3, index_3, s_1_3, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_2_0, j);
        KM_KEEP(best_1, index_1, s_2_1, j);
        KM_KEEP(best_2, index_2, s_2_2, j);
        KM_KEEP(best_3, index_3, s_2_3, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_3_0, j);
        KM_KEEP(best_1, index_1, s_3_1, j);
        KM_KEEP(best_2, index_2, s_3_2, j);
        KM_KEEP(best_3, index_3, s_3_3, j);
    }
    KM_PUT_LABELS_4(labels + 0 * LANES, index_0, index_1, index_2, index_3);
}

// ... 21 definitions

// ... 8 definitions

// ==== The finishing pass ===================================================================================
// The finishing pass: labels as double arithmetic gives them, and the sums that criteria ask for.
enum {
    FINISH_SPAN = 512,      // points of a span, which stays in the first cache for all models
    FINISH_ROW = 4,         // doubles of a centroid
    PAIR_POINTS = 2 * LANES // points of two vectors
};

// ... 3 definitions

// Labels of a span, and the distances and margins that are summed.
KM_TARGET static void km_finish_assign(km_finish_span *span, const km_cpu_finish *finish,
                                       const km_cpu_finish_model *model) {
    for (int64_t at = 0; at < span->count; at += PAIR_POINTS) {
        km_real nearest[PAIR_POINTS], next[PAIR_POINTS];
        int32_t *labels = span->labels + at;
        km_finish_resolve(labels, nearest, next, finish, model, span->first + at);
        for (int i = 0; i < PAIR_POINTS; i += LANES) {
            const km_vec first = KM_LOAD(nearest + i);
            const km_vec second =
                KM_LOAD((model->k > 1 ? next : nearest) + i); // a single centroid has no margin
            const km_vec d1 = KM_SQRT(first), d2 = KM_SQRT(second);
            const km_vec margin = KM_QUOTIENT(KM_SUB(d2, d1), d2);
            KM_STORE_WIDE(span->distances + at + i, d1);
            KM_STORE_WIDE(span->margins + at + i, margin);
            KM_STORE(span->squares + at + i, KM_LOAD(nearest + i));
        }
    }
}

// Squared distances of a span to any number of rows by label, point by point.
KM_TARGET static void km_finish_squares(double *out, km_finish_span *span, const km_cpu_finish *finish,
                                        const double *rows) {
    for (int64_t i = 0; i < span->count; i++) {
        const double *c = rows + span->labels[i] * (int64_t)FINISH_ROW;
        const int64_t at = span->first + i;
        const km_real *x =
            (const km_real *)finish->points + at / SOA_POINTS * SOA_POINTS * D + at % SOA_POINTS;
        double parts[4] = {0, 0, 0, 0}; // four sums, so that an addition need not wait for the one before
        int64_t f = 0;
        for (; f + 4 <= D; f += 4)
            for (int p = 0; p < 4; p++) {
                const double t = (double)x[(f + p) * SOA_POINTS] - c[f + p];
                parts[p] += t * t;
            }
        for (; f < D; f++) {
            const double t = (double)x[f * SOA_POINTS] - c[f];
            parts[0] += t * t;
        }
        out[i] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
}

// ... 6 definitions

// ... 1 definition

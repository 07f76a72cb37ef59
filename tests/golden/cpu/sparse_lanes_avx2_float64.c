// Of the text of prebuilt sparse_lanes avx2_float64: All
// "..." stands for what a template or an earlier part shows.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
// Transposes DOUBLES rows of DOUBLES doubles, `from_step` and `to_step` apart.
#define KM_TRANSPOSE_DOUBLES(to, to_step, from, from_step) km_transpose_doubles(to, to_step, from, from_step)
KM_TARGET static inline void km_transpose_doubles(double *to, int64_t to_step, const double *from,
                                                  int64_t from_step) {
    const km_doubles a = KM_D_LOAD(from), b = KM_D_LOAD(from + from_step),
                     c = KM_D_LOAD(from + 2 * from_step), d = KM_D_LOAD(from + 3 * from_step);
    const km_doubles e = _mm256_unpacklo_pd(a, b), f = _mm256_unpackhi_pd(a, b), g = _mm256_unpacklo_pd(c, d),
                     h = _mm256_unpackhi_pd(c, d);
    KM_D_STORE(to, _mm256_permute2f128_pd(e, g, 0x20));
    KM_D_STORE(to + to_step, _mm256_permute2f128_pd(f, h, 0x20));
    KM_D_STORE(to + 2 * to_step, _mm256_permute2f128_pd(e, g, 0x31));
    KM_D_STORE(to + 3 * to_step, _mm256_permute2f128_pd(f, h, 0x31));
}
// The same for LANES rows of LANES reals.
#define KM_TRANSPOSE KM_TRANSPOSE_DOUBLES
#include "runtime/cpu/sparse.h"

enum {
    GROUP = 8,                 // rows whose scores are searched together
    PANEL_VECTORS = 12, // vectors of columns whose scores stay in registers, at most
    PANEL = PANEL_VECTORS * LANES,  // ... and columns
    DOUBLE_GROUP = 8,               // rows whose scores in double are searched together
    RESOLVED = 16,                  // columns of scores in double at a time
    SEED_LANES = 4,                 // candidates of a seeding side by side
    ADDED_RUNS = 4,                 // runs that all rows are added to side by side, at most ...
    ADDED_BYTES = 24 * 1024         // ... while their sums are no more than this
};

// ... 1 definition

typedef void (*km_scores_double)(double *scores, int64_t pitch, const panel *p, const uint32_t *starts,
                                int64_t count);
// Scores of rows for 1 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_1_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
    }
}
// Scores of rows for 2 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_2_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
    }
}
// Scores of rows for 3 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_3_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
    }
}
// Scores of rows for 4 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_4_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
    }
}
// Scores of rows for 5 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_5_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
    }
}
// Scores of rows for 6 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_6_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
    }
}
// Scores of rows for 7 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_7_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
    }
}
// Scores of rows for 8 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_8_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
    }
}
// Scores of rows for 9 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_9_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
    }
}
// Scores of rows for 10 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_10_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
    }
}
// Scores of rows for 11 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_11_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        km_doubles s_10 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
                __builtin_prefetch(ahead + 320);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
            s_10 = KM_D_FMA(x, KM_D_LOAD(row + 10 * DOUBLES), s_10);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
        KM_D_STORE(scores + 10 * DOUBLES,
                        KM_D_ADD(s_10, KM_D_LOAD(constants + 10 * DOUBLES)));
    }
}
// Scores of rows for 12 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_12_8(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint8_t *indices = (const uint8_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        km_doubles s_10 = KM_D_SPLAT(0);
        km_doubles s_11 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
                __builtin_prefetch(ahead + 320);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
            s_10 = KM_D_FMA(x, KM_D_LOAD(row + 10 * DOUBLES), s_10);
            s_11 = KM_D_FMA(x, KM_D_LOAD(row + 11 * DOUBLES), s_11);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
        KM_D_STORE(scores + 10 * DOUBLES,
                        KM_D_ADD(s_10, KM_D_LOAD(constants + 10 * DOUBLES)));
        KM_D_STORE(scores + 11 * DOUBLES,
                        KM_D_ADD(s_11, KM_D_LOAD(constants + 11 * DOUBLES)));
    }
}
// Scores of rows for 1 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_1_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
    }
}
// Scores of rows for 2 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_2_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
    }
}
// Scores of rows for 3 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_3_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
    }
}
// Scores of rows for 4 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_4_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
    }
}
// Scores of rows for 5 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_5_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
    }
}
// Scores of rows for 6 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_6_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
    }
}
// Scores of rows for 7 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_7_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
    }
}
// Scores of rows for 8 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_8_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
    }
}
// Scores of rows for 9 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_9_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
    }
}
// Scores of rows for 10 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_10_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
    }
}
// Scores of rows for 11 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_11_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        km_doubles s_10 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
                __builtin_prefetch(ahead + 320);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
            s_10 = KM_D_FMA(x, KM_D_LOAD(row + 10 * DOUBLES), s_10);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
        KM_D_STORE(scores + 10 * DOUBLES,
                        KM_D_ADD(s_10, KM_D_LOAD(constants + 10 * DOUBLES)));
    }
}
// Scores of rows for 12 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_12_16(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint16_t *indices = (const uint16_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        km_doubles s_10 = KM_D_SPLAT(0);
        km_doubles s_11 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
                __builtin_prefetch(ahead + 320);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
            s_10 = KM_D_FMA(x, KM_D_LOAD(row + 10 * DOUBLES), s_10);
            s_11 = KM_D_FMA(x, KM_D_LOAD(row + 11 * DOUBLES), s_11);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
        KM_D_STORE(scores + 10 * DOUBLES,
                        KM_D_ADD(s_10, KM_D_LOAD(constants + 10 * DOUBLES)));
        KM_D_STORE(scores + 11 * DOUBLES,
                        KM_D_ADD(s_11, KM_D_LOAD(constants + 11 * DOUBLES)));
    }
}
// Scores of rows for 1 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_1_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
    }
}
// Scores of rows for 2 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_2_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
    }
}
// Scores of rows for 3 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_3_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
    }
}
// Scores of rows for 4 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_4_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
    }
}
// Scores of rows for 5 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_5_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
    }
}
// Scores of rows for 6 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_6_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
    }
}
// Scores of rows for 7 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_7_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
    }
}
// Scores of rows for 8 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_8_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
    }
}
// Scores of rows for 9 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_9_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
    }
}
// Scores of rows for 10 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_10_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
    }
}
// Scores of rows for 11 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_11_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        km_doubles s_10 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
                __builtin_prefetch(ahead + 320);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
            s_10 = KM_D_FMA(x, KM_D_LOAD(row + 10 * DOUBLES), s_10);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
        KM_D_STORE(scores + 10 * DOUBLES,
                        KM_D_ADD(s_10, KM_D_LOAD(constants + 10 * DOUBLES)));
    }
}
// Scores of rows for 12 vectors of columns, which stay in registers over a row's nonzeros.
KM_TARGET static void km_scores_double_12_32(double *scores, int64_t pitch, const panel *p,
                                                    const uint32_t *starts, int64_t count) {
    double *squares = p->squares;
    const uint32_t *indices = (const uint32_t *)p->indices;
    const km_real *values = (const km_real *)p->values;
    const double *table = (const double *)p->table, *constants = (const double *)p->constants;
    const int64_t stride = p->stride;
    const int is_large = p->is_large;
    for (int64_t r = 0; r < count; r++, scores += pitch) {
        km_doubles s_0 = KM_D_SPLAT(0);
        km_doubles s_1 = KM_D_SPLAT(0);
        km_doubles s_2 = KM_D_SPLAT(0);
        km_doubles s_3 = KM_D_SPLAT(0);
        km_doubles s_4 = KM_D_SPLAT(0);
        km_doubles s_5 = KM_D_SPLAT(0);
        km_doubles s_6 = KM_D_SPLAT(0);
        km_doubles s_7 = KM_D_SPLAT(0);
        km_doubles s_8 = KM_D_SPLAT(0);
        km_doubles s_9 = KM_D_SPLAT(0);
        km_doubles s_10 = KM_D_SPLAT(0);
        km_doubles s_11 = KM_D_SPLAT(0);
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                __builtin_prefetch(ahead + 64);
                __builtin_prefetch(ahead + 128);
                __builtin_prefetch(ahead + 192);
                __builtin_prefetch(ahead + 256);
                __builtin_prefetch(ahead + 320);
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            s_1 = KM_D_FMA(x, KM_D_LOAD(row + 1 * DOUBLES), s_1);
            s_2 = KM_D_FMA(x, KM_D_LOAD(row + 2 * DOUBLES), s_2);
            s_3 = KM_D_FMA(x, KM_D_LOAD(row + 3 * DOUBLES), s_3);
            s_4 = KM_D_FMA(x, KM_D_LOAD(row + 4 * DOUBLES), s_4);
            s_5 = KM_D_FMA(x, KM_D_LOAD(row + 5 * DOUBLES), s_5);
            s_6 = KM_D_FMA(x, KM_D_LOAD(row + 6 * DOUBLES), s_6);
            s_7 = KM_D_FMA(x, KM_D_LOAD(row + 7 * DOUBLES), s_7);
            s_8 = KM_D_FMA(x, KM_D_LOAD(row + 8 * DOUBLES), s_8);
            s_9 = KM_D_FMA(x, KM_D_LOAD(row + 9 * DOUBLES), s_9);
            s_10 = KM_D_FMA(x, KM_D_LOAD(row + 10 * DOUBLES), s_10);
            s_11 = KM_D_FMA(x, KM_D_LOAD(row + 11 * DOUBLES), s_11);
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        KM_D_STORE(scores + 1 * DOUBLES,
                        KM_D_ADD(s_1, KM_D_LOAD(constants + 1 * DOUBLES)));
        KM_D_STORE(scores + 2 * DOUBLES,
                        KM_D_ADD(s_2, KM_D_LOAD(constants + 2 * DOUBLES)));
        KM_D_STORE(scores + 3 * DOUBLES,
                        KM_D_ADD(s_3, KM_D_LOAD(constants + 3 * DOUBLES)));
        KM_D_STORE(scores + 4 * DOUBLES,
                        KM_D_ADD(s_4, KM_D_LOAD(constants + 4 * DOUBLES)));
        KM_D_STORE(scores + 5 * DOUBLES,
                        KM_D_ADD(s_5, KM_D_LOAD(constants + 5 * DOUBLES)));
        KM_D_STORE(scores + 6 * DOUBLES,
                        KM_D_ADD(s_6, KM_D_LOAD(constants + 6 * DOUBLES)));
        KM_D_STORE(scores + 7 * DOUBLES,
                        KM_D_ADD(s_7, KM_D_LOAD(constants + 7 * DOUBLES)));
        KM_D_STORE(scores + 8 * DOUBLES,
                        KM_D_ADD(s_8, KM_D_LOAD(constants + 8 * DOUBLES)));
        KM_D_STORE(scores + 9 * DOUBLES,
                        KM_D_ADD(s_9, KM_D_LOAD(constants + 9 * DOUBLES)));
        KM_D_STORE(scores + 10 * DOUBLES,
                        KM_D_ADD(s_10, KM_D_LOAD(constants + 10 * DOUBLES)));
        KM_D_STORE(scores + 11 * DOUBLES,
                        KM_D_ADD(s_11, KM_D_LOAD(constants + 11 * DOUBLES)));
    }
}
// By width of an index (1, 2 or 4 bytes), then number of vectors.
static const km_scores_double km_scores_of_double[3][PANEL_VECTORS] = {
    {
        km_scores_double_1_8,
        km_scores_double_2_8,
        km_scores_double_3_8,
        km_scores_double_4_8,
        km_scores_double_5_8,
        km_scores_double_6_8,
        km_scores_double_7_8,
        km_scores_double_8_8,
        km_scores_double_9_8,
        km_scores_double_10_8,
        km_scores_double_11_8,
        km_scores_double_12_8,
    },
    {
        km_scores_double_1_16,
        km_scores_double_2_16,
        km_scores_double_3_16,
        km_scores_double_4_16,
        km_scores_double_5_16,
        km_scores_double_6_16,
        km_scores_double_7_16,
        km_scores_double_8_16,
        km_scores_double_9_16,
        km_scores_double_10_16,
        km_scores_double_11_16,
        km_scores_double_12_16,
    },
    {
        km_scores_double_1_32,
        km_scores_double_2_32,
        km_scores_double_3_32,
        km_scores_double_4_32,
        km_scores_double_5_32,
        km_scores_double_6_32,
        km_scores_double_7_32,
        km_scores_double_8_32,
        km_scores_double_9_32,
        km_scores_double_10_32,
        km_scores_double_11_32,
        km_scores_double_12_32,
    },
};

#define km_scores_of_real km_scores_of_double
#define KM_WIDTH_OF(bytes) ((bytes) / 2) // 0, 1, 2 for 1, 2, 4 bytes

// ... 4 definitions

// Takes the scores of a group for columns of one run. `slack`: of each row, what rounding may hide for a centroid of
// |c| = 1; `norm` and `least`: |c| at most, and what else rounding may hide.
KM_INLINE void km_search(run_found *found, int64_t at, const km_real *scores, const run_part *part,
                         const km_real *slack, km_real norm, km_real least) {
    uint64_t ambiguous = 0;
    km_vec first_0 = KM_SPLAT(INFINITY), second_0 = first_0;
    km_ints index_0 = KM_INTS(0);
    km_vec first_1 = KM_SPLAT(INFINITY), second_1 = first_1;
    km_ints index_1 = KM_INTS(0);
    if (!part->is_first) {
        first_0 = KM_LOAD(found->first + at + 0 * LANES);
        second_0 = KM_LOAD(found->second + at + 0 * LANES);
        memcpy(&index_0, found->label + at + 0 * LANES, sizeof index_0);
        first_1 = KM_LOAD(found->first + at + 1 * LANES);
        second_1 = KM_LOAD(found->second + at + 1 * LANES);
        memcpy(&index_1, found->label + at + 1 * LANES, sizeof index_1);
    }
    const km_ints one = KM_INTS(1);
    km_ints j = KM_INTS((km_int)part->index);
    for (int64_t c = part->begin; c < part->end; c++) {
        const km_vec score_0 = KM_LOAD(scores + c * GROUP + 0 * LANES);
        KM_KEEP_NEAREST(first_0, second_0, index_0, score_0, j);
        const km_vec score_1 = KM_LOAD(scores + c * GROUP + 1 * LANES);
        KM_KEEP_NEAREST(first_1, second_1, index_1, score_1, j);
        j = KM_INTS_ADD(j, one);
    }
    memcpy(found->label + at + 0 * LANES, &index_0, sizeof index_0);
    memcpy(found->label + at + 1 * LANES, &index_1, sizeof index_1);
    if (!part->is_last) {
        KM_STORE(found->first + at + 0 * LANES, first_0);
        KM_STORE(found->second + at + 0 * LANES, second_0);
        KM_STORE(found->first + at + 1 * LANES, first_1);
        KM_STORE(found->second + at + 1 * LANES, second_1);
        return;
    }
    const km_vec norms = KM_SPLAT(norm), leasts = KM_SPLAT(least);
    const km_vec hidden_0 = KM_FMA(KM_LOAD(slack + 0 * LANES), norms, leasts);
    ambiguous |= KM_NOT_BELOW(KM_ADD(first_0, hidden_0), second_0) << (0 * LANES);
    const km_vec hidden_1 = KM_FMA(KM_LOAD(slack + 1 * LANES), norms, leasts);
    ambiguous |= KM_NOT_BELOW(KM_ADD(first_1, hidden_1), second_1) << (1 * LANES);
    found->ambiguous[at / 64] |= ambiguous << at % 64;
}

// What rounding may hide of the difference of two scores of a row, for centroids of |c| = 1: 2 gamma(m + 2) |x|, with
// gamma(m) = m u / (1 - m u), u half a unit of a real's last place; and a little more, as it is rounded itself.
KM_INLINE void km_slacks(km_real *slack, const uint32_t *starts, const float *norms, int64_t count) {
    for (int64_t r = 0; r < count; r++) {
        const double rounding = (double)(starts[r + 1] - starts[r] + 2) * 0x1p-53;
        const double gamma = rounding < 0.5 ? rounding / (1 - rounding) : (double)INFINITY;
        slack[r] = norms[r] > 0 ? (km_real)(2.001 * gamma * (double)norms[r]) : 0;
    }
    for (int64_t r = count; r < SPARSE_SPAN; r++) slack[r] = 0;
}

// Labels of a span, and which of them are ambiguous.
KM_TARGET static void km_nearest(run_found *found, const cpu_sparse_chunk *chunk, int64_t first,
                                 int64_t count) {
    km_real scores[GROUP * PANEL], by_column[PANEL * GROUP], slack[SPARSE_SPAN];
    const cpu_sparse_table *table = &chunk->table;
    const uint32_t *starts = chunk->rows.starts + first;
    const int64_t vectors = (table->columns + LANES - 1) / LANES, most = km_panel_vectors(vectors);
    int64_t slot_from = 0, slot_column = 0; // the first run of a panel, and its first column
    memset(scores, 0, sizeof scores);
    km_slacks(slack, starts, chunk->norms + first, count);
    for (int64_t from = 0; from < vectors; from += most) {
        const int64_t here = vectors - from < most ? vectors - from : most, column = from * LANES;
        const int64_t end = column + here * LANES < table->columns ? column + here * LANES : table->columns;
        const panel p = {chunk->rows.indices,
                         chunk->rows.values,
                         (const km_real *)table->rows + column,
                         (const km_real *)table->constants + column,
                         NULL,
                         table->stride,
                         table->is_large};
        while (slot_column + chunk->slots[slot_from].k <= column) slot_column += chunk->slots[slot_from++].k;
        for (int64_t g = 0; g < count; g += GROUP) {
            const int64_t rows = count - g < GROUP ? count - g : GROUP, pitch = here * LANES;
            km_scores_of_real[KM_WIDTH_OF(chunk->rows.index_bytes)][here - 1](scores, pitch, &p, starts + g,
                                                                              rows);
            for (int64_t v = 0; v < here; v++)
                for (int b = 0; b < GROUP; b += LANES)
                    KM_TRANSPOSE(by_column + v * LANES * GROUP + b, GROUP, scores + b * pitch + v * LANES,
                                 pitch);
            for (int64_t s = slot_from, at = slot_column; at < end; at += chunk->slots[s++].k) {
                const int64_t k = chunk->slots[s].k;
                const run_part part = {at < column ? 0 : at - column, (at + k < end ? at + k : end) - column,
                                       at < column ? column - at : 0, at >= column, at + k <= end};
                const double norm = chunk->norms_max[s];
                // Rounding of |c|^2 / 2 and of the last addition; products that are too small for a real.
                const double least = 2.001 * 0x1p-53 * norm * norm + (double)(chunk->d + 4) * 0x1p-1073;
                km_search(&found[s], g, by_column, &part, slack + g, (km_real)norm, (km_real)least);
            }
        }
    }
}

// ... 2 definitions

// The nearest centroid in double, the lowest index among equals: as km_cpu_finish_models has it.
KM_TARGET __attribute__((noinline)) static int64_t km_resolve_8(const cpu_sparse_chunk *chunk,
                                                                     int64_t row, int64_t column, int64_t k) {
    const uint8_t *indices = (const uint8_t *)chunk->rows.indices;
    const km_real *values = (const km_real *)chunk->rows.values;
    const int64_t stride = chunk->table.stride;
    double least = (double)INFINITY;
    int64_t label = 0;
    for (int64_t from = 0; from < k; from += RESOLVED) {
        const int64_t here = k - from < RESOLVED ? k - from : RESOLVED;
        const km_real *table = (const km_real *)chunk->table.rows + column + from;
        double sums[RESOLVED] = {0};
        for (int64_t at = chunk->rows.starts[row]; at < chunk->rows.starts[row + 1]; at++) {
            const km_real *c = table + (int64_t)indices[at] * stride;
            const double x = (double)values[at];
            for (int64_t j = 0; j < here; j++) sums[j] = fma(x, (double)c[j], sums[j]);
        }
        for (int64_t j = 0; j < here; j++) {
            const double score = sums[j] + chunk->constants[column + from + j];
            if (!(score < least)) continue;
            least = score;
            label = from + j;
        }
    }
    return label;
}

// Moves the listed rows of a span, which starts at row `first`, from their old clusters to the new ones.
KM_TARGET static void km_move_8(const cpu_sparse_chunk *chunk, const km_cpu_slot *slot, int64_t first,
                                     const uint16_t *list, const int32_t *old, int64_t count,
                                     const km_int *label) {
    const uint8_t *indices = (const uint8_t *)chunk->rows.indices;
    const km_real *values = (const km_real *)chunk->rows.values;
    const uint32_t *starts = chunk->rows.starts;
    const int64_t d = chunk->d, pitch = KM_CPU_PITCH(d);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = first + list[i];
        const double weight = chunk->weights ? chunk->weights[row] : 1.0;
        if (weight == 0) continue;
        double *to = slot->sums + label[list[i]] * pitch, *from = slot->sums + old[i] * pitch;
        for (int64_t at = starts[row], end = starts[row + 1]; at < end; at++) {
            const int64_t f = indices[at];
            const double x = weight * (double)values[at];
            to[f] += x;
            from[f] -= x;
        }
        to[d] += weight;
        to[d + 1] += 1.0;
        from[d] -= weight;
        from[d + 1] -= 1.0;
    }
}

// Adds all rows of a span to the sums of `runs` runs that start from zero: of so few that their sums stay in a cache.
KM_INLINE void km_add_runs_8(const cpu_sparse_chunk *chunk, const added_run *of, const int runs,
                                  int64_t first, int64_t count) {
    const uint8_t *indices = (const uint8_t *)chunk->rows.indices;
    const km_real *values = (const km_real *)chunk->rows.values;
    const uint32_t *starts = chunk->rows.starts + first;
    const int64_t d = chunk->d, pitch = KM_CPU_PITCH(d);
    double *sum[ADDED_RUNS];
    for (int64_t r = 0; r < count; r++) {
        const double weight = chunk->weights ? chunk->weights[first + r] : 1.0;
        if (weight == 0) continue;
        for (int i = 0; i < runs; i++) sum[i] = of[i].sums + of[i].label[r] * pitch;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const int64_t f = indices[at];
            const double x = weight * (double)values[at];
            for (int i = 0; i < runs; i++) sum[i][f] += x;
        }
        for (int i = 0; i < runs; i++) {
            sum[i][d] += weight;
            sum[i][d + 1] += 1.0;
        }
    }
}

KM_TARGET static void km_add_all_8(const cpu_sparse_chunk *chunk, const added_run *of, int runs,
                                        int64_t first, int64_t count) {
    if (runs == 4) km_add_runs_8(chunk, of, 4, first, count);
    if (runs == 3) km_add_runs_8(chunk, of, 3, first, count);
    if (runs == 2) km_add_runs_8(chunk, of, 2, first, count);
    if (runs == 1) km_add_runs_8(chunk, of, 1, first, count);
}

// cpu_sparse_kernels.add
KM_TARGET static void km_sum_8(const cpu_sparse_sum *of) {
    const uint8_t *indices = (const uint8_t *)of->indices;
    const km_real *values = (const km_real *)of->values;
    for (int64_t i = 0; i < of->count; i++) {
        const int64_t point = of->marks[i] / 2, chunk = point / KM_CHUNK_POINTS,
                      row = point % KM_CHUNK_POINTS;
        const uint32_t *starts = of->starts + chunk * (KM_CHUNK_POINTS + 1) + row;
        int64_t at = of->chunk_first[chunk] + starts[0], end = of->chunk_first[chunk] + starts[1];
        double weight = of->weights ? of->weights[point] : 1.0;
        if (weight == 0) continue;
        if (of->marks[i] % 2) weight = -weight;
        if (of->low > 0) { // the first nonzero that is not below `low`
            int64_t over = end;
            while (at < over) {
                const int64_t half = at + (over - at) / 2;
                if (indices[half] < of->low)
                    at = half + 1;
                else
                    over = half;
            }
        }
        if (of->high < of->d)
            for (; at < end && indices[at] < of->high; at++)
                of->row[indices[at]] += weight * (double)values[at];
        else {
            for (; at < end; at++) of->row[indices[at]] += weight * (double)values[at];
            of->row[of->d] += weight;
            of->row[of->d + 1] += weight < 0 ? -1.0 : 1.0;
        }
    }
}

// ... 10 definitions

// Decides the ambiguous rows of a span for one run.
KM_TARGET static void km_resolve(cpu_sparse_chunk *chunk, run_found *found, int64_t s, int64_t column,
                                 int64_t first, int64_t count) {
    km_cpu_slot *slot = &chunk->slots[s];
    for (int64_t r = 0; r < count; r++) {
        if (!(found->ambiguous[r / 64] >> r % 64)) {
            r = r / 64 * 64 + 63;
            continue;
        }
        if (!(found->ambiguous[r / 64] >> r % 64 & 1)) continue;
        slot->resolved++;
        if (chunk->rows.index_bytes == 8 / 8)
            found->label[r] = (km_int)km_resolve_8(chunk, first + r, column, slot->k);
        if (chunk->rows.index_bytes == 16 / 8)
            found->label[r] = (km_int)km_resolve_16(chunk, first + r, column, slot->k);
        if (chunk->rows.index_bytes == 32 / 8)
            found->label[r] = (km_int)km_resolve_32(chunk, first + r, column, slot->k);
    }
}

// ... 1 definition

// Stores labels of a span, and lists the rows whose label changed. In the first pass all rows did. Labels are
// compared a word at a time; of the last word only those of the span are touched.
KM_TARGET static int64_t km_changes_8(uint8_t *labels, const km_int *label, int64_t count,
                                           int32_t mode, uint16_t *list, int32_t *old) {
    enum { OF_WORD = 64 / 8 };
    uint8_t packed[SPARSE_SPAN];
    int64_t changed = 0;
    for (int r = 0; r < SPARSE_SPAN; r++) packed[r] = (uint8_t)label[r]; // whole vectors
    for (int64_t from = 0; from < count; from += OF_WORD) {
        const size_t size = (size_t)(count - from < OF_WORD ? count - from : OF_WORD) * sizeof *labels;
        uint64_t before = 0, after = 0;
        if (size == sizeof before) {
            memcpy(&before, labels + from, sizeof before);
            memcpy(&after, packed + from, sizeof after);
            memcpy(labels + from, &after, sizeof after);
        } else {
            memcpy(&before, labels + from, size);
            memcpy(&after, packed + from, size);
            memcpy(labels + from, &after, size);
        }
        if (mode == KM_CPU_FIRST) continue;
        for (uint64_t differ = before ^ after; differ != 0;) {
            const int at = KM_FIRST_BIT(differ) / 8;
            list[changed] = (uint16_t)(from + at);
            old[changed++] = (int32_t)(uint8_t)(before >> KM_SHIFT(at, 8));
            differ &= ~((uint64_t)(uint8_t)-1 << KM_SHIFT(at, 8));
        }
    }
    return mode == KM_CPU_FIRST ? count : changed;
}

// ... 3 definitions

// One run of a span whose labels are found.
KM_TARGET static void km_take(cpu_sparse_chunk *chunk, int64_t s, int64_t first, int64_t count,
                              const km_int *label) {
    uint16_t list[SPARSE_SPAN];
    int32_t old[SPARSE_SPAN];
    km_cpu_slot *slot = &chunk->slots[s];
    int64_t changed = 0;
    if (slot->labels_bytes == 1)
        changed = km_changes_8((uint8_t *)slot->labels + first, label, count, slot->mode, list, old);
    else if (slot->labels_bytes == 2)
        changed = km_changes_16((uint16_t *)slot->labels + first, label, count, slot->mode, list, old);
    else
        changed = km_changes_32((uint32_t *)slot->labels + first, label, count, slot->mode, list, old);
    slot->changed += changed;
    if (!slot->sums) {
        if (slot->mode == KM_CPU_MOVE && chunk->changes[s])
            km_list(chunk->changes[s], first, list, old, changed);
        return;
    }
    if (slot->mode != KM_CPU_MOVE) return;
    if (chunk->rows.index_bytes == 8 / 8) km_move_8(chunk, slot, first, list, old, changed, label);
    if (chunk->rows.index_bytes == 16 / 8) km_move_16(chunk, slot, first, list, old, changed, label);
    if (chunk->rows.index_bytes == 32 / 8) km_move_32(chunk, slot, first, list, old, changed, label);
}

// Adds all rows of a span to the sums of the runs that start from zero.
KM_TARGET static void km_add_all(const cpu_sparse_chunk *chunk, const run_found *found, int64_t first,
                                 int64_t count) {
    added_run of[ADDED_RUNS];
    int runs = 0;
    for (int64_t s = 0, bytes = 0; s <= chunk->slots_count; s++) {
        const km_cpu_slot *slot = s < chunk->slots_count ? &chunk->slots[s] : NULL;
        if (slot && (!slot->sums || slot->mode == KM_CPU_MOVE)) continue;
        const int64_t own = slot ? slot->k * KM_CPU_PITCH(chunk->d) * (int64_t)sizeof(double) : 0;
        if (runs == ADDED_RUNS || !slot || (runs && bytes + own > ADDED_BYTES)) {
            if (chunk->rows.index_bytes == 8 / 8) km_add_all_8(chunk, of, runs, first, count);
            if (chunk->rows.index_bytes == 16 / 8) km_add_all_16(chunk, of, runs, first, count);
            if (chunk->rows.index_bytes == 32 / 8) km_add_all_32(chunk, of, runs, first, count);
            runs = 0;
            bytes = 0;
        }
        if (slot) of[runs++] = (added_run){slot->sums, found[s].label};
        bytes += own;
    }
}

// ... 3 definitions

// The two least scores of SPARSE_AT_A_TIME rows, and whose the least is, the lowest index among equals; k >= 1. Up to 7
// numbers behind a row's k are read.
KM_TARGET static void km_nearest_double(int32_t *label, double *first, double *second, const double *scores,
                                        int64_t stride, int64_t k) {
    double by_column[DOUBLES * DOUBLE_GROUP];
    int64_t index[DOUBLES];
    for (int64_t r = 0; r < SPARSE_AT_A_TIME; r += DOUBLE_GROUP) {
        km_doubles first_0 = KM_D_SPLAT(HUGE_VAL), second_0 = first_0;
        km_longs index_0 = KM_LONGS(0);
        km_doubles first_1 = KM_D_SPLAT(HUGE_VAL), second_1 = first_1;
        km_longs index_1 = KM_LONGS(0);
        for (int64_t from = 0; from < k; from += DOUBLES) {
            const int64_t here = k - from < DOUBLES ? k - from : DOUBLES;
            KM_TRANSPOSE_DOUBLES(by_column + 0 * DOUBLES, DOUBLE_GROUP,
                                 scores + (r + 0 * DOUBLES) * stride + from, stride);
            KM_TRANSPOSE_DOUBLES(by_column + 1 * DOUBLES, DOUBLE_GROUP,
                                 scores + (r + 1 * DOUBLES) * stride + from, stride);
            for (int64_t j = 0; j < here; j++) {
                const km_longs at = KM_LONGS(from + j);
                const km_doubles score_0 = KM_D_LOAD(by_column + j * DOUBLE_GROUP + 0 * DOUBLES);
                KM_KEEP_NEAREST(first_0, second_0, index_0, score_0, at);
                const km_doubles score_1 = KM_D_LOAD(by_column + j * DOUBLE_GROUP + 1 * DOUBLES);
                KM_KEEP_NEAREST(first_1, second_1, index_1, score_1, at);
            }
        }
        KM_D_STORE(first + r + 0 * DOUBLES, first_0);
        KM_D_STORE(second + r + 0 * DOUBLES, second_0);
        KM_PUT_LONGS(index, index_0);
        for (int i = 0; i < DOUBLES; i++) label[r + 0 * DOUBLES + i] = (int32_t)index[i];
        KM_D_STORE(first + r + 1 * DOUBLES, first_1);
        KM_D_STORE(second + r + 1 * DOUBLES, second_1);
        KM_PUT_LONGS(index, index_1);
        for (int i = 0; i < DOUBLES; i++) label[r + 1 * DOUBLES + i] = (int32_t)index[i];
    }
}

// cpu_sparse_kernels.add
static void km_sum(const cpu_sparse_sum *sum) {
    if (sum->index_bytes == 8 / 8) km_sum_8(sum);
    if (sum->index_bytes == 16 / 8) km_sum_16(sum);
    if (sum->index_bytes == 32 / 8) km_sum_32(sum);
}

// ... 10 definitions

const cpu_sparse_kernels km_sparse_lanes_avx2_float64 = {
    {2, sizeof(km_real)}, km_pass, km_scores, km_sum, km_chain, km_finish, km_square};

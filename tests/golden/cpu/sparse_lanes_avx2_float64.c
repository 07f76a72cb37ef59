// Of the text of prebuilt sparse_lanes avx2_float64: All
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 22 definitions

#define KM_INLINE KM_TARGET static inline __attribute__((always_inline))
// ... lines of a template
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
    ADDED_BYTES = 24 * 1024,        // ... while their sums are no more than this
    SUM_AHEAD = 4,                  // points between the one that is fetched and the one that joins a sum ...
    SUM_AHEAD_MOST = 256            // ... of which so many nonzeros are fetched
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
        // ... 1 more of 2 lines, other numbers: f2aac370
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
        // ... 2 more, other numbers: c245d7a4
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
            // ... 2 more, other numbers: ee213481
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        // ... 2 more of 2 lines, other numbers: 7cd94958
    }
}
// ... 1 more of 31 lines, other numbers: 454b6491
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
        // ... 4 more, other numbers: 1fdb5e39
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                // ... 2 more, other numbers: f7d37b75
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            // ... 4 more, other numbers: 673c3f24
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        // ... 4 more of 2 lines, other numbers: 59072d09
    }
}
// ... 7 more of 31 lines, other numbers: 4dbe72d1
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
        // ... 1 more of 2 lines, other numbers: f2aac370
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
        // ... 2 more, other numbers: c245d7a4
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
            // ... 2 more, other numbers: ee213481
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        // ... 2 more of 2 lines, other numbers: 7cd94958
    }
}
// ... 1 more of 31 lines, other numbers: 3271f658
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
        // ... 4 more, other numbers: 1fdb5e39
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                // ... 2 more, other numbers: f7d37b75
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            // ... 4 more, other numbers: 673c3f24
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        // ... 4 more of 2 lines, other numbers: 59072d09
    }
}
// ... 7 more of 31 lines, other numbers: 981f115e
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
        // ... 1 more of 2 lines, other numbers: f2aac370
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
        // ... 2 more, other numbers: c245d7a4
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
            // ... 2 more, other numbers: ee213481
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        // ... 2 more of 2 lines, other numbers: 7cd94958
    }
}
// ... 1 more of 31 lines, other numbers: f56ba6fd
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
        // ... 4 more, other numbers: 1fdb5e39
        double square = 0;
        for (int64_t at = starts[r], end = starts[r + 1]; at < end; at++) {
            const double *row = table + (int64_t)indices[at] * stride;
            square = fma((double)values[at], (double)values[at], square);
            const km_doubles x = KM_D_SPLAT((double)values[at]);
            if (is_large) {
                const char *ahead = (const char *)(table + (int64_t)indices[at + SPARSE_AHEAD] * stride);
                __builtin_prefetch(ahead + 0);
                // ... 2 more, other numbers: f7d37b75
            }
            s_0 = KM_D_FMA(x, KM_D_LOAD(row + 0 * DOUBLES), s_0);
            // ... 4 more, other numbers: 673c3f24
        }
        if (squares) squares[r] = square;
        KM_D_STORE(scores + 0 * DOUBLES,
                        KM_D_ADD(s_0, KM_D_LOAD(constants + 0 * DOUBLES)));
        // ... 4 more of 2 lines, other numbers: 59072d09
    }
}
// ... 7 more of 31 lines, other numbers: 08f59ed9
// By width of an index (1, 2 or 4 bytes), then number of vectors.
static const km_scores_double km_scores_of_double[3][PANEL_VECTORS] = {
    {
        km_scores_double_1_8,
        // ... 11 more, other numbers: 9ef35ab8
    },
    // ... 2 more of 4 lines, other numbers: 7bb67831
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
    // ... 1 more of 2 lines, other numbers: 63a8b79b
    if (!part->is_first) {
        first_0 = KM_LOAD(found->first + at + 0 * LANES);
        second_0 = KM_LOAD(found->second + at + 0 * LANES);
        memcpy(&index_0, found->label + at + 0 * LANES, sizeof index_0);
        // ... 1 more of 3 lines, other numbers: c7aa9509
    }
    const km_ints one = KM_INTS(1);
    km_ints j = KM_INTS((km_int)part->index);
    for (int64_t c = part->begin; c < part->end; c++) {
        const km_vec score_0 = KM_LOAD(scores + c * GROUP + 0 * LANES);
        KM_KEEP_NEAREST(first_0, second_0, index_0, score_0, j);
        // ... 1 more of 2 lines, other numbers: b1705366
        j = KM_INTS_ADD(j, one);
    }
    memcpy(found->label + at + 0 * LANES, &index_0, sizeof index_0);
    memcpy(found->label + at + 1 * LANES, &index_1, sizeof index_1);
    if (!part->is_last) {
        KM_STORE(found->first + at + 0 * LANES, first_0);
        KM_STORE(found->second + at + 0 * LANES, second_0);
        // ... 1 more of 2 lines, other numbers: 427be027
        return;
    }
    const km_vec norms = KM_SPLAT(norm), leasts = KM_SPLAT(least);
    const km_vec hidden_0 = KM_FMA(KM_LOAD(slack + 0 * LANES), norms, leasts);
    ambiguous |= KM_NOT_BELOW(KM_ADD(first_0, hidden_0), second_0) << (0 * LANES);
    // ... 1 more of 2 lines, other numbers: bee93075
    found->ambiguous[at / 64] |= ambiguous << at % 64;
}

// What rounding may hide of the difference of two scores of a row, for centroids of |c| = 1: 2 gamma(m + 2) |x|, with
// gamma(m) = m u / (1 - m u), u half a unit of a real's last place; and a little more, as it is rounded itself.
KM_INLINE void km_slacks(km_real *slack, const uint32_t *starts, const float *norms, int64_t count) {
    for (int64_t r = 0; r < count; r++) {
        const double rounding = (double)(starts[r + 1] - starts[r] + 2) * 0x1p-53;
        // ... lines of a template
                const double least = 2.001 * 0x1p-53 * norm * norm + (double)(chunk->d + 4) * 0x1p-1073;
                km_search(&found[s], g, by_column, &part, slack + g, (km_real)norm, (km_real)least);
            }
        }
    }
}

// ... 3 definitions

// The nearest centroid in double, the lowest index among equals: as km_cpu_finish_models has it.
KM_TARGET __attribute__((noinline)) static int64_t km_resolve_8(const cpu_sparse_chunk *chunk,
                                                                     int64_t row, int64_t column, int64_t k) {
    const uint8_t *indices = (const uint8_t *)chunk->rows.indices;
    // ... lines of a template
KM_TARGET static void km_move_8(const cpu_sparse_chunk *chunk, const km_cpu_slot *slot, int64_t first,
                                     const uint16_t *list, const int32_t *old, int64_t count,
                                     const km_int *label) {
    const uint8_t *indices = (const uint8_t *)chunk->rows.indices;
    // ... lines of a template
KM_INLINE void km_add_runs_8(const cpu_sparse_chunk *chunk, const added_run *of, const int runs,
                                  int64_t first, int64_t count) {
    const uint8_t *indices = (const uint8_t *)chunk->rows.indices;
    // ... lines of a template
KM_TARGET static void km_add_all_8(const cpu_sparse_chunk *chunk, const added_run *of, int runs,
                                        int64_t first, int64_t count) {
    if (runs == 4) km_add_runs_8(chunk, of, 4, first, count);
    // ... 3 more, other numbers: cba3e865
}

// cpu_sparse_kernels.add
KM_TARGET static void km_sum_8(const cpu_sparse_sum *of) {
    const uint8_t *indices = (const uint8_t *)of->indices;
    // ... lines of a template
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
        // ... 2 more of 2 lines, other numbers: 14b8fb06
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
    // ... lines of a template
            const int at = KM_FIRST_BIT(differ) / 8;
            list[changed] = (uint16_t)(from + at);
            old[changed++] = (int32_t)(uint8_t)(before >> KM_SHIFT(at, 8));
            differ &= ~((uint64_t)(uint8_t)-1 << KM_SHIFT(at, 8));
        }
    }
    return mode == KM_CPU_FIRST ? count : changed;
}

// ... 3 definitions
// ... lines of a template
    if (chunk->rows.index_bytes == 8 / 8) km_move_8(chunk, slot, first, list, old, changed, label);
    // ... 2 more, other numbers: 6b76e2f3
// ... lines of a template
            if (chunk->rows.index_bytes == 8 / 8) km_add_all_8(chunk, of, runs, first, count);
            // ... 2 more, other numbers: 4db2675b
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
        // ... 1 more of 2 lines, other numbers: 3cabb381
        for (int64_t from = 0; from < k; from += DOUBLES) {
            const int64_t here = k - from < DOUBLES ? k - from : DOUBLES;
            KM_TRANSPOSE_DOUBLES(by_column + 0 * DOUBLES, DOUBLE_GROUP,
                                 scores + (r + 0 * DOUBLES) * stride + from, stride);
            // ... 1 more of 2 lines, other numbers: 8069996a
            for (int64_t j = 0; j < here; j++) {
                const km_longs at = KM_LONGS(from + j);
                const km_doubles score_0 = KM_D_LOAD(by_column + j * DOUBLE_GROUP + 0 * DOUBLES);
                KM_KEEP_NEAREST(first_0, second_0, index_0, score_0, at);
                // ... 1 more of 2 lines, other numbers: eea292c3
            }
        }
        KM_D_STORE(first + r + 0 * DOUBLES, first_0);
        KM_D_STORE(second + r + 0 * DOUBLES, second_0);
        KM_PUT_LONGS(index, index_0);
        for (int i = 0; i < DOUBLES; i++) label[r + 0 * DOUBLES + i] = (int32_t)index[i];
        // ... 1 more of 4 lines, other numbers: 64d091ae
    }
}

// cpu_sparse_kernels.add
static void km_sum(const cpu_sparse_sum *sum) {
    if (sum->index_bytes == 8 / 8) km_sum_8(sum);
    // ... 2 more, other numbers: dcd9b949
}

// ... 10 definitions

const cpu_sparse_kernels km_sparse_lanes_avx2_float64 = {
    {2, sizeof(km_real)}, km_pass, km_scores, km_sum, km_chain, km_finish, km_square};

// Of the text of {features: 4, clusters: 2..8, type: float64, target: cpu:generic} weighted tracked: Head; Numbers and types; The pass; Seeding; The finishing pass; What a program takes
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 4 definitions

// ... 1 more of 2 lines, other numbers: a01b805c
typedef km_real km_vec __attribute__((vector_size(16)));
typedef km_int km_ints
    __attribute__((vector_size(16))); // as many integers as km_vec has reals, of their size
typedef km_real km_vec_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef km_int km_ints_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
#define KM_LOAD(from) (*(const km_vec_anywhere *)(const void *)(from))
#define KM_STORE(to, x) *(km_vec_anywhere *)(void *)(to) = x
#define KM_SPLAT(value) ((km_vec){value, value})
#define KM_INTS(value) ((km_ints){value, value})
// ... lines of a template
#define KM_STORE_WIDE(to, x) KM_STORE(to, x)
#define KM_LOAD_LABELS(from) ((km_ints){(from)[0], (from)[1]})
#define KM_D_ADD_WHERE(sum, where, from) sum += (km_doubles)((km_longs)KM_D_LOAD(from) & (where))
#define KM_SUM_INTS(x) ((x)[0] + (x)[1])
#define KM_LOAD_DOUBLES(from) KM_D_LOAD(from)
#define KM_SQRT(x) ((km_vec){sqrt((x)[0]), sqrt((x)[1])})
// ... lines of a template

// ... 3 definitions

// ... 1 definition

// Labels of VECTORS x LANES points: the centroid with the largest x . c - |c|^2 / 2, ties to the lowest index.
KM_TARGET static inline void km_nearest(km_index *labels, const km_real *points, const km_real *table,
                                        int64_t k) {
    km_vec best_0;
    km_ints index_0 = KM_INTS(0);
    // ... 3 more of 2 lines, other numbers: 28ecbfc5
    const km_real *row = table;
    km_ints j = KM_INTS(0);
    const km_ints one = KM_INTS(1);
    // The centroids that k leaves beside whole tiles go first. Centroid 0 starts as the best.
    const int64_t start = (k - 1) % TILE + 1;
    switch (start) {
        case 1: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 3 more, other numbers: db9cb357
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                // ... 3 more, other numbers: 8fec9dd1
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                // ... 3 more, other numbers: 98f1fc01
            }
            best_0 = s_0_0;
            // ... 3 more, other numbers: 2545ba20
            break;
        }
        case 2: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 7 more, other numbers: 5ad57fc7
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                // ... 3 more, other numbers: 8fec9dd1
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                // ... 1 more of 3 lines, other numbers: 2d3e135f
                // ... 3 more, other numbers: b51e819b
            }
            best_0 = s_0_0;
            // ... 3 more, other numbers: 2545ba20
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            // ... 3 more, other numbers: 9eb18092
            break;
        }
        case 3: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 11 more, other numbers: bc2fcffa
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                // ... 3 more, other numbers: 8fec9dd1
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                // ... 2 more of 3 lines, other numbers: bc141bda
                // ... 3 more, other numbers: bb7bfcb7
            }
            best_0 = s_0_0;
            // ... 3 more, other numbers: 2545ba20
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            // ... 1 more of 3 lines, other numbers: a0cc4db3
            // ... 3 more, other numbers: c6a2407e
            break;
        }
        default: {
            km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
            // ... 15 more, other numbers: c7d49cfd
            for (int f = 0; f < D; f++) {
                km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
                // ... 3 more, other numbers: 8fec9dd1
                const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
                s_0_0 = KM_FMA(x_0, c_0, s_0_0);
                // ... 3 more of 3 lines, other numbers: d253a8f0
                // ... 3 more, other numbers: 4d12b3b8
            }
            best_0 = s_0_0;
            // ... 3 more, other numbers: 2545ba20
            j = KM_INTS_ADD(j, one);
            KM_KEEP(best_0, index_0, s_1_0, j);
            // ... 2 more of 3 lines, other numbers: 1c4aa359
            // ... 3 more, other numbers: 0375c121
            break;
        }
    }
    for (int64_t done = start; done < k; done += TILE) {
        row = table + done * (D + 1);
        km_vec s_0_0 = KM_SPLAT(row[0 * (D + 1) + D]);
        // ... 15 more, other numbers: ff1483d5
        for (int f = 0; f < D; f++) {
            km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + 0 * LANES);
            // ... 3 more, other numbers: b7e91bd8
            const km_vec c_0 = KM_SPLAT(row[0 * (D + 1) + f]);
            s_0_0 = KM_FMA(x_0, c_0, s_0_0);
            // ... 3 more of 3 lines, other numbers: 34f9dea8
            // ... 3 more, other numbers: e4a0138c
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0_0, j);
        // ... 3 more, other numbers: 5cdb4f73
        // ... 3 more of 3 lines, other numbers: 5213780b
    }
    KM_PUT_LABELS_4(labels + 0 * LANES, index_0, index_1, index_2, index_3);
}

// ... 21 definitions

// ... 1 more of 2 lines, other numbers: d089a628
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
        // ... lines of a template
    }
}

// ... 6 definitions

// ... 1 definition

// Of the text of {features: 4, clusters: 3..5, target: cpu:avx2}: Head; Numbers and types; The pass; Seeding; The finishing pass; What a program takes
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 2 definitions

#ifndef KM_KERNELS_ONLY
// The linker knows the kernels by this name, so that several emitted files go into one program.
#define km_kernels lanes_avx2_kernels
#endif

// ... 1 definition

// ==== Numbers and types ====================================================================================
// What kernels are handed: the contract between them and who calls them, the host part of an emitted file or kmgen's
// engine. A slot is one K, and in kmgen one restart of it.
//
// Layout. Points are copied once, centred and scaled, into SoA groups of `soa_points` points: value f of point i of an
// SoA group lies at [f * soa_points + i]. The last SoA group is padded with zeros. A chunk is at most KM_CHUNK_POINTS
// points (65,536, a multiple of every soa_points). One thread works on it. "real" is the plan's type, float or double.
#ifndef KM_CPU_ABI
#define KM_CPU_ABI 10
#include <stdint.h>

// ... 4 definitions

// What the sums and old labels of a slot mean in this pass.
enum {
    KM_CPU_FIRST,  // labels hold nothing yet: every point is added, every point counts as changed
    KM_CPU_MOVE,   // a point whose label changed leaves the sums of the old centroid and joins those of the new one
    KM_CPU_REFRESH // the sums start again from zero: every point is added; changes are counted from the labels
};

// An active run. Others are not listed, and cost nothing.
typedef struct km_cpu_slot {
    int64_t k;
    int64_t k_index;   // of k in the plan's list
    const void *table; // reals, KM_CPU_TABLE_ROWS(k) rows: the d coordinates of centroid c, then -|c|^2 / 2
    void *labels;      // of the chunk's points, in whole SoA groups: 1 byte each (2 above K = 256, 4 above 65,536)
    double *sums;      // k rows of KM_CPU_PITCH(d): what this chunk adds; NULL: only labels are wanted
    int32_t mode;      // KM_CPU_FIRST, KM_CPU_MOVE or KM_CPU_REFRESH
    int32_t labels_bytes;
    int64_t changed;            // out: points whose label changed
    const int32_t *int16_table; // k rows of KM_CPU_INT16_ROW(d); NULL: no int16 scores
    // The rest only where there is an int16_table. The table by feature: d + 1 rows of KM_CPU_COLUMNS(k).
    const float *columns;
    int64_t margin;   // int16 scores (the high halves of 32-bit sums) that lie farther apart are ordered right
    int64_t resolved; // out: ambiguous points, which were scored again as floats
} km_cpu_slot;

// ... 1 definition

// One k-means++ chain inside a seeding pass.
typedef struct km_cpu_chain {
    void *
        nearest;            // reals, of the chunk's points, in whole SoA groups: |x - nearest pick|^2; infinity at first
    const void *chosen;     // reals, d: the last pick, not yet in `nearest`; NULL: there is none
    const void *candidates; // reals: candidates_count rows of d
    int64_t candidates_count;
    double *potentials; // out: sum over the chunk of w min(nearest, |x - candidate|^2), for each candidate
} km_cpu_chain;

// ... 1 definition

// The finishing pass of models over points of a chunk. d1 and d2 are the distances to the nearest and second-nearest
// centroid. Labels and d1^2 are bitwise the same on every backend: acc = fma(t, t, acc), t = x - c, in double, over
// features in index order.
enum {
    KM_CPU_SUM_WEIGHT,   // sum of w
    KM_CPU_SUM_COUNT,    // points
    KM_CPU_SUM_SSE,      // sum of w d1^2
    KM_CPU_SUM_DISTANCE, // sum of w d1, or distances to `means`; here and below d1 and d2 may have the plan's type
    KM_CPU_SUM_MARGIN,   // sum of w (d2 - d1) / d2, 0 where d2 = 0 or k = 1
    KM_CPU_SUMS
};

// ... 4 definitions

#endif
#include <math.h>
#include <stddef.h>
#include <string.h>

typedef float km_real;
typedef int32_t km_int;   // an integer of a real's size
typedef uint8_t km_index; // a label while it is worked on

// ... 1 definition

enum {
    D = 4,           // features
    LANES = 8,       // reals of a vector
    VECTORS = 4,     // vectors of points worked on at a time
    SOA_POINTS = 64, // points of an SoA group
    TILE = 1,        // centroids worked on at a time
        SPAN = 8,    // SoA groups that stay in the cache while every slot works on them
    PITCH = KM_CPU_PITCH(D),
    ROW = KM_ROW(D)
};

// Vector operations of AVX2 with FMA. Macros, because vectors are not handed to functions by value: the file must
// compile without options that name the instruction set.
#include <immintrin.h>
#define KM_TARGET __attribute__((target("avx2,fma")))

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+x"(x))
typedef __m256i km_ints; // as many integers as km_vec has reals, of their size
// ... lines of a template
// A bit for each of 64 bytes that differ.
#define KM_HALF_EQUAL(a, b)                                                                                  \
    (uint32_t)                                                                                               \
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(a)),       \
                                               _mm256_loadu_si256((const __m256i *)(const void *)(b))))
#define KM_DIFFER(a, b) ~(KM_HALF_EQUAL(a, b) | (uint64_t)KM_HALF_EQUAL((a) + 32, (b) + 32) << 32)

// ... 4 definitions

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
    best_0 = KM_SPLAT(row[D]);
    // ... 3 more, other numbers: 26f5e129
    for (int f = 0; f < D; f++) {
        const km_vec c = KM_SPLAT(row[f]);
        best_0 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 0 * LANES), c, best_0);
        // ... 3 more, other numbers: 2588f91d
    }
    for (int64_t done = 1; done < k; done++) {
        row += D + 1;
        km_vec s_0 = KM_SPLAT(row[D]);
        // ... 3 more, other numbers: 2ef9ef08
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            s_0 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 0 * LANES), c, s_0);
            // ... 3 more, other numbers: 4308e010
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0, j);
        // ... 3 more, other numbers: 64522800
    }
    KM_PUT_LABELS_4(labels + 0 * LANES, index_0, index_1, index_2, index_3);
}

// ... 3 definitions

// A bit for each point of an SoA group whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old) {
    return KM_DIFFER(labels, old);
}

// ... 2 definitions

// A span, and what all slots share of it.
typedef struct km_lanes_span {
    int64_t first, end;            // of the chunk's points
    const char *ahead, *ahead_end; // points of the next span that are not prefetched yet
    int64_t ahead_step;            // bytes of them to prefetch at a time
    int has_rows;                  // `rows` has all points; else listed ones
    int64_t rows_one_by_one;       // listed points that became rows so far
    double rows[SPAN * SOA_POINTS * ROW]
        __attribute__((aligned(64))); // what a point adds to sums: x, then ones
} km_lanes_span;

// ... 2 definitions

// Makes a row of a point's coordinates.
KM_TARGET static inline void km_row(double *row, const km_real *point) {
    int f = 0;
    // ... lines of a template
        for (int i = 0; i < SOA_POINTS; i++) km_row(rows + i * ROW, points + i);
    }
}

// ... 1 definition

// Adds a point to sums.
KM_TARGET static inline void km_add(double *sums, const double *row) {
    int f = 0;
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) += *(const km_quad *)(row + f);
    km_add_rest(sums, 1);
}

// Subtracts a point from sums.
KM_TARGET static inline void km_subtract(double *sums, const double *row) {
    int f = 0;
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) -= *(const km_quad *)(row + f);
    km_add_rest(sums, -1);
}

// ... 4 definitions

// Decides what to prefetch while all slots work on a span.
static void km_fetch_start(km_lanes_span *span, const km_cpu_chunk *chunk) {
    const int64_t next = span->first + SPAN * SOA_POINTS;
    const int64_t turns = chunk->slots_count * SPAN;
    // ... lines of a template
    for (int64_t base = 0; base < count; base += SOA_POINTS) {
        km_fetch_ahead(span);
        for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES)
            km_nearest(labels + base + i, points + base * D + i, (const km_real *)slot->table, slot->k);
    }
    for (int64_t base = 0; base < count; base += SOA_POINTS) {
        uint64_t changed = ~(uint64_t)0 >> (count - base < SOA_POINTS ? SOA_POINTS - (count - base) : 0);
        if (slot->mode != KM_CPU_FIRST) {
            km_labels_get(old + base, slot, span->first + base);
            changed &= km_changes(labels + base, old + base);
        }
        if (!changed) continue;
        slot->changed += __builtin_popcountll(changed);
        km_labels_put(slot, span->first + base, labels + base);
        if (moves) listed = km_list_bits(list, listed, changed, base);
    }
    if (listed) km_move(slot->sums, span, chunk, list, listed, labels, old);
}

KM_TARGET static void km_pass(const km_cpu_chunk *chunk) {
    km_lanes_span span;
    km_cpu_slot *together[SLOTS_TOGETHER];
    km_rows_clear(&span);
    for (int64_t s = 0; s < chunk->slots_count; s++) chunk->slots[s].changed = chunk->slots[s].resolved = 0;
    for (int64_t first = 0; first < chunk->points_count; first += SPAN * SOA_POINTS) {
        int count = 0;
        span.first = first;
        span.end =
            first + SPAN * SOA_POINTS < chunk->points_count ? first + SPAN * SOA_POINTS : chunk->points_count;
        span.has_rows = 0;
        span.rows_one_by_one = 0;
        km_fetch_start(&span, chunk);
        for (int64_t s = 0; s < chunk->slots_count; s++) {
            km_cpu_slot *slot = &chunk->slots[s];
            km_slot_span(slot, chunk, &span);
            if (slot->mode != KM_CPU_MOVE && slot->sums) {
                together[count++] = slot;
            }
            if (count == SLOTS_TOGETHER || (count && s + 1 == chunk->slots_count)) {
                km_add_span(together, count, chunk, &span);
                count = 0;
            }
        }
    }
}

// ... 1 definition

enum { SEED_SPAN = 768 }; // points that stay in the first cache for all chains

// Squared distances of an SoA group to one row.
KM_TARGET static void km_distances(km_real *out, const km_real *points, const km_real *row) {
    for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES) {
        km_vec sum_0 = KM_SPLAT(0);
        // ... 3 more, other numbers: b667b146
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            const km_vec t_0 = KM_SUB(KM_LOAD(points + f * SOA_POINTS + i + 0 * LANES), c);
            sum_0 = KM_FMA(t_0, t_0, sum_0);
            // ... 3 more of 2 lines, other numbers: 5dadc3a2
        }
        KM_STORE(out + i + 0 * LANES, sum_0);
        // ... 3 more, other numbers: 03579bfe
    }
}

// ... 1 definition

// What the sum becomes with each of two candidates, over whole SoA groups. Two at a time, as their additions need not
// wait for each other.
KM_TARGET static void km_potentials(double *sums, const km_real *points, const km_real *nearest,
                                    const double *weights, int64_t count, const km_real *row_0,
                                    const km_real *row_1) {
    km_real least_0[SOA_POINTS], least_1[SOA_POINTS];
    double lanes[DOUBLES];
    km_doubles even_0 = KM_D_SPLAT(0), odd_0 = even_0;
    km_doubles even_1 = KM_D_SPLAT(0), odd_1 = even_1;
    for (int64_t base = 0; base < count; base += SOA_POINTS, points += SOA_POINTS * D) {
        for (int i = 0; i < SOA_POINTS; i += VECTORS * LANES) {
            km_vec sum_0_0 = KM_SPLAT(0);
            // ... 7 more, other numbers: f5ce4705
            for (int f = 0; f < D; f++) {
                const km_vec c_0 = KM_SPLAT(row_0[f]);
                const km_vec c_1 = KM_SPLAT(row_1[f]);
                const km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + i + 0 * LANES);
                const km_vec t_0_0 = KM_SUB(x_0, c_0);
                sum_0_0 = KM_FMA(t_0_0, t_0_0, sum_0_0);
                // ... 1 more of 2 lines, other numbers: 60f593d7
                // ... 3 more of 4 lines, other numbers: 43a7ceca
            }
            const km_vec nearest_0 = KM_LOAD(nearest + base + i + 0 * LANES);
            KM_STORE(least_0 + i + 0 * LANES, KM_MIN(sum_0_0, nearest_0));
            KM_STORE(least_1 + i + 0 * LANES, KM_MIN(sum_1_0, nearest_0));
            // ... 3 more of 3 lines, other numbers: 3637e101
        }
        for (int i = 0; i < SOA_POINTS; i += 2 * DOUBLES) {
            if (weights) {
                const km_doubles v = KM_D_LOAD(weights + base + i),
                                 w = KM_D_LOAD(weights + base + i + DOUBLES);
                even_0 = KM_D_FMA(KM_LOAD_DOUBLES(least_0 + i), v, even_0);
                odd_0 = KM_D_FMA(KM_LOAD_DOUBLES(least_0 + i + DOUBLES), w, odd_0);
                // ... 1 more of 2 lines, other numbers: 31c55c96
            } else {
                even_0 = KM_D_ADD(KM_LOAD_DOUBLES(least_0 + i), even_0);
                odd_0 = KM_D_ADD(KM_LOAD_DOUBLES(least_0 + i + DOUBLES), odd_0);
                // ... 1 more of 2 lines, other numbers: 437f425c
            }
        }
    }
    sums[0] = 0;
    KM_D_STORE(lanes, KM_D_ADD(even_0, odd_0));
    for (int i = 0; i < DOUBLES; i++) sums[0] += lanes[i];
    // ... 1 more of 3 lines, other numbers: c6b5507b
}

// ... 2 definitions

KM_TARGET static void km_seed(const km_cpu_seeding *seeding) {
    for (int64_t c = 0; c < seeding->chains_count; c++)
        for (int64_t a = 0; a < seeding->chains[c].candidates_count; a++)
            seeding->chains[c].potentials[a] = 0;
    for (int64_t first = 0; first < seeding->points_count; first += SEED_SPAN) {
        int64_t count = seeding->points_count - first;
        if (count > SEED_SPAN) count = SEED_SPAN;
        for (int64_t c = 0; c < seeding->chains_count; c++)
            km_seed_span(&seeding->chains[c], seeding, first, count);
    }
}
// ==== The finishing pass ===================================================================================
// The finishing pass: labels as double arithmetic gives them, and the sums that criteria ask for.
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Points
// whose second-nearest centroid is no farther than that beyond the nearest are ambiguous, and are resolved in double.
// Squared distances are summed in double, from the stored values; distances and margins are float.
enum {
    FINISH_TILE = 2,        // centroids at a time, each with two vectors
    FINISH_SPAN = 512,      // points of a span, which stays in the first cache for all models
    FINISH_ROW = 4,         // doubles of a point or centroid: D, then zeros to whole vectors
    PAIR_POINTS = 2 * LANES // points of two vectors
};

// A span, and what is known of its points.
typedef struct km_finish_span {
    int64_t first, count;                  // of the chunk's points
    int64_t rows_count;                    // points that `rows` holds
    double rows[FINISH_SPAN * FINISH_ROW]; // coordinates side by side
    int32_t labels[FINISH_SPAN];           // -1 after the last point, up to a whole vector
    double squares[FINISH_SPAN], distances[FINISH_SPAN],
        margins[FINISH_SPAN]; // d1^2, d1, (d2 - d1) / d2
} km_finish_span;

// ... 2 definitions

// ... lines of a template
        km_vec a_0 = KM_SPLAT(0), b_0 = a_0;
        km_vec a_1 = KM_SPLAT(0), b_1 = a_1;
        for (int f = 0; f < D; f++) {
            const km_vec x = KM_LOAD(points + f * SOA_POINTS), y = KM_LOAD(points + f * SOA_POINTS + LANES);
            const km_vec c_0 = KM_SPLAT(rows[0 * (D + 1) + f]);
            const km_vec t_0 = KM_SUB(x, c_0), u_0 = KM_SUB(y, c_0);
            a_0 = KM_FMA(t_0, t_0, a_0);
            b_0 = KM_FMA(u_0, u_0, b_0);
            // ... 1 more of 4 lines, other numbers: 59471431
        }
        const km_ints j_0 = KM_INTS((int32_t)from + 0);
        KM_F_KEEP_NEAREST(first_0, second_0, index_0, a_0, j_0);
        KM_F_KEEP_NEAREST(first_1, second_1, index_1, b_0, j_0);
        // ... 1 more of 3 lines, other numbers: fd4d5ccd
    // ... lines of a template
// Labels of a span, and the distances and margins that are summed.
KM_TARGET static void km_finish_assign(km_finish_span *span, const km_cpu_finish *finish,
                                       const km_cpu_finish_model *model) {
    for (int64_t at = 0; at < span->count; at += PAIR_POINTS) {
        km_real nearest[PAIR_POINTS], next[PAIR_POINTS];
        int32_t *labels = span->labels + at;
        if (model->k == 1 || model->squares ||
            km_finish_fast(labels, nearest, next, finish, model, span->first + at))
            km_finish_resolve(labels, nearest, next, finish, model, span->first + at);
        for (int i = 0; i < PAIR_POINTS; i += LANES) {
            const km_vec first = KM_LOAD(nearest + i);
            const km_vec second =
                KM_LOAD((model->k > 1 ? next : nearest) + i); // a single centroid has no margin
            const km_vec d1 = KM_SQRT(first), d2 = KM_SQRT(second);
            const km_vec margin = KM_QUOTIENT(KM_SUB(d2, d1), d2);
            KM_STORE_WIDE(span->distances + at + i, d1);
            KM_STORE_WIDE(span->margins + at + i, margin);
        }
    }
}

// ... 1 definition

// Squared distances of a span to any number of rows by label, point by point.
KM_TARGET static void km_finish_squares(double *out, km_finish_span *span, const km_cpu_finish *finish,
                                        const double *rows) {
    if (!span->rows_count) km_finish_rows(span, finish);
    for (int64_t i = 0; i < span->count; i++) {
        const double *c = rows + span->labels[i] * (int64_t)FINISH_ROW;
        const double *x = span->rows + i * FINISH_ROW;
        km_doubles squares = KM_D_SPLAT(0);
        double lanes[DOUBLES], square = 0;
        for (int f = 0; f < FINISH_ROW; f += DOUBLES) {
            const km_doubles t = KM_D_SUB(KM_D_LOAD(x + f), KM_D_LOAD(c + f));
            squares = KM_D_FMA(t, t, squares);
        }
        KM_D_STORE(lanes, squares);
        for (int l = 0; l < DOUBLES; l++) square += lanes[l];
        out[i] = square;
    }
}

// Distances of a span to the means by label, in the place of those to the centroids.
KM_TARGET static void km_finish_mean_distances(km_finish_span *span, const km_cpu_finish *finish,
                                               const km_cpu_finish_model *model) {
    km_finish_squares(span->distances, span, finish, model->means);
    for (int64_t at = 0; at < span->count; at += LANES) {
        km_real rounded[LANES];
        for (int i = 0; i < LANES; i++)
            rounded[i] = at + i < span->count ? (km_real)span->distances[at + i] : 0;
        KM_STORE_WIDE(span->distances + at, KM_SQRT(KM_LOAD(rounded)));
    }
}

// Sums of a span for clusters from .. from + 2 - 1: each adds the points that have its label.
KM_TARGET static void km_finish_sums_2(const km_finish_span *span, const km_cpu_finish_model *model,
                                          int64_t from) {
    km_doubles square_0 = KM_D_SPLAT(0), near_0 = square_0;
    km_doubles margin_0 = square_0;
    km_ints count_0 = KM_INTS(0);
    const km_ints j_0 = KM_INTS((int32_t)from + 0);
    // ... 1 more of 4 lines, other numbers: 75111f23
    for (int64_t at = 0; at < span->count; at += LANES) {
        const km_ints labels = KM_LOAD_LABELS(span->labels + at);
        const km_mask own_0 = KM_EQUAL(labels, j_0);
        KM_D_ADD_WHERE(square_0, own_0, span->squares + at);
        KM_COUNT_WHERE(count_0, own_0);
        KM_D_ADD_WHERE(near_0, own_0, span->distances + at);
        KM_D_ADD_WHERE(margin_0, own_0, span->margins + at);
        // ... 1 more of 5 lines, other numbers: 65648037
    }
    if (from + 0 < model->k) {
        double *sum = model->sums + (from + 0) * KM_CPU_SUMS;
        const double count = (double)KM_SUM_INTS(count_0);
        sum[KM_CPU_SUM_WEIGHT] += count;
        sum[KM_CPU_SUM_COUNT] += count;
        sum[KM_CPU_SUM_SSE] += KM_D_SUM(square_0);
        sum[KM_CPU_SUM_DISTANCE] += KM_D_SUM(near_0);
        sum[KM_CPU_SUM_MARGIN] += KM_D_SUM(margin_0);
    }
    // ... 1 more of 9 lines, other numbers: ea594168
}

KM_TARGET static void km_finish_sums_few(km_finish_span *span, const km_cpu_finish_model *model) {
    int64_t from = 0;
    for (int64_t i = span->count; i % LANES; i++) span->labels[i] = -1;
    // ... lines of a template
        sum[KM_CPU_SUM_DISTANCE] += weight * span->distances[i];
        sum[KM_CPU_SUM_MARGIN] += weight * span->margins[i];
    }
}

// Sums of a span, whose labels and distances are known.
KM_TARGET static void km_finish_sum(km_finish_span *span, const km_cpu_finish *finish,
                                    const km_cpu_finish_model *model) {
    if (model->means) km_finish_mean_distances(span, finish, model);
    km_finish_squares(span->squares, span, finish, model->centroids);
    if (model->k <= KM_CPU_FEW_CLUSTERS && !finish->weights)
        km_finish_sums_few(span, model);
    else
        km_finish_sums_many(span, model, finish->weights ? finish->weights + span->first : NULL);
}

KM_TARGET static void km_finish(const km_cpu_finish *finish) {
    km_finish_span span;
    memset(span.rows, 0, sizeof span.rows);
    for (span.first = 0; span.first < finish->points_count; span.first += FINISH_SPAN) {
        span.count = finish->points_count - span.first;
        if (span.count > FINISH_SPAN) span.count = FINISH_SPAN;
        span.rows_count = 0;
        for (int64_t m = 0; m < finish->models_count; m++) {
            const km_cpu_finish_model *model = &finish->models[m];
            km_finish_assign(&span, finish, model);
            if (model->labels)
                memcpy(model->labels + span.first, span.labels, (size_t)span.count * sizeof *span.labels);
            if (model->sums) km_finish_sum(&span, finish, model);
        }
    }
}
// ==== What a program takes =================================================================================
// The engine looks for this symbol, whatever the spec is called and lists.
#ifdef __cplusplus
extern "C"
#endif
    const km_cpu_kernels km_kernels = {
        KM_CPU_ABI,           sizeof(km_real),    2,          256,  D, D,  SOA_POINTS,
        4, 0, 0, km_pass, km_seed,  km_finish};

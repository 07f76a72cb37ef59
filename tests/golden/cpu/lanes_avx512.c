// Of the text of {features: 4, clusters: 3..5, target: cpu:avx512}: Numbers and types; The pass; Seeding; The finishing pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 19 definitions

// Vector operations of AVX-512. Macros, because vectors are not handed to functions by value: the file must compile
// without options that name the instruction set.
#include <immintrin.h>
#define KM_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+v"(x))
// Some headers fill unmasked forms with an undefined vector, and warn of it: a full mask gives the same instruction.
typedef __m512i km_ints; // as many integers as km_vec has reals, of their size
// ... lines of a template
// Stores the indices of two vectors, or of four, as labels of a byte. Four of floats are stored at once, so that they
// may be loaded at once.
#define KM_BYTES(x) _mm512_maskz_cvtepi32_epi8((__mmask16)-1, x)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm512_storeu_si512(                                                                                     \
        (void *)(to),                                                                                        \
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_inserti128_si256(                                   \
                               _mm256_castsi128_si256(KM_BYTES(a)), KM_BYTES(b), 1)),                        \
                           _mm256_inserti128_si256(_mm256_castsi128_si256(KM_BYTES(c)), KM_BYTES(d), 1), 1))
// ... lines of a template
// ... lines of a template
typedef __m512i km_longs;
#define KM_LONGS(value) _mm512_set1_epi64(value)
#define KM_PUT_LONGS(to, x) _mm512_storeu_si512((void *)(to), x)
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_KEEP_NEAREST(first, second, index, square, j)                                                     \
    index = _mm512_mask_mov_epi64(index, _mm512_cmp_pd_mask(square, first, _CMP_LT_OQ), j);                  \
    second = _mm512_maskz_min_pd((__mmask8)-1, second, _mm512_maskz_max_pd((__mmask8)-1, square, first));    \
    first = _mm512_maskz_min_pd((__mmask8)-1, square, first)

// ... 3 definitions

// ... 1 more of 2 lines, other numbers: d089a628
// A span, and what all slots share of it.
typedef struct km_lanes_span {
    int64_t first, end;            // of the chunk's points
    const char *ahead, *ahead_end; // points of the next span that are not prefetched yet
    int64_t ahead_step;            // bytes of them to prefetch at a time
    int has_rows;                  // `rows` has all points; else listed ones
    int64_t rows_one_by_one;       // listed points that became rows so far
    double rows[SPAN * SOA_POINTS * ROW]
        __attribute__((aligned(64))); // what a point adds to sums: x, then ones
    int has_doubles;
    double doubles[SPAN * SOA_POINTS * D] __attribute__((aligned(64))); // the points
} km_lanes_span;

// ... 2 definitions

// Makes a row of a point's coordinates.
KM_TARGET static inline void km_row(double *row, const km_real *point) {
    int f = 0;
    for (; f + 8 <= D; f += 8, point += 8 * SOA_POINTS) KM_D_STORE(row + f, KM_D_GATHER(point));
    // ... lines of a template
        if (ROW % 8 == 0) {
            for (int i = 0; i < SOA_POINTS; i += 8)
                for (int f = 0; f < ROW; f += 8)
                    KM_D_TRANSPOSE(rows + i * ROW + f, points + f * SOA_POINTS + i, D - f);
            continue;
        }
        for (int i = 0; i < SOA_POINTS; i++) km_row(rows + i * ROW, points + i);
    }
}

// ... 1 definition

// Adds a point to sums.
KM_TARGET static inline void km_add(double *sums, const double *row) {
    int f = 0;
    for (; f + 8 <= ROW; f += 8) KM_D_STORE(sums + f, KM_D_ADD(KM_D_LOAD(sums + f), KM_D_LOAD(row + f)));
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) += *(const km_quad *)(row + f);
    km_add_rest(sums, 1);
}

// Subtracts a point from sums.
KM_TARGET static inline void km_subtract(double *sums, const double *row) {
    int f = 0;
    for (; f + 8 <= ROW; f += 8) KM_D_STORE(sums + f, KM_D_SUB(KM_D_LOAD(sums + f), KM_D_LOAD(row + f)));
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) -= *(const km_quad *)(row + f);
    km_add_rest(sums, -1);
}

// ... 4 definitions

enum { MASKED_SUMS_K_MAX = 5 }; // clusters up to which it pays

// Adds the points of one cluster. x: whole SoA soa_groups; own: for each of them a mask of the cluster's points.
KM_TARGET static inline void km_masked_add(double *sums, const double *x, const uint64_t *own,
                                           int64_t soa_groups) {
    km_doubles sum_0 = KM_D_SPLAT(0);
    // ... 3 more, other numbers: 07550315
    for (int64_t g = 0; g < soa_groups; g++, x += SOA_POINTS * D) {
        uint64_t bits = own[g];
        for (int i = 0; i < SOA_POINTS; i += DOUBLES, bits >>= DOUBLES) {
            KM_D_ADD_OWN(sum_0, bits, x + 0 * SOA_POINTS + i);
            // ... 3 more, other numbers: c32f5b13
        }
    }
    sums[0] += KM_D_SUM(sum_0);
    // ... 3 more, other numbers: 629af54a
}

// ... 2 definitions

// Adds all points of a span to the sums of one slot that has few clusters.
KM_TARGET static void km_add_masked(const km_cpu_slot *slot, const km_cpu_chunk *chunk, km_lanes_span *span) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const int64_t count = span->end - span->first;
    const km_index *labels = (const km_index *)slot->labels + span->first;
    if (!span->has_doubles) km_masked_points(span->doubles, points, (count + SOA_POINTS - 1) / SOA_POINTS);
    span->has_doubles = 1;
    km_masked_sums(slot->sums, span->doubles, labels, count, slot->k);
}

// ... 3 definitions

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
        span.has_doubles = 0;
        km_fetch_start(&span, chunk);
        for (int64_t s = 0; s < chunk->slots_count; s++) {
            km_cpu_slot *slot = &chunk->slots[s];
            km_slot_span(slot, chunk, &span);
            if (slot->mode != KM_CPU_MOVE && slot->sums) {
                if (slot->k <= MASKED_SUMS_K_MAX && !chunk->weights)
                    km_add_masked(slot, chunk, &span);
                else
                    together[count++] = slot;
            }
            if (count == SLOTS_TOGETHER || (count && s + 1 == chunk->slots_count)) {
                km_add_span(together, count, chunk, &span);
                count = 0;
            }
        }
    }
}

// ... 8 definitions

// ==== The finishing pass ===================================================================================
// The finishing pass: labels as double arithmetic gives them, and the sums that criteria ask for.
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Points
// whose second-nearest centroid is no farther than that beyond the nearest are ambiguous, and are resolved in double.
// Squared distances are summed in double, from the stored values; distances and margins are float.
enum {
    FINISH_TILE = 4,        // centroids at a time, each with two vectors
    FINISH_SPAN = 256,      // points of a span, which stays in the first cache for all models
    FINISH_ROW = 8,         // doubles of a point or centroid: D, then zeros to whole vectors
    MARGIN_SCALE = 1 << 25, // of margins as integers: 32 bits hold the sum of a span's margins in a lane
    PAIR_POINTS = 2 * LANES // points of two vectors
};

// A span, and what is known of its points.
typedef struct km_finish_span {
    int64_t first, count;                  // of the chunk's points
    int64_t rows_count;                    // points that `rows` holds
    double rows[FINISH_SPAN * FINISH_ROW]; // coordinates side by side
    int32_t labels[FINISH_SPAN];           // -1 after the last point, up to a whole vector
    double squares[FINISH_SPAN];           // d1^2
    km_real distances[FINISH_SPAN];        // d1
    km_int margins[FINISH_SPAN];           // (d2 - d1) / d2 in steps of 1 / MARGIN_SCALE
} km_finish_span;

// ... 3 definitions

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
            const km_vec inverse = KM_INVERSE_ROOT(second), d1 = KM_MUL(first, KM_INVERSE_ROOT(first));
            const km_vec margin = KM_MUL(KM_SUB(KM_MUL(second, inverse), d1), inverse);
            KM_STORE(span->distances + at + i, d1);
            KM_PUT_INTS(span->margins + at + i, KM_ROUND(KM_MUL(margin, KM_SPLAT(MARGIN_SCALE))));
        }
    }
}

// ... 5 definitions

// Distances of a span to the means by label, in the place of those to the centroids.
KM_TARGET static void km_finish_mean_distances(km_finish_span *span, const km_cpu_finish *finish,
                                               const km_cpu_finish_model *model) {
    if (model->k <= KM_CPU_FEW_CLUSTERS)
        km_finish_squares_few(span, finish, model->mean_columns);
    else
        km_finish_squares(span->squares, span, finish, model->means);
    km_finish_distances(span);
}

// ... 1 definition

// Sums of a span for clusters from .. from + 4 - 1: each adds the points that have its label.
KM_TARGET static void km_finish_sums_4(const km_finish_span *span, const km_cpu_finish_model *model,
                                          int64_t from) {
    km_doubles square_0 = KM_D_SPLAT(0), near_0 = square_0;
    km_ints margin_0 = KM_INTS(0);
    uint16_t points_0[FINISH_SPAN / LANES]; // a bit for each
    const km_ints j_0 = KM_INTS((int32_t)from + 0);
    // ... 3 more of 4 lines, other numbers: 74a3f600
    for (int64_t at = 0; at < span->count; at += LANES) {
        const km_ints labels = KM_LOAD_LABELS(span->labels + at);
        const km_doubles low = KM_LOAD_DOUBLES(span->distances + at),
                         high = KM_LOAD_DOUBLES(span->distances + at + DOUBLES);
        const km_ints margins = KM_LOAD_INTS(span->margins + at);
        const km_mask own_0 = KM_EQUAL(labels, j_0);
        KM_D_ADD_WHERE(square_0, own_0, span->squares + at);
        points_0[at / LANES] = own_0;
        KM_D_ADD_BOTH(near_0, own_0, low, high);
        KM_ADD_INTS_WHERE(margin_0, own_0, margins);
        // ... 3 more of 5 lines, other numbers: 2eca3d0b
    }
    if (from + 0 < model->k) {
        double *sum = model->sums + (from + 0) * KM_CPU_SUMS;
        const double count = (double)km_count_bits(points_0, span->count);
        sum[KM_CPU_SUM_WEIGHT] += count;
        sum[KM_CPU_SUM_COUNT] += count;
        sum[KM_CPU_SUM_SSE] += KM_D_SUM(square_0);
        sum[KM_CPU_SUM_DISTANCE] += KM_D_SUM(near_0);
        sum[KM_CPU_SUM_MARGIN] += KM_SUM_WIDE(margin_0) / MARGIN_SCALE;
    }
    // ... 3 more of 9 lines, other numbers: a667bc1a
}

// ... 2 definitions

KM_TARGET static void km_finish_sums_few(km_finish_span *span, const km_cpu_finish_model *model) {
    int64_t from = 0;
    for (int64_t i = span->count; i % LANES; i++) span->labels[i] = -1;
    // Three where they leave an even number.
    if (model->k % 2 == 1 && model->k > 1) {
        km_finish_sums_3(span, model, from);
        from = 3;
    }
    for (; model->k - from > 2; from += 4) km_finish_sums_4(span, model, from);
    // ... lines of a template
        sum[KM_CPU_SUM_DISTANCE] += weight * (double)span->distances[i];
        sum[KM_CPU_SUM_MARGIN] += weight * ((double)span->margins[i] / MARGIN_SCALE);
    }
}

// Sums of a span, whose labels and distances are known.
KM_TARGET static void km_finish_sum(km_finish_span *span, const km_cpu_finish *finish,
                                    const km_cpu_finish_model *model) {
    if (model->means) km_finish_mean_distances(span, finish, model);
    if (model->k <= KM_CPU_FEW_CLUSTERS)
        km_finish_squares_few(span, finish, model->columns);
    else
        km_finish_squares(span->squares, span, finish, model->centroids);
    if (model->k == 1 && !model->means) km_finish_distances(span);
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
            if (model->k == 1 && model->sums && !model->squares) { // all points are its own
                memset(span.labels, 0, sizeof span.labels);
                memset(span.margins, 0, sizeof span.margins);
            } else {
                km_finish_assign(&span, finish, model);
            }
            if (model->labels) km_finish_labels(model->labels + span.first, span.labels, span.count);
            if (model->sums) km_finish_sum(&span, finish, model);
        }
    }
    KM_STREAM_END;
}

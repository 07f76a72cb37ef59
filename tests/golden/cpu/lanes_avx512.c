// Of the text of {features: 4, clusters: 3..5, target: cpu:avx512}: Numbers and types; The pass; Seeding; The finishing pass
// "..." stands for what a template or an earlier part shows.

// ... 19 definitions

// Vector operations of AVX-512. Macros, because vectors are not handed to functions by value: the file must compile
// without options that name the instruction set.
#include <immintrin.h>
#define KM_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))

// Keeps a loaded value in a register: compilers would load it again for each use.
#define KM_PIN(x) __asm__("" : "+v"(x))
// Some headers fill unmasked forms with an undefined vector, and warn of it: a full mask gives the same instruction.
typedef __m512i km_ints; // as many integers as km_vec has reals, of their size
typedef __m512 km_vec;
#define KM_LOAD(from) _mm512_loadu_ps(from)
#define KM_STORE(to, x) _mm512_storeu_ps(to, x)
#define KM_SPLAT(value) _mm512_set1_ps(value)
#define KM_ADD(a, b) _mm512_add_ps(a, b)
#define KM_SUB(a, b) _mm512_sub_ps(a, b)
#define KM_MUL(a, b) _mm512_mul_ps(a, b)
#define KM_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define KM_MIN(a, b) _mm512_maskz_min_ps((__mmask16)-1, a, b)
#define KM_INTS(value) _mm512_set1_epi32(value)
#define KM_INTS_ADD(a, b) _mm512_add_epi32(a, b)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm512_mask_mov_epi32(index, _mm512_cmp_ps_mask(score, best, _CMP_GT_OQ), j);                    \
    best = _mm512_maskz_max_ps((__mmask16)-1, score, best)
#define KM_LOAD_INTS(from) _mm512_loadu_si512((const void *)(from))
#define KM_PUT_INTS(to, index) _mm512_storeu_si512((void *)(to), index)
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    _mm_storeu_si128((__m128i *)(void *)(to), _mm512_maskz_cvtepi32_epi8((__mmask16)-1, a));                 \
    _mm_storeu_si128((__m128i *)(void *)((to) + LANES), _mm512_maskz_cvtepi32_epi8((__mmask16)-1, b))
#define KM_LOAD_DOUBLES(from) _mm512_maskz_cvtps_pd((__mmask8)-1, _mm256_loadu_ps(from))
#define KM_D_GATHER(from) _mm512_maskz_cvtps_pd((__mmask8)-1, _mm256_i32gather_ps(from, KM_SOA_OFFSETS, 4))
// 1 / sqrt(x), 0 where squares underflow. The instruction gives 14 bits, and a step of Newton the rest: a fifth
// of the time of a root and a division.
#define KM_INVERSE_ROOT(x) km_inverse_root(x)
KM_TARGET static inline __m512 km_inverse_root(__m512 x) {
    const __m512 rough =
        _mm512_maskz_rsqrt14_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(1e-37f), _CMP_GT_OQ), x);
    const __m512 rest = _mm512_fnmadd_ps(_mm512_mul_ps(x, rough), rough, _mm512_set1_ps(1));
    return _mm512_fmadd_ps(_mm512_mul_ps(rough, _mm512_set1_ps(0.5f)), rest, rough);
}
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_F_KEEP_NEAREST(first, second, index, square, j)                                                   \
    index = _mm512_mask_mov_epi32(index, _mm512_cmp_ps_mask(square, first, _CMP_LT_OQ), j);                  \
    second = _mm512_maskz_min_ps((__mmask16)-1, second, _mm512_maskz_max_ps((__mmask16)-1, square, first));  \
    first = _mm512_maskz_min_ps((__mmask16)-1, square, first)
// Stores past the caches, to whole lines. KM_STREAM_END goes before other threads read.
#define KM_STREAM_INTS(to, x) _mm512_stream_si512((__m512i *)(void *)(to), x)
#define KM_STREAM_END _mm_sfence()
#define KM_ROUND(x) _mm512_maskz_cvtps_epi32((__mmask16)-1, x)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) (int)_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ)
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __mmask16 km_mask;
#define KM_STORE_WIDE(to, x)                                                                                 \
    KM_D_STORE(to, _mm512_maskz_cvtps_pd((__mmask8)-1, _mm512_castps512_ps256(x)));                          \
    KM_D_STORE((to) + DOUBLES, _mm512_maskz_cvtps_pd((__mmask8)-1, _mm512_extractf32x8_ps(x, 1)))
#define KM_LOAD_LABELS(from) KM_LOAD_INTS(from)
#define KM_EQUAL(a, b) _mm512_cmpeq_epi32_mask(a, b)
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    KM_D_ADD_OWN(sum, where, from);                                                                          \
    KM_D_ADD_OWN(sum, (where) >> 8, (from) + DOUBLES)
// The same for two vectors of doubles, and for integers, whose total may need more than 32 bits.
#define KM_D_ADD_BOTH(sum, where, low, high)                                                                 \
    sum = _mm512_mask_add_pd(sum, (__mmask8)(where), sum, low);                                              \
    sum = _mm512_mask_add_pd(sum, (__mmask8)((where) >> 8), sum, high)
#define KM_ADD_INTS_WHERE(sum, where, x) sum = _mm512_mask_add_epi32(sum, where, sum, x)
#define KM_SUM_WIDE(x)                                                                                       \
    KM_D_SUM(_mm512_add_pd(_mm512_maskz_cvtepi32_pd((__mmask8)-1, _mm512_castsi512_si256(x)),                \
                           _mm512_maskz_cvtepi32_pd((__mmask8)-1, _mm512_extracti64x4_epi64(x, 1))))
// Eight labels as 64-bit integers; eight of sixteen doubles, picked by label.
#define KM_LOAD_LONGS(from)                                                                                  \
    _mm512_maskz_cvtepi32_epi64((__mmask8)-1, _mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define KM_D_PICK(from, index) _mm512_permutex2var_pd(KM_D_LOAD(from), index, KM_D_LOAD((from) + DOUBLES))
// Stores the indices of two vectors, or of four, as labels of a byte. Four of floats are stored at once, so that they
// may be loaded at once.
#define KM_BYTES(x) _mm512_maskz_cvtepi32_epi8((__mmask16)-1, x)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm512_storeu_si512(                                                                                     \
        (void *)(to),                                                                                        \
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_inserti128_si256(                                   \
                               _mm256_castsi128_si256(KM_BYTES(a)), KM_BYTES(b), 1)),                        \
                           _mm256_inserti128_si256(_mm256_castsi128_si256(KM_BYTES(c)), KM_BYTES(d), 1), 1))
// A bit for each of 64 bytes that are j.
#define KM_OWN(labels, j)                                                                                    \
    _mm512_cmpeq_epi8_mask(_mm512_loadu_si512((const void *)(labels)), _mm512_set1_epi8((char)(j)))
// A bit for each of 64 bytes that differ.
#define KM_DIFFER(a, b)                                                                                      \
    _mm512_cmpneq_epi8_mask(_mm512_loadu_si512((const void *)(a)), _mm512_loadu_si512((const void *)(b)))

// Doubles: the finishing pass and the sums of distances.
enum { DOUBLES = 8 };
typedef __m512d km_doubles;
#define KM_D_LOAD(from) _mm512_loadu_pd(from)
#define KM_D_STORE(to, x) _mm512_storeu_pd(to, x)
#define KM_D_SPLAT(value) _mm512_set1_pd(value)
#define KM_D_SUB(a, b) _mm512_sub_pd(a, b)
#define KM_D_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define KM_D_ADD(a, b) _mm512_add_pd(a, b)
#define KM_D_SUM(x) _mm512_reduce_add_pd(x)
// Adds doubles to a sum where a bit is set.
#define KM_D_ADD_OWN(sum, bits, from)                                                                        \
    sum = _mm512_mask_add_pd(sum, (__mmask8)(bits), sum, _mm512_loadu_pd(from))
// Offsets of eight features of a point.
#define KM_SOA_OFFSETS                                                                                       \
    _mm256_set_epi32(7 * SOA_POINTS, 6 * SOA_POINTS, 5 * SOA_POINTS, 4 * SOA_POINTS, 3 * SOA_POINTS,         \
                     2 * SOA_POINTS, SOA_POINTS, 0)
// Transposes eight features of eight points (a column is a feature) into eight rows. Columns from `features` on are two
// ones, then zeros.
#define KM_D_COLUMN(from, c, features)                                                                       \
    ((c) < (features) ? KM_LOAD_DOUBLES((from) + (c)*SOA_POINTS) : KM_D_SPLAT((c) < (features) + 2))
#define KM_D_TRANSPOSE(rows, from, features)                                                                 \
    km_transpose(rows, KM_D_COLUMN(from, 0, features), KM_D_COLUMN(from, 1, features),                       \
                 KM_D_COLUMN(from, 2, features), KM_D_COLUMN(from, 3, features),                             \
                 KM_D_COLUMN(from, 4, features), KM_D_COLUMN(from, 5, features),                             \
                 KM_D_COLUMN(from, 6, features), KM_D_COLUMN(from, 7, features))
KM_TARGET static inline void km_transpose_half(double *rows, __m512d a, __m512d b, __m512d c, __m512d d) {
    const __m512i low = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0),
                  high = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
    const __m512d first = _mm512_permutex2var_pd(a, low, b), second = _mm512_permutex2var_pd(a, high, b);
    const __m512d third = _mm512_permutex2var_pd(c, low, d), fourth = _mm512_permutex2var_pd(c, high, d);
    KM_D_STORE(rows, _mm512_maskz_shuffle_f64x2((__mmask8)-1, first, third, 0x44));
    KM_D_STORE(rows + 2 * ROW, _mm512_maskz_shuffle_f64x2((__mmask8)-1, second, fourth, 0x44));
    KM_D_STORE(rows + 4 * ROW, _mm512_maskz_shuffle_f64x2((__mmask8)-1, first, third, 0xee));
    KM_D_STORE(rows + 6 * ROW, _mm512_maskz_shuffle_f64x2((__mmask8)-1, second, fourth, 0xee));
}
KM_TARGET static inline void km_transpose(double *rows, __m512d a, __m512d b, __m512d c, __m512d d, __m512d e,
                                          __m512d f, __m512d g, __m512d h) {
    km_transpose_half(
        rows, _mm512_maskz_unpacklo_pd((__mmask8)-1, a, b), _mm512_maskz_unpacklo_pd((__mmask8)-1, c, d),
        _mm512_maskz_unpacklo_pd((__mmask8)-1, e, f), _mm512_maskz_unpacklo_pd((__mmask8)-1, g, h));
    km_transpose_half(rows + ROW, _mm512_maskz_unpackhi_pd((__mmask8)-1, a, b),
                      _mm512_maskz_unpackhi_pd((__mmask8)-1, c, d),
                      _mm512_maskz_unpackhi_pd((__mmask8)-1, e, f),
                      _mm512_maskz_unpackhi_pd((__mmask8)-1, g, h));
}
typedef __m512i km_longs;
#define KM_LONGS(value) _mm512_set1_epi64(value)
#define KM_PUT_LONGS(to, x) _mm512_storeu_si512((void *)(to), x)
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_KEEP_NEAREST(first, second, index, square, j)                                                     \
    index = _mm512_mask_mov_epi64(index, _mm512_cmp_pd_mask(square, first, _CMP_LT_OQ), j);                  \
    second = _mm512_maskz_min_pd((__mmask8)-1, second, _mm512_maskz_max_pd((__mmask8)-1, square, first));    \
    first = _mm512_maskz_min_pd((__mmask8)-1, square, first)

// ... 3 definitions

// ... 8 definitions

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
    for (; f + 4 <= D; f += 4, point += 4 * SOA_POINTS)
        *(km_quad *)(row + f) = __builtin_convertvector(KM_FOUR(point), km_quad);
    for (; f < D; f++, point += SOA_POINTS) row[f] = (double)point[0];
}

// Makes rows of all points of a span, once.
KM_TARGET static void km_rows_make(km_lanes_span *span, const km_cpu_chunk *chunk) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    double *rows = span->rows;
    if (span->has_rows) return;
    span->has_rows = 1;
    for (int64_t base = span->first; base < span->end;
         base += SOA_POINTS, points += SOA_POINTS * D, rows += SOA_POINTS * ROW) {
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
    km_doubles sum_1 = KM_D_SPLAT(0);
    km_doubles sum_2 = KM_D_SPLAT(0);
    km_doubles sum_3 = KM_D_SPLAT(0);
    for (int64_t g = 0; g < soa_groups; g++, x += SOA_POINTS * D) {
        uint64_t bits = own[g];
        for (int i = 0; i < SOA_POINTS; i += DOUBLES, bits >>= DOUBLES) {
            KM_D_ADD_OWN(sum_0, bits, x + 0 * SOA_POINTS + i);
            KM_D_ADD_OWN(sum_1, bits, x + 1 * SOA_POINTS + i);
            KM_D_ADD_OWN(sum_2, bits, x + 2 * SOA_POINTS + i);
            KM_D_ADD_OWN(sum_3, bits, x + 3 * SOA_POINTS + i);
        }
    }
    sums[0] += KM_D_SUM(sum_0);
    sums[1] += KM_D_SUM(sum_1);
    sums[2] += KM_D_SUM(sum_2);
    sums[3] += KM_D_SUM(sum_3);
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
    km_doubles square_1 = KM_D_SPLAT(0), near_1 = square_1;
    km_ints margin_1 = KM_INTS(0);
    uint16_t points_1[FINISH_SPAN / LANES]; // a bit for each
    const km_ints j_1 = KM_INTS((int32_t)from + 1);
    km_doubles square_2 = KM_D_SPLAT(0), near_2 = square_2;
    km_ints margin_2 = KM_INTS(0);
    uint16_t points_2[FINISH_SPAN / LANES]; // a bit for each
    const km_ints j_2 = KM_INTS((int32_t)from + 2);
    km_doubles square_3 = KM_D_SPLAT(0), near_3 = square_3;
    km_ints margin_3 = KM_INTS(0);
    uint16_t points_3[FINISH_SPAN / LANES]; // a bit for each
    const km_ints j_3 = KM_INTS((int32_t)from + 3);
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
        const km_mask own_1 = KM_EQUAL(labels, j_1);
        KM_D_ADD_WHERE(square_1, own_1, span->squares + at);
        points_1[at / LANES] = own_1;
        KM_D_ADD_BOTH(near_1, own_1, low, high);
        KM_ADD_INTS_WHERE(margin_1, own_1, margins);
        const km_mask own_2 = KM_EQUAL(labels, j_2);
        KM_D_ADD_WHERE(square_2, own_2, span->squares + at);
        points_2[at / LANES] = own_2;
        KM_D_ADD_BOTH(near_2, own_2, low, high);
        KM_ADD_INTS_WHERE(margin_2, own_2, margins);
        const km_mask own_3 = KM_EQUAL(labels, j_3);
        KM_D_ADD_WHERE(square_3, own_3, span->squares + at);
        points_3[at / LANES] = own_3;
        KM_D_ADD_BOTH(near_3, own_3, low, high);
        KM_ADD_INTS_WHERE(margin_3, own_3, margins);
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
    if (from + 1 < model->k) {
        double *sum = model->sums + (from + 1) * KM_CPU_SUMS;
        const double count = (double)km_count_bits(points_1, span->count);
        sum[KM_CPU_SUM_WEIGHT] += count;
        sum[KM_CPU_SUM_COUNT] += count;
        sum[KM_CPU_SUM_SSE] += KM_D_SUM(square_1);
        sum[KM_CPU_SUM_DISTANCE] += KM_D_SUM(near_1);
        sum[KM_CPU_SUM_MARGIN] += KM_SUM_WIDE(margin_1) / MARGIN_SCALE;
    }
    if (from + 2 < model->k) {
        double *sum = model->sums + (from + 2) * KM_CPU_SUMS;
        const double count = (double)km_count_bits(points_2, span->count);
        sum[KM_CPU_SUM_WEIGHT] += count;
        sum[KM_CPU_SUM_COUNT] += count;
        sum[KM_CPU_SUM_SSE] += KM_D_SUM(square_2);
        sum[KM_CPU_SUM_DISTANCE] += KM_D_SUM(near_2);
        sum[KM_CPU_SUM_MARGIN] += KM_SUM_WIDE(margin_2) / MARGIN_SCALE;
    }
    if (from + 3 < model->k) {
        double *sum = model->sums + (from + 3) * KM_CPU_SUMS;
        const double count = (double)km_count_bits(points_3, span->count);
        sum[KM_CPU_SUM_WEIGHT] += count;
        sum[KM_CPU_SUM_COUNT] += count;
        sum[KM_CPU_SUM_SSE] += KM_D_SUM(square_3);
        sum[KM_CPU_SUM_DISTANCE] += KM_D_SUM(near_3);
        sum[KM_CPU_SUM_MARGIN] += KM_SUM_WIDE(margin_3) / MARGIN_SCALE;
    }
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
    for (; from < model->k; from += 2) km_finish_sums_2(span, model, from);
}

// Sums of a span for any number of clusters, point by point.
static void km_finish_sums_many(const km_finish_span *span, const km_cpu_finish_model *model,
                                const double *weights) {
    for (int64_t i = 0; i < span->count; i++) {
        double *sum = model->sums + span->labels[i] * (int64_t)KM_CPU_SUMS;
        const double weight = weights ? weights[i] : 1.0;
        sum[KM_CPU_SUM_WEIGHT] += weight;
        sum[KM_CPU_SUM_COUNT] += 1.0;
        sum[KM_CPU_SUM_SSE] += weight * span->squares[i];
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

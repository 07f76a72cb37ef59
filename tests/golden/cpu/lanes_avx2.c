// Of the text of {features: 4, clusters: 3..5, target: cpu:avx2}: Head; Numbers and types; The pass; Seeding; The finishing pass; What a program takes
// "..." stands for what a template or an earlier part shows.

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
typedef __m256 km_vec;
#define KM_LOAD(from) _mm256_loadu_ps(from)
#define KM_STORE(to, x) _mm256_storeu_ps(to, x)
#define KM_SPLAT(value) _mm256_set1_ps(value)
#define KM_ADD(a, b) _mm256_add_ps(a, b)
#define KM_SUB(a, b) _mm256_sub_ps(a, b)
#define KM_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define KM_MIN(a, b) _mm256_min_ps(a, b)
#define KM_INTS(value) _mm256_set1_epi32(value)
#define KM_INTS_ADD(a, b) _mm256_add_epi32(a, b)
#define KM_LOAD_INTS(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define KM_PUT_INTS(to, index) _mm256_storeu_si256((__m256i *)(void *)(to), index)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(index), _mm256_castsi256_ps(j),         \
                                                 _mm256_cmp_ps(score, best, _CMP_GT_OQ)));                   \
    best = _mm256_max_ps(score, best)
// Stores the indices of two vectors, or of four, as labels of a byte. Packing works within halves of a vector, so the
// result is put in order.
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    do {                                                                                                     \
        const __m256i km_both = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);                    \
        _mm_storeu_si128((__m128i *)(void *)(to), _mm_packus_epi16(_mm256_castsi256_si128(km_both),          \
                                                                   _mm256_extracti128_si256(km_both, 1)));   \
    } while (0)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm256_storeu_si256(                                                                                     \
        (__m256i *)(void *)(to),                                                                             \
        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d)), \
                                    _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)))
#define KM_LOAD_DOUBLES(from) _mm256_cvtps_pd(_mm_loadu_ps(from))
#define KM_SQRT(x) _mm256_sqrt_ps(x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b)                                                                                    \
    _mm256_and_ps(_mm256_div_ps(a, b), _mm256_cmp_ps(b, _mm256_setzero_ps(), _CMP_GT_OQ))
// Takes a squared distance into the least and the second-least so far. Equal ones keep the lower index.
#define KM_F_KEEP_NEAREST(first, second, index, square, j)                                                   \
    index = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(index), _mm256_castsi256_ps(j),         \
                                                 _mm256_cmp_ps(square, first, _CMP_LT_OQ)));                 \
    second = _mm256_min_ps(second, _mm256_max_ps(square, first));                                            \
    first = _mm256_min_ps(square, first)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ))
// Masks of the points that have a label: counts and sums of doubles of those points.
typedef __m256i km_mask;
#define KM_STORE_WIDE(to, x)                                                                                 \
    KM_D_STORE(to, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));                                              \
    KM_D_STORE((to) + DOUBLES, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)))
#define KM_LOAD_LABELS(from) KM_LOAD_INTS(from)
#define KM_EQUAL(a, b) _mm256_cmpeq_epi32(a, b)
#define KM_COUNT_WHERE(count, where) count = _mm256_sub_epi32(count, where)
#define KM_WIDE_WHERE(where, half)                                                                           \
    _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(where, half)))
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    sum = _mm256_add_pd(sum, _mm256_and_pd(_mm256_loadu_pd(from), KM_WIDE_WHERE(where, 0)));                 \
    sum = _mm256_add_pd(sum, _mm256_and_pd(_mm256_loadu_pd((from) + DOUBLES), KM_WIDE_WHERE(where, 1)))
#define KM_SUM_INTS(x) km_sum_ints(x)
KM_TARGET static inline int32_t km_sum_ints(km_ints x) {
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    const __m128i two = _mm_add_epi32(four, _mm_srli_si128(four, 8));
    return _mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 1);
}
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
    km_vec best_1;
    km_ints index_1 = KM_INTS(0);
    km_vec best_2;
    km_ints index_2 = KM_INTS(0);
    km_vec best_3;
    km_ints index_3 = KM_INTS(0);
    const km_real *row = table;
    km_ints j = KM_INTS(0);
    const km_ints one = KM_INTS(1);
    best_0 = KM_SPLAT(row[D]);
    best_1 = KM_SPLAT(row[D]);
    best_2 = KM_SPLAT(row[D]);
    best_3 = KM_SPLAT(row[D]);
    for (int f = 0; f < D; f++) {
        const km_vec c = KM_SPLAT(row[f]);
        best_0 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 0 * LANES), c, best_0);
        best_1 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 1 * LANES), c, best_1);
        best_2 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 2 * LANES), c, best_2);
        best_3 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 3 * LANES), c, best_3);
    }
    for (int64_t done = 1; done < k; done++) {
        row += D + 1;
        km_vec s_0 = KM_SPLAT(row[D]);
        km_vec s_1 = KM_SPLAT(row[D]);
        km_vec s_2 = KM_SPLAT(row[D]);
        km_vec s_3 = KM_SPLAT(row[D]);
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            s_0 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 0 * LANES), c, s_0);
            s_1 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 1 * LANES), c, s_1);
            s_2 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 2 * LANES), c, s_2);
            s_3 = KM_FMA(KM_LOAD(points + f * SOA_POINTS + 3 * LANES), c, s_3);
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0, j);
        KM_KEEP(best_1, index_1, s_1, j);
        KM_KEEP(best_2, index_2, s_2, j);
        KM_KEEP(best_3, index_3, s_3, j);
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
    const int64_t points = next + SPAN * SOA_POINTS <= chunk->points_count ? SPAN * SOA_POINTS : 0;
    const int64_t bytes = points * D * (int64_t)sizeof(km_real);
    span->ahead = (const char *)((const km_real *)chunk->points + next * D);
    span->ahead_end = span->ahead + bytes;
    span->ahead_step = (bytes / turns + 63) / 64 * 64;
}

// Labels a span for one slot. With KM_CPU_MOVE, also moves the points whose label changed from sums to sums.
KM_TARGET static void km_slot_span(km_cpu_slot *slot, const km_cpu_chunk *chunk, km_lanes_span *span) {
    const km_real *points = (const km_real *)chunk->points + span->first * D;
    const int moves = slot->mode == KM_CPU_MOVE && slot->sums;
    const int64_t count = span->end - span->first;
    km_index labels[SPAN * SOA_POINTS], old[SPAN * SOA_POINTS];
    uint16_t list[SPAN * SOA_POINTS + 3];
    int64_t listed = 0;
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
        km_vec sum_1 = KM_SPLAT(0);
        km_vec sum_2 = KM_SPLAT(0);
        km_vec sum_3 = KM_SPLAT(0);
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            const km_vec t_0 = KM_SUB(KM_LOAD(points + f * SOA_POINTS + i + 0 * LANES), c);
            sum_0 = KM_FMA(t_0, t_0, sum_0);
            const km_vec t_1 = KM_SUB(KM_LOAD(points + f * SOA_POINTS + i + 1 * LANES), c);
            sum_1 = KM_FMA(t_1, t_1, sum_1);
            const km_vec t_2 = KM_SUB(KM_LOAD(points + f * SOA_POINTS + i + 2 * LANES), c);
            sum_2 = KM_FMA(t_2, t_2, sum_2);
            const km_vec t_3 = KM_SUB(KM_LOAD(points + f * SOA_POINTS + i + 3 * LANES), c);
            sum_3 = KM_FMA(t_3, t_3, sum_3);
        }
        KM_STORE(out + i + 0 * LANES, sum_0);
        KM_STORE(out + i + 1 * LANES, sum_1);
        KM_STORE(out + i + 2 * LANES, sum_2);
        KM_STORE(out + i + 3 * LANES, sum_3);
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
            km_vec sum_0_1 = KM_SPLAT(0);
            km_vec sum_0_2 = KM_SPLAT(0);
            km_vec sum_0_3 = KM_SPLAT(0);
            km_vec sum_1_0 = KM_SPLAT(0);
            km_vec sum_1_1 = KM_SPLAT(0);
            km_vec sum_1_2 = KM_SPLAT(0);
            km_vec sum_1_3 = KM_SPLAT(0);
            for (int f = 0; f < D; f++) {
                const km_vec c_0 = KM_SPLAT(row_0[f]);
                const km_vec c_1 = KM_SPLAT(row_1[f]);
                const km_vec x_0 = KM_LOAD(points + f * SOA_POINTS + i + 0 * LANES);
                const km_vec t_0_0 = KM_SUB(x_0, c_0);
                sum_0_0 = KM_FMA(t_0_0, t_0_0, sum_0_0);
                const km_vec t_1_0 = KM_SUB(x_0, c_1);
                sum_1_0 = KM_FMA(t_1_0, t_1_0, sum_1_0);
                const km_vec x_1 = KM_LOAD(points + f * SOA_POINTS + i + 1 * LANES);
                const km_vec t_0_1 = KM_SUB(x_1, c_0);
                sum_0_1 = KM_FMA(t_0_1, t_0_1, sum_0_1);
                const km_vec t_1_1 = KM_SUB(x_1, c_1);
                sum_1_1 = KM_FMA(t_1_1, t_1_1, sum_1_1);
                const km_vec x_2 = KM_LOAD(points + f * SOA_POINTS + i + 2 * LANES);
                const km_vec t_0_2 = KM_SUB(x_2, c_0);
                sum_0_2 = KM_FMA(t_0_2, t_0_2, sum_0_2);
                const km_vec t_1_2 = KM_SUB(x_2, c_1);
                sum_1_2 = KM_FMA(t_1_2, t_1_2, sum_1_2);
                const km_vec x_3 = KM_LOAD(points + f * SOA_POINTS + i + 3 * LANES);
                const km_vec t_0_3 = KM_SUB(x_3, c_0);
                sum_0_3 = KM_FMA(t_0_3, t_0_3, sum_0_3);
                const km_vec t_1_3 = KM_SUB(x_3, c_1);
                sum_1_3 = KM_FMA(t_1_3, t_1_3, sum_1_3);
            }
            const km_vec nearest_0 = KM_LOAD(nearest + base + i + 0 * LANES);
            KM_STORE(least_0 + i + 0 * LANES, KM_MIN(sum_0_0, nearest_0));
            KM_STORE(least_1 + i + 0 * LANES, KM_MIN(sum_1_0, nearest_0));
            const km_vec nearest_1 = KM_LOAD(nearest + base + i + 1 * LANES);
            KM_STORE(least_0 + i + 1 * LANES, KM_MIN(sum_0_1, nearest_1));
            KM_STORE(least_1 + i + 1 * LANES, KM_MIN(sum_1_1, nearest_1));
            const km_vec nearest_2 = KM_LOAD(nearest + base + i + 2 * LANES);
            KM_STORE(least_0 + i + 2 * LANES, KM_MIN(sum_0_2, nearest_2));
            KM_STORE(least_1 + i + 2 * LANES, KM_MIN(sum_1_2, nearest_2));
            const km_vec nearest_3 = KM_LOAD(nearest + base + i + 3 * LANES);
            KM_STORE(least_0 + i + 3 * LANES, KM_MIN(sum_0_3, nearest_3));
            KM_STORE(least_1 + i + 3 * LANES, KM_MIN(sum_1_3, nearest_3));
        }
        for (int i = 0; i < SOA_POINTS; i += 2 * DOUBLES) {
            if (weights) {
                const km_doubles v = KM_D_LOAD(weights + base + i),
                                 w = KM_D_LOAD(weights + base + i + DOUBLES);
                even_0 = KM_D_FMA(KM_LOAD_DOUBLES(least_0 + i), v, even_0);
                odd_0 = KM_D_FMA(KM_LOAD_DOUBLES(least_0 + i + DOUBLES), w, odd_0);
                even_1 = KM_D_FMA(KM_LOAD_DOUBLES(least_1 + i), v, even_1);
                odd_1 = KM_D_FMA(KM_LOAD_DOUBLES(least_1 + i + DOUBLES), w, odd_1);
            } else {
                even_0 = KM_D_ADD(KM_LOAD_DOUBLES(least_0 + i), even_0);
                odd_0 = KM_D_ADD(KM_LOAD_DOUBLES(least_0 + i + DOUBLES), odd_0);
                even_1 = KM_D_ADD(KM_LOAD_DOUBLES(least_1 + i), even_1);
                odd_1 = KM_D_ADD(KM_LOAD_DOUBLES(least_1 + i + DOUBLES), odd_1);
            }
        }
    }
    sums[0] = 0;
    KM_D_STORE(lanes, KM_D_ADD(even_0, odd_0));
    for (int i = 0; i < DOUBLES; i++) sums[0] += lanes[i];
    sums[1] = 0;
    KM_D_STORE(lanes, KM_D_ADD(even_1, odd_1));
    for (int i = 0; i < DOUBLES; i++) sums[1] += lanes[i];
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

// Two vectors of points against all centroids in float. Non-zero where a point is ambiguous.
KM_TARGET static int km_finish_fast(int32_t *labels, km_real *nearest, km_real *next,
                                    const km_cpu_finish *finish, const km_cpu_finish_model *model,
                                    int64_t at) {
    const km_real *points =
        (const km_real *)finish->points + at / SOA_POINTS * SOA_POINTS * D + at % SOA_POINTS;
    const int64_t k = model->k, tiles_end = 1 + (k - 1) / FINISH_TILE * FINISH_TILE;
    const km_real *start = (const km_real *)model->table;
    km_vec first_0 = KM_SPLAT(0), first_1 = first_0, second_0 = KM_SPLAT(INFINITY), second_1 = second_0;
    km_ints index_0 = KM_INTS(0), index_1 = index_0;
    for (int f = 0; f < D; f++) { // to the first centroid, which nothing is compared with
        const km_vec c = KM_SPLAT(start[f]);
        const km_vec t = KM_SUB(KM_LOAD(points + f * SOA_POINTS), c),
                     u = KM_SUB(KM_LOAD(points + f * SOA_POINTS + LANES), c);
        first_0 = KM_FMA(t, t, first_0);
        first_1 = KM_FMA(u, u, first_1);
    }
    for (int64_t from = 1; from < tiles_end; from += FINISH_TILE) {
        const km_real *rows = (const km_real *)model->table + from * (D + 1);
        km_vec a_0 = KM_SPLAT(0), b_0 = a_0;
        km_vec a_1 = KM_SPLAT(0), b_1 = a_1;
        for (int f = 0; f < D; f++) {
            const km_vec x = KM_LOAD(points + f * SOA_POINTS), y = KM_LOAD(points + f * SOA_POINTS + LANES);
            const km_vec c_0 = KM_SPLAT(rows[0 * (D + 1) + f]);
            const km_vec t_0 = KM_SUB(x, c_0), u_0 = KM_SUB(y, c_0);
            a_0 = KM_FMA(t_0, t_0, a_0);
            b_0 = KM_FMA(u_0, u_0, b_0);
            const km_vec c_1 = KM_SPLAT(rows[1 * (D + 1) + f]);
            const km_vec t_1 = KM_SUB(x, c_1), u_1 = KM_SUB(y, c_1);
            a_1 = KM_FMA(t_1, t_1, a_1);
            b_1 = KM_FMA(u_1, u_1, b_1);
        }
        const km_ints j_0 = KM_INTS((int32_t)from + 0);
        KM_F_KEEP_NEAREST(first_0, second_0, index_0, a_0, j_0);
        KM_F_KEEP_NEAREST(first_1, second_1, index_1, b_0, j_0);
        const km_ints j_1 = KM_INTS((int32_t)from + 1);
        KM_F_KEEP_NEAREST(first_0, second_0, index_0, a_1, j_1);
        KM_F_KEEP_NEAREST(first_1, second_1, index_1, b_1, j_1);
    }
    for (int64_t from = tiles_end; from < k; from++) {
        const km_real *row = (const km_real *)model->table + from * (D + 1);
        km_vec a = KM_SPLAT(0), b = a;
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            const km_vec t = KM_SUB(KM_LOAD(points + f * SOA_POINTS), c);
            const km_vec u = KM_SUB(KM_LOAD(points + f * SOA_POINTS + LANES), c);
            a = KM_FMA(t, t, a);
            b = KM_FMA(u, u, b);
        }
        const km_ints j = KM_INTS((int32_t)from);
        KM_F_KEEP_NEAREST(first_0, second_0, index_0, a, j);
        KM_F_KEEP_NEAREST(first_1, second_1, index_1, b, j);
    }
    KM_PUT_INTS(labels, index_0);
    KM_PUT_INTS(labels + LANES, index_1);
    KM_STORE(nearest, first_0);
    KM_STORE(nearest + LANES, first_1);
    KM_STORE(next, second_0);
    KM_STORE(next + LANES, second_1);
    // Twice the error bound, and what squares may lose by underflow.
    const km_vec apart = KM_SPLAT(1.0f + (D + 4) * 0x1p-22f), lost = KM_SPLAT(1e-37f);
    return KM_ANY_ABOVE(KM_FMA(first_0, apart, lost), second_0) |
           KM_ANY_ABOVE(KM_FMA(first_1, apart, lost), second_1);
}

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
    km_doubles square_1 = KM_D_SPLAT(0), near_1 = square_1;
    km_doubles margin_1 = square_1;
    km_ints count_1 = KM_INTS(0);
    const km_ints j_1 = KM_INTS((int32_t)from + 1);
    for (int64_t at = 0; at < span->count; at += LANES) {
        const km_ints labels = KM_LOAD_LABELS(span->labels + at);
        const km_mask own_0 = KM_EQUAL(labels, j_0);
        KM_D_ADD_WHERE(square_0, own_0, span->squares + at);
        KM_COUNT_WHERE(count_0, own_0);
        KM_D_ADD_WHERE(near_0, own_0, span->distances + at);
        KM_D_ADD_WHERE(margin_0, own_0, span->margins + at);
        const km_mask own_1 = KM_EQUAL(labels, j_1);
        KM_D_ADD_WHERE(square_1, own_1, span->squares + at);
        KM_COUNT_WHERE(count_1, own_1);
        KM_D_ADD_WHERE(near_1, own_1, span->distances + at);
        KM_D_ADD_WHERE(margin_1, own_1, span->margins + at);
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
    if (from + 1 < model->k) {
        double *sum = model->sums + (from + 1) * KM_CPU_SUMS;
        const double count = (double)KM_SUM_INTS(count_1);
        sum[KM_CPU_SUM_WEIGHT] += count;
        sum[KM_CPU_SUM_COUNT] += count;
        sum[KM_CPU_SUM_SSE] += KM_D_SUM(square_1);
        sum[KM_CPU_SUM_DISTANCE] += KM_D_SUM(near_1);
        sum[KM_CPU_SUM_MARGIN] += KM_D_SUM(margin_1);
    }
}

KM_TARGET static void km_finish_sums_few(km_finish_span *span, const km_cpu_finish_model *model) {
    int64_t from = 0;
    for (int64_t i = span->count; i % LANES; i++) span->labels[i] = -1;
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

// SPDX-License-Identifier: MIT
// float64.c, made by kmgen 0.1.0. Same spec, same text. The spec:
//
// name: float64
// features: 4
// clusters: 2..8
// type: float64
// target: cpu:avx2
// n_init: 10
//
// The plan:
//
// device: cpu:avx2, two nominal avx2 cores: 2 threads, 20 GB/s, 3.00 GHz
// points: unknown, taken as many
// clusters in one pass: 35 for each restart (the sum of the K list)
//
// design                        lanes  about 1.3 times as fast a pass as prebuilt
// tile_clusters                     1  one after another: few features, no remainders
// lanes                             4  32-byte vectors of float64
// vectors                           4  vectors x (tile + 3) + 1 registers, of 16; at least 8 points
// soa_points                       64  changes of 64 labels are the bits of one number
// int16_scores                      0  scores of float64
// concurrent_restarts               1  a read takes 1.95 ns a point, one restart's arithmetic 5.45 ns
//
// per point and pass: 39 bytes read, 65.45 operations

// Contents, by line:
//     42  Numbers and types
//    291  The pass
//    552  Seeding
//    716  The finishing pass
//    883  What a program takes
//    892  The host part: what the header declares

#ifndef KM_KERNELS_ONLY
// The linker knows the kernels by this name, so that several emitted files go into one program.
#define km_kernels float64_kernels
#endif

// The design lanes: points across SIMD lanes. A span of points is read into the first cache and serves every slot:
// first all labels of the span, then the sums of the points whose label changed.
// ==== Numbers and types ====================================================================================
// What a pass over the points is handed: the contract between the kernels and who calls them, the host part of an
// emitted file or kmgen's engine. A slot is one K, and in kmgen one restart of it.
//
// Layout. Points are copied once, centred and scaled, into groups of `group` points: value f of point i of a group
// lies at [f * group + i]; the last group is padded with zeros. A block is KM_CHUNK_POINTS points (65,536: a
// multiple of every group) and belongs to one thread at a time. "real" is the plan's type, float or double.
#ifndef KM_CPU_ABI
#define KM_CPU_ABI 9
#include <stdint.h>

// Numbers between two rows of sums: d sums of w x, the sum of w, the count of points that weigh
// (w > 0: a point of weight 0 keeps no cluster from being empty), padding: rows of four, or of whole cache lines.
#define KM_CPU_PITCH(d) ((d) <= 2 ? 4 : ((d) + 2 + 7) / 8 * 8)

// Rows of a table of k centroids: behind them stand rows of zeros whose last value is minus infinity, so that a kernel
// may work on up to eight centroids at a time whatever k is.
#define KM_CPU_TABLE_ROWS(k) ((k) + 7)

// Scores of integers: feature f of a point is x[f] * scales[f] rounded to 16 bits. A row of a centroid is pairs of
// 16-bit integers, the lower feature in the low half, then the score's constant: sums of 32 bits never overflow.
#define KM_CPU_PAIRS_ROW(d) (((d) + 1) / 2 + 1)

// Centroids of a table across lanes: whole vectors of sixteen floats, the last values as in rows behind a table's end.
#define KM_CPU_COLUMNS(k) (((k) + 15) / 16 * 16)

// What the sums and old labels of a slot mean in this pass.
enum {
    KM_CPU_FIRST,  // labels hold nothing yet: every point is added, every point counts as changed
    KM_CPU_MOVE,   // a point whose label changed leaves the sums of the old centroid and joins those of the new one
    KM_CPU_REFRESH // the sums start again from zero: every point is added; changes are counted from the labels
};

// One run in flight. Idle runs are not listed, so they cost nothing.
typedef struct km_cpu_slot {
    int64_t k;
    int64_t k_index;   // place of k in the plan's list
    const void *table; // reals: KM_CPU_TABLE_ROWS(k) rows: d coordinates of the centroid c, then -|c|^2 / 2
    void *labels;      // of this block's points: 1 byte each (2 above K = 256, 4 above 65,536), whole groups
    double *sums;      // k rows of KM_CPU_PITCH(d): what this block changes; NULL: only labels are wanted
    int32_t mode;      // KM_CPU_FIRST, KM_CPU_MOVE or KM_CPU_REFRESH
    int32_t labels_bytes;
    int64_t changed;      // out: points whose label changed
    const int32_t *pairs; // k rows of KM_CPU_PAIRS_ROW(d); NULL: the table serves alone
    // Of slots that have pairs: the table, its d + 1 columns of KM_CPU_COLUMNS(k) values.
    const float *columns;
    // Two scores of integers, of which the high 16 bits count, tell which is larger beyond this.
    int64_t close;
    int64_t decided; // out: points that the table decided, as their two largest scores were close
} km_cpu_slot;

// Labels: the centroid with the largest x . c - |c|^2 / 2, the lowest index among equals; sums follow by `mode`.
typedef struct km_cpu_chunk {
    const void *points;    // the block's first group
    const double *weights; // of this block's points, or NULL: all 1
    int64_t points_count;
    int64_t d, group;
    km_cpu_slot *slots;
    int64_t slots_count;
    const float *scales; // d, of slots that have pairs; NULL: none has
} km_cpu_chunk;

// One k-means++ chain inside a seeding pass.
typedef struct km_cpu_chain {
    void *nearest;          // reals, of this block's points, whole groups: |x - nearest pick|^2; starts as infinity
    const void *chosen;     // reals, d: the last pick, not yet in `nearest`; NULL: there is none
    const void *candidates; // reals: candidates_count rows of d
    int64_t candidates_count;
    double *potentials; // out: sum over the block of w min(nearest, |x - candidate|^2), for each candidate
} km_cpu_chain;

typedef struct km_cpu_seeding {
    const void *points;
    const double *weights;
    int64_t points_count;
    int64_t d, group;
    km_cpu_chain *chains;
    int64_t chains_count;
} km_cpu_seeding;

// The finishing pass of models over part of a chunk. Labels and d1^2 are those of acc = fma(t, t, acc), t = x - c, in
// double, over features in index order: bitwise the same on every backend. d1, d2: distances to the nearest and the
// second-nearest centroid.
enum {
    KM_CPU_SUM_WEIGHT,   // sum of w
    KM_CPU_SUM_COUNT,    // points
    KM_CPU_SUM_SSE,      // sum of w d1^2
    KM_CPU_SUM_DISTANCE, // sum of w d1; here and below d1 and d2 may have the plan's type
    KM_CPU_SUM_MARGIN,   // sum of w (d2 - d1) / d2, 0 where d2 = 0 or k = 1
    KM_CPU_SUMS
};

enum { KM_CPU_FEW = 16 }; // clusters whose sums vectors hold

typedef struct km_cpu_finish_model {
    int64_t k;
    // k rows of `row` doubles, zeros from d on: values of the plan's type (k = 1: any).
    const double *centroids;
    const double *columns; // the same, d rows of KM_CPU_FEW, for up to so many clusters; else not read
    const void *table;     // the same as in km_cpu_slot; not read for k = 1
    int32_t *labels;       // out: the nearest centroid, the lowest index among equals; NULL: not wanted
    double *squares;       // out: d1^2; NULL: not wanted
    double *sums;          // k rows of KM_CPU_SUMS that are added to; NULL: not wanted
} km_cpu_finish_model;

typedef struct km_cpu_finish {
    const void *points; // squared distances are at most 1e37 where they are float
    const double *weights;
    int64_t points_count;
    int64_t d, group;
    int64_t row; // d rounded up to the module's finish_unit
    const km_cpu_finish_model *models;
    int64_t models_count;
} km_cpu_finish;

// What a module exports, as km_kernels.
typedef struct km_cpu_kernels {
    int32_t abi; // KM_CPU_ABI
    int32_t real_bytes;
    int32_t isa;          // instruction set that it needs: km_isa of kmgen/spec.h
    int32_t k_max;        // the largest k that it serves
    int64_t d_min, d_max; // features that it serves
    int64_t group;
    int64_t finish_unit; // finish has rows of centroids in whole units of so many doubles
    int64_t whole_k;     // adding all points costs a pass little up to so many clusters; 0: always much
    int64_t integers;    // 1: `pass` reads pairs, on machines that have AVX512_VNNI
    void (*pass)(const km_cpu_chunk *block);
    void (*seed)(const km_cpu_seeding *seeding);
    void (*finish)(const km_cpu_finish *finish);
} km_cpu_kernels;

#endif
#include <math.h>
#include <stddef.h>
#include <string.h>

typedef double km_real;
typedef int64_t km_int;   // an integer as wide as a real
typedef uint8_t km_index; // a label in hand

// Numbers of a point's row: whole vectors of sums.
#define KM_ROW(d) ((d) <= 2 ? 4 : ((d) + 7) / 8 * 8)

enum {
    D = 4,        // features
    LANES = 4,    // reals of a vector
    VECTORS = 4,  // vectors of points worked on at a time
    GROUP = 64,   // points of a group
    TILE = 1,     // centroids worked on at a time
        SPAN = 4, // groups that stay in the cache while every slot works on them
    PITCH = KM_CPU_PITCH(D),
    ROW = KM_ROW(D)
};

// Vector words for AVX2 with FMA. Macros, because vectors are not handed to functions by value: the file must
// compile without options that name the instruction set.
#include <immintrin.h>
#define KM_TARGET __attribute__((target("avx2,fma")))

// Keeps a value that was loaded in a register: compilers would load it anew for each use.
#define KM_PIN(x) __asm__("" : "+x"(x))
typedef __m256i km_ints; // as many integers as km_vec has reals, of the same size
typedef __m256d km_vec;
#define KM_LOAD(from) _mm256_loadu_pd(from)
#define KM_STORE(to, x) _mm256_storeu_pd(to, x)
#define KM_SPLAT(value) _mm256_set1_pd(value)
#define KM_ADD(a, b) _mm256_add_pd(a, b)
#define KM_SUB(a, b) _mm256_sub_pd(a, b)
#define KM_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define KM_MIN(a, b) _mm256_min_pd(a, b)
#define KM_INTS(value) _mm256_set1_epi64x(value)
#define KM_INTS_ADD(a, b) _mm256_add_epi64(a, b)
#define KM_LOAD_INTS(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define KM_PUT_INTS(to, index) _mm256_storeu_si256((__m256i *)(void *)(to), index)
// Where score > best: best and index become score and j.
#define KM_KEEP(best, index, score, j)                                                                       \
    index = _mm256_castpd_si256(_mm256_blendv_pd(_mm256_castsi256_pd(index), _mm256_castsi256_pd(j),         \
                                                 _mm256_cmp_pd(score, best, _CMP_GT_OQ)));                   \
    best = _mm256_max_pd(score, best)
// Indices become labels of a byte: of two vectors, of four.
#define KM_LOW_INTS(a)                                                                                       \
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)))
#define KM_PUT_LABELS_2(to, a, b)                                                                            \
    do {                                                                                                     \
        const __m128i km_both = _mm_packs_epi32(KM_LOW_INTS(a), KM_LOW_INTS(b));                             \
        _mm_storel_epi64((__m128i *)(void *)(to), _mm_packus_epi16(km_both, km_both));                       \
    } while (0)
#define KM_PUT_LABELS_4(to, a, b, c, d)                                                                      \
    _mm_storeu_si128((__m128i *)(void *)(to),                                                                \
                     _mm_packus_epi16(_mm_packs_epi32(KM_LOW_INTS(a), KM_LOW_INTS(b)),                       \
                                      _mm_packs_epi32(KM_LOW_INTS(c), KM_LOW_INTS(d))))
#define KM_LOAD_DOUBLES(from) _mm256_loadu_pd(from)
#define KM_SQRT(x) _mm256_sqrt_pd(x)
// a / b, 0 where b is 0.
#define KM_QUOTIENT(a, b)                                                                                    \
    _mm256_and_pd(_mm256_div_pd(a, b), _mm256_cmp_pd(b, _mm256_setzero_pd(), _CMP_GT_OQ))
// Of the points that have a label: how many there are, sums of doubles.
typedef __m256i km_mask;
#define KM_STORE_WIDE(to, x) KM_STORE(to, x)
#define KM_LOAD_LABELS(from) _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)(const void *)(from)))
#define KM_EQUAL(a, b) _mm256_cmpeq_epi64(a, b)
#define KM_COUNT_WHERE(count, where) count = _mm256_sub_epi64(count, where)
#define KM_D_ADD_WHERE(sum, where, from)                                                                     \
    sum = _mm256_add_pd(sum, _mm256_and_pd(_mm256_loadu_pd(from), _mm256_castsi256_pd(where)))
#define KM_SUM_INTS(x)                                                                                       \
    (_mm256_extract_epi64(x, 0) + _mm256_extract_epi64(x, 1) + _mm256_extract_epi64(x, 2) +                  \
     _mm256_extract_epi64(x, 3))
// A bit for each of 64 bytes that differ.
#define KM_HALF_EQUAL(a, b)                                                                                  \
    (uint32_t)                                                                                               \
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(a)),       \
                                               _mm256_loadu_si256((const __m256i *)(const void *)(b))))
#define KM_DIFFER(a, b) ~(KM_HALF_EQUAL(a, b) | (uint64_t)KM_HALF_EQUAL((a) + 32, (b) + 32) << 32)

// Doubles: the finishing pass and the sums of distances.
enum { DOUBLES = 4 };
typedef __m256d km_doubles;
#define KM_D_LOAD(from) _mm256_loadu_pd(from)
#define KM_D_STORE(to, x) _mm256_storeu_pd(to, x)
#define KM_D_SPLAT(value) _mm256_set1_pd(value)
#define KM_D_ADD(a, b) _mm256_add_pd(a, b)
#define KM_D_SUM(x) km_d_sum(x)
KM_TARGET static inline double km_d_sum(km_doubles x) {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
}
#define KM_D_SUB(a, b) _mm256_sub_pd(a, b)
#define KM_D_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
typedef __m256i km_longs;
#define KM_LONGS(value) _mm256_set1_epi64x(value)
#define KM_PUT_LONGS(to, x) _mm256_storeu_si256((__m256i *)(void *)(to), x)
// A squared distance joins the nearest and the second-nearest; equal ones leave the lower index.
#define KM_NEAREST(first, second, index, square, j)                                                          \
    index = _mm256_castpd_si256(_mm256_blendv_pd(_mm256_castsi256_pd(index), _mm256_castsi256_pd(j),         \
                                                 _mm256_cmp_pd(square, first, _CMP_LT_OQ)));                 \
    second = _mm256_min_pd(second, _mm256_max_pd(square, first));                                            \
    first = _mm256_min_pd(square, first)

// Four numbers of a row of sums, and of a point's row.
typedef double km_quad __attribute__((vector_size(32), aligned(8), may_alias));
typedef km_real km_quad_row
    __attribute__((vector_size(4 * sizeof(km_real)), aligned(sizeof(km_real)), may_alias));

// Two of them.
typedef double km_two __attribute__((vector_size(16), aligned(8), may_alias));

// A point's coordinates lie GROUP apart: four of them side by side.
#define KM_FOUR(point) ((km_quad_row){(point)[0], (point)[GROUP], (point)[2 * GROUP], (point)[3 * GROUP]})

// ==== The pass =============================================================================================

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
        best_0 = KM_FMA(KM_LOAD(points + f * GROUP + 0 * LANES), c, best_0);
        best_1 = KM_FMA(KM_LOAD(points + f * GROUP + 1 * LANES), c, best_1);
        best_2 = KM_FMA(KM_LOAD(points + f * GROUP + 2 * LANES), c, best_2);
        best_3 = KM_FMA(KM_LOAD(points + f * GROUP + 3 * LANES), c, best_3);
    }
    for (int64_t done = 1; done < k; done++) {
        row += D + 1;
        km_vec s_0 = KM_SPLAT(row[D]);
        km_vec s_1 = KM_SPLAT(row[D]);
        km_vec s_2 = KM_SPLAT(row[D]);
        km_vec s_3 = KM_SPLAT(row[D]);
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            s_0 = KM_FMA(KM_LOAD(points + f * GROUP + 0 * LANES), c, s_0);
            s_1 = KM_FMA(KM_LOAD(points + f * GROUP + 1 * LANES), c, s_1);
            s_2 = KM_FMA(KM_LOAD(points + f * GROUP + 2 * LANES), c, s_2);
            s_3 = KM_FMA(KM_LOAD(points + f * GROUP + 3 * LANES), c, s_3);
        }
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best_0, index_0, s_0, j);
        KM_KEEP(best_1, index_1, s_1, j);
        KM_KEEP(best_2, index_2, s_2, j);
        KM_KEEP(best_3, index_3, s_3, j);
    }
    KM_PUT_LABELS_4(labels + 0 * LANES, index_0, index_1, index_2, index_3);
}

// Labels of a group, as they are kept.

KM_TARGET static void km_labels_get(km_index *out, const km_cpu_slot *slot, int64_t first) {
    memcpy(out, (const km_index *)slot->labels + first, GROUP);
}

KM_TARGET static void km_labels_put(km_cpu_slot *slot, int64_t first, const km_index *labels) {
    memcpy((km_index *)slot->labels + first, labels, GROUP);
}

// A bit for each point of a group whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old) {
    return KM_DIFFER(labels, old);
}

// The places of the bits, `first` for the lowest, join a list. Four at a time: how often they turn is easy to foresee.
KM_TARGET static int64_t km_list(uint16_t *list, int64_t count, uint64_t bits, int64_t first) {
    const int64_t end = count + __builtin_popcountll(bits);
    for (; count < end; count += 4)
        for (int i = 0; i < 4; i++) {
            list[count + i] = (uint16_t)(first + __builtin_ctzll(bits | (uint64_t)1 << (GROUP - 1)));
            bits &= bits - 1;
        }
    return end;
}

enum { TOGETHER = 8 }; // slots that add up all points side by side

// What all slots share of a span.
typedef struct km_lanes_span {
    int64_t first, end;            // of the block's points
    const char *ahead, *ahead_end; // points of the next span that are not fetched yet
    int64_t ahead_step;            // bytes of them to fetch at a time
    int has_rows;                  // all points stand in rows; else listed ones do
    int64_t single;                // points that became rows alone
    double rows[SPAN * GROUP * ROW]
        __attribute__((aligned(64))); // what points add to sums: x, then ones
} km_lanes_span;

// Points of a span up to a part of which those that move become rows one by one: eight at a time cost a quarter.
#define SINGLE_SHARE (ROW % 8 ? 1 : 4)

// What rows hold beside coordinates: as many of the two ones as there is room for.
KM_TARGET static void km_rows_clear(km_lanes_span *span) {
    for (int i = 0; i < SPAN * GROUP; i++)
        for (int f = D; f < ROW; f++) span->rows[i * ROW + f] = f < D + 2;
}

// A point's coordinates become a row.
KM_TARGET static inline void km_row(double *row, const km_real *point) {
    int f = 0;
    for (; f + 4 <= D; f += 4, point += 4 * GROUP)
        *(km_quad *)(row + f) = __builtin_convertvector(KM_FOUR(point), km_quad);
    for (; f < D; f++, point += GROUP) row[f] = (double)point[0];
}

// All points of a span become rows, once.
KM_TARGET static void km_rows_make(km_lanes_span *span, const km_cpu_chunk *block) {
    const km_real *points = (const km_real *)block->points + span->first * D;
    double *rows = span->rows;
    if (span->has_rows) return;
    span->has_rows = 1;
    for (int64_t base = span->first; base < span->end;
         base += GROUP, points += GROUP * D, rows += GROUP * ROW) {
        for (int i = 0; i < GROUP; i++) km_row(rows + i * ROW, points + i);
    }
}

// The ones that a row has no room for.
KM_TARGET static inline void km_add_rest(double *sums, double one) {
    if (D + 2 - ROW > 0) *(km_two *)(sums + ROW) += (km_two){one, D + 2 - ROW > 1 ? one : 0};
}

// A point joins sums.
KM_TARGET static inline void km_add(double *sums, const double *row) {
    int f = 0;
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) += *(const km_quad *)(row + f);
    km_add_rest(sums, 1);
}

// A point leaves sums.
KM_TARGET static inline void km_take(double *sums, const double *row) {
    int f = 0;
    for (; f < ROW; f += 4) *(km_quad *)(sums + f) -= *(const km_quad *)(row + f);
    km_add_rest(sums, -1);
}

// The same with weights: the factor is a weight, or less than 0 to leave.
KM_TARGET static inline void km_add_weighted(double *sums, const double *row, double factor, double points) {
    for (int f = 0; f < D; f++) sums[f] += factor * row[f];
    sums[D] += factor;
    sums[D + 1] += points;
}

// Listed points of a span leave the sums of their old label and join those of the new.
KM_TARGET static void km_move(double *sums, km_lanes_span *span, const km_cpu_chunk *block,
                              const uint16_t *list, int64_t count, const km_index *labels,
                              const km_index *old) {
    const km_real *points = (const km_real *)block->points + span->first * D;
    const double *weights = block->weights ? block->weights + span->first : NULL;
    span->single += count;
    if (span->single > SPAN * GROUP / SINGLE_SHARE) km_rows_make(span, block);
    for (int64_t i = 0; !span->has_rows && i < count; i++)
        km_row(span->rows + i * ROW, points + list[i] / GROUP * (GROUP * D) + list[i] % GROUP);
    for (int64_t i = 0; i < count; i++) {
        const double *row = span->rows + (span->has_rows ? list[i] : i) * ROW;
        double *to = sums + (int64_t)labels[list[i]] * PITCH, *from = sums + (int64_t)old[list[i]] * PITCH;
        if (!weights) {
            km_add(to, row);
            km_take(from, row);
        } else if (weights[list[i]] > 0) {
            km_add_weighted(to, row, weights[list[i]], 1.0);
            km_add_weighted(from, row, -weights[list[i]], -1.0);
        }
    }
}

// All points of a span join the sums of `count` slots: side by side, as additions to one row wait for each other.
KM_TARGET static void km_add_span(km_cpu_slot *const *slots, int count, const km_cpu_chunk *block,
                                  km_lanes_span *span) {
    const int64_t points_count = span->end - span->first;
    const double *weights = block->weights ? block->weights + span->first : NULL;
    km_index labels[TOGETHER][SPAN * GROUP];
    double *sums[TOGETHER];
    km_rows_make(span, block);
    for (int t = 0; t < count; t++) {
        sums[t] = slots[t]->sums;
        for (int64_t base = 0; base < points_count; base += GROUP)
            km_labels_get(labels[t] + base, slots[t], span->first + base);
    }
    if (!weights) {
        for (int64_t i = 0; i < points_count; i++)
            for (int t = 0; t < count; t++)
                km_add(sums[t] + (int64_t)labels[t][i] * PITCH, span->rows + i * ROW);
        return;
    }
    for (int64_t i = 0; i < points_count; i++)
        for (int t = 0; t < count && weights[i] > 0; t++)
            km_add_weighted(sums[t] + (int64_t)labels[t][i] * PITCH, span->rows + i * ROW, weights[i], 1.0);
}

// Fetches a share of the next span's points while this one is worked on: as many as memory delivers meanwhile.
static inline void km_fetch_ahead(km_lanes_span *span) {
    const char *end = span->ahead + span->ahead_step;
    if (end > span->ahead_end) end = span->ahead_end;
    for (; span->ahead < end; span->ahead += 64) __builtin_prefetch(span->ahead);
}

// What is to be fetched while all slots work on a span.
static void km_fetch_start(km_lanes_span *span, const km_cpu_chunk *block) {
    const int64_t next = span->first + SPAN * GROUP;
    const int64_t turns = block->slots_count * SPAN;
    const int64_t points = next + SPAN * GROUP <= block->points_count ? SPAN * GROUP : 0;
    const int64_t bytes = points * D * (int64_t)sizeof(km_real);
    span->ahead = (const char *)((const km_real *)block->points + next * D);
    span->ahead_end = span->ahead + bytes;
    span->ahead_step = (bytes / turns + 63) / 64 * 64;
}

// One slot's labels of a span; in KM_CPU_MOVE its sums, of the points whose label changed.
KM_TARGET static void km_slot_span(km_cpu_slot *slot, const km_cpu_chunk *block, km_lanes_span *span) {
    const km_real *points = (const km_real *)block->points + span->first * D;
    const int moves = slot->mode == KM_CPU_MOVE && slot->sums;
    const int64_t count = span->end - span->first;
    km_index labels[SPAN * GROUP], old[SPAN * GROUP];
    uint16_t list[SPAN * GROUP + 3];
    int64_t listed = 0;
    for (int64_t base = 0; base < count; base += GROUP) {
        km_fetch_ahead(span);
        for (int i = 0; i < GROUP; i += VECTORS * LANES)
            km_nearest(labels + base + i, points + base * D + i, (const km_real *)slot->table, slot->k);
    }
    for (int64_t base = 0; base < count; base += GROUP) {
        uint64_t changed = ~(uint64_t)0 >> (count - base < GROUP ? GROUP - (count - base) : 0);
        if (slot->mode != KM_CPU_FIRST) {
            km_labels_get(old + base, slot, span->first + base);
            changed &= km_changes(labels + base, old + base);
        }
        if (!changed) continue;
        slot->changed += __builtin_popcountll(changed);
        km_labels_put(slot, span->first + base, labels + base);
        if (moves) listed = km_list(list, listed, changed, base);
    }
    if (listed) km_move(slot->sums, span, block, list, listed, labels, old);
}

KM_TARGET static void km_pass(const km_cpu_chunk *block) {
    km_lanes_span span;
    km_cpu_slot *together[TOGETHER];
    km_rows_clear(&span);
    for (int64_t s = 0; s < block->slots_count; s++) block->slots[s].changed = block->slots[s].decided = 0;
    for (int64_t first = 0; first < block->points_count; first += SPAN * GROUP) {
        int count = 0;
        span.first = first;
        span.end = first + SPAN * GROUP < block->points_count ? first + SPAN * GROUP : block->points_count;
        span.has_rows = 0;
        span.single = 0;
        km_fetch_start(&span, block);
        for (int64_t s = 0; s < block->slots_count; s++) {
            km_cpu_slot *slot = &block->slots[s];
            km_slot_span(slot, block, &span);
            if (slot->mode != KM_CPU_MOVE && slot->sums) {
                together[count++] = slot;
            }
            if (count == TOGETHER || (count && s + 1 == block->slots_count)) {
                km_add_span(together, count, block, &span);
                count = 0;
            }
        }
    }
}

// ==== Seeding ==============================================================================================
// k-means++ over a block. Distances in the difference form, in reals; sums of a group's distances in double.

enum { SEED_SPAN = 384 }; // points that stay in the first cache for all chains

// Squared distances of a group to one row.
KM_TARGET static void km_distances(km_real *out, const km_real *points, const km_real *row) {
    for (int i = 0; i < GROUP; i += VECTORS * LANES) {
        km_vec sum_0 = KM_SPLAT(0);
        km_vec sum_1 = KM_SPLAT(0);
        km_vec sum_2 = KM_SPLAT(0);
        km_vec sum_3 = KM_SPLAT(0);
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            const km_vec t_0 = KM_SUB(KM_LOAD(points + f * GROUP + i + 0 * LANES), c);
            sum_0 = KM_FMA(t_0, t_0, sum_0);
            const km_vec t_1 = KM_SUB(KM_LOAD(points + f * GROUP + i + 1 * LANES), c);
            sum_1 = KM_FMA(t_1, t_1, sum_1);
            const km_vec t_2 = KM_SUB(KM_LOAD(points + f * GROUP + i + 2 * LANES), c);
            sum_2 = KM_FMA(t_2, t_2, sum_2);
            const km_vec t_3 = KM_SUB(KM_LOAD(points + f * GROUP + i + 3 * LANES), c);
            sum_3 = KM_FMA(t_3, t_3, sum_3);
        }
        KM_STORE(out + i + 0 * LANES, sum_0);
        KM_STORE(out + i + 1 * LANES, sum_1);
        KM_STORE(out + i + 2 * LANES, sum_2);
        KM_STORE(out + i + 3 * LANES, sum_3);
    }
}

// Squared distances become the smaller of themselves and `least`.
KM_TARGET static void km_least(km_real *distances, const km_real *least) {
    for (int i = 0; i < GROUP; i += LANES) {
        const km_vec a = KM_LOAD(distances + i), b = KM_LOAD(least + i);
        KM_STORE(distances + i, KM_MIN(a, b));
    }
}

// What the sum becomes with each of two candidates, over whole groups: their accumulators wait for each other less
// than those of one.
KM_TARGET static void km_potentials(double *sums, const km_real *points, const km_real *nearest,
                                    const double *weights, int64_t count, const km_real *row_0,
                                    const km_real *row_1) {
    km_real least_0[GROUP], least_1[GROUP];
    double lanes[DOUBLES];
    km_doubles even_0 = KM_D_SPLAT(0), odd_0 = even_0;
    km_doubles even_1 = KM_D_SPLAT(0), odd_1 = even_1;
    for (int64_t base = 0; base < count; base += GROUP, points += GROUP * D) {
        for (int i = 0; i < GROUP; i += VECTORS * LANES) {
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
                const km_vec x_0 = KM_LOAD(points + f * GROUP + i + 0 * LANES);
                const km_vec t_0_0 = KM_SUB(x_0, c_0);
                sum_0_0 = KM_FMA(t_0_0, t_0_0, sum_0_0);
                const km_vec t_1_0 = KM_SUB(x_0, c_1);
                sum_1_0 = KM_FMA(t_1_0, t_1_0, sum_1_0);
                const km_vec x_1 = KM_LOAD(points + f * GROUP + i + 1 * LANES);
                const km_vec t_0_1 = KM_SUB(x_1, c_0);
                sum_0_1 = KM_FMA(t_0_1, t_0_1, sum_0_1);
                const km_vec t_1_1 = KM_SUB(x_1, c_1);
                sum_1_1 = KM_FMA(t_1_1, t_1_1, sum_1_1);
                const km_vec x_2 = KM_LOAD(points + f * GROUP + i + 2 * LANES);
                const km_vec t_0_2 = KM_SUB(x_2, c_0);
                sum_0_2 = KM_FMA(t_0_2, t_0_2, sum_0_2);
                const km_vec t_1_2 = KM_SUB(x_2, c_1);
                sum_1_2 = KM_FMA(t_1_2, t_1_2, sum_1_2);
                const km_vec x_3 = KM_LOAD(points + f * GROUP + i + 3 * LANES);
                const km_vec t_0_3 = KM_SUB(x_3, c_0);
                sum_0_3 = KM_FMA(t_0_3, t_0_3, sum_0_3);
                const km_vec t_1_3 = KM_SUB(x_3, c_1);
                sum_1_3 = KM_FMA(t_1_3, t_1_3, sum_1_3);
            }
            const km_vec near_0 = KM_LOAD(nearest + base + i + 0 * LANES);
            KM_STORE(least_0 + i + 0 * LANES, KM_MIN(sum_0_0, near_0));
            KM_STORE(least_1 + i + 0 * LANES, KM_MIN(sum_1_0, near_0));
            const km_vec near_1 = KM_LOAD(nearest + base + i + 1 * LANES);
            KM_STORE(least_0 + i + 1 * LANES, KM_MIN(sum_0_1, near_1));
            KM_STORE(least_1 + i + 1 * LANES, KM_MIN(sum_1_1, near_1));
            const km_vec near_2 = KM_LOAD(nearest + base + i + 2 * LANES);
            KM_STORE(least_0 + i + 2 * LANES, KM_MIN(sum_0_2, near_2));
            KM_STORE(least_1 + i + 2 * LANES, KM_MIN(sum_1_2, near_2));
            const km_vec near_3 = KM_LOAD(nearest + base + i + 3 * LANES);
            KM_STORE(least_0 + i + 3 * LANES, KM_MIN(sum_0_3, near_3));
            KM_STORE(least_1 + i + 3 * LANES, KM_MIN(sum_1_3, near_3));
        }
        for (int i = 0; i < GROUP; i += 2 * DOUBLES) {
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

// The last group of a block, where it is not whole.
KM_TARGET static void km_seed_rest(km_cpu_chain *chain, const km_real *points, const km_real *nearest,
                                   const double *weights, int64_t count) {
    km_real distances[GROUP];
    for (int64_t a = 0; a < chain->candidates_count; a++) {
        km_distances(distances, points, (const km_real *)chain->candidates + a * D);
        km_least(distances, nearest);
        for (int64_t i = 0; i < count; i++)
            chain->potentials[a] += (double)distances[i] * (weights ? weights[i] : 1.0);
    }
}

// Points that stay in the first cache, for one chain.
KM_TARGET static void km_seed_span(km_cpu_chain *chain, const km_cpu_seeding *seeding, int64_t first,
                                   int64_t count) {
    const km_real *points = (const km_real *)seeding->points + first * D;
    const double *weights = seeding->weights ? seeding->weights + first : NULL;
    km_real *nearest = (km_real *)chain->nearest + first, distances[GROUP];
    for (int64_t base = 0; chain->chosen && base < count; base += GROUP) {
        km_distances(distances, points + base * D, (const km_real *)chain->chosen);
        km_least(nearest + base, distances);
    }
    const int64_t whole = count / GROUP * GROUP;
    for (int64_t a = 0; a < chain->candidates_count; a += 2) {
        const int64_t both = a + 1 < chain->candidates_count; // the last of an odd number goes beside itself
        const km_real *row = (const km_real *)chain->candidates + a * D;
        double sums[2];
        km_potentials(sums, points, nearest, weights, whole, row, row + both * D);
        for (int64_t b = 0; b <= both; b++) chain->potentials[a + b] += sums[b];
    }
    if (whole < count)
        km_seed_rest(chain, points + whole * D, nearest + whole, weights ? weights + whole : NULL,
                     count - whole);
}

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
enum {
    FINISH_SPAN = 512, // points that stay in the first cache for all models
    FINISH_ROW = 4,    // doubles of a centroid
    PAIR = 2 * LANES   // points of two vectors
};

// Of the points of a span.
typedef struct km_finish_span {
    int64_t first, count;        // of the block's points
    int32_t labels[FINISH_SPAN]; // -1 after the last point, up to a whole vector
    double squares[FINISH_SPAN], near[FINISH_SPAN], margins[FINISH_SPAN]; // d1^2, d1, (d2 - d1) / d2
} km_finish_span;

// Two vectors of doubles from point `at` of the block on, against all centroids: exactly as every backend does it.
KM_TARGET static void km_finish_exact(int32_t *labels, double *nearest, double *next,
                                      const km_cpu_finish *finish, const km_cpu_finish_model *model,
                                      int64_t at) {
    const km_real *points = (const km_real *)finish->points + at / GROUP * GROUP * D + at % GROUP;
    km_doubles first_0 = KM_D_SPLAT(HUGE_VAL), first_1 = first_0, second_0 = first_0, second_1 = first_0;
    km_longs index_0 = KM_LONGS(0), index_1 = index_0;
    int64_t found[2 * DOUBLES];
    for (int64_t j = 0; j < model->k; j++) {
        const double *row = model->centroids + j * FINISH_ROW;
        km_doubles a = KM_D_SPLAT(0), b = a;
        for (int f = 0; f < D; f++) {
            const km_doubles c = KM_D_SPLAT(row[f]);
            const km_doubles t = KM_D_SUB(KM_LOAD_DOUBLES(points + f * GROUP), c);
            const km_doubles u = KM_D_SUB(KM_LOAD_DOUBLES(points + f * GROUP + DOUBLES), c);
            a = KM_D_FMA(t, t, a);
            b = KM_D_FMA(u, u, b);
        }
        const km_longs index = KM_LONGS(j);
        KM_NEAREST(first_0, second_0, index_0, a, index);
        KM_NEAREST(first_1, second_1, index_1, b, index);
    }
    KM_PUT_LONGS(found, index_0);
    KM_PUT_LONGS(found + DOUBLES, index_1);
    for (int i = 0; i < 2 * DOUBLES; i++) labels[i] = (int32_t)found[i];
    KM_D_STORE(nearest, first_0);
    KM_D_STORE(nearest + DOUBLES, first_1);
    KM_D_STORE(next, second_0);
    KM_D_STORE(next + DOUBLES, second_1);
}

// The same for two vectors of points; squared distances rounded to km_real.
KM_TARGET static void km_finish_sure(int32_t *labels, km_real *nearest, km_real *next,
                                     const km_cpu_finish *finish, const km_cpu_finish_model *model,
                                     int64_t at) {
    double first[PAIR], second[PAIR];
    for (int i = 0; i < PAIR; i += 2 * DOUBLES)
        km_finish_exact(labels + i, first + i, second + i, finish, model, at + i);
    for (int i = 0; i < PAIR; i++) {
        nearest[i] = (km_real)first[i];
        next[i] = (km_real)second[i];
        if (model->squares && at + i < finish->points_count) model->squares[at + i] = first[i];
    }
}

// Labels of a span, and what is summed of distances.
KM_TARGET static void km_finish_assign(km_finish_span *span, const km_cpu_finish *finish,
                                       const km_cpu_finish_model *model) {
    for (int64_t at = 0; at < span->count; at += PAIR) {
        km_real nearest[PAIR], next[PAIR];
        int32_t *labels = span->labels + at;
        km_finish_sure(labels, nearest, next, finish, model, span->first + at);
        for (int i = 0; i < PAIR; i += LANES) {
            const km_vec first = KM_LOAD(nearest + i);
            const km_vec second =
                KM_LOAD((model->k > 1 ? next : nearest) + i); // of one centroid there is no margin
            const km_vec d1 = KM_SQRT(first), d2 = KM_SQRT(second);
            const km_vec margin = KM_QUOTIENT(KM_SUB(d2, d1), d2);
            KM_STORE_WIDE(span->near + at + i, d1);
            KM_STORE_WIDE(span->margins + at + i, margin);
            KM_STORE(span->squares + at + i, KM_LOAD(nearest + i));
        }
    }
}

// Sums of a span for clusters from .. from + 2 - 1: each takes the points that have its label.
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
        KM_D_ADD_WHERE(near_0, own_0, span->near + at);
        KM_D_ADD_WHERE(margin_0, own_0, span->margins + at);
        const km_mask own_1 = KM_EQUAL(labels, j_1);
        KM_D_ADD_WHERE(square_1, own_1, span->squares + at);
        KM_COUNT_WHERE(count_1, own_1);
        KM_D_ADD_WHERE(near_1, own_1, span->near + at);
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

KM_TARGET static void km_finish_few(km_finish_span *span, const km_cpu_finish_model *model) {
    int64_t from = 0;
    for (int64_t i = span->count; i % LANES; i++) span->labels[i] = -1;
    for (; from < model->k; from += 2) km_finish_sums_2(span, model, from);
}

// Sums of a span for any number of clusters, point by point.
static void km_finish_many(const km_finish_span *span, const km_cpu_finish_model *model,
                           const double *weights) {
    for (int64_t i = 0; i < span->count; i++) {
        double *sum = model->sums + span->labels[i] * (int64_t)KM_CPU_SUMS;
        const double weight = weights ? weights[i] : 1.0;
        sum[KM_CPU_SUM_WEIGHT] += weight;
        sum[KM_CPU_SUM_COUNT] += 1.0;
        sum[KM_CPU_SUM_SSE] += weight * span->squares[i];
        sum[KM_CPU_SUM_DISTANCE] += weight * span->near[i];
        sum[KM_CPU_SUM_MARGIN] += weight * span->margins[i];
    }
}

// What is summed of a span's points, whose labels and distances are known.
KM_TARGET static void km_finish_sum(km_finish_span *span, const km_cpu_finish *finish,
                                    const km_cpu_finish_model *model) {
    if (model->k <= KM_CPU_FEW && !finish->weights)
        km_finish_few(span, model);
    else
        km_finish_many(span, model, finish->weights ? finish->weights + span->first : NULL);
}

KM_TARGET static void km_finish(const km_cpu_finish *finish) {
    km_finish_span span;
    for (span.first = 0; span.first < finish->points_count; span.first += FINISH_SPAN) {
        span.count = finish->points_count - span.first;
        if (span.count > FINISH_SPAN) span.count = FINISH_SPAN;
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
// What the engine looks for, whatever the spec is called and lists: one module serves them all.
#ifdef __cplusplus
extern "C"
#endif
    const km_cpu_kernels km_kernels = {KM_CPU_ABI, sizeof(km_real), 2,         256,   D,
                                    D,    GROUP,           1, 0, 0,
                                    km_pass,    km_seed,         km_finish};

// ==== The host part: what the header declares ==============================================================
#ifndef KM_KERNELS_ONLY
#include "float64.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread char host_text[512];

const char *float64_error(void) {
    return host_text;
}

static __attribute__((format(printf, 2, 3))) int host_fail(int kind, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(host_text, sizeof host_text, format, values);
    va_end(values);
    return kind;
}

static const int host_ks[FLOAT64_KS] = {
    2,
    3,
    4,
    5,
    6,
    7,
    8,
};
static const int host_offsets[FLOAT64_KS] = {
    0,
    2,
    5,
    9,
    14,
    20,
    27,
};

// What the points are, and how they are moved: x becomes (x - centre[f]) * factor. The centre is the mean rounded to a
// multiple of a power of two, so that data on a grid stay on it, and factor is a power of two that brings the largest
// coordinate between 1/2 and 1: both keep x as exact as it is.
typedef struct host_data {
    double centre[FLOAT64_FEATURES], mean[FLOAT64_FEATURES], variance[FLOAT64_FEATURES];
    double low[FLOAT64_FEATURES], high[FLOAT64_FEATURES];
    double factor, total_weight;
    double total_square; // sum of w |x|^2, once moved
} host_data;

static double host_centre(double mean, double variance, double low, double high) {
    int exponent;
    if (low == high) return low;
    double deviation = sqrt(variance);
    if (!(deviation > 0) || deviation > DBL_MAX) return mean;
    frexp(deviation, &exponent);
    double step = ldexp(1.0, exponent - 2), centre = rint(mean / step) * step;
    return fabs(centre) <= DBL_MAX ? centre : mean;
}

// From sums of w (x - middle) and w (x - middle)^2, and from the smallest and largest values, d of each. Returns 0
// where the middle is so far from the mean that digits of the variance are lost.
static int host_take_statistics(host_data *data, const double *sums, const double *middle) {
    int near = 1;
    for (int f = 0; f < FLOAT64_FEATURES; f++) {
        double away = sums[f] / data->total_weight;
        data->mean[f] = middle[f] + away;
        data->variance[f] = sums[FLOAT64_FEATURES + f] / data->total_weight - away * away;
        data->low[f] = sums[2 * FLOAT64_FEATURES + f];
        data->high[f] = sums[3 * FLOAT64_FEATURES + f];
        near &= away * away <= 64 * data->variance[f];
    }
    return near;
}

static int host_choose_move(host_data *data) {
    double largest = 0;
    int exponent;
    for (int f = 0; f < FLOAT64_FEATURES; f++) {
        double centre = host_centre(data->mean[f], data->variance[f], data->low[f], data->high[f]);
        data->centre[f] = centre;
        largest = fmax(largest, fmax(fabs(data->low[f] - centre), fabs(data->high[f] - centre)));
    }
    if (!(data->total_weight > 0))
        return host_fail(FLOAT64_DATA, "the weights add up to nothing: some point must weigh more than 0");
    if (!(largest * largest * data->total_weight <= DBL_MAX))
        return host_fail(FLOAT64_DATA,
                         "squares of values like %g do not fit a double: divide the points by a power of ten",
                         largest);
    frexp(largest, &exponent);
    data->factor = largest > 0 ? ldexp(1.0, -exponent) : 1.0;
    return FLOAT64_OK;
}

// Squared shifts of the centroids that leave a K at rest.
static double host_shift_max(const host_data *data, double tolerance) {
    double sum = 0;
    for (int f = 0; f < FLOAT64_FEATURES; f++) sum += data->variance[f] * data->factor * data->factor;
    return tolerance * (sum / FLOAT64_FEATURES);
}

// How far the mean of n equal points may lie from them by rounding, squared, for points of size 1.
static double host_rounding2(long long n) {
    const double relative = (double)(n < 65536 ? n : 65536) * 2.220446049250313e-16;
    return relative * relative;
}

static int host_by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { HOST_SAMPLE = 128 };

// |x|^2 of a usual point: the median of a sample, or the next above it that is not zero.
static double host_typical(double *squares, int count) {
    int at = count / 2;
    qsort(squares, (size_t)count, sizeof *squares, host_by_value);
    while (at + 1 < count && !(squares[at] > 0)) at++;
    return squares[at];
}

// Candidates of a pick of k-means++: 1, then 2 + ln(pick + 1). The first K picks seed K, whatever the largest K is.
static int host_candidates(long long pick) {
    static const int steps[] = {3, 8, 21, 55, 149, 404, 1097, 2981, 8104, 22027, 59875};
    int count = 2;
    if (pick == 0) return 1;
    for (int i = 0; i < 11 && pick + 1 >= steps[i]; i++) count++;
    return count;
}

static int host_check(const float64_fit *fit, const void *points, long long n) {
    if (!fit || !points) return host_fail(FLOAT64_ARGUMENT, "%s is NULL", fit ? "points" : "fit");
    if (n < FLOAT64_K_MAX)
        return host_fail(FLOAT64_DATA,
                         "%lld points are fewer than the largest K, %d: give more, or emit a shorter list", n,
                         (int)FLOAT64_K_MAX);
    return FLOAT64_OK;
}

static int host_check_index(int index) {
    if (index >= 0 && index < FLOAT64_KS) return FLOAT64_OK;
    return host_fail(FLOAT64_ARGUMENT, "entry %d of a list of %d K: the first is 0", index, (int)FLOAT64_KS);
}

// A coordinate where the points are, and back as it was given.
static float64_real host_there(const host_data *data, float64_real x, int f) {
    return (float64_real)(((double)x - data->centre[f]) * data->factor);
}

static float64_real host_back(const host_data *data, double x, int f) {
    return (float64_real)(x / data->factor + data->centre[f]);
}

// Of a table of first centroids, number i.
static int host_check_first(const host_data *data, double x, long long i) {
    const int f = (int)(i % FLOAT64_FEATURES);
    if (fabs((x - data->centre[f]) * data->factor) <= 1048576.0) return FLOAT64_OK;
    return host_fail(FLOAT64_DATA,
                     "row %lld of the first centroids, feature %d: %g is no number among the points",
                     i / FLOAT64_FEATURES, f, x);
}
#ifdef _OPENMP
#include <omp.h>
#endif

#define KM_BOTH static inline
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
KM_BOTH unsigned long long km_mix64(unsigned long long z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Uniform in [0, 1), 53 bits.
KM_BOTH double km_draw(unsigned long long seed, unsigned long long restart, unsigned long long pick,
                       unsigned long long candidate) {
    unsigned long long z = km_mix64(seed + 0x9e3779b97f4a7c15ull);
    z = km_mix64(z + restart * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull);
    z = km_mix64(z + pick * 0x9e3779b97f4a7c15ull + 0xd1b54a32d192ed03ull);
    z = km_mix64(z + candidate * 0x9e3779b97f4a7c15ull + 0x8cb92ba72f3d8dd7ull);
    return (double)(z >> 11) * (1.0 / 9007199254740992.0);
}

#endif
// A slot between two passes: what is known of it, and what becomes of it. Host and device compile this.
#ifndef KM_SLOT_H
#define KM_SLOT_H

typedef enum km_slot_phase {
    KM_SLOT_IDLE,    // No run, or its run is done and was read. Costs nothing in a pass.
    KM_SLOT_RUNNING, // Iterating.
    KM_SLOT_LAST,    // Stopped moving; one more pass evaluates the final centroids.
    KM_SLOT_EMPTY,   // Paused: clusters without points, which must be given some.
    KM_SLOT_DONE     // Evaluated: cost, weights and centroids belong together.
} km_slot_phase;

// A slot after a pass and its update. Cost is sum w |x - c|^2 of the centroids that the last pass used, computed as
// total_square + sum_j (n_j |c_j|^2 - 2 c_j . S_j) in double; for a DONE slot it is the run's inertia.
typedef struct km_slot_state {
    km_slot_phase phase;
    int converged;         // Stopped by shift or changes, not by max_iter.
    int at_limit;          // max_iter is reached: the next pass is the last.
    long long iterations;  // Updates of this run so far.
    long long empty_count; // Clusters without weight in the last pass.
    double cost;
    double shift; // Of the last update.
} km_slot_state;

// What a pass found of a slot, and its update did.
typedef struct km_slot_found {
    double cost;           // by the sums: rounding may leave it below 0
    double shift;          // of the update; a slot that evaluates its final centroids has none
    long long empty_count; // clusters without weight ...
    int waiting;           // ... some of which may be given a point
    int few_changes;       // fewer labels changed than the run goes on for
} km_slot_found;

KM_BOTH int km_slot_is_active(km_slot_phase phase) {
    return phase == KM_SLOT_RUNNING || phase == KM_SLOT_LAST;
}

// What becomes of an active slot after a pass.
KM_BOTH void km_slot_decide(km_slot_state *slot, const km_slot_found *found, double shift_max,
                            long long max_iter) {
    slot->cost = found->cost > 0.0 ? found->cost : 0.0;
    slot->empty_count = found->empty_count;
    if (slot->phase == KM_SLOT_LAST) {
        slot->phase = found->waiting ? KM_SLOT_EMPTY : KM_SLOT_DONE;
        return;
    }
    slot->shift = found->shift;
    slot->iterations += 1;
    slot->at_limit = slot->iterations >= max_iter;
    if (found->waiting) {
        slot->phase = KM_SLOT_EMPTY;
    } else if (found->shift == 0.0) {
        slot->phase = KM_SLOT_DONE; // nothing moved: this pass has evaluated the final centroids
        slot->converged = 1;
    } else {
        if (found->shift <= shift_max || found->few_changes) slot->converged = 1;
        if (slot->converged || slot->at_limit) slot->phase = KM_SLOT_LAST;
    }
}

#endif

enum {
    HOST_BLOCK = 65536,                      // points of a block: sums run over blocks, which are added in their order
    HOST_PASS = 16384,                       // points of a block of a pass
    HOST_PART = GROUP > 1024 ? GROUP : 1024, // points among which k-means++ draws one by one
    HOST_PARTS = HOST_BLOCK / HOST_PART,     // of a block
    HOST_CANDIDATES = 13,                    // of a pick, at most
    HOST_REFRESH = 32                        // sums start again from zero after so many updates
};

// One K.
typedef struct host_slot {
    int k;
    km_slot_state state;
    int settled; // the centroids are the means of their points
    int mode;    // of the next pass: KM_CPU_FIRST ...
    int labels_bytes;
    int64_t changed;            // labels
    double *centroids, *totals; // k rows of D, and of PITCH
    km_real *table;
    void *labels;
    unsigned char *given_up; // per cluster: no point was found for it
} host_slot;

struct float64_fit {
    long long n;
    host_data data;
    km_real *points; // in groups, value f of point i of a group at [f * GROUP + i]
    double *weights; // or NULL
    host_slot slots[FLOAT64_KS];
    int started, seats; // seats: blocks of a pass that are worked on together
    int64_t sums_count;
    double *sums;       // of each seat
    km_cpu_slot *lists; // of each seat
};

static int64_t host_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t host_groups(long long n) {
    return (n + GROUP - 1) / GROUP;
}

static int64_t host_parts(long long n, int64_t size) {
    return (n + size - 1) / size;
}

static void *host_alloc(int64_t count, int64_t bytes) {
    const int64_t size = (count * bytes + 127) / 64 * 64; // vectors may reach behind the last value
    void *memory = aligned_alloc(64, (size_t)size);
    if (memory) memset(memory, 0, (size_t)size);
    return memory;
}

static int host_no_memory(int64_t bytes) {
    return host_fail(FLOAT64_MEMORY, "not enough memory for %.1f MiB: give fewer points",
                     (double)bytes / 1048576);
}

// A point's first value; the next ones lie GROUP apart.
static const km_real *host_point(const float64_fit *fit, int64_t i) {
    return fit->points + i / GROUP * GROUP * D + i % GROUP;
}

static double host_weight(const float64_fit *fit, int64_t i) {
    return fit->weights ? fit->weights[i] : 1.0;
}

static const double *host_weights_from(const float64_fit *fit, int64_t i) {
    return fit->weights ? fit->weights + i : NULL;
}

// Points come home ------------------------------------------------------------------------------------------------

// One block: sums of w (x - middle) and w (x - middle)^2, smallest and largest values, as they are given.
static void host_block_sums(double *out, const km_real *points, const double *weights, int64_t count,
                            const double *middle) {
    for (int f = 0; f < D; f++) {
        out[f] = out[D + f] = 0;
        out[2 * D + f] = DBL_MAX;
        out[3 * D + f] = -DBL_MAX;
    }
    for (int64_t i = 0; i < count; i++)
        for (int f = 0; f < D; f++) {
            const double x = (double)points[i * D + f], away = x - middle[f], w = weights ? weights[i] : 1.0;
            out[f] += w * away;
            out[D + f] += w * away * away;
            out[2 * D + f] = x < out[2 * D + f] ? x : out[2 * D + f];
            out[3 * D + f] = x > out[3 * D + f] ? x : out[3 * D + f];
        }
}

static int host_statistics(float64_fit *fit, const km_real *points) {
    const int64_t blocks = host_parts(fit->n, HOST_BLOCK);
    double *sums = (double *)host_alloc((blocks + 1) * 4 * D, sizeof *sums), *all = sums + blocks * 4 * D;
    double *middle = (double *)host_alloc(D, sizeof *middle);
    int is_near = 0, failed = !sums || !middle;
    for (int f = 0; f < D && !failed; f++) middle[f] = (double)points[f];
    for (int turn = 0; turn < 2 && !failed && !is_near; turn++) {
#ifdef _OPENMP
#pragma omp parallel for
#endif
        for (int64_t b = 0; b < blocks; b++)
            host_block_sums(sums + b * 4 * D, points + b * HOST_BLOCK * D,
                            host_weights_from(fit, b * HOST_BLOCK),
                            host_min(HOST_BLOCK, fit->n - b * HOST_BLOCK), middle);
        memcpy(all, sums, 4 * D * sizeof *all);
        for (int64_t b = 1; b < blocks; b++)
            for (int f = 0; f < D; f++) {
                const double *own = sums + b * 4 * D;
                all[f] += own[f];
                all[D + f] += own[D + f];
                all[2 * D + f] = fmin(all[2 * D + f], own[2 * D + f]);
                all[3 * D + f] = fmax(all[3 * D + f], own[3 * D + f]);
            }
        is_near = host_take_statistics(&fit->data, all, middle);
        for (int f = 0; f < D; f++) middle[f] = fit->data.mean[f];
    }
    free(sums);
    free(middle);
    return failed ? host_no_memory((blocks + 2) * 32 * D) : host_choose_move(&fit->data);
}

// What cannot be clustered: the first number that is not finite.
static int host_check_values(float64_fit *fit, const km_real *points) {
    int64_t bad = INT64_MAX;
#ifdef _OPENMP
#pragma omp parallel for reduction(min : bad)
#endif
    for (int64_t i = 0; i < fit->n * D; i++)
        if (!(fabs((double)points[i]) <= DBL_MAX)) bad = host_min(bad, i);
    if (bad < INT64_MAX)
        return host_fail(FLOAT64_DATA, "feature %lld of point %lld is no finite number: leave such points out",
                         (long long)(bad % D), (long long)(bad / D));
    for (int64_t i = 0; i < fit->n; i++) {
        if (!(host_weight(fit, i) >= 0 && host_weight(fit, i) <= DBL_MAX))
            return host_fail(FLOAT64_DATA, "the weight of point %lld is negative or no finite number",
                             (long long)i);
        fit->data.total_weight += host_weight(fit, i);
    }
    return FLOAT64_OK;
}

static void host_move(float64_fit *fit, const km_real *points) {
    const host_data *data = &fit->data;
#ifdef _OPENMP
#pragma omp parallel for
#endif
    for (int64_t g = 0; g < host_groups(fit->n); g++)
        for (int64_t i = g * GROUP; i < host_min((g + 1) * GROUP, fit->n); i++)
            for (int f = 0; f < D; f++)
                fit->points[(g * D + f) * GROUP + i % GROUP] =
                    (km_real)(((double)points[i * D + f] - data->centre[f]) * data->factor);
}

static int host_reserve(float64_fit *fit) {
    int64_t rows = 0, bytes = host_groups(fit->n) * GROUP * (D + 1) * (int64_t)sizeof(km_real);
    int threads = 1, failed = 0;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    for (int i = 0; i < FLOAT64_KS; i++) {
        host_slot *slot = &fit->slots[i];
        const int64_t k = slot->k = host_ks[i];
        slot->labels_bytes = k <= 256 ? 1 : k <= 65536 ? 2 : 4;
        slot->centroids = (double *)host_alloc(k * D, sizeof *slot->centroids);
        slot->totals = (double *)host_alloc(k * PITCH, sizeof *slot->totals);
        slot->table = (km_real *)host_alloc(KM_CPU_TABLE_ROWS(k) * (D + 1), sizeof *slot->table);
        slot->labels = host_alloc(host_groups(fit->n) * GROUP, slot->labels_bytes);
        slot->given_up = (unsigned char *)host_alloc(k, 1);
        failed |= !slot->centroids || !slot->totals || !slot->table || !slot->labels || !slot->given_up;
        rows += k;
    }
    // Sums of each seat: as many seats as keep threads busy, within reason.
    fit->sums_count = rows * PITCH;
    fit->seats = (int)host_min(host_min(4 * threads, host_parts(fit->n, HOST_PASS)),
                               268435456 / (fit->sums_count * 8) + 1);
    fit->sums = (double *)host_alloc(fit->seats * fit->sums_count, sizeof *fit->sums);
    fit->lists = (km_cpu_slot *)host_alloc(fit->seats * FLOAT64_KS, sizeof *fit->lists);
    fit->points = (km_real *)host_alloc(host_groups(fit->n) * GROUP * D, sizeof *fit->points);
    failed |= !fit->sums || !fit->lists || !fit->points;
    return failed ? host_no_memory(bytes + fit->seats * fit->sums_count * 8) : FLOAT64_OK;
}

static int host_fill(float64_fit *fit, const km_real *points, const double *weights) {
    int failed;
    if (weights) {
        fit->weights = (double *)host_alloc(host_groups(fit->n) * GROUP, sizeof *fit->weights);
        if (!fit->weights) return host_no_memory(fit->n * 8);
        memcpy(fit->weights, weights, (size_t)fit->n * sizeof *weights);
    }
    if ((failed = host_check_values(fit, points)) || (failed = host_statistics(fit, points)) ||
        (failed = host_reserve(fit)))
        return failed;
    host_move(fit, points);
    return FLOAT64_OK;
}

static int host_check_machine(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return host_fail(FLOAT64_DEVICE, "this machine has no AVX2: emit with --target cpu:generic");
    return FLOAT64_OK;
}

int float64_create(float64_fit **out, const float64_real *points, const double *weights, long long n) {
    int failed;
    if (!out) return host_fail(FLOAT64_ARGUMENT, "out is NULL");
    float64_fit *fit = *out = (float64_fit *)calloc(1, sizeof *fit);
    if (!fit) return host_no_memory(sizeof *fit);
    fit->n = n;
    failed = host_check(fit, points, n);
    if (!failed) failed = host_check_machine();
    if (!failed) failed = host_fill(fit, points, weights);
    if (failed) float64_destroy(out);
    return failed;
}

void float64_destroy(float64_fit **out) {
    float64_fit *fit = out ? *out : NULL;
    if (!fit) return;
    for (int i = 0; i < FLOAT64_KS; i++) {
        free(fit->slots[i].centroids);
        free(fit->slots[i].totals);
        free(fit->slots[i].table);
        free(fit->slots[i].labels);
        free(fit->slots[i].given_up);
    }
    free(fit->points);
    free(fit->weights);
    free(fit->sums);
    free(fit->lists);
    free(fit);
    *out = NULL;
}

// First centroids -------------------------------------------------------------------------------------------------

// Rows of the centroids, and behind each -|c|^2 / 2; then rows that never win.
static void host_put_table(km_real *table, const double *centroids, int k) {
    for (int j = 0; j < KM_CPU_TABLE_ROWS(k); j++) {
        double square = 0;
        for (int f = 0; f < D; f++) {
            const double c = j < k ? centroids[(int64_t)j * D + f] : 0.0;
            square += c * c;
            table[(int64_t)j * (D + 1) + f] = (km_real)c;
        }
        table[(int64_t)j * (D + 1) + D] = j < k ? (km_real)(-0.5 * square) : (km_real)-HUGE_VAL;
    }
}

static void host_begin(host_slot *slot) {
    memset(slot->given_up, 0, (size_t)slot->k);
    host_put_table(slot->table, slot->centroids, slot->k);
    memset(&slot->state, 0, sizeof slot->state);
    slot->state.phase = KM_SLOT_RUNNING;
    slot->mode = KM_CPU_FIRST;
    slot->changed = slot->settled = 0;
}

int float64_start(float64_fit *fit, const float64_real *centroids) {
    int failed = host_check(fit, centroids, FLOAT64_K_MAX);
    if (failed) return failed;
    for (int64_t i = 0; i < FLOAT64_ROWS * (int64_t)D; i++)
        if ((failed = host_check_first(&fit->data, (double)centroids[i], i))) return failed;
    for (int q = 0; q < FLOAT64_KS; q++) {
        host_slot *slot = &fit->slots[q];
        for (int64_t i = 0; i < slot->k * (int64_t)D; i++)
            slot->centroids[i] =
                (double)host_there(&fit->data, centroids[host_offsets[q] * (int64_t)D + i], (int)(i % D));
        host_begin(slot);
    }
    fit->started = 1;
    return FLOAT64_OK;
}

// k-means++: what is drawn from, by parts and by blocks, and what it would become with each candidate.
typedef struct host_chain {
    int64_t parts, blocks;
    double *shares,
        *block_shares;  // sums of w times squared distance to the nearest pick; of w before the first
    double *potentials; // parts x HOST_CANDIDATES
    km_real *nearest;
    km_real *rows; // candidates, and behind them the last pick
    int64_t candidates[HOST_CANDIDATES];
    int has_pick;
} host_chain;

static km_real *host_row(host_chain *chain, int c) {
    return chain->rows + c * (int64_t)D;
}

static void host_get_row(km_real *row, const float64_fit *fit, int64_t i) {
    const km_real *x = host_point(fit, i);
    for (int f = 0; f < D; f++) row[f] = x[(int64_t)f * GROUP];
}

static void host_add_parts(host_chain *chain) {
    for (int64_t b = 0; b < chain->blocks; b++) {
        chain->block_shares[b] = 0;
        for (int64_t p = b * HOST_PARTS; p < host_min((b + 1) * HOST_PARTS, chain->parts); p++)
            chain->block_shares[b] += chain->shares[p];
    }
}

// w times the squared distance to the nearest pick, of which `nearest` does not know the last.
static double host_share(const float64_fit *fit, host_chain *chain, int64_t i) {
    const km_real *x = host_point(fit, i), *row = host_row(chain, HOST_CANDIDATES);
    km_real square = 0;
    if (!chain->has_pick) return host_weight(fit, i);
    for (int f = 0; f < D; f++) {
        const km_real t = x[(int64_t)f * GROUP] - row[f];
        square += t * t;
    }
    return host_weight(fit, i) * (double)(square < chain->nearest[i] ? square : chain->nearest[i]);
}

// The first of `count` shares at which the running sum exceeds the target, or the last that is not 0. *running: the sum
// before it.
static int64_t host_draw_among(double *running, const double *shares, int64_t first, int64_t count,
                               double target) {
    int64_t taken = first;
    double sum = *running;
    for (int64_t i = first; i < first + count; i++) {
        if (!(shares[i] > 0)) continue;
        taken = i;
        *running = sum;
        sum += shares[i];
        if (sum > target) break;
    }
    return taken;
}

static int64_t host_draw(const float64_fit *fit, host_chain *chain, double target) {
    double running = 0;
    const int64_t block = host_draw_among(&running, chain->block_shares, 0, chain->blocks, target);
    const int64_t first_part = block * HOST_PARTS;
    const int64_t part = host_draw_among(&running, chain->shares, first_part,
                                         host_min(HOST_PARTS, chain->parts - first_part), target);
    int64_t pick = part * HOST_PART;
    for (int64_t i = part * HOST_PART; i < host_min((part + 1) * HOST_PART, fit->n); i++) {
        const double share = host_share(fit, chain, i);
        if (!(share > 0)) continue;
        pick = i;
        running += share;
        if (running > target) break;
    }
    return pick;
}

// One read of the points: what would be left with each candidate.
static void host_weigh(const float64_fit *fit, host_chain *chain, int count) {
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 16)
#endif
    for (int64_t p = 0; p < chain->parts; p++) {
        const int64_t first = p * HOST_PART;
        km_cpu_chain one = {chain->nearest + first, chain->has_pick ? host_row(chain, HOST_CANDIDATES) : NULL,
                            chain->rows, count, chain->potentials + p * HOST_CANDIDATES};
        km_cpu_seeding work = {fit->points + first * D,
                               host_weights_from(fit, first),
                               host_min(HOST_PART, fit->n - first),
                               D,
                               GROUP,
                               &one,
                               1};
        km_kernels.seed(&work);
    }
}

// The candidate that leaves the least becomes the pick.
static int64_t host_choose(const float64_fit *fit, host_chain *chain, int count) {
    int best = 0;
    double least = HUGE_VAL;
    for (int c = 0; c < count; c++) {
        double sum = 0;
        for (int64_t b = 0; b < chain->blocks; b++) {
            double block = 0;
            for (int64_t p = b * HOST_PARTS; p < host_min((b + 1) * HOST_PARTS, chain->parts); p++)
                block += chain->potentials[p * HOST_CANDIDATES + c];
            sum += block;
        }
        if (sum < least) {
            least = sum;
            best = c;
        }
    }
    for (int64_t p = 0; p < chain->parts; p++)
        chain->shares[p] = chain->potentials[p * HOST_CANDIDATES + best];
    host_add_parts(chain);
    host_get_row(host_row(chain, HOST_CANDIDATES), fit, chain->candidates[best]);
    chain->has_pick = 1;
    return chain->candidates[best];
}

static int64_t host_pick(const float64_fit *fit, host_chain *chain, unsigned long long seed, int pick) {
    const int count = host_candidates(pick);
    double total = 0;
    for (int64_t b = 0; b < chain->blocks; b++) total += chain->block_shares[b];
    if (!(total > 0)) // no more distinct points
        return host_min((int64_t)(km_draw(seed, 0, (unsigned long long)pick, 0) * (double)fit->n),
                        fit->n - 1);
    for (int c = 0; c < count; c++) {
        chain->candidates[c] =
            host_draw(fit, chain, km_draw(seed, 0, (unsigned long long)pick, (unsigned long long)c) * total);
        host_get_row(host_row(chain, c), fit, chain->candidates[c]);
    }
    host_weigh(fit, chain, count);
    return host_choose(fit, chain, count);
}

static int host_chain_init(host_chain *chain, const float64_fit *fit) {
    memset(chain, 0, sizeof *chain);
    chain->parts = host_parts(fit->n, HOST_PART);
    chain->blocks = host_parts(fit->n, HOST_BLOCK);
    chain->shares = (double *)host_alloc(chain->parts, sizeof *chain->shares);
    chain->block_shares = (double *)host_alloc(chain->blocks, sizeof *chain->block_shares);
    chain->potentials = (double *)host_alloc(chain->parts * HOST_CANDIDATES, sizeof *chain->potentials);
    chain->nearest = (km_real *)host_alloc(host_groups(fit->n) * GROUP, sizeof *chain->nearest);
    chain->rows = (km_real *)host_alloc((HOST_CANDIDATES + 1) * (int64_t)D, sizeof *chain->rows);
    if (!chain->shares || !chain->block_shares || !chain->potentials || !chain->nearest || !chain->rows)
        return host_no_memory(fit->n * (int64_t)sizeof(km_real));
    for (int64_t i = 0; i < host_groups(fit->n) * GROUP; i++) chain->nearest[i] = (km_real)HUGE_VAL;
    for (int64_t p = 0; p < chain->parts; p++)
        for (int64_t i = p * HOST_PART; i < host_min((p + 1) * HOST_PART, fit->n); i++)
            chain->shares[p] += host_weight(fit, i);
    host_add_parts(chain);
    return FLOAT64_OK;
}

static void host_chain_free(host_chain *chain) {
    free(chain->shares);
    free(chain->block_shares);
    free(chain->potentials);
    free(chain->nearest);
    free(chain->rows);
}

int float64_seed(float64_fit *fit, unsigned long long seed) {
    host_chain chain;
    int failed = host_check(fit, fit, FLOAT64_K_MAX);
    if (failed) return failed;
    failed = host_chain_init(&chain, fit);
    for (int pick = 0; pick < FLOAT64_K_MAX && !failed; pick++) {
        const km_real *x = host_point(fit, host_pick(fit, &chain, seed, pick));
        for (int q = 0; q < FLOAT64_KS; q++)
            for (int f = 0; f < D && pick < host_ks[q]; f++)
                fit->slots[q].centroids[(int64_t)pick * D + f] = (double)x[(int64_t)f * GROUP];
    }
    host_chain_free(&chain);
    if (failed) return failed;
    for (int q = 0; q < FLOAT64_KS; q++) host_begin(&fit->slots[q]);
    fit->started = 1;
    return FLOAT64_OK;
}

// Passes ----------------------------------------------------------------------------------------------------------

// One block of points: labels of every K that is not at rest, and what they change of its sums.
static void host_pass_block(float64_fit *fit, int64_t block, km_cpu_slot *list, double *sums) {
    const int64_t first = block * HOST_PASS;
    int count = 0;
    for (int q = 0; q < FLOAT64_KS; q++) {
        const host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        km_cpu_slot *one = &list[count++];
        memset(one, 0, sizeof *one);
        one->k = slot->k;
        one->k_index = q;
        one->table = slot->table;
        one->labels = (char *)slot->labels + first * slot->labels_bytes;
        one->sums = sums + host_offsets[q] * (int64_t)PITCH;
        one->mode = slot->mode;
        one->labels_bytes = slot->labels_bytes;
    }
    km_cpu_chunk work = {fit->points + first * D,
                         host_weights_from(fit, first),
                         host_min(HOST_PASS, fit->n - first),
                         D,
                         GROUP,
                         list,
                         count,
                         NULL};
    km_kernels.pass(&work);
}

// Sums of a block join the totals, and are zero again.
static void host_collect(float64_fit *fit, const km_cpu_slot *list) {
    for (int q = 0; q < FLOAT64_KS; q++) {
        host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        slot->changed += list->changed;
        for (int64_t i = 0; i < slot->k * (int64_t)PITCH; i++) slot->totals[i] += list->sums[i];
        memset(list->sums, 0, (size_t)(slot->k * (int64_t)PITCH) * sizeof *list->sums);
        list++;
    }
}

static void host_pass(float64_fit *fit) {
    const int64_t blocks = host_parts(fit->n, HOST_PASS);
    for (int q = 0; q < FLOAT64_KS; q++) {
        host_slot *slot = &fit->slots[q];
        slot->changed = 0;
        if (km_slot_is_active(slot->state.phase) && slot->mode != KM_CPU_MOVE)
            memset(slot->totals, 0, (size_t)(slot->k * (int64_t)PITCH) * sizeof *slot->totals);
    }
    for (int64_t base = 0; base < blocks; base += fit->seats) {
        const int64_t here = host_min(fit->seats, blocks - base);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1)
#endif
        for (int64_t s = 0; s < here; s++)
            host_pass_block(fit, base + s, fit->lists + s * FLOAT64_KS, fit->sums + s * fit->sums_count);
        for (int64_t s = 0; s < here; s++) host_collect(fit, fit->lists + s * FLOAT64_KS);
    }
    for (int q = 0; q < FLOAT64_KS; q++) {
        host_slot *slot = &fit->slots[q];
        if (!km_slot_is_active(slot->state.phase)) continue;
        slot->mode = KM_CPU_MOVE;
        for (int64_t j = 0; j < slot->k; j++) // who lost his last point starts again from exact zeros
            if (slot->totals[j * PITCH + D + 1] == 0)
                memset(slot->totals + j * PITCH, 0, PITCH * sizeof *slot->totals);
    }
}

// Whether a cluster has lost its last point, and may get another.
static int host_is_waiting(const host_slot *slot, int64_t j) {
    return slot->totals[j * PITCH + D + 1] == 0 && !slot->given_up[j];
}

// Centroids become the means of their points. Returns the squared shift.
static double host_update(const float64_fit *fit, host_slot *slot) {
    const int few = slot->k <= km_kernels.whole_k && !fit->weights;
    const int64_t moves_most = few ? fit->n / 45 * slot->k : fit->n / 2;
    double shift = 0;
    if (slot->settled && slot->changed == 0) return 0;
    slot->settled = 1;
    for (int64_t j = 0; j < slot->k; j++) {
        double *c = slot->centroids + j * D;
        const double *sum = slot->totals + j * PITCH;
        for (int f = 0; f < D && sum[D] > 0; f++) {
            const double mean = (double)(km_real)(sum[f] / sum[D]), moved = mean - c[f];
            shift += moved * moved;
            c[f] = mean;
        }
    }
    if ((slot->state.iterations + 1) % HOST_REFRESH == 0 || slot->changed > moves_most)
        slot->mode = KM_CPU_REFRESH;
    host_put_table(slot->table, slot->centroids, slot->k);
    return shift;
}

static void host_step(const float64_fit *fit, host_slot *slot, double shift_max) {
    km_slot_found found;
    memset(&found, 0, sizeof found);
    if (slot->state.phase == KM_SLOT_RUNNING) found.shift = host_update(fit, slot);
    for (int64_t j = 0; j < slot->k; j++) found.waiting |= host_is_waiting(slot, j);
    km_slot_decide(&slot->state, &found, shift_max, INT64_MAX);
}

// Labels, distances, sums of one K: the last read -----------------------------------------------------------------

typedef struct host_finisher {
    km_cpu_finish_model model;
    double *centroids, *columns;
    km_real *table;
    int64_t row;
} host_finisher;

static int host_finisher_init(host_finisher *f, const host_slot *slot) {
    const int64_t k = slot->k, unit = km_kernels.finish_unit;
    memset(f, 0, sizeof *f);
    f->row = (D + unit - 1) / unit * unit;
    f->centroids = (double *)host_alloc(k * f->row, sizeof *f->centroids);
    f->columns = (double *)host_alloc((int64_t)D * KM_CPU_FEW, sizeof *f->columns);
    f->table = (km_real *)host_alloc(KM_CPU_TABLE_ROWS(k) * (D + 1), sizeof *f->table);
    if (!f->centroids || !f->columns || !f->table) return host_no_memory(k * (f->row + D) * 8);
    for (int64_t j = 0; j < k; j++)
        for (int i = 0; i < D; i++) {
            f->centroids[j * f->row + i] = (double)(km_real)slot->centroids[j * D + i];
            if (k <= KM_CPU_FEW) f->columns[i * KM_CPU_FEW + j] = f->centroids[j * f->row + i];
        }
    host_put_table(f->table, slot->centroids, slot->k);
    f->model.k = k;
    f->model.centroids = f->centroids;
    f->model.columns = f->columns;
    f->model.table = f->table;
    return FLOAT64_OK;
}

static void host_finisher_free(host_finisher *f) {
    free(f->centroids);
    free(f->columns);
    free(f->table);
}

// A block: labels, squared distances, and sums, those of them that are wanted.
static void host_finish_block(const float64_fit *fit, const host_finisher *f, int64_t block, int *labels,
                              double *squares, double *sums) {
    const int64_t first = block * HOST_BLOCK;
    km_cpu_finish_model model = f->model;
    model.labels = labels ? labels + first : NULL;
    model.squares = squares ? squares + first : NULL;
    model.sums = sums;
    km_cpu_finish work = {fit->points + first * D,
                          host_weights_from(fit, first),
                          host_min(HOST_BLOCK, fit->n - first),
                          D,
                          GROUP,
                          f->row,
                          &model,
                          1};
    km_kernels.finish(&work);
}

int float64_result(float64_fit *fit, int index, float64_model *model) {
    host_finisher f;
    int failed = host_check(fit, model, FLOAT64_K_MAX);
    if (!failed) failed = host_check_index(index);
    if (!failed && !fit->started)
        failed = host_fail(FLOAT64_ARGUMENT, "there are no first centroids yet: start or seed");
    if (failed) return failed;
    const host_slot *slot = &fit->slots[index];
    const int64_t blocks = host_parts(fit->n, HOST_BLOCK), numbers = slot->k * KM_CPU_SUMS;
    const int64_t seats = host_min(blocks, 64);
    double *sums = (double *)host_alloc((seats + 1) * numbers, sizeof *sums), *all = sums + seats * numbers;
    failed = host_finisher_init(&f, slot);
    if (!failed && !sums) failed = host_no_memory((seats + 1) * numbers * 8);
    for (int64_t base = 0; base < blocks && !failed; base += seats) {
        const int64_t here = host_min(seats, blocks - base);
        memset(sums, 0, (size_t)(seats * numbers) * sizeof *sums);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1)
#endif
        for (int64_t s = 0; s < here; s++)
            host_finish_block(fit, &f, base + s, model->labels, NULL, sums + s * numbers);
        for (int64_t s = 0; s < here; s++)
            for (int64_t i = 0; i < numbers; i++) all[i] += sums[s * numbers + i];
    }
    model->k = slot->k;
    model->converged = slot->state.converged;
    model->n_iter = slot->state.iterations;
    model->inertia = 0;
    for (int64_t j = 0; j < slot->k && !failed; j++) {
        model->inertia += all[j * KM_CPU_SUMS + KM_CPU_SUM_SSE] / fit->data.factor / fit->data.factor;
        if (model->counts) model->counts[j] = (long long)all[j * KM_CPU_SUMS + KM_CPU_SUM_COUNT];
        for (int i = 0; i < D && model->centroids; i++)
            model->centroids[j * D + i] = host_back(&fit->data, slot->centroids[j * D + i], i);
    }
    free(sums);
    host_finisher_free(&f);
    return failed;
}

// Empty clusters --------------------------------------------------------------------------------------------------

static double host_square_min(const float64_fit *fit) {
    double squares[HOST_SAMPLE];
    const int count = (int)host_min(fit->n, HOST_SAMPLE);
    for (int s = 0; s < count; s++) {
        const km_real *x = host_point(fit, (int64_t)((double)s * (double)fit->n / (double)count));
        squares[s] = 0;
        for (int f = 0; f < D; f++)
            squares[s] += (double)x[(int64_t)f * GROUP] * (double)x[(int64_t)f * GROUP];
    }
    return host_rounding2(fit->n) * host_typical(squares, count);
}

// The point farthest from its centroid that weighs, and is farther than rounding; -1: there is none. It, and those with
// its coordinates, are out from then on.
static int64_t host_farthest(const float64_fit *fit, double *squares, double square_min) {
    int64_t best = -1;
    for (int64_t i = 0; i < fit->n; i++) {
        if (!(squares[i] > square_min) || (best >= 0 && !(squares[i] > squares[best]))) continue;
        const km_real *x = host_point(fit, i);
        double size = 0;
        for (int f = 0; f < D; f++) size += (double)x[(int64_t)f * GROUP] * (double)x[(int64_t)f * GROUP];
        if (squares[i] > host_rounding2(fit->n) * size && host_weight(fit, i) > 0) best = i;
    }
    for (int64_t i = 0; i < fit->n && best >= 0; i++) {
        const km_real *x = host_point(fit, i), *y = host_point(fit, best);
        int f = 0;
        while (f < D && x[(int64_t)f * GROUP] == y[(int64_t)f * GROUP]) f++;
        if (f == D) squares[i] = 0;
    }
    return best;
}

static int host_relocate(float64_fit *fit, host_slot *slot) {
    host_finisher f;
    int64_t blocks = host_parts(fit->n, HOST_BLOCK), found = 0;
    double *squares = (double *)host_alloc(fit->n, sizeof *squares);
    int failed = host_finisher_init(&f, slot);
    if (!failed && !squares) failed = host_no_memory(fit->n * 8);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) if (!failed)
#endif
    for (int64_t b = 0; b < blocks; b++)
        if (!failed) host_finish_block(fit, &f, b, NULL, squares, NULL);
    const double square_min = host_square_min(fit);
    for (int64_t j = 0; j < slot->k && !failed; j++) {
        if (!host_is_waiting(slot, j)) continue;
        if (found >= 0) found = host_farthest(fit, squares, square_min);
        slot->given_up[j] = found < 0;
        for (int i = 0; i < D && found >= 0; i++)
            slot->centroids[j * D + i] = (double)host_point(fit, found)[(int64_t)i * GROUP];
    }
    if (!failed) host_put_table(slot->table, slot->centroids, slot->k);
    slot->settled = 0;
    slot->state.phase = KM_SLOT_RUNNING;
    free(squares);
    host_finisher_free(&f);
    return failed;
}

int float64_run(float64_fit *fit, long long passes_max, double tolerance, long long *passes) {
    long long done = 0;
    int failed = host_check(fit, fit, FLOAT64_K_MAX), active = 1;
    if (passes) *passes = 0;
    if (!failed && !fit->started)
        failed = host_fail(FLOAT64_ARGUMENT, "there are no first centroids yet: start or seed");
    if (!failed && !(tolerance >= 0))
        failed = host_fail(FLOAT64_ARGUMENT, "tolerance is %g; it must be 0 or more", tolerance);
    while (!failed && active && done < passes_max) {
        active = 0;
        for (int q = 0; q < FLOAT64_KS; q++) {
            if (fit->slots[q].state.phase == KM_SLOT_EMPTY && !failed)
                failed = host_relocate(fit, &fit->slots[q]);
            active |= km_slot_is_active(fit->slots[q].state.phase);
        }
        if (failed || !active) break;
        host_pass(fit);
        done++;
        for (int q = 0; q < FLOAT64_KS; q++)
            if (km_slot_is_active(fit->slots[q].state.phase))
                host_step(fit, &fit->slots[q], host_shift_max(&fit->data, tolerance));
    }
    if (passes) *passes = done;
    return failed;
}

#ifdef FLOAT64_MAIN
#include <time.h>

static double host_now_ms(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void host_device_name(char *text, size_t size) {
    int threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    snprintf(text, size, "CPU, %d thread%s", threads, threads == 1 ? "" : "s");
}

// Milliseconds of a plain read of the points as they lie inside; a wrong sum would say that it was not read.
static double host_read_ms(float64_fit *fit) {
    const int64_t count = host_groups(fit->n) * GROUP * D;
    double least = 1e30, total = 0;
    for (int turn = 0; turn < 5; turn++) {
        const double begin = host_now_ms();
        uint64_t sum = 0;
#ifdef _OPENMP
#pragma omp parallel for reduction(+ : sum)
#endif
        for (int64_t i = 0; i < count * (int64_t)sizeof(km_real) / 8; i++) {
            uint64_t word;
            memcpy(&word, (const char *)fit->points + i * 8, 8);
            sum += word;
        }
        total += (double)(sum & 1);
        least = fmin(least, host_now_ms() - begin);
    }
    return total < 0 ? total : least;
}
// The program: reads points or makes some, runs, checks itself, measures.

typedef struct host_table {
    float64_real *points;
    long long n;
} host_table;

static double host_random(uint64_t *state) { // uniform in [0, 1)
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * (1.0 / 9007199254740992.0);
}

// Points around FLOAT64_K_MAX middles, half as far apart as points scatter: passes go on for a while.
static int host_make_points(host_table *table, long long n) {
    enum { MIDDLES = FLOAT64_K_MAX < 64 ? FLOAT64_K_MAX : 64 };
    uint64_t state = 1;
    double *middles = (double *)malloc(sizeof *middles * MIDDLES * FLOAT64_FEATURES);
    table->n = n;
    table->points = (float64_real *)malloc(sizeof *table->points * (size_t)n * FLOAT64_FEATURES);
    if (!table->points || !middles) {
        free(middles);
        return host_fail(FLOAT64_MEMORY, "not enough memory for %lld points of %d features", n,
                         (int)FLOAT64_FEATURES);
    }
    for (int i = 0; i < MIDDLES * FLOAT64_FEATURES; i++) middles[i] = 2 * host_random(&state);
    for (long long i = 0; i < n; i++) {
        const int middle = (int)(host_random(&state) * MIDDLES);
        for (int f = 0; f < FLOAT64_FEATURES; f++) {
            const double noise = host_random(&state) + host_random(&state) + host_random(&state) - 1.5;
            table->points[i * FLOAT64_FEATURES + f] =
                (float64_real)(middles[middle * FLOAT64_FEATURES + f] + noise);
        }
    }
    free(middles);
    return FLOAT64_OK;
}

// The numbers of an .npy file begin behind its header, which must say this type, C order and FLOAT64_FEATURES columns.
static int host_skip_npy_header(long *at, FILE *file, const char *path) {
    unsigned char head[12];
    char text[4096] = "", columns[32];
    rewind(file);
    *at = 0;
    if (fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, "\x93NUMPY", 6))
        return FLOAT64_OK; // raw
    const size_t begin = head[6] == 1 ? 10 : 12;
    const size_t size =
        head[6] == 1 ? head[8] + 256u * head[9] : head[8] + 256u * head[9] + 65536u * head[10];
    fseek(file, (long)begin, SEEK_SET);
    if (size >= sizeof text || fread(text, 1, size, file) != size)
        return host_fail(FLOAT64_DATA, "%s: its header is cut off", path);
    snprintf(columns, sizeof columns, ", %d)", (int)FLOAT64_FEATURES);
    if (!strstr(text, sizeof(float64_real) == 4 ? "'<f4'" : "'<f8'") ||
        !strstr(text, "'fortran_order': False") || !strstr(text, columns))
        return host_fail(FLOAT64_DATA, "%s: expected double in C order, n rows of %d columns, got %.*s", path,
                         (int)FLOAT64_FEATURES, (int)strcspn(text, "}") + 1, text);
    *at = (long)(begin + size);
    return FLOAT64_OK;
}

static int host_read_points(host_table *table, const char *path) {
    const size_t row = sizeof(float64_real) * FLOAT64_FEATURES;
    long begin = 0, end = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return host_fail(FLOAT64_DATA,
                         "cannot open %s: give a raw file of double, or .npy, or a number of points", path);
    int failed = host_skip_npy_header(&begin, file, path);
    if (!failed && (fseek(file, 0, SEEK_END) || (end = ftell(file)) < begin || (size_t)(end - begin) % row))
        failed = host_fail(FLOAT64_DATA, "%s: %ld bytes are no whole number of points of %d double", path,
                           end - begin, (int)FLOAT64_FEATURES);
    table->n = failed ? 0 : (long long)((size_t)(end - begin) / row);
    table->points = (float64_real *)malloc((size_t)table->n * row + 1);
    if (!failed && !table->points) failed = host_fail(FLOAT64_MEMORY, "not enough memory for %s", path);
    if (!failed && (fseek(file, begin, SEEK_SET) ||
                    fread(table->points, row, (size_t)table->n, file) != (size_t)table->n))
        failed = host_fail(FLOAT64_DATA, "cannot read %s", path);
    fclose(file);
    return failed;
}

static double host_square(const float64_real *x, const float64_real *c) {
    double square = 0;
    for (int f = 0; f < FLOAT64_FEATURES; f++) {
        const double t = (double)x[f] - (double)c[f];
        square += t * t;
    }
    return square;
}

// The textbook's pass of one K, in double: sums and counts of each cluster, the inertia, and how many points lie within
// rounding of two centroids, whose label may be either.
typedef struct host_plain {
    double *sums, inertia, size; // size: of the largest coordinate
    long long *counts, close;
} host_plain;

static void host_plain_pass(host_plain *out, const host_table *table, const float64_real *centroids, int k) {
    memset(out->sums, 0, sizeof *out->sums * (size_t)k * FLOAT64_FEATURES);
    memset(out->counts, 0, sizeof *out->counts * (size_t)k);
    out->inertia = out->size = 0;
    out->close = 0;
    for (long long i = 0; i < table->n; i++) {
        const float64_real *x = table->points + i * FLOAT64_FEATURES;
        double nearest = 1e300, second = 1e300, size = 0;
        int label = 0;
        for (int j = 0; j < k; j++) {
            const double square = host_square(x, centroids + (long long)j * FLOAT64_FEATURES);
            second = fmin(second, fmax(square, nearest));
            if (square < nearest) label = j;
            nearest = fmin(nearest, square);
        }
        for (int f = 0; f < FLOAT64_FEATURES; f++) {
            out->sums[(long long)label * FLOAT64_FEATURES + f] += (double)x[f];
            out->size = fmax(out->size, fabs((double)x[f]));
            size += (double)x[f] * (double)x[f];
        }
        out->counts[label]++;
        out->inertia += nearest;
        out->close += second - nearest <= size * (sizeof(float64_real) == 4 ? 1e-5 : 1e-13);
    }
}

// How far centroids after one pass are from those of the plain loop, as a part of the largest coordinate; and how far
// apart the close points allow.
static int host_check_means(const host_plain *plain, const float64_real *moved, int k, double *worst) {
    const double rounding = sizeof(float64_real) == 4 ? 4e-6 : 1e-12;
    int bad = 0;
    for (long long at = 0; at < (long long)k * FLOAT64_FEATURES; at++) {
        const double count = (double)plain->counts[at / FLOAT64_FEATURES];
        if (count == 0) continue; // an empty cluster is given another point
        const double mean = plain->sums[at] / count, away = fabs(mean - (double)moved[at]) / plain->size;
        *worst = fmax(*worst, away);
        bad += away > rounding + 4 * (double)plain->close / count;
    }
    return bad;
}

static const char *host_verdict(int bad) {
    return bad ? "WRONG" : "right";
}

// One pass of every K, and what is reported of the centroids that it left, against the plain loop. Returns how many
// numbers are wrong, or -1.
static int host_check_all(const host_table *table) {
    float64_fit *fit = NULL;
    float64_model model;
    host_plain plain;
    double worst = 0, worst_inertia = 0;
    int bad = 0, failed = 0;
    long long close = 0;
    const size_t rows = sizeof(float64_real) * (size_t)FLOAT64_FEATURES;
    float64_real *first = (float64_real *)malloc(rows * FLOAT64_ROWS),
               *moved = (float64_real *)malloc(rows * FLOAT64_K_MAX);
    int *labels = (int *)malloc(sizeof *labels * (size_t)table->n);
    plain.sums = (double *)malloc(sizeof(double) * FLOAT64_K_MAX * FLOAT64_FEATURES);
    plain.counts = (long long *)malloc(sizeof(long long) * FLOAT64_K_MAX);
    if (!first || !moved || !labels || !plain.sums || !plain.counts)
        failed = host_fail(FLOAT64_MEMORY, "not enough memory for the check");
    for (int i = 0; i < FLOAT64_KS && !failed; i++)
        for (int j = 0; j < host_ks[i]; j++)
            memcpy(first + ((long long)host_offsets[i] + j) * FLOAT64_FEATURES,
                   table->points + table->n / host_ks[i] * j * FLOAT64_FEATURES, rows);
    if (!failed) failed = float64_create(&fit, table->points, NULL, table->n);
    if (!failed) failed = float64_start(fit, first);
    if (!failed) failed = float64_run(fit, 1, 0, NULL);
    for (int i = 0; i < FLOAT64_KS && !failed; i++) {
        const float64_real *own = first + (long long)host_offsets[i] * FLOAT64_FEATURES;
        memset(&model, 0, sizeof model);
        model.centroids = moved;
        model.labels = labels;
        if ((failed = float64_result(fit, i, &model))) break;
        host_plain_pass(&plain, table, own, host_ks[i]);
        bad += host_check_means(&plain, moved, host_ks[i], &worst);
        close += plain.close;
        host_plain_pass(&plain, table, moved, host_ks[i]);
        const double away = fabs(plain.inertia - model.inertia) / (plain.inertia > 0 ? plain.inertia : 1);
        worst_inertia = fmax(worst_inertia, away);
        bad += away > (sizeof(float64_real) == 4 ? 1e-4 : 1e-9);
        for (long long p = 0; p < table->n; p++) {
            const float64_real *x = table->points + p * FLOAT64_FEATURES;
            const double square = host_square(x, moved + (long long)labels[p] * FLOAT64_FEATURES);
            int nearer = 0; // by more than rounding
            for (int j = 0; j < host_ks[i]; j++)
                nearer |= host_square(x, moved + (long long)j * FLOAT64_FEATURES) <
                          square * (1 - 1e-4) - 1e-10 * plain.size * plain.size;
            bad += nearer;
        }
    }
    if (!failed)
        printf("check: %lld points against a plain loop in double: means within %.1e of the largest "
               "coordinate (%lld "
               "points\n"
               "    within rounding of two centroids), inertia within %.1e, every label the nearest: %s\n",
               table->n, worst, close, worst_inertia, host_verdict(bad));
    free(first);
    free(moved);
    free(labels);
    free(plain.sums);
    free(plain.counts);
    float64_destroy(&fit);
    return failed ? -1 : bad;
}

// Milliseconds of a pass that has every K at work: as many passes as the first of them takes to come to rest.
static int host_time(double *ms, long long *passes, float64_fit *fit) {
    long long least = 20;
    *ms = 1e30;
    for (int turn = 0; turn < 6; turn++) {
        int failed = float64_seed(fit, 0);
        const double begin = host_now_ms();
        if (!failed) failed = float64_run(fit, least, 0, passes);
        const double took = (host_now_ms() - begin) / (double)(*passes > 0 ? *passes : 1);
        if (failed) return failed;
        if (turn > 0) *ms = fmin(*ms, took);
        for (int i = 0; i < FLOAT64_KS && turn == 0; i++) { // the first turn finds out
            float64_model model;
            memset(&model, 0, sizeof model);
            if ((failed = float64_result(fit, i, &model))) return failed;
            if (model.n_iter < least && model.n_iter > 0) least = model.n_iter;
        }
    }
    return FLOAT64_OK;
}

static int host_report(float64_fit *fit, const host_table *table) {
    double pass_ms, read_ms, begin;
    long long passes, timed;
    char device[128];
    int failed = host_time(&pass_ms, &timed, fit);
    if (!failed) failed = float64_seed(fit, 0);
    begin = host_now_ms();
    if (!failed) failed = float64_run(fit, 300, 1e-4, &passes);
    if (failed) return failed;
    const double run_ms = host_now_ms() - begin;
    host_device_name(device, sizeof device);
    read_ms = host_read_ms(fit);
    printf("device: %s\n%10s %10s %10s %18s\n", device, "K", "converged", "iterations", "inertia");
    for (int i = 0; i < FLOAT64_KS; i++) {
        float64_model model;
        memset(&model, 0, sizeof model);
        if ((failed = float64_result(fit, i, &model))) return failed;
        printf("%10d %10s %10lld %18.10g\n", model.k, model.converged ? "yes" : "no", model.n_iter,
               model.inertia);
    }
    printf("run: %lld passes in %.2f ms\n", passes, run_ms);
    printf("pass: %.4f ms for all %d K (the best of 5 times %lld); a plain read of the %.1f MB of points: "
           "%.4f ms; "
           "%.2f reads\n",
           pass_ms, (int)FLOAT64_KS, timed, (double)table->n * FLOAT64_FEATURES * sizeof(float64_real) * 1e-6,
           read_ms, pass_ms / read_ms);
    return FLOAT64_OK;
}

int main(int argc, char **argv) {
    host_table table = {NULL, 0};
    float64_fit *fit = NULL;
    char *end = NULL;
    const char *what = argc > 1 ? argv[1] : "1048576";
    const long long n = strtoll(what, &end, 10);
    if (argc > 2 || what[0] == '-' || (!*end && n < 1)) {
        fprintf(stderr, "usage: %s [POINTS.npy | RAW FILE of double | NUMBER of random points]\n", argv[0]);
        return 2;
    }
    int failed = *end ? host_read_points(&table, what) : host_make_points(&table, n), bad = 0;
    if (!failed) {
        printf("float64: %d features, double, K of 2..8, %lld %s points\n", (int)FLOAT64_FEATURES, table.n,
               *end ? "given" : "random");
        host_table part = table; // as many as a plain loop does in seconds
        const long long most = 400000000 / (FLOAT64_ROWS * (long long)FLOAT64_FEATURES) + 1000 + FLOAT64_K_MAX;
        if (part.n > most) part.n = most;
        bad = host_check_all(&part);
        failed = bad < 0;
    }
    if (!failed) failed = float64_create(&fit, table.points, NULL, table.n);
    if (!failed) failed = host_report(fit, &table);
    if (failed) fprintf(stderr, "float64: %s\n", float64_error());
    float64_destroy(&fit);
    free(table.points);
    return failed || bad ? 1 : 0;
}
#endif
#endif

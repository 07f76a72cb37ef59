// SPDX-License-Identifier: MIT
// many_k256_d8.c, made by kmgen 0.1.0. Same spec, same text. The spec:
//
// name: many_k256_d8
// features: 8
// clusters: 256
// type: float32
// target: cpu:avx2
// n_init: 10
//
// The plan:
//
// device: cpu:avx2, two nominal avx2 cores: 2 threads, 20 GB/s, 3.00 GHz
// points: unknown, taken as many
// clusters in one pass: 256 for each restart (the sum of the K list)
//
// design                         gemm  about 1.0 times as fast a pass as prebuilt
// tile_clusters                     6  sums of vectors x tile in registers, the K list in whole tiles
// tile_features                     8  512 bytes of a group's points in the first cache
// panel_clusters                  258  9288 bytes of centroids, whole tiles
// lanes                             8  32-byte vectors of float32
// vectors                           2  vectors x (tile + 3) + 1 registers, of 16; at least 8 points
// soa_points                       16  vectors x lanes
// concurrent_restarts               1  a read takes 1.65 ns a point, one restart's arithmetic 28.59 ns
//
// per point and pass: 33 bytes read, 343.111 operations

// Contents, by line:
//     43  Numbers and types
//    308  The pass
//    490  Seeding
//    626  The finishing pass
//    902  What a program takes
//    911  The host part: what the header declares

#ifndef KM_KERNELS_ONLY
// The linker knows the kernels by this name, so that several emitted files go into one program.
#define km_kernels many_k256_d8_kernels
#endif

// The design gemm: tiled like a matrix product. TILE centroids meet VECTORS vectors of points in registers; a
// group of points meets a panel of centroids out of the nearest cache; a span of groups shares the panel.
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

typedef float km_real;
typedef int32_t km_int;   // an integer as wide as a real
typedef uint8_t km_index; // a label in hand

// Numbers of a point's row: whole vectors of sums.
#define KM_ROW(d) ((d) <= 2 ? 4 : ((d) + 7) / 8 * 8)

enum {
    D = 8,        // features
    LANES = 8,    // reals of a vector
    VECTORS = 2,  // vectors of points worked on at a time
    GROUP = 16,   // points of a group
    TILE = 6,     // centroids worked on at a time
        SPAN = 8, // groups that stay in the cache while every slot works on them
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
// Indices become labels of a byte: of two vectors, of four. Packing works on halves of vectors, which are put in order.
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
// A squared distance joins the nearest and the second-nearest; equal ones leave the lower index.
#define KM_SECOND(first, second, index, square, j)                                                           \
    index = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(index), _mm256_castsi256_ps(j),         \
                                                 _mm256_cmp_ps(square, first, _CMP_LT_OQ)));                 \
    second = _mm256_min_ps(second, _mm256_max_ps(square, first));                                            \
    first = _mm256_min_ps(square, first)
// Non-zero where a is not below b.
#define KM_ANY_ABOVE(a, b) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ))
// Of the points that have a label: how many there are, sums of doubles.
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

enum {
    PANEL = 258, // centroids that a span of points meets before it goes on to the next ones; whole tiles
};

// The largest score of each point of a group so far, x . c - |c|^2 / 2, and the centroid that it belongs to.
typedef struct km_found {
    km_real best[GROUP];
    km_int index[GROUP];
} km_found;

// A group against TILE centroids from `first` on: what the table has behind its last centroid never wins.
KM_TARGET static void km_meet(km_found *found, const km_real *points, const km_real *rows, int64_t first) {
    km_vec s_0_0 = KM_SPLAT(rows[0 * (D + 1) + D]);
    km_vec s_0_1 = KM_SPLAT(rows[0 * (D + 1) + D]);
    km_vec s_1_0 = KM_SPLAT(rows[1 * (D + 1) + D]);
    km_vec s_1_1 = KM_SPLAT(rows[1 * (D + 1) + D]);
    km_vec s_2_0 = KM_SPLAT(rows[2 * (D + 1) + D]);
    km_vec s_2_1 = KM_SPLAT(rows[2 * (D + 1) + D]);
    km_vec s_3_0 = KM_SPLAT(rows[3 * (D + 1) + D]);
    km_vec s_3_1 = KM_SPLAT(rows[3 * (D + 1) + D]);
    km_vec s_4_0 = KM_SPLAT(rows[4 * (D + 1) + D]);
    km_vec s_4_1 = KM_SPLAT(rows[4 * (D + 1) + D]);
    km_vec s_5_0 = KM_SPLAT(rows[5 * (D + 1) + D]);
    km_vec s_5_1 = KM_SPLAT(rows[5 * (D + 1) + D]);
    for (int f = 0; f < D; f++) {
        km_vec x_0 = KM_LOAD(points + f * GROUP + 0 * LANES);
        KM_PIN(x_0);
        km_vec x_1 = KM_LOAD(points + f * GROUP + 1 * LANES);
        KM_PIN(x_1);
        const km_vec c_0 = KM_SPLAT(rows[0 * (D + 1) + f]);
        s_0_0 = KM_FMA(x_0, c_0, s_0_0);
        s_0_1 = KM_FMA(x_1, c_0, s_0_1);
        const km_vec c_1 = KM_SPLAT(rows[1 * (D + 1) + f]);
        s_1_0 = KM_FMA(x_0, c_1, s_1_0);
        s_1_1 = KM_FMA(x_1, c_1, s_1_1);
        const km_vec c_2 = KM_SPLAT(rows[2 * (D + 1) + f]);
        s_2_0 = KM_FMA(x_0, c_2, s_2_0);
        s_2_1 = KM_FMA(x_1, c_2, s_2_1);
        const km_vec c_3 = KM_SPLAT(rows[3 * (D + 1) + f]);
        s_3_0 = KM_FMA(x_0, c_3, s_3_0);
        s_3_1 = KM_FMA(x_1, c_3, s_3_1);
        const km_vec c_4 = KM_SPLAT(rows[4 * (D + 1) + f]);
        s_4_0 = KM_FMA(x_0, c_4, s_4_0);
        s_4_1 = KM_FMA(x_1, c_4, s_4_1);
        const km_vec c_5 = KM_SPLAT(rows[5 * (D + 1) + f]);
        s_5_0 = KM_FMA(x_0, c_5, s_5_0);
        s_5_1 = KM_FMA(x_1, c_5, s_5_1);
    }
    const km_ints one = KM_INTS(1);
    __asm__("" : "+r"(found)); // what is found stays in memory: the scores need all registers
    {
        km_vec best = KM_LOAD(found->best + 0 * LANES);
        km_ints index = KM_LOAD_INTS(found->index + 0 * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_1_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_2_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_3_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_4_0, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_5_0, j);
        KM_STORE(found->best + 0 * LANES, best);
        KM_PUT_INTS(found->index + 0 * LANES, index);
    }
    {
        km_vec best = KM_LOAD(found->best + 1 * LANES);
        km_ints index = KM_LOAD_INTS(found->index + 1 * LANES), j = KM_INTS((km_int)first);
        KM_KEEP(best, index, s_0_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_1_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_2_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_3_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_4_1, j);
        j = KM_INTS_ADD(j, one);
        KM_KEEP(best, index, s_5_1, j);
        KM_STORE(found->best + 1 * LANES, best);
        KM_PUT_INTS(found->index + 1 * LANES, index);
    }
}

// The nearest centroids of up to SPAN groups; the lowest index among equals, as a score must be larger to win.
KM_TARGET static void km_nearest(km_found *found, const km_real *points, int64_t groups, const km_real *table,
                                 int64_t k) {
    for (int64_t g = 0; g < groups; g++)
        for (int i = 0; i < GROUP; i++) {
            found[g].best[i] = -HUGE_VAL;
            found[g].index[i] = 0;
        }
    for (int64_t first = 0; first < k; first += PANEL) {
        int64_t end = k - first < PANEL ? k : first + PANEL;
        for (int64_t g = 0; g < groups; g++)
        for (int64_t j = first; j < end; j += TILE)
            km_meet(&found[g], points + g * GROUP * D, table + j * (D + 1), j);
    }
}

// Labels of a group, as they are kept.

KM_TARGET static void km_labels_get(km_index *out, const km_cpu_slot *slot, int64_t first) {
    memcpy(out, (const km_index *)slot->labels + first, GROUP);
}

KM_TARGET static void km_labels_put(km_cpu_slot *slot, int64_t first, const km_index *labels) {
    memcpy((km_index *)slot->labels + first, labels, GROUP);
}

// A bit for each of the first `count` points whose label differs.
KM_TARGET static uint64_t km_changes(const km_index *labels, const km_index *old, int64_t count) {
    uint64_t changed = 0;
    const uint64_t low = 0x7f7f7f7f7f7f7f7f, ones = 0x0101010101010101;
    for (int i = 0; i < GROUP; i += 8) {
        uint64_t a, b;
        memcpy(&a, labels + i, 8);
        memcpy(&b, old + i, 8);
        if (a == b) continue;
        // The high bit of each byte that differs, then the eight of them side by side.
        a ^= b;
        a = (((a & low) + low) | a) >> 7 & ones;
        changed |= (a * 0x0102040810204080) >> 56 << i;
    }
    return count < GROUP ? changed & (((uint64_t)1 << count) - 1) : changed;
}

// One point's coordinates, side by side.
KM_TARGET static void km_fetch(double *out, const km_real *point) {
    for (int f = 0; f < D; f++) out[f] = (double)point[f * GROUP];
}

// Adds factor * x to a row of sums, and `points` to its count.
KM_TARGET static void km_add(double *row, const double *x, double factor, double points) {
    for (int f = 0; f < D; f++) row[f] += factor * x[f];
    row[D] += factor;
    row[D + 1] += points;
}

// Takes over the labels of a group's first `count` points; sums follow by the slot's mode.
KM_TARGET static void km_group(km_cpu_slot *slot, const km_cpu_chunk *block, const km_found *found,
                               int64_t base, int64_t count) {
    const km_real *points = (const km_real *)block->points + base * D;
    const uint64_t all = count < GROUP ? ((uint64_t)1 << count) - 1 : ~(uint64_t)0 >> (64 - GROUP);
    km_index labels[GROUP], old[GROUP];
    for (int i = 0; i < GROUP; i++) labels[i] = (km_index)found->index[i];
    km_labels_get(old, slot, base);
    uint64_t changed = slot->mode == KM_CPU_FIRST ? all : km_changes(labels, old, count);
    slot->changed += __builtin_popcountll(changed);
    if (changed) km_labels_put(slot, base, labels);
    if (!slot->sums) return;
    for (uint64_t left = slot->mode == KM_CPU_MOVE ? changed : all; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        double weight = block->weights ? block->weights[base + i] : 1.0, x[D];
        if (weight == 0) continue;
        km_fetch(x, points + i);
        km_add(slot->sums + (int64_t)labels[i] * PITCH, x, weight, 1.0);
        if (slot->mode == KM_CPU_MOVE) km_add(slot->sums + (int64_t)old[i] * PITCH, x, -weight, -1.0);
    }
}

KM_TARGET static void km_pass(const km_cpu_chunk *block) {
    km_found found[SPAN];
    for (int64_t s = 0; s < block->slots_count; s++) block->slots[s].changed = 0;
    for (int64_t base = 0; base < block->points_count; base += SPAN * GROUP) {
        int64_t left = block->points_count - base, groups = (left + GROUP - 1) / GROUP;
        if (groups > SPAN) groups = SPAN;
        for (int64_t s = 0; s < block->slots_count; s++) {
            km_cpu_slot *slot = &block->slots[s];
            km_nearest(found, (const km_real *)block->points + base * D, groups, (const km_real *)slot->table,
                       slot->k);
            for (int64_t g = 0; g < groups; g++)
                km_group(slot, block, &found[g], base + g * GROUP,
                         left - g * GROUP < GROUP ? left - g * GROUP : (int64_t)GROUP);
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
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            const km_vec t_0 = KM_SUB(KM_LOAD(points + f * GROUP + i + 0 * LANES), c);
            sum_0 = KM_FMA(t_0, t_0, sum_0);
            const km_vec t_1 = KM_SUB(KM_LOAD(points + f * GROUP + i + 1 * LANES), c);
            sum_1 = KM_FMA(t_1, t_1, sum_1);
        }
        KM_STORE(out + i + 0 * LANES, sum_0);
        KM_STORE(out + i + 1 * LANES, sum_1);
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
            km_vec sum_1_0 = KM_SPLAT(0);
            km_vec sum_1_1 = KM_SPLAT(0);
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
            }
            const km_vec near_0 = KM_LOAD(nearest + base + i + 0 * LANES);
            KM_STORE(least_0 + i + 0 * LANES, KM_MIN(sum_0_0, near_0));
            KM_STORE(least_1 + i + 0 * LANES, KM_MIN(sum_1_0, near_0));
            const km_vec near_1 = KM_LOAD(nearest + base + i + 1 * LANES);
            KM_STORE(least_0 + i + 1 * LANES, KM_MIN(sum_0_1, near_1));
            KM_STORE(least_1 + i + 1 * LANES, KM_MIN(sum_1_1, near_1));
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
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Where
// the second-nearest is farther than the nearest by more than that, the nearest is certain; other points are looked at
// again in double. Squared distances are summed in double, from the stored values; distances and margins are float.
enum {
    FINISH_TILE = 2,   // centroids at a time, each with two vectors
    FINISH_SPAN = 256, // points that stay in the first cache for all models
    FINISH_ROW = 8,    // doubles of a point or centroid: D, then zeros to whole vectors
    PAIR = 2 * LANES   // points of two vectors
};

// Of the points of a span.
typedef struct km_finish_span {
    int64_t first, count;                  // of the block's points
    int64_t rows_count;                    // points whose coordinates stand side by side
    double rows[FINISH_SPAN * FINISH_ROW]; // so
    int32_t labels[FINISH_SPAN];           // -1 after the last point, up to a whole vector
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

// Two vectors of points against all centroids in float. Non-zero where a nearest centroid is not certain.
KM_TARGET static int km_finish_quick(int32_t *labels, km_real *nearest, km_real *next,
                                     const km_cpu_finish *finish, const km_cpu_finish_model *model,
                                     int64_t at) {
    const km_real *points = (const km_real *)finish->points + at / GROUP * GROUP * D + at % GROUP;
    const int64_t k = model->k, whole = 1 + (k - 1) / FINISH_TILE * FINISH_TILE;
    const km_real *start = (const km_real *)model->table;
    km_vec first_0 = KM_SPLAT(0), first_1 = first_0, second_0 = KM_SPLAT(INFINITY), second_1 = second_0;
    km_ints index_0 = KM_INTS(0), index_1 = index_0;
    for (int f = 0; f < D; f++) { // to the first centroid, which nothing is compared with
        const km_vec c = KM_SPLAT(start[f]);
        const km_vec t = KM_SUB(KM_LOAD(points + f * GROUP), c),
                     u = KM_SUB(KM_LOAD(points + f * GROUP + LANES), c);
        first_0 = KM_FMA(t, t, first_0);
        first_1 = KM_FMA(u, u, first_1);
    }
    for (int64_t from = 1; from < whole; from += FINISH_TILE) {
        const km_real *rows = (const km_real *)model->table + from * (D + 1);
        km_vec a_0 = KM_SPLAT(0), b_0 = a_0;
        km_vec a_1 = KM_SPLAT(0), b_1 = a_1;
        for (int f = 0; f < D; f++) {
            const km_vec x = KM_LOAD(points + f * GROUP), y = KM_LOAD(points + f * GROUP + LANES);
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
        KM_SECOND(first_0, second_0, index_0, a_0, j_0);
        KM_SECOND(first_1, second_1, index_1, b_0, j_0);
        const km_ints j_1 = KM_INTS((int32_t)from + 1);
        KM_SECOND(first_0, second_0, index_0, a_1, j_1);
        KM_SECOND(first_1, second_1, index_1, b_1, j_1);
    }
    for (int64_t from = whole; from < k; from++) {
        const km_real *row = (const km_real *)model->table + from * (D + 1);
        km_vec a = KM_SPLAT(0), b = a;
        for (int f = 0; f < D; f++) {
            const km_vec c = KM_SPLAT(row[f]);
            const km_vec t = KM_SUB(KM_LOAD(points + f * GROUP), c);
            const km_vec u = KM_SUB(KM_LOAD(points + f * GROUP + LANES), c);
            a = KM_FMA(t, t, a);
            b = KM_FMA(u, u, b);
        }
        const km_ints j = KM_INTS((int32_t)from);
        KM_SECOND(first_0, second_0, index_0, a, j);
        KM_SECOND(first_1, second_1, index_1, b, j);
    }
    KM_PUT_INTS(labels, index_0);
    KM_PUT_INTS(labels + LANES, index_1);
    KM_STORE(nearest, first_0);
    KM_STORE(nearest + LANES, first_1);
    KM_STORE(next, second_0);
    KM_STORE(next + LANES, second_1);
    // Twice the bound, and what squares lose below the smallest float.
    const km_vec apart = KM_SPLAT(1.0f + (D + 4) * 0x1p-22f), lost = KM_SPLAT(1e-37f);
    return KM_ANY_ABOVE(KM_FMA(first_0, apart, lost), second_0) |
           KM_ANY_ABOVE(KM_FMA(first_1, apart, lost), second_1);
}

// Labels of a span, and what is summed of distances.
KM_TARGET static void km_finish_assign(km_finish_span *span, const km_cpu_finish *finish,
                                       const km_cpu_finish_model *model) {
    for (int64_t at = 0; at < span->count; at += PAIR) {
        km_real nearest[PAIR], next[PAIR];
        int32_t *labels = span->labels + at;
        if (model->k == 1 || model->squares ||
            km_finish_quick(labels, nearest, next, finish, model, span->first + at))
            km_finish_sure(labels, nearest, next, finish, model, span->first + at);
        for (int i = 0; i < PAIR; i += LANES) {
            const km_vec first = KM_LOAD(nearest + i);
            const km_vec second =
                KM_LOAD((model->k > 1 ? next : nearest) + i); // of one centroid there is no margin
            const km_vec d1 = KM_SQRT(first), d2 = KM_SQRT(second);
            const km_vec margin = KM_QUOTIENT(KM_SUB(d2, d1), d2);
            KM_STORE_WIDE(span->near + at + i, d1);
            KM_STORE_WIDE(span->margins + at + i, margin);
        }
    }
}

// Points of a span as rows of doubles.
KM_TARGET static void km_finish_rows(km_finish_span *span, const km_cpu_finish *finish) {
    for (int64_t base = 0; base < span->count; base += GROUP) {
        const km_real *points = (const km_real *)finish->points + (span->first + base) * D;
        double *rows = span->rows + base * FINISH_ROW;
        for (int i = 0; i < GROUP; i++, rows += FINISH_ROW) {
            const km_real *point = points + i;
            int f = 0;
            for (; f + 4 <= D; f += 4, point += 4 * GROUP)
                *(km_quad *)(rows + f) = __builtin_convertvector(KM_FOUR(point), km_quad);
            for (; f < D; f++, point += GROUP) rows[f] = (double)point[0];
        }
    }
    span->rows_count = span->count;
}

// Squared distances of a span to the nearest of any number of centroids, point by point.
KM_TARGET static void km_finish_squares(km_finish_span *span, const km_cpu_finish *finish,
                                        const km_cpu_finish_model *model) {
    if (!span->rows_count) km_finish_rows(span, finish);
    for (int64_t i = 0; i < span->count; i++) {
        const double *c = model->centroids + span->labels[i] * (int64_t)FINISH_ROW;
        const double *x = span->rows + i * FINISH_ROW;
        km_doubles squares = KM_D_SPLAT(0);
        double lanes[DOUBLES], square = 0;
        for (int f = 0; f < FINISH_ROW; f += DOUBLES) {
            const km_doubles t = KM_D_SUB(KM_D_LOAD(x + f), KM_D_LOAD(c + f));
            squares = KM_D_FMA(t, t, squares);
        }
        KM_D_STORE(lanes, squares);
        for (int l = 0; l < DOUBLES; l++) square += lanes[l];
        span->squares[i] = square;
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
    km_finish_squares(span, finish, model);
    if (model->k <= KM_CPU_FEW && !finish->weights)
        km_finish_few(span, model);
    else
        km_finish_many(span, model, finish->weights ? finish->weights + span->first : NULL);
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
// What the engine looks for, whatever the spec is called and lists: one module serves them all.
#ifdef __cplusplus
extern "C"
#endif
    const km_cpu_kernels km_kernels = {KM_CPU_ABI, sizeof(km_real), 2,         256,   D,
                                    D,    GROUP,           4, 0, 0,
                                    km_pass,    km_seed,         km_finish};


// SPDX-License-Identifier: MIT
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
    KM_CPU_FIRST, // labels hold nothing yet: every point is added, every point counts as changed
    KM_CPU_MOVE, // a point whose label changed leaves the sums of the old centroid and joins those of the new one
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
    void *nearest; // reals, of this block's points, whole groups: |x - nearest pick|^2; starts as infinity
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

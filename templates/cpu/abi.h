// SPDX-License-Identifier: MIT
// What kernels are handed: the contract between them and who calls them, the host part of an emitted file or kmgen's
// engine. A slot is one K, and in kmgen one restart of it.
//
// Layout. Points are copied once, centred and scaled, into SoA groups of `soa_points` points: value f of point i of an
// SoA group lies at [f * soa_points + i]. The last SoA group is padded with zeros. A chunk is at most KM_CHUNK_POINTS
// points (65,536, a multiple of every soa_points). One thread works on it. "real" is the plan's type, float or double.
#ifndef KM_CPU_ABI
#define KM_CPU_ABI 10
#include <stdint.h>

// Numbers of a row of sums: d sums of w x, the sum of w, the count of points with w > 0 (a point of weight 0 keeps no
// cluster from being empty), then padding. Rows have four numbers, or whole cache lines.
#define KM_CPU_PITCH(d) ((d) <= 2 ? 4 : ((d) + 2 + 7) / 8 * 8)

// Rows of a table of k centroids. Seven more rows stand behind them, zeros whose last value is minus infinity. So a
// kernel may work on up to eight centroids at a time, whatever k is.
#define KM_CPU_TABLE_ROWS(k) ((k) + 7)

// int16 scores: feature f of a point is x[f] * int16_scales[f], rounded to 16 bits. A centroid's row has a 32-bit word
// for two features, the lower feature in its low half, then the score's constant. 32-bit sums of them never overflow.
#define KM_CPU_INT16_ROW(d) (((d) + 1) / 2 + 1)

// Values of a row of a table by feature: whole vectors of sixteen floats. Behind centroid k - 1 they are those of the
// rows behind a table.
#define KM_CPU_COLUMNS(k) (((k) + 15) / 16 * 16)

// What the sums and old labels of a slot mean in this pass.
enum {
    KM_CPU_FIRST, // labels hold nothing yet: every point is added, every point counts as changed
    KM_CPU_MOVE, // a point whose label changed leaves the sums of the old centroid and joins those of the new one
    KM_CPU_REFRESH // the sums start again from zero: every point is added; changes are counted from the labels
};

// An active run. Others are not listed, and cost nothing.
typedef struct km_cpu_slot {
    int64_t k;
    int64_t k_index;   // of k in the plan's list
    const void *table; // reals, KM_CPU_TABLE_ROWS(k) rows: the d coordinates of centroid c, then -|c|^2 / 2
    void *labels; // of the chunk's points, in whole SoA groups: 1 byte each (2 above K = 256, 4 above 65,536)
    double *sums; // k rows of KM_CPU_PITCH(d): what this chunk adds; NULL: only labels are wanted
    int32_t mode; // KM_CPU_FIRST, KM_CPU_MOVE or KM_CPU_REFRESH
    int32_t labels_bytes;
    int64_t changed;            // out: points whose label changed
    const int32_t *int16_table; // k rows of KM_CPU_INT16_ROW(d); NULL: no int16 scores
    // The rest only where there is an int16_table. The table by feature: d + 1 rows of KM_CPU_COLUMNS(k).
    const float *columns;
    int64_t margin; // int16 scores (the high halves of 32-bit sums) that lie farther apart are ordered right
    int64_t resolved; // out: ambiguous points, which were scored again as floats
} km_cpu_slot;

// Labels: the centroid with the largest x . c - |c|^2 / 2, the lowest index among equals; sums follow by `mode`.
typedef struct km_cpu_chunk {
    const void *points;    // the chunk's first SoA group
    const double *weights; // of the chunk's points, or NULL: all 1
    int64_t points_count;
    int64_t d, soa_points;
    km_cpu_slot *slots;
    int64_t slots_count;
    const float *int16_scales; // d; NULL: no slot has an int16_table
} km_cpu_chunk;

// One k-means++ chain inside a seeding pass.
typedef struct km_cpu_chain {
    void *
        nearest; // reals, of the chunk's points, in whole SoA groups: |x - nearest pick|^2; infinity at first
    const void *chosen;     // reals, d: the last pick, not yet in `nearest`; NULL: there is none
    const void *candidates; // reals: candidates_count rows of d
    int64_t candidates_count;
    double *potentials; // out: sum over the chunk of w min(nearest, |x - candidate|^2), for each candidate
} km_cpu_chain;

typedef struct km_cpu_seeding {
    const void *points;
    const double *weights;
    int64_t points_count;
    int64_t d, soa_points;
    km_cpu_chain *chains;
    int64_t chains_count;
} km_cpu_seeding;

// The finishing pass of models over points of a chunk. d1 and d2 are the distances to the nearest and second-nearest
// centroid. Labels and d1^2 are bitwise the same on every backend: acc = fma(t, t, acc), t = x - c, in double, over
// features in index order.
enum {
    KM_CPU_SUM_WEIGHT, // sum of w
    KM_CPU_SUM_COUNT,  // points
    KM_CPU_SUM_SSE,    // sum of w d1^2
    KM_CPU_SUM_DISTANCE, // sum of w d1, or distances to `means`; here and below d1 and d2 may have the plan's type
    KM_CPU_SUM_MARGIN, // sum of w (d2 - d1) / d2, 0 where d2 = 0 or k = 1
    KM_CPU_SUMS
};

enum { KM_CPU_FEW_CLUSTERS = 16 }; // up to so many clusters have their sums in vectors

typedef struct km_cpu_finish_model {
    int64_t k;
    // k rows of `row` doubles, zeros from d on. The doubles are values of the plan's type (k = 1: any).
    const double *centroids;
    const double *columns; // the same by feature: d rows of KM_CPU_FEW_CLUSTERS; not read for more clusters
    const void *table;     // the same as in km_cpu_slot; not read for k = 1
    // The same of other rows, k of any doubles, from whose row `label` distances are summed; NULL: from the centroids.
    const double *means, *mean_columns;
    int32_t *labels; // out: the nearest centroid, the lowest index among equals; NULL: not wanted
    double *squares; // out: d1^2; NULL: not wanted
    double *sums;    // k rows of KM_CPU_SUMS that are added to; NULL: not wanted
} km_cpu_finish_model;

typedef struct km_cpu_finish {
    const void *points; // squared distances are at most 1e37 where they are float
    const double *weights;
    int64_t points_count;
    int64_t d, soa_points;
    int64_t row; // d rounded up to a multiple of finish_row_multiple
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
    int64_t soa_points;
    int64_t finish_row_multiple; // of doubles, in rows of km_cpu_finish_model.centroids
    int64_t masked_sums_k_max;   // up to so many clusters, adding all points costs a pass little; 0: never
    int64_t int16_scores;        // 1: `pass` reads int16_table, on machines that have AVX512_VNNI
    void (*pass)(const km_cpu_chunk *chunk);
    void (*seed)(const km_cpu_seeding *seeding);
    void (*finish)(const km_cpu_finish *finish);
} km_cpu_kernels;

#endif

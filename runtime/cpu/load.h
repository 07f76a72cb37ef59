// SPDX-License-Identifier: MIT
// What kernels of the load are handed (templates/cpu/load).
#ifndef KM_RUNTIME_CPU_LOAD_H
#define KM_RUNTIME_CPU_LOAD_H
#include "prebuilt.h"
#include <kmgen/plan.h>

enum {
    LOAD_LANES = 8,       // running sums side by side, on every machine: the same bits everywhere
    LOAD_COPY_POINTS = 16 // points that `copy` stores at a time
};

// Of each feature of a batch of rows, d each: sums of (x - first) and of its square, least and greatest value.
typedef struct cpu_moments {
    double *sum, *square, *low, *high;
} cpu_moments;

// A batch of rows, to be copied into the SoA groups.
typedef struct cpu_rows_copy {
    const float *rows;
    int64_t first, count, d;       // first: its first point, a multiple of LOAD_LANES
    const double *centre, *factor; // LOAD_LANES rows of each
    float *values;                 // out: (x - centre) * factor; room for 16 more values
    float *soa_groups;             // all SoA groups
    int64_t soa_points;            // a multiple of LOAD_COPY_POINTS
    int streams;                   // stores go past the caches, as the copy is larger than they are
    int wants_largest;
    float largest; // in and out: the largest |x|^2 so far, where wanted
} cpu_rows_copy;

// What an instruction set has for rows of one type: a text of templates/cpu/load, written when the library is
// built. All give the same bits.
typedef struct cpu_load_kernels {
    cpu_prebuilt base;
    // `first`: LOAD_LANES copies of the first row, around which moments are taken; `lanes`: room for
    // 4 * LOAD_LANES rows.
    void (*moments)(const cpu_moments *out, const void *rows, int64_t count, int64_t d, const double *first,
                    double *lanes);
    // `values` = (x - centre) * factor, floats where `single`, else doubles; returns the sum of their squares. `centre`
    // and `factor`: LOAD_LANES rows of each.
    double (*values)(void *values, const void *rows, int64_t count, int64_t d, const double *centre,
                     const double *factor, int single);
    // `values` and their copy into the SoA groups in one, for rows and values of floats; returns the sum of their
    // squares. NULL: `values`, then a copy in plain C.
    double (*copy)(cpu_rows_copy *copy);
    void (*copy_end)(void); // after copy, before another thread reads the points
} cpu_load_kernels;

const cpu_load_kernels *km_cpu_load_kernels(const km_plan *plan, int64_t row_value_bytes);

static inline double load_lanes_sum(const double *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

#endif

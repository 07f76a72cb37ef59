// SPDX-License-Identifier: MIT
// What kernels of the load are handed (templates/cpu/load).
#ifndef KM_RUNTIME_CPU_LOAD_H
#define KM_RUNTIME_CPU_LOAD_H
#include "prebuilt.h"
#include <kmgen/plan.h>

enum {
    LOAD_LANES = 8,      // running sums side by side, on every machine: the same bits everywhere
    LOAD_COPY_GROUP = 16 // points of groups that `copy` fills
};

// Of each feature of a chunk of rows, d each: sums of (x - first) and its square, least and greatest.
typedef struct cpu_moments {
    double *sum, *square, *low, *high;
} cpu_moments;

// A chunk of rows on its way to the groups.
typedef struct cpu_rows_copy {
    const float *rows;
    int64_t first, count, d;       // first: its first point, a multiple of LOAD_LANES
    const double *centre, *factor; // LOAD_LANES rows of each
    float *values;                 // out: (x - centre) * factor; room for a row of 16 more
    float *groups;                 // all groups
    int64_t soa_points;            // a multiple of LOAD_COPY_GROUP
    int streams;                   // past the caches: the copy is larger than they are
    int wants_largest;
    float largest; // in and out: no |x|^2 is above; not touched unless wanted
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
    // Values on their way into the groups, for rows and values of floats; returns the sum of their squares.
    // NULL: there is nothing better than one after the other.
    double (*copy)(cpu_rows_copy *copy);
    void (*copy_end)(void); // before another thread reads what was copied
} cpu_load_kernels;

const cpu_load_kernels *km_cpu_load_kernels(const km_plan *plan, int64_t row_value_bytes);

static inline double load_lanes_sum(const double *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

#endif

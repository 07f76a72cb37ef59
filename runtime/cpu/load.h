// SPDX-License-Identifier: MIT
// Inside load.c: what vector kernels of the load are handed.
#ifndef KM_RUNTIME_CPU_LOAD_H
#define KM_RUNTIME_CPU_LOAD_H
#include <stdint.h>

enum { LOAD_LANES = 8 }; // running sums side by side, on every machine: the same bits everywhere

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
    int64_t group;                 // a multiple of 16
    int streams;                   // past the caches: the copy is larger than they are
    int wants_largest;
    float largest; // in and out: no |x|^2 is above; not touched unless wanted
} cpu_rows_copy;

#if defined(__x86_64__)
// Both give the bits of the kernels in load_kernels.h. `first`: LOAD_LANES copies of the first row; `lanes`: room for
// 4 * LOAD_LANES rows.
void km_cpu_moments_avx512(const cpu_moments *out, const float *rows, int64_t count, int64_t d,
                           const double *first, double *lanes);
// Returns the sum of squares of the values.
double km_cpu_rows_copy_avx512(cpu_rows_copy *copy);
// Before another thread reads what was copied.
void km_cpu_rows_copy_end(void);
#endif

#endif

// SPDX-License-Identifier: MIT
// What the load does with rows (runtime/cpu/load.h). Rows are read as they lie, LOAD_LANES values at a time. LOAD_LANES
// rows of d values are d vectors, and each lane of such a vector always holds the same feature. Loops are plain C that
// compilers vectorise. Floats and AVX-512 have a file of their own.
//@ include cpu/prebuilt.h
#include "runtime/cpu/load.h"

//@ if avx512_float
//@ include cpu/load/rows_avx512.c

//@ else
KM_INLINE void moments_join(const cpu_moments *out, int64_t f, double sum, double square, double low,
                            double high) {
    out->sum[f] += sum;
    out->square[f] += square;
    out->low[f] = low < out->low[f] ? low : out->low[f];
    out->high[f] = high > out->high[f] ? high : out->high[f];
}

// Moments of (x - first) over `count` vectors that lie `stride` values apart and whose lanes begin with feature f. They
// are joined to `out` in the order of the lanes.
KM_INLINE void lane_moments(const cpu_moments *out, int64_t f, int64_t d, const km_real *x, int64_t count,
                            int64_t stride, const double *first) {
    double sum[LOAD_LANES] = {0}, square[LOAD_LANES] = {0}, low[LOAD_LANES], high[LOAD_LANES];
    for (int l = 0; l < LOAD_LANES; l++) low[l] = high[l] = first[l];
    for (int64_t i = 0; i < count; i++, x += stride)
        for (int l = 0; l < LOAD_LANES; l++) {
            double value = (double)x[l], t = value - first[l];
            sum[l] += t;
            square[l] += t * t;
            low[l] = value < low[l] ? value : low[l];
            high[l] = value > high[l] ? value : high[l];
        }
    for (int l = 0; l < LOAD_LANES; l++, f = f + 1 < d ? f + 1 : 0)
        moments_join(out, f, sum[l], square[l], low[l], high[l]);
}

// Moments of each feature of `count` rows, around the first row, which `first` holds LOAD_LANES times.
KM_TARGET static void rows_moments(const cpu_moments *out, const void *rows, int64_t count, int64_t d,
                                   const double *first, double *lanes) {
    const km_real *x = (const km_real *)rows;
    (void)lanes;
    int64_t vectors_rows = count / LOAD_LANES * LOAD_LANES;
    for (int64_t f = 0; f < d; f++) {
        out->sum[f] = out->square[f] = 0;
        out->low[f] = out->high[f] = first[f];
    }
    for (int64_t v = 0; v < d && vectors_rows; v++)
        lane_moments(out, v * LOAD_LANES % d, d, x + v * LOAD_LANES, count / LOAD_LANES, LOAD_LANES * d,
                     first + v * LOAD_LANES);
    for (int64_t i = vectors_rows; i < count; i++)
        for (int64_t f = 0; f < d; f++) {
            double value = (double)x[i * d + f], t = value - first[f];
            moments_join(out, f, t, t * t, value, value);
        }
}

//@ end
// Stores a value in the plan's type and returns the square of what was stored.
KM_INLINE double square_of(void *values, int64_t i, double value, const int single) {
    if (single) {
        ((float *)values)[i] = (float)value;
        value = (double)(float)value;
    } else {
        ((double *)values)[i] = value;
    }
    return value * value;
}

// `values` = (x - centre) * factor, floats where `single`, else doubles; returns the sum of their squares. `centre` and
// `factor` hold LOAD_LANES rows.
KM_INLINE double row_values(void *values, const km_real *x, int64_t count, int64_t d, const double *centre,
                            const double *factor, const int single) {
    double squares[LOAD_LANES] = {0};
    int64_t period = LOAD_LANES * d, i = 0;
    for (; i + period <= count * d; i += period)
        for (int64_t at = 0; at < period; at += LOAD_LANES)
            for (int l = 0; l < LOAD_LANES; l++) {
                double value = ((double)x[i + at + l] - centre[at + l]) * factor[at + l];
                squares[l] += square_of(values, i + at + l, value, single);
            }
    for (int64_t at = 0; i < count * d; i++, at++) {
        double value = ((double)x[i] - centre[at]) * factor[at];
        squares[at % LOAD_LANES] += square_of(values, i, value, single);
    }
    return load_lanes_sum(squares);
}

KM_TARGET static double rows_values(void *values, const void *rows, int64_t count, int64_t d,
                                    const double *centre, const double *factor, int single) {
    const km_real *x = (const km_real *)rows;
    return single ? row_values(values, x, count, d, centre, factor, 1)
                  : row_values(values, x, count, d, centre, factor, 0);
}

//@ if avx512_float
const cpu_load_kernels $name = {{$isa, sizeof(km_real)}, rows_moments, rows_values, rows_copy, rows_copy_end};
//@ else
const cpu_load_kernels $name = {{$isa, sizeof(km_real)}, rows_moments, rows_values, NULL, NULL};
//@ end

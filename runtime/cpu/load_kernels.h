// SPDX-License-Identifier: MIT
// The body of load.c for rows of one type, REAL; included once a type, so no include guard. Rows are read as they lie,
// LANES values at a time: LANES rows of d values are d vectors, whose lanes always hold the same features.

// Sums, squares, minima and maxima of (x - first) over `count` vectors that lie `stride` values apart and whose lanes
// begin with feature f; they join `out` in the order of the lanes.
static inline __attribute__((always_inline)) void NAME(lane_moments)(const cpu_moments *out, int64_t f,
                                                                     int64_t d, const REAL *x, int64_t count,
                                                                     int64_t stride, const double *first) {
    double sum[LANES] = {0}, square[LANES] = {0}, low[LANES], high[LANES];
    for (int l = 0; l < LANES; l++) low[l] = high[l] = first[l];
    for (int64_t i = 0; i < count; i++, x += stride)
        for (int l = 0; l < LANES; l++) {
            double value = (double)x[l], t = value - first[l];
            sum[l] += t;
            square[l] += t * t;
            low[l] = value < low[l] ? value : low[l];
            high[l] = value > high[l] ? value : high[l];
        }
    for (int l = 0; l < LANES; l++, f = f + 1 < d ? f + 1 : 0)
        moments_join(out, f, sum[l], square[l], low[l], high[l]);
}

// Moments of each feature of `count` rows, around the first row, which `first` holds LANES times.
static inline __attribute__((always_inline)) void
NAME(row_moments)(const cpu_moments *out, const REAL *x, int64_t count, int64_t d, const double *first) {
    int64_t whole = count / LANES * LANES;
    for (int64_t f = 0; f < d; f++) {
        out->sum[f] = out->square[f] = 0;
        out->low[f] = out->high[f] = first[f];
    }
    for (int64_t v = 0; v < d && whole; v++)
        NAME(lane_moments)(out, v * LANES % d, d, x + v * LANES, count / LANES, LANES * d, first + v * LANES);
    for (int64_t i = whole; i < count; i++)
        for (int64_t f = 0; f < d; f++) {
            double value = (double)x[i * d + f], t = value - first[f];
            moments_join(out, f, t, t * t, value, value);
        }
}

// `values` = (x - centre) * factor, floats where `single`, else doubles; returns the sum of their squares. `centre` and
// `factor` hold LANES rows.
static inline __attribute__((always_inline)) double NAME(row_values)(void *values, const REAL *x,
                                                                     int64_t count, int64_t d,
                                                                     const double *centre,
                                                                     const double *factor, const int single) {
    double squares[LANES] = {0};
    int64_t period = LANES * d, i = 0;
    for (; i + period <= count * d; i += period)
        for (int64_t at = 0; at < period; at += LANES)
            for (int l = 0; l < LANES; l++) {
                double value = ((double)x[i + at + l] - centre[at + l]) * factor[at + l];
                squares[l] += square_of(values, i + at + l, value, single);
            }
    for (int64_t at = 0; i < count * d; i++, at++) {
        double value = ((double)x[i] - centre[at]) * factor[at];
        squares[at % LANES] += square_of(values, i, value, single);
    }
    return lanes_sum(squares);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
NAME(row_moments_avx2)(const cpu_moments *out, const REAL *x, int64_t count, int64_t d, const double *first) {
    NAME(row_moments)(out, x, count, d, first);
}

__attribute__((target("avx2"))) static double NAME(row_values_avx2)(void *values, const REAL *x,
                                                                    int64_t count, int64_t d,
                                                                    const double *centre,
                                                                    const double *factor, int single) {
    return single ? NAME(row_values)(values, x, count, d, centre, factor, 1)
                  : NAME(row_values)(values, x, count, d, centre, factor, 0);
}
#endif

// SPDX-License-Identifier: MIT
#include "$name.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread char host_text[512];

const char *$name_error(void) {
    return host_text;
}

static __attribute__((format(printf, 2, 3))) int host_fail(int kind, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(host_text, sizeof host_text, format, values);
    va_end(values);
    return kind;
}

static const int host_ks[$upper_KS] = {
    //@ for k in ks
    $k,
    //@ end
};
static const int host_offsets[$upper_KS] = {
    //@ for k in ks
    $k_offset,
    //@ end
};

// Statistics of the points, and how they are transformed: x becomes (x - centre[f]) * factor. The centre is the mean,
// rounded to a multiple of a power of two, so that integers stay integers. The factor is a power of two that brings the
// largest coordinate between 1/2 and 1. So x keeps its digits.
typedef struct host_data {
    double centre[$upper_FEATURES], mean[$upper_FEATURES], variance[$upper_FEATURES];
    double low[$upper_FEATURES], high[$upper_FEATURES];
    double factor, total_weight;
    double total_square; // sum of w |x|^2, after the transform
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

// From sums of w (x - origin) and w (x - origin)^2, and from the smallest and largest values, d of each. Returns 0
// where the origin is so far from the mean that digits of the variance are lost.
static int host_take_statistics(host_data *data, const double *sums, const double *origin) {
    int is_exact = 1;
    for (int f = 0; f < $upper_FEATURES; f++) {
        double away = sums[f] / data->total_weight;
        data->mean[f] = origin[f] + away;
        data->variance[f] = sums[$upper_FEATURES + f] / data->total_weight - away * away;
        data->low[f] = sums[2 * $upper_FEATURES + f];
        data->high[f] = sums[3 * $upper_FEATURES + f];
        is_exact &= away * away <= 64 * data->variance[f];
    }
    return is_exact;
}

static int host_choose_move(host_data *data) {
    double largest = 0;
    int exponent;
    for (int f = 0; f < $upper_FEATURES; f++) {
        double centre = host_centre(data->mean[f], data->variance[f], data->low[f], data->high[f]);
        data->centre[f] = centre;
        largest = fmax(largest, fmax(fabs(data->low[f] - centre), fabs(data->high[f] - centre)));
    }
    if (!(data->total_weight > 0))
        return host_fail($upper_DATA, "the weights add up to nothing: some point must weigh more than 0");
    if (!(largest * largest * data->total_weight <= DBL_MAX))
        return host_fail($upper_DATA,
                         "squares of values like %g do not fit a double: divide the points by a power of ten",
                         largest);
    frexp(largest, &exponent);
    data->factor = largest > 0 ? ldexp(1.0, -exponent) : 1.0;
    return $upper_OK;
}

// A K stops when the squared shift of its centroids is at most this.
static double host_shift_max(const host_data *data, double tolerance) {
    double sum = 0;
    for (int f = 0; f < $upper_FEATURES; f++) sum += data->variance[f] * data->factor * data->factor;
    return tolerance * (sum / $upper_FEATURES);
}

// How far the mean of n equal points may lie from them by rounding, squared, for points of size 1.
static double host_rounding2(long long n) {
    //@ if float64
    const double relative = (double)(n < 65536 ? n : 65536) * 2.220446049250313e-16;
    //@ else
    const double relative = (double)(n < 16 ? n : 16) * 5.9604644775390625e-8;
    //@ end
    return relative * relative;
}

static int host_by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { HOST_SAMPLE = 128 };

// |x|^2 of a typical point: the median of a sample, or the next above it that is not zero.
static double host_typical(double *squares, int count) {
    int at = count / 2;
    qsort(squares, (size_t)count, sizeof *squares, host_by_value);
    while (at + 1 < count && !(squares[at] > 0)) at++;
    return squares[at];
}

// Candidates of a pick of k-means++: 1, then 2 + ln(pick + 1) but 4 at least. The first K picks seed K, whatever the
// largest K is.
static int host_candidates(long long pick) {
    static const int steps[] = {21, 55, 149, 404, 1097, 2981, 8104, 22027, 59875};
    int count = 4;
    if (pick == 0) return 1;
    for (int i = 0; i < 9 && pick + 1 >= steps[i]; i++) count++;
    return count;
}

static int host_check(const $name_fit *fit, const void *points, long long n) {
    if (!fit || !points) return host_fail($upper_ARGUMENT, "%s is NULL", fit ? "points" : "fit");
    if (n < $upper_K_MAX)
        return host_fail($upper_DATA,
                         "%lld points are fewer than the largest K, %d: give more, or emit a shorter list", n,
                         (int)$upper_K_MAX);
    return $upper_OK;
}

static int host_check_index(int index) {
    if (index >= 0 && index < $upper_KS) return $upper_OK;
    return host_fail($upper_ARGUMENT, "entry %d of a list of %d K: the first is 0", index, (int)$upper_KS);
}

// Transforms a coordinate as the points are, and back.
static $name_real host_there(const host_data *data, $name_real x, int f) {
    return ($name_real)(((double)x - data->centre[f]) * data->factor);
}

static $name_real host_back(const host_data *data, double x, int f) {
    return ($name_real)(x / data->factor + data->centre[f]);
}

// Refuses value i of the first centroids where it is far outside the points.
static int host_check_first(const host_data *data, double x, long long i) {
    const int f = (int)(i % $upper_FEATURES);
    if (fabs((x - data->centre[f]) * data->factor) <= 1048576.0) return $upper_OK;
    return host_fail($upper_DATA,
                     "row %lld of the first centroids, feature %d: %g is no number among the points",
                     i / $upper_FEATURES, f, x);
}

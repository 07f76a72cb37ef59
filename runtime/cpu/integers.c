// SPDX-License-Identifier: MIT
// Scores of 16-bit integers: what kernels of lanes that have them are handed, and how far their scores are off.
#include "../../base/error.h"
#include "cpu.h"
#include <math.h>
#include <stdlib.h>

enum { GROUP = 64 }; // of the kernels that have them

// The largest integer of points and of centroids, and points whose scores are too small or too large for floats.
static const double integer_most = 32766, value_least = 1e-20, score_least = 1e-25, score_most = 1e37;

int km_cpu_wants_integers(const cpu_engine *engine) {
    return engine->kernels.integers && engine->group == GROUP &&
           engine->base.kernels->device->facts.has_integers &&
           km_plan_get(engine->base.plan, "int16_scores") == 1;
}

float km_cpu_largest_square(const float *groups, int64_t count, int64_t d) {
    float largest = 0;
    for (int64_t g = 0; g < count; g++) {
        float squares[GROUP] = {0};
        for (int64_t f = 0; f < d; f++, groups += GROUP)
            for (int64_t i = 0; i < GROUP; i++) squares[i] += groups[i] * groups[i];
        for (int64_t i = 0; i < GROUP; i++) largest = squares[i] > largest ? squares[i] : largest;
    }
    return largest;
}

km_status km_cpu_integers_create(cpu_engine *engine, const double *largest, km_error *err) {
    int64_t d = engine->base.d;
    if (!km_cpu_wants_integers(engine)) return KM_OK;
    float *scales = malloc((size_t)d * sizeof *scales);
    if (!scales) return km_fail_memory(err, "scales of features", d * (int64_t)sizeof *scales);
    if (km_cpu_scales(scales, largest, d))
        engine->scales = scales;
    else
        free(scales);
    return KM_OK;
}

int km_cpu_scales(float *scales, const double *largest, int64_t d) {
    for (int64_t f = 0; f < d; f++) {
        if (largest[f] > 0 && (largest[f] < value_least || largest[f] > 1 / value_least)) return 0;
        scales[f] = largest[f] > 0 ? (float)(integer_most / largest[f]) : 1;
    }
    return 1;
}

// No score of a point is above in magnitude: points lie in a box, and in a ball around its origin.
static double score_bound(const float *row, int64_t d, const float *scales, double norm) {
    double in_box = 0, square = 0;
    for (int64_t f = 0; f < d; f++) {
        in_box += fabs((double)row[f]) * integer_most / (double)scales[f];
        square += (double)row[f] * (double)row[f];
    }
    return fabs((double)row[d]) + fmin(in_box, norm * sqrt(square));
}

// What a score of 1 is as an integer: no sum overflows, no centroid's integer is too large. 0: there is none.
static double unit_of(double *bound, const float *table, int64_t k, int64_t d, const float *scales,
                      double norm) {
    double unit = INFINITY;
    *bound = 0;
    for (int64_t j = 0; j < k; j++) {
        const float *row = table + j * (d + 1);
        *bound = fmax(*bound, score_bound(row, d, scales, norm));
        for (int64_t f = 0; f < d; f++)
            unit = fmin(unit, integer_most * (double)scales[f] / fabs((double)row[f]));
    }
    if (!(*bound > score_least && *bound < score_most)) return 0;
    return fmin(unit, (0x1p31 - 32768 * ((double)d + 2)) / *bound);
}

// The integers of a centroid; returns how far a score may be off as these are rounded.
static double row_pairs(int32_t *pairs, const float *row, int64_t d, const float *scales, double norm,
                        double unit) {
    double in_box = 0, square = 0;
    int32_t halves[2] = {0, 0};
    for (int64_t f = 0; f < d; f++) {
        double exact = (double)row[f] / (double)scales[f] * unit, whole = rint(exact);
        double off = exact - whole, scaled = off * (double)scales[f];
        in_box += fabs(off) * (integer_most + 1);
        square += scaled * scaled;
        halves[f % 2] = (int32_t)whole;
        if (f % 2 == 0) halves[1] = 0;
        pairs[f / 2] = (int32_t)((uint32_t)halves[1] << 16 | ((uint32_t)halves[0] & 0xffff));
    }
    pairs[(d + 1) / 2] = (int32_t)rint((double)row[d] * unit);
    return fmin(in_box, norm * sqrt(square)) + 0.5;
}

static double integer_at(const int32_t *pairs, int64_t f) {
    return (double)(int16_t)((uint32_t)pairs[f / 2] >> f % 2 * 16);
}

// How far the difference of two scores may be off as the point's integers are rounded.
static double points_off(const int32_t *pairs, int64_t k, int64_t d) {
    double off = 0;
    for (int64_t f = 0; f < d; f++) {
        double low = integer_at(pairs, f), high = low;
        for (int64_t j = 1; j < k; j++) {
            double value = integer_at(pairs + j * KM_CPU_PAIRS_ROW(d), f);
            low = fmin(low, value);
            high = fmax(high, value);
        }
        off += 0.5 * (high - low);
    }
    return off;
}

void km_cpu_columns(float *columns, const float *table, int64_t k, int64_t d) {
    int64_t width = KM_CPU_COLUMNS(k);
    for (int64_t f = 0; f <= d; f++)
        for (int64_t j = 0; j < width; j++)
            columns[f * width + j] = j < k ? table[j * (d + 1) + f] : f < d ? 0 : -INFINITY;
}

int64_t km_cpu_pairs(int32_t *pairs, const float *table, int64_t k, int64_t d, const float *scales,
                     double norm) {
    double bound, off = 0, unit = unit_of(&bound, table, k, d, scales, norm);
    if (unit == 0) return -1;
    for (int64_t j = 0; j < k; j++)
        off =
            fmax(off, row_pairs(pairs + j * KM_CPU_PAIRS_ROW(d), table + j * (d + 1), d, scales, norm, unit));
    // Two scores, and both as floats, whose choice counts: d additions are rounded.
    off = 2 * off + points_off(pairs, k, d) + 2 * (double)(d + 1) * 0x1p-24 * bound * unit;
    double close = ceil(off * (1 + 1e-6) / 65536); // the low 16 bits of a score do not count
    return close < 16384 ? (int64_t)close : -1;
}

// SPDX-License-Identifier: MIT
// int16 scores: what the kernels of lanes are handed for them, and how far such a score may be off.
#include "../../base/error.h"
#include "cpu.h"
#include <math.h>
#include <stdlib.h>

enum { SOA_POINTS = 64 }; // points of an SoA group of the kernels that have int16 scores

// The largest integer of points and of centroids. Values and scores beyond the others are too small or too large for
// floats.
static const double int16_max = 32766, value_least = 1e-20, score_least = 1e-25, score_most = 1e37;

int km_cpu_wants_int16_scores(const cpu_engine *engine) {
    return engine->kernels.int16_scores && engine->soa_points == SOA_POINTS &&
           engine->base.kernels->device->facts.has_integers &&
           km_plan_get(engine->base.plan, "int16_scores") == 1;
}

float km_cpu_largest_square(const float *soa_groups, int64_t count, int64_t d) {
    float largest = 0;
    for (int64_t g = 0; g < count; g++) {
        float squares[SOA_POINTS] = {0};
        for (int64_t f = 0; f < d; f++, soa_groups += SOA_POINTS)
            for (int64_t i = 0; i < SOA_POINTS; i++) squares[i] += soa_groups[i] * soa_groups[i];
        for (int64_t i = 0; i < SOA_POINTS; i++) largest = squares[i] > largest ? squares[i] : largest;
    }
    return largest;
}

km_status km_cpu_int16_create(cpu_engine *engine, const double *largest, km_error *err) {
    int64_t d = engine->base.d;
    if (!km_cpu_wants_int16_scores(engine)) return KM_OK;
    float *scales = malloc((size_t)d * sizeof *scales);
    if (!scales) return km_fail_memory(err, "scales of features", d * (int64_t)sizeof *scales);
    if (km_cpu_int16_scales(scales, largest, d))
        engine->int16_scales = scales;
    else
        free(scales);
    return KM_OK;
}

int km_cpu_int16_scales(float *scales, const double *largest, int64_t d) {
    for (int64_t f = 0; f < d; f++) {
        if (largest[f] > 0 && (largest[f] < value_least || largest[f] > 1 / value_least)) return 0;
        scales[f] = largest[f] > 0 ? (float)(int16_max / largest[f]) : 1;
    }
    return 1;
}

// No point's score is larger in magnitude: points lie in a box, and in a ball of radius `norm_max` around the origin.
static double score_bound(const float *row, int64_t d, const float *scales, double norm_max) {
    double in_box = 0, square = 0;
    for (int64_t f = 0; f < d; f++) {
        in_box += fabs((double)row[f]) * int16_max / (double)scales[f];
        square += (double)row[f] * (double)row[f];
    }
    return fabs((double)row[d]) + fmin(in_box, norm_max * sqrt(square));
}

// The factor from scores to int16 scores. With it no sum overflows, and no centroid's integer is too large. 0: there is
// none.
static double factor_of(double *bound, const float *table, int64_t k, int64_t d, const float *scales,
                        double norm_max) {
    double factor = INFINITY;
    *bound = 0;
    for (int64_t j = 0; j < k; j++) {
        const float *row = table + j * (d + 1);
        *bound = fmax(*bound, score_bound(row, d, scales, norm_max));
        for (int64_t f = 0; f < d; f++)
            factor = fmin(factor, int16_max * (double)scales[f] / fabs((double)row[f]));
    }
    if (!(*bound > score_least && *bound < score_most)) return 0;
    return fmin(factor, (0x1p31 - 32768 * ((double)d + 2)) / *bound);
}

// Makes the int16 row of a centroid. Returns how far its score may be off because the row is rounded.
static double int16_row(int32_t *out, const float *row, int64_t d, const float *scales, double norm_max,
                        double factor) {
    double in_box = 0, square = 0;
    int32_t halves[2] = {0, 0}; // of a 32-bit word: two features
    for (int64_t f = 0; f < d; f++) {
        double exact = (double)row[f] / (double)scales[f] * factor, rounded = rint(exact);
        double off = exact - rounded, scaled = off * (double)scales[f];
        in_box += fabs(off) * (int16_max + 1);
        square += scaled * scaled;
        halves[f % 2] = (int32_t)rounded;
        if (f % 2 == 0) halves[1] = 0;
        out[f / 2] = (int32_t)((uint32_t)halves[1] << 16 | ((uint32_t)halves[0] & 0xffff));
    }
    out[(d + 1) / 2] = (int32_t)rint((double)row[d] * factor);
    return fmin(in_box, norm_max * sqrt(square)) + 0.5;
}

static double int16_at(const int32_t *row, int64_t f) {
    return (double)(int16_t)((uint32_t)row[f / 2] >> f % 2 * 16);
}

// How far the difference of two scores may be off because points are rounded.
static double points_off(const int32_t *int16_table, int64_t k, int64_t d) {
    double off = 0;
    for (int64_t f = 0; f < d; f++) {
        double low = int16_at(int16_table, f), high = low;
        for (int64_t j = 1; j < k; j++) {
            double value = int16_at(int16_table + j * KM_CPU_INT16_ROW(d), f);
            low = fmin(low, value);
            high = fmax(high, value);
        }
        off += 0.5 * (high - low);
    }
    return off;
}

void km_cpu_table_columns(float *columns, const float *table, int64_t k, int64_t d) {
    int64_t width = KM_CPU_COLUMNS(k);
    for (int64_t f = 0; f <= d; f++)
        for (int64_t j = 0; j < width; j++)
            columns[f * width + j] = j < k ? table[j * (d + 1) + f] : f < d ? 0 : -INFINITY;
}

int64_t km_cpu_int16_table(int32_t *int16_table, const float *table, int64_t k, int64_t d,
                           const float *scales, double norm_max) {
    double bound, off = 0, factor = factor_of(&bound, table, k, d, scales, norm_max);
    if (factor == 0) return -1;
    for (int64_t j = 0; j < k; j++)
        off = fmax(off, int16_row(int16_table + j * KM_CPU_INT16_ROW(d), table + j * (d + 1), d, scales,
                                  norm_max, factor));
    // Two scores are compared. The float scores, whose order counts, err as well: d additions are rounded.
    off = 2 * off + points_off(int16_table, k, d) + 2 * (double)(d + 1) * 0x1p-24 * bound * factor;
    double margin = ceil(off * (1 + 1e-6) / 65536); // only the high 16 bits of a score are compared
    return margin < 16384 ? (int64_t)margin : -1;
}

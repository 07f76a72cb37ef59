// SPDX-License-Identifier: MIT
// From statistics of the data to the space that is clustered; the same on every backend.
#include "../gen/status.h"
#include "backend.h"
#include <math.h>
#include <stdlib.h>

km_status km_data_stats_alloc(km_data_stats *stats, int64_t d, km_error *err) {
    double *arrays = calloc((size_t)(4 * d), sizeof *arrays);
    if (!arrays) return km_fail_memory(err, "the statistics of the data", 4 * d * (int64_t)sizeof *arrays);
    *stats = (km_data_stats){
        .mean = arrays, .variance = arrays + d, .minimum = arrays + 2 * d, .maximum = arrays + 3 * d};
    return KM_OK;
}

void km_data_stats_free(km_data_stats *stats) {
    free(stats->mean); // the one allocation that holds all four arrays
    *stats = (km_data_stats){0};
}

// The mean, rounded to a multiple of the largest power of two that is not above half the standard deviation. Data
// on a grid (integers, quarters) have a grid step that is a power of two near or below that, so x - centre stays on
// the grid and needs no more digits than the data's range; and the centre is within a quarter of a standard
// deviation of the mean, which costs the scores next to nothing.
static double centre_of(double mean, double variance, double minimum, double maximum) {
    if (minimum == maximum) return minimum; // a constant feature becomes exactly zero
    double deviation = sqrt(variance);
    if (!(deviation > 0) || !isfinite(deviation)) return mean;
    int exponent;
    frexp(deviation, &exponent); // 2^(exponent-1) <= deviation
    double step = ldexp(1.0, exponent - 2);
    double centre = rint(mean / step) * step;
    return isfinite(centre) ? centre : mean;
}

static double factor_of(double variance, double minimum, double maximum, km_scale scale) {
    double spread = 1.0;
    if (scale == KM_SCALE_STANDARD) spread = sqrt(variance);
    if (scale == KM_SCALE_MINMAX) spread = maximum - minimum;
    double factor = 1.0 / spread;
    return minimum < maximum && spread > 0 && isfinite(factor) ? factor : 1.0;
}

void km_transform_of(double *centre, double *factor, const km_data_stats *stats, int64_t d, km_scale scale,
                     km_type type) {
    (void)type; // the same point for both types, so that float32 and float64 cluster the same space
    for (int64_t f = 0; f < d; f++) {
        centre[f] = centre_of(stats->mean[f], stats->variance[f], stats->minimum[f], stats->maximum[f]);
        factor[f] = factor_of(stats->variance[f], stats->minimum[f], stats->maximum[f], scale);
    }
}

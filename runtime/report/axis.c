// SPDX-License-Identifier: MIT
#include "axis.h"

#include <math.h>
#include <stdio.h>

double km_axis_step(double range, double count) {
    double rough = range / count, power = pow(10, floor(log10(rough)));
    double lead = rough / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

int km_axis_range(double *low, double *high, const double *values, int64_t count) {
    int found = 0;
    *low = *high = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        if (!found || values[i] < *low) *low = values[i];
        if (!found || values[i] > *high) *high = values[i];
        found = 1;
    }
    return found;
}

// The power of ten to divide by: 0 where plain numbers are readable.
static int common_exponent(double low, double high) {
    double size = fmax(fabs(low), fabs(high));
    if (size == 0 || (size >= 1e-2 && size < 1e5)) return 0;
    return (int)floor(log10(size));
}

// value / 10^exponent in two steps, as 10^exponent alone may not be a normal double.
static double scaled(double value, int exponent) {
    int half = exponent / 2;
    return value / pow(10, half) / pow(10, exponent - half);
}

km_axis km_axis_of_values(const double *values, int64_t count, double begin, double end) {
    km_axis a = {.low = 0, .high = 1, .begin = begin, .end = end};
    double low, high;
    if (km_axis_range(&low, &high, values, count)) {
        a.exponent = common_exponent(low, high);
        a.low = scaled(low, a.exponent);
        a.high = scaled(high, a.exponent);
    }
    double size = fmax(fabs(a.low), fabs(a.high));
    // One value, or all equal: space on both sides. Nearly equal: no more digits than a label can hold.
    double space = size == 0 ? 1 : a.high == a.low ? size / 2 : 5e-5 * size;
    if (a.high - a.low < space) {
        a.low -= space;
        a.high += space;
    }
    // The axis begins at zero where values come close to it.
    if (a.low > 0 && a.low < .5 * a.high) a.low = 0;
    a.step = km_axis_step(a.high - a.low, 5);
    a.low = floor(a.low / a.step + 1e-9) * a.step;
    a.high = ceil(a.high / a.step - 1e-9) * a.step;
    a.decimals = (int)fmax(0, -floor(log10(a.step) + 1e-9));
    return a;
}

km_axis km_axis_of_k(int32_t first, int32_t last, double begin, double end, double ticks) {
    double range = (double)last - first, space = fmax(.5, .03 * range);
    km_axis a = {.low = first - space, .high = last + space, .begin = begin, .end = end};
    a.step = fmax(1, km_axis_step(range + 1, ticks));
    return a;
}

double km_axis_place(const km_axis *a, double value) {
    return a->begin + (scaled(value, a->exponent) - a->low) / (a->high - a->low) * (a->end - a->begin);
}

int km_axis_ticks(const km_axis *a) {
    return (int)lround((a->high - a->low) / a->step) + 1;
}

double km_axis_tick(char *label, int64_t size, const km_axis *a, int i) {
    double value = a->low + i * a->step;
    // A tick at zero must not read "-0".
    snprintf(label, (size_t)size, "%.*f", a->decimals, fabs(value) < a->step / 2 ? 0. : value);
    return a->begin + (value - a->low) / (a->high - a->low) * (a->end - a->begin);
}

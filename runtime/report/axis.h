// SPDX-License-Identifier: MIT
// Axes of pictures: a linear map from numbers to a page, with ticks at round numbers.
#ifndef KM_RUNTIME_REPORT_AXIS_H
#define KM_RUNTIME_REPORT_AXIS_H
#include <stdint.h>

// Numbers are divided by 10^exponent first.
typedef struct km_axis {
    double low, high;  // of the numbers
    double begin, end; // on the page
    double step;       // between ticks
    int exponent;      // the axis shows numbers in units of 10^exponent
    int decimals;      // of a tick's label
} km_axis;

// Lowest and highest of the defined values; 0 where none is.
int km_axis_range(double *low, double *high, const double *values, int64_t count);
// 1, 2 or 5 times a power of ten, so that about `count` steps make `range`.
double km_axis_step(double range, double count);
// An axis for these values, with ticks at both ends.
km_axis km_axis_of_values(const double *values, int64_t count, double begin, double end);
// An axis from the first K to the last, with space at both ends; about `ticks` ticks.
km_axis km_axis_of_k(int32_t first, int32_t last, double begin, double end, double ticks);

// Where a value lies on the page.
double km_axis_place(const km_axis *axis, double value);
// Ticks of an axis of values: how many, where number i lies, and its label.
int km_axis_ticks(const km_axis *axis);
double km_axis_tick(char *label, int64_t size, const km_axis *axis, int i);

#endif

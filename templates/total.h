// SPDX-License-Identifier: MIT
// Totals that do not depend on the order in which numbers are added: a wide fixed-point number in three doubles. Host
// and device compile this.
//
// A number x is cut into three digits, each a multiple of the digit's unit and at most half the unit above:
// x = high + mid + low, what is below the lowest unit rounded away. Digits are added apart. Each is a sum of
// multiples of one unit that a double holds exactly, so any order gives the same bits, on any thread or device; and two
// totals are joined by adding their digits, as MPI or NCCL add doubles.
#ifndef KM_TOTAL_H
#define KM_TOTAL_H

enum {
    KM_TOTAL_DIGITS = 3,
    KM_TOTAL_HIGH_BITS = 48,    // of a total's bound above the highest unit: 5 are spare
    KM_TOTAL_STEP_BITS = 30,    // from one unit to the next
    KM_TOTAL_ADDENDS_BITS = 23, // so many numbers may be added, to base 2, between two carries
    KM_TOTAL_EXPONENT_MAX = 1018
};

// Adding and subtracting 1.5 2^52 units rounds to a multiple of the unit.
typedef struct km_total_units {
    double rounder[KM_TOTAL_DIGITS];
} km_total_units;

// Units for totals of numbers whose magnitudes add up to at most 2^exponent. The lowest unit is 2^(exponent - 108), or
// the smallest double: what lies there is added exactly without rounding.
KM_BOTH km_total_units km_total_units_of(int exponent) {
    km_total_units units;
    const int most = exponent < KM_TOTAL_EXPONENT_MAX ? exponent : KM_TOTAL_EXPONENT_MAX;
    for (int i = 0; i < KM_TOTAL_DIGITS; i++)
        units.rounder[i] = 1.5 * ldexp(1.0, most - KM_TOTAL_HIGH_BITS - i * KM_TOTAL_STEP_BITS + 52);
    return units;
}

// Adds x.
KM_BOTH void km_total_add(double *high, double *mid, double *low, const km_total_units *units, double x) {
    const double first = (x + units->rounder[0]) - units->rounder[0], rest = x - first;
    const double second = (rest + units->rounder[1]) - units->rounder[1], last = rest - second;
    *high += first;
    *mid += second;
    *low += (last + units->rounder[2]) - units->rounder[2];
}

// Brings the lower digits below half the unit above them, which does not change the number. It makes room for
// as many addends again, and is to be done at a fixed moment: between two passes.
KM_BOTH void km_total_carry(double *high, double *mid, double *low, const km_total_units *units) {
    const double second = (*low + units->rounder[1]) - units->rounder[1];
    *low -= second;
    *mid += second;
    const double first = (*mid + units->rounder[0]) - units->rounder[0];
    *mid -= first;
    *high += first;
}

// The total as a double, which is off by two of its last places at most.
KM_BOTH double km_total_value(double high, double mid, double low) {
    return high + (mid + low);
}

#endif

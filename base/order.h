// SPDX-License-Identifier: MIT
// What qsort sorts by.
#ifndef KM_BASE_ORDER_H
#define KM_BASE_ORDER_H

// Doubles without NaN, ascending.
static inline int km_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif

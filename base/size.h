// SPDX-License-Identifier: MIT
// Arithmetic of sizes, all of them int64_t.
#ifndef KM_BASE_SIZE_H
#define KM_BASE_SIZE_H
#include <kmgen/kmgen.h>

// a * b and a + b; non-zero when the result does not fit int64_t.
static inline int km_mul_overflows(int64_t *out, int64_t a, int64_t b) {
    return __builtin_mul_overflow(a, b, out);
}
static inline int km_add_overflows(int64_t *out, int64_t a, int64_t b) {
    return __builtin_add_overflow(a, b, out);
}

static inline int64_t km_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t km_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// a / b, rounded up; and a, rounded up to a multiple of `unit`. Nothing is negative, b and unit are not 0.
static inline int64_t km_divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t km_round_up(int64_t a, int64_t unit) {
    return km_divide_up(a, unit) * unit;
}

// Bytes of a number.
static inline int64_t km_type_bytes(km_type type) {
    return type == KM_FLOAT64 ? 8 : 4;
}

#endif

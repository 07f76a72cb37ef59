// SPDX-License-Identifier: MIT
// Matrix products of a warp, as PTX lays the operands out: lane 4 g + t has rows g and g + 8 of a, column g of b, and
// of the sums rows g and g + 8, columns 2 t and 2 t + 1.
#include "block.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { ROWS = 16, COLUMNS = 8, LANES = 32 };

static float values[1 << 16]; // of halves

static float value_of(unsigned half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexpf((float)fraction, -24)
                                 : ldexpf((float)(1024 + fraction), exponent - 25);
    return half >> 15 ? -size : size;
}

static unsigned short half_of(double value, int to_zero) {
    unsigned sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    int exponent;
    if (isnan(value)) return 0x7fff;
    if (isinf(value)) return (unsigned short)(sign | 0x7c00);
    frexp(size, &exponent);
    int unit = exponent - 11 < -24 ? -24 : exponent - 11;
    double steps = ldexp(size, -unit);
    steps = to_zero ? trunc(steps) : nearbyint(steps);
    double rounded = ldexp(steps, unit);
    if (rounded > 65504) return (unsigned short)(sign | (to_zero ? 0x7bff : 0x7c00));
    // From the smallest normal number on, the bits count steps.
    unsigned bits = rounded < 0x1p-14 ? (unsigned)(rounded * 0x1p24) : 0;
    if (rounded >= 0x1p-14) {
        frexp(rounded, &exponent);
        bits = (unsigned)((exponent + 14) << 10) + (unsigned)ldexp(rounded, 11 - exponent) - 1024;
    }
    return (unsigned short)(sign | bits);
}

// Tensor cores cut off what a float does not hold.
static float cut(double sum) {
    float rounded = (float)sum;
    return fabs((double)rounded) > fabs(sum) ? nextafterf(rounded, 0) : rounded;
}

static void whole_warp(unsigned mask) {
    if (mask != ~0u) emulated_gpu.fault("a matrix product is made by a part of a warp");
}

// Operands as tables of the values.
static void halves_of(double a[ROWS][16], double b[COLUMNS][16], void **records) {
    for (int lane = 0; lane < LANES; lane++) {
        const emulated_product *own = records[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 8; i++)
            a[g + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] = values[own->a[i / 2] >> i % 2 * 16 & 0xffff];
        for (int i = 0; i < 4; i++)
            b[g][2 * t + i % 2 + i / 2 * 8] = values[own->b[i / 2] >> i % 2 * 16 & 0xffff];
    }
}

static double sum_of(const double *a, const double *b, double start) {
    double sum = start;
    for (int i = 0; i < 16; i++) sum += a[i] * b[i];
    return sum;
}

static void product_f16_f32(void **records, unsigned mask) {
    double a[ROWS][16], b[COLUMNS][16];
    whole_warp(mask);
    halves_of(a, b, records);
    for (int lane = 0; lane < LANES; lane++) {
        emulated_product *own = records[lane];
        for (int i = 0; i < 4; i++)
            own->sums.f[i] = cut(sum_of(a[lane / 4 + i / 2 * 8], b[lane % 4 * 2 + i % 2], own->sums.f[i]));
    }
}

static void product_f16_f16(void **records, unsigned mask) {
    double a[ROWS][16], b[COLUMNS][16];
    whole_warp(mask);
    halves_of(a, b, records);
    for (int lane = 0; lane < LANES; lane++) {
        emulated_product *own = records[lane];
        for (int i = 0; i < 2; i++) {
            unsigned low =
                half_of(sum_of(a[lane / 4 + i * 8], b[lane % 4 * 2], values[own->sums.u[i] & 0xffff]), 0);
            unsigned high =
                half_of(sum_of(a[lane / 4 + i * 8], b[lane % 4 * 2 + 1], values[own->sums.u[i] >> 16]), 0);
            own->sums.u[i] = high << 16 | low;
        }
    }
}

static void bytes_product(void **records, unsigned mask, int b_has_sign) {
    short a[ROWS][32], b[COLUMNS][32];
    whole_warp(mask);
    for (int lane = 0; lane < LANES; lane++) {
        const emulated_product *own = records[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 16; i++)
            a[g + i / 4 % 2 * 8][4 * t + i % 4 + i / 8 * 16] = (signed char)(own->a[i / 4] >> i % 4 * 8);
        for (int i = 0; i < 8; i++) {
            unsigned byte = own->b[i / 4] >> i % 4 * 8 & 255;
            b[g][4 * t + i % 4 + i / 4 * 16] = (short)(b_has_sign ? (signed char)byte : (int)byte);
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        emulated_product *own = records[lane];
        for (int i = 0; i < 4; i++) {
            const short *row = a[lane / 4 + i / 2 * 8], *column = b[lane % 4 * 2 + i % 2];
            int sum = 0;
            for (int f = 0; f < 32; f++) sum += row[f] * column[f];
            own->sums.u[i] += (unsigned)sum;
        }
    }
}
static void product_s8_s8(void **records, unsigned mask) {
    bytes_product(records, mask, 1);
}
static void product_s8_u8(void **records, unsigned mask) {
    bytes_product(records, mask, 0);
}

static void product_f64(void **records, unsigned mask) {
    double a[ROWS][8], b[COLUMNS][8];
    whole_warp(mask);
    for (int lane = 0; lane < LANES; lane++) {
        const emulated_product *own = records[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) a[g + i % 2 * 8][t + i / 2 * 4] = own->a64[i];
        for (int i = 0; i < 2; i++) b[g][t + i * 4] = own->b64[i];
    }
    for (int lane = 0; lane < LANES; lane++) {
        emulated_product *own = records[lane];
        for (int i = 0; i < 4; i++) {
            const double *row = a[lane / 4 + i / 2 * 8], *column = b[lane % 4 * 2 + i % 2];
            for (int f = 0; f < 8; f++) own->sums.d[i] = fma(row[f], column[f], own->sums.d[i]);
        }
    }
}

void emulated_products_init(emulated_machine *machine) {
    for (unsigned half = 0; half < 1 << 16; half++) values[half] = value_of(half);
    machine->halves = values;
    machine->half_of = half_of;
    machine->product_f16_f32 = product_f16_f32;
    machine->product_f16_f16 = product_f16_f16;
    machine->product_s8_s8 = product_s8_s8;
    machine->product_s8_u8 = product_s8_u8;
    machine->product_f64 = product_f64;
}

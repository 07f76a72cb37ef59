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
    const uint64_t half_step = (uint64_t)1 << 41;
    double size = fabs(value);
    uint64_t bits;
    memcpy(&bits, &size, sizeof bits);
    unsigned sign = signbit(value) ? 0x8000 : 0, made;
    if (isnan(value)) return 0x7fff;
    if (size < 0x1p-14) { // steps of the smallest half
        made = (unsigned)(to_zero ? size * 0x1p24 : nearbyint(size * 0x1p24));
    } else if (size >= 65536) {
        made = to_zero && !isinf(value) ? 0x7bff : 0x7c00;
    } else { // the exponent, and as many bits as a half has; rounding up may carry into it
        uint64_t rest = bits & (2 * half_step - 1);
        made = (unsigned)(bits >> 42) - ((1023 - 15) << 10);
        if (!to_zero && (rest > half_step || (rest == half_step && made & 1))) made++;
    }
    return (unsigned short)(sign | made);
}

// Tensor cores cut off what a float does not hold.
static float cut(double sum) {
    float rounded = (float)sum;
    int bits;
    if (!(fabs((double)rounded) > fabs(sum))) return rounded;
    memcpy(&bits, &rounded, sizeof bits);
    bits--; // towards zero
    memcpy(&rounded, &bits, sizeof rounded);
    return rounded;
}

static void whole_warp(unsigned mask) {
    if (mask != ~0u) emulated_gpu.fault("a matrix product is made by a part of a warp");
}

// Adds the products of halves to the sums, a column of which a compiler may add at once with others.
static void multiply_halves(double sums[ROWS][COLUMNS], void **records) {
    double a[ROWS][16], b[16][COLUMNS];
    for (int lane = 0; lane < LANES; lane++) {
        const emulated_product *own = records[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 8; i++)
            a[g + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] = values[own->a[i / 2] >> i % 2 * 16 & 0xffff];
        for (int i = 0; i < 4; i++)
            b[2 * t + i % 2 + i / 2 * 8][g] = values[own->b[i / 2] >> i % 2 * 16 & 0xffff];
    }
    for (int row = 0; row < ROWS; row++)
        for (int f = 0; f < 16; f++)
            for (int column = 0; column < COLUMNS; column++) sums[row][column] += a[row][f] * b[f][column];
}

static void product_f16_f32(void **records, unsigned mask) {
    double sums[ROWS][COLUMNS];
    whole_warp(mask);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++)
            sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] =
                ((const emulated_product *)records[lane])->sums.f[i];
    multiply_halves(sums, records);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++)
            ((emulated_product *)records[lane])->sums.f[i] =
                cut(sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
}

static void product_f16_f16(void **records, unsigned mask) {
    double sums[ROWS][COLUMNS];
    whole_warp(mask);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++)
            sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] =
                values[((const emulated_product *)records[lane])->sums.u[i / 2] >> i % 2 * 16 & 0xffff];
    multiply_halves(sums, records);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 2; i++) {
            const double *at = &sums[lane / 4 + i * 8][lane % 4 * 2];
            ((emulated_product *)records[lane])->sums.u[i] =
                (unsigned)half_of(at[1], 0) << 16 | half_of(at[0], 0);
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

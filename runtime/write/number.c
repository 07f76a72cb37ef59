// SPDX-License-Identifier: MIT
// Numbers and cells as text, with a point whatever the locale.
#include "sink.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What printf writes, with a point.
static int64_t print(char *out, int digits, double value) {
    int size = snprintf(out, KM_NUMBER_SIZE, "%.*g", digits, value);
    for (int i = 0; i < size; i++)
        if (!strchr("0123456789+-.enaif", out[i])) out[i] = '.';
    return size;
}

static int64_t write_digits(char *out, uint64_t value) {
    char digits[20];
    int count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    for (int i = 0; i < count; i++) out[i] = digits[count - 1 - i];
    return count;
}

// Powers of ten that doubles hold exactly.
static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
#define SMALLEST 1e-3
#define LARGEST 1e9

// Digits behind the point where there are `digits` from the first that is not 0; of SMALLEST .. LARGEST.
static int decimals_of(double size, int digits) {
    int whole = 0; // digits before the point, negative: zeros behind it
    while (size >= powers[whole]) whole++;
    if (whole == 0) whole = size >= 0.1 ? 0 : size >= 0.01 ? -1 : -2;
    return digits - whole;
}

// scaled / 10^decimals, without zeros at its end.
static int64_t write_scaled(char *out, int is_negative, uint64_t scaled, int decimals) {
    while (decimals > 0 && scaled % 10 == 0) {
        scaled /= 10;
        decimals--;
    }
    int64_t at = 0;
    if (is_negative) out[at++] = '-';
    uint64_t unit = (uint64_t)powers[decimals];
    at += write_digits(out + at, scaled / unit);
    if (!decimals) return at;
    out[at++] = '.';
    uint64_t rest = scaled % unit;
    for (int i = decimals - 1; i >= 0; i--) {
        out[at + i] = (char)('0' + rest % 10);
        rest /= 10;
    }
    return at + decimals;
}

// Most values by whole numbers, many times as fast as printf: 9 digits, of which the last may be off by one.
int64_t km_number_write(char *out, double value) {
    enum { DIGITS = 9 };
    if (value == 0) return *out = '0', 1;
    double size = fabs(value);
    if (!(size >= SMALLEST && size < LARGEST)) return print(out, DIGITS, value);
    int decimals = decimals_of(size, DIGITS);
    return write_scaled(out, value < 0, (uint64_t)llround(size * powers[decimals]), decimals);
}

// The quotient of two whole numbers that doubles hold is what reading the text gives.
int64_t km_number_write_exact(char *out, double value, int is_single) {
    double size = fabs(value);
    if (value == 0) return *out = '0', 1;
    for (int digits = is_single ? 6 : 15; size >= SMALLEST && size < LARGEST; digits++) {
        int decimals = decimals_of(size, digits);
        double scaled = nearbyint(size * powers[decimals]), back = scaled / powers[decimals];
        if (back == size || (is_single && (float)back == (float)size))
            return write_scaled(out, value < 0, (uint64_t)scaled, decimals);
        if (digits >= (is_single ? 9 : 15)) break;
    }
    char text[KM_NUMBER_SIZE + 1];
    for (int digits = is_single ? 6 : 15; digits < 17; digits++) {
        // Read back by the locale that it was written in.
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (back == value || (is_single && (float)back == (float)value)) return print(out, digits, value);
    }
    return print(out, 17, value);
}

int64_t km_quoted_cell(char *out, const char *text, int64_t size, char separator) {
    int is_plain = size == 0 || (text[0] != ' ' && text[size - 1] != ' ' && text[0] != '\t');
    for (int64_t i = 0; i < size && is_plain; i++)
        is_plain = text[i] != separator && text[i] != '"' && text[i] != '\n' && text[i] != '\r';
    if (is_plain) {
        memcpy(out, text, (size_t)size);
        return size;
    }
    int64_t at = 0;
    out[at++] = '"';
    for (int64_t i = 0; i < size; i++) {
        if (text[i] == '"') out[at++] = '"';
        out[at++] = text[i];
    }
    out[at++] = '"';
    return at;
}

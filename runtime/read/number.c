// SPDX-License-Identifier: MIT
// Numbers out of text, the same under every locale.
#include "reader.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Short decimals are exact without strtod: their digits fit 53 bits and the power of ten is exact too (Clinger,
// "How to read floating point numbers accurately", PLDI 1990).
static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { POWER_MAX = 22, DIGITS_MAX = 19 };

typedef struct decimal {
    uint64_t digits;      // the first DIGITS_MAX of them
    int64_t digits_count; // without leading zeros
    int64_t exponent;
    int negative;
} decimal;

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static void add_digit(decimal *d, char digit, int after_point) {
    if (d->digits_count > 0 || digit != '0') d->digits_count++;
    if (d->digits_count <= DIGITS_MAX) {
        d->digits = d->digits * 10 + (uint64_t)(digit - '0');
        d->exponent -= after_point;
    }
}

// Takes [digits][.digits][e[+-]digits] off the front; the rest, or NULL when there is no digit.
static const char *take_decimal(decimal *d, const char *at) {
    const char *start = at;
    int64_t seen = 0;
    for (; is_digit(*at); at++, seen++) add_digit(d, *at, 0);
    if (*at == '.')
        for (at++; is_digit(*at); at++, seen++) add_digit(d, *at, 1);
    if (seen == 0) return NULL;
    if (*at != 'e' && *at != 'E') return at;
    const char *digits = at + 1 + (at[1] == '-' || at[1] == '+');
    if (!is_digit(*digits) || digits - start > INT32_MAX) return NULL;
    int64_t exponent = 0;
    for (; is_digit(*digits); digits++)
        if (exponent < 1000000) exponent = exponent * 10 + (*digits - '0');
    d->exponent += at[1] == '-' ? -exponent : exponent;
    return digits;
}

static const char *take_word(double *value, const char *at) {
    static const struct {
        const char *word;
        double value;
    } words[] = {{"nan", NAN}, {"infinity", INFINITY}, {"inf", INFINITY}};
    for (int i = 0; i < 3; i++) {
        size_t size = strlen(words[i].word);
        if (strncasecmp(at, words[i].word, size) != 0) continue;
        *value = words[i].value;
        return at + size;
    }
    return NULL;
}

static double slow(const char *text) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(text, NULL, c);
    freelocale(c);
    return value;
}

const char *km_number_take(double *value, const char *text) {
    decimal d = {.negative = *text == '-'};
    const char *at = text;
    if (*at == '-' || *at == '+') at++;
    const char *rest = take_decimal(&d, at);
    if (!rest) {
        rest = take_word(value, at);
        if (rest && d.negative) *value = -*value;
        return rest;
    }
    int is_short = d.digits_count <= DIGITS_MAX && d.digits <= (uint64_t)1 << 53;
    if (is_short && d.exponent >= -POWER_MAX && d.exponent <= POWER_MAX) {
        double x = (double)d.digits;
        x = d.exponent < 0 ? x / powers[-d.exponent] : x * powers[d.exponent];
        *value = d.negative ? -x : x;
    } else {
        *value = slow(text);
    }
    return rest;
}

int km_number_parse(double *value, const char *text, int64_t size) {
    const char *at = text, *end = text + size;
    while (*at == ' ' || *at == '\t') at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t')) end--;
    return km_number_take(value, at) == end;
}

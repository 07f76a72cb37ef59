// SPDX-License-Identifier: MIT
// Numbers out of text, the same under every locale.
#include "reader.h"

#include <float.h>
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

// Digits times a power of ten in extended precision, rounded to a double. 0: the error of the one rounding before may
// decide which way it goes. Digits and powers up to 10^27 are exact in 64 bits, so the product is wrong by half of its
// last place at most; a double drops the last 11 bits of it.
static int by_extended(double *value, const decimal *d) {
#if LDBL_MANT_DIG == 64
    static const long double extended[] = {
        1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
        1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    if (d->exponent < -27 || d->exponent > 27) return 0;
    long double x = (long double)d->digits;
    x = d->exponent < 0 ? x / extended[-d->exponent] : x * extended[d->exponent];
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint64_t dropped = bits & 0x7ff;
    *value = (double)x;
    return dropped < 0x3ff || dropped > 0x401;
#else
    (void)value;
    (void)d;
    return 0;
#endif
}

// Takes [digits][.digits] of 19 digits at most, which fit 64 bits; NULL: there is none, or more of them.
static inline const char *take_short(decimal *d, const char *at) {
    const char *start = at;
    uint64_t digits = 0;
    for (; is_digit(*at); at++) digits = digits * 10 + (uint64_t)(*at - '0');
    int64_t count = at - start;
    if (*at == '.') {
        const char *point = at++;
        for (; is_digit(*at); at++) digits = digits * 10 + (uint64_t)(*at - '0');
        d->exponent = point + 1 - at;
        count += at - point - 1;
    }
    if (count == 0 || count > DIGITS_MAX || *at == 'e' || *at == 'E') return NULL;
    d->digits = digits;
    return at;
}

const char *km_number_take(double *value, const char *text) {
    decimal d = {.negative = *text == '-'};
    const char *at = text;
    if (*at == '-' || *at == '+') at++;
    const char *rest = take_short(&d, at);
    if (!rest) {
        d = (decimal){.negative = d.negative};
        rest = take_decimal(&d, at);
    }
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
    } else if (d.digits_count <= DIGITS_MAX && by_extended(value, &d)) {
        if (d.negative) *value = -*value;
    } else {
        *value = slow(text);
    }
    return rest;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
// Eight bytes that hold the `size` bytes, 1 to 8, at their end, and zeros ('0') before them.
static inline uint64_t eight_bytes(const char *text, int64_t size) {
    uint64_t word;
    if (size >= 4) {
        uint32_t first, last;
        memcpy(&first, text, 4);
        memcpy(&last, text + size - 4, 4);
        word = first | (uint64_t)last << 8 * (size - 4);
    } else {
        uint64_t second = (unsigned char)text[size / 2], last = (unsigned char)text[size - 1];
        word = (unsigned char)text[0] | second << 8 * (size / 2) | last << 8 * (size - 1);
    }
    return size == 8 ? word : word << 8 * (8 - size) | UINT64_C(0x3030303030303030) >> 8 * size;
}

int km_number_short(double *value, const char *text, int64_t size) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    int is_negative = *text == '-';
    text += is_negative;
    size -= is_negative;
    if (size < 1 || size > 8) return 0;
    uint64_t word = eight_bytes(text, size), other = word ^ ones * '.';
    uint64_t points = (other - ones) & ~other & ones * 0x80; // the lowest bit that is set is right
    int behind = 0;
    if (points) { // what stands before the point moves into its place
        int at = __builtin_ctzll(points) / 8;
        uint64_t before = ((uint64_t)1 << 8 * at) - 1;
        word = (word & ~(before << 8 | 0xff)) | (word & before) << 8 | '0';
        behind = 7 - at;
        if (size == 1) return 0;
    }
    uint64_t high = ones * 0xf0;
    if (((word & high) | ((word + ones * 6) & high) >> 4) != ones * 0x33) return 0;
    word -= ones * '0'; // pairs of digits, then fours, then all
    word = word * 10 + (word >> 8);
    const uint64_t pair = UINT64_C(0x000000ff000000ff);
    word = ((word & pair) * UINT64_C(0x000f424000000064) +
            ((word >> 16) & pair) * UINT64_C(0x0000271000000001)) >>
           32;
    double x = (double)(uint32_t)word / powers[behind];
    *value = is_negative ? -x : x;
    return 1;
}
#else
int km_number_short(double *value, const char *text, int64_t size) {
    (void)value, (void)text, (void)size;
    return 0;
}
#endif

int km_number_parse(double *value, const char *text, int64_t size) {
    const char *at = text, *end = text + size;
    while (*at == ' ' || *at == '\t') at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t')) end--;
    return km_number_take(value, at) == end;
}

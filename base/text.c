// SPDX-License-Identifier: MIT
#include "text.h"
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int text_reserve(km_text *text, int64_t more) {
    if (text->failed) return 0;
    int64_t needed = text->size + more + 1;
    if (needed <= text->capacity) return 1;
    int64_t capacity = text->capacity ? text->capacity : 256;
    while (capacity < needed) capacity *= 2;
    char *data = realloc(text->data, (size_t)capacity);
    if (!data) {
        text->failed = 1;
        return 0;
    }
    text->data = data;
    text->capacity = capacity;
    return 1;
}

void km_text_add(km_text *text, const char *bytes, int64_t size) {
    if (!text_reserve(text, size)) return;
    memcpy(text->data + text->size, bytes, (size_t)size);
    text->size += size;
    text->data[text->size] = 0;
}

void km_text_puts(km_text *text, const char *string) {
    km_text_add(text, string, (int64_t)strlen(string));
}

void km_text_printf(km_text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0 || !text_reserve(text, size)) return;
    va_start(args, format);
    vsnprintf(text->data + text->size, (size_t)size + 1, format, args);
    va_end(args);
    text->size += size;
}

void km_text_clear(km_text *text) {
    free(text->data);
    *text = (km_text){0};
}

km_status km_text_take(char **out, km_text *text, km_error *err) {
    *out = NULL;
    if (!text_reserve(text, 0)) {
        km_text_clear(text);
        return km_fail_memory(err, "text", 0);
    }
    text->data[text->size] = 0;
    *out = text->data;
    *text = (km_text){0};
    return KM_OK;
}

void km_text_free(char *text) {
    free(text);
}

// Columns of a terminal -----------------------------------------------------------------------------------------

// The character at `at`, which ends at *next.
static uint32_t character(const char *at, const char **next) {
    unsigned char first = (unsigned char)*at++;
    uint32_t code = first < 0x80   ? first
                    : first < 0xe0 ? first & 0x1f
                    : first < 0xf0 ? first & 0x0f
                                   : first & 0x07;
    for (; ((unsigned char)*at & 0xc0) == 0x80; at++) code = code << 6 | ((unsigned char)*at & 0x3f);
    *next = at;
    return code;
}

// The widths of Unicode's tables (East Asian Width; categories Mn, Me and Cf), without its rarest blocks.
static int columns_of(uint32_t code) {
    static const struct {
        uint32_t first, last;
        int columns;
    } ranges[] = {{0x300, 0x36f, 0},     {0x483, 0x489, 0},     {0x591, 0x5bd, 0},     {0x610, 0x61a, 0},
                  {0x64b, 0x65f, 0},     {0x6d6, 0x6dc, 0},     {0x1100, 0x115f, 2},   {0x1ab0, 0x1aff, 0},
                  {0x1dc0, 0x1dff, 0},   {0x200b, 0x200f, 0},   {0x202a, 0x202e, 0},   {0x2060, 0x2064, 0},
                  {0x20d0, 0x20ff, 0},   {0x2e80, 0x303e, 2},   {0x3041, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},
                  {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe20, 0xfe2f, 0},   {0xfe30, 0xfe6f, 2},
                  {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},   {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2},
                  {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}, {0xe0100, 0xe01ef, 0}};
    for (size_t r = 0; code >= 0x300 && r < sizeof ranges / sizeof *ranges; r++)
        if (code >= ranges[r].first && code <= ranges[r].last) return ranges[r].columns;
    return 1;
}

int64_t km_text_columns(const char *text) {
    int64_t columns = 0;
    while (*text) columns += columns_of(character(text, &text));
    return columns;
}

void km_text_shorten(char *text, int64_t columns) {
    int64_t all = km_text_columns(text), dots = 3, used = 0;
    if (all <= columns) return;
    char *cut = text;
    const char *next;
    for (; *cut; cut = text + (next - text)) { // the first half, a column more where they are odd
        int width = columns_of(character(cut, &next));
        if (used + width > (columns - dots + 1) / 2) break;
        used += width;
    }
    const char *tail = cut;
    int64_t left = all - used;
    while (*tail && left > columns - dots - used) left -= columns_of(character(tail, &tail));
    while (*tail && !columns_of(character(tail, &next))) tail = next; // a mark without its letter
    memmove(cut + dots, tail,
            strlen(tail) + 1); // at least four columns are left out, which are four bytes or more
    memset(cut, '.', (size_t)dots);
}

void km_text_pad(km_text *text, const char *plain, int64_t columns) {
    km_text_puts(text, plain);
    for (int64_t at = km_text_columns(plain); at < columns; at++) km_text_puts(text, " ");
}

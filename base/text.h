// SPDX-License-Identifier: MIT
// Text that grows.
#ifndef KM_BASE_TEXT_H
#define KM_BASE_TEXT_H
#include <kmgen/kmgen.h>

// Begins as zeros. A failed allocation is kept in `failed` and reported by km_text_take; a loop that fills it from an
// input must check `failed`, as the input may have no end.
typedef struct km_text {
    char *data;
    int64_t size, capacity; // bytes without the final zero; bytes allocated
    int failed;
} km_text;

void km_text_add(km_text *text, const char *bytes, int64_t size);
void km_text_puts(km_text *text, const char *string);
void km_text_printf(km_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void km_text_clear(km_text *text);
// Hands the text over (never NULL on success); the km_text is empty afterwards.
km_status km_text_take(char **out, km_text *text, km_error *err);

// Of plain text (km_text_plain), how many columns of a terminal it takes: characters of East Asia and pictures two,
// marks that stand on the letter before them none.
int64_t km_text_columns(const char *text);
// Cuts plain text to `columns`, at least 4: both ends stay, with "..." between, as names of one table mostly differ
// there.
void km_text_shorten(char *text, int64_t columns);
// Adds plain text, and spaces behind it up to `columns`.
void km_text_pad(km_text *text, const char *plain, int64_t columns);

#endif

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

// SPDX-License-Identifier: MIT
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *km_version(void) {
    return KM_VERSION;
}

const char *km_status_name(km_status status) {
    static const char *const names[] = {"ok",   "usage",  "spec", "plan",        "compile", "device",
                                        "data", "memory", "io",   "interrupted", "internal"};
    if ((unsigned)status >= sizeof names / sizeof *names) return "unknown";
    return names[status];
}

// Bytes of the UTF-8 character at `text` that a terminal only shows; 0: anything else.
static int shown_bytes(const unsigned char *text) {
    if (text[0] < 0x80) return text[0] >= 0x20 && text[0] != 0x7f;
    int more = text[0] >= 0xc2 && text[0] < 0xe0 ? 1 : (text[0] & 0xf0) == 0xe0 ? 2 : 3;
    if (text[0] < 0xc2 || text[0] > 0xf4) return 0;
    // Longer than it needs to be: a way to hide a control character.
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90)) return 0;
    for (int i = 1; i <= more; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    // U+0080..U+009F are the control characters of 8 bits.
    return text[0] == 0xc2 && text[1] < 0xa0 ? 0 : 1 + more;
}

void km_text_plain(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at;) {
        int size = shown_bytes(at);
        if (!size) *at = *at == '\n' || *at == '\r' || *at == '\t' ? ' ' : '?';
        at += size ? size : 1;
    }
}

km_status km_fail(km_error *err, km_status status, const char *format, ...) {
    if (err && !err->text[0]) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        km_text_plain(err->text); // the one place where a name of the user's file becomes part of a message
    }
    return status;
}

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

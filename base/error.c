// SPDX-License-Identifier: MIT
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

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
    // An encoding longer than it needs to be could hide a control character.
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
        km_text_plain(err->text); // names of the user's files come into messages only here
    }
    return status;
}

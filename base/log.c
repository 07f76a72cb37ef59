// SPDX-License-Identifier: MIT
#include "log.h"

#include <stdarg.h>
#include <stdio.h>

void km_log_line(const km_log *log, km_log_level level, const char *format, ...) {
    if (!log || !log->line) return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    km_text_plain(text);
    log->line(log->user, level, text);
}

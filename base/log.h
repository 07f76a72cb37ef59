// SPDX-License-Identifier: MIT
// What the library says while it works, to the caller's km_log.
#ifndef KM_BASE_LOG_H
#define KM_BASE_LOG_H
#include <kmgen/kmgen.h>

// One line without its end; nothing happens where `log` is NULL or has no function.
void km_log_line(const km_log *log, km_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

// SPDX-License-Identifier: MIT
// Making errors and passing them on.
#ifndef KM_BASE_ERROR_H
#define KM_BASE_ERROR_H
#include <kmgen/kmgen.h>

// Returns the status of `expr` from the calling function when it is not KM_OK.
#define KM_TRY(expr)                                                                                         \
    do {                                                                                                     \
        km_status km_try_status_ = (expr);                                                                   \
        if (km_try_status_ != KM_OK) return km_try_status_;                                                  \
    } while (0)

// Jumps to the function's one cleanup label, `done`, with the status in a variable named `status`.
#define KM_TRY_GOTO(expr)                                                                                    \
    do {                                                                                                     \
        status = (expr);                                                                                     \
        if (status != KM_OK) goto done;                                                                      \
    } while (0)

// Writes the sentence into err unless it is NULL or already holds one; returns `status`.
km_status km_fail(km_error *err, km_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same for running out of memory: `what` is "the point table", bytes: how many it needs.
// Inline, so that static analysis of a caller sees that the status is an error.
static inline km_status km_fail_memory(km_error *err, const char *what, int64_t bytes) {
    km_fail(err, KM_ERROR_MEMORY, "no memory for %s: %.1f MiB were asked for", what,
            (double)bytes / 1048576.0);
    return KM_ERROR_MEMORY;
}

#endif

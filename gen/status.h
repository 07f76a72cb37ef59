// SPDX-License-Identifier: MIT
// How an error is made and handed on, and text that grows. Used by gen/ and runtime/.
#ifndef KM_GEN_STATUS_H
#define KM_GEN_STATUS_H
#include <kmgen/kmgen.h>
#include <stdarg.h>

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
// The same for running out of memory: `what` is "the point table", bytes how many were asked for.
// Inline, so that whoever analyses a caller sees that it failed.
static inline km_status km_fail_memory(km_error *err, const char *what, int64_t bytes) {
    km_fail(err, KM_ERROR_MEMORY, "no memory for %s: %.1f MiB were asked for", what,
            (double)bytes / 1048576.0);
    return KM_ERROR_MEMORY;
}

// Text that grows. Zero-initialise; failure of an allocation is kept and reported once by km_text_take: a loop that
// fills it from an input looks at `failed`, or it would read an input without an end for ever.
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

// a * b and a + b for sizes; non-zero when the result does not fit int64_t.
static inline int km_mul_overflows(int64_t *out, int64_t a, int64_t b) {
    return __builtin_mul_overflow(a, b, out);
}
static inline int km_add_overflows(int64_t *out, int64_t a, int64_t b) {
    return __builtin_add_overflow(a, b, out);
}

#endif

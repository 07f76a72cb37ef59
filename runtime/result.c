// SPDX-License-Identifier: MIT
#include "result_owner.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/size.h"
#include "pages.h"
#include "module_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *km_scale_name(km_scale scale) {
    static const char *const names[KM_SCALE_COUNT] = {"none", "standard", "minmax", "robust", "unit"};
    return (int)scale >= 0 && (int)scale < KM_SCALE_COUNT ? names[scale] : NULL;
}

struct km_owned {
    km_owned *next;
    int64_t is_large;   // from km_pages_alloc
    int64_t padding[6]; // so that large arrays begin with a cache line
    max_align_t bytes[];
};

km_status km_result_create(km_result_owner **out, km_error *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return km_fail_memory(err, "the result", sizeof **out);
    km_plan_init(&(*out)->result.plan);
    return KM_OK;
}

// Takes over memory for count x size bytes; NULL: there was none.
static void *owned_add(km_result_owner *owner, km_owned *owned, int64_t count, int64_t size, km_error *err) {
    if (!owned) {
        km_fail_memory(err, "the result", count * size);
        return NULL;
    }
    owned->next = owner->owned;
    owner->owned = owned;
    return owned->bytes;
}

void *km_result_alloc(km_result_owner *owner, int64_t count, int64_t size, km_error *err) {
    int64_t bytes;
    km_owned *owned = NULL;
    if (!km_mul_overflows(&bytes, count, size)) owned = calloc(1, sizeof *owned + (size_t)bytes);
    return owned_add(owner, owned, count, size, err);
}

void *km_result_alloc_large(km_result_owner *owner, int64_t count, int64_t size, km_error *err) {
    int64_t bytes;
    km_owned *owned = NULL;
    if (!km_mul_overflows(&bytes, count, size)) owned = km_pages_alloc((int64_t)sizeof *owned + bytes);
    if (owned) owned->is_large = 1;
    return owned_add(owner, owned, count, size, err);
}

static void add_warning(km_result_owner *owner, const char *text) {
    km_result *result = &owner->result;
    if (result->warnings_count == owner->warnings_capacity) {
        int64_t capacity = owner->warnings_capacity ? owner->warnings_capacity * 2 : 8;
        const char **warnings = realloc(owner->warnings, (size_t)capacity * sizeof *warnings);
        if (!warnings) return;
        owner->warnings = warnings;
        owner->warnings_capacity = capacity;
        result->warnings = warnings;
    }
    char *copy = km_result_alloc(owner, (int64_t)strlen(text) + 1, 1, NULL);
    if (copy) owner->warnings[result->warnings_count++] = strcpy(copy, text);
}

void km_result_warn(km_result_owner *owner, const km_log *log, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add_warning(owner, text);
    km_log_line(log, KM_LOG_WARNING, "%s", text);
}

void km_result_destroy(km_result **result) {
    km_result_owner *owner = (km_result_owner *)*result;
    if (!owner) return;
    km_plan_clear(&owner->result.plan);
    for (km_owned *owned = owner->owned, *next; owned; owned = next) {
        next = owned->next;
        if (owned->is_large)
            km_pages_free(owned);
        else
            free(owned);
    }
    free(owner->warnings);
    free(owner);
    *result = NULL;
}

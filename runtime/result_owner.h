// SPDX-License-Identifier: MIT
// The memory of a result: everything it points to is freed at once.
#ifndef KM_RUNTIME_RESULT_OWNER_H
#define KM_RUNTIME_RESULT_OWNER_H
#include "../base/error.h"
#include <kmgen/result.h>

typedef struct km_owned km_owned;

// What km_fit returns: the public result first, then what it owns.
typedef struct km_result_owner {
    km_result result;
    km_owned *owned;
    const char **warnings;
    int64_t warnings_capacity;
} km_result_owner;

km_status km_result_create(km_result_owner **out, km_error *err);
// Zeroed memory that lives as long as the result; NULL sets the error.
void *km_result_alloc(km_result_owner *owner, int64_t count, int64_t size, km_error *err);
// The same for arrays of a value a point, not zeroed.
void *km_result_alloc_large(km_result_owner *owner, int64_t count, int64_t size, km_error *err);
// The part of km_result_digest that the model's labels have, which others of other rows are added to; 0 without labels.
uint64_t km_labels_digest(const km_model *model, const km_result *result);
// Adds a warning; without memory for it, it is lost. Also goes to the log.
void km_result_warn(km_result_owner *owner, const km_log *log, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

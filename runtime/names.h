// SPDX-License-Identifier: MIT
// Features by name: which columns of a table are the ones that a model, or a caller, wants.
#ifndef KM_RUNTIME_NAMES_H
#define KM_RUNTIME_NAMES_H
#include "../base/error.h"

// The table in which wanted names are looked up.
typedef struct km_named {
    const char *file;         // for messages
    const char *const *names; // of the columns
    const int64_t *numbers;   // of the columns in the file, from 1; NULL: 1, 2, ...
    int64_t count;
    const char *way_out; // where names are missing: "rename them in ..."
} km_named;

// picks[i]: the column (from 0) with the name wanted[i]. Names are equal when their bytes are, or when both are no
// UTF-8 and read the same in a model file. A table with exactly these names in this order is taken as it is, names
// that occur twice included. KM_ERROR_DATA: names are missing, or a wanted one occurs twice.
km_status km_names_match(int64_t *picks, const char *const *wanted, int64_t wanted_count,
                         const km_named *table, km_error *err);

#endif

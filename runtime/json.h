// SPDX-License-Identifier: MIT
// JSON values and texts as kmgen writes them. Built on jansson; a NULL value is a failed allocation, which
// json_object_set_new and json_array_append_new hand on as -1.
#ifndef KM_RUNTIME_JSON_H
#define KM_RUNTIME_JSON_H
#include "../base/error.h"
#include <jansson.h>

json_t *km_json_real(double value); // null where the value is not finite
json_t *km_json_reals(const double *values, int64_t count);
json_t *km_json_rows(const double *values, int64_t rows, int64_t columns);
json_t *km_json_integers(const int64_t *values, int64_t count);
json_t *km_json_seed(uint64_t seed);      // a string of its digits from 2^63 on
json_t *km_json_string(const char *text); // bytes above 127 of a text that is no UTF-8 become '?'
// A copy of a feature's name as JSON gives it back, so that names of files and of models can be compared.
km_status km_json_name(char **out, const char *name, km_error *err);

// The object as text: a line for each key and for each row of a table (an array of arrays or objects),
// numbers with 17 significant digits, so that they are read back to the same bits.
km_status km_json_text(char **out, const json_t *object, km_error *err);

#endif

// SPDX-License-Identifier: MIT
#include "json.h"
#include "../base/error.h"
#include "../base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *km_json_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

// Appends to `array` unless that failed before; returns the array, or NULL.
static json_t *append(json_t *array, json_t *value) {
    if (json_array_append_new(array, value) == 0) return array;
    json_decref(array);
    return NULL;
}

json_t *km_json_reals(const double *values, int64_t count) {
    json_t *array = json_array();
    for (int64_t i = 0; array && i < count; i++) array = append(array, km_json_real(values[i]));
    return array;
}

json_t *km_json_rows(const double *values, int64_t rows, int64_t columns) {
    json_t *array = json_array();
    for (int64_t i = 0; array && i < rows; i++)
        array = append(array, km_json_reals(values + i * columns, columns));
    return array;
}

json_t *km_json_integers(const int64_t *values, int64_t count) {
    json_t *array = json_array();
    for (int64_t i = 0; array && i < count; i++) array = append(array, json_integer(values[i]));
    return array;
}

// JSON integers of many readers, ours too, end at 2^63 - 1: a larger seed is a string of its digits.
json_t *km_json_seed(uint64_t seed) {
    char digits[24];
    if (seed <= INT64_MAX) return json_integer((json_int_t)seed);
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
    return json_string(digits);
}

json_t *km_json_string(const char *text) {
    json_t *string = json_string(text);
    if (string) return string;
    char *plain = strdup(text);
    if (!plain) return NULL;
    for (char *c = plain; *c; c++) {
        if ((unsigned char)*c > 127) *c = '?';
    }
    string = json_string(plain);
    free(plain);
    return string;
}

km_status km_json_name(char **out, const char *name, km_error *err) {
    json_t *string = km_json_string(name);
    *out = string ? strdup(json_string_value(string)) : NULL;
    json_decref(string);
    return *out ? KM_OK : km_fail_memory(err, "the names of features", (int64_t)strlen(name) + 1);
}

// jansson escapes the control characters below 32. Those from 127 to 159 may stand in JSON as they are, but a terminal
// obeys them: they are escaped too, which is the same text to every reader.
static int add_part(const char *bytes, size_t size, void *text) {
    size_t done = 0;
    for (size_t i = 0; i < size; i++) {
        const unsigned char *at = (const unsigned char *)bytes + i;
        int is_two_bytes = i + 1 < size && at[0] == 0xc2 && at[1] < 0xa0;
        if (!is_two_bytes && at[0] != 0x7f) continue;
        km_text_add(text, bytes + done, (int64_t)(i - done));
        km_text_printf(text, "\\u%04x", is_two_bytes ? at[1] : at[0]);
        i += (size_t)is_two_bytes;
        done = i + 1;
    }
    km_text_add(text, bytes + done, (int64_t)(size - done));
    return 0;
}

static void add_value(km_text *text, const json_t *value) {
    const size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    if (json_dump_callback(value, add_part, text, flags) != 0) text->failed = 1;
}

static int is_table(const json_t *value) {
    const json_t *first = json_array_get(value, 0);
    return json_is_array(first) || json_is_object(first);
}

static void add_table(km_text *text, const json_t *table) {
    for (size_t i = 0; i < json_array_size(table); i++) {
        km_text_puts(text, i ? ",\n    " : "[\n    ");
        add_value(text, json_array_get(table, i));
    }
    km_text_puts(text, "\n  ]");
}

km_status km_json_text(char **out, const json_t *object, km_error *err) {
    km_text text = {0};
    const char *key, *before = "{\n  ";
    json_t *value;
    // jansson's iteration takes a non-const object but only reads it.
    json_object_foreach((json_t *)object, key, value) {
        km_text_printf(&text, "%s\"%s\": ", before, key);
        if (is_table(value))
            add_table(&text, value);
        else
            add_value(&text, value);
        before = ",\n  ";
    }
    km_text_puts(&text, "\n}\n");
    return km_text_take(out, &text, err);
}

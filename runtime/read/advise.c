// SPDX-License-Identifier: MIT
// Columns of a text as a `--columns` that a user can copy.
#include "../../gen/spec_fields.h"
#include "reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// A name that a shell and --columns take as it is.
static int is_plain(const char *name) {
    int64_t number;
    if (!*name || km_integer_parse(&number, name) || strstr(name, "..")) return 0;
    for (const char *at = name; *at; at++) {
        int is_word = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        if (!is_word && *at != '_' && *at != '.' && (*at != '-' || at == name)) return 0;
    }
    double value;
    return !km_number_parse(&value, name, (int64_t)strlen(name)); // a number is no header's name
}

static int write_names(char *advice, char *const *names, const int64_t *kept, int64_t count) {
    int size = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *name = names[kept[i]];
        if (!is_plain(name)) return 0;
        for (int64_t j = 0; j < i; j++)
            if (strcmp(name, names[kept[j]]) == 0) return 0;
        size += snprintf(advice + size, (size_t)(KM_ADVICE_SIZE - size), "%s%s", i ? "," : "", name);
        if (size >= KM_ADVICE_SIZE) return 0;
    }
    return 1;
}

// "1,4..9"; 0 when that is too long to be of use.
static int write_numbers(char *advice, const int64_t *kept, int64_t count) {
    int size = 0;
    for (int64_t i = 0; i < count;) {
        int64_t run = 1;
        while (i + run < count && kept[i + run] == kept[i] + run) run++;
        if (run < 3) run = 1;
        size +=
            snprintf(advice + size, (size_t)(KM_ADVICE_SIZE - size), "%s%" PRId64, i ? "," : "", kept[i] + 1);
        if (run > 1 && size < KM_ADVICE_SIZE)
            size += snprintf(advice + size, (size_t)(KM_ADVICE_SIZE - size), "..%" PRId64, kept[i] + run);
        if (size >= KM_ADVICE_SIZE) return 0;
        i += run;
    }
    return 1;
}

void km_columns_advise(char advice[KM_ADVICE_SIZE], char *const *names, const int64_t *kept, int64_t count) {
    *advice = 0;
    if (count == 0) return;
    if (!names || !write_names(advice, names, kept, count))
        if (!write_numbers(advice, kept, count)) *advice = 0;
}

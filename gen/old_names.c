// SPDX-License-Identifier: MIT
#include "old_names.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *where, *old, *now;
} old_names[] = {
#define ROW(where, old, now) {#where, #old, #now},
    KM_OLD_NAMES(ROW)
#undef ROW
};

// Adds one line, with its newline, unless it is there; one that does not fit whole is left out.
static void add_line(char warnings[KM_WARNINGS_MAX], const char *line, size_t size) {
    size_t used = strlen(warnings);
    for (const char *at = warnings; *at; at += strcspn(at, "\n") + 1)
        if (strncmp(at, line, size) == 0) return;
    if (used + size >= KM_WARNINGS_MAX) return;
    memcpy(warnings + used, line, size);
    warnings[used + size] = 0;
}

void km_warnings_add(char warnings[KM_WARNINGS_MAX], const char *lines) {
    while (*lines) {
        size_t size = strcspn(lines, "\n") + 1;
        add_line(warnings, lines, size);
        lines += size;
    }
}

const char *km_name_today(km_spec *spec, const char *where, const char *name, const char *place) {
    for (size_t i = 0; i < sizeof old_names / sizeof *old_names; i++) {
        if (strcmp(old_names[i].where, where) != 0 || strcmp(old_names[i].old, name) != 0) continue;
        char line[384];
        const char *now = old_names[i].now;
        int is_key = strcmp(where, "spec") == 0 || strcmp(where, "plan") == 0;
        const char *key = is_key ? "" : where, *space = is_key ? "" : " ";
        snprintf(line, sizeof line,
                 "%.240s%s%s%s is an old name, which the next version refuses; write %s%s%s\n", place, key,
                 space, name, key, space, now);
        km_warnings_add(spec->warnings, line);
        return now;
    }
    return name;
}

int km_name_is_replaced(char *text, size_t size, const char *name) {
    static const struct {
        const char *old, *now, *words;
    } rows[] = {
#define ROW(old, now, words) {#old, #now, words},
        KM_REPLACED_NUMBERS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].old, name) != 0) continue;
        snprintf(text, size, "%s is an old name; write %s %s in the place of 1, and nothing in that of 0",
                 name, rows[i].now, rows[i].words);
        return 1;
    }
    return 0;
}

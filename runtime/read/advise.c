// SPDX-License-Identifier: MIT
// Which columns of a text hold numbers only, as a `--columns` that a user can copy.
#include "../../gen/spec_fields.h"
#include "reader.h"

#include <csv.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scan {
    unsigned char *is_text; // of each column
    int64_t columns, cell, row;
    int has_header;
} scan;

static void on_cell(void *cell, size_t size, void *user) {
    scan *s = user;
    double value;
    int is_header = s->has_header && s->row == 0;
    if (!is_header && s->cell < s->columns && !km_number_parse(&value, cell, (int64_t)size))
        s->is_text[s->cell] = 1;
    s->cell++;
}

static void on_row(int terminator, void *user) {
    (void)terminator;
    scan *s = user;
    s->row += s->cell > 0;
    s->cell = 0;
}

static void scan_head(scan *s, const unsigned char *head, int64_t head_size, char delimiter) {
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_APPEND_NULL) != 0) return;
    csv_set_delim(&parser, (unsigned char)delimiter);
    csv_parse(&parser, head, (size_t)head_size, on_cell, on_row, s);
    csv_free(&parser);
}

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

void km_columns_advise(char advice[KM_ADVICE_SIZE], const unsigned char *head, int64_t head_size,
                       char delimiter, int has_header, char *const *names, int64_t columns,
                       const int64_t *picks, int64_t picks_count, int64_t bad_column) {
    scan s = {.is_text = calloc((size_t)columns, 1), .columns = columns, .has_header = has_header};
    int64_t *kept = malloc((size_t)columns * sizeof *kept);
    int64_t count = 0;
    *advice = 0;
    if (s.is_text && kept) {
        scan_head(&s, head, head_size, delimiter);
        s.is_text[bad_column] = 1;
        for (int64_t i = 0; i < (picks ? picks_count : columns); i++) {
            int64_t column = picks ? picks[i] : i;
            if (!s.is_text[column]) kept[count++] = column;
        }
        if (!names || !write_names(advice, names, kept, count))
            if (!write_numbers(advice, kept, count)) *advice = 0;
        if (count == 0) *advice = 0;
    }
    free(s.is_text);
    free(kept);
}

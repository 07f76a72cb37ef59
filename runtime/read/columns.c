// SPDX-License-Identifier: MIT
// Which columns to keep: "sepal_length,4,6..9", names that hold commas in quotes: "\"height, cm\"".
#include "../../base/error.h"
#include "../../base/text.h"
#include "../../gen/spec_fields.h"
#include "../json.h"
#include "../memory.h"
#include "reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct picker {
    const char *option, *file;
    char *const *names; // NULL: no header
    int64_t names_count;
    const char *behind; // the name of column names_count, or NULL
    int64_t *picks;
    int64_t count, capacity;
    unsigned char *taken; // a bit a column: pages of those that are not named are never touched
} picker;

static km_status add(picker *p, int64_t column, const char *item, km_error *err) {
    char got[KM_QUOTED_SIZE];
    if (p->taken[column / 8] >> column % 8 & 1)
        return km_fail(err, KM_ERROR_USAGE, "%s: %s names column %" PRId64 " of %s a second time", p->option,
                       km_quoted(got, item), column + 1, p->file);
    p->taken[column / 8] = (unsigned char)(p->taken[column / 8] | 1 << column % 8);
    if (p->count == p->capacity) {
        int64_t capacity = 2 * p->capacity + 64, bytes = capacity * (int64_t)sizeof *p->picks;
        KM_TRY(km_host_check("the choice of columns", bytes, err));
        int64_t *picks = realloc(p->picks, (size_t)bytes);
        if (!picks) return km_fail_memory(err, "the choice of columns", bytes);
        p->picks = picks;
        p->capacity = capacity;
    }
    p->picks[p->count++] = column;
    return KM_OK;
}

// A name as a list of columns takes it: in quotes where it would be read as something else.
static void put_name(km_text *text, const char *name) {
    size_t size = strlen(name);
    int is_plain = size && !strchr(name, ',') && *name != '"' && *name != ' ' && name[size - 1] != ' ';
    if (is_plain) {
        km_text_printf(text, "%.80s", name);
        return;
    }
    km_text_puts(text, "\"");
    for (size_t i = 0; i < size && i < 80; i++)
        km_text_printf(text, "%s%c", name[i] == '"' ? "\"" : "", name[i]);
    km_text_puts(text, size > 80 ? "..." : "\"");
}

// "it has a, b and c", cut to fit a sentence.
static void list_names(km_text *text, const picker *p) {
    enum { LONGEST = 400 };
    for (int64_t i = 0; i < p->names_count; i++) {
        if (text->size > LONGEST) {
            km_text_puts(text, ", ...");
            return;
        }
        if (i) km_text_puts(text, ", ");
        put_name(text, p->names[i]);
    }
}

// What to do where an item is spelled in UTF-8 and the names are not; "" elsewhere.
static const char *encoding_advice(const picker *p, const char *item) {
    int is_needed = 0;
    for (const char *at = item; *at && !is_needed; at++) is_needed = (unsigned char)*at > 127;
    for (int64_t i = 0; is_needed && i < p->names_count; i++) {
        json_t *string = json_string(p->names[i]); // NULL: it is no UTF-8
        json_decref(string);
        if (!string)
            return "; its names are no UTF-8: name columns by number, or make it UTF-8: iconv -f "
                   "WINDOWS-1252 -t "
                   "UTF-8 <FILE";
    }
    return "";
}

static km_status unknown(const picker *p, const char *item, km_error *err) {
    char got[KM_QUOTED_SIZE];
    if (!p->names)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: %s has no header, so columns are named by number, 1..%" PRId64 ", got %s",
                       p->option, p->file, p->names_count, km_quoted(got, item));
    km_status status;
    km_text all = {0};
    char *list = NULL;
    const char **words = calloc((size_t)p->names_count + 1, sizeof *words);
    if (!words) return km_fail_memory(err, "column names", p->names_count * (int64_t)sizeof *words);
    for (int64_t i = 0; i < p->names_count; i++) words[i] = p->names[i];
    const char *similar = km_suggest(item, words);
    list_names(&all, p);
    KM_TRY_GOTO(km_text_take(&list, &all, err));
    status = km_fail(err, KM_ERROR_USAGE, "%s: %s has no column %s%s%.80s%s; it has %s%s", p->option, p->file,
                     km_quoted(got, item), similar ? "; did you mean " : "", similar ? similar : "",
                     similar ? "?" : "", list, encoding_advice(p, item));
done:
    free(words);
    km_text_free(list);
    return status;
}

static km_status add_numbers(picker *p, int64_t first, int64_t last, const char *item, km_error *err) {
    char got[KM_QUOTED_SIZE];
    if (first < 1 || last > p->names_count)
        return km_fail(err, KM_ERROR_USAGE, "%s: %s has the columns 1..%" PRId64 ", got %s", p->option,
                       p->file, p->names_count, km_quoted(got, item));
    if (first > last)
        return km_fail(err, KM_ERROR_USAGE, "%s: a range runs from left to right, got %s", p->option,
                       km_quoted(got, item));
    for (int64_t number = first; number <= last; number++) KM_TRY(add(p, number - 1, item, err));
    return KM_OK;
}

// The column with this name, -1: there is none.
static km_status find_name(int64_t *found, const picker *p, const char *item, km_error *err) {
    char got[KM_QUOTED_SIZE];
    *found = -1;
    for (int64_t i = 0; p->names && i < p->names_count; i++) {
        if (strcmp(item, p->names[i]) != 0) continue;
        if (*found >= 0)
            return km_fail(err, KM_ERROR_USAGE,
                           "%s: %s has two columns %s, %" PRId64 " and %" PRId64 "; name them by number",
                           p->option, p->file, km_quoted(got, item), *found + 1, i + 1);
        *found = i;
    }
    return KM_OK;
}

static char *trim(char *item) {
    while (*item == ' ') item++;
    size_t size = strlen(item);
    while (size && item[size - 1] == ' ') item[--size] = 0;
    return item;
}

// Behind the quote that closes the one at `quote`; NULL: none does.
static char *behind_quotes(char *quote) {
    for (char *at = quote + 1; *at; at++) {
        if (*at != '"') continue;
        if (at[1] != '"') return at + 1;
        at++;
    }
    return NULL;
}

// The comma or zero that ends the item: quotes count where they begin it, or its second half.
static char *end_of_item(char *item) {
    for (char *at = item;;) {
        at += strspn(at, " ");
        if (*at == '"') at = behind_quotes(at);
        if (!at) return item + strlen(item); // add_item says so
        char *comma = at + strcspn(at, ","), *dots = strstr(at, "..");
        if (!dots || dots > comma || dots[2 + strspn(dots + 2, " ")] != '"') return comma;
        at = dots + 2;
    }
}

// Takes the quotes off "NAME" in place.
static void unquote(char *quoted, const char *end) {
    char *to = quoted;
    for (const char *at = quoted + 1; at < end - 1; at++) {
        *to++ = *at;
        at += *at == '"';
    }
    *to = 0;
}

enum { NO_COLUMN = -1 };

// One end of a range as a number from 1: a name, a number, or nothing, which is `open_end`.
static km_status range_end(int64_t *number, const picker *p, char *item, int64_t open_end, km_error *err) {
    item = trim(item);
    *number = open_end;
    if (!*item) return KM_OK;
    char *end = *item == '"' ? behind_quotes(item) : NULL;
    int is_quoted = end && !*end;
    if (is_quoted) unquote(item, end);
    KM_TRY(find_name(number, p, item, err));
    ++*number;
    if (*number == 0 && (is_quoted || !km_integer_parse(number, item))) *number = NO_COLUMN;
    return KM_OK;
}

// `dots` stand in `item`.
static km_status add_range(picker *p, const char *item, const char *dots, km_error *err) {
    int64_t first, last, is_whole = dots == item && !dots[2];
    char *left = strndup(item, (size_t)(dots - item)), *right = strdup(dots + 2);
    km_status status;
    if (!left || !right) KM_TRY_GOTO(km_fail_memory(err, "the choice of columns", 64));
    KM_TRY_GOTO(range_end(&first, p, left, 1, err));
    KM_TRY_GOTO(range_end(&last, p, right, p->names_count, err));
    status = is_whole || first == NO_COLUMN || last == NO_COLUMN ? unknown(p, item, err)
                                                                 : add_numbers(p, first, last, item, err);
done:
    free(left);
    free(right);
    return status;
}

// "NAME", or a range that begins with it.
static km_status add_quoted(picker *p, char *item, km_error *err) {
    char got[KM_QUOTED_SIZE];
    char *end = behind_quotes(item);
    if (!end)
        return km_fail(err, KM_ERROR_USAGE, "%s: a quote is opened and never closed: %s", p->option,
                       km_quoted(got, item));
    const char *rest = end + strspn(end, " ");
    if (strncmp(rest, "..", 2) == 0) return add_range(p, item, rest, err);
    if (*rest)
        return km_fail(err, KM_ERROR_USAGE, "%s: a comma must follow the quotes of a name, got %s", p->option,
                       km_quoted(got, item));
    unquote(item, end);
    int64_t found;
    KM_TRY(find_name(&found, p, item, err));
    return found >= 0 ? add(p, found, item, err) : unknown(p, item, err);
}

static km_status add_item(picker *p, char *item, km_error *err) {
    int64_t found, number;
    if (*item == '"') return add_quoted(p, item, err);
    KM_TRY(find_name(&found, p, item, err));
    if (p->behind && strcmp(item, p->behind) == 0) found = p->names_count;
    if (found >= 0) return add(p, found, item, err);
    if (km_integer_parse(&number, item)) return add_numbers(p, number, number, item, err);
    const char *dots = strstr(item, "..");
    return dots ? add_range(p, item, dots, err) : unknown(p, item, err);
}

km_status km_columns_parse(int64_t **picks, int64_t *count, const char *option, const char *columns,
                           const char *file, char *const *names, int64_t columns_count, const char *behind,
                           km_error *err) {
    km_status status = KM_OK;
    *picks = NULL;
    picker p = {
        .option = option, .file = file, .names = names, .names_count = columns_count, .behind = behind};
    char *text = strdup(columns);
    p.taken = calloc((size_t)columns_count / 8 + 1, 1);
    if (!text || !p.taken) KM_TRY_GOTO(km_fail_memory(err, "the choice of columns", columns_count / 8));
    for (char *item = text, *next; item; item = next) {
        char *end = end_of_item(item);
        next = *end ? end + 1 : NULL;
        *end = 0;
        item = trim(item);
        if (!*item)
            KM_TRY_GOTO(km_fail(err, KM_ERROR_USAGE,
                                "%s must be names or numbers separated by commas, got \"%s\"", option,
                                columns));
        KM_TRY_GOTO(add_item(&p, item, err));
    }
    *picks = p.picks;
    *count = p.count;
    p.picks = NULL;
done:
    free(text);
    free(p.taken);
    free(p.picks);
    return status;
}

km_status km_table_pick(km_table *table, const char *columns, const char *file, km_error *err) {
    if (!columns) return KM_OK;
    int64_t count;
    KM_TRY(
        km_columns_parse(&table->picks, &count, "--columns", columns, file, NULL, table->columns, NULL, err));
    table->numbers = malloc((size_t)count * sizeof *table->numbers);
    if (!table->numbers)
        return km_fail_memory(err, "the choice of columns", count * (int64_t)sizeof *table->numbers);
    int in_order = count == table->columns;
    for (int64_t f = 0; f < count; f++) {
        table->numbers[f] = table->picks[f] + 1;
        in_order = in_order && table->picks[f] == f;
    }
    table->columns = count;
    if (in_order) { // all of them: the view as it is
        free(table->picks);
        table->picks = NULL;
    }
    return KM_OK;
}

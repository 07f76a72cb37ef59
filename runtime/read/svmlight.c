// SPDX-License-Identifier: MIT
// Text of svmlight and libsvm: "label qid:1 index:value index:value # comment", one line a row. Labels are no points:
// they are left out, but where --columns wants the column "label".
#include "../../base/log.h"
#include "../../base/size.h"
#include "rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// The label's place in a row until columns are picked; it comes before every index.
enum { LABEL = -1 };

typedef struct svmlight {
    const km_data_params *params;
    km_table *table;
    km_error *err;
    km_words words;
    km_rows rows;
    int64_t base;      // 0 or 1; -1: not known yet
    int64_t features;  // that were named, 0: none
    int64_t largest;   // index in the file, -1: none
    int64_t zero_line; // where index 0 is for the first time, 0: nowhere
    int64_t last_line; // where an index of `features` is, which only a file from 1 may have
    int64_t previous;  // index in this row
    int in_row, in_order, wants_label;
} svmlight;

// Words -------------------------------------------------------------------------------------------------------

static int is_end(unsigned char c) {
    return km_is_blank(c) || c == '\n' || c == '#';
}

static km_status bad_entry(svmlight *s) {
    char got[KM_QUOTED_SIZE];
    const char *at = (const char *)s->words.at, *file = s->words.file;
    km_words_quote(got, &s->words);
    if (*at == '-' && at[1] >= '0' && at[1] <= '9' && at[1 + strspn(at + 1, "0123456789")] == ':')
        return km_fail(s->err, KM_ERROR_DATA,
                       "%s: row %" PRId64 ": %s has a negative index; indices count from 0 or 1", file,
                       s->words.line, got);
    return km_fail(s->err, KM_ERROR_DATA,
                   "%s: row %" PRId64
                   ": %s is no index:value; correct it, or name the format, e.g. --format csv",
                   file, s->words.line, got);
}

static km_status bad_value(svmlight *s, const char *value, int64_t index) {
    char got[KM_QUOTED_SIZE], word[KM_QUOTED_SIZE];
    size_t size = 0;
    while (!is_end((unsigned char)value[size]) && size < sizeof word - 1) size++;
    memcpy(word, value, size);
    word[size] = 0;
    return km_fail(s->err, KM_ERROR_DATA, "%s: row %" PRId64 ", index %" PRId64 ": %s%s; correct it",
                   s->words.file, s->words.line, index, size ? km_quoted(got, word) : "the value is missing",
                   size ? " is no number" : "");
}

static km_status bad_label(svmlight *s) {
    char got[KM_QUOTED_SIZE];
    return km_fail(s->err, KM_ERROR_DATA,
                   "%s: row %" PRId64
                   ": the label %s is no number; write labels as numbers, or leave them out",
                   s->words.file, s->words.line, km_words_quote(got, &s->words));
}

// Entries -----------------------------------------------------------------------------------------------------

// No file has more columns.
static km_status refuse_index(svmlight *s) {
    char word[KM_QUOTED_SIZE];
    int size = (int)km_min((int64_t)strspn((const char *)s->words.at, "0123456789"), 40);
    snprintf(word, sizeof word, "%.*s", size, (const char *)s->words.at);
    return km_fail(s->err, KM_ERROR_DATA,
                   "%s: row %" PRId64
                   ": index %s is beyond %d, the largest that is taken; correct it, or number the "
                   "columns anew",
                   s->words.file, s->words.line, word, KM_FEATURES_MAX);
}

// Where `index` has no column. What a file from 0 may not have is known at its end where no --base says it.
static km_status check_index(svmlight *s, int64_t index) {
    int64_t columns = s->features ? s->features : KM_FEATURES_MAX, line = s->words.line;
    if (index == 0 && s->base == 1)
        return km_fail(s->err, KM_ERROR_DATA,
                       "%s: row %" PRId64
                       " has index 0, and indices count from 1; let them count from 0: --base 0",
                       s->words.file, line);
    if (index == 0 && !s->zero_line) s->zero_line = line;
    if (index == columns && s->base == -1 && !s->last_line) s->last_line = line;
    if (index - (s->base == 0 ? 0 : 1) < columns && (!s->zero_line || !s->last_line)) return KM_OK;
    if (!s->features) return refuse_index(s);
    if (s->zero_line && s->last_line)
        return km_fail(s->err, KM_ERROR_DATA,
                       "%s: row %" PRId64 " has index 0 and row %" PRId64 " has index %" PRId64
                       ", so there are %" PRId64 " columns, not %" PRId64 "; correct --features",
                       s->words.file, s->zero_line, s->last_line, columns, columns + 1, columns);
    return km_fail(s->err, KM_ERROR_DATA,
                   "%s: row %" PRId64 ": index %" PRId64 " is beyond the %" PRId64
                   " columns that are wanted, %s; correct --features, or cut the row",
                   s->words.file, line, index, columns, s->base == 0 ? "counted from 0" : "counted from 1");
}

// Small numbers and the first of each kind go by: check_index looks at the rest.
static inline int needs_check(const svmlight *s, int64_t index) {
    return index > s->largest || index == 0;
}

static km_status add_value(svmlight *s, int64_t index, const char *text, double value) {
    int is_single = s->rows.type == KM_FLOAT32;
    if (__builtin_expect(isinf(is_single ? (float)value : value) && text[strspn(text, "+-.")] >= '0' &&
                             text[strspn(text, "+-.")] <= '9',
                         0)) {
        char got[KM_QUOTED_SIZE];
        return km_fail(s->err, KM_ERROR_DATA,
                       "%s: row %" PRId64 ", index %" PRId64 ": %s is too large for %s", s->words.file,
                       s->words.line, index, km_words_quote(got, &s->words),
                       is_single ? "float32; use float64" : "float64");
    }
    s->in_order &= index > s->previous;
    s->previous = index;
    return km_rows_add(&s->rows, (int32_t)index, value, s->err);
}

// "index:value"
static km_status take_entry(svmlight *s) {
    const unsigned char *at = s->words.at;
    int64_t index = 0;
    for (; (unsigned)(*at - '0') < 10; at++)
        index = index < INT64_MAX / 100 ? index * 10 + (*at - '0') : INT64_MAX / 100;
    if (at == s->words.at || *at != ':') return bad_entry(s);
    if (needs_check(s, index)) {
        KM_TRY(check_index(s, index));
        s->largest = km_max(s->largest, index);
    }
    double value;
    const char *text = (const char *)at + 1, *rest = km_number_take(&value, text);
    if (!rest || !is_end((unsigned char)*rest)) return bad_value(s, text, index);
    KM_TRY(add_value(s, index, text, value));
    s->words.at += rest - (const char *)s->words.at;
    return KM_OK;
}

// A word that is passed over.
static void pass(svmlight *s) {
    while (!is_end(*s->words.at)) s->words.at++;
}

// The first word of a row where it has no colon: a label, or several with commas between them.
static km_status take_label(svmlight *s) {
    const char *at = (const char *)s->words.at;
    int count = 0;
    double value = NAN;
    do {
        at = km_number_take(&value, at + (count > 0));
        if (!at) return bad_label(s);
        count++;
    } while (*at == ',');
    if (!is_end((unsigned char)*at)) return bad_label(s);
    if (s->wants_label && count > 1) {
        char got[KM_QUOTED_SIZE];
        return km_fail(s->err, KM_ERROR_DATA,
                       "%s: row %" PRId64 " has several labels, %s; a column has one a row", s->words.file,
                       s->words.line, km_words_quote(got, &s->words));
    }
    if (s->wants_label) KM_TRY(km_rows_add(&s->rows, LABEL, value, s->err));
    pass(s);
    return KM_OK;
}

static km_status begin_row(svmlight *s) {
    KM_TRY(km_rows_reserve_row(&s->rows, s->err));
    KM_TRY(km_table_note_line(s->table, s->rows.rows, s->words.line, s->rows.rows_capacity, s->err));
    s->in_row = s->in_order = 1;
    s->previous = LABEL;
    const unsigned char *at = s->words.at;
    while (!is_end(*at) && *at != ':') at++;
    if (*at != ':') return take_label(s);
    if (s->wants_label) KM_TRY(km_rows_add(&s->rows, LABEL, NAN, s->err));
    return KM_OK;
}

static km_status end_row(svmlight *s) {
    int64_t first = s->rows.starts[s->rows.rows];
    if (!s->in_order) {
        int32_t twice;
        KM_TRY(km_rows_sort(&twice, &s->rows, first, s->rows.count - first, s->err));
        if (twice >= 0)
            return km_fail(s->err, KM_ERROR_DATA,
                           "%s: row %" PRId64 " has index %d twice; keep one of them, or write their sum",
                           s->words.file, s->words.line, (int)twice);
    }
    s->rows.starts[++s->rows.rows] = s->rows.count;
    s->in_row = 0;
    return KM_OK;
}

static km_status take_word(svmlight *s) {
    if (!s->in_row) {
        KM_TRY(begin_row(s));
        if (is_end(*s->words.at)) return KM_OK;
    }
    if (strncmp((const char *)s->words.at, "qid:", 4) != 0) return take_entry(s);
    pass(s);
    return KM_OK;
}

static km_status parse(svmlight *s) {
    km_words *words = &s->words;
    for (;;) {
        if (words->at == words->limit) {
            KM_TRY(km_words_fill(words, s->err));
            if (words->at == words->limit) break;
        }
        unsigned char c = *words->at;
        if (c == '\n') {
            if (s->in_row) KM_TRY(end_row(s));
            words->line++;
            words->at++;
        } else if (km_is_blank(c)) {
            words->at++;
        } else if (c == '#') {
            KM_TRY(km_words_skip_line(words, s->err));
        } else {
            KM_TRY(take_word(s));
        }
    }
    return s->in_row ? end_row(s) : KM_OK; // a comment without an end
}

// The table ---------------------------------------------------------------------------------------------------

// Indices of the file to columns from 0.
static void shift(svmlight *s) {
    for (int64_t i = 0; i < s->rows.count; i++) s->rows.indices[i] -= s->rows.indices[i] != LABEL;
}

static km_status finish(svmlight *s) {
    const char *file = s->words.file;
    if (s->rows.rows == 0) return km_fail(s->err, KM_ERROR_DATA, "%s has no rows", file);
    if (s->base < 0) {
        s->base = s->zero_line ? 0 : 1;
        if (s->largest >= 0)
            km_log_line(s->params->log, KM_LOG_INFO, "data: %s: indices count from %d, as %s (--base)", file,
                        (int)s->base, s->base ? "none is 0" : "one is 0");
    }
    if (s->base == 1) shift(s);
    s->table->is_from_0 = s->base == 0;
    int64_t columns = s->features ? s->features : s->largest + 1 - s->base;
    if (columns < 1 && s->wants_label) columns = 1;
    if (columns < 1)
        return km_fail(s->err, KM_ERROR_DATA,
                       "%s has no values, so its columns are unknown; name their number: --features", file);
    return km_rows_finish(s->table, &s->rows, columns, s->params, s->err);
}

km_status km_svmlight_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    km_status status;
    svmlight s = {.params = params,
                  .table = table,
                  .err = err,
                  .rows = {.file = input->name, .type = params->type, .has_labels = 1},
                  .base = params->base,
                  .features = params->features,
                  .largest = -1,
                  .wants_label = params->columns && km_columns_have_label(params->columns)};
    if (params->base < -1 || params->base > 1)
        return km_fail(err, KM_ERROR_USAGE, "%s: indices count from 0 or 1, got a base of %d", input->name,
                       (int)params->base);
    if (params->features < 0 || params->features > KM_FEATURES_MAX)
        return km_fail(err, KM_ERROR_USAGE, "%s: --features must be 1..%d, got %" PRId64, input->name,
                       KM_FEATURES_MAX, params->features);
    KM_TRY_GOTO(km_words_open(&s.words, input, '#', err));
    KM_TRY_GOTO(parse(&s));
    KM_TRY_GOTO(finish(&s));
done:
    km_words_close(&s.words);
    km_rows_clear(&s.rows);
    return status;
}

// Looking -----------------------------------------------------------------------------------------------------

// Whether a line is "label index:value ...": 1; 0: it is not; -1: it does not tell.
static int tell_line(const unsigned char *at, const unsigned char *end) {
    int words = 0, entries = 0;
    while (at < end) {
        if (km_is_blank(*at)) {
            at++;
            continue;
        }
        if (*at == '#') break;
        const unsigned char *start = at, *colon = NULL;
        for (; at < end && !km_is_blank(*at) && *at != '#'; at++)
            if (*at == ':' && !colon) colon = at;
        const char *numbers = colon ? "0123456789+-.eEnaifty" : "0123456789+-.,eE";
        const unsigned char *digit = start;
        while (colon && digit < colon && *digit >= '0' && *digit <= '9') digit++;
        int is_query = colon && colon - start == 3 && memcmp(start, "qid", 3) == 0;
        if (colon ? colon == start || (digit < colon && !is_query) : words > 0) return 0;
        for (const unsigned char *c = colon ? colon + 1 : start; c < at; c++)
            if (!strchr(numbers, *c)) return 0;
        entries += colon != NULL;
        words++;
    }
    return entries ? 1 : -1;
}

int km_svmlight_sniff(const km_input *input) {
    const unsigned char *at = input->head, *end = at + input->head_size;
    if (!km_csv_sniff(input)) return 0;
    while (at < end) {
        const unsigned char *newline = memchr(at, '\n', (size_t)(end - at));
        const unsigned char *line_end = newline ? newline : end;
        // The last word of a head that is full may be cut.
        if (!newline && input->head_size == (int64_t)sizeof input->head)
            while (line_end > at && !km_is_blank(line_end[-1])) line_end--;
        int told = tell_line(at, line_end);
        if (told >= 0) return told;
        at = newline ? newline + 1 : end;
    }
    return 0;
}

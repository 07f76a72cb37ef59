// SPDX-License-Identifier: MIT
// Matrix Market's coordinate format: "%%MatrixMarket matrix coordinate real general", comments, "rows columns entries",
// then "row column value" a line, from 1, in any order. Source of the format: NIST, "The Matrix Market Exchange
// Formats" (1996).
#include "../../base/size.h"
#include "rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char banner[] = "%%MatrixMarket";

typedef struct mtx {
    km_input *input;
    km_error *err;
    km_words words;
    km_rows rows; // entries in the order of the file
    int32_t *entry_rows;
    int64_t entry_rows_capacity;
    int64_t n, d, entries; // as the size line claims
    int is_pattern, is_symmetric;
} mtx;

int km_mtx_sniff(const km_input *input) {
    int64_t size = (int64_t)sizeof banner - 1;
    return input->head_size >= size && strncasecmp((const char *)input->head, banner, (size_t)size) == 0;
}

static km_status damaged(mtx *m, const char *what) {
    return km_fail(m->err, KM_ERROR_DATA, "%s: row %" PRId64 ": %s", m->words.file, m->words.line, what);
}

// Moves to the next word of this line: 1; where the line ends there: 0.
static km_status next_word(int *is_there, mtx *m) {
    km_words *words = &m->words;
    *is_there = 0;
    for (;;) {
        if (words->at == words->limit) KM_TRY(km_words_fill(words, m->err));
        if (words->at == words->limit || *words->at == '\n') return KM_OK;
        *is_there = !km_is_blank(*words->at);
        if (*is_there) return KM_OK;
        words->at++;
    }
}

// Moves to the next line that is neither empty nor a comment: 1; at the end of the text: 0.
static km_status next_line(int *is_there, mtx *m) {
    km_words *words = &m->words;
    for (;;) {
        KM_TRY(next_word(is_there, m));
        if (*is_there && *words->at != '%') return KM_OK;
        if (*is_there) KM_TRY(km_words_skip_line(words, m->err));
        *is_there = 0;
        if (words->at == words->limit) return KM_OK;
        words->at++;
        words->line++;
    }
}

static km_status end_line(mtx *m) {
    int is_there;
    KM_TRY(next_word(&is_there, m));
    return is_there ? damaged(m, "there is more on the line than belongs there") : KM_OK;
}

// Header ------------------------------------------------------------------------------------------------------

// The word at hand, small letters.
static km_status take_word(char out[32], mtx *m) {
    int is_there;
    size_t size = 0;
    KM_TRY(next_word(&is_there, m));
    for (; is_there && m->words.at < m->words.limit && !km_is_blank(*m->words.at) && *m->words.at != '\n';
         m->words.at++)
        if (size < 31)
            out[size++] = (char)(*m->words.at | ((*m->words.at >= 'A' && *m->words.at <= 'Z') << 5));
    out[size] = 0;
    return KM_OK;
}

static km_status take_banner(mtx *m) {
    char words[5][32];
    const char *file = m->words.file;
    for (int i = 0; i < 5; i++) KM_TRY(take_word(words[i], m));
    if (strcasecmp(words[0], banner) != 0 || strcmp(words[1], "matrix") != 0)
        return km_fail(m->err, KM_ERROR_DATA, "%s is no Matrix Market file: it does not begin with %s matrix",
                       file, banner);
    if (strcmp(words[2], "coordinate") != 0)
        return km_fail(
            m->err, KM_ERROR_DATA,
            "%s has the format \"%s\"; coordinate is read; save a dense table as .npy: numpy.save(path, x)",
            file, words[2]);
    m->is_pattern = strcmp(words[3], "pattern") == 0;
    if (!m->is_pattern && strcmp(words[3], "real") != 0 && strcmp(words[3], "integer") != 0 &&
        strcmp(words[3], "double") != 0)
        return km_fail(m->err, KM_ERROR_DATA,
                       "%s has values of the kind \"%s\"; real, integer and pattern are read", file,
                       words[3]);
    m->is_symmetric = strcmp(words[4], "symmetric") == 0;
    if (!m->is_symmetric && strcmp(words[4], "general") != 0)
        return km_fail(m->err, KM_ERROR_DATA,
                       "%s has the symmetry \"%s\"; general and symmetric are read; write it as general: "
                       "scipy.io.mmwrite(path, x, symmetry='general')",
                       file, words[4]);
    return end_line(m);
}

// A whole number of at most 18 digits; -1: the word is none.
static km_status take_size(int64_t *out, mtx *m) {
    int is_there;
    KM_TRY(next_word(&is_there, m));
    *out = -1;
    if (!is_there) return KM_OK;
    const unsigned char *at = m->words.at;
    int64_t value = 0;
    for (; *at >= '0' && *at <= '9' && at - m->words.at < 18; at++) value = value * 10 + (*at - '0');
    if (at == m->words.at || (!km_is_blank(*at) && *at != '\n')) return KM_OK;
    *out = value;
    m->words.at += at - m->words.at;
    return KM_OK;
}

static km_status check_sizes(mtx *m) {
    const char *file = m->words.file;
    if (m->n < 1 || m->d < 1)
        return km_fail(m->err, KM_ERROR_DATA, "%s has no values: its shape is %" PRId64 " x %" PRId64, file,
                       m->n, m->d);
    if (m->d > KM_FEATURES_MAX || m->n > INT32_MAX)
        return km_fail(m->err, KM_ERROR_DATA,
                       "%s is %" PRId64 " x %" PRId64 ", and at most %d rows and %d columns are taken", file,
                       m->n, m->d, INT32_MAX, KM_FEATURES_MAX);
    if (m->is_symmetric && m->n != m->d)
        return km_fail(m->err, KM_ERROR_DATA,
                       "%s is symmetric and %" PRId64 " x %" PRId64 "; its header is damaged", file, m->n,
                       m->d);
    if (m->entries > m->n * m->d)
        return km_fail(m->err, KM_ERROR_DATA,
                       "%s claims %" PRId64 " values in %" PRId64 " x %" PRId64 "; its header is damaged",
                       file, m->entries, m->n, m->d);
    return KM_OK;
}

static km_status take_sizes(mtx *m) {
    int is_there;
    KM_TRY(next_line(&is_there, m));
    if (!is_there)
        return km_fail(m->err, KM_ERROR_DATA, "%s is cut short: its sizes are missing", m->words.file);
    KM_TRY(take_size(&m->n, m));
    KM_TRY(take_size(&m->d, m));
    KM_TRY(take_size(&m->entries, m));
    if (m->n < 0 || m->d < 0 || m->entries < 0)
        return damaged(m, "three whole numbers belong here: rows, columns and values");
    return end_line(m);
}

// Entries -----------------------------------------------------------------------------------------------------

static km_status add(mtx *m, int64_t row, int64_t column, double value) {
    void *entry_rows = m->entry_rows;
    km_status status = km_array_reserve(&entry_rows, &m->entry_rows_capacity, m->rows.count + 1,
                                        sizeof *m->entry_rows, m->words.file, m->err);
    m->entry_rows = entry_rows;
    KM_TRY(status);
    m->entry_rows[m->rows.count] = (int32_t)(row - 1);
    return km_rows_add(&m->rows, (int32_t)(column - 1), value, m->err);
}

static km_status take_place(int64_t *out, mtx *m, const char *what, int64_t largest) {
    char got[KM_QUOTED_SIZE];
    int is_there;
    KM_TRY(take_size(out, m));
    if (*out >= 1 && *out <= largest) return KM_OK;
    KM_TRY(next_word(&is_there, m));
    if (*out < 0 && is_there)
        return km_fail(m->err, KM_ERROR_DATA, "%s: row %" PRId64 ": %s is no %s, 1..%" PRId64, m->words.file,
                       m->words.line, km_words_quote(got, &m->words), what, largest);
    if (*out < 0)
        return km_fail(m->err, KM_ERROR_DATA,
                       "%s: row %" PRId64 ": the %s is missing; the line is \"row column%s\"", m->words.file,
                       m->words.line, what, m->is_pattern ? "" : " value");
    return km_fail(m->err, KM_ERROR_DATA, "%s: row %" PRId64 ": %s %" PRId64 " is out of range, 1..%" PRId64,
                   m->words.file, m->words.line, what, *out, largest);
}

static km_status take_value(double *value, mtx *m) {
    char got[KM_QUOTED_SIZE];
    int is_there, is_single = m->rows.type == KM_FLOAT32;
    *value = 1;
    if (m->is_pattern) return KM_OK;
    KM_TRY(next_word(&is_there, m));
    if (!is_there) return damaged(m, "the value is missing; the line is \"row column value\"");
    const char *text = (const char *)m->words.at, *rest = km_number_take(value, text);
    if (!rest || (!km_is_blank((unsigned char)*rest) && *rest != '\n'))
        return km_fail(m->err, KM_ERROR_DATA, "%s: row %" PRId64 ": %s is no number; correct it",
                       m->words.file, m->words.line, km_words_quote(got, &m->words));
    const char *digits = text + strspn(text, "+-.");
    if (isinf(is_single ? (float)*value : *value) && *digits >= '0' && *digits <= '9')
        return km_fail(m->err, KM_ERROR_DATA, "%s: row %" PRId64 ": %s is too large for %s", m->words.file,
                       m->words.line, km_words_quote(got, &m->words),
                       is_single ? "float32; use float64" : "float64");
    m->words.at += rest - text;
    return KM_OK;
}

static km_status take_entries(mtx *m) {
    for (int64_t i = 0;; i++) {
        int is_there;
        KM_TRY(next_line(&is_there, m));
        if (!is_there && i == m->entries) return KM_OK;
        if (!is_there)
            return km_fail(m->err, KM_ERROR_DATA,
                           "%s is cut short: %" PRId64 " values are claimed, %" PRId64 " are there",
                           m->words.file, m->entries, i);
        if (i == m->entries)
            return km_fail(m->err, KM_ERROR_DATA,
                           "%s: row %" PRId64 " is behind the %" PRId64
                           " values that are claimed; correct their number",
                           m->words.file, m->words.line, m->entries);
        int64_t row, column;
        double value;
        KM_TRY(take_place(&row, m, "row", m->n));
        KM_TRY(take_place(&column, m, "column", m->d));
        KM_TRY(take_value(&value, m));
        KM_TRY(end_line(m));
        KM_TRY(add(m, row, column, value));
        if (m->is_symmetric && row != column) KM_TRY(add(m, column, row, value));
    }
}

// Rows take memory even where they are empty. A thousand for each byte of the file are a damaged header.
static km_status make_rows(mtx *m) {
    enum { ROWS_PER_BYTE = 1024 };
    if (m->n / ROWS_PER_BYTE > m->input->taken)
        return km_fail(m->err, KM_ERROR_DATA,
                       "%s claims %" PRId64 " rows in %" PRId64 " bytes; its header is damaged",
                       m->words.file, m->n, m->input->taken);
    return km_rows_from_entries(&m->rows, m->entry_rows, m->n, m->err);
}

km_status km_mtx_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    km_status status;
    mtx m = {.input = input, .err = err, .rows = {.file = input->name, .type = params->type}};
    KM_TRY_GOTO(km_words_open(&m.words, input, '%', err));
    KM_TRY_GOTO(take_banner(&m));
    KM_TRY_GOTO(take_sizes(&m));
    KM_TRY_GOTO(check_sizes(&m));
    KM_TRY_GOTO(take_entries(&m));
    KM_TRY_GOTO(make_rows(&m));
    KM_TRY_GOTO(km_rows_check(&m.rows, m.d, input->name, err));
    table->first_line = 1;
    KM_TRY_GOTO(km_rows_finish(table, &m.rows, m.d, params, err));
done:
    km_words_close(&m.words);
    km_rows_clear(&m.rows);
    free(m.entry_rows);
    return status;
}

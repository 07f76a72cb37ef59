// SPDX-License-Identifier: MIT
// One column of a text as it stands, by the same header, separators and missing words as points have.
#include "../../base/size.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void km_text_column_free(km_text_column *column) {
    free(column->name);
    free(column->numbers);
    free(column->words);
    km_dict_free(&column->texts);
    *column = (km_text_column){0};
}

static km_status reserve(km_text_column *out, km_error *err) {
    if (out->rows < out->capacity) return KM_OK;
    int64_t rows = 2 * out->capacity + 1024;
    double *numbers = realloc(out->numbers, (size_t)rows * sizeof *numbers);
    if (numbers) out->numbers = numbers;
    int32_t *words = numbers ? realloc(out->words, (size_t)rows * sizeof *words) : NULL;
    if (!words) return km_fail_memory(err, "a column of a text file", rows * 12);
    out->words = words;
    out->capacity = rows;
    return KM_OK;
}

typedef struct taker {
    km_text_column *out;
    int64_t column, different;
    int has_header, is_alone; // is_alone: the table has no other column
} taker;

// Blank lines of a table of one column are missing values, but for those at its front and at its end.
static km_status take_blank(km_text_column *out, int64_t lines, km_error *err) {
    for (; lines > 0; lines--) {
        KM_TRY(reserve(out, err));
        out->numbers[out->rows] = NAN;
        out->words[out->rows++] = -1;
    }
    return KM_OK;
}

static km_status take(void *user, const km_cells *cells, const km_spelling *spelling, km_error *err) {
    const taker *t = user;
    km_text_column *out = t->out;
    const km_cell *cell = &cells->cells[t->column];
    if (t->is_alone && (out->rows || t->has_header)) KM_TRY(take_blank(out, cells->blank, err));
    double value = NAN;
    KM_TRY(reserve(out, err));
    km_cell_sort sort = km_cell_number(&value, cell, spelling);
    int64_t word = -1;
    if (sort != KM_CELL_MISSING) word = km_dict_add(&out->texts, cell->text, cell->size, t->different);
    if (word == -2) return km_fail_memory(err, "the texts of a column", cell->size);
    out->numbers[out->rows] = sort == KM_CELL_VALUE ? value : NAN;
    out->words[out->rows++] = word < 0 && sort != KM_CELL_MISSING ? -2 : (int32_t)word;
    out->words_count += sort == KM_CELL_WRONG;
    return KM_OK;
}

// Where none is named: the one that a header calls label, or the only one.
static km_status pick(int64_t *out, const km_parse *p, const char *option, const char *column,
                      km_error *err) {
    char *const *names = p->has_header ? p->first_row : NULL;
    int64_t *picks = NULL, count;
    for (*out = 0; !column && names && *out < p->columns_count; ++*out)
        if (strcmp(names[*out], "label") == 0) return KM_OK;
    *out = 0;
    if (!column && p->columns_count == 1) return KM_OK;
    if (!column)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s has %" PRId64 " columns and none is named label; name that of the labels: %s",
                       p->file, p->columns_count, option);
    KM_TRY(km_columns_parse(&picks, &count, option, column, p->file, names, p->columns_count, NULL, err));
    if (count == 1) *out = picks[0];
    free(picks);
    return count == 1
               ? KM_OK
               : km_fail(err, KM_ERROR_USAGE, "%s is one column, and %s are %" PRId64, option, column, count);
}

km_status km_text_column_read(km_text_column *out, km_input *input, const km_data_params *params,
                              char delimiter, const char *option, const char *column, int64_t different,
                              km_error *err) {
    km_parse p;
    km_data_params plain = km_parse_plain(params);
    int64_t picked;
    km_status status;
    *out = (km_text_column){0};
    KM_TRY_GOTO(km_parse_open(&p, input, &plain, delimiter, err));
    KM_TRY_GOTO(km_parse_choose(&p)); // finds the header
    KM_TRY_GOTO(pick(&picked, &p, option, column, err));
    const char *name = km_parse_name(&p, picked);
    if (name && !(out->name = strdup(name))) KM_TRY_GOTO(km_fail_memory(err, "column names", 64));
    KM_TRY_GOTO(
        km_parse_each(&p, take, &(taker){out, picked, different, p.has_header, p.columns_count == 1}));
done:
    if (status != KM_OK) km_text_column_free(out);
    km_parse_close(&p);
    return status;
}

// SPDX-License-Identifier: MIT
// Labels from a file: a column of a text, numbers or words, or a table of one column.
#include "../../base/error.h"
#include "../data_refuse.h"
#include "../data_source.h"
#include "../read/text.h"
#include <kmgen/score.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    const char *path, *column; // column NULL: the one that is called label, or the only one
    const char *format;
    int64_t **labels, *count;
    char ***words; // NULL: not wanted
    int64_t *words_count;
    km_error *err;
} reading;

void km_labels_free(int64_t **labels) {
    free(*labels);
    *labels = NULL;
}

void km_label_words_free(char ***words) {
    free((void *)*words);
    *words = NULL;
}

static km_status make_labels(reading *r, int64_t rows) {
    int64_t *labels = *r->labels = malloc((size_t)rows * sizeof *labels + 1);
    if (!labels) return km_fail_memory(r->err, "the labels", rows * (int64_t)sizeof *labels);
    for (int64_t i = 0; i < rows; i++) labels[i] = KM_LABEL_EMPTY;
    *r->count = rows;
    return KM_OK;
}

static km_status set_label(reading *r, const char *file, int64_t row, double value) {
    if (value != floor(value) || fabs(value) > 0x1p53)
        return km_fail(r->err, KM_ERROR_DATA, "%s: the label of row %lld is %g; labels are whole numbers",
                       file, (long long)row + 1, value);
    (*r->labels)[row] = (int64_t)value;
    return KM_OK;
}

// Of texts ----------------------------------------------------------------------------------------------------

// A word, and its number in the order in which words were met.
typedef struct word {
    const char *text;
    int64_t number;
} word;

static int by_text(const void *a, const void *b) {
    return strcmp(((const word *)a)->text, ((const word *)b)->text);
}

// The words one after the other behind their addresses: one allocation.
static km_status keep_words(reading *r, const word *sorted, int64_t count) {
    size_t bytes = (size_t)count * sizeof(char *);
    for (int64_t i = 0; i < count; i++) bytes += strlen(sorted[i].text) + 1;
    char **words = r->words ? malloc(bytes) : NULL;
    if (!r->words) return KM_OK;
    if (!words) return km_fail_memory(r->err, "the words of labels", (int64_t)bytes);
    char *at = (char *)(words + count);
    for (int64_t i = 0; i < count; i++) {
        words[i] = at;
        at = stpcpy(at, sorted[i].text) + 1;
    }
    *r->words = words;
    *r->words_count = count;
    return KM_OK;
}

static km_status number_words(reading *r, const km_text_column *cells) {
    int64_t count = cells->texts.count;
    word *sorted = malloc((size_t)count * sizeof *sorted);
    int64_t *places = malloc((size_t)count * sizeof *places);
    km_status status = KM_OK;
    if (!sorted || !places) {
        status = km_fail_memory(r->err, "the words of labels", count * 24);
        goto done;
    }
    for (int64_t i = 0; i < count; i++) sorted[i] = (word){cells->texts.texts[i], i};
    qsort(sorted, (size_t)count, sizeof *sorted, by_text);
    for (int64_t i = 0; i < count; i++) places[sorted[i].number] = i;
    for (int64_t i = 0; i < cells->rows; i++)
        if (cells->words[i] >= 0) (*r->labels)[i] = places[cells->words[i]];
    status = keep_words(r, sorted, count);
done:
    free(sorted);
    free(places);
    return status;
}

// Words beside numbers are slips of the pen, as is the rest of a list of words that is longer than any of clusters.
static km_status check_words(const reading *r, const km_text_column *cells, const char *file) {
    int64_t row = 0;
    while (cells->words[row] == -1 || !isnan(cells->numbers[row])) row++; // the first word
    const char *text = cells->words[row] < 0 ? "a word" : cells->texts.texts[cells->words[row]];
    for (int64_t i = 0; i < cells->rows; i++)
        if (!isnan(cells->numbers[i]))
            return km_fail(
                r->err, KM_ERROR_DATA,
                "%s: the label of row %lld, \"%.40s\", is no number, as that of row %lld is; labels are "
                "all whole numbers or all words",
                file, (long long)row + 1, text, (long long)i + 1);
    if (cells->texts.count > KM_CLUSTERS_MAX)
        return km_fail(r->err, KM_ERROR_DATA,
                       "%s has more than %d different words as labels; is it another column?", file,
                       KM_CLUSTERS_MAX);
    return KM_OK;
}

static km_status read_text(reading *r, km_input *input) {
    km_text_column cells;
    km_data_params params;
    km_data_params_init(&params);
    KM_TRY(km_text_column_read(&cells, input, &params, r->format[0] == 't' ? '\t' : 0, "--label-column",
                               r->column, KM_CLUSTERS_MAX + 1, r->err));
    km_status status = make_labels(r, cells.rows);
    if (status == KM_OK && cells.words_count) status = check_words(r, &cells, input->name);
    if (status == KM_OK && cells.words_count) status = number_words(r, &cells);
    for (int64_t i = 0; status == KM_OK && !cells.words_count && i < cells.rows; i++)
        if (cells.words[i] != -1) status = set_label(r, input->name, i, cells.numbers[i]);
    km_text_column_free(&cells);
    return status;
}

// Of other tables ---------------------------------------------------------------------------------------------

static km_status open_column(km_data **out, const reading *r, km_input *input, const char *column,
                             km_error *err) {
    km_data_params params;
    km_data_params_init(&params);
    params.columns = column;
    params.missing = KM_MISSING_DROP;
    params.format = r->format;
    return input ? km_data_open_input(out, input, &params, err) : km_data_open(out, r->path, &params, err);
}

// A table of other columns may hold cells that are no numbers, so the name "label" is tried first; but standard input
// and pipes can be read once.
static km_status open_labels(km_data **out, const reading *r, km_input *input) {
    if (r->column) return open_column(out, r, input, r->column, r->err);
    if (input->is_regular) {
        km_error why = {""};
        km_status status = open_column(out, r, NULL, "label", &why);
        if (status != KM_OK && status != KM_ERROR_USAGE) km_fail(r->err, status, "%s", why.text);
        if (status != KM_ERROR_USAGE) return status; // else no column has that name
    }
    return open_column(out, r, input, NULL, r->err);
}

static km_status read_table(reading *r, km_input *input) {
    km_data *data = NULL;
    KM_TRY(open_labels(&data, r, input));
    int64_t columns = km_data_features(data);
    km_status status = KM_OK;
    if (columns != 1 && r->column)
        status = km_fail(r->err, KM_ERROR_USAGE, "%s: the labels are one column, and %s are %lld", r->path,
                         r->column, (long long)columns);
    else if (columns != 1)
        status =
            km_fail(r->err, KM_ERROR_USAGE,
                    "%s has %lld columns and none is named label; name that of the labels: --label-column",
                    r->path, (long long)columns);
    if (status == KM_OK) status = make_labels(r, km_data_rows(data));
    for (int64_t i = 0; status == KM_OK && i < km_data_points(data); i++) {
        double value;
        status = km_data_read(&value, data, i, 1, KM_FLOAT64, r->err);
        if (status == KM_OK) status = set_label(r, km_data_name(data), km_data_row_of(data, i), value);
    }
    if (status == KM_OK) status = km_data_check(data, r->err);
    km_data_destroy(&data);
    return status;
}

km_status km_labels_read_words(int64_t **out, int64_t *count, char ***words, int64_t *words_count,
                               const char *path, const char *column, km_error *err) {
    reading r = {path, column, NULL, out, count, words, words_count, err};
    km_data_params params;
    km_input input;
    *out = NULL;
    if (words) *words = NULL, *words_count = 0;
    km_data_params_init(&params);
    KM_TRY(km_input_open(&input, path, err));
    r.format = km_input_format(&input, &params, err);
    km_status status = r.format ? KM_OK : KM_ERROR_DATA;
    int is_text = r.format && (strcmp(r.format, "csv") == 0 || strcmp(r.format, "tsv") == 0);
    if (status == KM_OK) status = is_text ? read_text(&r, &input) : read_table(&r, &input);
    km_input_close(&input);
    if (status != KM_OK) km_labels_free(out);
    return status;
}

km_status km_labels_read(int64_t **out, int64_t *count, const char *path, const char *column, km_error *err) {
    return km_labels_read_words(out, count, NULL, NULL, path, column, err);
}

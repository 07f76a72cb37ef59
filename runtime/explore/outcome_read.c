// SPDX-License-Identifier: MIT
// An outcome from a column of a file: of text as its cells say, of other tables as numbers.
#include "../../base/size.h"
#include "../read/text.h"
#include "outcome.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A class, and how it is spelled.
typedef struct word {
    const char *text;
    int64_t number; // in the order in which words were met
} word;

static int by_text(const void *a, const void *b) {
    return strcmp(((const word *)a)->text, ((const word *)b)->text);
}

// Words become classes in the order of their bytes, whatever row has them first.
static km_status sort_words(km_text_column *column, km_error *err) {
    int64_t count = column->texts.count;
    word *sorted = malloc((size_t)count * sizeof *sorted + 1);
    double *places = malloc((size_t)count * sizeof *places + 1);
    km_status status = sorted && places ? KM_OK : km_fail_memory(err, "the classes", count * 8);
    for (int64_t i = 0; status == KM_OK && i < count; i++) sorted[i] = (word){column->texts.texts[i], i};
    if (status == KM_OK) qsort(sorted, (size_t)count, sizeof *sorted, by_text);
    for (int64_t i = 0; status == KM_OK && i < count; i++) places[sorted[i].number] = (double)i;
    for (int64_t i = 0; status == KM_OK && i < column->rows; i++)
        column->numbers[i] = column->words[i] < 0 ? NAN : places[column->words[i]];
    free(sorted);
    free(places);
    return status;
}

// Cells that are all numbers are taken as numbers; where one is none, all are words.
static km_status read_text(km_outcome **out, km_input *input, const km_data_params *params,
                           const char *column, km_outcome_kind kind, km_error *err) {
    km_text_column cells;
    KM_TRY(km_text_column_read(&cells, input, params, params->format[0] == 't' ? '\t' : 0, "--outcome",
                               column, KM_OUTCOME_CLASSES_MAX + 1, err));
    const char *name = cells.name ? cells.name : column;
    km_status status = KM_OK;
    if (cells.words_count && cells.texts.count > KM_OUTCOME_CLASSES_MAX)
        status = km_fail(err, KM_ERROR_DATA,
                         "the outcome %s has more than %d classes; its cells are text, so they "
                         "cannot be numbers: name another column, or write numbers or broader classes",
                         name, KM_OUTCOME_CLASSES_MAX);
    if (status == KM_OK && cells.words_count) {
        status = sort_words(&cells, err);
        kind = KM_OUTCOME_CLASSES;
    }
    if (status == KM_OK) status = km_outcome_from_memory(out, cells.numbers, cells.rows, kind, name, err);
    km_text_column_free(&cells);
    return status;
}

static km_status read_numbers(km_outcome **out, const char *path, const char *column,
                              const km_data_params *params, km_outcome_kind kind, km_error *err) {
    km_data *data = NULL;
    km_data_params own = *params;
    own.columns = column;
    own.weights = NULL;
    own.names = NULL;
    own.names_count = 0;
    own.missing = KM_MISSING_DROP;
    own.exclude = own.one_hot = own.weights_column = NULL;
    own.type = KM_FLOAT64;
    own.log = NULL;
    km_status status = km_data_open(&data, path, &own, err);
    if (status != KM_OK) return status;
    int64_t rows = km_data_rows(data);
    double *values = malloc((size_t)rows * sizeof *values + 1);
    if (!values) status = km_fail_memory(err, "the outcome", rows * 8);
    if (status == KM_OK && km_data_features(data) != 1)
        status = km_fail(err, KM_ERROR_USAGE, "the outcome is one column, and %s are %lld", column,
                         (long long)km_data_features(data));
    int64_t points = km_data_points(data);
    if (status == KM_OK) status = km_data_read(values, data, 0, points, KM_FLOAT64, err);
    if (status == KM_OK) {
        // No point lies behind its row, so from the end no value is written over before it is read.
        for (int64_t i = rows; i-- > 0;) {
            int is_there = points > 0 && km_data_row_of(data, points - 1) == i;
            values[i] = is_there ? values[--points] : NAN;
        }
        const char *name = km_data_feature_name(data, 0);
        status = km_outcome_from_memory(out, values, rows, kind, name ? name : column, err);
    }
    free(values);
    km_data_destroy(&data);
    return status;
}

km_status km_outcome_read(km_outcome **out, const char *path, const char *column,
                          const km_data_params *params, km_outcome_kind kind, km_error *err) {
    km_data_params own;
    km_error first = {""};
    km_input input;
    km_data_params_init(&own);
    if (params) own = *params;
    *out = NULL;
    KM_TRY(km_input_open(&input, path, err));
    own.format = km_input_format(&input, &own, err);
    km_status status = own.format ? KM_OK : KM_ERROR_DATA;
    int is_text = own.format && (strcmp(own.format, "csv") == 0 || strcmp(own.format, "tsv") == 0);
    // A cell that is no number where only numbers are wanted is refused with its row.
    if (is_text && kind != KM_OUTCOME_NUMBERS) status = read_text(out, &input, &own, column, kind, err);
    km_input_close(&input);
    if (status != KM_OK || (is_text && kind != KM_OUTCOME_NUMBERS)) return status;
    status = read_numbers(out, path, column, &own, kind, &first);
    if (status == KM_OK) return KM_OK;
    int is_column = strncmp(first.text, "--columns", 9) == 0; // what the readers call it
    return km_fail(err, status, "%s%s", is_column ? "--outcome" : "", first.text + (is_column ? 9 : 0));
}

// SPDX-License-Identifier: MIT
// An outcome from a column of a file: numbers by the readers of points, words by a reading of that column alone.
#include "../../base/size.h"
#include "../read/kinds.h"
#include "../read/reader.h"
#include "outcome.h"
#include <csv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 18 };

// A class, and how it is spelled.
typedef struct word {
    const char *text;
    int64_t number; // in the order in which words were met
} word;

// Words of one column, numbered in the order in which they were met.
typedef struct words {
    const char *file, *column;
    km_error *err;
    km_status status;
    int64_t place;     // the column, from 0; -1: not known yet
    int64_t cell, row; // where the parser is; the header is row -1
    int32_t has_header;
    int missing;    // the row has no such cell so far
    double *values; // of each row: the word's number
    int64_t rows_capacity;
    km_dict list;
} words;

static void fail(words *w, km_status status) {
    if (w->status == KM_OK) w->status = status;
}

// The number of a word, which is added where it is new. More words than one above those that an outcome may have are
// not kept.
static int64_t number_of(words *w, const char *text, size_t size) {
    int64_t number = km_dict_add(&w->list, text, (int64_t)size, KM_OUTCOME_CLASSES_MAX + 1);
    if (number == -2) fail(w, km_fail_memory(w->err, "the classes", (int64_t)size));
    return number >= 0 ? number : 0;
}

static int is_missing(const char *text, size_t size) {
    static const char *const none[] = {"", "nan", "NaN", "NA", "null"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (strlen(none[i]) == size && memcmp(none[i], text, size) == 0) return 1;
    return 0;
}

static void put(words *w, double value) {
    if (w->row >= w->rows_capacity) {
        int64_t capacity = 2 * w->rows_capacity + 1024;
        double *values = realloc(w->values, (size_t)capacity * sizeof *values);
        if (!values) {
            fail(w, km_fail_memory(w->err, "the outcome", capacity * 8));
            return;
        }
        w->values = values;
        w->rows_capacity = capacity;
    }
    w->values[w->row] = value;
}

static void on_cell(void *bytes, size_t size, void *user) {
    words *w = user;
    const char *text = bytes;
    if (w->status != KM_OK) return;
    while (size && (*text == ' ' || *text == '\t')) text++, size--;
    while (size && (text[size - 1] == ' ' || text[size - 1] == '\t')) size--;
    if (w->row < 0 && w->place < 0 && strlen(w->column) == size && memcmp(w->column, text, size) == 0)
        w->place = w->cell;
    if (w->row >= 0 && w->cell == w->place) {
        put(w, is_missing(text, size) ? NAN : (double)number_of(w, text, size));
        w->missing = 0;
    }
    w->cell++;
}

static void on_row(int terminator, void *user) {
    words *w = user;
    (void)terminator;
    if (w->status != KM_OK || w->cell == 0) return;
    if (w->row < 0 && w->place < 0)
        fail(w, km_fail(w->err, KM_ERROR_USAGE, "--outcome: %s has no column '%.80s'", w->file, w->column));
    if (w->row >= 0 && w->missing) put(w, NAN);
    w->row++;
    w->cell = 0;
    w->missing = 1;
}

static km_status parse(words *w, km_unpacker *unpacker, char delimiter) {
    struct csv_parser parser;
    unsigned char *piece = malloc(PIECE_BYTES);
    if (!piece || csv_init(&parser, CSV_APPEND_NULL) != 0) {
        free(piece);
        return km_fail_memory(w->err, "reading text", PIECE_BYTES);
    }
    csv_set_delim(&parser, (unsigned char)delimiter);
    km_status status = KM_OK;
    for (int64_t got = 1, first = 1; status == KM_OK && got > 0; first = 0) {
        status = km_unpacker_read(&got, piece, PIECE_BYTES, unpacker, w->err);
        if (status != KM_OK) break;
        if (first && !memchr(piece, delimiter, (size_t)got) && memchr(piece, ';', (size_t)got))
            csv_set_delim(&parser, ';');
        int64_t mark = first && got >= 3 && memcmp(piece, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        csv_parse(&parser, piece + mark, (size_t)(got - mark), on_cell, on_row, w);
        status = w->status;
    }
    if (status == KM_OK) csv_fini(&parser, on_cell, on_row, w);
    if (status == KM_OK) status = w->status;
    csv_free(&parser);
    free(piece);
    return status;
}

static int by_text(const void *a, const void *b) {
    return strcmp(((const word *)a)->text, ((const word *)b)->text);
}

// Words become classes in the order of their bytes, whatever row has them first.
static km_status sort_words(words *w) {
    int64_t count = w->list.count;
    word *sorted = malloc((size_t)count * sizeof *sorted + 1);
    double *places = malloc((size_t)count * sizeof *places + 1);
    km_status status = sorted && places ? KM_OK : km_fail_memory(w->err, "the classes", count * 8);
    for (int64_t i = 0; status == KM_OK && i < count; i++) sorted[i] = (word){w->list.texts[i], i};
    if (status == KM_OK) qsort(sorted, (size_t)count, sizeof *sorted, by_text);
    for (int64_t i = 0; status == KM_OK && i < count; i++) places[sorted[i].number] = (double)i;
    for (int64_t i = 0; status == KM_OK && i < w->row; i++)
        if (!isnan(w->values[i])) w->values[i] = places[(int64_t)w->values[i]];
    free(sorted);
    free(places);
    return status;
}

static void words_init(words *w) {
    char *end;
    long long number = strtoll(w->column, &end, 10);
    w->place = *end == 0 && number > 0 ? number - 1 : -1;
    w->row = w->has_header || w->place < 0 ? -1 : 0;
    w->missing = 1;
}

static km_status read_words(km_outcome **out, const char *path, const char *column,
                            const km_data_params *params, km_error *err) {
    const char *format = params->format ? params->format : km_data_format(path);
    words w = {.file = path, .column = column, .err = err};
    w.has_header = params->header == KM_HEADER_YES || params->header == KM_HEADER_SKIP ||
                   params->header == KM_HEADER_AUTO;
    km_input input;
    km_unpacker *unpacker = NULL;
    KM_TRY(km_input_open(&input, path, err));
    words_init(&w);
    km_status status = km_unpacker_create(&unpacker, &input, err);
    if (status == KM_OK) status = parse(&w, unpacker, format && strcmp(format, "tsv") == 0 ? '\t' : ',');
    if (status == KM_OK && w.list.count > KM_OUTCOME_CLASSES_MAX)
        status = km_fail(err, KM_ERROR_DATA,
                         "the outcome %s has more than %d classes; its cells are text, so they "
                         "cannot be numbers",
                         column, KM_OUTCOME_CLASSES_MAX);
    if (status == KM_OK) status = sort_words(&w);
    if (status == KM_OK)
        status = km_outcome_from_memory(out, w.values, w.row, KM_OUTCOME_CLASSES, column, err);
    km_dict_free(&w.list);
    free(w.values);
    km_unpacker_destroy(&unpacker);
    km_input_close(&input);
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
    for (int64_t i = 0; status == KM_OK && i < rows; i++) values[i] = NAN;
    for (int64_t i = 0; status == KM_OK && i < km_data_points(data); i++)
        status = km_data_read(&values[km_data_row_of(data, i)], data, i, 1, KM_FLOAT64, err);
    if (status == KM_OK) {
        const char *name = km_data_feature_name(data, 0);
        status = km_outcome_from_memory(out, values, rows, kind, name ? name : column, err);
    }
    free(values);
    km_data_destroy(&data);
    return status;
}

km_status km_outcome_read(km_outcome **out, const char *path, const char *column,
                          const km_data_params *params, km_outcome_kind kind, km_error *err) {
    km_data_params defaults;
    km_error first = {""};
    km_data_params_init(&defaults);
    if (!params) params = &defaults;
    *out = NULL;
    km_status status = read_numbers(out, path, column, params, kind, &first);
    if (status == KM_OK) return KM_OK;
    const char *format = params->format ? params->format : km_data_format(path);
    int is_text = format && (strcmp(format, "csv") == 0 || strcmp(format, "tsv") == 0);
    // A cell that is no number is a class; anything else that is wrong stays so.
    int is_word = strstr(first.text, "number") != NULL && strncmp(first.text, "the outcome", 11) != 0;
    if (status != KM_ERROR_DATA || !is_text || kind == KM_OUTCOME_NUMBERS || !is_word)
        return km_fail(err, status, "%s%s", strncmp(first.text, "--columns", 9) == 0 ? "--outcome" : "",
                       strncmp(first.text, "--columns", 9) == 0 ? first.text + 9 : first.text);
    return read_words(out, path, column, params, err);
}

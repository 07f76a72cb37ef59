// SPDX-License-Identifier: MIT
// CSV and the like, by libcsv with strict quotes: separated by commas, semicolons or tabs, plain or packed by gzip.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/spec_fields.h"
#include "../memory.h"
#include "../names.h"
#include "reader.h"

#include <csv.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The first bytes are kept, to tell the separator and, when a cell is no number, which columns hold numbers.
enum { HEAD_BYTES = 1 << 20, CHUNK_BYTES = 1 << 18 };

typedef struct text {
    const char *file;
    const km_data_params *params;
    km_table *table;
    km_error *err;
    km_status status; // the first failure; everything is skipped after it
    char delimiter;
    const unsigned char *head;
    int64_t head_size, mark_size; // the byte order mark comes first

    int64_t line;       // where the present row began, from 1
    int64_t newlines;   // inside quotes, since then
    int after_return;   // the last row ended with a carriage return
    int64_t blank_line; // of the last blank line that was skipped, 0: none
    int64_t cell;       // of the present row, from 0

    char **first_row; // its cells; columns_count of them once it is whole
    int64_t first_row_capacity, first_line;
    int64_t columns_count; // of the file, 0: first row not read
    int has_header, is_chosen;
    int64_t *picks, picks_count; // columns that are kept, from 0
    int64_t *places;             // of each column: its column in the table, or -1

    unsigned char *values; // of params->type
    int64_t rows_capacity;
} text;

static void fail(text *t, km_status status) {
    if (t->status == KM_OK) t->status = status;
}

static char **header_of(const text *t) {
    return t->has_header ? t->first_row : NULL;
}

// Columns are chosen by params->names.
static int by_names(const text *t) {
    return t->params->names && t->has_header && t->params->header != KM_HEADER_SKIP;
}

// Row and column of the present cell.
static const char *here(char place[KM_PLACE_SIZE], const text *t) {
    int has_name = t->has_header && t->cell < t->columns_count;
    return km_place_write(place, t->line, t->cell + 1, has_name ? t->first_row[t->cell] : NULL);
}

// Cells ------------------------------------------------------------------------------------------------------

static int is_missing_word(const char *cell) {
    static const char *const words[] = {"NA", "N/A", "na", "n/a", "null", "NULL", "None", "?", "-"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(cell, words[i]) == 0) return 1;
    return 0;
}

// A number but for its decimal comma, e.g. "1,5".
static int has_decimal_comma(const char *cell, size_t size) {
    char copy[64];
    double value;
    if (size >= sizeof copy || !strchr(cell, ',')) return 0;
    memcpy(copy, cell, size + 1);
    *strchr(copy, ',') = '.';
    return km_number_parse(&value, copy, (int64_t)size);
}

// Several numbers with only spaces between them.
static int has_spaces_between(const text *t, const char *cell) {
    const char *space = strpbrk(cell, " ");
    return t->columns_count == 1 && space && cell[strcspn(cell, "0123456789")] &&
           space[strcspn(space, "0123456789")];
}

static km_status bad_cell(text *t, const char *cell, size_t size) {
    char advice[KM_ADVICE_SIZE], got[KM_QUOTED_SIZE], place[KM_PLACE_SIZE];
    here(place, t);
    if (has_spaces_between(t, cell))
        return km_fail(t->err, KM_ERROR_DATA,
                       "%s: %s: %s is no number; cells must be separated by commas, semicolons or "
                       "tabs",
                       t->file, place, km_quoted(got, cell));
    if (has_decimal_comma(cell, size))
        return km_fail(t->err, KM_ERROR_DATA, "%s: %s: %s is no number; write decimals with a point", t->file,
                       place, km_quoted(got, cell));
    const char *way_out = !size ? "fill it in, or write nan and drop such rows with --nan drop"
                          : is_missing_word(cell) ? "write nan and drop such rows with --nan drop"
                                                  : "correct it";
    if (t->params->names) // which other columns would do, only the user knows
        return km_fail(
            t->err, KM_ERROR_DATA, "%s: %s: %s%s; %s%s", t->file, place,
            size ? km_quoted(got, cell) : "the cell is empty", size ? " is no number" : "", way_out,
            by_names(t) ? "" : ", or choose the columns that are needed, in their order: --columns");
    km_columns_advise(advice, t->head + t->mark_size, t->head_size - t->mark_size, t->delimiter,
                      t->has_header, header_of(t), t->columns_count, t->picks, t->picks_count, t->cell);
    return km_fail(t->err, KM_ERROR_DATA, "%s: %s: %s%s; %s, or %s%s", t->file, place,
                   size ? km_quoted(got, cell) : "the cell is empty", size ? " is no number" : "", way_out,
                   *advice ? "keep the columns of numbers: --columns "
                           : "name columns of numbers: none is there now",
                   advice);
}

static km_status reserve_row(text *t) {
    if (t->table->rows < t->rows_capacity) return KM_OK;
    int64_t rows = t->rows_capacity ? t->rows_capacity * 2 : 256, bytes;
    int64_t row_bytes = t->picks_count * km_type_bytes((t->params->type));
    if (km_mul_overflows(&bytes, rows, row_bytes)) bytes = INT64_MAX;
    unsigned char *values = realloc(t->values, (size_t)bytes);
    if (!values) return km_fail_memory(t->err, "the table of a text file", bytes);
    t->values = values;
    t->rows_capacity = rows;
    return KM_OK;
}

static km_status store(text *t, int64_t slot, const char *cell, size_t size) {
    double value = NAN;
    int is_empty = t->params->empty_is_nan && strspn(cell, " ") == size;
    if (!is_empty && !km_number_parse(&value, cell, (int64_t)size)) return bad_cell(t, cell, size);
    int64_t index = t->table->rows * t->picks_count + slot;
    int is_single = t->params->type == KM_FLOAT32;
    if (isinf(is_single ? (float)value : value) && cell[strcspn(cell, "0123456789")]) {
        char got[KM_QUOTED_SIZE], place[KM_PLACE_SIZE];
        return km_fail(t->err, KM_ERROR_DATA, "%s: %s: %s is too large for %s", t->file, here(place, t),
                       km_quoted(got, cell), is_single ? "float32; use float64" : "float64");
    }
    if (is_single)
        ((float *)(void *)t->values)[index] = (float)value;
    else
        ((double *)(void *)t->values)[index] = value;
    return KM_OK;
}

// First row --------------------------------------------------------------------------------------------------

static km_status save_cell(text *t, const char *cell, size_t size) {
    if (t->cell >= KM_FEATURES_DENSE_MAX)
        return km_fail(t->err, KM_ERROR_DATA,
                       "%s: row %" PRId64 " has more than the %d columns that are taken", t->file, t->line,
                       KM_FEATURES_DENSE_MAX);
    if (t->cell == t->first_row_capacity) {
        int64_t capacity = t->cell ? t->cell * 2 : 16;
        char **cells = realloc(t->first_row, (size_t)capacity * sizeof *cells);
        if (!cells) return km_fail_memory(t->err, "the first row", capacity * (int64_t)sizeof *cells);
        memset(cells + t->cell, 0, (size_t)(capacity - t->cell) * sizeof *cells);
        t->first_row = cells;
        t->first_row_capacity = capacity;
    }
    t->first_row[t->cell] = strndup(cell, size);
    return t->first_row[t->cell] ? KM_OK : km_fail_memory(t->err, "the first row", (int64_t)size);
}

// A header has words where numbers would be. Only the columns that are kept count, so that a table of numbers
// with a column of text needs no more than --columns.
static int looks_like_header(const text *t) {
    for (int64_t i = 0; i < t->picks_count; i++) {
        const char *cell = t->first_row[t->picks[i]];
        double value;
        if (*cell && !km_number_parse(&value, cell, (int64_t)strlen(cell))) return 1;
    }
    return 0;
}

static km_status pick_all(text *t) {
    t->picks = malloc((size_t)t->columns_count * sizeof *t->picks);
    if (!t->picks) return km_fail_memory(t->err, "columns", t->columns_count * (int64_t)sizeof *t->picks);
    for (int64_t f = 0; f < t->columns_count; f++) t->picks[f] = f;
    t->picks_count = t->columns_count;
    return KM_OK;
}

static const char *way_out_of_names(const text *t) {
    if (t->picks_count == t->params->names_count)
        return "rename the columns that hold them, or let columns count by position: --header skip, or "
               "--header "
               "no where the first line holds data";
    return "add them, rename the columns that hold them, or choose columns by position: --header skip "
           "--columns "
           "LIST, or --header no --columns LIST where the first line holds data";
}

// Of the columns kept so far, those with the names that are needed: places among them, in the order needed.
static km_status match_names(int64_t **out, const text *t, km_error *err) {
    int64_t count = t->picks_count;
    km_status status;
    const char **names = malloc((size_t)count * sizeof *names);
    int64_t *numbers = malloc((size_t)count * sizeof *numbers);
    int64_t *found = *out = malloc((size_t)t->params->names_count * sizeof *found + 1);
    if (!names || !numbers || !found)
        KM_TRY_GOTO(km_fail_memory(err, "columns", (count + t->params->names_count) * 16));
    for (int64_t i = 0; i < count; i++) {
        names[i] = t->first_row[t->picks[i]];
        numbers[i] = t->picks[i] + 1;
    }
    km_named named = {t->file, names, numbers, count, way_out_of_names(t)};
    KM_TRY_GOTO(km_names_match(found, t->params->names, t->params->names_count, &named, err));
done:
    free((void *)names);
    free(numbers);
    if (status == KM_OK) return status;
    free(found);
    *out = NULL;
    return status;
}

// A first row that holds the names that are needed is a header too, even one of numbers.
static int find_header(const text *t) {
    int64_t *found = NULL;
    if (t->params->header != KM_HEADER_AUTO) return t->params->header != KM_HEADER_NO;
    if (looks_like_header(t)) return 1;
    int holds_names = t->params->names && match_names(&found, t, NULL) == KM_OK;
    free(found);
    return holds_names;
}

static km_status keep_named(text *t) {
    int64_t *found, count = t->params->names_count;
    KM_TRY(match_names(&found, t, t->err));
    for (int64_t i = 0; i < count; i++) found[i] = t->picks[found[i]];
    free(t->picks);
    t->picks = found;
    t->picks_count = count;
    return KM_OK;
}

static km_status choose_columns(text *t) {
    const char *columns = t->params->columns;
    char **names = t->params->header == KM_HEADER_NO ? NULL : t->first_row;
    if (columns)
        KM_TRY(km_columns_parse(&t->picks, &t->picks_count, columns, t->file, names, t->columns_count, NULL,
                                t->err));
    else
        KM_TRY(pick_all(t));
    t->has_header = find_header(t);
    if (by_names(t)) KM_TRY(keep_named(t));
    t->places = malloc((size_t)t->columns_count * sizeof *t->places);
    if (!t->places) return km_fail_memory(t->err, "columns", t->columns_count * (int64_t)sizeof *t->places);
    for (int64_t f = 0; f < t->columns_count; f++) t->places[f] = -1;
    for (int64_t i = 0; i < t->picks_count; i++) t->places[t->picks[i]] = i;
    return KM_OK;
}

// Gives the table the names and numbers of its columns.
static km_status name_columns(text *t) {
    km_table *table = t->table;
    table->columns = t->picks_count;
    if (t->params->columns || by_names(t)) {
        table->numbers = malloc((size_t)t->picks_count * sizeof *table->numbers);
        if (!table->numbers) return km_fail_memory(t->err, "columns", t->picks_count * 8);
        for (int64_t i = 0; i < t->picks_count; i++) table->numbers[i] = t->picks[i] + 1;
    }
    if (!t->has_header || t->params->header == KM_HEADER_SKIP) return KM_OK;
    table->names = calloc((size_t)t->picks_count, sizeof *table->names);
    if (!table->names) return km_fail_memory(t->err, "column names", t->picks_count * 8);
    for (int64_t i = 0; i < t->picks_count; i++) {
        table->names[i] = strdup(t->first_row[t->picks[i]]);
        if (!table->names[i]) return km_fail_memory(t->err, "column names", 64);
    }
    return KM_OK;
}

static km_status end_first_row(text *t) {
    t->columns_count = t->cell;
    t->first_line = t->line;
    KM_TRY(choose_columns(t));
    KM_TRY(name_columns(t));
    if (t->has_header) return KM_OK;
    KM_TRY(reserve_row(t));
    for (t->cell = 0; t->cell < t->columns_count; t->cell++) {
        const char *cell = t->first_row[t->cell];
        if (t->places[t->cell] >= 0) KM_TRY(store(t, t->places[t->cell], cell, strlen(cell)));
    }
    return KM_OK;
}

// Rows -------------------------------------------------------------------------------------------------------

// Empty lines before this row of one column are rows, too.
static km_status insert_empty_rows(text *t) {
    int64_t line = t->line, bytes = km_type_bytes(t->params->type);
    unsigned char value[8];
    memcpy(value, t->values + t->table->rows * bytes, (size_t)bytes);
    for (t->line = t->blank_line; t->line < line; t->line++) {
        KM_TRY(store(t, 0, "", 0));
        KM_TRY(km_table_note_line(t->table, t->table->rows, t->line, t->rows_capacity, t->err));
        t->table->rows++;
        KM_TRY(reserve_row(t));
    }
    memcpy(t->values + t->table->rows * bytes, value, (size_t)bytes);
    t->blank_line = 0;
    return KM_OK;
}

static km_status end_row(text *t) {
    int is_first = t->columns_count == 0;
    if (is_first)
        KM_TRY(end_first_row(t));
    else if (t->cell != t->columns_count)
        return km_fail(t->err, KM_ERROR_DATA,
                       "%s: row %" PRId64 " has %" PRId64 " cells, but row %" PRId64 " has %" PRId64
                       "; every row needs the same",
                       t->file, t->line, t->cell, t->first_line, t->columns_count);
    if (is_first && t->has_header) return KM_OK;
    if (t->columns_count == 1 && t->blank_line && t->params->empty_is_nan && t->picks_count == 1)
        KM_TRY(insert_empty_rows(t));
    if (t->columns_count == 1 && t->blank_line) { // an empty line is an empty cell here
        t->line = t->blank_line;
        t->cell = 0;
        return bad_cell(t, "", 0);
    }
    KM_TRY(km_table_note_line(t->table, t->table->rows, t->line, t->rows_capacity, t->err));
    t->table->rows++;
    return KM_OK;
}

static int64_t count_newlines(const char *cell, size_t size) {
    int64_t count = 0;
    for (const char *at = cell; (at = memchr(at, '\n', size - (size_t)(at - cell))) != NULL; at++) count++;
    return count;
}

static void on_cell(void *bytes, size_t size, void *user) {
    text *t = user;
    const char *cell = bytes;
    if (t->status != KM_OK) return;
    t->newlines += count_newlines(cell, size);
    if (t->columns_count == 0)
        fail(t, save_cell(t, cell, size));
    else if (t->cell < t->columns_count && t->places[t->cell] >= 0) {
        fail(t, reserve_row(t));
        if (t->status == KM_OK) fail(t, store(t, t->places[t->cell], cell, size));
    }
    t->cell++;
    t->after_return = 0;
}

static void on_row(int terminator, void *user) {
    text *t = user;
    if (t->status != KM_OK) return;
    if (t->cell == 0 && terminator == '\n' && t->after_return) { // the second half of a CR LF
        t->after_return = 0;
        return;
    }
    if (t->cell > 0)
        fail(t, end_row(t));
    else if (t->columns_count > 0)
        t->blank_line = t->blank_line ? t->blank_line : t->line;
    t->line += 1 + t->newlines;
    t->newlines = 0;
    t->cell = 0;
    t->after_return = terminator == '\r';
}

static km_status feed(text *t, struct csv_parser *parser, const unsigned char *bytes, int64_t size) {
    int64_t done = (int64_t)csv_parse(parser, bytes, (size_t)size, on_cell, on_row, t);
    if (t->status != KM_OK) return t->status;
    if (done == size) return KM_OK;
    char place[KM_PLACE_SIZE];
    if (csv_error(parser) == CSV_EPARSE)
        return km_fail(
            t->err, KM_ERROR_DATA,
            "%s: %s: a quote is out of place; quote a whole cell, and write a quote inside it twice", t->file,
            here(place, t));
    return km_fail_memory(t->err, "a cell of text", 0);
}

static km_status finish(text *t, struct csv_parser *parser) {
    int result = csv_fini(parser, on_cell, on_row, t);
    if (t->status != KM_OK) return t->status;
    char place[KM_PLACE_SIZE];
    if (result != 0)
        return km_fail(t->err, KM_ERROR_DATA, "%s: %s: a quote is opened and never closed", t->file,
                       here(place, t));
    km_table *table = t->table;
    if (table->rows == 0)
        return km_fail(t->err, KM_ERROR_DATA,
                       t->has_header ? "%s has a header and no rows" : "%s has no rows", t->file);
    table->memory = t->values;
    t->values = NULL;
    table->base = table->memory;
    table->element = t->params->type == KM_FLOAT32 ? KM_ELEMENT_F4 : KM_ELEMENT_F8;
    table->row_stride = table->columns;
    table->column_stride = 1;
    return KM_OK;
}

// Files ------------------------------------------------------------------------------------------------------

// The separator that the first line uses outside of quotes: a comma where there is one.
char km_text_separator(const unsigned char *head, int64_t size) {
    int in_quotes = 0, semicolons = 0, tabs = 0;
    for (int64_t i = 0; i < size; i++) {
        in_quotes ^= head[i] == '"';
        if (in_quotes) continue;
        if (head[i] == ',') return ',';
        semicolons += head[i] == ';';
        tabs += head[i] == '\t';
        if ((head[i] == '\n' || head[i] == '\r') && i > 0 && head[i - 1] != '\n' && head[i - 1] != '\r')
            break;
    }
    return (char)(semicolons ? ';' : tabs ? '\t' : ',');
}

km_status km_text_check(const unsigned char *head, int64_t size, const char *file, km_error *err) {
    if (size == 0) return km_fail(err, KM_ERROR_DATA, "%s is empty", file);
    int is_utf16 =
        size >= 2 && ((head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff));
    if (is_utf16) return km_fail(err, KM_ERROR_DATA, "%s is UTF-16 text; save it as UTF-8", file);
    if (memchr(head, 0, (size_t)size))
        return km_fail(err, KM_ERROR_DATA,
                       "%s is no text: it has zero bytes; name its format: npy, npz, f32 or f64", file);
    return KM_OK;
}

static km_status parse_all(text *t, km_unpacker *unpacker, unsigned char *chunk) {
    km_status status;
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL | CSV_REPALL_NL) != 0)
        return km_fail_memory(t->err, "reading text", 0);
    csv_set_delim(&parser, (unsigned char)t->delimiter);
    t->mark_size = t->head_size >= 3 && memcmp(t->head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    KM_TRY_GOTO(feed(t, &parser, t->head + t->mark_size, t->head_size - t->mark_size));
    int64_t looked = 0; // rows when the free memory was checked last
    for (int64_t got = t->head_size == HEAD_BYTES; got > 0;) {
        KM_TRY_GOTO(km_unpacker_read(&got, chunk, CHUNK_BYTES, unpacker, t->err));
        KM_TRY_GOTO(feed(t, &parser, chunk, got));
        if ((t->table->rows - looked) * t->picks_count * 4 < KM_HOST_LOOK_BYTES) continue;
        looked = t->table->rows;
        KM_TRY_GOTO(km_host_check("more of the table of a text file", 2 * KM_HOST_LOOK_BYTES, t->err));
    }
    KM_TRY_GOTO(finish(t, &parser));
done:
    csv_free(&parser);
    return status;
}

static void text_clear(text *t) {
    for (int64_t i = 0; i < t->first_row_capacity; i++) free(t->first_row[i]);
    free(t->first_row);
    free(t->picks);
    free(t->places);
    free(t->values);
}

static km_status text_open(km_table *table, km_input *input, const km_data_params *params, char delimiter,
                           km_error *err) {
    km_status status;
    text t = {.file = input->name,
              .params = params,
              .table = table,
              .err = err,
              .line = input->line ? input->line : 1};
    km_unpacker *unpacker = NULL;
    unsigned char *buffer = malloc(HEAD_BYTES + CHUNK_BYTES);
    if (!buffer) return km_fail_memory(err, "reading text", HEAD_BYTES + CHUNK_BYTES);
    KM_TRY_GOTO(km_unpacker_create(&unpacker, input, err));
    KM_TRY_GOTO(km_unpacker_read(&t.head_size, buffer, HEAD_BYTES, unpacker, err));
    KM_TRY_GOTO(km_text_check(buffer, t.head_size, input->name, err));
    t.head = buffer;
    t.delimiter = (char)(delimiter ? delimiter : km_text_separator(t.head, t.head_size));
    table->separator = t.delimiter;
    KM_TRY_GOTO(parse_all(&t, unpacker, buffer + HEAD_BYTES));
done:
    km_unpacker_destroy(&unpacker);
    free(buffer);
    text_clear(&t);
    return status;
}

km_status km_csv_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    return text_open(table, input, params, 0, err);
}

km_status km_tsv_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    return text_open(table, input, params, '\t', err);
}

// Text has no control characters, packed text the mark of gzip.
int km_text_sniff(const km_input *input) {
    if (km_input_is_gzip(input)) return 1;
    for (int64_t i = 0; i < input->head_size; i++) {
        unsigned char byte = input->head[i];
        if (byte == 127 || (byte < 32 && byte != '\n' && byte != '\r' && byte != '\t')) return 0;
    }
    return 1;
}

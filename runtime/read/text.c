// SPDX-License-Identifier: MIT
// CSV and the like: cells separated by commas, semicolons or tabs. The first megabyte says what the columns are.
#include "text.h"
#include "../../base/clock.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../../base/text.h"
#include "../../gen/spec_fields.h"
#include "../memory.h"
#include "../names.h"
#include "../threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What is looked at first: a megabyte; of wide tables as much as so many rows take, up to HEAD_BYTES_MAX, but two rows.
enum { HEAD_BYTES = 1 << 20, HEAD_BYTES_MAX = 64 << 20, HEAD_ROWS = 64 };

const char *km_parse_name(const km_parse *p, int64_t column) {
    return p->has_header && p->params->header != KM_HEADER_SKIP ? p->first_row[column] : NULL;
}

// Columns are chosen by params->names.
static int by_names(const km_parse *p) {
    return p->params->names && p->has_header && p->params->header != KM_HEADER_SKIP;
}

// Refusals ---------------------------------------------------------------------------------------------------

// Row and column of a cell.
static const char *place_of(char place[KM_PLACE_SIZE], const km_parse *p, int64_t line, int64_t column) {
    int has_name = p->has_header && column < p->columns_count;
    return km_place_write(place, line, column + 1, has_name ? p->first_row[column] : NULL);
}

km_status km_parse_refuse(const km_parse *p, km_record_state record, const km_cells *cells, km_error *err) {
    char place[KM_PLACE_SIZE];
    place_of(place, p, cells->first_line, cells->count);
    switch (record) {
    case KM_RECORD_MISQUOTED:
        return km_fail(
            err, KM_ERROR_DATA,
            "%s: %s: a quote is out of place; quote a whole cell, and write a quote inside it twice", p->file,
            place);
    case KM_RECORD_UNCLOSED:
        return km_fail(err, KM_ERROR_DATA, "%s: %s: a quote is opened and never closed", p->file, place);
    case KM_RECORD_TOO_WIDE:
        return km_fail(err, KM_ERROR_DATA,
                       "%s: row %" PRId64 " has more than the %d cells that are read; are rows and columns "
                       "exchanged?",
                       p->file, cells->first_line, KM_CELLS_MAX);
    default:
        return km_fail_memory(err, "a row of text", (int64_t)sizeof(km_cell) * cells->capacity);
    }
}

// A number but for spaces, signs of currency or percent, and what separates thousands.
static int is_number_within(const char *cell, const char *left_out) {
    char copy[64];
    size_t size = 0, digits = 0;
    double value;
    for (; *cell && size < sizeof copy - 1; cell++) {
        if (strchr(left_out, *cell) || (unsigned char)*cell >= 128) continue;
        digits += *cell >= '0' && *cell <= '9';
        copy[size++] = *cell;
    }
    copy[size] = 0;
    return digits > 0 && km_number_parse(&value, copy, (int64_t)size);
}

// Commas, points, spaces or apostrophes before each three digits, and at most one other mark for decimals.
static int has_thousands(const char *cell) {
    int groups = 0;
    for (const char *at = cell; *at; at++) {
        if (!strchr(",.' ", *at) || at == cell) continue;
        size_t digits = strspn(at + 1, "0123456789");
        groups += digits == 3 && at[-1] >= '0' && at[-1] <= '9';
    }
    size_t marks = 0;
    for (const char *at = cell; *at; at++) marks += strchr(",.' ", *at) != NULL;
    return groups > 0 && (marks > 1 || strpbrk(cell, "' ")) && is_number_within(cell, ",.' ");
}

// A copy in which spaces that do not break (U+00A0, U+202F) are plain ones.
static void plain_spaces(char *out, size_t size, const char *cell) {
    static const char *const spaces[] = {"\xc2\xa0", "\xe2\x80\xaf"};
    size_t count = 0;
    while (*cell && count < size - 1) {
        size_t skipped = 0;
        for (int i = 0; i < 2 && !skipped; i++)
            if (strncmp(cell, spaces[i], strlen(spaces[i])) == 0) skipped = strlen(spaces[i]);
        out[count] = *cell;
        if (skipped) out[count] = ' ';
        count++;
        cell += skipped ? skipped : 1;
    }
    out[count] = 0;
}

const char *km_parse_mark_advice(const char *text, char decimal) {
    char cell[64];
    plain_spaces(cell, sizeof cell, text);
    static const char *const currencies[] = {"\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5", "$", "EUR",
                                             "USD",          "CHF",      "GBP",      NULL};
    for (int i = 0; currencies[i]; i++)
        if (strstr(cell, currencies[i]) && is_number_within(cell, "$ EURUSDCHFGBP,.'"))
            return "write the number without its currency";
    if (strchr(cell, '%') && is_number_within(cell, "% ,")) return "write the number without %";
    if (has_thousands(cell)) return "write numbers without a mark between thousands";
    if (decimal == ',' && strchr(cell, '.') && is_number_within(cell, ""))
        return "decimals have a comma here: write it so (a point between thousands must go), or give "
               "--decimal .";
    if (decimal == '.' && strchr(cell, ',') && is_number_within(cell, ","))
        return "write decimals with a point, or give --decimal , (a comma between thousands must go)";
    return NULL;
}

// What may be done about a cell that is no number. `word`: as a message shows it.
static void way_out_of(char *out, size_t size, const km_parse *p, const char *cell, const char *word,
                       int64_t column) {
    char column_word[KM_ADVICE_SIZE];
    const char *mark = km_parse_mark_advice(cell, p->spelling.decimal);
    km_columns_advise(column_word, p->has_header ? p->first_row : NULL, &column, 1);
    if (mark)
        snprintf(out, size, "%s", mark);
    else if (strchr(cell, ' ') && is_number_within(cell, " "))
        snprintf(out, size, "write the number without spaces");
    else if (km_kind_of(&p->scan.columns[column], NULL) == KM_COLUMN_NUMBER &&
             !cell[strcspn(cell, ",'\"\r\n")])
        snprintf(out, size, "correct it, or give --na-values %s where it means that a value is missing%s%s",
                 word, p->params->names ? "" : ", or leave the column out: --exclude ",
                 p->params->names ? "" : column_word);
    else
        snprintf(out, size, "correct it");
}

// Columns of numbers alone in the first megabyte, but for `bad`, as a --columns; "" where there are none.
static void advise(char advice[KM_ADVICE_SIZE], const km_parse *p, int64_t bad) {
    int64_t *kept = malloc((size_t)p->slots_count * sizeof *kept + 1), count = 0;
    *advice = 0;
    if (!kept) return;
    for (int64_t s = 0; s < p->slots_count; s++) {
        int64_t column = p->slots[s].column;
        const km_seen *seen = &p->scan.columns[column];
        int is_number = seen->numbers > 0 && seen->numbers + seen->missing == seen->cells;
        if (is_number && column != bad && km_kind_of(seen, km_parse_name(p, column)) == KM_COLUMN_NUMBER)
            kept[count++] = column;
    }
    km_columns_advise(advice, p->has_header ? p->first_row : NULL, kept, count);
    free(kept);
}

// Those of some columns (NULL: of all) that are of one of two kinds in the first megabyte, as a list that a user can
// copy; "" where there are none.
static void list_kinds(char list[KM_ADVICE_SIZE], const km_parse *p, const int64_t *of, int64_t of_count,
                       km_column_kind kind, km_column_kind other) {
    int64_t *kept = malloc((size_t)of_count * sizeof *kept + 1), count = 0;
    *list = 0;
    if (!kept) return;
    for (int64_t i = 0; i < of_count; i++) {
        int64_t column = of ? of[i] : i;
        km_column_kind own = km_kind_of(&p->scan.columns[column], km_parse_name(p, column));
        if (own == kind || own == other) kept[count++] = column;
    }
    km_columns_advise(list, p->has_header ? p->first_row : NULL, kept, count);
    free(kept);
}

// What else of some columns may become features where none of numbers is left.
static void other_ways(char *out, size_t size, const km_parse *p, const int64_t *of, int64_t of_count) {
    char list[KM_ADVICE_SIZE];
    if (!p->has_header) {
        snprintf(out, size,
                 "name its columns by a header, without which yes/no, dates and categories do not count");
        return;
    }
    list_kinds(list, p, of, of_count, KM_COLUMN_YES_NO, KM_COLUMN_DATE);
    if (*list) {
        snprintf(out, size, "take yes/no as 1 and 0, dates as days: --columns %s", list);
        return;
    }
    list_kinds(list, p, of, of_count, KM_COLUMN_CATEGORY, KM_COLUMN_CATEGORY);
    if (*list)
        snprintf(out, size, "make a feature of each category: --one-hot %s", list);
    else
        snprintf(out, size, "add one");
}

static int has_spaces_between(const km_parse *p, const char *cell) {
    const char *space = strpbrk(cell, " ");
    return p->columns_count == 1 && space && cell[strcspn(cell, "0123456789")] &&
           space[strcspn(space, "0123456789")];
}

// ", make ... by --one-hot NAME" of a column of categories, else "".
static void one_hot_way(char *out, size_t size, const km_parse *p, int64_t column) {
    char list[KM_ADVICE_SIZE];
    const km_seen *seen = &p->scan.columns[column];
    *out = 0;
    if (!p->has_header || 2 * seen->different.count > seen->cells - seen->missing) return;
    list_kinds(list, p, &column, 1, KM_COLUMN_CATEGORY, KM_COLUMN_CATEGORY);
    if (*list) snprintf(out, size, ", or make a feature of each of its categories by --one-hot %s", list);
}

// Refuses a cell of column `column` that is not what the column should hold, in the words of a message.
static km_status refuse_word(const km_parse *p, const char *cell, const char *place, int64_t column,
                             km_error *err) {
    char advice[KM_ADVICE_SIZE], got[KM_QUOTED_SIZE], way_out[2 * KM_ADVICE_SIZE];
    km_quoted(got, cell);
    if (has_spaces_between(p, cell))
        return km_fail(err, KM_ERROR_DATA,
                       "%s: %s: %s is no number; cells must be separated by commas, semicolons or tabs",
                       p->file, place, got);
    way_out_of(way_out, sizeof way_out, p, cell, got, column);
    if (strcmp(way_out, "correct it") != 0)
        return km_fail(err, KM_ERROR_DATA, "%s: %s: %s is no number; %s", p->file, place, got, way_out);
    if (p->params->names) // which other columns would do, only the user knows
        return km_fail(err, KM_ERROR_DATA, "%s: %s: %s is no number; correct it%s", p->file, place, got,
                       by_names(p) ? ""
                                   : ", or choose the columns that are needed, in their order: --columns");
    advise(advice, p, column);
    one_hot_way(way_out, sizeof way_out, p, column);
    return km_fail(err, KM_ERROR_DATA, "%s: %s: %s is no number; correct it%s%s%s%s", p->file, place, got,
                   way_out, *advice ? ", or keep the columns of numbers: --columns " : "", advice,
                   *advice || *way_out ? "" : "; no column holds numbers alone");
}

km_status km_parse_bad_cell(const km_parse *p, int64_t slot, const km_cells *cells, km_error *err) {
    const km_slot *s = &p->slots[slot];
    const km_cell *cell = &cells->cells[s->column];
    char got[KM_QUOTED_SIZE], place[KM_PLACE_SIZE];
    if (!err) return KM_ERROR_DATA;
    char *text = strndup(cell->text, (size_t)cell->size);
    if (!text) return km_fail_memory(err, "a cell", cell->size);
    place_of(place, p, cells->first_line, s->column);
    km_status status;
    double value;
    if (s->kind == KM_COLUMN_NUMBER && km_cell_number(&value, cell, &p->spelling) != KM_CELL_WRONG)
        status =
            km_fail(err, KM_ERROR_DATA, "%s: %s: %s is too large for %s", p->file, place,
                    km_quoted(got, text), p->params->type == KM_FLOAT32 ? "float32; use float64" : "float64");
    else if (s->kind == KM_COLUMN_YES_NO)
        status = km_fail(err, KM_ERROR_DATA,
                         "%s: %s: %s is neither yes nor no, as the column's other cells are; "
                         "correct it",
                         p->file, place, km_quoted(got, text));
    else if (s->kind == KM_COLUMN_DATE)
        status = km_fail(err, KM_ERROR_DATA, "%s: %s: %s is no date; write 2024-01-31 or 31.1.2024", p->file,
                         place, km_quoted(got, text));
    else
        status = refuse_word(p, text, place, s->column, err);
    free(text);
    return status;
}

// First row --------------------------------------------------------------------------------------------------

static km_status save_first_row(km_parse *p, const km_cells *cells) {
    p->first_row = calloc((size_t)cells->count + 1, sizeof *p->first_row);
    if (!p->first_row) return km_fail_memory(p->err, "the first row", cells->count * (int64_t)sizeof(char *));
    p->columns_count = cells->count;
    p->first_line = cells->first_line;
    for (int64_t f = 0; f < cells->count; f++) {
        p->first_row[f] = strndup(cells->cells[f].text, (size_t)cells->cells[f].size);
        if (!p->first_row[f]) return km_fail_memory(p->err, "the first row", cells->cells[f].size);
    }
    return KM_OK;
}

// Whether the first row's cell of a column names it: 1, or does not: -1; 0: it does not say.
static int names_column(const km_parse *p, int64_t column) {
    const km_seen *seen = &p->scan.columns[column];
    const char *text = p->first_row[column];
    km_cell cell = {text, (int64_t)strlen(text)};
    double value;
    if (cell.size == 0 || km_cell_number(&value, &cell, &p->spelling) != KM_CELL_WRONG) return 0;
    km_column_kind kind = km_kind_of(seen, NULL);
    if (kind == KM_COLUMN_NUMBER) return 1;
    if (kind == KM_COLUMN_DATE) return km_cell_date(&value, &cell, &p->spelling) == KM_CELL_WRONG ? 1 : -1;
    return km_dict_find(&seen->different, text, cell.size) >= 0 ? -1 : 0;
}

// A header has words where numbers would be: in a column of numbers, or, where every such column begins with one, in
// one of text in which the word does not come again. Only the columns that are kept count.
static int looks_like_header(const km_parse *p, const int64_t *picks, int64_t count) {
    int says_no = 0, has_words = 0;
    double value;
    for (int64_t i = 0; i < count; i++) {
        km_cell cell = {p->first_row[picks[i]], (int64_t)strlen(p->first_row[picks[i]])};
        int says = names_column(p, picks[i]);
        if (says > 0) return 1;
        says_no |= says < 0;
        has_words |= cell.size && km_cell_number(&value, &cell, &p->spelling) == KM_CELL_WRONG;
    }
    return has_words && !says_no;
}

static const char *way_out_of_names(const km_parse *p, int64_t picks_count) {
    if (picks_count == p->params->names_count)
        return "rename the columns that hold them, or let columns count by position: --header skip, or "
               "--header "
               "no where the first line holds data";
    return "add them, rename the columns that hold them, or choose columns by position: --header skip "
           "--columns "
           "LIST, or --header no --columns LIST where the first line holds data";
}

// Of the columns `picks`, those with the names that are wanted: columns of the file, in the order wanted.
static km_status match_names(int64_t **out, const km_parse *p, const char *const *wanted,
                             int64_t wanted_count, const int64_t *picks, int64_t count, km_error *err) {
    km_status status;
    const char **names = malloc((size_t)count * sizeof *names + 1);
    int64_t *numbers = malloc((size_t)count * sizeof *numbers + 1);
    int64_t *found = *out = malloc((size_t)wanted_count * sizeof *found + 1);
    if (!names || !numbers || !found)
        KM_TRY_GOTO(km_fail_memory(err, "columns", (count + wanted_count) * 16));
    for (int64_t i = 0; i < count; i++) {
        names[i] = p->first_row[picks[i]];
        numbers[i] = picks[i] + 1;
    }
    km_named named = {p->file, names, numbers, count, way_out_of_names(p, count)};
    KM_TRY_GOTO(km_names_match(found, wanted, wanted_count, &named, err));
    for (int64_t i = 0; i < wanted_count; i++) found[i] = picks[found[i]];
done:
    free((void *)names);
    free(numbers);
    if (status == KM_OK) return status;
    free(found);
    *out = NULL;
    return status;
}

// The names that are needed: those of columns, each once, in the order in which features need them.
static km_status wanted_names(const char ***out, int64_t *count, const km_parse *p) {
    const km_data_params *params = p->params;
    *count = 0;
    const char **names = *out = malloc((size_t)params->names_count * sizeof *names + 1);
    if (!names) return km_fail_memory(p->err, "columns", params->names_count * (int64_t)sizeof *names);
    for (int64_t i = 0; i < params->names_count; i++) {
        const char *name = params->prepared ? params->prepared[i].column : params->names[i];
        int is_same = params->prepared && params->prepared[i].category && i > 0 &&
                      params->prepared[i - 1].category && strcmp(params->prepared[i - 1].column, name) == 0;
        if (!is_same) names[(*count)++] = name;
    }
    return KM_OK;
}

// Whether the first row's cells are whole numbers that rise by one, from *low on: 0, 1, 2, ..., as programs write them
// that have no names, or years. The first cell may be empty, above the numbers of the rows.
static int counts_up(int64_t *low, const km_parse *p) {
    int64_t number, begin = !*p->first_row[0];
    for (int64_t f = begin; f < p->columns_count; f++) {
        const char *cell = p->first_row[f];
        if (!*cell || cell[strspn(cell, "0123456789")] || !km_integer_parse(&number, cell)) return 0;
        if (f == begin) *low = number;
        if (number - *low != f - begin) return 0;
    }
    return p->columns_count > 1;
}

// Numbers that name the columns: rows do not go on like them, as every other number of a column has a point, or its
// cells are words; or the first column numbers the rows.
static int holds_numbers_as_names(const km_parse *p) {
    enum { ROWS_MIN = 3 };
    int64_t low, others = 0, begin = !*p->first_row[0], count = p->columns_count - begin;
    if (p->scan.rows < ROWS_MIN || !counts_up(&low, p)) return 0;
    const km_seen *first = &p->scan.columns[0];
    if (begin && low == 0 && first->whole == first->cells && !first->is_falling) return 1;
    for (int64_t f = begin; f < p->columns_count; f++) {
        const km_seen *seen = &p->scan.columns[f];
        others += seen->digits == 0 && seen->cells > seen->missing;
    }
    return others == count || (others && count > 2);
}

int km_parse_may_hold_names(const km_parse *p) {
    int64_t low;
    int is_said = p->has_header || p->params->header != KM_HEADER_AUTO;
    return !is_said && p->columns_count > 2 && counts_up(&low, p) && low <= 1;
}

// A first row that holds the names that are needed is a header too, even one of numbers.
static int find_header(const km_parse *p, const int64_t *picks, int64_t count) {
    int64_t *found = NULL, wanted_count;
    const char **wanted = NULL;
    if (p->params->header != KM_HEADER_AUTO) return p->params->header != KM_HEADER_NO;
    if (looks_like_header(p, picks, count) || holds_numbers_as_names(p)) return 1;
    if (!p->params->names || wanted_names(&wanted, &wanted_count, p) != KM_OK) return 0;
    int holds_names = match_names(&found, p, wanted, wanted_count, picks, count, NULL) == KM_OK;
    free(found);
    free((void *)wanted);
    return holds_names;
}

// Columns ----------------------------------------------------------------------------------------------------

// Marks the columns that an option names.
static km_status mark(unsigned char **out, const km_parse *p, char *const *names, const char *option,
                      const char *columns) {
    int64_t *picks = NULL, count = 0;
    *out = calloc((size_t)p->columns_count + 1, 1);
    if (!*out) return km_fail_memory(p->err, "columns", p->columns_count);
    if (!columns) return KM_OK;
    KM_TRY(km_columns_parse(&picks, &count, option, columns, p->file, names, p->columns_count, NULL, p->err));
    for (int64_t i = 0; i < count; i++) (*out)[picks[i]] = 1;
    free(picks);
    return KM_OK;
}

// The columns that --columns and --exclude leave, by names (NULL: there are none) and numbers.
static km_status pick(int64_t **picks, int64_t *count, const km_parse *p, char *const *names) {
    const km_data_params *params = p->params;
    unsigned char *excluded = NULL;
    km_status status;
    *picks = NULL;
    if (params->columns) {
        KM_TRY_GOTO(km_columns_parse(picks, count, "--columns", params->columns, p->file, names,
                                     p->columns_count, NULL, p->err));
    } else {
        *count = p->columns_count;
        *picks = malloc((size_t)*count * sizeof **picks + 1);
        if (!*picks) return km_fail_memory(p->err, "columns", *count * (int64_t)sizeof **picks);
        for (int64_t f = 0; f < *count; f++) (*picks)[f] = f;
    }
    KM_TRY_GOTO(mark(&excluded, p, names, "--exclude", params->exclude));
    int64_t kept = 0;
    for (int64_t i = 0; i < *count; i++)
        if (!excluded[(*picks)[i]]) (*picks)[kept++] = (*picks)[i];
    *count = kept;
    if (!kept)
        status =
            km_fail(p->err, KM_ERROR_USAGE, "--exclude %s leaves no column of %s", params->exclude, p->file);
done:
    free(excluded);
    return status;
}

static km_status slot_add(km_parse *p, int64_t column, km_column_kind kind) {
    if (!p->slots) p->slots = calloc((size_t)p->columns_count + 1, sizeof *p->slots);
    if (!p->slots) return km_fail_memory(p->err, "columns", p->columns_count * (int64_t)sizeof *p->slots);
    p->slots[p->slots_count++] = (km_slot){.column = column, .kind = kind};
    return KM_OK;
}

// The slot of the weights, in the column that is marked; none where none is.
static km_status add_weights(km_parse *p, const unsigned char *marked) {
    for (int64_t f = 0; f < p->columns_count; f++) {
        if (!marked[f]) continue;
        KM_TRY(slot_add(p, f, KM_COLUMN_NUMBER));
        p->slots[p->slots_count - 1].is_weight = 1;
    }
    return KM_OK;
}

// Slots for the features of a model, or of the file that this one follows.
static km_status choose_prepared(km_parse *p, const int64_t *picks, int64_t count) {
    const km_data_params *params = p->params;
    const char **wanted = NULL;
    unsigned char *weights = NULL;
    int64_t *found = NULL, wanted_count, at = 0;
    km_status status;
    KM_TRY_GOTO(wanted_names(&wanted, &wanted_count, p));
    KM_TRY_GOTO(match_names(&found, p, wanted, wanted_count, picks, count, p->err));
    for (int64_t i = 0; i < wanted_count; i++) {
        const km_feature *feature = params->prepared ? &params->prepared[at] : NULL;
        KM_TRY_GOTO(slot_add(p, found[i], feature ? feature->kind : KM_COLUMN_NUMBER));
        km_slot *slot = &p->slots[p->slots_count - 1];
        slot->is_given = feature && feature->category;
        at += !slot->is_given;
        for (; slot->is_given && at < params->names_count; at++) {
            feature = &params->prepared[at];
            if (!feature->category || strcmp(feature->column, wanted[i]) != 0) break;
            if (km_dict_add(&slot->categories, feature->category, (int64_t)strlen(feature->category),
                            KM_CATEGORIES_MAX) < 0)
                KM_TRY_GOTO(km_fail_memory(p->err, "categories", KM_CATEGORIES_MAX));
        }
    }
    KM_TRY_GOTO(
        mark(&weights, p, p->has_header ? p->first_row : NULL, "--weights-column", params->weights_column));
    KM_TRY_GOTO(add_weights(p, weights));
done:
    free(weights);
    free((void *)wanted);
    free(found);
    return status;
}

// Cells that only a model which knows their column's name can make values of again.
static km_status needs_name(const km_parse *p, int64_t column, km_column_kind kind) {
    if (km_parse_name(p, column)) return KM_OK;
    return km_fail(p->err, KM_ERROR_USAGE,
                   "%s: column %" PRId64
                   " holds %s, and becomes numbers only where a header names it; write a "
                   "header",
                   p->file, column + 1, kind == KM_COLUMN_CATEGORY ? "categories" : km_kind_name(kind));
}

// What is done with a column that is not chosen by a model's names; *kind is not changed where it is left out.
static int is_kept(km_column_kind *kind, const km_parse *p, int64_t column) {
    const char *name = km_parse_name(p, column);
    km_column_kind of_cells = km_kind_of(&p->scan.columns[column], name);
    if (p->params->columns) { // what the user named is taken as what it is
        if (of_cells == KM_COLUMN_YES_NO || of_cells == KM_COLUMN_DATE) *kind = of_cells;
        return 1;
    }
    int may_be_number = of_cells == KM_COLUMN_EMPTY && !(name && km_name_is_id(name)); // what comes says it
    return !p->params->numbers_only || of_cells == KM_COLUMN_NUMBER || may_be_number;
}

// What seems to separate the cells of a text of one column; NULL: nothing does.
static const char *other_separator(const km_parse *p) {
    const char *first = p->first_row[0];
    const km_seen *seen = &p->scan.columns[0];
    if (p->columns_count != 1) return NULL;
    if (strchr(first, '|')) return "|";
    int is_text = km_kind_of(seen, NULL) == KM_COLUMN_TEXT; // "size 5" may be a category
    return is_text && strchr(first, ' ') && strpbrk(seen->wrong, "0123456789") ? "spaces" : NULL;
}

// What may be done about the first of these columns whose cells are numbers but for a mark; NULL: there is none.
static const char *marked_column(int64_t *column, const km_parse *p, const int64_t *picks, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const km_seen *seen = &p->scan.columns[ *column = picks[i]];
        km_column_kind kind = km_kind_of(seen, NULL);
        const char *advice = km_parse_mark_advice(seen->wrong, p->spelling.decimal);
        if (advice && (kind == KM_COLUMN_TEXT || kind == KM_COLUMN_CATEGORY)) return advice;
    }
    return NULL;
}

// None of these columns is a feature by itself.
static km_status refuse_all(const km_parse *p, const int64_t *picks, int64_t count) {
    const km_data_params *params = p->params;
    char way_out[2 * KM_ADVICE_SIZE], ids[KM_ADVICE_SIZE];
    const char *separator = other_separator(p);
    if (separator)
        return km_fail(
            p->err, KM_ERROR_DATA,
            "%s has no column of numbers: its cells seem to be separated by %s; commas, semicolons or tabs "
            "are read: tr%s '%s' , <FILE",
            p->file, separator, *separator == '|' ? "" : " -s", *separator == '|' ? "|" : " ");
    int64_t column;
    const char *advice = marked_column(&column, p, picks, count);
    if (advice) {
        char place[KM_PLACE_SIZE], got[KM_QUOTED_SIZE];
        const km_seen *seen = &p->scan.columns[column];
        return km_fail(p->err, KM_ERROR_DATA, "%s has no column of numbers: %s holds %s; %s", p->file,
                       place_of(place, p, seen->wrong_line, column), km_quoted(got, seen->wrong), advice);
    }
    list_kinds(ids, p, picks, count, KM_COLUMN_ID, KM_COLUMN_ID);
    other_ways(way_out, sizeof way_out, p, picks, count);
    return km_fail(p->err, KM_ERROR_DATA,
                   "%s has no column of numbers%s%s; %s%s%s (kmgen data %s shows what the columns hold)",
                   p->file, *ids ? " that is no id" : "",
                   params->exclude || params->weights_column ? " besides those that options take away" : "",
                   way_out, *ids ? "; or use an id as a number: --columns " : "", ids, p->file);
}

static km_status choose_by_kind(km_parse *p, const int64_t *picks, int64_t count) {
    const km_data_params *params = p->params;
    unsigned char *one_hot = NULL, *weights = NULL;
    char *const *names = p->has_header ? p->first_row : NULL;
    int64_t open = 0;
    km_status status;
    KM_TRY_GOTO(mark(&one_hot, p, names, "--one-hot", params->one_hot));
    KM_TRY_GOTO(mark(&weights, p, names, "--weights-column", params->weights_column));
    for (int64_t f = 0, marked = 0; f < p->columns_count; f++) {
        marked += weights[f];
        if (marked > 1)
            KM_TRY_GOTO(km_fail(p->err, KM_ERROR_USAGE, "--weights-column is one column, and %s are several",
                                params->weights_column));
    }
    for (int64_t i = 0; i < count; i++) {
        km_column_kind kind = KM_COLUMN_NUMBER;
        if (weights[picks[i]]) continue;
        if (one_hot[picks[i]])
            kind = KM_COLUMN_CATEGORY;
        else if (!is_kept(&kind, p, picks[i]))
            continue;
        if (kind != KM_COLUMN_NUMBER) KM_TRY_GOTO(needs_name(p, picks[i], kind));
        KM_TRY_GOTO(slot_add(p, picks[i], kind));
        const km_seen *seen = &p->scan.columns[picks[i]];
        km_slot *slot = &p->slots[p->slots_count - 1];
        int may_go = params->numbers_only && !params->columns && !params->names && kind == KM_COLUMN_NUMBER;
        slot->is_watched = may_go && !seen->is_falling && seen->whole == seen->cells;
        slot->is_open = may_go && seen->missing == seen->cells;
        open += slot->is_open;
    }
    for (int64_t f = 0; params->one_hot && f < p->columns_count; f++) {
        int is_there = !one_hot[f];
        for (int64_t s = 0; s < p->slots_count; s++) is_there |= p->slots[s].column == f;
        if (is_there) continue;
        KM_TRY_GOTO(needs_name(p, f, KM_COLUMN_CATEGORY));
        KM_TRY_GOTO(slot_add(p, f, KM_COLUMN_CATEGORY));
    }
    if (p->slots_count == open) KM_TRY_GOTO(refuse_all(p, picks, count));
    if (p->table && p->slots_count - open > KM_FEATURES_DENSE_MAX) // NULL: a look at them
        KM_TRY_GOTO(km_fail(p->err, KM_ERROR_DATA,
                            "%s has %" PRId64
                            " columns to cluster, and at most %d are taken; choose some, as in "
                            "--columns 1..%d, or write what is mostly zeros as a sparse table",
                            p->file, p->slots_count, KM_FEATURES_DENSE_MAX, KM_FEATURES_DENSE_MAX));
    KM_TRY_GOTO(add_weights(p, weights));
done:
    free(one_hot);
    free(weights);
    return status;
}

static km_status scan_head(km_parse *p, const unsigned char *end, int is_whole);

// The decimal comma, where semicolons or tabs separate cells, and no number has a point but such as may stand between
// thousands. Behind tabs some comma must be one that does not stand there.
static km_status find_decimal(km_parse *p, const unsigned char *end) {
    int64_t commas = 0, points = 0;
    if (p->params->decimal || p->delimiter == ',') return KM_OK;
    for (int64_t f = 0; f < p->columns_count; f++) {
        const km_seen *seen = &p->scan.columns[f];
        commas += seen->commas - (p->delimiter == '\t' ? seen->grouped_commas : 0);
        points += seen->points - seen->grouped;
    }
    if (!commas || points) return KM_OK;
    p->spelling.decimal = ',';
    return scan_head(p, end, 1); // it had records before
}

km_status km_parse_header(km_parse *p) {
    int64_t *picks = NULL, count = 0;
    km_status status = pick(&picks, &count, p, p->params->header == KM_HEADER_NO ? NULL : p->first_row);
    if (status == KM_OK) p->has_header = find_header(p, picks, count);
    free(picks);
    if (status != KM_OK || p->has_header) return status;
    p->body_offset = p->mark_size; // what the first row holds are no names
    p->body_line = p->blocks.input->line ? p->blocks.input->line : 1;
    return KM_OK;
}

km_status km_parse_choose(km_parse *p) {
    int64_t *picks = NULL, count = 0;
    km_status status;
    KM_TRY(km_parse_header(p));
    KM_TRY_GOTO(pick(&picks, &count, p, p->has_header ? p->first_row : NULL));
    KM_TRY_GOTO(by_names(p) ? choose_prepared(p, picks, count) : choose_by_kind(p, picks, count));
done:
    free(picks);
    return status;
}

// Opening ----------------------------------------------------------------------------------------------------

// The separator that the first line uses outside of quotes: a comma where there is one, but for those that stand
// between digits in a line that has semicolons.
char km_text_separator(const unsigned char *head, int64_t size) {
    int in_quotes = 0, commas = 0, decimals = 0, semicolons = 0, tabs = 0;
    for (int64_t i = 0; i < size; i++) {
        in_quotes ^= head[i] == '"';
        if (in_quotes) continue;
        int is_between = i > 0 && i + 1 < size && head[i - 1] >= '0' && head[i - 1] <= '9' &&
                         head[i + 1] >= '0' && head[i + 1] <= '9';
        commas += head[i] == ',';
        decimals += head[i] == ',' && is_between;
        semicolons += head[i] == ';';
        tabs += head[i] == '\t';
        if ((head[i] == '\n' || head[i] == '\r') && i > 0 && head[i - 1] != '\n' && head[i - 1] != '\r')
            break;
    }
    if (commas > decimals || (commas && !semicolons && !tabs)) return ',';
    return (char)(semicolons ? ';' : tabs ? '\t' : ',');
}

km_status km_text_check(const unsigned char *head, int64_t size, const char *file, km_error *err) {
    if (size == 0) return km_fail(err, KM_ERROR_DATA, "%s is empty", file);
    int is_utf16 =
        size >= 2 && ((head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff));
    if (is_utf16)
        return km_fail(err, KM_ERROR_DATA,
                       "%s is UTF-16 text; save it as UTF-8: iconv -f UTF-16 -t UTF-8 <FILE", file);
    if (memchr(head, 0, (size_t)size))
        return km_fail(err, KM_ERROR_DATA,
                       "%s is no text: it has zero bytes; name its format: npy, npz, f32 or f64", file);
    return KM_OK;
}

// Reads the first record and looks at those behind it, up to `end`, which is the file's where it `is_whole`.
static km_status scan_head(km_parse *p, const unsigned char *end, int is_whole) {
    km_cells cells = {.at = p->blocks.buffer + p->mark_size,
                      .end = end,
                      .delimiter = (unsigned char)p->delimiter,
                      .line = p->blocks.input->line ? p->blocks.input->line : 1};
    km_status status = KM_OK;
    km_record_state record = km_cells_next(&cells);
    if (record != KM_RECORD_READ && record != KM_RECORD_END)
        KM_TRY_GOTO(km_parse_refuse(p, record, &cells, p->err));
    if (record == KM_RECORD_END)
        KM_TRY_GOTO(km_fail(p->err, KM_ERROR_DATA,
                            is_whole
                                ? "%s has no rows"
                                : "%s begins with more than a MiB of blank lines; leave them out, e.g. by "
                                  "sed '/[^[:space:]]/,$!d'",
                            p->file));
    if (!p->first_row) KM_TRY_GOTO(save_first_row(p, &cells));
    p->body_offset = cells.at - p->blocks.buffer;
    p->body_line = cells.line;
    km_scan_free(&p->scan);
    KM_TRY_GOTO(km_scan_init(&p->scan, p->columns_count, p->err));
    // What is wrong with a record is said when rows are parsed.
    while (km_cells_next(&cells) == KM_RECORD_READ)
        KM_TRY_GOTO(km_scan_add(&p->scan, &cells, &p->spelling, p->err));
done:
    km_cells_free(&cells);
    return status;
}

static km_status read_head(km_parse *p) {
    km_blocks *blocks = &p->blocks;
    km_batch batch;
    for (int64_t bytes = HEAD_BYTES;; bytes *= 2) {
        while (blocks->capacity < bytes && !blocks->is_last) KM_TRY(km_blocks_grow(blocks, p->err));
        KM_TRY(km_blocks_next(&batch, blocks, p->err));
        blocks->taken = 0; // it comes again
        const unsigned char *begin = blocks->buffer, *end = batch.starts[batch.count];
        if (end - begin > bytes) end = km_cells_cut(begin, begin + bytes);
        int is_whole = blocks->is_last && end == begin + blocks->size;
        if (!end) continue;
        KM_TRY(scan_head(p, end, is_whole));
        int64_t rows = p->scan.rows;
        if (is_whole || rows >= HEAD_ROWS || (rows >= 2 && bytes >= HEAD_BYTES_MAX))
            return find_decimal(p, end);
    }
}

km_data_params km_parse_plain(const km_data_params *params) {
    km_data_params plain;
    km_data_params_init(&plain);
    plain.header = params->header;
    plain.na_values = params->na_values;
    plain.decimal = params->decimal;
    plain.threads = 1;
    return plain;
}

km_status km_parse_open(km_parse *p, km_input *input, const km_data_params *params, char delimiter,
                        km_error *err) {
    *p = (km_parse){.file = input->name, .params = params, .err = err, .begin_ms = km_now_ms()};
    int64_t threads = km_host_threads(params->threads);
    KM_TRY(km_spelling_init(&p->spelling, params->na_values, params->decimal, err));
    KM_TRY(km_blocks_open(&p->blocks, input, 8 * threads, err));
    KM_TRY(km_blocks_fill(&p->blocks, HEAD_BYTES, err));
    KM_TRY(km_text_check(p->blocks.buffer, km_min(p->blocks.size, HEAD_BYTES), input->name, err));
    p->mark_size = p->blocks.size >= 3 && memcmp(p->blocks.buffer, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (!delimiter)
        delimiter = km_text_separator(p->blocks.buffer + p->mark_size,
                                      km_min(p->blocks.size, HEAD_BYTES) - p->mark_size);
    p->delimiter = delimiter;
    return read_head(p);
}

void km_parse_close(km_parse *p) {
    for (int64_t f = 0; p->first_row && f < p->columns_count; f++) free(p->first_row[f]);
    for (int64_t s = 0; s < p->slots_count; s++) km_dict_free(&p->slots[s].categories);
    free(p->first_row);
    free(p->slots);
    km_growing_free(&p->grown);
    km_scan_free(&p->scan);
    km_spelling_free(&p->spelling);
    km_blocks_close(&p->blocks);
}

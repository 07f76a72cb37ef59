// SPDX-License-Identifier: MIT
// What the columns of a file hold: of text by its cells, of other tables by their values.
#include "../../base/size.h"
#include "../../base/text.h"
#include "../json.h"
#include "../memory.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct km_columns {
    char *file;
    km_column *columns;
    int64_t count, rows;
};

void km_columns_destroy(km_columns **columns) {
    if (!columns || !*columns) return;
    for (int64_t f = 0; f < (*columns)->count; f++) free((char *)(*columns)->columns[f].name);
    free((*columns)->columns);
    free((*columns)->file);
    free(*columns);
    *columns = NULL;
}

int64_t km_columns_count(const km_columns *columns) {
    return columns->count;
}

int64_t km_columns_rows(const km_columns *columns) {
    return columns->rows;
}

const km_column *km_columns_get(const km_columns *columns, int64_t column) {
    return &columns->columns[column];
}

static km_status create(km_columns **out, const char *file, int64_t count, km_error *err) {
    km_columns *columns = *out = calloc(1, sizeof *columns);
    if (!columns) return km_fail_memory(err, "columns", (int64_t)sizeof *columns);
    columns->file = strdup(file);
    columns->columns = calloc((size_t)count + 1, sizeof *columns->columns);
    columns->count = columns->columns ? count : 0;
    if (columns->file && columns->columns) return KM_OK;
    return km_fail_memory(err, "columns", count * (int64_t)sizeof *columns->columns);
}

// Text -------------------------------------------------------------------------------------------------------

// Numbers that rise by whole steps through all rows: fewer prove nothing.
enum { RISING_ROWS_MIN = 16 };

static km_column_kind kind_of(const km_seen *head, const km_seen *all, const char *name) {
    km_column_kind kind = km_kind_of(head, name);
    int64_t there = all->cells - all->missing;
    if (there == 0) return KM_COLUMN_EMPTY;
    // A column that begins with nothing is one of numbers only where all that comes are some.
    if (kind == KM_COLUMN_EMPTY && all->numbers < there && 2 * all->numbers >= there) return KM_COLUMN_TEXT;
    if (kind == KM_COLUMN_EMPTY || kind == KM_COLUMN_CATEGORY || kind == KM_COLUMN_TEXT)
        kind = km_kind_of(all, name);
    if (kind == KM_COLUMN_CATEGORY && all->different.count == 1 && !all->numbers && !all->missing)
        return KM_COLUMN_CONSTANT;
    if (kind != KM_COLUMN_NUMBER || all->numbers != all->cells) return kind;
    if (all->low == all->high) return KM_COLUMN_CONSTANT;
    int is_rising = all->whole == all->cells && !all->is_falling && all->cells >= RISING_ROWS_MIN;
    return is_rising ? KM_COLUMN_ID : kind;
}

static km_status describe(km_columns *columns, const km_parse *p, const km_scan *all) {
    int64_t others = 0;
    for (int64_t f = 0; f < columns->count; f++) {
        const km_seen *seen = &all->columns[f];
        const char *name = km_parse_name(p, f);
        km_column *column = &columns->columns[f];
        int has_range = seen->low <= seen->high;
        *column = (km_column){.number = f + 1,
                              .kind = kind_of(&p->scan.columns[f], seen, name),
                              .missing = seen->missing,
                              .different = seen->has_many ? -1 : seen->different.count,
                              .low = has_range ? seen->low : NAN,
                              .high = has_range ? seen->high : NAN};
        int is_number =
            column->kind == KM_COLUMN_NUMBER || (column->kind == KM_COLUMN_CONSTANT && seen->numbers);
        if (is_number) column->wrong = seen->cells - seen->missing - seen->numbers;
        if (seen->numbers || seen->dates) column->different = -1;
        column->is_used = is_number;
        others += is_number;
        if (name && !(column->name = strdup(name))) return km_fail_memory(p->err, "column names", 64);
    }
    // Ids by their values are used where there is nothing else.
    for (int64_t f = 0; f < columns->count && !others; f++) {
        const char *name = columns->columns[f].name;
        columns->columns[f].is_used =
            columns->columns[f].kind == KM_COLUMN_ID && !(name && km_name_is_id(name));
    }
    columns->rows = all->rows;
    return KM_OK;
}

static km_status scan_record(void *user, const km_cells *cells, const km_spelling *spelling, km_error *err) {
    return km_scan_add(user, cells, spelling, err);
}

static km_status look_at_text(km_columns **out, km_input *input, const km_data_params *params, char delimiter,
                              km_error *err) {
    km_parse p;
    km_scan all = {0};
    km_status status;
    km_data_params plain = km_parse_plain(params);
    KM_TRY_GOTO(km_parse_open(&p, input, &plain, delimiter, err));
    KM_TRY_GOTO(km_parse_choose(&p)); // finds the header
    KM_TRY_GOTO(km_scan_init(&all, p.columns_count, err));
    KM_TRY_GOTO(km_parse_each(&p, scan_record, &all));
    KM_TRY_GOTO(create(out, input->name, p.columns_count, err));
    KM_TRY_GOTO(describe(*out, &p, &all));
done:
    km_scan_free(&all);
    km_parse_close(&p);
    return status;
}

// Other tables -----------------------------------------------------------------------------------------------

static void see_values(km_columns *columns, const double *values, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t f = 0; f < columns->count; f++) {
            km_column *column = &columns->columns[f];
            double value = values[i * columns->count + f];
            column->missing += isnan(value);
            column->low = fmin(column->low, value); // the number, where one is NaN
            column->high = fmax(column->high, value);
        }
}

static km_status look_at_values(km_columns **out, const km_table *table, const char *file, km_error *err) {
    enum { VALUES = 1 << 16 };
    int64_t d = table->columns, step = km_max(VALUES / km_max(d, 1), 1);
    if (table->csr)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s is sparse: %" PRId64 " rows of %" PRId64 " columns, all of numbers", file,
                       table->rows, d);
    KM_TRY(create(out, file, d, err));
    double *values = malloc((size_t)(step * d) * sizeof *values + 1);
    if (!values) return km_fail_memory(err, "rows", step * d * 8);
    for (int64_t f = 0; f < d; f++)
        (*out)->columns[f] =
            (km_column){.number = f + 1, .different = -1, .low = NAN, .high = NAN, .is_used = 1};
    for (int64_t first = 0; first < table->rows; first += step) {
        int64_t rows = km_min(step, table->rows - first);
        km_table_read(values, table, first, rows, KM_FLOAT64);
        see_values(*out, values, rows);
    }
    free(values);
    for (int64_t f = 0; f < d; f++) {
        km_column *column = &(*out)->columns[f];
        if (column->missing == table->rows)
            column->kind = KM_COLUMN_EMPTY;
        else if (column->low == column->high && !column->missing)
            column->kind = KM_COLUMN_CONSTANT;
    }
    (*out)->rows = table->rows;
    return km_table_check(table, file, err);
}

km_status km_columns_read(km_columns **out, const char *path, const km_data_params *params, km_error *err) {
    km_data_params defaults;
    km_data_params_init(&defaults);
    km_data_params own = params ? *params : defaults;
    km_input input;
    km_table table = {0};
    *out = NULL;
    KM_TRY(km_input_open(&input, path, err));
    own.format = km_input_format(&input, &own, err);
    km_status status = own.format ? KM_OK : KM_ERROR_DATA;
    if (own.format && (strcmp(own.format, "csv") == 0 || strcmp(own.format, "tsv") == 0)) {
        status = look_at_text(out, &input, &own, own.format[0] == 't' ? '\t' : 0, err);
    } else if (own.format) {
        own.columns = NULL;
        status = km_table_read_input(&table, &input, &own, err);
        if (status == KM_OK) status = look_at_values(out, &table, input.name, err);
        km_table_clear(&table);
    }
    km_input_close(&input);
    if (status != KM_OK) km_columns_destroy(out);
    return status;
}

// For people and programs ------------------------------------------------------------------------------------

static void write_value(char text[KM_DATE_SIZE], const km_column *column, double value) {
    if (isnan(value))
        strcpy(text, "-");
    else if (column->kind == KM_COLUMN_DATE)
        km_date_write(text, value);
    else
        snprintf(text, KM_DATE_SIZE, "%.10g", value);
}

// A column's name as it is shown; the caller's to free. NULL: no memory.
static char *shown_name(const km_column *column) {
    enum { NAME_MAX_COLUMNS = 36 };
    char *name = strdup(column->name ? column->name : "-");
    if (!name) return NULL;
    km_text_plain(name);
    km_text_shorten(name, NAME_MAX_COLUMNS);
    return name;
}

static void add_column(km_text *text, const km_column *c, const char *name, int64_t width) {
    char low[KM_DATE_SIZE], high[KM_DATE_SIZE], different[24] = "-";
    write_value(low, c, c->low);
    write_value(high, c, c->high);
    if (c->different >= 0) snprintf(different, sizeof different, "%" PRId64, c->different);
    if (c->different < 0 && c->kind == KM_COLUMN_TEXT)
        snprintf(different, sizeof different, "> %d", KM_CATEGORIES_MAX);
    km_text_printf(text, "%s%3" PRId64 " ", c->is_used ? "*" : " ", c->number);
    km_text_pad(text, name, width);
    km_text_printf(text, " %-9s %10" PRId64 " %9s %11s %11s\n", km_kind_name(c->kind), c->missing, different,
                   low, high);
    if (c->wrong)
        km_text_printf(text, "     %" PRId64 " of its cells %s, which a fit refuses\n", c->wrong,
                       c->wrong == 1 ? "is no number" : "are no numbers");
}

km_status km_columns_to_table(char **out, const km_columns *columns, km_error *err) {
    km_text text = {0};
    int64_t used = 0, width = 20; // of the names, which are shown up to their widest
    for (int64_t f = 0; f < columns->count; f++) {
        char *name = shown_name(&columns->columns[f]);
        used += columns->columns[f].is_used;
        width = name ? km_max(width, km_text_columns(name)) : width;
        free(name);
    }
    km_text_printf(&text,
                   "%s: %" PRId64 " rows, %" PRId64 " column%s, of which a fit uses %" PRId64 " (*)\n\n",
                   columns->file, columns->rows, columns->count, columns->count == 1 ? "" : "s", used);
    km_text_printf(&text, "     %-*s %-9s %10s %9s %11s %11s\n", (int)width, "name", "kind", "missing",
                   "different", "from", "to");
    for (int64_t f = 0; f < columns->count; f++) {
        char *name = shown_name(&columns->columns[f]);
        if (name)
            add_column(&text, &columns->columns[f], name, width);
        else
            text.failed = 1;
        free(name);
    }
    return km_text_take(out, &text, err);
}

static json_t *column_to_json(const km_column *c) {
    json_t *object = json_object();
    int failed = json_object_set_new(object, "name", c->name ? km_json_string(c->name) : json_null());
    failed |= json_object_set_new(object, "number", json_integer(c->number));
    failed |= json_object_set_new(object, "kind", json_string(km_kind_name(c->kind)));
    failed |= json_object_set_new(object, "missing", json_integer(c->missing));
    failed |= json_object_set_new(object, "wrong", json_integer(c->wrong));
    failed |=
        json_object_set_new(object, "different", c->different < 0 ? json_null() : json_integer(c->different));
    failed |= json_object_set_new(object, "low", km_json_real(c->low));
    failed |= json_object_set_new(object, "high", km_json_real(c->high));
    failed |= json_object_set_new(object, "used", json_boolean(c->is_used));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

km_status km_columns_to_json(char **out, const km_columns *columns, km_error *err) {
    json_t *root = json_object(), *array = json_array();
    int failed = json_object_set_new(root, "rows", json_integer(columns->rows));
    for (int64_t f = 0; f < columns->count; f++)
        failed |= json_array_append_new(array, column_to_json(&columns->columns[f]));
    failed |= json_object_set_new(root, "columns", array);
    km_status status =
        failed ? km_fail_memory(err, "columns", columns->count * 256) : km_json_text(out, root, err);
    json_decref(root);
    return status;
}

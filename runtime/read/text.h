// SPDX-License-Identifier: MIT
// A table of text on its way to values: what its columns are, which are kept, and how each becomes numbers.
#ifndef KM_RUNTIME_READ_TEXT_H
#define KM_RUNTIME_READ_TEXT_H
#include "../pages.h"
#include "kinds.h"

// A column that is kept.
typedef struct km_slot {
    int64_t column;      // of the file, from 0
    km_column_kind kind; // NUMBER, YES_NO, DATE or CATEGORY
    int is_weight;       // weights of the rows, and no feature
    int is_watched;      // left out where it rises by whole numbers through all rows
    int is_open;         // no cell of it was seen yet: left out where it holds nothing, or text
    int is_given;        // `categories` are those of a model, and others are unknown
    km_dict categories;
    // Of all rows:
    int64_t missing, unknown, texts;
    int is_falling, is_broken; // some value is not above the one before; is no whole number
    double first, last;        // NaN: none
} km_slot;

// Once all rows were seen.
static inline int km_slot_is_left_out(const km_slot *slot) {
    return slot->is_watched || slot->is_open;
}

typedef struct km_parse {
    const char *file;
    const km_data_params *params;
    km_table *table;
    km_error *err;
    km_blocks blocks;
    km_spelling spelling;
    char delimiter;
    int64_t mark_size; // bytes of a byte order mark
    char **first_row;  // its cells
    int64_t columns_count, first_line;
    int has_header;
    int64_t body_offset, body_line;  // of the first row of values, in the blocks' buffer
    const struct km_text_part *part; // the rows that are read, where ranks share them (ranks.h); NULL: all
    int is_later;                    // ... there are rows before them
    int has_end;                     // ... there are none behind them, as without a part
    km_scan scan;                    // of the head, a megabyte or more, without the first row
    km_slot *slots;
    int64_t slots_count;
    unsigned char *values; // rows x slots_count, of params->type
    km_growing grown;      // ... which hold them
    int64_t rows_capacity, trailing_blank;
    double begin_ms;
} km_parse;

// For a look at all columns, or at one: what says how the text is to be read, and nothing of which columns are wanted.
km_data_params km_parse_plain(const km_data_params *params);
// Opens a text, looks at its first megabyte and finds its header. `delimiter` 0: it is found.
km_status km_parse_open(km_parse *p, km_input *input, const km_data_params *params, char delimiter,
                        km_error *err);
void km_parse_close(km_parse *p);
// The column's name, or NULL.
const char *km_parse_name(const km_parse *p, int64_t column);
// Finds the header, and where rows begin.
km_status km_parse_header(km_parse *p);
// Whether the first row counts as one of values, and may hold names all the same: 0, 1, 2, ...
int km_parse_may_hold_names(const km_parse *p);
// The same as km_parse_header, and decides which columns are kept.
km_status km_parse_choose(km_parse *p);
// Parses all rows into p->values and p->table.
km_status km_parse_rows(km_parse *p);
// One of `values`, which are of params->type.
static inline double km_parse_value(const km_parse *p, const unsigned char *values, int64_t at) {
    return p->params->type == KM_FLOAT32 ? (double)((const float *)(const void *)values)[at]
                                         : ((const double *)(const void *)values)[at];
}
// Warns of numbers that seem to stand for a missing value, once all rows are parsed.
void km_warn_of_sentinels(const km_parse *p);
// One column of a text as it stands: numbers, or words.
typedef struct km_text_column {
    char *name;      // NULL: it has none
    double *numbers; // rows; NaN: missing, or no number
    int32_t *words;  // rows: number in `texts`; -1: missing; -2: there are more texts than are kept
    int64_t rows, capacity;
    int64_t words_count; // cells that are neither a number nor missing
    km_dict texts;       // of all cells that are not missing
} km_text_column;
// `option` names the column ("--outcome"); `column` NULL: the one that a header calls label, or the only one;
// `different`: texts that are kept.
km_status km_text_column_read(km_text_column *out, km_input *input, const km_data_params *params,
                              char delimiter, const char *option, const char *column, int64_t different,
                              km_error *err);
void km_text_column_free(km_text_column *column);
// Refuses a record that km_cells_next did not read.
km_status km_parse_refuse(const km_parse *p, km_record_state record, const km_cells *cells, km_error *err);

// What is done with a record of the body.
typedef km_status km_record_user(void *user, const km_cells *cells, const km_spelling *spelling,
                                 km_error *err);

// Gives all records of the body to `use` in their order, on the calling thread, once km_parse_choose has found where it
// begins. What is no record, or has another number of cells than the first row, is refused.
km_status km_parse_each(km_parse *p, km_record_user *use, void *user);
// What to do about a cell that is a number but for a currency, a percent sign, marks between thousands or another
// decimal mark; NULL: it is no such cell.
const char *km_parse_mark_advice(const char *cell, char decimal);
// Refuses a column of categories that has more of them than may be.
km_status km_parse_many_categories(const km_parse *p, const km_slot *slot);
// Refuses the cell of a slot.
km_status km_parse_bad_cell(const km_parse *p, int64_t slot, const km_cells *cells, km_error *err);

#endif

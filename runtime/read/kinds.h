// SPDX-License-Identifier: MIT
// What the columns of a text hold: numbers, ids, yes or no, categories, dates, text.
#ifndef KM_RUNTIME_READ_KINDS_H
#define KM_RUNTIME_READ_KINDS_H
#include "cells.h"

// How cells are spelled.
typedef struct km_spelling {
    char decimal;    // '.' or ','
    char **missing;  // words that mean a missing value, besides those that always do
    double *numbers; // those of them that are numbers, else NaN
    int64_t missing_count;
} km_spelling;

// `words`: km_data_params.na_values, or NULL.
km_status km_spelling_init(km_spelling *spelling, const char *words, char decimal, km_error *err);
void km_spelling_free(km_spelling *spelling);

// What a cell is as a number, yes or no, or a date; a missing value is NaN.
typedef enum km_cell_sort { KM_CELL_VALUE, KM_CELL_MISSING, KM_CELL_WRONG } km_cell_sort;
km_cell_sort km_cell_number(double *value, const km_cell *cell, const km_spelling *spelling);
km_cell_sort km_cell_yes_no(double *value, const km_cell *cell, const km_spelling *spelling);
// Days since 1970-01-01, a time as a part of one.
km_cell_sort km_cell_date(double *value, const km_cell *cell, const km_spelling *spelling);
// Empty, or a word that means it; numbers are not looked at.
int km_cell_is_missing(const km_cell *cell, const km_spelling *spelling);
// Writes a date as people do, with its time where it has one.
enum { KM_DATE_SIZE = 40 };
const char *km_date_write(char text[KM_DATE_SIZE], double days);

// Different texts, each with its number in the order in which they came.
typedef struct km_dict {
    char **texts;
    uint64_t *hashes;
    int64_t count, capacity;
    int32_t *places; // by hash: number + 1, 0: free
    int64_t places_count;
} km_dict;

// The text's number, -1: it is not there.
int64_t km_dict_find(const km_dict *dict, const char *text, int64_t size);
// The same, added where it is not there and fewer than `most` are; -1: there are as many. -2: no memory.
int64_t km_dict_add(km_dict *dict, const char *text, int64_t size, int64_t most);
void km_dict_free(km_dict *dict);

// What was seen of one column.
typedef struct km_seen {
    int64_t cells, missing;
    int64_t numbers, whole, yes_no, dates; // cells that are one, of those that are not missing
    int64_t commas;                        // cells that are numbers but for a decimal comma
    int64_t grouped_commas;                // ... which may be one between thousands: 1,234
    int64_t points;                        // numbers with a decimal point
    int64_t grouped;                       // ... which may be one between thousands: 1.234
    int64_t digits;                        // numbers spelled by digits alone
    int64_t long_digits;                   // ... by more than three
    double low, high;                      // of the numbers; of the dates, where there are none
    double last;
    int is_falling;    // some number is not above the one before
    int has_many;      // more different texts than `different` takes
    km_dict different; // texts of cells that are no numbers
    char wrong[64];    // the first cell that is neither number nor missing
    int64_t wrong_line;
} km_seen;

typedef struct km_scan {
    km_seen *columns;
    int64_t count, rows;
} km_scan;

km_status km_scan_init(km_scan *scan, int64_t columns, km_error *err);
void km_scan_free(km_scan *scan);
km_status km_scan_add(km_scan *scan, const km_cells *record, const km_spelling *spelling, km_error *err);

// A whole number is named like an id: "id", "customer_id", "CustomerId", "index".
int km_name_is_id(const char *name);
// What the column is, by the cells that were seen. `name` NULL: none.
km_column_kind km_kind_of(const km_seen *seen, const char *name);
// How --help and messages call it.
const char *km_kind_name(km_column_kind kind);

#endif

// SPDX-License-Identifier: MIT
// What the readers of sparse tables share: words of a text of any size, and rows that grow while they are read.
#ifndef KM_RUNTIME_READ_ROWS_H
#define KM_RUNTIME_READ_ROWS_H
#include "../../gen/spec_fields.h"
#include "../csr.h"
#include "reader.h"

// Words -------------------------------------------------------------------------------------------------------

// A window of a text. Every word that begins before `limit` ends there too, and a blank or newline follows it.
typedef struct km_words {
    const char *file;
    km_input *input;
    unsigned char *buffer, *at, *limit, *end; // the next byte; behind the last blank; behind the last byte
    int64_t line;                             // of `at`, from 1: whoever passes a newline counts it
    unsigned char comment;                    // a word that begins so may have any length
    int is_last;                              // the text ends where the buffer does
} km_words;

km_status km_words_open(km_words *words, km_input *input, char comment, km_error *err);
void km_words_close(km_words *words);
// Where at == limit: reads on. Afterwards at < limit, but at the end of the text.
km_status km_words_fill(km_words *words, km_error *err);
// Leaves `at` on the newline that ends the line, or where the text ends.
km_status km_words_skip_line(km_words *words, km_error *err);
// The word at `at`, for a message.
const char *km_words_quote(char buffer[KM_QUOTED_SIZE], const km_words *words);

static inline int km_is_blank(unsigned char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

// Rows --------------------------------------------------------------------------------------------------------

// Nonzeros in the order of the file. Arrays come from malloc and go to the table's km_csr.
typedef struct km_rows {
    const char *file;
    km_type type;    // of the values
    int has_labels;  // an index of -1 is the row's label, which --columns calls "label"
    int64_t *starts; // rows + 1
    int32_t *indices;
    void *values;
    int64_t count, capacity; // nonzeros
    int64_t rows, rows_capacity;
    struct km_pair *pairs; // one row, while it is sorted
    int64_t pairs_capacity;
} km_rows;

void km_rows_clear(km_rows *rows);
// One more nonzero may be added, and one more row.
km_status km_rows_reserve(km_rows *rows, km_error *err);
km_status km_rows_reserve_row(km_rows *rows, km_error *err);

static inline km_status km_rows_add(km_rows *rows, int32_t index, double value, km_error *err) {
    if (rows->count == rows->capacity) KM_TRY(km_rows_reserve(rows, err));
    rows->indices[rows->count] = index;
    if (rows->type == KM_FLOAT32)
        ((float *)rows->values)[rows->count] = (float)value;
    else
        ((double *)rows->values)[rows->count] = value;
    rows->count++;
    return KM_OK;
}

// An array that is filled while a file is read: room for `wanted` elements of `bytes` each, by steps, so that no
// number in a header decides what is taken.
km_status km_array_reserve(void **array, int64_t *capacity, int64_t wanted, int64_t bytes, const char *file,
                           km_error *err);

// Orders the nonzeros first .. first + count - 1 by index. *twice: an index that is there twice, or -1.
km_status km_rows_sort(int32_t *twice, km_rows *rows, int64_t first, int64_t count, km_error *err);
// km_csr_check of all rows, which are sorted where they are.
km_status km_rows_check(km_rows *rows, int64_t columns, const char *name, km_error *err);
// Makes rows of entries in any order, entry_rows[i] being the row of nonzero i.
km_status km_rows_from_entries(km_rows *rows, int32_t *entry_rows, int64_t rows_count, km_error *err);

// Hands the rows to a table of `columns` columns, those that `params` picks. The table has `first_line` or `lines`
// already.
km_status km_rows_finish(km_table *table, km_rows *rows, int64_t columns, const km_data_params *params,
                         km_error *err);

// Whether --columns wants the column "label".
int km_columns_have_label(const char *columns);

#endif

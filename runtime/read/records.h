// SPDX-License-Identifier: MIT
// The raw records of a text table, one batch at a time: what stands between two line
// ends outside of quotes. Blank lines are left out; each record knows its line, by which the rows of a km_data are
// found.
#ifndef KM_RUNTIME_READ_RECORDS_H
#define KM_RUNTIME_READ_RECORDS_H
#include "reader.h"

typedef struct km_record {
    const char *bytes; // without its line end
    int64_t size;
    int64_t line; // where it begins, from 1
} km_record;

typedef struct km_records km_records;

// `separator` 0: found in the first line. KM_ERROR_IO, KM_ERROR_DATA: no text. The input stays the caller's.
km_status km_records_create(km_records **out, km_input *input, char separator, km_error *err);
void km_records_destroy(km_records **records);
char km_records_separator(const km_records *records);
int km_records_has_mark(
    const km_records *records); // it begins with the byte order mark, which is in no record

// The next records, up to `count_max` and about `bytes_max` bytes, at least one; *count is 0 at the end. They lie
// in order in one piece of memory, with what stands between them, until the next call.
km_status km_records_next(const km_record **out, int64_t *count, km_records *records, int64_t count_max,
                          int64_t bytes_max, km_error *err);

// Cell `index`, from 0, of a record, as it stands with its quotes; 0: the record has fewer.
int km_record_cell(km_record *cell, const km_record *record, char separator, int64_t index);
// The same cell's text without quotes, in `out`, which has room for the cell's bytes. Returns its bytes.
int64_t km_record_cell_text(char *out, const km_record *cell);

#endif

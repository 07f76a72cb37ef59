// SPDX-License-Identifier: MIT
// The raw records of the text that a km_data was read of, a second time, row by row.
#ifndef KM_RUNTIME_WRITE_ORIGINAL_H
#define KM_RUNTIME_WRITE_ORIGINAL_H
#include "../read/records.h"
#include "sink.h"

// Begins as zeros; km_original_close at the end.
typedef struct km_original {
    km_input input;
    km_records *records;   // NULL: the batch is the caller's
    int is_open, is_given; // given: the caller sets each batch
    const km_record *batch;
    int64_t count, at; // records of the batch, and the next one
    char separator;
    int has_mark;
    km_record header; // bytes NULL: the text has none; else a copy
    char *header_copy;
} km_original;

// Opens the file again. KM_ERROR_USAGE: the data are of no text, or came from a pipe; KM_ERROR_IO.
km_status km_original_open(km_original *original, const km_data *data, km_error *err);
void km_original_close(km_original *original);
// Notes a header; a copy is made. KM_ERROR_MEMORY.
km_status km_original_set_header(km_original *original, const km_record *header, km_error *err);
// Records of the rows from `first` on, at most `count_max`, which hold until the next call; *count at least 1. A row
// whose line the text does not have as a record is an empty one. KM_ERROR_DATA: the file changed.
km_status km_original_rows(km_record *out, int64_t *count, km_original *original, const km_data *data,
                           int64_t first, int64_t count_max, km_error *err);
// The cell, from 0, that is meant by a name of the header, or a number from 1. KM_ERROR_USAGE with what there is.
km_status km_original_find(int64_t *cell, const km_original *original, const char *name, const char *file,
                           km_error *err);
// The cell's name in the header, a copy to be freed; `otherwise` where there is no header.
km_status km_original_name(char **out, const km_original *original, int64_t cell, const char *otherwise,
                           km_error *err);

#endif

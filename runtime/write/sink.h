// SPDX-License-Identifier: MIT
// Rows of numbers and texts on their way into a file: .npy, or text with separators. Threads make pieces of the text
// side by side, and write them in order.
#ifndef KM_RUNTIME_WRITE_SINK_H
#define KM_RUNTIME_WRITE_SINK_H
#include "../file.h"

typedef enum km_sink_format { KM_SINK_NPY, KM_SINK_CSV, KM_SINK_TSV, KM_SINK_NONE } km_sink_format;

typedef enum km_cell {
    KM_CELL_ROW,    // the row's number from 1; no values
    KM_CELL_LABEL,  // int32_t; negative: empty
    KM_CELL_PLAIN,  // int32_t as it is
    KM_CELL_REAL,   // double, 9 digits; NaN: empty
    KM_CELL_EXACT,  // double, as many digits as give it back; NaN: empty
    KM_CELL_SINGLE, // the same of a double that is a float
    KM_CELL_COUNT,  // int64_t
    KM_CELL_TEXT,   // km_span, written as it is
} km_cell;

typedef struct km_span {
    const char *bytes;
    int64_t size;
} km_span;

// One column; `values` are those of the rows that km_sink_rows is called for. Value i is at [i * stride].
typedef struct km_sink_column {
    const char *name;
    km_cell cell;
    const void *values;
    int64_t stride;
    int64_t set; // the caller's own number
} km_sink_column;

typedef struct km_sink {
    km_file_writer file;
    km_sink_format format;
    char separator, decimal; // decimal: of numbers; a point where nothing sets it after the opening
    const km_sink_column *columns;
    int64_t columns_count, rows; // rows: written so far
    int64_t threads;
    int is_open, is_flat; // flat: .npy of one dimension
    int is_held;          // .npy whose rows are not known, into what cannot be gone back in
    char *held;
    int64_t held_size, held_room;
    km_error *err;
} km_sink;

// By the end of the name; "-", and what exists and is no regular file and has another name, is .npy.
km_sink_format km_sink_format_of(const char *path);
// The format that the name says or, of standard output, a pipe or a device, .npy. KM_ERROR_USAGE with the names
// that may be: `formats` is bits 1 << format.
km_status km_sink_format_choose(km_sink_format *out, const char *path, unsigned formats, km_error *err);

// What a text with separators begins with. `columns` stay the caller's, whose values may change between calls;
// .npy: all of one type. `separator` 0: the format's. `rows`: how many will come, -1: not known; with is_flat of
// one dimension: both of .npy.
km_status km_sink_open(km_sink *sink, const char *path, km_sink_format format, char separator,
                       const km_sink_column *columns, int64_t columns_count, int64_t rows, int is_flat,
                       km_error *err);
// The line of names. `before`: cells that stand before them as they are; NULL: none.
void km_sink_names(km_sink *sink, const km_span *before);
// The next `count` rows, the columns' values being theirs. KM_ERROR_MEMORY; what the file says comes with the close.
km_status km_sink_rows(km_sink *sink, int64_t count);
km_status km_sink_close(km_sink *sink);
void km_sink_abandon(km_sink *sink); // leaves nothing; allowed after a close or a failed open

// A cell as a text with this separator has it: in quotes where it must be. Returns the bytes; `out` has room for
// km_quoted_cell_max of them.
int64_t km_quoted_cell(char *out, const char *text, int64_t size, char separator);
static inline int64_t km_quoted_cell_max(int64_t size) {
    return 2 * size + 2;
}
// A number's text, not ended by a zero: 9 digits; as many as give a double, or a float, back. At most KM_NUMBER_SIZE.
enum { KM_NUMBER_SIZE = 32 };
int64_t km_number_write(char *out, double value);
int64_t km_number_write_exact(char *out, double value, int is_single);

#endif

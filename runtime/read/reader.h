// SPDX-License-Identifier: MIT
// Formats of points. A reader turns an input into a table: a strided view of elements, mapped, read or parsed.
#ifndef KM_RUNTIME_READER_H
#define KM_RUNTIME_READER_H
#include "../../base/error.h"
#include "../csr.h"
#include <kmgen/data.h>

// A float16, which C11 has no type for.
typedef struct km_half {
    uint16_t bits;
} km_half;

// X(NAME, C type, letter and size of a .npy dtype)
#define KM_ELEMENTS(X)                                                                                       \
    X(F2, km_half, "f2")                                                                                     \
    X(F4, float, "f4")                                                                                       \
    X(F8, double, "f8")                                                                                      \
    X(I1, int8_t, "i1")                                                                                      \
    X(I2, int16_t, "i2")                                                                                     \
    X(I4, int32_t, "i4")                                                                                     \
    X(I8, int64_t, "i8")                                                                                     \
    X(U1, uint8_t, "u1")                                                                                     \
    X(U2, uint16_t, "u2")                                                                                    \
    X(U4, uint32_t, "u4")                                                                                    \
    X(U8, uint64_t, "u8")                                                                                    \
    X(B1, uint8_t, "b1")

typedef enum km_element {
#define KM_ELEMENT_ENUM(name, type, dtype) KM_ELEMENT_##name,
    KM_ELEMENTS(KM_ELEMENT_ENUM)
#undef KM_ELEMENT_ENUM
        KM_ELEMENT_COUNT
} km_element;

int64_t km_element_size(km_element element);
int km_element_has_nan(km_element element);

// A sparse matrix, or n x d elements, (i, f) at base + (i * row_stride + f * column_stride) * size of an element.
typedef struct km_table {
    km_csr *csr; // NULL: dense; else rows, columns, names, numbers and lines are all that counts below
    const unsigned char *base;
    km_element element;
    int swapped; // bytes in the other order than this machine's
    int64_t rows, columns;
    int64_t row_stride, column_stride; // in elements
    const unsigned char **apart;       // where each column lies, instead of `base`; NULL: column_stride apart
    int64_t *picks;                    // column f of the table is column picks[f] of the view; NULL: the same
    char **names;                      // `columns` names from a header, or NULL
    int64_t *numbers;                  // 1-based number of each column in the file; NULL: 1, 2, ...
    int64_t first_line;                // of the first row in the file, from 1
    int is_from_0;           // messages give a column's index as well, which counts from 0 in the file
    int64_t *lines;          // line of each row; NULL: first_line, first_line + 1, ...
    int64_t lines_capacity;  // rows that `lines` has room for
    char separator, decimal; // of the cells of a text, and of its numbers; 0: it was none
    void *memory;            // holds the elements, freed or unmapped with the table
    int64_t mapped_bytes;    // 0: `memory` came from malloc
    double *weights;         // of each row, from a column; NULL: none
    int64_t *missing;        // missing values of each column; NULL: they were not counted
    km_feature *prepared;    // how each column is made; NULL: it is a column of the file as it is
    double parse_ms;         // from text to values, with reading it
    int64_t rows_all,
        first_of_all; // of a text of which each rank has some rows: those of all, the first of this one
    // Several files, whose rows stand one below the other (together.c): `base`, strides and lines are each file's own.
    struct km_table *files; // NULL: it is one
    int64_t files_count;
    int64_t *starts; // the first row of each, and the number of all
    char *file;      // of a table that is one of several: its path
} km_table;

void km_table_clear(km_table *table);
// Maps the first bytes of a file as the table's memory; 0: it cannot be mapped. Where the file becomes shorter
// meanwhile, zeros are read, and the table is lost (runtime/read/mapped.c).
int km_table_map(km_table *table, int64_t bytes, int fd);
void km_table_unmap(km_table *table);
int km_table_is_lost(const km_table *table);
// KM_ERROR_IO, in place of any other error, when the table is lost; to be called after all was read.
km_status km_table_check(const km_table *table, const char *name, km_error *err);
int64_t km_table_line(const km_table *table, int64_t row);
// Notes the line of a row of text when it is not the one after the row before. Rows come in order; `rows_capacity` is
// how many the reader has room for.
km_status km_table_note_line(km_table *table, int64_t row, int64_t line, int64_t rows_capacity,
                             km_error *err);
// "row R, column C (name)" with the user's counting; column 0: the row alone; name NULL: none.
enum { KM_PLACE_SIZE = 160 };
const char *km_place_write(char text[KM_PLACE_SIZE], int64_t line, int64_t column, const char *name);
// The same of a table's row and column, from 0; column -1: the row alone.
const char *km_table_place(char text[KM_PLACE_SIZE], const km_table *table, int64_t row, int64_t column);
// Copies rows first .. first + count - 1 as `type` in C order.
void km_table_read(void *out, const km_table *table, int64_t first, int64_t count, km_type type);

// An opened file, pipe or standard input, whose first bytes were read. Readers see what is packed in it.
typedef struct km_input {
    const char *name; // for messages
    int fd;
    int is_regular; // can be mapped
    int64_t offset,
        size; // where it stood when opened, and its bytes from there, packed ones too; 0: not known
    unsigned char head[4096];
    int64_t head_size;
    int64_t head_taken; // bytes of the head that were read again from a pipe
    int64_t taken;      // bytes of the file that were read, the head among them
    int64_t line;       // of the first byte, or row, where the input is a part of a table; 0 means 1
    char *file;         // where a path is FILE:PART, the file ...
    const char *part; // ... and the part, which the reader has to find; NULL: none is named, or it was found
    struct km_unpacker *unpacker;            // NULL: bytes are those of the file
    const unsigned char *memory;             // `size` bytes in the place of a file; NULL: there is one
    int is_range;                            // only `size` bytes are read
    const struct km_text_part *part_of_rows; // of a text: the rows that are read (ranks.h); NULL: all
} km_input;

km_status km_input_open(km_input *input, const char *path, km_error *err);
void km_input_close(km_input *input);
// What is in the only file of a zip file that lies in memory.
km_status km_input_open_zip(km_input *input, const char *name, const unsigned char *bytes, int64_t size,
                            km_error *err);
// Some of the next bytes, at most `size`; 0 at the end. The head comes again first.
km_status km_input_read(int64_t *got, void *out, int64_t size, km_input *input, km_error *err);
// `size` bytes; fewer only at the end.
km_status km_input_fill(int64_t *got, void *out, int64_t size, km_input *input, km_error *err);
// Everything, mapped when it can be: `table` owns it (memory, mapped_bytes).
km_status km_input_whole(const unsigned char **bytes, int64_t *size, km_table *table, km_input *input,
                         km_error *err);
// The name that tells the format: of the file, or of the entry of an archive.
const char *km_input_file(const km_input *input);
// A zip file that is not unpacked: of arrays (.npz), or of a program's document.
int km_zip_is_left(const km_input *input);

typedef struct km_reader {
    const char *name;
    const char *extensions[3];
    int (*sniff)(const km_input *input); // whether the first bytes are of this format; NULL: they do not say
    km_status (*open)(km_table *table, km_input *input, const km_data_params *params, km_error *err);
    int has_parts; // FILE:PART names one
} km_reader;

// X(name, whether the first bytes say it, whether FILE:PART names a part of such a file, extensions...): the one list.
// A reader is a row here and a file with two functions, of which the second is for what is SNIFFED: the declarations
// below. Where neither format nor extension is known, the first row whose function knows the bytes is taken.
#define KM_READERS(X)                                                                                        \
    X(npy, SNIFFED, 0, ".npy")                                                                               \
    X(npz, SNIFFED, 0, ".npz")                                                                               \
    X(h5, SNIFFED, 1, ".h5", ".hdf5", ".he5")                                                                \
    X(mtx, SNIFFED, 0, ".mtx")                                                                               \
    X(svmlight, SNIFFED, 0, ".svm", ".svmlight", ".libsvm")                                                  \
    X(csv, SNIFFED, 0, ".csv")                                                                               \
    X(tsv, UNSNIFFED, 0, ".tsv", ".tab")                                                                     \
    X(f32, UNSNIFFED, 0, ".f32")                                                                             \
    X(f64, UNSNIFFED, 0, ".f64")

#define KM_READER_SNIFFED(name) int km_##name##_sniff(const km_input *input);
#define KM_READER_UNSNIFFED(name)
#define KM_READER(name, sniffed, has_parts, ...)                                                             \
    KM_READER_##sniffed(name) km_status km_##name##_open(km_table *table, km_input *input,                   \
                                                         const km_data_params *params, km_error *err);
KM_READERS(KM_READER)

// Opens with params->format, else by the file's extension, else by content. `part`: the rows of a text that are read;
// NULL: all.
km_status km_table_open(km_table *table, const char *path, const km_data_params *params,
                        const struct km_text_part *part, km_error *err);
// Several files with the same columns, as one; `parts`: of each file, or NULL. KM_ERROR_DATA names the one that has
// others.
km_status km_table_open_files(km_table *table, const char *const *paths, int64_t count,
                              const km_data_params *params, const struct km_text_part *parts, km_error *err);
// Which of the files a row is in.
int64_t km_table_file_of(const km_table *table, int64_t row);
// The name of that format, static text; NULL: there is none, or params->format names none.
const char *km_input_format(const km_input *input, const km_data_params *params, km_error *err);
// Reads an input that was opened before, and stays the caller's, by params->format.
km_status km_table_read_input(km_table *table, km_input *input, const km_data_params *params, km_error *err);

// Refuses text whose first bytes are none: zeros, UTF-16.
km_status km_text_check(const unsigned char *head, int64_t size, const char *file, km_error *err);
// The separator that the first line uses outside of quotes: a comma where there is one.
char km_text_separator(const unsigned char *head, int64_t size);

// A number in any spelling of C's strtod but hexadecimal, with "." whatever the locale, spaces around it allowed.
// Zero when `text`, which has a zero after its `size` bytes, is not that.
int km_number_parse(double *value, const char *text, int64_t size);
// Such a number off the front of a text, without spaces before it: what follows it, or NULL where there is none. A byte
// that no number holds must follow.
const char *km_number_take(double *value, const char *text);
// The number that `size` bytes are where they are [-][digits][.digits] of eight bytes at most behind the sign, which
// are read eight at a time; 0: they are not, and may be another spelling.
int km_number_short(double *value, const char *text, int64_t size);

// Refuses a file of a program whose tables are not read, by its name or first bytes: the sentence has the command that
// converts it. KM_OK: it is none of those known.
km_status km_foreign_refuse(const km_input *input, km_error *err);

// Writes the columns `kept` as a `--columns`; "" where there are none, or too many to be of use. `names` may be NULL.
enum { KM_ADVICE_SIZE = 320 };
void km_columns_advise(char advice[KM_ADVICE_SIZE], char *const *names, const int64_t *kept, int64_t count);

// Which columns `option` ("--columns") names: names or 1-based numbers or ranges of them ("3..32", "age..visits",
// "5.."), separated by commas. Fills picks (allocated: *count column indices from 0, in the order asked for). `names`
// NULL: there are none. `behind`: the name of one column more that stands behind the last and has no number, or NULL.
km_status km_columns_parse(int64_t **picks, int64_t *count, const char *option, const char *columns,
                           const char *file, char *const *names, int64_t columns_count, const char *behind,
                           km_error *err);
// Leaves only the columns asked for in a table without names. `columns` NULL: all.
km_status km_table_pick(km_table *table, const char *columns, const char *file, km_error *err);

#endif

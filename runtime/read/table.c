// SPDX-License-Identifier: MIT
// A table of elements: its places in words, and its values converted.
#include "../../base/size.h"
#include "reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Rows that are converted at a time when columns lie apart, so that the output stays in cache.
enum { ROWS_AT_A_TIME = 256 };

int64_t km_element_size(km_element element) {
    static const int64_t sizes[] = {
#define KM_ELEMENT_SIZE(name, type, dtype) sizeof(type),
        KM_ELEMENTS(KM_ELEMENT_SIZE)
#undef KM_ELEMENT_SIZE
    };
    return sizes[element];
}

int km_element_has_nan(km_element element) {
    return element == KM_ELEMENT_F2 || element == KM_ELEMENT_F4 || element == KM_ELEMENT_F8;
}

void km_table_clear(km_table *table) {
    for (int64_t f = 0; table->names && f < table->columns; f++) free(table->names[f]);
    for (int64_t f = 0; table->prepared && f < table->columns; f++) {
        free((char *)table->prepared[f].column);
        free((char *)table->prepared[f].category);
    }
    for (int64_t i = 0; i < table->files_count; i++) km_table_clear(&table->files[i]);
    free(table->files);
    free(table->starts);
    free(table->file);
    free(table->prepared);
    free(table->weights);
    free(table->missing);
    free(table->names);
    free(table->apart);
    free(table->picks);
    free(table->numbers);
    free(table->lines);
    km_csr_free(&table->csr);
    if (table->mapped_bytes)
        km_table_unmap(table);
    else
        free(table->memory);
    *table = (km_table){0};
}

int64_t km_table_line(const km_table *table, int64_t row) {
    if (table->files) {
        int64_t i = km_table_file_of(table, row);
        return km_table_line(&table->files[i], row - table->starts[i]);
    }
    return table->lines ? table->lines[row] : table->first_line + row;
}

km_status km_table_note_line(km_table *table, int64_t row, int64_t line, int64_t rows_capacity,
                             km_error *err) {
    if (row == 0) table->first_line = line;
    if (!table->lines && line == table->first_line + row) return KM_OK;
    if (!table->lines || row >= table->lines_capacity) {
        int64_t *lines = realloc(table->lines, (size_t)rows_capacity * sizeof *lines);
        if (!lines) return km_fail_memory(err, "the lines of rows", rows_capacity * (int64_t)sizeof *lines);
        if (!table->lines)
            for (int64_t i = 0; i < row; i++) lines[i] = table->first_line + i;
        table->lines = lines;
        table->lines_capacity = rows_capacity;
    }
    table->lines[row] = line;
    return KM_OK;
}

const char *km_place_write(char text[KM_PLACE_SIZE], int64_t line, int64_t column, const char *name) {
    int size = snprintf(text, KM_PLACE_SIZE, "row %" PRId64, line);
    if (column > 0)
        size += snprintf(text + size, (size_t)(KM_PLACE_SIZE - size), ", column %" PRId64, column);
    if (column < 1 || !name) return text;
    snprintf(text + size, (size_t)(KM_PLACE_SIZE - size), " (%.80s)", name);
    return text;
}

const char *km_table_place(char text[KM_PLACE_SIZE], const km_table *table, int64_t row, int64_t column) {
    enum { FILE_MAX = 60 }; // of a path its end
    const km_table *file = table->files ? &table->files[km_table_file_of(table, row)] : NULL;
    int64_t of_file = file && table->picks && column >= 0 ? table->picks[column] : column;
    const int64_t *numbers = file ? file->numbers : table->numbers;
    int64_t number = column < 0 ? 0 : numbers ? numbers[of_file] : of_file + 1;
    const char *name = column >= 0 && table->names ? table->names[column] : NULL;
    char index[40];
    snprintf(index, sizeof index, "index %" PRId64, number - 1);
    if (table->is_from_0 && number > 0) name = index;
    int size = 0;
    if (file) {
        size_t length = strlen(file->file);
        size = snprintf(text, KM_PLACE_SIZE, "%s%s, ", length > FILE_MAX ? "..." : "",
                        length > FILE_MAX ? file->file + length - FILE_MAX : file->file);
    }
    char place[KM_PLACE_SIZE];
    km_place_write(place, km_table_line(table, row), number, name);
    snprintf(text + size, (size_t)(KM_PLACE_SIZE - size), "%.*s", KM_PLACE_SIZE - size - 1, place);
    return text;
}

// The float16 at `half`, which floats hold exactly.
static inline float half_value(const void *half) {
    uint16_t bits;
    memcpy(&bits, half, sizeof bits);
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexpf((float)(fraction + 1024), exponent - 25)
                                 : ldexpf((float)fraction, -24);
    return bits & 0x8000 ? -value : value;
}

// Values of one element type ---------------------------------------------------------------------------------

// A rectangle: `outer` times `inner` values; steps of the input in bytes, of the output in values.
typedef struct rectangle {
    int64_t outer, inner;
    int64_t in_outer, in_inner, out_outer, out_inner;
    int swapped;
} rectangle;

#define KM_CONVERT(name, type, out_type)                                                                     \
    static void convert_##name##_##out_type(void *out, const unsigned char *in, const rectangle *r) {        \
        for (int64_t a = 0; a < r->outer; a++) {                                                             \
            out_type *to = (out_type *)out + a * r->out_outer;                                               \
            const unsigned char *from = in + a * r->in_outer;                                                \
            for (int64_t b = 0; b < r->inner; b++) {                                                         \
                type value;                                                                                  \
                if (r->swapped) {                                                                            \
                    unsigned char bytes[sizeof value];                                                       \
                    for (size_t i = 0; i < sizeof value; i++)                                                \
                        bytes[i] = from[b * r->in_inner + (int64_t)(sizeof value - 1 - i)];                  \
                    memcpy(&value, bytes, sizeof value);                                                     \
                } else {                                                                                     \
                    memcpy(&value, from + b * r->in_inner, sizeof value);                                    \
                }                                                                                            \
                to[b * r->out_inner] = (out_type) _Generic((value), km_half                                  \
                                                           : half_value(&value), default                     \
                                                           : (value));                                       \
            }                                                                                                \
        }                                                                                                    \
    }
#define KM_CONVERT_BOTH(name, type, dtype) KM_CONVERT(name, type, float) KM_CONVERT(name, type, double)
KM_ELEMENTS(KM_CONVERT_BOTH)
#undef KM_CONVERT_BOTH
#undef KM_CONVERT

typedef void convert_function(void *out, const unsigned char *in, const rectangle *r);

static convert_function *const converters[][2] = {
#define KM_CONVERTER_ROW(name, type, dtype) {convert_##name##_float, convert_##name##_double},
    KM_ELEMENTS(KM_CONVERTER_ROW)
#undef KM_CONVERTER_ROW
};

// Reads `d` columns of rows first .. first + count - 1, one after the other: picks[f] of the table; NULL: all.
static void read_picked(unsigned char *out, const km_table *table, const int64_t *picks, int64_t d,
                        int64_t first, int64_t count, km_type type) {
    int64_t element = km_element_size(table->element), size = km_type_bytes(type);
    for (int64_t f = 0; f < d; f++) {
        int64_t pick = picks ? picks[f] : f, column = table->picks ? table->picks[pick] : pick;
        const unsigned char *from =
            table->apart ? table->apart[column] : table->base + column * table->column_stride * element;
        rectangle r = {1, count, 0, table->row_stride * element, 0, d, table->swapped};
        converters[table->element][type](out + f * size, from + first * table->row_stride * element, &r);
    }
}

// Of each file the rows that are its own.
static void read_files(unsigned char *out, const km_table *table, int64_t first, int64_t count,
                       km_type type) {
    int64_t row_bytes = table->columns * km_type_bytes(type);
    for (int64_t done = 0; done < count;) {
        int64_t i = km_table_file_of(table, first + done), at = first + done - table->starts[i];
        const km_table *file = &table->files[i];
        int64_t rows = km_min(count - done, file->rows - at);
        if (table->picks) rows = km_min(rows, ROWS_AT_A_TIME);
        if (table->picks)
            read_picked(out + done * row_bytes, file, table->picks, table->columns, at, rows, type);
        else
            km_table_read(out + done * row_bytes, file, at, rows, type);
        done += rows;
    }
}

void km_table_read(void *out, const km_table *table, int64_t first, int64_t count, km_type type) {
    if (count == 0) return; // a rank may have no rows, and no memory for them
    if (table->files) {
        read_files(out, table, first, count, type);
        return;
    }
    if (table->csr) {
        km_csr_read(out, table->csr, first, count, type);
        return;
    }
    int64_t element = km_element_size(table->element), size = km_type_bytes(type), d = table->columns;
    int is_native = !table->swapped && table->element == (type == KM_FLOAT64 ? KM_ELEMENT_F8 : KM_ELEMENT_F4);
    int is_picked = table->picks || table->apart;
    if (is_native && !is_picked && table->row_stride == d && table->column_stride == 1) {
        memcpy(out, table->base + first * d * size, (size_t)(count * d * size));
        return;
    }
    int by_columns = llabs(table->column_stride) > llabs(table->row_stride);
    for (int64_t done = 0; done < count; done += ROWS_AT_A_TIME) {
        int64_t rows = count - done < ROWS_AT_A_TIME ? count - done : ROWS_AT_A_TIME;
        unsigned char *to = (unsigned char *)out + done * d * size;
        if (is_picked) {
            read_picked(to, table, NULL, d, first + done, rows, type);
            continue;
        }
        int64_t row_bytes = table->row_stride * element, column_bytes = table->column_stride * element;
        rectangle r = {rows, d, row_bytes, column_bytes, d, 1, table->swapped};
        if (by_columns) r = (rectangle){d, rows, column_bytes, row_bytes, 1, d, table->swapped};
        converters[table->element][type](to, table->base + (first + done) * row_bytes, &r);
    }
}

void km_data_params_init(km_data_params *params) {
    *params = (km_data_params){.type = KM_FLOAT64, .base = -1};
}

// SPDX-License-Identifier: MIT
#include "sink.h"
#include "../../base/error.h"
#include "../../base/size.h"
#include "../threads.h"
#include "npy_head.h"

#include <kmgen/output.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

// A piece that a thread makes at a time takes about so many bytes.
enum { PIECE_BYTES = 1 << 18, RESERVE_FROM = 1 << 22 };

// Formats ----------------------------------------------------------------------------------------------------

static const char *const format_names[KM_SINK_NONE] = {"npy", "csv", "tsv"};

km_sink_format km_sink_format_of(const char *path) {
    size_t size = strlen(path);
    for (int f = 0; f < KM_SINK_NONE; f++) {
        size_t end = strlen(format_names[f]) + 1;
        if (size > end && path[size - end] == '.' && strcasecmp(path + size - end + 1, format_names[f]) == 0)
            return (km_sink_format)f;
    }
    return KM_SINK_NONE;
}

const char *km_output_format(const char *path) {
    km_sink_format format = km_sink_format_of(path);
    return format == KM_SINK_NONE ? NULL : format_names[format];
}

void km_output_params_init(km_output_params *params) {
    *params = (km_output_params){0};
}

km_status km_sink_format_choose(km_sink_format *out, const char *path, unsigned formats, km_error *err) {
    struct stat info;
    *out = km_sink_format_of(path);
    int has_no_name = strcmp(path, "-") == 0 || (stat(path, &info) == 0 && !S_ISREG(info.st_mode));
    if (*out == KM_SINK_NONE && has_no_name) *out = formats & 1u << KM_SINK_NPY ? KM_SINK_NPY : KM_SINK_CSV;
    if (*out != KM_SINK_NONE && formats >> *out & 1) return KM_OK;
    return km_fail(err, KM_ERROR_USAGE, "%s: the name must end in %s.csv or .tsv", path,
                   formats & 1u << KM_SINK_NPY ? ".npy, " : "");
}

// .npy -------------------------------------------------------------------------------------------------------

static int cell_bytes(const km_sink *sink) {
    return sink->columns[0].cell == KM_CELL_LABEL ? 4 : 8;
}

static void make_head(const km_sink *sink, unsigned char head[KM_NPY_HEAD_SIZE], int64_t rows) {
    km_npy_head(head, cell_bytes(sink) == 4 ? "<i4" : "<f8", rows, sink->is_flat ? 0 : sink->columns_count);
}

static char *npy_rows(char *out, const km_sink *sink, int64_t first, int64_t count) {
    int64_t width = sink->columns_count;
    for (int64_t c = 0; c < width; c++) {
        const km_sink_column *column = &sink->columns[c];
        int64_t stride = column->stride;
        if (column->cell == KM_CELL_LABEL) {
            const int32_t *from = (const int32_t *)column->values + first * stride;
            int32_t *to = (int32_t *)(void *)out + c;
            for (int64_t i = 0; i < count; i++) to[i * width] = from[i * stride];
        } else {
            const double *from = (const double *)column->values + first * stride;
            double *to = (double *)(void *)out + c;
            for (int64_t i = 0; i < count; i++) to[i * width] = from[i * stride];
        }
    }
    return out + count * width * cell_bytes(sink);
}

// Text -------------------------------------------------------------------------------------------------------

static int64_t cell_room(const km_sink_column *column, int64_t row) {
    if (column->cell != KM_CELL_TEXT) return KM_NUMBER_SIZE + 3; // quotes, separator
    return ((const km_span *)column->values)[row * column->stride].size + 1;
}

static char *add_integer(char *out, int64_t value) {
    char digits[24];
    int at = 24;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0) digits[--at] = '-';
    memcpy(out, digits + at, (size_t)(24 - at));
    return out + 24 - at;
}

// A number of text with the sink's decimal; in quotes where that separates cells.
static char *add_number(char *out, const km_sink *sink, km_cell cell, double value) {
    int64_t size = cell == KM_CELL_REAL ? km_number_write(out, value)
                                        : km_number_write_exact(out, value, cell == KM_CELL_SINGLE);
    char *point = sink->decimal == '.' ? NULL : memchr(out, '.', (size_t)size);
    if (!point) return out + size;
    *point = sink->decimal;
    if (sink->decimal != sink->separator) return out + size;
    memmove(out + 1, out, (size_t)size);
    out[0] = out[size + 1] = '"';
    return out + size + 2;
}

static char *add_cell(char *out, const km_sink *sink, const km_sink_column *column, int64_t row,
                      int64_t number) {
    int64_t at = row * column->stride;
    switch (column->cell) {
    case KM_CELL_ROW:
        return add_integer(out, number);
    case KM_CELL_LABEL: {
        int32_t label = ((const int32_t *)column->values)[at];
        return label < 0 ? out : add_integer(out, label);
    }
    case KM_CELL_PLAIN:
        return add_integer(out, ((const int32_t *)column->values)[at]);
    case KM_CELL_COUNT:
        return add_integer(out, ((const int64_t *)column->values)[at]);
    case KM_CELL_TEXT: {
        const km_span *span = (const km_span *)column->values + at;
        memcpy(out, span->bytes, (size_t)span->size);
        return out + span->size;
    }
    default: {
        double value = ((const double *)column->values)[at];
        return isnan(value) ? out : add_number(out, sink, column->cell, value);
    }
    }
}

static char *text_rows(char *out, const km_sink *sink, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        for (int64_t c = 0; c < sink->columns_count; c++) {
            if (c) *out++ = sink->separator;
            out = add_cell(out, sink, &sink->columns[c], i, sink->rows + i + 1);
        }
        *out++ = '\n';
    }
    return out;
}

void km_sink_names(km_sink *sink, const km_span *before) {
    if (sink->format == KM_SINK_NPY) return;
    if (before) km_file_add(&sink->file, before->bytes, before->size);
    for (int64_t c = 0; c < sink->columns_count; c++) {
        const char *name = sink->columns[c].name;
        if (!name) continue;
        char *cell = malloc((size_t)km_quoted_cell_max((int64_t)strlen(name)));
        if (!cell) {
            sink->file.reason = ENOMEM;
            return;
        }
        int64_t size = km_quoted_cell(cell, name, (int64_t)strlen(name), sink->separator);
        if (c || before) km_file_add(&sink->file, &sink->separator, 1);
        km_file_add(&sink->file, cell, size);
        free(cell);
    }
    km_file_add(&sink->file, "\n", 1);
}

// Rows -------------------------------------------------------------------------------------------------------

static int64_t piece_room(const km_sink *sink, int64_t first, int64_t count) {
    if (sink->format == KM_SINK_NPY) return count * sink->columns_count * cell_bytes(sink);
    int64_t room = count;
    for (int64_t c = 0; c < sink->columns_count; c++) {
        if (sink->columns[c].cell != KM_CELL_TEXT) {
            room += count * cell_room(&sink->columns[c], first);
            continue;
        }
        for (int64_t i = first; i < first + count; i++) room += cell_room(&sink->columns[c], i);
    }
    return room;
}

static void put(km_sink *sink, const char *bytes, int64_t size) {
    if (!sink->is_held) {
        km_file_add(&sink->file, bytes, size);
        return;
    }
    if (sink->held_size + size > sink->held_room) {
        int64_t room = 2 * (sink->held_size + size);
        char *held = realloc(sink->held, (size_t)room);
        if (!held) {
            sink->file.reason = ENOMEM;
            return;
        }
        sink->held = held;
        sink->held_room = room;
    }
    memcpy(sink->held + sink->held_size, bytes, (size_t)size);
    sink->held_size += size;
}

// One column as the file has it needs no copy.
static int is_as_written(const km_sink *sink) {
    return sink->format == KM_SINK_NPY && sink->columns_count == 1 && sink->columns[0].stride == 1;
}

// Rows of .npy by all threads, each straight to its place in the file. Zero: the file does not allow that, and nothing
// was written.
static int put_side_by_side(km_sink *sink, int64_t count) {
    int64_t row = sink->columns_count * cell_bytes(sink), piece = PIECE_BYTES / row + 1;
    if (sink->format != KM_SINK_NPY || sink->is_held || count * row < RESERVE_FROM) return 0;
    char *rows = km_file_reserve(&sink->file, count * row);
    int threads = (int)km_min(km_host_threads(sink->threads), count / piece + 1);
    int failed = 0;
    (void)threads;
    if (!rows) return 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) reduction(| : failed) if (threads > 1)
    for (int64_t first = 0; first < count; first += piece) {
        int64_t here = km_min(piece, count - first);
        failed |= !km_file_take_pages(rows + first * row, here * row);
        if (!failed) npy_rows(rows + first * row, sink, first, here);
    }
    km_file_filled(&sink->file, rows, count * row, !failed);
    if (!failed) sink->rows += count;
    return !failed;
}

km_status km_sink_rows(km_sink *sink, int64_t count) {
    if (put_side_by_side(sink, count)) return KM_OK;
    if (is_as_written(sink)) {
        put(sink, sink->columns[0].values, count * cell_bytes(sink));
        sink->rows += count;
        return KM_OK;
    }
    int64_t sample = count < 64 ? count : 64;
    int64_t row_room = sample ? piece_room(sink, 0, sample) / sample + 1 : 1;
    int64_t piece = row_room < PIECE_BYTES ? PIECE_BYTES / row_room : 1, pieces = (count + piece - 1) / piece;
    int64_t threads = km_host_threads(sink->threads);
    int team = (int)km_min(threads, pieces), failed = 0;
    (void)team;
#pragma omp parallel num_threads(team) if (team > 1)
    {
        char *buffer = NULL;
        int64_t room = 0;
#pragma omp for ordered schedule(dynamic, 1)
        for (int64_t p = 0; p < pieces; p++) {
            int64_t first = p * piece, rows = km_min(piece, count - first);
            int64_t needed = piece_room(sink, first, rows);
            if (needed > room) {
                free(buffer);
                buffer = malloc((size_t)needed);
                room = buffer ? needed : 0;
            }
            char *end = buffer && sink->format == KM_SINK_NPY ? npy_rows(buffer, sink, first, rows)
                        : buffer                              ? text_rows(buffer, sink, first, rows)
                                                              : NULL;
#pragma omp ordered
            {
                if (end && !failed) put(sink, buffer, end - buffer);
                failed |= !end;
            }
        }
        free(buffer);
    }
    sink->rows += count;
    return failed ? km_fail_memory(sink->err, "rows that are written", PIECE_BYTES) : KM_OK;
}

// Files ------------------------------------------------------------------------------------------------------

km_status km_sink_open(km_sink *sink, const char *path, km_sink_format format, char separator,
                       const km_sink_column *columns, int64_t columns_count, int64_t rows, int is_flat,
                       km_error *err) {
    *sink = (km_sink){.format = format,
                      .separator = (char)(separator               ? separator
                                          : format == KM_SINK_TSV ? '\t'
                                                                  : ','),
                      .decimal = '.',
                      .columns = columns,
                      .columns_count = columns_count,
                      .is_flat = is_flat,
                      .err = err};
    KM_TRY(km_file_begin(&sink->file, path, err));
    sink->is_open = 1;
    if (format != KM_SINK_NPY) return KM_OK;
    // A head that is not known yet is written again at the end; where the file does not allow that, rows wait for it.
    sink->is_held = rows < 0 && (sink->file.is_stdout || sink->file.is_in_place);
    unsigned char head[KM_NPY_HEAD_SIZE];
    make_head(sink, head, rows < 0 ? 0 : rows);
    if (!sink->is_held) km_file_add(&sink->file, head, sizeof head);
    return KM_OK;
}

km_status km_sink_close(km_sink *sink) {
    unsigned char head[KM_NPY_HEAD_SIZE];
    if (sink->format == KM_SINK_NPY) {
        make_head(sink, head, sink->rows);
        if (sink->is_held) {
            km_file_add(&sink->file, head, sizeof head);
            km_file_add(&sink->file, sink->held, sink->held_size);
        } else if (!sink->file.is_stdout && !sink->file.is_in_place && !sink->file.reason &&
                   pwrite(sink->file.fd, head, sizeof head, 0) != sizeof head) {
            sink->file.reason = EIO;
        }
    }
    free(sink->held);
    sink->held = NULL;
    sink->is_open = 0;
    return km_file_commit(&sink->file, sink->err);
}

void km_sink_abandon(km_sink *sink) {
    if (sink->is_open) km_file_abandon(&sink->file);
    free(sink->held);
    sink->held = NULL;
    sink->is_open = 0;
}

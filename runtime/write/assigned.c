// SPDX-License-Identifier: MIT
#include "assigned.h"
#include "../../base/error.h"
#include "../../base/size.h"
#include "../data_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Rows at a time, where more than labels is written; fewer where a row has many numbers.
enum { CHUNK_ROWS = 1 << 16, CHUNK_VALUES = 1 << 22, NAME_SIZE = 40 };

static int is_wanted(const km_assigned *a, km_assigned_kind kind) {
    return a->files[kind].path != NULL;
}

static int is_text_file(const km_assigned *a, km_assigned_kind kind) {
    return is_wanted(a, kind) && a->files[kind].sink.format != KM_SINK_NPY;
}

// Text of labels of one model says how far the points are.
static int labels_need_distances(const km_assigned *a) {
    return is_text_file(a, KM_ASSIGNED_LABELS) && !a->clusters;
}

static int needs_distances(const km_assigned *a) {
    return a->wants_inertia || labels_need_distances(a) || is_wanted(a, KM_ASSIGNED_DISTANCES) ||
           is_wanted(a, KM_ASSIGNED_TRANSFORM) || is_wanted(a, KM_ASSIGNED_TABLE);
}

int km_assigned_needs_original(const km_assigned *a, int is_text) {
    return a->id || (is_text && is_wanted(a, KM_ASSIGNED_TABLE));
}

// Columns ----------------------------------------------------------------------------------------------------

typedef struct columns {
    km_assigned_file *file;
    int64_t count, names;
} columns;

static km_sink_column *add(columns *c, const char *name, km_cell cell) {
    km_sink_column *column = &c->file->columns[c->count++];
    *column = (km_sink_column){.name = name, .cell = cell, .stride = 1};
    return column;
}

static char *next_name(columns *c) {
    return c->file->names + NAME_SIZE * c->names++;
}

static void add_numbered(columns *c, const char *prefix, int64_t number, km_cell cell, int64_t set) {
    char *name = next_name(c);
    snprintf(name, NAME_SIZE, "%s%" PRId64, prefix, number);
    add(c, name, cell)->set = set;
}

static void add_sets(columns *c, const km_assigned *a) {
    for (int64_t s = 0; s < a->sets_count; s++) add_numbered(c, "label_", a->clusters[s], KM_CELL_LABEL, s);
}

static void add_key(columns *c, const km_assigned *a) {
    if (a->id)
        add(c, a->id_name, KM_CELL_TEXT);
    else
        add(c, "row", KM_CELL_ROW);
}

// A name that no column of the text has: "cluster", else "cluster_2", ...
static const char *free_name(columns *c, const km_assigned *a, const char *name) {
    km_error none = {""};
    int64_t cell;
    if (!a->original || !a->original->header.bytes) return name;
    char *own = next_name(c);
    snprintf(own, NAME_SIZE, "%s", name);
    for (int64_t number = 2; km_original_find(&cell, a->original, own, "", &none) == KM_OK; number++)
        snprintf(own, NAME_SIZE, "%s_%" PRId64, name, number);
    return own;
}

static void add_features(columns *c, const km_assigned *a) {
    km_cell cell = a->is_single ? KM_CELL_SINGLE : KM_CELL_EXACT;
    for (int64_t f = 0; f < a->features; f++) {
        if (a->names)
            add(c, a->names[f], cell);
        else
            add_numbered(c, "x", f + 1, cell, 0);
    }
}

static void add_columns(columns *c, const km_assigned *a, km_assigned_kind kind) {
    int is_npy = c->file->sink.format == KM_SINK_NPY;
    if (kind == KM_ASSIGNED_TABLE) {
        if (a->original)
            add(c, NULL, KM_CELL_TEXT);
        else
            add_features(c, a);
        add(c, free_name(c, a, "cluster"), KM_CELL_LABEL)->set = a->best;
        add(c, free_name(c, a, "distance"), KM_CELL_REAL);
        if (a->clusters) add_sets(c, a);
        return;
    }
    if (kind == KM_ASSIGNED_LINES) {
        add(c, NULL, KM_CELL_PLAIN)->set = a->best;
        return;
    }
    if (!is_npy) add_key(c, a);
    if (kind == KM_ASSIGNED_TRANSFORM) {
        for (int64_t j = 0; j < a->space->k; j++) add_numbered(c, "distance_", j, KM_CELL_REAL, j);
    } else if (kind == KM_ASSIGNED_LABELS && a->clusters) {
        add_sets(c, a);
    } else {
        if (kind == KM_ASSIGNED_LABELS) add(c, "label", KM_CELL_LABEL)->set = a->best;
        if (kind == KM_ASSIGNED_DISTANCES || !is_npy) add(c, "distance", KM_CELL_REAL);
        if (kind == KM_ASSIGNED_LABELS && !is_npy) add(c, "margin", KM_CELL_REAL);
    }
}

static int is_flat(const km_assigned *a, km_assigned_kind kind) {
    return kind == KM_ASSIGNED_DISTANCES || (kind == KM_ASSIGNED_LABELS && !a->clusters);
}

static km_status open_file(km_assigned *a, km_assigned_kind kind, int64_t rows) {
    km_assigned_file *file = &a->files[kind];
    unsigned formats = 1u << KM_SINK_CSV | 1u << KM_SINK_TSV;
    if (kind != KM_ASSIGNED_TABLE) formats |= 1u << KM_SINK_NPY;
    file->sink.format = KM_SINK_CSV;
    if (kind != KM_ASSIGNED_LINES)
        KM_TRY(km_sink_format_choose(&file->sink.format, file->path, formats, a->err));
    int64_t room = a->features + a->space->k + a->sets_count + 8;
    file->columns = calloc((size_t)room, sizeof *file->columns);
    file->names = calloc((size_t)room, NAME_SIZE);
    if (!file->columns || !file->names)
        return km_fail_memory(a->err, "the columns of a file", room * (int64_t)sizeof *file->columns);
    columns c = {.file = file};
    add_columns(&c, a, kind);
    // A table keeps the separator of its text, but where its name says another one; where decimals have a comma
    // semicolons separate what is new.
    km_sink_format format = file->sink.format;
    char separator = format == KM_SINK_CSV && a->decimal == ',' ? ';' : 0;
    if (kind == KM_ASSIGNED_TABLE && a->original && format == KM_SINK_CSV && a->original->separator != '\t')
        separator = a->original->separator;
    KM_TRY(km_sink_open(&file->sink, file->path, format, separator, file->columns, c.count, rows,
                        is_flat(a, kind), a->err));
    file->sink.threads = a->threads;
    if (a->decimal) file->sink.decimal = a->decimal;
    return KM_OK;
}

// Cells of the text ------------------------------------------------------------------------------------------

// A record for another separator: cells that hold it are quoted.
static int64_t change_separator(char *out, const km_record *record, char from, char to) {
    char *start = out;
    km_record cell;
    for (int64_t i = 0, at = 0; at <= record->size; i++) {
        km_record rest = {record->bytes + at, record->size - at, 0};
        if (!km_record_cell(&cell, &rest, from, 0)) break;
        at += cell.size + 1;
        if (i) *out++ = to;
        int is_plain =
            memchr(cell.bytes, '"', (size_t)cell.size) || !memchr(cell.bytes, to, (size_t)cell.size);
        if (!is_plain) *out++ = '"';
        memcpy(out, cell.bytes, (size_t)cell.size);
        out += cell.size;
        if (!is_plain) *out++ = '"';
    }
    return out - start;
}

static char id_separator(const km_assigned *a) {
    if (is_text_file(a, KM_ASSIGNED_LABELS)) return a->files[KM_ASSIGNED_LABELS].sink.separator;
    return ',';
}

// An id in quotes where either separator would ask for them, so that it fits each of the files.
static int64_t id_text(char *out, char *scratch, const km_record *record, const km_assigned *a) {
    km_record cell;
    if (!km_record_cell(&cell, record, a->original->separator, a->id_cell)) return 0;
    int64_t size = km_record_cell_text(scratch, &cell);
    for (const char *separator = "\t;,"; *separator; separator++)
        if (memchr(scratch, *separator, (size_t)size)) return km_quoted_cell(out, scratch, size, *separator);
    return km_quoted_cell(out, scratch, size, id_separator(a));
}

static km_status arena_reserve(km_assigned *a, int64_t bytes) {
    a->arena_size = 0;
    if (bytes <= a->arena_room) return KM_OK;
    free(a->arena);
    a->arena_room = 0;
    a->arena = malloc((size_t)bytes);
    if (!a->arena) return km_fail_memory(a->err, "cells that are copied", bytes);
    a->arena_room = bytes;
    return KM_OK;
}

static km_status copy_cells(km_assigned *a, int64_t count) {
    char from = a->original->separator, to = a->files[KM_ASSIGNED_TABLE].sink.separator;
    int changes = is_wanted(a, KM_ASSIGNED_TABLE) && from != to;
    int64_t bytes = 0, longest = 0;
    for (int64_t i = 0; i < count; i++) {
        bytes += 5 * a->records[i].size + 8;
        longest = a->records[i].size > longest ? a->records[i].size : longest;
    }
    KM_TRY(arena_reserve(a, bytes + longest + 1));
    char *at = a->arena + longest + 1; // before it: scratch
    for (int64_t i = 0; i < count; i++) {
        const km_record *record = &a->records[i];
        a->raw[i] = (km_span){record->bytes, record->size};
        if (changes) {
            a->raw[i] = (km_span){at, change_separator(at, record, from, to)};
            at += a->raw[i].size;
        }
        if (!a->id) continue;
        a->ids[i] = (km_span){at, id_text(at, a->arena, record, a)};
        at += a->ids[i].size;
    }
    return KM_OK;
}

static km_status write_names(km_assigned *a, km_assigned_kind kind) {
    km_sink *sink = &a->files[kind].sink;
    if (kind == KM_ASSIGNED_LINES) return KM_OK;
    if (kind != KM_ASSIGNED_TABLE || !a->original) {
        km_sink_names(sink, NULL);
        return KM_OK;
    }
    if (a->original->has_mark) km_file_add(&sink->file, "\xef\xbb\xbf", 3);
    if (!a->original->header.bytes) return KM_OK;
    KM_TRY(arena_reserve(a, 3 * a->original->header.size + 8));
    int64_t size = change_separator(a->arena, &a->original->header, a->original->separator, sink->separator);
    km_sink_names(sink, &(km_span){a->arena, size});
    return KM_OK;
}

// Walking ----------------------------------------------------------------------------------------------------

static int64_t chunk_rows(const km_assigned *a) {
    int64_t values = a->original ? 1 : a->features;
    if (is_wanted(a, KM_ASSIGNED_TRANSFORM) && a->space->k > values) values = a->space->k;
    return values > CHUNK_VALUES / CHUNK_ROWS ? CHUNK_VALUES / values + 1 : CHUNK_ROWS;
}

static km_status buffers_alloc(km_assigned *a) {
    int64_t rows = chunk_rows(a);
    int needs_points = is_wanted(a, KM_ASSIGNED_TABLE) && !a->original, failed = 0;
    if (needs_distances(a)) failed |= !(a->own = malloc((size_t)rows * sizeof *a->own));
    if (labels_need_distances(a)) failed |= !(a->margin = malloc((size_t)rows * sizeof *a->margin));
    if (is_wanted(a, KM_ASSIGNED_TRANSFORM))
        failed |= !(a->all = malloc((size_t)(rows * a->space->k) * sizeof *a->all));
    if (needs_points) failed |= !(a->points = malloc((size_t)(rows * a->features) * sizeof *a->points));
    if (a->original) {
        failed |= !(a->records = malloc((size_t)rows * sizeof *a->records));
        failed |= !(a->raw = malloc((size_t)rows * sizeof *a->raw));
        failed |= !(a->ids = malloc((size_t)rows * sizeof *a->ids));
    }
    return failed ? km_fail_memory(a->err, "rows that are written", rows * (a->features + a->space->k) * 8)
                  : KM_OK;
}

km_status km_assigned_begin(km_assigned *a, int64_t rows) {
    if (a->id)
        KM_TRY(km_original_find(&a->id_cell, a->original, a->id,
                                a->original->is_given ? "the table" : a->original->input.name, a->err));
    if (a->id) KM_TRY(km_original_name(&a->id_name, a->original, a->id_cell, "id", a->err));
    for (int kind = 0; kind < KM_ASSIGNED_COUNT; kind++)
        if (is_wanted(a, kind)) KM_TRY(open_file(a, kind, rows));
    KM_TRY(buffers_alloc(a));
    for (int kind = 0; kind < KM_ASSIGNED_COUNT; kind++)
        if (is_wanted(a, kind)) KM_TRY(write_names(a, kind));
    return KM_OK;
}

static void point_columns(km_assigned *a, km_assigned_kind kind, const int32_t *const *labels,
                          int64_t first) {
    km_assigned_file *file = &a->files[kind];
    int64_t feature = 0;
    for (int64_t c = 0; c < file->sink.columns_count; c++) {
        km_sink_column *column = &file->columns[c];
        switch (column->cell) {
        case KM_CELL_LABEL:
        case KM_CELL_PLAIN:
            column->values = labels[column->set] + first;
            break;
        case KM_CELL_TEXT:
            column->values = kind == KM_ASSIGNED_TABLE ? a->raw : a->ids;
            break;
        case KM_CELL_EXACT:
        case KM_CELL_SINGLE:
            column->values = a->points + feature++;
            column->stride = a->features;
            break;
        case KM_CELL_REAL:
            column->values = a->own;
            if (kind == KM_ASSIGNED_LABELS && c == file->sink.columns_count - 1) column->values = a->margin;
            if (kind != KM_ASSIGNED_TRANSFORM) break;
            column->values = a->all + column->set;
            column->stride = a->space->k;
            break;
        default:
            break;
        }
    }
}

km_status km_assigned_rows(km_assigned *a, const km_data *data, const int32_t *const *labels) {
    int64_t rows = km_data_rows(data), point = 0, count;
    int is_plain = !a->own && !a->original && !a->points; // labels alone need no chunks
    for (int64_t first = 0; first < rows; first += count) {
        count = km_min(is_plain ? rows : chunk_rows(a), rows - first);
        if (a->original) {
            KM_TRY(km_original_rows(a->records, &count, a->original, data, first, count, a->err));
            KM_TRY(copy_cells(a, count));
        }
        if (a->points) KM_TRY(km_data_read_rows(a->points, data, first, count, a->err));
        km_distances distances = {labels[a->best] + first, a->own, a->margin, a->all};
        if (a->own)
            KM_TRY(km_distances_make(&distances, a->space, data, first, count, &point, a->threads, a->err));
        for (int64_t i = 0; a->wants_inertia && i < count; i++)
            if (!isnan(a->own[i])) a->inertia += a->own[i] * a->own[i];
        for (int kind = 0; kind < KM_ASSIGNED_COUNT; kind++) {
            if (!is_wanted(a, kind)) continue;
            point_columns(a, kind, labels, first);
            KM_TRY(km_sink_rows(&a->files[kind].sink, count));
        }
    }
    return KM_OK;
}

km_status km_assigned_end(km_assigned *a) {
    km_status status = KM_OK;
    for (int kind = 0; kind < KM_ASSIGNED_COUNT; kind++) { // one that fails loses no other
        km_status own = is_wanted(a, kind) ? km_sink_close(&a->files[kind].sink) : KM_OK;
        if (status == KM_OK) status = own;
    }
    return status;
}

void km_assigned_free(km_assigned *a) {
    for (int kind = 0; kind < KM_ASSIGNED_COUNT; kind++) {
        km_sink_abandon(&a->files[kind].sink);
        free(a->files[kind].columns);
        free(a->files[kind].names);
    }
    free(a->id_name);
    free(a->own);
    free(a->margin);
    free(a->all);
    free(a->points);
    free(a->records);
    free(a->raw);
    free(a->ids);
    free(a->arena);
}

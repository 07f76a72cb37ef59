// SPDX-License-Identifier: MIT
#include "records.h"
#include "../../base/error.h"
#include "../memory.h"

#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 20 };

struct km_records {
    km_input *input;
    const char *file;
    char separator;
    int has_mark, is_at_end;
    char *buffer;
    int64_t from, size, room; // bytes that no record took yet: buffer[from .. size)
    int64_t line;
    km_record *batch;
    int64_t batch_room;
};

static km_status reserve(km_records *r, int64_t bytes, km_error *err) {
    if (r->from > 0) {
        memmove(r->buffer, r->buffer + r->from, (size_t)(r->size - r->from));
        r->size -= r->from;
        r->from = 0;
    }
    if (r->size + bytes <= r->room) return KM_OK;
    int64_t room = 2 * (r->size + bytes);
    KM_TRY(km_host_check("a record of text", room, err));
    char *buffer = realloc(r->buffer, (size_t)room);
    if (!buffer) return km_fail_memory(err, "a record of text", room);
    r->buffer = buffer;
    r->room = room;
    return KM_OK;
}

static km_status read_more(km_records *r, km_error *err) {
    int64_t got;
    KM_TRY(reserve(r, READ_BYTES, err));
    KM_TRY(km_input_fill(&got, r->buffer + r->size, READ_BYTES, r->input, err));
    r->size += got;
    r->is_at_end = got < READ_BYTES;
    return KM_OK;
}

km_status km_records_create(km_records **out, km_input *input, char separator, km_error *err) {
    km_records *r = *out = calloc(1, sizeof *r);
    if (!r) return km_fail_memory(err, "records of text", sizeof *r);
    r->file = input->name;
    r->input = input;
    r->line = 1;
    km_status status;
    KM_TRY_GOTO(read_more(r, err));
    KM_TRY_GOTO(km_text_check((unsigned char *)r->buffer, r->size, input->name, err));
    r->has_mark = r->size >= 3 && memcmp(r->buffer, "\xef\xbb\xbf", 3) == 0;
    r->from = r->has_mark ? 3 : 0;
    r->separator = separator;
    if (!separator) r->separator = km_text_separator((unsigned char *)r->buffer, r->size);
    return KM_OK;
done:
    km_records_destroy(out);
    return status;
}

void km_records_destroy(km_records **records) {
    km_records *r = *records;
    if (!r) return;
    free(r->buffer);
    free(r->batch);
    free(r);
    *records = NULL;
}

char km_records_separator(const km_records *records) {
    return records->separator;
}

int km_records_has_mark(const km_records *records) {
    return records->has_mark;
}

// Splitting --------------------------------------------------------------------------------------------------

// The line end that ends the record at `at`, or NULL where it may lie behind `end`. *newlines: inside of quotes.
static const char *find_end(int64_t *newlines, const char *at, const char *end) {
    const char *from = at;
    int is_quoted = 0;
    *newlines = 0;
    for (;;) {
        const char *newline = memchr(from, '\n', (size_t)(end - from)), *stop = newline ? newline : end;
        const char *first_return = memchr(from, '\r', (size_t)(stop - from));
        if (!is_quoted && !memchr(from, '"', (size_t)(stop - from)))
            return first_return ? first_return : newline;
        for (; from < stop; from++) {
            is_quoted ^= *from == '"';
            if (*from == '\r' && !is_quoted) return from;
        }
        if (!newline || !is_quoted) return newline;
        ++*newlines;
        from = newline + 1;
    }
}

static int is_blank(const km_record *record, char separator) {
    for (int64_t i = 0; i < record->size; i++)
        if (record->bytes[i] == separator || (record->bytes[i] != ' ' && record->bytes[i] != '\t')) return 0;
    return 1;
}

// The next record of what is in memory; 0: more must be read, or there is none.
static int take(km_record *out, km_records *r, int64_t from, int64_t *next) {
    const char *at = r->buffer + from, *end = r->buffer + r->size;
    int64_t newlines;
    if (at == end) return 0;
    const char *stop = find_end(&newlines, at, end);
    // A carriage return may be the first half of a line end.
    if (!r->is_at_end && (!stop || (*stop == '\r' && stop + 1 == end))) return 0;
    *out = (km_record){at, (stop ? stop : end) - at, r->line};
    *next = stop ? stop + 1 - r->buffer : r->size;
    if (stop && *stop == '\r' && stop + 1 < end && stop[1] == '\n') ++*next;
    r->line += 1 + newlines;
    return 1;
}

static km_status batch_reserve(km_records *r, int64_t count, km_error *err) {
    if (count <= r->batch_room) return KM_OK;
    km_record *batch = realloc(r->batch, (size_t)count * sizeof *batch);
    if (!batch) return km_fail_memory(err, "records of text", count * (int64_t)sizeof *batch);
    r->batch = batch;
    r->batch_room = count;
    return KM_OK;
}

km_status km_records_next(const km_record **out, int64_t *count, km_records *r, int64_t count_max,
                          int64_t bytes_max, km_error *err) {
    *count = 0;
    KM_TRY(batch_reserve(r, count_max, err));
    while (!r->is_at_end && r->size - r->from < bytes_max) KM_TRY(read_more(r, err));
    for (int64_t next = r->from; *count < count_max;) {
        km_record record;
        if (take(&record, r, next, &next)) {
            if (is_blank(&record, r->separator)) {
                if (*count == 0) r->from = next;
                continue;
            }
            r->batch[(*count)++] = record;
            r->from = next;
            if (record.bytes + record.size - r->batch->bytes >= bytes_max) break;
        } else if (*count > 0 || r->is_at_end) {
            break;
        } else { // one record that is longer than what was read
            KM_TRY(read_more(r, err));
            next = r->from;
        }
    }
    *out = r->batch;
    return KM_OK;
}

// Cells ------------------------------------------------------------------------------------------------------

int km_record_cell(km_record *cell, const km_record *record, char separator, int64_t index) {
    const char *at = record->bytes, *end = at + record->size;
    for (int64_t i = 0;; i++) {
        const char *start = at;
        for (int is_quoted = 0; at < end && (is_quoted || *at != separator); at++) is_quoted ^= *at == '"';
        if (i == index) {
            *cell = (km_record){start, at - start, record->line};
            return 1;
        }
        if (at == end) return 0;
        at++;
    }
}

int64_t km_record_cell_text(char *out, const km_record *cell) {
    const char *at = cell->bytes, *end = at + cell->size;
    int64_t size = 0;
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t')) end--;
    int is_quoted = end - at >= 2 && *at == '"';
    for (at += is_quoted, end -= is_quoted; at < end; at++) {
        out[size++] = *at;
        if (is_quoted && *at == '"' && at + 1 < end && at[1] == '"') at++;
    }
    return size;
}

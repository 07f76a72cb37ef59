// SPDX-License-Identifier: MIT
#include "original.h"
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../base/text.h"
#include "../../gen/spec_fields.h"
#include "../data_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BATCH_RECORDS = 1 << 15, BATCH_BYTES = 1 << 21 };

static km_status next_batch(km_original *s, km_error *err) {
    s->at = 0;
    s->count = 0;
    if (!s->records) return KM_OK;
    return km_records_next(&s->batch, &s->count, s->records, BATCH_RECORDS, BATCH_BYTES, err);
}

km_status km_original_set_header(km_original *s, const km_record *header, km_error *err) {
    s->header_copy = malloc((size_t)header->size + 1);
    if (!s->header_copy) return km_fail_memory(err, "the header", header->size);
    memcpy(s->header_copy, header->bytes, (size_t)header->size);
    s->header = (km_record){s->header_copy, header->size, header->line};
    return KM_OK;
}

km_status km_original_open(km_original *s, const km_data *data, km_error *err) {
    const char *name = km_data_name(data);
    *s = (km_original){.separator = km_data_separator(data)};
    if (!s->separator) return km_fail(err, KM_ERROR_USAGE, "%s is no text, so it has no cells to copy", name);
    if (strcmp(name, "standard input") == 0)
        return km_fail(err, KM_ERROR_USAGE, "%s cannot be read a second time; write it to a file first",
                       name);
    struct stat info;
    if (stat(name, &info) == 0 && !S_ISREG(info.st_mode)) // opening it could wait for ever
        return km_fail(err, KM_ERROR_USAGE,
                       "%s is a pipe and cannot be read a second time; write it to a file first", name);
    KM_TRY(km_input_open(&s->input, name, err));
    s->is_open = 1;
    km_status status;
    KM_TRY_GOTO(km_records_create(&s->records, &s->input, s->separator, err));
    s->has_mark = km_records_has_mark(s->records);
    KM_TRY_GOTO(next_batch(s, err));
    if (s->count && s->batch[0].line < km_data_line(data, 0))
        KM_TRY_GOTO(km_original_set_header(s, &s->batch[0], err));
    return KM_OK;
done:
    km_original_close(s);
    return status;
}

void km_original_close(km_original *s) {
    km_records_destroy(&s->records);
    if (s->is_open) km_input_close(&s->input);
    free(s->header_copy);
    *s = (km_original){0};
}

km_status km_original_rows(km_record *out, int64_t *count, km_original *s, const km_data *data, int64_t first,
                           int64_t count_max, km_error *err) {
    *count = 0;
    while (*count < count_max) {
        int64_t line = km_data_line(data, first + *count);
        while (s->at < s->count && s->batch[s->at].line < line) s->at++;
        if (s->at == s->count) {
            if (*count) break; // what was found lies in this batch
            KM_TRY(next_batch(s, err));
            if (s->count) continue;
            return km_fail(err, KM_ERROR_DATA,
                           "%s: row %" PRId64 " is not there any more; use a copy that nothing writes to",
                           km_data_name(data), line);
        }
        int is_there = s->batch[s->at].line == line;
        out[(*count)++] = is_there ? s->batch[s->at++] : (km_record){"", 0, line};
    }
    return KM_OK;
}

km_status km_original_name(char **out, const km_original *s, int64_t cell, const char *otherwise,
                           km_error *err) {
    km_record found;
    int64_t room = (s->header.bytes ? s->header.size : 0) + (int64_t)strlen(otherwise) + 1;
    *out = malloc((size_t)room);
    if (!*out) return km_fail_memory(err, "a name", room);
    strcpy(*out, otherwise);
    if (!s->header.bytes || !km_record_cell(&found, &s->header, s->separator, cell)) return KM_OK;
    (*out)[km_record_cell_text(*out, &found)] = 0;
    return KM_OK;
}

// Cells by name ----------------------------------------------------------------------------------------------

// "a, b and c" of the header, cut to fit a sentence.
static km_status list_cells(char **out, const km_original *s, km_error *err) {
    enum { LONGEST = 400 };
    km_text text = {0};
    km_record cell;
    char *name = malloc((size_t)s->header.size + 1);
    for (int64_t i = 0; name && km_record_cell(&cell, &s->header, s->separator, i); i++) {
        int is_full = text.size > LONGEST;
        int64_t size = km_record_cell_text(name, &cell);
        km_text_printf(&text, "%s%.*s", i ? ", " : "", (int)(is_full ? 3 : km_min(size, 80)),
                       is_full ? "..." : name);
        if (is_full) break;
    }
    free(name);
    return km_text_take(out, &text, err);
}

static km_status unknown(const km_original *s, const char *name, const char *file, km_error *err) {
    char got[KM_QUOTED_SIZE], *list;
    if (!s->header.bytes)
        return km_fail(err, KM_ERROR_USAGE, "%s has no header, so its columns are named by number, not %s",
                       file, km_quoted(got, name));
    KM_TRY(list_cells(&list, s, err));
    km_status status =
        km_fail(err, KM_ERROR_USAGE, "%s has no column %s; it has %s", file, km_quoted(got, name), list);
    km_text_free(list);
    return status;
}

km_status km_original_find(int64_t *cell, const km_original *s, const char *name, const char *file,
                           km_error *err) {
    km_record found, first = s->header.bytes ? s->header : s->count ? s->batch[0] : (km_record){"", 0, 1};
    char *text = malloc((size_t)first.size + 1);
    if (!text) return km_fail_memory(err, "a header", first.size);
    int64_t count = 0, number;
    *cell = -1;
    for (; km_record_cell(&found, &first, s->separator, count); count++) {
        int64_t size = km_record_cell_text(text, &found);
        if (*cell < 0 && s->header.bytes && size == (int64_t)strlen(name) &&
            memcmp(text, name, (size_t)size) == 0)
            *cell = count;
    }
    free(text);
    if (*cell < 0 && km_integer_parse(&number, name) && number >= 1 && number <= count) *cell = number - 1;
    return *cell >= 0 ? KM_OK : unknown(s, name, file, err);
}

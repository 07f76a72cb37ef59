// SPDX-License-Identifier: MIT
// The table of readers, and the choice among them.
#include "reader.h"
#include "../../base/error.h"
#include "rows.h"
#include "unpack.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define SNIFF_SNIFFED(name) km_##name##_sniff
#define SNIFF_UNSNIFFED(name) NULL
#define ROW(name, sniffed, has_parts, ...)                                                                   \
    {#name, {__VA_ARGS__}, SNIFF_##sniffed(name), km_##name##_open, has_parts},
static const km_reader readers[] = {KM_READERS(ROW)};
enum { READERS_COUNT = sizeof readers / sizeof *readers };

const char *km_data_format_name(int64_t i) {
    return i >= 0 && i < READERS_COUNT ? readers[i].name : NULL;
}

// "npy, npz or csv"
enum { LIST_SIZE = 256 };
static const char *list_formats(char out[LIST_SIZE]) {
    size_t used = 0;
    for (int i = 0; i < READERS_COUNT && used < LIST_SIZE; i++)
        used += (size_t)snprintf(out + used, LIST_SIZE - used, "%s%s",
                                 i == 0                   ? ""
                                 : i == READERS_COUNT - 1 ? " or "
                                                          : ", ",
                                 readers[i].name);
    return out;
}

static int ends_with(const char *text, size_t size, const char *end) {
    size_t end_size = strlen(end);
    return size > end_size && strncasecmp(text + size - end_size, end, end_size) == 0;
}

static const km_reader *by_name(const char *name) {
    for (const km_reader *reader = readers; reader < readers + READERS_COUNT; reader++)
        if (strcmp(reader->name, name) == 0) return reader;
    return NULL;
}

static const km_reader *by_extension(const char *path, size_t size) {
    size = km_packing_strip(path, size);
    for (const km_reader *reader = readers; reader < readers + READERS_COUNT; reader++)
        for (int i = 0; i < 3 && reader->extensions[i]; i++)
            if (ends_with(path, size, reader->extensions[i])) return reader;
    return NULL;
}

const char *km_data_format(const char *path) {
    const km_reader *reader = by_extension(path, strlen(path));
    for (const char *colon = strchr(path, ':'); colon && !reader; colon = strchr(colon + 1, ':')) {
        reader = by_extension(path, (size_t)(colon - path)); // FILE:PART
        if (reader && !reader->has_parts) reader = by_name("npy");
    }
    return reader ? reader->name : NULL;
}

static const km_reader *by_content(const km_input *input) {
    for (const km_reader *reader = readers; reader < readers + READERS_COUNT; reader++)
        if (reader->sniff && reader->sniff(input)) return reader;
    return NULL;
}

static km_status reader_of(const km_reader **out, const km_data_params *params, km_error *err) {
    char formats[LIST_SIZE];
    *out = params->format ? by_name(params->format) : NULL;
    if (*out || !params->format) return KM_OK;
    return km_fail(err, KM_ERROR_USAGE, "the format must be %s, got \"%.40s\"", list_formats(formats),
                   params->format);
}

static km_status read_table(km_table *table, const km_reader *reader, km_input *input,
                            const km_data_params *params, km_error *err) {
    km_status status = reader->open(table, input, params, err);
    if (km_table_is_lost(table)) status = km_table_check(table, input->name, err);
    if (status != KM_OK) km_table_clear(table);
    return status;
}

// How many of the first bytes are those of empty lines.
static int64_t blank_bytes(const km_input *input) {
    int64_t i = 0;
    while (i < input->head_size && (km_is_blank(input->head[i]) || input->head[i] == '\n')) i++;
    return i;
}

// First bytes that are empty lines say nothing: in a file, those behind them do.
static km_status look_behind_blanks(const km_reader **out, const km_input *input, km_error *err) {
    char formats[LIST_SIZE];
    km_input behind = *input;
    int64_t at = input->offset, blanks = 1;
    for (behind.head_size = 0; input->is_regular && blanks > 0; at += blanks) {
        ssize_t got = pread(input->fd, behind.head, sizeof behind.head, at);
        behind.head_size = got > 0 ? got : 0;
        blanks = blank_bytes(&behind);
    }
    if (behind.head_size > 0) *out = by_content(&behind);
    if (*out) return KM_OK;
    return km_fail(err, KM_ERROR_DATA,
                   "%s: cannot tell what this holds, as it begins with empty lines; name the format: %s",
                   input->name, list_formats(formats));
}

// params->format, else by the file's extension, else by content.
static km_status choose_reader(const km_reader **out, const km_input *input, const km_data_params *params,
                               km_error *err) {
    const char *file = km_input_file(input);
    char formats[LIST_SIZE];
    KM_TRY(reader_of(out, params, err));
    if (!*out) *out = by_extension(file, strlen(file));
    if (!*out) KM_TRY(km_foreign_refuse(input, err));
    if (!*out && blank_bytes(input) == (int64_t)sizeof input->head)
        KM_TRY(look_behind_blanks(out, input, err));
    if (!*out) *out = by_content(input);
    if (!*out)
        return km_fail(err, KM_ERROR_DATA, "%s: cannot tell what this holds; name the format: %s",
                       input->name, list_formats(formats));
    if (!input->part || (*out)->has_parts) return KM_OK;
    return km_fail(err, KM_ERROR_DATA, "%s has no parts that a colon could name; give %s", input->name,
                   input->file);
}

const char *km_input_format(const km_input *input, const km_data_params *params, km_error *err) {
    const km_reader *reader;
    return choose_reader(&reader, input, params, err) == KM_OK ? reader->name : NULL;
}

km_status km_table_read_input(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    const km_reader *reader;
    *table = (km_table){0};
    KM_TRY(reader_of(&reader, params, err));
    return read_table(table, reader, input, params, err);
}

km_status km_table_open(km_table *table, const char *path, const km_data_params *params,
                        const struct km_text_part *part, km_error *err) {
    const km_reader *reader;
    km_input input;
    *table = (km_table){0};
    KM_TRY(reader_of(&reader, params, err));
    KM_TRY(km_input_open(&input, path, err));
    input.part_of_rows = part;
    km_status status = choose_reader(&reader, &input, params, err);
    if (status == KM_OK) status = read_table(table, reader, &input, params, err);
    km_input_close(&input);
    return status;
}

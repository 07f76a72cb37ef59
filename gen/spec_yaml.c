// SPDX-License-Identifier: MIT
// Reads a spec from YAML. libyaml's events carry the place of everything, so each refusal names
// file:line:column; the sentences after it come from the setters of gen/spec.c.
#include "../base/error.h"
#include "../base/text.h"
#include "old_names.h"
#include "params.h"
#include "spec_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

// A spec is a page of text; anything longer is another file by mistake.
enum { SPEC_BYTES_MAX = 1 << 20 };

// Lines on which each key of a map was first seen, 0: not yet.
enum { KEYS_MAX = 64 };
typedef struct seen {
    size_t lines[KEYS_MAX];
} seen;
_Static_assert(KM_PARAM_COUNT + 1 <= KEYS_MAX && KM_SPEC_FIELDS_COUNT + 1 <= KEYS_MAX, "a line for each key");

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; // the last one read; zero before the first
    const char *path;
    km_error *err;
    km_spec spec;
} reader;

static km_status fail_at(const reader *r, size_t line, size_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// line and column count from 0, as libyaml's do.
static km_status fail_at(const reader *r, size_t line, size_t column, const char *format, ...) {
    char sentence[768];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return km_fail(r->err, KM_ERROR_SPEC, "%.200s:%zu:%zu: %s", r->path, line + 1, column + 1, sentence);
}

#define FAIL_HERE(r, ...) fail_at(r, (r)->event.start_mark.line, (r)->event.start_mark.column, __VA_ARGS__)

// Bytes ------------------------------------------------------------------------------------------------------

// Size of the UTF-8 character at `text`, 0 when it is none: overlong, a surrogate, cut short, beyond U+10FFFF.
static int character_size(uint32_t *code, const unsigned char *text, int64_t size) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int count = *text < 0x80   ? 1
                : *text < 0xc0 ? 0
                : *text < 0xe0 ? 2
                : *text < 0xf0 ? 3
                : *text < 0xf8 ? 4
                               : 0;
    if (count == 0 || count > size) return 0;
    *code = count == 1 ? *text : *text & (0x7fu >> count);
    for (int i = 1; i < count; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (text[i] & 0x3f);
    }
    if (*code < least[count] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff)) return 0;
    return count;
}

static int is_control(uint32_t code) {
    return (code < 32 && code != '\n' && code != '\r') || (code >= 0x7f && code < 0xa0 && code != 0x85) ||
           code == 0xfeff || code == 0xfffe || code == 0xffff;
}

// Checks the characters before libyaml does, whose own messages name no line for these.
static km_status check_characters(const reader *r, const unsigned char *text, int64_t size) {
    size_t line = 0, column = 0;
    int in_comment = 0;
    uint32_t before = '\n', code = 0;
    for (int64_t at = 0; at < size; before = code) {
        int count = character_size(&code, text + at, size - at);
        if (!count)
            return fail_at(r, line, column, "the byte 0x%02x is not UTF-8; save the spec as UTF-8", text[at]);
        if (code == '#' && (before == ' ' || before == '\t' || column == 0)) in_comment = 1;
        if (code == '\t' && !in_comment)
            return fail_at(r, line, column, "a tab is not allowed here; indent and separate with spaces");
        if (code != '\t' && is_control(code))
            return fail_at(r, line, column,
                           "the control character U+%04X is not allowed; is this a text file?",
                           (unsigned)code);
        if (code == '\n' || (code == '\r' && !(at + 1 < size && text[at + 1] == '\n'))) {
            line++;
            column = 0;
            in_comment = 0;
        } else {
            column++;
        }
        at += count;
    }
    return KM_OK;
}

// Events -----------------------------------------------------------------------------------------------------

static km_status yaml_failed(const reader *r) {
    const yaml_parser_t *parser = &r->parser;
    if (parser->error == YAML_MEMORY_ERROR) return km_fail_memory(r->err, "the spec", 0);
    const char *problem = parser->problem ? parser->problem : "it cannot be read";
    return fail_at(r, parser->problem_mark.line, parser->problem_mark.column, "this is not YAML: %s%s%s",
                   problem, parser->context ? " " : "", parser->context ? parser->context : "");
}

static km_status next(reader *r) {
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event)) return yaml_failed(r);
    const yaml_event_t *event = &r->event;
    const void *anchor = NULL, *tag = NULL;
    if (event->type == YAML_ALIAS_EVENT) {
        anchor = event->data.alias.anchor;
    } else if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor) return FAIL_HERE(r, "anchors (&) and aliases (*) are not allowed; write the value itself");
    if (tag) return FAIL_HERE(r, "tags (!) are not allowed; write the value alone");
    return KM_OK;
}

static const char *text_of(const reader *r) {
    return (const char *)r->event.data.scalar.value;
}

// What the event is, for "got ..."; `buffer` holds a scalar's text.
static const char *what_is(char buffer[KM_QUOTED_SIZE], const reader *r) {
    if (r->event.type == YAML_SEQUENCE_START_EVENT) return "a list";
    if (r->event.type == YAML_MAPPING_START_EVENT) return "a map";
    return *text_of(r) ? km_quoted(buffer, text_of(r)) : "nothing";
}

static int is_quoted(const reader *r) {
    yaml_scalar_style_t style = r->event.data.scalar.style;
    return style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
}

// Puts the place of the present event in front of a setter's sentence.
static km_status place(const reader *r, km_status status, const km_error *inner) {
    if (status == KM_OK) return KM_OK;
    if (status != KM_ERROR_SPEC) return km_fail(r->err, status, "%s", inner->text);
    return FAIL_HERE(r, "%s", inner->text);
}

// Values -----------------------------------------------------------------------------------------------------

static km_status need_value(const reader *r, const char *key, int is_integer) {
    char got[KM_QUOTED_SIZE];
    if (r->event.type != YAML_SCALAR_EVENT)
        return FAIL_HERE(r, "%s must be a single value, got %s", key, what_is(got, r));
    if (is_integer && is_quoted(r))
        return FAIL_HERE(r, "%s must be a number without quotes, got %s", key, what_is(got, r));
    return KM_OK;
}

static km_status read_clusters_list(reader *r) {
    int64_t numbers[KM_RANGE_MAX];
    unsigned char taken[KM_CLUSTERS_MAX / 8 + 1] = {0};
    int64_t count = 0;
    km_error inner = {0};
    yaml_mark_t start = r->event.start_mark;
    KM_TRY(next(r));
    for (; r->event.type != YAML_SEQUENCE_END_EVENT; count++) {
        char got[KM_QUOTED_SIZE];
        int64_t k;
        if (r->event.type != YAML_SCALAR_EVENT || is_quoted(r) || !km_integer_parse(&k, text_of(r)))
            return FAIL_HERE(r, "clusters must be a list of numbers like [3, 5, 8], got %s in it",
                             what_is(got, r));
        KM_TRY(place(r, km_spec_check_cluster(k, &inner), &inner));
        if (taken[k / 8] >> (k % 8) & 1)
            return FAIL_HERE(r, "clusters must be different from each other, got %" PRId64 " twice", k);
        if (count == KM_RANGE_MAX)
            return FAIL_HERE(r, "clusters must name at most %d K, got more", KM_RANGE_MAX);
        taken[k / 8] |= (unsigned char)(1u << (k % 8));
        numbers[count] = k;
        KM_TRY(next(r));
    }
    r->event.start_mark = start; // of an empty list
    return place(r, km_spec_take_clusters(&r->spec, numbers, count, &inner), &inner);
}

static km_status read_field(reader *r, const km_spec_field *field) {
    if (strcmp(field->key, "clusters") == 0 && r->event.type == YAML_SEQUENCE_START_EVENT)
        return read_clusters_list(r);
    KM_TRY(need_value(r, field->key, field->is_integer));
    km_error inner = {0};
    return place(r, field->set(&r->spec, text_of(r), &inner), &inner);
}

// Today's name for the one at the present event.
static const char *today(reader *r, const char *where, const char *name) {
    char place[256];
    const yaml_mark_t *mark = &r->event.start_mark;
    snprintf(place, sizeof place, "%.200s:%zu:%zu: ", r->path, mark->line + 1, mark->column + 1);
    return km_name_today(&r->spec, where, name, place);
}

// Maps -------------------------------------------------------------------------------------------------------

// Checks that the event is a key that was not given before, and copies it: the next event replaces it.
static km_status read_key(const reader *r, char key[KM_NAME_MAX]) {
    char got[KM_QUOTED_SIZE];
    if (r->event.type != YAML_SCALAR_EVENT)
        return FAIL_HERE(r, "a key must be a word, got %s", what_is(got, r));
    if (r->event.data.scalar.length >= KM_NAME_MAX) return FAIL_HERE(r, "unknown key %s", what_is(got, r));
    memcpy(key, text_of(r), r->event.data.scalar.length + 1);
    return KM_OK;
}

static km_status note_key(const reader *r, seen *before, int index, const char *key) {
    if (before->lines[index])
        return FAIL_HERE(r, "%s is given twice, first in line %zu; keep one", key, before->lines[index]);
    before->lines[index] = r->event.start_mark.line + 1;
    return KM_OK;
}

static int find_field(const char *key) {
    for (int i = 0; i < KM_SPEC_FIELDS_COUNT; i++)
        if (strcmp(key, km_spec_fields[i].key) == 0) return i;
    return -1;
}

static int find_plan_key(const char *key) {
    for (int i = 0; km_spec_plan_key(i); i++)
        if (strcmp(key, km_spec_plan_key(i)) == 0) return i;
    return -1;
}

static km_status read_plan(reader *r) {
    seen before = {0};
    char got[KM_QUOTED_SIZE];
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return FAIL_HERE(r, "plan must be a map of numbers such as block: 256, got %s", what_is(got, r));
    for (;;) {
        char word[KM_NAME_MAX];
        km_error inner = {0};
        KM_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return KM_OK;
        KM_TRY(read_key(r, word));
        const char *key = today(r, "plan", word);
        int index = find_plan_key(key);
        if (index < 0 && find_field(key) >= 0)
            return FAIL_HERE(r, "%s does not belong under plan; write it without indentation", key);
        if (index < 0) return place(r, km_spec_fix(&r->spec, key, "", &inner), &inner);
        KM_TRY(note_key(r, &before, index, key));
        KM_TRY(next(r));
        KM_TRY(need_value(r, key, index > 0));
        KM_TRY(place(r, km_spec_fix(&r->spec, key, today(r, key, text_of(r)), &inner), &inner));
    }
}

static km_status unknown_key(const reader *r, const char *key) {
    if (find_plan_key(key) >= 0) return FAIL_HERE(r, "%s belongs under plan; write it there, indented", key);
    const char *words[KM_SPEC_FIELDS_COUNT + 2] = {0};
    for (int i = 0; i < KM_SPEC_FIELDS_COUNT; i++) words[i] = km_spec_fields[i].key;
    words[KM_SPEC_FIELDS_COUNT] = "plan";
    char got[KM_QUOTED_SIZE];
    const char *similar = km_suggest(key, words);
    if (similar) return FAIL_HERE(r, "unknown key %s; did you mean %s?", km_quoted(got, key), similar);
    km_text all = {0};
    for (int i = 0; words[i]; i++) km_text_printf(&all, "%s%s", i ? ", " : "", words[i]);
    km_status status = FAIL_HERE(r, "unknown key %s; a spec has the keys %s", km_quoted(got, key),
                                 all.failed ? "of docs/spec.md" : all.data);
    km_text_clear(&all);
    return status;
}

static km_status read_root(reader *r) {
    seen before = {0};
    char got[KM_QUOTED_SIZE];
    int is_empty = r->event.type == YAML_SCALAR_EVENT && !*text_of(r) && !is_quoted(r);
    if (is_empty) return FAIL_HERE(r, "the spec is empty; it needs keys such as clusters: 2..12");
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return FAIL_HERE(r, "a spec must be a map of keys such as clusters: 2..12, got %s", what_is(got, r));
    for (;;) {
        char word[KM_NAME_MAX];
        KM_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return KM_OK;
        KM_TRY(read_key(r, word));
        const char *key = today(r, "spec", word);
        int index = find_field(key);
        int is_plan = strcmp(key, "plan") == 0;
        if (index < 0 && !is_plan) return unknown_key(r, key);
        KM_TRY(note_key(r, &before, is_plan ? KM_SPEC_FIELDS_COUNT : index, key));
        KM_TRY(next(r));
        KM_TRY(is_plan ? read_plan(r) : read_field(r, &km_spec_fields[index]));
    }
}

static km_status read_stream(reader *r) {
    KM_TRY(next(r)); // stream start
    KM_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return fail_at(r, 0, 0, "the spec is empty; it needs keys such as clusters: 2..12");
    KM_TRY(next(r)); // after the document's start
    KM_TRY(read_root(r));
    KM_TRY(next(r)); // document end
    KM_TRY(next(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return FAIL_HERE(r, "a spec must be one document, got a second one; keep each in a file of its own");
    return KM_OK;
}

km_status km_spec_parse(km_spec *spec, const char *text, int64_t size, const char *path, km_error *err) {
    reader r = {.path = path, .err = err};
    if (size < 0)
        return km_fail(err, KM_ERROR_USAGE, "%.200s: a text cannot have %" PRId64 " bytes", path, size);
    if (size > SPEC_BYTES_MAX)
        return km_fail(err, KM_ERROR_SPEC, "%.200s:1:1: a spec must have at most %d bytes, got %" PRId64,
                       path, SPEC_BYTES_MAX, size);
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { // the byte order mark that some editors write
        text += 3;
        size -= 3;
    }
    KM_TRY(check_characters(&r, (const unsigned char *)text, size));
    if (!yaml_parser_initialize(&r.parser)) return km_fail_memory(err, "the spec", 0);
    km_spec_init(&r.spec);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, (size_t)size);
    km_status status = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    if (status != KM_OK) {
        km_spec_clear(&r.spec);
        return status;
    }
    km_spec_clear(spec);
    *spec = r.spec;
    return KM_OK;
}

km_status km_spec_read(km_spec *spec, const char *path, km_error *err) {
    FILE *stream = fopen(path, "rb");
    if (!stream) return km_fail(err, KM_ERROR_IO, "cannot read %.200s: %s", path, strerror(errno));
    km_text text = {0};
    char chunk[4096];
    size_t got;
    while (!text.failed && text.size <= SPEC_BYTES_MAX && (got = fread(chunk, 1, sizeof chunk, stream)) > 0)
        km_text_add(&text, chunk, (int64_t)got);
    int reason = ferror(stream) ? errno : 0;
    fclose(stream);
    km_status status;
    if (text.failed)
        status = km_fail_memory(err, "the spec", text.size);
    else if (reason)
        status = km_fail(err, KM_ERROR_IO, "cannot read %.200s: %s", path, strerror(reason));
    else
        status = km_spec_parse(spec, text.data ? text.data : "", text.size, path, err);
    km_text_clear(&text);
    return status;
}

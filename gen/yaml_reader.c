// SPDX-License-Identifier: MIT
#include "yaml_reader.h"
#include "../base/text.h"
#include "spec_fields.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

km_status km_yaml_fail_at(const km_yaml *r, size_t line, size_t column, const char *format, ...) {
    char sentence[768];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return km_fail(r->err, KM_ERROR_SPEC, "%.200s:%zu:%zu: %s", r->path, line + 1, column + 1, sentence);
}

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
static km_status check_characters(const km_yaml *r, const unsigned char *text, int64_t size) {
    size_t line = 0, column = 0;
    int in_comment = 0;
    uint32_t before = '\n', code = 0;
    for (int64_t at = 0; at < size; before = code) {
        int count = character_size(&code, text + at, size - at);
        if (!count)
            return km_yaml_fail_at(r, line, column, "the byte 0x%02x is not UTF-8; save the %s as UTF-8",
                                   text[at], r->what);
        if (code == '#' && (before == ' ' || before == '\t' || column == 0)) in_comment = 1;
        if (code == '\t' && !in_comment)
            return km_yaml_fail_at(r, line, column,
                                   "a tab is not allowed here; indent and separate with spaces");
        if (code != '\t' && is_control(code))
            return km_yaml_fail_at(r, line, column,
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

static km_status yaml_failed(const km_yaml *r) {
    const yaml_parser_t *parser = &r->parser;
    if (parser->error == YAML_MEMORY_ERROR) return km_fail_memory(r->err, "what reads YAML", 0);
    const char *problem = parser->problem ? parser->problem : "it cannot be read";
    return km_yaml_fail_at(r, parser->problem_mark.line, parser->problem_mark.column,
                           "this is not YAML: %s%s%s", problem, parser->context ? " " : "",
                           parser->context ? parser->context : "");
}

km_status km_yaml_next(km_yaml *r) {
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
    if (anchor) return KM_YAML_FAIL(r, "anchors (&) and aliases (*) are not allowed; write the value itself");
    if (tag) return KM_YAML_FAIL(r, "tags (!) are not allowed; write the value alone");
    return KM_OK;
}

const char *km_yaml_text(const km_yaml *r) {
    return (const char *)r->event.data.scalar.value;
}

const char *km_yaml_what_is(char *buffer, const km_yaml *r) {
    if (r->event.type == YAML_SEQUENCE_START_EVENT) return "a list";
    if (r->event.type == YAML_MAPPING_START_EVENT) return "a map";
    return *km_yaml_text(r) ? km_quoted(buffer, km_yaml_text(r)) : "nothing";
}

int km_yaml_is_quoted(const km_yaml *r) {
    yaml_scalar_style_t style = r->event.data.scalar.style;
    return style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
}

km_status km_yaml_place(const km_yaml *r, km_status status, const km_error *inner) {
    if (status == KM_OK) return KM_OK;
    if (status != KM_ERROR_SPEC) return km_fail(r->err, status, "%s", inner->text);
    return KM_YAML_FAIL(r, "%s", inner->text);
}

km_status km_yaml_need_value(const km_yaml *r, const char *key, int is_number) {
    char got[KM_QUOTED_SIZE];
    if (r->event.type != YAML_SCALAR_EVENT)
        return KM_YAML_FAIL(r, "%s must be a single value, got %s", key, km_yaml_what_is(got, r));
    if (is_number && km_yaml_is_quoted(r))
        return KM_YAML_FAIL(r, "%s must be a number without quotes, got %s", key, km_yaml_what_is(got, r));
    return KM_OK;
}

// Keys -------------------------------------------------------------------------------------------------------

km_status km_yaml_key(const km_yaml *r, char key[KM_NAME_MAX]) {
    char got[KM_QUOTED_SIZE];
    if (r->event.type != YAML_SCALAR_EVENT)
        return KM_YAML_FAIL(r, "a key must be a word, got %s", km_yaml_what_is(got, r));
    if (r->event.data.scalar.length >= KM_NAME_MAX)
        return KM_YAML_FAIL(r, "unknown key %s", km_yaml_what_is(got, r));
    memcpy(key, km_yaml_text(r), r->event.data.scalar.length + 1);
    return KM_OK;
}

km_status km_yaml_note_key(const km_yaml *r, km_yaml_seen *before, int index, const char *key) {
    if (before->lines[index])
        return KM_YAML_FAIL(r, "%s is given twice, first in line %zu; keep one", key, before->lines[index]);
    before->lines[index] = r->event.start_mark.line + 1;
    return KM_OK;
}

km_status km_yaml_unknown_key(const km_yaml *r, const char *key, const char *const *keys) {
    char got[KM_QUOTED_SIZE];
    const char *similar = km_suggest(key, keys);
    if (similar) return KM_YAML_FAIL(r, "unknown key %s; did you mean %s?", km_quoted(got, key), similar);
    km_text all = {0};
    for (int i = 0; keys[i]; i++) km_text_printf(&all, "%s%s", i ? ", " : "", keys[i]);
    km_status status = all.failed ? km_fail_memory(r->err, "the list of keys", all.size)
                                  : KM_YAML_FAIL(r, "unknown key %s; a %s has the keys %s",
                                                 km_quoted(got, key), r->what, all.data);
    km_text_clear(&all);
    return status;
}

// The text ---------------------------------------------------------------------------------------------------

km_status km_yaml_open(km_yaml *r, const char *text, int64_t size, const char *path, km_error *err) {
    r->path = path;
    r->err = err;
    r->event = (yaml_event_t){0};
    if (size < 0)
        return km_fail(err, KM_ERROR_USAGE, "%.200s: a text cannot have %" PRId64 " bytes", path, size);
    if (size > KM_YAML_BYTES_MAX)
        return km_fail(err, KM_ERROR_SPEC, "%.200s:1:1: a %s must have at most %d bytes, got %" PRId64, path,
                       r->what, KM_YAML_BYTES_MAX, size);
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { // the byte order mark that some editors write
        text += 3;
        size -= 3;
    }
    KM_TRY(check_characters(r, (const unsigned char *)text, size));
    if (!yaml_parser_initialize(&r->parser)) return km_fail_memory(err, "what reads YAML", 0);
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, (size_t)size);
    return KM_OK;
}

void km_yaml_close(km_yaml *r) {
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
}

km_status km_yaml_begin(km_yaml *r) {
    KM_TRY(km_yaml_next(r)); // stream start
    KM_TRY(km_yaml_next(r));
    if (r->event.type == YAML_STREAM_END_EVENT)
        return km_yaml_fail_at(r, 0, 0, "the %s is empty; it needs keys such as %s", r->what, r->example);
    KM_TRY(km_yaml_next(r)); // after the document's start
    char got[KM_QUOTED_SIZE];
    int is_nothing = r->event.type == YAML_SCALAR_EVENT && !*km_yaml_text(r) && !km_yaml_is_quoted(r);
    if (is_nothing) return KM_YAML_FAIL(r, "the %s is empty; it needs keys such as %s", r->what, r->example);
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return KM_YAML_FAIL(r, "a %s must be a map of keys such as %s, got %s", r->what, r->example,
                            km_yaml_what_is(got, r));
    return KM_OK;
}

km_status km_yaml_end(km_yaml *r) {
    KM_TRY(km_yaml_next(r)); // document end
    KM_TRY(km_yaml_next(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return KM_YAML_FAIL(r, "a %s must be one document, got a second one; keep each in a file of its own",
                            r->what);
    return KM_OK;
}

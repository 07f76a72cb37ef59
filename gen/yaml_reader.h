// SPDX-License-Identifier: MIT
// Reads YAML by libyaml's events, which carry the place of everything, so that each refusal names file:line:column.
// Shared by specs (spec_yaml.c) and tuning tables (tuning.c); the sentences after the place come from their setters.
#ifndef KM_GEN_YAML_READER_H
#define KM_GEN_YAML_READER_H
#include "spec_fields.h"

#include <yaml.h>

// Such a text is some pages; anything longer is another file by mistake.
enum { KM_YAML_BYTES_MAX = 1 << 20 };

typedef struct km_yaml {
    yaml_parser_t parser;
    yaml_event_t event; // the last one read; zero before the first
    const char *path;
    const char *what;    // what messages call the text: "spec"
    const char *example; // of its keys: "clusters: 2..12"
    km_error *err;
} km_yaml;

// Checks size and characters; `what` and `example` are set before. KM_ERROR_SPEC, KM_ERROR_USAGE (a negative size) or
// KM_ERROR_MEMORY: nothing is to close. `text` must live as long as the reader.
km_status km_yaml_open(km_yaml *r, const char *text, int64_t size, const char *path, km_error *err);
void km_yaml_close(km_yaml *r);

// The next event; anchors, aliases and tags are refused.
km_status km_yaml_next(km_yaml *r);
// Comes to the map that the text's one document is; and checks that nothing follows the map.
km_status km_yaml_begin(km_yaml *r);
km_status km_yaml_end(km_yaml *r);

// KM_ERROR_SPEC at a place, or at the present event's. Line and column count from 0, as libyaml's do.
km_status km_yaml_fail_at(const km_yaml *r, size_t line, size_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define KM_YAML_FAIL(r, ...)                                                                                 \
    km_yaml_fail_at(r, (r)->event.start_mark.line, (r)->event.start_mark.column, __VA_ARGS__)
// Puts the place of the present event in front of a setter's sentence.
km_status km_yaml_place(const km_yaml *r, km_status status, const km_error *inner);

// Of the present event: a scalar's text; whether it is quoted; what it is, for "got ...", where `buffer` (of
// KM_QUOTED_SIZE) holds a scalar's text.
const char *km_yaml_text(const km_yaml *r);
int km_yaml_is_quoted(const km_yaml *r);
const char *km_yaml_what_is(char *buffer, const km_yaml *r);
// Refuses what is no single value of the key; a number must not be quoted.
km_status km_yaml_need_value(const km_yaml *r, const char *key, int is_number);

// Lines on which each key of a map was first seen, 0: not yet.
enum { KM_YAML_KEYS_MAX = 64 };
typedef struct km_yaml_seen {
    size_t lines[KM_YAML_KEYS_MAX];
} km_yaml_seen;

// Checks that the event is a key, and copies it: the next event replaces it. The second refuses one that was given
// before.
km_status km_yaml_key(const km_yaml *r, char key[KM_NAME_MAX]);
km_status km_yaml_note_key(const km_yaml *r, km_yaml_seen *before, int index, const char *key);
// Refuses a key that is none of `keys`, which end with NULL.
km_status km_yaml_unknown_key(const km_yaml *r, const char *key, const char *const *keys);

// What specs and tables both hold, read into a spec at the present event (spec_yaml.c): the value of a field, and a map
// of plan numbers.
km_status km_yaml_spec_field(km_yaml *r, km_spec *spec, const km_spec_field *field);
km_status km_yaml_spec_plan(km_yaml *r, km_spec *spec);

#endif

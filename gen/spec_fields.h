// SPDX-License-Identifier: MIT
// The one list of a spec's keys, each with the function that sets it from its spelling. Shared by the public
// setters (gen/spec.c) and the YAML reader (gen/spec_yaml.c); errors start with the key and name no place.
#ifndef KM_GEN_SPEC_FIELDS_H
#define KM_GEN_SPEC_FIELDS_H
#include "../base/text.h"
#include "../base/error.h"
#include <kmgen/spec.h>

typedef struct km_spec_field {
    const char *key;
    km_status (*set)(km_spec *spec, const char *text, km_error *err);
    int is_integer; // a quoted value is text, so it is refused
} km_spec_field;

enum { KM_SPEC_FIELDS_COUNT = 11 };
extern const km_spec_field km_spec_fields[KM_SPEC_FIELDS_COUNT];

// Names under `plan:`, i.e. "design" and those of gen/params.h: NULL from `index` = count on.
const char *km_spec_plan_key(int index);
int km_spec_plan_find(const char *name); // its index; -1: none has that name

// The candidate with the smallest edit distance to `word`, or NULL when none is similar. Candidates end with NULL.
const char *km_suggest(const char *word, const char *const *candidates);

// `text` made fit for a message: quoted, cut after 40 bytes, without control characters. Returns `buffer`.
enum { KM_QUOTED_SIZE = 64 };
const char *km_quoted(char buffer[KM_QUOTED_SIZE], const char *text);

// Decimal digits with an optional minus, nothing else. Too large values saturate. Zero when `text` is not that.
int km_integer_parse(int64_t *value, const char *text);

// KM_ERROR_SPEC unless the number can be a K.
km_status km_spec_check_cluster(int64_t number, km_error *err);
// Replaces the list of K by `count` numbers in any order. KM_ERROR_SPEC when one is out of range or there twice.
km_status km_spec_take_clusters(km_spec *spec, int64_t *numbers, int64_t count, km_error *err);

// The list of K as a line of YAML without its end; nothing where there is no list.
void km_spec_clusters_text(km_text *text, const km_spec *spec);

#endif

// SPDX-License-Identifier: MIT
// Reads a spec from YAML. The sentences after the place come from the setters of gen/spec.c.
#include "../base/error.h"
#include "../base/text.h"
#include "old_names.h"
#include "params.h"
#include "spec_fields.h"
#include "yaml_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(KM_PARAM_COUNT + 1 <= KM_YAML_KEYS_MAX && KM_SPEC_FIELDS_COUNT + 1 <= KM_YAML_KEYS_MAX,
               "a line for each key");

// Values -----------------------------------------------------------------------------------------------------

static km_status read_clusters_list(km_yaml *r, km_spec *spec) {
    int64_t numbers[KM_RANGE_MAX];
    unsigned char taken[KM_CLUSTERS_MAX / 8 + 1] = {0};
    int64_t count = 0;
    km_error inner = {0};
    yaml_mark_t start = r->event.start_mark;
    KM_TRY(km_yaml_next(r));
    for (; r->event.type != YAML_SEQUENCE_END_EVENT; count++) {
        char got[KM_QUOTED_SIZE];
        int64_t k;
        if (r->event.type != YAML_SCALAR_EVENT || km_yaml_is_quoted(r) ||
            !km_integer_parse(&k, km_yaml_text(r)))
            return KM_YAML_FAIL(r, "clusters must be a list of numbers like [3, 5, 8], got %s in it",
                                km_yaml_what_is(got, r));
        KM_TRY(km_yaml_place(r, km_spec_check_cluster(k, &inner), &inner));
        if (taken[k / 8] >> (k % 8) & 1)
            return KM_YAML_FAIL(r, "clusters must be different from each other, got %" PRId64 " twice", k);
        if (count == KM_RANGE_MAX)
            return KM_YAML_FAIL(r, "clusters must name at most %d K, got more", KM_RANGE_MAX);
        taken[k / 8] |= (unsigned char)(1u << (k % 8));
        numbers[count] = k;
        KM_TRY(km_yaml_next(r));
    }
    r->event.start_mark = start; // of an empty list
    return km_yaml_place(r, km_spec_take_clusters(spec, numbers, count, &inner), &inner);
}

km_status km_yaml_spec_field(km_yaml *r, km_spec *spec, const km_spec_field *field) {
    if (strcmp(field->key, "clusters") == 0 && r->event.type == YAML_SEQUENCE_START_EVENT)
        return read_clusters_list(r, spec);
    KM_TRY(km_yaml_need_value(r, field->key, field->is_integer));
    km_error inner = {0};
    return km_yaml_place(r, field->set(spec, km_yaml_text(r), &inner), &inner);
}

// Today's name for the one at the present event.
static const char *today(const km_yaml *r, km_spec *spec, const char *where, const char *name) {
    char place[256];
    const yaml_mark_t *mark = &r->event.start_mark;
    snprintf(place, sizeof place, "%.200s:%zu:%zu: ", r->path, mark->line + 1, mark->column + 1);
    return km_name_today(spec, where, name, place);
}

// Maps -------------------------------------------------------------------------------------------------------

static int find_field(const char *key) {
    for (int i = 0; i < KM_SPEC_FIELDS_COUNT; i++)
        if (strcmp(key, km_spec_fields[i].key) == 0) return i;
    return -1;
}

km_status km_yaml_spec_plan(km_yaml *r, km_spec *spec) {
    km_yaml_seen before = {0};
    char got[KM_QUOTED_SIZE];
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return KM_YAML_FAIL(r, "plan must be a map of numbers such as block: 256, got %s",
                            km_yaml_what_is(got, r));
    for (;;) {
        char word[KM_NAME_MAX];
        km_error inner = {0};
        KM_TRY(km_yaml_next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return KM_OK;
        KM_TRY(km_yaml_key(r, word));
        const char *key = today(r, spec, "plan", word);
        int index = km_spec_plan_find(key);
        if (index < 0 && find_field(key) >= 0)
            return KM_YAML_FAIL(r, "%s does not belong under plan; write it without indentation", key);
        if (index < 0) return km_yaml_place(r, km_spec_fix(spec, key, "", &inner), &inner);
        KM_TRY(km_yaml_note_key(r, &before, index, key));
        KM_TRY(km_yaml_next(r));
        KM_TRY(km_yaml_need_value(r, key, index > 0));
        KM_TRY(
            km_yaml_place(r, km_spec_fix(spec, key, today(r, spec, key, km_yaml_text(r)), &inner), &inner));
    }
}

static km_status unknown_key(const km_yaml *r, const char *key) {
    if (km_spec_plan_find(key) >= 0)
        return KM_YAML_FAIL(r, "%s belongs under plan; write it there, indented", key);
    const char *words[KM_SPEC_FIELDS_COUNT + 2] = {0};
    for (int i = 0; i < KM_SPEC_FIELDS_COUNT; i++) words[i] = km_spec_fields[i].key;
    words[KM_SPEC_FIELDS_COUNT] = "plan";
    return km_yaml_unknown_key(r, key, words);
}

static km_status read_root(km_yaml *r, km_spec *spec) {
    km_yaml_seen before = {0};
    for (;;) {
        char word[KM_NAME_MAX];
        KM_TRY(km_yaml_next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) return KM_OK;
        KM_TRY(km_yaml_key(r, word));
        const char *key = today(r, spec, "spec", word);
        int index = find_field(key);
        int is_plan = strcmp(key, "plan") == 0;
        if (index < 0 && !is_plan) return unknown_key(r, key);
        KM_TRY(km_yaml_note_key(r, &before, is_plan ? KM_SPEC_FIELDS_COUNT : index, key));
        KM_TRY(km_yaml_next(r));
        KM_TRY(is_plan ? km_yaml_spec_plan(r, spec) : km_yaml_spec_field(r, spec, &km_spec_fields[index]));
    }
}

km_status km_spec_parse(km_spec *spec, const char *text, int64_t size, const char *path, km_error *err) {
    km_yaml r = {.what = "spec", .example = "clusters: 2..12"};
    km_spec made;
    km_status status = KM_OK;
    KM_TRY(km_yaml_open(&r, text, size, path, err));
    km_spec_init(&made);
    KM_TRY_GOTO(km_yaml_begin(&r));
    KM_TRY_GOTO(read_root(&r, &made));
    KM_TRY_GOTO(km_yaml_end(&r));
    km_spec_clear(spec);
    *spec = made;
    km_spec_init(&made); // handed over
done:
    km_yaml_close(&r);
    km_spec_clear(&made);
    return status;
}

km_status km_spec_read(km_spec *spec, const char *path, km_error *err) {
    FILE *stream = fopen(path, "rb");
    if (!stream) return km_fail(err, KM_ERROR_IO, "cannot read %.200s: %s", path, strerror(errno));
    km_text text = {0};
    char chunk[4096];
    size_t got;
    while (!text.failed && text.size <= KM_YAML_BYTES_MAX &&
           (got = fread(chunk, 1, sizeof chunk, stream)) > 0)
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

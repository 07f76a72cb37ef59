// SPDX-License-Identifier: MIT
// Tuning tables as text: read, written, put together.
#include "tuning.h"
#include "../base/text.h"
#include "numbers.h"
#include "old_names.h"
#include "words.h"
#include "yaml_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, THREADS_MAX = 4096, DRIVER_MAX = 999999, DIGITS_MAX = 15 };
static const int64_t points_max = (int64_t)1 << 48;
static const double ms_max = 1e9;

void km_tuning_init(km_tuning *tuning) {
    *tuning = (km_tuning){.entries = NULL};
}

void km_tuning_clear(km_tuning *tuning) {
    for (int64_t i = 0; i < tuning->entries_count; i++) free(tuning->entries[i].clusters);
    free(tuning->entries);
    km_tuning_init(tuning);
}

// Order ------------------------------------------------------------------------------------------------------

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int compare_clusters(const km_tuning_entry *a, const km_tuning_entry *b) {
    for (int64_t i = 0; i < a->clusters_count && i < b->clusters_count; i++)
        if (a->clusters[i] != b->clusters[i]) return compare(a->clusters[i], b->clusters[i]);
    return compare(a->clusters_count, b->clusters_count);
}

// Of the entries' names.
static int compare_entries(const km_tuning_entry *a, const km_tuning_entry *b) {
    int order = compare(a->features, b->features);
    if (!order) order = compare_clusters(a, b);
    if (!order) order = compare(a->type, b->type);
    if (!order) order = compare(a->weighted, b->weighted);
    if (!order) order = compare(a->threads, b->threads);
    return order ? order : compare(a->points_from, b->points_from);
}

// Where the entry is, or would be.
static int64_t place_of(const km_tuning *tuning, const km_tuning_entry *entry) {
    int64_t place = 0;
    while (place < tuning->entries_count && compare_entries(&tuning->entries[place], entry) < 0) place++;
    return place;
}

static int is_at(const km_tuning *tuning, int64_t place, const km_tuning_entry *entry) {
    return place < tuning->entries_count && !compare_entries(&tuning->entries[place], entry);
}

km_status km_tuning_put(km_tuning *tuning, const km_tuning_entry *entry, km_error *err) {
    size_t bytes = (size_t)entry->clusters_count * sizeof *entry->clusters;
    int32_t *clusters = malloc(bytes ? bytes : 1);
    if (!clusters) return km_fail_memory(err, "the list of K", (int64_t)bytes);
    if (bytes) memcpy(clusters, entry->clusters, bytes);
    int64_t place = place_of(tuning, entry);
    km_tuning_entry *entries = tuning->entries;
    if (is_at(tuning, place, entry)) {
        free(entries[place].clusters);
    } else {
        bytes = (size_t)(tuning->entries_count + 1) * sizeof *entries;
        entries = realloc(entries, bytes);
        if (!entries) {
            free(clusters);
            return km_fail_memory(err, "a tuning table", (int64_t)bytes);
        }
        tuning->entries = entries;
        memmove(entries + place + 1, entries + place,
                (size_t)(tuning->entries_count - place) * sizeof *entries);
        tuning->entries_count++;
    }
    entries[place] = *entry;
    entries[place].clusters = clusters;
    return KM_OK;
}

// Reading ----------------------------------------------------------------------------------------------------

static km_status read_integer(int64_t *value, const km_yaml *r, const char *key, int64_t lowest,
                              int64_t highest) {
    char got[KM_QUOTED_SIZE];
    KM_TRY(km_yaml_need_value(r, key, 1));
    if (km_integer_parse(value, km_yaml_text(r)) && *value >= lowest && *value <= highest) return KM_OK;
    return KM_YAML_FAIL(r, "%s must be %" PRId64 "..%" PRId64 ", got %s", key, lowest, highest,
                        km_yaml_what_is(got, r));
}

// "12.345", whatever the locale: so few digits and the power of ten are exact, so the quotient is the nearest double.
static int parse_decimal(double *value, const char *text) {
    int64_t digits = 0, scale = 1, count = 0, point = 0;
    for (; *text; text++) {
        if (*text == '.' && !point && count) {
            point = 1;
            continue;
        }
        if (*text < '0' || *text > '9' || ++count > DIGITS_MAX) return 0;
        digits = 10 * digits + (*text - '0');
        if (point) scale *= 10;
    }
    *value = (double)digits / (double)scale;
    return count > 0 && (!point || scale > 1);
}

static km_status read_ms(double *value, const km_yaml *r, const char *key, int may_be_zero) {
    char got[KM_QUOTED_SIZE];
    KM_TRY(km_yaml_need_value(r, key, 1));
    int is_decimal = parse_decimal(value, km_yaml_text(r));
    if (is_decimal && *value <= ms_max && (may_be_zero || *value > 0)) return KM_OK;
    return KM_YAML_FAIL(r, "%s must be milliseconds such as 0.842, got %s", key, km_yaml_what_is(got, r));
}

static km_status read_words(char *to, size_t size, const km_yaml *r, const char *key) {
    KM_TRY(km_yaml_need_value(r, key, 0));
    if (r->event.data.scalar.length >= size)
        return KM_YAML_FAIL(r, "%s must have at most %zu bytes, got %zu", key, size - 1,
                            r->event.data.scalar.length);
    memcpy(to, km_yaml_text(r), r->event.data.scalar.length + 1);
    return KM_OK;
}

static km_status read_hash(char to[17], const km_yaml *r, const char *key) {
    char got[KM_QUOTED_SIZE];
    KM_TRY(km_yaml_need_value(r, key, 0));
    const char *text = km_yaml_text(r);
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return KM_YAML_FAIL(r, "%s must be 16 hexadecimal digits, got %s", key, km_yaml_what_is(got, r));
    memcpy(to, text, 17);
    return KM_OK;
}

static km_status read_yes(int32_t *value, const km_yaml *r, const char *key) {
    char got[KM_QUOTED_SIZE];
    KM_TRY(km_yaml_need_value(r, key, 1));
    *value = strcmp(km_yaml_text(r), "true") == 0;
    if (*value || strcmp(km_yaml_text(r), "false") == 0) return KM_OK;
    return KM_YAML_FAIL(r, "%s must be true or false, got %s", key, km_yaml_what_is(got, r));
}

// The keys of an entry, in the order in which they are written.
enum {
    FEATURES,
    CLUSTERS,
    TYPE,
    WEIGHTED,
    POINTS,
    POINTS_FROM,
    THREADS,
    PLAN,
    MS,
    DEFAULT_MS,
    READ_MS,
    TEMPLATES,
    COMPILER,
    VERSION,
    DATE,
    ENTRY_KEYS_COUNT
};
static const char *const entry_keys[ENTRY_KEYS_COUNT + 1] = {
    "features", "clusters",   "type",    "weighted",  "points",   "points_from", "threads", "plan",
    "ms",       "default_ms", "read_ms", "templates", "compiler", "version",     "date",    NULL};
static const int entry_needs[] = {FEATURES, CLUSTERS, TYPE, POINTS, PLAN, MS, TEMPLATES};

static int find_key(const char *const *keys, const char *key) {
    for (int i = 0; keys[i]; i++)
        if (strcmp(keys[i], key) == 0) return i;
    return -1;
}

static const km_spec_field *spec_field(const char *key) {
    for (int i = 0; i < KM_SPEC_FIELDS_COUNT; i++)
        if (strcmp(km_spec_fields[i].key, key) == 0) return &km_spec_fields[i];
    return NULL;
}

// `spec` takes what an entry shares with specs.
static km_status read_entry_value(km_yaml *r, km_tuning_entry *entry, km_spec *spec, int key) {
    const char *name = entry_keys[key];
    switch (key) {
    case FEATURES:
    case CLUSTERS:
    case TYPE:
        return km_yaml_spec_field(r, spec, spec_field(name));
    case WEIGHTED:
        return read_yes(&entry->weighted, r, name);
    case POINTS:
        return read_integer(&entry->points, r, name, 1, points_max);
    case POINTS_FROM:
        return read_integer(&entry->points_from, r, name, 0, points_max);
    case THREADS:
        return read_integer(&entry->threads, r, name, 0, THREADS_MAX);
    case PLAN:
        return km_yaml_spec_plan(r, spec);
    case MS:
        return read_ms(&entry->ms, r, name, 0);
    case DEFAULT_MS:
        return read_ms(&entry->default_ms, r, name, 1);
    case READ_MS:
        return read_ms(&entry->read_ms, r, name, 1);
    case TEMPLATES:
        return read_hash(entry->templates, r, name);
    case COMPILER:
        return read_words(entry->compiler, sizeof entry->compiler, r, name);
    case VERSION:
        return read_words(entry->version, sizeof entry->version, r, name);
    default:
        return read_words(entry->date, sizeof entry->date, r, name);
    }
}

static km_status check_plan(const km_spec *spec, km_error *err) {
    int has_design = 0;
    for (int64_t i = 0; i < spec->fixed_count; i++) {
        has_design |= strcmp(spec->fixed[i].name, "design") == 0;
        if (strcmp(spec->fixed[i].name, "algorithm") == 0)
            return km_fail(err, KM_ERROR_SPEC, "plan must not name an algorithm: tables are of passes");
    }
    if (!has_design) return km_fail(err, KM_ERROR_SPEC, "plan must name the design");
    return km_plan_check_fixed(spec, err);
}

static km_status check_measurement(const km_tuning_entry *entry, km_target_kind target, km_error *err) {
    if ((target == KM_TARGET_CPU) != (entry->threads > 0))
        return km_fail(err, KM_ERROR_SPEC, "threads must be %s",
                       entry->threads ? "0 or left out on CUDA" : "given on a CPU");
    if (entry->points_from <= entry->points) return KM_OK;
    return km_fail(err, KM_ERROR_SPEC, "points_from must be at most points, %" PRId64 ", got %" PRId64,
                   entry->points, entry->points_from);
}

// What a line of warnings says, behind its place.
static const char *sentence_of(const char *line) {
    const char *at = strstr(line, " is an old name");
    while (at && at > line + 1 && !(at[-2] == ':' && at[-1] == ' ')) at--;
    return at ? at : line;
}

// Each old name once, where it stands first: a table has as many plans as entries.
static void note_old_names(km_tuning *tuning, const char *lines) {
    for (; *lines; lines += strcspn(lines, "\n") + 1) {
        char line[512];
        snprintf(line, sizeof line, "%.*s\n", (int)strcspn(lines, "\n"), lines);
        if (!strstr(tuning->warnings, sentence_of(line))) km_warnings_add(tuning->warnings, line);
    }
}

// Adds what was read to the table; `start` is where the entry begins.
static km_status add_entry(km_yaml *r, km_tuning *tuning, km_tuning_entry *entry, const km_spec *spec,
                           const yaml_mark_t *start, const km_yaml_seen *seen) {
    km_error inner = {0};
    for (size_t i = 0; i < sizeof entry_needs / sizeof *entry_needs; i++)
        if (!seen->lines[entry_needs[i]])
            return km_yaml_fail_at(r, start->line, start->column, "this entry has no key %s",
                                   entry_keys[entry_needs[i]]);
    if (check_measurement(entry, tuning->target.kind, &inner) != KM_OK)
        return km_yaml_fail_at(r, start->line, start->column, "%s", inner.text);
    if (check_plan(spec, &inner) != KM_OK)
        return km_yaml_fail_at(r, seen->lines[PLAN] - 1, start->column, "%s", inner.text);
    entry->features = spec->features;
    entry->type = spec->type;
    entry->clusters = spec->clusters;
    entry->clusters_count = spec->clusters_count;
    memcpy(entry->numbers, spec->fixed, sizeof entry->numbers);
    entry->numbers_count = spec->fixed_count;
    entry->line = (int32_t)start->line + 1;
    note_old_names(tuning, spec->warnings);
    int64_t place = place_of(tuning, entry);
    if (is_at(tuning, place, entry))
        return km_yaml_fail_at(r, start->line, start->column,
                               "this entry is of the same shape as the one in line %" PRId32 "; keep one",
                               tuning->entries[place].line);
    return km_tuning_put(tuning, entry, r->err);
}

static km_status read_entry(km_yaml *r, km_tuning *tuning) {
    char got[KM_QUOTED_SIZE];
    yaml_mark_t start = r->event.start_mark;
    km_yaml_seen seen = {0};
    km_tuning_entry entry = {0};
    km_spec spec;
    km_status status = KM_OK;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return KM_YAML_FAIL(r, "an entry must be a map of keys such as features: 8, got %s",
                            km_yaml_what_is(got, r));
    km_spec_init(&spec);
    spec.target = tuning->target;
    for (;;) {
        char key[KM_NAME_MAX];
        KM_TRY_GOTO(km_yaml_next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        KM_TRY_GOTO(km_yaml_key(r, key));
        int index = find_key(entry_keys, key);
        KM_TRY_GOTO(index < 0 ? km_yaml_unknown_key(r, key, entry_keys) : KM_OK);
        KM_TRY_GOTO(km_yaml_note_key(r, &seen, index, key));
        KM_TRY_GOTO(km_yaml_next(r));
        KM_TRY_GOTO(read_entry_value(r, &entry, &spec, index));
    }
    status = add_entry(r, tuning, &entry, &spec, &start, &seen);
done:
    km_spec_clear(&spec);
    return status;
}

static km_status read_entries(km_yaml *r, km_tuning *tuning) {
    char got[KM_QUOTED_SIZE];
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return KM_YAML_FAIL(r, "entries must be a list, got %s", km_yaml_what_is(got, r));
    for (;;) {
        KM_TRY(km_yaml_next(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT) return KM_OK;
        KM_TRY(read_entry(r, tuning));
    }
}

static km_status read_target(km_tuning *tuning, km_yaml *r) {
    km_spec spec;
    km_spec_init(&spec);
    KM_TRY(km_yaml_spec_field(r, &spec, spec_field("target")));
    tuning->target = spec.target;
    if (spec.target.arch) return KM_OK;
    return KM_YAML_FAIL(r, "target must name its architecture, such as cuda:sm_90 or cpu:avx2");
}

enum { TABLE_FORMAT, TABLE_DEVICE, TABLE_TARGET, TABLE_DRIVER, TABLE_ENTRIES, TABLE_KEYS_COUNT };
static const char *const table_keys[TABLE_KEYS_COUNT + 1] = {"kmgen tuning", "device",  "target",
                                                             "driver",       "entries", NULL};

static km_status read_table_value(km_yaml *r, km_tuning *tuning, km_yaml_seen *seen, int key) {
    int64_t number = 0;
    switch (key) {
    case TABLE_FORMAT:
        return read_integer(&number, r, table_keys[key], FORMAT, FORMAT);
    case TABLE_DEVICE:
        tuning->device_line = (int32_t)r->event.start_mark.line + 1;
        return read_words(tuning->device, sizeof tuning->device, r, table_keys[key]);
    case TABLE_TARGET:
        return read_target(tuning, r);
    case TABLE_DRIVER:
        KM_TRY(read_integer(&number, r, table_keys[key], 0, DRIVER_MAX));
        tuning->driver = (int32_t)number;
        return KM_OK;
    default:
        for (int i = TABLE_FORMAT; i <= TABLE_TARGET; i++)
            if (!seen->lines[i]) return KM_YAML_FAIL(r, "%s must stand above the entries", table_keys[i]);
        return read_entries(r, tuning);
    }
}

static km_status read_table(km_yaml *r, km_tuning *tuning) {
    km_yaml_seen seen = {0};
    for (;;) {
        char key[KM_NAME_MAX];
        KM_TRY(km_yaml_next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        KM_TRY(km_yaml_key(r, key));
        int index = find_key(table_keys, key);
        if (index < 0) return km_yaml_unknown_key(r, key, table_keys);
        KM_TRY(km_yaml_note_key(r, &seen, index, key));
        KM_TRY(km_yaml_next(r));
        KM_TRY(read_table_value(r, tuning, &seen, index));
    }
    if (!seen.lines[TABLE_ENTRIES])
        return KM_YAML_FAIL(r, "a tuning table must have the key entries, if only as []");
    return KM_OK;
}

km_status km_tuning_parse(km_tuning *tuning, const char *text, int64_t size, const char *path,
                          km_error *err) {
    km_yaml r = {.what = "tuning table", .example = "kmgen tuning: 1"};
    km_tuning made;
    km_status status = KM_OK;
    KM_TRY(km_yaml_open(&r, text, size, path, err));
    km_tuning_init(&made);
    KM_TRY_GOTO(km_yaml_begin(&r));
    KM_TRY_GOTO(read_table(&r, &made));
    KM_TRY_GOTO(km_yaml_end(&r));
    km_tuning_clear(tuning);
    *tuning = made;
    km_tuning_init(&made); // handed over
done:
    km_yaml_close(&r);
    km_tuning_clear(&made);
    return status;
}

// Writing ----------------------------------------------------------------------------------------------------

// Whether YAML takes the words as they are.
static int is_plain(const char *words) {
    for (const char *at = words; *at; at++) {
        int is_letter =
            (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        int is_inside = strchr("()@.+/-_", *at) || (*at == ' ' && at[1]);
        if (!is_letter && (at == words || !is_inside)) return 0;
    }
    return words[0] != 0;
}

static void add_words(km_text *text, const char *key, const char *words) {
    if (is_plain(words)) {
        km_text_printf(text, "%s: %s\n", key, words);
        return;
    }
    km_text_printf(text, "%s: \"", key);
    for (; *words; words++) {
        if (*words == '"' || *words == '\\') km_text_puts(text, "\\");
        km_text_add(text, (unsigned char)*words < 32 || *words == 127 ? " " : words, 1);
    }
    km_text_puts(text, "\"\n");
}

static void add_ms(km_text *text, const char *key, double ms) {
    char decimals[8];
    long long ns = llround((ms > 0 && ms < ms_max ? ms : 0) * 1e6);
    int size = snprintf(decimals, sizeof decimals, "%06lld", ns % 1000000);
    while (size > 1 && decimals[size - 1] == '0') decimals[--size] = 0;
    km_text_printf(text, "    %s: %lld.%s\n", key, ns / 1000000, decimals);
}

static void add_entry_text(km_text *text, const km_tuning_entry *entry) {
    km_spec shape; // borrows the entry's list of K
    km_spec_init(&shape);
    shape.clusters = entry->clusters;
    shape.clusters_count = entry->clusters_count;
    km_text_printf(text, "  - features: %" PRId64 "\n    ", entry->features);
    km_spec_clusters_text(text, &shape);
    km_text_printf(text, "\n    type: %s\n", km_type_name(entry->type));
    if (entry->weighted) km_text_puts(text, "    weighted: true\n");
    km_text_printf(text, "    points: %" PRId64 "\n    points_from: %" PRId64 "\n", entry->points,
                   entry->points_from);
    if (entry->threads) km_text_printf(text, "    threads: %" PRId64 "\n", entry->threads);
    km_text_puts(text, "    plan: {");
    for (int64_t i = 0; i < entry->numbers_count; i++) {
        char value[KM_VALUE_TEXT];
        km_text_printf(text, "%s%s: %s", i ? ", " : "", entry->numbers[i].name,
                       km_fixed_text(value, &entry->numbers[i]));
    }
    km_text_puts(text, "}\n");
    add_ms(text, "ms", entry->ms);
    add_ms(text, "default_ms", entry->default_ms);
    add_ms(text, "read_ms", entry->read_ms);
    add_words(text, "    templates", entry->templates);
    add_words(text, "    compiler", entry->compiler);
    add_words(text, "    version", entry->version);
    add_words(text, "    date", entry->date);
}

km_status km_tuning_to_yaml(char **out, const km_tuning *tuning, km_error *err) {
    km_text text = {0};
    char target[32];
    km_target_text(target, sizeof target, tuning->target);
    km_text_printf(&text, "kmgen tuning: %d\n", FORMAT);
    add_words(&text, "device", tuning->device);
    km_text_printf(&text, "target: %s\ndriver: %" PRId32 "\nentries:%s\n", target, tuning->driver,
                   tuning->entries_count ? "" : " []");
    for (int64_t i = 0; i < tuning->entries_count; i++) add_entry_text(&text, &tuning->entries[i]);
    return km_text_take(out, &text, err);
}

// Names ------------------------------------------------------------------------------------------------------

void km_tuning_name(char *text, int64_t size, const char *device) {
    int64_t used = 0;
    for (; *device; device++) {
        int is_large = *device >= 'A' && *device <= 'Z';
        int is_word = is_large || (*device >= 'a' && *device <= 'z') || (*device >= '0' && *device <= '9');
        if (!is_word && (!used || text[used - 1] == '_')) continue;
        if (used + 2 > size) break;
        text[used++] = (char)(!is_word ? '_' : is_large ? *device + 32 : *device);
    }
    while (used && text[used - 1] == '_') used--;
    if (size > 0) text[used] = 0;
}

void km_tuning_table_name(char *text, int64_t size, const char *device, km_target target) {
    char set[32];
    km_tuning_name(text, size, device);
    if (target.kind != KM_TARGET_CPU) return;
    km_target_text(set, sizeof set, target);
    int64_t used = (int64_t)strlen(text);
    snprintf(text + used, (size_t)(size - used), "_%s", set + strcspn(set, ":") + 1);
}

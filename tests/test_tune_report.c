// SPDX-License-Identifier: MIT
// What is written of a tuning: JSON by its contract, CSV, the table, pictures.
#include "../gen/words.h"
#include "../runtime/file.h"
#include "../runtime/report/tune_map.h"
#include "sample_tune.h"

#include "quiet_check.h"
#include <csv.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef km_status (*writer)(char **out, const km_tune_result *result, km_error *err);

static char *written(writer write, const km_tune_result *result) {
    char *text = NULL;
    km_error err = {""};
    ck_assert_msg(write(&text, result, &err) == KM_OK, "%s", err.text);
    ck_assert_ptr_nonnull(text);
    return text;
}

// A result that no reader may trip over: names that are long and no text, numbers that are none.
static sample_tune *sample_odd(void) {
    sample_tune *s = sample_tune_cuda();
    memset(s->result.facts.name, 'N', sizeof s->result.facts.name - 1);
    memcpy(s->result.facts.name, "\x1b[31m\xff \"x\", <&>\n", 16);
    s->result.read_ms = s->result.gain = s->result.noise = s->result.elapsed_s = NAN;
    for (int64_t i = 0; i < s->result.candidates_count; i++) {
        km_tune_candidate *c = &s->candidates[i];
        c->predicted_ms = c->memory_ms = NAN;
        c->issue_ms = c->tensor_ms = INFINITY;
        c->occupancy = c->spread_ms = -INFINITY;
        if (i % 3 == 0) c->ms = i % 2 ? NAN : INFINITY;
        memset(c->reason, 'r', sizeof c->reason - 1);
        memcpy(c->reason, "a \"b\",\r\nc\x07\xc3", 11);
    }
    return s;
}

static sample_tune *sample_empty(int with_candidates) {
    sample_tune *s = with_candidates ? sample_tune_cuda() : sample_tune_make(0);
    for (int64_t i = 0; i < s->result.candidates_count; i++)
        sample_tune_outcome(&s->candidates[i], KM_TUNE_UNMEASURED, "");
    s->result.measured = 0;
    return s;
}

static int64_t count_lines(const char *text, const char *beginning) {
    int64_t count = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        count += strncmp(line, beginning, strlen(beginning)) == 0;
    return count;
}

// JSON ------------------------------------------------------------------------------------------------------

static json_t *to_json(const km_tune_result *result) {
    char *text = written(km_tune_json, result);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(root != NULL, "line %d: %s in\n%s", error.line, error.text, text);
    km_text_free(text);
    return root;
}

// A number with the same bits, or null for what is not finite.
static void assert_real(const json_t *object, const char *key, double expected) {
    const json_t *value = json_object_get(object, key);
    if (!isfinite(expected)) {
        ck_assert_msg(json_is_null(value), "%s is not null", key);
        return;
    }
    double got = json_real_value(value);
    ck_assert_msg(json_is_real(value), "%s is no real", key);
    ck_assert_msg(memcmp(&got, &expected, sizeof got) == 0, "%s is %g, not %g", key, got, expected);
}

static void assert_integer(const json_t *object, const char *key, int64_t expected) {
    ck_assert_msg(json_is_integer(json_object_get(object, key)), "%s is no integer", key);
    ck_assert_int_eq(json_integer_value(json_object_get(object, key)), expected);
}

static void assert_string(const json_t *object, const char *key, const char *expected) {
    ck_assert_msg(json_is_string(json_object_get(object, key)), "%s is no string", key);
    ck_assert_str_eq(json_string_value(json_object_get(object, key)), expected);
}

static void check_plan(const json_t *plan, const km_tune_candidate *candidate) {
    char text[KM_VALUE_TEXT];
    ck_assert_uint_eq(json_object_size(plan), (size_t)candidate->numbers_count);
    ck_assert_str_eq(json_object_iter_key(json_object_iter((json_t *)plan)), "design");
    for (int64_t i = 0; i < candidate->numbers_count; i++) {
        const km_fixed *number = &candidate->numbers[i];
        if (!strcmp(number->name, "design"))
            assert_string(plan, "design", km_design_name(candidate->design));
        else if (!strcmp(number->name, "form"))
            assert_string(plan, "form", km_word_name(number->value));
        else
            assert_integer(plan, number->name, number->value);
        ck_assert_ptr_eq(km_fixed_text(text, number), text);
    }
}

static void check_candidate(const json_t *object, const km_tune_candidate *candidate) {
    check_plan(json_object_get(object, "plan"), candidate);
    assert_real(object, "predicted_ms", candidate->predicted_ms);
    assert_real(object, "memory_ms", candidate->memory_ms);
    assert_real(object, "issue_ms", candidate->issue_ms);
    assert_real(object, "tensor_ms", candidate->tensor_ms);
    assert_string(object, "outcome", km_tune_outcome_name(candidate->outcome));
    assert_real(object, "ms", candidate->ms);
    assert_real(object, "spread_ms", candidate->spread_ms);
    assert_integer(object, "samples", candidate->samples);
    assert_integer(object, "registers", candidate->registers);
    assert_integer(object, "blocks_per_sm", candidate->blocks_per_sm);
    assert_real(object, "occupancy", candidate->occupancy);
}

static void check_top(const json_t *root, const km_tune_result *result) {
    const json_t *clusters = json_object_get(root, "clusters");
    assert_string(root, "kmgen", KM_VERSION);
    assert_integer(root, "driver", result->driver);
    assert_integer(json_object_get(root, "facts"), "units", result->facts.units);
    assert_integer(json_object_get(root, "facts"), "cache_bytes", result->facts.cache_bytes);
    assert_real(json_object_get(root, "facts"), "bandwidth_gbs", result->facts.bandwidth_gbs);
    assert_real(json_object_get(root, "facts"), "clock_ghz", result->facts.clock_ghz);
    assert_real(json_object_get(root, "facts"), "fp32_per_cycle", result->facts.fp32_per_cycle);
    assert_real(json_object_get(root, "facts"), "fp64_per_cycle", result->facts.fp64_per_cycle);
    assert_string(root, "compiler", result->compiler);
    assert_integer(root, "features", result->spec.features);
    ck_assert_uint_eq(json_array_size(clusters), (size_t)result->spec.clusters_count);
    for (size_t k = 0; k < json_array_size(clusters); k++)
        ck_assert_int_eq(json_integer_value(json_array_get(clusters, k)), result->spec.clusters[k]);
    assert_string(root, "type", km_type_name(result->spec.type));
    assert_integer(root, "points", result->points);
    assert_integer(root, "threads", result->threads);
    assert_real(root, "read_ms", result->read_ms);
    assert_integer(root, "default", result->standard);
    assert_integer(root, "best", result->best);
    assert_real(root, "gain", result->gain);
    assert_real(root, "noise", result->noise);
    assert_integer(root, "measured", result->measured);
    assert_real(root, "elapsed_s", result->elapsed_s);
    ck_assert_int_eq(json_is_true(json_object_get(root, "stopped")), result->stopped != 0);
    ck_assert(json_is_boolean(json_object_get(root, "stopped")));
}

START_TEST(json_contract) {
    sample_tune *s = _i == 0 ? sample_tune_cuda() : _i == 1 ? sample_tune_cpu() : sample_odd();
    s->result.stopped = _i;
    json_t *root = to_json(&s->result);
    const json_t *candidates = json_object_get(root, "candidates");
    check_top(root, &s->result);
    assert_string(root, "target", _i == 1 ? "cpu:avx2" : "cuda:sm_90");
    if (_i < 2) assert_string(root, "device", s->result.facts.name);
    ck_assert_uint_eq(json_array_size(candidates), (size_t)s->result.candidates_count);
    for (size_t i = 0; i < json_array_size(candidates); i++) {
        check_candidate(json_array_get(candidates, i), &s->candidates[i]);
        if (_i < 2) assert_string(json_array_get(candidates, i), "reason", s->candidates[i].reason);
    }
    json_decref(root);
    sample_tune_free(s);
}
END_TEST

START_TEST(json_empty) {
    sample_tune *s = sample_empty(_i);
    json_t *root = to_json(&s->result);
    ck_assert(json_is_array(json_object_get(root, "candidates")));
    ck_assert_int_eq(json_is_null(json_object_get(root, "best")), !_i);
    ck_assert_int_eq(json_is_null(json_object_get(root, "default")), !_i);
    json_decref(root);
    sample_tune_free(s);
}
END_TEST

// The schema names exactly the keys that are written, in their order.
static void assert_schema_keys(const json_t *schema, const json_t *object, const char *where) {
    const json_t *properties = json_object_get(schema, "properties"),
                 *required = json_object_get(schema, "required");
    ck_assert_msg(json_is_object(properties), "%s has no properties in the schema", where);
    ck_assert(json_is_false(json_object_get(schema, "additionalProperties")));
    ck_assert_uint_eq(json_object_size(properties), json_object_size(object));
    ck_assert_uint_eq(json_array_size(required), json_object_size(object));
    void *iter = json_object_iter((json_t *)properties);
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach((json_t *)object, key, value) {
        ck_assert_str_eq(json_object_iter_key(iter), key);
        ck_assert_str_eq(json_string_value(json_array_get(required, i++)), key);
        iter = json_object_iter_next((json_t *)properties, iter);
    }
}

static int has_string(const json_t *array, const char *text) {
    for (size_t i = 0; i < json_array_size(array); i++)
        if (!strcmp(json_string_value(json_array_get(array, i)), text)) return 1;
    return 0;
}

START_TEST(json_schema) {
    json_error_t error;
    json_t *schema = json_load_file(KM_TEST_DOCS "/tune.schema.json", JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(schema != NULL, "line %d: %s", error.line, error.text);
    sample_tune *s = sample_tune_cuda();
    json_t *root = to_json(&s->result);
    assert_schema_keys(schema, root, "result");
    const json_t *candidate =
        json_object_get(json_object_get(json_object_get(schema, "properties"), "candidates"), "items");
    assert_schema_keys(candidate, json_array_get(json_object_get(root, "candidates"), 0), "candidate");
    const json_t *outcomes =
        json_object_get(json_object_get(json_object_get(candidate, "properties"), "outcome"), "enum");
    ck_assert_uint_eq(json_array_size(outcomes), KM_TUNE_OUTCOME_COUNT);
    for (int i = 0; i < KM_TUNE_OUTCOME_COUNT; i++)
        ck_assert(has_string(outcomes, km_tune_outcome_name((km_tune_outcome)i)));
    json_decref(schema);
    json_decref(root);
    sample_tune_free(s);
}
END_TEST

// CSV -------------------------------------------------------------------------------------------------------

enum { COLUMNS_MAX = 40, CELL = 256 };

// One row, read by libcsv: `cells` of it, and how many.
typedef struct csv_table {
    char names[COLUMNS_MAX][CELL], cells[COLUMNS_MAX][CELL];
    int64_t rows, columns, at;
    const km_tune_result *result;
} csv_table;

static void take_cell(void *bytes, size_t size, void *user) {
    csv_table *table = user;
    ck_assert_uint_lt(size, CELL);
    ck_assert_int_lt(table->at, COLUMNS_MAX);
    char *cell = (table->rows ? table->cells : table->names)[table->at++];
    memcpy(cell, bytes, size);
    cell[size] = 0;
}

// The row's cell under a name, which stands in the first line once.
static const char *cell_of(const csv_table *table, const char *name) {
    int64_t found = -1;
    for (int64_t i = 0; i < table->columns; i++) {
        if (strcmp(table->names[i], name) != 0) continue;
        ck_assert_msg(found < 0, "two columns are called %s", name);
        found = i;
    }
    ck_assert_msg(found >= 0, "no column is called %s", name);
    return table->cells[found];
}

static void assert_cell_real(const csv_table *table, const char *name, double expected) {
    char *end;
    const char *cell = cell_of(table, name);
    if (!isfinite(expected)) {
        ck_assert_str_eq(cell, "");
        return;
    }
    double got = strtod(cell, &end);
    ck_assert_msg(!*end && *cell, "%s is '%s'", name, cell);
    ck_assert_msg(memcmp(&got, &expected, sizeof got) == 0, "%s is %s, not %.17g", name, cell, expected);
}

static void check_numbers(const csv_table *table, const km_tune_candidate *candidate) {
    int64_t filled = 0;
    char text[KM_VALUE_TEXT];
    for (int64_t i = 1; i < candidate->numbers_count; i++)
        ck_assert_str_eq(cell_of(table, candidate->numbers[i].name),
                         km_fixed_text(text, &candidate->numbers[i]));
    for (int64_t i = 1; strcmp(table->names[i], "predicted_ms") != 0; i++) filled += table->cells[i][0] != 0;
    ck_assert_int_eq(filled, candidate->numbers_count - 1); // the others' are empty
}

static void check_row(int end, void *user) {
    csv_table *table = user;
    int64_t row = table->rows++;
    (void)end;
    if (!row) {
        table->columns = table->at;
        table->at = 0;
        return;
    }
    const km_tune_candidate *c = &table->result->candidates[row - 1];
    char integer[32], reason[sizeof c->reason];
    ck_assert_int_eq(table->at, table->columns);
    table->at = 0;
    ck_assert_int_le(row, table->result->candidates_count);
    ck_assert_str_eq(cell_of(table, "design"), km_design_name(c->design));
    check_numbers(table, c);
    int is_timed = c->outcome == KM_TUNE_MEASURED && isfinite(c->ms);
    assert_cell_real(table, "predicted_ms", c->predicted_ms);
    assert_cell_real(table, "ms", is_timed ? c->ms : NAN);
    assert_cell_real(table, "spread_ms", is_timed ? c->spread_ms : NAN);
    assert_cell_real(table, "occupancy", c->occupancy);
    snprintf(integer, sizeof integer, "%d", c->samples);
    ck_assert_str_eq(cell_of(table, "samples"), integer);
    snprintf(integer, sizeof integer, "%d", c->registers);
    ck_assert_str_eq(cell_of(table, "registers"), integer);
    snprintf(integer, sizeof integer, "%d", c->blocks_per_sm);
    ck_assert_str_eq(cell_of(table, "kernel_blocks_per_sm"), integer);
    ck_assert_str_eq(cell_of(table, "outcome"), km_tune_outcome_name(c->outcome));
    strcpy(reason, c->reason);
    km_text_plain(reason);
    ck_assert_str_eq(cell_of(table, "reason"), reason);
}

static void check_csv(const km_tune_result *result, const char *text) {
    struct csv_parser parser;
    csv_table *table = calloc(1, sizeof *table);
    table->result = result;
    ck_assert_int_eq(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL), 0);
    ck_assert_uint_eq(csv_parse(&parser, text, strlen(text), take_cell, check_row, table), strlen(text));
    ck_assert_int_eq(csv_fini(&parser, take_cell, check_row, table), 0);
    csv_free(&parser);
    ck_assert_int_eq(table->rows, result->candidates_count + 1);
    free(table);
}

START_TEST(csv_rows) {
    sample_tune *s = _i == 0 ? sample_tune_cuda() : _i == 1 ? sample_tune_cpu() : sample_odd();
    char *text = written(km_tune_csv, &s->result);
    check_csv(&s->result, text);
    ck_assert_int_eq(count_lines(text, ""), s->result.candidates_count + 1); // a line a row
    if (!_i)
        ck_assert_ptr_nonnull(strstr(text, ",refused,\"nvrtc 13.0: line 47: \"\"too many\"\", it says\"\n"));
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

START_TEST(csv_empty) {
    sample_tune *s = sample_empty(_i);
    char *text = written(km_tune_csv, &s->result);
    check_csv(&s->result, text);
    if (!_i)
        ck_assert_str_eq(text, "design,predicted_ms,ms,spread_ms,samples,registers,kernel_blocks_per_sm,"
                               "occupancy,outcome,reason\n");
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

// Where numbers have a decimal comma, by a language made here where the machine has none.
START_TEST(csv_language) {
    char languages[] = "/tmp/kmgen-test-language-XXXXXX", command[160];
    sample_tune *s = sample_tune_cpu();
    char *plain = written(km_tune_csv, &s->result);
    ck_assert_ptr_nonnull(mkdtemp(languages));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/log 2>&1", languages,
             languages);
    if (system(command) == 0) {
        setenv("LOCPATH", languages, 1);
        ck_assert_ptr_nonnull(setlocale(LC_ALL, "de_DE.UTF-8"));
        char *text = written(km_tune_csv, &s->result);
        ck_assert(strtod("1,5", NULL) == 1.5); // it is in force, and still so
        setlocale(LC_ALL, "C");
        ck_assert_str_eq(text, plain);
        km_text_free(text);
    } else {
        fputs("tune_report: csv_language skipped: localedef cannot make de_DE\n", stderr);
    }
    snprintf(command, sizeof command, "rm -r %s", languages);
    ck_assert_int_eq(system(command), 0);
    km_text_free(plain);
    sample_tune_free(s);
}
END_TEST

// Table -----------------------------------------------------------------------------------------------------

// Lines of at most 100 characters, of UTF-8 that a terminal does not obey; no number that is none.
static void assert_plain(const char *text) {
    char *plain = strdup(text);
    km_text_plain(plain);
    for (char *c = plain; *c; c++)
        if (text[c - plain] == '\n') *c = '\n';
    ck_assert_str_eq(plain, text);
    free(plain);
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "inf"));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        ck_assert_msg(strchr(line, '\n') != NULL, "the last line has no end in\n%s", text);
        ck_assert_msg(strcspn(line, "\n") <= 100, "too wide: %.*s", (int)strcspn(line, "\n"), line);
        ck_assert_msg(strcspn(line, "\n") == 0 || strchr(line, '\n')[-1] != ' ', "blanks at the end in\n%s",
                      text);
    }
}

START_TEST(table_text) {
    sample_tune *s = sample_tune_make(8);
    km_tune_candidate *c = sample_tune_add(s, KM_DESIGN_TENSOR, .8);
    sample_tune_word(c, "form", "rounded");
    sample_tune_number(c, "block", 384);
    c->registers = 168;
    c->occupancy = .1875;
    c = sample_tune_add(s, KM_DESIGN_REGISTERS, .5);
    sample_tune_number(c, "points_per_thread", 4);
    c = sample_tune_add(s, KM_DESIGN_TENSOR, 1);
    sample_tune_word(c, "form", "rows");
    sample_tune_outcome(c, KM_TUNE_SPILLS, "km_pass_0 spills 8 bytes with nvrtc 13.0");
    sample_tune_outcome(sample_tune_add(s, KM_DESIGN_TILED, 1), KM_TUNE_UNMEASURED, "");
    sample_tune_choose(s, 0);
    s->result.stopped = 1;
    char *text = written(km_tune_table, &s->result);
    ck_assert_str_eq(
        text,
        "NVIDIA H200 (cuda:sm_90, driver 580, nvrtc 13.0)\n"
        "features: 8, clusters: 3..10, type: float32, points: 8388608\n"
        "read floor 0.06250 ms; default 0.8000 ms; best 0.5000 ms, gain 60.0 %, noise 0.4 %\n"
        "4 candidates: 2 measured, 1 unmeasured, 1 left out; 41.2 s, stopped before the search was done\n"
        "\n"
        "   rank  design     registers  occupancy         ms  x read floor  x default  bound\n"
        "*     1  registers          -          -     0.5000         8.000      0.625  issue   83 %\n"
        "         points_per_thread: 4\n"
        " d    2  tensor           168       19 %     0.8000        12.800      1.000  tensor  60 %\n"
        "         form: rounded, block: 384\n"
        "* chosen, d the default; bound: the cost model's largest floor, and its share of the time\n"
        "\n"
        "1 unmeasured: the search did not come to it\n"
        "1 spills: km_pass_0 spills 8 bytes with nvrtc 13.0 (tensor, form: rows)\n");
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

START_TEST(table_fastest) {
    sample_tune *s = _i ? sample_tune_cpu() : sample_tune_cuda();
    char *text = written(km_tune_table, &s->result);
    assert_plain(text);
    ck_assert_int_eq(count_lines(text, "*     1  "), 1);
    ck_assert_int_eq(count_lines(text, "     10  "), 1);
    ck_assert_int_eq(count_lines(text, "     11  "), 0);
    ck_assert_int_eq(count_lines(text, " d"), 1); // not among the ten
    if (!_i) {
        for (int i = 0; i < KM_TUNE_OUTCOME_COUNT; i++) {
            char words[32];
            if (i == KM_TUNE_MEASURED) continue;
            snprintf(words, sizeof words, " %s: ", km_tune_outcome_name((km_tune_outcome)i));
            ck_assert_msg(strstr(text, words) != NULL, "no line of %s in\n%s", words, text);
        }
    }
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

// All numbers that a design can have, in as many lines as they take.
START_TEST(table_long_numbers) {
    sample_tune *s = sample_tune_make(1);
    km_tune_candidate *c = sample_tune_add(s, KM_DESIGN_REGISTERS, 1);
    for (int i = 0; i < KM_PARAM_COUNT; i++)
        if (!km_param_has_words((km_param)i)) sample_tune_number(c, km_param_name((km_param)i), 1000 + i);
    char *text = written(km_tune_table, &s->result);
    assert_plain(text);
    for (int64_t i = 1; i < c->numbers_count; i++) {
        char number[64];
        snprintf(number, sizeof number, " %s: %lld", c->numbers[i].name, (long long)c->numbers[i].value);
        ck_assert_msg(strstr(text, number) != NULL, "no%s in\n%s", number, text);
    }
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

// What all rows of a design share is said once below them.
START_TEST(table_shared_numbers) {
    sample_tune *s = sample_tune_make(4);
    for (int i = 0; i < 4; i++) {
        km_tune_candidate *c = sample_tune_add(s, i == 2 ? KM_DESIGN_TILED : KM_DESIGN_TENSOR, 1 + i);
        sample_tune_number(c, "block", 128 << i);
        sample_tune_number(c, "launches", 3);
        if (i) sample_tune_number(c, "prefetch", 2);
    }
    char *text = written(km_tune_table, &s->result);
    assert_plain(text);
    ck_assert_int_eq(count_lines(text, "         block: 128\n"), 1);
    ck_assert_int_eq(count_lines(text, "         block: 256, prefetch: 2\n"), 1);
    ck_assert_int_eq(count_lines(text, "         block: 512, launches: 3, prefetch: 2\n"),
                     1); // the only tiled
    ck_assert_int_eq(count_lines(text, "         each "), 1);
    ck_assert_int_eq(count_lines(text, "         each tensor: launches: 3\n"), 1);
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

START_TEST(table_odd) {
    sample_tune *s = sample_odd();
    char *text = written(km_tune_table, &s->result);
    assert_plain(text);
    ck_assert_ptr_nonnull(strstr(text, "NNN... (cuda:sm_90, driver 580")); // the name is cut
    ck_assert_ptr_nonnull(strstr(text, "rrr...\n"));
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

START_TEST(table_empty) {
    sample_tune *s = sample_empty(_i);
    char *text = written(km_tune_table, &s->result);
    assert_plain(text);
    ck_assert_ptr_nonnull(strstr(text, "no candidate was measured"));
    ck_assert_ptr_null(strstr(text, "rank"));
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

// Maps ------------------------------------------------------------------------------------------------------

static km_tune_map map_of(const sample_tune *s) {
    km_tune_map map;
    km_error err = {""};
    ck_assert_msg(km_tune_map_make(&map, &s->result, &err) == KM_OK, "%s", err.text);
    return map;
}

static void check_axis(const km_tune_axis *axis, const char *name, int64_t count) {
    if (name)
        ck_assert_str_eq(axis->name, name);
    else
        ck_assert_ptr_null(axis->name);
    ck_assert_int_eq(axis->count, count);
}

static void check_sheet(const km_tune_sheet *sheet, km_design design, const char *rows, int64_t rows_count,
                        const char *columns, int64_t columns_count, const char *panels,
                        int64_t panels_count) {
    ck_assert_int_eq(sheet->design, design);
    check_axis(&sheet->rows, rows, rows_count);
    check_axis(&sheet->columns, columns, columns_count);
    check_axis(&sheet->panels, panels, panels_count);
}

// The design of the best, that of the default, then the others by their fastest; the directions of each.
START_TEST(map_sheets) {
    sample_tune *s = sample_tune_cuda();
    km_tune_map map = map_of(s);
    ck_assert_int_eq(map.sheets_count, 3);
    check_sheet(&map.sheets[0], KM_DESIGN_TENSOR, "blocks_per_sm", 4, "block", 4, "form", 3);
    check_sheet(&map.sheets[1], KM_DESIGN_REGISTERS, "points_per_thread", 6, "block", 6, "grid", 4);
    check_sheet(&map.sheets[2], KM_DESIGN_TILED, "tile_points", 4, "tile_clusters", 4, NULL, 1);
    ck_assert_str_eq(map.sheets[0].panels.labels[1], "digits");
    ck_assert_str_eq(map.sheets[1].columns.labels[2], "192");
    ck_assert(map.fastest == s->candidates[s->result.best].ms);
    ck_assert(map.slowest / map.fastest > 10);
    for (int i = 0; i < KM_TUNE_OUTCOME_COUNT; i++) ck_assert_int_eq(map.outcomes[i], 1);
    km_tune_map_clear(&map);
    s->result.standard = s->result.candidates_count - 16; // tiled, the slowest of the three
    map = map_of(s);
    ck_assert_int_eq(map.sheets[1].design, KM_DESIGN_TILED);
    ck_assert_int_eq(map.sheets[2].design, KM_DESIGN_REGISTERS);
    km_tune_map_clear(&map);
    sample_tune_free(s);
    s = sample_tune_cpu();
    map = map_of(s);
    check_sheet(&map.sheets[0], KM_DESIGN_LANES, "lanes", 3, "vectors", 4, NULL, 1);
    check_sheet(&map.sheets[1], KM_DESIGN_GEMM, "tile_clusters", 5, "vectors", 4, "panel_clusters", 3);
    check_sheet(&map.sheets[2], KM_DESIGN_PREBUILT, NULL, 1, NULL, 1, NULL, 1);
    km_tune_map_clear(&map);
    sample_tune_free(s);
}
END_TEST

static km_tune_candidate *add_block(sample_tune *s, double ms, int64_t block, int64_t segments) {
    km_tune_candidate *c = sample_tune_add(s, KM_DESIGN_TENSOR, ms);
    sample_tune_number(c, "block", block);
    sample_tune_number(c, "segments", segments);
    return c;
}

// Of candidates that share a cell the fastest is shown; without one a failure; then what was not measured.
START_TEST(map_cells) {
    sample_tune *s = sample_tune_make(16);
    add_block(s, 3, 128, 1)->ms = NAN; // measured, and has no time: not a failure either
    add_block(s, 3, 128, 1);
    add_block(s, 2, 128, 1);
    sample_tune_outcome(add_block(s, 1, 128, 1), KM_TUNE_WRONG, "differs");
    sample_tune_outcome(add_block(s, 1, 256, 1), KM_TUNE_UNMEASURED, "");
    sample_tune_outcome(add_block(s, 1, 256, 1), KM_TUNE_HUNG, "no answer");
    sample_tune_outcome(add_block(s, 1, 128, 2), KM_TUNE_UNMEASURED, "");
    for (int i = 0; i < 7; i++)
        sample_tune_number(&s->candidates[i], "split", 3); // all the same: no direction
    s->result.standard = 1;
    s->result.best = 2;
    km_tune_map map = map_of(s);
    const km_tune_sheet *sheet = &map.sheets[0];
    check_sheet(sheet, KM_DESIGN_TENSOR, "segments", 2, "block", 2, NULL, 1);
    const km_tune_cell *cell = km_tune_map_cell(sheet, 0, 0, 0);
    ck_assert_ptr_eq(cell->shown, &s->candidates[2]);
    ck_assert(cell->has_best && cell->has_standard);
    cell = km_tune_map_cell(sheet, 0, 0, 1);
    ck_assert_ptr_eq(cell->shown, &s->candidates[5]);
    ck_assert(!cell->has_best && !cell->has_standard);
    ck_assert_ptr_eq(km_tune_map_cell(sheet, 0, 1, 0)->shown, &s->candidates[6]);
    ck_assert_ptr_null(km_tune_map_cell(sheet, 0, 1, 1)->shown); // there is no such candidate
    ck_assert(map.fastest == 2 && map.slowest == 2);
    ck_assert_int_eq(sheet->timed, 2);
    ck_assert_int_eq(km_tune_shown_outcome(&s->candidates[0]), KM_TUNE_UNMEASURED);
    km_tune_map_clear(&map);
    sample_tune_free(s);
}
END_TEST

// A number that follows from others is no direction; where a candidate lacks one, it stands under "none".
START_TEST(map_dependent_numbers) {
    sample_tune *s = sample_tune_make(64);
    for (int64_t block = 128; block <= 512; block *= 2) {
        for (int64_t tile = 16; tile <= 64; tile *= 2) {
            for (int form = 0; form < 2; form++) {
                km_tune_candidate *c = sample_tune_add(s, KM_DESIGN_TENSOR, (double)(block + tile + form));
                sample_tune_word(c, "form", form ? "rows" : "digits");
                sample_tune_number(c, "block", block);
                sample_tune_number(c, "grid", 132 * 512 / block);
                if (form) sample_tune_number(c, "prefetch", 2);
                sample_tune_number(c, "tile_clusters", tile);
            }
        }
    }
    km_tune_map map = map_of(s);
    check_sheet(&map.sheets[0], KM_DESIGN_TENSOR, "tile_clusters", 3, "block", 3, "form", 2);
    km_tune_map_clear(&map);
    for (int64_t i = 0; i < s->result.candidates_count; i++)
        s->candidates[i].numbers[1].value = 3; // one form
    map = map_of(s);
    check_sheet(&map.sheets[0], KM_DESIGN_TENSOR, "tile_clusters", 3, "block", 3, "prefetch", 2);
    ck_assert_str_eq(map.sheets[0].panels.labels[0], "none");
    ck_assert_str_eq(map.sheets[0].panels.labels[1], "2");
    ck_assert(km_tune_map_cell(&map.sheets[0], 0, 0, 0)->shown == &s->candidates[0]);
    ck_assert(km_tune_map_cell(&map.sheets[0], 1, 0, 0)->shown == &s->candidates[1]);
    km_tune_map_clear(&map);
    sample_tune_free(s);
}
END_TEST

// More values than places: the fastest, the chosen and the default's have their own, all others share the last one.
START_TEST(map_others) {
    sample_tune *s = sample_tune_make(200);
    for (int64_t i = 0; i < 200; i++) add_block(s, 1 + fabs((double)i - 150), 128 << i % 2, 1000 - i);
    s->result.standard = 3;
    s->result.best = 150;
    km_tune_map map = map_of(s);
    const km_tune_axis *axis = &map.sheets[0].rows;
    check_axis(axis, "segments", KM_TUNE_PLACES_MAX);
    ck_assert_int_eq(axis->others, 200 - KM_TUNE_PLACES_MAX + 1);
    ck_assert_str_eq(axis->labels[KM_TUNE_PLACES_MAX - 1], "153 others");
    for (int64_t i = 1; i < KM_TUNE_PLACES_MAX - 1; i++)
        ck_assert_int_lt(axis->values[i - 1], axis->values[i]);
    ck_assert_str_eq(axis->labels[KM_TUNE_PLACES_MAX - 2], "997"); // the default's, which is slow
    ck_assert_ptr_eq(km_tune_map_cell(&map.sheets[0], 0, KM_TUNE_PLACES_MAX - 2, 1)->shown,
                     &s->candidates[3]);
    const km_tune_candidate *last = km_tune_map_cell(&map.sheets[0], 0, KM_TUNE_PLACES_MAX - 1, 0)->shown;
    ck_assert_int_eq(last - s->candidates, 126); // the fastest of the others with this block
    km_tune_map_clear(&map);
    sample_tune_free(s);
}
END_TEST

START_TEST(map_empty) {
    sample_tune *s = sample_empty(_i);
    km_tune_map map = map_of(s);
    ck_assert_int_eq(map.sheets_count, _i ? 3 : 0);
    ck_assert(map.fastest == 0);
    km_tune_map_clear(&map);
    sample_tune_free(s);
}
END_TEST

// Pictures --------------------------------------------------------------------------------------------------

// fontconfig, which finds cairo's fonts, never frees some of its tables: LeakSanitizer passes over them.
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libfontconfig\n";
}

static char folder[64];

static void make_folder(void) {
    strcpy(folder, "/tmp/kmgen-test-tune-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
    ck_assert_int_eq(rmdir(folder), 0); // each test removed what it wrote, and nothing else was left
}

static char *drawn(const km_tune_result *result, const char *name, int64_t *size) {
    char path[96], *bytes;
    km_error err = {""};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_msg(km_tune_plot(path, result, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(km_file_read(&bytes, size, path, 0, NULL), KM_OK);
    unlink(path);
    return bytes;
}

// Tags that are closed in their order, attributes in quotes, references that end, no other '<' or '&'.
static void assert_well_formed(const char *text) {
    enum { DEPTH_MAX = 64 };
    const char *open[DEPTH_MAX], *at = text;
    size_t sizes[DEPTH_MAX];
    int depth = 0, roots = 0;
    while (*at) {
        if (*at == '&') ck_assert(strchr("algq", at[1]) && strcspn(at, ";") <= 5);
        if (*at++ != '<') continue;
        int closes = *at == '/', is_head = *at == '?';
        const char *name = at + closes;
        size_t size = strcspn(name, " \n/>");
        for (; *at != '>'; at++) {
            ck_assert_msg(*at && *at != '<', "a tag has no end");
            if (*at != '"') continue;
            at = strchr(at + 1, '"');
            ck_assert_ptr_nonnull(at);
        }
        if (closes) {
            ck_assert_int_gt(depth--, 0);
            ck_assert_msg(sizes[depth] == size && !strncmp(open[depth], name, size), "%.20s closes %.20s",
                          name, open[depth]);
        } else if (!is_head && at[-1] != '/') {
            roots += depth == 0;
            ck_assert_int_lt(depth, DEPTH_MAX);
            open[depth] = name;
            sizes[depth++] = size;
        }
    }
    ck_assert_int_eq(depth, 0);
    ck_assert_int_eq(roots, 1);
}

// The words of an SVG, as what is drawn are outlines of letters.
static char *words_of(const char *svg) {
    const char *begin = strstr(svg, "\n<desc>"), *end = strstr(svg, "</desc>");
    ck_assert(begin && end > begin);
    return strndup(begin + 7, (size_t)(end - begin - 7));
}

static const char *const drawn_words[] = {
    "Design tensor. Rows: blocks_per_sm (1, 2, 3, 4). Columns: block (128, 256, 384, 512). Panels: form "
    "(rounded, "
    "digits, rows). Fastest: 0.08594 ms, form: rounded, block: 384, blocks_per_sm: 1. Design registers. "
    "Rows: "
    "points_per_thread (1, 2, 3, 4, 6, 8). Columns: block (64, 128, 192, 256, 384, 512). Panels: grid (132, "
    "264, 528, "
    "1056). Fastest: 0.1375 ms, form: constant, points_per_thread: 4, block: 256, grid: 132. Design tiled.",
    "Design lanes. Rows: lanes (4, 8, 16). Columns: vectors (1, 2, 3, 4). Fastest: 19.00 ms, lanes: 4, "
    "vectors: 4. "
    "Design gemm. Rows: tile_clusters",
    "Design tensor.",
    "No candidate was measured.",
    "Design tensor. Rows: blocks_per_sm (1, 2, 3, 4).",
};

START_TEST(pictures) {
    sample_tune *s = _i == 0   ? sample_tune_cuda()
                     : _i == 1 ? sample_tune_cpu()
                     : _i == 2 ? sample_odd()
                               : sample_empty(_i - 3);
    int64_t size;
    char *svg = drawn(&s->result, "plot.svg", &size), *words = words_of(svg);
    assert_well_formed(svg);
    ck_assert_msg(strncmp(words, drawn_words[_i], strlen(drawn_words[_i])) == 0, "%s", words);
    ck_assert_ptr_nonnull(strstr(svg, _i == 1   ? "\n<title>kmgen tune on two cores (cpu:avx2,"
                                      : _i == 2 ? "\n<title>kmgen tune on ?[31m? \"x\", &lt;&amp;&gt; NNN"
                                                : "\n<title>kmgen tune on NVIDIA H200 (cuda:sm_90"));
    ck_assert_ptr_null(strstr(svg, "nan"));
    ck_assert_ptr_null(strstr(svg, "inf"));
    ck_assert_ptr_nonnull(strstr(svg, "width=\"800"));
    free(words);
    km_text_free(svg);
    char *png = drawn(&s->result, "plot.PNG", &size);
    ck_assert_int_gt(size, 1000);
    ck_assert_int_eq(memcmp(png, "\x89PNG", 4), 0);
    km_text_free(png);
    sample_tune_free(s);
}
END_TEST

// Whether something is filled with that colour: cairo's versions write `fill:rgb(` and `fill="rgb(`.
static int has_fill(const char *svg, double red, double green, double blue) {
    double r, g, b;
    for (const char *at = svg; (at = strstr(at, "fill")); at += 4)
        if (sscanf(at, "fill%*[:=\"]rgb( %lf%% , %lf%% , %lf%%", &r, &g, &b) == 3 && fabs(r - red) < .1 &&
            fabs(g - green) < .1 && fabs(b - blue) < .1)
            return 1;
    return 0;
}

// Ten times and a hundred times the fastest: half of the scale and its end.
START_TEST(picture_colours) {
    sample_tune *s = sample_tune_make(3);
    int64_t size;
    for (int i = 0; i < 3; i++)
        sample_tune_number(sample_tune_add(s, KM_DESIGN_TENSOR, pow(10, i)), "block", 128 << i);
    char *svg = drawn(&s->result, "plot.svg", &size);
    ck_assert(has_fill(svg, 99.3, 90.6, 14.4));
    ck_assert(has_fill(svg, 12.9, 56.9, 54.9));
    ck_assert(has_fill(svg, 26.7, .5, 32.9));
    km_text_free(svg);
    sample_tune_free(s);
}
END_TEST

// Times that nothing has, and a list of K that no line holds.
START_TEST(picture_extremes) {
    sample_tune *s = sample_tune_make(3);
    int64_t size;
    int32_t clusters[KM_RANGE_MAX];
    for (int i = 0; i < KM_RANGE_MAX; i++) clusters[i] = 2 + i * i / 300 + i;
    s->result.spec.clusters = clusters;
    s->result.spec.clusters_count = KM_RANGE_MAX;
    for (int i = 0; i < 3; i++)
        sample_tune_number(sample_tune_add(s, KM_DESIGN_TENSOR, pow(10, 300 * (i - 1))), "block", 128 << i);
    char *svg = drawn(&s->result, "plot.svg", &size), *text = written(km_tune_table, &s->result);
    assert_well_formed(svg);
    ck_assert_ptr_null(strstr(svg, "nan"));
    ck_assert_ptr_null(strstr(svg, "inf"));
    assert_plain(text);
    km_text_free(svg);
    km_text_free(text);
    sample_tune_free(s);
}
END_TEST

START_TEST(bad_names) {
    sample_tune *s = sample_tune_cpu();
    km_error err = {""};
    ck_assert_int_eq(km_tune_plot("plot.gif", &s->result, &err), KM_ERROR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.text, "must end in .svg, .png or .pdf"));
    err.text[0] = 0;
    ck_assert_int_eq(km_tune_plot("/nowhere/plot.svg", &s->result, &err), KM_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "cannot write /nowhere/plot.svg"));
    sample_tune_free(s);
}
END_TEST

START_TEST(without_cairo) {
    sample_tune *s = sample_tune_cpu();
    km_error err = {""};
    ck_assert_int_eq(km_tune_plot("plot.svg", &s->result, &err), KM_ERROR_USAGE);
    ck_assert_str_eq(err.text,
                     "cannot draw plot.svg: this kmgen was built without cairo; leave the picture out, or "
                     "build it with meson's option -Dcairo=enabled");
    sample_tune_free(s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tune_report");
    TCase *json = tcase_create("json"), *csv_case = tcase_create("csv"), *table = tcase_create("table"),
          *map = tcase_create("map"), *plot = tcase_create("plot");
    tcase_add_loop_test(json, json_contract, 0, 3);
    tcase_add_loop_test(json, json_empty, 0, 2);
    tcase_add_test(json, json_schema);
    suite_add_tcase(suite, json);
    tcase_add_loop_test(csv_case, csv_rows, 0, 3);
    tcase_add_loop_test(csv_case, csv_empty, 0, 2);
    tcase_add_test(csv_case, csv_language);
    tcase_set_timeout(csv_case, 60); // localedef takes its time
    suite_add_tcase(suite, csv_case);
    tcase_add_test(table, table_text);
    tcase_add_loop_test(table, table_fastest, 0, 2);
    tcase_add_test(table, table_long_numbers);
    tcase_add_test(table, table_shared_numbers);
    tcase_add_test(table, table_odd);
    tcase_add_loop_test(table, table_empty, 0, 2);
    suite_add_tcase(suite, table);
    tcase_add_test(map, map_sheets);
    tcase_add_test(map, map_cells);
    tcase_add_test(map, map_dependent_numbers);
    tcase_add_test(map, map_others);
    tcase_add_loop_test(map, map_empty, 0, 2);
    suite_add_tcase(suite, map);
    tcase_add_checked_fixture(plot, make_folder, remove_folder);
    tcase_set_timeout(plot, 60);
    if (km_built_with(KM_PART_CAIRO)) {
        tcase_add_loop_test(plot, pictures, 0, 5);
        tcase_add_test(plot, picture_colours);
        tcase_add_test(plot, picture_extremes);
        tcase_add_test(plot, bad_names);
    } else {
        tcase_add_test(plot, without_cairo);
    }
    suite_add_tcase(suite, plot);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

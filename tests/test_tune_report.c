// SPDX-License-Identifier: MIT
// What is written of a tuning: JSON by its contract, CSV, the table, pictures.
#include "../gen/words.h"
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
    char folder[] = "/tmp/kmgen-test-language-XXXXXX", command[160];
    sample_tune *s = sample_tune_cpu();
    char *plain = written(km_tune_csv, &s->result);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/log 2>&1", folder,
             folder);
    if (system(command) == 0) {
        setenv("LOCPATH", folder, 1);
        ck_assert_ptr_nonnull(setlocale(LC_ALL, "de_DE.UTF-8"));
        char *text = written(km_tune_csv, &s->result);
        ck_assert(strtod("1,5", NULL) == 1.5); // it is in force, and still so
        setlocale(LC_ALL, "C");
        ck_assert_str_eq(text, plain);
        km_text_free(text);
    } else {
        fputs("tune_report: csv_language skipped: localedef cannot make de_DE\n", stderr);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
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
        text, "NVIDIA H200 (cuda:sm_90, driver 580, nvrtc 13.0)\n"
              "features: 8, clusters: 3..10, type: float32, points: 8388608\n"
              "read floor 0.06250 ms; default 0.8000 ms; best 0.5000 ms, gain 60.0 %, noise 0.4 %\n"
              "4 candidates, 2 measured, 1 unmeasured, 1 spills; 41.2 s, stopped before the search was done\n"
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

int main(void) {
    Suite *suite = suite_create("tune_report");
    TCase *json = tcase_create("json"), *csv_case = tcase_create("csv"), *table = tcase_create("table");
    tcase_add_loop_test(json, json_contract, 0, 3);
    tcase_add_loop_test(json, json_empty, 0, 2);
    tcase_add_test(json, json_schema);
    suite_add_tcase(suite, json);
    tcase_add_loop_test(csv_case, csv_rows, 0, 3);
    tcase_add_loop_test(csv_case, csv_empty, 0, 2);
    tcase_add_test(csv_case, csv_language);
    suite_add_tcase(suite, csv_case);
    tcase_add_test(table, table_text);
    tcase_add_loop_test(table, table_fastest, 0, 2);
    tcase_add_test(table, table_long_numbers);
    tcase_add_test(table, table_odd);
    tcase_add_loop_test(table, table_empty, 0, 2);
    suite_add_tcase(suite, table);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

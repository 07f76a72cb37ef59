// SPDX-License-Identifier: MIT
// Every public plan number, in every design: a value that is fixed is obeyed in the emitted text, or refused with a
// sentence that names the number. The list of numbers is gen/params.h itself.
#include "gen/source.h"
#include "gen/words.h"
#include "quiet_check.h"
#include "short_form.h"
#include <kmgen/plan.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t lowest, highest;
    int targets;
} numbers[] = {
#define KM_TEST_NUMBER(name, lowest, highest, targets, tune, meaning) {#name, lowest, highest, targets},
    KM_PARAMS(KM_TEST_NUMBER)
#undef KM_TEST_NUMBER
};
enum { NUMBERS_COUNT = sizeof numbers / sizeof *numbers };

static const struct {
    const char *target, *design;
    int is_cuda;
} designs[] = {
    {"cuda:sm_90", "registers", 1}, {"cuda:sm_90", "tensor", 1}, {"cuda:sm_90", "tiled", 1},
    {"cuda:sm_80", "registers", 1}, {"cuda:sm_80", "tensor", 1}, {"cuda:sm_80", "tiled", 1},
    {"cpu:avx512", "lanes", 0},     {"cpu:avx512", "gemm", 0},   {"cpu:avx512", "prebuilt", 0},
    {"cpu:avx2", "lanes", 0},       {"cpu:avx2", "gemm", 0},     {"cpu:avx2", "prebuilt", 0},
};
enum { DESIGNS_COUNT = sizeof designs / sizeof *designs };

// Shapes that give each design's forms.
static const struct {
    int64_t features;
    const char *clusters;
    km_type type;
} shapes[] = {{4, "3..5", KM_FLOAT32},   {8, "2..20", KM_FLOAT32},    {16, "64,200", KM_FLOAT32},
              {32, "3..12", KM_FLOAT32}, {200, "10,300", KM_FLOAT32}, {8, "3..5", KM_FLOAT64}};
enum { SHAPES_COUNT = sizeof shapes / sizeof *shapes };

static const int64_t values[] = {0,  1,  2,   3,   4,   5,   6,   7,   8,   9,   10,   12,   16,    24,
                                 32, 48, 64,  80,  96,  100, 128, 192, 250, 256, 384,  512,  768,   1024,
                                 12, 33, 200, 132, 264, 160, 300, 777, 999, 640, 2048, 4096, 65535, 1048576};
enum { VALUES_COUNT = sizeof values / sizeof *values };

// One value that was taken, and the text that came of it.
typedef struct taken {
    int64_t value;
    char *text;
} taken;

static void make_spec(km_spec *spec, int design, int shape) {
    km_error err;
    km_spec_init(spec);
    spec->features = shapes[shape].features;
    spec->type = shapes[shape].type;
    ck_assert_int_eq(km_spec_set_clusters(spec, shapes[shape].clusters, &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(spec, designs[design].target, &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(spec, "design", designs[design].design, &err), KM_OK);
}

static int is_of_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '\'';
}

static int has_word(const char *text, const char *word) {
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        if (!is_of_word(at[strlen(word)]) && (at == text || !is_of_word(at[-1]))) return 1;
    return 0;
}

static int has_number(const char *text, int64_t value) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)value);
    return has_word(text, number);
}

static int64_t count_of(const char *text, const char *word) {
    int64_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) count++;
    return count;
}

// A plan with one number fixed. NULL: refused, in a sentence that names the number.
static char *text_of(const km_spec *shape, const char *name, int64_t value, const char *where) {
    km_spec spec;
    km_plan plan;
    km_source source;
    km_error err = {{0}};
    char *text = NULL;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_source_init(&source);
    ck_assert_int_eq(km_spec_copy(&spec, shape, &err), KM_OK);
    snprintf(spec.fixed[spec.fixed_count].name, sizeof spec.fixed[0].name, "%s", name);
    spec.fixed[spec.fixed_count++].value = value;
    km_status status = km_plan_make(&plan, &spec, NULL, &err);
    if (status == KM_OK) {
        ck_assert_msg(km_plan_get(&plan, name) == value, "%s: the plan has %s %lld", where, name,
                      (long long)km_plan_get(&plan, name));
        ck_assert_msg(plan.design == KM_DESIGN_PREBUILT ||
                          km_source_emit(&source, &plan, NULL, &err) == KM_OK,
                      "%s: %s", where, err.text);
        int64_t size;
        ck_assert_int_eq(km_source_kernels(&text, &size, source.text ? source.text : "", &err), KM_OK);
    } else {
        ck_assert_msg(status == KM_ERROR_PLAN && has_word(err.text, name),
                      "%s: refused without naming it: %s", where, err.text);
    }
    km_source_clear(&source);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    return text;
}

// Other values give other texts, which have the value; each launch more is a kernel more.
static void compare(const char *name, const taken *a, const taken *b, const char *where) {
    ck_assert_msg(strcmp(a->text, b->text) != 0, "%s: %lld gives the text of %lld", where,
                  (long long)b->value, (long long)a->value);
    int is_tile = !strncmp(name, "tile_", 5); // written as warps, products or groups of them
    int is_word = !strcmp(name, "form") || !strcmp(name, "sums");
    ck_assert_msg(is_tile || is_word || b->value < 16 || has_number(b->text, b->value),
                  "%s: the text has no %lld", where, (long long)b->value);
    if (strcmp(name, "launches")) return;
    int64_t more = count_of(b->text, "KM_STAGE_PASS") - count_of(a->text, "KM_STAGE_PASS");
    ck_assert_msg(more == b->value - a->value, "%s: %lld launches instead of %lld are %lld kernels more",
                  where, (long long)b->value, (long long)a->value, (long long)more);
}

START_TEST(fixed_numbers_are_obeyed_or_refused) {
    int design = _i / SHAPES_COUNT, shape = _i % SHAPES_COUNT;
    // The short form: every other shape of a design; for sanitizers (scripts/test) every eleventh.
    if (!is_whole() && (design + shape) % (is_sample() ? 11 : 2)) return;
    km_spec spec;
    km_plan plan;
    make_spec(&spec, design, shape);
    km_plan_init(&plan);
    int possible = km_plan_make(&plan, &spec, NULL, NULL) == KM_OK;
    for (int n = 0; n < NUMBERS_COUNT && possible; n++) {
        taken all[VALUES_COUNT + 1];
        int count = 0;
        // Concurrent restarts of a CPU are slots of its engine, the same for any text.
        int in_text = strcmp(designs[design].design, "prebuilt") != 0 &&
                      (designs[design].is_cuda || strcmp(numbers[n].name, "concurrent_restarts") != 0);
        for (int v = 0; v <= VALUES_COUNT; v++) {
            int words = km_param_has_words((km_param)n); // their values are 0 and up
            int64_t value = !v      ? km_plan_get(&plan, numbers[n].name)
                            : words ? v - 1
                                    : values[v - 1]; // its own first
            char where[200];
            int known = words ? value < 0 || value >= KM_WORD_COUNT
                              : value < numbers[n].lowest || value > numbers[n].highest;
            for (int i = 0; i < count; i++) known |= all[i].value == value;
            if (known) continue;
            snprintf(where, sizeof where, "%s %s, %s of %lld features, %s = %lld", designs[design].target,
                     designs[design].design, shapes[shape].clusters, (long long)shapes[shape].features,
                     numbers[n].name, (long long)value);
            char *text = text_of(&spec, numbers[n].name, value, where);
            ck_assert_msg(v || text, "%s: the plan's own value is refused", where);
            if (!text) continue;
            all[count] = (taken){value, text};
            for (int i = 0; i < count && in_text; i++) compare(numbers[n].name, &all[i], &all[count], where);
            count++;
        }
        for (int i = 0; i < count; i++) free(all[i].text);
    }
    km_plan_clear(&plan);
    km_spec_clear(&spec);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fixed");
    TCase *fixed = tcase_create("fixed");
    tcase_add_loop_test(fixed, fixed_numbers_are_obeyed_or_refused, 0, DESIGNS_COUNT * SHAPES_COUNT);
    tcase_set_timeout(fixed, 120);
    suite_add_tcase(suite, fixed);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

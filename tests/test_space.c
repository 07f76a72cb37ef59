// SPDX-License-Identifier: MIT
// The space of a tuning: which plans are candidates, and what of a candidate a table keeps.
#include "../gen/space.h"
#include "../gen/numbers.h"
#include "../gen/words.h"
#include "quiet_check.h"
#include <stdlib.h>
#include <string.h>

static km_spec spec;
static km_plan_params params;
static km_device_facts facts;
static km_space space;
static km_error err;

static void setup(void) {
    km_spec_init(&spec);
    km_plan_params_init(&params);
    params.points = 1 << 23;
    params.facts = &facts;
    err.text[0] = 0;
}

static void teardown(void) {
    km_space_clear(&space);
    km_spec_clear(&spec);
}

static void make(const char *target, int64_t d, const char *clusters, int full) {
    km_space_clear(&space);
    spec.features = d;
    ck_assert_int_eq(km_spec_set_target(&spec, target, &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, clusters, &err), KM_OK);
    km_device_facts_init(&facts, spec.target);
    ck_assert_msg(km_space_make(&space, &spec, &params, full, &err) == KM_OK, "%s", err.text);
}

static int64_t number_of(const km_tune_candidate *candidate, const char *name) {
    for (int64_t i = 0; i < candidate->numbers_count; i++)
        if (!strcmp(candidate->numbers[i].name, name)) return candidate->numbers[i].value;
    return -1;
}

START_TEST(values) {
    int64_t found[KM_SPACE_VALUES_MAX];
    // The planner's own among those of params.h, in order, each once.
    int64_t count = km_space_values(found, KM_PARAM_block, KM_DESIGN_REGISTERS, 640, 0);
    int64_t own = 0;
    for (int64_t i = 0; i < count; i++) {
        own += found[i] == 640;
        if (i) ck_assert_int_lt(found[i - 1], found[i]);
    }
    ck_assert_int_eq(own, 1);
    ck_assert_int_gt(km_space_values(found, KM_PARAM_block, KM_DESIGN_REGISTERS, 512, 1), count);
    // Multiples of it.
    ck_assert_int_eq(km_space_values(found, KM_PARAM_grid, KM_DESIGN_REGISTERS, 132, 0), 1);
    ck_assert_int_eq(found[0], 132);
    ck_assert_int_eq(km_space_values(found, KM_PARAM_grid, KM_DESIGN_REGISTERS, 132, 1), 4);
    ck_assert_int_eq(found[0], 66);
    ck_assert_int_eq(found[3], 528);
    ck_assert_int_eq(km_space_values(found, KM_PARAM_grid, KM_DESIGN_REGISTERS, 1, 1), 3); // no half of one
    // Words are those of the design.
    count = km_space_values(found, KM_PARAM_form, KM_DESIGN_TILED, KM_WORD_form_tiles, 0);
    ck_assert_int_eq(count, 5);
    for (int64_t i = 0; i < count; i++) ck_assert(km_word_is_of(found[i], KM_PARAM_form, KM_DESIGN_TILED));
    // What params.h leaves out is not tuned.
    ck_assert_int_eq(km_space_values(found, KM_PARAM_lanes, KM_DESIGN_LANES, 8, 1), 0);
}
END_TEST

// Every candidate is a plan with exactly its numbers, no two are the same, and one is the planner's own.
static void check_space(void) {
    ck_assert_int_gt(space.count, 1);
    ck_assert(space.standard >= 0 && space.standard < space.count);
    int64_t step = space.count / 50 + 1;
    for (int64_t i = 0; i < space.count; i += i == space.standard ? 1 : step) {
        km_spec fixed;
        km_plan plan;
        km_spec_init(&fixed);
        km_plan_init(&plan);
        const km_tune_candidate *candidate = &space.candidates[i];
        ck_assert(candidate->predicted_ms > 0 && candidate->outcome == KM_TUNE_UNMEASURED);
        ck_assert_int_eq(km_space_spec(&fixed, &spec, candidate, &err), KM_OK);
        ck_assert_msg(km_plan_make(&plan, &fixed, &params, &err) == KM_OK, "%s", err.text);
        ck_assert_int_eq(plan.design, candidate->design);
        for (int64_t j = 1; j < candidate->numbers_count; j++)
            ck_assert_int_eq(km_plan_get(&plan, candidate->numbers[j].name), candidate->numbers[j].value);
        for (int64_t other = 0; other < i; other++)
            ck_assert(
                space.candidates[other].numbers_count != candidate->numbers_count ||
                memcmp(space.candidates[other].numbers, candidate->numbers, sizeof candidate->numbers) != 0);
        km_plan_clear(&plan);
        km_spec_clear(&fixed);
    }
}

static void check_standard(void) {
    km_plan plan;
    km_plan_init(&plan);
    params.untuned = 1;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_OK);
    const km_tune_candidate *standard = &space.candidates[space.standard];
    ck_assert_int_eq(plan.design, standard->design);
    for (int64_t j = 1; j < standard->numbers_count; j++)
        ck_assert_int_eq(km_plan_get(&plan, standard->numbers[j].name), standard->numbers[j].value);
    km_plan_clear(&plan);
}

START_TEST(candidates) {
    static const struct {
        const char *target, *clusters;
        int64_t d;
        int full;
    } shapes[] = {{"cuda:sm_90", "3..5", 4, 0},   {"cuda:sm_90", "3..12", 8, 0},
                  {"cuda:sm_90", "3..12", 31, 0}, {"cuda:sm_90", "256", 64, 0},
                  {"cuda:sm_75", "2..7", 5, 0},   {"cpu:avx2", "2..12", 8, 1},
                  {"cpu:avx512", "2..12", 32, 1}, {"cpu:generic", "2,300", 3, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        make(shapes[i].target, shapes[i].d, shapes[i].clusters, shapes[i].full);
        check_space();
        check_standard();
    }
    spec.type = KM_FLOAT64;
    make("cuda:sm_90", 6, "2..9", 0);
    check_space();
    check_standard();
}
END_TEST

START_TEST(full_has_more) {
    make("cpu:avx2", 8, "2..12", 0);
    int64_t small = space.count;
    make("cpu:avx2", 8, "2..12", 1);
    ck_assert_int_gt(space.count, small);
}
END_TEST

// int16 scores have tiles of their own: plans that differ in others only would be one plan, measured many times.
START_TEST(idle_numbers) {
    int64_t with = 0, without = 0;
    ck_assert_int_eq(km_spec_fix(&spec, "design", "lanes", &err), KM_OK);
    make("cpu:avx512", 8, "2..12", 0);
    check_space();
    for (int64_t i = 0; i < space.count; i++) {
        const km_tune_candidate *candidate = &space.candidates[i];
        ck_assert_int_ge(number_of(candidate, "tile_clusters"), 1);
        if (number_of(candidate, "int16_scores"))
            with++;
        else
            without++;
    }
    ck_assert_int_eq(with, 1);
    ck_assert_int_gt(without, 4);
    make("cpu:avx512", 2, "2..12", 0); // the planner takes none
    with = 0;
    for (int64_t i = 0; i < space.count; i++) with += number_of(&space.candidates[i], "int16_scores");
    ck_assert_int_eq(with, 1);
    make("cpu:avx2", 8, "2..12", 0); // has none
    ck_assert_int_gt(space.count, 4);
}
END_TEST

// What the spec fixes stays fixed, and is no number of a candidate.
START_TEST(fixed_numbers) {
    ck_assert_int_eq(km_spec_fix(&spec, "design", "registers", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "block", "256", &err), KM_OK);
    make("cuda:sm_90", 4, "3..5", 0);
    check_space();
    for (int64_t i = 0; i < space.count; i++) {
        ck_assert_int_eq(space.candidates[i].design, KM_DESIGN_REGISTERS);
        ck_assert_int_eq(number_of(&space.candidates[i], "block"), -1);
    }
    ck_assert_int_eq(km_spec_fix(&spec, "points_per_thread", "16", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "block", "1024", &err), KM_OK);
    km_space_clear(&space);
    ck_assert_int_eq(km_space_make(&space, &spec, &params, 0, &err), KM_ERROR_PLAN); // no plan has both
    ck_assert(err.text[0] && !space.candidates);
}
END_TEST

// A table keeps what is not the planner's own once the rest is fixed: the blocks of a launch follow from the points.
START_TEST(decisive_numbers) {
    km_fixed numbers[KM_FIXED_MAX];
    int64_t count;
    make("cuda:sm_90", 4, "3..5", 0);
    km_tune_candidate candidate = space.candidates[space.standard];
    ck_assert_int_eq(km_space_decisive(numbers, &count, &spec, &params, &candidate, &err), KM_OK);
    int has_design = 0, has_block = 0;
    for (int64_t i = 0; i < count; i++) {
        ck_assert_str_ne(numbers[i].name, "grid");
        ck_assert_str_ne(numbers[i].name, "concurrent_restarts");
        has_design |= !strcmp(numbers[i].name, "design");
        has_block |= !strcmp(numbers[i].name, "block");
    }
    ck_assert(has_design && has_block);
    for (int64_t i = 0; i < candidate.numbers_count; i++)
        if (!strcmp(candidate.numbers[i].name, "grid")) candidate.numbers[i].value *= 2;
    int64_t more;
    ck_assert_int_eq(km_space_decisive(numbers, &more, &spec, &params, &candidate, &err), KM_OK);
    ck_assert_int_eq(more, count + 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("space");
    TCase *tests = tcase_create("space");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, values);
    tcase_add_test(tests, candidates);
    tcase_add_test(tests, full_has_more);
    tcase_add_test(tests, idle_numbers);
    tcase_add_test(tests, fixed_numbers);
    tcase_add_test(tests, decisive_numbers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

// SPDX-License-Identifier: MIT
// The spec: its setters, their messages, and the YAML reader.
#include "../gen/params.h"
#include "../gen/spec_fields.h"
#include <kmgen/plan.h>
#include <kmgen/spec.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static km_spec spec;
static km_error err;

static void begin(void) {
    km_spec_init(&spec);
    err.text[0] = 0;
}

static void end(void) {
    km_spec_clear(&spec);
}

static void expect_error(km_status got, km_status wanted, const char *text) {
    ck_assert_str_eq(err.text, text);
    ck_assert_int_eq(got, wanted);
    err.text[0] = 0;
}

START_TEST(defaults) {
    ck_assert_int_eq(spec.size, sizeof spec);
    ck_assert_str_eq(spec.name, "kmeans");
    ck_assert_int_eq(spec.features, 0);
    ck_assert_ptr_null(spec.clusters);
    ck_assert_int_eq(spec.type, KM_FLOAT32);
    ck_assert_int_eq(spec.target.kind, KM_TARGET_AUTO);
    ck_assert_int_eq(spec.restarts, 10);
}
END_TEST

static void expect_clusters(const char *text, int64_t count, int32_t first, int32_t last) {
    ck_assert_msg(km_spec_set_clusters(&spec, text, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(spec.clusters_count, count);
    ck_assert_int_eq(spec.clusters[0], first);
    ck_assert_int_eq(spec.clusters[count - 1], last);
    for (int64_t i = 1; i < count; i++) ck_assert_int_lt(spec.clusters[i - 1], spec.clusters[i]);
}

START_TEST(clusters_spellings) {
    expect_clusters("8", 1, 8, 8);
    expect_clusters("2..12", 11, 2, 12);
    expect_clusters(" 2 .. 12 ", 11, 2, 12);
    expect_clusters("2..20 step 2", 10, 2, 20);
    expect_clusters("2..21 step 2", 10, 2, 20);
    expect_clusters("3,5,8", 3, 3, 8);
    expect_clusters("[3, 5, 8]", 3, 3, 8);
    expect_clusters("[8, 3, 5]", 3, 3, 8);
    expect_clusters("[7]", 1, 7, 7);
    expect_clusters("1..4096", 4096, 1, 4096);
    expect_clusters("65535", 1, 65535, 65535);
}
END_TEST

static const struct {
    const char *text, *message;
} bad_clusters[] = {
    {"0", "clusters must be 1..65535, got 0"},
    {"-3", "clusters must be 1..65535, got -3"},
    {"65536", "clusters must be 1..65535, got 65536"},
    {"99999999999999999999", "clusters must be 1..65535, got a number that is far too large"},
    {"999999999999999999999999999999999999999999",
     "clusters must be 1..65535, got a number that is far too large"},
    {"12..2", "clusters must run from low to high, got 12..2; write 2..12"},
    {"0..5", "clusters must be 1..65535, got 0"},
    {"2..20 step 0", "clusters must have a step of 1..65535, got 0"},
    {"2..20 step -2", "clusters must have a step of 1..65535, got -2"},
    {"1..65535", "clusters must name at most 4096 K, got 65535; write 1..65535 step 17 or less of the range"},
    {"3,5,3", "clusters must be different from each other, got 3 twice"},
    {"", "clusters must be a number (8), a range (2..12), a range with a step (2..20 step 2) or a list "
         "([3, 5, 8]), got nothing"},
    {"many", "clusters must be a number (8), a range (2..12), a range with a step (2..20 step 2) or a list "
             "([3, 5, 8]), got \"many\""},
    {"[3, 5", "clusters must be a number (8), a range (2..12), a range with a step (2..20 step 2) or a list "
              "([3, 5, 8]), got \"[3, 5\""},
    {"3, 5]", "clusters must be a number (8), a range (2..12), a range with a step (2..20 step 2) or a list "
              "([3, 5, 8]), got \"3, 5]\""},
    {"2...5", "clusters must be a number (8), a range (2..12), a range with a step (2..20 step 2) or a list "
              "([3, 5, 8]), got \"2...5\""},
    {"010", "clusters must be a number (8), a range (2..12), a range with a step (2..20 step 2) or a list "
            "([3, 5, 8]), got \"010\""},
};

START_TEST(clusters_refused) {
    expect_clusters("4,6", 2, 4, 6);
    expect_error(km_spec_set_clusters(&spec, bad_clusters[_i].text, &err), KM_ERROR_SPEC,
                 bad_clusters[_i].message);
    ck_assert_int_eq(spec.clusters_count, 2);
    ck_assert_int_eq(spec.clusters[1], 6);
}
END_TEST

START_TEST(clusters_list_too_long) {
    char *text = malloc(6 * 5000);
    int size = 0;
    for (int i = 1; i <= 4097; i++) size += sprintf(text + size, "%d,", i);
    text[size - 1] = 0;
    expect_error(km_spec_set_clusters(&spec, text, &err), KM_ERROR_SPEC,
                 "clusters must name at most 4096 K, got more");
    free(text);
}
END_TEST

START_TEST(targets) {
    static const struct {
        const char *text;
        km_target target;
    } good[] = {
        {"auto", {KM_TARGET_AUTO, 0}},
        {"cpu", {KM_TARGET_CPU, KM_ISA_UNSET}},
        {"cpu:generic", {KM_TARGET_CPU, KM_ISA_GENERIC}},
        {"cpu:avx2", {KM_TARGET_CPU, KM_ISA_AVX2}},
        {"cpu:avx512", {KM_TARGET_CPU, KM_ISA_AVX512}},
        {"cpu:neon", {KM_TARGET_CPU, KM_ISA_NEON}},
        {"cuda", {KM_TARGET_CUDA, 0}},
        {"cuda:sm_90", {KM_TARGET_CUDA, 90}},
        {"cuda:sm_120", {KM_TARGET_CUDA, 120}},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(km_spec_set_target(&spec, good[i].text, &err), KM_OK);
        ck_assert_int_eq(spec.target.kind, good[i].target.kind);
        ck_assert_int_eq(spec.target.arch, good[i].target.arch);
    }
    expect_error(km_spec_set_target(&spec, "cpu:avx", &err), KM_ERROR_SPEC,
                 "target must be auto, cpu, cpu:generic|avx2|avx512|neon, cuda or cuda:sm_NN, got "
                 "\"cpu:avx\"; did you "
                 "mean cpu:avx2?");
    expect_error(km_spec_set_target(&spec, "fpga", &err), KM_ERROR_SPEC,
                 "target must be auto, cpu, cpu:generic|avx2|avx512|neon, cuda or cuda:sm_NN, got \"fpga\"");
    expect_error(km_spec_set_target(&spec, "cuda:sm_9", &err), KM_ERROR_SPEC,
                 "target cuda:sm_NN: NN must be 50..999, got 9");
    expect_error(km_spec_set_target(&spec, "cuda:sm_90a", &err), KM_ERROR_SPEC,
                 "target cuda:sm_NN: NN must be an integer 50..999, got \"90a\"");
    ck_assert_int_eq(spec.target.arch, 120);
}
END_TEST

START_TEST(fixing) {
    ck_assert_int_eq(km_spec_fix(&spec, "block", "256", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "shared", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "block", "512", &err), KM_OK);
    ck_assert_int_eq(spec.fixed_count, 2);
    ck_assert_str_eq(spec.fixed[0].name, "block");
    ck_assert_int_eq(spec.fixed[0].value, 512);
    ck_assert_int_eq(spec.fixed[1].value, KM_DESIGN_SHARED);
    expect_error(km_spec_fix(&spec, "blok", "256", &err), KM_ERROR_SPEC,
                 "plan has no number \"blok\"; did you mean block?");
    expect_error(km_spec_fix(&spec, "zzzzzzzz", "256", &err), KM_ERROR_SPEC,
                 "plan has no number \"zzzzzzzz\"; docs/spec.md lists them");
    expect_error(km_spec_fix(&spec, "block", "31", &err), KM_ERROR_SPEC, "block must be 32..1024, got 31");
    expect_error(km_spec_fix(&spec, "block", "1e2", &err), KM_ERROR_SPEC,
                 "block must be an integer 32..1024, got \"1e2\"");
    expect_error(km_spec_fix(&spec, "design", "register", &err), KM_ERROR_SPEC,
                 "design must be registers, tensor or shared (CUDA), or lanes, blocks or portable (CPU), got "
                 "\"register\"; did you mean registers?");
    ck_assert_int_eq(spec.fixed_count, 2);
}
END_TEST

START_TEST(every_number_can_be_fixed) {
    int count = 0;
    for (; km_spec_plan_key(count); count++)
        ck_assert_msg(km_spec_fix(&spec, km_spec_plan_key(count), count ? "8" : "lanes", &err) == KM_OK ||
                          strstr(err.text, "must be 32..1024"),
                      "%s", err.text);
    ck_assert_int_eq(count, KM_PARAM_COUNT + 1);
    ck_assert_int_le(count, KM_FIXED_MAX);
}
END_TEST

START_TEST(copying) {
    expect_clusters("2..5", 4, 2, 5);
    km_spec copy;
    km_spec_init(&copy);
    ck_assert_int_eq(km_spec_copy(&copy, &spec, &err), KM_OK);
    ck_assert_ptr_ne(copy.clusters, spec.clusters);
    expect_clusters("9", 1, 9, 9);
    ck_assert_int_eq(copy.clusters_count, 4);
    ck_assert_int_eq(copy.clusters[3], 5);
    ck_assert_int_eq(km_spec_copy(&copy, &copy, &err), KM_OK);
    ck_assert_int_eq(copy.clusters[3], 5);
    km_spec_clear(&copy);
    ck_assert_ptr_null(copy.clusters);
    ck_assert_str_eq(copy.name, "kmeans");
}
END_TEST

START_TEST(quoting_cuts_whole_characters) {
    char buffer[KM_QUOTED_SIZE];
    ck_assert_str_eq(km_quoted(buffer, "a\tb"), "\"a b\"");
    const char *long_text =
        "012345678901234567890123456789012345678\xc3\xa9zz"; // the 40th byte opens a character
    ck_assert_str_eq(km_quoted(buffer, long_text), "\"012345678901234567890123456789012345678\xc3\xa9...\"");
    char broken[200];
    memset(broken, 0x80, sizeof broken - 1);
    broken[sizeof broken - 1] = 0;
    ck_assert_uint_lt(strlen(km_quoted(buffer, broken)), KM_QUOTED_SIZE);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("spec");
    TCase *setters = tcase_create("setters");
    tcase_add_checked_fixture(setters, begin, end);
    tcase_add_test(setters, defaults);
    tcase_add_test(setters, clusters_spellings);
    tcase_add_loop_test(setters, clusters_refused, 0, (int)(sizeof bad_clusters / sizeof *bad_clusters));
    tcase_add_test(setters, clusters_list_too_long);
    tcase_add_test(setters, targets);
    tcase_add_test(setters, fixing);
    tcase_add_test(setters, every_number_can_be_fixed);
    tcase_add_test(setters, copying);
    tcase_add_test(setters, quoting_cuts_whole_characters);
    suite_add_tcase(suite, setters);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

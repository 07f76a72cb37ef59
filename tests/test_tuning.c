// SPDX-License-Identifier: MIT
// Tuning tables: read, refused, written, put together; which of them serves a plan.
#include "gen/template.h"
#include "gen/tuning.h"
#include "gen/words.h"

#include "quiet_check.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static km_tuning tuning;
static km_error err;

static void setup(void) {
    km_tuning_init(&tuning);
    err.text[0] = 0;
}

static void teardown(void) {
    km_tuning_clear(&tuning);
}

static km_status parse(const char *text) {
    err.text[0] = 0;
    return km_tuning_parse(&tuning, text, (int64_t)strlen(text), "t.yaml", &err);
}

static void expect_refused(const char *text, const char *sentence) {
    ck_assert_int_eq(parse(text), KM_ERROR_SPEC);
    ck_assert_str_eq(err.text, sentence);
}

// Reading and writing ------------------------------------------------------------------------------------------

static const char whole[] = "kmgen tuning: 1\n"
                            "device: NVIDIA H200\n"
                            "target: cuda:sm_90\n"
                            "driver: 580\n"
                            "entries:\n"
                            "  - features: 4\n"
                            "    clusters: [3, 4, 9]\n"
                            "    type: float64\n"
                            "    weighted: true\n"
                            "    points: 1000000\n"
                            "    points_from: 0\n"
                            "    plan: {design: tiled, sums: sorted}\n"
                            "    ms: 12.0\n"
                            "    default_ms: 0.0\n"
                            "    read_ms: 0.0\n"
                            "    templates: 0123456789abcdef\n"
                            "    compiler: \"a \\\"b\\\\: c\"\n"
                            "    version: 0.1.0\n"
                            "    date: 2026-11-23\n"
                            "  - features: 8\n"
                            "    clusters: 3..12\n"
                            "    type: float32\n"
                            "    points: 8388608\n"
                            "    points_from: 4194304\n"
                            "    plan: {design: tensor, form: rounded, block: 384, blocks_per_sm: 1}\n"
                            "    ms: 0.842\n"
                            "    default_ms: 0.861\n"
                            "    read_ms: 0.331\n"
                            "    templates: 89abcdef01234567\n"
                            "    compiler: NVRTC 13.0\n"
                            "    version: 0.1.0\n"
                            "    date: 2026-11-23\n";

static void expect_text(const char *text) {
    char *written = NULL;
    ck_assert_int_eq(km_tuning_to_yaml(&written, &tuning, &err), KM_OK);
    ck_assert_str_eq(written, text);
    km_text_free(written);
}

START_TEST(round_trip) {
    ck_assert_msg(parse(whole) == KM_OK, "%s", err.text);
    ck_assert_str_eq(tuning.device, "NVIDIA H200");
    ck_assert_int_eq(tuning.target.kind, KM_TARGET_CUDA);
    ck_assert_int_eq(tuning.target.arch, 90);
    ck_assert_int_eq(tuning.driver, 580);
    ck_assert_int_eq(tuning.entries_count, 2);
    const km_tuning_entry *entry = &tuning.entries[1];
    ck_assert_int_eq(entry->features, 8);
    ck_assert_int_eq(entry->clusters_count, 10);
    ck_assert_int_eq(entry->clusters[9], 12);
    ck_assert_int_eq(entry->type, KM_FLOAT32);
    ck_assert_int_eq(entry->points, 8388608);
    ck_assert_int_eq(entry->points_from, 4194304);
    ck_assert_int_eq(entry->weighted, 0);
    ck_assert_int_eq(entry->numbers_count, 4);
    ck_assert_str_eq(entry->numbers[0].name, "design");
    ck_assert_int_eq(entry->numbers[0].value, KM_DESIGN_TENSOR);
    ck_assert_int_eq(entry->numbers[1].value, KM_WORD_form_rounded);
    ck_assert(entry->ms == 0.842 && entry->default_ms == 0.861 && entry->read_ms == 0.331);
    ck_assert_str_eq(entry->templates, "89abcdef01234567");
    ck_assert_str_eq(entry->compiler, "NVRTC 13.0");
    ck_assert_int_eq(entry->line, 20);
    ck_assert_int_eq(tuning.entries[0].weighted, 1);
    ck_assert_str_eq(tuning.entries[0].compiler, "a \"b\\: c");
    expect_text(whole);
    // Where the comma is the decimal point, too.
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
        ck_assert_int_eq(parse(whole), KM_OK);
        expect_text(whole);
        setlocale(LC_NUMERIC, "C");
    }
}
END_TEST

START_TEST(empty_table) {
    static const char text[] =
        "kmgen tuning: 1\ndevice: two cores\ntarget: cpu:avx2\ndriver: 0\nentries: []\n";
    ck_assert_msg(parse(text) == KM_OK, "%s", err.text);
    ck_assert_int_eq(tuning.entries_count, 0);
    expect_text(text);
}
END_TEST

#define HEAD "kmgen tuning: 1\ndevice: d\ntarget: cuda:sm_90\nentries:\n"
#define SHAPE "  - features: 8\n    clusters: 3..5\n    type: float32\n"
#define MEASURED "    points: 10\n    ms: 1\n    templates: 0123456789abcdef\n"
#define PLAN "    plan: {design: tensor}\n"

static const struct {
    const char *text, *sentence;
} refusals[] = {
    {"", "t.yaml:1:1: the tuning table is empty; it needs keys such as kmgen tuning: 1"},
    {"- 3\n", "t.yaml:1:1: a tuning table must be a map of keys such as kmgen tuning: 1, got a list"},
    {"kmgen tuning: 2\n", "t.yaml:1:15: kmgen tuning must be 1..1, got \"2\""},
    {"kmgen tuning: 1\nentries: []\n", "t.yaml:2:10: device must stand above the entries"},
    {"features: 4\nclusters: 3..5\n", "t.yaml:1:1: unknown key \"features\"; did you mean entries?"},
    {"kmgen tuning: 1\ndevice: d\n", "t.yaml:3:1: a tuning table must have the key entries, if only as []"},
    {"kmgen tuning: 1\ndevice: d\ntarget: cuda\n",
     "t.yaml:3:9: target must name its architecture, such as cuda:sm_90 or cpu:avx2"},
    {"kmgen tuning: 1\ndevice: d\ntarget: cuda:sm_90\nentries: 3\n",
     "t.yaml:4:10: entries must be a list, got \"3\""},
    {HEAD "  - 3\n", "t.yaml:5:5: an entry must be a map of keys such as features: 8, got \"3\""},
    {HEAD SHAPE MEASURED, "t.yaml:5:5: this entry has no key plan"},
    {HEAD SHAPE PLAN "    points: 10\n    ms: 1\n", "t.yaml:5:5: this entry has no key templates"},
    {HEAD SHAPE MEASURED "    plan: {block: 128}\n", "t.yaml:11:5: plan must name the design"},
    {HEAD SHAPE MEASURED "    plan: {design: lanes}\n",
     "t.yaml:11:5: cuda:sm_90 has no design lanes; it has registers, tensor and tiled"},
    {HEAD SHAPE MEASURED "    plan: {design: tensor, lanes: 8}\n",
     "t.yaml:11:5: cuda:sm_90 has no number lanes; it has form, sums, points_per_thread, block, grid, split, "
     "launches, lanes_per_point, prefetch, blocks_per_sm, segments, tile_points, tile_clusters, "
     "tile_features, "
     "concurrent_restarts"},
    {HEAD SHAPE MEASURED "    plan: {design: tensor, block: 4096}\n",
     "t.yaml:11:35: block must be 32..1024, got 4096"},
    {HEAD SHAPE MEASURED "    plan: {design: tensor, algorithm: lloyd}\n",
     "t.yaml:11:5: plan must not name an algorithm: tables are of passes"},
    {HEAD SHAPE MEASURED "    plan: {design: shared}\n", // an old name
     "t.yaml:11:5: plan has an old name: t.yaml:11:20: design shared is an old name, which the next version "
     "refuses; write design tiled"},
    {HEAD SHAPE MEASURED PLAN "    threads: 2\n", "t.yaml:11:5: threads must be 0 or left out on CUDA"},
    {"kmgen tuning: 1\ndevice: d\ntarget: cpu:avx2\nentries:\n" SHAPE MEASURED "    plan: {design: lanes}\n",
     "t.yaml:11:5: threads must be given on a CPU"},
    {HEAD SHAPE MEASURED PLAN "    points_from: 11\n",
     "t.yaml:11:5: points_from must be at most points, 10, got 11"},
    {HEAD SHAPE MEASURED PLAN SHAPE MEASURED PLAN,
     "t.yaml:12:5: this entry is of the same shape as the one in line 5; keep one"},
    {HEAD SHAPE MEASURED PLAN "    ms: 2\n", "t.yaml:12:5: ms is given twice, first in line 9; keep one"},
    {HEAD SHAPE "    ms: 1e3\n", "t.yaml:8:9: ms must be milliseconds such as 0.842, got \"1e3\""},
    {HEAD SHAPE "    ms: 0\n", "t.yaml:8:9: ms must be milliseconds such as 0.842, got \"0\""},
    {HEAD SHAPE "    ms: -1\n", "t.yaml:8:9: ms must be milliseconds such as 0.842, got \"-1\""},
    {HEAD SHAPE "    ms: nan\n", "t.yaml:8:9: ms must be milliseconds such as 0.842, got \"nan\""},
    {HEAD SHAPE "    points: 0\n", "t.yaml:8:13: points must be 1..281474976710656, got \"0\""},
    {HEAD SHAPE "    templates: 12\n", "t.yaml:8:16: templates must be 16 hexadecimal digits, got \"12\""},
    {HEAD SHAPE "    weighted: yes\n", "t.yaml:8:15: weighted must be true or false, got \"yes\""},
    {HEAD SHAPE "    version: 0.1.0-with-more-than-23-bytes\n",
     "t.yaml:8:14: version must have at most 23 bytes, got 29"},
    {HEAD SHAPE "    block: 128\n",
     "t.yaml:8:5: unknown key \"block\"; a tuning table has the keys features, clusters, type, weighted, "
     "points, points_from, threads, plan, ms, default_ms, read_ms, templates, compiler, version, date"},
    {HEAD "  - features: 8\n    clusters: 5..3\n",
     "t.yaml:6:15: clusters must run from low to high, got 5..3; write 3..5"},
    {HEAD SHAPE MEASURED PLAN "---\nkmgen tuning: 1\n",
     "t.yaml:12:1: a tuning table must be one document, got a second one; keep each in a file of its own"},
    {HEAD "  - features: 8\n    clusters: [3, 4",
     "t.yaml:7:1: this is not YAML: did not find expected ',' or ']' while parsing a flow sequence"},
};
enum { REFUSALS_COUNT = sizeof refusals / sizeof *refusals };

START_TEST(refused) {
    expect_refused(refusals[_i].text, refusals[_i].sentence);
}
END_TEST

// What was refused leaves the table as it was; cut anywhere, a table is refused or has fewer entries.
START_TEST(truncated) {
    int64_t accepted = 0, size_max = (int64_t)sizeof whole - 1;
    for (int64_t size = 0; size < size_max; size++) {
        ck_assert_int_eq(parse(whole), KM_OK);
        km_status status = km_tuning_parse(&tuning, whole, size, "t.yaml", &err);
        accepted += status == KM_OK;
        if (status == KM_OK) continue;
        ck_assert_int_eq(status, KM_ERROR_SPEC);
        ck_assert_msg(strncmp(err.text, "t.yaml:", 7) == 0, "%s", err.text);
        ck_assert_int_eq(tuning.entries_count, 2);
    }
    ck_assert_int_gt(accepted, 0); // where the last entry still has all that it needs
    ck_assert_int_lt(accepted, 200);
}
END_TEST

// Put together -------------------------------------------------------------------------------------------------

static void put(int64_t features, int32_t k_first, int32_t k_last, km_type type, double ms) {
    int32_t clusters[32];
    km_tuning_entry entry = {
        .features = features, .clusters = clusters, .type = type, .points = 1000, .ms = ms};
    for (int32_t k = k_first; k <= k_last; k++) clusters[entry.clusters_count++] = k;
    entry.numbers[0] = (km_fixed){"design", KM_DESIGN_TENSOR};
    entry.numbers_count = 1;
    ck_assert_int_eq(km_tuning_put(&tuning, &entry, &err), KM_OK);
}

START_TEST(in_order) {
    put(8, 3, 7, KM_FLOAT32, 1);
    put(4, 3, 7, KM_FLOAT64, 2);
    put(4, 3, 7, KM_FLOAT32, 3);
    put(8, 2, 9, KM_FLOAT32, 4);
    put(8, 3, 5, KM_FLOAT32, 5);
    static const double order[] = {3, 2, 4, 5, 1};
    ck_assert_int_eq(tuning.entries_count, 5);
    for (int i = 0; i < 5; i++) ck_assert(tuning.entries[i].ms == order[i]);
    put(8, 3, 5, KM_FLOAT32, 6);
    ck_assert_int_eq(tuning.entries_count, 5);
    ck_assert(tuning.entries[3].ms == 6);
    ck_assert_int_eq(tuning.entries[3].clusters[2], 5);
}
END_TEST

START_TEST(names) {
    static const char *const pairs[][2] = {
        {"NVIDIA H200", "nvidia_h200"},
        {"NVIDIA H100 80GB HBM3", "nvidia_h100_80gb_hbm3"},
        {"Intel(R) Xeon(R) CPU @ 2.20GHz", "intel_r_xeon_r_cpu_2_20ghz"},
        {"../../etc", "etc"},
        {" - ", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char name[KM_TUNING_NAME_MAX];
        km_tuning_name(name, sizeof name, pairs[i][0]);
        ck_assert_str_eq(name, pairs[i][1]);
    }
    char small[8];
    km_tuning_name(small, sizeof small, "NVIDIA H200");
    ck_assert_str_eq(small, "nvidia");
}
END_TEST

START_TEST(hashes) {
    char hash[KM_DESIGN_COUNT][17];
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
        char again[17];
        km_templates_hash(hash[i], (km_design)i);
        km_templates_hash(again, (km_design)i);
        ck_assert_str_eq(hash[i], again);
        ck_assert_int_eq(strspn(hash[i], "0123456789abcdef"), 16);
        for (int j = KM_DESIGN_NONE + 1; j < i; j++)
            ck_assert((strcmp(hash[i], hash[j]) == 0) == (i == KM_DESIGN_PREBUILT && j == KM_DESIGN_LANES));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tuning");
    TCase *tests = tcase_create("tables");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, round_trip);
    tcase_add_test(tests, empty_table);
    tcase_add_loop_test(tests, refused, 0, REFUSALS_COUNT);
    tcase_add_test(tests, truncated);
    tcase_add_test(tests, in_order);
    tcase_add_test(tests, names);
    tcase_add_test(tests, hashes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

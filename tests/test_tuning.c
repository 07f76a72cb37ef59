// SPDX-License-Identifier: MIT
// Tuning tables: read, refused, written, put together; which of them serves a plan.
#include "gen/tuning_lookup.h"
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

#define HEAD "kmgen tuning: 1\ndevice: d\ntarget: cuda:sm_90\nentries:\n"
#define SHAPE "  - features: 8\n    clusters: 3..5\n    type: float32\n"
#define MEASURED "    points: 10\n    ms: 1\n    templates: 0123456789abcdef\n"
#define PLAN "    plan: {design: tensor}\n"

// A table of the version before is read, each old name is said once, and what is written has those of today.
START_TEST(old_names) {
    static const char other[] = "  - features: 9\n    clusters: 3..5\n    type: float32\n";
    char text[2048], *written = NULL;
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s", HEAD, SHAPE, MEASURED,
             "    plan: {design: shared, sums: ranges, resident: 1}\n", other, MEASURED, // old names
             "    plan: {design: shared, block: 256}\n");                                // old name
    ck_assert_msg(parse(text) == KM_OK, "%s", err.text);
    ck_assert_str_eq(
        tuning.warnings,
        "t.yaml:11:20: design shared is an old name, which the next version refuses; write design tiled\n"
        "t.yaml:11:34: sums ranges is an old name, which the next version refuses; write sums chunks\n"
        "t.yaml:11:42: resident is an old name, which the next version refuses; write blocks_per_sm\n");
    ck_assert_int_eq(tuning.entries[1].numbers[0].value, KM_DESIGN_TILED);
    ck_assert_int_eq(km_tuning_to_yaml(&written, &tuning, &err), KM_OK);
    ck_assert_ptr_nonnull(strstr(written, "    plan: {design: tiled, sums: chunks, blocks_per_sm: 1}\n"));
    ck_assert_msg(parse(written) == KM_OK, "%s", err.text);
    ck_assert_str_eq(tuning.warnings, "");
    km_text_free(written);
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
     "t.yaml:11:5: cuda:sm_90 has no design lanes; it has registers, tensor, tiled and sparse_warps"},
    {HEAD SHAPE MEASURED "    plan: {design: tensor, lanes: 8}\n",
     "t.yaml:11:5: cuda:sm_90 has no number lanes; it has form, sums, points_per_thread, block, grid, split, "
     "launches, lanes_per_point, prefetch, blocks_per_sm, segments, tile_points, tile_clusters, "
     "tile_features, "
     "concurrent_restarts"},
    {HEAD SHAPE MEASURED "    plan: {design: tensor, block: 4096}\n",
     "t.yaml:11:35: block must be 32..1024, got 4096"},
    {HEAD SHAPE MEASURED "    plan: {design: tensor, algorithm: lloyd}\n",
     "t.yaml:11:5: plan must not name an algorithm: tables are of passes"},
    {HEAD SHAPE MEASURED "    plan: {design: tiled, half_filter: 0}\n", // an old name
     "t.yaml:11:27: half_filter is an old name; write form tiles_fp16 or resident_fp16 in the place of 1, "
     "and "
     "nothing in that of 0"},
    {HEAD SHAPE MEASURED PLAN "    threads: 2\n", "t.yaml:5:5: threads must be 0 or left out on CUDA"},
    {"kmgen tuning: 1\ndevice: d\ntarget: cpu:avx2\nentries:\n" SHAPE MEASURED "    plan: {design: lanes}\n",
     "t.yaml:5:5: threads must be given on a CPU"},
    {HEAD SHAPE MEASURED PLAN "    points_from: 11\n",
     "t.yaml:5:5: points_from must be at most points, 10, got 11"},
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
    // A CPU has a table for each instruction set, a GPU one.
    static const char *const tables[][2] = {
        {"cpu:avx2", "a_cpu_avx2"}, {"cpu:avx512", "a_cpu_avx512"}, {"cuda:sm_90", "a_cpu"}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char name[KM_TUNING_NAME_MAX];
        km_spec of;
        km_spec_init(&of);
        ck_assert_int_eq(km_spec_set_target(&of, tables[i][0], &err), KM_OK);
        km_tuning_table_name(name, sizeof name, "A CPU", of.target);
        ck_assert_str_eq(name, tables[i][1]);
        km_tuning_table_name(small, sizeof small, "A CPU", of.target); // cut, and ended
        ck_assert_int_eq(strlen(small), i < 2 ? 7 : 5);
        km_spec_clear(&of);
    }
}
END_TEST

START_TEST(hashes) {
    static const km_target avx2 = {KM_TARGET_CPU, KM_ISA_AVX2}, avx512 = {KM_TARGET_CPU, KM_ISA_AVX512},
                           hopper = {KM_TARGET_CUDA, 90}, ampere = {KM_TARGET_CUDA, 80};
    char hash[KM_DESIGN_COUNT][17];
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
        int is_cuda = km_design_target((km_design)i) == KM_TARGET_CUDA;
        char again[17], other[17];
        km_templates_hash(hash[i], (km_design)i, is_cuda ? hopper : avx2);
        km_templates_hash(again, (km_design)i, is_cuda ? hopper : avx2);
        km_templates_hash(other, (km_design)i, is_cuda ? ampere : avx512);
        ck_assert((strcmp(hash[i], other) == 0) == is_cuda); // vectors of instruction sets have a file each
        ck_assert_str_eq(hash[i], again);
        ck_assert_int_eq(strspn(hash[i], "0123456789abcdef"), 16);
        for (int j = KM_DESIGN_NONE + 1; j < i; j++)
            ck_assert((strcmp(hash[i], hash[j]) == 0) == (i == KM_DESIGN_PREBUILT && j == KM_DESIGN_LANES));
    }
}
END_TEST

// Lookup -------------------------------------------------------------------------------------------------------

static km_spec spec;
static km_plan plan;
static km_plan_params params;
static km_device_facts facts;
static char *texts[2];
static km_embedded shipped[2];
static int64_t shipped_count;

// Facts of a GPU of the nominal one's figures, by its driver's name.
static void set_device(const char *target, const char *name) {
    ck_assert_int_eq(km_spec_set_target(&spec, target, &err), KM_OK);
    km_device_facts_init(&facts, spec.target);
    snprintf(facts.name, sizeof facts.name, "%s", name);
    params.facts = &facts;
}

static void lookup_setup(void) {
    setup();
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_plan_params_init(&params);
    spec.features = 8;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..12", &err), KM_OK);
    set_device("cuda:sm_90", "NVIDIA H200");
    params.points = 8 << 20;
    snprintf(tuning.device, sizeof tuning.device, "NVIDIA H200");
    tuning.target = spec.target;
    shipped_count = 0;
}

static void lookup_teardown(void) {
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    for (int i = 0; i < 2; i++) {
        km_text_free(texts[i]);
        texts[i] = NULL;
    }
    teardown();
}

// An entry of the table in `tuning`: "design: tensor, block: 256"; measured for 8 Mi points, used from half of them on.
static km_tuning_entry *add(int64_t features, const char *clusters, const char *numbers) {
    km_spec shape;
    km_spec_init(&shape);
    ck_assert_int_eq(km_spec_set_clusters(&shape, clusters, &err), KM_OK);
    km_tuning_entry entry = {.features = features, .points = 8 << 20, .points_from = 4 << 20};
    entry.ms = 0.8, entry.default_ms = 1.0, entry.read_ms = 0.25;
    snprintf(entry.version, sizeof entry.version, "0.1.0");
    entry.threads = tuning.target.kind == KM_TARGET_CPU ? 2 : 0;
    char pair[64], name[32], value[32];
    for (const char *at = numbers; *at; at += strspn(at, ", ")) {
        snprintf(pair, sizeof pair, "%.*s", (int)strcspn(at, ","), at);
        at += strlen(pair);
        ck_assert_int_eq(sscanf(pair, "%31[a-z_0-9]: %31s", name, value), 2);
        ck_assert_msg(km_spec_fix(&shape, name, value, &err) == KM_OK, "%s", err.text);
    }
    memcpy(entry.numbers, shape.fixed, sizeof entry.numbers);
    entry.numbers_count = shape.fixed_count;
    entry.clusters = shape.clusters;
    entry.clusters_count = shape.clusters_count;
    km_templates_hash(entry.templates, (km_design)shape.fixed[0].value, tuning.target);
    ck_assert_int_eq(km_tuning_put(&tuning, &entry, &err), KM_OK);
    km_spec_clear(&shape);
    for (int64_t i = 0; i < tuning.entries_count; i++)
        if (tuning.entries[i].features == features &&
            tuning.entries[i].clusters_count == entry.clusters_count &&
            !memcmp(tuning.entries[i].numbers, entry.numbers, sizeof entry.numbers))
            return &tuning.entries[i];
    ck_abort_msg("the entry is not there");
    return NULL;
}

// The table in `tuning` becomes a shipped one of this name, or the user's; `tuning` is as empty as before.
static void ship(const char *name) {
    int64_t at = shipped_count++;
    km_text_free(texts[at]);
    ck_assert_int_eq(km_tuning_to_yaml(&texts[at], &tuning, &err), KM_OK);
    shipped[at] = (km_embedded){name, texts[at], (int64_t)strlen(texts[at])};
    for (int64_t i = 0; i < tuning.entries_count; i++) free(tuning.entries[i].clusters);
    tuning.entries_count = 0;
}

static void name_table(void) {
    ship("mine.yaml");
    params.tuning = texts[--shipped_count];
    params.tuning_name = "mine.yaml";
}

static km_status make(void) {
    err.text[0] = 0;
    return km_plan_make_with(&plan, &spec, &params, shipped, shipped_count, &err);
}

// The plan is made by this table ("": by the cost model), with this block.
static void expect_block(const char *table, int64_t block) {
    ck_assert_msg(make() == KM_OK, "%s", err.text);
    ck_assert_str_eq(plan.tuned.table, table);
    ck_assert_int_eq(km_plan_get(&plan, "block"), block);
    ck_assert_int_eq(plan.spec.fixed_count, spec.fixed_count); // the spec stays what the user wrote
}

static const char *reason_of(const char *name) {
    for (int64_t i = 0; i < plan.numbers_count; i++)
        if (!strcmp(plan.numbers[i].name, name)) return plan.numbers[i].reason;
    return "";
}

enum { OWN_BLOCK = 384 }; // the cost model's for 8 features and K = 3..12

START_TEST(cost_model_alone) {
    expect_block("", OWN_BLOCK);
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
    ck_assert_int_eq(km_plan_get(&plan, "form"), KM_WORD_form_rounded);
}
END_TEST

// Ranks share the points by a design whose sums do not depend on the grid, whatever a table says, and the plan tells
// what each has.
START_TEST(ranks_share) {
    char *text = NULL;
    spec.features = 4;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..5", &err), KM_OK);
    add(4, "3..5", "design: registers, block: 256, blocks_per_sm: 1");
    ship("tuned/nvidia_h200.yaml");
    ck_assert_msg(make() == KM_OK, "%s", err.text);
    ck_assert_int_eq(plan.design, KM_DESIGN_REGISTERS);
    params.ranks = 2;
    ck_assert_msg(make() == KM_OK, "%s", err.text);
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
    ck_assert_int_eq(plan.ranks, 2);
    ck_assert_int_eq(km_plan_explain(&text, &plan, &err), KM_OK);
    ck_assert_msg(strstr(text, "2 ranks share them, 4194304 each at most, and add up ") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "a rank's whole fit, at one time") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "registers   not possible: its sums do not join with those of other ranks") !=
                      NULL,
                  "%s", text);
    km_text_free(text);
    spec.type = KM_FLOAT64;
    ck_assert_int_eq(make(), KM_ERROR_PLAN);
    ck_assert_msg(strstr(err.text, "tiled: its sums do not join with those of other ranks") != NULL, "%s",
                  err.text);
}
END_TEST

START_TEST(exact) {
    km_plan alone;
    km_plan_init(&alone);
    ck_assert_int_eq(km_plan_make_with(&alone, &spec, &params, NULL, 0, &err), KM_OK);
    add(8, "3..12", "design: tensor, form: rounded, block: 256, blocks_per_sm: 1");
    add(8, "3..11", "design: tensor, form: rounded, block: 128, blocks_per_sm: 1");
    ship("tuned/nvidia_h200.yaml");
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_int_eq(plan.tuned.exact, 1);
    ck_assert_str_eq(plan.tuned.device, "NVIDIA H200");
    ck_assert_str_eq(plan.tuned.shape, "8 features, K = 3..12");
    ck_assert(plan.tuned.ms == 0.8 && plan.tuned.default_ms == 1.0 && plan.tuned.read_ms == 0.25);
    ck_assert_int_eq(plan.tuned.points, 8 << 20);
    ck_assert_int_eq(plan.tuned.stale, 0);
    ck_assert_str_eq(reason_of("block"), "measured on NVIDIA H200: tuned/nvidia_h200.yaml");
    ck_assert_str_eq(plan.design_reason, "measured on NVIDIA H200: tuned/nvidia_h200.yaml");
    ck_assert_ptr_null(strstr(reason_of("prefetch"), "measured")); // the entry has none
    // What the other designs would take is as without the table.
    ck_assert(plan.estimates[KM_DESIGN_REGISTERS].total_ns == alone.estimates[KM_DESIGN_REGISTERS].total_ns);
    ck_assert_int_eq(plan.estimates[KM_DESIGN_TILED].feasible, 1);
    // The nominal H200 is that device.
    params.facts = NULL;
    expect_block("tuned/nvidia_h200.yaml", 256);
    // The user's table comes first; an entry that both have is his.
    add(8, "3..12", "design: tensor, form: rounded, block: 128, blocks_per_sm: 1")->points_from = 0;
    name_table();
    expect_block("mine.yaml", 128);
    ck_assert_str_eq(reason_of("block"), "measured on NVIDIA H200: mine.yaml");
    km_plan_clear(&alone);
}
END_TEST

// An exact entry of a shipped table is better than the user's nearest one.
START_TEST(exact_before_nearest) {
    add(8, "3..12", "design: tensor, form: rounded, block: 256");
    ship("tuned/nvidia_h200.yaml");
    add(8, "3..11", "design: tensor, form: rounded, block: 128");
    name_table();
    expect_block("tuned/nvidia_h200.yaml", 256);
}
END_TEST

START_TEST(nearest) {
    // At most twice as much, features and sums of K together; here 75 and 73, 75 and 63, 8 and 4.
    add(8, "4..12", "design: tensor, form: rounded, block: 256, grid: 66, launches: 2, prefetch: 2");
    add(8, "3..11", "design: tensor, form: rounded, block: 128");
    add(4, "4..12", "design: tensor, form: rounded, block: 192");
    ship("tuned/nvidia_h200.yaml");
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_int_eq(plan.tuned.exact, 0);
    ck_assert_str_eq(plan.tuned.shape, "8 features, K = 4..12");
    ck_assert_str_eq(reason_of("block"),
                     "measured on NVIDIA H200 for 8 features, K = 4..12: tuned/nvidia_h200.yaml");
    // What belongs to a thread or a block is taken, what belongs to the shape is the planner's.
    ck_assert_int_eq(km_plan_get(&plan, "prefetch"), 2);
    ck_assert_int_eq(km_plan_get(&plan, "launches"), 1);
    ck_assert_int_eq(km_plan_get(&plan, "grid"), 132);
    // What gained less there than it would lose here is not taken, nor what gained nothing.
    ck_assert_int_eq(km_plan_make_with(&plan, &spec, &params, NULL, 0, &err), KM_OK);
    double own = plan.estimates[KM_DESIGN_TENSOR].total_ns;
    ck_assert_int_eq(make(), KM_OK);
    double loss = plan.estimates[KM_DESIGN_TENSOR].total_ns / own;
    ck_assert_double_gt(loss, 1.01);
    for (int i = 0; i < 4; i++) {
        static const double parts[] = {1.01, 0.99, 0, 0};
        shipped_count = 0;
        km_tuning_entry *entry = add(8, "4..12", "design: tensor, form: rounded, block: 256, prefetch: 2");
        entry->ms = 1;
        entry->default_ms = i < 2 ? loss * parts[i] : i == 2 ? 1 : 0; // 0: it is not known
        ship("tuned/nvidia_h200.yaml");
        expect_block(i ? "" : "tuned/nvidia_h200.yaml", i ? OWN_BLOCK : 256);
    }
    // Not even where the cost model would like it.
    shipped_count = 0;
    spec.features = 5;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..7", &err), KM_OK);
    for (int gained = 0; gained < 2; gained++) {
        shipped_count = 0;
        km_tuning_entry *entry =
            add(4, "3..7", "design: registers, form: constant, block: 384, points_per_thread: 8");
        entry->default_ms = entry->ms + 0.001 * gained;
        ship("tuned/nvidia_h200.yaml");
        ck_assert_int_eq(make(), KM_OK);
        ck_assert_str_eq(plan.tuned.table, gained ? "tuned/nvidia_h200.yaml" : "");
    }
    spec.features = 8;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..12", &err), KM_OK);
    shipped_count = 0;
    add(8, "4..12", "design: tensor, form: rounded, block: 256");
    ship("tuned/nvidia_h200.yaml");
    // Another type, too many clusters, another design or form than the cost model's: it does not serve.
    spec.type = KM_FLOAT64;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
    spec.type = KM_FLOAT32;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..17", &err), KM_OK); // 152, more than twice 72
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..12", &err), KM_OK);
    shipped_count = 0;
    add(8, "4..12", "design: registers, block: 256");
    add(8, "3..11", "design: tensor, form: hi_lo, block: 128");
    ship("tuned/nvidia_h200.yaml");
    expect_block("", OWN_BLOCK);
    // Another device's nearest shape does not serve, whatever its architecture.
    set_device("cuda:sm_90", "NVIDIA H100 80GB HBM3");
    shipped_count = 0;
    add(8, "4..12", "design: tensor, form: rounded, block: 256");
    ship("tuned/nvidia_h200.yaml");
    expect_block("", OWN_BLOCK);
}
END_TEST

START_TEST(other_device) {
    add(8, "3..12", "design: tensor, form: rounded, block: 256, launches: 2, grid: 66");
    ship("tuned/nvidia_h200.yaml");
    set_device("cuda:sm_90", "NVIDIA H100 80GB HBM3");
    facts.units = 100;
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_int_eq(plan.tuned.exact, 0);
    ck_assert_int_eq(km_plan_get(&plan, "launches"), 2);
    ck_assert_int_eq(km_plan_get(&plan, "grid"), 100 * km_plan_get(&plan, "blocks_per_sm")); // its own
    ck_assert_str_eq(reason_of("block"),
                     "measured on NVIDIA H200 for 8 features, K = 3..12: tuned/nvidia_h200.yaml");
    // Nor is a default that nothing beat there.
    shipped_count = 0;
    snprintf(tuning.device, sizeof tuning.device, "NVIDIA H200");
    km_tuning_entry *entry = add(8, "3..12", "design: tensor, form: rounded, block: 256");
    entry->default_ms = entry->ms;
    ship("tuned/nvidia_h200.yaml");
    expect_block("", OWN_BLOCK);
    // An entry of another type is none, where its design could be had.
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..5", &err), KM_OK);
    shipped_count = 0;
    add(8, "3..5", "design: registers, block: 128");
    add(8, "3..12", "design: tensor, form: rounded, block: 256");
    ship("tuned/nvidia_h200.yaml");
    expect_block("tuned/nvidia_h200.yaml", 128);
    spec.type = KM_FLOAT64;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
    ck_assert_int_eq(km_spec_fix(&spec, "design", "registers", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "block", "128", &err), KM_OK);
    expect_block("", 128);
    spec.fixed_count = 0;
    spec.type = KM_FLOAT32;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..12", &err), KM_OK);
    // Its own table comes first, even with another shape.
    snprintf(tuning.device, sizeof tuning.device, "NVIDIA H100 80GB HBM3");
    add(8, "4..12", "design: tensor, form: rounded, block: 128");
    ship("tuned/nvidia_h100.yaml");
    expect_block("tuned/nvidia_h100.yaml", 128);
    // Another architecture has none.
    shipped_count = 0;
    snprintf(tuning.device, sizeof tuning.device, "NVIDIA H200");
    add(8, "3..5", "design: registers, block: 128");
    ship("tuned/nvidia_h200.yaml");
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..5", &err), KM_OK);
    expect_block("tuned/nvidia_h200.yaml", 128);
    set_device("cuda:sm_100", "NVIDIA B200");
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
}
END_TEST

// The tables are asked only where all numbers are open.
START_TEST(what_the_user_fixed) {
    add(8, "3..12", "design: tensor, form: rounded, block: 256");
    ship("tuned/nvidia_h200.yaml");
    ck_assert_int_eq(km_spec_fix(&spec, "algorithm", "lloyd", &err), KM_OK);
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_str_eq(plan.algorithm_reason, "fixed in the spec");
    ck_assert_int_eq(km_spec_fix(&spec, "prefetch", "2", &err), KM_OK);
    expect_block("", OWN_BLOCK);
    ck_assert_str_eq(reason_of("prefetch"), "fixed in the spec");
    spec.fixed_count = 0;
    params.untuned = 1;
    expect_block("", OWN_BLOCK);
    params.untuned = 0;
    km_plan_avoid avoid = {KM_DESIGN_REGISTERS, INT64_MAX, "left out"};
    params.avoid = &avoid;
    params.avoid_count = 1;
    expect_block("", OWN_BLOCK);
}
END_TEST

// Numbers that the design cannot have never reach a compiler: the next entry serves, or the cost model.
START_TEST(infeasible) {
    add(8, "3..12", "design: tensor, form: rounded, block: 1024, blocks_per_sm: 8");
    ship("tuned/nvidia_h200.yaml");
    expect_block("", OWN_BLOCK);
    shipped_count = 0;
    add(8, "3..12", "design: tensor, form: constant, block: 256"); // another design's form
    ship("tuned/nvidia_h200.yaml");
    expect_block("", OWN_BLOCK);
    shipped_count = 0;
    add(8, "3..12", "design: tensor, split: 2"); // another design's number
    add(8, "4..12", "design: tensor, form: rounded, block: 1024, blocks_per_sm: 8");
    add(8, "3..11", "design: tensor, form: rounded, block: 128");
    ship("tuned/nvidia_h200.yaml");
    expect_block("tuned/nvidia_h200.yaml", 128);
    ck_assert_str_eq(plan.tuned.shape, "8 features, K = 3..11");
}
END_TEST

START_TEST(points) {
    add(8, "3..12", "design: tensor, form: rounded, block: 256, grid: 66");
    ship("tuned/nvidia_h200.yaml");
    params.points = 4 << 20;
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_int_eq(km_plan_get(&plan, "grid"), 66);
    params.points--;
    expect_block("", OWN_BLOCK);
    params.points = 0; // unknown
    expect_block("tuned/nvidia_h200.yaml", 256);
    // Of several, the one for the most points.
    shipped_count = 0;
    params.points = 6 << 20;
    add(8, "3..12", "design: tensor, form: rounded, block: 256")->points_from = 5 << 20;
    add(8, "3..12", "design: tensor, form: rounded, block: 128");
    ship("tuned/nvidia_h200.yaml");
    expect_block("tuned/nvidia_h200.yaml", 256);
    params.points = 4 << 20;
    expect_block("tuned/nvidia_h200.yaml", 128);
}
END_TEST

// Concurrent restarts, and how blocks are shared by them, were measured for a number of points.
START_TEST(concurrent_restarts) {
    km_tuning_entry *entry =
        add(8, "3..12",
            "design: tensor, form: rounded, block: 256, blocks_per_sm: 1, grid: 33, concurrent_restarts: 5");
    entry->points = 1 << 20;
    entry->points_from = 1 << 18;
    ship("tuned/nvidia_h200.yaml");
    params.points = 1 << 20;
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_int_eq(km_plan_get(&plan, "concurrent_restarts"), 5);
    ck_assert_int_eq(km_plan_get(&plan, "grid"), 33);
    params.points = 2 << 20;
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_int_eq(km_plan_get(&plan, "concurrent_restarts"), 2);
    ck_assert_int_eq(km_plan_get(&plan, "grid"), 66); // 132 for all
    params.points = 1 << 20;
    spec.n_init = 3; // fewer than were measured at a time
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_int_eq(km_plan_get(&plan, "concurrent_restarts"), 3);
    ck_assert_int_eq(km_plan_get(&plan, "grid"), 44);
    // An entry of one restart says nothing of how four share the blocks.
    shipped_count = 0;
    spec.n_init = 10;
    entry = add(8, "3..12", "design: tensor, form: rounded, block: 256, blocks_per_sm: 1, grid: 66");
    entry->points = 1 << 20;
    entry->points_from = 1 << 18;
    ship("tuned/nvidia_h200.yaml");
    expect_block("tuned/nvidia_h200.yaml", 256);
    ck_assert_int_eq(km_plan_get(&plan, "concurrent_restarts"), 4);
    ck_assert_int_eq(km_plan_get(&plan, "grid"), 33);
}
END_TEST

// A measured plan that does not fit the free memory gives way to the cost model's, which does.
START_TEST(free_memory) {
    set_device("cpu:avx2", "A CPU");
    snprintf(tuning.device, sizeof tuning.device, "A CPU");
    tuning.target = spec.target;
    km_tuning_entry *entry = add(8, "3..12", "design: prebuilt, concurrent_restarts: 10");
    entry->points = 500000;
    entry->points_from = 0;
    ship("tuned/a_cpu.yaml");
    params.points = 500000;
    params.algorithm = KM_ALGORITHM_LLOYD;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "tuned/a_cpu.yaml");
    ck_assert_int_eq(km_plan_get(&plan, "concurrent_restarts"), 10);
    facts.memory_free_bytes = plan.memory_bytes;
    params.untuned = 1;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_int_lt(plan.memory_bytes, facts.memory_free_bytes);
    facts.memory_free_bytes = (facts.memory_free_bytes + plan.memory_bytes) / 2;
    params.untuned = 0;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
    ck_assert(km_plan_fits(&plan));
}
END_TEST

START_TEST(weights_and_labels) {
    spec.features = 4;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..5", &err), KM_OK);
    add(4, "3..5", "design: registers, block: 256");
    ship("tuned/nvidia_h200.yaml");
    params.weighted = 1;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
    add(4, "3..5", "design: registers, block: 128")->weighted = 1;
    ship("tuned/more.yaml");
    expect_block("tuned/more.yaml", 128);
    params.weighted = 0;
    expect_block("tuned/nvidia_h200.yaml", 256);
    // Labels take registers that the measured pass did not need.
    params.track_labels = 1;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
}
END_TEST

// Another kmgen's templates: a shipped entry is passed over, the user's is refused, one that was found said.
START_TEST(stale) {
    char hash[17], sentence[256];
    km_templates_hash(hash, KM_DESIGN_TENSOR, spec.target);
    snprintf(sentence, sizeof sentence,
             "mine.yaml:6: this entry was measured with other templates (0123456789abcdef, now %s); measure "
             "it again "
             "with kmgen tune",
             hash);
    snprintf(add(8, "3..12", "design: tensor, form: rounded, block: 256")->templates, 17, "0123456789abcdef");
    ship("tuned/nvidia_h200.yaml");
    expect_block("", OWN_BLOCK);
    ck_assert_int_eq(plan.tuned.stale, 1);
    shipped_count = 0;
    snprintf(add(8, "3..12", "design: tensor, form: rounded, block: 256")->templates, 17, "0123456789abcdef");
    name_table();
    ck_assert_int_eq(make(), KM_ERROR_SPEC);
    ck_assert_str_eq(err.text, sentence);
    params.tuning_found = 1;
    expect_block("", OWN_BLOCK);
    ck_assert_int_eq(strncmp(plan.spec.warnings, sentence, strlen(sentence)), 0);
    ck_assert_str_eq(plan.spec.warnings + strlen(sentence), "; the tuning table is not used\n");
    // Of another shape it is no fault.
    params.tuning_found = 0;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..11", &err), KM_OK);
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_int_eq(plan.tuned.stale, 1);
}
END_TEST

// The warning of an old name is the plan's, and the entry is used; a table of another device says nothing of its names.
START_TEST(table_with_an_old_name) {
    add(8, "3..12", "design: tensor, form: rounded, block: 256, blocks_per_sm: 1");
    name_table();
    char *name = strstr(texts[0], "blocks_per_sm: 1");
    ck_assert_ptr_nonnull(name);
    memcpy(name, "resident: 1     ", 16); // old name
    expect_block("mine.yaml", 256);
    ck_assert_ptr_nonnull(strstr(plan.spec.warnings,
                                 ": resident is an old name, which the next version refuses; "
                                 "write blocks_per_sm\n"));
    ck_assert_ptr_null(strchr(strchr(plan.spec.warnings, '\n') + 1, '\n'));
    set_device("cuda:sm_90", "NVIDIA H100 80GB HBM3");
    params.tuning_found = 1;
    expect_block("", OWN_BLOCK);
    ck_assert_ptr_null(strstr(plan.spec.warnings, "old name"));
}
END_TEST

START_TEST(foreign) {
    add(8, "3..12", "design: tensor, form: rounded, block: 256");
    name_table();
    set_device("cuda:sm_90", "NVIDIA H100 80GB HBM3");
    ck_assert_int_eq(make(), KM_ERROR_SPEC);
    ck_assert_str_eq(err.text,
                     "mine.yaml:2: this table was measured on NVIDIA H200 (cuda:sm_90), and the plan is for "
                     "NVIDIA H100 80GB HBM3 (cuda:sm_90); leave it out, or plan for its device");
    params.tuning_found = 1;
    expect_block("", OWN_BLOCK);
    ck_assert_ptr_nonnull(strstr(plan.spec.warnings, "; the tuning table is not used\n"));
    // The device's own, for an older target than its own, is no fault of the table.
    set_device("cuda:sm_90", "NVIDIA H200");
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_80", &err), KM_OK);
    facts.target.arch = 80;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
    ck_assert_str_eq(plan.spec.warnings, "");
    params.tuning_found = 0;
    ck_assert_int_eq(make(), KM_ERROR_SPEC);
    // With no device there it says itself for which one it is, but not for another architecture.
    params.tuning_found = 0;
    params.facts = NULL;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    expect_block("mine.yaml", 256);
    snprintf(tuning.device, sizeof tuning.device, "NVIDIA H100 80GB HBM3");
    add(8, "3..12", "design: tensor, form: rounded, block: 128");
    name_table();
    expect_block("mine.yaml", 128);
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_80", &err), KM_OK);
    ck_assert_int_eq(make(), KM_ERROR_SPEC);
    ck_assert_ptr_nonnull(strstr(err.text, "(cuda:sm_90), and the plan is for nominal A100 (cuda:sm_80)"));
}
END_TEST

START_TEST(corrupt) {
    add(8, "3..12", "design: tensor, form: rounded, block: 256");
    name_table();
    char *text = texts[0];
    text[strlen(text) - 80] = 0; // cut inside the last entry
    ck_assert_int_eq(make(), KM_ERROR_SPEC);
    ck_assert_msg(strncmp(err.text, "mine.yaml:6:5: this entry has no key templates", 46) == 0, "%s",
                  err.text);
    params.tuning_found = 1;
    expect_block("", OWN_BLOCK);
    ck_assert_str_eq(plan.spec.warnings,
                     "mine.yaml:6:5: this entry has no key templates; the tuning table is not used\n");
    // A number beyond its limits, by hand.
    params.tuning_found = 0;
    params.tuning = "kmgen tuning: 1\ndevice: NVIDIA H200\ntarget: cuda:sm_90\nentries:\n  - features: 8\n"
                    "    plan: {design: tensor, block: 9999}\n";
    ck_assert_int_eq(make(), KM_ERROR_SPEC);
    ck_assert_str_eq(err.text, "mine.yaml:6:35: block must be 32..1024, got 9999");
}
END_TEST

// On a CPU an entry serves from half to twice as many threads.
START_TEST(threads) {
    set_device("cpu:avx512", "A CPU");
    spec.features = 7; // not one of those that are compiled into the library
    snprintf(tuning.device, sizeof tuning.device, "A CPU");
    tuning.target = spec.target;
    add(7, "3..12", "design: lanes, vectors: 2");
    ship("tuned/a_cpu.yaml");
    static const struct {
        int64_t threads;
        int serves;
    } rows[] = {{1, 1}, {2, 1}, {4, 1}, {5, 0}, {64, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        params.threads = rows[i].threads;
        ck_assert_int_eq(make(), KM_OK);
        ck_assert_str_eq(plan.tuned.table, rows[i].serves ? "tuned/a_cpu.yaml" : "");
        if (rows[i].serves) ck_assert_int_eq(km_plan_get(&plan, "vectors"), 2);
    }
    // The nearer number of threads comes first.
    km_tuning_entry *entry = add(7, "3..12", "design: lanes, vectors: 4");
    entry->threads = 4;
    ship("tuned/more.yaml");
    params.threads = 4;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "tuned/more.yaml");
    // A nominal CPU has as many as the table.
    shipped_count = 0;
    add(7, "3..12", "design: lanes, vectors: 2")->threads = 64;
    ship("tuned/a_cpu.yaml");
    params.facts = NULL;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "tuned/a_cpu.yaml");
}
END_TEST

// Where a compiler costs more than it saves, a measured pass of what is compiled is no reason to compile.
START_TEST(small_jobs) {
    set_device("cpu:avx512", "A CPU");
    spec.features = 7; // not one of those that are compiled into the library
    snprintf(tuning.device, sizeof tuning.device, "A CPU");
    tuning.target = spec.target;
    add(7, "3..12", "design: lanes, vectors: 2")->points_from = 0;
    ship("tuned/a_cpu.yaml");
    params.points = 8 << 20;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_int_eq(plan.design, KM_DESIGN_LANES);
    ck_assert_str_eq(plan.tuned.table, "tuned/a_cpu.yaml");
    params.points = 150;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_int_eq(plan.design, KM_DESIGN_PREBUILT);
    ck_assert_str_eq(plan.tuned.table, "");
    facts.has_compiler = 0;
    params.points = 8 << 20;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_str_eq(plan.tuned.table, "");
}
END_TEST

// Features that the library has kernels for: what is compiled serves where the gain that was measured outweighs the
// compiler.
START_TEST(gain_pays_compiler) {
    set_device("cpu:avx512", "A CPU");
    spec.features = 8;
    snprintf(tuning.device, sizeof tuning.device, "A CPU");
    tuning.target = spec.target;
    km_tuning_entry *entry = add(8, "3..12", "design: lanes, vectors: 2");
    entry->points_from = 0;
    entry->ms = 30, entry->default_ms = 33; // of 8 Mi points
    ship("tuned/a_cpu.yaml");
    params.points = 1 << 20;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_int_eq(plan.design, KM_DESIGN_PREBUILT);
    ck_assert_str_eq(plan.tuned.table, "");
    params.points = 64 << 20;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_int_eq(plan.design, KM_DESIGN_LANES);
    ck_assert_str_eq(plan.tuned.table, "tuned/a_cpu.yaml");
    facts.has_compiler = 0;
    ck_assert_int_eq(make(), KM_OK);
    ck_assert_int_eq(plan.design, KM_DESIGN_PREBUILT);
}
END_TEST

// Tables that ship are whole, named by their device, and as kmgen writes them.
START_TEST(shipped_tables) {
    for (int64_t i = 0; i < km_embedded_tables_count; i++) {
        const km_embedded *file = &km_embedded_tables[i];
        char name[KM_TUNING_NAME_MAX], path[KM_TUNING_NAME_MAX + 16], *text = NULL;
        ck_assert_msg(km_tuning_parse(&tuning, file->text, file->size, file->name, &err) == KM_OK, "%s",
                      err.text);
        km_tuning_table_name(name, sizeof name, tuning.device, tuning.target);
        snprintf(path, sizeof path, "tuned/%s.yaml", name);
        ck_assert_str_eq(file->name, path);
        ck_assert_int_eq(km_tuning_to_yaml(&text, &tuning, &err), KM_OK);
        ck_assert_str_eq(text, file->text);
        km_text_free(text);
        // Stale ones are passed over until a device is at hand; a release has none (docs/release.md).
        for (int64_t e = 0; e < tuning.entries_count; e++) {
            char hash[17];
            km_templates_hash(hash, (km_design)tuning.entries[e].numbers[0].value, tuning.target);
            if (strcmp(hash, tuning.entries[e].templates) != 0)
                printf("%s:%d is stale: its templates are %s now\n", file->name, tuning.entries[e].line,
                       hash);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tuning");
    TCase *tests = tcase_create("tables");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, round_trip);
    tcase_add_test(tests, old_names);
    tcase_add_test(tests, empty_table);
    tcase_add_loop_test(tests, refused, 0, REFUSALS_COUNT);
    tcase_add_test(tests, truncated);
    tcase_add_test(tests, in_order);
    tcase_add_test(tests, names);
    tcase_add_test(tests, hashes);
    suite_add_tcase(suite, tests);
    TCase *lookup = tcase_create("lookup");
    tcase_add_checked_fixture(lookup, lookup_setup, lookup_teardown);
    tcase_add_test(lookup, cost_model_alone);
    tcase_add_test(lookup, exact);
    tcase_add_test(lookup, ranks_share);
    tcase_add_test(lookup, exact_before_nearest);
    tcase_add_test(lookup, nearest);
    tcase_add_test(lookup, other_device);
    tcase_add_test(lookup, what_the_user_fixed);
    tcase_add_test(lookup, infeasible);
    tcase_add_test(lookup, points);
    tcase_add_test(lookup, concurrent_restarts);
    tcase_add_test(lookup, free_memory);
    tcase_add_test(lookup, weights_and_labels);
    tcase_add_test(lookup, stale);
    tcase_add_test(lookup, table_with_an_old_name);
    tcase_add_test(lookup, foreign);
    tcase_add_test(lookup, corrupt);
    tcase_add_test(lookup, threads);
    tcase_add_test(lookup, small_jobs);
    tcase_add_test(lookup, gain_pays_compiler);
    tcase_add_test(lookup, shipped_tables);
    suite_add_tcase(suite, lookup);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

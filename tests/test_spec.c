// SPDX-License-Identifier: MIT
// The spec: its setters, their messages, and the YAML reader.
#include "../gen/old_names.h"
#include "../gen/words.h"
#include "../gen/spec_fields.h"
#include <kmgen/plan.h>
#include <kmgen/spec.h>

#include "quiet_check.h"
#include <dirent.h>
#include <inttypes.h>
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

// "..." in the expected text stands for anything: lists that grow, such as that of designs.
static void expect_error(km_status got, km_status wanted, const char *text) {
    const char *any = strstr(text, "...");
    size_t size = strlen(err.text), tail = any ? strlen(any + 3) : 0;
    if (any && !strncmp(err.text, text, (size_t)(any - text)) && size >= (size_t)(any - text) + tail)
        ck_assert_str_eq(err.text + size - tail, any + 3);
    else
        ck_assert_str_eq(err.text, text);
    ck_assert_int_eq(got, wanted);
    err.text[0] = 0;
}

START_TEST(defaults) {
    ck_assert_str_eq(spec.name, "kmeans");
    ck_assert_int_eq(spec.features, 0);
    ck_assert_ptr_null(spec.clusters);
    ck_assert_int_eq(spec.type, KM_FLOAT32);
    ck_assert_int_eq(spec.target.kind, KM_TARGET_AUTO);
    ck_assert_int_eq(spec.n_init, 10);
    ck_assert_int_eq(spec.max_iter, 300);
    ck_assert_double_eq(spec.tol, 1e-4);
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
    {"2-12", "clusters has ranges such as 2..12, got \"2-12\"; write 2..12"},
    {"2:12", "clusters has ranges such as 2..12, got \"2:12\"; write 2..12"},
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
    expect_error(
        km_spec_set_target(&spec, "gpu", &err), KM_ERROR_SPEC,
        "target must be auto, cpu, cpu:generic|avx2|avx512|neon, cuda or cuda:sm_NN, got \"gpu\"; did you "
        "mean cuda?");
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
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tiled", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "block", "512", &err), KM_OK);
    ck_assert_int_eq(spec.fixed_count, 2);
    ck_assert_str_eq(spec.fixed[0].name, "block");
    ck_assert_int_eq(spec.fixed[0].value, 512);
    ck_assert_int_eq(spec.fixed[1].value, KM_DESIGN_TILED);
    expect_error(km_spec_fix(&spec, "blok", "256", &err), KM_ERROR_SPEC,
                 "plan has no number \"blok\"; did you mean block?");
    expect_error(km_spec_fix(&spec, "zzzzzzzz", "256", &err), KM_ERROR_SPEC,
                 "plan has no number \"zzzzzzzz\"; docs/spec.md lists them");
    expect_error(km_spec_fix(&spec, "block", "31", &err), KM_ERROR_SPEC, "block must be 32..1024, got 31");
    expect_error(km_spec_fix(&spec, "block", "1e2", &err), KM_ERROR_SPEC,
                 "block must be an integer 32..1024, got \"1e2\"");
    expect_error(
        km_spec_fix(&spec, "design", "register", &err), KM_ERROR_SPEC,
        "design must be registers, tensor... (CUDA), or lanes, gemm, prebuilt or sparse_lanes (CPU), got "
        "\"register\"; did you mean registers?");
    expect_error(
        km_spec_fix(&spec, "algorithm", "elkans", &err), KM_ERROR_SPEC,
        "algorithm must be auto, lloyd, tiles, hamerly or elkan, got \"elkans\"; did you mean elkan?");
    ck_assert_int_eq(spec.fixed_count, 2);
}
END_TEST

START_TEST(every_number_can_be_fixed) {
    int count = 0;
    const char *key;
    for (; (key = km_spec_plan_key(count)) != NULL; count++) {
        const char *value = !strcmp(key, "design")      ? "lanes"
                            : !strcmp(key, "algorithm") ? "elkan"
                            : !strcmp(key, "form")      ? "rounded"
                            : !strcmp(key, "sums")      ? "sorted"
                                                        : "8";
        ck_assert_msg(km_spec_fix(&spec, key, value, &err) == KM_OK || strstr(err.text, "must be 32..1024"),
                      "%s", err.text);
    }
    ck_assert_int_eq(count, KM_PARAM_COUNT + 2);
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

// YAML -------------------------------------------------------------------------------------------------------

static const char *bad_dir; // tests/bad
static char bad_files[256][128];
static int bad_count;

static km_status parse(const char *text) {
    return km_spec_parse(&spec, text, (int64_t)strlen(text), "s.yaml", &err);
}

static char *whole_file(const char *path, int64_t *size) {
    FILE *stream = fopen(path, "rb");
    ck_assert_msg(stream != NULL, "%s", path);
    char *text = calloc(1, 1 << 16);
    *size = (int64_t)fread(text, 1, (1 << 16) - 1, stream);
    fclose(stream);
    return text;
}

// Each file of tests/bad says in its first line, "# expect: line:column: message", what is said about it.
START_TEST(bad_file) {
    char path[512], wanted[1200];
    snprintf(path, sizeof path, "%s/%s", bad_dir, bad_files[_i]);
    int64_t size;
    char *text = whole_file(path, &size);
    static const char mark[] = "# expect: ";
    ck_assert_msg(strncmp(text, mark, sizeof mark - 1) == 0, "%s has no expectation", path);
    snprintf(wanted, sizeof wanted, "%s:%.*s", path, (int)strcspn(text, "\n") - (int)(sizeof mark - 1),
             text + sizeof mark - 1);
    spec.features = 77;
    km_spec_set_clusters(&spec, "4,6", &err);
    expect_error(km_spec_read(&spec, path, &err), KM_ERROR_SPEC, wanted);
    ck_assert_int_eq(spec.features, 77);
    ck_assert_int_eq(spec.clusters_count, 2);
    ck_assert_int_eq(spec.clusters[1], 6);
    expect_error(km_spec_parse(&spec, text, size, path, &err), KM_ERROR_SPEC, wanted);
    free(text);
}
END_TEST

START_TEST(all_keys) {
    ck_assert_msg(parse("# a comment\tmay hold tabs\n"
                        "name: wide\n"
                        "features: 8\n"
                        "clusters: 2..20 step 2  # even\n"
                        "type: float64\n"
                        "target: cuda:sm_90\n"
                        "n_init: 25\n"
                        "max_iter: 7\n"
                        "tol: 2.5e-3\n"
                        "plan:\n"
                        "  design: registers\n"
                        "  block: 256\n") == KM_OK,
                  "%s", err.text);
    ck_assert_str_eq(spec.name, "wide");
    ck_assert_int_eq(spec.features, 8);
    ck_assert_int_eq(spec.clusters_count, 10);
    ck_assert_int_eq(spec.clusters[9], 20);
    ck_assert_int_eq(spec.type, KM_FLOAT64);
    ck_assert_int_eq(spec.target.kind, KM_TARGET_CUDA);
    ck_assert_int_eq(spec.target.arch, 90);
    ck_assert_int_eq(spec.n_init, 25);
    ck_assert_int_eq(spec.max_iter, 7);
    ck_assert_double_eq(spec.tol, 2.5e-3);
    ck_assert_int_eq(spec.fixed_count, 2);
    ck_assert_str_eq(spec.fixed[0].name, "design");
    ck_assert_int_eq(spec.fixed[0].value, KM_DESIGN_REGISTERS);
    ck_assert_int_eq(spec.fixed[1].value, 256);
}
END_TEST

START_TEST(spellings) {
    static const char *const same[] = {
        "clusters: [3, 5, 8]\ntype: f64\n",
        "clusters: [8, 5, 3]\ntype: f64\n",
        "clusters:\n  - 3\n  - 5\n  - 8\ntype: 'float64'\n",
        "clusters: 3, 5, 8\ntype: float64\n",
        "{clusters: \"3,5,8\", type: \"f64\"}",
        "---\nclusters: [3, 5, 8]\ntype: float64\n...\n",
        ("\xef\xbb\xbf"
         "clusters: [3, 5, 8]\r\ntype: float64\r\n"),
        "type: float64\nclusters: >\n  3,\n  5,8\n",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        ck_assert_msg(parse(same[i]) == KM_OK, "%zu: %s", i, err.text);
        ck_assert_int_eq(spec.clusters_count, 3);
        ck_assert_int_eq(spec.clusters[0], 3);
        ck_assert_int_eq(spec.clusters[1], 5);
        ck_assert_int_eq(spec.clusters[2], 8);
        ck_assert_int_eq(spec.type, KM_FLOAT64);
    }
}
END_TEST

START_TEST(a_parse_starts_from_the_defaults) {
    ck_assert_int_eq(parse("features: 8\nn_init: 3\nclusters: 4\n"), KM_OK);
    ck_assert_int_eq(parse("plan: {}\n"), KM_OK);
    ck_assert_int_eq(spec.features, 0);
    ck_assert_int_eq(spec.n_init, 10);
    ck_assert_int_eq(spec.clusters_count, 0);
}
END_TEST

// A row of gen/old_names.h; every row is read in the same way.
START_TEST(old_names_are_read_with_a_warning) {
    static const char line[] =
        "s.yaml:2:1: restarts is an old name, which the next version refuses; write n_init\n";
    char *text;
    km_spec copy;
    km_spec_init(&copy);
    ck_assert_int_eq(parse("features: 8\nrestarts: 3\n"), KM_OK);
    ck_assert_int_eq(spec.n_init, 3);
    ck_assert_str_eq(spec.warnings, line);
    ck_assert_int_eq(km_spec_copy(&copy, &spec, &err), KM_OK);
    ck_assert_str_eq(copy.warnings, line);
    km_warnings_add(copy.warnings, spec.warnings); // once
    ck_assert_str_eq(copy.warnings, line);
    km_spec_clear(&copy);
    ck_assert_str_eq(copy.warnings, "");
    ck_assert_int_eq(km_spec_to_yaml(&text, &spec, &err), KM_OK);
    ck_assert_ptr_nonnull(strstr(text, "\nn_init: 3\n"));
    km_text_free(text);
    expect_error(parse("n_init: 4\nrestarts: 3\n"), KM_ERROR_SPEC,
                 "s.yaml:2:1: n_init is given twice, first in line 1; keep one");
    ck_assert_int_eq(parse("n_init: 3\n"), KM_OK);
    ck_assert_str_eq(spec.warnings, "");
}
END_TEST

// A row of KM_REPLACED_NUMBERS; the words that it names are words of that number.
START_TEST(replaced_numbers_say_what_to_write) {
    static const struct {
        const char *old, *now, *words;
    } rows[] = {
#define ROW(old, now, words) {#old, #now, words},
        KM_REPLACED_NUMBERS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[256], words[64];
        snprintf(line, sizeof line,
                 "%s is an old name; write %s %s in the place of 1, and nothing in that of 0", rows[i].old,
                 rows[i].now, rows[i].words);
        expect_error(km_spec_fix(&spec, rows[i].old, "1", &err), KM_ERROR_SPEC, line);
        snprintf(words, sizeof words, "%s", rows[i].words);
        char *second = strstr(words, " or ");
        ck_assert_ptr_nonnull(second);
        *second = 0;
        ck_assert_msg(km_spec_fix(&spec, rows[i].now, words, &err) == KM_OK, "%s", err.text);
        ck_assert_msg(km_spec_fix(&spec, rows[i].now, second + 4, &err) == KM_OK, "%s", err.text);
    }
}
END_TEST

// Each row leads to a name that there is, and more lines than there is room for end with a whole one.
START_TEST(every_old_name_is_one_of_today) {
    static const struct {
        const char *where, *old, *now;
    } rows[] = {
#define ROW(where, old, now) {#where, #old, #now},
        KM_OLD_NAMES(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int is_key = 0;
        for (int f = 0; f < KM_SPEC_FIELDS_COUNT; f++)
            is_key |= !strcmp(rows[i].where, "spec") && !strcmp(rows[i].now, km_spec_fields[f].key);
        for (int p = 0; km_spec_plan_key(p); p++)
            is_key |= !strcmp(rows[i].where, "plan") && !strcmp(rows[i].now, km_spec_plan_key(p));
        if (is_key) continue;
        km_spec_clear(&spec);
        ck_assert_msg(km_spec_fix(&spec, rows[i].where, rows[i].old, &err) == KM_OK, "%s", err.text);
        ck_assert_msg(strstr(spec.warnings, rows[i].now) != NULL, "%s", spec.warnings);
    }
    for (int i = 0; i < 100; i++) {
        char place[32];
        snprintf(place, sizeof place, "%d: ", i);
        ck_assert_str_eq(km_name_today(&spec, "spec", "restarts", place), "n_init");
    }
    size_t size = strlen(spec.warnings);
    ck_assert_uint_lt(size, sizeof spec.warnings);
    ck_assert_uint_gt(size, sizeof spec.warnings - 100);
    ck_assert_int_eq(spec.warnings[size - 1], '\n');
}
END_TEST

START_TEST(places_are_those_of_an_editor) {
    expect_error(parse(""), KM_ERROR_SPEC,
                 "s.yaml:1:1: the spec is empty; it needs keys such as clusters: 2..12");
    expect_error(parse("\r\n\r\nfeatures: 0\r\n"), KM_ERROR_SPEC,
                 "s.yaml:3:11: features must be 1..2147483647, got 0");
    expect_error(parse("\xef\xbb\xbf"
                       "features: 0\n"),
                 KM_ERROR_SPEC, "s.yaml:1:11: features must be 1..2147483647, got 0");
    expect_error(parse("\xef\xbb\xbf"
                       "name: a\n\xff"),
                 KM_ERROR_SPEC, "s.yaml:2:1: the byte 0xff is not UTF-8; save the spec as UTF-8");
    // Columns count characters, not bytes.
    expect_error(
        parse("{name: \xc3\xa9, features: 0}"), KM_ERROR_SPEC,
        "s.yaml:1:8: name must be a C identifier (letters, digits and _, no digit first, at most 63 bytes), "
        "got \"\xc3\xa9\"");
    expect_error(parse("# \xc3\xa9\n# \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \x80\n"), KM_ERROR_SPEC,
                 "s.yaml:2:9: the byte 0x80 is not UTF-8; save the spec as UTF-8");
}
END_TEST

START_TEST(broken_utf8) {
    static const char *const broken[] = {
        "# \xc0\xaf\n",         // overlong
        "# \xed\xa0\x80\n",     // surrogate
        "# \xf4\x90\x80\x80\n", // beyond U+10FFFF
        "# \xe2\x82",           // cut short
        "# \xf8\x88\x80\x80\x80\n",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        ck_assert_int_eq(parse(broken[i]), KM_ERROR_SPEC);
        ck_assert_msg(strstr(err.text, "s.yaml:1:3: the byte 0x") && strstr(err.text, "is not UTF-8"), "%s",
                      err.text);
        err.text[0] = 0;
    }
    static const char zero[] = "features: 8\n\0n_init: 3\n";
    expect_error(km_spec_parse(&spec, zero, sizeof zero - 1, "s.yaml", &err), KM_ERROR_SPEC,
                 "s.yaml:2:1: the control character U+0000 is not allowed; is this a text file?");
    static const char utf16[] = "\xff\xfe"
                                "f\0";
    expect_error(km_spec_parse(&spec, utf16, sizeof utf16, "s.yaml", &err), KM_ERROR_SPEC,
                 "s.yaml:1:1: the byte 0xff is not UTF-8; save the spec as UTF-8");
}
END_TEST

START_TEST(files_that_cannot_be_read) {
    expect_error(km_spec_read(&spec, "no/such.yaml", &err), KM_ERROR_IO,
                 "cannot read no/such.yaml: No such file or directory");
    expect_error(km_spec_read(&spec, "/", &err), KM_ERROR_IO, "cannot read /: Is a directory");
    ck_assert_int_eq(km_spec_read(&spec, "/dev/zero", &err), KM_ERROR_SPEC);
    ck_assert_ptr_nonnull(strstr(err.text, "/dev/zero:1:1: a spec must have at most 1048576 bytes"));
}
END_TEST

static void expect_same(const km_spec *a, const km_spec *b) {
    ck_assert_str_eq(a->name, b->name);
    ck_assert_int_eq(a->features, b->features);
    ck_assert_int_eq(a->clusters_count, b->clusters_count);
    for (int64_t i = 0; i < a->clusters_count; i++) ck_assert_int_eq(a->clusters[i], b->clusters[i]);
    ck_assert_int_eq(a->type, b->type);
    ck_assert_int_eq(a->target.kind, b->target.kind);
    ck_assert_int_eq(a->target.arch, b->target.arch);
    ck_assert_int_eq(a->n_init, b->n_init);
    ck_assert_int_eq(a->max_iter, b->max_iter);
    ck_assert_double_eq(a->tol, b->tol);
    ck_assert_int_eq(a->refine, b->refine);
    ck_assert_int_eq(a->layout, b->layout);
    ck_assert_int_eq(a->fixed_count, b->fixed_count);
    for (int64_t i = 0; i < a->fixed_count; i++) {
        ck_assert_str_eq(a->fixed[i].name, b->fixed[i].name);
        ck_assert_int_eq(a->fixed[i].value, b->fixed[i].value);
    }
}

static void expect_round_trip(void) {
    char *text;
    km_spec back;
    km_spec_init(&back);
    ck_assert_int_eq(km_spec_to_yaml(&text, &spec, &err), KM_OK);
    ck_assert_msg(km_spec_parse(&back, text, (int64_t)strlen(text), "back", &err) == KM_OK, "%s\n%s",
                  err.text, text);
    expect_same(&spec, &back);
    char *again;
    ck_assert_int_eq(km_spec_to_yaml(&again, &back, &err), KM_OK);
    ck_assert_str_eq(text, again);
    km_text_free(text);
    km_text_free(again);
    km_spec_clear(&back);
}

START_TEST(yaml_text) {
    char *text;
    ck_assert_int_eq(parse("clusters: [2, 4, 6]\nfeatures: 3\nplan: {grid: 7, design: gemm}"), KM_OK);
    ck_assert_int_eq(km_spec_to_yaml(&text, &spec, &err), KM_OK);
    ck_assert_str_eq(text, "name: kmeans\n"
                           "features: 3\n"
                           "clusters: 2..6 step 2\n"
                           "type: float32\n"
                           "target: auto\n"
                           "n_init: 10\n"
                           "plan:\n"
                           "  grid: 7\n"
                           "  design: gemm\n");
    km_text_free(text);
}
END_TEST

// Random specs through every key; a fixed seed, so that a failure comes again.
static unsigned random_state;

static int below(int n) {
    random_state = random_state * 1103515245u + 12345u;
    return (int)(random_state >> 16) % n;
}

START_TEST(round_trips) {
    static const char *const targets_all[] = {"auto",     "cpu",  "cpu:generic", "cpu:avx2",   "cpu:avx512",
                                              "cpu:neon", "cuda", "cuda:sm_75",  "cuda:sm_120"};
    random_state = 12345;
    for (int round = 0; round < 500; round++) {
        km_spec_clear(&spec);
        char text[64];
        spec.features = below(3) ? 1 + below(KM_FEATURES_MAX) : 0;
        spec.type = below(2) ? KM_FLOAT32 : KM_FLOAT64;
        spec.n_init = 1 + below(100);
        if (below(2)) spec.max_iter = 1 + below(1000);
        if (below(2)) spec.tol = below(1000) / (double)(1 + below(1000)) * (below(2) ? 1 : 1e-300);
        spec.refine = below(4) - 1;
        spec.layout = (km_layout)below(KM_LAYOUT_COUNT);
        ck_assert_int_eq(km_spec_set_target(&spec, targets_all[below(9)], &err), KM_OK);
        int low = 1 + below(50);
        snprintf(text, sizeof text, "%d..%d step %d", low, low + below(200), 1 + below(9));
        if (below(3) == 0)
            snprintf(text, sizeof text, "%d,%d,%d", low, low + 1 + below(9), low + 20 + below(9));
        if (below(8)) ck_assert_msg(km_spec_set_clusters(&spec, text, &err) == KM_OK, "%s", err.text);
        for (int i = 1; km_spec_plan_key(i); i++)
            if (below(3) == 0) km_spec_fix(&spec, km_spec_plan_key(i), below(2) ? "1" : "64", NULL);
        if (below(2)) ck_assert_int_eq(km_spec_fix(&spec, "design", "tensor", &err), KM_OK);
        expect_round_trip();
    }
}
END_TEST

// docs/spec.md -------------------------------------------------------------------------------------------------

static const char *reference; // docs/spec.md

START_TEST(reference_names_every_number) {
    static const struct {
        const char *name;
        int64_t lowest, highest;
        int targets;
        const char *meaning;
    } numbers[] = {
#define ROW(name, lowest, highest, targets, tune, meaning) {#name, lowest, highest, targets, meaning},
        KM_PARAMS(ROW)
#undef ROW
    };
    static const char *const targets_of[] = {"", "CUDA", "CPU", "CUDA and CPU"};
    int64_t size;
    char *text = whole_file(reference, &size);
    for (int i = 0; i < KM_PARAM_COUNT; i++) {
        char row[256];
        char range[64] = "a word";
        if (!km_param_has_words((km_param)i))
            snprintf(range, sizeof range, "%" PRId64 "..%" PRId64, numbers[i].lowest, numbers[i].highest);
        snprintf(row, sizeof row, "\n| `%s` | %s | %s | %s |\n", numbers[i].name, range,
                 targets_of[numbers[i].targets], numbers[i].meaning);
        ck_assert_msg(strstr(text, row) != NULL, "docs/spec.md lacks the row%s", row);
    }
    static const struct {
        const char *param, *name, *meaning;
        km_design design;
    } words[] = {
#define ROW(param, name, design, meaning) {#param, #name, meaning, KM_DESIGN_##design},
        KM_WORDS(ROW)
#undef ROW
    };
    for (int i = 0; i < KM_WORD_COUNT; i++) {
        char row[256];
        snprintf(row, sizeof row, "\n| `%s` | `%s` | %s | %s |\n", words[i].param, words[i].name,
                 km_design_name(words[i].design), words[i].meaning);
        ck_assert_msg(strstr(text, row) != NULL, "docs/spec.md lacks the row%s", row);
        // A word is known by its number alone.
        for (int j = 0; j < i; j++)
            ck_assert(strcmp(words[i].name, words[j].name) || strcmp(words[i].param, words[j].param));
    }
    for (int i = 0; i < KM_SPEC_FIELDS_COUNT; i++) {
        char heading[64];
        snprintf(heading, sizeof heading, "\n### %s\n", km_spec_fields[i].key);
        ck_assert_msg(strstr(text, heading) != NULL, "docs/spec.md lacks the key %s", km_spec_fields[i].key);
    }
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
        static const char *const whats[] = {"",
#define ROW(value, name, target, what) what,
                                            KM_DESIGNS(ROW)
#undef ROW
        };
        char row[256];
        snprintf(row, sizeof row, "\n| `%s` | %s | %s |\n", km_design_name((km_design)i),
                 km_design_target((km_design)i) == KM_TARGET_CUDA ? "CUDA" : "CPU", whats[i]);
        ck_assert_msg(strstr(text, row) != NULL, "docs/spec.md lacks the row%s", row);
    }
    for (int i = 0; i < KM_ALGORITHM_COUNT; i++) {
        char algorithm[64];
        snprintf(algorithm, sizeof algorithm, "`%s`", km_algorithm_name((km_algorithm)i));
        ck_assert_msg(strstr(text, algorithm) != NULL, "docs/spec.md lacks the algorithm %s", algorithm);
    }
    free(text);
}
END_TEST

START_TEST(reference_examples_are_specs) {
    int64_t size;
    char *text = whole_file(reference, &size), *at = text;
    static const char open[] = "```yaml\n";
    int count = 0;
    for (; (at = strstr(at, open)) != NULL; count++) {
        at += sizeof open - 1;
        char *close = strstr(at, "```");
        ck_assert_ptr_nonnull(close);
        ck_assert_msg(km_spec_parse(&spec, at, close - at, "docs/spec.md", &err) == KM_OK, "example %d: %s",
                      count, err.text);
    }
    ck_assert_int_ge(count, 8);
    free(text);
}
END_TEST

static void list_bad_files(void) {
    DIR *dir = opendir(bad_dir);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL && bad_count < 256;) {
        size_t size = strlen(entry->d_name);
        if (size < 5 || strcmp(entry->d_name + size - 5, ".yaml") != 0) continue;
        ck_assert_uint_lt(size, sizeof bad_files[0]);
        memcpy(bad_files[bad_count++], entry->d_name, size + 1);
    }
    closedir(dir);
}

int main(int argc, char **argv) {
    bad_dir = argc > 1 ? argv[1] : "tests/bad";
    reference = argc > 2 ? argv[2] : "docs/spec.md";
    list_bad_files();
    if (bad_count < 60) {
        fprintf(stderr, "%s holds %d specs: give the folder tests/bad as the first argument\n", bad_dir,
                bad_count);
        return EXIT_FAILURE;
    }
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
    TCase *yaml = tcase_create("yaml");
    tcase_add_checked_fixture(yaml, begin, end);
    tcase_add_loop_test(yaml, bad_file, 0, bad_count);
    tcase_add_test(yaml, all_keys);
    tcase_add_test(yaml, spellings);
    tcase_add_test(yaml, a_parse_starts_from_the_defaults);
    tcase_add_test(yaml, old_names_are_read_with_a_warning);
    tcase_add_test(yaml, every_old_name_is_one_of_today);
    tcase_add_test(yaml, replaced_numbers_say_what_to_write);
    tcase_add_test(yaml, places_are_those_of_an_editor);
    tcase_add_test(yaml, broken_utf8);
    tcase_add_test(yaml, files_that_cannot_be_read);
    tcase_add_test(yaml, yaml_text);
    tcase_add_test(yaml, round_trips);
    tcase_add_test(yaml, reference_names_every_number);
    tcase_add_test(yaml, reference_examples_are_specs);
    suite_add_tcase(suite, yaml);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

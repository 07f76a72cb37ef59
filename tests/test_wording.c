// SPDX-License-Identifier: MIT
// The words that sentences have for the program's readers and for Python's.
#include "../base/text.h"
#include "../base/wording.h"
#include "quiet_check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int holes_in(const char *words) {
    int count = 0;
    for (const char *at = words; (at = strstr(at, "%s")); at += 2) count++;
    return count;
}

// An option of the program: a word that begins with a minus.
static int has_option(const char *words) {
    for (const char *at = words; (at = strchr(at, '-')); at++)
        if ((at == words || strchr(" (,", at[-1])) && at[1] && !strchr(" ,)", at[1])) return 1;
    return 0;
}

START_TEST(every_wording_is_for_both) {
    for (int w = 0; w < KM_WORDING_COUNT; w++) {
        km_wording_of_python(0);
        const char *program = km_say((km_wording)w);
        km_wording_of_python(1);
        const char *python = km_say((km_wording)w);
        ck_assert_msg(!has_option(python), "\"%s\"", python);
        ck_assert_int_eq(holes_in(program), holes_in(python));
        ck_assert_int_le(holes_in(program), 1);
        ck_assert_int_lt(strlen(program), KM_SAY_SIZE);
        ck_assert_int_lt(strlen(python), KM_SAY_SIZE);
    }
    ck_assert(has_option("try -k 3") && has_option("--plot") && !has_option("k-means - it - is"));
}
END_TEST

START_TEST(values_are_put_in) {
    char longest[3 * KM_SAY_SIZE];
    km_wording_of_python(0);
    ck_assert_str_eq(KM_SAY(SCALE, "standard"), "--scale standard");
    ck_assert_str_eq(KM_SAY(SCORES, "nothing"), "--verbose");
    km_wording_of_python(1);
    ck_assert_str_eq(KM_SAY(SCALE, "standard"), "scale=\"standard\"");
    ck_assert_str_eq(KM_SAY(N_INIT, "50"), "n_init=50");
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    ck_assert_int_eq(strlen(KM_SAY(CLUSTERS, longest)), KM_SAY_SIZE - 1);
    km_wording_of_python(0);
}
END_TEST

// What is cut to, of a name of ASCII, East Asia, letters with marks, pictures.
START_TEST(names_keep_both_ends) {
    static const struct {
        const char *name;
        int64_t columns, room;
        const char *shown;
    } cases[] = {{"price", 5, 5, "price"},
                 {"turnover of category 7", 22, 21, "turnover ...ategory 7"},
                 {"turnover of category 7", 22, 4, "t..."},
                 {"\u5e74\u9593\u58f2\u4e0a\u9ad8", 10, 9, "\u5e74...\u4e0a\u9ad8"},
                 {"e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301", 6, 5, "e\u0301...e\u0301"},
                 {"ab\U0001f389\U0001f389\U0001f389cd", 10, 7, "ab...cd"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        km_text padded = {0};
        snprintf(name, sizeof name, "%s", cases[i].name);
        ck_assert_int_eq(km_text_columns(name), cases[i].columns);
        km_text_shorten(name, cases[i].room);
        ck_assert_str_eq(name, cases[i].shown);
        ck_assert_int_le(km_text_columns(name), cases[i].room);
        km_text_pad(&padded, name, 24);
        ck_assert_int_eq(km_text_columns(padded.data), 24);
        km_text_clear(&padded);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("wording");
    TCase *tests = tcase_create("wording");
    tcase_add_test(tests, every_wording_is_for_both);
    tcase_add_test(tests, values_are_put_in);
    tcase_add_test(tests, names_keep_both_ends);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

// SPDX-License-Identifier: MIT
// The words that sentences have for the program's readers and for Python's.
#include "../base/wording.h"
#include "quiet_check.h"
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

int main(void) {
    Suite *suite = suite_create("wording");
    TCase *tests = tcase_create("wording");
    tcase_add_test(tests, every_wording_is_for_both);
    tcase_add_test(tests, values_are_put_in);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

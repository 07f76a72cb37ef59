// SPDX-License-Identifier: MIT
// The search among candidates of a tuning, without a device.
#include "quiet_check.h"
#include "runtime/tune/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static km_search *make(const km_search_point *points, int64_t count, int64_t axes, int64_t most) {
    km_error err = {{0}};
    km_search *search = NULL;
    ck_assert_int_eq(km_search_create(&search, points, count, axes, count ? 0 : -1, most, &err), KM_OK);
    return search;
}

// A space of two axes and as many families: times are wrong by a factor of each family.
enum { BLOCKS = 12, POINTS = 8, FAMILIES = 3, COUNT = FAMILIES * BLOCKS * POINTS };

static double surface(km_search_point *points, double *ms) {
    static const double factor[FAMILIES] = {1.7, 0.8, 1.2};
    double best = INFINITY;
    memset(points, 0, COUNT * sizeof *points);
    for (int i = 0; i < COUNT; i++) {
        int block = i % BLOCKS, lot = i / BLOCKS % POINTS, family = i / BLOCKS / POINTS;
        double x = log2((block + 1) / 5.0), y = log2((lot + 1) / 3.0);
        points[i] = (km_search_point){.predicted_ms = 1 + 0.2 * x * x + 0.1 * fabs(y) + 0.1 * family,
                                      .family = family,
                                      .value = {32 * (block + 1), lot + 1}};
        ms[i] = points[i].predicted_ms * factor[family] * (1 + 0.1 * x) * (1 + 0.05 * x * y);
        best = fmin(best, ms[i]);
    }
    return best;
}

START_TEST(finds_the_best) {
    static km_search_point points[COUNT];
    static double ms[COUNT];
    double best = surface(points, ms);
    km_search *search = make(points, COUNT, 2, 0);
    ck_assert_int_eq(km_search_next(search), 0); // the default
    for (int64_t at; (at = km_search_next(search)) >= 0;) {
        int64_t ahead[4];
        ck_assert_int_gt(km_search_ahead(search, ahead, 4), 0);
        ck_assert_int_eq(ahead[0], at);
        km_search_tell(search, at, ms[at]);
    }
    ck_assert_int_le(km_search_told(search), (COUNT + 9) / 10);
    ck_assert_double_le(ms[km_search_best(search)], 1.02 * best);
    km_search_destroy(&search);
    ck_assert_ptr_null(search);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("search");
    TCase *tcase = tcase_create("search");
    tcase_add_test(tcase, finds_the_best);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

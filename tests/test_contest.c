// SPDX-License-Identifier: MIT
// Which restart is the best of its K: the lowest of those whose inertias tie, whatever the order in which they are
// done.
#include "quiet_check.h"
#include "runtime/contest.h"
#include "runtime/rounding.h"
#include "runtime/seed.h"

#include <stdlib.h>

enum { RESTARTS = 12, VALUES = 3 };

// Offers the inertias in an order drawn by `draw`; the winner's index. Centroids name their restart.
static int64_t winner_of(const double *inertias, const double *roundings, uint64_t draw) {
    km_error err = {{0}};
    km_contest contest;
    double rows[VALUES];
    int order[RESTARTS];
    km_contest_init(&contest, rows, sizeof rows);
    for (int i = 0; i < RESTARTS; i++) {
        int at = (int)(km_draw(draw, 0, (uint64_t)i, 0) * (i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < RESTARTS; i++) {
        int r = order[i];
        double centroids[VALUES] = {r, -r, 2 * r};
        km_restart done = {r, inertias[r], roundings[r], 10 + r, r % 2, r % 3 == 0, centroids};
        ck_assert_int_eq(km_contest_offer(&contest, &done, &err), KM_OK);
        ck_assert_int_ge(contest.count, 1);
    }
    const km_restart *winner = km_contest_winner(&contest);
    int64_t index = winner->index;
    ck_assert_ptr_eq(winner->centroids, rows);
    ck_assert_int_eq(winner->iterations, 10 + index);
    ck_assert_int_eq(winner->converged, index % 2);
    ck_assert_int_eq(winner->is_fixed, index % 3 == 0);
    ck_assert_double_eq(winner->inertia, inertias[index]);
    for (int f = 0; f < VALUES; f++)
        ck_assert_double_eq(rows[f], (f == 1 ? -1.0 : f + (f == 0)) * (double)index);
    km_contest_free(&contest);
    return index;
}

// Costs a few roundings apart, so that many tie with some and not with others.
START_TEST(any_order) {
    double inertias[RESTARTS], roundings[RESTARTS], limit = HUGE_VAL;
    int64_t lowest = -1;
    for (int r = 0; r < RESTARTS; r++) {
        inertias[r] = 100 + (_i % 4 + 1) * km_draw((uint64_t)_i, 1, (uint64_t)r, 0);
        roundings[r] = 0.5 + 0.2 * km_draw((uint64_t)_i, 2, (uint64_t)r, 0);
        limit = fmin(limit, inertias[r] + roundings[r]);
    }
    for (int r = RESTARTS - 1; r >= 0; r--)
        if (inertias[r] <= limit) lowest = r;
    for (uint64_t draw = 0; draw < 50; draw++) ck_assert_int_eq(winner_of(inertias, roundings, draw), lowest);
}
END_TEST

// Equal within rounding: the lowest restart. Further apart: the least inertia.
START_TEST(ties) {
    double inertias[RESTARTS], roundings[RESTARTS];
    for (int r = 0; r < RESTARTS; r++) inertias[r] = 7 - 1e-14 * r, roundings[r] = 1e-12;
    for (uint64_t draw = 0; draw < 50; draw++) ck_assert_int_eq(winner_of(inertias, roundings, draw), 0);
    inertias[9] = 7 - 1e-11;
    for (uint64_t draw = 0; draw < 50; draw++) ck_assert_int_eq(winner_of(inertias, roundings, draw), 9);
    for (int r = 0; r < RESTARTS; r++) inertias[r] = HUGE_VAL;
    ck_assert_int_eq(winner_of(inertias, roundings, 1), 0);
}
END_TEST

// The bound follows the scale of the data, and one far point that is alone in its cluster costs no more than the digits
// that its own square takes.
START_TEST(size_of_bound) {
    double centroids[] = {1, 2, -1, 0.5, 3, -3}, weights[] = {1000, 2000, 1500}, scaled[6];
    double total_square = 50000, bound = km_inertia_rounding(centroids, weights, 3, 2, 4500, total_square);
    ck_assert_double_gt(bound, 2 * 0x1p-53 * total_square);
    ck_assert_double_lt(bound, 1e-12 * total_square);
    for (int i = 0; i < 6; i++) scaled[i] = 0x1p-40 * centroids[i];
    ck_assert_double_eq(km_inertia_rounding(scaled, weights, 3, 2, 4500, 0x1p-80 * total_square),
                        0x1p-80 * bound);
    double far[] = {1, 2, -1, 0.5, 1e8, 1e8}, alone[] = {2500, 2000, 1};
    ck_assert_double_lt(km_inertia_rounding(far, alone, 3, 2, 4501, 2e16), 12 * 0x1p-53 * 2e16);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("contest");
    TCase *tcase = tcase_create("contest");
    tcase_add_loop_test(tcase, any_order, 0, 40);
    tcase_add_test(tcase, ties);
    tcase_add_test(tcase, size_of_bound);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

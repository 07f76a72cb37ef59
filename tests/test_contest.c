// SPDX-License-Identifier: MIT
// Which restart is the best of its K: the lowest of those whose inertias tie, whatever the order in which they are
// done. And totals that do not depend on an order.
#include "quiet_check.h"
#include "runtime/contest.h"
#include "runtime/rounding.h"
#include "runtime/seed.h"

#include "templates/both.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        km_restart done = {r, inertias[r], roundings[r], 10 + r, r % 2, r % 3 == 0, r % 5 == 0, centroids};
        ck_assert_int_eq(km_contest_offer(&contest, &done, &err), KM_OK);
        ck_assert_int_ge(contest.count, 1);
    }
    const km_restart *winner = km_contest_winner(&contest);
    int64_t index = winner->index;
    ck_assert_ptr_eq(winner->centroids, rows);
    ck_assert_int_eq(winner->iterations, 10 + index);
    ck_assert_int_eq(winner->converged, index % 2);
    ck_assert_int_eq(winner->is_fixed, index % 3 == 0);
    ck_assert_int_eq(winner->has_means, index % 5 == 0);
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

// Totals ------------------------------------------------------------------------------------------------------

// Integers of 128 bits: the reference.
__extension__ typedef __int128 wide;

enum { ADDENDS = 4000, LOWEST = 108 };

typedef struct digits {
    double at[KM_TOTAL_DIGITS];
} digits;

static void add(digits *total, const km_total_units *units, double x) {
    km_total_add(&total->at[0], &total->at[1], &total->at[2], units, x);
}

static double value_of(const digits *total) {
    return km_total_value(total->at[0], total->at[1], total->at[2]);
}

// x in units of 2^(exponent - LOWEST), which it is a multiple of.
static wide wide_of(double x, int exponent) {
    double high = rint(ldexp(x, LOWEST - 50 - exponent)), rest = x - ldexp(high, 50 + exponent - LOWEST);
    return (wide)high * ((wide)1 << 50) + (wide)ldexp(rest, LOWEST - exponent);
}

static wide wide_total(const digits *total, int exponent) {
    wide sum = 0;
    for (int i = 0; i < KM_TOTAL_DIGITS; i++) sum += wide_of(total->at[i], exponent);
    return sum;
}

// Numbers of all sizes that a total of 2^exponent takes; magnitudes add up to less.
static double number_of(uint64_t draw, int i, int exponent) {
    double u = 2 * km_draw(draw, 1, (uint64_t)i, 0) - 1;
    int below = (int)(km_draw(draw, 2, (uint64_t)i, 0) * 120);
    if (i % 7 == 0) below = 12;                               // many of the largest
    if (i % 5 == 1) return -number_of(draw, i - 1, exponent); // which leave again
    return ldexp(u, exponent - 12 - below);
}

// In any order, in any parts, the digits are those of integers of 128 bits.
START_TEST(total_in_any_order) {
    static const int exponents[] = {0, 23, -40, 300, -966, 1000};
    int exponent = exponents[_i % 6];
    km_total_units units = km_total_units_of(exponent);
    digits first = {{0}};
    wide sum = 0;
    for (int i = 0; i < ADDENDS; i++) {
        double x = number_of((uint64_t)_i, i, exponent);
        digits one = {{0}};
        add(&first, &units, x);
        add(&one, &units, x);
        wide cut = wide_total(&one, exponent);
        sum += cut;
        ck_assert_double_le(fabs(ldexp(value_of(&one) - x, LOWEST - exponent)), 0.5); // what is cut off
    }
    ck_assert(wide_total(&first, exponent) == sum);
    for (int order = 0; order < 4; order++) {
        digits parts[3] = {{{0}}};
        for (int i = 0; i < ADDENDS; i++) {
            int at = (int)((i * 1237ll + order * 77) % ADDENDS),
                part = order ? (at * 31 + i / 9) % (order + 1) % 3 : 0;
            add(&parts[part], &units, number_of((uint64_t)_i, at, exponent));
        }
        for (int i = 0; i < KM_TOTAL_DIGITS; i++) parts[0].at[i] += parts[2].at[i] + parts[1].at[i];
        ck_assert_mem_eq(&parts[0], &first, sizeof first);
    }
    double before = value_of(&first);
    km_total_carry(&first.at[0], &first.at[1], &first.at[2], &units);
    ck_assert(wide_total(&first, exponent) == sum);
    ck_assert_double_le(fabs(first.at[1]), ldexp(1, exponent - KM_TOTAL_HIGH_BITS - 1));
    ck_assert_double_le(fabs(first.at[2]), ldexp(1, exponent - KM_TOTAL_HIGH_BITS - KM_TOTAL_STEP_BITS - 1));
    ck_assert_double_le(fabs(value_of(&first) - before), 0x1p-51 * fabs(before));
}
END_TEST

// As many numbers as the units are for, the largest, and those that leave most to the lower digits: none is rounded.
START_TEST(total_at_its_bounds) {
    const int64_t most = (int64_t)1 << KM_TOTAL_ADDENDS_BITS;
    const double high = ldexp(1, -KM_TOTAL_HIGH_BITS), mid = ldexp(high, -KM_TOTAL_STEP_BITS);
    const double worst[] = {1.0 / (double)most - high / 2, high / 2 - mid,
                            high / 2 - mid * 1.5 + ldexp(1, -101), mid / 2 - ldexp(1, -108)};
    km_total_units units = km_total_units_of(0);
    for (int w = 0; w < 4; w++) {
        digits total = {{0}};
        for (int64_t i = 0; i < most; i++) add(&total, &units, worst[w]);
        ck_assert(wide_total(&total, 0) == (wide)most * wide_of(worst[w], 0));
        for (int64_t i = 0; i < most; i++) add(&total, &units, -worst[w]);
        for (int i = 0; i < KM_TOTAL_DIGITS; i++) ck_assert_double_eq(total.at[i], 0);
    }
}
END_TEST

// Where the lowest unit is below the smallest double, or the bound beyond the largest.
START_TEST(total_of_extremes) {
    static const double tiny[] = {4.9e-324, -3e-310, 1e-305, 2.2250738585072014e-308,
                                  -1e-305,  3e-310,  7e-322};
    static const double huge[] = {8e307, 4e307, -8e307, 3e290, 1, -4e307, -1, -3e290, 5e307};
    km_total_units units = km_total_units_of(-1008);
    digits total = {{0}}, back = {{0}};
    for (int i = 0; i < 7; i++) add(&total, &units, tiny[i]);
    for (int i = 6; i >= 0; i--) add(&back, &units, tiny[i]);
    ck_assert_mem_eq(&total, &back, sizeof total);
    ck_assert_double_eq(value_of(&total), 4.9e-324 + 2.2250738585072014e-308 + 7e-322);
    units = km_total_units_of(1026);
    total = back = (digits){{0}};
    for (int i = 0; i < 9; i++) add(&total, &units, huge[i]);
    for (int i = 8; i >= 0; i--) add(&back, &units, huge[i]);
    ck_assert_mem_eq(&total, &back, sizeof total);
    ck_assert_double_eq(value_of(&total), 5e307);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("contest");
    TCase *tcase = tcase_create("contest");
    tcase_add_loop_test(tcase, any_order, 0, 40);
    tcase_add_test(tcase, ties);
    tcase_add_test(tcase, size_of_bound);
    tcase_add_loop_test(tcase, total_in_any_order, 0, 24);
    tcase_add_test(tcase, total_at_its_bounds);
    tcase_add_test(tcase, total_of_extremes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

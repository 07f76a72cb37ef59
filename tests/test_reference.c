// SPDX-License-Identifier: MIT
// The reference itself, by values that were worked out by hand and by properties that need no second program.
#include "reference.h"
#include "../runtime/seed.h"
#include <stdlib.h>

static const double square[] = {0, 0, .5, 0, .5, 1, 1, 1};

static void check_model(const ref_model *model, const int32_t *labels, const double *centroids, int64_t n,
                        int64_t d, double inertia) {
    for (int64_t i = 0; i < n; i++) ck_assert_int_eq(model->labels[i], labels[i]);
    for (int64_t i = 0; i < model->k * d; i++) ck_assert_double_eq(model->centroids[i], centroids[i]);
    ck_assert_double_eq(model->inertia, inertia);
}

START_TEST(hand_weighted) {
    const double weights[] = {3, 1, 1, 3}, init[] = {0, 0, 1, 1}, centroids[] = {.125, 0, .875, 1};
    const int32_t labels[] = {0, 0, 1, 1};
    ref_data data = ref_data_of(square, weights, 4, 2, KM_FLOAT64);
    ref_model model = ref_fit(&data, init, 2, 0, 300);
    check_model(&model, labels, centroids, 4, 2, .375);
    ck_assert_int_eq(model.n_iter, 2);
    ck_assert(model.converged);
    ref_model_free(&model);
    ref_data_free(&data);
}
END_TEST

START_TEST(hand_empty_cluster) {
    const double init[] = {.5, .5, 3, 3}, centroids[] = {.75, 1, .25, 0};
    const int32_t labels[] = {1, 1, 0, 0};
    ref_data data = ref_data_of(square, NULL, 4, 2, KM_FLOAT64);
    ref_model model = ref_fit(&data, init, 2, 0, 300);
    check_model(&model, labels, centroids, 4, 2, .25);
    ck_assert_int_eq(model.effective_k, 2);
    ref_model_free(&model);
    ref_data_free(&data);
}
END_TEST

START_TEST(hand_uneven_weights) {
    const double x[] = {-1, 1}, weights[] = {1.9, .1}, init[] = {-1, 10}, centroids[] = {-1, 1};
    const int32_t labels[] = {0, 1};
    ref_data data = ref_data_of(x, weights, 2, 1, KM_FLOAT64);
    ref_model model = ref_fit(&data, init, 2, 0, 300);
    check_model(&model, labels, centroids, 2, 1, 0);
    ref_model_free(&model);
    ref_data_free(&data);
}
END_TEST

START_TEST(hand_too_few_distinct) {
    const double x[] = {0, 0, 0, 1, 1, 0, 1, 0};
    ref_data data = ref_data_of(x, NULL, 4, 2, KM_FLOAT64);
    ref_model model = ref_fit(&data, x, 4, 0, 300);
    ck_assert_int_eq(model.effective_k, 3);
    ck_assert_double_eq(model.inertia, 0);
    ck_assert(model.converged);
    ref_model_free(&model);
    ref_data_free(&data);
}
END_TEST

START_TEST(ties_go_to_the_lowest_index) {
    const double x[] = {0, 1, 2}, centroids[] = {1, -1, 1, 3};
    int32_t labels[3];
    double distance2[3];
    ref_data data = ref_data_of(x, NULL, 3, 1, KM_FLOAT64);
    ref_assign(labels, distance2, &data, centroids, 4);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(labels[i], 0);
    ck_assert_double_eq(distance2[0], 1);
    ck_assert_double_eq(distance2[1], 0);
    ref_data_free(&data);
}
END_TEST

START_TEST(relocation_takes_farthest_points) {
    // Distances to centroid 0 as it was: 0, 1, 9, 9 (weight 0), 9 (equal to point 2), 4. Points 0 and 4 stay.
    const double x[] = {0, 1, 3, -3, 3, 2}, w[] = {1, 1, 1, 0, 1, 1};
    const double before[] = {0, 100, 200, 300}, weights[] = {5, 0, 0, 0};
    double centroids[] = {1.8, 100, 200, 300};
    ref_data data = ref_data_of(x, w, 6, 1, KM_FLOAT64);
    ck_assert_int_eq(ref_relocate(centroids, weights, before, &data, 4), 3);
    ck_assert_double_eq(centroids[0], 1.5);
    ck_assert_double_eq(centroids[1], 3);
    ck_assert_double_eq(centroids[2], 2);
    ck_assert_double_eq(centroids[3], 1);
    ref_data_free(&data);
}
END_TEST

// Of three clusters one is empty, and gets the only point of another, which is then where the heaviest is.
START_TEST(relocation_may_empty_a_cluster) {
    const double x[] = {0, 1, 2, 9}, before[] = {1, 20, 14}, weights[] = {3, 0, 1};
    double centroids[] = {1, 20, 9};
    ref_data data = ref_data_of(x, NULL, 4, 1, KM_FLOAT64);
    ck_assert_int_eq(ref_relocate(centroids, weights, before, &data, 3), 1);
    ck_assert_double_eq(centroids[0], 1);
    ck_assert_double_eq(centroids[1], 9);
    ck_assert_double_eq(centroids[2], 1);
    ref_data_free(&data);
}
END_TEST

START_TEST(update_keeps_empty_clusters) {
    double centroids[] = {7, 8, 9}, weights[3];
    int64_t counts[3];
    const double x[] = {1, 2, 6}, w[] = {1, 3, 0};
    const int32_t labels[] = {0, 0, 2};
    ref_data data = ref_data_of(x, w, 3, 1, KM_FLOAT64);
    ref_update(centroids, weights, counts, &data, labels, 3);
    ck_assert_double_eq(centroids[0], 1.75);
    ck_assert_double_eq(centroids[1], 8);
    ck_assert_double_eq(centroids[2], 9);
    ck_assert_double_eq(weights[0], 4);
    ck_assert_double_eq(weights[2], 0);
    ck_assert_int_eq(counts[2], 1);
    ref_data_free(&data);
}
END_TEST

// The least cost over all ways to label n <= 10 points: what no start of Lloyd's algorithm may beat, and the best
// of many must reach.
static double optimum(const ref_data *data, int64_t k) {
    double best = INFINITY;
    int64_t ways = 1;
    for (int64_t i = 0; i < data->n; i++) ways *= k;
    int32_t labels[10] = {0};
    double centroids[16] = {0};
    ck_assert(data->n <= 10 && k * data->d <= 16);
    for (int64_t way = 0; way < ways; way++) {
        for (int64_t i = 0, rest = way; i < data->n; i++, rest /= k) labels[i] = (int32_t)(rest % k);
        ref_update(centroids, NULL, NULL, data, labels, k);
        best = fmin(best, ref_inertia(data, centroids, labels));
    }
    return best;
}

START_TEST(best_of_many_starts_is_the_optimum) {
    int64_t k = _i;
    ref_data data = ref_blobs(9, 2, 3, 4.0, 11, KM_FLOAT64);
    ref_weigh(&data, 5);
    double least = INFINITY, proven = optimum(&data, k);
    for (int64_t restart = 0; restart < 50; restart++) {
        int64_t picks[3];
        double init[6];
        ref_seed(picks, &data, 1, restart, k);
        ref_rows(init, &data, picks, k);
        ref_model model = ref_fit(&data, init, k, 0, 300);
        ck_assert(model.converged);
        ck_assert_double_ge(model.inertia, proven * (1 - 1e-12));
        least = fmin(least, model.inertia);
        ref_model_free(&model);
    }
    REF_NEAR(least, proven, 1e-12 * proven);
    ref_data_free(&data);
}
END_TEST

START_TEST(cost_never_rises) {
    ref_data data = ref_uniform(500, 3, 3, KM_FLOAT64);
    double before = INFINITY;
    for (int64_t iterations = 0; iterations < 30; iterations++) {
        ref_model model = ref_fit(&data, data.x, 7, 0, iterations);
        ck_assert_double_le(model.inertia, before * (1 + 1e-14));
        ck_assert_int_le(model.n_iter, iterations);
        before = model.inertia;
        ref_model_free(&model);
    }
    ref_data_free(&data);
}
END_TEST

START_TEST(candidates_grow_with_the_logarithm) {
    ck_assert_int_eq(km_candidates(0), 1);
    for (int64_t pick = 1; pick < KM_CLUSTERS_MAX; pick++)
        ck_assert_int_eq(km_candidates(pick), fmax(4, 2 + floor(log((double)pick + 1))));
}
END_TEST

// A chain does not know of which K its picks will be the seeding. Up to K = 20 each pick has as many candidates as
// where all picks of K have 2 + ln(K).
START_TEST(small_clusters_have_the_usual_candidates) {
    for (int64_t k = 2; k <= 20; k++)
        for (int64_t pick = 1; pick < k; pick++)
            ck_assert_int_ge(km_candidates(pick), 2 + (int)floor(log((double)k)));
}
END_TEST

START_TEST(seeding_picks_distinct_points_that_weigh) {
    ref_data data = ref_grid(200, 2, 6, 4, KM_FLOAT64);
    ref_weigh(&data, 9);
    int64_t picks[40];
    for (int64_t restart = 0; restart < 20; restart++) {
        ref_seed(picks, &data, 7, restart, 20);
        for (int p = 0; p < 20; p++) {
            ck_assert_double_gt(ref_weight(&data, picks[p]), 0);
            for (int q = 0; q < p; q++)
                ck_assert_double_gt(ref_distance2(data.x + picks[p] * 2, data.x + picks[q] * 2, 2), 0);
        }
    }
    ref_data_free(&data);
}
END_TEST

START_TEST(short_chains_begin_long_ones) {
    ref_data data = ref_blobs(300, 4, 5, 1.0, 2, KM_FLOAT64);
    int64_t whole[20], part[20];
    ref_seed(whole, &data, 3, 1, 20);
    ref_seed(part, &data, 3, 1, 6);
    for (int p = 0; p < 6; p++) ck_assert_int_eq(part[p], whole[p]);
    ref_data_free(&data);
}
END_TEST

START_TEST(seeding_goes_on_without_distinct_points) {
    const double x[] = {5, 5, 5, 8};
    ref_data data = ref_data_of(x, NULL, 4, 1, KM_FLOAT64);
    int64_t picks[10];
    ref_seed(picks, &data, 0, 0, 10);
    ck_assert_double_ne(x[picks[0]], x[picks[1]]);
    for (int p = 0; p < 10; p++) ck_assert(picks[p] >= 0 && picks[p] < 4);
    ref_data_free(&data);
}
END_TEST

// The first pick is drawn by weight, the next by weight times squared distance: counted over many chains.
START_TEST(seeding_draws_by_weight) {
    const double x[] = {0, 1, 2, 4}, w[] = {1, 2, 4, 1};
    ref_data data = ref_data_of(x, w, 4, 1, KM_FLOAT64);
    int64_t hits[4] = {0}, chains = 20000, pick;
    for (int64_t restart = 0; restart < chains; restart++) {
        ref_seed(&pick, &data, 12, restart, 1);
        hits[pick]++;
    }
    for (int i = 0; i < 4; i++) { // five standard deviations
        double expected = w[i] / 8, deviation = sqrt(expected * (1 - expected) / (double)chains);
        REF_NEAR((double)hits[i] / (double)chains, expected, 5 * deviation);
    }
    ref_data_free(&data);
}
END_TEST

START_TEST(label_contract) {
    const km_type type = _i ? KM_FLOAT32 : KM_FLOAT64;
    const double near = _i ? 0x1p-23 : 0x1p-50, far = _i ? 0x1p-18 : 0x1p-46;
    const double centroids[] = {-1, 1};
    int64_t first;
    const double x[] = {-1, 1, -near, -far};
    ref_data data = ref_data_of(x, NULL, 4, 1, type);
    const int32_t right[] = {0, 1, 0, 0}, near_tie[] = {0, 1, 1, 0}, wrong[] = {0, 1, 1, 1},
                  outside[] = {0, 2, 0, -1};
    ck_assert_int_eq(ref_labels_wrong(&first, &data, centroids, 2, right), 0);
    ck_assert_int_eq(first, -1);
    ck_assert_int_eq(ref_labels_wrong(NULL, &data, centroids, 2, near_tie), 0);
    ck_assert_int_eq(ref_labels_wrong(&first, &data, centroids, 2, wrong), 1);
    ck_assert_int_eq(first, 3);
    ck_assert_int_eq(ref_labels_wrong(&first, &data, centroids, 2, outside), 2);
    ck_assert_int_eq(first, 1);
    ref_data_free(&data);
}
END_TEST

START_TEST(generators_repeat_and_round) {
    ref_data a = ref_blobs(1000, 3, 4, .5, 1, KM_FLOAT32), b = ref_blobs(1000, 3, 4, .5, 1, KM_FLOAT32);
    ref_shift(&a, 1000);
    ref_shift(&b, 1000);
    double mean[3];
    for (int i = 0; i < 3000; i++) {
        ck_assert_double_eq(a.x[i], b.x[i]);
        ck_assert_double_eq(a.x[i], (double)(float)a.x[i]);
    }
    ck_assert_double_lt(ref_mean_variance(mean, &a), 100);
    for (int f = 0; f < 3; f++) REF_NEAR(mean[f], 1000, 10);
    ref_data_free(&a);
    ref_data_free(&b);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("reference");
    TCase *hand = tcase_create("hand values"), *properties = tcase_create("properties");
    tcase_add_test(hand, hand_weighted);
    tcase_add_test(hand, hand_empty_cluster);
    tcase_add_test(hand, hand_uneven_weights);
    tcase_add_test(hand, hand_too_few_distinct);
    tcase_add_test(hand, ties_go_to_the_lowest_index);
    tcase_add_test(hand, relocation_takes_farthest_points);
    tcase_add_test(hand, relocation_may_empty_a_cluster);
    tcase_add_test(hand, update_keeps_empty_clusters);
    tcase_add_loop_test(properties, best_of_many_starts_is_the_optimum, 1, 4);
    tcase_add_test(properties, cost_never_rises);
    tcase_add_test(properties, candidates_grow_with_the_logarithm);
    tcase_add_test(properties, small_clusters_have_the_usual_candidates);
    tcase_add_test(properties, seeding_picks_distinct_points_that_weigh);
    tcase_add_test(properties, short_chains_begin_long_ones);
    tcase_add_test(properties, seeding_goes_on_without_distinct_points);
    tcase_add_test(properties, seeding_draws_by_weight);
    tcase_add_loop_test(properties, label_contract, 0, 2);
    tcase_add_test(properties, generators_repeat_and_round);
    suite_add_tcase(suite, hand);
    suite_add_tcase(suite, properties);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

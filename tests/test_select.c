// SPDX-License-Identifier: MIT
// Criteria against hand values and against scikit-learn 1.9 (Calinski-Harabasz, Davies-Bouldin) and numpy
// (the others) on iris; the rules of selection.
#include <kmgen/select.h>

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { K_MAX = 8, D_MAX = 4 };

// A model and the memory behind its score input.
typedef struct scored {
    km_score_input in;
    double centroids[K_MAX * D_MAX], weights[K_MAX], sse[K_MAX], distance[K_MAX], margin[K_MAX];
    int64_t counts[K_MAX];
} scored;

static double square_distance(const double *a, const double *b, int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) sum += (a[f] - b[f]) * (a[f] - b[f]);
    return sum;
}

static void add_point(scored *s, const double *x, double w, const int32_t *label) {
    double first = INFINITY, second = INFINITY;
    int64_t nearest = 0;
    for (int64_t j = 0; j < s->in.k; j++) {
        double square = square_distance(x, s->centroids + j * s->in.d, s->in.d);
        if (square < first) {
            second = first;
            first = square;
            nearest = j;
        } else if (square < second) {
            second = square;
        }
    }
    int64_t own = label ? *label : nearest;
    double square = square_distance(x, s->centroids + own * s->in.d, s->in.d);
    s->counts[own]++;
    s->weights[own] += w;
    s->sse[own] += w * square;
    s->distance[own] += w * sqrt(square);
    if (s->in.k > 1 && second > 0) s->margin[own] += w * (sqrt(second) - sqrt(first)) / sqrt(second);
}

// What a finishing pass would report of these points and centroids. `labels` NULL: the nearest centroid.
static void score_points(scored *s, const double *points, const double *w, const int32_t *labels, int64_t n,
                         int64_t d, const double *centroids, int64_t k) {
    memset(s, 0, sizeof *s);
    memcpy(s->centroids, centroids, (size_t)(k * d) * sizeof(double));
    s->in = (km_score_input){.type = KM_FLOAT64,
                             .k = k,
                             .d = d,
                             .centroids = s->centroids,
                             .weights = s->weights,
                             .counts = s->counts,
                             .sse = s->sse,
                             .distance = s->distance,
                             .margin = s->margin};
    double mean[D_MAX] = {0};
    for (int64_t i = 0; i < n; i++) {
        double weight = w ? w[i] : 1;
        add_point(s, points + i * d, weight, labels ? &labels[i] : NULL);
        s->in.total_weight += weight;
        for (int64_t f = 0; f < d; f++) mean[f] += weight * points[i * d + f];
    }
    for (int64_t f = 0; f < d; f++) mean[f] /= s->in.total_weight;
    for (int64_t i = 0; i < n; i++) {
        double square = square_distance(points + i * d, mean, d), weight = w ? w[i] : 1;
        s->in.total_sse += weight * square;
        s->in.total_distance += weight * sqrt(square);
    }
}

static double score_of(const double *scores, int64_t m, km_criterion criterion) {
    return scores[m * KM_CRITERION_COUNT + criterion];
}

static void assert_relative(double got, double expected, double tolerance) {
    ck_assert_msg(fabs(got - expected) <= tolerance * fabs(expected), "got %.17g, expected %.17g", got,
                  expected);
}

// Four groups of ten points around (.5,.5), (3.5,3.5), (.5,3.5), (3.5,.5).
static void four_groups(double *points, int32_t *labels) {
    static const double pair[4][4] = {{0, 0, 1, 1}, {3, 3, 4, 4}, {0, 4, 1, 3}, {3, 1, 4, 0}};
    for (int i = 0; i < 40; i++) {
        memcpy(points + i * 2, pair[i / 10] + i % 2 * 2, 2 * sizeof(double));
        labels[i] = i / 10;
    }
}

START_TEST(hand_values) {
    double points[80], scores[KM_CRITERION_COUNT];
    int32_t labels[40];
    four_groups(points, labels);
    static const double centroids[8] = {.5, .5, 3.5, 3.5, .5, 3.5, 3.5, .5};
    scored s;
    score_points(&s, points, NULL, labels, 40, 2, centroids, 4);
    ck_assert_int_eq(km_score_models(scores, &s.in, 1, NULL), KM_OK);
    assert_relative(score_of(scores, 0, KM_CRITERION_calinski_harabasz), 108, 1e-14);
    assert_relative(score_of(scores, 0, KM_CRITERION_davies_bouldin), 2 * sqrt(.5) / 3, 1e-14);
    // W = 40 x .5, N = 40, nearest centroids 3 apart, farthest 3 sqrt 2, B = 40 x 4.5.
    assert_relative(score_of(scores, 0, KM_CRITERION_xie_beni), .5 / 9, 1e-14);
    assert_relative(score_of(scores, 0, KM_CRITERION_wb), 4 * 20. / 180, 1e-14);
    ck_assert(isnan(score_of(scores, 0, KM_CRITERION_hartigan)));
    ck_assert(isnan(score_of(scores, 0, KM_CRITERION_krzanowski_lai)));
}
END_TEST

// Points 0, 0, 3 and 10 on a line with centroids 1 and 10: by hand.
START_TEST(simplified_silhouette_by_hand) {
    static const double points[4] = {0, 0, 3, 10}, centroids[2] = {1, 10};
    double scores[KM_CRITERION_COUNT];
    scored s;
    score_points(&s, points, NULL, NULL, 4, 1, centroids, 2);
    ck_assert_int_eq(km_score_models(scores, &s.in, 1, NULL), KM_OK);
    double expected = (2 * .9 + (7. - 2) / 7) / 4; // the singleton counts 0, though its margin is 1
    assert_relative(score_of(scores, 0, KM_CRITERION_simplified_silhouette), expected, 1e-15);
    // E1 = 2 x 3.25 + .25 + 6.75, EK = 4, Dmax = 9.
    assert_relative(score_of(scores, 0, KM_CRITERION_pbm), pow(13.5 / 4 / 2 * 9, 2), 1e-14);
}
END_TEST

// Iris ------------------------------------------------------------------------------------------------------

enum { IRIS_N = 150, IRIS_MODELS = 5 };

static void iris_read(double *points) {
    FILE *file = fopen(KM_TEST_DATA "/iris.csv", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*[^\n]"), 0);
    for (int i = 0; i < IRIS_N; i++) {
        double *x = points + i * 4;
        ck_assert_int_eq(fscanf(file, " %lf,%lf,%lf,%lf", &x[0], &x[1], &x[2], &x[3]), 4);
    }
    fclose(file);
}

// Near the optimal centroids of K = 2..6; Lloyd's iterations from here end in the optimum.
static const double iris_starts[20][4] = {
    {5.01, 3.37, 1.56, .291}, {6.3, 2.89, 4.96, 1.7},   {5.01, 3.43, 1.46, .246}, {5.9, 2.75, 4.39, 1.43},
    {6.85, 3.07, 5.74, 2.07}, {5.01, 3.43, 1.46, .246}, {5.53, 2.64, 3.96, 1.23}, {6.25, 2.85, 4.81, 1.62},
    {6.91, 3.1, 5.85, 2.13},  {5.01, 3.43, 1.46, .246}, {5.51, 2.6, 3.91, 1.2},   {6.21, 2.85, 4.75, 1.56},
    {6.53, 3.06, 5.51, 2.16}, {7.48, 3.12, 6.3, 2.05},  {4.7, 3.12, 1.41, .2},    {5.24, 3.67, 1.5, .282},
    {5.51, 2.6, 3.91, 1.2},   {6.21, 2.85, 4.75, 1.56}, {6.53, 3.06, 5.51, 2.16}, {7.48, 3.12, 6.3, 2.05},
};

static const double iris_inertia[IRIS_MODELS] = {152.347951760358, 78.851441426146, 57.2284732142857,
                                                 46.4461820512821, 39.0399872460873};

// In the order of KM_CRITERIA.
static const double iris_scores[IRIS_MODELS][KM_CRITERION_COUNT] = {
    {513.924545980277, .404292837173043, .769703832717339, -562.637282020776, -547.584105550295,
     .575960035992054, .0658002343341144, 19.9233337416669, 137.016988196067, NAN},
    {561.62775662962, .661971546500747, .666385556471118, -442.078016315339, -419.498251609617,
     .392608800753084, .162755005663656, 25.1753952807964, 55.1640325456655, 3.56626754785026},
    {530.765808187285, .780306983881111, .620738040376526, -400.848335919033, -370.741982978071,
     .366765650054792, .26240272616894, 20.1662766745176, 33.6611568397445, 2.08655597420673},
    {495.541487677688, .805965212018274, .614375927503664, -373.127082456165, -335.494141279962,
     .365761504348329, .285605291527291, 19.1183265281016, 27.317940582958, 1.28817835874921},
    {473.850606833043, .914157972653803, .519650828256132, -367.913943891512, -322.754414480068,
     .364671897657577, .432946252448409, 16.8306729883705, NAN, NAN},
};

// Means of the points nearest to each centroid, until they stay.
static void lloyd(double *centroids, const double *points, int64_t n, int64_t d, int64_t k) {
    for (int iteration = 0; iteration < 50; iteration++) {
        double sums[K_MAX * D_MAX] = {0}, counts[K_MAX] = {0};
        for (int64_t i = 0; i < n; i++) {
            int64_t best = 0;
            for (int64_t j = 1; j < k; j++) {
                if (square_distance(points + i * d, centroids + j * d, d) <
                    square_distance(points + i * d, centroids + best * d, d))
                    best = j;
            }
            counts[best]++;
            for (int64_t f = 0; f < d; f++) sums[best * d + f] += points[i * d + f];
        }
        for (int64_t j = 0; j < k; j++) {
            for (int64_t f = 0; f < d && counts[j] > 0; f++)
                centroids[j * d + f] = sums[j * d + f] / counts[j];
        }
    }
}

// Models of K = 2..6, and with `extra` empty clusters behind the real ones.
static void iris_models(scored *models, km_score_input *inputs, const double *weights, int64_t extra) {
    double points[IRIS_N * 4];
    iris_read(points);
    int64_t row = 0;
    for (int64_t m = 0; m < IRIS_MODELS; m++) {
        double centroids[K_MAX * 4];
        int64_t k = m + 2;
        memcpy(centroids, iris_starts[row], (size_t)k * 4 * sizeof(double));
        row += k;
        lloyd(centroids, points, IRIS_N, 4, k);
        for (int64_t f = 0; f < extra * 4; f++) centroids[k * 4 + f] = 1e6 + (double)f;
        score_points(&models[m], points, weights, NULL, IRIS_N, 4, centroids, k + extra);
        inputs[m] = models[m].in;
    }
}

START_TEST(iris_against_scikit_learn) {
    static scored models[IRIS_MODELS];
    km_score_input inputs[IRIS_MODELS];
    double scores[IRIS_MODELS * KM_CRITERION_COUNT];
    iris_models(models, inputs, NULL, _i); // _i empty clusters change nothing
    for (int m = 0; m < IRIS_MODELS; m++) {
        double inertia = 0;
        for (int64_t j = 0; j < inputs[m].k; j++) inertia += models[m].sse[j];
        assert_relative(inertia, iris_inertia[m], 1e-13);
    }
    ck_assert_int_eq(km_score_models(scores, inputs, IRIS_MODELS, NULL), KM_OK);
    for (int m = 0; m < IRIS_MODELS; m++) {
        for (int c = 0; c < KM_CRITERION_COUNT; c++) {
            if (isnan(iris_scores[m][c]) || c >= KM_CRITERION_valley)
                ck_assert(isnan(score_of(scores, m, (km_criterion)c)));
            else
                assert_relative(score_of(scores, m, (km_criterion)c), iris_scores[m][c], 1e-11);
        }
    }
}
END_TEST

// Scores that were measured apart are taken as they are, vote and decide.
START_TEST(given_scores) {
    static scored models[IRIS_MODELS];
    km_score_input inputs[IRIS_MODELS];
    double scores[IRIS_MODELS * KM_CRITERION_COUNT], given[IRIS_MODELS][KM_CRITERION_COUNT];
    iris_models(models, inputs, NULL, 0);
    for (int m = 0; m < IRIS_MODELS; m++) {
        for (int c = 0; c < KM_CRITERION_COUNT; c++) given[m][c] = c == KM_CRITERION_wb ? 7 : NAN;
        given[m][KM_CRITERION_silhouette] = m == 1 ? .5 : m == 4 ? INFINITY : .25;
        inputs[m].given = given[m];
    }
    ck_assert_int_eq(km_score_models(scores, inputs, IRIS_MODELS, NULL), KM_OK);
    for (int m = 0; m < IRIS_MODELS; m++) {
        double score = score_of(scores, m, KM_CRITERION_silhouette);
        ck_assert_msg(m == 4 ? isnan(score) : score == given[m][KM_CRITERION_silhouette], "%g", score);
        assert_relative(score_of(scores, m, KM_CRITERION_wb), iris_scores[m][KM_CRITERION_wb], 1e-11);
    }
    km_selection selection;
    ck_assert_int_eq(km_select(&selection, inputs, scores, IRIS_MODELS, KM_CRITERION_silhouette, NULL),
                     KM_OK);
    ck_assert_int_eq(selection.best, 1);
    ck_assert_int_eq(selection.votes[KM_CRITERION_silhouette], 3);
    ck_assert_str_eq(selection.reason, "silhouette is highest at K = 3: 0.5, and next at K = 2: 0.25");
    ck_assert_int_eq(km_criterion_needs(KM_CRITERION_silhouette), KM_NEEDS_PASS);
}
END_TEST

START_TEST(iris_selection) {
    static scored models[IRIS_MODELS];
    km_score_input inputs[IRIS_MODELS];
    double scores[IRIS_MODELS * KM_CRITERION_COUNT];
    iris_models(models, inputs, NULL, 0);
    ck_assert_int_eq(km_score_models(scores, inputs, IRIS_MODELS, NULL), KM_OK);
    km_selection selection;
    ck_assert_int_eq(km_select(&selection, inputs, scores, IRIS_MODELS, KM_CRITERION_calinski_harabasz, NULL),
                     KM_OK);
    ck_assert_int_eq(selection.best, 1);
    ck_assert_int_eq(selection.criterion, KM_CRITERION_calinski_harabasz);
    ck_assert_str_eq(selection.reason,
                     "Calinski-Harabasz is highest at K = 3: 561.628, and next at K = 4: 530.766");
    static const int64_t votes[KM_CRITERION_valley] = {3, 2, 2, 6, 6, 6, 2, 3, -1, 3};
    for (int c = 0; c < KM_CRITERION_COUNT; c++) // what was not measured has no vote
        ck_assert_int_eq(selection.votes[c], c < KM_CRITERION_valley ? votes[c] : -1);
    ck_assert_int_eq(selection.clustered, 1);
    ck_assert_int_eq(km_select(&selection, inputs, scores, IRIS_MODELS, KM_CRITERION_davies_bouldin, NULL),
                     KM_OK);
    ck_assert_int_eq(selection.best, 0);
    ck_assert_str_eq(selection.reason,
                     "Davies-Bouldin is lowest at K = 2: 0.404293, and next at K = 3: 0.661972");
    // Hartigan never falls to 10 here, so the next in line decides and says so.
    ck_assert_int_eq(km_select(&selection, inputs, scores, IRIS_MODELS, KM_CRITERION_hartigan, NULL), KM_OK);
    ck_assert_int_eq(selection.best, 1);
    ck_assert_int_eq(selection.criterion, KM_CRITERION_calinski_harabasz);
    ck_assert_ptr_nonnull(strstr(selection.reason, "Hartigan prefers no K"));
}
END_TEST

// Every point twice or a weight of 2: the same input but for the counts, which only tell singletons apart.
START_TEST(weights_are_copies) {
    static scored once[IRIS_MODELS];
    km_score_input inputs[IRIS_MODELS];
    double scores[IRIS_MODELS * KM_CRITERION_COUNT], twos[IRIS_N];
    for (int i = 0; i < IRIS_N; i++) twos[i] = 2;
    iris_models(once, inputs, twos, 0);
    ck_assert_int_eq(km_score_models(scores, inputs, IRIS_MODELS, NULL), KM_OK);
    double n = 300, k = 3;
    assert_relative(score_of(scores, 1, KM_CRITERION_calinski_harabasz), iris_scores[1][0] / 147 * (n - k),
                    1e-11);
    for (int c = KM_CRITERION_davies_bouldin; c <= KM_CRITERION_simplified_silhouette; c++)
        assert_relative(score_of(scores, 1, (km_criterion)c), iris_scores[1][c], 1e-11);
    assert_relative(score_of(scores, 1, KM_CRITERION_xie_beni), iris_scores[1][KM_CRITERION_xie_beni], 1e-11);
    assert_relative(score_of(scores, 1, KM_CRITERION_pbm), iris_scores[1][KM_CRITERION_pbm], 1e-11);
}
END_TEST

// Rules -----------------------------------------------------------------------------------------------------

// Three different points, 50 times each, at offsets that doubles do not hold exactly.
static void three_times_fifty(double *points, double step) {
    for (int i = 0; i < 150; i++) points[i] = .1 + step * (i % 3);
}

// A point far out sets no threshold for the others: their inertia is not rounding.
START_TEST(far_point_is_no_zero_inertia) {
    double points[101], scores[2 * KM_CRITERION_COUNT];
    for (int i = 0; i < 100; i++) points[i] = -1 + .02 * i;
    points[100] = 1e12;
    static scored models[2];
    static const double two[2] = {-.01, 1e12}, three[3] = {-.51, .49, 1e12};
    score_points(&models[0], points, NULL, NULL, 101, 1, two, 2);
    score_points(&models[1], points, NULL, NULL, 101, 1, three, 3);
    km_score_input inputs[2] = {models[0].in, models[1].in};
    for (int t = 0; t < 2; t++) {
        inputs[0].type = inputs[1].type = t ? KM_FLOAT32 : KM_FLOAT64;
        km_selection selection;
        ck_assert_int_eq(km_score_models(scores, inputs, 2, NULL), KM_OK);
        ck_assert(score_of(scores, 0, KM_CRITERION_calinski_harabasz) > 1e20);
        ck_assert_int_eq(km_select(&selection, inputs, scores, 2, KM_CRITERION_calinski_harabasz, NULL),
                         KM_OK);
        ck_assert_int_eq(selection.best, 1); // evenly spread points: two halves have a quarter of the inertia
        ck_assert_ptr_null(strstr(selection.reason, "inertia 0"));
    }
}
END_TEST

// Different values are no rounding, however few of the type's last bits they differ in.
START_TEST(close_points_are_no_zero_inertia) {
    double points[100], scores[2 * KM_CRITERION_COUNT];
    static scored models[2];
    for (int t = 0; t < 2; t++) {
        double bit = t ? 0x1p-24 : 0x1p-52;
        for (int i = 0; i < 100; i++) points[i] = i < 50 ? -1 : 1 + bit * 4 * (i - 75);
        double two[2] = {-1, 1 - bit * 2}, three[3] = {-1, 1 - bit * 52, 1 + bit * 48};
        score_points(&models[0], points, NULL, NULL, 100, 1, two, 2);
        score_points(&models[1], points, NULL, NULL, 100, 1, three, 3);
        km_score_input inputs[2] = {models[0].in, models[1].in};
        inputs[0].type = inputs[1].type = t ? KM_FLOAT32 : KM_FLOAT64;
        km_selection selection;
        ck_assert_int_eq(km_score_models(scores, inputs, 2, NULL), KM_OK);
        ck_assert_int_eq(km_select(&selection, inputs, scores, 2, KM_CRITERION_calinski_harabasz, NULL),
                         KM_OK);
        ck_assert_ptr_null(strstr(selection.reason, "inertia 0"));
        ck_assert(score_of(scores, 0, KM_CRITERION_calinski_harabasz) > 1e9);
    }
}
END_TEST

// But where points are known to differ by rounding: then a mean may be off by more than they are.
START_TEST(known_rounding) {
    double points[100], scores[KM_CRITERION_COUNT];
    static scored model;
    const double bit = 0x1p-52, two[2] = {-1, 1 - bit * 8};
    for (int i = 0; i < 100; i++) points[i] = i < 50 ? -1 : 1 + bit * (i % 4);
    score_points(&model, points, NULL, NULL, 100, 1, two, 2);
    for (int is_known = 0; is_known < 2; is_known++) {
        km_score_input input = model.in;
        input.type = KM_FLOAT64;
        input.rounding = is_known ? bit * 4 : 0;
        ck_assert_int_eq(km_score_models(scores, &input, 1, NULL), KM_OK);
        ck_assert_int_eq(score_of(scores, 0, KM_CRITERION_wb) == 0, is_known);
    }
}
END_TEST

START_TEST(inertia_zero_wins) {
    double points[150], scores[3 * KM_CRITERION_COUNT];
    three_times_fifty(points, 1);
    static scored models[3];
    km_score_input inputs[3];
    static const double two[2] = {.6, 2.1}, three[3] = {.1, 1.1 + 1e-15, 2.1}, four[4] = {.1, 1.1, 2.1, 9};
    score_points(&models[0], points, NULL, NULL, 150, 1, two, 2);
    score_points(&models[1], points, NULL, NULL, 150, 1, three, 3);
    score_points(&models[2], points, NULL, NULL, 150, 1, four, 4);
    for (int m = 0; m < 3; m++) inputs[m] = models[m].in;
    ck_assert_int_eq(km_score_models(scores, inputs, 3, NULL), KM_OK);
    // T = 100, W(2) = 25: (75 / 1) / (25 / 148).
    assert_relative(score_of(scores, 0, KM_CRITERION_calinski_harabasz), 444, 1e-12);
    ck_assert_double_eq(score_of(scores, 1, KM_CRITERION_calinski_harabasz), 1);
    ck_assert_double_eq(score_of(scores, 2, KM_CRITERION_calinski_harabasz), 1); // 3 of its 4 clusters
    ck_assert(isnan(score_of(scores, 1, KM_CRITERION_bic)));
    ck_assert(isnan(score_of(scores, 1, KM_CRITERION_pbm)));
    km_selection selection;
    ck_assert_int_eq(km_select(&selection, inputs, scores, 3, KM_CRITERION_calinski_harabasz, NULL), KM_OK);
    ck_assert_int_eq(selection.best, 1);
    ck_assert_int_eq(selection.votes[KM_CRITERION_calinski_harabasz], 2);
    ck_assert_ptr_nonnull(strstr(selection.reason, "K = 3 is the smallest with inertia 0"));
}
END_TEST

// Centroids that are a float32 rounding off: inertia 0 for kernels of float32, not for those of float64.
START_TEST(rounding_of_the_type) {
    double points[150], scores[2 * KM_CRITERION_COUNT];
    three_times_fifty(points, 1);
    static scored models[2];
    static const double three[3] = {.1 + 1e-7, 1.1, 2.1}, four[4] = {.1, 1.1, 2.1, 9};
    score_points(&models[0], points, NULL, NULL, 150, 1, three, 3);
    score_points(&models[1], points, NULL, NULL, 150, 1, four, 4);
    km_score_input inputs[2] = {models[0].in, models[1].in};
    inputs[0].type = inputs[1].type = _i ? KM_FLOAT64 : KM_FLOAT32;
    ck_assert_int_eq(km_score_models(scores, inputs, 2, NULL), KM_OK);
    km_selection selection;
    ck_assert_int_eq(km_select(&selection, inputs, scores, 2, KM_CRITERION_calinski_harabasz, NULL), KM_OK);
    ck_assert_int_eq(selection.best, _i);
}
END_TEST

START_TEST(all_points_equal) {
    double points[30], scores[2 * KM_CRITERION_COUNT];
    for (int i = 0; i < 30; i++) points[i] = .1;
    scored models[2];
    static const double centroids[2] = {.1, .1};
    score_points(&models[0], points, NULL, NULL, 30, 1, centroids, 1);
    score_points(&models[1], points, NULL, NULL, 30, 1, centroids, 2);
    km_score_input inputs[2] = {models[0].in, models[1].in};
    ck_assert_int_eq(km_score_models(scores, inputs, 2, NULL), KM_OK);
    for (int i = 0; i < 2 * KM_CRITERION_COUNT; i++) ck_assert(isnan(scores[i]));
    km_selection selection;
    ck_assert_int_eq(km_select(&selection, inputs, scores, 2, KM_CRITERION_calinski_harabasz, NULL), KM_OK);
    ck_assert_int_eq(selection.best, 0);
    ck_assert_ptr_nonnull(strstr(selection.reason, "inertia 0"));
}
END_TEST

// n = 3 with K = 1, 2, 3: only K = 2 has scores.
START_TEST(one_and_n_have_no_scores) {
    static const double points[3] = {0, 1, 10}, mean[1] = {11. / 3}, two[2] = {.5, 10};
    double scores[3 * KM_CRITERION_COUNT];
    scored models[3];
    score_points(&models[0], points, NULL, NULL, 3, 1, mean, 1);
    score_points(&models[1], points, NULL, NULL, 3, 1, two, 2);
    score_points(&models[2], points, NULL, NULL, 3, 1, points, 3);
    km_score_input inputs[3] = {models[0].in, models[1].in, models[2].in};
    ck_assert_int_eq(km_score_models(scores, inputs, 3, NULL), KM_OK);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        ck_assert(isnan(score_of(scores, 0, (km_criterion)c)));
        ck_assert(isnan(score_of(scores, 2, (km_criterion)c)));
    }
    ck_assert(!isnan(score_of(scores, 1, KM_CRITERION_calinski_harabasz)));
    km_selection selection;
    ck_assert_int_eq(km_select(&selection, inputs, scores, 3, KM_CRITERION_calinski_harabasz, NULL), KM_OK);
    ck_assert_int_eq(selection.best, 1);
    ck_assert_ptr_nonnull(strstr(selection.reason, "defined at K = 2 only"));
    // Alone, K = n is kept.
    ck_assert_int_eq(km_select(&selection, &inputs[2], scores + 2 * KM_CRITERION_COUNT, 1,
                               KM_CRITERION_calinski_harabasz, NULL),
                     KM_OK);
    ck_assert_int_eq(selection.best, 0);
    ck_assert_ptr_nonnull(strstr(selection.reason, "the only one"));
    ck_assert_int_eq(selection.votes[KM_CRITERION_calinski_harabasz], -1);
}
END_TEST

START_TEST(nothing_defined_keeps_the_smallest) {
    static const double points[2] = {0, 1}, mean[1] = {.5};
    double scores[2 * KM_CRITERION_COUNT];
    scored models[2];
    score_points(&models[0], points, NULL, NULL, 2, 1, mean, 1);
    score_points(&models[1], points, NULL, NULL, 2, 1, points, 2);
    km_score_input inputs[2] = {models[0].in, models[1].in};
    ck_assert_int_eq(km_score_models(scores, inputs, 2, NULL), KM_OK);
    km_selection selection;
    ck_assert_int_eq(km_select(&selection, inputs, scores, 2, KM_CRITERION_bic, NULL), KM_OK);
    ck_assert_int_eq(selection.best, 0);
    ck_assert_ptr_nonnull(strstr(selection.reason, "no criterion is defined"));
}
END_TEST

// Weights that sum to 1 leave N - K negative: those criteria are undefined, and the silhouette decides.
START_TEST(small_weights_fall_back) {
    double points[80], weights[40], scores[2 * KM_CRITERION_COUNT];
    int32_t labels[40];
    four_groups(points, labels);
    for (int i = 0; i < 40; i++) weights[i] = 1. / 40;
    static const double four[8] = {.5, .5, 3.5, 3.5, .5, 3.5, 3.5, .5}, two[4] = {2, .5, 2, 3.5};
    scored models[2];
    score_points(&models[0], points, weights, NULL, 40, 2, two, 2);
    score_points(&models[1], points, weights, NULL, 40, 2, four, 4);
    km_score_input inputs[2] = {models[0].in, models[1].in};
    ck_assert_int_eq(km_score_models(scores, inputs, 2, NULL), KM_OK);
    ck_assert(isnan(score_of(scores, 1, KM_CRITERION_calinski_harabasz)));
    assert_relative(score_of(scores, 1, KM_CRITERION_davies_bouldin), 2 * sqrt(.5) / 3, 1e-14);
    km_selection selection;
    ck_assert_int_eq(km_select(&selection, inputs, scores, 2, KM_CRITERION_calinski_harabasz, NULL), KM_OK);
    ck_assert_int_eq(selection.criterion, KM_CRITERION_simplified_silhouette);
    ck_assert_int_eq(selection.best, 1);
}
END_TEST

START_TEST(votes) {
    double scores[4 * KM_CRITERION_COUNT];
    for (int i = 0; i < 4 * KM_CRITERION_COUNT; i++) scores[i] = NAN;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        ck_assert_int_eq(km_select_vote((km_criterion)c, scores, 4), -1);
    static const double hartigan[4] = {40, 10, 3, NAN}, tie[4] = {NAN, 5, 7, 7};
    for (int m = 0; m < 4; m++) {
        scores[m * KM_CRITERION_COUNT + KM_CRITERION_hartigan] = hartigan[m];
        scores[m * KM_CRITERION_COUNT + KM_CRITERION_bic] = tie[m];
        scores[m * KM_CRITERION_COUNT + KM_CRITERION_wb] = -tie[m];
    }
    ck_assert_int_eq(km_select_vote(KM_CRITERION_hartigan, scores, 4), 1); // 10 is not above 10
    ck_assert_int_eq(km_select_vote(KM_CRITERION_bic, scores, 4), 2);
    ck_assert_int_eq(km_select_vote(KM_CRITERION_wb, scores, 4), 2);
    ck_assert_int_eq(km_select_vote(KM_CRITERION_COUNT, scores, 4), -1);
}
END_TEST

// Lists with gaps: Hartigan needs K + 1, Krzanowski-Lai both neighbours.
START_TEST(gaps_in_the_list) {
    static scored models[IRIS_MODELS];
    km_score_input inputs[IRIS_MODELS];
    double scores[IRIS_MODELS * KM_CRITERION_COUNT];
    iris_models(models, inputs, NULL, 0);
    km_score_input gapped[4] = {inputs[0], inputs[1], inputs[3], inputs[4]}; // K = 2, 3, 5, 6
    ck_assert_int_eq(km_score_models(scores, gapped, 4, NULL), KM_OK);
    assert_relative(score_of(scores, 0, KM_CRITERION_hartigan), iris_scores[0][KM_CRITERION_hartigan], 1e-11);
    ck_assert(isnan(score_of(scores, 1, KM_CRITERION_hartigan)));
    assert_relative(score_of(scores, 2, KM_CRITERION_hartigan), iris_scores[3][KM_CRITERION_hartigan], 1e-11);
    for (int m = 0; m < 4; m++) ck_assert(isnan(score_of(scores, m, KM_CRITERION_krzanowski_lai)));
}
END_TEST

// The default rule --------------------------------------------------------------------------------------------

// The first `count` K of iris with these valleys, the same for every pair of a K; the first `d` features alone.
static km_selection select_of(int64_t d, int count, const double *valleys, km_criterion criterion) {
    static scored models[IRIS_MODELS];
    static double of_pairs[IRIS_MODELS][K_MAX];
    km_score_input inputs[IRIS_MODELS];
    double scores[IRIS_MODELS * KM_CRITERION_COUNT];
    iris_models(models, inputs, NULL, 0);
    for (int m = 0; valleys && m < IRIS_MODELS; m++) {
        for (int64_t j = 0; j < inputs[m].k; j++) of_pairs[m][j] = j == 1 ? NAN : valleys[m];
        inputs[m].valleys = of_pairs[m];
    }
    for (int m = 0; m < IRIS_MODELS; m++) inputs[m].d = d;
    km_selection selection;
    ck_assert_int_eq(km_score_models(scores, inputs, count, NULL), KM_OK);
    for (int m = 0; valleys && m < count; m++)
        ck_assert_double_eq(score_of(scores, m, KM_CRITERION_valley), valleys[m]);
    ck_assert_int_eq(km_select(&selection, inputs, scores, count, criterion, NULL), KM_OK);
    ck_assert_int_eq(selection.asked, criterion);
    ck_assert(selection.criterion != KM_CRITERION_AUTO);
    return selection;
}

static km_selection select_first(int count, const double *valleys, km_criterion criterion) {
    return select_of(4, count, valleys, criterion);
}

static km_selection select_with_valleys(const double *valleys, km_criterion criterion) {
    return select_first(IRIS_MODELS, valleys, criterion);
}

// Of K = 2..6 the criteria prefer 3 (three of them), 2 (three), 6 (BIC and WB; AIC does not count): fewer than 3
// has, so the end of the list does not count. Of K = 2..3 it is 3, which has most.
START_TEST(auto_takes_the_largest_that_two_prefer) {
    static const double apart[IRIS_MODELS] = {5, 4, 3, 2, 0}, one_hump[IRIS_MODELS] = {5, 4, 3, 2, -1},
                        two[IRIS_MODELS] = {5, -1.5, 3, 2, -7}, none[IRIS_MODELS] = {-2, -1.5, 3.5, 2, -7};
    km_selection s = select_with_valleys(apart, KM_CRITERION_AUTO);
    ck_assert_int_eq(s.best, 1);
    ck_assert_int_eq(s.clustered, 1);
    ck_assert_int_eq(s.votes[KM_CRITERION_valley], 5); // the largest above 1
    ck_assert_int_eq(s.votes[KM_CRITERION_bic], 6);
    ck_assert_int_eq(s.votes[KM_CRITERION_wb], 6);
    ck_assert_int_eq(s.criterion, KM_CRITERION_calinski_harabasz);
    ck_assert_str_eq(s.reason,
                     "K = 3 is the largest that two criteria or more prefer (3 of the 9 that vote) and "
                     "at which no two neighbouring clusters are one hump of points");
    s = select_first(2, apart, KM_CRITERION_AUTO);
    ck_assert_int_eq(s.best, 1);
    s = select_with_valleys(one_hump, KM_CRITERION_AUTO); // the largest is out; 4 and 5 have one vote at most
    ck_assert_int_eq(s.best, 1);
    s = select_with_valleys(two, KM_CRITERION_AUTO);
    ck_assert_int_eq(s.best, 0);
    s = select_with_valleys(none, KM_CRITERION_AUTO); // the simplified silhouette prefers 2
    ck_assert_int_eq(s.best, 0);
    ck_assert_int_eq(s.clustered, 1);
    ck_assert_int_eq(s.criterion, KM_CRITERION_simplified_silhouette);
    ck_assert_ptr_nonnull(strstr(s.reason, "simplified silhouette is highest at K = 2"));
    s = select_with_valleys(NULL, KM_CRITERION_AUTO); // nothing measured: votes alone
    ck_assert_int_eq(s.best, 1);
    ck_assert_int_eq(s.clustered, 1);
}
END_TEST

START_TEST(no_clusters) {
    // The clearest is 2.5; together at most 1.4 x 3 / sqrt(3) of K = 4.
    static const double chance[IRIS_MODELS] = {2.5, 1.4, 1.2, 1, .9}, clear[IRIS_MODELS] = {3.5, 0, 0, 0, 0},
                        together[IRIS_MODELS] = {0, 0, 2, 0, 0};
    km_selection s = select_with_valleys(chance, KM_CRITERION_AUTO);
    ck_assert_int_eq(s.clustered, 0);
    ck_assert_int_eq(s.best, 0); // the highest simplified silhouette, whatever has two votes
    ck_assert_int_eq(select_with_valleys(chance, KM_CRITERION_calinski_harabasz).clustered, 0);
    ck_assert_int_eq(select_with_valleys(chance, KM_CRITERION_calinski_harabasz).best, 1);
    ck_assert_int_eq(select_with_valleys(clear, KM_CRITERION_AUTO).clustered, 1);
    ck_assert_int_eq(select_with_valleys(together, KM_CRITERION_AUTO).clustered, 1); // 2 x 3 / sqrt(3)
}
END_TEST

// Of one feature the chance counts for each of the 15 valleys of all K: 15 x .00023 for 3.5, 15 x .000013 for 4.2.
START_TEST(no_clusters_in_one_feature) {
    static const double chance[IRIS_MODELS] = {3.5, 0, 0, 0, 0}, clear[IRIS_MODELS] = {4.2, 0, 0, 0, 0};
    ck_assert_int_eq(select_of(2, IRIS_MODELS, chance, KM_CRITERION_AUTO).clustered, 1);
    ck_assert_int_eq(select_of(1, IRIS_MODELS, chance, KM_CRITERION_AUTO).clustered, 0);
    ck_assert_int_eq(select_of(1, IRIS_MODELS, clear, KM_CRITERION_AUTO).clustered, 1);
}
END_TEST

START_TEST(valley_decides_alone) {
    static const double valleys[IRIS_MODELS] = {5, -3, 2, 1, .5}, low[IRIS_MODELS] = {1, 1, 1, 1, 1};
    km_selection s = select_with_valleys(valleys, KM_CRITERION_valley);
    ck_assert_int_eq(s.best, 2); // 1 is not above 1
    ck_assert_str_eq(
        s.reason,
        "valley is 2 at K = 4, the largest K at which valleys part each cluster from its neighbours");
    s = select_with_valleys(low, KM_CRITERION_valley);
    ck_assert_int_eq(s.criterion, KM_CRITERION_calinski_harabasz);
}
END_TEST

START_TEST(many_clusters) {
    // A grid of 40 x 40 centroids with 2 points each, enough for the threaded path: neighbours are 1 apart.
    enum { K = 1600 };
    static double centroids[K * 2], weights[K], sse[K], distance[K], margin[K];
    static int64_t counts[K];
    for (int j = 0; j < K; j++) {
        centroids[j * 2] = j % 40;
        centroids[j * 2 + 1] = j / 40;
        weights[j] = 2, counts[j] = 2, sse[j] = .02, distance[j] = .2, margin[j] = 1.5;
    }
    km_score_input in = {.k = K,
                         .d = 2,
                         .centroids = centroids,
                         .weights = weights,
                         .counts = counts,
                         .sse = sse,
                         .distance = distance,
                         .margin = margin,
                         .total_weight = 2 * K,
                         .total_sse = 1e6,
                         .total_distance = 1e4};
    double scores[KM_CRITERION_COUNT];
    ck_assert_int_eq(km_score_models(scores, &in, 1, NULL), KM_OK);
    assert_relative(score_of(scores, 0, KM_CRITERION_davies_bouldin), .2, 1e-13);
    assert_relative(score_of(scores, 0, KM_CRITERION_xie_beni), .01, 1e-13);
    assert_relative(score_of(scores, 0, KM_CRITERION_pbm), pow(1e4 / 320 / 1600, 2) * 2 * 39 * 39, 1e-12);
    assert_relative(score_of(scores, 0, KM_CRITERION_simplified_silhouette), .75, 1e-13);
}
END_TEST

START_TEST(wrong_calls) {
    double scores[2 * KM_CRITERION_COUNT] = {0}, zeros[4] = {0};
    int64_t counts[2] = {1, 1};
    km_score_input in = {.k = 2,
                         .d = 1,
                         .centroids = zeros,
                         .weights = zeros,
                         .counts = counts,
                         .sse = zeros,
                         .distance = zeros,
                         .margin = zeros};
    km_score_input twice[2] = {in, in};
    km_selection selection;
    km_error err = {""};
    ck_assert_int_eq(km_score_models(scores, twice, 2, &err), KM_ERROR_USAGE);
    ck_assert_str_eq(err.text, "models must come in ascending K: 2 follows 2");
    ck_assert_int_eq(km_score_models(scores, twice, 0, NULL), KM_ERROR_USAGE);
    ck_assert_int_eq(km_select(&selection, twice, scores, 1, KM_CRITERION_COUNT, NULL), KM_ERROR_USAGE);
    ck_assert_int_eq(km_select(&selection, twice, scores, 1, (km_criterion)-2, NULL), KM_ERROR_USAGE);
    twice[0].k = 0;
    ck_assert_int_eq(km_select(&selection, twice, scores, 1, KM_CRITERION_bic, NULL), KM_ERROR_USAGE);
}
END_TEST

START_TEST(names) {
    ck_assert_str_eq(km_criterion_name(KM_CRITERION_calinski_harabasz), "calinski_harabasz");
    ck_assert_str_eq(km_criterion_title(KM_CRITERION_wb), "WB index");
    ck_assert_str_eq(km_criterion_name(KM_CRITERION_COUNT), "none");
    ck_assert_int_eq(km_criterion_best(KM_CRITERION_davies_bouldin), KM_BEST_MIN);
    ck_assert_int_eq(km_criterion_needs(KM_CRITERION_davies_bouldin), KM_NEEDS_FINISH);
    ck_assert_int_eq(km_criterion_needs(KM_CRITERION_COUNT), KM_NEEDS_FINISH);
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        ck_assert_int_eq(km_criterion_find(km_criterion_name((km_criterion)c)), c);
    ck_assert_str_eq(km_criterion_name(KM_CRITERION_AUTO), "auto");
    ck_assert_int_eq(km_criterion_find("auto"), KM_CRITERION_AUTO);
    ck_assert_int_eq(km_criterion_find("elbow"), KM_CRITERION_COUNT);
    ck_assert_int_eq(km_criterion_find(NULL), KM_CRITERION_COUNT);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("select");
    TCase *tcase = tcase_create("select");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, hand_values);
    tcase_add_test(tcase, simplified_silhouette_by_hand);
    tcase_add_loop_test(tcase, iris_against_scikit_learn, 0, 2);
    tcase_add_test(tcase, iris_selection);
    tcase_add_test(tcase, given_scores);
    tcase_add_test(tcase, weights_are_copies);
    tcase_add_test(tcase, inertia_zero_wins);
    tcase_add_test(tcase, far_point_is_no_zero_inertia);
    tcase_add_test(tcase, close_points_are_no_zero_inertia);
    tcase_add_test(tcase, known_rounding);
    tcase_add_loop_test(tcase, rounding_of_the_type, 0, 2);
    tcase_add_test(tcase, all_points_equal);
    tcase_add_test(tcase, one_and_n_have_no_scores);
    tcase_add_test(tcase, nothing_defined_keeps_the_smallest);
    tcase_add_test(tcase, small_weights_fall_back);
    tcase_add_test(tcase, votes);
    tcase_add_test(tcase, gaps_in_the_list);
    tcase_add_test(tcase, auto_takes_the_largest_that_two_prefer);
    tcase_add_test(tcase, no_clusters);
    tcase_add_test(tcase, no_clusters_in_one_feature);
    tcase_add_test(tcase, valley_decides_alone);
    tcase_add_test(tcase, many_clusters);
    tcase_add_test(tcase, wrong_calls);
    tcase_add_test(tcase, names);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

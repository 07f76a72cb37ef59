// SPDX-License-Identifier: MIT
// Criteria of given labels: against scikit-learn 1.9 on small published tables (calinski_harabasz_score,
// davies_bouldin_score, silhouette_score with metric='sqeuclidean' and with the default, of the labels below), weights
// against copies, and bad input.
#include <kmgen/score.h>

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS_MAX = 400, FOUR = 4 };

static km_data *open_table(const char *name) {
    km_data *data;
    km_error err = {""};
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", KM_TEST_DATA, name);
    ck_assert_msg(km_data_open(&data, path, NULL, &err) == KM_OK, "%s", err.text);
    return data;
}

static km_data *from_memory(const double *x, int64_t n, int64_t d, const double *weights) {
    km_data *data;
    ck_assert_int_eq(km_data_from_memory(&data, x, n, d, KM_FLOAT64, 0, 0, weights, NULL), KM_OK);
    return data;
}

static km_label_scores *score(const km_data *data, const int64_t *labels, const km_score_params *params) {
    km_label_scores *scores;
    km_error err = {""};
    km_status status = km_score_labels(&scores, data, labels, km_data_rows(data), params, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    return scores;
}

static void assert_near(double found, double expected, double relative, const char *what) {
    ck_assert_msg(fabs(found - expected) <= relative * fabs(expected), "%s is %.17g, not %.17g", what, found,
                  expected);
}

// Labels by a rule that needs no file: of the row, or of its first two values.
static int64_t label_of(int rule, int64_t i, const double *x) {
    switch (rule) {
    case 0:
        return i / 50;
    case 1: // two values with a gap between them
        return i < 50 ? 7 : 100;
    case 2:
        return x[0] > 3;
    case 3:
        return i % 5;
    default:
        return 2 * (x[0] > 70) + (x[1] > 90);
    }
}

static const struct {
    const char *table;
    double expected[FOUR];
} known[] = {
    {"iris.csv", {487.33087637489984, 0.7513707094756737, 0.6566670178786607, 0.5034774406932961}},
    {"iris.csv", {502.82156350235897, 0.38275284210068616, 0.8465640330714053, 0.6867350732769777}},
    {"faithful.csv", {1154.2027302249953, 0.37259764096298204, 0.8596591292760207, 0.7096329965844277}},
    {"faithful.csv", {2.526290049961502, 31.644432009667593, -0.18409145674282387, -0.12380702387584434}},
    {"ruspini.csv", {120.64934469814217, 0.5957203404223572, 0.5907101497063306, 0.48348235672404305}},
};
static const km_criterion four[FOUR] = {KM_CRITERION_calinski_harabasz, KM_CRITERION_davies_bouldin,
                                        KM_CRITERION_silhouette, KM_CRITERION_silhouette_euclidean};

START_TEST(equals_scikit_learn) {
    km_data *data = open_table(known[_i].table);
    int64_t n = km_data_rows(data), d = km_data_features(data), labels[ROWS_MAX];
    double x[ROWS_MAX * FOUR];
    ck_assert_int_eq(km_data_read(x, data, 0, n, KM_FLOAT64, NULL), KM_OK);
    for (int64_t i = 0; i < n; i++) labels[i] = label_of(_i, i, x + i * d);
    km_label_scores *scores = score(data, labels, NULL);
    ck_assert_int_eq(scores->n, n);
    for (int c = 0; c < FOUR; c++)
        assert_near(scores->scores[four[c]], known[_i].expected[c], 1e-9, km_criterion_name(four[c]));
    ck_assert(isnan(scores->scores[KM_CRITERION_hartigan]));
    ck_assert(isnan(scores->score_errors[KM_CRITERION_silhouette_euclidean])); // all pairs were taken
    if (_i == 1) {
        ck_assert_int_eq(scores->k, 2);
        ck_assert_int_eq(scores->labels[1], 100);
        ck_assert_int_eq(scores->counts[1], 100);
    }
    km_label_scores_destroy(&scores);
    km_data_destroy(&data);
}
END_TEST

// Noise, empty labels and dropped rows are as if they were not there.
START_TEST(rows_left_out) {
    double x[14] = {0, 1, 2, 50, 10, 11, 12, NAN, -70, 0, 1, 2, 10, 11};
    int64_t labels[9] = {0, 0, 0, -1, 4, 4, 4, 4, KM_LABEL_EMPTY}, few[6] = {0, 0, 0, 4, 4, 4};
    double kept[6] = {0, 1, 2, 10, 11, 12};
    km_data *data, *rest = from_memory(kept, 6, 1, NULL);
    char path[] = "/tmp/kmgen-test-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    for (int i = 0; i < 9; i++) fprintf(file, "%g\n", x[i]);
    fclose(file);
    km_data_params params;
    km_data_params_init(&params);
    params.missing = KM_MISSING_DROP;
    params.format = "csv";
    ck_assert_int_eq(km_data_open(&data, path, &params, NULL), KM_OK);
    km_label_scores *a = score(data, labels, NULL), *b = score(rest, few, NULL);
    ck_assert_int_eq(a->n, 6);
    ck_assert_int_eq(a->left_out, 3);
    ck_assert_int_eq(a->rows, 9);
    for (int c = 0; c < FOUR; c++) assert_near(a->scores[four[c]], b->scores[four[c]], 1e-14, "a score");
    km_label_scores_destroy(&a);
    km_score_params noise;
    km_score_params_init(&noise);
    noise.noise = 0;
    labels[3] = 7; // -1 is no noise now
    a = score(data, labels, &noise);
    ck_assert_int_eq(a->k, 2);
    ck_assert_int_eq(a->n, 4);
    km_label_scores_destroy(&a);
    km_label_scores_destroy(&b);
    km_data_destroy(&data);
    km_data_destroy(&rest);
    remove(path);
}
END_TEST

// Weights count as copies of a point.
START_TEST(weights_are_copies) {
    enum { N = 30 };
    double x[2 * N], weights[N], copies[2 * 3 * N];
    int64_t labels[N], copied[3 * N], count = 0;
    for (int64_t i = 0; i < N; i++) {
        labels[i] = i % 4 == 3 ? 9 : i % 3;
        weights[i] = (double)(1 + i % 3);
        x[2 * i] = (double)(labels[i] * 4 + i * 7 % 5);
        x[2 * i + 1] = (double)(i * 11 % 13);
        for (int c = 0; c < 1 + i % 3; c++) {
            memcpy(copies + 2 * count, x + 2 * i, 2 * sizeof *x);
            copied[count++] = labels[i];
        }
    }
    km_data *a = from_memory(x, N, 2, weights), *b = from_memory(copies, count, 2, NULL);
    km_score_params params;
    km_score_params_init(&params);
    params.scale = _i ? KM_SCALE_STANDARD : KM_SCALE_NONE;
    km_label_scores *weighted = score(a, labels, &params), *plain = score(b, copied, &params);
    assert_near(weighted->inertia, plain->inertia, 1e-12, "inertia");
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (plain->criteria >> c & 1)
            assert_near(weighted->scores[c], plain->scores[c], 1e-12, km_criterion_name((km_criterion)c));
    km_label_scores_destroy(&weighted);
    km_label_scores_destroy(&plain);
    km_data_destroy(&a);
    km_data_destroy(&b);
}
END_TEST

// Clusters of one point have silhouette 0; copies alone, one label, and a label a point have no score or a finite one.
START_TEST(degenerate) {
    double line[5] = {0, 1, 2, 10, 99}, same[5] = {3, 3, 3, 3, 3};
    int64_t one[5] = {6, 6, 6, 6, 6}, each[5] = {4, 3, 2, 1, 0}, single[5] = {0, 0, 0, 0, 1},
            two[5] = {0, 1, 0, 1, 0};
    km_data *points = from_memory(line, 5, 1, NULL), *copies = from_memory(same, 5, 1, NULL);
    km_label_scores *scores = score(points, one, NULL);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) ck_assert(isnan(scores->scores[c]));
    ck_assert_int_eq(scores->k, 1);
    km_label_scores_destroy(&scores);
    scores = score(points, each, NULL);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) ck_assert(isnan(scores->scores[c]));
    km_label_scores_destroy(&scores);
    scores =
        score(points, single, NULL); // silhouette_score of these labels: 0.7559779..., the last point's is 0
    assert_near(scores->scores[KM_CRITERION_silhouette_euclidean], 0.7559779414903441, 1e-12, "silhouette");
    km_label_scores_destroy(&scores);
    scores = score(copies, two, NULL);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) ck_assert(!isinf(scores->scores[c]));
    ck_assert(scores->scores[KM_CRITERION_silhouette] == 0);
    char *text;
    ck_assert_int_eq(km_label_scores_to_json(&text, scores, ~(uint64_t)0, NULL), KM_OK);
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "NaN"));
    km_text_free(text);
    km_label_scores_destroy(&scores);
    km_data_destroy(&points);
    km_data_destroy(&copies);
}
END_TEST

// Of more points than all pairs are taken of, a sample stands for all, within a few of its standard errors.
START_TEST(sample_of_many) {
    enum { N = 12000 };
    double *x = malloc(N * sizeof *x);
    int64_t *labels = malloc(N * sizeof *labels);
    for (int64_t i = 0; i < N; i++) labels[i] = i % 3, x[i] = (double)(i % 3 * 10 + i * 7919 % 11);
    km_data *data = from_memory(x, N, 1, NULL);
    // Values repeat every 33 points: the silhouette of 33 of them, with weights, is that of all.
    double weights[33];
    for (int i = 0; i < 33; i++) weights[i] = (double)N / 33;
    km_data *few = from_memory(x, 33, 1, weights);
    km_label_scores *sample = score(data, labels, NULL), *exact = score(few, labels, NULL);
    double error = sample->score_errors[KM_CRITERION_silhouette_euclidean];
    ck_assert(error > 0 && error < .01);
    ck_assert(fabs(sample->scores[KM_CRITERION_silhouette_euclidean] -
                   exact->scores[KM_CRITERION_silhouette_euclidean]) < 5 * error);
    assert_near(sample->scores[KM_CRITERION_silhouette], exact->scores[KM_CRITERION_silhouette], 1e-3,
                "the exact one");
    km_label_scores_destroy(&sample);
    km_label_scores_destroy(&exact);
    km_data_destroy(&data);
    km_data_destroy(&few);
    free(x);
    free(labels);
}
END_TEST

static void refuses(const int64_t *labels, int64_t count, const char *sentence) {
    double line[4] = {0, 1, 2, 10};
    km_data *data = from_memory(line, 4, 1, NULL);
    km_label_scores *scores;
    km_error err = {""};
    ck_assert_int_eq(km_score_labels(&scores, data, labels, count, NULL, &err), KM_ERROR_DATA);
    ck_assert_ptr_null(scores);
    ck_assert_msg(strstr(err.text, sentence) != NULL, "%s", err.text);
    km_data_destroy(&data);
}

START_TEST(bad_labels) {
    refuses((int64_t[]){0, 1, 0}, 3, "3 labels for 4 rows");
    refuses((int64_t[]){0, 1, 0, 1, 0}, 5, "5 labels for 4 rows");
    refuses((int64_t[]){0, 1, -2, 1}, 4, "the label of row 3 is -2");
    refuses((int64_t[]){-1, -1, KM_LABEL_EMPTY, -1}, 4, "no row of memory has a label");
}
END_TEST

// What a file of labels may look like.
static const struct {
    const char *text, *column, *refused;
    int64_t count, labels[5];
} files[] = {
    {"0\n1\n-1\n", NULL, NULL, 3, {0, 1, -1}},
    {"0\n\n\n3\n", NULL, NULL, 4, {0, KM_LABEL_EMPTY, KM_LABEL_EMPTY, 3}},
    {"x,label\na,2\nb,\nc,5\n", NULL, NULL, 3, {2, KM_LABEL_EMPTY, 5}},
    {"x;cluster\n1;2\n2;4\n", "cluster", NULL, 2, {2, 4}},
    {"1,2\n3,4\n", "2", NULL, 2, {2, 4}},
    {"1,2\n3,4\n", NULL, "none is named label", 0, {0}},
    {"1,2\n3,4\n", "1,2", "one column", 0, {0}},
    {"0\n1.5\n", NULL, "the label of row 2 is 1.5; labels are whole numbers", 0, {0}},
    {"0\nred\n", NULL, "the label of row 2, \"red\", is no number, as that of row 1 is", 0, {0}},
    {"k,label\n1,red\n2,7\n", NULL, "the label of row 1, \"red\", is no number, as that of row 2 is", 0, {0}},
    {"x,label\na,red\nb,NA\nc,blue\nd,red\n", NULL, NULL, 4, {1, KM_LABEL_EMPTY, 0, 1}},
    {"red\n\nblue\nred\nred\n", NULL, NULL, 5, {1, KM_LABEL_EMPTY, 0, 1, 1}},
    {"0\n1e300\n", NULL, "whole numbers", 0, {0}},
    {"", NULL, "is empty", 0, {0}},
};
enum { FILES = sizeof files / sizeof *files };

START_TEST(label_files) {
    char path[] = "/tmp/kmgen-test-XXXXXX.csv";
    int fd = mkstemps(path, 4);
    ck_assert_int_eq(write(fd, files[_i].text, strlen(files[_i].text)), (ssize_t)strlen(files[_i].text));
    close(fd);
    int64_t *labels, count = 0;
    km_error err = {""};
    km_status status = km_labels_read(&labels, &count, path, files[_i].column, &err);
    if (files[_i].refused) {
        ck_assert_msg(status != KM_OK && strstr(err.text, files[_i].refused), "%s", err.text);
        ck_assert_ptr_null(labels);
    } else {
        ck_assert_msg(status == KM_OK, "%s", err.text);
        ck_assert_int_eq(count, files[_i].count);
        for (int64_t i = 0; i < count; i++) ck_assert_int_eq(labels[i], files[_i].labels[i]);
    }
    km_labels_free(&labels);
    remove(path);
}
END_TEST

// Labels of a text, which is written `times` times.
static int64_t *read_repeated(const char *text, int times, int64_t *count, char ***words,
                              int64_t *words_count) {
    char path[] = "/tmp/kmgen-test-XXXXXX.csv";
    FILE *file = fdopen(mkstemps(path, 4), "w");
    for (int i = 0; i < times; i++) fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    int64_t *labels;
    km_error err = {""};
    km_status status = km_labels_read_words(&labels, count, words, words_count, path, NULL, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    remove(path);
    return labels;
}

// Words are numbered in the order of their bytes, and what a number stands for is told; of numbers nothing is.
START_TEST(labels_of_words) {
    char **words;
    int64_t count, words_count;
    int64_t *labels = read_repeated("versicolor\nsetosa\nvirginica\n", 2, &count, &words, &words_count);
    ck_assert_int_eq(count, 6);
    ck_assert_int_eq(words_count, 3);
    ck_assert_str_eq(words[0], "setosa");
    ck_assert_str_eq(words[2], "virginica");
    ck_assert_int_eq(labels[3], 1);
    ck_assert_int_eq(labels[4], 0);
    km_labels_free(&labels);
    km_label_words_free(&words);
    labels = read_repeated("5\n", 2, &count, &words, &words_count);
    ck_assert_ptr_null(words);
    ck_assert_int_eq(words_count, 0);
    km_labels_free(&labels);
}
END_TEST

// Blank lines are rows without a label wherever the reader's blocks end.
START_TEST(labels_between_blank_lines) {
    enum { TIMES = 3000000 };
    char **words;
    int64_t count, words_count;
    int64_t *labels = read_repeated("3\n\n\n", TIMES, &count, &words, &words_count);
    ck_assert_int_eq(count, 3 * TIMES - 2); // none behind the last
    for (int64_t i = 0; i < count; i++)
        if (labels[i] != (i % 3 ? KM_LABEL_EMPTY : 3)) ck_abort_msg("row %lld", (long long)i);
    km_labels_free(&labels);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("score");
    TCase *tcase = tcase_create("score");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, equals_scikit_learn, 0, sizeof known / sizeof *known);
    tcase_add_test(tcase, rows_left_out);
    tcase_add_loop_test(tcase, weights_are_copies, 0, 2);
    tcase_add_test(tcase, degenerate);
    tcase_add_test(tcase, sample_of_many);
    tcase_add_test(tcase, bad_labels);
    tcase_add_test(tcase, labels_of_words);
    tcase_add_test(tcase, labels_between_blank_lines);
    tcase_add_loop_test(tcase, label_files, 0, FILES);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

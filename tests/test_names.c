// SPDX-License-Identifier: MIT
// Features by name: a model finds its columns in any table that has them, or the table is refused.
#include <kmgen/model.h>

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 40, COLUMNS = 3 };

static char folder[64], model_path[96], table_path[96];
static const char *const names[COLUMNS] = {"alpha", "beta", "gamma"};
static double points[ROWS * COLUMNS]; // four clusters that only the features in their own places keep apart
static int32_t labels[ROWS];          // of the fit
static km_predictor *predictor;

static double value(int row, int column) {
    static const double centroids[4][COLUMNS] = {{0, 10, 20}, {10, 0, 20}, {20, 10, 0}, {0, 20, 10}};
    return centroids[row % 4][column] + 0.01 * (row * 7 % 11 + column);
}

static void fit(const char *const *its_names) {
    km_spec spec;
    km_fit_params params;
    km_data *data;
    km_result *result;
    km_error err = {""};
    km_spec_init(&spec);
    km_fit_params_init(&params);
    params.device = KM_HOST;
    params.labels = KM_LABELS_BEST;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "4", NULL), KM_OK);
    ck_assert_int_eq(km_data_from_memory(&data, points, ROWS, COLUMNS, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    ck_assert_int_eq(km_data_set_names(data, its_names, NULL), KM_OK);
    ck_assert_msg(km_fit(&result, &spec, data, &params, &err) == KM_OK, "%s", err.text);
    memcpy(labels, result->models[0].labels, sizeof labels);
    ck_assert_int_eq(km_predictor_write(model_path, result, 0, NULL), KM_OK);
    km_predictor_destroy(&predictor);
    ck_assert_int_eq(km_predictor_read(&predictor, model_path, NULL), KM_OK);
    km_result_destroy(&result);
    km_data_destroy(&data);
    km_spec_clear(&spec);
}

static void begin(void) {
    strcpy(folder, "/tmp/kmgen-test-names-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(model_path, sizeof model_path, "%s/model.json", folder);
    snprintf(table_path, sizeof table_path, "%s/table.csv", folder);
    for (int i = 0; i < ROWS * COLUMNS; i++) points[i] = value(i / COLUMNS, i % COLUMNS);
    fit(names);
}

static void end(void) {
    km_predictor_destroy(&predictor);
    unlink(model_path);
    unlink(table_path);
    ck_assert_int_eq(rmdir(folder), 0);
}

// Labels of the data by the model; on failure, the sentence in err.
static km_status predict(const km_data *data, km_error *err) {
    int32_t got[ROWS];
    km_status status = km_predict(got, predictor, data, NULL, err);
    if (status == KM_OK) ck_assert_int_eq(memcmp(got, labels, sizeof got), 0);
    return status;
}

static void expect_refused(km_status status, km_status expected, const km_error *err, const char *words) {
    ck_assert_msg(status == expected, "%s instead of %s: %s", km_status_name(status),
                  km_status_name(expected), err->text);
    ck_assert_msg(strstr(err->text, words) != NULL, "\"%s\" is not in: %s", words, err->text);
}

// Memory with `count` columns: column f holds what the model knows as feature from[f], -1: something else.
static km_data *from_memory(double *memory, int count, const int *from, const char *const *its_names) {
    km_data *data;
    for (int i = 0; i < ROWS; i++)
        for (int f = 0; f < count; f++) memory[i * count + f] = from[f] < 0 ? 1e6 * f + i : value(i, from[f]);
    ck_assert_int_eq(km_data_from_memory(&data, memory, ROWS, count, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    ck_assert_int_eq(km_data_set_names(data, its_names, NULL), KM_OK);
    return data;
}

START_TEST(memory) {
    static const struct {
        int count, from[5];
        const char *names[5];
        const char *refused; // NULL: the fit's labels
    } cases[] = {
        {3, {0, 1, 2}, {"alpha", "beta", "gamma"}, NULL},
        {3, {2, 0, 1}, {"gamma", "alpha", "beta"}, NULL},
        {5, {-1, 1, -1, 2, 0}, {"id", "beta", "note", "gamma", "alpha"}, NULL},
        {5, {-1, 1, -1, 2, 0}, {"id", "beta", "id", "gamma", "alpha"}, NULL}, // twice, but not needed
        {3, {0, 1, 2}, {"x", "y", "z"}, "memory lacks 3 of the 3 columns that are needed: \"alpha\""},
        {3,
         {0, 1, 2},
         {"Alpha", "beta", "gamma"},
         "\"alpha\" (is it \"Alpha\"?); it has Alpha, beta, gamma;"},
        {3, {0, 1, 2}, {"alpha ", "beta", "gamma"}, "\"alpha\" (is it \"alpha \"?)"}, // byte by byte
        {2, {0, 1}, {"alpha", "beta"}, "\"gamma\"; it has alpha, beta; add them"},
        {4, {0, 1, 2, 1}, {"alpha", "beta", "gamma", "beta"}, "has two columns \"beta\", 2 and 4"},
    };
    double copy[ROWS * 5];
    km_error err = {""};
    km_data *data = from_memory(copy, cases[_i].count, cases[_i].from, cases[_i].names);
    km_status status = predict(data, &err);
    if (cases[_i].refused)
        expect_refused(status, KM_ERROR_DATA, &err, cases[_i].refused);
    else
        ck_assert_msg(status == KM_OK, "%s", err.text);
    km_data_destroy(&data);
}
END_TEST

// By position and count where one side has no names.
START_TEST(without_names) {
    static const int in_order[] = {0, 1, 2}, other[] = {1, 0, 2};
    static const char *const others[] = {"x", "y", "z"};
    double copy[ROWS * COLUMNS];
    int32_t got[ROWS];
    km_error err = {""};
    km_data *data = from_memory(copy, 3, in_order, NULL);
    ck_assert_int_eq(predict(data, NULL), KM_OK); // a model with names
    fit(NULL);
    ck_assert_ptr_null(km_predictor_feature_names(predictor));
    ck_assert_int_eq(predict(data, NULL), KM_OK);
    ck_assert_int_eq(km_data_set_names(data, others, NULL), KM_OK);
    ck_assert_int_eq(predict(data, NULL), KM_OK); // data with names
    km_data_destroy(&data);
    data = from_memory(copy, 3, other, NULL);
    ck_assert_int_eq(km_predict(got, predictor, data, NULL, NULL), KM_OK);
    ck_assert_int_ne(memcmp(got, labels, sizeof got), 0);
    km_data_destroy(&data);
    data = from_memory(copy, 2, in_order, NULL);
    expect_refused(predict(data, &err), KM_ERROR_DATA, &err, "has 2 features but the model was fitted on 3;");
    km_data_destroy(&data);
}
END_TEST

// Names that stand twice in the model: a table with the same list is that table, no other can be told.
START_TEST(names_twice) {
    static const char *const twice[] = {"x", "x", "y"}, *const wider[] = {"x", "x", "y", "z"},
                             *const once[] = {"x", "y", "z"};
    static const int from[] = {0, 1, 2, -1};
    double copy[ROWS * 4];
    km_error err = {""};
    fit(twice);
    km_data *data = from_memory(copy, 3, from, twice);
    ck_assert_int_eq(predict(data, NULL), KM_OK);
    ck_assert_int_eq(km_data_set_names(data, once, NULL), KM_OK);
    expect_refused(predict(data, &err), KM_ERROR_DATA, &err, "two columns \"x\" are needed");
    km_data_destroy(&data);
    err.text[0] = 0;
    data = from_memory(copy, 4, from, wider);
    expect_refused(predict(data, &err), KM_ERROR_DATA, &err, "has two columns \"x\", 1 and 2");
    km_data_destroy(&data);
}
END_TEST

START_TEST(selecting) {
    static const int from[] = {2, -1, 0, 1};
    static const char *const its_names[] = {"gamma", "id", "alpha", "beta"};
    static const char *const some[] = {"alpha", "gamma"};
    double copy[ROWS * 4], weights[ROWS], back[2 * 2];
    km_data *data = from_memory(copy, 4, from, its_names), *view, *again, *weighted;
    km_error err = {""};
    ck_assert_int_eq(km_data_select(&view, data, some, 2, &err), KM_OK);
    ck_assert_int_eq(km_data_features(view), 2);
    ck_assert_int_eq(km_data_points(view), ROWS);
    ck_assert_str_eq(km_data_feature_name(view, 0), "alpha");
    ck_assert_str_eq(km_data_feature_names(view)[1], "gamma");
    ck_assert_ptr_null(km_data_base(view, KM_FLOAT64));
    ck_assert_int_eq(km_data_read(back, view, 5, 2, KM_FLOAT64, NULL), KM_OK);
    ck_assert(back[0] == value(5, 0) && back[1] == value(5, 2) && back[2] == value(6, 0) &&
              back[3] == value(6, 2));
    // A view of a view.
    ck_assert_int_eq(km_data_select(&again, view, some + 1, 1, &err), KM_OK);
    ck_assert_int_eq(km_data_read(back, again, 7, 1, KM_FLOAT64, NULL), KM_OK);
    ck_assert(back[0] == value(7, 2));
    km_data_destroy(&again);
    km_data_destroy(&view);
    // All of them in their order: where they lie.
    ck_assert_int_eq(km_data_select(&view, data, its_names, 4, &err), KM_OK);
    ck_assert_ptr_eq(km_data_base(view, KM_FLOAT64), copy);
    km_data_destroy(&view);
    km_data_destroy(&data);
    for (int i = 0; i < ROWS; i++) weights[i] = i + 1;
    ck_assert_int_eq(km_data_from_memory(&weighted, copy, ROWS, 4, KM_FLOAT64, 0, 0, weights, NULL), KM_OK);
    expect_refused(km_data_select(&view, weighted, some, 2, &err), KM_ERROR_DATA, &err, "has no names");
    ck_assert_ptr_null(view);
    ck_assert_int_eq(km_data_set_names(weighted, its_names, NULL), KM_OK);
    ck_assert_int_eq(km_data_select(&view, weighted, some, 2, NULL), KM_OK);
    ck_assert_ptr_eq(km_data_weights(view), weights);
    ck_assert_int_eq(km_data_select(&again, weighted, some, 0, NULL), KM_ERROR_USAGE);
    km_data_destroy(&view);
    km_data_destroy(&weighted);
}
END_TEST

// The same names, read from text: only what is needed is read.
static km_status open_and_predict(const char *text, const km_data_params *given, km_error *err) {
    km_data_params params;
    km_data *data;
    km_data_params_init(&params);
    if (given) params = *given;
    params.names = km_predictor_feature_names(predictor);
    params.names_count = km_predictor_features(predictor);
    ck_assert_int_eq(km_text_write(table_path, text, NULL), KM_OK);
    km_status status = km_data_open(&data, table_path, &params, err);
    if (status != KM_OK) return status;
    status = predict(data, err);
    km_data_destroy(&data);
    return status;
}

// A table as text: cell by cell, `from` as above; header NULL: none.
static char *table_text(const char *header, int count, const int *from) {
    static char text[8192];
    int size = header ? sprintf(text, "%s\n", header) : 0;
    for (int i = 0; i < ROWS; i++)
        for (int f = 0; f < count; f++)
            size += from[f] < 0
                        ? sprintf(text + size, "\"a, b\"%c", f + 1 < count ? ',' : '\n')
                        : sprintf(text + size, "%.17g%c", value(i, from[f]), f + 1 < count ? ',' : '\n');
    return text;
}

START_TEST(text_tables) {
    static const int in_order[] = {0, 1, 2}, mixed[] = {-1, 2, -1, 1, 0};
    km_data_params params;
    km_error err = {""};
    km_data_params_init(&params);
    ck_assert_int_eq(open_and_predict(table_text("alpha,beta,gamma", 3, in_order), NULL, NULL), KM_OK);
    ck_assert_int_eq(open_and_predict(table_text(NULL, 3, in_order), NULL, NULL), KM_OK);
    ck_assert_int_eq(open_and_predict(table_text("id, gamma ,note,beta,\"alpha\"", 5, mixed), NULL, &err),
                     KM_OK);
    ck_assert_int_eq(open_and_predict(table_text("\xef\xbb\xbf"
                                                 "alpha,beta,gamma",
                                                 3, in_order),
                                      NULL, NULL),
                     KM_OK);
    params.columns = "5,2,4";
    ck_assert_int_eq(open_and_predict(table_text("id,gamma,note,beta,alpha", 5, mixed), &params, NULL),
                     KM_OK);
    params.columns = "id,gamma,alpha";
    expect_refused(open_and_predict(table_text("id,gamma,note,beta,alpha", 5, mixed), &params, &err),
                   KM_ERROR_DATA, &err, "lacks 1 of the 3 columns that are needed: \"beta\"");
}
END_TEST

START_TEST(text_headers) {
    static const int in_order[] = {0, 1, 2}, mixed[] = {2, 0, 1}, wide[] = {-1, 0, 1, 2};
    static const char *const numbers[] = {"2019", "2020", "2021"};
    km_data_params params;
    km_error err = {""};
    km_data_params_init(&params);
    expect_refused(open_and_predict(table_text("x,y,z", 3, in_order), NULL, &err), KM_ERROR_DATA, &err,
                   "--header skip");
    params.header = KM_HEADER_SKIP; // the way out
    ck_assert_int_eq(open_and_predict(table_text("x,y,z", 3, in_order), &params, NULL), KM_OK);
    params.columns = "x,y,z";
    ck_assert_int_eq(open_and_predict(table_text("id,x,y,z", 4, wide), &params, NULL), KM_OK);
    params.columns = NULL;
    err.text[0] = 0;
    expect_refused(open_and_predict(table_text("id,x,y,z", 4, wide), &params, &err), KM_ERROR_DATA, &err,
                   "choose the columns that are needed, in their order: --columns");
    // Names that are numbers are a header where they are the model's.
    fit(numbers);
    ck_assert_int_eq(open_and_predict(table_text("2021,2019,2020", 3, mixed), NULL, NULL), KM_OK);
    // A cell that is needed is no number: no other column helps.
    err.text[0] = 0;
    expect_refused(open_and_predict("2019,2020,2021\n1,2,3\n1,x,3\n", NULL, &err), KM_ERROR_DATA, &err,
                   "row 3, column 2 (2020): \"x\" is no number; correct it");
    ck_assert_ptr_null(strstr(err.text, "--columns"));
}
END_TEST

// Latin-1 in the table, '?' in the model: the same name.
START_TEST(names_of_other_encodings) {
    static const char *const latin[] = {"h\xf6he", "breite", "l\xe4nge"}, *const mixed[] = {"l\xe4nge",
                                                                                            "h\xf6he",
                                                                                            "breite"};
    static const int from[] = {2, 0, 1};
    double copy[ROWS * COLUMNS];
    fit(latin);
    ck_assert_str_eq(km_predictor_feature_names(predictor)[0], "h?he");
    km_data *data = from_memory(copy, 3, from, mixed);
    ck_assert_int_eq(predict(data, NULL), KM_OK);
    km_data_destroy(&data);
}
END_TEST

// As many names as there can be features, in reverse: sorted, not compared in pairs.
START_TEST(many_names) {
    int64_t d = KM_FEATURES_DENSE_MAX;
    char(*texts)[16] = malloc((size_t)d * sizeof *texts);
    const char **forth = malloc((size_t)d * sizeof *forth), **back = malloc((size_t)d * sizeof *back);
    double *row = malloc((size_t)d * sizeof *row), *got = malloc((size_t)d * sizeof *got);
    for (int64_t f = 0; f < d; f++) {
        snprintf(texts[f], sizeof *texts, "feature %d", (int)f);
        forth[f] = back[d - 1 - f] = texts[f];
        row[f] = (double)f;
    }
    km_data *data, *view;
    ck_assert_int_eq(km_data_from_memory(&data, row, 1, d, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    ck_assert_int_eq(km_data_set_names(data, forth, NULL), KM_OK);
    ck_assert_int_eq(km_data_select(&view, data, back, d, NULL), KM_OK);
    ck_assert_int_eq(km_data_read(got, view, 0, 1, KM_FLOAT64, NULL), KM_OK);
    for (int64_t f = 0; f < d; f++) ck_assert(got[f] == (double)(d - 1 - f));
    km_data_destroy(&view);
    km_data_destroy(&data);
    free(texts);
    free(forth);
    free(back);
    free(row);
    free(got);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("names");
    TCase *tcase = tcase_create("names");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, memory, 0, 9);
    tcase_add_test(tcase, without_names);
    tcase_add_test(tcase, names_twice);
    tcase_add_test(tcase, selecting);
    tcase_add_test(tcase, text_tables);
    tcase_add_test(tcase, text_headers);
    tcase_add_test(tcase, names_of_other_encodings);
    tcase_add_test(tcase, many_names);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

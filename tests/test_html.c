// SPDX-License-Identifier: MIT
// A fit as one page: whole, nothing outside of it, names that cannot break it, and the numbers that it shows.
#include "../runtime/file.h"
#include "../runtime/report/html_sample.h"
#include "sample_result.h"
#include "short_form.h"

#include <kmgen/fit.h>

#include "quiet_check.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static void make_folder(void) {
    strcpy(folder, "/tmp/kmgen-test-html-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
    ck_assert_int_eq(rmdir(folder), 0); // each test removed what it wrote, and nothing else was left
}

// Pages -----------------------------------------------------------------------------------------------------

// The name of the tag at `at`, behind "<" or "</".
static int64_t name_size(const char *at) {
    int64_t size = 0;
    while (isalnum((unsigned char)at[size])) size++;
    return size;
}

static int is_void(const char *name, int64_t size) {
    static const char *const names[] = {"meta", "link", "input", "br"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((int64_t)strlen(names[i]) == size && memcmp(names[i], name, (size_t)size) == 0) return 1;
    return 0;
}

// The end of a tag, outside of its quoted values.
static const char *tag_end(const char *at) {
    int quoted = 0;
    for (; *at && (quoted || *at != '>'); at++) {
        quoted ^= *at == '"';
        ck_assert_msg(quoted || *at != '<', "a tag in a tag: %.80s", at);
    }
    ck_assert_int_eq(*at, '>');
    return at;
}

// Each tag is closed in its turn; scripts and styles end where their first end tag is.
static void assert_nested(const char *page) {
    const char *open[64];
    int depth = 0;
    for (const char *at = strchr(page, '<'); at; at = strchr(at, '<')) {
        int is_end = at[1] == '/';
        const char *name = at + 1 + is_end, *end = tag_end(at + 1);
        int64_t size = name_size(name);
        if (at[1] == '!') {
            at = end;
            continue;
        }
        ck_assert_msg(size > 0, "no tag: %.60s", at);
        if (is_end) {
            ck_assert_int_gt(depth, 0);
            ck_assert_msg(name_size(open[--depth]) == size && memcmp(open[depth], name, (size_t)size) == 0,
                          "%.20s is closed by %.20s", open[depth], at);
        } else if (end[-1] != '/' && !is_void(name, size)) {
            ck_assert_int_lt(depth, 64);
            open[depth++] = name;
            if (size == 6 && memcmp(name, "script", 6) == 0) end = strstr(end, "</script") - 1;
            if (size == 5 && memcmp(name, "style", 5) == 0) end = strstr(end, "</style") - 1;
        }
        at = end + 1;
    }
    ck_assert_int_eq(depth, 0);
}

// Numbers that are none, wherever they may be in an attribute or as text of their own.
static void assert_numbers(const char *page) {
    static const char *const bad[] = {"nan", "inf"};
    for (size_t i = 0; i < 2; i++)
        for (const char *at = strstr(page, bad[i]); at; at = strstr(at + 1, bad[i]))
            ck_assert_msg(isalpha((unsigned char)at[3]) ||
                              (isalpha((unsigned char)at[-1]) && !strchr("MLHVC", at[-1])),
                          "no number: %.60s", at - 20);
}

static void assert_alone(const char *page) {
    static const char *const outside[] = {" src=", "url(", "@import", "https:", "fetch(", "XMLHttpRequest"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        ck_assert_msg(!strstr(page, outside[i]), "the page needs more than itself: %s", outside[i]);
    ck_assert_ptr_nonnull(strstr(page, "default-src 'none'"));
}

static void assert_sections(const char *page) {
    static const char *const ids[] = {"choice", "criteria",  "inertia",  "clusters", "silhouette",
                                      "splits", "centroids", "features", "run"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char text[32];
        snprintf(text, sizeof text, "id=\"%s\"", ids[i]);
        ck_assert_msg(strstr(page, text) != NULL, "no section %s", ids[i]);
    }
    ck_assert_msg(!strstr(page, "{{"), "a hole is left: %.40s", strstr(page, "{{"));
    ck_assert_int_eq(memcmp(page, "<!DOCTYPE html>", 15), 0);
    ck_assert_ptr_nonnull(strstr(page, "</html>\n"));
}

// No byte that a reader would obey, and nothing that is no UTF-8.
static void assert_plain(const char *page) {
    char *line = strdup(page);
    km_text_plain(line);
    for (char *c = line; *c; c++)
        if (page[c - line] == '\n') *c = '\n';
    const char *same = page;
    while (*same && *same == line[same - page]) same++;
    ck_assert_msg(!*same, "a control character: %.40s", same - 10);
    free(line);
}

// Writes the page, checks what holds for each, and returns its text.
static char *page_of(const km_result *result, const km_data *data, const km_report_params *params,
                     int64_t size_max) {
    char path[96], *page;
    int64_t size;
    km_error err = {""};
    snprintf(path, sizeof path, "%s/r.html", folder);
    ck_assert_msg(km_result_report(path, result, data, params, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(km_file_read(&page, &size, path, 0, NULL), KM_OK);
    unlink(path);
    ck_assert_int_eq((int64_t)strlen(page), size);
    ck_assert_int_lt(size, size_max);
    assert_sections(page);
    assert_nested(page);
    assert_numbers(page);
    assert_alone(page);
    assert_plain(page);
    return page;
}

static int64_t count_of(const char *page, const char *what) {
    int64_t count = 0;
    for (const char *at = strstr(page, what); at; at = strstr(at + 1, what)) count++;
    return count;
}

static void assert_has(const char *page, const char *what) {
    ck_assert_msg(strstr(page, what) != NULL, "the page lacks %s", what);
}

// Fits --------------------------------------------------------------------------------------------------------

static km_result *fit(const km_data *data, const char *clusters, const km_fit_params *params) {
    km_spec spec;
    km_result *result;
    km_error err = {""};
    km_spec_init(&spec);
    ck_assert_int_eq(km_spec_set_clusters(&spec, clusters, NULL), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "prebuilt", NULL), KM_OK);
    ck_assert_msg(km_fit(&result, &spec, data, params, &err) == KM_OK, "%s", err.text);
    km_spec_clear(&spec);
    return result;
}

static km_data *iris(void) {
    km_data *data;
    ck_assert_int_eq(km_data_open(&data, KM_TEST_DATA "/iris.csv", NULL, NULL), KM_OK);
    return data;
}

// The mean silhouette, 0.5528, and the shares of both components, 92.46 % and 5.31 %, are scikit-learn's for these
// labels: silhouette_score(X, labels), PCA(2).fit(X).explained_variance_ratio_.
START_TEST(page_of_iris) {
    km_data *data = iris();
    km_result *result = fit(data, "3", NULL);
    char *page = page_of(result, data, NULL, 100000);
    assert_has(page, "<title>iris.csv: 3 clusters</title>");
    assert_has(page, ">mean 0.55<");
    assert_has(page, "first component, 92\u202f%");
    assert_has(page, "second component, 5.3\u202f%");
    assert_has(page, "One K was fitted");
    ck_assert_ptr_null(strstr(page, "look like no clusters"));
    assert_has(page, "petal_length");
    free(page);
    km_result_destroy(&result);
    result = fit(data, "2..10", NULL);
    km_report_params params;
    km_report_params_init(&params);
    params.command = "kmgen fit 'a  b' --scale <c>";
    params.title = "flowers & more";
    page = page_of(result, data, &params, 200000);
    assert_has(page, "<code>kmgen fit 'a  b' <span class=\"option\">--scale</span> &lt;c&gt;</code>");
    assert_has(page, "<h1><bdi>flowers &amp; more</bdi></h1>");
    assert_has(page, "All 150 rows");
    assert_has(page, "<td>39.040</td>"); // K = 6's inertia, as long as its neighbours
    ck_assert_int_ge(count_of(page, "class=\"restart\""), 9);
    // Without a script the chosen K is there, and there is no slider.
    char *rows = strstr(page, "<g id=\"rows\">"), *end = strstr(rows, "</g>");
    *end = 0;
    ck_assert_int_eq(count_of(rows, "<path class=\"c"), result->models[result->selection.best].k);
    ck_assert_int_eq(count_of(rows, "m-") + count_of(rows, "m0"), 150);
    *end = '<';
    assert_has(page, "<form class=\"slider\" hidden>");
    ck_assert_int_eq(count_of(page, "class=\"knife"), result->models[result->selection.best].k);
    ck_assert_int_eq(count_of(page, "<title"),
                     count_of(page, "<desc") + 1 + count_of(page, "\"><title>cluster"));
    for (int c = 0; c < KM_CRITERION_COUNT; c++) assert_has(page, km_criterion_title((km_criterion)c));
    free(page);
    km_result_destroy(&result);
    km_data_destroy(&data);
}
END_TEST

// Labels of the sample are the fit's, where it holds all rows.
START_TEST(sample_labels) {
    km_fit_params params;
    km_fit_params_init(&params);
    params.labels = KM_LABELS_ALL;
    params.scale = _i ? KM_SCALE_STANDARD : KM_SCALE_NONE;
    km_data *data = iris();
    km_result *result = fit(data, "2..12", &params);
    km_html_sample drawn;
    ck_assert_int_eq(km_html_sample_draw(&drawn, result, data, 1000, NULL), KM_OK);
    ck_assert_int_eq(drawn.n, 150);
    for (int64_t m = 0; m < result->models_count; m++)
        ck_assert_int_eq(memcmp(drawn.labels[m], result->models[m].labels, 150 * sizeof(int32_t)), 0);
    // Marks: no two clusters of a K share one, and the cluster that no K splits (the setosas) keeps its own.
    for (int64_t m = 0; m < result->models_count; m++)
        for (int32_t i = 0; i < result->models[m].k; i++)
            for (int32_t j = 0; j < i; j++) ck_assert_int_ne(drawn.marks[m][i], drawn.marks[m][j]);
    int32_t two = drawn.marks[0][drawn.labels[0][0]], three = drawn.marks[1][drawn.labels[1][0]];
    ck_assert_int_eq(two, three);
    km_html_sample_free(&drawn);
    km_result_destroy(&result);
    km_data_destroy(&data);
}
END_TEST

// A part of many rows: as many as may be read, spread evenly, drawn by the seed alone.
START_TEST(sample_of_many) {
    enum { N = 20000, ROWS = 500 };
    static double values[N];
    km_data *data;
    km_html_sample drawn, again;
    for (int i = 0; i < N; i++) values[i] = i;
    ck_assert_int_eq(km_data_from_memory(&data, values, N, 1, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    km_result *result = fit(data, "2", NULL);
    ck_assert_int_eq(km_html_sample_draw(&drawn, result, data, ROWS, NULL), KM_OK);
    ck_assert_int_eq(km_html_sample_draw(&again, result, data, ROWS, NULL), KM_OK);
    ck_assert_int_eq(drawn.n, ROWS);
    ck_assert_int_eq(memcmp(drawn.points, again.points, ROWS * sizeof(double)), 0);
    for (int i = 0; i < ROWS; i++) { // a row from each of 500 equal parts
        double row = drawn.points[i] / result->factor[0] + result->centre[0];
        ck_assert_int_eq((int64_t)floor((row + .01) * ROWS / N), i);
    }
    char *page = page_of(result, data, NULL, 200000);
    ck_assert_int_eq(result->selection.clustered, 0); // evenly spread
    assert_has(page, "<strong>No clusters</strong>");
    assert_has(page, "A sample of 2000 of 20\u202f000 rows");
    free(page);
    km_html_sample_free(&drawn);
    km_html_sample_free(&again);
    km_result_destroy(&result);
    km_data_destroy(&data);
}
END_TEST

// Names as a careless or a hostile hand writes them.
START_TEST(hostile_names) {
    enum { N = 40, D = 6 };
    static double values[N * D];
    static char longest[10001];
    const char *names[D] = {"</style><script>alert(1)</script>",
                            "\"quoted\" & 'more'",
                            longest,
                            "tab\tand \x1b[31mred\x7f",
                            "{{run}}",
                            "\xff\xfe"};
    memset(longest, 'n', sizeof longest - 1);
    for (int i = 0; i < N * D; i++) values[i] = (i % 97) + 100 * (i / D % 3);
    km_data *data;
    ck_assert_int_eq(km_data_from_memory(&data, values, N, D, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    ck_assert_int_eq(km_data_set_names(data, names, NULL), KM_OK);
    km_result *result = fit(data, "2..4", NULL);
    char path[96];
    km_report_params params;
    km_report_params_init(&params);
    params.title = names[0];
    params.command = names[0];
    // A hole of the skeleton in a name is text: not filled, but there.
    snprintf(path, sizeof path, "%s/r.html", folder);
    char *page;
    int64_t size;
    ck_assert_int_eq(km_result_report(path, result, data, &params, NULL), KM_OK);
    ck_assert_int_eq(km_file_read(&page, &size, path, 0, NULL), KM_OK);
    unlink(path);
    assert_nested(page);
    assert_plain(page);
    ck_assert_ptr_null(strstr(page, "<script>alert"));
    assert_has(page, "&lt;/style&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
    assert_has(page, "&quot;quoted&quot; &amp; 'more'");
    assert_has(page, "<bdi>{{run}}</bdi>");
    // Its ends, and which column it is.
    assert_has(page, "nnn...nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn (column 3)</bdi>");
    ck_assert_ptr_null(strstr(page, "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"));
    ck_assert_int_lt(size, 100000);
    km_text_free(page);
    km_result_destroy(&result);
    km_data_destroy(&data);
}
END_TEST

// Few points, equal ones, a constant feature, many features, many clusters, weights, rows that were left out.
START_TEST(odd_tables) {
    if (is_sample() && _i % 2) return;
    static const struct {
        int64_t n, d;
        const char *clusters;
        int weighted, dropped, equal;
    } cases[] = {{3, 2, "2", 0, 0, 0},     {3, 1, "1..3", 0, 0, 0},    {1, 1, "1", 0, 0, 0},
                 {20, 3, "1..4", 0, 0, 1}, {60, 200, "2..5", 0, 0, 0}, {400, 3, "5..64", 0, 0, 0},
                 {50, 2, "2..4", 1, 0, 0}, {50, 2, "2..4", 0, 1, 0},   {300, 2, "120,250", 0, 0, 0},
                 {9, 2, "2..9", 1, 0, 0}};
    int64_t n = cases[_i].n, d = cases[_i].d;
    double *values = malloc((size_t)(n * d) * sizeof *values), weights[64];
    for (int64_t i = 0; i < n * d; i++)
        values[i] = cases[_i].equal ? 7 : (double)(i * 2654435761 % 1009) + (double)(i / d % 5) * 3000;
    for (int i = 0; i < 64; i++) weights[i] = i % 3;
    if (cases[_i].dropped) values[4] = NAN;
    km_data *data, *opened = NULL;
    ck_assert_int_eq(
        km_data_from_memory(&data, values, n, d, KM_FLOAT64, 0, 0, cases[_i].weighted ? weights : NULL, NULL),
        KM_OK);
    if (cases[_i].dropped) {
        char path[96];
        km_data_params params;
        km_data_params_init(&params);
        params.missing = KM_MISSING_DROP;
        snprintf(path, sizeof path, "%s/t.npy", folder);
        ck_assert_int_eq(km_npy_write(path, values, n, d, "<f8", NULL), KM_OK);
        ck_assert_int_eq(km_data_open(&opened, path, &params, NULL), KM_OK);
        unlink(path);
    }
    km_result *result = fit(opened ? opened : data, cases[_i].clusters, NULL);
    char *page = page_of(result, opened ? opened : data, NULL, 1000000);
    if (opened) assert_has(page, "1 row without numbers left out");
    ck_assert_int_eq(count_of(page, "second component"), d > 1);
    ck_assert_int_eq(count_of(page, "their height has no meaning"), d == 1);
    // More clusters than features, and too many for columns: a row each.
    ck_assert_int_eq(count_of(page, "class=\"heat turned\""), n == 300);
    if (cases[_i].weighted) assert_has(page, ">Weight</th>");
    if (d == 200) assert_has(page, "the 60 features that separate most, of 200");
    free(page);
    km_result_destroy(&result);
    km_data_destroy(&opened);
    km_data_destroy(&data);
    free(values);
}
END_TEST

// Results that no fit should give, and a page that still stands.
START_TEST(odd_results) {
    static const double scales[] = {1, 1e300, 1e-300, 0, -1, NAN, INFINITY, 1};
    static double values[150 * 3];
    sample *s = _i == 7 ? sample_make(40000, 25535, 2, 3) : sample_make(2, 1, 9, 3);
    km_data *data;
    for (int i = 0; i < 150 * 3; i++) values[i] = sin(i);
    ck_assert_int_eq(km_data_from_memory(&data, values, 150, 3, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    for (int m = 0; m < s->result.models_count; m++) {
        s->models[m].inertia *= scales[_i];
        if (_i == 5 || _i == 6)
            for (int c = 0; c < KM_CRITERION_COUNT; c++) s->models[m].scores[c] = m == 4 ? scales[_i] : NAN;
    }
    s->warnings[0] = "look <twice> (--scale standard), 0.1 % off at K = 3: try -k 4..5, no a-b - c";
    s->result.warnings_count = 1;
    char *page = page_of(&s->result, data, NULL, 300000);
    assert_has(page, "<li>look &lt;twice&gt; (<code>--scale</code> standard), 0.1&nbsp;% off at "
                     "K&nbsp;=&nbsp;3: try <code>-k</code> 4..5, no a-b - c</li>");
    free(page);
    km_data_destroy(&data);
    sample_free(s);
}
END_TEST

// Where the data look like no clusters, this is the answer.
START_TEST(no_clusters) {
    sample *s = sample_make(2, 1, 9, 4);
    km_data *data = iris();
    s->result.selection.clustered = 0;
    char *page = page_of(&s->result, data, NULL, 300000);
    assert_has(page, "<title>iris.csv: no clusters</title>");
    assert_has(page, "<strong>No clusters</strong>");
    assert_has(page, "The best K of the list is 4: ");
    free(page);
    km_data_destroy(&data);
    sample_free(s);
}
END_TEST

// Two different points: after the reason, which says that criteria say nothing, they are not counted.
START_TEST(no_inertia) {
    static const double values[] = {1, 2, 1, 2, 1, 2, 5, 7, 5, 7};
    km_data *data;
    ck_assert_int_eq(km_data_from_memory(&data, values, 5, 2, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    km_result *result = fit(data, "1..3", NULL);
    char *page = page_of(result, data, NULL, 100000);
    assert_has(page, "criteria say nothing there. </p>");
    free(page);
    km_result_destroy(&result);
    km_data_destroy(&data);
}
END_TEST

// Values whose differences are small beside them show these; what is written as 0 has no sign.
START_TEST(digits_of_centroids) {
    static const double values[] = {-1000004, -1e-4, -1000004, -1e-4, -999996.25, 1, -999996.25, 1};
    km_data *data;
    ck_assert_int_eq(km_data_from_memory(&data, values, 4, 2, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    km_result *result = fit(data, "2", NULL);
    char *page = page_of(result, data, NULL, 100000);
    assert_has(page, "<td>−999996.2</td>");
    assert_has(page, "<td>−1000004.0</td>");
    assert_has(page, "<td>0.000</td>");
    ck_assert_ptr_null(strstr(page, "−0.000<"));
    free(page);
    km_result_destroy(&result);
    km_data_destroy(&data);
}
END_TEST

// What refinement found is said where the dots of the restarts lie.
START_TEST(refined) {
    sample *s = sample_make(2, 1, 9, 4);
    km_data *data = iris();
    for (int m = 0; m < 9; m++) s->models[m].refined = m == 3;
    char *page = page_of(&s->result, data, NULL, 300000);
    assert_has(page, "for 1 of 9 K: there the line lies below");
    ck_assert_int_eq(count_of(page, "<td>refinement</td>"), 1);
    ck_assert_int_eq(count_of(page, "<td>a restart</td>"), 8);
    free(page);
    km_data_destroy(&data);
    sample_free(s);
}
END_TEST

START_TEST(refused) {
    static double values[12];
    km_error err = {""};
    km_report_params params;
    sample *s = sample_make(2, 1, 3, 4);
    km_data *other, *data = iris();
    ck_assert_int_eq(km_data_from_memory(&other, values, 3, 4, KM_FLOAT64, 0, 0, NULL, NULL), KM_OK);
    ck_assert_int_eq(km_result_report("r.html", &s->result, other, NULL, &err), KM_ERROR_USAGE);
    ck_assert_str_eq(
        err.text, "a report of 150 points with 4 features cannot be made of memory, which has 3 with 4: give "
                  "the data of the fit");
    km_report_params_init(&params);
    params.rows = 0;
    ck_assert_int_eq(km_result_report("r.html", &s->result, data, &params, NULL), KM_ERROR_USAGE);
    ck_assert_int_eq(km_result_report("/nowhere/r.html", &s->result, data, NULL, NULL), KM_ERROR_IO);
    ck_assert_int_eq(km_result_report("/dev/full", &s->result, data, NULL, NULL), KM_ERROR_IO);
    km_data_destroy(&other);
    km_data_destroy(&data);
    sample_free(s);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("html");
    TCase *pages = tcase_create("pages");
    tcase_add_checked_fixture(pages, make_folder, remove_folder);
    tcase_set_timeout(pages, 60);
    tcase_add_test(pages, page_of_iris);
    tcase_add_loop_test(pages, sample_labels, 0, 2);
    tcase_add_test(pages, sample_of_many);
    tcase_add_test(pages, hostile_names);
    tcase_add_loop_test(pages, odd_tables, 0, 10);
    tcase_add_loop_test(pages, odd_results, 0, 8);
    tcase_add_test(pages, no_clusters);
    tcase_add_test(pages, refined);
    tcase_add_test(pages, no_inertia);
    tcase_add_test(pages, digits_of_centroids);
    tcase_add_test(pages, refused);
    suite_add_tcase(suite, pages);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

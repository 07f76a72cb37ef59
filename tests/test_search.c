// SPDX-License-Identifier: MIT
// The search among candidates of a tuning: on spaces that were measured whole, tests/data/spaces, and on made ones. And
// the lines of the processes that measure.
#include "quiet_check.h"
#include "base/size.h"
#include "runtime/seed.h"
#include "runtime/tune/search.h"
#include "runtime/tune/worker.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES_MAX = 4096, FAMILIES_MAX = 64, SPACES_MAX = 32, SEEDS = 101 };

// A space whose times are known; ms: -1 where the candidate failed.
typedef struct space {
    char name[256];
    int64_t count, axes, standard;
    km_search_point points[CANDIDATES_MAX];
    double ms[CANDIDATES_MAX], best;
    char axis_names[KM_SEARCH_AXES_MAX][32], family_names[FAMILIES_MAX][128];
    int32_t families;
} space;

static space recorded[SPACES_MAX], made; // large
static int recorded_count;

// Recorded spaces -------------------------------------------------------------------------------------------

static int64_t axis_of(space *it, const char *name) {
    int64_t axis = 0;
    while (axis < it->axes && strcmp(it->axis_names[axis], name) != 0) axis++;
    ck_assert_int_lt(axis, KM_SEARCH_AXES_MAX);
    if (axis == it->axes) snprintf(it->axis_names[it->axes++], sizeof it->axis_names[0], "%s", name);
    return axis;
}

static int32_t family_of(space *it, const char *words) {
    int32_t family = 0;
    while (family < it->families && strcmp(it->family_names[family], words) != 0) family++;
    ck_assert_int_lt(family, FAMILIES_MAX);
    if (family == it->families)
        snprintf(it->family_names[it->families++], sizeof it->family_names[0], "%s", words);
    return family;
}

// The plan's words are the family, its numbers the place.
static void read_plan(space *it, km_search_point *point, json_t *plan) {
    char words[128] = "";
    const char *name;
    json_t *value;
    for (int axis = 0; axis < KM_SEARCH_AXES_MAX; axis++) point->value[axis] = -1;
    json_object_foreach(plan, name, value) {
        size_t used = strlen(words);
        if (json_is_string(value))
            snprintf(words + used, sizeof words - used, "%s ", json_string_value(value));
        else
            point->value[axis_of(it, name)] = json_number_value(value);
    }
    point->family = family_of(it, words);
}

static void read_space(space *it, const char *file) {
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/spaces/%s", KM_TEST_DATA, file);
    snprintf(it->name, sizeof it->name, "%s", file);
    json_t *whole = json_load_file(path, 0, &error);
    ck_assert_msg(whole != NULL, "%s: %s", path, error.text);
    json_t *candidates = json_object_get(whole, "candidates");
    it->count = (int64_t)json_array_size(candidates);
    it->standard = json_integer_value(json_object_get(whole, "default"));
    it->best = INFINITY;
    ck_assert_int_le(it->count, CANDIDATES_MAX);
    for (int64_t i = 0; i < it->count; i++) {
        json_t *candidate = json_array_get(candidates, (size_t)i);
        const char *outcome = json_string_value(json_object_get(candidate, "outcome"));
        read_plan(it, &it->points[i], json_object_get(candidate, "plan"));
        it->points[i].predicted_ms = json_number_value(json_object_get(candidate, "predicted_ms"));
        it->ms[i] = strcmp(outcome, "measured") ? -1 : json_number_value(json_object_get(candidate, "ms"));
        ck_assert_str_ne(outcome, "unmeasured"); // the whole space was measured
        if (it->ms[i] > 0) it->best = fmin(it->best, it->ms[i]);
    }
    json_decref(whole);
}

static void read_spaces(void) {
    DIR *folder = opendir(KM_TEST_DATA "/spaces");
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!strstr(entry->d_name, ".json")) continue;
        ck_assert_int_lt(recorded_count, SPACES_MAX);
        read_space(&recorded[recorded_count++], entry->d_name);
    }
    closedir(folder);
}

// Helpers ---------------------------------------------------------------------------------------------------

static km_search *start(const space *it, int64_t most) {
    km_error err = {{0}};
    km_search *search = NULL;
    km_status status = km_search_create(&search, it->points, it->count, it->axes, it->standard, most, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    return search;
}

// Measures what the search asks for until it has enough; how many it asked for.
static int64_t finish(km_search *search, const space *it) {
    int64_t asked = 0;
    char *seen = calloc((size_t)it->count + 1, 1);
    for (int64_t at; (at = km_search_next(search)) >= 0; asked++) {
        ck_assert_int_lt(at, it->count);
        ck_assert_msg(!seen[at], "%s: candidate %lld was asked for twice", it->name, (long long)at);
        seen[at] = 1;
        km_search_tell(search, at, it->ms[at]);
    }
    free(seen);
    return asked;
}

// Time of the best that was found over the best that there is, less 1.
static double loss_of(const space *it, double ms) {
    return ms / it->best - 1;
}

static double search_loss(const space *it, int64_t most) {
    km_search *search = start(it, most);
    int64_t asked = finish(search, it), best = km_search_best(search);
    ck_assert_int_le(asked, most);
    double loss = best < 0 ? INFINITY : loss_of(it, it->ms[best]);
    km_search_destroy(&search);
    ck_assert_ptr_null(search);
    return loss;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int64_t count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

// The default and so many others drawn at random, none twice; the median over seeds.
static double random_loss(const space *it, int64_t most) {
    double losses[SEEDS];
    int64_t *order = malloc((size_t)it->count * sizeof *order);
    for (int seed = 0; seed < SEEDS; seed++) {
        double ms = it->ms[it->standard] > 0 ? it->ms[it->standard] : INFINITY;
        for (int64_t i = 0; i < it->count; i++) order[i] = i;
        order[it->standard] = 0;
        order[0] = it->standard;
        for (int64_t i = 1; i < km_min(most, it->count); i++) {
            int64_t at = i + (int64_t)(km_draw((uint64_t)seed, 0, (uint64_t)i, 0) * (double)(it->count - i));
            int64_t drawn = order[at];
            order[at] = order[i];
            order[i] = drawn;
            if (it->ms[drawn] > 0) ms = fmin(ms, it->ms[drawn]);
        }
        losses[seed] = loss_of(it, ms);
    }
    free(order);
    return median(losses, SEEDS);
}

// Spaces that were measured -----------------------------------------------------------------------------------

// Within 2% of the best, median over the spaces, for a tenth of the measurements; never behind random search with as
// many.
START_TEST(recorded_spaces) {
    double losses[SPACES_MAX];
    int64_t large = 0;
    for (int i = 0; i < recorded_count; i++) {
        const space *it = &recorded[i];
        if (it->count <= KM_SEARCH_WHOLE) continue;
        int64_t most = km_divide_up(it->count, 10);
        double loss = losses[large++] = search_loss(it, most), drawn = random_loss(it, most);
        ck_assert_msg(loss <= drawn, "%s: the search loses %g, random search %g", it->name, loss, drawn);
    }
    ck_assert_int_ge(large, 5);
    ck_assert_double_le(median(losses, large), 0.02);
}
END_TEST

// A search that goes on with what an earlier one measured does not ask for it again, and ends as well.
START_TEST(recorded_resumed) {
    for (int i = 0; i < recorded_count; i++) {
        const space *it = &recorded[i];
        km_search *first = start(it, 0), *second = start(it, 0);
        int64_t half = km_search_most(first) / 2;
        for (int64_t told = 0; told < half; told++) {
            int64_t at = km_search_next(first);
            km_search_tell(first, at, it->ms[at]);
            km_search_tell(second, at, it->ms[at]);
        }
        ck_assert_int_eq(km_search_next(second), km_search_next(first));
        ck_assert_int_eq(finish(second, it), km_search_most(first) - half);
        finish(first, it);
        ck_assert_int_eq(km_search_told(second), km_search_most(second));
        ck_assert_int_eq(km_search_best(second), km_search_best(first));
        km_search_destroy(&first);
        km_search_destroy(&second);
    }
}
END_TEST

// Made spaces -------------------------------------------------------------------------------------------------

// Two axes and three families, whose times are wrong by a factor of each family and by more where blocks are large.
static void make_surface(int64_t blocks, int64_t lots) {
    static const double factor[] = {1.9, 0.8, 1.2};
    made = (space){.name = "made", .axes = 2, .count = 3 * blocks * lots, .best = INFINITY};
    for (int64_t i = 0; i < made.count; i++) {
        int64_t block = i % blocks, lot = i / blocks % lots, family = i / blocks / lots;
        double x = log2((double)(block + 1) / 5), y = log2((double)(lot + 1) / 3);
        made.points[i] =
            (km_search_point){.predicted_ms = 1 + 0.1 * x * x + 0.05 * fabs(y) + 0.5 * (double)family,
                              .family = (int32_t)family,
                              .value = {32 * (double)(block + 1), (double)(lot + 1)}};
        made.ms[i] = made.points[i].predicted_ms * factor[family] * (1 + 0.1 * x) * (1 + 0.05 * x * y);
        made.best = fmin(made.best, made.ms[i]);
    }
}

// So many candidates in a row, predicted and measured alike.
static void make_row(int64_t count) {
    made = (space){.name = "row", .axes = 1, .count = count, .best = 1};
    for (int64_t i = 0; i < count; i++) {
        made.points[i] = (km_search_point){.predicted_ms = 1, .value = {(double)(8 * i)}};
        made.ms[i] = 1;
    }
}

// The model thinks that the family of the best is half as fast again as the first one.
START_TEST(model_is_wrong) {
    make_surface(12, 8);
    km_search *search = start(&made, 0);
    ck_assert_int_eq(km_search_next(search), 0); // the default
    ck_assert_int_eq(finish(search, &made), km_divide_up(made.count, KM_SEARCH_SHARE));
    ck_assert_double_le(loss_of(&made, made.ms[km_search_best(search)]), 0.02);
    km_search_destroy(&search);
}
END_TEST

// Candidates near one that failed come later than those near one that took what the model had said.
START_TEST(failures_spread) {
    enum { COUNT = 41, FAILED = 10, MEASURED = 30, FEW = 3 };
    make_row(COUNT);
    for (int i = 0; i < COUNT; i++) made.points[i].value[0] = exp2(i / 4.0) - 1; // in equal steps
    km_search *search = start(&made, COUNT);
    km_search_tell(search, FAILED, -1);
    km_search_tell(search, MEASURED, 1);
    int64_t ahead[COUNT], place[COUNT] = {0};
    ck_assert_int_eq(km_search_ahead(search, ahead, COUNT), COUNT - 2);
    for (int i = 0; i < COUNT - 2; i++) place[ahead[i]] = i;
    for (int i = 1; i <= FEW; i++) {
        ck_assert_int_gt(place[FAILED + i], place[MEASURED + i]);
        ck_assert_int_gt(place[FAILED - i], place[MEASURED - i]);
    }
    km_search_destroy(&search);
}
END_TEST

START_TEST(all_fail) {
    static const double failures[] = {-1, 0, NAN, INFINITY};
    make_surface(12, 8);
    for (int64_t i = 0; i < made.count; i++) made.ms[i] = failures[i % 4];
    km_search *search = start(&made, 50);
    ck_assert_int_eq(km_search_best(search), -1);
    ck_assert_int_eq(finish(search, &made), 50);
    ck_assert_int_eq(km_search_best(search), -1);
    km_search_destroy(&search);
}
END_TEST

// Up to 32 candidates: each is measured, whatever the caller allows. One more: 24, or as many as the caller says.
START_TEST(small_spaces) {
    for (int64_t count = 0; count <= KM_SEARCH_WHOLE; count++) {
        make_row(count);
        if (!count) made.standard = -1;
        km_search *search = start(&made, count / 2);
        ck_assert_int_eq(finish(search, &made), count);
        ck_assert_int_eq(km_search_best(search), count ? 0 : -1);
        ck_assert_int_eq(km_search_told(search), count);
        km_search_destroy(&search);
    }
    static const int64_t most[][3] = {{33, 0, 24},  {33, 40, 33},  {33, 7, 7},    {240, 0, 24},
                                      {250, 0, 25}, {250, 26, 26}, {4000, 0, 400}};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        make_row(most[i][0]);
        km_search *search = start(&made, most[i][1]);
        ck_assert_int_eq(finish(search, &made), most[i][2]);
        km_search_destroy(&search);
    }
}
END_TEST

// Equal predictions and times: the order is that of the candidates, and so is the best.
START_TEST(ties) {
    make_row(100);
    for (int64_t i = 0; i < 100; i++) made.points[i].value[0] = 1;
    made.standard = -1;
    km_search *search = start(&made, 0);
    for (int64_t i = 0; i < KM_SEARCH_LEAST; i++) {
        ck_assert_int_eq(km_search_next(search), i);
        km_search_tell(search, i, 1);
    }
    ck_assert_int_eq(km_search_next(search), -1);
    ck_assert_int_eq(km_search_best(search), 0);
    km_search_destroy(&search);
}
END_TEST

// Predictions that say nothing: such candidates are taken as no better than the slowest of the others.
START_TEST(no_predictions) {
    static const double wrong[] = {NAN, INFINITY, -INFINITY, 0, -1};
    make_surface(12, 8);
    for (int64_t i = 0; i < made.count; i += 3) made.points[i].predicted_ms = wrong[i / 3 % 5];
    km_search *search = start(&made, 0);
    int64_t ahead[CANDIDATES_MAX];
    int64_t count = km_search_ahead(search, ahead, CANDIDATES_MAX);
    ck_assert_int_eq(ahead[0], 0); // the default
    for (int64_t i = 1; i < count; i++) ck_assert_int_ne(ahead[i] % 3, 0);
    ck_assert_int_eq(finish(search, &made), km_search_most(search));
    ck_assert_double_le(loss_of(&made, made.ms[km_search_best(search)]), 0.2);
    km_search_destroy(&search);
    for (int64_t i = 0; i < made.count; i++) made.points[i].predicted_ms = wrong[i % 5];
    search = start(&made, made.count);
    ck_assert_int_eq(finish(search, &made), made.count);
    ck_assert_double_le(made.ms[km_search_best(search)], made.best);
    km_search_destroy(&search);
}
END_TEST

// What comes next if nothing is learnt: the default, then others, none twice, none that was told, as many as are left.
START_TEST(ahead) {
    make_surface(12, 8);
    made.standard = 77;
    km_search *search = start(&made, 30);
    int64_t out[64] = {0};
    for (int64_t told = 0; told < 30; told++) {
        int64_t count = km_search_ahead(search, out, 64);
        ck_assert_int_eq(count, 30 - told);
        ck_assert_int_eq(out[0], km_search_next(search));
        ck_assert(told || out[0] == 77);
        for (int64_t i = 0; i < count; i++)
            for (int64_t j = 0; j < i; j++) ck_assert_int_ne(out[i], out[j]);
        for (int64_t i = 0; i < count; i++) ck_assert(!told || out[i] != 77);
        int64_t few[3];
        ck_assert_int_eq(km_search_ahead(search, few, 3), km_min(3, count));
        for (int64_t i = 0; i < km_min(3, count); i++) ck_assert_int_eq(few[i], out[i]);
        km_search_tell(search, out[0], made.ms[out[0]]);
    }
    ck_assert_int_eq(km_search_ahead(search, out, 64), 0);
    km_search_destroy(&search);
}
END_TEST

// A time that is told again takes the place of the first: the search goes on as if it had been told the last alone.
START_TEST(told_again) {
    make_surface(12, 8);
    km_search *twice = start(&made, 0), *once = start(&made, 0);
    for (int64_t at; (at = km_search_next(once)) >= 0;) {
        ck_assert_int_eq(km_search_next(twice), at);
        km_search_tell(once, at, made.ms[at]);
        km_search_tell(twice, at, 0.01);
        ck_assert_int_eq(km_search_best(twice), at);
        km_search_tell(twice, at, -1);
        km_search_tell(twice, at, made.ms[at]);
        ck_assert_int_eq(km_search_best(twice), km_search_best(once));
        ck_assert_int_eq(km_search_told(twice), km_search_told(once));
    }
    km_search_destroy(&twice);
    km_search_destroy(&once);
}
END_TEST

// What an earlier run measured counts, even where it is more than this one may, or no candidate at all.
START_TEST(told_unasked) {
    make_surface(12, 8);
    km_search *search = start(&made, 40);
    km_search_tell(search, -1, 1);
    km_search_tell(search, made.count, 1);
    ck_assert_int_eq(km_search_told(search), 0);
    for (int64_t i = 200; i < 230; i++) km_search_tell(search, i, made.ms[i]);
    ck_assert_int_eq(finish(search, &made), 10);
    for (int64_t i = 0; i < 60; i++) km_search_tell(search, i, made.ms[i]);
    ck_assert_int_eq(km_search_next(search), -1);
    ck_assert_int_ge(km_search_told(search), 80);
    km_search_destroy(&search);
}
END_TEST

START_TEST(too_many_axes) {
    km_error err = {{0}};
    km_search *search;
    make_row(3);
    ck_assert_int_eq(km_search_create(&search, made.points, 3, KM_SEARCH_AXES_MAX + 1, 0, 0, &err),
                     KM_ERROR_USAGE);
    ck_assert_ptr_null(search);
    ck_assert_str_eq(err.text, "a search has at most 32 axes, got 33");
    km_search_destroy(&search);
}
END_TEST

// A worker whose two lines come by one read, or whose answer comes in two pieces.
START_TEST(lines_of_a_worker) {
    static char *const together[] = {
        "sh", "-c", "read -r open; printf '{\"timing\":true}\\n{\"status\":0,\"read_ms\":7}\\n'; read -r end",
        NULL};
    static char *const apart[] = {"sh", "-c",
                                  "read -r open; printf '{\"timing\":true}\\n{\"status\":0,'; sleep 0.1; "
                                  "printf '\"read_ms\":7}\\n'; read -r end",
                                  NULL};
    char *const *workers[] = {together, apart};
    km_spec spec;
    km_error err = {{0}};
    km_worker worker;
    km_status status;
    double ms = 0;
    km_spec_init(&spec);
    const char *text = "features: 2\nclusters: 2..3\ntarget: cpu\n";
    ck_assert_int_eq(km_spec_parse(&spec, text, (int64_t)strlen(text), "spec", &err), KM_OK);
    km_measure_params params = {.spec = &spec, .device = KM_HOST, .points = 1};
    ck_assert_int_eq(km_worker_start(&worker, workers[_i], &params, &err), KM_OK);
    ck_assert_int_eq(km_worker_wait(&worker, 60e3, NULL, &ms, NULL, &status, &err), KM_WORKER_TIMING);
    ck_assert_int_eq(km_worker_wait(&worker, 60e3, NULL, &ms, NULL, &status, &err), KM_WORKER_DONE);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    ck_assert_double_eq(ms, 7);
    ck_assert_int_eq(km_worker_wait(&worker, 0, NULL, &ms, NULL, &status, &err), KM_WORKER_NONE);
    km_worker_stop(&worker);
    km_spec_clear(&spec);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("search");
    TCase *tcase = tcase_create("search");
    tcase_set_timeout(tcase, 60);
    tcase_add_unchecked_fixture(tcase, read_spaces, NULL);
    tcase_add_test(tcase, recorded_spaces);
    tcase_add_test(tcase, recorded_resumed);
    tcase_add_test(tcase, model_is_wrong);
    tcase_add_test(tcase, failures_spread);
    tcase_add_test(tcase, all_fail);
    tcase_add_test(tcase, small_spaces);
    tcase_add_test(tcase, ties);
    tcase_add_test(tcase, no_predictions);
    tcase_add_test(tcase, ahead);
    tcase_add_test(tcase, told_again);
    tcase_add_test(tcase, told_unasked);
    tcase_add_test(tcase, too_many_axes);
    tcase_add_loop_test(tcase, lines_of_a_worker, 0, 2);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

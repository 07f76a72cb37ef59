// SPDX-License-Identifier: MIT
// What a caller's answer to stop ends beside a sweep: a compiler that is waited for, and predicting. Nothing here looks
// at a clock: after the answer nobody asks again, and nothing is left that works on.
#include "../runtime/predictor.h"
#include "quiet_check.h"
#include <kmgen/fit.h>
#include <kmgen/model.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/kmgen-stop-XXXXXX";
static char compiler[64], started[64], cache[64];

// What is asked ---------------------------------------------------------------------------------------------

typedef struct asked {
    int64_t calls, stop_at; // the call that says stop; 0: the first once the compiler has started
    int has_stopped, calls_after;
    char phase[16]; // of that call
} asked;

static int answer(void *user, const km_progress *progress) {
    asked *a = user;
    a->calls++;
    a->calls_after += a->has_stopped;
    if (a->has_stopped || (a->stop_at ? a->calls == a->stop_at : access(started, F_OK) == 0)) {
        if (!a->has_stopped) snprintf(a->phase, sizeof a->phase, "%s", progress->phase);
        a->has_stopped = 1;
    }
    return a->has_stopped;
}

static void check_obeyed(const asked *a, km_status status, const km_error *err, const char *phase) {
    ck_assert_msg(status == KM_ERROR_INTERRUPTED, "status %d: %s", status, err->text);
    ck_assert_int_eq(a->calls_after, 0);
    ck_assert_str_eq(a->phase, phase);
}

// A compiler that does not end --------------------------------------------------------------------------------

static void setup(void) {
    ck_assert_ptr_nonnull(mkdtemp(strcpy(folder, "/tmp/kmgen-stop-XXXXXX")));
    snprintf(compiler, sizeof compiler, "%s/cc", folder);
    snprintf(started, sizeof started, "%s/started", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    ck_assert_int_eq(mkdir(cache, 0700), 0);
}

static void teardown(void) {
    unlink(compiler);
    unlink(started);
    ck_assert_int_eq(rmdir(cache), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

// It starts another process, leaves half a file, and says who they are and where that file is.
static void write_compiler(int is_deaf) {
    FILE *file = fopen(compiler, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file,
            "#!/bin/sh\n%s\nlast=\nfor a; do [ \"$last\" = -o ] && out=$a; last=$a; done\n"
            "echo half >\"$out\"\nsleep 600 &\necho \"$$ $! $out\" >%s.new\nmv %s.new %s\nwait\nsleep 600\n",
            is_deaf ? "trap '' TERM" : "", started, started, started);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(compiler, 0700), 0);
}

// 0 where there is no such process, or only what its parent has not looked at yet.
static int runs(int process) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int found = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return found == 1 && state != 'Z' && state != 'X';
}

static int entries_of(const char *path) {
    int count = 0;
    DIR *opened = opendir(path);
    for (struct dirent *item; opened && (item = readdir(opened));) count += item->d_name[0] != '.';
    if (opened) closedir(opened);
    return count;
}

// Whether it listens to a kind word or not, and wherever its file is: processes and files are gone.
START_TEST(a_compiler_is_ended) {
    enum { N = 4000 };
    float *values = calloc(N, 3 * sizeof *values);
    int processes[2] = {0, 0};
    char half[512] = "";
    asked a = {0};
    km_spec spec;
    km_fit_params params;
    km_data *data = NULL;
    km_result *result = NULL;
    km_error err = {{0}};
    for (int i = 0; i < 3 * N; i++) values[i] = (float)(i % 97) * (float)(i % 31);
    write_compiler(_i & 1);
    km_spec_init(&spec);
    km_fit_params_init(&params);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..4", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "lanes", &err), KM_OK);
    ck_assert_int_eq(km_data_from_memory(&data, values, N, 3, KM_FLOAT32, 0, 0, NULL, &err), KM_OK);
    params.device = KM_HOST;
    params.compiler = compiler;
    params.cache_dir = _i & 2 ? cache : NULL;
    params.progress = answer;
    params.progress_user = &a;
    km_status status = km_fit(&result, &spec, data, &params, &err);
    check_obeyed(&a, status, &err, "build");
    ck_assert_ptr_null(result);
    FILE *file = fopen(started, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%d %d %511s", &processes[0], &processes[1], half), 3);
    fclose(file);
    for (int p = 0; p < 2; p++) {
        for (int turn = 0; turn < 1000 && runs(processes[p]); turn++)
            usleep(10000); // a killed process takes a moment
        ck_assert_msg(!runs(processes[p]), "process %d of 2 still runs", p + 1);
    }
    ck_assert_int_ne(access(half, F_OK), 0);
    ck_assert_int_eq(entries_of(cache), 0);
    km_data_destroy(&data);
    km_spec_clear(&spec);
    free(values);
}
END_TEST

static int never(void *user, const km_progress *progress) {
    (void)user, (void)progress;
    return 0;
}

// A program that ignores SIGCHLD cannot be told how its compiler ended: that is no success, and nobody waits for ever.
START_TEST(a_compiler_that_is_lost) {
    static float values[4000 * 3];
    km_spec spec;
    km_fit_params params;
    km_data *data = NULL;
    km_result *result = NULL;
    km_error err = {{0}};
    FILE *file = fopen(compiler, "w");
    ck_assert_ptr_nonnull(file);
    fputs("#!/bin/sh\nexit 1\n", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(compiler, 0700), 0);
    for (int i = 0; i < 4000 * 3; i++) values[i] = (float)(i % 97) * (float)(i % 31);
    signal(SIGCHLD, SIG_IGN);
    km_spec_init(&spec);
    km_fit_params_init(&params);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..4", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "lanes", &err), KM_OK);
    ck_assert_int_eq(km_data_from_memory(&data, values, 4000, 3, KM_FLOAT32, 0, 0, NULL, &err), KM_OK);
    params.device = KM_HOST;
    params.compiler = compiler;
    params.progress = _i ? never : NULL;
    ck_assert_msg(km_fit(&result, &spec, data, &params, &err) == KM_OK, "%s", err.text);
    ck_assert_int_ge(result->warnings_count, 1);
    ck_assert_ptr_nonnull(strstr(result->warnings[0], "the design prebuilt is used: lost "));
    km_result_destroy(&result);
    km_data_destroy(&data);
    km_spec_clear(&spec);
}
END_TEST

// Predicting --------------------------------------------------------------------------------------------------

// The first question is before the points are looked at, the next ones inside the loops: no label is written then.
START_TEST(predicting_is_stopped) {
    enum { N = 300000, D = 4, K = 4000 };
    double centre[D] = {0}, factor[D] = {1, 1, 1, 1}, *centroids = calloc(K * D, sizeof *centroids);
    float *values = calloc(N * D, sizeof *values);
    int32_t *labels = malloc(N * sizeof *labels);
    for (int i = 0; i < K * D; i++) centroids[i] = (double)(i % 613) / 1024;
    for (int i = 0; i < N * D; i++) values[i] = (float)(i % 997) / 1024;
    for (int i = 0; i < N; i++) labels[i] = -7;
    km_predictor predictor = {.d = D,
                              .k = K,
                              .type = KM_FLOAT32,
                              .layout = KM_LAYOUT_DENSE,
                              .centre = centre,
                              .factor = factor,
                              .has_exponent = 1,
                              .centroids_fitted = centroids,
                              .centroids = centroids};
    asked a = {.stop_at = _i + 1};
    km_error err = {{0}};
    km_data *data = NULL;
    km_fit_params params;
    km_fit_params_init(&params);
    params.device = KM_HOST;
    params.threads = 1 + _i % 2;
    params.progress = answer;
    params.progress_user = &a;
    ck_assert_int_eq(km_data_from_memory(&data, values, N, D, KM_FLOAT32, 0, 0, NULL, &err), KM_OK);
    check_obeyed(&a, km_predict(labels, &predictor, data, &params, &err), &err, "predict");
    for (int i = 0; i < N; i++) ck_assert_int_eq(labels[i], -7);
    km_data_destroy(&data);
    free(labels);
    free(values);
    free(centroids);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stop");
    TCase *compilers = tcase_create("compilers"), *predicting = tcase_create("predicting");
    tcase_add_checked_fixture(compilers, setup, teardown);
    tcase_add_loop_test(compilers, a_compiler_is_ended, 0, 4);
    tcase_add_loop_test(compilers, a_compiler_that_is_lost, 0, 2);
    tcase_set_timeout(compilers, 120);
    tcase_add_loop_test(predicting, predicting_is_stopped, 0, 3);
    tcase_set_timeout(predicting, 120);
    suite_add_tcase(suite, compilers);
    suite_add_tcase(suite, predicting);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

// SPDX-License-Identifier: MIT
// A fit that begins with a starting pass, while the plan's own kernels are being compiled, finds the same bits whenever
// it goes over to them: after a pass, two, five, or never. Each form of the design, on points with ties.
//
//     test_start
//
// Exits 77 (skipped) without a CUDA device.
#include "device_main.h"
#include "reference.h"
#include "../templates/both.h"
#include "../templates/draws.h"
#include "runtime/fit/job.h"
#include "short_form.h"
#include <kmgen/fit.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct shape {
    const char *form, *clusters;
    int64_t d;
} shape;

static const shape shapes[] = {{"distance", "2..7", 4},        {"rounded", "2..8", 7}, {"hi_lo", "2..5", 18},
                               {"digits", "2,3,4,5,6,11", 24}, {"digits", "3,9", 61},  {"rows", "5,90", 11}};
enum { SHAPES = sizeof shapes / sizeof *shapes, POINTS = 70001, FEW_POINTS = 2003 };

static int64_t points_count(void) {
    return is_emulated() ? FEW_POINTS : POINTS;
}

static void must(km_status status, const km_error *err, const char *what) {
    ck_assert_msg(status == KM_OK, "%s: %s: %s", what, km_status_name(status), err->text);
}

// Half of the points lie on a coarse lattice, where many are equally near to two centroids; one lies far out.
static float *points_of(int64_t d) {
    float *x = malloc((size_t)(POINTS * d) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < POINTS; i++)
        for (int64_t f = 0; f < d; f++) {
            double u = km_draw(7, (uint64_t)d, (uint64_t)i, (uint64_t)f);
            x[i * d + f] = (float)(i % 2 ? floor(4 * u) : 3 * u + (double)(i % 5));
        }
    memcpy(x + 2 * d, x, (size_t)d * sizeof *x);
    for (int64_t f = 0; f < d; f += 2) x[5 * d + f] = 300;
    return x;
}

// What the log says of the starting pass: how many passes were its.
static void listen(void *user, km_log_level level, const char *text) {
    const char *line = strstr(text, "pass: ");
    (void)level;
    if (line && strstr(line, "by the starting pass")) *(int64_t *)user = strtoll(line + 6, NULL, 10);
}

static uint64_t fit(const shape *s, const float *x, const char *kernels, int64_t start_passes,
                    int64_t *started, int64_t *passes) {
    km_error err = {{0}};
    km_data *data;
    km_spec spec;
    km_result *result;
    km_fit_params params;
    *started = -1;
    const km_log log = {listen, started};
    must(km_data_from_memory(&data, x, points_count(), s->d, KM_FLOAT32, 0, 0, NULL, &err), &err, "data");
    km_spec_init(&spec);
    must(km_spec_set_target(&spec, "cuda", &err), &err, "target");
    must(km_spec_set_clusters(&spec, s->clusters, &err), &err, "clusters");
    must(km_spec_fix(&spec, "design", "tensor", &err), &err, "design");
    must(km_spec_fix(&spec, "form", s->form, &err), &err, "form");
    km_fit_params_init(&params);
    spec.n_init = 2;
    params.labels = KM_LABELS_ALL;
    params.cache_dir = kernels;
    params.log = &log;
    if (is_emulated()) params.max_iter = 10, params.refine = 0;
    km_fit_start_passes = start_passes;
    must(km_fit(&result, &spec, data, &params, &err), &err, s->form);
    km_fit_start_passes = -1;
    uint64_t digest = km_result_digest(result);
    *passes = result->passes;
    km_result_destroy(&result);
    km_spec_clear(&spec);
    km_data_destroy(&data);
    return digest;
}

START_TEST(same_bits_whenever_it_goes_over) {
    static const int64_t after[] = {1, 2, 5, KM_START_ALWAYS, -1};
    const shape *s = &shapes[_i];
    float *x = points_of(s->d);
    int64_t started, passes, all;
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        if (is_few() && i > 0 && after[i] != -1) continue;
        char own[4200];
        snprintf(own, sizeof own, "%s/%s-%d-%zu", folder, s->form, (int)s->d, i);
        uint64_t begun = fit(s, x, own, after[i], &started, &passes);
        ck_assert_msg(started >= (after[i] == -1                ? 0
                                  : after[i] == KM_START_ALWAYS ? 5
                                                                : after[i]),
                      "%s: %lld passes of %lld by the starting pass, %lld wanted", s->form,
                      (long long)started, (long long)passes, (long long)after[i]);
        if (after[i] > 0 && after[i] != KM_START_ALWAYS) ck_assert_int_eq(started, after[i]);
        if (i > 0) {
            ck_assert_msg(begun == first, "%s, after %lld passes: another digest", s->form,
                          (long long)after[i]);
            continue;
        }
        first = fit(s, x, own, -1, &started, &all); // all kernels are in the cache
        ck_assert_int_eq(started, -1);
        ck_assert_int_eq(passes, all);
        ck_assert_msg(begun == first, "%s, after %lld passes: another digest", s->form, (long long)after[i]);
    }
    free(x);
}
END_TEST

static Suite *suite_of(void) {
    Suite *suite = suite_create("start");
    TCase *tests = tcase_create("start");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, same_bits_whenever_it_goes_over, is_few() ? 1 : 0, is_few() ? 2 : SHAPES);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void) {
    return device_main("start", 1, suite_of);
}

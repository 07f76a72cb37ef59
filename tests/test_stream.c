// SPDX-License-Identifier: MIT
// Points that do not fit the device come from the host in every pass: with whatever part of them on the device, and in
// windows of any size, a fit has the bits of one that has them all, and takes the memory that was planned.
//
//     test_stream
//
// Exits 77 (skipped) without a CUDA device.
#include "../base/size.h"
#include "../gen/memory.h"
#include "../templates/both.h"
#include "../templates/draws.h"
#include "device_main.h"
#include "reference.h"
#include "short_form.h"
#include <kmgen/fit.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct shape {
    const char *design, *form; // form "": the planner's
    const char *clusters;
    int64_t n, d, n_init;
    km_type type, values; // of the kernels, of the points in memory
    int weighted, csr;
    int64_t changes_min;
    int few; // distinct points
} shape;

static const shape shapes[] = {
    {"tensor", "rounded", "3..12", 600007, 8, 3, KM_FLOAT32, KM_FLOAT32, 0, 0, 0, 0},
    {"tensor", "distance", "2..7", 900001, 4, 2, KM_FLOAT32, KM_FLOAT64, 0, 0, 0, 0},
    {"tensor", "hi_lo", "2..5", 300003, 18, 1, KM_FLOAT32, KM_FLOAT32, 0, 0, 3, 0},
    {"tensor", "rounded", "12,18", 900001, 4, 1, KM_FLOAT32, KM_FLOAT32, 0, 0, 0, 1},
    {"tensor", "digits", "2,3,4,5,6,11", 200003, 24, 2, KM_FLOAT32, KM_FLOAT32, 0, 0, 0, 0},
    {"tensor", "rows", "5,90", 200003, 11, 1, KM_FLOAT32, KM_FLOAT32, 0, 0, 0, 0},
    {"registers", "", "3..5", 300001, 4, 2, KM_FLOAT32, KM_FLOAT32, 1, 0, 0, 0},
    {"registers", "", "2..4", 700003, 3, 1, KM_FLOAT64, KM_FLOAT64, 0, 0, 3, 0},
    {"tiled", "", "20,40", 200003, 30, 1, KM_FLOAT64, KM_FLOAT64, 0, 0, 0, 0},
    {"tiled", "", "300", 200003, 16, 1, KM_FLOAT32, KM_FLOAT32, 0, 0, 0, 0},
    {"sparse_warps", "", "2..6", 500001, 40, 2, KM_FLOAT32, KM_FLOAT32, 0, 1, 0, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, OTHERS = 6 }; // from there on of designs without windows

static void must(km_status status, const km_error *err, const char *what) {
    ck_assert_msg(status == KM_OK, "%s: %s: %s", what, km_status_name(status), err->text);
}

// Half of the points lie on a coarse lattice, where many are equally near to two centroids; of CSR most values are 0.
static double value_of(const shape *s, int64_t i, int64_t f) {
    double u = km_draw(7, (uint64_t)s->d, (uint64_t)i, (uint64_t)f);
    if (s->csr && (i + f) % 8) return 0;
    if (s->few) return floor(2 * u);
    if (i == 5 && f % 2 == 0) return 300;
    return i % 2 ? floor(4 * u) : 3 * u + (double)(i % 5);
}

static void *points_of(const shape *s, double **weights) {
    size_t size = s->values == KM_FLOAT64 ? 8 : 4;
    void *x = malloc((size_t)(s->n * s->d) * size);
    *weights = s->weighted ? malloc((size_t)s->n * sizeof **weights) : NULL;
    ck_assert(x && (*weights || !s->weighted));
    for (int64_t i = 0; i < s->n * s->d; i++) {
        double value = value_of(s, i / s->d, i % s->d);
        if (s->values == KM_FLOAT64)
            ((double *)x)[i] = value;
        else
            ((float *)x)[i] = (float)value;
    }
    for (int64_t i = 0; s->weighted && i < s->n; i++) (*weights)[i] = 0.5 + (double)(i % 3);
    return x;
}

typedef struct job {
    km_data *data;
    km_spec spec;
    km_fit_params params;
    void *x;
    double *weights;
    double held_most; // MiB of the device, as the engine counts
} job;

static void listen(void *user, km_log_level level, const char *text) {
    job *j = user;
    const char *at = strstr(text, " MiB of the device held, ");
    (void)level;
    if (!at) return;
    double most = strtod(at + strlen(" MiB of the device held, "), NULL);
    if (most > j->held_most) j->held_most = most;
}

static void job_begin(job *j, const shape *s) {
    km_error err = {{0}};
    static km_log log;
    *j = (job){.x = NULL};
    log = (km_log){listen, j};
    j->x = points_of(s, &j->weights);
    must(km_data_from_memory(&j->data, j->x, s->n, s->d, s->values, 0, 0, j->weights, &err), &err, "data");
    km_spec_init(&j->spec);
    must(km_spec_set_target(&j->spec, "cuda", &err), &err, "target");
    must(km_spec_set_clusters(&j->spec, s->clusters, &err), &err, "clusters");
    must(km_spec_fix(&j->spec, "design", s->design, &err), &err, "design");
    if (*s->form) must(km_spec_fix(&j->spec, "form", s->form, &err), &err, "form");
    if (s->csr) j->spec.layout = KM_LAYOUT_CSR;
    j->spec.type = s->type;
    j->spec.n_init = s->n_init;
    km_fit_params_init(&j->params);
    j->params.labels = KM_LABELS_ALL;
    j->params.cache_dir = cache;
    j->params.changes_min = s->changes_min;
    j->params.refine = s->n_init > 2 ? 40 : 0;
    j->params.max_iter = is_emulated() ? 3 : 40;
    j->params.criterion = KM_CRITERION_silhouette;
    j->params.algorithm = KM_ALGORITHM_LLOYD;
    j->params.log = &log;
}

static void job_end(job *j) {
    km_data_destroy(&j->data);
    km_spec_clear(&j->spec);
    free(j->x);
    free(j->weights);
}

// What a fit takes of the device's memory within a bound; *streams: whether points stay on the host.
static int64_t planned(job *j, int64_t bound, int *streams) {
    km_error err = {{0}};
    km_plan plan;
    km_plan_init(&plan);
    j->params.device_memory_max = bound;
    km_status status = km_fit_plan(&plan, &j->spec, j->data, &j->params, &err);
    if (status != KM_ERROR_MEMORY) must(status, &err, "plan");
    int64_t bytes = plan.memory_bytes;
    *streams = plan.streams;
    km_plan_clear(&plan);
    return bytes;
}

static uint64_t fit(job *j, int64_t bound, int64_t *streamed) {
    km_error err = {{0}};
    km_result *result;
    j->params.device_memory_max = bound;
    j->held_most = 0;
    must(km_fit(&result, &j->spec, j->data, &j->params, &err), &err, "fit");
    uint64_t digest = km_result_digest(result);
    *streamed = result->plan.streams ? result->plan.streamed_bytes : -1;
    if (bound) ck_assert_int_le(result->plan.memory_bytes, bound);
    // The driver's own is beside what the engine counts.
    double own = (double)(result->plan.memory_bytes >> 20) - 96;
    ck_assert_msg(j->held_most <= own + 1, "%.1f MiB were planned, %.1f are held", own, j->held_most);
    km_result_destroy(&result);
    return digest;
}

START_TEST(same_bits_whatever_is_on_the_device) {
    shape taken = shapes[_i], *s = &taken;
    if (is_emulated()) taken.n_init = 1;
    job j;
    int streams;
    int64_t streamed, table = s->n * s->d * (s->type == KM_FLOAT64 ? 8 : 4);
    job_begin(&j, s);
    int64_t whole = planned(&j, 0, &streams);
    ck_assert(!streams);
    uint64_t digest = fit(&j, 0, &streamed);
    int fits = 0;
    ck_assert_int_eq(streamed, -1);
    static const int64_t windows[] = {4096, 16384, 65536};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        km_window_points = windows[w];
        int64_t least = planned(&j, 1, &streams); // nothing of the points
        ck_assert(streams);
        const int64_t bounds[] = {least, least + table / 2, km_min(least + table, whole - 1)};
        for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
            if (bounds[b] >= whole || (w == 2 && b != 1)) continue; // it would fit; all windows are as large
            if (s->csr && b > 0) continue;                          // the table has fewer bytes
            uint64_t own = fit(&j, bounds[b], &streamed);
            ck_assert_msg(own == digest, "%s %s, %lld of %lld bytes, windows of %lld: another digest",
                          s->design, s->form, (long long)bounds[b], (long long)whole, (long long)windows[w]);
            ck_assert_int_ge(streamed, 0);
            fits++;
            if (b == 0 && !s->csr) ck_assert_int_ge(streamed, table);
            if (b == 1 && !s->csr) ck_assert_int_lt(streamed, table);
        }
        if (is_emulated() || strcmp(s->design, "tensor") != 0) break; // it has no windows
    }
    km_window_points = 0;
    ck_assert_int_ge(fits, s->csr ? 1 : 2);
    job_end(&j);
}
END_TEST

// What the driver counts ---------------------------------------------------------------------------------------

enum { MANY = 1 << 24, MANY_FEATURES = 8 };

static struct driver {
    void *context;
    int (*enter)(void *), (*leave)(void **), (*take)(uint64_t *, size_t), (*give)(uint64_t);
    int (*left)(size_t *, size_t *);
} driver;

static void driver_open(void) {
    int (*retain)(void **, int);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE);
    struct {
        void *to;
        const char *name;
    } symbols[] = {{&retain, "cuDevicePrimaryCtxRetain"}, {&driver.enter, "cuCtxPushCurrent_v2"},
                   {&driver.leave, "cuCtxPopCurrent_v2"}, {&driver.take, "cuMemAlloc_v2"},
                   {&driver.give, "cuMemFree_v2"},        {&driver.left, "cuMemGetInfo_v2"}};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    ck_assert_int_eq(retain(&driver.context, 0), 0);
}

static int64_t free_bytes(void) {
    size_t left = 0, all;
    driver.enter(driver.context);
    driver.left(&left, &all);
    driver.leave(&(void *){NULL});
    return (int64_t)left;
}

// Clusters of uniform points.
static float *many_points(void) {
    float *x = malloc((size_t)MANY * MANY_FEATURES * sizeof *x);
    ck_assert_ptr_nonnull(x);
    uint64_t state = 3;
    for (int64_t i = 0; i < (int64_t)MANY * MANY_FEATURES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(state >> 40) * 0x1p-24 + (double)(i / MANY_FEATURES * 7919 % 11));
    }
    return x;
}

// Counters while a fit runs; `taken`: what another one takes, once the plan is made.
typedef struct watch {
    int64_t least; // that was free
    int64_t leaves;
    uint64_t taken;
} watch;

static int look(void *user, const km_progress *progress) {
    watch *w = user;
    (void)progress;
    w->least = km_min(w->least, free_bytes());
    return 0;
}

static void take_memory(void *user, km_log_level level, const char *text) {
    watch *w = user;
    (void)level;
    if (!w->leaves || w->taken || !strstr(text, "fit: planned")) return;
    driver.enter(driver.context);
    ck_assert_int_eq(driver.take(&w->taken, (size_t)(free_bytes() - w->leaves)), 0);
    driver.leave(&(void *){NULL});
}

static km_result *fit_many(const float *x, int64_t bound, watch *w) {
    km_error err = {{0}};
    km_result *result;
    km_data *data;
    km_spec spec;
    km_fit_params params;
    const km_log log = {take_memory, w};
    must(km_data_from_memory(&data, x, MANY, MANY_FEATURES, KM_FLOAT32, 0, 0, NULL, &err), &err, "data");
    km_spec_init(&spec);
    km_fit_params_init(&params);
    must(km_spec_set_target(&spec, "cuda", &err), &err, "target");
    must(km_spec_set_clusters(&spec, "3..6", &err), &err, "clusters");
    must(km_spec_fix(&spec, "design", "tensor", &err), &err, "design");
    spec.n_init = 2;
    params.max_iter = 5;
    params.labels = KM_LABELS_BEST;
    params.algorithm = KM_ALGORITHM_LLOYD;
    params.cache_dir = cache;
    params.device_memory_max = bound;
    params.progress = look;
    params.progress_user = w;
    params.log = &log;
    w->least = INT64_MAX;
    must(km_fit(&result, &spec, data, &params, &err), &err, "fit");
    km_spec_clear(&spec);
    km_data_destroy(&data);
    return result;
}

// Within 10 % and 50 MB.
START_TEST(takes_what_was_planned) {
    static const int64_t bounds[] = {0, 256, 700};
    driver_open();
    float *x = many_points();
    uint64_t digest = 0;
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        watch w = {0};
        km_result_destroy(&(km_result *){fit_many(x, bounds[b] << 20, &w)}); // what the driver keeps is there
        int64_t before = free_bytes();
        km_result *result = fit_many(x, bounds[b] << 20, &w);
        double planned = (double)result->plan.memory_bytes, taken = (double)(before - w.least);
        ck_assert_int_eq(result->plan.streams, b > 0);
        ck_assert_msg(taken <= 1.1 * planned + 5e7 && taken >= 0.9 * planned - 5e7 - (96 << 20),
                      "bound %lld: %.1f MiB were planned, %.1f taken", (long long)bounds[b], planned / 0x1p20,
                      taken / 0x1p20);
        printf("bound %lld MiB: %.1f MiB planned, %.1f taken\n", (long long)bounds[b], planned / 0x1p20,
               taken / 0x1p20);
        if (b == 0) digest = km_result_digest(result);
        ck_assert(km_result_digest(result) == digest);
        km_result_destroy(&result);
    }
    free(x);
}
END_TEST

// Another process takes the memory that was free: the fit goes on with points on the host, and says so.
START_TEST(memory_goes_after_the_plan) {
    driver_open();
    float *x = many_points();
    watch w = {0};
    km_result *result = fit_many(x, 0, &w);
    uint64_t digest = km_result_digest(result);
    ck_assert(!result->plan.streams);
    km_result_destroy(&result);
    static const int64_t left[] = {
        400, 900}; // the points do not fit; they do, and not what passes have beside them
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        w = (watch){.leaves = left[i] << 20};
        result = fit_many(x, 0, &w);
        ck_assert(w.taken != 0);
        driver.enter(driver.context);
        driver.give(w.taken);
        driver.leave(&(void *){NULL});
        int said = 0;
        for (int64_t r = 0; r < result->warnings_count; r++)
            said |= strstr(result->warnings[r], "points come from the host") != NULL;
        ck_assert(result->plan.streams && said);
        ck_assert_msg(km_result_digest(result) == digest, "%lld MiB left: another digest",
                      (long long)left[i]);
        km_result_destroy(&result);
    }
    free(x);
}
END_TEST

static Suite *suite_of(void) {
    Suite *suite = suite_create("stream");
    TCase *windows = tcase_create("windows"), *others = tcase_create("others");
    tcase_set_timeout(windows, 600);
    tcase_set_timeout(others, 600);
    tcase_add_loop_test(windows, same_bits_whatever_is_on_the_device, 0, is_few() ? 1 : OTHERS);
    tcase_add_loop_test(others, same_bits_whatever_is_on_the_device, OTHERS, SHAPES);
    suite_add_tcase(suite, windows);
    suite_add_tcase(suite, others);
    if (is_emulated()) return suite;
    TCase *memory = tcase_create("memory");
    tcase_set_timeout(memory, 600);
    tcase_add_test(memory, takes_what_was_planned);
    tcase_add_test(memory, memory_goes_after_the_plan);
    suite_add_tcase(suite, memory);
    return suite;
}

int main(void) {
    return device_main("stream", 1, suite_of);
}

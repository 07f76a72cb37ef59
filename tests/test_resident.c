// SPDX-License-Identifier: MIT
// Points that lie on a device, with a driver that has devices and memory but runs nothing (fake/cuda.c): what is
// read, in how many copies, what is waited for, refused, and given back. Passes on them are test_fit's, on a GPU.
#include "../runtime/resident.h"
#include "fake/cuda.h"
#include "quiet_check.h"
#include "reference.h"
#include <dlfcn.h>
#include <kmgen/fit.h>
#include <kmgen/model.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4099, D = 3, STREAM = 77 };

static km_error err;
static km_data *data;
static fake_cuda_seen *seen;
static ref_data points;
static void *values;
static int (*take)(uint64_t *, size_t), (*put)(uint64_t, const void *, size_t, void *), (*enter)(void *),
    (*retain)(void **, int), (*release)(int), (*give)(uint64_t);
static uint64_t address;

static void find(void *function, void *library, const char *name) {
    void *symbol = dlsym(library, name);
    ck_assert_ptr_nonnull(symbol);
    memcpy(function, &symbol, sizeof symbol);
}

static void begin(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    ck_assert_ptr_nonnull(library);
    find(&seen, library, "fake_cuda");
    find(&take, library, "cuMemAlloc_v2");
    find(&put, library, "cuMemcpyHtoDAsync_v2");
    find(&enter, library, "cuCtxPushCurrent_v2");
    find(&retain, library, "cuDevicePrimaryCtxRetain");
    find(&release, library, "cuDevicePrimaryCtxRelease_v2");
    find(&give, library, "cuMemFree_v2");
    err.text[0] = 0;
    data = NULL;
}

static void end(void) {
    km_data_destroy(&data);
    ref_data_free(&points);
    free(values);
    ck_assert_int_eq(give(address), 0);
    ck_assert_int_eq(seen->retained[0], 0);
    ck_assert_int_eq(seen->retained[1], 0);
    ck_assert_int_eq(seen->streams, 0);
    ck_assert_int_eq(seen->pinned, 0);
}

// A copy of the points in the memory of a device.
static const void *lay(int device, km_type type) {
    void *context = NULL;
    size_t bytes = (size_t)N * D * (type == KM_FLOAT64 ? 8 : 4);
    points = ref_blobs(N, D, 5, 1.0, 3, type);
    values = ref_values(&points);
    ck_assert_int_eq(retain(&context, device) | enter(context) | take(&address, bytes), 0);
    ck_assert_int_eq(put(address, values, bytes, NULL) | release(device), 0);
    return (const void *)(uintptr_t)address;
}

static void open_points(int device, km_type type) {
    const void *there = lay(1, type);
    km_status status = km_data_from_device(&data, device, there, N, D, type, (void *)STREAM, points.w, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    ck_assert_int_eq(seen->waited_for, STREAM);
    ck_assert_int_eq(km_data_resident(data)->ordinal, 1);
}

START_TEST(values_are_read) {
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    open_points(_i / 2 ? 1 : KM_DEVICE_AUTO, type);
    ck_assert_int_eq(seen->copies, 0);
    ck_assert_ptr_null(km_data_base(data, type));
    double *whole = malloc(N * D * sizeof *whole);
    float *singles = malloc(N * D * sizeof *singles);
    ck_assert_int_eq(km_data_read(whole, data, 0, N, KM_FLOAT64, &err), KM_OK);
    ck_assert_int_eq(km_data_read(singles, data, 5, N - 5, KM_FLOAT32, &err), KM_OK);
    ck_assert_int_eq(seen->copies, 2); // however many rows
    for (int64_t i = 0; i < N * D; i++) {
        ck_assert_double_eq(whole[i], points.x[i]);
        if (i >= 5 * D) ck_assert(singles[i - 5 * D] == (float)points.x[i]);
    }
    free(singles);
    free(whole);
}
END_TEST

START_TEST(some_points_are_read) {
    enum { MANY = 500 };
    static const int counts[] = {1, 7, 8, MANY};
    open_points(1, _i % 2 ? KM_FLOAT32 : KM_FLOAT64);
    for (int c = 0; c < 4; c++) {
        int64_t rows[MANY], before = seen->bytes_to_host;
        double out[MANY * D];
        for (int i = 0; i < counts[c]; i++) rows[i] = (i * 2654435761u) % N;
        ck_assert_int_eq(km_data_read_points(out, data, rows, counts[c], &err), KM_OK);
        for (int i = 0; i < counts[c] * D; i++)
            ck_assert_double_eq(out[i], points.x[rows[i / D] * D + i % D]);
        // Nothing but these points crosses the bus.
        ck_assert_int_eq(seen->bytes_to_host - before, counts[c] * D * (_i % 2 ? 4 : 8));
    }
}
END_TEST

// On a processor they are read over the bus; with the same bits as those of the host.
START_TEST(a_fit_on_the_host_is_the_same) {
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    km_fit_params params;
    km_spec spec;
    km_result *there = NULL, *here = NULL;
    km_predictor *model = NULL;
    int32_t labels[N];
    open_points(1, type);
    km_spec_init(&spec);
    spec.type = type;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..6", &err), KM_OK);
    km_fit_params_init(&params);
    params.device = KM_HOST;
    params.labels = KM_LABELS_BEST;
    params.scale = _i / 2 ? KM_SCALE_ROBUST : KM_SCALE_NONE;
    ck_assert_msg(km_fit(&there, &spec, data, &params, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(km_predictor_create(&model, there, there->selection.best, &err), KM_OK);
    ck_assert_int_eq(km_predict(labels, model, data, &params, &err), KM_OK);
    ck_assert_int_eq(memcmp(labels, there->models[there->selection.best].labels, sizeof labels), 0);
    km_data_destroy(&data);
    ck_assert_int_eq(km_data_from_memory(&data, values, N, D, type, 0, 0, points.w, &err), KM_OK);
    ck_assert_int_eq(km_fit(&here, &spec, data, &params, &err), KM_OK);
    ck_assert_uint_eq(km_result_digest(there), km_result_digest(here));
    km_predictor_destroy(&model);
    km_result_destroy(&there);
    km_result_destroy(&here);
    km_spec_clear(&spec);
}
END_TEST

// Where the device is left open it is the points', and never the CPU: this one cannot run a kernel, which is said.
START_TEST(a_fit_goes_where_they_lie) {
    km_spec spec;
    km_result *result = NULL;
    open_points(KM_DEVICE_AUTO, KM_FLOAT32);
    km_spec_init(&spec);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..3", &err), KM_OK);
    km_plan plan;
    km_plan_init(&plan);
    ck_assert_msg(km_fit_plan(&plan, &spec, data, NULL, &err) == KM_OK, "%s", err.text);
    ck_assert_str_eq(plan.facts.name, "a fake GPU");
    ck_assert_int_eq(plan.value_bytes, 4); // no second table for points that come
    km_plan_clear(&plan);
    ck_assert_int_ne(km_fit(&result, &spec, data, NULL, &err), KM_OK);
    ck_assert_ptr_null(result);
    ck_assert_int_eq(seen->bytes_to_host, 0);
    km_spec_clear(&spec);
}
END_TEST

// Passes of float32 have weights as floats: others are refused before anything is compiled.
START_TEST(weights_that_floats_do_not_hold) {
    static const double units[] = {1e-50, 1e60, 1};
    static double weights[N];
    const char *sentence = "float32 on a GPU takes 1e-18 to 1e30";
    for (int i = 0; i < N; i++) weights[i] = units[_i / 2] * (1 + i % 3);
    km_spec spec;
    km_result *result = NULL;
    points = ref_blobs(N, D, 5, 1.0, 3, KM_FLOAT64);
    ck_assert_int_eq(km_data_from_memory(&data, points.x, N, D, KM_FLOAT64, 0, 0, weights, &err), KM_OK);
    km_spec_init(&spec);
    spec.type = _i % 2 ? KM_FLOAT64 : KM_FLOAT32;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..3", &err), KM_OK);
    ck_assert_int_ne(km_fit(&result, &spec, data, NULL, &err), KM_OK); // this driver runs nothing
    ck_assert_msg((strstr(err.text, sentence) != NULL) == (_i % 2 == 0 && _i < 4), "%s", err.text);
    km_spec_clear(&spec);
    km_data_destroy(&data);
    ref_data_free(&points);
}
END_TEST

// Points of many columns, mostly 0, are not packed on the host: nothing of them is looked at before they are loaded.
START_TEST(zeros_stay_there) {
    enum { WIDE_N = 500, WIDE_D = 200 };
    static float zeros[WIDE_N * WIDE_D];
    km_spec spec;
    km_plan plan;
    void *context = NULL;
    for (int i = 0; i < WIDE_N; i++) zeros[i * WIDE_D + i % WIDE_D] = 1;
    ck_assert_int_eq(retain(&context, 0) | enter(context) | take(&address, sizeof zeros), 0);
    ck_assert_int_eq(put(address, zeros, sizeof zeros, NULL) | release(0), 0);
    km_spec_init(&spec);
    km_plan_init(&plan);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..3", &err), KM_OK);
    ck_assert_int_eq(km_data_from_device(&data, KM_DEVICE_AUTO, (const void *)(uintptr_t)address, WIDE_N,
                                         WIDE_D, KM_FLOAT32, NULL, NULL, &err),
                     KM_OK);
    ck_assert_msg(km_fit_plan(&plan, &spec, data, NULL, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(km_plan_layout(&plan), KM_LAYOUT_DENSE);
    ck_assert_int_eq(seen->copies, 0);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
}
END_TEST

START_TEST(views_of_them) {
    static const char *const names[] = {"x", "y", "z"}, *const turned[] = {"z", "y", "x"};
    km_data *view = NULL;
    double row[D];
    open_points(1, KM_FLOAT64);
    ck_assert_int_eq(km_data_set_names(data, names, &err), KM_OK);
    ck_assert_int_eq(km_data_select(&view, data, names, 3, &err), KM_OK);
    ck_assert_int_eq(km_data_read(row, view, N - 1, 1, KM_FLOAT64, &err), KM_OK);
    for (int f = 0; f < D; f++) ck_assert_double_eq(row[f], points.x[(N - 1) * D + f]);
    km_data_destroy(&view); // the points stay
    ck_assert_int_eq(km_data_read(row, data, 0, 1, KM_FLOAT64, &err), KM_OK);
    ck_assert_int_eq(km_data_select(&view, data, turned, 3, &err), KM_ERROR_USAGE);
    ck_assert_str_eq(err.text, "memory: points on a device are taken as they lie, and not put into another "
                               "order; do it there");
    ck_assert_ptr_null(view);
}
END_TEST

static void expect(km_status got, km_status wanted, const char *part) {
    ck_assert_int_eq(got, wanted);
    ck_assert_msg(strstr(err.text, part) != NULL, "\"%s\" does not say \"%s\"", err.text, part);
    ck_assert_ptr_null(data);
    err.text[0] = 0;
}

START_TEST(other_memory_is_refused) {
    const void *there = lay(1, KM_FLOAT32);
    expect(km_data_from_device(&data, 2, there, N, D, KM_FLOAT32, NULL, NULL, &err), KM_ERROR_DEVICE,
           "there is no CUDA device 2; this machine has 2");
    expect(km_data_from_device(&data, 0, there, N, D, KM_FLOAT32, NULL, NULL, &err), KM_ERROR_USAGE,
           "lie on CUDA device 1, not on 0");
    for (int device = KM_DEVICE_AUTO; device <= 1; device += 3)
        expect(km_data_from_device(&data, device, values, N, D, KM_FLOAT32, NULL, NULL, &err), KM_ERROR_USAGE,
               "are no memory of a CUDA device");
}
END_TEST

static km_plan plan_on(const km_spec *spec, int64_t devices, double open_ms, int64_t bound) {
    static const int ordinals[] = {0, 1};
    km_fit_params params;
    km_plan plan;
    km_plan_init(&plan);
    km_fit_params_init(&params);
    params.devices = ordinals;
    params.devices_count = devices;
    params.devices_open_ms = open_ms;
    params.device_memory_max = bound;
    km_status status = km_fit_plan(&plan, spec, data, &params, &err);
    ck_assert_msg(status == KM_OK, "%d devices, %lld MiB: %s", (int)devices, (long long)bound >> 20,
                  err.text);
    return plan;
}

// Many points, of which plans look at a sample only: to be freed when the data are destroyed.
enum { MANY = 1 << 24, MANY_FEATURES = 8 };
static void *many_points(km_spec *spec) {
    void *zeros = calloc(MANY, MANY_FEATURES * 4);
    ck_assert_ptr_nonnull(zeros);
    ck_assert_int_eq(km_data_from_memory(&data, zeros, MANY, MANY_FEATURES, KM_FLOAT32, 0, 0, NULL, &err),
                     KM_OK);
    km_spec_init(spec);
    ck_assert_int_eq(km_spec_set_target(spec, "cuda", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(spec, "3..12", &err), KM_OK);
    spec->layout = KM_LAYOUT_DENSE;
    return zeros;
}

// A fit that saves less than another device takes to open stays on one; of many restarts it takes both, and so it does
// where they are open.
START_TEST(as_many_as_pay) {
    km_spec spec;
    void *zeros = many_points(&spec);
    static const struct {
        int64_t n_init;
        double open_ms;
        int64_t ranks;
    } cases[] = {{1, 300, 0}, {200, 300, 2}, {1, 0, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spec.n_init = cases[i].n_init;
        km_plan plan = plan_on(&spec, 2, cases[i].open_ms, 0);
        ck_assert_int_eq(plan.ranks, cases[i].ranks);
        km_plan_clear(&plan);
    }
    km_spec_clear(&spec);
    km_data_destroy(&data);
    free(zeros);
}
END_TEST

// What each of so many devices takes, of which a fit may have so much.
static km_plan plan_within(const km_spec *spec, int64_t devices, int64_t bound) {
    km_plan plan = plan_on(spec, devices, 0, bound);
    ck_assert_int_eq(plan.ranks, devices > 1 ? devices : 0);
    ck_assert_int_le(plan.memory_bytes, bound);
    return plan;
}

// Points that several devices do not hold together come from the host to each, its share of them; what they hold
// together stays there.
START_TEST(several_stream) {
    const int64_t table = (int64_t)MANY * MANY_FEATURES * 4, little = 256 << 20;
    km_spec spec;
    void *zeros = many_points(&spec);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tensor", &err), KM_OK);
    km_plan one = plan_within(&spec, 1, little), two = plan_within(&spec, 2, little);
    ck_assert(one.streams && two.streams && two.window_points > 0);
    int64_t held_by_one = table - one.streamed_bytes, held_by_two = table / 2 - two.streamed_bytes;
    ck_assert_int_ge(held_by_two, held_by_one); // tables that grow with the points are smaller
    ck_assert_int_gt(two.streamed_bytes, 0);
    km_plan_clear(&one);
    km_plan_clear(&two);
    one = plan_within(&spec, 1, little + table);
    two = plan_within(&spec, 2, little + table);
    ck_assert(one.streams && !two.streams);
    km_plan_clear(&one);
    km_plan_clear(&two);
    km_spec_clear(&spec);
    km_data_destroy(&data);
    free(zeros);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("resident");
    TCase *tests = tcase_create("tests");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, values_are_read, 0, 4);
    tcase_add_loop_test(tests, some_points_are_read, 0, 2);
    tcase_add_loop_test(tests, a_fit_on_the_host_is_the_same, 0, 4);
    tcase_add_test(tests, a_fit_goes_where_they_lie);
    tcase_add_test(tests, zeros_stay_there);
    tcase_add_test(tests, views_of_them);
    tcase_add_test(tests, other_memory_is_refused);
    suite_add_tcase(suite, tests);
    TCase *plans = tcase_create("plans");
    tcase_add_loop_test(plans, weights_that_floats_do_not_hold, 0, 6);
    tcase_add_test(plans, several_stream);
    tcase_add_test(plans, as_many_as_pay);
    suite_add_tcase(suite, plans);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

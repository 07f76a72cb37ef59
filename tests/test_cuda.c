// SPDX-License-Identifier: MIT
// The CUDA engine beyond what test_backend.c asks of every backend: errors without a device or compiler, shapes that
// take the engine's other paths, agreement with the CPU backend, and the same bits every time.
//
// Exits 77 (skipped) where there is no CUDA device, after the tests that need none.
#include "../runtime/asking.h"
#include "../runtime/build.h"
#include "../runtime/cuda/cuda.h"
#include "../runtime/file.h"
#include "reference.h"
#include "short_form.h"
#include "rig.h"
#include "quiet_check.h"
#include "scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <kmgen/fit.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/kmgen-test-XXXXXX";

// Without a device --------------------------------------------------------------------------------------------

START_TEST(missing_devices_are_named) {
    km_error err = {{0}};
    km_device *device = NULL;
    int count = km_backend_cuda.device_count();
    ck_assert_int_ge(count, 0);
    ck_assert_int_eq(km_backend_cuda.device_open(&device, count, NULL, NULL, &err), KM_ERROR_DEVICE);
    ck_assert_ptr_null(device);
    ck_assert_ptr_nonnull(strstr(err.text, count ? "this machine has" : "no CUDA device"));
}
END_TEST

START_TEST(compiler_errors_name_file_and_line) {
    km_nvrtc nvrtc;
    km_error err = {{0}};
    char source[256], binary[256], log[256], *text = NULL;
    int64_t size;
    if (km_nvrtc_open(&nvrtc, NULL, 0, &err) != KM_OK) {
        ck_assert_ptr_nonnull(strstr(err.text, "pip install nvidia-cuda-nvrtc"));
        return; // no NVRTC on this machine: its absence is what can be tested
    }
    static const char wrong[] =
        "extern \"C\" __global__ void km_empty() {}\n__device__ int f() { return dif; }\n";
    static const char right[] = "extern \"C\" __global__ void km_empty() {}\n";
    snprintf(source, sizeof source, "%s/source.cu", folder);
    snprintf(binary, sizeof binary, "%s/source.cubin", folder);
    snprintf(log, sizeof log, "%s/source.log", folder);
    RIG_MUST(km_file_write(source, wrong, (int64_t)strlen(wrong), &err), &err);
    ck_assert_int_eq(km_nvrtc_compile(&nvrtc, 90, source, binary, log, NULL, &err), KM_ERROR_COMPILE);
    ck_assert_msg(strstr(err.text, source) && strstr(err.text, "line 2: identifier \"dif\" is undefined") &&
                      strstr(err.text, log),
                  "\"%s\"", err.text);
    err.text[0] = 0;
    RIG_MUST(km_file_write(source, right, (int64_t)strlen(right), &err), &err);
    RIG_MUST(km_nvrtc_compile(&nvrtc, 90, source, binary, log, NULL, &err), &err);
    RIG_MUST(km_file_read(&text, &size, log, 0, &err), &err);
    ck_assert_ptr_nonnull(strstr(text, "0 bytes spill stores")); // registers and spills are in the log
    free(text);
    km_nvrtc_close(&nvrtc);
}
END_TEST

static int at_once(void *user) {
    ++*(int *)user;
    return 1;
}

START_TEST(nvrtc_can_be_stopped) {
    km_nvrtc nvrtc;
    km_error err = {{0}};
    int calls = 0;
    km_asking asking = {.stop = at_once, .user = &calls, .caller = pthread_self()};
    char source[256], binary[256];
    if (km_nvrtc_open(&nvrtc, NULL, 0, &err) != KM_OK) return;
    static const char text[] = "extern \"C\" __global__ void km_empty() {}\n";
    snprintf(source, sizeof source, "%s/stopped.cu", folder);
    snprintf(binary, sizeof binary, "%s/stopped.cubin", folder);
    RIG_MUST(km_file_write(source, text, (int64_t)strlen(text), &err), &err);
    int can_be = nvrtc.nvrtcSetFlowCallback != NULL; // from 12.8 on
    ck_assert_int_eq(km_nvrtc_compile(&nvrtc, 90, source, binary, NULL, &asking, &err),
                     can_be ? KM_ERROR_INTERRUPTED : KM_OK);
    ck_assert_int_eq(calls, can_be);
    ck_assert_int_eq(access(binary, F_OK), can_be ? -1 : 0);
    km_nvrtc_close(&nvrtc);
}
END_TEST

// On a device -------------------------------------------------------------------------------------------------

static void open_rig(rig *r, km_type type, int64_t d, const char *clusters, int weighted,
                     int64_t concurrent) {
    rig_params params = {.type = type,
                         .d = d,
                         .clusters = clusters,
                         .weighted = weighted,
                         .concurrent = concurrent,
                         .cache_dir = folder};
    ck_assert(rig_build(r, rig_variant_find("cuda-tiled"), &params));
}

static void open_host(rig *r, km_type type, int64_t d, const char *clusters, int weighted) {
    rig_params params = {
        .type = type, .d = d, .clusters = clusters, .weighted = weighted, .cache_dir = folder};
    ck_assert(rig_build(r, rig_variant_find("cpu-prebuilt"), &params));
}

START_TEST(facts_are_read) {
    km_error err = {{0}};
    km_device *device;
    RIG_MUST(km_backend_cuda.device_open(&device, 0, NULL, NULL, &err), &err);
    const km_device_facts *facts = &device->facts;
    ck_assert_int_eq(facts->target.kind, KM_TARGET_CUDA);
    ck_assert_int_ge(facts->target.arch, 50);
    ck_assert_int_gt(facts->units, 0);
    ck_assert_int_ge(facts->shared_bytes_per_block, 48 << 10);
    ck_assert_double_gt(facts->bandwidth_gbs, 10);
    ck_assert_double_gt(facts->clock_ghz, 0.3);
    ck_assert_int_gt(facts->memory_bytes, 1 << 28);
    km_backend_cuda.device_close(&device);
    ck_assert_ptr_null(device);
}
END_TEST

// More features than a block has threads, rows that end inside a staging buffer.
START_TEST(wide_rows_come_home) {
    rig r;
    open_rig(&r, KM_FLOAT32, 1000, "3", 0, 0);
    ref_data points = ref_blobs(5003, 1000, 3, 1.0, 5, KM_FLOAT32);
    rig_load(&r, &points, 0, KM_SCALE_STANDARD); // compares every value
    double *mean = calloc(1000, sizeof *mean);
    ref_mean_variance(mean, &points);
    for (int f = 0; f < 1000; f++)
        ck_assert_double_eq_tol(r.stats.mean[f], mean[f], 1e-12 * (1 + fabs(mean[f])));
    free(mean);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Doubles keep the digits that float32 lacks until they are centred; columns may be strided.
START_TEST(doubles_are_centred_before_they_are_rounded) {
    enum { N = 4099, D = 3 };
    rig r;
    km_error err = {{0}};
    double *x = malloc(sizeof(double) * N * D * 2), rows[D];
    for (int64_t i = 0; i < N * D * 2; i++) x[i] = 1e9 + (double)(i % 1009) / 1024;
    open_rig(&r, KM_FLOAT32, D, "2", 0, 0);
    for (int strided = 0; strided < 2; strided++) {
        int64_t row_stride = strided ? 2 * D : 0, column_stride = strided ? 2 : 0;
        RIG_MUST(km_data_from_memory(&r.data, x, N, D, KM_FLOAT64, row_stride, column_stride, NULL, &err),
                 &err);
        RIG_MUST(r.variant->backend->engine_create(&r.engine, r.module->kernels, 0, NULL, &err), &err);
        RIG_MUST(km_data_stats_alloc(&r.stats, D, &err), &err);
        r.load = (km_load_params){.centre = calloc(D, 8), .factor = calloc(D, 8)};
        RIG_MUST(r.engine->backend->load(r.engine, &r.stats, r.data, &r.load, &err), &err);
        for (int64_t i = 0; i < N; i += 97) {
            RIG_MUST(r.engine->backend->rows(r.engine, rows, &i, 1, &err), &err);
            for (int64_t f = 0; f < D; f++) {
                double value = strided ? x[i * 2 * D + 2 * f] : x[i * D + f];
                ck_assert_double_eq(rows[f], (double)(float)(value - r.load.centre[f]));
            }
        }
        rig_unload(&r);
    }
    free(x);
    rig_close(&r);
}
END_TEST

// The same chains as the CPU backend, many at once, over several fixed blocks.
START_TEST(seeds_equal_the_cpu) {
    enum { CHAINS = 33, PICKS = 12 };
    int weighted = _i % 2;
    km_type type = _i / 2 ? KM_FLOAT32 : KM_FLOAT64;
    rig device, host;
    km_error err = {{0}};
    int64_t picks[2][CHAINS * PICKS], different = 0;
    open_rig(&device, type, 5, "12", weighted, 0);
    open_host(&host, type, 5, "12", weighted);
    ref_data points = ref_blobs(200003, 5, 9, 2.0, 11, type);
    if (weighted) ref_weigh(&points, 4);
    rig *both[] = {&device, &host};
    for (int b = 0; b < 2; b++) {
        rig_load(both[b], &points, 0, KM_SCALE_NONE);
        RIG_MUST(both[b]->engine->backend->seed_plusplus(both[b]->engine, picks[b], 3, CHAINS, PICKS, 7, NULL,
                                                         NULL, &err),
                 &err);
    }
    // Sums in float32 distances may differ in the last digit: a chain may part where a draw falls between two points.
    for (int c = 0; c < CHAINS; c++)
        different += memcmp(picks[0] + c * PICKS, picks[1] + c * PICKS, PICKS * 8) != 0;
    ck_assert_int_le(different, type == KM_FLOAT32 ? 1 : 0);
    rig_close(&device);
    rig_close(&host);
    ref_data_free(&points);
}
END_TEST

// What chains draw where halves of the points say which distances are to be computed, and without: points with many
// and few pairs in doubt, with equal points, far from their mean.
START_TEST(seeds_by_halves_are_the_same) {
    enum { N = 70001, CHAINS_MAX = 2, PICKS = 128 };
    static const int64_t ds[] = {17, 32, 33, 64};
    int64_t d = ds[_i / 2], chains = d > 32 ? CHAINS_MAX : 1, *picks[2];
    int weighted = _i % 2;
    rig r;
    km_error err = {{0}};
    open_rig(&r, KM_FLOAT32, d, "2,128", weighted, 0);
    km_cuda_kernels *kernels = (km_cuda_kernels *)r.module->kernels;
    km_cu_function pass_halves = kernels->seed_pass_halves;
    ck_assert(pass_halves || r.device->facts.target.arch < 80);
    for (int b = 0; b < 2; b++) picks[b] = calloc(CHAINS_MAX * PICKS, sizeof **picks);
    for (int set = 0; set < 4; set++) {
        ref_data points = set == 3 ? ref_grid(N, d, 2, 5, KM_FLOAT32)
                                   : ref_blobs(N, d, 9, (double[]){2, .02, 1e-4}[set], 11, KM_FLOAT32);
        if (weighted) ref_weigh(&points, 4);
        rig_load(&r, &points, 0, KM_SCALE_NONE);
        for (int b = 0; b < 2; b++) {
            kernels->seed_pass_halves = b ? NULL : pass_halves;
            RIG_MUST(
                r.engine->backend->seed_plusplus(r.engine, picks[b], 3, chains, PICKS, 7, NULL, NULL, &err),
                &err);
        }
        kernels->seed_pass_halves = pass_halves;
        ck_assert_msg(memcmp(picks[0], picks[1], (size_t)(chains * PICKS) * sizeof **picks) == 0,
                      "d=%lld, points %d", (long long)d, set);
        rig_unload(&r);
        ref_data_free(&points);
    }
    free(picks[0]);
    free(picks[1]);
    rig_close(&r);
}
END_TEST

static km_finish_model model_of(int64_t k, const double *centroids, int64_t n) {
    return (km_finish_model){.k = k,
                             .centroids = centroids,
                             .counts = calloc((size_t)k, 8),
                             .weights = calloc((size_t)k, 8),
                             .sse = calloc((size_t)k, 8),
                             .distance = calloc((size_t)k, 8),
                             .margin = calloc((size_t)k, 8),
                             .labels = calloc((size_t)n, 4)};
}

static void model_free(km_finish_model *model) {
    free(model->counts);
    free(model->weights);
    free(model->sse);
    free(model->distance);
    free(model->margin);
    free(model->labels);
}

// Off by at most `slack` of `scale`.
static void check_sums(const double *found, const double *expected, const double *scale, double slack,
                       int64_t k) {
    for (int64_t j = 0; j < k; j++) ck_assert_double_le(fabs(found[j] - expected[j]), slack * fabs(scale[j]));
}

// More clusters than shared memory holds sums of, more blocks than one, and small ones beside: the CPU's labels and
// counts, its sums to rounding, those of distances and margins to float's.
START_TEST(finish_agrees_with_the_cpu) {
    enum { N = 150001, D = 6, K = 1500 };
    static const int64_t ks[] = {1, 7, K};
    rig device, host;
    km_error err = {{0}};
    open_rig(&device, KM_FLOAT32, D, "1,7,1500", 1, 0);
    open_host(&host, KM_FLOAT32, D, "1,7,1500", 1);
    ref_data points = ref_uniform(N, D, 3, KM_FLOAT32);
    ref_weigh(&points, 8);
    rig *both[] = {&device, &host};
    km_finish_model models[2][3];
    double *centroids = malloc(sizeof(double) * K * D);
    int64_t *indices = malloc(sizeof(int64_t) * K);
    for (int64_t j = 0; j < K; j++) indices[j] = j * 97;
    for (int b = 0; b < 2; b++) {
        rig_load(both[b], &points, 0, KM_SCALE_NONE);
        if (b == 0) RIG_MUST(device.engine->backend->rows(device.engine, centroids, indices, K, &err), &err);
        for (int m = 0; m < 3; m++) models[b][m] = model_of(ks[m], centroids, N);
        RIG_MUST(both[b]->engine->backend->finish(both[b]->engine, models[b], 3, &err), &err);
    }
    for (int m = 0; m < 3; m++) {
        size_t bytes = (size_t)ks[m] * 8;
        ck_assert_int_eq(memcmp(models[0][m].counts, models[1][m].counts, bytes), 0);
        const double *weights = models[1][m].weights, soft = (D + 8) * 0x1p-24;
        check_sums(models[0][m].weights, weights, weights, 1e-12, ks[m]);
        check_sums(models[0][m].sse, models[1][m].sse, models[1][m].sse, 1e-12, ks[m]);
        check_sums(models[0][m].distance, models[1][m].distance, models[1][m].distance, soft, ks[m]);
        check_sums(models[0][m].margin, models[1][m].margin, weights, soft, ks[m]);
        ck_assert_int_eq(memcmp(models[0][m].labels, models[1][m].labels, sizeof(int32_t) * N), 0);
        for (int b = 0; b < 2; b++) model_free(&models[b][m]);
    }
    free(centroids);
    free(indices);
    rig_close(&device);
    rig_close(&host);
    ref_data_free(&points);
}
END_TEST

// Points of which some clusters are near each other beside their distance from the origin: so near that products keep
// enough digits for most points alone.
static ref_data far_pairs(int64_t n, km_type type) {
    ref_data points = ref_blobs(n, 3, 1, 4.0, 5, type);
    for (int64_t i = 0; i < n; i++) {
        points.x[3 * i] = ref_round(points.x[3 * i] + (i % 4 < 2 ? -100 : 100), type);
        if (i % 4 >= 2) points.x[3 * i + 1] = ref_round(points.x[3 * i + 1] + (i % 4 == 2 ? 25 : -25), type);
    }
    return points;
}

// Blobs that touch; blobs so narrow that no products do, with a point far out, which is a cluster of its own; a lattice
// of copies; pairs.
enum { KEPT_SETS = 4 };
static ref_data kept_points(int set, int64_t n, km_type type) {
    ref_data points = set == 3   ? far_pairs(n, type)
                      : set == 2 ? ref_grid(n, 3, 3, 7, type)
                                 : ref_blobs(n, 3, 9, set ? 1e-3 : 2.0, 11, type);
    for (int f = 0; set == 1 && f < 3; f++) points.x[f] = 50;
    return points;
}

// With means that are not the centroids, or none.
static km_silhouette_model kept_silhouette(const km_finish_model *model, const double *means) {
    return (km_silhouette_model){model->k, model->centroids, means, model->weights, model->sse, 0};
}

// Silhouettes by labels that the finishing pass has kept have the bits of those by labels that are searched for, of
// several chunks of points and a last one that is not full. Labels of more than 32 clusters are not kept.
START_TEST(silhouettes_by_kept_labels) {
    enum { N = 140009, D = 3, MODELS = 5 };
    static const int64_t ks[MODELS] = {1, 3, 7, 32, 40};
    int set = _i / 4, weighted = _i / 2 % 2;
    km_type type = _i % 2 ? KM_FLOAT64 : KM_FLOAT32;
    double centroids[40 * D], means[40 * D];
    int64_t indices[40];
    rig r;
    km_error err = {{0}};
    open_rig(&r, type, D, "2,3", weighted, 0);
    ref_data points = kept_points(set, N, type);
    if (weighted) ref_weigh(&points, 4);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    const km_cuda_engine *engine = (const km_cuda_engine *)r.engine;
    for (int64_t j = 0; j < 40; j++) indices[j] = j < 3 ? j + (j > 0) : 97 * j;
    RIG_MUST(r.engine->backend->rows(r.engine, centroids, indices, 40, &err), &err);
    for (int f = 0; f < D; f++) centroids[5 * D + f] = 3; // without points
    for (int i = 0; i < 40 * D; i++) means[i] = ref_round(centroids[i] * 1.01, type);
    km_finish_model models[MODELS];
    km_silhouette_model found[MODELS], searched[MODELS];
    for (int m = 0; m < MODELS; m++) {
        models[m] = model_of(ks[m], centroids, N);
        models[m].keep = MODELS - m;
    }
    RIG_MUST(r.engine->backend->finish(r.engine, models, MODELS, &err), &err);
    for (int m = 0; m < MODELS; m++) {
        ck_assert_int_eq(km_cuda_kept_at(engine, centroids, ks[m]) >= 0, ks[m] <= 32);
        found[m] = searched[m] = kept_silhouette(&models[m], m % 2 ? means : NULL);
    }
    RIG_MUST(r.engine->backend->silhouette(r.engine, found + 1, MODELS - 1, &err), &err);
    ck_assert_int_eq(km_cuda_kept_at(engine, centroids, 3), -1);
    RIG_MUST(r.engine->backend->silhouette(r.engine, searched + 1, MODELS - 1, &err), &err);
    for (int m = 0; m < MODELS; m++) {
        if (m) ck_assert_msg(found[m].sum == searched[m].sum, "%.17g %.17g", found[m].sum, searched[m].sum);
        model_free(&models[m]);
    }
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Every slot of a full pass, to the end, twenty times: the same bits.
START_TEST(runs_have_the_same_bits) {
    enum { D = 4, K = 8, SLOTS = 9, N = 70001 };
    const km_stop stop = {.shift_max = 1e-6, .max_iter = 40};
    rig r;
    km_error err = {{0}};
    open_rig(&r, KM_FLOAT32, D, "2,5,8", 0, 3);
    ref_data points = ref_blobs(N, D, 8, 2.0, 9, KM_FLOAT32);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    ck_assert_int_eq(r.engine->slots_count, SLOTS);
    double first[SLOTS][K * D], now[K * D], weights[K];
    for (int run = 0; run < 20; run++) {
        int64_t picks[3 * K];
        km_slot_state states[SLOTS];
        RIG_MUST(r.engine->backend->seed_plusplus(r.engine, picks, 0, 3, K, 1, NULL, NULL, &err), &err);
        for (int64_t slot = 0; slot < SLOTS; slot++) {
            RIG_MUST(r.engine->backend->rows(r.engine, now, picks + slot / 3 * K, rig_slot_clusters(&r, slot),
                                             &err),
                     &err);
            RIG_MUST(r.engine->backend->slot_start(r.engine, slot, now, &err), &err);
        }
        rig_run_all(&r, states, &stop);
        for (int64_t slot = 0; slot < SLOTS; slot++) {
            size_t bytes = (size_t)rig_slot_clusters(&r, slot) * D * sizeof(double);
            RIG_MUST(r.engine->backend->slot_read(r.engine, slot, now, weights, &err), &err);
            if (run == 0) memcpy(first[slot], now, bytes);
            ck_assert_int_eq(memcmp(first[slot], now, bytes), 0);
        }
    }
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// More empty clusters than are looked for between two looks of the host: each gets a point of its own.
START_TEST(many_empty_clusters_are_filled) {
    enum { D = 2, K = 200, N = 5003 };
    const km_stop stop = {.max_iter = 50};
    rig r;
    km_error err = {{0}};
    open_rig(&r, KM_FLOAT64, D, "200", 0, 1);
    ref_data points = ref_uniform(N, D, 2, KM_FLOAT64);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    double *centroids = calloc(K * D, sizeof *centroids), *weights = calloc(K, sizeof *weights);
    for (int j = 1; j < K; j++) centroids[j * D] = 1e6 + j; // all but the first are far from every point
    km_slot_state state;
    RIG_MUST(r.engine->backend->slot_start(r.engine, 0, centroids, &err), &err);
    rig_run_all(&r, &state, &stop);
    RIG_MUST(r.engine->backend->slot_read(r.engine, 0, centroids, weights, &err), &err);
    for (int j = 0; j < K; j++) ck_assert_double_gt(weights[j], 0);
    free(centroids);
    free(weights);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Plans after spills ------------------------------------------------------------------------------------------

static int64_t spare_wanted; // a pass with fewer registers to spare spills, whatever the compiler says

static int64_t spills_where_tight(char *kernel, int64_t size, int64_t *registers, const km_source *source,
                                  const char *log) {
    (void)log;
    *registers = 255;
    snprintf(kernel, (size_t)size, "km_tensor_0");
    return source->plan.estimates[source->plan.design].registers_spare < spare_wanted ? 8 : 0;
}

// Centroids of every slot after a run from the same points; the build's module and the device are used up.
static void run_build(double *centroids, km_build *build, km_device *device, const ref_data *points) {
    const km_stop stop = {.max_iter = 30};
    km_error err = {{0}};
    km_slot_state states[64];
    double weights[64];
    rig r = {.variant = rig_variant_find("cuda-tensor"), .device = device, .module = build->module};
    build->module = NULL;
    rig_load(&r, points, 0, KM_SCALE_NONE);
    for (int64_t slot = 0, row = 0; slot < r.engine->slots_count; slot++) {
        RIG_MUST(r.engine->backend->slot_start(r.engine, slot, r.loaded.x + row * points->d, &err), &err);
        row += rig_slot_clusters(&r, slot);
    }
    rig_run_all(&r, states, &stop);
    for (int64_t slot = 0; slot < r.engine->slots_count; slot++) {
        RIG_MUST(r.engine->backend->slot_read(r.engine, slot, centroids, weights, &err), &err);
        centroids += rig_slot_clusters(&r, slot) * points->d;
    }
    rig_close(&r);
}

// The next plan on a device: it is loaded, clusters as the first one does, and is found again without compiling.
START_TEST(next_plan_runs) {
    enum { D = 8, S = 44, N = 20011 };
    km_error err = {{0}};
    km_device *device;
    km_spec spec;
    km_build build;
    km_build_params params = {.spec = &spec};
    double centroids[3][S * D]; // a point at a border may go either way
    int64_t spare = 0;
    km_backend tight = km_backend_cuda;
    tight.spills = spills_where_tight;
    ref_data points = ref_blobs(N, D, 9, 1.0, 3, KM_FLOAT32);
    km_spec_init(&spec);
    km_plan_params_init(&params.plan);
    km_module_params_init(&params.module);
    params.module.cache_dir = folder;
    spec.features = D;
    spec.n_init = 1;
    RIG_MUST(km_spec_set_clusters(&spec, "2..9", &err), &err);
    for (int i = 0; i < 3; i++) {
        RIG_MUST(km_backend_cuda.device_open(&device, 0, NULL, NULL, &err), &err);
        device->backend = &tight;
        km_build_init(&build);
        spare_wanted = i ? spare + 1 : 0;
        RIG_MUST(km_build_on(&build, device, &params, &err), &err);
        ck_assert_int_eq(build.module->spilled_bytes, 0);
        ck_assert_int_eq(build.plan.avoided_count > 0, i > 0);
        ck_assert_int_eq(build.module->was_cached, i == 2);
        const km_estimate *chosen = &build.plan.estimates[build.plan.design];
        if (i == 0)
            spare = chosen->registers_spare;
        else
            ck_assert_int_gt(chosen->registers_spare, spare);
        device->backend = &km_backend_cuda;
        run_build(centroids[i], &build, device, &points);
        km_build_clear(&build);
        for (int j = 0; j < S * D; j++)
            ck_assert_double_eq_tol(centroids[i][j], centroids[0][j], 2e-3 * (1 + fabs(centroids[0][j])));
    }
    km_spec_clear(&spec);
    ref_data_free(&points);
}
END_TEST

// Lists whose first plan spilled with one compiler or another: what is run does not, and the second build compiles
// nothing.
START_TEST(lists_that_spilled) {
    static const struct {
        int64_t d;
        const char *clusters;
    } lists[] = {{7, "2..16"}, {8, "10..20"}, {24, "256"}};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (int again = 0; again < 2; again++) {
            km_error err = {{0}};
            km_device *device;
            km_spec spec;
            km_build build;
            km_build_params params = {.spec = &spec};
            km_spec_init(&spec);
            km_build_init(&build);
            km_plan_params_init(&params.plan);
            params.plan.points = 1 << 25;
            km_module_params_init(&params.module);
            params.module.cache_dir = folder;
            spec.features = lists[l].d;
            RIG_MUST(km_spec_set_clusters(&spec, lists[l].clusters, &err), &err);
            RIG_MUST(km_backend_cuda.device_open(&device, 0, NULL, NULL, &err), &err);
            RIG_MUST(km_build_on(&build, device, &params, &err), &err);
            ck_assert_int_eq(build.module->spilled_bytes, 0);
            ck_assert_int_eq(build.module->was_cached, again);
            ck_assert_ptr_nonnull(build.module->kernels);
            printf("d=%d K=%s: %s, %d plans left out\n", (int)lists[l].d, lists[l].clusters,
                   km_design_name(build.plan.design), (int)build.plan.avoided_count);
            km_build_clear(&build);
            km_device_close(&device);
            km_spec_clear(&spec);
        }
}
END_TEST

// Memory ------------------------------------------------------------------------------------------------------

// All steps of a fit: never more than was planned for them, and not much less.
START_TEST(engines_take_what_was_planned) {
    enum { N = 3000017, K = 8 };
    static const char *const names[] = {"cuda-registers", "cuda-tensor", "cuda-tiled", "cuda-tiled-plain"};
    const km_stop stop = {.shift_max = 1e-6, .max_iter = 3};
    const int64_t spare = 96 << 20, pages = 40 << 20; // what planning adds: kernels; pages of a dozen tables
    int64_t d = _i / 4 ? 32 : 4;
    rig r;
    km_error err = {{0}};
    rig_params params = {.type = KM_FLOAT32,
                         .d = d,
                         .clusters = "3,5,8",
                         .points = N,
                         .weighted = _i == 2,
                         .cache_dir = folder};
    if (!rig_build(&r, rig_variant_find(names[_i % 4]), &params)) {
        rig_close(&r);
        return;
    }
    ref_data points = ref_blobs(N, d, 8, 2.0, 9, KM_FLOAT32);
    if (params.weighted) ref_weigh(&points, 4);
    RIG_MUST(rig_try_load(&r, &points, 0, KM_SCALE_NONE, &err), &err); // all rows are not read back
    int64_t picks[K];
    double *centroids = calloc((size_t)(K * d), sizeof *centroids);
    km_slot_state states[3];
    RIG_MUST(r.engine->backend->seed_plusplus(r.engine, picks, 0, 1, K, 1, NULL, NULL, &err), &err);
    for (int64_t slot = 0; slot < 3; slot++) {
        if (slot < 2) // the last one has empty clusters
            RIG_MUST(r.engine->backend->rows(r.engine, centroids, picks, rig_slot_clusters(&r, slot), &err),
                     &err);
        else
            for (int64_t i = 0; i < K * d; i++) centroids[i] = 1e6 + (double)i;
        RIG_MUST(r.engine->backend->slot_start(r.engine, slot, centroids, &err), &err);
    }
    rig_run_all(&r, states, &stop);
    const km_cuda_engine *engine = (const km_cuda_engine *)r.engine;
    int64_t planned = r.module->plan.memory_bytes - spare, taken = engine->bytes_most;
    printf("memory: %s d=%lld took %.1f MiB, planned %.1f, scratch %.1f\n", names[_i % 4], (long long)d,
           (double)taken / 0x1p20, (double)planned / 0x1p20, (double)engine->scratch.bytes / 0x1p20);
    km_finish_model model = model_of(K, centroids, N);
    RIG_MUST(r.engine->backend->finish(r.engine, &model, 1, &err), &err);
    model_free(&model);
    // Relocation takes memory of its own where there is some: that is no need.
    int64_t own = engine->scratch.bytes > engine->workspace.bytes ? 0 : engine->scratch.bytes;
    ck_assert_int_le(engine->bytes_most - own, planned);
    ck_assert_int_ge(taken + pages, planned * 3 / 4);
    free(centroids);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Device memory that the tests hold, so that fits see little of it.
static struct {
    km_device *device;
    km_cu_ptr pieces[8];
    int count;
} balloon;

static void balloon_open(void) {
    km_error err = {{0}};
    if (!balloon.device) RIG_MUST(km_backend_cuda.device_open(&balloon.device, 0, NULL, NULL, &err), &err);
}

// Leaves so many bytes free.
static void balloon_leave(int64_t bytes) {
    const km_cuda_device *device = (const km_cuda_device *)balloon.device;
    const km_driver *driver = device->driver;
    size_t left = 0, all = 0;
    ck_assert_int_eq(km_cuda_enter(device, NULL), KM_OK);
    ck_assert_int_eq(driver->cuMemGetInfo(&left, &all), 0);
    if ((int64_t)left > bytes && balloon.count < 8 &&
        driver->cuMemAlloc(&balloon.pieces[balloon.count], left - (size_t)bytes) == 0)
        balloon.count++;
    km_cuda_leave(device);
}

static void balloon_empty(void) {
    const km_cuda_device *device = (const km_cuda_device *)balloon.device;
    ck_assert_int_eq(km_cuda_enter(device, NULL), KM_OK);
    while (balloon.count > 0) device->driver->cuMemFree(balloon.pieces[--balloon.count]);
    km_cuda_leave(device);
}

typedef struct watch {
    int grows, was_read;
} watch;

// Takes nearly all that is left as soon as passes begin.
static int watching(void *user, const km_progress *progress) {
    watch *w = user;
    w->was_read |= !strcmp(progress->phase, "read");
    if (w->grows && !strcmp(progress->phase, "sweep")) {
        balloon_leave(6 << 20);
        w->grows = 0;
    }
    return 0;
}

typedef struct balloon_job {
    km_spec spec;
    km_fit_params params;
    km_data *data;
    ref_data points;
    float *values;
    watch watch;
    km_result *result;
    km_error err;
} balloon_job;

// Points of which many are the same, where `distinct` says how many are not: then clusters are left empty.
static void job_open(balloon_job *job, int64_t n, int64_t d, const char *clusters, int64_t restarts,
                     int64_t distinct) {
    *job = (balloon_job){.points = ref_blobs(n, d, 6, 2.0, 9, KM_FLOAT32)};
    job->values = malloc(sizeof(float) * (size_t)(n * d));
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < d; f++)
            job->values[i * d + f] = (float)job->points.x[(distinct ? i % distinct : i) * d + f];
    km_spec_init(&job->spec);
    km_fit_params_init(&job->params);
    RIG_MUST(km_spec_set_clusters(&job->spec, clusters, &job->err), &job->err);
    RIG_MUST(km_data_from_memory(&job->data, job->values, n, d, KM_FLOAT32, 0, 0, NULL, &job->err),
             &job->err);
    job->spec.n_init = restarts;
    job->params.cache_dir = folder;
    job->params.labels = KM_LABELS_ALL;
    job->params.max_iter = 20;
    job->params.progress = watching;
    job->params.progress_user = &job->watch;
    balloon_open();
}

static km_status job_run(balloon_job *job) {
    km_result_destroy(&job->result);
    job->err.text[0] = 0;
    job->watch.was_read = 0;
    return km_fit(&job->result, &job->spec, job->data, &job->params, &job->err);
}

static void job_close(balloon_job *job) {
    balloon_empty();
    km_result_destroy(&job->result);
    km_data_destroy(&job->data);
    km_spec_clear(&job->spec);
    ref_data_free(&job->points);
    free(job->values);
}

static void expect_inertia(const km_result *result, const double *inertia, double slack) {
    for (int64_t m = 0; m < result->models_count; m++)
        ck_assert_double_le(fabs(result->models[m].inertia - inertia[m]), slack * inertia[m]);
}

// The fastest design does not fit: another one that does. The points do not: they come from the host. Nothing does: the
// CPU, or a sentence before anything is read.
START_TEST(little_memory_takes_another_way) {
    enum { N = 4000037, KS = 10 };
    balloon_job job;
    double inertia[KS];
    job_open(&job, N, 32, "3..12", 1, 0);
    RIG_MUST(job_run(&job), &job.err);
    ck_assert_int_eq(job.result->plan.design, KM_DESIGN_TENSOR);
    for (int m = 0; m < KS; m++) inertia[m] = job.result->models[m].inertia;
    int64_t needs = job.result->plan.memory_bytes;
    balloon_leave(needs - (64 << 20));
    RIG_MUST(job_run(&job), &job.err);
    printf("memory: %.2f GiB of %.2f free: %s\n", (double)job.result->plan.memory_bytes / 0x1p30,
           (double)job.result->plan.facts.memory_free_bytes / 0x1p30,
           km_design_name(job.result->plan.design));
    ck_assert_int_eq(job.result->plan.spec.target.kind, KM_TARGET_CUDA);
    ck_assert_int_ne(job.result->plan.design, KM_DESIGN_TENSOR);
    expect_inertia(job.result, inertia, 1e-5);
    balloon_leave(400 << 20);
    job.spec.target.kind = KM_TARGET_CUDA;
    RIG_MUST(job_run(&job), &job.err);
    ck_assert(job.result->plan.streams);
    expect_inertia(job.result, inertia, 1e-5);
    balloon_leave(64 << 20);
    job.spec.target.kind = KM_TARGET_AUTO;
    RIG_MUST(job_run(&job), &job.err);
    ck_assert_int_eq(job.result->plan.spec.target.kind, KM_TARGET_CPU);
    ck_assert_int_ge(job.result->warnings_count, 1);
    printf("memory: %s\n", job.result->warnings[0]);
    ck_assert_ptr_nonnull(
        strstr(job.result->warnings[0], "the CPU is used: 4000037 points of 32 features do not fit"));
    expect_inertia(job.result, inertia, 1e-5);
    job.spec.target.kind = KM_TARGET_CUDA;
    ck_assert_int_eq(job_run(&job), KM_ERROR_MEMORY);
    ck_assert_int_eq(job.watch.was_read, 0);
    printf("memory: %s\n", job.err.text);
    ck_assert_ptr_nonnull(strstr(job.err.text, "-t cpu needs"));
    job_close(&job);
}
END_TEST

START_TEST(little_memory_takes_fewer_concurrent_restarts) {
    balloon_job job;
    double inertia[19];
    job_open(&job, 200003, 8, "2..20", 10, 0);
    RIG_MUST(km_spec_fix(&job.spec, "design", "tiled", &job.err), &job.err);
    job.spec.target.kind = KM_TARGET_CUDA;
    RIG_MUST(job_run(&job), &job.err);
    ck_assert_int_eq(km_plan_get(&job.result->plan, "concurrent_restarts"), 10);
    for (int m = 0; m < 19; m++) inertia[m] = job.result->models[m].inertia;
    balloon_leave(job.result->plan.memory_bytes - (160 << 20));
    RIG_MUST(job_run(&job), &job.err);
    printf("memory: %lld concurrent restarts\n",
           (long long)km_plan_get(&job.result->plan, "concurrent_restarts"));
    ck_assert_int_le(km_plan_get(&job.result->plan, "concurrent_restarts"), 2);
    expect_inertia(job.result, inertia, 1e-6);
    job_close(&job);
}
END_TEST

// Somebody takes all that is left while passes run: everything had its place before, relocation and finishing too.
START_TEST(a_fit_outlives_memory_that_goes) {
    static const char *const designs[] = {"registers", "tensor", "tiled"};
    balloon_job job;
    job_open(&job, 3000017, _i == 0 ? 4 : 32, "3..7", 2, 5);
    job.spec.target.kind = KM_TARGET_CUDA;
    RIG_MUST(km_spec_fix(&job.spec, "design", designs[_i], &job.err), &job.err);
    RIG_MUST(job_run(&job), &job.err);
    km_result *first = job.result;
    job.result = NULL;
    job.watch.grows = 1;
    RIG_MUST(job_run(&job), &job.err);
    ck_assert_int_eq(job.watch.grows, 0);
    for (int m = 0; m < 5; m++) {
        ck_assert_double_eq(job.result->models[m].inertia, first->models[m].inertia);
        ck_assert_int_eq(memcmp(job.result->models[m].labels, first->models[m].labels, (size_t)first->n * 4),
                         0);
    }
    km_result_destroy(&first);
    job_close(&job);
}
END_TEST

static SRunner *runner_of(int with_device) {
    Suite *suite = suite_create(with_device ? "cuda" : "cuda, without a device");
    TCase *tests = tcase_create(with_device ? "device" : "no device"), *empty = tcase_create("empty"),
          *kept = tcase_create("kept"), *halves = tcase_create("halves");
    tcase_set_timeout(tests, 300);
    tcase_set_timeout(empty, 300);
    if (!with_device) {
        tcase_add_test(tests, missing_devices_are_named);
        tcase_add_test(tests, compiler_errors_name_file_and_line);
        tcase_add_test(tests, nvrtc_can_be_stopped);
    } else {
        tcase_add_test(tests, facts_are_read);
        tcase_add_test(tests, wide_rows_come_home);
        tcase_add_test(tests, doubles_are_centred_before_they_are_rounded);
        tcase_add_loop_test(tests, seeds_equal_the_cpu, 0, 4);
        tcase_add_loop_test(halves, seeds_by_halves_are_the_same, 0, 8);
        tcase_add_test(tests, finish_agrees_with_the_cpu);
        tcase_add_loop_test(kept, silhouettes_by_kept_labels, 0, 4 * KEPT_SETS);
        tcase_add_test(tests, runs_have_the_same_bits);
        tcase_add_test(empty, many_empty_clusters_are_filled);
        tcase_add_test(tests, next_plan_runs);
        tcase_add_test(tests, lists_that_spilled);
        tcase_add_loop_test(tests, engines_take_what_was_planned, 0, 8);
        tcase_add_test(tests, little_memory_takes_another_way);
        tcase_add_test(tests, little_memory_takes_fewer_concurrent_restarts);
        tcase_add_loop_test(tests, a_fit_outlives_memory_that_goes, 0, 3);
    }
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, empty); // without a device these have no tests
    suite_add_tcase(suite, kept);
    suite_add_tcase(suite, halves);
    if (with_device && is_emulated()) {
        TCase *few = tcase_create("few");
        tcase_set_timeout(few, 300);
        tcase_add_test(few, wide_rows_come_home);
        tcase_add_loop_test(few, seeds_by_halves_are_the_same, 0, 1);
        tcase_add_loop_test(few, silhouettes_by_kept_labels, 0, 1);
        suite_add_tcase(suite, few);
    }
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK); // a CUDA context does not outlive a fork
    return runner;
}

static int run_tests(int with_device) {
    SRunner *runner = runner_of(with_device);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed;
}

int main(void) {
    if (!mkdtemp(folder)) return 99;
    int failed = run_tests(0), devices = km_backend_cuda.device_count();
    if (!failed && devices) failed = run_tests(1);
    if (balloon.device) km_backend_cuda.device_close(&balloon.device);
    remove_folder(folder);
    if (failed) return 1;
    if (!devices) printf("skipped: no CUDA device\n");
    return devices ? 0 : 77;
}

// SPDX-License-Identifier: MIT
// One suite over every backend and design, through runtime/backend.h alone.
//
//     test_backend cpu-prebuilt|cpu-lanes|cpu-gemm|cpu-sparse_lanes
//     test_backend cuda-registers|cuda-tensor|cuda-tiled|cuda-tiled-plain|cuda-sparse_warps[-expanded]
//
// Exits 77 (skipped) where the variant's device is missing.
#include "device_main.h"
#include "../gen/numbers.h"
#include "../runtime/drawn.h"
#include "reference.h"
#include "rig.h"
#include "short_form.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const rig_variant *variant;

static const int64_t features[] = {1, 2, 3, 4, 5, 8, 13, 16, 32, 64, 100};
enum { FEATURES_COUNT = sizeof features / sizeof *features };

// Emitted CPU kernels are compiled for each number of features: unless all are asked for (KMGEN_TEST_ALL=1), for some,
// the same in all tests; of the prebuilt ones, whose kernels cpu_kernels runs, as many. Those of a device are tried
// with every one.
static int is_sampled(int64_t d) {
    if (variant->device != KM_HOST || is_whole()) return 1;
    // Of points as nonzeros a test of its own has other shapes.
    if (is_sample() && variant->design == KM_DESIGN_SPARSE_LANES) return d == 5;
    if (d == 5 || d == 100) return 1;
    // The texts of gemm, which is for many features, depend on the list of K, too.
    return variant->design != KM_DESIGN_GEMM && d == 1;
}

// Loads, seeds and finishes are the engine's own, the same for all of the CPU's designs of dense points: prebuilt tries
// them with all of the above, the emitted ones with one number of features.
static int is_sampled_of_engine(int64_t d) {
    int is_emitted = variant->design == KM_DESIGN_LANES || variant->design == KM_DESIGN_GEMM;
    return is_emitted && !is_whole() ? d == 5 : is_sampled(d);
}

// Under sanitizers each number of features has one of the types in a test that goes through both.
static int is_other_type(int i) {
    return is_sample() && (i + i / 2) % 2;
}

// On the CPU, the short form does without most of what only repeats chunks of points.
static int is_brief(void) {
    return variant->device == KM_HOST && !is_whole();
}

static int build(rig *r, km_type type, int64_t d, const char *clusters, int weighted) {
    rig_params params = {
        .type = type, .d = d, .clusters = clusters, .weighted = weighted, .cache_dir = cache};
    return rig_build(r, variant, &params);
}

static int is_expanded(void) {
    return variant->form && !strcmp(variant->form, "expanded");
}

// Whether the design may refuse a shape: straight-line code on a GPU holds a point and its sums in registers; products
// of halves have the precision of float32, and points the weight 1.
static int may_refuse(km_type type, int64_t d, int weighted) {
    if (variant->design == KM_DESIGN_TENSOR) return type == KM_FLOAT64 || weighted || d > 128;
    if (is_expanded()) return type == KM_FLOAT64 || d > 256;
    return variant->design == KM_DESIGN_REGISTERS && d > 16;
}

// Ends the test where the design refuses a shape and may.
#define BUILD_OR_LEAVE(built, type, d, weighted)                                                             \
    do {                                                                                                     \
        if (built) break;                                                                                    \
        ck_assert(may_refuse(type, d, weighted));                                                            \
        return;                                                                                              \
    } while (0)

// A type and weights that every design serves, as near to these as can be.
static km_type served_type(km_type type) {
    return variant->design == KM_DESIGN_TENSOR || is_expanded() ? KM_FLOAT32 : type;
}

static int served_weights(int weighted) {
    return variant->design == KM_DESIGN_TENSOR ? 0 : weighted;
}

// The widest of the lists that the design can serve at this d; 0 when it serves none and may.
static int build_widest(rig *r, km_type type, int64_t d, int weighted) {
    static const char *const lists[] = {"1,2,3,8,20,257", "1,2,3,8,20", "1,2,3,8", "2,3", "2"};
    for (int i = 0; i < (int)(sizeof lists / sizeof *lists); i++)
        if (build(r, type, d, lists[i], weighted)) return 1;
    ck_assert_msg(may_refuse(type, d, weighted), "%s serves no list of K at d=%lld", variant->name,
                  (long long)d);
    return 0;
}

static double accuracy(km_type type) {
    return type == KM_FLOAT32 ? 1e-6 : 1e-12;
}

// Loading -------------------------------------------------------------------------------------------------

static void check_statistics(const rig *r, const ref_data *points) {
    double *mean = calloc((size_t)points->d, sizeof(double)), total = 0;
    long double square = 0; // hundreds of thousands of terms: plain doubles would be off by 1e-11
    ref_mean_variance(mean, points);
    for (int64_t i = 0; i < points->n; i++) total += ref_weight(points, i);
    REF_NEAR(r->stats.total_weight, total, 1e-12 * total);
    for (int64_t f = 0; f < points->d; f++) {
        double low = INFINITY, high = -INFINITY, variance = 0, size = 0;
        for (int64_t i = 0; i < points->n; i++) {
            double x = points->x[i * points->d + f];
            low = fmin(low, x);
            high = fmax(high, x);
            variance += ref_weight(points, i) * (x - mean[f]) * (x - mean[f]) / total;
            size = fmax(size, fabs(x));
        }
        ck_assert_double_eq(r->stats.minimum[f], low);
        ck_assert_double_eq(r->stats.maximum[f], high);
        REF_NEAR(r->stats.mean[f], mean[f], 1e-13 * size);
        REF_NEAR(r->stats.variance[f], variance, 1e-12 * variance + 1e-13 * size * size * 1e-10);
    }
    for (int64_t i = 0; i < points->n * points->d; i++)
        square += (long double)ref_weight(points, i / points->d) * r->loaded.x[i] * r->loaded.x[i];
    REF_NEAR(r->stats.total_square, (double)square, 1e-12 * (double)square);
    free(mean);
}

// i: type, weighted or not, scale.
START_TEST(load_statistics) {
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    int weighted = _i / 2 % 2;
    km_scale scale = (km_scale)(_i / 4);
    static const int64_t counts[] = {1, 2, 63, 64, 65, 1009, 65537, 65535, 65536, 140009};
    int is_emitted = variant->design == KM_DESIGN_LANES || variant->design == KM_DESIGN_GEMM;
    int less = is_brief() && (is_emitted || is_sample()) ? 3 : 0; // two chunks are enough
    rig r;
    BUILD_OR_LEAVE(build(&r, type, 3, "2,3", weighted), type, 3, weighted);
    for (int c = 0; c < (int)(sizeof counts / sizeof *counts) - less; c++) {
        ref_data points = ref_blobs(counts[c], 3, 4, 1.0, 17, type);
        ref_shift(&points, 300);
        if (weighted) ref_weigh(&points, 3);
        rig_load(&r, &points, 0, scale);
        check_statistics(&r, &points);
        rig_unload(&r);
        ref_data_free(&points);
    }
    rig_close(&r);
}
END_TEST

// Loads the points of `r` again, column by column, and compares every bit.
static void check_columns(rig *r, const ref_data *points, km_scale scale) {
    const km_backend *backend = r->engine->backend;
    int64_t n = points->n, d = points->d;
    float *columns = malloc((size_t)(n * d) * sizeof *columns);
    double *row = malloc((size_t)(3 * d) * sizeof *row);
    for (int64_t i = 0; i < n * d; i++) columns[i % d * n + i / d] = (float)points->x[i];
    km_error err = {{0}};
    km_data *data;
    km_engine *engine;
    km_data_stats stats;
    km_load_params load = {.scale = scale, .centre = row + d, .factor = row + 2 * d};
    RIG_MUST(km_data_from_memory(&data, columns, n, d, KM_FLOAT32, 1, n, points->w, &err), &err);
    RIG_MUST(backend->engine_create(&engine, r->module->kernels, 1, NULL, &err), &err);
    RIG_MUST(km_data_stats_alloc(&stats, d, &err), &err);
    RIG_MUST(backend->load(engine, &stats, data, &load, &err), &err);
    ck_assert_mem_eq(stats.mean, r->stats.mean, (size_t)(4 * d) * sizeof(double)); // all four arrays
    ck_assert_double_eq(stats.total_square, r->stats.total_square);
    for (int64_t i = 0; i < n; i++) {
        RIG_MUST(backend->rows(engine, row, &i, 1, &err), &err);
        ck_assert_mem_eq(row, r->loaded.x + i * d, (size_t)d * sizeof *row);
    }
    backend->engine_destroy(&engine);
    km_data_stats_free(&stats);
    km_data_destroy(&data);
    free(row);
    free(columns);
}

// Rows as they lie in memory have kernels of their own; another layout does not. i: features, weighted or not.
START_TEST(load_of_any_layout_has_the_same_bits) {
    int64_t d = features[_i / 2];
    if (variant->device != KM_HOST || !is_sampled_of_engine(d)) return;
    rig r;
    ck_assert(build(&r, KM_FLOAT32, d, "2,3", _i % 2));
    for (int64_t n = d < 5 ? 70003 : 2003; n > 0; n = n > 1000 ? 77 : n > 9 ? 9 : 0) {
        ref_data points = ref_blobs(n, d, 4, 1.0, 17, KM_FLOAT32);
        ref_shift(&points, 300);
        if (_i % 2) ref_weigh(&points, 3);
        km_scale scale = n == 77 ? KM_SCALE_STANDARD : KM_SCALE_NONE;
        rig_load(&r, &points, 2, scale);
        check_columns(&r, &points, scale);
        rig_unload(&r);
        ref_data_free(&points);
    }
    rig_close(&r);
}
END_TEST

// Points that are drawn where they lie are those that the host draws. i: type, turned box, weights.
START_TEST(load_draws_what_the_host_draws) {
    enum { N = 70003 };
    static const double low[3] = {-.5, 3, 1e-3}, width[3] = {1, 7.25, 0};
    static const double axes[9] = {.6, .8, 0, -.48, .36, .8, .64, -.48, .6};
    km_type type = served_type(_i % 2 ? KM_FLOAT32 : KM_FLOAT64);
    int weighted = served_weights(_i / 4);
    double one[3] = {1, 1, 1}, zero[3] = {0}, point[3], *weights = malloc(N * sizeof *weights),
           *rows = malloc(3 * N * sizeof *rows);
    int64_t *indices = malloc(N * sizeof *indices);
    km_draws draws = {type, 42, UINT64_C(0x6761700000000003), 3, low, width, _i / 2 % 2 ? axes : NULL};
    km_load_params load = {.transform_given = 1, .centre = zero, .factor = one};
    km_error err = {{0}};
    km_data_stats stats;
    km_engine *engine;
    km_data *data;
    rig r;
    for (int64_t i = 0; i < N; i++) indices[i] = i, weights[i] = (double)(i % 3);
    ck_assert(build(&r, type, 3, "2,3", weighted));
    const km_backend *backend = r.device->backend;
    RIG_MUST(km_data_drawn(&data, &draws, N, weighted ? weights : NULL, &err), &err);
    RIG_MUST(km_data_stats_alloc(&stats, 3, &err), &err);
    for (int again = 0; again < 2; again++) { // the same in every engine
        RIG_MUST(backend->engine_create(&engine, r.module->kernels, 2, NULL, &err), &err);
        RIG_MUST(backend->load(engine, &stats, data, &load, &err), &err);
        RIG_MUST(backend->rows(engine, rows, indices, N, &err), &err);
        for (int64_t i = 0; i < N; i++) {
            km_draws_point(point, &draws, i);
            ck_assert_mem_eq(rows + 3 * i, point, sizeof point);
        }
        for (int f = 0; f < 3 && !draws.axes; f++) {
            ck_assert(stats.minimum[f] >= ref_round(low[f], type));
            ck_assert(stats.maximum[f] <= ref_round(low[f] + width[f], type));
            REF_NEAR(stats.mean[f], low[f] + width[f] / 2, .01 * width[f] + 1e-9);
        }
        backend->engine_destroy(&engine);
    }
    km_data_stats_free(&stats);
    km_data_destroy(&data);
    rig_close(&r);
    free(indices);
    free(weights);
    free(rows);
}
END_TEST

// Integers stay integers, as the centre is a multiple of a power of two: exact ties stay ties.
START_TEST(load_keeps_grids_exact) {
    rig r;
    ck_assert(build(&r, KM_FLOAT32, 2, "2,3", 0));
    ref_data points = ref_grid(1009, 2, 9, 5, KM_FLOAT32);
    ref_shift(&points, 1 << 20);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    for (int64_t i = 1; i < points.n * 2; i++) {
        double apart = points.x[i] - points.x[i % 2];
        ck_assert_double_eq(r.loaded.x[i] - r.loaded.x[i % 2], ldexp(apart, r.load.exponent));
    }
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Whatever the unit, the kernels see the same bits, and the largest coordinate lies between 1/2 and 1.
START_TEST(load_is_the_same_in_any_unit) {
    static const int powers[2][4] = {{-470, -100, 100, 490}, {-100, -60, 60, 120}};
    for (int scale = 0; scale < 3; scale++) {
        rig r;
        km_type type = served_type(_i ? KM_FLOAT32 : KM_FLOAT64);
        ck_assert(build(&r, type, 3, "2,3", 0));
        ref_data points = ref_blobs(1009, 3, 4, 1.0, 17, type);
        rig_load(&r, &points, 0, (km_scale)scale);
        ref_data first = ref_data_copy(&r.loaded);
        double largest = 0, total = r.stats.total_square, typical = r.stats.typical_square;
        for (int64_t i = 0; i < points.n * 3; i++) largest = fmax(largest, fabs(first.x[i]));
        ck_assert(largest >= .5 && largest <= 1);
        ck_assert(typical > 0 && typical <= 3);
        rig_unload(&r);
        for (int p = 0; p < 4; p++) {
            ref_data other = ref_data_copy(&points);
            for (int64_t i = 0; i < points.n * 3; i++)
                other.x[i] = ldexp(points.x[i], powers[type == KM_FLOAT32][p]);
            rig_load(&r, &other, 0, (km_scale)scale);
            for (int64_t i = 0; i < points.n * 3; i++) ck_assert_double_eq(r.loaded.x[i], first.x[i]);
            ck_assert_double_eq(r.stats.total_square, total);
            ck_assert_double_eq(r.stats.typical_square, typical);
            rig_unload(&r);
            ref_data_free(&other);
        }
        ref_data_free(&first);
        ref_data_free(&points);
        rig_close(&r);
    }
}
END_TEST

// Loads normal points with a value of their second feature far out; what became of it is in err->text.
static km_status load_with_far_value(km_type type, int64_t n, int64_t row, double value, km_error *err) {
    rig r;
    ck_assert(build(&r, type, 2, "2,3", 0));
    ref_data points = ref_blobs(n, 2, 1, 1.0, 5, type);
    points.x[row * 2 + 1] = ref_round(value, type);
    km_status status = rig_try_load(&r, &points, 0, KM_SCALE_NONE, err);
    ref_data_free(&points);
    rig_close(&r);
    return status;
}

// One value far out is served while the type still tells the others apart, and named where it does not.
START_TEST(load_of_a_value_far_out) {
    static const int64_t counts[] = {6, 61, 1009, 70001};
    for (int c = 0; c < 4; c++)
        for (int t = 0; t < 2; t++) {
            km_type type = served_type(t ? KM_FLOAT32 : KM_FLOAT64);
            int64_t n = counts[c], row = n / 3;
            char place[64];
            km_error err = {{0}};
            snprintf(place, sizeof place, "row %lld, column 2: ", (long long)row + 1);
            ck_assert_msg(load_with_far_value(type, n, row, 1e8, &err) == KM_OK, "%s", err.text);
            ck_assert_msg(load_with_far_value(type, n, row, -1e15, &err) == KM_OK, "%s", err.text);
            km_status status = load_with_far_value(type, n, row, 1e30, &err);
            if (type == KM_FLOAT64) {
                ck_assert_msg(status == KM_OK, "%s", err.text);
                status = load_with_far_value(type, n, row, 1e155, &err);
                ck_assert_ptr_nonnull(strstr(err.text, "do not fit a double"));
            } else {
                ck_assert_ptr_nonnull(strstr(err.text, "(--type f64)"));
            }
            ck_assert_int_eq(status, KM_ERROR_DATA);
            ck_assert_msg(strstr(err.text, place), "\"%s\" does not say %s", err.text, place);
        }
}
END_TEST

// Squares that no double holds: nothing reported could be right.
START_TEST(load_refuses_squares_that_do_not_fit) {
    static const double units[] = {1e160, 1e-160};
    static const char *const says[] = {"too large", "too small"};
    km_type type = served_type(KM_FLOAT64);
    rig r;
    ck_assert(build(&r, type, 3, "2,3", 0));
    for (int u = 0; u < 2 && type == KM_FLOAT64; u++) {
        km_error err = {{0}};
        ref_data points = ref_uniform(1009, 3, 1, type);
        for (int64_t i = 0; i < points.n * 3; i++) points.x[i] *= units[u];
        ck_assert_int_eq(rig_try_load(&r, &points, 0, KM_SCALE_NONE, &err), KM_ERROR_DATA);
        ck_assert_msg(strstr(err.text, says[u]) && strstr(err.text, "row "), "%s", err.text);
        ref_data_free(&points);
    }
    rig_close(&r);
}
END_TEST

START_TEST(load_refuses_nan_and_infinity) {
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    static const int64_t rows[] = {0, 6, 70000};
    for (int t = 0; t < 2; t++) {
        rig r;
        km_type type = served_type(t ? KM_FLOAT32 : KM_FLOAT64);
        ck_assert(build(&r, type, 3, "2,3", 0));
        for (int b = 0; b < 3; b++) {
            char row[64];
            km_error err = {{0}};
            ref_data points = ref_uniform(70001, 3, 1, type);
            points.x[rows[b] * 3 + 1] = bad[b];
            if (rows[b] < 100) points.x[65000 * 3] = NAN; // the first bad row is named, whoever finds it
            ck_assert_int_eq(rig_try_load(&r, &points, 0, KM_SCALE_NONE, &err), KM_ERROR_DATA);
            snprintf(row, sizeof row, "row %lld, column 2", (long long)rows[b] + 1);
            ck_assert_msg(strstr(err.text, row), "\"%s\" does not say %s", err.text, row);
            ref_data_free(&points);
        }
        rig_close(&r);
    }
}
END_TEST

// Seeds ---------------------------------------------------------------------------------------------------

static void check_seeds(const rig *r, int64_t picks) {
    enum { CHAINS = 3, FIRST = 5, SEED = 42 };
    km_error err = {{0}};
    int64_t *found = calloc((size_t)(CHAINS * picks), sizeof *found);
    int64_t *expected = calloc((size_t)picks, sizeof *expected);
    RIG_MUST(
        r->engine->backend->seed_plusplus(r->engine, found, FIRST, CHAINS, picks, SEED, NULL, NULL, &err),
        &err);
    for (int64_t chain = 0; chain < CHAINS; chain++) {
        ref_seed(expected, &r->loaded, SEED, FIRST + chain, picks);
        for (int64_t p = 0; p < picks; p++)
            ck_assert_msg(found[chain * picks + p] == expected[p],
                          "n=%lld, d=%lld, chain %lld, pick %lld: %lld, not %lld", (long long)r->engine->n,
                          (long long)r->engine->d, (long long)chain, (long long)p,
                          (long long)found[chain * picks + p], (long long)expected[p]);
    }
    free(found);
    free(expected);
}

static void check_seeds_of(rig *r, ref_data points, int weighted, int64_t picks) {
    if (weighted) ref_weigh(&points, 8);
    rig_load(r, &points, 0, KM_SCALE_NONE);
    check_seeds(r, picks);
    rig_unload(r);
    ref_data_free(&points);
}

// Integers: every sum is exact in both types. Blobs: float64 only, where rounding moves no draw of these seeds.
START_TEST(seeds_equal_the_reference) {
    int64_t d = (int64_t[]){1, 2, 5, 16, 19, 100}[_i / 2];
    int weighted = _i % 2;
    if (!is_sampled_of_engine(d)) return;
    for (int t = 0; t < 2; t++) {
        km_type type = served_type(t ? KM_FLOAT32 : KM_FLOAT64);
        if (is_few() ? type == KM_FLOAT64 : is_other_type(2 * (_i / 2) + t)) continue;
        rig r;
        BUILD_OR_LEAVE(build(&r, type, d, "2,3", weighted), type, d, weighted);
        check_seeds_of(&r, ref_grid(1, d, 4, 1, type), weighted, 2);
        check_seeds_of(&r, ref_grid(3, d, 8, 2, type), weighted, 3);
        check_seeds_of(&r, ref_grid(1009, d, 30, 3, type), weighted, 30);
        // Chunks and draws among them are tried with few features, where the textbook is quick.
        int is_short = is_few() || (is_brief() && d == 100);
        check_seeds_of(&r, ref_grid(is_short ? 16385 : 65537, d, 100, 4, type), weighted, 5);
        if (!is_sample() && !is_short) check_seeds_of(&r, ref_grid(140009, d, 100, 5, type), weighted, 3);
        if (type == KM_FLOAT64) check_seeds_of(&r, ref_blobs(997, d, 6, 1.0, 6, type), weighted, 25);
        if (type == KM_FLOAT64 && !is_short)
            check_seeds_of(&r, ref_blobs(70001, d, 6, 1.0, 7, type), weighted, 6);
        rig_close(&r);
    }
}
END_TEST

// More picks than distinct points: the draws of an empty total are stated too.
START_TEST(seeds_go_on_without_distinct_points) {
    rig r;
    km_type type = served_type(KM_FLOAT64);
    ck_assert(build(&r, type, 2, "2,3", 0));
    check_seeds_of(&r, ref_grid(50, 2, 2, 1, type), 0, 12);
    rig_close(&r);
}
END_TEST

// In float32 on any data: picks weigh something and are different while different points are left.
START_TEST(seeds_of_float32_are_distinct) {
    rig r;
    int weighted = served_weights(1);
    ck_assert(build(&r, KM_FLOAT32, 4, "2,3", weighted));
    ref_data points = ref_blobs(5003, 4, 7, 0.5, 9, KM_FLOAT32);
    if (weighted) ref_weigh(&points, 2);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    km_error err = {{0}};
    int64_t picks[4 * 40];
    RIG_MUST(r.engine->backend->seed_plusplus(r.engine, picks, 0, 4, 40, 7, NULL, NULL, &err), &err);
    for (int p = 0; p < 160; p++) {
        ck_assert(picks[p] >= 0 && picks[p] < points.n);
        ck_assert_double_gt(ref_weight(&points, picks[p]), 0);
        for (int q = p / 40 * 40; q < p; q++) ck_assert_int_ne(picks[p], picks[q]);
    }
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// A single pass -------------------------------------------------------------------------------------------

// First centroids that are data points (exact in the type), spread over the rows; for K above n some repeat.
static double *spread_rows(const ref_data *points, int64_t k) {
    double *centroids = calloc((size_t)(k * points->d), sizeof *centroids);
    for (int64_t j = 0; j < k; j++) {
        int64_t row = (j * 7919 + 3) % points->n;
        ref_rows(centroids + j * points->d, points, &row, 1);
    }
    return centroids;
}

// What a pass must find, and by how much the label contract lets it differ: points whose label is free under the
// contract may count for any of their clusters.
typedef struct expected_pass {
    double *weights, *sums, *sizes;   // k, k x d, k x d (sum of |w x|)
    double *weights_free, *sums_free; // what ambiguous points may move
    double *norms;                    // k: |c|^2
    double inertia, size;             // sum w |x - c|^2; sum w (|x|^2 + |c|^2)
    double inertia_free;              // what ambiguous points may add to the inertia
} expected_pass;

static const double origin[70016]; // longer than any row here

static void expected_free(expected_pass *e) {
    free(e->weights); // the one allocation that holds all arrays
}

// Point i, whose squared distances to the centroids are distance2, the least of them that of `best`.
static void expected_add(expected_pass *e, const ref_data *points, int64_t k, int64_t i,
                         const double *distance2, int32_t best) {
    const double *x = points->x + i * points->d;
    int64_t d = points->d, near = 0;
    double w = ref_weight(points, i), x2 = ref_distance2(x, origin, d), gap = 0;
    e->weights[best] += w;
    e->inertia += w * distance2[best];
    e->size += w * (x2 + e->norms[best]);
    for (int64_t f = 0; f < d; f++) {
        e->sums[best * d + f] += w * x[f];
        e->sizes[best * d + f] += w * fabs(x[f]);
    }
    for (int64_t j = 0; j < k; j++)
        near += distance2[j] - distance2[best] <= ref_epsilon(points->type) * (x2 + e->norms[j]);
    for (int64_t j = 0; j < k && near > 1; j++) {
        if (distance2[j] - distance2[best] > ref_epsilon(points->type) * (x2 + e->norms[j])) continue;
        gap = fmax(gap, distance2[j] - distance2[best]);
        e->weights_free[j] += w;
        for (int64_t f = 0; f < d; f++) e->sums_free[j * d + f] += w * fabs(x[f]);
    }
    e->inertia_free += w * gap;
}

static expected_pass expected_of(const ref_data *points, const double *centroids, int64_t k) {
    int64_t d = points->d;
    double *arrays = calloc((size_t)(3 * k + 3 * k * d), sizeof *arrays);
    double *distance2 = calloc((size_t)k, sizeof *distance2);
    expected_pass e = {
        .weights = arrays, .weights_free = arrays + k, .norms = arrays + 2 * k, .sums = arrays + 3 * k};
    e.sizes = e.sums + k * d;
    e.sums_free = e.sizes + k * d;
    for (int64_t j = 0; j < k; j++) e.norms[j] = ref_distance2(centroids + j * d, origin, d);
    for (int64_t i = 0; i < points->n; i++) {
        int32_t best = 0;
        for (int64_t j = 0; j < k; j++) {
            distance2[j] = ref_distance2(points->x + i * d, centroids + j * d, d);
            if (distance2[j] < distance2[best]) best = (int32_t)j;
        }
        expected_add(&e, points, k, i, distance2, best);
    }
    free(distance2);
    return e;
}

// What the design may be off in the sum of feature f of a cluster that weighs so much, in all its clusters so much.
// Registers adds a thread's few points in the plan's own type, and the pivot's sum is what the others leave of the
// whole: Higham's bound for such a sum is its additions x unit roundoff x sum of |w x|. Tensor adds points rounded to
// a lattice of 2^22 steps up to the power of two above the largest coordinate, exactly. The form expanded does so with
// products of weights and coordinates and 2^30 steps, tiled's integers with 2^45 steps (float64: 2^61).
static double sum_rounding(const rig *r, int64_t f, double weight, double whole) {
    const ref_data *points = &r->loaded;
    const km_plan *plan = &r->module->plan;
    int is_integers =
        variant->design == KM_DESIGN_TILED && km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_integers;
    double largest = 0, heaviest = 0;
    int exponent, weight_exponent = 0;
    if (variant->design == KM_DESIGN_REGISTERS)
        return 8 * (points->type == KM_FLOAT32 ? 0x1p-23 : 0x1p-50) * whole;
    if (variant->design != KM_DESIGN_TENSOR && !is_expanded() && !is_integers) return 0;
    for (int64_t i = 0; i < points->n; i++) {
        largest = fmax(largest, fabs(points->x[i * points->d + f]));
        heaviest = fmax(heaviest, ref_weight(points, i));
    }
    frexp(largest, &exponent);
    if (is_integers) return ldexp(weight, exponent - (points->type == KM_FLOAT32 ? 46 : 62));
    if (!is_expanded()) return ldexp(weight, exponent - 23);
    if (!points->w) return ldexp(weight, exponent - 31);
    frexp(heaviest, &weight_exponent);
    return ldexp((double)points->n, exponent + weight_exponent - 31);
}

// The slot after one pass and one update from `before`.
static void check_slot(const rig *r, int64_t slot, const km_slot_state *state, const double *before) {
    km_error err = {{0}};
    const ref_data *points = &r->loaded;
    int64_t k = rig_slot_clusters(r, slot), d = points->d, empty = 0;
    expected_pass e = expected_of(points, before, k);
    double *after = calloc((size_t)(k * d), sizeof *after), *weights = calloc((size_t)k, sizeof *weights),
           shift = 0, inertia_rounding = 0;
    RIG_MUST(r->engine->backend->slot_read(r->engine, slot, after, weights, &err), &err);
    double rounding = points->type == KM_FLOAT32 ? 0x1p-23 : 0x1p-50;
    for (int64_t j = 0; j < k; j++) {
        ck_assert_msg(fabs(weights[j] - e.weights[j]) <= e.weights_free[j],
                      "n=%lld d=%lld K=%lld cluster %lld weighs %.17g, not %.17g", (long long)points->n,
                      (long long)d, (long long)k, (long long)j, weights[j], e.weights[j]);
        empty += weights[j] == 0;
        for (int64_t f = 0; f < d; f++) {
            int64_t at = j * d + f;
            double whole = 0;
            for (int64_t o = 0; o < k; o++) whole += e.sizes[o * d + f];
            double own = sum_rounding(r, f, e.weights[j] + e.weights_free[j], whole);
            inertia_rounding += 2 * fabs(before[at]) * own; // it is made of the sums
            shift += (after[at] - before[at]) * (after[at] - before[at]);
            ck_assert_double_eq(after[at], ref_round(after[at], points->type));
            if (weights[j] == 0) ck_assert_double_eq(after[at], before[at]);
            if (weights[j] == 0) continue;
            double off = fabs(after[at] * weights[j] - e.sums[at]);
            double allowed =
                own + e.sums_free[at] + rounding * fabs(after[at]) * weights[j] + 1e-12 * e.sizes[at];
            ck_assert_msg(
                off <= allowed, "n=%lld d=%lld K=%lld cluster %lld feature %lld: sum off by %g, allowed %g",
                (long long)points->n, (long long)d, (long long)k, (long long)j, (long long)f, off, allowed);
        }
    }
    ck_assert_int_eq(state->iterations, 1);
    ck_assert_int_eq(state->empty_count, empty);
    REF_NEAR(state->shift, shift, 1e-6 * shift + 1e-30);
    ck_assert_msg(fabs(state->inertia - e.inertia) <=
                      accuracy(points->type) * e.inertia + 1e-13 * e.size + e.inertia_free + inertia_rounding,
                  "n=%lld d=%lld K=%lld inertia %.17g, not %.17g", (long long)points->n, (long long)d,
                  (long long)k, state->inertia, e.inertia);
    km_slot_phase moving = empty ? KM_SLOT_EMPTY : KM_SLOT_LAST;
    ck_assert_msg(state->phase == moving || (state->phase == KM_SLOT_DONE && shift == 0),
                  "K=%lld: phase %d with %lld "
                  "empty clusters, shift %g",
                  (long long)k, (int)state->phase, (long long)empty, shift);
    expected_free(&e);
    free(after);
    free(weights);
}

// With `far`, the second centroid of each K lies there in all features.
static void check_pass_far(rig *r, const ref_data *points, int64_t threads, double far) {
    km_error err = {{0}};
    rig_load(r, points, threads, KM_SCALE_NONE);
    const km_stop stop = {.shift_max = 0, .max_iter = 1};
    int64_t slots = r->engine->plan->spec.clusters_count, passes = 0, started = 0;
    double **before = calloc((size_t)slots, sizeof *before);
    km_slot_state *states = calloc((size_t)r->engine->slots_count, sizeof *states);
    for (int64_t slot = 0; slot < slots; slot++) {
        if (rig_slot_clusters(r, slot) > points->n) continue;
        started++;
        before[slot] = spread_rows(&r->loaded, rig_slot_clusters(r, slot));
        for (int64_t f = 0; f < points->d && far != 0 && rig_slot_clusters(r, slot) > 1; f++)
            before[slot][points->d + f] = ref_round(far, points->type);
        RIG_MUST(r->engine->backend->slot_start(r->engine, slot, before[slot], &err), &err);
    }
    RIG_MUST(r->engine->backend->run_passes(r->engine, states, &passes, &stop, 1, &err), &err);
    ck_assert_int_eq(passes, started > 0); // every K may be above n
    for (int64_t slot = 0; slot < slots; slot++) {
        if (before[slot]) check_slot(r, slot, &states[slot], before[slot]);
        if (!before[slot]) ck_assert_int_eq(states[slot].phase, KM_SLOT_IDLE);
        free(before[slot]);
    }
    free(before);
    free(states);
    rig_unload(r);
}

static void check_pass(rig *r, const ref_data *points, int64_t threads) {
    check_pass_far(r, points, threads, 0);
}

// The numbers of points around which a tail may go wrong: of a vector, an SoA group, a CUDA block.
static int64_t edge_counts(int64_t *counts, const rig *r, int64_t d) {
    static const char *const names[] = {"lanes", "soa_points", "block", "tile_points"};
    const km_plan *plan = &r->module->plan;
    int64_t found = 0;
    counts[found++] = 1;
    for (int i = 0; i < 4; i++) {
        int64_t size = km_plan_get(plan, names[i]);
        int64_t per_thread = km_plan_get(plan, "points_per_thread");
        if (size < 2) continue;
        for (int64_t off = -1; off <= 1; off++) counts[found++] = size + off;
        if (i == 2 && per_thread > 1) counts[found++] = size * per_thread + 1;
    }
    counts[found++] = 101;
    counts[found++] = 1009;
    if (d == 2 || d == 5)
        for (int64_t off = -1; off <= 1; off++) counts[found++] = 65536 + off;
    if (d == 2) counts[found++] = 140009;
    return found;
}

static void check_passes(km_type type, int64_t d, int weighted) {
    rig r;
    int64_t counts[24];
    if (!is_sampled(d)) return;
    if (!build_widest(&r, type, d, weighted)) return;
    int64_t count = edge_counts(counts, &r, d);
    for (int64_t c = 0; c < count; c++) {
        ref_data points = ref_blobs(counts[c], d, 9, 2.0, 31 + (uint64_t)c, type);
        if (weighted) ref_weigh(&points, 4);
        check_pass(&r, &points, c % 3);
        ref_data_free(&points);
    }
    rig_close(&r);
}

START_TEST(pass_equals_the_reference) {
    if (!is_other_type(_i)) check_passes(_i % 2 ? KM_FLOAT32 : KM_FLOAT64, features[_i / 2], 0);
}
END_TEST

START_TEST(weighted_pass_equals_the_reference) {
    if (!is_other_type(_i))
        check_passes(_i % 2 ? KM_FLOAT32 : KM_FLOAT64, (int64_t[]){1, 2, 5, 8, 16, 64}[_i / 2], 1);
}
END_TEST

// One point far from all others; features of different scales.
START_TEST(pass_holds_on_uneven_data) {
    static const double scales[] = {1000, 1, 0.01, 30};
    rig r;
    if (!build_widest(&r, KM_FLOAT32, 4, 0)) return;
    ref_data points = ref_blobs(20011, 4, 9, 1.0, 5, KM_FLOAT32);
    for (int64_t f = 0; f < 4 && _i == 0; f++) points.x[12345 * 4 + f] = 1e6;
    for (int64_t i = 0; i < points.n * 4 && _i == 1; i++)
        points.x[i] = ref_round(points.x[i] * scales[i % 4], KM_FLOAT32);
    check_pass(&r, &points, 0);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// A centroid outside the box of the points, near it and far away: no other one's scores may suffer from it.
START_TEST(pass_holds_with_a_centroid_far_away) {
    rig r;
    int64_t d = (int64_t[]){4, 8, 16, 64}[_i];
    if (!is_sampled(d)) return;
    if (!build_widest(&r, KM_FLOAT32, d, 0)) return;
    ref_data points = ref_blobs(5003, d, 9, 2.0, 7, KM_FLOAT32);
    for (double far = 10; far < 2e6; far *= 3) check_pass_far(&r, &points, 0, far);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Large K of which each fills tiles of centroids of its own. Designs for narrow lists may refuse them.
START_TEST(pass_of_many_clusters_equals_the_reference) {
    km_type type = served_type(_i % 2 ? KM_FLOAT32 : KM_FLOAT64);
    int64_t d = _i / 2 ? 40 : 5;
    int is_tensor = variant->design == KM_DESIGN_TENSOR;
    rig r;
    if (!build(&r, type, d, "250,300", 0) && !(is_tensor && build(&r, type, d, "100,256", 0)) &&
        !(is_expanded() && build(&r, type, d, "50,64", 0))) {
        ck_assert(variant->design == KM_DESIGN_REGISTERS || variant->design == KM_DESIGN_TENSOR);
        return;
    }
    for (int64_t n = 300; n < 5000; n += is_sample() ? 2018 : 1009) {
        ref_data points = ref_blobs(n, d, 40, 0.5, 3, type);
        check_pass(&r, &points, 0);
        ref_data_free(&points);
    }
    rig_close(&r);
}
END_TEST

// On integer grids scores are exactly representable: ties go to the lowest index, so weights are exact.
START_TEST(pass_breaks_ties_to_the_lowest_index) {
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    int64_t d = (int64_t[]){1, 2, 3, 4, 8, 32}[_i / 2];
    km_error err = {{0}};
    const km_stop stop = {.max_iter = 1};
    rig r;
    if (!is_sampled(d)) return;
    BUILD_OR_LEAVE(build(&r, type, d, "2,3,8", 0), type, d, 0);
    ref_data points = ref_grid(2003, d, 5, 12, type);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    km_slot_state *states = calloc((size_t)r.engine->slots_count, sizeof *states);
    int32_t *labels = calloc((size_t)points.n, sizeof *labels);
    int64_t passes;
    for (int64_t slot = 0; slot < 3; slot++) {
        double *before = spread_rows(&r.loaded, rig_slot_clusters(&r, slot));
        RIG_MUST(r.engine->backend->slot_start(r.engine, slot, before, &err), &err);
        free(before);
    }
    RIG_MUST(r.engine->backend->run_passes(r.engine, states, &passes, &stop, 1, &err), &err);
    for (int64_t slot = 0; slot < 3; slot++) {
        int64_t k = rig_slot_clusters(&r, slot);
        double after[8 * 32], weights[8], expected[8] = {0}, *before = spread_rows(&r.loaded, k);
        ref_assign(labels, NULL, &r.loaded, before, k);
        for (int64_t i = 0; i < points.n; i++) expected[labels[i]]++;
        RIG_MUST(r.engine->backend->slot_read(r.engine, slot, after, weights, &err), &err);
        for (int64_t j = 0; j < k; j++) ck_assert_double_eq(weights[j], expected[j]);
        free(before);
    }
    free(states);
    free(labels);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Few distinct points: a pass has each of these once. The bits are those of a pass that has all, as one that tracks
// labels does.
START_TEST(passes_of_few_distinct_points_have_the_same_bits) {
    enum { N = 20011, DISTINCT = 13, K_MAX = 8 };
    int64_t d = (int64_t[]){2, 4, 7, 24, 100}[_i];
    if (variant->design != KM_DESIGN_TENSOR || !is_sampled(d)) return;
    km_error err = {{0}};
    const km_stop stop = {.max_iter = 3};
    ref_data points = ref_blobs(N, d, 9, 2.0, 3, KM_FLOAT32);
    for (int64_t i = DISTINCT; i < N; i++)
        memcpy(points.x + i * d, points.x + (i * i % 11 * i + 5) % DISTINCT * d,
               (size_t)d * sizeof *points.x);
    double *found[2][3], weights[2][3][K_MAX] = {{{0}}};
    for (int tracks = 0; tracks < 2; tracks++) {
        const rig_params params = {
            .type = KM_FLOAT32, .d = d, .clusters = "2,3,8", .track_labels = tracks, .cache_dir = cache};
        rig r;
        BUILD_OR_LEAVE(rig_build(&r, variant, &params), KM_FLOAT32, d, 0);
        rig_load(&r, &points, 0, KM_SCALE_NONE);
        km_slot_state *states = calloc((size_t)r.engine->slots_count, sizeof *states);
        int64_t passes;
        for (int64_t slot = 0; slot < 3; slot++)
            RIG_MUST(r.engine->backend->slot_start(r.engine, slot, r.loaded.x, &err), &err);
        RIG_MUST(r.engine->backend->run_passes(r.engine, states, &passes, &stop, 3, &err), &err);
        for (int64_t slot = 0; slot < 3; slot++) {
            found[tracks][slot] = calloc((size_t)(K_MAX * d), sizeof(double));
            RIG_MUST(r.engine->backend->slot_read(r.engine, slot, found[tracks][slot], weights[tracks][slot],
                                                  &err),
                     &err);
            double all = 0;
            for (int j = 0; j < K_MAX; j++) all += weights[tracks][slot][j];
            ck_assert_double_eq(all, N);
        }
        free(states);
        rig_close(&r);
    }
    ck_assert_int_eq(memcmp(weights[0], weights[1], sizeof weights[0]), 0);
    for (int slot = 0; slot < 3; slot++) {
        ck_assert_int_eq(memcmp(found[0][slot], found[1][slot], (size_t)(K_MAX * d) * sizeof(double)), 0);
        free(found[0][slot]);
        free(found[1][slot]);
    }
    ref_data_free(&points);
}
END_TEST

// Runs to the end --------------------------------------------------------------------------------------

static void start_from_picks(const rig *r, int64_t slot, int64_t restart, double *init) {
    km_error err = {{0}};
    int64_t k = rig_slot_clusters(r, slot), picks[64];
    ref_seed(picks, &r->loaded, 99, restart, k);
    ref_rows(init, &r->loaded, picks, k);
    RIG_MUST(r->engine->backend->slot_start(r->engine, slot, init, &err), &err);
}

// A finished slot against the reference's whole run from the same centroids.
static void check_done(const rig *r, int64_t slot, const km_slot_state *state, const double *init,
                       const km_stop *stop) {
    km_error err = {{0}};
    const ref_data *points = &r->loaded;
    int64_t k = rig_slot_clusters(r, slot), d = points->d;
    ref_model model = ref_fit(points, init, k, stop->shift_max, stop->max_iter);
    double *centroids = calloc((size_t)(k * d), sizeof *centroids),
           *weights = calloc((size_t)k, sizeof *weights);
    RIG_MUST(r->engine->backend->slot_read(r->engine, slot, centroids, weights, &err), &err);
    int32_t *labels = calloc((size_t)points->n, sizeof *labels);
    ref_assign(labels, NULL, points, centroids, k);
    double own = ref_inertia(points, centroids, labels);
    ck_assert_int_eq(state->phase, KM_SLOT_DONE);
    REF_NEAR(state->inertia, own, accuracy(points->type) * own + 1e-14 * r->stats.total_square);
    REF_NEAR(state->inertia, model.inertia,
             accuracy(points->type) * model.inertia + 1e-14 * r->stats.total_square);
    ck_assert_int_eq(state->converged, model.converged);
    if (points->type == KM_FLOAT64) {
        ck_assert_int_eq(state->iterations, model.n_iter);
        for (int64_t i = 0; i < points->n; i++) ck_assert_int_eq(labels[i], model.labels[i]);
    }
    for (int64_t j = 0; j < k && points->type == KM_FLOAT64; j++)
        ck_assert_double_eq(weights[j], model.weights[j]);
    ref_model_free(&model);
    free(centroids);
    free(weights);
    free(labels);
}

static void check_runs(km_type type, int64_t d, int weighted, const km_stop *stop) {
    rig r;
    rig_params params = {
        .type = type, .d = d, .clusters = "2,3,5", .weighted = weighted, .concurrent = 2, .cache_dir = cache};
    BUILD_OR_LEAVE(rig_build(&r, variant, &params), type, d, weighted);
    ref_data points = ref_blobs(3001, d, 5, 1.5, 77, type);
    if (weighted) ref_weigh(&points, 6);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    int64_t slots = r.engine->slots_count;
    ck_assert_int_eq(slots, 6);
    km_slot_state *states = calloc((size_t)slots, sizeof *states);
    double *init = calloc((size_t)(slots * 5 * d), sizeof *init);
    for (int64_t slot = 0; slot < slots; slot++) start_from_picks(&r, slot, slot / 3, init + slot * 5 * d);
    rig_run_all(&r, states, stop);
    for (int64_t slot = 0; slot < slots; slot++)
        check_done(&r, slot, &states[slot], init + slot * 5 * d, stop);
    free(states);
    free(init);
    rig_close(&r);
    ref_data_free(&points);
}

START_TEST(runs_equal_the_reference) {
    const km_stop rest = {.max_iter = 300}, two = {.max_iter = 2};
    const km_stop early = {.shift_max = 0.5, .max_iter = 300}, at_once = {.shift_max = 1e9, .max_iter = 300};
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    int64_t d = (int64_t[]){1, 2, 7, 24}[_i / 2];
    if (!is_sampled(d)) return;
    check_runs(type, d, 0, &rest);
    if (!is_few()) check_runs(type, d, 1, &rest);
    check_runs(type, d, 0, &two);
    if (type == KM_FLOAT64) check_runs(type, d, 0, &early);
    check_runs(type, d, 0, &at_once);
}
END_TEST

START_TEST(few_changes_stop_a_run) {
    rig r;
    km_type type = served_type(KM_FLOAT64);
    rig_params params = {.type = type, .d = 2, .clusters = "3,300", .track_labels = 1, .cache_dir = cache};
    if (!rig_build(&r, variant, &params)) {
        params.clusters = "3,8";
        ck_assert(rig_build(&r, variant, &params));
    }
    ref_data points = ref_blobs(3001, 2, 5, 3.0, 7, type);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    const km_stop never = {.max_iter = 300}, any = {.changes_min = 3002, .max_iter = 300};
    const km_stop few = {.changes_min = 30, .max_iter = 300};
    const km_stop *stops[] = {&any, &few, &never};
    km_slot_state *states = calloc((size_t)r.engine->slots_count, sizeof *states);
    double *init = spread_rows(&r.loaded, 300);
    for (int64_t slot = 0; slot < 2; slot++) {
        int64_t k = rig_slot_clusters(&r, slot), iterations[3];
        double inertia[3];
        for (int s = 0; s < 3; s++) {
            km_error err = {{0}};
            double *centroids = calloc((size_t)(k * 2), sizeof(double)),
                   *weights = calloc((size_t)k, sizeof(double));
            RIG_MUST(r.engine->backend->slot_start(r.engine, slot, init, &err), &err);
            rig_run_all(&r, states, stops[s]);
            iterations[s] = states[slot].iterations;
            inertia[s] = states[slot].inertia;
            ck_assert(states[slot].converged);
            RIG_MUST(r.engine->backend->slot_read(r.engine, slot, centroids, weights, &err), &err);
            free(centroids);
            free(weights);
        }
        ck_assert_int_le(iterations[0], 2);
        ck_assert_int_lt(iterations[0], iterations[1]);
        ck_assert_int_lt(iterations[1], iterations[2]);
        ck_assert_double_gt(inertia[0], inertia[1]);
        ck_assert_double_gt(inertia[1], inertia[2]);
    }
    free(init);
    free(states);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Iterations until fewer than `changes_min` labels change, as the reference counts them; *last gets their number.
static int64_t iterations_until(int64_t *last, const ref_data *points, const double *init, int64_t k,
                                int64_t changes_min, int64_t max_iter) {
    size_t bytes = (size_t)(k * points->d) * sizeof *init;
    double *centroids = memcpy(malloc(bytes), init, bytes);
    int32_t *labels = calloc((size_t)points->n, sizeof *labels),
            *before = calloc((size_t)points->n, sizeof *before);
    int64_t iteration = 0;
    for (*last = points->n; iteration < max_iter && *last >= changes_min; iteration++) {
        ref_assign(labels, NULL, points, centroids, k);
        *last = iteration ? 0 : points->n; // the first labels all count as changed
        for (int64_t i = 0; i < points->n && iteration; i++) *last += labels[i] != before[i];
        memcpy(before, labels, (size_t)points->n * sizeof *labels);
        ref_update(centroids, NULL, NULL, points, labels, k);
    }
    free(centroids);
    free(labels);
    free(before);
    return iteration;
}

// Labels are counted to the last one, however they lie in memory: a run stops in the iteration that the reference
// stops in when the limit is what changes there, and one more.
START_TEST(changed_labels_are_counted) {
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    int64_t d = (int64_t[]){1, 2, 4, 5, 16, 32}[_i / 2];
    rig r;
    rig_params params = {.type = type, .d = d, .clusters = "3,8", .track_labels = 1, .cache_dir = cache};
    if (variant->design == KM_DESIGN_TENSOR || !is_sampled(d))
        return; // tensor's may differ within the contract
    BUILD_OR_LEAVE(rig_build(&r, variant, &params), type, d, 0);
    ref_data points = ref_blobs(40007, d, 5, 4.0, 11, type);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    km_slot_state *states = calloc((size_t)r.engine->slots_count, sizeof *states);
    double *init = spread_rows(&r.loaded, 8);
    for (int step = 0; step < 4; step++) {
        int64_t changes[2];
        for (int64_t slot = 0; slot < 2; slot++) {
            km_error err = {{0}};
            iterations_until(&changes[slot], &r.loaded, init, rig_slot_clusters(&r, slot), 0, 3);
            RIG_MUST(r.engine->backend->slot_start(r.engine, slot, init, &err), &err);
        }
        km_stop stop = {.changes_min = changes[step / 2] + step % 2, .max_iter = 30};
        rig_run_all(&r, states, &stop);
        for (int64_t slot = 0; slot < 2; slot++) {
            int64_t last;
            ck_assert_int_eq(
                states[slot].iterations,
                iterations_until(&last, &r.loaded, init, rig_slot_clusters(&r, slot), stop.changes_min, 30));
        }
    }
    free(init);
    free(states);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Thousands of equal points for each thread of one block: plain sums of float32 would be off by ten times as much.
START_TEST(long_sums_stay_accurate) {
    enum { POINTS = 4 << 20 };
    rig r;
    rig_params params = {.type = KM_FLOAT32, .d = 1, .clusters = "2", .one_block = 1, .cache_dir = cache};
    km_error err = {{0}};
    int64_t passes;
    const km_stop stop = {.max_iter = 5};
    const double value = ref_round(0.1, KM_FLOAT32), first[2] = {-value, value};
    double centroids[2], weights[2];
    BUILD_OR_LEAVE(rig_build(&r, variant, &params), KM_FLOAT32, 1, 0);
    ref_data points = ref_data_make(POINTS, 1, KM_FLOAT32);
    for (int64_t i = 0; i < POINTS; i++) points.x[i] = first[i % 2];
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    km_slot_state *states = calloc((size_t)r.engine->slots_count, sizeof *states);
    const double seen[2] = {r.loaded.x[0], r.loaded.x[1]};
    RIG_MUST(r.engine->backend->slot_start(r.engine, 0, seen, &err), &err);
    RIG_MUST(r.engine->backend->run_passes(r.engine, states, &passes, &stop, 1, &err), &err);
    RIG_MUST(r.engine->backend->slot_read(r.engine, 0, centroids, weights, &err), &err);
    for (int j = 0; j < 2; j++) {
        ck_assert_double_eq(weights[j], POINTS / 2);
        REF_NEAR(centroids[j], seen[j], 0x1p-16 * fabs(seen[j]));
    }
    free(states);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// A run sees only its own sums: the same bits alone as in company, and in a slot that was used before.
START_TEST(runs_do_not_see_each_other) {
    if (is_sample() && _i) return; // in one type
    km_type type = _i ? KM_FLOAT32 : KM_FLOAT64;
    const km_stop stop = {.max_iter = 300};
    rig r;
    rig_params params = {.type = type, .d = 3, .clusters = "2,3,5", .concurrent = 2, .cache_dir = cache};
    BUILD_OR_LEAVE(rig_build(&r, variant, &params), type, 3, 0);
    ref_data points = ref_blobs(70001, 3, 6, 3.0, 8, type);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    km_error err = {{0}};
    double init[15], together[6][15], alone[15], weights[5];
    km_slot_state states[6], single[6];
    for (int64_t slot = 0; slot < 6; slot++) start_from_picks(&r, slot, slot / 3, init);
    rig_run_all(&r, states, &stop);
    for (int64_t slot = 0; slot < 6; slot++)
        RIG_MUST(r.engine->backend->slot_read(r.engine, slot, together[slot], weights, &err), &err);
    for (int64_t slot = 0; slot < 6; slot++) {
        size_t bytes = (size_t)(rig_slot_clusters(&r, slot) * 3) * sizeof(double);
        start_from_picks(&r, slot, slot / 3, init);
        rig_run_all(&r, single, &stop);
        RIG_MUST(r.engine->backend->slot_read(r.engine, slot, alone, weights, &err), &err);
        ck_assert_int_eq(single[slot].iterations, states[slot].iterations);
        ck_assert_double_eq(single[slot].inertia, states[slot].inertia);
        ck_assert_mem_eq(alone, together[slot], bytes);
    }
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Empty clusters ------------------------------------------------------------------------------------------

// Clusters that lie far off: the farthest points are known.
START_TEST(relocation_takes_the_farthest_points) {
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    // Two of the three centroids start far off. From the first one, (-1, 0), the farthest are (8, 0), twice, then
    // (0, 7) and (0, -7); (0, 12) weighs nothing. From the mean, (0, 0), it would be (8, 0) and (-8, 0).
    const double x[] = {1, 0, -1, 0, 8, 0, 8, 0, 0, 7, 0, -7, -8, 0, 0, 12, -8, 0};
    const double w[] = {1, 1, 1, 1, 1, 1, 1, 0, 1};
    const double init[] = {-1, 0, 500, 500, -500, 500};
    km_error err = {{0}};
    rig r;
    BUILD_OR_LEAVE(build(&r, type, 2, "3", 1), type, 2, 1);
    ref_data points = ref_data_of(x, w, 9, 2, type);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    double before[6], expected[6], weights[3], after[6];
    for (int i = 0; i < 6; i++)
        before[i] = expected[i] = (init[i] - r.load.centre[i % 2]) * r.load.factor[i % 2];
    km_slot_state state[8];
    int32_t labels[9];
    int64_t passes, moved;
    const km_stop stop = {.max_iter = 300};
    ck_assert_int_le(r.engine->slots_count, 8);
    RIG_MUST(r.engine->backend->slot_start(r.engine, 0, before, &err), &err);
    RIG_MUST(r.engine->backend->run_passes(r.engine, state, &passes, &stop, 300, &err), &err);
    ck_assert_int_eq(state[0].phase, KM_SLOT_EMPTY);
    ck_assert_int_eq(state[0].empty_count, 2);
    ck_assert_int_eq(passes, 1);
    ref_assign(labels, NULL, &r.loaded, before, 3);
    ref_update(expected, weights, NULL, &r.loaded, labels, 3);
    ck_assert_int_eq(ref_relocate(expected, weights, before, &r.loaded, 3), 2);
    RIG_MUST(r.engine->backend->relocate(r.engine, 0, &moved, &err), &err);
    ck_assert_int_eq(moved, 2);
    RIG_MUST(r.engine->backend->slot_read(r.engine, 0, after, weights, &err), &err);
    for (int i = 0; i < 2; i++) REF_NEAR(after[i], expected[i], type == KM_FLOAT32 ? 1e-7 : 1e-15);
    for (int i = 2; i < 6; i++) ck_assert_double_eq(after[i], expected[i]);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

START_TEST(relocated_runs_equal_the_reference) {
    int64_t d = (int64_t[]){1, 2, 5}[_i];
    const km_stop stop = {.max_iter = 300};
    km_error err = {{0}};
    rig r;
    if (!is_sampled(d)) return;
    BUILD_OR_LEAVE(build(&r, KM_FLOAT64, d, "2,5,8", 0), KM_FLOAT64, d, 0);
    ref_data points = ref_blobs(2003, d, 8, 1.0, 21, KM_FLOAT64);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    km_slot_state *states = calloc((size_t)r.engine->slots_count, sizeof *states);
    double *init[3];
    for (int64_t slot = 0; slot < 3; slot++) {
        int64_t k = rig_slot_clusters(&r, slot);
        init[slot] = spread_rows(&r.loaded, k);
        for (int64_t j = 1; j < k; j += 2)
            for (int64_t f = 0; f < d; f++) init[slot][j * d + f] = 1000.0 + (double)j;
        RIG_MUST(r.engine->backend->slot_start(r.engine, slot, init[slot], &err), &err);
    }
    rig_run_all(&r, states, &stop);
    for (int64_t slot = 0; slot < 3; slot++) {
        check_done(&r, slot, &states[slot], init[slot], &stop);
        free(init[slot]);
    }
    free(states);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// No point to give: the run finishes with empty clusters.
START_TEST(relocation_without_points_ends) {
    rig r;
    const km_stop stop = {.max_iter = 300};
    const double x[] = {0, 0, 0, 1, 1, 0, 1, 0};
    km_error err = {{0}};
    BUILD_OR_LEAVE(build(&r, _i ? KM_FLOAT32 : KM_FLOAT64, 2, "4", 0), _i ? KM_FLOAT32 : KM_FLOAT64, 2, 0);
    ref_data points = ref_data_of(x, NULL, 4, 2, _i ? KM_FLOAT32 : KM_FLOAT64);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    km_slot_state *states = calloc((size_t)r.engine->slots_count, sizeof *states);
    double centroids[8], weights[4];
    RIG_MUST(r.engine->backend->slot_start(r.engine, 0, r.loaded.x, &err), &err);
    rig_run_all(&r, states, &stop);
    ck_assert_int_eq(states[0].phase, KM_SLOT_DONE);
    ck_assert_int_eq(states[0].empty_count, 1);
    REF_NEAR(states[0].inertia, 0, 1e-15);
    RIG_MUST(r.engine->backend->slot_read(r.engine, 0, centroids, weights, &err), &err);
    ck_assert_double_eq(weights[0] + weights[1] + weights[2] + weights[3], 4);
    ck_assert_double_eq(weights[3], 0);
    free(states);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Finishing -----------------------------------------------------------------------------------------------

static km_finish_model model_of(const double *centroids, int64_t k, int64_t n) {
    km_finish_model model = {.k = k, .centroids = centroids};
    model.counts = calloc((size_t)k, sizeof *model.counts);
    model.weights = calloc((size_t)(4 * k), sizeof(double));
    model.sse = model.weights + k;
    model.distance = model.weights + 2 * k;
    model.margin = model.weights + 3 * k;
    model.labels = n ? calloc((size_t)n, sizeof *model.labels) : NULL;
    return model;
}

static void model_free(km_finish_model *model) {
    free(model->counts);
    free(model->weights);
    free(model->labels);
    free((void *)model->means);
    free(model->sums);
}

// Off by at most `slack` of `scale`.
static void check_sums(const double *found, const double *expected, const double *scale, double slack,
                       int64_t k, const char *what) {
    for (int64_t j = 0; j < k; j++)
        ck_assert_msg(fabs(found[j] - expected[j]) <= slack * fabs(scale[j]),
                      "%s of cluster %lld: %.17g, not %.17g", what, (long long)j, found[j], expected[j]);
}

// What sums of distances and margins may be off: they may be made in the plan's type.
static double soft_slack(const rig *r) {
    return r->engine->plan->spec.type == KM_FLOAT32 ? (double)(r->engine->d + 8) * 0x1p-24 : 1e-12;
}

// Distances to the means, by labels.
static void expect_means(ref_finished *expected, const ref_data *points, const double *means) {
    memset(expected->distance, 0, (size_t)expected->k * sizeof *expected->distance);
    for (int64_t i = 0; i < points->n; i++) {
        double square = 0;
        for (int64_t f = 0; f < points->d; f++) {
            double t = points->x[i * points->d + f] - means[expected->labels[i] * points->d + f];
            square += t * t;
        }
        expected->distance[expected->labels[i]] += ref_weight(points, i) * sqrt(square);
    }
}

// Sums of points, by labels.
static void check_label_sums(const ref_data *points, const int32_t *labels, const double *found, int64_t k) {
    int64_t values = k * points->d;
    double *sums = calloc((size_t)(2 * values), sizeof *sums), *scale = sums + values;
    for (int64_t i = 0; i < points->n; i++)
        for (int64_t f = 0; f < points->d; f++) {
            double value = ref_weight(points, i) * points->x[i * points->d + f];
            sums[labels[i] * points->d + f] += value;
            scale[labels[i] * points->d + f] += fabs(value);
        }
    check_sums(found, sums, scale, 1e-12, values, "sum");
    free(sums);
}

static void check_finished(const rig *r, const km_finish_model *model) {
    ref_finished expected = ref_finish(&r->loaded, model->centroids, model->k);
    if (model->means) expect_means(&expected, &r->loaded, model->means);
    if (model->sums) check_label_sums(&r->loaded, expected.labels, model->sums, model->k);
    for (int64_t j = 0; j < model->k; j++) ck_assert_int_eq(model->counts[j], expected.counts[j]);
    for (int64_t i = 0; i < r->loaded.n && model->labels; i++)
        ck_assert_int_eq(model->labels[i], expected.labels[i]);
    check_sums(model->weights, expected.weights, expected.weights, 1e-12, model->k, "weight");
    // Of points that lie as CSR, squared distances are differences of squares, which are at most d.
    double differences = km_plan_layout(r->engine->plan) == KM_LAYOUT_CSR ? 1e-3 * (double)r->engine->d : 0;
    double *scale = calloc((size_t)model->k, sizeof *scale);
    for (int64_t j = 0; j < model->k; j++) scale[j] = expected.sse[j] + differences * expected.weights[j];
    check_sums(model->sse, expected.sse, scale, 1e-12, model->k, "inertia");
    for (int64_t j = 0; j < model->k; j++) // a root of what is near 0 is off by more
        scale[j] = expected.distance[j] + 1e6 * differences * expected.weights[j];
    check_sums(model->distance, expected.distance, scale, soft_slack(r), model->k, "distance");
    for (int64_t j = 0; j < model->k; j++) scale[j] = (1 + 1e9 * differences) * expected.weights[j];
    check_sums(model->margin, expected.margin, scale, soft_slack(r), model->k, "margin");
    free(scale);
    ref_finished_free(&expected);
}

static const int64_t finish_clusters[] = {1, 2, 5, 20, 300};
enum { FINISH_COUNT = sizeof finish_clusters / sizeof *finish_clusters };

// The most clusters take nearly all of the time: in the short form few points have them.
static int finish_count(int64_t n) {
    return is_brief() && n > 5000 ? FINISH_COUNT - 1 : FINISH_COUNT;
}

// Other rows in the place of a model's means: its centroids in another order.
static double *means_of(const rig *r, const double *centroids, int64_t k) {
    int64_t d = r->loaded.d;
    double *means = calloc((size_t)(k * d), sizeof *means);
    for (int64_t i = 0; i < k * d; i++) means[i] = centroids[(k - 1 - i / d) * d + i % d];
    return means;
}

// Finishes a few models in one read: one without labels, one with two equal centroids, three with means, two whose
// points are summed up.
static void finish_all(const rig *r, km_finish_model *models, double **centroids) {
    km_error err = {{0}};
    int count = finish_count(r->loaded.n);
    for (int m = 0; m < count; m++) {
        centroids[m] = spread_rows(&r->loaded, finish_clusters[m]);
        int64_t n = finish_clusters[m] == 5 ? 0 : r->loaded.n;
        models[m] = model_of(centroids[m], finish_clusters[m], n);
        if (m % 2 || m == 4) models[m].means = means_of(r, centroids[m], models[m].k);
        if (m == 2 || m == 3) models[m].sums = calloc((size_t)(models[m].k * r->loaded.d), sizeof(double));
    }
    RIG_MUST(r->engine->backend->finish(r->engine, models, count, &err), &err);
}

START_TEST(finish_equals_the_reference) {
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    int64_t d = (int64_t[]){1, 2, 5, 16, 32, 37, 100}[_i / 2];
    static const int64_t counts[] = {1, 63, 64, 65, 1009, 70001};
    if (!is_sampled_of_engine(d) || is_other_type(_i)) return;
    for (int weighted = 0; weighted < (is_few() ? 1 : 2); weighted++) {
        rig r;
        int served = build(&r, type, d, "2,3", weighted);
        ck_assert(served || may_refuse(type, d, weighted));
        if (!served) continue;
        for (int c = 0; c < (d > 2 && d != 5 ? 5 : 6); c++) {
            km_finish_model models[FINISH_COUNT];
            double *centroids[FINISH_COUNT];
            ref_data points = ref_blobs(counts[c], d, 7, 1.0, 3, type);
            if (weighted) ref_weigh(&points, 4);
            rig_load(&r, &points, 0, KM_SCALE_NONE);
            finish_all(&r, models, centroids);
            for (int m = 0; m < finish_count(points.n); m++) {
                check_finished(&r, &models[m]);
                model_free(&models[m]);
                free(centroids[m]);
            }
            rig_unload(&r);
            ref_data_free(&points);
        }
        rig_close(&r);
    }
}
END_TEST

static void check_same_bits(const km_finish_model *a, const km_finish_model *b, int64_t n) {
    ck_assert_mem_eq(a->counts, b->counts, (size_t)a->k * sizeof *a->counts);
    for (int64_t j = 0; j < a->k; j++) {
        ck_assert_double_eq(a->weights[j], b->weights[j]);
        ck_assert_double_eq(a->sse[j], b->sse[j]);
        ck_assert_double_eq(a->distance[j], b->distance[j]);
        ck_assert_double_eq(a->margin[j], b->margin[j]);
    }
    if (a->labels) ck_assert_mem_eq(a->labels, b->labels, (size_t)n * sizeof *a->labels);
}

// The prebuilt kernels and this variant give the same labels, and sums that agree, for the same centroids.
START_TEST(finish_agrees_everywhere) {
    km_type type = _i ? KM_FLOAT32 : KM_FLOAT64;
    rig r, prebuilt;
    int weighted = served_weights(1);
    rig_params params = {.type = type, .d = 6, .clusters = "2,3", .weighted = weighted, .cache_dir = cache};
    BUILD_OR_LEAVE(rig_build(&r, variant, &params), type, 6, weighted);
    ck_assert(rig_build(&prebuilt, rig_variant_find("cpu-prebuilt"), &params));
    ref_data points = ref_blobs(is_brief() ? 70003 : 140009, 6, 7, 1.0, 3, type);
    if (weighted) ref_weigh(&points, 4);
    km_finish_model models[FINISH_COUNT], expected[FINISH_COUNT];
    double *centroids[FINISH_COUNT], *same[FINISH_COUNT];
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    rig_load(&prebuilt, &points, 1, KM_SCALE_NONE);
    finish_all(&r, models, centroids);
    finish_all(&prebuilt, expected, same);
    for (int m = 0; m < finish_count(points.n); m++) {
        const km_finish_model *a = &models[m], *b = &expected[m];
        ck_assert_mem_eq(a->counts, b->counts, (size_t)a->k * sizeof *a->counts);
        if (a->labels) ck_assert_mem_eq(a->labels, b->labels, (size_t)points.n * sizeof *a->labels);
        check_sums(a->weights, b->weights, b->weights, 1e-12, a->k, "weight");
        check_sums(a->sse, b->sse, b->sse, 1e-12, a->k, "inertia");
        check_sums(a->distance, b->distance, b->distance, 2 * soft_slack(&r), a->k, "distance");
        check_sums(a->margin, b->margin, b->weights, 2 * soft_slack(&r), a->k, "margin");
        model_free(&models[m]);
        model_free(&expected[m]);
        free(centroids[m]);
        free(same[m]);
    }
    rig_close(&r);
    rig_close(&prebuilt);
    ref_data_free(&points);
}
END_TEST

// Silhouettes ---------------------------------------------------------------------------------------------

static const int64_t silhouette_clusters[] = {2, 5, 8, 21, 300};
static const int silhouette_rounds[] = {200, 1, 6, 2, 200};
enum { SILHOUETTES = sizeof silhouette_clusters / sizeof *silhouette_clusters };

// Sums of squared distances of each pair of a point and a cluster, pair by pair.
static double *pair_sums(const ref_data *points, const int32_t *labels, int64_t k) {
    double *sums = calloc((size_t)(points->n * k), sizeof *sums);
    for (int64_t i = 0; i < points->n; i++)
        for (int64_t j = 0; j < points->n; j++)
            sums[i * k + labels[j]] +=
                ref_weight(points, j) *
                ref_distance2(points->x + i * points->d, points->x + j * points->d, points->d);
    return sums;
}

// The sum of w times the silhouette by its definition; weights count as copies.
static double silhouette_by_pairs(const ref_data *points, const int32_t *labels, const double *weights,
                                  int64_t k) {
    double total = 0, *sums = pair_sums(points, labels, k);
    for (int64_t i = 0; i < points->n; i++) {
        double own = 0, other = INFINITY;
        for (int64_t j = 0; j < k; j++) {
            if (j == labels[i])
                own = weights[j] > 1 ? sums[i * k + j] / (weights[j] - 1) : -1;
            else if (weights[j] > 0)
                other = fmin(other, sums[i * k + j] / weights[j]);
        }
        if (own >= 0 && fmax(own, other) > 0)
            total += ref_weight(points, i) * (other - own) / fmax(own, other);
    }
    free(sums);
    return total;
}

typedef struct silhouette_case {
    km_silhouette_model model;
    ref_finished finished;
    double *centroids, *means;
} silhouette_case;

// Centroids that are not the means of their points, far from them after one round and nearer after some: these means
// are given. After so many that nothing moves any more they are.
enum { UNTIL_REST = 200 };
static silhouette_case silhouette_case_of(const ref_data *points, int64_t k, int rounds) {
    int apart = rounds < UNTIL_REST;
    int64_t values = k * points->d;
    silhouette_case c = {.centroids = spread_rows(points, k)};
    c.means = calloc((size_t)values, sizeof *c.means);
    for (;; rounds--) {
        c.finished = ref_finish(points, c.centroids, k);
        memcpy(c.means, c.centroids, (size_t)values * sizeof *c.means);
        ref_update(c.means, NULL, NULL, points, c.finished.labels, k);
        for (int64_t i = 0; !apart && i < values; i++) c.means[i] = ref_round(c.means[i], points->type);
        if (rounds == 1 || memcmp(c.means, c.centroids, (size_t)values * sizeof *c.means) == 0) break;
        for (int64_t i = 0; i < values; i++) c.centroids[i] = ref_round(c.means[i], points->type);
        ref_finished_free(&c.finished);
    }
    memset(c.finished.sse, 0, (size_t)k * sizeof *c.finished.sse);
    for (int64_t i = 0; i < points->n; i++) {
        int64_t j = c.finished.labels[i];
        c.finished.sse[j] += ref_weight(points, i) *
                             ref_distance2(points->x + i * points->d, c.means + j * points->d, points->d);
    }
    c.model = (km_silhouette_model){
        k, c.centroids, apart ? c.means : NULL, c.finished.weights, c.finished.sse, -99};
    return c;
}

static void silhouette_case_free(silhouette_case *c) {
    ref_finished_free(&c->finished);
    free(c->centroids);
    free(c->means);
}

// Lets the backend keep the labels of models that it finishes.
static void keep_labels(rig *r, const km_silhouette_model *models, int count) {
    km_finish_model finished[SILHOUETTES];
    km_error err = {{0}};
    for (int m = 0; m < count; m++) {
        finished[m] = model_of(models[m].centroids, models[m].k, 0);
        finished[m].keep = count - m;
    }
    RIG_MUST(r->engine->backend->finish(r->engine, finished, count, &err), &err);
    for (int m = 0; m < count; m++) model_free(&finished[m]);
}

// By labels that are found, where `kept` by those that the finishing pass kept.
static void check_silhouettes(rig *r, ref_data *points, km_type type, int kept) {
    silhouette_case cases[SILHOUETTES];
    km_silhouette_model models[SILHOUETTES];
    km_error err = {{0}};
    int count = 0;
    double weight = 0;
    rig_load(r, points, 0, KM_SCALE_NONE);
    for (int64_t i = 0; i < r->loaded.n; i++) weight += ref_weight(&r->loaded, i);
    for (int m = 0; m < SILHOUETTES && silhouette_clusters[m] < points->n; m++) {
        cases[m] = silhouette_case_of(&r->loaded, silhouette_clusters[m], silhouette_rounds[m]);
        models[count++] = cases[m].model;
    }
    if (kept) keep_labels(r, models, count);
    RIG_MUST(r->engine->backend->silhouette(r->engine, models, count, &err), &err);
    for (int m = 0; m < count; m++) {
        double expected =
            silhouette_by_pairs(&r->loaded, cases[m].finished.labels, cases[m].finished.weights, models[m].k);
        double slack = type == KM_FLOAT32 ? (double)(points->d + 8) * 0x1p-22 : 1e-10;
        REF_NEAR(models[m].sum, expected, slack * weight);
        silhouette_case_free(&cases[m]);
    }
    rig_unload(r);
}

START_TEST(silhouettes_equal_the_definition) {
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    int64_t d = (int64_t[]){1, 2, 5, 16, 100}[_i / 2];
    static const int64_t counts[] = {7, 63, 65, 331};
    if (!is_sampled_of_engine(d) || is_other_type(_i)) return;
    for (int weighted = 0; weighted < (is_few() ? 1 : 2); weighted++) {
        rig r;
        int served = build(&r, type, d, "2,3", weighted);
        ck_assert(served || may_refuse(type, d, weighted));
        if (!served) continue;
        for (int c = 0; c < 4; c++) {
            ref_data points = c == 2 ? ref_grid(counts[c], d, 3, 5, type) // copies and ties
                                     : ref_blobs(counts[c], d, 5, 2.0, 3, type);
            if (weighted) ref_weigh(&points, 4);
            for (int kept = 0; kept < 2; kept++) check_silhouettes(&r, &points, type, kept);
            ref_data_free(&points);
        }
        rig_close(&r);
    }
}
END_TEST

// Which of two centroids a point is nearest to, where the squared distances' floats say another one than doubles do.
static int misleads_float(double x, const double *centroids) {
    float t = (float)x - (float)centroids[0], u = (float)x - (float)centroids[1];
    double a = x - centroids[0], b = x - centroids[1];
    return t * t <= u * u && a * a > b * b;
}

// Points that float32 cannot tell which of two centroids is nearer to count to the one that double says.
START_TEST(silhouettes_of_open_labels) {
    km_type type = served_type(KM_FLOAT32);
    rig r;
    BUILD_OR_LEAVE(build(&r, type, 1, "2,3", 0), type, 1, 0);
    ref_data points = ref_data_make(100, 1, type);
    for (int64_t i = 0; i < 100; i++) points.x[i] = ref_round(i < 96 ? .3 : (double)i - 97.7, type);
    rig_load(&r, &points, 0, KM_SCALE_NONE);
    double x = r.loaded.x[0], centroids[2] = {0, 0}, weights[2] = {50, 50}, sse[2] = {.1, 100};
    for (int at = 1; at < 100000 && !misleads_float(x, centroids); at++) {
        centroids[0] = ref_round(x - .1 - at * 1e-6, KM_FLOAT32);
        centroids[1] = ref_round(2 * x - centroids[0], KM_FLOAT32);
    }
    ck_assert(misleads_float(x, centroids));
    km_silhouette_model model = {2, centroids, NULL, weights, sse, 0};
    km_error err = {{0}};
    RIG_MUST(r.engine->backend->silhouette(r.engine, &model, 1, &err), &err);
    double expected = 0;
    for (int64_t i = 0; i < 100; i++) {
        double squares[2];
        for (int j = 0; j < 2; j++) squares[j] = pow(r.loaded.x[i] - centroids[j], 2);
        int own = squares[1] < squares[0];
        double a = (squares[own] + sse[own] / 50) * 50 / 49, b = squares[!own] + sse[!own] / 50;
        expected += (b - a) / fmax(a, b);
    }
    REF_NEAR(model.sum, expected, 1e-3);
    rig_unload(&r);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Points of several chunks, each a copy of one of the first: their silhouettes are those of the first with weights.
START_TEST(silhouettes_of_many_points) {
    km_type type = served_type(KM_FLOAT64);
    enum { FEW = 97, TIMES = 1500 };
    rig r;
    BUILD_OR_LEAVE(build(&r, type, 4, "2,3", 0), type, 4, 0);
    ref_data few = ref_blobs(FEW, 4, 5, 2.0, 3, type), many = ref_data_make((int64_t)FEW * TIMES, 4, type);
    for (int64_t i = 0; i < many.n; i++) memcpy(many.x + i * 4, few.x + i % FEW * 4, 4 * sizeof *many.x);
    few.w = malloc(FEW * sizeof *few.w);
    for (int64_t i = 0; i < FEW; i++) few.w[i] = TIMES;
    rig_load(&r, &many, 0, KM_SCALE_NONE);
    ref_data first = {FEW, 4, type, r.loaded.x, few.w};
    silhouette_case c = silhouette_case_of(&first, 5, UNTIL_REST);
    km_error err = {{0}};
    RIG_MUST(r.engine->backend->silhouette(r.engine, &c.model, 1, &err), &err);
    double expected = silhouette_by_pairs(&first, c.finished.labels, c.finished.weights, 5);
    REF_NEAR(c.model.sum, expected, (type == KM_FLOAT32 ? 1e-5 : 1e-10) * (double)many.n);
    double sum = c.model.sum;
    RIG_MUST(r.engine->backend->silhouette(r.engine, &c.model, 1, &err), &err);
    ck_assert_double_eq(c.model.sum, sum);
    silhouette_case_free(&c);
    rig_unload(&r);
    rig_close(&r);
    ref_data_free(&few);
    ref_data_free(&many);
}
END_TEST

// Repeatability -------------------------------------------------------------------------------------------

typedef struct outcome {
    int64_t picks[2 * 5];
    double centroids[6][15], weights[6][5];
    km_slot_state states[6];
    km_finish_model finished[FINISH_COUNT];
    double *finish_centroids[FINISH_COUNT];
    double square;
} outcome;

static void outcome_make(outcome *out, rig *r, const ref_data *points, int64_t threads) {
    km_error err = {{0}};
    const km_stop stop = {.max_iter = 40};
    memset(out, 0, sizeof *out);
    rig_load(r, points, threads, KM_SCALE_STANDARD);
    const km_backend *backend = r->engine->backend;
    RIG_MUST(backend->seed_plusplus(r->engine, out->picks, 0, 2, 5, 3, NULL, NULL, &err), &err);
    for (int64_t slot = 0; slot < 6; slot++) {
        double init[15];
        ref_rows(init, &r->loaded, out->picks + slot / 3 * 5, rig_slot_clusters(r, slot));
        RIG_MUST(backend->slot_start(r->engine, slot, init, &err), &err);
    }
    rig_run_all(r, out->states, &stop);
    for (int64_t slot = 0; slot < 6; slot++)
        RIG_MUST(backend->slot_read(r->engine, slot, out->centroids[slot], out->weights[slot], &err), &err);
    finish_all(r, out->finished, out->finish_centroids);
    out->square = r->stats.total_square;
    rig_unload(r);
}

static void outcome_free(outcome *out) {
    for (int m = 0; m < FINISH_COUNT && out->finished[m].k; m++) {
        model_free(&out->finished[m]);
        free(out->finish_centroids[m]);
    }
}

// The same bits on a second run, and on any number of threads. In the short form runs by several threads are the second
// ones, and each of three threads has points.
START_TEST(threads_do_not_change_a_bit) {
    km_type type = _i ? KM_FLOAT32 : KM_FLOAT64;
    static const int64_t all_threads[] = {1, 1, 2, 3, 0}, few_threads[] = {1, 3, 2};
    const int64_t *threads = is_brief() ? few_threads : all_threads;
    int count = is_sample() ? 2 : is_brief() ? 3 : 5;
    rig r;
    int weighted = served_weights(1);
    rig_params params = {
        .type = type, .d = 3, .clusters = "2,3,5", .concurrent = 2, .weighted = weighted, .cache_dir = cache};
    BUILD_OR_LEAVE(rig_build(&r, variant, &params), type, 3, weighted);
    ref_data points = ref_blobs(is_sample() ? 70003 : is_brief() ? 140009 : 200003, 3, 5, 3.0, 13, type);
    if (weighted) ref_weigh(&points, 14);
    outcome first, other;
    outcome_make(&first, &r, &points, threads[0]);
    for (int t = 1; t < count; t++) {
        outcome_make(&other, &r, &points, threads[t]);
        ck_assert_mem_eq(other.picks, first.picks, sizeof first.picks);
        ck_assert_mem_eq(other.centroids, first.centroids, sizeof first.centroids);
        ck_assert_mem_eq(other.weights, first.weights, sizeof first.weights);
        ck_assert_double_eq(other.square, first.square);
        for (int slot = 0; slot < 6; slot++) {
            ck_assert_double_eq(other.states[slot].inertia, first.states[slot].inertia);
            ck_assert_double_eq(other.states[slot].shift, first.states[slot].shift);
            ck_assert_int_eq(other.states[slot].iterations, first.states[slot].iterations);
        }
        for (int m = 0; m < finish_count(points.n); m++)
            check_same_bits(&other.finished[m], &first.finished[m], points.n);
        outcome_free(&other);
    }
    outcome_free(&first);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// Points with zeros -------------------------------------------------------------------------------------------

// A row without a value, one with all, equal rows, a column without a value; the share of the others that are not 0.
static ref_data sparse_points(int64_t n, int64_t d, double share, km_type type) {
    ref_data points = ref_uniform(n, d, 12, type), chance = ref_uniform(n, d, 13, KM_FLOAT64);
    double least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < n * d; i++) {
        least = fmin(least, chance.x[i]);
        most = fmax(most, chance.x[i]);
    }
    for (int64_t i = 0; i < n * d; i++) {
        int64_t row = i / d, column = i % d;
        int is_kept = row == 1 || (row > 1 && column < d - 1 + (share == 1) &&
                                   chance.x[i] <= least + share * (most - least));
        points.x[i] = is_kept ? ref_round(points.x[i] + (double)(row % 5), type) : 0;
    }
    for (int64_t f = 0; f < d && n > 9; f++) points.x[9 * d + f] = points.x[8 * d + f];
    ref_data_free(&chance);
    return points;
}

// i: shape, type, weights. The widest shape has so many clusters x features that its sums are owned; columns of 4
// bytes; and a row of 70,000 nonzeros, longer than what is worked on together, beside one without any.
START_TEST(sparse_points_equal_the_reference) {
    static const struct {
        int64_t n, d;
        double share;
        const char *clusters;
    } shapes[] = {{1009, 1, 0.5, "1..3"},    {2003, 2, 0.5, "2..12"},   {4001, 100, 0.05, "2..12"},
                  {997, 100, 1, "100"},      {701, 257, 0.001, "1..3"}, {601, 300, 0.2, "300"},
                  {67, 70000, 0.001, "2,65"}};
    int shape = _i / 4;
    km_type type = _i % 2 ? KM_FLOAT32 : KM_FLOAT64;
    int weighted = _i / 2 % 2;
    rig r;
    if (variant->design != KM_DESIGN_SPARSE_LANES && variant->design != KM_DESIGN_SPARSE_WARPS) return;
    if (shape == 6 && (type == KM_FLOAT64 || weighted) && !is_whole()) return;
    if (is_sample() && _i % 5 != 0)
        return; // all but the fifth shape, in both types, with and without weights
    if (!build(&r, type, shapes[shape].d, shapes[shape].clusters, weighted)) return;
    ref_data points = sparse_points(shapes[shape].n, shapes[shape].d, shapes[shape].share, type);
    if (weighted) ref_weigh(&points, 4);
    check_pass(&r, &points, 2);
    rig_load(&r, &points, 2, KM_SCALE_NONE);
    const km_stop stop = {.max_iter = 50};
    int64_t slots = r.engine->slots_count, d = points.d;
    km_slot_state *states = calloc((size_t)slots, sizeof *states);
    for (int64_t slot = 0; slot < slots; slot++) {
        km_error err = {{0}};
        double *init = spread_rows(&r.loaded, rig_slot_clusters(&r, slot));
        RIG_MUST(r.engine->backend->slot_start(r.engine, slot, init, &err), &err);
        free(init);
    }
    rig_run_all(&r, states, &stop);
    for (int64_t slot = 0; slot < slots; slot++) { // sums that moved through all passes tell the inertia
        km_error err = {{0}};
        int64_t k = rig_slot_clusters(&r, slot);
        double *centroids = calloc((size_t)(k * (d + 1)), sizeof *centroids);
        RIG_MUST(r.engine->backend->slot_read(r.engine, slot, centroids, centroids + k * d, &err), &err);
        km_finish_model model = model_of(centroids, k, points.n);
        RIG_MUST(r.engine->backend->finish(r.engine, &model, 1, &err), &err);
        check_finished(&r, &model);
        double inertia = 0;
        for (int64_t j = 0; j < k; j++) {
            inertia += model.sse[j];
            ck_assert_double_eq(model.weights[j], centroids[k * d + j]);
        }
        REF_NEAR(states[slot].inertia, inertia, accuracy(type) * inertia + 1e-14 * r.stats.total_square);
        model_free(&model);
        free(centroids);
    }
    free(states);
    rig_close(&r);
    ref_data_free(&points);
}
END_TEST

// On an emulated GPU most of the time goes into its compiler: of each design a few tests in float32, which share texts.
// The steps, which all designs of dense points have, are run beside one of few features and one of many.
static TCase *few_of_emulated(void) {
    TCase *few = tcase_create("few");
    km_design design = variant->design;
    tcase_set_timeout(few, 600);
    // Of the features 5, or 100.
    int is_sparse = design == KM_DESIGN_SPARSE_WARPS, is_tiled = design == KM_DESIGN_TILED,
        is_many = is_tiled && !variant->form, i = is_many ? FEATURES_COUNT - 1 : 4;
    if (is_sparse)
        tcase_add_loop_test(few, sparse_points_equal_the_reference, 9, 10);
    else
        tcase_add_loop_test(few, pass_equals_the_reference, 2 * i + 1, 2 * i + 2);
    if (is_expanded() || (is_tiled && !is_many)) return few;
    tcase_add_loop_test(few, runs_equal_the_reference, is_many ? 7 : 5, is_many ? 8 : 6);
    if (design == KM_DESIGN_TENSOR) return few;
    tcase_add_loop_test(few, seeds_equal_the_reference, is_many ? 10 : 4, is_many ? 11 : 5);
    tcase_add_loop_test(few, finish_equals_the_reference, is_many ? 13 : 5, is_many ? 14 : 6);
    if (!is_sparse)
        tcase_add_loop_test(few, silhouettes_equal_the_definition, is_many ? 9 : 5, is_many ? 10 : 6);
    return few;
}

static Suite *suite_of(void) {
    Suite *suite = suite_create(variant->name);
    TCase *load = tcase_create("load"), *seed = tcase_create("seed"), *pass = tcase_create("pass");
    TCase *uneven = tcase_create("uneven"), *run = tcase_create("run"), *finish = tcase_create("finish"),
          *empty = tcase_create("empty");
    TCase *sparse = tcase_create("sparse"); // its shapes take most of the time: CUDA is compiled for each
    tcase_add_loop_test(load, load_statistics, 0, 12);
    tcase_add_loop_test(load, load_of_any_layout_has_the_same_bits, 0, 2 * FEATURES_COUNT);
    tcase_add_loop_test(load, load_draws_what_the_host_draws, 0, 8);
    tcase_add_test(load, load_keeps_grids_exact);
    tcase_add_test(load, load_refuses_nan_and_infinity);
    tcase_add_loop_test(load, load_is_the_same_in_any_unit, 0, 2);
    tcase_add_test(load, load_of_a_value_far_out);
    tcase_add_test(load, load_refuses_squares_that_do_not_fit);
    tcase_add_loop_test(seed, seeds_equal_the_reference, 0, 12);
    tcase_add_test(seed, seeds_go_on_without_distinct_points);
    tcase_add_test(seed, seeds_of_float32_are_distinct);
    tcase_add_loop_test(pass, pass_equals_the_reference, 0, 2 * FEATURES_COUNT);
    tcase_add_loop_test(pass, weighted_pass_equals_the_reference, 0, 12);
    tcase_add_test(pass, long_sums_stay_accurate);
    tcase_add_loop_test(uneven, pass_holds_on_uneven_data, 0, 2);
    tcase_add_loop_test(uneven, pass_holds_with_a_centroid_far_away, 0, 4);
    tcase_add_loop_test(pass, pass_of_many_clusters_equals_the_reference, 0, 4);
    tcase_add_loop_test(pass, pass_breaks_ties_to_the_lowest_index, 0, 12);
    tcase_add_loop_test(uneven, passes_of_few_distinct_points_have_the_same_bits, 0, 5);
    tcase_add_loop_test(run, runs_equal_the_reference, 0, 8);
    tcase_add_test(run, few_changes_stop_a_run);
    tcase_add_loop_test(run, changed_labels_are_counted, 0, 12);
    tcase_add_loop_test(run, runs_do_not_see_each_other, 0, 2);
    tcase_add_loop_test(empty, relocation_takes_the_farthest_points, 0, 2);
    tcase_add_loop_test(empty, relocated_runs_equal_the_reference, 0, 3);
    tcase_add_loop_test(empty, relocation_without_points_ends, 0, 2);
    tcase_add_loop_test(sparse, sparse_points_equal_the_reference, 0, 28);
    tcase_add_loop_test(finish, finish_equals_the_reference, 0, 14);
    tcase_add_loop_test(finish, finish_agrees_everywhere, 0, 2);
    tcase_add_loop_test(finish, silhouettes_equal_the_definition, 0, 10);
    tcase_add_test(finish, silhouettes_of_open_labels);
    tcase_add_test(finish, silhouettes_of_many_points);
    tcase_add_loop_test(finish, threads_do_not_change_a_bit, 0, 2);
    TCase *cases[] = {load, seed, pass, uneven, run, empty, sparse, finish};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        tcase_set_timeout(cases[c], 300);
        suite_add_tcase(suite, cases[c]);
    }
    if (is_emulated()) suite_add_tcase(suite, few_of_emulated());
    return suite;
}

int main(int argc, char **argv) {
    variant = argc == 2 ? rig_variant_find(argv[1]) : NULL;
    if (!variant) {
        fprintf(stderr, "usage: test_backend VARIANT, one of");
        for (int i = 0; rig_variant_at(i); i++) fprintf(stderr, " %s", rig_variant_at(i)->name);
        fprintf(stderr, "\n");
        return 2;
    }
    km_error err = {{0}};
    if (rig_can_plan(variant, &err) != KM_OK) {
        fprintf(stderr, "%s: %s\n", variant->name, err.text);
        return 1;
    }
    return device_main(variant->name, variant->device != KM_HOST, suite_of);
}

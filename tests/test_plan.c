// SPDX-License-Identifier: MIT
// What both targets share of planning: targets, fixed numbers, the table for people.
#include "gen/cuda/tensor.h"
#include "gen/cuda/tiles.h"
#include "gen/design.h"
#include "gen/source.h"
#include "gen/words.h"

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static km_spec spec;
static km_plan plan;
static km_error err;

static void setup(void) {
    km_spec_init(&spec);
    km_plan_init(&plan);
    err.text[0] = 0;
    spec.features = 4;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..5", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(&spec, "cpu", &err), KM_OK);
}

static void teardown(void) {
    km_plan_clear(&plan);
    km_spec_clear(&spec);
}

// By the cost model alone: tests/test_tuning.c is about tables. NULL: the defaults.
static km_status make_plan(const km_plan_params *params) {
    km_plan_params untuned;
    km_plan_params_init(&untuned);
    if (params) untuned = *params;
    untuned.untuned = 1;
    return km_plan_make(&plan, &spec, &untuned, &err);
}

static void expect_plan(const km_plan_params *params) {
    ck_assert_msg(make_plan(params) == KM_OK, "%s", err.text);
}

static void expect_error(const km_plan_params *params, const char *part) {
    err.text[0] = 0;
    ck_assert_int_eq(make_plan(params), KM_ERROR_PLAN);
    ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
}

START_TEST(names) {
    char text[32];
    km_target_text(text, sizeof text, (km_target){KM_TARGET_CUDA, 90});
    ck_assert_str_eq(text, "cuda:sm_90");
    km_target_text(text, sizeof text, (km_target){KM_TARGET_CUDA, 0});
    ck_assert_str_eq(text, "cuda");
    km_target_text(text, sizeof text, (km_target){KM_TARGET_CPU, KM_ISA_AVX512});
    ck_assert_str_eq(text, "cpu:avx512");
    km_target_text(text, 4, (km_target){KM_TARGET_AUTO, 0});
    ck_assert_str_eq(text, "aut");
    for (int i = KM_DESIGN_NONE; i < KM_DESIGN_COUNT; i++)
        ck_assert_int_gt((int)strlen(km_design_name((km_design)i)), 3);
    ck_assert_str_eq(km_design_name((km_design)99), "none");
    ck_assert_str_eq(km_design_name((km_design)-1), "none");
    ck_assert_str_eq(km_type_name(KM_FLOAT64), "float64");
}
END_TEST

START_TEST(nominal_devices) {
    static const int arches[] = {75, 80, 86, 89, 90, 100, 120};
    for (size_t i = 0; i < sizeof arches / sizeof *arches; i++) {
        km_device_facts facts;
        km_device_facts_init(&facts, (km_target){KM_TARGET_CUDA, arches[i]});
        ck_assert_int_eq(facts.target.arch, arches[i]);
        ck_assert_int_ge(facts.shared_bytes_per_unit, facts.shared_bytes_per_block);
        ck_assert(facts.units > 0 && facts.bandwidth_gbs > 0 && facts.clock_ghz > 0 && facts.has_compiler);
    }
    km_device_facts facts;
    km_device_facts_init(&facts, (km_target){KM_TARGET_CUDA, 0});
    ck_assert_int_eq(facts.target.arch, 90);
    ck_assert_int_eq(facts.units, 132);
    ck_assert_int_eq(facts.shared_bytes_per_unit, 233472);
    ck_assert_int_eq(facts.shared_bytes_per_block, 232448);
    km_device_facts_init(&facts, (km_target){KM_TARGET_AUTO, 0});
    ck_assert_int_eq(facts.target.kind, KM_TARGET_CPU);
    ck_assert_int_eq(facts.target.arch, KM_ISA_AVX2);
    ck_assert_int_eq(facts.units, 2);
}
END_TEST

// Small fits take less time on a CPU than a GPU takes to start, large ones more than a GPU takes in all.
START_TEST(times_of_a_fit) {
    static const int64_t points[] = {150, 10000, 10000000, 100000000};
    double before = 0;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        km_fit_time time[2], few;
        for (int j = 0; j < 2; j++) {
            km_plan_params params;
            km_plan_params_init(&params);
            params.points = points[i];
            ck_assert_int_eq(km_spec_set_target(&spec, j ? "cuda" : "cpu", &err), KM_OK);
            expect_plan(&params);
            km_plan_fit_time(&time[j], &plan, 300);
            km_plan_fit_time(&few, &plan, 5);
            ck_assert(fabs(few.passes_ms * 4 - time[j].passes_ms) < 1e-9 * time[j].passes_ms);
            ck_assert(time[j].total_ms >= time[j].passes_ms && time[j].passes_ms > 0);
        }
        ck_assert(time[0].start_ms == 0 && time[0].transfer_ms == 0 && time[1].start_ms > 0);
        ck_assert_int_eq(time[0].total_ms < time[1].total_ms, points[i] <= 10000);
        ck_assert(time[0].total_ms > before);
        before = time[0].total_ms;
    }
    expect_plan(NULL); // n is not known
    km_fit_time none;
    km_plan_fit_time(&none, &plan, 300);
    ck_assert(none.total_ms == 0);
}
END_TEST

START_TEST(targets) {
    // Nothing said: the same on every machine.
    spec.target = (km_target){KM_TARGET_AUTO, 0};
    expect_plan(NULL);
    ck_assert_int_eq(plan.spec.target.kind, KM_TARGET_CUDA);
    ck_assert_int_eq(plan.spec.target.arch, 90);
    // The device's own, when there is one.
    km_plan_params params;
    km_plan_params_init(&params);
    km_device_facts facts;
    km_device_facts_init(&facts, (km_target){KM_TARGET_CPU, KM_ISA_AVX512});
    params.facts = &facts;
    expect_plan(&params);
    ck_assert_int_eq(plan.spec.target.arch, KM_ISA_AVX512);
    // An older instruction set than the machine's is as wide as that one.
    spec.target = (km_target){KM_TARGET_CPU, KM_ISA_AVX2};
    expect_plan(&params);
    ck_assert_int_eq(plan.facts.target.arch, KM_ISA_AVX2);
    ck_assert_double_eq(plan.facts.fp32_per_cycle, 16);
    // What the device cannot run is refused.
    spec.target = (km_target){KM_TARGET_CPU, KM_ISA_NEON};
    expect_error(&params, "target cpu:neon does not run on this device, cpu:avx512");
    spec.target = (km_target){KM_TARGET_CUDA, 90};
    expect_error(&params, "target cuda:sm_90 does not run on this device");
    km_device_facts_init(&facts, (km_target){KM_TARGET_CUDA, 80});
    expect_error(&params, "target cuda:sm_90 does not run on this device, cuda:sm_80");
    spec.target = (km_target){KM_TARGET_CUDA, 86};
    expect_error(&params, "target cuda:sm_86 does not run on this device, cuda:sm_80");
    spec.target = (km_target){KM_TARGET_CPU, 77};
    expect_error(NULL, "unknown instruction set 77");
}
END_TEST

// Shares of nonzeros, in percent, at which passes of both layouts are equal, as measured on two cores of each
// instruction set, a fit a core with AVX-512 (docs/sparse.md). The planner is to be within a factor of 1.3 of them.
START_TEST(layouts_are_equal_where_passes_are) {
    static const struct {
        int32_t isa;
        int64_t features;
        const char *clusters;
        double percent;
    } shapes[] = {{KM_ISA_AVX2, 100, "2..12", 55},   {KM_ISA_AVX512, 50, "2..12", 34},
                  {KM_ISA_AVX512, 100, "2..12", 70}, {KM_ISA_AVX512, 100, "10", 35},
                  {KM_ISA_AVX512, 100, "50", 45},    {KM_ISA_AVX512, 200, "2..12", 76},
                  {KM_ISA_AVX512, 500, "2..12", 57}, {KM_ISA_AVX512, 500, "50", 38}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        km_plan_params params;
        km_device_facts facts;
        km_device_facts_init(&facts, (km_target){KM_TARGET_CPU, shapes[i].isa});
        km_plan_params_init(&params);
        params.facts = &facts;
        params.points = 300000;
        spec.features = shapes[i].features;
        ck_assert_int_eq(km_spec_set_clusters(&spec, shapes[i].clusters, &err), KM_OK);
        for (int percent = 5; percent <= 100; percent += 1) {
            params.nonzeros = percent * (double)spec.features / 100;
            expect_plan(&params);
            const char *layout = km_layout_name(km_plan_layout(&plan));
            ck_assert_msg(percent > shapes[i].percent / 1.3 || !strcmp(layout, "csr"), "%d, %s: %s at %d %%",
                          (int)spec.features, shapes[i].clusters, layout, percent);
            ck_assert_msg(percent < shapes[i].percent * 1.3 || !strcmp(layout, "dense"),
                          "%d, %s: %s at %d %%", (int)spec.features, shapes[i].clusters, layout, percent);
            const char *side = km_plan_is_csr(&plan) ? "layout csr: " : "layout dense: ";
            ck_assert_msg(strstr(plan.design_reason, side) != NULL || percent > 70, "%s", plan.design_reason);
        }
    }
}
END_TEST

// What was measured on an H100, K = 10 and 100 features: of 20 % of nonzeros or less, passes of CSR points, in the form
// expanded, take three quarters of the time of dense ones at most (bench/cuda_sparse.cu); of 80 % and more dense ones
// are faster three times (bench/sparse_sets.py).
START_TEST(layouts_change_where_passes_of_a_gpu_do) {
    km_plan_params params;
    km_plan_params_init(&params);
    spec.target = (km_target){KM_TARGET_CUDA, 90};
    spec.features = 100;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "10", &err), KM_OK);
    for (double percent = 5; percent <= 100; percent += 0.5) {
        params.nonzeros = percent;
        expect_plan(&params);
        if (percent <= 20) {
            ck_assert_int_eq(km_plan_layout(&plan), KM_LAYOUT_CSR);
            ck_assert_int_eq(km_plan_value(&plan, KM_PARAM_form), KM_WORD_form_expanded);
        }
        if (percent >= 80) ck_assert_int_eq(km_plan_layout(&plan), KM_LAYOUT_DENSE);
    }
}
END_TEST

// What skips needs dense points; the way out that is named works.
START_TEST(csr_points_have_lloyd_alone) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.points = 100000;
    params.nonzeros = 2;
    spec.features = 50;
    spec.layout = KM_LAYOUT_CSR;
    expect_plan(&params);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_LLOYD);
    ck_assert_int_eq(km_plan_layout(&plan), KM_LAYOUT_CSR);
    for (int a = KM_ALGORITHM_TILES; a <= KM_ALGORITHM_ELKAN; a++) {
        params.algorithm = (km_algorithm)a;
        spec.layout = KM_LAYOUT_CSR;
        expect_error(&params,
                     "needs dense points, and the layout is csr; take lloyd or auto, or the layout dense");
        spec.layout = KM_LAYOUT_DENSE;
        expect_plan(&params);
        ck_assert_int_eq(plan.algorithm, (km_algorithm)a);
    }
}
END_TEST

START_TEST(specs_are_checked) {
    spec.features = 0;
    expect_error(NULL, "add `features:` to the spec");
    spec.features = (int64_t)KM_FEATURES_MAX + 1;
    expect_error(NULL, "features must be 1..2147483647, got 2147483648");
    spec.features = KM_FEATURES_DENSE_MAX + 1;
    expect_error(NULL, "more than 65536 features are for the layout csr");
    spec.features = 4;
    spec.clusters[1] = 3;
    expect_error(NULL, "clusters must ascend within 1..65535, got 3 after 3");
    spec.clusters[1] = 4;
    spec.clusters[2] = KM_CLUSTERS_MAX + 1;
    expect_error(NULL, "got 65536 after 4");
    spec.clusters[2] = 5;
    spec.n_init = 0;
    expect_error(NULL, "n_init must be 1..1000000, got 0");
    spec.n_init = INT64_MAX;
    expect_error(NULL, "n_init must be 1..1000000");
    spec.n_init = 1;
    spec.layout = (km_layout)9;
    expect_error(NULL, "layout 9 does not exist");
    spec.layout = KM_LAYOUT_AUTO;
    spec.metric = (km_metric)-1;
    expect_error(NULL, "metric -1 does not exist");
    spec.metric = KM_METRIC_EUCLIDEAN;
    strcpy(spec.name, "a b");
    expect_error(NULL, "C identifier");
    strcpy(spec.name, "9a");
    expect_error(NULL, "C identifier");
    strcpy(spec.name, "a9");
    expect_plan(NULL);
    ck_assert_int_eq(plan.clusters_sum, 12);
    int64_t count = spec.clusters_count;
    spec.clusters_count = 0;
    expect_error(NULL, "add `clusters:` to the spec");
    spec.clusters_count = count;
    // The plan that was made before is kept by a failure.
    ck_assert_int_eq(plan.clusters_sum, 12);
}
END_TEST

START_TEST(foreign_numbers) {
    ck_assert_int_eq(km_spec_fix(&spec, "block", "256", &err), KM_OK);
    expect_error(NULL, "cpu:avx2 has no number block; it has tile_clusters");
    ck_assert_ptr_null(strstr(err.text, "grid"));
    spec.fixed_count = 0;
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tiled", &err), KM_OK);
    expect_error(NULL, "cpu:avx2 has no design tiled; it has lanes, gemm, prebuilt and sparse_lanes");
    spec.fixed_count = 1;
    strcpy(spec.fixed[0].name, "colour");
    expect_error(NULL, "has no number colour; it has ");
    // A number of the target that the design does not have.
    spec.fixed_count = 0;
    ck_assert_int_eq(km_spec_fix(&spec, "design", "prebuilt", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "vectors", "4", &err), KM_OK);
    expect_error(NULL, "the design prebuilt has no number vectors");
}
END_TEST

START_TEST(fixed_numbers) {
    expect_plan(NULL);
    plan.numbers_count = 0;
    ck_assert_int_eq(km_spec_fix(&plan.spec, "lanes", "8", &err), KM_OK);
    int64_t value = 0;
    ck_assert(km_plan_fixed(&plan, KM_PARAM_lanes, &value) && value == 8);
    ck_assert(!km_plan_fixed(&plan, KM_PARAM_vectors, &value));
    ck_assert_int_eq(km_plan_set(&plan, KM_PARAM_lanes, 16, &err, "as wide as %s", "it goes"), KM_OK);
    ck_assert_int_eq(km_plan_set(&plan, KM_PARAM_vectors, 4, &err, "as wide as %s", "it goes"), KM_OK);
    ck_assert_int_eq(km_plan_get(&plan, "lanes"), 8);
    ck_assert_str_eq(plan.numbers[0].reason, "fixed in the spec");
    ck_assert_int_eq(km_plan_get(&plan, "vectors"), 4);
    ck_assert_str_eq(plan.numbers[1].reason, "as wide as it goes");
    ck_assert_int_eq(km_plan_get(&plan, "block"), -1);
    // Set twice: the later one counts.
    ck_assert_int_eq(km_plan_set(&plan, KM_PARAM_vectors, 2, &err, "less"), KM_OK);
    ck_assert_int_eq(km_plan_get(&plan, "vectors"), 2);
    ck_assert_int_eq(plan.numbers_count, 2);
    ck_assert_int_eq(km_plan_set(&plan, KM_PARAM_vectors, 17, &err, "more"), KM_ERROR_PLAN);
    ck_assert_str_eq(err.text, "vectors must be 1..16, got 17");
}
END_TEST

// Scores of integers: where the processor has them, for floats of several features and labels of a byte.
START_TEST(integers) {
    km_device_facts facts;
    km_plan_params params;
    km_device_facts_init(&facts, (km_target){KM_TARGET_CPU, KM_ISA_AVX512});
    km_plan_params_init(&params);
    params.facts = &facts;
    ck_assert_int_eq(km_spec_fix(&spec, "design", "lanes", &err), KM_OK);
    spec.features = 8;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..12", &err), KM_OK);
    expect_plan(&params);
    ck_assert_int_eq(km_plan_get(&plan, "int16_scores"), 1);
    ck_assert_str_eq(plan.estimates[KM_DESIGN_LANES].reason, "bound by int16 products");
    double by_integers = plan.estimates[KM_DESIGN_LANES].operations_per_point;
    facts.has_integers = 0;
    expect_plan(&params);
    ck_assert_int_eq(km_plan_get(&plan, "int16_scores"), 0);
    ck_assert_double_gt(plan.estimates[KM_DESIGN_LANES].operations_per_point, by_integers);
    facts.has_integers = 1;
    spec.features = 4;
    expect_plan(&params);
    ck_assert_int_eq(km_plan_get(&plan, "int16_scores"), 0);
    spec.features = 8;
    ck_assert_int_eq(km_spec_fix(&spec, "int16_scores", "0", &err), KM_OK);
    expect_plan(&params);
    ck_assert_int_eq(km_plan_get(&plan, "int16_scores"), 0);
    ck_assert_double_gt(plan.estimates[KM_DESIGN_LANES].operations_per_point, by_integers);
    ck_assert_int_eq(km_spec_fix(&spec, "int16_scores", "1", &err), KM_OK);
    spec.type = KM_FLOAT64;
    expect_error(&params, "int16_scores must be 0 (float64 needs more than 16 bits), got 1");
    spec.type = KM_FLOAT32;
    spec.features = 65;
    expect_error(&params, "int16_scores must be 0 (too many features), got 1");
}
END_TEST

START_TEST(fixed_design) {
    ck_assert_int_eq(km_spec_fix(&spec, "design", "prebuilt", &err), KM_OK);
    expect_plan(NULL);
    ck_assert_int_eq(plan.design, KM_DESIGN_PREBUILT);
    ck_assert_str_eq(plan.design_reason, "fixed in the spec");
}
END_TEST

// The cost model follows what was measured on an H200: the times of two plans that differ in few numbers
// (docs/history/2026-11-23-cost-model.md). The plans' numbers are those of the first row of a pair, then the second's.
START_TEST(measured_ratios) {
    static const struct {
        int64_t features, points;
        const char *clusters, *plans[2];
        double ms[2];
    } pairs[] = {
        // More warps hide what resident centroids wait for.
        {32,
         2097152,
         "3..12",
         {"design=tiled form=resident_fp16 tile_clusters=80 tile_points=64",
          "design=tiled form=resident_fp16 tile_clusters=80 tile_points=256"},
         {0.9654, 0.5541}},
        // And tiles of centroids.
        {64,
         1048576,
         "256",
         {"design=tiled form=tiles_fp16 tile_points=128 tile_clusters=64 tile_features=64 blocks_per_sm=1",
          "design=tiled form=tiles_fp16 tile_points=256 tile_clusters=64 tile_features=64 blocks_per_sm=2"},
         {0.5515, 0.3214}},
        // Warps that have the same points meet to compare scores.
        {64,
         1048576,
         "256",
         {"design=tiled form=tiles_fp16 tile_points=64 tile_clusters=256 tile_features=64 blocks_per_sm=2",
          "design=tiled form=tiles_fp16 tile_points=256 tile_clusters=64 tile_features=64 blocks_per_sm=2"},
         {0.4026, 0.3214}},
        // Twelve columns are four warps' three each; of eight warps some have two.
        {32,
         2097152,
         "3..12",
         {"design=tensor form=digits block=256 blocks_per_sm=1",
          "design=tensor form=digits block=128 blocks_per_sm=2"},
         {0.2588, 0.2334}},
        // Nothing hides the stalls of a scheduler's only warp.
        {16,
         4194304,
         "3..7",
         {"design=tensor form=hi_lo block=128 blocks_per_sm=1",
          "design=tensor form=hi_lo block=256 blocks_per_sm=1"},
         {0.1706, 0.1274}},
        // Coefficients in shared memory are loaded.
        {8,
         8388608,
         "2..20",
         {"design=registers form=shared points_per_thread=2 block=128 blocks_per_sm=2 split=1 launches=10",
          "design=registers form=constant points_per_thread=2 block=128 blocks_per_sm=2 split=1 launches=10"},
         {1.5256, 1.3830}},
        // Where arithmetic bounds, points that are fetched late cost little.
        {8,
         8388608,
         "3..12",
         {"design=registers form=constant points_per_thread=3 block=256 prefetch=0 split=1 launches=4",
          "design=registers form=constant points_per_thread=3 block=256 prefetch=1 split=1 launches=4"},
         {0.5394, 0.4780}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double ns[2];
        for (int p = 0; p < 2; p++) {
            char text[160], *at = text, *next;
            km_plan_params params;
            km_plan_params_init(&params);
            params.points = pairs[i].points;
            teardown();
            setup();
            spec.features = pairs[i].features;
            ck_assert_int_eq(km_spec_set_clusters(&spec, pairs[i].clusters, &err), KM_OK);
            ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
            snprintf(text, sizeof text, "%s", pairs[i].plans[p]);
            for (char *number; (number = strtok_r(at, " ", &next)) != NULL; at = NULL) {
                char *value = strchr(number, '=');
                *value++ = 0;
                ck_assert_msg(km_spec_fix(&spec, number, value, &err) == KM_OK, "%s", err.text);
            }
            expect_plan(&params);
            ns[p] = plan.estimates[plan.design].total_ns;
        }
        ck_assert_msg(fabs(log(ns[0] / ns[1] * pairs[i].ms[1] / pairs[i].ms[0])) < log(1.08),
                      "%s: %.3f times as long, measured %.3f", pairs[i].plans[0], ns[0] / ns[1],
                      pairs[i].ms[0] / pairs[i].ms[1]);
    }
}
END_TEST

// Where passes take about as long, a design that a fit begins without is taken, unless its passes cost more than a
// tenth of what the compiler of the other is waited for.
START_TEST(compiler_is_counted) {
    km_plan_params params;
    km_plan_params_init(&params);
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..9", &err), KM_OK);
    spec.features = 5;
    params.untuned = 1;
    for (int i = 0; i < 4; i++) {
        params.points = i == 1 ? 0 : 1 << 24; // 0: nobody knows what a pass takes
        spec.n_init = i == 2 ? 80 : 4;
        params.weighted = i == 3; // tensor takes none
        expect_plan(&params);
        ck_assert_int_eq(plan.design, i ? KM_DESIGN_REGISTERS : KM_DESIGN_TENSOR);
        ck_assert_int_eq(strstr(plan.design_reason, "a fit begins before it is compiled") != NULL, !i);
    }
    // A pass that is twice as slow would cost all later fits.
    spec.features = 4;
    params.points = 1 << 20;
    params.weighted = 0;
    spec.n_init = 4;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..5", &err), KM_OK);
    expect_plan(&params);
    ck_assert_int_eq(plan.design, KM_DESIGN_REGISTERS);
}
END_TEST

// The plans that are left out one after another: each the fastest with more room in its design, to the end.
START_TEST(next_plans) {
    km_plan_params params;
    km_plan_avoid avoid[KM_PLAN_AVOIDED_MAX];
    double before = 0;
    km_plan_params_init(&params);
    params.points = 1 << 25;
    params.avoid = avoid;
    spec.n_init = 1000; // passes alone decide
    spec.features = 8;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..20", &err), KM_OK);
    unsigned designs = 0;
    for (int i = 0; i < KM_PLAN_AVOIDED_MAX; i++) {
        params.avoid_count = i;
        expect_plan(&params);
        const km_estimate *chosen = &plan.estimates[plan.design];
        ck_assert_double_ge(chosen->total_ns, before);
        ck_assert_int_ge(chosen->registers_spare, 0);
        for (int j = 0; j < i; j++)
            ck_assert(avoid[j].design != plan.design || avoid[j].registers_spare < chosen->registers_spare);
        before = chosen->total_ns;
        designs |= 1u << plan.design;
        avoid[i] = (km_plan_avoid){plan.design, chosen->registers_spare, "left out"};
        ck_assert_str_eq(plan.design_reason,
                         i ? "the least time of those left" : "the least time of those estimated");
    }
    ck_assert_int_gt(designs & (designs - 1), 0); // more than one
    params.avoid_count = 0;
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++)
        if (km_design_target((km_design)i) == KM_TARGET_CUDA)
            avoid[params.avoid_count++] = (km_plan_avoid){(km_design)i, INT64_MAX, "not liked"};
    expect_error(&params, "no design can be had: registers: not liked; tensor: not liked; ");
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tiled", &err), KM_OK);
    expect_error(&params, "the design tiled cannot be had: not liked");
    params.avoid_count = KM_PLAN_AVOIDED_MAX + 1;
    err.text[0] = 0;
    ck_assert_int_eq(km_plan_make(&plan, &spec, &params, &err), KM_ERROR_USAGE);
}
END_TEST

// Every K has rows of its own, as many as it needs, in groups of lanes that a shuffle can bring together.
static void check_layout(const km_tensor_layout *layout) {
    static char taken[KM_TENSOR_LAUNCHES_MAX][8][32];
    memset(taken, 0, sizeof taken);
    for (int64_t i = 0; i < spec.clusters_count; i++) {
        const km_tensor_k_layout *k = &layout->ks[i];
        const km_tensor_launch *launch = &layout->launches[k->launch];
        ck_assert_int_le(spec.clusters[i], k->quads * k->score_rows);
        ck_assert_int_le(k->score_row + k->score_rows, 2 * launch->row_tiles);
        ck_assert_int_le(k->quad + k->quads, 8);
        ck_assert_int_eq(k->quads & (k->quads - 1), 0);
        ck_assert_int_eq(k->quad % k->quads, 0);
        ck_assert_int_le(k->quads, 1 << launch->levels);
        ck_assert(k->score_row == 0 || k->score_row == launch->first_rows);
        for (int g = 0; g < k->quads; g++)
            for (int s = 0; s < k->score_rows; s++)
                ck_assert_int_eq(taken[k->launch][k->quad + g][k->score_row + s]++, 0);
    }
}

START_TEST(tensor_layouts) {
    static const char *const lists[] = {"3..5", "3..12",      "2..20", "1..3",
                                        "64",   "1,2,3,8,20", "2..30", "7,100"};
    km_tensor_layout layout;
    for (int l = 0; l < (int)(sizeof lists / sizeof *lists); l++)
        for (int64_t tiles = 1; tiles <= 16; tiles++)
            for (int form = KM_WORD_form_hi_lo; form <= KM_WORD_form_rows; form++) {
                ck_assert_int_eq(km_spec_set_clusters(&spec, lists[l], &err), KM_OK);
                int fits = spec.clusters[spec.clusters_count - 1] <= 16 * tiles;
                ck_assert_int_eq(km_tensor_lay_out(&layout, &spec, form, tiles), fits);
                if (fits) check_layout(&layout);
            }
}
END_TEST

// Many clusters of an sm_90 have their sums in shared memory, few in registers; others are left to the design tiled.
START_TEST(tensor_of_many_clusters) {
    static const struct {
        const char *target, *clusters;
        int32_t features;
        km_design design;
        int64_t form;
    } cases[] = {{"cuda:sm_90", "256", 8, KM_DESIGN_TENSOR, KM_WORD_form_rows},
                 {"cuda:sm_90", "128", 4, KM_DESIGN_TENSOR, KM_WORD_form_rows},
                 {"cuda:sm_90", "100..110", 8, KM_DESIGN_TENSOR, KM_WORD_form_rows},
                 {"cuda:sm_90", "256", 32, KM_DESIGN_TENSOR, KM_WORD_form_rows},
                 {"cuda:sm_90", "2..64", 8, KM_DESIGN_TENSOR, KM_WORD_form_rows},
                 {"cuda:sm_90", "64", 4, KM_DESIGN_TENSOR, KM_WORD_form_distance},
                 {"cuda:sm_90", "257", 8, KM_DESIGN_TILED, KM_WORD_form_points},
                 {"cuda:sm_90", "256", 128, KM_DESIGN_TILED, KM_WORD_form_tiles_fp16},
                 {"cuda:sm_80", "256", 8, KM_DESIGN_TILED, KM_WORD_form_points},
                 {"cuda:sm_80", "256", 64, KM_DESIGN_TILED, KM_WORD_form_tiles_fp16},
                 {"cuda:sm_120", "256", 8, KM_DESIGN_TILED, KM_WORD_form_points}};
    km_plan_params params;
    km_plan_params_init(&params);
    params.points = 1 << 25;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        spec.features = cases[i].features;
        ck_assert_int_eq(km_spec_set_target(&spec, cases[i].target, &err), KM_OK);
        ck_assert_int_eq(km_spec_set_clusters(&spec, cases[i].clusters, &err), KM_OK);
        expect_plan(&params);
        ck_assert_msg(plan.design == cases[i].design, "%s d=%d K=%s: %s", cases[i].target, cases[i].features,
                      cases[i].clusters, km_design_name(plan.design));
        ck_assert_int_eq(km_plan_value(&plan, KM_PARAM_form), cases[i].form);
    }
}
END_TEST

// Sums of the design tiled: above K = 32 integers in rows in shared memory, where these hold them and points have no
// weights, else the order of labels; below that products of doubles where they are fast, else rows in shared memory.
START_TEST(tiled_sums) {
    static const struct {
        const char *target, *clusters;
        int32_t features;
        int weighted, sums;
    } cases[] = {{"cuda:sm_90", "2..32", 256, 0, KM_WORD_sums_products},
                 {"cuda:sm_100", "5", 256, 0, KM_WORD_sums_products},
                 {"cuda:sm_80", "2..32", 256, 0, KM_WORD_sums_chunks},
                 {"cuda:sm_75", "5", 256, 0, KM_WORD_sums_chunks},
                 {"cuda:sm_90", "2..33", 256, 0, KM_WORD_sums_sorted},
                 {"cuda:sm_90", "33", 256, 0, KM_WORD_sums_sorted},
                 {"cuda:sm_80", "2..33", 256, 0, KM_WORD_sums_sorted},
                 {"cuda:sm_120", "1024", 256, 0, KM_WORD_sums_sorted},
                 {"cuda:sm_90", "33", 8, 0, KM_WORD_sums_integers},
                 {"cuda:sm_90", "33", 8, 1, KM_WORD_sums_sorted},
                 {"cuda:sm_75", "2..300", 8, 0, KM_WORD_sums_integers},
                 {"cuda:sm_75", "2000", 8, 0, KM_WORD_sums_sorted}};
    km_plan_params params;
    km_plan_params_init(&params);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tiled", &err), KM_OK);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        ck_assert_int_eq(km_spec_set_target(&spec, cases[i].target, &err), KM_OK);
        ck_assert_int_eq(km_spec_set_clusters(&spec, cases[i].clusters, &err), KM_OK);
        spec.features = cases[i].features;
        params.weighted = cases[i].weighted;
        expect_plan(&params);
        ck_assert_msg(km_plan_value(&plan, KM_PARAM_sums) == cases[i].sums, "%s, K = %s, d = %d",
                      cases[i].target, cases[i].clusters, cases[i].features);
    }
}
END_TEST

START_TEST(tensor_refuses) {
    km_plan_params params;
    km_plan_params_init(&params);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tensor", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_80", &err), KM_OK);
    expect_plan(&params);
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
    params.weighted = 1;
    expect_error(&params, "weights");
    params.weighted = 0;
    spec.type = KM_FLOAT64;
    expect_error(&params, "float32");
    spec.type = KM_FLOAT32;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_75", &err), KM_OK);
    expect_error(&params, "sm_80");
}
END_TEST

START_TEST(explained) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.points = 1 << 20;
    params.track_labels = 1;
    expect_plan(&params);
    char *text = NULL;
    ck_assert_int_eq(km_plan_explain(&text, &plan, &err), KM_OK);
    static const char *const parts[] = {
        "clusters: 3..5\n",    "two nominal avx2 cores", "\ndesign ", "points: 1048576",
        "over 1048576 points", "labels between passes",  "16.0 MiB",  "chosen"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "no \"%s\" in\n%s", parts[i], text);
    for (int64_t i = 0; i < plan.numbers_count; i++) {
        ck_assert_ptr_nonnull(strstr(text, plan.numbers[i].name));
        ck_assert_int_gt((int)strlen(plan.numbers[i].reason), 0);
    }
    ck_assert_ptr_null(strstr(text, " \n"));
    km_text_free(text);
}
END_TEST

START_TEST(emitted_twice) {
    km_source first, second;
    km_source_init(&first);
    km_source_init(&second);
    expect_plan(NULL);
    ck_assert_msg(km_source_emit(&first, &plan, NULL, &err) == KM_OK, "%s", err.text);
    ck_assert_msg(km_source_emit(&second, &plan, NULL, &err) == KM_OK, "%s", err.text);
    ck_assert_str_eq(first.text, second.text);
    ck_assert_int_eq(first.text_size, (int64_t)strlen(first.text));
    ck_assert_str_eq(first.file_name, "kmeans.c");
    ck_assert_int_eq(first.plan.clusters_sum, 12);
    ck_assert_ptr_ne(first.plan.spec.clusters, plan.spec.clusters);
    ck_assert_ptr_null(strstr(first.text, " \n"));
    ck_assert_ptr_null(strstr(first.text, "\n\n\n"));
    km_source_clear(&first);
    km_source_clear(&second);
}
END_TEST

// What a binary depends on: no comments above the code, no host part, no names for the linker. A guard that has another
// branch, or no end, is code like all other.
START_TEST(kernels_of_a_text) {
    static const struct {
        const char *text, *kernels;
    } texts[] = {
        {"// head\n\nint a;\n" KM_GUARD_CUDA "\n#if X\nint b;\n#else\nint c;\n#endif\n#endif\nint d;\n",
         "int a;\nint d;\n"},
        {"int a;\n" KM_GUARD_CPU "\nint b;\n#endif\n", "int a;\n"},
        {"int a;\n" KM_GUARD_CPU "\nint b;\n#else\nint c;\n#endif\n",
         "int a;\n" KM_GUARD_CPU "\nint b;\n#else\nint c;\n#endif\n"},
        {"int a;\n" KM_GUARD_CUDA "\nint b;\n", "int a;\n" KM_GUARD_CUDA "\nint b;\n"},
        {"#ifndef KM_KERNELS_ONLY_TOO\nint b;\n#endif", "#ifndef KM_KERNELS_ONLY_TOO\nint b;\n#endif"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *kernels = NULL;
        int64_t size = 0;
        ck_assert_int_eq(km_source_kernels(&kernels, &size, texts[i].text, &err), KM_OK);
        ck_assert_str_eq(kernels, texts[i].kernels);
        ck_assert_int_eq(size, (int64_t)strlen(kernels));
        km_text_free(kernels);
    }
    // Texts for the CUDA device that differ in their names alone make one binary.
    char *made[2];
    for (int i = 0; i < 2; i++) {
        int64_t size;
        km_source source;
        km_source_init(&source);
        snprintf(spec.name, sizeof spec.name, "%s", i ? "one" : "another");
        ck_assert_int_eq(km_spec_set_target(&spec, "cuda", &err), KM_OK);
        expect_plan(NULL);
        ck_assert_int_eq(km_source_emit(&source, &plan, NULL, &err), KM_OK);
        ck_assert_int_eq(km_source_kernels(&made[i], &size, source.text, &err), KM_OK);
        ck_assert_int_gt(source.text_size, size + 10000);
        km_source_clear(&source);
    }
    ck_assert(strcmp(made[0], made[1]) == 0);
    km_text_free(made[0]);
    km_text_free(made[1]);
}
END_TEST

// A copy lives on without the plan that it was made of, with what the design decided beside numbers.
START_TEST(copies_are_their_own) {
    static const char *const designs[] = {"registers", "tensor", "tiled"};
    for (int i = 0; i < 3; i++) {
        km_plan copy;
        km_source before, after;
        km_plan_init(&copy);
        km_source_init(&before);
        km_source_init(&after);
        ck_assert_int_eq(km_spec_set_target(&spec, "cuda", &err), KM_OK);
        ck_assert_int_eq(km_spec_fix(&spec, "design", designs[i], &err), KM_OK);
        expect_plan(NULL);
        ck_assert_int_eq(km_source_emit(&before, &plan, NULL, &err), KM_OK);
        ck_assert_int_eq(km_plan_copy(&copy, &plan, &err), KM_OK);
        km_plan_clear(&plan);
        ck_assert_int_eq(km_source_emit(&after, &copy, NULL, &err), KM_OK);
        ck_assert_str_eq(before.text, after.text);
        km_source_clear(&before);
        km_source_clear(&after);
        km_plan_clear(&copy);
    }
}
END_TEST

// The text around a template, and the tidying after it, with a template from a folder.
START_TEST(emitted_from_a_folder) {
    static const char *const folders[] = {"/cuda", "/cuda/tiled", "/host"};
    static const char *const files[][2] = {
        {"/cuda/tiled/tiled.cu",
         "\n\nint a = $d;     // wide\nint grid = $grid; // narrow\n  \n\n// alone  \n"
         "char *s = \"no // comment\"; // one\n\n\nextern \"C\" __global__ void\n__launch_bounds__(2 * "
         "(3))\n "
         "one(const __grid_constant__ km_pass_args a) {}\nextern \"C\" __global__ void two(int a) {}\n"},
        {"/cuda/names.h", "//@ for kernel in kernels\nint $kernel_of_$name;\n//@ end\n"},
        {"/cuda/host.cu", "//@ for kernel in pass_kernels\nint $kernel;\n//@ end\n"},
        {"/host/interface.h", "int $upper, $s; // $list\n"},
    };
    char folder[] = "/tmp/km_plan_XXXXXX", path[80];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", folder, folders[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s%s", folder, files[i][0]);
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fputs(files[i][1], file);
        ck_assert_int_eq(fclose(file), 0);
    }
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tiled", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "grid", "128", &err), KM_OK);
    expect_plan(NULL);
    km_source source;
    km_source_init(&source);
    ck_assert_msg(km_source_emit(&source, &plan, folder, &err) == KM_OK, "%s", err.text);
    static const char wanted[] =
        "int one_of_kmeans;\nint two_of_kmeans;\n\nint a = 4;      // wide\nint grid = 128; // narrow\n"
        "\n// alone\nchar *s = \"no // comment\"; // one\n\nextern ";
    ck_assert_msg(strstr(source.text, wanted) != NULL, "%s", source.text);
    const char *host = strstr(source.text, "\n// ==== The host part: what the header declares ====");
    ck_assert_ptr_nonnull(host);
    ck_assert_ptr_nonnull(
        strstr(host, "==\n#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)\nint one;\n#endif\n"));
    ck_assert_str_eq(source.header, "int KMEANS, 12; // 3..5\n");
    ck_assert_str_eq(source.header_name, "kmeans.h");
    // The table of contents names the line.
    int line = 2;
    for (const char *at = source.text; at < host; at++) line += *at == '\n';
    char entry[80];
    snprintf(entry, sizeof entry, "\n// %6d  The host part: what the header declares\n", line);
    ck_assert_msg(strstr(source.text, entry) != NULL, "%s", source.text);
    ck_assert_str_eq(source.file_name, "kmeans.cu");
    ck_assert_ptr_nonnull(strstr(source.text, "//   grid: 128\n"));
    ck_assert_ptr_nonnull(strstr(source.text, "128  fixed in the spec\n"));
    // A template that is not there leaves the source as it was.
    unlink(path);
    ck_assert_int_eq(km_source_emit(&source, &plan, folder, &err), KM_ERROR_IO);
    ck_assert_ptr_nonnull(source.text);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s%s", folder, files[i][0]);
        unlink(path);
    }
    for (size_t i = sizeof folders / sizeof *folders; i-- > 0;) {
        snprintf(path, sizeof path, "%s%s", folder, folders[i]);
        ck_assert_int_eq(rmdir(path), 0);
    }
    ck_assert_int_eq(rmdir(folder), 0);
    km_source_clear(&source);
}
END_TEST

// Another design, then fewer concurrent restarts, make room; what does not fit even so is planned with the least.
START_TEST(free_memory_decides) {
    km_plan_params params;
    km_plan_params_init(&params);
    km_device_facts facts;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..12", &err), KM_OK);
    spec.features = 32;
    km_device_facts_init(&facts, spec.target);
    params.facts = &facts;
    params.points = 40000000;
    expect_plan(&params);
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
    int64_t tensor = plan.memory_bytes, least = plan.estimates[KM_DESIGN_TILED].memory_bytes;
    int64_t registers = plan.estimates[KM_DESIGN_REGISTERS].memory_bytes;
    if (registers && registers < least) least = registers;
    ck_assert_int_gt(tensor, least);
    ck_assert_int_gt(least, params.points * 32 * 4);
    facts.memory_free_bytes = tensor;
    expect_plan(&params);
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
    facts.memory_free_bytes = tensor - 1;
    expect_plan(&params);
    ck_assert(km_plan_fits(&plan));
    ck_assert(plan.design == KM_DESIGN_TILED || plan.design == KM_DESIGN_REGISTERS);
    ck_assert_str_eq(plan.design_reason, "the least time of those estimated that fit the free memory");
    ck_assert(!plan.estimates[KM_DESIGN_TENSOR].feasible);
    ck_assert_ptr_nonnull(strstr(plan.estimates[KM_DESIGN_TENSOR].reason, "a fit needs "));
    facts.memory_free_bytes = least - 1;
    expect_plan(&params);
    ck_assert(!km_plan_fits(&plan));
    ck_assert_int_eq(plan.memory_bytes, least);
    // What is not known is not held against it: the plan is the same as with plenty.
    params.points = 0;
    expect_plan(&params);
    ck_assert_int_eq(plan.memory_bytes, 0);
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
}
END_TEST

// Where nothing makes room, and the caller lets them, points come from the host: by the plan of a device that has room
// for all, within the memory, with as many of them on the device as it holds.
START_TEST(points_come_from_the_host) {
    static const char *const designs[] = {"tensor", "registers", "tiled"};
    km_plan_params params;
    km_plan_params_init(&params);
    km_device_facts facts;
    const int64_t table = 40000000ll * 8 * 4;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..12", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", designs[_i], &err), KM_OK);
    spec.features = 8;
    spec.n_init = 4;
    km_device_facts_init(&facts, spec.target);
    params.facts = &facts;
    params.points = 40000000;
    params.algorithm = KM_ALGORITHM_LLOYD;
    params.may_stream = 1;
    expect_plan(&params);
    int64_t whole = plan.memory_bytes, host = plan.host_bytes, grid = km_plan_get(&plan, "grid");
    ck_assert(!plan.streams && plan.streamed_bytes == 0 && plan.window_points == 0);
    facts.memory_free_bytes = whole;
    expect_plan(&params);
    ck_assert(!plan.streams);
    for (int64_t free = whole - 1, before = 0; free > 400 << 20; free -= 300 << 20) {
        facts.memory_free_bytes = free;
        expect_plan(&params);
        ck_assert(plan.streams && km_plan_fits(&plan));
        ck_assert_int_eq(plan.window_points > 0, plan.design == KM_DESIGN_TENSOR);
        if (plan.design != KM_DESIGN_TENSOR) ck_assert_int_eq(km_plan_get(&plan, "grid"), grid);
        if (plan.design == KM_DESIGN_TENSOR) ck_assert_int_eq(km_plan_get(&plan, "concurrent_restarts"), 4);
        ck_assert_int_ge(plan.streamed_bytes, before); // less room, more on the host
        ck_assert_int_le(plan.streamed_bytes, table + (1 << 20));
        // No room is left over but where all points are on the device.
        if (plan.streamed_bytes > 4 << 20) ck_assert_int_gt(plan.memory_bytes, free - (4 << 20));
        ck_assert_int_ge(plan.host_bytes, host + plan.streamed_bytes);
        before = plan.streamed_bytes;
    }
    ck_assert_int_gt(plan.streamed_bytes, table / 2);
    char *text = NULL;
    ck_assert_int_eq(km_plan_explain(&text, &plan, &err), KM_OK);
    ck_assert_ptr_nonnull(strstr(text, "points come from the host"));
    km_text_free(text);
    spec.fixed_count = 0;
    expect_plan(&params);
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
    ck_assert_int_eq(km_spec_fix(&spec, "design", designs[_i], &err), KM_OK);
    facts.memory_free_bytes = 1;
    expect_plan(&params);
    ck_assert(plan.streams && !km_plan_fits(&plan));
    int64_t least = plan.memory_bytes; // nothing of the points; from there on every bound is kept
    for (int64_t free = least; free < least + (200 << 20); free += 3 << 20) {
        facts.memory_free_bytes = free;
        expect_plan(&params);
        ck_assert_msg(km_plan_fits(&plan), "%lld of %lld bytes", (long long)plan.memory_bytes,
                      (long long)free);
    }
    facts.memory_free_bytes = 50 << 20; // the driver's own is more
    expect_plan(&params);
    ck_assert(plan.streams && !km_plan_fits(&plan));
    params.may_stream = 0;
    expect_plan(&params);
    ck_assert(!plan.streams && !km_plan_fits(&plan));
    params.may_stream = 1;
    facts.maps_host = 0;
    expect_plan(&params);
    ck_assert(!plan.streams);
}
END_TEST

// Reads from the host decide: a window serves every launch and restart, a design without windows reads for each. Where
// all points are on the device nothing comes from there.
START_TEST(reads_from_the_host_are_counted) {
    km_plan_params params;
    km_plan_params_init(&params);
    km_device_facts facts;
    double before = 0;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "3..5", &err), KM_OK);
    spec.features = 4; // where registers have the faster pass
    spec.n_init = 20;
    km_device_facts_init(&facts, spec.target);
    params.facts = &facts;
    params.points = 100000000;
    params.algorithm = KM_ALGORITHM_LLOYD;
    params.may_stream = params.untuned = 1;
    expect_plan(&params);
    ck_assert_int_eq(plan.design, KM_DESIGN_REGISTERS);
    const km_estimate *tensor = &plan.estimates[KM_DESIGN_TENSOR],
                      *other = &plan.estimates[KM_DESIGN_REGISTERS];
    ck_assert(tensor->host_ms == 0 && other->host_ms == 0);
    for (int64_t free = 1500 << 20; free > 500 << 20; free -= 400 << 20) {
        facts.memory_free_bytes = free;
        expect_plan(&params);
        ck_assert(plan.streams);
        ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
        ck_assert_ptr_nonnull(strstr(plan.design_reason, "reads what comes from the host less often"));
        ck_assert(tensor->total_ns > other->total_ns && tensor->host_ms < other->host_ms / 5);
        ck_assert(other->host_ms > before);
        before = other->host_ms;
    }
}
END_TEST

// A fit by tiles waits for its pass whatever the design: the wait decides nothing then.
START_TEST(a_wait_counts_where_a_fit_would_begin_without) {
    km_plan_params params;
    km_plan_params_init(&params);
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..9", &err), KM_OK);
    spec.features = 5;
    spec.n_init = 4;
    params.untuned = 1;
    params.points = 1 << 24;
    const km_estimate *tensor = &plan.estimates[KM_DESIGN_TENSOR],
                      *other = &plan.estimates[KM_DESIGN_REGISTERS];
    params.algorithm = KM_ALGORITHM_LLOYD;
    expect_plan(&params);
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
    ck_assert(tensor->wait_ms < other->wait_ms && tensor->total_ns > other->total_ns);
    params.algorithm = KM_ALGORITHM_TILES;
    expect_plan(&params);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_TILES);
    ck_assert_int_eq(plan.design, KM_DESIGN_REGISTERS);
    ck_assert(tensor->wait_ms >= other->wait_ms);
    km_fit_time time;
    km_plan_fit_time(&time, &plan, 300);
    ck_assert(time.compile_ms == other->wait_ms);
}
END_TEST

// What others keep of each point would not fit, either.
START_TEST(streamed_points_have_lloyd) {
    km_plan_params params;
    km_plan_params_init(&params);
    km_device_facts facts;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    km_device_facts_init(&facts, spec.target);
    facts.memory_free_bytes = 500 << 20;
    params.facts = &facts;
    params.points = 200000000;
    params.may_stream = 1;
    params.algorithm = KM_ALGORITHM_TILES;
    expect_plan(&params);
    ck_assert(plan.streams && km_plan_fits(&plan));
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_LLOYD);
    ck_assert_ptr_nonnull(
        strstr(plan.algorithm_reason, "what tiles keeps of each point does not fit the device"));
    spec.layout = KM_LAYOUT_CSR;
    params.algorithm = KM_ALGORITHM_LLOYD;
    params.nonzeros = 2;
    expect_plan(&params);
    ck_assert(plan.streams && km_plan_fits(&plan));
    ck_assert_int_eq(plan.window_points, 0);
}
END_TEST

START_TEST(free_memory_decides_concurrent_restarts) {
    static const char *const kinds[] = {"cuda:sm_90", "cpu:avx2"};
    static const char *const designs[] = {"tiled", "prebuilt"};
    km_plan_params params;
    km_plan_params_init(&params);
    km_device_facts facts;
    ck_assert_int_eq(km_spec_set_target(&spec, kinds[_i], &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..20", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", designs[_i], &err), KM_OK);
    km_device_facts_init(&facts, spec.target);
    facts.units = _i ? 64 : facts.units; // small data for so many threads: several restarts at a time
    params.facts = &facts;
    params.points = 500000;
    params.algorithm = KM_ALGORITHM_LLOYD;
    spec.n_init = 8;
    expect_plan(&params);
    int64_t copies = km_plan_get(&plan, "concurrent_restarts"), all = plan.memory_bytes;
    ck_assert_int_ge(copies, 4);
    ck_assert_int_eq(km_spec_fix(&spec, "concurrent_restarts", "1", &err), KM_OK);
    expect_plan(&params);
    int64_t one = plan.memory_bytes;
    spec.fixed_count--;
    facts.memory_free_bytes = one + (all - one) / 4; // less than half of the copies
    expect_plan(&params);
    ck_assert(km_plan_fits(&plan));
    ck_assert_int_lt(km_plan_get(&plan, "concurrent_restarts"), copies);
    ck_assert_int_ge(km_plan_get(&plan, "concurrent_restarts"), 1);
    ck_assert_int_eq(km_spec_fix(&spec, "concurrent_restarts", "4", &err), KM_OK); // the user's own stays
    expect_plan(&params);
    ck_assert_int_eq(km_plan_get(&plan, "concurrent_restarts"), 4);
}
END_TEST

// A GPU's grid has 65535 rows, and a pass of tiled one for each K of each restart.
START_TEST(many_k_leave_few_restarts_at_a_time) {
    km_plan_params params;
    km_plan_params_init(&params);
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..1201", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tiled", &err), KM_OK);
    params.points = 2000;
    spec.n_init = 100;
    expect_plan(&params);
    ck_assert_int_eq(km_plan_get(&plan, "concurrent_restarts"), 65535 / 1200);
    ck_assert_int_eq(km_spec_fix(&spec, "concurrent_restarts", "55", &err), KM_OK);
    expect_error(&params, "concurrent_restarts can be 54 at most");
}
END_TEST

// An algorithm that the planner chose gives way, the user's own does not.
START_TEST(free_memory_decides_the_algorithm) {
    km_plan_params params;
    km_plan_params_init(&params);
    km_device_facts facts;
    km_device_facts_init(&facts, (km_target){KM_TARGET_CPU, KM_ISA_AVX2});
    params.facts = &facts;
    params.points = 4000000;
    expect_plan(&params);
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_TILES);
    facts.memory_free_bytes = plan.memory_bytes * 2 / 3;
    expect_plan(&params);
    ck_assert(km_plan_fits(&plan));
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_LLOYD);
    ck_assert_ptr_nonnull(strstr(plan.algorithm_reason, "with tiles a fit needs "));
    params.algorithm = KM_ALGORITHM_TILES;
    expect_plan(&params);
    ck_assert(!km_plan_fits(&plan));
    ck_assert_int_eq(plan.algorithm, KM_ALGORITHM_TILES);
}
END_TEST

static void expect_algorithm(km_plan_params *params, int64_t features, int64_t points, km_algorithm wanted,
                             const char *reason) {
    spec.features = features;
    params->points = points;
    expect_plan(params);
    ck_assert_int_eq(plan.algorithm, wanted);
    ck_assert_msg(strstr(plan.algorithm_reason, reason) != NULL, "%s", plan.algorithm_reason);
}

// On CUDA tiles are taken where sorting is a small part of the passes that are expected; the reason says why not.
START_TEST(tiles_on_cuda) {
    km_plan_params params;
    km_device_facts facts;
    km_plan_params_init(&params);
    km_device_facts_init(&facts, (km_target){KM_TARGET_CUDA, 90});
    params.facts = &facts;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..20", &err), KM_OK);
    expect_algorithm(&params, 3, 0, KM_ALGORITHM_LLOYD, "is not known");
    expect_algorithm(&params, 3, 100000, KM_ALGORITHM_LLOYD, "tiles pay on CUDA from");
    expect_algorithm(&params, 17, 30000000, KM_ALGORITHM_LLOYD, "at most 16 features");
    expect_algorithm(&params, 3, 30000000, KM_ALGORITHM_TILES, "sorting takes about");
    spec.type = KM_FLOAT64;
    expect_algorithm(&params, 3, 30000000, KM_ALGORITHM_LLOYD, "tiles takes on CUDA float32");
    spec.type = KM_FLOAT32;
    params.weighted = 1;
    expect_algorithm(&params, 3, 30000000, KM_ALGORITHM_LLOYD, "points without weights");
    params.weighted = 0;
    expect_algorithm(&params, 3, 30000000, KM_ALGORITHM_TILES, "sorting takes about");
    facts.memory_free_bytes = plan.memory_bytes * 2 / 3;
    expect_algorithm(&params, 3, 30000000, KM_ALGORITHM_LLOYD, "with tiles a fit needs");
    params.algorithm = KM_ALGORITHM_TILES;
    expect_algorithm(&params, 3, 30000000, KM_ALGORITHM_LLOYD, "with tiles a fit needs");
    facts.memory_free_bytes = 0;
    expect_algorithm(&params, 3, 30000000, KM_ALGORITHM_TILES, "asked for");
}
END_TEST

// On CUDA hamerly is taken where tiles cannot serve and a pass takes long beside its launches; labels are kept then.
START_TEST(hamerly_on_cuda) {
    km_plan_params params;
    km_device_facts facts;
    km_plan_params_init(&params);
    km_device_facts_init(&facts, (km_target){KM_TARGET_CUDA, 90});
    params.facts = &facts;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "256", &err), KM_OK);
    expect_algorithm(&params, 64, 4000000, KM_ALGORITHM_HAMERLY, "from K = 128 on");
    ck_assert_int_eq(plan.track_labels, 1);
    int64_t bytes = plan.memory_bytes;
    expect_algorithm(&params, 64, 10000, KM_ALGORITHM_LLOYD, "tiles takes on CUDA");
    ck_assert_int_eq(plan.track_labels, 0);
    expect_algorithm(&params, 64, 0, KM_ALGORITHM_LLOYD, "tiles takes on CUDA");
    expect_algorithm(&params, 32, 4000000, KM_ALGORITHM_HAMERLY, "from K = 128 on");
    ck_assert_int_eq(plan.design, KM_DESIGN_TENSOR);
    expect_algorithm(&params, 513, 4000000, KM_ALGORITHM_LLOYD, "tiles takes on CUDA");
    params.weighted = 1;
    expect_algorithm(&params, 64, 4000000, KM_ALGORITHM_LLOYD, "tiles takes on CUDA");
    params.weighted = 0;
    facts.memory_free_bytes = bytes - 1;
    expect_algorithm(&params, 64, 4000000, KM_ALGORITHM_LLOYD, "with hamerly a fit needs");
    ck_assert_int_eq(plan.track_labels, 0);
    facts.memory_free_bytes = 0;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "100,256", &err), KM_OK);
    expect_algorithm(&params, 64, 4000000, KM_ALGORITHM_LLOYD, "tiles takes on CUDA");
}
END_TEST

// Which K tiles serve: all where boxes decide nearly everything, none where every point is left; with a design that
// leaves out the others those K that pay, alone.
START_TEST(tiles_serve_what_pays) {
    enum { N = 1 << 24, TILES = N / 128, SUPERS = TILES / 32 };
    km_plan_params params;
    km_plan_params_init(&params);
    params.points = N;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "4,8,16", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "registers", &err), KM_OK);
    expect_plan(&params);
    km_tiles_work work[3];
    double part;
    for (int q = 0; q < 3; q++) work[q] = (km_tiles_work){SUPERS, SUPERS / 16, TILES / 32, TILES / 16};
    ck_assert_uint_eq(km_cuda_tiles_serve(&part, &plan, N, work), 7);
    ck_assert(part > 0 && part < 0.5);
    double all = part;
    work[2] = (km_tiles_work){SUPERS, 16. * SUPERS, TILES, 16. * TILES}; // nothing is decided
    ck_assert_uint_eq(km_cuda_tiles_serve(&part, &plan, N, work), 3);
    ck_assert(part > all && part < 1);
    for (int q = 0; q < 2; q++) work[q] = (km_tiles_work){SUPERS, 4. * SUPERS, TILES, 4. * TILES};
    ck_assert_uint_eq(km_cuda_tiles_serve(&part, &plan, N, work), 0);
    ck_assert(part >= 0.9);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, names);
    tcase_add_test(tests, nominal_devices);
    tcase_add_test(tests, times_of_a_fit);
    tcase_add_test(tests, reads_from_the_host_are_counted);
    tcase_add_test(tests, a_wait_counts_where_a_fit_would_begin_without);
    tcase_add_test(tests, targets);
    tcase_add_test(tests, layouts_are_equal_where_passes_are);
    tcase_add_test(tests, layouts_change_where_passes_of_a_gpu_do);
    tcase_add_test(tests, csr_points_have_lloyd_alone);
    tcase_add_test(tests, specs_are_checked);
    tcase_add_test(tests, foreign_numbers);
    tcase_add_test(tests, fixed_numbers);
    tcase_add_test(tests, integers);
    tcase_add_test(tests, fixed_design);
    tcase_add_test(tests, measured_ratios);
    tcase_add_test(tests, compiler_is_counted);
    tcase_add_test(tests, next_plans);
    tcase_add_test(tests, tensor_layouts);
    tcase_add_test(tests, tensor_of_many_clusters);
    tcase_add_test(tests, tiled_sums);
    tcase_add_test(tests, tensor_refuses);
    tcase_add_test(tests, explained);
    tcase_add_test(tests, emitted_twice);
    tcase_add_test(tests, copies_are_their_own);
    tcase_add_test(tests, emitted_from_a_folder);
    tcase_add_test(tests, kernels_of_a_text);
    tcase_add_test(tests, kernels_of_a_text);
    tcase_add_test(tests, free_memory_decides);
    tcase_add_loop_test(tests, points_come_from_the_host, 0, 3);
    tcase_add_test(tests, streamed_points_have_lloyd);
    tcase_add_loop_test(tests, free_memory_decides_concurrent_restarts, 0, 2);
    tcase_add_test(tests, many_k_leave_few_restarts_at_a_time);
    tcase_add_test(tests, free_memory_decides_the_algorithm);
    tcase_add_test(tests, tiles_on_cuda);
    tcase_add_test(tests, hamerly_on_cuda);
    tcase_add_test(tests, tiles_serve_what_pays);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

// SPDX-License-Identifier: MIT
// The CPU design `lanes` (templates/cpu/lanes): points across SIMD lanes, features unrolled, one centroid or a few at a
// time.
#include "common.h"

#include <string.h>

static void estimate(km_config *config, km_plan *plan) {
    km_cpu_shape it = km_cpu_shape_of(plan);
    km_estimate *e = &plan->estimates[KM_DESIGN_LANES];
    (void)config; // there is one
    *e = (km_estimate){.design = KM_DESIGN_LANES, .feasible = 1};
    km_cpu_lanes_operations(e, plan, &it);
    km_cpu_bound_by(e, &it,
                    km_cpu_uses_integers(plan) ? "products of integers"
                    : it.d >= 4                ? "fused multiply-adds"
                                               : "comparisons of scores");
}

// Few features: centroids one after another, so that no remainder of a tile is left, by four vectors of points.
static km_status decide(km_plan *plan, const km_config *config, km_error *err) {
    int32_t isa = plan->facts.target.arch;
    int64_t d = plan->spec.features, lanes = (int64_t)km_cpu_shape_of(plan).lanes;
    int single = d <= (isa == KM_ISA_AVX2 ? 8 : isa == KM_ISA_AVX512 ? 4 : 0);
    (void)config;
    KM_TRY(km_cpu_set_vectors(plan, single ? 4 : km_cpu_vectors(isa, lanes), single ? 1 : 4,
                              single ? "one after another: few features, no remainders"
                                     : "each load of points serves 4 centroids",
                              err));
    KM_TRY(km_cpu_set_integers(plan, err));
    KM_TRY(
        km_cpu_set_group(plan, KM_CPU_LANES_GROUP, "changes of 64 labels are the bits of one number", err));
    return km_cpu_set_restarts(plan, err);
}

// Of points that stay in the first cache while every slot works on them.
enum { SPAN_BYTES = 8192 };

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    km_cpu_text text = {.bytes = 1, .span_bytes = SPAN_BYTES};
    (void)err;
    *root = "cpu/lanes/lanes.c";
    km_cpu_names(env, plan, &text);
    return KM_OK;
}

km_status km_cpu_names_any_d(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    km_cpu_text text = {.any_d = 1, .bytes = 1, .span_bytes = SPAN_BYTES};
    (void)err;
    *root = "cpu/lanes/lanes.c";
    km_cpu_names(env, plan, &text);
    return KM_OK;
}

const km_design_code km_design_lanes = {.estimate = estimate, .decide = decide, .names = names};

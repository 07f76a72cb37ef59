// SPDX-License-Identifier: MIT
// The CPU design `lanes` (templates/cpu/lanes): points across SIMD lanes, one centroid or a few at a time.
#include "common.h"

#include <string.h>

static void estimate(km_config *config, km_plan *plan) {
    km_cpu_shape it = km_cpu_shape_of(plan);
    km_estimate *e = &plan->estimates[KM_DESIGN_LANES];
    (void)config; // there is one
    *e = (km_estimate){.design = KM_DESIGN_LANES, .feasible = 1};
    km_cpu_lanes_operations(e, plan, &it);
    km_cpu_dense_bound_by(e, plan, &it,
                          km_cpu_uses_int16_scores(plan) ? "int16 products"
                          : it.d >= 4                    ? "fused multiply-adds"
                                                         : "comparisons of scores");
}

static km_status decide(km_plan *plan, const km_config *config, km_error *err) {
    int64_t vectors, tile;
    km_cpu_lanes_tiles(&vectors, &tile, plan);
    (void)config;
    KM_TRY(km_cpu_set_vectors(plan, vectors, tile,
                              tile == 1 ? "one after another: few features, no tile left in part"
                                        : "each load of points serves 4 centroids",
                              err));
    KM_TRY(km_cpu_set_int16_scores(plan, err));
    KM_TRY(km_cpu_set_soa_points(plan, KM_CPU_LANES_SOA_POINTS,
                                 "changes of 64 labels are the bits of one number", err));
    return km_cpu_set_restarts(plan, err);
}

enum { SPAN_BYTES = 8192 }; // of points that stay in the first cache while every slot works on them

static void names_of(km_env *env, const char **root, const km_plan *plan, int any_d) {
    km_cpu_text text = {.any_d = any_d, .byte_labels = 1, .span_bytes = SPAN_BYTES};
    *root = "cpu/lanes/lanes.c";
    km_cpu_names(env, plan, &text);
}

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    (void)err;
    names_of(env, root, plan, 0);
    return KM_OK;
}

// int16 scores have tiles of their own; floats have these where data leave no room for int16 scores.
static int is_idle(const km_plan *plan, km_param param) {
    int is_tile = param == KM_PARAM_tile_clusters || param == KM_PARAM_vectors;
    return is_tile && km_plan_value(plan, KM_PARAM_int16_scores) > 0;
}

void km_cpu_names_any_d(km_env *env, const char **root, const km_plan *plan) {
    names_of(env, root, plan, 1);
}

const km_design_code km_design_lanes = {
    .estimate = estimate, .decide = decide, .names = names, .is_idle = is_idle};

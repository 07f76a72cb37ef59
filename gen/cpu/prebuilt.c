// SPDX-License-Identifier: MIT
// The CPU design `prebuilt`: kernels of lanes that are compiled into the library (gen/prebuilt.c).
#include "common.h"
#include "gen/lanes_features.h"
#include "measured.h"

#include <string.h>

// Whether the library has kernels for exactly these features.
static int is_exact(const km_plan *plan) {
    static const int64_t features[] = KM_LANES_FEATURES;
    if (plan->spec.type != KM_FLOAT32 || plan->facts.target.arch == KM_ISA_GENERIC) return 0;
    if (plan->spec.clusters[plan->spec.clusters_count - 1] > 256) return 0;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (features[i] == plan->spec.features) return 1;
    return 0;
}

// Kernels for any number of features do not unroll their loops.
static void estimate(km_config *config, km_plan *plan) {
    km_cpu_shape it = km_cpu_shape_of(plan);
    km_estimate *e = &plan->estimates[KM_DESIGN_PREBUILT];
    int exact = is_exact(plan);
    (void)config; // there is one
    *e = (km_estimate){.design = KM_DESIGN_PREBUILT, .feasible = 1};
    km_cpu_lanes_operations(e, plan, &it);
    if (!exact) e->operations_per_point *= measured.any_features;
    km_cpu_dense_bound_by(
        e, plan, &it, exact ? "the arithmetic of lanes" : "the arithmetic of lanes, any number of features");
}

static km_status decide(km_plan *plan, const km_config *config, km_error *err) {
    (void)config;
    KM_TRY(km_cpu_set_int16_scores(plan, err));
    KM_TRY(km_cpu_set_soa_points(plan, KM_CPU_LANES_SOA_POINTS,
                                 "changes of 64 labels are the bits of one number", err));
    return km_cpu_set_restarts(plan, err);
}

const km_design_code km_design_prebuilt = {.estimate = estimate, .decide = decide};

// SPDX-License-Identifier: MIT
// The CPU planner: the design that is compiled into the library.
#include "planner.h"

#include <stdio.h>

km_status km_plan_cpu(km_plan *plan, km_error *err) {
    km_design fixed = km_plan_fixed_design(plan);
    if (fixed != KM_DESIGN_NONE && fixed != KM_DESIGN_PORTABLE)
        return km_fail(err, KM_ERROR_PLAN, "the design %s is not built in; take portable",
                       km_design_name(fixed));
    km_estimate *estimate = &plan->estimates[KM_DESIGN_PORTABLE];
    double d = (double)plan->spec.features, s = (double)plan->clusters_sum;
    double size = plan->spec.type == KM_FLOAT64 ? 8 : 4;
    *estimate = (km_estimate){.design = KM_DESIGN_PORTABLE, .feasible = 1, .bytes_per_point = size * d};
    estimate->operations_per_point = s * (d + 2) + d;
    estimate->memory_ns = estimate->bytes_per_point / plan->facts.bandwidth_gbs;
    estimate->issue_ns = estimate->operations_per_point / plan->facts.clock_ghz / (double)plan->facts.units;
    estimate->total_ns = estimate->memory_ns > estimate->issue_ns ? estimate->memory_ns : estimate->issue_ns;
    plan->design = KM_DESIGN_PORTABLE;
    snprintf(plan->design_reason, sizeof plan->design_reason, "needs no compiler");
    KM_TRY(km_plan_set(plan, KM_PARAM_group, 64, err, "64 points fit the first cache beside the sums"));
    return km_plan_set(plan, KM_PARAM_restarts_in_flight, 1, err, "one restart of each K at a time");
}

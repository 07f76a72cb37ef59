// SPDX-License-Identifier: MIT
// Which algorithm a pass follows: the user's choice, or a rule's.
#include "planner.h"

#include <stdio.h>

enum { FILTER_FEATURES_MAX = 64, FILTER_CLUSTERS_MAX = 4096 };

const char *km_algorithm_name(km_algorithm algorithm) {
    static const char *const names[KM_ALGORITHM_COUNT] = {"auto", "lloyd", "filter", "hamerly", "elkan"};
    return (unsigned)algorithm < KM_ALGORITHM_COUNT ? names[algorithm] : "none";
}

static void choose_by_rule(km_plan *plan) {
    plan->algorithm = KM_ALGORITHM_LLOYD;
    snprintf(plan->algorithm_reason, sizeof plan->algorithm_reason, "every point against every centroid");
}

static int64_t clusters_max(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1];
}

static km_status check(const km_plan *plan, km_error *err) {
    if (plan->algorithm == KM_ALGORITHM_LLOYD) return KM_OK;
    if (plan->spec.target.kind == KM_TARGET_CUDA)
        return km_fail(err, KM_ERROR_PLAN,
                       "the algorithm %s runs on the CPU only; take lloyd or auto on CUDA, or the target cpu",
                       km_algorithm_name(plan->algorithm));
    if (plan->algorithm == KM_ALGORITHM_FILTER) {
        if (plan->spec.features <= FILTER_FEATURES_MAX && clusters_max(plan) <= FILTER_CLUSTERS_MAX)
            return KM_OK;
        return km_fail(err, KM_ERROR_PLAN,
                       "the algorithm filter takes at most %d features and K up to %d; take lloyd or auto",
                       FILTER_FEATURES_MAX, FILTER_CLUSTERS_MAX);
    }
    return km_fail(err, KM_ERROR_PLAN, "the algorithm %s is not built in; take lloyd, filter or auto",
                   km_algorithm_name(plan->algorithm));
}

km_status km_plan_algorithm(km_plan *plan, km_algorithm asked, km_error *err) {
    km_algorithm fixed = km_plan_fixed_algorithm(plan), tuned = plan->algorithm;
    const char *reason = asked ? "asked for" : fixed ? "fixed in the spec" : "from the tuning file";
    plan->algorithm = asked ? asked : fixed ? fixed : tuned;
    plan->algorithm_fixed = plan->algorithm != KM_ALGORITHM_AUTO;
    snprintf(plan->algorithm_reason, sizeof plan->algorithm_reason, "%s", reason);
    if (!plan->algorithm_fixed) choose_by_rule(plan);
    return check(plan, err);
}

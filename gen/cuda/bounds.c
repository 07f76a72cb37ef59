// SPDX-License-Identifier: MIT
#include "bounds.h"
#include "../../base/size.h"
#include "../../templates/both.h"
#include "../../templates/cuda/abi.h"
#include "../../templates/slot.h"
#include "../../templates/cuda/steps.h"
#include "../../templates/cuda/bounds.h"
#include "../design.h"
#include "common.h"

enum {
    ARCH_MIN = 80,     // its products
    FEATURES_MAX = 512 // a warp keeps 32 points as halves in shared memory
};

static int64_t k_max_of(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1];
}

const char *km_cuda_bounds_refused(const km_plan *plan) {
    if (km_plan_is_csr(plan)) return "dense points, and the layout is csr";
    if (plan->spec.features > FEATURES_MAX) return "at most 512 features";
    if (k_max_of(plan) > BOUNDS_CLUSTERS_MAX) return "K up to 4096";
    return NULL;
}

const char *km_cuda_bounds_unserved(const km_plan *plan) {
    if (plan->spec.target.arch < ARCH_MIN) return "sm_80 and later";
    if (plan->weighted) return "points without weights";
    if (plan->streams) return "points that a GPU has room for";
    if (plan->points > INT32_MAX / 2) return "up to 1073741823 points";
    return NULL;
}

km_bounds_tables km_cuda_bounds_tables(const km_plan *plan, int64_t n) {
    const km_spec *spec = &plan->spec;
    int64_t d = spec->features, ks = spec->clusters_count,
            restarts = km_max(km_plan_value(plan, KM_PARAM_concurrent_restarts), 1), slots = restarts * ks,
            rows = restarts * plan->clusters_sum;
    km_bounds_tables tables = {.sorted = km_round_up(n, BOUNDS_TILE) + k_max_of(plan) * BOUNDS_TILE};
    for (int64_t q = 0; q < ks; q++) tables.pairs += spec->clusters[q] * BOUNDS_ROW(spec->clusters[q]);
    const int64_t sizes[KM_BOUNDS_TABLES] = {
        [KM_BOUNDS_KS] = 2 * ks * 4,
        [KM_BOUNDS_PAIRS_AT] = (ks + 1) * 8,
        [KM_BOUNDS_SCALE] = d * 8,
        [KM_BOUNDS_BEFORE] = rows * d * km_type_bytes(spec->type),
        [KM_BOUNDS_PAIRS] = restarts * tables.pairs * 4,
        [KM_BOUNDS_CANDIDATES] = restarts * tables.pairs * 2,
        [KM_BOUNDS_UPPER] = slots * n * 4,
        [KM_BOUNDS_SLACK] = slots * n * 4,
        [KM_BOUNDS_LOWER] = plan->algorithm == KM_ALGORITHM_ELKAN ? rows * n * 2 : 0,
        [KM_BOUNDS_LIST] = slots * n * (int64_t)sizeof(km_bounds_entry),
        [KM_BOUNDS_SORTED] = slots * tables.sorted * 4,
        [KM_BOUNDS_TILE_LABELS] = slots * (tables.sorted / BOUNDS_TILE) * 2,
        [KM_BOUNDS_SUMS] = rows * BOUNDS_SUMS(d) * 8,
        [KM_BOUNDS_CENTROIDS] = rows * (int64_t)sizeof(km_bounds_centroid),
        [KM_BOUNDS_SLOTS] = slots * (int64_t)sizeof(km_bounds_slot),
        [KM_BOUNDS_COUNTS] = slots * BOUNDS_COUNTS * 8,
        [KM_BOUNDS_DENSE] = slots,
    };
    for (int i = 0; i < KM_BOUNDS_TABLES; i++) {
        tables.at[i] = tables.kept;
        tables.kept += km_round_up(sizes[i], KM_ALIGN_BYTES);
    }
    return tables;
}

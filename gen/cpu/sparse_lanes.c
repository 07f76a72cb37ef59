// SPDX-License-Identifier: MIT
// The CPU design `sparse_lanes` (templates/cpu/sparse_lanes): points as nonzeros, centroids of all runs across SIMD
// lanes. Its kernels are compiled into the library.
#include "common.h"

#include <math.h>
#include <string.h>

// What a pass does with a row, in operations like a vector's multiply-add of the dense designs.
static const double row_cost = 20, // a row: its starts, its labels
    nonzero_cost = 2.0,            // of a nonzero beside its vectors
    search_cost = 5.0,             // of a score: transposed, compared, its index kept; in whole vectors
    slot_cost = 3.0;               // of a run: its label compared with the old one, and stored

// How much longer a row of the table takes where the table lies in the second cache, in the last, in memory.
static double table_factor(const km_plan *plan, const km_cpu_shape *it) {
    enum { FIRST_CACHE = 32 * 1024, LAST_CACHE = 16 * 1024 * 1024 };
    double bytes = it->d * it->s * it->real_bytes;
    if (bytes <= FIRST_CACHE) return 1;
    if (bytes <= (double)plan->facts.cache_bytes) return 1.3;
    return bytes <= LAST_CACHE ? 2 : 3;
}

static void estimate(km_config *config, km_plan *plan) {
    km_cpu_shape it = km_cpu_shape_of(plan);
    km_estimate *e = &plan->estimates[KM_DESIGN_SPARSE_LANES];
    double nonzeros = plan->nonzeros, vectors = ceil(it.s / it.lanes);
    double index_bytes = it.d <= 256 ? 1 : it.d <= 65536 ? 2 : 4;
    (void)config; // there is one
    *e = (km_estimate){.design = KM_DESIGN_SPARSE_LANES, .feasible = 1};
    e->bytes_per_point = nonzeros * (it.real_bytes + index_bytes) + 8 + it.ks;
    e->memory_ns = e->bytes_per_point / plan->facts.bandwidth_gbs;
    e->operations_per_point = nonzeros * (nonzero_cost + vectors * table_factor(plan, &it)) +
                              search_cost * it.s / it.lanes + slot_cost * it.ks + row_cost;
    km_cpu_bound_by(e, &it, "reads of the centroids that each nonzero meets");
}

static km_status decide(km_plan *plan, const km_config *config, km_error *err) {
    (void)config;
    return km_cpu_set_restarts(plan, err);
}

const km_design_code km_design_sparse_lanes = {.estimate = estimate, .decide = decide, .is_csr = 1};

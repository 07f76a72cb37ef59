// SPDX-License-Identifier: MIT
// The CPU design `sparse_lanes` (templates/cpu/sparse_lanes): points as nonzeros, centroids of all runs across SIMD
// lanes. Its kernels are compiled into the library.
#include "../memory.h"
#include "common.h"

#include <math.h>
#include <string.h>

// What a pass does with a row, in vector multiply-adds; fitted to passes beside those of the dense designs
// (bench/sparse.py --crossing).
static const double row_cost = 40, // its start, what rounding may hide
    nonzero_cost = 6,              // beside its vectors: found, and a sum waits for its last product
    search_cost = 12,              // of a vector of scores: stored, transposed, compared
    slot_cost = 8,                 // of a run: its label compared with the old one, and stored
    sum_cost = 0.5, // of a nonzero and run: all points join in the first of a fit's passes, few move
    vector_cost[] = {0.7, 1.1, 2.5, 4}; // of a nonzero's vector, by where the table lies

// 0: the table lies in the first cache; 1: in the second; 2: in the last; 3: in memory.
static int table_place(const km_plan *plan, const km_cpu_shape *it) {
    enum { FIRST_CACHE = 32 * 1024, LAST_CACHE = 16 * 1024 * 1024 };
    double bytes = it->d * it->s * it->real_bytes;
    return bytes <= FIRST_CACHE                       ? 0
           : bytes <= (double)plan->facts.cache_bytes ? 1
           : bytes <= LAST_CACHE                      ? 2
                                                      : 3;
}

static void estimate(km_config *config, km_plan *plan) {
    km_cpu_shape it = km_cpu_shape_of(plan);
    km_estimate *e = &plan->estimates[KM_DESIGN_SPARSE_LANES];
    double nonzeros = plan->nonzeros, vectors = ceil(it.s / it.lanes);
    double index_bytes = km_csr_index_bytes(plan->spec.features);
    (void)config; // there is one
    *e = (km_estimate){.design = KM_DESIGN_SPARSE_LANES, .feasible = 1};
    e->bytes_per_point = nonzeros * (it.real_bytes + index_bytes) + 8 + it.ks;
    e->memory_ns = e->bytes_per_point / plan->facts.bandwidth_gbs;
    e->operations_per_point =
        nonzeros * (nonzero_cost + sum_cost * it.ks + vectors * vector_cost[table_place(plan, &it)]) +
        search_cost * it.s / it.lanes + slot_cost * it.ks + row_cost;
    km_cpu_bound_by(e, &it, "reads of the centroids that each nonzero meets");
}

static km_status decide(km_plan *plan, const km_config *config, km_error *err) {
    (void)config;
    return km_cpu_set_restarts(plan, err);
}

const km_design_code km_design_sparse_lanes = {.estimate = estimate, .decide = decide, .is_csr = 1};

// SPDX-License-Identifier: MIT
// The CPU design `sparse_lanes` (templates/cpu/sparse_lanes): points as nonzeros, centroids of all runs across SIMD
// lanes. Its kernels are compiled into the library.
#include "../memory.h"
#include "common.h"

#include <math.h>
#include <string.h>

// What a pass does with a row; fitted to passes beside those of the dense designs (bench/sparse.py --crossing).
// Cycles:
static const double row_cost = 20,     // its start, what rounding may hide
    nonzero_cost = 2.75;               // beside its vectors: found, and a sum waits for its last product
static const double added_apart = 1.5; // values that join a sum one by one, over those of a vector
// Vector multiply-adds:
static const double search_cost = 13, // of a vector of scores: stored, transposed, compared
    slot_cost = 8.5,                  // of a run: its label compared with the old one, and stored
    // Of a nonzero's vector, by where the table lies: of up to 32 bytes, and of 64.
    vector_cost[][4] = {{1, 1.4, 2.5, 4}, {1, 2.1, 5, 10}};

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
    int is_wide = it.lanes * it.real_bytes > 32;
    e->operations_per_point = nonzeros * vectors * vector_cost[is_wide][table_place(plan, &it)] +
                              (nonzeros * nonzero_cost + row_cost) * it.fma_per_cycle +
                              search_cost * it.s / it.lanes + slot_cost * it.ks;
    km_cpu_bound_by(e, &it, km_cpu_added_operations(&it, added_apart * nonzeros),
                    "reads of the centroids that each nonzero meets");
}

static km_status decide(km_plan *plan, const km_config *config, km_error *err) {
    (void)config;
    return km_cpu_set_restarts(plan, err);
}

const km_design_code km_design_sparse_lanes = {.estimate = estimate, .decide = decide, .is_csr = 1};

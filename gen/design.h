// SPDX-License-Identifier: MIT
// What a design contributes to planner and emitter: one file (gen/cuda/NAME.c, gen/cpu/NAME.c), one row of KM_DESIGNS
// (kmgen/plan.h), one folder of templates. The planner (gen/plan.c) and the emitter (gen/emit.c) know only this table.
#ifndef KM_GEN_DESIGN_H
#define KM_GEN_DESIGN_H
#include "numbers.h"
#include "template.h"

// The configuration that a design's estimate found best, as bytes: each design has a struct of its own.
typedef struct km_config {
    unsigned char bytes[512];
} km_config;

// Bytes a point that a pass keeps on the device, for explain.
typedef struct km_point_memory {
    const char *what;
    double bytes;
} km_point_memory;
enum { KM_POINT_MEMORY_MAX = 4 };

typedef struct km_design_code {
    // Fills plan->estimates[design], feasible or not, and the configuration. plan->spec, facts, points, weighted,
    // track_labels and clusters_sum are set before.
    void (*estimate)(km_config *config, km_plan *plan);
    // Sets every number with its reason, and plan->layout. plan->design is this one. KM_ERROR_PLAN where what the user
    // fixed cannot be had.
    km_status (*decide)(km_plan *plan, const km_config *config, km_error *err);
    // Fills the names that the templates use, copying what was decided, and names the root template. NULL: there is no
    // text, the kernels are compiled into the library.
    km_status (*names)(km_env *env, const char **root, const km_plan *plan, km_error *err);
    // Bytes of device memory of a pass over n points beside points, centroids and totals, at most. NULL: none.
    int64_t (*workspace_bytes)(const km_plan *plan, int64_t n);
    // What of it grows with the points; returns how many rows. NULL: none.
    int (*point_memory)(km_point_memory rows[KM_POINT_MEMORY_MAX], const km_plan *plan);
    // Whether passes of the plan do without a number that it has: a tuning need not try others. NULL: they need each.
    int (*is_idle)(const km_plan *plan, km_param param);
    // The root of a text by which a fit may begin while the plan's own is compiled (km_source_starter): the names are
    // the same. NULL: there is none.
    const char *starter;
    int is_csr;        // works on points in the layout CSR: plan->nonzeros is known
    int scores_decide; // labels are those of scores in the plan's type: ambiguous points are not decided in double
    int shares;    // on a GPU: its sums do not depend on who adds which points, so that ranks may share them
    int sums_vary; // the same labels may give sums that differ in their last digits from pass to pass
} km_design_code;

const km_design_code *km_design_code_of(km_design design); // NULL for KM_DESIGN_NONE

// Whether kernels are emitted and compiled, and not part of the library.
static inline int km_design_is_emitted(km_design design) {
    return km_design_code_of(design) && km_design_code_of(design)->names;
}

// Whether a fit by this plan may begin with a starting pass, while its own is compiled.
int km_plan_starts(const km_plan *plan);

// Whether the plan's points lie as CSR.
static inline int km_plan_is_csr(const km_plan *plan) {
    return km_plan_layout(plan) == KM_LAYOUT_CSR;
}

// A configuration as the design's own struct, which is no larger.
#define KM_CONFIG_PUT(config, own)                                                                           \
    do {                                                                                                     \
        _Static_assert(sizeof(own) <= sizeof(km_config), "km_config is too small");                          \
        memcpy((config)->bytes, &(own), sizeof(own));                                                        \
    } while (0)
#define KM_CONFIG_GET(own, config) memcpy(&(own), (config)->bytes, sizeof(own))

#endif

// SPDX-License-Identifier: MIT
// The table of designs: KM_DESIGNS, each row with the code of its file.
#include "../templates/cuda/starter.h"
#include "design.h"

#define CODE(value, name, target, what) extern const km_design_code km_design_##name;
KM_DESIGNS(CODE)
#undef CODE

static const km_design_code *const codes[KM_DESIGN_COUNT] = {
#define ROW(value, name, target, what) [KM_DESIGN_##value] = &km_design_##name,
    KM_DESIGNS(ROW)
#undef ROW
};

const km_design_code *km_design_code_of(km_design design) {
    return (unsigned)design < KM_DESIGN_COUNT ? codes[design] : NULL;
}

// A point's coordinates are in registers, and sums of the whole list of K in a block's shared memory.
int km_plan_starts(const km_plan *plan) {
    enum { FEATURES_MAX = 64, CLUSTERS_MAX = 4096 };
    const km_spec *spec = &plan->spec;
    const km_design_code *code = km_design_code_of(plan->design);
    return code && code->starter && plan->algorithm == KM_ALGORITHM_LLOYD && !plan->streams &&
           plan->ranks == 0 && !plan->weighted && !plan->track_labels && spec->features <= FEATURES_MAX &&
           plan->clusters_sum <= CLUSTERS_MAX &&
           KM_STARTER_BYTES(spec->features, spec->clusters_count, plan->clusters_sum) <=
               plan->facts.shared_bytes_per_block;
}

km_layout km_plan_layout(const km_plan *plan) {
    const km_design_code *code = km_design_code_of(plan->design);
    return code && code->is_csr ? KM_LAYOUT_CSR : KM_LAYOUT_DENSE;
}

// SPDX-License-Identifier: MIT
// The table of designs: KM_DESIGNS, each row with the code of its file.
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

km_layout km_plan_layout(const km_plan *plan) {
    const km_design_code *code = km_design_code_of(plan->design);
    return code && code->is_csr ? KM_LAYOUT_CSR : KM_LAYOUT_DENSE;
}

// SPDX-License-Identifier: MIT
// Which algorithm a plan's passes follow.
#ifndef KM_GEN_ALGORITHM_H
#define KM_GEN_ALGORITHM_H
#include <kmgen/plan.h>

enum {
    KM_UPDATES_TYPICAL = 20
}; // updates that a run takes until it converges, where nothing is known of the data

// Decides the algorithm: what the caller `asked` for, the spec's or, where both say AUTO, the choice of a rule. The
// design must be known. KM_ERROR_PLAN.
km_status km_plan_algorithm(km_plan *plan, km_algorithm asked, km_error *err);
// Whether the algorithm keeps bounds of each point's distances: hamerly, elkan.
int km_algorithm_has_bounds(km_algorithm algorithm);
// Whether passes of the algorithm that was `asked` for, or is fixed, keep labels.
int km_algorithm_keeps_labels(const km_plan *plan, km_algorithm asked);
// The template of the kernels that the plan's algorithm adds to its text; NULL: it adds none.
const char *km_algorithm_template(const km_plan *plan);

#endif

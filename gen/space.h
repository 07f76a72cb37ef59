// SPDX-License-Identifier: MIT
// The space of a tuning: every plan that can run a spec and differs in numbers which gen/params.h marks as tuned. The
// planner itself says which can: a number is fixed after the other, and where it refuses, all below is left out.
#ifndef KM_GEN_SPACE_H
#define KM_GEN_SPACE_H
#include "../base/error.h"
#include "params.h"
#include <kmgen/tune.h>

enum { KM_SPACE_VALUES_MAX = 32 }; // of an axis

// Candidates in the order of designs and numbers, each with the cost model's times for params->points.
typedef struct km_space {
    km_tune_candidate *candidates;
    int64_t count, capacity;
    int64_t standard; // the plan that the cost model alone takes
} km_space;

// What the spec fixes stays fixed. `params` as for km_plan_make, with facts and points; its tuning text is not asked.
// `full`: the values behind the bar too. Plans that the cost model expects to be several times slower than its best are
// left out. KM_ERROR_PLAN: no plan can run the spec. The space is the caller's.
km_status km_space_make(km_space *out, const km_spec *spec, const km_plan_params *params, int full,
                        km_error *err);
void km_space_clear(km_space *space);

// The values of a number, ascending: those of gen/params.h and the planner's `own`. Returns how many; 0: it is not
// tuned.
int64_t km_space_values(int64_t values[KM_SPACE_VALUES_MAX], km_param param, km_design design, int64_t own,
                        int full);

// Whether two candidates are the same plan: their numbers, in one order, have the same values.
int km_space_is_same(const km_tune_candidate *a, const km_tune_candidate *b);

// The spec with the candidate's numbers fixed: its plan is the candidate. `out` is initialised.
km_status km_space_spec(km_spec *out, const km_spec *spec, const km_tune_candidate *candidate, km_error *err);

// The candidate's numbers without those that the planner would choose anyway once the others are fixed, such as the
// blocks of a launch, which follow from the number of points: they are another's for another one. KM_ERROR_PLAN.
km_status km_space_decisive(km_fixed numbers[KM_FIXED_MAX], int64_t *count, const km_spec *spec,
                            const km_plan_params *params, const km_tune_candidate *candidate, km_error *err);

#endif

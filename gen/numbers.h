// SPDX-License-Identifier: MIT
// The numbers of a plan, one by one: reading, setting, and those that the user fixed. What all planners stand on.
#ifndef KM_GEN_NUMBERS_H
#define KM_GEN_NUMBERS_H
#include "../base/error.h"
#include "params.h"
#include <kmgen/plan.h>

// The number's value; -1 where the plan has none of it.
int64_t km_plan_value(const km_plan *plan, km_param param);

// Sets a number of the plan and its reason, unless the user (or a tuning table) fixed it: then that value stays, and
// the reason says so. Checks the range of gen/params.h, or that a word belongs to the plan's design. KM_ERROR_PLAN.
km_status km_plan_set(km_plan *plan, km_param param, int64_t value, km_error *err, const char *reason, ...)
    __attribute__((format(printf, 5, 6)));
// Non-zero and the value when the user (or a tuning table) fixed this number; the same of the design, which is
// KM_DESIGN_NONE when not.
int km_plan_fixed(const km_plan *plan, km_param param, int64_t *value);
km_design km_plan_fixed_design(const km_plan *plan);
km_algorithm km_plan_fixed_algorithm(const km_plan *plan); // of the spec; AUTO when it says none
// Why what is fixed is: "fixed in the spec", or where it was measured. At most `size` bytes of `text`.
void km_plan_fixed_reason(char *text, size_t size, const km_plan *plan);

// Puts the numbers into the order of gen/params.h.
void km_plan_sort_numbers(km_plan *plan);
// KM_ERROR_PLAN when the spec fixes a number, design or word that its target does not have; the second, that the plan's
// design does not have.
km_status km_plan_check_fixed(const km_spec *spec, km_error *err);
km_status km_plan_check_used(const km_plan *plan, km_error *err);

// Why a configuration of a design with so many registers to spare must not be taken; NULL: it may. INT64_MAX asks for
// the design as a whole, INT64_MIN whether any of its configurations is left out.
const char *km_plan_avoids(const km_plan *plan, km_design design, int64_t registers_spare);
// Makes the estimate of a design infeasible for this reason, unless configurations of it were left out: then for
// that one.
void km_plan_infeasible(km_plan *plan, km_design design, const char *reason);

// Memory for what a design decides beside numbers: plan->layout becomes `bytes` zeroed bytes. KM_ERROR_MEMORY.
km_status km_plan_layout_make(km_plan *plan, int64_t bytes, km_error *err);

#endif

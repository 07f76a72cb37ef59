// SPDX-License-Identifier: MIT
// What each target contributes to the planner and the emitter. gen/plan.c and gen/emit.c know only these.
#ifndef KM_GEN_PLANNER_H
#define KM_GEN_PLANNER_H
#include "params.h"
#include "template.h"
#include <kmgen/plan.h>

// Sets a number of the plan and its reason, unless the user fixed it: then his value stays and the reason
// becomes "fixed in the spec". Checks the range of gen/params.h. KM_ERROR_PLAN.
km_status km_plan_set(km_plan *plan, km_param param, int64_t value, km_error *err, const char *reason, ...)
    __attribute__((format(printf, 5, 6)));
// Non-zero and the value when the user (or the tuning file) fixed this number; the same of the design, which is
// KM_DESIGN_NONE when not.
int km_plan_fixed(const km_plan *plan, km_param param, int64_t *value);
km_design km_plan_fixed_design(const km_plan *plan);
km_algorithm km_plan_fixed_algorithm(const km_plan *plan); // of the spec; AUTO when it says none

// Why a way to run a design must not be taken that has so many registers to spare, or NULL: it may. INT64_MAX asks for
// the design as a whole, INT64_MIN whether any of its ways is left out.
const char *km_plan_avoids(const km_plan *plan, km_design design, int64_t registers_spare);
// Makes the estimate of a design infeasible for this reason, unless its ways were left out: then for that one.
void km_plan_no_way(km_plan *plan, km_design design, const char *reason);

// One planner a target (gen/cost_cuda.c, gen/cost_cpu.c): estimates every design of the target, picks one,
// sets every number. plan->spec, facts, points, weighted, track_labels and clusters_sum are set before.
km_status km_plan_cuda(km_plan *plan, km_error *err);
km_status km_plan_cpu(km_plan *plan, km_error *err);

// Decides the algorithm (gen/algorithm.c): what the caller `asked` for, the spec's, the tuning file's, which stands in
// plan->algorithm, or, where all say AUTO, the choice of a rule. The design must be known. KM_ERROR_PLAN.
km_status km_plan_algorithm(km_plan *plan, km_algorithm asked, km_error *err);

// One emitter a target (gen/emit_cuda.c, gen/emit_cpu.c): fills the names that its templates use, and names
// the root template of the plan's design, e.g. "cuda/registers/registers.cu".
km_status km_emit_cuda(km_env *env, const char **template_name, const km_plan *plan, km_error *err);
km_status km_emit_cpu(km_env *env, const char **template_name, const km_plan *plan, km_error *err);
// The same for kernels of the design lanes that serve any number of features up to the plan's, which each call brings.
km_status km_emit_cpu_any_d(km_env *env, const char **template_name, const km_plan *plan, km_error *err);

#endif

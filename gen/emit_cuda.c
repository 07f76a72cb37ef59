// SPDX-License-Identifier: MIT
#include "planner.h"

km_status km_emit_cuda(km_env *env, const char **template_name, const km_plan *plan, km_error *err) {
    (void)env;
    *template_name = NULL;
    return km_fail(err, KM_ERROR_PLAN, "the design %s has no text", km_design_name(plan->design));
}

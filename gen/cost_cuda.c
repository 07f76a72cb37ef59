// SPDX-License-Identifier: MIT
#include "planner.h"

km_status km_plan_cuda(km_plan *plan, km_error *err) {
    (void)plan;
    return km_fail(err, KM_ERROR_PLAN, "no CUDA design is built in; take target: cpu");
}

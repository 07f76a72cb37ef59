// SPDX-License-Identifier: MIT
// km_fit_params.devices.
#ifndef KM_RUNTIME_FIT_DEVICES_H
#define KM_RUNTIME_FIT_DEVICES_H
#include "../module_state.h"
#include "../result_owner.h"
#include <kmgen/fit.h>

// km_fit on as many of several devices as have enough to do.
km_status km_fit_on_devices(km_result **out, const km_spec *spec, const km_data *data,
                            const km_fit_params *params, km_error *err);

// The plan by which as many of several devices as have enough to do share the points.
km_status km_fit_plan_on_devices(km_plan *plan, const km_spec *spec, const km_data *data,
                                 const km_fit_params *params, km_error *err);

// The plan that so many ranks would share, for all points.
km_status km_fit_plan_share(km_plan *plan, const km_spec *spec, const km_data *data,
                            const km_fit_params *params, int64_t ranks, km_error *err);

#endif

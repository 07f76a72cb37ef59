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

#endif

// SPDX-License-Identifier: MIT
// What programs that drive an engine themselves begin with: the module of a plan.
#ifndef KM_BENCH_BUILT_H
#define KM_BENCH_BUILT_H
#include "../gen/source.h"
#include "../runtime/module_state.h"

// Plans `spec` with `params` for an open device, emits the text and builds it; cache_dir as in km_module_params.
// *module is the caller's to destroy.
static inline km_status bench_build(km_module **module, const km_spec *spec, km_plan_params *params,
                                    km_device *device, const char *cache_dir, km_error *err) {
    km_plan plan;
    km_source source;
    km_module_params module_params;
    km_status status;
    km_plan_init(&plan);
    km_source_init(&source);
    km_module_params_init(&module_params);
    module_params.cache_dir = cache_dir;
    params->facts = &device->facts;
    KM_TRY_GOTO(km_plan_make(&plan, spec, params, err));
    KM_TRY_GOTO(km_source_emit(&source, &plan, NULL, err));
    KM_TRY_GOTO(km_module_build_on(module, &source, device, &module_params, err));
done:
    km_source_clear(&source);
    km_plan_clear(&plan);
    return status;
}

#endif

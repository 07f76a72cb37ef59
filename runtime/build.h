// SPDX-License-Identifier: MIT
// From a spec to a module on one device that serves it: plan, text, machine code. No fit depends on one text: where the
// compiler refuses it, or its pass would spill registers, the planner's next plan is taken.
#ifndef KM_RUNTIME_BUILD_H
#define KM_RUNTIME_BUILD_H
#include "module_state.h"

typedef struct km_build_params {
    const km_spec *spec;     // complete; what it fixes stays
    km_plan_params plan;     // without facts, which are the device's, and without anything to avoid
    const char *source_text; // instead of what the plan emits, or NULL: then there is no next plan
    km_module_params module; // its device is not used
    km_built *built;         // as in km_module_get
    int begins;              // the module may be one of KM_MODULE_BEGIN
} km_build_params;

// What was built; km_build_clear frees it. `warning`: what the user must be told, "" for nothing.
typedef struct km_build {
    km_plan plan;
    km_source source;
    km_module *module;
    char warning[1400];
} km_build;

void km_build_init(km_build *build);
void km_build_clear(km_build *build);

// Whether the spec fixes what a plan for another device may not have: all but the algorithm.
int km_build_fixes_numbers(const km_spec *spec);

// When the compiler refuses a plan's text, its whole design is left out. When a kernel of its pass spills registers,
// all configurations of the design with as few registers to spare are left out. The cache remembers spills, so the
// next build comes to the same plan without compiling. Where all plans spill, the one with the least estimated time is
// run as it is. Where all texts are refused, the design prebuilt serves a CPU, whatever the spec fixed; for a GPU that
// is KM_ERROR_COMPILE, which says what was tried.
km_status km_build_on(km_build *build, km_device *device, const km_build_params *params, km_error *err);

// The plan that km_build_on takes, nothing compiled: what its cache does not know of spills is not known here either.
km_status km_build_plan(km_plan *plan, km_device *device, const km_build_params *params, km_error *err);

// Compiles into the cache what km_build_on would build; the device may be one of km_compiler_open. The module has no
// kernels.
km_status km_build_ahead(km_build *build, km_device *device, const km_build_params *params, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// The inside of a module, for the sweep; and devices, opened once a fit.
#ifndef KM_RUNTIME_MODULE_STATE_H
#define KM_RUNTIME_MODULE_STATE_H
#include "../base/error.h"
#include "../gen/source.h"
#include "backend.h"

struct km_cache; // cache.h

struct km_module {
    km_plan plan;
    km_device *device;
    int owns_device;
    km_kernels *kernels;
    char *build_log;
    int32_t was_cached;
    int64_t spilled_bytes; // of registers, by that kernel of the pass which spills most
    char spilling[64];     // its name
    int64_t registers;     // of a thread, in that kernel of the pass which has most; 0: unknown
    int is_begun;          // KM_MODULE_BEGIN left parts out: km_module_complete
    unsigned char is_loaded[KM_SOURCE_PARTS_MAX]; // which parts it did not leave out
};

// Which device a spec's target and a caller's choice mean: the target, where it says cpu or cuda, wins over
// KM_DEVICE_AUTO. KM_HOST or a CUDA ordinal.
int km_device_wanted(km_target_kind target, int device);
// Opens KM_HOST or a CUDA ordinal.
km_status km_device_open(km_device **out, int device, const char *compiler, const km_log *log, km_error *err);
// The same for KM_MODULE_COMPILE alone.
km_status km_compiler_open(km_device **out, int device, const char *compiler, const km_log *log,
                           km_error *err);
void km_device_close(km_device **device);
// As km_module_build, on a device that is open already and stays the caller's.
km_status km_module_build_on(km_module **out, const km_source *source, km_device *device,
                             const km_module_params *params, km_error *err);
typedef enum km_module_mode {
    KM_MODULE_LOAD, // as km_module_build_on
    KM_MODULE_BEGIN, // as KM_MODULE_TRY; where the pass is still to be compiled, and the plan has a starting pass
    // (km_source_starter), the kernels are those that a fit begins with, and others that are cached
    KM_MODULE_TRY, // where the pass spills registers, nothing is loaded: the module has its log, but no kernels
    KM_MODULE_COMPILE, // compiled into the cache: the module has its log, but no kernels
    KM_MODULE_RECALL,  // nothing is built: what the cache knows of spills, and no kernels
} km_module_mode;

// Entries of the cache that one fit filled: what it finds in them later was built, not cached.
typedef struct km_built {
    char keys[8 * KM_SOURCE_PARTS_MAX][36];
    int64_t count;
} km_built;

// `built`: see there; NULL: not wanted.
km_status km_module_get(km_module **out, const km_source *source, km_device *device, km_module_mode mode,
                        const km_module_params *params, km_built *built, km_error *err);

// Compiles each part of a text into the cache, that its device has no binary of; of the plan only the target is used.
km_status km_module_compile_parts(const km_source *source, km_device *device, const struct km_cache *cache,
                                  const km_module_params *params, km_error *err);

// Loads what KM_MODULE_BEGIN left out; compiles what nobody has compiled meanwhile. Where the plan's own pass is
// refused, or spills registers, the module keeps its starting pass.
km_status km_module_complete(km_module *module, const km_source *source, const km_module_params *params,
                             km_built *built, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// A module is emitted source made callable: compiled for one device, cached, loaded.
#ifndef KMGEN_MODULE_H
#define KMGEN_MODULE_H
#include <kmgen/kmgen.h>
#include <kmgen/plan.h>
KM_BEGIN

// Immutable once built, so any number of threads may share one module.
typedef struct km_module km_module;

typedef struct km_module_params {
    int device; // CUDA ordinal, or KM_HOST. Default KM_HOST.
    const char
        *cache_dir; // Holds sources, logs and binaries; the user's own (km_cache_check), else nothing is
                    // kept and the log has a warning. Default NULL: nothing is kept.
    int64_t cache_bytes_max; // Least recently used entries leave above this. Default 1 GiB.
    const char *compiler;    // C compiler of CPU modules. Default NULL: "cc", then "gcc", "clang".
    const km_log *log;       // Default NULL, silent.
} km_module_params;

KM_API void km_module_params_init(km_module_params *params);

// Compiles `source`, or takes it from the cache. On failure `*out` is NULL and `err` holds one sentence; the
// compiler's whole log is left in `cache_dir`. A plan of design `prebuilt` needs no compiler and no source
// text. KM_ERROR_COMPILE, KM_ERROR_DEVICE, KM_ERROR_IO, KM_ERROR_MEMORY.
KM_API km_status km_module_build(km_module **out, const km_source *source, const km_module_params *params,
                                 km_error *err);
// Frees `*module` and sets it to NULL. A NULL module is allowed.
KM_API void km_module_destroy(km_module **module);

KM_API const km_plan *km_module_plan(const km_module *module);
// What the compiler said of each kernel (registers, spills); "" where nothing is known.
KM_API const char *km_module_build_log(const km_module *module);
KM_API int32_t km_module_was_cached(const km_module *module);

// Devices -------------------------------------------------------------------------------------------------

// Count of usable CUDA devices; 0 without driver. Never fails. Thread-safe.
KM_API int km_device_count(void);
// Facts of a device: a CUDA ordinal or KM_HOST. KM_ERROR_DEVICE says what is missing and how to get it.
KM_API km_status km_device_query(km_device_facts *facts, int device, km_error *err);

// What modules of a target would be compiled with, for people: "/usr/bin/cc", "NVRTC 13.0 (its file)". Needs no
// device. `compiler` as in km_module_params. KM_ERROR_DEVICE or KM_ERROR_COMPILE says what is missing and how to
// get it. Thread-safe.
KM_API km_status km_compiler_query(char *text, int64_t size, km_target_kind kind, const char *compiler,
                                   km_error *err);

// Cache ---------------------------------------------------------------------------------------------------

typedef struct km_cache_stats {
    int64_t entries_count;
    int64_t bytes;
} km_cache_stats;

// Makes the folder where it is missing, and says whether modules may be kept there. KM_ERROR_IO: it cannot be made or
// written to. KM_ERROR_USAGE: cached code is run, and others could have written it (docs/design.md, "The cache").
// km_fit warns of either, and builds in a folder of its own.
KM_API km_status km_cache_check(const char *cache_dir, km_error *err);
KM_API km_status km_cache_look(km_cache_stats *stats, const char *cache_dir, km_error *err);
// Removes every entry that kmgen wrote, nothing else. Safe beside running processes.
KM_API km_status km_cache_clear(km_cache_stats *removed, const char *cache_dir, km_error *err);

KM_END
#endif

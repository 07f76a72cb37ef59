// SPDX-License-Identifier: MIT
/// @file
/// A module is emitted source made callable: compiled for one device, cached, loaded.
#ifndef KMGEN_MODULE_H
#define KMGEN_MODULE_H
#include <kmgen/kmgen.h>
#include <kmgen/plan.h>
KM_BEGIN
/// @defgroup module Module: machine code, devices, the cache
/// @{

/// A compiled text on its device. Immutable once built: any number of threads may share one module.
typedef struct km_module km_module;

/// Where and with what a module is built.
typedef struct km_module_params {
    int device; ///< CUDA ordinal, or KM_HOST. Default KM_HOST.
    /// Holds sources, logs and binaries; the user's own (km_cache_check), else nothing is kept and the log has
    /// a warning. Default NULL: nothing is kept.
    const char *cache_dir;
    int64_t cache_bytes_max; ///< Least recently used entries leave above this. Default 1 GiB.
    const char *compiler;    ///< C compiler of CPU modules. Default NULL: "cc", then "gcc", "clang".
    const km_log *log;       ///< Default NULL, silent.
    /// Asked now and then while a compiler is waited for, by the thread that called; non-zero: the compiler is ended
    /// with all that it left, and the call with KM_ERROR_INTERRUPTED. NVRTC before 12.8 is waited for. Default NULL.
    int (*stop)(void *user);
    void *stop_user; ///< Handed to `stop`. Default NULL.
} km_module_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_module_params_init(km_module_params *params);

/// Compiles `source`, or takes it from the cache; `params` NULL: the defaults. The source may be cleared
/// afterwards. A plan of design `prebuilt` needs no compiler and no source text. KM_ERROR_COMPILE: the compiler
/// refused the text (its whole log is left in `cache_dir`) or is missing; KM_ERROR_DEVICE: the device, its driver
/// or NVRTC is missing or fails; KM_ERROR_INTERRUPTED: `stop` said so. Two threads or processes that build the same
/// text compile it once: the second one waits.
KM_API km_status km_module_build(km_module **out, const km_source *source, const km_module_params *params,
                                 km_error *err);
/// Frees `*module` and sets it to NULL. A NULL module is allowed.
KM_API void km_module_destroy(km_module **module);

/// The plan that its source was emitted from: the module's own copy, never NULL, which lives as long as the module.
KM_API const km_plan *km_module_plan(const km_module *module);

/// What the compiler said of each kernel (registers, spills); "" where nothing is known. Lives as long as the module.
KM_API const char *km_module_build_log(const km_module *module);

/// Non-zero when the machine code came from the cache.
KM_API int32_t km_module_was_cached(const km_module *module);

/// Count of usable CUDA devices; 0 without driver. Never fails.
KM_API int km_device_count(void);

/// Facts of a device, a CUDA ordinal or KM_HOST, into the caller's struct; what is free is asked anew by each call.
/// KM_ERROR_DEVICE says what is missing and how to get it.
KM_API km_status km_device_query(km_device_facts *facts, int device, km_error *err);

/// Non-zero: contexts of GPUs that are made from now on stay until the process ends, so that only its first fit waits
/// for one (200 to 300 ms) and none for its end. 0, the default: they go with the last fit, module or table that
/// needs them, and those that were kept now. For the whole process, and may be called at any time by any thread.
KM_API void km_device_keep(int keeps);

/// The text of a device's tuning table in a folder, and its path (of `size` bytes with the final zero, cut where it is
/// longer; 4200 are enough): for km_plan_params, with `tuning_found`. `device` is its name in km_device_facts, `target`
/// what is planned for, with its architecture: instruction sets of a CPU have a table each. `*text` is NULL where there
/// is none; else the caller's: km_text_free. KM_ERROR_IO: it is there and cannot be read.
KM_API km_status km_tuning_read(char **text, char *path, int64_t size, const char *tuning_dir,
                                const char *device, km_target target, km_error *err);

/// What modules of a target would be compiled with, for people: "/usr/bin/cc", "NVRTC 13.0 (its file)". Writes at most
/// `size` bytes of `text`, with the final zero; "" after a failure. Needs no device. `compiler` as in km_module_params.
/// KM_ERROR_DEVICE or KM_ERROR_COMPILE says what is missing and how to get it.
KM_API km_status km_compiler_query(char *text, int64_t size, km_target_kind kind, const char *compiler,
                                   km_error *err);

/// What a cache folder holds.
typedef struct km_cache_stats {
    int64_t entries_count; ///< Modules.
    int64_t bytes;         ///< Of all their files.
} km_cache_stats;

/// Makes the folder where it is missing, and says whether modules may be kept there. KM_ERROR_IO: it cannot be made or
/// written to. KM_ERROR_USAGE: cached code is run, and others could have written it (docs/cache.md).
/// km_fit warns of either, and builds in a folder of its own.
KM_API km_status km_cache_check(const char *cache_dir, km_error *err);

/// Counts what `cache_dir` holds of kmgen's, into the caller's `*stats`, which is all zero where there is no such
/// folder. KM_ERROR_IO: the folder cannot be looked into. Reads only: safe beside running processes.
KM_API km_status km_cache_look(km_cache_stats *stats, const char *cache_dir, km_error *err);

/// What km_cache_warm takes beside specs.
typedef struct km_warm_params {
    int64_t points;         ///< About as many as fits will have, which some plans depend on. Default 0: many.
    int32_t weighted;       ///< Points will carry weights. Default 0.
    const char *tuning_dir; ///< As in km_fit_params. Default NULL.
    /// `cache_dir` is needed; `device` as in km_fit_params, default KM_DEVICE_AUTO: the GPU where there is one.
    km_module_params module;
} km_warm_params;

/// What became of a spec.
typedef struct km_warmed {
    km_status status;   ///< KM_OK, or as km_fit_plan and km_module_build.
    km_error err;       ///< The sentence, where that is not KM_OK.
    km_design design;   ///< Of the plan that was compiled.
    int32_t was_cached; ///< Nothing was to be compiled.
    double ms;          ///< How long it took, beside the others.
} km_warmed;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_warm_params_init(km_warm_params *params);

/// Compiles into the cache what fits of these specs (with features and a list of K) will need, several specs side by
/// side: their first fit is then as fast as the second. `done`: the caller's, `count` of them, one for each spec.
/// Returns the first failure, after all specs were tried: KM_ERROR_USAGE (params), KM_ERROR_PLAN, KM_ERROR_COMPILE,
/// KM_ERROR_DEVICE, KM_ERROR_IO, KM_ERROR_INTERRUPTED.
KM_API km_status km_cache_warm(km_warmed *done, const km_spec *specs, int64_t count,
                               const km_warm_params *params, km_error *err);

/// How many texts fits left in the cache to be compiled later (km_fit_params.leaves_compile); 0 where there is no such
/// folder. Reads names only.
KM_API int64_t km_cache_unfinished(const char *cache_dir);

/// Compiles those texts into `params->cache_dir`, the oldest first, for the GPUs and with the compilers that they
/// were left for; needs no driver. `*compiled` is how many there were. One that cannot be compiled is dropped with a
/// warning. One process at a time does it for a folder: others return at once, with 0, and it takes what they would.
/// KM_ERROR_USAGE, KM_ERROR_IO, KM_ERROR_INTERRUPTED.
KM_API km_status km_cache_finish(int64_t *compiled, const km_module_params *params, km_error *err);

/// Removes every entry that kmgen wrote in `cache_dir`, nothing else; `*removed` (NULL is allowed) gets what that was.
/// KM_ERROR_IO: the folder cannot be looked into. Safe beside running processes: a module that is loaded stays usable.
KM_API km_status km_cache_clear(km_cache_stats *removed, const char *cache_dir, km_error *err);

/// @}
KM_END
#endif

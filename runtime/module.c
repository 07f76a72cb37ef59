// SPDX-License-Identifier: MIT
#include "module_state.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/text.h"
#include "../gen/design.h"
#include "../gen/source.h"
#include "cache.h"
#include "file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_BYTES_MAX ((int64_t)1 << 30)

// Devices ---------------------------------------------------------------------------------------------------

int km_device_count(void) {
    return km_backend_cuda.device_count();
}

int km_device_wanted(km_target_kind target, int device) {
    if (target == KM_TARGET_CPU) return KM_HOST;
    if (target == KM_TARGET_CUDA && device < 0) return 0;
    if (device != KM_DEVICE_AUTO) return device;
    return km_device_count() > 0 ? 0 : KM_HOST;
}

km_status km_device_open(km_device **out, int device, const char *compiler, const km_log *log,
                         km_error *err) {
    *out = NULL;
    if (device < KM_HOST)
        return km_fail(err, KM_ERROR_USAGE, "device %d is neither KM_HOST (-1) nor a CUDA ordinal (0 and up)",
                       device);
    const km_backend *backend = device == KM_HOST ? &km_backend_cpu : &km_backend_cuda;
    return backend->device_open(out, device, compiler, log, err);
}

km_status km_compiler_open(km_device **out, int device, const char *compiler, const km_log *log,
                           km_error *err) {
    *out = NULL;
    if (device < 0 || !km_backend_cuda.compiler_open) return km_device_open(out, device, compiler, log, err);
    return km_backend_cuda.compiler_open(out, device, compiler, log, err);
}

void km_device_close(km_device **device) {
    if (*device) (*device)->backend->device_close(device);
}

km_status km_device_query(km_device_facts *facts, int device, km_error *err) {
    km_device *opened;
    KM_TRY(km_device_open(&opened, device, NULL, NULL, err));
    *facts = opened->facts;
    km_device_close(&opened);
    return KM_OK;
}

// Modules ---------------------------------------------------------------------------------------------------

void km_module_params_init(km_module_params *params) {
    *params = (km_module_params){0};
    params->device = KM_HOST;
    params->cache_bytes_max = CACHE_BYTES_MAX;
}

// Lines of the head by which a text asks for options of the compiler.
static void add_needs(km_text *key, const char *head, const char *code) {
    for (const char *line; (line = strstr(head, "// needs: ")) && line < code; head = line + 1)
        km_text_add(key, line, (int64_t)strcspn(line, "\n") + 1);
}

// All that the binary depends on, as text. Plans that make the same code, for other lists of K or numbers of points,
// share an entry.
static km_status key_text(char **out, int64_t *size, const km_source *source, km_device *device,
                          km_error *err) {
    char compiler[1024], target[32];
    km_text text = {0};
    device->backend->compiler_id(compiler, sizeof compiler, device, &source->plan);
    km_target_text(target, sizeof target, source->plan.spec.target);
    km_text_printf(&text, "kmgen %s\n%s\n%s\n", KM_VERSION, target, compiler);
    char *kernels = NULL;
    int64_t kernels_size = 0;
    km_status status = km_source_kernels(&kernels, &kernels_size, source->text, err);
    add_needs(&text, source->text, km_source_code(source->text));
    if (status == KM_OK) km_text_add(&text, kernels, kernels_size);
    km_text_free(kernels);
    *size = text.size;
    if (status == KM_OK) return km_text_take(out, &text, err);
    km_text_clear(&text);
    return status;
}

// Reads the binary that the compiler wrote. A compiler that reports success and writes nothing has failed as well.
static km_status take_binary(char **binary, int64_t *size, const km_cache_entry *entry, km_error *err) {
    if (km_file_read(binary, size, entry->compile_path, 0, NULL) == KM_OK && *size > 0) return KM_OK;
    free(*binary);
    *binary = NULL;
    return km_fail(err, KM_ERROR_COMPILE,
                   "the compiler reported no error but left no machine code of %s; name another compiler, or "
                   "fix design: prebuilt",
                   entry->source_path);
}

static km_status compile_once(char **binary, int64_t *size, const km_cache_entry *entry,
                              const km_source *source, km_device *device, km_error *err) {
    unlink(entry->log_path);
    KM_TRY(km_file_replace(entry->source_path, source->text, source->text_size, err));
    km_status status = device->backend->compile(device, source, entry->source_path, entry->compile_path,
                                                entry->log_path, err);
    if (status == KM_OK) status = take_binary(binary, size, entry, err);
    unlink(entry->compile_path);
    return status;
}

static km_status compile_entry(char **binary, int64_t *size, const km_cache_entry *entry,
                               const km_source *source, km_device *device, km_error *err) {
    km_error first = {{0}};
    km_status status = compile_once(binary, size, entry, source, device, &first);
    // Another process cleared the cache while this one compiled: once more.
    if (status == KM_ERROR_COMPILE && access(entry->source_path, R_OK) != 0)
        return compile_once(binary, size, entry, source, device, err);
    if (status == KM_OK) return KM_OK;
    // A compiler does not always say that its disk is full.
    if (status == KM_ERROR_COMPILE && !entry->cache->is_private) KM_TRY(km_cache_has_room(entry->cache, err));
    return km_fail(err, status, "%s", first.text);
}

// The compiler's log, and what it says of spills. 0: there is none.
static int read_build_log(km_module *module, const km_cache_entry *entry, const km_source *source) {
    const km_backend *backend = module->device->backend;
    free(module->build_log);
    module->build_log = km_cache_log(entry);
    if (!module->build_log) return 0;
    // Marked as used now, as the binary is: the cache drops them together.
    utimensat(AT_FDCWD, entry->log_path, NULL, AT_SYMLINK_NOFOLLOW);
    if (backend->spills)
        module->spilled_bytes = backend->spills(module->spilling, sizeof module->spilling, &module->registers,
                                                source, module->build_log);
    return 1;
}

// Whether the cache still knows how much a binary spills: where the log says it, the log must be there too.
static int is_usable(km_module *module, const km_cache_entry *entry, const km_source *source) {
    const km_device *device = module->device;
    return read_build_log(module, entry, source) || !device->backend->spills || !device->facts.has_compiler;
}

static km_status load_kernels(km_module *module, const char *binary, int64_t size, km_module_mode mode,
                              km_error *err) {
    if (mode == KM_MODULE_COMPILE || (module->spilled_bytes && mode == KM_MODULE_TRY)) return KM_OK;
    return module->device->backend->kernels_load(&module->kernels, module->device, &module->plan, binary,
                                                 size, err);
}

// 1 when the cache had it. A binary that is damaged, or that the device refuses, counts as missing.
static int load_cached(km_module *module, const km_cache_entry *entry, const km_source *source,
                       km_module_mode mode, const km_log *log) {
    char *binary;
    int64_t size;
    int found = km_cache_look_up(entry, &binary, &size);
    if (found < 0) km_log_line(log, KM_LOG_WARNING, "cache: %s is damaged, built again", entry->binary_path);
    module->was_cached = found > 0 && is_usable(module, entry, source) &&
                         load_kernels(module, binary, size, mode, NULL) == KM_OK;
    free(binary);
    return module->was_cached;
}

static km_status build_entry(km_module *module, const km_cache_entry *entry, const km_source *source,
                             km_module_mode mode, const km_log *log, km_error *err) {
    km_device *device = module->device;
    char *binary = NULL;
    int64_t size = 0;
    km_error unkept = {{0}};
    km_status status;
    KM_TRY_GOTO(compile_entry(&binary, &size, entry, source, device, err));
    read_build_log(module, entry, source);
    KM_TRY_GOTO(load_kernels(module, binary, size, mode, err));
    if (!entry->cache->is_private && km_cache_publish(entry, binary, size, &unkept) != KM_OK)
        km_log_line(log, KM_LOG_WARNING, "this module is not cached: %s", unkept.text);
done:
    free(binary);
    return status;
}

// Takes the module from this folder's cache, or compiles it there, one process at a time.
static km_status build_in(km_module *module, const km_cache *cache, const km_source *source,
                          km_module_mode mode, const km_module_params *params, km_error *err) {
    double begin_ms = km_now_ms();
    const char *suffix = strrchr(source->file_name, '.');
    char *key = NULL;
    int64_t key_size;
    km_cache_entry entry;
    km_status status = KM_OK;
    KM_TRY(key_text(&key, &key_size, source, module->device, err));
    km_cache_entry_of(&entry, cache, suffix ? suffix : ".c", key, key_size);
    free(key);
    if (mode == KM_MODULE_RECALL) {
        read_build_log(module, &entry, source);
        return KM_OK;
    }
    if (cache->is_private) {
        KM_TRY(build_entry(module, &entry, source, mode, params->log, err));
    } else if (!load_cached(module, &entry, source, mode, NULL)) {
        km_cache_lock(&entry);
        if (!load_cached(module, &entry, source, mode, params->log)) {
            status = build_entry(module, &entry, source, mode, params->log, err);
            km_cache_tidy(cache, params->cache_bytes_max, &entry);
        }
        km_cache_unlock(&entry);
        KM_TRY(status);
    }
    km_log_line(params->log, KM_LOG_INFO, "module: %s %s %s d%lld in %.0f ms, cache %s",
                module->was_cached ? "loaded" : "built", km_design_name(module->plan.design),
                km_type_name(module->plan.spec.type), (long long)module->plan.spec.features,
                km_now_ms() - begin_ms, module->was_cached ? "hit" : "miss");
    return KM_OK;
}

static km_status build_private(km_module *module, const km_source *source, km_module_mode mode,
                               const km_module_params *params, km_error *err) {
    km_cache cache;
    km_error first = {{0}};
    KM_TRY(km_cache_open_private(&cache, err));
    km_status status = build_in(module, &cache, source, mode, params, &first);
    km_cache_close(&cache);
    if (status == KM_ERROR_IO) status = KM_ERROR_COMPILE; // no folder to compile in is as no compiler
    return status == KM_OK ? KM_OK : km_fail(err, status, "%s", first.text);
}

// A cache that is not the user's own, or whose disk is full or fails, is left aside: the module is compiled in a
// private folder.
static km_status build_compiled(km_module *module, const km_source *source, km_module_mode mode,
                                const km_module_params *params, km_error *err) {
    km_cache cache;
    km_error first = {{0}};
    if (mode == KM_MODULE_RECALL && (!params->cache_dir || access(params->cache_dir, R_OK) != 0))
        return KM_OK;
    if (!params->cache_dir) return build_private(module, source, mode, params, err);
    int is_open = km_cache_open(&cache, params->cache_dir, &first) == KM_OK;
    km_status status = is_open ? build_in(module, &cache, source, mode, params, &first) : KM_ERROR_IO;
    if (status == KM_OK) return KM_OK;
    if (status != KM_ERROR_IO) return km_fail(err, status, "%s", first.text);
    if (mode == KM_MODULE_RECALL) return KM_OK;
    km_log_line(params->log, KM_LOG_WARNING, "nothing is cached: %s", first.text);
    return build_private(module, source, mode, params, err);
}

km_status km_module_get(km_module **out, const km_source *source, km_device *device, km_module_mode mode,
                        const km_module_params *params, km_error *err) {
    km_status status = KM_OK;
    *out = NULL;
    km_module *module = calloc(1, sizeof *module);
    if (!module) return km_fail_memory(err, "the module", sizeof *module);
    module->device = device;
    KM_TRY_GOTO(km_plan_copy(&module->plan, &source->plan, err));
    if (km_design_is_emitted(source->plan.design))
        status = build_compiled(module, source, mode, params, err);
    else if (mode != KM_MODULE_RECALL)
        status = device->backend->kernels_load(&module->kernels, device, &module->plan, NULL, 0, err);
done:
    if (status != KM_OK) km_module_destroy(&module);
    *out = module;
    return status;
}

km_status km_module_build_on(km_module **out, const km_source *source, km_device *device,
                             const km_module_params *params, km_error *err) {
    return km_module_get(out, source, device, KM_MODULE_LOAD, params, err);
}

km_status km_module_build(km_module **out, const km_source *source, const km_module_params *params,
                          km_error *err) {
    km_module_params defaults;
    km_module_params_init(&defaults);
    if (!params) params = &defaults;
    km_device *device;
    *out = NULL;
    KM_TRY(km_device_open(&device, params->device, params->compiler, params->log, err));
    km_status status = km_module_build_on(out, source, device, params, err);
    if (status == KM_OK)
        (*out)->owns_device = 1;
    else
        km_device_close(&device);
    return status;
}

void km_module_destroy(km_module **module) {
    km_module *gone = *module;
    if (!gone) return;
    if (gone->kernels) gone->device->backend->kernels_unload(&gone->kernels);
    if (gone->owns_device) km_device_close(&gone->device);
    km_plan_clear(&gone->plan);
    free(gone->build_log);
    free(gone);
    *module = NULL;
}

const km_plan *km_module_plan(const km_module *module) {
    return &module->plan;
}

const char *km_module_build_log(const km_module *module) {
    return module->build_log ? module->build_log : "";
}

int32_t km_module_was_cached(const km_module *module) {
    return module->was_cached;
}

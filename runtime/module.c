// SPDX-License-Identifier: MIT
#include "module_state.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/text.h"
#include "../gen/design.h"
#include "../gen/source.h"
#include "asking.h"
#include "cache.h"
#include "file.h"
#include "threads.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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

// All that a part's binary depends on, as text. Plans that make the same code, for other lists of K or numbers of
// points, share an entry; texts of one type and number of features share those of the steps.
static km_status key_text(char **out, int64_t *size, const km_source *source, const km_source_part *part,
                          km_device *device, km_error *err) {
    char compiler[1024], target[32];
    km_text text = {0};
    device->backend->compiler_id(compiler, sizeof compiler, device, &source->plan);
    km_target_text(target, sizeof target, source->plan.spec.target);
    km_text_printf(&text, "kmgen %s\n%s\n%s\n", KM_VERSION, target, compiler);
    km_text_add(&text, part->text, part->size);
    *size = text.size;
    return km_text_take(out, &text, err);
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
                              const km_source *source, km_device *device, km_asking *asking, km_error *err) {
    unlink(entry->log_path);
    KM_TRY(km_file_replace(entry->source_path, source->text, source->text_size, err));
    km_status status = device->backend->compile(device, source, entry->source_path, entry->compile_path,
                                                entry->log_path, asking, err);
    if (status == KM_OK) status = take_binary(binary, size, entry, err);
    unlink(entry->compile_path);
    if (status == KM_ERROR_INTERRUPTED) {
        unlink(entry->source_path);
        unlink(entry->log_path);
    }
    return status;
}

static km_status compile_entry(char **binary, int64_t *size, const km_cache_entry *entry,
                               const km_source *source, km_device *device, km_asking *asking, km_error *err) {
    km_error first = {{0}};
    km_status status = compile_once(binary, size, entry, source, device, asking, &first);
    // Another process cleared the cache while this one compiled: once more.
    if (status == KM_ERROR_COMPILE && access(entry->source_path, R_OK) != 0)
        return compile_once(binary, size, entry, source, device, asking, err);
    if (status == KM_OK) return KM_OK;
    // A compiler does not always say that its disk is full.
    if (status == KM_ERROR_COMPILE && !entry->cache->is_private) KM_TRY(km_cache_has_room(entry->cache, err));
    return km_fail(err, status, "%s", first.text);
}

enum { PARTS_MAX = KM_SOURCE_PARTS_MAX + 1 }; // of a text, and a starting pass
#define STARTER "starter"                     // its name

// What is compiled apart, on its way from text to binary. Each part has an entry of the cache.
typedef struct part {
    const km_source *source; // the part's text as a source of its own
    km_source own;           // shares all but the text with the whole
    km_cache_entry entry;
    char *binary, *log; // NULL: not there
    int64_t size;
    int was_cached, was_damaged;
    int is_first; // a fit begins with it
    int is_left;  // nobody waits for it now
    km_status status;
    km_error err, unkept; // unkept: why the cache does not have it
} part;

typedef struct build {
    km_module *module;
    const km_cache *cache;
    const km_source *source;
    km_built *built;
    km_source_part texts[PARTS_MAX];
    part parts[PARTS_MAX];
    int64_t count;
    int is_anew;              // binaries of the cache count as missing
    int has_starter;          // the last part is a starting pass
    int is_begun;             // what a fit does not begin with is left out
    part *missing[PARTS_MAX]; // those that the cache does not have
    atomic_llong next;        // of them: the first that nobody has begun
    km_awaited made;          // of them
    km_asking *asking;        // NULL: nobody asks
    km_asking asked;          // what it points to
} build;

static void part_clear(part *p) {
    free(p->binary);
    free(p->log);
    p->binary = p->log = NULL;
    p->was_cached = 0;
}

static void build_clear(build *b) {
    for (int64_t i = 0; i < b->count; i++) part_clear(&b->parts[i]);
    km_source_parts_clear(b->texts, b->count);
}

static km_status part_begin(part *p, const build *b, const km_source_part *text, km_error *err) {
    const km_source *source = b->source;
    const char *suffix = strrchr(source->file_name, '.');
    char *key = NULL;
    int64_t key_size;
    *p = (part){.own = *source, .source = &p->own};
    p->is_first = !strcmp(text->name, STARTER) || !strcmp(text->name, "load") || !strcmp(text->name, "seed");
    p->own.text = text->text;
    p->own.text_size = text->size;
    KM_TRY(key_text(&key, &key_size, source, text, b->module->device, err));
    km_cache_entry_of(&p->entry, b->cache, suffix ? suffix : ".c", key, key_size);
    free(key);
    return KM_OK;
}

// Adds the plan's starting pass, where it has one and there is a cache in which its own is compiled meanwhile.
static km_status add_starter(build *b, km_error *err) {
    km_source_part *text = &b->texts[b->count];
    if (b->cache->is_private) return KM_OK;
    *text = (km_source_part){.name = STARTER};
    KM_TRY(km_source_starter(&text->text, &text->size, &b->source->plan, NULL, err));
    if (!text->text) return KM_OK;
    b->has_starter = 1;
    return part_begin(&b->parts[b->count++], b, text, err);
}

static km_status build_begin(build *b, km_module *module, const km_cache *cache, const km_source *source,
                             const km_module_params *params, km_error *err) {
    *b = (build){.module = module,
                 .cache = cache,
                 .source = source,
                 .asked = {.stop = params->stop, .user = params->stop_user, .caller = pthread_self()}};
    b->asking = params->stop ? &b->asked : NULL;
    KM_TRY(km_source_parts(b->texts, &b->count, source->text, err));
    for (int64_t i = 0; i < b->count; i++) {
        KM_TRY(part_begin(&b->parts[i], b, &b->texts[i], err));
        // A text that is one part is compiled as it is, with its head.
        if (b->count == 1) b->parts[i].source = source;
    }
    return KM_OK;
}

// The compiler's log. 0: there is none.
static int read_log(part *p) {
    free(p->log);
    p->log = km_cache_log(&p->entry);
    // Marked as used now, as the binary is: the cache drops them together.
    if (p->log) utimensat(AT_FDCWD, p->entry.log_path, NULL, AT_SYMLINK_NOFOLLOW);
    return p->log != NULL;
}

// 1 when the cache had it whole, and still knows how much it spills where the log says that; or when it came with the
// library.
static int look_up(part *p, const build *b) {
    const km_device *device = b->module->device;
    const km_backend *backend = device->backend;
    int found = b->cache->is_private ? 0 : km_cache_look_up(&p->entry, &p->binary, &p->size);
    p->was_damaged = found < 0;
    p->was_cached = found > 0 && (read_log(p) || !backend->spills || !device->facts.has_compiler);
    if (!p->was_cached) part_clear(p);
    if (found == 0 && backend->prebuilt)
        p->was_cached =
            backend->prebuilt(&p->binary, &p->size, &p->log, device, p->own.text, p->own.text_size);
    if (!p->was_cached) part_clear(p);
    return p->was_cached;
}

static km_status compile_part(part *p, const build *b, km_error *err) {
    KM_TRY(compile_entry(&p->binary, &p->size, &p->entry, p->source, b->module->device, b->asking, err));
    read_log(p);
    if (!b->cache->is_private) km_cache_publish(&p->entry, p->binary, p->size, &p->unkept);
    return KM_OK;
}

// A part that the cache did not have: compiled there by one process at a time, or taken when another has done it.
static km_status make_part(part *p, const build *b) {
    km_status status = KM_OK;
    if (b->cache->is_private) return compile_part(p, b, &p->err);
    km_cache_lock(&p->entry, b->asking);
    status = km_asking_status(b->asking, &p->err);
    if (status == KM_OK && (b->is_anew || !look_up(p, b))) status = compile_part(p, b, &p->err);
    km_cache_unlock(&p->entry);
    return status;
}

// One part after another that nobody else has begun.
static void make_some(build *b, int64_t count) {
    for (int64_t i; (i = atomic_fetch_add(&b->next, 1)) < count;) {
        b->missing[i]->status = make_part(b->missing[i], b);
        km_awaited_add(&b->made);
    }
}

static int comes_before(const part *p, const part *other) {
    if (p->is_first != other->is_first) return p->is_first;
    return p->own.text_size > other->own.text_size;
}

// Adds a part to those that are missing. What a fit begins with is begun first; then the longest text, which takes a
// compiler longest: with fewer processors than parts it would be waited for last.
static void add_missing(build *b, int64_t count, part *p) {
    int64_t at = count;
    for (; at > 0 && comes_before(p, b->missing[at - 1]); at--) b->missing[at] = b->missing[at - 1];
    b->missing[at] = p;
}

// Where the whole pass is there, a starting pass is of no use. Else a fit that may begin waits for the parts only that
// it begins with; the others are built while it iterates.
static void leave_out(build *b, int may_begin) {
    int is_pass_there = 1;
    if (!b->has_starter) return;
    for (int64_t i = 0; i < b->count - 1; i++)
        if (km_source_is_pass(&b->texts[i])) is_pass_there &= b->parts[i].was_cached;
    if (is_pass_there) b->parts[b->count - 1].is_left = 1;
    b->is_begun = may_begin && !is_pass_there;
    for (int64_t i = 0; i < b->count && b->is_begun; i++) {
        part *p = &b->parts[i];
        int is_pass = !p->is_first && km_source_is_pass(&b->texts[i]);
        p->is_left = !p->is_first && (is_pass || !p->was_cached);
        if (!is_pass) continue;
        free(p->binary); // its own pass is taken as a whole or not at all, later
        p->binary = NULL;
    }
}

// What the cache has is there at once: no thread is started for it. Returns how many parts are missing.
static int64_t take_cached(build *b, int may_begin) {
    int64_t missing = 0;
    for (int64_t i = 0; i < b->count; i++) {
        part *p = &b->parts[i];
        part_clear(p);
        p->was_damaged = 0; // told once
        p->status = KM_OK;
        if (!p->is_left && !b->is_anew) look_up(p, b);
    }
    leave_out(b, may_begin);
    for (int64_t i = 0; i < b->count; i++)
        if (!b->parts[i].was_cached && !b->parts[i].is_left) add_missing(b, missing++, &b->parts[i]);
    return missing;
}

// Missing parts have a thread each: they take about as long as the longest. The thread that may ask the caller waits
// for them, or makes the only one.
static km_status get_parts(build *b, int may_begin, const km_log *log, km_error *err) {
    int64_t count = take_cached(b, may_begin);
    int threads = (int)count + (b->asking != NULL);
    atomic_store(&b->next, 0);
    km_awaited_init(&b->made);
#pragma omp parallel num_threads(threads) if (count > 1)
    {
        if (b->asking && omp_get_num_threads() > 1 && omp_get_thread_num() == 0)
            km_await(&b->made, count, b->asking);
        make_some(b, count);
    }
    km_awaited_clear(&b->made);
    // Whatever else became of a part: who said stop is not asked again.
    KM_TRY(km_asking_status(b->asking, err));
    for (int64_t i = 0; i < b->count; i++) {
        const part *p = &b->parts[i];
        if (p->was_damaged)
            km_log_line(log, KM_LOG_WARNING, "cache: %s is damaged, built again", p->entry.binary_path);
        if (p->unkept.text[0])
            km_log_line(log, KM_LOG_WARNING, "this module is not cached: %s", p->unkept.text);
        if (p->status != KM_OK) return km_fail(err, p->status, "%s", p->err.text);
    }
    return KM_OK;
}

// The logs of all parts, one behind the other, and what they say of spills of the pass.
static km_status take_logs(build *b, km_error *err) {
    km_module *module = b->module;
    const km_backend *backend = module->device->backend;
    km_text logs = {0};
    for (int64_t i = 0; i < b->count; i++)
        if (b->parts[i].log && !(b->has_starter && i == b->count - 1)) km_text_puts(&logs, b->parts[i].log);
    if (logs.size && !logs.failed && backend->spills)
        module->spilled_bytes = backend->spills(module->spilling, sizeof module->spilling, &module->registers,
                                                b->source, logs.data);
    free(module->build_log);
    module->build_log = NULL;
    if (logs.size || logs.failed) return km_text_take(&module->build_log, &logs, err);
    km_text_clear(&logs);
    return KM_OK;
}

static km_status load_kernels(build *b, km_module_mode mode, km_error *err) {
    km_module *module = b->module;
    km_binary binaries[PARTS_MAX];
    int tries = mode == KM_MODULE_TRY || mode == KM_MODULE_BEGIN;
    int64_t count = 0;
    if (mode == KM_MODULE_COMPILE || (module->spilled_bytes && tries)) return KM_OK;
    for (int64_t i = 0; i < b->count; i++)
        if (b->parts[i].binary) binaries[count++] = (km_binary){b->parts[i].binary, b->parts[i].size};
    const km_backend *backend = module->device->backend;
    if (b->is_begun)
        return backend->kernels_begin(&module->kernels, module->device, &module->plan, binaries, count, err);
    return backend->kernels_load(&module->kernels, module->device, &module->plan, binaries, count, err);
}

static int64_t cached_parts(const build *b) {
    int64_t cached = 0;
    for (int64_t i = 0; i < b->count; i++) cached += b->parts[i].was_cached;
    return cached;
}

static km_status get_and_load(build *b, km_module_mode mode, const km_log *log, km_error *err) {
    km_error first = {{0}};
    KM_TRY(get_parts(b, mode == KM_MODULE_BEGIN, log, err));
    KM_TRY(take_logs(b, err));
    km_status status = load_kernels(b, mode, &first);
    // What the device refuses counts as missing.
    if (status != KM_OK && cached_parts(b) > 0) {
        b->is_anew = 1;
        KM_TRY(get_parts(b, mode == KM_MODULE_BEGIN, log, err));
        KM_TRY(take_logs(b, err));
        return load_kernels(b, mode, err);
    }
    return status == KM_OK ? KM_OK : km_fail(err, status, "%s", first.text);
}

static int is_built(const km_built *built, const char *key) {
    for (int64_t i = 0; built && i < built->count; i++)
        if (!strcmp(built->keys[i], key)) return 1;
    return 0;
}

// Writes down which entries this fit has filled; a part that is in one of them was not cached.
static void note_built(build *b) {
    km_built *built = b->built;
    for (int64_t i = 0; built && i < b->count; i++) {
        part *p = &b->parts[i];
        if (is_built(built, p->entry.key))
            p->was_cached = 0;
        else if (!p->was_cached && built->count < (int64_t)(sizeof built->keys / sizeof *built->keys))
            snprintf(built->keys[built->count++], sizeof *built->keys, "%s", p->entry.key);
    }
}

static void log_build(const build *b, double took_ms, const km_log *log) {
    const km_plan *plan = &b->module->plan;
    char cached[64] = "";
    if (b->count > 1)
        snprintf(cached, sizeof cached, ", %lld of %lld parts were there", (long long)cached_parts(b),
                 (long long)b->count);
    km_log_line(log, KM_LOG_INFO, "module: %s %s %s d%lld in %.0f ms, cache %s%s",
                b->module->was_cached ? "loaded" : "built", km_design_name(plan->design),
                km_type_name(plan->spec.type), (long long)plan->spec.features, took_ms,
                b->module->was_cached ? "hit" : "miss", b->module->was_cached ? "" : cached);
}

// Takes the module from the folder of this cache, or compiles it there.
static km_status build_in(km_module *module, const km_cache *cache, const km_source *source,
                          km_module_mode mode, const km_module_params *params, km_built *built,
                          km_error *err) {
    double begin_ms = km_now_ms();
    build b;
    km_status status = KM_OK;
    KM_TRY_GOTO(build_begin(&b, module, cache, source, params, err));
    b.built = built;
    if (mode == KM_MODULE_BEGIN || mode == KM_MODULE_COMPILE) KM_TRY_GOTO(add_starter(&b, err));
    if (mode == KM_MODULE_RECALL) {
        for (int64_t i = 0; i < b.count; i++)
            if (km_source_is_pass(&b.texts[i])) read_log(&b.parts[i]);
        KM_TRY_GOTO(take_logs(&b, err));
        goto done;
    }
    KM_TRY_GOTO(get_and_load(&b, mode, params->log, err));
    note_built(&b);
    int64_t left = 0;
    for (int64_t i = 0; i < b.count; i++) left += b.parts[i].is_left;
    module->was_cached = !b.is_begun && cached_parts(&b) == b.count - left;
    module->is_begun = b.is_begun;
    for (int64_t i = 0; i < b.count - b.has_starter; i++) module->is_loaded[i] = b.parts[i].binary != NULL;
    if (!module->was_cached && !cache->is_private)
        km_cache_tidy(cache, params->cache_bytes_max, &b.parts[0].entry);
    log_build(&b, km_now_ms() - begin_ms, params->log);
done:
    build_clear(&b);
    return status;
}

km_status km_module_compile_parts(const km_source *source, km_device *device, const km_cache *cache,
                                  const km_module_params *params, km_error *err) {
    km_module module = {.device = device};
    build b;
    km_status status = KM_OK;
    KM_TRY_GOTO(build_begin(&b, &module, cache, source, params, err));
    KM_TRY_GOTO(get_parts(&b, 0, params->log, err));
    if (cached_parts(&b) < b.count) km_cache_tidy(cache, params->cache_bytes_max, &b.parts[0].entry);
done:
    build_clear(&b);
    return status;
}

// What is left of a module that has begun. Its own pass is taken as a whole or not at all.
static km_status complete_in(km_module *module, const km_cache *cache, const km_source *source,
                             const km_module_params *params, km_built *built, km_error *err) {
    build b;
    km_error refusal = {{0}};
    int64_t count = 0;
    km_binary binaries[PARTS_MAX];
    km_status status = KM_OK;
    KM_TRY_GOTO(build_begin(&b, module, cache, source, params, err));
    b.built = built;
    for (int64_t i = 0; i < b.count; i++) b.parts[i].is_left = module->is_loaded[i];
    int takes_pass = 1;
    status = get_parts(&b, 0, params->log, &refusal);
    if (status == KM_OK) KM_TRY_GOTO(take_logs(&b, err));
    if (status == KM_ERROR_COMPILE || module->spilled_bytes) takes_pass = 0;
    if (status != KM_OK && status != KM_ERROR_COMPILE) {
        km_fail(err, status, "%s", refusal.text);
        goto done;
    }
    if (!takes_pass)
        km_log_line(params->log, KM_LOG_WARNING, "module: the fit stays with its starting pass: %s",
                    status == KM_OK ? "the plan's own spills registers" : refusal.text);
    for (int64_t i = 0; i < b.count; i++) {
        const part *p = &b.parts[i];
        int is_pass = km_source_is_pass(&b.texts[i]);
        if (module->is_loaded[i] || (is_pass && !takes_pass)) continue;
        if (p->status != KM_OK) {
            status = km_fail(err, p->status, "%s", p->err.text);
            goto done;
        }
        binaries[count++] = (km_binary){p->binary, p->size};
    }
    status = module->device->backend->kernels_complete(module->kernels, binaries, count, err);
    note_built(&b);
done:
    build_clear(&b);
    return status;
}

km_status km_module_complete(km_module *module, const km_source *source, const km_module_params *params,
                             km_built *built, km_error *err) {
    km_cache cache;
    if (!module->is_begun) return KM_OK;
    module->is_begun = 0;
    // Where the folder of the cache is not there any more, the parts are made in a private one.
    if (km_cache_open(&cache, params->cache_dir, NULL) == KM_OK)
        return complete_in(module, &cache, source, params, built, err);
    KM_TRY(km_cache_open_private(&cache, err));
    km_status status = complete_in(module, &cache, source, params, built, err);
    km_cache_close(&cache);
    return status;
}

static km_status build_private(km_module *module, const km_source *source, km_module_mode mode,
                               const km_module_params *params, km_built *built, km_error *err) {
    km_cache cache;
    km_error first = {{0}};
    KM_TRY(km_cache_open_private(&cache, err));
    km_status status = build_in(module, &cache, source, mode, params, built, &first);
    km_cache_close(&cache);
    if (status == KM_ERROR_IO) status = KM_ERROR_COMPILE; // no folder to compile in is as no compiler
    return status == KM_OK ? KM_OK : km_fail(err, status, "%s", first.text);
}

// A cache that is not the user's own, or whose disk is full or fails, is left aside: the module is compiled in a
// private folder.
static km_status build_compiled(km_module *module, const km_source *source, km_module_mode mode,
                                const km_module_params *params, km_built *built, km_error *err) {
    km_cache cache;
    km_error first = {{0}};
    if (mode == KM_MODULE_RECALL && (!params->cache_dir || access(params->cache_dir, R_OK) != 0))
        return KM_OK;
    if (!params->cache_dir) return build_private(module, source, mode, params, built, err);
    int is_open = km_cache_open(&cache, params->cache_dir, &first) == KM_OK;
    km_status status = is_open ? build_in(module, &cache, source, mode, params, built, &first) : KM_ERROR_IO;
    if (status == KM_OK) return KM_OK;
    if (status != KM_ERROR_IO) return km_fail(err, status, "%s", first.text);
    if (mode == KM_MODULE_RECALL) return KM_OK;
    km_log_line(params->log, KM_LOG_WARNING, "nothing is cached: %s", first.text);
    return build_private(module, source, mode, params, built, err);
}

km_status km_module_get(km_module **out, const km_source *source, km_device *device, km_module_mode mode,
                        const km_module_params *params, km_built *built, km_error *err) {
    km_status status = KM_OK;
    *out = NULL;
    km_module *module = calloc(1, sizeof *module);
    if (!module) return km_fail_memory(err, "the module", sizeof *module);
    module->device = device;
    KM_TRY_GOTO(km_plan_copy(&module->plan, &source->plan, err));
    if (km_design_is_emitted(source->plan.design))
        status = build_compiled(module, source, mode, params, built, err);
    else if (mode != KM_MODULE_RECALL)
        status = device->backend->kernels_load(&module->kernels, device, &module->plan, NULL, 0, err);
done:
    if (status != KM_OK) km_module_destroy(&module);
    *out = module;
    return status;
}

km_status km_module_build_on(km_module **out, const km_source *source, km_device *device,
                             const km_module_params *params, km_error *err) {
    return km_module_get(out, source, device, KM_MODULE_LOAD, params, NULL, err);
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

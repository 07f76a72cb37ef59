// SPDX-License-Identifier: MIT
#include "unfinished.h"
#include "../base/error.h"
#include "../base/log.h"
#include "backend.h"
#include "file.h"
#include "module_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What stands before the text in a file, which only a process of the same user has written. Another version's size or
// mark: the text is dropped.
typedef struct head {
    char mark[32];
    km_target target;
    int32_t ordinal, has_compiler;
    int64_t memo_size;
    char compiler[4096], memo[KM_MEMO_BYTES];
} head;

static const char head_mark[32] = "kmgen " KM_VERSION " unfinished";

km_status km_unfinished_note(const km_cache *cache, const km_source *source, const km_unfinished *device,
                             km_error *err) {
    km_cache_entry entry;
    int64_t size = (int64_t)sizeof(head) + source->text_size;
    const char *compiler = device->compiler ? device->compiler : "";
    head *note = calloc(1, (size_t)size);
    if (!note) return km_fail_memory(err, "a text for later", size);
    memcpy(note->mark, head_mark, sizeof note->mark);
    note->target = source->plan.spec.target;
    note->ordinal = device->ordinal;
    note->has_compiler = device->compiler != NULL;
    note->memo_size = device->memo_size;
    memcpy(note->memo, device->memo, (size_t)device->memo_size);
    snprintf(note->compiler, sizeof note->compiler, "%s", compiler);
    memcpy(note + 1, source->text, (size_t)source->text_size);
    km_cache_entry_of(&entry, cache, KM_CACHE_TODO, (const char *)note, size);
    km_status status = strlen(compiler) < sizeof note->compiler
                           ? km_file_replace(entry.source_path, note, size, err)
                           : km_fail(err, KM_ERROR_IO, "the compiler's path is too long");
    free(note);
    return status;
}

// Compiles the parts of one text that the cache does not have.
static km_status compile(const km_cache *cache, char *bytes, int64_t size, const km_module_params *params,
                         km_error *err) {
    const head *note = (const head *)(const void *)bytes;
    const km_backend *backend = &km_backend_cuda;
    km_device *device = NULL;
    if (size <= (int64_t)sizeof *note || memcmp(note->mark, head_mark, sizeof head_mark) != 0 ||
        note->memo_size < 0 || note->memo_size > KM_MEMO_BYTES)
        return km_fail(err, KM_ERROR_DATA, "a text was left by another version of kmgen");
    km_source source;
    km_source_init(&source);
    source.plan.spec.target = note->target;
    source.text = bytes + sizeof *note; // with a zero behind it
    source.text_size = size - (int64_t)sizeof *note;
    strcpy(source.file_name, "later.cu");
    KM_TRY(backend->compiler_recall(&device, note->ordinal, note->has_compiler ? note->compiler : NULL,
                                    note->memo, note->memo_size));
    km_status status = km_module_compile_parts(&source, device, cache, params, err);
    km_device_close(&device);
    return status;
}

// One text after another, the oldest first; a text that cannot be compiled is dropped, as the fit that needs it will
// say why. Texts that others add meanwhile are taken as well.
static km_status compile_all(int64_t *count, const km_cache *cache, const km_module_params *params,
                             km_error *err) {
    char path[KM_CACHE_PATH_MAX + 64], *bytes;
    int64_t size;
    while (km_cache_oldest_todo(path, sizeof path, cache)) {
        km_error why = {{0}};
        int found = km_cache_read_own(&bytes, &size, path);
        km_status status = found > 0 ? compile(cache, bytes, size, params, &why) : KM_OK;
        free(bytes);
        if (status == KM_ERROR_INTERRUPTED) return km_fail(err, status, "%s", why.text);
        if (unlink(path) != 0) return km_fail(err, KM_ERROR_IO, "cannot remove %s", path);
        if (status != KM_OK) km_log_line(params->log, KM_LOG_WARNING, "%s: %s", path, why.text);
        *count += found > 0 && status == KM_OK;
    }
    return KM_OK;
}

km_status km_cache_finish(int64_t *compiled, const km_module_params *params, km_error *err) {
    static const char key[] = "kmgen, texts that are compiled later";
    km_cache cache;
    km_cache_entry entry;
    km_status status = KM_OK;
    char path[KM_CACHE_PATH_MAX + 64];
    *compiled = 0;
    if (!params->cache_dir) return km_fail(err, KM_ERROR_USAGE, "there is no cache folder to compile into");
    KM_TRY(km_cache_open(&cache, params->cache_dir, err));
    km_cache_entry_of(&entry, &cache, KM_CACHE_TODO, key, (int64_t)sizeof key);
    // Who adds a text after the last look finds that the lock is free, or this process looks again.
    while (status == KM_OK && km_cache_oldest_todo(path, sizeof path, &cache)) {
        if (!km_cache_try_lock(&entry)) return KM_OK;
        status = compile_all(compiled, &cache, params, err);
        km_cache_unlock(&entry);
    }
    return status;
}

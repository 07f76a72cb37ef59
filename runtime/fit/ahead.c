// SPDX-License-Identifier: MIT
// What a fit on a GPU will build, compiled while the device is opened and points are sent; and behind the fit, where
// that ends before.
#include "../../base/log.h"
#include "../cache.h"
#include "../module_state.h"
#include "../unfinished.h"
#include "job.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Nothing of it is shared with the fit's own thread until that has joined, but for what neither changes: the points'
// description, and the caller's parameters.
struct km_fit_ahead {
    pthread_t thread;
    int is_running, ordinal;
    km_awaited end;             // of its thread
    atomic_int is_stopped;      // by the fit's thread
    atomic_int is_alone;        // it looks at nothing any more that is the fit's or the caller's
    km_fit_params params;       // the caller's without callbacks, which are for one thread
    char *cache_dir, *compiler; // of these, copies
    struct km_fit_ahead *next;  // of those that fits left behind
    char device[KM_MEMO_BYTES]; // what is to be recalled of the fit's device
    int64_t device_size;        // 0: there is none
    km_fit_job job;             // with a device of its own
    km_built built;
    km_cache cache; // if has_cache
    int has_cache;
    char *memo; // of the device, as the cache had it; NULL: it had none
    int64_t memo_size;
};

static int is_stopped(void *user) {
    return atomic_load(&((struct km_fit_ahead *)user)->is_stopped);
}

// For the device that is open, which may be one of km_compiler_open or compiler_recall.
static void compile(struct km_fit_ahead *a) {
    km_fit_job *job = &a->job;
    km_build_params params;
    km_build build;
    if (!job->device->facts.has_compiler) return;
    km_build_init(&build);
    km_fit_limit_memory(job->params, &job->device->facts);
    km_fit_read_table(job);
    km_fit_build_params(&params, job);
    params.built = &a->built;
    params.module.stop = is_stopped;
    params.module.stop_user = a;
    if (!a->params.tuning) atomic_store(&a->is_alone, 1);
    km_build_ahead(&build, job->device, &params, NULL);
    km_build_clear(&build);
}

// A driver takes 0.1 to 0.2 s to start, and then it says what a plan depends on. That is the same next time: it is kept
// in the cache, as an entry of its own, and the compiler starts with it at once. Was it another device, the fit builds
// what that needs itself.
static void memo_entry(km_cache_entry *entry, const km_cache *cache, int ordinal) {
    char key[64];
    int size = snprintf(key, sizeof key, "kmgen %s, facts of cuda:%d", KM_VERSION, ordinal);
    km_cache_entry_of(entry, cache, ".cu", key, size);
}

static void *compile_ahead(void *user) {
    struct km_fit_ahead *a = user;
    const km_backend *backend = &km_backend_cuda;
    km_device **device = &a->job.device;
    km_cache_entry entry;
    if (a->has_cache) {
        memo_entry(&entry, &a->cache, a->ordinal);
        km_cache_look_up(&entry, &a->memo, &a->memo_size);
    }
    int is_open = a->memo && backend->compiler_recall(device, a->ordinal, a->params.compiler, a->memo,
                                                      a->memo_size) == KM_OK;
    if (!is_open) is_open = km_compiler_open(device, a->ordinal, a->params.compiler, NULL, NULL) == KM_OK;
    if (is_open) compile(a);
    km_device_close(device);
    km_awaited_add(&a->end);
    return NULL;
}

void km_fit_note_device(km_fit_job *f) {
    struct km_fit_ahead *a = f->ahead;
    if (a && f->device && f->device->backend == &km_backend_cuda)
        a->device_size = f->device->backend->compiler_memo(a->device, f->device);
}

// Keeps what is to be recalled of the fit's device, unless that is what the cache has.
static void keep_memo(const struct km_fit_ahead *a) {
    km_cache_entry entry;
    int64_t size = a->device_size;
    if (!a->has_cache || !size) return;
    if (a->memo && size == a->memo_size && memcmp(a->device, a->memo, (size_t)size) == 0) return;
    memo_entry(&entry, &a->cache, a->ordinal);
    km_cache_publish(&entry, a->device, size, NULL);
}

// Without a cache there is no place for what is compiled; a given text is built as it is.
void km_fit_begin_ahead(km_fit_job *f, int ordinal) {
    const km_fit_params *p = f->params;
    if (f->ahead || !f->owner || ordinal == KM_HOST || !p->cache_dir || p->source_text) return;
    struct km_fit_ahead *a = calloc(1, sizeof *a);
    if (!a) return;
    a->ordinal = ordinal;
    a->params = *p;
    a->params.log = NULL;
    a->params.progress = NULL;
    a->params.cache_dir = a->cache_dir = strdup(p->cache_dir);
    a->params.compiler = a->compiler = p->compiler ? strdup(p->compiler) : NULL;
    a->job = (km_fit_job){.params = &a->params,
                          .data = f->data,
                          .restarts = f->restarts,
                          .nonzeros = f->nonzeros,
                          .begin_ms = f->begin_ms};
    a->has_cache = km_cache_open(&a->cache, p->cache_dir, NULL) == KM_OK;
    km_spec_init(&a->job.spec);
    km_awaited_init(&a->end);
    f->ahead = a;
    a->is_running = a->cache_dir && (a->compiler || !p->compiler) &&
                    km_spec_copy(&a->job.spec, &f->spec, NULL) == KM_OK &&
                    pthread_create(&a->thread, NULL, compile_ahead, a) == 0;
}

// KM_ERROR_INTERRUPTED: the caller stopped the fit.
static km_status join(km_fit_job *f, km_error *err) {
    struct km_fit_ahead *a = f->ahead;
    km_asking *asking = f->asked ? &f->asking : NULL;
    if (!a || !a->is_running) return KM_OK;
    km_await(&a->end, 1, asking);
    km_status status = km_asking_status(asking, err);
    if (status != KM_OK) atomic_store(&a->is_stopped, 1);
    pthread_join(a->thread, NULL);
    a->is_running = 0;
    if (status == KM_OK) keep_memo(a);
    return status;
}

km_status km_fit_end_ahead(km_fit_job *f, km_error *err) {
    return join(f, err);
}

static int has_ended(struct km_fit_ahead *a) {
    pthread_mutex_lock(&a->end.lock);
    int has = a->end.done > 0;
    pthread_mutex_unlock(&a->end.lock);
    return has;
}

int km_fit_is_ahead(km_fit_job *f) {
    struct km_fit_ahead *a = f->ahead;
    if (!a || !a->is_running) return 0;
    return !has_ended(a);
}

km_built *km_fit_built_ahead(const km_fit_job *f) {
    return f->ahead && !f->ahead->is_running ? &f->ahead->built : NULL;
}

static void ahead_free(struct km_fit_ahead *a) {
    km_awaited_clear(&a->end);
    km_text_free(a->job.table);
    km_spec_clear(&a->job.spec);
    free(a->cache_dir);
    free(a->compiler);
    free(a->memo);
    free(a);
}

// Those that fits left behind ----------------------------------------------------------------------------------

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct km_fit_ahead *left;
static pid_t left_by; // a child of that process has none of its threads

// Joins those that have ended, or all.
static void join_left(int waits) {
    pthread_mutex_lock(&left_lock);
    if (left_by != getpid()) left = NULL;
    for (struct km_fit_ahead **at = &left; *at;) {
        struct km_fit_ahead *a = *at;
        if (!waits && !has_ended(a)) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        pthread_join(a->thread, NULL);
        ahead_free(a);
    }
    left_by = getpid();
    pthread_mutex_unlock(&left_lock);
}

// When the process ends, or lets go of the library: before the compiler's own end, which was loaded earlier.
static void join_all(void) {
    join_left(1);
}

static void register_end(void) {
    atexit(join_all);
}

static void leave(struct km_fit_ahead *a) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_end);
    join_left(0);
    pthread_mutex_lock(&left_lock);
    a->next = left;
    left = a;
    pthread_mutex_unlock(&left_lock);
}

void km_fit_stop_ahead(km_fit_job *f) {
    if (f->ahead) atomic_store(&f->ahead->is_stopped, 1);
}

// Keeps the text of the fit's own plan for km_cache_finish, and lets no part of it begin any more.
static void leave_text(const km_fit_job *f) {
    struct km_fit_ahead *a = f->ahead;
    const km_unfinished device = {a->ordinal, a->compiler, a->device, a->device_size};
    km_error err = {{0}};
    if (!a->device_size || !f->build.source.text || !a->has_cache) return;
    if (km_unfinished_note(&a->cache, &f->build.source, &device, &err) == KM_OK)
        atomic_store(&a->is_stopped, 1);
    else
        km_log_line(f->params->log, KM_LOG_WARNING, "nothing is compiled later: %s", err.text);
}

void km_fit_free_ahead(km_fit_job *f) {
    struct km_fit_ahead *a = f->ahead;
    if (!a) return;
    if (km_fit_is_ahead(f) && atomic_load(&a->is_alone) && !atomic_load(&a->is_stopped)) {
        keep_memo(a); // it has read what the cache had
        if (f->params->leaves_compile) leave_text(f);
        km_log_line(f->params->log, KM_LOG_INFO, "module: the plan's own pass is still being compiled: %s",
                    atomic_load(&a->is_stopped) ? "it is left for later"
                                                : "the process ends when it is in the cache");
        leave(a);
    } else {
        join(f, NULL);
        ahead_free(a);
    }
    f->ahead = NULL;
}

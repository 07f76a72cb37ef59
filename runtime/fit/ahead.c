// SPDX-License-Identifier: MIT
// What a fit on a GPU will build, compiled while the device is opened and points are sent.
#include "../module_state.h"
#include "job.h"

#include <pthread.h>
#include <stdlib.h>

// Nothing of it is shared with the fit's own thread until that has joined, but for what neither changes: the points'
// description, and the caller's parameters.
struct km_fit_ahead {
    pthread_t thread;
    int is_running, ordinal;
    km_awaited end;        // of its thread
    atomic_int is_stopped; // by the fit's thread
    km_fit_params params;  // the caller's without callbacks, which are for one thread
    km_fit_job job;        // with a device of its own
    km_built built;
};

static int is_stopped(void *user) {
    return atomic_load(&((struct km_fit_ahead *)user)->is_stopped);
}

static void *compile_ahead(void *user) {
    struct km_fit_ahead *a = user;
    km_fit_job *job = &a->job;
    km_build_params params;
    km_build build;
    km_build_init(&build);
    km_status status = km_compiler_open(&job->device, a->ordinal, a->params.compiler, NULL, NULL);
    if (status == KM_OK && job->device->facts.has_compiler) {
        km_fit_read_table(job);
        km_fit_build_params(&params, job);
        params.built = &a->built;
        params.module.stop = is_stopped;
        params.module.stop_user = a;
        km_build_ahead(&build, job->device, &params, NULL);
    }
    km_build_clear(&build);
    km_device_close(&job->device);
    km_awaited_add(&a->end);
    return NULL;
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
    a->job = (km_fit_job){.params = &a->params,
                          .data = f->data,
                          .restarts = f->restarts,
                          .nonzeros = f->nonzeros,
                          .begin_ms = f->begin_ms};
    km_spec_init(&a->job.spec);
    km_awaited_init(&a->end);
    f->ahead = a;
    a->is_running = km_spec_copy(&a->job.spec, &f->spec, NULL) == KM_OK &&
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
    return status;
}

km_status km_fit_end_ahead(km_fit_job *f) {
    return join(f, f->err);
}

km_built *km_fit_built_ahead(const km_fit_job *f) {
    return f->ahead && !f->ahead->is_running ? &f->ahead->built : NULL;
}

void km_fit_free_ahead(km_fit_job *f) {
    if (!f->ahead) return;
    join(f, NULL);
    km_awaited_clear(&f->ahead->end);
    km_text_free(f->ahead->job.table);
    km_spec_clear(&f->ahead->job.spec);
    free(f->ahead);
    f->ahead = NULL;
}

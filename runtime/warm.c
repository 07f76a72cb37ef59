// SPDX-License-Identifier: MIT
// Modules of specs, compiled into the cache before any fit asks for them.
#include "../base/clock.h"
#include "../base/error.h"
#include "build.h"
#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

// What the threads share: each takes spec after spec that nobody has begun.
typedef struct warming {
    const km_spec *specs;
    km_warmed *done;
    int64_t count;
    const km_warm_params *params;
    atomic_llong next;
} warming;

// The same plan as a fit's: that depends on the device, its tuning table, and what is known of the points.
static km_status build_one(km_warmed *done, const km_spec *spec, km_device *device,
                           const km_warm_params *params, km_error *err) {
    km_status status = KM_OK;
    km_build build;
    char *table = NULL, path[4200];
    km_build_params own = {.spec = spec, .module = params->module};
    km_build_init(&build);
    km_plan_params_init(&own.plan);
    own.plan.points = params->points;
    own.plan.weighted = params->weighted;
    own.plan.threads = km_threads(0, 0, NULL);
    if (params->tuning_dir)
        KM_TRY_GOTO(km_tuning_read(&table, path, sizeof path, params->tuning_dir, device->facts.name,
                                   spec->target.arch ? spec->target : device->facts.target, err));
    own.plan.tuning = table;
    own.plan.tuning_name = table ? path : NULL;
    own.plan.tuning_found = table != NULL;
    KM_TRY_GOTO(km_build_ahead(&build, device, &own, err));
    done->design = build.plan.design;
    done->was_cached = km_module_was_cached(build.module);
done:
    km_build_clear(&build);
    km_text_free(table);
    return status;
}

static void warm_one(km_warmed *done, const km_spec *spec, const km_warm_params *params) {
    double begin_ms = km_now_ms();
    km_device *device = NULL;
    *done = (km_warmed){.status = KM_OK};
    done->status = km_compiler_open(&device, km_device_wanted(spec->target.kind, params->module.device),
                                    params->module.compiler, NULL, &done->err);
    if (done->status == KM_OK) done->status = build_one(done, spec, device, params, &done->err);
    km_device_close(&device);
    done->ms = km_now_ms() - begin_ms;
}

static void *warm_some(void *user) {
    warming *w = user;
    for (int64_t i; (i = atomic_fetch_add(&w->next, 1)) < w->count;)
        warm_one(&w->done[i], &w->specs[i], w->params);
    return NULL;
}

void km_warm_params_init(km_warm_params *params) {
    *params = (km_warm_params){.points = 0};
    km_module_params_init(&params->module);
    params->module.device = KM_DEVICE_AUTO;
}

// A thread compiles the parts of a text on threads of their own (module.c), which a team of OpenMP would not get here.
km_status km_cache_warm(km_warmed *done, const km_spec *specs, int64_t count, const km_warm_params *params,
                        km_error *err) {
    enum { THREADS_MAX = 8 };
    pthread_t threads[THREADS_MAX];
    int64_t started = 0, wanted = count < THREADS_MAX ? count : THREADS_MAX;
    warming w = {.specs = specs, .done = done, .count = count, .params = params};
    if (!params->module.cache_dir)
        return km_fail(err, KM_ERROR_USAGE, "there is no cache folder to compile into");
    KM_TRY(km_cache_check(params->module.cache_dir, err));
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, warm_some, &w) == 0) started++;
    warm_some(&w);
    for (int64_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (int64_t i = 0; i < count; i++)
        if (done[i].status != KM_OK) return km_fail(err, done[i].status, "%s", done[i].err.text);
    return KM_OK;
}

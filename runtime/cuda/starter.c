// SPDX-License-Identifier: MIT
// The starting pass (templates/cuda/starter): what a fit iterates with while its plan's own kernels are being compiled.
// Totals have the same bits, so it goes over between any two passes.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

int km_cuda_starts(const km_cuda_engine *engine) {
    return engine->kernels->starter && engine->kernels->facts.launches_count == 0;
}

// Where the list of K lies in the workspace, behind the sums.
static int64_t list_at(const km_cuda_engine *engine) {
    int64_t d = engine->base.d;
    return KM_STARTER_SUMS_AT(d) + engine->restarts * engine->clusters_sum * (d + 1) * 8;
}

// The list goes to the device, and its address to the kernels.
static km_status put_list(km_cuda_engine *engine, km_error *err) {
    const km_spec *spec = &engine->base.plan->spec;
    int64_t ks = spec->clusters_count, bytes = 2 * ks * (int64_t)sizeof(int);
    km_cu_ptr at = engine->starter.address + (km_cu_ptr)list_at(engine);
    int *numbers = malloc((size_t)bytes);
    if (!numbers) return km_fail_memory(err, "the list of K", bytes);
    for (int64_t i = 0; i < ks; i++) {
        numbers[i] = spec->clusters[i];
        numbers[ks + i] = (int)engine->offsets[i];
    }
    km_status status = km_cuda_put(engine, at, numbers, bytes, err);
    free(numbers);
    const km_starter_list list = {(const int *)(uintptr_t)at, (const int *)(uintptr_t)at + ks, (int)ks,
                                  (int)engine->clusters_sum};
    if (status == KM_OK) status = km_cuda_put(engine, engine->kernels->starter_list, &list, sizeof list, err);
    return status;
}

static km_status launch(km_cuda_engine *engine, km_cu_function function, int64_t grid_x, int64_t grid_y,
                        int64_t block, int64_t shared_bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    km_pass_args args = km_cuda_pass_args(engine, 0);
    args.workspace = (void *)(uintptr_t)engine->starter.address;
    void *arguments[] = {&args};
    KM_CU(cuLaunchKernel(function, (unsigned)grid_x, (unsigned)grid_y, 1, (unsigned)block, 1, 1,
                         (unsigned)shared_bytes, engine->stream, arguments, NULL));
done:
    return status;
}

km_status km_cuda_starter_prepare(km_cuda_engine *engine, km_error *err) {
    enum { LOAD_BLOCKS = 8, LOAD_THREADS = 256 };
    const km_cuda_kernels *kernels = engine->kernels;
    int64_t bytes = list_at(engine) + 2 * engine->base.plan->spec.clusters_count * (int64_t)sizeof(int);
    KM_TRY(km_cuda_reserve(engine, &engine->starter, bytes, "the starting pass", err));
    KM_TRY(km_cuda_clear(engine, engine->starter.address, 0, bytes, err));
    KM_TRY(put_list(engine, err));
    KM_TRY(launch(engine, kernels->starter_histogram, LOAD_BLOCKS * engine->device->base.facts.units, 1,
                  LOAD_THREADS, 0, err));
    KM_TRY(launch(engine, kernels->starter_lattice, 1, 1, LOAD_THREADS, 0, err));
    KM_TRY(km_cuda_wait(engine, err));
    engine->prepared = 1;
    return KM_OK;
}

km_status km_cuda_starter_pass(km_cuda_engine *engine, km_error *err) {
    enum { BLOCKS_MAX = 8 };
    const km_cuda_kernels *kernels = engine->kernels;
    const km_device_facts *facts = &engine->device->base.facts;
    int64_t ks = engine->base.plan->spec.clusters_count;
    int64_t shared = KM_STARTER_BYTES(engine->base.d, ks, engine->clusters_sum);
    int64_t blocks = km_max(1, km_min(BLOCKS_MAX, facts->shared_bytes_per_unit / (shared + 1024)));
    int64_t rounds = km_divide_up(engine->base.n, KM_STARTER_THREADS);
    KM_TRY(launch(engine, kernels->starter_pass, km_min(rounds, blocks * facts->units), engine->restarts,
                  KM_STARTER_THREADS, shared, err));
    KM_TRY(launch(engine, kernels->starter_totals, ks, engine->restarts, KM_STARTER_THREADS, 0, err));
    KM_TRY(km_cuda_launch_update(engine, err));
    engine->starter_passes++;
    return KM_OK;
}

static void log_passes(const km_cuda_engine *engine) {
    km_log_line(engine->log, KM_LOG_INFO, "pass: %lld by the starting pass%s",
                (long long)engine->starter_passes,
                km_cuda_starts(engine) ? "" : ", the others by the plan's own");
}

void km_cuda_starter_end(const km_cuda_engine *engine) {
    // A fit that has gone over, or tried to, has said so.
    if (engine->starter_passes > 0 && engine->base.kernels->whole) log_passes(engine);
}

static km_status complete(km_cuda_engine *engine, km_error *err) {
    km_completion *whole = engine->base.kernels->whole;
    if (!whole) return KM_OK;
    KM_TRY(whole->complete(whole->user, err));
    log_passes(engine);
    if (km_cuda_starts(engine)) return KM_OK; // the plan's own pass cannot be used
    engine->prepared = 0;
    return km_cuda_reserve_workspace(engine, err);
}

km_status km_cuda_need(km_cuda_engine *engine, int is_there, km_error *err) {
    return is_there ? KM_OK : complete(engine, err);
}

km_status km_cuda_go_over(km_cuda_engine *engine, km_error *err) {
    const km_completion *whole = engine->base.kernels->whole;
    if (!whole || !whole->is_ready(whole->user, engine->starter_passes)) return KM_OK;
    KM_TRY(complete(engine, err));
    if (km_cuda_starts(engine)) return KM_OK;
    KM_TRY(km_cuda_prepare(engine, err));
    return km_cuda_launch_stage(engine, KM_STAGE_BEGIN, err);
}

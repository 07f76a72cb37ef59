// SPDX-License-Identifier: MIT
// Passes over points that do not all fit the device: they come in windows. Those that lie on the host are copied to a
// ring of three, on a stream of their own, while passes read the ones before them; each is copied once a pass, whatever
// is asked of it: all launches, K and restarts. The windows that lie on the device are taken in between, so that the
// copies never wait. The first copies for the next pass begin while the host waits for this one.
//
// Sums of windows are added as the integers that they are, so totals have the bits of a pass over all points at once.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../seed.h"
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

enum { SLOTS = KM_WINDOW_SLOTS };

struct km_cuda_windows {
    int64_t points;            // of a window, but for the last
    int64_t near, far;         // windows on the device, then on the host
    int64_t sent, taken;       // copies that were queued so far, and those of them that were passed
    km_cuda_memory ring, sums; // sums: of the windows so far in this pass
    km_cu_stream stream;       // of the copies
    km_cu_event here[SLOTS], free[SLOTS];
};

static int64_t row_bytes(const km_cuda_engine *engine) {
    return engine->base.d * engine->real_bytes;
}

static km_cuda_window window_at(const km_cuda_engine *engine, int64_t index) {
    int64_t points = engine->windows->points, first = index * points;
    return (km_cuda_window){.points = engine->points.address + (km_cu_ptr)(first * row_bytes(engine)),
                            .first = first,
                            .count = km_min(points, engine->base.n - first)};
}

static km_cu_ptr slot_at(const km_cuda_engine *engine, int64_t slot) {
    const km_cuda_windows *windows = engine->windows;
    return windows->ring.address + (km_cu_ptr)(slot * windows->points * row_bytes(engine));
}

// Queues copies until the ring is full.
static km_status send(km_cuda_engine *engine, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    km_cuda_windows *windows = engine->windows;
    for (; windows->sent < windows->taken + SLOTS; windows->sent++) {
        int64_t slot = windows->sent % SLOTS;
        km_cuda_window from = window_at(engine, windows->near + windows->sent % windows->far);
        if (windows->sent >= SLOTS) KM_CU(cuStreamWaitEvent(windows->stream, windows->free[slot], 0));
        KM_CU(cuMemcpyDtoDAsync(slot_at(engine, slot), from.points, (size_t)(from.count * row_bytes(engine)),
                                windows->stream));
        KM_CU(cuEventRecord(windows->here[slot], windows->stream));
    }
done:
    return status;
}

km_status km_cuda_window_begin(km_cuda_engine *engine, int64_t index, km_cuda_window *own, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    km_cuda_windows *windows = engine->windows;
    int64_t slot = windows->taken % SLOTS;
    *own = window_at(engine, index);
    if (index < windows->near) return KM_OK;
    if (index != windows->near + windows->taken % windows->far)
        return km_fail(err, KM_ERROR_INTERNAL, "window %lld is not the next one", (long long)index);
    own->points = slot_at(engine, slot);
    KM_TRY_GOTO(send(engine, err));
    KM_CU(cuStreamWaitEvent(engine->stream, windows->here[slot], 0));
done:
    return status;
}

km_status km_cuda_window_end(km_cuda_engine *engine, int64_t index, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    km_cuda_windows *windows = engine->windows;
    if (index < windows->near) return KM_OK;
    KM_CU(cuEventRecord(windows->free[windows->taken % SLOTS], engine->stream));
    windows->taken++;
done:
    return status;
}

int64_t km_cuda_windows_of_chunks(const km_cuda_engine *engine) {
    const km_cuda_windows *windows = engine->windows;
    return windows && windows->points % KM_CHUNK_POINTS == 0 ? windows->near + windows->far : 0;
}

// What is done with a window: these launches of the module.
typedef struct work {
    int first, end;
    int tiles;     // in passes: the launch that makes the window's tiles, before them; -1: none
    int64_t taken; // windows so far
} work;

static km_status launch_one(km_cuda_engine *engine, const km_cuda_window *own, int i, km_error *err) {
    km_pass_args args = km_cuda_pass_args(engine, engine->kernels->launches[i].part);
    args.points = (const void *)(uintptr_t)own->points;
    args.n = own->count;
    if (args.labels) args.labels = (char *)args.labels + own->first * km_cuda_label_bytes(engine);
    return km_cuda_launch_of_pass(engine, i, &args, err);
}

// The sums of each block (templates/cuda/tensor/tensor.cu: the workspace begins with them).
static int64_t sums_count(const km_cuda_engine *engine) {
    return engine->restarts * engine->clusters_sum * (engine->base.d + 1) *
           km_plan_get(engine->base.plan, "grid");
}

// Adds the sums of the last window to those before; behind the last one all are in their place.
static km_status add_sums(km_cuda_engine *engine, const work *w, km_error *err) {
    km_cuda_windows *windows = engine->windows;
    long long count = sums_count(engine);
    int is_first = w->taken == 1, is_last = w->taken == windows->near + windows->far;
    void *arguments[] = {&windows->sums.address, &engine->workspace.address, &count, &is_first, &is_last};
    return km_cuda_launch(engine, engine->kernels->window_sums, km_divide_up(count, KM_THREADS), 1, arguments,
                          err);
}

static km_status launch_all(km_cuda_engine *engine, work *w, const km_cuda_window *own, km_error *err) {
    if (w->tiles >= 0) KM_TRY(launch_one(engine, own, w->tiles, err));
    for (int i = w->first; i < w->end; i++) KM_TRY(launch_one(engine, own, i, err));
    w->taken++;
    return w->tiles >= 0 ? add_sums(engine, w, err) : KM_OK;
}

// The launch that makes tiles of points, which the pass reads.
static int find_tiles(const km_cuda_kernels *kernels) {
    int i = 0;
    while (strcmp(kernels->launches[i].kernel, "km_tensor_tiles") != 0) i++;
    return i;
}

km_status km_cuda_launch_windows(km_cuda_engine *engine, int first, int end, int stage, km_error *err) {
    const km_cuda_windows *windows = engine->windows;
    work w = {first, end, stage == KM_STAGE_PASS ? find_tiles(engine->kernels) : -1, 0};
    int64_t all = windows->near + windows->far, far = 0;
    for (int64_t i = 0; i < all; i++) { // those on the device are spread among the others
        km_cuda_window own;
        int64_t index = (i + 1) * windows->far / all > far ? windows->near + far++ : i - far;
        KM_TRY(km_cuda_window_begin(engine, index, &own, err));
        KM_TRY(launch_all(engine, &w, &own, err));
        KM_TRY(km_cuda_window_end(engine, index, err));
    }
    return windows->far > 0 ? send(engine, err) : KM_OK;
}

km_status km_cuda_windows_open(km_cuda_engine *engine, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    int64_t points = engine->base.plan->window_points, n = engine->base.n;
    if (points == 0 || engine->windows) return KM_OK;
    km_cuda_windows *windows = engine->windows = calloc(1, sizeof *windows);
    if (!windows) return km_fail_memory(err, "the windows of a pass", sizeof *windows);
    windows->points = points;
    int64_t all = km_divide_up(n, points), near_bytes = engine->points.near_bytes;
    windows->near = near_bytes >= n * row_bytes(engine) ? all : near_bytes / (points * row_bytes(engine));
    windows->far = all - windows->near;
    KM_TRY(km_cuda_reserve(engine, &windows->ring, SLOTS * points * row_bytes(engine), "windows of points",
                           err));
    KM_TRY(km_cuda_reserve(engine, &windows->sums, sums_count(engine) * 8, "the sums of windows", err));
    KM_CU(cuStreamCreate(&windows->stream, KM_CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < SLOTS; i++) {
        KM_CU(cuEventCreate(&windows->here[i], KM_CU_EVENT_NO_TIMING));
        KM_CU(cuEventCreate(&windows->free[i], KM_CU_EVENT_NO_TIMING));
    }
done:
    return status;
}

// The engine's stream has ended.
void km_cuda_windows_close(km_cuda_engine *engine) {
    const km_driver *driver = engine->driver;
    km_cuda_windows *windows = engine->windows;
    if (!windows) return;
    if (windows->stream) driver->cuStreamSynchronize(windows->stream);
    for (int i = 0; i < SLOTS; i++) {
        if (windows->here[i]) driver->cuEventDestroy(windows->here[i]);
        if (windows->free[i]) driver->cuEventDestroy(windows->free[i]);
    }
    if (windows->stream) driver->cuStreamDestroy(windows->stream);
    km_cuda_release(engine, &windows->ring);
    km_cuda_release(engine, &windows->sums);
    free(windows);
    engine->windows = NULL;
}

// SPDX-License-Identifier: MIT
// What reading device memory once takes: the floor of every pass. The kernel is read.cu, compiled in a folder of its
// own.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/template.h"
#include "../cache.h"
#include "../file.h"
#include "cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 512, BLOCKS_PER_SM = 4 };

extern const km_embedded km_embedded_kernels[];

static km_status compile(char **binary, const km_cuda_device *device, km_error *err) {
    km_cache cache;
    char source_path[KM_CACHE_PATH_MAX + 16], binary_path[KM_CACHE_PATH_MAX + 16];
    int64_t size;
    if (!device->nvrtc.library) return km_fail(err, KM_ERROR_DEVICE, "%s", device->nvrtc_missing);
    KM_TRY(km_cache_open_private(&cache, err));
    snprintf(source_path, sizeof source_path, "%s/read.cu", cache.path);
    snprintf(binary_path, sizeof binary_path, "%s/read.bin", cache.path);
    km_status status =
        km_file_replace(source_path, km_embedded_kernels[0].text, km_embedded_kernels[0].size, err);
    if (status == KM_OK)
        status = km_nvrtc_compile(&device->nvrtc, device->base.facts.target.arch, source_path, binary_path,
                                  NULL, NULL, err);
    if (status == KM_OK) status = km_file_read(binary, &size, binary_path, 0, err);
    unlink(source_path);
    unlink(binary_path);
    km_cache_close(&cache);
    return status;
}

typedef struct reading {
    km_cu_module module;
    km_cu_function function;
    km_cu_ptr words, out;
    km_cu_stream stream;
    km_cu_event events[2];
} reading;

static km_status read_times(reading *r, double *ms, const km_cuda_device *device, int64_t bytes, int times,
                            km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = device->driver;
    long long count = km_divide_up(bytes, 16);
    unsigned grid = (unsigned)(device->base.facts.units * BLOCKS_PER_SM);
    KM_CU(cuStreamCreate(&r->stream, KM_CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++) KM_CU(cuEventCreate(&r->events[i], 0));
    KM_CU(cuMemAlloc(&r->words, (size_t)count * 16));
    KM_CU(cuMemAlloc(&r->out, 16));
    KM_CU(cuMemsetD8Async(r->words, 1, (size_t)count * 16, r->stream));
    void *arguments[] = {&r->words, &count, &r->out};
    *ms = INFINITY;
    for (int i = 0; i < times; i++) {
        float one;
        KM_CU(cuEventRecord(r->events[0], r->stream));
        KM_CU(cuLaunchKernel(r->function, grid, 1, 1, BLOCK, 1, 1, 0, r->stream, arguments, NULL));
        KM_CU(cuEventRecord(r->events[1], r->stream));
        KM_CU(cuEventSynchronize(r->events[1]));
        KM_CU(cuEventElapsedTime(&one, r->events[0], r->events[1]));
        *ms = fmin(*ms, one);
    }
done:
    return status;
}

km_status km_cuda_read(km_device *base, double *ms, int64_t bytes, int64_t threads, int times,
                       km_error *err) {
    const km_cuda_device *device = (const km_cuda_device *)base;
    const km_driver *driver = device->driver;
    char *binary = NULL;
    reading r = {0};
    km_status status = KM_OK;
    (void)threads;
    KM_TRY(compile(&binary, device, err));
    status = km_cuda_enter(device, err);
    if (status != KM_OK) {
        free(binary);
        return status;
    }
    KM_CU(cuModuleLoadDataEx(&r.module, binary, 0, NULL, NULL));
    KM_CU(cuModuleGetFunction(&r.function, r.module, "km_read"));
    KM_TRY_GOTO(read_times(&r, ms, device, bytes, times, err));
done:
    for (int i = 0; i < 2; i++)
        if (r.events[i]) driver->cuEventDestroy(r.events[i]);
    if (r.words) driver->cuMemFree(r.words);
    if (r.out) driver->cuMemFree(r.out);
    if (r.stream) driver->cuStreamDestroy(r.stream);
    if (r.module) driver->cuModuleUnload(r.module);
    km_cuda_leave(device);
    free(binary);
    return status;
}

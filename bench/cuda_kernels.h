// SPDX-License-Identifier: MIT
// Kernels of a program's own, beside those of the module that it checks.
#ifndef KM_BENCH_CUDA_KERNELS_H
#define KM_BENCH_CUDA_KERNELS_H
#include "../runtime/cuda/cuda.h"
#include "../runtime/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Compiles a text for the device and loads it. *kernels is the caller's to unload.
static inline km_status bench_load_kernels(km_cu_module *kernels, km_device *base, const char *text,
                                           km_error *err) {
    const km_cuda_device *device = (const km_cuda_device *)base;
    km_status status = KM_OK;
    char folder[] = "/tmp/kmgen-bench.XXXXXX", text_path[64], cubin_path[64];
    char *cubin = NULL;
    int64_t size;
    if (!mkdtemp(folder)) return km_fail(err, KM_ERROR_IO, "no folder in /tmp");
    snprintf(text_path, sizeof text_path, "%s/kernels.cu", folder);
    snprintf(cubin_path, sizeof cubin_path, "%s/kernels.cubin", folder);
    KM_TRY_GOTO(km_file_write(text_path, text, (int64_t)strlen(text), err));
    KM_TRY_GOTO(km_cuda_compile(base, NULL, text_path, cubin_path, NULL, NULL, err));
    KM_TRY_GOTO(km_file_read(&cubin, &size, cubin_path, 0, err));
    KM_TRY_GOTO(km_cuda_enter(device, err));
    km_cu_result result = device->driver->cuModuleLoadDataEx(kernels, cubin, 0, NULL, NULL);
    if (result != 0) status = km_cuda_fail(err, device->driver, result, "loading the program's own kernels");
    km_cuda_leave(device);
done:
    remove(text_path);
    remove(cubin_path);
    rmdir(folder);
    free(cubin);
    return status;
}

// One of them, by its name.
static inline km_status bench_kernel(km_cu_function *kernel, km_cu_module kernels, const char *name,
                                     const km_cuda_device *device, km_error *err) {
    KM_TRY(km_cuda_enter(device, err));
    km_cu_result result = device->driver->cuModuleGetFunction(kernel, kernels, name);
    km_cuda_leave(device);
    return result == 0 ? KM_OK : km_cuda_fail(err, device->driver, result, name);
}

#endif

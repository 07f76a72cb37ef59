// SPDX-License-Identifier: MIT
// Which compiler a target would get, without a device.
#include "../base/error.h"
#include "cpu/cpu.h"
#include "cuda/driver.h"

#include <stdio.h>

static km_status query_cpu(char *text, int64_t size, const char *compiler, km_error *err) {
    km_device *device;
    KM_TRY(km_backend_cpu.device_open(&device, KM_HOST, compiler, NULL, err));
    int found = device->facts.has_compiler;
    if (found) snprintf(text, (size_t)size, "%s", ((const cpu_device *)device)->compiler.path);
    km_backend_cpu.device_close(&device);
    if (found) return KM_OK;
    return km_fail(err, KM_ERROR_COMPILE,
                   "no C compiler was found; the ready-made kernels are used, which are slower; "
                   "get one by: apt install gcc");
}

static km_status query_cuda(char *text, int64_t size, const char *compiler, km_error *err) {
    km_nvrtc nvrtc;
    KM_TRY(km_nvrtc_open(&nvrtc, compiler, 0, err));
    snprintf(text, (size_t)size, "NVRTC %d.%d (%s)", nvrtc.major, nvrtc.minor, nvrtc.path);
    km_nvrtc_close(&nvrtc);
    return KM_OK;
}

km_status km_compiler_query(char *text, int64_t size, km_target_kind kind, const char *compiler,
                            km_error *err) {
    if (size > 0) text[0] = 0;
    return kind == KM_TARGET_CUDA ? query_cuda(text, size, compiler, err)
                                  : query_cpu(text, size, compiler, err);
}

// SPDX-License-Identifier: MIT
// Says that there is no CUDA device, until the engine of this room joins the library.
#include "../../gen/status.h"
#include "../backend.h"

static int device_count(void) {
    return 0;
}

static km_status device_open(km_device **out, int ordinal, const char *compiler, const km_log *log, km_error *err) {
    (void)compiler, (void)log;
    *out = NULL;
    return km_fail(err, KM_ERROR_DEVICE, "CUDA device %d cannot be used: this build has no CUDA engine", ordinal);
}

const km_backend km_backend_cuda = {.name = "cuda", .device_count = device_count, .device_open = device_open};

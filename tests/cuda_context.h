// SPDX-License-Identifier: MIT
// A suite on a GPU keeps the device's context to its end: making one for each fit takes up to a second where several
// programs share the device, and a test of a hundred fits minutes.
#ifndef KM_TESTS_CUDA_CONTEXT_H
#define KM_TESTS_CUDA_CONTEXT_H
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

// False where the driver gives none.
static inline int keep_cuda_context(void) {
    void *context, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE);
    int (*start)(unsigned), (*retain)(void **, int); // cuInit, cuDevicePrimaryCtxRetain
    void *symbols[] = {library ? dlsym(library, "cuInit") : NULL,
                       library ? dlsym(library, "cuDevicePrimaryCtxRetain") : NULL};
    if (!symbols[0] || !symbols[1]) return 0;
    // POSIX gives function addresses as void *; copying bytes keeps the compilers content.
    memcpy(&start, &symbols[0], sizeof start);
    memcpy(&retain, &symbols[1], sizeof retain);
    return start(0) == 0 && retain(&context, 0) == 0;
}

// A copy on device 0, for km_data_from_device; NULL: it failed. Freed with the process.
static inline void *copy_to_device(const void *values, size_t bytes) {
    void *context = NULL, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE);
    uint64_t address = 0;
    int (*retain)(void **, int), (*enter)(void *), (*leave)(void **), (*take)(uint64_t *, size_t);
    int (*put)(uint64_t, const void *, size_t);
    void *symbols[] = {dlsym(library, "cuDevicePrimaryCtxRetain"), dlsym(library, "cuCtxPushCurrent_v2"),
                       dlsym(library, "cuCtxPopCurrent_v2"), dlsym(library, "cuMemAlloc_v2"),
                       dlsym(library, "cuMemcpyHtoD_v2")};
    memcpy(&retain, &symbols[0], sizeof retain);
    memcpy(&enter, &symbols[1], sizeof enter);
    memcpy(&leave, &symbols[2], sizeof leave);
    memcpy(&take, &symbols[3], sizeof take);
    memcpy(&put, &symbols[4], sizeof put);
    if (retain(&context, 0) != 0 || enter(context) != 0) return NULL;
    if (take(&address, bytes) != 0 || put(address, values, bytes) != 0) address = 0;
    leave(&context);
    return (void *)(uintptr_t)address;
}

#endif

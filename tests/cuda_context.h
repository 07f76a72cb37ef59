// SPDX-License-Identifier: MIT
// A suite on a GPU keeps the device's context to its end: making one for each fit takes up to a second where several
// programs share the device, and a test of a hundred fits minutes.
#ifndef KM_TESTS_CUDA_CONTEXT_H
#define KM_TESTS_CUDA_CONTEXT_H
#include <dlfcn.h>
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

#endif

// SPDX-License-Identifier: MIT
// A driver of GPUs that have memory and run nothing: what happens before there are kernels is tested without a GPU.
// FAKE_CUDA_VERSION: of the driver, 13000 where it is not set. FAKE_CUDA_DEVICES: how many, at most 2; else 1.
// FAKE_CUDA_LOG: a file that says when it was there (note.h), half a second after it was asked.
#include "../driver_names.h"
#include "cuda.h"
#include "note.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC visibility push(default)

enum { FAILED = 999, BLOCKS_MAX = 256, CALLERS_STREAMS = 4096 };
// Part of each device address, so that none is of this process: who reads one on the host crashes.
#define FAR ((km_cu_ptr)1 << 62)

static char something; // what handles point at
static char contexts[2];
static __thread int current; // device of the context that was pushed last

fake_cuda_seen fake_cuda;

static void *host_of(km_cu_ptr address) {
    return (void *)(uintptr_t)(address & ~FAR);
}

// Device ----------------------------------------------------------------------------------------------------

km_cu_result cuInit(unsigned flags) {
    (void)flags;
    if (getenv("FAKE_CUDA_LOG")) nanosleep(&(struct timespec){0, 500000000}, NULL);
    fake_note("driver");
    return 0;
}
km_cu_result cuDriverGetVersion(int *version) {
    const char *wanted = getenv("FAKE_CUDA_VERSION");
    *version = wanted ? atoi(wanted) : 13000;
    return 0;
}
km_cu_result cuGetErrorName(km_cu_result result, const char **name) {
    (void)result;
    *name = "FAKE_ERROR";
    return 0;
}
km_cu_result cuGetErrorString(km_cu_result result, const char **text) {
    (void)result;
    *text = "this GPU runs nothing";
    return 0;
}
km_cu_result cuDeviceGetCount(int *count) {
    const char *wanted = getenv("FAKE_CUDA_DEVICES");
    *count = wanted ? atoi(wanted) : 1;
    return 0;
}
km_cu_result cuDeviceGet(km_cu_device *device, int ordinal) {
    *device = ordinal;
    return 0;
}
km_cu_result cuDeviceGetName(char *name, int size, km_cu_device device) {
    (void)device;
    snprintf(name, (size_t)size, "a fake GPU");
    return 0;
}
km_cu_result cuDeviceGetAttribute(int *value, int attribute, km_cu_device device) {
    (void)device;
    return h100_attribute(value, attribute) ? 0 : FAILED;
}
km_cu_result cuDeviceTotalMem(size_t *bytes, km_cu_device device) {
    (void)device;
    *bytes = (size_t)80 << 30;
    return 0;
}
km_cu_result cuDevicePrimaryCtxRetain(km_cu_context *context, km_cu_device device) {
    fake_cuda.retained[device]++;
    *context = (km_cu_context)&contexts[device];
    return 0;
}
km_cu_result cuDevicePrimaryCtxRelease(km_cu_device device) {
    fake_cuda.retained[device]--;
    return 0;
}
km_cu_result cuCtxPushCurrent(km_cu_context context) {
    current = (int)((char *)context - contexts);
    return 0;
}
km_cu_result cuCtxPopCurrent(km_cu_context *context) {
    *context = (km_cu_context)&contexts[current];
    return 0;
}

// Modules ---------------------------------------------------------------------------------------------------

km_cu_result cuModuleLoadDataEx(km_cu_module *module, const void *image, unsigned options_count, int *options,
                                void **values) {
    (void)module, (void)image, (void)options_count, (void)options, (void)values;
    return FAILED;
}
km_cu_result cuModuleUnload(km_cu_module module) {
    (void)module;
    return FAILED;
}
km_cu_result cuModuleGetFunction(km_cu_function *function, km_cu_module module, const char *name) {
    (void)function, (void)module, (void)name;
    return FAILED;
}
km_cu_result cuModuleGetGlobal(km_cu_ptr *address, size_t *bytes, km_cu_module module, const char *name) {
    (void)address, (void)bytes, (void)module, (void)name;
    return FAILED;
}
km_cu_result cuFuncSetAttribute(km_cu_function function, int attribute, int value) {
    (void)function, (void)attribute, (void)value;
    return FAILED;
}
km_cu_result cuLaunchKernel(km_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                            km_cu_stream stream, void **arguments, void **extra) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared_bytes, (void)stream, (void)arguments, (void)extra;
    return FAILED;
}

// Memory ----------------------------------------------------------------------------------------------------

km_cu_result cuMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = (size_t)80 << 30;
    return 0;
}
static struct {
    km_cu_ptr first;
    size_t bytes;
    int device;
} blocks[BLOCKS_MAX];

// The block that an address lies in; -1.
static int block_of(km_cu_ptr address) {
    for (int i = 0; i < BLOCKS_MAX; i++)
        if (blocks[i].first && address >= blocks[i].first && address - blocks[i].first < blocks[i].bytes)
            return i;
    return -1;
}
km_cu_result cuMemAlloc(km_cu_ptr *address, size_t bytes) {
    int i = 0;
    while (i < BLOCKS_MAX && blocks[i].first) i++;
    void *memory = i < BLOCKS_MAX ? malloc(bytes) : NULL;
    if (!memory) return KM_CU_OUT_OF_MEMORY;
    *address = blocks[i].first = (km_cu_ptr)(uintptr_t)memory | FAR;
    blocks[i].bytes = bytes;
    blocks[i].device = current;
    return 0;
}
km_cu_result cuMemFree(km_cu_ptr address) {
    int i = block_of(address);
    if (i < 0 || blocks[i].first != address) return FAILED;
    free(host_of(address));
    blocks[i].first = 0;
    return 0;
}
km_cu_result cuPointerGetAttribute(void *value, int attribute, km_cu_ptr address) {
    int i = block_of(address);
    if (i < 0) return FAILED;
    if (attribute == KM_CU_POINTER_KIND) *(unsigned *)value = KM_CU_KIND_DEVICE;
    if (attribute == KM_CU_POINTER_ORDINAL) *(int *)value = blocks[i].device;
    return 0;
}
km_cu_result cuMemHostRegister(void *address, size_t bytes, unsigned flags) {
    (void)address, (void)bytes, (void)flags;
    fake_cuda.pinned++;
    return 0;
}
km_cu_result cuMemHostUnregister(void *address) {
    (void)address;
    fake_cuda.pinned--;
    return 0;
}
km_cu_result cuMemHostGetDevicePointer(km_cu_ptr *address, void *host, unsigned flags) {
    (void)flags;
    *address = (km_cu_ptr)(uintptr_t)host;
    return 0;
}
km_cu_result cuMemcpyHtoDAsync(km_cu_ptr to, const void *from, size_t bytes, km_cu_stream stream) {
    (void)stream;
    memcpy(host_of(to), from, bytes);
    return 0;
}
km_cu_result cuMemcpyDtoHAsync(void *to, km_cu_ptr from, size_t bytes, km_cu_stream stream) {
    (void)stream;
    int i = block_of(from);
    if (i < 0 || blocks[i].device != current || blocks[i].bytes - (from - blocks[i].first) < bytes)
        return FAILED;
    memcpy(to, host_of(from), bytes);
    __atomic_add_fetch(&fake_cuda.copies, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&fake_cuda.bytes_to_host, (int64_t)bytes, __ATOMIC_RELAXED);
    return 0;
}
km_cu_result cuMemcpyDtoDAsync(km_cu_ptr to, km_cu_ptr from, size_t bytes, km_cu_stream stream) {
    (void)stream;
    memcpy(host_of(to), host_of(from), bytes);
    return 0;
}
// It says that it maps the host, for plans; it maps nothing.
km_cu_result cuMemAddressReserve(km_cu_ptr *address, size_t bytes, size_t alignment, km_cu_ptr wanted,
                                 unsigned long long flags) {
    (void)address, (void)bytes, (void)alignment, (void)wanted, (void)flags;
    return FAILED;
}
km_cu_result cuMemAddressFree(km_cu_ptr address, size_t bytes) {
    (void)address, (void)bytes;
    return FAILED;
}
km_cu_result cuMemCreate(uint64_t *memory, size_t bytes, const km_cu_memory_kind *kind,
                         unsigned long long flags) {
    (void)memory, (void)bytes, (void)kind, (void)flags;
    return FAILED;
}
km_cu_result cuMemRelease(uint64_t memory) {
    (void)memory;
    return FAILED;
}
km_cu_result cuMemMap(km_cu_ptr address, size_t bytes, size_t offset, uint64_t memory,
                      unsigned long long flags) {
    (void)address, (void)bytes, (void)offset, (void)memory, (void)flags;
    return FAILED;
}
km_cu_result cuMemUnmap(km_cu_ptr address, size_t bytes) {
    (void)address, (void)bytes;
    return FAILED;
}
km_cu_result cuMemSetAccess(km_cu_ptr address, size_t bytes, const km_cu_access *access, size_t count) {
    (void)address, (void)bytes, (void)access, (void)count;
    return FAILED;
}
km_cu_result cuMemsetD8Async(km_cu_ptr to, unsigned char value, size_t bytes, km_cu_stream stream) {
    (void)stream;
    memset(host_of(to), value, bytes);
    return 0;
}

// Order: everything is done at once -------------------------------------------------------------------------

km_cu_result cuStreamCreate(km_cu_stream *stream, unsigned flags) {
    (void)flags;
    *stream = (km_cu_stream)&something;
    __atomic_add_fetch(&fake_cuda.streams, 1, __ATOMIC_RELAXED);
    return 0;
}
km_cu_result cuStreamDestroy(km_cu_stream stream) {
    (void)stream;
    __atomic_sub_fetch(&fake_cuda.streams, 1, __ATOMIC_RELAXED);
    return 0;
}
km_cu_result cuStreamWaitEvent(km_cu_stream stream, km_cu_event event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    return 0;
}
km_cu_result cuStreamSynchronize(km_cu_stream stream) {
    if ((uintptr_t)stream < CALLERS_STREAMS) fake_cuda.waited_for = (int64_t)(uintptr_t)stream;
    return 0;
}
km_cu_result cuStreamQuery(km_cu_stream stream) {
    (void)stream;
    return 0;
}
km_cu_result cuEventCreate(km_cu_event *event, unsigned flags) {
    (void)flags;
    *event = (km_cu_event)&something;
    return 0;
}
km_cu_result cuEventDestroy(km_cu_event event) {
    (void)event;
    return 0;
}
km_cu_result cuEventRecord(km_cu_event event, km_cu_stream stream) {
    (void)event, (void)stream;
    return 0;
}
km_cu_result cuEventSynchronize(km_cu_event event) {
    (void)event;
    return 0;
}
km_cu_result cuEventElapsedTime(float *ms, km_cu_event begin, km_cu_event end) {
    (void)begin, (void)end;
    *ms = 1;
    return 0;
}

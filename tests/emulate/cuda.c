// SPDX-License-Identifier: MIT
// libcuda.so.1 of emulated GPUs: kernels that the libnvrtc beside it made of CUDA C run on the CPU (block.h).
//
// Emulated: memory with pages that cannot be touched around it and garbage in it, shared memory likewise; warps whose
// lanes run apart; barriers, shuffles, votes, matrix products, asynchronous copies; limits of a launch. An order of
// threads and blocks that a kernel has not asked for changes from block to block, the same in each run.
// Not emulated: time, registers, caches, streams that run beside each other (all is done when it is queued), the
// ordering of memory, device addresses that the host cannot read.
//
//     EMULATED_CUDA_DEVICES=2     how many GPUs; 1
//     EMULATED_CUDA_UNITS=2       multiprocessors of each
//     EMULATED_CUDA_MEMORY=4096   MiB of each
//     EMULATED_CUDA_LOG=FILE      a line for each launch
#include "../driver_names.h"
#include "block.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)

enum {
    FAILED = 1,      // CUDA_ERROR_INVALID_VALUE
    NO_BINARY = 209, // of this GPU
    ILLEGAL = 700,   // CUDA_ERROR_ILLEGAL_ADDRESS, for all that a kernel must not do
    TOO_LARGE = 701, // CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    DEVICES_MAX = 8,
    ALIGNMENT = 256,
    PAGE = 4096,
    SHARED_PLAIN = 48 << 10, // dynamic shared memory without asking
    NAME_BYTES = 96
};
// Where the memory of devices lies; addresses are given out once.
#define FIRST_ADDRESS ((uintptr_t)0x5b0000000000)

struct CUctx_st {
    int retained;
};
struct CUfunc_st {
    char name[NAME_BYTES];
    void (*start)(void **arguments);
    char *const *statics;
    int threads_max;
    unsigned shared_max;
    struct CUfunc_st *next;
};
struct CUmod_st {
    void *library;
    km_cu_function functions;
};
struct CUevent_st {
    struct timespec time;
};

static struct CUctx_st contexts[DEVICES_MAX];
static __thread int pushed[16], pushed_count; // devices
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t setting(const char *name, int64_t otherwise) {
    const char *value = getenv(name);
    return value && *value ? strtoll(value, NULL, 10) : otherwise;
}

static int current(void) {
    return pushed_count ? pushed[pushed_count - 1] : 0;
}

static void *host_of(km_cu_ptr address) {
    return (void *)(uintptr_t)address;
}

// Device ----------------------------------------------------------------------------------------------------

km_cu_result cuInit(unsigned flags) {
    (void)flags;
    return 0;
}
km_cu_result cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
km_cu_result cuGetErrorName(km_cu_result result, const char **name) {
    *name = result == ILLEGAL               ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : result == KM_CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == TOO_LARGE           ? "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
            : result == KM_CU_NOT_FOUND     ? "CUDA_ERROR_NOT_FOUND"
            : result == NO_BINARY           ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                                            : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}
km_cu_result cuGetErrorString(km_cu_result result, const char **text) {
    *text = result == ILLEGAL ? "a kernel did what it must not; standard error has it" : "of an emulated GPU";
    return 0;
}
km_cu_result cuDeviceGetCount(int *count) {
    *count = (int)setting("EMULATED_CUDA_DEVICES", 1);
    if (*count > DEVICES_MAX) *count = DEVICES_MAX;
    return 0;
}
km_cu_result cuDeviceGet(km_cu_device *device, int ordinal) {
    *device = ordinal;
    return 0;
}
km_cu_result cuDeviceGetName(char *name, int size, km_cu_device device) {
    (void)device;
    snprintf(name, (size_t)size, "an emulated GPU");
    return 0;
}
km_cu_result cuDeviceGetAttribute(int *value, int attribute, km_cu_device device) {
    (void)device;
    if (attribute == KM_CU_ATTR_UNITS)
        *value = (int)setting("EMULATED_CUDA_UNITS", 2);
    else if (attribute == KM_CU_ATTR_HOST_NODE)
        *value = 0;
    else if (!h100_attribute(value, attribute))
        return FAILED;
    return 0;
}
static size_t memory_bytes(void) {
    return (size_t)setting("EMULATED_CUDA_MEMORY", 4096) << 20;
}
km_cu_result cuDeviceTotalMem(size_t *bytes, km_cu_device device) {
    (void)device;
    *bytes = memory_bytes();
    return 0;
}
km_cu_result cuDevicePrimaryCtxRetain(km_cu_context *context, km_cu_device device) {
    __atomic_add_fetch(&contexts[device].retained, 1, __ATOMIC_RELAXED);
    *context = &contexts[device];
    return 0;
}
km_cu_result cuDevicePrimaryCtxRelease(km_cu_device device) {
    return __atomic_sub_fetch(&contexts[device].retained, 1, __ATOMIC_RELAXED) < 0 ? FAILED : 0;
}
km_cu_result cuCtxPushCurrent(km_cu_context context) {
    if (!context || pushed_count == sizeof pushed / sizeof *pushed) return FAILED;
    pushed[pushed_count++] = (int)(context - contexts);
    return 0;
}
km_cu_result cuCtxPopCurrent(km_cu_context *context) {
    if (!pushed_count) return FAILED;
    *context = &contexts[pushed[--pushed_count]];
    return 0;
}

// Modules ---------------------------------------------------------------------------------------------------

// Of a shared library, whose section headers come last.
static size_t bytes_of(const void *image) {
    const Elf64_Ehdr *head = image;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_machine != EM_X86_64) return 0;
    return head->e_shoff + (size_t)head->e_shentsize * head->e_shnum;
}

km_cu_result cuModuleLoadDataEx(km_cu_module *module, const void *image, unsigned options_count, int *options,
                                void **values) {
    (void)options_count, (void)options, (void)values;
    char path[] = "/tmp/emulated-XXXXXX";
    size_t bytes = bytes_of(image);
    if (!bytes) return NO_BINARY;
    int file = mkstemp(path);
    if (file < 0) return FAILED;
    ssize_t written = write(file, image, bytes);
    close(file);
    void *library = written == (ssize_t)bytes ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) fprintf(stderr, "emulated GPU: %s\n", dlerror());
    unlink(path);
    const emulated_machine **machine = library ? (const emulated_machine **)dlsym(library, "emulated") : NULL;
    km_cu_module made = machine ? calloc(1, sizeof *made) : NULL;
    if (!made) {
        if (library) dlclose(library);
        return NO_BINARY;
    }
    *machine = &emulated_gpu;
    made->library = library;
    *module = made;
    return 0;
}
km_cu_result cuModuleUnload(km_cu_module module) {
    for (km_cu_function next, own = module->functions; own; own = next) {
        next = own->next;
        free(own);
    }
    dlclose(module->library);
    free(module);
    return 0;
}
km_cu_result cuModuleGetFunction(km_cu_function *function, km_cu_module module, const char *name) {
    char symbol[NAME_BYTES + 32];
    snprintf(symbol, sizeof symbol, "emulated_start_%s", name);
    void *start = dlsym(module->library, symbol);
    snprintf(symbol, sizeof symbol, "emulated_threads_%s", name);
    const int *threads_max = dlsym(module->library, symbol);
    if (!start || !threads_max) return KM_CU_NOT_FOUND;
    km_cu_function own = calloc(1, sizeof *own);
    if (!own) return KM_CU_OUT_OF_MEMORY;
    snprintf(own->name, sizeof own->name, "%s", name);
    memcpy(&own->start, &start, sizeof start);
    own->statics = dlsym(module->library, "emulated_static");
    own->threads_max = *threads_max;
    own->shared_max = SHARED_PLAIN;
    pthread_mutex_lock(&lock);
    own->next = module->functions;
    module->functions = own;
    pthread_mutex_unlock(&lock);
    *function = own;
    return 0;
}
km_cu_result cuModuleGetGlobal(km_cu_ptr *address, size_t *bytes, km_cu_module module, const char *name) {
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    void *at = dlsym(module->library, name);
    if (!at || !dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return KM_CU_NOT_FOUND;
    *address = (km_cu_ptr)(uintptr_t)at;
    *bytes = symbol->st_size;
    return 0;
}
km_cu_result cuFuncSetAttribute(km_cu_function function, int attribute, int value) {
    if (attribute != KM_CU_FUNC_MAX_DYNAMIC_SHARED || value < 0 || value > EMULATED_SHARED_MAX) return FAILED;
    function->shared_max = (unsigned)value;
    return 0;
}

static void log_launch(const emulated_launch *own, double seconds) {
    const char *path = getenv("EMULATED_CUDA_LOG");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%s grid %ux%u block %ux%u shared %u: %.3f ms\n", own->kernel, own->grid.x, own->grid.y,
            own->block_size.x, own->block_size.y, own->shared_bytes, 1e3 * seconds);
    fclose(file);
}

static double seconds_between(const struct timespec *from, const struct timespec *to) {
    return (double)(to->tv_sec - from->tv_sec) + 1e-9 * (double)(to->tv_nsec - from->tv_nsec);
}

km_cu_result cuLaunchKernel(km_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                            km_cu_stream stream, void **arguments, void **extra) {
    (void)stream, (void)extra;
    const emulated_launch launch = {function->name,
                                    function->start,
                                    arguments,
                                    {grid_x, grid_y, grid_z},
                                    {block_x, block_y, block_z},
                                    shared_bytes,
                                    {function->statics[0], function->statics[1]}};
    const uint64_t threads = (uint64_t)block_x * block_y * block_z;
    struct timespec begin, end;
    if (!grid_x || !grid_y || !grid_z || grid_y > 65535 || grid_z > 65535 || !threads || threads > 1024)
        return FAILED;
    if (threads > (uint64_t)function->threads_max) return TOO_LARGE;
    if (shared_bytes > function->shared_max) return FAILED;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pthread_mutex_lock(&lock);
    int has_failed = emulated_run(&launch);
    pthread_mutex_unlock(&lock);
    clock_gettime(CLOCK_MONOTONIC, &end);
    log_launch(&launch, seconds_between(&begin, &end));
    return has_failed ? ILLEGAL : 0;
}

// Memory ----------------------------------------------------------------------------------------------------

// Of a device, with a page on either side that cannot be touched; it ends where its last page does.
typedef struct memory {
    uintptr_t first;
    size_t bytes, pages_bytes;
    int device;
    struct memory *next;
} memory;

static memory *memories;
static uintptr_t next_address = FIRST_ADDRESS;
static size_t used[DEVICES_MAX];

// The one that has all these bytes; NULL.
static memory *memory_of(uintptr_t address, size_t bytes) {
    for (memory *own = memories; own; own = own->next)
        if (address >= own->first && address - own->first <= own->bytes &&
            own->bytes - (address - own->first) >= bytes)
            return own;
    return NULL;
}

void emulated_describe(char *text, size_t size, const void *address) {
    const uintptr_t at = (uintptr_t)address;
    const memory *near = NULL;
    if (at >= EMULATED_SHARED && at < EMULATED_SHARED + (256 << 10)) {
        snprintf(text, size, "shared memory of %u bytes is accessed at byte %zu", emulated_gpu.shared_bytes,
                 (size_t)(at - EMULATED_SHARED));
        return;
    }
    for (const memory *own = memories; own; own = own->next) // the nearest one before, or else behind
        if (own->first <= at && (!near || own->first > near->first)) near = own;
    if (near && at - near->first < near->bytes + 2 * PAGE)
        snprintf(text, size, "address %p is accessed, byte %zu of %zu that were allocated", address,
                 (size_t)(at - near->first), near->bytes);
    else
        snprintf(text, size, "address %p is accessed, where there is nothing (any more)", address);
}

km_cu_result cuMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *total_bytes = memory_bytes();
    *free_bytes = *total_bytes > used[current()] ? *total_bytes - used[current()] : 0;
    return 0;
}

static int map_memory(memory *own, size_t bytes) {
    size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    own->pages_bytes = (padded + PAGE - 1) / PAGE * PAGE;
    void *at = mmap((void *)(next_address + PAGE), own->pages_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    emulated_spoil(at, own->pages_bytes);
    own->first = next_address + PAGE + own->pages_bytes - padded;
    own->bytes = bytes;
    next_address += own->pages_bytes + 2 * PAGE;
    return 1;
}

km_cu_result cuMemAlloc(km_cu_ptr *address, size_t bytes) {
    km_cu_result result = KM_CU_OUT_OF_MEMORY;
    int device = current();
    memory *own = bytes ? calloc(1, sizeof *own) : NULL;
    if (!own) return bytes ? result : FAILED;
    pthread_mutex_lock(&lock);
    if (bytes <= memory_bytes() - used[device] && map_memory(own, bytes)) {
        own->device = device;
        own->next = memories;
        memories = own;
        used[device] += bytes;
        *address = own->first;
        result = 0;
    } else
        free(own);
    pthread_mutex_unlock(&lock);
    return result;
}

// Whether something was written behind its end, or before it, where it begins within a page.
static int is_damaged(const memory *own) {
    const uintptr_t page = (own->first + own->bytes + PAGE - 1) / PAGE * PAGE - own->pages_bytes;
    for (const unsigned *at = (const unsigned *)page; (uintptr_t)at < own->first; at++)
        if (*at != 0xfff5a5a5) return 1;
    for (const unsigned *at = (const unsigned *)((own->first + own->bytes + 3) / 4 * 4);
         (uintptr_t)at < page + own->pages_bytes; at++)
        if (*at != 0xfff5a5a5) return 1;
    return 0;
}

km_cu_result cuMemFree(km_cu_ptr address) {
    km_cu_result result = FAILED;
    pthread_mutex_lock(&lock);
    memory **at = &memories, *own;
    while (*at && (*at)->first != address) at = &(*at)->next;
    own = *at;
    if (own) {
        *at = own->next;
        result = is_damaged(own) ? ILLEGAL : 0;
        if (result)
            fprintf(stderr, "emulated GPU: bytes beside an allocation of %zu bytes were written\n",
                    own->bytes);
        munmap((void *)((own->first + own->bytes + PAGE - 1) / PAGE * PAGE - own->pages_bytes),
               own->pages_bytes);
        used[own->device] -= own->bytes;
        free(own);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

// Ranges that a program maps itself (cuMemMap), of a device or of the host.
typedef struct range {
    uintptr_t first;
    size_t bytes;
    struct range *next;
} range;
static range *ranges, *pinned;

static range *range_of(range *list, uintptr_t address, size_t bytes) {
    for (; list; list = list->next)
        if (address >= list->first && address - list->first <= list->bytes &&
            list->bytes - (address - list->first) >= bytes)
            return list;
    return NULL;
}
static km_cu_result add_range(range **list, uintptr_t first, size_t bytes) {
    range *own = calloc(1, sizeof *own);
    if (!own) return KM_CU_OUT_OF_MEMORY;
    own->first = first, own->bytes = bytes;
    pthread_mutex_lock(&lock);
    own->next = *list;
    *list = own;
    pthread_mutex_unlock(&lock);
    return 0;
}
static km_cu_result drop_range(range **list, uintptr_t first) {
    pthread_mutex_lock(&lock);
    while (*list && (*list)->first != first) list = &(*list)->next;
    range *own = *list;
    if (own) *list = own->next;
    pthread_mutex_unlock(&lock);
    free(own);
    return own ? 0 : FAILED;
}

// Whether the device has these bytes: allocated or mapped, pinned on the host, or a module's.
static int has_bytes(km_cu_ptr address, size_t bytes) {
    pthread_mutex_lock(&lock);
    const memory *own = memory_of(address, bytes);
    int has = own ? own->device == current()
                  : range_of(ranges, address, bytes) || range_of(pinned, address, bytes) ||
                        address < FIRST_ADDRESS || address >= next_address;
    pthread_mutex_unlock(&lock);
    if (!has)
        fprintf(stderr, "emulated GPU: a copy of %zu bytes at %#llx, which GPU %d does not have\n", bytes,
                (unsigned long long)address, current());
    return has;
}

km_cu_result cuPointerGetAttribute(void *value, int attribute, km_cu_ptr address) {
    pthread_mutex_lock(&lock);
    const memory *own = memory_of(address, 1);
    int device = own ? own->device : -1;
    pthread_mutex_unlock(&lock);
    if (device < 0) return FAILED;
    if (attribute == KM_CU_POINTER_KIND) *(unsigned *)value = KM_CU_KIND_DEVICE;
    if (attribute == KM_CU_POINTER_ORDINAL) *(int *)value = device;
    return 0;
}
km_cu_result cuMemHostRegister(void *address, size_t bytes, unsigned flags) {
    (void)flags;
    return add_range(&pinned, (uintptr_t)address, bytes);
}
km_cu_result cuMemHostUnregister(void *address) {
    return drop_range(&pinned, (uintptr_t)address);
}
km_cu_result cuMemHostGetDevicePointer(km_cu_ptr *address, void *host, unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    int is_pinned = range_of(pinned, (uintptr_t)host, 1) != NULL;
    pthread_mutex_unlock(&lock);
    *address = (km_cu_ptr)(uintptr_t)host;
    return is_pinned ? 0 : FAILED;
}
km_cu_result cuMemcpyHtoDAsync(km_cu_ptr to, const void *from, size_t bytes, km_cu_stream stream) {
    (void)stream;
    if (!has_bytes(to, bytes)) return FAILED;
    memcpy(host_of(to), from, bytes);
    return 0;
}
// Tests call it.
km_cu_result cuMemcpyHtoD_v2(km_cu_ptr to, const void *from, size_t bytes);
km_cu_result cuMemcpyHtoD_v2(km_cu_ptr to, const void *from, size_t bytes) {
    return cuMemcpyHtoDAsync(to, from, bytes, NULL);
}
km_cu_result cuMemcpyDtoHAsync(void *to, km_cu_ptr from, size_t bytes, km_cu_stream stream) {
    (void)stream;
    if (!has_bytes(from, bytes)) return FAILED;
    memcpy(to, host_of(from), bytes);
    return 0;
}
km_cu_result cuMemcpyDtoDAsync(km_cu_ptr to, km_cu_ptr from, size_t bytes, km_cu_stream stream) {
    (void)stream;
    if (!has_bytes(to, bytes) || !has_bytes(from, bytes)) return FAILED;
    memcpy(host_of(to), host_of(from), bytes);
    return 0;
}
km_cu_result cuMemsetD8Async(km_cu_ptr to, unsigned char value, size_t bytes, km_cu_stream stream) {
    (void)stream;
    if (!has_bytes(to, bytes)) return FAILED;
    memset(host_of(to), value, bytes);
    return 0;
}

// Memory apart from its address: a file in memory.
km_cu_result cuMemAddressReserve(km_cu_ptr *address, size_t bytes, size_t alignment, km_cu_ptr wanted,
                                 unsigned long long flags) {
    (void)wanted, (void)flags;
    if (alignment < PAGE) alignment = PAGE;
    pthread_mutex_lock(&lock);
    next_address = (next_address + PAGE + alignment - 1) / alignment * alignment;
    uintptr_t first = next_address;
    next_address += bytes + PAGE;
    pthread_mutex_unlock(&lock);
    *address = first;
    return add_range(&ranges, first, bytes);
}
km_cu_result cuMemAddressFree(km_cu_ptr address, size_t bytes) {
    (void)bytes;
    return drop_range(&ranges, address);
}
km_cu_result cuMemCreate(uint64_t *made, size_t bytes, const km_cu_memory_kind *kind,
                         unsigned long long flags) {
    (void)flags;
    int is_near = kind->place.type == KM_CU_PLACE_DEVICE;
    if (is_near && bytes > memory_bytes() - used[kind->place.id]) return KM_CU_OUT_OF_MEMORY;
    int file = memfd_create("emulated", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) return KM_CU_OUT_OF_MEMORY;
    *made = (uint64_t)file;
    return 0;
}
km_cu_result cuMemRelease(uint64_t made) {
    return close((int)made) == 0 ? 0 : FAILED;
}
km_cu_result cuMemMap(km_cu_ptr address, size_t bytes, size_t offset, uint64_t made,
                      unsigned long long flags) {
    (void)flags;
    void *at =
        mmap(host_of(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, (int)made, (off_t)offset);
    return at == MAP_FAILED ? FAILED : 0;
}
km_cu_result cuMemUnmap(km_cu_ptr address, size_t bytes) {
    return munmap(host_of(address), bytes) == 0 ? 0 : FAILED;
}
km_cu_result cuMemSetAccess(km_cu_ptr address, size_t bytes, const km_cu_access *access, size_t count) {
    (void)access;
    return count && mprotect(host_of(address), bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : FAILED;
}

// Order: everything is done at once -------------------------------------------------------------------------

km_cu_result cuStreamCreate(km_cu_stream *stream, unsigned flags) {
    (void)flags;
    *stream = calloc(1, 1);
    return *stream ? 0 : KM_CU_OUT_OF_MEMORY;
}
km_cu_result cuStreamDestroy(km_cu_stream stream) {
    free(stream);
    return 0;
}
km_cu_result cuStreamWaitEvent(km_cu_stream stream, km_cu_event event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    return 0;
}
km_cu_result cuStreamSynchronize(km_cu_stream stream) {
    (void)stream;
    return 0;
}
km_cu_result cuStreamQuery(km_cu_stream stream) {
    (void)stream;
    return 0;
}
km_cu_result cuEventCreate(km_cu_event *event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event ? 0 : KM_CU_OUT_OF_MEMORY;
}
km_cu_result cuEventDestroy(km_cu_event event) {
    free(event);
    return 0;
}
km_cu_result cuEventRecord(km_cu_event event, km_cu_stream stream) {
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return 0;
}
km_cu_result cuEventSynchronize(km_cu_event event) {
    (void)event;
    return 0;
}
km_cu_result cuEventElapsedTime(float *ms, km_cu_event begin, km_cu_event end) {
    *ms = (float)(1e3 * seconds_between(&begin->time, &end->time));
    return 0;
}

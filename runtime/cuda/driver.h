// SPDX-License-Identifier: MIT
// The CUDA driver and NVRTC, opened at run time: kmgen builds and starts on machines that have neither. Only what
// kmgen calls is declared here, so no CUDA header is needed to build.
#ifndef KM_RUNTIME_CUDA_DRIVER_H
#define KM_RUNTIME_CUDA_DRIVER_H
#include "../../base/error.h"
#include <kmgen/plan.h>

struct km_asking; // ../asking.h

typedef int km_cu_result; // CUresult; 0 is success
typedef int km_cu_device;
typedef uint64_t km_cu_ptr; // CUdeviceptr
typedef struct CUctx_st *km_cu_context;
typedef struct CUmod_st *km_cu_module;
typedef struct CUfunc_st *km_cu_function;
typedef struct CUstream_st *km_cu_stream;
typedef struct CUevent_st *km_cu_event;
typedef struct km_nvrtc_text *km_nvrtc_program;

// Values of the driver's enumerations that kmgen uses (cuda.h is their source).
enum {
    KM_CU_OUT_OF_MEMORY = 2,
    KM_CU_NOT_FOUND = 500,
    KM_CU_ATTR_CLOCK_KHZ = 13,
    KM_CU_ATTR_UNITS = 16,
    KM_CU_ATTR_MEMORY_CLOCK_KHZ = 36,
    KM_CU_ATTR_MEMORY_BUS_BITS = 37,
    KM_CU_ATTR_L2_BYTES = 38,
    KM_CU_ATTR_MAJOR = 75,
    KM_CU_ATTR_MINOR = 76,
    KM_CU_ATTR_SHARED_PER_UNIT = 81,
    KM_CU_ATTR_REGISTERS_PER_UNIT = 82,
    KM_CU_ATTR_SHARED_OPTIN = 97,
    KM_CU_ATTR_HOST_NODE = 134,
    KM_CU_ATTR_MAPS_HOST = 141,
    KM_CU_FUNC_MAX_DYNAMIC_SHARED = 8,
    KM_CU_STREAM_NON_BLOCKING = 1,
    KM_CU_EVENT_NO_TIMING = 2,
    KM_CU_REGISTER_DEVICE_MAP = 2,
    KM_CU_NOT_READY = 600,
    KM_CU_POINTER_KIND = 2,
    KM_CU_POINTER_ORDINAL = 9,
    KM_CU_KIND_DEVICE = 2,
    KM_CU_MEMORY_PINNED = 1,
    KM_CU_PLACE_DEVICE = 1,
    KM_CU_PLACE_HOST_NODE = 3,
    KM_CU_ACCESS_READ_WRITE = 3
};

// Memory that is made apart from its address.
typedef struct km_cu_place {
    int type, id;
} km_cu_place;

typedef struct km_cu_memory_kind {
    int type, handles;
    km_cu_place place;
    void *security;
    unsigned char flags[8];
} km_cu_memory_kind;

typedef struct km_cu_access {
    km_cu_place place;
    int flags;
} km_cu_access;

// X(name in the table, symbol of the library, parameters). The one list of what is taken from libcuda.
#define KM_DRIVER_CALLS(X)                                                                                   \
    X(cuInit, "cuInit", (unsigned flags))                                                                    \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *version))                                              \
    X(cuGetErrorName, "cuGetErrorName", (km_cu_result result, const char **name))                            \
    X(cuGetErrorString, "cuGetErrorString", (km_cu_result result, const char **text))                        \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *count))                                                    \
    X(cuDeviceGet, "cuDeviceGet", (km_cu_device * device, int ordinal))                                      \
    X(cuDeviceGetName, "cuDeviceGetName", (char *name, int size, km_cu_device device))                       \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, km_cu_device device))        \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, km_cu_device device))                        \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (km_cu_context * context, km_cu_device device))  \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (km_cu_device device))                      \
    X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (km_cu_context context))                                      \
    X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (km_cu_context * context))                                      \
    X(cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                              \
      (km_cu_module * module, const void *image, unsigned options_count, int *options, void **values))       \
    X(cuModuleUnload, "cuModuleUnload", (km_cu_module module))                                               \
    X(cuModuleGetFunction, "cuModuleGetFunction",                                                            \
      (km_cu_function * function, km_cu_module module, const char *name))                                    \
    X(cuModuleGetGlobal, "cuModuleGetGlobal_v2",                                                             \
      (km_cu_ptr * address, size_t * bytes, km_cu_module module, const char *name))                          \
    X(cuFuncSetAttribute, "cuFuncSetAttribute", (km_cu_function function, int attribute, int value))         \
    X(cuLaunchKernel, "cuLaunchKernel",                                                                      \
      (km_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,         \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, km_cu_stream stream, void **arguments,     \
       void **extra))                                                                                        \
    X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                          \
    X(cuMemAlloc, "cuMemAlloc_v2", (km_cu_ptr * address, size_t bytes))                                      \
    X(cuMemFree, "cuMemFree_v2", (km_cu_ptr address))                                                        \
    X(cuMemHostRegister, "cuMemHostRegister_v2", (void *address, size_t bytes, unsigned flags))              \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", (void *value, int attribute, km_cu_ptr address))       \
    X(cuMemHostUnregister, "cuMemHostUnregister", (void *address))                                           \
    X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",                                             \
      (km_cu_ptr * address, void *host, unsigned flags))                                                     \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                             \
      (km_cu_ptr to, const void *from, size_t bytes, km_cu_stream stream))                                   \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                             \
      (void *to, km_cu_ptr from, size_t bytes, km_cu_stream stream))                                         \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                             \
      (km_cu_ptr to, km_cu_ptr from, size_t bytes, km_cu_stream stream))                                     \
    X(cuMemAddressReserve, "cuMemAddressReserve",                                                            \
      (km_cu_ptr * address, size_t bytes, size_t alignment, km_cu_ptr wanted, unsigned long long flags))     \
    X(cuMemAddressFree, "cuMemAddressFree", (km_cu_ptr address, size_t bytes))                               \
    X(cuMemCreate, "cuMemCreate",                                                                            \
      (uint64_t * memory, size_t bytes, const km_cu_memory_kind *kind, unsigned long long flags))            \
    X(cuMemRelease, "cuMemRelease", (uint64_t memory))                                                       \
    X(cuMemMap, "cuMemMap",                                                                                  \
      (km_cu_ptr address, size_t bytes, size_t offset, uint64_t memory, unsigned long long flags))           \
    X(cuMemUnmap, "cuMemUnmap", (km_cu_ptr address, size_t bytes))                                           \
    X(cuMemSetAccess, "cuMemSetAccess",                                                                      \
      (km_cu_ptr address, size_t bytes, const km_cu_access *access, size_t count))                           \
    X(cuMemsetD8Async, "cuMemsetD8Async",                                                                    \
      (km_cu_ptr to, unsigned char value, size_t bytes, km_cu_stream stream))                                \
    X(cuStreamCreate, "cuStreamCreate", (km_cu_stream * stream, unsigned flags))                             \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (km_cu_stream stream))                                          \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", (km_cu_stream stream, km_cu_event event, unsigned flags))      \
    X(cuStreamSynchronize, "cuStreamSynchronize", (km_cu_stream stream))                                     \
    X(cuStreamQuery, "cuStreamQuery", (km_cu_stream stream))                                                 \
    X(cuEventCreate, "cuEventCreate", (km_cu_event * event, unsigned flags))                                 \
    X(cuEventDestroy, "cuEventDestroy_v2", (km_cu_event event))                                              \
    X(cuEventRecord, "cuEventRecord", (km_cu_event event, km_cu_stream stream))                              \
    X(cuEventSynchronize, "cuEventSynchronize", (km_cu_event event))                                         \
    X(cuEventElapsedTime, "cuEventElapsedTime", (float *ms, km_cu_event begin, km_cu_event end))

// The same for NVRTC.
#define KM_NVRTC_CALLS(X)                                                                                    \
    X(nvrtcVersion, "nvrtcVersion", (int *major, int *minor))                                                \
    X(nvrtcCreateProgram, "nvrtcCreateProgram",                                                              \
      (km_nvrtc_program * program, const char *text, const char *name, int headers_count,                    \
       const char *const *headers, const char *const *header_names))                                         \
    X(nvrtcDestroyProgram, "nvrtcDestroyProgram", (km_nvrtc_program * program))                              \
    X(nvrtcCompileProgram, "nvrtcCompileProgram",                                                            \
      (km_nvrtc_program program, int options_count, const char *const *options))                             \
    X(nvrtcGetProgramLogSize, "nvrtcGetProgramLogSize", (km_nvrtc_program program, size_t * size))           \
    X(nvrtcGetProgramLog, "nvrtcGetProgramLog", (km_nvrtc_program program, char *log))                       \
    X(nvrtcGetCUBINSize, "nvrtcGetCUBINSize", (km_nvrtc_program program, size_t * size))                     \
    X(nvrtcGetCUBIN, "nvrtcGetCUBIN", (km_nvrtc_program program, char *cubin))

#define KM_CALL_FIELD(name, symbol, parameters) km_cu_result(*name) parameters;
typedef struct km_driver {
    KM_DRIVER_CALLS(KM_CALL_FIELD)
    int version; // 13000 is CUDA 13.0
} km_driver;

typedef struct km_nvrtc {
    KM_NVRTC_CALLS(KM_CALL_FIELD)
    const char *(*nvrtcGetErrorString)(km_cu_result result);
    // NULL before NVRTC 12.8: a compilation goes on to its end.
    km_cu_result (*nvrtcSetFlowCallback)(km_nvrtc_program program, int (*asked)(void *user, void *),
                                         void *user);
    void *library;
    int major, minor;
    char path[512]; // what was opened
} km_nvrtc;
#undef KM_CALL_FIELD

// The driver, opened and initialised once a process; NULL with the reason in
// *why when there is none. Thread-safe.
const km_driver *km_driver_get(const char **why);

// NVRTC: from `path` (the library, a folder that holds it, or NULL), then in the site-packages that hold this library,
// then by the loader's own search, then in the places where CUDA and PyPI's nvidia-cuda-nvrtc put it.
// Versions newer than major_max (0: any) are passed over, as their machine code may need a newer driver.
// KM_ERROR_DEVICE says what was tried and how to get it.
km_status km_nvrtc_open(km_nvrtc *nvrtc, const char *path, int major_max, km_error *err);
void km_nvrtc_close(km_nvrtc *nvrtc);

// Compiles the text of `source_path` for sm_`arch` to a cubin; needs no GPU. Everything that the compiler says goes
// to log_path (NULL: dropped). KM_ERROR_COMPILE names the first error's line. `asking` (NULL: nobody asks) may stop it.
km_status km_nvrtc_compile(const km_nvrtc *nvrtc, int arch, const char *source_path, const char *binary_path,
                           const char *log_path, struct km_asking *asking, km_error *err);
// Opens NVRTC and compiles an empty text: done while a driver starts, the first text need not wait for what NVRTC does
// but once.
void km_nvrtc_begin(const char *path);
// Options for the compiler, as they enter the cache's key; with its version, and without.
void km_nvrtc_options(char *text, int64_t size, int arch);
void km_nvrtc_id(char *text, int64_t size, const km_nvrtc *nvrtc, int arch);

km_status km_cuda_fail(km_error *err, const km_driver *driver, km_cu_result result, const char *call);

// Calls the driver (a variable named `driver` in scope); on failure sets `status` and goes to `done`, with the
// call's text and CUDA's name of the error in err.
#define KM_CU(call)                                                                                          \
    do {                                                                                                     \
        km_cu_result km_cu_result_ = driver->call;                                                           \
        if (km_cu_result_ != 0) {                                                                            \
            status = km_cuda_fail(err, driver, km_cu_result_, #call);                                        \
            goto done;                                                                                       \
        }                                                                                                    \
    } while (0)

#endif

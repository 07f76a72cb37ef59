// SPDX-License-Identifier: MIT
#include "driver.h"
#include "../../base/error.h"
#include "../../base/wording.h"
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static km_driver the_driver;
static const char *driver_missing; // why there is none
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

typedef struct km_symbol {
    const char *name;
    void *place; // of the function pointer
} km_symbol;

// POSIX gives function addresses as void *; copying bytes keeps the compilers content.
static const char *take_symbols(void *library, const km_symbol *symbols, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) return symbols[i].name;
        memcpy(symbols[i].place, &address, sizeof address);
    }
    return NULL;
}

static void open_driver(void) {
    static char reason[256];
    // Never unloaded: the driver and NVRTC keep memory of their own to the end, which their unloading would leak.
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        driver_missing = "libcuda.so.1 is not there; it comes with NVIDIA's driver";
        return;
    }
    km_driver *driver = &the_driver;
#define KM_CALL_SYMBOL(name, symbol, parameters) {symbol, &driver->name},
    const km_symbol symbols[] = {KM_DRIVER_CALLS(KM_CALL_SYMBOL)};
#undef KM_CALL_SYMBOL
    const char *missing = take_symbols(library, symbols, sizeof symbols / sizeof symbols[0]);
    if (missing) {
        snprintf(reason, sizeof reason,
                 "libcuda.so.1 has no %s; CUDA 12 needs a driver of version 525 or later", missing);
        driver_missing = reason;
        return;
    }
    km_cu_result result = driver->cuInit(0);
    if (result == 0) result = driver->cuDriverGetVersion(&driver->version);
    if (result != 0) {
        const char *name = "an unknown error";
        driver->cuGetErrorName(result, &name);
        snprintf(reason, sizeof reason, "cuInit said %s; `nvidia-smi` shows whether the driver works", name);
        driver_missing = reason;
    }
}

const km_driver *km_driver_get(const char **why) {
    pthread_once(&driver_once, open_driver);
    if (why) *why = driver_missing;
    return driver_missing ? NULL : &the_driver;
}

km_status km_cuda_fail(km_error *err, const km_driver *driver, km_cu_result result, const char *call) {
    const char *name = "unknown error", *text = "";
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &text);
    if (result == KM_CU_OUT_OF_MEMORY)
        return km_fail(err, KM_ERROR_MEMORY,
                       "%s: %s (%s); use fewer concurrent restarts, or a device with more memory", call, name,
                       text);
    return km_fail(err, KM_ERROR_DEVICE, "%s: %s (%s)", call, name ? name : "?", text ? text : "");
}

// NVRTC opens a second library by its name, and that of 13.0 from PyPI does not look in its own folder: from
// there it is opened here, so that the name is known.
static void open_builtins_beside(const char *path) {
    const char *slash = strrchr(path, '/');
    glob_t found;
    char pattern[4096];
    if (!slash) return;
    snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so.1*", (int)(slash - path), path);
    if (glob(pattern, 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        dlopen(found.gl_pathv[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    globfree(&found);
}

static int open_nvrtc_at(km_nvrtc *nvrtc, const char *path, int major_max) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return 0;
#define KM_CALL_SYMBOL(name, symbol, parameters) {symbol, &nvrtc->name},
    const km_symbol symbols[] = {
        KM_NVRTC_CALLS(KM_CALL_SYMBOL){"nvrtcGetErrorString", &nvrtc->nvrtcGetErrorString}};
#undef KM_CALL_SYMBOL
    if (take_symbols(library, symbols, sizeof symbols / sizeof symbols[0]) ||
        nvrtc->nvrtcVersion(&nvrtc->major, &nvrtc->minor) != 0 || (major_max && nvrtc->major > major_max)) {
        dlclose(library);
        return 0;
    }
    open_builtins_beside(path);
    void *flow = dlsym(library, "nvrtcSetFlowCallback");
    memcpy(&nvrtc->nvrtcSetFlowCallback, &flow, sizeof flow);
    nvrtc->library = library;
    snprintf(nvrtc->path, sizeof nvrtc->path, "%s", path);
    return 1;
}

static int open_nvrtc_in(km_nvrtc *nvrtc, const char *pattern, int major_max) {
    glob_t found;
    int opened = 0;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i-- > 0 && !opened;) // the highest version first
            opened = open_nvrtc_at(nvrtc, found.gl_pathv[i], major_max);
        globfree(&found);
    }
    return opened;
}

// In the site-packages that hold this library, as a wheel does: what was installed beside it was meant for it.
static int open_nvrtc_beside(km_nvrtc *nvrtc, int major_max) {
    static const char *const beside[] = {"../nvidia/cu1[23]/lib/libnvrtc.so.1[23]",
                                         "../nvidia/cuda_nvrtc/lib/libnvrtc.so.1[23]"};
    Dl_info own;
    if (!dladdr(&the_driver, &own) || !own.dli_fname) return 0;
    const char *slash = strrchr(own.dli_fname, '/');
    int folder = slash ? (int)(slash - own.dli_fname) : 0;
    for (size_t i = 0; slash && i < sizeof beside / sizeof beside[0]; i++) {
        char pattern[4096];
        snprintf(pattern, sizeof pattern, "%.*s/%s", folder, own.dli_fname, beside[i]);
        if (open_nvrtc_in(nvrtc, pattern, major_max)) return 1;
    }
    return 0;
}

km_status km_nvrtc_open(km_nvrtc *nvrtc, const char *path, int major_max, km_error *err) {
    // The last two are where `pip install nvidia-cuda-nvrtc` (CUDA 13) and -cu12 put it.
    static const char *const places[] = {
        "/usr/local/cuda*/lib64/libnvrtc.so.1[23]",
        "/opt/cuda/lib64/libnvrtc.so.1[23]",
        "/usr/lib/*-linux-gnu/libnvrtc.so.1[23]",
        "/usr/lib/cuda/lib64/libnvrtc.so.1[23]",
        "/usr/local/lib/python3*/*-packages/nvidia/cu1[23]/lib/libnvrtc.so.1[23]",
        "/usr/local/lib/python3*/*-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.1[23]",
    };
    // Below a folder that the user names: a lib folder, a CUDA toolkit, site-packages or a virtual environment.
    static const char *const below[] = {
        "libnvrtc.so.1[23]",
        "lib64/libnvrtc.so.1[23]",
        "lib/libnvrtc.so.1[23]",
        "nvidia/cu1[23]/lib/libnvrtc.so.1[23]",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.1[23]",
        "lib/python3*/site-packages/nvidia/cu1[23]/lib/libnvrtc.so.1[23]",
        "lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.1[23]",
    };
    memset(nvrtc, 0, sizeof *nvrtc);
    if (path) {
        if (open_nvrtc_at(nvrtc, path, major_max)) return KM_OK;
        for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
            char pattern[4096];
            snprintf(pattern, sizeof pattern, "%s/%s", path, below[i]);
            if (open_nvrtc_in(nvrtc, pattern, major_max)) return KM_OK;
        }
    }
    if (open_nvrtc_beside(nvrtc, major_max)) return KM_OK;
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
    for (int i = 0; i < 2; i++)
        if (open_nvrtc_at(nvrtc, names[i], major_max)) return KM_OK;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (open_nvrtc_in(nvrtc, places[i], major_max)) return KM_OK;
    memset(nvrtc, 0, sizeof *nvrtc);
    return km_fail(err, KM_ERROR_DEVICE,
                   "NVRTC (libnvrtc.so.13 or .12%s) was not found%s%s; install the CUDA toolkit, or "
                   "`pip install nvidia-cuda-nvrtc`%s",
                   major_max == 12 ? ": this driver takes 12 only" : "", path ? " in " : "", path ? path : "",
                   km_say(KM_SAY_NVRTC_FOLDER));
}

void km_nvrtc_close(km_nvrtc *nvrtc) {
    if (nvrtc->library) dlclose(nvrtc->library);
    memset(nvrtc, 0, sizeof *nvrtc);
}

// SPDX-License-Identifier: MIT
#include "nccl.h"
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../share.h"
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static km_nccl the_nccl;
static int nccl_is_there;
static pthread_once_t nccl_once = PTHREAD_ONCE_INIT;

static int take(void *library) {
#define KM_NCCL_SYMBOL(name, parameters) {#name, &the_nccl.name},
    const struct {
        const char *name;
        void *place;
    } symbols[] = {KM_NCCL_CALLS(KM_NCCL_SYMBOL){"ncclGetErrorString", &the_nccl.ncclGetErrorString}};
#undef KM_NCCL_SYMBOL
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) return 0;
        memcpy(symbols[i].place, &address, sizeof address);
    }
    return the_nccl.ncclGetVersion(&the_nccl.version) == 0;
}

static int open_at(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library && take(library);
}

static int open_in(const char *pattern) {
    glob_t found;
    int opened = 0;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i-- > 0 && !opened;) opened = open_at(found.gl_pathv[i]);
        globfree(&found);
    }
    return opened;
}

// By the loader's own search, then in the site-packages that hold this library, then where PyPI's nvidia-nccl and the
// distributions put it.
static void open_nccl(void) {
    static const char *const places[] = {
        "/usr/lib/*-linux-gnu/libnccl.so.2",
        "/usr/local/cuda*/lib64/libnccl.so.2",
        "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
    };
    Dl_info own;
    char pattern[4096];
    nccl_is_there = open_at("libnccl.so.2");
    if (!nccl_is_there && dladdr(&the_nccl, &own) && own.dli_fname) {
        const char *slash = strrchr(own.dli_fname, '/');
        snprintf(pattern, sizeof pattern, "%.*s/../nvidia/nccl/lib/libnccl.so.2",
                 slash ? (int)(slash - own.dli_fname) : 0, own.dli_fname);
        nccl_is_there = slash && open_in(pattern);
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !nccl_is_there; i++)
        nccl_is_there = open_in(places[i]);
}

const km_nccl *km_nccl_get(void) {
    pthread_once(&nccl_once, open_nccl);
    return nccl_is_there ? &the_nccl : NULL;
}

// A number of this machine and GPU, the same for ranks with the same one.
static double hash_of_device(const km_cuda_engine *engine) {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return (double)(XXH3_64bits_withSeed(name, strlen(name), (uint64_t)engine->device->ordinal) >> 12);
}

// Whether every rank has NCCL, and a GPU of its own.
static km_status may_open(int *may, km_cuda_engine *engine, km_error *err) {
    km_share *share = engine->base.share;
    int64_t size = share->ranks->size;
    double own[2] = {km_nccl_get() != NULL, hash_of_device(engine)};
    double *all = malloc((size_t)size * sizeof own);
    if (!all) return km_fail_memory(err, "the devices of ranks", size * (int64_t)sizeof own);
    km_status status = km_share_gather(share, all, size, own, share->ranks->rank, 1, 2, err);
    *may = size > 1;
    for (int64_t r = 0; r < size && status == KM_OK; r++) {
        if (all[2 * r] == 0) *may = 0;
        for (int64_t other = 0; other < r; other++)
            if (all[2 * r + 1] == all[2 * other + 1]) *may = 0;
    }
    free(all);
    return status;
}

km_status km_cuda_nccl_sum(km_cuda_engine *engine, km_cu_ptr at, int64_t count, km_error *err) {
    void *values = (void *)(uintptr_t)at;
    int result = the_nccl.ncclAllReduce(values, values, (size_t)count, KM_NCCL_INT64, KM_NCCL_SUM,
                                        engine->nccl, engine->stream);
    return result == 0
               ? KM_OK
               : km_fail(err, KM_ERROR_DEVICE, "ncclAllReduce: %s", the_nccl.ncclGetErrorString(result));
}

// The first rank's id, on all.
static km_status tell_id(km_nccl_id *id, km_share *share, km_error *err) {
    double letters[KM_NCCL_ID_BYTES] = {0};
    int result = share->ranks->rank == 0 ? the_nccl.ncclGetUniqueId(id) : 0;
    for (int i = 0; i < KM_NCCL_ID_BYTES && result == 0; i++) letters[i] = (unsigned char)id->bytes[i];
    KM_TRY(km_share_sum(share, letters, KM_NCCL_ID_BYTES, err));
    for (int i = 0; i < KM_NCCL_ID_BYTES; i++) id->bytes[i] = (char)(unsigned char)letters[i];
    return KM_OK;
}

int64_t km_cuda_nccl_pass = 8192;

km_status km_cuda_nccl_open(km_cuda_engine *engine, km_error *err) {
    km_share *share = engine->base.share;
    const char *why = "";
    km_nccl_id id = {{0}};
    int may = 0;
    double begin_ms = km_now_ms();
    KM_TRY(may_open(&may, engine, err));
    if (!may) {
        km_log_line(engine->log, KM_LOG_INFO, "ranks: the host joins totals: %s",
                    km_nccl_get() ? "NCCL needs a GPU for each rank"
                                  : "libnccl.so.2 is not there; `pip install nvidia-nccl-cu13` has it");
        return KM_OK;
    }
    KM_TRY(tell_id(&id, share, err));
    int result =
        the_nccl.ncclCommInitRank(&engine->nccl, (int)share->ranks->size, id, (int)share->ranks->rank);
    if (result != 0) why = the_nccl.ncclGetErrorString(result);
    double failures = result != 0;
    KM_TRY(km_share_sum(share, &failures, 1, err));
    if (failures > 0) {
        km_cuda_nccl_close(engine, 1);
        km_log_line(engine->log, KM_LOG_INFO, "ranks: the host joins totals: NCCL cannot begin%s%s",
                    *why ? ": " : "", why);
        return KM_OK;
    }
    km_log_line(engine->log, KM_LOG_INFO,
                "ranks: NCCL %d.%d joins totals of %lld GPUs from here on, begun in %.0f ms",
                the_nccl.version / 10000, the_nccl.version % 10000 / 100, (long long)share->ranks->size,
                km_now_ms() - begin_ms);
    return KM_OK;
}

void km_cuda_nccl_close(km_cuda_engine *engine, int has_failed) {
    if (!engine->nccl) return;
    if (has_failed)
        the_nccl.ncclCommAbort(engine->nccl); // what other ranks do not come to ends so
    else
        the_nccl.ncclCommDestroy(engine->nccl);
    engine->nccl = NULL;
}

// SPDX-License-Identifier: MIT
// Points that come from the host in every pass, beside the rate of pinned copies on this machine.
//
//     [DEVICES=2] cuda_stream POINTS FEATURES KS MAX_ITER BOUND...
//
// One fit for each bound of a GPU's memory in MiB, 0: none; DEVICES: of so many GPUs, which share the points. Points
// are clusters, of the same bits each time; all digests are to be the same.
#include "../tests/cuda_context.h"
#include <kmgen/fit.h>
#include <kmgen/module.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void fill(float *x, int64_t n, int64_t d) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        uint64_t state = (uint64_t)i * 0x9e3779b97f4a7c15u + 1, cluster = (uint64_t)i * 7919 % 11;
        for (int64_t f = 0; f < d; f++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            double u = (double)(state >> 33) * 0x1p-31;
            x[i * d + f] = (float)(u + (double)((cluster * (uint64_t)(f + 3)) % 13) / 4);
        }
    }
}

enum { DEVICES_MAX = 8 };

// GB/s of copies of 32 MiB from pinned memory to so many GPUs at once, the best of five turns of 2 GiB each; 0: the
// driver refused.
static double pinned_rate(int devices) {
    enum { PIECE = 32 << 20, PIECES = 64, OF_ALL = 1 };
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE), *contexts[DEVICES_MAX], *host;
    uint64_t to[DEVICES_MAX];
    int (*retain)(void **, int), (*enter)(void *), (*host_alloc)(void **, size_t, unsigned),
        (*host_free)(void *);
    int (*take)(uint64_t *, size_t), (*give)(uint64_t), (*wait)(void);
    int (*copy)(uint64_t, const void *, size_t, void *);
    void *symbols[] = {dlsym(library, "cuDevicePrimaryCtxRetain"),
                       dlsym(library, "cuCtxPushCurrent_v2"),
                       dlsym(library, "cuMemHostAlloc"),
                       dlsym(library, "cuMemFreeHost"),
                       dlsym(library, "cuMemAlloc_v2"),
                       dlsym(library, "cuMemFree_v2"),
                       dlsym(library, "cuCtxSynchronize"),
                       dlsym(library, "cuMemcpyHtoDAsync_v2")};
    memcpy(&retain, &symbols[0], sizeof retain);
    memcpy(&enter, &symbols[1], sizeof enter);
    memcpy(&host_alloc, &symbols[2], sizeof host_alloc);
    memcpy(&host_free, &symbols[3], sizeof host_free);
    memcpy(&take, &symbols[4], sizeof take);
    memcpy(&give, &symbols[5], sizeof give);
    memcpy(&wait, &symbols[6], sizeof wait);
    memcpy(&copy, &symbols[7], sizeof copy);
    for (int r = 0; r < devices; r++)
        if (retain(&contexts[r], r) || enter(contexts[r]) || take(&to[r], PIECE)) return 0;
    if (host_alloc(&host, (size_t)PIECE * PIECES, OF_ALL)) return 0;
    double best = 0;
    for (int turn = 0; turn < 5; turn++) {
        double begin = now_ms();
        for (int i = 0; i < PIECES * devices; i++)
            if (enter(contexts[i % devices]) ||
                copy(to[i % devices], (char *)host + (size_t)(i / devices) * PIECE, PIECE, NULL))
                return 0;
        for (int r = 0; r < devices; r++)
            if (enter(contexts[r]) || wait()) return 0;
        double rate = (double)PIECE * PIECES * devices * 1e-6 / (now_ms() - begin);
        if (rate > best) best = rate;
    }
    for (int r = 0; r < devices; r++)
        if (enter(contexts[r]) || give(to[r])) return 0;
    host_free(host);
    enter(contexts[0]);
    return best;
}

static void say(void *user, km_log_level level, const char *text) {
    (void)user, (void)level;
    if (getenv("VERBOSE")) fprintf(stderr, "    %s\n", text);
}

static int fit(const float *x, int64_t n, int64_t d, const char *ks, int64_t max_iter, int64_t mib,
               int devices, double rate) {
    km_error err = {{0}};
    km_data *data;
    km_spec spec;
    km_result *result = NULL;
    km_fit_params params;
    const km_log log = {say, NULL};
    km_spec_init(&spec);
    km_fit_params_init(&params);
    km_status status = km_data_from_memory(&data, x, n, d, KM_FLOAT32, 0, 0, NULL, &err);
    if (status == KM_OK) status = km_spec_set_target(&spec, "cuda", &err);
    if (status == KM_OK) status = km_spec_set_clusters(&spec, ks, &err);
    if (status == KM_OK && getenv("DESIGN")) status = km_spec_fix(&spec, "design", getenv("DESIGN"), &err);
    spec.n_init = getenv("N_INIT") ? atoll(getenv("N_INIT")) : 1;
    params.refine = 0;
    params.tol = 0;
    params.max_iter = max_iter;
    params.labels = getenv("LABELS") ? KM_LABELS_BEST : KM_LABELS_NONE;
    params.algorithm = KM_ALGORITHM_LLOYD;
    params.cache_dir = "/tmp/kmgen-stream-cache";
    params.device_memory_max = mib << 20;
    int ordinals[DEVICES_MAX];
    for (int r = 0; r < devices; r++) ordinals[r] = r;
    params.devices = ordinals;
    params.devices_count = devices > 1 ? devices : 0;
    params.log = &log;
    if (status == KM_OK) status = km_fit(&result, &spec, data, &params, &err);
    if (status != KM_OK) {
        printf("%7lld  %s\n", (long long)mib, err.text);
        return 1;
    }
    const km_timing *t = &result->timing;
    const km_plan *plan = &result->plan;
    double pass_ms = t->sweep_ms / (double)result->passes, bytes = (double)n * (double)d * 4;
    printf("%7lld %8.1f %8.0f %6lld %9.2f %7.1f %6.3f %8.0f %8.0f %8.0f %8.0f  %016llx %s\n", (long long)mib,
           (double)plan->memory_bytes / 0x1p20, (double)plan->streamed_bytes / 0x1p20,
           (long long)result->passes, pass_ms, bytes * 1e-6 / pass_ms, bytes * 1e-6 / pass_ms / rate,
           t->send_ms + t->read_ms, t->seed_ms, t->sweep_ms, t->finish_ms,
           (unsigned long long)km_result_digest(result), km_design_name(plan->design));
    fflush(stdout);
    km_result_destroy(&result);
    km_spec_clear(&spec);
    km_data_destroy(&data);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "cuda_stream POINTS FEATURES KS MAX_ITER BOUND...\n");
        return 2;
    }
    int64_t n = atoll(argv[1]), d = atoll(argv[2]);
    if (km_device_count() == 0 || !keep_cuda_context()) {
        printf("cuda_stream: skipped, no CUDA device\n");
        return 77;
    }
    float *x = malloc((size_t)(n * d) * sizeof *x);
    if (!x) return 1;
    fill(x, n, d);
    int devices = getenv("DEVICES") ? atoi(getenv("DEVICES")) : 1;
    double rate = pinned_rate(devices);
    printf("%lld x %lld, K %s, %d GPUs; copies from pinned memory: %.1f GB/s\n", (long long)n, (long long)d,
           argv[3], devices, rate);
    printf("  bound  planned streamed passes   ms/pass    GB/s  share     load     seed    sweep   finish\n");
    int failed = 0;
    for (int i = 5; i < argc; i++)
        failed |= fit(x, n, d, argv[3], atoll(argv[4]), atoll(argv[i]), devices, rate);
    free(x);
    return failed;
}

// SPDX-License-Identifier: MIT
// Times the passes of the algorithm tiles on this machine's GPU, in times of reading the points once: the table of
// docs/algorithms.md. Passes are the engine's, updates and waits of the host included.
//
//     cuda_tiles FEATURES CLUSTERS [DATA [WIDTH [ALGORITHM [PASSES [POINTS [TURNS]]]]]]     e.g. cuda_tiles 4 3..12
//
// DATA: so many normal clusters of deviation 2 (100) in a box of WIDTH (40) each way, or 0: uniform points. ALGORITHM:
// tiles (asked for, so no sample is taken), lloyd or auto. The first centroids are points. Before PASSES (30) passes
// are timed one is run, which sorts the points. Of TURNS (3) from the same centroids the least counts. The last pass
// is held against sums in double. With no TURNS the kernels are compiled, into the folder that KMGEN_CACHE names.
#include "built.h"
#include "cuda_kernels.h"
#include "hard_points.h"
#include "../gen/design.h"
#include <kmgen/data.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DATA_MAX = 4096, FEATURES_MAX = 64, READS = 20, THREADS = 256, BLOCKS = 1056 };
static const double wrong_by_max = 1e-6; // of a mean, in parts of the data's width

typedef struct bench {
    km_spec spec;
    km_algorithm algorithm;
    int64_t n, data, passes, turns;
    double width;
    km_device *device;
    km_module *module;
    km_engine *engine;
    float *points;
    km_slot_state *states;
    double *before, *after; // the centroids of all slots
    km_cu_module kernels;
    km_cu_function read, sums;
} bench;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void make_points(bench *b) {
    int64_t d = b->spec.features;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < b->n; i++) {
        uint64_t cluster = b->data ? hard_mix((uint64_t)i) % (uint64_t)b->data : 0;
        for (int64_t f = 0; f < d; f++) {
            double x =
                b->data ? hard_uniform(hard_mix((cluster * FEATURES_MAX + (uint64_t)f) ^ 0x5851f42d4c957f2du))
                        : hard_uniform(hard_mix((uint64_t)(i * d + f)));
            if (b->data)
                x = x * b->width / 2 + 2 * hard_normal(hard_mix((uint64_t)(i * d + f) + 0xd1b54a32d192ed03u));
            b->points[i * d + f] = (float)x;
        }
    }
}

static const char text[] =
    "extern \"C\" __global__ void plain_read(const float4 *x, long long count, float *out) {\n"
    "    float sum = 0;\n"
    "    const long long step = gridDim.x * 256ll;\n"
    "    long long i = blockIdx.x * 256ll + threadIdx.x;\n"
    "    for (; i + 7 * step < count; i += 8 * step) {\n"
    "        float4 v[8];\n"
    "#pragma unroll\n"
    "        for (int u = 0; u < 8; u++) v[u] = x[i + u * step];\n"
    "#pragma unroll\n"
    "        for (int u = 0; u < 8; u++) sum += v[u].x + v[u].y + v[u].z + v[u].w;\n"
    "    }\n"
    "    for (; i < count; i += step) sum += x[i].x + x[i].y + x[i].z + x[i].w;\n"
    "    if (sum == 1.25e30f) *out = sum;\n"
    "}\n"
    "extern \"C\" __global__ void sums_of(const float *points, const double *c, long long n, int d, int k, "
    "double "
    "*sums) {\n"
    "    extern __shared__ double own[];\n"
    "    for (int i = threadIdx.x; i < k * (d + 1); i += blockDim.x) own[i] = 0;\n"
    "    __syncthreads();\n"
    "    const int lane = threadIdx.x % 32;\n"
    "    for (long long first = blockIdx.x * 256ll + threadIdx.x - lane; first < n; first += gridDim.x * "
    "256ll) {\n"
    "        const float *x = points + (first + lane) * d;\n"
    "        double best = 1e300;\n"
    "        int nearest = 0;\n"
    "        for (int j = 0; j < k && first + lane < n; j++) {\n"
    "            double square = 0;\n"
    "            for (int f = 0; f < d; f++) {\n"
    "                const double away = (double)x[f] - c[j * d + f];\n"
    "                square += away * away;\n"
    "            }\n"
    "            if (square < best) best = square, nearest = j;\n"
    "        }\n"
    "        for (int p = 0; p < 32 && first + p < n; p++) {\n"
    "            const int row = __shfl_sync(0xffffffff, nearest, p) * (d + 1);\n"
    "            for (int f = lane; f <= d; f += 32)\n"
    "                atomicAdd(&own[row + f], f < d ? (double)points[(first + p) * d + f] : 1.0);\n"
    "        }\n"
    "    }\n"
    "    __syncthreads();\n"
    "    for (int i = threadIdx.x; i < k * (d + 1); i += blockDim.x) atomicAdd(&sums[i], own[i]);\n"
    "}\n";

static km_status make_kernels(bench *b, km_error *err) {
    const km_cuda_device *device = (const km_cuda_device *)b->device;
    KM_TRY(bench_load_kernels(&b->kernels, b->device, text, err));
    KM_TRY(bench_kernel(&b->read, b->kernels, "plain_read", device, err));
    return bench_kernel(&b->sums, b->kernels, "sums_of", device, err);
}

// Milliseconds of reading the points once.
static km_status read_points(double *ms, bench *b, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = (km_cuda_engine *)b->engine;
    const km_driver *driver = engine->driver;
    long long count = b->n * b->spec.features / 4;
    void *arguments[] = {&engine->points.address, &count, &engine->points.address};
    *ms = HUGE_VAL;
    for (int turn = 0; turn < 3; turn++) {
        double begin = now_ms();
        for (int i = 0; i < READS; i++)
            KM_CU(cuLaunchKernel(b->read, BLOCKS, 1, 1, THREADS, 1, 1, 0, engine->stream, arguments, NULL));
        KM_CU(cuStreamSynchronize(engine->stream));
        *ms = fmin(*ms, (now_ms() - begin) / READS);
    }
done:
    return status;
}

static km_status start(bench *b, km_error *err) {
    km_cuda_engine *engine = (km_cuda_engine *)b->engine;
    int64_t d = b->spec.features;
    for (int64_t s = 0; s < b->engine->slots_count; s++) {
        int64_t k = km_cuda_slot_k(engine, s), indices[KM_CUDA_TILES_CLUSTERS_MAX];
        double *rows = b->before + km_cuda_slot_row(engine, s) * d;
        if (k > KM_CUDA_TILES_CLUSTERS_MAX) return km_fail(err, KM_ERROR_SPEC, "K is at most 64 here");
        for (int64_t j = 0; j < k; j++)
            indices[j] = (int64_t)(hard_mix((uint64_t)(s * 1000 + j)) % (uint64_t)b->n);
        KM_TRY(km_cuda_rows(engine, rows, indices, k, err));
        KM_TRY(b->engine->backend->slot_start(b->engine, s, rows, err));
    }
    return KM_OK;
}

static km_status run(bench *b, int64_t passes, int64_t *done, km_error *err) {
    const km_stop stop = {.max_iter = 1000000, .stopped_min = b->engine->slots_count};
    return b->engine->backend->run_passes(b->engine, b->states, done, &stop, passes, err);
}

static km_status centroids(double *rows, bench *b, km_error *err) {
    km_cuda_engine *engine = (km_cuda_engine *)b->engine;
    return km_cuda_get_rows(engine, rows, &engine->centroids, 0, engine->restarts * engine->clusters_sum,
                            err);
}

// One pass more, against sums in double. *worst: the largest difference of a mean, in parts of the width.
static km_status check(double *worst, bench *b, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = (km_cuda_engine *)b->engine;
    const km_driver *driver = engine->driver;
    int64_t done, d = b->spec.features;
    km_cuda_memory memory = {0};
    double sums[KM_CUDA_TILES_CLUSTERS_MAX * (FEATURES_MAX + 1)];
    *worst = 0;
    KM_TRY(centroids(b->before, b, err));
    KM_TRY(run(b, 1, &done, err));
    KM_TRY(centroids(b->after, b, err));
    KM_TRY(km_cuda_reserve(engine, &memory, 2 * (int64_t)sizeof sums, "sums", err));
    for (int64_t s = 0; s < b->engine->slots_count; s++) {
        int64_t row = km_cuda_slot_row(engine, s), bytes = km_cuda_slot_k(engine, s) * (d + 1) * 8;
        int k = (int)km_cuda_slot_k(engine, s), features = (int)d;
        long long n = b->n;
        km_cu_ptr table = memory.address + sizeof sums;
        if (b->states[s].phase != KM_SLOT_RUNNING) continue;
        KM_TRY_GOTO(km_cuda_clear(engine, memory.address, 0, bytes, err));
        KM_TRY_GOTO(km_cuda_put(engine, table, b->before + row * d, k * d * 8, err));
        void *arguments[] = {&engine->points.address, &table, &n, &features, &k, &memory.address};
        KM_CU(cuLaunchKernel(b->sums, BLOCKS, 1, 1, THREADS, 1, 1, (unsigned)bytes, engine->stream, arguments,
                             NULL));
        KM_TRY_GOTO(km_cuda_get(engine, sums, memory.address, bytes, err));
        for (int j = 0; j < k; j++)
            for (int f = 0; f < d && sums[j * (d + 1) + d] > 0; f++)
                *worst = fmax(*worst, fabs(b->after[(row + j) * d + f] -
                                           sums[j * (d + 1) + f] / sums[j * (d + 1) + d]) /
                                          (b->data ? b->width : 2));
    }
done:
    km_cuda_release(engine, &memory);
    return status;
}

static km_status time_all(bench *b, double *worst, km_error *err) {
    km_cuda_engine *engine = (km_cuda_engine *)b->engine;
    double read, least = HUGE_VAL, first = 0;
    int64_t passes = 0, running = 0;
    for (int64_t turn = 0; turn < b->turns; turn++) {
        double begin = now_ms();
        KM_TRY(start(b, err));
        KM_TRY(run(b, 1, &passes, err));
        if (turn == 0) first = now_ms() - begin;
        begin = now_ms();
        KM_TRY(run(b, b->passes, &passes, err));
        least = fmin(least, (now_ms() - begin) / (double)passes);
    }
    for (int64_t s = 0; s < b->engine->slots_count; s++) running += b->states[s].phase == KM_SLOT_RUNNING;
    KM_TRY(read_points(&read, b, err));
    km_counters counters = {0};
    b->engine->backend->counters(b->engine, &counters);
    KM_TRY(check(worst, b, err));
    printf("d=%d K=%d..%d data=%lld: read %.4f ms, pass %.4f ms = %.3f reads; %lld passes, %lld of %lld runs "
           "go on, first "
           "%.1f ms, distances %.2f %%, means differ by %.1e\n",
           (int)b->spec.features, (int)b->spec.clusters[0], (int)b->spec.clusters[b->spec.clusters_count - 1],
           (long long)b->data, read, least, least / read, (long long)passes, (long long)running,
           (long long)engine->base.slots_count, first,
           100 * (double)counters.distances / fmax((double)counters.distances_lloyd, 1), *worst);
    return KM_OK;
}

static km_status prepare(bench *b, km_error *err) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.algorithm = b->algorithm;
    params.points = b->n;
    KM_TRY(km_device_open(&b->device, 0, NULL, NULL, err));
    KM_TRY(bench_build(&b->module, &b->spec, &params, b->device, getenv("KMGEN_CACHE"), err));
    b->points = malloc((size_t)(b->n * b->spec.features) * sizeof *b->points);
    if (!b->points) return km_fail_memory(err, "the points", b->n * b->spec.features * 4);
    return make_kernels(b, err);
}

static km_status run_bench(bench *b, double *worst, km_error *err) {
    int64_t d = b->spec.features;
    km_status status = KM_OK;
    km_data *data = NULL;
    km_data_stats stats = {0};
    double centre[2 * FEATURES_MAX] = {0};
    km_load_params load = {.scale = KM_SCALE_NONE, .centre = centre, .factor = centre + d};
    KM_TRY(prepare(b, err));
    if (b->turns == 0) return KM_OK;
    make_points(b);
    KM_TRY_GOTO(km_data_from_memory(&data, b->points, b->n, d, KM_FLOAT32, 0, 0, NULL, err));
    KM_TRY_GOTO(km_backend_cuda.engine_create(&b->engine, b->module->kernels, 0, NULL, err));
    KM_TRY_GOTO(km_data_stats_alloc(&stats, d, err));
    KM_TRY_GOTO(b->engine->backend->load(b->engine, &stats, data, &load, err));
    km_cuda_engine *engine = (km_cuda_engine *)b->engine;
    size_t rows = (size_t)(engine->restarts * engine->clusters_sum * d) * sizeof *b->before;
    b->states = calloc((size_t)b->engine->slots_count, sizeof *b->states);
    b->before = malloc(rows);
    b->after = malloc(rows);
    if (!b->states || !b->before || !b->after) {
        status = km_fail_memory(err, "centroids", (int64_t)rows);
        goto done;
    }
    KM_TRY_GOTO(km_cuda_enter(engine->device, err));
    status = time_all(b, worst, err);
    km_cuda_leave(engine->device);
done:
    if (b->engine) km_backend_cuda.engine_destroy(&b->engine);
    km_data_destroy(&data);
    km_data_stats_free(&stats);
    return status;
}

static double number(int argc, char **argv, int index, double otherwise) {
    return argc > index ? atof(argv[index]) : otherwise;
}

int main(int argc, char **argv) {
    km_error err = {{0}};
    double worst = 0;
    if (argc < 3) {
        fputs("usage: cuda_tiles FEATURES CLUSTERS [DATA [WIDTH [ALGORITHM [PASSES [POINTS [TURNS]]]]]]\n",
              stderr);
        return 2;
    }
    bench b = {.data = (int64_t)number(argc, argv, 3, 100),
               .width = number(argc, argv, 4, 40),
               .algorithm = argc > 5 ? (!strcmp(argv[5], "lloyd")  ? KM_ALGORITHM_LLOYD
                                        : !strcmp(argv[5], "auto") ? KM_ALGORITHM_AUTO
                                                                   : KM_ALGORITHM_TILES)
                                     : KM_ALGORITHM_TILES,
               .passes = (int64_t)number(argc, argv, 6, 30),
               .n = (int64_t)number(argc, argv, 7, 33554432),
               .turns = (int64_t)number(argc, argv, 8, 3)};
    if (km_device_count() == 0) {
        fputs("cuda_tiles: no CUDA device\n", stderr);
        return 77;
    }
    km_spec_init(&b.spec);
    b.spec.features =
        (int64_t)number(argc, argv, 1, 0) < FEATURES_MAX ? (int64_t)number(argc, argv, 1, 0) : FEATURES_MAX;
    km_status status = km_spec_set_target(&b.spec, "cuda", &err);
    if (status == KM_OK) status = km_spec_set_clusters(&b.spec, argv[2], &err);
    if (status == KM_OK) status = run_bench(&b, &worst, &err);
    if (status != KM_OK) fprintf(stderr, "cuda_tiles: %s: %s\n", km_status_name(status), err.text);
    if (worst > wrong_by_max) fprintf(stderr, "cuda_tiles: sums are wrong\n");
    if (b.kernels && km_cuda_enter((const km_cuda_device *)b.device, NULL) == KM_OK) {
        ((const km_cuda_device *)b.device)->driver->cuModuleUnload(b.kernels);
        km_cuda_leave((const km_cuda_device *)b.device);
    }
    km_module_destroy(&b.module);
    km_device_close(&b.device);
    km_spec_clear(&b.spec);
    free(b.points);
    free(b.states);
    free(b.before);
    free(b.after);
    return status != KM_OK || worst > wrong_by_max;
}

// SPDX-License-Identifier: MIT
// Checks every label that a design's pass gives on this machine's GPU, on data that are hard on rounding, and counts
// those out of contract (docs/numerics.md) and those that differ from the reference at all: the nearest centroid in
// double, in the difference form, ties to the lowest index. A plain kernel checks the labels, and is
// itself held against the same loop on the host for the first points of each pass.
//
//     cuda_labels DESIGN FEATURES CLUSTERS [f32|f64 [POINTS [SEEDS [PASSES]]]]     e.g. cuda_labels tensor 4 3..12
//
// DESIGN may be hamerly or elkan: the algorithm's passes, of which the bounds are checked, too. An upper bound below
// the distance to the point's own centroid, or a lower bound above that to the nearest other, is a violation: so a
// smaller distance may be skipped. `tightest` is the largest lower bound, in parts of the distance.
//
// Five kinds of data: uniform; twelve blobs that touch; integers with many exact ties; features of different scales;
// one point at 1e6 beside normal data. Of each kind SEEDS sets (2) of POINTS (33,554,432), PASSES (2) of each: the
// first centroids are points. Exit status 1: a label is out of contract, or a bound violated; 77: no GPU.
#include "built.h"
#include "cuda_kernels.h"
#include "hard_points.h"
#include "../gen/design.h"
#include <kmgen/data.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES_MAX = 1024, LOOK_THREADS = 128, HOST_POINTS = 65536 };

// The counts of a check of labels; the kernel has a struct of the same name.
typedef struct verdict {
    unsigned long long differ, wrong;
    double worst; // the largest difference of squared distances, in units of the contract's
} verdict;

// The same of a check of bounds.
typedef struct bounds_verdict {
    unsigned long long checked, upper, lower; // points, violations
    double tightest;
} bounds_verdict;

typedef struct check {
    km_spec spec;
    km_algorithm algorithm;
    int64_t n, seeds, passes;
    km_device *device;
    km_module *module;
    km_engine *engine;
    void *raw;         // n x d of the spec's type
    void *points;      // the same as the engine has them
    double *centroids; // of all slots
    int32_t *nearest;  // of the first points, by the kernel
    long long checked;
    verdict seen;
    bounds_verdict bounds;
    km_cu_module kernel_module;
    km_cu_function kernel, bounds_kernel; // the kernels of check_text
} check;

// Data --------------------------------------------------------------------------------------------------------

static void make_points(check *c, int kind, uint64_t seed) {
    int64_t d = c->spec.features;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t f = 0; f < d; f++) {
            double x = hard_value(kind, seed, i, f, d);
            if (c->spec.type == KM_FLOAT32)
                ((float *)c->raw)[i * d + f] = (float)x;
            else
                ((double *)c->raw)[i * d + f] = x;
        }
}

// Labels ------------------------------------------------------------------------------------------------------

// One thread a point. Every operation is rounded by itself, as on the host. Behind a line that says what `real` is.
static const char check_text[] =
    "struct verdict { unsigned long long differ, wrong, worst; }; // worst: a double's bits, not negative\n"
    "__device__ double square_of(const real *x, const double *c, int d) {\n"
    "    double square = 0;\n"
    "    for (int f = 0; f < d; f++) {\n"
    "        double away = __dsub_rn((double)x[f], c[f]);\n"
    "        square = __dadd_rn(square, __dmul_rn(away, away));\n"
    "    }\n"
    "    return square;\n"
    "}\n"
    "__device__ double norm2_of(const real *x, const double *c, int d) {\n"
    "    double sum = 0;\n"
    "    for (int f = 0; f < d; f++) sum += (double)x[f] * (double)x[f] + c[f] * c[f];\n"
    "    return sum;\n"
    "}\n"
    "__device__ int label_of(const void *labels, long long i, int label_bytes) {\n"
    "    return label_bytes == 1 ? ((const unsigned char *)labels)[i] : ((const unsigned short "
    "*)labels)[i];\n"
    "}\n"
    "extern \"C\" __global__ void check_labels(const real *points, const void *labels, const double "
    "*centroids,\n"
    "                                 long long n, int d, int k, double contract, verdict *seen, int "
    "*nearest_of,\n"
    "                                 long long nearest_count, int label_bytes) {\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    const real *x = points + i * d;\n"
    "    int label = label_of(labels, i, label_bytes), nearest = 0;\n"
    "    double best = 1e308 * 10, own = best;\n"
    "    for (int j = 0; j < k; j++) {\n"
    "        double square = square_of(x, centroids + (long long)j * d, d);\n"
    "        if (j == label) own = square;\n"
    "        if (square < best) best = square, nearest = j;\n"
    "    }\n"
    "    if (i < nearest_count) nearest_of[i] = nearest;\n"
    "    if (label == nearest) return;\n"
    "    double allowed = label < k ? contract * norm2_of(x, centroids + (long long)label * d, d) : 0;\n"
    "    double share = (own - best) / allowed;\n"
    "    atomicAdd(&seen->differ, 1ull);\n"
    "    if (!(share <= 1)) atomicAdd(&seen->wrong, 1ull);\n"
    "    atomicMax(&seen->worst, (unsigned long long)__double_as_longlong(share));\n"
    "}\n"
    "struct bounds_verdict { unsigned long long checked, upper, lower, tightest; };\n"
    "extern \"C\" __global__ void check_bounds(const real *points, const void *labels, const double "
    "*centroids,\n"
    "                                 const double *paths, const float *upper, const float *slack, long long "
    "n,\n"
    "                                 int d, int k, int label_bytes, bounds_verdict *seen) {\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    const real *x = points + i * d;\n"
    "    int label = label_of(labels, i, label_bytes);\n"
    "    double own = 0, other = 1e308;\n"
    "    for (int j = 0; j < k; j++) {\n"
    "        double square = square_of(x, centroids + (long long)j * d, d);\n"
    "        if (j == label) own = square;\n"
    "        else other = square < other ? square : other;\n"
    "    }\n"
    "    own = sqrt(own) * (1 - 1e-14);\n"
    "    other = sqrt(other) * (1 + 1e-14);\n"
    "    double most = (double)upper[i] + paths[2 * label],\n"
    "           least = (double)slack[i] + (double)upper[i] - paths[2 * label + 1];\n"
    "    if (!(most >= own)) atomicAdd(&seen->upper, 1ull);\n"
    "    if (!(least <= other)) atomicAdd(&seen->lower, 1ull);\n"
    "    unsigned long long part = least > 0 && other < 1e150 ? __double_as_longlong(least / other) : 0;\n"
    "    if (part > *(volatile unsigned long long *)&seen->tightest) atomicMax(&seen->tightest, part);\n"
    "}\n";

static double at(const check *c, int64_t index) {
    return c->spec.type == KM_FLOAT32 ? (double)((const float *)c->points)[index]
                                      : ((const double *)c->points)[index];
}

static km_status make_kernel(check *c, km_error *err) {
    const km_cuda_device *device = (const km_cuda_device *)c->device;
    char text[sizeof check_text + 64];
    snprintf(text, sizeof text, "typedef %s real;\n%s", c->spec.type == KM_FLOAT32 ? "float" : "double",
             check_text);
    KM_TRY(bench_load_kernels(&c->kernel_module, c->device, text, err));
    KM_TRY(bench_kernel(&c->kernel, c->kernel_module, "check_labels", device, err));
    return bench_kernel(&c->bounds_kernel, c->kernel_module, "check_bounds", device, err);
}

// The kernel's nearest centroids of the first points against the host's.
static km_status hold_against_host(const check *c, const double *centroids, int64_t k, km_error *err) {
    int64_t d = c->spec.features, count = c->n < HOST_POINTS ? c->n : HOST_POINTS, wrong = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong)
    for (int64_t i = 0; i < count; i++) {
        int64_t nearest = 0;
        double best = HUGE_VAL;
        for (int64_t j = 0; j < k; j++) {
            double square = 0;
            for (int64_t f = 0; f < d; f++) {
                double away = at(c, i * d + f) - centroids[j * d + f];
                square += away * away;
            }
            if (square < best) best = square, nearest = j;
        }
        wrong += nearest != c->nearest[i];
    }
    if (wrong)
        return km_fail(err, KM_ERROR_INTERNAL, "the kernel that checks labels is wrong %lld times",
                       (long long)wrong);
    return KM_OK;
}

static void take_verdict(check *c, const verdict *seen) {
    c->checked += c->n;
    c->seen.differ += seen->differ;
    c->seen.wrong += seen->wrong;
    c->seen.worst = fmax(c->seen.worst, seen->worst);
}

// All labels of a slot, which lie on the device.
static km_status check_all(check *c, km_cu_ptr labels, const double *centroids, int64_t k, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = (km_cuda_engine *)c->engine;
    const km_driver *driver = engine->driver;
    int64_t centroids_bytes = k * c->spec.features * 8, count = c->n < HOST_POINTS ? c->n : HOST_POINTS;
    km_cuda_memory memory = {0};
    verdict seen = {0, 0, 0};
    KM_TRY(km_cuda_reserve(engine, &memory, centroids_bytes + count * 4 + (int64_t)sizeof seen, "verdicts",
                           err));
    km_cu_ptr table = memory.address, verdicts = table + (km_cu_ptr)centroids_bytes,
              nearest = verdicts + sizeof seen;
    int features = (int)c->spec.features, clusters = (int)k, label_bytes = (int)km_cuda_label_bytes(engine);
    long long n = c->n, nearest_count = count;
    double contract = c->spec.type == KM_FLOAT32 ? 0x1p-20 : 0x1p-48;
    KM_TRY_GOTO(km_cuda_put(engine, table, centroids, centroids_bytes, err));
    KM_TRY_GOTO(km_cuda_put(engine, verdicts, &seen, sizeof seen, err));
    void *arguments[] = {&engine->points.address,
                         &labels,
                         &table,
                         &n,
                         &features,
                         &clusters,
                         &contract,
                         &verdicts,
                         &nearest,
                         &nearest_count,
                         &label_bytes};
    KM_CU(cuLaunchKernel(c->kernel, (unsigned)km_divide_up(c->n, LOOK_THREADS), 1, 1, LOOK_THREADS, 1, 1, 0,
                         engine->stream, arguments, NULL));
    KM_TRY_GOTO(km_cuda_get(engine, &seen, verdicts, sizeof seen, err));
    KM_TRY_GOTO(km_cuda_get(engine, c->nearest, nearest, count * 4, err));
    take_verdict(c, &seen);
    status = hold_against_host(c, centroids, k, err);
done:
    km_cuda_release(engine, &memory);
    return status;
}

// The bounds of a slot, where its last pass kept some, about the centroids that the pass had.
static km_status check_bounds(check *c, int64_t slot, km_cu_ptr labels, const double *centroids,
                              km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = (km_cuda_engine *)c->engine;
    const km_bounds_args *args = km_cuda_bounds_of(engine);
    const km_driver *driver = engine->driver;
    int64_t k = km_cuda_slot_k(engine, slot), row = km_cuda_slot_row(engine, slot), d = c->spec.features;
    km_bounds_slot own;
    km_cuda_memory memory = {0};
    if (!args) return KM_OK;
    KM_TRY(km_cuda_get(engine, &own, (km_cu_ptr)(uintptr_t)(args->slots + slot), sizeof own, err));
    if (own.mode != BOUNDS_KEPT) return KM_OK;
    int64_t table_bytes = k * (int64_t)sizeof(km_bounds_centroid), centroids_bytes = k * d * 8;
    km_bounds_centroid *table = malloc((size_t)table_bytes);
    double *paths = malloc((size_t)(2 * k) * sizeof *paths);
    bounds_verdict seen = {0};
    if (!table || !paths) {
        status = km_fail_memory(err, "paths", table_bytes);
        goto done;
    }
    KM_TRY_GOTO(km_cuda_get(engine, table, (km_cu_ptr)(uintptr_t)(args->table + row), table_bytes, err));
    for (int64_t j = 0; j < k; j++) {
        paths[2 * j] = table[j].path;
        paths[2 * j + 1] = table[j].others;
    }
    KM_TRY_GOTO(km_cuda_reserve(engine, &memory, centroids_bytes + 2 * k * 8 + (int64_t)sizeof seen,
                                "verdicts", err));
    km_cu_ptr at = memory.address, paths_at = at + (km_cu_ptr)centroids_bytes,
              verdicts = paths_at + (km_cu_ptr)(2 * k * 8);
    const float *upper = args->upper + slot * args->n, *slack = args->slack + slot * args->n;
    long long n = c->n;
    int features = (int)d, clusters = (int)k, label_bytes = (int)km_cuda_label_bytes(engine);
    KM_TRY_GOTO(km_cuda_put(engine, at, centroids, centroids_bytes, err));
    KM_TRY_GOTO(km_cuda_put(engine, paths_at, paths, 2 * k * 8, err));
    KM_TRY_GOTO(km_cuda_put(engine, verdicts, &seen, sizeof seen, err));
    void *arguments[] = {&engine->points.address,
                         &labels,
                         &at,
                         &paths_at,
                         &upper,
                         &slack,
                         &n,
                         &features,
                         &clusters,
                         &label_bytes,
                         &verdicts};
    KM_CU(cuLaunchKernel(c->bounds_kernel, (unsigned)km_divide_up(c->n, LOOK_THREADS), 1, 1, LOOK_THREADS, 1,
                         1, 0, engine->stream, arguments, NULL));
    KM_TRY_GOTO(km_cuda_get(engine, &seen, verdicts, sizeof seen, err));
    c->bounds.checked += (unsigned long long)c->n;
    c->bounds.upper += seen.upper;
    c->bounds.lower += seen.lower;
    c->bounds.tightest = fmax(c->bounds.tightest, seen.tightest);
done:
    km_cuda_release(engine, &memory);
    free(table);
    free(paths);
    return status;
}

// The run -----------------------------------------------------------------------------------------------------

// Every slot's centroids and phase before a pass, the pass, every label. `first`: the centroids are those of start_all.
static km_status check_pass(check *c, km_slot_state *states, int first, km_error *err) {
    km_cuda_engine *engine = (km_cuda_engine *)c->engine;
    int64_t d = c->spec.features, passes,
            stride = km_round_up(c->n, KM_ALIGN_BYTES) * km_cuda_label_bytes(engine);
    const km_stop stop = {.max_iter = 1000};
    if (!first)
        KM_TRY(km_cuda_get_rows(engine, c->centroids, &engine->centroids, 0,
                                engine->restarts * engine->clusters_sum, err));
    km_slot_phase *before = malloc((size_t)c->engine->slots_count * sizeof *before);
    if (!before) return km_fail_memory(err, "phases", c->engine->slots_count);
    for (int64_t s = 0; s < c->engine->slots_count; s++) before[s] = states[s].phase;
    km_status status = c->engine->backend->run_passes(c->engine, states, &passes, &stop, 1, err);
    for (int64_t s = 0; s < c->engine->slots_count && status == KM_OK; s++) {
        if (before[s] != KM_SLOT_RUNNING && before[s] != KM_SLOT_LAST) continue;
        const km_cu_ptr labels = engine->labels.address + (km_cu_ptr)(s * stride);
        const double *centroids = c->centroids + km_cuda_slot_row(engine, s) * d;
        status = check_all(c, labels, centroids, km_cuda_slot_k(engine, s), err);
        if (status == KM_OK) status = check_bounds(c, s, labels, centroids, err);
    }
    free(before);
    return status;
}

// Points here and there as first centroids of every slot, which the engine may keep until it runs.
static km_status start_all(check *c, km_slot_state *states, uint64_t seed, km_error *err) {
    km_cuda_engine *engine = (km_cuda_engine *)c->engine;
    int64_t d = c->spec.features;
    for (int64_t s = 0; s < c->engine->slots_count; s++) {
        int64_t k = km_cuda_slot_k(engine, s);
        double *centroids = c->centroids + km_cuda_slot_row(engine, s) * d;
        for (int64_t j = 0; j < k; j++) {
            int64_t row = (int64_t)(hard_mix(seed + (uint64_t)(s * 1000 + j)) % (uint64_t)c->n);
            for (int64_t f = 0; f < d; f++) centroids[j * d + f] = at(c, row * d + f);
        }
        KM_TRY(c->engine->backend->slot_start(c->engine, s, centroids, err));
        states[s].phase = KM_SLOT_RUNNING;
    }
    return KM_OK;
}

// One set of points: load, read back what the engine has, passes.
static km_status check_set(check *c, uint64_t seed, km_error *err) {
    int64_t d = c->spec.features, bytes = c->n * d * (c->spec.type == KM_FLOAT32 ? 4 : 8);
    km_status status;
    km_data *data = NULL;
    km_data_stats stats = {0};
    km_slot_state *states = NULL;
    double *centre = calloc((size_t)(2 * d), sizeof *centre);
    km_load_params load = {.scale = KM_SCALE_NONE, .centre = centre, .factor = centre + d};
    KM_TRY_GOTO(km_data_from_memory(&data, c->raw, c->n, d, c->spec.type, 0, 0, NULL, err));
    KM_TRY_GOTO(km_backend_cuda.engine_create(&c->engine, c->module->kernels, 0, NULL, err));
    KM_TRY_GOTO(km_data_stats_alloc(&stats, d, err));
    KM_TRY_GOTO(c->engine->backend->load(c->engine, &stats, data, &load, err));
    km_cuda_engine *engine = (km_cuda_engine *)c->engine;
    states = calloc((size_t)c->engine->slots_count, sizeof *states);
    c->centroids = calloc((size_t)(engine->restarts * engine->clusters_sum * d), sizeof *c->centroids);
    KM_TRY_GOTO(km_cuda_enter(engine->device, err));
    status = km_cuda_download(engine, c->points, engine->points.address, bytes, err);
    if (status == KM_OK) status = start_all(c, states, seed, err);
    for (int64_t pass = 0; pass < c->passes && status == KM_OK; pass++)
        status = check_pass(c, states, pass == 0, err);
    km_cuda_leave(engine->device);
done:
    if (c->engine) km_backend_cuda.engine_destroy(&c->engine);
    km_data_destroy(&data);
    km_data_stats_free(&stats);
    free(states);
    free(c->centroids);
    free(centre);
    c->centroids = NULL;
    return status;
}

static km_status prepare(check *c, const char *design, km_error *err) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.algorithm = c->algorithm;
    params.track_labels = 1;
    params.points = c->n;
    KM_TRY(km_device_open(&c->device, 0, NULL, NULL, err));
    if (c->algorithm == KM_ALGORITHM_AUTO) KM_TRY(km_spec_fix(&c->spec, "design", design, err));
    KM_TRY(bench_build(&c->module, &c->spec, &params, c->device, NULL, err));
    int64_t bytes = c->n * c->spec.features * (c->spec.type == KM_FLOAT32 ? 4 : 8);
    c->raw = malloc((size_t)bytes);
    c->points = malloc((size_t)bytes);
    c->nearest = malloc(HOST_POINTS * sizeof *c->nearest);
    if (!c->raw || !c->points || !c->nearest) return km_fail_memory(err, "the points", 2 * bytes);
    return make_kernel(c, err);
}

static int64_t number(int argc, char **argv, int index, int64_t otherwise) {
    return argc > index ? atoll(argv[index]) : otherwise;
}

int main(int argc, char **argv) {
    km_error err = {{0}};
    check c = {.n = number(argc, argv, 5, 33554432),
               .seeds = number(argc, argv, 6, 2),
               .passes = number(argc, argv, 7, 2)};
    if (argc < 4) {
        fputs("usage: cuda_labels DESIGN FEATURES CLUSTERS [f32|f64 [POINTS [SEEDS [PASSES]]]]\n", stderr);
        return 2;
    }
    if (km_device_count() == 0) {
        fputs("cuda_labels: no CUDA device\n", stderr);
        return 77;
    }
    km_spec_init(&c.spec);
    if (!strcmp(argv[1], "hamerly")) c.algorithm = KM_ALGORITHM_HAMERLY;
    if (!strcmp(argv[1], "elkan")) c.algorithm = KM_ALGORITHM_ELKAN;
    c.spec.features = number(argc, argv, 2, 0) < FEATURES_MAX ? number(argc, argv, 2, 0) : FEATURES_MAX;
    c.spec.type = argc > 4 && !strcmp(argv[4], "f64") ? KM_FLOAT64 : KM_FLOAT32;
    km_status status = km_spec_set_target(&c.spec, "cuda", &err);
    if (status == KM_OK) status = km_spec_set_clusters(&c.spec, argv[3], &err);
    if (status == KM_OK) status = prepare(&c, argv[1], &err);
    unsigned long long wrong = 0;
    for (int kind = 0; kind < HARD_KINDS && status == KM_OK; kind++) {
        c.checked = 0;
        c.seen = (verdict){0, 0, 0};
        c.bounds = (bounds_verdict){0};
        for (int64_t seed = 1; seed <= c.seeds && status == KM_OK; seed++) {
            make_points(&c, kind, (uint64_t)seed);
            status = check_set(&c, (uint64_t)seed, &err);
        }
        printf("%s d=%lld K=%s %s: %lld labels, %llu differ, %llu out of contract, worst %.3g of it\n",
               argv[1], (long long)c.spec.features, argv[3], hard_kinds[kind], c.checked, c.seen.differ,
               c.seen.wrong, c.seen.worst);
        if (c.bounds.checked)
            printf("    %llu bounds, %llu upper and %llu lower ones violated, tightest %.7f\n",
                   c.bounds.checked, c.bounds.upper, c.bounds.lower, c.bounds.tightest);
        fflush(stdout);
        wrong += c.seen.wrong + c.bounds.upper + c.bounds.lower;
    }
    if (status != KM_OK) fprintf(stderr, "cuda_labels: %s: %s\n", km_status_name(status), err.text);
    if (c.kernel_module && km_cuda_enter((const km_cuda_device *)c.device, NULL) == KM_OK) {
        ((const km_cuda_device *)c.device)->driver->cuModuleUnload(c.kernel_module);
        km_cuda_leave((const km_cuda_device *)c.device);
    }
    km_module_destroy(&c.module);
    km_device_close(&c.device);
    km_spec_clear(&c.spec);
    free(c.raw);
    free(c.points);
    free(c.nearest);
    return status != KM_OK || wrong > 0;
}

// SPDX-License-Identifier: MIT
// Checks every label that a design's pass gives on this machine's GPU, on data that are hard on rounding, and counts
// those out of contract (docs/numerics.md) and those that differ from the reference at all: the nearest centroid in
// double, in the difference form, ties to the lowest index. A plain kernel checks the labels, and is
// itself held against the same loop on the host for the first points of each pass.
//
//     cuda_labels DESIGN FEATURES CLUSTERS [f32|f64 [POINTS [SEEDS [PASSES]]]]     e.g. cuda_labels tensor 4 3..12
//
// Five kinds of data: uniform; twelve blobs that touch; integers with many exact ties; features of different scales;
// one point at 1e6 beside normal data. Of each kind SEEDS sets (2) of POINTS (33,554,432), PASSES (2) of each: the
// first centroids are points. Exit status 1: a label is out of contract; 77: no GPU.
#include "../gen/design.h"
#include "../runtime/cuda/cuda.h"
#include "../runtime/file.h"
#include "../runtime/module_state.h"
#include <kmgen/data.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOBS = 12, GRID = 10, FEATURES_MAX = 1024, LOOK_THREADS = 128, HOST_POINTS = 65536 };
static const char *const kinds[] = {"uniform", "blobs", "ties", "scales", "outlier"};
enum { KINDS = sizeof kinds / sizeof *kinds };

// The counts of a check of labels; the kernel has a struct of the same name.
typedef struct verdict {
    unsigned long long differ, wrong;
    double worst; // the largest difference of squared distances, in units of the contract's
} verdict;

typedef struct check {
    km_spec spec;
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
    km_cu_module kernel_module;
    km_cu_function kernel; // the kernel of check_text
} check;

// Data --------------------------------------------------------------------------------------------------------

static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t bits) { // -1 to 1
    return (double)(bits >> 11) * 0x1p-52 - 1;
}

static double normal(uint64_t bits) { // of twelve sums, near enough
    double sum = 0;
    for (uint64_t i = 0; i < 12; i++) sum += uniform(mix(bits + i * 0x632be59bd9b4e019u));
    return sum / 2;
}

static double value_of(int kind, uint64_t seed, int64_t i, int64_t f, int64_t d) {
    static const double scales[] = {1000, 1, 0.01, 30};
    uint64_t bits = mix(seed * 0xd1b54a32d192ed03u + (uint64_t)(i * d + f));
    switch (kind) {
    case 0:
        return uniform(bits);
    case 1:
        return 5 * uniform(mix((uint64_t)(i % BLOBS * d + f) + (seed << 32))) + normal(bits);
    case 2:
        return (double)(bits % GRID);
    case 3:
        return normal(bits) * scales[f % 4];
    default:
        return i == 12345 ? 1e6 : normal(bits);
    }
}

static void make_points(check *c, int kind, uint64_t seed) {
    int64_t d = c->spec.features;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t f = 0; f < d; f++) {
            double x = value_of(kind, seed, i, f, d);
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
    "extern \"C\" __global__ void check_labels(const real *points, const unsigned char *labels, const double "
    "*centroids,\n"
    "                                 long long n, int d, int k, double contract, verdict *seen, int "
    "*nearest_of,\n"
    "                                 long long nearest_count) {\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    const real *x = points + i * d;\n"
    "    int label = labels[i], nearest = 0;\n"
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
    "}\n";

static double at(const check *c, int64_t index) {
    return c->spec.type == KM_FLOAT32 ? (double)((const float *)c->points)[index]
                                      : ((const double *)c->points)[index];
}

static km_status make_kernel(check *c, km_error *err) {
    km_status status = KM_OK;
    const km_cuda_device *device = (const km_cuda_device *)c->device;
    const km_driver *driver = device->driver;
    char folder[] = "/tmp/cuda_labels.XXXXXX", text_path[64], cubin_path[64], text[sizeof check_text + 64];
    char *cubin = NULL;
    int64_t size;
    if (!mkdtemp(folder)) return km_fail(err, KM_ERROR_IO, "no folder in /tmp");
    snprintf(text_path, sizeof text_path, "%s/check_labels.cu", folder);
    snprintf(cubin_path, sizeof cubin_path, "%s/check_labels.cubin", folder);
    snprintf(text, sizeof text, "typedef %s real;\n%s", c->spec.type == KM_FLOAT32 ? "float" : "double",
             check_text);
    KM_TRY_GOTO(km_file_write(text_path, text, (int64_t)strlen(text), err));
    KM_TRY_GOTO(km_cuda_compile(c->device, NULL, text_path, cubin_path, NULL, NULL, err));
    KM_TRY_GOTO(km_file_read(&cubin, &size, cubin_path, 0, err));
    KM_TRY_GOTO(km_cuda_enter(device, err));
    km_cu_result result = driver->cuModuleLoadDataEx(&c->kernel_module, cubin, 0, NULL, NULL);
    if (result == 0) result = driver->cuModuleGetFunction(&c->kernel, c->kernel_module, "check_labels");
    if (result != 0) status = km_cuda_fail(err, driver, result, "loading the kernel that checks labels");
    km_cuda_leave(device);
done:
    remove(text_path);
    remove(cubin_path);
    rmdir(folder);
    free(cubin);
    return status;
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
    int features = (int)c->spec.features, clusters = (int)k;
    long long n = c->n, nearest_count = count;
    double contract = c->spec.type == KM_FLOAT32 ? 0x1p-20 : 0x1p-48;
    KM_TRY_GOTO(km_cuda_put(engine, table, centroids, centroids_bytes, err));
    KM_TRY_GOTO(km_cuda_put(engine, verdicts, &seen, sizeof seen, err));
    void *arguments[] = {
        &engine->points.address, &labels, &table, &n, &features, &clusters, &contract, &verdicts, &nearest,
        &nearest_count};
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

// The run -----------------------------------------------------------------------------------------------------

// Every slot's centroids and phase before a pass, the pass, every label. `first`: the centroids are those of start_all.
static km_status check_pass(check *c, km_slot_state *states, int first, km_error *err) {
    km_cuda_engine *engine = (km_cuda_engine *)c->engine;
    int64_t d = c->spec.features, passes, stride = km_divide_up(c->n, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
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
        status = check_all(c, engine->labels.address + (km_cu_ptr)(s * stride),
                           c->centroids + km_cuda_slot_row(engine, s) * d, km_cuda_slot_k(engine, s), err);
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
            int64_t row = (int64_t)(mix(seed + (uint64_t)(s * 1000 + j)) % (uint64_t)c->n);
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
    km_plan plan;
    km_source source;
    km_plan_params plan_params;
    km_module_params module_params;
    km_plan_init(&plan);
    km_source_init(&source);
    km_plan_params_init(&plan_params);
    km_module_params_init(&module_params);
    km_status status;
    KM_TRY_GOTO(km_device_open(&c->device, 0, NULL, NULL, err));
    KM_TRY_GOTO(km_spec_fix(&c->spec, "design", design, err));
    plan_params.facts = &c->device->facts;
    plan_params.track_labels = 1;
    plan_params.points = c->n;
    KM_TRY_GOTO(km_plan_make(&plan, &c->spec, &plan_params, err));
    KM_TRY_GOTO(km_source_emit(&source, &plan, NULL, err));
    KM_TRY_GOTO(km_module_build_on(&c->module, &source, c->device, &module_params, err));
    int64_t bytes = c->n * c->spec.features * (c->spec.type == KM_FLOAT32 ? 4 : 8);
    c->raw = malloc((size_t)bytes);
    c->points = malloc((size_t)bytes);
    c->nearest = malloc(HOST_POINTS * sizeof *c->nearest);
    if (!c->raw || !c->points || !c->nearest) status = km_fail_memory(err, "the points", 2 * bytes);
    if (status == KM_OK) status = make_kernel(c, err);
done:
    km_source_clear(&source);
    km_plan_clear(&plan);
    return status;
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
    c.spec.features = number(argc, argv, 2, 0) < FEATURES_MAX ? number(argc, argv, 2, 0) : FEATURES_MAX;
    c.spec.type = argc > 4 && !strcmp(argv[4], "f64") ? KM_FLOAT64 : KM_FLOAT32;
    km_status status = km_spec_set_target(&c.spec, "cuda", &err);
    if (status == KM_OK) status = km_spec_set_clusters(&c.spec, argv[3], &err);
    if (status == KM_OK) status = prepare(&c, argv[1], &err);
    unsigned long long wrong = 0;
    for (int kind = 0; kind < KINDS && status == KM_OK; kind++) {
        c.checked = 0;
        c.seen = (verdict){0, 0, 0};
        for (int64_t seed = 1; seed <= c.seeds && status == KM_OK; seed++) {
            make_points(&c, kind, (uint64_t)seed);
            status = check_set(&c, (uint64_t)seed, &err);
        }
        printf("%s d=%lld K=%s %s: %lld labels, %llu differ, %llu out of contract, worst %.3g of it\n",
               argv[1], (long long)c.spec.features, argv[3], kinds[kind], c.checked, c.seen.differ,
               c.seen.wrong, c.seen.worst);
        fflush(stdout);
        wrong += c.seen.wrong;
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

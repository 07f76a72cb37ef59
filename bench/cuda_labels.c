// SPDX-License-Identifier: MIT
// Looks at every label that a design's pass gives on this machine's GPU, on data that are hard on rounding, and counts
// those out of contract (docs/design.md) and those that differ from the reference at all: the nearest centroid in
// double, in the difference form, ties to the lowest index.
//
//     cuda_labels DESIGN FEATURES CLUSTERS [f32|f64 [POINTS [SEEDS [PASSES]]]]     e.g. cuda_labels tensor 4 3..12
//
// Five kinds of data: uniform; twelve blobs that touch; integers with many exact ties; features of different scales;
// one point at 1e6 beside normal data. Of each kind SEEDS sets (2) of POINTS (33,554,432), PASSES (2) of each: the
// first centroids are points. Exit status 1: a label is out of contract; 77: no GPU.
#include "../gen/planner.h"
#include "../runtime/cuda/cuda.h"
#include "../runtime/module.h"
#include <kmgen/data.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOBS = 12, GRID = 10, FEATURES_MAX = 1024 };
static const char *const kinds[] = {"uniform", "blobs", "ties", "scales", "outlier"};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct check {
    km_spec spec;
    int64_t n, seeds, passes;
    km_device *device;
    km_module *module;
    km_engine *engine;
    void *raw;         // n x d of the spec's type
    void *points;      // the same as the engine has them
    double *centroids; // of all slots
    uint8_t *labels;   // of one slot
    long long looked, differ, wrong;
    double worst; // the largest difference of squared distances, in units of the contract's
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

static double at(const check *c, int64_t index) {
    return c->spec.type == KM_FLOAT32 ? (double)((const float *)c->points)[index]
                                      : ((const double *)c->points)[index];
}

typedef struct verdict {
    long long differ, wrong;
    double worst;
} verdict;

// One label of point x against all k centroids.
static void look(verdict *v, const check *c, const double *x, int64_t label, const double *centroids,
                 int64_t k) {
    int64_t d = c->spec.features, nearest = 0;
    double best = HUGE_VAL, own = HUGE_VAL, x2 = 0, c2 = 0;
    for (int64_t j = 0; j < k; j++) {
        double square = 0;
        for (int64_t f = 0; f < d; f++)
            square += (x[f] - centroids[j * d + f]) * (x[f] - centroids[j * d + f]);
        if (j == label) own = square;
        if (square < best) best = square, nearest = j;
    }
    if (label == nearest) return;
    v->differ++;
    for (int64_t f = 0; f < d && label < k; f++) {
        x2 += x[f] * x[f];
        c2 += centroids[label * d + f] * centroids[label * d + f];
    }
    double share = (own - best) / ((c->spec.type == KM_FLOAT32 ? 0x1p-20 : 0x1p-48) * (x2 + c2));
    v->wrong += !(share <= 1);
    v->worst = fmax(v->worst, share);
}

static void look_at_all(check *c, const double *centroids, int64_t k) {
    long long differ = 0, wrong = 0;
    double worst = 0;
#pragma omp parallel for schedule(static) reduction(+ : differ, wrong) reduction(max : worst)
    for (int64_t i = 0; i < c->n; i++) {
        verdict v = {0, 0, 0};
        double x[FEATURES_MAX];
        for (int64_t f = 0; f < c->spec.features; f++) x[f] = at(c, i * c->spec.features + f);
        look(&v, c, x, c->labels[i], centroids, k);
        differ += v.differ;
        wrong += v.wrong;
        worst = fmax(worst, v.worst);
    }
    c->looked += c->n;
    c->differ += differ;
    c->wrong += wrong;
    c->worst = fmax(c->worst, worst);
}

// The run -----------------------------------------------------------------------------------------------------

// Every slot's centroids and phase before a pass, the pass, every label. `first`: the centroids are those of seat_all.
static km_status check_pass(check *c, km_slot_state *states, int first, km_error *err) {
    km_cuda_engine *engine = (km_cuda_engine *)c->engine;
    int64_t d = c->spec.features, passes, stride = km_divide_up(c->n, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
    const km_stop stop = {.iterations_max = 1000};
    if (!first) KM_TRY(km_cuda_get_rows(engine, c->centroids, 0, engine->copies * engine->clusters_sum, err));
    km_slot_phase *before = malloc((size_t)c->engine->slots_count * sizeof *before);
    if (!before) return km_fail_memory(err, "phases", c->engine->slots_count);
    for (int64_t s = 0; s < c->engine->slots_count; s++) before[s] = states[s].phase;
    km_status status = c->engine->backend->run(c->engine, states, &passes, &stop, 1, err);
    for (int64_t s = 0; s < c->engine->slots_count && status == KM_OK; s++) {
        if (before[s] != KM_SLOT_RUNNING && before[s] != KM_SLOT_LAST) continue;
        status = km_cuda_get(engine, c->labels, engine->labels.address + (km_cu_ptr)(s * stride), c->n, err);
        if (status != KM_OK) break;
        look_at_all(c, c->centroids + km_cuda_slot_row(engine, s) * d, km_cuda_slot_k(engine, s));
    }
    free(before);
    return status;
}

// Points here and there as first centroids of every slot, which the engine may keep until it runs.
static km_status seat_all(check *c, km_slot_state *states, uint64_t seed, km_error *err) {
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
    c->centroids = calloc((size_t)(engine->copies * engine->clusters_sum * d), sizeof *c->centroids);
    KM_TRY_GOTO(km_cuda_enter(engine->device, err));
    status = km_cuda_download(engine, c->points, engine->points.address, bytes, err);
    if (status == KM_OK) status = seat_all(c, states, seed, err);
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
    c->labels = malloc((size_t)c->n);
    if (!c->raw || !c->points || !c->labels) status = km_fail_memory(err, "the points", 2 * bytes);
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
    long long wrong = 0;
    for (int kind = 0; kind < KINDS && status == KM_OK; kind++) {
        c.looked = c.differ = c.wrong = 0;
        c.worst = 0;
        for (int64_t seed = 1; seed <= c.seeds && status == KM_OK; seed++) {
            make_points(&c, kind, (uint64_t)seed);
            status = check_set(&c, (uint64_t)seed, &err);
        }
        printf("%s d=%lld K=%s %s: %lld labels, %lld differ, %lld out of contract, worst %.3g of it\n",
               argv[1], (long long)c.spec.features, argv[3], kinds[kind], c.looked, c.differ, c.wrong,
               c.worst);
        fflush(stdout);
        wrong += c.wrong;
    }
    if (status != KM_OK) fprintf(stderr, "cuda_labels: %s: %s\n", km_status_name(status), err.text);
    km_module_destroy(&c.module);
    km_device_close(&c.device);
    km_spec_clear(&c.spec);
    free(c.raw);
    free(c.points);
    free(c.labels);
    return status != KM_OK || wrong > 0;
}

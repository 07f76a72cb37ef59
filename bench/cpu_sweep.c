// SPDX-License-Identifier: MIT
// The CPU engine step by step: load, ten fixed iterations of every K, the finishing pass. Each shape is checked
// against plain double loops before it is timed; rounds of all shapes are interleaved, medians are printed.
// usage: cpu_sweep [POINTS [ROUNDS [THREADS [LIST_OF_K [ALGORITHM [blobs|uniform [FEATURES [DESIGN]]]]]]]]
#include "gen/design.h"
#include "runtime/cpu/cpu.h"
#include "runtime/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHAPES = 5, STEPS = 3, ROUNDS_MAX = 64, ITERATIONS = 10, CHECKED = 4096 };
static const int64_t features[SHAPES] = {2, 4, 8, 16, 32};
static const char *const steps[STEPS] = {"load", "iterate", "finish"};

typedef struct shape {
    int64_t n, d;
    float *x;
    km_data *data;
    km_plan plan;
    km_kernels *kernels;
    int64_t distances; // of all runs
    double wall_ms[STEPS][ROUNDS_MAX], cpu_ms[STEPS][ROUNDS_MAX];
} shape;

static km_error err;

static void must(km_status status) {
    if (status == KM_OK) return;
    fprintf(stderr, "cpu_sweep: %s\n", err.text);
    exit(1);
}

static double clock_ms(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// Twelve round clusters, or a filled cube; the same points every time.
static void make_points(shape *s, int uniform) {
    uint64_t state = 1;
    s->x = malloc((size_t)(s->n * s->d) * sizeof *s->x);
    if (!s->x) exit(1);
    for (int64_t i = 0; i < s->n; i++) {
        uint64_t blob = km_mix64((uint64_t)i) % 12;
        for (int64_t f = 0; f < s->d; f++) {
            double noise = 0;
            for (int t = 0; t < 4; t++) noise += (double)(km_mix64(++state) >> 11) * 0x1p-53 - 0.5;
            double centre = (double)(km_mix64(blob * 64 + (uint64_t)f + 99) >> 11) * 0x1p-53 * 10;
            double filled = (double)(km_mix64(state) >> 11) * 0x1p-53;
            s->x[i * s->d + f] = (float)(uniform ? filled : centre + noise);
        }
    }
    must(km_data_from_memory(&s->data, s->x, s->n, s->d, KM_FLOAT32, 0, 0, NULL, &err));
}

static void build(shape *s, km_device *device, const char *ks, const char *algorithm, const char *design,
                  const char *folder) {
    char paths[3][300];
    static const char *const endings[] = {"c", "so", "log"};
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s/d%lld.%s", folder, (long long)s->d, endings[i]);
    km_spec spec;
    km_spec_init(&spec);
    spec.features = s->d;
    spec.target.kind = KM_TARGET_CPU;
    must(km_spec_set_clusters(&spec, ks, &err));
    must(km_spec_fix(&spec, "design", design, &err));
    must(km_spec_fix(&spec, "algorithm", algorithm, &err));
    must(km_spec_fix(&spec, "concurrent_restarts", "1", &err));
    km_plan_params params;
    km_plan_params_init(&params);
    params.facts = &device->facts;
    params.points = s->n;
    km_plan_init(&s->plan);
    must(km_plan_make(&s->plan, &spec, &params, &err));
    km_spec_clear(&spec);
    if (!km_design_is_emitted(s->plan.design)) {
        must(km_backend_cpu.kernels_load(&s->kernels, device, &s->plan, NULL, 0, &err));
        return;
    }
    km_source source;
    km_source_init(&source);
    must(km_source_emit(&source, &s->plan, NULL, &err));
    must(km_file_write(paths[0], source.text, source.text_size, &err));
    must(km_backend_cpu.compile(device, &source, paths[0], paths[1], paths[2], NULL, &err));
    char *binary;
    int64_t size;
    must(km_file_read(&binary, &size, paths[1], 0, &err));
    must(km_backend_cpu.kernels_load(&s->kernels, device, &s->plan, &(km_binary){binary, size}, 1, &err));
    free(binary);
    for (int i = 0; i < 3; i++) unlink(paths[i]);
    km_source_clear(&source);
}

typedef struct stopwatch {
    double wall, cpu;
} stopwatch;

static stopwatch start(void) {
    return (stopwatch){clock_ms(CLOCK_MONOTONIC), clock_ms(CLOCK_PROCESS_CPUTIME_ID)};
}

static void stop(shape *s, int step, int round, stopwatch from) {
    if (round < 0) return;
    s->wall_ms[step][round] = clock_ms(CLOCK_MONOTONIC) - from.wall;
    s->cpu_ms[step][round] = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - from.cpu;
}

// The labels of some points against double loops over the points as they were loaded.
static void check(km_engine *engine, const km_finish_model *m) {
    int64_t d = engine->d, every = engine->n / CHECKED + 1;
    double *row = malloc((size_t)d * sizeof *row);
    for (int64_t i = 0; row && i < engine->n; i += every) {
        double least = INFINITY;
        int32_t label = 0;
        must(km_backend_cpu.rows(engine, row, &i, 1, &err));
        for (int32_t j = 0; j < m->k; j++) {
            double square = 0;
            for (int64_t f = 0; f < d; f++) {
                double t = row[f] - m->centroids[j * d + f];
                square = fma(t, t, square);
            }
            if (square < least) {
                least = square;
                label = j;
            }
        }
        if (label != m->labels[i]) {
            fprintf(stderr, "cpu_sweep: d = %lld, K = %lld: point %lld has label %d instead of %d\n",
                    (long long)d, (long long)m->k, (long long)i, m->labels[i], label);
            exit(1);
        }
    }
    free(row);
}

static void run_shape(shape *s, int64_t threads, int round) {
    const km_backend *cpu = &km_backend_cpu;
    const km_spec *spec = &s->plan.spec;
    int64_t ks = spec->clusters_count, most = spec->clusters[ks - 1];
    double *centre = calloc((size_t)(2 * s->d), sizeof *centre),
           *first = calloc((size_t)(most * s->d), sizeof *first);
    int64_t *indices = calloc((size_t)most, sizeof *indices);
    km_slot_state *states = calloc((size_t)ks, sizeof *states);
    km_finish_model *models = calloc((size_t)ks, sizeof *models);
    double *numbers = calloc((size_t)(ks * most * (s->d + 5)), sizeof *numbers);
    int32_t *labels = malloc((size_t)(ks * s->n) * sizeof *labels);
    km_load_params params = {.centre = centre, .factor = centre + s->d};
    km_data_stats stats;
    km_engine *engine;
    must(km_data_stats_alloc(&stats, s->d, &err));
    must(cpu->engine_create(&engine, s->kernels, threads, NULL, &err));
    stopwatch from = start();
    must(cpu->load(engine, &stats, s->data, &params, &err));
    stop(s, 0, round, from);
    for (int64_t j = 0; j < most; j++) indices[j] = (int64_t)(km_mix64((uint64_t)j + 7) % (uint64_t)s->n);
    must(cpu->rows(engine, first, indices, most, &err));
    from = start();
    for (int64_t i = 0; i < ks; i++) must(cpu->slot_start(engine, i, first, &err));
    km_stop never = {.shift_max = -1, .max_iter = ITERATIONS};
    int64_t done = 1;
    while (done > 0) {
        must(cpu->run_passes(engine, states, &done, &never, 1000, &err));
        for (int64_t i = 0, moved; i < ks; i++)
            if (states[i].phase == KM_SLOT_EMPTY) must(cpu->relocate(engine, i, &moved, &err));
    }
    stop(s, 1, round, from);
    for (int64_t i = 0; i < ks; i++) {
        double *own = numbers + i * most * (s->d + 5), *rest = own + most * s->d;
        must(cpu->slot_read(engine, i, own, rest, &err));
        models[i] = (km_finish_model){.k = spec->clusters[i],
                                      .centroids = own,
                                      .counts = (int64_t *)rest,
                                      .weights = rest + most,
                                      .sse = rest + 2 * most,
                                      .distance = rest + 3 * most,
                                      .margin = rest + 4 * most,
                                      .labels = labels + i * s->n};
    }
    memset(labels, 0, (size_t)(ks * s->n) * sizeof *labels); // new memory is not the finishing pass's work
    from = start();
    must(cpu->finish(engine, models, ks, &err));
    stop(s, 2, round, from);
    for (int64_t i = 0; round < 0 && i < ks; i++) check(engine, &models[i]);
    km_counters counters = {0};
    cpu->counters(engine, &counters);
    s->distances += counters.distances;
    cpu->engine_destroy(&engine);
    km_data_stats_free(&stats);
    free(centre);
    free(first);
    free(indices);
    free(states);
    free(models);
    free(numbers);
    free(labels);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

int main(int argc, char **argv) {
    int64_t n = argc > 1 ? atoll(argv[1]) : 1000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    const char *ks = argc > 4 ? argv[4] : "2..12", *algorithm = argc > 5 ? argv[5] : "auto";
    const char *points = argc > 6 ? argv[6] : "blobs";
    char folder[] = "/tmp/kmgen-bench-XXXXXX";
    static shape shapes[SHAPES];
    int64_t only = argc > 7 ? atoll(argv[7]) : 0, all = only ? 1 : SHAPES;
    const char *design = argc > 8 ? argv[8] : "lanes";
    int count = 0;
    km_device *device;
    if (rounds < 1 || rounds > ROUNDS_MAX || n < 1000 || !mkdtemp(folder)) {
        fprintf(stderr, "usage: cpu_sweep [POINTS [ROUNDS [THREADS [LIST_OF_K [ALGORITHM [blobs|uniform "
                        "[FEATURES [DESIGN]]]]]]]]\n");
        return 2;
    }
    must(km_backend_cpu.device_open(&device, KM_HOST, NULL, NULL, &err));
    int64_t threads = argc > 3 ? atoll(argv[3]) : device->facts.units;
    printf("%s, %lld threads, %lld points (%s), K = %s, %s, %s, %d iterations; ms, median of %d rounds\n",
           device->facts.name, (long long)threads, (long long)n, points, ks, design, algorithm, ITERATIONS,
           rounds);
    for (int i = 0; i < all; i++) {
        shape *s = &shapes[count++];
        s->n = n;
        s->d = only ? only : features[i];
        make_points(s, !strcmp(points, "uniform"));
        build(s, device, ks, algorithm, design, folder);
        run_shape(s, threads, -1); // checked, not timed
    }
    rmdir(folder);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++) run_shape(&shapes[i], threads, round);
    printf("%4s %8s %10s %10s\n", "d", "step", "wall", "cpu");
    for (int i = 0; i < count; i++)
        for (int step = 0; step < STEPS; step++)
            printf("%4lld %8s %10.2f %10.2f\n", (long long)shapes[i].d, steps[step],
                   median(shapes[i].wall_ms[step], rounds), median(shapes[i].cpu_ms[step], rounds));
    for (int i = 0; i < count; i++) {
        printf("%lld distances of d = %lld\n", (long long)shapes[i].distances, (long long)shapes[i].d);
        km_backend_cpu.kernels_unload(&shapes[i].kernels);
        km_plan_clear(&shapes[i].plan);
        km_data_destroy(&shapes[i].data);
        free(shapes[i].x);
    }
    km_backend_cpu.device_close(&device);
    return 0;
}

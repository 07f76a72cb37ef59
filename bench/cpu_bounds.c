// SPDX-License-Identifier: MIT
// Checks every bound and label that passes of hamerly or elkan keep on the CPU, on data that are hard on rounding,
// against distances in double; what bench/cuda_labels.c does for a GPU.
//
//     cpu_bounds hamerly|elkan FEATURES CLUSTERS [f32|f64 [POINTS [PASSES]]]     e.g. cpu_bounds elkan 16 128
//
// Of each kind of data POINTS (1,000,000), PASSES (10). A bound is violated where the distance to the point's own
// centroid is above the upper one, that to another below the lower one: so a smaller distance may be skipped.
// Exit status 1: a bound was, or a label is not the nearest centroid in double.
#include "built.h"
#include "hard_points.h"
#include "../runtime/cpu/cpu.h"
#include <kmgen/data.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTERS_MAX = 4096 };

typedef struct check {
    km_spec spec;
    km_algorithm algorithm;
    int64_t n, passes;
    km_device *device;
    km_module *module;
    cpu_engine *engine;
    double *points; // as the engine has them
    int64_t bounds, upper, lower, labels;
    double tightest; // the largest lower bound, in parts of the distance
} check;

static void make_points(float *x, const check *c, int kind) {
    int64_t d = c->spec.features;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < c->n * d; i++) x[i] = (float)hard_value(kind, 1, i / d, i % d, d);
}

// The squared distances of a point to all centroids, which lie by feature.
static void squares_of(double *squares, const double *x, const double *columns, int64_t k, int64_t d) {
    for (int64_t j = 0; j < k; j++) squares[j] = 0;
    for (int64_t f = 0; f < d; f++)
        for (int64_t j = 0; j < k; j++) {
            double away = x[f] - columns[f * k + j];
            squares[j] += away * away;
        }
}

// Bounds of a slot after its pass, about the centroids that the pass had.
static km_status check_slot(check *c, int64_t s, km_error *err) {
    const double less = 1 - 1e-13;
    const cpu_slot *slot = &c->engine->slots[s];
    int64_t d = c->spec.features, k = slot->k, upper = 0, lower = 0, labels = 0;
    double tightest = 0;
    cpu_bounds_view view;
    if (!km_cpu_bounds_view(&view, c->engine, s)) return KM_OK;
    double *columns = malloc((size_t)(k * d) * sizeof *columns);
    if (!columns) return km_fail_memory(err, "centroids", k * d * 8);
    for (int64_t j = 0; j < k * d; j++) columns[j % d * k + j / d] = view.centroids[j];
#pragma omp parallel for schedule(static) reduction(+ : upper, lower, labels) reduction(max : tightest)
    for (int64_t i = 0; i < c->n; i++) {
        double squares[CLUSTERS_MAX], own = INFINITY, other = INFINITY;
        int64_t label = cpu_label_at(slot, i);
        squares_of(squares, c->points + i * d, columns, k, d);
        for (int64_t j = 0; j < k; j++)
            if (j == label)
                own = squares[j];
            else
                other = fmin(other, squares[j]);
        // Sums in another order may tell exact ties otherwise.
        labels += own * less > other;
        upper += (double)view.upper[i] + view.path[label] < sqrt(own) * less;
        double least = (double)view.slack[i] + (double)view.upper[i] - view.others[label];
        lower += least * less > sqrt(other);
        if (least > 0 && other < 1e300) tightest = fmax(tightest, least / sqrt(other));
        const float *each = view.lower ? view.lower + km_cpu_bounds_lower_row(i) * k : NULL;
        for (int64_t j = 0; each && j < k; j++)
            lower += ((double)each[j] - view.path[j]) * less > sqrt(squares[j]);
    }
    free(columns);
    c->bounds += c->n;
    c->upper += upper;
    c->lower += lower;
    c->labels += labels;
    c->tightest = fmax(c->tightest, tightest);
    return KM_OK;
}

static km_status start(check *c, km_slot_state *states, km_error *err) {
    km_engine *base = &c->engine->base;
    int64_t d = c->spec.features;
    for (int64_t s = 0; s < base->slots_count; s++) {
        int64_t k = c->engine->slots[s].k;
        double *centroids = malloc((size_t)(k * d) * sizeof *centroids);
        if (!centroids) return km_fail_memory(err, "centroids", k * d * 8);
        for (int64_t j = 0; j < k; j++) {
            const double *x = c->points + (int64_t)(hard_mix((uint64_t)(s * 1000 + j)) % (uint64_t)c->n) * d;
            memcpy(centroids + j * d, x, (size_t)d * sizeof *x);
        }
        km_status status = base->backend->slot_start(base, s, centroids, err);
        free(centroids);
        if (status != KM_OK) return status;
        states[s].phase = KM_SLOT_RUNNING;
    }
    return KM_OK;
}

static km_status check_passes(check *c, km_error *err) {
    km_engine *base = &c->engine->base;
    const km_stop stop = {.max_iter = 1000};
    int64_t passes;
    km_slot_state *states = calloc((size_t)base->slots_count, sizeof *states);
    if (!states) return km_fail_memory(err, "slots", base->slots_count);
    km_status status = start(c, states, err);
    for (int64_t pass = 0; pass < c->passes && status == KM_OK; pass++) {
        status = base->backend->run_passes(base, states, &passes, &stop, 1, err);
        for (int64_t s = 0; s < base->slots_count && status == KM_OK; s++)
            if (states[s].phase == KM_SLOT_RUNNING) status = check_slot(c, s, err);
    }
    free(states);
    return status;
}

static km_status check_kind(check *c, int kind, km_error *err) {
    int64_t d = c->spec.features;
    km_status status = KM_OK;
    km_data *data = NULL;
    km_data_stats stats = {0};
    km_engine *base = NULL;
    float *x = malloc((size_t)(c->n * d) * sizeof *x);
    double *centre = calloc((size_t)(2 * d), sizeof *centre);
    km_load_params load = {.scale = KM_SCALE_NONE, .centre = centre, .factor = centre + d};
    c->points = malloc((size_t)(c->n * d) * sizeof *c->points);
    if (!x || !centre || !c->points) {
        status = km_fail_memory(err, "the points", c->n * d * 12);
        goto done;
    }
    make_points(x, c, kind);
    KM_TRY_GOTO(km_data_from_memory(&data, x, c->n, d, KM_FLOAT32, 0, 0, NULL, err));
    KM_TRY_GOTO(c->module->kernels->device->backend->engine_create(&base, c->module->kernels, 0, NULL, err));
    c->engine = (cpu_engine *)base;
    KM_TRY_GOTO(km_data_stats_alloc(&stats, d, err));
    KM_TRY_GOTO(base->backend->load(base, &stats, data, &load, err));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < c->n; i++) km_cpu_row(c->points + i * d, c->engine, i);
    KM_TRY_GOTO(check_passes(c, err));
done:
    if (base) base->backend->engine_destroy(&base);
    km_data_destroy(&data);
    km_data_stats_free(&stats);
    free(x);
    free(centre);
    free(c->points);
    return status;
}

static km_status prepare(check *c, km_error *err) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.points = c->n;
    params.algorithm = c->algorithm;
    KM_TRY(km_device_open(&c->device, KM_HOST, NULL, NULL, err));
    KM_TRY(km_spec_fix(&c->spec, "design", "prebuilt", err));
    return bench_build(&c->module, &c->spec, &params, c->device, NULL, err);
}

int main(int argc, char **argv) {
    km_error err = {{0}};
    if (argc < 4 || (strcmp(argv[1], "hamerly") != 0 && strcmp(argv[1], "elkan") != 0)) {
        fputs("usage: cpu_bounds hamerly|elkan FEATURES CLUSTERS [f32|f64 [POINTS [PASSES]]]\n", stderr);
        return 2;
    }
    check c = {.algorithm = argv[1][0] == 'e' ? KM_ALGORITHM_ELKAN : KM_ALGORITHM_HAMERLY,
               .n = argc > 5 ? atoll(argv[5]) : 1000000,
               .passes = argc > 6 ? atoll(argv[6]) : 10};
    km_spec_init(&c.spec);
    c.spec.features = atoll(argv[2]);
    c.spec.type = argc > 4 && !strcmp(argv[4], "f64") ? KM_FLOAT64 : KM_FLOAT32;
    km_status status = km_spec_set_target(&c.spec, "cpu", &err);
    if (status == KM_OK) status = km_spec_set_clusters(&c.spec, argv[3], &err);
    if (status == KM_OK) status = prepare(&c, &err);
    int64_t wrong = 0;
    for (int kind = 0; kind < HARD_KINDS && status == KM_OK; kind++) {
        c.bounds = c.upper = c.lower = c.labels = 0;
        c.tightest = 0;
        status = check_kind(&c, kind, &err);
        printf("%s d=%lld K=%s %s: %lld bounds, %lld upper and %lld lower ones violated, %lld labels wrong, "
               "tightest "
               "%.7f\n",
               argv[1], (long long)c.spec.features, argv[3], hard_kinds[kind], (long long)c.bounds,
               (long long)c.upper, (long long)c.lower, (long long)c.labels, c.tightest);
        fflush(stdout);
        wrong += c.upper + c.lower + c.labels;
    }
    if (status != KM_OK) fprintf(stderr, "cpu_bounds: %s: %s\n", km_status_name(status), err.text);
    km_module_destroy(&c.module);
    km_device_close(&c.device);
    km_spec_clear(&c.spec);
    return status != KM_OK || wrong > 0;
}

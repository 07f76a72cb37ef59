// SPDX-License-Identifier: MIT
// Times every plan of a shape's small space on one thread of this CPU, by the thread's own clock: what else runs on the
// machine disturbs a sample at most by what it leaves in the caches. All plans are compiled and checked first; then
// come rounds of all of them, and the least of a plan's times counts. Each sample has points of its own: where they lie
// (which pages, large or small) makes up to a third of a time, and would stay with a plan. It prints what
// `kmgen tune --json` writes, for bench/model.py.
// usage: cpu_space FEATURES LIST_OF_K POINTS SECONDS CACHE_FOLDER [float64] [TARGET]
#include "base/clock.h"
#include "base/text.h"
#include "gen/space.h"
#include "runtime/module_state.h"
#include "runtime/tune/points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PASSES = 3
}; // of a sample, the first one too: as many as a tuning has of passes that take milliseconds

typedef struct timed {
    km_plan plan;
    km_module *module;
    km_engine *engine;
    double *starts;
    double *centre, *factor; // of the clustered space
} timed;

static km_error err;

static void must(km_status status) {
    if (status == KM_OK) return;
    fprintf(stderr, "cpu_space: %s\n", err.text);
    exit(1);
}

static double thread_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void build(timed *one, const km_tune_result *result, const km_tune_candidate *candidate,
                  km_device *device, const char *folder) {
    km_spec spec;
    km_source source;
    km_plan_params params;
    km_module_params module;
    km_spec_init(&spec);
    km_source_init(&source);
    km_plan_params_init(&params);
    km_module_params_init(&module);
    module.cache_dir = folder;
    params.facts = &device->facts;
    params.points = result->points;
    params.threads = 1;
    params.untuned = 1;
    km_plan_init(&one->plan);
    must(km_space_spec(&spec, &result->spec, candidate, &err));
    must(km_plan_make(&one->plan, &spec, &params, &err));
    must(km_source_emit(&source, &one->plan, NULL, &err));
    must(km_module_get(&one->module, &source, device, KM_MODULE_LOAD, &module, NULL, &err));
    km_source_clear(&source);
    km_spec_clear(&spec);
}

static void load(timed *one, const km_spec *spec, const km_backend *cpu, const km_tune_points *points) {
    int64_t d = spec->features, indices[4096], row = 0;
    one->centre = calloc((size_t)(2 * d), sizeof *one->centre);
    one->factor = one->centre + d;
    km_load_params transform = {.centre = one->centre, .factor = one->factor};
    km_data_stats stats;
    one->starts = calloc((size_t)(one->plan.clusters_sum * d), sizeof *one->starts);
    if (!one->centre || !one->starts) exit(1);
    must(cpu->engine_create(&one->engine, one->module->kernels, 1, NULL, &err));
    must(km_data_stats_alloc(&stats, d, &err));
    must(cpu->load(one->engine, &stats, points->data, &transform, &err));
    for (int64_t q = 0; q < spec->clusters_count; row += spec->clusters[q++]) {
        if (spec->clusters[q] > 4096) exit(2);
        km_tune_points_starts(indices, points, spec->clusters[q]);
        must(cpu->rows(one->engine, one->starts + row * d, indices, spec->clusters[q], &err));
    }
    km_data_stats_free(&stats);
}

static void unload(timed *one, const km_backend *cpu) {
    cpu->engine_destroy(&one->engine);
    free(one->centre);
    free(one->starts);
}

// ms of a pass.
static double run_passes(timed *one, const km_spec *spec, const km_backend *cpu, int64_t passes) {
    const km_stop stop = {.shift_max = -1, .max_iter = INT64_MAX, .stopped_min = INT64_MAX};
    km_slot_state *states = calloc((size_t)one->engine->slots_count, sizeof *states);
    int64_t done = 0, row = 0;
    for (int64_t slot = 0; slot < spec->clusters_count; row += spec->clusters[slot++])
        must(cpu->slot_start(one->engine, slot, one->starts + row * spec->features, &err));
    double began = thread_ms();
    must(cpu->run_passes(one->engine, states, &done, &stop, passes, &err));
    free(states);
    return (thread_ms() - began) / (double)done;
}

// The sums of one pass against the reference.
static void check(timed *one, const km_spec *spec, const km_backend *cpu, const km_tune_points *points) {
    int64_t d = spec->features, most = spec->clusters[spec->clusters_count - 1], row = 0;
    double *centroids = calloc((size_t)(most * (d + 1)), sizeof *centroids);
    const km_load_params transform = {.centre = one->centre, .factor = one->factor};
    if (!centroids) exit(1);
    run_passes(one, spec, cpu, 1);
    for (int64_t slot = 0; slot < spec->clusters_count; row += spec->clusters[slot++]) {
        km_tune_expected expected;
        char reason[160];
        must(
            km_tune_expect(&expected, points, &transform, one->starts + row * d, spec->clusters[slot], &err));
        must(cpu->slot_read(one->engine, slot, centroids, centroids + most * d, &err));
        if (!km_tune_is_as_expected(reason, sizeof reason, &expected, centroids, centroids + most * d)) {
            fprintf(stderr, "cpu_space: %s: %s\n", km_design_name(one->plan.design), reason);
            exit(1);
        }
        km_tune_expected_free(&expected);
    }
    free(centroids);
}

static km_status make_result(km_tune_result *result, km_space *space, km_device *device, char **argv) {
    km_plan_params params;
    km_spec_init(&result->spec);
    result->spec.features = atoll(argv[1]);
    for (char **more = argv + 6; *more; more++)
        if (!strcmp(*more, "float64"))
            result->spec.type = KM_FLOAT64;
        else
            KM_TRY(km_spec_set_target(&result->spec, *more, &err));
    KM_TRY(km_spec_set_clusters(&result->spec, argv[2], &err));
    KM_TRY(km_spec_fix(&result->spec, "algorithm", "lloyd", &err));
    KM_TRY(km_spec_fix(&result->spec, "concurrent_restarts", "1", &err));
    if (!result->spec.target.arch) result->spec.target = device->facts.target;
    result->facts = device->facts;
    result->points = atoll(argv[3]);
    result->threads = 1;
    device->backend->compiler_name(result->compiler, sizeof result->compiler, device);
    km_plan_params_init(&params);
    params.facts = &device->facts;
    params.points = result->points;
    params.threads = 1;
    KM_TRY(km_space_make(space, &result->spec, &params, 0, &err));
    result->candidates = space->candidates;
    result->candidates_count = space->count;
    result->standard = result->best = space->standard;
    return KM_OK;
}

int main(int argc, char **argv) {
    km_device *device;
    km_tune_result result = {0};
    km_tune_points points;
    km_space space;
    char *text;
    if (argc < 6 || argc > 8) {
        fprintf(stderr,
                "usage: cpu_space FEATURES LIST_OF_K POINTS SECONDS CACHE_FOLDER [float64] [TARGET]\n");
        return 2;
    }
    must(km_device_open(&device, KM_HOST, NULL, NULL, &err));
    device->facts.units = 1;
    must(make_result(&result, &space, device, argv));
    const km_spec *spec = &result.spec;
    must(km_tune_points_make(&points, result.points, spec->features, spec->clusters[spec->clusters_count - 1],
                             spec->type, &err));
    timed *all = calloc((size_t)space.count, sizeof *all);
    for (int64_t i = 0; i < space.count && all; i++)
        build(&all[i], &result, &space.candidates[i], device, argv[5]);
    for (int64_t i = 0; i < space.count && all; i++) {
        load(&all[i], spec, device->backend, &points);
        check(&all[i], spec, device->backend, &points);
        unload(&all[i], device->backend);
    }
    double until = km_now_ms() + 1e3 * atof(argv[4]);
    for (int round = 0; all && (round < 3 || km_now_ms() < until); round++)
        for (int64_t i = 0; i < space.count; i++) {
            km_tune_candidate *candidate = &space.candidates[i];
            load(&all[i], spec, device->backend, &points);
            double ms = run_passes(&all[i], spec, device->backend, PASSES);
            unload(&all[i], device->backend);
            if (round == 0) continue; // what happens only once happens now
            candidate->ms = candidate->outcome == KM_TUNE_MEASURED ? fmin(candidate->ms, ms) : ms;
            candidate->outcome = KM_TUNE_MEASURED;
            candidate->samples++;
        }
    for (int64_t i = 0; i < space.count; i++) {
        if (space.candidates[i].ms < space.candidates[result.best].ms) result.best = i;
        result.measured++;
    }
    must(km_tune_json(&text, &result, &err));
    fputs(text, stdout);
    km_text_free(text);
    return 0; // the system takes what is left
}

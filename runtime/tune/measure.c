// SPDX-License-Identifier: MIT
#include "measure.h"
#include "../../base/clock.h"
#include "../../base/size.h"
#include "../../gen/space.h"
#include "../module_state.h"
#include "../threads.h"
#include "points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOADED_MAX = 3,        // candidates whose kernels and points are on the device
    CHECK_POINTS = 200003, // that the reference looks at: several chunks, the last one in part
    SAMPLE_PASSES_MIN = 3,
    SAMPLE_PASSES_MAX = 20, // ... and at most; fewer where runs stop before that
    READ_SAMPLES = 7
};
static const double SAMPLE_MS = 4; // a sample takes so long at least, where that many passes do

// A candidate on the device.
typedef struct loaded {
    km_tune_candidate candidate;
    km_plan plan;
    km_module *module;
    km_engine *engine;
    km_data_stats stats;
    double *starts; // first centroids of each K, in the clustered space
    int64_t used;   // when it was last measured
} loaded;

struct km_measure {
    km_measure_params params;
    km_spec spec;
    km_device *device;
    km_tune_points timed, checked;
    km_load_params transform;   // of the points that are checked, as the first engine found it
    km_tune_expected *expected; // of each K
    double *checked_starts;
    loaded loaded[LOADED_MAX];
    int64_t turn, passes_max; // of a sample
};

// Open and close ----------------------------------------------------------------------------------------------

km_status km_measure_open(km_measure **out, const km_measure_params *params, km_error *err) {
    km_measure *m = *out = calloc(1, sizeof *m);
    if (!m) return km_fail_memory(err, "what measures plans", sizeof *m);
    m->params = *params;
    km_spec_init(&m->spec);
    for (int i = 0; i < LOADED_MAX; i++) km_plan_init(&m->loaded[i].plan);
    km_status status = km_spec_copy(&m->spec, params->spec, err);
    m->params.spec = &m->spec;
    m->passes_max = SAMPLE_PASSES_MAX;
    if (status == KM_OK)
        status = (params->compiles_only ? km_compiler_open : km_device_open)(
            &m->device, params->device, params->module.compiler, params->module.log, err);
    if (status != KM_OK) km_measure_close(out);
    return status;
}

static void unload(loaded *one) {
    if (one->engine) one->engine->backend->engine_destroy(&one->engine);
    km_module_destroy(&one->module);
    km_plan_clear(&one->plan);
    km_data_stats_free(&one->stats);
    free(one->starts);
    *one = (loaded){0};
    km_plan_init(&one->plan);
}

static void forget_expected(km_measure *m) {
    for (int64_t i = 0; m->expected && i < m->spec.clusters_count; i++)
        km_tune_expected_free(&m->expected[i]);
    free(m->expected);
    free(m->checked_starts);
    free(m->transform.centre);
    m->expected = NULL;
    m->checked_starts = NULL;
    m->transform = (km_load_params){0};
}

void km_measure_close(km_measure **measure) {
    km_measure *m = *measure;
    if (!m) return;
    for (int i = 0; i < LOADED_MAX; i++) unload(&m->loaded[i]);
    forget_expected(m);
    km_tune_points_free(&m->timed);
    km_tune_points_free(&m->checked);
    km_device_close(&m->device);
    km_spec_clear(&m->spec);
    free(m);
    *measure = NULL;
}

static km_plan_params plan_params(const km_measure *m) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.facts = &m->device->facts;
    params.points = m->params.points;
    params.threads = km_threads(m->params.threads, 0, NULL);
    params.untuned = 1;
    // Tables are of lloyd's passes: what the others skip depends on the data, and their kernels are the library's.
    for (int64_t i = 0; i < m->spec.fixed_count; i++)
        if (!strcmp(m->spec.fixed[i].name, "algorithm")) return params;
    params.algorithm = KM_ALGORITHM_LLOYD;
    return params;
}

// Plan and module ---------------------------------------------------------------------------------------------

static void give_up(km_tune_candidate *candidate, km_tune_outcome outcome, const char *reason) {
    candidate->outcome = outcome;
    snprintf(candidate->reason, sizeof candidate->reason, "%.*s", (int)sizeof candidate->reason - 1, reason);
}

// What of a failed step is the candidate's own: it is written down, and others go on. The rest is handed on.
static km_status note_failure(km_tune_candidate *candidate, km_status status, const km_error *own,
                              km_error *err) {
    switch (status) {
    case KM_OK:
        return KM_OK;
    case KM_ERROR_COMPILE:
    case KM_ERROR_PLAN:
        give_up(candidate, KM_TUNE_REFUSED, own->text);
        return KM_OK;
    case KM_ERROR_MEMORY:
        give_up(candidate, KM_TUNE_MEMORY, own->text);
        return KM_OK;
    default:
        return km_fail(err, status, "%s", own->text);
    }
}

static km_status make_plan(km_plan *plan, const km_measure *m, const km_tune_candidate *candidate,
                           km_error *err) {
    km_spec spec;
    km_plan_params params = plan_params(m);
    km_spec_init(&spec);
    km_status status = km_space_spec(&spec, &m->spec, candidate, err);
    if (status == KM_OK) status = km_plan_make(plan, &spec, &params, err);
    km_spec_clear(&spec);
    return status;
}

// Blocks of the pass's largest kernel on a multiprocessor, by registers, shared memory and threads.
static void describe_kernels(km_tune_candidate *candidate, const km_module *module) {
    enum { WARPS = 64, BLOCKS = 32, REGISTERS_STEP = 8, SHARED_STEP = 1024 };
    const km_plan *plan = &module->plan;
    const km_device_facts *facts = &plan->facts;
    int64_t block = km_plan_get(plan, "block");
    candidate->registers = (int32_t)module->registers;
    if (candidate->registers < 1 || block < 1) return;
    int64_t warps = km_divide_up(block, 32), shared = plan->estimates[plan->design].shared_bytes_per_block;
    int64_t blocks =
        facts->registers_per_unit / (km_round_up(candidate->registers, REGISTERS_STEP) * warps * 32);
    blocks = km_min(blocks, facts->shared_bytes_per_unit / (shared + SHARED_STEP));
    blocks = km_min(km_min(blocks, WARPS / warps), BLOCKS);
    candidate->blocks_per_sm = (int32_t)blocks;
    candidate->occupancy = (double)(blocks * warps) / WARPS;
}

static km_status build(loaded *one, km_measure *m, km_module_mode mode, km_error *err) {
    km_status status;
    km_source source;
    km_source_init(&source);
    KM_TRY_GOTO(make_plan(&one->plan, m, &one->candidate, err));
    KM_TRY_GOTO(km_source_emit(&source, &one->plan, NULL, err));
    KM_TRY_GOTO(km_module_get(&one->module, &source, m->device, mode, &m->params.module, NULL, err));
    describe_kernels(&one->candidate, one->module);
    if (one->module->spilled_bytes) {
        char reason[160];
        snprintf(reason, sizeof reason, "%.80s spills %lld bytes of registers", one->module->spilling,
                 (long long)one->module->spilled_bytes);
        give_up(&one->candidate, KM_TUNE_SPILLS, reason);
    }
done:
    km_source_clear(&source);
    return status;
}

km_status km_measure_compile(km_measure *m, km_tune_candidate *candidate, km_error *err) {
    km_error own = {""};
    loaded one = {.candidate = *candidate};
    km_plan_init(&one.plan);
    km_status status = note_failure(&one.candidate, build(&one, m, KM_MODULE_COMPILE, &own), &own, err);
    *candidate = one.candidate;
    unload(&one);
    return status;
}

// Points and passes -------------------------------------------------------------------------------------------

static km_status make_points(km_measure *m, km_error *err) {
    const km_spec *spec = &m->spec;
    int64_t clusters = spec->clusters[spec->clusters_count - 1];
    if (!m->checked.data)
        KM_TRY(km_tune_points_make(&m->checked, km_max(CHECK_POINTS, 4 * clusters), spec->features, clusters,
                                   spec->type, err));
    if (m->timed.data) return KM_OK;
    return km_tune_points_make(&m->timed, m->params.points, spec->features, clusters, spec->type, err);
}

// Brings points to the device, with first centroids of each K.
static km_status load(loaded *one, const km_measure *m, const km_tune_points *points,
                      km_load_params *transform, km_error *err) {
    const km_backend *backend = m->device->backend;
    const km_spec *spec = &m->spec;
    int64_t d = spec->features, k_max = spec->clusters[spec->clusters_count - 1], status = KM_OK;
    int64_t *indices = malloc((size_t)k_max * sizeof *indices);
    double *centre = malloc((size_t)(2 * d) * sizeof *centre);
    if (one->engine) backend->engine_destroy(&one->engine);
    km_data_stats_free(&one->stats);
    free(one->starts);
    one->starts = malloc((size_t)(one->plan.clusters_sum * d) * sizeof *one->starts);
    if (!indices || !one->starts || !centre) {
        status = km_fail_memory(err, "first centroids", one->plan.clusters_sum * d * 8);
        goto done;
    }
    *transform = (km_load_params){.centre = centre, .factor = centre + d, .log = m->params.module.log};
    KM_TRY_GOTO(backend->engine_create(&one->engine, one->module->kernels, m->params.threads,
                                       m->params.module.log, err));
    KM_TRY_GOTO(km_data_stats_alloc(&one->stats, d, err));
    KM_TRY_GOTO(backend->load(one->engine, &one->stats, points->data, transform, err));
    for (int64_t q = 0, row = 0; q < spec->clusters_count; row += spec->clusters[q++]) {
        km_tune_points_starts(indices, points, spec->clusters[q]);
        KM_TRY_GOTO(backend->rows(one->engine, one->starts + row * d, indices, spec->clusters[q], err));
    }
done:
    free(indices);
    if (status != KM_OK) {
        free(centre);
        *transform = (km_load_params){0};
    }
    return (km_status)status;
}

// Starts a run in each slot, then so many passes. `ms`: of one pass and restart.
static km_status run_passes(loaded *one, km_measure *m, int64_t passes, double *ms, km_error *err) {
    const km_backend *backend = m->device->backend;
    const km_spec *spec = &m->spec;
    const km_stop stop = {.shift_max = -1, .max_iter = INT64_MAX, .stopped_min = INT64_MAX};
    int64_t done = 0, restarts = one->engine->slots_count / spec->clusters_count;
    km_slot_state *states = calloc((size_t)one->engine->slots_count, sizeof *states);
    if (!states) return km_fail_memory(err, "the states of runs", one->engine->slots_count);
    km_status status = KM_OK;
    for (int64_t slot = 0; slot < one->engine->slots_count && status == KM_OK; slot++) {
        int64_t row = 0;
        for (int64_t q = 0; q < slot % spec->clusters_count; q++) row += spec->clusters[q];
        status = backend->slot_start(one->engine, slot, one->starts + row * spec->features, err);
    }
    double began = km_now_ms();
    if (status == KM_OK) status = backend->run_passes(one->engine, states, &done, &stop, passes, err);
    if (ms) *ms = (km_now_ms() - began) / (double)(km_max(done, 1) * restarts);
    // A run that stopped costs no more, so times of so many passes would be too small.
    for (int64_t slot = 0; slot < one->engine->slots_count; slot++)
        if (states[slot].phase != KM_SLOT_RUNNING && m->passes_max > SAMPLE_PASSES_MIN)
            m->passes_max = km_max(SAMPLE_PASSES_MIN, km_min(m->passes_max, done) / 2);
    free(states);
    return status;
}

// Checking ----------------------------------------------------------------------------------------------------

// What the reference expects of each K, once.
static km_status fill_expected(km_measure *m, const loaded *one, km_error *err) {
    const km_spec *spec = &m->spec;
    int64_t bytes = one->plan.clusters_sum * spec->features * 8;
    m->checked_starts = malloc((size_t)bytes);
    m->expected = calloc((size_t)spec->clusters_count, sizeof *m->expected);
    if (!m->checked_starts || !m->expected) return km_fail_memory(err, "what a pass must give", bytes);
    memcpy(m->checked_starts, one->starts, (size_t)bytes);
    for (int64_t q = 0, row = 0; q < spec->clusters_count; row += spec->clusters[q++])
        KM_TRY(km_tune_expect(&m->expected[q], &m->checked, &m->transform, one->starts + row * spec->features,
                              spec->clusters[q], err));
    return KM_OK;
}

// All of it or nothing, so that the next candidate finds no half.
static km_status expect(km_measure *m, const loaded *one, km_error *err) {
    km_status status = fill_expected(m, one, err);
    if (status != KM_OK) forget_expected(m);
    return status;
}

// Whether the candidate loaded the points as the one did whose points the reference looked at.
static int loads_alike(const km_measure *m, const loaded *one, const km_load_params *transform) {
    size_t d = (size_t)m->spec.features;
    return !memcmp(transform->centre, m->transform.centre, 2 * d * sizeof *transform->centre) &&
           !memcmp(one->starts, m->checked_starts, (size_t)one->plan.clusters_sum * d * sizeof *one->starts);
}

// One pass over the points that are checked, each K of each restart against the reference.
static km_status check_pass(loaded *one, km_measure *m, km_error *err) {
    const km_spec *spec = &m->spec;
    int64_t k_max = spec->clusters[spec->clusters_count - 1], d = spec->features;
    double *centroids = malloc((size_t)(k_max * (d + 1)) * sizeof *centroids);
    if (!centroids) return km_fail_memory(err, "centroids", k_max * (d + 1) * 8);
    km_status status = run_passes(one, m, 1, NULL, err);
    for (int64_t slot = 0; slot < one->engine->slots_count && status == KM_OK; slot++) {
        char reason[160];
        status = m->device->backend->slot_read(one->engine, slot, centroids, centroids + k_max * d, err);
        if (status != KM_OK ||
            km_tune_is_as_expected(reason, sizeof reason, &m->expected[slot % spec->clusters_count],
                                   centroids, centroids + k_max * d))
            continue;
        give_up(&one->candidate, KM_TUNE_WRONG, reason);
        break;
    }
    free(centroids);
    return status;
}

static km_status check(loaded *one, km_measure *m, km_error *err) {
    km_load_params transform = {0};
    km_status status = load(one, m, &m->checked, &transform, err);
    if (status == KM_OK && !m->expected) {
        m->transform = transform;
        transform.centre = NULL;
        status = expect(m, one, err);
    } else if (status == KM_OK && !loads_alike(m, one, &transform)) {
        give_up(&one->candidate, KM_TUNE_WRONG, "it loads the points in another way");
    }
    if (status == KM_OK && one->candidate.outcome == KM_TUNE_UNMEASURED) status = check_pass(one, m, err);
    free(transform.centre);
    return status;
}

// Sampling ----------------------------------------------------------------------------------------------------

// The candidate's place: where it is loaded already, else the one that was used longest ago.
static loaded *place_of(km_measure *m, const km_tune_candidate *candidate) {
    loaded *oldest = &m->loaded[0];
    for (int i = 0; i < LOADED_MAX; i++) {
        if (km_space_is_same(&m->loaded[i].candidate, candidate)) return &m->loaded[i];
        if (m->loaded[i].used < oldest->used) oldest = &m->loaded[i];
    }
    unload(oldest);
    oldest->candidate = *candidate;
    oldest->candidate.outcome = KM_TUNE_UNMEASURED;
    return oldest;
}

static km_status make_ready(loaded *one, km_measure *m, km_error *err) {
    km_load_params transform = {0};
    if (one->candidate.outcome != KM_TUNE_UNMEASURED) return KM_OK;
    KM_TRY(make_points(m, err));
    KM_TRY(build(one, m, KM_MODULE_TRY, err));
    if (one->candidate.outcome != KM_TUNE_UNMEASURED) return KM_OK;
    KM_TRY(check(one, m, err));
    if (one->candidate.outcome != KM_TUNE_UNMEASURED) return KM_OK;
    KM_TRY(load(one, m, &m->timed, &transform, err));
    free(transform.centre);
    KM_TRY(run_passes(one, m, 1, NULL, err)); // what happens only once happens now
    one->candidate.outcome = KM_TUNE_MEASURED;
    return KM_OK;
}

// The candidate, ready to be timed; NULL after an error, or where `candidate` says why it is not.
static loaded *get(km_measure *m, km_tune_candidate *candidate, km_status *status, km_error *err) {
    km_error own = {""};
    loaded *one = place_of(m, candidate);
    one->used = ++m->turn;
    *status = make_ready(one, m, &own);
    *status = note_failure(&one->candidate, *status, &own, err);
    candidate->outcome = one->candidate.outcome;
    candidate->registers = one->candidate.registers;
    candidate->blocks_per_sm = one->candidate.blocks_per_sm;
    candidate->occupancy = one->candidate.occupancy;
    memcpy(candidate->reason, one->candidate.reason, sizeof candidate->reason);
    if (*status == KM_OK && one->candidate.outcome == KM_TUNE_MEASURED) return one;
    unload(one);
    return NULL;
}

// Passes that take SAMPLE_MS together. A sample in which a run stopped is taken again, of fewer passes.
static km_status sample(loaded *one, km_measure *m, double *ms, km_error *err) {
    int64_t restarts = one->engine->slots_count / m->spec.clusters_count, allowed;
    KM_TRY(run_passes(one, m, SAMPLE_PASSES_MIN, ms, err));
    int64_t wanted = (int64_t)(SAMPLE_MS / (*ms * (double)restarts)) + 1;
    if (wanted <= SAMPLE_PASSES_MIN) return KM_OK;
    do {
        allowed = m->passes_max;
        KM_TRY(run_passes(one, m, km_min(wanted, allowed), ms, err));
    } while (m->passes_max < allowed);
    return KM_OK;
}

km_status km_measure_sample(km_measure *m, km_tune_candidate *candidate, double *ms,
                            const km_tune_candidate *beside, double *beside_ms, int count, km_error *err) {
    km_status status;
    loaded *one = get(m, candidate, &status, err), *other = NULL;
    if (!one) return status;
    if (beside) {
        km_tune_candidate copy = *beside;
        other = get(m, &copy, &status, err);
        if (!other) return status != KM_OK ? status : km_fail(err, KM_ERROR_DEVICE, "%s", copy.reason);
    }
    if (m->params.timing) m->params.timing(m->params.timing_user);
    for (int i = 0; i < count; i++) {
        if (other && i % 2) KM_TRY(sample(other, m, &beside_ms[i], err));
        KM_TRY(sample(one, m, &ms[i], err));
        if (other && i % 2 == 0) KM_TRY(sample(other, m, &beside_ms[i], err));
    }
    return KM_OK;
}

km_status km_measure_read(km_measure *m, double *ms, km_error *err) {
    int64_t bytes = m->params.points * m->spec.features * km_type_bytes(m->spec.type);
    return m->device->backend->read(m->device, ms, bytes, m->params.threads, READ_SAMPLES, err);
}

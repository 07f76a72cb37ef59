// SPDX-License-Identifier: MIT
// The whole line: spec, plan, source, module, sweep, models, selection.
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/size.h"
#include "../gen/design.h"
#include "../gen/memory.h"
#include "advice.h"
#include "build.h"
#include "criteria/axes.h"
#include "criteria/criteria.h"
#include "criteria/valley.h"
#include "csr.h"
#include "data_refuse.h"
#include "memory.h"
#include "module_state.h"
#include "refine.h"
#include "result_owner.h"
#include "sweep.h"
#include "threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// K that are tried when nobody says which.
#define CLUSTERS_DEFAULT_MAX 20
// Variances that differ more than this make the widest feature decide alone.
#define VARIANCE_RATIO_WARN 100.0
// Initial centroids lie at most so many times as far from the centre as the farthest point: squares of these
// fit every type.
#define INIT_REACH 0x1p20

// One running fit. Everything it owns is freed by fit_free; the result is handed over at the end.
typedef struct fit {
    const km_fit_params *params;
    const km_data *data;
    km_spec spec; // completed from the data
    int64_t restarts;
    km_result_owner *owner;
    km_device *device;
    char *table, table_path[4200]; // the device's own tuning table; NULL: none
    km_build build;
    km_engine *engine;
    km_data_stats stats;
    km_load_params load;
    double nonzeros; // km_data_nonzeros
    km_seeds seeds;
    km_sweep_best *best;                // clusters_count
    double *restart_centroids;          // as in km_sweep_params
    double *measured, *measured_errors; // clusters_count x KM_CRITERION_COUNT, NaN: not measured
    int64_t sweep_work;
    double begin_ms;
    km_error *err;
} fit;

void km_fit_params_init(km_fit_params *params) {
    km_module_params module;
    km_module_params_init(&module);
    *params = (km_fit_params){0};
    params->device = KM_DEVICE_AUTO;
    params->max_iter = 300;
    params->tol = 1e-4;
    params->criterion = KM_CRITERION_AUTO;
    params->refine = KM_REFINE_AUTO;
    params->cache_bytes_max = module.cache_bytes_max;
}

static km_status check_params(const km_fit_params *p, km_error *err) {
    if (p->max_iter < 1)
        return km_fail(err, KM_ERROR_USAGE, "max_iter is %lld; it must be at least 1",
                       (long long)p->max_iter);
    if (!(p->tol >= 0) || !isfinite(p->tol))
        return km_fail(err, KM_ERROR_USAGE, "tol is %g; it must be 0 or more", p->tol);
    if (p->refine < KM_REFINE_AUTO || p->refine > KM_REFINE_MAX)
        return km_fail(err, KM_ERROR_USAGE,
                       "refine is %lld; it must be KM_REFINE_AUTO, 0 (none) or a number of passes up to %lld",
                       (long long)p->refine, (long long)KM_REFINE_MAX);
    if (p->changes_min < 0)
        return km_fail(err, KM_ERROR_USAGE, "changes_min is %lld; it must be 0 (off) or more",
                       (long long)p->changes_min);
    if ((unsigned)p->algorithm >= KM_ALGORITHM_COUNT)
        return km_fail(err, KM_ERROR_USAGE, "algorithm %d does not exist", (int)p->algorithm);
    if (p->criterion != KM_CRITERION_AUTO && (unsigned)p->criterion >= KM_CRITERION_COUNT)
        return km_fail(err, KM_ERROR_USAGE, "criterion %d does not exist", (int)p->criterion);
    if (p->criteria >> KM_CRITERION_COUNT)
        return km_fail(err, KM_ERROR_USAGE, "criteria has bits above that of the last criterion, %d",
                       KM_CRITERION_COUNT - 1);
    if (p->gap_references == 1 || p->gap_references < 0)
        return km_fail(err, KM_ERROR_USAGE, "gap_references is %lld; it must be at least 2 (0: 10)",
                       (long long)p->gap_references);
    if ((unsigned)p->gap_box > KM_GAP_PRINCIPAL)
        return km_fail(err, KM_ERROR_USAGE, "gap_box %d does not exist", (int)p->gap_box);
    if (p->init == KM_INIT_GIVEN && !p->init_rows)
        return km_fail(err, KM_ERROR_USAGE, "given initial centroids need init_rows");
    return KM_OK;
}

// Completing the spec ---------------------------------------------------------------------------------------

static km_status default_clusters(km_spec *spec, int64_t n, km_error *err) {
    char text[64];
    int64_t last = n - 1 < CLUSTERS_DEFAULT_MAX ? n - 1 : CLUSTERS_DEFAULT_MAX;
    if (last < 2) return km_spec_set_clusters(spec, "1", err);
    snprintf(text, sizeof text, "2..%lld", (long long)last);
    return km_spec_set_clusters(spec, text, err);
}

static km_status drop_clusters_above(fit *f, int64_t n) {
    km_spec *spec = &f->spec;
    int64_t kept = 0;
    while (kept < spec->clusters_count && spec->clusters[kept] <= n) kept++;
    if (kept == 0)
        return km_fail(f->err, KM_ERROR_DATA,
                       "%s has %lld points, fewer than the smallest K asked for (%d): ask for "
                       "K up to %lld",
                       km_data_name(f->data), (long long)n, spec->clusters[0], (long long)n);
    if (kept < spec->clusters_count && f->owner)
        km_result_warn(f->owner, f->params->log, "K above the number of points (%lld) left out: %lld of %lld",
                       (long long)n, (long long)(spec->clusters_count - kept),
                       (long long)spec->clusters_count);
    spec->clusters_count = kept;
    return KM_OK;
}

static void warn(fit *f, const char *sentence) {
    if (f->owner)
        km_result_warn(f->owner, f->params->log, "%s", sentence);
    else
        km_log_line(f->params->log, KM_LOG_WARNING, "%s", sentence);
}

// Warns of each of these lines, which are as in km_spec.warnings.
static void warn_of_lines(fit *f, const char *lines) {
    for (const char *line = lines; *line; line += strcspn(line, "\n") + 1) {
        char sentence[1200];
        snprintf(sentence, sizeof sentence, "%.*s", (int)strcspn(line, "\n"), line);
        warn(f, sentence);
    }
}

static km_status complete_spec(fit *f, const km_spec *spec) {
    int64_t n = km_data_points(f->data), d = km_data_features(f->data);
    if (n < 1) return km_fail(f->err, KM_ERROR_DATA, "%s has no points", km_data_name(f->data));
    KM_TRY(km_spec_copy(&f->spec, spec, f->err));
    warn_of_lines(f, f->spec.warnings);
    if (f->spec.features && f->spec.features != d)
        return km_fail(f->err, KM_ERROR_DATA, "%s has %lld features but the spec %s says %lld",
                       km_data_name(f->data), (long long)d, spec->name, (long long)f->spec.features);
    if (f->params->gap_box == KM_GAP_PRINCIPAL && d > KM_PRINCIPAL_FEATURES_MAX &&
        km_criteria_wanted(f->params, KM_NEEDS_FITS))
        return km_principal_refuse(f->data, f->err);
    f->spec.features = d;
    if (f->spec.layout != KM_LAYOUT_DENSE || km_data_csr(f->data)) f->nonzeros = km_data_nonzeros(f->data);
    if (!f->spec.clusters_count) KM_TRY(default_clusters(&f->spec, n, f->err));
    if (f->params->init == KM_INIT_GIVEN) f->spec.n_init = 1;
    f->restarts = f->spec.n_init;
    return drop_clusters_above(f, n);
}

// Devices and plans -----------------------------------------------------------------------------------------

static int wanted_device(const fit *f) {
    return km_device_wanted(f->spec.target.kind, f->params->device);
}

// Whether the CPU may take a GPU's place: the caller asked for neither.
static int may_fall_back(const fit *f) {
    int is_there = f->device && f->device->backend == &km_backend_cpu;
    return f->spec.target.kind == KM_TARGET_AUTO && f->params->device == KM_DEVICE_AUTO && !is_there &&
           !f->params->tuning && wanted_device(f) != KM_HOST;
}

// The table of the device that was opened, unless the user named one. What is in it the planner looks at.
static void read_table(fit *f) {
    const km_fit_params *p = f->params;
    km_error err = {{0}};
    km_text_free(f->table);
    f->table = NULL;
    if (p->tuning || p->untuned || !p->tuning_dir) return;
    km_status status = km_tuning_read(&f->table, f->table_path, sizeof f->table_path, p->tuning_dir,
                                      f->device->facts.name, &err);
    if (status == KM_OK) return;
    char sentence[1200];
    snprintf(sentence, sizeof sentence, "%s; the tuning table is not used", err.text);
    warn(f, sentence);
}

static km_status open_device(fit *f) {
    const km_fit_params *p = f->params;
    km_error first = {{0}};
    km_status status = km_device_open(&f->device, wanted_device(f), p->compiler, p->log, &first);
    if (status != KM_OK && may_fall_back(f)) {
        if (f->owner) km_result_warn(f->owner, p->log, "the CPU is used: %s", first.text);
        KM_TRY(km_device_open(&f->device, KM_HOST, p->compiler, p->log, f->err));
    } else if (status != KM_OK) {
        return km_fail(f->err, status, "%s", first.text);
    }
    read_table(f);
    return KM_OK;
}

// Sets of labels, four bytes a point: where rows were dropped, once more for the rows of the file.
static int64_t label_sets(const fit *f) {
    int64_t sets =
        f->params->labels == KM_LABELS_ALL ? f->spec.clusters_count : f->params->labels == KM_LABELS_BEST;
    return km_data_rows(f->data) == km_data_points(f->data) ? sets : 2 * sets;
}

static km_plan_params plan_params(const fit *f) {
    km_plan_params params;
    km_plan_params_init(&params);
    params.facts = &f->device->facts;
    params.points = km_data_points(f->data);
    params.nonzeros = f->nonzeros;
    params.weighted = km_data_weights(f->data) != NULL;
    params.track_labels = f->params->changes_min > 0;
    params.tuning = f->table ? f->table : f->params->tuning;
    params.tuning_name = f->table ? f->table_path : f->params->tuning_name;
    params.tuning_found = f->table != NULL;
    params.untuned = f->params->untuned;
    params.algorithm = f->params->algorithm;
    params.value_bytes = km_data_base(f->data, KM_FLOAT32) ? 4 : 8;
    params.label_sets = label_sets(f);
    params.threads = km_threads(f->params->threads, 0, NULL);
    return params;
}

static void build_params_of(km_build_params *build, const fit *f) {
    const km_fit_params *p = f->params;
    *build = (km_build_params){.spec = &f->spec, .plan = plan_params(f), .source_text = p->source_text};
    km_module_params_init(&build->module);
    build->module.cache_dir = p->cache_dir;
    if (p->cache_bytes_max > 0) build->module.cache_bytes_max = p->cache_bytes_max;
    build->module.compiler = p->compiler;
    build->module.log = p->log;
}

// `recalls`: plans that spill, as the cache knows, are left out; their texts are emitted to ask it. A given
// text names its plan.
static km_status make_plan(km_plan *plan, const fit *f, int recalls, km_error *err) {
    km_build_params params;
    build_params_of(&params, f);
    if (recalls || params.source_text) return km_build_plan(plan, f->device, &params, err);
    return km_plan_make(plan, &f->spec, &params.plan, err);
}

static km_status refuse_plan(const fit *f, const km_plan *plan, km_error *err) {
    km_device_facts host;
    km_plan_params params = plan_params(f);
    int known = f->device->backend != &km_backend_cpu && km_device_query(&host, KM_HOST, NULL) == KM_OK;
    return km_memory_refuse(plan, &f->spec, &params, known ? &host : NULL, err);
}

// The same fit on the CPU, if it fits there; `first` says why.
static km_status plan_on_cpu(km_plan *plan, fit *f, const km_error *first) {
    km_device *device = f->device, *host = NULL;
    KM_TRY(km_device_open(&host, KM_HOST, NULL, f->params->log, f->err));
    km_plan on_host;
    km_plan_init(&on_host);
    f->device = host;
    read_table(f);
    km_status status = make_plan(&on_host, f, 0, NULL);
    int fits = status == KM_OK && km_plan_fits(&on_host);
    km_device_close(fits ? &device : &host);
    if (!fits) {
        f->device = device;
        km_plan_clear(&on_host);
        return km_fail(f->err, KM_ERROR_MEMORY, "%s", first->text);
    }
    km_plan_clear(plan);
    *plan = on_host;
    char sentence[sizeof first->text + 32];
    snprintf(sentence, sizeof sentence, "the CPU is used: %s", first->text);
    warn(f, sentence);
    return KM_OK;
}

// A plan with which the whole fit has its place in the free memory; else the fit ends before it reads or sends
// points.
static km_status plan_within(km_plan *plan, fit *f, int recalls) {
    km_error first = {{0}};
    KM_TRY(make_plan(plan, f, recalls, f->err));
    // What is said of the tuning table and of the given text comes after the spec's lines, which were said before.
    warn_of_lines(f, plan->spec.warnings + strlen(f->spec.warnings));
    if (km_plan_fits(plan)) return km_host_check("the labels", plan->host_bytes, f->err);
    refuse_plan(f, plan, &first);
    if (may_fall_back(f) && !f->params->source_text) return plan_on_cpu(plan, f, &first);
    return km_fail(f->err, KM_ERROR_MEMORY, "%s", first.text);
}

static km_status plan_fit(fit *f) {
    KM_TRY(plan_within(&f->owner->result.plan, f, 0));
    km_log_line(f->params->log, KM_LOG_INFO, "memory: a fit needs %.1f MiB, %.1f are free",
                (double)f->owner->result.plan.memory_bytes / 0x1p20,
                (double)f->device->facts.memory_free_bytes / 0x1p20);
    return KM_OK;
}

static km_status build_on_device(fit *f, km_error *err) {
    km_build_params params;
    build_params_of(&params, f);
    return km_build_on(&f->build, f->device, &params, err);
}

// Where a GPU has no compiler, or its compiler refuses all texts, the CPU is used instead, if the caller asked for
// neither and gave nothing that is for the GPU alone.
static km_status build_on_cpu(fit *f, const km_error *first) {
    const km_fit_params *p = f->params;
    km_result_warn(f->owner, p->log, "the CPU is used: %s", first->text);
    if (f->engine) f->engine->backend->engine_destroy(&f->engine);
    km_build_clear(&f->build);
    km_device_close(&f->device);
    KM_TRY(km_device_open(&f->device, KM_HOST, NULL, p->log, f->err)); // p->compiler was the GPU's
    read_table(f);
    return build_on_device(f, f->err);
}

static km_status build_module(fit *f) {
    km_error first = {{0}};
    km_status status = build_on_device(f, &first);
    int is_compiler = status == KM_ERROR_COMPILE || status == KM_ERROR_DEVICE;
    if (is_compiler && may_fall_back(f) && !f->params->source_text && !km_build_fixes_numbers(&f->spec))
        KM_TRY(build_on_cpu(f, &first));
    else if (status != KM_OK)
        return km_fail(f->err, status, "%s", first.text);
    if (f->build.warning[0]) km_result_warn(f->owner, f->params->log, "%s", f->build.warning);
    km_plan_clear(&f->owner->result.plan);
    f->owner->result.plan = f->build.plan; // with its spec, which belongs to the result from now on
    km_plan_init(&f->build.plan);
    // Another plan than the one that was to be built may need more.
    return km_plan_fits(&f->owner->result.plan) ? KM_OK : refuse_plan(f, &f->owner->result.plan, f->err);
}

// Data and seeds --------------------------------------------------------------------------------------------

static km_status report_phase(const fit *f, const char *phase, int64_t done, int64_t total) {
    const km_fit_params *p = f->params;
    km_progress progress = {phase, done, total, 0, (km_now_ms() - f->begin_ms) / 1e3};
    if (p->progress && p->progress(p->progress_user, &progress))
        return km_fail(f->err, KM_ERROR_INTERRUPTED, "interrupted in the phase %s", phase);
    return KM_OK;
}

static void warn_of_features(fit *f) {
    double low = INFINITY, high = 0;
    int64_t constant = 0, first = 0, low_at = 0, high_at = 0;
    for (int64_t i = f->engine->d - 1; i >= 0; i--) {
        double variance = f->stats.variance[i];
        if (!(f->stats.maximum[i] > f->stats.minimum[i])) {
            constant++;
            first = i;
            continue;
        }
        if (variance < low) low = variance, low_at = i;
        if (variance > high) high = variance, high_at = i;
    }
    if (constant)
        km_result_warn(f->owner, f->params->log,
                       "%lld of %lld features never change (the first is column %lld); they "
                       "do not matter to the clusters",
                       (long long)constant, (long long)f->engine->d, (long long)first + 1);
    if (f->params->scale == KM_SCALE_NONE && high > VARIANCE_RATIO_WARN * low)
        km_result_warn(f->owner, f->params->log,
                       "the variances of columns %lld and %lld differ %.3g times, so the "
                       "wider ones decide alone; scale standard weighs all features alike",
                       (long long)high_at + 1, (long long)low_at + 1, high / low);
}

// Where the backend can, before there are kernels: planning fills the time in which the last points travel.
static km_status fetch_points(fit *f) {
    if (km_plan_is_csr(&f->owner->result.plan)) return KM_OK; // the host packs them first
    return f->device->backend->engine_fetch(&f->engine, f->device, f->data, f->spec.type, f->params->threads,
                                            f->params->log, f->err);
}

static km_status make_engine(fit *f) {
    const km_backend *backend = f->device->backend;
    const km_kernels *kernels = f->build.module->kernels;
    if (f->engine && km_plan_is_csr(&f->owner->result.plan)) // another plan than the one they were sent for
        backend->engine_destroy(&f->engine);
    if (f->engine) return backend->engine_equip(f->engine, kernels, f->err);
    return backend->engine_create(&f->engine, kernels, f->params->threads, f->params->log, f->err);
}

static km_status load_points(fit *f) {
    km_result *result = &f->owner->result;
    int64_t d = f->spec.features;
    double *columns = km_result_alloc(f->owner, 5 * d, sizeof *columns, f->err);
    if (!columns) return KM_ERROR_MEMORY;
    KM_TRY(make_engine(f));
    f->load = (km_load_params){
        .scale = f->params->scale, .centre = columns, .factor = columns + 4 * d, .log = f->params->log};
    KM_TRY(km_data_stats_alloc(&f->stats, d, f->err));
    KM_TRY(f->engine->backend->load(f->engine, &f->stats, f->data, &f->load, f->err));
    result->exponent = f->load.exponent;
    for (int64_t i = 0; i < d; i++) columns[d + i] = ldexp(f->load.factor[i], -f->load.exponent);
    memcpy(columns + 2 * d, f->stats.mean, (size_t)d * sizeof *columns);
    memcpy(columns + 3 * d, f->stats.variance, (size_t)d * sizeof *columns);
    result->centre = columns;
    result->factor = columns + d;
    result->mean = columns + 2 * d;
    result->variance = columns + 3 * d;
    warn_of_features(f);
    return KM_OK;
}

typedef struct seed_progress {
    const fit *f;
    int64_t done, total;
    km_status status;
} seed_progress;

static int on_pick(void *user, int64_t picks_done) {
    seed_progress *progress = user;
    progress->status = report_phase(progress->f, "seed", progress->done + picks_done, progress->total);
    return progress->status != KM_OK;
}

// Chains of several restarts are drawn in the same passes, as many at a time as the plan has memory for.
static km_status seed_plusplus(fit *f, int64_t picks) {
    km_memory memory;
    km_memory_of(&memory, f->engine->plan);
    int64_t batch = memory.chains;
    int64_t batches = (f->restarts + batch - 1) / batch;
    seed_progress progress = {f, 0, batches * picks, KM_OK};
    for (int64_t r = 0; r < f->restarts; r += batch) {
        int64_t count = f->restarts - r < batch ? f->restarts - r : batch;
        KM_TRY(f->engine->backend->seed_plusplus(f->engine, f->seeds.indices + r * picks, r, count, picks,
                                                 f->params->seed, on_pick, &progress, f->err));
        KM_TRY(progress.status);
        progress.done += picks;
    }
    return KM_OK;
}

static double round_to_type(double value, km_type type) {
    return type == KM_FLOAT32 ? (double)(float)value : value;
}

static km_status seed_given(fit *f) {
    const km_fit_params *p = f->params;
    int64_t d = f->spec.features, ks = f->spec.clusters_count, k_max = f->spec.clusters[ks - 1], sum = 0;
    for (int64_t q = 0; q < ks; q++) sum += f->spec.clusters[q];
    if (p->init_count != k_max && p->init_count != sum)
        return km_fail(f->err, KM_ERROR_DATA,
                       "the initial centroids have %lld rows; give %lld (the largest K, of which "
                       "each K takes its first) or %lld (the rows of every K in ascending order)",
                       (long long)p->init_count, (long long)k_max, (long long)sum);
    f->seeds.rows = malloc((size_t)(p->init_count * d) * sizeof(double));
    f->seeds.row_first = calloc((size_t)ks, sizeof(int64_t));
    if (!f->seeds.rows || !f->seeds.row_first)
        return km_fail_memory(f->err, "the initial centroids", p->init_count * d * (int64_t)sizeof(double));
    for (int64_t i = 0; i < p->init_count * d; i++) {
        double value = (p->init_rows[i] - f->load.centre[i % d]) * f->load.factor[i % d];
        if (!isfinite(p->init_rows[i]))
            return km_fail(f->err, KM_ERROR_DATA,
                           "the initial centroids hold a NaN or infinity in row %lld, column %lld",
                           (long long)(i / d) + 1, (long long)(i % d) + 1);
        if (!(fabs(value) <= INIT_REACH))
            return km_fail(
                f->err, KM_ERROR_DATA,
                "the initial centroids: row %lld, column %lld: %g is more than %g times as far out as "
                "any point; give one that lies among the points",
                (long long)(i / d) + 1, (long long)(i % d) + 1, p->init_rows[i], INIT_REACH);
        f->seeds.rows[i] = round_to_type(value, f->spec.type);
    }
    if (p->init_count == sum && ks > 1)
        for (int64_t q = 1; q < ks; q++)
            f->seeds.row_first[q] = f->seeds.row_first[q - 1] + f->spec.clusters[q - 1];
    return KM_OK;
}

static km_status make_seeds(fit *f) {
    int64_t picks = f->spec.clusters[f->spec.clusters_count - 1], count;
    KM_TRY(report_phase(f, "seed", 0, picks));
    if (f->params->init == KM_INIT_GIVEN) return seed_given(f);
    f->seeds.picks_count = picks;
    if (!km_mul_overflows(&count, f->restarts * picks, sizeof(int64_t)))
        f->seeds.indices = malloc((size_t)count);
    if (!f->seeds.indices)
        return km_fail_memory(f->err, "the seeds of all restarts", f->restarts * picks * 8);
    if (f->params->init == KM_INIT_PLUSPLUS) return seed_plusplus(f, picks);
    return km_seed_random(f->seeds.indices, f->data, f->restarts, picks, f->params->seed, f->err);
}

// Sweep -----------------------------------------------------------------------------------------------------

static km_stop stop_of(const fit *f) {
    return km_sweep_stop(f->params, &f->stats, f->load.factor, f->engine->d);
}

// Memory for the final centroids of all runs, where a criterion compares them. Without it that criterion is left out.
static void keep_restarts(fit *f) {
    int64_t rows = 0, bytes;
    for (int64_t q = 0; q < f->spec.clusters_count; q++) rows += f->spec.clusters[q];
    if (!km_criteria_keep_restarts(f->params) ||
        km_mul_overflows(&bytes, f->restarts * rows, f->engine->d * (int64_t)sizeof(double)) ||
        km_host_check("the centroids of all restarts", bytes, NULL) != KM_OK)
        return;
    f->restart_centroids = malloc((size_t)bytes);
}

static km_status run_sweep(fit *f) {
    const km_fit_params *p = f->params;
    int64_t ks = f->spec.clusters_count;
    keep_restarts(f);
    f->best = km_result_alloc(f->owner, ks, sizeof *f->best, f->err);
    if (!f->best) return KM_ERROR_MEMORY;
    for (int64_t q = 0; q < ks; q++) {
        f->best[q].centroids =
            km_result_alloc(f->owner, f->spec.clusters[q] * (f->engine->d + 1), sizeof(double), f->err);
        f->best[q].inertias = km_result_alloc(f->owner, f->restarts, sizeof(double), f->err);
        if (!f->best[q].centroids || !f->best[q].inertias) return KM_ERROR_MEMORY;
    }
    km_sweep_params params = {.restarts = f->restarts,
                              .total_square = f->stats.total_square,
                              .log = p->log,
                              .progress = p->progress,
                              .progress_user = p->progress_user,
                              .begin_ms = f->begin_ms};
    params.restart_centroids = f->restart_centroids;
    params.stop = stop_of(f);
    KM_TRY(km_sweep_run(f->engine, f->best, &f->owner->result.passes, &f->sweep_work, &f->seeds, &params,
                        f->err));
    km_counters *counters = &f->owner->result.counters;
    *counters = (km_counters){f->engine->plan->algorithm, -1, -1, -1};
    if (f->engine->backend->counters) f->engine->backend->counters(f->engine, counters);
    return KM_OK;
}

// Refinement ------------------------------------------------------------------------------------------------

// Given initial centroids say where clusters are to be looked for.
static int64_t wanted_refine(const fit *f) {
    int64_t wanted = f->params->refine == KM_REFINE_AUTO ? f->spec.refine : f->params->refine;
    return wanted == KM_REFINE_AUTO && f->params->init == KM_INIT_GIVEN ? 0 : wanted;
}

static km_refine_params refine_params(const fit *f) {
    const km_fit_params *p = f->params;
    return (km_refine_params){.passes_max = wanted_refine(f),
                              .sweep_work = f->sweep_work,
                              .stop = stop_of(f),
                              .total_square = f->stats.total_square,
                              .weights = km_data_weights(f->data),
                              .seed = p->seed,
                              .threads = km_threads(p->threads, 0, NULL),
                              .log = p->log,
                              .progress = p->progress,
                              .progress_user = p->progress_user,
                              .begin_ms = f->begin_ms};
}

static km_status run_refine(fit *f) {
    km_result *result = &f->owner->result;
    result->refine = wanted_refine(f);
    if (result->refine == 0) return KM_OK;
    km_refine_params params = refine_params(f);
    KM_TRY(report_phase(f, "refine", 0, 0));
    return km_refine(f->engine, f->best, &result->refine_passes, &params, f->err);
}

// Finish ----------------------------------------------------------------------------------------------------

// Arrays of one finished model, from the result's memory.
static km_status finish_model_alloc(fit *f, km_finish_model *finished, int64_t k) {
    double *sums = km_result_alloc(f->owner, 4 * k, sizeof *sums, f->err);
    int64_t *counts = km_result_alloc(f->owner, k, sizeof *counts, f->err);
    if (!sums || !counts) return KM_ERROR_MEMORY;
    *finished = (km_finish_model){k,        finished->centroids, counts,       sums,
                                  sums + k, sums + 2 * k,        sums + 3 * k, finished->labels};
    return KM_OK;
}

// Labels of points, moved to rows of the file: -1 for rows that were dropped.
static km_status labels_to_rows(fit *f, km_model *model, const int32_t *labels) {
    int64_t rows = km_data_rows(f->data), n = f->engine->n;
    if (rows == n) {
        model->labels = labels;
        return KM_OK;
    }
    int32_t *all = km_result_alloc(f->owner, rows, sizeof *all, f->err);
    if (!all) return KM_ERROR_MEMORY;
    for (int64_t i = 0; i < rows; i++) all[i] = -1;
    for (int64_t i = 0; i < n; i++) all[km_data_row_of(f->data, i)] = labels[i];
    model->labels = all;
    return KM_OK;
}

// A value of the clustered space in the units of the scale: divided by the fit's own power of two, `powers` times (2
// for squares).
static double *without_power(fit *f, const double *values, int64_t count, int powers) {
    double *out = km_result_alloc(f->owner, count, sizeof *out, f->err);
    for (int64_t i = 0; out && i < count; i++) out[i] = ldexp(values[i], -powers * f->load.exponent);
    return out;
}

static km_status model_from_finish(fit *f, km_model *model, int64_t q, const km_finish_model *finished) {
    const km_sweep_best *best = &f->best[q];
    const double *factor = f->owner->result.factor;
    int64_t k = finished->k, d = f->engine->d;
    double *centroids = km_result_alloc(f->owner, k * d, sizeof *centroids, f->err);
    const double *fitted = without_power(f, finished->centroids, k * d, 1);
    const double *sse = without_power(f, finished->sse, k, 2);
    const double *inertias = without_power(f, best->inertias, f->restarts, 2);
    if (!centroids || !fitted || !sse || !inertias) return KM_ERROR_MEMORY;
    for (int64_t i = 0; i < k * d; i++) centroids[i] = fitted[i] / factor[i % d] + f->load.centre[i % d];
    *model = (km_model){.k = (int32_t)k,
                        .restart = best->restart,
                        .restarts = f->restarts,
                        .restarts_agreed = best->restarts_agreed,
                        .restart_inertia = inertias,
                        .n_iter = best->iterations,
                        .converged = best->converged,
                        .refined = best->refined,
                        .at_rest = best->at_rest,
                        .centroids = centroids,
                        .centroids_fitted = fitted,
                        .weights = finished->weights,
                        .counts = finished->counts,
                        .sse = sse};
    for (int64_t j = 0; j < k; j++) {
        model->inertia += sse[j];
        model->effective_k += finished->weights[j] > 0;
    }
    return finished->labels ? labels_to_rows(f, model, finished->labels) : KM_OK;
}

// What the criteria need, in the units of the scale. `whole`: the model of one cluster, whose centroid is the mean.
static km_status score_input_of(fit *f, km_score_input *input, const km_model *model,
                                const km_finish_model *finished, const km_finish_model *whole) {
    const double *distance = without_power(f, finished->distance, finished->k, 1);
    int exponent = f->load.exponent;
    if (!distance) return KM_ERROR_MEMORY;
    *input = (km_score_input){.k = finished->k,
                              .d = f->spec.features,
                              .centroids = model->centroids_fitted,
                              .weights = finished->weights,
                              .counts = finished->counts,
                              .sse = model->sse,
                              .distance = distance,
                              .margin = finished->margin,
                              .total_weight = whole->weights[0],
                              .total_sse = ldexp(whole->sse[0], -2 * exponent),
                              .total_distance = ldexp(whole->distance[0], -exponent),
                              .type = f->spec.type,
                              .given = f->measured + (model - f->owner->result.models) * KM_CRITERION_COUNT,
                              .valleys = model->valleys};
    return KM_OK;
}

// The valleys of all K, a K a thread; of one K alone all threads work together.
static km_status valleys_of_models(fit *f, const km_valley_sample *sample, km_model *models,
                                   double *const *out) {
    int64_t ks = f->spec.clusters_count, sum = 0;
    int64_t threads = km_threads(f->params->threads, omp_get_num_procs(), NULL);
    for (int64_t q = 0; q < ks; q++) sum += models[q].k;
    int team = (int)km_valley_threads(sample, sum, threads);
    km_status status = KM_OK;
    (void)team;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team) if (team > 1 && ks > 1)
    for (int64_t q = ks - 1; q >= 0; q--) {
        km_error err = {{0}};
        km_status own = km_valleys(out[q], sample, models[q].centroids_fitted, models[q].weights, models[q].k,
                                   ks > 1 ? 1 : threads, &err);
#pragma omp critical(km_fit_valleys)
        if (own != KM_OK && status == KM_OK) status = km_fail(f->err, own, "%s", err.text);
    }
    return status;
}

// On a sample of the points in the units of the scale, which is the same on every backend.
static km_status measure_valleys(fit *f, km_model *models) {
    const km_result *result = &f->owner->result;
    int64_t ks = f->spec.clusters_count;
    double begin_ms = km_now_ms(), **valleys = km_result_alloc(f->owner, ks, sizeof *valleys, f->err);
    if (!valleys) return KM_ERROR_MEMORY;
    for (int64_t q = 0; q < ks; q++) {
        models[q].valleys = valleys[q] = km_result_alloc(f->owner, models[q].k, sizeof **valleys, f->err);
        if (!valleys[q]) return KM_ERROR_MEMORY;
    }
    km_valley_sample sample;
    KM_TRY(km_valley_sample_make(&sample, f->data, result->centre, result->factor, f->spec.clusters, ks,
                                 f->params->seed, f->err));
    km_status status = valleys_of_models(f, &sample, models, valleys);
    km_log_line(f->params->log, KM_LOG_INFO, "decision: valleys on %lld points in %.1f ms",
                (long long)sample.count, km_now_ms() - begin_ms);
    km_valley_sample_free(&sample);
    return status;
}

static km_status score_and_select(fit *f, km_model *models, const km_finish_model *finished) {
    km_result *result = &f->owner->result;
    int64_t ks = f->spec.clusters_count;
    km_score_input *inputs = km_result_alloc(f->owner, ks, sizeof *inputs, f->err);
    double *scores = km_result_alloc(f->owner, ks * KM_CRITERION_COUNT, sizeof *scores, f->err);
    if (!inputs || !scores) return KM_ERROR_MEMORY;
    for (int64_t q = 0; q < ks; q++)
        KM_TRY(score_input_of(f, &inputs[q], &models[q], &finished[q], &finished[ks]));
    KM_TRY(km_score_models(scores, inputs, ks, f->err));
    for (int64_t q = 0; q < ks; q++) {
        memcpy(models[q].scores, scores + q * KM_CRITERION_COUNT, sizeof models[q].scores);
        memcpy(models[q].score_errors, f->measured_errors + q * KM_CRITERION_COUNT,
               sizeof models[q].score_errors);
    }
    return km_select(&result->selection, inputs, scores, ks, f->params->criterion, f->err);
}

static km_status measured_alloc(fit *f) {
    int64_t count = f->spec.clusters_count * KM_CRITERION_COUNT;
    f->measured = km_result_alloc(f->owner, 2 * count, sizeof *f->measured, f->err);
    if (!f->measured) return KM_ERROR_MEMORY;
    f->measured_errors = f->measured + count;
    for (int64_t i = 0; i < 2 * count; i++) f->measured[i] = NAN;
    return KM_OK;
}

// Criteria beyond those of the finishing pass, as far as they are wanted.
static km_status measure(fit *f, const km_finish_model *finished, km_needs needs) {
    if (!km_criteria_wanted(f->params, needs)) return KM_OK;
    double begin_ms = km_now_ms();
    km_measuring measuring = {.params = f->params,
                              .data = f->data,
                              .spec = &f->spec,
                              .engine = f->engine,
                              .own = &f->engine,
                              .stats = &f->stats,
                              .load = &f->load,
                              .best = f->best,
                              .restarts = f->restarts,
                              .restart_centroids = f->restart_centroids,
                              .finished = finished,
                              .owner = f->owner,
                              .begin_ms = f->begin_ms,
                              .scores = f->measured,
                              .errors = f->measured_errors};
    km_status status = km_criteria_measure(&measuring, needs, f->err);
    f->owner->result.timing.criteria_ms += km_now_ms() - begin_ms;
    return status;
}

static km_status finish_labels(fit *f, km_finish_model *finished, km_model *models) {
    int64_t best = f->owner->result.selection.best;
    if (f->params->labels != KM_LABELS_BEST) return KM_OK;
    int32_t *labels = km_result_alloc_large(f->owner, f->engine->n, sizeof *labels, f->err);
    if (!labels) return KM_ERROR_MEMORY;
    finished[best].labels = labels;
    KM_TRY(f->engine->backend->finish(f->engine, &finished[best], 1, f->err));
    return labels_to_rows(f, &models[best], labels);
}

// Whether labels come from scores in the kernels' type alone; other designs resolve ambiguous points in double.
static int labels_are_scores(const km_result *result) {
    if (result->plan.spec.target.kind == KM_TARGET_CUDA)
        return km_design_code_of(result->plan.design)->scores_decide;
    return result->counters.algorithm == KM_ALGORITHM_LLOYD;
}

// Inertia of clusters whose points lie so close together, for their distance from the centre, that float32 scores
// cannot tell them apart (docs/numerics.md has the contract of labels).
static double inertia_unresolved(const km_model *model, int64_t d) {
    double sum = 0;
    for (int64_t j = 0; j < model->k; j++) {
        const double *c = model->centroids_fitted + j * d;
        double square = 0;
        for (int64_t i = 0; i < d; i++) square += c[i] * c[i];
        if (model->counts[j] > 1 && model->sse[j] < 0x1p-20 * model->weights[j] * square)
            sum += model->sse[j];
    }
    return sum;
}

// Where most of a model's inertia is in such clusters, a larger K lowers it less than it could.
static void warn_of_resolution(fit *f, const km_model *models) {
    if (f->spec.type != KM_FLOAT32 || !labels_are_scores(&f->owner->result)) return;
    for (int64_t q = f->spec.clusters_count - 1; q >= 0; q--) {
        if (!(inertia_unresolved(&models[q], f->engine->d) > .5 * models[q].inertia)) continue;
        km_result_warn(
            f->owner, f->params->log,
            "K=%d has clusters of points that lie too close together, for where they are, to be split "
            "in float32: use float64 (--type f64)%s",
            models[q].k,
            f->params->scale == KM_SCALE_NONE ? ", or scale the features (--scale standard)" : "");
        return;
    }
}

static void warn_of_models(fit *f, const km_model *models) {
    const km_result *result = &f->owner->result;
    int64_t ks = f->spec.clusters_count, unconverged = 0;
    const km_model *chosen = &models[result->selection.best];
    if (ks > 1 && !(chosen->inertia > 0))
        km_result_warn(f->owner, f->params->log,
                       "K=%d leaves no inertia: the data have only %d different point%s, and criteria say "
                       "nothing there",
                       chosen->k, chosen->effective_k, chosen->effective_k == 1 ? "" : "s");
    warn_of_resolution(f, models);
    for (int64_t q = 0; q < ks; q++) {
        unconverged += !models[q].converged;
        if (models[q].effective_k < models[q].k)
            km_result_warn(f->owner, f->params->log,
                           "K=%d has %d clusters with points: the data have no more different "
                           "points to give",
                           models[q].k, models[q].effective_k);
    }
    if (unconverged)
        km_result_warn(f->owner, f->params->log,
                       "%lld of %lld K stopped at %lld iterations before converging; allow more "
                       "iterations or a larger tol",
                       (long long)unconverged, (long long)ks, (long long)f->params->max_iter);
    km_advise(f->owner, f->data, f->params->scale, f->params->log);
}

static double finished_inertia(const km_finish_model *finished) {
    double sum = 0;
    for (int64_t j = 0; j < finished->k; j++) sum += finished->sse[j];
    return sum;
}

// No K is worse than the K before it, whose model with more centroids it may have: iterated, or where kernels
// cannot tell points apart as it is.
static km_status keep_falling(fit *f, km_finish_model *finished, int64_t q) {
    km_refine_params params = refine_params(f);
    for (int64_t max_iter = f->params->max_iter;; max_iter = 0) {
        if (finished_inertia(&finished[q]) <= finished_inertia(&finished[q - 1])) return KM_OK;
        KM_TRY(km_refine_from_before(f->engine, f->best, q, max_iter, &f->owner->result.refine_passes,
                                     &params, f->err));
        KM_TRY(f->engine->backend->finish(f->engine, &finished[q], 1, f->err));
        if (max_iter == 0) return KM_OK;
    }
}

// The finishing pass: all models, and the model of one cluster for the totals.
static km_status finishing_pass(fit *f, km_model **models_out, km_finish_model **finished_out) {
    km_result *result = &f->owner->result;
    int64_t ks = f->spec.clusters_count, d = f->engine->d;
    km_finish_model *finished = km_result_alloc(f->owner, ks + 1, sizeof *finished, f->err);
    km_model *models = km_result_alloc(f->owner, ks, sizeof *models, f->err);
    double *mean = km_result_alloc(f->owner, d, sizeof *mean, f->err);
    int32_t *labels = NULL;
    if (f->params->labels == KM_LABELS_ALL) {
        labels = km_result_alloc_large(f->owner, ks * f->engine->n, sizeof *labels, f->err);
        if (!labels) return KM_ERROR_MEMORY;
    }
    if (!finished || !models || !mean) return KM_ERROR_MEMORY;
    *finished_out = finished;
    *models_out = models;
    KM_TRY(report_phase(f, "finish", 0, 0));
    for (int64_t i = 0; i < d; i++) mean[i] = (f->stats.mean[i] - f->load.centre[i]) * f->load.factor[i];
    for (int64_t q = 0; q <= ks; q++) {
        finished[q].centroids = q < ks ? f->best[q].centroids : mean;
        if (q < ks && labels) finished[q].labels = labels + q * f->engine->n;
        KM_TRY(finish_model_alloc(f, &finished[q], q < ks ? f->spec.clusters[q] : 1));
    }
    KM_TRY(f->engine->backend->finish(f->engine, finished, ks + 1, f->err));
    for (int64_t q = 1; q < ks && f->owner->result.refine != 0; q++) KM_TRY(keep_falling(f, finished, q));
    for (int64_t q = 0; q < ks; q++) KM_TRY(model_from_finish(f, &models[q], q, &finished[q]));
    result->models = models;
    result->models_count = ks;
    return KM_OK;
}

// Criteria, the best K and its labels. Criteria that need fits come last, as they may need the engine for other points;
// only where one of them decides, it comes before the decision.
static km_status decide(fit *f, km_model *models, km_finish_model *finished) {
    int fits_decide = km_criterion_needs(f->params->criterion) == KM_NEEDS_FITS;
    KM_TRY(measured_alloc(f));
    KM_TRY(measure_valleys(f, models));
    KM_TRY(measure(f, finished, KM_NEEDS_PASS));
    if (fits_decide) KM_TRY(measure(f, finished, KM_NEEDS_FITS));
    KM_TRY(score_and_select(f, models, finished));
    KM_TRY(finish_labels(f, finished, models));
    if (!fits_decide && km_criteria_wanted(f->params, KM_NEEDS_FITS)) {
        KM_TRY(measure(f, finished, KM_NEEDS_FITS));
        KM_TRY(score_and_select(f, models, finished));
    }
    warn_of_models(f, models);
    return KM_OK;
}

static km_status finish_models(fit *f) {
    km_finish_model *finished;
    km_model *models;
    KM_TRY(finishing_pass(f, &models, &finished));
    return decide(f, models, finished);
}

// The line --------------------------------------------------------------------------------------------------

static void fit_free(fit *f) {
    if (f->engine) f->engine->backend->engine_destroy(&f->engine);
    km_build_clear(&f->build);
    if (f->device) km_device_close(&f->device);
    km_text_free(f->table);
    km_spec_clear(&f->spec);
    km_data_stats_free(&f->stats);
    free(f->seeds.indices);
    free(f->seeds.rows);
    free(f->seeds.row_first);
    free(f->restart_centroids);
}

static km_status describe(fit *f) {
    km_result *result = &f->owner->result;
    result->n = f->engine->n;
    result->d = f->engine->d;
    result->rows = km_data_rows(f->data);
    result->type = f->spec.type;
    km_target_text(result->target, sizeof result->target, f->device->facts.target);
    snprintf(result->device, sizeof result->device, "%s", f->device->facts.name);
    result->seed = f->params->seed;
    result->n_init = f->restarts;
    result->scale = f->params->scale;
    result->criteria = km_criteria_computed(f->params);
    if (!km_data_feature_name(f->data, 0)) return KM_OK;
    const char **names = km_result_alloc(f->owner, result->d, sizeof *names, f->err);
    if (!names) return KM_ERROR_MEMORY;
    for (int64_t i = 0; i < result->d; i++) {
        const char *name = km_data_feature_name(f->data, i);
        char *copy = km_result_alloc(f->owner, (int64_t)strlen(name ? name : "") + 1, 1, f->err);
        if (!copy) return KM_ERROR_MEMORY;
        names[i] = strcpy(copy, name ? name : "");
    }
    result->feature_names = names;
    return KM_OK;
}

// Runs one step, adds the time it took, and logs it.
static km_status timed(fit *f, km_status (*step)(fit *), double *ms, const char *what) {
    double begin_ms = km_now_ms();
    km_status status = step(f);
    double took_ms = km_now_ms() - begin_ms;
    *ms += took_ms;
    if (status == KM_OK) km_log_line(f->params->log, KM_LOG_INFO, "fit: %s in %.1f ms", what, took_ms);
    return status;
}

static km_status walk(fit *f, const km_spec *spec) {
    km_timing *timing = &f->owner->result.timing;
    KM_TRY(complete_spec(f, spec));
    int64_t dropped = km_data_rows(f->data) - km_data_points(f->data);
    if (dropped)
        km_result_warn(f->owner, f->params->log,
                       "%lld of %lld rows of %s hold a NaN or infinity and were dropped", (long long)dropped,
                       (long long)km_data_rows(f->data), km_data_name(f->data));
    KM_TRY(report_phase(f, "build", 0, 0));
    KM_TRY(timed(f, open_device, &timing->build_ms, "device opened"));
    KM_TRY(timed(f, plan_fit, &timing->build_ms, "planned"));
    if (f->device->backend->engine_fetch) KM_TRY(timed(f, fetch_points, &timing->read_ms, "points sent"));
    KM_TRY(timed(f, build_module, &timing->build_ms, "emitted and built"));
    KM_TRY(report_phase(f, "read", 0, 0));
    KM_TRY(timed(f, load_points, &timing->read_ms, "points read, centred and scaled"));
    KM_TRY(km_data_check(f->data, f->err)); // before the long part
    KM_TRY(timed(f, make_seeds, &timing->seed_ms, "seeded"));
    KM_TRY(timed(f, run_sweep, &timing->sweep_ms, "all K and restarts swept"));
    KM_TRY(timed(f, run_refine, &timing->refine_ms, "refined"));
    KM_TRY(timed(f, finish_models, &timing->finish_ms, "finished and scored"));
    timing->finish_ms -= timing->criteria_ms;
    return describe(f);
}

km_status km_fit(km_result **out, const km_spec *spec, const km_data *data, const km_fit_params *params,
                 km_error *err) {
    km_fit_params defaults;
    km_fit_params_init(&defaults);
    *out = NULL;
    fit f = {.params = params ? params : &defaults, .data = data, .begin_ms = km_now_ms(), .err = err};
    KM_TRY(check_params(f.params, err));
    KM_TRY(km_result_create(&f.owner, err));
    km_spec_init(&f.spec);
    km_build_init(&f.build);
    km_status status = walk(&f, spec);
    if (km_data_check(data, err) != KM_OK) status = KM_ERROR_IO;
    f.owner->result.timing.total_ms = km_now_ms() - f.begin_ms;
    fit_free(&f);
    km_result *result = &f.owner->result;
    if (status != KM_OK) km_result_destroy(&result);
    *out = status == KM_OK ? result : NULL;
    return status;
}

km_status km_fit_plan(km_plan *plan, const km_spec *spec, const km_data *data, const km_fit_params *params,
                      km_error *err) {
    km_fit_params defaults;
    km_fit_params_init(&defaults);
    fit f = {.params = params ? params : &defaults, .data = data, .err = err};
    km_spec_init(&f.spec);
    km_build_init(&f.build);
    km_status status = check_params(f.params, err);
    if (status == KM_OK) status = complete_spec(&f, spec);
    if (status == KM_OK) status = open_device(&f);
    if (status == KM_OK) status = plan_within(plan, &f, 1);
    fit_free(&f);
    return status;
}

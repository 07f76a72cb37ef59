// SPDX-License-Identifier: MIT
// Points, loaded on the device, and the seeds of all restarts.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/design.h"
#include "../../gen/memory.h"
#include "../unit.h"
#include "job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Initial centroids lie at most so many times as far from the centre as the farthest point: squares of these
// fit every type.
#define INIT_MAX 0x1p20

// Where the backend can, before there are kernels: planning fills the time in which the last points travel.
km_status km_fit_fetch_points(km_fit_job *f) {
    const km_plan *plan = &f->owner->result.plan;
    if (km_plan_is_csr(plan)) return KM_OK; // the host packs them first
    if (plan->streams) return KM_OK;        // where they lie is the plan's
    km_error err = {{0}};
    km_status status = f->device->backend->engine_fetch(&f->engine, f->device, f->data, f->spec.type,
                                                        f->params->threads, f->params->log, &err);
    if (status == KM_OK || (status == KM_ERROR_MEMORY && km_fit_stream_instead(f, &err))) return KM_OK;
    return km_fail(f->err, status, "%s", err.text);
}

static km_status make_engine(km_fit_job *f) {
    const km_backend *backend = f->device->backend;
    const km_kernels *kernels = f->build.module->kernels;
    if (f->engine && km_plan_is_csr(&f->owner->result.plan)) // another plan than the one they were sent for
        backend->engine_destroy(&f->engine);
    if (f->engine) return backend->engine_equip(f->engine, kernels, f->err);
    return backend->engine_create(&f->engine, kernels, f->params->threads, f->params->log, f->err);
}

static km_status load(km_fit_job *f) {
    km_error err = {{0}};
    const km_backend *backend = f->device->backend;
    km_status status = backend->load(f->engine, &f->stats, f->data, &f->load, &err);
    if (status == KM_ERROR_MEMORY) backend->engine_destroy(&f->engine); // what it holds is free again
    if (status == KM_ERROR_MEMORY && km_fit_stream_instead(f, &err)) {
        km_build_clear(&f->build);
        KM_TRY(km_fit_build_module(f));
        KM_TRY(make_engine(f));
        if (f->asked) f->engine->asking = &f->asking;
        status = backend->load(f->engine, &f->stats, f->data, &f->load, &err);
    }
    return status == KM_OK ? KM_OK : km_fail(f->err, status, "%s", err.text);
}

km_status km_fit_load_points(km_fit_job *f) {
    km_result *result = &f->owner->result;
    int64_t d = f->spec.features;
    double *columns = km_result_alloc(f->owner, 5 * d, sizeof *columns, f->err);
    if (!columns) return KM_ERROR_MEMORY;
    KM_TRY(km_fit_agree(f, make_engine(f)));
    f->asking.is_joined = f->shared != NULL;
    if (f->asked) f->engine->asking = &f->asking;
    if (f->shared) f->engine->share = &f->share;
    f->load = (km_load_params){
        .scale = f->scale, .centre = columns, .factor = columns + 4 * d, .log = f->params->log};
    KM_TRY(km_data_stats_alloc(&f->stats, d, f->err));
    KM_TRY(load(f));
    result->exponent = f->load.exponent;
    for (int64_t i = 0; i < d; i++) columns[d + i] = ldexp(f->load.factor[i], -f->load.exponent);
    memcpy(columns + 2 * d, f->stats.mean, (size_t)d * sizeof *columns);
    memcpy(columns + 3 * d, f->stats.variance, (size_t)d * sizeof *columns);
    result->centre = columns;
    result->factor = columns + d;
    result->mean = columns + 2 * d;
    result->variance = columns + 3 * d;
    km_fit_warn_of_features(f);
    return KM_OK;
}

typedef struct seed_progress {
    const km_fit_job *f;
    int64_t done, total;
    km_status status;
} seed_progress;

static int on_pick(void *user, int64_t picks_done) {
    seed_progress *progress = user;
    progress->status = km_fit_report_phase(progress->f, "seed", progress->done + picks_done, progress->total);
    return progress->status != KM_OK;
}

// Chains of several restarts are drawn in the same passes, as many at a time as the plan has memory for.
static km_status seed_plusplus(km_fit_job *f, int64_t picks) {
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

// First centroids that the caller gave, of which row r is `row`: with the cosine of length 1.
static km_status unit_given(double *row, const km_fit_job *f, int64_t r) {
    int64_t d = f->spec.features;
    int64_t zeros = 0;
    memcpy(row, f->params->init_rows + r * d, (size_t)d * sizeof *row);
    if (f->scale != KM_SCALE_UNIT) return KM_OK;
    for (int64_t i = 0; i < d; i++) zeros += row[i] == 0;
    if (zeros == d)
        return km_fail(
            f->err, KM_ERROR_DATA,
            "the initial centroids: row %lld: all values are 0, so there is no direction; give one "
            "that points somewhere",
            (long long)r + 1);
    km_unit_row(row, NULL, d);
    return KM_OK;
}

static km_status seed_given(km_fit_job *f) {
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
        if (i % d == 0) KM_TRY(unit_given(f->seeds.rows + i, f, i / d));
        double value = (f->seeds.rows[i] - f->load.centre[i % d]) * f->load.factor[i % d];
        if (!isfinite(p->init_rows[i]))
            return km_fail(f->err, KM_ERROR_DATA,
                           "the initial centroids hold a NaN or infinity in row %lld, column %lld",
                           (long long)(i / d) + 1, (long long)(i % d) + 1);
        if (!(fabs(value) <= INIT_MAX))
            return km_fail(
                f->err, KM_ERROR_DATA,
                "the initial centroids: row %lld, column %lld: %g is more than %g times as far out as "
                "any point; give one that lies among the points",
                (long long)(i / d) + 1, (long long)(i % d) + 1, p->init_rows[i], INIT_MAX);
        f->seeds.rows[i] = round_to_type(value, f->spec.type);
    }
    if (p->init_count == sum && ks > 1)
        for (int64_t q = 1; q < ks; q++)
            f->seeds.row_first[q] = f->seeds.row_first[q - 1] + f->spec.clusters[q - 1];
    return KM_OK;
}

km_status km_fit_make_seeds(km_fit_job *f) {
    int64_t picks = f->spec.clusters[f->spec.clusters_count - 1], count;
    KM_TRY(km_fit_report_phase(f, "seed", 0, picks));
    if (f->params->init == KM_INIT_GIVEN) return seed_given(f);
    f->seeds.picks_count = picks;
    if (!km_mul_overflows(&count, f->restarts * picks, sizeof(int64_t)))
        f->seeds.indices = malloc((size_t)count);
    if (!f->seeds.indices)
        return km_fail_memory(f->err, "the seeds of all restarts", f->restarts * picks * 8);
    if (f->params->init == KM_INIT_PLUSPLUS) return seed_plusplus(f, picks);
    return km_seed_random(f->seeds.indices, f->data, 0, f->restarts, picks, f->params->seed, f->err);
}

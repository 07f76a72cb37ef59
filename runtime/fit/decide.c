// SPDX-License-Identifier: MIT
// Criteria of all models, the best K, and its labels.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../criteria/criteria.h"
#include "../criteria/means.h"
#include "../criteria/valley.h"
#include "../unit.h"
#include "../threads.h"
#include "job.h"

#include <math.h>
#include <string.h>

// What the criteria need, in the units of the scale. `means`: of the clusters, which the criteria are defined by.
// `whole`: the model of one cluster, whose centroid is the mean.
static km_status score_input_of(km_fit_job *f, km_score_input *input, const km_model *model,
                                const km_finish_model *finished, const km_cluster_means *means,
                                const km_finish_model *whole) {
    int64_t k = finished->k;
    const double *distance = km_fit_without_power(f, means->distance, k, 1);
    const double *sse = km_fit_without_power(f, means->sse, k, 2);
    const double *centroids = km_fit_without_power(f, means->means, k * f->spec.features, 1);
    int exponent = f->load.exponent;
    if (!distance || !sse || !centroids) return KM_ERROR_MEMORY;
    *input = (km_score_input){.k = k,
                              .d = f->spec.features,
                              .centroids = centroids,
                              .weights = finished->weights,
                              .counts = finished->counts,
                              .sse = sse,
                              .distance = distance,
                              .margin = finished->margin,
                              .total_weight = whole->weights[0],
                              .total_sse = ldexp(whole->sse[0], -2 * exponent),
                              .total_distance = ldexp(whole->distance[0], -exponent),
                              .type = f->spec.type,
                              .given = f->measured + (model - f->owner->result.models) * KM_CRITERION_COUNT,
                              .valleys = model->valleys,
                              .rounding = km_data_unit_rounding(f->data)};
    if (input->rounding > 0 && f->spec.type == KM_FLOAT32) input->rounding = 0x1p-22; // points are floats
    return KM_OK;
}

// The valleys of all K, a K a thread; of one K alone all threads work together.
static km_status valleys_of_models(km_fit_job *f, const km_valley_sample *sample, km_model *models,
                                   double *const *out) {
    int64_t ks = f->spec.clusters_count, sum = 0;
    int64_t threads = km_host_threads(f->params->threads);
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
static km_status measure_valleys(km_fit_job *f, km_model *models) {
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
                                 f->params->seed, km_host_threads(f->params->threads), f->err));
    sample.asking = f->engine->asking;
    km_status status = valleys_of_models(f, &sample, models, valleys);
    km_log_line(f->params->log, KM_LOG_INFO, "decision: valleys on %lld points in %.1f ms",
                (long long)sample.count, km_now_ms() - begin_ms);
    km_valley_sample_free(&sample);
    return status;
}

static km_status score_and_select(km_fit_job *f, km_model *models, const km_finish_model *finished) {
    km_result *result = &f->owner->result;
    int64_t ks = f->spec.clusters_count;
    km_score_input *inputs = km_result_alloc(f->owner, ks, sizeof *inputs, f->err);
    double *scores = km_result_alloc(f->owner, ks * KM_CRITERION_COUNT, sizeof *scores, f->err);
    if (!inputs || !scores) return KM_ERROR_MEMORY;
    for (int64_t q = 0; q < ks; q++)
        KM_TRY(score_input_of(f, &inputs[q], &models[q], &finished[q], &f->means[q], &finished[ks]));
    KM_TRY(km_score_models(scores, inputs, ks, f->err));
    for (int64_t q = 0; q < ks; q++) {
        memcpy(models[q].scores, scores + q * KM_CRITERION_COUNT, sizeof models[q].scores);
        memcpy(models[q].score_errors, f->measured_errors + q * KM_CRITERION_COUNT,
               sizeof models[q].score_errors);
    }
    // Where the fit ended early a criterion that had to be measured is missing.
    km_criterion criterion = f->params->criterion;
    if (f->is_ending && km_criterion_needs(criterion) != KM_NEEDS_FINISH) criterion = KM_CRITERION_AUTO;
    return km_select(&result->selection, inputs, scores, ks, criterion, f->err);
}

static km_status measured_alloc(km_fit_job *f) {
    int64_t count = f->spec.clusters_count * KM_CRITERION_COUNT;
    f->measured = km_result_alloc(f->owner, 2 * count, sizeof *f->measured, f->err);
    if (!f->measured) return KM_ERROR_MEMORY;
    f->measured_errors = f->measured + count;
    for (int64_t i = 0; i < 2 * count; i++) f->measured[i] = NAN;
    return KM_OK;
}

static km_measuring measuring_of(km_fit_job *f, const km_finish_model *finished) {
    return (km_measuring){.params = f->params,
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
                          .means = f->means,
                          .owner = f->owner,
                          .begin_ms = f->begin_ms,
                          .scores = f->measured,
                          .errors = f->measured_errors};
}

// Criteria beyond those of the finishing pass, as far as they are wanted.
static km_status measure(km_fit_job *f, const km_finish_model *finished, km_needs needs) {
    if (!km_criteria_wanted(f->params, needs) || f->is_ending) return KM_OK;
    double begin_ms = km_now_ms();
    km_measuring measuring = measuring_of(f, finished);
    km_status status = km_criteria_measure(&measuring, needs, f->err);
    f->owner->result.timing.criteria_ms += km_now_ms() - begin_ms;
    // Where criteria that need fits decide, the engine may have other points now, and the labels are still to come.
    int has_points = needs != KM_NEEDS_FITS || km_criterion_needs(f->params->criterion) != KM_NEEDS_FITS;
    return status == KM_ERROR_INTERRUPTED && f->is_ending && has_points ? KM_OK : status;
}

// Criteria, the best K and its labels. Criteria that need fits come last, as they may need the engine for other points;
// only where one of them decides, it comes before the decision.
static km_status decide(km_fit_job *f, km_model *models, km_finish_model *finished) {
    int fits_decide = km_criterion_needs(f->params->criterion) == KM_NEEDS_FITS;
    KM_TRY(measured_alloc(f));
    KM_TRY(measure_valleys(f, models));
    KM_TRY(measure(f, finished, KM_NEEDS_PASS));
    if (fits_decide) KM_TRY(measure(f, finished, KM_NEEDS_FITS));
    KM_TRY(score_and_select(f, models, finished));
    KM_TRY(km_fit_finish_labels(f, finished, models));
    if (!fits_decide && km_criteria_wanted(f->params, KM_NEEDS_FITS)) {
        KM_TRY(measure(f, finished, KM_NEEDS_FITS));
        KM_TRY(score_and_select(f, models, finished));
    }
    km_fit_warn_of_models(f, models);
    return KM_OK;
}

km_status km_fit_finish_models(km_fit_job *f) {
    km_finish_model *finished;
    km_model *models;
    KM_TRY(km_fit_finishing_pass(f, &models, &finished));
    return decide(f, models, finished);
}

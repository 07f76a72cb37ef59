// SPDX-License-Identifier: MIT
#include "means.h"
#include "../../base/error.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

km_status km_cluster_means_alloc(km_cluster_means **out, const km_finish_model *models, int64_t count,
                                 int64_t d, km_error *err) {
    int64_t numbers = count * (int64_t)(sizeof **out / sizeof(double));
    for (int64_t q = 0; q < count; q++) numbers += models[q].k * (d + 3);
    km_cluster_means *means = *out = numbers > 0 ? calloc((size_t)numbers, sizeof(double)) : NULL;
    if (!means) return km_fail_memory(err, "the means of clusters", numbers * (int64_t)sizeof(double));
    static_assert(sizeof **out % sizeof(double) == 0, "numbers stand behind the models");
    double *at = (double *)(means + count);
    for (int64_t q = 0; q < count; at += models[q++].k * (d + 3)) {
        int64_t k = models[q].k;
        means[q] = (km_cluster_means){
            .means = at, .weights = at + k * d, .sse = at + k * (d + 1), .distance = at + k * (d + 2)};
    }
    return KM_OK;
}

void km_cluster_means_free(km_cluster_means **means) {
    free(*means);
    *means = NULL;
}

// Neither the run's end nor its last pass tell the means.
static int is_unknown(const km_sweep_best *best) {
    return !best->is_fixed && !best->has_means;
}

// Slots of the first restart of each K run one pass from the models' centroids: its update gives the means.
static km_status run_pass(km_cluster_means *means, const km_finish_model *models, km_engine *engine,
                          const km_sweep_best *best, int64_t first, int64_t count, km_error *err) {
    const km_backend *backend = engine->backend;
    int64_t passes = 0;
    km_stop stop = {.shift_max = -1, .max_iter = 2};
    km_slot_state *states = calloc((size_t)engine->slots_count, sizeof *states);
    km_status status = KM_OK;
    if (!states) return km_fail_memory(err, "the states of slots", engine->slots_count);
    for (int64_t q = first; q < first + count; q++)
        if (is_unknown(&best[q])) KM_TRY_GOTO(backend->slot_start(engine, q, models[q].centroids, err));
    KM_TRY_GOTO(backend->run_passes(engine, states, &passes, &stop, 1, err));
    for (int64_t q = first; q < first + count; q++)
        if (is_unknown(&best[q]))
            KM_TRY_GOTO(backend->slot_read(engine, q, means[q].means, means[q].weights, err));
done:
    free(states);
    return status;
}

// Centroids of length 1 are no means: a read of the points adds up those of each label.
static km_status take_sums(km_cluster_means *means, km_finish_model *models, km_engine *engine, int64_t first,
                           int64_t count, km_error *err) {
    int64_t d = engine->d;
    km_finish_model *again = malloc((size_t)count * sizeof *again);
    if (!again) return km_fail_memory(err, "the sums of clusters", count * (int64_t)sizeof *again);
    for (int64_t q = 0; q < count; q++) {
        km_cluster_means *own = &means[first + q];
        again[q] = models[first + q]; // whose own numbers the finishing pass writes once more
        again[q].labels = NULL;
        again[q].means = NULL;
        again[q].keep = 0;
        again[q].sums = own->means;
    }
    km_status status = engine->backend->finish(engine, again, count, err);
    for (int64_t q = 0; status == KM_OK && q < count; q++) {
        km_cluster_means *own = &means[first + q];
        memcpy(own->weights, again[q].weights, (size_t)again[q].k * sizeof(double));
        for (int64_t i = 0; i < again[q].k * d; i++)
            own->means[i] =
                own->weights[i / d] > 0 ? own->means[i] / own->weights[i / d] : again[q].centroids[i];
        own->is_fixed = 0;
        models[first + q].means = own->means;
    }
    free(again);
    return status;
}

km_status km_cluster_means_take(km_cluster_means *means, km_finish_model *models, km_engine *engine,
                                const km_sweep_best *best, int64_t first, int64_t count, km_error *err) {
    int64_t d = engine->d, active = 0;
    if (engine->unit_centre) return take_sums(means, models, engine, first, count, err);
    for (int64_t q = first; q < first + count; q++) active += is_unknown(&best[q]);
    if (active) KM_TRY(run_pass(means, models, engine, best, first, count, err));
    for (int64_t q = first; q < first + count; q++) {
        size_t values = (size_t)(models[q].k * d), k = (size_t)models[q].k;
        const double *known = best[q].centroids + (best[q].is_fixed ? 0 : values + k);
        if (!is_unknown(&best[q])) {
            memcpy(means[q].means, known, values * sizeof(double));
            memcpy(means[q].weights, best[q].centroids + values, k * sizeof(double));
        }
        means[q].is_fixed = memcmp(means[q].means, models[q].centroids, values * sizeof(double)) == 0;
        models[q].means = means[q].is_fixed ? NULL : means[q].means;
    }
    return KM_OK;
}

// Whether the means are of other labels than the finishing pass's: then clusters have other weights. In float32 that is
// a matter of its resolution, which the means have as well.
static int is_other(const km_cluster_means *means, const km_finish_model *model, km_type type) {
    double total = 0;
    if (type == KM_FLOAT32) return 0;
    for (int64_t j = 0; j < model->k; j++) total += model->weights[j];
    for (int64_t j = 0; j < model->k; j++)
        if (fabs(means->weights[j] - model->weights[j]) > 1e-12 * total) return 1;
    return 0;
}

// The model's clusters again, by labels of the same centroids: their sums, from which the means come, then distances to
// these. Its other sums are in `numbers`, 3 k.
static km_status by_labels(km_cluster_means *means, const km_finish_model *model, km_engine *engine,
                           double *sums, double *numbers, int64_t *counts, km_error *err) {
    int64_t d = engine->d, k = model->k;
    km_finish_model again = {.k = k,
                             .centroids = model->centroids,
                             .counts = counts,
                             .weights = numbers,
                             .sse = numbers + k,
                             .margin = numbers + 2 * k,
                             .distance = means->distance,
                             .sums = sums};
    KM_TRY(engine->backend->finish(engine, &again, 1, err));
    for (int64_t i = 0; i < k * d; i++)
        means->means[i] = again.weights[i / d] > 0 ? sums[i] / again.weights[i / d] : model->centroids[i];
    memcpy(means->weights, again.weights, (size_t)k * sizeof(double));
    means->is_fixed = 0;
    again.means = means->means;
    again.sums = NULL;
    return engine->backend->finish(engine, &again, 1, err);
}

static km_status mend_labels(km_cluster_means *means, const km_finish_model *model, km_engine *engine,
                             km_error *err) {
    int64_t k = model->k, d = engine->d;
    double *sums = malloc((size_t)(k * (d + 3)) * sizeof *sums);
    int64_t *counts = malloc((size_t)k * sizeof *counts);
    km_status status = sums && counts
                           ? by_labels(means, model, engine, sums, sums + k * d, counts, err)
                           : km_fail_memory(err, "the sums of clusters", k * (d + 4) * (int64_t)sizeof *sums);
    free(sums);
    free(counts);
    return status;
}

// Moving the point that distances are from to the mean takes n |c - mean|^2 from the sum of their squares.
static void add_squares(km_cluster_means *means, const km_finish_model *model, int64_t d) {
    for (int64_t j = 0; j < model->k; j++) {
        double square = 0;
        for (int64_t f = j * d; f < (j + 1) * d; f++) {
            double t = means->means[f] - model->centroids[f];
            square += t * t;
        }
        means->sse[j] = fmax(model->sse[j] - model->weights[j] * square, 0);
    }
}

km_status km_cluster_means_complete(km_cluster_means *means, const km_finish_model *models, int64_t count,
                                    km_engine *engine, km_error *err) {
    for (int64_t q = 0; q < count; q++) {
        size_t bytes = (size_t)models[q].k * sizeof(double);
        memcpy(means[q].distance, models[q].distance, bytes);
        if (is_other(&means[q], &models[q], engine->plan->spec.type))
            KM_TRY(mend_labels(&means[q], &models[q], engine, err));
        add_squares(&means[q], &models[q], engine->d); // nothing where they are the centroids
    }
    return KM_OK;
}

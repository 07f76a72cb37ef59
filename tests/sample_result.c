// SPDX-License-Identifier: MIT
#include "sample_result.h"

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *zeros(int64_t count, size_t size) {
    void *memory = calloc((size_t)count, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static void fill_header(sample *s, int64_t models_count, int64_t d) {
    static const char *const names[] = {"sepal_length", "größe", "a \"quoted\" name"};
    km_result *result = &s->result;
    result->n = result->rows = result->rows_all = 150;
    result->d = d;
    result->type = KM_FLOAT64;
    strcpy(result->target, "cpu:avx2");
    strcpy(result->device, "two cores");
    result->seed = 42;
    result->n_init = 10;
    result->passes = 31;
    result->refine = KM_REFINE_AUTO;
    result->refine_passes = 5;
    result->counters = (km_counters){KM_ALGORITHM_TILES, 12345, 45678, -1, 0, 0};
    result->timing = (km_timing){.parse_ms = 3.5,
                                 .device_ms = .0625,
                                 .build_ms = .25,
                                 .send_ms = .125,
                                 .read_ms = .5,
                                 .seed_ms = 1.5,
                                 .sweep_ms = 8,
                                 .refine_ms = .5,
                                 .finish_ms = 1,
                                 .free_ms = .03125,
                                 .total_ms = 12};
    result->scale = KM_SCALE_STANDARD;
    for (int64_t f = 0; f < d; f++) {
        s->centre[f] = 1. / (double)(f + 3);
        s->factor[f] = 1 + (double)f / 7;
        s->names[f] = names[f % 3];
    }
    result->centre = s->centre;
    result->factor = s->factor;
    result->mean = s->mean;
    result->variance = s->variance;
    result->feature_names = s->names;
    result->models = s->models;
    result->models_count = models_count;
    result->warnings = s->warnings;
}

static void fill_scores(double *scores, int32_t k, int is_last) {
    for (int c = 0; c < KM_CRITERION_COUNT; c++) scores[c] = NAN;
    scores[KM_CRITERION_calinski_harabasz] = 560.125 - 12.5 * (k - 4) * (k - 4);
    scores[KM_CRITERION_davies_bouldin] = .4 + .05 * fabs(k - 3.);
    scores[KM_CRITERION_simplified_silhouette] = .75 - .03 * fabs(k - 2.);
    scores[KM_CRITERION_bic] = -500 + 40 * log(k);
    scores[KM_CRITERION_aic] = -490 + 42 * log(k);
    scores[KM_CRITERION_wb] = .6 - .01 * k;
    scores[KM_CRITERION_xie_beni] = .05 * k;
    scores[KM_CRITERION_pbm] = 20 - fabs(k - 4.);
    scores[KM_CRITERION_hartigan] = is_last ? NAN : 400. / ((double)k * k);
    for (int c = KM_CRITERION_krzanowski_lai; c < KM_CRITERION_COUNT; c++) scores[c] = NAN;
    scores[KM_CRITERION_silhouette] = .7 - .02 * fabs(k - 3.);
}

static void fill_model(sample *s, int64_t m, int32_t k, int64_t d) {
    km_model *model = &s->models[m];
    int64_t row = s->first_row[m];
    *model = (km_model){.k = k,
                        .effective_k = k,
                        .restart = m % 10,
                        .restarts = 10,
                        .restarts_agreed = 10 - m % 10,
                        .n_iter = 4 + m,
                        .converged = 1,
                        .inertia = 700 / pow(k, 1.3),
                        .refined = m % 3 == 2,
                        .at_rest = 1,
                        .restart_inertia = s->restart_inertia + m * 10,
                        .centroids = s->centroids + row * d,
                        .centroids_fitted = s->fitted + row * d,
                        .weights = s->weights + row,
                        .counts = s->counts + row,
                        .sse = s->sse + row};
    for (int64_t r = 0; r < 10; r++)
        s->restart_inertia[m * 10 + r] =
            model->inertia * (1 + .01 * (double)(model->refined + llabs(r - m % 10)));
    for (int64_t j = 0; j < k; j++) {
        s->counts[row + j] = 150 / k + (j < 150 % k);
        s->weights[row + j] = 1.5 * (double)s->counts[row + j];
        s->sse[row + j] = model->inertia / k;
    }
    for (int64_t i = row * d; i < (row + k) * d; i++) {
        s->fitted[i] = (double)(i * 2654435761 % 1000003) / 999983. - .5;
        s->centroids[i] = s->fitted[i] / 3 + .1;
    }
    s->fitted[row * d] = -0.;
    s->centroids[row * d] = 4.9406564584124654e-324;
}

sample *sample_make(int32_t first, int32_t step, int64_t models_count, int64_t d) {
    sample *s = zeros(1, sizeof *s);
    int64_t rows = 0;
    s->first_row = zeros(models_count, sizeof *s->first_row);
    for (int64_t m = 0; m < models_count; m++) {
        s->first_row[m] = rows;
        rows += first + m * step;
    }
    s->models = zeros(models_count, sizeof *s->models);
    double *features = zeros(4 * d, sizeof *features);
    s->centre = features, s->factor = features + d, s->mean = features + 2 * d,
    s->variance = features + 3 * d;
    s->centroids = zeros(rows * d, sizeof(double));
    s->fitted = zeros(rows * d, sizeof(double));
    s->weights = zeros(rows, sizeof(double));
    s->sse = zeros(rows, sizeof(double));
    s->restart_inertia = zeros(models_count * 10, sizeof(double));
    s->counts = zeros(rows, sizeof(int64_t));
    s->names = zeros(d, sizeof *s->names);
    fill_header(s, models_count, d);
    for (int64_t m = 0; m < models_count; m++) {
        fill_model(s, m, (int32_t)(first + m * step), d);
        fill_scores(s->models[m].scores, s->models[m].k, m == models_count - 1);
        for (int c = 0; c < KM_CRITERION_COUNT; c++) s->models[m].score_errors[c] = NAN;
        s->models[m].score_errors[KM_CRITERION_COUNT - 1] = .125 * (double)(m + 1);
    }
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (km_criterion_needs((km_criterion)c) == KM_NEEDS_FINISH) s->result.criteria |= (uint64_t)1 << c;
    sample_select(s, KM_CRITERION_calinski_harabasz);
    return s;
}

void sample_select(sample *s, km_criterion criterion) {
    int64_t count = s->result.models_count;
    km_score_input *inputs = zeros(count, sizeof *inputs);
    double *scores = zeros(count * KM_CRITERION_COUNT, sizeof *scores);
    for (int64_t m = 0; m < count; m++) {
        const km_model *model = &s->models[m];
        inputs[m] = (km_score_input){.k = model->k,
                                     .d = s->result.d,
                                     .centroids = model->centroids_fitted,
                                     .weights = model->weights,
                                     .counts = model->counts,
                                     .sse = model->sse,
                                     .total_weight = (double)s->result.n,
                                     .total_sse = s->models[0].inertia};
        memcpy(scores + m * KM_CRITERION_COUNT, model->scores, sizeof model->scores);
    }
    ck_assert_int_eq(km_select(&s->result.selection, inputs, scores, count, criterion, NULL), KM_OK);
    free(inputs);
    free(scores);
}

void sample_free(sample *s) {
    free(s->models);
    free(s->centre); // and factor, mean, variance
    free(s->centroids);
    free(s->fitted);
    free(s->weights);
    free(s->sse);
    free(s->restart_inertia);
    free(s->counts);
    free(s->first_row);
    free(s->names);
    free(s);
}

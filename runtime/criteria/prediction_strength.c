// SPDX-License-Identifier: MIT
// Prediction strength: points are split into halves, both are clustered, and the centroids of one half label the other.
// Of each cluster of a half, the share of its pairs of points that stay together is counted; the strength is that of
// the worst cluster, the mean over splits and over both halves. Tibshirani and Walther, "Cluster validation by
// prediction strength", 2005. Clusters of one point have no pair and are left out; points count once whatever their
// weight. Halves are drawn by seed, from at most 2 x HALF_POINTS points, and clustered by this library.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../memory.h"
#include "../sample.h"
#include "../threads.h"
#include "criteria.h"
#include "pairs.h"
#include <kmgen/fit.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPLITS = 5, HALF_POINTS = 5000, RESTARTS_MAX = 10 };

typedef struct strength {
    const km_measuring *m;
    int64_t points, half, d, ks; // points that are split; of the first half
    int64_t threads;
    double *rows, *halves;     // points x d each
    double *values;            // ks x 2 x SPLITS
    int64_t *indices, *counts; // points; the largest K + 1 squared
    int32_t *own, *other;      // points
} strength;

static void strength_free(strength *s) {
    free(s->rows);
    free(s->indices);
    free(s->own);
}

static km_status strength_alloc(strength *s, int64_t k_max, km_error *err) {
    int64_t numbers = 2 * s->points * s->d + 2 * SPLITS * s->ks;
    KM_TRY(km_host_check("the sample of points", numbers * (int64_t)sizeof *s->rows, err));
    s->rows = malloc((size_t)numbers * sizeof *s->rows);
    s->indices = malloc((size_t)(2 * s->points + k_max * k_max + k_max) * sizeof *s->indices);
    s->own = malloc((size_t)(2 * s->points) * sizeof *s->own);
    if (!s->rows || !s->indices || !s->own)
        return km_fail_memory(err, "the prediction strength", (numbers + k_max * k_max) * 8);
    s->halves = s->rows + s->points * s->d;
    s->values = s->halves + s->points * s->d;
    s->counts = s->indices + 2 * s->points;
    s->other = s->own + s->points;
    for (int64_t i = 0; i < 2 * SPLITS * s->ks; i++) s->values[i] = NAN;
    return KM_OK;
}

// Puts the points of the first half first.
static km_status split(strength *s, uint64_t seed, km_error *err) {
    int64_t d = s->d, first = 0, second = s->half;
    int64_t *chosen = s->indices + s->points;
    KM_TRY(km_draw_points(chosen, s->points, s->half, seed, err));
    for (int64_t i = 0; i < s->points; i++) {
        int is_first = first < s->half && chosen[first] == i;
        int64_t to = is_first ? first++ : second++;
        memcpy(s->halves + to * d, s->rows + i * d, (size_t)d * sizeof *s->rows);
    }
    return KM_OK;
}

static km_status fit_half(km_result **out, const strength *s, const double *rows, int64_t count,
                          km_error *err) {
    const km_measuring *m = s->m;
    km_spec spec;
    km_data *data = NULL;
    km_fit_params params;
    km_fit_params_init(&params);
    params.device = KM_HOST;
    params.seed = m->params->seed;
    params.threads = m->params->threads;
    params.criterion = KM_CRITERION_calinski_harabasz;
    *out = NULL;
    km_spec_init(&spec);
    km_status status = km_spec_copy(&spec, m->spec, err);
    spec.fixed_count = 0;
    spec.type = KM_FLOAT64;
    spec.n_init = km_min(m->restarts, RESTARTS_MAX);
    if (status == KM_OK) status = km_spec_set_target(&spec, "cpu", err);
    if (status == KM_OK) status = km_spec_fix(&spec, "design", "prebuilt", err);
    if (status == KM_OK) status = km_data_from_memory(&data, rows, count, s->d, KM_FLOAT64, 0, 0, NULL, err);
    if (status == KM_OK) status = km_fit(out, &spec, data, &params, err);
    km_data_destroy(&data);
    km_spec_clear(&spec);
    return status;
}

// The least share of a cluster's pairs that `other` leaves together; 1 where no cluster has a pair.
static double least_share(const strength *s, int64_t count, int64_t k) {
    int64_t *sizes = s->counts + k * k;
    double least = 1;
    memset(s->counts, 0, (size_t)(k * k + k) * sizeof *s->counts);
    for (int64_t i = 0; i < count; i++) {
        s->counts[s->own[i] * k + s->other[i]]++;
        sizes[s->own[i]]++;
    }
    for (int64_t j = 0; j < k; j++) {
        double together = 0;
        for (int64_t l = 0; l < k; l++)
            together += (double)s->counts[j * k + l] * (double)(s->counts[j * k + l] - 1);
        if (sizes[j] > 1) least = fmin(least, together / ((double)sizes[j] * (double)(sizes[j] - 1)));
    }
    return least;
}

// What the models of one half predict of the other, whose own models are `own`.
static void predict_half(strength *s, int64_t at, const km_result *own, const km_result *other,
                         const double *rows, int64_t count) {
    for (int64_t q = 0; q < own->models_count && q < other->models_count; q++) {
        int64_t k = own->models[q].k;
        km_label_points(s->own, rows, count, own->models[q].centroids, k, s->d, s->threads);
        km_label_points(s->other, rows, count, other->models[q].centroids, k, s->d, s->threads);
        s->values[q * 2 * SPLITS + at] = least_share(s, count, k);
    }
}

static km_status one_split(strength *s, int64_t number, km_error *err) {
    const double *first = s->halves, *second = s->halves + s->half * s->d;
    int64_t rest = s->points - s->half;
    km_result *a = NULL, *b = NULL;
    KM_TRY(split(s, s->m->params->seed + (uint64_t)number + 1, err));
    km_status status = fit_half(&a, s, first, s->half, err);
    if (status == KM_OK) status = fit_half(&b, s, second, rest, err);
    if (status == KM_OK) {
        predict_half(s, 2 * number, a, b, first, s->half);
        predict_half(s, 2 * number + 1, b, a, second, rest);
    }
    km_result_destroy(&a);
    km_result_destroy(&b);
    return status;
}

// The mean, and the standard error over the splits.
static void take_means(const strength *s, km_criterion own) {
    for (int64_t q = 0; q < s->ks; q++) {
        const double *values = s->values + q * 2 * SPLITS;
        double sum = 0, squares = 0;
        for (int i = 0; i < SPLITS; i++) {
            double value = (values[2 * i] + values[2 * i + 1]) / 2;
            sum += value;
            squares += value * value;
        }
        s->m->scores[q * KM_CRITERION_COUNT + own] = sum / SPLITS;
        s->m->errors[q * KM_CRITERION_COUNT + own] =
            sqrt(fmax(squares - sum * sum / SPLITS, 0) / (SPLITS - 1) / SPLITS);
    }
}

km_status km_measure_prediction_strength(const km_measuring *m, km_criterion own, km_error *err) {
    strength s = {.m = m, .d = m->engine->d, .ks = m->spec->clusters_count};
    s.points = km_min(m->engine->n_all, 2 * HALF_POINTS);
    s.half = s.points / 2;
    s.threads = km_host_threads(m->params->threads);
    km_status status;
    if (s.half < m->spec->clusters[0]) return KM_OK; // no K that both halves can have
    KM_TRY_GOTO(strength_alloc(&s, m->spec->clusters[s.ks - 1], err));
    KM_TRY_GOTO(km_draw_points(s.indices, m->engine->n_all, s.points, m->params->seed, err));
    KM_TRY_GOTO(m->engine->backend->rows(m->engine, s.rows, s.indices, s.points, err));
    for (int64_t i = 0; i < SPLITS; i++) {
        KM_TRY_GOTO(km_measuring_report(m, i, SPLITS, err));
        KM_TRY_GOTO(one_split(&s, i, err));
    }
    take_means(&s, own);
done:
    strength_free(&s);
    return status;
}

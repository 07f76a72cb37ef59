// SPDX-License-Identifier: MIT
// Criteria of given labels, plainly: in double, all distances. It shares formulas over sums (runtime/select.c) with a
// fit, and nothing of its passes, so that one can be checked by the other.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../criteria/pairs.h"
#include "../quartiles.h"
#include "../sample.h"
#include "../data_refuse.h"
#include "../memory.h"
#include "../threads.h"
#include "../unit.h"
#include <kmgen/score.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARALLEL_POINTS = 4096 // from so many on threads share them
};

// The points with labels, and what is summed of them. Arrays in one allocation each.
typedef struct scoring {
    const km_data *data;
    const km_score_params *params;
    int64_t n, d, k, threads;
    double *row;                                           // of each thread, d: a point that is worked on
    double *w;                                             // n, or NULL
    int64_t *points;                                       // n: which they are of the data's
    int32_t *own;                                          // n: cluster
    double *centroids, *weights, *sse, *distance, *margin; // k x d, then k each
    int64_t *counts, *values;
    double *mean, *factor; // d: of the points with labels; what the scale divides by, or 1
    double total_weight, total_sse, total_distance, silhouettes;
    km_error *err;
} scoring;

static void scoring_free(scoring *s) {
    free(s->row);
    free(s->w);
    free(s->points);
    free(s->own);
    free(s->centroids);
    free(s->counts);
}

void km_score_params_init(km_score_params *params) {
    *params = (km_score_params){.noise = -1};
}

// Labels ------------------------------------------------------------------------------------------------------

static int compare_labels(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int has_label(const scoring *s, int64_t label) {
    return label != KM_LABEL_EMPTY && label != s->params->noise;
}

static km_status check_labels(const scoring *s, const int64_t *labels, int64_t count) {
    if (count != km_data_rows(s->data))
        return km_fail(
            s->err, KM_ERROR_DATA,
            "there are %lld labels for %lld rows of %s; give one label a row, empty or %lld where a row "
            "has none",
            (long long)count, (long long)km_data_rows(s->data), km_data_name(s->data),
            (long long)s->params->noise);
    for (int64_t i = 0; i < count; i++)
        if (has_label(s, labels[i]) && labels[i] < 0)
            return km_fail(
                s->err, KM_ERROR_DATA,
                "the label of row %lld is %lld; labels are 0 or more, and %lld marks rows without one",
                (long long)i + 1, (long long)labels[i], (long long)s->params->noise);
    return KM_OK;
}

// The different labels, ascending; sets n and k.
static km_status list_labels(scoring *s, const int64_t *labels) {
    int64_t points = km_data_points(s->data);
    s->counts = malloc((size_t)(2 * points + 2) * sizeof *s->counts);
    if (!s->counts) return km_fail_memory(s->err, "the labels", 2 * points * (int64_t)sizeof *s->counts);
    int64_t *values = s->values = s->counts + points + 1;
    for (int64_t i = 0; i < points; i++) {
        int64_t label = labels[km_data_row_of(s->data, i)];
        if (has_label(s, label)) values[s->n++] = label;
    }
    if (!s->n)
        return km_fail(s->err, KM_ERROR_DATA,
                       "no row of %s has a label; all are empty or %lld (choose another "
                       "label of noise, if that is a cluster)",
                       km_data_name(s->data), (long long)s->params->noise);
    qsort(values, (size_t)s->n, sizeof *values, compare_labels);
    for (int64_t i = 0; i < s->n; i++)
        if (i == 0 || values[i] != values[s->k - 1]) values[s->k++] = values[i];
    if (s->k > KM_CLUSTERS_MAX)
        return km_fail(s->err, KM_ERROR_DATA,
                       "there are %lld different labels, more than the %d that are taken", (long long)s->k,
                       KM_CLUSTERS_MAX);
    return KM_OK;
}

// Points ------------------------------------------------------------------------------------------------------

// Nothing of n x d: points are read again, row by row, whenever they are needed.
static km_status scoring_alloc(scoring *s) {
    int64_t d = s->d, k = s->k, clusters = k * (d + 4) * 8, rows = (s->threads + 5) * d * 8;
    KM_TRY(km_host_check("the clusters", s->n * 20 + clusters + rows, s->err));
    s->row = malloc((size_t)rows);
    s->points = malloc((size_t)s->n * sizeof *s->points);
    s->own = malloc((size_t)s->n * sizeof *s->own);
    if (km_data_weights(s->data)) s->w = malloc((size_t)s->n * sizeof *s->w);
    s->centroids = calloc((size_t)(k * (d + 4)), sizeof(double));
    if (!s->row || !s->points || !s->own || !s->centroids || (km_data_weights(s->data) && !s->w))
        return km_fail_memory(s->err, "the clusters", clusters + rows);
    s->mean = s->row + s->threads * d;
    s->factor = s->mean + d;
    s->weights = s->centroids + k * d;
    s->sse = s->weights + k;
    s->distance = s->sse + k;
    s->margin = s->distance + k;
    memset(s->counts, 0, (size_t)k * sizeof *s->counts);
    return KM_OK;
}

// The points with labels, and whether all their values are numbers.
static km_status list_points(scoring *s, const int64_t *labels) {
    const double *weights = km_data_weights(s->data);
    int64_t at = 0;
    for (int64_t i = 0; i < km_data_points(s->data); i++) {
        int64_t row = km_data_row_of(s->data, i), label = labels[row];
        if (!has_label(s, label)) continue;
        KM_TRY(km_data_read(s->row, s->data, i, 1, KM_FLOAT64, s->err));
        for (int64_t f = 0; f < s->d; f++)
            if (!isfinite(s->row[f])) return km_data_refuse_value(s->data, i, f, s->err);
        const int64_t *found = bsearch(&label, s->values, (size_t)s->k, sizeof label, compare_labels);
        s->own[at] = (int32_t)(found - s->values);
        s->points[at] = i;
        if (s->w) s->w[at] = weights[i];
        at++;
    }
    return km_data_check(s->data, s->err);
}

static double weight_of(const scoring *s, int64_t i) {
    return s->w ? s->w[i] : 1;
}

// Point i, scaled; the mean of all points is 0.
static km_status point_read(double *x, const scoring *s, int64_t i, km_error *err) {
    KM_TRY(km_data_read(x, s->data, s->points[i], 1, KM_FLOAT64, err));
    for (int64_t f = 0; f < s->d; f++) x[f] = (x[f] - s->mean[f]) / s->factor[f];
    return KM_OK;
}

// Mean, and what the scale divides by, of the points with labels.
static km_status scale_choose(scoring *s) {
    int64_t d = s->d;
    double *mean = s->mean, *factor = s->factor, *variance = mean + 2 * d, *low = mean + 3 * d,
           *high = mean + 4 * d, *x = s->row;
    for (int64_t f = 0; f < d; f++) {
        mean[f] = variance[f] = 0, factor[f] = 1;
        low[f] = INFINITY, high[f] = -INFINITY;
    }
    for (int64_t i = 0; i < s->n; i++) s->total_weight += weight_of(s, i);
    for (int64_t i = 0; i < s->n; i++) {
        KM_TRY(km_data_read(x, s->data, s->points[i], 1, KM_FLOAT64, s->err));
        for (int64_t f = 0; f < d; f++) {
            mean[f] += weight_of(s, i) / s->total_weight * x[f];
            low[f] = fmin(low[f], x[f]);
            high[f] = fmax(high[f], x[f]);
        }
    }
    for (int64_t i = 0; i < s->n && s->params->scale == KM_SCALE_STANDARD; i++) {
        KM_TRY(point_read(x, s, i, s->err));
        for (int64_t f = 0; f < d; f++) variance[f] += weight_of(s, i) / s->total_weight * x[f] * x[f];
    }
    for (int64_t f = 0; f < d; f++) {
        if (s->params->scale == KM_SCALE_NONE || s->params->scale == KM_SCALE_UNIT || !(high[f] > low[f]))
            continue;
        factor[f] = s->params->scale == KM_SCALE_STANDARD ? sqrt(variance[f]) : high[f] - low[f];
    }
    if (s->params->scale != KM_SCALE_ROBUST) return KM_OK;
    KM_TRY(km_quartile_ranges(factor, s->data, s->points, s->n, s->err));
    for (int64_t f = 0; f < d; f++)
        if (!(factor[f] > 0)) factor[f] = 1;
    return KM_OK;
}

// Sums --------------------------------------------------------------------------------------------------------

static double square_of(const double *x, const double *c, int64_t d) {
    double square = 0;
    for (int64_t f = 0; f < d; f++) square += (x[f] - c[f]) * (x[f] - c[f]);
    return square;
}

static km_status add_means(scoring *s) {
    int64_t d = s->d;
    double *x = s->row;
    for (int64_t i = 0; i < s->n; i++) {
        KM_TRY(point_read(x, s, i, s->err));
        s->counts[s->own[i]]++;
        s->weights[s->own[i]] += weight_of(s, i);
        for (int64_t f = 0; f < d; f++) s->centroids[s->own[i] * d + f] += weight_of(s, i) * x[f];
    }
    for (int64_t i = 0; i < s->k * d; i++)
        if (s->weights[i / d] > 0) s->centroids[i] /= s->weights[i / d];
    for (int64_t i = 0; i < s->n; i++) {
        KM_TRY(point_read(x, s, i, s->err));
        int64_t j = s->own[i];
        double weight = weight_of(s, i), whole = 0, square = square_of(x, s->centroids + j * d, d);
        for (int64_t f = 0; f < d; f++) whole += x[f] * x[f];
        s->sse[j] += weight * square;
        s->distance[j] += weight * sqrt(square);
        s->total_sse += weight * whole;
        s->total_distance += weight * sqrt(whole);
    }
    return KM_OK;
}

// Of one point: the margin to the nearest other centroid, and the silhouette in the squared form.
static void one_point(double *margin, double *silhouette, const scoring *s, const double *x, int64_t i) {
    int64_t own = s->own[i], d = s->d;
    const double n = s->weights[own];
    double inside = square_of(x, s->centroids + own * d, d), nearest = INFINITY, other = INFINITY;
    for (int64_t j = 0; j < s->k; j++) {
        if (j == own || !(s->weights[j] > 0)) continue;
        double square = square_of(x, s->centroids + j * d, d);
        nearest = fmin(nearest, square);
        other = fmin(other, square + s->sse[j] / s->weights[j]);
    }
    double d1 = sqrt(inside), d2 = sqrt(nearest);
    *margin = fmax(d1, d2) > 0 ? (d2 - d1) / fmax(d1, d2) : 0;
    double a = n > 1 ? (inside + s->sse[own] / n) * n / (n - 1) : 0, larger = fmax(a, other);
    *silhouette = n > 1 && larger > 0 ? (other - a) / larger : 0;
}

static km_status add_margins(scoring *s) {
    double *values = malloc((size_t)(2 * s->n) * sizeof *values);
    if (!values) return km_fail_memory(s->err, "the silhouettes", 2 * s->n * (int64_t)sizeof *values);
    int threads = (int)s->threads;
    km_status status = KM_OK;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1 && s->n > PARALLEL_POINTS)
    for (int64_t i = 0; i < s->n; i++) {
        double *x = s->row + omp_get_thread_num() * s->d;
        km_error own = {""};
        km_status read = point_read(x, s, i, &own);
        if (read == KM_OK) {
            one_point(&values[2 * i], &values[2 * i + 1], s, x, i);
            continue;
        }
#pragma omp critical(km_score)
        if (status == KM_OK) status = km_fail(s->err, read, "%s", own.text);
    }
    for (int64_t i = 0; i < s->n && status == KM_OK; i++) { // in order: threads change nothing
        s->margin[s->own[i]] += weight_of(s, i) * values[2 * i];
        s->silhouettes += weight_of(s, i) * values[2 * i + 1];
    }
    free(values);
    return status;
}

// Scores ------------------------------------------------------------------------------------------------------

// Exact, or that of a sample, whose points are dense rows; not measured where there is no memory for them.
static km_status by_pairs(double *score, double *error, const scoring *s) {
    int64_t n = km_min(s->n, KM_PAIRS_POINTS), d = s->d, bytes;
    km_error none;
    if (km_mul_overflows(&bytes, n * 8, d + 3) || km_host_check("the sample", bytes, &none) != KM_OK)
        return KM_OK;
    double *x = malloc((size_t)(n * (d + 1)) * sizeof *x);
    int64_t *indices = malloc((size_t)n * (sizeof *indices + sizeof(int32_t)));
    km_status status = KM_OK;
    if (!x || !indices) {
        status = km_fail_memory(s->err, "the sample of the silhouette", bytes);
        goto done;
    }
    int32_t *own = (int32_t *)(indices + n);
    for (int64_t i = 0; i < n; i++) indices[i] = i;
    if (n < s->n) KM_TRY_GOTO(km_draw_points(indices, s->n, n, s->params->seed, s->err));
    for (int64_t i = 0; i < n; i++) {
        KM_TRY_GOTO(point_read(x + i * d, s, indices[i], s->err));
        x[n * d + i] = weight_of(s, indices[i]);
        own[i] = s->own[indices[i]];
    }
    km_pairs pairs = {x, s->w ? x + n * d : NULL, n, d, own, &s->k, 1, s->threads, NULL};
    double unused;
    status = km_pairs_silhouettes(score, n < s->n ? error : &unused, &pairs, s->err);
done:
    free(x);
    free(indices);
    return status;
}

// Those that labels alone determine: not those of several K, or of fits.
static uint64_t criteria_of_labels(void) {
    uint64_t criteria = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (km_criterion_needs((km_criterion)c) == KM_NEEDS_FINISH) criteria |= (uint64_t)1 << c;
    criteria &= ~((uint64_t)1 << KM_CRITERION_hartigan | (uint64_t)1 << KM_CRITERION_krzanowski_lai |
                  (uint64_t)1 << KM_CRITERION_valley); // of which lists and fits know
    return criteria | (uint64_t)1 << KM_CRITERION_silhouette |
           (uint64_t)1 << KM_CRITERION_silhouette_euclidean;
}

static km_status fill_scores(km_label_scores *out, const scoring *s) {
    double given[KM_CRITERION_COUNT];
    for (int c = 0; c < KM_CRITERION_COUNT; c++) given[c] = out->score_errors[c] = NAN;
    if (s->k >= 2 && s->k < s->n && s->total_weight > (double)s->k)
        given[KM_CRITERION_silhouette] = s->silhouettes / s->total_weight;
    KM_TRY(by_pairs(&given[KM_CRITERION_silhouette_euclidean],
                    &out->score_errors[KM_CRITERION_silhouette_euclidean], s));
    km_score_input input = {s->k,
                            s->d,
                            s->centroids,
                            s->weights,
                            s->counts,
                            s->sse,
                            s->distance,
                            s->margin,
                            s->total_weight,
                            s->total_sse,
                            s->total_distance,
                            KM_FLOAT64,
                            given,
                            NULL,
                            km_data_unit_rounding(s->data)};
    return km_score_models(out->scores, &input, 1, s->err);
}

// The scores and the arrays behind them are one allocation.
static km_status make_scores(km_label_scores **out, const scoring *s) {
    size_t k = (size_t)s->k, numbers = k * sizeof(double), integers = k * sizeof(int64_t);
    char *memory = calloc(1, sizeof **out + 2 * numbers + 2 * integers);
    if (!memory)
        return km_fail_memory(s->err, "the scores", (int64_t)(sizeof **out + 2 * numbers + 2 * integers));
    char *at = memory + sizeof **out;
    km_label_scores *scores = *out = (km_label_scores *)(void *)memory;
    scores->labels = memcpy(at, s->values, integers);
    scores->counts = memcpy(at + integers, s->counts, integers);
    scores->weights = memcpy(at + 2 * integers, s->weights, numbers);
    scores->sse = memcpy(at + 2 * integers + numbers, s->sse, numbers);
    scores->n = s->n;
    scores->d = s->d;
    scores->rows = km_data_rows(s->data);
    scores->left_out = scores->rows - s->n;
    scores->dropped = scores->rows - km_data_points(s->data);
    scores->k = s->k;
    scores->scale = s->params->scale;
    scores->criteria = criteria_of_labels();
    for (int64_t j = 0; j < s->k; j++) scores->inertia += s->sse[j];
    return fill_scores(scores, s);
}

km_status km_score_labels(km_label_scores **out, const km_data *data, const int64_t *labels, int64_t count,
                          const km_score_params *params, km_error *err) {
    km_score_params defaults;
    km_score_params_init(&defaults);
    *out = NULL;
    scoring s = {
        .data = data, .params = params ? params : &defaults, .d = km_data_features(data), .err = err};
    if ((unsigned)s.params->scale >= KM_SCALE_COUNT)
        return km_fail(err, KM_ERROR_USAGE, "scale %d does not exist", (int)s.params->scale);
    s.threads = km_threads(s.params->threads, omp_get_num_procs(), s.params->log);
    km_data *unit = NULL;
    km_status status = KM_OK;
    if (s.params->scale == KM_SCALE_UNIT) status = km_data_unit(&unit, data, err);
    if (unit) s.data = unit;
    if (status == KM_OK) status = check_labels(&s, labels, count);
    if (status == KM_OK) status = list_labels(&s, labels);
    if (status == KM_OK) status = scoring_alloc(&s);
    if (status == KM_OK) status = list_points(&s, labels);
    if (status == KM_OK) status = scale_choose(&s);
    if (status == KM_OK) status = add_means(&s);
    if (status == KM_OK) status = add_margins(&s);
    if (status == KM_OK) status = make_scores(out, &s);
    if (status != KM_OK) km_label_scores_destroy(out);
    scoring_free(&s);
    km_data_destroy(&unit);
    return status;
}

void km_label_scores_destroy(km_label_scores **scores) {
    free(*scores);
    *scores = NULL;
}

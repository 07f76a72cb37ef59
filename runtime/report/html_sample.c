// SPDX-License-Identifier: MIT
#include "html_sample.h"
#include "../../base/error.h"
#include "../../base/size.h"
#include "../criteria/pairs.h"
#include "../resident.h"
#include "../sample.h"

#include <math.h>
#include <stdlib.h>

// What a sample may take: numbers that are kept, multiplications for all labels, rows that are drawn.
#define POINTS_MAX ((int64_t)1 << 21)
#define PRODUCTS_MAX ((int64_t)1 << 27)
#define ROWS_MIN 64
#define SHOWN_MAX 2000
// The draws of a sample share nothing with those of the fit, whatever its seed.
#define SAMPLE_STREAM 0x7265706f7274ull

// Rows that these limits leave.
static int64_t rows_within(const km_result *result, int64_t rows_max) {
    int64_t clusters = 1, products;
    for (int64_t m = 0; m < result->models_count; m++) clusters += result->models[m].k;
    int64_t rows = km_min(rows_max, POINTS_MAX / result->d);
    if (km_mul_overflows(&products, clusters, result->d)) products = PRODUCTS_MAX;
    rows = km_min(rows, PRODUCTS_MAX / products);
    return km_min(km_max(rows, ROWS_MIN), result->n);
}

static km_status read_points(km_html_sample *s, const km_result *result, const km_data *data, km_error *err) {
    int64_t *rows = malloc((size_t)s->n * sizeof *rows);
    for (int64_t i = 0; rows && i < s->n; i++)
        rows[i] = km_draw_of_part(result->seed, SAMPLE_STREAM, i, s->n, result->n);
    km_status status = rows ? km_data_read_points(s->points, data, rows, s->n, err)
                            : km_fail_memory(err, "a sample of the points", s->n * (int64_t)sizeof *rows);
    free(rows);
    KM_TRY(status);
    for (int64_t i = 0; i < s->n; i++) {
        double *x = s->points + i * s->d;
        for (int64_t f = 0; f < s->d; f++) {
            double value = (x[f] - result->centre[f]) * result->factor[f];
            x[f] = result->type == KM_FLOAT32 ? (double)(float)value : value;
        }
    }
    return KM_OK;
}

static km_status label(km_html_sample *s, const km_result *result, km_error *err) {
    for (int64_t m = 0; m < s->models_count; m++) {
        const km_model *model = &result->models[m];
        s->labels[m] = malloc((size_t)s->n * sizeof **s->labels);
        s->marks[m] = malloc((size_t)model->k * sizeof **s->marks);
        if (!s->labels[m] || !s->marks[m])
            return km_fail_memory(err, "the report's labels", s->n * (int64_t)sizeof **s->labels);
        km_label_points(s->labels[m], s->points, s->n, model->centroids_fitted, model->k, s->d, 1);
    }
    return KM_OK;
}

int64_t *km_html_sample_shared(const km_html_sample *s, const km_result *result, int64_t a, int64_t b) {
    int64_t k_a = result->models[a].k, k_b = result->models[b].k;
    int64_t *shared = calloc((size_t)(k_a * k_b), sizeof *shared);
    for (int64_t i = 0; shared && i < s->n; i++) shared[s->labels[a][i] * k_b + s->labels[b][i]]++;
    return shared;
}

// The pair of clusters without a partner that shares most rows; 0 where none is left that shares any.
static int best_pair(int32_t *i_out, int32_t *j_out, const int64_t *shared, const int32_t *to, int32_t k_to,
                     const uint8_t *taken, int32_t k_from) {
    int64_t most = 0;
    for (int32_t i = 0; i < k_from; i++)
        for (int32_t j = 0; j < k_to; j++) {
            int64_t count = shared[(int64_t)i * k_to + j];
            if (count <= most || taken[i] || to[j] >= 0) continue;
            most = count, *i_out = i, *j_out = j;
        }
    return most > 0;
}

// Marks that no cluster has go to those that found no partner.
static km_status fill_marks(int32_t *marks, int32_t k, km_error *err) {
    uint8_t *used = calloc((size_t)k, 1);
    if (!used) return km_fail_memory(err, "the report's marks", k);
    for (int32_t j = 0; j < k; j++)
        if (marks[j] >= 0 && marks[j] < k) used[marks[j]] = 1;
    for (int32_t j = 0, free_mark = 0; j < k; j++) {
        if (marks[j] >= 0) continue;
        while (free_mark < k && used[free_mark]) free_mark++;
        marks[j] = free_mark++;
    }
    free(used);
    return KM_OK;
}

// Marks of model `to`, after those of model `from`.
static km_status hand_on(km_html_sample *s, const km_result *result, int64_t from, int64_t to,
                         km_error *err) {
    int32_t k_from = result->models[from].k, k_to = result->models[to].k, i = 0, j = 0;
    for (int32_t c = 0; c < k_to; c++) s->marks[to][c] = -1;
    // Pairing costs the third power of K.
    if (k_from > KM_HTML_PAIRED_MAX || k_to > KM_HTML_PAIRED_MAX) return fill_marks(s->marks[to], k_to, err);
    int64_t *shared = km_html_sample_shared(s, result, from, to);
    uint8_t *taken = calloc((size_t)k_from, 1);
    if (!shared || !taken) {
        free(shared);
        free(taken);
        return km_fail_memory(err, "the report's table of shared rows", (int64_t)k_from * k_to * 8);
    }
    while (best_pair(&i, &j, shared, s->marks[to], k_to, taken, k_from)) {
        s->marks[to][j] = s->marks[from][i];
        taken[i] = 1;
    }
    free(shared);
    free(taken);
    return fill_marks(s->marks[to], k_to, err);
}

static km_status mark(km_html_sample *s, const km_result *result, km_error *err) {
    int64_t best = result->selection.best;
    for (int32_t j = 0; j < result->models[best].k; j++) s->marks[best][j] = j;
    for (int64_t m = best + 1; m < s->models_count; m++) KM_TRY(hand_on(s, result, m - 1, m, err));
    for (int64_t m = best - 1; m >= 0; m--) KM_TRY(hand_on(s, result, m + 1, m, err));
    return KM_OK;
}

km_status km_html_sample_draw(km_html_sample *s, const km_result *result, const km_data *data,
                              int64_t rows_max, km_error *err) {
    *s = (km_html_sample){.d = result->d, .models_count = result->models_count};
    s->n = rows_within(result, rows_max);
    s->shown = km_min(s->n, SHOWN_MAX);
    s->points = malloc((size_t)(s->n * s->d) * sizeof *s->points);
    s->labels = calloc((size_t)s->models_count, sizeof *s->labels);
    s->marks = calloc((size_t)s->models_count, sizeof *s->marks);
    if (!s->points || !s->labels || !s->marks)
        return km_fail_memory(err, "the report's sample", s->n * s->d * (int64_t)sizeof *s->points);
    KM_TRY(read_points(s, result, data, err));
    KM_TRY(label(s, result, err));
    return mark(s, result, err);
}

void km_html_sample_free(km_html_sample *s) {
    for (int64_t m = 0; m < s->models_count; m++) {
        if (s->labels) free(s->labels[m]);
        if (s->marks) free(s->marks[m]);
    }
    free(s->points);
    free(s->labels);
    free(s->marks);
    *s = (km_html_sample){0};
}

int64_t km_html_sample_shown(const km_html_sample *s, int64_t i) {
    return i * s->n / s->shown;
}

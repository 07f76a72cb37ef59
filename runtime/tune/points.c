// SPDX-License-Identifier: MIT
#include "points.h"
#include "../../base/size.h"
#include "../threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20 };

// Points ------------------------------------------------------------------------------------------------------

// About a normal deviate: the sum of four uniform ones of 16 bits, with variance 1.
static double deviate(int64_t i, int64_t f) {
    uint64_t bits = km_mix64(km_mix64((uint64_t)i + SEED) + (uint64_t)f * 0x9e3779b97f4a7c15ull), sum = 0;
    for (int part = 0; part < 4; part++) sum += bits >> 16 * part & 0xffff;
    return ((double)sum / 65536 - 2) * 1.7320508;
}

// Clusters lie at random in the unit box, and are so wide that they overlap: then no run stops while it is timed, and
// points lie near two centroids as often as in real tables.
static void fill(km_tune_points *to, const double *centres, int64_t clusters, int64_t i) {
    const double width = 0.2;
    for (int64_t f = 0; f < to->d; f++) {
        double value = centres[i % clusters * to->d + f] + width * deviate(i, f);
        if (to->type == KM_FLOAT64)
            ((double *)to->values)[i * to->d + f] = value;
        else
            ((float *)to->values)[i * to->d + f] = (float)value;
    }
}

km_status km_tune_points_make(km_tune_points *out, int64_t n, int64_t d, int64_t clusters, km_type type,
                              km_error *err) {
    *out = (km_tune_points){.n = n, .d = d, .type = type};
    int64_t bytes = n * d * km_type_bytes(type);
    out->values = malloc((size_t)bytes);
    if (!out->values) return km_fail_memory(err, "the points to measure with", bytes);
    double *centres = malloc((size_t)(clusters * d) * sizeof *centres);
    if (!centres) {
        km_tune_points_free(out);
        return km_fail_memory(err, "the points to measure with", clusters * d * 8);
    }
    for (int64_t i = 0; i < clusters * d; i++) centres[i] = km_draw(SEED, 0, (uint64_t)i, 0);
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) fill(out, centres, clusters, i);
    free(centres);
    km_status status = km_data_from_memory(&out->data, out->values, n, d, type, 0, 0, NULL, err);
    if (status != KM_OK) km_tune_points_free(out);
    return status;
}

void km_tune_points_free(km_tune_points *points) {
    km_data_destroy(&points->data);
    free(points->values);
    *points = (km_tune_points){0};
}

void km_tune_points_starts(int64_t *indices, const km_tune_points *points, int64_t k) {
    for (int64_t j = 0; j < k; j++) indices[j] = points->n / k * j + j % (points->n / k);
}

// Expected ----------------------------------------------------------------------------------------------------

// A point in the clustered space, as the engines load it.
static void load_point(double *out, const km_tune_points *points, const km_load_params *load, int64_t i) {
    for (int64_t f = 0; f < points->d; f++) {
        double value = points->type == KM_FLOAT64 ? ((const double *)points->values)[i * points->d + f]
                                                  : ((const float *)points->values)[i * points->d + f];
        value = (value - load->centre[f]) * load->factor[f];
        out[f] = points->type == KM_FLOAT64 ? value : (float)value;
    }
}

static void add_point(km_tune_expected *to, const double *x, const double *squares, double margin) {
    int64_t best = 0, candidates = 0;
    for (int64_t j = 1; j < to->k; j++)
        if (squares[j] < squares[best]) best = j;
    for (int64_t j = 0; j < to->k; j++) candidates += squares[j] <= squares[best] + margin;
    for (int64_t j = 0; j < to->k && candidates > 1; j++) to->open[j] += squares[j] <= squares[best] + margin;
    if (candidates == 1) to->sure[best]++;
    for (int64_t f = 0; f < to->d; f++) {
        if (candidates == 1) to->sums[best * to->d + f] += x[f];
        to->absolute[best * to->d + f] += fabs(x[f]);
    }
}

// Points first .. first + count - 1.
static void expect_points(km_tune_expected *to, const km_tune_points *points, const km_load_params *load,
                          const double *centroids, double *scratch, int64_t first, int64_t count) {
    // Scores are |c|^2 / 2 - x . c in the type, or of narrower numbers whose ambiguous points are decided again:
    // either way labels are right but where two squared distances are this close, relative to the longest vectors.
    const double rounding = points->type == KM_FLOAT64 ? 0x1p-50 : 0x1p-21;
    int64_t d = points->d;
    double *x = scratch, *squares = scratch + d;
    for (int64_t i = first; i < first + count; i++) {
        double length = 0, longest = 0;
        load_point(x, points, load, i);
        for (int64_t f = 0; f < d; f++) length += x[f] * x[f];
        for (int64_t j = 0; j < to->k; j++) {
            double square = 0, norm = 0;
            for (int64_t f = 0; f < d; f++) {
                const double c = centroids[j * d + f], t = x[f] - c;
                square += t * t;
                norm += c * c;
            }
            squares[j] = square;
            longest = fmax(longest, norm);
        }
        add_point(to, x, squares, rounding * (double)(d + 8) * (length + longest));
    }
}

static km_status expected_alloc(km_tune_expected *out, int64_t k, int64_t d, km_error *err) {
    *out = (km_tune_expected){.k = k, .d = d, .sure = calloc((size_t)(2 * k * (d + 1)), sizeof(double))};
    if (!out->sure) return km_fail_memory(err, "what a pass must give", 2 * k * (d + 1) * 8);
    out->open = out->sure + k;
    out->sums = out->open + k;
    out->absolute = out->sums + k * d;
    return KM_OK;
}

void km_tune_expected_free(km_tune_expected *expected) {
    free(expected->sure);
    *expected = (km_tune_expected){0};
}

km_status km_tune_expect(km_tune_expected *out, const km_tune_points *points, const km_load_params *load,
                         const double *centroids, int64_t k, km_error *err) {
    int64_t d = points->d, numbers = 2 * k * (d + 1), failed = 0;
    KM_TRY(expected_alloc(out, k, d, err));
#pragma omp parallel
    {
        km_tune_expected own = {0};
        double *scratch = malloc((size_t)(d + k) * sizeof *scratch);
        int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
        int is_bad = !scratch || expected_alloc(&own, k, d, NULL) != KM_OK;
        int64_t first = points->n * thread / threads, end = points->n * (thread + 1) / threads;
        if (!is_bad) expect_points(&own, points, load, centroids, scratch, first, end - first);
#pragma omp critical
        {
            failed |= is_bad;
            for (int64_t i = 0; i < numbers && !is_bad; i++) out->sure[i] += own.sure[i];
        }
        km_tune_expected_free(&own);
        free(scratch);
    }
    if (!failed) return KM_OK;
    km_tune_expected_free(out);
    return km_fail_memory(err, "what a pass must give", numbers * 8);
}

int km_tune_is_as_expected(char *reason, int64_t size, const km_tune_expected *expected,
                           const double *centroids, const double *weights) {
    // Of sums in float32, and of a mean that is stored as one.
    const double rounding = 0x1p-19;
    int64_t d = expected->d;
    for (int64_t j = 0; j < expected->k; j++) {
        double sure = expected->sure[j], open = expected->open[j];
        if (!(weights[j] >= sure && weights[j] <= sure + open)) {
            snprintf(reason, (size_t)size, "cluster %lld of K = %lld has %.0f points, not %.0f to %.0f",
                     (long long)j, (long long)expected->k, weights[j], sure, sure + open);
            return 0;
        }
        for (int64_t f = 0; f < d && weights[j] > 0; f++) {
            double sum = centroids[j * d + f] * weights[j], should = expected->sums[j * d + f];
            // Coordinates of the clustered space are at most 1.
            double bound = rounding * (expected->absolute[j * d + f] + weights[j] * 0x1p-5) + open;
            if (fabs(sum - should) <= bound) continue; // false for a NaN
            snprintf(reason, (size_t)size,
                     "the sum of feature %lld in cluster %lld of K = %lld is %.9g, not %.9g within %.3g",
                     (long long)f, (long long)j, (long long)expected->k, sum, should, bound);
            return 0;
        }
    }
    return 1;
}

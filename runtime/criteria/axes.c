// SPDX-License-Identifier: MIT
#include "axes.h"
#include "../../base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_ROWS = 256, SWEEPS_MAX = 60 };

// What is added over all points, a batch of rows at a time.
typedef struct reading {
    const km_data *data;
    const double *centre, *factor;
    int64_t d;
    double *rows; // BATCH_ROWS x d, in the clustered space
} reading;

static km_status read_batch(const reading *r, int64_t first, int64_t count, km_error *err) {
    KM_TRY(km_data_read(r->rows, r->data, first, count, KM_FLOAT64, err));
    for (int64_t i = 0; i < count * r->d; i++)
        r->rows[i] = (r->rows[i] - r->centre[i % r->d]) * r->factor[i % r->d];
    return KM_OK;
}

static int64_t batch_rows(const reading *r, int64_t first) {
    int64_t rest = km_data_points(r->data) - first;
    return rest < BATCH_ROWS ? rest : BATCH_ROWS;
}

// matrix: d x d, weighted sums of products of differences from the mean. The centre is near the mean, so that sums of
// products lose nothing.
static km_status covariance(double *matrix, double *mean, const reading *r, km_error *err) {
    int64_t n = km_data_points(r->data), d = r->d;
    const double *weights = km_data_weights(r->data);
    double total = 0;
    memset(matrix, 0, (size_t)(d * d) * sizeof *matrix);
    memset(mean, 0, (size_t)d * sizeof *mean);
    for (int64_t first = 0, count; first < n; first += count) {
        count = batch_rows(r, first);
        KM_TRY(read_batch(r, first, count, err));
        for (int64_t i = 0; i < count; i++) {
            const double *x = r->rows + i * d;
            double w = weights ? weights[first + i] : 1;
            total += w;
            for (int64_t f = 0; f < d; f++) {
                mean[f] += w * x[f];
                for (int64_t g = 0; g <= f; g++) matrix[f * d + g] += w * x[f] * x[g];
            }
        }
    }
    for (int64_t f = 0; f < d; f++)
        for (int64_t g = 0; g <= f; g++)
            matrix[f * d + g] = matrix[g * d + f] = matrix[f * d + g] - mean[f] * (mean[g] / total);
    return KM_OK;
}

// Turns rows and columns p and q of a symmetric matrix so that its element (p, q) becomes 0; rows of `axes` turn along.
static void rotate(double *matrix, double *axes, int64_t d, int64_t p, int64_t q) {
    double between = matrix[p * d + q];
    if (between == 0) return;
    double theta = (matrix[q * d + q] - matrix[p * d + p]) / (2 * between);
    double t = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1),
           s = t * c;
    for (int64_t i = 0; i < d; i++) {
        double a = matrix[i * d + p], b = matrix[i * d + q];
        matrix[i * d + p] = c * a - s * b;
        matrix[i * d + q] = s * a + c * b;
    }
    for (int64_t i = 0; i < d; i++) {
        double a = matrix[p * d + i], b = matrix[q * d + i], x = axes[p * d + i], y = axes[q * d + i];
        matrix[p * d + i] = c * a - s * b;
        matrix[q * d + i] = s * a + c * b;
        axes[p * d + i] = c * x - s * y;
        axes[q * d + i] = s * x + c * y;
    }
}

// The eigenvectors of a symmetric matrix, which is overwritten: Jacobi's cyclic rotations.
static void eigenvectors(double *axes, double *matrix, int64_t d) {
    for (int64_t i = 0; i < d * d; i++) axes[i] = i % (d + 1) == 0;
    for (int sweep = 0; sweep < SWEEPS_MAX; sweep++) {
        double off = 0, on = 0;
        for (int64_t p = 0; p < d; p++)
            for (int64_t q = 0; q < d; q++) *(p == q ? &on : &off) += matrix[p * d + q] * matrix[p * d + q];
        if (!(off > 0x1p-100 * on)) return;
        for (int64_t p = 0; p < d; p++)
            for (int64_t q = p + 1; q < d; q++) rotate(matrix, axes, d, p, q);
    }
}

static km_status box_along(double *low, double *width, const double *axes, const reading *r, km_error *err) {
    int64_t n = km_data_points(r->data), d = r->d;
    for (int64_t a = 0; a < d; a++) low[a] = INFINITY, width[a] = -INFINITY; // until the end the highest
    for (int64_t first = 0, count; first < n; first += count) {
        count = batch_rows(r, first);
        KM_TRY(read_batch(r, first, count, err));
        for (int64_t i = 0; i < count; i++)
            for (int64_t a = 0; a < d; a++) {
                double y = 0;
                for (int64_t f = 0; f < d; f++) y += axes[a * d + f] * r->rows[i * d + f];
                low[a] = fmin(low[a], y);
                width[a] = fmax(width[a], y);
            }
    }
    for (int64_t a = 0; a < d; a++) width[a] -= low[a];
    return KM_OK;
}

km_status km_principal_refuse(const km_data *data, km_error *err) {
    return km_fail(
        err, KM_ERROR_USAGE,
        "the box of principal components is for at most %d features, and %s has %lld: take the uniform box "
        "(--gap-box uniform)",
        KM_PRINCIPAL_FEATURES_MAX, km_data_name(data), (long long)km_data_features(data));
}

km_status km_principal_box(double *low, double *width, double *axes, const km_data *data,
                           const double *centre, const double *factor, km_error *err) {
    int64_t d = km_data_features(data), values = d * d + d + BATCH_ROWS * d;
    if (d > KM_PRINCIPAL_FEATURES_MAX) return km_principal_refuse(data, err);
    double *matrix = malloc((size_t)values * sizeof *matrix);
    if (!matrix) return km_fail_memory(err, "the principal components", values * (int64_t)sizeof *matrix);
    double *mean = matrix + d * d;
    reading r = {data, centre, factor, d, mean + d};
    km_status status;
    KM_TRY_GOTO(covariance(matrix, mean, &r, err));
    eigenvectors(axes, matrix, d);
    KM_TRY_GOTO(box_along(low, width, axes, &r, err));
done:
    free(matrix);
    return status;
}

// SPDX-License-Identifier: MIT
#include "reference.h"
#include "../runtime/seed.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *ref_alloc(int64_t count, int64_t size) {
    void *memory = calloc((size_t)(count > 0 ? count : 1), (size_t)size);
    if (!memory) {
        fprintf(stderr, "reference: no memory for %lld elements\n", (long long)count);
        exit(99);
    }
    return memory;
}

// Data ----------------------------------------------------------------------------------------------------

double ref_round(double value, km_type type) {
    return type == KM_FLOAT32 ? (double)(float)value : value;
}

ref_data ref_data_make(int64_t n, int64_t d, km_type type) {
    ref_data data = {n, d, type, ref_alloc(n * d, sizeof(double)), NULL};
    return data;
}

ref_data ref_data_of(const double *x, const double *w, int64_t n, int64_t d, km_type type) {
    ref_data data = ref_data_make(n, d, type);
    for (int64_t i = 0; i < n * d; i++) data.x[i] = ref_round(x[i], type);
    if (w) {
        data.w = ref_alloc(n, sizeof(double));
        memcpy(data.w, w, (size_t)n * sizeof(double));
    }
    return data;
}

ref_data ref_data_copy(const ref_data *data) {
    return ref_data_of(data->x, data->w, data->n, data->d, data->type);
}

void ref_data_free(ref_data *data) {
    free(data->x);
    free(data->w);
    data->x = data->w = NULL;
}

// Uniform in [0, 1): a stream of its own for each generator, so that tests do not share numbers with seeding.
static double ref_unit(uint64_t seed, int64_t i, int64_t f, int stream) {
    return km_draw(seed ^ 0x5851f42d4c957f2du, (uint64_t)i, (uint64_t)f, (uint64_t)stream + 1000);
}

static double ref_normal(uint64_t seed, int64_t i, int64_t f) {
    double u = 1.0 - ref_unit(seed, i, f, 0), v = ref_unit(seed, i, f, 1);
    return sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v);
}

ref_data ref_blobs(int64_t n, int64_t d, int64_t blobs, double spread, uint64_t seed, km_type type) {
    ref_data data = ref_data_make(n, d, type);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < d; f++) {
            double centre = 20.0 * ref_unit(seed, i % blobs, f, 2) - 10.0;
            data.x[i * d + f] = ref_round(centre + spread * ref_normal(seed, i, f), type);
        }
    return data;
}

ref_data ref_uniform(int64_t n, int64_t d, uint64_t seed, km_type type) {
    ref_data data = ref_data_make(n, d, type);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < d; f++)
            data.x[i * d + f] = ref_round(2.0 * ref_unit(seed, i, f, 3) - 1.0, type);
    return data;
}

ref_data ref_grid(int64_t n, int64_t d, int64_t side, uint64_t seed, km_type type) {
    ref_data data = ref_data_make(n, d, type);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < d; f++) data.x[i * d + f] = floor((double)side * ref_unit(seed, i, f, 4));
    return data;
}

void ref_weigh(ref_data *data, uint64_t seed) {
    static const double weights[] = {0, 0.25, 0.5, 1, 2, 3};
    free(data->w);
    data->w = ref_alloc(data->n, sizeof(double));
    for (int64_t i = 0; i < data->n; i++) data->w[i] = weights[(int)(6.0 * ref_unit(seed, i, 0, 5))];
    if (data->n > 0) data->w[data->n / 2] = 1;
}

void ref_shift(ref_data *data, double offset) {
    for (int64_t i = 0; i < data->n * data->d; i++) data->x[i] = ref_round(data->x[i] + offset, data->type);
}

void *ref_values(const ref_data *data) {
    int64_t count = data->n * data->d;
    double *doubles = ref_alloc(count, sizeof(double));
    if (data->type == KM_FLOAT64) {
        memcpy(doubles, data->x, (size_t)count * sizeof(double));
        return doubles;
    }
    free(doubles);
    float *floats = ref_alloc(count, sizeof(float));
    for (int64_t i = 0; i < count; i++) floats[i] = (float)data->x[i];
    return floats;
}

// The steps of k-means ------------------------------------------------------------------------------------

double ref_distance2(const double *a, const double *b, int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) sum += (a[f] - b[f]) * (a[f] - b[f]);
    return sum;
}

double ref_distance2_fused(const double *a, const double *b, int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) sum = fma(a[f] - b[f], a[f] - b[f], sum);
    return sum;
}

// Nearest and second-nearest of k centroids by fused distances; `second` is infinite for k = 1.
static int32_t ref_nearest_fused(double *least, double *second, const double *x, const double *centroids,
                                 int64_t k, int64_t d) {
    int32_t best = 0;
    *least = *second = INFINITY;
    for (int64_t j = 0; j < k; j++) {
        double distance = ref_distance2_fused(x, centroids + j * d, d);
        if (distance < *least) {
            *second = *least;
            *least = distance;
            best = (int32_t)j;
        } else if (distance < *second) {
            *second = distance;
        }
    }
    return best;
}

void ref_assign(int32_t *labels, double *distance2, const ref_data *data, const double *centroids,
                int64_t k) {
    for (int64_t i = 0; i < data->n; i++) {
        int32_t best = 0;
        double least = INFINITY;
        for (int64_t j = 0; j < k; j++) {
            double distance = ref_distance2(data->x + i * data->d, centroids + j * data->d, data->d);
            if (distance < least) {
                least = distance;
                best = (int32_t)j;
            }
        }
        labels[i] = best;
        if (distance2) distance2[i] = least;
    }
}

void ref_update(double *centroids, double *weights, int64_t *counts, const ref_data *data,
                const int32_t *labels, int64_t k) {
    int64_t d = data->d;
    double *sums = ref_alloc(k * d, sizeof(double)), *total = ref_alloc(k, sizeof(double));
    if (counts) memset(counts, 0, (size_t)k * sizeof(int64_t));
    for (int64_t i = 0; i < data->n; i++) {
        double w = ref_weight(data, i);
        total[labels[i]] += w;
        if (counts) counts[labels[i]]++;
        for (int64_t f = 0; f < d; f++) sums[labels[i] * d + f] += w * data->x[i * d + f];
    }
    for (int64_t j = 0; j < k; j++)
        for (int64_t f = 0; f < d; f++)
            if (total[j] > 0) centroids[j * d + f] = ref_round(sums[j * d + f] / total[j], data->type);
    if (weights) memcpy(weights, total, (size_t)k * sizeof(double));
    free(sums);
    free(total);
}

// Whether point i lies where one of the `count` taken points lies.
static int ref_taken(const ref_data *data, int64_t i, const int64_t *taken, int64_t count) {
    for (int64_t t = 0; t < count; t++)
        if (ref_distance2(data->x + i * data->d, data->x + taken[t] * data->d, data->d) == 0) return 1;
    return 0;
}

// The means of the points that stay, where some left; those of clusters that all points left are the heaviest one's.
// `labels` and `weights` have the points where they are now.
static void ref_means_without(double *centroids, const double *weights, const ref_data *data,
                              const int32_t *labels, const int32_t *old, int64_t k) {
    int64_t heaviest = 0;
    double *sums = ref_alloc(data->d, sizeof(double));
    for (int64_t j = 1; j < k; j++)
        if (weights[j] > weights[heaviest]) heaviest = j;
    for (int64_t j = 0; j < k; j++) {
        int64_t left = 0;
        for (int64_t i = 0; i < data->n; i++) left += old[i] == j && labels[i] != j;
        if (left == 0 || weights[j] == 0) continue;
        memset(sums, 0, (size_t)data->d * sizeof *sums);
        for (int64_t i = 0; i < data->n; i++)
            for (int64_t f = 0; f < data->d && labels[i] == j; f++)
                sums[f] += ref_weight(data, i) * data->x[i * data->d + f];
        for (int64_t f = 0; f < data->d; f++)
            centroids[j * data->d + f] = ref_round(sums[f] / weights[j], data->type);
    }
    for (int64_t i = 0; i < data->n; i++)
        if (old[i] != labels[i] && weights[old[i]] == 0)
            memcpy(centroids + old[i] * data->d, centroids + heaviest * data->d,
                   (size_t)data->d * sizeof *centroids);
    free(sums);
}

int64_t ref_relocate(double *centroids, const double *weights, const double *before, const ref_data *data,
                     int64_t k) {
    double *distance2 = ref_alloc(data->n, sizeof(double)), *now = ref_alloc(k, sizeof(double)), second;
    int64_t *taken = ref_alloc(k, sizeof(int64_t)), moved = 0;
    int32_t *labels = ref_alloc(2 * data->n, sizeof(int32_t)), *old = labels + data->n;
    ref_assign(labels, NULL, data, before, k);
    memcpy(old, labels, (size_t)data->n * sizeof *old);
    for (int64_t i = 0; i < data->n; i++)
        ref_nearest_fused(&distance2[i], &second, data->x + i * data->d, before, k, data->d);
    for (int64_t j = 0; j < k; j++) {
        if (weights[j] > 0) continue;
        int64_t farthest = -1;
        for (int64_t i = 0; i < data->n; i++) {
            if (ref_weight(data, i) == 0 || distance2[i] == 0 || ref_taken(data, i, taken, moved)) continue;
            if (farthest < 0 || distance2[i] > distance2[farthest]) farthest = i;
        }
        if (farthest < 0) break;
        memcpy(centroids + j * data->d, data->x + farthest * data->d, (size_t)data->d * sizeof(double));
        taken[moved++] = farthest;
        labels[farthest] = (int32_t)j;
    }
    for (int64_t i = 0; i < data->n; i++) now[labels[i]] += ref_weight(data, i);
    if (moved > 0) ref_means_without(centroids, now, data, labels, old, k);
    free(distance2);
    free(now);
    free(taken);
    free(labels);
    return moved;
}

double ref_inertia(const ref_data *data, const double *centroids, const int32_t *labels) {
    double sum = 0;
    for (int64_t i = 0; i < data->n; i++)
        sum += ref_weight(data, i) *
               ref_distance2(data->x + i * data->d, centroids + labels[i] * data->d, data->d);
    return sum;
}

// The squared distance as a plan of this type computes it: k-means++ draws from these.
static double ref_distance2_typed(const double *a, const double *b, int64_t d, km_type type) {
    if (type == KM_FLOAT64) return ref_distance2(a, b, d);
    float sum = 0;
    for (int64_t f = 0; f < d; f++) {
        float t = (float)a[f] - (float)b[f];
        sum += t * t;
    }
    return sum;
}

// The sum of w_i d2_i, or of w_i where d2 is NULL, chunk by chunk.
static double ref_mass(const ref_data *data, const double *d2) {
    double total = 0;
    for (int64_t first = 0; first < data->n; first += KM_CHUNK_POINTS) {
        double sum = 0;
        for (int64_t i = first; i < data->n && i < first + KM_CHUNK_POINTS; i++)
            sum += ref_weight(data, i) * (d2 ? d2[i] : 1.0);
        total += sum;
    }
    return total;
}

// The first point at which the running mass exceeds the target: first the chunk, then the point in it. When
// rounding leaves the target above the last sum, the last point that has mass.
static int64_t ref_draw_point(const ref_data *data, const double *d2, double target) {
    double before = 0;
    int64_t last = 0;
    for (int64_t first = 0; first < data->n; first += KM_CHUNK_POINTS) {
        double sum = 0;
        for (int64_t i = first; i < data->n && i < first + KM_CHUNK_POINTS; i++) {
            double mass = ref_weight(data, i) * (d2 ? d2[i] : 1.0);
            if (mass == 0) continue;
            sum += mass;
            last = i;
            if (before + sum > target) return i;
        }
        before += sum;
    }
    return last;
}

void ref_seed(int64_t *indices, const ref_data *data, uint64_t seed, int64_t restart, int64_t picks) {
    int64_t n = data->n, d = data->d;
    double *d2 = ref_alloc(n, sizeof(double)), *next = ref_alloc(n, sizeof(double));
    double *best = ref_alloc(n, sizeof(double));
    for (int64_t i = 0; i < n; i++) d2[i] = INFINITY;
    for (int64_t p = 0; p < picks; p++) {
        double total = ref_mass(data, p ? d2 : NULL), least = INFINITY;
        if (total == 0) {
            indices[p] = (int64_t)(km_draw(seed, (uint64_t)restart, (uint64_t)p, 0) * (double)n);
            continue;
        }
        for (int candidate = 0; candidate < km_candidates(p); candidate++) {
            double u = km_draw(seed, (uint64_t)restart, (uint64_t)p, (uint64_t)candidate);
            int64_t point = ref_draw_point(data, p ? d2 : NULL, u * total);
            for (int64_t i = 0; i < n; i++)
                next[i] =
                    fmin(d2[i], ref_distance2_typed(data->x + i * d, data->x + point * d, d, data->type));
            double left = ref_mass(data, next);
            if (left < least) {
                least = left;
                indices[p] = point;
                memcpy(best, next, (size_t)n * sizeof(double));
            }
        }
        memcpy(d2, best, (size_t)n * sizeof(double));
    }
    free(d2);
    free(next);
    free(best);
}

void ref_rows(double *out, const ref_data *data, const int64_t *indices, int64_t count) {
    for (int64_t r = 0; r < count; r++)
        memcpy(out + r * data->d, data->x + indices[r] * data->d, (size_t)data->d * sizeof(double));
}

double ref_mean_variance(double *mean, const ref_data *data) {
    double total = ref_mass(data, NULL), variance = 0;
    for (int64_t f = 0; f < data->d; f++) {
        double sum = 0, square = 0;
        for (int64_t i = 0; i < data->n; i++) sum += ref_weight(data, i) * data->x[i * data->d + f];
        mean[f] = sum / total;
        for (int64_t i = 0; i < data->n; i++) {
            double t = data->x[i * data->d + f] - mean[f];
            square += ref_weight(data, i) * t * t;
        }
        variance += square / total;
    }
    return variance / (double)data->d;
}

ref_finished ref_finish(const ref_data *data, const double *centroids, int64_t k) {
    ref_finished out = {k,    ref_alloc(k, sizeof(int64_t)),      NULL, NULL, NULL,
                        NULL, ref_alloc(data->n, sizeof(int32_t))};
    out.weights = ref_alloc(k, sizeof(double));
    out.sse = ref_alloc(k, sizeof(double));
    out.distance = ref_alloc(k, sizeof(double));
    out.margin = ref_alloc(k, sizeof(double));
    for (int64_t i = 0; i < data->n; i++) {
        double least, second, w = ref_weight(data, i);
        int32_t j = ref_nearest_fused(&least, &second, data->x + i * data->d, centroids, k, data->d);
        out.labels[i] = j;
        out.counts[j]++;
        out.weights[j] += w;
        out.sse[j] += w * least;
        out.distance[j] += w * sqrt(least);
        if (k > 1 && second > 0) out.margin[j] += w * (sqrt(second) - sqrt(least)) / sqrt(second);
    }
    return out;
}

void ref_finished_free(ref_finished *finished) {
    free(finished->counts);
    free(finished->weights);
    free(finished->sse);
    free(finished->distance);
    free(finished->margin);
    free(finished->labels);
}

// The whole of Lloyd's algorithm --------------------------------------------------------------------------

// One update, with relocation of empty clusters. Returns the sum of squared shifts, or INFINITY when a cluster was
// relocated: then the centroids cannot have come to rest.
static double ref_iterate(ref_model *model, const ref_data *data) {
    int64_t size = model->k * data->d;
    double *before = ref_alloc(size, sizeof(double));
    memcpy(before, model->centroids, (size_t)size * sizeof(double));
    ref_update(model->centroids, model->weights, NULL, data, model->labels, model->k);
    double shift = ref_distance2(before, model->centroids, size);
    if (ref_relocate(model->centroids, model->weights, before, data, model->k) > 0) shift = INFINITY;
    free(before);
    return shift;
}

ref_model ref_fit(const ref_data *data, const double *init, int64_t k, double shift_max, int64_t max_iter) {
    ref_model model = {.k = k};
    model.centroids = ref_alloc(k * data->d, sizeof(double));
    model.weights = ref_alloc(k, sizeof(double));
    model.labels = ref_alloc(data->n, sizeof(int32_t));
    memcpy(model.centroids, init, (size_t)(k * data->d) * sizeof(double));
    ref_assign(model.labels, NULL, data, model.centroids, k);
    while (!model.converged && model.n_iter < max_iter) {
        model.converged = ref_iterate(&model, data) <= shift_max;
        model.n_iter++;
        ref_assign(model.labels, NULL, data, model.centroids, k);
    }
    model.inertia = ref_inertia(data, model.centroids, model.labels);
    memset(model.weights, 0, (size_t)k * sizeof(double));
    for (int64_t i = 0; i < data->n; i++) model.weights[model.labels[i]] += ref_weight(data, i);
    for (int64_t j = 0; j < k; j++) model.effective_k += model.weights[j] > 0;
    return model;
}

void ref_model_free(ref_model *model) {
    free(model->centroids);
    free(model->weights);
    free(model->labels);
    memset(model, 0, sizeof *model);
}

// The contract of labels ----------------------------------------------------------------------------------

double ref_epsilon(km_type type) {
    return type == KM_FLOAT32 ? 0x1p-20 : 0x1p-48;
}

int64_t ref_labels_wrong(int64_t *first, const ref_data *data, const double *centroids, int64_t k,
                         const int32_t *labels) {
    int64_t d = data->d, wrong = 0;
    double *origin = ref_alloc(d, sizeof(double));
    int32_t *nearest = ref_alloc(data->n, sizeof(int32_t));
    double *least = ref_alloc(data->n, sizeof(double));
    ref_assign(nearest, least, data, centroids, k);
    if (first) *first = -1;
    for (int64_t i = 0; i < data->n; i++) {
        if (labels[i] >= 0 && labels[i] < k) {
            const double *x = data->x + i * d, *c = centroids + labels[i] * d;
            double size = ref_distance2(x, origin, d) + ref_distance2(c, origin, d);
            if (ref_distance2(x, c, d) - least[i] <= ref_epsilon(data->type) * size) continue;
        }
        if (first && wrong == 0) *first = i;
        wrong++;
    }
    free(origin);
    free(nearest);
    free(least);
    return wrong;
}

// SPDX-License-Identifier: MIT
// Finishing float32 data whose squares float cannot hold.
#include "../../base/size.h"
#include "cpu.h"
#include <math.h>
#include <string.h>

enum { POINTS = 64 }; // points worked on at a time

// Nearest and second-nearest of `count` points, whose features lie `soa_points` apart.
static inline __attribute__((always_inline)) void finish_nearest(int32_t *label, double *first,
                                                                 double *second, const km_cpu_finish *finish,
                                                                 const km_cpu_finish_model *model,
                                                                 const float *points, int64_t count) {
    double squared[POINTS];
    for (int64_t i = 0; i < count; i++) {
        first[i] = second[i] = INFINITY;
        label[i] = 0;
    }
    for (int64_t j = 0; j < model->k; j++) {
        for (int64_t i = 0; i < count; i++) squared[i] = 0;
        for (int64_t f = 0; f < finish->d; f++) {
            double value = model->centroids[j * finish->row + f];
            const float *x = points + f * finish->soa_points;
            for (int64_t i = 0; i < count; i++) {
                double t = (double)x[i] - value;
                squared[i] = __builtin_fma(t, t, squared[i]);
            }
        }
        for (int64_t i = 0; i < count; i++) {
            int nearer = squared[i] < first[i];
            double rest = nearer ? first[i] : squared[i];
            second[i] = rest < second[i] ? rest : second[i];
            first[i] = nearer ? squared[i] : first[i];
            label[i] = nearer ? (int32_t)j : label[i];
        }
    }
}

// Distances to the means by label.
static inline __attribute__((always_inline)) void finish_means(double *distance, const int32_t *label,
                                                               const km_cpu_finish *finish,
                                                               const km_cpu_finish_model *model,
                                                               const float *points, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double square = 0;
        for (int64_t f = 0; f < finish->d; f++) {
            double t = (double)points[f * finish->soa_points + i] - model->means[label[i] * finish->row + f];
            square += t * t;
        }
        distance[i] = sqrt(square);
    }
}

static inline void finish_sums(const km_cpu_finish_model *model, const int32_t *label, const double *first,
                               const double *second, const double *distance, const double *weights,
                               int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double weight = weights ? weights[i] : 1.0, d1 = sqrt(first[i]);
        double d2 = model->k > 1 ? sqrt(second[i]) : 0;
        double *sum = model->sums + (int64_t)label[i] * KM_CPU_SUMS;
        sum[KM_CPU_SUM_WEIGHT] += weight;
        sum[KM_CPU_SUM_COUNT] += 1.0;
        sum[KM_CPU_SUM_SSE] += weight * first[i];
        sum[KM_CPU_SUM_DISTANCE] += weight * (distance ? distance[i] : d1);
        sum[KM_CPU_SUM_MARGIN] += d2 > 0 ? weight * ((d2 - d1) / d2) : 0;
    }
}

static inline __attribute__((always_inline)) void finish_body(const km_cpu_finish *finish) {
    int64_t soa_points = finish->soa_points;
    double first[POINTS], second[POINTS], distance[POINTS];
    int32_t label[POINTS];
    for (int64_t base = 0; base < finish->points_count; base += soa_points) {
        int64_t here = km_min(soa_points, finish->points_count - base);
        for (int64_t start = 0; start < here; start += POINTS) {
            int64_t count = km_min(POINTS, here - start), at = base + start;
            const float *points = (const float *)finish->points + base * finish->d + start;
            const double *weights = finish->weights ? finish->weights + at : NULL;
            for (int64_t m = 0; m < finish->models_count; m++) {
                const km_cpu_finish_model *model = &finish->models[m];
                finish_nearest(label, first, second, finish, model, points, count);
                if (model->labels) memcpy(model->labels + at, label, (size_t)count * sizeof *label);
                if (model->squares) memcpy(model->squares + at, first, (size_t)count * sizeof *first);
                if (!model->sums) continue;
                if (model->means) finish_means(distance, label, finish, model, points, count);
                finish_sums(model, label, first, second, model->means ? distance : NULL, weights, count);
            }
        }
    }
}

#if defined(__x86_64__)
// The same with the machine's fused multiply-add, which the other path calls from the math library.
__attribute__((target("avx2,fma"))) static void finish_fma(const km_cpu_finish *finish) {
    finish_body(finish);
}
#endif

void km_cpu_finish_double(const km_cpu_finish *finish) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
        finish_fma(finish);
        return;
    }
#endif
    finish_body(finish);
}

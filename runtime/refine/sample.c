// SPDX-License-Identifier: MIT
// The sample that moves and exchanges look at: points that lie on the host, all of a small table.
#include "../../base/error.h"
#include "../sample.h"
#include "refiner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

km_status km_refine_sample_fetch(refiner *r, km_error *err) {
    km_status status;
    int64_t n = r->engine->n, d = r->engine->d, count = r->sample_count;
    int64_t *indices = calloc((size_t)count, sizeof *indices);
    if (!indices) return km_fail_memory(err, "the refinement's sample", count * 8);
    for (int64_t i = 0; i < count; i++) {
        indices[i] = km_draw_of_part(r->params->seed, DRAWS_FIRST + (uint64_t)DRAWS_SAMPLE, i, count, n);
        r->sample_weights[i] = r->params->weights ? r->params->weights[indices[i]] : 1;
    }
    KM_TRY_GOTO(r->backend->rows(r->engine, r->sample_rows, indices, count, err));
    for (int64_t i = 0; i < count; i++)
        for (int64_t f = 0; f < d; f++)
            r->sample[(i - i % TILE) * d + f * TILE + i % TILE] = r->sample_rows[i * d + f];
done:
    free(indices);
    return status;
}

// Vectors of two are what every machine has; eight of them stay in registers.
void km_refine_tile_distances(double *out, const double *tile, const double *c, int64_t d) {
    typedef double vector __attribute__((vector_size(2 * sizeof(double)), aligned(sizeof(double))));
    vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (int64_t f = 0; f < d; f++) {
        const vector *x = (const vector *)(tile + f * TILE), at = {c[f], c[f]};
        vector t0 = x[0] - at, t1 = x[1] - at, t2 = x[2] - at, t3 = x[3] - at;
        vector t4 = x[4] - at, t5 = x[5] - at, t6 = x[6] - at, t7 = x[7] - at;
        s0 += t0 * t0, s1 += t1 * t1, s2 += t2 * t2, s3 += t3 * t3;
        s4 += t4 * t4, s5 += t5 * t5, s6 += t6 * t6, s7 += t7 * t7;
    }
    const vector sums[TILE / 2] = {s0, s1, s2, s3, s4, s5, s6, s7};
    memcpy(out, sums, sizeof sums);
}

void km_refine_sample_distances(const refiner *r, double *out, const double *c) {
    for (int64_t i = 0; i < r->sample_count; i += TILE)
        km_refine_tile_distances(out + i, sample_tile(r, i), c, r->engine->d);
}

void km_refine_sample_assign(const refiner *r, double *squares, int32_t *labels, const double *centroids,
                             int64_t k) {
    int64_t d = r->engine->d;
    for (int64_t i = 0; i < r->sample_count; i += TILE) {
        double now[TILE];
        for (int64_t l = 0; l < TILE; l++) squares[i + l] = HUGE_VAL;
        for (int32_t j = 0; j < k; j++) {
            km_refine_tile_distances(now, sample_tile(r, i), centroids + j * d, d);
            for (int64_t l = 0; l < TILE; l++) {
                labels[i + l] = now[l] < squares[i + l] ? j : labels[i + l];
                squares[i + l] = now[l] < squares[i + l] ? now[l] : squares[i + l];
            }
        }
    }
}

double km_refine_sample_total(const refiner *r, const double *squares) {
    double sum = 0;
    for (int64_t i = 0; i < r->sample_count; i++) sum += r->sample_weights[i] * squares[i];
    return sum;
}

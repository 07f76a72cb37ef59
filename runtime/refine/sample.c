// SPDX-License-Identifier: MIT
// The sample that moves and exchanges look at: points that lie on the host, all of a small table.
#include "../../base/error.h"
#include "../share.h"
#include "refiner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

km_status km_refine_sample_fetch(refiner *r, km_error *err) {
    km_status status;
    int64_t n = r->engine->n_all, d = r->engine->d, count = r->sample_count;
    int64_t *indices = calloc((size_t)count, sizeof *indices);
    if (!indices) return km_fail_memory(err, "the refinement's sample", count * 8);
    for (int64_t i = 0; i < count; i++) {
        indices[i] = km_draw_of_part(r->params->seed, DRAWS_FIRST + (uint64_t)DRAWS_SAMPLE, i, count, n);
        r->sample_weights[i] = 1;
    }
    if (km_data_weights(r->params->data))
        KM_TRY_GOTO(km_data_weights_at(r->sample_weights, r->params->data, indices, count, err));
    KM_TRY_GOTO(r->backend->rows(r->engine, r->sample_rows, indices, count, err));
    for (int64_t i = 0; i < count; i++)
        for (int64_t f = 0; f < d; f++) r->sample[km_tile_at(i, d) + f * TILE] = r->sample_rows[i * d + f];
done:
    free(indices);
    return status;
}

void km_refine_sample_distances(const refiner *r, double *out, const double *c) {
    for (int64_t i = 0; i < r->sample_count; i += TILE)
        km_tile_squares(out + i, sample_tile(r, i), c, r->engine->d);
}

void km_refine_sample_assign(const refiner *r, double *squares, int32_t *labels, const double *centroids,
                             int64_t k) {
    int64_t d = r->engine->d;
    for (int64_t i = 0; i < r->sample_count; i += TILE) {
        double now[TILE];
        for (int64_t l = 0; l < TILE; l++) squares[i + l] = HUGE_VAL;
        for (int32_t j = 0; j < k; j++) {
            km_tile_squares(now, sample_tile(r, i), centroids + j * d, d);
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

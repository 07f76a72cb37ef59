// SPDX-License-Identifier: MIT
// Points that another rank may have, as kernels and layouts take points of the engine's own: with indices from n on.
#include "../share.h"
#include "cpu.h"
#include <stdlib.h>
#include <string.h>

void km_cpu_guests_free(cpu_engine *engine) {
    free(engine->guests);
    engine->guests = NULL;
    engine->guests_count = 0;
}

km_status km_cpu_guests_put(cpu_engine *engine, const double *rows, int64_t count, km_error *err) {
    int64_t d = engine->base.d, soa_points = engine->soa_points;
    int64_t values = km_round_up(count, soa_points) * d;
    km_cpu_guests_free(engine);
    engine->guests = calloc((size_t)(values + 1), (size_t)engine->real_bytes);
    if (!engine->guests) return km_fail_memory(err, "points of other ranks", values * engine->real_bytes);
    engine->guests_count = count;
    for (int64_t i = 0; i < count; i++)
        for (int64_t f = 0; f < d; f++) {
            int64_t at = (i - i % soa_points) * d + f * soa_points + i % soa_points;
            if (engine->real_bytes == 4)
                ((float *)engine->guests)[at] = (float)rows[i * d + f];
            else
                ((double *)engine->guests)[at] = rows[i * d + f];
        }
    return KM_OK;
}

km_status km_cpu_guests_take(cpu_engine *engine, const int64_t *indices, int64_t count, km_error *err) {
    int64_t d = engine->base.d;
    double *rows = malloc((size_t)(count * d + 1) * sizeof *rows);
    if (!rows) return km_fail_memory(err, "points of other ranks", count * d * 8);
    km_status status = engine->base.backend->rows(&engine->base, rows, indices, count, err);
    if (status == KM_OK) status = km_cpu_guests_put(engine, rows, count, err);
    free(rows);
    return status;
}

// SPDX-License-Identifier: MIT
// Labels that the finishing pass keeps on the device, a byte each, so that the pass of the silhouette has nothing to
// search for. They are known by the centroids that they follow from. Where memory is short none are kept: that pass
// finds the same labels then, in more time.
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

#define SPARE_BYTES ((int64_t)512 << 20) // of device memory, for the steps that follow

static int has_room(const km_cuda_engine *engine, int64_t bytes) {
    size_t left = 0, all = 0;
    engine->driver->cuMemGetInfo(&left, &all);
    return (int64_t)left >= bytes + SPARE_BYTES;
}

static int64_t bytes_of(const km_cuda_engine *engine) {
    return km_round_up(engine->base.n, KM_ALIGN_BYTES);
}

void km_cuda_keep(km_cuda_engine *engine, const km_finish_model *models, int64_t count) {
    int64_t wanted = 0;
    for (int64_t m = 0; m < count; m++) wanted = km_max(wanted, models[m].keep);
    if (wanted <= engine->kept_count || !engine->kernels->silhouette_labelled) return;
    km_cuda_kept_drop(engine);
    int64_t bytes = wanted * bytes_of(engine);
    if (!has_room(engine, bytes)) return;
    engine->kept_of = calloc((size_t)wanted, sizeof *engine->kept_of);
    if (engine->kept_of && km_cuda_reserve(engine, &engine->kept, bytes, "", NULL) == KM_OK)
        engine->kept_count = wanted;
    else
        km_cuda_kept_drop(engine);
}

int64_t km_cuda_keep_at(km_cuda_engine *engine, const km_finish_model *model) {
    size_t bytes = (size_t)(model->k * engine->base.d) * sizeof(double);
    if (model->keep < 1 || model->keep > engine->kept_count) return -1;
    km_cuda_kept *kept = &engine->kept_of[model->keep - 1];
    kept->k = 0;
    double *centroids = realloc(kept->centroids, bytes);
    if (!centroids) return -1;
    memcpy(centroids, model->centroids, bytes);
    *kept = (km_cuda_kept){model->k, centroids};
    return (model->keep - 1) * bytes_of(engine);
}

int64_t km_cuda_kept_at(const km_cuda_engine *engine, const double *centroids, int64_t k) {
    size_t bytes = (size_t)(k * engine->base.d) * sizeof(double);
    for (int64_t i = 0; i < engine->kept_count; i++)
        if (engine->kept_of[i].k == k && memcmp(engine->kept_of[i].centroids, centroids, bytes) == 0)
            return i * bytes_of(engine);
    return -1;
}

void km_cuda_kept_drop(km_cuda_engine *engine) {
    for (int64_t i = 0; i < engine->kept_count; i++) free(engine->kept_of[i].centroids);
    free(engine->kept_of);
    engine->kept_of = NULL;
    engine->kept_count = 0;
    km_cuda_release(engine, &engine->kept);
}

// SPDX-License-Identifier: MIT
// Labels of new points by a saved model: the finishing pass of the same backend, so that the training data get
// the labels that the fit gave them.
#include "../base/error.h"
#include "../base/log.h"
#include "../base/text.h"
#include "../gen/memory.h"
#include "build.h"
#include "csr.h"
#include "data_refuse.h"
#include "memory.h"
#include "predictor.h"
#include "threads.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct predict {
    const km_predictor *predictor;
    const km_data *data;
    km_data *selected; // by name, or NULL
    const km_fit_params *params;
    km_device *device;
    km_build build;
    km_engine *engine;
    km_data_stats stats;
    km_finish_model finished;
    double *sums;
    km_error *err;
} predict;

static void predict_free(predict *p) {
    if (p->engine) p->engine->backend->engine_destroy(&p->engine);
    km_build_clear(&p->build);
    km_data_destroy(&p->selected);
    if (p->device) km_device_close(&p->device);
    km_data_stats_free(&p->stats);
    free(p->finished.counts);
    free(p->finished.labels);
    free(p->sums);
}

// "4 (a, b, c, d)", cut to fit a sentence.
static km_status list_features(char **out, const predict *p) {
    enum { LONGEST = 300 };
    km_text text = {0};
    char **names = p->predictor->feature_names;
    km_text_printf(&text, "%lld", (long long)p->predictor->d);
    for (int64_t f = 0; names && f < p->predictor->d; f++) {
        int is_full = text.size > LONGEST;
        km_text_printf(&text, "%s%.60s", f ? ", " : " (", is_full ? "..." : names[f]);
        if (is_full) break;
    }
    if (names) km_text_puts(&text, ")");
    return km_text_take(out, &text, p->err);
}

// The model's features among those of the data: by name where both have names, else by position.
static km_status choose_features(predict *p, const km_data *data) {
    p->data = data;
    if (p->predictor->feature_names && km_data_feature_names(data)) {
        KM_TRY(km_data_select(&p->selected, data, km_predictor_feature_names(p->predictor), p->predictor->d,
                              p->err));
        p->data = p->selected;
    }
    int64_t d = km_data_features(p->data);
    if (d == p->predictor->d) return KM_OK;
    char *features;
    KM_TRY(list_features(&features, p));
    km_status status =
        km_fail(p->err, KM_ERROR_DATA,
                "%s has %lld features but the model was fitted on %s; choose as many, in the model's order",
                km_data_name(data), (long long)d, features);
    km_text_free(features);
    return status;
}

static km_status make_spec(km_spec *spec, const predict *p) {
    char k[32];
    spec->features = p->predictor->d;
    spec->type = p->predictor->type;
    spec->n_init = 1;
    snprintf(k, sizeof k, "%lld", (long long)p->predictor->k);
    KM_TRY(km_spec_set_clusters(spec, k, p->err));
    spec->layout = p->predictor->layout;
    if (spec->layout == KM_LAYOUT_CSR) return KM_OK;
    // One pass over the points takes less time than compiling for it; so no compiler is needed.
    if (p->device->facts.target.kind != KM_TARGET_CPU) return KM_OK;
    return km_spec_fix(spec, "design", "prebuilt", p->err);
}

// Before anything is read: a CPU needs memory for points and labels, a GPU's engine what a fit needs.
static km_status check_memory(const predict *p) {
    km_memory memory;
    km_memory_of(&memory, &p->build.plan);
    int64_t labels = p->build.plan.points * (int64_t)sizeof(int32_t);
    if (p->device->backend == &km_backend_cpu)
        return km_host_check("points and labels", memory.points + memory.arriving + memory.spare + labels,
                             p->err);
    if (km_plan_fits(&p->build.plan)) return km_host_check("the labels", labels, p->err);
    return km_fail(p->err, KM_ERROR_MEMORY,
                   "no room on the device for the points: %.2f GiB are needed, %.2f GiB are free",
                   (double)p->build.plan.memory_bytes / 0x1p30,
                   (double)p->build.plan.facts.memory_free_bytes / 0x1p30);
}

static km_status open_and_build(predict *p) {
    km_spec spec;
    km_build_params params = {.spec = &spec};
    km_status status = KM_OK;
    int device = p->params->device;
    if (device == KM_DEVICE_AUTO)
        device = KM_HOST; // the data are read once: copying them to a device takes longer
    KM_TRY(km_device_open(&p->device, device, p->params->compiler, p->params->log, p->err));
    km_plan_params_init(&params.plan);
    km_module_params_init(&params.module);
    params.plan.points = km_data_points(p->data);
    if (p->predictor->layout == KM_LAYOUT_CSR) params.plan.nonzeros = km_data_nonzeros(p->data);
    params.plan.value_bytes = km_data_base(p->data, KM_FLOAT32) ? 4 : 8;
    params.plan.threads = km_threads(p->params->threads, 0, NULL);
    params.module.cache_dir = p->params->cache_dir;
    params.module.log = p->params->log;
    km_spec_init(&spec);
    KM_TRY_GOTO(make_spec(&spec, p));
    KM_TRY_GOTO(km_build_on(&p->build, p->device, &params, p->err));
    KM_TRY_GOTO(check_memory(p));
    if (p->build.warning[0]) km_log_line(p->params->log, KM_LOG_WARNING, "%s", p->build.warning);
done:
    km_spec_clear(&spec);
    return status;
}

static km_status load(predict *p) {
    const km_backend *backend = p->device->backend;
    km_load_params params = {.transform_given = 1,
                             .centre = p->predictor->centre,
                             .factor = p->predictor->factor,
                             .log = p->params->log};
    KM_TRY(backend->engine_create(&p->engine, p->build.module->kernels, p->params->threads, p->params->log,
                                  p->err));
    KM_TRY(km_data_stats_alloc(&p->stats, p->predictor->d, p->err));
    return backend->load(p->engine, &p->stats, p->data, &params, p->err);
}

static km_status assign(predict *p, int32_t *out) {
    int64_t k = p->predictor->k, n = p->engine->n, rows = km_data_rows(p->data);
    p->sums = calloc((size_t)(4 * k), sizeof(double));
    p->finished.counts = calloc((size_t)k, sizeof(int64_t));
    p->finished.labels = malloc((size_t)n * sizeof(int32_t));
    if (!p->sums || !p->finished.counts || !p->finished.labels)
        return km_fail_memory(p->err, "the labels", n * (int64_t)sizeof(int32_t));
    p->finished.k = k;
    p->finished.centroids = p->predictor->centroids_fitted;
    p->finished.weights = p->sums;
    p->finished.sse = p->sums + k;
    p->finished.distance = p->sums + 2 * k;
    p->finished.margin = p->sums + 3 * k;
    KM_TRY(p->engine->backend->finish(p->engine, &p->finished, 1, p->err));
    if (rows != n)
        for (int64_t i = 0; i < rows; i++) out[i] = -1;
    for (int64_t i = 0; i < n; i++) out[km_data_row_of(p->data, i)] = p->finished.labels[i];
    return KM_OK;
}

km_status km_predict(int32_t *out, const km_predictor *predictor, const km_data *data,
                     const km_fit_params *params, km_error *err) {
    km_fit_params defaults;
    km_fit_params_init(&defaults);
    predict p = {.predictor = predictor, .params = params ? params : &defaults, .err = err};
    km_build_init(&p.build);
    km_status status = choose_features(&p, data);
    if (status == KM_OK) status = open_and_build(&p);
    if (status == KM_OK) status = load(&p);
    if (status == KM_OK) status = assign(&p, out);
    if (km_data_check(data, err) != KM_OK) status = KM_ERROR_IO;
    predict_free(&p);
    return status;
}

// SPDX-License-Identifier: MIT
// Labels of new points by a saved model: the finishing pass of the same backend, so that the training data get
// the labels that the fit gave them.
#include "../base/error.h"
#include "../base/log.h"
#include "../base/size.h"
#include "../base/text.h"
#include "../gen/memory.h"
#include "asking.h"
#include "build.h"
#include "csr.h"
#include "data_refuse.h"
#include "data_source.h"
#include "memory.h"
#include "predictor.h"
#include "resident.h"
#include "threads.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Values of the points that are loaded at a time, so that a file may be larger than memory.
enum { PART_VALUES = 1 << 25, PART_POINTS_MIN = 1 << 16 };

struct km_predicting {
    const km_predictor *predictor;
    const km_fit_params *params;
    km_device *device;
    km_build build;
    int is_built;
    int64_t part;        // points at a time
    int64_t done, total; // points of the data at hand
    double begin_ms;
    km_asking asking; // the caller's callback
    km_error *err;
};

typedef struct km_predicting predict;

// One part of the points, while it is loaded.
typedef struct loaded {
    km_engine *engine;
    km_data_stats stats;
    km_finish_model finished;
    double *sums;
} loaded;

static void loaded_free(loaded *l) {
    if (l->engine) l->engine->backend->engine_destroy(&l->engine);
    km_data_stats_free(&l->stats);
    free(l->finished.counts);
    free(l->finished.labels);
    free(l->sums);
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

// Missing values get what the model's own got, unless the data were opened so. *selected: NULL, or a view of the data.
static km_status fill_in(km_data **selected, const predict *p, const km_data *data) {
    const km_feature *prepared = p->predictor->prepared;
    int has_fills = 0;
    for (int64_t f = 0; prepared && f < p->predictor->d; f++) has_fills |= !isnan(prepared[f].fill);
    if (!has_fills || km_data_is_filled(data) || km_data_csr(data)) return KM_OK;
    return km_data_fill_in(selected, data, prepared, p->err);
}

// The model's features among those of the data: by name where both have names, else by position. *selected: NULL, or
// what to use in the place of the data.
static km_status choose_features(km_data **selected, const predict *p, const km_data *data) {
    *selected = NULL;
    if (p->predictor->feature_names && km_data_feature_names(data))
        KM_TRY(km_data_select(selected, data, km_predictor_feature_names(p->predictor), p->predictor->d,
                              p->err));
    int64_t d = km_data_features(*selected ? *selected : data);
    if (d == p->predictor->d) return fill_in(selected, p, data);
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

static km_status open_and_build(predict *p, const km_data *data) {
    km_spec spec;
    km_build_params params = {.spec = &spec};
    km_status status = KM_OK;
    int device = p->params->device;
    const km_resident *resident = km_data_resident(data);
    if (device == KM_DEVICE_AUTO) // the data are read once: copying them to a device takes longer
        device = resident ? resident->ordinal : KM_HOST;
    KM_TRY(km_device_open(&p->device, device, p->params->compiler, p->params->log, p->err));
    km_plan_params_init(&params.plan);
    km_module_params_init(&params.module);
    params.plan.points = km_min(km_data_points(data), p->part);
    if (p->predictor->layout == KM_LAYOUT_CSR) params.plan.nonzeros = km_data_nonzeros(data);
    params.plan.value_bytes = resident                         ? km_type_bytes(resident->type)
                              : km_data_base(data, KM_FLOAT32) ? 4
                                                               : 8;
    params.plan.threads = km_threads(p->params->threads, 0, NULL);
    params.module.cache_dir = p->params->cache_dir;
    params.module.log = p->params->log;
    if (p->params->progress) {
        params.module.stop = p->asking.stop;
        params.module.stop_user = p;
    }
    km_spec_init(&spec);
    KM_TRY_GOTO(make_spec(&spec, p));
    KM_TRY_GOTO(km_build_on(&p->build, p->device, &params, p->err));
    KM_TRY_GOTO(check_memory(p));
    if (p->build.warning[0]) km_log_line(p->params->log, KM_LOG_WARNING, "%s", p->build.warning);
done:
    km_spec_clear(&spec);
    return status;
}

static km_status load(loaded *l, predict *p, const km_data *part) {
    const km_backend *backend = p->device->backend;
    km_load_params params = {.transform_given = 1,
                             .centre = p->predictor->centre,
                             .factor = p->predictor->factor,
                             .log = p->params->log};
    KM_TRY(backend->engine_create(&l->engine, p->build.module->kernels, p->params->threads, p->params->log,
                                  p->err));
    if (p->params->progress) l->engine->asking = &p->asking;
    KM_TRY(km_data_stats_alloc(&l->stats, p->predictor->d, p->err));
    return backend->load(l->engine, &l->stats, part, &params, p->err);
}

static km_status assign(int32_t *out, loaded *l, const predict *p, const km_data *part) {
    int64_t k = p->predictor->k, n = l->engine->n;
    l->sums = calloc((size_t)(4 * k), sizeof(double));
    l->finished.counts = calloc((size_t)k, sizeof(int64_t));
    l->finished.labels = malloc((size_t)n * sizeof(int32_t));
    if (!l->sums || !l->finished.counts || !l->finished.labels)
        return km_fail_memory(p->err, "the labels", n * (int64_t)sizeof(int32_t));
    l->finished.k = k;
    l->finished.centroids = p->predictor->centroids_fitted;
    l->finished.weights = l->sums;
    l->finished.sse = l->sums + k;
    l->finished.distance = l->sums + 2 * k;
    l->finished.margin = l->sums + 3 * k;
    KM_TRY(l->engine->backend->finish(l->engine, &l->finished, 1, p->err));
    for (int64_t i = 0; i < n; i++) out[km_data_row_of(part, i)] = l->finished.labels[i];
    return KM_OK;
}

// Points first .. first + count - 1, whose rows stay those of the whole data.
static km_status predict_part(int32_t *out, predict *p, const km_data *data, int64_t first, int64_t count) {
    km_data *part = NULL;
    loaded l = {0};
    km_status status = km_data_part(&part, data, first, count, p->err);
    if (status == KM_OK) status = load(&l, p, part);
    if (status == KM_OK) status = assign(out, &l, p, part);
    loaded_free(&l);
    km_data_destroy(&part);
    return status;
}

static int ask_caller(void *user) {
    predict *p = user;
    km_progress progress = {"predict", p->done, p->total, 0, (km_now_ms() - p->begin_ms) / 1e3};
    return p->params->progress(p->params->progress_user, &progress);
}

// Before each part, and inside it where that takes long.
static km_status ask(predict *p) {
    if (!p->params->progress || !ask_caller(p)) return KM_OK;
    return km_fail(p->err, KM_ERROR_INTERRUPTED, "interrupted after %lld of %lld points", (long long)p->done,
                   (long long)p->total);
}

km_status km_predicting_open(km_predicting **out, const km_predictor *predictor, const km_fit_params *params,
                             km_error *err) {
    predict *p = *out = calloc(1, sizeof *p);
    if (!p) return km_fail_memory(err, "predicting", sizeof *p);
    int64_t part = PART_VALUES / predictor->d;
    *p = (predict){.predictor = predictor,
                   .params = params,
                   .part = part < PART_POINTS_MIN ? PART_POINTS_MIN : part,
                   .begin_ms = km_now_ms(),
                   .asking = {.stop = ask_caller, .user = p, .caller = pthread_self()},
                   .err = err};
    km_build_init(&p->build);
    return KM_OK;
}

void km_predicting_close(km_predicting **predicting) {
    predict *p = *predicting;
    if (!p) return;
    km_build_clear(&p->build);
    if (p->device) km_device_close(&p->device);
    free(p);
    *predicting = NULL;
}

km_status km_predicting_labels(int32_t *out, km_data **selected, km_predicting *p, const km_data *data) {
    int64_t n = km_data_points(data), rows = km_data_rows(data);
    KM_TRY(choose_features(selected, p, data));
    if (p->predictor->scale == KM_SCALE_UNIT) KM_TRY(km_data_unit(selected, data, p->err));
    const km_data *chosen = *selected ? *selected : data;
    n = km_data_points(chosen);
    if (rows != n)
        for (int64_t i = 0; i < rows; i++) out[i] = -1;
    p->done = 0;
    p->total = n;
    if (n && !p->is_built) {
        KM_TRY(open_and_build(p, chosen));
        p->is_built = 1;
    }
    while (p->done < n) {
        int64_t count = km_min(p->part, n - p->done);
        KM_TRY(ask(p));
        KM_TRY(predict_part(out, p, chosen, p->done, count));
        p->done += count;
    }
    return KM_OK;
}

km_status km_predict(int32_t *out, const km_predictor *predictor, const km_data *data,
                     const km_fit_params *params, km_error *err) {
    km_fit_params defaults;
    km_predicting *p = NULL;
    km_data *selected = NULL;
    km_fit_params_init(&defaults);
    KM_TRY(km_predicting_open(&p, predictor, params ? params : &defaults, err));
    km_status status = km_predicting_labels(out, &selected, p, data);
    if (km_data_check(data, err) != KM_OK) status = KM_ERROR_IO;
    km_data_destroy(&selected);
    km_predicting_close(&p);
    return status;
}

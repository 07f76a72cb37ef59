// SPDX-License-Identifier: MIT
// What a fit found, as files.
#include "../../base/error.h"
#include "assigned.h"
#include "../data_source.h"
#include "../unit.h"
#include "shared.h"

#include <kmgen/output.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static km_space space_of(const km_result *result, const km_model *model) {
    return (km_space){.d = result->d,
                      .k = model->k,
                      .centre = result->centre,
                      .factor = result->factor,
                      .centroids = model->centroids_fitted,
                      .unit = 1};
}

static km_status check(const km_result *result, const km_data *data, int all, km_error *err) {
    if (km_data_rows(data) != result->rows || km_data_features(data) != result->d)
        return km_fail(err, KM_ERROR_USAGE, "%s is not what was fitted: its size differs",
                       km_data_name(data));
    for (int64_t m = 0; m < result->models_count; m++)
        if ((all || m == result->selection.best) && !result->models[m].labels)
            return km_fail(err, KM_ERROR_USAGE, "the result has no labels of K = %" PRId32 "; fit with them",
                           result->models[m].k);
    return KM_OK;
}

// One file of one kind for the whole of the data.
static km_status write_rows(const char *path, km_assigned_kind kind, const km_result *result,
                            const km_data *data, const km_output_params *given, km_error *err) {
    km_output_params params;
    km_output_params_init(&params);
    if (given) params = *given;
    KM_TRY(check(result, data, params.all_labels, err));
    int64_t models = result->models_count;
    km_space space = space_of(result, &result->models[result->selection.best]);
    km_original original = {0};
    km_assigned a = {.space = &space,
                     .sets_count = models,
                     .best = result->selection.best,
                     .id = params.id,
                     .threads = params.threads,
                     .names = km_data_feature_names(data),
                     .features = result->d,
                     .is_single = km_data_is_single(data),
                     .decimal = km_data_decimal(data),
                     .err = err};
    a.files[kind].path = path;
    const int32_t **labels = malloc((size_t)models * sizeof *labels);
    int32_t *clusters = malloc((size_t)models * sizeof *clusters);
    km_data *unit = NULL;
    km_status status;
    if (!labels || !clusters) KM_TRY_GOTO(km_fail_memory(err, "labels", models * (int64_t)sizeof *labels));
    for (int64_t m = 0; m < models; m++) {
        labels[m] = result->models[m].labels;
        clusters[m] = result->models[m].k;
    }
    if (params.all_labels) a.clusters = clusters;
    if (km_assigned_needs_original(&a, km_data_separator(data) != 0)) {
        KM_TRY_GOTO(km_original_open(&original, data, err));
        a.original = &original;
    } else if (kind == KM_ASSIGNED_TABLE && !km_data_is_dense(data)) {
        KM_TRY_GOTO(km_fail(err, KM_ERROR_USAGE,
                            "%s is sparse, which is not written as a table; write labels",
                            km_data_name(data)));
    }
    if (result->scale == KM_SCALE_UNIT) KM_TRY_GOTO(km_data_unit(&unit, data, err));
    KM_TRY_GOTO(km_assigned_begin(&a, km_data_rows(data)));
    KM_TRY_GOTO(km_assigned_rows(&a, unit ? unit : data, labels));
    KM_TRY_GOTO(km_assigned_end(&a));
done:
    km_assigned_free(&a);
    km_data_destroy(&unit);
    km_original_close(&original);
    free(labels);
    free(clusters);
    return status;
}

km_status km_result_write_labels(const char *path, const km_result *result, const km_data *data,
                                 const km_output_params *params, km_error *err) {
    if (!params || !params->communicator)
        return write_rows(path, KM_ASSIGNED_LABELS, result, data, params, err);
    km_error unasked = {{0}};
    if (!err) err = &unasked;
    KM_TRY(check(result, data, params->all_labels, err));
    km_sink_format format;
    KM_TRY(km_sink_format_choose(&format, path, 1u << KM_SINK_NPY, err));
    return km_shared_labels_write(path, result, params, err);
}

km_status km_result_write_table(const char *path, const km_result *result, const km_data *data,
                                const km_output_params *params, km_error *err) {
    return write_rows(path, KM_ASSIGNED_TABLE, result, data, params, err);
}

// Before a fit -----------------------------------------------------------------------------------------------

km_status km_output_params_check(const km_output_params *params, const km_data *data, int is_table,
                                 km_error *err) {
    int is_text = km_data_separator(data) != 0;
    if (is_table && !is_text && !km_data_is_dense(data))
        return km_fail(err, KM_ERROR_USAGE, "%s is sparse, which is not written as a table; write labels",
                       km_data_name(data));
    if (!params->id && !(is_table && is_text)) return KM_OK;
    km_original original;
    KM_TRY(km_original_open(&original, data, err));
    int64_t cell;
    km_status status =
        params->id ? km_original_find(&cell, &original, params->id, km_data_name(data), err) : KM_OK;
    km_original_close(&original);
    return status;
}

// Centroids --------------------------------------------------------------------------------------------------

static km_status write_centroids_text(const char *path, km_sink_format format, const km_result *result,
                                      const km_model *model, km_error *err) {
    enum { NAME_SIZE = 24, OWN = 2 };
    int64_t d = result->d;
    km_sink sink = {0};
    km_sink_column *columns = calloc((size_t)(d + OWN), sizeof *columns);
    char *names = calloc((size_t)d, NAME_SIZE);
    int32_t *numbers = malloc((size_t)model->k * sizeof *numbers);
    km_status status;
    if (!columns || !names || !numbers)
        KM_TRY_GOTO(km_fail_memory(err, "the columns of centroids", d * (int64_t)sizeof *columns));
    for (int32_t j = 0; j < model->k; j++) numbers[j] = j;
    columns[0] = (km_sink_column){"cluster", KM_CELL_LABEL, numbers, 1, 0};
    columns[1] = (km_sink_column){"points", KM_CELL_COUNT, model->counts, 1, 0};
    for (int64_t f = 0; f < d; f++) {
        snprintf(names + f * NAME_SIZE, NAME_SIZE, "x%" PRId64, f + 1);
        const char *name = result->feature_names ? result->feature_names[f] : names + f * NAME_SIZE;
        columns[OWN + f] = (km_sink_column){name, KM_CELL_EXACT, model->centroids + f, d, 0};
    }
    KM_TRY_GOTO(km_sink_open(&sink, path, format, 0, columns, d + OWN, model->k, 0, err));
    km_sink_names(&sink, NULL);
    KM_TRY_GOTO(km_sink_rows(&sink, model->k));
    KM_TRY_GOTO(km_sink_close(&sink));
done:
    km_sink_abandon(&sink);
    free(columns);
    free(names);
    free(numbers);
    return status;
}

km_status km_result_write_centroids(const char *path, const km_result *result, int64_t model_index,
                                    km_error *err) {
    km_sink_format format;
    if (model_index < 0 || model_index >= result->models_count)
        return km_fail(err, KM_ERROR_USAGE, "the result has the models 0..%" PRId64 ", asked for %" PRId64,
                       result->models_count - 1, model_index);
    KM_TRY(km_sink_format_choose(&format, path, ~0u, err));
    const km_model *model = &result->models[model_index];
    if (format == KM_SINK_NPY) return km_npy_write(path, model->centroids, model->k, result->d, "<f8", err);
    return write_centroids_text(path, format, result, model, err);
}

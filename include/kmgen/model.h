// SPDX-License-Identifier: MIT
// Saved models: what predict needs of a fit, as a JSON file (docs/model.md).
#ifndef KMGEN_MODEL_H
#define KMGEN_MODEL_H
#include <kmgen/data.h>
#include <kmgen/fit.h>
#include <kmgen/kmgen.h>
#include <kmgen/result.h>
KM_BEGIN

// What predict needs of the best model of a result; a JSON file (docs/model.md).
typedef struct km_predictor km_predictor;

KM_API km_status km_predictor_write(const char *path, const km_result *result, int64_t model_index,
                                    km_error *err);
// KM_ERROR_IO; KM_ERROR_DATA when the file is no model or is damaged (it carries a checksum).
KM_API km_status km_predictor_read(km_predictor **out, const char *path, km_error *err);
KM_API void km_predictor_destroy(km_predictor **predictor);
KM_API int64_t km_predictor_features(const km_predictor *predictor);
KM_API int64_t km_predictor_clusters(const km_predictor *predictor);
// Names of the features that it was fitted on, d of them, or NULL. With these as km_data_params.names a table is read
// for this model, whatever its other columns hold.
KM_API const char *const *km_predictor_feature_names(const km_predictor *predictor);
// Labels of all rows (-1 for dropped ones): out has km_data_rows entries. On the training data they equal the
// fit's labels. Features go by name where model and data both have names (km_data_select: in any order, out of any
// number), else by position and count. `params` may be NULL; device, threads, cache_dir and log are used.
KM_API km_status km_predict(int32_t *out, const km_predictor *predictor, const km_data *data,
                            const km_fit_params *params, km_error *err);

KM_END
#endif

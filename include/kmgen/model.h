// SPDX-License-Identifier: MIT
/// @file
/// Saved models: what predict needs of a fit, as a JSON file (docs/model.md).
#ifndef KMGEN_MODEL_H
#define KMGEN_MODEL_H
#include <kmgen/data.h>
#include <kmgen/fit.h>
#include <kmgen/kmgen.h>
#include <kmgen/result.h>
KM_BEGIN
/// @defgroup model Model: saved models and predict
/// @{

/// A saved model in memory: what km_predict needs of it. Read-only: any number of threads may use one.
typedef struct km_predictor km_predictor;

/// What predict needs of model `model_index` of the result, 0..models_count - 1, in memory: a copy, which is the
/// caller's (km_predictor_destroy). KM_ERROR_USAGE: there is no such model; KM_ERROR_DATA: a number is not finite.
KM_API km_status km_predictor_create(km_predictor **out, const km_result *result, int64_t model_index,
                                     km_error *err);

/// The predictor as the text of a file that km_predictor_write makes. The text is the caller's: km_text_free.
/// KM_ERROR_MEMORY.
KM_API km_status km_predictor_to_json(char **out, const km_predictor *predictor, km_error *err);

/// Reads `size` bytes of that text, which errors call `path`. The predictor is the caller's: km_predictor_destroy.
/// KM_ERROR_DATA as km_predictor_read.
KM_API km_status km_predictor_parse(km_predictor **out, const char *text, int64_t size, const char *path,
                                    km_error *err);

/// Writes model `model_index` of the result, 0..models_count - 1, to the JSON file `path` (docs/model.md; "-":
/// standard output), with the scale, the names of features and a checksum. The file appears when it is whole; a
/// link is followed. KM_ERROR_USAGE: there is no such model; KM_ERROR_DATA: a number of it is not finite;
/// KM_ERROR_IO.
KM_API km_status km_predictor_write(const char *path, const km_result *result, int64_t model_index,
                                    km_error *err);

/// Reads what km_predictor_write wrote, to the same bits. The predictor is the caller's: km_predictor_destroy.
/// KM_ERROR_IO; KM_ERROR_DATA when the file is no model, is damaged (it carries a checksum), or is of a newer format.
KM_API km_status km_predictor_read(km_predictor **out, const char *path, km_error *err);

/// Frees `*predictor` and sets it to NULL; a NULL one is allowed.
KM_API void km_predictor_destroy(km_predictor **predictor);

/// d: features that it was fitted on.
KM_API int64_t km_predictor_features(const km_predictor *predictor);

/// k: clusters; labels are 0..k-1.
KM_API int64_t km_predictor_clusters(const km_predictor *predictor);

/// 0: the fit said that the data look like no clusters (km_selection.clustered).
KM_API int32_t km_predictor_clustered(const km_predictor *predictor);

/// Names of the features that it was fitted on, d of them, or NULL. With these as km_data_params.names a table is
/// read for this model, whatever its other columns hold.
KM_API const char *const *km_predictor_feature_names(const km_predictor *predictor);

/// How these features are made of columns, d entries, or NULL where they are columns of numbers. With these as
/// km_data_params.prepared (and `names`, `names_count`) a table is read as the model's own was: categories, dates, what
/// missing values are filled in with.
KM_API const km_feature *km_predictor_preparation(const km_predictor *predictor);

/// Labels of all rows (-1 for dropped ones): `out` is the caller's, km_data_rows entries; after a failure some may have
/// been written. On the training data they equal the fit's labels. Features go by name where model and data both have
/// names (km_data_select: in any order, out of any number), else by position and count. `params` may be NULL; device
/// (AUTO: the CPU), threads, cache_dir, compiler, log and progress (phase "predict", done and total in points; any
/// answer but 0 stops) are used. Missing values are filled in as the model says. KM_ERROR_DATA: other features than the
/// model's (the sentence names what is missing), or values that are no numbers; KM_ERROR_DEVICE, KM_ERROR_COMPILE,
/// KM_ERROR_MEMORY, KM_ERROR_IO, KM_ERROR_INTERRUPTED as km_fit.
KM_API km_status km_predict(int32_t *out, const km_predictor *predictor, const km_data *data,
                            const km_fit_params *params, km_error *err);

/// What km_predict_files writes of each row, and what it finds. Formats are those that the files' names say, .npy,
/// .csv or .tsv, as in km_result_write_labels ("-": standard output, as .npy); NULL: not wanted.
typedef struct km_predict_outputs {
    const char *labels;    ///< As km_result_write_labels.
    const char *lines;     ///< Text, a label a line, -1 for rows that were dropped.
    const char *distances; ///< To the label's centroid: .npy of doubles (NaN: dropped), or row and distance.
    const char *transform; ///< To every centroid: n x k, or row and a column distance_0.. for each.
    const char *output;    ///< .csv or .tsv: the whole table with columns cluster and distance.
    const char *id;        ///< As km_output_params.id.
    int32_t score;         ///< Non-zero: `inertia` is wanted.
    int64_t rows;          ///< Out: rows that were read.
    double inertia;        ///< Out: sum of squared distances, in the units of the model's scale.
} km_predict_outputs;

/// Sets every field to its default: nothing is written. The struct owns nothing.
KM_API void km_predict_outputs_init(km_predict_outputs *outputs);

/// Predicts all rows of the file `path` ("-": standard input), which is read as `data` says (NULL: the defaults;
/// names of features are the model's), and writes the outputs. Text, also from a pipe, goes through in pieces, and
/// a mapped file in parts: memory does not grow with the rows, but for .npy that is written to a pipe. `params` as
/// in km_predict. Statuses as km_data_open, km_predict and km_result_write_table.
KM_API km_status km_predict_files(km_predict_outputs *outputs, const km_predictor *predictor,
                                  const char *path, const km_data_params *data, const km_fit_params *params,
                                  km_error *err);

/// @}
KM_END
#endif

// SPDX-License-Identifier: MIT
/// @file
/// Output: labels, centroids and whole tables as files, in the format that a file's name says.
#ifndef KMGEN_OUTPUT_H
#define KMGEN_OUTPUT_H
#include <kmgen/data.h>
#include <kmgen/fit.h>
#include <kmgen/kmgen.h>
#include <kmgen/result.h>
KM_BEGIN
/// @defgroup output Output: labels, centroids and tables as files
/// @{

/// What is written, and from where.
typedef struct km_output_params {
    /// Non-zero: the labels of every K, which the result must have (KM_LABELS_ALL): a column label_K for each.
    int32_t all_labels;
    /// A column of the data's own file, by name or 1-based number, that stands in the place of the row's number.
    /// Default NULL: rows are numbered from 1.
    const char *id;
    int64_t threads; ///< CPU threads. Default 0: all cores. Never changes what is written.
    /// Of km_result_write_labels: the ranks that made the result (km_fit_params.communicator). All of them call it, and
    /// write the labels of all rows into one .npy, in a folder that all of them have. Default NULL: one process.
    const km_communicator *communicator;
} km_output_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_output_params_init(km_output_params *params);

/// The format that a file's name says: "npy", "csv" or "tsv"; NULL: it says none that is written. Static text.
KM_API const char *km_output_format(const char *path);

/// Whether these files could be written for `data`, to be asked before a fit; `is_table` non-zero:
/// km_result_write_table too. KM_ERROR_USAGE says why not: no such id, data that came from a pipe, or sparse ones.
KM_API km_status km_output_params_check(const km_output_params *params, const km_data *data, int is_table,
                                        km_error *err);

/// Writes the labels of the best model, a row for each row of `data`, which was fitted. As .npy: int32, -1 for rows
/// that were dropped; with all_labels a column a K in ascending order. As .csv or .tsv: the row's number or id,
/// label, distance, margin; or a label_K for each K; empty for rows that were dropped. Distance is Euclidean, to
/// the row's centroid in the space that was clustered; margin is (d2 - d1) / d2 of the distances to the two nearest
/// centroids, 0 half-way between them and 1 on one of them. `path` "-" is standard output, as .npy. The file
/// appears when it is whole; a link is followed. `params` NULL: the defaults. KM_ERROR_USAGE: a result without such
/// labels, another format, an id that the data cannot have; KM_ERROR_IO; KM_ERROR_DATA: the data's file changed
/// meanwhile.
KM_API km_status km_result_write_labels(const char *path, const km_result *result, const km_data *data,
                                        const km_output_params *params, km_error *err);

/// Writes the centroids of model `model_index` in original units: as .npy, double, k x d; as .csv or .tsv a row a
/// cluster: its number, points, and a column for each feature by its name. KM_ERROR_USAGE: no such model, another
/// format; KM_ERROR_IO.
KM_API km_status km_result_write_centroids(const char *path, const km_result *result, int64_t model_index,
                                           km_error *err);

/// Writes the whole table that `data` was read of as .csv or .tsv, with the best model's labels and distances in
/// the columns cluster and distance behind its own (named cluster_2 and so on where the table has such a column),
/// and with all_labels a column label_K for each K; empty for rows that were dropped. A text's cells are copied as
/// they stand, with all of its columns; of other dense tables the features are written. KM_ERROR_USAGE: as
/// km_result_write_labels, and data that came from a pipe or are sparse; KM_ERROR_IO; KM_ERROR_DATA: the data's
/// file changed meanwhile.
KM_API km_status km_result_write_table(const char *path, const km_result *result, const km_data *data,
                                       const km_output_params *params, km_error *err);

/// @}
KM_END
#endif

// SPDX-License-Identifier: MIT
/// @file
/// Points: n rows of d features, from a file or from the caller's memory.
#ifndef KMGEN_DATA_H
#define KMGEN_DATA_H
#include <kmgen/kmgen.h>
KM_BEGIN
/// @defgroup data Data: points
/// @{

/// An opened table. Read-only after opening: any number of threads may read one km_data.
typedef struct km_data km_data;

/// What becomes of rows with NaN or infinity.
typedef enum km_nan_mode {
    KM_NAN_REFUSE, ///< KM_ERROR_DATA, with row and column, when the points are loaded (km_fit, km_predict).
    KM_NAN_DROP,   ///< They are left out; their label is -1.
} km_nan_mode;

/// What the first line of CSV and TSV is.
typedef enum km_header_mode {
    KM_HEADER_AUTO, ///< A header if a cell of it is no number.
    KM_HEADER_YES,  ///< A header.
    KM_HEADER_NO,   ///< The first point.
    KM_HEADER_SKIP, ///< A header whose names do not name features, so that columns count by their position.
} km_header_mode;

/// How a table is read.
typedef struct km_data_params {
    /// "npy", "npz", "mtx", "svmlight", "csv", "tsv", "f32", "f64". Default NULL: by the file's name, then content.
    const char *format;
    /// Columns of raw .f32/.f64 files, which need it, and of svmlight. Default 0: svmlight has as many as its largest
    /// index says.
    int64_t features;
    /// First line of CSV/TSV. Default KM_HEADER_AUTO: a header if a cell is no number.
    km_header_mode header;
    /// Names, 1-based numbers or ranges ("3..32") to keep, by commas. Default NULL: all.
    const char *columns;
    const char *weights;  ///< File with one weight a row (any of the formats). Default NULL: all 1.
    km_nan_mode nan;      ///< Rows with NaN or infinity. Default KM_NAN_REFUSE: KM_ERROR_DATA when loaded.
    km_type type;         ///< Text is parsed to this type. Default KM_FLOAT64.
    int32_t empty_is_nan; ///< Empty cells and lines of a text are NaN. Default 0: an error.
    /// Features that are needed, e.g. km_predictor_feature_names. Of a text with a header (after `columns`) just these
    /// are read, in this order; of a table without names, all. Default NULL, 0: all.
    const char *const *names;
    int64_t names_count; ///< Entries of `names`.
    /// What the indices of svmlight count from, 0 or 1. Default -1: from 0 where one is 0, else from 1.
    int32_t base;
    const km_log *log; ///< What is assumed, and counted. Default: NULL, silent.
} km_data_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_data_params_init(km_data_params *params);

/// The format that a file's name says ("npy", "csv", ...; ".gz" is looked behind), or NULL where it says none. Static
/// text.
KM_API const char *km_data_format(const char *path);

/// Opens `path` ("-": standard input, up to its end) as `params` says (NULL: the defaults). Text is parsed whole;
/// .npy and raw files are mapped, and must stay as they are until km_data_destroy: one that becomes shorter makes
/// the call that reads it fail with KM_ERROR_IO. KM_ERROR_IO; KM_ERROR_USAGE for params that contradict each other
/// or the file; KM_ERROR_DATA with "path: row R, column C (name): ...". Rows and columns count from 1; for text,
/// row is the line of the file.
KM_API km_status km_data_open(km_data **out, const char *path, const km_data_params *params, km_error *err);

/// Takes the caller's memory, points and weights, which must outlive the km_data and stay as it is: n x d elements
/// of `type`, element (i, f) at base + i * row_stride + f * column_stride (strides in elements; 0, 0 means C order:
/// d, 1). `weights`: n doubles, finite and not negative, or NULL: all 1. Nothing is copied. KM_ERROR_USAGE: sizes,
/// strides or the type cannot be; KM_ERROR_DATA for bad weights.
KM_API km_status km_data_from_memory(km_data **out, const void *base, int64_t n, int64_t d, km_type type,
                                     int64_t row_stride, int64_t column_stride, const double *weights,
                                     km_error *err);

/// Takes the caller's sparse matrix of n points with d features (CSR), which must outlive the km_data and stay as
/// it is: point i has the entries starts[i] .. starts[i + 1] - 1, each a column from 0 and a value. `starts`: n + 1
/// numbers that rise from 0; `indices`: int32_t or int64_t, by `index_bytes` 4 or 8; `values`: of `type`; entries
/// may be 0. Rows whose columns do not ascend are sorted, in a copy; else nothing is copied. `weights` as in
/// km_data_from_memory. KM_ERROR_USAGE: sizes or the type cannot be; KM_ERROR_DATA, with row and column: starts that
/// fall, a column out of range, or twice in a row; bad weights. KM_ERROR_MEMORY. Values are looked at when loaded.
KM_API km_status km_data_from_csr(km_data **out, const int64_t *starts, const void *indices,
                                  int32_t index_bytes, const void *values, km_type type, int64_t n, int64_t d,
                                  const double *weights, km_error *err);

/// Names the features, d names that are copied, in place of those that there were; NULL: they have none, and count by
/// their position. Not while another thread reads `data`. KM_ERROR_USAGE: one of the names is NULL.
KM_API km_status km_data_set_names(km_data *data, const char *const *names, km_error *err);

/// The features with these `count` names, in this order: a view that copies no point (of a sparse table it is a copy
/// of these columns), of `data` which must outlive it. Names are compared byte by byte. KM_ERROR_DATA: `data` has no
/// names, lacks one of these (the sentence says which are near), or has one of them twice.
KM_API km_status km_data_select(km_data **out, const km_data *data, const char *const *names, int64_t count,
                                km_error *err);

/// Frees `*data` and sets it to NULL; a NULL one is allowed. The memory of km_data_from_memory stays the caller's.
KM_API void km_data_destroy(km_data **data);

/// n: points, without rows that were dropped.
KM_API int64_t km_data_points(const km_data *data);

/// d: features.
KM_API int64_t km_data_features(const km_data *data);

/// What messages call it: the path, "standard input" or "memory".
KM_API const char *km_data_name(const km_data *data);

/// Name of feature f, 0..d-1, from a header or km_data_set_names, or NULL.
KM_API const char *km_data_feature_name(const km_data *data, int64_t f);

/// The names of all d features, or NULL.
KM_API const char *const *km_data_feature_names(const km_data *data);

/// Weights of all points, n doubles, or NULL when all are 1.
KM_API const double *km_data_weights(const km_data *data);

/// Rows of the table, those counted that KM_NAN_DROP left out: the length of labels. At least n.
KM_API int64_t km_data_rows(const km_data *data);

/// The table's row, from 0, of point i, 0..n-1.
KM_API int64_t km_data_row_of(const km_data *data, int64_t i);

/// The points as they lie, when they are `type` in C order without gaps (row i at base + i * d): the zero-copy
/// path. NULL otherwise.
KM_API const void *km_data_base(const km_data *data, km_type type);

/// Copies the points first .. first + count - 1, converted to `type`, to `out`: the caller's, count x d.
/// KM_ERROR_USAGE: there are no such points; KM_ERROR_IO: the file became shorter.
KM_API km_status km_data_read(void *out, const km_data *data, int64_t first, int64_t count, km_type type,
                              km_error *err);

/// Writes a .npy file (version 1.0, C order) of `values`, rows x columns (columns 0: one dimension of rows); `dtype` is
/// "<i4" (int32_t), "<f4" (float) or "<f8" (double), in the machine's own byte order. Never half a file; a link is
/// followed. `path` "-" is standard output. KM_ERROR_USAGE: no such dtype or shape; KM_ERROR_IO.
KM_API km_status km_npy_write(const char *path, const void *values, int64_t rows, int64_t columns,
                              const char *dtype, km_error *err);

/// @}
KM_END
#endif

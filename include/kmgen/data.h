// SPDX-License-Identifier: MIT
// Points: n rows of d features, from a file or from the caller's memory.
#ifndef KMGEN_DATA_H
#define KMGEN_DATA_H
#include <kmgen/kmgen.h>
KM_BEGIN

// Read-only after opening: any number of threads may read one km_data.
typedef struct km_data km_data;

typedef enum km_nan_mode { KM_NAN_REFUSE, KM_NAN_DROP } km_nan_mode;
// SKIP: a header whose names do not name features, so that columns count by their position.
typedef enum km_header_mode { KM_HEADER_AUTO, KM_HEADER_YES, KM_HEADER_NO, KM_HEADER_SKIP } km_header_mode;

typedef struct km_data_params {
    const char *format; // "npy", "csv", "tsv", "f32", "f64". Default NULL: by the file's name, then content.
    int64_t features;   // Columns of raw .f32/.f64 files, which need it. Default 0.
    km_header_mode header; // First line of CSV/TSV. Default KM_HEADER_AUTO: a header if a cell is no number.
    const char *columns; // Names, 1-based numbers or ranges ("3..32") to keep, by commas. Default NULL: all.
    const char *weights; // File with one weight a row (any of the formats). Default NULL: all 1.
    km_nan_mode nan;     // Rows with NaN or infinity. Default KM_NAN_REFUSE: KM_ERROR_DATA when loaded.
    km_type type;        // Text (CSV, TSV) is parsed to this type. Default KM_FLOAT64.
    // Features that are needed, e.g. km_predictor_feature_names. Of a text with a header (after `columns`) just these
    // are read, in this order; of a table without names, all. Default NULL, 0: all.
    const char *const *names;
    int64_t names_count;
} km_data_params;

KM_API void km_data_params_init(km_data_params *params);

// The format that a file's name says ("npy", "csv", ...), or NULL where it says none.
KM_API const char *km_data_format(const char *path);

// Opens `path` ("-": standard input, up to its end). Text is parsed whole; .npy and raw files are mapped.
// KM_ERROR_IO; KM_ERROR_DATA with "path: row R, column C (name): ...". Rows and columns count from 1; for
// text, row is the line of the file.
KM_API km_status km_data_open(km_data **out, const char *path, const km_data_params *params, km_error *err);

// Takes the caller's memory, which must outlive the km_data: n x d elements of `type`, element (i, f) at
// base + i * row_stride + f * column_stride (strides in elements; 0, 0 means C order: d, 1). `weights`: n
// doubles or NULL. Nothing is copied. KM_ERROR_USAGE; KM_ERROR_DATA for bad weights.
KM_API km_status km_data_from_memory(km_data **out, const void *base, int64_t n, int64_t d, km_type type,
                                     int64_t row_stride, int64_t column_stride, const double *weights,
                                     km_error *err);
// Names the features, d names that are copied, in place of those that there were; NULL: they have none, and count by
// their position. Not while another thread reads `data`.
KM_API km_status km_data_set_names(km_data *data, const char *const *names, km_error *err);
// The features with these names, in this order: a view that copies no point, of `data` which must outlive it.
// Names are compared byte by byte. KM_ERROR_DATA: `data` has no names, lacks one of these (the sentence says which are
// near), or has one of them twice.
KM_API km_status km_data_select(km_data **out, const km_data *data, const char *const *names, int64_t count,
                                km_error *err);
KM_API void km_data_destroy(km_data **data);

KM_API int64_t km_data_points(const km_data *data);   // n, after dropped rows.
KM_API int64_t km_data_features(const km_data *data); // d
KM_API const char *km_data_name(const km_data *data); // For messages: the path, or "memory".
// Name of feature f from a header or km_data_set_names, or NULL.
KM_API const char *km_data_feature_name(const km_data *data, int64_t f);
// The names of all d features, or NULL.
KM_API const char *const *km_data_feature_names(const km_data *data);
// Weights of all points, n doubles, or NULL when all are 1.
KM_API const double *km_data_weights(const km_data *data);
// Rows of the file, with those that --nan drop left out; and the file's row (from 0) of point i.
KM_API int64_t km_data_rows(const km_data *data);
KM_API int64_t km_data_row_of(const km_data *data, int64_t i);

// The points as they lie, when they are `type` in C order without gaps (row i at base + i * d): the zero-copy
// path. NULL otherwise.
KM_API const void *km_data_base(const km_data *data, km_type type);
// Copies rows first .. first + count - 1, converted to `type`, to `out` in C order. Thread-safe.
KM_API km_status km_data_read(void *out, const km_data *data, int64_t first, int64_t count, km_type type,
                              km_error *err);

// Writes ----------------------------------------------------------------------------------------------------

// A .npy file (version 1.0, C order) of rows x columns (columns 0: one dimension); dtype "<i4", "<f4" or
// "<f8". Never half a file. `path` "-" is standard output.
KM_API km_status km_npy_write(const char *path, const void *values, int64_t rows, int64_t columns,
                              const char *dtype, km_error *err);

KM_END
#endif

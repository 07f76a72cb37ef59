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

/// What becomes of missing values: cells of text that are empty or spell one (NA, N/A, \#N/A, \<NA\>, NaN, NULL, None,
/// ?, -, in any case, and km_data_params.na_values), and NaN in other files. Infinity is refused whatever this says.
typedef enum km_missing {
    KM_MISSING_REFUSE, ///< KM_ERROR_DATA, with row and column: of text when it is opened, else when it is loaded.
    KM_MISSING_DROP,   ///< Their rows are left out; their label is -1.
    KM_MISSING_MEAN,   ///< The mean of the column's other values takes their place.
    KM_MISSING_MEDIAN, ///< Their median does (of an even number the mean of the two nearest to half).
    KM_MISSING_KEEP,   ///< They are NaN, which whatever loads the points refuses.
} km_missing;

/// What a column holds.
typedef enum km_column_kind {
    KM_COLUMN_NUMBER, ///< Numbers: at least half of the cells that are not missing.
    KM_COLUMN_ID,     ///< Whole numbers that tell rows apart: named so, or rising from each row to the next.
    KM_COLUMN_YES_NO, ///< Yes or no, true or false, y or n, t or f, in any case: 1 or 0.
    KM_COLUMN_CATEGORY, ///< Few different texts: KM_CATEGORIES_MAX at most, and each twice on average.
    KM_COLUMN_DATE,     ///< Dates, 2024-01-31 or 31.1.2024, with a time or without: days since 1970-01-01.
    KM_COLUMN_TEXT,     ///< Other text.
    KM_COLUMN_CONSTANT, ///< The same in every row.
    KM_COLUMN_EMPTY,    ///< Missing in every row.
} km_column_kind;

enum {
    KM_CATEGORIES_MAX = 256 ///< Categories of a column at most.
};

/// How a feature comes of a column, where it is not just the column's numbers: what a model must know to do it again.
typedef struct km_feature {
    const char *column; ///< Name of the column.
    const char *
        category; ///< KM_COLUMN_CATEGORY: the feature is 1 where the column has this text, else 0; else NULL.
    km_column_kind kind; ///< NUMBER, YES_NO, DATE or CATEGORY.
    double fill;         ///< What takes the place of missing values; NaN: nothing does.
} km_feature;

/// State of a call that takes long, for a progress line.
typedef struct km_progress {
    const char *
        phase; ///< "parse" of km_data_open; "read", "build", "seed", "sweep", "refine", "finish", "criteria".
    int64_t
        done; ///< Bytes in "parse"; runs (one K, one restart) that are done in "sweep", picks in "seed"; else 0.
    int64_t total;    ///< How many there will be; 0: unknown.
    int64_t passes;   ///< Passes over the points so far; rows in "parse".
    double elapsed_s; ///< Seconds since the call began.
} km_progress;

/// What the first line of CSV and TSV is.
typedef enum km_header_mode {
    KM_HEADER_AUTO, ///< A header if a cell of it is no number.
    KM_HEADER_YES,  ///< A header.
    KM_HEADER_NO,   ///< The first point.
    KM_HEADER_SKIP, ///< A header whose names do not name features, so that columns count by their position.
} km_header_mode;

struct km_communicator; // <kmgen/fit.h>

/// How a table is read.
typedef struct km_data_params {
    /// "npy", "npz", "h5", "mtx", "svmlight", "csv", "tsv", "f32", "f64". Default NULL: by the file's name, then its
    /// content.
    const char *format;
    /// Columns of raw .f32/.f64 files, which need it, and of svmlight. Default 0: svmlight has as many as its largest
    /// index says.
    int64_t features;
    /// First line of CSV/TSV. Default KM_HEADER_AUTO: a header if a cell is no number.
    km_header_mode header;
    /// Names, 1-based numbers or ranges ("3..32") to keep, by commas. Default NULL: all.
    const char *columns;
    const char *weights; ///< File with one weight a row (any of the formats). Default NULL: all 1.
    km_missing missing;  ///< Missing values. Default KM_MISSING_REFUSE.
    km_type type;        ///< Text is parsed to this type. Default KM_FLOAT64.
    /// Words of text that also mean a missing value, by commas. Default NULL.
    const char *na_values;
    /// Of text without `columns`, columns that hold no numbers and those of ids are left out; the log says which. At
    /// least one must be left. Default 0: every column must hold numbers.
    int32_t numbers_only;
    /// Columns that are left out, written as `columns`. Default NULL: none.
    const char *exclude;
    /// Columns of text, written as `columns`, of which each category becomes a feature of 0 and 1. Default NULL: none.
    const char *one_hot;
    /// Column of text with one weight a row, by its name or number, which is no feature. Default NULL.
    const char *weights_column;
    /// '.' or ',', between whole numbers and decimals of text. Default 0: a comma where cells are separated by
    /// semicolons or tabs, and no number has a point but before three digits, as between thousands; else a point.
    char decimal;
    /// Features that are needed, e.g. km_predictor_feature_names. Of a text with a header (after `columns`) just these
    /// are read, in this order; of a table without names, all. Default NULL, 0: all.
    const char *const *names;
    int64_t names_count; ///< Entries of `names`.
    /// How each of these features is made: `names_count` entries, of km_predictor_preparation. Default NULL: numbers.
    const km_feature *prepared;
    /// What the indices of svmlight count from, 0 or 1. Default -1: from 0 where one is 0, else from 1.
    int32_t base;
    /// Ranks that all open these files alike: each has its rows of all, as km_share_of says, and only these are parsed
    /// of a text that is not packed; so it is with km_data_params.weights. What is wrong in the rows of one is the
    /// error of all. Default NULL: all rows.
    const struct km_communicator *communicator;
    /// Folder of a disk where the values of a text lie, in a temporary file that is mapped, if they would take most of
    /// the memory that is left (of `memory_max`, where it is given); a warning says so. Default NULL: in memory.
    const char *scratch_dir;
    int64_t memory_max; ///< See km_fit_params. Default 0: what is free.
    int64_t threads;    ///< CPU threads that parse text. Default 0: all cores. Never changes what is read.
    const km_log *log;  ///< What is assumed, left out, and counted. Default: NULL, silent.
    /// Asked now and then while text is parsed; what is not 0 stops it: KM_ERROR_INTERRUPTED. Default NULL.
    int (*progress)(void *user, const km_progress *progress);
    void *progress_user; ///< Handed to `progress`. Default NULL.
} km_data_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_data_params_init(km_data_params *params);

/// The format that a file's name says ("npy", "csv", ...; ".gz" and the like are looked behind), or NULL where it says
/// none. Static text.
KM_API const char *km_data_format(const char *path);

/// The formats' names, km_data_params.format: the one at `i`, from 0, or NULL behind the last. Static text.
KM_API const char *km_data_format_name(int64_t i);

/// Opens `path` ("-": standard input, up to its end; "FILE:PART": an array of .npz, a dataset of HDF5, a file of a zip
/// archive) as `params` says (NULL: the defaults). Text is parsed whole;
/// .npy and raw files are mapped, and must stay as they are until km_data_destroy: one that becomes shorter makes
/// the call that reads it fail with KM_ERROR_IO. KM_ERROR_IO; KM_ERROR_USAGE for params that contradict each other
/// or the file; KM_ERROR_DATA with "path: row R, column C (name): ...". Rows and columns count from 1; for text,
/// row is the line of the file.
KM_API km_status km_data_open(km_data **out, const char *path, const km_data_params *params, km_error *err);

/// The same of `count` files, whose rows stand one below the other in this order. Columns of the first, by their names
/// where it has some, are taken from all. KM_ERROR_DATA also: a file has other columns, or values of another type, than
/// the first, or is sparse; the sentence names it.
KM_API km_status km_data_open_files(km_data **out, const char *const *paths, int64_t count,
                                    const km_data_params *params, km_error *err);

/// Takes the caller's memory, points and weights, which must outlive the km_data and stay as it is: n x d elements
/// of `type`, element (i, f) at base + i * row_stride + f * column_stride (strides in elements; 0, 0 means C order:
/// d, 1). `weights`: n doubles, finite and not negative, or NULL: all 1. Nothing is copied. KM_ERROR_USAGE: sizes,
/// strides or the type cannot be; KM_ERROR_DATA for bad weights.
KM_API km_status km_data_from_memory(km_data **out, const void *base, int64_t n, int64_t d, km_type type,
                                     int64_t row_stride, int64_t column_stride, const double *weights,
                                     km_error *err);

/// Takes points that already lie on CUDA device `device` (an ordinal, or KM_DEVICE_AUTO: the one that `base` belongs
/// to): n x d elements of `type` in C order without gaps, which must outlive the km_data and stay as they are. Waits
/// for what the caller's `stream` (CUstream; NULL: the default stream) holds, so that the points are written. A fit
/// with KM_DEVICE_AUTO is on that device: no copy of the points is made but the one that the engine centres, and only
/// samples come to the host. Any other device, the CPU among them, reads them over the bus. `weights` lie on the
/// host. Values are looked at when loaded. KM_ERROR_USAGE: no such shape or type, or other memory at `base`;
/// KM_ERROR_DEVICE: no such device; KM_ERROR_DATA: bad weights.
KM_API km_status km_data_from_device(km_data **out, int device, const void *base, int64_t n, int64_t d,
                                     km_type type, void *stream, const double *weights, km_error *err);

/// The same of a table in the host's memory whose columns lie apart: `columns` has d pointers, which are copied, each
/// to n elements of `type` that are `row_stride` elements apart (0: 1). KM_ERROR_USAGE: also a column that is NULL.
/// KM_ERROR_MEMORY.
KM_API km_status km_data_from_columns(km_data **out, const void *const *columns, int64_t n, int64_t d,
                                      km_type type, int64_t row_stride, const double *weights, km_error *err);

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

/// Points first .. first + count - 1 as points of their own: a view that copies none, of `data` which must outlive it.
/// Its labels are of these points alone; messages name rows as `data` does. A mapped file is read only there.
/// KM_ERROR_USAGE: there are no such points, or rows were dropped, or the points are sparse or on a device.
KM_API km_status km_data_range(km_data **out, const km_data *data, int64_t first, int64_t count,
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

/// How the d features are made, where there is more to it than reading columns of numbers, or NULL.
KM_API const km_feature *km_data_preparation(const km_data *data);

/// Weights of all points, n doubles, or NULL when all are 1.
KM_API const double *km_data_weights(const km_data *data);

/// Rows of the table, those counted that KM_MISSING_DROP left out: the length of labels. At least n.
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

/// What one column of a file holds.
typedef struct km_column {
    const char *name;    ///< From a header, or NULL.
    int64_t number;      ///< In the file, from 1.
    km_column_kind kind; ///< What its cells hold.
    int64_t missing;     ///< Rows in which it is missing.
    int64_t wrong;       ///< Of numbers: cells that are neither a number nor missing.
    int64_t
        different; ///< Different texts of a column of text; -1: more than KM_CATEGORIES_MAX, or not of text.
    double low;    ///< Least number; of dates in days since 1970-01-01; NaN: none.
    double high;   ///< Largest number, likewise.
    int32_t is_used; ///< A fit uses it by itself (km_data_params.numbers_only).
} km_column;

/// What the columns of a file hold. Read-only: any number of threads may read it.
typedef struct km_columns km_columns;

/// Reads the whole file to say what its columns hold; kinds are told by the first megabyte, as km_data_open does. Of
/// `params` (NULL: the defaults) format, features, header, na_values and decimal are used. The result is the caller's:
/// km_columns_destroy. KM_ERROR_IO, KM_ERROR_DATA; KM_ERROR_USAGE: the table is sparse.
KM_API km_status km_columns_read(km_columns **out, const char *path, const km_data_params *params,
                                 km_error *err);

/// Frees `*columns` and sets it to NULL; a NULL one is allowed.
KM_API void km_columns_destroy(km_columns **columns);

/// How many columns the file has.
KM_API int64_t km_columns_count(const km_columns *columns);

/// How many rows the file has.
KM_API int64_t km_columns_rows(const km_columns *columns);

/// Column 0..count - 1; it lives as long as `columns`.
KM_API const km_column *km_columns_get(const km_columns *columns, int64_t column);

/// A table of all columns for people. The text is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_columns_to_table(char **out, const km_columns *columns, km_error *err);

/// The same as JSON: `rows`, and `columns` with name, number, kind, missing, wrong, different, low, high, used. The
/// text is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_columns_to_json(char **out, const km_columns *columns, km_error *err);

/// Writes a .npy file (version 1.0, C order) of `values`, rows x columns (columns 0: one dimension of rows); `dtype` is
/// "<i4" (int32_t), "<f4" (float) or "<f8" (double), in the machine's own byte order, or "|u1" (uint8_t). Never half a
/// file; a link is followed. `path` "-" is standard output. KM_ERROR_USAGE: no such dtype or shape; KM_ERROR_IO.
KM_API km_status km_npy_write(const char *path, const void *values, int64_t rows, int64_t columns,
                              const char *dtype, km_error *err);

/// @}
KM_END
#endif

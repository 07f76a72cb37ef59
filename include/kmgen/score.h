// SPDX-License-Identifier: MIT
/// @file
/// Criteria of labels that any program made.
/// @code
///     km_labels_read(&labels, &count, "labels.npy", NULL, &err);
///     km_score_labels(&scores, data, labels, count, NULL, &err);
///     printf("%g\n", scores->scores[KM_CRITERION_silhouette_euclidean]);
/// @endcode
#ifndef KMGEN_SCORE_H
#define KMGEN_SCORE_H
#include <kmgen/data.h>
#include <kmgen/kmgen.h>
#include <kmgen/result.h>
#include <kmgen/select.h>
KM_BEGIN
/// @defgroup score Score: criteria of any labels
/// @{

/// The label of a row that has none: an empty cell or line, or NaN.
#define KM_LABEL_EMPTY INT64_MIN

/// Reads one label a row of a .npy, .csv, .tsv or text file ("-": standard input): whole numbers within +-2^53, or, of
/// a text, words, which are numbered from 0 in the order of their bytes; empty ones are KM_LABEL_EMPTY. `column`: name
/// or number from 1 of the column; NULL: the only one, or that named "label". `*out` is the caller's: km_labels_free.
/// KM_ERROR_IO; KM_ERROR_DATA: the file cannot be read so, a label is no whole number, or some are words and some
/// numbers; KM_ERROR_USAGE: several columns and none named "label"; KM_ERROR_MEMORY.
KM_API km_status km_labels_read(int64_t **out, int64_t *count, const char *path, const char *column,
                                km_error *err);

/// The same, and what labels that are words stand for: `(*words)[i]` is label i of `*words_count`, or NULL and 0 where
/// labels are numbers. `*words` is the caller's: km_label_words_free.
KM_API km_status km_labels_read_words(int64_t **out, int64_t *count, char ***words, int64_t *words_count,
                                      const char *path, const char *column, km_error *err);

/// Frees `*labels` and sets it to NULL; a NULL one is allowed.
KM_API void km_labels_free(int64_t **labels);

/// Frees `*words` and sets it to NULL; a NULL one is allowed.
KM_API void km_label_words_free(char ***words);

/// How labels are scored.
typedef struct km_score_params {
    km_scale scale;    ///< Of the features first, as km_fit_params. Default KM_SCALE_NONE.
    int64_t noise;     ///< Rows with this label belong to no cluster and are left out. Default -1.
    int64_t threads;   ///< CPU threads. Default 0: all cores. Never changes results.
    uint64_t seed;     ///< Of the sample of silhouette_euclidean, where there are too many points. Default 0.
    const km_log *log; ///< Default NULL, silent.
} km_score_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_score_params_init(km_score_params *params);

/// What labels score. Read-only, by any number of threads; all that it points to belongs to it, and refers neither to
/// the data nor to the labels.
typedef struct km_label_scores {
    int64_t n;        ///< Points with a label.
    int64_t d;        ///< Features.
    int64_t rows;     ///< Of the data.
    int64_t left_out; ///< Rows that have no label (noise, empty), or were dropped from the data.
    int64_t dropped;  ///< Of these, rows that were dropped from the data, as --missing drop does.
    int64_t k;        ///< Different labels.
    km_scale scale;   ///< As in km_score_params.
    double inertia;   ///< sum w |x - c|^2, c the mean of the points of a label.
    /// Bit (uint64_t)1 << c of each criterion c that labels alone determine: not those of several K or of fits.
    uint64_t criteria;
    double scores[KM_CRITERION_COUNT];       ///< By each criterion; NaN: not defined.
    double score_errors[KM_CRITERION_COUNT]; ///< Standard errors of scores that a sample gave; NaN: none.
    const int64_t *labels;                   ///< k: the different labels, ascending.
    const int64_t *counts;                   ///< k: their points.
    const double *weights;                   ///< k: sums of weights.
    const double *sse;                       ///< k: their part of the inertia.
} km_label_scores;

/// Criteria of one label a row of `data` (km_data_rows of them), in double, on the CPU. Clusters are the different
/// labels, whatever their numbers; each has the mean of its points as centroid. `params` may be NULL. The result is the
/// caller's: km_label_scores_destroy. KM_ERROR_DATA: another number of labels than rows, a negative label other than
/// params->noise, no label at all, more than KM_CLUSTERS_MAX different ones, bad values in `data`; KM_ERROR_MEMORY;
/// KM_ERROR_IO.
KM_API km_status km_score_labels(km_label_scores **out, const km_data *data, const int64_t *labels,
                                 int64_t count, const km_score_params *params, km_error *err);

/// Frees `*scores` and sets it to NULL; a NULL one is allowed.
KM_API void km_label_scores_destroy(km_label_scores **scores);

/// The scores as JSON (docs/criteria.md), of the criteria whose bit is in `criteria` and in scores->criteria. The text
/// is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_label_scores_to_json(char **out, const km_label_scores *scores, uint64_t criteria,
                                         km_error *err);

/// The same as a table for people. The text is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_label_scores_to_table(char **out, const km_label_scores *scores, uint64_t criteria,
                                          km_error *err);

/// @}
KM_END
#endif

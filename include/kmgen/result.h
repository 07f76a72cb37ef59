// SPDX-License-Identifier: MIT
/// @file
/// What a fit returns, and its reports: JSON, a table, a picture.
#ifndef KMGEN_RESULT_H
#define KMGEN_RESULT_H
#include <kmgen/data.h>
#include <kmgen/kmgen.h>
#include <kmgen/plan.h>
#include <kmgen/select.h>
KM_BEGIN
/// @defgroup result Result: what a fit returns, and its reports
/// @{

/// Clustering happens on (x - centre) * factor: none: factor 1; standard: 1/standard deviation; minmax: 1/(max - min);
/// robust: 1/(third quartile - first). A feature of which that is 0, as of a constant one, has factor 1. Centroids are
/// reported in original units.
typedef enum km_scale {
    KM_SCALE_NONE,     ///< The features as they are.
    KM_SCALE_STANDARD, ///< Each to standard deviation 1.
    KM_SCALE_MINMAX,   ///< Each to the width 1.
    /// Each to the width 1 between its quartiles, which few values far out do not move. Dense points only; exact for up
    /// to 2^20 values, above by as many of evenly spread points; weights do not count.
    KM_SCALE_ROBUST,
    /// Each row divided by its length, factor 1: the metric is the cosine (km_metric), and centroids have length 1.
    KM_SCALE_UNIT,
} km_scale;

enum {
    KM_SCALE_COUNT = KM_SCALE_UNIT + 1 ///< How many there are.
};

/// "none", "standard", "minmax", "robust" or "unit"; NULL: no such scale. Static text.
KM_API const char *km_scale_name(km_scale scale);

/// One K: its best restart. Arrays belong to the result.
typedef struct km_model {
    int32_t k;           ///< K, as it was asked for.
    int32_t effective_k; ///< Clusters that have points, of a weight above 0.
    int64_t restart;     ///< The best restart: the lowest of those whose inertias rounding cannot tell apart.
    int64_t restarts;    ///< Restarts that were run.
    /// Of these, those that found the same clusters as the best of them: its centroids within the stopping tolerance,
    /// or labels whose adjusted Rand index is at least 0.999 (docs/algorithms.md).
    int64_t restarts_agreed;
    /// The inertia that each restart ended with, `restarts` of them, in order of restart, as the sweep summed it.
    const double *restart_inertia;
    int64_t n_iter; ///< Updates of the run that found the model; not those until it was at rest.
    int32_t
        converged; ///< 0: stopped at max_iter, or where refinement, which found the model, had used its share.
    /// Non-zero: refinement found it, from another model than its own best restart. What it gained is the difference to
    /// restart_inertia[restart].
    int32_t refined;
    int32_t at_rest;         ///< Non-zero: refinement iterated it until nothing moved.
    double inertia;          ///< sum w |x - c|^2 in the (scaled) space that was clustered.
    const double *centroids; ///< k x d, original units.
    /// k x d, the clustered space: (x - centre) * factor, values of the type.
    const double *centroids_fitted;
    const double *weights; ///< k: sums of weights.
    const int64_t *counts; ///< k: points.
    const double *sse;     ///< k: inertia of each cluster.
    const int32_t *labels; ///< One for each row of the data, -1 for dropped rows; NULL unless asked for.
    uint64_t
        labels_elsewhere; ///< With a communicator: the part of the digest that other ranks' labels have. Else 0.
    double scores
        [KM_CRITERION_COUNT]; ///< By each criterion (km_score_models); NaN: not defined, or not asked for.
    /// Standard errors of scores that a sample or random draws gave; NaN: the score has none.
    double score_errors[KM_CRITERION_COUNT];
    /// k: how clearly a valley of lower density parts each cluster from a neighbour, in standard errors of a sample
    /// (docs/criteria.md); NaN: an empty cluster, one that is only a neighbour of others, or not measured.
    const double *valleys;
} km_model;

/// Where the time of a fit went, in milliseconds of wall time.
typedef struct km_timing {
    double
        parse_ms; ///< From text to numbers, with reading its bytes, when km_data was opened; not of this call.
    double device_ms;   ///< Until a device is open; on a GPU its context.
    double build_ms;    ///< Plan, text, compiler or cache: what of it the fit waited for.
    double send_ms;     ///< Points sent to a GPU as they are.
    double read_ms;     ///< Points: read, centred and scaled.
    double seed_ms;     ///< First centroids.
    double sweep_ms;    ///< Iterations of all K and restarts.
    double refine_ms;   ///< Refinement.
    double finish_ms;   ///< The finishing pass, criteria, the choice.
    double criteria_ms; ///< Criteria that need more than the finishing pass.
    double free_ms;     ///< Memory and device given back.
    double total_ms;    ///< The whole call.
} km_timing;

/// What the sweep's passes did. Counts are the same for any number of threads; -1: not known on this target.
typedef struct km_counters {
    km_algorithm algorithm; ///< That the last pass used: LLOYD where another one did not pay.
    int64_t distances;      ///< Points (or boxes of points) against centroids, that were computed.
    /// That the same passes of lloyd compute: points x centroids of the active runs.
    int64_t distances_lloyd;
    int64_t points_skipped;  ///< Points of active runs that no distance was computed for, over all passes.
    int64_t exchanges;       ///< With a communicator: sums over all ranks that passes took, one each. Else 0.
    int64_t exchanged_bytes; ///< What these sums were of, on each rank.
} km_counters;

/// What a fit returns. Read-only; all that it points to belongs to it, is freed with km_result_destroy, and refers
/// neither to the data nor to the spec. Any number of threads may read it.
typedef struct km_result {
    int64_t n;             ///< Points.
    int64_t d;             ///< Features.
    int64_t rows;          ///< Of the data, dropped ones included: the length of labels.
    int64_t first_row;     ///< With a communicator: which of all ranks' rows this rank's first is. Else 0.
    int64_t rows_all;      ///< With a communicator: rows of all ranks. Else `rows`.
    km_type type;          ///< Of the kernels.
    char target[32];       ///< "cpu:avx512", "cuda:sm_90".
    char device[128];      ///< Name of the device.
    km_plan plan;          ///< The plan that was run; its spec is complete.
    uint64_t seed;         ///< As in km_fit_params.
    int64_t n_init;        ///< Restarts of each K that were asked for; 1 with given centroids.
    int64_t max_iter;      ///< As in km_fit_params, or the spec's.
    double tol;            ///< As in km_fit_params, or the spec's.
    int64_t passes;        ///< Reads of all points by the sweep.
    int64_t refine;        ///< As in km_fit_params, or the spec's.
    int64_t refine_passes; ///< Reads of all points by refinement.
    /// Non-zero: the progress callback asked for an early end (KM_FIT_STOP_WITH_RESULT). Each K has the best of the
    /// runs as far as they came; restarts that had not ended have the inertia NaN; criteria that take fits of their
    /// own may be missing.
    int32_t interrupted;
    km_counters counters;   ///< What the passes did.
    km_timing timing;       ///< Where the time went.
    km_scale scale;         ///< As in km_fit_params.
    const double *centre;   ///< d: clustered space = (x - centre) * factor.
    const double *factor;   ///< d.
    int32_t exponent;       ///< The kernels saw the clustered space times 2^exponent, which lost nothing.
    const double *mean;     ///< d: original units.
    const double *variance; ///< d: original units, squared; divided by N.
    const char *const *feature_names; ///< d, or NULL.
    const km_feature *prepared;       ///< How they were made of columns (km_data_preparation): d, or NULL.
    const km_model *models;           ///< models_count of them, in ascending K.
    int64_t models_count;             ///< At least 1.
    km_selection selection;           ///< The best of them, and why.
    uint64_t criteria;                ///< Bit (uint64_t)1 << c of each criterion c that was computed.
    const char *const *warnings;      ///< warnings_count sentences, in the order in which they came up.
    int64_t warnings_count;           ///< 0: nothing to say.
} km_result;

/// Frees `*result` with all that it points to, and sets it to NULL; a NULL one is allowed.
KM_API void km_result_destroy(km_result **result);

/// A hash of all that the fit found: sizes, type, seed and scale, models with their scores, the choice, and labels
/// where they were kept. Not of what it took: timings, passes, counters, plan, device. Two fits with the same digest
/// found the same, bit for bit (docs/numerics.md says when that is promised). XXH3 of 64 bits, on every machine and,
/// with a communicator, every rank the same.
KM_API uint64_t km_result_digest(const km_result *result);

/// The result as JSON, by docs/result.schema.json; labels and centroids_fitted are not in it. The text is the caller's:
/// km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_result_to_json(char **out, const km_result *result, km_error *err);

/// What the reader of a table can show; bits that may be joined.
typedef enum km_table_looks {
    KM_TABLE_COLOUR = 1, ///< ANSI bold and colour.
    KM_TABLE_UTF8 = 2,   ///< Bars of block characters; else of '#'.
} km_table_looks;

/// To be joined with km_table_looks: the width of the reader's terminal, 1 to 10000 characters; columns that do not fit
/// go on below. Without it 80.
#define KM_TABLE_WIDTH(columns) ((columns)*256)

/// The result as a table for people, a row a K, with a bar for what decides where there is space for it. `looks`: bits
/// of km_table_looks and KM_TABLE_WIDTH; `verbose` non-zero: a column for each criterion. The text is the caller's:
/// km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_result_to_table(char **out, const km_result *result, int looks, int verbose,
                                    km_error *err);

/// Draws inertia and the criterion over K with the best marked; ".svg", ".png" or ".pdf" by the end of `path`. The
/// file appears when it is whole; a link is followed. KM_ERROR_USAGE: another ending, or the library was built without
/// cairo (km_built_with); KM_ERROR_IO.
KM_API km_status km_result_plot(const char *path, const km_result *result, km_error *err);

/// How a report is made.
typedef struct km_report_params {
    const char *title;   ///< What the page calls the data. Default NULL: the last part of km_data_name.
    const char *command; ///< The command line, to be shown. Default NULL: none.
    /// Rows that are read, at most, for all that the result itself does not hold: principal components, silhouettes,
    /// how clusters split. Drawn evenly, by the result's seed; the page says how many. Default 8192.
    int64_t rows;
} km_report_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_report_params_init(km_report_params *params);

/// Writes the whole result as one page of HTML that needs no network and no other file, to `path` ("-": standard
/// output). `data` is what was fitted; `params` NULL: the defaults. The file appears when it is whole; a link is
/// followed. KM_ERROR_USAGE: the data have other sizes than the result, or `rows` is below 1;
/// KM_ERROR_MEMORY; KM_ERROR_IO.
KM_API km_status km_result_report(const char *path, const km_result *result, const km_data *data,
                                  const km_report_params *params, km_error *err);

/// Writes `text` without its final zero to the file `path`, or to standard output ("-"). The file appears when it
/// is whole, with the mode of the one that it replaces; a link is followed. KM_ERROR_IO: nothing is left, and what
/// was there stays.
KM_API km_status km_text_write(const char *path, const char *text, km_error *err);

/// Whether a file could be written there: to be asked before a long job. Leaves nothing. KM_ERROR_IO says why not.
KM_API km_status km_output_check(const char *path, km_error *err);

/// @}
KM_END
#endif

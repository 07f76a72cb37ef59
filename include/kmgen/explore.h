// SPDX-License-Identifier: MIT
/// @file
/// Which columns hold the clusters: k-means on many subsets of the columns at once, and their ranking.
/// @code
///     km_explore_params params;
///     km_explore_params_init(&params);
///     params.size_min = params.size_max = 3;
///     km_explore(&found, data, &params, &err);
///     const km_explored *best = &found->subsets[found->ranking[0]];
///     km_explore_destroy(&found);
/// @endcode
#ifndef KMGEN_EXPLORE_H
#define KMGEN_EXPLORE_H
#include <kmgen/data.h>
#include <kmgen/fit.h>
#include <kmgen/kmgen.h>
#include <kmgen/result.h>
KM_BEGIN
/// @defgroup explore Explore: which columns hold the clusters
/// @{

/// What subsets are ranked by: X(name, title, needs). All are better when larger, and may be compared between
/// subsets of different columns and sizes, but for Calinski-Harabasz, which grows with what the columns have
/// in common and with fewer of them.
///
/// - simplified silhouette, Calinski-Harabasz: as at KM_CRITERIA; W of the latter about the means of the labels.
/// - explained: 1 - W / T, W the inertia, T the sum of squares about the mean.
/// - permuted: the logarithm of Calinski-Harabasz over its mean in tables each of whose columns is permuted by
///   itself, so that nothing is left but what each column has alone: 0 where columns say nothing of each other, for
///   subsets of any size.
/// - agreed: of the restarts, those whose inertia is within 1e-3 (relative) of the best.
/// - accuracy: rows whose class the best guess names; balanced accuracy: its mean over the classes.
/// - mutual information: sum of p(c, l) log2(p(c, l) / (p(c) p(l))) over classes c and labels l.
/// - R^2: 1 - squares about the mean of a label / squares about the mean of all.
///
/// A code is the list of labels of one subset and K. The best guess of an outcome from a code is the most
/// frequent class of each label, or for numbers the mean of each label; both are learnt from the rows that
/// are not held out, and all figures are of the rows that are, or of all rows where none are held out.
#define KM_RANKS(X)                                                                                          \
    X(simplified_silhouette, "simplified silhouette", KM_RANK_ANY)                                           \
    X(explained, "share of variance explained", KM_RANK_ANY)                                                 \
    X(calinski_harabasz, "Calinski-Harabasz", KM_RANK_ANY)                                                   \
    X(permuted, "log ratio of Calinski-Harabasz to permuted columns", KM_RANK_ANY)                           \
    X(agreed, "share of restarts that agree", KM_RANK_ANY)                                                   \
    X(accuracy, "accuracy", KM_RANK_CLASSES)                                                                 \
    X(balanced_accuracy, "balanced accuracy", KM_RANK_CLASSES)                                               \
    X(mutual_information, "mutual information (bits)", KM_RANK_CLASSES)                                      \
    X(r2, "R^2", KM_RANK_NUMBERS)

/// What a figure needs.
typedef enum km_rank_needs {
    KM_RANK_ANY,     ///< The points alone.
    KM_RANK_CLASSES, ///< An outcome of classes.
    KM_RANK_NUMBERS, ///< An outcome of numbers.
} km_rank_needs;

/// One figure, KM_RANK_accuracy and so on: a row of KM_RANKS. KM_RANK_AUTO: balanced accuracy where there are
/// classes, R^2 where there are numbers, else the simplified silhouette.
typedef enum km_rank {
    KM_RANK_AUTO = -1,
#define KM_RANK_ENUM(name, title, needs) KM_RANK_##name,
    KM_RANKS(KM_RANK_ENUM)
#undef KM_RANK_ENUM
        KM_RANK_COUNT
} km_rank;

/// A figure's name in JSON and on the command line, e.g. "accuracy"; "none" when out of range. Static text.
KM_API const char *km_rank_name(km_rank rank);

/// Its name for people; "none" when out of range. Static text.
KM_API const char *km_rank_title(km_rank rank);

/// Limits.
enum {
    KM_OUTCOME_CLASSES_MAX = 4096, ///< Most classes of an outcome.
    KM_SUBSETS_MAX = 10000000,     ///< Most subsets of one call.
    KM_COMBINE_MAX = 20,           ///< Most codes that are combined by two and three.
};

/// What the outcome of a row is.
typedef enum km_outcome_kind {
    KM_OUTCOME_AUTO,    ///< Classes where it is text, or at most 20 different whole numbers; else numbers.
    KM_OUTCOME_CLASSES, ///< Each different value is a class.
    KM_OUTCOME_NUMBERS, ///< A number.
} km_outcome_kind;

/// An outcome, one for each row of a table. Read-only: any number of threads may use one.
typedef struct km_outcome km_outcome;

/// Reads column `column` (a name, or a number from 1) of a table of text or .npy. Empty cells and NaN are
/// missing: such rows are clustered, but not counted. The outcome is the caller's: km_outcome_destroy.
/// KM_ERROR_IO; KM_ERROR_USAGE: no such column; KM_ERROR_DATA: text where numbers are wanted, fewer than two
/// classes, or more than KM_OUTCOME_CLASSES_MAX.
KM_API km_status km_outcome_read(km_outcome **out, const char *path, const char *column,
                                 const km_data_params *params, km_outcome_kind kind, km_error *err);

/// The same from memory: `rows` numbers, NaN: missing, which are copied; `name` (NULL: "outcome") is for messages.
/// KM_ERROR_USAGE: `rows` below 0, or no such kind; KM_ERROR_DATA: fewer than two classes, or more than
/// KM_OUTCOME_CLASSES_MAX.
KM_API km_status km_outcome_from_memory(km_outcome **out, const double *values, int64_t rows,
                                        km_outcome_kind kind, const char *name, km_error *err);

/// Frees `*outcome` and sets it to NULL; a NULL one is allowed.
KM_API void km_outcome_destroy(km_outcome **outcome);

/// How columns are explored.
typedef struct km_explore_params {
    int64_t
        size_min; ///< Columns of a subset, at least. Default 0: size_max, or 3 (fewer where there are fewer).
    int64_t size_max; ///< At most. Default 0: size_min.
    int64_t subsets;  ///< How many are drawn at random. Default 0: all.
    int32_t
        with_replacement; ///< A subset may be drawn several times, with first centroids of its own. Default 0.
    const char *include;  ///< Columns that every subset has, as km_data_params.columns. Default NULL: none.
    const char *exclude;  ///< Columns that none has. Default NULL: none.
    const int32_t *clusters; ///< The list of K, ascending, at most 255. Default NULL: 8 alone.
    int64_t clusters_count;  ///< Default 0.
    km_type type;            ///< Default KM_FLOAT32.
    /// Default KM_SCALE_STANDARD: without it, subsets of wide columns would have the clusters of one column
    /// alone, and figures of subsets could not be compared.
    km_scale scale;
    int64_t n_init;   ///< Restarts of each subset and K. Default 10.
    int64_t max_iter; ///< As km_fit_params. Default 300.
    double tol;       ///< As km_fit_params. Default 1e-4.
    km_init init;     ///< KM_INIT_PLUSPLUS or KM_INIT_RANDOM. Default KM_INIT_PLUSPLUS.
    uint64_t seed;    ///< Of the draws of subsets, first centroids, and rows that are held out. Default 0.
    km_rank rank;     ///< What decides. Default KM_RANK_AUTO.
    /// Of KM_RANK_permuted: how often the columns are permuted. Each takes as long as exploring. Default 3.
    int64_t permutations;
    int64_t best; ///< How many subsets count as the best, for km_explore_result.among_best. Default 10.
    /// Of so many of the best the labels of all rows are returned, a byte each; -1: of all of the best. Default 0.
    int64_t codes;
    /// With an outcome, so many of the best codes are combined by two and three (km_explore_result.combined), up to
    /// KM_COMBINE_MAX. Default 0: none.
    int64_t combine;
    const km_outcome *outcome; ///< What codes are to predict; the caller's. Default NULL.
    double holdout;            ///< Share of the rows that figures of the outcome are of. Default 0: all rows.
    /// KM_HOST, a CUDA ordinal, or KM_DEVICE_AUTO: device 0 where there is much to do and it can, else the CPU. Default
    /// KM_HOST.
    int device;
    int64_t threads;       ///< CPU threads. Default 0: all cores. Never changes results.
    const char *cache_dir; ///< Of a GPU's kernels; see km_module_params. Default NULL.
    const char *compiler;  ///< NVRTC; see km_module_params. Default NULL.
    const km_log *log;     ///< Default NULL, silent.
    /// Asked now and then by the thread that called km_explore, with the phase "explore" and subsets that are
    /// done; what is not 0 ends the call, which returns what is done. Default NULL.
    int (*progress)(void *user, const km_progress *progress);
    void *progress_user; ///< Handed to `progress`. Default NULL.
} km_explore_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_explore_params_init(km_explore_params *params);

/// One subset and its best K: what decides is the figure that subsets are ranked by.
typedef struct km_explored {
    const int32_t *columns;         ///< `size` columns, from 0, ascending.
    int64_t size;                   ///< How many columns it has.
    int32_t k;                      ///< K, as it was asked for.
    int32_t effective_k;            ///< Clusters that have points, of a weight above 0.
    int64_t restart;                ///< The best restart.
    int64_t restarts_agreed;        ///< Restarts whose inertia is within 1e-3 (relative) of the best.
    int64_t n_iter;                 ///< Updates of the best restart.
    int32_t converged;              ///< 0: stopped at max_iter.
    double inertia;                 ///< In the (scaled) space that was clustered.
    const double *centroids;        ///< k x size, original units.
    const double *centroids_fitted; ///< k x size, the clustered space.
    const int64_t *counts;          ///< k: points.
    double figures[KM_RANK_COUNT];  ///< By each km_rank; NaN: not defined.
} km_explored;

/// Several of the best codes as one: a row's joint label is what it has in each of them.
typedef struct km_combined {
    int64_t places[3];             ///< `size` places in the ranking, from 0, ascending.
    int64_t size;                  ///< 2 or 3.
    int64_t k;                     ///< Joint labels that there may be.
    double figures[KM_RANK_COUNT]; ///< Those of the outcome; the others are NaN.
} km_combined;

/// What exploring found. Read-only, by any number of threads; all that it points to belongs to it, and refers neither
/// to the data nor to the params.
typedef struct km_explore_result {
    int64_t n;                ///< Points.
    int64_t d;                ///< Columns.
    int64_t rows;             ///< Of the data, dropped ones included: the length of codes.
    km_type type;             ///< Of the kernels, as in the params.
    km_scale scale;           ///< As in the params.
    km_rank rank;             ///< What decided; never KM_RANK_AUTO.
    uint64_t seed;            ///< As in the params.
    int64_t n_init;           ///< As in the params.
    int64_t max_iter;         ///< As in the params.
    double tol;               ///< As in the params.
    double holdout;           ///< As in the params.
    int64_t outcome_rows;     ///< Rows that have an outcome; 0: there is none.
    int64_t outcome_held_out; ///< Of these, the ones that are held out.
    int64_t classes;          ///< Of the outcome; 0: numbers, or none.
    /// What the figure would be without any columns: the share of the most frequent class; NaN: not defined.
    double baseline[KM_RANK_COUNT];
    const char *const *names;   ///< d, or NULL.
    int64_t wanted;             ///< Subsets that were to be explored.
    int64_t count;              ///< Subsets that were: fewer where the call was interrupted.
    double possible;            ///< Subsets that there are of these sizes.
    const km_explored *subsets; ///< count of them, in the order in which they were chosen.
    const int64_t *ranking; ///< count: indices of subsets, the best first; without the figure they come last.
    int64_t best;           ///< How many count as the best.
    const int64_t *among_best; ///< d: so many of the best have the column.
    const int64_t *in_subsets; ///< d: so many subsets have it.
    int64_t codes;             ///< Columns of `codes_of_rows`.
    const uint8_t *
        codes_of_rows; ///< rows x codes: labels by the best subsets; 255: a row that was dropped. NULL: none.
    const km_combined *combined; ///< combined_count combinations of the best codes, the best first.
    int64_t combined_count;      ///< 0: none were wanted.
    int64_t distances;   ///< Points against centroids that the iterations computed; 0: not counted (the CPU).
    int64_t table_bytes; ///< Memory of the table.
    int64_t subset_bytes;        ///< Memory that a thread had for a subset in work, at most.
    double load_ms;              ///< Wall time of reading the table.
    double run_ms;               ///< Wall time of all else.
    const char *const *warnings; ///< warnings_count sentences.
    int64_t warnings_count;      ///< How many.
} km_explore_result;

/// Runs k-means on each subset for each K, all by one table that is loaded once, and ranks the subsets.
/// Model, labels and inertia of a subset are those that km_fit finds for its columns with the same seed,
/// scale and type (algorithm lloyd, refine 0), but for points that the type cannot tell apart. Constant
/// columns are left out with a warning. `params` NULL: the defaults. The result is the caller's: km_explore_destroy.
/// KM_ERROR_USAGE: params, or an outcome that is also a column; KM_ERROR_DATA: values; KM_ERROR_DEVICE,
/// KM_ERROR_COMPILE or KM_ERROR_PLAN: what a GPU lacks; KM_ERROR_MEMORY: neither the table nor subsets in work have
/// room; KM_ERROR_IO: a file of the data became shorter; KM_ERROR_INTERRUPTED: before the first subsets were done.
KM_API km_status km_explore(km_explore_result **out, const km_data *data, const km_explore_params *params,
                            km_error *err);

/// Frees `*result` and sets it to NULL; a NULL one is allowed.
KM_API void km_explore_destroy(km_explore_result **result);

/// The result as JSON, by docs/explore.schema.json. The text is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_explore_to_json(char **out, const km_explore_result *result, km_error *err);

/// The best and the worst subsets as a table for people, `rows` of each at most. `looks`: bits of km_table_looks. The
/// text is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_explore_to_table(char **out, const km_explore_result *result, int64_t rows, int looks,
                                     km_error *err);

/// Draws how often each column is among the best; ".svg", ".png" or ".pdf" by the end of `path`. The file appears when
/// it is whole; a link is followed. KM_ERROR_USAGE: another ending, or the library was built without cairo
/// (km_built_with); KM_ERROR_IO.
KM_API km_status km_explore_plot(const char *path, const km_explore_result *result, km_error *err);

/// Writes the model of subset `index`, 0..count - 1, for km_predict, as km_predictor_write. KM_ERROR_USAGE: there is no
/// such subset; KM_ERROR_DATA: a number of it is not finite; KM_ERROR_IO.
KM_API km_status km_explore_write_model(const char *path, const km_explore_result *result, int64_t index,
                                        km_error *err);

/// @}
KM_END
#endif

// SPDX-License-Identifier: MIT
// The sweep: all K and all restarts of k-means with one read of the points per iteration, and the best K.
//
//     km_fit(&result, &spec, data, NULL, &err);
//     printf("best K: %d\n", result->models[result->selection.best].k);
//     km_result_destroy(&result);
#ifndef KMGEN_SWEEP_H
#define KMGEN_SWEEP_H
#include <kmgen/data.h>
#include <kmgen/kmgen.h>
#include <kmgen/module.h>
#include <kmgen/plan.h>
#include <kmgen/select.h>
#include <kmgen/spec.h>
KM_BEGIN

typedef enum km_init { KM_INIT_PLUSPLUS, KM_INIT_RANDOM, KM_INIT_GIVEN } km_init;
// Clustering happens on (x - centre) * factor: none: factor 1; standard: 1/standard deviation; minmax:
// 1/(max - min). A constant feature has factor 1. Centroids are reported in original units.
typedef enum km_scale { KM_SCALE_NONE, KM_SCALE_STANDARD, KM_SCALE_MINMAX } km_scale;
typedef enum km_labels_of { KM_LABELS_NONE, KM_LABELS_BEST, KM_LABELS_ALL } km_labels_of;

// State of a running fit, for a progress line.
typedef struct km_progress {
    const char *phase;   // "read", "build", "seed", "sweep", "finish".
    int64_t done, total; // Runs (K, restart) that are done in "sweep", picks in "seed"; else 0, 0.
    int64_t passes;      // Passes over the points so far.
    double elapsed_s;
} km_progress;

typedef struct km_fit_params {
    int64_t size;
    int device;             // CUDA ordinal, KM_HOST or KM_DEVICE_AUTO; the spec's target, when it says cpu or
                            // cuda, wins over AUTO. Default KM_DEVICE_AUTO.
    int64_t iterations_max; // Per run, at least 1. Default 300.
    double tol;             // A run stops when the sum over its clusters of squared centroid shift is at
                            // most tol x the mean variance of the features; 0: when centroids no longer
                            // change. Default 1e-4.
    int64_t changes_min;    // Also stop when fewer labels than this change; needs 1 byte (2 or 4 above K =
                            // 256, 65,536) per point and run in flight. Default 0: off.
    km_init init; // Default KM_INIT_PLUSPLUS: greedy k-means++, one chain of max(K) picks a restart.
    const double *init_rows; // KM_INIT_GIVEN: init_count x d in original units: max(K) rows, each K takes its
    int64_t init_count;      // first K; or the rows of every K in ascending order. Means one restart.
    km_scale scale;          // Default KM_SCALE_NONE.
    uint64_t seed;           // Of all random draws (counter-based). Default 0.
    km_criterion criterion;  // Decides. Default KM_CRITERION_calinski_harabasz.
    km_labels_of labels;     // Which models' labels are returned. Default KM_LABELS_NONE.
    int64_t threads;         // CPU threads. Default 0: all cores. Never changes results.
    const char *cache_dir;   // See km_module_params. Default NULL.
    int64_t cache_bytes_max;
    const char *compiler; // See km_module_params. Default NULL.
    const char
        *source_text;   // Use this (hand-edited) text instead of what the plan emits, with the plan that its
                        // head names: it must be for this shape and device. Default NULL.
    const char *tuning; // Text of a tuning file. Default NULL.
    km_algorithm algorithm;                                   // Default KM_ALGORITHM_AUTO.
    const km_log *log;                                        // Default NULL, silent.
    int (*progress)(void *user, const km_progress *progress); // Non-zero stops: KM_ERROR_INTERRUPTED. NULL.
    void *progress_user;
} km_fit_params;

KM_API void km_fit_params_init(km_fit_params *params);

// One K: its best restart. Arrays belong to the result.
typedef struct km_model {
    int32_t k;
    int32_t effective_k;     // Clusters that have points.
    int64_t restart;         // The best restart: the lowest of those whose costs rounding cannot tell apart.
    int64_t restarts;        // Restarts that were run ...
    int64_t restarts_agreed; // ... and those whose inertia is within 1e-6 (relative) of the best.
    int64_t iterations;      // Of the best restart.
    int32_t converged;       // 0: stopped at iterations_max.
    double inertia;          // sum w |x - c|^2 in the (scaled) space that was clustered.
    const double *centroids; // k x d, original units.
    const double *centroids_fitted; // k x d, the clustered space: (x - centre) * factor, values of the type.
    const double *weights;          // k: sums of weights.
    const int64_t *counts;          // k: points.
    const double *sse;              // k: inertia of each cluster.
    const int32_t *labels; // One for each row of the data, -1 for dropped rows; NULL unless asked for.
    double scores[KM_CRITERION_COUNT]; // NaN: not defined.
} km_model;

typedef struct km_timing {
    double read_ms, build_ms, seed_ms, sweep_ms, finish_ms, total_ms;
} km_timing;

// What the sweep's passes did. Counts are the same for any number of threads; -1: not known on this target.
typedef struct km_counters {
    km_algorithm algorithm;  // That the last pass used: LLOYD where another one did not pay.
    int64_t distances;       // Points (or boxes of points) against centroids, that were computed.
    int64_t distances_lloyd; // That the same passes of lloyd compute: points x centroids of the active runs.
    int64_t points_skipped;  // Points of active runs that no distance was computed for, over all passes.
} km_counters;

// Read-only; freed with km_result_destroy.
typedef struct km_result {
    int64_t size;
    int64_t n, d;
    int64_t rows; // Of the data, dropped ones included: the length of labels.
    km_type type;
    char target[32];  // "cpu:avx512", "cuda:sm_90"
    char device[128]; // Name of the device.
    km_plan plan;
    uint64_t seed;
    int64_t restarts;
    int64_t passes; // Reads of all points by the sweep.
    km_counters counters;
    km_timing timing;
    km_scale scale;
    const double *centre;   // d; clustered space = (x - centre) * factor.
    const double *factor;   // d
    int32_t exponent;       // The kernels saw the clustered space times 2^exponent, which lost nothing.
    const double *mean;     // d, original units.
    const double *variance; // d, original units, divided by N.
    const char *const *feature_names; // d, or NULL.
    const km_model *models;           // Ascending K.
    int64_t models_count;
    km_selection selection;
    const char *const *warnings;
    int64_t warnings_count;
} km_result;

// Walks the whole line: plan, emit, build, load, seed, sweep, finish, score, select. The spec's features (0 or
// equal to the data's) and clusters (none: 2..min(20, n-1)) are completed from the data; Ks above n are
// dropped with a warning. Thread-safe: no shared state but the cache folder. Any status.
KM_API km_status km_fit(km_result **out, const km_spec *spec, const km_data *data,
                        const km_fit_params *params, km_error *err);
KM_API void km_result_destroy(km_result **result);

// The plan that km_fit would use for this spec and data, nothing run: what --dry-run prints. That a compiler refuses a
// text or spills registers, so that the next plan is taken, is known only where `cache_dir` has seen it.
// KM_ERROR_MEMORY where the fit needs more than is free, as km_fit says it: `plan` is the one that needs least then.
KM_API km_status km_fit_plan(km_plan *plan, const km_spec *spec, const km_data *data,
                             const km_fit_params *params, km_error *err);

// Reports. Texts are freed with km_text_free; a file appears when it is whole; a link is followed.
KM_API km_status km_result_to_json(char **out, const km_result *result,
                                   km_error *err); // docs/result.schema.json
// `colour`: ANSI bold and colour for a terminal. `verbose`: all criteria.
KM_API km_status km_result_to_table(char **out, const km_result *result, int colour, int verbose,
                                    km_error *err);
// Inertia and the criterion over K with the best marked; ".svg" or ".png" by the name.
KM_API km_status km_result_plot(const char *path, const km_result *result, km_error *err);
KM_API km_status km_text_write(const char *path, const char *text, km_error *err);
// Whether a file could be written there: to be asked before a long job. Leaves nothing. KM_ERROR_IO.
KM_API km_status km_output_check(const char *path, km_error *err);

// Saved models --------------------------------------------------------------------------------------------

// What predict needs of the best model of a result; a JSON file (docs/model.md).
typedef struct km_saved km_saved;

KM_API km_status km_model_write(const char *path, const km_result *result, int64_t model_index,
                                km_error *err);
// KM_ERROR_IO; KM_ERROR_DATA when the file is no model or is damaged (it carries a checksum).
KM_API km_status km_model_read(km_saved **out, const char *path, km_error *err);
KM_API void km_saved_destroy(km_saved **saved);
KM_API int64_t km_saved_features(const km_saved *saved);
KM_API int64_t km_saved_clusters(const km_saved *saved);
// Names of the features that it was fitted on, d of them, or NULL. With these as km_data_params.names a table is read
// for this model, whatever its other columns hold.
KM_API const char *const *km_saved_feature_names(const km_saved *saved);
// Labels of all rows (-1 for dropped ones): out has km_data_rows entries. On the training data they equal the
// fit's labels. Features go by name where model and data both have names (km_data_select: in any order, out of any
// number), else by position and count. `params` may be NULL; device, threads, cache_dir and log are used.
KM_API km_status km_predict(int32_t *out, const km_saved *saved, const km_data *data,
                            const km_fit_params *params, km_error *err);

KM_END
#endif

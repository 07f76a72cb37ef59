// SPDX-License-Identifier: MIT
// What a fit returns, and its reports: JSON, a table, a picture.
#ifndef KMGEN_RESULT_H
#define KMGEN_RESULT_H
#include <kmgen/kmgen.h>
#include <kmgen/plan.h>
#include <kmgen/select.h>
KM_BEGIN

// Clustering happens on (x - centre) * factor: none: factor 1; standard: 1/standard deviation; minmax:
// 1/(max - min). A constant feature has factor 1. Centroids are reported in original units.
typedef enum km_scale { KM_SCALE_NONE, KM_SCALE_STANDARD, KM_SCALE_MINMAX } km_scale;

// One K: its best restart. Arrays belong to the result.
typedef struct km_model {
    int32_t k;
    int32_t effective_k;     // Clusters that have points.
    int64_t restart;         // The best restart: the lowest of those whose costs rounding cannot tell apart.
    int64_t restarts;        // Restarts that were run ...
    int64_t restarts_agreed; // ... and those whose inertia is within 1e-6 (relative) of the best.
    int64_t n_iter;          // Updates of the best restart.
    int32_t converged;       // 0: stopped at max_iter.
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
    int64_t n, d;
    int64_t rows; // Of the data, dropped ones included: the length of labels.
    km_type type;
    char target[32];  // "cpu:avx512", "cuda:sm_90"
    char device[128]; // Name of the device.
    km_plan plan;
    uint64_t seed;
    int64_t n_init; // Restarts of each K that were asked for; 1 with given centroids.
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

KM_API void km_result_destroy(km_result **result);

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

KM_END
#endif

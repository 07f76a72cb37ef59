// SPDX-License-Identifier: MIT
// The whole line in one call: all K and all restarts of k-means with one read of the points per iteration, and the
// best K.
//
//     km_fit(&result, &spec, data, NULL, &err);
//     printf("best K: %d\n", result->models[result->selection.best].k);
//     km_result_destroy(&result);
#ifndef KMGEN_FIT_H
#define KMGEN_FIT_H
#include <kmgen/data.h>
#include <kmgen/kmgen.h>
#include <kmgen/plan.h>
#include <kmgen/result.h>
#include <kmgen/select.h>
#include <kmgen/spec.h>
KM_BEGIN

typedef enum km_init { KM_INIT_PLUSPLUS, KM_INIT_RANDOM, KM_INIT_GIVEN } km_init;
// Which labels a fit returns.
typedef enum km_labels_wanted { KM_LABELS_NONE, KM_LABELS_BEST, KM_LABELS_ALL } km_labels_wanted;

// State of a running fit, for a progress line.
typedef struct km_progress {
    const char *phase;   // "read", "build", "seed", "sweep", "finish".
    int64_t done, total; // Members (K, restart) that are done in "sweep", picks in "seed"; else 0, 0.
    int64_t passes;      // Passes over the points so far.
    double elapsed_s;
} km_progress;

typedef struct km_fit_params {
    int device;          // CUDA ordinal, KM_HOST or KM_DEVICE_AUTO; the spec's target, when it says cpu or
                         // cuda, wins over AUTO. Default KM_DEVICE_AUTO.
    int64_t max_iter;    // Per run, at least 1. Default 300.
    double tol;          // A run stops when the sum over its clusters of squared centroid shift is at
                         // most tol x the mean variance of the features; 0: when centroids no longer
                         // change. Default 1e-4.
    int64_t changes_min; // Also stop when fewer labels than this change; needs 1 byte (2 or 4 above K =
                         // 256, 65,536) per point and run in flight. Default 0: off.
    km_init init;        // Default KM_INIT_PLUSPLUS: greedy k-means++, one chain of max(K) picks a restart.
    const double *init_rows; // KM_INIT_GIVEN: init_count x d in original units: max(K) rows, each K takes its
    int64_t init_count;      // first K; or the rows of every K in ascending order. Means one restart.
    km_scale scale;          // Default KM_SCALE_NONE.
    uint64_t seed;           // Of all random draws (counter-based). Default 0.
    km_criterion criterion;  // Decides. Default KM_CRITERION_calinski_harabasz.
    km_labels_wanted labels; // Which models' labels are returned. Default KM_LABELS_NONE.
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

// Walks the whole line: plan, emit, build, load, seed, sweep, finish, score, select. The spec's features (0 or
// equal to the data's) and clusters (none: 2..min(20, n-1)) are completed from the data; Ks above n are
// dropped with a warning. Thread-safe: no shared state but the cache folder. Any status.
KM_API km_status km_fit(km_result **out, const km_spec *spec, const km_data *data,
                        const km_fit_params *params, km_error *err);

// The plan that km_fit would use for this spec and data, nothing run: what --dry-run prints. That a compiler refuses a
// text or spills registers, so that the next plan is taken, is known only where `cache_dir` has seen it.
// KM_ERROR_MEMORY where the fit needs more than is free, as km_fit says it: `plan` is the one that needs least then.
KM_API km_status km_fit_plan(km_plan *plan, const km_spec *spec, const km_data *data,
                             const km_fit_params *params, km_error *err);

KM_END
#endif

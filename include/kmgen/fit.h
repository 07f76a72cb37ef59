// SPDX-License-Identifier: MIT
/// @file
/// The whole line in one call: all K and all restarts of k-means with one read of the points per iteration, and the
/// best K.
/// @code
///     km_fit(&result, &spec, data, NULL, &err);
///     printf("best K: %d\n", result->models[result->selection.best].k);
///     km_result_destroy(&result);
/// @endcode
#ifndef KMGEN_FIT_H
#define KMGEN_FIT_H
#include <kmgen/data.h>
#include <kmgen/kmgen.h>
#include <kmgen/plan.h>
#include <kmgen/result.h>
#include <kmgen/select.h>
#include <kmgen/spec.h>
KM_BEGIN
/// @defgroup fit Fit: the whole line in one call
/// @{

/// Where first centroids come from.
typedef enum km_init {
    KM_INIT_PLUSPLUS, ///< Greedy k-means++ (Arthur and Vassilvitskii 2007), one chain of max(K) picks a restart.
    KM_INIT_RANDOM, ///< Different points, drawn at random.
    KM_INIT_GIVEN,  ///< km_fit_params.init_rows.
} km_init;

/// The box that the gap's reference points are drawn in.
typedef enum km_gap_box {
    KM_GAP_UNIFORM,   ///< Around the points, along the features.
    KM_GAP_PRINCIPAL, ///< Around the points, along their principal components.
} km_gap_box;

/// Which labels a fit returns.
typedef enum km_labels_wanted {
    KM_LABELS_NONE, ///< None.
    KM_LABELS_BEST, ///< The best model's.
    KM_LABELS_ALL,  ///< Those of every K: 4 bytes a row and K.
} km_labels_wanted;

#define KM_TOL_SPEC (-1.0) ///< km_fit_params.tol: the spec's.

/// Ranks that cluster together, each with a share of the points: processes, on one machine or several, or threads that
/// each call km_fit. Every rank calls it with the same spec and parameters, but for threads, memory and files, and with
/// points of its own; the points of all are those of rank 0, then of rank 1, and so on. Each rank but the last that has
/// points has a multiple of KM_SHARE_POINTS (km_share_of); ranks may have none. The result has the same bits on each
/// and for any number of ranks, and is that of one process with the algorithm lloyd; labels are those of the rank's own
/// points. docs/cluster.md has an example on MPI.
typedef struct km_communicator {
    int64_t rank; ///< Which one this is, 0..size - 1.
    int64_t size; ///< Ranks, at least 1.
    /// Ranks on this machine, this one among them, which share its processors and memory. 0 means 1.
    int64_t local_size;
    /// Adds `values`, `count` of them, element by element over all ranks; each rank has the sums in their place then.
    /// The order may be any: sums are exact. Called on every rank, in the same order with the same counts, by the
    /// thread that called km_fit. Returns 0; anything else: a rank is lost, and this one's fit ends with KM_ERROR_IO.
    int (*sum)(void *user, double *values, int64_t count);
    /// This rank's fit has failed alone, for this reason: what makes the others' `sum` return, or ends them.
    void (*fail)(void *user, const char *sentence);
    void *user; ///< Handed to all three.
    /// Whether a rank has failed: asked while a GPU works on what all ranks join there. NULL: `fail` ends them.
    int (*is_lost)(void *user);
} km_communicator;

/// Points of a share come in multiples of so many.
enum { KM_SHARE_POINTS = 65536 };

/// The share of `rank` of n points that `size` ranks divide evenly.
KM_API void km_share_of(int64_t *first, int64_t *count, int64_t n, int64_t rank, int64_t size);

/// How a fit goes.
typedef struct km_fit_params {
    /// Several GPUs of this machine, by their CUDA ordinals, all different: points are shared out among them by chunk,
    /// and the result has the bits of one of them with the design tensor, which they take. The first is the only one,
    /// and takes any design, where a pass is so short that a second one would cost more than it saves; a warning says
    /// so. In the place of `device`. Default NULL.
    const int *devices;
    int64_t devices_count; ///< Of `devices`; 0 and 1 mean no more than `device`. Default 0.
    /// What each of them but the first takes until it can be used: fewer are used where the whole fit is done sooner
    /// so, as the cost model sees it, and a warning says so. Default 0: they are open, or to be used in any case.
    double devices_open_ms;
    int device;       ///< CUDA ordinal, KM_HOST or KM_DEVICE_AUTO; the spec's target, when it says cpu or
                      ///< cuda, wins over AUTO. AUTO: the GPU where there is one, but the CPU where that is
                      ///< estimated to take less time (km_plan_fit_time) and neither tuning,
                      ///< source_text nor compiler is given. Default KM_DEVICE_AUTO.
    int64_t max_iter; ///< Updates of a run, at least 1. Default 0: the spec's, 300 where it does not say.
    double tol;       ///< A run stops when the sum over its clusters of squared centroid shift is at
                      ///< most tol x the mean variance of the features; 0: when centroids no longer
                      ///< change. Default KM_TOL_SPEC: the spec's, 1e-4 where it does not say.
    int64_t changes_min; ///< Also stop when fewer labels than this change; needs 1 byte (2 or 4 above K =
                         ///< 256, 65,536) per point and run of a pass. Default 0: off.
    km_init init;        ///< Default KM_INIT_PLUSPLUS.
    /// KM_INIT_GIVEN: init_count x d in original units: max(K) rows, of which each K takes its first K; or the rows
    /// of every K in ascending order. Means one restart. Default NULL.
    const double *init_rows;
    int64_t init_count; ///< Rows of init_rows. Default 0.
    km_scale scale;     ///< Default KM_SCALE_NONE.
    /// Refinement after the sweep: each K is also started from the models of its neighbours in the list, and
    /// from its own with a centroid moved; what is better is kept. KM_REFINE_AUTO: up to a fifth of the sweep's
    /// work, more on small tables; 0: none, so that a K's model does not depend on the list; N: at most N
    /// passes, and what it takes that no K is worse than the one before it. Default KM_REFINE_AUTO: the spec's;
    /// with given initial centroids none.
    int64_t refine;
    uint64_t seed;          ///< Of all random draws (counter-based). Default 0.
    km_criterion criterion; ///< Decides. Default KM_CRITERION_AUTO.
    /// Bit (uint64_t)1 << c for each criterion c that is wanted beyond those of the finishing pass
    /// (km_criterion_needs); `criterion` is always computed. Default 0.
    uint64_t criteria;
    int64_t gap_references;  ///< Reference sets of the gap, at least 2. Default 10; 0 means it too.
    km_gap_box gap_box;      ///< Default KM_GAP_UNIFORM.
    km_labels_wanted labels; ///< Which models' labels are returned. Default KM_LABELS_NONE.
    int64_t threads;         ///< CPU threads. Default 0: all cores. Never changes results.
    /// Bytes of the machine's memory that this process may hold, pages of mapped files not counted; what it holds when
    /// the fit begins is taken off. The plan keeps within it, or the fit is refused before it reads a point:
    /// KM_ERROR_MEMORY. Never changes results. Default 0: what is free.
    int64_t memory_max;
    /// Bytes of a GPU's memory that a fit may take, likewise; points that do not fit stay on the host.
    /// Default 0: what is free.
    int64_t device_memory_max;
    /// Folder of a disk: on a CPU, points, labels and whatever else grows with dense points lie in temporary files
    /// there where they do not fit into memory, and the algorithm is lloyd unless one is given. The files have no
    /// name; they are gone with the fit and its result. Never changes results. Default NULL: such a fit is refused.
    const char *scratch_dir;
    /// Other ranks, with which this one shares the points (docs/cluster.md): dense points on the CPU, by the algorithm
    /// lloyd. Criteria that take fits of their own are not to be had. Each rank has a `progress` of its own, or
    /// none: what one answers the next sum tells all, which stop behind it alike. Default NULL: the points are all
    /// here.
    const km_communicator *communicator;
    /// A file that keeps the runs of the sweep that are done, so that a fit which was ended goes on: written at most
    /// every checkpoint_s seconds, and when the sweep ends in any way. Runs that had begun begin again. It appears
    /// whole; of several ranks rank 0 writes it. One that cannot be written is a warning. Default NULL: none.
    const char *checkpoint;
    double checkpoint_s; ///< Default 300.
    /// A checkpoint of the same fit, of this library on the same kind of device, to go on from; the number of threads
    /// and ranks may be another. The result is that of a fit that was never ended, to the last bit. KM_ERROR_DATA: it
    /// is no whole checkpoint, or that of other points or parameters. Default NULL.
    const char *resume;
    const char *cache_dir;   ///< See km_module_params. Default NULL.
    int64_t cache_bytes_max; ///< See km_module_params. Default 1 GiB; 0 means it too.
    /// What is still being compiled for a GPU into `cache_dir` when the fit is done. 0: it goes on, on a thread
    /// of the library, and a process that ends waits for it. Else its text is kept there for km_cache_finish, no
    /// further part of it is begun, and a process may end by _exit, which waits for none. Default 0.
    int32_t leaves_compile;
    const char *compiler; ///< See km_module_params. Default NULL.
    /// Use this (hand-edited) text instead of what the plan emits, with the plan that its head names: it must
    /// be for this shape and device. Default NULL.
    const char *source_text;
    const char *tuning;      ///< Text of a tuning table that the user named. Default NULL.
    const char *tuning_name; ///< Its path, for errors and reasons. Default NULL: "tuning table".
    /// Folder of the user's own tables: where `tuning` is NULL, that of the device is asked (km_tuning_read); what is
    /// wrong with it is a warning. Default NULL.
    const char *tuning_dir;
    int32_t untuned;        ///< No tuning table is asked, nor those of the library. Default 0.
    km_algorithm algorithm; ///< Default KM_ALGORITHM_AUTO: the spec's, else the planner's choice.
    const km_log *log;      ///< Default NULL, silent.
    /// Asked now and then by the thread that called km_fit, on a CPU also inside long passes, and while a compiler is
    /// waited for (km_module_params.stop); 0: go on.
    /// KM_FIT_STOP_WITH_RESULT: once the points are loaded and seeded, the pass that runs is done, then one more pass
    /// finishes the models that are there: the result has `interrupted` set. Before that, and with any other answer,
    /// it stops at once: KM_ERROR_INTERRUPTED. Default NULL.
    int (*progress)(void *user, const km_progress *progress);
    void *progress_user; ///< Handed to `progress`. Default NULL.
} km_fit_params;

/// An answer of km_fit_params.progress: end soon, with what was found.
enum { KM_FIT_STOP_WITH_RESULT = 2 };

/// Sets every field to its default. The struct owns nothing.
KM_API void km_fit_params_init(km_fit_params *params);

/// Walks the whole line: plan, emit, build, load, seed, sweep, refine, finish, score, select. The spec's features (0
/// or equal to the data's) and clusters (none: 2..min(20, n-1)) are completed from the data; Ks above n are dropped
/// with a warning. `params` NULL: the defaults. The result is the caller's: km_result_destroy. Any number of fits may
/// run at a time: no shared state but the cache folder and what km_memory_keep says. On a GPU a thread of the library
/// may still compile into the cache folder when it returns; a process that ends waits for that (leaves_compile). Any
/// status: KM_ERROR_USAGE (params), KM_ERROR_PLAN, KM_ERROR_SPEC (the named tuning table), KM_ERROR_COMPILE,
/// KM_ERROR_DEVICE, KM_ERROR_DATA (values, shapes), KM_ERROR_MEMORY (with the way out), KM_ERROR_IO (a file of the
/// data became shorter), KM_ERROR_INTERRUPTED.
KM_API km_status km_fit(km_result **out, const km_spec *spec, const km_data *data,
                        const km_fit_params *params, km_error *err);

/// The plan that km_fit would use for this spec and data, nothing run: what `--dry-run` prints. `plan` is
/// initialised, and the caller's to clear. That a compiler refuses a text or spills registers, so that the next
/// plan is taken, is known only where `cache_dir` has seen it. KM_ERROR_MEMORY where the fit needs more than is
/// free, as km_fit says it: `plan` is the one that needs least then. KM_ERROR_USAGE, KM_ERROR_PLAN, KM_ERROR_SPEC,
/// KM_ERROR_DEVICE and KM_ERROR_DATA (shapes) as km_fit.
KM_API km_status km_fit_plan(km_plan *plan, const km_spec *spec, const km_data *data,
                             const km_fit_params *params, km_error *err);

/// @}
KM_END
#endif

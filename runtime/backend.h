// SPDX-License-Identifier: MIT
// What a device must do for the sweep. One table of functions each for runtime/cpu and runtime/cuda; the
// sweep (runtime/sweep.c) is written once, on top of this, and never knows what is inside a pass.
//
// Words. A *run* is one K and one restart. A *slot* is a run's place in a pass; it belongs to one K, while runs of
// that K come and go. Slots are numbered restart * ks_count + k_index, where restart
// counts the concurrent restarts (plan number `concurrent_restarts`) and k_index the spec's list of K. The *clustered
// space* is (x - centre) * factor rounded to the plan's type; every centroid here lies in it and its doubles hold
// values of the plan's type exactly. The factor holds a power of two that is the same for all features and brings
// the largest coordinate between 1/2 and 1; what leaves km_fit is divided by it again.
#ifndef KM_RUNTIME_BACKEND_H
#define KM_RUNTIME_BACKEND_H
#include "../templates/both.h"
#include <kmgen/data.h>
#include <kmgen/kmgen.h>
#include <kmgen/module.h>
#include <kmgen/plan.h>
#include <kmgen/fit.h>

typedef struct km_backend km_backend;
typedef struct km_resident km_resident; // resident.h

// Machine code in memory.
typedef struct km_binary {
    const char *bytes;
    int64_t size;
} km_binary;

// A device as a backend opened it: CUDA context, compiler found, facts read. Thread-safe.
typedef struct km_device {
    const km_backend *backend;
    km_device_facts facts;
} km_device;

// Base of each backend's loaded kernels; the backend's struct starts with it. Immutable.
typedef struct km_kernels {
    km_device *device;           // not owned
    const km_plan *plan;         // owned by the module
    struct km_completion *whole; // of kernels_begin, until they are complete: how they become so; else NULL
} km_kernels;

// Asked by an engine between two passes, and before a step whose kernels it has not.
typedef struct km_completion {
    int (*is_ready)(void *user, int64_t passes);      // whether `complete` need not wait; passes so far
    km_status (*complete)(void *user, km_error *err); // by kernels_complete
    void *user;
} km_completion;

// Base of each backend's engine: the loaded points, slots, partial sums. Used by one thread at a time.
typedef struct km_engine {
    const km_backend *backend;
    const km_kernels *kernels;
    const km_plan *plan;
    int64_t n, d;
    // Points of all ranks, by which the whole outside of a backend counts them: of one process alone n.
    int64_t n_all;
    int64_t slots_count;
    // Long loops of load, seeding, passes, finish and silhouette ask it, and end with KM_ERROR_INTERRUPTED; of the
    // engine only its destruction may follow. The caller's; NULL, as the engine is made: nobody is asked.
    struct km_asking *asking;
    // Other ranks with the rest of the points (share.h); NULL: there are none. The caller's, as `asking`.
    struct km_share *share;
    // Where the metric is the cosine: of the clustered space, from which centroids of length 1 follow (unit.h).
    double *unit_centre; // d, freed with the engine; NULL: centroids are means
    double unit_factor;
} km_engine;

// What loading found; arrays of d doubles inside one allocation owned by the struct. Original units, weighted,
// in double over fixed chunks of 65,536 points added in index order.
typedef struct km_data_stats {
    double *mean, *variance, *minimum, *maximum; // variance divides by the total weight
    int64_t *entries; // d: points that have an entry in the feature, where points are CSR; else NULL
    double total_weight;
    // In the clustered space, of the values rounded to the plan's type:
    double total_square; // sum w |x|^2
    double
        typical_square; // |x|^2 of a typical point (the median of a sample): few points far out do not move it.
} km_data_stats;

km_status km_data_stats_alloc(km_data_stats *stats, int64_t d, km_error *err);
void km_data_stats_free(km_data_stats *stats);

typedef struct km_load_params {
    km_scale scale;      // How centre and factor follow from the statistics ...
    int transform_given; // ... unless they are given (predict): then they are inputs.
    double *centre;      // d, out or in.
    double *factor;      // d, out or in: of the scale, times 2^exponent.
    int exponent;        // Out; 0 where the transform is given.
    const km_log *log;
} km_load_params;

// Centre and factor from statistics (runtime/transform.c), and stats->typical_square: shared by the backends so
// that they agree. The centre is the mean rounded to a power-of-two lattice coarse enough that lattice-like data stay
// exact, or the median of a sample where values far out draw the mean away. KM_ERROR_DATA with row and column
// where the type cannot tell most values of a column apart, where squares do not fit a double, and where values that a
// given transform makes do not fit the type.
km_status km_transform_choose(km_load_params *params, km_data_stats *stats, const km_data *data, km_type type,
                              km_error *err);

// When runs stop; the same for all runs of a fit.
typedef struct km_stop {
    double shift_max;    // Stop when the sum of squared centroid shifts is <= this (tol x mean variance).
    int64_t changes_min; // Stop when fewer labels change; 0: not used.
    int64_t max_iter;
    int64_t
        stopped_min; // `run_passes` may go on until so many slots are EMPTY or DONE; 0 or 1: the first. Never changes
                     // results: a backend that stops at no cost may ignore it.
} km_stop;

// One model to finish: in: k and centroids; out: everything else (k entries each, allocated by the caller). d1 and d2
// are the distances to the nearest and second-nearest centroid. Labels, and with them counts, are bitwise the same on
// every backend: those of the squared distances acc = fma(t, t, acc) over features in index order, t = x - c in
// double, both being the stored values of the clustered space; ties go to the lowest index. sse is summed in double,
// from differences in double. What only criteria use, distance and margin, may be computed from d1 and d2 in the
// plan's type: off by at most (d + 8) 2^-24 of the distance, or of the weight, where that is float. Sums run over
// fixed chunks of 65,536 points, chunks in index order; inside a chunk each backend has an order of its own, which
// threads do not change. Pieces may be smaller than a chunk where each backend adds them in index order.
// Points that lie as CSR: dot = fma(x, c, dot) over the row's nonzeros in index order, score = dot - |c|^2 / 2 with
// |c|^2 = fma(c, c, ...) over features in index order; the label is that of the largest score, the lowest index among
// equals, and the squared distance max(0, |x|^2 - 2 score), |x|^2 = fma(x, x, ...) over the nonzeros.
typedef struct km_finish_model {
    int64_t k;
    const double *centroids; // k x d
    int64_t *counts;         // points
    double *weights;         // sum w
    double *sse;             // sum w d1^2
    double *distance;        // sum w d1; where there are `means`, of the distances to the label's row of them
    double *margin;          // sum w (d2 - d1) / d2, 0 where d2 = 0; 0 for k = 1
    int32_t *labels;         // n, or NULL
    const double *means;     // in: k x d, or NULL
    double *sums;            // k x d, or NULL: sum w x of the points of each label, in double
    int64_t
        keep; // in: 1, 2, ...: the backend may keep the labels under this number, as long as there is memory, until
              // `silhouette` is asked for these centroids; 0: it does not
} km_finish_model;

// One model whose silhouette is wanted: in: all but `sum`. Labels are km_finish_model's of `centroids`. The mean
// squared distance of a point x to the points of cluster j is |x - m_j|^2 + SSE_j / n_j about their mean m_j; to the
// other points of its own cluster n_j / (n_j - 1) times that: a. b is the least of the other clusters'. The silhouette
// of x is (b - a) / max(a, b); 0 where n_j is at most 1, or both are 0. Clusters without weight are left out; at least
// two have some. Squared distances may have the plan's type: where that is float, `sum` is off by at most (d + 8) 2^-22
// of the total weight; labels that no float can tell apart are resolved in double. Sums are added in double, in an
// order that threads do not change.
typedef struct km_silhouette_model {
    int64_t k;
    const double *centroids; // k x d
    const double *means;     // k x d: of the points of each cluster; NULL: the centroids
    const double *weights;   // k: n_j
    const double *sse;       // k: about the means
    double sum;              // sum of w times the silhouette
} km_silhouette_model;

enum { KM_MEMO_BYTES = 1024 }; // of a device, for compiler_recall

struct km_backend {
    const char *name; // "cpu", "cuda"

    // Device and modules ----------------------------------------------------------------------------------
    int (*device_count)(void);
    km_status (*device_open)(km_device **out, int ordinal, const char *compiler, const km_log *log,
                             km_error *err);
    // The same for compiling alone, which is faster; NULL: device_open is.
    km_status (*compiler_open)(km_device **out, int ordinal, const char *compiler, const km_log *log,
                               km_error *err);
    // The same before there is a driver, from what compiler_memo left of such a device. It may be another one by now:
    // nothing but the cache may depend on it. KM_ERROR_DEVICE: the memo is of another version, or there is no compiler.
    km_status (*compiler_recall)(km_device **out, int ordinal, const char *compiler, const void *memo,
                                 int64_t size);
    // Writes KM_MEMO_BYTES at most, and returns how many.
    int64_t (*compiler_memo)(void *memo, const km_device *device);
    void (*device_close)(km_device **device);
    // The compiler, for people: "nvrtc 13.0", "/usr/bin/cc".
    void (*compiler_name)(char *text, int64_t size, km_device *device);
    // What identifies compiler and options in the cache key, e.g. "nvrtc 13.0 sm_90 -O3 ...".
    void (*compiler_id)(char *text, int64_t size, km_device *device, const km_plan *plan);
    // Compiles source_path to binary_path; everything the compiler says goes to log_path. The folder is safe
    // (runtime/cache.h); the binary's name is new. `asking`: KM_ERROR_INTERRUPTED where it stops, with no process left.
    km_status (*compile)(km_device *device, const km_source *source, const char *source_path,
                         const char *binary_path, const char *log_path, struct km_asking *asking,
                         km_error *err);
    // The machine code of a part of a text that came with the library, and what the compiler said of it, both the
    // caller's. Returns whether it is there. NULL: nothing came.
    int (*prebuilt)(char **binary, int64_t *size, char **log, const km_device *device, const char *text,
                    int64_t text_size);
    // Milliseconds to read so many bytes of the device's memory once, the least of `times`.
    km_status (*read)(km_device *device, double *ms, int64_t bytes, int64_t threads, int times,
                      km_error *err);
    // Points that lie on the device, the caller's (resident.h): opened when what `stream` holds is done; NULL: all
    // memory of this backend is the host's. `ordinal` KM_DEVICE_AUTO: the device that
    // it lies on. The caller of `open` fills the rest of the struct's base.
    km_status (*resident_open)(km_resident **out, int ordinal, const void *address, void *stream,
                               km_error *err);
    void (*resident_close)(km_resident **resident);
    // Copies `count` pieces of piece_bytes to the host, one after another, piece i from row rows[i] on. Thread-safe.
    km_status (*resident_read)(void *out, const km_resident *resident, const int64_t *rows, int64_t count,
                               int64_t row_bytes, int64_t piece_bytes, km_error *err);
    // Of the pass's kernels, the bytes of registers that the one which spills most spills, as `compile` left it in the
    // log, and its name or ""; and the registers of a thread of the one that has most. NULL: the compilers of this
    // backend do not say.
    int64_t (*spills)(char *kernel, int64_t size, int64_t *registers, const km_source *source,
                      const char *log);
    // Loads binaries from memory, of the parts of one text (gen/source.h): no file that could have changed since it was
    // checked. None: the design that needs none (prebuilt).
    km_status (*kernels_load)(km_kernels **out, km_device *device, const km_plan *plan,
                              const km_binary *binaries, int64_t count, km_error *err);
    // The same, without kernels that are still being compiled, but with a starting pass (km_source_starter) as the last
    // of the binaries; then, once, those that were missing. Without the plan's own pass among them the starting pass
    // stays. NULL: no design of this backend has one.
    km_status (*kernels_begin)(km_kernels **out, km_device *device, const km_plan *plan,
                               const km_binary *binaries, int64_t count, km_error *err);
    km_status (*kernels_complete)(km_kernels *kernels, const km_binary *binaries, int64_t count,
                                  km_error *err);
    void (*kernels_unload)(km_kernels **kernels);

    // Engine ----------------------------------------------------------------------------------------------
    km_status (*engine_create)(km_engine **out, const km_kernels *kernels, int64_t threads, const km_log *log,
                               km_error *err);
    void (*engine_destroy)(km_engine **engine);
    // In place of engine_create, where the backend can copy points to its device before it has kernels (NULL: it
    // cannot): `fetch`, which may return while the last points are still being copied; `equip`; then `load` of the
    // same points by a plan of that type.
    km_status (*engine_fetch)(km_engine **out, km_device *device, const km_data *data, km_type type,
                              int64_t threads, const km_log *log, km_error *err);
    km_status (*engine_equip)(km_engine *engine, const km_kernels *kernels, km_error *err);
    // Loads the points: statistics, refusal of NaN and infinity with row and column, centring, scaling,
    // layout. KM_ERROR_DATA, KM_ERROR_MEMORY.
    km_status (*load)(km_engine *engine, km_data_stats *stats, const km_data *data, km_load_params *params,
                      km_error *err);
    // Greedy k-means++ chains (runtime/seed.h says exactly which): chain r = restart first_restart + r, picks
    // indices[r * picks + p]. Counter-based draws: the same picks for any threads, grid or order.
    km_status (*seed_plusplus)(km_engine *engine, int64_t *indices, int64_t first_restart,
                               int64_t chains_count, int64_t picks, uint64_t seed,
                               int (*progress)(void *user, int64_t picks_done), void *progress_user,
                               km_error *err);
    // Rows of the clustered space: out is count x d.
    km_status (*rows)(km_engine *engine, double *out, const int64_t *indices, int64_t count, km_error *err);
    // Starts a run in a slot: its first centroids (k x d). The slot is RUNNING with 0 iterations.
    km_status (*slot_start)(km_engine *engine, int64_t slot, const double *centroids, km_error *err);
    // Passes and updates until a slot that was running becomes EMPTY or DONE (more of them: km_stop's stopped_min), or
    // `passes_max` passes are done.
    // An update sets each centroid to the mean of its points; a cluster without points keeps its centroid and
    // makes the slot EMPTY, unless `relocate` found nothing to move. states[slots_count] and *passes are out.
    // A run stops as km_stop says (RUNNING -> LAST; with shift exactly 0 the pass just done was the last). Where
    // the last pass leaves a cluster empty the slot is EMPTY too, not DONE: it goes on after `relocate`, beyond
    // max_iter if it must, so that no run is reported with an empty cluster that could have had points.
    km_status (*run_passes)(km_engine *engine, km_slot_state *states, int64_t *passes, const km_stop *stop,
                            int64_t passes_max, km_error *err);
    // Gives each empty cluster of the slot the point farthest from its own centroid, as the last pass had it, the next
    // for the next (largest w > 0 squared distance, computed as in km_finish_model; ties to the lowest index; points
    // with the same coordinates are taken once; a point whose squared distance is no more than km_mean_rounding2 of
    // the mean |x|^2 already lies on its centroid and is not taken). Where the pass was followed by an update, the
    // points leave the means of their old clusters (relocation.h; not with the cosine), so it is one update and no
    // iteration of its own. The slot is RUNNING again. *moved counts clusters that got a point; the rest stay empty
    // and no longer make the slot EMPTY. Neither do, once max_iter is reached, those that got one: the kernels may not
    // tell it from its old centroid, and a run must end.
    km_status (*relocate)(km_engine *engine, int64_t slot, int64_t *moved, km_error *err);
    // The means (k x d) of the clusters of a slot that is DONE, by its last pass; a cluster without weight has its
    // centroid. Before slot_read. NULL: this backend does not keep the sums.
    void (*slot_means)(const km_engine *engine, int64_t slot, double *means);
    // Centroids (k x d), weights (k) of a slot; the slot becomes IDLE.
    km_status (*slot_read)(km_engine *engine, int64_t slot, double *centroids, double *weights,
                           km_error *err);
    // The last pass: all models in one read.
    km_status (*finish)(km_engine *engine, km_finish_model *models, int64_t count, km_error *err);
    // Silhouettes in the squared Euclidean form: all models in one read. No labels are kept after it.
    km_status (*silhouette)(km_engine *engine, km_silhouette_model *models, int64_t count, km_error *err);
    // What the passes so far did. NULL: this backend does not count.
    void (*counters)(const km_engine *engine, km_counters *out);
};

extern const km_backend km_backend_cpu;
extern const km_backend km_backend_cuda;

#endif

// SPDX-License-Identifier: MIT
// Inside the CPU backend.
#ifndef KM_RUNTIME_CPU_H
#define KM_RUNTIME_CPU_H
#include "../../base/size.h"
#include "../../base/error.h"
#include "../../templates/cpu/abi.h"
#include "../asking.h"
#include "../backend.h"
#include "../pages.h"
#include "../seed.h"
#include <stdatomic.h>

// A compiler that was found: its path, and what tells it from another without running it.
typedef struct cpu_compiler {
    char path[4096];
    int64_t bytes, changed_s;
} cpu_compiler;

typedef struct cpu_device {
    km_device base;
    cpu_compiler compiler; // path "" when there is none
} cpu_device;

typedef struct cpu_module {
    km_kernels base;
    void *library; // dlopen's handle; NULL for prebuilt
    int image;     // the memory file that it was loaded from, open as long as it is loaded; -1: none
    const km_cpu_kernels *pass; // the module's kernels
} cpu_module;

// Whether code for an instruction set runs on a machine that has `have` (both km_isa).
int km_cpu_isa_runs(int32_t isa, int32_t have);
// Whether kernels are for these features, type and Ks.
int km_cpu_kernels_suit(const km_cpu_kernels *kernels, const km_spec *spec);
// The library's own kernels for a plan's spec on a machine that has `have`: there are some for each.
const km_cpu_kernels *km_cpu_prebuilt_lanes(const km_spec *spec, int32_t have);
// km_cpu_kernels.finish for floats whose squares float cannot hold: double throughout, any d and soa_points.
void km_cpu_finish_double(const km_cpu_finish *finish);

typedef struct cpu_slot {
    int64_t k, k_index;
    km_slot_state state;
    int64_t changed;
    int64_t relocatable_count; // empty clusters that relocation may give a point
    int32_t mode;              // of the next pass: KM_CPU_FIRST ...
    int32_t are_means;         // the centroids are the means of their points
    int32_t labels_bytes;
    int32_t sums_by_owner; // too many clusters for partial sums: each thread adds the points of its clusters
    double *centroids;     // k x d
    double *before;        // k x d: those of the last pass, where it left a cluster empty
    double *totals;        // k rows of KM_CPU_PITCH(d)
    double *digits;        // of the totals: KM_TOTAL_DIGITS x k rows (totals.c); NULL: sums_by_owner
    void *table;           // reals: KM_CPU_TABLE_ROWS(k) x (d + 1)
    void *labels;          // whole SoA groups
    int32_t *int16_table;  // the same for int16 scores; NULL: the engine has no int16_scales
    float *columns;        // the table by feature, where there is an int16_table
    int64_t margin;        // of km_cpu_slot; -1: int16 is too coarse
    int64_t resolved;      // of the last pass: ambiguous points, which were scored again as floats
    int32_t is_int16_coarse; // so many were ambiguous that float scores alone are faster
    uint8_t *may_stay_empty; // k: relocation found no point for this cluster
} cpu_slot;

typedef struct cpu_layout cpu_layout; // layout.h

typedef struct cpu_counts {
    int64_t changed, resolved; // of a slot: km_cpu_slot has the same
} cpu_counts;

// What one or several threads have collected in a pass (totals.c).
typedef struct cpu_accumulator {
    atomic_flag is_taken;
    double *digits;     // of active slots one after the other: KM_TOTAL_DIGITS x k rows
    cpu_counts *counts; // of each slot
} cpu_accumulator;

typedef struct cpu_engine {
    km_engine base;
    const cpu_layout *layout; // how the points lie, and its functions
    km_cpu_kernels kernels;   // the module's
    int64_t threads;
    int64_t soa_points, pitch; // points of an SoA group; KM_CPU_PITCH(d)
    int moves_any;             // moving points is cheaper than adding all, however many change
    int64_t real_bytes;
    int64_t chunks_count;
    uint8_t *points; // whole SoA groups
    int64_t points_bytes;
    const double *weights; // the data's own, or NULL
    double total_weight, total_square;
    double typical_square; // of a typical point (km_data_stats)
    double square_min;     // squared distances up to this may be the rounding of a typical point's centroid
    float *int16_scales;   // d; NULL: scores are the plan's type
    double norm_max;       // no point's |x| is above; where there are int16_scales
    double largest_square; // no point's |x|^2 is above
    cpu_slot *slots;
    uint8_t *labels;    // of all slots
    double *partials;   // partial sums: of each thread sums_count
    int64_t sums_count; // of all slots whose sums are not owned
    km_cpu_slot *lists; // of each thread slots_count
    int64_t accumulators_count;
    cpu_accumulator *accumulators; // all zeros between passes
    double *rounders;              // of totals: KM_TOTAL_DIGITS x pitch (totals.c)
    double *exchange;              // what ranks join after a pass, with a share; NULL (totals.c)
    uint8_t *guests;               // reals, SoA groups: points of any rank, which count from n on; NULL
    int64_t guests_count;
    const km_log *log;
    km_counters counters;
    struct cpu_tiling *tiling; // tiles.c; NULL: passes are lloyd's
    struct cpu_bounds *bounds; // bounds.c; NULL unless the algorithm is hamerly or elkan
    struct cpu_sparse *sparse; // sparse.c: the points, where they lie as CSR; then there are no `points` here
    double rounding2;          // a squared distance up to this part of the point's |x|^2 may be rounding
    int32_t wants_labels;      // the sweep asks how many labels change
} cpu_engine;

static inline int64_t cpu_chunk_points(const cpu_engine *engine, int64_t chunk) {
    return km_min(KM_CHUNK_POINTS, engine->base.n - chunk * KM_CHUNK_POINTS);
}

static inline const uint8_t *cpu_chunk_at(const cpu_engine *engine, int64_t chunk) {
    return engine->points + chunk * KM_CHUNK_POINTS * engine->base.d * engine->real_bytes;
}

static inline const double *cpu_weights_at(const cpu_engine *engine, int64_t point) {
    return engine->weights ? engine->weights + point : NULL;
}

static inline int64_t cpu_label_at(const cpu_slot *slot, int64_t i) {
    if (slot->labels_bytes == 1) return ((const uint8_t *)slot->labels)[i];
    if (slot->labels_bytes == 2) return ((const uint16_t *)slot->labels)[i];
    return ((const int32_t *)slot->labels)[i];
}

// Threads worth starting for this many chunks.
static inline int cpu_threads_for(const cpu_engine *engine, int64_t chunks) {
    return (int)km_min(engine->threads, chunks > 0 ? chunks : 1);
}

// Guests (guests.c): points that other ranks may have, which kernels see beside the engine's own. Takes the points
// `indices` of all ranks, on all of them: guest i is point n + i here.
km_status km_cpu_guests_take(cpu_engine *engine, const int64_t *indices, int64_t count, km_error *err);
// The same of rows that are at hand, count x d.
km_status km_cpu_guests_put(cpu_engine *engine, const double *rows, int64_t count, km_error *err);
void km_cpu_guests_free(cpu_engine *engine);

// State (state.c).
// Row of the clustered space, d doubles.
void km_cpu_row(double *out, const cpu_engine *engine, int64_t point);
// km_cpu_slot's table from k x d centroids, without the rows behind the last.
void km_cpu_table(void *table, const double *centroids, int64_t k, int64_t d, km_type type);
// All tables of a slot from its centroids.
void km_cpu_slot_tables(const cpu_engine *engine, cpu_slot *slot);
// The rows behind the last centroid, which a pass may read.
void km_cpu_table_end(void *table, int64_t k, int64_t d, km_type type);

// Totals (totals.c). The engine's accumulators, as many as accumulators_count says, and the units of totals, which the
// statistics of the points decide.
km_status km_cpu_accumulators_create(cpu_engine *engine, km_error *err);
void km_cpu_accumulators_free(cpu_engine *engine);
km_status km_cpu_units_create(cpu_engine *engine, const km_data_stats *stats, const km_load_params *params,
                              km_error *err);
// Adds what a piece of points left in the list of active slots, and sets its partial sums to zero again.
void km_cpu_totals_collect(cpu_engine *engine, cpu_accumulator *to, const km_cpu_slot *list);
// With a share: joins what the accumulators have with that of all ranks.
km_status km_cpu_totals_exchange(cpu_engine *engine, km_error *err);
// Makes the totals of an active slot of what all accumulators have, which are zeros then.
void km_cpu_totals_join(cpu_engine *engine, int64_t index);
// A cluster that lost its last point that weighs starts again from exact zeros.
void km_cpu_totals_tidy(const cpu_engine *engine, cpu_slot *slot);

// After a pass (engine.c).
// Updates an active slot. Non-zero when it stopped.
int km_cpu_slot_step(const cpu_engine *engine, cpu_slot *slot, const km_stop *stop);

// int16 scores (int16_scores.c). Scales of points of which no feature f is above largest[f] in magnitude. Returns 0
// where there are none.
int km_cpu_int16_scales(float *scales, const double *largest, int64_t d);
// km_cpu_slot's int16_table from its table. Returns its `margin`, or -1 where 16 bits are too coarse. No point's |x| is
// above `norm_max`.
int64_t km_cpu_int16_table(int32_t *int16_table, const float *table, int64_t k, int64_t d,
                           const float *scales, double norm_max);
// A table of floats by feature: km_cpu_slot's `columns`.
void km_cpu_table_columns(float *columns, const float *table, int64_t k, int64_t d);
// The engine's int16_scales, where kernels, plan and machine have int16 scores.
km_status km_cpu_int16_create(cpu_engine *engine, const double *largest, km_error *err);
int km_cpu_wants_int16_scores(const cpu_engine *engine);
// The largest |x|^2 of `count` SoA groups of 64 points.
float km_cpu_largest_square(const float *soa_groups, int64_t count, int64_t d);

// Device and modules (device.c).
km_status km_cpu_device_open(km_device **out, int ordinal, const char *compiler, const km_log *log,
                             km_error *err);
void km_cpu_device_close(km_device **device);
km_status km_cpu_read(km_device *device, double *ms, int64_t bytes, int64_t threads, int times,
                      km_error *err);
void km_cpu_compiler_name(char *text, int64_t size, km_device *device);
void km_cpu_compiler_id(char *text, int64_t size, km_device *device, const km_plan *plan);
km_status km_cpu_compile(km_device *device, const km_source *source, const char *source_path,
                         const char *binary_path, const char *log_path, km_asking *asking, km_error *err);
km_status km_cpu_kernels_load(km_kernels **out, km_device *device, const km_plan *plan,
                              const km_binary *binaries, int64_t count, km_error *err);
void km_cpu_kernels_unload(km_kernels **kernels);

// Steps of the engine, one file each (seed.c, finish.c; the rest in engine.c). What depends on how points lie is a
// row of functions (layout.h).
km_status km_cpu_seed_plusplus(km_engine *base, int64_t *indices, int64_t first_restart, int64_t chains_count,
                               int64_t picks, uint64_t seed, int (*progress)(void *user, int64_t picks_done),
                               void *progress_user, km_error *err);
km_status km_cpu_finish_models(km_engine *base, km_finish_model *models, int64_t count, km_error *err);
km_status km_cpu_relocate(km_engine *base, int64_t slot_index, int64_t *moved, km_error *err);

// Dense points: their load (load.c) and silhouette (silhouette.c).
km_status km_cpu_dense_load(cpu_engine *engine, km_data_stats *stats, const km_data *data,
                            km_load_params *params, km_error *err);
km_status km_cpu_dense_silhouette(cpu_engine *engine, km_silhouette_model *models, int64_t count,
                                  km_error *err);

// The algorithm tiles (tiles.c). The points are sorted before the first pass; `params` has centre and factor.
km_status km_cpu_tiling_create(cpu_engine *engine, const km_data *data, const km_load_params *params,
                               km_error *err);
void km_cpu_tiling_destroy(cpu_engine *engine);
// Sorted points first .. first + points - 1 (`first` a multiple of 16 supertiles) for the listed slots, as
// km_cpu_kernels.pass does it.
void km_cpu_tiling_chunk(cpu_engine *engine, int64_t first, int64_t points, km_cpu_slot *list, int64_t count);
// After a pass: adds its counts to the engine's. Where the planner chose tiles and they do not pay, they are destroyed,
// and the next pass is lloyd's first.
void km_cpu_tiling_collect(cpu_engine *engine);
// Before the first pass: fills the tiles. Where the planner chose tiles, a sample is filled first, and its boxes are
// tested against the runs' centroids. Tiles that would not pay are destroyed.
km_status km_cpu_tiling_probe(cpu_engine *engine, km_error *err);

// The algorithms hamerly and elkan (bounds.c).
// The bounds that a slot's last pass left, for programs that check them (bench/cpu_bounds.c): of a point with label j
// upper + path[j] and slack + upper - others[j], and elkan's lower[row * k + j] - path[j], about these centroids.
typedef struct cpu_bounds_view {
    const float *upper, *slack, *lower; // lower: NULL but for elkan
    const double *path, *others, *centroids;
} cpu_bounds_view;
// 0: it left none.
int km_cpu_bounds_view(cpu_bounds_view *out, const cpu_engine *engine, int64_t slot);
int64_t km_cpu_bounds_lower_row(int64_t point);
km_status km_cpu_bounds_create(cpu_engine *engine, km_error *err);
void km_cpu_bounds_destroy(cpu_engine *engine);
km_status km_cpu_bounds_prepare(cpu_engine *engine, km_error *err); // before each pass
// A chunk whose first point is `first`, for all active slots, as km_cpu_kernels.pass does it.
void km_cpu_bounds_chunk(cpu_engine *engine, int64_t first, const km_cpu_chunk *work);
void km_cpu_bounds_collect(cpu_engine *engine); // after each pass: adds its counts to the engine's

#endif

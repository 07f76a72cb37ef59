// SPDX-License-Identifier: MIT
// The CUDA backend: what its files share. device.c opens devices and loads kernels;
// copy.c copies; state.c has the state of slots; pass.c launches a pass; engine.c has the loop; load.c, seed.c,
// relocate.c and finish.c are the steps around the pass. The kernels are the emitted text of templates/cuda; abi.h
// and steps.h there are compiled by both sides.
#ifndef KM_RUNTIME_CUDA_CUDA_H
#define KM_RUNTIME_CUDA_CUDA_H
#include "../../base/size.h"
#include "../../gen/memory.h"
#include "../../gen/source.h"
#include "../../gen/cuda/tiles.h"
#include "../../templates/both.h"
#include "../../templates/cuda/abi.h"
#include "../../templates/cuda/starter.h"
#include "../../templates/cuda/steps.h"
#include "../../templates/cuda/subsets.h"
#include "../../templates/cuda/tiles.h"
#include "../../templates/cuda/bounds.h"
#include "../../templates/cuda/sparse/points.h"
#include "../backend.h"
#include "driver.h"

enum {
    KM_STAGING_COUNT = 4,       // pinned buffers that copies rotate through
    KM_STAGING_BYTES = 8 << 20, // each, at most
    KM_PLAIN_BYTES = 4 << 20, // copies up to this are the driver's: that is faster than to pin buffers first
    KM_LABEL_BYTES = 4,       // of a label that the caller gets
    KM_RECORDS_AT = 256,      // of the slots' records behind km_loop in `state`
    KM_FAR_PAGE = 2 << 20,    // of memory that is partly on the host: more than any device's granularity
    KM_GUEST_ROWS = 224 // rows behind the points and their padding, of other ranks' points while seeding
};

#define KM_FINISH_BYTES_MAX ((int64_t)1 << 31)

// Every kernel of templates/cuda/steps/steps.cu that is called by name, looked up when a module is loaded: those that
// the steps of CSR points (templates/cuda/sparse/steps.cu) have as well, the others, and those of CSR points alone.
#define KM_STEP_KERNELS(X)                                                                                   \
    X(load_weights)                                                                                          \
    X(load_add)                                                                                              \
    X(rows)                                                                                                  \
    X(seed_draw)                                                                                             \
    X(seed_pass)                                                                                             \
    X(update)                                                                                                \
    X(assign)                                                                                                \
    X(finish_chunks)                                                                                         \
    X(finish_add)                                                                                            \
    X(label_sums)                                                                                            \
    X(farthest_subchunk)                                                                                     \
    X(farthest_pick)
#define KM_DENSE_KERNELS(X)                                                                                  \
    X(load_draw)                                                                                             \
    X(load_sums_f32)                                                                                         \
    X(load_sums_f64)                                                                                         \
    X(load_reduce)                                                                                           \
    X(seed_sums)                                                                                             \
    X(join_blocks)                                                                                           \
    X(load_transform_f32)                                                                                    \
    X(load_transform_f64)                                                                                    \
    X(farthest_squares)                                                                                      \
    X(window_sums)
#define KM_SPARSE_KERNELS(X)                                                                                 \
    X(columns)                                                                                               \
    X(halves)                                                                                                \
    X(seed_columns)

// Those of the algorithm tiles (templates/cuda/tiles), in texts of plans that follow it.
#define KM_TILES_KERNELS(X)                                                                                  \
    X(tiles_keys)                                                                                            \
    X(tiles_count)                                                                                           \
    X(tiles_scan_sums)                                                                                       \
    X(tiles_scan_blocks)                                                                                     \
    X(tiles_scan)                                                                                            \
    X(tiles_move)                                                                                            \
    X(tiles_fill)                                                                                            \
    X(tiles_fill_supers)                                                                                     \
    X(tiles_shrink)                                                                                          \
    X(tiles_prefix)                                                                                          \
    X(tiles_prefix_add)                                                                                      \
    X(tiles_super_boxes)                                                                                     \
    X(tiles_boxes)                                                                                           \
    X(tiles_points)                                                                                          \
    X(tiles_dense)                                                                                           \
    X(tiles_totals)

// Those of the algorithm hamerly (templates/cuda/bounds), likewise.
#define KM_BOUNDS_KERNELS(X)                                                                                 \
    X(bounds_dense)                                                                                          \
    X(bounds_moves)                                                                                          \
    X(bounds_pairs)                                                                                          \
    X(bounds_rows)                                                                                           \
    X(bounds_list)                                                                                           \
    X(bounds_offsets)                                                                                        \
    X(bounds_candidates)                                                                                     \
    X(bounds_sort)                                                                                           \
    X(bounds_score)                                                                                          \
    X(bounds_resolve)                                                                                        \
    X(bounds_totals)                                                                                         \
    X(bounds_end)

// Those of a text for subsets of columns (templates/cuda/subsets), which has neither a pass nor steps; and the two of
// each pair of sizes.
#define KM_SUBSET_KERNELS(X)                                                                                 \
    X(subsets_start)                                                                                         \
    X(subsets_constants)                                                                                     \
    X(subsets_add)                                                                                           \
    X(subsets_add_doubles)                                                                                   \
    X(subsets_update)                                                                                        \
    X(subsets_columns)                                                                                       \
    X(subsets_rows)                                                                                          \
    X(subsets_permute)

typedef struct km_cuda_subset_pair {
    km_subsets_launch launch;
    km_cu_function pass, finish;
} km_cuda_subset_pair;

typedef struct km_cuda_device {
    km_device base;
    const km_driver *driver;
    km_nvrtc nvrtc;           // library NULL: not found ...
    char nvrtc_missing[1024]; // ... and why
    int driver_major;         // of the CUDA that its driver is for
    int ordinal;
    km_cu_device handle;
    km_cu_context context; // the primary one
} km_cuda_device;

typedef struct km_cuda_kernels {
    km_kernels base;
    km_cu_module modules[KM_SOURCE_PARTS_MAX + 1]; // of the parts; NULL behind the last
    int64_t modules_count;
    km_cu_module starter; // of them; NULL: the plan's own pass is there
    km_cu_function starter_histogram, starter_lattice, starter_pass, starter_totals, starter_update;
    km_cu_ptr starter_list;
#define KM_STEP_FIELD(name) km_cu_function name;
    KM_STEP_KERNELS(KM_STEP_FIELD)
    KM_DENSE_KERNELS(KM_STEP_FIELD)
    KM_SPARSE_KERNELS(KM_STEP_FIELD)
    KM_SUBSET_KERNELS(KM_STEP_FIELD)
    KM_STEP_FIELD(finish_few_clusters) // of few features
    KM_STEP_FIELD(silhouette)          // ... and of CSR points
    KM_STEP_FIELD(silhouette_labelled) // of few
    KM_STEP_FIELD(silhouette_searched)
    KM_STEP_FIELD(finish_tiles) // of many
    KM_STEP_FIELD(silhouette_tiles)
    KM_STEP_FIELD(seed_make_halves) // NULL where the text has none
    KM_STEP_FIELD(seed_pass_halves)
    KM_TILES_KERNELS(KM_STEP_FIELD)
    KM_BOUNDS_KERNELS(KM_STEP_FIELD)
#undef KM_STEP_FIELD
    km_pass_facts facts;
    km_pass_launch *launches;
    km_cu_function *functions; // of the launches
    km_cu_ptr
        constants[KM_CONSTANTS_MAX]; // of the symbol km_constants in each part that has it; 0 behind the last
    km_cuda_subset_pair *pairs;
    int64_t pairs_count;
} km_cuda_kernels;

// Device memory that grows when a step needs more and is freed with the engine.
typedef struct km_cuda_memory {
    km_cu_ptr address;
    int64_t bytes;
    int64_t near_bytes;      // of these on the device, where `far`
    struct km_cuda_far *far; // the rest is on the host; NULL: all are on the device
} km_cuda_memory;

// Windows of points that passes go through (windows.c).
typedef struct km_cuda_windows km_cuda_windows;

// Points from `first` on that are on the device at `points`.
typedef struct km_cuda_window {
    int64_t first, count;
    km_cu_ptr points;
} km_cuda_window;

// A model whose labels are kept (kept.c).
typedef struct km_cuda_kept {
    int64_t k;         // 0: none
    double *centroids; // k x d, from which the labels follow
} km_cuda_kept;

typedef struct km_cuda_engine {
    km_engine base;
    int has_no_pass; // only steps are run on these points (subsets_table.c): nothing is prepared for a pass
    int is_csr;      // the plan's points are: `points` begins with a km_sparse_table
    const km_cuda_device *device;
    const km_cuda_kernels *kernels;
    const km_driver *driver;
    const km_log *log;
    int64_t threads;    // of the host, for copies
    int64_t real_bytes; // of one element of the plan's type
    int64_t restarts, clusters_sum, subchunks_count, chunks_count;
    int64_t nonzeros; // of points in the layout CSR
    int64_t *offsets; // ks_count: first row of each K
    km_cu_stream stream;

    void *staging[KM_STAGING_COUNT]; // pinned, staging_bytes each, one allocation
    km_cu_event staged[KM_STAGING_COUNT];
    int64_t staging_bytes;
    km_cu_event sent[2]; // before and after the copy of the points
    double pinned_ms;    // the time to make the buffers, before that

    int prepared;           // KM_STAGE_LOAD has run on the points
    const km_data *fetched; // original points in `points`, or in `scratch`; NULL: none
    km_cuda_memory points, pass_weights, weights, subchunk_weights, box; // the data
    km_cuda_memory centroids, before, totals, slot_weights, part_sums, changes, labels, workspace;
    km_cuda_memory starter; // the workspace of the starting pass, and the list of K
    int64_t starter_passes; // done by it
    km_cuda_memory kept;    // labels of finished models, a byte each ...
    km_cuda_kept *kept_of;  // ... and of which models
    int64_t kept_count;     // how many there is memory for
    km_cuda_memory state;   // km_loop, a km_slot_record per slot, `active` per slot, `given_up` per cluster
    void *mirror;           // of `state`, pinned; the host's changes go to the device when passes are run
    km_cu_ptr report;       // the device's address of the report behind it
    void *tables; // of slot_weights and centroids, as the last passes left them; NULL: too large to keep
    int tables_fresh;
    unsigned char *starts;        // per slot: 1 while its first centroids are in `tables` only
    km_cuda_memory scratch, work; // of the steps, each within one call
    km_cuda_memory
        far_scratch;          // in the place of `scratch` for numbers of all points, where these are streamed
    km_cuda_windows *windows; // NULL: a pass reads points where they lie
    int64_t bytes_held, bytes_most;    // of device memory: now, and at most so far
    struct km_cuda_tiling *tiling;     // tiles.c; NULL: it is not used
    struct km_cuda_bounding *bounding; // bounds.c; likewise
    int skipping_dropped; // the plan's algorithm cannot serve these points, or does not pay: passes are lloyd's
    int labels_idle;      // the next pass need not leave labels, unless runs stop by their changes
    km_cu_ptr dense_active; // runs that the dense design has to do with, as `active`; 0: all
    km_counters counters;   // of what passes joined with other ranks
    void *nccl;             // by which they do it on the devices; NULL: the host does
    km_cuda_memory joined;  // what they add: [restarts][sum of K x (d + 1)] of 64 bits
    double total_square;
    double square_min;     // squared distances up to this are rounding of a typical point's centroid
    double rounding2;      // the same, relative to a point's own |x|^2
    double rounding_shift; // shifts up to this are the rounding of centroids
    double *fitting; // rows of centroids of which a relocation found that no point is away from all; NULL
    int64_t fitting_count;
} km_cuda_engine;

// device.c
int km_cuda_device_count(void);
// compiles_only: for km_cuda_compile alone, without a context.
km_status km_cuda_device_open(km_device **out, int ordinal, int compiles_only, const char *compiler,
                              const km_log *log, km_error *err);
// As compiler_recall and compiler_memo of a backend.
km_status km_cuda_compiler_recall(km_device **out, int ordinal, const char *compiler, const void *bytes,
                                  int64_t size);
int64_t km_cuda_compiler_memo(void *bytes, const km_device *base);
void km_cuda_device_close(km_device **base);
void km_cuda_compiler_name(char *text, int64_t size, km_device *base);
void km_cuda_compiler_id(char *text, int64_t size, km_device *base, const km_plan *plan);
km_status km_cuda_compile(km_device *base, const km_source *source, const char *source_path,
                          const char *binary_path, const char *log_path, struct km_asking *asking,
                          km_error *err);
km_status km_cuda_kernels_load(km_kernels **out, km_device *base, const km_plan *plan,
                               const km_binary *binaries, int64_t count, km_error *err);
km_status km_cuda_kernels_begin(km_kernels **out, km_device *base, const km_plan *plan,
                                const km_binary *binaries, int64_t count, km_error *err);
km_status km_cuda_kernels_complete(km_kernels *base, const km_binary *binaries, int64_t count, km_error *err);
void km_cuda_kernels_unload(km_kernels **base);
// Makes the device's context that of the calling thread, until km_cuda_leave.
km_status km_cuda_enter(const km_cuda_device *device, km_error *err);
void km_cuda_leave(const km_cuda_device *device);

// prebuilt.c
// As `prebuilt` of a backend.
int km_cuda_prebuilt(char **binary, int64_t *size, char **log, const km_device *base, const char *text,
                     int64_t text_size);

// read.c
km_status km_cuda_read(km_device *base, double *ms, int64_t bytes, int64_t threads, int times, km_error *err);

// resident.c
km_status km_cuda_resident_open(km_resident **out, int ordinal, const void *address, void *stream,
                                km_error *err);
void km_cuda_resident_close(km_resident **resident);
km_status km_cuda_resident_read(void *out, const km_resident *resident, const int64_t *rows, int64_t count,
                                int64_t row_bytes, int64_t piece_bytes, km_error *err);

// build_log.c
// What the compiler says of a kernel.
typedef struct km_kernel_report {
    char name[256];
    int registers;
    int64_t spilled_bytes; // stores and loads
} km_kernel_report;

// Reads on in the log up to the next kernel's registers; 0 at its end.
int km_nvrtc_next_kernel(km_kernel_report *report, const char **log);
// The table of launches holds the names of the pass's kernels as strings; the other steps' are the engine's.
int km_cuda_is_of_pass(const char *source, const char *kernel);
int64_t km_cuda_spills(char *kernel, int64_t size, int64_t *registers, const km_source *source,
                       const char *log);

// copy.c
km_status km_cuda_reserve(km_cuda_engine *engine, km_cuda_memory *memory, int64_t bytes, const char *what,
                          km_error *err);
void km_cuda_release(km_cuda_engine *engine, km_cuda_memory *memory);
// far.c: the same for tables that grow with the points. Where the plan streams, only the first near_bytes lie on the
// device.
km_status km_cuda_reserve_far(km_cuda_engine *engine, km_cuda_memory *memory, int64_t bytes,
                              int64_t near_bytes, const char *what, km_error *err);
void km_cuda_release_far(km_cuda_engine *engine, const km_cuda_memory *memory);
// Reserves `engine->work` for `count` tables of these sizes; at[i]: where table i begins, aligned.
km_status km_cuda_reserve_tables(km_cuda_engine *engine, km_cu_ptr *at, const int64_t *sizes, int count,
                                 const char *what, km_error *err);
// Scratch memory for one call of a step: `scratch`, or the workspace where the device has no more memory.
km_status km_cuda_scratch(km_cu_ptr *out, km_cuda_engine *engine, int64_t bytes, const char *what,
                          km_error *err);
// The same for numbers of all points.
km_status km_cuda_point_scratch(km_cu_ptr *out, km_cuda_engine *engine, int64_t bytes, const char *what,
                                km_error *err);
// Bytes that km_cuda_scratch gives without getting more memory.
int64_t km_cuda_scratch_bytes(const km_cuda_engine *engine);
// Pinned memory, not cleared.
km_status km_cuda_pinned_alloc(void **out, const km_cuda_engine *engine, int64_t bytes, km_error *err);
void km_cuda_pinned_free(const km_cuda_engine *engine, void *memory);
// Makes the pinned buffers for copies of so many bytes, if they are not there yet.
km_status km_cuda_pin(km_cuda_engine *engine, int64_t bytes, km_error *err);
// Fills `bytes` of host memory from `first` on; called from several threads at once.
typedef km_status (*km_cuda_fill)(void *out, const void *from, int64_t first, int64_t bytes, km_error *err);
// Copies through the pinned buffers: `fill` (NULL: plain memory at `from`) writes pieces of `piece_bytes` (0: any)
// to one buffer on several threads while the device copies another. After `upload` the last copies may still run,
// as after `put`.
km_status km_cuda_upload(km_cuda_engine *engine, km_cu_ptr to, const void *from, int64_t bytes,
                         int64_t piece_bytes, km_cuda_fill fill, km_error *err);
km_status km_cuda_download(km_cuda_engine *engine, void *to, km_cu_ptr from, int64_t bytes, km_error *err);
// Small copies. After `put` the host memory may be used again (the mirror: after the next `get` or wait).
km_status km_cuda_put(km_cuda_engine *engine, km_cu_ptr to, const void *from, int64_t bytes, km_error *err);
km_status km_cuda_get(const km_cuda_engine *engine, void *to, km_cu_ptr from, int64_t bytes, km_error *err);
km_status km_cuda_clear(km_cuda_engine *engine, km_cu_ptr to, int value, int64_t bytes, km_error *err);
km_status km_cuda_wait(km_cuda_engine *engine, km_error *err);
// Queues a kernel of KM_THREADS threads a block.
km_status km_cuda_launch(km_cuda_engine *engine, km_cu_function function, int64_t grid_x, int64_t grid_y,
                         void **arguments, km_error *err);

// `bytes` of the workspace, for use before a pass is prepared or after the last pass; 0: there are not so many.
km_cu_ptr km_cuda_borrow(km_cuda_engine *engine, int64_t bytes);

// An algorithm that skips distances: tiles.c, bounds.c. engine.c has the table of them.
typedef struct km_cuda_skipping {
    // Before passes, when the device has the state. Makes what it keeps, the first time. Where it cannot serve the
    // points, or does not pay, it sets skipping_dropped: passes are lloyd's.
    km_status (*begin)(km_cuda_engine *engine, km_error *err);
    // Whether the dense design has nothing to do in the next pass.
    int (*serves_all)(const km_cuda_engine *engine);
    // In place of the launches of a pass: the same totals.
    km_status (*pass)(km_cuda_engine *engine, km_error *err);
    km_status (*counters)(const km_cuda_engine *engine, km_counters *out, km_error *err);
    void (*destroy)(km_cuda_engine *engine);
} km_cuda_skipping;

extern const km_cuda_skipping km_cuda_tiling, km_cuda_bounding;
// The bounds that passes keep, for programs that check them (bench/cuda_labels.c); NULL: there are none.
const km_bounds_args *km_cuda_bounds_of(const km_cuda_engine *engine);
// Whether each pass so far has left the labels of its runs, as bounds have never rested.
int km_cuda_bounds_keep_labels(const km_cuda_engine *engine);

// state.c
// Gets the memory that passes need in addition to the points, when n is known.
km_status km_cuda_reserve_slots(km_cuda_engine *engine, km_error *err);
// Offsets in `state`.
int64_t km_cuda_active_at(const km_cuda_engine *engine);
int64_t km_cuda_given_up_at(const km_cuda_engine *engine);
int64_t km_cuda_state_bytes(const km_cuda_engine *engine);
// In the mirror: control of the loop, the slots' records, clusters for which relocation found no point.
km_loop *km_cuda_loop(km_cuda_engine *engine);
km_slot_record *km_cuda_records(km_cuda_engine *engine);
unsigned char *km_cuda_given_up(km_cuda_engine *engine);
// Where the device writes its report (km_update_args): behind the mirror, in the host's memory.
volatile uint64_t *km_cuda_report(km_cuda_engine *engine);
// Sets the phase of a slot.
void km_cuda_set_phase(km_cuda_engine *engine, int64_t slot, km_slot_phase phase);
int64_t km_cuda_slot_row(const km_cuda_engine *engine, int64_t slot); // first row in centroids and totals
int64_t km_cuda_slot_k(const km_cuda_engine *engine, int64_t slot);
int64_t km_cuda_label_bytes(const km_cuda_engine *engine);  // of a label that is kept between passes
int64_t km_cuda_update_parts(const km_cuda_engine *engine); // blocks of a slot in km_update
// Centroids as doubles to rows of the plan's type in a table on the device: the engine's `centroids` or `before`.
km_status km_cuda_put_rows(km_cuda_engine *engine, const km_cuda_memory *table, int64_t first_row,
                           const double *rows, int64_t count, km_error *err);
km_status km_cuda_get_rows(km_cuda_engine *engine, double *rows, const km_cuda_memory *table,
                           int64_t first_row, int64_t count, km_error *err);

// pass.c
// Runs the launches of KM_STAGE_LOAD, where they have not run on these points.
km_status km_cuda_prepare(km_cuda_engine *engine, km_error *err);
km_pass_args km_cuda_pass_args(const km_cuda_engine *engine, int part);
km_status km_cuda_launch_stage(km_cuda_engine *engine, int stage, km_error *err);
// Queues one of the module's launches.
km_status km_cuda_launch_of_pass(km_cuda_engine *engine, int launch, const km_pass_args *args, km_error *err);
km_status km_cuda_launch_update(km_cuda_engine *engine, km_error *err);

// windows.c: where the plan has windows. Launches from `first` to before `end` of the stage, for each window of points.
km_status km_cuda_windows_open(km_cuda_engine *engine, km_error *err);
void km_cuda_windows_close(km_cuda_engine *engine);
// For steps that read points several times: how many windows there are, of whole chunks; 0: points are read where they
// lie. What is queued between begin and end finds the points there; windows are taken in order.
int64_t km_cuda_windows_of_chunks(const km_cuda_engine *engine);
km_status km_cuda_window_begin(km_cuda_engine *engine, int64_t index, km_cuda_window *own, km_error *err);
km_status km_cuda_window_end(km_cuda_engine *engine, int64_t index, km_error *err);
km_status km_cuda_launch_windows(km_cuda_engine *engine, int first, int end, int stage, km_error *err);

// share.c: with other ranks. Without a share nothing is done, but for what km_cuda_add_in_order adds.
// A table of all chunks or subchunks in `to`, of `width` numbers each, from what each rank has of its own in `from`,
// which may be the same memory: entry `at` on.
km_status km_cuda_gather(km_cuda_engine *engine, km_cu_ptr to, km_cu_ptr from, int64_t all, int64_t at,
                         int64_t count, int64_t width, km_error *err);
// totals += partial[0], partial[1], ..., `numbers` each: of this rank behind those of the ranks below it.
km_status km_cuda_add_in_order(km_cuda_engine *engine, km_cu_ptr totals, km_cu_ptr partial, int64_t tables,
                               int64_t numbers, km_error *err);
// Before a kernel of the pass that needs what all ranks have found.
km_status km_cuda_join_before(km_cuda_engine *engine, const char *kernel, km_error *err);
// The least of what each rank has in the place of each value.
km_status km_cuda_least_of_ranks(km_cuda_engine *engine, int64_t *values, int64_t count, km_error *err);

// nccl.c: opens NCCL where each rank has it and a GPU of its own; the sum of integers over all ranks, in place, queued.
// It takes 0.7 s to begin, and saves up to 0.09 ms a pass: it pays after so many passes that the host has joined.
extern int64_t km_cuda_nccl_pass; // changed by tests
km_status km_cuda_nccl_open(km_cuda_engine *engine, km_error *err);
km_status km_cuda_nccl_sum(km_cuda_engine *engine, km_cu_ptr at, int64_t count, km_error *err);
void km_cuda_nccl_close(km_cuda_engine *engine, int has_failed);

// seed_halves.c: seeding by halves of the points, for chains of many picks. NULL: without them.
typedef struct km_cuda_seed_halves km_cuda_seed_halves;
km_cuda_seed_halves *km_cuda_seed_halves_create(km_cuda_engine *engine, int64_t chains, int64_t picks);
void km_cuda_seed_halves_free(km_cuda_seed_halves **halves, km_cuda_engine *engine);
// New chains begin. Whether a pick of these is made so, by a pass in the place of km_seed_pass.
void km_cuda_seed_halves_begin(km_cuda_seed_halves *halves);
int km_cuda_seed_halves_serves(const km_cuda_seed_halves *halves, int64_t pick);
km_status km_cuda_seed_halves_pass(km_cuda_seed_halves *halves, km_cuda_engine *engine, km_seed_args *args,
                                   int64_t pick, int candidates, km_error *err);
// What km_seed_draw is told of the pass of a pick, which may be another's than the last one's; 0: nothing.
km_cu_ptr km_cuda_seed_halves_nearer(const km_cuda_seed_halves *halves, int64_t pick);
// Looks whether they pay, before pick `next`, when the picks before it are done.
km_status km_cuda_seed_halves_weigh(km_cuda_seed_halves *halves, km_cuda_engine *engine, int chains,
                                    int64_t next, km_error *err);
// seed_share.c: with other ranks, in the place of km_seed_draw.
typedef struct km_cuda_seed_share km_cuda_seed_share;
km_status km_cuda_seed_share_create(km_cuda_seed_share **out, km_cuda_engine *engine, int64_t chains,
                                    km_error *err);
void km_cuda_seed_share_free(km_cuda_seed_share **share);
// indices[chain * picks + pick - 1] is decided, the candidates of `pick` are drawn (none behind the last).
km_status km_cuda_seed_share_draw(km_cuda_seed_share *share, const km_seed_args *args, int64_t *indices,
                                  int64_t pick, int64_t picks, km_error *err);

// starter.c: a pass by the kernels that a fit begins with, update included; and what comes before the first one.
km_status km_cuda_starter_prepare(km_cuda_engine *engine, km_error *err);
km_status km_cuda_starter_pass(km_cuda_engine *engine, km_error *err);
void km_cuda_starter_end(const km_cuda_engine *engine); // says how many there were
// Whether passes are done by them now; and goes over to the plan's own where these are ready.
int km_cuda_starts(const km_cuda_engine *engine);
km_status km_cuda_go_over(km_cuda_engine *engine, km_error *err);
// For a step whose kernels may not be there yet; `is_there`: they are.
km_status km_cuda_need(km_cuda_engine *engine, int is_there, km_error *err);
// state.c: as much as the pass that is there needs.
km_status km_cuda_reserve_workspace(km_cuda_engine *engine, km_error *err);

// The steps, as in km_backend; the caller has entered the context. km_cuda_fetch needs no kernels, and may return while
// the last copies run.
km_status km_cuda_fetch(km_cuda_engine *engine, const km_data *data, km_error *err);
km_status km_cuda_load(km_cuda_engine *engine, km_data_stats *stats, const km_data *data,
                       km_load_params *params, km_error *err);
km_status km_cuda_seed(km_cuda_engine *engine, int64_t *indices, int64_t first_restart, int64_t chains_count,
                       int64_t picks, uint64_t seed, int (*progress)(void *user, int64_t picks_done),
                       void *progress_user, km_error *err);
// The same for CSR points, which the host packs; km_cuda_load calls it (load_sparse.c).
km_status km_cuda_load_sparse(km_cuda_engine *engine, km_data_stats *stats, const km_data *data,
                              km_load_params *params, km_error *err);
// Parts of loading that do not depend on the layout: weights, the box, and what comes when points are there.
int64_t km_cuda_near_bytes(const km_cuda_engine *engine);
km_status km_cuda_load_weights(km_cuda_engine *engine, const km_data *data, km_error *err);
km_status km_cuda_load_box(km_cuda_engine *engine, const km_data_stats *stats, const km_load_params *params,
                           km_error *err);
km_status km_cuda_load_end(km_cuda_engine *engine, const km_data_stats *stats, km_error *err);
// CSR: rows of doubles on the device to a table of columns (templates/cuda/sparse/steps.cu), (d + 1) x rows doubles.
km_status km_cuda_columns(km_cuda_engine *engine, km_cu_ptr table, km_cu_ptr rows, int64_t rows_count,
                          km_error *err);
// Rows of points: of this rank by its own count, of all ranks by that of all.
km_status km_cuda_own_rows(km_cuda_engine *engine, double *out, const int64_t *indices, int64_t count,
                           km_error *err);
km_status km_cuda_rows(km_cuda_engine *engine, double *out, const int64_t *indices, int64_t count,
                       km_error *err);
km_status km_cuda_relocate(km_cuda_engine *engine, int64_t slot, int64_t *moved, km_error *err);
void km_cuda_relocate_forget(km_cuda_engine *engine); // other points: engine->fitting is of them no more
// Dynamic shared memory of a block of km_finish_tiles or km_silhouette_tiles: half of a multiprocessor's where that is
// enough, so that it has two blocks.
int64_t km_cuda_tile_bytes(const km_cuda_engine *engine);
km_status km_cuda_silhouette(km_cuda_engine *engine, km_silhouette_model *models, int64_t count,
                             km_error *err);

// kept.c
// Makes room for the labels of those of the models that are to be kept; no error where there is none.
void km_cuda_keep(km_cuda_engine *engine, const km_finish_model *models, int64_t count);
// Where labels of the model are to be written to `kept`, and counts as theirs from now on; -1: nowhere.
int64_t km_cuda_keep_at(km_cuda_engine *engine, const km_finish_model *model);
// Where labels of these centroids are in `kept`; -1: they are not.
int64_t km_cuda_kept_at(const km_cuda_engine *engine, const double *centroids, int64_t k);
void km_cuda_kept_drop(km_cuda_engine *engine);
km_status km_cuda_finish(km_cuda_engine *engine, km_finish_model *models, int64_t count, km_error *err);

#endif

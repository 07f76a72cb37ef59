// SPDX-License-Identifier: MIT
/// @file
/// A plan is a spec with every number decided, each with its reason; a source is the text that a plan emits.
/// Both are pure functions of their inputs: no clock, no device, no environment.
#ifndef KMGEN_PLAN_H
#define KMGEN_PLAN_H
#include <kmgen/kmgen.h>
#include <kmgen/spec.h>
KM_BEGIN
/// @defgroup plan Plan and source: every number decided, and the text made from them
/// @{

/// The ways to compute a pass: X(VALUE, name, target, what it is), one row a design. Texts are specialised on the
/// plan's numbers, on CUDA on the list of K too; for a CPU one text, and one compiled module, serves every list
/// whose K are up to 256, or beyond. `prebuilt` is compiled into the library.
#define KM_DESIGNS(X)                                                                                        \
    X(REGISTERS, registers, CUDA, "sums in registers, several K in one straight line")                       \
    X(TENSOR, tensor, CUDA, "scores and sums as matrix products on tensor cores")                            \
    X(TILED, tiled, CUDA, "tiled like a matrix product, any d, K and type")                                  \
    X(SPARSE_WARPS, sparse_warps, CUDA, "CSR: lanes of a warp across centroids, any d, K and type")          \
    X(LANES, lanes, CPU, "points across SIMD lanes")                                                         \
    X(GEMM, gemm, CPU, "tiled like a matrix product, any d and K")                                           \
    X(PREBUILT, prebuilt, CPU, "lanes, compiled into the library: any d, K and type")                        \
    X(SPARSE_LANES, sparse_lanes, CPU, "sparse points (CSR): centroids of all K across SIMD lanes")

/// One design, KM_DESIGN_REGISTERS and so on: a row of KM_DESIGNS, in that order from 1. KM_DESIGN_NONE (0): none,
/// or not decided. KM_DESIGN_COUNT: one more than there are, the size of a table that they index.
typedef enum km_design {
    KM_DESIGN_NONE,
#define KM_DESIGN_VALUE(value, name, target, what) KM_DESIGN_##value,
    KM_DESIGNS(KM_DESIGN_VALUE)
#undef KM_DESIGN_VALUE
        KM_DESIGN_COUNT
} km_design;

/// Which distances a pass computes; they differ in what they skip. TILES, HAMERLY and ELKAN give the same restart,
/// labels and iterations. So does LLOYD unless a pass meets a point that is as far from two centroids within the
/// rounding of scores in the points' type: it may then go to the other one, within the contract of labels, and the
/// inertia at the end differ (docs/algorithms.md: float32, 1 of 20 models, by up to 4e-4).
typedef enum km_algorithm {
    KM_ALGORITHM_AUTO, ///< The planner chooses, and the engine goes back to lloyd where skipping does not pay.
    KM_ALGORITHM_LLOYD, ///< Every point against every centroid.
    KM_ALGORITHM_TILES, ///< Boxes of nearby points; only points of a box that more than one centroid can reach.
    KM_ALGORITHM_HAMERLY, ///< Two bounds a point and run.
    KM_ALGORITHM_ELKAN,   ///< 1 + K bounds a point and run, or more.
    KM_ALGORITHM_COUNT    ///< How many there are, AUTO counted.
} km_algorithm;

/// Facts about a device that planning needs. km_device_facts_init gives a target's nominal device (sm_90: an
/// H200; a CPU: two cores), so that planning without a device is the same everywhere.
typedef struct km_device_facts {
    char name[128];                 ///< For people, e.g. "NVIDIA H200".
    km_target target;               ///< With its architecture set.
    int64_t units;                  ///< CUDA: multiprocessors. CPU: threads to use.
    int64_t registers_per_unit;     ///< CUDA: 32-bit registers of a multiprocessor.
    int64_t registers_per_thread;   ///< CUDA: at most.
    int64_t shared_bytes_per_unit;  ///< CUDA: shared memory of a multiprocessor.
    int64_t shared_bytes_per_block; ///< CUDA: at most, opted in.
    int64_t cache_bytes;            ///< CUDA: L2. CPU: L2 of one core.
    int64_t memory_bytes;           ///< Of the device; 0 unknown.
    int64_t memory_free_bytes; ///< Of these, free when it was asked; 0: unknown, nothing is held against it.
    double bandwidth_gbs;      ///< Memory read rate, 1e9 bytes/s.
    double clock_ghz;          ///< Cycles in a nanosecond.
    double fp32_per_cycle;     ///< FP32 FMA lanes of one unit and cycle (sm_90: 128; AVX-512 core: 32).
    double fp64_per_cycle;     ///< The same in FP64.
    /// CPU: arrays of at least so many bytes lie in temporary files, and are no memory; 0: all are memory. Default 0.
    int64_t scratch_from;
    int32_t has_compiler; ///< NVRTC, or a C compiler that answers.
    int32_t maps_host;    ///< CUDA: memory may begin on the device and go on on the host.
    int32_t has_integers; ///< CPU: products of 16-bit integers (AVX512_VNNI).
} km_device_facts;

/// The nominal device of a target (AUTO: a CPU); where its architecture is 0, of sm_90 or avx2. The struct owns
/// nothing.
KM_API void km_device_facts_init(km_device_facts *facts, km_target target);

/// What must not be planned again: the compiler refused its text, or its kernels spill registers. An entry leaves out
/// the ways to run a design that have no more registers to spare than it says, as the compiler needed more than the
/// planner had counted. Who adds the plan that he got and plans again gets the next one: the fastest of all that have
/// more room, whatever the design.
typedef struct km_plan_avoid {
    km_design design;        ///< Which design's ways.
    int64_t registers_spare; ///< Of km_plan's estimate for the design; INT64_MAX: the whole design.
    char reason[160];        ///< For people: "km_pass_0 spills 8 bytes with nvrtc 13.0".
} km_plan_avoid;

enum {
    KM_PLAN_AVOIDED_MAX = 16, ///< Most entries of a list of what to avoid.
};

/// What planning needs to know beside the spec.
typedef struct km_plan_params {
    const km_device_facts *facts; ///< Default NULL: the target's nominal device; of no target, CUDA's.
    int64_t points;               ///< n, when it is known. Default 0: unknown, taken as many.
    /// Values of a point that are not 0, or stored where it is CSR, on average: what the layouts are compared by.
    /// Default 0: not known, the points are dense unless the spec's layout says CSR, with a twentieth of the features.
    double nonzeros;
    int32_t weighted;        ///< Points carry weights. Default 0.
    int32_t track_labels;    ///< Labels are kept between passes (min-changes, delta updates). Default 0.
    const char *tuning;      ///< Text of a tuning table, asked before those of the library. Default NULL.
    const char *tuning_name; ///< What errors and reasons call it: its path. Default NULL: "tuning table".
    /// Non-zero: nobody named the table, it was found. What is wrong with it is then no error but a line of
    /// km_plan.spec.warnings, and it is not asked. Default 0.
    int32_t tuning_found;
    int32_t untuned; ///< No table is asked, nor those of the library: the cost model decides. Default 0.
    km_algorithm algorithm; ///< Default KM_ALGORITHM_AUTO: the spec's, else the planner's choice.
    /// KM_PLAN_AVOIDED_MAX at most; no tuning table is then asked. Default NULL.
    const km_plan_avoid *avoid;
    int64_t avoid_count; ///< Entries of `avoid`. Default 0.
    // What decides memory only, never a number of the text:
    int64_t value_bytes; ///< Of a value of the points as they come: 4 or 8. Default 0: as the plan's type.
    int64_t label_sets;  ///< Sets of labels, 4 bytes a point, that the caller gets at the end. Default 0.
    int32_t may_stream;  ///< CUDA: points that do not fit the free memory may stay on the host. Default 0.
    int64_t threads;     ///< CPU threads. Default 0: the facts' units.
    int64_t
        ranks; ///< That share the points, each on such a device; 1 plans as several would. Default 0: none do.
} km_plan_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_plan_params_init(km_plan_params *params);

/// One decided number: its name in gen/params.h, value and reason.
typedef struct km_plan_number {
    char name[32];    ///< E.g. "block".
    int64_t value;    ///< Where the number is a word, such as `form`: the word's place in gen/params.h.
    char text[24];    ///< The value as a spec writes it: "256", or the word.
    char reason[192]; ///< Why it is that, for people.
} km_plan_number;

/// What the cost model says of one design for this spec and device, per point and pass over the K list.
typedef struct km_estimate {
    km_design design;               ///< KM_DESIGN_NONE: it was not estimated, being another target's.
    int32_t feasible;               ///< Non-zero: it can run this spec.
    char reason[192];               ///< Why not feasible, or what bounds it.
    double bytes_per_point;         ///< Moved from and to the device's memory.
    double operations_per_point;    ///< Issued arithmetic instructions.
    double memory_ns;               ///< Per point on the whole device: the time of memory alone.
    double issue_ns;                ///< The time of the arithmetic units alone.
    double tensor_ns;               ///< The time of the tensor cores alone.
    double total_ns;                ///< Of all together: what designs are compared by.
    int64_t registers_per_thread;   ///< CUDA: what the kernel is taken to need.
    int64_t registers_spare;        ///< CUDA: what a thread may have beside what the kernel is taken to need.
    int64_t shared_bytes_per_block; ///< CUDA: shared memory of a block.
    int64_t memory_bytes;           ///< Of a whole fit with this design; 0: not known (no points).
    double
        wait_ms; ///< What a fit waits for a compiler, of ten that the cache has the kernels of but for the first.
    double host_ms; ///< What a fit waits for points that come from the host, beside its passes; 0: none do.
} km_estimate;

enum {
    KM_PLAN_NUMBERS_MAX = 32, ///< Most numbers of a plan.
};

/// What was measured and decided a plan's numbers: an entry of a tuning table (docs/tuning.md). Times are of one pass
/// over `points`, of one restart of every K.
typedef struct km_plan_tuned {
    char table[160];   ///< The table; "": none, the cost model decided.
    char device[128];  ///< What it was measured on.
    char shape[96];    ///< For people: "8 features, K = 3..12".
    int32_t exact;     ///< Non-zero: on this device with this shape; else those of the plan are similar.
    double ms;         ///< Of a pass with these numbers.
    double default_ms; ///< Of the plan that the cost model alone makes; 0: not measured.
    double read_ms;    ///< Of reading the points once; 0: not measured.
    int64_t points;    ///< n that was measured.
    int64_t threads;   ///< CPU: threads that it was measured with; else 0.
    int64_t stale;     ///< Entries that were not used, being of other templates.
} km_plan_tuned;

/// All that a text, a fit's memory and a launch are made from. Plain data between km_plan_init and km_plan_clear,
/// read-only after km_plan_make; to copy it, use km_plan_copy.
typedef struct km_plan {
    km_spec spec;          ///< A copy: features and clusters are set, target has its architecture.
    km_device_facts facts; ///< Of the device that it is for.
    int64_t points;        ///< n, or 0 when unknown.
    double nonzeros;       ///< As in km_plan_params; of a spec with the layout CSR never 0.
    int32_t weighted;      ///< As in km_plan_params.
    int32_t track_labels;  ///< As in km_plan_params.
    int64_t value_bytes;   ///< As in km_plan_params.
    int64_t label_sets;    ///< As in km_plan_params.
    int64_t threads;       ///< As in km_plan_params.
    /// On the device, of a whole fit: points, passes, seeding, finishing. 0: n is unknown. Of ranks, that of each, and
    /// so are the bytes below.
    int64_t memory_bytes;
    int64_t host_bytes;      ///< CUDA: of the machine's memory beside that.
    int32_t streams;         ///< CUDA: points do not fit; those on the host come to the device in every pass.
    int64_t streamed_bytes;  ///< ... of a pass, from the host.
    int64_t window_points;   ///< ... so many at a time; 0: kernels read them where they lie.
    int64_t ranks;           ///< As in km_plan_params.
    int64_t concurrent_max;  ///< Concurrent restarts that the free memory holds; 0: it decides nothing.
    km_design design;        ///< How a pass is computed.
    char design_reason[192]; ///< Why, for people.
    km_algorithm algorithm;  ///< Never AUTO.
    int32_t algorithm_fixed; ///< The user's choice: it is kept even where it does not pay.
    char algorithm_reason[192];                  ///< Why, for people.
    km_plan_tuned tuned;                         ///< Where its numbers were measured.
    int64_t clusters_sum;                        ///< S of one restart: the sum of the K list.
    km_plan_number numbers[KM_PLAN_NUMBERS_MAX]; ///< Those of the design, in the order of gen/params.h.
    int64_t numbers_count;                       ///< Entries of `numbers`.
    km_estimate estimates[KM_DESIGN_COUNT]; ///< Indexed by km_design; those of the other target are empty.
    km_plan_avoid avoided[KM_PLAN_AVOIDED_MAX]; ///< What was left out: km_plan_params' list.
    int64_t avoided_count;                      ///< Entries of `avoided`.
    void *layout;         ///< The design's own: what it decided beside numbers. Belongs to the plan.
    int64_t layout_bytes; ///< Bytes of `layout`.
} km_plan;

/// An empty plan. Frees nothing: for one that was never initialised.
KM_API void km_plan_init(km_plan *plan);

/// Bytes that a pass with all its runs sums over all ranks (km_communicator), on each rank: those of the totals and of
/// two counts a run, without runs that are done; on GPUs of their own, the totals.
KM_API int64_t km_plan_exchange_bytes(const km_plan *plan);

/// Frees what the initialised plan owns, and initialises it again.
KM_API void km_plan_clear(km_plan *plan);

/// Copies `from` into the initialised `to`: a plan that is assigned shares what only one of the two may free.
/// KM_ERROR_MEMORY: `to` is empty then.
KM_API km_status km_plan_copy(km_plan *to, const km_plan *from, km_error *err);

/// Decides every number, into the initialised `plan`, which is as it was after a failure. The spec must have
/// features and clusters; `params` NULL: the defaults. Pure: the same arguments give the same plan on every
/// machine. Where the spec fixes nothing but the algorithm, tuning tables are asked before the cost model.
/// KM_ERROR_PLAN when what the user fixed cannot be had, or a value of the spec cannot be; the text names
/// the number and the limit. KM_ERROR_SPEC: the tuning table is wrong, stale or of another device, with its line.
/// KM_ERROR_USAGE: more to avoid than KM_PLAN_AVOIDED_MAX. Where the facts say what memory is free, and the points
/// are known, another design, then an algorithm that keeps less, then fewer concurrent restarts make room; what does
/// not fit even so is planned all the same, with the least: km_plan_fits tells. KM_ERROR_PLAN as well where `avoid`
/// leaves no plan.
KM_API km_status km_plan_make(km_plan *plan, const km_spec *spec, const km_plan_params *params,
                              km_error *err);

/// Non-zero when a fit of this plan fits the free memory, or that is unknown.
KM_API int km_plan_fits(const km_plan *plan);

/// Estimated milliseconds of a whole fit with one plan, by what they are for; all 0 where n is not known. A CPU and a
/// GPU are compared by the sum: constants are those of gen/fit_time.c, measured on an H200 and two cores. A text that
/// is not in the cache yet takes longer than `compile_ms` once: a choice must be the same tomorrow, when it is.
typedef struct km_fit_time {
    double start_ms;    ///< The driver and a context; 0 on a CPU.
    double compile_ms;  ///< The share of a fit in the time that its text takes to compile.
    double transfer_ms; ///< Points to the device.
    double passes_ms;   ///< Seeding, the sweep, refinement, finishing: max_iter updates a run, at most 20.
    double total_ms;    ///< The sum.
} km_fit_time;

/// Fills the caller's `*time` for a plan that was made; `max_iter`: updates of a run at most, at least 1. Pure.
KM_API void km_plan_fit_time(km_fit_time *time, const km_plan *plan, int64_t max_iter);

/// A number by its name in gen/params.h; -1 where the plan has none of that name.
KM_API int64_t km_plan_get(const km_plan *plan, const char *name);

/// A design's name, e.g. "registers"; "none" when out of range. Static text.
KM_API const char *km_design_name(km_design design);

/// How the plan's points lie, which follows from its design: never AUTO.
KM_API km_layout km_plan_layout(const km_plan *plan);

/// An algorithm's name, e.g. "tiles"; "none" when out of range. Static text.
KM_API const char *km_algorithm_name(km_algorithm algorithm);

/// "float32" or "float64". Static text.
KM_API const char *km_type_name(km_type type);

/// Spelling of a target, e.g. "cuda:sm_90", as km_spec_set_target reads it. Writes at most `size` bytes of `text`, with
/// the final zero; 32 are enough.
KM_API void km_target_text(char *text, int64_t size, km_target target);

/// The plan as a table for people: numbers with reasons, budgets, estimates of each design, memory for n
/// points. The text is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_plan_explain(char **out, const km_plan *plan, km_error *err);

/// Text specialised on a plan. Plain data between km_source_init and km_source_clear, which frees with free() what it
/// owns: `text` may be replaced by other text from malloc before km_module_build.
typedef struct km_source {
    char *text;                      ///< The text, with a final zero; NULL before it is emitted.
    int64_t text_size;               ///< Bytes without the final zero.
    char file_name[KM_NAME_MAX + 8]; ///< NAME.cu or NAME.c
    /// The C interface of the text where it is used without kmgen; NULL: it has none (`prebuilt`).
    char *header;
    char header_name[KM_NAME_MAX + 8]; ///< NAME.h
    km_plan plan;                      ///< A copy of what it was emitted from.
} km_source;

/// An empty source. Frees nothing: for one that was never initialised.
KM_API void km_source_init(km_source *source);

/// Frees what the initialised source owns, and initialises it again.
KM_API void km_source_clear(km_source *source);

/// Emits the plan's text into the initialised `source`, which is as it was after a failure: byte-identical each
/// time, on every machine. `templates_dir` reads templates from a folder instead of the embedded ones (to try an
/// edit without a build); NULL: the embedded ones. KM_ERROR_IO: a template of that folder cannot be read;
/// KM_ERROR_INTERNAL: a mistake in a template, named as template:line.
KM_API km_status km_source_emit(km_source *source, const km_plan *plan, const char *templates_dir,
                                km_error *err);

/// @}
KM_END
#endif

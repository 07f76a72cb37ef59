// SPDX-License-Identifier: MIT
/// @file
/// Tuning: which of all plans that a device can run for a spec is the fastest there, by measuring them.
#ifndef KMGEN_TUNE_H
#define KMGEN_TUNE_H
#include <kmgen/kmgen.h>
#include <kmgen/plan.h>
#include <kmgen/spec.h>
KM_BEGIN
/// @defgroup tune Tuning: the fastest plan, measured
/// @{

/// What became of a candidate: X(OUTCOME, name, what it means).
#define KM_TUNE_OUTCOMES(X)                                                                                  \
    X(UNMEASURED, unmeasured, "the search did not come to it")                                               \
    X(MEASURED, measured, "its sums were checked, then it was timed")                                        \
    X(SPILLS, spills, "left out before it ran: its kernels spill registers")                                 \
    X(REFUSED, refused, "the compiler refused its text")                                                     \
    X(WRONG, wrong, "its sums are not those of the double reference")                                        \
    X(HUNG, hung, "it gave no answer in ten times as long as any other")                                     \
    X(MEMORY, memory, "the device has not enough memory for it")                                             \
    X(FAILED, failed, "the device or the process that ran it failed")

/// One outcome, KM_TUNE_MEASURED and so on: a row of KM_TUNE_OUTCOMES.
typedef enum km_tune_outcome {
#define KM_TUNE_OUTCOME_ENUM(outcome, name, meaning) KM_TUNE_##outcome,
    KM_TUNE_OUTCOMES(KM_TUNE_OUTCOME_ENUM)
#undef KM_TUNE_OUTCOME_ENUM
        KM_TUNE_OUTCOME_COUNT
} km_tune_outcome;

/// The outcome's name, e.g. "measured"; "unknown" when out of range. Static text.
KM_API const char *km_tune_outcome_name(km_tune_outcome outcome);

/// One plan of all that were looked at. Times are of one pass over the result's `points`, of one restart of every K.
typedef struct km_tune_candidate {
    km_design design;               ///< How its pass is computed.
    km_fixed numbers[KM_FIXED_MAX]; ///< The numbers that candidates differ in, and `design` first.
    int64_t numbers_count;          ///< Entries of `numbers`.
    double predicted_ms;            ///< What the cost model says.
    double memory_ms;               ///< ... of memory alone.
    double issue_ms;                ///< ... of the arithmetic units alone.
    double tensor_ms;               ///< ... of the tensor cores alone.
    double ms;                      ///< Median of the samples; 0: it was not measured.
    double spread_ms;               ///< Half the interquartile range of the samples.
    int32_t samples;                ///< How many there are.
    int32_t registers;     ///< CUDA: of a thread, as the compiler says, of the pass's largest kernel; else 0.
    int32_t blocks_per_sm; ///< CUDA: blocks of that kernel on a multiprocessor; 0: unknown.
    double occupancy;      ///< CUDA: its warps on a multiprocessor over the most there can be; 0: unknown.
    km_tune_outcome outcome; ///< What became of it.
    char reason[192];        ///< Why it was not measured; "" where it was, or was not come to.
} km_tune_candidate;

/// "form: rounded, block: 384": the candidate's numbers but its design, as a spec's `plan:` has them. Writes at most
/// `size` bytes of `text`, with the final zero. Returns `text`.
KM_API const char *km_tune_numbers_text(char *text, int64_t size, const km_tune_candidate *candidate);

/// What a tuning found for one spec on one device: km_tune_result_destroy frees it. Read-only, by any number of
/// threads.
typedef struct km_tune_result {
    km_spec spec;                  ///< With features, clusters and its target's architecture.
    km_device_facts facts;         ///< Of the device.
    int32_t driver;                ///< CUDA: the driver's major version; else 0.
    char compiler[64];             ///< E.g. "nvrtc 13.0".
    int64_t points;                ///< n that was measured.
    int64_t threads;               ///< CPU: threads that it was measured with; else 0.
    double read_ms;                ///< Reading the points once, in the same run; 0: not measured.
    km_tune_candidate *candidates; ///< All that the planner can run, in the order of designs and numbers.
    int64_t candidates_count;      ///< Entries of `candidates`.
    /// The candidate that the cost model alone takes; where the compiler refuses it or it spills, the next.
    int64_t standard;
    /// The fastest; `standard` where nothing beats that by more than `noise`.
    int64_t best;
    double gain; ///< The default's time over that of `best`, less 1, of samples taken beside each other.
    double
        noise; ///< What one plan's samples, taken like that, differ by: relative, half the interquartile range.
    int64_t measured; ///< Candidates that were timed, in this run or an earlier one.
    double elapsed_s; ///< Seconds of this run.
    int32_t stopped;  ///< Non-zero: the budget or an interrupt ended it before the search was done.
} km_tune_result;

/// State of a running tuning, for a progress line.
typedef struct km_tune_progress {
    const char
        *phase; ///< "plan", "compile" (on a CPU, where it takes turns with "measure"), "measure", "confirm".
    int64_t done;       ///< Candidates measured or given up; samples in "confirm".
    int64_t total;      ///< How many there will be, at most.
    double best_ms;     ///< Of the fastest so far; 0: none.
    double standard_ms; ///< Of the default; 0: not measured yet.
    double elapsed_s;   ///< Seconds since km_tune began.
    double left_s;      ///< Seconds that are left at this rate, or of the budget.
} km_tune_progress;

/// How a tuning goes.
typedef struct km_tune_params {
    int device;      ///< CUDA ordinal, KM_HOST or KM_DEVICE_AUTO. Default KM_DEVICE_AUTO.
    int32_t full;    ///< Non-zero: the space `full`, which has more values of each number. Default 0.
    int32_t all;     ///< Non-zero: every candidate is measured, nothing is searched. Default 0.
    int32_t fresh;   ///< Non-zero: what an earlier run measured is forgotten. Default 0.
    int64_t points;  ///< n to measure with. Default 0: as many as leave no cache a part in the times.
    int64_t threads; ///< CPU threads. Default 0: all cores.
    double budget_s; ///< Seconds after which it ends with what it has. Default 0: it takes what it needs.
    const char *compiler; ///< See km_module_params. Default NULL.
    /// See km_module_params; candidates are compiled there. Default NULL: nothing is kept, and several processes
    /// compile the same texts again.
    const char *cache_dir;
    int64_t cache_bytes_max; ///< See km_module_params. Default 1 GiB.
    /// Folder of tables: NAME.yaml of this device gets the entry, NAME.journal what was measured so far, so that a run
    /// which was stopped goes on there. Made where it is missing. Default NULL: nothing is kept.
    const char *tuning_dir;
    const char *table; ///< The table's file, instead of NAME.yaml in tuning_dir. Default NULL.
    /// A program that calls km_tune_serve(0, 1, ...), with its arguments, ends with NULL: measures in a process of its
    /// own, which is given up where a kernel hangs, and compiles in others meanwhile. Default NULL: all is done in this
    /// process, and what hangs hangs it.
    char *const *worker;
    int64_t jobs; ///< Processes that compile. Default 0: as many as there are cores, but for one on CUDA.
    const char *today; ///< The date that the entry gets, e.g. "2026-11-23". Default NULL: none.
    const km_log *log; ///< Default NULL, silent.
    /// Asked after each step by the thread that called; what is not 0 ends it as the budget does. Default NULL.
    int (*progress)(void *user, const km_tune_progress *progress);
    void *progress_user; ///< Handed to `progress`. Default NULL.
} km_tune_params;

/// Sets every field to its default. The struct owns nothing.
KM_API void km_tune_params_init(km_tune_params *params);

/// Finds the fastest plan of the spec, which has features and clusters, on a device; what the spec fixes stays fixed.
/// Candidates are all plans that differ in the numbers which gen/params.h marks; which of them are measured
/// docs/tuning.md says. Each is compiled, held against a reference in double, then timed beside the fastest so far; the
/// winner is timed once more beside the default, and is `best` only if it is faster by more than the noise. Budget and
/// interrupt are no errors: what was found by then is the result. `params` NULL: the defaults. The result is the
/// caller's: km_tune_result_destroy. KM_ERROR_USAGE: another process tunes this device in that folder. KM_ERROR_PLAN,
/// KM_ERROR_DEVICE, KM_ERROR_MEMORY; KM_ERROR_SPEC: the table there is no table; KM_ERROR_IO.
KM_API km_status km_tune(km_tune_result **out, const km_spec *spec, const km_tune_params *params,
                         km_error *err);

/// Frees `*result` and sets it to NULL. A NULL one is allowed.
KM_API void km_tune_result_destroy(km_tune_result **result);

/// What km_tune_params.worker runs: answers the questions of a tuning that come by the file descriptor `in`, until its
/// end, by `out`. KM_ERROR_IO: the other end is gone.
KM_API km_status km_tune_serve(int in, int out, km_error *err);

/// The result as JSON, by docs/tune.schema.json: every candidate with its plan, times and outcome. The text is the
/// caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_tune_json(char **out, const km_tune_result *result, km_error *err);

/// The result as CSV with a line of names: a row a candidate, in their order. Columns: design, each number that any
/// candidate has (empty where this one has none), predicted_ms, ms and spread_ms (empty where it has no time), samples,
/// registers, kernel_blocks_per_sm (the struct's blocks_per_sm: a number of plans has that name), occupancy, outcome,
/// reason. Numbers are read back to the same bits. The text is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_tune_csv(char **out, const km_tune_result *result, km_error *err);

/// The result as plain text for people, lines of at most 100 characters: the device and the shape, the ten fastest
/// candidates (and the default) with what bounds them, and one reason for each outcome of those that have no time. The
/// text is the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_tune_table(char **out, const km_tune_result *result, km_error *err);

/// Draws heat maps of the designs with the best, the default and the next fastest candidates, three at most: points per
/// thread against block, a panel each grid, or the numbers in which the design's candidates differ most; the colour is
/// the time over the fastest, on a logarithmic scale. ".svg" or ".png" by the end of `path`. The file appears when it
/// is whole; a link is followed. KM_ERROR_USAGE: another ending, or the library was built without cairo
/// (km_built_with); KM_ERROR_IO.
KM_API km_status km_tune_plot(const char *path, const km_tune_result *result, km_error *err);

/// @}
KM_END
#endif

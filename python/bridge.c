// SPDX-License-Identifier: MIT
// What the Python package needs beside the C interface: the layout of its structs, as the compiler made it of the
// headers, and a progress function that seldom asks Python, which may have to wait for the interpreter's lock.
#include "base/wording.h"
#include "runtime/read/kinds.h"
#include <kmgen/data.h>
#include <kmgen/fit.h>
#include <kmgen/kmgen.h>
#include <kmgen/model.h>
#include <kmgen/module.h>
#include <kmgen/plan.h>
#include <kmgen/result.h>
#include <kmgen/select.h>
#include <kmgen/spec.h>

#include <stdio.h>
#include <string.h>

// What a field is: an integer or a real by its type, a pointer, text in the struct itself, or a struct or array.
#define KIND(field)                                                                                          \
    _Generic((field), int32_t : "i4", uint32_t : "u4", int64_t : "i8", uint64_t : "u8", double : "f8")
#define ROW(owner, field, kind) #owner, #field, kind, offsetof(owner, field), sizeof(((owner *)0)->field)
#define NUMBER(owner, field) {ROW(owner, field, KIND(((owner *)0)->field))},
#define POINTER(owner, field) {ROW(owner, field, "p")},
#define TEXT(owner, field) {ROW(owner, field, "s")},
#define PART(owner, field) {ROW(owner, field, "x")},
#define WHOLE(owner) {#owner, "", "x", 0, sizeof(owner)},

static const struct layout_row {
    const char *owner, *field, *kind;
    size_t offset, size;
} layout[] = {
    // clang-format off
    WHOLE(km_error) TEXT(km_error, text)
    WHOLE(km_log) POINTER(km_log, line) POINTER(km_log, user)
    WHOLE(km_target) NUMBER(km_target, kind) NUMBER(km_target, arch)
    WHOLE(km_spec) TEXT(km_spec, name) NUMBER(km_spec, features) POINTER(km_spec, clusters)
    NUMBER(km_spec, clusters_count) NUMBER(km_spec, type) PART(km_spec, target) NUMBER(km_spec, n_init)
    NUMBER(km_spec, max_iter) NUMBER(km_spec, tol) NUMBER(km_spec, layout) NUMBER(km_spec, metric)
    NUMBER(km_spec, refine) TEXT(km_spec, warnings)
    WHOLE(km_fit_params) NUMBER(km_fit_params, device) NUMBER(km_fit_params, changes_min)
    NUMBER(km_fit_params, init)
    POINTER(km_fit_params, init_rows) NUMBER(km_fit_params, init_count) NUMBER(km_fit_params, scale)
    NUMBER(km_fit_params, refine) NUMBER(km_fit_params, seed) NUMBER(km_fit_params, criterion)
    NUMBER(km_fit_params, criteria) NUMBER(km_fit_params, labels) NUMBER(km_fit_params, threads)
    NUMBER(km_fit_params, memory_max) NUMBER(km_fit_params, device_memory_max)
    POINTER(km_fit_params, scratch_dir)
    POINTER(km_fit_params, cache_dir) POINTER(km_fit_params, compiler) POINTER(km_fit_params, tuning_dir)
    NUMBER(km_fit_params, algorithm) POINTER(km_fit_params, log) POINTER(km_fit_params, progress)
    POINTER(km_fit_params, progress_user)
    WHOLE(km_model) NUMBER(km_model, k) NUMBER(km_model, effective_k) NUMBER(km_model, restart)
    NUMBER(km_model, restarts) NUMBER(km_model, restarts_agreed) POINTER(km_model, restart_inertia)
    NUMBER(km_model, n_iter) NUMBER(km_model, converged) NUMBER(km_model, refined) NUMBER(km_model, at_rest)
    NUMBER(km_model, inertia) POINTER(km_model, centroids) POINTER(km_model, weights)
    POINTER(km_model, counts) POINTER(km_model, sse) POINTER(km_model, labels) PART(km_model, scores)
    PART(km_model, score_errors) POINTER(km_model, valleys)
    WHOLE(km_timing) NUMBER(km_timing, parse_ms) NUMBER(km_timing, device_ms) NUMBER(km_timing, build_ms)
    NUMBER(km_timing, send_ms) NUMBER(km_timing, read_ms) NUMBER(km_timing, seed_ms) NUMBER(km_timing, sweep_ms) NUMBER(km_timing, refine_ms)
    NUMBER(km_timing, finish_ms) NUMBER(km_timing, criteria_ms) NUMBER(km_timing, free_ms)
    NUMBER(km_timing, total_ms)
    WHOLE(km_selection) NUMBER(km_selection, best) NUMBER(km_selection, asked)
    NUMBER(km_selection, criterion) NUMBER(km_selection, clustered) PART(km_selection, votes)
    TEXT(km_selection, reason)
    WHOLE(km_result) NUMBER(km_result, n) NUMBER(km_result, d) NUMBER(km_result, rows)
    NUMBER(km_result, type) TEXT(km_result, target) TEXT(km_result, device) PART(km_result, plan)
    NUMBER(km_result, seed) NUMBER(km_result, passes) NUMBER(km_result, refine_passes)
    PART(km_result, timing) NUMBER(km_result, scale) POINTER(km_result, centre) POINTER(km_result, factor)
    POINTER(km_result, models) NUMBER(km_result, models_count) PART(km_result, selection)
    NUMBER(km_result, criteria) NUMBER(km_result, interrupted) POINTER(km_result, warnings)
    NUMBER(km_result, warnings_count)
    WHOLE(km_plan) NUMBER(km_plan, design) NUMBER(km_plan, algorithm) NUMBER(km_plan, memory_bytes)
    PART(km_plan, numbers) NUMBER(km_plan, numbers_count)
    WHOLE(km_plan_number) TEXT(km_plan_number, name) NUMBER(km_plan_number, value)
    TEXT(km_plan_number, text) TEXT(km_plan_number, reason)
    WHOLE(km_plan_params) NUMBER(km_plan_params, points) NUMBER(km_plan_params, algorithm)
    WHOLE(km_source) POINTER(km_source, text) NUMBER(km_source, text_size) TEXT(km_source, file_name)
    POINTER(km_source, header) TEXT(km_source, header_name)
    WHOLE(km_report_params) POINTER(km_report_params, title) POINTER(km_report_params, command)
    NUMBER(km_report_params, rows)
    // clang-format on
};

/// Writes a line a field, "struct field kind offset bytes", of at most `size` bytes with the final zero; the struct
/// itself has the field "-". Returns the bytes that all of them take.
KM_API int64_t km_python_layout(char *text, int64_t size);
int64_t km_python_layout(char *text, int64_t size) {
    int64_t used = 0;
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        const struct layout_row *row = &layout[i];
        used += snprintf(used < size ? text + used : NULL, used < size ? (size_t)(size - used) : 0,
                         "%s %s %s %zu %zu\n", row->owner, *row->field ? row->field : "-", row->kind,
                         row->offset, row->size);
    }
    return used + 1;
}

/// From now on sentences name Python's parameters in the place of the program's options.
KM_API void km_python_wording(void);
void km_python_wording(void) {
    km_wording_of_python(1);
}

/// Whether a column of whole numbers that is called this is an id, as for tables that the program reads.
KM_API int km_python_name_is_id(const char *name);
int km_python_name_is_id(const char *name) {
    return km_name_is_id(name);
}

/// What a fit asks while it runs. Functions of the interpreter are handed in, so that this file is of no one version of
/// Python.
typedef struct km_python_progress {
    int (*lock)(void);          ///< PyGILState_Ensure.
    void (*unlock)(int);        ///< PyGILState_Release.
    int (*check_signals)(void); ///< PyErr_CheckSignals, which runs what Python does on Ctrl-C.
    void (*fetch)(void **type, void **value, void **traceback); ///< PyErr_Fetch.
    /// Shows how far the fit is; non-zero: it stops. NULL: nothing is shown.
    int (*show)(const char *phase, int64_t done, int64_t total, int64_t passes);
    double every_s;     ///< Seconds between two questions at least.
    double asked_s;     ///< When it was asked last; 0 at first.
    double most_s;      ///< Seconds after which a fit that iterates ends with what it has; 0: it goes on.
    void *exception[3]; ///< What a signal raised, for PyErr_Restore; NULL: nothing.
} km_python_progress;

/// km_fit_params.progress; `user` is a km_python_progress.
KM_API int km_python_on_progress(void *user, const km_progress *progress);
int km_python_on_progress(void *user, const km_progress *progress) {
    km_python_progress *state = user;
    int is_iterating = !strcmp(progress->phase, "sweep") || !strcmp(progress->phase, "refine");
    if (state->most_s > 0 && progress->elapsed_s > state->most_s && is_iterating)
        return KM_FIT_STOP_WITH_RESULT;
    if (progress->elapsed_s < state->asked_s + state->every_s) return 0;
    state->asked_s = progress->elapsed_s;
    int before = state->lock(), stop = state->check_signals() != 0;
    if (stop) state->fetch(&state->exception[0], &state->exception[1], &state->exception[2]);
    state->unlock(before);
    if (stop || !state->show) return stop;
    return state->show(progress->phase, progress->done, progress->total, progress->passes);
}

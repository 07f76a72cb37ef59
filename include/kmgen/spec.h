// SPDX-License-Identifier: MIT
/// @file
/// A spec says what is wanted: features, the list of K, type, target, restarts, and any plan number that the
/// user fixes instead of the planner. docs/spec.md is its reference for people.
///
/// A spec is its caller's: any number of threads may read one, and one may change it while no other reads. Different
/// specs have nothing in common.
#ifndef KMGEN_SPEC_H
#define KMGEN_SPEC_H
#include <kmgen/kmgen.h>
KM_BEGIN
/// @defgroup spec Spec: what is wanted
/// @{

/// What kind of machine code is for.
typedef enum km_target_kind {
    KM_TARGET_AUTO, ///< Text: CUDA. A fit: CUDA where there is a GPU, else the CPU.
    KM_TARGET_CPU,  ///< C.
    KM_TARGET_CUDA, ///< CUDA C.
} km_target_kind;

/// Instruction set of a CPU target (km_target.arch).
typedef enum km_isa {
    KM_ISA_UNSET,   ///< Not said.
    KM_ISA_GENERIC, ///< Any: C without intrinsics.
    KM_ISA_AVX2,    ///< x86-64 with AVX2 and FMA.
    KM_ISA_AVX512,  ///< x86-64 with AVX-512 F, BW, DQ and VL.
    KM_ISA_NEON,    ///< AArch64.
} km_isa;

/// What to generate for. Unset architectures mean avx2 or sm_90 when text is emitted, so that the same spec
/// gives the same bytes everywhere; JIT takes the machine's own.
typedef struct km_target {
    km_target_kind kind; ///< CPU, CUDA, or not said.
    int32_t arch;        ///< CPU: a km_isa. CUDA: compute capability times ten, e.g. 90. 0: not said.
} km_target;

/// How points lie in the engine's memory: all values, or the nonzeros of each row (CSR, compressed sparse rows).
typedef enum km_layout {
    KM_LAYOUT_AUTO, ///< The one whose pass the cost model estimates to be faster, whatever the table's own is.
    KM_LAYOUT_DENSE, ///< All values.
    KM_LAYOUT_CSR,   ///< Nonzeros with their columns.
    KM_LAYOUT_COUNT  ///< How many there are.
} km_layout;

/// What is near.
typedef enum km_metric {
    KM_METRIC_EUCLIDEAN, ///< Centroids are means.
    /// Rows are divided by their length, centroids after each update: the nearest centroid is the one with the largest
    /// cosine (spherical k-means), and squared distances are 2 (1 - cos).
    KM_METRIC_COSINE,
    KM_METRIC_COUNT ///< How many there are.
} km_metric;

/// A plan number that the user fixed: a name of gen/params.h and its value.
typedef struct km_fixed {
    char name[32]; ///< The number's name, "design" or "algorithm".
    int64_t value; ///< The number; of a word its place in gen/params.h; a km_design, a km_algorithm.
} km_fixed;

/// Sizes of a spec's own arrays.
enum {
    KM_REFINE_AUTO = -1,        ///< km_fit_params.refine: up to a share of the sweep's work.
    KM_REFINE_MAX = 1000000000, ///< Most passes of refinement.
    KM_N_INIT_MAX = 1000000,    ///< Most restarts of a K.
    KM_FIXED_MAX = 32,          ///< Most numbers that a spec fixes.
    KM_WARNINGS_MAX = 2048,     ///< Bytes of a spec's warnings, with the final zero.
};

/// What is wanted. Plain data between km_spec_init and km_spec_clear; to copy it, use km_spec_copy. `clusters`
/// belongs to the spec: change it through km_spec_set_clusters only.
typedef struct km_spec {
    char name[KM_NAME_MAX]; ///< A C identifier; names files and kernels. Default "kmeans".
    int64_t features;  ///< d, 1..KM_FEATURES_MAX; 0 takes it from the data. Default 0. Dense points have at
                       ///< most KM_FEATURES_DENSE_MAX.
    int32_t *clusters; ///< The Ks: ascending, different, 1..KM_CLUSTERS_MAX. Default NULL.
    int64_t clusters_count; ///< 0 takes 2..min(20, n-1) from the data. Default 0.
    km_type type;           ///< Default KM_FLOAT32.
    km_target target;       ///< Default KM_TARGET_AUTO, 0.
    int64_t n_init;         ///< Independent starts of each K, 1..1,000,000. Default 10.
    int32_t n_init_given;   ///< Non-zero: the YAML text says so. Default 0.
    int64_t max_iter;       ///< km_fit_params.max_iter, where that is 0. Default 300.
    double tol;             ///< km_fit_params.tol, where that is KM_TOL_SPEC. Default 1e-4.
    km_layout layout;       ///< Default KM_LAYOUT_AUTO.
    km_metric metric;       ///< Default KM_METRIC_EUCLIDEAN.
    int64_t refine;         ///< km_fit_params.refine, where that is KM_REFINE_AUTO. Default KM_REFINE_AUTO.
    km_fixed fixed
        [KM_FIXED_MAX];  ///< What the user fixed of the plan: change it through km_spec_fix. Default none.
    int64_t fixed_count; ///< Entries of `fixed`.
    /// What was read by a name of the version before, one line each with its newline; "": nothing. km_spec_parse,
    /// km_spec_fix and, in a plan's own spec, a tuning table that was found add to it; km_fit hands it on
    /// (km_result.warnings).
    char warnings[KM_WARNINGS_MAX];
} km_spec;

/// Sets every field to its default. Frees nothing: for a spec that was never initialised.
KM_API void km_spec_init(km_spec *spec);

/// Frees what the initialised spec owns, and initialises it again.
KM_API void km_spec_clear(km_spec *spec);

/// Copies `from` into the initialised `to`, whose list of K is its own. KM_ERROR_MEMORY: `to` is as it was.
KM_API km_status km_spec_copy(km_spec *to, const km_spec *from, km_error *err);

/// Reads the YAML file `path` (docs/spec.md) into the initialised spec, from its defaults: nothing of what it held
/// stays. KM_ERROR_IO, or KM_ERROR_SPEC with "path:line:column: key ...": the spec is as it was. Keys and words of
/// the version before are read, and `warnings` says so.
KM_API km_status km_spec_read(km_spec *spec, const char *path, km_error *err);

/// The same of `size` bytes of `text`, UTF-8, which errors call `path`. KM_ERROR_SPEC, KM_ERROR_USAGE (a negative
/// size).
KM_API km_status km_spec_parse(km_spec *spec, const char *text, int64_t size, const char *path,
                               km_error *err);

/// Sets the list of K from its spelling in a spec: "8", "2..12", "2..20 step 2", "3,5,8" or "[3, 5, 8]".
/// KM_ERROR_SPEC: the list is as it was.
KM_API km_status km_spec_set_clusters(km_spec *spec, const char *text, km_error *err);

/// Sets `refine` from "auto", "none" or a number of passes, as a YAML spec or `--refine` does. KM_ERROR_SPEC.
KM_API km_status km_spec_set_refine(km_spec *spec, const char *text, km_error *err);

/// Sets `layout` from "auto", "dense" or "csr". KM_ERROR_SPEC: it is as it was.
KM_API km_status km_spec_set_layout(km_spec *spec, const char *text, km_error *err);

/// Sets `metric` from "euclidean" or "cosine". KM_ERROR_SPEC: it is as it was.
KM_API km_status km_spec_set_metric(km_spec *spec, const char *text, km_error *err);

/// A metric's name, e.g. "cosine"; "none" when out of range. Static text.
KM_API const char *km_metric_name(km_metric metric);

/// A layout's name, e.g. "csr"; "none" when out of range. Static text.
KM_API const char *km_layout_name(km_layout layout);

/// Sets the target from its spelling: auto, cpu, cpu:generic|avx2|avx512|neon, cuda, cuda:sm_90.
/// KM_ERROR_SPEC: the target is as it was.
KM_API km_status km_spec_set_target(km_spec *spec, const char *text, km_error *err);

/// Fixes one plan number by its name in gen/params.h, e.g. "block", "256" or "design", "registers". Names and words of
/// the version before are taken as those of today, and spec->warnings says so. Fixing it again replaces the value.
/// KM_ERROR_SPEC: there is no such number or word, or the value is out of range. Whether the plan can have it is known
/// when it is made (km_plan_make).
KM_API km_status km_spec_fix(km_spec *spec, const char *name, const char *value, km_error *err);

/// The spec as YAML that km_spec_parse reads back to the same spec (but for `warnings` and `n_init_given`). The text is
/// the caller's: km_text_free. KM_ERROR_MEMORY.
KM_API km_status km_spec_to_yaml(char **out, const km_spec *spec, km_error *err);

/// @}
KM_END
#endif

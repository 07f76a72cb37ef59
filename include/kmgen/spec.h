// SPDX-License-Identifier: MIT
// A spec says what is wanted: features, the list of K, type, target, restarts, and any plan number that the
// user fixes instead of the planner. docs/spec.md is its reference for people.
#ifndef KMGEN_SPEC_H
#define KMGEN_SPEC_H
#include <kmgen/kmgen.h>
KM_BEGIN

typedef enum km_target_kind { KM_TARGET_AUTO, KM_TARGET_CPU, KM_TARGET_CUDA } km_target_kind;

// Instruction set of a CPU target (km_target.arch).
typedef enum km_isa { KM_ISA_UNSET, KM_ISA_GENERIC, KM_ISA_AVX2, KM_ISA_AVX512, KM_ISA_NEON } km_isa;

// What to generate for. Unset architectures mean avx2 or sm_90 when text is emitted, so that the same spec
// gives the same bytes everywhere; JIT takes the machine's own.
typedef struct km_target {
    km_target_kind kind;
    int32_t arch; // CPU: a km_isa. CUDA: compute capability times ten, e.g. 90. 0: not said.
} km_target;

// A plan number that the user fixed: a name of gen/params.h and its value.
typedef struct km_fixed {
    char name[32];
    int64_t value;
} km_fixed;

enum { KM_FIXED_MAX = 32, KM_WARNINGS_MAX = 2048 };

// Plain data. Not thread-safe while it is changed. `clusters` belongs to the spec: change it through
// km_spec_set_clusters only.
typedef struct km_spec {
    char name[KM_NAME_MAX]; // A C identifier; names files and kernels. Default "kmeans".
    int64_t features;       // d, 1..KM_FEATURES_MAX; 0 takes it from the data. Default 0.
    int32_t *clusters;      // The Ks: ascending, different, 1..KM_CLUSTERS_MAX. Default NULL.
    int64_t clusters_count; // 0 takes 2..min(20, n-1) from the data. Default 0.
    km_type type;           // Default KM_FLOAT32.
    km_target target;       // Default KM_TARGET_AUTO, 0.
    int64_t n_init;         // Independent starts of each K, 1..1,000,000. Default 10.
    int32_t n_init_given;   // Non-zero: the YAML text says so. Default 0.
    km_fixed fixed[KM_FIXED_MAX];
    int64_t fixed_count;
    // What was read by a name of the version before, one line each with its newline; "": nothing. km_spec_parse,
    // km_spec_fix and, in a plan's own spec, the tuning file add to it; km_fit hands it on (km_result.warnings).
    char warnings[KM_WARNINGS_MAX];
} km_spec;

KM_API void km_spec_init(km_spec *spec);
KM_API void km_spec_clear(km_spec *spec); // Frees what the spec owns, and initialises it again.

// Copies `from` into the initialised `to`. KM_ERROR_MEMORY.
KM_API km_status km_spec_copy(km_spec *to, const km_spec *from, km_error *err);

// Reads YAML from `path`, or from `size` bytes of `text` which errors call `path`. Fills the initialised
// spec; on failure the spec is as before. KM_ERROR_IO, or KM_ERROR_SPEC with "path:line:column: key ...".
KM_API km_status km_spec_read(km_spec *spec, const char *path, km_error *err);
KM_API km_status km_spec_parse(km_spec *spec, const char *text, int64_t size, const char *path,
                               km_error *err);

// Sets the list of K from its spelling in a spec: "8", "2..12", "2..20 step 2", "3,5,8" or "[3, 5, 8]".
KM_API km_status km_spec_set_clusters(km_spec *spec, const char *text, km_error *err);

// Sets the target from its spelling: auto, cpu, cpu:generic|avx2|avx512|neon, cuda, cuda:sm_90.
KM_API km_status km_spec_set_target(km_spec *spec, const char *text, km_error *err);

// Fixes one plan number by its name in gen/params.h, e.g. "block", "256" or "design", "registers". Names and words of
// the version before are taken as those of today, and spec->warnings says so.
KM_API km_status km_spec_fix(km_spec *spec, const char *name, const char *value, km_error *err);

// The spec as YAML that km_spec_parse reads back to the same spec. Free with km_text_free.
KM_API km_status km_spec_to_yaml(char **out, const km_spec *spec, km_error *err);

KM_END
#endif

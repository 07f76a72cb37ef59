// SPDX-License-Identifier: MIT
// kmgen: one read of the points serves every K and every restart of k-means.
//
// What every other header shares: status, error, log, element types, limits. The line of the program is
//     spec --plan--> plan --emit--> source --build--> module --sweep--> models --select--> selection
// and each noun has its header. `fit.h` holds km_fit, which walks the whole line.
//
// Conventions. n points, d features, k clusters; x points, c centroids; i point, j centroid, f feature.
// Out-pointers come first, `km_error *err` last and may be NULL. A params struct is filled by its
// km_..._params_init; NULL stands for the defaults; after init every stored value means itself. Sizes of
// data are int64_t. The library never prints, exits, or reads environment variables. Structs may change with each minor
// version before 1.0: a program then asks the loader for the library of its own (libkmgen.so.0.1).
#ifndef KMGEN_KMGEN_H
#define KMGEN_KMGEN_H
#include <kmgen/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define KM_BEGIN extern "C" {
#define KM_END }
#else
#define KM_BEGIN
#define KM_END
#endif
#if defined(__GNUC__)
#define KM_API __attribute__((visibility("default")))
#else
#define KM_API
#endif

KM_BEGIN

enum {
    KM_FEATURES_MAX = 65536, // Most features (columns) of a data set.
    KM_CLUSTERS_MAX = 65535, // Largest K.
    KM_RANGE_MAX = 4096,     // Most different K in one sweep.
    KM_NAME_MAX = 64,        // Bytes of a spec's name, with the final zero.
};

// One status for each thing that a caller would do differently.
typedef enum km_status {
    KM_OK = 0,
    KM_ERROR_USAGE,       // An argument of this call is wrong: fix the call.
    KM_ERROR_SPEC,        // The YAML spec is wrong: fix the spec.
    KM_ERROR_PLAN,        // The spec is fine but cannot be planned as asked: relax what is fixed.
    KM_ERROR_COMPILE,     // The compiler refused the source: look at its log.
    KM_ERROR_DEVICE,      // The device, its driver or NVRTC is missing or failed.
    KM_ERROR_DATA,        // The data are wrong: the text names file, row and column.
    KM_ERROR_MEMORY,      // Not enough memory on the host or the device.
    KM_ERROR_IO,          // A file cannot be read or written.
    KM_ERROR_INTERRUPTED, // The progress callback asked to stop.
    KM_ERROR_INTERNAL,    // A bug of kmgen.
} km_status;

// The status's name, e.g. "data". Never NULL. Thread-safe.
KM_API const char *km_status_name(km_status status);

// Belongs to the caller; one sentence: what, where, and the way out. Set on failure only, and the first
// error is kept: a set error is not overwritten until the caller clears text[0].
typedef struct km_error {
    char text[1024];
} km_error;

typedef enum km_log_level { KM_LOG_WARNING, KM_LOG_INFO, KM_LOG_DEBUG } km_log_level;

// Where log lines go. `line` gets one line without its newline, "noun: what happened, numbers with units".
// It may be called from any thread that runs a call of this library, never from two at once for one call.
typedef struct km_log {
    void (*line)(void *user, km_log_level level, const char *text);
    void *user;
} km_log;

// Element type of points, centroids and kernels. Sums and scores are always double or wider.
typedef enum km_type { KM_FLOAT32, KM_FLOAT64 } km_type;

// Devices: CUDA ordinals from 0 up, and these.
enum {
    KM_HOST = -1,        // The CPU. The default.
    KM_DEVICE_AUTO = -2, // The first CUDA device that works, else the CPU.
};

// Version of the library that is loaded, e.g. "0.1.0".
KM_API const char *km_version(void);

// Parts that a build of this library may leave out: X(part, "its name", "what it is for", "how to get it").
#define KM_PARTS(X)                                                                                          \
    X(CAIRO, "cairo", "pictures", "-Dcairo=enabled and libcairo2-dev")                                       \
    X(OPENMP, "OpenMP", "several threads", "-Dopenmp=enabled and gcc, or clang and libomp-dev")              \
    X(ZLIB, "zlib", "tables packed by gzip", "-Dzlib=enabled and zlib1g-dev")

typedef enum km_part {
#define KM_PART_ENUM(part, name, purpose, remedy) KM_PART_##part,
    KM_PARTS(KM_PART_ENUM)
#undef KM_PART_ENUM
} km_part;

// Non-zero where the library that is loaded was built with that part. What needs one that is missing fails with a
// sentence that names it; without OpenMP all runs on one thread, with the same results.
KM_API int km_built_with(km_part part);

// Large memory that a fit gave back is kept for the next one, which would else wait for the system to clear new pages
// (a third of a short fit). `bytes`: how much may be kept, 0: nothing, and what is kept is freed now; < 0: the default
// again, a sixteenth of the machine's memory and 512 MiB at most. The host's memory only. Thread-safe.
KM_API void km_memory_keep(int64_t bytes);

// Makes text that may hold names of a user's file fit for a terminal, in place: line ends and tabs become spaces, bytes
// that a terminal would obey (escape and other control characters, also those of 8 bits) and what is no UTF-8 become
// '?'. Errors and log lines come like that; names in results, JSON and models are as the file has them.
KM_API void km_text_plain(char *text);

// Frees text that a function of this library returned as `char **`. NULL is allowed.
KM_API void km_text_free(char *text);

KM_END
#endif

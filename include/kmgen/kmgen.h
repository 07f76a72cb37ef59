// SPDX-License-Identifier: MIT
/// @file
/// What every other header shares: status, error, log, element types, limits; and what holds for all functions.

/// @mainpage The C interface
/// kmgen: one read of the points serves every K and every restart of k-means. The line of the program is
/// @code
///     spec --plan--> plan --emit--> source --build--> module --sweep--> models --select--> selection
/// @endcode
/// and each noun has its header. fit.h holds km_fit, which walks the whole line.
///
/// What holds for every function, unless its comment says otherwise:
///
/// - Names. n points, d features, k clusters; x points, c centroids; i point, j centroid, f feature. Tables are in C
///   order: "k x d" is row j, column f at [j * d + f]. Sizes of data are int64_t.
/// - Arguments. Out-pointers come first, `km_error *err` last and may be NULL. A pointer must not be NULL where the
///   comment does not allow it. A params struct is filled by its km_..._params_init and then changed; NULL stands for
///   the defaults. Where 0, NULL or another value stands for a default, the field's comment says so.
/// - Errors. A comment names the statuses that a caller can do something about. KM_ERROR_MEMORY may come from every
///   function with a status, KM_ERROR_INTERNAL is a bug. After a failure what was to be made is NULL or as it was
///   before, and needs no destroying.
/// - Ownership. What a `_create`, `_open`, `_build`, `_read` or km_fit made is the caller's, and freed by the function
///   of that noun ending in `_destroy`, which sets the pointer to NULL and allows a NULL one. A struct that has an
///   `_init` is initialised once, and what it came to own is freed by `_clear`. Arguments are read during the call
///   only, and what is kept of them is copied.
/// - Lifetime. A pointer that a function returns belongs to the object that was asked, and lives as long as it.
/// - Threads. Calls may run at the same time, as long as no object that one of them may change (a pointer without
///   const) is given to another one.
/// - The library never prints, exits, or reads environment variables.
///
/// Structs may change with each minor version before 1.0: a program then asks the loader for the library of its own
/// headers (libkmgen.so.0.1).
#ifndef KMGEN_KMGEN_H
#define KMGEN_KMGEN_H
#include <kmgen/version.h>
#include <stddef.h>
#include <stdint.h>

// Around the declarations of a header, so that C++ finds C's functions.
#ifdef __cplusplus
#define KM_BEGIN extern "C" {
#define KM_END }
#else
#define KM_BEGIN
#define KM_END
#endif
// Before each function that the shared library exports.
#if defined(__GNUC__)
#define KM_API __attribute__((visibility("default")))
#else
#define KM_API
#endif

KM_BEGIN
/// @defgroup base Base: status, errors, log, types
/// @{

enum {
    KM_FEATURES_MAX = 2147483647,  ///< Most features (columns) of a data set.
    KM_FEATURES_DENSE_MAX = 65536, ///< Most features of points that are not CSR.
    KM_CLUSTERS_MAX = 65535,       ///< Largest K.
    KM_RANGE_MAX = 4096,           ///< Most different K in one sweep.
    KM_NAME_MAX = 64,              ///< Bytes of a spec's name, with the final zero.
};

/// One status for each thing that a caller would do differently.
typedef enum km_status {
    KM_OK = 0,            ///< Done.
    KM_ERROR_USAGE,       ///< An argument of this call is wrong: fix the call.
    KM_ERROR_SPEC,        ///< The YAML spec is wrong: fix the spec.
    KM_ERROR_PLAN,        ///< The spec is fine but cannot be planned as asked: relax what is fixed.
    KM_ERROR_COMPILE,     ///< The compiler refused the source: look at its log.
    KM_ERROR_DEVICE,      ///< The device, its driver or NVRTC is missing or failed.
    KM_ERROR_DATA,        ///< The data are wrong: the text names file, row and column.
    KM_ERROR_MEMORY,      ///< Not enough memory on the host or the device.
    KM_ERROR_IO,          ///< A file cannot be read or written.
    KM_ERROR_INTERRUPTED, ///< The progress callback asked to stop.
    KM_ERROR_INTERNAL,    ///< A bug of kmgen.
} km_status;

/// The status's name, e.g. "data"; "unknown" for what is none. Static text.
KM_API const char *km_status_name(km_status status);

/// Belongs to the caller; one sentence: what, where, and the way out. Set on failure only, and the first
/// error is kept: a set error is not overwritten until the caller clears text[0].
typedef struct km_error {
    char text[1024]; ///< The sentence, without a newline; "": no error. Start with it empty.
} km_error;

/// How much a line of a km_log matters.
typedef enum km_log_level {
    KM_LOG_WARNING, ///< The result may not be what the caller meant.
    KM_LOG_INFO,    ///< What was decided, and how long it took.
    KM_LOG_DEBUG,   ///< Details for who works on kmgen.
} km_log_level;

/// Where log lines go. The struct, and what `user` points to, must live as long as the call that it is given to.
typedef struct km_log {
    /// Gets one line without its newline, "noun: what happened, numbers with units", valid during the call. It may be
    /// called from any thread that runs a call of this library, never from two at once for one call.
    void (*line)(void *user, km_log_level level, const char *text);
    void *user; ///< Handed to `line`.
} km_log;

/// Element type of points, centroids and kernels. Sums and scores are always double or wider.
typedef enum km_type {
    KM_FLOAT32, ///< IEEE 754 binary32.
    KM_FLOAT64, ///< IEEE 754 binary64.
} km_type;

/// Devices: CUDA ordinals from 0 up, and these.
enum {
    KM_HOST = -1,        ///< The CPU. The default.
    KM_DEVICE_AUTO = -2, ///< The first CUDA device that works, else the CPU.
};

/// Version of the library that is loaded, e.g. "0.1.0"; KM_VERSION is that of the headers. Static text.
KM_API const char *km_version(void);

/// Parts that a build of this library may leave out: X(part, "its name", "what it is for", "how to get it").
#define KM_PARTS(X)                                                                                          \
    X(CAIRO, "cairo", "pictures", "-Dcairo=enabled and libcairo2-dev")                                       \
    X(OPENMP, "OpenMP", "several threads", "-Dopenmp=enabled and gcc, or clang and libomp-dev")              \
    X(ZLIB, "zlib", "tables packed by gzip", "-Dzlib=enabled and zlib1g-dev")                                \
    X(LIBARCHIVE, "libarchive", "tables packed by xz, zstd, bzip2 or zip; .npz",                             \
      "-Dlibarchive=enabled and libarchive-dev")                                                             \
    X(HDF5, "HDF5", "tables in HDF5 files", "-Dhdf5=enabled and libhdf5-dev")

/// One part, KM_PART_CAIRO and so on: a row of KM_PARTS.
typedef enum km_part {
#define KM_PART_ENUM(part, name, purpose, remedy) KM_PART_##part,
    KM_PARTS(KM_PART_ENUM)
#undef KM_PART_ENUM
} km_part;

/// Non-zero where the library that is loaded was built with that part. What needs one that is missing fails with a
/// sentence that names it; without OpenMP all runs on one thread, with the same results.
KM_API int km_built_with(km_part part);

/// KM_OK where what needs that part can run: the library was built with it, and cairo, libarchive and HDF5, which are
/// opened when something first needs them, are there. Else a sentence with the way out, and KM_ERROR_USAGE. From any
/// thread.
KM_API km_status km_part_check(km_part part, km_error *err);

/// Large memory that a fit gave back is kept for the next one, which would else wait for the system to clear new
/// pages (a third of a short fit). `bytes`: how much may be kept, 0: nothing, and what is kept is freed now; < 0:
/// the default again, a sixteenth of the machine's memory and 512 MiB at most. The host's memory only; for the
/// whole process, and may be called at any time by any thread.
KM_API void km_memory_keep(int64_t bytes);

/// Makes text that may hold names of a user's file fit for a terminal, in place: line ends and tabs become spaces,
/// bytes that a terminal would obey (escape and other control characters, also those of 8 bits) and what is no
/// UTF-8 become '?'. Errors and log lines come like that; names in results, JSON and models are as the file has
/// them.
KM_API void km_text_plain(char *text);

/// Frees text that a function of this library returned as `char **`. NULL is allowed.
KM_API void km_text_free(char *text);

/// @}
KM_END
#endif

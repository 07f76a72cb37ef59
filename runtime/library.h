// SPDX-License-Identifier: MIT
// Libraries that are opened when something first needs them: a program that is linked with cairo, HDF5, libarchive and
// all that these need takes 10 ms longer to start. Their headers say what their functions are; what the loader calls
// them is what the build found (library_needs.c).
#ifndef KM_RUNTIME_LIBRARY_H
#define KM_RUNTIME_LIBRARY_H
#include "../base/error.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct km_library {
    const char *name, *file, *package; // "cairo", "libcairo.so.2", and Debian's package
    const char *symbols;               // names, each with its 0; "" ends them
    void *addresses;                   // of these, in this order: a struct of pointers
    pthread_mutex_t lock;
    atomic_int is_open;
} km_library;

// A struct of pointers and the names of what they point to, of a list X(name): functions and variables alike.
#define KM_LIBRARY_POINTER(symbol) __typeof__(symbol) *symbol;
#define KM_LIBRARY_SYMBOL(symbol) #symbol "\0"
#define KM_LIBRARY(library_name, library_file, library_package, list, pointers)                              \
    {                                                                                                        \
        .name = library_name, .file = library_file, .package = library_package,                              \
        .symbols = list(KM_LIBRARY_SYMBOL), .addresses = pointers, .lock = PTHREAD_MUTEX_INITIALIZER         \
    }

// From any thread, as often as one likes. Where it is not there: the status `failed`, and a sentence that begins with
// `what`, unless that is "".
km_status km_library_open(km_library *library, km_status failed, const char *what, km_error *err);

// Each is there where the library is built with it. Before any of its functions is called.
km_status km_cairo_open(km_status failed, const char *what, km_error *err);
km_status km_hdf5_open(km_status failed, const char *what, km_error *err);
km_status km_archive_open(km_status failed, const char *what, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// Machine code of CUDA kernels that comes with the library: of parts of texts that know neither the list of K nor the
// plan's numbers (gen/source.h), compiled when the library was built (write_prebuilt.c). Each architecture has a file,
// KM_PREBUILT_FILE, beside the library or in a folder kmgen there. A part is found by the hash of all that its machine
// code depends on, as in the cache: another text, other options or another version of kmgen find nothing.
#ifndef KM_RUNTIME_CUDA_PREBUILT_H
#define KM_RUNTIME_CUDA_PREBUILT_H
#include <kmgen/kmgen.h>

#define KM_PREBUILT_FILE "sm_%d.kernels"
#define KM_PREBUILT_MAGIC "KMGENSM1"

typedef struct km_prebuilt_hash {
    uint64_t high, low;
} km_prebuilt_hash;

// A file is this, then its entries by ascending key, then what they point to.
typedef struct km_prebuilt_head {
    char magic[8];
    int32_t arch, nvrtc_major, nvrtc_minor, entries_count;
} km_prebuilt_head;

// A part, packed by zlib: the compiler's log, a zero, and the cubin.
typedef struct km_prebuilt_entry {
    km_prebuilt_hash key, check; // `check` of what is unpacked
    int64_t at, packed_size;
    int64_t log_size, size; // of the log with its zero; of both
} km_prebuilt_entry;

km_prebuilt_hash km_prebuilt_hash_of(const void *bytes, int64_t size);
km_prebuilt_hash km_prebuilt_key(int arch, const char *text, int64_t size);
// The entry with this key, or NULL.
const km_prebuilt_entry *km_prebuilt_find(const km_prebuilt_entry *entries, int64_t count,
                                          km_prebuilt_hash key);

// For tests: the one folder that is looked into. NULL: see above.
extern const char *km_cuda_prebuilt_folder;

#endif

// SPDX-License-Identifier: MIT
// Packed inputs: what their first bytes look like, and how they become the bytes that readers see.
#ifndef KM_RUNTIME_READ_UNPACK_H
#define KM_RUNTIME_READ_UNPACK_H
#include "reader.h"

typedef struct km_packing km_packing;
typedef struct km_unpacker km_unpacker;

// A library that unpacks. `source` gives the packed bytes, and outlives the state.
typedef struct km_unpack_library {
    // `part`: of an archive, the entry that is wanted; NULL: the only one.
    km_status (*open)(void **state, km_input *source, const km_packing *packing, const char *part,
                      km_error *err);
    // Some of the next bytes, at most `size`; *got 0: the end.
    km_status (*read)(int64_t *got, void *out, int64_t size, void *state, km_error *err);
    void (*close)(void *state);
    // Of an archive, the name of the entry that is read; else NULL.
    const char *(*entry)(const void *state);
} km_unpack_library;

extern const km_unpack_library km_by_zlib, km_by_libarchive;

struct km_packing {
    const char *name, *extension, *tool; // "gzip", ".gz", and the command that unpacks
    const char *magic;
    int64_t magic_size;
    int is_archive;                   // of entries that have names
    const km_unpack_library *library; // NULL: this build lacks it ...
    const char *lacks;                // ... and its name
};

// Which packing the first bytes are of, or NULL.
const km_packing *km_packing_of(const km_input *input);
// Bytes at the front of a path without the extension of a packing.
size_t km_packing_strip(const char *path, size_t size);

// Takes over what `source` reads; its descriptor stays the caller's.
km_status km_unpacker_create(km_unpacker **out, const km_input *source, const km_packing *packing,
                             const char *part, km_error *err);
void km_unpacker_destroy(km_unpacker **unpacker);
km_status km_unpacker_read(int64_t *got, void *out, int64_t size, km_unpacker *unpacker, km_error *err);
const char *km_unpacker_entry(const km_unpacker *unpacker);
// Packed bytes that were read so far.
int64_t km_unpacker_taken(const km_unpacker *unpacker);

#endif

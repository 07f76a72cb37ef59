// SPDX-License-Identifier: MIT
// The disk cache of compiled modules. An entry is KEY.c or KEY.cu (the source, where the compiler and debuggers
// find it), KEY.log (what the compiler said) and KEY.bin (the binary with a checksum at its end), KEY being 32
// hexadecimal digits. Binaries are written beside and renamed, so that any number of processes may share it.
#ifndef KM_RUNTIME_CACHE_H
#define KM_RUNTIME_CACHE_H
#include "../gen/status.h"
#include <kmgen/module.h>

typedef struct km_cache_entry {
    char source_path[4200], log_path[4200], binary_path[4200];
    char compile_path[4200]; // Where the compiler writes the binary before it is published.
} km_cache_entry;

// Paths of the entry for this key text (all that the binary depends on).
km_status km_cache_entry_of(km_cache_entry *entry, const char *dir, const char *suffix, const char *key_text,
                            int64_t key_size, km_error *err);
// 1 when the binary is there and whole (and is marked as used now); 0 when it must be built; -1 when it is
// there but damaged.
int km_cache_look_up(const km_cache_entry *entry);
// Adds the checksum to what the compiler wrote and moves it into place.
km_status km_cache_publish(const km_cache_entry *entry, km_error *err);
// Removes the least recently used entries, but never this one, until the folder holds at most bytes_max.
void km_cache_trim(const char *dir, int64_t bytes_max, const km_cache_entry *keep);
// Removes the entry's files (a module without a cache folder).
void km_cache_remove(const km_cache_entry *entry);

#endif

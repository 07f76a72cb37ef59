// SPDX-License-Identifier: MIT
// The disk cache of compiled modules. An entry is KEY.c or KEY.cu (the source, where the compiler and debuggers find
// it), KEY.log (what the compiler said) and KEY.bin (the binary with a checksum at its end), KEY being 32 hexadecimal
// digits. KEY.todo is a text that is still to be compiled (unfinished.h). Any number of processes may share it, also
// those that do not see each other's numbers: files appear whole, under names of their own before, and KEY.lock is
// locked while the entry is built.
//
// Entries are code that is run, so the folder must be the user's own: it belongs to the effective user, nobody else may
// write to it, and nobody else may put another in its place: each folder above it, but for /, belongs to the user or to
// root and is written to by nobody else, or is sticky as /tmp is. A group whose number is the user's own (what many
// systems give each user) counts as the user. Links in the path are followed first; the folders that the system then
// names are the ones that are looked at and used. Entries are opened without following links, and must be the user's
// too. What was checked is what is handed on: bytes in memory.
#ifndef KM_RUNTIME_CACHE_H
#define KM_RUNTIME_CACHE_H
#include "../base/error.h"
#include <kmgen/module.h>

struct km_asking; // asking.h

#define KM_CACHE_TODO ".todo"
enum { KM_CACHE_KEY_SIZE = 33, KM_CACHE_PATH_MAX = 4000 };

// A folder that was found to be safe.
typedef struct km_cache {
    char path[KM_CACHE_PATH_MAX + 1]; // absolute, without links
    int is_private;                   // of this one build
} km_cache;

// Makes the folder where it is missing. KM_ERROR_IO: it cannot be made or looked at. KM_ERROR_USAGE: others could have
// written to it. One that cannot be written to still gives what it holds.
km_status km_cache_open(km_cache *cache, const char *dir, km_error *err);
// A new folder in /tmp that is nobody else's; km_cache_close removes it with what the build left there.
km_status km_cache_open_private(km_cache *cache, km_error *err);
void km_cache_close(km_cache *cache);
// Whether more can be written there: a full disk shows only when something is. KM_ERROR_IO.
km_status km_cache_has_room(const km_cache *cache, km_error *err);

typedef struct km_cache_entry {
    const km_cache *cache;
    char key[KM_CACHE_KEY_SIZE];
    char source_path[4200], log_path[4200], binary_path[4200];
    char
        compile_path[4200]; // Where the compiler writes the binary before it is published: a name of its own.
    int lock;               // -1: not locked
} km_cache_entry;

// Paths of the entry for this key text (all that the binary depends on).
void km_cache_entry_of(km_cache_entry *entry, const km_cache *cache, const char *suffix, const char *key_text,
                       int64_t key_size);
// 1 when the binary is there and whole (and is marked as used now): `*bytes`, without the checksum, are the caller's;
// 0 when it must be built; -1 when it is there but damaged, or not the user's own.
int km_cache_look_up(const km_cache_entry *entry, char **bytes, int64_t *size);
// What the compiler said, or NULL; the caller's.
char *km_cache_log(const km_cache_entry *entry);
// Waits until no other thread or process builds this entry, and locks it; look again then, as another may have built
// it. The system takes a lock back when its process ends, however it ends. Where the file system has no locks, after
// two minutes, and where `asking` (NULL: nobody asks) stops, it goes on without: then two build the same, which costs
// time only.
void km_cache_lock(km_cache_entry *entry, struct km_asking *asking);
// Without waiting: 0 where another has the lock.
int km_cache_try_lock(km_cache_entry *entry);
void km_cache_unlock(km_cache_entry *entry);
// A file of the cache that only the user can have written, whole, with a zero behind it: 1, and the bytes are the
// caller's; 0: there is none; -1: it is something else.
int km_cache_read_own(char **bytes, int64_t *size, const char *path);
// The path of the oldest KEY.todo; 0: there is none.
int km_cache_oldest_todo(char *path, size_t size, const km_cache *cache);
// Keeps the binary with its checksum.
km_status km_cache_publish(const km_cache_entry *entry, const char *bytes, int64_t size, km_error *err);
// Removes what killed processes left, and the least recently used entries, but never this one, until the folder holds
// at most bytes_max.
void km_cache_tidy(const km_cache *cache, int64_t bytes_max, const km_cache_entry *keep);

#endif

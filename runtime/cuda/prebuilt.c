// SPDX-License-Identifier: MIT
#include "prebuilt.h"
#include "../file.h"
#include "cuda.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>

const char *km_cuda_prebuilt_folder;

km_prebuilt_hash km_prebuilt_hash_of(const void *bytes, int64_t size) {
    XXH128_hash_t hash = XXH3_128bits(bytes, (size_t)size);
    return (km_prebuilt_hash){hash.high64, hash.low64};
}

km_prebuilt_hash km_prebuilt_key(int arch, const char *text, int64_t size) {
    char options[256], head[320];
    km_nvrtc_options(options, sizeof options, arch);
    int head_size = snprintf(head, sizeof head, "kmgen %s\n%s\n", KM_VERSION, options);
    XXH128_hash_t hash = XXH3_128bits_withSeed(text, (size_t)size, km_prebuilt_hash_of(head, head_size).low);
    return (km_prebuilt_hash){hash.high64, hash.low64};
}

const km_prebuilt_entry *km_prebuilt_find(const km_prebuilt_entry *entries, int64_t count,
                                          km_prebuilt_hash key) {
    int64_t from = 0, to = count;
    while (from < to) {
        int64_t mid = (from + to) / 2;
        km_prebuilt_hash found = entries[mid].key;
        if (found.high == key.high && found.low == key.low) return &entries[mid];
        if (found.high < key.high || (found.high == key.high && found.low < key.low))
            from = mid + 1;
        else
            to = mid;
    }
    return NULL;
}

// The file of this architecture, in the folder of the library or in one below it; -1: there is none.
static int open_file(int arch) {
    static const char *const below[] = {"/kmgen/", "/"};
    const char *folder = km_cuda_prebuilt_folder;
    int size = folder ? (int)strlen(folder) : 0, file = -1;
    Dl_info own;
    if (!folder && dladdr(&km_cuda_prebuilt_folder, &own) && own.dli_fname) {
        const char *slash = strrchr(own.dli_fname, '/');
        folder = slash ? own.dli_fname : ".";
        size = slash ? (int)(slash - folder) : 1;
    }
    for (size_t i = 0; folder && file < 0 && i < sizeof below / sizeof *below; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%.*s%s" KM_PREBUILT_FILE, size, folder, below[i], arch);
        file = open(path, O_RDONLY | O_CLOEXEC);
    }
    return file;
}

// NULL, too, where the size is not one that such a file has.
static void *read_at(int file, int64_t at, int64_t size) {
    return size > 0 && size < 1 << 28 ? km_file_read_part(file, at, size) : NULL;
}

// What an entry holds, if it is whole; NULL: it is not.
static char *unpack(int file, const km_prebuilt_entry *entry) {
    char *packed = read_at(file, entry->at, entry->packed_size);
    char *bytes = packed && entry->size > entry->log_size && entry->log_size > 0 && entry->size < 1 << 28
                      ? malloc((size_t)entry->size)
                      : NULL;
    uLongf size = (uLongf)entry->size;
    int is_whole =
        bytes &&
        uncompress((Bytef *)bytes, &size, (const Bytef *)packed, (uLong)entry->packed_size) == Z_OK &&
        size == (uLongf)entry->size && !bytes[entry->log_size - 1];
    km_prebuilt_hash check = is_whole ? km_prebuilt_hash_of(bytes, entry->size) : (km_prebuilt_hash){0, 0};
    free(packed);
    if (is_whole && check.high == entry->check.high && check.low == entry->check.low) return bytes;
    free(bytes);
    return NULL;
}

static char *look_up(km_prebuilt_entry *entry, int file, const km_cuda_device *device, const char *text,
                     int64_t text_size) {
    int arch = device->base.facts.target.arch;
    km_prebuilt_head *head = read_at(file, 0, sizeof *head);
    km_prebuilt_entry *entries = NULL;
    const km_prebuilt_entry *found = NULL;
    // Machine code of a newer major version may need a newer driver.
    if (head && !memcmp(head->magic, KM_PREBUILT_MAGIC, sizeof head->magic) && head->arch == arch &&
        head->nvrtc_major <= device->driver_major)
        entries = read_at(file, sizeof *head, head->entries_count * (int64_t)sizeof *entries);
    if (entries)
        found = km_prebuilt_find(entries, head->entries_count, km_prebuilt_key(arch, text, text_size));
    if (found) *entry = *found;
    free(head);
    free(entries);
    return found ? unpack(file, entry) : NULL;
}

int km_cuda_prebuilt(char **binary, int64_t *size, char **log, const km_device *base, const char *text,
                     int64_t text_size) {
    const km_cuda_device *device = (const km_cuda_device *)base;
    km_prebuilt_entry entry;
    int file = open_file(device->base.facts.target.arch);
    if (file < 0) return 0;
    char *bytes = look_up(&entry, file, device, text, text_size);
    close(file);
    if (!bytes) return 0;
    *size = entry.size - entry.log_size;
    *binary = malloc((size_t)*size);
    *log = malloc((size_t)entry.log_size);
    int is_there = *binary && *log;
    if (is_there) {
        memcpy(*log, bytes, (size_t)entry.log_size);
        memcpy(*binary, bytes + entry.log_size, (size_t)*size);
    }
    free(bytes);
    return is_there; // else the caller frees what there is
}

// SPDX-License-Identifier: MIT
#include "cache.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { KEY_DIGITS = 32, TRAILER_SIZE = 56 };
#define TRAILER_MAGIC "KMGENSUM"

static void hash_text(char *hex, const void *bytes, int64_t size) {
    XXH128_hash_t hash = XXH3_128bits(bytes, (size_t)size);
    snprintf(hex, KEY_DIGITS + 1, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

km_status km_cache_entry_of(km_cache_entry *entry, const char *dir, const char *suffix, const char *key_text,
                            int64_t key_size, km_error *err) {
    char key[KEY_DIGITS + 1];
    if (strlen(dir) > 4000)
        return km_fail(err, KM_ERROR_IO, "the cache folder's path is too long: %.80s...", dir);
    KM_TRY(km_folder_make(dir, err));
    hash_text(key, key_text, key_size);
    snprintf(entry->source_path, sizeof entry->source_path, "%s/%s%s", dir, key, suffix);
    snprintf(entry->log_path, sizeof entry->log_path, "%s/%s.log", dir, key);
    snprintf(entry->binary_path, sizeof entry->binary_path, "%s/%s.bin", dir, key);
    snprintf(entry->compile_path, sizeof entry->compile_path, "%s/%s.%ld.tmp", dir, key, (long)gettid());
    return KM_OK;
}

// The trailer: magic, 32 digits of the checksum of all bytes before it, 16 digits of their count.
static void make_trailer(char *trailer, const char *bytes, int64_t size) {
    char hex[KEY_DIGITS + 1], text[TRAILER_SIZE + 1];
    hash_text(hex, bytes, size);
    snprintf(text, sizeof text, "%s%s%016llx", TRAILER_MAGIC, hex, (unsigned long long)size);
    memcpy(trailer, text, TRAILER_SIZE);
}

int km_cache_look_up(const km_cache_entry *entry) {
    char *bytes;
    int64_t size;
    if (access(entry->binary_path, R_OK) != 0) return 0;
    if (km_file_read(&bytes, &size, entry->binary_path, 0, NULL) != KM_OK) return -1;
    int whole = 0;
    if (size > TRAILER_SIZE) {
        char trailer[TRAILER_SIZE];
        make_trailer(trailer, bytes, size - TRAILER_SIZE);
        whole = memcmp(trailer, bytes + size - TRAILER_SIZE, TRAILER_SIZE) == 0;
    }
    free(bytes);
    if (whole) utimensat(AT_FDCWD, entry->binary_path, NULL, 0);
    return whole ? 1 : -1;
}

km_status km_cache_publish(const km_cache_entry *entry, km_error *err) {
    char *bytes, trailer[TRAILER_SIZE];
    int64_t size;
    KM_TRY(km_file_read(&bytes, &size, entry->compile_path, 0, err));
    make_trailer(trailer, bytes, size);
    km_file_writer writer;
    km_status status = km_file_begin(&writer, entry->binary_path, err);
    if (status == KM_OK) {
        fwrite(bytes, 1, (size_t)size, writer.stream);
        fwrite(trailer, 1, TRAILER_SIZE, writer.stream);
        status = km_file_commit(&writer, err);
    }
    free(bytes);
    unlink(entry->compile_path);
    return status;
}

void km_cache_remove(const km_cache_entry *entry) {
    unlink(entry->source_path);
    unlink(entry->log_path);
    unlink(entry->binary_path);
    unlink(entry->compile_path);
}

// Listing ---------------------------------------------------------------------------------------------------

// Non-zero for names that this file's code makes, and nothing else.
static int is_ours(const char *name) {
    for (int i = 0; i < KEY_DIGITS; i++)
        if (!strchr("0123456789abcdef", name[i]) || !name[i]) return 0;
    const char *suffix = name + KEY_DIGITS;
    if (!strcmp(suffix, ".c") || !strcmp(suffix, ".cu") || !strcmp(suffix, ".log") || !strcmp(suffix, ".bin"))
        return 1;
    return 0;
}

// Files that a writer left when it was killed: ours, temporary, and old enough that nobody writes them now.
static int is_leftover(const char *name, const struct stat *info) {
    size_t length = strlen(name);
    if (length <= KEY_DIGITS + 4 || strcmp(name + length - 4, ".tmp")) return 0;
    for (int i = 0; i < KEY_DIGITS; i++)
        if (!strchr("0123456789abcdef", name[i])) return 0;
    return name[KEY_DIGITS] == '.' && info->st_mtim.tv_sec + 3600 < time(NULL);
}

typedef struct cache_file {
    char name[256];
    int64_t bytes;
    struct timespec used;
} cache_file;

typedef struct cache_list {
    cache_file *files;
    int64_t count, capacity, bytes, entries;
} cache_list;

static int list_add(cache_list *list, int folder, const char *name) {
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return 1;
    if (!is_ours(name) && !is_leftover(name, &info)) return 1;
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? list->capacity * 2 : 64;
        cache_file *files = realloc(list->files, (size_t)capacity * sizeof *files);
        if (!files) return 0;
        list->files = files;
        list->capacity = capacity;
    }
    cache_file *file = &list->files[list->count++];
    snprintf(file->name, sizeof file->name, "%s", name);
    file->bytes = info.st_size;
    file->used = info.st_mtim;
    list->bytes += file->bytes;
    size_t length = strlen(name);
    if (length > 4 && !strcmp(name + length - 4, ".bin")) list->entries++;
    return 1;
}

static km_status list_folder(cache_list *list, const char *dir, km_error *err) {
    *list = (cache_list){0};
    DIR *folder = opendir(dir);
    if (!folder) {
        if (errno == ENOENT) return KM_OK; // nothing was cached yet
        return km_fail(err, KM_ERROR_IO, "cannot look into the cache folder %s: %s", dir, strerror(errno));
    }
    struct dirent *item;
    int good = 1;
    while (good && (item = readdir(folder))) good = list_add(list, dirfd(folder), item->d_name);
    closedir(folder);
    return good
               ? KM_OK
               : km_fail_memory(err, "the list of cache entries", list->count * (int64_t)sizeof *list->files);
}

static void remove_named(const char *dir, const char *name) {
    char path[4600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

static int by_use(const void *a, const void *b) {
    const cache_file *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

void km_cache_trim(const char *dir, int64_t bytes_max, const km_cache_entry *keep) {
    cache_list list;
    if (list_folder(&list, dir, NULL) != KM_OK || list.bytes <= bytes_max) {
        free(list.files);
        return;
    }
    const char *slash = strrchr(keep->binary_path, '/');
    const char *kept = slash ? slash + 1 : keep->binary_path;
    qsort(list.files, (size_t)list.count, sizeof *list.files, by_use);
    for (int64_t i = 0; i < list.count && list.bytes > bytes_max; i++) {
        if (!strncmp(list.files[i].name, kept, KEY_DIGITS)) continue;
        remove_named(dir, list.files[i].name);
        list.bytes -= list.files[i].bytes;
    }
    free(list.files);
}

km_status km_cache_look(km_cache_stats *stats, const char *cache_dir, km_error *err) {
    cache_list list;
    *stats = (km_cache_stats){sizeof *stats, 0, 0};
    km_status status = list_folder(&list, cache_dir, err);
    stats->entries_count = list.entries;
    stats->bytes = list.bytes;
    free(list.files);
    return status;
}

km_status km_cache_clear(km_cache_stats *removed, const char *cache_dir, km_error *err) {
    cache_list list;
    km_status status = list_folder(&list, cache_dir, err);
    if (removed) *removed = (km_cache_stats){sizeof *removed, list.entries, list.bytes};
    for (int64_t i = 0; i < list.count; i++) remove_named(cache_dir, list.files[i].name);
    free(list.files);
    return status;
}

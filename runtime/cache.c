// SPDX-License-Identifier: MIT
#include "cache.h"
#include "../base/error.h"
#include "asking.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { KEY_DIGITS = KM_CACHE_KEY_SIZE - 1, TRAILER_SIZE = 56 };
#define TRAILER_MAGIC "KMGENSUM"

// The folder -------------------------------------------------------------------------------------------------

// A group whose number is the user's is one that the system made for this user alone.
static int others_may_write(const struct stat *info) {
    int is_own_group = info->st_gid == geteuid() && info->st_gid == getegid();
    return (info->st_mode & S_IWOTH) || ((info->st_mode & S_IWGRP) && !is_own_group);
}

static km_status refuse_folder(const char *path, const struct stat *info, km_error *err) {
    if (others_may_write(info))
        return km_fail(
            err, KM_ERROR_USAGE,
            "code would be run that others may have written, as mode %04o of %s permits; chmod go-w "
            "makes it safe",
            (unsigned)info->st_mode & 07777, path);
    return km_fail(err, KM_ERROR_USAGE,
                   "code would be run that another may have written: %s belongs to user %u, not to %u", path,
                   (unsigned)info->st_uid, (unsigned)geteuid());
}

// `path` is absolute, without links. The folder / itself is not checked: who can change it can change the C library.
static km_status check_parents(const char *path, km_error *err) {
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    for (char *slash; (slash = strrchr(parent, '/')) && slash != parent;) {
        struct stat info;
        *slash = 0;
        if (lstat(parent, &info) != 0 || !S_ISDIR(info.st_mode))
            return km_fail(err, KM_ERROR_IO, "cannot look at the folder %s: %s", parent, strerror(errno));
        if (info.st_uid != geteuid() && info.st_uid != 0) return refuse_folder(parent, &info, err);
        if (others_may_write(&info) && !(info.st_mode & S_ISVTX)) return refuse_folder(parent, &info, err);
    }
    return KM_OK;
}

static km_status check_folder(km_cache *cache, const char *dir, km_error *err) {
    char path[PATH_MAX];
    struct stat info;
    if (!realpath(dir, path) || lstat(path, &info) != 0)
        return km_fail(err, KM_ERROR_IO, "cannot use the cache folder %s: %s", dir, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return km_fail(err, KM_ERROR_IO, "cannot use the cache folder %s: it is no folder", dir);
    if (strlen(path) > KM_CACHE_PATH_MAX)
        return km_fail(err, KM_ERROR_IO, "the cache folder's path is too long: %.80s...", path);
    if (info.st_uid != geteuid() || others_may_write(&info)) return refuse_folder(path, &info, err);
    strcpy(cache->path, path);
    return check_parents(path, err);
}

// Writes and removes a file: permissions alone do not tell (root, read-only mounts, full disks).
static km_status try_writing(const km_cache *cache, int64_t bytes, km_error *err) {
    char path[KM_CACHE_PATH_MAX + 8], *zeros = calloc(1, (size_t)bytes + 1);
    km_file_writer writer;
    if (!zeros) return km_fail_memory(err, "a file of the cache", bytes);
    snprintf(path, sizeof path, "%s/probe", cache->path);
    km_status status;
    KM_TRY_GOTO(km_file_begin(&writer, path, err));
    km_file_add(&writer, zeros, bytes);
    if (writer.reason)
        status = km_fail(err, KM_ERROR_IO, "cannot write to %s: %s", cache->path, strerror(writer.reason));
    km_file_abandon(&writer);
done:
    free(zeros);
    return status;
}

km_status km_cache_open(km_cache *cache, const char *dir, km_error *err) {
    *cache = (km_cache){0};
    KM_TRY(km_folder_make(dir, err));
    return check_folder(cache, dir, err);
}

km_status km_cache_has_room(const km_cache *cache, km_error *err) {
    enum { ROOM = 1 << 20 }; // more than a module and its source
    return try_writing(cache, ROOM, err);
}

km_status km_cache_check(const char *dir, km_error *err) {
    km_cache cache;
    KM_TRY(km_cache_open(&cache, dir, err));
    return try_writing(&cache, 0, err);
}

km_status km_cache_open_private(km_cache *cache, km_error *err) {
    *cache = (km_cache){"/tmp/kmgen-XXXXXX", 1};
    if (mkdtemp(cache->path)) return KM_OK;
    cache->path[0] = 0;
    return km_fail(err, KM_ERROR_COMPILE,
                   "cannot make a folder in /tmp for the compiler: %s; set a cache folder", strerror(errno));
}

void km_cache_close(km_cache *cache) {
    if (!cache->is_private || !cache->path[0]) return;
    DIR *folder = opendir(cache->path);
    for (struct dirent *item; folder && (item = readdir(folder));)
        if (item->d_name[0] != '.') unlinkat(dirfd(folder), item->d_name, 0);
    if (folder) closedir(folder);
    rmdir(cache->path);
    cache->path[0] = 0;
}

// Entries ----------------------------------------------------------------------------------------------------

static void hash_text(char *hex, const void *bytes, int64_t size) {
    XXH128_hash_t hash = XXH3_128bits(bytes, (size_t)size);
    snprintf(hex, KEY_DIGITS + 1, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

void km_cache_entry_of(km_cache_entry *entry, const km_cache *cache, const char *suffix, const char *key_text,
                       int64_t key_size) {
    char digits[KM_FILE_RANDOM_SIZE];
    const char *dir = cache->path;
    entry->cache = cache;
    entry->lock = -1;
    hash_text(entry->key, key_text, key_size);
    km_file_random(digits);
    snprintf(entry->source_path, sizeof entry->source_path, "%s/%s%s", dir, entry->key, suffix);
    snprintf(entry->log_path, sizeof entry->log_path, "%s/%s.log", dir, entry->key);
    snprintf(entry->binary_path, sizeof entry->binary_path, "%s/%s.bin", dir, entry->key);
    snprintf(entry->compile_path, sizeof entry->compile_path, "%s/%s.%s.tmp", dir, entry->key, digits);
}

// The trailer: magic, 32 digits of the checksum of all bytes before it, 16 digits of their count.
static void make_trailer(char *trailer, const char *bytes, int64_t size) {
    char hex[KEY_DIGITS + 1], text[TRAILER_SIZE + 1];
    hash_text(hex, bytes, size);
    snprintf(text, sizeof text, "%s%s%016llx", TRAILER_MAGIC, hex, (unsigned long long)size);
    memcpy(trailer, text, TRAILER_SIZE);
}

static int is_whole(const char *bytes, int64_t size) {
    char trailer[TRAILER_SIZE];
    if (size <= TRAILER_SIZE) return 0;
    make_trailer(trailer, bytes, size - TRAILER_SIZE);
    return memcmp(trailer, bytes + size - TRAILER_SIZE, TRAILER_SIZE) == 0;
}

// Not through a link.
int km_cache_read_own(char **bytes, int64_t *size, const char *path) {
    struct stat info;
    *bytes = NULL;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return errno == ELOOP ? -1 : 0;
    int is_file = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
    if (is_file && info.st_uid == geteuid() && !others_may_write(&info))
        *bytes = km_file_read_part(file, 0, info.st_size);
    if (*bytes) *size = info.st_size;
    close(file);
    return *bytes ? 1 : is_file ? -1 : 0;
}

int km_cache_look_up(const km_cache_entry *entry, char **bytes, int64_t *size) {
    int found = km_cache_read_own(bytes, size, entry->binary_path);
    if (found > 0 && !is_whole(*bytes, *size)) found = -1;
    if (found > 0) {
        *size -= TRAILER_SIZE;
        utimensat(AT_FDCWD, entry->binary_path, NULL, AT_SYMLINK_NOFOLLOW);
        return 1;
    }
    free(*bytes);
    *bytes = NULL;
    return found;
}

char *km_cache_log(const km_cache_entry *entry) {
    char *text;
    int64_t size;
    km_cache_read_own(&text, &size, entry->log_path);
    return text;
}

km_status km_cache_publish(const km_cache_entry *entry, const char *bytes, int64_t size, km_error *err) {
    char *whole = malloc((size_t)size + TRAILER_SIZE);
    if (!whole) return km_fail_memory(err, "a module", size);
    memcpy(whole, bytes, (size_t)size);
    make_trailer(whole + size, bytes, size);
    km_status status = km_file_replace(entry->binary_path, whole, size + TRAILER_SIZE, err);
    free(whole);
    return status;
}

// Locks ------------------------------------------------------------------------------------------------------

static void lock_path(char *path, size_t size, const char *dir, const char *key) {
    snprintf(path, size, "%s/%.*s.lock", dir, KEY_DIGITS, key);
}

enum { LOCK_NONE = -1, LOCK_BUSY = -2 };

// Opens and locks a lock file. LOCK_BUSY: another process has it, or removed it just now; LOCK_NONE: this file system
// has no locks.
static int try_lock(const char *path) {
    struct stat info;
    int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0) return LOCK_NONE;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
        if (fstat(file, &info) == 0 && info.st_nlink > 0) return file;
        errno = EWOULDBLOCK;
    }
    int is_busy = errno == EWOULDBLOCK;
    close(file);
    return is_busy ? LOCK_BUSY : LOCK_NONE;
}

// The file is removed before it is unlocked: a process that waited for the lock sees that its file has no name any
// more, and opens a new one.
static void give_back(const char *path, int file) {
    unlink(path);
    close(file);
}

void km_cache_lock(km_cache_entry *entry, km_asking *asking) {
    enum { WAIT_MS = 120 * 1000, STEP_MS = 20 }; // steps at most; the first ones are shorter
    char path[4200];
    lock_path(path, sizeof path, entry->cache->path, entry->key);
    for (int waited_ms = 0, step_ms = 1; waited_ms < WAIT_MS && !km_asking_stops(asking);
         waited_ms += step_ms) {
        entry->lock = try_lock(path);
        if (entry->lock != LOCK_BUSY) return;
        nanosleep(&(struct timespec){0, step_ms * 1000000}, NULL);
        step_ms = waited_ms < 1000 ? 2 : STEP_MS;
    }
    entry->lock = LOCK_NONE; // its holder was stopped, or hangs; or nobody wants it any more
}

int km_cache_try_lock(km_cache_entry *entry) {
    char path[4200];
    lock_path(path, sizeof path, entry->cache->path, entry->key);
    entry->lock = try_lock(path);
    return entry->lock != LOCK_BUSY;
}

void km_cache_unlock(km_cache_entry *entry) {
    char path[4200];
    if (entry->lock < 0) return;
    lock_path(path, sizeof path, entry->cache->path, entry->key);
    give_back(path, entry->lock);
    entry->lock = LOCK_NONE;
}

// Listing ----------------------------------------------------------------------------------------------------

static int ends_in(const char *name, const char *end) {
    size_t size = strlen(name), end_size = strlen(end);
    return size >= end_size && strcmp(name + size - end_size, end) == 0;
}

static int has_key(const char *name) {
    for (int i = 0; i < KEY_DIGITS; i++)
        if (!name[i] || !strchr("0123456789abcdef", name[i])) return 0;
    return name[KEY_DIGITS] == '.';
}

// Whether a name is one that this file's code makes.
static int is_entry(const char *name) {
    static const char *const ends[] = {".c", ".cu", ".log", ".bin", KM_CACHE_TODO};
    for (size_t i = 0; has_key(name) && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(name + KEY_DIGITS, ends[i]) == 0) return 1;
    return 0;
}

// Temporary files of a build, which it removes unless it is killed.
static int is_temporary(const char *name) {
    return has_key(name) && (strcmp(name + KEY_DIGITS, ".lock") == 0 || ends_in(name, ".tmp"));
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
    if (!is_entry(name) && !is_temporary(name)) return 1;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(info.st_mode)) return 1;
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? list->capacity * 2 : 64;
        cache_file *files = realloc(list->files, (size_t)capacity * sizeof *files);
        if (!files) return 0;
        list->files = files;
        list->capacity = capacity;
    }
    cache_file *file = &list->files[list->count++];
    snprintf(file->name, sizeof file->name, "%s", name);
    file->bytes = S_ISREG(info.st_mode) ? info.st_size : 0;
    file->used = info.st_mtim;
    list->bytes += file->bytes;
    list->entries += ends_in(name, ".bin");
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

// Removes a temporary file unless its build still runs: then that holds the lock of its key. `own`: the key that the
// caller has locked. Where there are no locks, a file is stale after an hour.
static void sweep_one(const char *dir, const cache_file *file, const char *own) {
    enum { OLD_S = 3600 };
    char path[4200];
    int is_old = file->used.tv_sec + OLD_S < time(NULL);
    if (own && strncmp(file->name, own, KEY_DIGITS) == 0) {
        if (ends_in(file->name, ".tmp")) remove_named(dir, file->name);
        return;
    }
    lock_path(path, sizeof path, dir, file->name);
    int lock = try_lock(path);
    if (lock >= 0 || (lock == LOCK_NONE && is_old)) remove_named(dir, file->name);
    if (lock >= 0) give_back(path, lock);
}

static void sweep_list(const cache_list *list, const char *dir, const char *own) {
    for (int64_t i = 0; i < list->count; i++)
        if (is_temporary(list->files[i].name)) sweep_one(dir, &list->files[i], own);
}

static int by_use(const void *a, const void *b) {
    const cache_file *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

void km_cache_tidy(const km_cache *cache, int64_t bytes_max, const km_cache_entry *keep) {
    cache_list list;
    if (list_folder(&list, cache->path, NULL) == KM_OK) {
        sweep_list(&list, cache->path, keep->lock >= 0 ? keep->key : NULL);
        if (list.files && list.bytes > bytes_max)
            qsort(list.files, (size_t)list.count, sizeof *list.files, by_use);
        for (int64_t i = 0; i < list.count && list.bytes > bytes_max; i++) {
            const cache_file *file = &list.files[i];
            if (is_temporary(file->name) || strncmp(file->name, keep->key, KEY_DIGITS) == 0) continue;
            remove_named(cache->path, file->name);
            list.bytes -= file->bytes;
        }
    }
    free(list.files);
}

// Names alone: a folder of thousands of entries is looked through in a millisecond.
int64_t km_cache_unfinished(const char *cache_dir) {
    int64_t count = 0;
    DIR *folder = opendir(cache_dir);
    for (struct dirent *item; folder && (item = readdir(folder));)
        count += item->d_type != DT_DIR && has_key(item->d_name) &&
                 strcmp(item->d_name + KEY_DIGITS, KM_CACHE_TODO) == 0;
    if (folder) closedir(folder);
    return count;
}

int km_cache_oldest_todo(char *path, size_t size, const km_cache *cache) {
    cache_list list;
    const cache_file *oldest = NULL;
    if (list_folder(&list, cache->path, NULL) == KM_OK)
        for (int64_t i = 0; i < list.count; i++)
            if (ends_in(list.files[i].name, KM_CACHE_TODO) && (!oldest || by_use(&list.files[i], oldest) < 0))
                oldest = &list.files[i];
    if (oldest) snprintf(path, size, "%s/%s", cache->path, oldest->name);
    free(list.files);
    return oldest != NULL;
}

km_status km_cache_look(km_cache_stats *stats, const char *cache_dir, km_error *err) {
    cache_list list;
    *stats = (km_cache_stats){0};
    km_status status = list_folder(&list, cache_dir, err);
    stats->entries_count = list.entries;
    stats->bytes = list.bytes;
    free(list.files);
    return status;
}

km_status km_cache_clear(km_cache_stats *removed, const char *cache_dir, km_error *err) {
    cache_list list;
    km_status status = list_folder(&list, cache_dir, err);
    if (removed) *removed = (km_cache_stats){list.entries, list.bytes};
    for (int64_t i = 0; i < list.count; i++)
        if (is_entry(list.files[i].name)) remove_named(cache_dir, list.files[i].name);
    sweep_list(&list, cache_dir, NULL);
    free(list.files);
    return status;
}

// SPDX-License-Identifier: MIT
#include "file.h"
#include "../base/error.h"
#include "../base/text.h"

#include <kmgen/result.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

void km_file_random(char digits[KM_FILE_RANDOM_SIZE]) {
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits) { // early in a boot: unlikely is enough
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        bits = ((uint64_t)now.tv_nsec << 24) ^ ((uint64_t)gettid() << 8) ^ (uint64_t)(uintptr_t)&now;
    }
    snprintf(digits, KM_FILE_RANDOM_SIZE, "%012llx", (unsigned long long)(bits & 0xffffffffffff));
}

// Temporary names --------------------------------------------------------------------------------------------

static void folder_of(char *folder, size_t size, const char *path) {
    const char *slash = strrchr(path, '/');
    snprintf(folder, size, "%.*s", slash ? (int)(slash - path) + 1 : 2, slash ? path : "./");
}

static void name_temporary(km_file_writer *writer) {
    char folder[4096], digits[KM_FILE_RANDOM_SIZE];
    folder_of(folder, sizeof folder, writer->path);
    km_file_random(digits);
    snprintf(writer->temporary, sizeof writer->temporary, "%s%s%s", folder, KM_FILE_TEMPORARY, digits);
}

// Removes a temporary file that a killed process left. One that still writes holds a lock; where there are no locks,
// the file's age decides.
static void sweep_one(int folder, const char *name) {
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid()) return;
    int file = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return;
    int locked = flock(file, LOCK_EX | LOCK_NB);
    if (locked == 0 || (errno != EWOULDBLOCK && info.st_mtim.tv_sec + 86400 < time(NULL)))
        unlinkat(folder, name, 0);
    close(file);
}

static void sweep(const char *path) {
    char folder_path[4096];
    folder_of(folder_path, sizeof folder_path, path);
    DIR *folder = opendir(folder_path);
    if (!folder) return;
    const size_t head = sizeof KM_FILE_TEMPORARY - 1;
    for (struct dirent *item; (item = readdir(folder));)
        if (strncmp(item->d_name, KM_FILE_TEMPORARY, head) == 0 &&
            strlen(item->d_name) == head + KM_FILE_RANDOM_SIZE - 1)
            sweep_one(dirfd(folder), item->d_name);
    closedir(folder);
}

// Writing ----------------------------------------------------------------------------------------------------

static void fd_path(char path[48], int fd) {
    snprintf(path, 48, "/proc/self/fd/%d", fd);
}

// A file without a name, in the folder where it will get one; -1 where the file system has no such files.
static int open_unnamed(const km_file_writer *writer, mode_t mode) {
    char folder[4096], self[48];
    folder_of(folder, sizeof folder, writer->path);
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (fd < 0) return -1;
    fd_path(self, fd);
    if (access(self, F_OK) == 0) return fd; // without /proc it could not get its name
    close(fd);
    return -1;
}

// A file with a name that nobody has, locked, so that nobody takes it for one that was left.
static int open_named(km_file_writer *writer, mode_t mode) {
    for (int tries = 0; tries < 100; tries++) {
        name_temporary(writer);
        int fd = open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0 && errno == EEXIST) continue;
        if (fd < 0) break;
        struct stat info;
        flock(fd, LOCK_EX);
        if (fstat(fd, &info) == 0 && info.st_nlink > 0) return fd;
        close(fd); // another process removed it before it was locked
    }
    writer->temporary[0] = 0;
    return -1;
}

// Follows links at the end of the path, as opening it would. Zero: errno says why not.
static int follow_links(km_file_writer *writer) {
    struct stat info;
    for (int links = 0; lstat(writer->path, &info) == 0 && S_ISLNK(info.st_mode); links++) {
        char target[4096], folder[4096];
        // A link that the system itself would not follow (another user's in /tmp) is not followed here either.
        if (stat(writer->path, &info) != 0 && errno != ENOENT) return 0;
        ssize_t size = readlink(writer->path, target, sizeof target - 1);
        if (size < 0) return 0;
        target[size] = 0;
        folder_of(folder, sizeof folder, writer->path);
        int length = *target == '/' || !strchr(writer->path, '/')
                         ? snprintf(writer->path, sizeof writer->path, "%s", target)
                         : snprintf(writer->path, sizeof writer->path, "%s%s", folder, target);
        errno = links > 40 ? ELOOP : ENAMETOOLONG;
        if (links > 40 || length >= (int)sizeof writer->path) return 0;
    }
    return 1;
}

// /dev/stdout and the like: names of what is open already.
static int names_open_file(const char *path) {
    return strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/", 6) == 0;
}

static km_status begin(km_file_writer *writer, const char *path, int is_ours, km_error *err) {
    *writer = (km_file_writer){.shown = path, .fd = -1, .is_ours = is_ours};
    if (strlen(path) >= sizeof writer->path)
        return km_fail(err, KM_ERROR_IO, "cannot write %.80s...: the path is longer than %zu bytes", path,
                       sizeof writer->path - 1);
    strcpy(writer->path, path);
    struct stat info;
    int exists = !is_ours && stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode))
        return km_fail(err, KM_ERROR_IO, "cannot write %s: it is a folder; name a file", path);
    // A device or pipe (/dev/null) cannot be replaced by renaming: it is written in place.
    writer->is_in_place = exists && (!S_ISREG(info.st_mode) || names_open_file(path));
    mode_t mode = is_ours ? 0600 : 0666; // the user's mask is applied by the system
    if (writer->is_in_place)
        writer->fd = open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC);
    else if (is_ours || follow_links(writer)) {
        writer->fd = open_unnamed(writer, mode);
        if (writer->fd >= 0)
            flock(writer->fd, LOCK_EX); // for the moment in which it has a temporary name
        else
            writer->fd = open_named(writer, mode);
    }
    if (writer->fd >= 0) return KM_OK;
    return km_fail(err, KM_ERROR_IO,
                   "cannot write %s: %s; check that the folder exists and may be written to", path,
                   strerror(errno));
}

km_status km_file_begin(km_file_writer *writer, const char *path, km_error *err) {
    if (strcmp(path, "-") != 0) return begin(writer, path, 0, err);
    *writer = (km_file_writer){.shown = "standard output", .fd = STDOUT_FILENO, .is_stdout = 1};
    if (fflush(stdout) != 0) writer->reason = errno ? errno : EIO;
    return KM_OK;
}

void km_file_add(km_file_writer *writer, const void *bytes, int64_t size) {
    const char *at = bytes;
    while (size > 0 && !writer->reason) {
        ssize_t done = write(writer->fd, at, (size_t)size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0)
            writer->reason = errno ? errno : EIO;
        else {
            at += done;
            size -= done;
        }
    }
}

// How far into its page an address, or a place in a file, is.
static int64_t in_page(int64_t at) {
    return at % sysconf(_SC_PAGESIZE);
}

char *km_file_reserve(km_file_writer *writer, int64_t size) {
    struct statfs info;
    if (writer->reason || writer->is_stdout || writer->is_in_place) return NULL;
    if (fstatfs(writer->fd, &info) != 0 || info.f_type != TMPFS_MAGIC) return NULL;
    int64_t at = lseek(writer->fd, 0, SEEK_CUR), before = in_page(at);
    if (at < 0 || ftruncate(writer->fd, at + size) != 0) return NULL;
    char *pages =
        mmap(NULL, (size_t)(before + size), PROT_READ | PROT_WRITE, MAP_SHARED, writer->fd, at - before);
    return pages == MAP_FAILED ? NULL : pages + before;
}

// A write to a page that the file system has no room for would end the process. Linux before 5.14 does not give pages
// ahead of it.
int km_file_take_pages(char *part, int64_t size) {
#ifdef MADV_POPULATE_WRITE
    int64_t before = in_page((intptr_t)part);
    return madvise(part - before, (size_t)(before + size), MADV_POPULATE_WRITE) == 0;
#else
    return 0;
#endif
}

void km_file_filled(km_file_writer *writer, char *bytes, int64_t size, int is_whole) {
    int64_t before = in_page((intptr_t)bytes);
    munmap(bytes - before, (size_t)(before + size));
    if (is_whole && lseek(writer->fd, size, SEEK_CUR) < 0) writer->reason = errno;
}

// Gives the new file the mode and owner of the one that it will replace. Where the group cannot be kept, the new group
// may do no more than everybody.
static void keep_mode(const km_file_writer *writer) {
    struct stat old, own;
    if (writer->is_ours || stat(writer->path, &old) != 0 || fstat(writer->fd, &own) != 0) return;
    mode_t mode = old.st_mode & 0777;
    if (old.st_uid != own.st_uid && fchown(writer->fd, old.st_uid, (gid_t)-1) != 0) errno = 0;
    if (old.st_gid != own.st_gid && fchown(writer->fd, (uid_t)-1, old.st_gid) != 0)
        mode = (mode & ~(mode_t)070) | (mode & 07) << 3;
    if (mode != (own.st_mode & 0777) && fchmod(writer->fd, mode) != 0) errno = 0;
}

// Gives a file without a name its final one where no file has that yet, else a temporary one. 0, or the errno.
static int give_name(km_file_writer *writer) {
    char self[48];
    fd_path(self, writer->fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, writer->path, AT_SYMLINK_FOLLOW) == 0) return 0;
    for (int tries = 0; errno == EEXIST && tries < 100; tries++) {
        name_temporary(writer);
        if (linkat(AT_FDCWD, self, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW) == 0) return 0;
        writer->temporary[0] = 0;
    }
    return errno;
}

static int into_place(km_file_writer *writer) {
    keep_mode(writer);
    if (!writer->is_ours && fsync(writer->fd) != 0 && errno != EINVAL) return errno;
    if (!writer->temporary[0]) {
        int reason = give_name(writer);
        if (reason || !writer->temporary[0]) return reason;
    }
    if (rename(writer->temporary, writer->path) != 0) return errno;
    writer->temporary[0] = 0;
    return 0;
}

km_status km_file_commit(km_file_writer *writer, km_error *err) {
    int is_file = !writer->is_stdout && !writer->is_in_place;
    if (!writer->reason && is_file) writer->reason = into_place(writer);
    if (!writer->is_stdout && close(writer->fd) != 0 && !writer->reason) writer->reason = errno;
    writer->fd = -1;
    if (writer->temporary[0]) unlink(writer->temporary);
    if (writer->reason)
        return km_fail(err, KM_ERROR_IO, "cannot write %s: %s", writer->shown, strerror(writer->reason));
    if (is_file) sweep(writer->path);
    return KM_OK;
}

void km_file_abandon(km_file_writer *writer) {
    if (writer->fd < 0) return;
    if (writer->temporary[0]) unlink(writer->temporary);
    if (!writer->is_stdout) close(writer->fd);
    writer->fd = -1;
}

static km_status write_whole(km_file_writer *writer, const void *bytes, int64_t size, km_error *err) {
    km_file_add(writer, bytes, size);
    return km_file_commit(writer, err);
}

km_status km_file_write(const char *path, const void *bytes, int64_t size, km_error *err) {
    km_file_writer writer;
    KM_TRY(km_file_begin(&writer, path, err));
    return write_whole(&writer, bytes, size, err);
}

km_status km_file_replace(const char *path, const void *bytes, int64_t size, km_error *err) {
    km_file_writer writer;
    KM_TRY(begin(&writer, path, 1, err));
    return write_whole(&writer, bytes, size, err);
}

km_status km_output_check(const char *path, km_error *err) {
    km_file_writer writer;
    struct stat info;
    if (strcmp(path, "-") == 0) return KM_OK;
    // Opening a pipe would wait for its reader, and empty a file that is open already.
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode) &&
        (!S_ISREG(info.st_mode) || names_open_file(path))) {
        if (access(path, W_OK) == 0) return KM_OK;
        return km_fail(err, KM_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    KM_TRY(km_file_begin(&writer, path, err));
    km_file_abandon(&writer);
    return KM_OK;
}

// Reading ----------------------------------------------------------------------------------------------------

char *km_file_read_part(int file, int64_t at, int64_t size) {
    char *bytes = malloc((size_t)size + 1);
    int64_t done = 0;
    while (bytes && done < size) {
        ssize_t got = pread(file, bytes + done, (size_t)(size - done), (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += got;
    }
    if (bytes && done == size) {
        bytes[size] = 0;
        return bytes;
    }
    free(bytes);
    return NULL;
}

km_status km_file_read(char **out, int64_t *size, const char *path, int64_t size_max, km_error *err) {
    *out = NULL;
    *size = 0;
    FILE *stream = fopen(path, "rbe");
    if (!stream) return km_fail(err, KM_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    struct stat info;
    km_status status;
    km_text text = {0};
    if (fstat(fileno(stream), &info) == 0 && S_ISDIR(info.st_mode)) {
        fclose(stream);
        return km_fail(err, KM_ERROR_IO, "cannot read %s: it is a folder; name a file", path);
    }
    char part[65536];
    size_t got;
    int is_large = 0;
    while (!is_large && !text.failed && (got = fread(part, 1, sizeof part, stream)) > 0) {
        km_text_add(&text, part, (int64_t)got);
        is_large = size_max && text.size > size_max;
    }
    int reason = ferror(stream) ? errno : 0;
    fclose(stream);
    if (text.failed) {
        status = km_fail_memory(err, path, 2 * text.size);
        km_text_clear(&text);
        return status;
    }
    if (!reason && !is_large) {
        *size = text.size;
        return km_text_take(out, &text, err);
    }
    km_text_clear(&text);
    if (reason) return km_fail(err, KM_ERROR_IO, "cannot read %s to its end: %s", path, strerror(reason));
    return km_fail(err, KM_ERROR_IO, "%s is larger than the %lld bytes that are allowed here", path,
                   (long long)size_max);
}

km_status km_folder_make(const char *path, km_error *err) {
    char part[4096];
    if (strlen(path) >= sizeof part)
        return km_fail(err, KM_ERROR_IO, "the folder's path is too long: %.80s...", path);
    strcpy(part, path);
    for (char *end = part + 1;; end++) {
        if (*end != '/' && *end != 0) continue;
        char kept = *end;
        *end = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return km_fail(err, KM_ERROR_IO, "cannot make the folder %s: %s", part, strerror(errno));
        *end = kept;
        if (!kept) return KM_OK;
    }
}

km_status km_text_write(const char *path, const char *text, km_error *err) {
    return km_file_write(path, text, (int64_t)strlen(text), err);
}

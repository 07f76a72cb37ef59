// SPDX-License-Identifier: MIT
#include "file.h"

#include <kmgen/sweep.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

km_status km_file_begin(km_file_writer *writer, const char *path, km_error *err) {
    *writer = (km_file_writer){0};
    if (strcmp(path, "-") == 0) {
        writer->is_stdout = 1;
        writer->stream = stdout;
        return KM_OK;
    }
    if (strlen(path) >= sizeof writer->path)
        return km_fail(err, KM_ERROR_IO, "cannot write %.80s...: the path is longer than %zu bytes", path,
                       sizeof writer->path - 1);
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return km_fail(err, KM_ERROR_IO, "cannot write %s: it is a folder; name a file", path);
    strcpy(writer->path, path);
    // A device or pipe (/dev/null) cannot be replaced by renaming: it is written in place.
    int in_place = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    if (!in_place) snprintf(writer->temporary, sizeof writer->temporary, "%s.%ld.tmp", path, (long)gettid());
    writer->stream = fopen(in_place ? path : writer->temporary, "wb");
    if (!writer->stream)
        return km_fail(err, KM_ERROR_IO,
                       "cannot write %s: %s; check that the folder exists and may be written to", path,
                       strerror(errno));
    return KM_OK;
}

km_status km_file_commit(km_file_writer *writer, km_error *err) {
    FILE *stream = writer->stream;
    const char *name = writer->is_stdout ? "standard output" : writer->path;
    errno = 0;
    int bad = ferror(stream) || fflush(stream) != 0;
    if (!bad && writer->temporary[0]) bad = fsync(fileno(stream)) != 0;
    int reason = errno;
    if (!writer->is_stdout && fclose(stream) != 0 && !bad) {
        bad = 1;
        reason = errno;
    }
    writer->stream = NULL;
    if (!bad && writer->temporary[0] && rename(writer->temporary, writer->path) != 0) {
        bad = 1;
        reason = errno;
    }
    if (bad) {
        if (writer->temporary[0]) unlink(writer->temporary);
        return km_fail(err, KM_ERROR_IO, "cannot write %s: %s", name, strerror(reason ? reason : EIO));
    }
    return KM_OK;
}

void km_file_abandon(km_file_writer *writer) {
    if (!writer->stream) return;
    if (!writer->is_stdout) fclose(writer->stream);
    if (writer->temporary[0]) unlink(writer->temporary);
    writer->stream = NULL;
}

km_status km_file_write(const char *path, const void *bytes, int64_t size, km_error *err) {
    km_file_writer writer;
    KM_TRY(km_file_begin(&writer, path, err));
    fwrite(bytes, 1, (size_t)size, writer.stream);
    return km_file_commit(&writer, err);
}

km_status km_file_read(char **out, int64_t *size, const char *path, int64_t size_max, km_error *err) {
    *out = NULL;
    *size = 0;
    FILE *stream = fopen(path, "rb");
    if (!stream) return km_fail(err, KM_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    struct stat info;
    km_text text = {0};
    if (fstat(fileno(stream), &info) == 0 && S_ISDIR(info.st_mode)) {
        fclose(stream);
        return km_fail(err, KM_ERROR_IO, "cannot read %s: it is a folder; name a file", path);
    }
    char chunk[65536];
    size_t got;
    while ((got = fread(chunk, 1, sizeof chunk, stream)) > 0) {
        km_text_add(&text, chunk, (int64_t)got);
        if (size_max && text.size > size_max) break;
    }
    int bad = ferror(stream);
    fclose(stream);
    if (bad || (size_max && text.size > size_max)) {
        km_text_clear(&text);
        if (bad) return km_fail(err, KM_ERROR_IO, "cannot read %s to its end: %s", path, strerror(EIO));
        return km_fail(err, KM_ERROR_IO, "%s is larger than the %lld bytes that are allowed here", path,
                       (long long)size_max);
    }
    *size = text.size;
    return km_text_take(out, &text, err);
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

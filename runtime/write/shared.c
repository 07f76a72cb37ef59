// SPDX-License-Identifier: MIT
// The labels of all ranks as one file: each writes its rows at their place.
#include "../file.h"
#include "../share.h"
#include "npy_head.h"
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct shared_file {
    km_share share;
    char path[PATH_MAX];           // where a link leads
    char temporary[PATH_MAX + 64]; // until all have written
    int fd;
    int64_t sets; // labels of a row
} shared_file;

static km_status refuse(const shared_file *s, const char *what, km_error *err) {
    return km_fail(err, KM_ERROR_IO, "%s: %s: %s", s->path, what, strerror(errno));
}

// The same name on all ranks, by digits that rank 0 drew.
static km_status name_temporary(shared_file *s, km_error *err) {
    char digits[KM_FILE_RANDOM_SIZE];
    double drawn = 0;
    if (s->share.ranks->rank == 0) {
        km_file_random(digits);
        drawn = (double)strtoull(digits, NULL, 16); // 48 bits
    }
    KM_TRY(km_share_sum(&s->share, &drawn, 1, err));
    const char *slash = strrchr(s->path, '/');
    snprintf(s->temporary, sizeof s->temporary, "%.*s%s%012llx", slash ? (int)(slash - s->path) + 1 : 2,
             slash ? s->path : "./", KM_FILE_TEMPORARY, (unsigned long long)drawn);
    return KM_OK;
}

// Rank 0 makes the file, locked as long as it has no name of its own.
static km_status create(shared_file *s, const km_result *result, km_error *err) {
    unsigned char head[KM_NPY_HEAD_SIZE];
    struct stat before;
    if (s->share.ranks->rank != 0) return KM_OK;
    s->fd = open(s->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->fd < 0) return refuse(s, "cannot be written", err);
    flock(s->fd, LOCK_EX);
    if (stat(s->path, &before) == 0 && fchmod(s->fd, before.st_mode & 07777) != 0)
        return refuse(s, "its mode cannot be kept", err);
    km_npy_head(head, "<i4", result->rows_all, s->sets > 1 ? s->sets : 0);
    if (pwrite(s->fd, head, sizeof head, 0) != (ssize_t)sizeof head ||
        ftruncate(s->fd, (off_t)sizeof head + result->rows_all * s->sets * (off_t)sizeof(int32_t)) != 0)
        return refuse(s, "cannot be written", err);
    return KM_OK;
}

static km_status write_all(shared_file *s, const char *bytes, int64_t size, off_t at, km_error *err) {
    while (size > 0) {
        ssize_t done = pwrite(s->fd, bytes, (size_t)size, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return refuse(s, "cannot be written", err);
        bytes += done;
        at += done;
        size -= done;
    }
    return KM_OK;
}

// The rows of this rank, some at a time.
static km_status write_rows(shared_file *s, const km_result *result, int all_labels, km_error *err) {
    enum { TOGETHER = 1 << 16 };
    int64_t rows = km_min(result->rows, TOGETHER);
    if (s->fd < 0) s->fd = open(s->temporary, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd < 0)
        return refuse(s, "is not seen by this rank; name a file in a folder that all ranks have", err);
    int32_t *labels = malloc((size_t)(rows * s->sets + 1) * sizeof *labels);
    if (!labels) return km_fail_memory(err, "labels", rows * s->sets * (int64_t)sizeof *labels);
    km_status status = KM_OK;
    for (int64_t first = 0; first < result->rows && status == KM_OK; first += rows) {
        int64_t here = km_min(rows, result->rows - first);
        for (int64_t i = 0; i < here; i++)
            for (int64_t m = 0; m < s->sets; m++)
                labels[i * s->sets + m] =
                    result->models[all_labels ? m : result->selection.best].labels[first + i];
        off_t at = KM_NPY_HEAD_SIZE + (result->first_row + first) * s->sets * (off_t)sizeof *labels;
        status = write_all(s, (const char *)labels, here * s->sets * (int64_t)sizeof *labels, at, err);
    }
    free(labels);
    if (status == KM_OK && fsync(s->fd) != 0 && errno != EINVAL) status = refuse(s, "cannot be written", err);
    return status;
}

static km_status put_in_place(shared_file *s, km_error *err) {
    if (s->share.ranks->rank != 0 || rename(s->temporary, s->path) == 0) return KM_OK;
    return refuse(s, "cannot be put in its place", err);
}

km_status km_shared_labels_write(const char *path, const km_result *result, const km_output_params *params,
                                 km_error *err) {
    shared_file s = {.share = {.ranks = params->communicator}, .fd = -1};
    s.sets = params->all_labels ? result->models_count : 1;
    if (!realpath(path, s.path)) snprintf(s.path, sizeof s.path, "%s", path);
    km_status status = name_temporary(&s, err);
    if (status == KM_OK) status = km_share_agree(&s.share, create(&s, result, err), err);
    if (status == KM_OK)
        status = km_share_agree(&s.share, write_rows(&s, result, params->all_labels, err), err);
    if (status == KM_OK) status = km_share_agree(&s.share, put_in_place(&s, err), err);
    if (status != KM_OK && s.fd >= 0 && s.share.ranks->rank == 0) unlink(s.temporary);
    if (s.fd >= 0) close(s.fd);
    return status;
}

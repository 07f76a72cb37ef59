// SPDX-License-Identifier: MIT
// Files that are never half-written, and whole files in memory.
#ifndef KM_RUNTIME_FILE_H
#define KM_RUNTIME_FILE_H
#include "../gen/status.h"
#include <stdio.h>

// A file being written beside its final place. The temporary name ends in ".TID.tmp", so that threads too are apart.
typedef struct km_file_writer {
    FILE *stream; // write here
    char path[4096], temporary[4200];
    int is_stdout;
} km_file_writer;

// `path` "-" is standard output. The error says why and names the folder when it is missing or read-only.
km_status km_file_begin(km_file_writer *writer, const char *path, km_error *err);
km_status km_file_commit(km_file_writer *writer, km_error *err); // flush, check, fsync, rename
void km_file_abandon(km_file_writer *writer); // remove; allowed after commit or a failed begin

km_status km_file_write(const char *path, const void *bytes, int64_t size, km_error *err);
// The whole file with a zero after its end. KM_ERROR_IO; refuses more than size_max bytes (0: no limit).
km_status km_file_read(char **out, int64_t *size, const char *path, int64_t size_max, km_error *err);
// Makes a folder and its parents (mode 0700 for new ones).
km_status km_folder_make(const char *path, km_error *err);

#endif

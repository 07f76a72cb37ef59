// SPDX-License-Identifier: MIT
// Files that are never half-written, and whole files in memory.
#ifndef KM_RUNTIME_FILE_H
#define KM_RUNTIME_FILE_H
#include "../base/error.h"
#include <stdio.h>

// A file being written. Until it is whole it has no name (O_TMPFILE), so that a process which is killed leaves nothing;
// where the file system cannot do that, its name is KM_FILE_TEMPORARY and random digits, and whoever writes into
// the folder next removes those that no living process has locked.
#define KM_FILE_TEMPORARY ".kmgen-"
enum { KM_FILE_RANDOM_SIZE = 13 }; // 12 hexadecimal digits and the final zero

typedef struct km_file_writer {
    const char *shown;                // the path as it was given, for messages
    char path[4096], temporary[4200]; // links followed; "": the file has no name of its own
    int fd;                           // -1: nothing is open
    int is_stdout, is_in_place,
        is_ours; // in place: a device or pipe; ours: no link is followed, nobody else reads
    int reason;  // errno of the first failed write
} km_file_writer;

// `path` "-" is standard output; a link is followed, and stays. The error says why and names the folder when it is
// missing or read-only.
km_status km_file_begin(km_file_writer *writer, const char *path, km_error *err);
void km_file_add(km_file_writer *writer, const void *bytes, int64_t size); // commit says what failed
// The next `size` bytes of a file in memory (tmpfs), for several threads to fill side by side, where a write waits for
// all others. NULL: it is no such file. Each thread takes the pages of a part before it writes there; zero: there are
// none. km_file_filled ends it before anything else is called: with `is_whole` the bytes are part of the file, else it
// is as before, and km_file_add may write them, or say why not.
char *km_file_reserve(km_file_writer *writer, int64_t size);
int km_file_take_pages(char *part, int64_t size);
void km_file_filled(km_file_writer *writer, char *bytes, int64_t size, int is_whole);
// To the disk, then into place in one step, with the mode (and, where permitted, the owner) of the file that was there.
km_status km_file_commit(km_file_writer *writer, km_error *err);
void km_file_abandon(km_file_writer *writer); // remove; allowed after commit or a failed begin

km_status km_file_write(const char *path, const void *bytes, int64_t size, km_error *err);
// The same for files of kmgen's own: what stands at `path`, a link too, is replaced by a file that only the user
// may read. Not flushed to the disk: readers have a checksum.
km_status km_file_replace(const char *path, const void *bytes, int64_t size, km_error *err);
// The whole file with a zero after its end. KM_ERROR_IO; refuses more than size_max bytes (0: no limit).
km_status km_file_read(char **out, int64_t *size, const char *path, int64_t size_max, km_error *err);
// `size` bytes of an open file from `at` on, with a zero after them; NULL: it has fewer, or there is no memory.
char *km_file_read_part(int file, int64_t at, int64_t size);
// Makes a folder and its parents (mode 0700 for new ones).
km_status km_folder_make(const char *path, km_error *err);
// Random digits for a name that nobody else has, whatever process numbers are.
void km_file_random(char digits[KM_FILE_RANDOM_SIZE]);

#endif

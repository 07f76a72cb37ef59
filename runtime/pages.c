// SPDX-License-Identifier: MIT
#include "pages.h"
#include <fcntl.h>
#include <kmgen/kmgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    HUGE_PAGE = 2 * 1024 * 1024,
    VECTOR = 64,
    PIECES_MAX = 64,   // pieces that are listed; others are freed at once
    KEEP_SHARE = 16,   // kept by default: this part of the machine's memory ...
    KEEP_DEFAULT = 512 // ... and at most so many MiB
};

// A large allocation, in use or kept.
typedef struct piece {
    void *memory; // NULL: no piece
    size_t size;
    uint64_t freed; // counts pieces in the order in which they were given back; 0: in use
    int is_file;    // mapped from a temporary file: never kept
} piece;

static _Thread_local const char *scratch; // NULL: no temporary files
static _Thread_local int is_bound;        // nothing is kept

// All under `lock`.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static piece pieces[PIECES_MAX];
static uint64_t frees;
static size_t kept_bytes;
static int64_t keep_limit = -1; // -1: not set

static size_t limit(void) {
    if (keep_limit >= 0) return (size_t)keep_limit;
#ifdef __SANITIZE_ADDRESS__
    return 0; // nothing is kept: AddressSanitizer sees a use after the end of a fit
#endif
    int64_t most = (int64_t)KEEP_DEFAULT << 20, pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t kept = pages > 0 && page > 0 ? pages / KEEP_SHARE * page : most;
    return (size_t)(kept < most ? kept : most);
}

static void drop(piece *p) {
    kept_bytes -= p->size;
    free(p->memory);
    *p = (piece){NULL, 0, 0, 0};
}

static int temporary_file(const char *folder) {
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    char path[4096]; // some file systems know no files without a name
    if (snprintf(path, sizeof path, "%s/kmgen-XXXXXX", folder) >= (int)sizeof path) return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

// The disk's blocks are taken at once: a write to a page without one would end the program.
static void *map_file(const char *folder, size_t size) {
    int fd = temporary_file(folder);
    if (fd < 0) return NULL;
    void *memory = MAP_FAILED;
    if (posix_fallocate(fd, 0, (off_t)size) == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, size, MADV_SEQUENTIAL); // a hint
    return memory;
}

// Growing ----------------------------------------------------------------------------------------------------

// Moves values in memory to a file of at least as many bytes.
static int grow_into_file(km_growing *growing, int64_t bytes, const char *folder) {
    km_growing file = {.fd = temporary_file(folder), .is_file = 1};
    if (file.fd < 0) return 0;
    if (!km_growing_reserve(&file, bytes, NULL)) {
        close(file.fd);
        return 0;
    }
    if (growing->bytes) memcpy(file.memory, growing->memory, (size_t)growing->bytes);
    free(growing->memory);
    *growing = file;
    return 1;
}

int km_growing_reserve(km_growing *growing, int64_t bytes, const char *folder) {
    if (bytes <= growing->bytes) return 1;
    if (!growing->is_file && folder) return grow_into_file(growing, bytes, folder);
    void *memory;
    if (growing->is_file) {
        // The disk's blocks are taken at once, as above.
        if (posix_fallocate(growing->fd, growing->bytes, (off_t)(bytes - growing->bytes)) != 0) return 0;
        memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, growing->fd, 0);
        if (memory == MAP_FAILED) return 0;
        if (growing->memory) munmap(growing->memory, (size_t)growing->bytes);
        madvise(memory, (size_t)bytes, MADV_SEQUENTIAL); // a hint
    } else {
        memory = realloc(growing->memory, (size_t)bytes);
        if (!memory) return 0;
    }
    growing->memory = memory;
    growing->bytes = bytes;
    return 1;
}

void km_growing_free(km_growing *growing) {
    if (growing->is_file) {
        if (growing->memory) munmap(growing->memory, (size_t)growing->bytes);
        close(growing->fd);
    } else {
        free(growing->memory);
    }
    *growing = (km_growing){0};
}

// Pieces -----------------------------------------------------------------------------------------------------

// Under `lock`. 0: there are too many pieces already.
static int note(void *memory, size_t size, int is_file) {
    int i = 0;
    while (i < PIECES_MAX && pieces[i].memory) i++;
    if (i < PIECES_MAX) pieces[i] = (piece){memory, size, 0, is_file};
    return i < PIECES_MAX;
}

static void *scratch_alloc(size_t size) {
    void *memory = map_file(scratch, size); // a disk's time: others need not wait for it
    if (!memory) return NULL;
    pthread_mutex_lock(&lock);
    int noted = note(memory, size, 1);
    pthread_mutex_unlock(&lock);
    if (noted) return memory;
    munmap(memory, size);
    return NULL;
}

// Frees pieces, those first that were given back first, until at most `bytes` are kept.
static void shrink(size_t bytes) {
    while (kept_bytes > bytes) {
        piece *oldest = NULL;
        for (int i = 0; i < PIECES_MAX; i++)
            if (pieces[i].freed && (!oldest || pieces[i].freed < oldest->freed)) oldest = &pieces[i];
        drop(oldest);
    }
}

// The smallest kept piece that is large enough and no more than a quarter too large.
static void *take(size_t size) {
    piece *best = NULL;
    for (int i = 0; i < PIECES_MAX; i++) {
        piece *p = &pieces[i];
        if (!p->freed || p->size < size || p->size - size > size / 4) continue;
        if (!best || p->size < best->size) best = p;
    }
    if (!best) return NULL;
    kept_bytes -= best->size;
    best->freed = 0;
    return best->memory;
}

static void *fresh(size_t size) {
    void *memory = aligned_alloc(HUGE_PAGE, size);
    if (!memory && kept_bytes > 0) {
        shrink(0);
        memory = aligned_alloc(HUGE_PAGE, size);
    }
    if (!memory) return NULL;
    madvise(memory, size, MADV_HUGEPAGE); // a hint: what comes of it does not matter
    note(memory, size, 0);
    return memory;
}

void *km_pages_alloc(int64_t bytes) {
    size_t unit = bytes > HUGE_PAGE / 2 ? HUGE_PAGE : VECTOR;
    size_t size = ((size_t)(bytes > 0 ? bytes : 1) + unit - 1) / unit * unit;
    if (unit == VECTOR) return aligned_alloc(unit, size);
    if (km_pages_in_files(bytes)) return scratch_alloc(size);
    pthread_mutex_lock(&lock);
    void *memory = take(size);
    if (!memory) memory = fresh(size);
    pthread_mutex_unlock(&lock);
    return memory;
}

void km_pages_free(void *memory) {
    if (!memory) return;
    size_t file_size = 0;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < PIECES_MAX && pieces[i].memory != memory) i++;
    if (i < PIECES_MAX && pieces[i].is_file) {
        file_size = pieces[i].size;
        pieces[i] = (piece){NULL, 0, 0, 0};
    } else if (i < PIECES_MAX) {
        pieces[i].freed = ++frees;
        kept_bytes += pieces[i].size;
        shrink(is_bound ? 0 : limit());
    }
    pthread_mutex_unlock(&lock);
    if (file_size) munmap(memory, file_size);
    if (i == PIECES_MAX) free(memory);
}

void km_pages_bind(const char *folder) {
    scratch = folder;
    is_bound = 1;
    pthread_mutex_lock(&lock);
    shrink(0);
    pthread_mutex_unlock(&lock);
}

int km_pages_in_files(int64_t bytes) {
    return scratch && bytes >= KM_SCRATCH_FROM;
}

void km_pages_unbind(void) {
    scratch = NULL;
    is_bound = 0;
}

int64_t km_pages_kept(void) {
    pthread_mutex_lock(&lock);
    int64_t bytes = (int64_t)kept_bytes;
    pthread_mutex_unlock(&lock);
    return bytes;
}

void km_memory_keep(int64_t bytes) {
    pthread_mutex_lock(&lock);
    keep_limit = bytes < 0 ? -1 : bytes;
    shrink(limit());
    pthread_mutex_unlock(&lock);
}

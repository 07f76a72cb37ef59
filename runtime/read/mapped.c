// SPDX-License-Identifier: MIT
// Files that become shorter while they are mapped. Reading behind the new end raises SIGBUS, which would end the
// program without a message. A copy in memory would take twice the memory and, for a table that is read once, twice
// the time. So the signal is caught: zeros are mapped behind the new end, the reader goes on, and km_table_is_lost
// tells afterwards that what was read is not the file. A file that others write to while it is mapped is told by its
// size and the time of its last change.
#include "../../base/error.h"
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAPPINGS_MAX = 256 };

// Read by the handler, which may run in any thread at any time.
typedef struct mapping {
    atomic_uintptr_t begin, end; // begin 0: none
    atomic_int is_lost;
    int fd; // of our own, to see whether the file is as it was; -1: none is left
    int64_t size;
    struct timespec changed;
} mapping;

static mapping mappings[MAPPINGS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // for adding and removing
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;
static uintptr_t page_bytes;

static mapping *mapping_at(uintptr_t address) {
    for (int i = 0; i < MAPPINGS_MAX; i++)
        if (address >= atomic_load(&mappings[i].begin) && address < atomic_load(&mappings[i].end) &&
            atomic_load(&mappings[i].begin))
            return &mappings[i];
    return NULL;
}

// Maps zeros from this page to the mapping's end. mmap is a plain system call, which a signal handler may make.
static int put_zeros(uintptr_t address) {
    mapping *m = mapping_at(address);
    if (!m) return 0;
    uintptr_t page = address / page_bytes * page_bytes;
    atomic_store(&m->is_lost, 1);
    return mmap((void *)page, atomic_load(&m->end) - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) != MAP_FAILED;
}

// A signal that is not about these mappings goes to the handler that was there before.
static void on_bus_error(int number, siginfo_t *info, void *context) {
    int kept = errno;
    int is_ours = info->si_code > 0 && put_zeros((uintptr_t)info->si_addr);
    errno = kept;
    if (is_ours) return;
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler == SIG_DFL || (before.sa_handler == SIG_IGN && info->si_code > 0)) {
        signal(number,
               SIG_DFL); // and so it ends the program, when the instruction is run again or the signal sent
        if (info->si_code <= 0) raise(number);
    } else if (before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    }
}

static void catch_bus_errors(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

static void watch(mapping *m, int fd) {
    struct stat there;
    m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (m->fd < 0) return;
    if (fstat(m->fd, &there) != 0) {
        close(m->fd);
        m->fd = -1;
        return;
    }
    m->size = there.st_size;
    m->changed = there.st_mtim;
}

static int has_changed(const mapping *m) {
    struct stat now;
    if (m->fd < 0 || fstat(m->fd, &now) != 0) return 0;
    return now.st_size != m->size || now.st_mtim.tv_sec != m->changed.tv_sec ||
           now.st_mtim.tv_nsec != m->changed.tv_nsec;
}

static int is_shorter(const mapping *m) {
    struct stat now;
    return fstat(m->fd, &now) == 0 && now.st_size < m->size;
}

int km_table_map(km_table *table, int64_t bytes, int fd) {
    pthread_once(&once, catch_bus_errors);
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < MAPPINGS_MAX && atomic_load(&mappings[i].begin)) i++;
    void *memory = MAP_FAILED;
    if (i < MAPPINGS_MAX) memory = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory != MAP_FAILED) {
        uintptr_t pages = ((uintptr_t)bytes + page_bytes - 1) / page_bytes;
        atomic_store(&mappings[i].is_lost, 0);
        watch(&mappings[i], fd);
        atomic_store(&mappings[i].end, (uintptr_t)memory + pages * page_bytes);
        atomic_store(&mappings[i].begin, (uintptr_t)memory);
    }
    pthread_mutex_unlock(&lock);
    if (memory == MAP_FAILED) return 0;
    madvise(memory, (size_t)bytes, MADV_SEQUENTIAL);
    table->memory = memory;
    table->mapped_bytes = bytes;
    return 1;
}

int km_table_is_lost(const km_table *table) {
    for (int64_t i = 0; i < table->files_count; i++)
        if (km_table_is_lost(&table->files[i])) return 1;
    const mapping *m = table->mapped_bytes ? mapping_at((uintptr_t)table->memory) : NULL;
    return m && atomic_load(&m->is_lost);
}

void km_table_unmap(km_table *table) {
    mapping *m = mapping_at((uintptr_t)table->memory);
    if (m && m->fd >= 0) close(m->fd);
    if (m) atomic_store(&m->begin, 0);
    munmap(table->memory, (size_t)table->mapped_bytes);
}

km_status km_table_check(const km_table *table, const char *name, km_error *err) {
    for (int64_t i = 0; i < table->files_count; i++)
        KM_TRY(km_table_check(&table->files[i], table->files[i].file, err));
    const mapping *m = table->mapped_bytes ? mapping_at((uintptr_t)table->memory) : NULL;
    if (!m || (!km_table_is_lost(table) && !has_changed(m))) return KM_OK;
    if (err) err->text[0] = 0; // an error that the zeros caused
    if (!km_table_is_lost(table) && !is_shorter(m))
        return km_fail(err, KM_ERROR_IO, "%s changed while it was read; use a copy that nothing writes to",
                       name);
    return km_fail(
        err, KM_ERROR_IO,
        "%s became shorter, or its disk failed, while it was read; use a copy that nothing writes to", name);
}

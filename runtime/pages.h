// SPDX-License-Identifier: MIT
// Memory for much data, kept from one fit to the next.
#ifndef KM_RUNTIME_PAGES_H
#define KM_RUNTIME_PAGES_H
#include <stdint.h>

// Aligned for any vector, not cleared (it may hold what was there before), on huge pages where it is large and the
// system has them: clearing small ones takes longer than computing what goes there. NULL: no memory. Freed by
// km_pages_free. Thread-safe, as are the others.
void *km_pages_alloc(int64_t bytes);

// Large pieces are kept, up to the limit of km_memory_keep, and handed out again: pages that are new to a process are
// cleared by the system first, which takes longer than a pass over them. NULL: nothing happens.
void km_pages_free(void *memory);

// From now on this thread is bound in memory: nothing is kept that it gives back. With a folder, which is the caller's
// until km_pages_unbind, what it asks for lies in temporary files there, where it is at least KM_SCRATCH_FROM bytes:
// their pages are the system's, which writes them out when it needs memory. They have no name and go with
// km_pages_free or the process. Where a file cannot be made or has no place on the disk, km_pages_alloc returns NULL.
enum { KM_SCRATCH_FROM = 16 << 20 };
void km_pages_bind(const char *folder); // NULL: no files
void km_pages_unbind(void);
// Whether so many bytes that this thread asked for would lie in a file.
int km_pages_in_files(int64_t bytes);

// Values whose number is not known before they are read: in memory, or in a temporary file that is mapped. All 0: none.
typedef struct km_growing {
    void *memory;
    int64_t bytes;
    int fd; // of the file, where is_file
    int is_file;
} km_growing;

// Makes room for so many bytes, those that there are among them; what is more is not cleared. `folder`: they move to a
// file there, if they are in none. 0: there is no memory, or no place on the disk; what there was is as before.
int km_growing_reserve(km_growing *growing, int64_t bytes, const char *folder);
void km_growing_free(km_growing *growing);

// Bytes that are kept and not in use.
int64_t km_pages_kept(void);

#endif

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

// Bytes that are kept and not in use.
int64_t km_pages_kept(void);

#endif

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

// Bytes that are kept and not in use.
int64_t km_pages_kept(void);

#endif

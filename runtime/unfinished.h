// SPDX-License-Identifier: MIT
// Texts for a GPU that a fit left uncompiled, because it was done before the compiler was. Each lies in the cache as
// KEY.todo, with the facts of its device, until somebody compiles it (km_cache_finish) or it is compiled otherwise.
#ifndef KM_RUNTIME_UNFINISHED_H
#define KM_RUNTIME_UNFINISHED_H
#include "../gen/source.h"
#include "cache.h"

// A device and its compiler, without which the text cannot be compiled.
typedef struct km_unfinished {
    int ordinal;
    const char *compiler; // as in km_module_params; NULL: the default
    const void *memo;     // of km_backend.compiler_memo
    int64_t memo_size;
} km_unfinished;

km_status km_unfinished_note(const km_cache *cache, const km_source *source, const km_unfinished *device,
                             km_error *err);

#endif

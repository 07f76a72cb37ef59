// SPDX-License-Identifier: MIT
#include "library.h"

#include <dlfcn.h>
#include <string.h>

static km_status refuse(const km_library *library, const char *why, km_status failed, const char *what,
                        km_error *err) {
    return km_fail(err, failed, "%s%s%s is not there (%s); install it (Debian's package %s)", what,
                   *what ? ": " : "", library->name, why, library->package);
}

// POSIX gives addresses of functions as void *; copying bytes keeps the compilers content.
static const char *missing_symbol(const km_library *library, void *opened) {
    char *place = library->addresses;
    for (const char *symbol = library->symbols; *symbol; symbol += strlen(symbol) + 1) {
        void *address = dlsym(opened, symbol);
        if (!address) return symbol;
        memcpy(place, &address, sizeof address);
        place += sizeof address;
    }
    return NULL;
}

km_status km_library_open(km_library *library, km_status failed, const char *what, km_error *err) {
    if (atomic_load(&library->is_open)) return KM_OK;
    km_status status = KM_OK;
    pthread_mutex_lock(&library->lock);
    // Never unloaded: such libraries keep memory of their own to the end, and hand out functions to call then.
    void *opened = dlopen(library->file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *why = opened ? NULL : dlerror(), *missing = opened ? missing_symbol(library, opened) : NULL;
    if (!opened)
        status = refuse(library, why ? why : library->file, failed, what, err);
    else if (missing)
        status = km_fail(err, failed, "%s%s%s has no %s; build kmgen against the one that is installed", what,
                         *what ? ": " : "", library->file, missing);
    else
        atomic_store(&library->is_open, 1);
    pthread_mutex_unlock(&library->lock);
    return status;
}

// SPDX-License-Identifier: MIT
// A suite's own folder, which goes with all that is in it.
#ifndef KM_TESTS_SCRATCH_H
#define KM_TESTS_SCRATCH_H
#include <ftw.h>
#include <stdio.h>

static inline int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static inline void remove_folder(const char *folder) {
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

#endif

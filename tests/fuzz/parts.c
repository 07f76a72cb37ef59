// SPDX-License-Identifier: MIT
// FILE:PART of archives and .npz, from a file that is opened by its name: the first line of the input is PART, which
// may be empty, the rest is the file. Not HDF5: damaged files break libhdf5 itself, and make it ask for
// any amount of memory.
#include "points.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const uint8_t *newline = memchr(bytes, '\n', size);
    if (!newline || size > FUZZ_SIZE_MAX || memmem(bytes, size, "\x89HDF", 4)) return 0;
    int part_size = (int)(newline - bytes), fd = memfd_create("fuzz", MFD_CLOEXEC);
    size_t left = size - (size_t)part_size - 1;
    must(fd >= 0 && write(fd, newline + 1, left) == (ssize_t)left, "no file in memory");
    char path[FUZZ_SIZE_MAX + 64];
    snprintf(path, sizeof path, "/proc/self/fd/%d%s%.*s", fd, part_size ? ":" : "", part_size,
             (const char *)bytes);
    km_data_params params;
    km_data_params_init(&params);
    params.features = 2; // of raw values
    params.type = size & 1 ? KM_FLOAT32 : KM_FLOAT64;
    params.missing = size & 2 ? KM_MISSING_DROP : KM_MISSING_REFUSE;
    open_points(path, &params);
    close(fd);
    return 0;
}

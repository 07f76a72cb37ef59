// SPDX-License-Identifier: MIT
// From bytes to points, through every reader: nothing may crash or read beyond its file, every refusal names the
// file, and what is accepted can be read whole, row by row and as either type.
#include "points.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The last byte says how the rest is opened, so that the ways are searched too; a newline, with which text ends: as
// kmgen opens it by itself.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const formats[] = {NULL, "npy", "csv", "tsv", "f32", "f64", "npz", "mtx", "svmlight"};
    static const char *const columns[] = {NULL, NULL, "1", "x,y", "2..3", "3,label"};
    static const char *const names[] = {"waiting", "eruptions", "sepal_width", "petal_width", "sepal_width"};
    if (size < 1 || size > FUZZ_SIZE_MAX) return 0;
    // The file ends where a page does, so that a step beyond its end is a step out of memory.
    static const char padding[4096];
    size_t before = (sizeof padding - (size - 1) % sizeof padding) % sizeof padding;
    int fd = memfd_create("fuzz", 0);
    must(fd >= 0 && write(fd, padding, before) == (ssize_t)before, "no file in memory");
    must(write(fd, bytes, size - 1) == (ssize_t)size - 1, "no file in memory");
    must(lseek(fd, (off_t)before, SEEK_SET) == (off_t)before && dup2(fd, STDIN_FILENO) == STDIN_FILENO,
         "no input");
    close(fd);
    km_data_params params;
    km_data_params_init(&params);
    uint8_t how = bytes[size - 1] ^ '\n';
    params.features = 1 + how % 3;
    params.format = formats[how % 9];
    params.base = how / 9 % 3 - 1;
    if (how % 9 == 8 && how & 32) params.features = 0;
    params.header = (km_header_mode)(how / 6 % 4);
    params.columns = columns[how / 7 % 6];
    params.names = how / 5 % 3 ? names + how / 5 % 3 : NULL; // some that are there, some twice, none
    params.names_count = params.names ? 1 + how / 3 % 2 * 2 : 0;
    params.missing = (km_missing)(how % 5);
    params.type = how & 64 ? KM_FLOAT32 : KM_FLOAT64;
    open_points("-", &params);
    return 0;
}

// SPDX-License-Identifier: MIT
// From bytes to points, through every reader: nothing may crash or read beyond its file, every refusal names the
// file, and what is accepted can be read whole, row by row and as either type.
// usage: fuzz_data ROUNDS FILE...    mutates the files (and .npy and raw files made of them), the same way each time
// With clang: -fsanitize=fuzzer -DKM_LIBFUZZER and no arguments but libFuzzer's.
#include <kmgen/data.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { INPUT_MAX = 8192 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static int64_t accepted;

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_data: %s\n", what);
    abort();
}

// All points at once are the points one by one.
static void read_all(const km_data *data) {
    km_error err = {{0}};
    int64_t n = km_data_points(data), d = km_data_features(data);
    must(n >= 1 && d >= 1 && km_data_rows(data) >= n, "points without a shape");
    must(n * d <= INPUT_MAX, "more values than bytes");
    for (int type = KM_FLOAT32; type <= KM_FLOAT64; type++) {
        size_t size = type == KM_FLOAT64 ? 8 : 4, row_size = size * (size_t)d;
        unsigned char *all = malloc((size_t)n * row_size), *row = malloc(row_size);
        must(all && row, "no memory");
        must(km_data_read(all, data, 0, n, (km_type)type, &err) == KM_OK, "points cannot be read");
        for (int64_t i = 0; i < n; i++) {
            must(km_data_read(row, data, i, 1, (km_type)type, &err) == KM_OK, "a point cannot be read");
            must(memcmp(row, all + (size_t)i * row_size, row_size) == 0,
                 "a point differs when it is read alone");
            must(km_data_row_of(data, i) < km_data_rows(data), "a row outside of the file");
        }
        const void *base = km_data_base(data, (km_type)type);
        must(!base || memcmp(base, all, (size_t)n * row_size) == 0, "the points as they lie differ");
        free(all);
        free(row);
    }
    for (int64_t f = 0; f < d; f++)
        must(!km_data_feature_name(data, f) || strlen(km_data_feature_name(data, f)) < INPUT_MAX,
             "a name without end");
}

static void open_as(const char *path, const km_data_params *params) {
    km_error err = {{0}};
    km_data *data = NULL;
    km_status status = km_data_open(&data, path, params, &err);
    must((status == KM_OK) == (data != NULL), "status and points disagree");
    must(status == KM_OK || err.text[0], "a file was refused without a reason");
    must(status != KM_ERROR_INTERNAL, "a file was refused by a bug");
    if (data) {
        accepted++;
        read_all(data);
    }
    km_data_destroy(&data);
}

// The first byte says how the rest is opened, so that the ways are searched too.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char *const formats[] = {NULL, "npy", "csv", "tsv", "f32", "f64"};
    static const char *const columns[] = {NULL, NULL, "1", "x,y", "2..3"};
    if (size < 1 || size > INPUT_MAX) return 0;
    // The file ends where a page does, so that a step beyond its end is a step out of memory.
    static const char padding[4096];
    size_t before = (sizeof padding - (size - 1) % sizeof padding) % sizeof padding;
    int fd = memfd_create("fuzz", 0);
    must(fd >= 0 && write(fd, padding, before) == (ssize_t)before, "no file in memory");
    must(write(fd, bytes + 1, size - 1) == (ssize_t)size - 1, "no file in memory");
    must(lseek(fd, (off_t)before, SEEK_SET) == (off_t)before && dup2(fd, STDIN_FILENO) == STDIN_FILENO,
         "no input");
    close(fd);
    km_data_params params;
    km_data_params_init(&params);
    params.features = 1 + bytes[0] % 3;
    params.format = formats[bytes[0] % 6];
    params.header = (km_header_mode)(bytes[0] / 6 % 3);
    params.columns = columns[bytes[0] / 7 % 5];
    params.nan = bytes[0] % 2 ? KM_NAN_DROP : KM_NAN_REFUSE;
    params.type = bytes[0] & 64 ? KM_FLOAT32 : KM_FLOAT64;
    open_as("-", &params);
    return 0;
}

#ifndef KM_LIBFUZZER
static uint64_t state = 1;

static uint64_t draw(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static const char *const words[] = {
    ",",      ";",      "\t",       "\n",    "\r\n",
    "\"",     "\"\"",   "nan",      "inf",   "1e999",
    "0x1",    "1e-320", "\n\n",     "NA",    " ",
    "(3, 2)", "True",   "'<f4'",    "'>i8'", "99999999999999999999",
    "L",      "-1",     "\x1f\x8b", "\xff",  "123456789012345678901234567890.5e-7"};

static size_t mutate(uint8_t *bytes, size_t size) {
    for (uint64_t i = 1 + draw(4); i > 0; i--) {
        // Near the front as often as anywhere: headers stand there.
        size_t at = draw(2) ? draw(size + 1) : draw(size < 160 ? size + 1 : 160), left = size - at;
        const char *word = words[draw(sizeof words / sizeof *words)];
        size_t length = strlen(word);
        uint64_t how = draw(5);
        if (how == 0 && left) bytes[at] = (uint8_t)draw(256);
        if (how == 1 && left) size = at + draw(left + 1);
        if (how == 2 && length <= left) memcpy(bytes + at, word, length);
        if (how == 3 && size + length <= INPUT_MAX) {
            memmove(bytes + at + length, bytes + at, left);
            memcpy(bytes + at, word, length);
            size += length;
        }
        if (how == 4) {
            length = draw(left + 1) % 64;
            memmove(bytes + at, bytes + at + length, left - length);
            size -= length;
        }
    }
    return size;
}

// A file as it is, or a .npy file around its first bytes.
static size_t take_file(uint8_t *bytes, const char *path, int as_npy) {
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    size_t start = 0;
    if (as_npy) {
        static const char head[] =
            "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (30, 2), }";
        memset(bytes, ' ', 128);
        memcpy(bytes, head, sizeof head - 1);
        bytes[127] = '\n';
        start = 128;
    }
    size_t size = start + fread(bytes + start, 1, as_npy ? 30 * 2 * 4 : INPUT_MAX / 2, file);
    fclose(file);
    return size;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: fuzz_data ROUNDS FILE...\n", stderr);
        return 2;
    }
    long rounds = atol(argv[1]);
    for (long i = 0; i < rounds; i++) {
        uint8_t bytes[1 + INPUT_MAX];
        size_t size = take_file(bytes + 1, argv[2 + i / 2 % (argc - 2)], i % 2);
        if (!size) return 2;
        bytes[0] = i < 2 * (argc - 2) ? 0 : (uint8_t)draw(256);
        if (bytes[0]) size = mutate(bytes + 1, size);
        LLVMFuzzerTestOneInput(bytes, 1 + size);
    }
    printf("%ld inputs, %lld read\n", rounds, (long long)accepted);
    return accepted < rounds / 50;
}
#endif

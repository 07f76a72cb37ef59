// SPDX-License-Identifier: MIT
// Files, pipes and standard input, mapped where that is possible.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../base/text.h"
#include "../memory.h"
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static km_status read_bytes(int64_t *got, void *out, int64_t size, km_input *input, km_error *err) {
    ssize_t count;
    if (input->is_range) size = km_min(size, input->size - input->taken);
    do {
        count = read(input->fd, out, (size_t)size);
    } while (count < 0 && errno == EINTR);
    *got = count;
    if (count < 0) return km_fail(err, KM_ERROR_IO, "cannot read %s: %s", input->name, strerror(errno));
    input->taken += count;
    if (count == 0 && input->is_regular && input->taken < input->size)
        return km_fail(err, KM_ERROR_IO,
                       "%s became shorter while it was read; use a copy that nothing writes to", input->name);
    return KM_OK;
}

static km_status look(km_input *input, km_error *err) {
    struct stat info;
    if (fstat(input->fd, &info) != 0)
        return km_fail(err, KM_ERROR_IO, "cannot read %s: %s", input->name, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return km_fail(err, KM_ERROR_IO, "cannot read %s: it is a folder; name a file", input->name);
    off_t offset = lseek(input->fd, 0, SEEK_CUR);
    // Files of /proc say that they have no bytes: they are read like pipes.
    input->is_regular = S_ISREG(info.st_mode) && offset >= 0 && info.st_size > offset;
    if (input->is_regular) {
        input->offset = offset;
        input->size = info.st_size - offset;
    }
    int64_t got = 1;
    while (got > 0 && input->head_size < (int64_t)sizeof input->head) {
        KM_TRY(read_bytes(&got, input->head + input->head_size,
                          (int64_t)sizeof input->head - input->head_size, input, err));
        input->head_size += got;
    }
    if (input->head_size == 0) return km_fail(err, KM_ERROR_DATA, "%s is empty", input->name);
    return KM_OK;
}

// Opens FILE of a path FILE:PART, where there is no file of the whole name.
static int open_part(km_input *input, const char *path) {
    for (const char *colon = strchr(path, ':'); colon; colon = strchr(colon + 1, ':')) {
        char *file = strndup(path, (size_t)(colon - path));
        int fd = file && *file && colon[1] ? open(file, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0) {
            input->file = file;
            input->part = colon + 1;
            return fd;
        }
        free(file);
    }
    errno = ENOENT;
    return -1;
}

// Takes the first bytes of what is unpacked in the place of the packed ones.
static km_status open_packed(km_input *input, const km_packing *packing, km_error *err) {
    km_input source = *input;
    KM_TRY(km_unpacker_create(&input->unpacker, &source, packing, input->part, err));
    if (packing->is_archive) input->part = NULL;
    input->is_regular = 0;
    input->head_size = input->head_taken = 0;
    int64_t got;
    KM_TRY(km_input_fill(&got, input->head, sizeof input->head, input, err));
    input->head_size = got;
    return got ? KM_OK : km_fail(err, KM_ERROR_DATA, "%s is empty", input->name);
}

km_status km_input_open(km_input *input, const char *path, km_error *err) {
    int is_stdin = strcmp(path, "-") == 0;
    *input = (km_input){.name = is_stdin ? "standard input" : path, .fd = STDIN_FILENO};
    if (!is_stdin) input->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0 && errno == ENOENT) input->fd = open_part(input, path);
    if (input->fd < 0) return km_fail(err, KM_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    km_status status = look(input, err);
    const km_packing *packing = km_packing_of(input);
    if (status == KM_OK && packing && !km_zip_is_left(input)) status = open_packed(input, packing, err);
    if (status != KM_OK) km_input_close(input);
    return status;
}

km_status km_input_open_zip(km_input *input, const char *name, const unsigned char *bytes, int64_t size,
                            km_error *err) {
    *input = (km_input){.name = name, .fd = -1, .size = size, .memory = bytes};
    input->head_size = km_min(size, (int64_t)sizeof input->head);
    memcpy(input->head, bytes, (size_t)input->head_size);
    km_status status = open_packed(input, km_packing_of(input), err);
    input->memory = NULL; // readers see what is unpacked
    if (status != KM_OK) km_input_close(input);
    return status;
}

void km_input_close(km_input *input) {
    km_unpacker_destroy(&input->unpacker);
    if (input->fd > STDIN_FILENO) close(input->fd);
    input->fd = -1;
    free(input->file);
    input->file = NULL;
    input->part = NULL;
}

const char *km_input_file(const km_input *input) {
    const char *entry = input->unpacker ? km_unpacker_entry(input->unpacker) : NULL;
    return entry ? entry : input->file ? input->file : input->name;
}

km_status km_input_read(int64_t *got, void *out, int64_t size, km_input *input, km_error *err) {
    int64_t left = input->head_size - input->head_taken;
    *got = 0;
    if (left == 0) {
        if (!input->unpacker) return read_bytes(got, out, size, input, err);
        km_status status = km_unpacker_read(got, out, size, input->unpacker, err);
        input->taken = km_unpacker_taken(input->unpacker);
        return status;
    }
    *got = left < size ? left : size;
    memcpy(out, input->head + input->head_taken, (size_t)*got);
    input->head_taken += *got;
    return KM_OK;
}

km_status km_input_fill(int64_t *got, void *out, int64_t size, km_input *input, km_error *err) {
    *got = 0;
    for (int64_t more = 1; *got < size && more > 0; *got += more)
        KM_TRY(km_input_read(&more, (char *)out + *got, size - *got, input, err));
    return KM_OK;
}

static km_status slurp(km_table *table, int64_t *size, km_input *input, km_error *err) {
    enum { CHUNK = 1 << 18 };
    km_text text = {0};
    char *chunk = malloc(CHUNK);
    if (!chunk) return km_fail_memory(err, input->name, CHUNK);
    km_status status;
    for (int64_t got = 1; got > 0 && !text.failed;) { // an input may have no end
        KM_TRY_GOTO(km_input_read(&got, chunk, CHUNK, input, err));
        km_text_add(&text, chunk, got);
        if (text.size / KM_HOST_LOOK_BYTES > (text.size - got) / KM_HOST_LOOK_BYTES)
            KM_TRY_GOTO(km_host_check("more of what is read from a pipe", KM_HOST_LOOK_BYTES, err));
    }
    *size = text.size;
    char *bytes = NULL;
    if (text.failed) {
        status = km_fail_memory(err, input->name, 2 * text.size);
        goto done;
    }
    KM_TRY_GOTO(km_text_take(&bytes, &text, err));
    table->memory = bytes;
done:
    free(chunk);
    km_text_clear(&text);
    return status;
}

km_status km_input_whole(const unsigned char **bytes, int64_t *size, km_table *table, km_input *input,
                         km_error *err) {
    if (input->memory) {
        *bytes = input->memory;
        *size = input->size;
        return KM_OK;
    }
    if (input->is_regular) {
        if (km_table_map(table, input->offset + input->size, input->fd)) {
            *bytes = (const unsigned char *)table->memory + input->offset;
            *size = input->size;
            return KM_OK;
        }
    }
    KM_TRY(slurp(table, size, input, err));
    *bytes = table->memory;
    return KM_OK;
}

// Whether these bytes begin with the first entry's name in a zip file.
static int begins_with(const km_input *input, const char *name) {
    enum { NAME_AT = 30 };
    size_t size = strlen(name);
    return input->head_size >= NAME_AT + (int64_t)size && memcmp(input->head + NAME_AT, name, size) == 0;
}

// Whether the first entry's name ends so.
static int begins_with_end(const km_input *input, const char *end) {
    enum { NAME_SIZE_AT = 26, NAME_AT = 30 };
    int64_t size = input->head_size > NAME_AT
                       ? input->head[NAME_SIZE_AT] | (int64_t)input->head[NAME_SIZE_AT + 1] << 8
                       : 0;
    int64_t end_size = (int64_t)strlen(end);
    return size >= end_size && NAME_AT + size <= input->head_size &&
           memcmp(input->head + NAME_AT + size - end_size, end, (size_t)end_size) == 0;
}

int km_zip_is_left(const km_input *input) {
    if (input->head_size < 4 || memcmp(input->head, "PK\3\4", 4) != 0 || input->part) return 0;
    const char *file = km_input_file(input);
    size_t size = strlen(file);
    return (size > 4 && strcasecmp(file + size - 4, ".npz") == 0) || begins_with_end(input, ".npy") ||
           begins_with(input, "[Content_Types].xml") || begins_with(input, "docProps/") ||
           begins_with(input, "mimetypeapplication/");
}

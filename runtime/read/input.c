// SPDX-License-Identifier: MIT
// Files, pipes and standard input, mapped where that is possible.
#include "../../base/error.h"
#include "../../base/text.h"
#include "../memory.h"
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static km_status read_bytes(int64_t *got, void *out, int64_t size, km_input *input, km_error *err) {
    ssize_t count;
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

km_status km_input_open(km_input *input, const char *path, km_error *err) {
    int is_stdin = strcmp(path, "-") == 0;
    *input = (km_input){.name = is_stdin ? "standard input" : path, .fd = STDIN_FILENO};
    if (!is_stdin) input->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0) return km_fail(err, KM_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    km_status status = look(input, err);
    if (status != KM_OK) km_input_close(input);
    return status;
}

void km_input_close(km_input *input) {
    if (input->fd > STDIN_FILENO) close(input->fd);
    input->fd = -1;
}

km_status km_input_read(int64_t *got, void *out, int64_t size, km_input *input, km_error *err) {
    int64_t left = input->head_size - input->head_taken;
    *got = 0;
    if (left == 0 && input->fd < 0) return KM_OK; // closed: there is no more than the head
    if (left == 0) return read_bytes(got, out, size, input, err);
    *got = left < size ? left : size;
    memcpy(out, input->head + input->head_taken, (size_t)*got);
    input->head_taken += *got;
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

int km_input_is_gzip(const km_input *input) {
    return input->head_size >= 2 && input->head[0] == 0x1f && input->head[1] == 0x8b;
}

int km_input_is_packed(const km_input *input) {
    return km_input_is_gzip(input);
}

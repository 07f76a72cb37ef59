// SPDX-License-Identifier: MIT
// The table of packings.
#include "unpack.h"
#include "../../base/error.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#if KM_WITH_ZLIB
#define BY_ZLIB &km_by_zlib, "zlib"
#else
#define BY_ZLIB NULL, "zlib"
#endif
#if KM_WITH_LIBARCHIVE
#define BY_LIBARCHIVE &km_by_libarchive, "libarchive"
#else
#define BY_LIBARCHIVE NULL, "libarchive"
#endif

static const km_packing packings[] = {
    {"gzip", ".gz", "gunzip", "\x1f\x8b\x08", 3, 0, BY_ZLIB},
    {"xz", ".xz", "unxz", "\xfd\x37zXZ\0", 6, 0, BY_LIBARCHIVE},
    {"zstd", ".zst", "unzstd", "\x28\xb5\x2f\xfd", 4, 0, BY_LIBARCHIVE},
    {"bzip2", ".bz2", "bunzip2", "BZh", 3, 0, BY_LIBARCHIVE},
    {"zip", ".zip", "unzip", "PK\3\4", 4, 1, BY_LIBARCHIVE},
};
enum { PACKINGS = sizeof packings / sizeof *packings };

struct km_unpacker {
    const km_packing *packing;
    km_input source;
    void *state;
};

// Text may begin with the letters of bzip2: behind them are the block size and the digits of pi.
static int is_magic(const km_input *input, const km_packing *packing) {
    if (input->head_size < packing->magic_size) return 0;
    if (memcmp(input->head, packing->magic, (size_t)packing->magic_size) != 0) return 0;
    return packing->magic[0] != 'B' || (input->head_size > 4 && (input->head[4] & 0x80)) ||
           (input->head_size > 9 && memcmp(input->head + 4, "1AY&SY", 6) == 0) ||
           (input->head_size > 9 && memcmp(input->head + 4, "\x17rE8P\x90", 6) == 0);
}

const km_packing *km_packing_of(const km_input *input) {
    for (int i = 0; i < PACKINGS; i++)
        if (is_magic(input, &packings[i])) return &packings[i];
    return NULL;
}

size_t km_packing_strip(const char *path, size_t size) {
    for (int i = 0; i < PACKINGS; i++) {
        size_t end = strlen(packings[i].extension);
        if (size > end && strncasecmp(path + size - end, packings[i].extension, end) == 0) return size - end;
    }
    return size;
}

km_status km_unpacker_create(km_unpacker **out, const km_input *source, const km_packing *packing,
                             const char *part, km_error *err) {
    *out = NULL;
    if (!packing->library)
        return km_fail(err, KM_ERROR_DATA,
                       "%s is packed by %s, and this kmgen was built without %s; unpack it with %s, or "
                       "build kmgen with meson's option -D%s=enabled",
                       source->name, packing->name, packing->lacks, packing->tool, packing->lacks);
    km_unpacker *u = calloc(1, sizeof *u);
    if (!u) return km_fail_memory(err, "unpacking", sizeof *u);
    u->packing = packing;
    u->source = *source;
    km_status status = packing->library->open(&u->state, &u->source, packing, part, err);
    if (status == KM_OK)
        *out = u;
    else
        free(u);
    return status;
}

void km_unpacker_destroy(km_unpacker **unpacker) {
    if (!*unpacker) return;
    (*unpacker)->packing->library->close((*unpacker)->state);
    free(*unpacker);
    *unpacker = NULL;
}

km_status km_unpacker_read(int64_t *got, void *out, int64_t size, km_unpacker *u, km_error *err) {
    return u->packing->library->read(got, out, size, u->state, err);
}

const char *km_unpacker_entry(const km_unpacker *u) {
    return u->packing->library->entry ? u->packing->library->entry(u->state) : NULL;
}

int64_t km_unpacker_taken(const km_unpacker *u) {
    return u->source.taken;
}

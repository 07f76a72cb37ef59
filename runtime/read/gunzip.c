// SPDX-License-Identifier: MIT
// gzip, by zlib, which also compares the checksum.
#include "unpack.h"
#include "../../base/error.h"

#include <stdlib.h>
#include <zlib.h>

enum { PACKED_BYTES = 1 << 16 };

typedef struct gunzip {
    km_input *source;
    int is_open; // inside a gzip stream
    z_stream z;
    unsigned char packed[PACKED_BYTES];
} gunzip;

static km_status open_gzip(void **state, km_input *source, const km_packing *packing, const char *part,
                           km_error *err) {
    enum { GZIP_WINDOW = 15 + 16 };
    (void)packing;
    (void)part;
    gunzip *g = *state = calloc(1, sizeof *g);
    if (g) g->source = source;
    if (g && inflateInit2(&g->z, GZIP_WINDOW) == Z_OK) return KM_OK;
    free(g);
    *state = NULL;
    return km_fail_memory(err, "unpacking", sizeof *g);
}

static void close_gzip(void *state) {
    gunzip *g = state;
    inflateEnd(&g->z);
    free(g);
}

// Unpacks into z.next_out, which has room. *ended: nothing more will come.
static km_status inflate_some(int *ended, gunzip *g, km_error *err) {
    const char *name = g->source->name;
    *ended = 0;
    if (g->z.avail_in == 0) {
        int64_t got;
        KM_TRY(km_input_read(&got, g->packed, PACKED_BYTES, g->source, err));
        g->z.next_in = g->packed;
        g->z.avail_in = (uInt)got;
        *ended = got == 0;
        if (*ended && g->is_open)
            return km_fail(err, KM_ERROR_DATA, "%s is cut short: what is packed in it does not end", name);
        if (*ended) return KM_OK;
    }
    g->is_open = 1;
    int result = inflate(&g->z, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) return km_fail_memory(err, "unpacking", 1 << 15);
    if (result == Z_STREAM_END) { // another stream may follow
        g->is_open = 0;
        inflateReset(&g->z);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return km_fail(err, KM_ERROR_DATA, "%s is damaged: zlib cannot unpack it (%s)", name,
                       g->z.msg ? g->z.msg : "unknown reason");
    }
    return KM_OK;
}

static km_status read_gzip(int64_t *got, void *out, int64_t size, void *state, km_error *err) {
    gunzip *g = state;
    int64_t room = size < 1 << 30 ? size : 1 << 30;
    *got = 0;
    for (int ended = 0; *got == 0 && !ended;) {
        g->z.next_out = out;
        g->z.avail_out = (uInt)room;
        KM_TRY(inflate_some(&ended, g, err));
        *got = room - (int64_t)g->z.avail_out;
    }
    return KM_OK;
}

const km_unpack_library km_by_zlib = {open_gzip, read_gzip, close_gzip, NULL};

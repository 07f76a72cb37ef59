// SPDX-License-Identifier: MIT
// Text that may be packed by gzip, which its first bytes tell.
#include "../../base/error.h"
#include "reader.h"

#include <stdlib.h>
#include <zlib.h>

enum { PACKED_BYTES = 1 << 16 };

struct km_unpacker {
    km_input *input;
    int is_gzip, is_open; // is_open: inside a gzip stream
    z_stream z;
    unsigned char packed[PACKED_BYTES];
};

km_status km_unpacker_create(km_unpacker **out, km_input *input, km_error *err) {
    km_unpacker *u = calloc(1, sizeof *u);
    *out = u;
    if (!u) return km_fail_memory(err, "reading text", sizeof *u);
    u->input = input;
    u->is_gzip = km_input_is_gzip(input);
    enum { GZIP_WINDOW = 15 + 16 };
    if (u->is_gzip && inflateInit2(&u->z, GZIP_WINDOW) != Z_OK) {
        u->is_gzip = 0;
        km_unpacker_destroy(out);
        return km_fail_memory(err, "unpacking text", 1 << 15);
    }
    return KM_OK;
}

void km_unpacker_destroy(km_unpacker **unpacker) {
    if (!*unpacker) return;
    if ((*unpacker)->is_gzip) inflateEnd(&(*unpacker)->z);
    free(*unpacker);
    *unpacker = NULL;
}

// Unpacks into z.next_out, which has room. *ended: nothing more will come.
static km_status inflate_some(int *ended, km_unpacker *u, km_error *err) {
    const char *name = u->input->name;
    *ended = 0;
    if (u->z.avail_in == 0) {
        int64_t got;
        KM_TRY(km_input_read(&got, u->packed, PACKED_BYTES, u->input, err));
        u->z.next_in = u->packed;
        u->z.avail_in = (uInt)got;
        *ended = got == 0;
        if (*ended && u->is_open)
            return km_fail(err, KM_ERROR_DATA, "%s is cut short: its compressed text does not end", name);
        if (*ended) return KM_OK;
    }
    u->is_open = 1;
    int result = inflate(&u->z, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) return km_fail_memory(err, "unpacking text", 1 << 15);
    if (result == Z_STREAM_END) { // another stream may follow
        u->is_open = 0;
        inflateReset(&u->z);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return km_fail(err, KM_ERROR_DATA, "%s is damaged: its compressed text cannot be unpacked (%s)", name,
                       u->z.msg ? u->z.msg : "unknown reason");
    }
    return KM_OK;
}

km_status km_unpacker_read(int64_t *got, unsigned char *out, int64_t size, km_unpacker *u, km_error *err) {
    *got = 0;
    for (int ended = 0; *got < size && !ended;) {
        int64_t more = 0;
        if (u->is_gzip) {
            int64_t room = size - *got < 1 << 30 ? size - *got : 1 << 30;
            u->z.next_out = out + *got;
            u->z.avail_out = (uInt)room;
            KM_TRY(inflate_some(&ended, u, err));
            more = room - (int64_t)u->z.avail_out;
        } else {
            KM_TRY(km_input_read(&more, out + *got, size - *got, u->input, err));
            ended = more == 0;
        }
        *got += more;
    }
    return KM_OK;
}

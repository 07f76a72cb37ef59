// SPDX-License-Identifier: MIT
// In the place of unpack.c where the library is built without zlib: text as it is.
#include "../../base/error.h"
#include "reader.h"

#include <stdlib.h>

struct km_unpacker {
    km_input *input;
};

km_status km_unpacker_create(km_unpacker **out, km_input *input, km_error *err) {
    *out = NULL;
    if (km_input_is_gzip(input))
        return km_fail(
            err, KM_ERROR_DATA,
            "%s is packed by gzip, and this kmgen was built without zlib; unpack it with gunzip, or "
            "build kmgen with meson's option -Dzlib=enabled",
            input->name);
    km_unpacker *unpacker = calloc(1, sizeof *unpacker);
    if (!unpacker) return km_fail_memory(err, "reading text", sizeof *unpacker);
    unpacker->input = input;
    *out = unpacker;
    return KM_OK;
}

void km_unpacker_destroy(km_unpacker **unpacker) {
    free(*unpacker);
    *unpacker = NULL;
}

km_status km_unpacker_read(int64_t *got, unsigned char *out, int64_t size, km_unpacker *unpacker,
                           km_error *err) {
    *got = 0;
    for (int64_t more = 1; *got < size && more > 0; *got += more)
        KM_TRY(km_input_read(&more, out + *got, size - *got, unpacker->input, err));
    return KM_OK;
}

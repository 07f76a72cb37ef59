// SPDX-License-Identifier: MIT
// In the place of npz.c where the library is built without libarchive.
#include "../../base/error.h"
#include "reader.h"

#include <string.h>

int km_npz_sniff(const km_input *input) {
    return input->head_size >= 4 && memcmp(input->head, "PK\3\4", 4) == 0;
}

km_status km_npz_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    (void)table;
    (void)params;
    return km_fail(
        err, KM_ERROR_DATA,
        "%s is .npz, and this kmgen was built without libarchive; save one array by numpy.save(path, "
        "array), a sparse matrix by scipy.io.mmwrite(path, x), or build kmgen with meson's option "
        "-Dlibarchive=enabled",
        input->name);
}

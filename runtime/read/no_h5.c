// SPDX-License-Identifier: MIT
// In the place of h5.c where the library is built without HDF5.
#include "../../base/error.h"
#include "reader.h"

#include <string.h>

int km_h5_sniff(const km_input *input) {
    return input->head_size >= 8 && memcmp(input->head, "\x89HDF\r\n\x1a\n", 8) == 0;
}

km_status km_h5_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    (void)table;
    (void)params;
    return km_fail(err, KM_ERROR_DATA,
                   "%s is HDF5, and this kmgen was built without it; save the dataset by "
                   "numpy.save(path, dataset), or build kmgen with meson's option -Dhdf5=enabled",
                   input->name);
}

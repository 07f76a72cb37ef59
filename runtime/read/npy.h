// SPDX-License-Identifier: MIT
// The header of NumPy's .npy format, which arrays of .npz have, too.
#ifndef KM_RUNTIME_READ_NPY_H
#define KM_RUNTIME_READ_NPY_H
#include "reader.h"

typedef struct km_npy_header {
    char dtype[32];
    int is_fortran, has_order, has_dtype;
    int64_t shape[2];
    int64_t dimensions; // of the shape, -1: not seen; only the first two are kept
    int64_t bytes;      // before the values
} km_npy_header;

// Reads the header at the front of `bytes`. KM_ERROR_DATA where it is damaged, or not whole.
km_status km_npy_header_read(km_npy_header *header, const unsigned char *bytes, int64_t size,
                             const char *file, km_error *err);
// Sets a table's element and `swapped`.
km_status km_npy_set_element(km_table *table, const km_npy_header *header, const char *file, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// What a .npy file begins with.
#ifndef KM_RUNTIME_WRITE_NPY_HEAD_H
#define KM_RUNTIME_WRITE_NPY_HEAD_H
#include <stdint.h>

// One size for every shape, so that it can be written again once the number of rows is known.
enum { KM_NPY_HEAD_SIZE = 128 };

// `dtype` as "<i4", for this machine's own byte order; `columns` 0: one dimension.
void km_npy_head(unsigned char head[KM_NPY_HEAD_SIZE], const char *dtype, int64_t rows, int64_t columns);

#endif

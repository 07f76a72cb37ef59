// SPDX-License-Identifier: MIT
// NumPy's .npy files, version 1.0. Source of the format: the documentation of numpy.lib.format.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../file.h"
#include "npy_head.h"

#include <kmgen/data.h>

#include <inttypes.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static const char native_order = '<';
#else
static const char native_order = '>';
#endif

void km_npy_head(unsigned char head[KM_NPY_HEAD_SIZE], const char *dtype, int64_t rows, int64_t columns) {
    enum { START = 10, REST = KM_NPY_HEAD_SIZE - START };
    static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, REST, 0};
    char shape[64];
    if (columns)
        snprintf(shape, sizeof shape, "(%" PRId64 ", %" PRId64 ")", rows, columns);
    else
        snprintf(shape, sizeof shape, "(%" PRId64 ",)", rows);
    memset(head, ' ', KM_NPY_HEAD_SIZE);
    memcpy(head, magic, sizeof magic);
    int size =
        snprintf((char *)head + START, REST, "{'descr': '%c%.2s', 'fortran_order': False, 'shape': %s, }",
                 dtype[0] == '|' ? '|' : native_order, dtype + 1, shape);
    head[START + size] = ' ';
    head[KM_NPY_HEAD_SIZE - 1] = '\n';
}

km_status km_npy_write(const char *path, const void *values, int64_t rows, int64_t columns, const char *dtype,
                       km_error *err) {
    int is_known = strcmp(dtype, "<i4") == 0 || strcmp(dtype, "<f4") == 0 || strcmp(dtype, "<f8") == 0 ||
                   strcmp(dtype, "|u1") == 0;
    int64_t count, bytes;
    if (!is_known || rows < 0 || columns < 0 || km_mul_overflows(&count, rows, columns ? columns : 1) ||
        km_mul_overflows(&bytes, count, dtype[2] - '0'))
        return km_fail(err, KM_ERROR_USAGE, "%s: cannot write %" PRId64 " x %" PRId64 " values of dtype %.8s",
                       path, rows, columns, dtype);
    unsigned char head[KM_NPY_HEAD_SIZE];
    km_npy_head(head, dtype, rows, columns);
    km_file_writer writer;
    KM_TRY(km_file_begin(&writer, path, err));
    km_file_add(&writer, head, sizeof head);
    km_file_add(&writer, values, bytes);
    return km_file_commit(&writer, err);
}

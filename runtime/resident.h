// SPDX-License-Identifier: MIT
// Points that lie on a device, the caller's: what km_data_from_device stands on.
#ifndef KM_RUNTIME_RESIDENT_H
#define KM_RUNTIME_RESIDENT_H
#include "backend.h"

// Opened by a backend, whose struct starts with it. Immutable: any number of threads may read it.
struct km_resident {
    const km_backend *backend;
    int ordinal;
    const char *address; // of the first row, on the device
    km_type type;
    int64_t d; // a row has d elements of `type`, without gaps
};

// Waits for what `stream` holds. KM_ERROR_USAGE: nothing of that device lies at `address`; KM_ERROR_DEVICE.
km_status km_resident_open(km_resident **out, int ordinal, const void *address, int64_t d, km_type type,
                           void *stream, km_error *err);
void km_resident_close(km_resident **resident);

// Copies rows first .. first + count - 1, converted to `type`, to the host: count x d.
km_status km_resident_read(void *out, const km_resident *resident, int64_t first, int64_t count, km_type type,
                           km_error *err);
// Copies these rows, in one go, as doubles: count x d.
km_status km_resident_read_rows(double *out, const km_resident *resident, const int64_t *rows, int64_t count,
                                km_error *err);

// Where all points of `data` lie; NULL: on the host.
const km_resident *km_data_resident(const km_data *data);
// The row there of the first point.
int64_t km_data_resident_first(const km_data *data);
// Copies these points as doubles: count x d. One by one it is as km_data_read, which takes long of a device.
km_status km_data_read_points(double *out, const km_data *data, const int64_t *points, int64_t count,
                              km_error *err);

#endif

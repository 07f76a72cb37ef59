// SPDX-License-Identifier: MIT
#include "resident.h"
#include "../base/error.h"
#include "../base/size.h"

#include <stdlib.h>

km_status km_resident_open(km_resident **out, int ordinal, const void *address, int64_t d, km_type type,
                           void *stream, km_error *err) {
    *out = NULL;
    KM_TRY(km_backend_cuda.resident_open(out, ordinal, address, stream, err));
    (*out)->backend = &km_backend_cuda;
    (*out)->address = address;
    (*out)->type = type;
    (*out)->d = d;
    return KM_OK;
}

void km_resident_close(km_resident **resident) {
    if (*resident) (*resident)->backend->resident_close(resident);
}

static void convert(void *out, const void *raw, int64_t count, km_type type) {
    if (type == KM_FLOAT64)
        for (int64_t i = 0; i < count; i++) ((double *)out)[i] = (double)((const float *)raw)[i];
    else
        for (int64_t i = 0; i < count; i++) ((float *)out)[i] = (float)((const double *)raw)[i];
}

km_status km_resident_read(void *out, const km_resident *resident, int64_t first, int64_t count, km_type type,
                           km_error *err) {
    int64_t row = resident->d * km_type_bytes(resident->type), values = count * resident->d;
    if (count == 0) return KM_OK;
    void *raw = out;
    if (type != resident->type) raw = malloc((size_t)(count * row));
    if (!raw) return km_fail_memory(err, "points of the device", count * row);
    km_status status = resident->backend->resident_read(raw, resident, &first, 1, row, count * row, err);
    if (raw == out) return status;
    if (status == KM_OK) convert(out, raw, values, type);
    free(raw);
    return status;
}

km_status km_resident_read_rows(double *out, const km_resident *resident, const int64_t *rows, int64_t count,
                                km_error *err) {
    int64_t row = resident->d * km_type_bytes(resident->type), values = count * resident->d;
    if (count == 0) return KM_OK;
    void *raw = resident->type == KM_FLOAT64 ? out : malloc((size_t)(count * row));
    if (!raw) return km_fail_memory(err, "points of the device", count * row);
    km_status status = resident->backend->resident_read(raw, resident, rows, count, row, row, err);
    if (raw == out) return status;
    if (status == KM_OK) convert(out, raw, values, KM_FLOAT64);
    free(raw);
    return status;
}

// SPDX-License-Identifier: MIT
// Points that are not read from a file: the caller's memory or device, and those that are drawn.
#include "../base/error.h"
#include "../base/size.h"
#include "../base/wording.h"
#include "data_state.h"

#include <inttypes.h>
#include <stdlib.h>

static km_status check_memory(const void *base, int64_t n, int64_t d, int64_t row_stride,
                              int64_t column_stride, km_error *err) {
    int64_t rows, columns, bytes, per_row = row_stride ? row_stride : d;
    if (n < 0 || d < 1 || d > KM_FEATURES_DENSE_MAX)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: points must be n x d with n >= 0 and d 1..%d, got %" PRId64 " x %" PRId64,
                       km_say(KM_SAY_POINTS), KM_FEATURES_DENSE_MAX, n, d);
    if (n > 0 && !base)
        return km_fail(err, KM_ERROR_USAGE, "%s: the base of %" PRId64 " points is NULL",
                       km_say(KM_SAY_POINTS), n);
    if ((row_stride == 0) != (column_stride == 0))
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: strides must both be 0 (C order) or both not, got %" PRId64 " and %" PRId64,
                       km_say(KM_SAY_POINTS), row_stride, column_stride);
    if (km_mul_overflows(&rows, n, per_row) || km_mul_overflows(&columns, d, column_stride) ||
        km_add_overflows(&bytes, llabs(rows), llabs(columns)) || km_mul_overflows(&bytes, bytes, 8))
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: %" PRId64 " x %" PRId64 " points with strides %" PRId64 " and %" PRId64
                       " do not fit an address space",
                       km_say(KM_SAY_POINTS), n, d, row_stride, column_stride);
    return KM_OK;
}

km_status km_data_from_memory(km_data **out, const void *base, int64_t n, int64_t d, km_type type,
                              int64_t row_stride, int64_t column_stride, const double *weights,
                              km_error *err) {
    *out = NULL;
    KM_TRY(check_memory(base, n, d, row_stride, column_stride, err));
    if (type != KM_FLOAT32 && type != KM_FLOAT64)
        return km_fail(err, KM_ERROR_USAGE, "%s: the type must be KM_FLOAT32 or KM_FLOAT64, got %d",
                       km_say(KM_SAY_POINTS), (int)type);
    if (weights) KM_TRY(km_data_check_weights(weights, n, km_say(KM_SAY_WEIGHTS), err));
    km_data *data = NULL;
    KM_TRY(km_data_create(&data, km_say(KM_SAY_POINTS), err));
    data->table = (km_table){.base = base,
                             .element = type == KM_FLOAT64 ? KM_ELEMENT_F8 : KM_ELEMENT_F4,
                             .rows = n,
                             .columns = d,
                             .row_stride = row_stride ? row_stride : d,
                             .column_stride = column_stride ? column_stride : 1,
                             .first_line = 1};
    data->n = n;
    data->weights = weights;
    data->is_memory = 1;
    *out = data;
    return KM_OK;
}

km_status km_data_from_device(km_data **out, int device, const void *base, int64_t n, int64_t d, km_type type,
                              void *stream, const double *weights, km_error *err) {
    km_status status;
    KM_TRY(km_data_from_memory(out, base, n, d, type, 0, 0, weights, err));
    km_data *data = *out;
    data->table.base = NULL; // nothing reads it here
    if (device < 0 && device != KM_DEVICE_AUTO)
        status = km_fail(err, KM_ERROR_USAGE, "device %d is no CUDA ordinal (0 and up)", device);
    else if ((uintptr_t)base % (uintptr_t)km_type_bytes(type) != 0)
        status = km_fail(err, KM_ERROR_USAGE, "%s: the points on the device are not aligned to %d bytes",
                         km_say(KM_SAY_POINTS), (int)km_type_bytes(type));
    else
        status = km_resident_open(&data->resident, device, base, d, type, stream, err);
    if (status != KM_OK) km_data_destroy(out);
    return status;
}

const km_resident *km_data_resident(const km_data *data) {
    return data->is_unit ? NULL : data->resident; // rows that the host divides come from the host
}

int64_t km_data_resident_first(const km_data *data) {
    return data->first;
}

km_status km_data_from_columns(km_data **out, const void *const *columns, int64_t n, int64_t d, km_type type,
                               int64_t row_stride, const double *weights, km_error *err) {
    *out = NULL;
    if (!columns)
        return km_fail(err, KM_ERROR_USAGE, "%s: the columns of the points are NULL", km_say(KM_SAY_POINTS));
    if (row_stride == 0) row_stride = 1;
    KM_TRY(km_data_from_memory(out, d > 0 ? columns[0] : NULL, n, d, type, row_stride, 1, weights, err));
    for (int64_t f = 0; f < d; f++) {
        if (n == 0 || columns[f]) continue;
        km_data_destroy(out);
        return km_fail(err, KM_ERROR_USAGE, "%s: column %" PRId64 " of %" PRId64 " points is NULL",
                       km_say(KM_SAY_POINTS), f, n);
    }
    km_table *table = &(*out)->table;
    table->apart = malloc((size_t)d * sizeof *table->apart);
    if (!table->apart) {
        km_data_destroy(out);
        return km_fail_memory(err, "columns", d * (int64_t)sizeof *table->apart);
    }
    for (int64_t f = 0; f < d; f++) table->apart[f] = columns[f];
    return KM_OK;
}

static km_status check_csr(const int64_t *starts, const void *indices, int32_t index_bytes,
                           const void *values, km_type type, int64_t n, int64_t d, km_error *err) {
    if (n < 0 || n == INT64_MAX || d < 1 || d > KM_FEATURES_MAX)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: points must be n x d with n >= 0 and d 1..%d, got %" PRId64 " x %" PRId64,
                       km_say(KM_SAY_POINTS), KM_FEATURES_MAX, n, d);
    if (index_bytes != 4 && index_bytes != 8)
        return km_fail(err, KM_ERROR_USAGE, "%s: an index must have 4 or 8 bytes, got %" PRId32,
                       km_say(KM_SAY_POINTS), index_bytes);
    if (type != KM_FLOAT32 && type != KM_FLOAT64)
        return km_fail(err, KM_ERROR_USAGE, "%s: the type must be KM_FLOAT32 or KM_FLOAT64, got %d",
                       km_say(KM_SAY_POINTS), (int)type);
    if (!starts || (starts[n] > 0 && (!indices || !values)))
        return km_fail(err, KM_ERROR_USAGE, "%s: starts, indices or values of %" PRId64 " points are NULL",
                       km_say(KM_SAY_POINTS), n);
    return KM_OK;
}

km_status km_data_from_csr(km_data **out, const int64_t *starts, const void *indices, int32_t index_bytes,
                           const void *values, km_type type, int64_t n, int64_t d, const double *weights,
                           km_error *err) {
    *out = NULL;
    km_status status;
    km_data *data = NULL;
    KM_TRY(check_csr(starts, indices, index_bytes, values, type, n, d, err));
    if (weights) KM_TRY(km_data_check_weights(weights, n, km_say(KM_SAY_WEIGHTS), err));
    KM_TRY(km_data_create(&data, km_say(KM_SAY_POINTS), err));
    data->table = (km_table){.rows = n, .columns = d, .first_line = 1};
    data->n = n;
    data->weights = weights;
    data->is_memory = 1;
    km_csr *csr = data->table.csr = calloc(1, sizeof *csr);
    if (!csr) {
        status = km_fail_memory(err, "a sparse matrix", (int64_t)sizeof *csr);
        goto done;
    }
    *csr = (km_csr){.rows = n,
                    .columns = d,
                    .starts = starts,
                    .indices = indices,
                    .index_bytes = index_bytes,
                    .type = type,
                    .values = values};
    KM_TRY_GOTO(km_csr_check(csr, starts[n], km_say(KM_SAY_POINTS), err));
    *out = data;
    data = NULL;
done:
    km_data_destroy(&data);
    return status;
}

km_status km_data_drawn(km_data **out, const km_draws *draws, int64_t n, const double *weights,
                        km_error *err) {
    km_data *data = NULL;
    *out = NULL;
    KM_TRY(km_data_create(&data, "drawn points", err));
    data->table = (km_table){.rows = n, .columns = draws->d, .first_line = 1};
    data->n = n;
    data->weights = weights;
    data->draws = draws;
    *out = data;
    return KM_OK;
}

const km_draws *km_data_draws(const km_data *data) {
    return data->draws;
}

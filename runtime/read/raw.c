// SPDX-License-Identifier: MIT
// Raw files: nothing but the values, row after row, in this machine's byte order.
#include "../../base/error.h"
#include "reader.h"

#include <inttypes.h>

static km_status raw_open(km_table *table, km_element element, km_input *input, const km_data_params *params,
                          km_error *err) {
    int64_t d = params->features, size, row_bytes = d * km_element_size(element);
    if (d < 1 || d > KM_FEATURES_DENSE_MAX)
        return km_fail(err, KM_ERROR_USAGE,
                       "%s: a raw file needs the number of its columns: --features 1..%d, got %" PRId64,
                       input->name, KM_FEATURES_DENSE_MAX, d);
    KM_TRY(km_input_whole(&table->base, &size, table, input, err));
    if (size % row_bytes)
        return km_fail(err, KM_ERROR_DATA,
                       "%s has %" PRId64 " bytes, which is no multiple of the %" PRId64
                       " bytes of a row of %" PRId64 " %s values",
                       input->name, size, row_bytes, d, element == KM_ELEMENT_F4 ? "float32" : "float64");
    table->element = element;
    table->rows = size / row_bytes;
    table->columns = d;
    table->row_stride = d;
    table->column_stride = 1;
    table->first_line = 1;
    return km_table_pick(table, params->columns, input->name, err);
}

km_status km_f32_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    return raw_open(table, KM_ELEMENT_F4, input, params, err);
}

km_status km_f64_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    return raw_open(table, KM_ELEMENT_F8, input, params, err);
}

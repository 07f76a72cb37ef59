// SPDX-License-Identifier: MIT
// What the rest of the runtime may say about a km_data beyond <kmgen/data.h>.
#ifndef KM_RUNTIME_DATA_H
#define KM_RUNTIME_DATA_H
#include <kmgen/data.h>

// Refuses the first value of a point that is NaN or infinite once it is of `type`: KM_ERROR_DATA with file, row and
// column as the user counts them (for text, row is the line of the file). KM_OK when the point has none.
km_status km_data_refuse_point(const km_data *data, int64_t point, km_type type, km_error *err);

#endif

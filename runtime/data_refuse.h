// SPDX-License-Identifier: MIT
// What the rest of the runtime may say about a km_data beyond <kmgen/data.h>.
#ifndef KM_RUNTIME_DATA_REFUSE_H
#define KM_RUNTIME_DATA_REFUSE_H
#include <kmgen/data.h>

// KM_ERROR_DATA with file, row and column as the user counts them (for text, row is the line of the file), saying
// why a value is no coordinate: NaN, infinite, or too far from the rest for float32. `feature` -1: the first
// value of the point that is NaN or infinite.
km_status km_data_refuse_value(const km_data *data, int64_t point, int64_t feature, km_error *err);

// KM_ERROR_DATA with file, row and column of the first point whose `feature` is `value`: "FILE: row R, column C:
// VALUE is WHY".
km_status km_data_refuse_extreme(const km_data *data, int64_t feature, double value, const char *why,
                                 km_error *err);

// KM_ERROR_IO, in place of any error found before, when the file became shorter while it was used: to be asked after
// the points were read for the last time, whatever else went wrong.
km_status km_data_check(const km_data *data, km_error *err);

// A feature in a sentence: "3 (name)", or "3", the number of its column in the file.
enum { KM_COLUMN_TEXT_SIZE = 96 };
const char *km_data_column_text(char text[KM_COLUMN_TEXT_SIZE], const km_data *data, int64_t feature);

// Milliseconds that text took to become numbers, with reading its bytes.
double km_data_parse_ms(const km_data *data);

// Whether missing values have something that takes their place.
int km_data_is_filled(const km_data *data);
// Gives a view of dense `data` the fills of as many features as it has. *view NULL: of all of them, which `data` must
// outlive.
km_status km_data_fill_in(km_data **view, const km_data *data, const km_feature *prepared, km_error *err);

#endif

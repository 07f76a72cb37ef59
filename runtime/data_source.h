// SPDX-License-Identifier: MIT
// Where the rows of a km_data stood in its file, for those who read the file again.
#ifndef KM_RUNTIME_DATA_SOURCE_H
#define KM_RUNTIME_DATA_SOURCE_H
#include <kmgen/data.h>

struct km_input;

// What separates the cells of a text; 0: the data are of no text.
char km_data_separator(const km_data *data);
// What stands between whole numbers and decimals of that text; 0.
char km_data_decimal(const km_data *data);
// The line that row 0..rows-1 begins in, from 1; of what is no text, the row's number.
int64_t km_data_line(const km_data *data, int64_t row);
// Number of feature f's column in the file, from 1.
int64_t km_data_number(const km_data *data, int64_t f);
// Zero: the points are sparse, or drawn.
int km_data_is_dense(const km_data *data);
// Non-zero: values are of 4 bytes at most, so that a float holds them.
int km_data_is_single(const km_data *data);

// Rows first .. first + count - 1 of the table, those that were dropped among them, as doubles. Dense data only.
km_status km_data_read_rows(double *out, const km_data *data, int64_t first, int64_t count, km_error *err);

// As km_data_open, from an input that was opened before and stays the caller's; params->format must be given.
km_status km_data_open_input(km_data **out, struct km_input *input, const km_data_params *params,
                             km_error *err);
// Points first .. first + count - 1 alone, without weights; their rows stay those of `data`, which must outlive it.
km_status km_data_part(km_data **out, const km_data *data, int64_t first, int64_t count, km_error *err);

#endif

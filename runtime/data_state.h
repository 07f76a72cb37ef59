// SPDX-License-Identifier: MIT
// What a km_data is, for the files that make one up: data.c opens and reads, data_*.c have a subject each.
#ifndef KM_RUNTIME_DATA_STATE_H
#define KM_RUNTIME_DATA_STATE_H
#include "drawn.h"
#include "read/reader.h"
#include "resident.h"

struct km_data {
    char *name;
    km_table table;
    int64_t n;
    int64_t *kept;         // row of each point; NULL: all rows
    const double *weights; // n, or NULL: all 1
    double *owned_weights; // the same when they are not the caller's
    const km_draws *draws; // the caller's; NULL: points are in the table
    km_resident *resident; // the same of points on a device; the table has their shape
    double *fill;          // what takes the place of NaN, of each feature; NaN: nothing; NULL: of none
    km_feature
        *prepared; // how features are made, in words of `table` and with `fill`; NULL: they are columns
    int is_view;   // elements, lines and rows belong to another km_data
    int is_part;   // all of the table belongs to another km_data
    int64_t first; // row of the first point of a part; 0
    int is_range;  // a part that stands for itself: it has as many rows as points
    struct km_share *share; // whose points these are, of those of all ranks; NULL
    int is_piece;           // of a longer text: no row may be left
    int is_memory;          // the caller's, which no option of reading applies to
    int drops;              // rows with missing values are left out
    double unit_rounding;   // km_data_unit_rounding
    int is_unit;            // rows are divided by their length when they are read (km_data_unit), of a part
    int64_t *owned_kept;    // `kept` of these, where some rows have no length
    km_data *base;          // which was made for them, and goes with them; NULL
};

// Data of no points yet, with this name.
km_status km_data_create(km_data **out, const char *name, km_error *err);

// Checks the weights of all points, of memory. `file`: what a message calls them.
km_status km_data_check_weights(const double *weights, int64_t n, const char *file, km_error *err);
// Whether floats hold the weights: passes of float32 on a GPU have them so. KM_ERROR_DATA: they do not.
km_status km_data_check_float_weights(const km_data *data, km_error *err);
// The weights that the table has in a column.
km_status km_data_take_weights(km_data *data, struct km_share *share, km_error *err);
// The weights that a file has, one a row. `share`: each rank reads those of its rows, which `data` has.
km_status km_data_read_weights(km_data *data, const char *path, struct km_share *share, km_error *err);

// Refuses, drops or fills in missing values, as params->missing says.
km_status km_data_treat_missing(km_data *data, const km_data_params *params, struct km_share *share,
                                km_error *err);

#endif

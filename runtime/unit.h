// SPDX-License-Identifier: MIT
// Rows and centroids of length 1: spherical k-means. Between points of length 1 the squared distance is 2 (1 - cos), so
// passes need to know nothing of it; rows are divided by their length as they are read, centroids as they are updated.
#ifndef KM_RUNTIME_UNIT_H
#define KM_RUNTIME_UNIT_H
#include "backend.h"

// Divides a row of `count` values by its length, whatever their size: of dense values (columns NULL), or of nonzeros in
// these columns, with the same bits. A row of zeros stays as it is, and one with a value that is no number.
void km_unit_row(double *x, const uint32_t *columns, int64_t count);

// The length, in the data's own coordinates, of the mean of points of the clustered space: of their sum and weight. 0
// where it is no more than what rounding leaves of 0: the points cancel each other out, and share no direction.
double km_unit_length(const km_engine *engine, const double *sum, double weight);

// Coordinate f of the centroid of length 1, in the clustered space, for a mean of this length; not rounded.
static inline double km_unit_coordinate(const km_engine *engine, double mean, double length, int64_t f) {
    double centre = engine->unit_centre[f];
    return ((mean / engine->unit_factor + centre) / length - centre) * engine->unit_factor;
}

// Keeps in the engine what that takes of the space that its points were loaded into, where its metric is the cosine.
km_status km_unit_init(km_engine *engine, const km_load_params *params, km_error *err);

// *view: data whose rows have length 1, of `data`, which must outlive it, or of *view where that is not NULL, which it
// takes over. Rows of zeros have no direction: they are refused, or dropped where rows with missing values are.
km_status km_data_unit(km_data **view, const km_data *data, km_error *err);

// Whether rows of such data come divided by their length.
int km_data_is_unit(const km_data *data);

// Such rows of one direction differ by so much of a value: what rounding of the values leaves in the quotients. 0 of
// other data.
double km_data_unit_rounding(const km_data *data);

#endif

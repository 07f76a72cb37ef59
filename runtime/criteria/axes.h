// SPDX-License-Identifier: MIT
// Principal components of all points of a table, and the box around the points along them.
#ifndef KM_RUNTIME_AXES_H
#define KM_RUNTIME_AXES_H
#include <kmgen/data.h>

// Jacobi's rotations take d^3 steps a sweep, and the box d^2 for each point.
enum { KM_PRINCIPAL_FEATURES_MAX = 512 };

// axes: d x d, a principal component a row, of the points (x - centre) * factor; low and width: d, the box along them.
// The points are read twice. KM_ERROR_USAGE for more features than are worth the time.
km_status km_principal_box(double *low, double *width, double *axes, const km_data *data,
                           const double *centre, const double *factor, km_error *err);

// Says that there are more features than that, and the way out: KM_ERROR_USAGE. To be asked before a long job.
km_status km_principal_refuse(const km_data *data, km_error *err);

#endif

// SPDX-License-Identifier: MIT
// Points that are drawn instead of read: every value is a function of the seed, the set, the point and the feature, so
// nothing is stored or sent. A backend that can draws them where its points are; km_data_read draws the same bits.
#ifndef KM_RUNTIME_DRAWN_H
#define KM_RUNTIME_DRAWN_H
#include <kmgen/data.h>

// Point i, along axis a: y = fma(u, width[a], low[a]), u = km_draw(seed, set, i, a) (templates/draws.h). Its features
// are these (axes NULL), or sums over the axes in their order, x[f] = fma(axes[a * d + f], y[a], x[f]); rounded to
// `type`.
typedef struct km_draws {
    km_type type;
    uint64_t seed, set;
    int64_t d;
    const double *low, *width; // d
    const double *axes;        // d x d, an axis a row; or NULL
} km_draws;

// n points. `draws`, its arrays and `weights` (NULL: all 1) stay the caller's and live longer than the data.
km_status km_data_drawn(km_data **out, const km_draws *draws, int64_t n, const double *weights,
                        km_error *err);

// What draws the points of the data; NULL where they are read.
const km_draws *km_data_draws(const km_data *data);

// Features of point i, d of them.
void km_draws_point(double *out, const km_draws *draws, int64_t i);

#endif

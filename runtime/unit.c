// SPDX-License-Identifier: MIT
#include "unit.h"
#include "../base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Sums of squares between these lose no digits.
#define SQUARE_LOW 0x1p-900
#define SQUARE_HIGH 0x1p1000
// A mean of rows of length 1 that is no longer than this is what rounding leaves of 0: each row is off by at most two
// units in the last place of its own length and of the centre's.
#define CANCELLED_FLOAT32 0x1p-20
#define CANCELLED_FLOAT64 0x1p-48

enum { LANES = 4 }; // sums side by side, by column, so that zeros that are not stored change nothing

static double square_of(const double *x, const uint32_t *columns, int64_t count) {
    double lanes[LANES] = {0};
    for (int64_t e = 0; e < count; e++) lanes[(columns ? columns[e] : e) % LANES] += x[e] * x[e];
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

void km_unit_row(double *x, const uint32_t *columns, int64_t count) {
    double square = square_of(x, columns, count);
    if (!(square >= SQUARE_LOW && square <= SQUARE_HIGH)) {
        double largest = 0;
        int exponent;
        for (int64_t e = 0; e < count; e++) {
            if (!isfinite(x[e])) return;
            largest = fmax(largest, fabs(x[e]));
        }
        if (!(largest > 0)) return;
        frexp(largest, &exponent);
        for (int64_t e = 0; e < count; e++) x[e] = ldexp(x[e], -exponent);
        square = square_of(x, columns, count);
    }
    double length = sqrt(square);
    for (int64_t e = 0; e < count; e++) x[e] /= length;
}

km_status km_unit_init(km_engine *engine, const km_load_params *params, km_error *err) {
    if (engine->plan->spec.metric != KM_METRIC_COSINE) return KM_OK;
    if (!engine->unit_centre) engine->unit_centre = malloc((size_t)engine->d * sizeof(double));
    if (!engine->unit_centre)
        return km_fail_memory(err, "the centre of the points", engine->d * (int64_t)sizeof(double));
    memcpy(engine->unit_centre, params->centre, (size_t)engine->d * sizeof(double));
    engine->unit_factor =
        params->factor[0]; // rows of length 1 are not scaled, so all are the fit's power of two
    return KM_OK;
}

double km_unit_length(const km_engine *engine, const double *sum, double weight) {
    double square = 0;
    for (int64_t f = 0; f < engine->d; f++) {
        double x = sum[f] / weight / engine->unit_factor + engine->unit_centre[f];
        square += x * x;
    }
    double length = sqrt(square);
    return length > (engine->plan->spec.type == KM_FLOAT32 ? CANCELLED_FLOAT32 : CANCELLED_FLOAT64) ? length
                                                                                                    : 0;
}

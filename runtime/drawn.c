// SPDX-License-Identifier: MIT
#include "drawn.h"
#include "../templates/both.h"

#include <math.h>

static double along(const km_draws *draws, int64_t i, int64_t a) {
    return fma(km_draw(draws->seed, draws->set, (uint64_t)i, (uint64_t)a), draws->width[a], draws->low[a]);
}

void km_draws_point(double *out, const km_draws *draws, int64_t i) {
    int64_t d = draws->d;
    for (int64_t f = 0; f < d; f++) out[f] = draws->axes ? 0 : along(draws, i, f);
    for (int64_t a = 0; a < d && draws->axes; a++) {
        double y = along(draws, i, a);
        for (int64_t f = 0; f < d; f++) out[f] = fma(draws->axes[a * d + f], y, out[f]);
    }
    if (draws->type == KM_FLOAT32)
        for (int64_t f = 0; f < d; f++) out[f] = (double)(float)out[f];
}

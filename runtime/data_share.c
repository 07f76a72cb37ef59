// SPDX-License-Identifier: MIT
// Points of one rank, as a part of those of all.
#include "../base/error.h"
#include "data_state.h"
#include "share.h"

#include <stdlib.h>
#include <string.h>

km_status km_data_shared(km_data **out, const km_data *data, km_share *share, km_error *err) {
    KM_TRY(km_share_agree(share, km_data_range(out, data, 0, data->n, err), err));
    (*out)->share = share;
    (*out)->is_range = data->is_range;
    double with = data->weights != NULL, *ones;
    KM_TRY(km_share_sum(share, &with, 1, err));
    if (with == 0 || data->weights) return KM_OK;
    // Points without weights beside others that have some: what is done with weights is done by all.
    ones = (*out)->owned_weights = malloc((size_t)(data->n + 1) * sizeof *ones);
    if (!ones) return km_fail_memory(err, "weights", data->n * (int64_t)sizeof *ones);
    for (int64_t i = 0; i < data->n; i++) ones[i] = 1;
    (*out)->weights = ones;
    return KM_OK;
}

km_share *km_data_share(const km_data *data) {
    return data->share;
}

int64_t km_data_points_all(const km_data *data) {
    return data->share ? data->share->n_all : data->n;
}

// Each rank reads those that it has.
km_status km_data_read_shared(double *out, const km_data *data, const int64_t *points, int64_t count,
                              km_error *err) {
    int64_t d = data->table.columns;
    memset(out, 0, (size_t)(count * d) * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        if (km_share_has(data->share, points[i]))
            KM_TRY(km_data_read(out + i * d, data, points[i] - data->share->first, 1, KM_FLOAT64, err));
    return km_share_sum(data->share, out, count * d, err);
}

km_status km_data_weights_at(double *out, const km_data *data, const int64_t *points, int64_t count,
                             km_error *err) {
    const km_share *share = data->share;
    for (int64_t i = 0; i < count; i++) {
        int is_here = !share || km_share_has(share, points[i]);
        int64_t at = points[i] - (share ? share->first : 0);
        out[i] = !is_here ? 0 : data->weights ? data->weights[at] : 1;
    }
    return km_share_sum(data->share, out, count, err);
}

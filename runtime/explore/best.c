// SPDX-License-Identifier: MIT
#include "best.h"
#include "../../base/error.h"
#include "../rounding.h"
#include "../sweep.h"
#include <math.h>
#include <string.h>

km_status km_subset_offer(km_contest *contest, int64_t restart, const km_slot_state *state, double *row,
                          int64_t k, int64_t size, int64_t n, double total_square, km_error *err) {
    double rounding = km_inertia_rounding(row, row + k * size, k, size, n, total_square);
    km_restart done = {restart, state->inertia, rounding, state->iterations, state->converged, 0, 0, row};
    return km_contest_offer(contest, &done, err);
}

km_status km_subset_take_best(km_subset_fit *fit, km_contest *contest, int64_t size, const double *inertias,
                              int64_t restarts, int64_t stride, km_error *err) {
    const km_restart *winner = km_contest_winner(contest);
    KM_TRY(km_number_clusters(winner->centroids, fit->k, size, 0, err));
    double limit = contest->limit + KM_SUBSETS_AGREE_RELATIVE * fmax(contest->limit, 0);
    fit->restart = winner->index;
    fit->n_iter = winner->iterations;
    fit->converged = winner->converged;
    fit->restarts_agreed = 0;
    for (int64_t r = 0; r < restarts; r++) fit->restarts_agreed += inertias[r * stride] <= limit;
    memcpy(fit->centroids, winner->centroids, (size_t)(fit->k * size) * sizeof(double));
    return KM_OK;
}

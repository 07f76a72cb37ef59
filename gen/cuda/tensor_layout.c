// SPDX-License-Identifier: MIT
// How the design `tensor` lays the K list out over the rows of its matrix products (tensor.h).
#include "tensor_config.h"

#include <string.h>

// An attempt to lay out a launch, with some number of row tiles, rows of the first segment and levels; and the Ks
// that it takes.
typedef struct attempt {
    km_tensor_launch launch;
    km_tensor_k_layout places[KM_TENSOR_KS_MAX]; // launch -1: left for another one
    int64_t placed;                              // clusters
    int left;
} attempt;

// Each K takes one quad: its first segment or both, or the second segment of a quad where it is free.
static void try_segments(attempt *to, const km_spec *spec, int form, const km_tensor_k_layout *before) {
    int rows = 2 * to->launch.row_tiles, first = to->launch.first_rows, quads = 0, second_used[QUADS] = {0};
    for (int64_t i = spec->clusters_count - 1; i >= 0; i--) {
        km_tensor_k_layout *own = &to->places[i];
        int k = spec->clusters[i], quad = 0;
        *own = before[i];
        if (before[i].launch >= 0) continue;
        while (quad < quads && (second_used[quad] || k > rows - first)) quad++;
        if (quad < quads) {
            *own = (km_tensor_k_layout){0, (int16_t)quad, 1, (int16_t)first, (int16_t)k, 0};
            second_used[quad] = 1;
        } else if (quads < QUADS && k <= rows) {
            *own = (km_tensor_k_layout){0, (int16_t)quads, 1, 0, (int16_t)k, 0};
            second_used[quads++] = k > first;
        } else {
            to->left++;
            continue;
        }
        to->placed += k;
        to->launch.resolving_cycles += km_tensor_resolving_cycles(spec, k, form);
    }
}

// Each K takes 1, 2, 4 or 8 quads.
static void try_levels(attempt *to, const km_spec *spec, int form, const km_tensor_k_layout *before) {
    int rows = 2 * to->launch.row_tiles, quads = 0;
    for (int64_t i = spec->clusters_count - 1; i >= 0; i--) {
        km_tensor_k_layout *own = &to->places[i];
        int k = spec->clusters[i], own_quads = 1;
        *own = before[i];
        if (before[i].launch >= 0) continue;
        while (own_quads * rows < k) own_quads *= 2;
        if (quads + own_quads > QUADS) {
            to->left++;
            continue;
        }
        *own = (km_tensor_k_layout){
            0, (int16_t)quads, (int16_t)own_quads, 0, (int16_t)((k + own_quads - 1) / own_quads), 0};
        quads += own_quads;
        to->placed += k;
        to->launch.ks_count++;
        to->launch.resolving_cycles += km_tensor_resolving_cycles(spec, k, form);
        while (1 << to->launch.levels < own_quads) to->launch.levels++;
    }
}

// The next launch with the most clusters for its cycles; with `all`, only of those that take all that is left.
static int best_launch(attempt *best, const km_spec *spec, int form, const km_tensor_k_layout *before,
                       int64_t row_tiles_max, int all) {
    double best_worth = 0;
    for (int tiles = 1; tiles <= row_tiles_max; tiles++) {
        for (int first = form == ROWS ? 2 * tiles + 1 : tiles; first <= 2 * tiles + 1; first++) {
            attempt now = {
                .launch = {.row_tiles = tiles, .first_rows = first > 2 * tiles ? 2 * tiles : first}};
            if (first > 2 * tiles)
                try_levels(&now, spec, form, before);
            else
                try_segments(&now, spec, form, before);
            double worth = (double)now.placed / km_tensor_launch_cycles(&now.launch, spec, form);
            if (!now.placed || worth <= best_worth || (all && now.left)) continue;
            best_worth = worth;
            *best = now;
        }
    }
    return best_worth > 0;
}

// Cycles of a launch and of the best ones behind it, until no K is left.
static double cycles_with_rest(const attempt *first, const km_spec *spec, int form, int64_t row_tiles_max) {
    attempt now = *first, next = {0};
    double cycles = km_tensor_launch_cycles(&now.launch, spec, form);
    while (now.left && best_launch(&next, spec, form, now.places, row_tiles_max, 0)) {
        cycles += km_tensor_launch_cycles(&next.launch, spec, form);
        now = next;
    }
    return cycles;
}

int km_tensor_lay_out(km_tensor_layout *layout, const km_spec *spec, int form, int64_t row_tiles_max) {
    memset(layout, 0, sizeof *layout);
    if (spec->clusters_count > KM_TENSOR_KS_MAX) return 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        if (spec->clusters[i] > 2 * row_tiles_max * QUADS) return 0;
        layout->ks[i].launch = -1;
    }
    for (int left = 1; left;) {
        attempt best = {0}, last = {0};
        if (layout->launches_count == KM_TENSOR_LAUNCHES_MAX) return 0;
        if (!best_launch(&best, spec, form, layout->ks, row_tiles_max, 0)) return 0;
        if (best.left && best_launch(&last, spec, form, layout->ks, row_tiles_max, 1) &&
            km_tensor_launch_cycles(&last.launch, spec, form) <
                cycles_with_rest(&best, spec, form, row_tiles_max))
            best = last;
        for (int64_t i = 0; i < spec->clusters_count; i++) {
            if (layout->ks[i].launch >= 0 || best.places[i].launch < 0) continue;
            layout->ks[i] = best.places[i];
            layout->ks[i].launch = (int16_t)layout->launches_count;
            layout->ks[i].sum_row = (int16_t)best.launch.sum_rows;
            best.launch.sum_rows += spec->clusters[i];
        }
        layout->launches[layout->launches_count++] = best.launch;
        left = best.left;
    }
    return 1;
}

int64_t km_tensor_row_tiles_most(const km_tensor_layout *layout) {
    int64_t most = 0;
    for (int64_t p = 0; p < layout->launches_count; p++)
        if (layout->launches[p].row_tiles > most) most = layout->launches[p].row_tiles;
    return most;
}

int64_t km_tensor_sum_rows_most(const km_tensor_layout *layout) {
    int64_t most = 0;
    for (int64_t p = 0; p < layout->launches_count; p++)
        if (layout->launches[p].sum_rows > most) most = layout->launches[p].sum_rows;
    return most;
}

int km_tensor_has_levels(const km_tensor_layout *layout) {
    for (int64_t p = 0; p < layout->launches_count; p++)
        if (layout->launches[p].levels > 0) return 1;
    return 0;
}

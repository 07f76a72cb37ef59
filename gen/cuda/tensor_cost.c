// SPDX-License-Identifier: MIT
// What a pass of the design `tensor` takes of a scheduler: cycles of each form for 32 points.
#include "measured.h"
#include "tensor_config.h"

#include <math.h>

int64_t km_tensor_digits_lines(const km_spec *spec) {
    return (3 * ((spec->features + 3) / 4) + 1) / 2 * 2;
}

int64_t km_tensor_sum_tiles(const km_spec *spec, int form) {
    return (3 * spec->features + (form == ROUNDED ? 0 : 3) + 7) / 8;
}

int64_t km_tensor_fragments_of(const km_spec *spec, int form) {
    return form == ROUNDED ? (spec->features + 7) / 8 + 1 : (spec->features + 3) / 4;
}

double km_tensor_digits_cycles(const km_tensor_launch *launch, const km_spec *spec, int64_t column_pairs) {
    double slices = (double)((spec->features + 31) / 32);
    return 2 * measured.digits_step / (double)column_pairs + measured.level * launch->levels +
           2 * launch->row_tiles * (measured.digits_tile + measured.digits_slice * slices);
}

int64_t km_tensor_feature_eights(const km_spec *spec) {
    return spec->features <= 8 ? 1 : (spec->features + 15) / 16 * 2;
}

// Cycles of a scheduler for 32 points, form rows: scores of each row tile, then the additions of each K.
static double rows_cycles(const km_tensor_launch *launch, const km_spec *spec) {
    return measured.rows_step +
           launch->row_tiles *
               (measured.rows_tile + measured.rows_products * (double)km_tensor_feature_eights(spec)) +
           launch->ks_count * measured.rows_adding * (double)spec->features;
}

double km_tensor_resolving_cycles(const km_spec *spec, int k, int form) {
    if (form == ROWS) {
        double points = measured.rows_ambiguous * pow(k, 2 / (double)spec->features);
        return k * (points < 40 ? points : 40);
    }
    if (form == DIGITS) return k > 16 ? measured.digits_resolving * (k - 16) : 0;
    return k > 20 && form != DISTANCE ? measured.resolving * (k - 20) : 0;
}

// Cycles of a scheduler for 32 points, forms with sums in registers: a constant of the launch, then those of each
// row tile.
static double register_cycles(const km_tensor_launch *launch, const km_spec *spec, int form) {
    double lane_d = (double)((spec->features + 3) / 4), columns = (double)km_tensor_sum_tiles(spec, form);
    double tile =
        measured.hi_lo_tile + lane_d * measured.hi_lo_scores + lane_d * lane_d * measured.hi_lo_sums;
    double levels = measured.level * launch->levels;
    if (form == ROUNDED)
        return measured.rounded_step + measured.rounded_feature * (double)spec->features + levels +
               launch->row_tiles *
                   (measured.rounded_tile +
                    measured.rounded_scores * (double)(km_tensor_fragments_of(spec, form) - 1) +
                    measured.rounded_sums * columns);
    if (form == DISTANCE)
        return measured.distance_step + levels +
               launch->row_tiles * (measured.distance_tile + measured.distance_sums * columns);
    return measured.hi_lo_step + tile * launch->row_tiles + levels +
           (launch->first_rows < 2 * launch->row_tiles ? measured.hi_lo_segments : 0);
}

double km_tensor_launch_cycles(const km_tensor_launch *launch, const km_spec *spec, int form) {
    double cycles = form == ROWS     ? rows_cycles(launch, spec)
                    : form == DIGITS ? km_tensor_digits_cycles(launch, spec, 2)
                                     : register_cycles(launch, spec, form);
    return launch->resolving_cycles + cycles;
}

double km_tensor_layout_cycles(const km_tensor_layout *layout, const km_spec *spec, int form) {
    double cycles = 0;
    for (int64_t p = 0; p < layout->launches_count; p++)
        cycles += km_tensor_launch_cycles(&layout->launches[p], spec, form);
    return cycles;
}

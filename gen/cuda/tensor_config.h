// SPDX-License-Identifier: MIT
// The design `tensor`: its forms and configurations, for the files that plan it. tensor.c decides, tensor_layout.c lays
// the K list out, tensor_cost.c counts cycles, tensor_evaluate.c registers, shared memory and time.
#ifndef KM_GEN_CUDA_TENSOR_CONFIG_H
#define KM_GEN_CUDA_TENSOR_CONFIG_H
#include "../words.h"
#include "common.h"
#include "tensor.h"

enum {
    QUADS = 8, // of a warp: four lanes each, which have the same rows of scores
    ROWS_PER_TILE = 16,
    HI_LO = KM_WORD_form_hi_lo,
    DISTANCE = KM_WORD_form_distance,
    ROUNDED = KM_WORD_form_rounded,
    DIGITS = KM_WORD_form_digits,
    ROWS = KM_WORD_form_rows
};

// A configuration of the design.
typedef struct km_tensor_config {
    int form;
    int64_t row_tiles, block, blocks_per_sm, launches, registers, shared_bytes;
    int64_t stages; // tiles of a warp in shared memory: one that is worked on, others that are being copied
    int64_t column_pairs; // pairs of columns, eight points each, that a warp compares at a time
    int64_t spare;        // registers of a thread that are left
    int fragments_kept;   // the centroids' fragments stay in registers
    int tight;            // registers are so few that the text must limit what the compiler reads ahead
    double operations, memory_ns, issue_ns, total_ns;
} km_tensor_config;

// tensor_cost.c

// Lines of 128 bytes for the digits of 32 points: one digit of four features each.
int64_t km_tensor_digits_lines(const km_spec *spec);
// Column tiles of sums of digits, eight columns each: three a feature; with distances also a count, and two for
// squares.
int64_t km_tensor_sum_tiles(const km_spec *spec, int form);
// Fragments of a row tile, 16 bytes of a lane each.
int64_t km_tensor_fragments_of(const km_spec *spec, int form);
// Form rows: features in eights, as products take them.
int64_t km_tensor_feature_eights(const km_spec *spec);
// Cycles of a scheduler for 32 points, form digits, of which a warp takes 16 for each column pair at a time: scores and
// products of each row tile, without what warps wait for each other.
double km_tensor_digits_cycles(const km_tensor_launch *launch, const km_spec *spec, int64_t column_pairs);
// Cycles for ambiguous points. Centroids of a large K are closer to each other, so more points are ambiguous.
double km_tensor_resolving_cycles(const km_spec *spec, int k, int form);
// Cycles of a scheduler for 32 points.
double km_tensor_launch_cycles(const km_tensor_launch *launch, const km_spec *spec, int form);
// The same of all launches.
double km_tensor_layout_cycles(const km_tensor_layout *layout, const km_spec *spec, int form);

// tensor_layout.c

// Row tiles of the largest launch.
int64_t km_tensor_row_tiles_most(const km_tensor_layout *layout);
int64_t km_tensor_sum_rows_most(const km_tensor_layout *layout);
// Whether a K takes more than one quad.
int km_tensor_has_levels(const km_tensor_layout *layout);

// tensor_evaluate.c

// Bytes of a point as the pass reads it.
int64_t km_tensor_point_bytes(const km_spec *spec, int form);
// Points that a block works on at a time.
int64_t km_tensor_points_of(const km_tensor_config *config);
// Evaluates a configuration whose form, row_tiles, block and blocks_per_sm are set: fills the other numbers; 0 when it
// cannot be run.
int km_tensor_evaluate(km_tensor_config *config, const km_plan *plan, const km_tensor_layout *layout);

#endif

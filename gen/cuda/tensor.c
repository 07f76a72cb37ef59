// SPDX-License-Identifier: MIT
// The CUDA design `tensor` (templates/cuda/tensor): scores and sums as matrix products. How the K list is laid out over
// the rows of these products, which form computes them, and what a pass costs.
#include "../../base/size.h"
#include "../../base/text.h"
#include "../source.h"
#include "../words.h"
#include "common.h"
#include "measured.h"
#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
typedef struct tensor_config {
    int form;
    int64_t row_tiles, block, blocks_per_sm, launches, registers, shared_bytes;
    int64_t stages; // tiles of a warp in shared memory: one that is worked on, others that are being copied
    int64_t column_pairs; // pairs of columns, eight points each, that a warp compares at a time
    int64_t spare;        // registers of a thread that are left
    int fragments_kept;   // the centroids' fragments stay in registers
    int tight;            // registers are so few that the text must limit what the compiler reads ahead
    double operations, memory_ns, issue_ns, total_ns;
} tensor_config;

// What is decided in addition to numbers: the plan's layout.
typedef struct decided {
    km_tensor_layout layout;
    tensor_config config;
} decided;

// An attempt to lay out a launch, with some number of row tiles, rows of the first segment and levels; and the Ks
// that it takes.
typedef struct attempt {
    km_tensor_launch launch;
    km_tensor_k_layout places[KM_TENSOR_KS_MAX]; // launch -1: left for another one
    int64_t placed;                              // clusters
    int left;
} attempt;

// Forms -------------------------------------------------------------------------------------------------------

// Why a form cannot compute a spec, or NULL: it can. Forms for sm_90 rely on products that are rounded once when
// they are added in half precision, which was measured there. Bytes of added masks must not overflow: a K has less
// than 256 rows of scores. Codes of `rows` have 8 bits: eight quads with 32 rows of scores each.
static const char *form_refused(int form, const km_spec *spec) {
    enum {
        BYTES_K_MAX = 64,
        ROWS_K_MAX = 256,
        DISTANCE_D_MAX = 4,
        ROUNDED_D_MAX = 16,
        HI_LO_D_MAX = 20,
        ROWS_D_MAX = 64
    };
    int64_t d = spec->features, k_max = spec->clusters[spec->clusters_count - 1];
    int is_bytes = form == DISTANCE || form == ROUNDED;
    if (form != HI_LO && form != DIGITS && spec->target.arch / 10 != 9) return "the form needs sm_90";
    if (is_bytes && k_max > BYTES_K_MAX) return "the form takes K up to 64";
    if (form == ROWS && k_max > ROWS_K_MAX) return "the form takes K up to 256";
    if (form == DISTANCE && d > DISTANCE_D_MAX) return "the form takes up to 4 features";
    if (form == ROUNDED && d > ROUNDED_D_MAX) return "the form takes up to 16 features";
    if (form == ROWS && d > ROWS_D_MAX) return "the form takes up to 64 features";
    if (form == HI_LO && d > HI_LO_D_MAX) return "the form takes up to 20 features";
    if (form == DIGITS && d <= HI_LO_D_MAX) return "the form is for more than 20 features";
    return NULL;
}

// The form whose sums are in registers of each warp, or of a block's warps together. Sums of int8 digits take more
// registers than those of fp16, and of more than 8 features more memory: there they pay with many clusters. The
// sums of many features do not fit the registers of each warp: on an H200 `digits` is slower by a fifth at 18,
// faster by a tenth at 24.
static int form_of(const km_spec *spec, const char **why) {
    enum { FEATURES_ANY = 8, MANY = 40 };
    int64_t sum = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) sum += spec->clusters[i];
    *why = "more than 20 features: a block's warps share the sums, which one has no room for";
    if (!form_refused(DIGITS, spec)) return DIGITS;
    *why = "up to 4 features fp16 tells distances apart";
    if (!form_refused(DISTANCE, spec)) return DISTANCE;
    *why = "int8 digits in sums pay up to 8 features, and up to 16 where the list has more than 40 clusters";
    if (!form_refused(ROUNDED, spec)) return spec->features <= FEATURES_ANY || sum > MANY ? ROUNDED : HI_LO;
    *why = spec->target.arch / 10 != 9
               ? "fp16 scores with an error term, and int8 digits, were measured on sm_90 only"
           : spec->features > 16 ? "fp16 scores with an error term pay up to 16 features"
                                 : "int8 digits in sums take K up to 64";
    return HI_LO;
}

// Cost --------------------------------------------------------------------------------------------------------

// Lines of 128 bytes for the digits of 32 points: one digit of four features each.
static int64_t digits_lines(const km_spec *spec) {
    return (3 * ((spec->features + 3) / 4) + 1) / 2 * 2;
}

// Column tiles of sums of digits, eight columns each: three a feature; with distances also a count, and two for
// squares.
static int64_t sum_tiles(const km_spec *spec, int form) {
    return (3 * spec->features + (form == ROUNDED ? 0 : 3) + 7) / 8;
}

// Fragments of a row tile, 16 bytes of a lane each.
static int64_t fragments_of(const km_spec *spec, int form) {
    return form == ROUNDED ? (spec->features + 7) / 8 + 1 : (spec->features + 3) / 4;
}

// Cycles of a scheduler for 32 points, form digits, of which a warp takes 16 for each column pair at a time: scores and
// products of each row tile, without what warps wait for each other.
static double digits_cycles(const km_tensor_launch *launch, const km_spec *spec, int64_t column_pairs) {
    double slices = (double)((spec->features + 31) / 32);
    return 2 * measured.digits_step / (double)column_pairs + measured.level * launch->levels +
           2 * launch->row_tiles * (measured.digits_tile + measured.digits_slice * slices);
}

// Form rows: features in eights, as products take them.
static int64_t feature_eights(const km_spec *spec) {
    return spec->features <= 8 ? 1 : (spec->features + 15) / 16 * 2;
}

// Cycles of a scheduler for 32 points, form rows: scores of each row tile, then the additions of each K.
static double rows_cycles(const km_tensor_launch *launch, const km_spec *spec) {
    return measured.rows_step +
           launch->row_tiles * (measured.rows_tile + measured.rows_products * (double)feature_eights(spec)) +
           launch->ks_count * measured.rows_adding * (double)spec->features;
}

// Cycles for ambiguous points. Centroids of a large K are closer to each other, so more points are ambiguous.
static double resolving_cycles(const km_spec *spec, int k, int form) {
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
    double lane_d = (double)((spec->features + 3) / 4), columns = (double)sum_tiles(spec, form);
    double tile =
        measured.hi_lo_tile + lane_d * measured.hi_lo_scores + lane_d * lane_d * measured.hi_lo_sums;
    double levels = measured.level * launch->levels;
    if (form == ROUNDED)
        return measured.rounded_step + measured.rounded_feature * (double)spec->features + levels +
               launch->row_tiles *
                   (measured.rounded_tile + measured.rounded_scores * (double)(fragments_of(spec, form) - 1) +
                    measured.rounded_sums * columns);
    if (form == DISTANCE)
        return measured.distance_step + levels +
               launch->row_tiles * (measured.distance_tile + measured.distance_sums * columns);
    return measured.hi_lo_step + tile * launch->row_tiles + levels +
           (launch->first_rows < 2 * launch->row_tiles ? measured.hi_lo_segments : 0);
}

// Cycles of a scheduler for 32 points.
static double launch_cycles(const km_tensor_launch *launch, const km_spec *spec, int form) {
    double cycles = form == ROWS     ? rows_cycles(launch, spec)
                    : form == DIGITS ? digits_cycles(launch, spec, 2)
                                     : register_cycles(launch, spec, form);
    return launch->resolving_cycles + cycles;
}

static double layout_cycles(const km_tensor_layout *layout, const km_spec *spec, int form) {
    double cycles = 0;
    for (int64_t p = 0; p < layout->launches_count; p++)
        cycles += launch_cycles(&layout->launches[p], spec, form);
    return cycles;
}

// Layout ------------------------------------------------------------------------------------------------------

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
        to->launch.resolving_cycles += resolving_cycles(spec, k, form);
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
        to->launch.resolving_cycles += resolving_cycles(spec, k, form);
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
            double worth = (double)now.placed / launch_cycles(&now.launch, spec, form);
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
    double cycles = launch_cycles(&now.launch, spec, form);
    while (now.left && best_launch(&next, spec, form, now.places, row_tiles_max, 0)) {
        cycles += launch_cycles(&next.launch, spec, form);
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
            launch_cycles(&last.launch, spec, form) < cycles_with_rest(&best, spec, form, row_tiles_max))
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

// Registers, shared memory, time ------------------------------------------------------------------------------

// Registers of a thread, fitted to the compiler's counts: a constant, then sums, fragments and scores of each row tile.
static int64_t registers_needed(const km_plan *plan, int form, int64_t tiles, int fragments_kept) {
    const km_spec *spec = &plan->spec;
    int64_t d = spec->features, lane_d = (d + 3) / 4, labels = plan->track_labels ? 28 : 0;
    int64_t fragments = fragments_kept ? 4 * fragments_of(spec, form) : 0;
    if (form == ROUNDED) {
        // While scores are computed, or while ambiguous points are resolved.
        int64_t scoring = (fragments_kept ? 43 : 36) + 10 * tiles, deciding = 40 + 2 * d + 6 * tiles;
        return km_max(scoring, deciding) + tiles * (4 * sum_tiles(spec, form) + fragments) + labels;
    }
    if (form == DISTANCE)
        return 48 + tiles * (4 * sum_tiles(spec, form) + fragments + 7) + (fragments_kept ? 0 : 8) + labels;
    return 42 + 2 * lane_d + tiles * (4 * lane_d + fragments + 10) + (fragments_kept ? 0 : 8) + labels;
}

// Bytes of a point as the pass reads it.
static int64_t point_bytes(const km_spec *spec, int form) {
    int64_t d = spec->features;
    if (form == ROWS) return feature_eights(spec) * 16 + d * 4 + 2;
    if (form == DIGITS) return digits_lines(spec) * 4;
    if (form == ROUNDED) return (d + 7) / 8 * 16 + sum_tiles(spec, form) * 8 + 2;
    return (d + 3) / 4 * 16 + (form == DISTANCE ? sum_tiles(spec, form) * 8 : 0);
}

// Tiles in shared memory, where the user fixed their number; 0: he did not.
static int64_t stages_fixed(const km_plan *plan) {
    int64_t prefetch = -1;
    km_plan_fixed(plan, KM_PARAM_prefetch, &prefetch);
    return prefetch + 1;
}

// Tiles of a warp in shared memory, so that a multiprocessor has enough bytes in flight.
static int64_t stages_needed(const km_plan *plan, int form, int64_t warps) {
    enum { ON_THEIR_WAY = 40 << 10, LEAST = 3, MOST = 8 };
    int64_t tile = point_bytes(&plan->spec, form) * 32, fixed = stages_fixed(plan);
    return fixed ? fixed : km_min(km_max(2 + ON_THEIR_WAY / (warps * tile), LEAST), MOST);
}

static int64_t shared_needed(const km_plan *plan, const km_tensor_layout *layout,
                             const tensor_config *config) {
    int64_t d = plan->spec.features, fragments = fragments_of(&plan->spec, config->form), most = 0;
    for (int64_t p = 0; p < layout->launches_count; p++) {
        const km_tensor_launch *launch = &layout->launches[p];
        int64_t bytes = launch->row_tiles * fragments * 512 + launch->sum_rows * (8 * (d + 1) + 4 * d + 1) +
                        launch->row_tiles * 32;
        if (bytes > most) most = bytes;
    }
    return most +
           config->block / 32 *
               (config->stages * point_bytes(&plan->spec, config->form) * 32 + 64 * 8 + 16 + 4 * d) +
           36 * d + plan->spec.clusters_count + 512;
}

// Points that a block works on at a time.
static int64_t points_of(const tensor_config *config) {
    return config->block / 2 * config->column_pairs;
}

// Form digits: registers of a thread, bytes of shared memory.
static int64_t digits_registers(const km_plan *plan, int64_t tiles, int64_t warps, int64_t column_pairs) {
    int64_t slices = (plan->spec.features + 31) / 32,
            own = (digits_lines(&plan->spec) / 2 + warps - 1) / warps;
    int64_t columns = own > 1 && (plan->spec.features + 3) / 4 % 4 ? own : 0,
            spare = column_pairs > 1 ? 46 : 36;
    return spare + 2 * tiles + 4 * tiles * own + column_pairs * (4 * tiles + 8 * slices + 24) + columns +
           (plan->track_labels ? 16 : 0);
}

static int64_t digits_shared(const km_plan *plan, const km_tensor_layout *layout,
                             const tensor_config *config) {
    int64_t d = plan->spec.features, warps = config->block / 32,
            step_tiles = warps * config->column_pairs / 2, most = 0;
    for (int64_t p = 0; p < layout->launches_count; p++) {
        const km_tensor_launch *launch = &layout->launches[p];
        int64_t bytes =
            launch->row_tiles * (step_tiles * 1024 + (d + 31) / 32 * 1024 + 64 + 32) + launch->sum_rows;
        if (bytes > most) most = bytes;
    }
    return most + config->stages * step_tiles * (digits_lines(&plan->spec) * 128 + 4) + warps * 64 * 12 +
           16 * d + warps * 4 * d + plan->spec.clusters_count + 512;
}

static int64_t registers_limit(const tensor_config *config, const km_plan *plan) {
    enum { MARGIN_SM_100 = 24 }; // there the compiler needs more than this file counts
    int64_t limit = km_cuda_registers_limit(plan, config->block, config->blocks_per_sm);
    return plan->spec.target.arch >= 100 ? limit - MARGIN_SM_100 : limit;
}

// Whether there are as many registers as needed, and more than in configurations that were found to spill.
static int has_room(tensor_config *config, const km_plan *plan) {
    config->spare = registers_limit(config, plan) - config->registers;
    return config->spare >= 0 && !km_plan_avoids(plan, KM_DESIGN_TENSOR, config->spare);
}

// Row tiles of the largest launch.
static int64_t row_tiles_most(const km_tensor_layout *layout) {
    int64_t most = 0;
    for (int64_t p = 0; p < layout->launches_count; p++)
        if (layout->launches[p].row_tiles > most) most = layout->launches[p].row_tiles;
    return most;
}

// Whether a K takes more than one quad.
static int has_levels(const km_tensor_layout *layout) {
    for (int64_t p = 0; p < layout->launches_count; p++)
        if (layout->launches[p].levels > 0) return 1;
    return 0;
}

// Time of memory and arithmetic, which overlap less than in other designs: a warp waits for its own tile.
static double overlapped(const tensor_config *config) {
    const double power = measured.tensor_overlap;
    return pow(pow(config->memory_ns, power) + pow(config->issue_ns, power), 1 / power);
}

// Cycles of a scheduler for a tile of a block, form digits: its arithmetic.
static double digits_arithmetic(const tensor_config *config, const km_tensor_launch *launch,
                                const km_spec *spec) {
    double cycles = launch->resolving_cycles + digits_cycles(launch, spec, config->column_pairs);
    return cycles * (double)points_of(config) / (4 * 32);
}

// Cycles that a block's warps wait for each other in a tile: at barriers, and for the warp with most columns of sums.
static double digits_waits(const tensor_config *config, const km_tensor_launch *launch, const km_spec *spec) {
    int64_t warps = config->block / 32, columns = km_divide_up(digits_lines(spec), 2);
    double slowest = (double)(km_divide_up(columns, warps) * points_of(config)) / 16;
    return measured.digits_waits + measured.digits_waits_warp * (double)warps +
           measured.digits_waits_columns * launch->row_tiles * slowest;
}

// Nanoseconds of a point. Blocks of a multiprocessor share its schedulers, and wait at the same time.
static double digits_issue_ns(const tensor_config *config, const km_plan *plan,
                              const km_tensor_layout *layout) {
    double cycles = 0, blocks = (double)config->blocks_per_sm;
    for (int64_t p = 0; p < layout->launches_count; p++)
        cycles += blocks * digits_arithmetic(config, &layout->launches[p], &plan->spec) +
                  digits_waits(config, &layout->launches[p], &plan->spec);
    return cycles / (blocks * (double)points_of(config) * (double)plan->facts.units * plan->facts.clock_ghz);
}

// Evaluates a configuration of digits with its layout: fills the other numbers; 0 when it cannot be run.
static int evaluate_digits(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { STAGES_MIN = 3, STAGES_MAX = 6, ON_THEIR_WAY = 40 << 10 };
    const km_device_facts *facts = &plan->facts;
    config->registers =
        digits_registers(plan, row_tiles_most(layout), config->block / 32, config->column_pairs);
    int64_t step =
        config->block / 64 * config->column_pairs * digits_lines(&plan->spec) * 128 * config->blocks_per_sm;
    int64_t fixed = stages_fixed(plan);
    config->stages = fixed ? fixed : km_min(2 + km_divide_up(ON_THEIR_WAY, step), STAGES_MAX);
    if (config->stages < STAGES_MIN || config->stages > STAGES_MAX) return 0;
    config->shared_bytes = digits_shared(plan, layout, config);
    if (!has_room(config, plan) || config->shared_bytes > facts->shared_bytes_per_block ||
        (config->shared_bytes + 1024) * config->blocks_per_sm > facts->shared_bytes_per_unit)
        return 0;
    config->launches = layout->launches_count;
    config->operations = layout_cycles(layout, &plan->spec, config->form);
    config->memory_ns = (double)(config->launches * point_bytes(&plan->spec, DIGITS)) / facts->bandwidth_gbs;
    config->issue_ns = digits_issue_ns(config, plan, layout);
    config->total_ns = overlapped(config);
    return 1;
}

// Likewise, with the better number of column pairs, or the plan's.
static int evaluate_pairs(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    tensor_config best = {0};
    int64_t points = 0;
    if (!km_plan_fixed(plan, KM_PARAM_tile_points, &points))
        points = km_plan_value(plan, KM_PARAM_tile_points);
    for (config->column_pairs = 1; config->column_pairs <= 2; config->column_pairs++) {
        if (points > 0 && points != points_of(config)) continue;
        if (evaluate_digits(config, plan, layout) && (!best.block || config->total_ns <= best.total_ns))
            best = *config;
    }
    if (best.block) *config = best;
    return best.block > 0;
}

// Form rows: registers of a thread, bytes of shared memory.
static int64_t rows_registers(const km_plan *plan, int64_t tiles) {
    return 36 + 25 * tiles / 2 +
           feature_eights(&plan->spec) / 2 * 8; // most are for fragments that are read ahead
}

static int64_t rows_bytes(const km_plan *plan, const km_tensor_layout *layout, const tensor_config *config) {
    int64_t d = plan->spec.features, most = 0, tile = 32 * point_bytes(&plan->spec, ROWS);
    for (int64_t p = 0; p < layout->launches_count; p++) {
        const km_tensor_launch *launch = &layout->launches[p];
        int64_t ring = config->block / 32 * (config->stages * tile + 528),
                centroids = 4 * d * launch->sum_rows;
        int64_t bytes = launch->row_tiles * (feature_eights(&plan->spec) * 512 + 128 + 32) +
                        launch->sum_rows * (8 * (d | 1) + 5) + (ring > centroids ? ring : centroids);
        if (bytes > most) most = bytes;
    }
    return most + 48 * d + (plan->track_labels ? 5 : 1) * plan->spec.clusters_count + 768;
}

// Evaluates a configuration of rows with its layout: fills the other numbers; 0 when it cannot be run.
static int evaluate_rows(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { ON_THEIR_WAY = 32 << 10, STAGES_MIN = 2, STAGES_MAX = 4 };
    const km_device_facts *facts = &plan->facts;
    config->registers = rows_registers(plan, row_tiles_most(layout));
    config->shared_bytes = INT64_MAX;
    int64_t fixed = stages_fixed(plan), bytes = point_bytes(&plan->spec, ROWS);
    int64_t most = km_min(2 + ON_THEIR_WAY / (config->block * config->blocks_per_sm * bytes), STAGES_MAX);
    if (fixed > STAGES_MAX) return 0;
    for (config->stages = fixed ? fixed : most; config->stages >= STAGES_MIN; config->stages--) {
        config->shared_bytes = rows_bytes(plan, layout, config);
        if (fixed || (config->shared_bytes + 1024) * config->blocks_per_sm <= facts->shared_bytes_per_unit)
            break;
    }
    if (config->stages < STAGES_MIN || !has_room(config, plan) ||
        config->shared_bytes > facts->shared_bytes_per_block ||
        (config->shared_bytes + 1024) * config->blocks_per_sm > facts->shared_bytes_per_unit)
        return 0;
    double cycles = layout_cycles(layout, &plan->spec, ROWS),
           warps = (double)(config->block * config->blocks_per_sm) / 128; // of a scheduler
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz;
    config->launches = layout->launches_count;
    config->operations = cycles;
    config->memory_ns = (double)(config->launches * bytes) / facts->bandwidth_gbs;
    double single_warp = warps > 1 ? 1 : measured.rows_single; // nothing hides its stalls
    config->issue_ns = single_warp * cycles * (measured.rows_share + measured.rows_few_warps / warps) *
                       (1 + measured.rows_blocks * (double)config->blocks_per_sm) / rate;
    config->total_ns = overlapped(config);
    return 1;
}

// Evaluates a configuration of the forms with sums in a warp's registers.
static int evaluate_registers(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { STAGES_MIN = 3, STAGES_MAX = 8 };
    const km_device_facts *facts = &plan->facts;
    int form = config->form, levels = has_levels(layout);
    int64_t d = plan->spec.features, block = config->block, blocks_per_sm = config->blocks_per_sm;
    int64_t limit = registers_limit(config, plan), most = row_tiles_most(layout);
    config->fragments_kept = registers_needed(plan, form, most, 1) <= limit;
    config->registers = registers_needed(plan, form, most, config->fragments_kept);
    config->stages = stages_needed(plan, form, block * blocks_per_sm / 32);
    if (config->stages < STAGES_MIN || config->stages > STAGES_MAX) return 0;
    // With few scores there are registers for twice as many columns at a time, which hides latency.
    config->column_pairs = form == ROUNDED || (most <= 2 && d <= 8) ? 2 : 1;
    config->shared_bytes = shared_needed(plan, layout, config);
    // Seen with NVRTC 13: where d is no multiple of 4, or with many row tiles, a text that reads ahead needs a few
    // registers too many. 9 row tiles, or 7 where quads share a K, do not fit at all.
    if (form == ROUNDED) {
        int close = config->registers > limit - 4;
        if (most > 8 || (levels && most > 6) || (close && (d % 4 != 0 || (levels && d > 8)))) return 0;
        config->tight = d % 4 != 0 || most > 6;
    }
    if (form == HI_LO && most > 10) return 0; // likewise
    if (!has_room(config, plan)) return 0;
    if (config->shared_bytes > facts->shared_bytes_per_block) return 0;
    if (config->shared_bytes * blocks_per_sm > facts->shared_bytes_per_unit) return 0;
    double cycles = layout_cycles(layout, &plan->spec, form), warps = (double)(block * blocks_per_sm) / 128;
    double contention = d > 12 && warps > 3 ? measured.contention : 1; // more warps contend
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz; // 32 points in a cycle of each scheduler
    config->launches = layout->launches_count;
    config->operations = cycles;
    config->memory_ns =
        (double)(layout->launches_count * point_bytes(&plan->spec, form)) / facts->bandwidth_gbs;
    double stall = form == DISTANCE ? (measured.distance_share + measured.distance_few_warps / warps) *
                                          (1 + measured.distance_blocks * (double)(blocks_per_sm - 1))
                                    : (measured.tensor_share + measured.tensor_few_warps / warps) *
                                          (1 + measured.tensor_blocks * (double)(blocks_per_sm - 1));
    if (form != DISTANCE && warps <= 1) stall *= measured.tensor_single; // nothing hides its stalls
    config->issue_ns = contention * cycles * stall / rate;
    config->total_ns = overlapped(config);
    return 1;
}

// Evaluates a configuration whose form, row_tiles, block and blocks_per_sm are set: fills the other numbers; 0 when it
// cannot be run.
static int evaluate(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    if (config->form == ROWS) return evaluate_rows(config, plan, layout);
    return config->form == DIGITS ? evaluate_pairs(config, plan, layout)
                                  : evaluate_registers(config, plan, layout);
}

// Estimate ----------------------------------------------------------------------------------------------------

// Why no form can have the plan's type and points, or NULL.
static const char *refusal_of(const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    if (spec->type != KM_FLOAT32) return "its products give the precision of float32";
    if (spec->target.arch < 80) return "its integer products need sm_80 or later";
    if (plan->weighted) return "points have weights";
    if (spec->features > 128) return "a score of more than 128 features has no place in 31 bits";
    if (spec->clusters_count > KM_TENSOR_KS_MAX) return "the list has too many K";
    return NULL;
}

// The best configuration of a form, if it is better than `best`.
static void find_better(tensor_config *best, const km_plan *plan, int form) {
    enum { TILES_MAX = 12, ROWS_TILES_MAX = 16 };
    static const int64_t blocks[] = {128, 256, 384, 512, 768};
    int64_t fixed_tiles = 0, fixed_launches = 0, fixed_block = 0, fixed_blocks_per_sm = 0;
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &fixed_tiles);
    km_plan_fixed(plan, KM_PARAM_launches, &fixed_launches);
    km_plan_fixed(plan, KM_PARAM_block, &fixed_block);
    km_plan_fixed(plan, KM_PARAM_blocks_per_sm, &fixed_blocks_per_sm);
    for (int64_t tiles = 1; tiles <= (form == ROWS ? ROWS_TILES_MAX : TILES_MAX); tiles++) {
        km_tensor_layout layout; // made once, as it takes longer than the rest
        if (fixed_tiles && fixed_tiles != tiles * ROWS_PER_TILE) continue;
        if (!km_tensor_lay_out(&layout, &plan->spec, form, tiles)) continue;
        if (fixed_tiles && row_tiles_most(&layout) != tiles) continue; // no launch needs so many
        if (fixed_launches && fixed_launches != layout.launches_count) continue;
        for (int b = 0; b < (int)(sizeof blocks / sizeof *blocks); b++)
            for (int64_t blocks_per_sm = 1; blocks_per_sm <= 4; blocks_per_sm++) {
                tensor_config config = {
                    .form = form, .row_tiles = tiles, .block = blocks[b], .blocks_per_sm = blocks_per_sm};
                if (fixed_block && fixed_block != blocks[b]) continue;
                if (fixed_blocks_per_sm && fixed_blocks_per_sm != blocks_per_sm) continue;
                if (!evaluate(&config, plan, &layout)) continue;
                if (!best->block || config.total_ns < best->total_ns) *best = config;
            }
    }
}

// The best configuration of all forms, or of the one that the user fixed. Returns why there is none, or NULL.
static const char *best_config(tensor_config *best, const km_plan *plan) {
    static const char no_room[] =
        "neither a warp's registers nor a block's shared memory hold a K and its sums";
    const char *why = refusal_of(plan);
    int64_t fixed = -1;
    if (why) return why;
    if (km_plan_fixed(plan, KM_PARAM_form, &fixed)) {
        why = form_refused((int)fixed, &plan->spec);
        if (!why) find_better(best, plan, (int)fixed);
        return why ? why : best->block ? NULL : no_room;
    }
    find_better(best, plan, form_of(&plan->spec, &why));
    if (!form_refused(ROWS, &plan->spec)) find_better(best, plan, ROWS);
    return best->block ? NULL : no_room;
}

static void estimate(km_config *found, km_plan *plan) {
    tensor_config config = {0};
    km_estimate *estimate = &plan->estimates[KM_DESIGN_TENSOR];
    const char *why_not = best_config(&config, plan);
    estimate->design = KM_DESIGN_TENSOR;
    estimate->feasible = !why_not;
    if (why_not) {
        km_plan_infeasible(plan, KM_DESIGN_TENSOR, why_not);
        return;
    }
    estimate->bytes_per_point = (double)(config.launches * point_bytes(&plan->spec, config.form));
    estimate->operations_per_point = config.operations;
    estimate->memory_ns = config.memory_ns;
    estimate->issue_ns = config.issue_ns;
    estimate->total_ns =
        config.total_ns +
        km_cuda_launches_ns(plan, config.launches,
                            config.form == ROWS ? measured.rows_launch_ns : measured.tensor_launch_ns);
    estimate->registers_per_thread = config.registers;
    estimate->registers_spare = config.spare;
    estimate->shared_bytes_per_block = config.shared_bytes;
    KM_CONFIG_PUT(found, config);
}

// Decision ----------------------------------------------------------------------------------------------------

static km_status decide_form(km_plan *plan, const tensor_config *config, km_error *err) {
    const char *why;
    form_of(&plan->spec, &why);
    if (config->form == ROWS)
        why = "a point is added to one row of its cluster's sums, however many there are";
    return km_plan_set(plan, KM_PARAM_form, config->form, err, "%s", why);
}

// The layout follows from the numbers; names() only copies it.
static km_status decide_layout(km_plan *plan, int form, km_error *err) {
    KM_TRY(km_plan_layout_make(plan, sizeof(decided), err));
    decided *it = plan->layout;
    it->config = (tensor_config){.form = form,
                                 .row_tiles = km_plan_value(plan, KM_PARAM_tile_clusters) / ROWS_PER_TILE,
                                 .block = km_plan_value(plan, KM_PARAM_block),
                                 .blocks_per_sm = km_plan_value(plan, KM_PARAM_blocks_per_sm)};
    if (km_tensor_lay_out(&it->layout, &plan->spec, form, it->config.row_tiles) &&
        evaluate(&it->config, plan, &it->layout))
        return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "the K list does not fit the plan's tiles");
}

static km_status decide(km_plan *plan, const km_config *found, km_error *err) {
    tensor_config best, *config = &best;
    KM_CONFIG_GET(best, found);
    KM_TRY(km_cuda_set_restarts(plan, err));
    KM_TRY(decide_form(plan, config, err));
    KM_TRY(km_plan_set(plan, KM_PARAM_block, config->block, err, "about %lld registers a thread%s",
                       (long long)config->registers,
                       config->fragments_kept ? ", the centroids' fragments among them" : ""));
    KM_TRY(km_plan_set(plan, KM_PARAM_blocks_per_sm, config->blocks_per_sm, err,
                       "as many as registers and shared memory hold"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, config->row_tiles * ROWS_PER_TILE, err,
                       "rows of matrix products that a launch has at most"));
    KM_TRY(km_plan_set(plan, KM_PARAM_prefetch, config->stages - 1, err,
                       "enough bytes in flight that a multiprocessor need not wait"));
    if (config->form == DIGITS)
        KM_TRY(km_plan_set(plan, KM_PARAM_tile_points, points_of(config), err,
                           "points of a block, whose warps share the sums"));
    KM_TRY(km_plan_set(plan, KM_PARAM_launches, config->launches, err, "%s",
                       config->launches == 1 ? "one read of the points serves every K"
                       : config->form == ROWS
                           ? "a warp's registers do not hold the scores of the whole K list"
                           : "a warp's registers do not hold the sums of the whole K list"));
    KM_TRY(km_cuda_set_grid(
        plan, km_plan_value(plan, config->form == DIGITS ? KM_PARAM_tile_points : KM_PARAM_block), err));
    return decide_layout(plan, config->form, err);
}

// Names -------------------------------------------------------------------------------------------------------

static void name_launch(km_env *env, const km_spec *spec, const km_tensor_layout *layout, int64_t index) {
    const km_tensor_launch *launch = &layout->launches[index];
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)index);
    km_env *item = km_env_item(env, "parts", text);
    km_env_set_int(item, "apart", index % KM_SOURCE_LAUNCH_PARTS_MAX);
    km_text ks = {0};
    for (int64_t i = 0; i < spec->clusters_count; i++)
        if (layout->ks[i].launch == index)
            km_text_printf(&ks, "%s%d", ks.size ? ", " : "", spec->clusters[i]);
    km_env_set_text(item, "text", &ks);
    km_env_set_int(item, "row_tiles", launch->row_tiles);
    km_env_set_int(item, "first_rows", launch->first_rows);
    km_env_set_int(item, "levels", launch->levels);
    km_env_set_int(item, "sum_rows", launch->sum_rows);
}

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    const km_spec *spec = &plan->spec;
    const decided *it = plan->layout;
    const tensor_config *config = &it->config;
    (void)err;
    *root = "cuda/tensor/tensor.cu";
    km_cuda_names(env, plan);
    km_env_set_flag(env, "max3", spec->target.arch >= 90);
    km_env_set_int(env, "stages", config->stages);
    km_env_set_int(env, "column_pairs", config->column_pairs);
    km_env_set_int(env, "tight", config->tight);
    km_env_set_flag(env, "fragments_in_registers", config->fragments_kept);
    km_env_set_int(env, "launches_count", it->layout.launches_count);
    for (int64_t launch = 0; launch < it->layout.launches_count; launch++)
        name_launch(env, spec, &it->layout, launch);
    for (int64_t i = 0, offset = 0; i < spec->clusters_count; offset += spec->clusters[i++]) {
        const km_tensor_k_layout *own = &it->layout.ks[i];
        km_env *k = km_cuda_name_k(env, spec, i, offset);
        km_env_set_int(k, "part", own->launch);
        km_env_set_int(k, "quad", own->quad);
        km_env_set_int(k, "quads", own->quads);
        km_env_set_int(k, "score_row", own->score_row);
        km_env_set_int(k, "score_rows", own->score_rows);
        km_env_set_int(k, "sum_row", own->sum_row);
    }
    return KM_OK;
}

// Memory ------------------------------------------------------------------------------------------------------

static int64_t workspace_bytes(const km_plan *plan, int64_t n) {
    const decided *it = plan->layout;
    return km_cuda_partial_bytes(plan) + n * (point_bytes(&plan->spec, it->config.form) + 1);
}

static int point_memory(km_point_memory rows[KM_POINT_MEMORY_MAX], const km_plan *plan) {
    const decided *it = plan->layout;
    rows[0] = (km_point_memory){"points as products take them",
                                (double)point_bytes(&plan->spec, it->config.form) + 1};
    return 1;
}

const km_design_code km_design_tensor = {.estimate = estimate,
                                         .decide = decide,
                                         .names = names,
                                         .workspace_bytes = workspace_bytes,
                                         .point_memory = point_memory};

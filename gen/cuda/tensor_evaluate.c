// SPDX-License-Identifier: MIT
// What a configuration of the design `tensor` takes: registers, shared memory and time, and whether it can be run.
#include "../../base/size.h"
#include "measured.h"
#include "tensor_config.h"

#include <math.h>

// Registers of a thread, fitted to the compiler's counts: a constant, then sums, fragments and scores of each row tile.
static int64_t registers_needed(const km_plan *plan, int form, int64_t tiles, int fragments_kept) {
    const km_spec *spec = &plan->spec;
    int64_t d = spec->features, lane_d = (d + 3) / 4, labels = plan->track_labels ? 28 : 0;
    int64_t fragments = fragments_kept ? 4 * km_tensor_fragments_of(spec, form) : 0;
    if (form == ROUNDED) {
        // While scores are computed, or while ambiguous points are resolved.
        int64_t scoring = (fragments_kept ? 43 : 36) + 10 * tiles, deciding = 40 + 2 * d + 6 * tiles;
        return km_max(scoring, deciding) + tiles * (4 * km_tensor_sum_tiles(spec, form) + fragments) + labels;
    }
    if (form == DISTANCE)
        return 48 + tiles * (4 * km_tensor_sum_tiles(spec, form) + fragments + 7) + (fragments_kept ? 0 : 8) +
               labels;
    return 42 + 2 * lane_d + tiles * (4 * lane_d + fragments + 10) + (fragments_kept ? 0 : 8) + labels;
}

int64_t km_tensor_point_bytes(const km_spec *spec, int form) {
    int64_t d = spec->features;
    if (form == ROWS) return km_tensor_feature_eights(spec) * 16 + d * 4 + 2;
    if (form == DIGITS) return km_tensor_digits_lines(spec) * 4;
    if (form == ROUNDED) return (d + 7) / 8 * 16 + km_tensor_sum_tiles(spec, form) * 8 + 2;
    return (d + 3) / 4 * 16 + (form == DISTANCE ? km_tensor_sum_tiles(spec, form) * 8 : 0);
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
    int64_t tile = km_tensor_point_bytes(&plan->spec, form) * 32, fixed = stages_fixed(plan);
    return fixed ? fixed : km_min(km_max(2 + ON_THEIR_WAY / (warps * tile), LEAST), MOST);
}

static int64_t shared_needed(const km_plan *plan, const km_tensor_layout *layout,
                             const km_tensor_config *config) {
    int64_t d = plan->spec.features, fragments = km_tensor_fragments_of(&plan->spec, config->form);
    return km_tensor_row_tiles_most(layout) * (fragments * 512 + 32) +
           km_tensor_sum_rows_most(layout) * (8 * (d + 1) + 4 * d + 1) +
           config->block / 32 *
               (config->stages * km_tensor_point_bytes(&plan->spec, config->form) * 32 + 64 * 8 + 16 +
                4 * d) +
           36 * d + plan->spec.clusters_count + 512;
}

int64_t km_tensor_points_of(const km_tensor_config *config) {
    return config->block / 2 * config->column_pairs;
}

// Form digits: registers of a thread, bytes of shared memory.
static int64_t digits_registers(const km_plan *plan, int64_t tiles, int64_t warps, int64_t column_pairs) {
    int64_t slices = (plan->spec.features + 31) / 32,
            own = (km_tensor_digits_lines(&plan->spec) / 2 + warps - 1) / warps;
    int64_t columns = own > 1 && (plan->spec.features + 3) / 4 % 4 ? own : 0,
            spare = column_pairs > 1 ? 46 : 36;
    return spare + 2 * tiles + 4 * tiles * own + column_pairs * (4 * tiles + 8 * slices + 24) + columns +
           (plan->track_labels ? 16 : 0);
}

static int64_t digits_shared(const km_plan *plan, const km_tensor_layout *layout,
                             const km_tensor_config *config) {
    int64_t d = plan->spec.features, warps = config->block / 32,
            step_tiles = warps * config->column_pairs / 2;
    return km_tensor_row_tiles_most(layout) * (step_tiles * 1024 + (d + 31) / 32 * 1024 + 64 + 32) +
           km_tensor_sum_rows_most(layout) +
           config->stages * step_tiles * (km_tensor_digits_lines(&plan->spec) * 128 + 4) + warps * 64 * 12 +
           16 * d + warps * 4 * d + plan->spec.clusters_count + 512;
}

// Shared memory of the block that prepares a launch, which has the centroids beside their fragments.
static int64_t digits_preparing(const km_plan *plan, const km_tensor_layout *layout) {
    int64_t d = plan->spec.features;
    return km_tensor_row_tiles_most(layout) * ((d + 31) / 32 * 1024 + 64 + 32) +
           km_tensor_sum_rows_most(layout) * (4 * d + 1) + 80 * d + plan->spec.clusters_count + 512;
}

static int64_t registers_limit(const km_tensor_config *config, const km_plan *plan) {
    enum { MARGIN_SM_100 = 24 }; // there the compiler needs more than this file counts
    int64_t limit = km_cuda_registers_limit(plan, config->block, config->blocks_per_sm);
    return plan->spec.target.arch >= 100 ? limit - MARGIN_SM_100 : limit;
}

// Whether there are as many registers as needed, and more than in configurations that were found to spill.
static int has_room(km_tensor_config *config, const km_plan *plan) {
    config->spare = registers_limit(config, plan) - config->registers;
    return config->spare >= 0 && !km_plan_avoids(plan, KM_DESIGN_TENSOR, config->spare);
}

// Time of memory and arithmetic, which overlap less than in other designs: a warp waits for its own tile.
static double overlapped(const km_tensor_config *config) {
    const double power = measured.tensor_overlap;
    return pow(pow(config->memory_ns, power) + pow(config->issue_ns, power), 1 / power);
}

// Cycles of a scheduler for a tile of a block, form digits: its arithmetic.
static double digits_arithmetic(const km_tensor_config *config, const km_tensor_launch *launch,
                                const km_spec *spec) {
    double cycles = launch->resolving_cycles + km_tensor_digits_cycles(launch, spec, config->column_pairs);
    return cycles * (double)km_tensor_points_of(config) / (4 * 32);
}

// Cycles that a block's warps wait for each other in a tile: at barriers, and for the warp with most columns of sums.
static double digits_waits(const km_tensor_config *config, const km_tensor_launch *launch,
                           const km_spec *spec) {
    int64_t warps = config->block / 32, columns = km_divide_up(km_tensor_digits_lines(spec), 2);
    double slowest = (double)(km_divide_up(columns, warps) * km_tensor_points_of(config)) / 16;
    return measured.digits_waits + measured.digits_waits_warp * (double)warps +
           measured.digits_waits_columns * launch->row_tiles * slowest;
}

// Nanoseconds of a point. Blocks of a multiprocessor share its schedulers, and wait at the same time.
static double digits_issue_ns(const km_tensor_config *config, const km_plan *plan,
                              const km_tensor_layout *layout) {
    double cycles = 0, blocks = (double)config->blocks_per_sm;
    for (int64_t p = 0; p < layout->launches_count; p++)
        cycles += blocks * digits_arithmetic(config, &layout->launches[p], &plan->spec) +
                  digits_waits(config, &layout->launches[p], &plan->spec);
    return cycles /
           (blocks * (double)km_tensor_points_of(config) * (double)plan->facts.units * plan->facts.clock_ghz);
}

// Evaluates a configuration of digits with its layout: fills the other numbers; 0 when it cannot be run.
static int evaluate_digits(km_tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { STAGES_MIN = 3, STAGES_MAX = 6, ON_THEIR_WAY = 40 << 10 };
    const km_device_facts *facts = &plan->facts;
    config->registers =
        digits_registers(plan, km_tensor_row_tiles_most(layout), config->block / 32, config->column_pairs);
    int64_t step = config->block / 64 * config->column_pairs * km_tensor_digits_lines(&plan->spec) * 128 *
                   config->blocks_per_sm;
    int64_t fixed = stages_fixed(plan);
    config->stages = fixed ? fixed : km_min(2 + km_divide_up(ON_THEIR_WAY, step), STAGES_MAX);
    if (config->stages < STAGES_MIN || config->stages > STAGES_MAX) return 0;
    config->shared_bytes = digits_shared(plan, layout, config);
    if (!has_room(config, plan) || config->shared_bytes > facts->shared_bytes_per_block ||
        digits_preparing(plan, layout) > facts->shared_bytes_per_block ||
        (config->shared_bytes + 1024) * config->blocks_per_sm > facts->shared_bytes_per_unit)
        return 0;
    config->launches = layout->launches_count;
    config->operations = km_tensor_layout_cycles(layout, &plan->spec, config->form);
    config->memory_ns =
        km_cuda_read_ns(plan, (double)(config->launches * km_tensor_point_bytes(&plan->spec, DIGITS)));
    config->issue_ns = digits_issue_ns(config, plan, layout);
    config->total_ns = overlapped(config);
    return 1;
}

// Likewise, with the better number of column pairs, or the plan's.
static int evaluate_pairs(km_tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    km_tensor_config best = {0};
    int64_t points = 0;
    if (!km_plan_fixed(plan, KM_PARAM_tile_points, &points))
        points = km_plan_value(plan, KM_PARAM_tile_points);
    for (config->column_pairs = 1; config->column_pairs <= 2; config->column_pairs++) {
        if (points > 0 && points != km_tensor_points_of(config)) continue;
        if (evaluate_digits(config, plan, layout) && (!best.block || config->total_ns <= best.total_ns))
            best = *config;
    }
    if (best.block) *config = best;
    return best.block > 0;
}

// Form rows: registers of a thread, bytes of shared memory.
static int64_t rows_registers(const km_plan *plan, int64_t tiles) {
    return 36 + 25 * tiles / 2 +
           km_tensor_feature_eights(&plan->spec) / 2 * 8; // most are for fragments that are read ahead
}

static int64_t rows_bytes(const km_plan *plan, const km_tensor_layout *layout,
                          const km_tensor_config *config) {
    int64_t d = plan->spec.features, tile = 32 * km_tensor_point_bytes(&plan->spec, ROWS);
    return km_tensor_row_tiles_most(layout) * (km_tensor_feature_eights(&plan->spec) * 512 + 128 + 32) +
           km_tensor_sum_rows_most(layout) * (8 * (d | 1) + 5) +
           config->block / 32 * (config->stages * tile + 528) + 48 * d +
           (plan->track_labels ? 5 : 1) * plan->spec.clusters_count + 768;
}

// Evaluates a configuration of rows with its layout: fills the other numbers; 0 when it cannot be run.
static int evaluate_rows(km_tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { ON_THEIR_WAY = 32 << 10, STAGES_MIN = 2, STAGES_MAX = 4 };
    const km_device_facts *facts = &plan->facts;
    config->registers = rows_registers(plan, km_tensor_row_tiles_most(layout));
    config->shared_bytes = INT64_MAX;
    int64_t fixed = stages_fixed(plan), bytes = km_tensor_point_bytes(&plan->spec, ROWS);
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
    double cycles = km_tensor_layout_cycles(layout, &plan->spec, ROWS),
           warps = (double)(config->block * config->blocks_per_sm) / 128; // of a scheduler
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz;
    config->launches = layout->launches_count;
    config->operations = cycles;
    config->memory_ns = km_cuda_read_ns(plan, (double)(config->launches * bytes));
    double single_warp = warps > 1 ? 1 : measured.rows_single; // nothing hides its stalls
    config->issue_ns = single_warp * cycles * (measured.rows_share + measured.rows_few_warps / warps) *
                       (1 + measured.rows_blocks * (double)config->blocks_per_sm) / rate;
    config->total_ns = overlapped(config);
    return 1;
}

// Evaluates a configuration of the forms with sums in a warp's registers.
static int evaluate_registers(km_tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { STAGES_MIN = 3, STAGES_MAX = 8 };
    const km_device_facts *facts = &plan->facts;
    int form = config->form, levels = km_tensor_has_levels(layout);
    int64_t d = plan->spec.features, block = config->block, blocks_per_sm = config->blocks_per_sm;
    int64_t limit = registers_limit(config, plan), most = km_tensor_row_tiles_most(layout);
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
    double cycles = km_tensor_layout_cycles(layout, &plan->spec, form),
           warps = (double)(block * blocks_per_sm) / 128;
    double contention = d > 12 && warps > 3 ? measured.contention : 1; // more warps contend
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz; // 32 points in a cycle of each scheduler
    config->launches = layout->launches_count;
    config->operations = cycles;
    config->memory_ns =
        km_cuda_read_ns(plan, (double)(layout->launches_count * km_tensor_point_bytes(&plan->spec, form)));
    double stall = form == DISTANCE ? (measured.distance_share + measured.distance_few_warps / warps) *
                                          (1 + measured.distance_blocks * (double)(blocks_per_sm - 1))
                                    : (measured.tensor_share + measured.tensor_few_warps / warps) *
                                          (1 + measured.tensor_blocks * (double)(blocks_per_sm - 1));
    if (form != DISTANCE && warps <= 1) stall *= measured.tensor_single; // nothing hides its stalls
    config->issue_ns = contention * cycles * stall / rate;
    config->total_ns = overlapped(config);
    return 1;
}

int km_tensor_evaluate(km_tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    if (config->form == ROWS) return evaluate_rows(config, plan, layout);
    return config->form == DIGITS ? evaluate_pairs(config, plan, layout)
                                  : evaluate_registers(config, plan, layout);
}

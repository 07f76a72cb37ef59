// SPDX-License-Identifier: MIT
// The CUDA design `tensor` (templates/cuda/tensor): scores and sums as matrix products. How the K list is laid out over
// the rows of these products, which form computes them, and what a pass costs.
#include "../../base/size.h"
#include "../../base/text.h"
#include "../words.h"
#include "common.h"
#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    GROUPS = 8, // of lanes that share a tile's rows
    ROWS_PER_TILE = 16,
    HI_LO = KM_WORD_form_hi_lo,
    DISTANCE = KM_WORD_form_distance,
    ROUNDED = KM_WORD_form_rounded,
    DIGITS = KM_WORD_form_digits,
    ROWS = KM_WORD_form_rows
};

// One way to run the design.
typedef struct tensor_config {
    int form;
    int64_t tiles, block, resident, launches, registers, shared_bytes;
    int64_t stages; // tiles of points of a warp in shared memory: one that is worked on, others on their way
    int64_t pairs;  // columns of eight points that a warp compares at a time, in twos
    int64_t spare;  // registers of a thread beside those
    int kept;       // fragments of the centroids stay in registers
    int tight;      // registers are so few that the text keeps the compiler from using more
    double operations, memory_ns, issue_ns, total_ns;
} tensor_config;

// What is decided beside numbers: the plan's layout.
typedef struct decided {
    km_tensor_layout layout;
    tensor_config config;
} decided;

// One way to lay out a launch: how many tiles, slots of the first segment, levels of groups; and what it takes.
typedef struct attempt {
    km_tensor_launch part;
    km_tensor_place places[KM_TENSOR_KS_MAX]; // part -1: left for another launch
    int64_t placed;                           // clusters
    int left;
} attempt;

// Forms -------------------------------------------------------------------------------------------------------

// Why a form cannot compute a spec, or NULL: it can. That products are rounded once, when they are added in half
// precision, was measured on sm_90. A byte of added masks must not overflow: less than 256 slots of a K's lanes.
// Rounding takes at most 8 of its units from a point of `rows`, whose eight groups of lanes have 32 slots each.
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

// The form with sums in registers, or shared by a block's warps. Sums of bytes take more registers than those of fp16,
// and of more than 8 features more memory: there they pay with many clusters. Of many features the sums do not fit
// into the registers of each warp: on an H200 `digits` is slower by a fifth at 18 and faster by a tenth at 24.
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

// Lines of 128 bytes that 32 points take of digits: three bytes of a feature, in fours of them.
static int64_t digits_lines(const km_spec *spec) {
    return (3 * ((spec->features + 3) / 4) + 1) / 2 * 2;
}

// Columns of sums of bytes, in eights: three of a feature; with distances a count, and two that hold squares.
static int64_t sum_tiles(const km_spec *spec, int form) {
    return (3 * spec->features + (form == ROUNDED ? 0 : 3) + 7) / 8;
}

// Fragments of a tile of rows, in 16 bytes of a lane.
static int64_t fragments_of(const km_spec *spec, int form) {
    return form == ROUNDED ? (spec->features + 7) / 8 + 1 : (spec->features + 3) / 4;
}

// Cycles of a scheduler for 32 points of digits, fitted to an H200 over d = 18..64 and 1 and 6 tiles: barriers
// and what waits, then scores and products of a tile.
static double digits_cycles(const km_tensor_launch *part, const km_spec *spec) {
    double chunks = (double)((spec->features + 31) / 32), columns = (double)digits_lines(spec) / 2;
    return 660 + part->tiles * (138 + 13.7 * (12 * chunks + columns)) + 30 * part->levels;
}

// Sums in shared memory: blocks of 8 features that products take.
static int64_t rows_blocks(const km_spec *spec) {
    return spec->features <= 8 ? 1 : (spec->features + 15) / 16 * 2;
}

// Likewise, where sums lie in shared memory: scores of a tile, then a lane's point for each K.
// Fitted to an H200 over d = 2..64 and 4 to 16 tiles.
static double rows_cycles(const km_tensor_launch *part, const km_spec *spec) {
    return 380 + part->tiles * (20 + 47 * (double)rows_blocks(spec)) +
           part->members * 24.0 * (double)spec->features;
}

// What ambiguous points cost: the more of them, the nearer the centroids of a large K are to each other.
static double resolving_cycles(const km_spec *spec, int k, int form) {
    if (form == ROWS) {
        double points = 0.0175 * pow(k, 2 / (double)spec->features);
        return k * (points < 40 ? points : 40);
    }
    if (form == DIGITS) return k > 16 ? 25.0 * (k - 16) : 0;
    return k > 20 && form != DISTANCE ? 4.0 * (k - 20) : 0;
}

// Cycles of a scheduler for 32 points: what a launch does for each, whatever its Ks, then for each tile. Fitted to an
// H200 over d = 2..32 and 1 to 10 tiles.
static double register_cycles(const km_tensor_launch *part, const km_spec *spec, int form) {
    double lane_d = (double)((spec->features + 3) / 4), columns = (double)sum_tiles(spec, form);
    double tile = 40 + lane_d * 50 + lane_d * lane_d * 4;
    if (form == ROUNDED)
        return 60 + 16.0 * (double)spec->features +
               (47 + 44 * (double)(fragments_of(spec, form) - 1) + 8.0 * columns) * part->tiles +
               30 * part->levels;
    if (form == DISTANCE) return 150 + (46 + 7.0 * columns) * part->tiles + 30 * part->levels;
    return 100 + tile * part->tiles + 30 * part->levels + (part->first < 2 * part->tiles ? 12 : 0);
}

// Cycles of a scheduler for 32 points.
static double part_cycles(const km_tensor_launch *part, const km_spec *spec, int form) {
    double cycles = form == ROWS     ? rows_cycles(part, spec)
                    : form == DIGITS ? digits_cycles(part, spec)
                                     : register_cycles(part, spec, form);
    return part->resolving + cycles;
}

static double layout_cycles(const km_tensor_layout *layout, const km_spec *spec, int form) {
    double cycles = 0;
    for (int64_t p = 0; p < layout->parts_count; p++) cycles += part_cycles(&layout->parts[p], spec, form);
    return cycles;
}

// Layout ------------------------------------------------------------------------------------------------------

// Each K takes one group of lanes, its first segment or both, or the second segment of a group whose K leaves it.
static void try_segments(attempt *to, const km_spec *spec, int form, const km_tensor_place *before) {
    int slots = 2 * to->part.tiles, first = to->part.first, groups = 0, second_used[GROUPS] = {0};
    for (int64_t i = spec->clusters_count - 1; i >= 0; i--) {
        km_tensor_place *place = &to->places[i];
        int k = spec->clusters[i], group = 0;
        *place = before[i];
        if (before[i].part >= 0) continue;
        while (group < groups && (second_used[group] || k > slots - first)) group++;
        if (group < groups) {
            *place = (km_tensor_place){0, (int16_t)group, 1, (int16_t)first, (int16_t)k, 0};
            second_used[group] = 1;
        } else if (groups < GROUPS && k <= slots) {
            *place = (km_tensor_place){0, (int16_t)groups, 1, 0, (int16_t)k, 0};
            second_used[groups++] = k > first;
        } else {
            to->left++;
            continue;
        }
        to->placed += k;
        to->part.resolving += resolving_cycles(spec, k, form);
    }
}

// Each K takes 1, 2, 4 or 8 groups of lanes.
static void try_levels(attempt *to, const km_spec *spec, int form, const km_tensor_place *before) {
    int slots = 2 * to->part.tiles, groups = 0;
    for (int64_t i = spec->clusters_count - 1; i >= 0; i--) {
        km_tensor_place *place = &to->places[i];
        int k = spec->clusters[i], span = 1;
        *place = before[i];
        if (before[i].part >= 0) continue;
        while (span * slots < k) span *= 2;
        if (groups + span > GROUPS) {
            to->left++;
            continue;
        }
        *place = (km_tensor_place){0, (int16_t)groups, (int16_t)span, 0, (int16_t)((k + span - 1) / span), 0};
        groups += span;
        to->placed += k;
        to->part.members++;
        to->part.resolving += resolving_cycles(spec, k, form);
        while (1 << to->part.levels < span) to->part.levels++;
    }
}

// The next launch with the most clusters for its cycles; with `all`, of those that leave nothing.
static int best_part(attempt *best, const km_spec *spec, int form, const km_tensor_place *before,
                     int64_t tiles_max, int all) {
    double best_worth = 0;
    for (int tiles = 1; tiles <= tiles_max; tiles++) {
        for (int first = form == ROWS ? 2 * tiles + 1 : tiles; first <= 2 * tiles + 1; first++) {
            attempt now = {.part = {.tiles = tiles, .first = first > 2 * tiles ? 2 * tiles : first}};
            if (first > 2 * tiles)
                try_levels(&now, spec, form, before);
            else
                try_segments(&now, spec, form, before);
            double worth = (double)now.placed / part_cycles(&now.part, spec, form);
            if (!now.placed || worth <= best_worth || (all && now.left)) continue;
            best_worth = worth;
            *best = now;
        }
    }
    return best_worth > 0;
}

// Cycles of a launch and of those that take what it leaves, each the best next one.
static double cycles_with_rest(const attempt *first, const km_spec *spec, int form, int64_t tiles_max) {
    attempt now = *first, next = {0};
    double cycles = part_cycles(&now.part, spec, form);
    while (now.left && best_part(&next, spec, form, now.places, tiles_max, 0)) {
        cycles += part_cycles(&next.part, spec, form);
        now = next;
    }
    return cycles;
}

int km_tensor_lay_out(km_tensor_layout *layout, const km_spec *spec, int form, int64_t tiles_max) {
    memset(layout, 0, sizeof *layout);
    if (spec->clusters_count > KM_TENSOR_KS_MAX) return 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        if (spec->clusters[i] > 2 * tiles_max * GROUPS) return 0;
        layout->places[i].part = -1;
    }
    for (int left = 1; left;) {
        attempt best = {0}, last = {0};
        if (layout->parts_count == KM_TENSOR_PARTS_MAX) return 0;
        if (!best_part(&best, spec, form, layout->places, tiles_max, 0)) return 0;
        if (best.left && best_part(&last, spec, form, layout->places, tiles_max, 1) &&
            part_cycles(&last.part, spec, form) < cycles_with_rest(&best, spec, form, tiles_max))
            best = last;
        for (int64_t i = 0; i < spec->clusters_count; i++) {
            if (layout->places[i].part >= 0 || best.places[i].part < 0) continue;
            layout->places[i] = best.places[i];
            layout->places[i].part = (int16_t)layout->parts_count;
            layout->places[i].row = (int16_t)best.part.rows;
            best.part.rows += spec->clusters[i];
        }
        layout->parts[layout->parts_count++] = best.part;
        left = best.left;
    }
    return 1;
}

// Registers, shared memory, time ------------------------------------------------------------------------------

// Registers of a thread, after the compiler's counts: what is there anyway, then for each tile sums, planes, scores.
static int64_t registers_needed(const km_plan *plan, int form, int64_t tiles, int kept) {
    const km_spec *spec = &plan->spec;
    int64_t d = spec->features, lane_d = (d + 3) / 4, labels = plan->track_labels ? 28 : 0;
    int64_t fragments = kept ? 4 * fragments_of(spec, form) : 0;
    if (form == ROUNDED) {
        // While scores are made, or while ambiguous points are decided.
        int64_t scoring = (kept ? 43 : 36) + 10 * tiles, deciding = 40 + 2 * d + 6 * tiles;
        return km_max(scoring, deciding) + tiles * (4 * sum_tiles(spec, form) + fragments) + labels;
    }
    if (form == DISTANCE)
        return 48 + tiles * (4 * sum_tiles(spec, form) + fragments + 7) + (kept ? 0 : 8) + labels;
    return 42 + 2 * lane_d + tiles * (4 * lane_d + fragments + 10) + (kept ? 0 : 8) + labels;
}

// Bytes of a point as the pass reads it.
static int64_t point_bytes(const km_spec *spec, int form) {
    int64_t d = spec->features;
    if (form == ROWS) return rows_blocks(spec) * 16 + d * 4 + 2;
    if (form == DIGITS) return digits_lines(spec) * 4;
    if (form == ROUNDED) return (d + 7) / 8 * 16 + sum_tiles(spec, form) * 8 + 2;
    return (d + 3) / 4 * 16 + (form == DISTANCE ? sum_tiles(spec, form) * 8 : 0);
}

// Tiles in flight that the user fixed; 0: none.
static int64_t stages_fixed(const km_plan *plan) {
    int64_t prefetch = -1;
    km_plan_fixed(plan, KM_PARAM_prefetch, &prefetch);
    return prefetch + 1;
}

// Tiles of a warp in shared memory, so that enough bytes are on their way to a multiprocessor.
static int64_t stages_needed(const km_plan *plan, int form, int64_t warps) {
    enum { ON_THEIR_WAY = 40 << 10, LEAST = 3, MOST = 8 };
    int64_t tile = point_bytes(&plan->spec, form) * 32, fixed = stages_fixed(plan);
    return fixed ? fixed : km_min(km_max(2 + ON_THEIR_WAY / (warps * tile), LEAST), MOST);
}

static int64_t shared_needed(const km_plan *plan, const km_tensor_layout *layout,
                             const tensor_config *config) {
    int64_t d = plan->spec.features, fragments = fragments_of(&plan->spec, config->form), most = 0;
    for (int64_t p = 0; p < layout->parts_count; p++) {
        const km_tensor_launch *part = &layout->parts[p];
        int64_t bytes =
            part->tiles * fragments * 512 + part->rows * (8 * (d + 1) + 4 * d + 1) + part->tiles * 32;
        if (bytes > most) most = bytes;
    }
    return most +
           config->block / 32 *
               (config->stages * point_bytes(&plan->spec, config->form) * 32 + 64 * 8 + 16 + 4 * d) +
           36 * d + plan->spec.clusters_count + 512;
}

// Points that a block works on at a time.
static int64_t points_of(const tensor_config *config) {
    return config->block / 2 * config->pairs;
}

// Of digits: registers, for `pairs` of columns that a warp compares at a time; bytes of shared memory.
static int64_t digits_registers(const km_plan *plan, int64_t tiles, int64_t warps, int64_t pairs) {
    int64_t chunks = (plan->spec.features + 31) / 32,
            own = (digits_lines(&plan->spec) / 2 + warps - 1) / warps;
    int64_t columns = own > 1 && (plan->spec.features + 3) / 4 % 4 ? own : 0, spare = pairs > 1 ? 46 : 36;
    return spare + 2 * tiles + 4 * tiles * own + pairs * (4 * tiles + 8 * chunks + 24) + columns +
           (plan->track_labels ? 16 : 0);
}

static int64_t digits_shared(const km_plan *plan, const km_tensor_layout *layout,
                             const tensor_config *config) {
    int64_t d = plan->spec.features, warps = config->block / 32, step_tiles = warps * config->pairs / 2,
            most = 0;
    for (int64_t p = 0; p < layout->parts_count; p++) {
        const km_tensor_launch *part = &layout->parts[p];
        int64_t bytes = part->tiles * (step_tiles * 1024 + (d + 31) / 32 * 1024 + 64 + 32) + part->rows;
        if (bytes > most) most = bytes;
    }
    return most + config->stages * step_tiles * (digits_lines(&plan->spec) * 128 + 4) + warps * 64 * 12 +
           16 * d + warps * 4 * d + plan->spec.clusters_count + 512;
}

static int64_t registers_limit(const tensor_config *config, const km_plan *plan) {
    enum { MARGIN_SM_100 = 24 }; // there the compiler needs more than were counted
    int64_t limit = km_cuda_registers_limit(plan, config->block, config->resident);
    return plan->spec.target.arch >= 100 ? limit - MARGIN_SM_100 : limit;
}

// Whether the registers that are needed are there, with as many to spare as the compiler turned out to want.
static int has_room(tensor_config *config, const km_plan *plan) {
    config->spare = registers_limit(config, plan) - config->registers;
    return config->spare >= 0 && !km_plan_avoids(plan, KM_DESIGN_TENSOR, config->spare);
}

// Tiles of the launch with the most.
static int64_t tiles_most(const km_tensor_layout *layout) {
    int64_t most = 0;
    for (int64_t p = 0; p < layout->parts_count; p++)
        if (layout->parts[p].tiles > most) most = layout->parts[p].tiles;
    return most;
}

// Whether a K takes more than one group of lanes.
static int has_levels(const km_tensor_layout *layout) {
    for (int64_t p = 0; p < layout->parts_count; p++)
        if (layout->parts[p].levels > 0) return 1;
    return 0;
}

// Fills what follows from a layout of digits; 0 when it cannot be run.
static int judge_digits(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { STAGES_MIN = 3, STAGES_MAX = 6, ON_THEIR_WAY = 40 << 10 };
    const km_device_facts *facts = &plan->facts;
    config->registers = digits_registers(plan, tiles_most(layout), config->block / 32, config->pairs);
    int64_t step = config->block / 64 * config->pairs * digits_lines(&plan->spec) * 128 * config->resident;
    int64_t fixed = stages_fixed(plan);
    config->stages = fixed ? fixed : km_min(2 + km_divide_up(ON_THEIR_WAY, step), STAGES_MAX);
    if (config->stages < STAGES_MIN || config->stages > STAGES_MAX) return 0;
    config->shared_bytes = digits_shared(plan, layout, config);
    if (!has_room(config, plan) || config->shared_bytes > facts->shared_bytes_per_block ||
        (config->shared_bytes + 1024) * config->resident > facts->shared_bytes_per_unit)
        return 0;
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz;
    config->launches = layout->parts_count;
    config->operations = layout_cycles(layout, &plan->spec, config->form);
    config->memory_ns = (double)(config->launches * point_bytes(&plan->spec, DIGITS)) / facts->bandwidth_gbs;
    // Of 16 points a warp has less to do between two barriers, which a second block fills. Columns should be shared
    // evenly.
    int64_t warps = config->block / 32, uneven = digits_lines(&plan->spec) / 2 % warps != 0;
    double wait = config->pairs > 1 ? 1 : config->resident > 1 ? 1.05 : 1.1;
    if (warps != 8) wait *= warps * config->resident < 8 ? 1.6 : warps < 8 ? 1.2 : uneven ? 1.3 : 0.95;
    config->issue_ns = config->operations * wait / rate;
    config->total_ns =
        pow(pow(config->memory_ns, 3) + pow(config->issue_ns, 3), 1.0 / 3); // they wait for each other
    return 1;
}

// Likewise, with the better number of columns that a warp compares at a time, or the plan's.
static int judge_pairs(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    tensor_config best = {0};
    int64_t points = 0;
    if (!km_plan_fixed(plan, KM_PARAM_tile_points, &points))
        points = km_plan_value(plan, KM_PARAM_tile_points);
    for (config->pairs = 1; config->pairs <= 2; config->pairs++) {
        if (points > 0 && points != points_of(config)) continue;
        if (judge_digits(config, plan, layout) && (!best.block || config->total_ns <= best.total_ns))
            best = *config;
    }
    if (best.block) *config = best;
    return best.block > 0;
}

// Sums in shared memory: registers; bytes of shared memory.
static int64_t rows_registers(const km_plan *plan, int64_t tiles) {
    return 36 + 25 * tiles / 2 +
           rows_blocks(&plan->spec) / 2 * 8; // most hold fragments before they are needed
}

static int64_t rows_bytes(const km_plan *plan, const km_tensor_layout *layout, const tensor_config *config) {
    int64_t d = plan->spec.features, most = 0, tile = 32 * point_bytes(&plan->spec, ROWS);
    for (int64_t p = 0; p < layout->parts_count; p++) {
        const km_tensor_launch *part = &layout->parts[p];
        int64_t ring = config->block / 32 * (config->stages * tile + 528), centroids = 4 * d * part->rows;
        int64_t bytes = part->tiles * (rows_blocks(&plan->spec) * 512 + 128 + 32) +
                        part->rows * (8 * (d | 1) + 5) + (ring > centroids ? ring : centroids);
        if (bytes > most) most = bytes;
    }
    return most + 48 * d + (plan->track_labels ? 5 : 1) * plan->spec.clusters_count + 768;
}

// Fills what follows from a layout where sums lie in shared memory; 0 when it cannot be run.
static int judge_rows(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { ON_THEIR_WAY = 32 << 10, STAGES_MIN = 2, STAGES_MAX = 4 };
    const km_device_facts *facts = &plan->facts;
    config->registers = rows_registers(plan, tiles_most(layout));
    config->shared_bytes = INT64_MAX;
    int64_t fixed = stages_fixed(plan), bytes = point_bytes(&plan->spec, ROWS);
    int64_t most = km_min(2 + ON_THEIR_WAY / (config->block * config->resident * bytes), STAGES_MAX);
    if (fixed > STAGES_MAX) return 0;
    for (config->stages = fixed ? fixed : most; config->stages >= STAGES_MIN; config->stages--) {
        config->shared_bytes = rows_bytes(plan, layout, config);
        if (fixed || (config->shared_bytes + 1024) * config->resident <= facts->shared_bytes_per_unit) break;
    }
    if (config->stages < STAGES_MIN || !has_room(config, plan) ||
        config->shared_bytes > facts->shared_bytes_per_block ||
        (config->shared_bytes + 1024) * config->resident > facts->shared_bytes_per_unit)
        return 0;
    double cycles = layout_cycles(layout, &plan->spec, ROWS),
           warps = (double)(config->block * config->resident) / 128; // of a scheduler
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz;
    config->launches = layout->parts_count;
    config->operations = cycles;
    config->memory_ns = (double)(config->launches * bytes) / facts->bandwidth_gbs;
    double alone = warps > 1 ? 1 : 1.35; // measured: nothing is done while the one warp waits
    config->issue_ns = alone * cycles * (0.8 + 0.8 / warps) * (1 + 0.02 * (double)config->resident) / rate;
    config->total_ns =
        pow(pow(config->memory_ns, 3) + pow(config->issue_ns, 3), 1.0 / 3); // they wait for each other
    return 1;
}

// The same for the forms with sums in a warp's registers.
static int judge_registers(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    enum { STAGES_MIN = 3, STAGES_MAX = 8 };
    const km_device_facts *facts = &plan->facts;
    int form = config->form, levels = has_levels(layout);
    int64_t d = plan->spec.features, block = config->block, resident = config->resident;
    int64_t limit = registers_limit(config, plan), most = tiles_most(layout);
    config->kept = registers_needed(plan, form, most, 1) <= limit;
    config->registers = registers_needed(plan, form, most, config->kept);
    config->stages = stages_needed(plan, form, block * resident / 32);
    if (config->stages < STAGES_MIN || config->stages > STAGES_MAX) return 0;
    // Few scores leave registers for twice as many at a time, which hides what a single step waits for.
    config->pairs = form == ROUNDED || (most <= 2 && d <= 8) ? 2 : 1;
    config->shared_bytes = shared_needed(plan, layout, config);
    // Seen with NVRTC 13: rows of odd length and many tiles take a few registers more than a text has that reads
    // ahead; 9 tiles, or 7 with groups that share a K, do not fit at all.
    if (form == ROUNDED) {
        int close = config->registers > limit - 4;
        if (most > 8 || (levels && most > 6) || (close && (d % 4 != 0 || (levels && d > 8)))) return 0;
        config->tight = d % 4 != 0 || most > 6;
    }
    if (form == HI_LO && most > 10) return 0; // likewise
    if (!has_room(config, plan)) return 0;
    if (config->shared_bytes > facts->shared_bytes_per_block) return 0;
    if (config->shared_bytes * resident > facts->shared_bytes_per_unit) return 0;
    double cycles = layout_cycles(layout, &plan->spec, form), warps = (double)(block * resident) / 128;
    double crowd = d > 12 && warps > 3 ? 1.08 : 1; // measured: more warps than that get in each other's way
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz; // points of all schedulers in a cycle
    config->launches = layout->parts_count;
    config->operations = cycles;
    config->memory_ns = (double)(layout->parts_count * point_bytes(&plan->spec, form)) / facts->bandwidth_gbs;
    double wait = form == DISTANCE ? (0.7 + 0.9 / warps) * (1 + 0.03 * (double)(resident - 1))
                                   : (0.91 + 0.25 / warps) * (1 + 0.01 * (double)resident);
    config->issue_ns = crowd * cycles * wait / rate;
    config->total_ns =
        pow(pow(config->memory_ns, 3) + pow(config->issue_ns, 3), 1.0 / 3); // they wait for each other
    return 1;
}

// Fills what follows from a layout, and from the way's form, tiles, block and resident; 0 when it cannot be run.
static int judge(tensor_config *config, const km_plan *plan, const km_tensor_layout *layout) {
    if (config->form == ROWS) return judge_rows(config, plan, layout);
    return config->form == DIGITS ? judge_pairs(config, plan, layout) : judge_registers(config, plan, layout);
}

// Estimate ----------------------------------------------------------------------------------------------------

// Why no form serves the plan's type and points, or NULL.
static const char *refusal_of(const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    if (spec->type != KM_FLOAT32) return "its products give the precision of float32";
    if (spec->target.arch < 80) return "its integer products need sm_80 or later";
    if (plan->weighted) return "points have weights";
    if (spec->features > 128) return "a score of more than 128 features has no place in 31 bits";
    if (spec->clusters_count > KM_TENSOR_KS_MAX) return "the list has too many K";
    return NULL;
}

// The best way of a form, if it is better than `best`.
static void find_better(tensor_config *best, const km_plan *plan, int form) {
    enum { TILES_MAX = 12, ROWS_TILES_MAX = 16 };
    static const int64_t blocks[] = {128, 256, 384, 512, 768};
    int64_t fixed_tiles = 0, fixed_launches = 0, fixed_block = 0, fixed_resident = 0;
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &fixed_tiles);
    km_plan_fixed(plan, KM_PARAM_launches, &fixed_launches);
    km_plan_fixed(plan, KM_PARAM_block, &fixed_block);
    km_plan_fixed(plan, KM_PARAM_blocks_per_sm, &fixed_resident);
    for (int64_t tiles = 1; tiles <= (form == ROWS ? ROWS_TILES_MAX : TILES_MAX); tiles++) {
        km_tensor_layout layout; // made once, as it takes longer than all that follows from it
        if (fixed_tiles && fixed_tiles != tiles * ROWS_PER_TILE) continue;
        if (!km_tensor_lay_out(&layout, &plan->spec, form, tiles)) continue;
        if (fixed_tiles && tiles_most(&layout) != tiles) continue; // the list needs no launch of so many
        if (fixed_launches && fixed_launches != layout.parts_count) continue;
        for (int b = 0; b < (int)(sizeof blocks / sizeof *blocks); b++)
            for (int64_t resident = 1; resident <= 4; resident++) {
                tensor_config config = {
                    .form = form, .tiles = tiles, .block = blocks[b], .resident = resident};
                if (fixed_block && fixed_block != blocks[b]) continue;
                if (fixed_resident && fixed_resident != resident) continue;
                if (!judge(&config, plan, &layout)) continue;
                if (!best->block || config.total_ns < best->total_ns) *best = config;
            }
    }
}

// The best way of all forms, or of the one that the user fixed; else why there is none.
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
    enum { LAUNCH_NS = 16000, LAUNCH_ROWS_NS = 45000 }; // each block makes the fragments of its launch
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
        km_cuda_launches_ns(plan, config.launches, config.form == ROWS ? LAUNCH_ROWS_NS : LAUNCH_NS);
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

// What follows from the numbers, copied by the names.
static km_status decide_layout(km_plan *plan, int form, km_error *err) {
    KM_TRY(km_plan_layout_make(plan, sizeof(decided), err));
    decided *it = plan->layout;
    it->config = (tensor_config){.form = form,
                                 .tiles = km_plan_value(plan, KM_PARAM_tile_clusters) / ROWS_PER_TILE,
                                 .block = km_plan_value(plan, KM_PARAM_block),
                                 .resident = km_plan_value(plan, KM_PARAM_blocks_per_sm)};
    if (km_tensor_lay_out(&it->layout, &plan->spec, form, it->config.tiles) &&
        judge(&it->config, plan, &it->layout))
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
                       config->kept ? ", the centroids' fragments among them" : ""));
    KM_TRY(km_plan_set(plan, KM_PARAM_blocks_per_sm, config->resident, err,
                       "as many as registers and shared memory hold"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, config->tiles * ROWS_PER_TILE, err,
                       "rows of matrix products that a launch has at most"));
    KM_TRY(km_plan_set(plan, KM_PARAM_prefetch, config->stages - 1, err,
                       "so many bytes are on their way to a multiprocessor that it need not wait"));
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

static void name_part(km_env *env, const km_spec *spec, const km_tensor_layout *layout, int64_t index) {
    const km_tensor_launch *part = &layout->parts[index];
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)index);
    km_env *item = km_env_item(env, "parts", text);
    km_text ks = {0};
    for (int64_t i = 0; i < spec->clusters_count; i++)
        if (layout->places[i].part == index)
            km_text_printf(&ks, "%s%d", ks.size ? ", " : "", spec->clusters[i]);
    km_env_set_text(item, "text", &ks);
    km_env_set_int(item, "tiles", part->tiles);
    km_env_set_int(item, "first", part->first);
    km_env_set_int(item, "levels", part->levels);
    km_env_set_int(item, "rows", part->rows);
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
    km_env_set_int(env, "pairs", config->pairs);
    km_env_set_int(env, "tight", config->tight);
    km_env_set_flag(env, "fragments_in_registers", config->kept);
    km_env_set_int(env, "launches_count", it->layout.parts_count);
    for (int64_t part = 0; part < it->layout.parts_count; part++) name_part(env, spec, &it->layout, part);
    for (int64_t i = 0, offset = 0; i < spec->clusters_count; offset += spec->clusters[i++]) {
        const km_tensor_place *place = &it->layout.places[i];
        km_env *k = km_cuda_name_k(env, spec, i, offset);
        km_env_set_int(k, "part", place->part);
        km_env_set_int(k, "group", place->group);
        km_env_set_int(k, "span", place->span);
        km_env_set_int(k, "slot", place->slot);
        km_env_set_int(k, "slots", place->slots);
        km_env_set_int(k, "row", place->row);
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

// SPDX-License-Identifier: MIT
// The CUDA design `sparse_warps` (templates/cuda/sparse): points in the layout CSR. Form `nonzeros`, for any d, K and
// type: lanes of a warp lie across centroids, which are the columns of a table with a row for each feature. Form
// `expanded`, for float32 and a few hundred features: a warp writes its points with their zeros into shared memory, and
// scores are matrix products.
#include "../../base/size.h"
#include "../words.h"
#include "../memory.h"
#include "common.h"
#include "measured.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TILE = 32,             // points of a warp at a time
    PANEL_MAX = 128,       // columns at a time
    LANE_COLUMNS_MAX = 20, // of them a lane has
    WARPS_MAX = 24,        // of a multiprocessor: 80 registers a thread
    WARPS_MAX_CACHE = 20,  // ... 96, where the table is read from the cache
    ROUNDS = 72,           // nonzeros of two rounds ...
    STAGED_MAX = 1056,     // ... and of a tile at most, that a warp has in shared memory
    MOVES_BYTES = 64 * 12, // and changes of labels
    BLOCK_BYTES = 1024,    // that the system takes of each block
    STATIC_BYTES = 1536    // what all warps of a block work with, halves of the squares of a panel
};

// How a pass is laid out; the numbers tile_clusters, block and blocks_per_sm, and what follows from them.
typedef struct warps_shape {
    int64_t panel, lanes, columns,
        panels;    // columns at a time; lanes of a point and columns of each; panels of all
    int64_t pitch; // numbers of a row of the table
    int64_t warps, blocks_per_sm;
    int64_t table_shared, sums_shared, stages_tiles; // flags
    int64_t staged; // nonzeros that a warp has in shared memory at a time: of a whole tile if that is short
    int64_t shared_bytes;
} warps_shape;

// The form `expanded`: a slot takes the same columns of four lanes; slots that are consecutive in the K list make a
// panel, whose products have `tiles` x 8 columns.
enum { KS_MAX = 64, PANELS_MAX = 32, TILES_MAX = 8, K_EXPANDED_MAX = 64, D_EXPANDED_MAX = 512 };
typedef struct expanded_panel {
    int16_t first, end;       // of the K list
    int16_t fragments, tiles; // tiles of the panels before; its own
} expanded_panel;

typedef struct expanded_shape {
    int64_t tiles_max; // of a panel
    int64_t tiles, tiles_most, panels_count;
    expanded_panel panels[PANELS_MAX];
    int16_t lane_columns[KS_MAX]; // where those of a K begin
    int64_t warps, blocks_per_sm, shared_bytes;
} expanded_shape;

// What is decided in addition to numbers: the plan's layout.
typedef struct sparse_layout {
    int is_expanded;
    warps_shape shape;
    expanded_shape expanded;
} sparse_layout;

typedef struct warps_config {
    warps_shape shape;
    int is_expanded;
    int64_t tiles_max, warps, blocks_per_sm, shared_bytes; // form `expanded`
    double shared_ns, issue_ns, total_ns;
} warps_config;

static int64_t columns_of(const km_plan *plan) {
    int64_t restarts = km_plan_value(plan, KM_PARAM_concurrent_restarts);
    return (restarts > 0 ? restarts : km_cuda_concurrent_restarts(plan)) * plan->clusters_sum;
}

static double nonzeros_of(const km_plan *plan) {
    return plan->nonzeros > 1 ? plan->nonzeros : 1;
}

static int64_t aligned(int64_t bytes) {
    return km_round_up(bytes, 256);
}

static int64_t table_bytes(const warps_shape *shape, const km_plan *plan) {
    return aligned(shape->panels * plan->spec.features * shape->pitch * km_type_bytes(plan->spec.type));
}

static int64_t sums_bytes(const km_plan *plan) {
    int64_t integers = km_type_bytes(plan->spec.type) / 4;
    return aligned((columns_of(plan) * integers + 1) * (plan->spec.features + 1) * 8); // and the scales
}

static int64_t warp_bytes(const warps_shape *shape, const km_plan *plan) {
    int64_t size = km_type_bytes(plan->spec.type);
    return km_round_up(shape->panel * (TILE + 1) * size, 16) + km_round_up(shape->staged, 2) * 2 * size +
           MOVES_BYTES;
}

static int64_t slots_of(const km_plan *plan) {
    return columns_of(plan) / plan->clusters_sum * plan->spec.clusters_count;
}

static int64_t label_bytes(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1] <= 256 ? 1 : 2;
}

// Bytes of the labels of a tile, where a warp has those in shared memory, too; 0: there are too many.
static int64_t tile_labels(const km_plan *plan) {
    enum { MOST = 1024 };
    int64_t bytes = slots_of(plan) * TILE * label_bytes(plan);
    return bytes <= MOST ? bytes : 0;
}

static int64_t block_bytes(const warps_shape *shape, const km_plan *plan) {
    int64_t slots = slots_of(plan), bytes = aligned(slots * (km_type_bytes(plan->spec.type) == 8 ? 24 : 16));
    if (shape->table_shared) bytes += table_bytes(shape, plan);
    if (shape->sums_shared) bytes += sums_bytes(plan);
    if (plan->track_labels) bytes += aligned(4 * slots);
    return bytes + shape->warps * (warp_bytes(shape, plan) + km_round_up(tile_labels(plan), 16));
}

// Nonzeros of a tile: most tiles have no more.
static int64_t tile_nonzeros(const km_plan *plan) {
    double m = nonzeros_of(plan);
    return km_max(km_round_up((int64_t)(TILE * (m + sqrt(m))), TILE) + 1, ROUNDS);
}

// The rest of a shape, from its panel and what is in shared memory.
static void fill(warps_shape *shape, const km_plan *plan) {
    int64_t vector = 16 / km_type_bytes(plan->spec.type);
    shape->columns = shape->panel / shape->lanes;
    shape->panels = km_divide_up(columns_of(plan), shape->panel);
    shape->staged = shape->stages_tiles ? tile_nonzeros(plan) : ROUNDS;
    // Two points that are read at a time find a copy each, in banks of its own.
    int twice = shape->table_shared && shape->lanes * vector < 32 && shape->columns % vector == 0 &&
                shape->panel <= 16 && shape->panels == 1 && km_type_bytes(plan->spec.type) == 4;
    shape->pitch = twice ? 32 / (shape->lanes * vector) * shape->panel : shape->panel;
    shape->shared_bytes = block_bytes(shape, plan);
}

static int fits(const warps_shape *shape, const km_plan *plan) {
    int64_t limit = plan->facts.shared_bytes_per_unit / shape->blocks_per_sm - BLOCK_BYTES;
    return shape->shared_bytes + STATIC_BYTES <= km_min(limit, plan->facts.shared_bytes_per_block);
}

// As many warps as fit, up to those that are enough, or the user's; 0: they do not.
static int fill_warps(warps_shape *shape, const km_plan *plan) {
    int64_t warps_max = shape->table_shared ? WARPS_MAX : WARPS_MAX_CACHE, block = 0, blocks = 0;
    int has_block = km_plan_fixed(plan, KM_PARAM_block, &block),
        has_blocks = km_plan_fixed(plan, KM_PARAM_blocks_per_sm, &blocks);
    for (int64_t at = 2; at >= 1; at--) {
        shape->blocks_per_sm = has_blocks ? blocks : at;
        int64_t most = has_block ? block / 32 : km_max(1, warps_max / shape->blocks_per_sm);
        int64_t least = has_block || shape->blocks_per_sm > 1 ? most : 1;
        for (shape->warps = most; shape->warps >= least; shape->warps--) {
            fill(shape, plan);
            if (fits(shape, plan)) return 1;
        }
    }
    shape->blocks_per_sm = 0;
    return 0;
}

// Of the longest of the points that are worked on together, as a factor.
static double longest_of(const warps_shape *shape, const km_plan *plan) {
    int64_t at_once = 32 / shape->lanes;
    double above = at_once == 2 ? 0.56 : at_once == 4 ? 1.03 : 1.42;
    return 1 + (shape->stages_tiles ? 0.3 : 1) * above / sqrt(nonzeros_of(plan)); // sorted by length
}

// Cycles of a multiprocessor's shared memory for a nonzero and all columns.
static double nonzero_cycles(const warps_shape *shape, const km_plan *plan) {
    int64_t vector = 16 / km_type_bytes(plan->spec.type), at_once = 32 / shape->lanes;
    double vectors = (double)(shape->columns / vector) * 4, single = (double)(shape->columns % vector);
    double conflicts = at_once == 2 ? 1.5 : at_once == 4 ? 2 : 3;
    if (shape->lanes * vector < 32 && shape->pitch == shape->panel) vectors *= 1.5;
    double cycles = (0.7 + vectors + single * conflicts * (vector == 2 ? 2 : 1)) / (double)at_once;
    return cycles * (double)shape->panels * (shape->table_shared ? 1 : 1.8);
}

// Instructions of a warp for a nonzero and all columns.
static double nonzero_instructions(const warps_shape *shape, const km_plan *plan) {
    int64_t vector = 16 / km_type_bytes(plan->spec.type), at_once = 32 / shape->lanes;
    double loads = (double)(shape->columns / vector + shape->columns % vector);
    double each = 4 + loads + (double)shape->columns,
           row = 25 + 3 * (double)shape->columns; // of a row of points
    return (each * (shape->stages_tiles ? 1 : 1.3) + row / nonzeros_of(plan)) * (double)shape->panels /
           (double)at_once;
}

static void evaluate(warps_config *config, const km_plan *plan) {
    const warps_shape *shape = &config->shape;
    double m = nonzeros_of(plan), slots = (double)slots_of(plan), columns = (double)columns_of(plan);
    double rate = (double)plan->facts.units * plan->facts.clock_ghz, longest = longest_of(shape, plan);
    double warps = (double)(shape->warps * shape->blocks_per_sm);
    double changed = 0.12 * slots; // of a point's labels
    double cycles = m * longest * nonzero_cycles(shape, plan) + 0.1 * columns;
    double instructions = m * longest * nonzero_instructions(shape, plan) + 0.25 * columns + 2 * slots + 16;
    double moved = changed * (10 + m * (shape->sums_shared ? 2 : 6));
    config->shared_ns = (cycles + moved) / rate;
    config->issue_ns = (instructions / 4 + moved) / rate;
    // The fewer warps, the more they wait.
    config->total_ns =
        measured.nonzeros_form * km_cuda_overlap(config->shared_ns, config->issue_ns) * (0.85 + 12 / warps);
}

// The fastest shape of all; blocks_per_sm is 0 where none fits.
static warps_config best_config(const km_plan *plan) {
    warps_config best = {.total_ns = INFINITY};
    int64_t fixed = 0, has_fixed = km_plan_fixed(plan, KM_PARAM_tile_clusters, &fixed),
            columns = columns_of(plan);
    for (int64_t panel = 4; panel <= PANEL_MAX; panel += 4) {
        if (has_fixed && panel != fixed) continue;
        for (int choice = 0; choice < 18; choice++) {
            int in_shared = choice / 6, stages_tiles = choice % 2;
            int64_t lanes = 4 << choice / 2 % 3;
            warps_config config = {.shape = {.panel = panel,
                                             .lanes = lanes,
                                             .table_shared = in_shared > 0,
                                             .sums_shared = in_shared > 1,
                                             .stages_tiles = stages_tiles}};
            if (panel % lanes || panel / lanes > LANE_COLUMNS_MAX) continue;
            if (stages_tiles && tile_nonzeros(plan) > STAGED_MAX) continue;
            if (!fill_warps(&config.shape, plan)) continue;
            evaluate(&config, plan);
            if (config.total_ns < best.total_ns) best = config;
        }
        if (panel >= km_round_up(columns, 16)) break; // wider ones have no more columns
    }
    return best;
}

// The form expanded -------------------------------------------------------------------------------------------

static int64_t steps_of(const km_plan *plan) {
    return km_divide_up(plan->spec.features + 3, 16);
}

static int64_t lane_columns_of(int64_t k) {
    return (k + 3) / 4;
}

// Bits of an index in a slot, as lanes number the centroids.
static int64_t code_bits(const km_plan *plan) {
    int64_t most = 4 * lane_columns_of(plan->spec.clusters[plan->spec.clusters_count - 1]), bits = 2;
    while ((int64_t)1 << bits < most) bits++;
    return bits;
}

// Centroids of a slot that wait with an ambiguous point are bits of a number of 32 bits, or 64.
static int has_many_candidates(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1] > 32;
}

static const char *expanded_refused(const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    if (spec->type != KM_FLOAT32) return "the form is for float32";
    if (spec->target.arch < 80) return "its products need sm_80 or later";
    if (spec->features > D_EXPANDED_MAX) return "the form takes up to 512 features";
    if (spec->clusters_count > KS_MAX) return "the form takes up to 64 K";
    if (spec->clusters[spec->clusters_count - 1] > K_EXPANDED_MAX) return "the form takes K up to 64";
    if (plan->points >> 32) return "the form takes less than 2^32 points";
    return NULL;
}

// Lays the K list out over panels of at most so many tiles; 0: too many panels, or a K that no panel holds.
static int lay_out(expanded_shape *shape, const km_plan *plan, int64_t tiles_max) {
    const km_spec *spec = &plan->spec;
    *shape = (expanded_shape){.tiles_max = tiles_max};
    for (int64_t i = 0; i < spec->clusters_count;) {
        if (shape->panels_count == PANELS_MAX) return 0;
        int64_t columns = 0, first = i;
        for (; i < spec->clusters_count; i++) {
            int64_t own = lane_columns_of(spec->clusters[i]);
            if (columns + own > 2 * tiles_max) break;
            shape->lane_columns[i] = (int16_t)(2 * shape->tiles + columns);
            columns += own;
        }
        if (i == first) return 0;
        int64_t tiles = km_divide_up(columns, 2);
        shape->panels[shape->panels_count++] =
            (expanded_panel){(int16_t)first, (int16_t)i, (int16_t)shape->tiles, (int16_t)tiles};
        shape->tiles += tiles;
        shape->tiles_most = km_max(shape->tiles_most, tiles);
    }
    return 1;
}

// As templates/cuda/sparse/products.cu has it.
static int64_t expanded_bytes(const expanded_shape *shape, const km_plan *plan) {
    enum { FACTS = 32, QUEUE = 64, CONTEXT = 208 };
    int64_t restarts = columns_of(plan) / plan->clusters_sum, slots = slots_of(plan);
    int64_t warp = steps_of(plan) * TILE * 32 + 16 + 2 * slots * TILE * label_bytes(plan) +
                   QUEUE * (8 + (has_many_candidates(plan) ? 16 : 12));
    int64_t sums = columns_of(plan) * (plan->spec.features + 1) * 8;
    return CONTEXT + restarts * shape->tiles * steps_of(plan) * 256 + km_round_up(sums, 16) + slots * FACTS +
           shape->warps * km_round_up(warp, 16);
}

// Registers of a thread, as the compiler counts them: scores, and what else there is.
static int64_t expanded_registers(const expanded_shape *shape) {
    return shape->tiles_most <= 2 ? 96 : shape->tiles_most <= 4 ? 128 : 168;
}

// As many warps as registers and shared memory hold, or the user's; 0: they do not.
static int fill_expanded(expanded_shape *shape, const km_plan *plan) {
    enum { STATIC = 256, SUMS_MAX = 65535 };
    int64_t block = 0, blocks = 1;
    int has_block = km_plan_fixed(plan, KM_PARAM_block, &block);
    km_plan_fixed(plan, KM_PARAM_blocks_per_sm, &blocks);
    shape->blocks_per_sm = blocks;
    if (columns_of(plan) * (plan->spec.features + 1) >= SUMS_MAX) return 0;
    for (shape->warps = has_block ? block / 32 : 24; shape->warps >= (has_block ? block / 32 : 2);
         shape->warps -= 2) {
        shape->shared_bytes = expanded_bytes(shape, plan);
        int64_t limit = plan->facts.shared_bytes_per_unit / blocks - BLOCK_BYTES;
        if (shape->shared_bytes + STATIC > km_min(limit, plan->facts.shared_bytes_per_block)) continue;
        if (km_cuda_registers_limit(plan, 32 * shape->warps, blocks) >= expanded_registers(shape)) return 1;
    }
    return 0;
}

// Sums anew, by products of masks of labels with the points' numbers (templates/cuda/sparse/masks.cu). ----------

// Fours of centroids of all slots.
static int64_t fours_of(const km_plan *plan) {
    int64_t fours = 0;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++) fours += lane_columns_of(plan->spec.clusters[i]);
    return columns_of(plan) / plan->clusters_sum * fours;
}

// How warps have rows of columns and pairs of 8 features, as the template has it.
typedef struct masks_shape {
    int64_t row_groups, rows, parts, pairs, warps, shared_bytes;
} masks_shape;

static masks_shape masks_of(const km_plan *plan) {
    enum { ROWS_MAX = 5, WARPS = 8, POINTS = 128, PITCH = 20, WORKSPACE = 384 };
    int64_t row_tiles = km_divide_up(columns_of(plan), 16), pairs = km_divide_up(plan->spec.features + 1, 16);
    masks_shape shape = {.row_groups = km_divide_up(row_tiles, ROWS_MAX)};
    shape.rows = km_divide_up(row_tiles, shape.row_groups);
    shape.parts = km_divide_up(pairs, km_max(1, WARPS / shape.row_groups));
    shape.pairs = km_divide_up(pairs, shape.parts);
    shape.warps = shape.pairs * shape.row_groups;
    shape.shared_bytes =
        WORKSPACE + 2 * shape.pairs * 16 * POINTS * 4 + fours_of(plan) * (2 * PITCH + 1) * 4 + slots_of(plan);
    return shape;
}

static int makes_sums_anew(const km_plan *plan) {
    masks_shape shape = masks_of(plan);
    // sm_100: the compiler finds too few registers for the same text.
    return !plan->weighted && plan->spec.target.arch < 100 && shape.warps <= 8 &&
           shape.shared_bytes <= plan->facts.shared_bytes_per_block;
}

// Cycles of a multiprocessor for a point.
static double anew_cycles(const km_plan *plan) {
    masks_shape shape = masks_of(plan);
    double products = 8 * (double)(shape.rows * shape.warps);
    return (double)shape.parts * (measured.anew_point + measured.anew_product * products +
                                  measured.anew_nonzero * nonzeros_of(plan));
}

// How many labels of 1,024 points must have changed in a pass so that the next one makes sums anew, where about half as
// many will change. A warp that moves points waits for their nonzeros: the fewer warps there are, the longer it takes.
static int64_t anew_changes(const km_plan *plan) {
    const expanded_shape *shape = &((const sparse_layout *)plan->layout)->expanded;
    double waits = 24 / (double)(shape->warps * shape->blocks_per_sm);
    double moved = 2 * measured.expanded_added * (nonzeros_of(plan) + 1) * waits * waits;
    return (int64_t)(1024 * anew_cycles(plan) / moved);
}

static void evaluate_expanded(warps_config *config, const expanded_shape *shape, const km_plan *plan) {
    double m = nonzeros_of(plan), slots = (double)slots_of(plan), steps = (double)steps_of(plan);
    double restarts = slots / (double)plan->spec.clusters_count, tiles = restarts * (double)shape->tiles;
    double panels = restarts * (double)shape->panels_count;
    double rate = (double)plan->facts.units * plan->facts.clock_ghz;
    // Cycles of a multiprocessor for a point: products; then those of each nonzero, mostly moves between sums.
    double cycles = steps * (measured.expanded_step + measured.expanded_panel * (panels - 1) +
                             measured.expanded_tile * tiles) +
                    measured.expanded_slot * slots;
    double added = m * (measured.expanded_nonzero + measured.expanded_move * slots);
    config->is_expanded = 1;
    config->tiles_max = shape->tiles_max;
    config->warps = shape->warps;
    config->blocks_per_sm = shape->blocks_per_sm;
    config->shared_bytes = shape->shared_bytes;
    config->shared_ns = config->issue_ns = config->total_ns = (cycles + added) / rate;
}

// The better of the two forms, or the one that the user fixed.
static warps_config best_form(const km_plan *plan, const char **why) {
    int64_t form = 0, columns = 0;
    int has_form = km_plan_fixed(plan, KM_PARAM_form, &form);
    warps_config best = {.total_ns = INFINITY};
    *why = "no scores of a warp's points fit into shared memory";
    if (!has_form || form == KM_WORD_form_nonzeros) best = best_config(plan);
    if (has_form && form == KM_WORD_form_nonzeros) return best;
    const char *refused = expanded_refused(plan);
    if (has_form) *why = refused ? refused : "no points of a warp with their zeros fit into shared memory";
    if (refused) return best;
    int has_columns = km_plan_fixed(plan, KM_PARAM_tile_clusters, &columns);
    for (int64_t tiles = 1; tiles <= TILES_MAX; tiles++) {
        expanded_shape shape;
        warps_config config = {.is_expanded = 1};
        if (has_columns && columns != 8 * tiles) continue;
        if (!lay_out(&shape, plan, tiles) || !fill_expanded(&shape, plan)) continue;
        if (!has_columns && shape.tiles_most < tiles) continue;
        evaluate_expanded(&config, &shape, plan);
        if (config.total_ns < best.total_ns) best = config;
    }
    return best;
}

static void estimate(km_config *found, km_plan *plan) {
    km_estimate *estimate = &plan->estimates[KM_DESIGN_SPARSE_WARPS];
    const char *why;
    warps_config config = best_form(plan, &why);
    estimate->design = KM_DESIGN_SPARSE_WARPS;
    estimate->feasible = config.is_expanded || config.shape.blocks_per_sm > 0;
    if (!estimate->feasible) {
        km_plan_infeasible(plan, KM_DESIGN_SPARSE_WARPS, why);
        return;
    }
    int64_t warps = config.is_expanded ? config.warps : config.shape.warps;
    int64_t blocks = config.is_expanded ? config.blocks_per_sm : config.shape.blocks_per_sm;
    double m = nonzeros_of(plan), restarts = (double)columns_of(plan) / (double)plan->clusters_sum;
    int64_t index = km_csr_index_bytes(plan->spec.features);
    estimate->bytes_per_point =
        m * (config.is_expanded ? 8 : (double)(index + km_type_bytes(plan->spec.type))) + 8 +
        (double)plan->spec.clusters_count * restarts;
    estimate->memory_ns = km_cuda_read_ns(plan, estimate->bytes_per_point);
    estimate->issue_ns = config.total_ns;
    estimate->operations_per_point = m * (double)columns_of(plan);
    estimate->total_ns =
        km_cuda_overlap(config.total_ns, estimate->memory_ns) + km_cuda_launches_ns(plan, 5, 4000);
    estimate->registers_per_thread = km_cuda_registers_limit(plan, 32 * warps, blocks);
    estimate->registers_spare = 8;
    estimate->shared_bytes_per_block = config.is_expanded ? config.shared_bytes : config.shape.shared_bytes;
    snprintf(estimate->reason, sizeof estimate->reason, "%s%s",
             config.is_expanded
                 ? "points with their zeros in shared memory meet all centroids in matrix products"
                 : "nonzeros meet all centroids of a panel, ",
             config.is_expanded          ? ""
             : config.shape.table_shared ? "which is in shared memory"
                                         : "which is read from the cache");
    KM_CONFIG_PUT(found, config);
}

// Where the user fixed some numbers, the others follow.
static km_status decide_nonzeros(km_plan *plan, const warps_config *config, km_error *err) {
    warps_shape *shape = &((sparse_layout *)plan->layout)->shape;
    *shape = config->shape;
    shape->panel = km_plan_value(plan, KM_PARAM_tile_clusters);
    shape->blocks_per_sm = km_plan_value(plan, KM_PARAM_blocks_per_sm);
    shape->warps = km_plan_value(plan, KM_PARAM_block) / 32;
    if (shape->panel % 4 || shape->panel > PANEL_MAX)
        return km_fail(err, KM_ERROR_PLAN, "tile_clusters must be a multiple of 4 up to %d", PANEL_MAX);
    for (int in_shared = 2; in_shared >= 0; in_shared--) { // what fits beside the numbers that the user fixed
        if (in_shared < 2) shape->sums_shared = 0;
        if (in_shared < 1) shape->table_shared = 0;
        fill(shape, plan);
        if (fits(shape, plan)) return KM_OK;
    }
    return km_fail(err, KM_ERROR_PLAN,
                   "%lld warps of %lld blocks do not fit into shared memory: set block lower",
                   (long long)shape->warps, (long long)shape->blocks_per_sm);
}

static km_status decide_expanded(km_plan *plan, km_error *err) {
    expanded_shape *shape = &((sparse_layout *)plan->layout)->expanded;
    if (!lay_out(shape, plan, km_plan_value(plan, KM_PARAM_tile_clusters) / 8))
        return km_fail(err, KM_ERROR_PLAN,
                       "the K list does not fit the plan's tiles: set tile_clusters higher");
    shape->blocks_per_sm = km_plan_value(plan, KM_PARAM_blocks_per_sm);
    shape->warps = km_plan_value(plan, KM_PARAM_block) / 32;
    shape->shared_bytes = expanded_bytes(shape, plan);
    return KM_OK;
}

static km_status decide(km_plan *plan, const km_config *found, km_error *err) {
    warps_config config;
    KM_CONFIG_GET(config, found);
    int is_expanded = config.is_expanded;
    KM_TRY(km_cuda_set_restarts(plan, err));
    KM_TRY(km_plan_set(
        plan, KM_PARAM_form, is_expanded ? KM_WORD_form_expanded : KM_WORD_form_nonzeros, err, "%s",
        is_expanded ? "products cost less than a centroid's numbers for each nonzero"
                    : "a nonzero meets a table of centroids, however many features there are"));
    if (is_expanded)
        KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, 8 * config.tiles_max, err,
                           "columns of products whose scores registers hold"));
    else
        KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, config.shape.panel, err,
                           "centroids that a nonzero meets at a time, %lld lanes a point",
                           (long long)config.shape.lanes));
    KM_TRY(km_plan_set(plan, KM_PARAM_blocks_per_sm,
                       is_expanded ? config.blocks_per_sm : config.shape.blocks_per_sm, err,
                       is_expanded ? "all warps share the centroids and the sums"
                                   : "blocks whose centroids, sums and scores fit into shared memory"));
    KM_TRY(km_plan_set(plan, KM_PARAM_block, 32 * (is_expanded ? config.warps : config.shape.warps), err,
                       is_expanded ? "warps whose points and scores fit"
                                   : "warps whose scores fit beside them"));
    KM_TRY(km_plan_set(plan, KM_PARAM_grid, plan->facts.units * km_plan_value(plan, KM_PARAM_blocks_per_sm),
                       err, "%lld multiprocessors, filled once", (long long)plan->facts.units));
    if (km_plan_value(plan, KM_PARAM_block) % 32)
        return km_fail(err, KM_ERROR_PLAN, "block must be a multiple of 32");
    KM_TRY(km_plan_layout_make(plan, sizeof(sparse_layout), err));
    ((sparse_layout *)plan->layout)->is_expanded = is_expanded;
    return is_expanded ? decide_expanded(plan, err) : decide_nonzeros(plan, &config, err);
}

static void name_expanded(km_env *env, const km_plan *plan) {
    const expanded_shape *shape = &((const sparse_layout *)plan->layout)->expanded;
    km_env_set_int(env, "fours", fours_of(plan));
    km_env_set_int(env, "anew_changes", anew_changes(plan));
    km_env_set_int(env, "fragment_tiles", shape->tiles);
    // From sm_100 on more at a time takes more registers than there are.
    const int is_tight = plan->spec.target.arch >= 100;
    km_env_set_int(env, "steps_at_once", is_tight ? 1 : steps_of(plan) <= 8 ? steps_of(plan) : 4);
    km_env_set_int(env, "moves_at_once", is_tight ? 2 : 4);
    km_env_set_int(env, "entries_ahead", is_tight ? 1 : 3);
    km_env_set_int(env, "code_bits", code_bits(plan));
    km_env_set_flag(env, "many_candidates", has_many_candidates(plan));
    for (int64_t i = 0; i < shape->panels_count; i++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)i);
        km_env *panel = km_env_item(env, "panels", text);
        km_env_set_int(panel, "first", shape->panels[i].first);
        km_env_set_int(panel, "end", shape->panels[i].end);
        km_env_set_int(panel, "fragments", shape->panels[i].fragments);
        km_env_set_int(panel, "tiles", shape->panels[i].tiles);
    }
}

static void name_nonzeros(km_env *env, const km_plan *plan) {
    const warps_shape *shape = &((const sparse_layout *)plan->layout)->shape;
    km_env_set_int(env, "row_lanes", shape->lanes);
    km_env_set_int(env, "lane_columns", shape->columns);
    km_env_set_int(env, "panels", shape->panels);
    km_env_set_int(env, "table_pitch", shape->pitch);
    km_env_set_int(env, "staged", shape->staged);
    km_env_set_int(env, "round_pairs",
                   shape->stages_tiles ? 1 : 2); // where rounds are rare, few registers count
    km_env_set_flag(env, "stages_tiles", shape->stages_tiles != 0);
    km_env_set_flag(env, "table_shared", shape->table_shared != 0);
    km_env_set_flag(env, "stages_labels", tile_labels(plan) > 0);
    km_env_set_flag(env, "sums_shared", shape->sums_shared != 0);
}

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    const sparse_layout *layout = plan->layout;
    int64_t d = plan->spec.features, offset = 0;
    (void)err;
    *root = layout->is_expanded ? "cuda/sparse/expanded.cu" : "cuda/sparse/sparse.cu";
    km_cuda_names(env, plan);
    km_env_set_flag(env, "sums_anew", layout->is_expanded && makes_sums_anew(plan));
    if (layout->is_expanded)
        name_expanded(env, plan);
    else
        name_nonzeros(env, plan);
    static const char *const index_types[] = {
        [1] = "unsigned char", [2] = "unsigned short", [4] = "unsigned"};
    km_env_set(env, "index_type", "%s", index_types[km_csr_index_bytes(d)]);
    for (int64_t i = 0; i < plan->spec.clusters_count; offset += plan->spec.clusters[i++]) {
        km_env *k = km_cuda_name_k(env, &plan->spec, i, offset);
        if (layout->is_expanded) km_env_set_int(k, "lane_column", layout->expanded.lane_columns[i]);
    }
    return KM_OK;
}

// Bytes a point of the form expanded: entries and numbers of its nonzeros, and of what fills tiles up; its bounds.
static double expanded_point_bytes(const km_plan *plan) {
    return 8 * plan->nonzeros + (plan->weighted ? 0 : 8) + 2 + 4;
}

static int64_t workspace_bytes(const km_plan *plan, int64_t n) {
    const sparse_layout *layout = plan->layout;
    int64_t d = plan->spec.features, size = km_type_bytes(plan->spec.type), columns = columns_of(plan);
    int64_t slots = slots_of(plan), labels = plan->track_labels ? 0 : slots * label_bytes(plan) * (n + 256);
    int64_t bytes = columns * (d + 1) * (size / 4) * 8 + (d + 1) * 8 + slots * 8 + labels + 12 * 256;
    if (layout->is_expanded)
        return bytes + columns * 8 + d * 16 + slots * 16 + (int64_t)(expanded_point_bytes(plan) * (double)n) +
               columns / plan->clusters_sum * layout->expanded.tiles * steps_of(plan) * 256 + 9 * 256 +
               256 * 14;
    const warps_shape *shape = &layout->shape;
    return bytes + shape->panels * shape->panel * 16 + shape->panels * d * shape->pitch * size;
}

static int point_memory(km_point_memory rows[KM_POINT_MEMORY_MAX], const km_plan *plan) {
    const sparse_layout *layout = plan->layout;
    int count = 0;
    if (!plan->track_labels)
        rows[count++] =
            (km_point_memory){"labels between passes", (double)(slots_of(plan) * label_bytes(plan))};
    if (layout->is_expanded)
        rows[count++] = (km_point_memory){"nonzeros as products take them", expanded_point_bytes(plan)};
    return count;
}

const km_design_code km_design_sparse_warps = {.estimate = estimate,
                                               .decide = decide,
                                               .names = names,
                                               .workspace_bytes = workspace_bytes,
                                               .point_memory = point_memory,
                                               .is_csr = 1};

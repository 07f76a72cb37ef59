// SPDX-License-Identifier: MIT
// The CUDA design `sparse_warps` (templates/cuda/sparse): points in the layout CSR; lanes of a warp lie across
// centroids, which are the columns of a table with a row for each feature. For any d, K and type.
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

typedef struct warps_config {
    warps_shape shape;
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
    double wide = (double)(shape->columns / vector) * 4, single = (double)(shape->columns % vector);
    double conflicts = at_once == 2 ? 1.5 : at_once == 4 ? 2 : 3;
    if (shape->lanes * vector < 32 && shape->pitch == shape->panel) wide *= 1.5;
    double cycles = (0.7 + wide + single * conflicts * (vector == 2 ? 2 : 1)) / (double)at_once;
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
    config->total_ns = km_cuda_overlap(config->shared_ns, config->issue_ns) * (0.85 + 12 / warps);
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

static void estimate(km_config *found, km_plan *plan) {
    km_estimate *estimate = &plan->estimates[KM_DESIGN_SPARSE_WARPS];
    warps_config config = best_config(plan);
    estimate->design = KM_DESIGN_SPARSE_WARPS;
    estimate->feasible = config.shape.blocks_per_sm > 0;
    if (!estimate->feasible) {
        km_plan_infeasible(plan, KM_DESIGN_SPARSE_WARPS,
                           "no scores of a warp's points fit into shared memory");
        return;
    }
    double m = nonzeros_of(plan), restarts = (double)columns_of(plan) / (double)plan->clusters_sum;
    int64_t index = km_csr_index_bytes(plan->spec.features);
    estimate->bytes_per_point = m * (double)(index + km_type_bytes(plan->spec.type)) + 8 +
                                (double)plan->spec.clusters_count * restarts;
    estimate->memory_ns = estimate->bytes_per_point / plan->facts.bandwidth_gbs;
    estimate->issue_ns = config.total_ns;
    estimate->operations_per_point = m * (double)columns_of(plan);
    estimate->total_ns =
        km_cuda_overlap(config.total_ns, estimate->memory_ns) + km_cuda_launches_ns(plan, 5, 4000);
    estimate->registers_per_thread =
        km_cuda_registers_limit(plan, 32 * config.shape.warps, config.shape.blocks_per_sm);
    estimate->registers_spare = 8;
    estimate->shared_bytes_per_block = config.shape.shared_bytes;
    snprintf(estimate->reason, sizeof estimate->reason, "nonzeros meet all centroids of a panel, %s",
             config.shape.table_shared ? "which is in shared memory" : "which is read from the cache");
    KM_CONFIG_PUT(found, config);
}

static km_status decide(km_plan *plan, const km_config *found, km_error *err) {
    warps_config config;
    KM_CONFIG_GET(config, found);
    warps_shape *shape;
    KM_TRY(km_cuda_set_restarts(plan, err));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, config.shape.panel, err,
                       "centroids that a nonzero meets at a time, %lld lanes a point",
                       (long long)config.shape.lanes));
    KM_TRY(km_plan_set(plan, KM_PARAM_blocks_per_sm, config.shape.blocks_per_sm, err,
                       "blocks whose centroids, sums and scores fit into shared memory"));
    KM_TRY(km_plan_set(plan, KM_PARAM_block, 32 * config.shape.warps, err,
                       "warps whose scores fit beside them"));
    KM_TRY(km_plan_set(plan, KM_PARAM_grid, plan->facts.units * km_plan_value(plan, KM_PARAM_blocks_per_sm),
                       err, "%lld multiprocessors, filled once", (long long)plan->facts.units));
    KM_TRY(km_plan_layout_make(plan, sizeof *shape, err));
    shape = plan->layout;
    *shape = config.shape;
    shape->panel = km_plan_value(plan, KM_PARAM_tile_clusters);
    shape->blocks_per_sm = km_plan_value(plan, KM_PARAM_blocks_per_sm);
    shape->warps = km_plan_value(plan, KM_PARAM_block) / 32;
    if (shape->panel % 4 || shape->panel > PANEL_MAX)
        return km_fail(err, KM_ERROR_PLAN, "tile_clusters must be a multiple of 4 up to %d", PANEL_MAX);
    if (km_plan_value(plan, KM_PARAM_block) % 32)
        return km_fail(err, KM_ERROR_PLAN, "block must be a multiple of 32");
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

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    const warps_shape *shape = plan->layout;
    int64_t d = plan->spec.features, offset = 0;
    (void)err;
    *root = "cuda/sparse/sparse.cu";
    km_cuda_names(env, plan);
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
    static const char *const index_types[] = {
        [1] = "unsigned char", [2] = "unsigned short", [4] = "unsigned"};
    km_env_set(env, "index_type", "%s", index_types[km_csr_index_bytes(d)]);
    for (int64_t i = 0; i < plan->spec.clusters_count; offset += plan->spec.clusters[i++])
        km_cuda_name_k(env, &plan->spec, i, offset);
    return KM_OK;
}

static int64_t workspace_bytes(const km_plan *plan, int64_t n) {
    const warps_shape *shape = plan->layout;
    int64_t d = plan->spec.features, size = km_type_bytes(plan->spec.type), columns = columns_of(plan);
    int64_t slots = slots_of(plan), labels = plan->track_labels ? 0 : slots * label_bytes(plan) * (n + 256);
    return columns * (d + 1) * (size / 4) * 8 + shape->panels * shape->panel * 16 +
           shape->panels * d * shape->pitch * size + (d + 1) * 8 + slots * 8 + labels + 8 * 256;
}

static int point_memory(km_point_memory rows[KM_POINT_MEMORY_MAX], const km_plan *plan) {
    if (plan->track_labels) return 0;
    rows[0] = (km_point_memory){"labels between passes", (double)(slots_of(plan) * label_bytes(plan))};
    return 1;
}

const km_design_code km_design_sparse_warps = {.estimate = estimate,
                                               .decide = decide,
                                               .names = names,
                                               .workspace_bytes = workspace_bytes,
                                               .point_memory = point_memory,
                                               .is_csr = 1};

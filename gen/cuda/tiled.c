// SPDX-License-Identifier: MIT
// The CUDA design `tiled` (templates/cuda/tiled): labels by tiles like a matrix product, then every point is added to
// its cluster. For any d, K and type.
#include "../../base/size.h"
#include "../../base/text.h"
#include "../words.h"
#include "measured.h"
#include "tiled.h"

#include <stdio.h>
#include <string.h>

// What is decided in addition to numbers: the plan's layout.
typedef struct decided {
    km_tile_shape shape;
    km_product_shape products;
    km_chunk_shape chunks;
    int64_t resolve_grid;         // blocks of km_tiled_resolve, for each slot
    int64_t round_ahead;          // pieces of points that are read ahead before they are rounded
    int64_t lanes, feature_parts; // sorted sums: lanes of a subwarp, and subwarps of a point
    int64_t lane_numbers;         // numbers of one load
} decided;

// Estimate ----------------------------------------------------------------------------------------------------

// The time of the numbers that the user fixed, where they can run, instead of the best ones'.
static void take_fixed(km_tiled_config *config, const km_plan *plan) {
    km_tiled_config own = *config;
    km_plan_fixed(plan, KM_PARAM_tile_points, &own.shape.tile_points);
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &own.shape.tile_clusters);
    km_plan_fixed(plan, KM_PARAM_tile_features, &own.shape.tile_features);
    km_plan_fixed(plan, KM_PARAM_blocks_per_sm, &own.blocks_per_sm);
    km_tiled_fill(&own.shape, &plan->spec);
    if (km_tiled_check(plan, &own.shape, own.blocks_per_sm, NULL) != KM_OK) return;
    km_tiled_evaluate(&own, plan);
    *config = own;
}

// Labels by tiles like a matrix product; then every point is added to its row, once for each K.
static void estimate(km_config *found, km_plan *plan) {
    km_estimate *estimate = &plan->estimates[KM_DESIGN_TILED];
    double d = (double)plan->spec.features, ks = (double)plan->spec.clusters_count,
           size = (double)km_type_bytes(plan->spec.type);
    int64_t form;
    const char *why_not =
        km_plan_fixed(plan, KM_PARAM_form, &form) ? km_tiled_form_refused(plan, form) : NULL;
    km_tiled_config best = {0}, *config = &best;
    if (!why_not) best = km_tiled_best(plan);
    estimate->design = KM_DESIGN_TILED;
    estimate->feasible = config->blocks_per_sm > 0;
    if (!estimate->feasible) {
        km_plan_infeasible(plan, KM_DESIGN_TILED,
                           why_not ? why_not : "no tiles fit into registers and shared memory");
        return;
    }
    take_fixed(config, plan);
    int64_t sums = km_tiled_sums_of(plan, (int)config->shape.resident);
    double adding_ns = km_tiled_adding(plan, config) / km_cuda_issue_rate(plan);
    // Of whole points the labels' read is behind their arithmetic.
    double reads = (config->shape.whole ? 0 : 1) +
                   (sums == KM_WORD_sums_sorted || sums == KM_WORD_sums_integers ? ks : 1);
    estimate->bytes_per_point = reads * d * size + ks * (sums == KM_WORD_sums_integers ? 4 : 12);
    estimate->memory_ns = km_cuda_read_ns(plan, estimate->bytes_per_point);
    estimate->tensor_ns = config->tensor_ns;
    estimate->issue_ns = config->issue_ns + adding_ns;
    estimate->operations_per_point = estimate->issue_ns * km_cuda_issue_rate(plan);
    estimate->total_ns = estimate->memory_ns + config->total_ns + adding_ns; // one kernel after the other
    if (sums == KM_WORD_sums_products) // both overlap the read of the points
        estimate->total_ns =
            config->total_ns +
            km_cuda_overlap(adding_ns, measured.adding_read * km_cuda_read_ns(plan, d * size));
    estimate->registers_per_thread = km_tiled_registers_limit(plan, &config->shape, config->blocks_per_sm);
    estimate->registers_spare = config->spare;
    estimate->shared_bytes_per_block = config->shape.shared_bytes;
    snprintf(estimate->reason, sizeof estimate->reason, "%s",
             config->shape.fp16    ? "fp16 scores, ambiguous points again in double"
             : config->shape.whole ? "float scores, ambiguous points again in double"
                                   : "plain arithmetic");
    KM_CONFIG_PUT(found, best);
}

// Decision ----------------------------------------------------------------------------------------------------

static km_status check_sums(const km_plan *plan, const km_tile_shape *shape, km_error *err) {
    int64_t sums = km_plan_value(plan, KM_PARAM_sums);
    if (sums == KM_WORD_sums_chunks && km_tiled_k_max(plan) > KM_TILED_CHUNKS_K_MAX)
        return km_fail(err, KM_ERROR_PLAN, "sums can be chunks up to K = %d only", KM_TILED_CHUNKS_K_MAX);
    if (sums == KM_WORD_sums_products && (!shape->resident || !km_tiled_has_double_products(plan)))
        return km_fail(err, KM_ERROR_PLAN,
                       "sums can be products only where centroids are resident, on sm_90 or sm_100");
    if (sums == KM_WORD_sums_integers && !km_tiled_has_integers(plan))
        return km_fail(
            err, KM_ERROR_PLAN,
            "sums can be integers only of up to %d features (float64: %d) without weights, where the "
            "rows of the largest K fit into shared memory",
            KM_TILED_INTEGERS_FEATURES, KM_TILED_INTEGERS_DOUBLES);
    return KM_OK;
}

static km_status decide_tiles(km_plan *plan, const km_tiled_config *config, km_error *err) {
    int resident = config->shape.resident != 0, whole = config->shape.whole != 0;
    KM_TRY(km_plan_set(plan, KM_PARAM_form, km_tiled_form_of(&config->shape), err, "%s; %s",
                       whole      ? "few features: a thread has whole points"
                       : resident ? "tiles of centroids fit into shared memory, all of their features"
                                  : "many clusters or features, or products that are no faster",
                       whole                ? "ambiguous points are decided again in double"
                       : config->shape.fp16 ? "tensor cores, ambiguous points are decided again in double"
                                            : "the type or the device asks for plain arithmetic"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_points, config->shape.tile_points, err, "%s",
                       whole      ? "as many of a thread as registers hold"
                       : resident ? "16 for each of the warps that registers and shared memory hold"
                                  : "points of a block, which share what is read of the centroids"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, config->shape.tile_clusters, err, "%s",
                       whole      ? "centroids of which the best score is kept"
                       : resident ? "centroids of whole K whose scores a warp has in registers"
                                  : "64 for each of the warps that have the same points"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_features, config->shape.tile_features, err,
                       whole      ? "all %lld features"
                       : resident ? "%lld features, one product at a time"
                                  : "%lld features in pieces that are padded little",
                       (long long)plan->spec.features));
    return km_plan_set(plan, KM_PARAM_blocks_per_sm, config->blocks_per_sm, err,
                       "blocks whose tiles fit into shared memory");
}

// The layout follows from the numbers; names() only copies it.
static km_status decide_layout(km_plan *plan, km_error *err) {
    enum { RESIDENT_RESOLVE_BLOCKS = 6 }; // on a multiprocessor
    KM_TRY(km_plan_layout_make(plan, sizeof(decided), err));
    decided *it = plan->layout;
    int64_t d = plan->spec.features, blocks_per_sm = km_plan_value(plan, KM_PARAM_blocks_per_sm);
    int64_t slots = plan->spec.clusters_count * km_plan_value(plan, KM_PARAM_concurrent_restarts);
    it->shape = km_tiled_shape_of(plan);
    it->products = km_tiled_products_of(plan);
    it->chunks = km_tiled_chunks_of(plan);
    it->resolve_grid =
        km_max(1, plan->facts.units * (it->shape.resident ? RESIDENT_RESOLVE_BLOCKS : blocks_per_sm) / slots);
    int64_t warps = it->shape.point_warps * it->shape.cluster_warps * blocks_per_sm;
    it->round_ahead = warps < 8 ? 16 : it->shape.panel_rows == 1 || warps < 16 ? 8 : 2;
    // A lane has the features of one 16-byte load.
    it->lane_numbers = it->shape.piece / km_type_bytes(plan->spec.type);
    for (it->lanes = 1; it->lanes < 32 && it->lanes * it->lane_numbers < d;) it->lanes *= 2;
    it->feature_parts = km_divide_up(d, it->lanes * it->lane_numbers);
    return KM_OK;
}

static km_status decide(km_plan *plan, const km_config *found, km_error *err) {
    km_tiled_config config;
    KM_CONFIG_GET(config, found);
    int64_t sums = km_tiled_sums_of(plan, (int)config.shape.resident);
    KM_TRY(km_cuda_set_restarts(plan, err));
    if (km_plan_value(plan, KM_PARAM_concurrent_restarts) * plan->spec.clusters_count > KM_CUDA_SLOTS_MAX)
        return km_fail(
            err, KM_ERROR_PLAN,
            "concurrent_restarts can be %d at most for so many K: a launch has a row of blocks for "
            "each K of each restart, and %d rows at most",
            (int)(KM_CUDA_SLOTS_MAX / plan->spec.clusters_count), KM_CUDA_SLOTS_MAX);
    KM_TRY(decide_tiles(plan, &config, err));
    km_tile_shape shape = km_tiled_shape_of(plan);
    KM_TRY(km_tiled_check(plan, &shape, km_plan_value(plan, KM_PARAM_blocks_per_sm), err));
    KM_TRY(km_plan_set(plan, KM_PARAM_sums, sums, err, "%s", km_tiled_sums_reason(sums)));
    KM_TRY(check_sums(plan, &shape, err));
    if (sums == KM_WORD_sums_sorted)
        KM_TRY(km_plan_set(plan, KM_PARAM_segments, km_tiled_segments_of(plan), err,
                           "segments of the points in the order of their labels, a few lanes each"));
    KM_TRY(km_plan_set(plan, KM_PARAM_grid, km_tiled_grid_of(plan), err, "%s",
                       sums == KM_WORD_sums_sorted ? "chunks of points while they are sorted"
                       : sums == KM_WORD_sums_integers
                           ? "blocks that add points, of a slot"
                           : "chunks of points, each with its own sums, 64 MiB at most"));
    return decide_layout(plan, err);
}

// Names -------------------------------------------------------------------------------------------------------

static void name_chunks(km_env *env, const km_chunk_shape *sums) {
    km_env_set_int(env, "sum_lanes", sums->lanes);
    km_env_set_int(env, "feature_parts", sums->feature_parts);
    km_env_set_int(env, "sum_warps", sums->warps);
    km_env_set_int(env, "block_slots", sums->slots);
    km_env_set_int(env, "block_rows", sums->rows);
}

static void name_sorted(km_env *env, const km_plan *plan, const decided *it) {
    int64_t passes = km_tiled_k_max(plan) > 256 ? 2 : 1; // of a sort by bytes
    km_env_set_int(env, "sum_lanes", it->lanes);
    km_env_set_int(env, "numbers", it->lane_numbers);
    km_env_set_int(env, "feature_parts", it->feature_parts);
    km_env_set_int(env, "sort_passes_count", passes);
    km_env_list(env, "sort_passes");
    for (int64_t pass = 0; pass < passes; pass++) km_env_item(env, "sort_passes", pass ? "1" : "0");
}

static void name_products(km_env *env, const km_product_shape *products) {
    km_env_set_int(env, "sum_columns", products->columns);
    km_env_set_int(env, "sum_feature_warps", products->feature_warps);
    km_env_set_int(env, "sum_piece", products->piece);
    km_env_set_int(env, "sum_blocks_per_sm", products->blocks_per_sm);
}

static void name_shape(km_env *env, const km_tile_shape *shape) {
    km_env_set_flag(env, "fp16", shape->fp16 != 0);
    km_env_set_flag(env, "resident_centroids", shape->resident != 0);
    km_env_set_int(env, "tile", shape->tile_clusters);
    km_env_set_flag(env, "k_ends_in_tile", shape->panel_rows == 1);
    km_env_set_flag(env, "takes_single_scores", shape->resident || shape->panel_rows == 1 || !shape->fp16);
    km_env_set(env, "labels", shape->whole ? "points" : shape->resident ? "resident" : "tiles");
    km_env_set_flag(env, "has_table", !shape->whole);
    km_env_set_int(env, "thread_points", shape->tile_points / KM_TILED_BLOCK);
    km_env_set_int(env, "row_numbers", shape->row_numbers);
    km_env_set(env, "scores", shape->fp16 ? "fp16" : "plain");
    km_env_set(env, "tile_ks", shape->panel_rows == 1 ? "several_k" : "one_k");
    km_env_set_flag(env, "several_cluster_warps", shape->cluster_warps > 1);
    km_env_set_int(env, "warp_points", shape->warp_points);
    km_env_set_int(env, "rows", shape->rows);
    km_env_set_int(env, "columns", shape->columns);
    km_env_set_int(env, "point_warps", shape->point_warps);
    km_env_set_int(env, "cluster_warps", shape->cluster_warps);
    km_env_set_int(env, "panel_rows", shape->panel_rows);
    km_env_set_int(env, "panels", shape->panels);
    km_env_set_int(env, "slices", shape->slices);
    km_env_set_int(env, "piece", shape->piece);
    if (!shape->resident) return;
    km_env_set_int(env, "ahead", shape->ahead);
    km_env_set_int(env, "tile_slots", shape->tile_slots);
}

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    const km_spec *spec = &plan->spec;
    const decided *it = plan->layout;
    int64_t panel = 0, offset = 0, sums = km_plan_value(plan, KM_PARAM_sums);
    (void)err;
    *root = "cuda/tiled/tiled.cu";
    km_cuda_names(env, plan);
    name_shape(env, &it->shape);
    km_env_set(env, "sums",
               sums == KM_WORD_sums_sorted     ? "sorted"
               : sums == KM_WORD_sums_integers ? "integers"
               : sums == KM_WORD_sums_products ? "products"
                                               : "chunks");
    km_env_set_int(env, "labels_grid", plan->facts.units * km_plan_value(plan, KM_PARAM_blocks_per_sm));
    km_env_set_int(env, "round_ahead", it->round_ahead);
    km_env_set_int(env, "resolve_grid", it->resolve_grid);
    km_env_set_flag(env, "has_lists", !it->shape.whole || sums == KM_WORD_sums_sorted);
    km_env_set_int(env, "row_words", km_tiled_row_words(spec));
    if (sums == KM_WORD_sums_products) name_products(env, &it->products);
    if (sums == KM_WORD_sums_sorted)
        name_sorted(env, plan, it);
    else
        name_chunks(env, &it->chunks);
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        km_env *k = km_cuda_name_k(env, spec, i, offset);
        km_env_set_int(k, "panel",
                       it->shape.resident ? km_tiled_resident_row(spec, it->shape.tile_clusters, i) : panel);
        panel += km_divide_up(spec->clusters[i], it->shape.panel_rows);
        offset += spec->clusters[i];
    }
    return KM_OK;
}

// Memory ------------------------------------------------------------------------------------------------------

static int64_t workspace_bytes(const km_plan *plan, int64_t n) {
    const decided *it = plan->layout;
    const km_tile_shape *shape = &it->shape;
    int64_t d = plan->spec.features, size = km_type_bytes(plan->spec.type), k_max = km_tiled_k_max(plan);
    int64_t restarts = km_plan_value(plan, KM_PARAM_concurrent_restarts), label = k_max <= 256 ? 1 : 2;
    int64_t slots = restarts * plan->spec.clusters_count, sums = km_cuda_partial_bytes(plan);
    int64_t rows = restarts * shape->panels * shape->panel_rows + shape->tile_clusters;
    int64_t table = rows * (size + 4 + shape->tile_features * shape->slices * (shape->fp16 ? 2 : size));
    int64_t points = n * (size * (1 + shape->fp16) + slots * (label + 4));
    if (shape->whole) {
        table = 0;
        points = n * slots * (label + (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_sorted ? 4 : 0));
    }
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_integers)
        sums = restarts * plan->clusters_sum * km_tiled_row_words(&plan->spec) * 8;
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_sorted) {
        sums = slots * (km_plan_value(plan, KM_PARAM_grid) * 1024 +
                        km_plan_value(plan, KM_PARAM_segments) * 16 * (d + 1)) +
               4 * (restarts * plan->clusters_sum + slots);
        if (k_max > 256) points += 4 * slots * n;
    }
    return sums + table + points + slots * (24 + 256 * label);
}

static int point_memory(km_point_memory rows[KM_POINT_MEMORY_MAX], const km_plan *plan) {
    const decided *it = plan->layout;
    int64_t slots = plan->spec.clusters_count * km_plan_value(plan, KM_PARAM_concurrent_restarts);
    int sorted = km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_sorted;
    double label = km_tiled_k_max(plan) <= 256 ? 1 : 2, lists = sorted && label == 2 ? 8 : 4;
    if (it->shape.whole && !sorted) lists = 0;
    // Lists of ambiguous points, and the sorted order.
    rows[0] = (km_point_memory){"labels and lists within a pass", (label + lists) * (double)slots};
    if (it->shape.whole) return 1;
    rows[1] = (km_point_memory){"lengths of points",
                                (double)(km_type_bytes(plan->spec.type) * (1 + it->shape.fp16))};
    return 2;
}

const km_design_code km_design_tiled = {.estimate = estimate,
                                        .decide = decide,
                                        .names = names,
                                        .workspace_bytes = workspace_bytes,
                                        .point_memory = point_memory};

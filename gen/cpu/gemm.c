// SPDX-License-Identifier: MIT
// The CPU design `gemm` (templates/cpu/gemm): tiled like a matrix product, any d and K.
#include "../../base/size.h"
#include "common.h"
#include "measured.h"

#include <math.h>
#include <string.h>

enum {
    PANEL_MIN = 48, // centroids of a panel
    PANEL_MAX = 1024,
    FEATURES_BYTES = 16384, // of an SoA group's points that stay in the first cache
    SPAN_BYTES = 65536      // of points that stay in the second cache beside a panel of centroids
};

// The work of the K list in whole tiles, in centroids of the design lanes, which has tiles of 4. A tile costs half a
// centroid beside its centroids.
static double tiles_work(const km_plan *plan, int64_t tile) {
    double work = 0;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++)
        work += ceil(plan->spec.clusters[i] / (double)tile) * ((double)tile + 0.5);
    return work * 4 / 4.5;
}

// Centroids of a tile: as many as registers hold, or fewer where that leaves less of a K's last tile idle.
static int64_t tile_of(const km_plan *plan) {
    int64_t best = plan->facts.target.arch == KM_ISA_GENERIC ? 4 : 6;
    for (int64_t tile = best - 1; tile >= 4; tile--)
        if (tiles_work(plan, tile) < tiles_work(plan, best)) best = tile;
    return best;
}

// Features that stay in the first cache for all centroids of a panel.
static int64_t tile_features_of(const km_plan *plan, int64_t points) {
    int64_t d = plan->spec.features, bytes = points * d * km_type_bytes(plan->spec.type);
    return km_divide_up(d, bytes > FEATURES_BYTES + FEATURES_BYTES / 2 ? km_divide_up(bytes, FEATURES_BYTES)
                                                                       : 1);
}

// Operations of a tile's scores, all of its features: scores, or the best of them, go through memory between.
static double tile_operations(const km_plan *plan, const km_cpu_shape *it, int64_t vectors, int64_t tile,
                              int64_t features) {
    km_cpu_tiles tiles = {(double)tile, (double)vectors, .pinned = 1, .best_in_memory = 1};
    double operations = 0;
    int64_t passes = 0;
    for (int64_t f = 0; f < plan->spec.features; f += features, passes++)
        operations += km_cpu_tile_operations(plan, it, tiles, tiles.centroids,
                                             fmin((double)features, it->d - (double)f));
    operations += measured.gemm_tile * it->fma_per_cycle;
    return operations + (passes > 1 ? measured.scores_pass * (double)passes * tiles.centroids * tiles.vectors
                                    : measured.bests * tiles.vectors);
}

// Operations of a point's scores: whole tiles.
static double tiled_operations(const km_plan *plan, const km_cpu_shape *it, int64_t vectors, int64_t tile,
                               int64_t features) {
    double tiles = 0;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++)
        tiles += (double)km_divide_up(plan->spec.clusters[i], tile);
    return tiles * tile_operations(plan, it, vectors, tile, features) / ((double)vectors * it->lanes);
}

// What numbers that the user or a tuning fixed cost, over the planner's own.
static double fixed_numbers_cost(const km_plan *plan, const km_cpu_shape *it) {
    int64_t vectors = km_cpu_vectors(plan->facts.target.arch, (int64_t)it->lanes), tile = tile_of(plan),
            features = tile_features_of(plan, vectors * (int64_t)it->lanes);
    double own = tiled_operations(plan, it, vectors, tile, features);
    km_plan_fixed(plan, KM_PARAM_vectors, &vectors);
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &tile);
    features = tile_features_of(plan, vectors * (int64_t)it->lanes);
    km_plan_fixed(plan, KM_PARAM_tile_features, &features);
    return tiled_operations(plan, it, vectors, tile, features) / own;
}

static void estimate(km_config *config, km_plan *plan) {
    km_cpu_shape it = km_cpu_shape_of(plan);
    km_estimate *e = &plan->estimates[KM_DESIGN_GEMM];
    (void)config; // there is one
    *e = (km_estimate){.design = KM_DESIGN_GEMM, .feasible = 1};
    km_cpu_lanes_bytes(e, plan, &it);
    e->operations_per_point =
        tiles_work(plan, tile_of(plan)) * (it.d + 3) / it.lanes * fixed_numbers_cost(plan, &it);
    e->operations_per_point += it.ks * measured.gemm_labels;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++)
        e->operations_per_point += measured.gemm_sums / plan->spec.clusters[i];
    km_cpu_dense_bound_by(e, plan, &it, "fused multiply-adds");
}

// The panel's rows take half of the second cache at most. Not too few: points are read again for each panel.
static km_status set_panel(km_plan *plan, km_error *err) {
    int64_t tile = km_plan_value(plan, KM_PARAM_tile_clusters),
            most = plan->spec.clusters[plan->spec.clusters_count - 1];
    int64_t row = (plan->spec.features + 1) * km_type_bytes(plan->spec.type);
    int64_t panel = plan->facts.cache_bytes / 4 / row;
    if (panel < PANEL_MIN) panel = PANEL_MIN;
    if (panel > PANEL_MAX) panel = PANEL_MAX;
    if (panel > most) panel = most;
    panel = (panel + tile - 1) / tile * tile;
    KM_TRY(km_plan_set(plan, KM_PARAM_panel_clusters, panel, err, "%lld bytes of centroids, whole tiles",
                       (long long)(panel * row)));
    panel = km_plan_value(plan, KM_PARAM_panel_clusters);
    if (panel % tile || panel > PANEL_MAX + KM_CPU_TILE_MAX)
        return km_fail(err, KM_ERROR_PLAN,
                       "panel_clusters must be a multiple of tile_clusters (%d) up to %d, got %d", (int)tile,
                       PANEL_MAX + KM_CPU_TILE_MAX, (int)panel);
    return KM_OK;
}

static km_status decide(km_plan *plan, const km_config *config, km_error *err) {
    km_cpu_shape it = km_cpu_shape_of(plan);
    int64_t d = plan->spec.features;
    (void)config;
    KM_TRY(km_cpu_set_vectors(plan, km_cpu_vectors(plan->facts.target.arch, (int64_t)it.lanes), tile_of(plan),
                              "sums of vectors x tile in registers, the K list in whole tiles", err));
    int64_t points = km_plan_value(plan, KM_PARAM_vectors) * km_plan_value(plan, KM_PARAM_lanes);
    KM_TRY(km_cpu_set_soa_points(plan, points, "vectors x lanes", err));
    int64_t features = tile_features_of(plan, points);
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_features, features, err,
                       "%lld bytes of an SoA group in the first cache",
                       (long long)(points * features * km_type_bytes(plan->spec.type))));
    if (km_plan_value(plan, KM_PARAM_tile_features) > d)
        return km_fail(err, KM_ERROR_PLAN, "tile_features must be 1..%d, the features, got %d", (int)d,
                       (int)km_plan_value(plan, KM_PARAM_tile_features));
    KM_TRY(set_panel(plan, err));
    return km_cpu_set_restarts(plan, err);
}

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    km_cpu_text text = {.point_rows = 1, .span_bytes = SPAN_BYTES};
    int64_t tile_features = km_plan_value(plan, KM_PARAM_tile_features);
    (void)err;
    *root = "cpu/gemm/gemm.c";
    km_cpu_names(env, plan, &text);
    km_env_set_int(env, "panel", km_plan_value(plan, KM_PARAM_panel_clusters));
    km_env_set_int(env, "tile_features", tile_features);
    km_env_set_flag(env, "feature_tiles", tile_features < plan->spec.features);
    return KM_OK;
}

const km_design_code km_design_gemm = {.estimate = estimate, .decide = decide, .names = names};

// SPDX-License-Identifier: MIT
// Shapes of the design `tiled`: numbers that follow from form and tiles, and which can be run.
#include "../../base/size.h"
#include "../words.h"
#include "measured.h"
#include "tiled.h"

int64_t km_tiled_padded_rows(const km_spec *spec, int64_t panel_rows) {
    int64_t rows = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++)
        rows += km_divide_up(spec->clusters[i], panel_rows) * panel_rows;
    return rows;
}

int64_t km_tiled_resident_row(const km_spec *spec, int64_t tile, int64_t index) {
    int64_t row = 0;
    for (int64_t i = 0;; i++) {
        if (i < spec->clusters_count && row % tile + spec->clusters[i] > tile)
            row = km_divide_up(row, tile) * tile;
        if (i == index) return row;
        row += spec->clusters[i];
    }
}

// The most slots of a tile, as an even number.
static int64_t resident_tile_slots(const km_spec *spec, int64_t tile) {
    int64_t most = 0, slots = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        slots = km_tiled_resident_row(spec, tile, i) % tile ? slots + 1 : 1;
        if (slots > most) most = slots;
    }
    return km_divide_up(most, 2) * 2;
}

int64_t km_tiled_piece(int64_t numbers, int64_t size, int64_t most) {
    int64_t piece = most;
    while (numbers * size % piece) piece /= 2;
    return piece;
}

int64_t km_tiled_resident_step(const km_tile_shape *shape) {
    return shape->fp16 ? 16 : 8;
}

static void fill_resident(km_tile_shape *shape, const km_spec *spec) {
    int64_t size = km_type_bytes(spec->type), tile = shape->tile_clusters,
            step = km_tiled_resident_step(shape);
    shape->point_warps = shape->tile_points / KM_TILED_RESIDENT_POINTS;
    shape->cluster_warps = shape->panel_rows = 1;
    shape->panels = km_divide_up(km_tiled_resident_row(spec, tile, spec->clusters_count), tile) * tile;
    shape->slices = km_divide_up(spec->features, step);
    shape->piece = km_tiled_piece(spec->features, size, 16);
    shape->tile_slots = resident_tile_slots(spec, tile);
    shape->ahead = shape->point_warps > 8 ? 4 : 8;
    if (shape->ahead > shape->slices) shape->ahead = shape->slices;
    shape->shared_bytes = tile * ((shape->slices | 1) * step * (shape->fp16 ? 2 : 8) + size) +
                          shape->tile_points * (tile + 7) * size + 48 * shape->tile_slots + 64;
}

// A tile: centroids of which the best score is kept.
static void fill_whole(km_tile_shape *shape, const km_spec *spec) {
    int64_t tile = shape->tile_clusters, d = spec->features;
    shape->point_warps = KM_TILED_BLOCK / 32;
    shape->cluster_warps = shape->panel_rows = shape->slices = 1;
    shape->panels = km_tiled_padded_rows(spec, tile);
    shape->piece = km_tiled_piece(d, km_type_bytes(spec->type), 16);
    shape->row_numbers = d == 1 ? 2 : km_divide_up(d + 1, 4) * 4;
    shape->shared_bytes =
        km_divide_up(spec->clusters[spec->clusters_count - 1], tile) * (tile * shape->row_numbers + 4) * 4 +
        16;
}

void km_tiled_fill(km_tile_shape *shape, const km_spec *spec) {
    if (shape->resident || shape->whole) {
        (shape->whole ? fill_whole : fill_resident)(shape, spec);
        return;
    }
    int64_t size = km_type_bytes(spec->type), vector = 16 / size, tile = shape->tile_clusters;
    shape->warp_points = size == 4 ? 32 : 16;
    shape->rows = shape->fp16 || size == 8 ? 4 : 8;
    shape->columns = shape->fp16 ? 16 : 8;
    shape->point_warps = shape->tile_points / shape->warp_points;
    shape->cluster_warps = tile / KM_TILED_WARP_CLUSTERS;
    // Where a K ends in a tile, scores must go through shared memory. Padding costs scores instead.
    shape->panel_rows =
        shape->cluster_warps > 1 || 2 * km_tiled_padded_rows(spec, tile) <= 3 * km_tiled_padded_rows(spec, 1)
            ? tile
            : 1;
    shape->panels = km_tiled_padded_rows(spec, shape->panel_rows) / shape->panel_rows;
    shape->slices = km_divide_up(spec->features, shape->tile_features);
    shape->piece = km_tiled_piece(spec->features, size, 16);
    int64_t width = shape->tile_features * shape->slices, skewed = shape->tile_features;
    skewed += shape->fp16 ? 8 : shape->tile_features / vector % 2 ? 0 : vector;
    shape->shared_bytes = 2 * tile * (skewed * (shape->fp16 ? 2 : size) + size) +
                          shape->tile_points * (8 + size) + 256 * shape->point_warps * shape->cluster_warps +
                          2048;
    shape->shared_bytes += shape->tile_points * (shape->fp16 ? 2 * (width + 8) : 2 * skewed * size);
    if (shape->panel_rows == 1) shape->shared_bytes += shape->tile_points * (tile + 1) * size;
    if (shape->cluster_warps > 1) shape->shared_bytes += 28 * shape->cluster_warps * shape->tile_points;
}

double km_tiled_fp16_per_cycle(int32_t arch) {
    switch (arch) {
    case 80:
        return measured.fp16_sm_80;
    case 90:
        return measured.fp16_sm_90;
    case 100:
        return measured.fp16_sm_100;
    default:
        return arch > 80 ? measured.fp16_others : 0;
    }
}

int km_tiled_has_double_products(const km_plan *plan) {
    return plan->spec.target.arch == 90 || plan->spec.target.arch == 100;
}

int64_t km_tiled_k_max(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1];
}

int km_tiled_fits(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm) {
    int64_t limit = plan->facts.shared_bytes_per_unit / blocks_per_sm - 1024;
    if (limit > plan->facts.shared_bytes_per_block) limit = plan->facts.shared_bytes_per_block;
    return shape->shared_bytes <= limit;
}

int64_t km_tiled_registers_limit(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm) {
    return km_cuda_registers_limit(plan, 32 * shape->point_warps * shape->cluster_warps, blocks_per_sm);
}

int km_tiled_is_fp16(int64_t form) {
    return form == KM_WORD_form_tiles_fp16 || form == KM_WORD_form_resident_fp16;
}

int km_tiled_is_resident(int64_t form) {
    return form == KM_WORD_form_resident || form == KM_WORD_form_resident_fp16;
}

int64_t km_tiled_form_of(const km_tile_shape *shape) {
    return shape->whole      ? KM_WORD_form_points
           : shape->resident ? (shape->fp16 ? KM_WORD_form_resident_fp16 : KM_WORD_form_resident)
                             : (shape->fp16 ? KM_WORD_form_tiles_fp16 : KM_WORD_form_tiles);
}

km_tile_shape km_tiled_shape_of(const km_plan *plan) {
    int64_t form = km_plan_value(plan, KM_PARAM_form);
    km_tile_shape shape = {.fp16 = km_tiled_is_fp16(form),
                           .resident = km_tiled_is_resident(form),
                           .whole = form == KM_WORD_form_points,
                           .tile_points = km_plan_value(plan, KM_PARAM_tile_points),
                           .tile_clusters = km_plan_value(plan, KM_PARAM_tile_clusters),
                           .tile_features = km_plan_value(plan, KM_PARAM_tile_features)};
    km_tiled_fill(&shape, &plan->spec);
    return shape;
}

// Checks ------------------------------------------------------------------------------------------------------

static km_status check_fit(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm,
                           km_error *err) {
    if (km_tiled_fits(plan, shape, blocks_per_sm)) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "tiles need %lld bytes of shared memory, which has not as many",
                   (long long)shape->shared_bytes);
}

static km_status check_resident(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm,
                                km_error *err) {
    int64_t points = shape->tile_points, clusters = shape->tile_clusters;
    if (points % KM_TILED_RESIDENT_POINTS || points > 16 * KM_TILED_RESIDENT_POINTS || clusters % 16 ||
        clusters < km_tiled_k_max(plan) || clusters > 96 ||
        shape->tile_features != km_tiled_resident_step(shape) || blocks_per_sm != 1)
        return km_fail(
            err, KM_ERROR_PLAN,
            "the form needs tile_points in steps of %d up to %d, tile_clusters in steps of 16 from K up "
            "to 96, %lld tile_features and one block resident",
            KM_TILED_RESIDENT_POINTS, 16 * KM_TILED_RESIDENT_POINTS,
            (long long)km_tiled_resident_step(shape));
    return check_fit(plan, shape, blocks_per_sm, err);
}

static km_status check_whole(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm,
                             km_error *err) {
    int64_t points = shape->tile_points, clusters = shape->tile_clusters;
    if (points % KM_TILED_BLOCK || clusters % 4 || clusters > 32 ||
        shape->tile_features != plan->spec.features)
        return km_fail(err, KM_ERROR_PLAN,
                       "the form needs tile_points in steps of %d, tile_clusters in steps of 4 up to 32, and "
                       "%d tile_features",
                       KM_TILED_BLOCK, (int)plan->spec.features);
    return check_fit(plan, shape, blocks_per_sm, err);
}

static km_status check_tiles(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm,
                             km_error *err) {
    int64_t warp = plan->spec.type == KM_FLOAT64 ? 16 : 32;
    int64_t points = shape->tile_points, clusters = shape->tile_clusters;
    int64_t step = shape->fp16 ? 16 : 16 / km_type_bytes(plan->spec.type);
    if (points % warp || clusters % KM_TILED_WARP_CLUSTERS ||
        (!shape->fp16 && clusters > KM_TILED_WARP_CLUSTERS) ||
        points / warp * (clusters / KM_TILED_WARP_CLUSTERS) > 8)
        return km_fail(err, KM_ERROR_PLAN,
                       "tile_points must be a multiple of %lld, tile_clusters of %d (no more without "
                       "fp16), of 8 warps at most",
                       (long long)warp, KM_TILED_WARP_CLUSTERS);
    if (shape->tile_features % step)
        return km_fail(err, KM_ERROR_PLAN, "tile_features must be a multiple of %lld", (long long)step);
    return check_fit(plan, shape, blocks_per_sm, err);
}

km_status km_tiled_check(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm,
                         km_error *err) {
    return shape->whole      ? check_whole(plan, shape, blocks_per_sm, err)
           : shape->resident ? check_resident(plan, shape, blocks_per_sm, err)
                             : check_tiles(plan, shape, blocks_per_sm, err);
}

// SPDX-License-Identifier: MIT
// Sums of the design `tiled`: how points are added to their clusters, and what that takes.
#include "../../base/size.h"
#include "../words.h"
#include "measured.h"
#include "tiled.h"

int km_tiled_whole_few(const km_plan *plan) {
    return plan->spec.type == KM_FLOAT64 && plan->spec.clusters_count == 1 && km_tiled_has_integers(plan);
}

int64_t km_tiled_sums_of(const km_plan *plan, int resident) {
    int many = km_tiled_k_max(plan) > KM_TILED_RESIDENT_K_MAX;
    int64_t sums = (many || (!resident && km_tiled_whole_few(plan))) && km_tiled_has_integers(plan)
                       ? KM_WORD_sums_integers
                   : many                                           ? KM_WORD_sums_sorted
                   : resident && km_tiled_has_double_products(plan) ? KM_WORD_sums_products
                                                                    : KM_WORD_sums_chunks;
    km_plan_fixed(plan, KM_PARAM_sums, &sums);
    return sums;
}

int64_t km_tiled_row_words(const km_spec *spec) {
    int64_t digits = spec->type == KM_FLOAT64 ? 4 : 3;
    return (spec->features * digits + 1) | 1;
}

int64_t km_tiled_integers_bytes(const km_plan *plan) {
    return km_tiled_k_max(plan) * km_tiled_row_words(&plan->spec) * 4;
}

int km_tiled_has_integers(const km_plan *plan) {
    enum { OTHER_BYTES = 2048 };
    int64_t most = plan->spec.type == KM_FLOAT64 ? KM_TILED_INTEGERS_DOUBLES : KM_TILED_INTEGERS_FEATURES;
    return !plan->weighted && plan->spec.features <= most &&
           km_tiled_integers_bytes(plan) + OTHER_BYTES <= plan->facts.shared_bytes_per_block;
}

const char *km_tiled_sums_reason(int64_t sums) {
    return sums == KM_WORD_sums_sorted
               ? "above K = 32 its rows in shared memory are slower than the order of labels"
           : sums == KM_WORD_sums_integers
               ? "a K's rows of integers fit into shared memory: no order is needed"
           : sums == KM_WORD_sums_products ? "products of doubles are twice as fast as plain arithmetic here"
                                           : "a K's sums fit into shared memory: no order is needed";
}

km_chunk_shape km_tiled_chunks_of(const km_plan *plan) {
    enum { ROWS_BYTES_MAX = 40 * 1024, SLOTS_OF_SUBWARP = 4, WARPS_MAX = 8 };
    const km_spec *spec = &plan->spec;
    int64_t columns = spec->features + (plan->weighted ? 1 : 0), ks = spec->clusters_count;
    int64_t slots_all = ks * km_cuda_concurrent_restarts(plan), fixed;
    if (km_plan_fixed(plan, KM_PARAM_concurrent_restarts, &fixed)) slots_all = ks * fixed;
    // An access of a warp to shared memory takes two cycles for 32 doubles; subwarps of eight lanes may have bank
    // conflicts.
    int64_t cycles32 = 20 * km_divide_up(columns, 32), cycles16 = 10 * km_divide_up(columns, 16),
            cycles8 = 8 * km_divide_up(columns, 8);
    km_chunk_shape sums = {.lanes = cycles8 < cycles16 && cycles8 < cycles32 ? 8
                                    : cycles16 < cycles32                    ? 16
                                                                             : 32};
    sums.feature_parts = km_divide_up(columns, sums.lanes);
    int64_t slots_of_warp = SLOTS_OF_SUBWARP * 32 / sums.lanes;
    while (sums.slots < slots_all && sums.slots < WARPS_MAX * slots_of_warp) {
        int64_t more = spec->clusters[ks - 1 - sums.slots % ks];
        if (sums.slots > 0 && (sums.rows + more) * sums.lanes * 8 > ROWS_BYTES_MAX) break;
        sums.rows += more;
        sums.slots++;
    }
    sums.warps = km_divide_up(sums.slots, slots_of_warp);
    sums.slot_blocks = km_divide_up(slots_all, sums.slots);
    return sums;
}

// Sums of all products stay in registers, 80 at most. A warp reads points, makes its rows of ones, then the products.
static km_product_shape products_of(const km_plan *plan, int64_t tile) {
    enum { REGISTERS_MAX = 80, COLUMNS_MAX = 4, REGISTERS_OF_THREE = 150 };
    int64_t eights = km_divide_up(plan->spec.features + 1, 8), rows = tile / 16, least = INT64_MAX;
    int64_t size = km_type_bytes(plan->spec.type), most = km_tiled_piece(plan->spec.features, size, 16);
    km_product_shape best = {0};
    for (int64_t columns = 1; columns <= COLUMNS_MAX && columns * rows * 8 <= REGISTERS_MAX; columns++) {
        int64_t feature_warps = km_divide_up(eights, columns), piece = km_tiled_piece(columns, size, most);
        int64_t cost = feature_warps * (columns * size / piece + 1 + 2 * columns);
        if (cost >= least) continue;
        least = cost;
        best.columns = columns;
        best.feature_warps = feature_warps;
        best.piece = piece;
    }
    // For sums, for what is read ahead, for a lane's rows and their labels, others.
    int64_t registers = 8 * rows * best.columns + 2 * size * best.columns + 12 * rows + 50;
    best.blocks_per_sm = registers <= REGISTERS_OF_THREE ? 3 : 2;
    return best;
}

km_product_shape km_tiled_products_of(const km_plan *plan) {
    return products_of(plan, km_plan_value(plan, KM_PARAM_tile_clusters));
}

// Chunks of points for products of doubles: one for each warp that fits the device, and its part of the features.
static int64_t products_chunks(const km_plan *plan) {
    enum { WARPS = 4 };
    km_tile_shape shape = km_tiled_shape_of(plan);
    km_product_shape products = km_tiled_products_of(plan);
    int64_t tiles = km_plan_value(plan, KM_PARAM_concurrent_restarts) * shape.panels / shape.tile_clusters;
    return plan->facts.units * products.blocks_per_sm * WARPS / (products.feature_warps * tiles);
}

int64_t km_tiled_grid_of(const km_plan *plan) {
    enum { WARPS_PER_UNIT = 48, ROWS_BYTES_MAX = 64 << 20, POINTS_MIN = 256 };
    int64_t row_bytes = plan->clusters_sum * (plan->spec.features + 1) * 8 *
                        km_plan_value(plan, KM_PARAM_concurrent_restarts);
    km_chunk_shape sums = km_tiled_chunks_of(plan);
    int64_t chunks =
        plan->facts.units * km_divide_up(WARPS_PER_UNIT, sums.warps * sums.feature_parts * sums.slot_blocks);
    if (chunks > ROWS_BYTES_MAX / row_bytes) chunks = ROWS_BYTES_MAX / row_bytes;
    if (chunks < plan->facts.units) chunks = plan->facts.units;
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_products) chunks = products_chunks(plan);
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_sorted) chunks = 2 * plan->facts.units;
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_integers)
        chunks = plan->facts.units *
                 (2 * (km_tiled_integers_bytes(plan) + 2048) <= plan->facts.shared_bytes_per_unit ? 2 : 1);
    int64_t useful = plan->points ? km_divide_up(plan->points, POINTS_MIN) : chunks;
    if (chunks > useful) chunks = useful;
    return chunks < 1 ? 1 : chunks;
}

int64_t km_tiled_segments_of(const km_plan *plan) {
    enum { SEGMENTS = 4096, POINTS_MIN = 32 }; // as many on any device: sums depend on it
    return plan->points ? km_min(km_divide_up(plan->points, POINTS_MIN), SEGMENTS) : SEGMENTS;
}

// Thread instructions of adding a point by products of doubles: they are twice as fast as plain arithmetic of
// doubles, but each warp makes its rows.
static double products_adding(const km_plan *plan, const km_tiled_config *config) {
    km_product_shape products = products_of(plan, config->shape.tile_clusters);
    double columns = (double)((8 * products.columns + 6) * products.feature_warps),
           rows = (double)config->shape.panels;
    double rate = 2 * plan->facts.fp64_per_cycle * (double)plan->facts.units * plan->facts.clock_ghz;
    return measured.adding_products * rows * columns / rate * km_cuda_issue_rate(plan);
}

double km_tiled_adding(const km_plan *plan, const km_tiled_config *config) {
    double d = (double)plan->spec.features, ks = (double)plan->spec.clusters_count;
    int64_t how = km_tiled_sums_of(plan, (int)config->shape.resident);
    if (how == KM_WORD_sums_sorted) return ks * (measured.adding_sorted + measured.adding_sorted_feature * d);
    if (how == KM_WORD_sums_integers)
        return ks * (measured.adding_integers + measured.adding_integers_feature * d);
    if (how == KM_WORD_sums_products) return products_adding(plan, config);
    km_chunk_shape sums = km_tiled_chunks_of(plan);
    return measured.adding_chunks + measured.adding_chunks_k * ks * (double)(sums.lanes * sums.feature_parts);
}

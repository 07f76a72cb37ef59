// SPDX-License-Identifier: MIT
#include "tiles.h"
#include "../../base/size.h"
#include "../../templates/both.h"
#include "../../templates/cuda/abi.h"
#include "../../templates/cuda/tiles.h"
#include "../design.h"

static int64_t k_max_of(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1];
}

const char *km_cuda_tiles_refused(const km_plan *plan) {
    if (km_plan_is_csr(plan)) return "dense points, and the layout is csr";
    if (plan->spec.features > KM_CUDA_TILES_FEATURES_MAX) return "at most 16 features";
    if (k_max_of(plan) > KM_CUDA_TILES_CLUSTERS_MAX || plan->spec.clusters_count > KM_CUDA_TILES_CLUSTERS_MAX)
        return "K up to 64";
    return NULL;
}

const char *km_cuda_tiles_unserved(const km_plan *plan) {
    if (plan->spec.type != KM_FLOAT32) return "float32";
    if (plan->weighted) return "points without weights";
    if (plan->track_labels) return "fits without --min-changes";
    if (plan->points > INT32_MAX) return "up to 2147483647 points";
    if (km_cuda_tiles_shared(plan) > plan->facts.shared_bytes_per_block)
        return "centroids that fit into a block's shared memory";
    return NULL;
}

int64_t km_cuda_tiles_shared(const km_plan *plan) {
    return plan->clusters_sum * (plan->spec.features + 1) * 12 + plan->spec.clusters_count * TILES_COUNTS * 4;
}

// Offsets of tables of these sizes, aligned; returns the bytes of all.
static int64_t carve(int64_t *at, const int64_t *sizes, int count) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        at[i] = bytes;
        bytes += km_round_up(sizes[i], KM_ALIGN_BYTES);
    }
    return bytes;
}

km_tiles_tables km_cuda_tiles_tables(const km_plan *plan, int64_t n) {
    int64_t d = plan->spec.features, ks = plan->spec.clusters_count,
            restarts = km_max(km_plan_value(plan, KM_PARAM_concurrent_restarts), 1),
            mask = k_max_of(plan) <= 32 ? 4 : 8;
    km_tiles_tables tables = {.tiles = km_divide_up(n, TILES_POINTS)};
    int64_t tiles = tables.tiles, supers = tables.supers = km_divide_up(tiles, TILES_OF_SUPER);
    int64_t blocks = km_divide_up(n, TILES_SORTED), counts = blocks << TILES_DIGIT_BITS;
    const int64_t sizes[KM_TILES_TABLES] = {
        [KM_TILES_POINTS] = tiles * TILES_POINTS * d * 4,
        [KM_TILES_BOXES] = supers * TILES_OF_SUPER * TILES_BOX(d) * 4,
        [KM_TILES_SUPER_BOXES] = km_round_up(supers, TILES_GROUP_SUPERS) * TILES_BOX(d) * 4,
        [KM_TILES_PREFIX] = (tiles + 1) * TILES_PITCH(d) * 8,
        [KM_TILES_SCALE] = d * 8,
        [KM_TILES_KS] = 2 * ks * 4,
        [KM_TILES_ITEMS] = restarts * supers * ks * (int64_t)sizeof(km_tiles_item),
        [KM_TILES_LIST] = restarts * tiles * 4,
        [KM_TILES_CANDIDATES] = restarts * tiles * ks * mask,
        [KM_TILES_SUMS] = restarts * plan->clusters_sum * (d + 1) * 8,
        [KM_TILES_COUNTERS] = restarts * 2 * 4,
        [KM_TILES_OPEN] = restarts * tiles * 8,
        [KM_TILES_COUNTS] = restarts * ks * TILES_COUNTS * 8,
    };
    const int64_t sort_sizes[KM_SORT_TABLES] = {
        [KM_SORT_CODE] = (int64_t)sizeof(km_tiles_code),
        [KM_SORT_KEYS] = n * 4,
        [KM_SORT_OTHER_KEYS] = n * 4,
        [KM_SORT_NUMBERS] = n * 4,
        [KM_SORT_OTHER_NUMBERS] = n * 4,
        [KM_SORT_COUNTS] = counts * 4,
        [KM_SORT_SUMS] = km_divide_up(counts, TILES_SCANNED) * 4,
        [KM_SORT_LAST] = km_divide_up(tiles, TILES_SCANNED) * TILES_PITCH(d) * 8,
    };
    tables.kept = carve(tables.at, sizes, KM_TILES_TABLES);
    tables.sorting = carve(tables.sort_at, sort_sizes, KM_SORT_TABLES);
    return tables;
}

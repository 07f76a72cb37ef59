// SPDX-License-Identifier: MIT
#include "tiles.h"
#include "../../base/size.h"
#include "../../templates/both.h"
#include "../../templates/cuda/abi.h"
#include "../../templates/cuda/tiles.h"
#include "../design.h"
#include "common.h"
#include <math.h>

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
        [KM_TILES_DENSE] = restarts * ks,
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

// What passes take -----------------------------------------------------------------------------------------------

// Instructions of a warp, fitted to an H100: of a supertile against a centroid, of the tiles of an open one against a
// candidate; of a tile that is open for a K; for each feature and one more: of loading the points of a tile, of a tile
// that is open for a K, of each of its candidates there. A pass takes some launches, whatever it does.
static const double super_cost = 6, boxes_cost = 420, open_cost = 420, load_wide_cost = 167,
                    open_wide_cost = 5, candidate_wide_cost = 11, pass_ns = 17500;
// Bytes of memory that sorting moves: for a point, and for each of its features. Before that a sample is looked at.
static const double sort_bytes = 300, sort_feature_bytes = 6, begin_ns = 1e6;
// Tiles serve some K where that takes less than this part of the dense design's time, as estimates err.
static const double pays_below = 0.9;

double km_cuda_tiles_sort_ns(const km_plan *plan) {
    return km_cuda_read_ns(plan, sort_bytes + sort_feature_bytes * (double)plan->spec.features);
}

double km_cuda_tiles_begin_ns(const km_plan *plan) {
    return begin_ns / (double)plan->points;
}

static double warp_ns(const km_plan *plan) {
    return 32 / km_cuda_issue_rate(plan);
}

// What a K takes for itself.
static double own_ns(const km_plan *plan, int64_t clusters, const km_tiles_work *work) {
    double wide = 1 + (double)plan->spec.features;
    return warp_ns(plan) *
           (super_cost * work->tested * (double)clusters + boxes_cost * work->super_candidates +
            (open_cost + wide * open_wide_cost) * work->open_tiles +
            wide * candidate_wide_cost * work->tile_candidates);
}

// What all K share: a tile is loaded once for those that it is open for, which are mostly the same tiles.
static double shared_ns(const km_plan *plan, double open_tiles) {
    return pass_ns + warp_ns(plan) * (1 + (double)plan->spec.features) * load_wide_cost * open_tiles;
}

// Of the dense design, a point, where it has so many of the list's clusters. `registers` leaves out the others.
static double dense_ns(const km_plan *plan, int64_t clusters) {
    const km_estimate *estimate = &plan->estimates[plan->design];
    if (clusters == 0) return 0;
    if (plan->design != KM_DESIGN_REGISTERS) return estimate->total_ns;
    double all = km_cuda_overlap(estimate->memory_ns, estimate->issue_ns),
           share = (double)clusters / (double)plan->clusters_sum;
    return estimate->total_ns * km_cuda_overlap(estimate->memory_ns, estimate->issue_ns * share) / all;
}

// The K that are cheapest by the cluster come first: of each number of them it is asked what a pass takes.
uint64_t km_cuda_tiles_serve(double *part, const km_plan *plan, int64_t n, const km_tiles_work *work) {
    const km_spec *spec = &plan->spec;
    double ns[KM_CUDA_TILES_CLUSTERS_MAX], dense = dense_ns(plan, plan->clusters_sum) * (double)n, sum = 0,
                                           open_tiles = 0;
    int64_t order[KM_CUDA_TILES_CLUSTERS_MAX], left = plan->clusters_sum;
    uint64_t serve = 0, best = 0;
    *part = INFINITY;
    for (int64_t q = 0; q < spec->clusters_count; q++) {
        ns[q] = own_ns(plan, spec->clusters[q], &work[q]);
        int64_t at = q;
        for (; at > 0 && ns[order[at - 1]] * spec->clusters[q] > ns[q] * spec->clusters[order[at - 1]]; at--)
            order[at] = order[at - 1];
        order[at] = q;
    }
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        int64_t q = order[i];
        sum += ns[q];
        left -= spec->clusters[q];
        serve |= (uint64_t)1 << q;
        open_tiles = fmax(open_tiles, work[q].open_tiles);
        double whole = (shared_ns(plan, open_tiles) + sum + dense_ns(plan, left) * (double)n) / dense;
        if (whole >= *part) continue;
        *part = whole;
        best = serve;
    }
    return *part < pays_below ? best : 0;
}

// SPDX-License-Identifier: MIT
// Labels of the design `tiled`: what a configuration takes, and the fastest one of each form.
#include "../../base/size.h"
#include "../words.h"
#include "measured.h"
#include "tiled.h"

#include <math.h>

// Features of a slice: at most `most`, in steps of `step`, with little padding and few slices.
static int64_t features_of(int64_t d, int64_t most, int64_t step) {
    int64_t best = step, least = INT64_MAX;
    for (int64_t features = step; features <= most; features += step) {
        int64_t pieces = km_divide_up(d, features), cost = pieces * (features + step);
        if (cost > least) continue;
        least = cost;
        best = features;
    }
    return best;
}

static double width_of(const km_tile_shape *shape) {
    return (double)(shape->tile_features * shape->slices);
}

// Instructions in addition to products: to load a tile of points, and at the end of each K.
static double ends_of(const km_plan *plan) {
    return measured.ends + measured.ends_k * (double)plan->spec.clusters_count;
}

// Instructions to resolve ambiguous points, where halves round points: the nearer centroids lie to each other, the more
// there are, and each has its scores again.
static double ambiguous_of(const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    double features = (double)spec->features, operations = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++)
        operations += pow(spec->clusters[i], measured.ambiguous_k);
    return measured.ambiguous * operations * pow(2 / features, measured.ambiguous_features);
}

// Evaluates fp16 scores. More warps keep tensor cores busy; the table of centroids is read from the cache for each
// tile of points. The best two scores are kept.
static void evaluate_fp16(km_tiled_config *config, const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    km_tile_shape *shape = &config->shape;
    double rows = (double)(shape->panels * shape->panel_rows),
           tiles = ceil(rows / (double)shape->tile_clusters);
    double warps = (double)(shape->point_warps * shape->cluster_warps * config->blocks_per_sm);
    double busy = fmin(warps / measured.warps_enough, (double)shape->tile_points / measured.points_enough);
    double rate = km_tiled_fp16_per_cycle(plan->spec.target.arch) * (double)facts->units * facts->clock_ghz;
    config->tensor_ns = rows * width_of(shape) / rate / fmin(busy, 1);
    config->tensor_ns *= 1 + measured.cluster_warps * (double)(shape->cluster_warps - 1);
    if (shape->slices > 1 && shape->tile_features == 16)
        config->tensor_ns *= measured.one_product; // warps meet after each
    double operations =
        shape->panel_rows == 1 ? measured.last_tile * tiles * width_of(shape) : measured.best_two * rows;
    config->issue_ns = (operations + ambiguous_of(plan) + ends_of(plan)) / km_cuda_issue_rate(plan);
    config->total_ns = config->tensor_ns + config->issue_ns;
}

// Evaluates plain arithmetic. The stall factor is that of few warps, which wait for each slice of the features.
static void evaluate_plain(km_tiled_config *config, const km_plan *plan) {
    double stall = measured.plain_stall + measured.plain_single / (double)config->blocks_per_sm,
           tile = (double)config->shape.tile_clusters;
    double rows = ceil((double)(config->shape.panels * config->shape.panel_rows) / tile) * tile;
    double products = stall * (width_of(&config->shape) + (double)config->shape.slices) + 8;
    config->issue_ns = (rows * products + ends_of(plan)) / km_cuda_issue_rate(plan);
    config->total_ns = config->issue_ns;
}

// Registers of a thread: scores, numbers that are read ahead, and others, fitted to the compilers' counts.
static int64_t resident_registers(const km_tile_shape *shape) {
    int64_t single = shape->fp16 && shape->piece < 8 ? 8 : 0; // numbers that are read one by one
    return (shape->fp16 ? shape->tile_clusters / 2 + 56 : shape->tile_clusters + 84) + 8 * shape->ahead +
           single;
}

// Registers of a thread that are left where centroids are resident; negative: there is no room for its warps.
static int64_t resident_spare(const km_plan *plan, const km_tile_shape *shape) {
    int64_t spare = km_tiled_registers_limit(plan, shape, 1) - resident_registers(shape);
    return km_tiled_fits(plan, shape, 1) ? spare : -1;
}

// Warps of a block with resident centroids: as many as there may be, and as many as have room beside the tile.
static int64_t resident_warps(const km_tile_shape *shape) {
    return shape->fp16 ? 16 : 8;
}

static int64_t resident_warps_most(const km_plan *plan, const km_tile_shape *shape) {
    km_tile_shape other = *shape;
    for (int64_t warps = resident_warps(shape); warps > 4; warps -= 4) {
        other.tile_points = warps * KM_TILED_RESIDENT_POINTS;
        km_tiled_fill(&other, &plan->spec);
        if (resident_spare(plan, &other) >= 0) return warps;
    }
    return 4;
}

// Evaluates resident centroids. Points are read again for each tile. A warp does not overlap reads, products and
// comparisons; others do.
static void evaluate_resident(km_tiled_config *config, const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    const km_tile_shape *shape = &config->shape;
    double size = (double)km_type_bytes(plan->spec.type),
           tiles = (double)(shape->panels / shape->tile_clusters);
    double rate = shape->fp16 ? km_tiled_fp16_per_cycle(plan->spec.target.arch) : 2 * facts->fp64_per_cycle;
    double read_ns =
        measured.resident_read * km_cuda_read_ns(plan, tiles * (double)plan->spec.features * size);
    config->tensor_ns = measured.resident_products *
                        (double)(shape->panels * shape->slices * km_tiled_resident_step(shape)) /
                        (rate * (double)facts->units * facts->clock_ghz);
    config->issue_ns =
        ((shape->fp16 ? measured.resident_scores : measured.resident_scores_double) * (double)shape->panels +
         measured.resident_k * (double)plan->spec.clusters_count) /
        (facts->fp32_per_cycle * (double)facts->units * facts->clock_ghz);
    double fewer = (double)resident_warps_most(plan, shape) / (double)shape->point_warps;
    config->total_ns = (km_cuda_overlap(read_ns, config->tensor_ns) + config->issue_ns) *
                       (1 + measured.resident_waits * fmax(fewer - 1, 0));
}

// Evaluates whole points: of each score products, the larger of two, and a read of the centroid for all points of a
// thread; then the best tile again.
static void evaluate_whole(km_tiled_config *config, const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    const km_tile_shape *shape = &config->shape;
    double d = (double)plan->spec.features, points = (double)(shape->tile_points / KM_TILED_BLOCK),
           tile = (double)shape->tile_clusters, loads = ceil((double)shape->row_numbers / 4);
    double score = d + 1 + loads / points + measured.points_tile / tile,
           stall = measured.points_stall + measured.points_stall_few / points;
    double end =
        measured.points_end + tile * (d + measured.points_again + measured.points_again_load * loads);
    config->issue_ns = ((double)shape->panels * score * stall + (double)plan->spec.clusters_count * end) /
                       (facts->fp32_per_cycle * (double)facts->units * facts->clock_ghz);
    config->total_ns = config->issue_ns;
}

void km_tiled_evaluate(km_tiled_config *config, const km_plan *plan) {
    (config->shape.whole      ? evaluate_whole
     : config->shape.resident ? evaluate_resident
     : config->shape.fp16     ? evaluate_fp16
                              : evaluate_plain)(config, plan);
}

static void take_better(km_tiled_config *best, const km_tiled_config *config, const km_plan *plan) {
    km_tiled_config candidate = *config;
    km_tiled_fill(&candidate.shape, &plan->spec);
    if (candidate.shape.cluster_warps > 1 && candidate.shape.panels > 0 && plan->spec.clusters_count > 1 &&
        8 * km_tiled_padded_rows(&plan->spec, candidate.shape.panel_rows) > 10 * plan->clusters_sum)
        return; // too much padding
    if (!km_tiled_fits(plan, &candidate.shape, candidate.blocks_per_sm)) return;
    int64_t registers = candidate.shape.whole
                            ? 40 + candidate.shape.tile_points / KM_TILED_BLOCK * (plan->spec.features + 4)
                        : candidate.shape.fp16 && candidate.shape.panel_rows > 1 ? 128
                                                                                 : 160; // that compilers need
    candidate.spare = km_tiled_registers_limit(plan, &candidate.shape, candidate.blocks_per_sm) - registers;
    if (candidate.spare < 0 || km_plan_avoids(plan, KM_DESIGN_TILED, candidate.spare)) return;
    km_tiled_evaluate(&candidate, plan);
    if (!best->blocks_per_sm || candidate.total_ns < best->total_ns) *best = candidate;
}

// At most eight warps, along points and centroids. All features of a tile's points are in shared memory, as halves.
// Where a K ends in a tile, a thread needs more registers.
static void best_fp16(km_tiled_config *best, const km_plan *plan) {
    static const int64_t features_most[] = {128, 64, 32};
    for (int64_t blocks_per_sm = 3; blocks_per_sm >= 1; blocks_per_sm--)
        for (int64_t points = 8; points >= 1; points /= 2)
            for (int64_t clusters = 1; clusters <= 4 && points * clusters <= 8; clusters *= 2)
                for (int f = 0; f < 3; f++) {
                    km_tiled_config config = {.blocks_per_sm = blocks_per_sm};
                    config.shape.fp16 = 1;
                    config.shape.tile_points = points * 32;
                    config.shape.tile_clusters = clusters * KM_TILED_WARP_CLUSTERS;
                    config.shape.tile_features = features_of(plan->spec.features, features_most[f], 16);
                    take_better(best, &config, plan);
                }
}

// As many points as registers hold; larger tiles where there are many centroids, as the best one is met again.
static void best_whole(km_tiled_config *best, const km_plan *plan) {
    int64_t bytes = plan->spec.features * km_type_bytes(plan->spec.type),
            points = bytes <= 16                ? 8
                     : plan->spec.features <= 8 ? 4
                                                : 2; // without spills
    if (km_tiled_form_refused(plan, KM_WORD_form_points)) return;
    for (int64_t blocks_per_sm = 4; blocks_per_sm >= 1; blocks_per_sm /= 2)
        for (int64_t clusters = 4; clusters <= 32; clusters *= 2) {
            km_tiled_config config = {.blocks_per_sm = blocks_per_sm, .shape = {.whole = 1}};
            config.shape.tile_points = KM_TILED_BLOCK * points;
            config.shape.tile_clusters = clusters;
            config.shape.tile_features = plan->spec.features;
            take_better(best, &config, plan);
        }
}

static void best_plain(km_tiled_config *best, const km_plan *plan) {
    int64_t vector = 16 / km_type_bytes(plan->spec.type);
    for (int64_t blocks_per_sm = 3; blocks_per_sm >= 1; blocks_per_sm--)
        for (int64_t most = 8; most >= 1; most /= 2) {
            km_tiled_config config = {.blocks_per_sm = blocks_per_sm};
            config.shape.tile_points = 32 * 16 / km_type_bytes(plan->spec.type); // of four warps
            config.shape.tile_clusters = KM_TILED_WARP_CLUSTERS;
            config.shape.tile_features = features_of(plan->spec.features, most * vector, vector);
            take_better(best, &config, plan);
        }
}

// Whether these are the tiles that the user fixed, if any.
static int resident_is_fixed(const km_plan *plan, const km_tile_shape *shape) {
    int64_t form, points = shape->tile_points, clusters = shape->tile_clusters,
                  features = shape->tile_features;
    if (km_plan_fixed(plan, KM_PARAM_form, &form)) return 1; // check_resident() says what the form takes
    km_plan_fixed(plan, KM_PARAM_tile_points, &points);
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &clusters);
    km_plan_fixed(plan, KM_PARAM_tile_features, &features);
    return points == shape->tile_points && clusters == shape->tile_clusters &&
           features == shape->tile_features;
}

// One block a multiprocessor, of as many warps as registers and shared memory hold.
static void best_resident(km_tiled_config *best, const km_plan *plan, int fp16) {
    enum { TILE_MAX = 96 };
    int64_t k_max = plan->spec.clusters[plan->spec.clusters_count - 1];
    for (int64_t tile = km_divide_up(k_max, 16) * 16; tile <= TILE_MAX; tile += 16)
        for (int64_t warps = fp16 ? 16 : 8; warps >= 4; warps -= 4) {
            km_tiled_config config = {.blocks_per_sm = 1, .shape = {.fp16 = fp16, .resident = 1}};
            config.shape.tile_points = warps * KM_TILED_RESIDENT_POINTS;
            config.shape.tile_clusters = tile;
            config.shape.tile_features = km_tiled_resident_step(&config.shape);
            km_tiled_fill(&config.shape, &plan->spec);
            if (!resident_is_fixed(plan, &config.shape)) continue;
            config.spare = resident_spare(plan, &config.shape);
            if (config.spare < 0 || km_plan_avoids(plan, KM_DESIGN_TILED, config.spare)) continue;
            km_tiled_evaluate(&config, plan);
            if (!best->blocks_per_sm || config.total_ns < best->total_ns) *best = config;
            break;
        }
}

const char *km_tiled_form_refused(const km_plan *plan, int64_t form) {
    const km_spec *spec = &plan->spec;
    if (km_tiled_is_fp16(form) &&
        (spec->type == KM_FLOAT64 || km_tiled_fp16_per_cycle(spec->target.arch) == 0))
        return "the form needs float32 and sm_80 or later";
    if (form == KM_WORD_form_resident && !(spec->type == KM_FLOAT64 && km_tiled_has_double_products(plan)))
        return "the form needs float64 and sm_90 or sm_100";
    if (km_tiled_is_resident(form) && spec->clusters[spec->clusters_count - 1] > KM_TILED_RESIDENT_K_MAX)
        return "the form takes K up to 32";
    if (form == KM_WORD_form_points && spec->features > KM_TILED_POINTS_FEATURES)
        return "the form takes up to 16 features";
    return NULL;
}

km_tiled_config km_tiled_best(const km_plan *plan) {
    // From this rate and more than these features on no plain arithmetic is as fast.
    enum { FP16_PAYS = 300, FEATURES_FEW = 4 };
    km_tiled_config best = {0};
    int64_t form = -1,
            fp16 = km_tiled_fp16_per_cycle(plan->spec.target.arch) > 0 && plan->spec.type == KM_FLOAT32;
    int fixed = km_plan_fixed(plan, KM_PARAM_form, &form);
    if (fixed) fp16 = km_tiled_is_fp16(form);
    if (fixed && form == KM_WORD_form_points) {
        best_whole(&best, plan);
        return best;
    }
    int64_t resident = fp16 ? KM_WORD_form_resident_fp16 : KM_WORD_form_resident;
    if (fixed ? km_tiled_is_resident(form) : !km_tiled_form_refused(plan, resident))
        best_resident(&best, plan, (int)fp16);
    if (best.blocks_per_sm && !fixed && km_tiled_whole_few(plan)) best_whole(&best, plan);
    if (best.blocks_per_sm || km_tiled_is_resident(form)) return best;
    if (fp16) best_fp16(&best, plan);
    int fp16_pays = best.blocks_per_sm && km_tiled_fp16_per_cycle(plan->spec.target.arch) >= FP16_PAYS &&
                    plan->spec.features > FEATURES_FEW;
    if (fixed ? !fp16 : !fp16_pays) best_plain(&best, plan);
    if (!fixed) best_whole(&best, plan);
    return best;
}

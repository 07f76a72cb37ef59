// SPDX-License-Identifier: MIT
// The CUDA design `tiled` (templates/cuda/tiled): labels by tiles like a matrix product, then every point is added to
// its cluster. For any d, K and type.
#include "../../base/size.h"
#include "../../base/text.h"
#include "../words.h"
#include "common.h"
#include "measured.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Shapes ------------------------------------------------------------------------------------------------------

enum {
    WARP_CLUSTERS = 64,  // centroids of a tile that one warp has
    RESIDENT_K_MAX = 32, // resident centroids: the largest K, a lane each; points of a warp at a time
    RESIDENT_POINTS = 16
};

// Form and tiles, and numbers that follow from them.
typedef struct tile_shape {
    int64_t fp16, resident; // flags: scores in fp16; centroids stay in shared memory
    int64_t tile_points, tile_clusters, tile_features;
    int64_t warp_points, rows, columns; // points of a warp; points and centroids of a thread
    int64_t point_warps, cluster_warps; // of a block
    int64_t panel_rows, panels;         // rows of a panel of the table of centroids; panels of one restart
    int64_t slices;                     // of features
    int64_t piece;                      // bytes that are copied at a time from a point
    int64_t tile_slots,
        ahead; // resident centroids: slots of a tile, an even number; steps that are read ahead
    int64_t shared_bytes;
} tile_shape;

// Sums as products of doubles: `columns` products along the features, eight features each; `feature_warps` warps split
// all features; `blocks_per_sm` blocks fit a multiprocessor; `piece` is the bytes of one read.
typedef struct product_shape {
    int64_t columns, feature_warps, blocks_per_sm, piece;
} product_shape;

// Sums in rows of shared memory: a subwarp of `lanes` lanes has four slots; a block has `slots` slots with at most
// `rows` clusters. `feature_parts` blocks split the features of a chunk of points, `slot_blocks` its slots.
typedef struct chunk_shape {
    int64_t lanes, feature_parts, warps, slots, rows, slot_blocks;
} chunk_shape;

// What is decided in addition to numbers: the plan's layout.
typedef struct decided {
    tile_shape shape;
    product_shape products;
    chunk_shape chunks;
    int64_t resolve_grid;         // blocks of km_tiled_resolve, for each slot
    int64_t round_ahead;          // pieces of points that are read ahead before they are rounded
    int64_t lanes, feature_parts; // sorted sums: lanes of a subwarp, and subwarps of a point
    int64_t lane_numbers;         // numbers of one load
} decided;

// Rows of the table of centroids of one restart, where each K is padded to a multiple of `panel_rows`.
static int64_t padded_rows(const km_spec *spec, int64_t panel_rows) {
    int64_t rows = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++)
        rows += km_divide_up(spec->clusters[i], panel_rows) * panel_rows;
    return rows;
}

// The first row of clusters[index] in the table of centroids, whose tiles hold whole K only. For index =
// clusters_count: the rows in use.
static int64_t resident_row(const km_spec *spec, int64_t tile, int64_t index) {
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
        slots = resident_row(spec, tile, i) % tile ? slots + 1 : 1;
        if (slots > most) most = slots;
    }
    return km_divide_up(most, 2) * 2;
}

// Bytes that are read at a time from rows of so many numbers; `most` at most.
static int64_t piece_of(int64_t numbers, int64_t size, int64_t most) {
    int64_t piece = most;
    while (numbers * size % piece) piece /= 2;
    return piece;
}

static int64_t resident_step(const tile_shape *shape) {
    return shape->fp16 ? 16 : 8;
}

static void fill_resident(tile_shape *shape, const km_spec *spec) {
    int64_t size = km_type_bytes(spec->type), tile = shape->tile_clusters, step = resident_step(shape);
    shape->point_warps = shape->tile_points / RESIDENT_POINTS;
    shape->cluster_warps = shape->panel_rows = 1;
    shape->panels = km_divide_up(resident_row(spec, tile, spec->clusters_count), tile) * tile;
    shape->slices = km_divide_up(spec->features, step);
    shape->piece = piece_of(spec->features, size, 16);
    shape->tile_slots = resident_tile_slots(spec, tile);
    shape->ahead = shape->point_warps > 8 ? 4 : 8;
    if (shape->ahead > shape->slices) shape->ahead = shape->slices;
    shape->shared_bytes = tile * ((shape->slices | 1) * step * (shape->fp16 ? 2 : 8) + size) +
                          shape->tile_points * (tile + 7) * size + 48 * shape->tile_slots + 64;
}

static void fill(tile_shape *shape, const km_spec *spec) {
    if (shape->resident) {
        fill_resident(shape, spec);
        return;
    }
    int64_t size = km_type_bytes(spec->type), vector = 16 / size, tile = shape->tile_clusters;
    shape->warp_points = size == 4 ? 32 : 16;
    shape->rows = shape->fp16 || size == 8 ? 4 : 8;
    shape->columns = shape->fp16 ? 16 : 8;
    shape->point_warps = shape->tile_points / shape->warp_points;
    shape->cluster_warps = tile / WARP_CLUSTERS;
    // Where a K ends in a tile, scores must go through shared memory. Padding costs scores instead.
    shape->panel_rows =
        shape->cluster_warps > 1 || 2 * padded_rows(spec, tile) <= 3 * padded_rows(spec, 1) ? tile : 1;
    shape->panels = padded_rows(spec, shape->panel_rows) / shape->panel_rows;
    shape->slices = km_divide_up(spec->features, shape->tile_features);
    shape->piece = piece_of(spec->features, size, 16);
    int64_t width = shape->tile_features * shape->slices, skewed = shape->tile_features;
    skewed += shape->fp16 ? 8 : shape->tile_features / vector % 2 ? 0 : vector;
    shape->shared_bytes = 2 * tile * (skewed * (shape->fp16 ? 2 : size) + size) +
                          shape->tile_points * (8 + size) + 256 * shape->point_warps * shape->cluster_warps +
                          2048;
    shape->shared_bytes += shape->tile_points * (shape->fp16 ? 2 * (width + 8) : 2 * skewed * size);
    if (shape->panel_rows == 1) shape->shared_bytes += shape->tile_points * (tile + 1) * size;
    if (shape->cluster_warps > 1) shape->shared_bytes += 28 * shape->cluster_warps * shape->tile_points;
}

// Multiplications of halves that a multiprocessor does in a cycle by mma.sync with float32 sums; 0: it has none.
static double fp16_per_cycle(int32_t arch) {
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

// Whether products of doubles are worth it: m16n8k8 is there, and as fast as plain arithmetic at least.
static int has_double_products(const km_plan *plan) {
    return plan->spec.target.arch == 90 || plan->spec.target.arch == 100;
}

// A configuration: the tiles of the labels, and the time of a point.
typedef struct tiled_config {
    tile_shape shape;
    int64_t blocks_per_sm, spare; // registers of a thread that are left
    double tensor_ns, issue_ns, total_ns;
} tiled_config;

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

// Whether so many blocks of this shape fit a multiprocessor; each takes 1 KiB more.
static int fits(const km_plan *plan, const tile_shape *shape, int64_t blocks_per_sm) {
    int64_t limit = plan->facts.shared_bytes_per_unit / blocks_per_sm - 1024;
    if (limit > plan->facts.shared_bytes_per_block) limit = plan->facts.shared_bytes_per_block;
    return shape->shared_bytes <= limit;
}

static int64_t registers_limit(const km_plan *plan, const tile_shape *shape, int64_t blocks_per_sm) {
    return km_cuda_registers_limit(plan, 32 * shape->point_warps * shape->cluster_warps, blocks_per_sm);
}

static double width_of(const tile_shape *shape) {
    return (double)(shape->tile_features * shape->slices);
}

// Instructions in addition to products: to load a tile of points, and at the end of each K.
static double ends_of(const km_plan *plan) {
    return measured.ends + measured.ends_k * (double)plan->spec.clusters_count;
}

// Evaluates fp16 scores. More warps keep tensor cores busy; the table of centroids is read from the cache for each
// tile of points. The best two scores are kept.
static void evaluate_fp16(tiled_config *config, const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    tile_shape *shape = &config->shape;
    double rows = (double)(shape->panels * shape->panel_rows),
           tiles = ceil(rows / (double)shape->tile_clusters);
    double warps = (double)(shape->point_warps * shape->cluster_warps * config->blocks_per_sm);
    double busy = fmin(warps / measured.warps_enough, (double)shape->tile_points / measured.points_enough);
    double rate = fp16_per_cycle(plan->spec.target.arch) * (double)facts->units * facts->clock_ghz;
    config->tensor_ns = rows * width_of(shape) / rate / fmin(busy, 1);
    config->tensor_ns *= 1 + measured.cluster_warps * (double)(shape->cluster_warps - 1);
    if (shape->slices > 1 && shape->tile_features == 16)
        config->tensor_ns *= measured.one_product; // warps meet after each
    double operations =
        shape->panel_rows == 1 ? measured.last_tile * tiles * width_of(shape) : measured.best_two * rows;
    config->issue_ns = (operations + ends_of(plan)) / km_cuda_issue_rate(plan);
    config->total_ns = config->tensor_ns + config->issue_ns;
}

// Evaluates plain arithmetic. The stall factor is that of few warps, which wait for each slice of the features.
static void evaluate_plain(tiled_config *config, const km_plan *plan) {
    double stall = measured.plain_stall + measured.plain_single / (double)config->blocks_per_sm,
           tile = (double)config->shape.tile_clusters;
    double rows = ceil((double)(config->shape.panels * config->shape.panel_rows) / tile) * tile;
    double products = stall * (width_of(&config->shape) + (double)config->shape.slices) + 8;
    config->issue_ns = (rows * products + ends_of(plan)) / km_cuda_issue_rate(plan);
    config->total_ns = config->issue_ns;
}

// Registers of a thread: scores, numbers that are read ahead, and others, fitted to the compilers' counts.
static int64_t resident_registers(const tile_shape *shape) {
    int64_t single = shape->fp16 && shape->piece < 8 ? 8 : 0; // numbers that are read one by one
    return (shape->fp16 ? shape->tile_clusters / 2 + 56 : shape->tile_clusters + 84) + 8 * shape->ahead +
           single;
}

// Registers of a thread that are left where centroids are resident; negative: there is no room for its warps.
static int64_t resident_spare(const km_plan *plan, const tile_shape *shape) {
    int64_t spare = registers_limit(plan, shape, 1) - resident_registers(shape);
    return fits(plan, shape, 1) ? spare : -1;
}

// Warps of a block with resident centroids: as many as there may be, and as many as have room beside the tile.
static int64_t resident_warps(const tile_shape *shape) {
    return shape->fp16 ? 16 : 8;
}

static int64_t resident_warps_most(const km_plan *plan, const tile_shape *shape) {
    tile_shape other = *shape;
    for (int64_t warps = resident_warps(shape); warps > 4; warps -= 4) {
        other.tile_points = warps * RESIDENT_POINTS;
        fill(&other, &plan->spec);
        if (resident_spare(plan, &other) >= 0) return warps;
    }
    return 4;
}

// Evaluates resident centroids. Points are read again for each tile. A warp does not overlap reads, products and
// comparisons; others do.
static void evaluate_resident(tiled_config *config, const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    const tile_shape *shape = &config->shape;
    double size = (double)km_type_bytes(plan->spec.type),
           tiles = (double)(shape->panels / shape->tile_clusters);
    double rate = shape->fp16 ? fp16_per_cycle(plan->spec.target.arch) : 2 * facts->fp64_per_cycle;
    double read_ns =
        measured.resident_read * tiles * (double)plan->spec.features * size / facts->bandwidth_gbs;
    config->tensor_ns = measured.resident_products *
                        (double)(shape->panels * shape->slices * resident_step(shape)) /
                        (rate * (double)facts->units * facts->clock_ghz);
    config->issue_ns =
        ((shape->fp16 ? measured.resident_scores : measured.resident_scores_double) * (double)shape->panels +
         measured.resident_k * (double)plan->spec.clusters_count) /
        (facts->fp32_per_cycle * (double)facts->units * facts->clock_ghz);
    double fewer = (double)resident_warps_most(plan, shape) / (double)shape->point_warps;
    config->total_ns = (km_cuda_overlap(read_ns, config->tensor_ns) + config->issue_ns) *
                       (1 + measured.resident_waits * fmax(fewer - 1, 0));
}

// Fills the times of a configuration whose shape and blocks_per_sm are set.
static void evaluate(tiled_config *config, const km_plan *plan) {
    (config->shape.resident ? evaluate_resident
     : config->shape.fp16   ? evaluate_fp16
                            : evaluate_plain)(config, plan);
}

static void take_better(tiled_config *best, const tiled_config *config, const km_plan *plan) {
    tiled_config candidate = *config;
    fill(&candidate.shape, &plan->spec);
    if (candidate.shape.cluster_warps > 1 && candidate.shape.panels > 0 && plan->spec.clusters_count > 1 &&
        8 * padded_rows(&plan->spec, candidate.shape.panel_rows) > 10 * plan->clusters_sum)
        return; // too much padding
    if (!fits(plan, &candidate.shape, candidate.blocks_per_sm)) return;
    int64_t registers =
        candidate.shape.fp16 && candidate.shape.panel_rows > 1 ? 128 : 160; // that compilers need
    candidate.spare = registers_limit(plan, &candidate.shape, candidate.blocks_per_sm) - registers;
    if (candidate.spare < 0 || km_plan_avoids(plan, KM_DESIGN_TILED, candidate.spare)) return;
    evaluate(&candidate, plan);
    if (!best->blocks_per_sm || candidate.total_ns < best->total_ns) *best = candidate;
}

// At most eight warps, along points and centroids. All features of a tile's points are in shared memory, as halves.
// Where a K ends in a tile, a thread needs more registers.
static void best_fp16(tiled_config *best, const km_plan *plan) {
    static const int64_t features_most[] = {128, 64, 32};
    for (int64_t blocks_per_sm = 3; blocks_per_sm >= 1; blocks_per_sm--)
        for (int64_t points = 8; points >= 1; points /= 2)
            for (int64_t clusters = 1; clusters <= 4 && points * clusters <= 8; clusters *= 2)
                for (int f = 0; f < 3; f++) {
                    tiled_config config = {.blocks_per_sm = blocks_per_sm};
                    config.shape.fp16 = 1;
                    config.shape.tile_points = points * 32;
                    config.shape.tile_clusters = clusters * WARP_CLUSTERS;
                    config.shape.tile_features = features_of(plan->spec.features, features_most[f], 16);
                    take_better(best, &config, plan);
                }
}

static void best_plain(tiled_config *best, const km_plan *plan) {
    int64_t vector = 16 / km_type_bytes(plan->spec.type);
    for (int64_t blocks_per_sm = 3; blocks_per_sm >= 1; blocks_per_sm--)
        for (int64_t most = 8; most >= 1; most /= 2) {
            tiled_config config = {.blocks_per_sm = blocks_per_sm};
            config.shape.tile_points = 32 * 16 / km_type_bytes(plan->spec.type); // of four warps
            config.shape.tile_clusters = WARP_CLUSTERS;
            config.shape.tile_features = features_of(plan->spec.features, most * vector, vector);
            take_better(best, &config, plan);
        }
}

// Whether these are the tiles that the user fixed, if any.
static int resident_is_fixed(const km_plan *plan, const tile_shape *shape) {
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
static void best_resident(tiled_config *best, const km_plan *plan, int fp16) {
    enum { TILE_MAX = 96 };
    int64_t k_max = plan->spec.clusters[plan->spec.clusters_count - 1];
    for (int64_t tile = km_divide_up(k_max, 16) * 16; tile <= TILE_MAX; tile += 16)
        for (int64_t warps = fp16 ? 16 : 8; warps >= 4; warps -= 4) {
            tiled_config config = {.blocks_per_sm = 1, .shape = {.fp16 = fp16, .resident = 1}};
            config.shape.tile_points = warps * RESIDENT_POINTS;
            config.shape.tile_clusters = tile;
            config.shape.tile_features = resident_step(&config.shape);
            fill(&config.shape, &plan->spec);
            if (!resident_is_fixed(plan, &config.shape)) continue;
            config.spare = resident_spare(plan, &config.shape);
            if (config.spare < 0 || km_plan_avoids(plan, KM_DESIGN_TILED, config.spare)) continue;
            evaluate(&config, plan);
            if (!best->blocks_per_sm || config.total_ns < best->total_ns) *best = config;
            break;
        }
}

static int is_fp16(int64_t form) {
    return form == KM_WORD_form_tiles_fp16 || form == KM_WORD_form_resident_fp16;
}

static int is_resident(int64_t form) {
    return form == KM_WORD_form_resident || form == KM_WORD_form_resident_fp16;
}

static int64_t form_of(const tile_shape *shape) {
    return shape->resident ? (shape->fp16 ? KM_WORD_form_resident_fp16 : KM_WORD_form_resident)
                           : (shape->fp16 ? KM_WORD_form_tiles_fp16 : KM_WORD_form_tiles);
}

// Why a form cannot compute the plan's pass, or NULL: it can.
static const char *form_refused(const km_plan *plan, int64_t form) {
    const km_spec *spec = &plan->spec;
    if (is_fp16(form) && (spec->type == KM_FLOAT64 || fp16_per_cycle(spec->target.arch) == 0))
        return "the form needs float32 and sm_80 or later";
    if (form == KM_WORD_form_resident && !(spec->type == KM_FLOAT64 && has_double_products(plan)))
        return "the form needs float64 and sm_90 or sm_100";
    if (is_resident(form) && spec->clusters[spec->clusters_count - 1] > RESIDENT_K_MAX)
        return "the form takes K up to 32";
    return NULL;
}

// The fastest configuration of all forms, or of the one that the user fixed; blocks_per_sm 0: there is none.
static tiled_config best_config(const km_plan *plan) {
    enum { FP16_PAYS = 300 };
    tiled_config best = {0};
    int64_t form = -1, fp16 = fp16_per_cycle(plan->spec.target.arch) > 0 && plan->spec.type == KM_FLOAT32;
    int fixed = km_plan_fixed(plan, KM_PARAM_form, &form);
    if (fixed) fp16 = is_fp16(form);
    int64_t resident = fp16 ? KM_WORD_form_resident_fp16 : KM_WORD_form_resident;
    if (fixed ? is_resident(form) : !form_refused(plan, resident)) best_resident(&best, plan, (int)fp16);
    if (best.blocks_per_sm || is_resident(form)) return best;
    if (fp16) best_fp16(&best, plan);
    if (fixed ? !fp16 : !best.blocks_per_sm || fp16_per_cycle(plan->spec.target.arch) < FP16_PAYS)
        best_plain(&best, plan);
    return best;
}

// Sums --------------------------------------------------------------------------------------------------------

enum { CHUNKS_K_MAX = 63 }; // rows of sums that fit into shared memory

static int64_t k_max_of(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1];
}

// How points are added: the user's choice where he has one.
static int64_t sums_of(const km_plan *plan, int resident) {
    int64_t sums = k_max_of(plan) > RESIDENT_K_MAX         ? KM_WORD_sums_sorted
                   : resident && has_double_products(plan) ? KM_WORD_sums_products
                                                           : KM_WORD_sums_chunks;
    km_plan_fixed(plan, KM_PARAM_sums, &sums);
    return sums;
}

static const char *sums_reason(int64_t sums) {
    return sums == KM_WORD_sums_sorted
               ? "above K = 32 its rows in shared memory are slower than the order of labels"
           : sums == KM_WORD_sums_products ? "products of doubles are twice as fast as plain arithmetic here"
                                           : "a K's sums fit into shared memory: no order is needed";
}

static chunk_shape chunks_of(const km_plan *plan) {
    enum { ROWS_BYTES_MAX = 40 * 1024, SLOTS_OF_SUBWARP = 4, WARPS_MAX = 8 };
    const km_spec *spec = &plan->spec;
    int64_t columns = spec->features + (plan->weighted ? 1 : 0), ks = spec->clusters_count;
    int64_t slots_all = ks * km_cuda_concurrent_restarts(plan), fixed;
    if (km_plan_fixed(plan, KM_PARAM_concurrent_restarts, &fixed)) slots_all = ks * fixed;
    // An access of a warp to shared memory takes two cycles for 32 doubles; subwarps of eight lanes may have bank
    // conflicts.
    int64_t cycles32 = 20 * km_divide_up(columns, 32), cycles16 = 10 * km_divide_up(columns, 16),
            cycles8 = 8 * km_divide_up(columns, 8);
    chunk_shape sums = {.lanes = cycles8 < cycles16 && cycles8 < cycles32 ? 8
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
static product_shape products_of(const km_plan *plan, int64_t tile) {
    enum { REGISTERS_MAX = 80, COLUMNS_MAX = 4, REGISTERS_OF_THREE = 150 };
    int64_t eights = km_divide_up(plan->spec.features + 1, 8), rows = tile / 16, least = INT64_MAX;
    int64_t size = km_type_bytes(plan->spec.type), most = piece_of(plan->spec.features, size, 16);
    product_shape best = {0};
    for (int64_t columns = 1; columns <= COLUMNS_MAX && columns * rows * 8 <= REGISTERS_MAX; columns++) {
        int64_t feature_warps = km_divide_up(eights, columns), piece = piece_of(columns, size, most);
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

static product_shape plan_products(const km_plan *plan) {
    return products_of(plan, km_plan_value(plan, KM_PARAM_tile_clusters));
}

static tile_shape shape_of(const km_plan *plan) {
    int64_t form = km_plan_value(plan, KM_PARAM_form);
    tile_shape shape = {.fp16 = is_fp16(form),
                        .resident = is_resident(form),
                        .tile_points = km_plan_value(plan, KM_PARAM_tile_points),
                        .tile_clusters = km_plan_value(plan, KM_PARAM_tile_clusters),
                        .tile_features = km_plan_value(plan, KM_PARAM_tile_features)};
    fill(&shape, &plan->spec);
    return shape;
}

// Chunks of points for products of doubles: one for each warp that fits the device, and its part of the features.
static int64_t products_chunks(const km_plan *plan) {
    enum { WARPS = 4 };
    tile_shape shape = shape_of(plan);
    product_shape products = plan_products(plan);
    int64_t tiles = km_plan_value(plan, KM_PARAM_concurrent_restarts) * shape.panels / shape.tile_clusters;
    return plan->facts.units * products.blocks_per_sm * WARPS / (products.feature_warps * tiles);
}

// Chunks of points, one a block (or one for all blocks that split its features and slots): many, as long as their
// rows of sums stay small.
static int64_t grid_of(const km_plan *plan) {
    enum { WARPS_PER_UNIT = 48, ROWS_BYTES_MAX = 64 << 20, POINTS_MIN = 256 };
    int64_t row_bytes = plan->clusters_sum * (plan->spec.features + 1) * 8 *
                        km_plan_value(plan, KM_PARAM_concurrent_restarts);
    chunk_shape sums = chunks_of(plan);
    int64_t chunks =
        plan->facts.units * km_divide_up(WARPS_PER_UNIT, sums.warps * sums.feature_parts * sums.slot_blocks);
    if (chunks > ROWS_BYTES_MAX / row_bytes) chunks = ROWS_BYTES_MAX / row_bytes;
    if (chunks < plan->facts.units) chunks = plan->facts.units;
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_products) chunks = products_chunks(plan);
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_sorted) chunks = 2 * plan->facts.units;
    int64_t useful = plan->points ? km_divide_up(plan->points, POINTS_MIN) : chunks;
    if (chunks > useful) chunks = useful;
    return chunks < 1 ? 1 : chunks;
}

// Segments of the order of labels: a subwarp each, as many as run at a time.
static int64_t segments_of(const km_plan *plan) {
    enum { WARPS_PER_UNIT = 32, POINTS_MIN = 32 };
    int64_t segments = plan->facts.units * WARPS_PER_UNIT;
    int64_t useful = plan->points ? km_divide_up(plan->points, POINTS_MIN) : segments;
    return segments < useful ? segments : useful;
}

// Thread instructions of adding a point by products of doubles: they are twice as fast as plain arithmetic of
// doubles, but each warp makes its rows.
static double products_adding(const km_plan *plan, const tiled_config *config) {
    product_shape products = products_of(plan, config->shape.tile_clusters);
    double columns = (double)((8 * products.columns + 6) * products.feature_warps),
           rows = (double)config->shape.panels;
    double rate = 2 * plan->facts.fp64_per_cycle * (double)plan->facts.units * plan->facts.clock_ghz;
    return measured.adding_products * rows * columns / rate * km_cuda_issue_rate(plan);
}

// Thread instructions of adding a point for all K. Rows in shared memory are bound by its bandwidth.
static double adding_of(const km_plan *plan, const tiled_config *config) {
    double d = (double)plan->spec.features, ks = (double)plan->spec.clusters_count;
    int64_t how = sums_of(plan, (int)config->shape.resident);
    if (how == KM_WORD_sums_sorted) return ks * (measured.adding_sorted + measured.adding_sorted_feature * d);
    if (how == KM_WORD_sums_products) return products_adding(plan, config);
    chunk_shape sums = chunks_of(plan);
    return measured.adding_chunks + measured.adding_chunks_k * ks * (double)(sums.lanes * sums.feature_parts);
}

// Checks ------------------------------------------------------------------------------------------------------

static km_status check_fit(const km_plan *plan, const tile_shape *shape, int64_t blocks_per_sm,
                           km_error *err) {
    if (fits(plan, shape, blocks_per_sm)) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "tiles need %lld bytes of shared memory, which has not as many",
                   (long long)shape->shared_bytes);
}

static km_status check_resident(const km_plan *plan, const tile_shape *shape, int64_t blocks_per_sm,
                                km_error *err) {
    int64_t points = shape->tile_points, clusters = shape->tile_clusters;
    if (points % RESIDENT_POINTS || points > 16 * RESIDENT_POINTS || clusters % 16 ||
        clusters < k_max_of(plan) || clusters > 96 || shape->tile_features != resident_step(shape) ||
        blocks_per_sm != 1)
        return km_fail(
            err, KM_ERROR_PLAN,
            "the form needs tile_points in steps of %d up to %d, tile_clusters in steps of 16 from K up "
            "to 96, %lld tile_features and one block resident",
            RESIDENT_POINTS, 16 * RESIDENT_POINTS, (long long)resident_step(shape));
    return check_fit(plan, shape, blocks_per_sm, err);
}

static km_status check_tiles(const km_plan *plan, const tile_shape *shape, int64_t blocks_per_sm,
                             km_error *err) {
    int64_t warp = plan->spec.type == KM_FLOAT64 ? 16 : 32;
    int64_t points = shape->tile_points, clusters = shape->tile_clusters;
    int64_t step = shape->fp16 ? 16 : 16 / km_type_bytes(plan->spec.type);
    if (points % warp || clusters % WARP_CLUSTERS || (!shape->fp16 && clusters > WARP_CLUSTERS) ||
        points / warp * (clusters / WARP_CLUSTERS) > 8)
        return km_fail(err, KM_ERROR_PLAN,
                       "tile_points must be a multiple of %lld, tile_clusters of %d (no more without "
                       "fp16), of 8 warps at most",
                       (long long)warp, WARP_CLUSTERS);
    if (shape->tile_features % step)
        return km_fail(err, KM_ERROR_PLAN, "tile_features must be a multiple of %lld", (long long)step);
    return check_fit(plan, shape, blocks_per_sm, err);
}

static km_status check_shape(const km_plan *plan, const tile_shape *shape, int64_t blocks_per_sm,
                             km_error *err) {
    return shape->resident ? check_resident(plan, shape, blocks_per_sm, err)
                           : check_tiles(plan, shape, blocks_per_sm, err);
}

// Estimate ----------------------------------------------------------------------------------------------------

// The time of the numbers that the user fixed, where they can run, instead of the best ones'.
static void take_fixed(tiled_config *config, const km_plan *plan) {
    tiled_config own = *config;
    km_plan_fixed(plan, KM_PARAM_tile_points, &own.shape.tile_points);
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &own.shape.tile_clusters);
    km_plan_fixed(plan, KM_PARAM_tile_features, &own.shape.tile_features);
    km_plan_fixed(plan, KM_PARAM_blocks_per_sm, &own.blocks_per_sm);
    fill(&own.shape, &plan->spec);
    if (check_shape(plan, &own.shape, own.blocks_per_sm, NULL) != KM_OK) return;
    evaluate(&own, plan);
    *config = own;
}

// Labels by tiles like a matrix product; then every point is added to its row, once for each K.
static void estimate(km_config *found, km_plan *plan) {
    km_estimate *estimate = &plan->estimates[KM_DESIGN_TILED];
    double d = (double)plan->spec.features, ks = (double)plan->spec.clusters_count,
           size = (double)km_type_bytes(plan->spec.type);
    int64_t form;
    const char *why_not = km_plan_fixed(plan, KM_PARAM_form, &form) ? form_refused(plan, form) : NULL;
    tiled_config best = {0}, *config = &best;
    if (!why_not) best = best_config(plan);
    estimate->design = KM_DESIGN_TILED;
    estimate->feasible = config->blocks_per_sm > 0;
    if (!estimate->feasible) {
        km_plan_infeasible(plan, KM_DESIGN_TILED,
                           why_not ? why_not : "no tiles fit into registers and shared memory");
        return;
    }
    take_fixed(config, plan);
    int64_t sums = sums_of(plan, (int)config->shape.resident);
    double adding_ns = adding_of(plan, config) / km_cuda_issue_rate(plan);
    estimate->bytes_per_point = (1 + (sums == KM_WORD_sums_sorted ? ks : 1)) * d * size + ks * 12;
    estimate->memory_ns = estimate->bytes_per_point / plan->facts.bandwidth_gbs;
    estimate->tensor_ns = config->tensor_ns;
    estimate->issue_ns = config->issue_ns + adding_ns;
    estimate->operations_per_point = estimate->issue_ns * km_cuda_issue_rate(plan);
    estimate->total_ns = estimate->memory_ns + config->total_ns + adding_ns; // one kernel after the other
    if (sums == KM_WORD_sums_products) // both overlap the read of the points
        estimate->total_ns = config->total_ns + km_cuda_overlap(adding_ns, measured.adding_read * d * size /
                                                                               plan->facts.bandwidth_gbs);
    estimate->registers_per_thread = registers_limit(plan, &config->shape, config->blocks_per_sm);
    estimate->registers_spare = config->spare;
    estimate->shared_bytes_per_block = config->shape.shared_bytes;
    snprintf(estimate->reason, sizeof estimate->reason, "%s",
             config->shape.fp16 ? "fp16 scores, ambiguous points again in double" : "plain arithmetic");
    KM_CONFIG_PUT(found, best);
}

// Decision ----------------------------------------------------------------------------------------------------

static km_status check_sums(const km_plan *plan, const tile_shape *shape, km_error *err) {
    int64_t sums = km_plan_value(plan, KM_PARAM_sums);
    if (sums == KM_WORD_sums_chunks && k_max_of(plan) > CHUNKS_K_MAX)
        return km_fail(err, KM_ERROR_PLAN, "sums can be chunks up to K = %d only", CHUNKS_K_MAX);
    if (sums == KM_WORD_sums_products && (!shape->resident || !has_double_products(plan)))
        return km_fail(err, KM_ERROR_PLAN,
                       "sums can be products only where centroids are resident, on sm_90 or sm_100");
    return KM_OK;
}

static km_status decide_tiles(km_plan *plan, const tiled_config *config, km_error *err) {
    int resident = config->shape.resident != 0;
    KM_TRY(km_plan_set(plan, KM_PARAM_form, form_of(&config->shape), err, "%s; %s",
                       resident ? "tiles of centroids fit into shared memory, all of their features"
                                : "many clusters or features, or products that are no faster",
                       config->shape.fp16 ? "tensor cores, ambiguous points are decided again in double"
                                          : "the type or the device asks for plain arithmetic"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_points, config->shape.tile_points, err, "%s",
                       resident ? "16 for each of the warps that registers and shared memory hold"
                                : "points of a block, which share what is read of the centroids"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, config->shape.tile_clusters, err, "%s",
                       resident ? "centroids of whole K whose scores a warp has in registers"
                                : "64 for each of the warps that have the same points"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_features, config->shape.tile_features, err,
                       resident ? "%lld features, one product at a time"
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
    it->shape = shape_of(plan);
    it->products = plan_products(plan);
    it->chunks = chunks_of(plan);
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
    tiled_config config;
    KM_CONFIG_GET(config, found);
    int64_t sums = sums_of(plan, (int)config.shape.resident);
    KM_TRY(km_cuda_set_restarts(plan, err));
    KM_TRY(decide_tiles(plan, &config, err));
    tile_shape shape = shape_of(plan);
    KM_TRY(check_shape(plan, &shape, km_plan_value(plan, KM_PARAM_blocks_per_sm), err));
    KM_TRY(km_plan_set(plan, KM_PARAM_sums, sums, err, "%s", sums_reason(sums)));
    KM_TRY(check_sums(plan, &shape, err));
    if (sums == KM_WORD_sums_sorted)
        KM_TRY(km_plan_set(plan, KM_PARAM_segments, segments_of(plan), err,
                           "segments of the points in the order of their labels, a few lanes each"));
    KM_TRY(km_plan_set(plan, KM_PARAM_grid, grid_of(plan), err, "%s",
                       sums == KM_WORD_sums_sorted
                           ? "chunks of points while they are sorted"
                           : "chunks of points, each with its own sums, 64 MiB at most"));
    return decide_layout(plan, err);
}

// Names -------------------------------------------------------------------------------------------------------

static void name_chunks(km_env *env, const chunk_shape *sums) {
    km_env_set_int(env, "sum_lanes", sums->lanes);
    km_env_set_int(env, "feature_parts", sums->feature_parts);
    km_env_set_int(env, "sum_warps", sums->warps);
    km_env_set_int(env, "block_slots", sums->slots);
    km_env_set_int(env, "block_rows", sums->rows);
}

static void name_sorted(km_env *env, const km_plan *plan, const decided *it) {
    int64_t passes = k_max_of(plan) > 256 ? 2 : 1; // of a sort by bytes
    km_env_set_int(env, "sum_lanes", it->lanes);
    km_env_set_int(env, "numbers", it->lane_numbers);
    km_env_set_int(env, "feature_parts", it->feature_parts);
    km_env_set_int(env, "sort_passes_count", passes);
    km_env_list(env, "sort_passes");
    for (int64_t pass = 0; pass < passes; pass++) km_env_item(env, "sort_passes", pass ? "1" : "0");
}

static void name_products(km_env *env, const product_shape *products) {
    km_env_set_int(env, "sum_columns", products->columns);
    km_env_set_int(env, "sum_feature_warps", products->feature_warps);
    km_env_set_int(env, "sum_piece", products->piece);
    km_env_set_int(env, "sum_blocks_per_sm", products->blocks_per_sm);
}

static void name_shape(km_env *env, const tile_shape *shape) {
    km_env_set_flag(env, "fp16", shape->fp16 != 0);
    km_env_set_flag(env, "resident_centroids", shape->resident != 0);
    km_env_set_int(env, "tile", shape->tile_clusters);
    km_env_set_flag(env, "k_ends_in_tile", shape->panel_rows == 1);
    km_env_set_flag(env, "takes_single_scores", shape->resident || shape->panel_rows == 1 || !shape->fp16);
    km_env_set(env, "labels", shape->resident ? "resident" : "tiles");
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
    km_env_set_flag(env, "async_copies", spec->target.arch >= 80);
    km_env_set(env, "sums",
               sums == KM_WORD_sums_sorted     ? "sorted"
               : sums == KM_WORD_sums_products ? "products"
                                               : "chunks");
    km_env_set_int(env, "labels_grid", plan->facts.units * km_plan_value(plan, KM_PARAM_blocks_per_sm));
    km_env_set_int(env, "round_ahead", it->round_ahead);
    km_env_set_int(env, "resolve_grid", it->resolve_grid);
    if (sums == KM_WORD_sums_products) name_products(env, &it->products);
    if (sums == KM_WORD_sums_sorted)
        name_sorted(env, plan, it);
    else
        name_chunks(env, &it->chunks);
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        km_env *k = km_cuda_name_k(env, spec, i, offset);
        km_env_set_int(k, "panel",
                       it->shape.resident ? resident_row(spec, it->shape.tile_clusters, i) : panel);
        panel += km_divide_up(spec->clusters[i], it->shape.panel_rows);
        offset += spec->clusters[i];
    }
    return KM_OK;
}

// Memory ------------------------------------------------------------------------------------------------------

static int64_t workspace_bytes(const km_plan *plan, int64_t n) {
    const decided *it = plan->layout;
    const tile_shape *shape = &it->shape;
    int64_t d = plan->spec.features, size = km_type_bytes(plan->spec.type), k_max = k_max_of(plan);
    int64_t restarts = km_plan_value(plan, KM_PARAM_concurrent_restarts), label = k_max <= 256 ? 1 : 2;
    int64_t slots = restarts * plan->spec.clusters_count, sums = km_cuda_partial_bytes(plan);
    int64_t rows = restarts * shape->panels * shape->panel_rows + shape->tile_clusters;
    int64_t table = rows * (size + 4 + shape->tile_features * shape->slices * (shape->fp16 ? 2 : size));
    int64_t points = n * (size * (1 + shape->fp16) + slots * (label + 4));
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
    double label = k_max_of(plan) <= 256 ? 1 : 2, lists = label == 2 ? 8 : 4;
    // Lists of ambiguous points, and the sorted order.
    rows[0] = (km_point_memory){"labels and lists within a pass", (label + lists) * (double)slots};
    rows[1] = (km_point_memory){"lengths of points",
                                (double)(km_type_bytes(plan->spec.type) * (1 + it->shape.fp16))};
    return 2;
}

const km_design_code km_design_tiled = {.estimate = estimate,
                                        .decide = decide,
                                        .names = names,
                                        .workspace_bytes = workspace_bytes,
                                        .point_memory = point_memory};

// SPDX-License-Identifier: MIT
// The CUDA design `tiled` (templates/cuda/tiled): labels by tiles like a matrix product, then every point is added to
// its cluster, for any d, K and type.
#include "../../base/size.h"
#include "../../base/text.h"
#include "../words.h"
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Shapes ------------------------------------------------------------------------------------------------------

enum {
    WARP_CLUSTERS = 64, // centroids of a tile that one warp has
    FEW_K_MAX = 32,     // resident: the largest K, a lane each; points of a warp at a time
    FEW_POINTS = 16
};

// Form and tiles, and what follows from them.
typedef struct tile_shape {
    int64_t half, few; // scores in fp16 first; centroids stay in shared memory
    int64_t tile_points, tile_clusters, tile_features;
    int64_t warp_points, rows, columns; // points of a warp; points and centroids of a thread
    int64_t point_warps, cluster_warps; // of a block
    int64_t pad, groups;                // rows of a group of the table of centroids; groups of one restart
    int64_t chunks;                     // of features
    int64_t piece;                      // bytes that are copied at a time from a point
    int64_t tile_slots, ahead;          // few: slots of a tile, an even number; steps that are read ahead
    int64_t shared_bytes;
} tile_shape;

// How it adds points by products of doubles: eight features in each of `columns` products side by side, `groups` warps
// for all features, blocks of which `resident` fit, bytes of one read.
typedef struct product_shape {
    int64_t columns, groups, resident, piece;
} product_shape;

// How it adds points to rows of sums in shared memory: a team of `lanes` has four slots, a block `slots` slots
// with `rows` clusters at most; `parts` blocks share the features of a range of points, `groups` its slots.
typedef struct range_shape {
    int64_t lanes, parts, warps, slots, rows, groups;
} range_shape;

// What is decided beside numbers: the plan's layout.
typedef struct decided {
    tile_shape shape;
    product_shape products;
    range_shape ranges;
    int64_t resolve_grid;      // blocks that decide ambiguous points again, for each slot
    int64_t round_ahead;       // steps of products that are read ahead
    int64_t lanes, lane_parts; // sorted: lanes that have a point's features, and how often
    int64_t lane_numbers;      // numbers of one load
} decided;

// Rows of the table of centroids of one restart when each K is padded to a multiple of `pad`.
static int64_t padded_rows(const km_spec *spec, int64_t pad) {
    int64_t rows = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) rows += km_divide_up(spec->clusters[i], pad) * pad;
    return rows;
}

// The row of the table of centroids where those of clusters[index] begin, in tiles that hold whole K only; for index =
// clusters_count the rows in use.
static int64_t few_row(const km_spec *spec, int64_t tile, int64_t index) {
    int64_t row = 0;
    for (int64_t i = 0;; i++) {
        if (i < spec->clusters_count && row % tile + spec->clusters[i] > tile)
            row = km_divide_up(row, tile) * tile;
        if (i == index) return row;
        row += spec->clusters[i];
    }
}

// The most slots of a tile, as an even number.
static int64_t few_tile_slots(const km_spec *spec, int64_t tile) {
    int64_t most = 0, slots = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        slots = few_row(spec, tile, i) % tile ? slots + 1 : 1;
        if (slots > most) most = slots;
    }
    return km_divide_up(most, 2) * 2;
}

// Bytes that are read at a time from rows of so many numbers, `most` at most.
static int64_t piece_of(int64_t numbers, int64_t size, int64_t most) {
    int64_t piece = most;
    while (numbers * size % piece) piece /= 2;
    return piece;
}

static int64_t few_step(const tile_shape *shape) {
    return shape->half ? 16 : 8;
}

static void fill_few(tile_shape *shape, const km_spec *spec) {
    int64_t size = km_type_bytes(spec->type), tile = shape->tile_clusters, step = few_step(shape);
    shape->point_warps = shape->tile_points / FEW_POINTS;
    shape->cluster_warps = shape->pad = 1;
    shape->groups = km_divide_up(few_row(spec, tile, spec->clusters_count), tile) * tile;
    shape->chunks = km_divide_up(spec->features, step);
    shape->piece = piece_of(spec->features, size, 16);
    shape->tile_slots = few_tile_slots(spec, tile);
    shape->ahead = shape->point_warps > 8 ? 4 : 8;
    if (shape->ahead > shape->chunks) shape->ahead = shape->chunks;
    shape->shared_bytes = tile * ((shape->chunks | 1) * step * (shape->half ? 2 : 8) + size) +
                          shape->tile_points * (tile + 7) * size + 48 * shape->tile_slots + 64;
}

static void fill(tile_shape *shape, const km_spec *spec) {
    if (shape->few) {
        fill_few(shape, spec);
        return;
    }
    int64_t size = km_type_bytes(spec->type), vector = 16 / size, tile = shape->tile_clusters;
    shape->warp_points = size == 4 ? 32 : 16;
    shape->rows = shape->half || size == 8 ? 4 : 8;
    shape->columns = shape->half ? 16 : 8;
    shape->point_warps = shape->tile_points / shape->warp_points;
    shape->cluster_warps = tile / WARP_CLUSTERS;
    // A K that ends within a tile costs a detour of the scores, padding costs scores.
    shape->pad =
        shape->cluster_warps > 1 || 2 * padded_rows(spec, tile) <= 3 * padded_rows(spec, 1) ? tile : 1;
    shape->groups = padded_rows(spec, shape->pad) / shape->pad;
    shape->chunks = km_divide_up(spec->features, shape->tile_features);
    shape->piece = piece_of(spec->features, size, 16);
    int64_t width = shape->tile_features * shape->chunks, skewed = shape->tile_features;
    skewed += shape->half ? 8 : shape->tile_features / vector % 2 ? 0 : vector;
    shape->shared_bytes = 2 * tile * (skewed * (shape->half ? 2 : size) + size) +
                          shape->tile_points * (8 + size) + 256 * shape->point_warps * shape->cluster_warps +
                          2048;
    shape->shared_bytes += shape->tile_points * (shape->half ? 2 * (width + 8) : 2 * skewed * size);
    if (shape->pad == 1) shape->shared_bytes += shape->tile_points * (tile + 1) * size;
    if (shape->cluster_warps > 1) shape->shared_bytes += 28 * shape->cluster_warps * shape->tile_points;
}

// Multiplications of half-precision numbers that a multiprocessor does in a cycle, with sums of float32, as mma.sync
// reaches them; 0: it has none.
static double half_per_cycle(int32_t arch) {
    switch (arch) {
    case 80:
        return 800;
    case 90:
        return 1100;
    case 100:
        return 1000;
    default:
        return arch > 80 ? 256 : 0;
    }
}

// Whether products of doubles are worth it: m16n8k8 is there, and as fast as plain arithmetic at least.
static int has_double_products(const km_plan *plan) {
    return plan->spec.target.arch == 90 || plan->spec.target.arch == 100;
}

// One way to find the labels: numbers, and the time of a point.
typedef struct tiled_config {
    tile_shape shape;
    int64_t resident, spare; // registers of a thread beside those that compilers need
    double tensor_ns, issue_ns, total_ns;
} tiled_config;

// Features worked on at a time: at most `most`, in steps of `step`, with little padding in few pieces.
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

// Whether blocks of this shape fit `resident` times; each takes 1 KiB more.
static int fits(const km_plan *plan, const tile_shape *shape, int64_t resident) {
    int64_t limit = plan->facts.shared_bytes_per_unit / resident - 1024;
    if (limit > plan->facts.shared_bytes_per_block) limit = plan->facts.shared_bytes_per_block;
    return shape->shared_bytes <= limit;
}

static int64_t registers_limit(const km_plan *plan, const tile_shape *shape, int64_t resident) {
    return km_cuda_registers_limit(plan, 32 * shape->point_warps * shape->cluster_warps, resident);
}

static double width_of(const tile_shape *shape) {
    return (double)(shape->tile_features * shape->chunks);
}

// Beside the products: a tile of points is waited for, and each K ends with a decision. Fitted to times on sm_90.
static double ends_of(const km_plan *plan) {
    return 1300 + 400 * (double)plan->spec.clusters_count;
}

// Tensor cores: more warps keep them busy; the table of centroids is read from the cache for each block of points. Of
// each score the best two are kept.
static void judge_half(tiled_config *config, const km_plan *plan) {
    enum { POINTS_ENOUGH = 160, WARPS_ENOUGH = 28, NARROW_OPERATIONS = 77 };
    const km_device_facts *facts = &plan->facts;
    tile_shape *shape = &config->shape;
    double rows = (double)(shape->groups * shape->pad), tiles = ceil(rows / (double)shape->tile_clusters);
    double warps = (double)(shape->point_warps * shape->cluster_warps * config->resident);
    double busy = fmin(warps / WARPS_ENOUGH, (double)shape->tile_points / POINTS_ENOUGH);
    double rate = half_per_cycle(plan->spec.target.arch) * (double)facts->units * facts->clock_ghz;
    config->tensor_ns = rows * width_of(shape) / rate / fmin(busy, 1);
    double operations = shape->pad == 1 ? NARROW_OPERATIONS * tiles * width_of(shape) : 8 * rows;
    config->issue_ns = (operations + ends_of(plan)) / km_cuda_issue_rate(plan);
    config->total_ns = config->tensor_ns + config->issue_ns;
}

// Few warps do not hide what they wait for; each piece of the features is waited for.
static void judge_plain(tiled_config *config, const km_plan *plan) {
    double waits = 1.4 + 0.6 / (double)config->resident, tile = (double)config->shape.tile_clusters;
    double rows = ceil((double)(config->shape.groups * config->shape.pad) / tile) * tile;
    double products = waits * (width_of(&config->shape) + (double)config->shape.chunks) + 8;
    config->issue_ns = (rows * products + ends_of(plan)) / km_cuda_issue_rate(plan);
    config->total_ns = config->issue_ns;
}

static void take_better(tiled_config *best, const tiled_config *config, const km_plan *plan) {
    tiled_config judged = *config;
    fill(&judged.shape, &plan->spec);
    if (judged.shape.cluster_warps > 1 && judged.shape.groups > 0 && plan->spec.clusters_count > 1 &&
        8 * padded_rows(&plan->spec, judged.shape.pad) > 10 * plan->clusters_sum)
        return; // too much padding
    if (!fits(plan, &judged.shape, judged.resident)) return;
    int64_t registers = judged.shape.half && judged.shape.pad > 1 ? 128 : 160; // what compilers need
    judged.spare = registers_limit(plan, &judged.shape, judged.resident) - registers;
    if (judged.spare < 0 || km_plan_avoids(plan, KM_DESIGN_TILED, judged.spare)) return;
    if (judged.shape.half)
        judge_half(&judged, plan);
    else
        judge_plain(&judged, plan);
    if (!best->resident || judged.total_ns < best->total_ns) *best = judged;
}

// Eight warps at most, side by side in points and in centroids; of half precision all features of the points stand in
// shared memory. A K that ends within a tile needs more registers.
static void best_half(tiled_config *best, const km_plan *plan) {
    static const int64_t features_most[] = {128, 64, 32};
    for (int64_t resident = 3; resident >= 1; resident--)
        for (int64_t points = 8; points >= 1; points /= 2)
            for (int64_t clusters = 1; clusters <= 4 && points * clusters <= 8; clusters *= 2)
                for (int f = 0; f < 3; f++) {
                    tiled_config config = {.resident = resident};
                    config.shape.half = 1;
                    config.shape.tile_points = points * 32;
                    config.shape.tile_clusters = clusters * WARP_CLUSTERS;
                    config.shape.tile_features = features_of(plan->spec.features, features_most[f], 16);
                    take_better(best, &config, plan);
                }
}

static void best_plain(tiled_config *best, const km_plan *plan) {
    int64_t vector = 16 / km_type_bytes(plan->spec.type);
    for (int64_t resident = 3; resident >= 1; resident--)
        for (int64_t most = 8; most >= 1; most /= 2) {
            tiled_config config = {.resident = resident};
            config.shape.tile_points = 32 * 16 / km_type_bytes(plan->spec.type); // of four warps
            config.shape.tile_clusters = WARP_CLUSTERS;
            config.shape.tile_features = features_of(plan->spec.features, most * vector, vector);
            take_better(best, &config, plan);
        }
}

// Registers of a thread: scores, what is read ahead, and others, as compilers count.
static int64_t few_registers(const tile_shape *shape) {
    int64_t single = shape->half && shape->piece < 8 ? 8 : 0; // numbers that are read one by one
    return (shape->half ? shape->tile_clusters / 2 + 56 : shape->tile_clusters + 84) + 8 * shape->ahead +
           single;
}

// Each tile reads the points; a warp does not overlap that with its products and with the choice, others do. Fitted to
// times on sm_90; doubles have fewer warps.
static void few_judge(tiled_config *config, const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    const tile_shape *shape = &config->shape;
    double size = (double)km_type_bytes(plan->spec.type),
           tiles = (double)(shape->groups / shape->tile_clusters);
    double rate = shape->half ? half_per_cycle(plan->spec.target.arch) : 2 * facts->fp64_per_cycle;
    double read_ns = 1.3 * tiles * (double)plan->spec.features * size / facts->bandwidth_gbs;
    config->tensor_ns = 1.4 * (double)(shape->groups * shape->chunks * few_step(shape)) /
                        (rate * (double)facts->units * facts->clock_ghz);
    config->issue_ns = (double)((shape->half ? 20 : 40) * shape->groups + 60 * plan->spec.clusters_count) /
                       (facts->fp32_per_cycle * (double)facts->units * facts->clock_ghz);
    config->total_ns = km_cuda_overlap(read_ns, config->tensor_ns) + config->issue_ns;
}

// Whether these are the tiles that the user fixed, if any.
static int few_is_asked(const km_plan *plan, const tile_shape *shape) {
    int64_t form, points = shape->tile_points, clusters = shape->tile_clusters,
                  features = shape->tile_features;
    if (km_plan_fixed(plan, KM_PARAM_form, &form)) return 1; // its check says what this form can have
    km_plan_fixed(plan, KM_PARAM_tile_points, &points);
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &clusters);
    km_plan_fixed(plan, KM_PARAM_tile_features, &features);
    return points == shape->tile_points && clusters == shape->tile_clusters &&
           features == shape->tile_features;
}

// Blocks of as many warps as registers and shared memory hold, one of them a multiprocessor.
static void few_best(tiled_config *best, const km_plan *plan, int half) {
    enum { TILE_MAX = 96 };
    int64_t k_max = plan->spec.clusters[plan->spec.clusters_count - 1];
    for (int64_t tile = km_divide_up(k_max, 16) * 16; tile <= TILE_MAX; tile += 16)
        for (int64_t warps = half ? 16 : 8; warps >= 4; warps -= 4) {
            tiled_config config = {.resident = 1};
            config.shape.half = half;
            config.shape.few = 1;
            config.shape.tile_points = warps * FEW_POINTS;
            config.shape.tile_clusters = tile;
            config.shape.tile_features = few_step(&config.shape);
            fill(&config.shape, &plan->spec);
            if (!few_is_asked(plan, &config.shape)) continue;
            config.spare = registers_limit(plan, &config.shape, 1) - few_registers(&config.shape);
            if (!fits(plan, &config.shape, 1) || config.spare < 0 ||
                km_plan_avoids(plan, KM_DESIGN_TILED, config.spare))
                continue;
            few_judge(&config, plan);
            if (!best->resident || config.total_ns < best->total_ns) *best = config;
            break;
        }
}

static int is_half(int64_t form) {
    return form == KM_WORD_form_tiles_fp16 || form == KM_WORD_form_resident_fp16;
}

static int is_few(int64_t form) {
    return form == KM_WORD_form_resident || form == KM_WORD_form_resident_fp16;
}

static int64_t form_of(const tile_shape *shape) {
    return shape->few ? (shape->half ? KM_WORD_form_resident_fp16 : KM_WORD_form_resident)
                      : (shape->half ? KM_WORD_form_tiles_fp16 : KM_WORD_form_tiles);
}

// Why a form cannot compute the plan's pass, or NULL: it can.
static const char *form_refused(const km_plan *plan, int64_t form) {
    const km_spec *spec = &plan->spec;
    if (is_half(form) && (spec->type == KM_FLOAT64 || half_per_cycle(spec->target.arch) == 0))
        return "the form needs float32 and sm_80 or later";
    if (form == KM_WORD_form_resident && !(spec->type == KM_FLOAT64 && has_double_products(plan)))
        return "the form needs float64 and sm_90 or sm_100";
    if (is_few(form) && spec->clusters[spec->clusters_count - 1] > FEW_K_MAX)
        return "the form takes K up to 32";
    return NULL;
}

// The fastest way of all forms, or of the one that the user fixed; resident 0: there is none.
static tiled_config best_config(const km_plan *plan) {
    enum { HALF_PAYS = 300 };
    tiled_config best = {0};
    int64_t form = -1, half = half_per_cycle(plan->spec.target.arch) > 0 && plan->spec.type == KM_FLOAT32;
    int fixed = km_plan_fixed(plan, KM_PARAM_form, &form);
    if (fixed) half = is_half(form);
    int64_t few = half ? KM_WORD_form_resident_fp16 : KM_WORD_form_resident;
    if (fixed ? is_few(form) : !form_refused(plan, few)) few_best(&best, plan, (int)half);
    if (best.resident || is_few(form)) return best;
    if (half) best_half(&best, plan);
    if (fixed ? !half : !best.resident || half_per_cycle(plan->spec.target.arch) < HALF_PAYS)
        best_plain(&best, plan);
    return best;
}

// Sums --------------------------------------------------------------------------------------------------------

enum { RANGES_K_MAX = 63 }; // rows of sums that fit into shared memory

static int64_t k_max_of(const km_plan *plan) {
    return plan->spec.clusters[plan->spec.clusters_count - 1];
}

// How points are added: the user's choice where he has one.
static int64_t sums_of(const km_plan *plan, int few) {
    int64_t sums = k_max_of(plan) > FEW_K_MAX         ? KM_WORD_sums_sorted
                   : few && has_double_products(plan) ? KM_WORD_sums_products
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

static range_shape ranges_of(const km_plan *plan) {
    enum { ROWS_BYTES_MAX = 40 * 1024, SLOTS_OF_TEAM = 4, WARPS_MAX = 8 };
    const km_spec *spec = &plan->spec;
    int64_t columns = spec->features + (plan->weighted ? 1 : 0), ks = spec->clusters_count;
    int64_t slots_all = ks * km_cuda_concurrent_restarts(plan), fixed;
    if (km_plan_fixed(plan, KM_PARAM_concurrent_restarts, &fixed)) slots_all = ks * fixed;
    // A warp's access to shared memory takes two turns for 32 doubles; teams of eight lanes may meet in a bank.
    int64_t turns32 = 20 * km_divide_up(columns, 32), turns16 = 10 * km_divide_up(columns, 16),
            turns8 = 8 * km_divide_up(columns, 8);
    range_shape sums = {.lanes = turns8 < turns16 && turns8 < turns32 ? 8 : turns16 < turns32 ? 16 : 32};
    sums.parts = km_divide_up(columns, sums.lanes);
    int64_t slots_of_warp = SLOTS_OF_TEAM * 32 / sums.lanes;
    while (sums.slots < slots_all && sums.slots < WARPS_MAX * slots_of_warp) {
        int64_t more = spec->clusters[ks - 1 - sums.slots % ks];
        if (sums.slots > 0 && (sums.rows + more) * sums.lanes * 8 > ROWS_BYTES_MAX) break;
        sums.rows += more;
        sums.slots++;
    }
    sums.warps = km_divide_up(sums.slots, slots_of_warp);
    sums.groups = km_divide_up(slots_all, sums.slots);
    return sums;
}

// Sums of all products stay in registers, 80 at most. A warp reads, makes its rows and then has its products.
static product_shape products_of(const km_plan *plan, int64_t tile) {
    enum { REGISTERS_MAX = 80, COLUMNS_MAX = 4, REGISTERS_OF_THREE = 150 };
    int64_t eights = km_divide_up(plan->spec.features + 1, 8), rows = tile / 16, least = INT64_MAX;
    int64_t size = km_type_bytes(plan->spec.type), most = piece_of(plan->spec.features, size, 16);
    product_shape best = {0};
    for (int64_t columns = 1; columns <= COLUMNS_MAX && columns * rows * 8 <= REGISTERS_MAX; columns++) {
        int64_t groups = km_divide_up(eights, columns), piece = piece_of(columns, size, most);
        int64_t cost = groups * (columns * size / piece + 1 + 2 * columns);
        if (cost >= least) continue;
        least = cost;
        best.columns = columns;
        best.groups = groups;
        best.piece = piece;
    }
    // Sums, what is read, a lane's rows and their labels, others.
    int64_t registers = 8 * rows * best.columns + 2 * size * best.columns + 12 * rows + 50;
    best.resident = registers <= REGISTERS_OF_THREE ? 3 : 2;
    return best;
}

static product_shape plan_products(const km_plan *plan) {
    return products_of(plan, km_plan_value(plan, KM_PARAM_tile_clusters));
}

static tile_shape shape_of(const km_plan *plan) {
    int64_t form = km_plan_value(plan, KM_PARAM_form);
    tile_shape shape = {.half = is_half(form),
                        .few = is_few(form),
                        .tile_points = km_plan_value(plan, KM_PARAM_tile_points),
                        .tile_clusters = km_plan_value(plan, KM_PARAM_tile_clusters),
                        .tile_features = km_plan_value(plan, KM_PARAM_tile_features)};
    fill(&shape, &plan->spec);
    return shape;
}

// Ranges of points for products of doubles: as many as give all warps that fit one, with their share of the features.
static int64_t products_ranges(const km_plan *plan) {
    enum { WARPS = 4 };
    tile_shape shape = shape_of(plan);
    product_shape products = plan_products(plan);
    int64_t tiles = km_plan_value(plan, KM_PARAM_concurrent_restarts) * shape.groups / shape.tile_clusters;
    return plan->facts.units * products.resident * WARPS / (products.groups * tiles);
}

// Ranges of points, a block each (or as many as share the features and the slots): many, while their rows of sums stay
// small.
static int64_t grid_of(const km_plan *plan) {
    enum { WARPS_PER_UNIT = 48, ROWS_BYTES_MAX = 64 << 20, POINTS_MIN = 256 };
    int64_t row_bytes = plan->clusters_sum * (plan->spec.features + 1) * 8 *
                        km_plan_value(plan, KM_PARAM_concurrent_restarts);
    range_shape sums = ranges_of(plan);
    int64_t ranges = plan->facts.units * km_divide_up(WARPS_PER_UNIT, sums.warps * sums.parts * sums.groups);
    if (ranges > ROWS_BYTES_MAX / row_bytes) ranges = ROWS_BYTES_MAX / row_bytes;
    if (ranges < plan->facts.units) ranges = plan->facts.units;
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_products) ranges = products_ranges(plan);
    if (km_plan_value(plan, KM_PARAM_sums) == KM_WORD_sums_sorted) ranges = 2 * plan->facts.units;
    int64_t useful = plan->points ? km_divide_up(plan->points, POINTS_MIN) : ranges;
    if (ranges > useful) ranges = useful;
    return ranges < 1 ? 1 : ranges;
}

// Pieces of the points in the order of their labels: a team of lanes each, one wave of them.
static int64_t stretches_of(const km_plan *plan) {
    enum { WARPS_PER_UNIT = 32, POINTS_MIN = 32 };
    int64_t segments = plan->facts.units * WARPS_PER_UNIT;
    int64_t useful = plan->points ? km_divide_up(plan->points, POINTS_MIN) : segments;
    return segments < useful ? segments : useful;
}

// The same for products of doubles, which are twice as fast as plain arithmetic of doubles; each warp makes its rows.
static double products_adding(const km_plan *plan, const tiled_config *config) {
    product_shape products = products_of(plan, config->shape.tile_clusters);
    double columns = (double)((8 * products.columns + 6) * products.groups),
           rows = (double)config->shape.groups;
    double rate = 2 * plan->facts.fp64_per_cycle * (double)plan->facts.units * plan->facts.clock_ghz;
    return 1.2 * rows * columns / rate * km_cuda_issue_rate(plan);
}

// Thread instructions of adding a point to its rows, all K: rows in shared memory are bound by its banks.
static double adding_of(const km_plan *plan, const tiled_config *config) {
    double d = (double)plan->spec.features, ks = (double)plan->spec.clusters_count;
    int64_t how = sums_of(plan, (int)config->shape.few);
    if (how == KM_WORD_sums_sorted) return ks * (3000 + 10 * d);
    if (how == KM_WORD_sums_products) return products_adding(plan, config);
    range_shape sums = ranges_of(plan);
    return 2000 + 23 * ks * (double)(sums.lanes * sums.parts);
}

// Estimate ----------------------------------------------------------------------------------------------------

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
    estimate->feasible = config->resident > 0;
    if (!estimate->feasible) {
        km_plan_infeasible(plan, KM_DESIGN_TILED,
                           why_not ? why_not : "no tiles fit into registers and shared memory");
        return;
    }
    int64_t sums = sums_of(plan, (int)config->shape.few);
    double adding_ns = adding_of(plan, config) / km_cuda_issue_rate(plan);
    estimate->bytes_per_point = (1 + (sums == KM_WORD_sums_sorted ? ks : 1)) * d * size + ks * 12;
    estimate->memory_ns = estimate->bytes_per_point / plan->facts.bandwidth_gbs;
    estimate->tensor_ns = config->tensor_ns;
    estimate->issue_ns = config->issue_ns + adding_ns;
    estimate->operations_per_point = estimate->issue_ns * km_cuda_issue_rate(plan);
    estimate->total_ns = estimate->memory_ns + config->total_ns + adding_ns; // one kernel after the other
    if (sums == KM_WORD_sums_products) // both read the points while they work
        estimate->total_ns =
            config->total_ns + km_cuda_overlap(adding_ns, 1.2 * d * size / plan->facts.bandwidth_gbs);
    estimate->registers_per_thread = registers_limit(plan, &config->shape, config->resident);
    estimate->registers_spare = config->spare;
    estimate->shared_bytes_per_block = config->shape.shared_bytes;
    snprintf(estimate->reason, sizeof estimate->reason, "%s",
             config->shape.half ? "half precision first, near ties again" : "plain arithmetic");
    KM_CONFIG_PUT(found, best);
}

// Decision ----------------------------------------------------------------------------------------------------

static km_status check_fit(const km_plan *plan, const tile_shape *shape, km_error *err) {
    if (fits(plan, shape, km_plan_value(plan, KM_PARAM_blocks_per_sm))) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "tiles need %lld bytes of shared memory, which has not as many",
                   (long long)shape->shared_bytes);
}

static km_status check_few(const km_plan *plan, const tile_shape *shape, km_error *err) {
    int64_t points = shape->tile_points, clusters = shape->tile_clusters;
    if (points % FEW_POINTS || points > 16 * FEW_POINTS || clusters % 16 || clusters < k_max_of(plan) ||
        clusters > 96 || shape->tile_features != few_step(shape) ||
        km_plan_value(plan, KM_PARAM_blocks_per_sm) != 1)
        return km_fail(
            err, KM_ERROR_PLAN,
            "the form needs tile_points in steps of %d up to %d, tile_clusters in steps of 16 from K up "
            "to 96, %lld tile_features and one block resident",
            FEW_POINTS, 16 * FEW_POINTS, (long long)few_step(shape));
    return check_fit(plan, shape, err);
}

static km_status check_tiles(const km_plan *plan, const tile_shape *shape, km_error *err) {
    int64_t warp = plan->spec.type == KM_FLOAT64 ? 16 : 32;
    int64_t points = shape->tile_points, clusters = shape->tile_clusters;
    int64_t step = shape->half ? 16 : 16 / km_type_bytes(plan->spec.type);
    if (points % warp || clusters % WARP_CLUSTERS || (!shape->half && clusters > WARP_CLUSTERS) ||
        points / warp * (clusters / WARP_CLUSTERS) > 8)
        return km_fail(err, KM_ERROR_PLAN,
                       "tile_points must be a multiple of %lld, tile_clusters of %d (no more without "
                       "fp16), of 8 warps at most",
                       (long long)warp, WARP_CLUSTERS);
    if (shape->tile_features % step)
        return km_fail(err, KM_ERROR_PLAN, "tile_features must be a multiple of %lld", (long long)step);
    return check_fit(plan, shape, err);
}

static km_status check_sums(const km_plan *plan, const tile_shape *shape, km_error *err) {
    int64_t sums = km_plan_value(plan, KM_PARAM_sums);
    if (sums == KM_WORD_sums_chunks && k_max_of(plan) > RANGES_K_MAX)
        return km_fail(err, KM_ERROR_PLAN, "sums can be ranges up to K = %d only", RANGES_K_MAX);
    if (sums == KM_WORD_sums_products && (!shape->few || !has_double_products(plan)))
        return km_fail(err, KM_ERROR_PLAN,
                       "sums can be products only where centroids are resident, on sm_90 or sm_100");
    return KM_OK;
}

static km_status decide_tiles(km_plan *plan, const tiled_config *config, km_error *err) {
    int few = config->shape.few != 0;
    KM_TRY(km_plan_set(plan, KM_PARAM_form, form_of(&config->shape), err, "%s; %s",
                       few ? "tiles of centroids fit into shared memory, all of their features"
                           : "many clusters or features, or products that are no faster",
                       config->shape.half ? "tensor cores, ambiguous points are decided again in double"
                                          : "the type or the device asks for plain arithmetic"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_points, config->shape.tile_points, err, "%s",
                       few ? "16 for each of the warps that registers and shared memory hold"
                           : "points of a block, which share what is read of the centroids"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, config->shape.tile_clusters, err, "%s",
                       few ? "centroids of whole K whose scores a warp has in registers"
                           : "64 for each of the warps that have the same points"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_features, config->shape.tile_features, err,
                       few ? "%lld features, one product at a time"
                           : "%lld features in pieces that are padded little",
                       (long long)plan->spec.features));
    return km_plan_set(plan, KM_PARAM_blocks_per_sm, config->resident, err,
                       "blocks whose tiles fit into shared memory");
}

// What follows from the numbers, copied by the names.
static km_status decide_layout(km_plan *plan, km_error *err) {
    enum { FEW_REDO_BLOCKS = 6 }; // of a multiprocessor
    KM_TRY(km_plan_layout_make(plan, sizeof(decided), err));
    decided *it = plan->layout;
    int64_t d = plan->spec.features, resident = km_plan_value(plan, KM_PARAM_blocks_per_sm);
    int64_t slots = plan->spec.clusters_count * km_plan_value(plan, KM_PARAM_concurrent_restarts);
    it->shape = shape_of(plan);
    it->products = plan_products(plan);
    it->ranges = ranges_of(plan);
    it->resolve_grid = km_max(1, plan->facts.units * (it->shape.few ? FEW_REDO_BLOCKS : resident) / slots);
    int64_t warps = it->shape.point_warps * it->shape.cluster_warps * resident;
    it->round_ahead = warps < 8 ? 16 : it->shape.pad == 1 || warps < 16 ? 8 : 2;
    // A lane has the features of one 16-byte load.
    it->lane_numbers = it->shape.piece / km_type_bytes(plan->spec.type);
    for (it->lanes = 1; it->lanes < 32 && it->lanes * it->lane_numbers < d;) it->lanes *= 2;
    it->lane_parts = km_divide_up(d, it->lanes * it->lane_numbers);
    return KM_OK;
}

static km_status decide(km_plan *plan, const km_config *found, km_error *err) {
    tiled_config config;
    KM_CONFIG_GET(config, found);
    int64_t sums = sums_of(plan, (int)config.shape.few);
    KM_TRY(km_cuda_set_restarts(plan, err));
    KM_TRY(decide_tiles(plan, &config, err));
    tile_shape shape = shape_of(plan);
    KM_TRY(shape.few ? check_few(plan, &shape, err) : check_tiles(plan, &shape, err));
    KM_TRY(km_plan_set(plan, KM_PARAM_sums, sums, err, "%s", sums_reason(sums)));
    KM_TRY(check_sums(plan, &shape, err));
    if (sums == KM_WORD_sums_sorted)
        KM_TRY(km_plan_set(plan, KM_PARAM_segments, stretches_of(plan), err,
                           "points in the order of their labels, a team of lanes each"));
    KM_TRY(km_plan_set(plan, KM_PARAM_grid, grid_of(plan), err, "%s",
                       sums == KM_WORD_sums_sorted
                           ? "ranges of points while they are ordered"
                           : "ranges of points, each with its own sums, 64 MiB at most"));
    return decide_layout(plan, err);
}

// Names -------------------------------------------------------------------------------------------------------

static void name_ranges(km_env *env, const range_shape *sums) {
    km_env_set_int(env, "lanes", sums->lanes);
    km_env_set_int(env, "parts", sums->parts);
    km_env_set_int(env, "sum_warps", sums->warps);
    km_env_set_int(env, "group_slots", sums->slots);
    km_env_set_int(env, "group_rows", sums->rows);
}

static void name_sorted(km_env *env, const km_plan *plan, const decided *it) {
    int64_t passes = k_max_of(plan) > 256 ? 2 : 1; // of a sort by bytes
    km_env_set_int(env, "lanes", it->lanes);
    km_env_set_int(env, "numbers", it->lane_numbers);
    km_env_set_int(env, "parts", it->lane_parts);
    km_env_set_int(env, "sort_passes_count", passes);
    km_env_list(env, "sort_passes");
    for (int64_t pass = 0; pass < passes; pass++) km_env_item(env, "sort_passes", pass ? "1" : "0");
}

static void name_products(km_env *env, const product_shape *products) {
    km_env_set_int(env, "sum_columns", products->columns);
    km_env_set_int(env, "sum_groups", products->groups);
    km_env_set_int(env, "sum_piece", products->piece);
    km_env_set_int(env, "sum_resident", products->resident);
}

static void name_shape(km_env *env, const tile_shape *shape) {
    km_env_set_flag(env, "fp16", shape->half != 0);
    km_env_set_flag(env, "few", shape->few != 0);
    km_env_set_int(env, "tile", shape->tile_clusters);
    km_env_set_flag(env, "narrow", shape->pad == 1);
    km_env_set_flag(env, "taken_singly", shape->few || shape->pad == 1 || !shape->half);
    km_env_set(env, "labels", shape->few ? "resident" : "tiles");
    km_env_set(env, "scores", shape->half ? "half" : "plain");
    km_env_set(env, "k_ends", shape->pad == 1 ? "within" : "whole");
    km_env_set_flag(env, "several_warps", shape->cluster_warps > 1);
    km_env_set_int(env, "warp_points", shape->warp_points);
    km_env_set_int(env, "rows", shape->rows);
    km_env_set_int(env, "columns", shape->columns);
    km_env_set_int(env, "point_warps", shape->point_warps);
    km_env_set_int(env, "cluster_warps", shape->cluster_warps);
    km_env_set_int(env, "pad", shape->pad);
    km_env_set_int(env, "groups", shape->groups);
    km_env_set_int(env, "chunks", shape->chunks);
    km_env_set_int(env, "piece", shape->piece);
    if (!shape->few) return;
    km_env_set_int(env, "ahead", shape->ahead);
    km_env_set_int(env, "tile_slots", shape->tile_slots);
}

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    const km_spec *spec = &plan->spec;
    const decided *it = plan->layout;
    int64_t group = 0, offset = 0, sums = km_plan_value(plan, KM_PARAM_sums);
    (void)err;
    *root = "cuda/tiled/tiled.cu";
    km_cuda_names(env, plan);
    name_shape(env, &it->shape);
    km_env_set_flag(env, "async", spec->target.arch >= 80);
    km_env_set_flag(env, "sorted", sums == KM_WORD_sums_sorted);
    km_env_set_flag(env, "products", sums == KM_WORD_sums_products);
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
        name_ranges(env, &it->ranges);
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        km_env *k = km_cuda_name_k(env, spec, i, offset);
        km_env_set_int(k, "group", it->shape.few ? few_row(spec, it->shape.tile_clusters, i) : group);
        group += km_divide_up(spec->clusters[i], it->shape.pad);
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
    int64_t rows = restarts * shape->groups * shape->pad + shape->tile_clusters;
    int64_t table = rows * (size + 4 + shape->tile_features * shape->chunks * (shape->half ? 2 : size));
    int64_t points = n * (size * (1 + shape->half) + slots * (label + 4));
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
    // And lists of points, in order or to be decided again.
    rows[0] = (km_point_memory){"labels and lists within a pass", (label + lists) * (double)slots};
    rows[1] = (km_point_memory){"lengths of points",
                                (double)(km_type_bytes(plan->spec.type) * (1 + it->shape.half))};
    return 2;
}

const km_design_code km_design_tiled = {.estimate = estimate,
                                        .decide = decide,
                                        .names = names,
                                        .workspace_bytes = workspace_bytes,
                                        .point_memory = point_memory};

// SPDX-License-Identifier: MIT
// The CUDA design `tensor`: how the K list is laid out over the rows of matrix products, and what a pass costs.
#include "cost_cuda.h"
#include "planner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GROUPS = 8, ROWS_PER_TILE = 16 };

// One way to lay out a launch: how many tiles, slots of the first segment, levels of groups; and what it takes.
typedef struct attempt {
    km_tensor_part part;
    km_tensor_place places[KM_TENSOR_KS_MAX]; // part -1: left for another launch
    int64_t placed;                           // clusters
    int left;
} attempt;

// Sums of bytes take more registers than those of halves, and of more than 8 features more memory: there they pay with
// many clusters. A byte of added masks must not overflow: less than 256 slots of a K's lanes.
int km_tensor_in_bytes(const km_spec *spec) {
    enum { FEATURES_MAX = 16, FEATURES_ANY = 8, MANY = 40, CLUSTERS_MAX = 64 };
    int64_t sum = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) sum += spec->clusters[i];
    return spec->target.arch / 10 == 9 && spec->features <= (sum > MANY ? FEATURES_MAX : FEATURES_ANY) &&
           spec->clusters[spec->clusters_count - 1] <= CLUSTERS_MAX;
}

// Half precision tells distances of few features apart. That products are rounded once, when they are added in it,
// was measured on sm_90.
int km_tensor_rounds(const km_spec *spec) {
    enum { DISTANCES_MAX = 4 };
    return km_tensor_in_bytes(spec) && spec->features > DISTANCES_MAX;
}

// Of many features the sums do not fit into the registers of each warp.
int km_tensor_is_wide(const km_spec *spec) {
    enum { FEATURES_MIN = 21 }; // measured on an H200: at 18 slower by a fifth, at 24 faster by a tenth
    return spec->features >= FEATURES_MIN;
}

// Sums in shared memory leave registers for the scores of as many tiles as a K of 256 needs: eight groups of lanes
// with 32 slots each (templates/cuda/tensor/many.cu). Rounding takes at most 8 of its units from a point.
static int serves_in_shared(const km_spec *spec) {
    enum { FEATURES_MAX = 64, CLUSTERS_MAX = 256 };
    return spec->target.arch / 10 == 9 && spec->features <= FEATURES_MAX &&
           spec->clusters[spec->clusters_count - 1] <= CLUSTERS_MAX;
}

// Lines of 128 bytes that 32 points take in the wide form: three bytes of a feature, in fours of them.
static int64_t wide_lines(const km_spec *spec) {
    return (3 * ((spec->features + 3) / 4) + 1) / 2 * 2;
}

// Columns of sums of bytes, in eights: three of a feature; with distances a count, and two that hold squares.
static int64_t sum_tiles(const km_spec *spec) {
    return (3 * spec->features + (km_tensor_rounds(spec) ? 0 : 3) + 7) / 8;
}

// What products take of a tile of rows, in 16 bytes of a lane.
static int64_t planes_of(const km_spec *spec) {
    return km_tensor_rounds(spec) ? (spec->features + 7) / 8 + 1 : (spec->features + 3) / 4;
}

// Cycles of a scheduler for 32 points in the wide form, fitted to an H200 over d = 18..64 and 1 and 6 tiles: barriers
// and what waits, then scores and products of a tile.
static double wide_cycles(const km_tensor_part *part, const km_spec *spec) {
    double chunks = (double)((spec->features + 31) / 32), columns = (double)wide_lines(spec) / 2;
    return 660 + part->tiles * (138 + 13.7 * (12 * chunks + columns)) + 30 * part->levels;
}

// Sums in shared memory: blocks of 8 features that products take.
static int64_t in_shared_blocks(const km_spec *spec) {
    return spec->features <= 8 ? 1 : (spec->features + 15) / 16 * 2;
}

// Likewise, where sums lie in shared memory: scores of a tile, then a lane's point for each K.
// Fitted to an H200 over d = 2..64 and 4 to 16 tiles.
static double in_shared_cycles(const km_tensor_part *part, const km_spec *spec) {
    return 380 + part->tiles * (20 + 47 * (double)in_shared_blocks(spec)) +
           part->members * 24.0 * (double)spec->features;
}

// What points that wait cost: the more of them, the nearer the centroids of a large K are to each other.
static double waiting_cycles(const km_spec *spec, int k, int in_shared) {
    if (in_shared) {
        double points = 0.0175 * pow(k, 2 / (double)spec->features);
        return k * (points < 40 ? points : 40);
    }
    if (km_tensor_is_wide(spec)) return k > 16 ? 25.0 * (k - 16) : 0;
    return k > 20 && (km_tensor_rounds(spec) || !km_tensor_in_bytes(spec)) ? 4.0 * (k - 20) : 0;
}

// Cycles of a scheduler for 32 points: what a launch does for each, whatever its Ks, then for each tile. Fitted to an
// H200 over d = 2..32 and 1 to 10 tiles.
static double register_cycles(const km_tensor_part *part, const km_spec *spec) {
    double lane_d = (double)((spec->features + 3) / 4);
    double tile = 40 + lane_d * 50 + lane_d * lane_d * 4;
    if (km_tensor_is_wide(spec)) return wide_cycles(part, spec);
    if (km_tensor_rounds(spec))
        return 60 + 16.0 * (double)spec->features +
               (47 + 44 * (double)(planes_of(spec) - 1) + 8.0 * (double)sum_tiles(spec)) * part->tiles +
               30 * part->levels;
    if (km_tensor_in_bytes(spec))
        return 150 + (46 + 7.0 * (double)sum_tiles(spec)) * part->tiles + 30 * part->levels;
    return 100 + tile * part->tiles + 30 * part->levels + (part->first < 2 * part->tiles ? 12 : 0);
}

// Cycles of a scheduler for 32 points.
static double part_cycles(const km_tensor_part *part, const km_spec *spec) {
    return part->waiting + (part->in_shared ? in_shared_cycles(part, spec) : register_cycles(part, spec));
}

// Each K takes one group of lanes, its first segment or both, or the second segment of a group whose K leaves it.
static void try_segments(attempt *to, const km_spec *spec, const km_tensor_place *before) {
    int slots = 2 * to->part.tiles, first = to->part.first, groups = 0, second_used[GROUPS] = {0};
    for (int64_t i = spec->clusters_count - 1; i >= 0; i--) {
        km_tensor_place *place = &to->places[i];
        int k = spec->clusters[i], group = 0;
        *place = before[i];
        if (before[i].part >= 0) continue;
        while (group < groups && (second_used[group] || k > slots - first)) group++;
        if (group < groups) {
            *place = (km_tensor_place){0, (int16_t)group, 1, (int16_t)first, (int16_t)k, 0};
            second_used[group] = 1;
        } else if (groups < GROUPS && k <= slots) {
            *place = (km_tensor_place){0, (int16_t)groups, 1, 0, (int16_t)k, 0};
            second_used[groups++] = k > first;
        } else {
            to->left++;
            continue;
        }
        to->placed += k;
        to->part.waiting += waiting_cycles(spec, k, 0);
    }
}

// Each K takes 1, 2, 4 or 8 groups of lanes.
static void try_levels(attempt *to, const km_spec *spec, const km_tensor_place *before) {
    int slots = 2 * to->part.tiles, groups = 0;
    for (int64_t i = spec->clusters_count - 1; i >= 0; i--) {
        km_tensor_place *place = &to->places[i];
        int k = spec->clusters[i], span = 1;
        *place = before[i];
        if (before[i].part >= 0) continue;
        while (span * slots < k) span *= 2;
        if (groups + span > GROUPS) {
            to->left++;
            continue;
        }
        *place = (km_tensor_place){0, (int16_t)groups, (int16_t)span, 0, (int16_t)((k + span - 1) / span), 0};
        groups += span;
        to->placed += k;
        to->part.members++;
        to->part.waiting += waiting_cycles(spec, k, to->part.in_shared);
        while (1 << to->part.levels < span) to->part.levels++;
    }
}

// The next launch with the most clusters for its cycles; with `all`, of those that leave nothing.
static int best_part(attempt *best, const km_spec *spec, const km_tensor_place *before, int64_t tiles_max,
                     int in_shared, int all) {
    double best_worth = 0;
    for (int tiles = 1; tiles <= tiles_max; tiles++) {
        for (int first = in_shared ? 2 * tiles + 1 : tiles; first <= 2 * tiles + 1; first++) {
            attempt now = {.part = {.tiles = tiles, .first = first > 2 * tiles ? 2 * tiles : first}};
            now.part.in_shared = in_shared;
            if (first > 2 * tiles)
                try_levels(&now, spec, before);
            else
                try_segments(&now, spec, before);
            double worth = (double)now.placed / part_cycles(&now.part, spec);
            if (!now.placed || worth <= best_worth || (all && now.left)) continue;
            best_worth = worth;
            *best = now;
        }
    }
    return best_worth > 0;
}

// Cycles of a launch and of those that take what it leaves, each the best next one.
static double cycles_with_rest(const attempt *first, const km_spec *spec, int64_t tiles_max) {
    attempt now = *first, next = {0};
    double cycles = part_cycles(&now.part, spec);
    while (now.left && best_part(&next, spec, now.places, tiles_max, first->part.in_shared, 0)) {
        cycles += part_cycles(&next.part, spec);
        now = next;
    }
    return cycles;
}

int km_tensor_lay_out(km_tensor_layout *layout, const km_spec *spec, int64_t tiles_max, int in_shared) {
    *layout = (km_tensor_layout){0};
    if (spec->clusters_count > KM_TENSOR_KS_MAX) return 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        if (spec->clusters[i] > 2 * tiles_max * GROUPS) return 0;
        layout->places[i].part = -1;
    }
    for (int left = 1; left;) {
        attempt best = {0}, last = {0};
        if (layout->parts_count == KM_TENSOR_PARTS_MAX) return 0;
        if (!best_part(&best, spec, layout->places, tiles_max, in_shared, 0)) return 0;
        if (best.left && best_part(&last, spec, layout->places, tiles_max, in_shared, 1) &&
            part_cycles(&last.part, spec) < cycles_with_rest(&best, spec, tiles_max))
            best = last;
        for (int64_t i = 0; i < spec->clusters_count; i++) {
            if (layout->places[i].part >= 0 || best.places[i].part < 0) continue;
            layout->places[i] = best.places[i];
            layout->places[i].part = (int16_t)layout->parts_count;
            layout->places[i].row = (int16_t)best.part.rows;
            best.part.rows += spec->clusters[i];
        }
        layout->parts[layout->parts_count++] = best.part;
        left = best.left;
    }
    return 1;
}

// Registers of a thread, after the compiler's counts: what is there anyway, then for each tile sums, planes, scores.
static int64_t registers_needed(const km_plan *plan, int64_t tiles, int kept) {
    int64_t lane_d = (plan->spec.features + 3) / 4, sums = 4 * lane_d;
    int64_t planes = kept ? 4 * planes_of(&plan->spec) : 0;
    if (km_tensor_rounds(&plan->spec)) {
        // While scores are made, or while points that wait are decided.
        int64_t scoring = (kept ? 43 : 36) + 10 * tiles, deciding = 40 + 2 * plan->spec.features + 6 * tiles;
        return (scoring > deciding ? scoring : deciding) + tiles * (4 * sum_tiles(&plan->spec) + planes) +
               (plan->track_labels ? 28 : 0);
    }
    if (km_tensor_in_bytes(&plan->spec))
        return 48 + tiles * (4 * sum_tiles(&plan->spec) + planes + 7) + (kept ? 0 : 8) +
               (plan->track_labels ? 28 : 0);
    return 42 + 2 * lane_d + tiles * (sums + planes + 10) + (kept ? 0 : 8) + (plan->track_labels ? 28 : 0);
}

int64_t km_tensor_point_bytes(const km_spec *spec, int in_shared) {
    if (in_shared) return in_shared_blocks(spec) * 16 + spec->features * 4 + 2;
    if (km_tensor_is_wide(spec)) return wide_lines(spec) * 4;
    if (km_tensor_rounds(spec)) return (spec->features + 7) / 8 * 16 + sum_tiles(spec) * 8 + 2;
    return (spec->features + 3) / 4 * 16 + (km_tensor_in_bytes(spec) ? sum_tiles(spec) * 8 : 0);
}

// Tiles of a warp in shared memory, so that enough bytes are on their way to a multiprocessor.
static int64_t stages_needed(const km_plan *plan, int64_t warps) {
    enum { ON_THEIR_WAY = 40 << 10, LEAST = 3, MOST = 8 };
    int64_t tile = km_tensor_point_bytes(&plan->spec, 0) * 32, stages = 2 + ON_THEIR_WAY / (warps * tile);
    return stages < LEAST ? LEAST : stages > MOST ? MOST : stages;
}

static int64_t shared_needed(const km_plan *plan, const km_tensor_layout *layout, int64_t block,
                             int64_t stages) {
    int64_t d = plan->spec.features, planes = planes_of(&plan->spec), most = 0;
    for (int64_t p = 0; p < layout->parts_count; p++) {
        const km_tensor_part *part = &layout->parts[p];
        int64_t bytes =
            part->tiles * planes * 512 + part->rows * (8 * (d + 1) + 4 * d + 1) + part->tiles * 32;
        if (bytes > most) most = bytes;
    }
    return most + block / 32 * (stages * km_tensor_point_bytes(&plan->spec, 0) * 32 + 64 * 8 + 16 + 4 * d) +
           36 * d + plan->spec.clusters_count + 512;
}

int64_t km_tensor_points(const km_tensor_way *way) {
    return way->block / 2 * way->pairs;
}

// The wide form: registers, for `pairs` of columns that a warp compares at a time; bytes of shared memory.
static int64_t wide_registers(const km_plan *plan, int64_t tiles, int64_t warps, int64_t pairs) {
    int64_t chunks = (plan->spec.features + 31) / 32, own = (wide_lines(&plan->spec) / 2 + warps - 1) / warps;
    int64_t columns = own > 1 && (plan->spec.features + 3) / 4 % 4 ? own : 0, spare = pairs > 1 ? 46 : 36;
    return spare + 2 * tiles + 4 * tiles * own + pairs * (4 * tiles + 8 * chunks + 24) + columns +
           (plan->track_labels ? 16 : 0);
}

static int64_t wide_shared(const km_plan *plan, const km_tensor_layout *layout, const km_tensor_way *way) {
    int64_t d = plan->spec.features, warps = way->block / 32, step_tiles = warps * way->pairs / 2, most = 0;
    for (int64_t p = 0; p < layout->parts_count; p++) {
        const km_tensor_part *part = &layout->parts[p];
        int64_t bytes = part->tiles * (step_tiles * 1024 + (d + 31) / 32 * 1024 + 64 + 32) + part->rows;
        if (bytes > most) most = bytes;
    }
    return most + way->stages * step_tiles * (wide_lines(&plan->spec) * 128 + 4) + warps * 64 * 12 + 16 * d +
           warps * 4 * d + plan->spec.clusters_count + 512;
}

// Registers that a thread may have.
static int64_t registers_limit(const km_tensor_way *way, const km_plan *plan) {
    enum { MARGIN_SM_100 = 24 }; // there the compiler needs more than were counted
    int64_t limit = plan->facts.registers_per_unit / (way->block * way->resident) / 8 * 8;
    if (limit > plan->facts.registers_per_thread) limit = plan->facts.registers_per_thread;
    return plan->spec.target.arch >= 100 ? limit - MARGIN_SM_100 : limit;
}

// Whether the registers that are needed are there, with as many to spare as the compiler turned out to want.
static int has_room(km_tensor_way *way, const km_plan *plan) {
    way->spare = registers_limit(way, plan) - way->registers;
    return way->spare >= 0 && !km_plan_avoids(plan, KM_DESIGN_TENSOR, way->spare);
}

// Tiles of the launch with the most.
static int64_t tiles_most(const km_tensor_layout *layout) {
    int64_t most = 0;
    for (int64_t p = 0; p < layout->parts_count; p++)
        if (layout->parts[p].tiles > most) most = layout->parts[p].tiles;
    return most;
}

// Whether a K takes more than one group of lanes.
static int has_levels(const km_tensor_layout *layout) {
    for (int64_t p = 0; p < layout->parts_count; p++)
        if (layout->parts[p].levels > 0) return 1;
    return 0;
}

// Fills what follows from a layout in the wide form; 0 when it cannot be run.
static int judge_wide(km_tensor_way *way, const km_plan *plan, const km_tensor_layout *layout) {
    enum { STAGES_MAX = 6, ON_THEIR_WAY = 40 << 10 };
    const km_device_facts *facts = &plan->facts;
    way->registers = wide_registers(plan, tiles_most(layout), way->block / 32, way->pairs);
    int64_t step = way->block / 64 * way->pairs * wide_lines(&plan->spec) * 128 * way->resident;
    way->stages = 2 + (ON_THEIR_WAY + step - 1) / step;
    if (way->stages > STAGES_MAX) way->stages = STAGES_MAX;
    way->shared_bytes = wide_shared(plan, layout, way);
    if (!has_room(way, plan) || way->shared_bytes > facts->shared_bytes_per_block ||
        (way->shared_bytes + 1024) * way->resident > facts->shared_bytes_per_unit)
        return 0;
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz;
    way->launches = layout->parts_count;
    way->operations = 0;
    for (int64_t p = 0; p < layout->parts_count; p++)
        way->operations += part_cycles(&layout->parts[p], &plan->spec);
    way->memory_ns = (double)(way->launches * km_tensor_point_bytes(&plan->spec, 0)) / facts->bandwidth_gbs;
    // Of 16 points a warp has less to do between two barriers, which a second block fills. Columns should be shared
    // evenly.
    int64_t warps = way->block / 32, uneven = wide_lines(&plan->spec) / 2 % warps != 0;
    double wait = way->pairs > 1 ? 1 : way->resident > 1 ? 1.05 : 1.1;
    if (warps != 8) wait *= warps * way->resident < 8 ? 1.6 : warps < 8 ? 1.2 : uneven ? 1.3 : 0.95;
    way->issue_ns = way->operations * wait / rate;
    way->total_ns = pow(pow(way->memory_ns, 3) + pow(way->issue_ns, 3), 1.0 / 3); // they wait for each other
    return 1;
}

// Likewise, with the better number of columns that a warp compares at a time, or the plan's.
static int judge_pairs(km_tensor_way *way, const km_plan *plan, const km_tensor_layout *layout) {
    km_tensor_way best = {0};
    int64_t points = 0;
    if (!km_plan_fixed(plan, KM_PARAM_tile_points, &points)) points = km_plan_get(plan, "tile_points");
    for (way->pairs = 1; way->pairs <= 2; way->pairs++) {
        if (points > 0 && points != km_tensor_points(way)) continue;
        if (judge_wide(way, plan, layout) && (!best.block || way->total_ns <= best.total_ns)) best = *way;
    }
    if (best.block) *way = best;
    return best.block > 0;
}

// Sums in shared memory: registers; bytes of shared memory.
static int64_t in_shared_registers(const km_plan *plan, int64_t tiles) {
    return 36 + 25 * tiles / 2 +
           in_shared_blocks(&plan->spec) / 2 * 8; // most hold planes before they are needed
}

static int64_t in_shared_bytes(const km_plan *plan, const km_tensor_layout *layout,
                               const km_tensor_way *way) {
    int64_t d = plan->spec.features, most = 0, tile = 32 * km_tensor_point_bytes(&plan->spec, 1);
    for (int64_t p = 0; p < layout->parts_count; p++) {
        const km_tensor_part *part = &layout->parts[p];
        int64_t ring = way->block / 32 * (way->stages * tile + 528), centroids = 4 * d * part->rows;
        int64_t bytes = part->tiles * (in_shared_blocks(&plan->spec) * 512 + 128 + 32) +
                        part->rows * (8 * (d | 1) + 5) + (ring > centroids ? ring : centroids);
        if (bytes > most) most = bytes;
    }
    return most + 48 * d + (plan->track_labels ? 5 : 1) * plan->spec.clusters_count + 768;
}

// Fills what follows from a layout where sums lie in shared memory; 0 when it cannot be run.
static int judge_in_shared(km_tensor_way *way, const km_plan *plan, const km_tensor_layout *layout) {
    enum { ON_THEIR_WAY = 32 << 10, STAGES_MIN = 2, STAGES_MAX = 4 };
    const km_device_facts *facts = &plan->facts;
    way->registers = in_shared_registers(plan, tiles_most(layout));
    way->shared_bytes = INT64_MAX;
    int64_t tiles = ON_THEIR_WAY / (way->block * way->resident * km_tensor_point_bytes(&plan->spec, 1));
    for (way->stages = 2 + tiles < STAGES_MAX ? 2 + tiles : STAGES_MAX; way->stages >= STAGES_MIN;
         way->stages--) {
        way->shared_bytes = in_shared_bytes(plan, layout, way);
        if ((way->shared_bytes + 1024) * way->resident <= facts->shared_bytes_per_unit) break;
    }
    if (way->stages < STAGES_MIN || !has_room(way, plan) || way->shared_bytes > facts->shared_bytes_per_block)
        return 0;
    double cycles = 0, warps = (double)(way->block * way->resident) / 128; // of a scheduler
    for (int64_t p = 0; p < layout->parts_count; p++) cycles += part_cycles(&layout->parts[p], &plan->spec);
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz;
    way->launches = layout->parts_count;
    way->operations = cycles;
    way->memory_ns = (double)(way->launches * km_tensor_point_bytes(&plan->spec, 1)) / facts->bandwidth_gbs;
    double alone = warps > 1 ? 1 : 1.35; // measured: nothing is done while the one warp waits
    way->issue_ns = alone * cycles * (0.8 + 0.8 / warps) * (1 + 0.02 * (double)way->resident) / rate;
    way->total_ns = pow(pow(way->memory_ns, 3) + pow(way->issue_ns, 3), 1.0 / 3); // they wait for each other
    return 1;
}

// Fills what follows from a layout, and from the way's tiles, block and resident; 0 when it cannot be run.
static int judge(km_tensor_way *way, const km_plan *plan, const km_tensor_layout *layout) {
    if (way->in_shared) return judge_in_shared(way, plan, layout);
    if (km_tensor_is_wide(&plan->spec)) return judge_pairs(way, plan, layout);
    const km_device_facts *facts = &plan->facts;
    int64_t d = plan->spec.features, block = way->block, resident = way->resident;
    int64_t limit = registers_limit(way, plan), most = tiles_most(layout);
    way->kept = registers_needed(plan, most, 1) <= limit;
    way->registers = registers_needed(plan, most, way->kept);
    way->stages = stages_needed(plan, block * resident / 32);
    // Few scores leave registers for twice as many at a time, which hides what a single step waits for.
    way->pairs = km_tensor_rounds(&plan->spec) || (most <= 2 && d <= 8) ? 2 : 1;
    way->shared_bytes = shared_needed(plan, layout, block, way->stages);
    // Seen with NVRTC 13: rows of odd length and many tiles take a few registers more than a text has that reads
    // ahead; 9 tiles, or 7 with groups that share a K, do not fit at all.
    if (km_tensor_rounds(&plan->spec)) {
        int levels = has_levels(layout), close = way->registers > limit - 4;
        if (most > 8 || (levels && most > 6) || (close && (d % 4 != 0 || (levels && d > 8)))) return 0;
        way->tight = d % 4 != 0 || most > 6;
    }
    if (!km_tensor_in_bytes(&plan->spec) && most > 10) return 0; // likewise, of halves
    if (!has_room(way, plan)) return 0;
    if (way->shared_bytes > facts->shared_bytes_per_block) return 0;
    if (way->shared_bytes * resident > facts->shared_bytes_per_unit) return 0;
    double cycles = 0, warps = (double)(block * resident) / 128;
    double crowd = d > 12 && warps > 3 ? 1.08 : 1; // measured: more warps than that get in each other's way
    for (int64_t p = 0; p < layout->parts_count; p++) cycles += part_cycles(&layout->parts[p], &plan->spec);
    double rate = 4 * 32 * (double)facts->units * facts->clock_ghz; // points of all schedulers in a cycle
    way->launches = layout->parts_count;
    way->operations = cycles;
    way->memory_ns =
        (double)(layout->parts_count * km_tensor_point_bytes(&plan->spec, 0)) / facts->bandwidth_gbs;
    int distances = km_tensor_in_bytes(&plan->spec) && !km_tensor_rounds(&plan->spec);
    double wait = distances ? (0.7 + 0.9 / warps) * (1 + 0.03 * (double)(resident - 1))
                            : (0.91 + 0.25 / warps) * (1 + 0.01 * (double)resident);
    way->issue_ns = crowd * cycles * wait / rate;
    way->total_ns = pow(pow(way->memory_ns, 3) + pow(way->issue_ns, 3), 1.0 / 3); // they wait for each other
    return 1;
}

int km_tensor_judge(km_tensor_way *way, const km_plan *plan) {
    km_tensor_layout layout;
    return km_tensor_lay_out(&layout, &plan->spec, way->tiles, way->in_shared) && judge(way, plan, &layout);
}

const char *km_tensor_refusal(const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    if (spec->type != KM_FLOAT32) return "its products give the precision of float32";
    if (spec->target.arch < 80) return "its integer products need sm_80 or later";
    if (plan->weighted) return "points have weights";
    if (spec->features > 128) return "a score of more than 128 features has no place in 31 bits";
    if (spec->clusters_count > KM_TENSOR_KS_MAX) return "the list has too many K";
    return NULL;
}

// The best way with sums in registers or in shared memory, if it is better than `best`.
static int find_better(km_tensor_way *best, const km_plan *plan, int in_shared) {
    enum { TILES_MAX = 12, TILES_MAX_IN_SHARED = 16 };
    static const int64_t blocks[] = {128, 256, 384, 512, 768};
    int found = 0;
    int64_t fixed_tiles = 0, fixed_launches = 0, fixed_block = 0, fixed_resident = 0;
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &fixed_tiles);
    km_plan_fixed(plan, KM_PARAM_launches, &fixed_launches);
    km_plan_fixed(plan, KM_PARAM_block, &fixed_block);
    km_plan_fixed(plan, KM_PARAM_resident, &fixed_resident);
    for (int64_t tiles = 1; tiles <= (in_shared ? TILES_MAX_IN_SHARED : TILES_MAX); tiles++) {
        km_tensor_layout layout; // made once, as it takes longer than all that follows from it
        if (fixed_tiles && fixed_tiles != tiles * ROWS_PER_TILE) continue;
        if (!km_tensor_lay_out(&layout, &plan->spec, tiles, in_shared)) continue;
        if (fixed_tiles && tiles_most(&layout) != tiles) continue; // the list needs no launch of so many
        if (fixed_launches && fixed_launches != layout.parts_count) continue;
        for (int b = 0; b < (int)(sizeof blocks / sizeof *blocks); b++)
            for (int64_t resident = 1; resident <= 4; resident++) {
                km_tensor_way way = {
                    .tiles = tiles, .block = blocks[b], .resident = resident, .in_shared = in_shared};
                if (fixed_block && fixed_block != blocks[b]) continue;
                if (fixed_resident && fixed_resident != resident) continue;
                if (!judge(&way, plan, &layout)) continue;
                if (best->block && way.total_ns >= best->total_ns) continue;
                *best = way;
                found = 1;
            }
    }
    return found;
}

int km_tensor_best(km_tensor_way *best, const km_plan *plan) {
    int64_t in_shared = -1; // either
    int found = 0;
    km_plan_fixed(plan, KM_PARAM_sums_in_shared, &in_shared);
    *best = (km_tensor_way){0};
    if (in_shared != 1) found |= find_better(best, plan, 0);
    if (in_shared != 0 && serves_in_shared(&plan->spec)) found |= find_better(best, plan, 1);
    return found;
}

// SPDX-License-Identifier: MIT
// The CUDA planner: estimates each design from pipes, registers and bytes, and takes the fastest.
#include "cost_cuda.h"
#include "../base/error.h"
#include "../base/size.h"
#include "memory.h"
#include "planner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Sharing the K list ----------------------------------------------------------------------------------------

void km_cuda_share(int32_t *share, const km_spec *spec, int64_t shares) {
    int64_t load[KM_CUDA_SHARES_MAX] = {0};
    for (int64_t i = spec->clusters_count - 1; i >= 0; i--) {
        int64_t least = 0;
        for (int64_t group = 1; group < shares; group++)
            if (load[group] < load[least]) least = group;
        share[i] = (int32_t)least;
        load[least] += spec->clusters[i] - 1;
    }
}

int64_t km_cuda_sums_of(const km_plan *plan, int64_t k, int64_t team) {
    return (k - 1) * (plan->spec.features / team + 1) + (plan->weighted ? 1 : 0);
}

int64_t km_cuda_run(const km_spec *spec) {
    if (spec->type == KM_FLOAT64) return spec->features % 2 ? 2 : 1;
    return spec->features % 4 == 0 ? 1 : spec->features % 2 == 0 ? 2 : 4;
}

// What all designs share ------------------------------------------------------------------------------------

// Thread instructions of the type's arithmetic that the device issues in a nanosecond.
static double issue_rate(const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    double lanes = plan->spec.type == KM_FLOAT64 ? facts->fp64_per_cycle : facts->fp32_per_cycle;
    return lanes * (double)facts->units * facts->clock_ghz;
}

// Two pipes at work at the same time, neither quite alone.
static double together(double a, double b) {
    return pow(pow(a, 8) + pow(b, 8), 1.0 / 8);
}

// A pass over few points takes little more time for several restarts, so it serves several.
static int64_t restarts_in_flight(const km_plan *plan) {
    enum { POINTS_ENOUGH = 4 << 20, COPIES_MAX = 64 };
    if (!plan->points) return 1;
    int64_t copies = POINTS_ENOUGH / plan->points;
    if (copies > plan->spec.restarts) copies = plan->spec.restarts;
    if (copies > COPIES_MAX) copies = COPIES_MAX;
    if (plan->in_flight_max && copies > plan->in_flight_max) copies = plan->in_flight_max;
    return copies < 1 ? 1 : copies;
}

// What the launches of a pass and the steps after them cost beside the work on points, a point, if each launch costs
// so many nanoseconds.
static double launches_ns(const km_plan *plan, int64_t launches, double each_ns) {
    enum { POINTS_MANY = 1 << 25 };
    double points = plan->points ? (double)(plan->points * restarts_in_flight(plan)) : POINTS_MANY;
    return (double)launches * each_ns / points;
}

static km_status set_copies(km_plan *plan, km_error *err) {
    return km_plan_set(plan, KM_PARAM_restarts_in_flight, restarts_in_flight(plan), err, "%s",
                       plan->in_flight_max ? "as many as the free memory holds"
                       : plan->points      ? "restarts until a pass has 4 million points, or all of them"
                                           : "many points: one restart of each K fills the device");
}

// Values to try for a number: the user's own when he fixed it.
static int64_t values_to_try(int64_t *values, const int64_t *all, int64_t count, const km_plan *plan,
                             km_param param) {
    if (km_plan_fixed(plan, param, values)) return 1;
    memcpy(values, all, (size_t)count * sizeof *values);
    return count;
}

#define TRY_ALL(name, ...)                                                                                   \
    static const int64_t name##_all[] = {__VA_ARGS__};                                                       \
    int64_t name[sizeof name##_all / sizeof *name##_all];                                                    \
    int64_t name##_count =                                                                                   \
        values_to_try(name, name##_all, sizeof name##_all / sizeof *name##_all, plan, KM_PARAM_##name)

// registers -------------------------------------------------------------------------------------------------

// One way to run the registers design.
typedef struct registers_way {
    int64_t points, prefetch, split, launches, team, block, resident;
    int64_t registers, register_limit, shared_bytes;
    double operations; // of all warp groups, per point
    double memory_ns, issue_ns, total_ns;
} registers_way;

// What the groups need when the K list is shared out over split x launches of them.
typedef struct registers_groups {
    int64_t sums_max; // sums that a thread of a group keeps, at most
    int64_t k_max;
    double operations_busy; // per point, of the busiest group of each launch, added up
    double operations;      // per point, of all groups
    double code;            // instructions for one point of a launch's groups together, at most
    int64_t idle;           // groups without a K of two or more
} registers_groups;

static registers_groups registers_share(const km_plan *plan, const registers_way *way) {
    const km_spec *spec = &plan->spec;
    int64_t team = way->team, split = way->split, launches = way->launches, own = spec->features / team;
    int64_t vector = 16 / km_type_bytes(plan->spec.type);
    double beside =
        vector == 2 ? 0.5 : 1; // what is no arithmetic of doubles has the other half of the issue slots
    int64_t exchange = team == 4 ? 4 : team == 2 ? 2 : 0; // shuffles and additions for one score
    // Labels are chosen, then packed four at a time or written one by one.
    int64_t choose = plan->track_labels ? 1 : 0, label = !choose ? 0 : way->points % 4 == 0 ? 4 : 12;
    registers_groups groups = {0};
    int32_t share[KM_RANGE_MAX];
    km_cuda_share(share, spec, split * launches);
    for (int64_t part = 0; part < launches; part++) {
        double code = 0, busiest = 0;
        for (int64_t group = part * split; group < (part + 1) * split; group++) {
            int64_t sums = 0, others = 0;
            // Points come in; for each score its product, the comparison and the count; planes once a tile.
            double operations = beside * (2 * (double)(own / vector + 1) + 30 / (double)way->points);
            for (int64_t i = 0; i < spec->clusters_count; i++) {
                if (share[i] != group) continue;
                int64_t k = spec->clusters[i];
                sums += km_cuda_sums_of(plan, k, team);
                operations += (double)(k - 1) * (double)(2 * own + 1 + exchange);
                operations += beside * ((double)(k - 1) * (2.5 + (double)choose) + (double)label);
                operations += beside * (double)((k - 1) * (own / 2 + 1)) / (double)way->points;
                others += k - 1;
                if (k > groups.k_max) groups.k_max = k;
            }
            if (sums > groups.sums_max) groups.sums_max = sums;
            if (operations > busiest) busiest = operations;
            groups.operations += operations;
            groups.idle += !others;
            code += operations;
        }
        groups.operations_busy += busiest;
        if (code > groups.code) groups.code = code;
    }
    return groups;
}

// Registers of a thread, calibrated against the compiler's own count for sm_90 over d = 1..64 and lists up to 2..12.
static int64_t registers_needed(const km_plan *plan, const registers_way *way,
                                const registers_groups *groups) {
    int64_t own = plan->spec.features / way->team, words = km_type_bytes(plan->spec.type) / 4;
    int64_t counts = words == 2 && !plan->weighted ? groups->sums_max / (own + 1) : 0; // integers beside sums
    int64_t points = way->points * (own + (plan->weighted ? 1 : 0)),
            scores = way->points * (groups->k_max - 1);
    int64_t labels = plan->track_labels ? 2 * way->points + 12 : 0, weights = plan->weighted ? 4 : 0;
    int64_t pieces = own * km_type_bytes(plan->spec.type) / 16,
            uneven = pieces > 1 && pieces % 2 == 0 && 32 % pieces ? 16 : 0;
    int64_t others = 20 + labels + weights + uneven;
    if (words == 2) {
        others += own % 4 ? 80 : 40;
        return 2 * (groups->sums_max - counts + points + scores) + counts + others;
    }
    // Scores on their way between lanes all live at the same time, those of a small K do not; but elsewhere more of
    // them do, as compilers showed.
    int64_t few = plan->spec.target.arch == 90 ? 8 : 32;
    if (way->team > 1)
        others += way->points + 16;
    else if (groups->k_max > 8)
        scores = scores * 3 / 4;
    else
        scores = scores / 2 < few ? scores / 2 : few;
    return groups->sums_max + points + scores + others;
}

// What issued instructions wait for, as a factor. Latency is hidden by other warps and by other points; a block's warps
// that do different work meet at each tile; code that does not fit the instruction cache is waited for, more so where
// groups of warps run different parts of it. Fitted to times of an H200.
static double registers_waits(const km_plan *plan, const registers_way *way, const registers_groups *groups) {
    enum { CODE_CACHED = 2000, CODE_CACHED_SPLIT = 1600 };
    double warps = (double)(way->block * way->resident) / 128; // of a scheduler
    double hidden = 1 + (0.4 + 0.6 / (double)way->points) / warps;
    if (plan->spec.type == KM_FLOAT64) hidden = 1.2 + 1 / (double)way->points; // more warps did not help
    if (!way->prefetch) hidden *= 1.5; // the loads of points are waited for
    if (way->team > 1) hidden *= 1.1;  // exchanges are, too
    hidden *= 1 + (plan->spec.type == KM_FLOAT64 ? 0.02 : 0.08) * (double)(way->split - 1);
    double cached = way->split > 1 ? CODE_CACHED_SPLIT : CODE_CACHED;
    double code = groups->code * (double)way->points / cached;
    if (code > 1) hidden *= 1 + (way->split > 1 ? 1.4 : 0.4) * (code - 1);
    return hidden;
}

static int64_t registers_shared_bytes(const km_plan *plan, const registers_way *way,
                                      const registers_groups *groups) {
    const km_spec *spec = &plan->spec;
    int64_t own = spec->features / way->team, size = km_type_bytes(plan->spec.type), vector = 16 / size;
    int64_t warps = way->block / 32, stages = way->prefetch ? way->prefetch + 1 : 0;
    int64_t planes = (plan->clusters_sum - spec->clusters_count + 1) * (own + vector) * way->team * size;
    int64_t ring = way->block / way->split * stages * way->points * (own + (plan->weighted ? 1 : 0)) * size;
    int64_t sums = warps * (groups->sums_max * way->team * 8 + 32 / way->team * 33 * size);
    return planes + ring + sums + spec->clusters_count * 4 + 256;
}

// Whether the way can be run; fills everything else from points to resident. Every group needs work, and a number that
// the user fixed is believed to fit a little longer than an estimate.
static int registers_judge(registers_way *way, const km_plan *plan) {
    enum { CODE_MAX = 3000, BARRIERS_MAX = 15, DOUBLES_MAX = 4, LAUNCH_NS = 12000 };
    // The count was calibrated on sm_90, over lists that need few launches.
    enum { MARGIN_FIXED = -24, MARGIN = 3, MARGIN_WIDE = 8, MARGIN_ELSEWHERE = 20 };
    int64_t fixed, margin = way->launches > 3 ? MARGIN_WIDE : MARGIN;
    if (plan->spec.target.arch != 90) margin = MARGIN_ELSEWHERE;
    if (km_plan_fixed(plan, KM_PARAM_points_per_thread, &fixed)) margin = MARGIN_FIXED;
    const km_device_facts *facts = &plan->facts;
    registers_groups groups = registers_share(plan, way);
    if (way->team > 1 && groups.k_max > 8) margin += MARGIN_WIDE;
    if (groups.idle && way->split * way->launches > 1) return 0;
    if (groups.code * (double)way->points > CODE_MAX) return 0;
    if (plan->spec.type == KM_FLOAT64 && way->points > DOUBLES_MAX) return 0; // scores of more do not fit
    if (way->prefetch && plan->spec.target.arch < 80) return 0; // no copies that run by themselves
    if (way->prefetch && way->split > 1 && way->block / way->split / 32 > BARRIERS_MAX) return 0;
    way->registers = registers_needed(plan, way, &groups);
    way->register_limit = facts->registers_per_unit / (way->block * way->resident) / 8 * 8;
    if (way->register_limit > facts->registers_per_thread) way->register_limit = facts->registers_per_thread;
    if (way->registers > way->register_limit - margin) return 0;
    if (km_plan_avoids(plan, KM_DESIGN_REGISTERS, way->register_limit - way->registers)) return 0;
    way->shared_bytes = registers_shared_bytes(plan, way, &groups);
    if (way->shared_bytes > facts->shared_bytes_per_block ||
        way->shared_bytes > facts->shared_bytes_per_unit / way->resident - 1024)
        return 0;
    double reads = (double)way->launches * (1 + 0.1 * (double)(way->split - 1));
    if (!way->prefetch) reads = (double)way->launches * (1 + 0.25 * (double)(way->split - 1));
    way->operations = groups.operations * (double)way->team;
    way->memory_ns =
        reads * (double)(plan->spec.features * km_type_bytes(plan->spec.type)) / facts->bandwidth_gbs;
    way->issue_ns = groups.operations_busy * (double)(way->split * way->team) / issue_rate(plan) *
                    registers_waits(plan, way, &groups);
    const double measured = 0.95; // on an H200 all lists take 3 to 9% less than the two pipes say
    way->total_ns =
        measured * together(way->memory_ns, way->issue_ns) + launches_ns(plan, way->launches, LAUNCH_NS);
    return 1;
}

// Whether the scores' planes are constant memory: one copy of them, the same for all lanes. Compilers keep those of
// doubles in registers where they can, so there must be some left.
int km_cuda_const_planes(const km_plan *plan) {
    enum { SPARE = 12 };
    if (km_plan_get(plan, "team") > 1 || km_plan_get(plan, "restarts_in_flight") > 1) return 0;
    if (plan->spec.type == KM_FLOAT32) return 1;
    registers_way way = {.points = km_plan_get(plan, "points_per_thread"),
                         .split = km_plan_get(plan, "split"),
                         .launches = km_plan_get(plan, "launches"),
                         .team = 1};
    registers_groups groups = registers_share(plan, &way);
    int64_t threads = km_plan_get(plan, "block") * km_plan_get(plan, "resident");
    return registers_needed(plan, &way, &groups) + SPARE <= plan->facts.registers_per_unit / threads;
}

// The fastest way for one share of the K list; 0 when there is none.
static int registers_best_of_share(registers_way *best, const km_plan *plan, int64_t split, int64_t launches,
                                   int64_t team) {
    TRY_ALL(points_per_thread, 1, 2, 3, 4, 6, 8, 12);
    TRY_ALL(prefetch, 0, 1);
    TRY_ALL(block, 256, 384, 512, 768, 1024);
    TRY_ALL(resident, 1);
    int found = 0;
    for (int64_t i = 0; i < points_per_thread_count * prefetch_count * block_count * resident_count; i++) {
        int64_t r = i % resident_count, b = i / resident_count % block_count;
        int64_t f = i / resident_count / block_count % prefetch_count;
        int64_t p = i / resident_count / block_count / prefetch_count;
        registers_way way = {points_per_thread[p],
                             prefetch[f],
                             split,
                             launches,
                             team,
                             block[b],
                             resident[r],
                             0,
                             0,
                             0,
                             0,
                             0,
                             0,
                             0};
        if (way.points % km_cuda_run(&plan->spec) || way.block % (32 * split) || way.block < 128) continue;
        if (!registers_judge(&way, plan)) continue;
        if (found && way.total_ns >= best->total_ns) continue;
        *best = way;
        found = 1;
    }
    return found;
}

static int registers_best(registers_way *best, const km_plan *plan) {
    TRY_ALL(split, 1, 2, 3, 4);
    TRY_ALL(launches, 1, 2, 3, 4, 6, 8, 10, 12, 16);
    TRY_ALL(team, 1, 2, 4);
    int found = 0;
    for (int64_t i = 0; i < team_count * split_count * launches_count; i++) {
        int64_t s = split[i / launches_count % split_count], l = launches[i % launches_count];
        int64_t t = team[i / launches_count / split_count];
        registers_way way = {0};
        if (t > 1 && plan->spec.features % (t * 16 / km_type_bytes(plan->spec.type)))
            continue; // a lane loads whole 16 bytes
        if (s * l > KM_CUDA_SHARES_MAX || (s * l > 1 && s * l > plan->spec.clusters_count)) continue;
        if (!registers_best_of_share(&way, plan, s, l, t)) continue;
        if (found && way.total_ns >= best->total_ns) continue;
        *best = way;
        found = 1;
    }
    return found;
}

static void registers_estimate(registers_way *way, km_plan *plan) {
    km_estimate *estimate = &plan->estimates[KM_DESIGN_REGISTERS];
    estimate->design = KM_DESIGN_REGISTERS;
    estimate->feasible = registers_best(way, plan);
    if (!estimate->feasible) {
        km_plan_no_way(plan, KM_DESIGN_REGISTERS, "the sums of the K list do not fit into registers");
        return;
    }
    estimate->bytes_per_point =
        (double)(way->launches * plan->spec.features * km_type_bytes(plan->spec.type));
    estimate->operations_per_point = way->operations;
    estimate->memory_ns = way->memory_ns;
    estimate->issue_ns = way->issue_ns;
    estimate->total_ns = way->total_ns;
    estimate->registers_per_thread = way->registers;
    estimate->registers_spare = way->register_limit - way->registers;
    estimate->shared_bytes_per_block = way->shared_bytes;
}

// Blocks of a copy: all copies together fill the device once, and no block is without a tile.
static int64_t registers_grid(const km_plan *plan) {
    int64_t tile = km_plan_get(plan, "block") / km_plan_get(plan, "split") / km_plan_get(plan, "team") *
                   km_plan_get(plan, "points_per_thread");
    int64_t grid =
        plan->facts.units * km_plan_get(plan, "resident") / km_plan_get(plan, "restarts_in_flight");
    int64_t tiles = plan->points ? (plan->points + tile - 1) / tile : grid;
    if (grid > tiles) grid = tiles;
    return grid < 1 ? 1 : grid;
}

static km_status registers_plan(km_plan *plan, const registers_way *way, km_error *err) {
    KM_TRY(set_copies(plan, err));
    KM_TRY(km_plan_set(plan, KM_PARAM_points_per_thread, way->points, err,
                       "independent work hides latency; about %lld of %lld registers are used",
                       (long long)way->registers, (long long)way->register_limit));
    KM_TRY(km_plan_set(plan, KM_PARAM_prefetch, way->prefetch, err, "%s",
                       way->prefetch ? "the next points are fetched while these are worked on"
                                     : "copies that run by themselves need sm_80"));
    KM_TRY(km_plan_set(plan, KM_PARAM_block, way->block, err,
                       "one block fills a multiprocessor: fewest partial sums"));
    KM_TRY(
        km_plan_set(plan, KM_PARAM_resident, way->resident, err, "the block is as large as registers allow"));
    KM_TRY(km_plan_set(plan, KM_PARAM_split, way->split, err, "%s",
                       way->split > 1 ? "so many threads share the sums of the K list"
                                      : "a thread's registers hold the sums of the whole K list"));
    KM_TRY(km_plan_set(plan, KM_PARAM_team, way->team, err, "%s",
                       way->team > 1
                           ? "so many lanes share a point, as one has no room for its features' sums"
                           : "a lane holds whole points"));
    KM_TRY(km_plan_set(plan, KM_PARAM_launches, way->launches, err, "%s",
                       way->launches > 1 ? "a block's registers do not hold the sums of the whole K list"
                                         : "one read of the points serves every K"));
    return km_plan_set(plan, KM_PARAM_grid, registers_grid(plan), err,
                       "%lld multiprocessors, filled once by all copies", (long long)plan->facts.units);
}

// tensor ----------------------------------------------------------------------------------------------------

static void tensor_estimate(km_tensor_way *way, km_plan *plan) {
    enum { LAUNCH_NS = 16000, LAUNCH_IN_SHARED_NS = 45000 }; // each block makes the planes of its launch
    km_estimate *estimate = &plan->estimates[KM_DESIGN_TENSOR];
    const char *refusal = km_tensor_refusal(plan);
    estimate->design = KM_DESIGN_TENSOR;
    estimate->feasible = !refusal && km_tensor_best(way, plan);
    if (!estimate->feasible) {
        km_plan_no_way(plan, KM_DESIGN_TENSOR,
                       refusal
                           ? refusal
                           : "neither a warp's registers nor a block's shared memory hold a K and its sums");
        return;
    }
    estimate->bytes_per_point = (double)(way->launches * km_tensor_point_bytes(&plan->spec, way->in_shared));
    estimate->operations_per_point = way->operations;
    estimate->memory_ns = way->memory_ns;
    estimate->issue_ns = way->issue_ns;
    estimate->total_ns =
        way->total_ns + launches_ns(plan, way->launches, way->in_shared ? LAUNCH_IN_SHARED_NS : LAUNCH_NS);
    estimate->registers_per_thread = way->registers;
    estimate->registers_spare = way->spare;
    estimate->shared_bytes_per_block = way->shared_bytes;
}

// Blocks of a copy: all copies together fill the device once, and no warp is without a tile of 32 points.
static int64_t tensor_grid(const km_plan *plan) {
    int wide = km_tensor_is_wide(&plan->spec) && !km_plan_get(plan, "sums_in_shared");
    int64_t points = km_plan_get(plan, wide ? "tile_points" : "block");
    int64_t grid =
        plan->facts.units * km_plan_get(plan, "resident") / km_plan_get(plan, "restarts_in_flight");
    int64_t blocks = plan->points ? (plan->points + points - 1) / points : grid;
    if (grid > blocks) grid = blocks;
    return grid < 1 ? 1 : grid;
}

static km_status tensor_plan(km_plan *plan, const km_tensor_way *way, km_error *err) {
    KM_TRY(set_copies(plan, err));
    KM_TRY(km_plan_set(plan, KM_PARAM_block, way->block, err, "about %lld registers a thread",
                       (long long)way->registers));
    KM_TRY(km_plan_set(plan, KM_PARAM_resident, way->resident, err,
                       "as many as registers and shared memory hold"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, way->tiles * 16, err,
                       "rows of matrix products that a launch has at most"));
    KM_TRY(km_plan_set(plan, KM_PARAM_sums_in_shared, way->in_shared, err, "%s",
                       way->in_shared ? "a point is added to one row of them, however many there are"
                                      : "sums are matrix products, too"));
    if (km_tensor_is_wide(&plan->spec) && !way->in_shared)
        KM_TRY(km_plan_set(plan, KM_PARAM_tile_points, km_tensor_points(way), err,
                           "points of a block, whose warps share the sums"));
    KM_TRY(km_plan_set(plan, KM_PARAM_launches, way->launches, err, "%s",
                       way->launches == 1 ? "one read of the points serves every K"
                       : way->in_shared   ? "a warp's registers do not hold the scores of the whole K list"
                                          : "a warp's registers do not hold the sums of the whole K list"));
    return km_plan_set(plan, KM_PARAM_grid, tensor_grid(plan), err,
                       "%lld multiprocessors, filled once by all copies", (long long)plan->facts.units);
}

// shared ----------------------------------------------------------------------------------------------------

// Rows of the table of centroids of one copy when each K is padded to a multiple of `pad`.
static int64_t shared_rows(const km_spec *spec, int64_t pad) {
    int64_t rows = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) rows += km_divide_up(spec->clusters[i], pad) * pad;
    return rows;
}

int64_t km_cuda_few_row(const km_spec *spec, int64_t tile, int64_t index) {
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
        slots = km_cuda_few_row(spec, tile, i) % tile ? slots + 1 : 1;
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

enum { FEW_K_MAX = 32, FEW_POINTS = 16 }; // the largest K: a lane each; points of a warp at a time

static int64_t few_step(const km_cuda_shared *shape) {
    return shape->half ? 16 : 8;
}

static void fill_few(km_cuda_shared *shape, const km_spec *spec) {
    int64_t size = km_type_bytes(spec->type), tile = shape->tile_clusters, step = few_step(shape);
    shape->point_warps = shape->tile_points / FEW_POINTS;
    shape->cluster_warps = shape->pad = 1;
    shape->groups = km_divide_up(km_cuda_few_row(spec, tile, spec->clusters_count), tile) * tile;
    shape->chunks = km_divide_up(spec->features, step);
    shape->piece = piece_of(spec->features, size, 16);
    shape->tile_slots = few_tile_slots(spec, tile);
    shape->ahead = shape->point_warps > 8 ? 4 : 8;
    if (shape->ahead > shape->chunks) shape->ahead = shape->chunks;
    shape->shared_bytes = tile * ((shape->chunks | 1) * step * (shape->half ? 2 : 8) + size) +
                          shape->tile_points * (tile + 7) * size + 48 * shape->tile_slots + 64;
}

void km_cuda_shared_fill(km_cuda_shared *shape, const km_spec *spec) {
    if (shape->few) {
        fill_few(shape, spec);
        return;
    }
    int64_t size = km_type_bytes(spec->type), vector = 16 / size, tile = shape->tile_clusters;
    shape->warp_points = size == 4 ? 32 : 16;
    shape->rows = shape->half || size == 8 ? 4 : 8;
    shape->columns = shape->half ? 16 : 8;
    shape->point_warps = shape->tile_points / shape->warp_points;
    shape->cluster_warps = tile / KM_CUDA_WARP_CLUSTERS;
    // A K that ends within a tile costs a detour of the scores, padding costs scores.
    shape->pad =
        shape->cluster_warps > 1 || 2 * shared_rows(spec, tile) <= 3 * shared_rows(spec, 1) ? tile : 1;
    shape->groups = shared_rows(spec, shape->pad) / shape->pad;
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

// One way to find the labels: numbers, and the time of a point.
typedef struct shared_way {
    km_cuda_shared shape;
    int64_t resident, spare; // registers of a thread beside those that compilers need
    double tensor_ns, issue_ns, total_ns;
} shared_way;

// Features worked on at a time: at most `most`, in steps of `step`, with little padding in few pieces.
static int64_t shared_features(int64_t d, int64_t most, int64_t step) {
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
static int shared_fits(const km_plan *plan, const km_cuda_shared *shape, int64_t resident) {
    int64_t limit = plan->facts.shared_bytes_per_unit / resident - 1024;
    if (limit > plan->facts.shared_bytes_per_block) limit = plan->facts.shared_bytes_per_block;
    return shape->shared_bytes <= limit;
}

// Registers that a thread may have.
static int64_t shared_registers(const km_plan *plan, const km_cuda_shared *shape, int64_t resident) {
    int64_t threads = 32 * shape->point_warps * shape->cluster_warps * resident;
    int64_t registers = plan->facts.registers_per_unit / threads / 8 * 8;
    return registers < plan->facts.registers_per_thread ? registers : plan->facts.registers_per_thread;
}

static double shared_width(const km_cuda_shared *shape) {
    return (double)(shape->tile_features * shape->chunks);
}

// Beside the products: a tile of points is waited for, and each K ends with a decision. Fitted to times on sm_90.
static double shared_ends(const km_plan *plan) {
    return 1300 + 400 * (double)plan->spec.clusters_count;
}

// Tensor cores: more warps keep them busy; the table of centroids is read from the cache for each block of points. Of
// each score the best two are kept.
static void shared_judge_half(shared_way *way, const km_plan *plan) {
    enum { POINTS_ENOUGH = 160, WARPS_ENOUGH = 28, NARROW_OPERATIONS = 77 };
    const km_device_facts *facts = &plan->facts;
    km_cuda_shared *shape = &way->shape;
    double rows = (double)(shape->groups * shape->pad), tiles = ceil(rows / (double)shape->tile_clusters);
    double warps = (double)(shape->point_warps * shape->cluster_warps * way->resident);
    double busy = fmin(warps / WARPS_ENOUGH, (double)shape->tile_points / POINTS_ENOUGH);
    double rate = half_per_cycle(plan->spec.target.arch) * (double)facts->units * facts->clock_ghz;
    way->tensor_ns = rows * shared_width(shape) / rate / fmin(busy, 1);
    double operations = shape->pad == 1 ? NARROW_OPERATIONS * tiles * shared_width(shape) : 8 * rows;
    way->issue_ns = (operations + shared_ends(plan)) / issue_rate(plan);
    way->total_ns = way->tensor_ns + way->issue_ns;
}

// Few warps do not hide what they wait for; each piece of the features is waited for.
static void shared_judge_plain(shared_way *way, const km_plan *plan) {
    double waits = 1.4 + 0.6 / (double)way->resident, tile = (double)way->shape.tile_clusters;
    double rows = ceil((double)(way->shape.groups * way->shape.pad) / tile) * tile;
    double products = waits * (shared_width(&way->shape) + (double)way->shape.chunks) + 8;
    way->issue_ns = (rows * products + shared_ends(plan)) / issue_rate(plan);
    way->total_ns = way->issue_ns;
}

static void shared_take_better(shared_way *best, const shared_way *way, const km_plan *plan) {
    shared_way judged = *way;
    km_cuda_shared_fill(&judged.shape, &plan->spec);
    if (judged.shape.cluster_warps > 1 && judged.shape.groups > 0 && plan->spec.clusters_count > 1 &&
        8 * shared_rows(&plan->spec, judged.shape.pad) > 10 * plan->clusters_sum)
        return; // too much padding
    if (!shared_fits(plan, &judged.shape, judged.resident)) return;
    int64_t registers = judged.shape.half && judged.shape.pad > 1 ? 128 : 160; // what compilers need
    judged.spare = shared_registers(plan, &judged.shape, judged.resident) - registers;
    if (judged.spare < 0 || km_plan_avoids(plan, KM_DESIGN_SHARED, judged.spare)) return;
    if (judged.shape.half)
        shared_judge_half(&judged, plan);
    else
        shared_judge_plain(&judged, plan);
    if (!best->resident || judged.total_ns < best->total_ns) *best = judged;
}

// Eight warps at most, side by side in points and in centroids; of half precision all features of the points stand in
// shared memory. A K that ends within a tile needs more registers.
static void shared_best_half(shared_way *best, const km_plan *plan) {
    static const int64_t features_most[] = {128, 64, 32};
    for (int64_t resident = 3; resident >= 1; resident--)
        for (int64_t points = 8; points >= 1; points /= 2)
            for (int64_t clusters = 1; clusters <= 4 && points * clusters <= 8; clusters *= 2)
                for (int f = 0; f < 3; f++) {
                    shared_way way = {.resident = resident};
                    way.shape.half = 1;
                    way.shape.tile_points = points * 32;
                    way.shape.tile_clusters = clusters * KM_CUDA_WARP_CLUSTERS;
                    way.shape.tile_features = shared_features(plan->spec.features, features_most[f], 16);
                    shared_take_better(best, &way, plan);
                }
}

static void shared_best_plain(shared_way *best, const km_plan *plan) {
    int64_t vector = 16 / km_type_bytes(plan->spec.type);
    for (int64_t resident = 3; resident >= 1; resident--)
        for (int64_t most = 8; most >= 1; most /= 2) {
            shared_way way = {.resident = resident};
            way.shape.tile_points = 32 * 16 / km_type_bytes(plan->spec.type); // of four warps
            way.shape.tile_clusters = KM_CUDA_WARP_CLUSTERS;
            way.shape.tile_features = shared_features(plan->spec.features, most * vector, vector);
            shared_take_better(best, &way, plan);
        }
}

// Whether products of doubles are worth it: m16n8k8 is there, and as fast as plain arithmetic at least.
static int has_double_products(const km_plan *plan) {
    return plan->spec.target.arch == 90 || plan->spec.target.arch == 100;
}

// Registers of a thread: scores, what is read ahead, and others, as compilers count.
static int64_t few_registers(const km_cuda_shared *shape) {
    return (shape->half ? shape->tile_clusters / 2 + 56 : shape->tile_clusters + 84) + 8 * shape->ahead;
}

// Each tile reads the points; a warp does not overlap that with its products and with the choice, others do. Fitted to
// times on sm_90; doubles have fewer warps.
static void few_judge(shared_way *way, const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    const km_cuda_shared *shape = &way->shape;
    double size = (double)km_type_bytes(plan->spec.type),
           tiles = (double)(shape->groups / shape->tile_clusters);
    double rate = shape->half ? half_per_cycle(plan->spec.target.arch) : 2 * facts->fp64_per_cycle;
    double read_ns = 1.3 * tiles * (double)plan->spec.features * size / facts->bandwidth_gbs;
    way->tensor_ns = 1.4 * (double)(shape->groups * shape->chunks * few_step(shape)) /
                     (rate * (double)facts->units * facts->clock_ghz);
    way->issue_ns = (double)((shape->half ? 20 : 40) * shape->groups + 60 * plan->spec.clusters_count) /
                    (facts->fp32_per_cycle * (double)facts->units * facts->clock_ghz);
    way->total_ns = together(read_ns, way->tensor_ns) + way->issue_ns;
}

// Whether these are the tiles that the user fixed, if any.
static int few_is_asked(const km_plan *plan, const km_cuda_shared *shape) {
    int64_t few = 0, points = shape->tile_points, clusters = shape->tile_clusters,
            features = shape->tile_features;
    if (km_plan_fixed(plan, KM_PARAM_few_clusters, &few))
        return 1; // their check says what this form can have
    km_plan_fixed(plan, KM_PARAM_tile_points, &points);
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &clusters);
    km_plan_fixed(plan, KM_PARAM_tile_features, &features);
    return points == shape->tile_points && clusters == shape->tile_clusters &&
           features == shape->tile_features;
}

// Blocks of as many warps as registers and shared memory hold, one of them a multiprocessor.
static void few_best(shared_way *best, const km_plan *plan, int half) {
    enum { TILE_MAX = 96 };
    int64_t k_max = plan->spec.clusters[plan->spec.clusters_count - 1];
    for (int64_t tile = km_divide_up(k_max, 16) * 16; tile <= TILE_MAX; tile += 16)
        for (int64_t warps = half ? 16 : 8; warps >= 4; warps -= 4) {
            shared_way way = {.resident = 1};
            way.shape.half = half;
            way.shape.few = 1;
            way.shape.tile_points = warps * FEW_POINTS;
            way.shape.tile_clusters = tile;
            way.shape.tile_features = few_step(&way.shape);
            km_cuda_shared_fill(&way.shape, &plan->spec);
            if (!few_is_asked(plan, &way.shape)) continue;
            way.spare = shared_registers(plan, &way.shape, 1) - few_registers(&way.shape);
            if (!shared_fits(plan, &way.shape, 1) || way.spare < 0 ||
                km_plan_avoids(plan, KM_DESIGN_SHARED, way.spare))
                continue;
            few_judge(&way, plan);
            if (!best->resident || way.total_ns < best->total_ns) *best = way;
            break;
        }
}

// Whether lists of few clusters may have their own form: unless the user wants another.
static int few_allowed(const km_plan *plan, int half) {
    int64_t few = 1;
    if (km_plan_fixed(plan, KM_PARAM_few_clusters, &few)) return few != 0;
    return half || (plan->spec.type == KM_FLOAT64 && has_double_products(plan));
}

static shared_way shared_best(const km_plan *plan) {
    shared_way best = {0};
    int64_t half = 1;
    int fixed = km_plan_fixed(plan, KM_PARAM_half_filter, &half);
    int halves = half && plan->spec.type == KM_FLOAT32 && half_per_cycle(plan->spec.target.arch) > 0;
    if (few_allowed(plan, halves) && plan->spec.clusters[plan->spec.clusters_count - 1] <= FEW_K_MAX)
        few_best(&best, plan, halves);
    if (best.resident) return best;
    if (half && plan->spec.type == KM_FLOAT32 && half_per_cycle(plan->spec.target.arch) > 0)
        shared_best_half(&best, plan);
    if (!best.resident || (!fixed && half_per_cycle(plan->spec.target.arch) < 300))
        shared_best_plain(&best, plan);
    return best;
}

// Whether points are ordered by label before they are added: where the rows of sums of a K are many.
static int shared_is_sorted(const km_plan *plan) {
    enum { K_MANY = 64 };
    int64_t k_max = plan->spec.clusters[plan->spec.clusters_count - 1];
    return k_max >= K_MANY;
}

km_cuda_sums km_cuda_sums_shape(const km_plan *plan) {
    enum { ROWS_BYTES_MAX = 40 * 1024, SLOTS_OF_TEAM = 4, WARPS_MAX = 8 };
    const km_spec *spec = &plan->spec;
    int64_t columns = spec->features + (plan->weighted ? 1 : 0), ks = spec->clusters_count;
    int64_t slots_all = ks * restarts_in_flight(plan), fixed;
    if (km_plan_fixed(plan, KM_PARAM_restarts_in_flight, &fixed)) slots_all = ks * fixed;
    // A warp's access to shared memory takes two turns for 32 doubles; teams of eight lanes may meet in a bank.
    int64_t turns32 = 20 * km_divide_up(columns, 32), turns16 = 10 * km_divide_up(columns, 16),
            turns8 = 8 * km_divide_up(columns, 8);
    km_cuda_sums sums = {.lanes = turns8 < turns16 && turns8 < turns32 ? 8 : turns16 < turns32 ? 16 : 32};
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

int km_cuda_has_products(const km_plan *plan) {
    return km_plan_get(plan, "few_clusters") && has_double_products(plan);
}

// Sums of all products stay in registers, 80 at most. A warp reads, makes its rows and then has its products.
static km_cuda_products products_of(const km_plan *plan, int64_t tile) {
    enum { REGISTERS_MAX = 80, COLUMNS_MAX = 4, REGISTERS_OF_THREE = 150 };
    int64_t eights = km_divide_up(plan->spec.features + 1, 8), rows = tile / 16, least = INT64_MAX;
    int64_t size = km_type_bytes(plan->spec.type), most = piece_of(plan->spec.features, size, 16);
    km_cuda_products best = {0};
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

km_cuda_products km_cuda_products_of(const km_plan *plan) {
    return products_of(plan, km_plan_get(plan, "tile_clusters"));
}

// Ranges of points for products of doubles: as many as give all warps that fit one, with their share of the features.
static int64_t products_ranges(const km_plan *plan) {
    enum { WARPS = 4 };
    km_cuda_shared shape = km_cuda_shared_of(plan);
    km_cuda_products products = km_cuda_products_of(plan);
    int64_t tiles = km_plan_get(plan, "restarts_in_flight") * shape.groups / shape.tile_clusters;
    return plan->facts.units * products.resident * WARPS / (products.groups * tiles);
}

// Ranges of points, a block each (or as many as share the features and the slots): many, while their rows of sums stay
// small.
static int64_t shared_ranges(const km_plan *plan) {
    enum { WARPS_PER_UNIT = 48, ROWS_BYTES_MAX = 64 << 20, POINTS_MIN = 256 };
    int64_t row_bytes =
        plan->clusters_sum * (plan->spec.features + 1) * 8 * km_plan_get(plan, "restarts_in_flight");
    km_cuda_sums sums = km_cuda_sums_shape(plan);
    int64_t ranges = plan->facts.units * km_divide_up(WARPS_PER_UNIT, sums.warps * sums.parts * sums.groups);
    if (ranges > ROWS_BYTES_MAX / row_bytes) ranges = ROWS_BYTES_MAX / row_bytes;
    if (ranges < plan->facts.units) ranges = plan->facts.units;
    if (km_cuda_has_products(plan)) ranges = products_ranges(plan);
    if (shared_is_sorted(plan)) ranges = 2 * plan->facts.units;
    int64_t useful = plan->points ? km_divide_up(plan->points, POINTS_MIN) : ranges;
    if (ranges > useful) ranges = useful;
    return ranges < 1 ? 1 : ranges;
}

// Pieces of the points in the order of their labels: a team of lanes each, one wave of them.
static int64_t shared_stretches(const km_plan *plan) {
    enum { WARPS_PER_UNIT = 32, POINTS_MIN = 32 };
    if (!shared_is_sorted(plan)) return 0;
    int64_t stretches = plan->facts.units * WARPS_PER_UNIT;
    int64_t useful = plan->points ? km_divide_up(plan->points, POINTS_MIN) : stretches;
    return stretches < useful ? stretches : useful;
}

// The same for products of doubles, which are twice as fast as plain arithmetic of doubles; each warp makes its rows.
static double products_adding(const km_plan *plan, const shared_way *way) {
    km_cuda_products products = products_of(plan, way->shape.tile_clusters);
    double columns = (double)((8 * products.columns + 6) * products.groups), rows = (double)way->shape.groups;
    double rate = 2 * plan->facts.fp64_per_cycle * (double)plan->facts.units * plan->facts.clock_ghz;
    return 1.2 * rows * columns / rate * issue_rate(plan);
}

// Thread instructions of adding a point to its rows, all K: rows in shared memory are bound by its banks.
static double shared_adding(const km_plan *plan, const shared_way *way) {
    double d = (double)plan->spec.features, ks = (double)plan->spec.clusters_count;
    if (shared_is_sorted(plan)) return ks * (3000 + 10 * d);
    if (way->shape.few && has_double_products(plan)) return products_adding(plan, way);
    km_cuda_sums sums = km_cuda_sums_shape(plan);
    return 2000 + 23 * ks * (double)(sums.lanes * sums.parts);
}

// Labels by tiles like a matrix product; then every point is added to its row, once for each K.
static void shared_estimate(shared_way *way, km_plan *plan) {
    km_estimate *estimate = &plan->estimates[KM_DESIGN_SHARED];
    double d = (double)plan->spec.features, ks = (double)plan->spec.clusters_count,
           size = (double)km_type_bytes(plan->spec.type);
    *way = shared_best(plan);
    estimate->design = KM_DESIGN_SHARED;
    estimate->feasible = way->resident > 0;
    if (!estimate->feasible) {
        km_plan_no_way(plan, KM_DESIGN_SHARED, "no tiles fit into registers and shared memory");
        return;
    }
    double adding_ns = shared_adding(plan, way) / issue_rate(plan);
    estimate->bytes_per_point = (1 + (shared_is_sorted(plan) ? ks : 1)) * d * size + ks * 12;
    estimate->memory_ns = estimate->bytes_per_point / plan->facts.bandwidth_gbs;
    estimate->tensor_ns = way->tensor_ns;
    estimate->issue_ns = way->issue_ns + adding_ns;
    estimate->operations_per_point = estimate->issue_ns * issue_rate(plan);
    estimate->total_ns = estimate->memory_ns + way->total_ns + adding_ns; // one kernel after the other
    if (way->shape.few && has_double_products(plan)) // both read the points while they work
        estimate->total_ns = way->total_ns + together(adding_ns, 1.2 * d * size / plan->facts.bandwidth_gbs);
    estimate->registers_per_thread = shared_registers(plan, &way->shape, way->resident);
    estimate->registers_spare = way->spare;
    estimate->shared_bytes_per_block = way->shape.shared_bytes;
    snprintf(estimate->reason, sizeof estimate->reason, "%s",
             way->shape.half ? "half precision first, near ties again" : "plain arithmetic");
}

static km_status few_check(const km_plan *plan, km_error *err) {
    int64_t k_max = plan->spec.clusters[plan->spec.clusters_count - 1];
    int64_t points = km_plan_get(plan, "tile_points"), clusters = km_plan_get(plan, "tile_clusters");
    int64_t half = km_plan_get(plan, "half_filter");
    if (k_max > FEW_K_MAX || !(half || (plan->spec.type == KM_FLOAT64 && has_double_products(plan))))
        return km_fail(err, KM_ERROR_PLAN,
                       "few_clusters needs K up to %d, and half_filter or float64 on sm_90 or sm_100",
                       FEW_K_MAX);
    km_cuda_shared shape = km_cuda_shared_of(plan);
    if (points % FEW_POINTS || points > 16 * FEW_POINTS || clusters % 16 || clusters < k_max ||
        clusters > 96 || km_plan_get(plan, "tile_features") != few_step(&shape) ||
        km_plan_get(plan, "resident") != 1)
        return km_fail(
            err, KM_ERROR_PLAN,
            "few_clusters needs tile_points in steps of %d up to %d, tile_clusters in steps of 16 up to 96, "
            "%lld tile_features and one block resident",
            FEW_POINTS, 16 * FEW_POINTS, (long long)few_step(&shape));
    if (!shared_fits(plan, &shape, 1))
        return km_fail(err, KM_ERROR_PLAN, "tiles need %lld bytes of shared memory, which has not as many",
                       (long long)shape.shared_bytes);
    return KM_OK;
}

static km_status shared_check(const km_plan *plan, km_error *err) {
    int64_t warp = plan->spec.type == KM_FLOAT64 ? 16 : 32, half = km_plan_get(plan, "half_filter");
    int64_t points = km_plan_get(plan, "tile_points"), clusters = km_plan_get(plan, "tile_clusters");
    int64_t step = half ? 16 : 16 / km_type_bytes(plan->spec.type);
    if (half && (plan->spec.type == KM_FLOAT64 || half_per_cycle(plan->spec.target.arch) == 0))
        return km_fail(err, KM_ERROR_PLAN, "half_filter needs float32 and sm_80 or later");
    if (km_plan_get(plan, "few_clusters")) return few_check(plan, err);
    if (points % warp || clusters % KM_CUDA_WARP_CLUSTERS || (!half && clusters > KM_CUDA_WARP_CLUSTERS) ||
        points / warp * (clusters / KM_CUDA_WARP_CLUSTERS) > 8)
        return km_fail(err, KM_ERROR_PLAN,
                       "tile_points must be a multiple of %lld, tile_clusters of %d (no more without "
                       "half_filter), of 8 warps at most",
                       (long long)warp, KM_CUDA_WARP_CLUSTERS);
    if (km_plan_get(plan, "tile_features") % step)
        return km_fail(err, KM_ERROR_PLAN, "tile_features must be a multiple of %lld", (long long)step);
    km_cuda_shared shape = km_cuda_shared_of(plan);
    if (!shared_fits(plan, &shape, km_plan_get(plan, "resident")))
        return km_fail(err, KM_ERROR_PLAN, "tiles need %lld bytes of shared memory, which has not as many",
                       (long long)shape.shared_bytes);
    return KM_OK;
}

km_cuda_shared km_cuda_shared_of(const km_plan *plan) {
    km_cuda_shared shape = {.half = km_plan_get(plan, "half_filter"),
                            .few = km_plan_get(plan, "few_clusters"),
                            .tile_points = km_plan_get(plan, "tile_points"),
                            .tile_clusters = km_plan_get(plan, "tile_clusters"),
                            .tile_features = km_plan_get(plan, "tile_features")};
    km_cuda_shared_fill(&shape, &plan->spec);
    return shape;
}

int64_t km_cuda_workspace_bytes(const km_plan *plan, int64_t n) {
    int64_t d = plan->spec.features, size = km_type_bytes(plan->spec.type),
            copies = km_plan_get(plan, "restarts_in_flight");
    int64_t grid = km_plan_get(plan, "grid"), spare = 16 << 20;
    int64_t sums = grid * copies * plan->clusters_sum * (d + 1) * 8;
    if (plan->design == KM_DESIGN_TENSOR)
        return sums + spare +
               n * (km_tensor_point_bytes(&plan->spec, km_plan_get(plan, "sums_in_shared") > 0) + 1);
    if (plan->design != KM_DESIGN_SHARED) return sums + spare;
    int64_t slots = copies * plan->spec.clusters_count, stretches = km_plan_get(plan, "stretches");
    int64_t k_max = plan->spec.clusters[plan->spec.clusters_count - 1], label = k_max <= 256 ? 1 : 2;
    km_cuda_shared shape = km_cuda_shared_of(plan);
    int64_t rows = copies * shape.groups * shape.pad + shape.tile_clusters;
    int64_t table = rows * (size + 4 + shape.tile_features * shape.chunks * (shape.half ? 2 : size));
    int64_t points = n * (size * (1 + shape.half) + slots * (label + 4));
    if (stretches > 0) {
        sums = slots * (grid * 1024 + stretches * 16 * (d + 1)) + 4 * (copies * plan->clusters_sum + slots);
        if (k_max > 256) points += 4 * slots * n;
    }
    return spare + sums + table + points + slots * (24 + 256 * label);
}

static km_status shared_plan(km_plan *plan, const shared_way *way, km_error *err) {
    KM_TRY(set_copies(plan, err));
    KM_TRY(km_plan_set(plan, KM_PARAM_half_filter, way->shape.half, err, "%s",
                       way->shape.half ? "tensor cores; near ties are decided again in double"
                                       : "the type or the device asks for plain arithmetic"));
    KM_TRY(km_plan_set(plan, KM_PARAM_few_clusters, way->shape.few, err, "%s",
                       way->shape.few ? "tiles of centroids fit into shared memory, all of their features"
                                      : "many clusters or features, or products that are no faster"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_points, way->shape.tile_points, err, "%s",
                       way->shape.few ? "16 for each of the warps that registers and shared memory hold"
                                      : "points of a block, which share what is read of the centroids"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, way->shape.tile_clusters, err, "%s",
                       way->shape.few ? "centroids of whole K whose scores a warp has in registers"
                                      : "64 for each of the warps that have the same points"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_features, way->shape.tile_features, err,
                       way->shape.few ? "%lld features, one product at a time"
                                      : "%lld features in pieces that are padded little",
                       (long long)plan->spec.features));
    KM_TRY(km_plan_set(plan, KM_PARAM_resident, way->resident, err,
                       "blocks whose tiles fit into shared memory"));
    KM_TRY(km_plan_set(plan, KM_PARAM_stretches, shared_stretches(plan), err, "%s",
                       shared_is_sorted(plan) ? "points in the order of their labels, a team of lanes each"
                                              : "a K's sums fit into shared memory: no order is needed"));
    KM_TRY(km_plan_set(plan, KM_PARAM_grid, shared_ranges(plan), err, "%s",
                       shared_is_sorted(plan) ? "ranges of points while they are ordered"
                                              : "ranges of points, each with its own sums, 64 MiB at most"));
    return shared_check(plan, err);
}

// All of it -------------------------------------------------------------------------------------------------

typedef struct cuda_ways {
    registers_way registers;
    shared_way shared;
    km_tensor_way tensor;
} cuda_ways;

static km_status design_plan(km_plan *plan, km_design design, const cuda_ways *ways, km_error *err) {
    plan->design = design;
    if (design == KM_DESIGN_REGISTERS) return registers_plan(plan, &ways->registers, err);
    return design == KM_DESIGN_TENSOR ? tensor_plan(plan, &ways->tensor, err)
                                      : shared_plan(plan, &ways->shared, err);
}

// What a fit takes with each design that is possible; 0 where the numbers that the user fixed are another's.
static void weigh(km_plan *plan, const cuda_ways *ways) {
    for (int i = 0; i < KM_DESIGN_COUNT; i++) {
        km_memory memory;
        km_plan trial = *plan;
        if (!plan->points || !plan->estimates[i].feasible) continue;
        if (design_plan(&trial, (km_design)i, ways, NULL) != KM_OK) continue;
        km_memory_of(&memory, &trial);
        plan->estimates[i].memory_bytes = memory.total;
    }
}

static int is_too_large(const km_plan *plan, const km_estimate *estimate) {
    return plan->facts.memory_free_bytes && estimate->memory_bytes > plan->facts.memory_free_bytes;
}

// Whether the design of `a` is taken instead of that of `b`: what fits the memory, then what is fastest. Where nothing
// fits, what needs least.
static int is_better(const km_plan *plan, const km_estimate *a, const km_estimate *b) {
    int a_large = is_too_large(plan, a), b_large = is_too_large(plan, b);
    if (a_large != b_large) return b_large;
    return a_large ? a->memory_bytes < b->memory_bytes : a->total_ns < b->total_ns;
}

// Designs that are too large for the memory are not possible, and say so.
static void rule_out(km_plan *plan, km_design chosen) {
    for (int i = 0; i < KM_DESIGN_COUNT; i++) {
        km_estimate *estimate = &plan->estimates[i];
        if (!estimate->feasible || i == (int)chosen || !is_too_large(plan, estimate)) continue;
        estimate->feasible = 0;
        snprintf(estimate->reason, sizeof estimate->reason, "a fit needs %.2f GiB, %.2f GiB are free",
                 (double)estimate->memory_bytes / 0x1p30, (double)plan->facts.memory_free_bytes / 0x1p30);
    }
}

km_status km_plan_cuda(km_plan *plan, km_error *err) {
    km_design fixed = km_plan_fixed_design(plan), design = KM_DESIGN_NONE, fastest = KM_DESIGN_NONE;
    cuda_ways ways = {0};
    registers_estimate(&ways.registers, plan);
    tensor_estimate(&ways.tensor, plan);
    shared_estimate(&ways.shared, plan);
    weigh(plan, &ways);
    for (int i = 0; i < KM_DESIGN_COUNT; i++) {
        const km_estimate *estimate = &plan->estimates[i];
        if (!estimate->feasible || (fixed && fixed != (km_design)i)) continue;
        if (!fastest || estimate->total_ns < plan->estimates[fastest].total_ns) fastest = (km_design)i;
        if (!design || is_better(plan, estimate, &plan->estimates[design])) design = (km_design)i;
    }
    if (!design && !fixed)
        return km_fail(err, KM_ERROR_PLAN, "no design is possible: registers: %s; tensor: %s; shared: %s",
                       plan->estimates[KM_DESIGN_REGISTERS].reason, plan->estimates[KM_DESIGN_TENSOR].reason,
                       plan->estimates[KM_DESIGN_SHARED].reason);
    if (!design)
        return km_fail(
            err, KM_ERROR_PLAN, "the design %s is not possible for this spec: %s", km_design_name(fixed),
            plan->estimates[fixed].reason[0] ? plan->estimates[fixed].reason : "CUDA has none of it");
    rule_out(plan, design);
    snprintf(plan->design_reason, sizeof plan->design_reason, "the least time of those %s%s",
             plan->avoided_count ? "left" : "estimated",
             design == fastest ? "" : " that fit the free memory");
    return design_plan(plan, design, &ways, err);
}

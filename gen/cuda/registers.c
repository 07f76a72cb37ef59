// SPDX-License-Identifier: MIT
// The CUDA design `registers` (templates/cuda/registers): a thread's registers hold the sums of several K while it goes
// through the points. The K list is split over warp groups and launches.
#include "../../base/size.h"
#include "../../base/text.h"
#include "../source.h"
#include "../words.h"
#include "common.h"
#include "measured.h"

#include <stdio.h>
#include <string.h>

// Splitting the K list --------------------------------------------------------------------------------------

enum {
    GROUPS_MAX = 64, // warp groups of all launches
    LANE_POINTS = 24 // of the shortest span, 32 times as many: a multiple of what a thread works on at a time
};

// Splits the K list over the warp groups of all launches so that the largest sum of K - 1 is small: the largest K
// first, each to the group with the least so far. group_of[i] is the group of clusters[i]; it is the plan's layout.
static void split_list(int32_t *group_of, const km_spec *spec, int64_t groups_count) {
    int64_t load[GROUPS_MAX] = {0};
    for (int64_t i = spec->clusters_count - 1; i >= 0; i--) {
        int64_t least = 0;
        for (int64_t group = 1; group < groups_count; group++)
            if (load[group] < load[least]) least = group;
        group_of[i] = (int32_t)least;
        load[least] += spec->clusters[i] - 1;
    }
}

// Sums that a thread keeps for one K, where so many lanes share a point.
static int64_t sums_of(const km_plan *plan, int64_t k, int64_t point_lanes) {
    return (k - 1) * (plan->spec.features / point_lanes + 1) + (plan->weighted ? 1 : 0);
}

// Adjacent points that a thread loads together, so that it loads whole 16-byte pieces.
static int64_t adjacent_points(const km_spec *spec) {
    if (spec->type == KM_FLOAT64) return spec->features % 2 ? 2 : 1;
    return spec->features % 4 == 0 ? 1 : spec->features % 2 == 0 ? 2 : 4;
}

// Rows in which the lanes of a warp gather their sums: where a lane reads four floats at a time they are aligned.
static int64_t gathered_row(const km_plan *plan, int64_t point_lanes) {
    return plan->spec.type == KM_FLOAT32 && point_lanes == 1 ? 36 : 33;
}

// Cost ------------------------------------------------------------------------------------------------------

// A configuration of the design.
typedef struct registers_config {
    int64_t points, prefetch, split, launches, point_lanes, block, blocks_per_sm;
    int64_t registers, register_limit, shared_bytes;
    double operations; // of all warp groups, per point
    double memory_ns, issue_ns, total_ns;
} registers_config;

// What the warp groups need when the K list is split over split x launches of them.
typedef struct demand {
    int64_t sums_max; // sums that a thread of a group keeps, at most
    int64_t k_max;
    double operations_busy; // per point, of the busiest group of each launch, added up
    double operations;      // per point, of all groups
    double code;            // instructions for one point of a launch's groups together, at most
    int64_t idle;           // groups without a K of two or more
} demand;

static demand demand_of(const km_plan *plan, const registers_config *config) {
    const km_spec *spec = &plan->spec;
    int64_t point_lanes = config->point_lanes, split = config->split, launches = config->launches,
            lane_d = spec->features / point_lanes;
    int64_t vector = 16 / km_type_bytes(plan->spec.type);
    double other_cost =
        vector == 2 ? 0.5 : 1; // float64: other instructions have the other half of the cycles
    int64_t exchange = point_lanes == 4   ? 4
                       : point_lanes == 2 ? 2
                                          : 0; // shuffles and additions for one score
    // Labels are chosen, then packed four at a time or written one by one.
    int64_t choose = plan->track_labels ? 1 : 0, label = !choose ? 0 : config->points % 4 == 0 ? 4 : 12;
    demand groups = {0};
    int32_t group_of[KM_RANGE_MAX];
    split_list(group_of, spec, split * launches);
    for (int64_t part = 0; part < launches; part++) {
        double code = 0, busiest = 0;
        for (int64_t group = part * split; group < (part + 1) * split; group++) {
            int64_t sums = 0, others = 0;
            // Points are loaded; each score is a product, a comparison and a count; coefficients are read once a tile.
            double operations = other_cost * (2 * (double)(lane_d / vector + 1) +
                                              measured.tile_instructions / (double)config->points);
            for (int64_t i = 0; i < spec->clusters_count; i++) {
                if (group_of[i] != group) continue;
                int64_t k = spec->clusters[i];
                sums += sums_of(plan, k, point_lanes);
                operations += (double)(k - 1) * (double)(2 * lane_d + 1 + exchange);
                operations += other_cost * ((double)(k - 1) * (measured.score_instructions + (double)choose) +
                                            (double)label);
                operations += other_cost * (double)((k - 1) * (lane_d / 2 + 1)) / (double)config->points;
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
static int64_t registers_needed(const km_plan *plan, const registers_config *config, const demand *groups) {
    int64_t lane_d = plan->spec.features / config->point_lanes, words = km_type_bytes(plan->spec.type) / 4;
    int64_t counts =
        words == 2 && !plan->weighted ? groups->sums_max / (lane_d + 1) : 0; // integers beside sums
    int64_t points = config->points * (lane_d + (plan->weighted ? 1 : 0)),
            scores = config->points * (groups->k_max - 1);
    int64_t labels = plan->track_labels ? 2 * config->points + 12 : 0, weights = plan->weighted ? 4 : 0;
    int64_t pieces = lane_d * km_type_bytes(plan->spec.type) / 16,
            uneven = pieces > 1 && pieces % 2 == 0 && 32 % pieces ? 16 : 0;
    int64_t others = 20 + labels + weights + uneven;
    if (words == 2) {
        others += lane_d % 4 ? 80 : 40;
        return 2 * (groups->sums_max - counts + points + scores) + counts + others;
    }
    // Scores that lanes exchange are all live at the same time. Those of a small K are not, on sm_90; elsewhere
    // compilers keep more of them.
    int64_t scores_most = plan->spec.target.arch == 90 ? 8 : 32;
    if (config->point_lanes > 1)
        others += config->points + 16;
    else if (groups->k_max > 8)
        scores = scores * 3 / 4;
    else
        scores = scores / 2 < scores_most ? scores / 2 : scores_most;
    return groups->sums_max + points + scores + others;
}

// The time of a pass over that of issuing its instructions. Other warps and other points of a thread hide latency. Warp
// groups that do different work wait for each other at each tile. Code that does not fit the instruction cache stalls,
// more so where warp groups run different parts of it.
static double stall_factor(const km_plan *plan, const registers_config *config, const demand *groups) {
    double warps = (double)(config->block * config->blocks_per_sm) / 128; // of a scheduler
    double hidden = 1 + (measured.few_warps + measured.few_points / (double)config->points) / warps;
    if (plan->spec.type == KM_FLOAT64)
        hidden = measured.double_stall + 1 / (double)config->points; // more warps did not help
    if (!config->prefetch)
        hidden *= plan->spec.target.arch == 90
                      ? measured.late_points
                      : measured.late_points_elsewhere;        // threads wait for their loads of points
    if (config->point_lanes > 1) hidden *= measured.exchanges; // and for exchanges
    hidden *= 1 + (plan->spec.type == KM_FLOAT64 ? measured.split_double : measured.split) *
                      (double)(config->split - 1);
    double cached = config->split > 1 ? measured.code_cached_split : measured.code_cached;
    double code = groups->code * (double)config->points / cached;
    if (code > 1)
        hidden *= 1 + (config->split > 1 ? measured.code_missed_split : measured.code_missed) * (code - 1);
    return hidden;
}

// Fewer nanoseconds, but rather those of a block that leaves as many registers as are counted: one that does not, as
// the margin of a number that the user fixed allows, is for where no other is left.
static int is_better(const registers_config *a, const registers_config *b) {
    int a_fits = a->registers <= a->register_limit, b_fits = b->registers <= b->register_limit;
    return a_fits != b_fits ? a_fits : a->total_ns < b->total_ns;
}

// Whether the user fixed that coefficients come from shared memory where constant memory could have them.
static int loads_coefficients(const km_plan *plan, const registers_config *config) {
    int64_t form = -1, restarts = km_cuda_concurrent_restarts(plan);
    km_plan_fixed(plan, KM_PARAM_form, &form);
    km_plan_fixed(plan, KM_PARAM_concurrent_restarts, &restarts);
    return form == KM_WORD_form_shared && plan->spec.type == KM_FLOAT32 && config->point_lanes == 1 &&
           restarts == 1;
}

static int64_t shared_bytes_needed(const km_plan *plan, const registers_config *config,
                                   const demand *groups) {
    const km_spec *spec = &plan->spec;
    int64_t lane_d = spec->features / config->point_lanes, size = km_type_bytes(plan->spec.type),
            vector = 16 / size;
    int64_t warps = config->block / 32, stages = config->prefetch ? config->prefetch + 1 : 0;
    int64_t coefficients =
        (plan->clusters_sum - spec->clusters_count + 1) * (lane_d + vector) * config->point_lanes * size;
    int64_t ring =
        config->block / config->split * stages * config->points * (lane_d + (plan->weighted ? 1 : 0)) * size;
    int64_t sums = warps * (groups->sums_max * config->point_lanes * 16 +
                            32 / config->point_lanes * gathered_row(plan, config->point_lanes) * size);
    return coefficients + ring + sums + spec->clusters_count * 4 + 256;
}

// Evaluates a configuration whose numbers from points to blocks_per_sm are set: fills the others; 0 when it cannot be
// run. Every warp group needs work. A number that the user fixed gets a smaller margin of registers.
static int evaluate(registers_config *config, const km_plan *plan) {
    enum { CODE_MAX = 3000, BARRIERS_MAX = 15, DOUBLES_MAX = 4 };
    // The count was calibrated on sm_90, over lists that need few launches.
    enum { MARGIN_FIXED = -24, MARGIN = 3, MARGIN_LONG = 8, MARGIN_ELSEWHERE = 20 };
    int64_t fixed, margin = config->launches > 3 ? MARGIN_LONG : MARGIN;
    if (plan->spec.target.arch != 90) margin = MARGIN_ELSEWHERE;
    if (km_plan_fixed(plan, KM_PARAM_points_per_thread, &fixed)) margin = MARGIN_FIXED;
    const km_device_facts *facts = &plan->facts;
    demand groups = demand_of(plan, config);
    if (config->point_lanes > 1 && groups.k_max > 8) margin += MARGIN_LONG;
    int64_t span_tiles = LANE_POINTS * config->point_lanes / config->points;
    if (span_tiles * config->points != LANE_POINTS * config->point_lanes) return 0; // a span is whole tiles
    if (config->prefetch > span_tiles) return 0; // tiles ahead are of the next span at most
    if (groups.idle && config->split * config->launches > 1) return 0;
    if (groups.code * (double)config->points > CODE_MAX) return 0;
    if (plan->spec.type == KM_FLOAT64 && config->points > DOUBLES_MAX)
        return 0;                                                  // the scores of more points do not fit
    if (config->prefetch && plan->spec.target.arch < 80) return 0; // it has no cp.async
    if (config->prefetch && config->split > 1 && config->block / config->split / 32 > BARRIERS_MAX) return 0;
    config->registers = registers_needed(plan, config, &groups);
    config->register_limit = km_cuda_registers_limit(plan, config->block, config->blocks_per_sm);
    if (config->registers > config->register_limit - margin) return 0;
    if (km_plan_avoids(plan, KM_DESIGN_REGISTERS, config->register_limit - config->registers)) return 0;
    config->shared_bytes = shared_bytes_needed(plan, config, &groups);
    if (config->shared_bytes > facts->shared_bytes_per_block ||
        config->shared_bytes > facts->shared_bytes_per_unit / config->blocks_per_sm - 1024)
        return 0;
    double reads = (double)config->launches * (1 + measured.split_reads * (double)(config->split - 1));
    if (!config->prefetch)
        reads = (double)config->launches * (1 + measured.split_late_reads * (double)(config->split - 1));
    config->operations = groups.operations * (double)config->point_lanes;
    config->memory_ns =
        km_cuda_read_ns(plan, reads * (double)(plan->spec.features * km_type_bytes(plan->spec.type)));
    config->issue_ns = groups.operations_busy * (double)(config->split * config->point_lanes) /
                       km_cuda_issue_rate(plan) * stall_factor(plan, config, &groups);
    if (loads_coefficients(plan, config)) config->issue_ns *= measured.shared_coefficients;
    config->total_ns = measured.registers_share * km_cuda_overlap(config->memory_ns, config->issue_ns) +
                       km_cuda_launches_ns(plan, config->launches, measured.registers_launch_ns);
    return 1;
}

// Why the coefficients of the scores cannot be in constant memory, which holds them once, for all lanes; NULL: they
// can.
static const char *constant_refused(const km_plan *plan) {
    if (km_plan_value(plan, KM_PARAM_lanes_per_point) > 1)
        return "the lanes of a point need different coefficients";
    if (km_plan_value(plan, KM_PARAM_concurrent_restarts) > 1)
        return "each restart has coefficients of its own";
    return NULL;
}

// Compilers keep coefficients of doubles in registers where they can, so some must be free.
static int constant_pays(const km_plan *plan) {
    enum { SPARE = 12 };
    if (plan->spec.type == KM_FLOAT32) return 1;
    registers_config config = {.points = km_plan_value(plan, KM_PARAM_points_per_thread),
                               .split = km_plan_value(plan, KM_PARAM_split),
                               .launches = km_plan_value(plan, KM_PARAM_launches),
                               .point_lanes = 1};
    demand groups = demand_of(plan, &config);
    int64_t threads = km_plan_value(plan, KM_PARAM_block) * km_plan_value(plan, KM_PARAM_blocks_per_sm);
    return registers_needed(plan, &config, &groups) + SPARE <= plan->facts.registers_per_unit / threads;
}

#define TRY_ALL(name, ...)                                                                                   \
    static const int64_t name##_all[] = {__VA_ARGS__};                                                       \
    int64_t name[sizeof name##_all / sizeof *name##_all];                                                    \
    int64_t name##_count =                                                                                   \
        km_cuda_values(name, name##_all, sizeof name##_all / sizeof *name##_all, plan, KM_PARAM_##name)

// The fastest configuration for one split of the K list; 0 when there is none.
static int best_of_split(registers_config *best, const km_plan *plan, int64_t split, int64_t launches,
                         int64_t point_lanes) {
    TRY_ALL(points_per_thread, 1, 2, 3, 4, 6, 8, 12);
    TRY_ALL(prefetch, 0, 1);
    TRY_ALL(block, 256, 384, 512, 768, 1024);
    TRY_ALL(blocks_per_sm, 1);
    int found = 0;
    for (int64_t i = 0; i < points_per_thread_count * prefetch_count * block_count * blocks_per_sm_count;
         i++) {
        int64_t r = i % blocks_per_sm_count, b = i / blocks_per_sm_count % block_count;
        int64_t f = i / blocks_per_sm_count / block_count % prefetch_count;
        int64_t p = i / blocks_per_sm_count / block_count / prefetch_count;
        registers_config config = {.points = points_per_thread[p],
                                   .prefetch = prefetch[f],
                                   .split = split,
                                   .launches = launches,
                                   .point_lanes = point_lanes,
                                   .block = block[b],
                                   .blocks_per_sm = blocks_per_sm[r]};
        if (config.points % adjacent_points(&plan->spec) || config.block % (32 * split) || config.block < 128)
            continue;
        if (!evaluate(&config, plan)) continue;
        if (found && !is_better(&config, best)) continue;
        *best = config;
        found = 1;
    }
    return found;
}

static int best_config(registers_config *best, const km_plan *plan) {
    TRY_ALL(split, 1, 2, 3, 4);
    TRY_ALL(launches, 1, 2, 3, 4, 6, 8, 10, 12, 16);
    TRY_ALL(lanes_per_point, 1, 2, 4);
    int found = 0;
    for (int64_t i = 0; i < lanes_per_point_count * split_count * launches_count; i++) {
        int64_t s = split[i / launches_count % split_count], l = launches[i % launches_count];
        int64_t t = lanes_per_point[i / launches_count / split_count];
        registers_config config = {0};
        if (t > 1 && plan->spec.features % (t * 16 / km_type_bytes(plan->spec.type)))
            continue; // a lane loads whole 16 bytes
        if (s * l > GROUPS_MAX || (s * l > 1 && s * l > plan->spec.clusters_count)) continue;
        if (!best_of_split(&config, plan, s, l, t)) continue;
        if (found && config.total_ns >= best->total_ns) continue;
        *best = config;
        found = 1;
    }
    return found;
}

static void estimate(km_config *found, km_plan *plan) {
    registers_config best = {0}, *config = &best;
    km_estimate *estimate = &plan->estimates[KM_DESIGN_REGISTERS];
    estimate->design = KM_DESIGN_REGISTERS;
    estimate->feasible = best_config(config, plan);
    if (!estimate->feasible) {
        km_plan_infeasible(plan, KM_DESIGN_REGISTERS, "the sums of the K list do not fit into registers");
        return;
    }
    estimate->bytes_per_point =
        (double)(config->launches * plan->spec.features * km_type_bytes(plan->spec.type));
    estimate->operations_per_point = config->operations;
    estimate->memory_ns = config->memory_ns;
    estimate->issue_ns = config->issue_ns;
    estimate->total_ns = config->total_ns;
    estimate->registers_per_thread = config->registers;
    estimate->registers_spare = config->register_limit - config->registers;
    estimate->shared_bytes_per_block = config->shared_bytes;
    KM_CONFIG_PUT(found, best);
}

// Decision --------------------------------------------------------------------------------------------------

static km_status decide_form(km_plan *plan, km_error *err) {
    const char *refused = constant_refused(plan);
    int constant = !refused && constant_pays(plan);
    KM_TRY(km_plan_set(plan, KM_PARAM_form, constant ? KM_WORD_form_constant : KM_WORD_form_shared, err, "%s",
                       refused    ? refused
                       : constant ? "the coefficients of the scores are the same for all threads"
                                  : "the compiler would keep coefficients in registers, which are taken"));
    if (!refused || km_plan_value(plan, KM_PARAM_form) != KM_WORD_form_constant) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "form must be shared here (%s), got constant", refused);
}

static km_status decide(km_plan *plan, const km_config *found, km_error *err) {
    registers_config best, *config = &best;
    KM_CONFIG_GET(best, found);
    KM_TRY(km_cuda_set_restarts(plan, err));
    KM_TRY(km_plan_set(plan, KM_PARAM_points_per_thread, config->points, err,
                       "independent work hides latency; about %lld of %lld registers are used",
                       (long long)config->registers, (long long)config->register_limit));
    KM_TRY(km_plan_set(plan, KM_PARAM_prefetch, config->prefetch, err, "%s",
                       config->prefetch ? "the next points are fetched while these are worked on"
                                        : "asynchronous copies need sm_80"));
    KM_TRY(km_plan_set(plan, KM_PARAM_block, config->block, err,
                       "one block fills a multiprocessor: fewest partial sums"));
    KM_TRY(km_plan_set(plan, KM_PARAM_blocks_per_sm, config->blocks_per_sm, err,
                       "the block is as large as registers allow"));
    KM_TRY(km_plan_set(plan, KM_PARAM_split, config->split, err, "%s",
                       config->split > 1 ? "so many threads share the sums of the K list"
                                         : "a thread's registers hold the sums of the whole K list"));
    KM_TRY(km_plan_set(plan, KM_PARAM_lanes_per_point, config->point_lanes, err, "%s",
                       config->point_lanes > 1
                           ? "so many lanes share a point, as one has no room for its features' sums"
                           : "a lane holds whole points"));
    KM_TRY(km_plan_set(plan, KM_PARAM_launches, config->launches, err, "%s",
                       config->launches > 1 ? "a block's registers do not hold the sums of the whole K list"
                                            : "one read of the points serves every K"));
    KM_TRY(km_cuda_set_grid(plan, 32 * LANE_POINTS, err));
    KM_TRY(decide_form(plan, err));
    KM_TRY(km_plan_layout_make(plan, plan->spec.clusters_count * (int64_t)sizeof(int32_t), err));
    split_list(plan->layout, &plan->spec,
               km_plan_value(plan, KM_PARAM_split) * km_plan_value(plan, KM_PARAM_launches));
    return KM_OK;
}

// Names -----------------------------------------------------------------------------------------------------

// Bits of a coordinate with which d products and a constant still add up exactly in the type.
static int64_t exact_bits(const km_spec *spec) {
    int64_t log2_d = 0;
    while ((1LL << log2_d) < spec->features) log2_d++;
    return ((spec->type == KM_FLOAT64 ? 51 : 22) - log2_d) / 2;
}

// One warp group: its Ks, the indices of their coefficients and sums, and its columns, which start at `column`.
static int64_t add_group(km_env *part, const km_plan *plan, int64_t group, const int32_t *group_of,
                         int64_t column) {
    const km_spec *spec = &plan->spec;
    int64_t split = km_plan_value(plan, KM_PARAM_split),
            point_lanes = km_plan_value(plan, KM_PARAM_lanes_per_point), columns = 0, coefficient = 0;
    int64_t counts = 0, warps = group % split;
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)group);
    km_env *item = km_env_item(part, "groups", text);
    km_text ks = {0};
    km_env_list(item, "ks");
    for (int64_t i = 0; i < spec->clusters_count; coefficient += spec->clusters[i++] - 1) {
        if (group_of[i] != group) continue;
        km_env *k = km_cuda_name_k(item, spec, i, 0);
        km_env_set_int(k, "scores", spec->clusters[i] - 1);
        km_env_set_flag(k, "is_one", spec->clusters[i] == 1);
        km_env_set_int(k, "coefficients", coefficient * point_lanes);
        km_env_set_int(k, "sum", columns);
        km_env_set_int(k, "count", counts);
        counts += spec->clusters[i] - 1;
        columns += sums_of(plan, spec->clusters[i], point_lanes);
        km_text_printf(&ks, "%s%d", ks.size ? ", " : "", spec->clusters[i]);
    }
    if (columns == 0) columns = 1; // K = 1 by itself has none, but an array needs one
    km_env_set_int(item, "index", group % split);
    if (!ks.size) km_text_puts(&ks, "none");
    km_env_set_text(item, "text", &ks);
    km_env_set_int(item, "columns", columns);
    km_env_set_int(item, "warp_sums", columns * point_lanes);
    km_env_set_int(item, "counts", counts ? counts : 1);
    km_env_set_flag(item, "has_scores", counts > 0);
    km_env_set_int(item, "column", column * point_lanes);
    if (warps > 1)
        km_env_set(item, "warps", " + %lld * WARPS", (long long)warps);
    else
        km_env_set(item, "warps", "%s", warps ? " + WARPS" : "");
    return columns;
}

// Points of a thread: it has `lane_d` features of a point, and `adjacent` points that are adjacent in memory. Factors
// that are 1 are not in the text.
static void name_points(km_env *env, const km_plan *plan, int64_t adjacent, int64_t lane_d) {
    int64_t points = km_plan_value(plan, KM_PARAM_points_per_thread),
            point_lanes = km_plan_value(plan, KM_PARAM_lanes_per_point);
    int split = km_plan_value(plan, KM_PARAM_split) > 1, ring = km_plan_value(plan, KM_PARAM_prefetch) > 0;
    int labelled = plan->track_labels && plan->clusters_sum > plan->spec.clusters_count;
    km_env_set_flag(env, "lanes_share_point", point_lanes > 1);
    km_env_set_flag(env, "adjacent_points", adjacent > 1);
    km_env_set_flag(env, "warp_groups", split);
    km_env_set_flag(env, "ring", ring);
    km_env_set_flag(env, "writes_labels", labelled);
    km_env_set_flag(env, "needs_first_point", labelled || !ring); // a thread computes the index of its points
    km_env_set_flag(env, "needs_load_points", labelled || !ring || plan->weighted);
    km_env_set_int(env, "warp_points", 32 / point_lanes * points);
    km_env_set_int(env, "load_points", 32 / point_lanes * adjacent);
    km_env_set_int(env, "loads", points / adjacent);
    km_env_set_int(env, "pieces", adjacent * lane_d * km_type_bytes(plan->spec.type) / 16);
    km_env_set(env, "lane_d_name", point_lanes > 1 ? "LANE_D" : "D");
    km_env_set(env, "warp", split ? "threadIdx.x %% THREADS / 32" : "threadIdx.x / 32");
    km_env_set(env, "lane_point",
               point_lanes > 1 ? "lane / LANES_PER_POINT"
               : adjacent > 1  ? "lane * ADJACENT"
                               : "lane");
}

// The ring of tiles in shared memory.
static void name_ring(km_env *env, const km_plan *plan, int64_t adjacent, int64_t lane_d) {
    int64_t point_lanes = km_plan_value(plan, KM_PARAM_lanes_per_point),
            size = km_type_bytes(plan->spec.type);
    int64_t pieces = adjacent * lane_d * size / 16, swizzle = 1;
    int split = km_plan_value(plan, KM_PARAM_split) > 1;
    while (swizzle < 8 && pieces % (2 * swizzle) == 0) swizzle *= 2;
    km_env_set_int(env, "stages", km_plan_value(plan, KM_PARAM_prefetch) + 1);
    km_env_set_int(env, "swizzle", swizzle);
    km_env_set_int(env, "weights_bytes", adjacent * size);
    km_env_set_flag(env, "swizzled", swizzle > 1);
    km_env_set_flag(env, "whole_rows", 32 % pieces == 0); // 32 pieces are whole rows
    km_env_set(env, "row_point",
               point_lanes > 1 ? "row / LANES_PER_POINT"
               : adjacent > 1  ? "row * ADJACENT"
                               : "row");
    km_env_set(env, "lane_weight", adjacent > 1 ? "lane * ADJACENT" : "lane");
    km_env_set(env, "row_weights", adjacent > 1 ? "32 * ADJACENT" : "32");
    km_env_set(env, "first_load", split ? "(int)threadIdx.x / THREADS" : "0");
    km_env_set(env, "loads_step", split ? "SPLIT" : "1");
    km_env_set(env, "warp_pieces", split ? "WARP_PIECES" : "LOADS * PIECES");
    km_env_set(env, "first_piece", split ? "threadIdx.x / THREADS * 32" : "0");
    km_env_set(env, "pieces_step", split ? "32 * SPLIT" : "32");
    km_env_set(env, "ring_of_warp", split ? "warp %% WARPS" : "warp");
    km_env_set(env, "stage_text", split ? "the warps that share a ring" : "one warp");
}

// Labels, four at a time where a thread's points are a multiple of that.
static void name_labels(km_env *env, const km_plan *plan, int64_t adjacent) {
    int64_t point_lanes = km_plan_value(plan, KM_PARAM_lanes_per_point);
    int packed = plan->track_labels && km_plan_value(plan, KM_PARAM_points_per_thread) % 4 == 0;
    km_env_set_flag(env, "packed_labels", packed);
    km_env_set(env, "labels_written", packed ? "labels_packed" : "labels_single");
    km_env_set_flag(env, "exchanges_single_labels",
                    adjacent == 1); // by how many exchanges a lane gets the labels of four adjacent points
    km_env_set_flag(env, "exchanges_labels", adjacent <= 2);
    km_env_set_int(env, "exchange", 4 / adjacent);
    km_env_set(env, "label_lanes", point_lanes > 1 ? "subwarps" : "lanes");
    km_env_set(env, "point_of_thread", point_lanes > 1 ? "threadIdx.x / LANES_PER_POINT" : "threadIdx.x");
    km_env_set_int(env, "label_step", adjacent * (32 / point_lanes - 1));
    km_env_set_int(env, "exchange_width", 2 / adjacent * point_lanes);
    km_env_set_int(env, "exchange_bit", 2 / adjacent);
}

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    const km_spec *spec = &plan->spec;
    const int32_t *group_of = plan->layout;
    (void)err;
    *root = "cuda/registers/registers.cu";
    km_cuda_names(env, plan);
    int64_t split = km_plan_value(plan, KM_PARAM_split), launches = km_plan_value(plan, KM_PARAM_launches);
    km_env_set_flag(env, "prepares_coefficients", 1);
    int64_t point_lanes = km_plan_value(plan, KM_PARAM_lanes_per_point),
            lane_d = spec->features / point_lanes;
    int64_t adjacent = adjacent_points(spec);
    km_env_set_int(env, "lane_d", lane_d);
    km_env_set_flag(env, "float_sums", spec->type == KM_FLOAT32);
    km_env_set_int(env, "lane_points", LANE_POINTS);
    km_env_set_int(env, "gathered_row", gathered_row(plan, point_lanes));
    name_points(env, plan, adjacent, lane_d);
    name_ring(env, plan, adjacent, lane_d);
    name_labels(env, plan, adjacent);
    km_env_set_flag(env, "integer_counts",
                    spec->type == KM_FLOAT64 && !plan->weighted); // the pipe for doubles is the busy one
    km_env_set_int(env, "adjacent", adjacent);
    km_env_set_int(env, "exact_bits", exact_bits(spec));
    int64_t coefficients = plan->clusters_sum - spec->clusters_count;
    km_env_set_int(env, "coefficients", coefficients ? coefficients : 1);
    km_env_set_flag(env, "has_scores", coefficients > 0); // K = 1 has none
    km_env_set_int(
        env, "launches_count",
        launches + 3 +
            !!plan->weighted); // km_weigh_points, km_sum_points, km_prepare_coefficients, km_reduce

    // Columns in the order of the warp groups; those of the sums over all points come last.
    int64_t column = 0, sums_most = 0;
    for (int64_t part = 0; part < launches; part++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)part);
        km_env *item = km_env_item(env, "parts", text);
        km_env_set_int(item, "apart", part % KM_SOURCE_LAUNCH_PARTS_MAX);
        km_env_set_flag(item, "one_group", split == 1);
        km_env_set_int(item, "first_group", part * split);
        for (int64_t group = part * split; group < (part + 1) * split; group++) {
            int64_t columns = add_group(item, plan, group, group_of, column);
            column += columns;
            if (columns > sums_most) sums_most = columns;
        }
    }
    km_env_set_int(env, "all_points", column * point_lanes);
    km_env_set_int(env, "columns", (column + lane_d) * point_lanes);
    km_env_set_int(env, "warp_sums", sums_most * point_lanes);
    km_env_set_int(env, "cluster_sums", (lane_d + 1) * point_lanes);
    km_env_set_int(env, "gathered", 32 / point_lanes);
    km_env_set(env, "first_coefficients",
               point_lanes > 1 ? "(km_offsets[k_index] - k_index) * LANES_PER_POINT"
                               : "km_offsets[k_index] - k_index");
    km_env_set(env, "coefficients_j", point_lanes > 1 ? "j * LANES_PER_POINT" : "j");
    km_env_set(env, "at_f", point_lanes > 1 ? "at" : "f");
    km_env_set(env, "weight_at", point_lanes > 1 ? "LANE_D * LANES_PER_POINT" : "D");
    for (int64_t i = 0, offset = 0; i < spec->clusters_count; offset += spec->clusters[i++]) {
        km_env *k = km_cuda_name_k(env, spec, i, offset);
        int64_t first = 0;
        for (int64_t j = 0; j < spec->clusters_count; j++)
            if (group_of[j] < group_of[i] || (group_of[j] == group_of[i] && j < i))
                first += sums_of(plan, spec->clusters[j], point_lanes);
        km_env_set_int(k, "column", first * point_lanes);
    }
    return KM_OK;
}

static int64_t workspace_bytes(const km_plan *plan, int64_t n) {
    (void)n;
    return 2 * km_cuda_partial_bytes(plan);
}

const km_design_code km_design_registers = {.estimate = estimate,
                                            .decide = decide,
                                            .names = names,
                                            .workspace_bytes = workspace_bytes,
                                            .scores_decide = 1,
                                            .sums_vary = 1};

// SPDX-License-Identifier: MIT
// The CPU planner: estimates of the designs, the choice between them, and every number of the chosen one.
#include "cost_cpu.h"
#include "../base/error.h"
#include "gen/portable_features.h"
#include "planner.h"

#include <math.h>
#include <stdio.h>

enum {
    LANES_GROUP = 64,
    TILE_MAX = 8,        // centroids at a time: rows that a table has behind its last one, and one more
    INTEGERS_D_MIN = 5,  // features from which scores of integers pay ...
    INTEGERS_D_MAX = 64, // ... and up to which a span's points as integers stay in the first cache
    PANEL_MIN = 48,      // centroids of a panel
    PANEL_MAX = 1024,
    PART_BYTES = 16384 // of a group's points that stay in the first cache
};

// What a shape costs, for every design alike.
typedef struct shape {
    double d, s, ks; // features; sum and count of the K list
    double n, restarts;
    double real_bytes;
    double lanes;         // reals of a vector
    double fma_per_cycle; // vectors multiplied and added in one cycle
    double threads, ghz;
} shape;

// Updates that a member takes until it converges, where nothing is known about the data.
static const double updates_typical = 20;
// Seconds that the system's compiler takes for one module.
static const double compile_s = 0.8;
static const char changes_reason[] = "changes of 64 labels are the bits of one number";
// A pass of portable's kernels for any number of features, times one for these features: 1.03 to 1.4.
static const double any_features_cost = 1.3;

static int64_t vector_bytes(int32_t isa) {
    return isa == KM_ISA_AVX512 ? 64 : isa == KM_ISA_AVX2 ? 32 : 16;
}

static shape shape_of(const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    int is_double = plan->spec.type == KM_FLOAT64;
    shape it = {.d = (double)plan->spec.features,
                .s = (double)plan->clusters_sum,
                .ks = (double)plan->spec.clusters_count,
                .n = (double)plan->points,
                .restarts = (double)plan->spec.restarts,
                .real_bytes = is_double ? 8 : 4,
                .threads = (double)facts->units,
                .ghz = facts->clock_ghz};
    it.lanes = (double)vector_bytes(facts->target.arch) / it.real_bytes;
    it.fma_per_cycle = (is_double ? facts->fp64_per_cycle : facts->fp32_per_cycle) / it.lanes;
    return it;
}

// A pass gives a block of points to one thread: small data do not fill a machine.
static double threads_used(const shape *it) {
    double blocks = it->n > 0 ? ceil(it->n / KM_CPU_PASS_POINTS) : it->threads;
    return blocks < it->threads ? blocks : it->threads;
}

static void bound_by(km_estimate *e, const char *what) {
    e->total_ns = e->memory_ns > e->issue_ns ? e->memory_ns : e->issue_ns;
    snprintf(e->reason, sizeof e->reason, "bound by %s", e->memory_ns > e->issue_ns ? "memory" : what);
}

static int registers_of(int32_t isa) {
    return isa == KM_ISA_AVX512 || isa == KM_ISA_NEON ? 32 : 16;
}

static int64_t vectors_of(int32_t isa, int64_t lanes) {
    return registers_of(isa) == 32 || lanes == 2 ? 4 : 2;
}

// Each group meets the whole table of a K: what it costs, for each point, where that lies beyond the second cache.
static double table_reads(const km_plan *plan, const shape *it) {
    double bytes = 0, group = (double)(vectors_of(plan->facts.target.arch, (int64_t)it->lanes)) * it->lanes;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++) {
        double table = plan->spec.clusters[i] * (it->d + 1) * it->real_bytes;
        if (table > (double)plan->facts.cache_bytes / 2) bytes += table;
    }
    return bytes / group / 16; // bytes that arrive while a vector is multiplied and added
}

// Whether lanes can score by integers: why not, or NULL.
static const char *integers_refused(const km_plan *plan) {
    if (plan->spec.type != KM_FLOAT32) return "scores of float64";
    if (plan->facts.target.arch != KM_ISA_AVX512)
        return "no products of 16-bit integers in this instruction set";
    if (plan->spec.clusters[plan->spec.clusters_count - 1] > 256) return "labels of more than a byte";
    if (plan->spec.features > INTEGERS_D_MAX) return "too many features";
    return NULL;
}

// Whether they are the faster ones, unless the spec says so itself.
static int integers_pay(const km_plan *plan) {
    return !integers_refused(plan) && plan->facts.has_integers && plan->spec.features >= INTEGERS_D_MIN;
}

static int uses_integers(const km_plan *plan) {
    int64_t fixed = integers_pay(plan);
    km_plan_fixed(plan, KM_PARAM_integers, &fixed);
    return fixed > 0 && !integers_refused(plan);
}

// A fused multiply-add for each feature of each centroid, then compare, choose and keep the larger; by integers a
// product for two features, and points that become them.
static double scores_operations(const km_plan *plan, const shape *it) {
    if (!uses_integers(plan)) return it->s * (it->d + 3) / it->lanes;
    return (it->s * (ceil(it->d / 2) + 3.5) + 2.5 * it->d) / it->lanes;
}

static void lanes_operations(km_estimate *e, const km_plan *plan, const shape *it) {
    // Points, and the label of each K read back.
    e->bytes_per_point = it->real_bytes * it->d + it->ks;
    // A group's labels are compared with the old ones.
    e->operations_per_point = scores_operations(plan, it) + it->ks * 0.6;
    e->operations_per_point += table_reads(plan, it);
    e->memory_ns = e->bytes_per_point / plan->facts.bandwidth_gbs;
}

static void estimate_lanes(km_plan *plan, const shape *it) {
    km_estimate *e = &plan->estimates[KM_DESIGN_LANES];
    *e = (km_estimate){.design = KM_DESIGN_LANES, .feasible = 1};
    lanes_operations(e, plan, it);
    e->issue_ns = e->operations_per_point / (it->fma_per_cycle * it->ghz * threads_used(it));
    bound_by(e, uses_integers(plan) ? "products of integers"
                : it->d >= 4        ? "fused multiply-adds"
                                    : "comparisons of scores");
}

// Emitted text that no compiler makes machine code of, and designs that are left out.
static void rule_out(km_plan *plan, km_design design) {
    if (design != KM_DESIGN_PORTABLE && !plan->facts.has_compiler)
        km_plan_no_way(plan, design, "no C compiler was found (cc, gcc or clang)");
    else if (km_plan_avoids(plan, design, INT64_MAX))
        km_plan_no_way(plan, design, "");
}

// Whether the library has kernels for exactly these features.
static int portable_is_lanes(const km_plan *plan) {
    static const int64_t features[] = KM_PORTABLE_FEATURES;
    if (plan->spec.type != KM_FLOAT32 || plan->facts.target.arch == KM_ISA_GENERIC) return 0;
    if (plan->spec.clusters[plan->spec.clusters_count - 1] > 256) return 0;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (features[i] == plan->spec.features) return 1;
    return 0;
}

// Those of lanes, compiled into the library; where they serve any number of features, loops are not unrolled.
static void estimate_portable(km_plan *plan, const shape *it) {
    km_estimate *e = &plan->estimates[KM_DESIGN_PORTABLE];
    int same = portable_is_lanes(plan);
    e->design = KM_DESIGN_PORTABLE;
    e->feasible = 1;
    lanes_operations(e, plan, it);
    if (!same) e->operations_per_point *= any_features_cost;
    e->issue_ns = e->operations_per_point / (it->fma_per_cycle * it->ghz * threads_used(it));
    bound_by(e, same ? "the arithmetic of lanes" : "the arithmetic of lanes, any number of features");
}

// The K list in whole tiles, each of which costs half a centroid more, in centroids of lanes, which has tiles of 4.
static double tiles_work(const km_plan *plan, int64_t tile) {
    double work = 0;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++)
        work += ceil(plan->spec.clusters[i] / (double)tile) * ((double)tile + 0.5);
    return work * 4 / 4.5;
}

// Centroids at a time: as many as the registers hold, or fewer where that leaves less of the last tile idle.
static int64_t tile_of(const km_plan *plan) {
    int64_t best = plan->facts.target.arch == KM_ISA_GENERIC ? 4 : 6;
    for (int64_t tile = best - 1; tile >= 4; tile--)
        if (tiles_work(plan, tile) < tiles_work(plan, best)) best = tile;
    return best;
}

static void estimate_blocks(km_plan *plan, const shape *it) {
    km_estimate *e = &plan->estimates[KM_DESIGN_BLOCKS];
    *e = plan->estimates[KM_DESIGN_LANES];
    e->design = KM_DESIGN_BLOCKS;
    // Sums are made point by point.
    e->operations_per_point = tiles_work(plan, tile_of(plan)) * (it->d + 3) / it->lanes + it->ks * 1.5;
    e->issue_ns = e->operations_per_point / (it->fma_per_cycle * it->ghz * threads_used(it));
    bound_by(e, "fused multiply-adds");
}

// Seconds of the whole sweep with one design, all restarts to convergence.
static double sweep_s(const km_estimate *e, const shape *it) {
    return it->n * e->total_ns * updates_typical * it->restarts * 1e-9;
}

// The faster of the emitted designs that are possible; where memory bounds both, the one with less arithmetic.
static const km_estimate *emitted_best(const km_plan *plan) {
    const km_estimate *lanes = &plan->estimates[KM_DESIGN_LANES],
                      *blocks = &plan->estimates[KM_DESIGN_BLOCKS];
    if (!lanes->feasible || !blocks->feasible) return lanes->feasible ? lanes : blocks;
    if (blocks->total_ns != lanes->total_ns) return blocks->total_ns < lanes->total_ns ? blocks : lanes;
    return blocks->issue_ns < lanes->issue_ns ? blocks : lanes;
}

static km_status choose(km_plan *plan, const shape *it, km_error *err) {
    const km_estimate *portable = &plan->estimates[KM_DESIGN_PORTABLE], *best = emitted_best(plan);
    km_design fixed = km_plan_fixed_design(plan);
    size_t size = sizeof plan->design_reason;
    char *reason = plan->design_reason;
    if (fixed != KM_DESIGN_NONE && !plan->estimates[fixed].feasible)
        return km_fail(err, KM_ERROR_PLAN, "the design %s cannot be had: %s%s", km_design_name(fixed),
                       plan->estimates[fixed].reason, portable->feasible ? "; take portable" : "");
    if (!fixed && !portable->feasible && !best->feasible)
        return km_fail(err, KM_ERROR_PLAN, "no design can be had: portable: %s; %s: %s", portable->reason,
                       km_design_name(best->design), best->reason);
    double saved = sweep_s(portable, it) - sweep_s(best, it);
    plan->design = KM_DESIGN_PORTABLE;
    if (fixed != KM_DESIGN_NONE) {
        plan->design = fixed;
        snprintf(reason, size, "fixed in the spec");
    } else if (!best->feasible) {
        snprintf(reason, size, "compiled into the library: %.120s", best->reason);
    } else if (!portable->feasible) {
        plan->design = best->design;
        snprintf(reason, size, "the least time of those left");
    } else if (it->n > 0 && saved < compile_s) {
        snprintf(reason, size,
                 "compiled into the library: %.0f points x %.0f clusters x %.0f restarts would save about "
                 "%.2f s, a compiler takes %.1f s",
                 it->n, it->s, it->restarts, saved, compile_s);
    } else {
        plan->design = best->design;
        snprintf(reason, size, "about %.1f times as fast a pass as portable%s",
                 portable->total_ns / best->total_ns, it->n > 0 ? ", worth compiling" : "");
    }
    return KM_OK;
}

// Restarts share one read of the points: as many as keep the arithmetic units busier than memory.
static km_status set_restarts(km_plan *plan, const shape *it, km_error *err) {
    const km_estimate *e = &plan->estimates[plan->design];
    double fits =
        it->n > 0 ? it->n * it->real_bytes * it->d / (double)plan->facts.cache_bytes / it->threads : 16;
    double wanted = fits > 1 ? ceil(2 * e->memory_ns / e->issue_ns) : 1;
    if (it->n > 0 && it->n <= 65536 * it->threads)
        wanted = 4; // small data: more work for each pass over them
    if (wanted > it->restarts) wanted = it->restarts;
    if (wanted > 16) wanted = 16;
    if (wanted < 1) wanted = 1;
    if (plan->in_flight_max && wanted > (double)plan->in_flight_max)
        return km_plan_set(plan, KM_PARAM_restarts_in_flight, plan->in_flight_max, err,
                           "as many as the free memory holds");
    return km_plan_set(plan, KM_PARAM_restarts_in_flight, (int64_t)wanted, err,
                       "a read takes %.2f ns a point, one restart's arithmetic %.2f ns", e->memory_ns,
                       e->issue_ns);
}

// Numbers that lanes and blocks have in common; `tile` centroids at a time.
static km_status set_vectors(km_plan *plan, const shape *it, int64_t wanted, int64_t tile,
                             const char *tile_reason, km_error *err) {
    int32_t isa = plan->facts.target.arch;
    int64_t lanes = vector_bytes(isa) / (int64_t)it->real_bytes, vectors = 0;
    KM_TRY(km_plan_set(plan, KM_PARAM_lanes, lanes, err, "%d-byte vectors of %s", (int)vector_bytes(isa),
                       km_type_name(plan->spec.type)));
    if (km_plan_get(plan, "lanes") != lanes)
        return km_fail(err, KM_ERROR_PLAN, "lanes must be %d for this target and type, got %d", (int)lanes,
                       (int)km_plan_get(plan, "lanes"));
    KM_TRY(km_plan_set(plan, KM_PARAM_vectors, wanted, err,
                       "vectors x (tile + 3) + 1 registers, of %d; at least 8 points", registers_of(isa)));
    vectors = km_plan_get(plan, "vectors");
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, tile, err, "%s", tile_reason));
    if (vectors > 8 || (vectors & (vectors - 1)) || vectors < 2 || vectors * lanes > 64 ||
        vectors * lanes < 8)
        return km_fail(err, KM_ERROR_PLAN,
                       "vectors must be 2, 4 or 8 and hold 8 to 64 points, got %d vectors of %d",
                       (int)vectors, (int)lanes);
    if (km_plan_get(plan, "tile_clusters") > TILE_MAX)
        return km_fail(err, KM_ERROR_PLAN, "tile_clusters must be 1..%d on a CPU, got %d", TILE_MAX,
                       (int)km_plan_get(plan, "tile_clusters"));
    return KM_OK;
}

static km_status set_group(km_plan *plan, int64_t group, const char *reason, km_error *err) {
    KM_TRY(km_plan_set(plan, KM_PARAM_group, group, err, "%s", reason));
    if (km_plan_get(plan, "group") == group) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "group must be %d (%s), got %d", (int)group, reason,
                   (int)km_plan_get(plan, "group"));
}

static km_status set_integers(km_plan *plan, km_error *err) {
    const char *refused = integers_refused(plan);
    const char *reason = refused                     ? refused
                         : !plan->facts.has_integers ? "the processor has no AVX512_VNNI"
                         : !integers_pay(plan)       ? "few features: float is as fast"
                                                     : "a product takes two features, near ties go again";
    KM_TRY(km_plan_set(plan, KM_PARAM_integers, integers_pay(plan), err, "%s", reason));
    if (!refused || km_plan_get(plan, "integers") == 0) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "integers must be 0 (%s), got 1", refused);
}

// Few features: centroids one after another, so that no remainder of a tile is left, by four vectors of points.
static km_status set_lanes(km_plan *plan, const shape *it, km_error *err) {
    int32_t isa = plan->facts.target.arch;
    int single = it->d <= (isa == KM_ISA_AVX2 ? 8 : isa == KM_ISA_AVX512 ? 4 : 0);
    KM_TRY(set_vectors(plan, it, single ? 4 : vectors_of(isa, (int64_t)it->lanes), single ? 1 : 4,
                       single ? "one after another: few features, no remainders"
                              : "each load of points serves 4 centroids",
                       err));
    KM_TRY(set_integers(plan, err));
    return set_group(plan, LANES_GROUP, changes_reason, err);
}

// The panel's rows stay in half of the second cache, but a group's points are read anew for each panel: not too few.
static km_status set_panel(km_plan *plan, const shape *it, km_error *err) {
    int64_t tile = km_plan_get(plan, "tile_clusters"),
            most = plan->spec.clusters[plan->spec.clusters_count - 1];
    int64_t row = (plan->spec.features + 1) * (int64_t)it->real_bytes;
    int64_t panel = plan->facts.cache_bytes / 4 / row;
    if (panel < PANEL_MIN) panel = PANEL_MIN;
    if (panel > PANEL_MAX) panel = PANEL_MAX;
    if (panel > most) panel = most;
    panel = (panel + tile - 1) / tile * tile;
    KM_TRY(km_plan_set(plan, KM_PARAM_panel_clusters, panel, err, "%lld bytes of centroids, whole tiles",
                       (long long)(panel * row)));
    panel = km_plan_get(plan, "panel_clusters");
    if (panel % tile || panel > PANEL_MAX + TILE_MAX)
        return km_fail(err, KM_ERROR_PLAN,
                       "panel_clusters must be a multiple of tile_clusters (%d) up to %d, got %d", (int)tile,
                       PANEL_MAX + TILE_MAX, (int)panel);
    return KM_OK;
}

static km_status set_blocks(km_plan *plan, const shape *it, km_error *err) {
    int64_t d = plan->spec.features, tile = tile_of(plan), parts = 0;
    KM_TRY(set_vectors(plan, it, vectors_of(plan->facts.target.arch, (int64_t)it->lanes), tile,
                       "sums of vectors x tile in registers, the K list in whole tiles", err));
    int64_t group = km_plan_get(plan, "vectors") * km_plan_get(plan, "lanes");
    KM_TRY(set_group(plan, group, "vectors x lanes", err));
    int64_t bytes = group * d * (int64_t)it->real_bytes;
    parts = bytes > PART_BYTES + PART_BYTES / 2 ? (bytes + PART_BYTES - 1) / PART_BYTES : 1;
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_features, (d + parts - 1) / parts, err,
                       "%lld bytes of a group's points in the first cache", (long long)(bytes / parts)));
    if (km_plan_get(plan, "tile_features") > d)
        return km_fail(err, KM_ERROR_PLAN, "tile_features must be 1..%d, the features, got %d", (int)d,
                       (int)km_plan_get(plan, "tile_features"));
    return set_panel(plan, it, err);
}

km_status km_plan_cpu(km_plan *plan, km_error *err) {
    shape it = shape_of(plan);
    estimate_lanes(plan, &it);
    estimate_blocks(plan, &it);
    estimate_portable(plan, &it);
    rule_out(plan, KM_DESIGN_LANES);
    rule_out(plan, KM_DESIGN_BLOCKS);
    rule_out(plan, KM_DESIGN_PORTABLE);
    KM_TRY(choose(plan, &it, err));
    if (plan->design == KM_DESIGN_LANES)
        KM_TRY(set_lanes(plan, &it, err));
    else if (plan->design == KM_DESIGN_BLOCKS)
        KM_TRY(set_blocks(plan, &it, err));
    else {
        KM_TRY(set_integers(plan, err));
        KM_TRY(set_group(plan, LANES_GROUP, changes_reason, err));
    }
    return set_restarts(plan, &it, err);
}

// SPDX-License-Identifier: MIT
#include "common.h"
#include "../../base/size.h"
#include "facts.h"
#include "measured.h"

#include <math.h>
#include <stdio.h>

enum {
    INT16_D_MIN = 5,    // features from which int16 scores may pay ...
    INT16_D_MAX = 64,   // ... and up to which a span's points as int16 stay in the first cache
    UNROLLED_D_MAX = 8, // features up to which compilers unroll loops, and do best left alone
    CHOOSING = 3        // operations of a vector of scores: compare, choose the index, keep the larger
};

// Estimates ---------------------------------------------------------------------------------------------------

int64_t km_cpu_vector_bytes(int32_t isa) {
    return isa == KM_ISA_AVX512 ? 64 : isa == KM_ISA_AVX2 ? 32 : 16;
}

km_cpu_shape km_cpu_shape_of(const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    int is_double = plan->spec.type == KM_FLOAT64;
    km_cpu_shape it = {.d = (double)plan->spec.features,
                       .s = (double)plan->clusters_sum,
                       .ks = (double)plan->spec.clusters_count,
                       .n = (double)plan->points,
                       .restarts = (double)plan->spec.n_init,
                       .real_bytes = is_double ? 8 : 4,
                       .threads = (double)facts->units,
                       .ghz = facts->clock_ghz};
    it.lanes = (double)km_cpu_vector_bytes(facts->target.arch) / it.real_bytes;
    it.fma_per_cycle = (is_double ? facts->fp64_per_cycle : facts->fp32_per_cycle) / it.lanes;
    return it;
}

// A pass gives KM_CPU_PASS_POINTS points at a time to a thread, so small data do not fill a machine.
static double threads_used(const km_cpu_shape *it) {
    double pieces = it->n > 0 ? ceil(it->n / KM_CPU_PASS_POINTS) : it->threads;
    return pieces < it->threads ? pieces : it->threads;
}

double km_cpu_added_operations(const km_cpu_shape *it, double values) {
    return measured.added * values * it->ks;
}

static double operations_per_ns(const km_cpu_shape *it) {
    return it->fma_per_cycle * it->ghz * threads_used(it);
}

void km_cpu_bound_by(km_estimate *e, const km_cpu_shape *it, double rest, const char *what) {
    e->issue_ns = e->operations_per_point / operations_per_ns(it);
    e->total_ns = fmax(e->memory_ns, e->issue_ns) + rest / operations_per_ns(it);
    snprintf(e->reason, sizeof e->reason, "bound by %s", e->memory_ns > e->issue_ns ? "memory" : what);
}

void km_cpu_dense_bound_by(km_estimate *e, const km_plan *plan, const km_cpu_shape *it, const char *what) {
    enum { FIRST_CACHE = 32 * 1024, TILE = 4 };
    double point = it->d * it->real_bytes, bytes = 0, reads = e->memory_ns * operations_per_ns(it);
    for (int64_t i = 0; i < plan->spec.clusters_count && point * KM_CPU_LANES_SOA_POINTS > FIRST_CACHE; i++)
        bytes += (double)km_divide_up(plan->spec.clusters[i], TILE) * point;
    double rest = km_cpu_added_operations(it, it->d) + bytes / measured.group_bytes * it->fma_per_cycle;
    rest += measured.unhidden * fmin(reads, e->operations_per_point);
    km_cpu_bound_by(e, it, rest, what);
}

static int registers_of(int32_t isa) {
    return isa == KM_ISA_AVX512 || isa == KM_ISA_NEON ? 32 : 16;
}

int64_t km_cpu_vectors(int32_t isa, int64_t lanes) {
    return registers_of(isa) == 32 || lanes == 2 ? 4 : 2;
}

// Few features: centroids one after another, so that no tile is left in part, against four vectors of points.
void km_cpu_lanes_tiles(int64_t *vectors, int64_t *tile, const km_plan *plan) {
    int32_t isa = plan->facts.target.arch;
    int single = plan->spec.features <= (isa == KM_ISA_AVX2 ? 8 : isa == KM_ISA_AVX512 ? 4 : 0);
    *vectors = single ? 4 : km_cpu_vectors(isa, (int64_t)km_cpu_shape_of(plan).lanes);
    *tile = single ? 1 : 4;
}

// A vector operation that is no product, in those that are: a core does two in a cycle.
static double plain_operation(const km_cpu_shape *it) {
    return it->fma_per_cycle / 2;
}

// Products and choices of scores; loads of points and of centroids; sums that wait for their own last product: the
// longest of these hides most of the others. A core looks ahead, so small tiles wait beside each other. What has no
// register goes through memory: sums for each feature, the best scores and their indices once.
double km_cpu_tile_operations(const km_plan *plan, const km_cpu_shape *it, km_cpu_tiles tiles,
                              double centroids, double features) {
    double sums = centroids * tiles.vectors, best = 2 * tiles.vectors, pipes = measured.pipes;
    double works = sums * (features + measured.choosing * plain_operation(it));
    double loads = measured.load * tiles.vectors + measured.broadcast * centroids;
    double instructions = works + features * (centroids + (tiles.pinned ? tiles.vectors : 0));
    double chains = fmax(measured.in_flight / instructions, 1); // that wait at the same time
    double waits = measured.chain * features / chains;
    double without = sums + 1 + (tiles.pinned ? tiles.vectors : 1) - registers_of(plan->facts.target.arch);
    double spilled = features * fmin(fmax(without, 0), sums);
    double spilled_best = tiles.best_in_memory ? 0 : fmin(fmax(without + best + 1, 0), best);
    double hidden = pow(pow(works, pipes) + pow(it->fma_per_cycle * features * loads, pipes) +
                            pow(it->fma_per_cycle * waits, pipes),
                        1 / pipes);
    return hidden + it->fma_per_cycle * (measured.spilled * spilled + measured.spilled_best * spilled_best);
}

// Operations of a point's scores in lanes. The centroids that a K leaves beside whole tiles go first; a single one goes
// with a whole tile where features are many (templates/cpu/lanes/lanes.c).
static double tiled_operations(const km_plan *plan, const km_cpu_shape *it, int64_t vectors, int64_t tile) {
    int has_loop = plan->spec.features > UNROLLED_D_MAX;
    km_cpu_tiles tiles = {(double)tile, (double)vectors, .pinned = has_loop && tile > 1};
    double whole = km_cpu_tile_operations(plan, it, tiles, tiles.centroids, it->d), operations = 0;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++) {
        int64_t k = plan->spec.clusters[i], first = (k - 1) % tile + 1;
        if (has_loop && tile > 1 && k > tile && first == 1) first = tile + 1;
        operations += tile > 1 ? measured.first_tile * it->fma_per_cycle : 0;
        operations += km_cpu_tile_operations(plan, it, tiles, (double)first, it->d);
        operations += (double)((k - first) / tile) * whole;
    }
    return operations / (tiles.vectors * it->lanes);
}

// Operations of a point's scores in the plan's type, by the planner's own tiles, or by those that are fixed.
static double own_operations(const km_plan *plan, const km_cpu_shape *it) {
    int64_t vectors, tile;
    km_cpu_lanes_tiles(&vectors, &tile, plan);
    return tiled_operations(plan, it, vectors, tile);
}

static double fixed_operations(const km_plan *plan, const km_cpu_shape *it) {
    int64_t vectors, tile;
    km_cpu_lanes_tiles(&vectors, &tile, plan);
    km_plan_fixed(plan, KM_PARAM_vectors, &vectors);
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &tile);
    return tiled_operations(plan, it, vectors, tile);
}

// Operations of a point's scores by int16: one product for two features, but points are converted first.
static double int16_operations(const km_plan *plan, const km_cpu_shape *it) {
    double pairs = (double)((plan->spec.features + 1) / 2);
    double others =
        measured.int16_choosing * it->s + measured.int16_points * it->d + measured.int16_k * it->ks;
    return (it->s * pairs + others * plain_operation(it)) / it->lanes;
}

// Operations of a point that reading tables costs. Each tile of points reads the whole table of a K: that counts where
// the table does not fit the second cache.
static double table_reads(const km_plan *plan, const km_cpu_shape *it) {
    double bytes = 0,
           points = (double)(km_cpu_vectors(plan->facts.target.arch, (int64_t)it->lanes)) * it->lanes;
    for (int64_t i = 0; i < plan->spec.clusters_count; i++) {
        double table = plan->spec.clusters[i] * (it->d + 1) * it->real_bytes;
        if (table > (double)plan->facts.cache_bytes / 2) bytes += table;
    }
    return bytes / points / measured.table_bytes;
}

// Why lanes can have no int16 scores, or NULL.
static const char *int16_refused(const km_plan *plan) {
    if (plan->spec.type != KM_FLOAT32) return "float64 needs more than 16 bits";
    if (plan->facts.target.arch != KM_ISA_AVX512)
        return "no products of 16-bit integers in this instruction set";
    if (plan->spec.clusters[plan->spec.clusters_count - 1] > 256) return "labels of more than a byte";
    if (plan->spec.features > INT16_D_MAX) return "too many features";
    return NULL;
}

// Whether they are faster.
static int int16_pays(const km_plan *plan) {
    if (int16_refused(plan) || !plan->facts.has_integers || plan->spec.features < INT16_D_MIN) return 0;
    km_cpu_shape it = km_cpu_shape_of(plan);
    return int16_operations(plan, &it) < own_operations(plan, &it);
}

int km_cpu_uses_int16_scores(const km_plan *plan) {
    int64_t fixed = int16_pays(plan);
    km_plan_fixed(plan, KM_PARAM_int16_scores, &fixed);
    return fixed > 0 && !int16_refused(plan);
}

// Operations of a point's scores. Designs are weighed by a fused multiply-add for each feature, and compare, choose and
// keep the larger, for each centroid; ways to run this one by what they cost over its own tiles.
static double scores_operations(const km_plan *plan, const km_cpu_shape *it) {
    double way = km_cpu_uses_int16_scores(plan) ? int16_operations(plan, it) : fixed_operations(plan, it);
    return it->s * (it->d + CHOOSING) / it->lanes * way / own_operations(plan, it);
}

// Points, and the label of each K read back.
void km_cpu_lanes_bytes(km_estimate *e, const km_plan *plan, const km_cpu_shape *it) {
    e->bytes_per_point = it->real_bytes * it->d + it->ks;
    e->memory_ns = e->bytes_per_point / plan->facts.bandwidth_gbs;
}

void km_cpu_lanes_operations(km_estimate *e, const km_plan *plan, const km_cpu_shape *it) {
    km_cpu_lanes_bytes(e, plan, it);
    e->operations_per_point = scores_operations(plan, it) + it->ks * measured.labels + table_reads(plan, it);
}

// Numbers ---------------------------------------------------------------------------------------------------

// Concurrent restarts share one read of the points: as many as keep the arithmetic units busier than memory.
km_status km_cpu_set_restarts(km_plan *plan, km_error *err) {
    km_cpu_shape shape = km_cpu_shape_of(plan), *it = &shape;
    const km_estimate *e = &plan->estimates[plan->design];
    double fits =
        it->n > 0 ? it->n * it->real_bytes * it->d / (double)plan->facts.cache_bytes / it->threads : 16;
    double wanted = fits > 1 ? ceil(2 * e->memory_ns / e->issue_ns) : 1;
    if (it->n > 0 && it->n <= 65536 * it->threads)
        wanted = 4; // small data: more work for each pass over them
    if (wanted > it->restarts) wanted = it->restarts;
    if (wanted > 16) wanted = 16;
    if (wanted < 1) wanted = 1;
    if (plan->concurrent_max && wanted > (double)plan->concurrent_max)
        return km_plan_set(plan, KM_PARAM_concurrent_restarts, plan->concurrent_max, err,
                           "as many as the free memory holds");
    return km_plan_set(plan, KM_PARAM_concurrent_restarts, (int64_t)wanted, err,
                       "a read takes %.2f ns a point, one restart's arithmetic %.2f ns", e->memory_ns,
                       e->issue_ns);
}

// Numbers that lanes and gemm have in common; `tile` centroids at a time.
km_status km_cpu_set_vectors(km_plan *plan, int64_t wanted, int64_t tile, const char *tile_reason,
                             km_error *err) {
    int32_t isa = plan->facts.target.arch;
    int64_t lanes = km_cpu_vector_bytes(isa) / km_type_bytes(plan->spec.type), vectors = 0;
    KM_TRY(km_plan_set(plan, KM_PARAM_lanes, lanes, err, "%d-byte vectors of %s",
                       (int)km_cpu_vector_bytes(isa), km_type_name(plan->spec.type)));
    if (km_plan_value(plan, KM_PARAM_lanes) != lanes)
        return km_fail(err, KM_ERROR_PLAN, "lanes must be %d for this target and type, got %d", (int)lanes,
                       (int)km_plan_value(plan, KM_PARAM_lanes));
    KM_TRY(km_plan_set(plan, KM_PARAM_vectors, wanted, err,
                       "vectors x (tile + 3) + 1 registers, of %d; at least 8 points", registers_of(isa)));
    vectors = km_plan_value(plan, KM_PARAM_vectors);
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, tile, err, "%s", tile_reason));
    if (vectors > 8 || (vectors & (vectors - 1)) || vectors < 2 || vectors * lanes > 64 ||
        vectors * lanes < 8)
        return km_fail(err, KM_ERROR_PLAN,
                       "vectors must be 2, 4 or 8 and hold 8 to 64 points, got %d vectors of %d",
                       (int)vectors, (int)lanes);
    if (km_plan_value(plan, KM_PARAM_tile_clusters) > KM_CPU_TILE_MAX)
        return km_fail(err, KM_ERROR_PLAN, "tile_clusters must be 1..%d on a CPU, got %d", KM_CPU_TILE_MAX,
                       (int)km_plan_value(plan, KM_PARAM_tile_clusters));
    return KM_OK;
}

km_status km_cpu_set_soa_points(km_plan *plan, int64_t points, const char *reason, km_error *err) {
    KM_TRY(km_plan_set(plan, KM_PARAM_soa_points, points, err, "%s", reason));
    if (km_plan_value(plan, KM_PARAM_soa_points) == points) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "soa_points must be %d (%s), got %d", (int)points, reason,
                   (int)km_plan_value(plan, KM_PARAM_soa_points));
}

km_status km_cpu_set_int16_scores(km_plan *plan, km_error *err) {
    const char *refused = int16_refused(plan);
    const char *reason = refused                     ? refused
                         : !plan->facts.has_integers ? "the processor has no AVX512_VNNI"
                         : !int16_pays(plan)
                             ? "few features or clusters: float is as fast"
                             : "one product for two features; ambiguous points are scored again";
    KM_TRY(km_plan_set(plan, KM_PARAM_int16_scores, int16_pays(plan), err, "%s", reason));
    if (!refused || km_plan_value(plan, KM_PARAM_int16_scores) == 0) return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "int16_scores must be 0 (%s), got 1", refused);
}

// Names -----------------------------------------------------------------------------------------------------

enum {
    SPAN_GROUPS_MAX = 8,
    ROWS_D_MAX = 64,       // features up to which points become rows of doubles before they are added
    MASKED_SUMS_K_MAX = 5, // clusters up to which masked additions are faster than point by point ...
    MASKED_SUMS_D_MAX = 4, // ... and features
    INT16_TILE = 4,        // centroids, and vectors of points, that int16 scores work on at a time
    INT16_UNROLL_MAX = 16, // pairs of features up to which int16 scores unroll their loop
    INT16_ANY_UNROLL = 2,  // the same for any d
    SEED_BYTES = 12288,    // of points that stay in the first cache for all k-means++ chains
    SEED_SPAN_MAX = 1024,
    FINISH_BYTES = 16384,                // of points, as doubles, that the finishing pass works on at a time
    FINISH_ANY_BYTES = 2 * FINISH_BYTES, // the same for any d: an SoA group of the most features must fit
    FINISH_SPAN_MAX = 512
};

// Vector operations of an instruction set: templates/cpu/vec/NAME.h.
static const char *const vec_names[] = {
    [KM_ISA_GENERIC] = "generic", [KM_ISA_AVX2] = "avx2", [KM_ISA_AVX512] = "avx512", [KM_ISA_NEON] = "neon"};

// A list of the numbers from .. to - 1.
static void list_numbers(km_env *env, const char *list, int64_t from, int64_t to) {
    char text[24];
    km_env_list(env, list);
    for (int64_t i = from; i < to; i++) {
        snprintf(text, sizeof text, "%lld", (long long)i);
        km_env_item(env, list, text);
    }
}

// How many centroids go first, before whole tiles: a case for each number.
static void list_starts(km_env *env, const char *list, int64_t most) {
    char text[24];
    km_env_list(env, list);
    for (int64_t start = 1; start <= most; start++) {
        snprintf(text, sizeof text, "%lld", (long long)start);
        km_env *item = km_env_item(env, list, text);
        km_env_set(item, "case", start < most ? "case %lld:" : "default:", (long long)start);
        list_numbers(item, "centroids", 0, start);
        list_numbers(item, "later", 1, start);
    }
}

// Vectors whose indices become labels together: four, or two where there are no four.
static void list_label_sets(km_env *env, int64_t vectors) {
    int64_t count = vectors < 4 ? 2 : 4;
    char text[24];
    km_env_list(env, "label_sets");
    for (int64_t v = 0; v < vectors; v += count) {
        snprintf(text, sizeof text, "%lld", (long long)v);
        km_env *item = km_env_item(env, "label_sets", text);
        km_env_set_int(item, "count", count);
        if (count == 2)
            km_env_set(item, "vectors", "index_%lld, index_%lld", (long long)v, (long long)v + 1);
        else
            km_env_set(item, "vectors", "index_%lld, index_%lld, index_%lld, index_%lld", (long long)v,
                       (long long)v + 1, (long long)v + 2, (long long)v + 3);
    }
}

static int64_t span_groups(int64_t bytes, int64_t d, int64_t soa_points, int64_t real_bytes) {
    int64_t span = bytes / (d * soa_points * real_bytes);
    return span < 1 ? 1 : span > SPAN_GROUPS_MAX ? SPAN_GROUPS_MAX : span;
}

// Clusters whose sums stay in vectors together: four or three where there are 32 registers, or two.
static void list_cluster_sets(km_env *env, int four) {
    km_env_set_flag(env, "four_clusters", four);
    km_env_list(env, "cluster_sets");
    if (four) {
        list_numbers(km_env_item(env, "cluster_sets", "4"), "centroids", 0, 4);
        list_numbers(km_env_item(env, "cluster_sets", "3"), "centroids", 0, 3);
    }
    list_numbers(km_env_item(env, "cluster_sets", "2"), "centroids", 0, 2);
}

// What the template of the finishing pass is told.
static void names_of_finish(km_env *env, const km_plan *plan, int any_d) {
    int isa = plan->facts.target.arch;
    int64_t doubles = isa == KM_ISA_AVX512 ? 8 : isa == KM_ISA_AVX2 ? 4 : 2;
    int64_t d = plan->spec.features, soa_points = km_plan_value(plan, KM_PARAM_soa_points);
    int is_double = plan->spec.type == KM_FLOAT64, rows = !is_double && d <= ROWS_D_MAX; // doubles need none
    int64_t row = rows ? (d + doubles - 1) / doubles * doubles : d;
    int64_t span = FINISH_BYTES / (row * 8) / soa_points * soa_points;
    span = span < soa_points ? soa_points : span > FINISH_SPAN_MAX ? FINISH_SPAN_MAX : span;
    int64_t tile = isa == KM_ISA_AVX2 ? 2 : 4;
    if (any_d && rows) span = FINISH_SPAN_MAX;
    km_env_set_int(env, "finish_tile", tile);
    km_env_set_int(env, "finish_row", row);
    km_env_set_int(env, "finish_span", span);
    km_env_set_flag(env, "finish_rows", rows);
    km_env_set_int(env, "finish_row_multiple", rows ? doubles : 1);
    km_env_set_int(env, "finish_most", FINISH_ANY_BYTES / 8);
    km_env_set(env, "finish_doubles", any_d ? "FINISH_DOUBLES" : "FINISH_SPAN * FINISH_ROW");
    km_env_set(env, "finish_points", any_d && rows ? "FINISH_SPAN_MAX" : "FINISH_SPAN");
    list_numbers(env, "finish_list", 0, tile);
    // Where picking from two vectors and inverse roots are instructions.
    km_env_set_flag(env, "finish_avx512", isa == KM_ISA_AVX512 && !is_double);
    list_cluster_sets(env, isa == KM_ISA_AVX512 || isa == KM_ISA_NEON);
}

// Sums of all points by masked additions, which only AVX-512 has.
static void names_of_masked_sums(km_env *env, const km_plan *plan, int any_d, int byte_labels) {
    int64_t d = plan->spec.features;
    int pays = byte_labels && plan->facts.target.arch == KM_ISA_AVX512 && !any_d && d <= MASKED_SUMS_D_MAX &&
               plan->spec.clusters[0] <= MASKED_SUMS_K_MAX;
    km_env_set_flag(env, "masked_sums", pays);
    km_env_set_int(env, "masked_sums_k_max", pays ? MASKED_SUMS_K_MAX : 0);
    list_numbers(env, "masked_features", 0, pays ? d : 0);
}

// int16 scores: tiles of four vectors of points by four centroids; up to five centroids go first.
static void names_of_int16_scores(km_env *env, const km_plan *plan, int any_d, int byte_labels) {
    int is_used = byte_labels && km_plan_value(plan, KM_PARAM_int16_scores) > 0;
    km_env_set_flag(env, "int16_scores", is_used);
    km_env_set(env, "labelled_count", is_used ? "labelled_count" : "0");
    km_env_set(env, "feature_pairs_max", any_d ? "((D_MAX + 1) / 2)" : "FEATURE_PAIRS");
    km_env_set_int(env, "int16_unroll", any_d ? INT16_ANY_UNROLL : INT16_UNROLL_MAX);
    list_numbers(env, "int16_vectors", 0, INT16_TILE);
    list_numbers(env, "int16_tile", 0, INT16_TILE);
    list_starts(env, "int16_starts", INT16_TILE + 1);
}

static int64_t seed_span(int64_t d, int64_t soa_points, int64_t real_bytes) {
    int64_t span = SEED_BYTES / (d * real_bytes) / soa_points * soa_points;
    return span < soa_points ? soa_points : span > SEED_SPAN_MAX ? SEED_SPAN_MAX : span;
}

void km_cpu_names(km_env *env, const km_plan *plan, const km_cpu_text *text) {
    const km_spec *spec = &plan->spec;
    int64_t d = spec->features, tile = km_plan_value(plan, KM_PARAM_tile_clusters),
            soa_points = km_plan_value(plan, KM_PARAM_soa_points);
    int is_double = spec->type == KM_FLOAT64;
    int labels_32bit = spec->clusters[spec->clusters_count - 1] > 256;
    int any_d = text->any_d, byte_labels = text->byte_labels && !labels_32bit;
    int isa = plan->facts.target.arch;
    km_env_set(env, "symbol", "%s", "km_kernels");
    km_env_set(env, "type", is_double ? "double" : "float");
    km_env_set(env, "int_type", is_double ? "int64_t" : "int32_t");
    km_env_set(env, "index_type", labels_32bit ? "int32_t" : "uint8_t");
    km_env_set_int(env, "d", d);
    km_env_set_flag(env, "any_d", any_d);
    km_env_set(env, "d_least", any_d ? "1" : "D");
    km_env_set(env, "d_most", any_d ? "D_MAX" : "D");
    km_env_set(env, "row_most", any_d ? "ROW_MAX" : "ROW");
    km_env_set_int(env, "lanes", km_plan_value(plan, KM_PARAM_lanes));
    km_env_set_int(env, "vectors", km_plan_value(plan, KM_PARAM_vectors));
    km_env_set_int(env, "soa_points", soa_points);
    km_env_set_int(env, "tile", tile);
    km_env_set_int(env, "span", span_groups(text->span_bytes, d, soa_points, is_double ? 8 : 4));
    km_env_set_int(env, "seed_span", seed_span(d, soa_points, is_double ? 8 : 4));
    km_env_set_int(env, "isa", isa);
    km_env_set_int(env, "k_max", labels_32bit ? KM_CLUSTERS_MAX : 256);
    km_env_set_flag(env, "float64", is_double);
    km_env_set_flag(env, "labels_32bit", labels_32bit);
    km_env_set_flag(env, "point_rows", d <= ROWS_D_MAX || text->point_rows);
    km_env_set_flag(env, "byte_labels", byte_labels);
    names_of_masked_sums(env, plan, any_d, byte_labels);
    names_of_int16_scores(env, plan, any_d, byte_labels);
    km_env_set_flag(env, "centroid_tiles", tile > 1);
    km_env_set_flag(env, "feature_loop", d > UNROLLED_D_MAX);
    km_env_set_flag(env, "avx512", isa == KM_ISA_AVX512);
    km_env_set(env, "vec", "%s", vec_names[isa]);
    km_env_set(env, "target_more", "%s", "");
    km_env_set_flag(env, "prunes", 0);
    list_numbers(env, "vectors_list", 0, km_plan_value(plan, KM_PARAM_vectors));
    list_numbers(env, "tile_list", 0, tile);
    list_numbers(env, "later", 1, tile);
    list_label_sets(env, km_plan_value(plan, KM_PARAM_vectors));
    names_of_finish(env, plan, any_d);
    list_numbers(env, "pair", 0, 2);
    list_starts(env, "tile_starts", d > UNROLLED_D_MAX ? tile + 1 : tile);
}

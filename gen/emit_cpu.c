// SPDX-License-Identifier: MIT
// Names that the CPU templates use.
#include "../base/error.h"
#include "planner.h"

#include <stdio.h>

enum {
    SPAN_BYTES = 8192,         // of points that stay in the first cache while every slot works on them
    BLOCKS_SPAN_BYTES = 65536, // of points that stay in the second cache beside a panel of centroids
    SPAN_GROUPS_MAX = 8,
    ROWS_D_MAX = 64,    // features up to which points become rows of doubles before they are added up
    UNROLLED_D_MAX = 8, // features up to which compilers unroll loops, and do best left alone
    WHOLE_K_MAX = 5,    // clusters up to which masks add all points sooner than one by one ...
    WHOLE_D_MAX = 4,    // ... and features
    PAIR_TILE = 4,      // centroids, and vectors of points, whose scores of integers are worked on at a time
    PAIRS_UNROLL_MAX = 16, // pairs of features up to which their loop is unrolled
    PAIRS_ANY_UNROLL = 2,  // the same for any d
    SEED_BYTES = 12288,    // of points that stay in the first cache for all k-means++ chains
    SEED_SPAN_MAX = 1024,
    FINISH_BYTES = 16384,                // of points, as doubles, that the finishing pass works on at a time
    FINISH_ANY_BYTES = 2 * FINISH_BYTES, // the same for any d: a group of as many features as there may be
    FINISH_SPAN_MAX = 512
};

// A list of the numbers from .. to - 1.
static void list_numbers(km_env *env, const char *list, int64_t from, int64_t to) {
    char text[24];
    km_env_list(env, list);
    for (int64_t i = from; i < to; i++) {
        snprintf(text, sizeof text, "%lld", (long long)i);
        km_env_item(env, list, text);
    }
}

// The numbers of centroids that go first.
static void list_starts(km_env *env, const char *list, int64_t most) {
    char text[24];
    km_env_list(env, list);
    for (int64_t start = 1; start <= most; start++) {
        snprintf(text, sizeof text, "%lld", (long long)start);
        km_env *item = km_env_item(env, list, text);
        km_env_set(item, "case", start < most ? "case %lld:" : "default:", (long long)start);
        list_numbers(item, "members", 0, start);
        list_numbers(item, "others", 1, start);
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

static int64_t span_groups(int64_t bytes, int64_t d, int64_t group, int64_t real_bytes) {
    int64_t span = bytes / (d * group * real_bytes);
    return span < 1 ? 1 : span > SPAN_GROUPS_MAX ? SPAN_GROUPS_MAX : span;
}

// Clusters whose sums stay in vectors together: four or three where there are 32 registers, or two.
static void list_few_sets(km_env *env, int four) {
    km_env_set_flag(env, "few_four", four);
    km_env_list(env, "few_sets");
    if (four) {
        list_numbers(km_env_item(env, "few_sets", "4"), "members", 0, 4);
        list_numbers(km_env_item(env, "few_sets", "3"), "members", 0, 3);
    }
    list_numbers(km_env_item(env, "few_sets", "2"), "members", 0, 2);
}

// What the finishing pass is told.
static void names_of_finish(km_env *env, const km_plan *plan, int any_d) {
    int isa = plan->facts.target.arch;
    int64_t doubles = isa == KM_ISA_AVX512 ? 8 : isa == KM_ISA_AVX2 ? 4 : 2;
    int64_t d = plan->spec.features, group = km_plan_get(plan, "group");
    int is_double = plan->spec.type == KM_FLOAT64, rows = !is_double && d <= ROWS_D_MAX; // doubles need none
    int64_t row = rows ? (d + doubles - 1) / doubles * doubles : d;
    int64_t span = FINISH_BYTES / (row * 8) / group * group;
    span = span < group ? group : span > FINISH_SPAN_MAX ? FINISH_SPAN_MAX : span;
    int64_t tile = isa == KM_ISA_AVX2 ? 2 : 4;
    if (any_d && rows) span = FINISH_SPAN_MAX;
    km_env_set_int(env, "finish_tile", tile);
    km_env_set_int(env, "finish_row", row);
    km_env_set_int(env, "finish_span", span);
    km_env_set_flag(env, "finish_rows", rows);
    km_env_set_int(env, "finish_unit", rows ? doubles : 1);
    km_env_set_int(env, "finish_most", FINISH_ANY_BYTES / 8);
    km_env_set(env, "finish_doubles", any_d ? "FINISH_DOUBLES" : "FINISH_SPAN * FINISH_ROW");
    km_env_set(env, "finish_points", any_d && rows ? "FINISH_SPAN_MAX" : "FINISH_SPAN");
    list_numbers(env, "finish_list", 0, tile);
    // Where picking from two vectors and inverse roots are instructions.
    km_env_set_flag(env, "finish_avx512", isa == KM_ISA_AVX512 && !is_double);
    list_few_sets(env, isa == KM_ISA_AVX512 || isa == KM_ISA_NEON);
}

// Sums of all points by masked additions, which AVX-512 alone has.
static void names_of_whole_sums(km_env *env, const km_plan *plan, int any_d, int bytes) {
    int64_t d = plan->spec.features;
    int whole = bytes && plan->facts.target.arch == KM_ISA_AVX512 && !any_d && d <= WHOLE_D_MAX &&
                plan->spec.clusters[0] <= WHOLE_K_MAX;
    km_env_set_flag(env, "whole", whole);
    km_env_set_int(env, "whole_k", whole ? WHOLE_K_MAX : 0);
    list_numbers(env, "whole_columns", 0, whole ? d : 0);
}

// Scores of integers: four vectors of points by four centroids, or five that go first.
static void names_of_integers(km_env *env, const km_plan *plan, int any_d, int bytes) {
    int integers = bytes && km_plan_get(plan, "integers") > 0;
    km_env_set_flag(env, "integers", integers);
    km_env_set(env, "labelled", integers ? "labelled" : "0");
    km_env_set(env, "pairs_most", any_d ? "((D_MAX + 1) / 2)" : "PAIRS");
    km_env_set_int(env, "pairs_unroll", any_d ? PAIRS_ANY_UNROLL : PAIRS_UNROLL_MAX);
    list_numbers(env, "pair_vectors", 0, PAIR_TILE);
    list_numbers(env, "pair_tile", 0, PAIR_TILE);
    list_starts(env, "pair_starts", PAIR_TILE + 1);
}

static int64_t seed_span(int64_t d, int64_t group, int64_t real_bytes) {
    int64_t span = SEED_BYTES / (d * real_bytes) / group * group;
    return span < group ? group : span > SEED_SPAN_MAX ? SEED_SPAN_MAX : span;
}

static km_status emit(km_env *env, const char **template_name, const km_plan *plan, int any_d,
                      km_error *err) {
    int blocks = plan->design == KM_DESIGN_BLOCKS;
    *template_name = blocks ? "cpu/gemm/gemm.c" : "cpu/lanes/lanes.c";
    if (plan->design != KM_DESIGN_LANES && !blocks)
        return km_fail(err, KM_ERROR_PLAN, "the design %s has no text", km_design_name(plan->design));
    const km_spec *spec = &plan->spec;
    int64_t d = spec->features, tile = km_plan_get(plan, "tile_clusters"), group = km_plan_get(plan, "group");
    int is_double = spec->type == KM_FLOAT64;
    int wide = spec->clusters[spec->clusters_count - 1] > 256;
    int bytes = !wide && !blocks; // labels of a group are compared as bytes
    int isa = plan->facts.target.arch;
    km_env_set(env, "name", "%s", spec->name);
    km_env_set(env, "type", is_double ? "double" : "float");
    km_env_set(env, "int_type", is_double ? "int64_t" : "int32_t");
    km_env_set(env, "index_type", wide ? "int32_t" : "uint8_t");
    km_env_set_int(env, "d", d);
    km_env_set_flag(env, "any_d", any_d);
    km_env_set(env, "d_least", any_d ? "1" : "D");
    km_env_set(env, "d_most", any_d ? "D_MAX" : "D");
    km_env_set(env, "row_most", any_d ? "ROW_MAX" : "ROW");
    km_env_set_int(env, "lanes", km_plan_get(plan, "lanes"));
    km_env_set_int(env, "vectors", km_plan_get(plan, "vectors"));
    km_env_set_int(env, "group", group);
    km_env_set_int(env, "tile", tile);
    km_env_set_int(env, "span",
                   span_groups(blocks ? BLOCKS_SPAN_BYTES : SPAN_BYTES, d, group, is_double ? 8 : 4));
    km_env_set_int(env, "seed_span", seed_span(d, group, is_double ? 8 : 4));
    km_env_set_int(env, "isa", isa);
    km_env_set_int(env, "k_max", wide ? KM_CLUSTERS_MAX : 256);
    km_env_set_flag(env, "float64", is_double);
    km_env_set_flag(env, "wide", wide);
    km_env_set_flag(env, "rows", d <= ROWS_D_MAX || blocks);
    km_env_set_flag(env, "bytes", bytes);
    names_of_whole_sums(env, plan, any_d, bytes);
    names_of_integers(env, plan, any_d, bytes);
    km_env_set_flag(env, "tiled", tile > 1);
    km_env_set_flag(env, "looped", d > UNROLLED_D_MAX);
    km_env_set_flag(env, "avx512", isa == KM_ISA_AVX512);
    km_env_set_flag(env, "avx2", isa == KM_ISA_AVX2);
    km_env_set_flag(env, "neon", isa == KM_ISA_NEON);
    km_env_set_flag(env, "generic", isa == KM_ISA_GENERIC);
    list_numbers(env, "vectors_list", 0, km_plan_get(plan, "vectors"));
    list_numbers(env, "tile_list", 0, tile);
    list_numbers(env, "others", 1, tile);
    list_label_sets(env, km_plan_get(plan, "vectors"));
    names_of_finish(env, plan, any_d);
    list_numbers(env, "pair", 0, 2);
    list_starts(env, "starts", d > UNROLLED_D_MAX ? tile + 1 : tile);
    if (blocks) {
        int64_t part = km_plan_get(plan, "tile_features");
        km_env_set_int(env, "panel", km_plan_get(plan, "panel_clusters"));
        km_env_set_int(env, "part", part);
        km_env_set_flag(env, "split", part < d);
    }
    return KM_OK;
}

km_status km_emit_cpu(km_env *env, const char **template_name, const km_plan *plan, km_error *err) {
    return emit(env, template_name, plan, 0, err);
}

km_status km_emit_cpu_any_d(km_env *env, const char **template_name, const km_plan *plan, km_error *err) {
    return emit(env, template_name, plan, 1, err);
}

// SPDX-License-Identifier: MIT
#include "../base/error.h"
#include "../base/size.h"
#include "../base/text.h"
#include "cost_cuda.h"
#include "planner.h"

#include <stdio.h>
#include <stdlib.h>

static void set_number(km_env *env, const km_plan *plan, const char *name) {
    km_env_set_int(env, name, km_plan_get(plan, name));
}

// The names of cuda.h, which every design's text begins with.
static void set_common(km_env *env, const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    int32_t k_max = spec->clusters[spec->clusters_count - 1];
    km_env_set(env, "type", spec->type == KM_FLOAT64 ? "double" : "float");
    km_env_set(env, "label_type", k_max <= 256 ? "unsigned char" : "unsigned short");
    km_env_set_flag(env, "float64", spec->type == KM_FLOAT64);
    km_env_set_flag(env, "weighted", plan->weighted);
    km_env_set_flag(env, "track_labels", plan->track_labels);
    km_env_set(env, "name", "%s", spec->name);
    km_env_set_int(env, "d", spec->features);
    km_env_set_int(env, "s", plan->clusters_sum);
    km_env_set_int(env, "ks_count", spec->clusters_count);
    km_env_set_int(env, "k_max", k_max);
    km_env_set_int(env, "copies", km_plan_get(plan, "restarts_in_flight"));
    km_env_set_int(env, "vector", spec->type == KM_FLOAT64 ? 2 : 4);
    km_env_set_flag(env, "planes_follow",
                    plan->design == KM_DESIGN_REGISTERS); // what update.cu makes for the pass
}

// Numbers of the K list that all designs have: where each K's centroids start.
static km_env *add_k(km_env *env, const km_spec *spec, int64_t index, int64_t offset) {
    char text[24];
    snprintf(text, sizeof text, "%d", spec->clusters[index]);
    km_env *k = km_env_item(env, "ks", text);
    km_env_set_int(k, "index", index);
    km_env_set_int(k, "offset", offset);
    return k;
}

// registers -------------------------------------------------------------------------------------------------

// Bits of a coordinate with which d products and a constant still add up exactly in the type.
static int64_t coarse_bits(const km_spec *spec) {
    int64_t log2_d = 0;
    while ((1LL << log2_d) < spec->features) log2_d++;
    return ((spec->type == KM_FLOAT64 ? 51 : 22) - log2_d) / 2;
}

// Tiles that a thread of float32 adds before its sums join doubles.
static int64_t flush_tiles(const km_plan *plan) {
    enum { POINTS_MAX = 2048 };
    int64_t tiles = 1;
    while (2 * tiles * km_plan_get(plan, "points_per_thread") <= POINTS_MAX) tiles *= 2;
    return tiles;
}

// One warp group: its Ks, where their planes and sums lie, and its columns, which start at `column`.
static int64_t add_group(km_env *part, const km_plan *plan, int64_t group, const int32_t *share,
                         int64_t column) {
    const km_spec *spec = &plan->spec;
    int64_t split = km_plan_get(plan, "split"), team = km_plan_get(plan, "team"), columns = 0, plane = 0;
    int64_t counts = 0;
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)group);
    km_env *item = km_env_item(part, "groups", text);
    km_text ks = {0};
    km_env_list(item, "ks");
    for (int64_t i = 0; i < spec->clusters_count; plane += spec->clusters[i++] - 1) {
        if (share[i] != group) continue;
        km_env *k = add_k(item, spec, i, 0);
        km_env_set_int(k, "others", spec->clusters[i] - 1);
        km_env_set_flag(k, "single", spec->clusters[i] == 1);
        km_env_set_int(k, "plane", plane);
        km_env_set_int(k, "sum", columns);
        km_env_set_int(k, "count", counts);
        counts += spec->clusters[i] - 1;
        columns += km_cuda_sums_of(plan, spec->clusters[i], team);
        km_text_printf(&ks, "%s%d", ks.size ? ", " : "", spec->clusters[i]);
    }
    if (columns == 0) columns = 1; // K = 1 alone has none, but an array has
    km_env_set_int(item, "index", group % split);
    if (!ks.size) km_text_puts(&ks, "none");
    km_env_set_text(item, "text", &ks);
    km_env_set_int(item, "columns", columns);
    km_env_set_int(item, "counts", counts ? counts : 1);
    km_env_set_int(item, "column", column);
    return columns;
}

// Points on their way through shared memory. `own`: features that a lane holds of `run` points side by side.
static void emit_ring(km_env *env, const km_plan *plan, int64_t run, int64_t own) {
    int64_t ahead = km_plan_get(plan, "prefetch"), split = km_plan_get(plan, "split"), turn = 1;
    int64_t pieces = run * own * km_type_bytes(plan->spec.type) / 16;
    while (turn < 8 && pieces % (2 * turn) == 0) turn *= 2;
    km_env_set_flag(env, "ring", ahead > 0);
    int labelled = plan->track_labels && plan->clusters_sum > plan->spec.clusters_count;
    km_env_set_flag(env, "indexed", labelled || ahead == 0); // a thread asks where its points are
    km_env_set_flag(env, "crew", split > 1);
    km_env_set_int(env, "stages", ahead + 1);
    km_env_set_int(env, "turn", turn);
    km_env_set_int(env, "weights_bytes", run * km_type_bytes(plan->spec.type));
    km_env_set_flag(env, "turned", turn > 1);
    km_env_set_flag(env, "whole_rows", 32 % pieces == 0); // 32 pieces are a number of rows
    km_env_set(env, "member", "%s", split > 1 ? "(int)threadIdx.x / THREADS" : "0");
    km_env_set(env, "crew_text", "%s", split > 1 ? " and those that share its points" : "");
    km_env_set(env, "stage_text", "%s", split > 1 ? "the warps that share a ring" : "one warp");
}

static km_status emit_registers(km_env *env, const km_plan *plan, km_error *err) {
    const km_spec *spec = &plan->spec;
    int64_t split = km_plan_get(plan, "split"), launches = km_plan_get(plan, "launches");
    int32_t *share = malloc((size_t)spec->clusters_count * sizeof *share);
    if (!share) return km_fail_memory(err, "the share of the K list", spec->clusters_count * 4);
    km_cuda_share(share, spec, split * launches);

    static const char *const numbers[] = {"points_per_thread", "block", "grid", "split", "resident", "team"};
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++) set_number(env, plan, numbers[i]);
    int64_t team = km_plan_get(plan, "team"), own = spec->features / team;
    km_env_set_flag(env, "teamed", team > 1);
    int64_t run = km_cuda_run(spec);
    km_env_set_flag(env, "packed", plan->track_labels && km_plan_get(plan, "points_per_thread") % 4 == 0);
    km_env_set_flag(env, "neighbours", run == 1); // how far labels travel until four lie side by side
    km_env_set_flag(env, "pairs", run <= 2);
    km_env_set_int(env, "own", own);
    km_env_set_flag(env, "flushed", spec->type == KM_FLOAT32);
    km_env_set_int(env, "flush", flush_tiles(plan));
    emit_ring(env, plan, run, own);
    int const_planes = km_cuda_const_planes(plan);
    km_env_set_flag(env, "const_planes", const_planes);
    km_env_set_flag(env, "counted",
                    spec->type == KM_FLOAT64 && !plan->weighted); // doubles' pipe is the busy one
    km_env_set_int(env, "run", run);
    km_env_set_int(env, "coarse_bits", coarse_bits(spec));
    int64_t planes = plan->clusters_sum - spec->clusters_count;
    km_env_set_int(env, "planes", planes ? planes : 1);
    km_env_set_flag(env, "several", planes > 0); // a K of 1 has nothing to compare
    km_env_set_int(env, "launches_count", launches);

    // Columns in the order of the groups; those of the totals come last.
    int64_t column = 0, scratch = 0;
    for (int64_t part = 0; part < launches; part++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)part);
        km_env *item = km_env_item(env, "parts", text);
        km_env_set_flag(item, "alone", split == 1);
        km_env_set_int(item, "first", part * split);
        for (int64_t group = part * split; group < (part + 1) * split; group++) {
            int64_t columns = add_group(item, plan, group, share, column);
            column += columns;
            if (columns > scratch) scratch = columns;
        }
    }
    km_env_set_int(env, "totals", column);
    km_env_set_int(env, "columns", column + own);
    km_env_set_int(env, "scratch", scratch);
    for (int64_t i = 0, offset = 0; i < spec->clusters_count; offset += spec->clusters[i++]) {
        km_env *k = add_k(env, spec, i, offset);
        int64_t first = 0;
        for (int64_t j = 0; j < spec->clusters_count; j++)
            if (share[j] < share[i] || (share[j] == share[i] && j < i))
                first += km_cuda_sums_of(plan, spec->clusters[j], team);
        km_env_set_int(k, "column", first);
    }
    free(share);
    return KM_OK;
}

// tensor ----------------------------------------------------------------------------------------------------

static void add_tensor_part(km_env *env, const km_spec *spec, const km_tensor_layout *layout, int64_t index) {
    const km_tensor_part *part = &layout->parts[index];
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)index);
    km_env *item = km_env_item(env, "parts", text);
    km_text ks = {0};
    for (int64_t i = 0; i < spec->clusters_count; i++)
        if (layout->places[i].part == index)
            km_text_printf(&ks, "%s%d", ks.size ? ", " : "", spec->clusters[i]);
    km_env_set_text(item, "text", &ks);
    km_env_set_int(item, "tiles", part->tiles);
    km_env_set_int(item, "first", part->first);
    km_env_set_int(item, "levels", part->levels);
    km_env_set_int(item, "rows", part->rows);
}

static km_status emit_tensor(km_env *env, const km_plan *plan, km_error *err) {
    const km_spec *spec = &plan->spec;
    km_tensor_layout layout;
    km_tensor_way way = {.tiles = km_plan_get(plan, "tile_clusters") / 16,
                         .block = km_plan_get(plan, "block"),
                         .resident = km_plan_get(plan, "resident"),
                         .in_shared = km_plan_get(plan, "sums_in_shared") > 0};
    if (!km_tensor_lay_out(&layout, spec, way.tiles, way.in_shared) || !km_tensor_judge(&way, plan))
        return km_fail(err, KM_ERROR_INTERNAL, "the K list does not fit the plan's tiles");
    static const char *const numbers[] = {"block", "grid", "resident"};
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++) set_number(env, plan, numbers[i]);
    km_env_set_flag(env, "max3", spec->target.arch >= 90);
    km_env_set_flag(env, "bytes", km_tensor_in_bytes(spec));
    km_env_set_flag(env, "rounded", km_tensor_rounds(spec));
    km_env_set_flag(env, "scores", !km_tensor_in_bytes(spec) || km_tensor_rounds(spec));
    km_env_set_int(env, "stages", way.stages);
    km_env_set_int(env, "pairs", way.pairs);
    km_env_set_int(env, "tight", way.tight);
    km_env_set_flag(env, "planes_in_registers", way.kept);
    km_env_set_int(env, "launches_count", layout.parts_count);
    for (int64_t part = 0; part < layout.parts_count; part++) add_tensor_part(env, spec, &layout, part);
    for (int64_t i = 0, offset = 0; i < spec->clusters_count; offset += spec->clusters[i++]) {
        const km_tensor_place *place = &layout.places[i];
        km_env *k = add_k(env, spec, i, offset);
        km_env_set_int(k, "part", place->part);
        km_env_set_int(k, "group", place->group);
        km_env_set_int(k, "span", place->span);
        km_env_set_int(k, "slot", place->slot);
        km_env_set_int(k, "slots", place->slots);
        km_env_set_int(k, "row", place->row);
    }
    return KM_OK;
}

// shared ----------------------------------------------------------------------------------------------------

static void emit_ranges(km_env *env, const km_plan *plan) {
    km_cuda_sums sums = km_cuda_sums_shape(plan);
    km_env_set_int(env, "lanes", sums.lanes);
    km_env_set_int(env, "parts", sums.parts);
    km_env_set_int(env, "sum_warps", sums.warps);
    km_env_set_int(env, "group_slots", sums.slots);
    km_env_set_int(env, "group_rows", sums.rows);
}

// Sums of points in the order of their labels: a lane has the features of one 16-byte load.
static void emit_sorted(km_env *env, const km_plan *plan, int64_t piece) {
    int64_t size = km_type_bytes(plan->spec.type), numbers = piece / size, d = plan->spec.features;
    int64_t lanes = 1, passes = plan->spec.clusters[plan->spec.clusters_count - 1] > 256 ? 2 : 1;
    while (lanes < 32 && lanes * numbers < d) lanes *= 2;
    set_number(env, plan, "stretches");
    km_env_set_int(env, "lanes", lanes);
    km_env_set_int(env, "numbers", numbers);
    km_env_set_int(env, "parts", (d + lanes * numbers - 1) / (lanes * numbers));
    km_env_set_int(env, "sort_passes_count", passes);
    km_env_list(env, "sort_passes");
    for (int64_t pass = 0; pass < passes; pass++) km_env_item(env, "sort_passes", pass ? "1" : "0");
}

// Labels of lists of few clusters, and their sums by products of doubles.
static void emit_few(km_env *env, const km_plan *plan, const km_cuda_shared *shape) {
    enum { REDO_BLOCKS = 6 }; // of a multiprocessor
    int64_t slots = plan->spec.clusters_count * km_plan_get(plan, "restarts_in_flight");
    int64_t redo = plan->facts.units * REDO_BLOCKS / slots;
    km_env_set_int(env, "ahead", shape->ahead);
    km_env_set_int(env, "tile_slots", shape->tile_slots);
    km_env_set_int(env, "redo_grid", redo < 1 ? 1 : redo);
    if (!km_cuda_has_products(plan)) return;
    km_cuda_products products = km_cuda_products_of(plan);
    km_env_set_int(env, "sum_columns", products.columns);
    km_env_set_int(env, "sum_groups", products.groups);
    km_env_set_int(env, "sum_piece", products.piece);
    km_env_set_int(env, "sum_resident", products.resident);
}

static km_status emit_shared(km_env *env, const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    km_cuda_shared shape = km_cuda_shared_of(plan);
    int64_t units = plan->facts.units, group = 0, offset = 0, sorted = km_plan_get(plan, "stretches") > 0;
    static const char *const numbers[] = {"grid", "resident", "tile_features"};
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++) set_number(env, plan, numbers[i]);
    km_env_set_int(env, "half", shape.half);
    km_env_set_flag(env, "half_filter", shape.half != 0);
    km_env_set_flag(env, "async", spec->target.arch >= 80);
    km_env_set_flag(env, "sorted", sorted != 0);
    km_env_set_flag(env, "few", shape.few != 0);
    km_env_set_flag(env, "products", km_cuda_has_products(plan));
    km_env_set_int(env, "tile", shape.tile_clusters);
    km_env_set_flag(env, "narrow", shape.pad == 1);
    km_env_set_flag(env, "several_warps", shape.cluster_warps > 1);
    km_env_set_int(env, "warp_points", shape.warp_points);
    km_env_set_int(env, "rows", shape.rows);
    km_env_set_int(env, "columns", shape.columns);
    km_env_set_int(env, "point_warps", shape.point_warps);
    km_env_set_int(env, "cluster_warps", shape.cluster_warps);
    km_env_set_int(env, "pad", shape.pad);
    km_env_set_int(env, "groups", shape.groups);
    km_env_set_int(env, "chunks", shape.chunks);
    km_env_set_int(env, "piece", shape.piece);
    km_env_set_int(env, "labels_grid", units * km_plan_get(plan, "resident"));
    int64_t slots = spec->clusters_count * km_plan_get(plan, "restarts_in_flight");
    int64_t warps = shape.point_warps * shape.cluster_warps * km_plan_get(plan, "resident");
    km_env_set_int(env, "round_ahead", warps < 8 ? 16 : shape.pad == 1 || warps < 16 ? 8 : 2);
    int64_t redo = units * km_plan_get(plan, "resident") / slots;
    if (shape.few)
        emit_few(env, plan, &shape);
    else
        km_env_set_int(env, "redo_grid", redo < 1 ? 1 : redo);
    if (sorted)
        emit_sorted(env, plan, shape.piece);
    else
        emit_ranges(env, plan);
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        km_env *k = add_k(env, spec, i, offset);
        km_env_set_int(k, "group", shape.few ? km_cuda_few_row(spec, shape.tile_clusters, i) : group);
        group += (spec->clusters[i] + shape.pad - 1) / shape.pad;
        offset += spec->clusters[i];
    }
    return KM_OK;
}

// All of it -------------------------------------------------------------------------------------------------

km_status km_emit_cuda(km_env *env, const char **template_name, const km_plan *plan, km_error *err) {
    set_common(env, plan);
    switch (plan->design) {
    case KM_DESIGN_REGISTERS:
        *template_name = "cuda/registers/registers.cu";
        return emit_registers(env, plan, err);
    case KM_DESIGN_TENSOR:
        *template_name = km_plan_get(plan, "sums_in_shared") > 0 ? "cuda/tensor/many.cu"
                         : km_tensor_is_wide(&plan->spec)        ? "cuda/tensor/wide.cu"
                                                                 : "cuda/tensor/tensor.cu";
        return emit_tensor(env, plan, err);
    case KM_DESIGN_SHARED:
        *template_name = "cuda/tiled/tiled.cu";
        return emit_shared(env, plan);
    default:
        return km_fail(err, KM_ERROR_PLAN, "the design %s has no text for CUDA",
                       km_design_name(plan->design));
    }
}

// SPDX-License-Identifier: MIT
// The CUDA design `tensor` (templates/cuda/tensor): scores and sums as matrix products. Which form computes them, and
// the plan's numbers.
#include "../../base/text.h"
#include "../source.h"
#include "measured.h"
#include "tensor_config.h"

#include <stdio.h>
#include <string.h>

// What is decided in addition to numbers: the plan's layout.
typedef struct decided {
    km_tensor_layout layout;
    km_tensor_config config;
} decided;

// Forms -------------------------------------------------------------------------------------------------------

// Why a form cannot compute a spec, or NULL: it can. Forms for sm_90 rely on products that are rounded once when
// they are added in half precision, which was measured there. Bytes of added masks must not overflow: a K has less
// than 256 rows of scores. Codes of `rows` have 8 bits: eight quads with 32 rows of scores each.
static const char *form_refused(int form, const km_spec *spec) {
    enum {
        BYTES_K_MAX = 64,
        ROWS_K_MAX = 256,
        DISTANCE_D_MAX = 4,
        ROUNDED_D_MAX = 16,
        HI_LO_D_MAX = 20,
        ROWS_D_MAX = 64
    };
    int64_t d = spec->features, k_max = spec->clusters[spec->clusters_count - 1];
    int is_bytes = form == DISTANCE || form == ROUNDED;
    if (form != HI_LO && form != DIGITS && spec->target.arch / 10 != 9) return "the form needs sm_90";
    if (is_bytes && k_max > BYTES_K_MAX) return "the form takes K up to 64";
    if (form == ROWS && k_max > ROWS_K_MAX) return "the form takes K up to 256";
    if (form == DISTANCE && d > DISTANCE_D_MAX) return "the form takes up to 4 features";
    if (form == ROUNDED && d > ROUNDED_D_MAX) return "the form takes up to 16 features";
    if (form == ROWS && d > ROWS_D_MAX) return "the form takes up to 64 features";
    if (form == HI_LO && d > HI_LO_D_MAX) return "the form takes up to 20 features";
    if (form == DIGITS && d <= HI_LO_D_MAX) return "the form is for more than 20 features";
    return NULL;
}

// The forms with sums in registers of each warp, or of a block's warps together; returns how many. The sums of many
// features do not fit the registers of each warp: on an H200 `digits` is slower by a fifth at 18, faster by a tenth at
// 24. Sums of int8 digits take more registers and bytes than those of fp16, and fewer products: they pay with many
// clusters. With few it depends on memory (an H100, 8 features: K = 3..7 0.128 ms by `hi_lo`, 0.155 by `rounded`).
static int forms_of(int forms[2], const km_spec *spec, const char **why) {
    enum { MANY = 40 };
    int64_t sum = 0;
    for (int64_t i = 0; i < spec->clusters_count; i++) sum += spec->clusters[i];
    *why = "more than 20 features: a block's warps share the sums, which one has no room for";
    forms[0] = DIGITS;
    if (!form_refused(DIGITS, spec)) return 1;
    *why = "up to 4 features fp16 tells distances apart";
    forms[0] = DISTANCE;
    if (!form_refused(DISTANCE, spec)) return 1;
    *why = sum > MANY ? "int8 digits in sums pay where the list has more than 40 clusters"
                      : "by the estimates of sums of int8 digits, and of fp16 pairs";
    forms[0] = ROUNDED;
    forms[1] = HI_LO;
    if (!form_refused(ROUNDED, spec)) return sum > MANY ? 1 : 2;
    forms[0] = HI_LO;
    *why = spec->target.arch / 10 != 9
               ? "fp16 scores with an error term, and int8 digits, were measured on sm_90 only"
           : spec->features > 16 ? "fp16 scores with an error term pay up to 16 features"
                                 : "int8 digits in sums take K up to 64";
    return 1;
}

// Estimate ----------------------------------------------------------------------------------------------------

// Why no form can have the plan's type and points, or NULL.
static const char *refusal_of(const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    if (spec->type != KM_FLOAT32) return "its products give the precision of float32";
    if (spec->target.arch < 80) return "its integer products need sm_80 or later";
    if (plan->weighted) return "points have weights";
    if (spec->features > 128) return "a score of more than 128 features has no place in 31 bits";
    if (spec->clusters_count > KM_TENSOR_KS_MAX) return "the list has too many K";
    return NULL;
}

// The best configuration of a form, if it is better than `best`.
static void find_better(km_tensor_config *best, const km_plan *plan, int form) {
    enum { TILES_MAX = 12, ROWS_TILES_MAX = 16 };
    static const int64_t blocks[] = {128, 256, 384, 512, 768};
    int64_t fixed_tiles = 0, fixed_launches = 0, fixed_block = 0, fixed_blocks_per_sm = 0;
    km_plan_fixed(plan, KM_PARAM_tile_clusters, &fixed_tiles);
    km_plan_fixed(plan, KM_PARAM_launches, &fixed_launches);
    km_plan_fixed(plan, KM_PARAM_block, &fixed_block);
    km_plan_fixed(plan, KM_PARAM_blocks_per_sm, &fixed_blocks_per_sm);
    for (int64_t tiles = 1; tiles <= (form == ROWS ? ROWS_TILES_MAX : TILES_MAX); tiles++) {
        km_tensor_layout layout; // made once, as it takes longer than the rest
        if (fixed_tiles && fixed_tiles != tiles * ROWS_PER_TILE) continue;
        if (!km_tensor_lay_out(&layout, &plan->spec, form, tiles)) continue;
        if (fixed_tiles && km_tensor_row_tiles_most(&layout) != tiles) continue; // no launch needs so many
        if (fixed_launches && fixed_launches != layout.launches_count) continue;
        for (int b = 0; b < (int)(sizeof blocks / sizeof *blocks); b++)
            for (int64_t blocks_per_sm = 1; blocks_per_sm <= 4; blocks_per_sm++) {
                km_tensor_config config = {
                    .form = form, .row_tiles = tiles, .block = blocks[b], .blocks_per_sm = blocks_per_sm};
                if (fixed_block && fixed_block != blocks[b]) continue;
                if (fixed_blocks_per_sm && fixed_blocks_per_sm != blocks_per_sm) continue;
                if (!km_tensor_evaluate(&config, plan, &layout)) continue;
                if (!best->block || config.total_ns < best->total_ns) *best = config;
            }
    }
}

// The best configuration of all forms, or of the one that the user fixed. Returns why there is none, or NULL.
static const char *best_config(km_tensor_config *best, const km_plan *plan) {
    static const char no_room[] =
        "neither a warp's registers nor a block's shared memory hold a K and its sums";
    const char *why = refusal_of(plan);
    int64_t fixed = -1;
    int forms[2];
    if (why) return why;
    if (km_plan_fixed(plan, KM_PARAM_form, &fixed)) {
        why = form_refused((int)fixed, &plan->spec);
        if (!why) find_better(best, plan, (int)fixed);
        return why ? why : best->block ? NULL : no_room;
    }
    for (int i = 0, count = forms_of(forms, &plan->spec, &why); i < count; i++)
        find_better(best, plan, forms[i]);
    if (!form_refused(ROWS, &plan->spec)) find_better(best, plan, ROWS);
    return best->block ? NULL : no_room;
}

static void estimate(km_config *found, km_plan *plan) {
    km_tensor_config config = {0};
    km_estimate *estimate = &plan->estimates[KM_DESIGN_TENSOR];
    const char *why_not = best_config(&config, plan);
    estimate->design = KM_DESIGN_TENSOR;
    estimate->feasible = !why_not;
    if (why_not) {
        km_plan_infeasible(plan, KM_DESIGN_TENSOR, why_not);
        return;
    }
    estimate->bytes_per_point = (double)(config.launches * km_tensor_point_bytes(&plan->spec, config.form));
    estimate->operations_per_point = config.operations;
    estimate->memory_ns = config.memory_ns;
    estimate->issue_ns = config.issue_ns;
    estimate->total_ns =
        config.total_ns +
        km_cuda_launches_ns(plan, config.launches,
                            config.form == ROWS ? measured.rows_launch_ns : measured.tensor_launch_ns);
    estimate->registers_per_thread = config.registers;
    estimate->registers_spare = config.spare;
    estimate->shared_bytes_per_block = config.shared_bytes;
    KM_CONFIG_PUT(found, config);
}

// Decision ----------------------------------------------------------------------------------------------------

static km_status decide_form(km_plan *plan, const km_tensor_config *config, km_error *err) {
    const char *why;
    int forms[2];
    forms_of(forms, &plan->spec, &why);
    if (config->form == ROWS)
        why = "a point is added to one row of its cluster's sums, however many there are";
    return km_plan_set(plan, KM_PARAM_form, config->form, err, "%s", why);
}

// The layout follows from the numbers; names() only copies it.
static km_status decide_layout(km_plan *plan, int form, km_error *err) {
    KM_TRY(km_plan_layout_make(plan, sizeof(decided), err));
    decided *it = plan->layout;
    it->config = (km_tensor_config){.form = form,
                                    .row_tiles = km_plan_value(plan, KM_PARAM_tile_clusters) / ROWS_PER_TILE,
                                    .block = km_plan_value(plan, KM_PARAM_block),
                                    .blocks_per_sm = km_plan_value(plan, KM_PARAM_blocks_per_sm)};
    if (km_tensor_lay_out(&it->layout, &plan->spec, form, it->config.row_tiles) &&
        km_tensor_evaluate(&it->config, plan, &it->layout))
        return KM_OK;
    return km_fail(err, KM_ERROR_PLAN, "the K list does not fit the plan's tiles");
}

static km_status decide(km_plan *plan, const km_config *found, km_error *err) {
    km_tensor_config best, *config = &best;
    KM_CONFIG_GET(best, found);
    KM_TRY(km_cuda_set_restarts(plan, err));
    KM_TRY(decide_form(plan, config, err));
    KM_TRY(km_plan_set(plan, KM_PARAM_block, config->block, err, "about %lld registers a thread%s",
                       (long long)config->registers,
                       config->fragments_kept ? ", the centroids' fragments among them" : ""));
    KM_TRY(km_plan_set(plan, KM_PARAM_blocks_per_sm, config->blocks_per_sm, err,
                       "as many as registers and shared memory hold"));
    KM_TRY(km_plan_set(plan, KM_PARAM_tile_clusters, config->row_tiles * ROWS_PER_TILE, err,
                       "rows of matrix products that a launch has at most"));
    KM_TRY(km_plan_set(plan, KM_PARAM_prefetch, config->stages - 1, err,
                       "enough bytes in flight that a multiprocessor need not wait"));
    if (config->form == DIGITS)
        KM_TRY(km_plan_set(plan, KM_PARAM_tile_points, km_tensor_points_of(config), err,
                           "points of a block, whose warps share the sums"));
    KM_TRY(km_plan_set(plan, KM_PARAM_launches, config->launches, err, "%s",
                       config->launches == 1 ? "one read of the points serves every K"
                       : config->form == ROWS
                           ? "a warp's registers do not hold the scores of the whole K list"
                           : "a warp's registers do not hold the sums of the whole K list"));
    KM_TRY(km_cuda_set_grid(
        plan, km_plan_value(plan, config->form == DIGITS ? KM_PARAM_tile_points : KM_PARAM_block), err));
    return decide_layout(plan, config->form, err);
}

// Names -------------------------------------------------------------------------------------------------------

static void name_launch(km_env *env, const km_spec *spec, const km_tensor_layout *layout, int64_t index) {
    const km_tensor_launch *launch = &layout->launches[index];
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)index);
    km_env *item = km_env_item(env, "parts", text);
    km_env_set_int(item, "apart", index % KM_SOURCE_LAUNCH_PARTS_MAX);
    km_text ks = {0};
    for (int64_t i = 0; i < spec->clusters_count; i++)
        if (layout->ks[i].launch == index)
            km_text_printf(&ks, "%s%d", ks.size ? ", " : "", spec->clusters[i]);
    km_env_set_text(item, "text", &ks);
    km_env_set_int(item, "row_tiles", launch->row_tiles);
    km_env_set_int(item, "first_rows", launch->first_rows);
    km_env_set_int(item, "levels", launch->levels);
    km_env_set_int(item, "sum_rows", launch->sum_rows);
}

enum { DISTINCT_BYTES = 200 << 10 }; // of km_distinct

// Whether a pass looks for few distinct points. Of more than 20 features they are seldom so few.
static int has_distinct(const km_plan *plan) {
    const decided *it = plan->layout;
    return !plan->track_labels && it->config.form != DIGITS;
}

static km_status names(km_env *env, const char **root, const km_plan *plan, km_error *err) {
    const km_spec *spec = &plan->spec;
    const decided *it = plan->layout;
    const km_tensor_config *config = &it->config;
    (void)err;
    *root = "cuda/tensor/tensor.cu";
    km_cuda_names(env, plan);
    km_env_set_flag(env, "max3", spec->target.arch >= 90);
    km_env_set_flag(env, "distinct_points", has_distinct(plan));
    km_env_set_int(env, "stages", config->stages);
    km_env_set_int(env, "column_pairs", config->column_pairs);
    km_env_set_int(env, "tight", config->tight);
    km_env_set_flag(env, "fragments_in_registers", config->fragments_kept);
    km_env_set_int(env, "launches_count", it->layout.launches_count);
    for (int64_t launch = 0; launch < it->layout.launches_count; launch++)
        name_launch(env, spec, &it->layout, launch);
    km_env_set_int(env, "row_tiles_most", km_tensor_row_tiles_most(&it->layout));
    km_env_set_int(env, "sum_rows_most", km_tensor_sum_rows_most(&it->layout));
    for (int64_t i = 0, offset = 0; i < spec->clusters_count; offset += spec->clusters[i++]) {
        const km_tensor_k_layout *own = &it->layout.ks[i];
        km_env *k = km_cuda_name_k(env, spec, i, offset);
        km_env_set_int(k, "part", own->launch);
        km_env_set_int(k, "quad", own->quad);
        km_env_set_int(k, "quads", own->quads);
        km_env_set_int(k, "score_row", own->score_row);
        km_env_set_int(k, "score_rows", own->score_rows);
        km_env_set_int(k, "sum_row", own->sum_row);
    }
    return KM_OK;
}

// Memory ------------------------------------------------------------------------------------------------------

static int64_t workspace_bytes(const km_plan *plan, int64_t n) {
    const decided *it = plan->layout;
    // What a launch needs of the centroids is less than the shared memory of a block that has it.
    int64_t prepared =
        km_plan_value(plan, KM_PARAM_concurrent_restarts) * it->config.launches * it->config.shared_bytes;
    return km_cuda_partial_bytes(plan) + (has_distinct(plan) ? DISTINCT_BYTES : 0) + prepared +
           n * (km_tensor_point_bytes(&plan->spec, it->config.form) + 1);
}

static int point_memory(km_point_memory rows[KM_POINT_MEMORY_MAX], const km_plan *plan) {
    const decided *it = plan->layout;
    rows[0] = (km_point_memory){"points as products take them",
                                (double)km_tensor_point_bytes(&plan->spec, it->config.form) + 1};
    return 1;
}

const km_design_code km_design_tensor = {.estimate = estimate,
                                         .decide = decide,
                                         .names = names,
                                         .workspace_bytes = workspace_bytes,
                                         .point_memory = point_memory,
                                         .starter = "cuda/starter/starter.cu",
                                         .shares = 1};

// SPDX-License-Identifier: MIT
#include "common.h"
#include "../../base/size.h"
#include "../../templates/both.h"
#include "../../templates/cuda/abi.h"
#include "../../templates/cuda/seed_halves.h"
#include "../../templates/cuda/steps.h"
#include "../words.h"
#include "measured.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double km_cuda_issue_rate(const km_plan *plan) {
    const km_device_facts *facts = &plan->facts;
    double lanes = plan->spec.type == KM_FLOAT64 ? facts->fp64_per_cycle : facts->fp32_per_cycle;
    return lanes * (double)facts->units * facts->clock_ghz;
}

double km_cuda_read_ns(const km_plan *plan, double bytes) {
    return bytes / (measured.read_share * plan->facts.bandwidth_gbs);
}

double km_cuda_overlap(double a, double b) {
    return pow(pow(a, measured.overlap) + pow(b, measured.overlap), 1 / measured.overlap);
}

int km_cuda_has_windows(const km_plan *plan) {
    return plan->streams && plan->design == KM_DESIGN_TENSOR;
}

int64_t km_cuda_concurrent_restarts(const km_plan *plan) {
    enum { POINTS_ENOUGH = 4 << 20, RESTARTS_MAX = 64 };
    const int64_t most = km_min(RESTARTS_MAX, KM_CUDA_SLOTS_MAX / plan->spec.clusters_count);
    if (!plan->points) return 1;
    int64_t restarts = km_min(km_min(POINTS_ENOUGH / plan->points, plan->spec.n_init), most);
    if (km_cuda_has_windows(plan)) restarts = km_min(plan->spec.n_init, most);
    if (plan->concurrent_max) restarts = km_min(restarts, plan->concurrent_max);
    return km_max(restarts, 1);
}

double km_cuda_launches_ns(const km_plan *plan, int64_t launches, double each_ns) {
    enum { POINTS_MANY = 1 << 25 };
    double points =
        plan->points ? (double)(plan->points * km_cuda_concurrent_restarts(plan)) : (double)POINTS_MANY;
    return (double)launches * each_ns / points;
}

km_status km_cuda_set_restarts(km_plan *plan, km_error *err) {
    return km_plan_set(plan, KM_PARAM_concurrent_restarts, km_cuda_concurrent_restarts(plan), err, "%s",
                       km_cuda_has_windows(plan) ? "one read of what comes from the host serves all of them"
                       : plan->concurrent_max    ? "as many as the free memory holds"
                       : plan->points ? "restarts until a pass has 4 million points, or all of them"
                                      : "many points: one restart of each K fills the device");
}

km_status km_cuda_set_grid(km_plan *plan, int64_t tile, km_error *err) {
    int64_t grid = plan->facts.units * km_plan_value(plan, KM_PARAM_blocks_per_sm) /
                   km_plan_value(plan, KM_PARAM_concurrent_restarts);
    if (plan->points) grid = km_min(grid, km_divide_up(plan->points, tile));
    return km_plan_set(plan, KM_PARAM_grid, km_max(grid, 1), err,
                       "%lld multiprocessors, filled once by all restarts", (long long)plan->facts.units);
}

int64_t km_cuda_values(int64_t *values, const int64_t *all, int64_t count, const km_plan *plan,
                       km_param param) {
    if (km_plan_fixed(plan, param, values)) return 1;
    memcpy(values, all, (size_t)count * sizeof *values);
    return count;
}

int64_t km_cuda_registers_limit(const km_plan *plan, int64_t block, int64_t blocks_per_sm) {
    return km_min(plan->facts.registers_per_unit / (block * blocks_per_sm) / 8 * 8,
                  plan->facts.registers_per_thread);
}

int64_t km_cuda_partial_bytes(const km_plan *plan) {
    return km_plan_value(plan, KM_PARAM_grid) * km_plan_value(plan, KM_PARAM_concurrent_restarts) *
           plan->clusters_sum * (plan->spec.features + 1) * 8;
}

// Names -----------------------------------------------------------------------------------------------------

// Sets each number under its own name; for a word also a flag for each word of the design.
static void name_numbers(km_env *env, const km_plan *plan) {
    for (int64_t i = 0; i < plan->numbers_count; i++)
        km_env_set(env, plan->numbers[i].name, "%s", plan->numbers[i].text);
#define FLAG(param, name, design_of, meaning)                                                                \
    if (KM_DESIGN_##design_of == plan->design)                                                               \
        km_env_set_flag(env, #param "_" #name,                                                               \
                        km_plan_value(plan, KM_PARAM_##param) == KM_WORD_##param##_##name);
    KM_WORDS(FLAG)
#undef FLAG
}

void km_cuda_names(km_env *env, const km_plan *plan) {
    const km_spec *spec = &plan->spec;
    int32_t k_max = spec->clusters[spec->clusters_count - 1];
    km_env_set(env, "type", spec->type == KM_FLOAT64 ? "double" : "float");
    km_env_set(env, "label_type", k_max <= 256 ? "unsigned char" : "unsigned short");
    km_env_set_flag(env, "float64", spec->type == KM_FLOAT64);
    km_env_set_flag(env, "cosine", spec->metric == KM_METRIC_COSINE);
    km_env_set(env, "cancelled", spec->type == KM_FLOAT64 ? "0x1p-48" : "0x1p-20"); // as runtime/unit.c
    km_env_set_flag(env, "weighted", plan->weighted);
    km_env_set_flag(env, "track_labels", plan->track_labels);
    km_env_set(env, "algorithm", "%s", km_algorithm_name(plan->algorithm));
    km_env_set_flag(env, "elkan", plan->algorithm == KM_ALGORITHM_ELKAN);
    km_env_set(env, "tiles_mask", "%s", k_max <= 32 ? "unsigned" : "unsigned long long");
    km_env_set(env, "name", "%s", spec->name);
    km_env_set_int(env, "d", spec->features);
    km_env_set_int(env, "s", plan->clusters_sum);
    km_env_set_int(env, "ks_count", spec->clusters_count);
    km_env_set_int(env, "k_max", k_max);
    km_env_set_int(env, "vector", 16 / km_type_bytes(spec->type));
    km_env_set_flag(env, "async_copies", spec->target.arch >= 80);
    // From sm_100 on compilers read ahead as much as they see, and spill for it.
    km_env_set_int(env, "tile_at_once", spec->target.arch >= 100 ? 2 : KM_TILE_WARP_ROWS);
    km_env_set_flag(env, "many_features", KM_FINISH_HAS_TILES(spec->features));
    km_env_set_flag(env, "seed_halves",
                    spec->type == KM_FLOAT32 && spec->target.arch >= 80 &&
                        KM_HALVES_SERVES(spec->features, k_max));
    km_env_set_flag(env, "prepares_coefficients",
                    0); // whether update.cu computes the coefficients of the next pass
    name_numbers(env, plan);
}

km_env *km_cuda_name_k(km_env *env, const km_spec *spec, int64_t index, int64_t offset) {
    char text[24];
    snprintf(text, sizeof text, "%d", spec->clusters[index]);
    km_env *k = km_env_item(env, "ks", text);
    km_env_set_int(k, "index", index);
    km_env_set_int(k, "offset", offset);
    return k;
}

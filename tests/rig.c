// SPDX-License-Identifier: MIT
#include "rig.h"
#include "../gen/design.h"
#include "quiet_check.h"
#include "short_form.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const rig_variant variants[] = {
    {"cpu-prebuilt", &km_backend_cpu, KM_HOST, KM_DESIGN_PREBUILT, NULL},
    {"cpu-lanes", &km_backend_cpu, KM_HOST, KM_DESIGN_LANES, NULL},
    {"cpu-gemm", &km_backend_cpu, KM_HOST, KM_DESIGN_GEMM, NULL},
    {"cpu-sparse_lanes", &km_backend_cpu, KM_HOST, KM_DESIGN_SPARSE_LANES, NULL},
    {"cuda-registers", &km_backend_cuda, 0, KM_DESIGN_REGISTERS, NULL},
    {"cuda-tensor", &km_backend_cuda, 0, KM_DESIGN_TENSOR, NULL},
    {"cuda-tiled", &km_backend_cuda, 0, KM_DESIGN_TILED, NULL},
    {"cuda-tiled-plain", &km_backend_cuda, 0, KM_DESIGN_TILED, "tiles"},
    {"cuda-sparse_warps", &km_backend_cuda, 0, KM_DESIGN_SPARSE_WARPS, "nonzeros"},
    {"cuda-sparse_warps-expanded", &km_backend_cuda, 0, KM_DESIGN_SPARSE_WARPS, "expanded"},
};

const rig_variant *rig_variant_at(int index) {
    return index < (int)(sizeof variants / sizeof *variants) ? &variants[index] : NULL;
}

const rig_variant *rig_variant_find(const char *name) {
    for (int i = 0; rig_variant_at(i); i++)
        if (!strcmp(rig_variant_at(i)->name, name)) return rig_variant_at(i);
    return NULL;
}

void rig_must(km_status status, const km_error *err, const char *file, int line) {
    ck_assert_msg(status == KM_OK, "%s:%d: %s: %s", file, line, km_status_name(status), err->text);
}

static km_status spec_of(km_spec *spec, const rig_variant *variant, const rig_params *params, km_error *err) {
    km_spec_init(spec);
    spec->features = params->d;
    spec->type = params->type;
    if (km_design_code_of(variant->design)->is_csr) spec->layout = KM_LAYOUT_CSR;
    KM_TRY(km_spec_set_target(spec, variant->device == KM_HOST ? "cpu" : "cuda", err));
    KM_TRY(km_spec_set_clusters(spec, params->clusters, err));
    KM_TRY(km_spec_fix(spec, "design", km_design_name(variant->design), err));
    if (variant->form) KM_TRY(km_spec_fix(spec, "form", variant->form, err));
    if (params->one_block && variant->design == KM_DESIGN_REGISTERS) {
        KM_TRY(km_spec_fix(spec, "grid", "1", err));
        KM_TRY(km_spec_fix(spec, "block", "128", err));
    }
    if (params->concurrent == 0) return KM_OK;
    char count[32];
    snprintf(count, sizeof count, "%lld", (long long)params->concurrent);
    spec->n_init = params->concurrent;
    return km_spec_fix(spec, "concurrent_restarts", count, err);
}

static km_status plan_of(km_plan *plan, const km_spec *spec, const km_device *device,
                         const rig_params *params, km_error *err) {
    km_plan_params plan_params;
    km_plan_params_init(&plan_params);
    plan_params.facts = &device->facts;
    plan_params.weighted = params->weighted;
    plan_params.track_labels = params->track_labels;
    plan_params.points = params->points;
    return km_plan_make(plan, spec, &plan_params, err);
}

km_status rig_can_plan(const rig_variant *variant, km_error *err) {
    const rig_params params = {.d = 4, .clusters = "2..5", .type = KM_FLOAT32};
    km_plan_params plan_params;
    km_spec spec;
    km_plan plan;
    km_plan_init(&plan);
    km_plan_params_init(&plan_params);
    km_status status = spec_of(&spec, variant, &params, err);
    if (status == KM_OK) status = km_plan_make(&plan, &spec, &plan_params, err);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    return status;
}

int rig_build(rig *r, const rig_variant *variant, const rig_params *params) {
    km_error err = {{0}};
    km_spec spec;
    km_plan plan;
    km_source source;
    km_module_params module_params;
    *r = (rig){.variant = variant};
    km_plan_init(&plan);
    km_source_init(&source);
    km_module_params_init(&module_params);
    module_params.cache_dir = params->cache_dir;
    const char *compiler = variant->device == KM_HOST ? quick_compiler() : NULL;
    RIG_MUST(km_device_open(&r->device, variant->device, compiler, NULL, &err), &err);
    RIG_MUST(spec_of(&spec, variant, params, &err), &err);
    km_status status = plan_of(&plan, &spec, r->device, params, &err);
    if (status != KM_ERROR_PLAN) {
        RIG_MUST(status, &err);
        ck_assert_int_eq(plan.design, variant->design);
        RIG_MUST(km_source_emit(&source, &plan, NULL, &err), &err);
        RIG_MUST(km_module_build_on(&r->module, &source, r->device, &module_params, &err), &err);
    }
    km_source_clear(&source);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    if (!r->module) km_device_close(&r->device);
    return r->module != NULL;
}

// Every loaded point, and the promise that it is (x - centre) * factor rounded to the type.
static void read_back(rig *r, const ref_data *points) {
    km_error err = {{0}};
    int64_t n = points->n, d = points->d;
    int64_t *indices = malloc((size_t)n * sizeof *indices);
    for (int64_t i = 0; i < n; i++) indices[i] = i;
    r->loaded = ref_data_copy(points);
    RIG_MUST(r->engine->backend->rows(r->engine, r->loaded.x, indices, n, &err), &err);
    for (int64_t i = 0; i < n * d; i++) {
        double expected = (points->x[i] - r->load.centre[i % d]) * r->load.factor[i % d];
        ck_assert_double_eq(r->loaded.x[i], ref_round(expected, points->type));
    }
    free(indices);
}

// The points as a table; of more features than dense points may have, as CSR.
static km_status data_of(rig *r, const ref_data *points, km_error *err) {
    int64_t n = points->n, d = points->d, nonzeros = 0;
    if (d <= KM_FEATURES_DENSE_MAX) {
        r->values = ref_values(points);
        return km_data_from_memory(&r->data, r->values, n, d, points->type, 0, 0, points->w, err);
    }
    for (int64_t i = 0; i < n * d; i++) nonzeros += points->x[i] != 0;
    int64_t *starts = r->values = calloc((size_t)(n + 1 + 2 * nonzeros), 8);
    double *values = (double *)(void *)(starts + n + 1);
    int32_t *columns = (int32_t *)(void *)(values + nonzeros);
    ck_assert_ptr_nonnull(starts);
    for (int64_t i = 0, at = 0; i < n * d; i++) {
        if (points->x[i] != 0) {
            values[at] = points->x[i];
            columns[at++] = (int32_t)(i % d);
        }
        starts[i / d + 1] = at;
    }
    return km_data_from_csr(&r->data, starts, columns, 4, values, KM_FLOAT64, n, d, points->w, err);
}

km_status rig_try_load(rig *r, const ref_data *points, int64_t threads, km_scale scale, km_error *err) {
    int64_t d = points->d;
    RIG_MUST(data_of(r, points, err), err);
    RIG_MUST(r->variant->backend->engine_create(&r->engine, r->module->kernels, threads, NULL, err), err);
    RIG_MUST(km_data_stats_alloc(&r->stats, d, err), err);
    r->load = (km_load_params){.scale = scale};
    r->load.centre = calloc((size_t)d, sizeof(double));
    r->load.factor = calloc((size_t)d, sizeof(double));
    km_status status = r->engine->backend->load(r->engine, &r->stats, r->data, &r->load, err);
    if (status != KM_OK) rig_unload(r);
    return status;
}

void rig_load(rig *r, const ref_data *points, int64_t threads, km_scale scale) {
    km_error err = {{0}};
    RIG_MUST(rig_try_load(r, points, threads, scale, &err), &err);
    ck_assert_int_eq(r->engine->n, points->n);
    ck_assert_int_eq(r->engine->d, points->d);
    read_back(r, points);
}

void rig_unload(rig *r) {
    if (r->engine) r->engine->backend->engine_destroy(&r->engine);
    km_data_destroy(&r->data);
    km_data_stats_free(&r->stats);
    free(r->load.centre);
    free(r->load.factor);
    r->load = (km_load_params){0};
    ref_data_free(&r->loaded);
    free(r->values);
    r->values = NULL;
    r->engine = NULL;
}

void rig_close(rig *r) {
    rig_unload(r);
    km_module_destroy(&r->module);
    km_device_close(&r->device);
}

int64_t rig_slot_clusters(const rig *r, int64_t slot) {
    const km_spec *spec = &r->engine->plan->spec;
    return spec->clusters[slot % spec->clusters_count];
}

static int count_phase(const km_slot_state *states, int64_t count, km_slot_phase phase) {
    int found = 0;
    for (int64_t slot = 0; slot < count; slot++) found += states[slot].phase == phase;
    return found;
}

void rig_run_all(const rig *r, km_slot_state *states, const km_stop *stop) {
    km_error err = {{0}};
    int64_t slots = r->engine->slots_count, passes;
    for (int call = 0; call < 10000; call++) {
        RIG_MUST(r->engine->backend->run_passes(r->engine, states, &passes, stop, 7, &err), &err);
        ck_assert_int_le(passes, 7);
        for (int64_t slot = 0; slot < slots; slot++) {
            int64_t moved;
            if (states[slot].phase != KM_SLOT_EMPTY) continue;
            ck_assert_int_gt(states[slot].empty_count, 0);
            RIG_MUST(r->engine->backend->relocate(r->engine, slot, &moved, &err), &err);
            ck_assert_int_ge(moved, 0);
            ck_assert_int_le(moved, states[slot].empty_count);
        }
        if (count_phase(states, slots, KM_SLOT_DONE) + count_phase(states, slots, KM_SLOT_IDLE) == slots)
            return;
    }
    ck_abort_msg("runs did not stop after 10,000 calls of run_passes");
}

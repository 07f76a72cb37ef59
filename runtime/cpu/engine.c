// SPDX-License-Identifier: MIT
// The CPU engine: slots, the pass over all active ones, and what happens to each of them after it.
//
// The same bits for any number of threads: one thread works on a piece of points, its partial sums start from zero, and
// are added to totals that do not depend on the order (totals.c).
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/cpu/facts.h"
#include "../../gen/memory.h"
#include "cpu.h"
#include "layout.h"
#include "../share.h"
#include "../threads.h"
#include "../unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    REFRESH_PASSES = 32,  // sums start again from zero after so many updates of a run ...
    REFRESH_SHARE = 2,    // ... and when more than one in so many points changed: adding all is cheaper then;
    REFRESH_MASKED = 45,  // with masked sums when more than k in so many changed
    LABELS_MULTIPLE = 64, // labels come in multiples of so many, where no kernels say otherwise
    COARSE_SHARE = 64     // part of the points that, scored again as floats, cost what int16 scores save
};

// One row a layout of points.
static const cpu_layout *const layouts[] = {
    [KM_LAYOUT_DENSE] = &km_cpu_dense,
    [KM_LAYOUT_CSR] = &km_cpu_csr,
};

// Life of an engine -------------------------------------------------------------------------------------------

static void slot_free(cpu_slot *slot) {
    free(slot->centroids);
    free(slot->before);
    free(slot->totals);
    free(slot->digits);
    free(slot->table);
    free(slot->int16_table);
    free(slot->columns);
    free(slot->may_stay_empty);
}

static void engine_destroy(km_engine **base) {
    cpu_engine *engine = (cpu_engine *)*base;
    if (!engine) return;
    for (int64_t s = 0; engine->slots && s < engine->base.slots_count; s++) slot_free(&engine->slots[s]);
    if (engine->layout) engine->layout->destroy(engine);
    free(engine->slots);
    free(engine->partials);
    free(engine->lists);
    km_cpu_accumulators_free(engine);
    km_cpu_guests_free(engine);
    km_pages_free(engine->labels);
    free(engine->base.unit_centre);
    free(engine);
    *base = NULL;
}

static km_status slots_create(cpu_engine *engine, km_error *err) {
    const km_plan *plan = engine->base.plan;
    int64_t restarts = km_plan_get(plan, "concurrent_restarts"), ks = plan->spec.clusters_count;
    if (restarts < 1) restarts = 1;
    int64_t count = engine->base.slots_count = restarts * ks;
    engine->slots = calloc((size_t)count, sizeof *engine->slots);
    if (!engine->slots) return km_fail_memory(err, "slots", count * (int64_t)sizeof *engine->slots);
    for (int64_t s = 0; s < count; s++) {
        cpu_slot *slot = &engine->slots[s];
        slot->k_index = s % ks;
        slot->k = plan->spec.clusters[slot->k_index];
        slot->labels_bytes = (int32_t)km_cpu_label_bytes(slot->k);
        slot->sums_by_owner = km_cpu_sums_are_owned(plan, slot->k);
        if (!slot->sums_by_owner) engine->sums_count += slot->k * engine->pitch;
    }
    engine->lists = calloc((size_t)(engine->threads * count), sizeof *engine->lists);
    if (!engine->lists) return km_fail_memory(err, "slots", count * (int64_t)sizeof *engine->lists);
    // Whole cache lines: a pass adds a vector of a row at a time.
    int64_t bytes =
        km_round_up(engine->threads * engine->sums_count * (int64_t)sizeof *engine->partials + 1, 64);
    engine->partials = aligned_alloc(64, (size_t)bytes);
    if (!engine->partials) return km_fail_memory(err, "partial sums", bytes);
    memset(engine->partials, 0, (size_t)bytes);
    engine->accumulators_count = km_cpu_accumulators(engine->threads, engine->sums_count);
    return km_cpu_accumulators_create(engine, err);
}

static km_status engine_create(km_engine **out, const km_kernels *kernels, int64_t threads, const km_log *log,
                               km_error *err) {
    *out = NULL;
    const km_plan *plan = kernels->plan;
    const cpu_module *module = (const cpu_module *)kernels;
    // A source that was emitted for an older instruction set, or edited, may have SoA groups of another size.
    int64_t soa_points = module->pass ? module->pass->soa_points : LABELS_MULTIPLE;
    if (soa_points < 1 || KM_CHUNK_POINTS % soa_points != 0)
        return km_fail(err, KM_ERROR_PLAN, "soa_points must divide %d, got %lld", KM_CHUNK_POINTS,
                       (long long)soa_points);
    cpu_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return km_fail_memory(err, "the engine", (int64_t)sizeof *engine);
    engine->base =
        (km_engine){.backend = &km_backend_cpu, .kernels = kernels, .plan = plan, .d = plan->spec.features};
    if (module->pass) engine->kernels = *module->pass;
    engine->threads = km_threads(threads, kernels->device->facts.units, log);
    engine->soa_points = soa_points;
    engine->pitch = KM_CPU_PITCH(engine->base.d);
    engine->real_bytes = km_type_bytes(plan->spec.type);
    engine->layout = layouts[km_plan_layout(plan)];
    engine->log = log;
    engine->counters.algorithm = plan->algorithm;
    *out = &engine->base;
    km_status status = slots_create(engine, err);
    if (status != KM_OK) engine_destroy(out);
    return status;
}

// Slots -------------------------------------------------------------------------------------------------------

static int64_t labels_bytes(const cpu_engine *engine, const cpu_slot *slot) {
    return km_round_up(km_round_up(engine->base.n, engine->soa_points) * slot->labels_bytes, 64);
}

// Labels of all slots in one piece: large enough for huge pages, and one clearing of them.
static km_status labels_alloc(cpu_engine *engine, km_error *err) {
    if (engine->labels) return KM_OK;
    int64_t bytes = 0;
    for (int64_t s = 0; s < engine->base.slots_count; s++) bytes += labels_bytes(engine, &engine->slots[s]);
    engine->labels = km_pages_alloc(bytes);
    return engine->labels ? KM_OK : km_fail_memory(err, "the labels of all runs", bytes);
}

// Memory of the table for int16 scores, and by feature.
static int int16_alloc(cpu_slot *slot, int64_t d) {
    slot->int16_table = calloc((size_t)(slot->k * KM_CPU_INT16_ROW(d)), sizeof *slot->int16_table);
    slot->columns = calloc((size_t)(KM_CPU_COLUMNS(slot->k) * (d + 1)), sizeof *slot->columns);
    return slot->int16_table && slot->columns;
}

static km_status slot_alloc(cpu_engine *engine, cpu_slot *slot, km_error *err) {
    if (slot->labels) return KM_OK;
    KM_TRY(labels_alloc(engine, err));
    int64_t d = engine->base.d;
    slot->centroids = calloc((size_t)(slot->k * d), sizeof *slot->centroids);
    slot->before = calloc((size_t)(slot->k * d), sizeof *slot->before);
    slot->totals = calloc((size_t)(slot->k * engine->pitch), sizeof *slot->totals);
    if (engine->layout->has_slot_tables)
        slot->table = calloc((size_t)(KM_CPU_TABLE_ROWS(slot->k) * (d + 1)), (size_t)engine->real_bytes);
    slot->may_stay_empty = calloc((size_t)slot->k, 1);
    if (!slot->sums_by_owner)
        slot->digits = calloc((size_t)(KM_TOTAL_DIGITS * slot->k * engine->pitch), sizeof *slot->digits);
    int complete = slot->centroids && slot->before && slot->totals && (slot->digits || slot->sums_by_owner) &&
                   (slot->table || !engine->layout->has_slot_tables) && slot->may_stay_empty;
    if (complete && (!engine->int16_scales || int16_alloc(slot, d))) {
        uint8_t *labels = engine->labels;
        for (const cpu_slot *s = engine->slots; s < slot; s++) labels += labels_bytes(engine, s);
        slot->labels = labels;
        if (slot->table) km_cpu_table_end(slot->table, slot->k, d, engine->base.plan->spec.type);
        return KM_OK;
    }
    slot_free(slot);
    slot->centroids = slot->before = slot->totals = slot->digits = NULL;
    slot->table = slot->may_stay_empty = NULL;
    slot->int16_table = NULL;
    slot->columns = NULL;
    return km_fail_memory(err, "the centroids of a run", slot->k * d * (int64_t)sizeof *slot->centroids);
}

static km_status slot_check(const cpu_engine *engine, int64_t slot, km_error *err) {
    if (slot >= 0 && slot < engine->base.slots_count) return KM_OK;
    return km_fail(err, KM_ERROR_INTERNAL, "slot %lld of %lld", (long long)slot,
                   (long long)engine->base.slots_count);
}

static km_status slot_start(km_engine *base, int64_t index, const double *centroids, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    KM_TRY(slot_check(engine, index, err));
    cpu_slot *slot = &engine->slots[index];
    KM_TRY(slot_alloc(engine, slot, err));
    memcpy(slot->centroids, centroids, (size_t)(slot->k * base->d) * sizeof *centroids);
    memset(slot->may_stay_empty, 0, (size_t)slot->k);
    km_cpu_slot_tables(engine, slot);
    slot->is_int16_coarse = 0;
    slot->state = (km_slot_state){.phase = KM_SLOT_RUNNING};
    slot->mode = KM_CPU_FIRST;
    slot->relocatable_count = slot->changed = slot->are_means = 0;
    return KM_OK;
}

static double round_to(km_type type, double value) {
    return type == KM_FLOAT32 ? (double)(float)value : value;
}

static void slot_means(const km_engine *base, int64_t index, double *means) {
    const cpu_engine *engine = (const cpu_engine *)base;
    const cpu_slot *slot = &engine->slots[index];
    int64_t d = base->d;
    for (int64_t j = 0; j < slot->k; j++) {
        const double *sum = slot->totals + j * engine->pitch, *c = slot->centroids + j * d;
        for (int64_t f = 0; f < d; f++)
            means[j * d + f] = sum[d] > 0 ? round_to(base->plan->spec.type, sum[f] / sum[d]) : c[f];
    }
}

static km_status slot_read(km_engine *base, int64_t index, double *centroids, double *weights,
                           km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    KM_TRY(slot_check(engine, index, err));
    cpu_slot *slot = &engine->slots[index];
    if (!slot->centroids)
        return km_fail(err, KM_ERROR_INTERNAL, "slot %lld was never started", (long long)index);
    memcpy(centroids, slot->centroids, (size_t)(slot->k * base->d) * sizeof *centroids);
    for (int64_t j = 0; j < slot->k; j++) weights[j] = slot->totals[j * engine->pitch + base->d];
    slot->state.phase = KM_SLOT_IDLE;
    return KM_OK;
}

static km_status rows(km_engine *base, double *out, const int64_t *indices, int64_t count, km_error *err) {
    const km_share *share = base->share;
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] < 0 || indices[i] >= base->n_all)
            return km_fail(err, KM_ERROR_INTERNAL, "row %lld of %lld", (long long)indices[i],
                           (long long)base->n_all);
        if (share && !km_share_has(share, indices[i]))
            memset(out + i * base->d, 0, (size_t)base->d * sizeof *out);
        else
            km_cpu_row(out + i * base->d, (const cpu_engine *)base, indices[i] - (share ? share->first : 0));
    }
    return km_share_sum(base->share, out, count * base->d, err);
}

// The pass ----------------------------------------------------------------------------------------------------

static int slot_is_active(const cpu_slot *slot) {
    return km_slot_is_active(slot->state.phase);
}

static int uses_int16_scores(const cpu_slot *slot) {
    return slot->int16_table && slot->margin >= 0 && !slot->is_int16_coarse;
}

// Lists every active slot for a piece that starts at point `first`. `sums` gets its partial sums.
static int64_t list_active(const cpu_engine *engine, km_cpu_slot *list, double *sums, int64_t first) {
    int64_t count = 0;
    for (int64_t s = 0; s < engine->base.slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (!slot_is_active(slot)) continue;
        uint8_t *labels = (uint8_t *)slot->labels + first * slot->labels_bytes;
        list[count++] = (km_cpu_slot){.k = slot->k,
                                      .k_index = slot->k_index,
                                      .table = slot->table,
                                      .labels = labels,
                                      .sums = slot->sums_by_owner ? NULL : sums,
                                      .mode = slot->mode,
                                      .labels_bytes = slot->labels_bytes,
                                      .int16_table = uses_int16_scores(slot) ? slot->int16_table : NULL,
                                      .columns = slot->columns,
                                      .margin = slot->margin};
        if (!slot->sums_by_owner) sums += slot->k * engine->pitch;
    }
    return count;
}

// Pieces are worked on in any order by any thread.
static void pass_pieces(cpu_engine *engine) {
    const cpu_layout *layout = engine->layout;
    int64_t pieces = layout->pieces(engine), slots = engine->base.slots_count;
    int threads = cpu_threads_for(engine, pieces);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        int64_t me = omp_get_thread_num();
        km_cpu_slot *list = engine->lists + me * slots;
        double *sums = engine->partials + me * engine->sums_count;
#pragma omp for schedule(dynamic, 1)
        for (int64_t piece = 0; piece < pieces; piece++) {
            if (km_asking_stops(engine->base.asking)) continue;
            layout->piece(engine, piece, list,
                          list_active(engine, list, sums, layout->piece_first(engine, piece)));
            km_cpu_totals_collect(engine, &engine->accumulators[me % engine->accumulators_count], list);
        }
        if (!engine->base.share) {
#pragma omp for schedule(dynamic, 1)
            for (int64_t s = 0; s < slots; s++)
                if (slot_is_active(&engine->slots[s])) km_cpu_totals_join(engine, s);
        }
    }
}

// The totals of a pass with other ranks: one sum over all of them for all slots.
static km_status join_ranks(cpu_engine *engine, km_error *err) {
    if (!engine->base.share) return KM_OK;
    KM_TRY(km_cpu_totals_exchange(engine, err));
    for (int64_t s = 0; s < engine->base.slots_count; s++)
        if (slot_is_active(&engine->slots[s])) km_cpu_totals_join(engine, s);
    return KM_OK;
}

static km_status pass_all(cpu_engine *engine, km_error *err) {
    const cpu_layout *layout = engine->layout;
    pass_pieces(engine);
    KM_TRY(km_asking_status(engine->base.asking, err));
    KM_TRY(join_ranks(engine, err));
    for (int64_t s = 0; s < engine->base.slots_count; s++) {
        cpu_slot *slot = &engine->slots[s];
        if (!slot_is_active(slot)) continue;
        engine->counters.distances_lloyd += engine->base.n_all * slot->k;
        if (!engine->tiling && !engine->bounds) engine->counters.distances += engine->base.n_all * slot->k;
        if (slot->sums_by_owner) KM_TRY(layout->owned_sums(engine, s, err));
        km_cpu_totals_tidy(engine, slot);
        slot->mode = engine->tiling ? KM_CPU_REFRESH : KM_CPU_MOVE;
    }
    layout->pass_end(engine);
    return KM_OK;
}

// After a pass ------------------------------------------------------------------------------------------------

// The inertia of the centroids that the pass used, from its sums.
static double slot_inertia(const cpu_engine *engine, const cpu_slot *slot) {
    double inertia = engine->total_square;
    int64_t d = engine->base.d;
    for (int64_t j = 0; j < slot->k; j++) {
        const double *c = slot->centroids + j * d, *sum = slot->totals + j * engine->pitch;
        double cluster = 0;
        for (int64_t f = 0; f < d; f++) cluster += c[f] * (sum[d] * c[f] - 2 * sum[f]);
        inertia += cluster;
    }
    return inertia;
}

// Clusters without weight.
static int64_t slot_count_empty(const cpu_engine *engine, cpu_slot *slot) {
    int64_t empty = slot->relocatable_count = 0;
    for (int64_t j = 0; j < slot->k; j++) {
        if (slot->totals[j * engine->pitch + engine->base.d + 1] != 0) continue;
        empty++;
        slot->relocatable_count += !slot->may_stay_empty[j];
    }
    return empty;
}

// More changed points than this: the next pass adds all points instead of moving those that change.
static int64_t moves_most(const cpu_engine *engine, const cpu_slot *slot) {
    int masked = slot->k <= engine->kernels.masked_sums_k_max && !engine->weights;
    if (engine->moves_any) return engine->base.n_all;
    return masked ? engine->base.n_all / REFRESH_MASKED * slot->k : engine->base.n_all / REFRESH_SHARE;
}

// Centroids become the means of their points, with the cosine those of length 1; clusters without weight keep theirs,
// and those whose points cancel each other out. Returns the shift.
static double slot_update(const cpu_engine *engine, cpu_slot *slot) {
    int64_t d = engine->base.d;
    int is_unit = engine->base.unit_centre != NULL;
    km_type type = engine->base.plan->spec.type;
    double shift = 0;
    slot->is_int16_coarse |= slot->resolved > engine->base.n_all / COARSE_SHARE;
    if (slot->are_means && slot->changed == 0) return 0; // a refresh of the sums moves means by rounding only
    slot->are_means = 1;
    for (int64_t j = 0; j < slot->k; j++) {
        double *c = slot->centroids + j * d;
        const double *sum = slot->totals + j * engine->pitch;
        if (!(sum[d] > 0)) continue;
        double length = is_unit ? km_unit_length(&engine->base, sum, sum[d]) : 1;
        if (!(length > 0)) continue;
        for (int64_t f = 0; f < d; f++) {
            double mean = sum[f] / sum[d];
            if (is_unit) mean = km_unit_coordinate(&engine->base, mean, length, f);
            mean = round_to(type, mean);
            shift += (mean - c[f]) * (mean - c[f]);
            c[f] = mean;
        }
    }
    // Both depend on the run alone, so its bits do not depend on the other active runs. Owned sums are added again
    // where the lists of changes are full.
    int is_old = (slot->state.iterations + 1) % REFRESH_PASSES == 0;
    if (is_old || (!slot->sums_by_owner && slot->changed > moves_most(engine, slot)))
        slot->mode = KM_CPU_REFRESH;
    km_cpu_slot_tables(engine, slot);
    return shift;
}

int km_cpu_slot_step(const cpu_engine *engine, cpu_slot *slot, const km_stop *stop) {
    km_slot_found found = {.inertia = slot_inertia(engine, slot),
                           .empty_count = slot_count_empty(engine, slot),
                           .relocatable = slot->relocatable_count > 0,
                           .few_changes = slot->changed < stop->changes_min};
    if (found.relocatable)
        memcpy(slot->before, slot->centroids, (size_t)(slot->k * engine->base.d) * sizeof *slot->before);
    if (slot->state.phase == KM_SLOT_RUNNING) found.shift = slot_update(engine, slot);
    km_slot_decide(&slot->state, &found, stop->shift_max, stop->max_iter);
    return !slot_is_active(slot);
}

static km_status run_passes(km_engine *base, km_slot_state *states, int64_t *passes, const km_stop *stop,
                            int64_t passes_max, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    *passes = 0;
    int stopped = 0;
    while (!stopped && *passes < passes_max) {
        int active = 0;
        for (int64_t s = 0; s < base->slots_count; s++) active += slot_is_active(&engine->slots[s]);
        if (!active) break;
        engine->wants_labels = base->plan->track_labels || stop->changes_min > 0;
        KM_TRY(engine->layout->pass_begin(engine, err));
        KM_TRY(pass_all(engine, err));
        ++*passes;
        for (int64_t s = 0; s < base->slots_count; s++)
            if (slot_is_active(&engine->slots[s]))
                stopped |= km_cpu_slot_step(engine, &engine->slots[s], stop);
        if (km_share_is_ending(base->share)) break; // all ranks, whose calls have other numbers of passes
    }
    for (int64_t s = 0; s < base->slots_count; s++) states[s] = engine->slots[s].state;
    return KM_OK;
}

static km_status load(km_engine *base, km_data_stats *stats, const km_data *data, km_load_params *params,
                      km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    if (km_data_features(data) != base->d)
        return km_fail(err, KM_ERROR_DATA, "%s has %lld features, the module is for %lld", km_data_name(data),
                       (long long)km_data_features(data), (long long)base->d);
    base->n_all = km_data_points_all(data);
    if (base->n_all < 1) return km_fail(err, KM_ERROR_DATA, "%s has no points", km_data_name(data));
    if (base->n) return km_fail(err, KM_ERROR_INTERNAL, "the engine has points already");
    KM_TRY(engine->layout->load(engine, stats, data, params, err));
    KM_TRY(km_unit_init(base, params, err));
    return km_cpu_units_create(engine, stats, params, err);
}

static km_status silhouette(km_engine *base, km_silhouette_model *models, int64_t count, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    return engine->layout->silhouette(engine, models, count, err);
}

static void counters(const km_engine *base, km_counters *out) {
    *out = ((const cpu_engine *)base)->counters;
}

static int device_count(void) {
    return 1;
}

static km_status device_open(km_device **out, int ordinal, const char *compiler, const km_log *log,
                             km_error *err) {
    km_status status = km_cpu_device_open(out, ordinal, compiler, log, err);
    if (*out) (*out)->backend = &km_backend_cpu;
    return status;
}

const km_backend km_backend_cpu = {
    .name = "cpu",
    .device_count = device_count,
    .device_open = device_open,
    .device_close = km_cpu_device_close,
    .compiler_name = km_cpu_compiler_name,
    .compiler_id = km_cpu_compiler_id,
    .compile = km_cpu_compile,
    .read = km_cpu_read,
    .kernels_load = km_cpu_kernels_load,
    .kernels_unload = km_cpu_kernels_unload,
    .engine_create = engine_create,
    .engine_destroy = engine_destroy,
    .load = load,
    .seed_plusplus = km_cpu_seed_plusplus,
    .rows = rows,
    .slot_start = slot_start,
    .run_passes = run_passes,
    .relocate = km_cpu_relocate,
    .slot_means = slot_means,
    .slot_read = slot_read,
    .finish = km_cpu_finish_models,
    .silhouette = silhouette,
    .counters = counters,
};

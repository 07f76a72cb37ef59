// SPDX-License-Identifier: MIT
// The engine: memory, slots, and the loop of passes and updates, which runs on the device ahead of the host.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../../gen/design.h"
#include "cuda.h"
#include "../module_state.h"
#include "../share.h"
#include "../threads.h"
#include "../unit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_BYTES = 8 }; // behind the mirror of `state`

static km_cuda_engine *engine_of(km_engine *base) {
    return (km_cuda_engine *)base;
}

// Of the algorithm of the plan; NULL: lloyd's, or there is no plan yet.
static const km_cuda_skipping *skipping_of(const km_cuda_engine *engine) {
    static const km_cuda_skipping *const all[KM_ALGORITHM_COUNT] = {[KM_ALGORITHM_TILES] = &km_cuda_tiling,
                                                                    [KM_ALGORITHM_HAMERLY] =
                                                                        &km_cuda_bounding,
                                                                    [KM_ALGORITHM_ELKAN] = &km_cuda_bounding};
    return engine->base.plan && !engine->skipping_dropped ? all[engine->base.plan->algorithm] : NULL;
}

// Create and destroy ------------------------------------------------------------------------------------------

// Makes an engine without kernels, which can fetch points.
static km_status engine_make(km_cuda_engine **out, km_device *device, km_type type, int64_t threads,
                             const km_log *log, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = *out = calloc(1, sizeof *engine);
    if (!engine) return km_fail_memory(err, "an engine", sizeof *engine);
    engine->base.backend = &km_backend_cuda;
    engine->device = (const km_cuda_device *)device;
    engine->log = log;
    engine->threads = km_threads(threads, omp_get_num_procs(), log);
    engine->real_bytes = km_type_bytes(type);
    const km_driver *driver = engine->driver = engine->device->driver;
    KM_TRY(km_cuda_enter(engine->device, err));
    KM_CU(cuStreamCreate(&engine->stream, KM_CU_STREAM_NON_BLOCKING));
done:
    km_cuda_leave(engine->device);
    return status;
}

static km_status engine_init(km_cuda_engine *engine, const km_kernels *kernels, km_error *err) {
    const km_plan *plan = kernels->plan;
    int64_t ks = plan->spec.clusters_count;
    if (engine->real_bytes != km_type_bytes(plan->spec.type))
        return km_fail(err, KM_ERROR_INTERNAL, "the points were fetched for another type than the plan's");
    engine->base.kernels = kernels;
    engine->base.plan = plan;
    engine->base.d = plan->spec.features;
    engine->is_csr = km_plan_is_csr(plan);
    engine->kernels = (const km_cuda_kernels *)kernels;
    engine->restarts = km_plan_get(plan, "concurrent_restarts");
    if (engine->restarts < 1) engine->restarts = 1;
    engine->base.slots_count = engine->restarts * ks;
    engine->offsets = calloc((size_t)ks, sizeof *engine->offsets);
    engine->starts = calloc((size_t)engine->base.slots_count, 1);
    if (!engine->offsets || !engine->starts)
        return km_fail_memory(err, "the slots", ks * (int64_t)sizeof *engine->offsets);
    for (int64_t i = 0; i < ks; i++) {
        engine->offsets[i] = engine->clusters_sum;
        engine->clusters_sum += plan->spec.clusters[i];
    }
    return KM_OK;
}

static km_status engine_pin(km_cuda_engine *engine, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    KM_TRY_GOTO(
        km_cuda_pinned_alloc(&engine->mirror, engine, km_cuda_state_bytes(engine) + REPORT_BYTES, err));
    memset(engine->mirror, 0, (size_t)km_cuda_state_bytes(engine) + REPORT_BYTES);
    KM_CU(cuMemHostGetDevicePointer(&engine->report, (void *)km_cuda_report(engine), 0));
done:
    return status;
}

static void engine_destroy(km_engine **base);

static km_status engine_equip(km_engine *base, const km_kernels *kernels, km_error *err) {
    km_cuda_engine *engine = engine_of(base);
    KM_TRY(engine_init(engine, kernels, err));
    KM_TRY(km_cuda_enter(engine->device, err));
    km_status status = engine_pin(engine, err);
    km_cuda_leave(engine->device);
    return status;
}

static km_status engine_create(km_engine **out, const km_kernels *kernels, int64_t threads, const km_log *log,
                               km_error *err) {
    km_cuda_engine *engine;
    km_status status = engine_make(&engine, kernels->device, kernels->plan->spec.type, threads, log, err);
    *out = (km_engine *)engine;
    if (status == KM_OK) status = engine_equip(*out, kernels, err);
    if (status != KM_OK) engine_destroy(out);
    return status;
}

static km_status engine_fetch(km_engine **out, km_device *device, const km_data *data, km_type type,
                              int64_t threads, const km_log *log, km_error *err) {
    km_cuda_engine *engine;
    km_status status = engine_make(&engine, device, type, threads, log, err);
    *out = (km_engine *)engine;
    if (status == KM_OK) status = km_cuda_enter(engine->device, err);
    if (status == KM_OK) {
        status = km_cuda_fetch(engine, data, err);
        km_cuda_leave(engine->device);
    }
    if (status != KM_OK) engine_destroy(out);
    return status;
}

static void engine_close(km_cuda_engine *engine) {
    const km_driver *driver = engine->driver;
    km_cuda_memory *const memories[] = {
        &engine->points,       &engine->pass_weights, &engine->weights, &engine->subchunk_weights,
        &engine->box,          &engine->centroids,    &engine->before,  &engine->totals,
        &engine->slot_weights, &engine->part_sums,    &engine->changes, &engine->labels,
        &engine->workspace,    &engine->state,        &engine->scratch, &engine->work,
        &engine->starter,      &engine->far_scratch,  &engine->joined};
    km_cuda_nccl_close(engine, km_share_is_lost(engine->base.share));
    km_cuda_kept_drop(engine);
    if (engine->stream) driver->cuStreamSynchronize(engine->stream);
    km_cuda_windows_close(engine);
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++) km_cuda_release(engine, memories[i]);
    if (skipping_of(engine)) skipping_of(engine)->destroy(engine);
    for (int i = 0; i < KM_STAGING_COUNT; i++)
        if (engine->staged[i]) driver->cuEventDestroy(engine->staged[i]);
    for (int i = 0; i < 2; i++)
        if (engine->sent[i]) driver->cuEventDestroy(engine->sent[i]);
    km_cuda_pinned_free(engine, engine->staging[0]); // one allocation for all
    km_cuda_pinned_free(engine, engine->mirror);
    if (engine->stream) driver->cuStreamDestroy(engine->stream);
}

static void engine_destroy(km_engine **base) {
    km_cuda_engine *engine = engine_of(*base);
    if (!engine) return;
    km_cuda_starter_end(engine);
    if (km_cuda_enter(engine->device, NULL) == KM_OK) {
        engine_close(engine);
        km_cuda_leave(engine->device);
    }
    km_cuda_relocate_forget(engine);
    free(engine->offsets);
    free(engine->tables);
    free(engine->starts);
    free(engine->base.unit_centre);
    free(engine);
    *base = NULL;
}

// Slots -------------------------------------------------------------------------------------------------------

static km_status slot_check(const km_cuda_engine *engine, int64_t slot, km_error *err) {
    if (!engine->points.address) return km_fail(err, KM_ERROR_INTERNAL, "the engine has no points yet");
    if (slot < 0 || slot >= engine->base.slots_count)
        return km_fail(err, KM_ERROR_INTERNAL, "slot %lld of %lld", (long long)slot,
                       (long long)engine->base.slots_count);
    return KM_OK;
}

// The rows of the table of centroids in `tables`, from a row on.
static void *table_rows(const km_cuda_engine *engine, int64_t row) {
    int64_t rows = engine->restarts * engine->clusters_sum;
    return (char *)engine->tables + rows * 8 + row * engine->base.d * engine->real_bytes;
}

// Stores first centroids in `tables`, so that those of adjacent slots go to the device in one copy.
static void store_start(km_cuda_engine *engine, int64_t slot, const double *centroids) {
    int64_t count = km_cuda_slot_k(engine, slot) * engine->base.d;
    void *to = table_rows(engine, km_cuda_slot_row(engine, slot));
    for (int64_t i = 0; i < count; i++)
        if (engine->real_bytes == 8)
            ((double *)to)[i] = centroids[i];
        else
            ((float *)to)[i] = (float)centroids[i];
    engine->starts[slot] = 1;
}

static km_status put_starts(km_cuda_engine *engine, km_error *err) {
    int64_t slots = engine->base.slots_count, row_bytes = engine->base.d * engine->real_bytes;
    for (int64_t slot = 0, end; slot < slots; slot = end) {
        for (end = slot; end < slots && engine->starts[end];) engine->starts[end++] = 0;
        if (end == slot) {
            end++;
            continue;
        }
        int64_t first = km_cuda_slot_row(engine, slot);
        int64_t after = km_cuda_slot_row(engine, end - 1) + km_cuda_slot_k(engine, end - 1);
        KM_TRY(km_cuda_put(engine, engine->centroids.address + (km_cu_ptr)(first * row_bytes),
                           table_rows(engine, first), (after - first) * row_bytes, err));
    }
    return KM_OK;
}

static km_status do_slot_start(km_cuda_engine *engine, int64_t slot, const double *centroids, km_error *err) {
    int64_t row = km_cuda_slot_row(engine, slot), k = km_cuda_slot_k(engine, slot);
    KM_TRY(slot_check(engine, slot, err));
    if (engine->tables)
        store_start(engine, slot, centroids);
    else
        KM_TRY(km_cuda_put_rows(engine, &engine->centroids, row, centroids, k, err));
    memset(km_cuda_given_up(engine) + row, 0, (size_t)k);
    km_cuda_records(engine)[slot] = (km_slot_record){.arrived = 0};
    km_cuda_set_phase(engine, slot, KM_SLOT_RUNNING);
    return KM_OK;
}

// Reads one slot from the tables of all slots. Runs often stop in the same pass, and a copy of all costs as much as
// one.
static km_status read_from_tables(km_cuda_engine *engine, int64_t row, int64_t k, double *centroids,
                                  double *weights, km_error *err) {
    int64_t d = engine->base.d, rows = engine->restarts * engine->clusters_sum;
    double *all_weights = (double *)engine->tables;
    void *all_rows = table_rows(engine, 0);
    if (!engine->tables_fresh) {
        KM_TRY(put_starts(engine, err)); // before they are overwritten
        KM_TRY(km_cuda_get(engine, all_weights, engine->slot_weights.address, rows * 8, err));
        KM_TRY(km_cuda_get(engine, all_rows, engine->centroids.address, rows * d * engine->real_bytes, err));
        engine->tables_fresh = 1;
    }
    memcpy(weights, all_weights + row, (size_t)k * sizeof *weights);
    for (int64_t i = 0; i < k * d; i++)
        centroids[i] = engine->real_bytes == 8 ? ((double *)all_rows)[row * d + i]
                                               : (double)((float *)all_rows)[row * d + i];
    return KM_OK;
}

static km_status do_slot_read(km_cuda_engine *engine, int64_t slot, double *centroids, double *weights,
                              km_error *err) {
    int64_t row = km_cuda_slot_row(engine, slot), k = km_cuda_slot_k(engine, slot);
    KM_TRY(slot_check(engine, slot, err));
    if (engine->tables) {
        KM_TRY(read_from_tables(engine, row, k, centroids, weights, err));
    } else {
        KM_TRY(km_cuda_get_rows(engine, centroids, &engine->centroids, row, k, err));
        KM_TRY(km_cuda_get(engine, weights, engine->slot_weights.address + (km_cu_ptr)(row * 8), k * 8, err));
    }
    km_cuda_set_phase(engine, slot, KM_SLOT_IDLE);
    return KM_OK;
}

// The loop ----------------------------------------------------------------------------------------------------

// One iteration: assignment, sums, reduction, and the update.
static km_status queue_pass(km_cuda_engine *engine, km_error *err) {
    if (km_cuda_starts(engine)) KM_TRY(km_cuda_go_over(engine, err));
    if (km_cuda_starts(engine)) return km_cuda_starter_pass(engine, err);
    const km_cuda_skipping *skipping = skipping_of(engine);
    KM_TRY(skipping ? skipping->pass(engine, err) : km_cuda_launch_stage(engine, KM_STAGE_PASS, err));
    return km_cuda_launch_update(engine, err);
}

// Polls until the device reports something new. Spins, as a pass may take no more than ten microseconds. A stream
// that is idle, or was stopped by an error, reports nothing new.
static km_status poll(uint64_t *report_seen, km_cuda_engine *engine, km_error *err) {
    enum { POLLS = 256 };
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    const volatile uint64_t *report = km_cuda_report(engine);
    for (uint64_t before = *report_seen;;) {
        for (int i = 0; i < POLLS; i++)
            if ((*report_seen = *report) != before) return KM_OK;
        km_cu_result result = driver->cuStreamQuery(engine->stream);
        if (result == KM_CU_NOT_READY && km_share_is_lost(engine->base.share)) {
            km_cuda_nccl_close(engine, 1); // a sum that a rank does not come to
            return km_share_lost(engine->base.share, err);
        }
        if (result == KM_CU_NOT_READY) continue;
        KM_CU(cuStreamSynchronize(engine->stream));
        *report_seen = *report;
        return *report_seen != before ? KM_OK
                                      : km_fail(err, KM_ERROR_INTERNAL, "passes ended without a report");
    }
done:
    return status;
}

// How many iterations to queue ahead. Those behind the one that stops cost their launches, so just as many as keep the
// device busy while the host does not run.
static int64_t passes_ahead(int64_t passes, double elapsed_ms) {
    enum { LEAST = 2, MOST = 8 };
    const double ahead_ms = 0.04;
    double ahead = passes > 0 ? 1 + ahead_ms * (double)passes / (elapsed_ms + 1e-6) : LEAST;
    return ahead < LEAST ? LEAST : ahead > MOST ? MOST : (int64_t)ahead;
}

// Ranks queue as many as the one that queued most: each pass has a sum that all come to. They cost their launches.
static km_status queue_as_many(km_cuda_engine *engine, int64_t queued, km_error *err) {
    int64_t most = -queued;
    if (!engine->nccl) return KM_OK;
    KM_TRY(km_cuda_least_of_ranks(engine, &most, 1, err));
    for (; queued < -most; queued++) KM_TRY(queue_pass(engine, err));
    return KM_OK;
}

// Queues iterations until the device reports that the loop stopped.
static km_status queue_passes(km_cuda_engine *engine, int64_t passes_max, km_error *err) {
    const uint64_t stopped = (uint64_t)1 << 32;
    double begin_ms = km_now_ms();
    int64_t queued = 0;
    *km_cuda_report(engine) = 0;
    for (uint64_t report_seen = 0; report_seen < stopped;) {
        int64_t passes = (int64_t)report_seen, ahead = passes_ahead(passes, km_now_ms() - begin_ms);
        // The host joins them: all ranks queue as many. Windows are copied whatever the pass before has found.
        if ((engine->base.share && !engine->nccl) || engine->windows) ahead = 1;
        if (queued < passes_max && queued - passes < ahead) {
            KM_TRY(queue_pass(engine, err));
            queued++;
            report_seen = *km_cuda_report(engine);
        } else {
            KM_TRY(poll(&report_seen, engine, err));
        }
    }
    return queue_as_many(engine, queued, err);
}

static int64_t count_active(km_cuda_engine *engine) {
    const km_slot_record *records = km_cuda_records(engine);
    int64_t active = 0;
    for (int64_t slot = 0; slot < engine->base.slots_count; slot++)
        active += km_slot_is_active(records[slot].state.phase);
    return active;
}

// A shift that is only rounding. Where the same labels can give sums that differ in their last digits (the sums of
// `registers` are relative to a pivot that may change from one pass to the next), a run whose centroids move no further
// has stopped. Else it might never stop.
static double rounding_shift(const km_cuda_engine *engine) {
    return km_design_code_of(engine->base.plan->design)->sums_vary ? engine->rounding_shift : 0;
}

static km_status do_run(km_cuda_engine *engine, km_slot_state *states, int64_t *passes, const km_stop *stop,
                        int64_t passes_max, km_error *err) {
    km_loop *loop = km_cuda_loop(engine);
    const km_slot_record *records = km_cuda_records(engine);
    *passes = 0;
    KM_TRY(slot_check(engine, 0, err));
    if (passes_max > INT32_MAX) passes_max = INT32_MAX;
    KM_TRY(km_cuda_least_of_ranks(engine, &passes_max, 1, err));
    int64_t active = count_active(engine);
    int64_t stopped_min = stop->stopped_min < 1 ? 1 : stop->stopped_min < active ? stop->stopped_min : active;
    if (passes_max > 0 && active > 0) {
        *loop = (km_loop){.head.passes_max = (int)passes_max,
                          .stopped_min = (int)stopped_min,
                          .shift_max = fmax(stop->shift_max, rounding_shift(engine)),
                          .changes_min = stop->changes_min,
                          .max_iter = stop->max_iter,
                          .total_square = engine->total_square};
        KM_TRY(put_starts(engine, err));
        KM_TRY(km_cuda_put(engine, engine->state.address, engine->mirror, km_cuda_state_bytes(engine), err));
        engine->tables_fresh = 0;
        if (skipping_of(engine)) KM_TRY(skipping_of(engine)->begin(engine, err));
        if (!skipping_of(engine) || !skipping_of(engine)->serves_all(engine)) {
            KM_TRY(km_cuda_prepare(engine, err));
            KM_TRY(km_cuda_launch_stage(engine, KM_STAGE_BEGIN, err));
        }
        KM_TRY(queue_passes(engine, passes_max, err));
        KM_TRY(km_cuda_get(engine, engine->mirror, engine->state.address, km_cuda_given_up_at(engine), err));
        *passes = loop->head.passes;
    }
    for (int64_t slot = 0; slot < engine->base.slots_count; slot++) states[slot] = records[slot].state;
    return KM_OK;
}

// The table of functions --------------------------------------------------------------------------------------

// Runs `call` with the device's context on this thread.
#define IN_CONTEXT(call)                                                                                     \
    do {                                                                                                     \
        km_cuda_engine *engine = engine_of(base);                                                            \
        KM_TRY(km_cuda_enter(engine->device, err));                                                          \
        km_status status = call;                                                                             \
        km_cuda_leave(engine->device);                                                                       \
        return status;                                                                                       \
    } while (0)

static km_status load_points(km_cuda_engine *engine, km_data_stats *stats, const km_data *data,
                             km_load_params *params, km_error *err) {
    KM_TRY(km_cuda_load(engine, stats, data, params, err));
    return km_unit_init(&engine->base, params, err);
}

static km_status load(km_engine *base, km_data_stats *stats, const km_data *data, km_load_params *params,
                      km_error *err) {
    IN_CONTEXT(load_points(engine, stats, data, params, err));
}

static km_status seed_plusplus(km_engine *base, int64_t *indices, int64_t first_restart, int64_t chains_count,
                               int64_t picks, uint64_t seed, int (*progress)(void *user, int64_t picks_done),
                               void *progress_user, km_error *err) {
    IN_CONTEXT(km_cuda_seed(engine, indices, first_restart, chains_count, picks, seed, progress,
                            progress_user, err));
}

static km_status rows(km_engine *base, double *out, const int64_t *indices, int64_t count, km_error *err) {
    IN_CONTEXT(km_cuda_rows(engine, out, indices, count, err));
}

static km_status slot_start(km_engine *base, int64_t slot, const double *centroids, km_error *err) {
    IN_CONTEXT(do_slot_start(engine, slot, centroids, err));
}

static km_status run_passes(km_engine *base, km_slot_state *states, int64_t *passes, const km_stop *stop,
                            int64_t passes_max, km_error *err) {
    IN_CONTEXT(do_run(engine, states, passes, stop, passes_max, err));
}

static km_status relocate_points(km_cuda_engine *engine, int64_t slot, int64_t *moved, km_error *err) {
    const km_cuda_kernels *kernels = engine->kernels;
    KM_TRY(km_cuda_need(engine, kernels->assign && kernels->farthest_pick, err));
    return km_cuda_relocate(engine, slot, moved, err);
}

static km_status finish_points(km_cuda_engine *engine, km_finish_model *models, int64_t count,
                               km_error *err) {
    const km_cuda_kernels *kernels = engine->kernels;
    int has_models = engine->is_csr || kernels->finish_few_clusters || kernels->finish_tiles;
    KM_TRY(km_cuda_need(engine, kernels->assign && has_models, err));
    return km_cuda_finish(engine, models, count, err);
}

static km_status silhouette_points(km_cuda_engine *engine, km_silhouette_model *models, int64_t count,
                                   km_error *err) {
    const km_cuda_kernels *kernels = engine->kernels;
    int has_sums = kernels->silhouette || kernels->silhouette_tiles;
    KM_TRY(km_cuda_need(engine, kernels->finish_add && has_sums, err));
    return km_cuda_silhouette(engine, models, count, err);
}

static km_status relocate(km_engine *base, int64_t slot, int64_t *moved, km_error *err) {
    IN_CONTEXT(relocate_points(engine, slot, moved, err));
}

static km_status slot_read(km_engine *base, int64_t slot, double *centroids, double *weights, km_error *err) {
    IN_CONTEXT(do_slot_read(engine, slot, centroids, weights, err));
}

static km_status finish(km_engine *base, km_finish_model *models, int64_t count, km_error *err) {
    IN_CONTEXT(finish_points(engine, models, count, err));
}

static km_status silhouette(km_engine *base, km_silhouette_model *models, int64_t count, km_error *err) {
    IN_CONTEXT(silhouette_points(engine, models, count, err));
}

// Of lloyd's passes only what ranks joined is counted.
static void counters(const km_engine *base, km_counters *out) {
    const km_cuda_engine *engine = (const km_cuda_engine *)base;
    const km_cuda_skipping *skipping = skipping_of(engine);
    out->exchanges = engine->counters.exchanges;
    out->exchanged_bytes = engine->counters.exchanged_bytes;
    if (!base->plan || base->plan->algorithm == KM_ALGORITHM_LLOYD) return;
    out->algorithm = KM_ALGORITHM_LLOYD;
    if (!skipping || km_cuda_enter(engine->device, NULL) != KM_OK) return;
    km_counters found = *out;
    if (skipping->counters(engine, &found, NULL) == KM_OK) *out = found;
    km_cuda_leave(engine->device);
}

static km_status device_open(km_device **out, int ordinal, const char *compiler, const km_log *log,
                             km_error *err) {
    km_status status = km_cuda_device_open(out, ordinal, 0, compiler, log, err);
    if (*out) (*out)->backend = &km_backend_cuda;
    return status;
}

static km_status compiler_open(km_device **out, int ordinal, const char *compiler, const km_log *log,
                               km_error *err) {
    km_status status = km_cuda_device_open(out, ordinal, 1, compiler, log, err);
    if (*out) (*out)->backend = &km_backend_cuda;
    return status;
}

static km_status compiler_recall(km_device **out, int ordinal, const char *compiler, const void *memo,
                                 int64_t size) {
    km_status status = km_cuda_compiler_recall(out, ordinal, compiler, memo, size);
    if (*out) (*out)->backend = &km_backend_cuda;
    return status;
}

const km_backend km_backend_cuda = {
    .name = "cuda",
    .device_count = km_cuda_device_count,
    .device_open = device_open,
    .compiler_open = compiler_open,
    .compiler_recall = compiler_recall,
    .compiler_memo = km_cuda_compiler_memo,
    .device_close = km_cuda_device_close,
    .compiler_name = km_cuda_compiler_name,
    .compiler_id = km_cuda_compiler_id,
    .compile = km_cuda_compile,
#if KM_WITH_ZLIB
    .prebuilt = km_cuda_prebuilt,
#endif
    .spills = km_cuda_spills,
    .read = km_cuda_read,
    .resident_open = km_cuda_resident_open,
    .resident_close = km_cuda_resident_close,
    .resident_read = km_cuda_resident_read,
    .kernels_load = km_cuda_kernels_load,
    .kernels_begin = km_cuda_kernels_begin,
    .kernels_complete = km_cuda_kernels_complete,
    .kernels_unload = km_cuda_kernels_unload,
    .engine_create = engine_create,
    .engine_destroy = engine_destroy,
    .engine_fetch = engine_fetch,
    .engine_equip = engine_equip,
    .load = load,
    .seed_plusplus = seed_plusplus,
    .rows = rows,
    .slot_start = slot_start,
    .run_passes = run_passes,
    .relocate = relocate,
    .slot_read = slot_read,
    .finish = finish,
    .silhouette = silhouette,
    .counters = counters,
};

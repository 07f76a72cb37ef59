// SPDX-License-Identifier: MIT
// The state of an engine's slots: records on the device with a mirror in the host's memory, and tables of centroids.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../../gen/design.h"
#include "cuda.h"
#include <stdlib.h>

enum { TABLES_BYTES_MAX = 16 << 20 }; // larger tables of centroids are read slot by slot
_Static_assert(sizeof(km_loop) <= KM_RECORDS_AT, "the records are behind the loop's control");

km_loop *km_cuda_loop(km_cuda_engine *engine) {
    return (km_loop *)engine->mirror;
}

km_slot_record *km_cuda_records(km_cuda_engine *engine) {
    return (km_slot_record *)((char *)engine->mirror + KM_RECORDS_AT);
}

static int64_t aligned(int64_t bytes) {
    return km_round_up(bytes, KM_ALIGN_BYTES);
}

// Offsets in `state`.
int64_t km_cuda_active_at(const km_cuda_engine *engine) {
    return KM_RECORDS_AT + aligned(engine->base.slots_count * (int64_t)sizeof(km_slot_record));
}

int64_t km_cuda_given_up_at(const km_cuda_engine *engine) {
    return km_cuda_active_at(engine) + aligned(engine->base.slots_count);
}

int64_t km_cuda_state_bytes(const km_cuda_engine *engine) {
    return km_cuda_given_up_at(engine) + aligned(engine->restarts * engine->clusters_sum);
}

// Where the device writes its report (km_update_args): behind the mirror, in the host's memory.
volatile uint64_t *km_cuda_report(km_cuda_engine *engine) {
    return (volatile uint64_t *)((char *)engine->mirror + km_cuda_state_bytes(engine));
}

unsigned char *km_cuda_given_up(km_cuda_engine *engine) {
    return (unsigned char *)engine->mirror + km_cuda_given_up_at(engine);
}

void km_cuda_set_phase(km_cuda_engine *engine, int64_t slot, km_slot_phase phase) {
    km_cuda_records(engine)[slot].state.phase = phase;
    ((unsigned char *)engine->mirror)[km_cuda_active_at(engine) + slot] =
        (unsigned char)km_slot_is_active(phase);
}

int64_t km_cuda_slot_k(const km_cuda_engine *engine, int64_t slot) {
    const km_spec *spec = &engine->base.plan->spec;
    return spec->clusters[slot % spec->clusters_count];
}

int64_t km_cuda_slot_row(const km_cuda_engine *engine, int64_t slot) {
    int64_t ks = engine->base.plan->spec.clusters_count;
    return slot / ks * engine->clusters_sum + engine->offsets[slot % ks];
}

int64_t km_cuda_label_bytes(const km_cuda_engine *engine) {
    const km_spec *spec = &engine->base.plan->spec;
    return spec->clusters[spec->clusters_count - 1] <= 256 ? 1 : 2;
}

int64_t km_cuda_update_parts(const km_cuda_engine *engine) {
    const km_spec *spec = &engine->base.plan->spec;
    return KM_UPDATE_PARTS(spec->clusters[spec->clusters_count - 1], spec->features);
}

km_status km_cuda_reserve_workspace(km_cuda_engine *engine, km_error *err) {
    const km_plan *plan = engine->base.plan;
    const km_pass_facts *facts = &engine->kernels->facts;
    km_memory memory;
    km_memory_of(&memory, plan);
    // In windows it has tiles of one.
    int64_t n = plan->window_points ? plan->window_points : engine->base.n;
    int64_t bytes = facts->workspace_bytes + facts->workspace_bytes_per_point * n +
                    facts->workspace_bytes_per_nonzero * engine->nonzeros;
    if (facts->launches_count == 0) // the plan's own pass is still being compiled: what it takes at most
        bytes = km_design_code_of(plan->design)->workspace_bytes(plan, n);
    return km_cuda_reserve_far(engine, &engine->workspace, km_max(bytes, 256), memory.workspace_near,
                               "the workspace of a pass", err);
}

// Everything but the workspace is zeroed.
km_status km_cuda_reserve_slots(km_cuda_engine *engine, km_error *err) {
    const km_plan *plan = engine->base.plan;
    int64_t d = engine->base.d, n = engine->base.n, slots = engine->base.slots_count;
    int64_t rows = engine->restarts * engine->clusters_sum;
    int64_t stride = km_divide_up(n, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
    struct {
        km_cuda_memory *memory;
        int64_t bytes;
        const char *what;
    } wanted[] = {
        {&engine->centroids, rows * d * engine->real_bytes, "the table of centroids"},
        {&engine->before, rows * d * engine->real_bytes, "the centroids of the last pass"},
        {&engine->totals, rows * (d + 1) * 8, "the sums of clusters"},
        {&engine->slot_weights, rows * 8, "the weights of clusters"},
        {&engine->part_sums, km_cuda_update_parts(engine) > 1 ? slots * km_cuda_update_parts(engine) * 32 : 0,
         "the update's sums"},
        {&engine->state, km_cuda_state_bytes(engine), "the slots"},
        {&engine->changes, plan->track_labels ? slots * 8 : 0, "the counts of changed labels"},
        {&engine->labels, plan->track_labels ? slots * stride * km_cuda_label_bytes(engine) : 0,
         "the labels of all slots"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (wanted[i].bytes == 0) continue;
        KM_TRY(wanted[i].memory == &engine->labels
                   ? km_cuda_reserve_far(engine, wanted[i].memory, wanted[i].bytes, 0, wanted[i].what, err)
                   : km_cuda_reserve(engine, wanted[i].memory, wanted[i].bytes, wanted[i].what, err));
        KM_TRY(km_cuda_clear(engine, wanted[i].memory->address, 0, wanted[i].bytes, err));
    }
    KM_TRY(km_cuda_reserve_workspace(engine, err));
    KM_TRY(km_cuda_windows_open(engine, err));
    // Steps get their memory now, so that none fails for lack of it once passes run. As scratch memory they use the
    // workspace, where it is large enough.
    km_cuda_steps steps = km_cuda_steps_of(plan, n);
    KM_TRY(km_cuda_reserve(engine, &engine->work, steps.work, "the steps between passes", err));
    if (steps.scratch > engine->workspace.bytes || plan->streams)
        KM_TRY(km_cuda_reserve(engine, &engine->scratch, steps.scratch, "the steps between passes", err));
    km_log_line(engine->log, KM_LOG_INFO, "memory: %.1f MiB of the device held, %.1f at most",
                (double)engine->bytes_held / 0x1p20, (double)engine->bytes_most / 0x1p20);
    int64_t tables_bytes = rows * (d * engine->real_bytes + 8);
    if (!engine->tables && tables_bytes <= TABLES_BYTES_MAX) {
        engine->tables = malloc((size_t)tables_bytes);
        if (!engine->tables) return km_fail_memory(err, "the table of centroids", tables_bytes);
    }
    return KM_OK;
}

km_status km_cuda_put_rows(km_cuda_engine *engine, const km_cuda_memory *table, int64_t first_row,
                           const double *rows, int64_t count, km_error *err) {
    int64_t d = engine->base.d, bytes = count * d * engine->real_bytes;
    km_cu_ptr to = table->address + (km_cu_ptr)(first_row * d * engine->real_bytes);
    if (engine->real_bytes == 8) return km_cuda_put(engine, to, rows, bytes, err);
    float *floats = malloc((size_t)bytes);
    if (!floats) return km_fail_memory(err, "centroids", bytes);
    for (int64_t i = 0; i < count * d; i++) floats[i] = (float)rows[i];
    km_status status = km_cuda_put(engine, to, floats, bytes, err);
    free(floats);
    return status;
}

km_status km_cuda_get_rows(km_cuda_engine *engine, double *rows, const km_cuda_memory *table,
                           int64_t first_row, int64_t count, km_error *err) {
    int64_t d = engine->base.d, bytes = count * d * engine->real_bytes;
    km_cu_ptr from = table->address + (km_cu_ptr)(first_row * d * engine->real_bytes);
    if (engine->real_bytes == 8) return km_cuda_get(engine, rows, from, bytes, err);
    float *floats = malloc((size_t)bytes);
    if (!floats) return km_fail_memory(err, "centroids", bytes);
    km_status status = km_cuda_get(engine, floats, from, bytes, err);
    for (int64_t i = 0; status == KM_OK && i < count * d; i++) rows[i] = (double)floats[i];
    free(floats);
    return status;
}

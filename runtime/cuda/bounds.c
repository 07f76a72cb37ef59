// SPDX-License-Identifier: MIT
// The algorithms hamerly and elkan: bounds of each point's distances from pass to pass, and the kernels that keep them
// (templates/cuda/bounds). A run's first pass is the dense design's, which leaves labels.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../../gen/cuda/bounds.h"
#include "cuda.h"
#include <math.h>
#include <stdlib.h>

enum { BLOCKS_PER_SM = 8, SCORE_WARPS_PER_SM = 24 };

struct km_cuda_bounding {
    km_cuda_memory kept;
    km_bounds_args args;
    int64_t k_max;
    int begins;          // some run's next pass is its first
    int goes;            // some run has had it
    int64_t iterations;  // of the run that has most, before the next pass
    int64_t rests_until; // passes are the dense design's until a run has had so many
};

// Where the planner chose: what bounds leave of lloyd's distances is counted when runs have had so many updates. Where
// that is more than this they rest until then; after the last time they are dropped.
static const double chosen_share = 0.4;
enum { CHECKS = 3 };
static const int64_t checked_after[CHECKS] = {1, 4, 12};

static void *host_pointer(km_cu_ptr address) {
    return (void *)(uintptr_t)address;
}

// Life ----------------------------------------------------------------------------------------------------------

static void destroy(km_cuda_engine *engine) {
    if (!engine->bounding) return;
    km_cuda_release(engine, &engine->bounding->kept);
    free(engine->bounding);
    engine->bounding = NULL;
    engine->dense_active = 0;
}

// The list of K, where their pairs lie, and what coordinates are multiplied by.
static km_status put_numbers(km_cuda_engine *engine, const km_bounds_tables *tables, km_error *err) {
    km_cu_ptr kept = engine->bounding->kept.address;
    const km_spec *spec = &engine->base.plan->spec;
    int64_t ks = spec->clusters_count, d = engine->base.d, bits = (int64_t)ceil(log2((double)engine->base.n));
    km_status status = KM_OK;
    int *numbers = malloc((size_t)(2 * ks) * sizeof *numbers);
    int64_t *pairs = malloc((size_t)(ks + 1) * sizeof *pairs);
    double *box = malloc((size_t)(3 * d) * sizeof *box), *scale = box + 2 * d;
    if (!numbers || !pairs || !box) {
        status = km_fail_memory(err, "the list of K", (2 * ks + 3 * d) * 8);
        goto done;
    }
    pairs[0] = 0;
    for (int64_t q = 0; q < ks; q++) {
        numbers[q] = spec->clusters[q];
        numbers[ks + q] = (int)engine->offsets[q];
        pairs[q + 1] = pairs[q] + spec->clusters[q] * BOUNDS_ROW((int64_t)spec->clusters[q]);
    }
    KM_TRY_GOTO(km_cuda_get(engine, box, engine->box.address, 2 * d * 8, err));
    for (int64_t f = 0; f < d; f++) {
        double most = fmax(fabs(box[f]), fabs(box[d + f]));
        scale[f] = ldexp(1, 60 - (int)bits - (most > 0 ? ilogb(most) : 0));
    }
    engine->bounding->args.rest = ldexp(1, 61 - (int)bits);
    double width = 0; // of the box, in halves 2^13 to 2^14; centroids may go a few times as far
    for (int64_t f = 0; f < d; f++) width = hypot(width, box[d + f] - box[f]);
    engine->bounding->args.lower_unit = (float)ldexp(1, width > 0x1p-80 ? 13 - ilogb(width) : 13);
    KM_TRY_GOTO(km_cuda_put(engine, kept + (km_cu_ptr)tables->at[KM_BOUNDS_KS], numbers, 2 * ks * 4, err));
    KM_TRY_GOTO(
        km_cuda_put(engine, kept + (km_cu_ptr)tables->at[KM_BOUNDS_PAIRS_AT], pairs, (ks + 1) * 8, err));
    KM_TRY_GOTO(km_cuda_put(engine, kept + (km_cu_ptr)tables->at[KM_BOUNDS_SCALE], scale, d * 8, err));
done:
    free(numbers);
    free(pairs);
    free(box);
    return status;
}

static km_status make(km_cuda_engine *engine, km_error *err) {
    struct km_cuda_bounding *bounding = engine->bounding;
    const km_plan *plan = engine->base.plan;
    km_bounds_tables tables = km_cuda_bounds_tables(plan, engine->base.n);
    km_cu_ptr at[KM_BOUNDS_TABLES];
    KM_TRY(km_cuda_reserve(engine, &bounding->kept, tables.kept, "the bounds of distances", err));
    for (int i = 0; i < KM_BOUNDS_TABLES; i++) at[i] = bounding->kept.address + (km_cu_ptr)tables.at[i];
    KM_TRY(
        km_cuda_clear(engine, at[KM_BOUNDS_CENTROIDS], 0, tables.kept - tables.at[KM_BOUNDS_CENTROIDS], err));
    bounding->k_max = plan->spec.clusters[plan->spec.clusters_count - 1];
    bounding->args = (km_bounds_args){
        .control = host_pointer(engine->state.address),
        .n = engine->base.n,
        .stride = km_round_up(engine->base.n, KM_ALIGN_BYTES),
        .points = host_pointer(engine->points.address),
        .centroids = host_pointer(engine->centroids.address),
        .active = host_pointer(engine->state.address + (km_cu_ptr)km_cuda_active_at(engine)),
        .records = host_pointer(engine->state.address + KM_RECORDS_AT),
        .dense = host_pointer(at[KM_BOUNDS_DENSE]),
        .ks = host_pointer(at[KM_BOUNDS_KS]),
        .offsets = (const int *)host_pointer(at[KM_BOUNDS_KS]) + plan->spec.clusters_count,
        .pairs_at = host_pointer(at[KM_BOUNDS_PAIRS_AT]),
        .ks_count = (int)plan->spec.clusters_count,
        .rows = (int)engine->clusters_sum,
        .slots_count = (int)engine->base.slots_count,
        .scale = host_pointer(at[KM_BOUNDS_SCALE]),
        .before = host_pointer(at[KM_BOUNDS_BEFORE]),
        .slots = host_pointer(at[KM_BOUNDS_SLOTS]),
        .table = host_pointer(at[KM_BOUNDS_CENTROIDS]),
        .pairs = host_pointer(at[KM_BOUNDS_PAIRS]),
        .candidates = host_pointer(at[KM_BOUNDS_CANDIDATES]),
        .labels = host_pointer(engine->labels.address),
        .upper = host_pointer(at[KM_BOUNDS_UPPER]),
        .slack = host_pointer(at[KM_BOUNDS_SLACK]),
        .lower = host_pointer(at[KM_BOUNDS_LOWER]),
        .list = host_pointer(at[KM_BOUNDS_LIST]),
        .sorted = host_pointer(at[KM_BOUNDS_SORTED]),
        .sorted_stride = tables.sorted,
        .tile_labels = host_pointer(at[KM_BOUNDS_TILE_LABELS]),
        .ambiguous = host_pointer(at[KM_BOUNDS_LIST]), // the list is in order when they are found
        .sums = host_pointer(at[KM_BOUNDS_SUMS]),
        .totals = host_pointer(engine->totals.address),
        .changes = host_pointer(engine->changes.address),
        .counts = host_pointer(at[KM_BOUNDS_COUNTS])};
    return put_numbers(engine, &tables, err);
}

const km_bounds_args *km_cuda_bounds_of(const km_cuda_engine *engine) {
    return engine->bounding ? &engine->bounding->args : NULL;
}

int km_cuda_bounds_keep_labels(const km_cuda_engine *engine) {
    return engine->bounding && engine->bounding->rests_until == 0 && engine->starter_passes == 0;
}

// Launches ------------------------------------------------------------------------------------------------------

static km_status launch(km_cuda_engine *engine, km_cu_function function, int64_t blocks, int64_t slots,
                        int64_t threads, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    void *arguments[] = {&engine->bounding->args};
    KM_CU(cuLaunchKernel(function, (unsigned)blocks, (unsigned)slots, 1, (unsigned)threads, 1, 1, 0,
                         engine->stream, arguments, NULL));
done:
    return status;
}

// A kernel that has something to do for each slot, a thread each.
static km_status launch_slots(km_cuda_engine *engine, km_cu_function function, km_error *err) {
    return launch(engine, function, 1, km_divide_up(engine->base.slots_count, BOUNDS_THREADS), BOUNDS_THREADS,
                  err);
}

static void drop(km_cuda_engine *engine, const char *why) {
    km_log_line(engine->log, KM_LOG_INFO, "%s: dropped, as %s: passes are lloyd's",
                km_algorithm_name(engine->base.plan->algorithm), why);
    destroy(engine);
    engine->skipping_dropped = engine->labels_idle = 1;
}

static int rests(const km_cuda_engine *engine) {
    return engine->bounding->iterations < engine->bounding->rests_until;
}

static int is_due(int64_t iterations) {
    for (int i = 0; i < CHECKS; i++)
        if (iterations == checked_after[i]) return 1;
    return 0;
}

// Whether they pay, by what they leave in this pass: counts, which are the same each time.
static km_status check_share(km_cuda_engine *engine, km_error *err) {
    const km_spec *spec = &engine->base.plan->spec;
    struct km_cuda_bounding *bounding = engine->bounding;
    int64_t slots_count = engine->base.slots_count, bytes = slots_count * (int64_t)sizeof(km_bounds_slot);
    if (!is_due(bounding->iterations) || engine->base.plan->algorithm_fixed) return KM_OK;
    km_bounds_slot *slots = malloc((size_t)bytes);
    if (!slots) return km_fail_memory(err, "the runs' counts", bytes);
    km_control control;
    km_status status = km_cuda_get(engine, slots, (km_cu_ptr)(uintptr_t)bounding->args.slots, bytes, err);
    if (status == KM_OK) status = km_cuda_get(engine, &control, engine->state.address, sizeof control, err);
    double left = 0, all = 0;
    for (int64_t slot = 0; slot < slots_count && status == KM_OK; slot++) {
        if (slots[slot].mode == BOUNDS_DENSE) continue;
        left += (double)slots[slot].compared;
        all += (double)engine->base.n * spec->clusters[slot % spec->clusters_count];
    }
    free(slots);
    KM_TRY(status);
    if (control.stop || all == 0) return KM_OK;
    km_log_line(engine->log, KM_LOG_INFO, "hamerly: after %lld updates %.2f %% of lloyd's distances are left",
                (long long)bounding->iterations, 100 * left / all);
    if (left <= chosen_share * all) return KM_OK;
    for (int i = CHECKS; i-- > 0 && checked_after[i] > bounding->iterations;)
        bounding->rests_until = checked_after[i];
    if (!rests(engine)) drop(engine, "bounds leave too many distances");
    return KM_OK;
}

// What a pass does with runs that have labels.
static km_status skip(km_cuda_engine *engine, km_error *err) {
    const km_cuda_kernels *kernels = engine->kernels;
    const int64_t slots = engine->base.slots_count, n = engine->base.n, d = engine->base.d,
                  k = engine->bounding->k_max, units = engine->device->base.facts.units,
                  squares = km_divide_up(k, BOUNDS_PAIRS), warps = BOUNDS_THREADS / 32,
                  blocks = km_min(units * BLOCKS_PER_SM, km_divide_up(n, BOUNDS_THREADS)),
                  score_warps = BOUNDS_SCORE_WARPS(d),
                  score_blocks = units * SCORE_WARPS_PER_SM / score_warps;
    KM_TRY(launch(engine, kernels->bounds_moves, km_divide_up(k, warps), slots, BOUNDS_THREADS, err));
    KM_TRY(launch(engine, kernels->bounds_pairs, squares * (squares + 1) / 2, slots, BOUNDS_THREADS, err));
    KM_TRY(launch(engine, kernels->bounds_rows, k, slots, BOUNDS_ROW_THREADS, err));
    KM_TRY(launch(engine, kernels->bounds_list, blocks, slots, BOUNDS_THREADS, err));
    KM_TRY(launch(engine, kernels->bounds_offsets, 1, slots, BOUNDS_OFFSETS_THREADS, err));
    KM_TRY(launch(engine, kernels->bounds_candidates, k, slots, BOUNDS_ROW_THREADS, err));
    KM_TRY(check_share(engine, err));
    if (!engine->bounding || rests(engine)) return KM_OK;
    KM_TRY(launch(engine, kernels->bounds_sort, blocks, slots, BOUNDS_THREADS, err));
    KM_TRY(launch(engine, kernels->bounds_score, score_blocks, slots, score_warps * 32, err));
    KM_TRY(launch(engine, kernels->bounds_resolve, blocks, slots, BOUNDS_THREADS, err));
    return launch(engine, kernels->bounds_totals, km_divide_up(k * (d + 1), BOUNDS_THREADS), slots,
                  BOUNDS_THREADS, err);
}

// The algorithm -------------------------------------------------------------------------------------------------

static km_status begin_first(km_cuda_engine *engine, km_error *err) {
    engine->bounding = calloc(1, sizeof *engine->bounding);
    if (!engine->bounding)
        return km_fail_memory(err, "bounds of distances", (int64_t)sizeof *engine->bounding);
    km_status status = make(engine, err);
    if (status != KM_ERROR_MEMORY) return status;
    if (err) err->text[0] = 0;
    drop(engine, "there is no room for bounds");
    return KM_OK;
}

static km_status begin(km_cuda_engine *engine, km_error *err) {
    const km_slot_record *records = km_cuda_records(engine);
    if (!engine->bounding) KM_TRY(begin_first(engine, err));
    struct km_cuda_bounding *bounding = engine->bounding;
    if (!bounding) return KM_OK;
    bounding->begins = bounding->goes = 0;
    bounding->iterations = 0;
    for (int64_t slot = 0; slot < engine->base.slots_count; slot++) {
        if (!km_slot_is_active(records[slot].state.phase)) continue;
        bounding->iterations = km_max(bounding->iterations, records[slot].state.iterations);
        if (records[slot].state.iterations == 0)
            bounding->begins = 1;
        else
            bounding->goes = 1;
    }
    engine->dense_active = engine->labels_idle = 0;
    if (rests(engine)) return KM_OK; // the dense design has all runs
    engine->dense_active = bounding->begins ? (km_cu_ptr)(uintptr_t)bounding->args.dense : 0;
    return bounding->begins ? launch_slots(engine, engine->kernels->bounds_dense, err) : KM_OK;
}

static int serves_all(const km_cuda_engine *engine) {
    return engine->bounding && !engine->bounding->begins && !rests(engine);
}

// A pass of all runs by the dense design, as bounds rest or were dropped. The last one of a rest leaves labels.
// `is_first`: the pass before was not.
static km_status dense_pass(km_cuda_engine *engine, int is_first, km_error *err) {
    struct km_cuda_bounding *bounding = engine->bounding;
    engine->dense_active = 0;
    engine->labels_idle = !bounding || bounding->iterations + 1 < bounding->rests_until;
    if (is_first) {
        KM_TRY(km_cuda_prepare(engine, err));
        KM_TRY(km_cuda_launch_stage(engine, KM_STAGE_BEGIN, err));
    }
    KM_TRY(km_cuda_launch_stage(engine, KM_STAGE_PASS, err));
    if (!bounding) return KM_OK;
    bounding->args.rests = 1;
    km_status status = launch_slots(engine, engine->kernels->bounds_end, err);
    bounding->args.rests = 0;
    return status;
}

static km_status skipping_pass(km_cuda_engine *engine, km_error *err) {
    struct km_cuda_bounding *bounding = engine->bounding;
    int rested = rests(engine);
    if (bounding->goes && !rested) KM_TRY(skip(engine, err));
    if (!engine->bounding || rests(engine)) return dense_pass(engine, !rested, err);
    engine->labels_idle = 0;
    if (bounding->begins) KM_TRY(km_cuda_launch_stage(engine, KM_STAGE_PASS, err));
    return launch_slots(engine, engine->kernels->bounds_end, err);
}

static km_status pass(km_cuda_engine *engine, km_error *err) {
    KM_TRY(skipping_pass(engine, err));
    struct km_cuda_bounding *bounding = engine->bounding;
    if (!bounding) return KM_OK;
    bounding->begins = 0;
    bounding->goes = 1;
    bounding->iterations++;
    return KM_OK;
}

static km_status counters(const km_cuda_engine *engine, km_counters *out, km_error *err) {
    const km_spec *spec = &engine->base.plan->spec;
    double n = (double)engine->base.n, distances = 0, lloyd = 0, skipped = 0;
    out->algorithm = KM_ALGORITHM_LLOYD;
    if (!engine->bounding) return KM_OK;
    int64_t bytes = engine->base.slots_count * BOUNDS_COUNTS * (int64_t)sizeof(uint64_t);
    uint64_t *counts = malloc((size_t)bytes);
    if (!counts) return km_fail_memory(err, "the counters", bytes);
    km_status status =
        km_cuda_get(engine, counts, (km_cu_ptr)(uintptr_t)engine->bounding->args.counts, bytes, err);
    uint64_t all[BOUNDS_COUNTS] = {0};
    for (int64_t slot = 0; slot < engine->base.slots_count && status == KM_OK; slot++) {
        const uint64_t *of = counts + slot * BOUNDS_COUNTS;
        double k = spec->clusters[slot % spec->clusters_count], passes = (double)of[BOUNDS_PASSES],
               skipping = (double)of[BOUNDS_SKIPPING];
        distances += passes * n * k + (double)of[BOUNDS_OWN] + (double)of[BOUNDS_COMPARED];
        lloyd += (passes + skipping) * n * k;
        skipped += skipping * n - (double)of[BOUNDS_OWN];
        for (int i = 0; i < BOUNDS_COUNTS; i++) all[i] += of[i];
    }
    free(counts);
    KM_TRY(status);
    km_log_line(
        engine->log, KM_LOG_INFO,
        "%s: %llu passes with bounds, of whose points %.2f %% had their own distance computed, of %.2f %% "
        "that left the label open, %.2f %% others, %.3f %% in double; %.2f %% changed it; distances %.3f %% "
        "of "
        "lloyd's",
        km_algorithm_name(engine->base.plan->algorithm), (unsigned long long)all[BOUNDS_SKIPPING],
        100 * (double)all[BOUNDS_OWN] / fmax(1, n * (double)all[BOUNDS_SKIPPING]),
        100 * (double)all[BOUNDS_LISTED] / fmax(1, n * (double)all[BOUNDS_SKIPPING]),
        100 * (double)all[BOUNDS_OPEN] / fmax(1, n * (double)all[BOUNDS_SKIPPING]),
        100 * (double)all[BOUNDS_RESOLVED] / fmax(1, n * (double)all[BOUNDS_SKIPPING]),
        100 * (double)all[BOUNDS_CHANGED] / fmax(1, n * (double)all[BOUNDS_SKIPPING]),
        100 * distances / fmax(1, lloyd));
    *out = (km_counters){.algorithm = engine->base.plan->algorithm,
                         .distances = (int64_t)distances,
                         .distances_lloyd = (int64_t)lloyd,
                         .points_skipped = (int64_t)skipped};
    return KM_OK;
}

const km_cuda_skipping km_cuda_bounding = {begin, serves_all, pass, counters, destroy};

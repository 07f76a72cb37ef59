// SPDX-License-Identifier: MIT
// The algorithm tiles: the points in their order, and passes that skip what boxes decide (templates/cuda/tiles).
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/order.h"
#include "../../base/size.h"
#include "cuda.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE = 2048, // points whose quantiles are taken
    PREPARED_BLOCKS_PER_SM = 8,
    SAMPLED_POINTS = 16,  // before all points are sorted one in so many is
    SAMPLED_GROUPS = 128, // of supertiles that are tested to find out whether tiles pay, about
    WARPS = TILES_THREADS / 32
};
static const double spread_max = 0x1p16; // of the largest coordinate over the standard deviation

struct km_cuda_tiling {
    km_cuda_memory kept, sorting; // the tables; what sorting needs
    km_tiles_args args;
    unsigned grid, supers_grid, totals_grid;
    unsigned sums_bytes, counts_bytes; // of shared memory
    double estimated; // the part of the distances of served K that a sample left; -1: none was taken
};

static void *host_pointer(km_cu_ptr address) {
    return (void *)(uintptr_t)address;
}

static km_cu_ptr device_pointer(const void *address) {
    return (km_cu_ptr)(uintptr_t)address;
}

// The tables ---------------------------------------------------------------------------------------------------

// For so many points: all, or a sample of them.
static km_status make_tables(km_cuda_engine *engine, int64_t n, km_error *err) {
    struct km_cuda_tiling *tiling = engine->tiling;
    const km_plan *plan = engine->base.plan;
    km_tiles_tables tables = km_cuda_tiles_tables(plan, n);
    km_cu_ptr at[KM_TILES_TABLES];
    KM_TRY(km_cuda_reserve(engine, &tiling->kept, tables.kept, "tiles of points", err));
    KM_TRY(km_cuda_reserve(engine, &tiling->sorting, tables.sorting, "sorting the points", err));
    for (int i = 0; i < KM_TILES_TABLES; i++) at[i] = tiling->kept.address + (km_cu_ptr)tables.at[i];
    KM_TRY(km_cuda_clear(engine, at[KM_TILES_SUMS], 0, tables.kept - tables.at[KM_TILES_SUMS], err));
    tiling->args =
        (km_tiles_args){.control = host_pointer(engine->state.address),
                        .n = n,
                        .tiles = tables.tiles,
                        .supers = tables.supers,
                        .points = host_pointer(at[KM_TILES_POINTS]),
                        .boxes = host_pointer(at[KM_TILES_BOXES]),
                        .super_boxes = host_pointer(at[KM_TILES_SUPER_BOXES]),
                        .prefix = host_pointer(at[KM_TILES_PREFIX]),
                        .scale = host_pointer(at[KM_TILES_SCALE]),
                        .centroids = host_pointer(engine->centroids.address),
                        .active = host_pointer(engine->state.address + (km_cu_ptr)km_cuda_active_at(engine)),
                        .dense = host_pointer(at[KM_TILES_DENSE]),
                        .ks = host_pointer(at[KM_TILES_KS]),
                        .offsets = (const int *)host_pointer(at[KM_TILES_KS]) + plan->spec.clusters_count,
                        .ks_count = (int)plan->spec.clusters_count,
                        .rows = (int)engine->clusters_sum,
                        .served = ~(uint64_t)0 >> (64 - plan->spec.clusters_count),
                        .sums = host_pointer(at[KM_TILES_SUMS]),
                        .totals = host_pointer(engine->totals.address),
                        .items_count = host_pointer(at[KM_TILES_COUNTERS]),
                        .items = host_pointer(at[KM_TILES_ITEMS]),
                        .listed = (int *)host_pointer(at[KM_TILES_COUNTERS]) + engine->restarts,
                        .list = host_pointer(at[KM_TILES_LIST]),
                        .open = host_pointer(at[KM_TILES_OPEN]),
                        .candidates = host_pointer(at[KM_TILES_CANDIDATES]),
                        .counts = host_pointer(at[KM_TILES_COUNTS])};
    tiling->estimated = -1;
    int *ks = malloc((size_t)(2 * plan->spec.clusters_count) * sizeof *ks);
    if (!ks) return km_fail_memory(err, "the list of K", 2 * plan->spec.clusters_count * 4);
    for (int64_t q = 0; q < plan->spec.clusters_count; q++) {
        ks[q] = plan->spec.clusters[q];
        ks[plan->spec.clusters_count + q] = (int)engine->offsets[q];
    }
    km_status status = km_cuda_put(engine, at[KM_TILES_KS], ks, 2 * plan->spec.clusters_count * 4, err);
    free(ks);
    return status;
}

// A block of each multiprocessor, of fewer where that is enough.
static void choose_grids(km_cuda_engine *engine) {
    struct km_cuda_tiling *tiling = engine->tiling;
    int64_t d = engine->base.d, units = engine->device->base.facts.units, ks = tiling->args.ks_count,
            sums = engine->clusters_sum * (d + 1) * 12;
    int64_t tasks =
        km_divide_up(tiling->args.supers, TILES_GROUP_SUPERS) * km_divide_up(ks, 32 / TILES_GROUP_SUPERS);
    tiling->sums_bytes = (unsigned)sums;
    tiling->counts_bytes = (unsigned)(sums + ks * TILES_COUNTS * 4);
    tiling->grid = (unsigned)units;
    tiling->supers_grid = (unsigned)km_min(units, km_divide_up(tasks, TILES_BOXES_THREADS(d) / 32));
    tiling->totals_grid = (unsigned)km_divide_up(engine->clusters_sum * (d + 1), TILES_THREADS);
}

// The order ----------------------------------------------------------------------------------------------------

// The code of points: quantiles of a sample, of the features with the widest spread. *fits: integer sums tell points
// apart in every feature, also where few lie far out.
static km_status make_code(km_tiles_code *code, double *scale, int *fits, km_cuda_engine *engine,
                           km_error *err) {
    int64_t d = engine->base.d, n = engine->base.n, count = km_min(SAMPLE, n);
    double box[2 * KM_CUDA_TILES_FEATURES_MAX], spread[KM_CUDA_TILES_FEATURES_MAX];
    int64_t coded = TILES_CODED(d), buckets = (int64_t)1 << TILES_CODE_BITS(d);
    KM_TRY(km_cuda_get(engine, box, engine->box.address, 2 * d * 8, err));
    int64_t *indices = malloc((size_t)count * sizeof *indices);
    double *rows = malloc((size_t)(count * d) * sizeof *rows),
           *column = malloc((size_t)count * sizeof *column);
    km_status status = KM_OK;
    if (!indices || !rows || !column) {
        status = km_fail_memory(err, "the quantiles of a sample", count * (d + 2) * 8);
        goto done;
    }
    for (int64_t i = 0; i < count; i++) indices[i] = (int64_t)((double)i / (double)count * (double)n);
    KM_TRY_GOTO(km_cuda_rows(engine, rows, indices, count, err));
    *code = (km_tiles_code){.order = {0}};
    *fits = 1;
    for (int64_t f = 0; f < d; f++) {
        double sum = 0, square = 0, most = fmax(fabs(box[f]), fabs(box[d + f]));
        for (int64_t i = 0; i < count; i++) sum += rows[i * d + f];
        for (int64_t i = 0; i < count; i++) square += pow(rows[i * d + f] - sum / (double)count, 2);
        spread[f] = sqrt(square / (double)count);
        if (spread[f] > 0 && most > spread_max * spread[f]) *fits = 0;
        scale[f] = ldexp(1, 60 - (int)ceil(log2((double)n)) - (most > 0 ? ilogb(most) : 0));
        int64_t at = km_min(f, coded);
        for (; at > 0 && spread[code->order[at - 1]] < spread[f]; at--)
            if (at < coded) code->order[at] = code->order[at - 1];
        if (at < coded) code->order[at] = (int)f;
    }
    for (int64_t c = 0; c < coded; c++) {
        for (int64_t i = 0; i < count; i++) column[i] = rows[i * d + code->order[c]];
        qsort(column, (size_t)count, sizeof *column, km_by_value);
        double low = column[count / 256], high = column[count - 1 - count / 256];
        double cells = high > low ? TILES_CELLS / (high - low) : 0;
        code->low[c] = (float)low;
        code->scale[c] = isfinite((float)cells) ? (float)cells : 0;
        for (int64_t cell = 0, below = 0; cell < TILES_CELLS; cell++) {
            double midpoint = code->scale[c] > 0 ? low + ((double)cell + 0.5) / cells : low;
            while (below < count && column[below] < midpoint) below++;
            code->buckets[c][cell] = (unsigned short)(buckets * below / (count + 1));
        }
    }
done:
    free(indices);
    free(rows);
    free(column);
    return status;
}

// One digit of all keys: counts, their sums, and the move.
static km_status sort_digit(km_cuda_engine *engine, const km_cu_ptr *at, km_cu_ptr *keys, km_cu_ptr *numbers,
                            int shift, km_error *err) {
    const km_cuda_kernels *kernels = engine->kernels;
    int64_t n = engine->tiling->args.n, blocks = km_divide_up(n, TILES_SORTED),
            counts = blocks << TILES_DIGIT_BITS, scanned = km_divide_up(counts, TILES_SCANNED);
    km_cu_ptr found = at[KM_SORT_COUNTS], sums = at[KM_SORT_SUMS];
    void *count[] = {&keys[0], &n, &shift, &found}, *scan_sums[] = {&found, &counts, &sums},
         *scan_blocks[] = {&sums, &scanned},
         *move[] = {&keys[0], &numbers[0], &n, &shift, &found, &keys[1], &numbers[1]};
    KM_TRY(km_cuda_launch(engine, kernels->tiles_count, blocks, 1, count, err));
    KM_TRY(km_cuda_launch(engine, kernels->tiles_scan_sums, scanned, 1, scan_sums, err));
    KM_TRY(km_cuda_launch(engine, kernels->tiles_scan_blocks, 1, 1, scan_blocks, err));
    KM_TRY(km_cuda_launch(engine, kernels->tiles_scan, scanned, 1, scan_sums, err));
    KM_TRY(km_cuda_launch(engine, kernels->tiles_move, blocks, 1, move, err));
    km_cu_ptr key = keys[0], number = numbers[0];
    keys[0] = keys[1];
    keys[1] = key;
    numbers[0] = numbers[1];
    numbers[1] = number;
    return KM_OK;
}

// Sorts and fills the tiles of one point in `step`.
static km_status sort_and_fill(km_cuda_engine *engine, const km_tiles_code *code, const double *scale,
                               int step, km_error *err) {
    struct km_cuda_tiling *tiling = engine->tiling;
    const km_cuda_kernels *kernels = engine->kernels;
    km_tiles_args tile = tiling->args;
    km_tiles_tables tables = km_cuda_tiles_tables(engine->base.plan, tile.n);
    km_cu_ptr at[KM_SORT_TABLES];
    for (int i = 0; i < KM_SORT_TABLES; i++) at[i] = tiling->sorting.address + (km_cu_ptr)tables.sort_at[i];
    km_cu_ptr keys[] = {at[KM_SORT_KEYS], at[KM_SORT_OTHER_KEYS]},
              numbers[] = {at[KM_SORT_NUMBERS], at[KM_SORT_OTHER_NUMBERS]};
    int64_t d = engine->base.d, blocks = engine->device->base.facts.units * PREPARED_BLOCKS_PER_SM,
            prefix_blocks = km_divide_up(tile.tiles, TILES_SCANNED);
    km_cu_ptr points = engine->points.address;
    KM_TRY(km_cuda_put(engine, at[KM_SORT_CODE], code, (int64_t)sizeof *code, err));
    KM_TRY(km_cuda_put(engine, device_pointer(tile.scale), scale, d * 8, err));
    void *key[] = {&points, &tile.n, &at[KM_SORT_CODE], &keys[0], &numbers[0], &step};
    KM_TRY(km_cuda_launch(engine, kernels->tiles_keys, blocks, 1, key, err));
    for (int shift = 0; shift < TILES_CODED(d) * TILES_CODE_BITS(d); shift += TILES_DIGIT_BITS)
        KM_TRY(sort_digit(engine, at, keys, numbers, shift, err));
    void *fill[] = {&points, &numbers[0], &tile.n, &tile.scale, &tile.points, &tile.boxes, &tile.prefix};
    void *supers[] = {&tile.tiles, &tile.boxes, &tile.super_boxes};
    void *prefix[] = {&tile.prefix, &tile.tiles, &at[KM_SORT_LAST]};
    KM_TRY(km_cuda_launch(engine, kernels->tiles_fill, tile.supers * TILES_OF_SUPER / WARPS, 1, fill, err));
    KM_TRY(
        km_cuda_launch(engine, kernels->tiles_fill_supers, km_divide_up(tile.supers, WARPS), 1, supers, err));
    KM_TRY(km_cuda_launch(engine, kernels->tiles_prefix, prefix_blocks, 1, prefix, err));
    KM_TRY(km_cuda_launch(engine, kernels->tiles_prefix_add, prefix_blocks, 1, prefix, err));
    return km_cuda_wait(engine, err);
}

// The boxes of one point in `step` span as much space as so many boxes of all points.
static km_status shrink(km_cuda_engine *engine, int step, km_error *err) {
    km_tiles_args *args = &engine->tiling->args;
    int64_t d = engine->base.d, tiles = args->supers * TILES_OF_SUPER * TILES_BOX(d),
            supers = km_round_up(args->supers, TILES_GROUP_SUPERS) * TILES_BOX(d);
    int of_super = TILES_OF_SUPER, of_group = TILES_GROUP_SUPERS;
    float factor = (float)pow(step, -1. / (double)d);
    void *boxes[] = {&args->boxes, &tiles, &of_super, &factor},
         *super_boxes[] = {&args->super_boxes, &supers, &of_group, &factor};
    km_cu_function function = engine->kernels->tiles_shrink;
    KM_TRY(km_cuda_launch(engine, function, km_divide_up(tiles, TILES_THREADS), 1, boxes, err));
    return km_cuda_launch(engine, function, km_divide_up(supers, TILES_THREADS), 1, super_boxes, err);
}

// Life and launches ---------------------------------------------------------------------------------------------

static km_status launch(km_cuda_engine *engine, km_cu_function function, unsigned grid, unsigned threads,
                        unsigned shared_bytes, km_error *err) {
    km_status status = KM_OK;
    const km_driver *driver = engine->driver;
    void *arguments[] = {&engine->tiling->args};
    KM_CU(cuLaunchKernel(function, grid, (unsigned)engine->restarts, 1, threads, 1, 1, shared_bytes,
                         engine->stream, arguments, NULL));
done:
    return status;
}

static km_status launch_boxes(km_cuda_engine *engine, km_error *err) {
    const km_cuda_kernels *kernels = engine->kernels;
    const struct km_cuda_tiling *tiling = engine->tiling;
    unsigned threads = (unsigned)TILES_BOXES_THREADS(engine->base.d);
    KM_TRY(
        launch(engine, kernels->tiles_super_boxes, tiling->supers_grid, threads, tiling->counts_bytes, err));
    return launch(engine, kernels->tiles_boxes, tiling->grid, threads, tiling->counts_bytes, err);
}

static km_status launch_dense(km_cuda_engine *engine, km_error *err) {
    return launch(engine, engine->kernels->tiles_dense, 1, TILES_THREADS, 0, err);
}

// What was counted, of all slots: to be freed.
static km_status get_counts(uint64_t **out, const km_cuda_engine *engine, km_error *err) {
    int64_t bytes = engine->base.slots_count * TILES_COUNTS * (int64_t)sizeof **out;
    *out = malloc((size_t)bytes);
    if (!*out) return km_fail_memory(err, "the counters", bytes);
    return km_cuda_get(engine, *out, device_pointer(engine->tiling->args.counts), bytes, err);
}

// Boxes and points that were compared with a centroid.
static double distances_of(const uint64_t *counts, int64_t k) {
    return (double)counts[TILES_TESTED] * (double)k +
           (double)counts[TILES_SUPER_CANDIDATES] * TILES_OF_SUPER +
           (double)counts[TILES_TILE_CANDIDATES] * TILES_POINTS;
}

// Points of the passes that tested these supertiles.
static double points_of(const struct km_cuda_tiling *tiling, const uint64_t *counts) {
    return (double)counts[TILES_TESTED] / (double)tiling->args.supers * (double)tiling->args.n;
}

// Whether it pays ------------------------------------------------------------------------------------------------

// Tests a sample of the boxes with the runs' first centroids, and takes the counts of each slot. Nothing else is left
// of it.
static km_status sample(uint64_t **counts, km_cuda_engine *engine, km_error *err) {
    km_tiles_args *args = &engine->tiling->args;
    int64_t groups = km_divide_up(args->supers, TILES_GROUP_SUPERS);
    args->sampled = (int)km_max(1, groups / SAMPLED_GROUPS);
    km_status status = launch_boxes(engine, err);
    args->sampled = 0;
    KM_TRY(status);
    KM_TRY(get_counts(counts, engine, err));
    KM_TRY(km_cuda_clear(engine, device_pointer(args->items_count), 0, engine->restarts * 4, err));
    return km_cuda_clear(engine, device_pointer(args->counts), 0, engine->base.slots_count * TILES_COUNTS * 8,
                         err);
}

static void say_served(const km_cuda_engine *engine, const char *sampled, double part) {
    const struct km_cuda_tiling *tiling = engine->tiling;
    const km_spec *spec = &engine->base.plan->spec;
    char list[6 * KM_CUDA_TILES_CLUSTERS_MAX] = "";
    int64_t at = 0;
    for (int64_t q = 0; q < spec->clusters_count; q++)
        if (!(tiling->args.served >> q & 1))
            at += snprintf(list + at, sizeof list - (size_t)at, "%s%d",
                           at ? ", " : "; lloyd keeps K = ", spec->clusters[q]);
    km_log_line(engine->log, KM_LOG_INFO,
                "tiles: a sample of the %s leaves %.2f %% of lloyd's distances, for %.2f of its time%s",
                sampled, 100 * tiling->estimated, part, tiling->args.served ? list : "");
}

// Chooses the K that tiles serve by a sample of the boxes. It counts, and takes no times: the choice is the same each
// time.
static km_status choose_served(km_cuda_engine *engine, const char *sampled, km_error *err) {
    struct km_cuda_tiling *tiling = engine->tiling;
    const km_plan *plan = engine->base.plan;
    const km_spec *spec = &plan->spec;
    km_tiles_work work[KM_CUDA_TILES_CLUSTERS_MAX];
    const int64_t supers = km_divide_up(engine->base.n, TILES_POINTS * TILES_OF_SUPER);
    double part, distances = 0, lloyd = 0;
    uint64_t *counts = NULL;
    km_status status = KM_OK;
    KM_TRY_GOTO(sample(&counts, engine, err));
    for (int64_t q = 0; q < spec->clusters_count; q++) {
        uint64_t sum[TILES_COUNTS] = {0}; // of the restarts that pass together
        for (int64_t slot = q; slot < engine->base.slots_count; slot += spec->clusters_count)
            for (int i = 0; i < TILES_COUNTS; i++) sum[i] += counts[slot * TILES_COUNTS + i];
        double whole = (double)supers / fmax((double)sum[TILES_TESTED], 1);
        work[q] = (km_tiles_work){.tested = whole * (double)sum[TILES_TESTED],
                                  .super_candidates = whole * (double)sum[TILES_SUPER_CANDIDATES],
                                  .open_tiles = whole * (double)sum[TILES_OPEN_TILES],
                                  .tile_candidates = whole * (double)sum[TILES_TILE_CANDIDATES]};
        distances += distances_of(sum, spec->clusters[q]);
        lloyd += points_of(tiling, sum) * (double)spec->clusters[q];
    }
    tiling->estimated = lloyd > 0 ? distances / lloyd : 0;
    tiling->args.served = km_cuda_tiles_serve(&part, plan, engine->base.n, work);
    say_served(engine, sampled, part);
done:
    free(counts);
    return status;
}

// Begins ---------------------------------------------------------------------------------------------------------

static void destroy(km_cuda_engine *engine) {
    if (!engine->tiling) return;
    km_cuda_release(engine, &engine->tiling->kept);
    km_cuda_release(engine, &engine->tiling->sorting);
    free(engine->tiling);
    engine->tiling = NULL;
    engine->dense_active = 0;
}

static void drop(km_cuda_engine *engine, const char *why) {
    km_log_line(engine->log, KM_LOG_INFO, "tiles: dropped, as %s: passes are lloyd's", why);
    destroy(engine);
    engine->skipping_dropped = 1;
}

static km_status make(km_cuda_engine *engine, const km_tiles_code *code, const double *scale, int step,
                      km_error *err) {
    int64_t n = engine->base.n;
    KM_TRY(make_tables(engine, step > 1 ? n / (32 * step) * 32 : n, err));
    KM_TRY(sort_and_fill(engine, code, scale, step, err));
    choose_grids(engine);
    return step > 1 ? shrink(engine, step, err) : KM_OK;
}

// A sample of the points says whether all are sorted, and their tiles which K they serve. What is asked for is not
// sampled.
static km_status begin_with(km_cuda_engine *engine, km_tiles_code *code, km_error *err) {
    struct km_cuda_tiling *tiling = engine->tiling;
    double scale[KM_CUDA_TILES_FEATURES_MAX], begin_ms = km_now_ms();
    int fits, is_fixed = engine->base.plan->algorithm_fixed;
    KM_TRY(make_code(code, scale, &fits, engine, err));
    if (!fits) {
        drop(engine, "few points lie far out");
        return KM_OK;
    }
    if (!is_fixed) {
        KM_TRY(make(engine, code, scale, SAMPLED_POINTS, err));
        KM_TRY(choose_served(engine, "points", err));
    }
    if (is_fixed || tiling->args.served) {
        KM_TRY(make(engine, code, scale, 1, err));
        km_cuda_release(engine, &tiling->sorting);
        km_log_line(engine->log, KM_LOG_INFO, "tiles: points sorted in %.1f ms", km_now_ms() - begin_ms);
        if (!is_fixed) KM_TRY(choose_served(engine, "tiles", err));
    }
    if (!tiling->args.served)
        drop(engine, "they pay for no K");
    else if (~tiling->args.served << (64 - tiling->args.ks_count))
        engine->dense_active = device_pointer(tiling->args.dense);
    return KM_OK;
}

static km_status begin_first(km_cuda_engine *engine, km_error *err) {
    engine->tiling = calloc(1, sizeof *engine->tiling);
    if (!engine->tiling) return km_fail_memory(err, "the algorithm tiles", (int64_t)sizeof *engine->tiling);
    km_tiles_code *code = malloc(sizeof *code);
    if (!code) return km_fail_memory(err, "the order of the points", (int64_t)sizeof *code);
    km_status status = begin_with(engine, code, err);
    free(code);
    if (status != KM_ERROR_MEMORY) return status;
    if (err) err->text[0] = 0;
    drop(engine, "there is no room for them");
    return KM_OK;
}

static int serves_all(const km_cuda_engine *engine) {
    return engine->tiling && !engine->dense_active;
}

static km_status begin(km_cuda_engine *engine, km_error *err) {
    if (!engine->tiling) KM_TRY(begin_first(engine, err));
    return engine->dense_active ? launch_dense(engine, err) : KM_OK;
}

// A pass ---------------------------------------------------------------------------------------------------------

static km_status pass(km_cuda_engine *engine, km_error *err) {
    const km_cuda_kernels *kernels = engine->kernels;
    const struct km_cuda_tiling *tiling = engine->tiling;
    if (engine->dense_active) {
        KM_TRY(launch_dense(engine, err));
        KM_TRY(km_cuda_launch_stage(engine, KM_STAGE_PASS, err));
    }
    KM_TRY(launch_boxes(engine, err));
    KM_TRY(launch(engine, kernels->tiles_points, tiling->grid, (unsigned)TILES_POINTS_THREADS(engine->base.d),
                  tiling->sums_bytes, err));
    return launch(engine, kernels->tiles_totals, tiling->totals_grid, TILES_THREADS, 0, err);
}

static km_status counters(const km_cuda_engine *engine, km_counters *out, km_error *err) {
    const struct km_cuda_tiling *tiling = engine->tiling;
    const km_spec *spec = &engine->base.plan->spec;
    double distances = 0, lloyd = 0, skipped = 0, dense = 0;
    uint64_t *counts = NULL;
    out->algorithm = KM_ALGORITHM_LLOYD;
    if (!tiling) return KM_OK;
    km_status status = get_counts(&counts, engine, err);
    for (int64_t slot = 0; slot < engine->base.slots_count && status == KM_OK; slot++) {
        const uint64_t *of = counts + slot * TILES_COUNTS;
        double k = spec->clusters[slot % spec->clusters_count], points = points_of(tiling, of);
        distances += distances_of(of, spec->clusters[slot % spec->clusters_count]);
        lloyd += points * k;
        skipped += fmax(0, points - (double)of[TILES_OPEN_TILES] * TILES_POINTS);
        dense += (double)of[TILES_DENSE] * (double)engine->base.n * k;
    }
    free(counts);
    KM_TRY(status);
    if (tiling->estimated >= 0 && lloyd > 0)
        km_log_line(engine->log, KM_LOG_INFO,
                    "tiles: passes had %.2f %% of lloyd's distances, the sample %.2f %%",
                    100 * distances / lloyd, 100 * tiling->estimated);
    *out = (km_counters){.algorithm = KM_ALGORITHM_TILES,
                         .distances = (int64_t)(distances + dense),
                         .distances_lloyd = (int64_t)(lloyd + dense),
                         .points_skipped = (int64_t)skipped};
    return KM_OK;
}

const km_cuda_skipping km_cuda_tiling = {begin, serves_all, pass, counters, destroy};

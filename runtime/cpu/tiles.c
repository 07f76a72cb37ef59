// SPDX-License-Identifier: MIT
// The algorithm tiles: its life, and whether it pays. Sorting the points is in tiles_sort.c, their tiles in
// tiles_fill.c, the pass itself in templates/cpu/tiles.
#include "tiles.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../module_state.h"
#include "cpu.h"
#include "tiles_fill.h"
#include "../threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROBE_STEP = 8,        // one box group of supertiles in so many is probed
    SAMPLE_STEP = 16,      // before that, tiles of one SoA group in so many
    SAMPLE_POINTS = 16384, // which are at least so many ...
    SAMPLE_FEATURES = 5    // ... from so many features on, where tiles are likely not to pay
};

// Costs, in distances of lloyd's: of a box and a centroid, of a point and a centroid, of a point of a tile that is
// split. Fitted to the times of docs/algorithms.md.
static const double box_pair_cost = 4, point_pair_cost = 1.5, split_point_cost = 3;
// Tiles stay as long as their work is less than this part of lloyd's.
static const double pays_below = 0.7;
static const double sample_pays_below = 1;

typedef struct thread_state {
    cpu_tiles_scratch scratch;
    int64_t box_pairs, point_pairs, points_split;
    void *memory;
} thread_state;

typedef struct cpu_tiling {
    cpu_tiles tiles;
    cpu_tiles_kernels kernels;
    thread_state *threads;
    int64_t threads_count;
    cpu_sorter sort; // until all tiles are filled
    cpu_tile_source source;
    int32_t is_probed; // and all tiles are filled
} cpu_tiling;

// Life --------------------------------------------------------------------------------------------------------

static km_status scratch_alloc(thread_state *thread, int64_t k, int64_t d, int64_t real_bytes,
                               km_error *err) {
    int64_t rows = k * KM_CPU_PITCH(d) * (int64_t)sizeof(double), owners = k * (int64_t)sizeof(uint64_t);
    int64_t scores = k * BOXES * real_bytes, margins = k * real_bytes,
            columns = (d + 1) * TILES_PICKED_MAX * real_bytes;
    int64_t lists = k * (int64_t)sizeof(int32_t), candidates = k * (int64_t)sizeof(uint16_t);
    int64_t bytes = rows + owners + scores + margins + columns + 3 * lists + 2 * candidates;
    uint8_t *memory = thread->memory = calloc(1, (size_t)bytes);
    if (!memory) return km_fail_memory(err, "the lists of the algorithm tiles", bytes);
    cpu_tiles_scratch *s = &thread->scratch;
    s->rows = (double *)(void *)memory;
    s->owners = (uint64_t *)(void *)(memory += rows);
    s->scores = memory += owners;
    s->margins = memory += scores;
    s->columns = memory += margins;
    s->super_list = (int32_t *)(void *)(memory += columns);
    s->tile_list = s->super_list + k;
    s->list = s->tile_list + k;
    s->super_candidates = (uint16_t *)(s->list + k);
    s->tile_candidates = s->super_candidates + k;
    return KM_OK;
}

static km_status source_make(cpu_tile_source *source, const cpu_engine *engine, const km_data *data,
                             const km_load_params *params, km_error *err) {
    int64_t d = engine->base.d;
    double *columns = malloc((size_t)(2 * d) * sizeof *columns);
    if (!columns) return km_fail_memory(err, "centre and factor", 2 * d * 8);
    memcpy(columns, params->centre, (size_t)d * sizeof *columns);
    memcpy(columns + d, params->factor, (size_t)d * sizeof *columns);
    *source = (cpu_tile_source){.rows32 = (const float *)km_data_base(data, KM_FLOAT32),
                                .rows64 = (const double *)km_data_base(data, KM_FLOAT64),
                                .soa_points = engine->soa_points,
                                .centre = columns,
                                .factor = columns + d,
                                .weights = engine->weights};
    if (!source->rows32 && !source->rows64) source->soa_groups = engine->points;
    return KM_OK;
}

km_status km_cpu_tiling_create(cpu_engine *engine, const km_data *data, const km_load_params *params,
                               km_error *err) {
    const km_plan *plan = engine->base.plan;
    if (engine->base.n > UINT32_MAX) {
        if (plan->algorithm_fixed)
            return km_fail(err, KM_ERROR_PLAN,
                           "the algorithm tiles takes at most %lld points; take lloyd or auto",
                           (long long)UINT32_MAX);
        engine->counters.algorithm = KM_ALGORITHM_LLOYD;
        return KM_OK;
    }
    cpu_tiling *tiling = engine->tiling = calloc(1, sizeof *tiling);
    if (!tiling) return km_fail_memory(err, "the algorithm tiles", (int64_t)sizeof *tiling);
    tiling->kernels = *km_cpu_tiles_kernels(plan);
    tiling->threads_count = engine->threads;
    tiling->threads = calloc((size_t)engine->threads, sizeof *tiling->threads);
    if (!tiling->threads) return km_fail_memory(err, "the algorithm tiles", engine->threads);
    int64_t k = plan->spec.clusters[plan->spec.clusters_count - 1];
    for (int64_t t = 0; t < engine->threads; t++)
        KM_TRY(scratch_alloc(&tiling->threads[t], k, engine->base.d, engine->real_bytes, err));
    return source_make(&tiling->source, engine, data, params, err);
}

void km_cpu_tiling_destroy(cpu_engine *engine) {
    cpu_tiling *tiling = engine->tiling;
    if (!tiling) return;
    for (int64_t t = 0; tiling->threads && t < tiling->threads_count; t++) free(tiling->threads[t].memory);
    free(tiling->threads);
    km_cpu_sorter_free(&tiling->sort);
    free(tiling->source.centre);
    km_cpu_tiles_free(&tiling->tiles);
    free(tiling);
    engine->tiling = NULL;
}

// The pass ----------------------------------------------------------------------------------------------------

void km_cpu_tiling_chunk(cpu_engine *engine, int64_t first, int64_t points, km_cpu_slot *list,
                         int64_t count) {
    cpu_tiling *tiling = engine->tiling;
    thread_state *thread = &tiling->threads[omp_get_thread_num()];
    for (int64_t s = 0; s < count; s++) {
        km_cpu_slot *slot = &list[s];
        uint8_t *labels = engine->wants_labels ? (uint8_t *)slot->labels - first * slot->labels_bytes : NULL;
        cpu_tiles_work work = {.tiles = &tiling->tiles,
                               .first_super = first / SUPER_POINTS,
                               .supers_count = (points + SUPER_POINTS - 1) / SUPER_POINTS,
                               .k = slot->k,
                               .table = slot->table,
                               .sums = slot->sums,
                               .labels = labels,
                               .labels_bytes = slot->labels_bytes,
                               .first_pass = slot->mode == KM_CPU_FIRST,
                               .scratch = &thread->scratch};
        tiling->kernels.pass(&work);
        // Sums stop changing, to the last bit, when labels do. So changes need not be counted unless the sweep asks.
        slot->changed = labels ? work.changed : points;
        thread->box_pairs += work.box_pairs;
        thread->point_pairs += work.point_pairs;
        thread->points_split += work.points_split;
    }
}

// Whether it pays ---------------------------------------------------------------------------------------------

static double work_of(const thread_state *sum) {
    return box_pair_cost * (double)sum->box_pairs + point_pair_cost * (double)sum->point_pairs +
           split_point_cost * (double)sum->points_split;
}

// Counts of all threads, which are set to zero.
static thread_state take_counts(cpu_tiling *tiling) {
    thread_state sum = {.box_pairs = 0};
    for (int64_t t = 0; t < tiling->threads_count; t++) {
        thread_state *thread = &tiling->threads[t];
        sum.box_pairs += thread->box_pairs;
        sum.point_pairs += thread->point_pairs;
        sum.points_split += thread->points_split;
        thread->box_pairs = thread->point_pairs = thread->points_split = 0;
    }
    return sum;
}

// Clusters and runs that are active.
static void active_counts(const cpu_engine *engine, int64_t *clusters, int64_t *runs) {
    *clusters = *runs = 0;
    for (int64_t s = 0; s < engine->base.slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (!km_slot_is_active(slot->state.phase)) continue;
        *clusters += slot->k;
        ++*runs;
    }
}

static void drop(cpu_engine *engine, double part) {
    km_log_line(engine->log, KM_LOG_INFO,
                "tiles: dropped, their work is %.2f of lloyd's, and pays below %.2f", part, pays_below);
    km_cpu_tiling_destroy(engine);
    engine->counters.algorithm = KM_ALGORITHM_LLOYD;
    for (int64_t s = 0; s < engine->base.slots_count; s++) engine->slots[s].mode = KM_CPU_FIRST;
}

void km_cpu_tiling_collect(cpu_engine *engine) {
    thread_state sum = take_counts(engine->tiling);
    int64_t clusters, runs;
    active_counts(engine, &clusters, &runs);
    engine->counters.distances += sum.box_pairs + sum.point_pairs;
    engine->counters.points_skipped += runs * engine->base.n - sum.points_split;
    double part = work_of(&sum) / ((double)clusters * (double)engine->base.n);
    // Where changes are counted, the labels of the pass before are in the tiles' order, which lloyd cannot use.
    if (part > pays_below && !engine->base.plan->algorithm_fixed && !engine->wants_labels) drop(engine, part);
}

// The part of lloyd's work that tiles leave with the runs' centroids, by one box group of supertiles in `step`.
static km_status probe(double *part, cpu_engine *engine, const cpu_tiles *tiles, int64_t step,
                       km_error *err) {
    cpu_tiling *tiling = engine->tiling;
    double *sums = calloc((size_t)(engine->sums_count + 1), sizeof *sums), lloyd = 0;
    if (!sums) return km_fail_memory(err, "partial sums", engine->sums_count * 8);
    thread_state *thread = &tiling->threads[0];
    for (int64_t first = 0; first < tiles->supers_count; first += step * BOXES)
        for (int64_t s = 0; s < engine->base.slots_count; s++) {
            const cpu_slot *slot = &engine->slots[s];
            if (slot->state.phase != KM_SLOT_RUNNING) continue;
            cpu_tiles_work work = {.tiles = tiles,
                                   .first_super = first,
                                   .supers_count = km_min(BOXES, tiles->supers_count - first),
                                   .k = slot->k,
                                   .table = slot->table,
                                   .sums = sums,
                                   .scratch = &thread->scratch};
            tiling->kernels.pass(&work);
            thread->box_pairs += work.box_pairs;
            thread->point_pairs += work.point_pairs;
            thread->points_split += work.points_split;
            lloyd += (double)(work.supers_count * SUPER_POINTS * slot->k);
        }
    free(sums);
    thread_state sum = take_counts(tiling);
    engine->counters.distances += sum.box_pairs + sum.point_pairs;
    *part = lloyd > 0 ? work_of(&sum) / lloyd : 0;
    return KM_OK;
}

// Some SoA groups of the points, as an engine of their own, whose `points` are to be freed.
static km_status sample_take(cpu_engine *sample, const cpu_engine *engine, km_error *err) {
    int64_t bytes = engine->soa_points * engine->base.d * engine->real_bytes;
    int64_t soa_groups = engine->base.n / engine->soa_points / SAMPLE_STEP;
    *sample = *engine;
    sample->base.n = sample->base.n_all = soa_groups * engine->soa_points;
    sample->chunks_count = (sample->base.n + KM_CHUNK_POINTS - 1) / KM_CHUNK_POINTS;
    sample->weights = NULL;
    sample->points = km_pages_alloc(soa_groups * bytes);
    if (!sample->points) return km_fail_memory(err, "a sample of the points", soa_groups * bytes);
    for (int64_t g = 0; g < soa_groups; g++)
        memcpy(sample->points + g * bytes, engine->points + g * SAMPLE_STEP * bytes, (size_t)bytes);
    return KM_OK;
}

// The part of lloyd's work that tiles of a sample of the points leave. Tiles of all points would leave less, as boxes
// of more points are smaller.
static km_status sample_probe(double *part, cpu_engine *engine, km_error *err) {
    cpu_tiling *tiling = engine->tiling;
    cpu_engine sample;
    cpu_sorter sort = {.bits = 0};
    cpu_tiles tiles = {.n = 0};
    km_status status = KM_OK;
    KM_TRY_GOTO(sample_take(&sample, engine, err));
    cpu_tile_source source = {.soa_groups = sample.points, .soa_points = sample.soa_points};
    KM_TRY_GOTO(km_cpu_sorter_run(&sort, &sample, &tiling->kernels, NULL, 0, err));
    KM_TRY_GOTO(km_cpu_tiles_alloc(&tiles, &sample, err));
    KM_TRY_GOTO(km_cpu_tiles_fill(&tiles, &sample, &tiling->kernels, &source, sort.keys, 1, 0, err));
    status = probe(part, engine, &tiles, 1, err);
done:
    km_cpu_tiles_free(&tiles);
    km_cpu_sorter_free(&sort);
    km_pages_free(sample.points);
    return status;
}

// Fills the box groups of supertiles whose number is a multiple of `step`, or (the rest) is none.
static km_status fill(cpu_engine *engine, int64_t step, int rest, km_error *err) {
    cpu_tiling *tiling = engine->tiling;
    return km_cpu_tiles_fill(&tiling->tiles, engine, &tiling->kernels, &tiling->source, tiling->sort.keys,
                             step, rest, err);
}

static km_status sort_all(cpu_engine *engine, km_error *err) {
    cpu_tiling *tiling = engine->tiling;
    KM_TRY(km_cpu_tiles_alloc(&tiling->tiles, engine, err));
    const float *rows = engine->weights ? NULL : tiling->source.rows32;
    KM_TRY(km_cpu_sorter_run(&tiling->sort, engine, &tiling->kernels, rows, 0, err));
    if (tiling->sort.carried) tiling->source.rows32 = tiling->sort.carried;
    return KM_OK;
}

// Where tiles are likely not to pay, a sample is probed first: sorting all points would be a tenth of a short fit.
static int is_sampled(const cpu_engine *engine) {
    return engine->base.d >= SAMPLE_FEATURES && engine->base.n >= SAMPLE_STEP * SAMPLE_POINTS;
}

static km_status probe_then_fill(cpu_engine *engine, km_error *err) {
    double part = 0;
    if (is_sampled(engine)) {
        KM_TRY(sample_probe(&part, engine, err));
        km_log_line(engine->log, KM_LOG_DEBUG,
                    "tiles: those of a sample of points leave %.2f of lloyd's work", part);
        if (part > sample_pays_below) {
            drop(engine, part);
            return KM_OK;
        }
    }
    KM_TRY(sort_all(engine, err));
    KM_TRY(fill(engine, PROBE_STEP, 0, err));
    KM_TRY(probe(&part, engine, &engine->tiling->tiles, PROBE_STEP, err));
    km_log_line(engine->log, KM_LOG_DEBUG, "tiles: a sample leaves %.2f of lloyd's work", part);
    if (part > pays_below) {
        drop(engine, part);
        return KM_OK;
    }
    return fill(engine, PROBE_STEP, 1, err);
}

km_status km_cpu_tiling_probe(cpu_engine *engine, km_error *err) {
    if (engine->tiling->is_probed) return KM_OK;
    if (engine->base.plan->algorithm_fixed) {
        KM_TRY(sort_all(engine, err));
        KM_TRY(fill(engine, 1, 0, err));
    } else {
        KM_TRY(probe_then_fill(engine, err));
    }
    if (!engine->tiling) return KM_OK; // dropped, as they do not pay
    engine->tiling->is_probed = 1;
    km_cpu_sorter_free(&engine->tiling->sort);
    return KM_OK;
}

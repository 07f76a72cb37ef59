// SPDX-License-Identifier: MIT
// The algorithms hamerly and elkan: their memory, and what all points share in a pass. What bounds mean is in bounds.h,
// the pass itself in templates/cpu/bounds.
#include "bounds.h"
#include "../../base/error.h"
#include "../../base/size.h"
#include "cpu.h"
#include "../threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_PER_K = 10,                   // floats of a centroid in cpu_bounds_tables, but for halves
    CHOSEN_CLUSTERS = 128,             // where the planner chose: runs of so many clusters have bounds ...
    CHOSEN_UPDATES = 12,               // ... after so many updates
    RADIUS_PASSES = 4,                 // every so many passes the radius is taken from all points
    GAPS_TOGETHER = 16,                // centroids whose gaps a thread computes at a time ...
    GAPS_THREADS_MIN = 4 * 1024 * 1024 // ... by several threads from so many products on
};

// Where the planner chose: bounds that leave more of lloyd's distances than this are dropped (docs/history).
static const double chosen_share = 0.5;

typedef struct slot_bounds {
    cpu_bounds_tables tables;
    float *upper, *slack, *lower, *group_lower; // of all points
    double *centroids_before;                   // k x d: as the pass before had them
    double *drift, *path, *others;              // k: of this pass; see bounds.h
    double *group_path;                         // of each centroid group
    float *radius;                              // k: the largest `upper` of each cluster's points, at least
    int64_t passes;                             // since there are bounds
    int64_t lloyd_until;                        // until so many updates, as bounds were dropped
    int32_t is_used, has_bounds;                // in this pass; from the pass before
    void *reals;
} slot_bounds;

typedef struct thread_state {
    cpu_bounds_scratch scratch;
    float *radius;            // of all slots, one after the other
    km_cpu_slot *lloyd_slots; // slots of a chunk that have no bounds: lloyd's
    int64_t skipped;
    int64_t *distances; // of each slot
    void *memory;
} thread_state;

typedef struct cpu_bounds {
    cpu_bounds_kernels kernels;
    int32_t is_elkan;
    int64_t list_points; // that are listed at a time: whole SoA groups
    uint8_t *rows;       // or NULL
    slot_bounds *slots;
    int64_t slots_count;
    thread_state *threads;
    int64_t threads_count;
} cpu_bounds;

// Life --------------------------------------------------------------------------------------------------------

static km_status scratch_alloc(thread_state *thread, const cpu_engine *engine, int64_t list_points, int64_t k,
                               km_error *err) {
    int64_t d = engine->base.d, d_row = km_round_up(d, BOUNDS_LANES), real = engine->real_bytes;
    int64_t listed = list_points + BOUNDS_SCORED, values = d * BOUNDS_SCORED * real;
    int64_t scores = km_round_up(k, BOUNDS_LANES) * real, doubles = d * (int64_t)sizeof(double);
    int64_t bytes = doubles + values + d_row * real + scores + (4 * listed + k) * (int64_t)sizeof(int32_t);
    uint8_t *memory = thread->memory = calloc(1, (size_t)bytes);
    if (!memory) return km_fail_memory(err, "the lists of the algorithm", bytes);
    cpu_bounds_scratch *s = &thread->scratch;
    s->doubles = (double *)(void *)memory;
    s->values = memory + doubles;
    s->row = memory + doubles + values;
    s->scores = memory + doubles + values + d_row * real;
    s->list = (int32_t *)(void *)(memory + doubles + values + d_row * real + scores);
    s->moved = s->list + listed;
    s->moved_old = s->moved + listed;
    s->touched_groups = s->moved_old + listed;
    return KM_OK;
}

// Points as rows, beside their SoA groups.
static km_status rows_make(cpu_engine *engine, km_error *err) {
    int64_t n = engine->base.n, d = engine->base.d, real = engine->real_bytes,
            soa_points = engine->soa_points;
    int64_t row = km_cpu_row_point_bytes(engine->base.plan), groups = (n + soa_points - 1) / soa_points;
    if (!row || engine->bounds->rows) return KM_OK;
    uint8_t *rows = engine->bounds->rows = km_pages_alloc(n * row);
    if (!rows) return km_fail_memory(err, "the points as rows", n * row);
    int threads = cpu_threads_for(engine, groups);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t g = 0; g < groups; g++) {
        const uint8_t *from = engine->points + g * soa_points * d * real;
        for (int64_t i = 0; i < soa_points && g * soa_points + i < n; i++) {
            uint8_t *to = rows + (g * soa_points + i) * row;
            memset(to + d * real, 0, (size_t)(row - d * real));
            if (real == 4)
                for (int64_t f = 0; f < d; f++)
                    ((float *)(void *)to)[f] = ((const float *)(const void *)from)[f * soa_points + i];
            else
                for (int64_t f = 0; f < d; f++)
                    ((double *)(void *)to)[f] = ((const double *)(const void *)from)[f * soa_points + i];
        }
    }
    return KM_OK;
}

km_status km_cpu_bounds_create(cpu_engine *engine, km_error *err) {
    const km_plan *plan = engine->base.plan;
    cpu_bounds *bounds = engine->bounds = calloc(1, sizeof *bounds);
    if (!bounds) return km_fail_memory(err, "bounds", (int64_t)sizeof *bounds);
    int64_t k = plan->spec.clusters[plan->spec.clusters_count - 1], clusters = 0;
    for (int64_t s = 0; s < engine->base.slots_count; s++) clusters += engine->slots[s].k;
    bounds->kernels = *km_cpu_bounds_kernels(plan);
    bounds->is_elkan = plan->algorithm == KM_ALGORITHM_ELKAN;
    bounds->list_points = km_round_up(BOUNDS_POINTS, engine->soa_points);
    bounds->slots_count = engine->base.slots_count;
    bounds->threads_count = engine->threads;
    bounds->slots = calloc((size_t)bounds->slots_count, sizeof *bounds->slots);
    bounds->threads = calloc((size_t)engine->threads, sizeof *bounds->threads);
    if (!bounds->slots || !bounds->threads) return km_fail_memory(err, "bounds", engine->threads * 64);
    for (int64_t t = 0; t < engine->threads; t++)
        KM_TRY(scratch_alloc(&bounds->threads[t], engine, bounds->list_points, k, err));
    for (int64_t t = 0; t < engine->threads; t++) {
        float *radius = bounds->threads[t].radius = malloc((size_t)clusters * sizeof *radius);
        bounds->threads[t].lloyd_slots = calloc((size_t)engine->base.slots_count, sizeof(km_cpu_slot));
        bounds->threads[t].distances = calloc((size_t)engine->base.slots_count, sizeof(int64_t));
        if (!radius || !bounds->threads[t].lloyd_slots || !bounds->threads[t].distances)
            return km_fail_memory(err, "bounds", clusters * 4);
        for (int64_t j = 0; j < clusters; j++) radius[j] = -INFINITY;
    }
    if (!plan->algorithm_fixed) engine->counters.algorithm = KM_ALGORITHM_LLOYD; // until bounds are used
    return KM_OK;
}

void km_cpu_bounds_destroy(cpu_engine *engine) {
    cpu_bounds *bounds = engine->bounds;
    if (!bounds) return;
    for (int64_t s = 0; bounds->slots && s < bounds->slots_count; s++) {
        slot_bounds *own = &bounds->slots[s];
        km_pages_free(own->upper);
        km_pages_free(own->slack);
        km_pages_free(own->lower);
        km_pages_free(own->group_lower);
        free(own->centroids_before);
        free(own->reals);
        free(own->tables.expiry);
    }
    for (int64_t t = 0; bounds->threads && t < bounds->threads_count; t++) {
        free(bounds->threads[t].memory);
        free(bounds->threads[t].radius);
        free(bounds->threads[t].lloyd_slots);
        free(bounds->threads[t].distances);
    }
    km_pages_free(bounds->rows);
    free(bounds->slots);
    free(bounds->threads);
    free(bounds);
    engine->bounds = NULL;
}

// Before a pass -----------------------------------------------------------------------------------------------

static void tables_place(slot_bounds *own, float *floats, int64_t k_row) {
    cpu_bounds_tables *tables = &own->tables;
    tables->expiry = floats;
    tables->credit = floats + k_row;
    tables->path_most = floats + 2 * k_row;
    tables->path_least = floats + 3 * k_row;
    tables->others_path_most = floats + 4 * k_row;
    tables->gap = floats + 5 * k_row;
    tables->inner = floats + 6 * k_row;
    tables->group_path_most = floats + 7 * k_row;
    tables->group_path_least = floats + 8 * k_row;
    own->radius = floats + 9 * k_row;
    tables->half_distances = floats + ROWS_PER_K * k_row;
}

// Elkan's lower bounds lie chunk by chunk, with a gap of rows between two chunks: a vector may begin in a point's row
// and end in the rows of the points that follow, and those of the next chunk may be another thread's, which writes
// them.
static int64_t lower_row(int64_t start, int64_t first) { // start: the first point of the chunk
    return first + start / KM_CPU_PASS_POINTS * BOUNDS_LANES;
}

static km_status slot_alloc(slot_bounds *own, const cpu_engine *engine, const cpu_slot *slot, km_error *err) {
    if (own->tables.expiry) return KM_OK;
    int64_t n = engine->base.n + BOUNDS_SCORED, d = engine->base.d, k = slot->k;
    int64_t k_row = km_round_up(k, BOUNDS_LANES), d_row = km_round_up(d, BOUNDS_LANES);
    int is_elkan = engine->bounds->is_elkan;
    own->tables = (cpu_bounds_tables){.k = k,
                                      .k_row = k_row,
                                      .d = d,
                                      .d_row = d_row,
                                      .table = slot->table,
                                      .groups_count = k_row / BOUNDS_LANES};
    own->upper = km_pages_alloc(n * (int64_t)sizeof(float));
    own->slack = km_pages_alloc(n * (int64_t)sizeof(float));
    int64_t groups = own->tables.groups_count, rows = lower_row(engine->base.n, n);
    own->lower = is_elkan ? km_pages_alloc(rows * k * (int64_t)sizeof(float)) : NULL;
    own->group_lower = is_elkan ? km_pages_alloc(rows * groups * (int64_t)sizeof(float)) : NULL;
    own->centroids_before = calloc((size_t)(k * (d + 3) + groups), sizeof *own->centroids_before);
    own->reals = calloc((size_t)((d + 1) * k_row + k * d_row), (size_t)engine->real_bytes);
    float *floats = calloc((size_t)((ROWS_PER_K + k) * k_row), sizeof *floats);
    if (!own->upper || !own->slack || (is_elkan && (!own->lower || !own->group_lower)) ||
        !own->centroids_before || !own->reals || !floats) {
        free(floats);
        return km_fail_memory(err, "the bounds of a run", n * (is_elkan ? k + 2 : 2) * 4);
    }
    // Vectors read a few values behind the last, and do not use them.
    memset(own->upper + n - BOUNDS_SCORED, 0, BOUNDS_SCORED * sizeof *own->upper);
    memset(own->slack + n - BOUNDS_SCORED, 0, BOUNDS_SCORED * sizeof *own->slack);
    if (is_elkan)
        memset(own->lower + (rows - BOUNDS_SCORED) * k, 0, (size_t)(BOUNDS_SCORED * k) * sizeof *own->lower);
    if (is_elkan)
        memset(own->group_lower + (rows - BOUNDS_SCORED) * groups, 0,
               (size_t)(BOUNDS_SCORED * groups) * sizeof *own->group_lower);
    own->path = own->centroids_before + k * d;
    own->others = own->path + k;
    own->drift = own->others + k;
    own->group_path = own->drift + k;
    own->tables.columns = own->reals;
    own->tables.rows = (uint8_t *)own->reals + (d + 1) * k_row * engine->real_bytes;
    tables_place(own, floats, k_row);
    return KM_OK;
}

static double table_get(const void *table, int64_t at, int64_t real_bytes) {
    return real_bytes == 4 ? (double)((const float *)table)[at] : ((const double *)table)[at];
}

// How far centroid j has moved since the pass before. Keeps where it is now.
static double drift_of(slot_bounds *own, int64_t j, int64_t real_bytes) {
    int64_t d = own->tables.d;
    double *centroids_before = own->centroids_before + j * d, square = 0;
    for (int64_t f = 0; f < d; f++) {
        double value = table_get(own->tables.table, j * (d + 1) + f, real_bytes),
               apart = value - centroids_before[f];
        square += apart * apart;
        centroids_before[f] = value;
    }
    return sqrt(square) * (1 + 0x1p-40);
}

// Adds the last moves of a run's centroids to their paths.
static void paths_follow(slot_bounds *own, int64_t real_bytes, int is_first) {
    int64_t k = own->tables.k;
    for (int64_t j = 0; j < k; j++) {
        own->drift[j] = drift_of(own, j, real_bytes);
        own->path[j] = is_first ? 0 : own->path[j] + own->drift[j];
    }
    for (int64_t b = 0; b < own->tables.groups_count; b++) {
        double drift = 0;
        for (int64_t j = b * BOUNDS_LANES; j < km_min(k, (b + 1) * BOUNDS_LANES); j++)
            drift = fmax(drift, own->drift[j]);
        own->group_path[b] = is_first ? 0 : own->group_path[b] + drift;
    }
}

// The same for `others` of a centroid whose gap and halves are known: see bounds.h for which of them count.
static void others_follow(slot_bounds *own, int64_t j, int64_t real_bytes, int is_first) {
    const cpu_bounds_tables *tables = &own->tables;
    const float *half_distances = tables->half_distances + j * tables->k_row;
    double unit = real_bytes == 4 ? 0x1p-24 : 0x1p-53,
           widen = 1 + 0x1p-16 + 32 * (double)(tables->d + 4) * unit;
    double gap = ((double)tables->gap[j] + 0x1p-58) * widen; // at least, where tables->gap is at most
    double radius = (double)own->radius[j] + own->path[j], farthest = 0;
    double limit =
        gap < 0x1p59 ? gap + radius + 0x1p-20 * (fabs((double)own->radius[j]) + own->path[j]) : INFINITY;
    for (int64_t i = 0; i < tables->k; i++)
        if (own->drift[i] > farthest && i != j && !((double)half_distances[i] >= limit))
            farthest = own->drift[i];
    own->others[j] = is_first ? 0 : own->others[j] + farthest;
}

static void tables_fill(slot_bounds *own) {
    cpu_bounds_tables *tables = &own->tables;
    const double step = 0x1p-21, least = 0x1p-100;
    for (int64_t j = 0; j < tables->k; j++) {
        double path = own->path[j], others = own->others[j], gap = (double)tables->gap[j];
        tables->expiry[j] = (float)((path + others) * (1 + step) + least);
        tables->credit[j] = fminf((float)((path + others) * (1 - step)), 0x1p100f);
        tables->path_most[j] = (float)(path * (1 + step) + least);
        tables->path_least[j] = fminf((float)(path * (1 - step)), 0x1p100f);
        tables->others_path_most[j] = (float)(others * (1 + step) + least);
        tables->inner[j] = (float)(gap - path - step * (gap + path));
    }
    for (int64_t j = tables->k; j < tables->k_row; j++) tables->path_most[j] = -INFINITY;
    for (int64_t b = 0; b < tables->k_row; b++) {
        double path = b < tables->groups_count ? own->group_path[b] : 0;
        tables->group_path_most[b] =
            b < tables->groups_count ? (float)(path * (1 + step) + least) : -INFINITY;
        tables->group_path_least[b] = fminf((float)(path * (1 - step)), 0x1p100f);
    }
}

static void slot_prepare(const cpu_engine *engine, slot_bounds *own, int is_first) {
    const cpu_bounds *bounds = engine->bounds;
    cpu_bounds_tables *tables = &own->tables;
    int64_t k = tables->k, pieces = (k + GAPS_TOGETHER - 1) / GAPS_TOGETHER;
    int threads = cpu_threads_for(engine, k * k * tables->d < GAPS_THREADS_MIN ? 1 : pieces);
    paths_follow(own, engine->real_bytes, is_first);
    bounds->kernels.prepare(tables);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t from = piece * GAPS_TOGETHER, end = km_min(k, from + GAPS_TOGETHER);
        bounds->kernels.gaps(tables, from, end);
        for (int64_t j = from; j < end; j++) others_follow(own, j, engine->real_bytes, is_first);
    }
    tables_fill(own);
    own->passes = is_first ? 0 : own->passes + 1;
    if (is_first || own->passes % RADIUS_PASSES == 0)
        for (int64_t j = 0; j < k; j++) own->radius[j] = -INFINITY;
}

int km_cpu_bounds_view(cpu_bounds_view *out, const cpu_engine *engine, int64_t slot) {
    const slot_bounds *own = engine->bounds ? &engine->bounds->slots[slot] : NULL;
    if (!own || !own->is_used) return 0;
    *out =
        (cpu_bounds_view){own->upper, own->slack, own->lower, own->path, own->others, own->centroids_before};
    return 1;
}

int64_t km_cpu_bounds_lower_row(int64_t point) {
    return lower_row(point / KM_CPU_PASS_POINTS * KM_CPU_PASS_POINTS, point);
}

static int is_active(const cpu_slot *slot) {
    return km_slot_is_active(slot->state.phase);
}

// Where the planner chose: centroids move far in the first passes, so bounds exclude little and lloyd is faster.
static int pays(const cpu_engine *engine, const cpu_slot *slot, const slot_bounds *own) {
    if (engine->base.plan->algorithm_fixed) return 1;
    return slot->k >= CHOSEN_CLUSTERS && slot->state.iterations >= CHOSEN_UPDATES &&
           slot->state.iterations >= own->lloyd_until;
}

km_status km_cpu_bounds_prepare(cpu_engine *engine, km_error *err) {
    cpu_bounds *bounds = engine->bounds;
    for (int64_t s = 0; s < bounds->slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        slot_bounds *own = &bounds->slots[s];
        if (!is_active(slot)) continue;
        own->has_bounds = own->is_used && slot->mode != KM_CPU_FIRST;
        if (slot->mode == KM_CPU_FIRST) own->lloyd_until = 0;
        own->is_used = pays(engine, slot, own);
        if (!own->is_used) continue;
        engine->counters.algorithm = engine->base.plan->algorithm;
        KM_TRY(rows_make(engine, err));
        KM_TRY(slot_alloc(own, engine, slot, err));
        slot_prepare(engine, own, !own->has_bounds);
    }
    return KM_OK;
}

// The pass ----------------------------------------------------------------------------------------------------

// One run over `points` points from `first` on; its labels start at point `start`.
static void slot_pass(const cpu_engine *engine, thread_state *thread, float *radius, const slot_bounds *own,
                      km_cpu_slot *slot, int64_t start, int64_t first, int64_t points) {
    const cpu_bounds *bounds = engine->bounds;
    const int64_t row = lower_row(start, first);
    cpu_bounds_work work = {
        .tables = &own->tables,
        .points = engine->points + first * engine->base.d * engine->real_bytes,
        .weights = cpu_weights_at(engine, first),
        .rows = bounds->rows ? bounds->rows + first * own->tables.d_row * engine->real_bytes : NULL,
        .count = points,
        .soa_points = engine->soa_points,
        .pitch = engine->pitch,
        .labels = (uint8_t *)slot->labels + (first - start) * slot->labels_bytes,
        .labels_bytes = slot->labels_bytes,
        .mode = slot->mode,
        .is_elkan = bounds->is_elkan,
        .is_new = !own->has_bounds,
        .slack = own->slack + first,
        .upper = own->upper + first,
        .radius = radius,
        .asks_radius = own->passes % RADIUS_PASSES == 0,
        .lower = own->lower ? own->lower + row * slot->k : NULL,
        .group_lower = own->group_lower ? own->group_lower + row * own->tables.groups_count : NULL,
        .sums = slot->sums,
        .scratch = &thread->scratch};
    bounds->kernels.pass(&work);
    slot->changed += work.changed;
    thread->distances[own - bounds->slots] += work.distances;
    thread->skipped += work.skipped;
}

// A chunk for the slots without bounds, by lloyd.
static void lloyd_chunk(const cpu_engine *engine, thread_state *thread, const km_cpu_chunk *work) {
    const cpu_bounds *bounds = engine->bounds;
    km_cpu_chunk lloyd = *work;
    lloyd.slots = thread->lloyd_slots;
    lloyd.slots_count = 0;
    for (int64_t s = 0, listed = 0; s < bounds->slots_count; s++) {
        if (!is_active(&engine->slots[s])) continue;
        if (!bounds->slots[s].is_used) lloyd.slots[lloyd.slots_count++] = work->slots[listed];
        listed++;
    }
    if (lloyd.slots_count == 0) return;
    engine->kernels.pass(&lloyd);
    for (int64_t s = 0, listed = 0, done = 0; s < bounds->slots_count; s++) {
        if (!is_active(&engine->slots[s])) continue;
        if (!bounds->slots[s].is_used) work->slots[listed].changed = lloyd.slots[done++].changed;
        listed++;
    }
}

void km_cpu_bounds_chunk(cpu_engine *engine, int64_t first, const km_cpu_chunk *work) {
    cpu_bounds *bounds = engine->bounds;
    thread_state *thread = &bounds->threads[omp_get_thread_num()];
    for (int64_t s = 0; s < work->slots_count; s++) work->slots[s].changed = 0;
    lloyd_chunk(engine, thread, work);
    for (int64_t at = 0; at < work->points_count; at += bounds->list_points) {
        float *radius = thread->radius;
        for (int64_t s = 0, listed = 0; s < bounds->slots_count; radius += engine->slots[s++].k) {
            if (!is_active(&engine->slots[s])) continue;
            km_cpu_slot *slot = &work->slots[listed++];
            if (bounds->slots[s].is_used)
                slot_pass(engine, thread, radius, &bounds->slots[s], slot, first, first + at,
                          km_min(bounds->list_points, work->points_count - at));
        }
    }
}

// Takes the radii that a thread found into those of all slots' clusters.
static void radius_collect(cpu_engine *engine, float *radius) {
    for (int64_t s = 0; s < engine->base.slots_count; s++) {
        slot_bounds *own = &engine->bounds->slots[s];
        for (int64_t j = 0; j < engine->slots[s].k; j++, radius++) {
            if (own->radius && *radius > own->radius[j]) own->radius[j] = *radius;
            *radius = -INFINITY;
        }
    }
}

// Where the planner chose: bounds that leave much to compute are dropped, until centroids move less. A run tries them
// again when it has twice as many updates, as the first pass with bounds computes all distances.
static void drop_idle_bounds(const cpu_engine *engine, const cpu_slot *slot, slot_bounds *own,
                             int64_t distances) {
    double all = (double)engine->base.n * (double)slot->k;
    if (engine->base.plan->algorithm_fixed || !own->has_bounds) return;
    if ((double)distances > chosen_share * all) own->lloyd_until = 2 * slot->state.iterations;
}

void km_cpu_bounds_collect(cpu_engine *engine) {
    cpu_bounds *bounds = engine->bounds;
    for (int64_t t = 0; t < bounds->threads_count; t++) {
        engine->counters.points_skipped += bounds->threads[t].skipped;
        bounds->threads[t].skipped = 0;
        radius_collect(engine, bounds->threads[t].radius);
    }
    for (int64_t s = 0; s < bounds->slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        int64_t distances = 0;
        if (!is_active(slot)) continue;
        for (int64_t t = 0; t < bounds->threads_count; t++) {
            distances += bounds->threads[t].distances[s];
            bounds->threads[t].distances[s] = 0;
        }
        if (bounds->slots[s].is_used)
            drop_idle_bounds(engine, slot, &bounds->slots[s], distances);
        else
            distances = engine->base.n * slot->k;
        engine->counters.distances += distances;
    }
}

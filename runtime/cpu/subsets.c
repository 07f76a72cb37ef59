// SPDX-License-Identifier: MIT
// Subsets of columns on the CPU. The table lies in SoA groups, so a column of an SoA group is one piece of memory.
// A thread takes a block of subsets: it goes through the table tile by tile, brings the columns of a subset
// together in its cache, and runs the kernels of that many features over them. A thread adds a run's sums in
// index order, so no result depends on how many threads there are.
#include "../../base/error.h"
#include "../../base/order.h"
#include "../../base/size.h"
#include "../../gen/cpu/facts.h"
#include "subsets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TYPICAL_ROWS = 128 };

// Columns ----------------------------------------------------------------------------------------------------

// Columns that are there already stay: subsets in order mostly differ in the last.
km_status km_cpu_subset_gather_all(cpu_subset_task *t, cpu_subset_block *b, km_error *err) {
    const cpu_engine *table = b->table;
    const km_subset *is = t->subset, *was = b->gathered;
    int64_t n = table->base.n, all = km_round_up(n, table->soa_points), bytes = all * table->real_bytes;
    int64_t same = 0;
    if (!b->points) b->points = km_pages_alloc(bytes * b->size_max);
    if (!b->points) return km_fail_memory(err, "the columns of a subset", bytes * b->size_max);
    t->view.points = b->points;
    while (was && was->size == is->size && same < is->size && was->columns[same] == is->columns[same]) same++;
    km_cpu_subset_gather_from(b->points, table, is, 0, n, same);
    b->gathered = is;
    return KM_OK;
}

// Memory -----------------------------------------------------------------------------------------------------

// As km_data_stats.typical_square, of the subset's columns.
static double typical_square(const cpu_engine *table, const km_subset *subset, double *row) {
    double squares[TYPICAL_ROWS];
    int64_t n = table->base.n, count = km_min(n, TYPICAL_ROWS), at = count / 2;
    for (int64_t i = 0; i < count; i++) {
        squares[i] = 0;
        km_cpu_row(row, table, (int64_t)((double)i * (double)n / (double)count));
        for (int64_t f = 0; f < subset->size; f++)
            squares[i] += row[subset->columns[f]] * row[subset->columns[f]];
    }
    qsort(squares, (size_t)count, sizeof *squares, km_by_value);
    while (at + 1 < count && !(squares[at] > 0)) at++;
    return squares[at];
}

// What a slot's step needs to know of the points. Squares of the table's columns follow from their
// statistics.
static void view_init(cpu_subset_task *t, const cpu_subset_block *b, double *row) {
    const km_subsets_job *job = b->job;
    const cpu_engine *table = b->table;
    const km_data_stats *stats = job->stats;
    double variances = 0, mean_squares = 0;
    cpu_engine *view = &t->view;
    *view = *table;
    view->base.d = t->subset->size;
    view->base.slots_count = job->restarts * job->clusters_count;
    view->slots = t->slots;
    view->points = NULL;
    view->int16_scales = NULL;
    view->threads = 1;
    view->pitch = KM_CPU_PITCH(t->subset->size);
    for (int64_t f = 0; f < t->subset->size; f++) {
        int64_t c = t->subset->columns[f];
        double mean = (stats->mean[c] - job->centre[c]) * job->factor[c];
        variances += stats->variance[c] * job->factor[c] * job->factor[c];
        mean_squares += mean * mean;
    }
    view->total_square = (variances + mean_squares) * table->total_weight;
    view->typical_square = typical_square(table, t->subset, row);
    view->square_min = view->rounding2 * view->typical_square;
    t->stop = (km_stop){job->tol * (variances / (double)t->subset->size), 0, job->max_iter, 0};
}

// The library's kernels for so many features.
static km_status kernels_find(cpu_subset_task *t, const cpu_subset_block *b, km_error *err) {
    km_spec spec = b->table->base.plan->spec;
    int32_t k = (int32_t)b->k_max;
    spec.features = t->subset->size;
    spec.clusters = &k;
    spec.clusters_count = 1;
    const km_cpu_kernels *kernels = km_cpu_prebuilt_lanes(&spec, b->table->base.plan->facts.target.arch);
    if (!kernels || kernels->soa_points != b->table->soa_points)
        return km_fail(err, KM_ERROR_INTERNAL, "no kernels for %lld features", (long long)spec.features);
    t->view.kernels = *kernels;
    int is_small = t->subset->size <= SUBSET_SIZE_MAX && b->table->soa_points == SUBSET_GROUP;
    if (!is_small || b->table->weights) return KM_OK;
    t->columns = km_cpu_subset_kernels(b->table->base.plan);
    t->view.kernels.seed = t->columns->seed[t->subset->size - 1];
    t->view.moves_any = 1;
    return KM_OK;
}

// Doubles behind a slot's partial sums: kernels add whole vectors.
enum { VECTOR_DOUBLES = 8 };

// Doubles of a slot: totals, partial sums, centroids, those of the last pass, table, may_stay_empty.
static int64_t slot_numbers(const cpu_engine *view, int64_t k) {
    int64_t table = km_divide_up(KM_CPU_TABLE_ROWS(k) * (view->base.d + 1) * view->real_bytes, 8);
    return km_round_up(
        2 * k * view->base.d + 2 * k * view->pitch + VECTOR_DOUBLES + table + km_divide_up(k, 8), 8);
}

static void slot_init(cpu_slot *slot, const cpu_subset_block *b, const cpu_subset_task *t, int64_t q,
                      double *at) {
    const cpu_engine *view = &t->view;
    int64_t k = b->job->clusters[q], d = view->base.d;
    *slot = (cpu_slot){.k = k, .k_index = q, .labels_bytes = 1};
    slot->totals = at;
    slot->centroids = slot->totals + 2 * k * view->pitch + VECTOR_DOUBLES; // behind totals and partial sums
    slot->before = slot->centroids + k * d;
    slot->table = slot->before + k * d;
    slot->may_stay_empty = (uint8_t *)((double *)slot->table +
                                       km_divide_up(KM_CPU_TABLE_ROWS(k) * (d + 1) * view->real_bytes, 8));
    km_cpu_table_end(slot->table, k, d, view->base.plan->spec.type);
}

static km_status task_init(cpu_subset_task *t, const cpu_subset_block *b, km_error *err) {
    const km_subsets_job *job = b->job;
    int64_t slots = job->restarts * job->clusters_count, size = t->subset->size, numbers = 0;
    double *row = malloc((size_t)b->table->base.d * sizeof *row);
    t->slots = calloc((size_t)slots, sizeof *t->slots);
    t->inertias = calloc((size_t)slots, sizeof *t->inertias);
    t->picks = calloc((size_t)(job->restarts * b->k_max), sizeof *t->picks);
    t->contests = calloc((size_t)job->clusters_count, sizeof *t->contests);
    t->best = calloc((size_t)(b->k_sum * (size + 1)), sizeof *t->best);
    if (!row || !t->slots || !t->inertias || !t->picks || !t->contests || !t->best) {
        free(row);
        return km_fail_memory(err, "the runs of a subset", slots * (int64_t)sizeof *t->slots);
    }
    view_init(t, b, row);
    free(row);
    KM_TRY(kernels_find(t, b, err));
    for (int64_t q = 0; q < job->clusters_count; q++)
        numbers += job->restarts * slot_numbers(&t->view, job->clusters[q]);
    t->memory = km_pages_alloc(numbers * (int64_t)sizeof *t->memory);
    if (!t->memory) return km_fail_memory(err, "the sums of a subset's runs", numbers * 8);
    memset(t->memory, 0, (size_t)numbers * sizeof *t->memory);
    double *at = t->memory, *best = t->best;
    for (int64_t s = 0; s < slots; s++) {
        int64_t q = s % job->clusters_count;
        slot_init(&t->slots[s], b, t, q, at);
        at += slot_numbers(&t->view, job->clusters[q]);
    }
    for (int64_t q = 0; q < job->clusters_count; best += job->clusters[q++] * (size + 1))
        km_contest_init(&t->contests[q], best, job->clusters[q] * (size + 1) * (int64_t)sizeof(double));
    t->running = slots;
    return KM_OK;
}

static void task_free(cpu_subset_task *t, int64_t ks) {
    for (int64_t q = 0; t->contests && q < ks; q++) km_contest_free(&t->contests[q]);
    free(t->slots);
    free(t->inertias);
    free(t->picks);
    free(t->contests);
    free(t->best);
    km_pages_free(t->memory);
}

static void block_free(cpu_subset_block *b) {
    for (int64_t i = 0; b->tasks && i < b->count; i++) task_free(&b->tasks[i], b->job->clusters_count);
    free(b->tasks);
    free(b->list);
    free(b->weights);
    free(b->sums);
    km_pages_free(b->tile);
    km_pages_free(b->points);
    km_pages_free(b->labels);
}

static km_status block_init(cpu_subset_block *b, const km_subsets_job *job, const km_subset *subsets,
                            int64_t count, km_subset_fit *fits, km_error *err) {
    int64_t ks = job->clusters_count, slots = job->restarts * ks, bytes;
    *b = (cpu_subset_block){.job = job, .table = (const cpu_engine *)job->table, .count = count};
    for (int64_t q = 0; q < ks; q++) {
        b->k_max = km_max(b->k_max, job->clusters[q]);
        b->k_sum += job->clusters[q];
    }
    for (int64_t i = 0; i < count; i++) b->size_max = km_max(b->size_max, subsets[i].size);
    bytes = SUBSET_TILE_POINTS * b->size_max * b->table->real_bytes;
    b->tasks = calloc((size_t)count, sizeof *b->tasks);
    b->tile = km_pages_alloc(bytes);
    b->list = calloc((size_t)slots, sizeof *b->list);
    b->weights = malloc((size_t)(b->k_max * (b->size_max + 1)) * sizeof *b->weights);
    b->sums = calloc((size_t)(b->k_max * SUBSET_ROW), sizeof *b->sums);
    if (!b->tasks || !b->tile || !b->list || !b->weights || !b->sums)
        return km_fail_memory(err, "the runs of a block of subsets", bytes);
    for (int64_t i = 0; i < count; i++) {
        b->tasks[i].subset = &subsets[i];
        b->tasks[i].fits = fits + i * ks;
    }
    return KM_OK;
}

// First centroids --------------------------------------------------------------------------------------------

// The picked points of a run are its first centroids. `row` has a value for each of the table's columns.
static void slot_begin(cpu_subset_task *t, const cpu_subset_block *b, int64_t s, double *row) {
    cpu_slot *slot = &t->slots[s];
    const int64_t *picks = t->picks + s / b->job->clusters_count * b->k_max;
    for (int64_t j = 0; j < slot->k; j++) {
        km_cpu_row(row, b->table, picks[j]);
        for (int64_t f = 0; f < t->subset->size; f++)
            slot->centroids[j * t->subset->size + f] = row[t->subset->columns[f]];
    }
    km_cpu_slot_tables(&t->view, slot);
    slot->state = (km_slot_state){.phase = KM_SLOT_RUNNING};
    slot->mode = KM_CPU_FIRST;
}

// As a fit's: chains of k-means++ (runtime/seed.h) or different random points, by (seed, restart, pick).
static km_status task_pick(cpu_subset_task *t, cpu_subset_block *b, km_error *err) {
    const km_subsets_job *job = b->job;
    int64_t first = t->subset->first_restart;
    if (job->init_random)
        return km_seed_random(t->picks, job->data, first, job->restarts, b->k_max, job->seed, err);
    KM_TRY(km_cpu_subset_gather_all(t, b, err));
    km_status status = km_cpu_seed_plusplus(&t->view.base, t->picks, first, job->restarts, b->k_max,
                                            job->seed, NULL, NULL, err);
    t->view.points = NULL;
    return status;
}

static km_status task_seed(cpu_subset_task *t, cpu_subset_block *b, km_error *err) {
    KM_TRY(task_pick(t, b, err));
    double *row = malloc((size_t)b->table->base.d * sizeof *row);
    km_status status =
        row ? km_cpu_subset_labels(t, b, err) : km_fail_memory(err, "a row", b->table->base.d * 8);
    for (int64_t s = 0; status == KM_OK && s < t->view.base.slots_count; s++) slot_begin(t, b, s, row);
    free(row);
    return status;
}

// Passes -----------------------------------------------------------------------------------------------------

// Sums of a tile for the active slots of a subset, of columns where they lie.
static void task_columns(cpu_subset_task *t, cpu_subset_block *b, int64_t first, int64_t points) {
    cpu_subset_tile tile = km_cpu_subset_tile(b->table, t->subset, first, points);
    int with_points = 1;
    for (int64_t s = 0; s < t->view.base.slots_count; s++) {
        cpu_slot *slot = &t->slots[s];
        if (!km_slot_is_active(slot->state.phase)) continue;
        cpu_subset_run run = {.k = slot->k,
                              .table = slot->table,
                              .labels = (uint8_t *)slot->labels + first,
                              .mode = slot->mode,
                              .sums = b->sums,
                              .ahead = km_cpu_subset_ahead(b, t - b->tasks, s, first, 0, with_points)};
        with_points = 0;
        t->columns->pass(&tile, &run);
        slot->changed += run.changed;
        if (slot->mode != KM_CPU_MOVE || run.changed)
            km_cpu_subset_add(slot->totals, b->sums, slot->k, &t->view);
    }
}

// The same as task_columns, of columns that are brought together.
static void task_gathered(cpu_subset_task *t, cpu_subset_block *b, int64_t first, int64_t points) {
    km_cpu_subset_gather(b->tile, b->table, t->subset, first, points);
    km_cpu_subset_pass(t, b, first, points, 0);
}

// A run that is done takes part in the contest of its K.
static km_status slot_done(cpu_subset_task *t, const cpu_subset_block *b, int64_t s, km_error *err) {
    cpu_slot *slot = &t->slots[s];
    int64_t k = slot->k, d = t->view.base.d;
    memcpy(b->weights, slot->centroids, (size_t)(k * d) * sizeof *b->weights);
    for (int64_t j = 0; j < k; j++) b->weights[k * d + j] = slot->totals[j * t->view.pitch + d];
    t->inertias[s] = slot->state.inertia;
    slot->state.phase = KM_SLOT_IDLE;
    t->running--;
    return km_subset_offer(&t->contests[slot->k_index], s / b->job->clusters_count, &slot->state, b->weights,
                           k, d, b->table->base.n, t->view.total_square, err);
}

km_status km_cpu_subset_step(cpu_subset_task *t, cpu_subset_block *b, km_error *err) {
    km_status status = KM_OK;
    for (int64_t s = 0; s < t->view.base.slots_count && status == KM_OK; s++) {
        cpu_slot *slot = &t->slots[s];
        int64_t moved;
        if (!km_slot_is_active(slot->state.phase)) continue;
        km_cpu_totals_tidy(&t->view, slot);
        slot->mode = KM_CPU_MOVE;
        km_cpu_slot_step(&t->view, slot, &t->stop);
        if (slot->state.phase == KM_SLOT_EMPTY) {
            if (!t->view.points) status = km_cpu_subset_gather_all(t, b, err);
            if (status == KM_OK) status = km_cpu_relocate(&t->view.base, s, &moved, err);
        }
        if (status == KM_OK && slot->state.phase == KM_SLOT_DONE) status = slot_done(t, b, s, err);
    }
    t->view.points = NULL;
    return status;
}

// One read of the table for all runs of the block. Returns how many go on.
static km_status block_pass(cpu_subset_block *b, int64_t *running, km_error *err) {
    int64_t n = b->table->base.n;
    for (int64_t i = 0; i < b->count; i++) {
        cpu_subset_task *t = &b->tasks[i];
        for (int64_t s = 0; t->running && s < t->view.base.slots_count; s++) {
            cpu_slot *slot = &t->slots[s];
            slot->changed = 0;
            if (slot->mode == KM_CPU_MOVE) continue;
            memset(slot->totals, 0, (size_t)(slot->k * t->view.pitch) * sizeof *slot->totals);
        }
    }
    for (int64_t first = 0; first < n; first += SUBSET_TILE_POINTS) {
        for (int64_t i = 0; i < b->count; i++) {
            cpu_subset_task *t = &b->tasks[i];
            int64_t points = km_min(SUBSET_TILE_POINTS, n - first);
            if (t->running && t->columns) {
                task_columns(t, b, first, points);
                continue;
            }
            km_cpu_subset_fetch(b, i, first, 0);
            if (t->running) task_gathered(t, b, first, points);
        }
        KM_TRY(km_subsets_ask_stopped(b->job, err));
    }
    *running = 0;
    for (int64_t i = 0; i < b->count; i++) {
        if (b->tasks[i].running) KM_TRY(km_cpu_subset_step(&b->tasks[i], b, err));
        *running += b->tasks[i].running;
    }
    return KM_OK;
}

// The best restart of each K.
static km_status task_take_best(cpu_subset_task *t, const km_subsets_job *job, km_error *err) {
    int64_t ks = job->clusters_count;
    for (int64_t q = 0; q < ks; q++) {
        km_subset_fit *fit = &t->fits[q];
        KM_TRY(km_subset_take_best(fit, &t->contests[q], t->subset->size, t->inertias + q, job->restarts, ks,
                                   err));
        fit->passes = 0;
        for (int64_t r = 0; r < job->restarts; r++) fit->passes += t->slots[r * ks + q].state.iterations;
    }
    return KM_OK;
}

// -------------------------------------------------------------------------------------------------------------

static km_status tasks_init(cpu_subset_block *b, km_error *err) {
    for (int64_t i = 0; i < b->count; i++) KM_TRY(task_init(&b->tasks[i], b, err));
    return KM_OK;
}

km_status km_cpu_subsets_run(const km_subsets_job *job, const km_subset *subsets, int64_t count,
                             km_subset_fit *fits, km_error *err) {
    cpu_subset_block b;
    int64_t running = count;
    km_status status = block_init(&b, job, subsets, count, fits, err);
    if (status == KM_OK) status = tasks_init(&b, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++) {
        status = task_seed(&b.tasks[i], &b, err);
        if (status == KM_OK && km_cpu_subset_has_boxes(&b.tasks[i], &b))
            status = km_cpu_subset_boxes_run(&b.tasks[i], &b, err);
        if (status == KM_OK) status = km_subsets_ask_stopped(job, err);
    }
    while (status == KM_OK && running) status = block_pass(&b, &running, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++) status = task_take_best(&b.tasks[i], job, err);
    if (status == KM_OK) status = km_cpu_subset_block_finish(&b, 1, err);
    block_free(&b);
    return status;
}

km_status km_cpu_subsets_finish(const km_subsets_job *job, const km_subset *subsets, int64_t count,
                                km_subset_fit *fits, km_error *err) {
    cpu_subset_block b;
    km_status status = block_init(&b, job, subsets, count, fits, err);
    if (status == KM_OK) status = tasks_init(&b, err);
    if (status == KM_OK) status = km_cpu_subset_block_finish(&b, 0, err);
    block_free(&b);
    return status;
}

// Of an SoA group; zeros are behind the last point.
static double group_square(const cpu_engine *table, const uint8_t *column) {
    double sums[4] = {0, 0, 0, 0};
    for (int64_t i = 0; i < table->soa_points; i++) {
        double x = table->real_bytes == 4 ? (double)((const float *)column)[i] : ((const double *)column)[i];
        sums[i % 4] += x * x;
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void km_cpu_subsets_squares(double *squares, const km_engine *base) {
    const cpu_engine *table = (const cpu_engine *)base;
    int64_t d = base->d, bytes = table->soa_points * table->real_bytes;
    const uint8_t *column = table->points;
    for (int64_t f = 0; f < d; f++) squares[f] = 0;
    for (int64_t first = 0; first < base->n; first += table->soa_points)
        for (int64_t f = 0; f < d; f++, column += bytes) squares[f] += group_square(table, column);
}

static void permute_column(cpu_engine *table, int64_t column, uint64_t seed, int64_t turn, int undo) {
    int64_t n = table->base.n, d = table->base.d, size = table->real_bytes, group = table->soa_points;
    uint8_t *values = table->points + column * group * size, other[8];
    for (int64_t s = 1; s < n; s++) {
        int64_t i = undo ? s : n - s;
        int64_t j = km_subsets_exchanged(seed, turn, column, i);
        uint8_t *a = values + (i / group * group * d + i % group) * size,
                *b = values + (j / group * group * d + j % group) * size;
        memcpy(other, a, (size_t)size);
        memmove(a, b, (size_t)size);
        memcpy(b, other, (size_t)size);
    }
}

void km_cpu_subsets_permute(km_engine *base, uint64_t seed, int64_t turn, int undo) {
    cpu_engine *table = (cpu_engine *)base;
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)km_min(table->threads, base->d))
    for (int64_t c = 0; c < base->d; c++) permute_column(table, c, seed, turn, undo);
}

int64_t km_cpu_subsets_bytes(const km_subsets_job *job, int64_t size) {
    int64_t n = job->table->n, k_max = 0, numbers = 0, real = km_type_bytes(job->table->plan->spec.type);
    for (int64_t q = 0; q < job->clusters_count; q++) {
        int64_t k = job->clusters[q];
        k_max = km_max(k_max, k);
        numbers +=
            k * (size + 2 * KM_CPU_PITCH(size)) + KM_CPU_TABLE_ROWS(k) * (size + 1) + 2 * k * (size + 1);
    }
    // The columns of one subset, and while it is seeded the distances and sums of its chains.
    int64_t columns = n * size * real, chains = job->init_random ? 0 : job->restarts * (n * real + n / 8);
    int64_t boxes = size <= SUBSET_SIZE_MAX && k_max <= SUBSET_BOX_CLUSTERS_MAX
                        ? km_cpu_subset_boxes_bytes(n, size)
                        : 0; // after the chains
    return columns + km_max(chains, boxes) +
           job->restarts * (numbers * 8 + k_max * 8 + n * job->clusters_count);
}

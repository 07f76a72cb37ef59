// SPDX-License-Identifier: MIT
// Subsets of columns on the CPU. The table lies in SoA groups, so a column of a group is one piece of memory.
// A thread takes a block of subsets: it goes through the table tile by tile, brings the columns of a subset
// together in its cache, and runs the kernels of that many features over them. A thread adds a run's sums in
// index order, so no result depends on how many threads there are.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/cpu/facts.h"
#include "../contest.h"
#include "../explore/subsets.h"
#include "../rounding.h"
#include "../sweep.h"
#include "cpu.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Restarts whose inertia is this close (relative) to the best count as the same: they stop when they move
// little, so most of them are not at the optimum to the last digit.
#define AGREE_RELATIVE 1e-3
enum { TYPICAL_ROWS = 128, TILE_POINTS = 2048 };

// A subset in work.
typedef struct task {
    const km_subset *subset;
    km_subset_fit *fits; // of each K
    cpu_engine view;     // n points of `size` features that are not there, but while `gathered`
    km_stop stop;
    cpu_slot *slots;  // restarts x clusters_count
    double *inertias; // the same
    double *memory;   // of all slots, and their partial sums
    uint8_t
        *labels;    // of all slots: once they are known, a point costs additions only where its label changes
    int64_t *picks; // restarts x K of the largest
    km_contest *contests; // clusters_count
    double *best;         // of each K: centroids, then weights
    int64_t running;      // slots that are not done
} task;

typedef struct block {
    const km_subsets_job *job;
    const cpu_engine *table;
    task *tasks;
    int64_t count, k_max, k_sum;
    void *tile;        // reals: the columns of a subset in a tile of rows
    km_cpu_slot *list; // slots of a subset
    double *weights;   // scratch
} block;

// Columns ----------------------------------------------------------------------------------------------------

// `count` points from `first` on, which starts an SoA group: whole SoA groups of the subset's columns alone.
static void gather(void *out, const cpu_engine *table, const km_subset *subset, int64_t first,
                   int64_t count) {
    enum { GROUP_BYTES = 64 * (int)sizeof(float) };
    int64_t bytes = table->soa_points * table->real_bytes, d = table->base.d;
    uint8_t *to = out;
    const uint8_t *from = table->points + first * d * table->real_bytes;
    for (int64_t done = 0; done < count; done += table->soa_points, from += d * bytes)
        for (int64_t f = 0; f < subset->size; f++, to += bytes) {
            const uint8_t *column = from + subset->columns[f] * bytes;
            if (bytes == GROUP_BYTES)
                memcpy(to, column, GROUP_BYTES);
            else
                memcpy(to, column, (size_t)bytes);
        }
}

// All points of the subset's columns, for steps that read points one by one; ungather frees them.
static km_status gather_all(task *t, const cpu_engine *table, km_error *err) {
    int64_t n = table->base.n,
            bytes = km_round_up(n, table->soa_points) * t->subset->size * table->real_bytes;
    t->view.points = km_pages_alloc(bytes);
    if (!t->view.points) return km_fail_memory(err, "the columns of a subset", bytes);
    gather(t->view.points, table, t->subset, 0, n);
    return KM_OK;
}

static void ungather(task *t) {
    km_pages_free(t->view.points);
    t->view.points = NULL;
}

// Memory -----------------------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

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
    qsort(squares, (size_t)count, sizeof *squares, by_value);
    while (at + 1 < count && !(squares[at] > 0)) at++;
    return squares[at];
}

// What a slot's step needs to know of the points. Squares of the table's columns follow from their
// statistics.
static void view_init(task *t, const block *b, double *row) {
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
static km_status kernels_find(task *t, const block *b, km_error *err) {
    km_spec spec = b->table->base.plan->spec;
    int32_t k = (int32_t)b->k_max;
    spec.features = t->subset->size;
    spec.clusters = &k;
    spec.clusters_count = 1;
    const km_cpu_kernels *kernels = km_cpu_prebuilt_lanes(&spec, b->table->base.plan->facts.target.arch);
    if (!kernels || kernels->soa_points != b->table->soa_points)
        return km_fail(err, KM_ERROR_INTERNAL, "no kernels for %lld features", (long long)spec.features);
    t->view.kernels = *kernels;
    return KM_OK;
}

// Doubles behind a slot's partial sums: kernels add whole vectors.
enum { VECTOR_DOUBLES = 8 };

// Doubles of a slot: totals, partial sums, centroids, table, may_stay_empty.
static int64_t slot_numbers(const cpu_engine *view, int64_t k) {
    int64_t table = km_divide_up(KM_CPU_TABLE_ROWS(k) * (view->base.d + 1) * view->real_bytes, 8);
    return km_round_up(k * view->base.d + 2 * k * view->pitch + VECTOR_DOUBLES + table + km_divide_up(k, 8),
                       8);
}

static void slot_init(cpu_slot *slot, const block *b, const task *t, int64_t q, double *at) {
    const cpu_engine *view = &t->view;
    int64_t k = b->job->clusters[q], d = view->base.d;
    *slot = (cpu_slot){.k = k, .k_index = q, .labels_bytes = 1};
    slot->totals = at;
    slot->centroids = slot->totals + 2 * k * view->pitch + VECTOR_DOUBLES; // behind totals and partial sums
    slot->table = slot->centroids + k * d;
    slot->may_stay_empty = (uint8_t *)((double *)slot->table +
                                       km_divide_up(KM_CPU_TABLE_ROWS(k) * (d + 1) * view->real_bytes, 8));
    km_cpu_table_end(slot->table, k, d, view->base.plan->spec.type);
}

static double *slot_partial(const task *t, const cpu_slot *slot) {
    return slot->totals + slot->k * t->view.pitch;
}

static km_status task_init(task *t, const block *b, km_error *err) {
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

static void task_free(task *t, int64_t ks) {
    for (int64_t q = 0; t->contests && q < ks; q++) km_contest_free(&t->contests[q]);
    free(t->slots);
    free(t->inertias);
    free(t->picks);
    free(t->contests);
    free(t->best);
    km_pages_free(t->memory);
    km_pages_free(t->labels);
    km_pages_free(t->view.points);
}

static void block_free(block *b) {
    for (int64_t i = 0; b->tasks && i < b->count; i++) task_free(&b->tasks[i], b->job->clusters_count);
    free(b->tasks);
    free(b->list);
    free(b->weights);
    km_pages_free(b->tile);
}

static km_status block_init(block *b, const km_subsets_job *job, const km_subset *subsets, int64_t count,
                            km_subset_fit *fits, km_error *err) {
    int64_t ks = job->clusters_count, slots = job->restarts * ks, size_max = 0, bytes;
    *b = (block){.job = job, .table = (const cpu_engine *)job->table, .count = count};
    for (int64_t q = 0; q < ks; q++) {
        b->k_max = km_max(b->k_max, job->clusters[q]);
        b->k_sum += job->clusters[q];
    }
    for (int64_t i = 0; i < count; i++) size_max = km_max(size_max, subsets[i].size);
    bytes = TILE_POINTS * size_max * b->table->real_bytes;
    b->tasks = calloc((size_t)count, sizeof *b->tasks);
    b->tile = km_pages_alloc(bytes);
    b->list = calloc((size_t)slots, sizeof *b->list);
    b->weights = malloc((size_t)(b->k_max * (size_max + 1)) * sizeof *b->weights);
    if (!b->tasks || !b->tile || !b->list || !b->weights)
        return km_fail_memory(err, "the runs of a block of subsets", bytes);
    for (int64_t i = 0; i < count; i++) {
        b->tasks[i].subset = &subsets[i];
        b->tasks[i].fits = fits + i * ks;
    }
    return KM_OK;
}

static km_status ask_stopped(const km_subsets_job *job, km_error *err) {
    if (!job->stopped || !job->stopped(job->stopped_user)) return KM_OK;
    return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted");
}

// First centroids --------------------------------------------------------------------------------------------

// The picked points of a run are its first centroids. `row` has a value for each of the table's columns.
static void slot_begin(task *t, const block *b, int64_t s, int64_t label_bytes, double *row) {
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
    slot->labels = t->labels + s * label_bytes;
}

// As a fit's: chains of k-means++ (runtime/seed.h) or different random points, by (seed, restart, pick).
static km_status task_pick(task *t, const block *b, km_error *err) {
    const km_subsets_job *job = b->job;
    int64_t first = t->subset->first_restart;
    if (job->init_random)
        return km_seed_random(t->picks, job->data, first, job->restarts, b->k_max, job->seed, err);
    KM_TRY(gather_all(t, b->table, err));
    km_status status = km_cpu_seed_plusplus(&t->view.base, t->picks, first, job->restarts, b->k_max,
                                            job->seed, NULL, NULL, err);
    ungather(t);
    return status;
}

static km_status task_seed(task *t, const block *b, km_error *err) {
    int64_t slots = t->view.base.slots_count, n = km_round_up(b->table->base.n, b->table->soa_points);
    KM_TRY(task_pick(t, b, err));
    t->labels = km_pages_alloc(slots * n);
    double *row = malloc((size_t)b->table->base.d * sizeof *row);
    km_status status =
        t->labels && row ? KM_OK : km_fail_memory(err, "the labels of a subset's runs", slots * n);
    for (int64_t s = 0; status == KM_OK && s < slots; s++) slot_begin(t, b, s, n, row);
    free(row);
    return status;
}

// Passes -----------------------------------------------------------------------------------------------------

// Sums of a tile for the active slots of a subset.
static void task_tile(task *t, block *b, int64_t first, int64_t points) {
    int64_t slots = t->view.base.slots_count, count = 0, pitch = t->view.pitch;
    for (int64_t s = 0; s < slots; s++) {
        cpu_slot *slot = &t->slots[s];
        if (!km_slot_is_active(slot->state.phase)) continue;
        b->list[count++] = (km_cpu_slot){.k = slot->k,
                                         .k_index = slot->k_index,
                                         .table = slot->table,
                                         .labels = (uint8_t *)slot->labels + first,
                                         .sums = slot_partial(t, slot),
                                         .mode = slot->mode,
                                         .labels_bytes = slot->labels_bytes};
    }
    if (count == 0) return;
    gather(b->tile, b->table, t->subset, first, points);
    km_cpu_chunk work = {.points = b->tile,
                         .weights = cpu_weights_at(b->table, first),
                         .points_count = points,
                         .d = t->view.base.d,
                         .soa_points = b->table->soa_points,
                         .slots = b->list,
                         .slots_count = count};
    t->view.kernels.pass(&work);
    for (int64_t s = 0, at = 0; s < slots; s++) {
        cpu_slot *slot = &t->slots[s];
        if (!km_slot_is_active(slot->state.phase)) continue;
        const km_cpu_slot *listed = &b->list[at++];
        double *sums = slot_partial(t, slot);
        slot->changed += listed->changed;
        if (slot->mode == KM_CPU_MOVE && listed->changed == 0) continue;
        for (int64_t i = 0; i < slot->k * pitch; i++) slot->totals[i] += sums[i];
        memset(sums, 0, (size_t)(slot->k * pitch) * sizeof *sums);
    }
}

// A run that is done takes part in the contest of its K.
static km_status slot_done(task *t, const block *b, int64_t s, km_error *err) {
    cpu_slot *slot = &t->slots[s];
    int64_t ks = b->job->clusters_count, d = t->view.base.d, restart = s / ks;
    double *weights = b->weights + slot->k * d;
    memcpy(b->weights, slot->centroids, (size_t)(slot->k * d) * sizeof *weights);
    for (int64_t j = 0; j < slot->k; j++) weights[j] = slot->totals[j * t->view.pitch + d];
    double rounding =
        km_inertia_rounding(b->weights, weights, slot->k, d, b->table->base.n, t->view.total_square);
    t->inertias[s] = slot->state.inertia;
    km_restart done = {restart, slot->state.inertia, rounding, slot->state.iterations, slot->state.converged,
                       0,       b->weights};
    slot->state.phase = KM_SLOT_IDLE;
    t->running--;
    return km_contest_offer(&t->contests[slot->k_index], &done, err);
}

// What becomes of the slots of a subset after a pass.
static km_status task_step(task *t, const block *b, km_error *err) {
    km_status status = KM_OK;
    for (int64_t s = 0; s < t->view.base.slots_count && status == KM_OK; s++) {
        cpu_slot *slot = &t->slots[s];
        int64_t moved;
        if (!km_slot_is_active(slot->state.phase)) continue;
        km_cpu_totals_tidy(&t->view, slot);
        slot->mode = KM_CPU_MOVE;
        km_cpu_slot_step(&t->view, slot, &t->stop);
        if (slot->state.phase == KM_SLOT_EMPTY) {
            if (!t->view.points) status = gather_all(t, b->table, err);
            if (status == KM_OK) status = km_cpu_relocate(&t->view.base, s, &moved, err);
        }
        if (status == KM_OK && slot->state.phase == KM_SLOT_DONE) status = slot_done(t, b, s, err);
    }
    ungather(t);
    return status;
}

// One read of the table for all runs of the block. Returns how many go on.
static km_status block_pass(block *b, int64_t *running, km_error *err) {
    int64_t n = b->table->base.n;
    for (int64_t i = 0; i < b->count; i++) {
        task *t = &b->tasks[i];
        for (int64_t s = 0; t->running && s < t->view.base.slots_count; s++) {
            cpu_slot *slot = &t->slots[s];
            slot->changed = 0;
            if (slot->mode == KM_CPU_MOVE) continue;
            memset(slot->totals, 0, (size_t)(slot->k * t->view.pitch) * sizeof *slot->totals);
        }
    }
    for (int64_t first = 0; first < n; first += TILE_POINTS) {
        for (int64_t i = 0; i < b->count; i++)
            if (b->tasks[i].running) task_tile(&b->tasks[i], b, first, km_min(TILE_POINTS, n - first));
        KM_TRY(ask_stopped(b->job, err));
    }
    *running = 0;
    for (int64_t i = 0; i < b->count; i++) {
        if (b->tasks[i].running) KM_TRY(task_step(&b->tasks[i], b, err));
        *running += b->tasks[i].running;
    }
    return KM_OK;
}

// The best restart of each K.
static km_status task_take_best(task *t, const km_subsets_job *job, km_error *err) {
    int64_t ks = job->clusters_count;
    for (int64_t q = 0; q < ks; q++) {
        const km_restart *winner = km_contest_winner(&t->contests[q]);
        KM_TRY(km_number_clusters(winner->centroids, t->fits[q].k, t->subset->size, err));
        double limit = t->contests[q].limit + AGREE_RELATIVE * fmax(t->contests[q].limit, 0);
        km_subset_fit *fit = &t->fits[q];
        fit->restart = winner->index;
        fit->n_iter = winner->iterations;
        fit->converged = winner->converged;
        fit->restarts_agreed = 0;
        memcpy(fit->centroids, winner->centroids, (size_t)(fit->k * t->subset->size) * sizeof(double));
        for (int64_t r = 0; r < job->restarts; r++) fit->restarts_agreed += t->inertias[r * ks + q] <= limit;
    }
    return KM_OK;
}

// The last read ----------------------------------------------------------------------------------------------

// Centroids as the finishing kernel is given them.
typedef struct finisher {
    km_cpu_finish_model *models; // clusters_count
    void (*kernel)(const km_cpu_finish *finish);
    int64_t row;
    double *memory;
} finisher;

static void finisher_free(finisher *f) {
    free(f->models);
    free(f->memory);
}

static void finisher_model(finisher *f, const block *b, const task *t, int64_t q, double *at) {
    const km_subset_fit *fit = &t->fits[q];
    int64_t k = fit->k, d = t->view.base.d;
    double *centroids = at, *columns = at + k * f->row, *sums = columns + d * KM_CPU_FEW_CLUSTERS;
    void *table = sums + k * KM_CPU_SUMS;
    for (int64_t j = 0; j < k; j++)
        memcpy(centroids + j * f->row, fit->centroids + j * d, (size_t)d * sizeof *centroids);
    for (int64_t j = 0; j < k && k <= KM_CPU_FEW_CLUSTERS; j++)
        for (int64_t i = 0; i < d; i++) columns[i * KM_CPU_FEW_CLUSTERS + j] = fit->centroids[j * d + i];
    km_cpu_table(table, fit->centroids, k, d, b->table->base.plan->spec.type);
    f->models[q] = (km_cpu_finish_model){
        .k = k, .centroids = centroids, .columns = columns, .table = table, .sums = sums};
}

static km_status finisher_init(finisher *f, const block *b, const task *t, km_error *err) {
    const cpu_engine *view = &t->view;
    int64_t ks = b->job->clusters_count, d = view->base.d, numbers = 0;
    int single = view->real_bytes == 4;
    *f = (finisher){.kernel = view->kernels.finish, .row = km_round_up(d, view->kernels.finish_row_multiple)};
    if (single &&
        !(view->largest_square < 1e36 && (view->typical_square > 1e-24 || view->typical_square == 0)))
        f->kernel = km_cpu_finish_double, f->row = d;
    for (int64_t q = 0; q < ks; q++)
        numbers += t->fits[q].k * (f->row + KM_CPU_SUMS + d + 1) + d * KM_CPU_FEW_CLUSTERS;
    f->models = calloc((size_t)(ks > 0 ? ks : 1), sizeof *f->models);
    f->memory = calloc((size_t)numbers, sizeof *f->memory);
    if (!f->models || !f->memory) return km_fail_memory(err, "the last pass", numbers * 8);
    double *at = f->memory;
    for (int64_t q = 0; q < ks; q++) {
        finisher_model(f, b, t, q, at);
        at += t->fits[q].k * (f->row + KM_CPU_SUMS + d + 1) + d * KM_CPU_FEW_CLUSTERS;
    }
    return KM_OK;
}

static void tally_tile(km_subset_fit *fit, const km_tally *tally, const double *weights,
                       const int32_t *labels, int64_t first, int64_t points) {
    int64_t k = fit->k, sums = km_tally_sums(tally);
    const uint32_t *cells = tally->cells + first;
    const double *values = tally->values ? tally->values + first : NULL;
    for (int64_t i = 0; i < points; i++) {
        if (cells[i] == KM_CELL_NONE) continue;
        double w = weights ? weights[i] : 1.0, *row = fit->tallies + cells[i] * sums * k + labels[i];
        row[0] += w;
        if (!values) continue;
        row[k] += w * values[i];
        row[2 * k] += w * values[i] * values[i];
    }
}

static void finish_tile(finisher *f, block *b, task *t, int32_t *labels, int64_t first, int64_t points) {
    const km_subsets_job *job = b->job;
    int64_t ks = job->clusters_count;
    const double *weights = cpu_weights_at(b->table, first);
    for (int64_t q = 0; q < ks; q++) {
        int is_wanted = t->fits[q].tallies || t->fits[q].codes;
        f->models[q].labels = is_wanted ? labels + q * TILE_POINTS : NULL;
    }
    gather(b->tile, b->table, t->subset, first, points);
    km_cpu_finish work = {.points = b->tile,
                          .weights = weights,
                          .points_count = points,
                          .d = t->view.base.d,
                          .soa_points = b->table->soa_points,
                          .row = f->row,
                          .models = f->models,
                          .models_count = ks};
    f->kernel(&work);
    for (int64_t q = 0; q < ks; q++) {
        km_subset_fit *fit = &t->fits[q];
        const int32_t *own = labels + q * TILE_POINTS;
        if (fit->tallies) tally_tile(fit, job->tally, weights, own, first, points);
        for (int64_t i = 0; fit->codes && i < points; i++) fit->codes[first + i] = (uint8_t)own[i];
    }
}

static void finish_take(const finisher *f, task *t, int64_t ks) {
    for (int64_t q = 0; q < ks; q++) {
        km_subset_fit *fit = &t->fits[q];
        const double *sums = f->models[q].sums;
        for (int64_t j = 0; j < fit->k; j++, sums += KM_CPU_SUMS) {
            fit->weights[j] = sums[KM_CPU_SUM_WEIGHT];
            fit->counts[j] = (int64_t)sums[KM_CPU_SUM_COUNT];
            fit->sse[j] = sums[KM_CPU_SUM_SSE];
            fit->distance[j] = sums[KM_CPU_SUM_DISTANCE];
            fit->margin[j] = sums[KM_CPU_SUM_MARGIN];
        }
    }
}

// One read of the table for the best runs of all subsets.
static km_status block_finish(block *b, km_error *err) {
    km_status status = KM_OK;
    int64_t n = b->table->base.n, ks = b->job->clusters_count;
    finisher *all = calloc((size_t)b->count + 1, sizeof *all);
    int32_t *labels = malloc((size_t)ks * TILE_POINTS * sizeof *labels);
    if (!all || !labels) {
        status = km_fail_memory(err, "the last pass", ks * TILE_POINTS * 4);
        goto done;
    }
    for (int64_t i = 0; i < b->count; i++) KM_TRY_GOTO(finisher_init(&all[i], b, &b->tasks[i], err));
    for (int64_t first = 0; first < n; first += TILE_POINTS) {
        for (int64_t i = 0; i < b->count; i++)
            finish_tile(&all[i], b, &b->tasks[i], labels, first, km_min(TILE_POINTS, n - first));
        KM_TRY_GOTO(ask_stopped(b->job, err));
    }
    for (int64_t i = 0; i < b->count; i++) finish_take(&all[i], &b->tasks[i], ks);
done:
    for (int64_t i = 0; all && i < b->count; i++) finisher_free(&all[i]);
    free(all);
    free(labels);
    return status;
}

// -------------------------------------------------------------------------------------------------------------

static km_status tasks_init(block *b, km_error *err) {
    for (int64_t i = 0; i < b->count; i++) KM_TRY(task_init(&b->tasks[i], b, err));
    return KM_OK;
}

km_status km_cpu_subsets_run(const km_subsets_job *job, const km_subset *subsets, int64_t count,
                             km_subset_fit *fits, km_error *err) {
    block b;
    int64_t running = count;
    km_status status = block_init(&b, job, subsets, count, fits, err);
    if (status == KM_OK) status = tasks_init(&b, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++) {
        status = task_seed(&b.tasks[i], &b, err);
        if (status == KM_OK) status = ask_stopped(job, err);
    }
    while (status == KM_OK && running) status = block_pass(&b, &running, err);
    for (int64_t i = 0; i < count && status == KM_OK; i++) status = task_take_best(&b.tasks[i], job, err);
    if (status == KM_OK) status = block_finish(&b, err);
    block_free(&b);
    return status;
}

km_status km_cpu_subsets_finish(const km_subsets_job *job, const km_subset *subsets, int64_t count,
                                km_subset_fit *fits, km_error *err) {
    block b;
    km_status status = block_init(&b, job, subsets, count, fits, err);
    if (status == KM_OK) status = tasks_init(&b, err);
    if (status == KM_OK) status = block_finish(&b, err);
    block_free(&b);
    return status;
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
    return columns + chains + job->restarts * (numbers * 8 + k_max * 8 + n * job->clusters_count);
}

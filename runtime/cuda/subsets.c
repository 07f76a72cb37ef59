// SPDX-License-Identifier: MIT
// Runs on subsets of columns on a GPU: all runs of one size and K share passes. The host looks at them between two
// passes: those that are done leave the list, those with an empty cluster get a point by the engine of their
// subset. A launch takes as many runs as their partial sums have memory for; no result depends on that.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/log.h"
#include "../explore/best.h"
#include "../rounding.h"
#include "../sweep.h"
#include "../threads.h"
#include "subsets_state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The subsets of one size in a call; run i * restarts + r is restart r of subset i.
typedef struct group {
    km_cuda_subsets *s;
    const km_subsets_job *job;
    const km_subset **subsets;
    km_subset_fit **fits; // count x clusters_count
    int64_t count, size, k_max, runs, stride;
    int64_t *picks; // runs x k_max
    // Of the current K.
    int64_t k, q;
    km_slot_state *states; // stride
    double *limits;        // 2 x stride: shift_max, total_square
    int32_t *active;       // stride
    int64_t active_count;
    int64_t at_once;         // runs of a launch
    unsigned char *given_up; // k x stride
    void *numbers, *before;  // k x (size + 1) x stride: the table of centroids, and that of the last pass
    double *weights;         // k x stride
} group;

static void group_free(group *g) {
    free(g->subsets);
    free(g->fits);
    free(g->picks);
    free(g->states);
    free(g->limits);
    free(g->active);
    free(g->given_up);
    free(g->numbers);
    free(g->before);
    free(g->weights);
}

static int64_t table_bytes(const group *g, int64_t k) {
    return k * (g->size + 1) * g->stride * g->s->table->real_bytes;
}

// The subsets of this size.
static km_status group_init(group *g, const km_subset *subsets, int64_t count, km_subset_fit *fits,
                            km_error *err) {
    const km_subsets_job *job = g->job;
    int64_t ks = job->clusters_count;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    g->subsets = calloc((size_t)count, sizeof *g->subsets);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    g->fits = calloc((size_t)(count * ks), sizeof *g->fits);
    if (!g->subsets || !g->fits) return km_fail_memory(err, "the subsets", count * 8);
    for (int64_t i = 0; i < count; i++) {
        if (subsets[i].size != g->size) continue;
        for (int64_t q = 0; q < ks; q++) g->fits[g->count * ks + q] = &fits[i * ks + q];
        g->subsets[g->count++] = &subsets[i];
    }
    if (g->count == 0) return KM_OK;
    for (int64_t q = 0; q < ks; q++) g->k_max = km_max(g->k_max, job->clusters[q]);
    g->runs = g->count * job->restarts;
    g->stride = km_round_up(g->runs, 32);
    g->picks = calloc((size_t)(g->runs * g->k_max), sizeof *g->picks);
    g->states = calloc((size_t)g->stride, sizeof *g->states);
    g->limits = calloc((size_t)g->stride * 2, sizeof *g->limits);
    g->active = calloc((size_t)g->stride, sizeof *g->active);
    g->given_up = calloc((size_t)(g->k_max * g->stride), 1);
    g->numbers = calloc(1, (size_t)table_bytes(g, g->k_max));
    g->before = calloc(1, (size_t)table_bytes(g, g->k_max));
    g->weights = calloc((size_t)(g->k_max * g->stride), sizeof *g->weights);
    if (!g->picks || !g->states || !g->limits || !g->active || !g->given_up || !g->numbers || !g->before ||
        !g->weights)
        return km_fail_memory(err, "the runs on subsets", table_bytes(g, g->k_max));
    return KM_OK;
}

// First centroids ----------------------------------------------------------------------------------------------

// Random points depend on the restart alone, so subsets with the same restarts have the same ones.
static km_status pick_random(group *g, km_error *err) {
    const km_subsets_job *job = g->job;
    int64_t numbers = job->restarts * g->k_max;
    for (int64_t i = 0; i < g->count; i++) {
        int64_t first = g->subsets[i]->first_restart, *picks = g->picks + i * numbers;
        if (i && g->subsets[i - 1]->first_restart == first)
            memcpy(picks, picks - numbers, (size_t)numbers * sizeof *picks);
        else
            KM_TRY(km_seed_random(picks, job->data, first, job->restarts, g->k_max, job->seed, err));
    }
    return KM_OK;
}

// Chains of k-means++, a subset at a time.
static km_status pick_plusplus(group *g, km_error *err) {
    const km_subsets_job *job = g->job;
    km_cuda_engine *view;
    for (int64_t i = 0; i < g->count; i++) {
        KM_TRY(km_subsets_view(&view, g->s, job, g->subsets[i], err));
        KM_TRY(km_cuda_seed(view, g->picks + i * job->restarts * g->k_max, g->subsets[i]->first_restart,
                            job->restarts, g->k_max, job->seed, NULL, NULL, err));
        KM_TRY(km_subsets_ask_stopped(job, err));
    }
    return KM_OK;
}

// The picked points of all runs become centroids of the current K.
static km_status start(group *g, km_error *err) {
    km_cuda_subsets *s = g->s;
    km_cuda_engine *table = s->table;
    int64_t bytes = g->k * g->stride * 8;
    int c = (int)g->size, k = (int)g->k;
    long long *picks = calloc((size_t)(g->k * g->stride), sizeof *picks);
    if (!picks) return km_fail_memory(err, "the first centroids", bytes);
    for (int64_t run = 0; run < g->runs; run++)
        for (int64_t j = 0; j < g->k; j++) picks[j * g->stride + run] = g->picks[run * g->k_max + j];
    km_status status = km_cuda_reserve(table, &s->picks, bytes, "the first centroids", err);
    if (status == KM_OK) status = km_cuda_put(table, s->picks.address, picks, bytes, err);
    free(picks);
    if (status != KM_OK) return status;
    void *arguments[] = {&table->points.address,
                         &s->picks.address,
                         &s->columns.address,
                         &s->numbers.address,
                         &g->stride,
                         &g->runs,
                         &c,
                         &k};
    return km_cuda_launch(table, s->kernels->subsets_start, km_divide_up(g->runs * k, KM_THREADS), 1,
                          arguments, err);
}

// Runs of a K --------------------------------------------------------------------------------------------------

static void set_limits(group *g) {
    const km_subsets_job *job = g->job;
    double total_weight = job->stats->total_weight;
    for (int64_t run = 0; run < g->runs; run++) {
        double variances;
        double square =
            km_subsets_total_square(&variances, job, total_weight, g->subsets[run / job->restarts]);
        // Sums about centroids that moved may differ in their last digits, so a shift may be rounding.
        double rounding =
            km_mean_rounding2(g->s->table->base.n, g->s->table->base.plan->spec.type) * square / total_weight;
        g->limits[run] = fmax(job->tol * (variances / (double)g->size), rounding);
        g->limits[g->stride + run] = square;
    }
}

static km_status reserve(group *g, km_error *err) {
    km_cuda_subsets *s = g->s;
    km_cuda_engine *table = s->table;
    int64_t numbers = g->k * (g->size + 1);
    const struct {
        km_cuda_memory *memory;
        int64_t bytes;
    } wanted[] = {{&s->numbers, table_bytes(g, g->k)},
                  {&s->before, table_bytes(g, g->k)},
                  {&s->weights, g->k * g->stride * 8},
                  {&s->given_up, g->k * g->stride},
                  {&s->states, g->stride * (int64_t)sizeof *g->states},
                  {&s->limits, g->stride * 16},
                  {&s->active, g->stride * 4}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        KM_TRY(km_cuda_reserve(table, wanted[i].memory, wanted[i].bytes, "the runs on subsets", err));
    KM_TRY(km_subsets_reserve_partial(&g->at_once, s, s->spans_count * numbers * table->real_bytes, g->runs,
                                      err));
    return km_cuda_reserve(table, &s->totals, numbers * g->at_once * 8, "the sums of runs", err);
}

static km_status begin(group *g, km_error *err) {
    km_cuda_subsets *s = g->s;
    km_cuda_engine *table = s->table;
    KM_TRY(reserve(g, err));
    set_limits(g);
    memset(g->given_up, 0, (size_t)(g->k * g->stride));
    g->active_count = g->runs;
    for (int64_t run = 0; run < g->runs; run++) {
        g->states[run] = (km_slot_state){.phase = KM_SLOT_RUNNING};
        g->active[run] = (int32_t)run;
    }
    KM_TRY(km_cuda_put(table, s->states.address, g->states, g->stride * (int64_t)sizeof *g->states, err));
    KM_TRY(km_cuda_put(table, s->limits.address, g->limits, g->stride * 16, err));
    KM_TRY(km_cuda_clear(table, s->given_up.address, 0, g->k * g->stride, err));
    return start(g, err);
}

// Assignment, sums and new centroids of the active runs from `first` on.
static km_status launch(group *g, int64_t first, int64_t count, km_error *err) {
    km_cuda_subsets *s = g->s;
    km_cuda_engine *table = s->table;
    const km_cuda_subset_pair *pair = km_subsets_pair(s, g->size, g->k);
    const int *active = (const int *)(uintptr_t)s->active.address + first;
    const double *limits = (const double *)(uintptr_t)s->limits.address;
    long long numbers = g->k * (g->size + 1) * count;
    km_subsets_args args = {.points = (const void *)(uintptr_t)table->points.address,
                            .weights = (const void *)(uintptr_t)table->pass_weights.address,
                            .spans = (const km_span *)(uintptr_t)s->spans.address,
                            .spans_count = s->spans_count,
                            .active = active,
                            .count = count,
                            .columns = (const int *)(uintptr_t)s->columns.address,
                            .table = (void *)(uintptr_t)s->numbers.address,
                            .stride = g->stride,
                            .partial = (void *)(uintptr_t)s->partial.address};
    km_subsets_update_args update = {.active = active,
                                     .count = count,
                                     .c = (int)g->size,
                                     .k = (int)g->k,
                                     .totals = (const double *)(uintptr_t)s->totals.address,
                                     .table = args.table,
                                     .before = (void *)(uintptr_t)s->before.address,
                                     .stride = g->stride,
                                     .weights = (double *)(uintptr_t)s->weights.address,
                                     .given_up = (const unsigned char *)(uintptr_t)s->given_up.address,
                                     .states = (km_slot_state *)(uintptr_t)s->states.address,
                                     .shift_max = limits,
                                     .total_square = limits + g->stride,
                                     .max_iter = g->job->max_iter};
    void *add_arguments[] = {&s->partial.address, &s->starts.address, &numbers, &s->totals.address};
    void *update_arguments[] = {&update};
    KM_TRY(
        km_subsets_launch_pass(s, pair->pass, pair->launch.pass_block, pair->launch.pass_bytes, &args, err));
    KM_TRY(km_cuda_launch(table, s->kernels->subsets_add, km_divide_up(numbers, KM_THREADS), 1, add_arguments,
                          err));
    return km_cuda_launch(table, s->kernels->subsets_update, km_divide_up(count, KM_THREADS), 1,
                          update_arguments, err);
}

static km_status pass(group *g, km_error *err) {
    km_cuda_subsets *s = g->s;
    KM_TRY(km_cuda_put(s->table, s->active.address, g->active, g->active_count * 4, err));
    for (int64_t first = 0; first < g->active_count; first += g->at_once)
        KM_TRY(launch(g, first, km_min(g->at_once, g->active_count - first), err));
    s->distances += s->table->base.n * g->active_count * g->k;
    if (g->job->tally) KM_TRY(km_subsets_order(s, g->job, err)); // once, beside the first pass
    return km_cuda_get(s->table, g->states, s->states.address, g->stride * (int64_t)sizeof *g->states, err);
}

// Empty clusters -----------------------------------------------------------------------------------------------

static double number_get(const group *g, const void *numbers, int64_t number, int64_t run) {
    int64_t at = number * g->stride + run;
    return g->s->table->real_bytes == 8 ? ((const double *)numbers)[at]
                                        : (double)((const float *)numbers)[at];
}

static void number_put(group *g, int64_t number, int64_t run, double value) {
    int64_t at = number * g->stride + run;
    if (g->s->table->real_bytes == 8)
        ((double *)g->numbers)[at] = value;
    else
        ((float *)g->numbers)[at] = (float)value;
}

// A run's centroids of a table: `numbers` or `before`.
static void get_centroids(const group *g, double *centroids, const void *numbers, int64_t run) {
    for (int64_t j = 0; j < g->k; j++)
        for (int64_t f = 0; f < g->size; f++)
            centroids[j * g->size + f] = number_get(g, numbers, j * (g->size + 1) + f, run);
}

static km_status get_tables(group *g, km_error *err) {
    km_cuda_subsets *s = g->s;
    KM_TRY(km_cuda_get(s->table, g->numbers, s->numbers.address, table_bytes(g, g->k), err));
    return km_cuda_get(s->table, g->weights, s->weights.address, g->k * g->stride * 8, err);
}

// A run's empty clusters get points by the slot of its K in the engine of its subset. `row`: k x (size + 1) numbers.
static km_status relocate(group *g, int64_t run, double *row, km_error *err) {
    km_cuda_engine *view;
    int64_t k = g->k, moved, at;
    double *weights = row + k * g->size;
    KM_TRY(km_subsets_view(&view, g->s, g->job, g->subsets[run / g->job->restarts], err));
    at = km_cuda_slot_row(view, g->q);
    unsigned char *given_up = km_cuda_given_up(view) + at;
    get_centroids(g, row, g->before, run);
    KM_TRY(km_cuda_put_rows(view, &view->before, at, row, k, err));
    get_centroids(g, row, g->numbers, run);
    for (int64_t j = 0; j < k; j++) {
        weights[j] = g->weights[j * g->stride + run];
        given_up[j] = g->given_up[j * g->stride + run];
    }
    KM_TRY(km_cuda_put_rows(view, &view->centroids, at, row, k, err));
    KM_TRY(km_cuda_put(view, view->slot_weights.address + (km_cu_ptr)(at * 8), weights, k * 8, err));
    km_cuda_records(view)[g->q].state = g->states[run];
    KM_TRY(km_cuda_relocate(view, g->q, &moved, err));
    g->states[run] = km_cuda_records(view)[g->q].state;
    KM_TRY(km_cuda_get_rows(view, row, &view->centroids, at, k, err));
    for (int64_t j = 0; j < k; j++) {
        g->given_up[j * g->stride + run] = given_up[j];
        for (int64_t f = 0; f < g->size; f++) number_put(g, j * (g->size + 1) + f, run, row[j * g->size + f]);
    }
    return KM_OK;
}

static km_status relocate_all(group *g, km_error *err) {
    km_cuda_subsets *s = g->s;
    km_cuda_engine *table = s->table;
    km_status status = KM_OK;
    int c = (int)g->size, k = (int)g->k;
    double *row = malloc((size_t)(k * (c + 1)) * sizeof *row);
    if (!row) return km_fail_memory(err, "the clusters of a run", (int64_t)k * (c + 1) * 8);
    KM_TRY_GOTO(get_tables(g, err));
    KM_TRY_GOTO(km_cuda_get(table, g->before, s->before.address, table_bytes(g, k), err));
    for (int64_t i = 0; i < g->active_count; i++) {
        if (g->states[g->active[i]].phase != KM_SLOT_EMPTY) continue;
        KM_TRY_GOTO(relocate(g, g->active[i], row, err));
        KM_TRY_GOTO(km_subsets_ask_stopped(g->job, err));
    }
    KM_TRY_GOTO(km_cuda_put(table, s->numbers.address, g->numbers, table_bytes(g, k), err));
    KM_TRY_GOTO(km_cuda_put(table, s->given_up.address, g->given_up, k * g->stride, err));
    KM_TRY_GOTO(
        km_cuda_put(table, s->states.address, g->states, g->stride * (int64_t)sizeof *g->states, err));
    void *arguments[] = {&s->numbers.address, &g->stride, &g->runs, &c, &k};
    KM_TRY_GOTO(km_cuda_launch(table, s->kernels->subsets_constants, km_divide_up(g->runs * k, KM_THREADS), 1,
                               arguments, err));
done:
    free(row);
    return status;
}

// Runs that are done leave the list.
static km_status poll_runs(group *g, km_error *err) {
    int64_t kept = 0;
    int has_empty = 0;
    for (int64_t i = 0; i < g->active_count; i++) has_empty |= g->states[g->active[i]].phase == KM_SLOT_EMPTY;
    if (has_empty) KM_TRY(relocate_all(g, err));
    for (int64_t i = 0; i < g->active_count; i++)
        if (km_slot_is_active(g->states[g->active[i]].phase)) g->active[kept++] = g->active[i];
    g->active_count = kept;
    return km_subsets_ask_stopped(g->job, err);
}

// The best restarts --------------------------------------------------------------------------------------------

// Offers all restarts of one subset, and takes the winner. `row`: scratch; `best`: k x (size + 1); `inertias`: of all.
static km_status take_best(group *g, int64_t i, double *row, double *best, double *inertias, km_error *err) {
    int64_t k = g->k, size = g->size, restarts = g->job->restarts, n = g->s->table->base.n;
    km_contest contest;
    km_contest_init(&contest, best, k * (size + 1) * (int64_t)sizeof *row);
    km_status status = KM_OK;
    for (int64_t r = 0; r < restarts; r++) {
        int64_t run = i * restarts + r;
        get_centroids(g, row, g->numbers, run);
        for (int64_t j = 0; j < k; j++) row[k * size + j] = g->weights[j * g->stride + run];
        inertias[r] = g->states[run].inertia;
        KM_TRY_GOTO(
            km_subset_offer(&contest, r, &g->states[run], row, k, size, n, g->limits[g->stride + run], err));
    }
    status = km_subset_take_best(g->fits[i * g->job->clusters_count + g->q], &contest, size, inertias,
                                 restarts, 1, err);
done:
    km_contest_free(&contest);
    return status;
}

static km_status take_all_best(group *g, km_error *err) {
    int64_t numbers = g->k * (g->size + 1), each = 2 * numbers + g->job->restarts;
    int64_t threads = km_max(1, km_min(g->s->table->threads, g->count / 64));
    double *rows = malloc((size_t)(threads * each) * sizeof *rows);
    if (!rows) return km_fail_memory(err, "the clusters of a run", threads * each * 8);
    km_status status = get_tables(g, err);
    int64_t count = status == KM_OK ? g->count : 0;
#pragma omp parallel for schedule(static) num_threads((int)threads) if (threads > 1)
    for (int64_t i = 0; i < count; i++) {
        double *own = rows + omp_get_thread_num() * each;
        km_error failure = {{0}};
        km_status found = take_best(g, i, own, own + numbers, own + 2 * numbers, &failure);
#pragma omp critical(km_subsets_best)
        if (found != KM_OK && status == KM_OK) status = km_fail(err, found, "%s", failure.text);
    }
    free(rows);
    return status;
}

static km_status finish(group *g, km_error *err) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    km_subset_fit **fits = malloc((size_t)g->count * sizeof *fits);
    if (!fits) return km_fail_memory(err, "the subsets", g->count * 8);
    for (int64_t i = 0; i < g->count; i++) fits[i] = g->fits[i * g->job->clusters_count + g->q];
    km_status status = km_subsets_last_pass(g->s, g->job, g->subsets, fits, g->count, err);
    free(fits);
    return status;
}

// All restarts of one K.
static km_status run_k(group *g, int64_t q, km_error *err) {
    g->q = q;
    g->k = g->job->clusters[q];
    KM_TRY(km_subsets_put_columns(g->s, g->subsets, g->count, g->job->restarts, g->stride, err));
    KM_TRY(begin(g, err));
    KM_TRY(km_cuda_wait(g->s->table, err));
    double begin_ms = km_now_ms();
    int64_t passes = 0, distances = g->s->distances;
    while (g->active_count) {
        KM_TRY(pass(g, err));
        KM_TRY(poll_runs(g, err));
        passes++;
    }
    double passed_ms = km_now_ms();
    KM_TRY(take_all_best(g, err));
    KM_TRY(finish(g, err));
    km_log_line(
        g->s->table->log, KM_LOG_INFO,
        "explore: %lld runs of %lld columns, K = %lld: %lld passes in %.1f ms, %.3g distances; the last one "
        "in %.1f ms",
        (long long)g->runs, (long long)g->size, (long long)g->k, (long long)passes, passed_ms - begin_ms,
        (double)(g->s->distances - distances), km_now_ms() - passed_ms);
    return KM_OK;
}

static km_status run_group(group *g, km_error *err) {
    if (g->count == 0) return KM_OK;
    KM_TRY(g->job->init_random ? pick_random(g, err) : pick_plusplus(g, err));
    for (int64_t q = 0; q < g->job->clusters_count; q++) KM_TRY(run_k(g, q, err));
    return KM_OK;
}

km_status km_cuda_subsets_run(km_cuda_subsets *s, const km_subsets_job *job, const km_subset *subsets,
                              int64_t count, km_subset_fit *fits, km_error *err) {
    km_status status = km_cuda_enter(s->table->device, err);
    for (int64_t v = 0; v < s->views_count && status == KM_OK; v++) {
        group g = {.s = s, .job = job, .size = s->views[v].size};
        status = group_init(&g, subsets, count, fits, err);
        if (status == KM_OK) status = run_group(&g, err);
        group_free(&g);
    }
    km_cuda_leave(s->table->device);
    return status;
}

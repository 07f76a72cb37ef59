// SPDX-License-Identifier: MIT
// The last pass over runs on subsets: what follows from the best centroids of each subset and K, in one read of the
// table. With an outcome rows are read in the order of its cells, so that the weights of clusters in the spans of a
// cell are its tallies.
#include "../../base/error.h"
#include "../threads.h"
#include "subsets_state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A K of subsets of one size.
typedef struct last_pass {
    km_cuda_subsets *s;
    const km_subsets_job *job;
    km_subset_fit *const *fits;
    int64_t c, k, count, cells;
    int64_t per_cluster, numbers; // of a run (templates/cuda/subsets.h)
    double *host;                 // of a launch: [cells][numbers][count]
    double *apart;                // threads x c: of a cluster's mean and its centroid
} last_pass;

// Of the host, for what it does to each subset.
static int64_t threads_of(const last_pass *p) {
    return km_max(1, km_min(p->s->table->threads, p->count / 64));
}

// The table of centroids, a run a subset.
static km_status put_table(const last_pass *p, km_error *err) {
    km_cuda_engine *table = p->s->table;
    int64_t c = p->c, numbers = p->k * (c + 1), bytes = numbers * p->count * table->real_bytes;
    void *rows = calloc((size_t)(numbers * p->count), (size_t)table->real_bytes);
    if (!rows) return km_fail_memory(err, "the centroids of subsets", bytes);
    for (int64_t j = 0; j < p->k; j++)
        for (int64_t f = 0; f < c; f++) {
            int64_t at = (j * (c + 1) + f) * p->count; // of all runs one after the other
            for (int64_t i = 0; i < p->count; i++) {
                double value = p->fits[i]->centroids[j * c + f];
                if (table->real_bytes == 8)
                    ((double *)rows)[at + i] = value;
                else
                    ((float *)rows)[at + i] = (float)value;
            }
        }
    km_status status = km_cuda_reserve(table, &p->s->numbers, bytes, "the centroids of subsets", err);
    if (status == KM_OK) status = km_cuda_put(table, p->s->numbers.address, rows, bytes, err);
    free(rows);
    if (status != KM_OK) return status;
    long long stride = p->count, runs = p->count;
    int size = (int)c, k = (int)p->k;
    void *arguments[] = {&p->s->numbers.address, &stride, &runs, &size, &k};
    return km_cuda_launch(table, p->s->kernels->subsets_constants, km_divide_up(runs * k, KM_THREADS), 1,
                          arguments, err);
}

static km_status put_active(const last_pass *p, km_error *err) {
    int32_t *active = malloc((size_t)p->count * sizeof *active);
    if (!active) return km_fail_memory(err, "the list of runs", p->count * 4);
    for (int64_t i = 0; i < p->count; i++) active[i] = (int32_t)i;
    km_status status = km_cuda_reserve(p->s->table, &p->s->active, p->count * 4, "the list of runs", err);
    if (status == KM_OK) status = km_cuda_put(p->s->table, p->s->active.address, active, p->count * 4, err);
    free(active);
    return status;
}

// Of a number in a launch of `count`, over all cells.
static double sum_cells(const last_pass *p, const double *own, int64_t number, int64_t count) {
    double sum = 0;
    for (int64_t cell = 0; cell < p->cells; cell++) sum += own[(cell * p->numbers + number) * count];
    return sum;
}

// The margin of the one point of cluster j, whose sum about its centroid is `apart`.
static double alone_margin(const km_subset_fit *fit, int64_t j, int64_t c, const double *apart) {
    double nearest = 0, next = INFINITY;
    for (int64_t f = 0; f < c; f++) nearest += apart[f] * apart[f];
    for (int64_t o = 0; o < fit->k; o++) {
        double square = 0;
        for (int64_t f = 0; f < c; f++) {
            double t = fit->centroids[j * c + f] + apart[f] - fit->centroids[o * c + f];
            square += t * t;
        }
        if (o != j && square < next) next = square;
    }
    return fit->k > 1 && next > 0 ? 1 - sqrt(nearest / next) : 0;
}

// Takes the numbers of one subset, `at` in a launch of `count`. Margins are those of clusters of several points.
static void take(const last_pass *p, km_subset_fit *fit, int64_t at, int64_t count) {
    const km_tally *tally = p->job->tally;
    int is_weighted = p->s->table->base.plan->weighted, has_values = tally && tally->values;
    int64_t k = p->k, c = p->c, sums = tally ? km_tally_sums(tally) : 0, largest = 0;
    double roots = sum_cells(p, p->host + at, p->numbers - 2, count), margins = 0;
    double squares = sum_cells(p, p->host + at, p->numbers - 1, count);
    double *apart = p->apart + omp_get_thread_num() * c, alone = 0;
    fit->off_means = 0;
    for (int64_t j = 0; j < k; j++) {
        const double *own = p->host + j * p->per_cluster * count + at;
        double weight = sum_cells(p, own, c, count), square = 0;
        for (int64_t f = 0; f < c; f++) {
            double sum = sum_cells(p, own, f, count);
            square += sum * sum;
            apart[f] = weight > 0 ? sum / weight : 0;
        }
        if (weight > 0) fit->off_means += square / weight;
        fit->sse[j] = fit->distance[j] = fit->margin[j] = 0;
        fit->weights[j] = weight;
        margins += weight;
        fit->counts[j] = (int64_t)(is_weighted ? sum_cells(p, own, c + 1, count) : weight);
        if (fit->counts[j] == 1) alone += weight * alone_margin(fit, j, c, apart);
        if (fit->counts[j] > fit->counts[largest]) largest = j;
        for (int64_t cell = 0; fit->tallies && cell < tally->cells_count; cell++) {
            const double *from = own + cell * p->numbers * count;
            double *to = fit->tallies + cell * sums * k + j;
            to[0] = from[c * count];
            if (!has_values) continue;
            to[k] = from[(p->per_cluster - 2) * count];
            to[2 * k] = from[(p->per_cluster - 1) * count];
        }
    }
    fit->sse[largest] = squares;
    fit->margin[largest] = k > 1 ? margins - roots - alone : 0;
}

// The runs from `first` on.
static km_status launch(const last_pass *p, km_subsets_args args, int64_t first, int64_t count,
                        km_error *err) {
    km_cuda_subsets *s = p->s;
    const km_cuda_subset_pair *pair = km_subsets_pair(s, p->c, p->k);
    const int value_bytes = 16;
    unsigned block = pair->launch.finish_block, bytes = pair->launch.finish_bytes;
    long long numbers = p->numbers * count;
    km_cu_ptr starts = p->job->tally ? s->ordered_starts.address : s->starts.address;
    args.active += first;
    args.count = count;
    if (args.values) bytes += (unsigned)(p->k * block * value_bytes);
    KM_TRY(km_subsets_launch_pass(s, pair->finish, block, bytes, &args, err));
    void *arguments[] = {&s->partial.address, &starts, &numbers, &s->totals.address};
    KM_TRY(km_cuda_launch(s->table, s->kernels->subsets_add_doubles, km_divide_up(numbers, KM_THREADS),
                          p->cells, arguments, err));
    KM_TRY(km_cuda_get(s->table, p->host, s->totals.address, p->cells * numbers * 8, err));
#pragma omp parallel for schedule(static) num_threads((int)threads_of(p))
    for (int64_t i = 0; i < count; i++) take(p, p->fits[first + i], i, count);
    return KM_OK;
}

static km_subsets_args args_of(const last_pass *p) {
    const km_cuda_subsets *s = p->s;
    const km_cuda_engine *table = s->table;
    int is_ordered = p->job->tally != NULL;
    const km_cuda_memory *points = is_ordered ? &s->ordered : &table->points,
                         *weights = is_ordered ? &s->ordered_weights : &table->pass_weights,
                         *spans = is_ordered ? &s->ordered_spans : &s->spans;
    int has_values = is_ordered && p->job->tally->values;
    return (km_subsets_args){.points = (const void *)(uintptr_t)points->address,
                             .weights = (const void *)(uintptr_t)weights->address,
                             .values =
                                 has_values ? (const double *)(uintptr_t)s->ordered_values.address : NULL,
                             .spans = (const km_span *)(uintptr_t)spans->address,
                             .spans_count = is_ordered ? s->ordered_spans_count : s->spans_count,
                             .active = (const int *)(uintptr_t)s->active.address,
                             .columns = (const int *)(uintptr_t)s->columns.address,
                             .table = (void *)(uintptr_t)s->numbers.address,
                             .stride = p->count,
                             .partial = (void *)(uintptr_t)s->partial.address};
}

km_status km_subsets_last_pass(km_cuda_subsets *s, const km_subsets_job *job, const km_subset *const *subsets,
                               km_subset_fit *const *fits, int64_t count, km_error *err) {
    km_status status = KM_OK;
    last_pass p = {s, job, fits, subsets[0]->size, fits[0]->k, count, 1, 0, 0, NULL, NULL};
    int64_t at_once = 0;
    if (job->tally) KM_TRY(km_subsets_order(s, job, err));
    if (job->tally) p.cells = s->cells_count;
    p.per_cluster = p.c + 1 + s->table->base.plan->weighted;
    if (job->tally && job->tally->values) p.per_cluster += KM_SUBSET_VALUES;
    p.numbers = p.k * p.per_cluster + 2;
    KM_TRY(put_table(&p, err));
    KM_TRY(put_active(&p, err));
    KM_TRY(km_subsets_put_columns(s, subsets, count, 1, count, err));
    int64_t spans = job->tally ? s->ordered_spans_count : s->spans_count;
    KM_TRY(km_subsets_reserve_partial(&at_once, s, (spans + p.cells) * p.numbers * 8, count, err));
    int64_t bytes = p.cells * p.numbers * at_once * 8;
    KM_TRY(km_cuda_reserve(s->table, &s->totals, bytes, "the sums of subsets", err));
    p.host = malloc((size_t)bytes + (size_t)(threads_of(&p) * p.c) * sizeof *p.apart);
    if (!p.host) return km_fail_memory(err, "the sums of subsets", bytes);
    p.apart = p.host + bytes / 8;
    for (int64_t first = 0; first < count; first += at_once)
        KM_TRY_GOTO(launch(&p, args_of(&p), first, km_min(at_once, count - first), err));
done:
    free(p.host);
    return status;
}

// Labels, and all that the last read of a subset's own engine tells.
static km_status finish_one(km_cuda_subsets *s, const km_subsets_job *job, const km_subset *subset,
                            km_subset_fit *fit, int32_t *labels, km_error *err) {
    km_cuda_engine *view;
    km_finish_model model = {.k = fit->k,
                             .centroids = fit->centroids,
                             .counts = fit->counts,
                             .weights = fit->weights,
                             .sse = fit->sse,
                             .distance = fit->distance,
                             .margin = fit->margin,
                             .labels = labels};
    KM_TRY(km_subsets_view(&view, s, job, subset, err));
    KM_TRY(km_cuda_finish(view, &model, 1, err));
    for (int64_t i = 0; fit->codes && i < s->table->base.n; i++) fit->codes[i] = (uint8_t)labels[i];
    return KM_OK;
}

km_status km_cuda_subsets_finish(km_cuda_subsets *s, const km_subsets_job *job, const km_subset *subsets,
                                 int64_t count, km_subset_fit *fits, km_error *err) {
    int32_t *labels = malloc((size_t)s->table->base.n * sizeof *labels);
    if (!labels) return km_fail_memory(err, "labels", s->table->base.n * 4);
    km_status status = km_cuda_enter(s->table->device, err);
    for (int64_t i = 0; status == KM_OK && i < count * job->clusters_count; i++)
        status = finish_one(s, job, &subsets[i / job->clusters_count], &fits[i], labels, err);
    km_cuda_leave(s->table->device);
    free(labels);
    return status;
}

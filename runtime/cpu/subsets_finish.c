// SPDX-License-Identifier: MIT
// The last read of subsets of columns: labels as double arithmetic gives them, squares, margins, tallies.
#include "../../base/error.h"
#include "../../base/size.h"
#include "subsets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Squares within clusters are sums of squares less what the centroids explain. What is left must be more than this part
// of all, or too few digits of a double are left.
#define SQUARES_LEFT 1e-5

// Tallies -----------------------------------------------------------------------------------------------------

// Counts of up to so many cells and labels have COPIES copies: additions to one number wait for each other.
enum { COPIES = 4, COPIED_BINS = 256 };
// Words that mark the points of a tile, of each SoA group a word for each cell.
enum { CELL_WORDS = SUBSET_TILE_POINTS / SUBSET_GROUP * SUBSET_CELLS_MAX };

// What is known of one subset and K while the table is read.
typedef struct reading {
    cpu_subset_finish work;
    double *totals;        // k rows of the view's pitch
    const uint64_t *cells; // of the tile, as km_cpu_subset_kernels counts by them; NULL: they are too many
    const cpu_subset_kernels *kernels;
    uint8_t *labels;    // of all points, in the run's order of centroids
    uint8_t place[256]; // the number of a run's centroid in the fit
    uint8_t order[256]; // the run's number of a fit's centroid
    double *centroids;  // k x size, in the run's order
    int64_t *bins;      // of classes without weights: points by cell and label, or NULL
} reading;

static int64_t copies_of(int64_t bins) {
    return bins <= COPIED_BINS ? COPIES : 1;
}

static void count_tile(int64_t *bins, const km_tally *tally, int64_t k, const uint8_t *labels, int64_t first,
                       int64_t points) {
    const uint32_t *cells = tally->cells + first;
    int64_t count = tally->cells_count * k, step = copies_of(count) > 1 ? count : 0;
    for (int64_t i = 0; i < points; i++)
        if (cells[i] != KM_CELL_NONE) bins[i % COPIES * step + cells[i] * k + labels[i]]++;
}

static void tally_tile(double *tallies, const km_tally *tally, int64_t k, const double *weights,
                       const uint8_t *labels, int64_t first, int64_t points) {
    int64_t sums = km_tally_sums(tally);
    const uint32_t *cells = tally->cells + first;
    const double *values = tally->values ? tally->values + first : NULL;
    for (int64_t i = 0; i < points; i++) {
        if (cells[i] == KM_CELL_NONE) continue;
        double w = weights ? weights[i] : 1.0, *row = tallies + cells[i] * sums * k + labels[i];
        row[0] += w;
        if (!values) continue;
        row[k] += w * values[i];
        row[2 * k] += w * values[i] * values[i];
    }
}

// What a tile of labels says of the outcome, and the codes.
static void labels_take(const km_subset_fit *fit, const reading *r, const km_subsets_job *job,
                        const double *weights, const uint8_t *labels, int64_t first, int64_t points) {
    if (r->bins && r->cells)
        r->kernels->count_cells(r->bins, labels, points, fit->k, r->cells, job->tally->cells_count);
    else if (r->bins)
        count_tile(r->bins, job->tally, fit->k, labels, first, points);
    else if (fit->tallies)
        tally_tile(fit->tallies, job->tally, fit->k, weights, labels, first, points);
    for (int64_t i = 0; fit->codes && i < points; i++) fit->codes[first + i] = r->place[labels[i]];
}

// Tallies were made in the run's order of centroids.
static void tallies_take(km_subset_fit *fit, const reading *r, const km_tally *tally, double *row) {
    if (!fit->tallies) return;
    int64_t k = fit->k, rows = tally->cells_count * km_tally_sums(tally), bins = rows * k;
    for (int64_t c = 0; c < rows; c++, fit->tallies += k) {
        for (int64_t j = 0; j < k; j++) {
            row[r->place[j]] = fit->tallies[j];
            for (int64_t o = 0; r->bins && o < copies_of(bins); o++)
                row[r->place[j]] += (double)r->bins[o * bins + c * k + j];
        }
        memcpy(fit->tallies, row, (size_t)k * sizeof *row);
    }
    fit->tallies -= bins;
}

// Columns that are brought together ---------------------------------------------------------------------------

// Centroids as the finishing kernel is given them.
typedef struct finisher {
    km_cpu_finish_model *models; // clusters_count
    void (*kernel)(const km_cpu_finish *finish);
    int64_t row;
    double *memory;
    reading *readings; // of each K
    int by_columns;    // columns are read where they lie
    int has_runs;      // slots have the last labels and sums of their runs
} finisher;

static void finisher_free(finisher *f) {
    free(f->models);
    free(f->memory);
    free(f->readings);
}

static void finisher_model(finisher *f, const cpu_subset_block *b, const cpu_subset_task *t, int64_t q,
                           double *at) {
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

static km_status finisher_init(finisher *f, const cpu_subset_block *b, const cpu_subset_task *t,
                               km_error *err) {
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

// w |c - m|^2 of a cluster with its centroid, and its sums and weight behind them.
static double off_mean(const double *centroid, const double *total, int64_t d) {
    double square = 0;
    if (!(total[d] > 0)) return 0;
    for (int64_t i = 0; i < d; i++) {
        double apart = centroid[i] - total[i] / total[d];
        square += apart * apart;
    }
    return total[d] * square;
}

// `is_first`: labels are wanted, and sums of them where there are runs.
static void gathered_tile(const finisher *f, cpu_subset_block *b, cpu_subset_task *t, int32_t *labels,
                          int64_t first, int64_t points, int is_first) {
    const km_subsets_job *job = b->job;
    int64_t ks = job->clusters_count;
    const double *weights = cpu_weights_at(b->table, first);
    for (int64_t q = 0; q < ks; q++) {
        int is_wanted = is_first && (t->fits[q].tallies || t->fits[q].codes);
        f->models[q].labels = is_wanted ? labels + q * SUBSET_TILE_POINTS : NULL;
    }
    km_cpu_subset_gather(b->tile, b->table, t->subset, first, points);
    if (is_first && f->has_runs) km_cpu_subset_pass(t, b, first, points, 1);
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
        uint8_t bytes[SUBSET_TILE_POINTS];
        if (!f->models[q].labels) continue;
        for (int64_t i = 0; i < points; i++) bytes[i] = (uint8_t)f->models[q].labels[i];
        labels_take(&t->fits[q], &f->readings[q], job, weights, bytes, first, points);
    }
}

static void gathered_take(const finisher *f, cpu_subset_task *t, int64_t ks) {
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
        if (!f->has_runs) continue;
        const cpu_slot *slot = &t->slots[fit->restart * ks + q];
        int64_t d = t->view.base.d, pitch = t->view.pitch;
        fit->off_means = 0;
        for (int64_t j = 0; j < fit->k; j++)
            fit->off_means += off_mean(slot->centroids + j * d, slot->totals + j * pitch, d);
    }
}

// Columns that are read where they lie -------------------------------------------------------------------------

// The order of the run's centroids, and that of the fit, which are the same in another order.
static void places_find(reading *r, const km_subset_fit *fit, const double *own, int64_t size) {
    uint8_t taken[256] = {0};
    for (int64_t j = 0; j < fit->k; j++) {
        int64_t o = 0;
        while (taken[o] || memcmp(own + j * size, fit->centroids + o * size, (size_t)size * sizeof *own) != 0)
            o++;
        taken[o] = 1;
        r->place[j] = (uint8_t)o;
        r->order[o] = (uint8_t)j;
    }
    memcpy(r->centroids, own, (size_t)(fit->k * size) * sizeof *own);
}

// The run that won goes on from its last labels and sums; a fit whose run is not known starts from nothing.
static void reading_begin(reading *r, const cpu_subset_block *b, const cpu_subset_task *t, int64_t q,
                          int has_run) {
    const km_subset_fit *fit = &t->fits[q];
    const cpu_slot *slot = &t->slots[fit->restart * b->job->clusters_count + q];
    int64_t size = t->subset->size;
    places_find(r, fit, has_run ? slot->centroids : fit->centroids, size);
    km_cpu_table(slot->table, r->centroids, fit->k, size, b->table->base.plan->spec.type);
    r->totals = slot->totals;
    r->labels = slot->labels;
    r->cells = b->cells;
    r->kernels = t->columns;
    r->work = (cpu_subset_finish){.centroids = r->centroids, .order = r->order};
    r->work.run = (cpu_subset_run){
        .k = fit->k, .table = slot->table, .sums = b->sums, .mode = has_run ? slot->mode : KM_CPU_FIRST};
}

static void columns_tile(const finisher *f, cpu_subset_block *b, cpu_subset_task *t, int64_t first,
                         int64_t points) {
    cpu_subset_tile tile = km_cpu_subset_tile(b->table, t->subset, first, points);
    for (int64_t q = 0; q < b->job->clusters_count; q++) {
        reading *r = &f->readings[q];
        r->work.run.labels = r->labels + first;
        r->work.run.ahead = km_cpu_subset_ahead(b, t - b->tasks, q, first, 1, q == 0);
        t->columns->finish(&tile, &r->work);
        km_cpu_subset_add(r->totals, b->sums, t->fits[q].k, &t->view);
        labels_take(&t->fits[q], r, b->job, NULL, r->labels + first, first, points);
    }
}

// Squares follow from sums: of |x|^2 over all points, and of x over those of a cluster. Where they would lose digits,
// or a cluster has one point, whose margin is none, the points are to be read again: 0.
static int columns_take(const finisher *f, const cpu_subset_block *b, cpu_subset_task *t, int64_t q) {
    const reading *r = &f->readings[q];
    km_subset_fit *fit = &t->fits[q];
    int64_t d = t->view.base.d, largest = 0;
    double all = 0, within = 0;
    int is_whole = 1;
    fit->off_means = 0;
    for (int64_t i = 0; i < d; i++) all += b->job->squares[t->subset->columns[i]];
    within = all;
    for (int64_t j = 0; j < fit->k; j++) {
        const double *c = r->centroids + j * d, *total = r->totals + j * t->view.pitch;
        int64_t place = r->place[j];
        for (int64_t i = 0; i < d; i++) within -= c[i] * (2 * total[i] - total[d] * c[i]);
        fit->off_means += off_mean(c, total, d);
        fit->weights[place] = total[d];
        fit->counts[place] = (int64_t)total[d];
        fit->sse[place] = fit->margin[place] = fit->distance[place] = 0;
        if (fit->counts[place] > fit->counts[largest]) largest = place;
        is_whole &= fit->counts[place] != 1;
    }
    fit->sse[largest] = within;
    fit->margin[largest] = r->work.margin;
    return is_whole && within > SQUARES_LEFT * all;
}

// -------------------------------------------------------------------------------------------------------------

static km_status readings_init(finisher *f, cpu_subset_block *b, cpu_subset_task *t, int has_runs,
                               km_error *err) {
    const km_subsets_job *job = b->job;
    int64_t ks = job->clusters_count, size = t->subset->size, numbers = 0;
    f->has_runs = has_runs;
    f->by_columns = t->columns && f->kernel != km_cpu_finish_double && job->squares;
    for (int64_t q = 0; q < ks; q++) {
        int64_t k = t->fits[q].k, bins = job->tally ? job->tally->cells_count * k : 0;
        f->by_columns &= k > 1;
        numbers += k * size + bins * copies_of(bins);
    }
    f->readings = calloc(1, (size_t)ks * sizeof *f->readings + (size_t)numbers * sizeof(double));
    if (!f->readings) return km_fail_memory(err, "the last pass", numbers * 8);
    double *at = (double *)(f->readings + ks);
    if (f->by_columns && !t->labels) KM_TRY(km_cpu_subset_labels(t, b, err));
    for (int64_t q = 0; q < ks; q++) {
        reading *r = &f->readings[q];
        int64_t k = t->fits[q].k, bins = job->tally ? job->tally->cells_count * k : 0;
        int is_counted = t->fits[q].tallies && !job->tally->values && !b->table->weights;
        for (int64_t j = 0; j < k; j++) r->place[j] = (uint8_t)j;
        r->centroids = at;
        if (is_counted) r->bins = (int64_t *)(at + k * size);
        at += k * size + bins * copies_of(bins);
        if (f->by_columns) reading_begin(r, b, t, q, has_runs);
    }
    return KM_OK;
}

// Squares and margins of a subset, point by point.
static void read_again(const finisher *f, cpu_subset_block *b, cpu_subset_task *t) {
    int64_t n = b->table->base.n;
    for (int64_t first = 0; first < n; first += SUBSET_TILE_POINTS)
        gathered_tile(f, b, t, NULL, first, km_min(SUBSET_TILE_POINTS, n - first), 0);
    gathered_take(f, t, b->job->clusters_count);
}

static void finisher_take(const finisher *f, cpu_subset_block *b, cpu_subset_task *t) {
    int64_t ks = b->job->clusters_count;
    int is_done = 1;
    for (int64_t q = 0; q < ks; q++) {
        if (f->by_columns) is_done &= columns_take(f, b, t, q);
        tallies_take(&t->fits[q], &f->readings[q], b->job->tally, b->weights);
    }
    if (!f->by_columns)
        gathered_take(f, t, ks);
    else if (!is_done)
        read_again(f, b, t);
}

// The points of each cell in a tile, as bits.
static void cells_mark(cpu_subset_block *b, int64_t first, int64_t points) {
    const km_tally *tally = b->job->tally;
    if (!b->cells) return;
    memset(b->cells, 0, CELL_WORDS * sizeof *b->cells);
    for (int64_t i = 0; i < points; i++) {
        uint32_t cell = tally->cells[first + i];
        if (cell == KM_CELL_NONE) continue;
        b->cells[i / SUBSET_GROUP * SUBSET_CELLS_MAX + cell] |= (uint64_t)1 << i % SUBSET_GROUP;
    }
}

km_status km_cpu_subset_block_finish(cpu_subset_block *b, int has_runs, km_error *err) {
    km_status status = KM_OK;
    int64_t n = b->table->base.n, ks = b->job->clusters_count;
    uint64_t cells[CELL_WORDS];
    if (b->job->tally && b->job->tally->cells_count <= SUBSET_CELLS_MAX) b->cells = cells;
    finisher *all = calloc((size_t)b->count + 1, sizeof *all);
    int32_t *labels = malloc((size_t)ks * SUBSET_TILE_POINTS * sizeof *labels);
    if (!all || !labels) {
        status = km_fail_memory(err, "the last pass", ks * SUBSET_TILE_POINTS * 4);
        goto done;
    }
    for (int64_t i = 0; i < b->count; i++) {
        KM_TRY_GOTO(finisher_init(&all[i], b, &b->tasks[i], err));
        KM_TRY_GOTO(readings_init(&all[i], b, &b->tasks[i], has_runs, err));
    }
    for (int64_t first = 0; first < n; first += SUBSET_TILE_POINTS) {
        int64_t points = km_min(SUBSET_TILE_POINTS, n - first);
        cells_mark(b, first, points);
        for (int64_t i = 0; i < b->count; i++) {
            if (all[i].by_columns) {
                columns_tile(&all[i], b, &b->tasks[i], first, points);
                continue;
            }
            km_cpu_subset_fetch(b, i, first, 1);
            gathered_tile(&all[i], b, &b->tasks[i], labels, first, points, 1);
        }
        KM_TRY_GOTO(km_subsets_ask_stopped(b->job, err));
    }
    for (int64_t i = 0; i < b->count; i++) finisher_take(&all[i], b, &b->tasks[i]);
done:
    for (int64_t i = 0; all && i < b->count; i++) finisher_free(&all[i]);
    b->cells = NULL;
    free(all);
    free(labels);
    return status;
}

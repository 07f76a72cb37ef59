// SPDX-License-Identifier: MIT
// Subsets of columns on a GPU: kernels, spans of the points, memory; and engines for the columns of one subset at a
// time, which do what the steps around a pass do for a fit.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/order.h"
#include "../../gen/cuda/subsets.h"
#include "../seed.h"
#include "../rounding.h"
#include "subsets_state.h"
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_ROWS = 128 };
#define PARTIAL_BYTES ((int64_t)8 << 30)

// Spans --------------------------------------------------------------------------------------------------------

// Spans of `points` points from `first` on; how many there are.
static int64_t add_spans(km_span *spans, int64_t first, int64_t points) {
    int64_t count = 0;
    for (int64_t at = 0; at < points; at += KM_SPAN_POINTS)
        spans[count++] = (km_span){first + at, (int)km_min(KM_SPAN_POINTS, points - at), 0};
    return count;
}

// Copies spans, and where those of each cell start.
static km_status put_spans(km_cuda_subsets *s, km_cuda_memory *spans_memory, km_cuda_memory *starts_memory,
                           const km_span *spans, const long long *starts, int64_t cells, km_error *err) {
    int64_t bytes = starts[cells] * (int64_t)sizeof *spans;
    KM_TRY(km_cuda_reserve(s->table, spans_memory, bytes + 1, "the spans of points", err));
    KM_TRY(km_cuda_reserve(s->table, starts_memory, (cells + 1) * 8, "the spans of points", err));
    KM_TRY(km_cuda_put(s->table, spans_memory->address, spans, bytes, err));
    return km_cuda_put(s->table, starts_memory->address, starts, (cells + 1) * 8, err);
}

static km_status make_spans(km_cuda_subsets *s, km_error *err) {
    int64_t n = s->table->base.n;
    km_span *spans = malloc((size_t)(km_divide_up(n, KM_SPAN_POINTS) + 1) * sizeof *spans);
    if (!spans) return km_fail_memory(err, "the spans of points", n / KM_SPAN_POINTS);
    s->spans_count = add_spans(spans, 0, n);
    long long starts[] = {0, s->spans_count};
    km_status status = put_spans(s, &s->spans, &s->starts, spans, starts, 1, err);
    free(spans);
    return status;
}

// Rows by cell, each cell from a multiple of KM_SPAN_ALIGN on.
typedef struct row_order {
    long long *rows; // -1: nothing, up to where the next cell begins
    int64_t count;
    km_span *spans;
    long long *starts; // cells + 1: spans
} row_order;

static void order_free(row_order *order) {
    free(order->rows);
    free(order->spans);
    free(order->starts);
}

static int64_t cell_of(const km_tally *tally, int64_t i) {
    return tally->cells[i] == KM_CELL_NONE ? tally->cells_count : (int64_t)tally->cells[i];
}

// Each of `parts` spans of rows counts its cells, and then writes its rows where those of the parts before it end.
static km_status order_rows(row_order *order, const km_tally *tally, int64_t n, int64_t threads,
                            km_error *err) {
    int64_t cells = tally->cells_count + 1, spans = 0, parts = km_max(1, km_min(threads, n / 65536));
    int64_t *counts =
        calloc((size_t)(parts * cells), sizeof *counts); // then, where a part's next row is written
    order->starts = calloc((size_t)cells + 1, sizeof *order->starts);
    order->spans = malloc((size_t)(n / KM_SPAN_POINTS + cells + 1) * sizeof *order->spans);
    order->rows = malloc((size_t)(n + cells * KM_SPAN_ALIGN) * sizeof *order->rows);
    km_status status = counts && order->starts && order->spans && order->rows
                           ? KM_OK
                           : km_fail_memory(err, "the order of the outcome's classes", n * 8);
    if (status != KM_OK) goto done;
#pragma omp parallel for schedule(static, 1) num_threads((int)parts) if (parts > 1)
    for (int64_t part = 0; part < parts; part++)
        for (int64_t i = n * part / parts; i < n * (part + 1) / parts; i++)
            counts[part * cells + cell_of(tally, i)]++;
    for (int64_t cell = 0; cell < cells; cell++) {
        int64_t first = order->count;
        for (int64_t part = 0; part < parts; part++) {
            int64_t own = counts[part * cells + cell];
            counts[part * cells + cell] = order->count;
            order->count += own;
        }
        order->starts[cell] = spans;
        spans += add_spans(order->spans + spans, first, order->count - first);
        for (; order->count % KM_SPAN_ALIGN; order->count++) order->rows[order->count] = -1;
    }
    order->starts[cells] = spans;
#pragma omp parallel for schedule(static, 1) num_threads((int)parts) if (parts > 1)
    for (int64_t part = 0; part < parts; part++)
        for (int64_t i = n * part / parts; i < n * (part + 1) / parts; i++)
            order->rows[counts[part * cells + cell_of(tally, i)]++] = i;
done:
    free(counts);
    return status;
}

// Weights in the points' type and values of the outcome, in that order.
static km_status put_ordered(km_cuda_subsets *s, const km_subsets_job *job, const row_order *order,
                             km_error *err) {
    const double *weights = km_data_weights(job->data), *values = job->tally->values;
    int64_t count = order->count + KM_PAD_ROWS, real = s->table->real_bytes;
    double *doubles = calloc((size_t)count, sizeof *doubles);
    if (!doubles) return km_fail_memory(err, "the order of the outcome's classes", count * 8);
    km_status status = KM_OK;
    if (values) {
        for (int64_t i = 0; i < order->count; i++)
            doubles[i] = order->rows[i] < 0 ? 0 : values[order->rows[i]];
        KM_TRY_GOTO(km_cuda_reserve(s->table, &s->ordered_values, count * 8, "the outcome", err));
        KM_TRY_GOTO(km_cuda_put(s->table, s->ordered_values.address, doubles, count * 8, err));
    }
    if (s->table->base.plan->weighted) {
        for (int64_t i = 0; i < order->count; i++) {
            double weight = order->rows[i] < 0 ? 0 : weights ? weights[order->rows[i]] : 1;
            float single = (float)weight;
            if (real == 8)
                doubles[i] = weight;
            else
                memcpy((char *)doubles + i * (int64_t)sizeof single, &single, sizeof single);
        }
        KM_TRY_GOTO(
            km_cuda_reserve(s->table, &s->ordered_weights, count * real, "the weights of points", err));
        KM_TRY_GOTO(km_cuda_put(s->table, s->ordered_weights.address, doubles, count * real, err));
    }
done:
    free(doubles);
    return status;
}

static km_status put_order(km_cuda_subsets *s, const km_subsets_job *job, row_order *order, km_error *err) {
    km_cuda_engine *table = s->table;
    int64_t d = table->base.d, row = d * table->real_bytes;
    long long count = order->count;
    km_cuda_memory rows = {0};
    km_status status = KM_OK;
    KM_TRY_GOTO(put_spans(s, &s->ordered_spans, &s->ordered_starts, order->spans, order->starts,
                          job->tally->cells_count + 1, err));
    KM_TRY_GOTO(put_ordered(s, job, order, err));
    KM_TRY_GOTO(km_cuda_reserve(table, &s->ordered, (count + KM_PAD_ROWS) * row,
                                "the rows in the order of the outcome's classes", err));
    KM_TRY_GOTO(
        km_cuda_clear(table, s->ordered.address + (km_cu_ptr)(count * row), 0, KM_PAD_ROWS * row, err));
    KM_TRY_GOTO(km_cuda_reserve(table, &rows, count * 8, "the order of rows", err));
    KM_TRY_GOTO(km_cuda_upload(table, rows.address, order->rows, count * 8, 0, NULL, err));
    void *arguments[] = {&table->points.address, &rows.address, &count, &s->ordered.address};
    KM_TRY_GOTO(km_cuda_launch(table, s->kernels->subsets_rows, km_divide_up(count * d, KM_THREADS), 1,
                               arguments, err));
    KM_TRY_GOTO(km_cuda_wait(table, err));
    s->ordered_spans_count = order->starts[job->tally->cells_count + 1];
    s->cells_count = job->tally->cells_count + 1;
done:
    km_cuda_release(table, &rows);
    return status;
}

km_status km_subsets_order(km_cuda_subsets *s, const km_subsets_job *job, km_error *err) {
    row_order order = {0};
    if (s->cells_count) return KM_OK;
    km_status status = order_rows(&order, job->tally, s->table->base.n, s->table->threads, err);
    if (status == KM_OK) status = put_order(s, job, &order, err);
    order_free(&order);
    return status;
}

// Memory and launches ------------------------------------------------------------------------------------------

const km_cuda_subset_pair *km_subsets_pair(const km_cuda_subsets *s, int64_t c, int64_t k) {
    const km_cuda_kernels *kernels = s->kernels;
    for (int64_t i = 0; i < kernels->pairs_count; i++)
        if (kernels->pairs[i].launch.c == c && kernels->pairs[i].launch.k == k) return &kernels->pairs[i];
    return NULL;
}

km_status km_subsets_put_columns(km_cuda_subsets *s, const km_subset *const *subsets, int64_t count,
                                 int64_t runs, int64_t stride, km_error *err) {
    int64_t size = subsets[0]->size, bytes = size * stride * (int64_t)sizeof(int32_t);
    int32_t *columns = calloc((size_t)(size * stride), sizeof *columns);
    if (!columns) return km_fail_memory(err, "the columns of runs", bytes);
    for (int64_t i = 0; i < count; i++)
        for (int64_t r = 0; r < runs; r++)
            for (int64_t f = 0; f < size; f++) columns[f * stride + i * runs + r] = subsets[i]->columns[f];
    km_status status = km_cuda_reserve(s->table, &s->columns, bytes, "the columns of runs", err);
    if (status == KM_OK) status = km_cuda_put(s->table, s->columns.address, columns, bytes, err);
    free(columns);
    return status;
}

km_status km_subsets_reserve_partial(int64_t *runs, km_cuda_subsets *s, int64_t run_bytes, int64_t count,
                                     km_error *err) {
    const int64_t spare = 512 << 20;
    size_t left = 0, all = 0;
    s->table->driver->cuMemGetInfo(&left, &all);
    int64_t most = km_min((int64_t)left + s->partial.bytes - spare, PARTIAL_BYTES);
    *runs = km_min(count, km_max(most / run_bytes / 32 * 32, 32));
    return km_cuda_reserve(s->table, &s->partial, *runs * run_bytes, "the sums of runs", err);
}

km_status km_subsets_launch_pass(km_cuda_subsets *s, km_cu_function function, unsigned block, unsigned bytes,
                                 km_subsets_args *args, km_error *err) {
    const int64_t rows_max = 65535; // of a grid; blocks stride
    km_status status = KM_OK;
    const km_driver *driver = s->table->driver;
    void *arguments[] = {args};
    KM_CU(cuLaunchKernel(function, (unsigned)km_divide_up(args->count, block),
                         (unsigned)km_min(args->spans_count, rows_max), 1, block, 1, 1, bytes,
                         s->table->stream, arguments, NULL));
done:
    return status;
}

// One subset at a time -----------------------------------------------------------------------------------------

double km_subsets_total_square(double *variances, const km_subsets_job *job, double total_weight,
                               const km_subset *subset) {
    const km_data_stats *stats = job->stats;
    double squares = 0;
    *variances = 0;
    for (int64_t f = 0; f < subset->size; f++) {
        int64_t c = subset->columns[f];
        double mean = (stats->mean[c] - job->centre[c]) * job->factor[c];
        *variances += stats->variance[c] * job->factor[c] * job->factor[c];
        squares += mean * mean;
    }
    return (*variances + squares) * total_weight;
}

// As km_data_stats.typical_square, of a subset's columns.
static double typical_square(const km_cuda_subsets *s, const km_subset *subset) {
    double squares[SAMPLE_ROWS] = {0};
    int64_t count = s->sample_rows, at = count / 2;
    for (int64_t i = 0; i < count; i++) {
        const double *row = s->sample + i * s->table->base.d;
        squares[i] = 0;
        for (int64_t f = 0; f < subset->size; f++)
            squares[i] += row[subset->columns[f]] * row[subset->columns[f]];
    }
    qsort(squares, (size_t)count, sizeof *squares, km_by_value);
    while (at + 1 < count && !(squares[at] > 0)) at++;
    return squares[at];
}

static km_status take_sample(km_cuda_subsets *s, km_error *err) {
    int64_t n = s->table->base.n, indices[SAMPLE_ROWS];
    s->sample_rows = km_min(n, SAMPLE_ROWS);
    if (!s->sample) s->sample = malloc((size_t)(s->sample_rows * s->table->base.d) * sizeof *s->sample);
    if (!s->sample) return km_fail_memory(err, "a sample of the rows", s->sample_rows * s->table->base.d * 8);
    for (int64_t i = 0; i < s->sample_rows; i++)
        indices[i] = (int64_t)((double)i * (double)n / (double)s->sample_rows);
    return km_cuda_rows(s->table, s->sample, indices, s->sample_rows, err);
}

// Points and weights of a view: its points are filled by km_subsets_view, weights are the table's.
static km_status view_reserve(km_cuda_engine *view, const km_cuda_engine *table, km_error *err) {
    int64_t n = table->base.n, row = view->base.d * view->real_bytes;
    view->base.n = n;
    view->subchunks_count = table->subchunks_count;
    view->chunks_count = table->chunks_count;
    view->weights = table->weights;
    view->pass_weights = table->pass_weights;
    view->subchunk_weights = table->subchunk_weights;
    view->rounding2 = km_mean_rounding2(n, view->base.plan->spec.type);
    view->has_no_pass = 1;
    KM_TRY(km_cuda_reserve(view, &view->points, (n + KM_PAD_ROWS) * row, "the columns of a subset", err));
    KM_TRY(km_cuda_clear(view, view->points.address + (km_cu_ptr)(n * row), 0, KM_PAD_ROWS * row, err));
    return km_cuda_reserve_slots(view, err);
}

static km_status view_make(km_subset_view *view, km_cuda_subsets *s, const km_subsets_job *job,
                           km_error *err) {
    const km_plan *plan = s->table->base.plan;
    km_build_params params = {.module = s->module_params};
    km_spec spec;
    km_spec_init(&spec);
    km_plan_params_init(&params.plan);
    params.spec = &spec;
    params.plan.points = s->table->base.n;
    params.plan.weighted = plan->weighted;
    params.plan.untuned = 1;
    spec.features = view->size;
    spec.type = plan->spec.type;
    spec.n_init = 1;
    spec.layout = KM_LAYOUT_DENSE;
    spec.target = plan->spec.target;
    km_status status = KM_OK;
    spec.clusters = malloc((size_t)job->clusters_count * sizeof *spec.clusters);
    if (!spec.clusters) status = km_fail_memory(err, "the list of K", job->clusters_count * 4);
    if (status == KM_OK) {
        spec.clusters_count = job->clusters_count;
        memcpy(spec.clusters, job->clusters, (size_t)job->clusters_count * sizeof *spec.clusters);
        status = km_build_on(&view->build, s->device, &params, err);
    }
    if (status == KM_OK)
        status = s->device->backend->engine_create(&view->engine, view->build.module->kernels,
                                                   s->table->threads, s->table->log, err);
    if (status == KM_OK) status = view_reserve((km_cuda_engine *)view->engine, s->table, err);
    km_spec_clear(&spec);
    return status;
}

static void view_clear(km_subset_view *view) {
    km_cuda_engine *engine = (km_cuda_engine *)view->engine;
    if (engine) { // these are the table's
        engine->weights = engine->pass_weights = engine->subchunk_weights = (km_cuda_memory){0};
        engine->base.backend->engine_destroy(&view->engine);
    }
    km_build_clear(&view->build);
}

km_status km_subsets_view(km_cuda_engine **out, km_cuda_subsets *s, const km_subsets_job *job,
                          const km_subset *subset, km_error *err) {
    km_subset_view *view = s->views;
    while (view->size != subset->size) view++;
    if (!view->engine) KM_TRY(view_make(view, s, job, err));
    km_cuda_engine *engine = *out = (km_cuda_engine *)view->engine;
    double variances, total_weight = job->stats->total_weight;
    engine->total_square = km_subsets_total_square(&variances, job, total_weight, subset);
    engine->rounding_shift = engine->rounding2 * engine->total_square / total_weight;
    engine->square_min = engine->rounding2 * typical_square(s, subset);
    km_cuda_relocate_forget(engine);
    int64_t bytes = subset->size * (int64_t)sizeof(int32_t), stride = 1;
    KM_TRY(km_cuda_reserve(s->table, &s->view_columns, bytes, "the columns of a subset", err));
    KM_TRY(km_cuda_put(engine, s->view_columns.address, subset->columns, bytes, err));
    long long n = engine->base.n;
    int c = (int)subset->size;
    void *arguments[] = {&s->table->points.address, &n, &s->view_columns.address, &stride, &c,
                         &engine->points.address};
    return km_cuda_launch(engine, s->kernels->subsets_columns, km_divide_up(n * c, KM_THREADS), 1, arguments,
                          err);
}

// Permuted columns ---------------------------------------------------------------------------------------------

static void order_make(uint32_t *order, int64_t n, uint64_t seed, int64_t turn, int64_t column) {
    for (int64_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = km_subsets_exchanged(seed, turn, column, i);
        uint32_t other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
}

static km_status permuted_reserve(km_cuda_subsets *s, km_error *err) {
    km_cuda_engine *table = s->table;
    int64_t n = table->base.n, row = table->base.d * table->real_bytes;
    if (n > UINT32_MAX)
        return km_fail(err, KM_ERROR_PLAN,
                       "%lld rows are too many to permute on a GPU; choose the CPU (-t cpu)", (long long)n);
    KM_TRY(km_cuda_reserve(table, &s->permuted, (n + KM_PAD_ROWS) * row, "the permuted columns", err));
    KM_TRY(km_cuda_clear(table, s->permuted.address + (km_cu_ptr)(n * row), 0, KM_PAD_ROWS * row, err));
    return km_cuda_reserve(table, &s->order, n * (int64_t)sizeof(uint32_t), "the order of a column", err);
}

// Fills the permuted table from the points, some columns at a time.
static km_status permute_columns(km_cuda_subsets *s, uint64_t seed, int64_t turn, km_error *err) {
    km_cuda_engine *table = s->table;
    int64_t n = table->base.n, d = table->base.d, at_once = km_min(d, table->threads);
    long long count = n;
    uint32_t *orders = malloc((size_t)(n * at_once) * sizeof *orders);
    if (!orders) return km_fail_memory(err, "the orders of columns", n * at_once * 4);
    km_status status = KM_OK;
    for (int64_t first = 0; first < d && status == KM_OK; first += at_once) {
        int64_t columns = km_min(at_once, d - first);
#pragma omp parallel for schedule(static, 1) num_threads((int)columns)
        for (int64_t c = 0; c < columns; c++) order_make(orders + c * n, n, seed, turn, first + c);
        for (int64_t c = 0; c < columns && status == KM_OK; c++) {
            int column = (int)(first + c);
            void *arguments[] = {&table->points.address, &s->order.address, &count, &column,
                                 &s->permuted.address};
            status = km_cuda_put(table, s->order.address, orders + c * n, n * (int64_t)sizeof *orders, err);
            if (status == KM_OK)
                status = km_cuda_launch(table, s->kernels->subsets_permute, km_divide_up(n, KM_THREADS), 1,
                                        arguments, err);
        }
    }
    if (status == KM_OK) status = km_cuda_wait(table, err);
    free(orders);
    return status;
}

static void exchange_tables(km_cuda_subsets *s) {
    km_cuda_memory points = s->table->points;
    s->table->points = s->permuted;
    s->permuted = points;
    s->is_permuted = !s->is_permuted;
}

km_status km_cuda_subsets_permute(km_cuda_subsets *s, uint64_t seed, int64_t turn, int undo, km_error *err) {
    km_status status = km_cuda_enter(s->table->device, err);
    if (s->is_permuted) exchange_tables(s);
    if (status == KM_OK && !undo) status = permuted_reserve(s, err);
    if (status == KM_OK && !undo) status = permute_columns(s, seed, turn, err);
    if (status == KM_OK && !undo) exchange_tables(s);
    if (status == KM_OK) status = take_sample(s, err);
    km_cuda_leave(s->table->device);
    return status;
}

// Making and unmaking ------------------------------------------------------------------------------------------

static km_status make(km_cuda_subsets *s, const km_subsets_job *job, const int32_t *sizes,
                      int64_t sizes_count, km_error *err) {
    km_subset_shapes shapes = {sizes, sizes_count, job->clusters, job->clusters_count};
    s->views = calloc((size_t)sizes_count, sizeof *s->views);
    if (!s->views) return km_fail_memory(err, "the sizes of subsets", sizes_count);
    s->views_count = sizes_count;
    for (int64_t i = 0; i < sizes_count; i++) {
        s->views[i].size = sizes[i];
        km_build_init(&s->views[i].build);
    }
    KM_TRY(km_subsets_emit(&s->source, s->table->base.plan, &shapes, NULL, err));
    KM_TRY(km_module_get(&s->module, &s->source, s->device, KM_MODULE_LOAD, &s->module_params, NULL, err));
    s->kernels = (const km_cuda_kernels *)s->module->kernels;
    KM_TRY(km_cuda_enter(s->table->device, err));
    km_status status = make_spans(s, err);
    if (status == KM_OK) status = take_sample(s, err);
    km_cuda_leave(s->table->device);
    return status;
}

km_status km_cuda_subsets_create(km_cuda_subsets **out, const km_subsets_job *job, const int32_t *sizes,
                                 int64_t sizes_count, const km_module_params *module, km_error *err) {
    km_cuda_subsets *s = *out = calloc(1, sizeof *s);
    if (!s) return km_fail_memory(err, "the runs on subsets", sizeof *s);
    s->table = (km_cuda_engine *)job->table;
    s->device = s->table->base.kernels->device;
    s->module_params = *module;
    km_source_init(&s->source);
    km_status status = make(s, job, sizes, sizes_count, err);
    if (status != KM_OK) km_cuda_subsets_destroy(out);
    return status;
}

void km_cuda_subsets_destroy(km_cuda_subsets **subsets) {
    km_cuda_subsets *s = *subsets;
    if (!s) return;
    for (int64_t i = 0; i < s->views_count; i++) view_clear(&s->views[i]);
    km_cuda_memory *const memories[] = {
        &s->spans,          &s->starts,        &s->columns,        &s->numbers,  &s->before,
        &s->weights,        &s->given_up,      &s->states,         &s->limits,   &s->active,
        &s->picks,          &s->partial,       &s->totals,         &s->ordered,  &s->ordered_weights,
        &s->ordered_values, &s->ordered_spans, &s->ordered_starts, &s->permuted, &s->order};
    if (km_cuda_enter(s->table->device, NULL) == KM_OK) {
        s->table->driver->cuStreamSynchronize(s->table->stream);
        for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
            km_cuda_release(s->table, memories[i]);
        km_cuda_leave(s->table->device);
    }
    km_module_destroy(&s->module);
    km_source_clear(&s->source);
    free(s->views);
    free(s->sample);
    free(s);
    *subsets = NULL;
}

int64_t km_cuda_subsets_block(const km_subsets_job *job) {
    const int64_t spans_enough = 24 << 20; // of runs
    int64_t spans = km_divide_up(job->table->n, KM_SPAN_POINTS) * job->restarts;
    return km_max(km_min(spans_enough / spans, 4096), 32);
}

int64_t km_cuda_subsets_bytes(const km_subsets_job *job, int64_t size) {
    int64_t spans = km_divide_up(job->table->n, KM_SPAN_POINTS),
            real = km_type_bytes(job->table->plan->spec.type);
    int64_t k_max = 0, sums;
    for (int64_t q = 0; q < job->clusters_count; q++) k_max = km_max(k_max, job->clusters[q]);
    sums = km_max(job->restarts * k_max * (size + 1) * real, (k_max * (size + 2 + KM_SUBSET_VALUES) + 2) * 8);
    return spans * sums + job->restarts * k_max * (size + 1) * (2 * real + 16);
}

int64_t km_cuda_subsets_distances(const km_cuda_subsets *s) {
    return s->distances;
}

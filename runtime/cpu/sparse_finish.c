// SPDX-License-Identifier: MIT
// The last pass over points that lie as CSR, and their silhouette: scores in double of all models side by side.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../silhouette.h"
#include "../threads.h"
#include "sparse_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct finish_table {
    cpu_sparse_table table; // columns: the centroids of all models, then the means of those that have some
    int64_t *mean_columns;  // of each model: its first column of means; 0: it has none
    void *memory;
    double *scores; // of each thread
} finish_table;

void km_cpu_sparse_finish_destroy(cpu_finish_pass *pass) {
    finish_table *own = pass->own;
    if (!own) return;
    km_pages_free(own->memory);
    free(own->mean_columns);
    free(own->scores);
    free(own);
}

// Columns of the models' centroids and means; where `rows` is not NULL, with their rows.
static int64_t put_columns(finish_table *own, const double **rows, const km_finish_model *models,
                           int64_t count, int64_t d) {
    int64_t column = 0;
    for (int64_t m = 0; m < count; m++)
        for (int64_t j = 0; j < models[m].k; j++, column++)
            if (rows) rows[column] = models[m].centroids + j * d;
    for (int64_t m = 0; m < count; m++) {
        own->mean_columns[m] = models[m].means ? column : 0;
        for (int64_t j = 0; models[m].means && j < models[m].k; j++, column++)
            if (rows) rows[column] = models[m].means + j * d;
    }
    return column;
}

km_status km_cpu_sparse_finish_create(cpu_finish_pass *pass, const km_finish_model *models, km_error *err) {
    const cpu_engine *engine = pass->engine;
    finish_table *own = pass->own = calloc(1, sizeof *own);
    if (!own) return km_fail_memory(err, "the finishing pass", (int64_t)sizeof *own);
    own->mean_columns = calloc((size_t)pass->count, sizeof *own->mean_columns);
    if (!own->mean_columns) return km_fail_memory(err, "the finishing pass", pass->count * 8);
    int64_t columns = put_columns(own, NULL, models, pass->count, engine->base.d);
    KM_TRY(km_cpu_sparse_double_table(&own->table, &own->memory, engine, columns, err));
    int64_t count = pass->threads * km_cpu_sparse_scores_count(&own->table);
    const double **rows = malloc((size_t)columns * sizeof *rows);
    own->scores = calloc((size_t)count, sizeof *own->scores);
    km_status status = own->scores && rows ? KM_OK : km_fail_memory(err, "the finishing pass", count * 8);
    if (status == KM_OK) {
        put_columns(own, rows, models, pass->count, engine->base.d);
        km_cpu_sparse_fill(&own->table, engine, rows);
    }
    free(rows);
    return status;
}

void km_cpu_sparse_finish(const cpu_finish_pass *pass, km_cpu_finish_model *models, int64_t first,
                          int64_t count) {
    const cpu_engine *engine = pass->engine;
    const finish_table *own = pass->own;
    const cpu_sparse_table *table = &own->table;
    double *scores = own->scores + omp_get_thread_num() * km_cpu_sparse_scores_count(table);
    for (int64_t at = 0; at < count; at += SPARSE_AT_A_TIME) {
        int64_t here = km_min(SPARSE_AT_A_TIME, count - at), column = 0;
        km_cpu_sparse_scores(scores, engine, table, first + at, here);
        for (int64_t m = 0; m < pass->count; column += models[m++].k) {
            int32_t label[SPARSE_AT_A_TIME];
            double square[SPARSE_AT_A_TIME];
            const cpu_sparse_model model = {.label = label,
                                            .first = square,
                                            .sums = models[m].sums,
                                            .scores = scores + column,
                                            .means =
                                                own->mean_columns[m] ? scores + own->mean_columns[m] : NULL,
                                            .squares = km_cpu_sparse_squares(scores, table),
                                            .weights = cpu_weights_at(engine, first + at),
                                            .stride = table->stride,
                                            .k = models[m].k};
            engine->sparse->kernels->finish(&model, here);
            if (models[m].labels) memcpy(models[m].labels + at, label, (size_t)here * sizeof *label);
            if (models[m].squares) memcpy(models[m].squares + at, square, (size_t)here * sizeof *square);
        }
    }
}

// The silhouette ---------------------------------------------------------------------------------------------

// Centroids of all models side by side, each followed by its means where those are others.
typedef struct sparse_pass {
    cpu_engine *engine;
    const km_silhouette_model *models;
    int64_t count;
    cpu_sparse_table table;
    void *memory;
    double *scores; // of each thread, then the sums of each model
    int64_t scores_count;
} sparse_pass;

static int64_t model_columns(const km_silhouette_model *model) {
    return model->k * (model->means ? 2 : 1);
}

static km_status sparse_init(sparse_pass *p, cpu_engine *engine, km_silhouette_model *models, int64_t count,
                             km_error *err) {
    int64_t columns = 0, at = 0, d = engine->base.d;
    for (int64_t m = 0; m < count; m++) columns += model_columns(&models[m]);
    *p = (sparse_pass){.engine = engine, .models = models, .count = count};
    KM_TRY(km_cpu_sparse_double_table(&p->table, &p->memory, engine, columns, err));
    p->scores_count = km_round_up(km_cpu_sparse_scores_count(&p->table) + count, 8);
    p->scores = malloc((size_t)(engine->threads * p->scores_count) * sizeof *p->scores);
    const double **centroids = malloc((size_t)columns * sizeof *centroids);
    for (int64_t m = 0; centroids && m < count; m++) {
        for (int64_t j = 0; j < models[m].k; j++) centroids[at++] = models[m].centroids + j * d;
        for (int64_t j = 0; models[m].means && j < models[m].k; j++)
            centroids[at++] = models[m].means + j * d;
    }
    if (centroids) km_cpu_sparse_fill(&p->table, engine, centroids);
    free(centroids);
    return p->scores && at == columns
               ? KM_OK
               : km_fail_memory(err, "the pass of the silhouette", engine->threads * p->scores_count * 8);
}

// The silhouette of a point by its scores.
static double sparse_point(const km_silhouette_model *model, const double *scores, double square) {
    const double *means = scores + (model->means ? model->k : 0);
    int64_t label = 0;
    double other = INFINITY;
    for (int64_t j = 1; j < model->k; j++)
        if (scores[j] < scores[label]) label = j;
    for (int64_t j = 0; j < model->k; j++) {
        if (j == label) continue;
        other = fmin(other, fmax(square + 2 * means[j], 0) + km_silhouette_spread(model, j));
    }
    double factor = km_silhouette_factor(model, label);
    double own = factor * (fmax(square + 2 * means[label], 0) + km_silhouette_spread(model, label));
    return factor > 0 && fmax(own, other) > 0 ? (other - own) / fmax(own, other) : 0;
}

static void sparse_chunk(const sparse_pass *p, double *scores, double *sums, int64_t chunk) {
    const cpu_engine *engine = p->engine;
    const double *squares = km_cpu_sparse_squares(scores, &p->table);
    int64_t first = chunk * KM_CHUNK_POINTS, end = first + cpu_chunk_points(engine, chunk);
    memset(sums, 0, (size_t)p->count * sizeof *sums);
    for (; first < end && !km_asking_stops(engine->base.asking); first += SPARSE_AT_A_TIME) {
        int64_t here = km_min(SPARSE_AT_A_TIME, end - first), column = 0;
        const double *weights = cpu_weights_at(engine, first);
        km_cpu_sparse_scores(scores, engine, &p->table, first, here);
        for (int64_t m = 0; m < p->count; column += model_columns(&p->models[m++]))
            for (int64_t r = 0; r < here; r++)
                sums[m] += (weights ? weights[r] : 1) *
                           sparse_point(&p->models[m], scores + r * p->table.stride + column, squares[r]);
    }
}

km_status km_cpu_sparse_silhouette(cpu_engine *engine, km_silhouette_model *models, int64_t count,
                                   km_error *err) {
    sparse_pass p;
    int threads = cpu_threads_for(engine, engine->chunks_count);
    km_status status = sparse_init(&p, engine, models, count, err);
    if (status != KM_OK) goto done;
    for (int64_t m = 0; m < count; m++) models[m].sum = 0;
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t chunk = 0; chunk < engine->chunks_count; chunk++) {
        double *scores = p.scores + omp_get_thread_num() * p.scores_count;
        double *sums = scores + km_cpu_sparse_scores_count(&p.table);
        sparse_chunk(&p, scores, sums, chunk);
#pragma omp ordered
        for (int64_t m = 0; m < count; m++) models[m].sum += sums[m];
    }
    status = km_asking_status(engine->base.asking, err);
done:
    free(p.scores);
    km_pages_free(p.memory);
    return status;
}

// SPDX-License-Identifier: MIT
// The layout dense: points as SoA groups, features apart. Its load is load.c, its silhouette silhouette.c.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/cpu/facts.h"
#include "../../gen/memory.h"
#include "../threads.h"
#include "layout.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void destroy(cpu_engine *engine) {
    km_cpu_tiling_destroy(engine);
    km_cpu_bounds_destroy(engine);
    km_pages_free(engine->points);
    free(engine->int16_scales);
}

// The first value of a point, or of a guest (cpu.h); the next ones lie `soa_points` apart.
static const uint8_t *point_at(const cpu_engine *engine, int64_t point) {
    const uint8_t *points = engine->points;
    if (point >= engine->base.n) {
        points = engine->guests;
        point -= engine->base.n;
    }
    int64_t lane = point % engine->soa_points;
    return points + ((point - lane) * engine->base.d + lane) * engine->real_bytes;
}

static void row(double *out, const cpu_engine *engine, int64_t point) {
    const uint8_t *x = point_at(engine, point);
    for (int64_t f = 0; f < engine->base.d; f++)
        out[f] = engine->real_bytes == 4 ? (double)((const float *)x)[f * engine->soa_points]
                                         : ((const double *)x)[f * engine->soa_points];
}

// The pass ----------------------------------------------------------------------------------------------------

// Points of a chunk that a thread takes at a time in a pass.
static int64_t pass_points(const cpu_engine *engine) {
    return engine->soa_points > KM_CPU_PASS_POINTS ? KM_CHUNK_POINTS : KM_CPU_PASS_POINTS;
}

static int64_t pieces(const cpu_engine *engine) {
    return km_divide_up(engine->base.n, pass_points(engine));
}

static int64_t piece_first(const cpu_engine *engine, int64_t piece) {
    return piece * pass_points(engine);
}

static km_status pass_begin(cpu_engine *engine, km_error *err) {
    if (engine->tiling) KM_TRY(km_cpu_tiling_probe(engine, err));
    if (engine->bounds) KM_TRY(km_cpu_bounds_prepare(engine, err));
    return KM_OK;
}

static void pass_end(cpu_engine *engine) {
    if (engine->tiling) km_cpu_tiling_collect(engine);
    if (engine->bounds) km_cpu_bounds_collect(engine);
}

// Whether a listed slot has int16 scores.
static int any_int16_scores(const km_cpu_slot *list, int64_t count) {
    int any = 0;
    for (int64_t s = 0; s < count; s++) any |= list[s].int16_table != NULL;
    return any;
}

static void pass_piece(cpu_engine *engine, int64_t piece, km_cpu_slot *list, int64_t count) {
    int64_t points = pass_points(engine), first = piece * points, d = engine->base.d;
    km_cpu_chunk work = {.points = engine->points + first * d * engine->real_bytes,
                         .weights = cpu_weights_at(engine, first),
                         .points_count = km_min(points, engine->base.n - first),
                         .d = d,
                         .soa_points = engine->soa_points,
                         .slots = list,
                         .slots_count = count};
    if (any_int16_scores(list, count)) work.int16_scales = engine->int16_scales;
    if (engine->tiling)
        km_cpu_tiling_chunk(engine, first, work.points_count, list, count);
    else if (engine->bounds)
        km_cpu_bounds_chunk(engine, first, &work);
    else
        engine->kernels.pass(&work);
}

static void point_add(const cpu_engine *engine, cpu_slot *slot, int64_t point, int64_t label,
                      double *values) {
    int64_t d = engine->base.d;
    double weight = engine->weights ? engine->weights[point] : 1.0,
           *total = slot->totals + label * engine->pitch;
    if (weight == 0) return;
    row(values, engine, point);
    for (int64_t f = 0; f < d; f++) total[f] += weight * values[f];
    total[d] += weight;
    total[d + 1] += 1.0;
}

// Totals from labels: each thread owns a range of clusters, and adds their points in index order.
static km_status owned_sums(cpu_engine *engine, int64_t index, km_error *err) {
    cpu_slot *slot = &engine->slots[index];
    int threads = (int)km_min(engine->threads, slot->k);
    double *point_rows = malloc((size_t)(threads * engine->base.d) * sizeof *point_rows);
    if (!point_rows) return km_fail_memory(err, "rows of points", threads * engine->base.d * 8);
    memset(slot->totals, 0, (size_t)(slot->k * engine->pitch) * sizeof *slot->totals);
#pragma omp parallel num_threads(threads)
    {
        int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
        int64_t from = slot->k * me / all, to = slot->k * (me + 1) / all;
        for (int64_t i = 0; i < engine->base.n; i++) {
            int64_t label = cpu_label_at(slot, i);
            if (label >= from && label < to)
                point_add(engine, slot, i, label, point_rows + me * engine->base.d);
        }
    }
    free(point_rows);
    return KM_OK;
}

// Seeding -----------------------------------------------------------------------------------------------------

typedef struct seed_rows {
    uint8_t *rows;       // reals, of each chain: SEED_CANDIDATES_MAX + 1 rows of d, the last is the last pick
    km_cpu_chain *lists; // threads x chains
} seed_rows;

static void seed_destroy(cpu_seed_pass *pass) {
    seed_rows *own = pass->own;
    if (!own) return;
    free(own->rows);
    free(own->lists);
    free(own);
}

static km_status seed_create(cpu_seed_pass *pass, km_error *err) {
    const cpu_engine *engine = pass->engine;
    int64_t rows = pass->chains_count * (SEED_CANDIDATES_MAX + 1), d = engine->base.d;
    seed_rows *own = pass->own = calloc(1, sizeof *own);
    if (own) own->rows = calloc((size_t)(rows * d), (size_t)engine->real_bytes);
    if (own) own->lists = calloc((size_t)(engine->threads * pass->chains_count), sizeof *own->lists);
    return own && own->rows && own->lists ? KM_OK : km_fail_memory(err, "rows of candidates", rows * d * 8);
}

// A row of a chain: of a candidate, or of the last pick.
static uint8_t *chain_row(const cpu_seed_pass *pass, int64_t chain, int64_t index) {
    const seed_rows *own = pass->own;
    const cpu_engine *engine = pass->engine;
    return own->rows + (chain * (SEED_CANDIDATES_MAX + 1) + index) * engine->base.d * engine->real_bytes;
}

static void row_fill(const cpu_engine *engine, uint8_t *out, int64_t point) {
    const uint8_t *x = point_at(engine, point);
    for (int64_t f = 0; f < engine->base.d; f++)
        memcpy(out + f * engine->real_bytes, x + f * engine->soa_points * engine->real_bytes,
               (size_t)engine->real_bytes);
}

static void seed_begin(cpu_seed_pass *pass) {
    for (int64_t c = 0; c < pass->chains_count; c++) {
        const cpu_seed_chain *chain = &pass->chains[c];
        if (chain->candidates_count == 0) continue;
        for (int64_t a = 0; a < chain->candidates_count; a++)
            row_fill(pass->engine, chain_row(pass, c, a), chain->candidates[a]);
        if (chain->chosen >= 0)
            row_fill(pass->engine, chain_row(pass, c, SEED_CANDIDATES_MAX), chain->chosen);
    }
}

static void seed_end(cpu_seed_pass *pass) {
    (void)pass;
}

static void seed_subchunk(cpu_seed_pass *pass, int64_t subchunk, int64_t first, int64_t count) {
    cpu_engine *engine = pass->engine;
    km_cpu_chain *list = ((seed_rows *)pass->own)->lists + omp_get_thread_num() * pass->chains_count;
    int64_t listed = 0;
    for (int64_t c = 0; c < pass->chains_count; c++) {
        const cpu_seed_chain *chain = &pass->chains[c];
        if (chain->candidates_count == 0) continue;
        list[listed++] =
            (km_cpu_chain){.nearest = chain->nearest + first * engine->real_bytes,
                           .chosen = chain->chosen < 0 ? NULL : chain_row(pass, c, SEED_CANDIDATES_MAX),
                           .candidates = chain_row(pass, c, 0),
                           .candidates_count = chain->candidates_count,
                           .potentials = chain->potentials + subchunk * SEED_CANDIDATES_MAX};
    }
    km_cpu_seeding work = {.points = engine->points + first * engine->base.d * engine->real_bytes,
                           .weights = cpu_weights_at(engine, first),
                           .points_count = count,
                           .d = engine->base.d,
                           .soa_points = engine->soa_points,
                           .chains = list,
                           .chains_count = listed};
    engine->kernels.seed(&work);
}

static double square_float32(const float *x, const float *row, int64_t d, int64_t soa_points) {
    float square = 0;
    for (int64_t f = 0; f < d; f++) {
        float t = x[f * soa_points] - row[f * soa_points];
        square += t * t;
    }
    return (double)square;
}

static double square_float64(const double *x, const double *row, int64_t d, int64_t soa_points) {
    double square = 0;
    for (int64_t f = 0; f < d; f++) {
        double t = x[f * soa_points] - row[f * soa_points];
        square += t * t;
    }
    return square;
}

static double square(const cpu_engine *engine, int64_t point, int64_t pick) {
    const uint8_t *x = point_at(engine, point), *row = point_at(engine, pick);
    if (engine->real_bytes == 4)
        return square_float32((const float *)x, (const float *)row, engine->base.d, engine->soa_points);
    return square_float64((const double *)x, (const double *)row, engine->base.d, engine->soa_points);
}

// Finishing ---------------------------------------------------------------------------------------------------

// The kernel, and the models as it is given them.
typedef struct finish_tables {
    void (*kernel)(const km_cpu_finish *finish);
    int64_t row;       // doubles of a row of centroids
    double *centroids; // of all models, in rows; then those of the means
    double *columns;   // of all models with few clusters; then those of the means
    uint8_t *tables;   // reals, of all models: k x (d + 1)
} finish_tables;

static void finish_destroy(cpu_finish_pass *pass) {
    finish_tables *own = pass->own;
    if (!own) return;
    free(own->centroids);
    free(own->columns);
    free(own->tables);
    free(own);
}

// The module's kernel works in the plan's type. Where float cannot hold the squares, another one is double throughout.
static int squares_fit_float(const cpu_engine *engine, const km_finish_model *models, int64_t count) {
    double most = engine->largest_square, typical = engine->typical_square;
    for (int64_t m = 0; m < count; m++)
        for (int64_t j = 0; j < models[m].k; j++) {
            const double *c = models[m].centroids + j * engine->base.d;
            double square = 0;
            for (int64_t f = 0; f < engine->base.d; f++) square += c[f] * c[f];
            most = square > most ? square : most;
        }
    return most < 1e36 && (typical > 1e-24 || typical == 0);
}

static void finish_choose(finish_tables *own, const cpu_finish_pass *pass, const km_finish_model *models) {
    const cpu_engine *engine = pass->engine;
    own->kernel = engine->kernels.finish;
    own->row = km_round_up(engine->base.d, engine->kernels.finish_row_multiple);
    if (engine->real_bytes != 4 || squares_fit_float(engine, models, pass->count)) return;
    own->kernel = km_cpu_finish_double;
    own->row = engine->base.d;
}

// Rows as kernels read them, and the same by feature where they are few.
static void put_rows(double *rows, double *columns, const double *from, int64_t k, int64_t d, int64_t row) {
    for (int64_t j = 0; j < k; j++) memcpy(rows + j * row, from + j * d, (size_t)d * sizeof *rows);
    for (int64_t j = 0; j < k && k <= KM_CPU_FEW_CLUSTERS; j++)
        for (int64_t i = 0; i < d; i++) columns[i * KM_CPU_FEW_CLUSTERS + j] = from[j * d + i];
}

// One model as kernels are given it, of which `at` is the first row of all models.
static void model_put(const cpu_finish_pass *pass, const km_finish_model *model, int64_t m, int64_t at) {
    const cpu_engine *engine = pass->engine;
    finish_tables *own = pass->own;
    int64_t d = engine->base.d, k = model->k;
    double *centroids = own->centroids + at * own->row;
    uint8_t *table = own->tables + at * (d + 1) * engine->real_bytes;
    double *columns = own->columns + m * d * KM_CPU_FEW_CLUSTERS;
    double *means = centroids + pass->rows * own->row;
    double *mean_columns = columns + pass->count * d * KM_CPU_FEW_CLUSTERS;
    for (int64_t t = 0; t < pass->threads; t++) {
        km_cpu_finish_model *given = &pass->models[t * pass->count + m];
        given->centroids = centroids;
        given->columns = columns;
        given->table = table;
        if (!model->means) continue;
        given->means = means;
        given->mean_columns = mean_columns;
    }
    put_rows(centroids, columns, model->centroids, k, d, own->row);
    if (model->means) put_rows(means, mean_columns, model->means, k, d, own->row);
    km_cpu_table(table, model->centroids, k, d, engine->base.plan->spec.type);
}

static km_status finish_create(cpu_finish_pass *pass, const km_finish_model *models, km_error *err) {
    const cpu_engine *engine = pass->engine;
    int64_t d = engine->base.d, rows = pass->rows, sets = 1; // of rows
    finish_tables *own = pass->own = calloc(1, sizeof *own);
    if (!own) return km_fail_memory(err, "the finishing pass", (int64_t)sizeof *own);
    finish_choose(own, pass, models);
    for (int64_t m = 0; m < pass->count; m++) sets = models[m].means ? 2 : sets;
    own->centroids = calloc((size_t)(sets * rows * own->row + 1), sizeof *own->centroids);
    own->columns = calloc((size_t)(sets * pass->count * d * KM_CPU_FEW_CLUSTERS + 1), sizeof *own->columns);
    own->tables = calloc((size_t)(rows * (d + 1) + 1), (size_t)engine->real_bytes);
    if (!own->centroids || !own->columns || !own->tables)
        return km_fail_memory(err, "the finishing pass", rows * (sets * own->row + d) * 8);
    for (int64_t m = 0, at = 0; m < pass->count; at += models[m++].k) model_put(pass, &models[m], m, at);
    return KM_OK;
}

static void finish(const cpu_finish_pass *pass, km_cpu_finish_model *models, int64_t first, int64_t count) {
    const cpu_engine *engine = pass->engine;
    const finish_tables *own = pass->own;
    km_cpu_finish work = {.points = engine->points + first * engine->base.d * engine->real_bytes,
                          .weights = cpu_weights_at(engine, first),
                          .points_count = count,
                          .d = engine->base.d,
                          .soa_points = engine->soa_points,
                          .row = own->row,
                          .models = models,
                          .models_count = pass->count};
    own->kernel(&work);
}

const cpu_layout km_cpu_dense = {
    .load = km_cpu_dense_load,
    .destroy = destroy,
    .row = row,
    .has_slot_tables = 1,
    .pieces = pieces,
    .piece_first = piece_first,
    .pass_begin = pass_begin,
    .piece = pass_piece,
    .owned_sums = owned_sums,
    .pass_end = pass_end,
    .seed_create = seed_create,
    .seed_destroy = seed_destroy,
    .seed_begin = seed_begin,
    .seed_subchunk = seed_subchunk,
    .seed_end = seed_end,
    .square = square,
    .finish_create = finish_create,
    .finish_destroy = finish_destroy,
    .finish = finish,
    .silhouette = km_cpu_dense_silhouette,
};

// SPDX-License-Identifier: MIT
// The silhouette in the squared Euclidean form, of all models in one pass.
#include "silhouette.h"
#include "../share.h"
#include "../silhouette.h"
#include "../threads.h"
#include "cpu.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct silhouette_pass {
    cpu_engine *engine;
    const cpu_silhouette_kernels *kernels;
    const km_silhouette_model *models;
    cpu_silhouette_model *tables; // count
    uint8_t *rows;                // reals: all tables
    double *scratch;              // of each thread: sums of all models, squared distances, a row
    int64_t count, threads, scratch_count;
    int64_t together; // the most rows whose squared distances are computed together
    int fits;         // squared distances fit the plan's type
    double *chunks;   // with a share: a sum of each model, of this rank's chunks
} silhouette_pass;

static void pass_free(silhouette_pass *p) {
    free(p->tables);
    free(p->rows);
    free(p->scratch);
    free(p->chunks);
}

// The sums of the chunks of all ranks, in index order.
static km_status chunks_join(const silhouette_pass *p, km_silhouette_model *models, km_error *err) {
    km_share *share = p->engine->base.share;
    int64_t all = km_chunks_of(p->engine->base.n_all);
    if (!share) return KM_OK;
    double *joined = malloc((size_t)(all * p->count) * sizeof *joined);
    if (!joined) return km_fail_memory(err, "the sums of chunks", all * p->count * 8);
    km_status status = km_share_gather(share, joined, all, p->chunks, km_share_chunk(share),
                                       p->engine->chunks_count, p->count, err);
    for (int64_t i = 0; i < all * p->count && status == KM_OK; i++) models[i % p->count].sum += joined[i];
    free(joined);
    return status;
}

static void put_real(uint8_t *rows, int64_t real_bytes, int64_t at, double value) {
    float single = (float)value;
    memcpy(rows + at * real_bytes, real_bytes == 4 ? (const void *)&single : (const void *)&value,
           (size_t)real_bytes);
}

static void put_table(uint8_t *rows, const silhouette_pass *p, const km_silhouette_model *model,
                      const double *centroids) {
    int64_t d = p->engine->base.d, bytes = p->engine->real_bytes;
    for (int64_t j = 0; j < model->k; j++, rows += (d + 2) * bytes) {
        for (int64_t f = 0; f < d; f++) put_real(rows, bytes, f, centroids[j * d + f]);
        put_real(rows, bytes, d, km_silhouette_spread(model, j));
        put_real(rows, bytes, d + 1, km_silhouette_factor(model, j));
    }
}

static int fits_float(const cpu_engine *engine, const km_silhouette_model *models, int64_t count) {
    double most = engine->largest_square;
    for (int64_t m = 0; m < count; m++)
        for (int64_t j = 0; j < models[m].k; j++) {
            double square = 0;
            for (int64_t f = 0; f < engine->base.d; f++) {
                double c = models[m].centroids[j * engine->base.d + f];
                square += c * c;
            }
            most = fmax(most, fmax(square, models[m].sse[j] / fmax(models[m].weights[j], DBL_MIN)));
        }
    return most < 1e36 && (engine->typical_square > 1e-24 || engine->typical_square == 0);
}

// Which models' rows are computed together, and the most of them.
static int64_t join(cpu_silhouette_model *tables, const km_silhouette_model *models, int64_t count) {
    int64_t most = 0;
    for (int64_t m = 0, first = 0; m < count; m++) {
        if (m == 0 || tables[first].together + models[m].k > SILHOUETTE_TOGETHER) first = m;
        tables[m] = (cpu_silhouette_model){.k = models[m].k};
        tables[first].together += models[m].k;
        most = km_max(most, tables[first].together);
    }
    return most;
}

static void put_tables(silhouette_pass *p) {
    int64_t row = (p->engine->base.d + 2) * p->engine->real_bytes;
    uint8_t *means = p->rows, *centroids = p->rows;
    for (int64_t m = 0; m < p->count; m++) centroids += p->models[m].k * row;
    for (int64_t m = 0; m < p->count; means += p->models[m++].k * row) {
        const km_silhouette_model *model = &p->models[m];
        cpu_silhouette_model *table = &p->tables[m];
        put_table(means, p, model, model->means ? model->means : model->centroids);
        table->means = means;
        table->apart = km_silhouette_apart(model, p->engine->base.d, p->engine->real_bytes == 4);
        if (!model->means) continue;
        put_table(centroids, p, model, model->centroids);
        table->centroids = centroids;
        centroids += model->k * row;
    }
}

static km_status pass_init(silhouette_pass *p, cpu_engine *engine, km_silhouette_model *models, int64_t count,
                           km_error *err) {
    int64_t rows = 0, d = engine->base.d;
    for (int64_t m = 0; m < count; m++) rows += models[m].k * (models[m].means ? 2 : 1);
    *p = (silhouette_pass){.engine = engine, .models = models, .count = count};
    p->kernels = km_cpu_silhouette_kernels(engine->base.plan);
    p->fits = engine->real_bytes == 8 || fits_float(engine, models, count);
    p->threads = cpu_threads_for(engine, engine->chunks_count);
    p->tables = calloc((size_t)count, sizeof *p->tables);
    p->rows = calloc((size_t)(rows * (d + 2)), (size_t)engine->real_bytes);
    if (p->tables) p->together = join(p->tables, models, count);
    p->scratch_count = count * SILHOUETTE_SUMS + 2 * SILHOUETTE_ROWS(p->together) * (SILHOUETTE_BYTES / 8) +
                       km_round_up(d, 16);
    p->scratch =
        aligned_alloc(SILHOUETTE_BYTES, (size_t)(p->threads * p->scratch_count) * sizeof *p->scratch);
    if (engine->base.share)
        p->chunks = malloc((size_t)(engine->chunks_count * count + 1) * sizeof *p->chunks);
    if (!p->tables || !p->rows || !p->scratch || (engine->base.share && !p->chunks))
        return km_fail_memory(err, "the pass of the silhouette", rows * (d + 2) * engine->real_bytes);
    put_tables(p);
    return KM_OK;
}

// As the finishing pass computes it.
static double square_of(const double *x, const double *centroid, int64_t d) {
    double square = 0;
    for (int64_t f = 0; f < d; f++) square = fma(x[f] - centroid[f], x[f] - centroid[f], square);
    return square;
}

static double exact(const cpu_silhouette_work *work, int64_t index, int64_t point) {
    const silhouette_pass *p = work->user;
    const km_silhouette_model *model = &p->models[index];
    const double *means = model->means ? model->means : model->centroids;
    double nearest = INFINITY, other = INFINITY, *x = work->row;
    int64_t label = 0, d = work->d;
    km_cpu_row(x, p->engine, work->first + point);
    for (int64_t j = 0; j < model->k; j++) {
        double square = square_of(x, model->centroids + j * d, d);
        if (square < nearest) nearest = square, label = j;
    }
    for (int64_t j = 0; j < model->k; j++)
        if (j != label) other = fmin(other, square_of(x, means + j * d, d) + km_silhouette_spread(model, j));
    double factor = km_silhouette_factor(model, label);
    double own = factor * (square_of(x, means + label * d, d) + km_silhouette_spread(model, label));
    return factor > 0 && fmax(own, other) > 0 ? (other - own) / fmax(own, other) : 0;
}

static void run_chunk(const silhouette_pass *p, double *scratch, int64_t chunk) {
    const cpu_engine *engine = p->engine;
    int64_t first = chunk * KM_CHUNK_POINTS;
    cpu_silhouette_work work = {.points = cpu_chunk_at(engine, chunk),
                                .weights = cpu_weights_at(engine, first),
                                .count = cpu_chunk_points(engine, chunk),
                                .d = engine->base.d,
                                .soa_points = engine->soa_points,
                                .models = p->tables,
                                .models_count = p->count,
                                .sums = scratch,
                                .exact = exact,
                                .user = p,
                                .first = first,
                                .squares = scratch + p->count * SILHOUETTE_SUMS,
                                .rows = p->together,
                                .row = scratch + p->scratch_count - km_round_up(engine->base.d, 16)};
    memset(scratch, 0, (size_t)(p->count * SILHOUETTE_SUMS) * sizeof *scratch);
    if (p->fits) {
        p->kernels->pass(&work);
        return;
    }
    for (int64_t i = 0; i < work.count; i++)
        for (int64_t m = 0; m < p->count; m++)
            work.sums[m * SILHOUETTE_SUMS] += (work.weights ? work.weights[i] : 1) * exact(&work, m, i);
}

km_status km_cpu_dense_silhouette(cpu_engine *engine, km_silhouette_model *models, int64_t count,
                                  km_error *err) {
    silhouette_pass p;
    km_status status = pass_init(&p, engine, models, count, err);
    if (status != KM_OK) goto done;
    for (int64_t m = 0; m < count; m++) models[m].sum = 0;
    int threads = (int)p.threads;
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t chunk = 0; chunk < engine->chunks_count; chunk++) {
        if (km_asking_stops(engine->base.asking)) continue;
        double *scratch = p.scratch + omp_get_thread_num() * p.scratch_count;
        run_chunk(&p, scratch, chunk);
#pragma omp ordered
        for (int64_t m = 0; m < count; m++) {
            double sum = 0;
            for (int i = 0; i < SILHOUETTE_SUMS; i++) sum += scratch[m * SILHOUETTE_SUMS + i];
            if (p.chunks)
                p.chunks[chunk * count + m] = sum;
            else
                models[m].sum += sum;
        }
    }
    status = km_asking_status(engine->base.asking, err);
    if (status == KM_OK) status = chunks_join(&p, models, err);
done:
    pass_free(&p);
    return status;
}

// SPDX-License-Identifier: MIT
// The pass of the silhouette (cuda/steps/silhouette.cu), for a batch of models at a time. Of few features and clusters
// a kernel has the labels first: those that the finishing pass has kept (kept.c), or it finds the same ones, and so the
// same bits. Sums of blocks are added in index order.
#include "../../base/error.h"
#include "../../base/log.h"
#include "../../base/size.h"
#include "../silhouette.h"
#include "cuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS_AT_ONCE = KM_SILHOUETTE_MODELS };
// Models of few features and clusters whose labels are kept; others of those; models of many.
typedef enum silhouette_kind {
    SILHOUETTE_KEPT,
    SILHOUETTE_FEW,
    SILHOUETTE_MANY,
    SILHOUETTE_KINDS
} silhouette_kind;

typedef struct silhouette_pass {
    km_cuda_engine *engine;
    silhouette_kind kind;
    km_silhouette_model *models[MODELS_AT_ONCE];
    int64_t count, rows, mean_rows; // of this batch; mean_rows: with those of means
    km_silhouette_args args;
    km_cu_ptr totals, partial;
    double *host; // rows of centroids, then terms
} silhouette_pass;

static int has_tiles(const silhouette_pass *p) {
    return p->engine->kernels->silhouette_tiles != NULL;
}

static int64_t block_points(const silhouette_pass *p) {
    return has_tiles(p) ? KM_FINISH_PIECE_POINTS(p->engine->base.d) : KM_SILHOUETTE_POINTS;
}

// Of the points that are there.
static int64_t blocks_of(const silhouette_pass *p) {
    return km_divide_up(p->args.count, block_points(p));
}

// Shared memory of a block of km_silhouette_labelled and km_silhouette_searched.
static int64_t few_bytes(const km_cuda_engine *engine, int64_t rows, int64_t models) {
    return KM_SILHOUETTE_BYTES(engine->base.d, engine->real_bytes, rows, models);
}

// Addresses in the engine's work memory.
static km_status reserve(silhouette_pass *p, km_error *err) {
    km_cuda_engine *engine = p->engine;
    int64_t d = engine->base.d, real = engine->real_bytes,
            blocks = km_divide_up(engine->base.n, block_points(p));
    int64_t sizes[] = {
        p->mean_rows * d * 8, engine->is_csr ? p->mean_rows * (d + 1) * 8 : p->mean_rows * d * real,
        p->rows * 16,         p->rows * 2 * real,
        p->count * 4,         p->count * 8,
        p->count * 8,         p->count * 8,
        p->count * 8,         p->count * real,
        blocks * p->count * 8};
    enum { TABLES = sizeof sizes / sizeof *sizes };
    km_cu_ptr at[TABLES];
    KM_TRY(km_cuda_reserve_tables(engine, at, sizes, TABLES, "the pass of the silhouette", err));
    p->args = (km_silhouette_args){.points = (const void *)(uintptr_t)engine->points.address,
                                   .count = engine->base.n,
                                   .centroids = (const double *)(uintptr_t)at[0],
                                   .table = (const void *)(uintptr_t)at[1],
                                   .exact_terms = (const void *)(uintptr_t)at[2],
                                   .terms = (const void *)(uintptr_t)at[3],
                                   .ks = (const int *)(uintptr_t)at[4],
                                   .rows = (const long long *)(uintptr_t)at[5],
                                   .mean_rows = (const long long *)(uintptr_t)at[6],
                                   .models = (int)p->count,
                                   .labels = (const unsigned char *)(uintptr_t)engine->kept.address,
                                   .labels_at = (const long long *)(uintptr_t)at[8],
                                   .least = (const void *)(uintptr_t)at[9]};
    p->totals = at[7];
    p->partial = at[10];
    int64_t values = p->mean_rows * d > 2 * p->rows ? p->mean_rows * d : 2 * p->rows;
    p->host = malloc((size_t)values * sizeof *p->host);
    return p->host ? km_cuda_clear(engine, p->totals, 0, p->count * 8, err)
                   : km_fail_memory(err, "the pass of the silhouette", values * (int64_t)sizeof *p->host);
}

// Copies `count` values of `host` to the device as doubles, and in the plan's type.
static km_status put_both(silhouette_pass *p, const void *doubles, const void *reals, int64_t count,
                          km_error *err) {
    km_cuda_engine *engine = p->engine;
    KM_TRY(km_cuda_put(engine, (km_cu_ptr)(uintptr_t)doubles, p->host, count * 8, err));
    float *floats = (float *)p->host; // in place: each is written where doubles have been read already
    for (int64_t i = 0; engine->real_bytes == 4 && i < count; i++) {
        float value = (float)p->host[i];
        memcpy(floats + i, &value, sizeof value);
    }
    return km_cuda_put(engine, (km_cu_ptr)(uintptr_t)reals, p->host, count * engine->real_bytes, err);
}

// |a - b|^2; b NULL: |a|^2.
static double square_of(const double *a, const double *b, int64_t d) {
    double square = 0;
    for (int64_t f = 0; f < d; f++) square += (a[f] - (b ? b[f] : 0)) * (a[f] - (b ? b[f] : 0));
    return square;
}

// A squared distance |x|^2 - 2 x . m + |m|^2 loses the digits that it is smaller by than its terms. A point of cluster
// i is nearer to its centroid than to that of another one, j: so its mean squared distance to j is at least
// v_j + |m_i - m_j|^2 / 4, and |x|^2 of these points is |m_i|^2 + v_i in the mean. Where that leaves too few digits for
// some cluster squared distances are of differences: negative. Else KM_SILHOUETTE_KEPT of the largest |m_j|^2 + v_j.
// What is smaller than `tiny` has no inverse.
static double least_of(const km_silhouette_model *model, int64_t d, int64_t real) {
    const double *means = model->means ? model->means : model->centroids;
    double kept = KM_SILHOUETTE_KEPT(real), tiny = real == 4 ? 1e-30 : 1e-290, largest = 0;
    for (int64_t i = 0; i < model->k; i++)
        if (model->weights[i] > 0)
            largest = fmax(largest, square_of(means + i * d, NULL, d) + km_silhouette_spread(model, i));
    for (int64_t i = 0; i < model->k; i++) {
        double own = square_of(means + i * d, NULL, d) + km_silhouette_spread(model, i), nearest = INFINITY;
        for (int64_t j = 0; j < model->k; j++)
            if (j != i)
                nearest = fmin(nearest, km_silhouette_spread(model, j) +
                                            square_of(means + i * d, means + j * d, d) / 4);
        if (model->weights[i] > 0 && !(nearest >= (own + largest) * kept)) return -tiny;
    }
    return largest * kept + tiny;
}

// What only models of few features and clusters need.
static km_status put_few(const silhouette_pass *p, km_error *err) {
    km_cuda_engine *engine = p->engine;
    long long labels_at[MODELS_AT_ONCE];
    double doubles[MODELS_AT_ONCE];
    float floats[MODELS_AT_ONCE];
    for (int64_t m = 0; m < p->count; m++) {
        const km_silhouette_model *model = p->models[m];
        labels_at[m] = km_cuda_kept_at(engine, model->centroids, model->k);
        doubles[m] = least_of(model, engine->base.d, engine->real_bytes);
        floats[m] = (float)doubles[m];
    }
    KM_TRY(km_cuda_put(engine, (km_cu_ptr)(uintptr_t)p->args.labels_at, labels_at, p->count * 8, err));
    return km_cuda_put(engine, (km_cu_ptr)(uintptr_t)p->args.least,
                       engine->real_bytes == 8 ? (void *)doubles : floats, p->count * engine->real_bytes,
                       err);
}

static km_status put_models(silhouette_pass *p, km_error *err) {
    int ks[MODELS_AT_ONCE];
    long long rows[MODELS_AT_ONCE], mean_rows[MODELS_AT_ONCE];
    int64_t d = p->engine->base.d, row = 0, mean_row = p->rows;
    for (int64_t m = 0; m < p->count; m++) {
        const km_silhouette_model *model = p->models[m];
        size_t bytes = (size_t)(model->k * d) * sizeof *p->host;
        ks[m] = (int)model->k;
        rows[m] = mean_rows[m] = row;
        memcpy(p->host + row * d, model->centroids, bytes);
        row += model->k;
        if (!model->means) continue;
        mean_rows[m] = mean_row;
        memcpy(p->host + mean_row * d, model->means, bytes);
        mean_row += model->k;
    }
    if (p->engine->is_csr) {
        km_cu_ptr rows_at = (km_cu_ptr)(uintptr_t)p->args.centroids;
        KM_TRY(km_cuda_put(p->engine, rows_at, p->host, p->mean_rows * d * 8, err));
        KM_TRY(km_cuda_columns(p->engine, (km_cu_ptr)(uintptr_t)p->args.table, rows_at, p->mean_rows, err));
    } else {
        KM_TRY(put_both(p, p->args.centroids, p->args.table, p->mean_rows * d, err));
    }
    double *terms = p->host;
    for (int64_t m = 0; m < p->count; m++)
        for (int64_t j = 0; j < p->models[m]->k; j++, terms += 2) {
            terms[0] = km_silhouette_spread(p->models[m], j);
            terms[1] = km_silhouette_factor(p->models[m], j);
        }
    KM_TRY(put_both(p, p->args.exact_terms, p->args.terms, 2 * p->rows, err));
    if (p->kind != SILHOUETTE_MANY) KM_TRY(put_few(p, err));
    KM_TRY(km_cuda_put(p->engine, (km_cu_ptr)(uintptr_t)p->args.ks, ks, p->count * 4, err));
    KM_TRY(km_cuda_put(p->engine, (km_cu_ptr)(uintptr_t)p->args.rows, rows, p->count * 8, err));
    return km_cuda_put(p->engine, (km_cu_ptr)(uintptr_t)p->args.mean_rows, mean_rows, p->count * 8, err);
}

// As many models from `first` on as fit a launch of km_silhouette_tiles with all their rows, or one.
static km_status launch_group(silhouette_pass *p, int *first, km_error *err) {
    km_status status = KM_OK;
    const km_cuda_engine *engine = p->engine;
    const km_driver *driver = engine->driver;
    km_cu_function tiles = engine->kernels->silhouette_tiles;
    int64_t rows = 0, most = km_cuda_tile_bytes(engine), bytes = 0;
    int models = 0, tile_rows = 0;
    while (*first + models < p->count && models < KM_TILE_MODELS) {
        const km_silhouette_model *next = p->models[*first + models];
        int64_t more = rows + next->k * (next->means ? 2 : 1);
        int more_rows = (int)km_min(more, KM_TILE_ROWS);
        int64_t needed = KM_SILHOUETTE_TILE_BYTES(engine->base.d, engine->real_bytes, more_rows, models + 1);
        if (models && (more > KM_TILE_ROWS || needed > most)) break;
        rows = more;
        tile_rows = more_rows;
        bytes = needed;
        models++;
    }
    while (bytes > most && tile_rows > KM_TILE_WARP_ROWS) { // of one model
        tile_rows = (tile_rows - 1) / KM_TILE_WARP_ROWS * KM_TILE_WARP_ROWS;
        bytes = KM_SILHOUETTE_TILE_BYTES(engine->base.d, engine->real_bytes, tile_rows, models);
    }
    int warps = (int)km_divide_up(tile_rows, KM_TILE_WARP_ROWS);
    unsigned threads = 128 * (unsigned)km_divide_up(km_max(warps, models), 4);
    void *arguments[] = {&p->args, &p->engine->weights.address, &p->partial, first, &models, &tile_rows};
    KM_CU(cuFuncSetAttribute(tiles, KM_CU_FUNC_MAX_DYNAMIC_SHARED, (int)bytes));
    KM_CU(cuLaunchKernel(tiles, (unsigned)blocks_of(p), 1, 1, threads, 1, 1, (unsigned)bytes, engine->stream,
                         arguments, NULL));
    *first += models;
done:
    return status;
}

static km_status launch_points(silhouette_pass *p, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = p->engine;
    const km_driver *driver = engine->driver;
    long long pitch = p->mean_rows;
    void *arguments[] = {&p->args, &engine->weights.address, &p->partial, &p->args.table,
                         &pitch}; // the last two of CSR points
    KM_CU(cuLaunchKernel(engine->kernels->silhouette, (unsigned)blocks_of(p), 1, 1, KM_THREADS, 1, 1,
                         (unsigned)(p->count * KM_THREADS * 8), engine->stream, arguments, NULL));
done:
    return status;
}

static km_status launch_few(silhouette_pass *p, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = p->engine;
    const km_driver *driver = engine->driver;
    km_cu_function few = p->kind == SILHOUETTE_KEPT ? engine->kernels->silhouette_labelled
                                                    : engine->kernels->silhouette_searched;
    int rows = (int)p->rows, bytes = (int)few_bytes(engine, p->rows, p->count);
    void *arguments[] = {&p->args, &engine->weights.address, &p->partial, &rows};
    KM_CU(cuFuncSetAttribute(few, KM_CU_FUNC_MAX_DYNAMIC_SHARED, bytes));
    KM_CU(cuLaunchKernel(few, (unsigned)blocks_of(p), 1, 1, KM_THREADS, 1, 1, (unsigned)bytes, engine->stream,
                         arguments, NULL));
done:
    return status;
}

static km_status launch_all(silhouette_pass *p, km_error *err) {
    if (!has_tiles(p)) KM_TRY((p->kind == SILHOUETTE_MANY ? launch_points : launch_few)(p, err));
    for (int first = 0; has_tiles(p) && first < p->count;) KM_TRY(launch_group(p, &first, err));
    return KM_OK;
}

// In windows, which come to the device once for all models; of a plan that has them points have no weights.
static km_status launch_windows(silhouette_pass *p, int64_t windows, km_error *err) {
    km_cu_ptr partial = p->partial;
    const unsigned char *labels = p->args.labels;
    for (int64_t w = 0; w < windows; w++) {
        km_cuda_window own;
        KM_TRY(km_cuda_window_begin(p->engine, w, &own, err));
        p->args.points = (const void *)(uintptr_t)own.points;
        p->args.count = own.count;
        p->args.labels = labels ? labels + own.first : NULL;
        p->partial = partial + (km_cu_ptr)(own.first / block_points(p) * p->count * 8);
        KM_TRY(launch_all(p, err));
        KM_TRY(km_cuda_window_end(p->engine, w, err));
    }
    p->partial = partial;
    return KM_OK;
}

static km_status launch(silhouette_pass *p, km_error *err) {
    int64_t windows = km_cuda_windows_of_chunks(p->engine);
    long long blocks = blocks_of(p), numbers = p->count;
    KM_TRY(windows ? launch_windows(p, windows, err) : launch_all(p, err));
    return km_cuda_add_in_order(p->engine, p->totals, p->partial, blocks, numbers, err);
}

// Runs the batch, and empties it.
static km_status run_batch(silhouette_pass *p, km_error *err) {
    km_status status = KM_OK;
    double sums[MODELS_AT_ONCE];
    if (p->count == 0) return KM_OK;
    p->host = NULL;
    KM_TRY_GOTO(reserve(p, err));
    KM_TRY_GOTO(put_models(p, err));
    KM_TRY_GOTO(launch(p, err));
    KM_TRY_GOTO(km_cuda_get(p->engine, sums, p->totals, p->count * 8, err));
    for (int64_t m = 0; m < p->count; m++) p->models[m]->sum = sums[m];
    p->count = p->rows = p->mean_rows = 0;
done:
    free(p->host);
    return status;
}

// By the numbers of features and clusters alone, but for the labels, which change no bit.
static silhouette_kind kind_of(const km_cuda_engine *engine, const km_silhouette_model *model) {
    if (!engine->kernels->silhouette_labelled || model->k > KM_FINISH_FEW_MAX) return SILHOUETTE_MANY;
    return km_cuda_kept_at(engine, model->centroids, model->k) >= 0 ? SILHOUETTE_KEPT : SILHOUETTE_FEW;
}

static km_status run_models(km_cuda_engine *engine, silhouette_kind kind, km_silhouette_model *models,
                            int64_t count, km_error *err) {
    silhouette_pass p = {.engine = engine, .kind = kind};
    int64_t most = km_cuda_tile_bytes(engine), all = 0;
    for (int64_t m = 0; m < count; m++) {
        int64_t k = models[m].k;
        if (kind_of(engine, &models[m]) != kind) continue;
        if (p.count == MODELS_AT_ONCE ||
            (kind != SILHOUETTE_MANY && few_bytes(engine, p.rows + k, p.count + 1) > most))
            KM_TRY(run_batch(&p, err));
        p.models[p.count++] = &models[m];
        p.rows += k;
        p.mean_rows += k * (models[m].means ? 2 : 1);
        all++;
    }
    if (kind == SILHOUETTE_KEPT)
        km_log_line(engine->log, KM_LOG_INFO, "silhouette: %lld of %lld models by labels that were kept",
                    (long long)all, (long long)count);
    return run_batch(&p, err);
}

km_status km_cuda_silhouette(km_cuda_engine *engine, km_silhouette_model *models, int64_t count,
                             km_error *err) {
    km_status status = KM_OK;
    if (!engine->points.address) return km_fail(err, KM_ERROR_INTERNAL, "the engine has no points yet");
    for (int kind = 0; status == KM_OK && kind < SILHOUETTE_KINDS; kind++)
        status = run_models(engine, (silhouette_kind)kind, models, count, err);
    km_cuda_kept_drop(engine);
    return status;
}

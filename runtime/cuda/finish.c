// SPDX-License-Identifier: MIT
// The finishing pass (cuda/steps/finish.cu): of many features in tiles, of few features models of few clusters by one
// kernel; others by two, with labels and distances in scratch memory between them. Where sums of labels are wanted, the
// labels are in scratch memory, too. So that these fit, it works on a slice of the points at a time, which is whole
// chunks, and on a batch of models. Sums are added to the totals in index order.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../seed.h"
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

enum { MODELS_AT_ONCE = 64 };
// FINISH_VAST: more clusters than have sums in shared memory.
typedef enum finish_kind { FINISH_TILES, FINISH_FEW, FINISH_MANY, FINISH_VAST, FINISH_KINDS } finish_kind;

typedef struct finisher {
    km_cuda_engine *engine;
    km_finish_model *models[MODELS_AT_ONCE];
    int64_t count, rows_count, k_max; // of this batch
    int64_t mean_rows_count;          // of those that have means
    finish_kind kind;
    int labels_wanted;
    int64_t slice_chunks; // chunks of a slice
    int64_t end;          // behind the points that are there
    int64_t kept_bytes;   // with other ranks: of the slices before this one, in front of `partial`
    km_assign_args args;
    km_cu_ptr totals, partial;
    km_cu_ptr label_sums, label_partial; // of all models that want sums; of one
    int64_t label_values, label_blocks;  // numbers of label_sums; tables of label_partial
    int keeps;                           // labels of some models
    double *host;                        // what is sent or got: rows, or sums
} finisher;

// Shared memory that km_finish_few_clusters needs for k clusters.
static int64_t few_clusters_bytes(const km_cuda_engine *engine, int64_t k) {
    return k * KM_FINISH_THREADS * (engine->base.plan->weighted ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES);
}

// Models of one launch of km_finish_tiles.
typedef struct tile_group {
    int models, tile_rows, threads;
    int64_t rows, bytes;
} tile_group;

int64_t km_cuda_tile_bytes(const km_cuda_engine *engine) {
    enum { ENOUGH = 64 << 10, RESERVED = 1 << 10, IN_TEXT = 512 };
    const km_device_facts *facts = &engine->device->base.facts;
    int64_t half = facts->shared_bytes_per_unit / 2 - RESERVED;
    return (half >= ENOUGH ? half : facts->shared_bytes_per_block) - IN_TEXT;
}

static int64_t tile_bytes(const km_cuda_engine *engine, const tile_group *group, int has_means) {
    int64_t sums = group->rows <= group->tile_rows ? KM_TILE_SUMS : 1;
    return KM_TILE_BYTES(engine->base.d, engine->real_bytes, engine->base.plan->weighted, group->rows, sums,
                         group->tile_rows, group->models, has_means && group->rows <= group->tile_rows);
}

// The first of `count` models, and as many more as fit beside it with all their rows. 0 models: not even that one.
static tile_group choose_group(const km_cuda_engine *engine, km_finish_model *const *models, int64_t count) {
    int64_t most = km_cuda_tile_bytes(engine), means = 0;
    tile_group group = {0}, more = {0};
    for (; more.models < count && more.models < KM_TILE_MODELS; group = more) {
        const km_finish_model *next = models[more.models];
        means |= next->means != NULL;
        more.models++;
        more.rows += next->k;
        more.tile_rows = (int)more.rows;
        more.bytes = tile_bytes(engine, &more, (int)means);
        if (more.rows > KM_TILE_ROWS || more.bytes > most) break;
    }
    if (group.models == 0 && models[0]->k <= KM_FINISH_SHARED_MAX) { // its rows pass through shared memory
        group = (tile_group){.models = 1, .rows = models[0]->k, .tile_rows = KM_TILE_ROWS};
        if (group.rows <= group.tile_rows)
            group.tile_rows = (int)(group.rows - 1) / KM_TILE_WARP_ROWS * KM_TILE_WARP_ROWS;
        while ((group.bytes = tile_bytes(engine, &group, 0)) > most && group.tile_rows > 0)
            group.tile_rows -= KM_TILE_WARP_ROWS;
        if (group.tile_rows <= 0) group.models = 0;
    }
    int warps = (int)km_max(km_divide_up(group.tile_rows, KM_TILE_WARP_ROWS), group.models);
    group.threads = 128 * (int)km_divide_up(warps, 4);
    return group;
}

static finish_kind kind_of(const km_cuda_engine *engine, km_finish_model *model) {
    finish_kind others = model->k <= KM_FINISH_SHARED_MAX ? FINISH_MANY : FINISH_VAST;
    if (engine->is_csr) return others;
    if (KM_FINISH_HAS_TILES(engine->base.d))
        return choose_group(engine, &model, 1).models ? FINISH_TILES : others;
    return model->k <= KM_FINISH_FEW_MAX &&
                   few_clusters_bytes(engine, model->k) <= engine->device->base.facts.shared_bytes_per_block
               ? FINISH_FEW
               : others;
}

// Models whose labels and distances are in scratch memory before they are added.
static int is_in_two_steps(const finisher *f) {
    return f->kind == FINISH_MANY || f->kind == FINISH_VAST;
}

// Scratch memory of a point and model.
static int64_t point_bytes(const finisher *f) {
    if (!is_in_two_steps(f)) return f->labels_wanted ? KM_LABEL_BYTES : 0;
    return KM_FINISH_POINT_BYTES + (f->mean_rows_count ? (int64_t)sizeof(double) : 0);
}

// Tables of sums of a chunk.
static int64_t pieces_of(const finisher *f) {
    return f->kind == FINISH_TILES  ? KM_FINISH_PIECES(f->engine->base.d)
           : f->kind == FINISH_MANY ? KM_CHUNK_POINTS / KM_FINISH_SHARED_POINTS
                                    : 1;
}

// Points of a slice of so many chunks.
static int64_t slice_points(const finisher *f, int64_t chunks) {
    int64_t points = chunks * KM_CHUNK_POINTS;
    return points < f->engine->base.n ? points : f->engine->base.n;
}

// Memory that is there and free: passes are over, so it may be the workspace. 0: not so many bytes.
static km_cu_ptr free_memory(km_cuda_engine *engine, int64_t bytes) {
    return engine->scratch.bytes >= bytes ? engine->scratch.address : km_cuda_borrow(engine, bytes);
}

static int64_t label_table_bytes(const finisher *f) {
    int64_t d = f->engine->base.d;
    return f->k_max * d * KM_LABEL_PARTS(d) * 8;
}

// Chooses how many chunks a slice has, as many as pay or as there is memory for, and gets its scratch memory.
static km_status choose_slice(finisher *f, km_cu_ptr *scratch, km_error *err) {
    km_cuda_engine *engine = f->engine;
    int64_t each = f->count * point_bytes(f), chunk_bytes = each * KM_CHUNK_POINTS;
    int64_t chunks = km_cuda_finish_chunks(f->rows_count * pieces_of(f), engine->chunks_count);
    for (int64_t m = 0; m < f->count; m++)
        if (f->models[m]->sums)
            chunks = km_min(chunks, km_max(1, KM_LABEL_SUMS_BYTES / label_table_bytes(f)));
    *scratch = 0;
    f->slice_chunks = chunks;
    if (each == 0) return KM_OK;
    if (chunks > KM_FINISH_BYTES_MAX / chunk_bytes) chunks = KM_FINISH_BYTES_MAX / chunk_bytes;
    f->slice_chunks = chunks = chunks < 1 ? 1 : chunks;
    *scratch = free_memory(engine, slice_points(f, chunks) * each);
    if (*scratch || km_cuda_scratch(scratch, engine, slice_points(f, chunks) * each, "", NULL) == KM_OK)
        return KM_OK;
    int64_t fit = km_cuda_scratch_bytes(engine) / chunk_bytes;
    f->slice_chunks = fit < 1 ? 1 : fit < chunks ? fit : chunks;
    return km_cuda_scratch(scratch, engine, slice_points(f, f->slice_chunks) * each,
                           "the distances of the finishing pass", err);
}

// Tables of sums by labels: a block of km_label_sums has a chunk. With other ranks those of all slices and models are
// kept.
static void choose_label_blocks(finisher *f) {
    int64_t d = f->engine->base.d, models = 0;
    f->label_values = 0;
    for (int64_t m = 0; m < f->count; m++) {
        f->label_values += f->models[m]->sums ? f->models[m]->k * d : 0;
        models += f->models[m]->sums != NULL;
    }
    f->label_blocks = !models                 ? 0
                      : f->engine->base.share ? models * f->engine->chunks_count
                                              : f->slice_chunks;
}

// Addresses of the tables in `work`, of labels and distances in `scratch`.
static km_status reserve(finisher *f, km_error *err) {
    km_cuda_engine *engine = f->engine;
    int64_t d = engine->base.d, all_rows = f->rows_count + f->mean_rows_count;
    km_cu_ptr scratch;
    KM_TRY(choose_slice(f, &scratch, err));
    choose_label_blocks(f);
    int64_t points = slice_points(f, f->slice_chunks), sums_bytes = f->rows_count * KM_FINISH_SUMS * 8;
    int64_t sizes[] = {all_rows * d * 8,
                       engine->is_csr ? all_rows * (d + 1) * 8 : all_rows * d * engine->real_bytes,
                       f->count * 4,
                       f->count * 8,
                       f->count * 8,
                       f->count * 8,
                       sums_bytes,
                       (engine->base.share ? engine->chunks_count : f->slice_chunks) * pieces_of(f) *
                           sums_bytes,
                       f->label_values * 8,
                       f->label_blocks * label_table_bytes(f)};
    enum { TABLES = sizeof sizes / sizeof *sizes };
    km_cu_ptr at[TABLES];
    KM_TRY(km_cuda_reserve_tables(engine, at, sizes, TABLES, "the sums of the finishing pass", err));
    f->args = (km_assign_args){.points = (const void *)(uintptr_t)engine->points.address,
                               .centroids = (const double *)(uintptr_t)at[0],
                               .table = (const void *)(uintptr_t)at[1],
                               .ks = (const int *)(uintptr_t)at[2],
                               .rows = (const long long *)(uintptr_t)at[3],
                               .mean_rows = (const long long *)(uintptr_t)at[4],
                               .kept = f->keeps ? (unsigned char *)(uintptr_t)engine->kept.address : NULL,
                               .kept_at = (const long long *)(uintptr_t)at[5],
                               .models = (int)f->count};
    f->args.means = (const void *)(uintptr_t)(at[1] + (km_cu_ptr)(f->rows_count * d * engine->real_bytes));
    f->totals = at[6];
    f->partial = at[7];
    f->label_sums = at[8];
    f->label_partial = at[9];
    if (!is_in_two_steps(f) && f->labels_wanted) f->args.labels = (int *)(uintptr_t)scratch;
    if (is_in_two_steps(f)) {
        km_cu_ptr of_models = (km_cu_ptr)(f->count * points * 8), next = scratch + 2 * of_models;
        f->args.nearest = (double *)(uintptr_t)scratch;
        f->args.margin = (double *)(uintptr_t)(scratch + of_models);
        if (f->mean_rows_count) f->args.distance = (double *)(uintptr_t)next;
        if (f->mean_rows_count) next += of_models;
        f->args.labels = (int *)(uintptr_t)next;
    }
    int64_t numbers = km_max(all_rows * d, km_max(f->rows_count * KM_FINISH_SUMS, f->label_values));
    f->host = malloc((size_t)numbers * sizeof *f->host);
    if (!f->host) return km_fail_memory(err, "the sums of the finishing pass", numbers * 8);
    if (f->label_values) KM_TRY(km_cuda_clear(engine, f->label_sums, 0, f->label_values * 8, err));
    return km_cuda_clear(engine, f->totals, 0, sums_bytes, err);
}

// Rows as doubles and in the plan's type, put together in `host`; of CSR points as columns.
static km_status put_rows(finisher *f, km_error *err) {
    km_cuda_engine *engine = f->engine;
    int64_t d = engine->base.d, rows = f->rows_count + f->mean_rows_count, count = rows * d, at = 0;
    for (int64_t m = 0; m < f->count; at += f->models[m++]->k * d)
        memcpy(f->host + at, f->models[m]->centroids, (size_t)(f->models[m]->k * d) * sizeof *f->host);
    for (int64_t m = 0; m < f->count; m++) {
        if (!f->models[m]->means) continue;
        memcpy(f->host + at, f->models[m]->means, (size_t)(f->models[m]->k * d) * sizeof *f->host);
        at += f->models[m]->k * d;
    }
    KM_TRY(km_cuda_put(engine, (km_cu_ptr)(uintptr_t)f->args.centroids, f->host, count * 8, err));
    if (engine->is_csr)
        return km_cuda_columns(engine, (km_cu_ptr)(uintptr_t)f->args.table,
                               (km_cu_ptr)(uintptr_t)f->args.centroids, rows, err);
    float *floats = (float *)f->host; // in place: each is written where doubles have been read already
    for (int64_t i = 0; engine->real_bytes == 4 && i < count; i++) {
        float value = (float)f->host[i];
        memcpy(floats + i, &value, sizeof value);
    }
    return km_cuda_put(engine, (km_cu_ptr)(uintptr_t)f->args.table, f->host, count * engine->real_bytes, err);
}

static km_status put_models(finisher *f, km_error *err) {
    int64_t row = 0, mean_row = f->engine->is_csr ? f->rows_count : 0;
    int ks[MODELS_AT_ONCE];
    long long rows[MODELS_AT_ONCE], mean_rows[MODELS_AT_ONCE], kept_at[MODELS_AT_ONCE];
    for (int64_t m = 0; m < f->count; m++) {
        kept_at[m] = f->keeps ? km_cuda_keep_at(f->engine, f->models[m]) : -1;
        ks[m] = (int)f->models[m]->k;
        rows[m] = row;
        row += f->models[m]->k;
        mean_rows[m] = f->models[m]->means ? mean_row : -1;
        mean_row += f->models[m]->means ? f->models[m]->k : 0;
    }
    KM_TRY(put_rows(f, err));
    KM_TRY(km_cuda_put(f->engine, (km_cu_ptr)(uintptr_t)f->args.ks, ks, f->count * 4, err));
    KM_TRY(km_cuda_put(f->engine, (km_cu_ptr)(uintptr_t)f->args.rows, rows, f->count * 8, err));
    KM_TRY(km_cuda_put(f->engine, (km_cu_ptr)(uintptr_t)f->args.kept_at, kept_at, f->count * 8, err));
    return km_cuda_put(f->engine, (km_cu_ptr)(uintptr_t)f->args.mean_rows, mean_rows, f->count * 8, err);
}

static km_status take_labels(finisher *f, km_error *err) {
    for (int64_t m = 0; m < f->count; m++) {
        if (!f->models[m]->labels) continue;
        km_cu_ptr from = (km_cu_ptr)(uintptr_t)(f->args.labels + m * f->args.count);
        KM_TRY(km_cuda_download(f->engine, f->models[m]->labels + f->args.first, from,
                                f->args.count * KM_LABEL_BYTES, err));
    }
    return KM_OK;
}

// Adds the slice's points to the sums of the models that want them, by the labels in scratch memory.
static km_status add_label_sums(finisher *f, int64_t first_chunk, km_error *err) {
    km_cuda_engine *engine = f->engine;
    int64_t d = engine->base.d;
    km_cu_ptr sums = f->label_sums, kept = f->label_partial;
    long long blocks = km_divide_up(f->args.count, KM_CHUNK_POINTS), tables = blocks * KM_LABEL_PARTS(d);
    for (int m = 0; m < f->count && f->label_values; m++) {
        if (!f->models[m]->sums) continue;
        long long numbers = f->models[m]->k * d, block_points = KM_CHUNK_POINTS;
        km_cu_ptr partial = kept;
        if (engine->base.share) partial += (km_cu_ptr)(first_chunk * KM_LABEL_PARTS(d) * numbers * 8);
        void *arguments[] = {&f->args, &engine->weights.address, &partial, &block_points, &m};
        KM_TRY(km_cuda_launch(engine, engine->kernels->label_sums, blocks, 1, arguments, err));
        if (engine->base.share)
            kept += (km_cu_ptr)(engine->chunks_count * label_table_bytes(f));
        else
            KM_TRY(km_cuda_add_in_order(engine, sums, partial, tables, numbers, err));
        sums += (km_cu_ptr)(numbers * 8);
    }
    return KM_OK;
}

// With other ranks: what was kept of all slices.
static km_status add_kept(finisher *f, km_error *err) {
    km_cuda_engine *engine = f->engine;
    int64_t tables = engine->chunks_count * KM_LABEL_PARTS(engine->base.d);
    km_cu_ptr sums = f->label_sums, kept = f->label_partial;
    if (!engine->base.share) return KM_OK;
    KM_TRY(km_cuda_add_in_order(engine, f->totals, f->partial - (km_cu_ptr)f->kept_bytes,
                                f->kept_bytes / (f->rows_count * KM_FINISH_SUMS * 8),
                                f->rows_count * KM_FINISH_SUMS, err));
    for (int64_t m = 0; m < f->count && f->label_values; m++) {
        int64_t numbers = f->models[m]->k * engine->base.d;
        if (!f->models[m]->sums) continue;
        KM_TRY(km_cuda_add_in_order(engine, sums, kept, tables, numbers, err));
        kept += (km_cu_ptr)(engine->chunks_count * label_table_bytes(f));
        sums += (km_cu_ptr)(numbers * 8);
    }
    return KM_OK;
}

static km_status launch_few(finisher *f, int64_t chunks, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = f->engine;
    const km_driver *driver = engine->driver;
    km_cu_function few_clusters = engine->kernels->finish_few_clusters;
    long long rows = f->rows_count;
    int bytes = (int)few_clusters_bytes(engine, f->k_max);
    void *arguments[] = {&f->args, &engine->weights.address, &f->partial, &rows};
    if (bytes > 48 << 10) KM_CU(cuFuncSetAttribute(few_clusters, KM_CU_FUNC_MAX_DYNAMIC_SHARED, bytes));
    KM_CU(cuLaunchKernel(few_clusters, (unsigned)(chunks * f->count), 1, 1, KM_FINISH_THREADS, 1, 1,
                         (unsigned)bytes, engine->stream, arguments, NULL));
done:
    return status;
}

static km_status launch_tiles(finisher *f, int64_t pieces, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = f->engine;
    const km_driver *driver = engine->driver;
    km_cu_function tiles = engine->kernels->finish_tiles;
    long long rows = f->rows_count;
    for (int first = 0; first < f->count;) {
        tile_group group = choose_group(engine, f->models + first, f->count - first);
        void *arguments[] = {&f->args,      &engine->weights.address, &f->partial, &rows, &first,
                             &group.models, &group.tile_rows};
        KM_CU(cuFuncSetAttribute(tiles, KM_CU_FUNC_MAX_DYNAMIC_SHARED, (int)group.bytes));
        KM_CU(cuLaunchKernel(tiles, (unsigned)pieces, 1, 1, (unsigned)group.threads, 1, 1,
                             (unsigned)group.bytes, engine->stream, arguments, NULL));
        first += group.models;
    }
done:
    return status;
}

static km_status launch_many(finisher *f, int64_t pieces, km_error *err) {
    km_status status = KM_OK;
    km_cuda_engine *engine = f->engine;
    const km_driver *driver = engine->driver;
    long long rows = f->rows_count, pitch = rows + f->mean_rows_count;
    long long points_each = KM_CHUNK_POINTS / pieces_of(f);
    int in_shared = f->kind == FINISH_MANY;
    void *assign_arguments[] = {&f->args, &f->args.table, &pitch}; // the last two of CSR points
    void *arguments[] = {&f->args, &engine->weights.address, &f->partial, &rows, &points_each, &in_shared};
    KM_TRY(km_cuda_launch(engine, engine->kernels->assign, km_divide_up(f->args.count, KM_SUBCHUNK_POINTS),
                          f->count, assign_arguments, err));
    KM_CU(cuLaunchKernel(engine->kernels->finish_chunks, (unsigned)pieces, (unsigned)f->count, 1, 32, 1, 1,
                         in_shared ? (unsigned)(f->k_max * KM_FINISH_SUMS * 8) : 0, engine->stream, arguments,
                         NULL));
done:
    return status;
}

static km_status finish_slice(finisher *f, int64_t first_chunk, km_error *err) {
    km_cuda_engine *engine = f->engine;
    long long numbers = f->rows_count * KM_FINISH_SUMS;
    int64_t left = f->end - first_chunk * KM_CHUNK_POINTS, most = f->slice_chunks * KM_CHUNK_POINTS;
    f->args.first = first_chunk * KM_CHUNK_POINTS;
    f->args.count = left < most ? left : most;
    long long tables = km_divide_up(f->args.count, KM_CHUNK_POINTS / pieces_of(f));
    KM_TRY((f->kind == FINISH_TILES ? launch_tiles
            : f->kind == FINISH_FEW ? launch_few
                                    : launch_many)(f, tables, err));
    if (engine->base.share) {
        f->kept_bytes += tables * numbers * 8;
        f->partial += (km_cu_ptr)(tables * numbers * 8);
    } else {
        KM_TRY(km_cuda_add_in_order(engine, f->totals, f->partial, tables, numbers, err));
    }
    KM_TRY(add_label_sums(f, first_chunk, err));
    return take_labels(f, err);
}

static km_status take_sums(finisher *f, km_error *err) {
    KM_TRY(km_cuda_get(f->engine, f->host, f->totals, f->rows_count * KM_FINISH_SUMS * 8, err));
    const double *row = f->host;
    for (int64_t m = 0; m < f->count; m++) {
        km_finish_model *model = f->models[m];
        for (int64_t j = 0; j < model->k; j++, row += KM_FINISH_SUMS) {
            model->counts[j] = (int64_t)row[KM_FINISH_COUNT];
            model->weights[j] = row[KM_FINISH_WEIGHT];
            model->sse[j] = row[KM_FINISH_SSE];
            model->distance[j] = row[KM_FINISH_DISTANCE];
            model->margin[j] = row[KM_FINISH_MARGIN];
        }
    }
    if (!f->label_values) return KM_OK;
    KM_TRY(km_cuda_get(f->engine, f->host, f->label_sums, f->label_values * 8, err));
    row = f->host;
    for (int64_t m = 0; m < f->count; m++) {
        if (!f->models[m]->sums) continue;
        memcpy(f->models[m]->sums, row, (size_t)(f->models[m]->k * f->engine->base.d) * sizeof *row);
        row += f->models[m]->k * f->engine->base.d;
    }
    return KM_OK;
}

static km_status finish_slices(finisher *f, int64_t first, int64_t end, km_error *err) {
    f->end = end;
    for (int64_t chunk = first / KM_CHUNK_POINTS; chunk * KM_CHUNK_POINTS < end; chunk += f->slice_chunks)
        KM_TRY(finish_slice(f, chunk, err));
    return KM_OK;
}

// All points, where they lie or in windows, which come to the device once for all models.
static km_status finish_points(finisher *f, km_error *err) {
    km_cuda_engine *engine = f->engine;
    int64_t windows = km_cuda_windows_of_chunks(engine), row = engine->base.d * engine->real_bytes;
    for (int64_t w = 0; w < windows; w++) {
        km_cuda_window own;
        KM_TRY(km_cuda_window_begin(engine, w, &own, err));
        f->args.points = (const void *)(uintptr_t)(own.points - (km_cu_ptr)(own.first * row));
        KM_TRY(finish_slices(f, own.first, own.first + own.count, err));
        KM_TRY(km_cuda_window_end(engine, w, err));
    }
    return windows ? KM_OK : finish_slices(f, 0, engine->base.n, err);
}

static km_status finish_group(finisher *f, km_error *err) {
    km_status status = KM_OK;
    KM_TRY_GOTO(reserve(f, err));
    KM_TRY_GOTO(put_models(f, err));
    KM_TRY_GOTO(finish_points(f, err));
    KM_TRY_GOTO(add_kept(f, err));
    status = take_sums(f, err);
done:
    free(f->host);
    return status;
}

// Finishes the models of a kind.
static km_status finish_models(km_cuda_engine *engine, km_finish_model *models, int64_t count,
                               finish_kind kind, km_error *err) {
    finisher f = {.engine = engine, .kind = kind};
    for (int64_t m = 0; m < count; m++) {
        if (kind_of(engine, &models[m]) == kind) {
            f.models[f.count++] = &models[m];
            f.rows_count += models[m].k;
            f.labels_wanted |= models[m].labels || models[m].sums;
            f.keeps |= kind == FINISH_FEW && models[m].keep;
            f.mean_rows_count += models[m].means ? models[m].k : 0;
            if (models[m].k > f.k_max) f.k_max = models[m].k;
        }
        if (f.count == 0 || (f.count < MODELS_AT_ONCE && m + 1 < count)) continue;
        KM_TRY(finish_group(&f, err));
        f = (finisher){.engine = engine, .kind = kind};
    }
    return KM_OK;
}

km_status km_cuda_finish(km_cuda_engine *engine, km_finish_model *models, int64_t count, km_error *err) {
    if (!engine->points.address) return km_fail(err, KM_ERROR_INTERNAL, "the engine has no points yet");
    km_cuda_keep(engine, models, count);
    for (int kind = 0; kind < FINISH_KINDS; kind++)
        KM_TRY(finish_models(engine, models, count, (finish_kind)kind, err));
    return KM_OK;
}

// SPDX-License-Identifier: MIT
// Points as nonzeros (CSR) in the CPU engine: the table of all runs' centroids, pieces of a pass, rows, and the sums of
// runs with so many clusters and features that no chunk has partial sums of its own.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../gen/cpu/facts.h"
#include "../rounding.h"
#include "../threads.h"
#include "cpu.h"
#include "sparse_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_NONZEROS_MIN = 1 << 16, // a piece of a pass ends where it has so many nonzeros ...
    PIECE_NONZEROS_MEAN = 4,      // ... and so many times the mean of pieces
    SAMPLE_ROWS = 4096,           // by which features are divided
    SUM_TASKS = 4                 // of each thread, at least, where clusters are few
};

static void row(double *out, const cpu_engine *engine, int64_t point) {
    km_sparse_row(out, &engine->sparse->points, point);
}

static int64_t pieces(const cpu_engine *engine) {
    return engine->sparse->pieces;
}

static int64_t piece_first(const cpu_engine *engine, int64_t piece) {
    return engine->sparse->cuts[piece];
}

static void pass_end(cpu_engine *engine) {
    (void)engine;
}

// Points and their rows ---------------------------------------------------------------------------------------

// Where pieces of a pass end: they have at most `most` points of one chunk and, but for a single row, not many more
// nonzeros than others. They depend on the points alone.
static int64_t cut(int64_t *cuts, const km_sparse_points *points, int64_t most) {
    int64_t count = 0, mean = points->nonzeros / points->n + 1;
    int64_t limit = km_max(PIECE_NONZEROS_MIN, PIECE_NONZEROS_MEAN * mean * most);
    for (int64_t first = 0; first < points->n; count++) {
        int64_t row = first % KM_CHUNK_POINTS,
                end = km_min(km_min(row + most, KM_CHUNK_POINTS), points->n - first + row);
        const uint32_t *starts = points->starts + first / KM_CHUNK_POINTS * KM_SPARSE_STARTS;
        int64_t last = row + 1;
        while (last < end && (int64_t)starts[last + 1] - starts[row] <= limit) last++;
        if (cuts) cuts[count] = first;
        first += last - row;
    }
    if (cuts) cuts[count] = points->n;
    return count;
}

static void sparse_free(cpu_sparse *sparse) {
    for (int64_t i = 0; sparse->changes && i < sparse->pieces * sparse->slots_count; i++)
        free(sparse->changes[i].list);
    km_sparse_free(&sparse->points);
    free(sparse->cuts);
    free(sparse->table_constants);
    free(sparse->constants);
    free(sparse->norms_max);
    free(sparse->scratch);
    free(sparse->changes);
    free(sparse->marks);
    free(sparse->feature_cuts);
    km_pages_free(sparse->table_rows);
    free(sparse);
}

static void destroy(cpu_engine *engine) {
    if (engine->sparse) sparse_free(engine->sparse);
    engine->sparse = NULL;
}

static int is_owned_any(const cpu_engine *engine) {
    int any = 0;
    for (int64_t s = 0; s < engine->base.slots_count; s++) any |= engine->slots[s].sums_by_owner;
    return any;
}

// What passes need beside the points: memory for the table of all runs at a time.
static km_status pass_alloc(cpu_engine *engine, km_error *err) {
    cpu_sparse *sparse = engine->sparse;
    int64_t columns = 0, slots = engine->base.slots_count, d = engine->base.d, bytes;
    for (int64_t s = 0; s < slots; s++) columns += engine->slots[s].k;
    sparse->slots_count = slots;
    sparse->stride_max = km_round_up(columns, SPARSE_COLUMNS);
    if (km_mul_overflows(&bytes, sparse->stride_max * engine->real_bytes, d))
        return km_fail(err, KM_ERROR_MEMORY, "%lld x %lld centroids are too many for this machine",
                       (long long)columns, (long long)d);
    sparse->pieces = cut(NULL, &sparse->points, KM_CPU_PASS_POINTS);
    sparse->cuts = malloc((size_t)(sparse->pieces + 1) * sizeof *sparse->cuts);
    sparse->table_rows = km_pages_alloc(bytes);
    sparse->table_constants = aligned_alloc(64, (size_t)(sparse->stride_max * 8));
    sparse->constants = calloc((size_t)sparse->stride_max, sizeof *sparse->constants);
    sparse->norms_max = calloc((size_t)slots, sizeof *sparse->norms_max);
    sparse->scratch_bytes = km_round_up(slots * (SPARSE_SLOT_BYTES + 8), 64);
    sparse->scratch = aligned_alloc(64, (size_t)(engine->threads * sparse->scratch_bytes));
    if (!sparse->cuts || !sparse->table_rows || !sparse->table_constants || !sparse->constants ||
        !sparse->norms_max || !sparse->scratch)
        return km_fail_memory(err, "the table of centroids", bytes);
    cut(sparse->cuts, &sparse->points, KM_CPU_PASS_POINTS);
    if (!is_owned_any(engine)) return KM_OK;
    sparse->changes = calloc((size_t)(sparse->pieces * slots), sizeof *sparse->changes);
    sparse->marks = malloc((size_t)(engine->base.n + 2 * sparse->pieces) * sizeof *sparse->marks);
    if (!sparse->changes || !sparse->marks)
        return km_fail_memory(err, "lists of changed points", engine->base.n * 8);
    for (int64_t i = 0; i < sparse->pieces * slots; i++) {
        cpu_sparse_changes *changes = &sparse->changes[i];
        int64_t points = sparse->cuts[i / slots + 1] - sparse->cuts[i / slots];
        if (!engine->slots[i % slots].sums_by_owner) continue;
        changes->most = points / SPARSE_CHANGES_SHARE + 1;
        changes->list = malloc((size_t)changes->most * sizeof *changes->list);
        if (!changes->list) return km_fail_memory(err, "lists of changed points", changes->most * 8);
    }
    return KM_OK;
}

static km_status load(cpu_engine *engine, km_data_stats *stats, const km_data *data, km_load_params *params,
                      km_error *err) {
    km_type type = engine->base.plan->spec.type;
    cpu_sparse *sparse = engine->sparse = calloc(1, sizeof *sparse);
    if (!sparse) return km_fail_memory(err, "the engine", (int64_t)sizeof *sparse);
    sparse->kernels = km_cpu_sparse_kernels(engine->base.plan);
    KM_TRY(km_sparse_load(&sparse->points, stats, data, params, type, engine->threads, err));
    int64_t n = sparse->points.n;
    engine->base.n = n;
    engine->chunks_count = km_divide_up(n, KM_CHUNK_POINTS);
    engine->weights = km_data_weights(data); // the data outlive the engine
    engine->total_weight = stats->total_weight;
    engine->total_square = stats->total_square;
    engine->typical_square = stats->typical_square;
    // Squared distances are differences of squares here, whose rounding may be more than the mean's.
    engine->rounding2 = fmax(km_mean_rounding2(n, type), SPARSE_ROUNDING);
    engine->square_min = engine->rounding2 * stats->typical_square;
    for (int64_t i = 0; i < n; i++)
        engine->norm_max = fmax(engine->norm_max, (double)sparse->points.norms[i]);
    engine->largest_square = engine->norm_max * engine->norm_max;
    return pass_alloc(engine, err);
}

// The pass ----------------------------------------------------------------------------------------------------

static int is_active(const cpu_slot *slot) {
    return km_slot_is_active(slot->state.phase);
}

// Minus the coordinates `first` .. `end` - 1 of one centroid, as column `column`.
static void fill_column(const cpu_engine *engine, const double *centroid, int64_t column, int64_t first,
                        int64_t end) {
    const cpu_sparse *sparse = engine->sparse;
    int64_t stride = sparse->table.stride;
    if (engine->real_bytes == 4) {
        float *to = (float *)sparse->table_rows + column;
        for (int64_t f = first; f < end; f++) to[f * stride] = -(float)centroid[f];
    } else {
        double *to = (double *)sparse->table_rows + column;
        for (int64_t f = first; f < end; f++) to[f * stride] = -centroid[f];
    }
}

static void fill_zeros(const cpu_engine *engine, int64_t first, int64_t end) {
    const cpu_sparse_table *table = &engine->sparse->table;
    uint8_t *rows = engine->sparse->table_rows;
    for (int64_t f = first; f < end; f++)
        memset(rows + (f * table->stride + table->columns) * engine->real_bytes, 0,
               (size_t)((table->stride - table->columns) * engine->real_bytes));
}

static void fill_features(const cpu_engine *engine, int64_t first, int64_t end) {
    for (int64_t s = 0, column = 0; s < engine->base.slots_count; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (!is_active(slot)) continue;
        for (int64_t j = 0; j < slot->k; j++, column++)
            fill_column(engine, slot->centroids + j * engine->base.d, column, first, end);
    }
    fill_zeros(engine, first, end);
}

// |c|^2 / 2 of the centroids of one slot, of which `column` is the first, and the largest |c|.
static double fill_constants(const cpu_engine *engine, const cpu_slot *slot, int64_t column, int threads) {
    cpu_sparse *sparse = engine->sparse;
    double most = 0;
    int64_t d = engine->base.d;
    (void)threads;
#pragma omp parallel for num_threads(threads) if (threads > 1) reduction(max : most)
    for (int64_t j = 0; j < slot->k; j++) {
        double square = sparse->kernels->square(slot->centroids + j * d, d);
        sparse->constants[column + j] = 0.5 * square;
        most = fmax(most, square);
    }
    return sqrt(most) * (1 + 0x1p-20);
}

static void constants_end(const cpu_engine *engine) {
    cpu_sparse *sparse = engine->sparse;
    for (int64_t c = 0; c < sparse->table.stride; c++) {
        double constant = c < sparse->table.columns ? sparse->constants[c] : INFINITY;
        if (engine->real_bytes == 4)
            ((float *)sparse->table_constants)[c] = (float)constant;
        else
            ((double *)sparse->table_constants)[c] = constant;
    }
}

static km_status pass_begin(cpu_engine *engine, km_error *err) {
    cpu_sparse *sparse = engine->sparse;
    (void)err;
    int64_t d = engine->base.d, columns = 0, actives = 0, slots = engine->base.slots_count;
    for (int64_t s = 0; s < slots; s++) columns += is_active(&engine->slots[s]) ? engine->slots[s].k : 0;
    sparse->table = (cpu_sparse_table){.rows = sparse->table_rows,
                                       .constants = sparse->table_constants,
                                       .columns = columns,
                                       .stride = km_round_up(columns, SPARSE_COLUMNS)};
    sparse->table.is_large =
        d * sparse->table.stride * engine->real_bytes > engine->base.plan->facts.cache_bytes;
    int threads = d * columns > SPARSE_PARALLEL_MIN ? (int)engine->threads : 1;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t first = 0; first < d; first += SPARSE_FEATURES_AT_A_TIME)
        fill_features(engine, first, km_min(first + SPARSE_FEATURES_AT_A_TIME, d));
    for (int64_t s = 0, column = 0; s < slots; s++) {
        const cpu_slot *slot = &engine->slots[s];
        if (!is_active(slot)) continue;
        sparse->norms_max[actives++] = fill_constants(engine, slot, column, threads);
        column += slot->k;
    }
    constants_end(engine);
    for (int64_t i = 0; sparse->changes && i < sparse->pieces * slots; i++) sparse->changes[i].count = 0;
    return KM_OK;
}

static void pass_piece(cpu_engine *engine, int64_t piece, km_cpu_slot *list, int64_t count) {
    cpu_sparse *sparse = engine->sparse;
    int64_t first = sparse->cuts[piece], slots = engine->base.slots_count;
    uint8_t *scratch = sparse->scratch + omp_get_thread_num() * sparse->scratch_bytes;
    cpu_sparse_changes **changes = (cpu_sparse_changes **)(void *)(scratch + slots * SPARSE_SLOT_BYTES);
    cpu_sparse_chunk chunk = {.weights = cpu_weights_at(engine, first),
                              .norms = sparse->points.norms + first,
                              .d = engine->base.d,
                              .table = sparse->table,
                              .constants = sparse->constants,
                              .norms_max = sparse->norms_max,
                              .changes = changes,
                              .slots = list,
                              .slots_count = count,
                              .scratch = scratch};
    km_cpu_sparse_rows(&chunk.rows, engine, first, sparse->cuts[piece + 1] - first);
    for (int64_t s = 0, at = 0; s < slots; s++)
        if (is_active(&engine->slots[s]))
            changes[at++] = engine->slots[s].sums_by_owner ? &sparse->changes[piece * slots + s] : NULL;
    sparse->kernels->pass(&chunk);
}

// Sums of many clusters and features ---------------------------------------------------------------------------
// Each cluster's points are added to its sums in index order, by whichever thread: no sums are kept for each. Where
// clusters are few, their features are divided, too, so that all threads have work.

// Features from which on tasks of about the same number of nonzeros begin, by a sample of rows.
static km_status feature_cuts(cpu_engine *engine, int64_t parts, km_error *err) {
    cpu_sparse *sparse = engine->sparse;
    int64_t d = engine->base.d, n = engine->base.n, step = km_max(n / SAMPLE_ROWS, 1), all = 0;
    const km_sparse_points *points = &sparse->points;
    if (sparse->feature_parts >= parts) return KM_OK;
    free(sparse->feature_cuts);
    sparse->feature_parts = 0;
    int64_t *counts = calloc((size_t)d, sizeof *counts);
    sparse->feature_cuts = malloc((size_t)(parts * (parts + 3) / 2) * sizeof *sparse->feature_cuts);
    if (!counts || !sparse->feature_cuts) {
        free(counts);
        return km_fail_memory(err, "sums of features", d * 8);
    }
    for (int64_t i = 0; i < n; i += step)
        for (int64_t at = km_sparse_first(points, i); at < km_sparse_end(points, i); at++, all++)
            counts[km_sparse_column(points, at)]++;
    // Cuts for each number of parts, 1 .. parts, one after another.
    for (int64_t count = 1, to = 0; count <= parts; to += ++count) {
        int64_t f = 0, sum = 0;
        for (int64_t p = 0; p < count; p++) {
            while (f < d && sum < all * p / count) sum += counts[f++];
            sparse->feature_cuts[to + p] = f;
        }
        sparse->feature_cuts[to + count] = d;
    }
    sparse->feature_parts = parts;
    free(counts);
    return KM_OK;
}

// Whether the lists of changes of a slot are whole.
static int lists_are_whole(const cpu_engine *engine, int64_t s) {
    const cpu_sparse *sparse = engine->sparse;
    for (int64_t piece = 0; piece < sparse->pieces; piece++) {
        const cpu_sparse_changes *changes = &sparse->changes[piece * engine->base.slots_count + s];
        if (changes->count > changes->most) return 0;
    }
    return 1;
}

// A cluster and a point that joins it, or leaves it.
typedef void (*mark_taker)(void *user, int64_t label, int64_t mark);

// Every point of a slot, or every change of the lists, in index order.
static void each_mark(const cpu_engine *engine, int64_t s, int all, mark_taker take, void *user) {
    const cpu_sparse *sparse = engine->sparse;
    const cpu_slot *slot = &engine->slots[s];
    for (int64_t i = 0; all && i < engine->base.n; i++) take(user, cpu_label_at(slot, i), 2 * i);
    for (int64_t piece = 0; !all && piece < sparse->pieces; piece++) {
        const cpu_sparse_changes *changes = &sparse->changes[piece * engine->base.slots_count + s];
        for (int64_t i = 0; i < changes->count; i++) {
            int64_t point = sparse->cuts[piece] + changes->list[i].row;
            take(user, changes->list[i].old, 2 * point + 1);
            take(user, cpu_label_at(slot, point), 2 * point);
        }
    }
}

// Where each cluster's marks are.
typedef struct mark_lists {
    int64_t *ends; // of clusters: while marks are counted those of the next one
    int64_t *marks;
} mark_lists;

static void mark_count(void *user, int64_t label, int64_t mark) {
    (void)mark;
    ((mark_lists *)user)->ends[label + 1]++;
}

static void mark_put(void *user, int64_t label, int64_t mark) {
    mark_lists *lists = user;
    lists->marks[lists->ends[label]++] = mark;
}

// Adds the marks of all clusters of a slot to its totals; those of cluster j end at ends[j].
static void marks_add(const cpu_engine *engine, cpu_slot *slot, const mark_lists *lists, int64_t parts) {
    const cpu_sparse *sparse = engine->sparse;
    const int64_t *cuts = sparse->feature_cuts + (parts - 1) * (parts + 2) / 2;
    int threads = (int)km_min(engine->threads, slot->k * parts);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t task = 0; task < slot->k * parts; task++) {
        int64_t j = task / parts, from = j ? lists->ends[j - 1] : 0;
        cpu_sparse_sum sum = {.row = slot->totals + j * engine->pitch,
                              .marks = lists->marks + from,
                              .count = lists->ends[j] - from,
                              .low = cuts[task % parts],
                              .high = cuts[task % parts + 1],
                              .d = engine->base.d,
                              .starts = sparse->points.starts,
                              .chunk_first = sparse->points.chunk_first,
                              .indices = sparse->points.indices,
                              .values = sparse->points.values,
                              .index_bytes = sparse->points.index_bytes,
                              .weights = engine->weights};
        // The last part has the weight and the count; there is one only where features are left for it.
        if (sum.low < sum.high || sum.high == sum.d) sparse->kernels->add(&sum);
    }
}

static km_status owned_sums(cpu_engine *engine, int64_t s, km_error *err) {
    cpu_sparse *sparse = engine->sparse;
    cpu_slot *slot = &engine->slots[s];
    int64_t parts = km_min(km_divide_up(SUM_TASKS * engine->threads, slot->k), SUM_TASKS * engine->threads);
    int all = slot->mode != KM_CPU_MOVE || !lists_are_whole(engine, s);
    mark_lists lists = {.marks = sparse->marks};
    if (engine->threads == 1) parts = 1;
    KM_TRY(feature_cuts(engine, parts, err));
    lists.ends = calloc((size_t)(slot->k + 2), sizeof *lists.ends);
    if (!lists.ends) return km_fail_memory(err, "lists of changed points", slot->k * 8);
    if (all) memset(slot->totals, 0, (size_t)(slot->k * engine->pitch) * sizeof *slot->totals);
    each_mark(engine, s, all, mark_count, &lists);
    for (int64_t j = 0; j < slot->k; j++) lists.ends[j + 1] += lists.ends[j];
    each_mark(engine, s, all, mark_put, &lists);
    marks_add(engine, slot, &lists, parts);
    free(lists.ends);
    return KM_OK;
}

const cpu_layout km_cpu_csr = {
    .load = load,
    .destroy = destroy,
    .row = row,
    .has_slot_tables = 0, // one table for all slots, before each pass
    .pieces = pieces,
    .piece_first = piece_first,
    .pass_begin = pass_begin,
    .piece = pass_piece,
    .owned_sums = owned_sums,
    .pass_end = pass_end,
    .seed_create = km_cpu_sparse_seed_create,
    .seed_destroy = km_cpu_sparse_seed_destroy,
    .seed_begin = km_cpu_sparse_seed_begin,
    .seed_subchunk = km_cpu_sparse_seed_subchunk,
    .seed_end = km_cpu_sparse_seed_end,
    .square = km_cpu_sparse_square,
    .finish_create = km_cpu_sparse_finish_create,
    .finish_destroy = km_cpu_sparse_finish_destroy,
    .finish = km_cpu_sparse_finish,
    .silhouette = km_cpu_sparse_silhouette,
};

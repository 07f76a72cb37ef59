// SPDX-License-Identifier: MIT
// The finishing pass, and the farthest points for empty clusters: both from labels and squared distances that are
// bitwise the same on every backend.
#include "../../base/error.h"
#include "../../base/size.h"
#include "cpu.h"
#include "layout.h"
#include "../../templates/relocation.h"
#include "../share.h"
#include "../threads.h"
#include <stdlib.h>
#include <math.h>
#include <string.h>

// The models as the layout's kernels are given them, and each thread's sums.
typedef struct finisher {
    cpu_engine *engine;
    cpu_finish_pass pass;
    double *sums;       // of each thread: of all models, k rows of KM_CPU_SUMS
    int64_t sums_count; // of each thread; 0: none are wanted
    double *point_sums; // of each thread: of all models with `sums`, k x d, and a row; NULL: none are wanted
    int32_t *labels;    // of each thread and model, a chunk's
    int64_t point_sums_count;
    double *chunks; // with a share, of each of this rank's chunks: both kinds of sums; NULL
} finisher;

static void finisher_free(finisher *f) {
    f->engine->layout->finish_destroy(&f->pass);
    free(f->pass.models);
    free(f->sums);
    free(f->point_sums);
    free(f->labels);
    free(f->chunks);
}

static km_cpu_finish_model *models_of(const finisher *f, int64_t thread) {
    return f->pass.models + thread * f->pass.count;
}

static double *sums_of(const finisher *f, int64_t thread) {
    return f->sums + thread * (km_round_up(f->sums_count, 8) + 8);
}

// `with_sums`: the models' sums are wanted, not only labels and squares.
static km_status finisher_init(finisher *f, cpu_engine *engine, const km_finish_model *models, int64_t count,
                               int with_sums, km_error *err) {
    int64_t rows = 0, threads = cpu_threads_for(engine, engine->chunks_count);
    for (int64_t m = 0; m < count; m++) rows += models[m].k;
    *f = (finisher){.engine = engine, .sums_count = with_sums ? rows * KM_CPU_SUMS : 0};
    f->pass = (cpu_finish_pass){.engine = engine, .count = count, .rows = rows, .threads = threads};
    int64_t sums = sums_of(f, threads) - f->sums;
    f->sums = calloc((size_t)sums, sizeof *f->sums);
    f->pass.models = calloc((size_t)(threads * count), sizeof *f->pass.models);
    if (!f->sums || !f->pass.models) return km_fail_memory(err, "the finishing pass", sums * 8);
    for (int64_t t = 0; t < threads; t++)
        for (int64_t m = 0, at = 0; m < count; at += models[m++].k)
            models_of(f, t)[m] = (km_cpu_finish_model){
                .k = models[m].k, .sums = with_sums ? sums_of(f, t) + at * KM_CPU_SUMS : NULL};
    return engine->layout->finish_create(&f->pass, models, err);
}

// What is finished between two questions whether to stop: so many points, and models with up to so many products
// of a point's and a centroid's coordinates, some 20 ms. Points are always cut alike, so that the bits of a model's
// sums do not depend on the other models.
enum {
    PART_POINTS = 2048, // whole SoA groups
    PART_PRODUCTS = 1 << 26
};

static double *point_sums_of(const finisher *f, int64_t thread) {
    return f->point_sums + thread * f->point_sums_count;
}

static int32_t *labels_of(const finisher *f, int64_t thread, int64_t model) {
    return f->labels + (thread * f->pass.count + model) * KM_CHUNK_POINTS;
}

// Where a model's points are summed up by their labels.
static km_status point_sums_init(finisher *f, const km_finish_model *models, int64_t count, km_error *err) {
    int64_t d = f->engine->base.d, values = 0;
    for (int64_t m = 0; m < count; m++) values += models[m].sums ? models[m].k * d : 0;
    if (values == 0) return KM_OK;
    f->point_sums_count = km_round_up(values + d, 8);
    f->point_sums = calloc((size_t)(f->pass.threads * f->point_sums_count), sizeof *f->point_sums);
    f->labels = malloc((size_t)(f->pass.threads * count * KM_CHUNK_POINTS) * sizeof *f->labels);
    return f->point_sums && f->labels
               ? KM_OK
               : km_fail_memory(err, "the sums of labels", f->pass.threads * f->point_sums_count * 8);
}

// Adds a chunk's points to the sums of the models that want them.
static void add_points(const finisher *f, const km_finish_model *models, int64_t first, int64_t points) {
    const cpu_engine *engine = f->engine;
    int64_t d = engine->base.d, thread = omp_get_thread_num(), last = f->point_sums_count - d;
    double *sums = point_sums_of(f, thread), *row = sums + last;
    for (int64_t m = 0; m < f->pass.count; m++) {
        if (!models[m].sums) continue;
        const int32_t *labels = models[m].labels ? models[m].labels + first : labels_of(f, thread, m);
        for (int64_t i = 0; i < points; i++) {
            double weight = engine->weights ? engine->weights[first + i] : 1, *to = sums + labels[i] * d;
            km_cpu_row(row, engine, first + i);
            for (int64_t x = 0; x < d; x++) to[x] += weight * row[x];
        }
        sums += models[m].k * d;
    }
}

// Adds a chunk's sums to the models', and sets them to zero again.
static void collect(double *sums, double *point_sums, km_finish_model *models, int64_t count, int64_t d) {
    double *at = sums;
    for (int64_t m = 0; m < count; m++) {
        if (!models[m].sums) continue;
        for (int64_t i = 0; i < models[m].k * d; i++) models[m].sums[i] += point_sums[i];
        memset(point_sums, 0, (size_t)(models[m].k * d) * sizeof *point_sums);
        point_sums += models[m].k * d;
    }
    for (int64_t m = 0; m < count; m++)
        for (int64_t j = 0; j < models[m].k; j++, at += KM_CPU_SUMS) {
            models[m].weights[j] += at[KM_CPU_SUM_WEIGHT];
            models[m].counts[j] += (int64_t)at[KM_CPU_SUM_COUNT];
            models[m].sse[j] += at[KM_CPU_SUM_SSE];
            models[m].distance[j] += at[KM_CPU_SUM_DISTANCE];
            models[m].margin[j] += at[KM_CPU_SUM_MARGIN];
        }
    memset(sums, 0, (size_t)(at - sums) * sizeof *sums);
}

// With other ranks ------------------------------------------------------------------------------------------

// Numbers of a chunk: sums of all models, then the sums of points.
static int64_t chunk_numbers(const finisher *f) {
    return f->sums_count + f->point_sums_count;
}

static km_status chunks_init(finisher *f, km_error *err) {
    int64_t count = f->engine->chunks_count * chunk_numbers(f);
    if (!f->engine->base.share) return KM_OK;
    f->chunks = malloc((size_t)(count + 1) * sizeof *f->chunks);
    return f->chunks ? KM_OK : km_fail_memory(err, "the sums of chunks", count * 8);
}

// Keeps a chunk's sums, and sets them to zero again.
static void chunk_keep(const finisher *f, int64_t chunk, double *sums, double *point_sums) {
    double *to = f->chunks + chunk * chunk_numbers(f);
    memcpy(to, sums, (size_t)f->sums_count * sizeof *to);
    memset(sums, 0, (size_t)f->sums_count * sizeof *to);
    if (!f->point_sums) return;
    memcpy(to + f->sums_count, point_sums, (size_t)f->point_sums_count * sizeof *to);
    memset(point_sums, 0, (size_t)f->point_sums_count * sizeof *to);
}

// The chunks of all ranks, some at a time, in index order.
static km_status chunks_join(const finisher *f, km_finish_model *models, int64_t count, km_error *err) {
    enum { NUMBERS = 1 << 22 };
    km_share *share = f->engine->base.share;
    int64_t numbers = chunk_numbers(f), all = km_chunks_of(f->engine->base.n_all),
            from = km_share_chunk(share);
    int64_t together = km_min(all, km_max(1, NUMBERS / numbers)), end = from + f->engine->chunks_count;
    double *joined = malloc((size_t)(together * numbers) * sizeof *joined);
    if (!joined) return km_fail_memory(err, "the sums of chunks", together * numbers * 8);
    km_status status = KM_OK;
    for (int64_t first = 0; first < all && status == KM_OK; first += together) {
        int64_t here = km_min(together, all - first), own = km_max(first, from),
                own_end = km_min(first + here, end);
        status = km_share_gather(share, joined, here, f->chunks + (own - from) * numbers, own - first,
                                 km_max(own_end - own, 0), numbers, err);
        for (int64_t i = 0; i < here && status == KM_OK; i++)
            collect(joined + i * numbers, joined + i * numbers + f->sums_count, models, count,
                    f->engine->base.d);
    }
    free(joined);
    return status;
}

static void model_clear(km_finish_model *model, int64_t d) {
    if (model->sums) memset(model->sums, 0, (size_t)(model->k * d) * sizeof *model->sums);
    memset(model->counts, 0, (size_t)model->k * sizeof *model->counts);
    memset(model->weights, 0, (size_t)model->k * sizeof *model->weights);
    memset(model->sse, 0, (size_t)model->k * sizeof *model->sse);
    memset(model->distance, 0, (size_t)model->k * sizeof *model->distance);
    memset(model->margin, 0, (size_t)model->k * sizeof *model->margin);
}

// The models from .. to - 1 of a chunk's points, first .. first + count - 1. 0: stopped.
static int finish_parts(const finisher *f, km_cpu_finish_model *own, const km_finish_model *models,
                        int64_t from, int64_t to, int64_t first, int64_t count) {
    cpu_finish_pass pass = f->pass;
    pass.count = to - from;
    for (int64_t at = first; at < first + count; at += PART_POINTS) {
        if (km_asking_stops(f->engine->base.asking)) return 0;
        for (int64_t m = from; m < to; m++)
            own[m].labels = models[m].labels ? models[m].labels + at
                            : models[m].sums ? labels_of(f, omp_get_thread_num(), m) + (at - first)
                                             : NULL;
        f->engine->layout->finish(&pass, own + from, at, km_min(PART_POINTS, first + count - at));
    }
    return 1;
}

// One chunk, by as many models side by side as a part's products allow, at least one; where points lie as CSR, whose
// loop asks itself, by all.
static int finish_chunk(const finisher *f, km_cpu_finish_model *own, const km_finish_model *models,
                        int64_t chunk) {
    int64_t first = chunk * KM_CHUNK_POINTS, count = cpu_chunk_points(f->engine, chunk);
    int64_t clusters_max = PART_PRODUCTS / PART_POINTS / f->engine->base.d;
    for (int64_t from = 0, to; from < f->pass.count; from = to) {
        int64_t clusters = models[from].k;
        for (to = from + 1; to < f->pass.count; to++) {
            clusters += models[to].k;
            if (clusters > clusters_max && !f->engine->sparse) break;
        }
        if (!finish_parts(f, own, models, from, to, first, count)) return 0;
    }
    return 1;
}

km_status km_cpu_finish_models(km_engine *base, km_finish_model *models, int64_t count, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    finisher f;
    km_status status = finisher_init(&f, engine, models, count, 1, err);
    if (status == KM_OK) status = point_sums_init(&f, models, count, err);
    if (status == KM_OK) status = chunks_init(&f, err);
    if (status != KM_OK) goto done;
    for (int64_t m = 0; m < count; m++) model_clear(&models[m], base->d);
    int threads = (int)f.pass.threads;
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t chunk = 0; chunk < engine->chunks_count; chunk++) {
        int64_t thread = omp_get_thread_num();
        if (!finish_chunk(&f, models_of(&f, thread), models, chunk)) continue;
        if (f.point_sums) add_points(&f, models, chunk * KM_CHUNK_POINTS, cpu_chunk_points(engine, chunk));
        if (f.chunks) {
            chunk_keep(&f, chunk, sums_of(&f, thread), point_sums_of(&f, thread));
            continue;
        }
#pragma omp ordered
        collect(sums_of(&f, thread), point_sums_of(&f, thread), models, count, base->d);
    }
    status = km_asking_status(base->asking, err);
    if (status == KM_OK && f.chunks) status = chunks_join(&f, models, count, err);
done:
    finisher_free(&f);
    return status;
}

// Farthest points ---------------------------------------------------------------------------------------------

enum { SPAN = 4096 }; // points whose squared distances are kept at a time (whole SoA groups)

typedef struct far_point {
    double square;
    int64_t point; // of those of all ranks
    int64_t at;    // as the engine counts it
    int32_t label;
    double weight;
} far_point;

// The farthest points with different coordinates, farthest first; equal distances by index.
typedef struct far_list {
    far_point *points;
    int64_t count, wanted;
    double square_min;   // squared distances up to this are rounding ...
    double rounding2;    // ... and those up to this part of the point's own |x|^2
    double *row, *other; // d each
} far_list;

static int is_farther(far_point a, far_point b) {
    return a.square > b.square || (a.square == b.square && a.point < b.point);
}

static int same_coordinates(const cpu_engine *engine, far_list *list, int64_t a, int64_t b) {
    km_cpu_row(list->row, engine, a);
    km_cpu_row(list->other, engine, b);
    for (int64_t f = 0; f < engine->base.d; f++)
        if (list->row[f] != list->other[f]) return 0;
    return 1;
}

// Whether the point lies on its centroid, but for rounding.
static int is_rounding(const far_list *list, const cpu_engine *engine, far_point next) {
    if (!(next.square > list->square_min)) return 1;
    double size = 0;
    km_cpu_row(list->row, engine, next.at);
    for (int64_t f = 0; f < engine->base.d; f++) size = fma(list->row[f], list->row[f], size);
    return !(next.square > list->rounding2 * size);
}

static void far_add(far_list *list, const cpu_engine *engine, far_point next) {
    if (list->count == list->wanted && !is_farther(next, list->points[list->count - 1])) return;
    if (is_rounding(list, engine, next)) return;
    int64_t at = 0;
    while (at < list->count && is_farther(list->points[at], next)) at++;
    // Points with the same coordinates have the same distance, so they stand next to `at`.
    for (int64_t i = at; i-- > 0 && list->points[i].square == next.square;)
        if (same_coordinates(engine, list, list->points[i].at, next.at)) return;
    int64_t last = list->count < list->wanted ? list->count : list->count - 1;
    for (int64_t i = at; i < list->count && list->points[i].square == next.square; i++)
        if (same_coordinates(engine, list, list->points[i].at, next.at)) last = i;
    if (last == list->count) list->count++;
    memmove(&list->points[at + 1], &list->points[at], (size_t)(last - at) * sizeof *list->points);
    list->points[at] = next;
}

static km_status far_init(far_list *list, int64_t wanted, const cpu_engine *engine, km_error *err) {
    int64_t d = engine->base.d;
    *list = (far_list){.wanted = wanted, .square_min = engine->square_min, .rounding2 = engine->rounding2};
    list->points = malloc((size_t)wanted * sizeof *list->points);
    list->row = malloc((size_t)(2 * d) * sizeof *list->row);
    list->other = list->row ? list->row + d : NULL;
    return list->points && list->row
               ? KM_OK
               : km_fail_memory(err, "the farthest points", wanted * (int64_t)sizeof *list->points);
}

static void far_free(far_list *list) {
    free(list->points);
    free(list->row);
}

static void far_chunk(far_list *list, const finisher *f, km_cpu_finish_model *own, double *squares,
                      int32_t *labels, int64_t chunk) {
    const cpu_engine *engine = f->engine;
    int64_t before = engine->base.share ? engine->base.share->first : 0;
    int64_t span = km_round_up(SPAN, engine->soa_points), points = cpu_chunk_points(engine, chunk);
    own->squares = squares;
    own->labels = labels;
    for (int64_t done = 0; done < points; done += span) {
        int64_t here = km_min(span, points - done), first = chunk * KM_CHUNK_POINTS + done;
        engine->layout->finish(&f->pass, own, first, here);
        for (int64_t i = 0; i < here; i++)
            if (!engine->weights || engine->weights[first + i] > 0)
                far_add(list, engine,
                        (far_point){squares[i], before + first + i, first + i, labels[i],
                                    engine->weights ? engine->weights[first + i] : 1});
    }
}

// The farthest points of all ranks, of each rank's: all that any of them needs.
static km_status far_join(far_list *list, cpu_engine *engine, km_error *err) {
    enum { SQUARE, POINT, LABEL, WEIGHT, IS_THERE, HEAD };
    km_share *share = engine->base.share;
    if (!share) return KM_OK;
    int64_t d = engine->base.d, width = HEAD + d, ranks = share->ranks->size, count = ranks * list->wanted;
    double *own = calloc((size_t)(list->wanted * width), sizeof *own);
    double *all = malloc((size_t)(count * width) * sizeof *all),
           *rows = malloc((size_t)(count * d) * sizeof *rows);
    km_status status = KM_OK;
    if (!own || !all || !rows) {
        status = km_fail_memory(err, "the farthest points", count * (width + d) * 8);
        goto done;
    }
    for (int64_t i = 0; i < list->count; i++) {
        double *to = own + i * width;
        to[SQUARE] = list->points[i].square;
        to[POINT] = (double)list->points[i].point;
        to[LABEL] = (double)list->points[i].label;
        to[WEIGHT] = list->points[i].weight;
        to[IS_THERE] = 1;
        km_cpu_row(to + HEAD, engine, list->points[i].at);
    }
    KM_TRY_GOTO(
        km_share_gather(share, all, count, own, share->ranks->rank * list->wanted, list->wanted, width, err));
    for (int64_t i = 0; i < count; i++)
        memcpy(rows + i * d, all + i * width + HEAD, (size_t)d * sizeof *rows);
    KM_TRY_GOTO(km_cpu_guests_put(engine, rows, count, err));
    list->count = 0;
    for (int64_t i = 0; i < count; i++) {
        const double *from = all + i * width;
        if (from[IS_THERE] != 0)
            far_add(list, engine,
                    (far_point){from[SQUARE], (int64_t)from[POINT], engine->base.n + i, (int32_t)from[LABEL],
                                from[WEIGHT]});
    }
done:
    free(own);
    free(all);
    free(rows);
    return status;
}

// Gives the points to the slot's empty clusters, in order. Those that get none may stay empty.
static km_status far_give(const cpu_engine *engine, cpu_slot *slot, const far_list *list, int64_t *moved,
                          km_error *err) {
    int64_t d = engine->base.d, pitch = engine->pitch, k = slot->k, count = 0;
    km_type type = engine->base.plan->spec.type;
    km_relocated_point *points = calloc((size_t)list->wanted, sizeof *points);
    double *rows = malloc((size_t)(list->wanted * d + k) * sizeof *rows), *weights = rows + list->wanted * d;
    km_status status =
        points && rows ? KM_OK : km_fail_memory(err, "the farthest points", list->wanted * d * 8);
    for (int64_t j = 0; status == KM_OK && j < k; j++) {
        weights[j] = slot->totals[j * pitch + d];
        if (slot->totals[j * pitch + d + 1] != 0 || slot->may_stay_empty[j]) continue;
        slot->may_stay_empty[j] = count == list->count || slot->state.at_limit;
        if (count == list->count) continue;
        const far_point *far = &list->points[count];
        km_cpu_row(rows + count * d, engine, far->at);
        points[count++] = (km_relocated_point){far->point, far->label, (int)j, far->weight};
    }
    if (status == KM_OK) {
        km_relocate_points(slot->centroids, weights, k, d, points, rows, count,
                           slot->state.is_updated && !engine->base.unit_centre);
        for (int64_t i = 0; i < k * d && type == KM_FLOAT32; i++)
            slot->centroids[i] = (double)(float)slot->centroids[i];
    }
    *moved = count;
    free(points);
    free(rows);
    return status;
}

km_status km_cpu_relocate(km_engine *base, int64_t slot_index, int64_t *moved, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    *moved = 0;
    if (slot_index < 0 || slot_index >= base->slots_count ||
        engine->slots[slot_index].state.phase != KM_SLOT_EMPTY)
        return km_fail(err, KM_ERROR_INTERNAL, "slot %lld has no empty cluster", (long long)slot_index);
    cpu_slot *slot = &engine->slots[slot_index];
    int64_t wanted = slot->relocatable_count;
    km_finish_model model = {.k = slot->k, .centroids = slot->before};
    int threads = cpu_threads_for(engine, engine->chunks_count);
    int64_t span = km_round_up(SPAN, engine->soa_points);
    far_list *lists = calloc((size_t)threads, sizeof *lists);
    double *squares = malloc((size_t)(threads * span) * sizeof *squares);
    int32_t *labels = malloc((size_t)(threads * span) * sizeof *labels);
    finisher f;
    km_status status = finisher_init(&f, engine, &model, 1, 0, err);
    if (status == KM_OK && (!lists || !squares || !labels))
        status = km_fail_memory(err, "the farthest points", threads * span * 12);
    if (status != KM_OK) goto done;
    for (int t = 0; t < threads; t++) KM_TRY_GOTO(far_init(&lists[t], wanted, engine, err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t chunk = 0; chunk < engine->chunks_count; chunk++) {
        int64_t me = omp_get_thread_num();
        if (!km_asking_stops(base->asking))
            far_chunk(&lists[me], &f, models_of(&f, me), squares + me * span, labels + me * span, chunk);
    }
    KM_TRY_GOTO(km_asking_status(base->asking, err));
    // Which points these are does not depend on which thread met them: farthest first, then lowest index.
    for (int t = 1; t < threads; t++)
        for (int64_t i = 0; i < lists[t].count; i++) far_add(&lists[0], engine, lists[t].points[i]);
    KM_TRY_GOTO(far_join(&lists[0], engine, err));
    KM_TRY_GOTO(far_give(engine, slot, &lists[0], moved, err));
    km_cpu_slot_tables(engine, slot);
    slot->relocatable_count = slot->are_means = 0;
    slot->state.phase = slot->state.at_limit ? KM_SLOT_LAST : KM_SLOT_RUNNING;
done:
    for (int t = 0; lists && t < threads; t++) far_free(&lists[t]);
    free(lists);
    free(squares);
    free(labels);
    km_cpu_guests_free(engine);
    finisher_free(&f);
    return status;
}

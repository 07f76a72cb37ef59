// SPDX-License-Identifier: MIT
// Relocate: empty clusters get the points farthest from the centroids of the last pass (cuda/steps/relocate.cu,
// relocation.h). One assignment of all points, or their labels, then one read of their distances for each cluster.
#include "../../base/error.h"
#include "../../base/size.h"
#include "cuda.h"
#include "../../templates/relocation.h"
#include "../seed.h"
#include "../share.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUED_PICKS = 64 }; // farthest points that are queued before the host reads the results

// A slot's clusters on the host, and the tables of the search on the device.
typedef struct relocation {
    km_cuda_engine *engine;
    int64_t slot, row, k, wanted;
    double *centroids, *before, *weights, *rows; // before: the centroids of the last pass
    unsigned char *given_up;                     // in the mirror
    int64_t *picks;
    km_relocated_point *moved;
    km_cu_ptr nearest, device_picks, subchunk_values, subchunk_indices;
} relocation;

static void relocation_free(relocation *r) {
    free(r->centroids);
    free(r->before);
    free(r->weights);
    free(r->picks);
    free(r->moved);
    free(r->rows);
}

static int is_empty(const relocation *r, int64_t j) {
    return !(r->weights[j] > 0) && !r->given_up[j];
}

static km_status relocation_begin(relocation *r, km_error *err) {
    km_cuda_engine *engine = r->engine;
    int64_t d = engine->base.d;
    r->centroids = malloc((size_t)(r->k * d) * sizeof *r->centroids);
    r->before = malloc((size_t)(r->k * d) * sizeof *r->before);
    r->weights = malloc((size_t)r->k * sizeof *r->weights);
    r->given_up = km_cuda_given_up(engine) + r->row;
    if (!r->centroids || !r->before || !r->weights)
        return km_fail_memory(err, "the clusters of a slot", r->k * (2 * d + 1) * 8);
    KM_TRY(km_cuda_get_rows(engine, r->centroids, &engine->centroids, r->row, r->k, err));
    KM_TRY(km_cuda_get_rows(engine, r->before, &engine->before, r->row, r->k, err));
    KM_TRY(km_cuda_get(engine, r->weights, engine->slot_weights.address + (km_cu_ptr)(r->row * 8), r->k * 8,
                       err));
    for (int64_t j = 0; j < r->k; j++) r->wanted += is_empty(r, j);
    r->picks = malloc((size_t)(r->wanted + 1) * sizeof *r->picks);
    r->rows = malloc((size_t)(r->wanted * d + 1) * sizeof *r->rows);
    r->moved = calloc((size_t)(r->wanted + 1), sizeof *r->moved);
    return r->picks && r->rows && r->moved
               ? KM_OK
               : km_fail_memory(err, "the farthest points", r->wanted * (d + 1) * 8);
}

// The same by labels that the pass has left.
static km_status measure_labelled(relocation *r, km_cu_ptr centroids, km_error *err) {
    km_cuda_engine *engine = r->engine;
    long long n = engine->base.n, stride = km_round_up(n, KM_ALIGN_BYTES);
    int label_bytes = (int)km_cuda_label_bytes(engine);
    km_cu_ptr labels = engine->labels.address + (km_cu_ptr)(r->slot * stride * label_bytes),
              labels_out = r->nearest + (km_cu_ptr)(n * 8);
    void *arguments[] = {
        &engine->points.address, &n, &labels, &label_bytes, &centroids, &r->nearest, &labels_out};
    return km_cuda_launch(engine, engine->kernels->farthest_squares, engine->subchunks_count, 1, arguments,
                          err);
}

// Each point's cluster, and its squared distance to that centroid.
static km_status measure(relocation *r, km_error *err) {
    km_cuda_engine *engine = r->engine;
    int64_t n = engine->base.n, d = engine->base.d;
    int64_t columns = engine->is_csr ? km_round_up(r->k * (d + 1) * 8, KM_ALIGN_BYTES) : 0;
    int64_t head = KM_ALIGN_BYTES, centroids = km_divide_up(r->k * d * 8, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
    km_cu_ptr table = engine->before.address + (km_cu_ptr)(r->row * d * engine->real_bytes);
    int64_t picks = km_divide_up((r->wanted + QUEUED_PICKS) * 8, KM_ALIGN_BYTES) * KM_ALIGN_BYTES;
    KM_TRY(km_cuda_point_scratch(&r->nearest, engine, n * 12, "the distances of a relocation", err));
    KM_TRY(km_cuda_reserve(engine, &engine->work,
                           head + centroids + columns + picks + 2 * engine->subchunks_count * 8,
                           "the farthest points", err));
    km_cu_ptr work = engine->work.address;
    r->device_picks = work + (km_cu_ptr)(head + centroids + columns);
    r->subchunk_values = r->device_picks + (km_cu_ptr)picks;
    r->subchunk_indices = r->subchunk_values + (km_cu_ptr)(engine->subchunks_count * 8);
    struct {
        long long row;
        int k;
    } run = {0, (int)r->k};
    KM_TRY(km_cuda_put(engine, work, &run, sizeof run, err));
    KM_TRY(km_cuda_put(engine, work + (km_cu_ptr)head, r->before, r->k * d * 8, err));
    if (engine->is_csr) {
        table = work + (km_cu_ptr)(head + centroids);
        KM_TRY(km_cuda_columns(engine, table, work + (km_cu_ptr)head, r->k, err));
    }
    if (km_cuda_bounds_keep_labels(engine)) return measure_labelled(r, work + (km_cu_ptr)head, err);
    km_assign_args args = {.points = (const void *)(uintptr_t)engine->points.address,
                           .count = n,
                           .centroids = (const double *)(uintptr_t)(work + (km_cu_ptr)head),
                           .table = (const void *)(uintptr_t)table,
                           .ks = (const int *)(uintptr_t)(work + 8),
                           .rows = (const long long *)(uintptr_t)work,
                           .nearest = (double *)(uintptr_t)r->nearest,
                           .labels = (int *)(uintptr_t)(r->nearest + (km_cu_ptr)(n * 8))};
    long long pitch = r->k;
    void *arguments[] = {&args, &args.table, &pitch}; // the last two of CSR points
    return km_cuda_launch(engine, engine->kernels->assign, engine->subchunks_count, 1, arguments, err);
}

// Finds the farthest points, one after the other: *found of them are in r->picks.
static km_status search(relocation *r, int64_t *found, km_error *err) {
    km_cuda_engine *engine = r->engine;
    *found = 0;
    while (*found < r->wanted) {
        int64_t first = *found, here = r->wanted - first < QUEUED_PICKS ? r->wanted - first : QUEUED_PICKS;
        for (int64_t p = 0; p < here; p++) {
            long long taken = first + p;
            void *block_arguments[] = {&engine->points.address, &engine->weights.address,
                                       &engine->base.n,         &engine->square_min,
                                       &engine->rounding2,      &r->nearest,
                                       &r->device_picks,        &taken,
                                       &r->subchunk_values,     &r->subchunk_indices};
            void *pick_arguments[] = {&r->subchunk_values, &r->subchunk_indices, &engine->subchunks_count,
                                      &engine->base.n,     &r->device_picks,     &taken};
            KM_TRY(km_cuda_launch(engine, engine->kernels->farthest_subchunk, engine->subchunks_count, 1,
                                  block_arguments, err));
            KM_TRY(km_cuda_launch(engine, engine->kernels->farthest_pick, 1, 1, pick_arguments, err));
        }
        KM_TRY(
            km_cuda_get(engine, r->picks + first, r->device_picks + (km_cu_ptr)(first * 8), here * 8, err));
        for (int64_t p = 0; p < here; p++) {
            if (r->picks[*found] < 0) return KM_OK; // no point is away from its centroid any more
            ++*found;
        }
    }
    return KM_OK;
}

// The clusters that points leave, and what the points weigh.
static km_status look_up(relocation *r, int64_t found, km_error *err) {
    km_cuda_engine *engine = r->engine;
    km_cu_ptr labels = r->nearest + (km_cu_ptr)(engine->base.n * 8);
    for (int64_t i = 0; i < found; i++) {
        km_relocated_point *moved = &r->moved[i];
        *moved = (km_relocated_point){.point = r->picks[i], .weight = 1};
        KM_TRY(km_cuda_get(engine, &moved->from, labels + (km_cu_ptr)(moved->point * 4), 4, err));
        if (!engine->weights.address) continue;
        KM_TRY(km_cuda_get(engine, &moved->weight, engine->weights.address + (km_cu_ptr)(moved->point * 8), 8,
                           err));
    }
    return found > 0 ? km_cuda_own_rows(engine, r->rows, r->picks, found, err) : KM_OK;
}

// With other ranks -----------------------------------------------------------------------------------------------

// A rank's point: its numbers, then its row. The squared distance is that of km_assign, to the bit.
enum { SQUARE, POINT, FROM, WEIGHT, IS_THERE, HEAD };

static void put_far(double *to, const relocation *r, int64_t i) {
    int64_t d = r->engine->base.d;
    const km_relocated_point *moved = &r->moved[i];
    const double *x = r->rows + i * d, *c = r->before + moved->from * d;
    double square = 0;
    for (int64_t f = 0; f < d; f++) {
        double t = x[f] - c[f];
        square = fma(t, t, square);
    }
    to[SQUARE] = square;
    to[POINT] = (double)(r->engine->base.share->first + moved->point);
    to[FROM] = moved->from;
    to[WEIGHT] = moved->weight;
    to[IS_THERE] = 1;
    memcpy(to + HEAD, x, (size_t)d * sizeof *x);
}

static int is_same(const double *a, const double *b, int64_t d) {
    int64_t f = 0;
    while (f < d && a[f] == b[f]) f++;
    return f == d;
}

// The farthest that none of those taken equals; NULL: there is none left.
static double *take_farthest(double *all, int64_t count, int64_t width, const relocation *r, int64_t taken) {
    int64_t d = r->engine->base.d;
    double *best = NULL;
    for (double *far = all; far < all + count * width; far += width) {
        int is_new = far[IS_THERE] != 0;
        for (int64_t i = 0; i < taken && is_new; i++) is_new = !is_same(r->rows + i * d, far + HEAD, d);
        if (!is_new) continue;
        if (!best || far[SQUARE] > best[SQUARE] || (far[SQUARE] == best[SQUARE] && far[POINT] < best[POINT]))
            best = far;
    }
    return best;
}

// Of the farthest points of each rank those of all.
static km_status join_far(relocation *r, int64_t *found, km_error *err) {
    km_share *share = r->engine->base.share;
    if (!share) return KM_OK;
    int64_t d = r->engine->base.d, width = HEAD + d, size = share->ranks->size, count = size * r->wanted;
    double *own = calloc((size_t)(r->wanted * width), sizeof *own),
           *all = malloc((size_t)(count * width) * sizeof *all);
    km_status status = own && all ? KM_OK : km_fail_memory(err, "the farthest points", count * width * 8);
    for (int64_t i = 0; i < *found && status == KM_OK; i++) put_far(own + i * width, r, i);
    if (status == KM_OK)
        status =
            km_share_gather(share, all, count, own, share->ranks->rank * r->wanted, r->wanted, width, err);
    *found = 0;
    while (status == KM_OK && *found < r->wanted) {
        double *far = take_farthest(all, count, width, r, *found);
        if (!far) break;
        r->moved[*found] = (km_relocated_point){
            .point = (long long)far[POINT], .from = (int)far[FROM], .weight = far[WEIGHT]};
        memcpy(r->rows + *found * d, far + HEAD, (size_t)d * sizeof *far);
        ++*found;
    }
    free(own);
    free(all);
    return status;
}

// Whether no point is away from the slot's centroids, because all of those are among them of which a search found that.
// Runs on data of few distinct points have the same centroids again and again.
static int is_known_to_fit(const relocation *r) {
    const km_cuda_engine *engine = r->engine;
    int64_t d = engine->base.d;
    for (int64_t i = 0; i < engine->fitting_count; i++) {
        int64_t j = 0;
        while (j < r->k && !is_same(engine->fitting + i * d, r->before + j * d, d)) j++;
        if (j == r->k) return 0;
    }
    return engine->fitting_count > 0;
}

// Keeps the slot's centroids, each once, where no point is away from them.
static void keep_fitting(const relocation *r, int64_t found) {
    enum { ROWS_MAX = 64 }; // comparing more takes long
    km_cuda_engine *engine = r->engine;
    int64_t d = engine->base.d, count = 0;
    int keeps =
        found == 0 && r->wanted > 0 && !engine->base.share; // ranks do the same only if none lacks memory
    double *rows = keeps ? malloc((size_t)(ROWS_MAX * d) * sizeof *rows) : NULL;
    if (!rows) return;
    for (int64_t j = 0; j < r->k && count <= ROWS_MAX; j++) {
        int64_t i = 0;
        while (i < count && !is_same(rows + i * d, r->before + j * d, d)) i++;
        if (i < count) continue;
        if (count < ROWS_MAX) memcpy(rows + count * d, r->before + j * d, (size_t)d * sizeof *rows);
        count++;
    }
    if (count > ROWS_MAX) {
        free(rows);
        return;
    }
    km_cuda_relocate_forget(engine);
    engine->fitting = rows;
    engine->fitting_count = count;
}

// Gives the points to the empty clusters, in order. Clusters that get none are marked as given up.
static km_status give_points(relocation *r, int64_t found, km_error *err) {
    km_cuda_engine *engine = r->engine;
    int64_t next = 0;
    km_slot_record *record = &km_cuda_records(engine)[r->slot];
    for (int64_t j = 0; j < r->k; j++) {
        if (!is_empty(r, j)) continue;
        r->given_up[j] = next == found || record->state.at_limit;
        if (next < found) r->moved[next++].to = (int)j;
    }
    km_relocate_points(r->centroids, r->weights, r->k, engine->base.d, r->moved, r->rows, found,
                       record->state.is_updated && engine->base.plan->spec.metric != KM_METRIC_COSINE);
    KM_TRY(km_cuda_put_rows(engine, &engine->centroids, r->row, r->centroids, r->k, err));
    km_cuda_set_phase(engine, r->slot, record->state.at_limit ? KM_SLOT_LAST : KM_SLOT_RUNNING);
    record->state.empty_count = 0;
    return KM_OK;
}

void km_cuda_relocate_forget(km_cuda_engine *engine) {
    free(engine->fitting);
    engine->fitting = NULL;
    engine->fitting_count = 0;
}

km_status km_cuda_relocate(km_cuda_engine *engine, int64_t slot, int64_t *moved, km_error *err) {
    km_status status = KM_OK;
    *moved = 0;
    if (slot < 0 || slot >= engine->base.slots_count ||
        km_cuda_records(engine)[slot].state.phase != KM_SLOT_EMPTY)
        return km_fail(err, KM_ERROR_INTERNAL, "slot %lld has no empty cluster", (long long)slot);
    relocation r = {.engine = engine,
                    .slot = slot,
                    .row = km_cuda_slot_row(engine, slot),
                    .k = km_cuda_slot_k(engine, slot)};
    KM_TRY_GOTO(relocation_begin(&r, err));
    if (!is_known_to_fit(&r)) {
        KM_TRY_GOTO(measure(&r, err));
        KM_TRY_GOTO(search(&r, moved, err));
        KM_TRY_GOTO(look_up(&r, *moved, err));
        KM_TRY_GOTO(join_far(&r, moved, err));
        keep_fitting(&r, *moved);
    }
    status = give_points(&r, *moved, err);
done:
    relocation_free(&r);
    return status;
}

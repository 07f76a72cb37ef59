// SPDX-License-Identifier: MIT
// The finishing pass, and the farthest points for empty clusters: both from squared distances that are bitwise the
// same on every backend.
#include "../rounding.h"
#include "cpu.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { SPAN = 4096 }; // points finished at a time (whole groups)

// What one thread needs for the points in hand.
typedef struct scratch {
    int32_t *labels;
    double *squares;
    double *sums; // of all members: k rows of KM_CPU_SUMS
} scratch;

static km_status scratch_init(scratch **out, const cpu_engine *engine, int threads, int64_t sums_count,
                              km_error *err) {
    int64_t span = cpu_round_up(SPAN, engine->group), sums = cpu_round_up(sums_count, 8);
    int64_t bytes =
        cpu_round_up(span * (int64_t)(sizeof(int32_t) + sizeof(double)) + sums * (int64_t)sizeof(double), 64);
    int64_t head = cpu_round_up(threads * (int64_t)sizeof **out, 64);
    uint8_t *memory = km_cpu_alloc(head + threads * bytes);
    *out = (scratch *)memory;
    if (!memory) return km_fail_memory(err, "the finishing pass", threads * bytes);
    for (int t = 0; t < threads; t++) {
        scratch *own = &(*out)[t];
        own->squares = (double *)(memory + head + t * bytes);
        own->sums = own->squares + span;
        own->labels = (int32_t *)(own->sums + sums);
        memset(own->sums, 0, (size_t)sums * sizeof *own->sums);
    }
    return KM_OK;
}

// What the kernel is asked of `count` points from `first` on, which starts a group.
static km_cpu_finish work_of(const cpu_engine *engine, const scratch *own, int64_t first, int64_t count) {
    return (km_cpu_finish){.points = engine->points + first * engine->base.d * engine->real_bytes,
                           .weights = cpu_weights_at(engine, first),
                           .points_count = count,
                           .d = engine->base.d,
                           .group = engine->group,
                           .labels = own->labels,
                           .squares = own->squares};
}

// Place of k in the plan's list; -1 where it is not there.
static int64_t index_of_k(const km_plan *plan, int64_t k) {
    for (int64_t i = 0; i < plan->spec.clusters_count; i++)
        if (plan->spec.clusters[i] == k) return i;
    return -1;
}

static void finish_block(const cpu_engine *engine, const scratch *own, int64_t block,
                         const km_finish_member *members, int64_t count) {
    int64_t span = cpu_round_up(SPAN, engine->group), points = cpu_block_points(engine, block);
    for (int64_t done = 0; done < points; done += span) {
        int64_t here = cpu_min(span, points - done), first = block * KM_BLOCK_POINTS + done;
        double *sums = own->sums;
        for (int64_t m = 0; m < count; m++) {
            const km_finish_member *member = &members[m];
            km_cpu_finish work = work_of(engine, own, first, here);
            work.k = member->k;
            work.k_index = index_of_k(engine->base.plan, member->k);
            work.centroids = member->centroids;
            work.sums = sums;
            engine->kernels.finish(&work);
            if (member->labels)
                memcpy(member->labels + first, own->labels, (size_t)here * sizeof *own->labels);
            sums += member->k * KM_CPU_SUMS;
        }
    }
}

// A block's sums join the members'; the rows are zero again afterwards.
static void collect(double *sums, km_finish_member *members, int64_t count) {
    double *at = sums;
    for (int64_t m = 0; m < count; m++)
        for (int64_t j = 0; j < members[m].k; j++, at += KM_CPU_SUMS) {
            members[m].weights[j] += at[KM_CPU_SUM_WEIGHT];
            members[m].counts[j] += (int64_t)at[KM_CPU_SUM_COUNT];
            members[m].sse[j] += at[KM_CPU_SUM_SSE];
            members[m].distance[j] += at[KM_CPU_SUM_DISTANCE];
            members[m].margin[j] += at[KM_CPU_SUM_MARGIN];
        }
    memset(sums, 0, (size_t)(at - sums) * sizeof *sums);
}

static void member_clear(km_finish_member *member) {
    memset(member->counts, 0, (size_t)member->k * sizeof *member->counts);
    memset(member->weights, 0, (size_t)member->k * sizeof *member->weights);
    memset(member->sse, 0, (size_t)member->k * sizeof *member->sse);
    memset(member->distance, 0, (size_t)member->k * sizeof *member->distance);
    memset(member->margin, 0, (size_t)member->k * sizeof *member->margin);
}

km_status km_cpu_finish_members(km_engine *base, km_finish_member *members, int64_t count, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    int64_t sums_count = 0;
    for (int64_t m = 0; m < count; m++) sums_count += members[m].k * KM_CPU_SUMS;
    int threads = cpu_threads_for(engine, engine->blocks_count);
    scratch *own = NULL;
    KM_TRY(scratch_init(&own, engine, threads, sums_count, err));
    for (int64_t m = 0; m < count; m++) member_clear(&members[m]);
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t block = 0; block < engine->blocks_count; block++) {
        const scratch *mine = &own[omp_get_thread_num()];
        finish_block(engine, mine, block, members, count);
#pragma omp ordered
        collect(mine->sums, members, count);
    }
    km_cpu_free(own);
    return KM_OK;
}

// Farthest points ---------------------------------------------------------------------------------------------

typedef struct far_point {
    double square;
    int64_t point;
} far_point;

// The farthest points with different coordinates, farthest first; equal distances by index.
typedef struct far_list {
    far_point *points;
    int64_t count, wanted;
    double square_min;   // squared distances up to this are rounding
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

static void far_add(far_list *list, const cpu_engine *engine, far_point next) {
    if (!(next.square > list->square_min)) return;
    if (list->count == list->wanted && !is_farther(next, list->points[list->count - 1])) return;
    int64_t at = 0;
    while (at < list->count && is_farther(list->points[at], next)) at++;
    // Points with the same coordinates have the same distance, so they stand next to this place.
    for (int64_t i = at; i-- > 0 && list->points[i].square == next.square;)
        if (same_coordinates(engine, list, list->points[i].point, next.point)) return;
    int64_t last = list->count < list->wanted ? list->count : list->count - 1;
    for (int64_t i = at; i < list->count && list->points[i].square == next.square; i++)
        if (same_coordinates(engine, list, list->points[i].point, next.point)) last = i;
    if (last == list->count) list->count++;
    memmove(&list->points[at + 1], &list->points[at], (size_t)(last - at) * sizeof *list->points);
    list->points[at] = next;
}

static km_status far_init(far_list *list, int64_t wanted, double square_min, int64_t d, km_error *err) {
    *list = (far_list){.wanted = wanted, .square_min = square_min};
    list->points = malloc((size_t)wanted * sizeof *list->points);
    list->row = malloc((size_t)(2 * d) * sizeof *list->row);
    list->other = list->row ? list->row + d : NULL;
    return list->points && list->row ? KM_OK : km_fail_memory(err, "the farthest points", wanted * 16);
}

static void far_free(far_list *list) {
    free(list->points);
    free(list->row);
}

static void far_block(far_list *list, const cpu_engine *engine, const scratch *own, int64_t block,
                      const cpu_slot *slot) {
    int64_t span = cpu_round_up(SPAN, engine->group), points = cpu_block_points(engine, block);
    for (int64_t done = 0; done < points; done += span) {
        int64_t here = cpu_min(span, points - done), first = block * KM_BLOCK_POINTS + done;
        km_cpu_finish work = work_of(engine, own, first, here);
        work.k = slot->k;
        work.k_index = slot->k_index;
        work.centroids = slot->centroids;
        engine->kernels.finish(&work);
        for (int64_t i = 0; i < here; i++)
            if (!engine->weights || engine->weights[first + i] > 0)
                far_add(list, engine, (far_point){own->squares[i], first + i});
    }
}

km_status km_cpu_relocate(km_engine *base, int64_t slot_index, int64_t *moved, km_error *err) {
    cpu_engine *engine = (cpu_engine *)base;
    *moved = 0;
    if (slot_index < 0 || slot_index >= base->slots_count || engine->slots[slot_index].phase != KM_SLOT_EMPTY)
        return km_fail(err, KM_ERROR_INTERNAL, "slot %lld has no empty cluster", (long long)slot_index);
    cpu_slot *slot = &engine->slots[slot_index];
    int64_t d = base->d, wanted = slot->waiting_count;
    double rounding2 = km_mean_rounding2(base->n, base->plan->spec.type);
    double square_min = rounding2 * engine->total_square / engine->total_weight;
    int threads = cpu_threads_for(engine, engine->blocks_count);
    scratch *own = NULL;
    km_status status = KM_OK;
    far_list *lists = calloc((size_t)threads, sizeof *lists);
    if (!lists) return km_fail_memory(err, "the farthest points", threads * (int64_t)sizeof *lists);
    KM_TRY_GOTO(scratch_init(&own, engine, threads, 0, err));
    for (int t = 0; t < threads; t++) KM_TRY_GOTO(far_init(&lists[t], wanted, square_min, d, err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t block = 0; block < engine->blocks_count; block++) {
        int64_t me = omp_get_thread_num();
        far_block(&lists[me], engine, &own[me], block, slot);
    }
    // Which points these are does not depend on which thread met them: farthest first, then lowest index.
    for (int t = 1; t < threads; t++)
        for (int64_t i = 0; i < lists[t].count; i++) far_add(&lists[0], engine, lists[t].points[i]);
    for (int64_t j = 0; j < slot->k; j++) {
        if (slot->totals[j * engine->pitch + d + 1] != 0 || slot->given_up[j]) continue;
        slot->given_up[j] = *moved == lists[0].count || slot->at_limit;
        if (*moved < lists[0].count)
            km_cpu_row(slot->centroids + j * d, engine, lists[0].points[(*moved)++].point);
    }
    km_cpu_table(slot->table, slot->centroids, slot->k, d, base->plan->spec.type);
    slot->waiting_count = slot->settled = 0;
    slot->phase = slot->at_limit ? KM_SLOT_LAST : KM_SLOT_RUNNING;
done:
    for (int t = 0; t < threads; t++) far_free(&lists[t]);
    free(lists);
    km_cpu_free(own);
    return status;
}

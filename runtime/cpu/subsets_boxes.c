// SPDX-License-Identifier: MIT
// Subsets with many passes before them: their points are put into an order in which neighbours lie together
// (tiles_sort.c), once for all runs, and a pass scores only the centroids that may be the nearest in a box of them. The
// order takes as long as some passes over the table.
#include "../../base/error.h"
#include "../../base/size.h"
#include "subsets.h"
#include "tiles_fill.h"
#include <string.h>

enum {
    POINTS_LEAST = 16384, // fewer stay in the cache, and boxes of them are wide
    PASSES_LEAST = 45,    // of all runs of a K; the order takes as long as about 25
    PASSES_TYPICAL = 30   // of a run, at most
};
// Boxes stay as long as the scores of points that they leave are less than this part of all. What is left costs more
// than in a pass over the table, as all its points are added.
static const double pays_below = 0.5;

int km_cpu_subset_has_boxes(const cpu_subset_task *t, const cpu_subset_block *b) {
    const km_subsets_job *job = b->job;
    const cpu_engine *view = &t->view;
    int64_t passes = job->restarts * km_min(job->max_iter, PASSES_TYPICAL);
    return t->columns && t->columns->boxes_pass && b->k_max <= SUBSET_BOX_CLUSTERS_MAX &&
           view->base.n >= POINTS_LEAST && view->base.n <= UINT32_MAX && passes >= PASSES_LEAST &&
           view->largest_square < 1e36 && (view->typical_square > 1e-24 || view->typical_square == 0);
}

static void boxes_free(cpu_subset_boxes *boxes) {
    km_pages_free(boxes->points);
    km_pages_free(boxes->sums);
    km_pages_free(boxes->midpoint);
}

// Bits of the sorting code of each column but one, whose cells are full of boxes in the order of that one: as many as
// make boxes about as long as wide.
static int64_t cell_bits(const cpu_engine *view) {
    int64_t d = view->base.d, bits = 0;
    while ((int64_t)SUBSET_BOX_POINTS << d * (bits + 1) <= view->base.n << d / 2) bits++;
    return d > 1 ? km_max(bits, 1) : 0;
}

static km_status boxes_alloc(cpu_subset_boxes *boxes, const cpu_engine *view, int64_t cells, km_error *err) {
    enum { VECTOR = 16 };
    int64_t d = view->base.d, most = km_divide_up(view->base.n, SUBSET_BOX_POINTS) + cells;
    int64_t stride = km_round_up(most, VECTOR), points = most * SUBSET_BOX_POINTS * d;
    *boxes = (cpu_subset_boxes){.size = d, .stride = stride};
    int64_t numbers = (2 * d + 1) * stride, sums = (d + 1) * stride;
    boxes->points = km_pages_alloc(points * (int64_t)sizeof(float));
    boxes->sums = km_pages_alloc(sums * (int64_t)sizeof(double));
    boxes->midpoint = km_pages_alloc(numbers * (int64_t)sizeof(float));
    if (!boxes->points || !boxes->sums || !boxes->midpoint)
        return km_fail_memory(err, "the boxes of a subset", points * 4 + sums * 8);
    memset(boxes->midpoint, 0, (size_t)numbers * sizeof(float));
    memset(boxes->sums, 0, (size_t)sums * sizeof(double));
    boxes->half = boxes->midpoint + d * stride;
    boxes->square = boxes->half + d * stride;
    return KM_OK;
}

// The points as rows, from columns that are brought together.
static void rows_take(float *rows, const cpu_engine *view) {
    int64_t d = view->base.d, n = view->base.n;
    const float *columns = (const float *)(const void *)view->points;
    for (int64_t base = 0; base < n; base += SUBSET_GROUP, columns += d * SUBSET_GROUP)
        for (int64_t i = 0; i < km_min(SUBSET_GROUP, n - base); i++)
            for (int64_t f = 0; f < d; f++) *rows++ = columns[f * SUBSET_GROUP + i];
}

// Points of one cell, in their order: a box has no others.
static void boxes_fill(cpu_subset_boxes *boxes, const cpu_subset_task *t, const cpu_sorter *sorter,
                       int64_t in_cell_bits, const float *rows) {
    int64_t n = t->view.base.n, first = 0;
    const uint64_t *keys = sorter->keys;
    for (int64_t i = 1; i <= n; i++) {
        if (i < n && i - first < SUBSET_BOX_POINTS && (keys[i] ^ keys[first]) >> (32 + in_cell_bits) == 0)
            continue;
        t->columns->box_fill(boxes, boxes->count++, keys + first, i - first, rows);
        first = i;
    }
}

static km_status boxes_make(cpu_subset_boxes *boxes, const cpu_subset_task *t, km_error *err) {
    const cpu_engine *view = &t->view;
    int64_t bytes = view->base.n * view->base.d * (int64_t)sizeof(float), bits = cell_bits(view);
    int64_t bits_of_cells = bits * (view->base.d - 1);
    cpu_sorter sorter = {.bits = 0};
    float *rows = km_pages_alloc(bytes);
    km_status status = rows ? KM_OK : km_fail_memory(err, "the points of a subset", bytes);
    KM_TRY_GOTO(status);
    rows_take(rows, view);
    KM_TRY_GOTO(km_cpu_sorter_run(&sorter, view, km_cpu_tiles_kernels(view->base.plan), rows, bits, err));
    KM_TRY_GOTO(boxes_alloc(boxes, view, (int64_t)1 << bits_of_cells, err));
    boxes_fill(boxes, t, &sorter, sorter.bits - bits_of_cells, sorter.carried ? sorter.carried : rows);
done:
    km_cpu_sorter_free(&sorter);
    km_pages_free(rows);
    return status;
}

// A pass of all runs: boxes that are in the cache serve each of them. Returns the part of a whole pass's scores
// that was needed.
static double boxes_pass(cpu_subset_task *t, cpu_subset_block *b, const cpu_subset_boxes *boxes) {
    double scored = 0, all = 0;
    for (int64_t s = 0; s < t->view.base.slots_count; s++) {
        cpu_slot *slot = &t->slots[s];
        if (!km_slot_is_active(slot->state.phase)) continue;
        slot->changed = t->view.base.n; // not known; means of the same labels are the same floats
        memset(slot->totals, 0, (size_t)(slot->k * t->view.pitch) * sizeof *slot->totals);
        all += (double)(slot->k * t->view.base.n);
    }
    for (int64_t begin = 0; begin < boxes->count; begin += SUBSET_BOXES)
        for (int64_t s = 0; s < t->view.base.slots_count; s++) {
            cpu_slot *slot = &t->slots[s];
            if (!km_slot_is_active(slot->state.phase)) continue;
            cpu_subset_run run = {.k = slot->k, .table = slot->table, .sums = b->sums};
            t->columns->boxes_pass(boxes, begin, km_min(begin + SUBSET_BOXES, boxes->count), &run);
            km_cpu_subset_add(slot->totals, b->sums, slot->k, &t->view);
            scored += (double)run.scored;
        }
    return scored / all;
}

km_status km_cpu_subset_boxes_run(cpu_subset_task *t, cpu_subset_block *b, km_error *err) {
    cpu_subset_boxes boxes = {.count = 0};
    km_status status = KM_OK;
    double part = 0;
    KM_TRY_GOTO(km_cpu_subset_gather_all(t, b, err));
    KM_TRY_GOTO(boxes_make(&boxes, t, err));
    t->view.points = NULL;
    while (t->running && part < pays_below) {
        part = boxes_pass(t, b, &boxes);
        KM_TRY_GOTO(km_cpu_subset_step(t, b, err));
        KM_TRY_GOTO(km_subsets_ask_stopped(b->job, err));
    }
    // Passes over the table, and the last read, find labels anew.
    for (int64_t s = 0; s < t->view.base.slots_count; s++) {
        cpu_slot *slot = &t->slots[s];
        slot->mode = KM_CPU_FIRST;
        memset(slot->totals, 0, (size_t)(slot->k * t->view.pitch) * sizeof *slot->totals);
    }
done:
    t->view.points = NULL;
    boxes_free(&boxes);
    return status;
}

int64_t km_cpu_subset_boxes_bytes(int64_t n, int64_t size) {
    // Keys, twice; rows, twice; and boxes, of which some are not full.
    int64_t boxes = 2 * km_divide_up(n, SUBSET_BOX_POINTS);
    return 16 * n + 8 * n * size +
           boxes * (4 * SUBSET_BOX_POINTS * size + 8 * (size + 1) + 4 * (2 * size + 1));
}

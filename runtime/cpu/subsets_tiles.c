// SPDX-License-Identifier: MIT
// A tile of rows for the subsets in work: its columns where they lie or brought together, what is fetched ahead, and a
// pass over it.
#include "subsets.h"
#include "../../base/error.h"
#include "../../base/size.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

void km_cpu_subset_gather_from(uint8_t *to, const cpu_engine *table, const km_subset *subset, int64_t first,
                               int64_t count, int64_t column) {
    enum {
        SOA_GROUP_BYTES = 64 * (int)sizeof(float),
        AHEAD = 4
    }; // SoA groups lie too far apart to be foreseen
    int64_t bytes = table->soa_points * table->real_bytes, d = table->base.d;
    const uint8_t *soa_group = table->points + first * d * table->real_bytes;
    for (int64_t done = 0; done < count; done += table->soa_points, soa_group += d * bytes) {
        to += column * bytes;
        for (int64_t f = column; f < subset->size; f++, to += bytes) {
            const uint8_t *from = soa_group + subset->columns[f] * bytes;
            for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + AHEAD * d * bytes + at);
            if (bytes == SOA_GROUP_BYTES)
                memcpy(to, from, SOA_GROUP_BYTES);
            else
                memcpy(to, from, (size_t)bytes);
        }
    }
}

void km_cpu_subset_gather(void *out, const cpu_engine *table, const km_subset *subset, int64_t first,
                          int64_t count) {
    km_cpu_subset_gather_from(out, table, subset, first, count, 0);
}

cpu_subset_tile km_cpu_subset_tile(const cpu_engine *table, const km_subset *subset, int64_t first,
                                   int64_t count) {
    int64_t d = table->base.d;
    cpu_subset_tile tile = {.size = subset->size, .step = SUBSET_GROUP * d, .count = count};
    for (int64_t f = 0; f < subset->size; f++)
        tile.columns[f] = table->points + (first * d + subset->columns[f] * SUBSET_GROUP) * table->real_bytes;
    return tile;
}

km_status km_cpu_subset_labels(cpu_subset_task *t, cpu_subset_block *b, km_error *err) {
    int64_t slots = t->view.base.slots_count, bytes = cpu_subset_label_bytes(b->table);
    if (!b->labels) b->labels = km_pages_alloc(b->count * slots * bytes);
    if (!b->labels) return km_fail_memory(err, "the labels of the runs of subsets", b->count * slots * bytes);
    t->labels = b->labels + (t - b->tasks) * slots * bytes;
    for (int64_t s = 0; s < slots; s++) t->slots[s].labels = t->labels + s * bytes;
    return KM_OK;
}

void km_cpu_subset_add(double *totals, double *sums, int64_t k, const cpu_engine *view) {
    int64_t d = view->base.d;
    for (int64_t j = 0; j < k; j++, totals += view->pitch, sums += SUBSET_ROW) {
        for (int64_t f = 0; f <= d; f++) totals[f] += sums[f];
        totals[d + 1] += sums[d];
        memset(sums, 0, SUBSET_ROW * sizeof *sums);
    }
}

cpu_subset_ahead km_cpu_subset_ahead(const cpu_subset_block *b, int64_t i, int64_t s, int64_t first,
                                     int is_last, int with_points) {
    const cpu_engine *table = b->table;
    int64_t n = table->base.n, next = first + SUBSET_TILE_POINTS, row = table->base.d * table->real_bytes;
    int is_end = i + 1 == b->count;
    const cpu_subset_task *t = &b->tasks[is_end ? 0 : i + 1];
    int64_t at = is_end ? next : first;
    cpu_subset_ahead ahead = {0};
    if (is_last) s += t->fits[s].restart * b->job->clusters_count;
    if (t->labels && at < n && cpu_subset_takes_part(t, s, b->job->clusters_count, is_last)) {
        ahead.labels = (const uint8_t *)t->slots[s].labels + at;
        ahead.labels_lines = km_divide_up(km_min(SUBSET_TILE_POINTS, n - at), LINE);
    }
    if (!with_points || next >= n) return ahead;
    int64_t lines = km_min(SUBSET_TILE_POINTS, n - next) * row / LINE, part = km_divide_up(lines, b->count);
    ahead.points = table->points + next * row + i * part * LINE;
    ahead.points_lines = km_max(km_min(part, lines - i * part), 0);
    return ahead;
}

void km_cpu_subset_fetch(const cpu_subset_block *b, int64_t i, int64_t first, int is_last) {
    int64_t count = is_last ? b->job->clusters_count : b->tasks[i].view.base.slots_count;
    for (int64_t s = 0; s < count; s++) {
        cpu_subset_ahead ahead = km_cpu_subset_ahead(b, i, s, first, is_last, s == 0);
        for (int64_t l = 0; l < ahead.labels_lines; l++) __builtin_prefetch(ahead.labels + l * LINE, 1);
        for (int64_t l = 0; l < ahead.points_lines; l++) __builtin_prefetch(ahead.points + l * LINE, 0, 2);
    }
}

void km_cpu_subset_pass(cpu_subset_task *t, cpu_subset_block *b, int64_t first, int64_t points, int is_last) {
    int64_t slots = t->view.base.slots_count, count = 0, pitch = t->view.pitch, ks = b->job->clusters_count;
    for (int64_t s = 0; s < slots; s++) {
        cpu_slot *slot = &t->slots[s];
        if (!cpu_subset_takes_part(t, s, ks, is_last)) continue;
        b->list[count++] = (km_cpu_slot){.k = slot->k,
                                         .k_index = slot->k_index,
                                         .table = slot->table,
                                         .labels = (uint8_t *)slot->labels + first,
                                         .sums = cpu_subset_partial(t, slot),
                                         .mode = slot->mode,
                                         .labels_bytes = slot->labels_bytes};
    }
    km_cpu_chunk work = {.points = b->tile,
                         .weights = cpu_weights_at(b->table, first),
                         .points_count = points,
                         .d = t->view.base.d,
                         .soa_points = b->table->soa_points,
                         .slots = b->list,
                         .slots_count = count};
    t->view.kernels.pass(&work);
    for (int64_t s = 0, at = 0; s < slots; s++) {
        cpu_slot *slot = &t->slots[s];
        if (!cpu_subset_takes_part(t, s, ks, is_last)) continue;
        const km_cpu_slot *listed = &b->list[at++];
        double *sums = cpu_subset_partial(t, slot);
        slot->changed += listed->changed;
        if (listed->mode == KM_CPU_MOVE && listed->changed == 0) continue;
        for (int64_t i = 0; i < slot->k * pitch; i++) slot->totals[i] += sums[i];
        memset(sums, 0, (size_t)(slot->k * pitch) * sizeof *sums);
    }
}
